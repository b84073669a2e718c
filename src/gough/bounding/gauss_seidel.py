"""Preconditioned interval Gauss-Seidel: P03 algorithm C_GSP on the square system (28)-(30).

    [ W  -1  ] [ theta ]   [ [Y] ]
    [ 0  W^T ] [   z   ] = [  0  ]

z is the misfit W theta - Y. Every member of the feasible set (25) has z
= 0 for a Y of its own in [Y], so [0, 0] is the prior of z, and only the
p parameters remain unknown: nothing of size N + p is ever formed.

The first p rows of A_0^-1 are [X, (W^T W)^-1] with X = W^+, so with z =
0 the system becomes the p x p one (X W) theta = X Y. For an exact W, X
W = 1 up to rounding, and a single step gives W^+ Y +- |W^+| e cut with
the prior. It bounds the least squares solutions of all Y in [Y], a
superset of (25). Departure: equations are divided by their bounds first
(the standard form (21)), so X is W^+ only if all bounds are equal. X
may be any real matrix; rounding in it costs width, never correctness.

C_GS without preconditioning and the steps that contract [A] and [b] are
in examples/p03_contractors.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.bounding.linear_program import LinearProgram
from gough.bounding.messages import explain_contradiction, warn_if_nearly_empty
from gough.bounding.polytope import linearise
from gough.bounding.problem import BoundedProblem
from gough.core.arrays import FloatArray
from gough.core.errors import NotIdentifiable
from gough.core.intervals import Interval, down, product, up
from gough.fitting.estimate import Enclosure

# of the linear programme that finds the smallest inflation
_INFLATION_TOLERANCE = 1e-9
_MAX_SWEEPS = 50
# a sweep that narrows no parameter by more than this fraction is the
# last
_MIN_SWEEP_GAIN = 1e-3


class Empty(Exception):
    """An interval became empty: nothing in the box satisfies the equations."""


@dataclass(frozen=True, eq=False)
class GaussSeidel:
    """The interval Gauss-Seidel contractor of P03; it has no settings."""

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set."""
        equations = problem.equations
        try:
            box, sweeps = _contract(problem)
        except Empty:
            raise explain_contradiction(problem) from None
        bounded = np.isfinite(box.upper - box.lower)
        unbounded = [name for name, ok in zip(problem.parameters, bounded) if not ok]
        if unbounded:
            raise NotIdentifiable(
                f"the data leave {', '.join(unbounded)} unbounded; give a finite prior",
                parameters=unbounded,
            )
        ratio = LinearProgram(linearise(equations, box)).smallest_inflation().inflation
        if ratio > 1 + _INFLATION_TOLERANCE:  # a contradiction that the contractor cannot detect
            raise explain_contradiction(problem)
        return Enclosure(
            parameters=problem.parameters,
            units=problem.units,
            lower=box.lower,
            upper=box.upper,
            method="preconditioned interval Gauss-Seidel",
            notices=tuple(warn_if_nearly_empty(ratio)),
            certificate={
                "guarantee": "outward-rounded interval arithmetic",
                "equations": len(equations.effort),
                "sweeps": sweeps,
                "smallest_fitting": ratio,
                "error_bound": [
                    float(problem.error_bound.min()),
                    float(problem.error_bound.max()),
                ],
            },
        )


def _contract(problem: BoundedProblem) -> tuple[Interval, int]:
    """Sweep until no parameter becomes narrower; return the box and the number of sweeps."""
    equations = problem.equations
    box = problem.prior
    sweeps = 0
    while sweeps < _MAX_SWEEPS:
        width_before = box.upper - box.lower
        box = sweep(equations.regressor, equations.effort_interval, equations.bound, box)
        sweeps += 1
        # an infinite width that became finite is narrower too
        narrower = box.upper - box.lower < (1 - _MIN_SWEEP_GAIN) * width_before
        if not narrower.any():
            break
    return box, sweeps


def cut(box: Interval, other: Interval) -> Interval:
    """Intersect two boxes.

    Raises:
        Empty: They have no point in common.
    """
    common = box & other
    if common.empty.any():
        raise Empty
    return common


def sweep(regressor: Interval, effort: Interval, bound: FloatArray, box: Interval) -> Interval:
    """Contract the parameters one after the other with (X [W]) theta = X [Y].

    Args:
        regressor: [W], (n, p).
        effort: [Y], (n,). [N or N m]
        bound: Error bounds, (n,). [N or N m]
        box: Parameters before, (p,).

    Raises:
        Empty: No parameters in the box satisfy the equations.
    """
    preconditioner = np.linalg.pinv(regressor.middle / bound[:, None]) / bound  # X, (p, n)
    matrix = product(preconditioner, regressor)
    right = product(preconditioner, effort)
    magnitude, _ = bound_magnitude(matrix, right)
    box = cut(box, Interval(-magnitude, magnitude))
    for j in range(len(magnitude)):
        others = np.arange(len(magnitude)) != j
        explained = (matrix[j, others] * box[others]).sum()
        narrowed = cut(box[j], (right[j] - explained) / matrix[j, j])
        box.lower[j] = narrowed.lower
        box.upper[j] = narrowed.upper
    return box


def bound_magnitude(matrix: Interval, right: Interval) -> tuple[FloatArray, FloatArray]:
    """Bound |theta| for a nearly diagonal system C theta = d without any prior.

    theta = D theta + d with D = 1 - C. If |D| v <= b v for a positive v >= |d|
    and b < 1, then |theta| <= v / (1 - b); infinite if b >= 1.

    Args:
        matrix: [C], (p, p).
        right: [d], (p,).

    Returns:
        Bounds of |theta|, and v, both (p,).
    """
    largest = right.magnitude
    v = np.where(largest > 0, largest, 1.0)
    deviation = (Interval.point(np.eye(len(v))) - matrix).magnitude  # |D|
    weighted = (Interval.point(deviation) * Interval.point(v)).sum()
    b = float((weighted / Interval.point(v)).upper.max())
    if b >= 1:
        return np.full_like(v, np.inf), v
    return up(v / down(np.array(1.0 - b))), v
