"""A feasible interior-point method for few variables and thousands of smooth constraints.

    minimise f(x)  subject to  lower <= c(x) <= upper

Primal-dual steps on the barrier problems f - mu sum ln(c - lower) - mu sum ln(upper - c), mu -> 0
(Nocedal & Wright 2006, chapter 19; Waechter & Biegler 2006), with the slacks eliminated, so that a
step costs one Cholesky factorisation of the size of x and one product J^T D J. The Hessian of the
Lagrangian is a damped BFGS matrix. What is particular:

- every iterate satisfies all constraints strictly, so whatever stops the iteration leaves a
trajectory that may be run;
- a point where the constraints cannot be evaluated at all (loops that do not close) is just a step
that was too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gough.core.arrays import FloatArray
from gough.excitation.problem import DesignProblem, Point

Progress = Callable[[int, float, float], None]
# factor between one mu and the next; a slower one ended in better local minima in trials
DECREASE = 0.5
LEAVE = 0.99  # of the way to the nearest bound that a step may go
FAR = 1e8  # factor by which multipliers may differ from mu / slack


class Stopped(KeyboardInterrupt):
    """Somebody stopped the search: carries the best point so far, strictly inside all constraints,
    and the history.
    """

    def __init__(self, point: Point, history: tuple[float, ...]) -> None:
        super().__init__()
        self.point, self.history = point, history


@dataclass(frozen=True, kw_only=True)
class InteriorPoint:
    """Most steps, and how far the objective may be from its local minimum, estimated by the barrier
    that is left.
    """

    iterations: int = 300
    tolerance: float = 0.002


def interior_point(
    problem: DesignProblem,
    start: Point,
    lower: FloatArray | float,
    upper: FloatArray | float,
    settings: InteriorPoint,
    progress: Progress | None = None,
    *,
    barrier: float | None = None,
) -> tuple[Point, tuple[float, ...]]:
    """Minimise from a start strictly inside the constraints.

    Args:
        lower, upper: Bounds that broadcast to the constraints.
        progress: Called after each step with its number, the objective and 0 (no constraint is
            violated).
        barrier: First mu itself, to go on from an earlier solution.

    Returns:
        The best point, strictly inside all constraints, and the objective after each step.
    """

    def slacks(at: Point) -> FloatArray:
        return np.stack([at.constraints - lower, upper - at.constraints])

    def merit(at: Point) -> float:
        low, high = slacks(at)
        if not (low.min() > 0 and high.min() > 0 and np.isfinite(at.objective)):
            return float("inf")
        return float(at.objective - mu * (np.log(low).sum() + np.log(high).sum()))

    point, n = start, len(start.variables)
    gradient, J, slack = problem.gradient(point), problem.linearise(point), slacks(point)
    if barrier is None:  # at most 1: the barrier opposes the objective with about the same force
        force, pull = (
            float(np.linalg.norm(x)) for x in (J.transposed(1 / slack[0] - 1 / slack[1]), gradient)
        )
        barrier = pull / force if pull < force else 1.0
    last = settings.tolerance / n
    mu = max(barrier, last)
    z = mu / slack  # multipliers of the lower and of the upper bounds
    B, fresh = _identity(gradient), True  # B carries no curvature yet
    best, history = point, [point.objective]
    try:
        for iteration in range(1, settings.iterations + 1):
            residual = gradient - J.transposed(mu / slack[0] - mu / slack[1])
            step = _newton(B + J.normal((z / slack).sum(axis=0)), residual)
            slope = float(residual @ step)
            if (
                -slope < 0.2 * n * mu
            ):  # the decrement: twice what this barrier problem can still give
                if mu <= last:
                    break
                mu = max(DECREASE * mu, last)
                continue
            moved = J.times(step) * np.array([1.0, -1.0]).reshape(2, *[1] * point.constraints.ndim)
            trial = _search(
                problem, point, step, slope, _longest(slack, moved), merit
            )  # to first order
            if trial is None:
                if fresh:  # not even along the gradient: rounding, or a kink of the criterion
                    break
                B, fresh = _identity(gradient), True
                continue
            change = mu / slack - z - z / slack * moved
            z = np.stack([own + _longest(own, more) * more for own, more in zip(z, change)])
            old, taken = gradient - J.transposed(z[0] - z[1]), trial.variables - point.variables
            point = trial
            gradient, J, slack = problem.gradient(point), problem.linearise(point), slacks(point)
            z = np.clip(z, mu / (FAR * slack), FAR * mu / slack)
            B = _bfgs(B, taken, gradient - J.transposed(z[0] - z[1]) - old, fresh)
            fresh = False
            history.append(point.objective)
            best = point if point.objective < best.objective else best
            if progress is not None:
                progress(iteration, point.objective, 0.0)
    except KeyboardInterrupt:
        raise Stopped(best, tuple(history)) from None
    return best, tuple(history)


def _search(
    problem: DesignProblem,
    point: Point,
    step: FloatArray,
    slope: float,
    alpha: float,
    merit: Callable[[Point], float],
) -> Point | None:
    """Shorten the step until the barrier function falls enough (Armijo) and all constraints hold
    strictly.
    """
    before = merit(point)
    for _ in range(12):
        trial = problem.evaluate(point.variables + alpha * step, point)
        if trial is not None and merit(trial) <= before + 1e-4 * alpha * slope:
            return trial
        alpha *= 0.5
    return None


def _longest(values: FloatArray, change: FloatArray) -> float:
    """Return the part of a change, at most all of it, that leaves a hundredth of each positive
    value.
    """
    worst = float((-change / values).max())
    return min(1.0, LEAVE / worst) if worst > 0 else 1.0


def _identity(gradient: FloatArray) -> FloatArray:
    """Return a first Hessian: a step of length one along the gradient."""
    return np.eye(len(gradient)) * max(float(np.linalg.norm(gradient)), 1e-6)


def _newton(matrix: FloatArray, residual: FloatArray) -> FloatArray:
    """Return -matrix^-1 residual; a ridge is added where rounding made the matrix indefinite."""
    ridge, size = 0.0, float(np.abs(matrix.diagonal()).max())
    while True:
        try:
            factor = cho_factor(matrix + ridge * np.eye(len(matrix)), check_finite=False)
            return -np.asarray(cho_solve(factor, residual, check_finite=False))
        except LinAlgError:
            ridge = max(100 * ridge, 1e-14 * size)


def _bfgs(B: FloatArray, s: FloatArray, y: FloatArray, fresh: bool) -> FloatArray:
    """Update with Powell's damping, so that B stays positive definite."""
    if fresh and float(s @ y) > 0:
        B = np.eye(len(s)) * float(y @ y) / float(s @ y)
    Bs = B @ s
    curvature, sy = float(s @ Bs), float(s @ y)
    if sy < 0.2 * curvature:
        weight = 0.8 * curvature / (curvature - sy)
        y = weight * y + (1 - weight) * Bs
    return np.asarray(B - np.outer(Bs, Bs) / curvature + np.outer(y, y) / float(s @ y))
