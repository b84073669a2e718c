"""The smallest box around the feasible set, by 2p linear programmes with bounds that rounding cannot break."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.conflicts import explain
from gough.estimators.bounds.gauss_seidel import GaussSeidel
from gough.estimators.bounds.intervals import Interval
from gough.estimators.bounds.outliers import find_outliers
from gough.estimators.bounds.strips import Programme, orthants, proves_empty, safe_minimum, strips
from gough.estimators.estimate import Enclosure

_NAMED = 10  # removed equations spelled out in a note
_LOOSE = 1e-3  # relative gap between proven and attained bounds worth a note


@dataclass(frozen=True, kw_only=True, eq=False)
class SafeBound:
    """A bound of one parameter and what proves it: anyone can check it without solving anything.

    Args:
        parameter: Its index.
        upper: Which side.
        value: No feasible parameter vector is beyond it.
        attained: A point feasible to the solver's tolerance reaches this.
        half_spaces: k < n is `W theta >= effort - bound` of equation k, n + k its `W theta <= effort + bound`, (k,).
        multipliers: Their weights in the proof, (k,). [parameter unit / row unit]
        box: Inside which the proof holds, (p,).
    """

    parameter: int
    upper: bool
    value: float
    attained: float
    half_spaces: IntArray
    multipliers: FloatArray
    box: Interval


def safe_bounds(problem: BoundedProblem) -> list[SafeBound]:
    """Bound every parameter from both sides, once for each orthant of the parameters with uncertain columns.

    Raises:
        InconsistentData: The feasible set is empty; carries the samples that contradict each other.
        NotIdentifiable: Data and prior leave a parameter unbounded.
    """
    p = len(problem.parameters)
    start = GaussSeidel().contract(problem).box
    unbounded = [n for n, w in zip(problem.parameters, start.upper - start.lower) if not np.isfinite(w)]
    if unbounded:
        raise NotIdentifiable(f"the data leave {', '.join(unbounded)} unbounded; give a finite prior",
                              parameters=unbounded)
    found: list[SafeBound] = []
    for box in orthants(problem, start):
        polytope = strips(problem.equations, box)
        programme = Programme(polytope)
        center = programme.minimise(np.zeros(p), None)
        if proves_empty(polytope, center):
            continue
        # on the verge of emptiness the solver's tolerance decides, and bounds that cross are a proof too
        part = [_bound(programme, j, upper, max(1.0, center.inflation)) for j in range(p) for upper in (False, True)]
        if all(low.value <= high.value for low, high in zip(part[::2], part[1::2])):
            found += part
    if not found:
        raise explain(problem)
    return found


def _bound(programme: Programme, parameter: int, upper: bool, inflation: float) -> SafeBound:
    polytope = programme.strips
    sign = -1.0 if upper else 1.0
    cost = np.zeros(polytope.over.shape[1])
    cost[parameter] = sign
    vertex = programme.minimise(cost, inflation)
    value = sign * safe_minimum(polytope, cost, vertex.half_spaces, vertex.multipliers)
    prior = polytope.box.upper if upper else polytope.box.lower
    tight = min(value, float(prior[parameter])) if upper else max(value, float(prior[parameter]))
    return SafeBound(parameter=parameter, upper=upper, value=tight, attained=float(vertex.point[parameter]),
                     half_spaces=vertex.half_spaces, multipliers=vertex.multipliers, box=polytope.box)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactBox:
    """Settings of the smallest box around the feasible set (25) of P03.

    Args:
        outliers: Leave out at most so many equations if the data contradict each other. The guarantee is then
            conditional: the box contains the truth if no other equation breaks its bound.
    """

    outliers: int = 0

    def __post_init__(self) -> None:
        if self.outliers < 0:
            raise InvalidInput(f"outliers is {self.outliers}, expected zero or more")

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set; each bound is exact up to `certificate['gap']`.

        Raises:
            InconsistentData: The feasible set is empty, or more outliers would have to go than allowed.
            NotIdentifiable: Data and prior leave a parameter unbounded.
        """
        removed = find_outliers(problem, self.outliers) if self.outliers else ()
        bounds = safe_bounds(problem.without(removed) if removed else problem)
        p = len(problem.parameters)
        lower, upper = np.full(p, np.inf), np.full(p, -np.inf)
        inner_lower, inner_upper = lower.copy(), upper.copy()
        for bound in bounds:
            j = bound.parameter
            if bound.upper:
                upper[j], inner_upper[j] = max(upper[j], bound.value), max(inner_upper[j], bound.attained)
            else:
                lower[j], inner_lower[j] = min(lower[j], bound.value), min(inner_lower[j], bound.attained)
        gap = np.maximum(np.abs(lower - inner_lower), np.abs(upper - inner_upper))
        relative = float((gap / np.maximum(upper - lower, 1e-300)).max())
        notes = []
        if relative > _LOOSE:
            notes.append(f"the bounds hold but are proven only to {100 * relative:.2g} % of the width; give a narrower "
                         "prior")
        if removed:
            names = ", ".join(problem.describe(*pair) for pair in removed[:_NAMED])
            notes.append(f"the guarantee is conditional: {len(removed)} equations were left out as outliers ({names}"
                         f"{', ...' if len(removed) > _NAMED else ''}); it holds if no other breaks its bound")
        return Enclosure(
            parameters=problem.parameters, units=problem.units, lower=lower, upper=upper, method="exact box",
            certificate={"guarantee": "safe dual bounds of linear programmes in outward-rounded interval arithmetic",
                         "equations": len(problem.equations.effort) - len(removed), "programmes": len(bounds),
                         "gap": float(gap.max()), "relative_gap": relative,
                         "error_bound": [float(problem.error_bound.min()), float(problem.error_bound.max())],
                         "removed": [list(pair) for pair in removed]},
            notes=tuple(notes))
