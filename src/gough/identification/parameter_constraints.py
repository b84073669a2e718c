"""Parameters that are fixed, tied or bounded by name: the estimate under these constraints.

A user may name any standard parameter s, although only b = M s of them
acts on the efforts. The stated equations R s = c have two effects:

- Where a combination U R of them is one of the base parameters, U R = A M, it constrains the fit:
  A b = U c. With the estimate x and its covariance S

      x' = x + K (U c - A x),   S' = S - K A S,   K = S A^T (A S A^T)^-1,

  which is least squares under equality constraints where S is that of generalised least squares
  (Seber and Lee, Linear Regression Analysis, 3.8).
- The other combinations change no prediction. They divide base parameters into their members: with
  `rod.mx` known, `platform.m` follows from `platform.mR = platform.m + 7.5 rod.mx`. Every standard
  parameter that b and R s = c determine together, but b alone does not, is a derived parameter.

Bounds give the nearest point to x' in the metric of S' inside of them;
those that are reached then act as equalities.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import qr

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.errors import InvalidInput, nearest
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.record import Record
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.fitting.solve import null_space

Bounds = Mapping[str, tuple[float, float]]
# of rows that express parameters by others, relative
COMBINATION_ROUNDING = 1e-8
# of stated values that other stated values imply, relative
CONTRADICTION_ROUNDING = 1e-6
REACHED_RATIO = 1e-9  # of the standard error, within which a bound is reached
SHOWN_DERIVED = 6  # derived parameters in a notice
TIED_TEXT = re.compile(r"\s*(?:([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*\*?\s*)?(\S+)\s*")


@dataclass(frozen=True, kw_only=True, eq=False)
class StatedEquation(Record):
    """A linear equation that the user states: sum(coefficient * parameter) = value."""

    coefficients: Mapping[str, float]  # by parameter
    value: float = 0.0

    @property
    def name(self) -> str:
        """The parameter that is fixed or tied."""
        return next(iter(self.coefficients))


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedEstimate(Record):
    """An estimate under constraints, and what follows from it with the stated equations."""

    estimate: Estimate
    stated: tuple[StatedEquation, ...]
    # standard parameters that the estimate and the stated equations
    # determine together
    derived: ParameterTable


def no_parameters() -> ParameterTable:
    """Return an empty table."""
    return ParameterTable(names=(), values=np.zeros(0), std=np.zeros(0))


def stated_equations(
    fixed: Mapping[str, float], tied: Mapping[str, str]
) -> tuple[StatedEquation, ...]:
    """Return the equations of fixed parameters, and of tied ones: `name = other`, `2 * other`."""
    equations = []
    for name, known in fixed.items():
        equations.append(StatedEquation(coefficients={name: 1.0}, value=float(known)))
    for name, text in tied.items():
        match = TIED_TEXT.fullmatch(text)
        if match is None or match[2] == name:
            raise InvalidInput(
                f"'{name}' is tied to '{text}', expected another parameter, or a factor and "
                "another parameter, such as '0.5 * left.motor.fv'"
            )
        factor = float(match[1] or 1.0)
        equations.append(StatedEquation(coefficients={name: 1.0, match[2]: -factor}))
    return tuple(equations)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Space:
    """Parameters that can be named, and how the estimated ones depend on them.

    estimated = matrix @ parameters; stated @ parameters = targets.
    """

    estimate: Estimate
    base: BaseParameters  # those of the estimate
    # standard parameters, then estimated ones that are none (gains),
    # (n,)
    names: tuple[str, ...]
    matrix: FloatArray  # (p, n)
    # (k, n)
    stated: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    targets: FloatArray = field(default_factory=lambda: np.zeros(0))  # (k,)

    @classmethod
    def of(
        cls, estimate: Estimate, base: BaseParameters, equations: Sequence[StatedEquation]
    ) -> _Space:
        """Return the space of an estimate with stated equations."""
        estimated = [str(name) for name in estimate.parameters]
        kept = base.select([name for name in base.names if name in estimated])
        standard = [str(name) for name in kept.standard]
        others = [name for name in estimated if name not in kept.names]
        names = (*standard, *(name for name in others if name not in standard))
        matrix = np.zeros((len(estimated), len(names)))
        for base_name, row in zip(kept.names, kept.matrix):
            matrix[estimated.index(base_name), : len(standard)] = row
        for name in others:
            matrix[estimated.index(name), names.index(name)] = 1.0
        space = cls(estimate=estimate, base=kept, names=names, matrix=matrix)
        stated = np.zeros((len(equations), len(names)))
        for k, equation in enumerate(equations):
            for name, coefficient in equation.coefficients.items():
                stated[k] += coefficient * space.row(name)
        targets = np.array([equation.value for equation in equations], dtype=float)
        return replace(space, stated=stated, targets=targets)

    def row(self, name: str) -> FloatArray:
        """Return a parameter as a combination of those in `names`, (n,)."""
        if name in self.names:
            unit = np.zeros(len(self.names))
            unit[self.names.index(name)] = 1.0
            return unit
        estimated = [str(parameter) for parameter in self.estimate.parameters]
        if name in estimated:
            return np.asarray(self.matrix[estimated.index(name)])
        known = [*estimated, *self.names]
        raise InvalidInput(f"there is no parameter '{name}'{nearest(name, known)}", name=name)

    def implied(self) -> tuple[FloatArray, FloatArray]:
        """Return what the stated equations imply for the estimated parameters, (k, p) and (k,).

        Raises:
            InvalidInput: The equations contradict each other.
        """
        free = null_space(self.matrix, COMBINATION_ROUNDING)
        combinations = null_space((self.stated @ free).T, COMBINATION_ROUNDING).T
        rows = combinations @ self.stated
        targets = combinations @ self.targets
        left, scale, right = np.linalg.svd(rows, full_matrices=False)
        is_kept = scale > COMBINATION_ROUNDING * max(scale.max(initial=0.0), 1.0)
        combined = left.T @ targets
        size = np.abs(left.T @ combinations) @ np.abs(self.targets)
        if np.any(np.abs(combined[~is_kept]) > CONTRADICTION_ROUNDING * size[~is_kept]):
            raise InvalidInput(
                "the stated values of parameters contradict each other; leave one of them out"
            )
        independent = right[is_kept]
        weights = np.linalg.lstsq(self.matrix.T, independent.T, rcond=None)[0].T
        return weights, combined[is_kept] / scale[is_kept]

    def expressed(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Express combinations of parameters by the estimated ones and the stated values.

        Args:
            rows: Combinations of the parameters in `names`, (m, n).

        Returns:
            Weights of the estimated parameters, (m, p), constants,
            (m,), and the largest error of the expression, (m,), above
            `COMBINATION_ROUNDING` where there is none.
        """
        known = np.vstack([self.matrix, self.stated])
        weights = np.linalg.lstsq(known.T, rows.T, rcond=COMBINATION_ROUNDING)[0].T
        error = np.abs(weights @ known - rows).max(axis=1, initial=0.0)
        of_estimated, of_stated = np.split(weights, [len(self.matrix)], axis=1)
        return np.asarray(of_estimated), of_stated @ self.targets, np.asarray(error)

    def derived(self, values: FloatArray, covariance: FloatArray) -> ParameterTable:
        """Return the standard parameters that only the stated equations let the data determine.

        Args:
            values: Of the estimate under the constraints, (p,).
            covariance: Theirs, (p, p).
        """
        unit = np.eye(len(self.names))
        alone = replace(self, stated=self.stated[:0], targets=self.targets[:0])
        was_open = alone.expressed(unit)[2] > COMBINATION_ROUNDING
        weights, constants, error = self.expressed(unit)
        directly = [name for name, row in zip(self.names, unit) if _is_stated(row, self.stated)]
        columns = []
        for k, name in enumerate(self.names):
            if was_open[k] and error[k] <= COMBINATION_ROUNDING and name not in directly:
                columns.append(k)
        derived_covariance = weights[columns] @ covariance @ weights[columns].T
        return ParameterTable(
            names=tuple(self.base.standard[k] for k in columns),
            values=weights[columns] @ values + constants[columns],
            std=np.sqrt(np.maximum(np.diag(derived_covariance), 0.0)),
        )


def _is_stated(row: FloatArray, stated: FloatArray) -> bool:
    """Return whether one of the stated equations is about this parameter alone."""
    return bool(np.any(np.all(stated == row, axis=1)))


def constrained(
    estimate: Estimate,
    problem: Regression,
    base: BaseParameters,
    fixed: Mapping[str, float],
    bounds: Bounds,
    tied: Mapping[str, str] | None = None,
) -> ConstrainedEstimate:
    """Return an estimate with parameters fixed, tied and bounded.

    Args:
        estimate: Without constraints.
        problem: Its equations, for the residual.
        base: Its base parameters.
        fixed: Values by name of a base or standard parameter.
        bounds: Lowest and highest value by such a name.
        tied: Another parameter, perhaps with a factor, by name:
            `{"b.m": "0.5 * a.m"}`.

    Raises:
        InvalidInput: There is no such parameter, what is asked for
            contradicts itself, or a bound is on a parameter that the
            efforts do not determine.
    """
    twice = [name for name in fixed if name in bounds]
    if twice:
        raise InvalidInput(f"'{twice[0]}' is both fixed and bounded; give one of the two")
    stated = stated_equations(fixed, tied or {})
    space = _Space.of(estimate, base, stated)
    rows, targets = space.implied()
    names = [equation.name for equation in stated]
    values, covariance = _conditioned(estimate.values, estimate.covariance, rows, targets, names)
    reached: dict[str, FloatArray] = {}
    if bounds:
        values, covariance, reached = _bounded(space, values, covariance, bounds)
    kept_equations = np.vstack([rows, *reached.values()])
    derived = space.derived(values, covariance)
    residual = problem.select(estimate.parameters).residual_statistics(values)
    std = np.sqrt(np.diag(covariance))
    ratio = np.divide(std, estimate.std, out=np.ones(len(std)), where=estimate.std > 0)
    sources = [replace(source, std=source.std * ratio) for source in estimate.sources]
    notices = [*_notices(estimate, values, names, list(reached)), *_derived_notices(derived)]
    changed = replace(
        estimate,
        values=values,
        covariance=covariance,
        sources=tuple(sources),
        residual_rms=residual.rms,
        residual_relative=residual.relative,
        residual_mean=residual.mean,
        notices=(*estimate.notices, *notices),
        dependent=_dependent(estimate, kept_equations),
    )
    return ConstrainedEstimate(estimate=changed, stated=stated, derived=derived)


def _dependent(estimate: Estimate, rows: FloatArray) -> tuple[str, ...]:
    """Return the parameters that equations, (k, p), express by the others: one for each."""
    if not len(rows):
        return ()
    triangle, pivots = qr(rows * estimate.std, mode="r", pivoting=True)
    pivot_sizes = np.abs(np.diag(triangle))
    rank = int((pivot_sizes > COMBINATION_ROUNDING * pivot_sizes[0]).sum())
    return tuple(str(estimate.parameters[k]) for k in pivots[:rank])


def split_combinations(
    base: BaseParameters, values: FloatArray, stated: Sequence[StatedEquation]
) -> FloatArray:
    """Return standard parameters with the efforts of base values that keep stated equations, (p,).

    Of all such values those are returned that differ least from the
    base values in the columns of `base.independent`.
    """
    standard = np.zeros(len(base.standard))
    standard[list(base.independent)] = values
    columns = {str(name): k for k, name in enumerate(base.standard)}
    rows = {str(name): row for name, row in zip(base.names, base.matrix)}
    matrix = np.zeros((len(stated), len(standard)))
    targets = np.zeros(len(stated))
    for k, equation in enumerate(stated):
        targets[k] = equation.value
        for name, coefficient in equation.coefficients.items():
            if name in columns:
                matrix[k, columns[name]] += coefficient
            elif name in rows:
                matrix[k] += coefficient * rows[name]
    free = null_space(base.matrix, COMBINATION_ROUNDING)
    missing = targets - matrix @ standard
    change = np.linalg.lstsq(matrix @ free, missing, rcond=COMBINATION_ROUNDING)[0]
    return np.asarray(standard + free @ change)


def _acts_together(name: str, base: BaseParameters) -> InvalidInput:
    """Return the error about bounds on a parameter that no motion determines on its own."""
    column = base.matrix[:, base.standard.index(name)]
    formulas = base.regrouping()
    inside = [f"{base.names[i]} = {formulas[base.names[i]]}" for i in np.flatnonzero(column)]
    where = f": {inside[0]}" if inside else ""
    return InvalidInput(
        f"'{name}' acts on the efforts only together with other parameters, so that bounding it "
        f"alone changes no prediction{where}; bound the combination, or fix or tie the others in "
        "it (`fixed`, `tied`); the estimator `feasible` keeps all masses and inertias possible",
        name=name,
    )


def _conditioned(
    values: FloatArray,
    covariance: FloatArray,
    rows: FloatArray,
    wanted: FloatArray,
    names: Sequence[str],
) -> tuple[FloatArray, FloatArray]:
    """Return values and covariance given that some combinations have known values."""
    if not len(rows):
        return values, covariance
    combined = rows @ covariance @ rows.T  # covariance of the combinations
    scale = np.sqrt(np.diag(combined))
    correlation = combined / np.outer(scale, scale)
    if not np.all(scale > 0) or np.linalg.matrix_rank(correlation) < len(rows):
        raise InvalidInput(
            f"{', '.join(names)} depend on each other: fixing some of them fixes the others; leave "
            "one out"
        )
    gain = np.linalg.solve(combined, rows @ covariance).T
    changed = values + gain @ (wanted - rows @ values)
    reduced = covariance - gain @ rows @ covariance
    reduced = (reduced + reduced.T) / 2
    known = np.abs(rows).sum(axis=0) > 0
    alone = known & (np.diag(reduced) < COMBINATION_ROUNDING * np.diag(covariance))
    reduced[alone, :] = 0.0  # exactly; rounding remained
    reduced[:, alone] = 0.0
    return changed, reduced


def _bounded(
    space: _Space, values: FloatArray, covariance: FloatArray, bounds: Bounds
) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
    """Return values and covariance inside of bounds, and the bounds that are reached.

    These are rows of the estimated parameters, (p,), by the name of
    what is bounded.
    """
    from scipy.optimize import lsq_linear  # here, because it takes long to import

    names = list(bounds)
    low, high = np.array([bounds[name] for name in names], dtype=float).T
    for name, lower, upper in zip(names, low, high):
        if not lower < upper:
            raise InvalidInput(
                f"the bounds of '{name}' are {lower:g} and {upper:g}, expected a "
                "lower one below a higher one"
            )
    rows, constants, error = space.expressed(np.array([space.row(name) for name in names]))
    for name, undetermined in zip(names, error > COMBINATION_ROUNDING):
        if undetermined:
            raise _acts_together(name, space.base)
    low = low - constants
    high = high - constants
    centre = rows @ values
    bounded_covariance = rows @ covariance @ rows.T
    scale = np.sqrt(np.diag(bounded_covariance))
    if not np.all(scale > 0):
        raise InvalidInput(f"some of {', '.join(names)} are fixed by others that are fixed")
    correlation = bounded_covariance / np.outer(scale, scale)
    whitening = np.linalg.inv(np.linalg.cholesky(correlation)) / scale
    point = lsq_linear(whitening, whitening @ centre, (low, high)).x
    at_low = point - low < REACHED_RATIO * scale
    at_high = high - point < REACHED_RATIO * scale
    at_bound = at_low | at_high
    target = np.where(at_low, low, high)[at_bound]
    reached = {names[k]: rows[k] for k in np.flatnonzero(at_bound)}
    values, covariance = _conditioned(values, covariance, rows[at_bound], target, list(reached))
    return values, covariance, reached


def _notices(
    estimate: Estimate, values: FloatArray, stated: Sequence[str], reached: Sequence[str]
) -> list[Notice]:
    """Return notices on what was fixed or tied, what ended at a bound, and how far others moved."""
    notices = []
    change = np.abs(values - estimate.values)
    moved = np.divide(change, estimate.std, out=np.zeros(len(change)), where=estimate.std > 0)
    largest = int(np.argmax(moved))
    far = (
        f"; the estimate changes by at most {moved[largest]:.2g} standard errors "
        f"({estimate.parameters[largest]})"
    )
    if not np.any(change):
        far = "; no prediction changes, as they act only together with others"
    if stated:
        text = f"fixed or tied as stated{far}"
        notices.append(Notice(rule="fixed", level="info", where=", ".join(stated), text=text))
    if reached:
        text = f"ended at a stated bound{far}"
        notices.append(Notice(rule="bounds", level="info", where=", ".join(reached), text=text))
    return notices


def _derived_notices(derived: ParameterTable) -> list[Notice]:
    """Return a notice on the standard parameters that the stated values determine."""
    if not len(derived) or derived.std is None:
        return []
    shown = []
    for name, number, std in zip(derived.names, derived.values, derived.std):
        shown.append(f"{name} = {number:.4g} ± {std:.2g} {name.unit}")
    text = f"follow from combinations with the stated values: {', '.join(shown[:SHOWN_DERIVED])}"
    if len(shown) > SHOWN_DERIVED:
        text += f" and {len(shown) - SHOWN_DERIVED} more"
    where = join_names([str(name) for name in derived.names[:SHOWN_DERIVED]])
    return [Notice(rule="derived", level="info", where=where, text=text)]
