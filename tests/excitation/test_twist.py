"""Limits of the platform's velocity and angular velocity as a whole, which are not those of its
coordinates.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidMechanism, InvalidTrajectory
from gough.core.rotation import platform_twist
from gough.core.trajectory import Fourier
from gough.engine.derivatives import response
from gough.engine.limits import collect_limits, measure
from gough.engine.loops import By
from gough.engine.model import Model
from gough.excitation import design
from gough.mechanism import Limits, load_robot
from gough.virtual.reference import build_reference
from tests_support import model_of

ROBOTS = ("delta", "five_bar", "h4", "orthoglide", "palida", "redundant", "stewart", "upv")
QUANTITIES = ("velocity", "acceleration")


def both(model: Model) -> dict[str, Limits]:
    """Limits of speed and angular speed, and of their accelerations, that are easy to tell
    apart.
    """
    return {
        f"{model.mechanism.platform}.translation": Limits(velocity=1.0, acceleration=2.0),
        f"{model.mechanism.platform}.rotation": Limits(velocity=3.0, acceleration=4.0),
    }


def wave(model: Model, size: float = 0.1) -> Fourier:
    """A motion about home of all task coordinates, by a part of their ranges."""
    rng = np.random.default_rng(3)
    joints = [model.mechanism.joint(name) for name in model.mechanism.task]
    half = np.array([(j.limits.position[1] - j.limits.position[0]) / 2 for j in joints])
    mu, nu = size * 2 * np.pi * half * rng.uniform(-1, 1, (2, 2, len(joints)))
    return Fourier(
        coordinates=model.mechanism.task,
        units=tuple(j.unit for j in joints),
        frequency=1.0,
        offset=model.home[[model.mechanism.coordinates.index(j.name) for j in joints]],
        mu=mu,
        nu=nu,
    )


@pytest.mark.parametrize("robot", ROBOTS)
def test_angle_rates_become_the_angular_velocity_of_the_pose_itself(robot: str) -> None:
    model = model_of(robot)
    curve, time, step = wave(model), np.linspace(0, 0.9, 7), 1e-5
    twist, change = platform_twist(curve.coordinates, *curve.at(time))
    jacobian = model.platform_kernel()

    def by_jacobian(t: np.ndarray) -> np.ndarray:
        motion = model.kinematics.motion(t, *curve.at(t), "task")
        return np.array(
            [jacobian(q[None])[0].reshape(6, -1) @ qd for q, qd in zip(motion.q, motion.qd)]
        )

    assert twist == pytest.approx(by_jacobian(time), abs=1e-8 * max(1, np.abs(twist).max()))
    slope = (by_jacobian(time + step) - by_jacobian(time - step)) / (2 * step)
    assert change == pytest.approx(slope, abs=1e-6 * max(1, np.abs(change).max()))


@pytest.mark.parametrize(
    ("robot", "by"),
    [
        ("palida", "task"),
        pytest.param("palida", "actuated", marks=pytest.mark.long),
        ("upv", "task"),
        ("h4", "actuated"),
        ("redundant", "task"),
    ],
)
def test_values_and_derivatives_of_the_kernel_equal_numpy_and_finite_differences(
    robot: str, by: By
) -> None:
    model = model_of(robot)
    limits = collect_limits(model, both(model), singularity=None)
    names = tuple((quantity, name) for name in both(model) for quantity in QUANTITIES)
    time = np.linspace(0, 0.9, 5)
    motion = model.kinematics.motion(time, *wave(model).at(time), "task")
    part = list(model.loops.partitions[by].independent)
    kernel = response(model, names, by)
    rest = (np.full(len(model.home), 0.1), model.standard_values(), model.load(None))

    def values(x: np.ndarray) -> np.ndarray:
        q, error = model.kinematics.close_nearby(motion.q, by, x[:, 0])
        assert error.max() < 1e-9
        return np.asarray(kernel(q, x[:, 1], x[:, 2], *rest)[0])

    x = np.stack([motion.q[:, part], motion.qd[:, part], motion.qdd[:, part]], axis=1)
    found, derivative, _ = kernel(motion.q, x[:, 1], x[:, 2], *rest)
    at = [limits.index(next(i for i in limits if (i.quantity, i.name) == pair)) for pair in names]
    wanted = measure(model, limits, motion)[:, at]
    assert found / [1.0, 2.0, 3.0, 4.0] == pytest.approx(wanted, abs=1e-8)
    for direction in np.random.default_rng(0).standard_normal((3, *x.shape)):
        slope = (values(x + 1e-6 * direction) - values(x - 1e-6 * direction)) / 2e-6
        mine = np.einsum(
            "tok,tk->to", derivative.reshape(len(time), 4, -1), direction.reshape(len(time), -1)
        )
        assert mine == pytest.approx(slope, rel=1e-5, abs=1e-6 * np.abs(slope).max())


def test_a_designed_trajectory_is_no_faster_in_any_direction_than_the_robot_file_says() -> None:
    mechanism = load_robot("five_bar")
    free = design(Model(mechanism), frequency=0.5, starts=1)
    model = Model(replace(mechanism, twist_limits={"translation": Limits(velocity=0.2)}))
    held = design(model, frequency=0.5, starts=1)
    time = np.linspace(0, held.trajectory.period, 4001)
    speed = [np.linalg.norm(plan.trajectory.at(time)[1], axis=1).max() for plan in (free, held)]
    assert speed[0] > 0.3
    assert 0.19 < speed[1] <= 0.2
    assert any("'tool.translation'" in name for name in held.active)
    with pytest.raises(
        InvalidTrajectory, match=r"'tool\.translation' beyond its velocity limits at t = .* m/s"
    ):
        build_reference(model, free.trajectory, model.mechanism.noise.rate)
    build_reference(model, held.trajectory, model.mechanism.noise.rate)


def test_a_tilted_platform_that_turns_too_fast_is_refused_by_the_virtual_robot() -> None:
    mechanism = load_robot("palida")
    curve = wave(Model(mechanism))
    speed = np.linalg.norm(
        platform_twist(curve.coordinates, *curve.at(np.arange(1000) / 1000))[0][:, 3:], axis=1
    )
    allowed = replace(mechanism, twist_limits={"rotation": Limits(velocity=speed.max() * 1.001)})
    build_reference(Model(allowed), curve, 1000.0)
    refused = replace(mechanism, twist_limits={"rotation": Limits(velocity=speed.max() * 0.999)})
    with pytest.raises(
        InvalidTrajectory, match=r"'platform\.rotation' beyond its velocity limits"
    ) as caught:
        build_reference(Model(refused), curve, 1000.0)
    assert caught.value.numbers["time"] == pytest.approx(np.argmax(speed) / 1000, abs=0.03)


def test_the_robot_file_names_what_a_platform_can_do(tmp_path) -> None:
    text = (resources.files("gough.robots") / "palida.toml").read_text()
    path = tmp_path / "own.toml"
    path.write_text(
        text.replace(
            "[platform.limits]",
            '[platform.limits]\nrotation = { velocity = "90 deg/s", '
            "acceleration = 1000 }\ntranslation = { velocity = 1.5 }",
        )
    )
    found = {str(limit) for limit in collect_limits(Model(load_robot(path)))}
    assert "velocity of 'platform.rotation' in [-1.571, 1.571] rad/s" in found
    assert "acceleration of 'platform.rotation' in [-17.45, 17.45] rad/s2" in found
    assert "velocity of 'platform.translation' in [-1.5, 1.5] m/s" in found
    for wrong, words in (
        ("rotation = { position = [-1, 1] }", "position"),
        ("rotation = { velocity = 0 }", "velocity"),
        ("spin = { velocity = 1 }", "spin"),
    ):
        path.write_text(text.replace("[platform.limits]", f"[platform.limits]\n{wrong}"))
        with pytest.raises(InvalidMechanism, match=words):
            load_robot(path)
    flat = (resources.files("gough.robots") / "orthoglide.toml").read_text()
    path.write_text(
        flat.replace("[platform.limits]", "[platform.limits]\nrotation = { velocity = 1 }")
    )
    with pytest.raises(InvalidMechanism, match="rotation"):
        load_robot(path)


def test_limits_that_a_twist_does_not_have_are_refused() -> None:
    model = model_of("five_bar")
    with pytest.raises(InvalidInput, match="no position and no effort"):
        collect_limits(model, {"tool.translation": Limits(position=(-1.0, 1.0))})
    with pytest.raises(InvalidInput, match=r"'tool\.translation' is limited to \[1"):
        collect_limits(model, {"tool.translation": Limits(velocity=-1.0)})
    with pytest.raises(InvalidInput, match=r"no joint 'platform\.translation'"):
        collect_limits(model, {"platform.translation": Limits(velocity=1.0)})
