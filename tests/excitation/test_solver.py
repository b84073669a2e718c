"""The interior-point method on problems with known answers, and against SciPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from gough.excitation.solver import InteriorPoint, _BarrierSearch, interior_point


@dataclass
class Point:
    variables: np.ndarray
    constraints: np.ndarray
    objective: float


class Dense:
    """A matrix as the operator the solver wants."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def times(self, step: np.ndarray) -> np.ndarray:
        return self.matrix @ step

    def transposed(self, weights: np.ndarray) -> np.ndarray:
        return self.matrix.T @ weights

    def normal(self, weights: np.ndarray) -> np.ndarray:
        return (self.matrix.T * weights) @ self.matrix


class Box:
    """Minimise (x - 2)^2 + 10 (y - x^2)^2 inside a disc and a strip."""

    calls = 0
    forbidden = 1.4  # x beyond this cannot be evaluated at all

    def evaluate(self, variables: np.ndarray, near: Point | None = None) -> Point | None:
        self.calls += 1
        x, y = variables
        if x > self.forbidden:
            return None
        return Point(variables, np.array([x**2 + y**2, x + y]), (x - 2) ** 2 + 10 * (y - x**2) ** 2)

    def gradient(self, point: Point) -> np.ndarray:
        x, y = point.variables
        return np.array([2 * (x - 2) - 40 * x * (y - x**2), 20 * (y - x**2)])

    def linearise(self, point: Point) -> Dense:
        x, y = point.variables
        return Dense(np.array([[2 * x, 2 * y], [1.0, 1.0]]))


def test_the_constrained_minimum_is_that_of_scipy() -> None:
    problem = Box()
    start = problem.evaluate(np.array([0.1, 0.1]))
    assert start is not None
    lower, upper = np.array([-1.0, -1.5]), np.array([2.0, 1.9])
    seen: list[float] = []
    point, history = interior_point(
        problem,
        start,
        lower,
        upper,
        InteriorPoint(tolerance=1e-7, iterations=300),
        lambda i, value, violation: seen.append(value),
    )
    wanted = minimize(
        lambda x: (x[0] - 2) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2,
        [0.1, 0.1],
        method="SLSQP",
        tol=1e-14,
        constraints=[
            {"type": "ineq", "fun": lambda x: 2 - x[0] ** 2 - x[1] ** 2},
            {"type": "ineq", "fun": lambda x: 1.9 - x[0] - x[1]},
        ],
    )
    assert point.variables == pytest.approx(wanted.x, abs=1e-5)
    assert (point.constraints < upper).all()
    assert (point.constraints > lower).all()
    assert len(seen) == len(history) - 1


def test_points_that_cannot_be_evaluated_only_shorten_the_step() -> None:
    problem = Box()
    problem.forbidden = 0.8
    start = problem.evaluate(np.array([0.1, 0.1]))
    assert start is not None
    point, _ = interior_point(
        problem, start, np.array([-1.0, -1.5]), np.array([2.0, 1.9]), InteriorPoint()
    )
    assert 0.5 < point.variables[0] <= 0.8
    assert point.objective < start.objective


def test_a_constraint_that_bends_cuts_the_step() -> None:
    class Bent:
        seen: list[float]

        def __init__(self) -> None:
            self.seen = []

        def evaluate(self, variables: np.ndarray, near: Point | None = None) -> Point:
            self.seen.append(float(variables[0]))
            return Point(variables, variables**4, float(-variables[0]))

        def gradient(self, point: Point) -> np.ndarray:
            return np.array([-1.0])

        def linearise(self, point: Point) -> Dense:
            return Dense(4 * point.variables[:, None] ** 3)

    problem = Bent()
    point, _ = interior_point(
        problem,
        problem.evaluate(np.array([0.01])),
        np.array([-1.0]),
        np.array([1.0]),
        InteriorPoint(tolerance=1e-6),
    )
    assert max(problem.seen) > 1  # it was tried
    assert 1 - 1e-5 < point.variables[0] < 1


def test_every_step_stays_strictly_inside() -> None:
    rng = np.random.default_rng(0)
    normals = rng.standard_normal((200, 5))

    class Linear:
        seen: list[np.ndarray]

        def __init__(self) -> None:
            self.seen = []

        def evaluate(self, variables: np.ndarray, near: Point | None = None) -> Point:
            return Point(variables, normals @ variables, float(variables.sum()))

        def gradient(self, point: Point) -> np.ndarray:
            self.seen.append(point.constraints)
            return np.ones(5)

        def linearise(self, point: Point) -> Dense:
            return Dense(normals)

    problem = Linear()
    ones = np.ones(200)
    point, _ = interior_point(
        problem,
        problem.evaluate(np.zeros(5)),
        -ones,
        ones,
        InteriorPoint(tolerance=1e-6, iterations=300),
    )
    assert max(np.abs(c).max() for c in problem.seen) < 1
    exact = minimize(
        lambda x: x.sum(),
        np.zeros(5),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: 1 - normals @ x},
            {"type": "ineq", "fun": lambda x: 1 + normals @ x},
        ],
    )
    assert point.objective == pytest.approx(exact.fun, abs=1e-5)


def test_half_way_between_its_bounds_a_constraint_does_not_push() -> None:
    """There the derivative of log(c - lower) + log(upper - c) is zero; near a bound it is not."""
    problem = Box()
    start = problem.evaluate(np.array([0.5, 0.5]))
    assert start is not None
    centred = _BarrierSearch(problem, start, start.constraints - 1e-3, start.constraints + 1e-3)
    assert centred.balanced_barrier() == 1.0
    beside = _BarrierSearch(problem, start, start.constraints - 1e-3, start.constraints + 1.0)
    push = problem.linearise(start).transposed(np.full(2, 1e3 - 1.0))
    expected = np.linalg.norm(problem.gradient(start)) / np.linalg.norm(push)
    assert beside.balanced_barrier() == pytest.approx(expected, rel=1e-12)
