"""Preconditioned interval Gauss-Seidel: P03 algorithm C_GSP on the square system (28)-(30).

    [ W  -1  ] [ theta ]   [ [Y] ]
    [ 0  W^T ] [   z   ] = [  0  ]

z is the misfit W theta - Y. Every member of the feasible set (25) has z = 0 for a Y of its own in
[Y], so [0, 0] is the prior of z, and only the p parameters remain unknown: nothing of size N + p is
ever formed.

The first p rows of A_0^-1 are [X, (W^T W)^-1] with X = W^+, so with z = 0 the system becomes the p
x p one (X W) theta = X Y. For an exact W, X W = 1 up to rounding, and a single step gives W^+ Y +-
|W^+| e cut with the prior. It bounds the least squares solutions of all Y in [Y], a superset of
(25). Departure: equations are divided by their bounds first (the standard form (21)), so X is W^+
only if all bounds are equal. X may be any real matrix; rounding in it costs width, never
correctness.

C_GS without preconditioning and the steps that contract [A] and [b] are in
examples/p03_contractors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

from gough.bounding.polytope import BoundedProblem, Programme, explain, linearised, verge
from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import NotIdentifiable
from gough.core.intervals import Interval, down, product, up
from gough.fitting.estimate import Enclosure

_TOLERANCE = 1e-9  # of the linear programme that tells how near to empty the set is
_SWEEPS = 50
_NOTHING = 1e-6  # share of a parameter in a direction without excitation from which it is named
_GAIN = 1e-3  # a sweep that narrows no parameter by more than this fraction is the last


class Empty(Exception):
    """An interval became empty: nothing in the box satisfies the equations."""


@dataclass(frozen=True, eq=False)
class GaussSeidel:
    """The interval Gauss-Seidel contractor of P03; it has no settings."""

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set."""
        equations, box, done, before = (
            problem.equations,
            problem.prior,
            0,
            np.full(len(problem.parameters), np.inf),
        )
        try:  # an infinite width that became finite counts as narrowed
            while not done or (
                done < _SWEEPS and (box.upper - box.lower < (1 - _GAIN) * before).any()
            ):
                before, done = box.upper - box.lower, done + 1
                box = sweep(equations.regressor, equations.effort_interval, equations.bound, box)
        except Empty:
            raise explain(problem) from None
        unbounded = [
            n for n, w in zip(problem.parameters, box.upper - box.lower) if not np.isfinite(w)
        ]
        if unbounded:
            raise NotIdentifiable(
                f"the data leave {', '.join(unbounded)} unbounded; give a finite prior",
                parameters=unbounded,
            )
        ratio = Programme(linearised(equations, box)).minimise().inflation
        if ratio > 1 + _TOLERANCE:  # too weak to see it itself
            raise explain(problem)
        return Enclosure(
            parameters=problem.parameters,
            units=problem.units,
            lower=box.lower,
            upper=box.upper,
            method="preconditioned interval Gauss-Seidel",
            notes=tuple(verge(ratio)),
            certificate={
                "guarantee": "outward-rounded interval arithmetic",
                "equations": len(equations.effort),
                "sweeps": done,
                "smallest_fitting": ratio,
                "error_bound": [float(problem.error_bound.min()), float(problem.error_bound.max())],
            },
        )


def cut(box: Interval, other: Interval) -> Interval:
    """Intersect, or raise `Empty`."""
    common = box & other
    if common.empty.any():
        raise Empty
    return common


def sweep(regressor: Interval, effort: Interval, bound: FloatArray, box: Interval) -> Interval:
    """Contract the parameters one after the other with (X [W]) theta = X [Y]."""
    preconditioner = np.linalg.pinv(regressor.middle / bound[:, None]) / bound  # (p, n)
    matrix, right = product(preconditioner, regressor), product(preconditioner, effort)
    within, _ = magnitude(matrix, right)
    box = cut(box, Interval(-within, within))
    for j in range(len(within)):
        others = np.arange(len(within)) != j
        part = cut(box[j], (right[j] - (matrix[j, others] * box[others]).sum()) / matrix[j, j])
        box.lower[j], box.upper[j] = part.lower, part.upper
    return box


def magnitude(matrix: Interval, right: Interval) -> tuple[FloatArray, FloatArray]:
    """Return bounds of |theta| for a nearly diagonal system C theta = d without any prior, and v,
    both (p,).

    theta = D theta + d with D = 1 - C. If |D| v <= b v for a positive v >= |d| and b < 1, then
    |theta| <= v / (1 - b); infinite if b >= 1.
    """
    size = right.magnitude
    v = np.where(size > 0, size, 1.0)
    rest = (Interval.point(np.eye(len(v))) - matrix).magnitude
    b = float(((Interval.point(rest) * Interval.point(v)).sum() / Interval.point(v)).upper.max())
    return (up(v / down(np.array(1.0 - b))) if b < 1 else np.full_like(v, np.inf)), v


def finite_start(problem: BoundedProblem, outliers: int) -> tuple[Interval, list[dict[str, Any]]]:
    """Return a finite box that holds every parameter vector breaking at most so many equations, and
    what proves it.

    Of as many `equations` as there are unbounded parameters u, k known, and a `matrix` X that
    nearly inverts them: with X W_u theta_u = X (W theta - W_k theta_k) and D = 1 - X W_u,

        |theta_u| <= |D| |theta_u| + |X| (|effort| + bound + |W_k| |theta_k|)   and so   |theta_u|
        <= v / (1 - b)

    if v, the `size`, exceeds the last term and |D| v <= b v with b < 1. Of q + 1 sets of equations
    that share none, one is free of outliers.
    """
    box, equations = problem.prior, problem.equations
    known = np.isfinite(box.upper - box.lower)
    free, fixed = np.flatnonzero(~known), np.flatnonzero(known)
    if not len(free):
        return box, []
    scaled = equations.regressor.middle[:, free] / equations.bound[:, None]
    largest = np.abs(scaled).max(axis=0)
    scaled = scaled / np.where(largest > 0, largest, 1.0)
    left, reach = np.arange(len(scaled)), np.zeros(len(free))
    found: list[dict[str, Any]] = []
    while len(found) <= outliers:
        chosen = (
            left[qr(scaled[left].T, mode="r", pivoting=True)[1][: len(free)]]
            if len(left) >= len(free)
            else left
        )
        part = equations.regressor[chosen]
        terms = part[:, fixed] * box[fixed]
        right = Interval(
            -equations.effort_interval[chosen].magnitude,
            equations.effort_interval[chosen].magnitude,
        )
        right = right + Interval(-terms.magnitude, terms.magnitude).sum()
        matrix = np.asarray(np.linalg.pinv(part[:, free].middle), dtype=float)
        within, size = magnitude(product(matrix, part[:, free]), product(matrix, right))
        if not np.isfinite(within).all():
            raise _unbounded(problem, scaled, free, bool(found))
        found.append({"equations": chosen, "matrix": matrix.tolist(), "size": size.tolist()})
        reach = np.maximum(reach, within)
        left = np.setdiff1d(left, chosen)
    low, high = box.lower.copy(), box.upper.copy()
    low[free], high[free] = np.maximum(low[free], -reach), np.minimum(high[free], reach)
    return Interval(low, high), found


def _unbounded(
    problem: BoundedProblem, scaled: FloatArray, free: IntArray, outliers: bool
) -> NotIdentifiable:
    _, values, directions = np.linalg.svd(scaled, full_matrices=True)
    rank = int((values > 1e-12 * max(scaled.shape) * values.max(initial=0.0)).sum())
    share = np.abs(directions[rank:]).max(axis=0, initial=0.0)
    names = [
        problem.parameters[j]
        for j, size in zip(free, share)
        if size > _NOTHING or rank == len(free)
    ]
    why = "with so many outliers " if outliers else ""
    return NotIdentifiable(
        f"{why}the data leave {', '.join(names)} unbounded; give a finite prior", parameters=names
    )
