"""Parameters of two results as combinations of the same standard parameters.

A base parameter is a linear combination m of standard parameters s. Two
results of one robot may have different combinations: another tie,
another choice of independent columns, a geometry with other digits.
With the rows of M_b for the parameters b of one result, a combination m
of the other is re-expressed by weights t,

    m s  =  t M_b s + (m - t M_b) s,

of which the first term is known with variance t C_b t^T. The second
term, the mismatch of the combinations, is zero where m is a combination
of the rows of M_b. Otherwise its variance is that of standard
parameters of the size that the robot file gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import combination_text
from gough.core.names import INERTIAL, Parameter
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.identification.result import Identification

# A combination is compared if no more than this fraction of its size
# has no equal.
MAX_MISMATCH_FRACTION = 0.1
# Below this fraction the mismatch of combinations is rounding.
ROUNDING_MISMATCH_FRACTION = 1e-6
# Parameters that contribute less than this fraction are left out of a
# printed formula, and do not set the degrees of freedom of a sum.
MIN_CONTRIBUTION = 1e-3
MAX_FORMULA_TERMS = 4
FIRST_MOMENTS = INERTIAL[1:4]
SECOND_MOMENTS = INERTIAL[4:]


@dataclass(frozen=True, kw_only=True, eq=False)
class CombinationValues:
    """Values of combinations of standard parameters that one result gives."""

    values: FloatArray  # (k,)
    covariance: FloatArray  # (k, k)
    degrees_of_freedom: FloatArray  # of each variance, (k,)

    @property
    def std(self) -> FloatArray:
        """Standard errors, (k,)."""
        return np.sqrt(np.diag(self.covariance))


@dataclass(frozen=True, kw_only=True, eq=False)
class CommonParameters:
    """Parameters that two results determine, each with its value in both."""

    names: tuple[Parameter, ...]  # (k,)
    # by the parameters of the result that has another combination; else
    # empty, (k,)
    formulas: tuple[str, ...]
    first: CombinationValues  # in the first result
    other: CombinationValues  # in the other result
    # covariance of what differs between the combinations, (k, k)
    mismatch: FloatArray
    # not expressible by the other's parameters
    first_only: tuple[Parameter, ...]
    # not expressible by the first's parameters
    other_only: tuple[Parameter, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Combinations:
    """Estimated parameters as combinations of standard parameters."""

    parameters: tuple[Parameter, ...]  # (b,)
    covariance: FloatArray  # of the estimate, (b, b)
    # coefficients times the size of the standard parameters, (b, p)
    scaled: FloatArray

    def __len__(self) -> int:
        return len(self.parameters)

    def names(self, rows: Sequence[int]) -> tuple[Parameter, ...]:
        """Return the names of some parameters."""
        return tuple(self.parameters[row] for row in rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Expression:
    """Combinations of one result by the parameters of another."""

    weights: FloatArray  # of the parameters, (b, c)
    # what they do not express, times the size of the parameters, (b, p)
    mismatch: FloatArray
    # norm of the mismatch over that of the combination, (b,) [1]
    fraction: FloatArray

    @property
    def expressible(self) -> list[int]:
        """Rows that the parameters of the other result express."""
        return [int(row) for row in np.flatnonzero(self.fraction <= MAX_MISMATCH_FRACTION)]

    @property
    def inexpressible(self) -> list[int]:
        """Rows that they do not."""
        return [int(row) for row in np.flatnonzero(self.fraction > MAX_MISMATCH_FRACTION)]


def common_parameters(
    first_model: Model,
    first: Identification,
    other_model: Model,
    other: Identification,
) -> CommonParameters:
    """Return the parameters that two results have in common by their meaning.

    Parameters of the first result come first, then those of the other
    that are no combination of them. Where legs are tied in one result
    only, both are expressed in tied standard parameters.
    """
    ties = _ties(first_model, first) | _ties(other_model, other)
    standard = list(dict.fromkeys([*_columns(first, ties), *_columns(other, ties)]))
    sizes = np.maximum(_sizes(first_model, standard), _sizes(other_model, standard))
    in_first = _combinations(first, standard, sizes, ties)
    in_other = _combinations(other, standard, sizes, ties)
    first_by_other = _express(in_first, in_other)
    other_by_first = _express(in_other, in_first)
    kept = first_by_other.expressible
    added = _additional(
        in_first.scaled[kept],
        in_other.scaled,
        other_by_first.expressible,
    )
    mismatch = np.concatenate([-first_by_other.mismatch[kept], other_by_first.mismatch[added]])
    first_weights = np.concatenate([np.eye(len(in_first))[kept], other_by_first.weights[added]])
    other_weights = np.concatenate([first_by_other.weights[kept], np.eye(len(in_other))[added]])
    return CommonParameters(
        names=(*in_first.names(kept), *in_other.names(added)),
        formulas=(
            *_formulas(first_by_other.weights[kept], in_other),
            *_formulas(other_by_first.weights[added], in_first),
        ),
        first=_values(first.estimate, first_weights),
        other=_values(other.estimate, other_weights),
        mismatch=mismatch @ mismatch.T,
        first_only=in_first.names(first_by_other.inexpressible),
        other_only=in_other.names(other_by_first.inexpressible),
    )


def _ties(model: Model, result: Identification) -> dict[Parameter, Parameter]:
    """Return the tied parameter of each standard parameter that a result has tied."""
    tied_name = {}
    for tied, members in model.mechanism.ties.items():
        if tied in result.base.standard:
            tied_name.update(dict.fromkeys(members, tied))
    return tied_name


def _columns(result: Identification, ties: Mapping[Parameter, Parameter]) -> list[Parameter]:
    """Return the standard parameters behind an estimate; drive gains are their own."""
    columns = [ties.get(name, name) for name in result.base.standard]
    for name in result.estimate.parameters:
        if name not in result.base.names:
            columns.append(name)
    return columns


def _sizes(model: Model, standard: Sequence[Parameter]) -> FloatArray:
    """Return the size of each standard parameter by the robot file, (p,).

    First and second moments of a body have the size of all three or six
    of them, or of its mass times the robot's length where the file
    gives none. What is not in the file has the size one.
    """
    in_file = model.mechanism.standard.as_dict()
    masses = [abs(number) for name, number in in_file.items() if Parameter(name).kind == "m"]
    mean_mass = float(np.mean(masses or [0.0])) or 1.0
    sizes = np.ones(len(standard))
    for k, name in enumerate(standard):
        member = model.mechanism.ties.get(name, (name,))[0]
        if member in in_file and name.kind in INERTIAL:
            sizes[k] = _inertial_size(member, in_file, mean_mass, model.loops.length)
        elif in_file.get(member):
            sizes[k] = abs(in_file[member])
    return sizes


def _inertial_size(
    name: Parameter, in_file: Mapping[str, float], mean_mass: float, length: float
) -> float:
    """Return the size of an inertial parameter of a body."""
    mass = abs(in_file.get(Parameter.of(name.owner, "m"), 0.0)) or mean_mass
    if name.kind == "m":
        return mass
    kinds: tuple[str, ...] = FIRST_MOMENTS
    fallback = mass * length
    if name.kind in SECOND_MOMENTS:
        kinds = SECOND_MOMENTS
        fallback = mass * length**2
    moments = [in_file.get(Parameter.of(name.owner, kind), 0.0) for kind in kinds]
    return float(np.linalg.norm(moments)) or fallback


def _combinations(
    result: Identification,
    standard: Sequence[Parameter],
    sizes: FloatArray,
    ties: Mapping[Parameter, Parameter],
) -> _Combinations:
    """Return the parameters of a result as combinations of common standard parameters."""
    column_of = {name: k for k, name in enumerate(standard)}
    base = result.base
    matrix = np.zeros((len(result.estimate), len(standard)))
    for row, name in enumerate(result.estimate.parameters):
        if name not in base.names:
            matrix[row, column_of[name]] = 1.0
            continue
        coefficients = base.matrix[base.names.index(name)]
        for column, coefficient in zip(base.standard, coefficients):
            matrix[row, column_of[ties.get(column, column)]] += coefficient
    return _Combinations(
        parameters=result.estimate.parameters,
        covariance=result.estimate.covariance,
        scaled=matrix * sizes,
    )


def _express(wanted: _Combinations, given: _Combinations) -> _Expression:
    """Express combinations of one result by the parameters of another.

    The weights are those of least squares in the space of combinations,
    or one on the nearest parameter alone, whichever gives the smaller
    variance: with a geometry of other digits, least squares would add
    small fractions of poorly known parameters.
    """
    norm = np.linalg.norm(given.scaled, axis=1)
    directions = given.scaled / norm[:, None]
    solution = np.linalg.lstsq(directions.T, wanted.scaled.T, rcond=1e-10)[0]
    weights = solution.T / norm
    for row, combination in enumerate(wanted.scaled):
        distance = np.linalg.norm(given.scaled - combination, axis=1)
        alone = np.zeros(len(given))
        alone[np.argmin(distance)] = 1.0
        variances = []
        for candidate in (alone, weights[row]):
            mismatch = combination - candidate @ given.scaled
            variances.append(candidate @ given.covariance @ candidate + mismatch @ mismatch)
        if variances[0] <= variances[1] * (1 + ROUNDING_MISMATCH_FRACTION):
            weights[row] = alone
    mismatch = wanted.scaled - weights @ given.scaled
    fraction = np.linalg.norm(mismatch, axis=1) / np.linalg.norm(wanted.scaled, axis=1)
    mismatch[fraction < ROUNDING_MISMATCH_FRACTION] = 0.0
    return _Expression(weights=weights, mismatch=mismatch, fraction=fraction)


def _additional(chosen: FloatArray, scaled: FloatArray, candidates: Sequence[int]) -> list[int]:
    """Return the candidate rows that are no combination of the chosen ones and each other."""
    basis = chosen
    rows: list[int] = []
    for row in candidates:
        norm = np.linalg.norm(basis, axis=1, keepdims=True)
        directions = basis / norm
        weights = np.linalg.lstsq(directions.T, scaled[row], rcond=1e-10)[0]
        remainder = scaled[row] - weights @ directions
        if np.linalg.norm(remainder) > MAX_MISMATCH_FRACTION * np.linalg.norm(scaled[row]):
            basis = np.concatenate([basis, scaled[row : row + 1]])
            rows.append(row)
    return rows


def _values(estimate: Estimate, weights: FloatArray) -> CombinationValues:
    """Return the values of weighted sums of estimated parameters.

    The degrees of freedom of a sum are the fewest of the parameters
    that contribute to its standard error.
    """
    contributions = np.abs(weights) * estimate.std
    largest = contributions.max(axis=1, initial=0.0, keepdims=True)
    contributes = contributions >= MIN_CONTRIBUTION * largest
    freedom = np.where(contributes & (weights != 0), estimate.degrees_of_freedom, np.inf)
    return CombinationValues(
        values=weights @ estimate.values,
        covariance=weights @ estimate.covariance @ weights.T,
        degrees_of_freedom=freedom.min(axis=1, initial=np.inf),
    )


def _formulas(weights: FloatArray, given: _Combinations) -> list[str]:
    """Return each weighted sum of parameters in words; empty if it is one of them.

    Terms that contribute less than `MIN_CONTRIBUTION` are left out.
    """
    contributions = np.abs(weights) * np.linalg.norm(given.scaled, axis=1)
    formulas = []
    for row, contribution in zip(weights, contributions):
        terms = np.flatnonzero(contribution > MIN_CONTRIBUTION * contribution.max())
        if len(terms) == 1 and abs(row[terms[0]] - 1) < MIN_CONTRIBUTION:
            formulas.append("")
            continue
        shown = terms[:MAX_FORMULA_TERMS]
        formula = combination_text(row[shown], [given.parameters[k] for k in shown])
        if len(terms) > MAX_FORMULA_TERMS:
            formula += " + ..."
        formulas.append(formula)
    return formulas
