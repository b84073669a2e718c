"""The bundled TX40: its coupled wrist against Pinocchio on FIGAROH's model, and on the real log."""

from __future__ import annotations

from dataclasses import replace

import machines
import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.motion import Motion
from gough.engine import Model, base_parameters
from gough.logs.recording import Recording
from gough.processing import in_robot_order
from tests_support import model_of

pytestmark = pytest.mark.skipif(
    not machines.available("staubli_tx40"), reason="the log is not there"
)
FRICTION = {  # published, joint side: fv, fs, ia, off
    "joint_1": (8.05, 7.14, 0.362, 0.392),
    "joint_2": (5.53, 8.26, 0.362, 1.37),
    "joint_3": (1.97, 6.34, 0.0988, 0.326),
    "joint_4": (1.11, 2.48, 0.0313, -0.102),
    "joint_5": (1.86, 3.03, 0.0468, -0.0288),
    "joint_6": (0.65, 0.282, 0.0105, 0.127),
}
ZERO = np.array([0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0])  # of the encoders
ROTOR = (0.616, 1.95, 0.00964)  # of motor 6: fv, fs, ia


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of("tx40")


def motor_log() -> Recording:
    """The run as the motors saw it, behind their gears."""
    joints = machines.tx40_log()
    q, effort = np.array(joints.position), np.array(joints.effort)
    q -= ZERO
    q[:, 5] += q[:, 4]
    effort[:, 4] -= effort[:, 5]
    return Recording(
        joints=("joint_1", "joint_2", "joint_3", "joint_4", "motor_5", "motor_6"),
        time=joints.time,
        position=q,
        position_units=("rad",) * 6,
        effort=effort,
        source="tx40",
    )


def test_the_log_of_the_joints_becomes_that_of_the_motors(model: Model) -> None:
    joints, motors = machines.tx40_log(), motor_log()
    found = in_robot_order(replace(joints, position=joints.position - ZERO), model)
    assert found.joints == motors.joints
    np.testing.assert_allclose(found.position, motors.position, atol=1e-12)
    np.testing.assert_allclose(found.effort, motors.effort, atol=1e-12)


def test_sixty_one_base_parameters_and_the_payload_on_the_last_link(model: Model) -> None:
    assert len(base_parameters(model)) == 61
    assert model.load_body == "link_6"


def test_efforts_of_the_motors_are_those_of_pinocchio_and_the_published_friction(
    model: Model,
) -> None:
    pin = pytest.importorskip("pinocchio")
    arm = pin.buildModelFromUrdf(str(machines.DATA / "staubli_tx40" / "tx40.urdf"))
    arm.gravity.linear = np.array(model.mechanism.gravity)
    draw = np.random.default_rng(2)
    t = 40
    q, qd, qdd = (draw.uniform(-1, 1, (t, 6)) for _ in range(3))  # of the joints
    turn = np.eye(8, 6)
    turn[6], turn[7] = [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]  # motor_5, motor_6
    motion = Motion(
        coordinates=model.mechanism.coordinates,
        time=np.arange(t) * 0.01,
        q=(q - ZERO) @ turn.T,
        qd=qd @ turn.T,
        qdd=qdd @ turn.T,
        closure_residual=np.zeros(t),
    )
    point = 0.2 * 0.042**2  # link 6 is a point mass in that model
    own = model.inverse_dynamics(
        motion, model.standard_values({"link_6.Ixx": point, "link_6.Iyy": point, "link_6.Izz": 0.0})
    )
    data = arm.createData()
    joint = np.array([pin.rnea(arm, data, *state) for state in zip(q, qd, qdd)])
    fv, fs, ia, off = np.array(list(FRICTION.values())).T
    fv5, fs5, ia5 = ROTOR
    joint += ia * qdd + fv * qd + fs * np.sign(qd) + off
    motor = qd[:, 4] + qd[:, 5]
    drive = fs5 * np.sign(motor)
    joint[:, 4] += ia5 * qdd[:, 5] + fv5 * qd[:, 5] + drive
    joint[:, 5] += ia5 * qdd[:, 4] + fv5 * qd[:, 4] + drive
    joint[:, 4] -= joint[:, 5]  # motor 5 moves joint 5 forth and joint 6 back
    np.testing.assert_allclose(own, joint, atol=1e-9)


@pytest.mark.long
def test_motor_six_has_the_published_friction_and_inertia(model: Model) -> None:
    estimate = identify(model, [motor_log()]).estimate
    for name, value in zip(("fv", "fs", "ia"), ROTOR):
        k = estimate.parameters.index(f"motor_6.{name}")
        low, high = estimate.interval()[k]
        assert low < value < high, (name, low, high)
        assert estimate.std[k] < 0.5 * value, name
