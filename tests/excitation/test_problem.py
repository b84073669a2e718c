"""The design problem: objective and constraints by their definitions, derivatives by finite
differences.
"""

from __future__ import annotations

import numpy as np
import pytest

from gough.engine.base import base_parameters
from gough.engine.limits import collect_limits
from gough.engine.loops import By
from gough.excitation.criteria import CRITERIA, Criterion, criterion_value
from gough.excitation.problem import DesignPoint, DesignProblem
from gough.excitation.trajectory_form import TrajectoryForm
from tests_support import model_of

NOISE = {
    "five_bar": np.array([[0.02, 0.012], [0.012, 0.05]]),
    "redundant": np.array([[0.02, 0.01, 0.0], [0.01, 0.05, -0.01], [0.0, -0.01, 0.03]]),
}


def _form(**changes: object) -> TrajectoryForm:
    usual: dict[str, object] = {
        "harmonics": 3,
        "frequency": 0.5,
        "payload": None,
        "weight": 2.0,
        "samples": 40,
        "at_rest": False,
        "free_frequency": False,
    }
    return TrajectoryForm(**(usual | changes))  # type: ignore[arg-type]


def _problem(
    robot: str, criterion: Criterion, *forms: TrajectoryForm, by: By = "task"
) -> tuple[DesignProblem, DesignPoint]:
    model = model_of(robot)
    payloads = tuple(form.payload for form in forms if form.payload)
    base = base_parameters(model, tie_legs=True, payloads=payloads)
    m = model.degrees_of_freedom
    problem = DesignProblem(
        model,
        forms,
        by=by,
        criterion=criterion,
        base=base,
        limits=collect_limits(model),
        covariance=NOISE[robot],
        centre=model.home,
    )
    problem.reach = np.full(m, 0.05)  # [m or rad]
    point = problem.evaluate(0.3 * np.random.default_rng(0).standard_normal(problem.size))
    assert point is not None
    return problem, point


def _differences(
    problem: DesignProblem, point: DesignPoint, direction: np.ndarray
) -> tuple[float, np.ndarray]:
    step = 1e-6
    ahead, behind = (
        problem.evaluate(point.variables + s * step * direction, point) for s in (1, -1)
    )
    assert ahead is not None
    assert behind is not None
    return (
        (ahead.objective - behind.objective) / (2 * step),
        (ahead.constraints - behind.constraints) / (2 * step),
    )


CASES = [
    ("five_bar", "task", (_form(),)),
    ("five_bar", "actuated", (_form(at_rest=True),)),
    ("redundant", "task", (_form(free_frequency=True),)),
    (
        "five_bar",
        "task",
        (_form(free_frequency=True), _form(payload="disc", frequency=0.2, samples=30)),
    ),
]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("robot", "by", "forms"), CASES)
def test_derivatives_equal_finite_differences(
    robot: str, by: By, forms: tuple[TrajectoryForm, ...], criterion: Criterion
) -> None:
    problem, point = _problem(robot, criterion, *forms, by=by)
    gradient, linear = problem.gradient(point), problem.linearise(point)
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction = rng.standard_normal(problem.size)
        objective, constraints = _differences(problem, point, direction)
        assert gradient @ direction == pytest.approx(
            objective, rel=1e-5, abs=1e-5 * np.linalg.norm(gradient)
        )
        assert linear.times(direction) == pytest.approx(
            constraints, rel=1e-5, abs=1e-6 * np.abs(constraints).max()
        )


@pytest.mark.parametrize(("robot", "by", "forms"), CASES)
def test_the_operator_agrees_with_its_own_matrix(
    robot: str, by: By, forms: tuple[TrajectoryForm, ...]
) -> None:
    problem, point = _problem(robot, "d", *forms, by=by)
    linear = problem.linearise(point)
    matrix = np.stack([linear.times(e).ravel() for e in np.eye(problem.size)], axis=1)
    weights = np.random.default_rng(2).uniform(0, 1, point.constraints.shape)
    flat = weights.ravel()
    assert linear.transposed(weights) == pytest.approx(matrix.T @ flat, rel=1e-10, abs=1e-10)
    assert linear.normal(weights) == pytest.approx((matrix.T * flat) @ matrix, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("robot", ["five_bar", "redundant"])
def test_the_objective_is_the_criterion_of_the_whitened_regressor(
    robot: str, criterion: Criterion
) -> None:
    problem, point = _problem(robot, criterion, _form())
    problem.friction_bands = [np.full(len(problem.model.home), 1e-9)]  # the exact sign
    again = problem.evaluate(point.variables, point)
    assert again is not None
    trajectory = problem.trajectories(point.variables)[0]
    model = problem.model
    time = np.arange(40) / 40 * trajectory.period
    motion = model.kinematics.motion(time, *trajectory.at(time), "task")
    W = np.sqrt(2.0) * model.regressor(motion, problem.base)
    covariance = np.eye(len(model.actuated)) if criterion == "cond" else NOISE[robot]
    rows = []
    for k in range(40):
        act = model.kinematics.closure_map(motion.q[k : k + 1])[0, list(model.actuated)]
        rows.append(np.linalg.solve(np.linalg.cholesky(act.T @ covariance @ act), W[k]))
    value = criterion_value(criterion, np.concatenate(rows))
    assert again.objective == pytest.approx(value if criterion == "d" else np.log(value), rel=1e-7)


def test_constraints_are_the_limited_quantities_on_a_scale_from_minus_one_to_one() -> None:
    problem, point = _problem("five_bar", "d", _form())
    trajectory = problem.trajectories(point.variables)[0]
    time = np.arange(40) / 40 * trajectory.period
    motion = problem.model.kinematics.motion(time, *trajectory.at(time), "task")
    values = point.constraints.reshape(40, -1)
    for i, limit in enumerate(problem.limits):
        if limit.quantity in ("position", "velocity", "acceleration"):
            source = {"position": motion.q, "velocity": motion.qd, "acceleration": motion.qdd}[
                limit.quantity
            ]
            column = source[:, motion.column(limit.name)]
            wanted = (2 * column - limit.lower - limit.upper) / (limit.upper - limit.lower)
            assert values[:, i] == pytest.approx(wanted, abs=1e-8)


def test_a_start_at_rest_leaves_fewer_variables() -> None:
    free, _ = _problem("five_bar", "d", _form())
    rest, point = _problem("five_bar", "d", _form(at_rest=True))
    assert free.size - rest.size == 2 * 2
    _, velocity, acceleration = rest.trajectories(point.variables)[0].at([0.0])
    assert np.abs(velocity).max() < 1e-12
    assert np.abs(acceleration).max() < 1e-10


def test_loops_that_cannot_close_are_no_point() -> None:
    problem, point = _problem("five_bar", "d", _form())
    assert problem.evaluate(100 * point.variables, point) is None
