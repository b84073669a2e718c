"""Robots that do not come with Gough, each against Pinocchio and finite differences of its closures
alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from gough.core.parameters import INERTIAL
from gough.engine import Model, base_parameters, random_motion
from gough.mechanism import Mechanism, load_robot
from tests_support import model_of
from trials import larger_later

sys.path.insert(0, str(Path(__file__).parent))
from pin_tree import constrained_acceleration, placed, term_value, tree

FOLDER = Path(__file__).parent / "robots"
COMPILE_FOR_LONG = (
    "agile_eye",
    "delta_bars",
    "delta_bars_full",
    "exechon",
    "hexaglide",
    "spatial_3prs",
    "welded_arm",
)
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
ROBOTS = larger_later(NAMES, COMPILE_FOR_LONG, pytest.mark.slow)
FREEDOM = {
    "agile_eye": 3,
    "all_closures": 2,
    "delta_bars": 3,
    "delta_bars_full": 3,
    "exechon": 3,
    "geared_five_bar": 2,
    "hexaglide": 6,
    "hybrid_arm": 4,
    "planar_3prr": 3,
    "planar_3rrr": 3,
    "slider_crank": 1,
    "spatial_3prs": 3,
    "spatial_3rps": 3,
    "welded_arm": 6,
}


@pytest.fixture(params=ROBOTS, scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    return model_of(FOLDER / f"{request.param}.toml")


def gaps(
    mechanism: Mechanism, robot: pin.Model, ids: dict[str, int], order: list[int], q: np.ndarray
) -> np.ndarray:
    """Return how far every closure is open, from Pinocchio's poses; orientation by cross product
    and logarithm.
    """
    data, position = robot.createData(), np.zeros(len(order))
    position[order] = q
    pin.forwardKinematics(robot, data, position)
    found: list[np.ndarray] = []
    for closure in mechanism.closures:
        if closure.kind == "coupling":
            value = sum(
                c * q[mechanism.coordinates.index(j)] for j, c in closure.coefficients.items()
            )
            found.append(np.array([value + closure.constant]))
            continue
        a, b = (data.oMi[ids[end.body]] * placed(end.placement) for end in (closure.a, closure.b))
        if closure.kind in ("point", "revolute", "weld"):
            found.append(b.translation - a.translation)
        if closure.kind == "distance":
            found.append(
                np.array([np.linalg.norm(b.translation - a.translation) - closure.values["length"]])
            )
        if closure.kind in ("revolute", "parallel"):
            found.append(np.cross(a.rotation[:, 2], b.rotation[:, 2]))
        if closure.kind == "weld":
            found.append(pin.log3(a.rotation.T @ b.rotation))
    return np.concatenate(found)


def null_space(
    mechanism: Mechanism, parts: tuple[pin.Model, dict[str, int], list[int]], q: np.ndarray
) -> np.ndarray:
    """Return the free motions (n, m) of the closed chain by central differences of the gaps."""
    steps = 1e-6 * np.eye(len(q))
    K = (
        np.stack(
            [gaps(mechanism, *parts, q + s) - gaps(mechanism, *parts, q - s) for s in steps], axis=1
        )
        / 2e-6
    )
    _, values, vt = np.linalg.svd(K)
    return vt[int((values > 1e-5 * values[0]).sum()) :].T


def test_mobility_and_closures(model: Model) -> None:
    assert model.degrees_of_freedom == FREEDOM[model.mechanism.name]
    parts = tree(model.mechanism)
    motion = random_motion(model, 5, seed=1)
    for q, qd in zip(motion.q, motion.qd):
        assert np.abs(gaps(model.mechanism, *parts, q)).max() < 1e-10
        free = null_space(model.mechanism, parts, q)
        assert free.shape[1] == model.degrees_of_freedom
        np.testing.assert_allclose(free @ (free.T @ qd), qd, atol=1e-7 * np.abs(qd).max())


def test_constrained_dynamics_return_our_accelerations(model: Model) -> None:
    mechanism, motion = model.mechanism, random_motion(model, 5, seed=2)
    effort = model.inverse_dynamics(motion)
    for t in range(5):
        forces = np.zeros(len(mechanism.joints))
        forces[list(model.actuated)] = effort[t]
        for i, joint in enumerate(mechanism.joints):
            for term in set(joint.terms) - {"ia"}:
                value = term_value(term, motion.q[t, i], motion.qd[t, i], 0.0)
                forces[i] -= joint.values.get(term, 0.0) * value
        theirs = constrained_acceleration(mechanism, motion.q[t], motion.qd[t], forces)
        np.testing.assert_allclose(theirs, motion.qdd[t], atol=1e-8 * np.abs(motion.qdd[t]).max())
    rows = list(model.independent)
    back = model.forward_dynamics(motion.q, motion.qd[:, rows], effort)
    np.testing.assert_allclose(back, motion.qdd[:, rows], atol=1e-8 * np.abs(motion.qdd).max())


def test_number_of_base_parameters_is_the_rank_of_pinocchios_regressor(model: Model) -> None:
    mechanism = model.mechanism
    parts = tree(mechanism)
    robot, ids, order = parts
    data, blocks = robot.createData(), []
    motion = random_motion(
        model, 3 * len(mechanism.standard) // (2 * model.degrees_of_freedom) + 10, seed=3
    )
    for t in range(len(motion)):
        position, velocity, acceleration = np.zeros((3, len(order)))
        q, qd, qdd = motion.q[t], motion.qd[t], motion.qdd[t]
        position[order], velocity[order], acceleration[order] = q, qd, qdd
        full = pin.computeJointTorqueRegressor(robot, data, position, velocity, acceleration)[order]
        columns = np.zeros((len(q), len(mechanism.standard)))
        for k, name in enumerate(mechanism.standard.names):
            item, _, parameter = name.rpartition(".")
            if parameter in INERTIAL:
                columns[:, k] = full[:, 10 * (ids[item] - 1) + INERTIAL.index(parameter)]
            else:
                i = mechanism.coordinates.index(item)
                columns[i, k] = term_value(parameter, q[i], qd[i], qdd[i])
        blocks.append(null_space(mechanism, parts, q).T @ columns)
    W = np.concatenate(blocks)
    size = np.linalg.norm(W, axis=0)
    values = np.linalg.svd(
        W / np.where(size > 1e-7 * size.max(), size, size.max()), compute_uv=False
    )
    count = len(base_parameters(model))
    assert values[count - 1] > 5 * values[count]  # differences leave 1e-8 of noise
    assert values[count] < 1e-6


def test_both_ways_to_write_the_delta_are_one_robot() -> None:
    """A platform that cannot turn, closed redundantly, and one that could, closed just so."""
    still, free = (model_of(FOLDER / f"{name}.toml") for name in ("delta_bars", "delta_bars_full"))
    motion = random_motion(still, 6, seed=5)
    rows = list(still.independent)
    same = free.kinematics.motion(
        motion.time, motion.q[:, rows], motion.qd[:, rows], motion.qdd[:, rows]
    )
    np.testing.assert_allclose(
        free.inverse_dynamics(same), still.inverse_dynamics(motion), rtol=1e-9, atol=1e-9
    )
    assert len(base_parameters(still)) == len(base_parameters(free))


def test_the_slider_crank_turns_fully_and_follows_its_closed_form() -> None:
    model = model_of(FOLDER / "slider_crank.toml")
    angle = np.radians(np.linspace(30, 390, 361))[:, None]
    q = model.kinematics.close_loops(angle)[:, model.mechanism.coordinates.index("slide")]
    closed = 0.1 * np.cos(angle) + np.sqrt(0.3**2 - (0.1 * np.sin(angle)) ** 2)
    np.testing.assert_allclose(q, closed.ravel(), atol=1e-12)


def test_a_start_at_a_position_limit_does_not_change_the_base_parameters(tmp_path: Path) -> None:
    text = (FOLDER / "slider_crank.toml").read_text(encoding="utf-8")
    whole = base_parameters(model_of(FOLDER / "slider_crank.toml"))
    (tmp_path / "edge.toml").write_text(
        text.replace("start = 30\n", "start = 30\nlimits = { position = [30, 120] }\n"),
        encoding="utf-8",
    )
    edge = base_parameters(Model(load_robot(tmp_path / "edge.toml")))
    assert edge.names == whole.names
    assert edge.gap > 1e11
    np.testing.assert_allclose(edge.matrix, whole.matrix, rtol=1e-5, atol=1e-7)


def test_a_robot_of_millimetres_has_the_base_parameters_of_a_large_one(tmp_path: Path) -> None:
    text = (FOLDER / "spatial_3prs.toml").read_text(encoding="utf-8")
    (tmp_path / "small.toml").write_text(
        text.replace('length = "m"', 'length = "cm"'), encoding="utf-8"
    )
    large = base_parameters(model_of(FOLDER / "spatial_3prs.toml"))
    small = base_parameters(Model(load_robot(tmp_path / "small.toml")))
    assert small.names == large.names
