"""A finite box where the prior is unbounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import NotIdentifiable
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.gauss_seidel import magnitude
from gough.estimators.bounds.intervals import Interval, product

_NOTHING = 1e-6  # share of a parameter in a direction without excitation from which it is named


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


def finite_start(problem: BoundedProblem, outliers: int) -> tuple[Interval, list[Start]]:
    """Return a finite box that holds every parameter vector breaking at most so many equations, and what proves it.

    Of q + 1 sets of equations that share none, one is free of outliers.

    Raises:
        NotIdentifiable: Data and prior leave a parameter unbounded.
    """
    box, equations = problem.prior, problem.equations
    free = np.flatnonzero(~np.isfinite(box.upper - box.lower))
    if not len(free):
        return box, []
    fixed = np.flatnonzero(np.isfinite(box.upper - box.lower))
    scaled = equations.regressor.middle[:, free] / equations.bound[:, None]
    largest = np.abs(scaled).max(axis=0)
    scaled = scaled / np.where(largest > 0, largest, 1.0)
    left = np.arange(len(scaled))
    found: list[Start] = []
    reach = np.zeros(len(free))
    while len(found) <= outliers:
        chosen = left[qr(scaled[left].T, mode="r", pivoting=True)[1][: len(free)]] if len(left) >= len(free) else left
        part = equations.regressor[chosen]
        known = part[:, fixed] * box[fixed]
        right = Interval(-equations.effort_interval[chosen].magnitude, equations.effort_interval[chosen].magnitude)
        right = right + Interval(-known.magnitude, known.magnitude).sum()
        matrix = np.asarray(np.linalg.pinv(part[:, free].middle), dtype=float)
        within, size = magnitude(product(matrix, part[:, free]), product(matrix, right))
        if not np.isfinite(within).all():
            raise _unbounded(problem, scaled, free, bool(found))
        found.append(Start(chosen, matrix, size))
        reach = np.maximum(reach, within)
        left = np.setdiff1d(left, chosen)
    low, high = box.lower.copy(), box.upper.copy()
    low[free], high[free] = np.maximum(low[free], -reach), np.minimum(high[free], reach)
    return Interval(low, high), found


def _unbounded(problem: BoundedProblem, scaled: FloatArray, free: IntArray, outliers: bool) -> NotIdentifiable:
    _, values, directions = np.linalg.svd(scaled, full_matrices=True)
    rank = int((values > 1e-12 * max(scaled.shape) * values.max(initial=0.0)).sum())
    share = np.abs(directions[rank:]).max(axis=0, initial=0.0)
    names = [problem.parameters[j] for j, size in zip(free, share) if size > _NOTHING or rank == len(free)]
    why = "with so many outliers " if outliers else ""
    return NotIdentifiable(f"{why}the data leave {', '.join(names)} unbounded; give a finite prior", parameters=names)
