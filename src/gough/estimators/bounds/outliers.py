"""Equations to leave out so that the others agree within their bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from gough.core.arrays import FloatArray
from gough.core.errors import InconsistentData, InvalidInput, NotConverged
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.strips import Programme, Strips, orthants, strips

_MISFIT = 1e-9  # in units of the error bound: what counts as violated
_SOFTNESS = 0.1  # in units of the error bound: violations beyond this hardly count in a reweighted search
_REWEIGHTINGS = 2


def find_outliers(problem: BoundedProblem, most: int) -> tuple[tuple[int, int], ...]:
    """Return (sample, row) pairs whose removal leaves a feasible set, at most `most`.

    First those that the parameters of least absolute deviation violate: these are near the truth whatever a minority of
    equations says, while a mild outlier can hide if as few equations as possible are to go.

    If these are too many: the sum of violations is minimised, then reweighted by 1 / (violation + small), which moves
    it towards their number (Candes, Wakin & Boyd 2008). The equations still violated are taken out; those that the
    centre of the rest satisfies come back. The fewest possible are not guaranteed: that problem is NP-hard.

    Raises:
        InconsistentData: More would have to go; carries `needed`, the fewest found.
        InvalidInput: The regressor is uncertain and the prior leaves signs open.
    """
    box, *further = orthants(problem, problem.prior)
    if further:
        raise InvalidInput("removing outliers from a problem with an uncertain regressor needs a prior that fixes the "
                           "signs of its parameters")
    everything = strips(problem.equations, box)
    nothing = np.zeros(len(problem.parameters))
    if Programme(everything).minimise(nothing, None).inflation <= 1:
        return ()
    kept = _satisfied(everything, _least_deviation(everything))
    if (~kept).sum() > most:
        kept = _restored(everything, _satisfied(everything, _least_violation(everything)))
    removed = np.flatnonzero(~kept)
    if len(removed) > most:
        raise InconsistentData(
            f"the data agree only when {len(removed)} equations are left out (fewest found), at most {most} were "
            "allowed; allow more outliers or widen the error bound", needed=len(removed), allowed=most)
    sample, row = problem.equations.sample[removed], problem.equations.row[removed]
    return tuple(zip(sample.tolist(), row.tolist()))


def _satisfied(everything: Strips, point: FloatArray) -> NDArray[np.bool_]:
    violation = everything.violation(point, 1.0).reshape(2, -1)
    return np.asarray((violation <= _MISFIT).all(axis=0))


def _restored(everything: Strips, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bring back equations that the centre of the kept ones satisfies, until none is left."""
    while True:
        center = Programme(everything.take(kept)).minimise(np.zeros(everything.over.shape[1]), None).point
        more = kept | _satisfied(everything, center)
        if (more == kept).all():
            return kept
        kept = more


def _least_deviation(everything: Strips) -> FloatArray:
    """Minimise sum_k |effort - W theta|_k / bound_k over the box, (p,)."""
    return _minimised(everything, 0.0, 0)


def _least_violation(everything: Strips) -> FloatArray:
    """Minimise sum_k w_k max(0, |effort - W theta| / bound - 1)_k over the box, reweighted, (p,)."""
    return _minimised(everything, 1.0, _REWEIGHTINGS)


def _minimised(everything: Strips, free: float, reweightings: int) -> FloatArray:
    """Minimise sum_k w_k max(0, |effort - W theta| / bound - free)_k over the box, (p,).

    Solved as its dual, p equations in 2 n bounded unknowns:  max g lambda  with  lambda G = 0,  0 <= lambda <= w.
    """
    reach = np.concatenate([everything.bound, everything.bound])
    normal = np.vstack([everything.over, -everything.under]) / reach[:, None]
    offset = np.concatenate([everything.effort, -everything.effort]) / reach - free
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
        violation = np.maximum(everything.violation(point, free), 0.0)
        ceiling[: len(offset)] = _SOFTNESS / (_SOFTNESS + violation)
    return point
