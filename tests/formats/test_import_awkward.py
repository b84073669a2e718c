"""Problems of public robots: placeholders, macros, half-locked joints, global coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import ARM, BARS, BARS_YAML, described, samples, tree_efforts, written

from command_line import run, succeed
from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.formats.read import read_tree
from gough.formats.robot_description import describe
from gough.formats.tree import BALL_MOTIONS, Connection, Link, RobotTree
from gough.mechanism import load_robot

SOLID = '<inertial><origin xyz="0.02 0 -0.1"/><mass value="1"/><inertia ixx="0.02" iyy="0.02" izz="0.01"/></inertial>'
LIMIT = '<limit effort="1" velocity="20"/>'


def test_a_declaration_below_a_comment_is_no_fault() -> None:
    late = "\n<!-- made by hand -->\n" + ARM
    assert described(late, "arm.urdf")[0].text == described(ARM, "arm.urdf")[0].text


def test_a_reduction_that_is_no_number_is_ignored_and_noted() -> None:
    geared = ARM.replace(
        "</robot>",
        """<transmission name="t"><joint name="slide"/><actuator name="m">
        <mechanicalReduction>reduction</mechanicalReduction></actuator></transmission></robot>""",
    )
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
    assert any("effort 1, velocity 20 at every joint" in note for note in done.notes)
    assert "effort" not in done.text.split("\n\n", 1)[1]
    driven = BARS.replace(
        '<child link="a"/><axis xyz="0 1 0"/>', f'<child link="a"/><axis xyz="0 1 0"/>{LIMIT}'
    )
    assert "effort = 1" in describe(read_tree(driven, "bars.urdf", loops), "bars.urdf").text


def test_global_coordinates_are_refused() -> None:
    text = """<mujoco><compiler coordinate="global"/><worldbody><body pos="0 0 1"><joint name="a"/><geom size="1"/>
        </body></worldbody></mujoco>"""
    with pytest.raises(InvalidMechanism, match="global coordinates are not read"):
        read_tree(text, "m.xml")


def test_the_damping_of_a_ball_joint_is_ignored_and_noted() -> None:
    text = """<mujoco><worldbody><body pos="0 0 1"><joint name="a" type="ball" damping="0.1"/><geom size="1"/>
        <body pos="0 0 1"><joint name="b"/><geom size="1"/></body></body></worldbody></mujoco>"""
    assert any("several motions: a" in note for note in read_tree(text, "m.xml").notes)


def test_a_symoro_variable_with_an_offset_is_refused() -> None:
    text = "NF = 1\nant = {0}\nsigma = {0}\nmu = {1}\ntheta = {th1 + pi/2}\n"
    with pytest.raises(InvalidMechanism, match="theta1 is 'th1 \\+ pi/2'"):
        read_tree(text, "r.par")


@pytest.mark.parametrize("held", [(0,), (1,), (2,), (0, 2), (0, 1), (1, 2), (0, 1, 2)])
def test_motions_of_a_ball_are_locked_one_by_one(held: tuple[int, ...]) -> None:
    ball = Connection(
        name="ball",
        parent="ground",
        child="rod",
        motions=BALL_MOTIONS,
        start=(0.3, -0.4, 0.5),
        after=np.array([[1.0, 0, 0, 0.2], [0, 1, 0, 0], [0, 0, 1, -0.1], [0, 0, 0, 1]]),
    )
    turn = Connection(
        name="turn", parent="rod", child="tip", motions=(("revolute", (0.0, 0.6, 0.8)),)
    )
    solid = np.array([2.0, 0.1, -0.2, 0.3, 0.5, 0.01, 0.6, 0.02, 0.03, 0.7])
    tree = RobotTree(
        name="r",
        format="URDF",
        root="ground",
        joints=(ball, turn),
        links=(
            Link(name="ground"),
            Link(name="rod", inertia=solid),
            Link(name="tip", inertia=solid),
        ),
    )
    whole = described_tree(tree.with_motors(["turn"]))
    part = described_tree(
        tree.with_motors(["turn"]).with_locked_joints(
            {"ball": [ball.start[k] if k in held else None for k in range(3)]}
        )
    )
    assert len(part.joints) == 4 - len(held)
    names = [joint.name for joint in whole.joints]
    kept = [k for k, name in enumerate(names) if not any(name == f"ball_{'xyz'[h]}" for h in held)]
    q, qd, qdd = samples(whole)
    for h in held:
        k = names.index(f"ball_{'xyz'[h]}")
        q[:, k], qd[:, k], qdd[:, k] = ball.start[h], 0.0, 0.0
    efforts = tree_efforts(whole, q, qd, qdd)[:, kept]
    np.testing.assert_allclose(
        tree_efforts(part, q[:, kept], qd[:, kept], qdd[:, kept]), efforts, atol=1e-12
    )


def described_tree(tree: RobotTree):  # type: ignore[no-untyped-def]
    """Return a tree as mechanism."""
    from gough.mechanism import parse_robot

    return parse_robot(describe(tree, "r").text, "r")


def test_the_spin_of_a_leg_with_its_mass_off_the_axis_is_locked_and_noted(tmp_path: Path) -> None:
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
    written(tmp_path, "swing.urdf", text)
    written(tmp_path, "swing.yaml", loops)
    for options, note in (("", True), ("--lock ball1_z --force", False)):
        said = succeed(f"gough import swing.urdf {options}", tmp_path)
        assert ("no motor moves these rotations of ball joints: ball1_z" in said) == note
    robot = load_robot(tmp_path / "swing.toml")
    assert Model(robot).degrees_of_freedom == 1
    assert [joint.name for joint in robot.joints] == ["rail", "ball1_x", "ball1_y", "push1"]


def test_a_ball_joint_that_swings_is_no_spin(tmp_path: Path) -> None:
    text = f"""<robot name="swing"><link name="ground"/><link name="arm">{SOLID}</link><link name="bob">{SOLID}</link>
      <joint name="hinge" type="continuous"><parent link="ground"/><child link="arm"/><axis xyz="0 1 0"/></joint>
      <joint name="ball" type="spherical"><origin xyz="0 0 -0.3"/><parent link="arm"/><child link="bob"/></joint>
      <transmission name="t"><joint name="hinge"/></transmission></robot>"""
    written(tmp_path, "swing.urdf", text)
    asked = run("gough import swing.urdf", tmp_path)
    assert asked.code == 1
    assert "with these held, ball still moves" in asked.err


def test_a_motor_that_loops_hold_is_named_and_so_are_they(tmp_path: Path) -> None:
    """The rocker does not turn: a triangle."""
    stuck = BARS.replace('name="rocker" type="revolute"', 'name="rocker" type="fixed"')
    stuck = stuck.replace('"0.4 0 0"', '"0.1 0 0"')
    assert stuck != BARS
    written(tmp_path, "bars.yaml", BARS_YAML.replace("[crank]", "[crank, lift]"))
    lift = """<link name="hand"><inertial><mass value="1"/></inertial></link><joint name="lift" type="prismatic">
        <parent link="a"/><child link="hand"/><axis xyz="0 0 1"/></joint></robot>"""
    written(tmp_path, "bars.urdf", stuck.replace("</robot>", lift))
    asked = run("gough import bars.urdf", tmp_path)
    assert asked.code == 1
    assert "the motor 'crank' of 'four_bar' cannot move" in asked.err
    assert "'end_b_end_c' hold it" in asked.err


def test_limits_that_followers_share_are_no_placeholders() -> None:
    text = f"""<robot name="hand"><link name="palm"/><link name="a">{SOLID}</link><link name="b">{SOLID}</link>
      <joint name="left" type="revolute"><parent link="palm"/><child link="a"/>{LIMIT}</joint>
      <joint name="right" type="revolute"><parent link="palm"/><child link="b"/>{LIMIT}<mimic joint="left"/></joint>
      <transmission name="t"><joint name="left"/><mechanicalReduction>-50</mechanicalReduction></transmission>
      </robot>"""
    done, robot = described(text, "hand.urdf")
    assert robot.joints[0].limits.velocity == pytest.approx(20)
    assert any("mechanicalReduction of t" in note for note in done.notes)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_files_in_the_encodings_of_others_are_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "arm.urdf").write_bytes(ARM.replace("7 arm", "Prüfstand").encode(encoding))
    assert load_robot(tmp_path / "arm.urdf").title == "Prüfstand, from URDF"


def test_a_file_of_macros_says_what_makes_a_robot_of_it(tmp_path: Path) -> None:
    text = '<robot name="a" xmlns:xacro="x"><xacro:property name="l" value="1"/><link name="base_link"/></robot>'
    written(tmp_path, "a.urdf.xacro", text)
    for command in ("check", "import"):
        asked = run(f"gough {command} a.urdf.xacro", tmp_path)
        assert "run xacro first (xacro x.xacro -o x.urdf)" in asked.err


def test_a_single_floating_link_is_the_platform_where_it_is_drawn() -> None:
    text = f"""<robot name="r"><link name="ground"/><link name="plate">{SOLID}</link><link name="arm">{SOLID}</link>
      <joint name="free" type="floating"><origin xyz="0.1 0 0.5" rpy="0.3 0 0"/><parent link="ground"/>
        <child link="plate"/></joint>
      <joint name="hinge" type="continuous"><parent link="ground"/><child link="arm"/></joint></robot>"""
    robot = described(text, "r.urdf")[1]
    assert robot.platform == "plate"
    assert {j.name: j.start for j in robot.joints if j.virtual and j.start} == pytest.approx(
        {"plate.x": 0.1, "plate.z": 0.5, "plate.rx": 0.3}
    )


def test_springs_are_named_first_among_what_still_moves(tmp_path: Path) -> None:
    text = """<mujoco><default><geom type="capsule" fromto="0 0 0 .2 0 0" size=".01"/><joint axis="0 1 0"/></default>
      <worldbody><body><joint name="hip"/><geom/><body pos=".2 0 0"><joint name="toe"/><geom/>
        <body pos=".2 0 0"><joint name="spring" stiffness="9"/><geom/><site name="tip" pos=".2 0 0"/></body></body>
      </body><site name="wall" pos=".2 0 .3"/></worldbody>
      <equality><connect site1="tip" site2="wall"/></equality></mujoco>"""
    text = text.replace("<equality>", '<actuator><motor joint="hip"/></actuator><equality>')
    free = text.replace('<connect site1="tip" site2="wall"/>', "")
    written(tmp_path, "leg.xml", free)
    asked = run("gough import leg.xml", tmp_path)
    assert (
        "with these held, toe, spring still move" in asked.err
        or "spring, toe still move" in asked.err
    )
    held = text.replace(
        '<body pos=".2 0 0"><joint name="spring"',
        '<body pos=".2 0 0"><joint name="knee"/><geom/><body pos=".1 0 0"><joint name="spring"',
    )
    held = held.replace("</body></body>\n      </body>", "</body></body></body>\n      </body>")
    written(tmp_path, "longer.xml", held)
    asked = run("gough import longer.xml", tmp_path)
    assert "with these held, spring still moves" in asked.err


def test_a_loop_closed_in_all_directions_is_named_where_it_does_not_close(tmp_path: Path) -> None:
    written(tmp_path, "bars.yaml", BARS_YAML.replace("3d", "6d"))
    written(tmp_path, "bars.urdf", BARS)
    asked = run("gough import bars.urdf", tmp_path)
    assert asked.code == 1
    assert (
        "end_b_end_c: closed in all six directions (6d, weld); a pin or a ball there is 3d"
        in asked.err
    )


def test_a_place_beyond_all_numbers_is_no_crash() -> None:
    text = """<mujoco><compiler boundinertia="1e-6"/><worldbody><body><joint name="a"/><geom size="1" pos="0 1e300 0"/>
        </body></worldbody></mujoco>"""
    assert np.isfinite(read_tree(text, "m.xml").links[1].inertia).all()
