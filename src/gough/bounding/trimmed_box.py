"""A box of the equations that remain when those that fit worst are removed: a heuristic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gough.bounding.exact_box import ExactBox
from gough.bounding.linear_program import LinearProgram
from gough.bounding.polytope import Polytope, linearise
from gough.bounding.problem import BoundedProblem
from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.core.notices import Notice
from gough.fitting.estimate import Enclosure

# violation of an equation that is ignored, in error bounds
_MISFIT_TOLERANCE = 1e-9
# violations beyond this have little influence in the reweighted search,
# in error bounds
_REWEIGHTING_SOFTNESS = 0.1
_REWEIGHTINGS = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class TrimmedBox:
    """The smallest box of the equations that remain when those that fit worst are removed.

    A heuristic: with outliers little beyond the bound it can exclude
    the truth (13 of 40 boxes with 2 % of them). The box with a
    guarantee is `ExactBox(outliers=...)`.
    """

    outliers: int = 0  # most equations that may be removed

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Remove outliers and enclose the feasible set of the other equations."""
        removed = problem.pairs_of(find_outliers(problem, self.outliers))
        box = ExactBox().fit(problem.without(removed))
        notices = box.notices
        if removed:
            notice = Notice(
                rule="outliers",
                level="info",
                text=f"a heuristic, and conditional: {len(removed)} equations were left out as "
                f"outliers ({problem.list_pairs(removed)}); the box holds the truth if no other "
                "violates its bound, and mild outliers may have stayed",
                numbers={"equations": len(removed)},
            )
            notices = (notice, *notices)
        return replace(
            box,
            method="exact box, trimmed (heuristic)",
            notices=notices,
            certificate={
                **box.certificate,
                "removed": [list(pair) for pair in removed],
            },
        )


def find_outliers(problem: BoundedProblem, max_outliers: int) -> IntArray:
    """Return equations without which the feasible set is not empty, at most `max_outliers`.

    First those that the parameters of least absolute deviation violate:
    these are near the truth whatever a minority of equations is, while
    a mild outlier can hide if as few equations as possible are removed.

    If these are too many: the sum of violations is minimised, then
    reweighted by 1 / (violation + small), which moves it towards their
    number (Candes, Wakin & Boyd 2008). The equations still violated are
    removed; those that the centre of the others satisfies are restored.
    The fewest possible are not guaranteed: that problem is NP-hard.

    Raises:
        InconsistentData: More equations than `max_outliers` would have
            to be removed.
    """
    if max_outliers < 0:
        raise InvalidInput(f"outliers is {max_outliers}, expected zero or more")
    polytope = linearise(problem.equations, problem.prior)
    program = LinearProgram(polytope)
    if program.smallest_inflation().inflation <= 1:
        return np.empty(0, np.int64)
    kept = _satisfied(polytope, _minimise_violations(program, 0.0, 0))
    if (~kept).sum() > max_outliers:
        kept = _satisfied(polytope, _minimise_violations(program, 1.0, _REWEIGHTINGS))
        kept = _restore_satisfied(polytope, kept)
    removed = np.flatnonzero(~kept)
    if len(removed) > max_outliers:
        raise InconsistentData(
            f"the data agree only when {len(removed)} equations are left out (fewest found), at "
            f"most {max_outliers} were allowed; check the model and the error bound before "
            "allowing more",
            needed=len(removed),
            allowed=max_outliers,
        )
    return removed


def _satisfied(polytope: Polytope, point: FloatArray) -> BoolArray:
    """Return the mask of equations that a point satisfies, (n,)."""
    return np.asarray((polytope.excess(point) <= 1 + _MISFIT_TOLERANCE).all(axis=0))


def _restore_satisfied(polytope: Polytope, kept: BoolArray) -> BoolArray:
    """Restore equations that the centre of the kept ones satisfies, until there are none."""
    count_before = -1
    while kept.sum() != count_before:
        count_before = kept.sum()
        centre = LinearProgram(polytope.take(kept)).smallest_inflation().point
        kept = kept | _satisfied(polytope, centre)
    return kept


def _minimise_violations(program: LinearProgram, tolerated: float, reweightings: int) -> FloatArray:
    """Minimise sum_k w_k max(0, |effort - W theta| / bound - tolerated)_k over the box, (p,).

    Solved as its dual, p equations in 2 n bounded unknowns: max g lambda  with  lambda
    G = 0,  0 <= lambda <= w.
    """
    from scipy.optimize import linprog  # here: it takes long to import

    box = program.polytope.box
    p = len(program.scale)
    n = len(program.offset)
    box_offset = np.concatenate([box.lower / program.scale, -box.upper / program.scale])
    finite = np.isfinite(box_offset)
    box_normal = np.vstack([np.eye(p), -np.eye(p)])[finite]
    normal = np.vstack([program.normal, box_normal])
    offset = np.concatenate([program.offset - tolerated, box_offset[finite]])
    weight = np.append(np.ones(n), np.full(int(finite.sum()), np.inf))
    for _ in range(reweightings + 1):
        solution = linprog(
            -offset,
            A_eq=normal.T,
            b_eq=np.zeros(p),
            method="highs-ds",
            bounds=np.column_stack([np.zeros(len(offset)), weight]),
        )
        if solution.status != 0:
            raise NotConverged(
                f"search for outliers ended as '{solution.message}', expected an optimum"
            )
        point = -np.asarray(solution.eqlin.marginals) * program.scale
        violation = np.maximum(program.polytope.excess(point).ravel() - tolerated, 0.0)
        weight[:n] = _REWEIGHTING_SOFTNESS / (_REWEIGHTING_SOFTNESS + violation)
    return point
