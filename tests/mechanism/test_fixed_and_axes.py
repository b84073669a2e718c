"""Fixed joints, axes of any direction and offsets, compared with Pinocchio and a URDF."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from robot_texts import ARM, HEAD, read
from tree_kinematics import poses

from gough.core.errors import InvalidMechanism
from gough.engine import Model, random_motion
from gough.export.urdf_writer import to_urdf
from gough.virtual.closed_loop import PLANTS
from gough.virtual.plant import PlantSettings

ELBOW = """
[[body]]
name = "link"
m = 2
com = [0.1, 0.02, 0]
about = "com"
Ixx = 0.01
Iyy = 0.03
Izz = 0.025
Ixy = 0.002

[[body]]
name = "bracket"    # on the link
m = 0.5
com = [0, 0.1, 0.03]
about = "com"
Ixx = 0.004
Iyy = 0.002
Izz = 0.003

[[body]]
name = "forearm"
m = 1.2
com = [0.2, 0, 0.05]
about = "com"
Ixx = 0.002
Iyy = 0.02
Izz = 0.02

[[body]]
name = "slide"
m = 0.7
com = [0, 0.01, 0.04]
about = "com"
Ixx = 0.001
Iyy = 0.001
Izz = 0.0015

[[body]]
name = "tool"
m = 0.3
com = [0, 0, 0.1]
about = "com"

[[joint]]
name = "hinge"
type = "revolute"
parent = "base"
child = "link"
axis = "-y"
offset = 30
actuated = true

[[joint]]
name = "plate"
type = "fixed"
parent = "link"
child = "bracket"
xyz = [0.3, 0, 0.1]
rpy = [10, -20, 40]

[[joint]]
name = "elbow"
type = "revolute"
parent = "bracket"
child = "forearm"
xyz = [0.05, 0, 0]
axis = [0, 0.6, 0.8]
offset = -20
actuated = true

[[joint]]
name = "gripper"
type = "fixed"
parent = "slide"
child = "tool"
xyz = [0, 0.05, 0.02]
rpy = [0, 90, 0]

[[joint]]
name = "reach"
type = "prismatic"
parent = "forearm"
child = "slide"
xyz = [0.4, 0, 0]
rpy = [0, 0, 15]
axis = [2, -1, 2]
offset = 0.1
actuated = true

[[payload]]
name = "weight"
body = "tool"
m = 1.5
com = [0, 0, 0.2]
about = "com"
Ixx = 0.003
Iyy = 0.004
Izz = 0.005
known = ["m"]
"""
JOINTS = {
    "hinge": ("revolute", "base", "link", [0, 0, 0], [0, 0, 0], [0, -1, 0]),
    "plate": ("fixed", "link", "bracket", [0.3, 0, 0.1], [10, -20, 40], [1, 0, 0]),
    "elbow": ("revolute", "bracket", "forearm", [0.05, 0, 0], [0, 0, 0], [0, 0.6, 0.8]),
    "reach": ("prismatic", "forearm", "slide", [0.4, 0, 0], [0, 0, 15], np.array([2, -1, 2]) / 3),
    "gripper": ("fixed", "slide", "tool", [0, 0.05, 0.02], [0, 90, 0], [1, 0, 0]),
}
LINKS = {
    "link": (2, [0.1, 0.02, 0], [0.01, 0.03, 0.025, 0.002]),
    "bracket": (0.5, [0, 0.1, 0.03], [4e-3, 2e-3, 3e-3, 0]),
    "forearm": (1.2, [0.2, 0, 0.05], [0.002, 0.02, 0.02, 0]),
    "tool": (0.3, [0, 0, 0.1], [0, 0, 0, 0]),
    "slide": (0.7, [0, 0.01, 0.04], [0.001, 0.001, 0.0015, 0]),
}
OFFSET = np.array([np.radians(30), np.radians(-20), 0.1])


def written_by_hand(loaded: bool) -> str:
    def words(values: object) -> str:
        return " ".join(repr(float(v)) for v in np.ravel(values))

    parts = ['<link name="base"/>']
    links = LINKS | ({"weight": (1.5, [0, 0, 0.2], [0.003, 0.004, 0.005, 0])} if loaded else {})
    joints = JOINTS | (
        {"grip": ("fixed", "tool", "weight", [0, 0, 0], [0, 0, 0], [1, 0, 0])} if loaded else {}
    )
    for name, (mass, centre, inertia) in links.items():
        tensor = dict(zip(("ixx", "iyy", "izz", "ixy"), inertia)) | {"ixz": 0.0, "iyz": 0.0}
        text = " ".join(f'{key}="{value}"' for key, value in tensor.items())
        parts.append(
            f'<link name="{name}"><inertial><origin xyz="{words(centre)}"/><mass value="{mass}"/>'
            f"<inertia {text}/></inertial></link>"
        )
    for name, (kind, parent, child, xyz, rpy, axis) in joints.items():
        parts.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{words(xyz)}" rpy="{words(np.radians(rpy))}"/><axis '
            f'xyz="{words(axis)}"/>'
            '<limit lower="-9" upper="9" effort="9" velocity="9"/></joint>'
        )
    return '<robot name="arm">' + "".join(parts) + "</robot>"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(read(HEAD + ELBOW))


@pytest.mark.parametrize("loaded", [False, True])
def test_efforts_are_those_of_pinocchio_for_the_same_arm_as_urdf(
    model: Model, loaded: bool
) -> None:
    pin = pytest.importorskip("pinocchio")
    arm = pin.buildModelFromXML(written_by_hand(loaded))
    arm.gravity.linear = np.array(model.mechanism.gravity)
    motion = random_motion(model, 20, seed=3)
    own = model.inverse_dynamics(motion, load=model.load("weight" if loaded else None))
    data = arm.createData()
    other = [
        pin.rnea(arm, data, q + OFFSET, qd, qdd)
        for q, qd, qdd in zip(motion.q, motion.qd, motion.qdd)
    ]
    np.testing.assert_allclose(own, other, atol=1e-11)


@pytest.mark.parametrize("plant", ["pinocchio", "mujoco"])
def test_every_plant_moves_along_the_given_axes(model: Model, plant: str) -> None:
    pytest.importorskip(plant)
    motion = random_motion(model, 3, seed=1)
    tau = np.random.default_rng(0).uniform(-5, 5, (3, 3))
    settings = PlantSettings(
        model=model,
        values=np.tile(model.standard_values(), (3, 1)),
        load=np.zeros((3, 10)),
        dead_band=np.full(3, 1e-3),
        period=1e-3,
        substeps=2,
    )
    module, factory = PLANTS[plant]
    robot = getattr(import_module(module), factory)(settings)
    sample, _ = robot.step(robot.start(motion.q, motion.qd), np.broadcast_to(tau, (5, 3, 3)))
    expected = model.forward_dynamics(motion.q, motion.qd, tau)
    np.testing.assert_allclose(sample.acceleration, expected, rtol=1e-9, atol=1e-9)


def test_what_is_fixed_has_no_parameters_of_its_own(model: Model) -> None:
    owners = {name.owner for name in model.mechanism.standard.names}
    assert owners == {"link", "forearm", "slide"}
    assert model.mechanism.body("link").values["m"] == pytest.approx(2.5)
    assert model.mechanism.payload("weight").body == "slide"


def test_the_urdf_of_such_an_arm_is_read_back_with_the_same_efforts(model: Model) -> None:
    pin = pytest.importorskip("pinocchio")
    bodies = {
        body.name: [body.values.get(p, 0.0) for p in body.parameters]
        for body in model.mechanism.bodies
    }
    arm = pin.buildModelFromXML(to_urdf(model, bodies)[0])
    arm.gravity.linear = np.array(model.mechanism.gravity)
    motion = random_motion(model, 5, seed=4)
    data = arm.createData()
    back = [pin.rnea(arm, data, q, qd, qdd) for q, qd, qdd in zip(motion.q, motion.qd, motion.qdd)]
    np.testing.assert_allclose(model.inverse_dynamics(motion), back, atol=1e-11)


def test_a_minus_turns_the_other_way_and_an_offset_moves_the_zero() -> None:
    plain, turned = read(ARM + 'axis = "y"'), read(ARM + 'axis = "-y"\noffset = 30')
    angle = 0.4
    there = poses(plain, np.array([-(angle + np.radians(30))]))["link"]
    at = Model(turned).kinematics.body_poses(np.array([[angle]]))
    np.testing.assert_allclose(at[0][0, 0], there[:3, :3], atol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('axis = "w"', "axis.*is not one of"),
        ("axis = [0, 0, 0]", "no direction"),
        ("axis = [0, 1]", "3 numbers"),
        ('offset = "3 mm"', "offset"),
    ],
)
def test_a_wrong_axis_or_offset_names_its_key(change: str, message: str) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        read(ARM + change)


FIXED = '[[joint]]\nname = "{0}"\ntype = "fixed"\nparent = "{1}"\nchild = "{2}"\n'


@pytest.mark.parametrize(
    ("joints", "message"),
    [
        (FIXED.format("weld", "link", "link"), "two parents|ring"),
        (
            '[[body]]\nname = "a"\n[[body]]\nname = "b"\n'
            + FIXED.format("f", "a", "b")
            + FIXED.format("g", "b", "a"),
            "form a ring",
        ),
        (
            '[[body]]\nname = "a"\n'
            + FIXED.format("f", "link", "a")
            + FIXED.format("g", "base", "a"),
            "two parents",
        ),
        (
            '[[body]]\nname = "a"\n' + FIXED.format("f", "link", "a") + "start = 3\n",
            "'start'.*unknown key",
        ),
        (
            '[[body]]\nname = "a"\n'
            + FIXED.format("f", "base", "a")
            + '[[payload]]\nname = "p"\nbody = "a"\nm = 1\n',
            r"\[\[payload\]\] 'p'.*moving body",
        ),
    ],
)
def test_wrong_fixed_joints_are_refused_with_their_table(joints: str, message: str) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        read(ARM + joints)
