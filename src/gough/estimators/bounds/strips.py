"""The feasible set as a polytope, its linear programmes, and bounds of them that no rounding can break.

Each datum is a pair of half-spaces (the strip (24) of P03). Linear programmes over some ten thousand strips in a
dozen dimensions are solved with a few hundred of them, adding those the answer violates. The answer's multipliers,
right or wrong, give a bound by weak duality; evaluated in interval arithmetic over the prior box it is rigorous
(Neumaier & Shcherbina 2004, Jansson 2004).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as combinations

import highspy
import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InvalidInput, NotConverged
from gough.estimators.bounds.bounded_problem import BoundedProblem, Equations
from gough.estimators.bounds.intervals import Interval

_VIOLATION = 1e-9  # in units of the error bound
_BATCH = 60  # strips added at a time
_ROUNDS = 500
_MOST_ORTHANTS = 64


@dataclass(frozen=True, eq=False)
class Strips:
    """{theta in box : over theta >= effort - bound, under theta <= effort + bound}.

    Half-space k < n is the k-th row of `over`, half-space n + k that of `under`.

    Args:
        over: (n, p).
        under: (n, p); the same array when the regressor is exact.
        effort: (n,).
        bound: (n,).
        box: (p,).
    """

    over: FloatArray
    under: FloatArray
    effort: FloatArray
    bound: FloatArray
    box: Interval

    def __len__(self) -> int:
        return len(self.effort)

    def take(self, index: IntArray | NDArray[np.bool_]) -> Strips:
        """Return some of the strips, in the same box."""
        return Strips(self.over[index], self.under[index], self.effort[index], self.bound[index], self.box)

    def violation(self, point: FloatArray, inflation: float) -> FloatArray:
        """Return by how many bounds each half-space misses a point when the bounds are inflated, (2 n,)."""
        low = (self.effort - self.over @ point) / self.bound
        high = (self.under @ point - self.effort) / self.bound
        return np.asarray(np.concatenate([low, high]) - inflation)

    def normals(self, half_spaces: IntArray) -> FloatArray:
        """Return G of G theta >= g, (k, p)."""
        n = len(self)
        index = half_spaces % n
        return np.asarray(np.where((half_spaces < n)[:, None], self.over[index], -self.under[index]))

    def offsets(self, half_spaces: IntArray) -> FloatArray:
        """Return g of G theta >= g, rounded outward, (k,)."""
        n = len(self)
        index = half_spaces % n
        reach = Interval.around(self.effort[index], self.bound[index])
        return np.asarray(np.where(half_spaces < n, reach.lower, -reach.upper))


def strips(equations: Equations, box: Interval) -> Strips:
    """Return the polytope of the equations inside a box that lies in one orthant of the uncertain parameters.

    If theta_j >= 0 the largest value of W_j theta_j is at the upper end of [W_j], if theta_j <= 0 at the lower; so the
    set of theta for which some W in [W] fits is a polytope.
    """
    low, high = equations.regressor.lower, equations.regressor.upper
    if equations.exact:
        return Strips(low, low, equations.effort, equations.bound, box)
    positive = box.lower >= 0
    return Strips(np.where(positive, high, low), np.where(positive, low, high), equations.effort, equations.bound, box)


def orthants(problem: BoundedProblem, box: Interval) -> Iterator[Interval]:
    """Split a box at zero along every parameter whose column is uncertain and whose sign the box leaves open.

    Raises:
        InvalidInput: There are too many such parameters.
    """
    regressor = problem.equations.regressor
    uncertain = (regressor.lower < regressor.upper).any(axis=0) & (box.lower < 0) & (box.upper > 0)
    open_signs = np.flatnonzero(uncertain)
    if 2 ** len(open_signs) > _MOST_ORTHANTS:
        names = tuple(problem.parameters[i] for i in open_signs)
        raise InvalidInput(f"the regressor is uncertain and the prior leaves the sign of {len(open_signs)} parameters "
                           f"open ({', '.join(names)}); an exact box needs {2 ** len(open_signs)} cases, at most "
                           f"{_MOST_ORTHANTS} are tried: give priors that fix signs", parameters=names)
    for signs in combinations((False, True), repeat=len(open_signs)):
        low, high = box.lower.copy(), box.upper.copy()
        for i, positive in zip(open_signs, signs):
            (low if positive else high)[i] = 0.0
        yield Interval(low, high)


@dataclass(frozen=True, eq=False)
class Vertex:
    """Answer of a linear programme.

    Args:
        point: (p,).
        inflation: Factor on the error bounds.
        half_spaces: Those with a multiplier, (k,).
        multipliers: Of G theta >= g, non-negative, (k,). [cost / row unit]
    """

    point: FloatArray
    inflation: float
    half_spaces: IntArray
    multipliers: FloatArray


class Programme:
    """Linear programmes over the same strips, each started from the answer of the last.

    Columns are the parameters and the inflation s of the bounds; rows are over theta + s bound >= effort and
    under theta - s bound <= effort, scaled to bounds of one and columns of largest entry one.
    """

    def __init__(self, strips: Strips) -> None:
        self.strips = strips
        n, p = strips.over.shape
        size = np.maximum(np.abs(strips.over), np.abs(strips.under)) / strips.bound[:, None]
        largest = size.max(axis=0)
        self._scale = 1.0 / np.where(largest > 0, largest, 1.0)
        self._solver = highspy.Highs()
        for option, value in (("output_flag", False), ("presolve", "off"), ("solver", "simplex"),
                              ("primal_feasibility_tolerance", 1e-10), ("dual_feasibility_tolerance", 1e-10),
                              ("small_matrix_value", 1e-12)):
            self._solver.setOptionValue(option, value)
        low, high = strips.box.lower / self._scale, strips.box.upper / self._scale
        self._solver.addVars(p + 1, np.append(low, 0.0), np.append(high, np.inf))
        self._rows = np.empty(0, np.int64)  # half-space of each row of the programme
        spread = np.linspace(0, n - 1, min(n, 4 * p)).astype(np.int64)
        peaks = size.argmax(axis=0)
        first = np.unique(np.concatenate([spread, peaks]))
        self._add(np.concatenate([first, first + n]))

    def _add(self, half_spaces: IntArray) -> None:
        p = len(self._scale)
        index = half_spaces % len(self.strips)
        reach = self.strips.bound[index]
        normal = self.strips.normals(half_spaces) * self._scale / reach[:, None]
        entries = np.column_stack([normal, np.ones(len(normal))])
        sign = np.where(half_spaces < len(self.strips), 1.0, -1.0)
        offset = sign * self.strips.effort[index] / reach
        k = len(half_spaces)
        self._solver.addRows(k, offset, np.full(k, np.inf), entries.size, np.arange(k, dtype=np.int32) * (p + 1),
                             np.tile(np.arange(p + 1, dtype=np.int32), k), entries.ravel())
        self._rows = np.concatenate([self._rows, half_spaces])

    def minimise(self, cost: FloatArray, inflation: float | None = 1.0) -> Vertex:
        """Minimise cost @ theta with the bounds inflated by a factor, or the inflation itself if that is None.

        Raises:
            NotConverged: The solver stopped without an optimum.
        """
        p = len(cost)
        scaled = cost * self._scale
        unit = float(np.abs(scaled).max()) or 1.0
        objective = np.append(scaled / unit, 0.0) if inflation is not None else np.append(np.zeros(p), 1.0)
        columns = np.arange(p + 1, dtype=np.int32)
        self._solver.changeColsCost(p + 1, columns, objective)
        self._solver.changeColBounds(p, *((inflation, inflation) if inflation is not None else (0.0, np.inf)))
        for _ in range(_ROUNDS):
            self._solver.run()
            status = self._solver.getModelStatus()
            # unknown: values so large that the tolerance is below their rounding; the multipliers still prove a bound
            if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
                raise NotConverged(f"linear programme over {len(self._rows)} half-spaces ended as "
                                   f"'{self._solver.modelStatusToString(status)}', expected an optimum")
            solution = self._solver.getSolution()
            answer = np.asarray(solution.col_value)
            point = answer[:p] * self._scale
            violation = self.strips.violation(point, float(answer[p]))
            violation[self._rows] = 0.0  # already there; what is left is the solver's tolerance
            bad = np.flatnonzero(violation > _VIOLATION)
            if not len(bad):
                break
            self._add(bad[np.argsort(violation[bad])[::-1][:_BATCH]])
        else:
            raise NotConverged(f"linear programme still meets violated half-spaces after {_ROUNDS} rounds")
        dual = np.asarray(solution.row_dual)
        active = np.flatnonzero(dual > 0)
        rows = self._rows[active]
        factor = unit if inflation is not None else 1.0
        return Vertex(point, float(answer[p]), rows, dual[active] * factor / self.strips.bound[rows % len(self.strips)])


def safe_minimum(strips: Strips, cost: FloatArray, half_spaces: IntArray, multipliers: FloatArray) -> float:
    """Return a number that no cost @ theta over the polytope is below, whatever the multipliers are.

    For lambda >= 0 and G theta >= g,  c theta = (c - lambda G) theta + lambda G theta
                                                >= min over the box of (c - lambda G) theta  +  lambda g.
    """
    weight = Interval.point(np.maximum(multipliers, 0.0))
    normal = Interval.point(strips.normals(half_spaces).T)  # (p, k)
    left = Interval.point(cost) - (normal * weight).sum()
    value = (weight * Interval.point(strips.offsets(half_spaces))).sum() + (left * strips.box).sum()
    return float(value.lower)


def proves_empty(strips: Strips, center: Vertex) -> bool:
    """Say whether the answer with the smallest inflation proves in interval arithmetic that nothing is inside.

    0 theta = 0 for every theta, so a rigorous bound of it above zero is a contradiction (Farkas).
    """
    nothing = np.zeros(strips.over.shape[1])
    return center.inflation > 1 and safe_minimum(strips, nothing, center.half_spaces, center.multipliers) > 0
