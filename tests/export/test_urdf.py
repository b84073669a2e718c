"""URDF: read back by Pinocchio, the tree must be Gough's; the sidecar must close its loops."""

from __future__ import annotations

import ast
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from exported import chain_with, closed_chain, joint_terms, possible_bodies

from gough.core.errors import InvalidInput
from gough.engine import Model, random_motion
from gough.export.contents import check_terms, standard_values
from gough.export.urdf_writer import to_urdf
from gough.mechanism import bundled_robots
from gough.mechanism.placement import roll_pitch_yaw
from tests_support import model_of

pin = pytest.importorskip("pinocchio")
ROBOTS = [name for name, _ in bundled_robots()]
CHAINS = ["point", "revolute", "weld", "distance", "parallel", "coupling"]


def sidecar(text: str) -> dict:
    """Read the YAML: one key a line, values in a flow style that Python reads as well."""
    pairs = [line.split(": ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {key: ast.literal_eval(value.replace("null", "None")) for key, value in pairs}


def joint_ids(robot: pin.Model, model: Model) -> list[int]:
    return [robot.getJointId(name.replace(".", "_")) for name in model.mechanism.coordinates]


@pytest.fixture(params=ROBOTS)
def read(request: pytest.FixtureRequest) -> tuple[Model, pin.Model, dict]:
    model = model_of(request.param)
    tree, closures = to_urdf(model, possible_bodies(model))
    return model, pin.buildModelFromXML(tree), sidecar(closures)


def test_pinocchio_reads_the_same_bodies(read: tuple[Model, pin.Model, dict]) -> None:
    model, robot, _ = read
    bodies = possible_bodies(model)
    assert robot.nq == robot.nv == len(model.mechanism.joints)
    for joint, number in zip(model.mechanism.joints, joint_ids(robot, model)):
        expected = bodies.get(joint.child, np.zeros(10))
        np.testing.assert_allclose(
            robot.inertias[number].toDynamicParameters(),
            expected,
            atol=1e-12 * max(1.0, np.abs(expected).max()),
        )


def test_pinocchio_places_every_body_where_gough_does(read: tuple[Model, pin.Model, dict]) -> None:
    model, robot, _ = read
    data, ids = robot.createData(), joint_ids(robot, model)
    order = [robot.joints[i].idx_q for i in ids]
    for q in np.random.default_rng(1).uniform(-1, 1, (5, len(order))):
        given = np.zeros(len(order))
        given[order] = q
        pin.forwardKinematics(robot, data, given)
        rotation, origin = model.kinematics.body_poses(q[None])
        bodies = [body.name for body in model.mechanism.bodies]
        for joint, number in zip(model.mechanism.joints, ids):
            k = bodies.index(joint.child)
            np.testing.assert_allclose(data.oMi[number].rotation, rotation[0, k], atol=1e-13)
            np.testing.assert_allclose(data.oMi[number].translation, origin[0, k], atol=1e-13)


def test_tree_efforts_projected_on_the_loops_are_goughs(
    read: tuple[Model, pin.Model, dict],
) -> None:
    """E^T (rnea + rotor inertia + offset) of what was read = inverse dynamics: masses, gravity and
    sidecar together.
    """
    model, robot, extra = read
    robot.gravity.linear = np.array(extra["gravity"])
    data = robot.createData()
    order = [robot.joints[i].idx_v for i in joint_ids(robot, model)]
    names = [name.replace(".", "_") for name in model.mechanism.coordinates]
    rotor, offset = (
        np.array([extra[key].get(name, 0.0) for name in names])
        for key in ("rotor_inertia", "effort_offset")
    )
    motion = random_motion(model, 5, seed=2, reach=0.4)
    terms = joint_terms(model, fv=0.0, fs=0.0)
    bodies = {name: np.asarray(v) for name, v in possible_bodies(model).items()}
    expected = model.project_to_rows(
        motion.q, model.inverse_dynamics(motion, standard_values(model, bodies, terms))
    )
    maps = model.kinematics.closure_map(motion.q)
    for t in range(5):
        x = np.zeros((3, len(order)))
        x[:, order] = motion.q[t], motion.qd[t], motion.qdd[t]
        tree = pin.rnea(robot, data, *x)[order] + rotor * motion.qdd[t] + offset
        np.testing.assert_allclose(
            maps[t].T @ tree, expected[t], atol=1e-9 * np.abs(expected).max()
        )


def gaps(robot: pin.Model, extra: dict, position: dict[str, float]) -> list[float]:
    """How far each loop of the sidecar is open at joint positions."""
    q = np.zeros(robot.nq)
    for name, value in position.items():
        q[robot.joints[robot.getJointId(name)].idx_q] = value
    data = robot.createData()
    pin.framesForwardKinematics(robot, data, q)

    def pair(frames: list[str]) -> list[pin.SE3]:
        assert all(robot.existFrame(name) for name in frames)
        return [data.oMf[robot.getFrameId(name)] for name in frames]

    def apart(frames: list[str]) -> float:
        a, b = pair(frames)
        return float(np.linalg.norm(a.translation - b.translation))

    def crossed(frames: list[str]) -> float:
        a, b = pair(frames)
        return float(np.linalg.norm(np.cross(a.rotation[:, 2], b.rotation[:, 2])))

    found = []
    for frames, kind in zip(extra["closed_loop"], extra["type"], strict=True):
        a, b = pair(frames)
        found.append(
            apart(frames) if kind == "3d" else float(np.linalg.norm(pin.log6(a.actInv(b))))
        )
    found += [max(apart(frames), crossed(frames)) for frames in extra["revolute"]]
    found += [crossed(frames) for frames in extra["parallel"]]
    found += [abs(apart(rod["frames"]) - rod["length"]) for rod in extra["distance"]]
    found += [
        abs(
            sum(c * position[j] for j, c in coupling["coefficients"].items()) + coupling["constant"]
        )
        for coupling in extra["coupling"]
    ]
    return found


def check_sidecar(model: Model, robot: pin.Model, extra: dict) -> None:
    names = [name.replace(".", "_") for name in model.mechanism.coordinates]
    assert list(extra["home"]) == names
    assert extra["name_mot"] == [name.replace(".", "_") for name in model.mechanism.actuated]
    motion = random_motion(model, 3, seed=4, reach=0.3)
    for q in (np.array(list(extra["home"].values())), *motion.q):
        open_by = gaps(robot, extra, dict(zip(names, q.tolist())))
        assert len(open_by) == len(model.mechanism.closures)
        assert max(open_by, default=0.0) < 1e-9
    for q in motion.q:  # and not closed whatever the pose
        moved = gaps(robot, extra, dict(zip(names, (q + 0.05).tolist())))
        assert not moved or max(moved) > 1e-4


def test_sidecar_lists_what_closes_the_loops(read: tuple[Model, pin.Model, dict]) -> None:
    check_sidecar(*read)


@pytest.mark.parametrize("kind", CHAINS)
def test_sidecar_knows_every_kind_of_closure(kind: str) -> None:
    model = closed_chain(kind)
    tree, closures = to_urdf(model, possible_bodies(model))
    check_sidecar(model, pin.buildModelFromXML(tree), sidecar(closures))


def test_readers_of_yaml_1_1_find_numbers_and_names() -> None:
    """1e-05 without a point is text to them."""
    yaml = pytest.importorskip("yaml")
    model = model_of("delta")
    terms = joint_terms(model) | {"leg1.motor.ia": 1e-5}
    content = yaml.safe_load(
        to_urdf(model, possible_bodies(model), terms, gains={"leg1.motor": 1e22})[1]
    )
    assert content["rotor_inertia"]["leg1_motor"] == 1e-5
    assert content["drive_gain"] == {"leg1_motor": 1e22}
    assert all(isinstance(value, float) for value in content["home"].values())
    assert content["home"] == dict(
        zip((n.replace(".", "_") for n in model.mechanism.coordinates), model.home)
    )


def test_limits_friction_and_gains_arrive() -> None:
    model = model_of("upv")
    terms = joint_terms(model) | {
        "leg2.slider.fv": 123.0,
        "leg2.slider.fs": 4.5,
        "leg2.slider.ia": 6.7,
    }
    tree, closures = to_urdf(model, possible_bodies(model), terms, gains={"leg2.slider": 28.0})
    robot, extra = pin.buildModelFromXML(tree), sidecar(closures)
    k = robot.joints[robot.getJointId("leg2_slider")].idx_v
    assert (robot.damping[k], robot.friction[k]) == (123.0, 4.5)
    assert (robot.lowerPositionLimit[k], robot.upperPositionLimit[k]) == (0.787, 1.147)
    assert (robot.effortLimit[k], robot.velocityLimit[k]) == (270.0, 0.3)
    assert extra["rotor_inertia"]["leg2_slider"] == 6.7
    assert extra["drive_gain"] == {"leg2_slider": 28.0}


def test_joints_without_limits_hold_home_inside() -> None:
    model = model_of("delta")
    robot = pin.buildModelFromXML(to_urdf(model, possible_bodies(model))[0])
    order = [robot.joints[i].idx_q for i in joint_ids(robot, model)]
    assert (robot.lowerPositionLimit[order] < model.home).all()
    assert (robot.upperPositionLimit[order] > model.home).all()


@pytest.mark.parametrize("name", ["palida", "h4"])
def test_names_are_identifiers_used_once(name: str) -> None:
    model = model_of(name)
    root = ElementTree.fromstring(to_urdf(model, possible_bodies(model))[0])
    names = [element.get("name") for element in root if element.tag in ("link", "joint")]
    assert len(set(names)) == len(names)
    assert all(text and text.isidentifier() for text in names)


def test_hostile_names_stay_names() -> None:
    mechanism = chain_with("point")
    first, second = mechanism.joints[:2]
    joints = (
        replace(first, name='a.b--><x y="'),
        replace(second, name="a_b____x_y__"),
        *mechanism.joints[2:],
    )
    model = Model(replace(mechanism, joints=joints, name="x --> <evil/>"))
    tree, closures = to_urdf(model, possible_bodies(model))
    root = ElementTree.fromstring(tree)
    assert root.get("name") == "x______evil__"
    assert {element.tag for element in root} == {"link", "joint"}
    names = [joint.get("name") for joint in root.iter("joint") if joint.get("type") != "fixed"]
    assert len(set(names)) == len(names) == len(joints)
    assert sidecar(closures)["name_mot"] == names[:2]


@pytest.mark.parametrize("pitch", [0.3, np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, np.pi / 2 + 1e-5])
def test_roll_pitch_yaw_rebuild_the_rotation_at_right_angles_too(pitch: float) -> None:
    for roll, yaw in np.random.default_rng(5).uniform(-3, 3, (20, 2)):
        rotation = pin.rpy.rpyToMatrix(roll, pitch, yaw)
        np.testing.assert_allclose(
            pin.rpy.rpyToMatrix(*roll_pitch_yaw(rotation)), rotation, rtol=0, atol=2e-15
        )


def test_bodies_that_cannot_exist_are_refused() -> None:
    model = model_of("five_bar")
    bodies = possible_bodies(model)
    for change in ([(0, -1.0)], [(4, -1e-3)], [(9, 1.0)], [(1, 5.0)]):
        spoilt = bodies["left.distal"].copy()
        for index, value in change:
            spoilt[index] = value
        with pytest.raises(InvalidInput, match=r"no body can have.*'left\.distal'"):
            to_urdf(model, bodies | {"left.distal": spoilt})


def test_missing_and_unknown_names_are_refused() -> None:
    model = model_of("five_bar")
    bodies = possible_bodies(model)
    with pytest.raises(InvalidInput, match="'tool' are missing"):
        to_urdf(model, {name: values for name, values in bodies.items() if name != "tool"})
    with pytest.raises(InvalidInput, match=r"no body 'left\.dista'; did you mean 'left\.distal'"):
        to_urdf(model, bodies | {"left.dista": bodies["tool"]})
    with pytest.raises(InvalidInput, match=r"no joint term 'left\.motor\.fx'"):
        check_terms(model, {"left.motor.fx": 1.0})
    with pytest.raises(InvalidInput, match=r"not finite|NaN|nan"):
        to_urdf(model, bodies | {"tool": np.full(10, np.nan)})
    to_urdf(model, bodies | {"payload.disc": np.ones(10)})  # no part of the robot
