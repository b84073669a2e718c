"""Bounded-error estimation (P03): boxes that contain every parameter vector the data allow.

State the problem as `BoundedProblem` and enclose its feasible set with `ExactBox` (smallest box,
certified, with outliers if they must be reckoned with), `TrimmedBox` (outliers removed by a
heuristic) or `GaussSeidel` (the paper).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.bounding.exact_box import ExactBox
from gough.bounding.gauss_seidel import GaussSeidel
from gough.bounding.polytope import BoundedProblem, Polytope, Programme, linearised, named
from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged, nearest
from gough.fitting.estimate import Enclosure

__all__ = [
    "SOLVERS",
    "BoundedProblem",
    "ExactBox",
    "GaussSeidel",
    "Solver",
    "TrimmedBox",
    "enclose",
]

Solver = Literal["exact", "trimmed", "gauss-seidel"]
SOLVERS = ("exact", "trimmed", "gauss-seidel")
_MISFIT = 1e-9  # in units of the error bound: what counts as violated
# in units of the error bound: violations beyond this hardly count in a reweighted search
_SOFTNESS = 0.1
_REWEIGHTINGS = 2


def enclose(problem: BoundedProblem, solver: Solver = "exact", outliers: int = 0) -> Enclosure:
    """Enclose the feasible set by a named solver, reckoning with outliers where it can."""
    if solver not in SOLVERS:
        raise InvalidInput(f"no method '{solver}'{nearest(solver, SOLVERS)}", method=solver)
    if solver == "gauss-seidel":
        if outliers:
            raise InvalidInput("interval Gauss-Seidel knows no outliers; use the exact box")
        return GaussSeidel().fit(problem)
    return (ExactBox if solver == "exact" else TrimmedBox)(outliers=outliers).fit(problem)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrimmedBox:
    """Settings of the smallest box of the equations that are left when those that fit worst are
    removed.

    A heuristic: with outliers little beyond the bound it can exclude the truth (13 of 40 boxes with
    2 % of them). The box with a guarantee is `ExactBox(outliers=...)`.
    """

    outliers: int = 0

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Remove outliers and enclose what the others allow."""
        removed, words = named(problem, _outliers(problem, self.outliers))
        box = ExactBox().fit(problem.without(removed))
        notes = (
            [
                f"a heuristic, and conditional: {len(removed)} equations were left out as outliers "
                f"({words}); the box "
                "holds the truth if no other breaks its bound, and mild outliers may have stayed"
            ]
            if removed
            else []
        )
        return replace(
            box,
            method="exact box, trimmed (heuristic)",
            notes=(*notes, *box.notes),
            certificate={**box.certificate, "removed": [list(pair) for pair in removed]},
        )


def _outliers(problem: BoundedProblem, most: int) -> IntArray:
    """Return equations whose removal leaves a feasible set, at most `most`.

    First those that the parameters of least absolute deviation violate: these are near the truth
    whatever a minority of equations says, while a mild outlier can hide if as few equations as
    possible are to go.

    If these are too many: the sum of violations is minimised, then reweighted by 1 / (violation +
    small), which moves it towards their number (Candes, Wakin & Boyd 2008). The equations still
    violated are taken out; those that the centre of the rest satisfies come back. The fewest
    possible are not guaranteed: that problem is NP-hard.
    """
    if most < 0:
        raise InvalidInput(f"outliers is {most}, expected zero or more")
    everything = linearised(problem.equations, problem.prior)
    programme = Programme(everything)
    if programme.minimise().inflation <= 1:
        return np.empty(0, np.int64)
    kept = _satisfied(everything, _minimised(programme, 0.0, 0))
    if (~kept).sum() > most:
        kept, before = _satisfied(everything, _minimised(programme, 1.0, _REWEIGHTINGS)), -1
        while before != kept.sum():  # bring back what the centre of the kept ones satisfies
            before = kept.sum()
            kept = kept | _satisfied(everything, Programme(everything.take(kept)).minimise().point)
    removed = np.flatnonzero(~kept)
    if len(removed) > most:
        raise InconsistentData(
            f"the data agree only when {len(removed)} equations are left out (fewest found), at "
            f"most {most} were "
            "allowed; check the model and the error bound before allowing more",
            needed=len(removed),
            allowed=most,
        )
    return removed


def _satisfied(everything: Polytope, point: FloatArray) -> BoolArray:
    return np.asarray((everything.excess(point) <= 1 + _MISFIT).all(axis=0))


def _minimised(programme: Programme, free: float, reweightings: int) -> FloatArray:
    """Minimise sum_k w_k max(0, |effort - W theta| / bound - free)_k over the box, (p,).

    Solved as its dual, p equations in 2 n bounded unknowns:  max g lambda  with  lambda G = 0,  0
    <= lambda <= w.
    """
    from scipy.optimize import linprog  # here: it takes long to import

    box, p, n = programme.polytope.box, len(programme.scale), len(programme.offset)
    limits = np.concatenate([box.lower / programme.scale, -box.upper / programme.scale])
    finite = np.isfinite(limits)
    matrix = np.vstack([programme.normal, np.vstack([np.eye(p), -np.eye(p)])[finite]])
    right = np.concatenate([programme.offset - free, limits[finite]])
    ceiling = np.append(np.ones(n), np.full(int(finite.sum()), np.inf))
    for _ in range(reweightings + 1):
        answer = linprog(
            -right,
            A_eq=matrix.T,
            b_eq=np.zeros(p),
            method="highs-ds",
            bounds=np.column_stack([np.zeros(len(right)), ceiling]),
        )
        if answer.status != 0:
            raise NotConverged(
                f"search for outliers ended as '{answer.message}', expected an optimum"
            )
        point = -np.asarray(answer.eqlin.marginals) * programme.scale
        violation = np.maximum(programme.polytope.excess(point).ravel() - free, 0.0)
        ceiling[:n] = _SOFTNESS / (_SOFTNESS + violation)
    return point
