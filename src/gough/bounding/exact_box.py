"""The smallest box around the feasible set, by linear programmes whose bounds rounding cannot
break.

With q outliers the set is larger: every parameter vector that breaks at most q of the equations.
Each bound then rests on q + 1 proofs that share no equation. Whichever q equations are wrong, one
proof is free of them, so the weakest of the q + 1 bounds holds. They come from peeling: solve, keep
the multipliers' equations as one proof, switch these off, solve again. A set of equations that
contradict each other inside the box proves anything, so it counts for every bound; a gross outlier
is soon one alone. Proofs may use the box found so far, hence rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gough.bounding.gauss_seidel import finite_start
from gough.bounding.polytope import (
    BoundedProblem,
    Equations,
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
from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval
from gough.fitting.estimate import Enclosure

_LOOSE = 1e-3  # relative gap between proven and attained bounds worth a note
_GAP = 1e-9  # relative gap that another round need not close
_GAIN = 0.9  # another round if the last left less of the widths than this (geometric mean)
_MOST_ROUNDS = 10
_LAGS = (1, 2, 3)  # neighbours of a row among which pairs that contradict each other are sought


class Bound(NamedTuple):
    """A bound of one parameter and what proves it."""

    parameter: int
    upper: bool
    value: float  # no feasible parameter vector is beyond it
    # by the last programme: without outliers, a feasible point up to the solver's tolerance
    attained: float
    proofs: list[Proof]  # share no equation; none if the box itself is the bound


class Round(NamedTuple):
    """What was proven inside one box."""

    contradictions: list[Proof]  # equations that nothing in the box satisfies; they share none
    bounds: list[Bound]  # lower and upper of each parameter; none if the contradictions suffice
    # a factor on the error bounds at which some parameters break no more equations than allowed
    ratio: float

    @property
    def proofs(self) -> list[Proof]:
        return [*self.contradictions, *(proof for bound in self.bounds for proof in bound.proofs)]

    @property
    def gap(self) -> FloatArray:
        """Between proven and attained bounds, (p,)."""
        gaps = [abs(bound.value - bound.attained) for bound in self.bounds]
        return np.maximum(gaps[::2], gaps[1::2])


class Case(NamedTuple):
    """Rounds one after the other where some parameters have a known sign, and the box that they
    leave, or None.
    """

    signs: Mapping[int, int]  # -1 or 1 by index of the parameter
    rounds: list[Round]
    box: Interval | None


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactBox:
    """Settings of the box around the feasible set (25) of P03: the smallest if there are no
    outliers.

    Args:
        outliers: How many equations may break their bound, whichever they are. The box contains
            every parameter vector that breaks no more; it is certified, and wider than the smallest
            box around that set.
    """

    outliers: int = 0

    def __post_init__(self) -> None:
        if self.outliers < 0:
            raise InvalidInput(f"outliers is {self.outliers}, expected zero or more")

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set; without outliers each bound is exact up to
        `certificate['gap']`.
        """
        equations, q = problem.equations, self.outliers
        box, start = finite_start(problem, q)
        root = _narrowed(equations, {}, box, q) if equations.open_signs(box) else Case({}, [], box)
        parts = (
            []
            if root.box is None
            else [
                _narrowed(equations, signs, part, q)
                for signs, part in orthants(equations, root.box)
            ]
        )
        left = [case for case in parts if case.box is not None]
        if not left:
            raise explain(problem) if not q else _too_many(problem, q, [root, *parts])
        boxes = [case.box for case in left if case.box is not None]
        lower, upper = (
            np.min([b.lower for b in boxes], axis=0),
            np.max([b.upper for b in boxes], axis=0),
        )
        ratio = min(r.ratio for case in left for r in (*root.rounds, *case.rounds))
        certificate: dict[str, Any] = {
            "guarantee": "safe dual bounds of linear programmes in outward-rounded interval "
            "arithmetic",
            "equations": len(equations.effort),
            "outliers": q,
            "proofs": sum(len(r.proofs) for case in (root, *parts) for r in case.rounds),
            "smallest_fitting": ratio,
            "error_bound": [float(problem.error_bound.min()), float(problem.error_bound.max())],
        }
        notes = verge(ratio)
        names = {j: problem.parameters[j] for box in boxes for j in equations.open_signs(box)}
        if names:
            notes.append(
                "the bounds hold but are wider than needed: the regressor is uncertain and the "
                "signs of "
                f"{', '.join(names[j] for j in sorted(names))} are open; give priors that fix signs"
            )
        silent = np.flatnonzero((lower <= problem.prior_lower) & (upper >= problem.prior_upper))
        if q and len(silent):
            notes.append(
                f"with {q} outliers anywhere the data say nothing about "
                f"{', '.join(problem.parameters[j] for j in silent)} beyond the prior; more "
                f"equations, a "
                "narrower prior or fewer outliers would"
            )
        if not q:
            gap = np.max([case.rounds[-1].gap for case in left], axis=0)
            relative = float((gap / np.maximum(upper - lower, 1e-300)).max())
            certificate |= {"gap": float(gap.max()), "relative_gap": relative}
            if relative > _LOOSE:
                notes.append(
                    f"the bounds hold but are proven only to {100 * relative:.2g} % of the width; "
                    f"give a "
                    "narrower prior"
                )
        return Enclosure(
            parameters=problem.parameters,
            units=problem.units,
            lower=lower,
            upper=upper,
            method="exact box" if not q else f"box with up to {q} outliers",
            notes=tuple(notes),
            certificate=certificate | {"proof": _stored(problem, q, start, root, parts)},
        )


def _narrowed(equations: Equations, signs: Mapping[int, int], box: Interval, outliers: int) -> Case:
    """Bound every parameter again and again, each time inside the box found before."""
    rounds: list[Round] = []
    while len(rounds) < _MOST_ROUNDS:
        before = box.upper - box.lower
        done = _round(equations, box, outliers)
        rounds.append(done)
        box = Interval(*np.array([bound.value for bound in done.bounds]).reshape(-1, 2).T)
        if not done.bounds or box.empty.any():  # bounds that cross are a proof of emptiness too
            return Case(signs, rounds, None)
        after = box.upper - box.lower
        closed = (done.gap <= _GAP * after).all() and not outliers and not equations.open_signs(box)
        wide = after > 0
        if closed or not wide.any() or np.exp(np.log(after[wide] / before[wide]).mean()) > _GAIN:
            break
    return Case(signs, rounds, box)


def _round(equations: Equations, box: Interval, outliers: int) -> Round:
    """Bound every parameter from both sides inside a box, unless more than q sets of equations
    contradict it.
    """
    polytope = linearised(equations, box)
    programme = Programme(polytope)
    contradictions = _cheap_contradictions(polytope, equations, outliers + 1) if outliers else []
    programme.switch(contradictions, False)
    inflation, ratio = 1.0, np.inf
    while len(contradictions) <= outliers:
        try:
            center = programme.minimise()
        except NotConverged:
            break
        inflation = max(
            1.0, center.inflation
        )  # on the verge of emptiness the solver's tolerance decides
        worst = np.sort(polytope.excess(center.point).max(axis=0))[::-1]
        ratio = float(worst[outliers]) if outliers < len(worst) else 0.0
        if center.inflation <= 1 or not polytope.contradicted(center.proof):
            break
        contradictions.append(irreducible(polytope, center.proof) if outliers else center.proof)
        programme.switch(contradictions[-1:], False)
    needed = outliers + 1 - len(contradictions)
    return Round(
        contradictions,
        [
            _bound(programme, j, upper, inflation, needed)
            for j in range(len(box.lower))
            for upper in (False, True)
            if needed > 0
        ],
        ratio,
    )


def _bound(
    programme: Programme, parameter: int, upper: bool, inflation: float, needed: int
) -> Bound:
    """Bound one parameter by several proofs that share no equation; by the box itself if there are
    not enough.
    """
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
        except (
            NotConverged
        ):  # the preconditioned Gauss-Seidel step: a row of the pseudo-inverse, of what is left
            on, n = programme.on, len(polytope)
            middle = (polytope.normal[on] - polytope.normal[on + n]) / (
                2 * polytope.bound[on, None]
            )
            proof = Proof(on, sign * np.linalg.pinv(middle)[parameter] / polytope.bound[on])
        value = min(value, polytope.minimum(proof, cost))
        if not value > sign * known:
            value, needed = sign * known, 0
            break
        proofs.append(proof)
        programme.switch([proof], False)
    programme.switch(proofs, True)
    return Bound(parameter, upper, sign * value, attained, proofs if needed else [])


def _cheap_contradictions(polytope: Polytope, equations: Equations, most: int) -> list[Proof]:
    """Find equations that nothing in the box satisfies, alone or with a neighbour of the same row,
    worst first.
    """
    n = len(polytope)
    free = np.ones(n, bool)
    found: list[Proof] = []

    def take(members: Sequence[IntArray], sides: Sequence[float]) -> None:
        half = [member if side > 0 else member + n for member, side in zip(members, sides)]
        normal = np.sum([polytope.normal[k] for k in half], axis=0)
        margin = np.maximum(normal * polytope.box.lower, normal * polytope.box.upper).sum(
            axis=1
        ) - np.sum(
            [polytope.offset[k] for k in half], axis=0
        )  # largest value in the box, not rounded outward
        for i in np.argsort(margin):
            chosen = np.array([member[i] for member in members])
            if margin[i] >= 0 or len(found) == most:
                return
            proof = Proof(chosen, np.array(sides))
            if free[chosen].all() and polytope.contradicted(proof):
                free[chosen] = False
                found.append(proof)

    take([np.arange(n)], [1.0])
    take([np.arange(n)], [-1.0])
    order = np.lexsort([equations.sample, equations.row])
    for lag in _LAGS:
        same = equations.row[order[:-lag]] == equations.row[order[lag:]]
        first, second = order[:-lag][same], order[lag:][same]
        take([first, second], [1.0, -1.0])
        take([second, first], [1.0, -1.0])
    return found


def _too_many(problem: BoundedProblem, outliers: int, cases: Sequence[Case]) -> InconsistentData:
    sets = max((case.rounds[-1].contradictions for case in cases if case.rounds), key=len)
    pairs, words = named(problem, np.unique(equations_of(sets)))
    return InconsistentData(
        f"more than {outliers} equations break the error bound whatever the parameters in the "
        f"prior, as many outliers "
        f"were allowed; {len(sets)} sets of equations contradict each other or the prior"
        f"{': ' + words if words else ''}; check the model, the prior and the error bound before "
        f"allowing more",
        samples=pairs,
        allowed=outliers,
        needed=outliers + 1,
    )


def _stored(
    problem: BoundedProblem,
    outliers: int,
    start: Sequence[dict[str, Any]],
    root: Case,
    parts: Sequence[Case],
) -> dict[str, Any]:
    """Return the proof of a box as plain numbers: the equations it uses, the rounds, and what to
    add up in each.

    `verify` reads it and shares no code with this room.
    """
    equations = problem.equations
    proofs = [proof for case in (root, *parts) for done in case.rounds for proof in done.proofs]
    used = np.unique(np.concatenate([equations_of(proofs), *(s["equations"] for s in start)]))
    place = {int(k): i for i, k in enumerate(used)}

    def places(chosen: IntArray) -> list[int]:
        return [place[int(k)] for k in chosen]

    def told(proofs: Sequence[Proof]) -> list[dict[str, Any]]:
        return [
            {"equations": places(proof.equations), "weights": proof.weights.tolist()}
            for proof in proofs
        ]

    def rounds(case: Case) -> list[dict[str, Any]]:
        return [
            {
                "contradictions": told(done.contradictions),
                "bounds": [
                    {
                        "parameter": bound.parameter,
                        "upper": bound.upper,
                        "value": bound.value,
                        "proofs": told(bound.proofs),
                    }
                    for bound in done.bounds
                    if bound.proofs
                ],
            }
            for done in case.rounds
            if not done.bounds or any(bound.proofs for bound in done.bounds)
        ]

    return {
        "outliers": outliers,
        "prior_lower": problem.prior_lower.tolist(),
        "prior_upper": problem.prior_upper.tolist(),
        "sample": equations.sample[used].tolist(),
        "row": equations.row[used].tolist(),
        "effort": equations.effort[used].tolist(),
        "bound": equations.bound[used].tolist(),
        "lower": equations.regressor.lower[used].tolist(),
        "upper": [] if equations.exact else equations.regressor.upper[used].tolist(),
        "start": [s | {"equations": places(s["equations"])} for s in start],
        "rounds": rounds(root),
        "cases": [
            {"signs": {str(j): sign for j, sign in case.signs.items()}, "rounds": rounds(case)}
            for case in parts
        ],
    }
