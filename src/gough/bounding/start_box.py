"""A finite box to start from where the prior of some parameters is unbounded."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr

from gough.bounding.gauss_seidel import bound_magnitude
from gough.bounding.problem import BoundedProblem, Equations
from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import NotIdentifiable
from gough.core.intervals import Interval, product

# a parameter with a larger component in a direction without excitation
# is named as unbounded
_UNEXCITED_COMPONENT = 1e-6


def finite_start(problem: BoundedProblem, outliers: int) -> tuple[Interval, list[dict[str, Any]]]:
    """Return a finite box that holds every feasible parameter vector, and what proves it.

    A parameter vector is feasible if it violates at most `outliers`
    equations. Take as many `equations` as there are unbounded
    parameters u (k are the bounded ones), and a `matrix` X that nearly
    inverts them. With X W_u theta_u = X (W theta - W_k theta_k) and D =
    1 - X W_u,

        |theta_u| <= |D| |theta_u| + |X| (|effort| + bound + |W_k| |theta_k|)

    and so |theta_u| <= v / (1 - b) if v, the `size`, exceeds the last term and
    |D| v <= b v with b < 1. Of q + 1 sets of equations that share none, one is free of
    outliers.
    """
    box = problem.prior
    equations = problem.equations
    bounded = np.isfinite(box.upper - box.lower)
    unknown = np.flatnonzero(~bounded)
    if not len(unknown):
        return box, []
    scaled = equations.regressor.middle[:, unknown] / equations.bound[:, None]
    largest = np.abs(scaled).max(axis=0)
    scaled = scaled / np.where(largest > 0, largest, 1.0)
    remaining = np.arange(len(scaled))
    reach = np.zeros(len(unknown))
    sets: list[dict[str, Any]] = []
    while len(sets) <= outliers:
        chosen = _most_independent(scaled, remaining)
        matrix, right = _invert(equations, chosen, box, bounded)
        columns = equations.regressor[chosen][:, unknown]
        magnitude, v = bound_magnitude(product(matrix, columns), product(matrix, right))
        if not np.isfinite(magnitude).all():
            raise _unbounded(problem, scaled, unknown, with_outliers=bool(sets))
        sets.append({"equations": chosen, "matrix": matrix.tolist(), "size": v.tolist()})
        reach = np.maximum(reach, magnitude)
        remaining = np.setdiff1d(remaining, chosen)
    lower = box.lower.copy()
    upper = box.upper.copy()
    lower[unknown] = np.maximum(lower[unknown], -reach)
    upper[unknown] = np.minimum(upper[unknown], reach)
    return Interval(lower, upper), sets


def _most_independent(scaled: FloatArray, remaining: IntArray) -> IntArray:
    """Choose as many of the remaining equations as there are columns, by pivoted QR."""
    count = scaled.shape[1]
    if len(remaining) < count:
        return remaining
    _, pivots = qr(scaled[remaining].T, mode="r", pivoting=True)
    return np.asarray(remaining[pivots[:count]])


def _invert(
    equations: Equations, chosen: IntArray, box: Interval, bounded: BoolArray
) -> tuple[FloatArray, Interval]:
    """Return a matrix that nearly inverts some equations, and an enclosure of their right sides.

    The equations are those of the unbounded parameters: the terms of
    the others are on the right.
    """
    regressor = equations.regressor[chosen]
    known_terms = regressor[:, bounded] * box[bounded]
    effort = equations.effort_interval[chosen].magnitude
    terms = known_terms.magnitude
    right = Interval(-effort, effort) + Interval(-terms, terms).sum()
    matrix = np.linalg.pinv(regressor[:, ~bounded].middle)
    return np.asarray(matrix, dtype=float), right


def _unbounded(
    problem: BoundedProblem,
    scaled: FloatArray,
    unknown: IntArray,
    *,
    with_outliers: bool,
) -> NotIdentifiable:
    """Return the error that names the parameters for which the data give no bound."""
    _, singular_values, directions = np.linalg.svd(scaled, full_matrices=True)
    largest = singular_values.max(initial=0.0)
    rank = int((singular_values > 1e-12 * max(scaled.shape) * largest).sum())
    component = np.abs(directions[rank:]).max(axis=0, initial=0.0)
    unexcited = component > _UNEXCITED_COMPONENT
    if rank == len(unknown):
        unexcited[:] = True
    names = [problem.parameters[j] for j in unknown[unexcited]]
    condition = "with so many outliers " if with_outliers else ""
    return NotIdentifiable(
        f"{condition}the data leave {', '.join(names)} unbounded; give a finite prior",
        parameters=names,
    )
