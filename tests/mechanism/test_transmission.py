"""Transmissions: motors that drive joints together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robot_texts import HEAD, read

from gough.core.errors import InvalidMechanism, InvalidRecording
from gough.core.motion import Motion
from gough.engine import Model
from gough.logs.recording import Recording
from gough.processing import in_robot_order
from gough.virtual.plant import PlantSettings

WRIST = """
[[body]]
name = "link"
m = 2
com = [0.1, 0.02, 0.1]
about = "com"
Ixx = 0.01
Iyy = 0.03
Izz = 0.025

[[body]]
name = "slide"
m = 0.7
com = [0.1, 0.01, 0.04]
about = "com"
Ixx = 0.001
Iyy = 0.001
Izz = 0.0015

[[joint]]
name = "turn"
type = "revolute"
parent = "base"
child = "link"
rpy = [90, 0, 0]
terms = ["fv"]
values = { fv = 0.3 }
start = 20

[[joint]]
name = "reach"
type = "prismatic"
parent = "link"
child = "slide"
axis = "x"

[[transmission]]
name = "belt"
joints = ["turn", "reach"]
matrix = [[0.02, 0.01], [0.001, -0.003]]    # rad and m for each rad of the motors

[[transmission.motor]]
name = "first"
terms = ["ia", "fv", "fs"]
values = { ia = 2e-4, fv = 1e-3, fs = 0.02 }
limits = { effort = 3 }

[[transmission.motor]]
name = "second"
gain = 0.1
terms = ["ia"]
values = { ia = 3e-4 }
"""
B = np.array([[0.02, 0.01], [0.001, -0.003]])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(read(HEAD + WRIST))


def test_motor_efforts_are_those_of_the_joints_through_the_matrix_plus_the_rotors_own(
    model: Model,
) -> None:
    pin = pytest.importorskip("pinocchio")
    arm = pin.Model()
    arm.gravity.linear = np.array(model.mechanism.gravity)
    place = pin.SE3(pin.rpy.rpyToMatrix(np.pi / 2, 0, 0), np.zeros(3))
    first = arm.addJoint(0, pin.JointModelRZ(), place, "turn")
    arm.appendBodyToJoint(
        first,
        pin.Inertia(2, np.array([0.1, 0.02, 0.1]), np.diag([0.01, 0.03, 0.025])),
        pin.SE3.Identity(),
    )
    second = arm.addJoint(first, pin.JointModelPX(), pin.SE3.Identity(), "reach")
    arm.appendBodyToJoint(
        second,
        pin.Inertia(0.7, np.array([0.1, 0.01, 0.04]), np.diag([0.001, 0.001, 0.0015])),
        pin.SE3.Identity(),
    )
    draw = np.random.default_rng(0)
    motors = draw.uniform(-20, 20, (3, 30, 2))
    q, qd, qdd = motors @ B.T
    assert model.mechanism.coordinates == ("turn", "reach", "first", "second")
    motion = Motion(
        coordinates=model.mechanism.coordinates,
        time=np.arange(30.0),
        closure_residual=np.zeros(30),
        **dict(zip(("q", "qd", "qdd"), np.concatenate([(q, qd, qdd), motors], axis=2))),
    )
    data = arm.createData()
    joints = np.array([pin.rnea(arm, data, *state) for state in zip(q, qd, qdd)])
    joints[:, 0] += 0.3 * qd[:, 0]
    expected = joints @ B + motors[2] * [2e-4, 3e-4]
    expected[:, 0] += 1e-3 * motors[1, :, 0] + 0.02 * np.sign(motors[1, :, 0])
    np.testing.assert_allclose(model.inverse_dynamics(motion), expected, atol=1e-12)


def test_the_motors_start_where_the_joints_do(model: Model) -> None:
    np.testing.assert_allclose(
        model.home, [np.radians(20), 0, *np.linalg.solve(B, [np.radians(20), 0])], atol=1e-12
    )
    assert model.mechanism.joint("second").gain == 0.1
    assert model.mechanism.flange == "slide"


def log(
    joints: tuple[str, ...], position: np.ndarray, effort: np.ndarray, units: tuple[str, ...]
) -> Recording:
    return Recording(
        joints=joints,
        time=np.arange(len(position)) * 1e-3,
        position=position,
        effort=effort,
        velocity=2 * position,
        position_units=units,
    )


@pytest.mark.parametrize("positions", ["joints", "motors"])
@pytest.mark.parametrize("efforts", ["joints", "motors"])
def test_logs_called_after_the_joints_hold_either_side(positions: str, efforts: str) -> None:
    keys = f'positions = "{positions}"\nefforts = "{efforts}"\n'
    model = Model(read(HEAD + WRIST.replace('name = "belt"\n', f'name = "belt"\n{keys}')))
    draw = np.random.default_rng(1)
    at_motors, torque = draw.uniform(-9, 9, (50, 2)), draw.uniform(-9, 9, (50, 2))
    q = at_motors @ B.T if positions == "joints" else at_motors
    tau = torque @ np.linalg.inv(B) if efforts == "joints" else torque
    units = ("rad", "m") if positions == "joints" else ("rad", "rad")
    found = in_robot_order(log(("turn", "reach"), q, tau, units), model)
    again = in_robot_order(found, model)
    for each in (found, again):
        assert each.joints == ("first", "second")
        np.testing.assert_allclose(each.position, at_motors, atol=1e-12)
        np.testing.assert_allclose(each.velocity, 2 * at_motors, atol=1e-12)
        np.testing.assert_allclose(each.effort, torque, atol=1e-9)


def test_a_joint_recorded_in_the_wrong_unit_is_refused(model: Model) -> None:
    zero = np.zeros((5, 2))
    with pytest.raises(InvalidRecording, match="unit of length, expected angle"):
        in_robot_order(log(("turn", "reach"), zero, zero, ("m", "m")), model)


def test_logs_called_after_the_motors_stay_as_they_are(model: Model) -> None:
    own = log(("first", "second"), np.ones((5, 2)), np.ones((5, 2)), ("rad", "rad"))
    assert in_robot_order(own, model) is own
    swapped = in_robot_order(
        replace(own, joints=("second", "first"), effort=np.tile([1.0, 2.0], (5, 1))), model
    )
    assert swapped.effort is not None
    assert swapped.effort[0].tolist() == [2.0, 1.0]


LEG = """
[[leg]]
name = "leg"
instances = [{ name = "left" }, { name = "right", base = { xyz = [1, 0, 0] } }]
[[leg.body]]
name = "link"
m = 1
[[leg.joint]]
name = "hinge"
type = "revolute"
parent = "base"
child = "link"
[[leg.transmission]]
name = "gear"
joints = ["hinge"]
matrix = [[0.01]]
[[leg.transmission.motor]]
name = "motor"
terms = ["ia"]
"""


def test_a_leg_may_have_a_transmission() -> None:
    robot = read(HEAD + LEG + '[tie]\nparameters = ["motor.ia"]\n')
    assert robot.actuated == ("left.motor", "right.motor")
    assert [closure.name for closure in robot.closures] == ["left.gear.hinge", "right.gear.hinge"]
    assert robot.transmissions[1].joints == ("right.hinge",)
    assert robot.ties["leg.motor.ia"] == ("left.motor.ia", "right.motor.ia")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[0.001, -0.003]]",
            "[0.04, 0.02]]",
            r"\[\[transmission\]\] 'belt', key 'matrix': the matrix is not invertible",
        ),
        ("[0.001, -0.003]]", "[0.001]]", r"key 'matrix\[1\]': expected a list of 2 numbers"),
        (", [0.001, -0.003]]", "]", "key 'matrix': expected 2 rows of 2 numbers"),
        (
            '["turn", "reach"]',
            '["turn", "raech"]',
            r"key 'joints\[1\]'.*'raech' does not exist; did you mean 'reach'",
        ),
        ('["turn", "reach"]', '["turn"]', "1 joints need as many"),
        ('axis = "x"', "actuated = true", r"'joints\[1\]': joint 'reach' is a motor itself"),
        (
            "gain = 0.1",
            "gian = 0.1",
            r"\[\[transmission.motor\]\] 'second' of transmission 'belt', key 'gian': unkn",
        ),
        ('name = "second"', 'name = "turn"', "joint 'turn' is defined twice"),
        ("effort = 3", "position = [0, 1]", "outside the position limits"),
        (
            'name = "belt"',
            'name = "belt"\nefforts = "gears"',
            "key 'efforts': 'gears' is not one of joints, motors",
        ),
    ],
)
def test_a_wrong_transmission_names_table_and_key(old: str, new: str, message: str) -> None:
    assert WRIST.count(old) == 1
    with pytest.raises(InvalidMechanism, match=message):
        read(HEAD + WRIST.replace(old, new))


def test_mujoco_simulates_rotors_by_the_inertia_of_their_joints(model: Model) -> None:
    pytest.importorskip("mujoco")
    from gough.virtual.mujoco_plant import mujoco_plant

    q = model.home[None]
    zero, tau = np.zeros((1, 4)), np.array([[0.3, -0.2]])
    plant = mujoco_plant(
        PlantSettings(
            model=model,
            values=model.standard_values()[None],
            load=np.zeros((1, 10)),
            dead_band=np.full(4, 1e-3),
            period=1e-3,
            substeps=2,
        )
    )
    sample, _ = plant.step(plant.start(q, zero), np.broadcast_to(tau, (5, 1, 2)))
    own = model.forward_dynamics(q, np.zeros((1, 2)), tau, dead_band=1e-3)
    np.testing.assert_allclose(sample.acceleration, own, rtol=2e-3)  # its couplings are soft
