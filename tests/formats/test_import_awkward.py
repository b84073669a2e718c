"""What robots of public collections brought up: placeholders, macros, half-locked joints, global coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import ARM, BARS, BARS_YAML, described, samples, tree_efforts, written

from command_line import run, succeed
from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.mechanism import load_robot
from gough.mechanism.formats.description import describe
from gough.mechanism.formats.reading import read_tree
from gough.mechanism.formats.tree import BALL, Connection, Link, RobotTree

SOLID = '<inertial><origin xyz="0.02 0 -0.1"/><mass value="1"/><inertia ixx="0.02" iyy="0.02" izz="0.01"/></inertial>'
LIMIT = '<limit effort="1" velocity="20"/>'


def test_a_declaration_below_a_comment_is_no_fault() -> None:
    late = "\n<!-- made by hand -->\n" + ARM
    assert described(late, "arm.urdf")[0].text == described(ARM, "arm.urdf")[0].text


def test_a_reduction_that_is_no_number_is_lost_and_said() -> None:
    geared = ARM.replace("</robot>", """<transmission name="t"><joint name="slide"/><actuator name="m">
        <mechanicalReduction>reduction</mechanicalReduction></actuator></transmission></robot>""")
    tree = read_tree(geared, "arm.urdf")
    assert any("mechanicalReduction" in note for note in tree.notes)
    assert [joint.name for joint in tree.joints if joint.actuated] == ["slide"]


def test_macros_are_named_as_such() -> None:
    with pytest.raises(InvalidMechanism, match="run xacro first"):
        read_tree(ARM.replace('xyz="0.1 0.2 0.3"', 'xyz="${x} 0 0"'), "arm.urdf")


def test_the_second_of_two_names_is_where_the_error_points() -> None:
    text = "<robot name='r'>\n<link name='a'/>\n<link name='b'/>\n<link name='a'/>\n</robot>"
    with pytest.raises(InvalidMechanism, match="line 4, <link> 'a': is defined twice"):
        read_tree(text, "r.urdf")


def test_limits_that_passive_joints_share_are_placeholders(tmp_path: Path) -> None:
    everywhere = BARS.replace('<axis xyz="0 1 0"/>', f'<axis xyz="0 1 0"/>{LIMIT}')
    loops = written(tmp_path, "bars.yaml", BARS_YAML)
    done = describe(read_tree(everywhere, "bars.urdf", loops), "bars.urdf")
    assert any("effort 1 and velocity 20 at every joint" in note for note in done.notes)
    assert "effort" not in done.text.split("\n\n", 1)[1]
    driven = BARS.replace('<child link="a"/><axis xyz="0 1 0"/>', f'<child link="a"/><axis xyz="0 1 0"/>{LIMIT}')
    assert "effort = 1" in describe(read_tree(driven, "bars.urdf", loops), "bars.urdf").text


def test_global_coordinates_are_refused() -> None:
    text = """<mujoco><compiler coordinate="global"/><worldbody><body pos="0 0 1"><joint name="a"/><geom size="1"/>
        </body></worldbody></mujoco>"""
    with pytest.raises(InvalidMechanism, match="global coordinates are not read"):
        read_tree(text, "m.xml")


def test_the_damping_of_a_ball_joint_is_lost_and_said() -> None:
    text = """<mujoco><worldbody><body pos="0 0 1"><joint name="a" type="ball" damping="0.1"/><geom size="1"/>
        <body pos="0 0 1"><joint name="b"/><geom size="1"/></body></body></worldbody></mujoco>"""
    assert any("several motions: a" in note for note in read_tree(text, "m.xml").notes)


def test_a_symoro_variable_with_an_offset_is_refused() -> None:
    text = "NF = 1\nant = {0}\nsigma = {0}\nmu = {1}\ntheta = {th1 + pi/2}\n"
    with pytest.raises(InvalidMechanism, match="theta1 is 'th1 \\+ pi/2'"):
        read_tree(text, "r.par")


@pytest.mark.parametrize("held", [(0,), (1,), (2,), (0, 2), (0, 1), (1, 2), (0, 1, 2)])
def test_motions_of_a_ball_are_held_one_by_one(held: tuple[int, ...]) -> None:
    ball = Connection(name="ball", parent="ground", child="rod", motions=BALL, start=(0.3, -0.4, 0.5),
                      after=np.array([[1.0, 0, 0, 0.2], [0, 1, 0, 0], [0, 0, 1, -0.1], [0, 0, 0, 1]]))
    turn = Connection(name="turn", parent="rod", child="tip", motions=(("revolute", (0.0, 0.6, 0.8)),))
    solid = np.array([2.0, 0.1, -0.2, 0.3, 0.5, 0.01, 0.6, 0.02, 0.03, 0.7])
    tree = RobotTree(name="r", title="r", root="ground", joints=(ball, turn),
                     links=(Link(name="ground"), Link(name="rod", inertia=solid), Link(name="tip", inertia=solid)))
    whole = described_tree(tree.driven_by(["turn"]))
    part = described_tree(tree.driven_by(["turn"]).locked(
        {"ball": [ball.start[k] if k in held else None for k in range(3)]}))
    assert len(part.joints) == 4 - len(held)
    names = [joint.name for joint in whole.joints]
    kept = [k for k, name in enumerate(names) if not any(name == f"ball_{'xyz'[h]}" for h in held)]
    q, qd, qdd = samples(whole)
    for h in held:
        k = names.index(f"ball_{'xyz'[h]}")
        q[:, k], qd[:, k], qdd[:, k] = ball.start[h], 0.0, 0.0
    efforts = tree_efforts(whole, q, qd, qdd)[:, kept]
    np.testing.assert_allclose(tree_efforts(part, q[:, kept], qd[:, kept], qdd[:, kept]), efforts, atol=1e-12)


def described_tree(tree: RobotTree):  # type: ignore[no-untyped-def]
    """Return a tree as mechanism."""
    from gough.mechanism import parse_robot

    return parse_robot(describe(tree, "r").text, "r")


def test_the_spin_of_a_leg_with_its_mass_aside_is_held_and_said(tmp_path: Path) -> None:
    leg = f"""<link name="rod{{k}}">{SOLID}</link><link name="end{{k}}"/><link name="foot{{k}}"/>
      <joint name="ball{{k}}" type="spherical"><origin xyz="{{x}} 0 0"/><parent link="ground"/><child link="rod{{k}}"/>
        </joint>
      <joint name="push{{k}}" type="prismatic"><origin xyz="0 0 -0.3"/><parent link="rod{{k}}"/><child link="end{{k}}"/>
        <axis xyz="0 0 1"/></joint>
      <joint name="at{{k}}" type="fixed"><origin xyz="{{x}} 0 0"/><parent link="plate"/><child link="foot{{k}}"/>
        </joint>
    """
    text = f"""<robot name="swing"><link name="ground"/><link name="plate">{SOLID}</link>
      <joint name="rail" type="prismatic"><origin xyz="0 0 -0.5"/><parent link="ground"/><child link="plate"/>
        <axis xyz="0 0 1"/></joint>{leg.format(k=1, x=0.1)}</robot>"""
    loops = "closed_loop: [[end1, foot1]]\ntype: [3d]\nname_mot: [push1]\n"
    source = written(tmp_path, "swing.urdf", text)
    written(tmp_path, "swing.yaml", loops)
    for options, note in (("", True), ("--lock ball1_z --force", False)):
        said = succeed(f"gough import {source} {options}", tmp_path)
        assert ("no motor stops these turns of ball joints: ball1_z" in said) == note
    robot = load_robot(tmp_path / "swing.toml")
    assert Model(robot).degrees_of_freedom == 1
    assert [joint.name for joint in robot.joints] == ["rail", "ball1_x", "ball1_y", "push1"]


def test_a_ball_joint_that_swings_is_no_spin(tmp_path: Path) -> None:
    text = f"""<robot name="swing"><link name="ground"/><link name="arm">{SOLID}</link><link name="bob">{SOLID}</link>
      <joint name="hinge" type="continuous"><parent link="ground"/><child link="arm"/><axis xyz="0 1 0"/></joint>
      <joint name="ball" type="spherical"><origin xyz="0 0 -0.3"/><parent link="arm"/><child link="bob"/></joint>
      <transmission name="t"><joint name="hinge"/></transmission></robot>"""
    asked = run(f"gough import {written(tmp_path, 'swing.urdf', text)}", tmp_path)
    assert asked.code == 1
    assert "with these held, ball still move" in asked.err
