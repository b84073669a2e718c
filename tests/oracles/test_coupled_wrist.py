"""The bundled TX40, its numbers written again here, by Pinocchio: a coupled wrist.

The published friction and inertia of motor 6 act on joints 5 and 6 at once. Nothing but Pinocchio
and NumPy computes the efforts of the log.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import gough
from gough.logs.recording import Recording
from tests_support import model_of

pin = pytest.importorskip("pinocchio")
Array = NDArray[np.float64]

MOTORS = ("joint_1", "joint_2", "joint_3", "joint_4", "motor_5", "motor_6")
# Modified Denavit-Hartenberg parameters: alpha [deg], d [m], theta at zero [deg], r [m]
LINKS = (
    (0, 0, 0, 0.32),
    (-90, 0, -90, 0),
    (0, 0.225, 90, 0.035),
    (90, 0, 0, 0.225),
    (-90, 0, 0, 0),
    (90, 0, 180, 0),
)
MASS = (10.5, 3.6, 4.07, 3.62, 1.02, 0.2)
CENTRE = (
    (0, 0.020, -0.043),
    (0.109, -0.002, 0.134),
    (0.008, 0.006, 0.041),
    (-0.004, 0.002, -0.107),
    (-0.004, -0.003, -0.001),
    (0, 0, 0.042),
)
# Inertia about the centre of mass: xx, yy, zz, xz, yz [kg m2]
INERTIA = (
    (0.055, 0.047, 0.035, 0, 0.003),
    (0.038, 0.009, 0.04, 0, -0.002),
    (0.012, 0.012, 0.004, -0.001, -0.001),
    (0.014, 0.013, 0.004, -0.001, 0),
    (0.001, 0.001, 0.001, 0, 0),
    (0.0002, 0.0002, 0.0001, 0, 0),
)
# Rotor inertia, viscous and Coulomb friction, offset: of joints 1 to 4, motor 5, motor 6, joint 6
FRICTION = {
    "joint_1": (0.362, 8.05, 7.14, 0.392),
    "joint_2": (0.362, 5.53, 8.26, 1.37),
    "joint_3": (0.0988, 1.97, 6.34, 0.326),
    "joint_4": (0.0313, 1.11, 2.48, -0.102),
    "motor_5": (0.03716, 1.244, 3.03, -0.0288),
    "motor_6": (0.00964, 0.616, 1.95, 0.0),
    "joint_6": (0.00086, 0.034, 0.282, 0.127),
}
TERMS = ("ia", "fv", "fs", "off")
START = np.radians([0.0, 0.0, -90.0, 0.0, 40.0, -40.0])  # of the joints
TO_MOTORS = np.eye(6)
TO_MOTORS[5, 4] = 1.0  # motor 6 turns by joint 5 and joint 6
RATE, PERIOD = 250.0, 4.0


def arm() -> pin.Model:
    """Return the arm as a Pinocchio model."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -9.80665])
    parent = 0
    for k, (alpha, d, theta, r) in enumerate(LINKS):
        placement = pin.SE3(pin.utils.rotate("x", np.radians(alpha)), np.zeros(3))
        placement *= pin.SE3(np.eye(3), np.array([d, 0.0, 0.0]))
        placement *= pin.SE3(pin.utils.rotate("z", np.radians(theta)), np.zeros(3))
        placement *= pin.SE3(np.eye(3), np.array([0.0, 0.0, r]))
        parent = model.addJoint(parent, pin.JointModelRZ(), placement, f"joint_{k + 1}")
        xx, yy, zz, xz, yz = INERTIA[k]
        tensor = np.array([[xx, 0.0, xz], [0.0, yy, yz], [xz, yz, zz]])
        inertia = pin.Inertia(MASS[k], np.array(CENTRE[k], dtype=float), tensor)
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
    return model


def joint_motion(seed: int) -> tuple[Array, Array, Array, Array]:
    """Return time, and position, velocity and acceleration of the joints, (t, 6)."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(RATE * PERIOD)) / RATE
    motion = np.zeros((3, len(time), 6))
    for k in range(1, 6):
        w = 2 * np.pi * k / PERIOD
        angle = w * time[:, None] + rng.uniform(0, 2 * np.pi, 6)
        size = rng.uniform(0.2, 0.6, 6) / k
        motion += size * np.array([np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)])
    motion[0] += START
    return time, motion[0], motion[1], motion[2]


def friction_columns(velocity: Array, acceleration: Array) -> dict[str, Array]:
    """Return what multiplies the friction of each motor and of joint 6, (t, 4) each."""
    motor_velocity = velocity @ TO_MOTORS.T
    motor_acceleration = acceleration @ TO_MOTORS.T
    columns = {}
    for k, name in enumerate(MOTORS):
        columns[name] = _terms(motor_velocity[:, k], motor_acceleration[:, k])
    columns["joint_6"] = _terms(velocity[:, 5], acceleration[:, 5])
    return columns


def _terms(velocity: Array, acceleration: Array) -> Array:
    return np.column_stack([acceleration, velocity, np.sign(velocity), np.ones_like(velocity)])


def motor_regressor(
    position: Array, velocity: Array, acceleration: Array
) -> tuple[Array, list[str]]:
    """Return Pinocchio's regressor of the motors' torques with friction, and names of its columns.

    The file has no offset of motor 6: it would not be distinguishable from that of joint 6.
    """
    model = arm()
    data = model.createData()
    from_joints = np.linalg.inv(TO_MOTORS).T
    bodies = []
    for state in zip(position, velocity, acceleration):
        bodies.append(from_joints @ pin.computeJointTorqueRegressor(model, data, *state))
    blocks = [np.array(bodies)]
    names = ["inertial"] * 60
    for name, columns in friction_columns(velocity, acceleration).items():
        lever = np.zeros(6)
        if name == "joint_6":
            lever = from_joints[:, 5]
        else:
            lever[MOTORS.index(name)] = 1.0
        terms = TERMS[:3] if name == "motor_6" else TERMS
        blocks.append(lever[None, :, None] * columns[:, None, : len(terms)])
        names += [f"{name}.{term}" for term in terms]
    return np.concatenate(blocks, axis=2), names


def motor_torques(position: Array, velocity: Array, acceleration: Array) -> Array:
    """Return the motors' torques by Pinocchio's inverse dynamics and the friction, (t, 6)."""
    model = arm()
    data = model.createData()
    states = zip(position, velocity, acceleration)
    joint = np.array([pin.rnea(model, data, *state) for state in states])
    drag = friction_columns(velocity, acceleration)
    joint[:, 5] += drag["joint_6"] @ FRICTION["joint_6"]
    motor = joint @ np.linalg.inv(TO_MOTORS)
    for k, name in enumerate(MOTORS):
        motor[:, k] += drag[name] @ FRICTION[name]
    return motor


def log(seed: int, noise: float) -> Recording:
    """Return a log of four periods of motor positions and torques."""
    _, *motion = joint_motion(seed)
    rng = np.random.default_rng(seed)
    position = np.tile(motion[0] @ TO_MOTORS.T, (4, 1))
    torque = np.tile(motor_torques(*motion), (4, 1))
    return Recording.from_arrays(
        list(MOTORS),
        position=position,
        effort=torque + noise * rng.standard_normal(torque.shape),
        rate=RATE,
        units={"position": "rad", "effort": "N m"},
        period_samples=int(RATE * PERIOD),
    )


def test_torques_of_the_coupled_wrist_are_those_of_pinocchio() -> None:
    model = model_of("tx40")
    time, *motion = joint_motion(1)
    lead = [signal @ TO_MOTORS.T for signal in motion]
    ours = model.inverse_dynamics(model.kinematics.motion(time, *lead, "actuated"))
    theirs = motor_torques(*motion)
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def test_the_model_of_the_log_is_that_of_least_squares_on_pinocchios_regressor() -> None:
    result = gough.identify(
        model_of("tx40"), [log(1, 0.1)], held_out=[log(2, 0.0)], estimator="wls", cutoff=5.0
    )
    regressor, names = motor_regressor(*joint_motion(1)[1:])
    torque = log(1, 0.1).effort.reshape(4, -1, 6).mean(axis=0)
    plain, *_ = np.linalg.lstsq(
        regressor.reshape(-1, regressor.shape[2]), torque.ravel(), rcond=1e-10
    )
    compared = 0
    for name, value in zip(names, plain):
        if name.endswith(".ia") or name not in result.estimate.parameters:
            continue  # inertial parameters are regrouped
        std = result.estimate.std[result.estimate.parameters.index(name)]
        assert abs(result.estimate[name] - value) < 4 * std, name
        compared += 1
    assert compared >= 18
    expected = motor_torques(*joint_motion(2)[1:])
    assert (result.validation.rms < 0.02 * np.sqrt((expected**2).mean(axis=0))).all()
