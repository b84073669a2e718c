"""The bounded-error problem, its feasible set as a polytope, and bounds of it that no rounding can
break.

effort = regressor @ parameters + error, |error| <= bound, nothing else assumed: P03 (20)-(25). The
regressor may be uncertain too: each of its entries then lies in an interval of its own.

Each datum is a pair of half-spaces (the strip (24) of P03). Linear programmes over some ten
thousand strips in a dozen dimensions are solved with a few hundred of them, adding those the answer
violates. The answer's multipliers, right or wrong, give a bound by weak duality; evaluated in
interval arithmetic over the prior box it is rigorous (Neumaier & Shcherbina 2004, Jansson 2004).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray, check_finite, check_shapes, frozen
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval, down, product
from gough.core.names import Parameter, parameters
from gough.core.record import Record

_VIOLATION = 1e-9  # in units of the error bound
_BATCH = 60  # half-spaces added at a time
_ROUNDS = 500
_NAMED = 10  # equations spelled out in a message
_SPLIT = 6  # parameters of open sign that are split at zero: 2^6 polytopes
# bounds over the smallest that fit: at 1.001 the boxes of a hexapod excluded 7 to 14 of 24
# parameters
_AMPLE = 1.2


@dataclass(frozen=True, eq=False)
class Equations:
    """n equations one below the other: |effort - W theta| <= bound for some W in the regressor."""

    regressor: Interval  # (n, p)
    effort: FloatArray  # (n,) [row unit]
    bound: FloatArray  # (n,) [row unit]
    sample: IntArray  # that each came from, (n,)
    row: IntArray  # of that sample, (n,)

    @property
    def effort_interval(self) -> Interval:
        """[y - e, y + e], rounded outward, (n,)."""
        return Interval.around(self.effort, self.bound)

    @property
    def exact(self) -> bool:
        """Whether the regressor is one matrix."""
        return self.regressor.lower is self.regressor.upper

    def open_signs(self, box: Interval) -> list[int]:
        """Return the parameters whose column is uncertain and whose sign a box leaves open."""
        uncertain = not self.exact and (self.regressor.lower < self.regressor.upper).any(axis=0)
        return [int(j) for j in np.flatnonzero(uncertain & (box.lower < 0) & (box.upper > 0))]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundedProblem(Record):
    """t samples, r equation rows, p parameters; the feasible set is (25) of P03.

        S = {theta in prior : for every sample and row some W in [lower, upper] has |effort - W
        theta| <= error_bound}

    Args:
        regressor_lower, regressor_upper: (t, r, p), equal where the regressor is exact.
        effort: (t, r). [N or N m]
        error_bound: Largest error, positive: one number, per row (r,), per sample (t, 1), or (t,
            r). [as effort]
        prior_lower, prior_upper: (p,), may be infinite.
        rows, row_units: Names and units of the equation rows, (r,).
        parameters, units: Names and units, (p,).
        used: Which samples and rows count, (t, r), or None for all.
    """

    regressor_lower: FloatArray
    regressor_upper: FloatArray
    effort: FloatArray
    error_bound: FloatArray
    prior_lower: FloatArray
    prior_upper: FloatArray
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    used: BoolArray | None = None

    def __post_init__(self) -> None:
        if self.used is None:
            object.__setattr__(self, "used", np.ones(np.shape(self.effort), bool))
        super().__post_init__()
        object.__setattr__(self, "parameters", parameters(self.parameters, self.units))
        if self.effort.ndim != 2 or not self.effort.size:
            raise InvalidInput(
                f"effort has shape {self.effort.shape}, expected (samples, rows), at least one of "
                f"each"
            )
        (t, r), p, bound = self.effort.shape, len(self.parameters), self.error_bound
        try:
            object.__setattr__(self, "error_bound", frozen(np.broadcast_to(bound, (t, r))))
        except ValueError:
            raise InvalidInput(
                f"error_bound has shape {bound.shape}, expected one number, per row ({r},), per "
                f"sample "
                f"({t}, 1) or {(t, r)}",
                shape=bound.shape,
            ) from None
        if not (np.isfinite(bound) & (bound > 0)).all():
            worst = float(bound[~(np.isfinite(bound) & (bound > 0))][0])
            raise InvalidInput(
                f"error_bound is {worst}, expected positive and finite: it is the largest error "
                f"that "
                "effort and model can have together; zero would mean that both are exact",
                error_bound=worst,
            )
        check_shapes(
            self,
            rows=(r,),
            row_units=(r,),
            regressor_lower=(t, r, p),
            regressor_upper=(t, r, p),
            used=(t, r),
            prior_lower=(p,),
            prior_upper=(p,),
        )
        for name in ("regressor_lower", "regressor_upper", "effort"):
            check_finite(getattr(self, name), name)
        if not (self.regressor_lower <= self.regressor_upper).all():
            where = tuple(
                int(i) for i in np.argwhere(self.regressor_lower > self.regressor_upper)[0]
            )
            raise InvalidInput(
                f"regressor_lower exceeds regressor_upper at sample, row, column {where}",
                index=where,
            )
        for name, low, high in zip(self.parameters, self.prior_lower, self.prior_upper):
            if not low <= high or low == np.inf or high == -np.inf:
                raise InvalidInput(
                    f"prior of '{name}' is [{low}, {high}], expected lower <= upper "
                    "(an infinite bound means nothing is known)",
                    name=name,
                )
        if not np.asarray(self.used).any():
            raise InvalidInput("no equation is used: every sample and row is switched off")

    @property
    def prior(self) -> Interval:
        """The prior box Q, (p,)."""
        return Interval(self.prior_lower, self.prior_upper)

    @cached_property
    def equations(self) -> Equations:
        """The used rows one below the other, sample by sample."""
        sample, row = np.nonzero(np.asarray(self.used))
        lower, upper = self.regressor_lower[sample, row], self.regressor_upper[sample, row]
        return Equations(
            Interval(lower, lower if np.array_equal(lower, upper) else upper),
            self.effort[sample, row],
            self.error_bound[sample, row],
            sample,
            row,
        )

    def without(self, pairs: Iterable[tuple[int, int]]) -> BoundedProblem:
        """Switch off some (sample, row) pairs."""
        used = np.array(self.used)
        for sample, row in pairs:
            used[sample, row] = False
        return replace(self, used=used)


class Proof(NamedTuple):
    """Equations and the weights with which they are added up: anyone can check the sum without
    solving anything.
    """

    equations: IntArray  # (k,)
    # (k,), positive for W theta >= effort - bound, negative for W theta <= effort + bound
    weights: FloatArray


class Vertex(NamedTuple):
    """Answer of a linear programme, with the factor on the error bounds and the multipliers."""

    point: FloatArray  # (p,)
    inflation: float
    proof: Proof


@dataclass(frozen=True, eq=False)
class Polytope:
    """{theta in box : normal theta >= offset}, two half-spaces for each of n equations.

    Half-space k < n says that W theta >= effort - bound of equation k, n + k that its W theta <=
    effort + bound.
    """

    normal: FloatArray  # (2 n, p)
    offset: FloatArray  # (2 n,), rounded so that the half-space is never too small
    bound: FloatArray  # (n,)
    box: Interval  # (p,)

    def __len__(self) -> int:
        return len(self.bound)

    def take(self, equations: IntArray | BoolArray) -> Polytope:
        """Return some of the equations, in the same box."""
        index = np.arange(len(self))[equations]
        both = np.concatenate([index, index + len(self)])
        return Polytope(self.normal[both], self.offset[both], self.bound[index], self.box)

    def excess(self, point: FloatArray) -> FloatArray:
        """Return how far both sides of each equation are from a point, in error bounds: broken
        above one, (2, n).
        """
        return ((self.offset - self.normal @ point) / np.tile(self.bound, 2) + 1.0).reshape(2, -1)

    def minimum(self, proof: Proof, cost: FloatArray) -> float:
        """Return a number that no cost @ theta over the polytope is below, whatever the weights
        are.

        For lambda >= 0 and G theta >= g,  c theta = (c - lambda G) theta + lambda G theta
                                                    >= min over the box of (c - lambda G) theta  +
                                                    lambda g.
        """
        chosen = np.where(proof.weights > 0, proof.equations, proof.equations + len(self))
        weight = np.abs(proof.weights)[None]
        left = Interval.point(cost) - product(weight, Interval.point(self.normal[chosen]))[0]
        value = product(weight, Interval.point(self.offset[chosen]))[0] + (left * self.box).sum()
        return float(value.lower)

    def contradicted(self, proof: Proof) -> bool:
        """Say whether nothing in the box satisfies these equations: a bound of 0 theta above zero
        (Farkas).
        """
        return self.minimum(proof, np.zeros(self.normal.shape[1])) > 0


def linearised(equations: Equations, box: Interval) -> Polytope:
    """Return the smallest polytope around the parameters in a box that fit every equation.

    Some G in [L, U] has G theta >= g exactly if sum_j max(L_j theta_j, U_j theta_j) >= g. Where the
    box fixes the sign of theta_j that term is linear. Elsewhere it lies below its chord over the
    box, slope theta_j + intercept.
    """
    low, high = equations.regressor.lower, equations.regressor.upper
    around = equations.effort_interval
    offset = np.concatenate([around.lower, -around.upper])
    if equations.exact:
        return Polytope(np.vstack([low, -low]), offset, equations.bound, box)
    low, high = np.vstack([low, -high]), np.vstack([high, -low])
    normal = np.where(box.lower >= 0, high, low)
    for j in equations.open_signs(box):
        a, b = box.lower[j], box.upper[j]
        if not np.isfinite(b - a):
            raise InvalidInput(
                f"column {j} of the regressor is uncertain and its parameter is in [{a}, {b}]: "
                f"give a "
                "finite prior or one that fixes its sign"
            )
        normal[:, j] = slope = np.where(
            low[:, j] < high[:, j], (high[:, j] * b - low[:, j] * a) / (b - a), low[:, j]
        )
        ends = [
            (Interval.point(edge) - Interval.point(slope)) * Interval.point(at)
            for edge, at in ((low[:, j], a), (high[:, j], b))
        ]
        offset = down(offset - np.maximum(ends[0].upper, ends[1].upper))
    return Polytope(normal, offset, equations.bound, box)


class Programme:
    """Linear programmes over the same polytope, each started from the answer of the last.

    Columns are the parameters and the inflation s of the bounds; rows are normal theta + (s - 1)
    bound >= offset, scaled to bounds of one and columns of largest entry one.
    """

    def __init__(self, polytope: Polytope) -> None:
        import highspy  # here: it takes long to import

        self.polytope = polytope
        n, p = len(polytope), polytope.normal.shape[1]
        reach = np.tile(polytope.bound, 2)
        size = np.abs(polytope.normal) / reach[:, None]
        largest = size.max(axis=0)
        self.scale = 1.0 / np.where(largest > 0, largest, 1.0)
        self.normal, self.offset = (
            polytope.normal * self.scale / reach[:, None],
            polytope.offset / reach + 1.0,
        )
        self._on = np.ones(n, bool)
        self._solver = highspy.Highs()
        self._ended = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown
        for option, value in (
            ("output_flag", False),
            ("presolve", "off"),
            ("solver", "simplex"),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
            ("small_matrix_value", 1e-12),
        ):
            self._solver.setOptionValue(option, value)
        low, high = polytope.box.lower / self.scale, polytope.box.upper / self.scale
        self._solver.addVars(p + 1, np.append(low, 0.0), np.append(high, np.inf))
        self._rows = np.empty(0, np.int64)  # half-space of each row of the programme
        spread = np.linspace(0, n - 1, min(n, 4 * p)).astype(np.int64)
        first = np.unique(np.concatenate([spread, size.argmax(axis=0) % n]))
        self._add(np.concatenate([first, first + n]))

    @property
    def on(self) -> IntArray:
        """The equations that count."""
        return np.flatnonzero(self._on)

    def switch(self, proofs: Sequence[Proof], on: bool) -> None:
        """Let the equations of some proofs count or not."""
        equations = equations_of(proofs)
        self._on[equations] = on
        for row in np.flatnonzero(np.isin(self._rows % len(self.polytope), equations)).tolist():
            self._solver.changeRowBounds(
                row, float(self.offset[self._rows[row]]) if on else -np.inf, np.inf
            )

    def _add(self, half_spaces: IntArray) -> None:
        entries = np.column_stack([self.normal[half_spaces], np.ones(len(half_spaces))])
        k, columns = entries.shape
        self._solver.addRows(
            k,
            self.offset[half_spaces],
            np.full(k, np.inf),
            entries.size,
            np.arange(k, dtype=np.int32) * columns,
            np.tile(np.arange(columns, dtype=np.int32), k),
            entries.ravel(),
        )
        self._rows = np.concatenate([self._rows, half_spaces])

    def minimise(self, cost: FloatArray | None = None, inflation: float = 1.0) -> Vertex:
        """Minimise cost @ theta with the bounds inflated by a factor; without a cost the factor
        with which any fit.
        """
        n, p, unit = len(self.polytope), len(self.scale), 1.0
        objective, limits = np.append(np.zeros(p), 1.0), (0.0, np.inf)
        if cost is not None:
            unit, limits = float(np.abs(cost * self.scale).max()) or 1.0, (inflation, inflation)
            objective = np.append(cost * self.scale / unit, 0.0)
        self._solver.changeColsCost(p + 1, np.arange(p + 1, dtype=np.int32), objective)
        self._solver.changeColBounds(p, *limits)
        for _ in range(_ROUNDS):
            self._solver.run()
            status = self._solver.getModelStatus()
            # unknown: values so large that the tolerance is below their rounding; the multipliers
            # still prove a bound
            if status not in self._ended:
                raise NotConverged(
                    f"linear programme over {len(self._rows)} half-spaces ended as "
                    f"'{self._solver.modelStatusToString(status)}', expected an optimum"
                )
            solution = self._solver.getSolution()
            answer = np.asarray(solution.col_value)
            violation = self.offset - self.normal @ answer[:p] - answer[p]
            violation[self._rows] = 0.0  # already there; what is left is the solver's tolerance
            violation[np.tile(~self._on, 2)] = 0.0
            bad = np.flatnonzero(violation > _VIOLATION)
            if not len(bad):
                break
            self._add(bad[np.argsort(violation[bad])[::-1][:_BATCH]])
        else:
            raise NotConverged(
                f"linear programme still meets violated half-spaces after {_ROUNDS} rounds"
            )
        dual = np.asarray(solution.row_dual) * unit
        active = np.flatnonzero(dual > 0)
        equations, where = np.unique(self._rows[active] % n, return_inverse=True)
        sides = np.where(self._rows[active] < n, 1.0, -1.0) * dual[active]
        weights = np.bincount(where, sides, minlength=len(equations))
        return Vertex(
            answer[:p] * self.scale,
            float(answer[p]),
            Proof(equations, weights / self.polytope.bound[equations]),
        )


def irreducible(polytope: Polytope, proof: Proof) -> Proof:
    """Leave out equations without which a contradiction remains (at most p + 1 are ever needed:
    Helly).
    """
    for equation in proof.equations.tolist():
        rest = proof.equations[proof.equations != equation]
        if not len(rest) or equation not in proof.equations:
            continue
        try:
            part = Programme(polytope.take(rest)).minimise()
        except NotConverged:
            continue
        fewer = Proof(rest[part.proof.equations], part.proof.weights)
        if part.inflation > 1 and (
            polytope.contradicted(fewer) or not polytope.contradicted(proof)
        ):
            proof = fewer
    return proof


def equations_of(proofs: Iterable[Proof]) -> IntArray:
    """Return all equations that some proofs use."""
    return np.concatenate([np.empty(0, np.int64), *(proof.equations for proof in proofs)])


def orthants(equations: Equations, box: Interval) -> Iterator[tuple[dict[int, int], Interval]]:
    """Split a box at zero along parameters whose column is uncertain and whose sign it leaves open.

    Of more than six those are split whose columns are the least certain. Yields the sign of each
    parameter that was split, and the part of the box.
    """
    doubt = {
        j: float(
            (equations.regressor.upper[:, j] - equations.regressor.lower[:, j]).max()
            * min(-box.lower[j], box.upper[j])
        )
        for j in equations.open_signs(box)
    }
    split = sorted(sorted(doubt, key=lambda j: -doubt[j])[:_SPLIT])
    for signs in itertools.product((-1, 1), repeat=len(split)):
        low, high = box.lower.copy(), box.upper.copy()
        for j, sign in zip(split, signs):
            (low if sign > 0 else high)[j] = 0.0
        yield dict(zip(split, signs)), Interval(low, high)


def named(problem: BoundedProblem, equations: IntArray) -> tuple[tuple[tuple[int, int], ...], str]:
    """Return equations as (sample, row) pairs, and in words."""
    every = problem.equations
    pairs = tuple((int(every.sample[k]), int(every.row[k])) for k in equations)
    words = ", ".join(f"sample {sample} {problem.rows[row]}" for sample, row in pairs[:_NAMED])
    return pairs, words + (", ..." if len(pairs) > _NAMED else "")


def upward(factor: float) -> str:
    """Return a factor with three digits, never smaller than it is."""
    unit = 10.0 ** (np.floor(np.log10(max(factor, 1e-300))) - 2)
    return f"{ceil(factor / unit * (1 - 1e-12)) * unit:.3g}"


def verge(ratio: float) -> list[str]:
    """Return the warning for error bounds of which `ratio` times would still fit, if they are
    nearly too small.
    """
    if ratio * _AMPLE <= 1:
        return []
    return [
        f"the set is nearly empty: {upward(ratio)} times the error bounds would be the smallest "
        f"that fit anything. "
        "Such a box is small because the data almost contradict each other, and bounds that are a "
        "little too small "
        "exclude the truth: take them from what sensors and model can be off by, not from what fits"
    ]


def explain(problem: BoundedProblem) -> InconsistentData:
    """Return the error for a problem that is known to have no feasible parameter vector.

    It carries `samples` (pairs of sample and row index), `factor` (no smaller one on the error
    bounds fits; not one to use) and `certified` (whether interval arithmetic proves the
    contradiction; it cannot if the prior is unbounded).
    """
    equations = problem.equations
    what = "no parameter vector in the prior fits all samples within the error bound"
    try:
        polytopes = [linearised(equations, box) for _, box in orthants(equations, problem.prior)]
        centers = [Programme(polytope).minimise() for polytope in polytopes]
        proofs = [
            irreducible(polytope, center.proof) for polytope, center in zip(polytopes, centers)
        ]
    except (InvalidInput, NotConverged) as error:
        return InconsistentData(
            f"{what}; which samples contradict each other cannot be said: {error}", samples=()
        )
    factor = min(center.inflation for center in centers)
    pairs, words = named(problem, np.unique(equations_of(proofs)))
    return InconsistentData(
        f"{what}; {len(pairs)} equations contradict each other or the prior: {words}; whatever the "
        f"parameters, some "
        f"error is about {upward(factor)} times its bound. Check the model, the prior and "
        f"outliers, and take the "
        "error bound from what sensors and model can be off by: a bound that just fits encloses "
        "hardly anything and "
        "excludes the truth",
        samples=pairs,
        factor=factor,
        certified=all(polytope.contradicted(proof) for polytope, proof in zip(polytopes, proofs)),
    )
