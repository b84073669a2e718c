"""What every robot must satisfy, whatever its architecture."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from gough.core.motion import Motion
from gough.engine.base import base_parameters, random_motion
from gough.engine.model import Model
from gough.mechanism import bundled_robots
from gough.mechanism.placement import Placement
from gough.mechanism.types import Joint, Mechanism
from tests_support import model_of
from trials import larger_later

COMPILE_FOR_LONG = ("delta", "orthoglide", "palida", "stewart", "upv")
NAMES = [name for name, _ in bundled_robots()]
ROBOTS = larger_later(NAMES, COMPILE_FOR_LONG, pytest.mark.slow)


@functools.cache
def motion_of(name: str) -> Motion:
    return random_motion(model_of(name), 40, seed=3)


def independent(model: Model, motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    rows = list(model.independent)
    return motion.qd[:, rows], motion.qdd[:, rows]


@pytest.mark.parametrize("name", ROBOTS)
def test_loops_are_closed_along_a_motion(name: str) -> None:
    assert motion_of(name).closure_residual.max() < 1e-10


@pytest.mark.parametrize("name", ROBOTS)
def test_closure_map_equals_finite_differences(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    chain = model.kinematics
    for by, part in model.loops.partitions.items():
        E = chain.closure_map(motion.q, by)
        step = 1e-6
        for k, i in enumerate(part.independent):
            ends = []
            for sign in (1, -1):
                q = motion.q.copy()
                q[:, i] += sign * step
                ends.append(chain.close_nearby(q, by)[0])
            numeric = (ends[0] - ends[1]) / (2 * step)
            scale = np.abs(E[:, :, k]).max(axis=1, keepdims=True)
            np.testing.assert_allclose(E[:, :, k] / scale, numeric / scale, atol=2e-7)


@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_equal_finite_differences_of_velocities(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    chain, by = model.kinematics, model.loops.dynamic
    rows = list(model.independent)
    v, a = independent(model, motion)
    step = 1e-5
    ends = []
    for sign in (1, -1):
        q = motion.q + sign * step * motion.qd + 0.5 * step**2 * motion.qdd
        q[:, rows] = motion.q[:, rows] + sign * step * v + 0.5 * step**2 * a
        q = chain.close_nearby(q, by)[0]
        ends.append(chain.rates(q, v + sign * step * a, a, by)[0])
    numeric = (ends[0] - ends[1]) / (2 * step)
    scale = (
        np.abs(motion.qdd).max(axis=1, keepdims=True)
        + np.abs(motion.qd).max(axis=1, keepdims=True) ** 2
    )
    np.testing.assert_allclose(motion.qdd / scale, numeric / scale, atol=1e-6)


@pytest.mark.parametrize("name", ROBOTS)
def test_each_regressor_column_is_the_effort_of_a_unit_parameter(name: str) -> None:
    model, motion = model_of(name), motion_of(name).take(slice(0, 5))
    names = model.mechanism.standard.names
    W = model.regressor(motion, names)
    rows = (
        [model.independent.index(i) for i in model.actuated] if not model.loops.redundant else None
    )
    for k in range(0, len(names), 1 + len(names) // 40):
        unit = np.zeros(len(names))
        unit[k] = 1.0
        effort = model.inverse_dynamics(motion, unit)
        expected = (
            W[:, rows, k] if rows is not None else model.min_norm_motor_effort(motion.q, W[:, :, k])
        )
        np.testing.assert_allclose(
            effort, expected, atol=1e-9 * max(1.0, np.abs(W[:, :, k]).max()), err_msg=names[k]
        )


@pytest.mark.parametrize("name", ROBOTS)
def test_a_payload_column_is_what_the_payload_adds(name: str) -> None:
    model, motion = model_of(name), motion_of(name).take(slice(0, 5))
    for payload in model.mechanism.payloads:
        names = model.mechanism.payload_parameters(payload.name).names
        values = model.mechanism.payload_parameters(payload.name).values
        added = model.inverse_dynamics(
            motion, load=model.load(payload.name)
        ) - model.inverse_dynamics(motion)
        expected = model.min_norm_motor_effort(motion.q, model.regressor(motion, names) @ values)
        np.testing.assert_allclose(added, expected, atol=1e-9 * max(1.0, np.abs(expected).max()))


def _kinetic_and_potential(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Energy from body poses and the mass matrix: poses only for gravity, so power balance checks
    the bias.
    """
    mass = model.mass_matrix(q)
    kinetic = 0.5 * np.einsum("tm,tmk,tk->t", v, mass, v)
    rotation, origin = model.kinematics.body_poses(q)
    potential = np.zeros(len(q))
    for b, body in enumerate(model.mechanism.bodies):
        m = body.values.get("m", 0.0)
        s = np.array([body.values.get(k, 0.0) for k in ("mx", "my", "mz")])
        potential -= (m * origin[:, b] + rotation[:, b] @ s) @ np.array(model.mechanism.gravity)
    return kinetic + potential


@pytest.mark.parametrize("name", ROBOTS)
def test_without_friction_motor_power_is_the_rate_of_energy(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    chain, by, rows = model.kinematics, model.loops.dynamic, list(model.independent)
    keep = {
        n: 0.0
        for n in model.mechanism.standard.names
        if n.rpartition(".")[2] in ("fv", "fs", "off", "k")
    }
    values = model.standard_values(keep)
    effort = model.inverse_dynamics(motion, values)
    power = (effort * motion.qd[:, list(model.actuated)]).sum(axis=1)
    v, a = independent(model, motion)
    step, energies = 1e-5, []
    for sign in (1, -1):
        q = np.array(motion.q)
        q[:, rows] += sign * step * v + 0.5 * step**2 * a
        q = chain.close_nearby(q, by)[0]
        energies.append(_kinetic_and_potential(model, q, v + sign * step * a))
    rate = (energies[0] - energies[1]) / (2 * step)
    np.testing.assert_allclose(power, rate, atol=2e-5 * (np.abs(rate).max() + np.abs(effort).max()))


@pytest.mark.parametrize("name", ROBOTS)
def test_base_and_standard_parameters_predict_the_same_efforts(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    base = base_parameters(model)
    standard = model.values(base.standard)
    full = model.regressor(motion, base.standard) @ standard
    reduced = model.regressor(motion, base) @ base.values(standard)
    np.testing.assert_allclose(reduced, full, atol=1e-8 * max(1.0, np.abs(full).max()))
    assert base.gap > 1e4
    assert (base.singular_values > base.singular_values[0] * 1e-10).sum() == len(base)


@pytest.mark.parametrize("name", ROBOTS)
def test_mass_matrix_is_symmetric_and_positive(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    mass = model.mass_matrix(motion.q)
    np.testing.assert_allclose(mass, mass.transpose(0, 2, 1), atol=1e-9 * np.abs(mass).max())
    assert np.linalg.eigvalsh(mass).min() > 0


@pytest.mark.parametrize("name", ROBOTS)
def test_forward_dynamics_inverts_inverse_dynamics(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    v, a = independent(model, motion)
    effort = model.inverse_dynamics(motion)
    np.testing.assert_allclose(
        model.forward_dynamics(motion.q, v, effort), a, atol=1e-8 * np.abs(a).max()
    )


def _turned(mechanism: Mechanism, angle: float) -> Mechanism:
    """Turn robot and gravity together about a skew axis; task coordinates stay in the turned
    frame.
    """
    turn = Placement((("Rz", 0.3), ("Rx", angle), ("Ry", 0.5)))
    joints: list[Joint] = [
        replace(j, placement=turn.then(j.placement)) if j.parent == "base" else j
        for j in mechanism.joints
    ]
    closures = []
    for closure in mechanism.closures:
        changes = {}
        for side in ("a", "b"):
            frame = getattr(closure, side)
            if frame is not None and frame.body == "base":
                changes[side] = replace(frame, placement=turn.then(frame.placement))
        closures.append(replace(closure, **changes))
    gravity = turn.rotation @ np.array(mechanism.gravity)
    return replace(
        mechanism, joints=tuple(joints), closures=tuple(closures), gravity=tuple(gravity)
    )


@pytest.mark.parametrize("name", ROBOTS)
def test_turning_robot_and_gravity_together_changes_nothing(name: str) -> None:
    model, motion = model_of(name), motion_of(name).take(slice(0, 10))
    turned = Model(_turned(model.mechanism, 0.7))
    expected = model.inverse_dynamics(motion)
    np.testing.assert_allclose(
        turned.inverse_dynamics(motion), expected, atol=1e-8 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ROBOTS)
def test_task_and_actuator_routes_agree(name: str) -> None:
    model, motion = model_of(name), motion_of(name)
    if "task" not in model.loops.partitions:
        pytest.skip("has no task coordinates")
    chain = model.kinematics
    part = model.loops.partitions
    for by in ("task", "actuated"):
        rows = list(part[by].independent)
        qd, qdd = chain.rates(motion.q, motion.qd[:, rows], motion.qdd[:, rows], by)
        np.testing.assert_allclose(qd, motion.qd, atol=1e-8 * np.abs(motion.qd).max())
        np.testing.assert_allclose(qdd, motion.qdd, atol=1e-7 * np.abs(motion.qdd).max())
    start = motion.q[:1]
    for by in ("task", "actuated"):
        rows = list(part[by].independent)
        np.testing.assert_allclose(
            chain.close_loops(start[:, rows], by, start=start[0]), start, atol=1e-9
        )


@pytest.mark.parametrize("name", ROBOTS)
def test_a_wrench_on_the_platform_does_the_work_the_motors_save(name: str) -> None:
    model, motion = model_of(name), motion_of(name).take(slice(0, 8))
    wrench = np.array([10.0, -20.0, 30.0, 1.0, 2.0, -3.0])
    saved = model.inverse_dynamics(motion) - model.inverse_dynamics(motion, wrench=wrench)
    power = (saved * motion.qd[:, list(model.actuated)]).sum(axis=1)
    step = 1e-6
    body = [b.name for b in model.mechanism.bodies].index(model.load_body)
    ends = [model.kinematics.body_poses(motion.q + sign * step * motion.qd) for sign in (1, -1)]
    velocity = (ends[0][1][:, body] - ends[1][1][:, body]) / (2 * step)
    spin = (ends[0][0][:, body] - ends[1][0][:, body]) / (2 * step)
    spin = spin @ model.kinematics.body_poses(motion.q)[0][:, body].transpose(0, 2, 1)
    rate = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
    expected = velocity @ wrench[:3] + rate @ wrench[3:]
    np.testing.assert_allclose(power, expected, atol=1e-5 * np.abs(expected).max())
