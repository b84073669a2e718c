"""What was proven about the box of a problem, and the form in which it is stored for `verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gough.bounding.polytope import Proof, equations_of
from gough.bounding.problem import BoundedProblem
from gough.core.arrays import FloatArray, IntArray
from gough.core.intervals import Interval


class Bound(NamedTuple):
    """A bound of one parameter and what proves it."""

    parameter: int
    upper: bool
    value: float  # no feasible parameter vector is beyond it
    # by the last programme: without outliers, a feasible point up to
    # the solver's tolerance
    attained: float
    # share no equation; empty if the box itself is the bound
    proofs: list[Proof]


class Round(NamedTuple):
    """What was proven inside one box."""

    # sets of equations that nothing in the box satisfies; they share no
    # equation
    contradictions: list[Proof]
    # lower and upper of each parameter; empty if the contradictions
    # suffice
    bounds: list[Bound]
    # a factor on the error bounds at which some parameters violate no
    # more equations than allowed
    ratio: float

    @property
    def proofs(self) -> list[Proof]:
        """All proofs of this round."""
        proofs = list(self.contradictions)
        for bound in self.bounds:
            proofs += bound.proofs
        return proofs

    @property
    def gap(self) -> FloatArray:
        """Gap between proven and attained bounds, (p,)."""
        gaps = [abs(bound.value - bound.attained) for bound in self.bounds]
        return np.maximum(gaps[::2], gaps[1::2])

    @property
    def box(self) -> Interval:
        """The proven bounds, (p,)."""
        values = np.array([bound.value for bound in self.bounds])
        return Interval(values[::2], values[1::2])


class Case(NamedTuple):
    """Rounds of proofs where some parameters have a known sign."""

    signs: Mapping[int, int]  # -1 or 1 by index of the parameter
    rounds: list[Round]  # each inside the box of the one before
    box: Interval | None  # proven by the rounds; None if it is empty


class BoxSearch(NamedTuple):
    """All that was proven about a problem, in the order in which it was."""

    outliers: int
    # what proves the first box: see `finite_start`
    start: list[dict[str, Any]]
    root: Case  # before signs are split
    cases: list[Case]  # one for each combination of signs

    @property
    def proofs(self) -> list[Proof]:
        """All proofs of all rounds."""
        proofs: list[Proof] = []
        for case in (self.root, *self.cases):
            for done in case.rounds:
                proofs += done.proofs
        return proofs

    @property
    def feasible_cases(self) -> list[Case]:
        """The cases whose box is not empty."""
        return [case for case in self.cases if case.box is not None]

    @property
    def boxes(self) -> list[Interval]:
        """The boxes of the feasible cases."""
        return [case.box for case in self.cases if case.box is not None]

    @property
    def ratio(self) -> float:
        """Smallest factor on the error bounds at which some parameters were found to fit."""
        ratios = [done.ratio for done in self.root.rounds]
        for case in self.feasible_cases:
            ratios += [done.ratio for done in case.rounds]
        return min(ratios)


def stored_proof(problem: BoundedProblem, search: BoxSearch) -> dict[str, Any]:
    """Return the proof of a box as plain numbers: equations, rounds and the sums of each.

    `verify` reads it and shares no code with this package.
    """
    equations = problem.equations
    sets = [start["equations"] for start in search.start]
    cited = np.unique(np.concatenate([equations_of(search.proofs), *sets]))
    start = []
    for one in search.start:
        start.append(one | {"equations": np.searchsorted(cited, one["equations"]).tolist()})
    cases = []
    for case in search.cases:
        signs = {str(j): sign for j, sign in case.signs.items()}
        cases.append({"signs": signs, "rounds": _stored_rounds(case, cited)})
    upper: list[list[float]] = []
    if not equations.exact:
        upper = equations.regressor.upper[cited].tolist()
    return {
        "outliers": search.outliers,
        "prior_lower": problem.prior_lower.tolist(),
        "prior_upper": problem.prior_upper.tolist(),
        "sample": equations.sample[cited].tolist(),
        "row": equations.row[cited].tolist(),
        "effort": equations.effort[cited].tolist(),
        "bound": equations.bound[cited].tolist(),
        "lower": equations.regressor.lower[cited].tolist(),
        "upper": upper,
        "start": start,
        "rounds": _stored_rounds(search.root, cited),
        "cases": cases,
    }


def count_proofs(stored: Mapping[str, Any]) -> int:
    """Return the number of sums of equations in a stored proof."""
    count = 0
    for case in (stored, *stored["cases"]):
        for done in case["rounds"]:
            count += len(done["contradictions"])
            for bound in done["bounds"]:
                count += len(bound["proofs"])
    return count


def _stored_rounds(case: Case, cited: IntArray) -> list[dict[str, Any]]:
    """Return the rounds of a case that prove something."""
    rounds = []
    for done in case.rounds:
        bounds = []
        for bound in done.bounds:
            if bound.proofs:
                bounds.append(
                    {
                        "parameter": bound.parameter,
                        "upper": bound.upper,
                        "value": bound.value,
                        "proofs": _stored_proofs(bound.proofs, cited),
                    }
                )
        if bounds or not done.bounds:
            contradictions = _stored_proofs(done.contradictions, cited)
            rounds.append({"contradictions": contradictions, "bounds": bounds})
    return rounds


def _stored_proofs(proofs: Sequence[Proof], cited: IntArray) -> list[dict[str, Any]]:
    """Return proofs with equations numbered as they are cited in the file."""
    stored = []
    for proof in proofs:
        positions = np.searchsorted(cited, proof.equations)
        stored.append({"equations": positions.tolist(), "weights": proof.weights.tolist()})
    return stored
