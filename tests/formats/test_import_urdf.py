"""URDF: the tree is Pinocchio's, the YAML closes its loops, notes say what is ignored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import ARM, BARS, BARS_YAML, RIGHT, SQUARE, described, samples, tree_efforts, written

from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.engine.base import base_parameters, random_motion
from gough.formats.read import read_tree
from gough.formats.robot_description import clamp_to_limits, describe
from gough.mechanism import load_robot, parse_robot
from gough.mechanism.types import Limits


def _square(half: str, whole: str) -> str:
    return SQUARE.replace("{half}", half).replace("{whole}", whole)


PRINTED = [("1.5708", "3.1416"), ("1.570796", "-3.14159"), ("1.57079632679", "3.14159265359")]


@pytest.mark.parametrize(
    "text",
    [ARM, _square(*RIGHT), *(_square(*digits) for digits in PRINTED)],
    ids=["any angles", "right angles", "five digits", "seven digits", "twelve digits"],
)
def test_efforts_of_the_tree_are_those_of_pinocchio(text: str) -> None:
    pin = pytest.importorskip("pinocchio")
    robot = pin.buildModelFromXML(text)
    done, mechanism = described(text, "arm.urdf")
    q, qd, qdd = samples(mechanism)
    robot.gravity.linear = np.array(mechanism.gravity)
    data, column = robot.createData(), {name: i for i, name in enumerate(mechanism.coordinates)}
    names = [name for name in robot.names if name != "universe"]
    assert sorted(names) == sorted(done.coordinates)
    order = [column[done.coordinates[name][0]] for name in names]
    ours = tree_efforts(mechanism, q, qd, qdd, without=("fs", "fv"))
    for t in range(len(q)):
        at = pin.integrate(robot, pin.neutral(robot), q[t, order])
        theirs = pin.rnea(robot, data, at, qd[t, order], qdd[t, order])
        np.testing.assert_allclose(
            ours[t, order], theirs, atol=3e-11 * np.abs(theirs).max(), rtol=1e-11
        )


@pytest.mark.parametrize("digits", PRINTED)
def test_right_angles_of_few_digits_make_no_base_parameters(digits: tuple[str, str]) -> None:
    """These are combinations that only the digits tell apart."""
    printed, right = (Model(described(_square(*each), "arm.urdf")[1]) for each in (digits, RIGHT))
    found, known = base_parameters(printed), base_parameters(right)
    assert found.names == known.names
    np.testing.assert_allclose(
        found.matrix, known.matrix, atol=1e-5
    )  # what fixed joints hold sits where they say
    motion = random_motion(printed, 20, seed=3)
    values = found.matrix @ printed.values(found.standard)
    through = np.einsum("tmb,b->tm", printed.regressor(motion, found), values)
    exact = printed.inverse_dynamics(motion)
    assert np.abs(through - exact).max() < 1e-5 * np.abs(exact).max()


def test_right_angles_of_few_digits_are_written_as_they_were_printed() -> None:
    done, mechanism = described(_square("1.5708", "3.1416"), "arm.urdf")
    assert 'rpy = ["1.5708 rad", 0, 0]' in done.text
    assert 'position = ["-1.2 rad", "1.2 rad"]' in done.text
    assert 'velocity = "2.5 rad/s"' in done.text
    assert mechanism.joint("j0").limits.velocity == pytest.approx(2.5, abs=1e-15)


def test_names_limits_and_friction_come_along() -> None:
    done, mechanism = described(ARM, "arm.urdf")
    assert mechanism.name == "_7_arm"
    assert mechanism.coordinates == ("_1_turn", "slide", "roll", "bend")
    assert [joint.child for joint in mechanism.joints] == [
        "_1_shoulder",
        "slider",
        "wrist",
        "base_",
    ]
    turn, slide, roll, _ = mechanism.joints
    assert turn.limits.position == pytest.approx((-2, 2))
    assert (turn.limits.velocity, turn.limits.effort) == (pytest.approx(4), 30)
    assert dict(turn.values) == {"fv": 0.5, "fs": 0.2}
    assert slide.limits.position == (-0.2, 0.3)
    assert roll.limits.position is None
    told = " ".join(done.notes)
    assert "1/shoulder -> _1_shoulder" in told
    assert "base -> base_" in told
    assert "gravity 9.81" in told


def test_without_motors_every_joint_of_a_tree_is_one() -> None:
    done = describe(read_tree(ARM, "arm.urdf"), "arm.urdf")
    assert any("every joint is a motor" in note for note in done.notes)
    assert len(parse_robot(done.text, "arm.urdf").actuated) == 4
    assert all(f"# {note}"[:60] in done.text for note in done.notes)


def test_a_mimic_joint_is_coupled() -> None:
    text = ARM.replace(
        '<axis xyz="1 0 0"/></joint>',
        '<axis xyz="1 0 0"/><mimic joint="1/turn" multiplier="-2" offset="0.3"/></joint>',
    )
    _, mechanism = described(text, "arm.urdf")
    model = Model(mechanism)
    assert model.degrees_of_freedom == 3
    assert mechanism.actuated == ("_1_turn", "slide", "bend")
    home = dict(zip(mechanism.coordinates, model.home))
    assert home["roll"] == pytest.approx(-2 * home["_1_turn"] + 0.3, abs=1e-12)


def test_transmissions_name_the_motors() -> None:
    text = ARM.replace(
        "</robot>",
        '<transmission name="t"><joint name="slide"/><actuator name="m">'
        "<mechanicalReduction>50</mechanicalReduction></actuator></transmission></robot>",
    )
    done, mechanism = described(text, "arm.urdf")
    assert mechanism.actuated == ("slide",)
    assert any("mechanicalReduction" in note for note in done.notes)
    assert mechanism.joint("slide").terms == ("ia", "fv", "fs")  # unknown, so to be identified
    assert mechanism.joint("roll").terms == ()


def test_the_yaml_closes_the_loops(tmp_path: Path) -> None:
    path = written(tmp_path, "bars.urdf", BARS)
    written(tmp_path, "bars.yaml", BARS_YAML)
    model = Model(load_robot(path))
    assert model.degrees_of_freedom == 1
    assert model.mechanism.actuated == ("crank",)
    q = model.kinematics.close_loops(model.home[0] + np.linspace(0, 0.5, 5)[:, None])
    rotation, origin = model.kinematics.body_poses(q)
    bodies = [body.name for body in model.mechanism.bodies]
    tips = [
        origin[:, bodies.index(b)] + rotation[:, bodies.index(b)] @ [x, 0, 0]
        for b, x in (("b", 0.6), ("c", 0.4))
    ]
    np.testing.assert_allclose(tips[0], tips[1], atol=1e-10)


@pytest.mark.parametrize(("kind", "count"), [("SPHERICAL", 3), ("UJOINT_XY", 2), ("FIXED", 0)])
def test_joint_types_beside_a_urdf_change_joints(tmp_path: Path, kind: str, count: int) -> None:
    path = written(tmp_path, "bars.urdf", BARS)
    yaml = written(
        tmp_path, "other.yml", f"name_mot: [crank]\njoint_name: [knee]\njoint_type: [{kind}]\n"
    )
    _, mechanism = described(BARS, path, yaml)
    assert sum(joint.name.startswith("knee") for joint in mechanism.joints) == count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("end_b, end_c", "end_b, tip"), "names 'tip', which is no link or joint"),
        (("3d", "4d"), "type '4d' of a loop is unknown"),
        (("[crank]", "[cranck]"), "names 'cranck'.*did you mean 'crank'"),
        (("[3d]", "[3d, 6d]"), "lists 1 pairs and type 2"),
        (("name_mot: [crank]", "gravity: [1, 2]"), "expected three numbers"),
        (("[[end_b, end_c]]", "&a [[*a]]"), "an alias, which loops do not need"),
        (("type:", "type: ["), "not valid YAML"),
        (("closed_loop", "closed_loops"), "unknown key 'closed_loops'; did you mean 'closed_loop'"),
    ],
)
def test_a_wrong_yaml_says_so(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = written(tmp_path, "bars.urdf", BARS)
    written(tmp_path, "bars.yaml", BARS_YAML.replace(*change))
    with pytest.raises(InvalidMechanism, match=message):
        load_robot(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('type="prismatic"', 'type="primsatic"'),
            r"line 23, <joint> 'slide': unknown type.*did you mean 'prismatic'",
        ),
        (('xyz="0 -1 0"', 'xyz="0 0 0"'), "axis of no length"),
        (('<mass value="2.5"/>', '<mass value="-2.5"/>'), "cannot be negative"),
        (('<mass value="2.5"/>', ""), "needs <mass>"),
        (('xyz="0.2 0 0.1"', 'xyz="0.2 0"'), "expected 3 numbers"),
        (('xyz="0.2 0 0.1"', 'xyz="0.2 0 nan"'), "expected 3 numbers"),
        (
            ('<child link="tip"/>', '<child link="top"/>'),
            "links that hang on no joint|which does not exist",
        ),
        (('<link name="tip"/>', '<link name="tip"/><link name="tip"/>'), "defined twice"),
        (("</robot>", "<xacro:macro/></robot>"), "run xacro"),
        (
            ('<parent link="base_link"/>', '<parent link="tip"/>'),
            "arm.urdf: the link '1/shoulder' hangs on nothing",
        ),
    ],
)
def test_a_wrong_urdf_says_where(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        described(ARM.replace(*change), "arm.urdf")


@pytest.mark.parametrize(
    ("kind", "limits"), [("revolute", (-1.0, 2.0)), ("continuous", None)], ids=str
)
def test_a_continuous_joint_has_no_position_limits(
    kind: str, limits: tuple[float, float] | None
) -> None:
    """Many programs write a range for it all the same; URDF says that it is ignored."""
    text = f"""<robot name="arm"><link name="ground"/><link name="bar"><inertial>
      <mass value="2"/></inertial></link><joint name="hinge" type="{kind}">
      <parent link="ground"/><child link="bar"/><axis xyz="0 0 1"/>
      <limit lower="-1" upper="2" effort="3" velocity="4"/></joint></robot>"""
    joint = described(text, "arm.urdf")[1].joint("hinge")
    assert joint.limits.position == limits
    assert joint.limits.velocity == 4.0


def test_a_start_is_moved_into_the_position_limits() -> None:
    assert clamp_to_limits(0.0, Limits(position=(1.0, 2.0))) == 1.0
    assert clamp_to_limits(3.0, Limits(position=(1.0, 2.0))) == 2.0
    assert clamp_to_limits(1.5, Limits(position=(1.0, 2.0))) == 1.5
    assert clamp_to_limits(3.0, Limits()) == 3.0
