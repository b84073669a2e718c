"""A heuristic for outliers: leave out equations so that the others agree, and hope that these were the wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from gough.core.arrays import FloatArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.exact_box import ExactBox
from gough.estimators.bounds.polytope import Polytope, Programme, linearised, named
from gough.estimators.estimate import Enclosure

_MISFIT = 1e-9  # in units of the error bound: what counts as violated
_SOFTNESS = 0.1  # in units of the error bound: violations beyond this hardly count in a reweighted search
_REWEIGHTINGS = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class TrimmedBox:
    """Settings of the smallest box of the equations that are left when those that fit worst are removed.

    A heuristic: with outliers little beyond the bound it can exclude the truth (13 of 40 boxes with 2 % of them). The
    box with a guarantee is `ExactBox(outliers=...)`.
    """

    outliers: int = 0

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Remove outliers and enclose what the others allow.

        Raises:
            InconsistentData: More equations would have to go than allowed.
            NotIdentifiable: Data and prior leave a parameter unbounded.
        """
        index = find_outliers(problem, self.outliers)
        removed, words = named(problem, index)
        box = ExactBox().fit(problem.without(removed))
        notes = [f"a heuristic, and conditional: {len(removed)} equations were left out as outliers ({words}); the box "
                 "holds the truth if no other breaks its bound, and mild outliers may have stayed"] if removed else []
        return replace(box, method="exact box, trimmed (heuristic)", notes=(*notes, *box.notes),
                       certificate={**box.certificate, "removed": [list(pair) for pair in removed]})


def find_outliers(problem: BoundedProblem, most: int) -> list[int]:
    """Return equations whose removal leaves a feasible set, at most `most`.

    First those that the parameters of least absolute deviation violate: these are near the truth whatever a minority of
    equations says, while a mild outlier can hide if as few equations as possible are to go.

    If these are too many: the sum of violations is minimised, then reweighted by 1 / (violation + small), which moves
    it towards their number (Candes, Wakin & Boyd 2008). The equations still violated are taken out; those that the
    centre of the rest satisfies come back. The fewest possible are not guaranteed: that problem is NP-hard.

    Raises:
        InconsistentData: More would have to go; carries `needed`, the fewest found.
        InvalidInput: The regressor is uncertain and the prior leaves signs and sizes open.
    """
    if most < 0:
        raise InvalidInput(f"outliers is {most}, expected zero or more")
    everything = linearised(problem.equations, problem.prior)
    if Programme(everything).smallest_inflation().inflation <= 1:
        return []
    kept = _satisfied(everything, _minimised(everything, 0.0, 0))
    if (~kept).sum() > most:
        kept, before = _satisfied(everything, _minimised(everything, 1.0, _REWEIGHTINGS)), -1
        while before != kept.sum():  # bring back what the centre of the kept ones satisfies
            before = kept.sum()
            kept = kept | _satisfied(everything, Programme(everything.take(kept)).smallest_inflation().point)
    removed = np.flatnonzero(~kept).tolist()
    if len(removed) > most:
        raise InconsistentData(
            f"the data agree only when {len(removed)} equations are left out (fewest found), at most {most} were "
            "allowed; check the model and the error bound before allowing more", needed=len(removed), allowed=most)
    return [int(k) for k in removed]


def _satisfied(everything: Polytope, point: FloatArray) -> NDArray[np.bool_]:
    return np.asarray((everything.excess(point).reshape(2, -1) <= 1 + _MISFIT).all(axis=0))


def _minimised(everything: Polytope, free: float, reweightings: int) -> FloatArray:
    """Minimise sum_k w_k max(0, |effort - W theta| / bound - free)_k over the box, (p,).

    Solved as its dual, p equations in 2 n bounded unknowns:  max g lambda  with  lambda G = 0,  0 <= lambda <= w.
    """
    reach = np.tile(everything.bound, 2)
    normal = everything.normal / reach[:, None]
    offset = everything.offset / reach + 1.0 - free
    largest = np.abs(normal).max(axis=0)
    scale = 1.0 / np.where(largest > 0, largest, 1.0)
    p = len(scale)
    sides = np.vstack([np.eye(p), -np.eye(p)])
    limits = np.concatenate([everything.box.lower / scale, -everything.box.upper / scale])
    finite = np.isfinite(limits)
    matrix = np.vstack([normal * scale, sides[finite]])
    right = np.concatenate([offset, limits[finite]])
    ceiling = np.concatenate([np.ones(len(offset)), np.full(int(finite.sum()), np.inf)])
    for _ in range(reweightings + 1):
        answer = linprog(-right, A_eq=matrix.T, b_eq=np.zeros(p), method="highs-ds",
                         bounds=np.column_stack([np.zeros(len(right)), ceiling]))
        if answer.status != 0:
            raise NotConverged(f"search for outliers ended as '{answer.message}', expected an optimum")
        point = -np.asarray(answer.eqlin.marginals) * scale
        violation = np.maximum(everything.excess(point) - free, 0.0)
        ceiling[: len(offset)] = _SOFTNESS / (_SOFTNESS + violation)
    return point
