"""The smallest box around the feasible set, by linear programmes with rigorous bounds.

With q outliers the set is larger: every parameter vector that violates
at most q of the equations. Each bound then rests on q + 1 proofs that
share no equation. Whichever q equations are wrong, one proof is free of
them, so the weakest of the q + 1 bounds holds. They come from peeling:
solve, keep the multipliers' equations as one proof, disable these,
solve again. A set of equations that contradict each other inside the
box proves anything, so it is a proof of every bound; a gross outlier is
soon one alone. Proofs may use the box found so far, hence rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.bounding.linear_program import LinearProgram, reduce_contradiction
from gough.bounding.messages import explain_contradiction, warn_if_nearly_empty
from gough.bounding.polytope import (
    Polytope,
    Proof,
    equations_of,
    linearise,
    split_signs,
)
from gough.bounding.problem import BoundedProblem, Equations
from gough.bounding.proofs import Bound, BoxSearch, Case, Round, count_proofs, stored_proof
from gough.bounding.start_box import finite_start
from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.intervals import Interval
from gough.core.notices import Notice
from gough.core.progress import portion, tracked
from gough.fitting.estimate import Enclosure

# relative gap between proven and attained bounds that is reported
_NOTABLE_GAP = 1e-3
_CLOSED_GAP = 1e-9  # relative gap that another round need not close
# another round if the last reduced the widths below this fraction
# (geometric mean)
_MIN_ROUND_GAIN = 0.9
_MAX_ROUNDS = 10
# distances, in samples, of equations of a joint that are tested in
# pairs for a contradiction
_PAIR_LAGS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactBox:
    """The box around the feasible set (25) of P03: the smallest if there are no outliers.

    Args:
        outliers: How many equations may violate their bound, whichever
            they are. The box contains every parameter vector that
            violates no more; it is certified, and wider than the
            smallest box around that set.
    """

    outliers: int = 0

    def __post_init__(self) -> None:
        if self.outliers < 0:
            raise InvalidInput(f"outliers is {self.outliers}, expected zero or more")

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set; without outliers exactly up to `certificate['gap']`."""
        search = _search(problem, self.outliers)
        if not search.boxes:
            if not self.outliers:
                raise explain_contradiction(problem)
            raise _too_many_outliers(problem, search)
        lower = np.min([box.lower for box in search.boxes], axis=0)
        upper = np.max([box.upper for box in search.boxes], axis=0)
        proof = stored_proof(problem, search)
        certificate: dict[str, Any] = {
            "guarantee": "safe dual bounds of linear programmes in outward-rounded interval "
            "arithmetic",
            "equations": len(problem.equations.effort),
            "outliers": self.outliers,
            "proofs": count_proofs(proof),
            "smallest_fitting": search.ratio,
            "error_bound": [
                float(problem.error_bound.min()),
                float(problem.error_bound.max()),
            ],
        }
        notices = warn_if_nearly_empty(search.ratio)
        notices += _warn_if_signs_are_open(problem, search)
        method = "exact box"
        if self.outliers:
            method = f"box with up to {self.outliers} outliers"
            notices += _warn_if_prior_is_not_narrowed(problem, self.outliers, lower, upper)
        else:
            gap = np.max([case.rounds[-1].gap for case in search.feasible_cases], axis=0)
            relative_gap = float((gap / np.maximum(upper - lower, 1e-300)).max())
            certificate |= {
                "gap": float(gap.max()),
                "relative_gap": relative_gap,
            }
            notices += _warn_if_gap_is_large(relative_gap)
        certificate["proof"] = proof
        return Enclosure(
            parameters=problem.parameters,
            units=problem.units,
            lower=lower,
            upper=upper,
            method=method,
            notices=tuple(notices),
            certificate=certificate,
        )


def _search(problem: BoundedProblem, outliers: int) -> BoxSearch:
    """Narrow the prior box, then each combination of open signs by itself."""
    equations = problem.equations
    box, start = finite_start(problem, outliers)
    root = Case({}, [], box)
    if equations.open_signs(box):
        root = _narrow(equations, {}, box, outliers)
    cases = []
    if root.box is not None:
        pieces = list(split_signs(equations, root.box))
        for k, (signs, piece) in enumerate(pieces):
            with portion(k / len(pieces), (k + 1) / len(pieces)):
                cases.append(_narrow(equations, signs, piece, outliers))
    return BoxSearch(outliers, start, root, cases)


def _narrow(equations: Equations, signs: Mapping[int, int], box: Interval, outliers: int) -> Case:
    """Bound every parameter again and again, each time inside the box found before."""
    rounds: list[Round] = []
    while len(rounds) < _MAX_ROUNDS:
        width_before = box.upper - box.lower
        # how many rounds there will be is not known; most boxes need
        # one or two
        with portion(1 - 0.5 ** len(rounds), 1 - 0.5 ** (len(rounds) + 1)):
            done = _prove_round(equations, box, outliers)
        rounds.append(done)
        box = done.box
        if not done.bounds or box.empty.any():  # bounds that cross prove emptiness too
            return Case(signs, rounds, None)
        width = box.upper - box.lower
        gap_closed = bool((done.gap <= _CLOSED_GAP * width).all())
        if gap_closed and not outliers and not equations.open_signs(box):
            break
        wide = width > 0
        if not wide.any():
            break
        gain = np.exp(np.log(width[wide] / width_before[wide]).mean())
        if gain > _MIN_ROUND_GAIN:
            break
    return Case(signs, rounds, box)


def _prove_round(equations: Equations, box: Interval, outliers: int) -> Round:
    """Bound every parameter from both sides inside a box.

    Bounds are not needed if more sets of equations contradict the box
    than there are outliers.
    """
    polytope = linearise(equations, box)
    program = LinearProgram(polytope)
    contradictions: list[Proof] = []
    if outliers:
        contradictions = _simple_contradictions(polytope, equations, outliers + 1)
    program.disable(contradictions)
    inflation = 1.0
    ratio = np.inf
    while len(contradictions) <= outliers:
        try:
            centre = program.smallest_inflation()
        except NotConverged:
            break
        # where the set is nearly empty the solver's tolerance decides
        inflation = max(1.0, centre.inflation)
        excess = np.sort(polytope.excess(centre.point).max(axis=0))[::-1]
        ratio = float(excess[outliers]) if outliers < len(excess) else 0.0
        if centre.inflation <= 1 or not polytope.contradicted(centre.proof):
            break
        contradiction = centre.proof
        if outliers:
            contradiction = reduce_contradiction(polytope, contradiction)
        contradictions.append(contradiction)
        program.disable([contradiction])
    needed = outliers + 1 - len(contradictions)
    bounds: list[Bound] = []
    if needed > 0:
        for j in tracked(range(len(box.lower))):
            bounds.append(prove_bound(program, j, False, inflation, needed))
            bounds.append(prove_bound(program, j, True, inflation, needed))
    return Round(contradictions, bounds, ratio)


def prove_bound(
    program: LinearProgram,
    parameter: int,
    upper: bool,
    inflation: float,
    needed: int,
) -> Bound:
    """Bound one parameter by several proofs that share no equation.

    The box itself is the bound if there are not enough proofs.

    Args:
        program: Linear programmes over the polytope.
        parameter: Index of the parameter.
        upper: Whether the upper bound is wanted.
        inflation: Factor on the error bounds in the programmes.
        needed: Number of proofs.
    """
    polytope = program.polytope
    sign = -1.0 if upper else 1.0
    cost = np.zeros(polytope.normal.shape[1])
    cost[parameter] = sign
    side = polytope.box.upper if upper else polytope.box.lower
    box_bound = float(side[parameter])
    minimum = np.inf
    attained = box_bound
    proofs: list[Proof] = []
    while len(proofs) < needed:
        try:
            vertex = program.minimise(cost, inflation)
            proof = vertex.proof
            attained = float(vertex.point[parameter])
        except NotConverged:
            proof = _gauss_seidel_proof(program, parameter, sign)
        minimum = min(minimum, polytope.minimum(proof, cost))
        if not minimum > sign * box_bound:
            program.enable(proofs)
            return Bound(parameter, upper, box_bound, attained, [])
        proofs.append(proof)
        program.disable([proof])
    program.enable(proofs)
    return Bound(parameter, upper, sign * minimum, attained, proofs)


def _gauss_seidel_proof(program: LinearProgram, parameter: int, sign: float) -> Proof:
    """Return the step of preconditioned Gauss-Seidel as a proof.

    Its weights are a row of the pseudo-inverse of the enabled
    equations.
    """
    polytope = program.polytope
    enabled = program.enabled
    bound = polytope.bound[enabled]
    difference = polytope.normal[enabled] - polytope.normal[enabled + len(polytope)]
    middle = difference / (2 * bound[:, None])
    weights = sign * np.linalg.pinv(middle)[parameter] / bound
    return Proof(enabled, weights)


def _simple_contradictions(polytope: Polytope, equations: Equations, max_count: int) -> list[Proof]:
    """Find equations that nothing in the box satisfies, alone or with a neighbour in time.

    Neighbours belong to the same joint. The worst contradictions are
    first.
    """
    n = len(polytope)
    every = np.arange(n)
    tests = [([every], [1.0]), ([every], [-1.0])]
    order = np.lexsort([equations.sample, equations.row])
    for lag in _PAIR_LAGS:
        same_row = equations.row[order[:-lag]] == equations.row[order[lag:]]
        earlier = order[:-lag][same_row]
        later = order[lag:][same_row]
        tests.append(([earlier, later], [1.0, -1.0]))
        tests.append(([later, earlier], [1.0, -1.0]))
    unused = np.ones(n, bool)
    proofs: list[Proof] = []
    for members, sides in tests:
        margin = _largest_margin(polytope, members, sides)
        for i in np.argsort(margin):
            if margin[i] >= 0 or len(proofs) == max_count:
                break
            chosen = np.array([member[i] for member in members])
            proof = Proof(chosen, np.array(sides))
            if unused[chosen].all() and polytope.contradicted(proof):
                unused[chosen] = False
                proofs.append(proof)
    return proofs


def _largest_margin(
    polytope: Polytope, members: Sequence[IntArray], sides: Sequence[float]
) -> FloatArray:
    """Return the largest margin in the box of sums of half-spaces; not rounded outward.

    No point of the box satisfies a sum with a negative margin.

    Args:
        polytope: The half-spaces and the box.
        members: Equations to add up, one array for each summand, (m,)
            each.
        sides: 1 for the lower, -1 for the upper half-space of each
            summand.
    """
    normals = []
    offsets = []
    for member, side in zip(members, sides):
        half_space = member if side > 0 else member + len(polytope)
        normals.append(polytope.normal[half_space])
        offsets.append(polytope.offset[half_space])
    normal = np.sum(normals, axis=0)
    largest = np.maximum(normal * polytope.box.lower, normal * polytope.box.upper).sum(axis=1)
    return np.asarray(largest - np.sum(offsets, axis=0))


def _warn_if_signs_are_open(problem: BoundedProblem, search: BoxSearch) -> list[Notice]:
    """Warn if bounds are wide because the sign of a parameter is open."""
    open_signs: set[int] = set()
    for box in search.boxes:
        open_signs.update(problem.equations.open_signs(box))
    if not open_signs:
        return []
    names = ", ".join(problem.parameters[j] for j in sorted(open_signs))
    notice = Notice(
        rule="wide bounds",
        level="info",
        where=names,
        text="the bounds hold but are wider than needed: the regressor is uncertain and the signs "
        "are open",
        advice="give priors that fix signs",
    )
    return [notice]


def _warn_if_prior_is_not_narrowed(
    problem: BoundedProblem, outliers: int, lower: FloatArray, upper: FloatArray
) -> list[Notice]:
    """Warn if the box of some parameters is still their prior."""
    as_prior = (lower <= problem.prior_lower) & (upper >= problem.prior_upper)
    if not as_prior.any():
        return []
    names = ", ".join(problem.parameters[j] for j in np.flatnonzero(as_prior))
    notice = Notice(
        rule="wide bounds",
        level="info",
        where=names,
        text=f"with {outliers} outliers anywhere the data do not narrow the prior",
        advice="use more equations, a narrower prior or fewer outliers",
    )
    return [notice]


def _warn_if_gap_is_large(relative_gap: float) -> list[Notice]:
    """Warn if the proven bounds are noticeably wider than the attained ones."""
    if relative_gap <= _NOTABLE_GAP:
        return []
    notice = Notice(
        rule="wide bounds",
        level="info",
        text=f"the bounds hold but are proven only to {100 * relative_gap:.2g} % of the width",
        advice="give a narrower prior",
        numbers={"relative gap": relative_gap},
    )
    return [notice]


def _too_many_outliers(problem: BoundedProblem, search: BoxSearch) -> InconsistentData:
    """Return the error for a problem with more outliers than were allowed."""
    sets: list[Proof] = []
    for case in (search.root, *search.cases):
        if case.rounds and len(case.rounds[-1].contradictions) > len(sets):
            sets = case.rounds[-1].contradictions
    pairs = problem.pairs_of(np.unique(equations_of(sets)))
    listed = f": {problem.list_pairs(pairs)}" if pairs else ""
    return InconsistentData(
        f"more than {search.outliers} equations violate the error bound whatever the parameters in "
        f"the prior, as many outliers were allowed; {len(sets)} sets of equations contradict each "
        f"other or the prior{listed}; check the model, the prior and the error bound before "
        "allowing more",
        samples=pairs,
        allowed=search.outliers,
        needed=search.outliers + 1,
    )
