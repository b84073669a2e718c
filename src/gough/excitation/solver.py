"""A feasible interior-point method for few variables and thousands of smooth constraints.

    minimise f(x)  subject to  lower <= c(x) <= upper

Primal-dual steps on the barrier problems f - mu sum ln(c - lower) - mu
sum ln(upper - c), mu -> 0 (Nocedal & Wright 2006, chapter 19; Waechter
& Biegler 2006), with the slacks eliminated, so that a step costs one
Cholesky factorisation of the size of x and one product J^T D J. The
Hessian of the Lagrangian is a damped BFGS matrix. Two properties differ
from general solvers:

- every iterate satisfies all constraints strictly, so that a stopped search still leaves a
  trajectory that may be run;
- a point at which the constraints cannot be evaluated (loops that do not close) only
shortens the
  step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from gough.core.arrays import FloatArray
from gough.excitation.problem import DesignPoint, DesignProblem

# Called after each step with its number, the objective and the largest
# violation (relative).
Progress = Callable[[int, float, float], None]

# Factor between one mu and the next: designs with a slower decrease
# ended in better local minima.
BARRIER_DECREASE = 0.5
# a step goes at most this fraction of the way to the nearest bound
BOUNDARY_FRACTION = 0.99
# factor by which multipliers may differ from mu / slack
MAX_MULTIPLIER_RATIO = 1e8
# a barrier problem is solved below this Newton decrement per n mu
DECREMENT_TOLERANCE = 0.2
# fraction of the predicted decrease that a step must reach
ARMIJO_SLOPE = 1e-4
MAX_STEP_HALVINGS = 12


class SearchStopped(KeyboardInterrupt):
    """The user interrupted the search.

    Attributes:
        point: The best point so far, strictly inside all constraints.
        history: The objective after each step.
    """

    def __init__(self, point: DesignPoint, history: tuple[float, ...]) -> None:
        super().__init__()
        self.point = point
        self.history = history


@dataclass(frozen=True, kw_only=True)
class InteriorPoint:
    """Settings of the interior-point method."""

    iterations: int = 300  # most steps
    # distance of the objective from its minimum, estimated by the
    # barrier
    tolerance: float = 0.002


def interior_point(
    problem: DesignProblem,
    start: DesignPoint,
    lower: FloatArray | float,
    upper: FloatArray | float,
    settings: InteriorPoint,
    progress: Progress | None = None,
    *,
    barrier: float | None = None,
) -> tuple[DesignPoint, tuple[float, ...]]:
    """Minimise from a start strictly inside the constraints.

    Args:
        lower: Lower bounds that broadcast to the constraints.
        upper: Upper bounds that broadcast to the constraints.
        progress: Called after each step; the violation is always 0.
        barrier: First mu, to continue from an earlier solution;
            balanced with the objective by default.

    Returns:
        The best point, strictly inside all constraints, and the
            objective after each step.

    Raises:
        SearchStopped: An interrupt arrived; carries what would have
            been returned.
    """
    state = _BarrierSearch(problem, start, lower, upper)
    n = len(start.variables)
    last_mu = settings.tolerance / n
    if barrier is None:
        barrier = state.balanced_barrier()
    state.set_barrier(max(barrier, last_mu))
    best = start
    history = [start.objective]
    try:
        for iteration in range(1, settings.iterations + 1):
            residual = state.barrier_gradient()
            step = _solve_positive(state.newton_matrix(), -residual)
            slope = float(residual @ step)
            # -slope is the decrement: twice the decrease that this barrier problem still allows.
            if -slope < DECREMENT_TOLERANCE * n * state.mu:
                if state.mu <= last_mu:
                    break
                state.mu = max(BARRIER_DECREASE * state.mu, last_mu)
                continue
            if not state.advance(step, slope):
                if state.hessian_is_fresh:  # rounding, or a kink of the criterion
                    break
                state.reset_hessian()
                continue
            history.append(state.point.objective)
            if state.point.objective < best.objective:
                best = state.point
            if progress is not None:
                progress(iteration, state.point.objective, 0.0)
    except KeyboardInterrupt:
        raise SearchStopped(best, tuple(history)) from None
    return best, tuple(history)


class _BarrierSearch:
    """Point, derivatives, multipliers and Hessian of a running interior-point search.

    Slacks, multipliers and their changes have the lower bounds first,
    then the upper ones: (2, *constraints.shape).
    """

    def __init__(
        self,
        problem: DesignProblem,
        start: DesignPoint,
        lower: FloatArray | float,
        upper: FloatArray | float,
    ) -> None:
        self.problem = problem
        self.lower = lower
        self.upper = upper
        self.mu = 1.0
        self._move_to(start)
        self.multipliers = 1 / self.slack
        self.reset_hessian()

    def _move_to(self, point: DesignPoint) -> None:
        self.point = point
        self.gradient = self.problem.gradient(point)
        self.jacobian = self.problem.linearise(point)
        self.slack = self._slacks(point)

    def _slacks(self, point: DesignPoint) -> FloatArray:
        return np.stack([point.constraints - self.lower, self.upper - point.constraints])

    def reset_hessian(self) -> None:
        """Start again with a Hessian that makes a step of length one along the gradient."""
        norm = max(float(np.linalg.norm(self.gradient)), 1e-6)
        self.hessian = np.eye(len(self.gradient)) * norm
        self.hessian_is_fresh = True

    def balanced_barrier(self) -> float:
        """Return the mu, at most 1, at which barrier and objective have gradients of one norm."""
        push = self.jacobian.transposed(1 / self.slack[0] - 1 / self.slack[1])
        push_norm = float(np.linalg.norm(push))
        gradient_norm = float(np.linalg.norm(self.gradient))
        return gradient_norm / push_norm if gradient_norm < push_norm else 1.0

    def set_barrier(self, mu: float) -> None:
        """Set mu and the multipliers of the central path."""
        self.mu = mu
        self.multipliers = mu / self.slack

    def barrier_gradient(self) -> FloatArray:
        """Return the gradient of the barrier function, (x,)."""
        push = self.mu / self.slack[0] - self.mu / self.slack[1]
        return self.gradient - self.jacobian.transposed(push)

    def lagrangian_gradient(self) -> FloatArray:
        """Return the gradient of f - z_lower^T c + z_upper^T c, (x,)."""
        return self.gradient - self.jacobian.transposed(self.multipliers[0] - self.multipliers[1])

    def newton_matrix(self) -> FloatArray:
        """Return the primal-dual matrix with the slacks eliminated, (x, x)."""
        weights = (self.multipliers / self.slack).sum(axis=0)
        return self.hessian + self.jacobian.normal(weights)

    def merit(self, point: DesignPoint) -> float:
        """Return the barrier function; infinite outside the constraints."""
        low, high = self._slacks(point)
        if not (low.min() > 0 and high.min() > 0 and np.isfinite(point.objective)):
            return float("inf")
        return float(point.objective - self.mu * (np.log(low).sum() + np.log(high).sum()))

    def advance(self, step: FloatArray, slope: float) -> bool:
        """Take a step with a line search and update multipliers and Hessian; False if none helps.

        Args:
            step: Newton step of the variables, (x,).
            slope: Derivative of the barrier function along the step.
        """
        constraint_change = self.jacobian.times(step)
        slack_change = np.stack([constraint_change, -constraint_change])
        point = self._line_search(step, slope, _feasible_fraction(self.slack, slack_change))
        if point is None:
            return False
        z = self.multipliers
        z_change = self.mu / self.slack - z - z / self.slack * slack_change
        for side in (0, 1):
            fraction = _feasible_fraction(z[side], z_change[side])
            z_change[side] *= fraction
        self.multipliers = z + z_change
        gradient_before = self.lagrangian_gradient()
        variables_before = self.point.variables
        self._move_to(point)
        self.multipliers = np.clip(
            self.multipliers,
            self.mu / (MAX_MULTIPLIER_RATIO * self.slack),
            MAX_MULTIPLIER_RATIO * self.mu / self.slack,
        )
        self.hessian = _bfgs(
            self.hessian,
            point.variables - variables_before,
            self.lagrangian_gradient() - gradient_before,
            self.hessian_is_fresh,
        )
        self.hessian_is_fresh = False
        return True

    def _line_search(self, step: FloatArray, slope: float, alpha: float) -> DesignPoint | None:
        """Halve the step until the barrier function falls enough (Armijo); None if it never does.

        Args:
            alpha: First fraction of the step.
        """
        merit_before = self.merit(self.point)
        for _ in range(MAX_STEP_HALVINGS):
            candidate = self.problem.evaluate(self.point.variables + alpha * step, self.point)
            if candidate is not None:
                bound = merit_before + ARMIJO_SLOPE * alpha * slope
                if self.merit(candidate) <= bound:
                    return candidate
            alpha *= 0.5
        return None


def _feasible_fraction(values: FloatArray, change: FloatArray) -> float:
    """Return the largest fraction of a change, at most 1, that keeps all values well positive."""
    largest_decrease = float((-change / values).max())
    if largest_decrease <= 0:
        return 1.0
    return min(1.0, BOUNDARY_FRACTION / largest_decrease)


def _solve_positive(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return matrix^-1 right; a ridge is added where rounding made the matrix indefinite."""
    ridge = 0.0
    scale = float(np.abs(matrix.diagonal()).max())
    while True:
        try:
            factor = cho_factor(matrix + ridge * np.eye(len(matrix)), check_finite=False)
            return np.asarray(cho_solve(factor, right, check_finite=False))
        except LinAlgError:
            ridge = max(100 * ridge, 1e-14 * scale)


def _bfgs(
    B: FloatArray,
    step: FloatArray,
    gradient_change: FloatArray,
    first_update: bool,
) -> FloatArray:
    """Return the BFGS update of B with Powell's damping, which keeps it positive definite.

    Args:
        first_update: B has no curvature yet; it is scaled to that of
            the step first.
    """
    s = step
    y = gradient_change
    if first_update and float(s @ y) > 0:
        B = np.eye(len(s)) * float(y @ y) / float(s @ y)
    Bs = B @ s
    curvature = float(s @ Bs)
    sy = float(s @ y)
    if sy < 0.2 * curvature:
        weight = 0.8 * curvature / (curvature - sy)
        y = weight * y + (1 - weight) * Bs
    return np.asarray(B - np.outer(Bs, Bs) / curvature + np.outer(y, y) / float(s @ y))
