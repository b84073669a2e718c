"""The smallest box around the feasible set, by linear programmes whose bounds rounding cannot break.

With q outliers the set is larger: every parameter vector that breaks at most q of the equations. Each bound then rests
on q + 1 proofs that share no equation. Whichever q equations are wrong, one proof is free of them, so the weakest of
the q + 1 bounds holds. They come from peeling: solve, keep the multipliers' equations as one proof, switch these off,
solve again. A set of equations that contradict each other inside the box proves anything, so it counts for every bound;
a gross outlier is soon one alone. Proofs may use the box found so far, hence rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval
from gough.estimators.bounds.bounded_problem import BoundedProblem, Equations
from gough.estimators.bounds.certificate import Bound, Case, Round, stored
from gough.estimators.bounds.gauss_seidel import finite_start
from gough.estimators.bounds.polytope import (
    Polytope,
    Programme,
    Proof,
    equations_of,
    explain,
    irreducible,
    linearised,
    named,
    orthants,
    verge,
)
from gough.estimators.estimate import Enclosure

_LOOSE = 1e-3  # relative gap between proven and attained bounds worth a note
_GAP = 1e-9  # relative gap that another round need not close
_GAIN = 0.9  # another round if the last left less of the widths than this (geometric mean)
_MOST_ROUNDS = 10
_LAGS = (1, 2, 3)  # neighbours of a row among which pairs that contradict each other are sought


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactBox:
    """Settings of the box around the feasible set (25) of P03: the smallest if there are no outliers.

    Args:
        outliers: How many equations may break their bound, whichever they are. The box contains every parameter vector
            that breaks no more; it is certified, and wider than the smallest box around that set.
    """

    outliers: int = 0

    def __post_init__(self) -> None:
        if self.outliers < 0:
            raise InvalidInput(f"outliers is {self.outliers}, expected zero or more")

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set; without outliers each bound is exact up to `certificate['gap']`.

        Raises:
            InconsistentData: The feasible set is empty; carries the samples that contradict each other.
            NotIdentifiable: Data and prior leave a parameter unbounded.
        """
        equations, q = problem.equations, self.outliers
        box, start = finite_start(problem, q)
        root = Case({}, (), box)
        if equations.open_signs(box):
            root = _narrowed(equations, root, q)
        parts = [] if root.box is None else [
            _narrowed(equations, Case(signs, (), part), q) for signs, part in orthants(equations, root.box)]
        left = [case for case in parts if case.box is not None]
        if not left:
            raise explain(problem) if not q else _too_many(problem, q, [root, *parts])
        boxes = [case.box for case in left if case.box is not None]
        lower, upper = np.min([b.lower for b in boxes], axis=0), np.max([b.upper for b in boxes], axis=0)
        ratio = min(r.ratio for case in left for r in (*root.rounds, *case.rounds))
        certificate: dict[str, Any] = {
            "guarantee": "safe dual bounds of linear programmes in outward-rounded interval arithmetic",
            "equations": len(equations.effort), "outliers": q,
            "proofs": sum(len(r.proofs) for case in (root, *parts) for r in case.rounds),
            "smallest_fitting": ratio,
            "error_bound": [float(problem.error_bound.min()), float(problem.error_bound.max())]}
        notes = verge(ratio) + _open(problem, boxes)
        if q:
            notes += _silent(problem, lower, upper, q)
        else:
            gap = np.max([case.rounds[-1].gap for case in left], axis=0)
            relative = float((gap / np.maximum(upper - lower, 1e-300)).max())
            certificate |= {"gap": float(gap.max()), "relative_gap": relative}
            if relative > _LOOSE:
                notes.append(f"the bounds hold but are proven only to {100 * relative:.2g} % of the width; give a "
                             "narrower prior")
        return Enclosure(
            parameters=problem.parameters, units=problem.units, lower=lower, upper=upper,
            method="exact box" if not q else f"box with up to {q} outliers", notes=tuple(notes),
            certificate=certificate | {"proof": stored(problem, q, start, root, parts)})


def _narrowed(equations: Equations, case: Case, outliers: int) -> Case:
    """Bound every parameter again and again, each time inside the box found before."""
    box, rounds = case.box, list(case.rounds)
    while box is not None and len(rounds) < _MOST_ROUNDS:
        before = box.upper - box.lower
        done, box = _round(equations, box, outliers)
        rounds.append(done)
        if box is None:
            break
        after = box.upper - box.lower
        closed = (done.gap <= _GAP * after).all() and not outliers and not equations.open_signs(box)
        wide = after > 0
        if closed or not wide.any() or np.exp(np.log(after[wide] / before[wide]).mean()) > _GAIN:
            break
    return Case(case.signs, tuple(rounds), box)


def _round(equations: Equations, box: Interval, outliers: int) -> tuple[Round, Interval | None]:
    """Bound every parameter from both sides inside a box; nothing is left of it if more than q equations contradict."""
    polytope = linearised(equations, box)
    programme = Programme(polytope)
    contradictions = _cheap_contradictions(polytope, equations, outliers + 1) if outliers else []
    programme.switch(equations_of(contradictions), False)
    inflation, ratio = 1.0, np.inf
    while len(contradictions) <= outliers:
        try:
            center = programme.smallest_inflation()
        except NotConverged:
            break
        inflation = max(1.0, center.inflation)  # on the verge of emptiness the solver's tolerance decides
        worst = np.sort(polytope.excess(center.point).reshape(2, -1).max(axis=0))[::-1]
        ratio = float(worst[outliers]) if outliers < len(worst) else 0.0
        if center.inflation <= 1 or not center.proof.contradicts(polytope):
            break
        contradictions.append(irreducible(polytope, center.proof) if outliers else center.proof)
        programme.switch(contradictions[-1].equations, False)
    p = len(box.lower)
    if len(contradictions) > outliers:
        return Round(contradictions, [], ratio, np.zeros(p)), None
    needed = outliers + 1 - len(contradictions)
    bounds = [_bound(programme, j, upper, inflation, needed) for j in range(p) for upper in (False, True)]
    gap = np.array([max(abs(low.value - low.attained), abs(high.value - high.attained))
                    for low, high in zip(bounds[::2], bounds[1::2])])
    low, high = np.array([b.value for b in bounds[::2]]), np.array([b.value for b in bounds[1::2]])
    # bounds that cross are a proof of emptiness too
    return Round(contradictions, bounds, ratio, gap), Interval(low, high) if (low <= high).all() else None


def _bound(programme: Programme, parameter: int, upper: bool, inflation: float, needed: int) -> Bound:
    """Bound one parameter by several proofs that share no equation; by the box itself if there are not enough."""
    polytope = programme.polytope
    sign = -1.0 if upper else 1.0
    cost = np.zeros(polytope.normal.shape[1])
    cost[parameter] = sign
    known = float((polytope.box.upper if upper else polytope.box.lower)[parameter])
    value, attained = np.inf, known
    proofs: list[Proof] = []
    while len(proofs) < needed:
        try:
            vertex = programme.minimise(cost, inflation)
            proof, attained = vertex.proof, float(vertex.point[parameter])
        except NotConverged:  # the preconditioned Gauss-Seidel step: a row of the pseudo-inverse, of what is left
            on, n = programme.on, len(polytope)
            middle = (polytope.normal[on] - polytope.normal[on + n]) / (2 * polytope.bound[on, None])
            proof = Proof(on, sign * np.linalg.pinv(middle)[parameter] / polytope.bound[on])
        value = min(value, proof.minimum(polytope, cost))
        if not value > sign * known:
            value, proofs = sign * known, []
            break
        proofs.append(proof)
        programme.switch(proof.equations, False)
    programme.switch(equations_of(proofs), True)
    return Bound(parameter, upper, sign * value, attained, tuple(proofs))


def _cheap_contradictions(polytope: Polytope, equations: Equations, most: int) -> list[Proof]:
    """Find equations that nothing in the box satisfies, alone or with a neighbour of the same row, worst first."""
    n = len(polytope)
    reach = polytope.reach()
    free = np.ones(n, bool)
    found: list[Proof] = []

    def take(members: Sequence[IntArray], sides: Sequence[float], margin: FloatArray) -> None:
        for i in np.argsort(margin):
            chosen = np.array([member[i] for member in members])
            if margin[i] >= 0 or len(found) == most:
                return
            proof = Proof(chosen, np.array(sides))
            if free[chosen].all() and proof.contradicts(polytope):
                free[chosen] = False
                found.append(proof)

    take([np.arange(n)], [1.0], reach[:n])
    take([np.arange(n)], [-1.0], reach[n:])
    order = np.lexsort([equations.sample, equations.row])
    for lag in _LAGS:
        first, second = order[:-lag], order[lag:]
        same = equations.row[first] == equations.row[second]
        first, second = first[same], second[same]
        for one, other in ((first, second), (second, first)):
            both = polytope.normal[one] + polytope.normal[other + n]
            ends = np.maximum(both * polytope.box.lower, both * polytope.box.upper).sum(axis=1)
            take([one, other], [1.0, -1.0], ends - polytope.offset[one] - polytope.offset[other + n])
    return found


def _too_many(problem: BoundedProblem, outliers: int, cases: Sequence[Case]) -> InconsistentData:
    sets = max((case.rounds[-1].contradictions for case in cases if case.rounds), key=len)
    pairs, words = named(problem, np.unique(equations_of(sets)))
    return InconsistentData(
        f"more than {outliers} equations break the error bound whatever the parameters in the prior, as many outliers "
        f"were allowed; {len(sets)} sets of equations contradict each other or the prior"
        f"{': ' + words if words else ''}; check the model, the prior and the error bound before allowing more",
        samples=pairs, allowed=outliers, needed=outliers + 1)


def _open(problem: BoundedProblem, boxes: Sequence[Interval]) -> list[str]:
    still = sorted({j for box in boxes for j in problem.equations.open_signs(box)})
    names = ", ".join(problem.parameters[j] for j in still)
    return [f"the bounds hold but are wider than needed: the regressor is uncertain and the signs of {names} are open; "
            "give priors that fix signs"] if still else []


def _silent(problem: BoundedProblem, lower: FloatArray, upper: FloatArray, outliers: int) -> list[str]:
    same = (lower <= problem.prior_lower) & (upper >= problem.prior_upper)
    names = ", ".join(problem.parameters[j] for j in np.flatnonzero(same))
    return [f"with {outliers} outliers anywhere the data say nothing about {names} beyond the prior; more equations, a "
            "narrower prior or fewer outliers would"] if same.any() else []
