"""What proves a box, as it is stored with it: equations, weights, and the order in which they were used.

`verify` reads it and shares no code with this room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.intervals import Interval
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.polytope import Proof, equations_of


@dataclass(frozen=True, eq=False)
class Start:
    """As many equations as there are unbounded parameters, and a matrix that nearly inverts them.

    With X W_u theta_u = X (W theta - W_k theta_k), u unbounded and k known, and D = 1 - X W_u:

        |theta_u| <= |D| |theta_u| + |X| (|effort| + bound + |W_k| |theta_k|)   and so   |theta_u| <= v / (1 - b)

    if v exceeds the last term and |D| v <= b v with b < 1.

    Args:
        equations: (u,).
        matrix: X, (u, u).
        size: v, (u,).
    """

    equations: IntArray
    matrix: FloatArray
    size: FloatArray


@dataclass(frozen=True, eq=False)
class Bound:
    """A bound of one parameter and what proves it.

    Args:
        parameter: Its index.
        upper: Which side.
        value: No feasible parameter vector is beyond it.
        attained: What the last programme reached: without outliers, a feasible point up to the solver's tolerance.
        proofs: Share no equation; none if the box itself is the bound.
    """

    parameter: int
    upper: bool
    value: float
    attained: float
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, eq=False)
class Round:
    """What was proven inside one box.

    Args:
        contradictions: Sets of equations that nothing in the box satisfies; they share no equation.
        bounds: Lower and upper bound of each parameter; empty if the contradictions suffice.
        ratio: A factor on the error bounds at which some parameters break no more equations than allowed.
        gap: Between proven and attained bounds, (p,).
    """

    contradictions: Sequence[Proof]
    bounds: Sequence[Bound]
    ratio: float
    gap: FloatArray

    @property
    def proofs(self) -> list[Proof]:
        """All of them."""
        return [*self.contradictions, *(proof for bound in self.bounds for proof in bound.proofs)]


@dataclass(frozen=True, eq=False)
class Case:
    """Rounds one after the other, where some parameters have a known sign.

    Args:
        signs: -1 or 1 by index of the parameter.
        rounds: Each inside the box of the one before.
        box: What is left, or None.
    """

    signs: Mapping[int, int]
    rounds: tuple[Round, ...]
    box: Interval | None


def stored(problem: BoundedProblem, outliers: int, start: Sequence[Start], root: Case, parts: Sequence[Case],
           ) -> dict[str, Any]:
    """Return the proof of a box as plain numbers: the equations it uses, the rounds, and what to add up in each."""
    equations = problem.equations
    rounds = [done for case in (root, *parts) for done in case.rounds]
    used = np.unique(np.concatenate([equations_of(done.proofs) for done in rounds] + [s.equations for s in start]))
    place = {int(k): i for i, k in enumerate(used)}

    def of(proof: Proof) -> dict[str, Any]:
        return {"equations": [place[int(k)] for k in proof.equations], "weights": proof.weights.tolist()}

    def told(case: Case) -> list[dict[str, Any]]:
        return [{"contradictions": [of(proof) for proof in done.contradictions],
                 "bounds": [{"parameter": bound.parameter, "upper": bound.upper, "value": bound.value,
                             "proofs": [of(proof) for proof in bound.proofs]}
                            for bound in done.bounds if bound.proofs]}
                for done in case.rounds if not done.bounds or any(bound.proofs for bound in done.bounds)]

    return {
        "outliers": outliers, "prior_lower": problem.prior_lower.tolist(), "prior_upper": problem.prior_upper.tolist(),
        "sample": equations.sample[used].tolist(), "row": equations.row[used].tolist(),
        "effort": equations.effort[used].tolist(), "bound": equations.bound[used].tolist(),
        "lower": equations.regressor.lower[used].tolist(),
        "upper": [] if equations.exact else equations.regressor.upper[used].tolist(),
        "start": [{"equations": [place[int(k)] for k in s.equations], "matrix": s.matrix.tolist(),
                   "size": s.size.tolist()} for s in start],
        "rounds": told(root),
        "cases": [{"signs": {str(j): sign for j, sign in case.signs.items()}, "rounds": told(case)} for case in parts]}
