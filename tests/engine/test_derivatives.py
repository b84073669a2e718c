"""Exact derivatives through the closed loops, against finite differences that close the loops
again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.engine.base import random_motion
from gough.engine.derivatives import has_regularity, regressor_adjoint, response, smooth_regressor
from gough.engine.loops import By
from gough.engine.model import Model
from tests_support import model_of

CASES = [
    ("five_bar", "task"),
    ("five_bar", "actuated"),
    ("redundant", "task"),
    ("redundant", "actuated"),
    ("h4", "task"),
    ("h4", "actuated"),
    ("orthoglide", "actuated"),
    ("serial6", "actuated"),
    ("palida", "task"),
]
SAMPLES = 4


def _motion(robot: str) -> Motion:
    return random_motion(model_of(robot), SAMPLES, seed=3)


def _of(motion: Motion, model: Model, by: By) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = list(model.loops.partitions[by].independent)
    return motion.q[:, rows], motion.qd[:, rows], motion.qdd[:, rows]


def _names(model: Model) -> tuple[str, ...]:
    """A selection that has every kind of parameter, so that the graphs stay small."""
    names = model.mechanism.standard.names
    return names[:12] + names[12::7] + tuple(n for n in names if n.endswith((".fs", ".fv")))[:4]


def _outputs(model: Model) -> tuple[Any, ...]:
    moving = [*model.mechanism.actuated, *model.mechanism.task, model.mechanism.coordinates[-1]]
    kinds = [
        (quantity, name) for quantity in ("position", "velocity", "acceleration") for name in moving
    ]
    efforts = [("effort", name) for name in model.mechanism.actuated] + [
        ("row", name) for name in model.rows
    ]
    return (
        *dict.fromkeys(kinds),
        *efforts,
        *([("regularity", "")] if has_regularity(model) else []),
    )


def _differences(
    model: Model, by: By, motion: Motion, values: Any, step: float = 1e-6
) -> np.ndarray:
    """Central differences of values(q, v, a) -> (t, ...) by q_P, v, a; loops closed anew, (t, ...,
    3m).
    """
    position, velocity, acceleration = _of(motion, model, by)
    m = position.shape[1]
    columns = []
    for k in range(3 * m):
        sides = []
        for sign in (1.0, -1.0):
            moved = [position.copy(), velocity.copy(), acceleration.copy()]
            moved[k // m][:, k % m] += sign * step
            q, error = model.kinematics.close_nearby(motion.q, by, moved[0])
            assert error.max() < 1e-10
            sides.append(values(q, moved[1], moved[2]))
        columns.append((sides[0] - sides[1]) / (2 * step))
    return np.stack(columns, axis=-1)


def _covariance(model: Model) -> np.ndarray:
    factor = np.random.default_rng(1).standard_normal((len(model.actuated), len(model.actuated)))
    return factor @ factor.T + np.eye(len(factor))


@pytest.mark.parametrize(("robot", "by"), CASES)
def test_the_derivative_of_the_response_equals_finite_differences(robot: str, by: By) -> None:
    model, motion = model_of(robot), _motion(robot)
    band = np.full(len(model.home), 0.3)
    load = np.array([2.0, 0.1, -0.2, 0.3, 0.05, 0.0, 0.06, 0.0, 0.0, 0.04])
    chi = model.mechanism.standard.values + np.random.default_rng(0).uniform(
        0, 0.1, len(model.mechanism.standard)
    )
    outputs = _outputs(model)
    kernel = response(model, outputs, by)
    _, velocity, acceleration = _of(motion, model, by)
    _, derivative, check = kernel(motion.q, velocity, acceleration, band, chi, load)
    assert check.max() < 1e-9
    wanted = _differences(model, by, motion, lambda q, v, a: kernel(q, v, a, band, chi, load)[0])
    size = np.abs(wanted).max(axis=(0, 2))[None, :, None] + 1e-6
    assert (np.abs(derivative - wanted) / size).max() < 1e-6


@pytest.mark.parametrize(("robot", "by"), CASES)
def test_the_adjoint_of_the_regressor_equals_finite_differences(robot: str, by: By) -> None:
    model, motion = model_of(robot), _motion(robot)
    names, covariance, band = _names(model), _covariance(model), np.full(len(model.home), 0.3)
    regressor, adjoint = smooth_regressor(model, names, by), regressor_adjoint(model, names, by)
    _, velocity, acceleration = _of(motion, model, by)
    seed = np.random.default_rng(2).standard_normal((SAMPLES, model.degrees_of_freedom, len(names)))
    found = np.concatenate(
        adjoint(motion.q, velocity, acceleration, band, covariance, seed), axis=1
    )
    wanted = _differences(
        model,
        by,
        motion,
        lambda q, v, a: np.einsum("trp,trp->t", seed, regressor(q, v, a, band, covariance)[0]),
    )
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize(("robot", "by"), CASES)
def test_with_a_narrow_band_the_values_are_those_of_the_model(robot: str, by: By) -> None:
    model, motion = model_of(robot), _motion(robot)
    names, covariance, band = _names(model), _covariance(model), np.full(len(model.home), 1e-9)
    _, velocity, acceleration = _of(motion, model, by)
    whitened = smooth_regressor(model, names, by)(
        motion.q, velocity, acceleration, band, covariance
    )[0]
    plain = model.regressor(motion, names)
    for k in range(SAMPLES):
        act = model.kinematics.closure_map(motion.q[k : k + 1])[0, list(model.actuated)]
        noise = act.T @ covariance @ act
        information = plain[k].T @ np.linalg.solve(noise, plain[k])
        assert whitened[k].T @ whitened[k] == pytest.approx(
            information, rel=1e-8, abs=1e-8 * np.abs(information).max()
        )
    load = model.load(None)
    outputs = _outputs(model)
    values = response(model, outputs, by)(
        motion.q, velocity, acceleration, band, model.mechanism.standard.values, load
    )[0]
    efforts = model.inverse_dynamics(motion)
    for i, (quantity, name) in enumerate(outputs):
        if quantity == "effort":
            wanted = efforts[:, model.mechanism.actuated.index(name)]
        elif quantity == "row":
            wanted = model.project_to_rows(motion.q, efforts)[:, model.rows.index(name)]
        elif quantity == "regularity":
            continue
        else:
            source = {"position": motion.q, "velocity": motion.qd, "acceleration": motion.qdd}[
                quantity
            ]
            wanted = source[:, motion.column(name)]
        assert values[:, i] == pytest.approx(
            wanted, rel=1e-8, abs=1e-8 * (1 + np.abs(efforts).max())
        )


@pytest.mark.parametrize(("robot", "by"), [case for case in CASES if case[0] != "serial6"])
def test_regularity_is_the_relative_determinant_of_motor_by_platform_motion(
    robot: str, by: By
) -> None:
    model, motion = model_of(robot), _motion(robot)
    q = np.concatenate([model.home[None], motion.q])
    rest = np.zeros((len(q), model.degrees_of_freedom))
    value = response(model, (("regularity", ""),), by)(
        q, rest, rest, np.ones(len(model.home)), model.mechanism.standard.values, np.zeros(10)
    )[0][:, 0]
    act = model.kinematics.closure_map(q, "task")[:, list(model.actuated)]
    wanted = np.linalg.det(np.einsum("tam,tak->tmk", act, act))
    power = 1 if model.loops.redundant else 2
    assert value[0] == pytest.approx(1.0, rel=1e-12)
    assert value**power == pytest.approx(wanted / wanted[0], rel=1e-9)
    assert (value > 0).all()


def test_regularity_changes_its_sign_where_the_motors_lose_the_platform() -> None:
    model = model_of("palida")
    twist = np.linspace(0, 2.2, 111)  # turning a hexapod by about a quarter makes it singular
    position = np.repeat(
        model.home[None, list(model.loops.partitions["task"].independent)], len(twist), axis=0
    )
    position[:, 5] += twist
    q = model.kinematics.close_loops(position, "task")
    rest = np.zeros_like(position)
    value = response(model, (("regularity", ""),), "task")(
        q, rest, rest, np.ones(len(model.home)), model.mechanism.standard.values, np.zeros(10)
    )[0][:, 0]
    margin = model.kinematics.margins(q).type2
    crossing = int(np.argmax(value < 0))
    assert crossing > 0
    assert abs(int(np.argmin(margin)) - crossing) <= 1


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"leg1\.slider"):
        response(model_of("palida"), (("effort", "leg1.slide"),), "task")
    with pytest.raises(InvalidInput, match="task"):
        response(model_of("serial6"), (("effort", "q1"),), "task")
