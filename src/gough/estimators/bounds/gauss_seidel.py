"""Interval Gauss-Seidel contractors: P03 algorithms C_GS and C_GSP on the square system (28)-(30).

    [ W  -1  ] [ theta ]   [ [Y] ]
    [ 0  W^T ] [   z   ] = [  0  ]

z is the misfit W theta - Y. Every member of the feasible set (25) has z = 0 for a Y of its own in [Y], so [0, 0] is the
prior of z, and only the p parameters remain unknown: nothing of size N + p is ever formed.

Plain. As written (29) has zeros on its diagonal. Pairing theta_j with a row k_j whose entry W[k_j, j] is not zero (and
the other rows with their own z, the last p with the z of the chosen rows) makes it non-null, and with z = 0 the
step of C_GS for theta_j is

    theta_j  <-  theta_j  cut with  ([Y_k] - sum_(i != j) W_ki theta_i) / W_kj,    k = k_j.

Which rows to choose is left open by P03. Here all choices are taken at once: every k with W_kj != 0 is a valid pivot,
an intersection of contractors is a contractor, and it is the tightest a plain sweep can give.

Preconditioned. The first p rows of A_0^-1 are [X, (W^T W)^-1] with X = W^+, so with z = 0 the system becomes the p x p
one (X W) theta = X Y. For an exact W, X W = 1 up to rounding, and a single step gives W^+ Y +- |W^+| e cut with the
prior. It bounds the least squares solutions of all Y in [Y], a superset of (25). Departure: equations are divided by
their bounds first (the standard form (21)), so X is W^+ only if all bounds are equal. X may be any real matrix;
rounding in it costs width, never correctness.

As printed, C_GSP ends by contracting [b] with A_0 [b'] and [A] with A_0 [A'], which C_GS has left unchanged: nothing
can happen. With `backward` they are contracted by the equation they belong to, and the sweep starts again with the
smaller [A] and [b].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.estimators.bounds.bounded_problem import BoundedProblem
from gough.estimators.bounds.conflicts import explain, verge
from gough.estimators.bounds.intervals import Interval, down, product, up
from gough.estimators.bounds.polytope import Programme, linearised
from gough.estimators.estimate import Enclosure

_TOLERANCE = 1e-9  # of the linear programme that tells how near to empty the set is


class _Empty(Exception):
    """An interval became empty: nothing in the box satisfies the equations."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contraction:
    """What is left after contraction.

    Args:
        box: Of the parameters, (p,).
        regressor: (n, p), smaller than given only with backward steps.
        effort: (n,), likewise. [row unit]
        sweeps: How many were done.
    """

    box: Interval
    regressor: Interval
    effort: Interval
    sweeps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussSeidel:
    """Settings of the interval Gauss-Seidel contractor.

    Args:
        preconditioned: Multiply by the inverse of the midpoint first (C_GSP); otherwise C_GS.
        backward: Also contract the intervals of regressor and effort, and use them.
        sweeps: At most so many.
        tolerance: Stop when a sweep narrows no parameter by more than this fraction of its width.
    """

    preconditioned: bool = True
    backward: bool = False
    sweeps: int = 50
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        if self.sweeps < 1 or not 0 <= self.tolerance < 1:
            raise InvalidInput(f"sweeps is {self.sweeps} and tolerance {self.tolerance}, expected at least one sweep "
                               "and a tolerance from 0 to below 1")

    def fit(self, problem: BoundedProblem) -> Enclosure:
        """Enclose the feasible set.

        Raises:
            InconsistentData: The feasible set is empty; carries the samples that contradict each other.
            NotIdentifiable: A parameter stays unbounded.
        """
        result = self.contract(problem)
        box = result.box
        unbounded = [n for n, w in zip(problem.parameters, box.upper - box.lower) if not np.isfinite(w)]
        if unbounded:
            cure = "give a finite prior" if self.preconditioned else "give a finite prior or use preconditioned=True"
            raise NotIdentifiable(f"the data leave {', '.join(unbounded)} unbounded; {cure}", parameters=unbounded)
        ratio = Programme(linearised(problem.equations, box)).smallest_inflation().inflation
        if ratio > 1 + _TOLERANCE:  # too weak to see it itself
            raise explain(problem)
        kind = ("preconditioned " if self.preconditioned else "plain ") + "interval Gauss-Seidel"
        return Enclosure(
            parameters=problem.parameters, units=problem.units, lower=box.lower, upper=box.upper, method=kind,
            certificate={"guarantee": "outward-rounded interval arithmetic", "equations": len(problem.equations.effort),
                         "sweeps": result.sweeps, "backward": self.backward, "smallest_fitting": ratio,
                         "error_bound": [float(problem.error_bound.min()), float(problem.error_bound.max())]},
            notes=tuple(verge(ratio)))

    def contract(self, problem: BoundedProblem) -> Contraction:
        """Contract the prior box, and with `backward` also regressor and effort.

        Raises:
            InconsistentData: The feasible set is empty.
        """
        equations = problem.equations
        box, regressor, effort = problem.prior, equations.regressor, equations.effort_interval
        done = 0
        try:
            while done < self.sweeps:
                done += 1
                before = box.upper - box.lower
                if self.preconditioned:
                    box = _preconditioned_sweep(regressor, effort, equations.bound, box)
                else:
                    box = _plain_sweep(regressor, effort, box)
                if self.backward:
                    regressor, effort = _backward(regressor, effort, box)
                after = box.upper - box.lower
                # an infinite width that became finite counts as narrowed
                if not (after < (1 - self.tolerance) * before).any():
                    break
        except _Empty:
            raise explain(problem) from None
        return Contraction(box=box, regressor=regressor, effort=effort, sweeps=done)


def _cut(box: Interval, other: Interval) -> Interval:
    common = box & other
    if common.empty.any():
        raise _Empty
    return common


def _others(terms: Interval) -> list[Interval]:
    """Return for each j the sum over i > j of the terms, (n, p) -> p times (n,)."""
    n, p = terms.lower.shape
    sums = [Interval.point(np.zeros(n))]
    for j in range(p - 1, 0, -1):
        sums.append(sums[-1] + terms[:, j])
    return sums[::-1]


def _replace(box: Interval, j: int, part: Interval) -> Interval:
    low, high = box.lower.copy(), box.upper.copy()
    low[j], high[j] = part.lower, part.upper
    return Interval(low, high)


def _plain_sweep(regressor: Interval, effort: Interval, box: Interval) -> Interval:
    """Contract the parameters one after the other, each with all rows."""
    after = _others(regressor * box)
    before = Interval.point(np.zeros(len(effort.lower)))
    for j in range(len(box.lower)):
        column = regressor[:, j]
        reach = (effort - (before + after[j])) / column
        part = _cut(box[j], Interval(reach.lower.max(), reach.upper.min()))
        box = _replace(box, j, part)
        before = before + column * part
    return box


def _preconditioned_sweep(regressor: Interval, effort: Interval, bound: FloatArray, box: Interval) -> Interval:
    """Contract the parameters with (X [W]) theta = X [Y]."""
    preconditioner = np.linalg.pinv(regressor.middle / bound[:, None]) / bound  # (p, n)
    matrix, right = product(preconditioner, regressor), product(preconditioner, effort)
    within, _ = magnitude(matrix, right)
    box = _cut(box, Interval(-within, within))
    p = len(box.lower)
    for j in range(p):
        rest = Interval.point(np.array(0.0))
        for i in range(p):
            if i != j:
                rest = rest + matrix[j, i] * box[i]
        box = _replace(box, j, _cut(box[j], (right[j] - rest) / matrix[j, j]))
    return box


def magnitude(matrix: Interval, right: Interval) -> tuple[FloatArray, FloatArray]:
    """Bound the solutions of a nearly diagonal system C theta = d without any prior.

    theta = D theta + d with D = 1 - C. If |D| v <= b v for a positive v >= |d| and b < 1, then |theta| <= v / (1 - b).

    Returns:
        The bound of |theta|, infinite if b >= 1, and v, both (p,).
    """
    size = right.magnitude
    v = np.where(size > 0, size, 1.0)
    rest = (Interval.point(np.eye(len(v))) - matrix).magnitude
    b = float(((Interval.point(rest) * Interval.point(v)).sum() / Interval.point(v)).upper.max())
    return (up(v / down(np.array(1.0 - b))) if b < 1 else np.full_like(v, np.inf)), v


def _backward(regressor: Interval, effort: Interval, box: Interval) -> tuple[Interval, Interval]:
    """Contract the entries of [W] and [Y] by their own equation: Y_k = sum_i W_ki theta_i."""
    terms = regressor * box
    after = _others(terms)
    before = Interval.point(np.zeros(len(effort.lower)))
    low, high = regressor.lower.copy(), regressor.upper.copy()
    for j in range(len(box.lower)):
        part = _cut(regressor[:, j], (effort - (before + after[j])) / box[j])
        low[:, j], high[:, j] = part.lower, part.upper
        before = before + terms[:, j]
    return Interval(low, high), _cut(effort, before)
