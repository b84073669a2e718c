"""Loops that files state in other ways, files that include others, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from foreign import BARS, BARS_YAML

from gough.app.studies.robot_import import ImportSettings, import_robot
from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.formats.read import read_tree
from gough.mechanism import load_robot

MOTOR = ImportSettings(motors=("crank",))
CLOSING = BARS.replace("end_b", "closing_knee_1").replace("end_c", "closing_knee_2")
URDF_PLUS = """<loop name="pin" type="revolute"><predecessor link="b"><origin xyz="0.6 0 0"/></predecessor>
<successor link="c"><origin xyz="0.4 0 0"/></successor><axis xyz="0 1 0"/></loop>"""
ISAAC = """<loop_joint name="pin" type="spherical"><link1 link="b" xyz="0.6 0 0" rpy="0 0 0"/>
<link1 link="c" xyz="0.4 0 0" rpy="0 0 0"/></loop_joint>"""
CONSTRAINT = """<constraint name="pin" type="revolute"><parent link="b"/><child link="end_c"/>
<origin xyz="0.6 0 0"/><axis xyz="0 1 0"/></constraint>"""


def with_element(element: str) -> str:
    return BARS.replace("</robot>", f"{element}</robot>")


def reference(tmp_path: Path) -> np.ndarray:
    """Return the inverse dynamics of the bars with their YAML."""
    (tmp_path / "bars.yaml").write_text(BARS_YAML)
    source = str(tmp_path / "bars.urdf")
    return crank_effort(import_robot(BARS, source, MOTOR)[0].text)


def crank_effort(text: str) -> np.ndarray:
    from gough.mechanism import parse_robot

    model = Model(parse_robot(text, "bars.toml"))
    q = np.full((3, 1), float(model.home[model.mechanism.coordinates.index("crank")]))
    q += np.array([[0.0], [0.05], [0.1]])
    motion = model.kinematics.motion(np.arange(3.0), q, np.ones((3, 1)), np.full((3, 1), 0.5))
    values = np.nan_to_num(model.mechanism.standard.values)
    return model.inverse_dynamics(motion, values)


@pytest.mark.parametrize(
    "text",
    [CLOSING, with_element(URDF_PLUS), with_element(ISAAC), with_element(CONSTRAINT)],
    ids=["closing frames", "loop", "loop_joint", "constraint"],
)
def test_a_loop_in_the_urdf_is_that_of_the_yaml(text, tmp_path: Path) -> None:
    description, loops = import_robot(text, str(tmp_path / "own.urdf"), MOTOR)
    assert loops.degrees_of_freedom == 1
    expected = reference(tmp_path)
    assert crank_effort(description.text) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (URDF_PLUS.replace('type="revolute"', 'type="screw"'), "unknown type 'screw'"),
        (URDF_PLUS.replace('link="c"', 'link="x"'), "there is no link 'x'"),
        (URDF_PLUS.replace("successor", "follower"), "needs the links that it connects"),
        ('<coupling name="c"/>', "write it as <mimic>"),
    ],
)
def test_a_loop_that_cannot_be_read_is_refused(element, message) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        read_tree(with_element(element), "own.urdf")


def test_the_only_loops_beside_a_urdf_are_used_and_others_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "bars.urdf"
    path.write_text(BARS)
    (tmp_path / "ros_controllers.yaml").write_text("controllers: [a, b]\n")
    (tmp_path / "loops.yaml").write_text(BARS_YAML)
    tree = read_tree(BARS, str(path))
    assert [loop.kind for loop in tree.loops] == ["point"]
    assert "assumed: the loops are those of loops.yaml" in " ".join(tree.notes)
    (tmp_path / "other.yml").write_text(BARS_YAML)
    tree = read_tree(BARS, str(path))
    assert not tree.loops
    assert "loops beside the file, in loops.yaml, other.yml; name one" in " ".join(tree.notes)


def square(length: float) -> str:
    """Return two chains of two links each that meet, one of them with a link of some length."""
    links = '<link name="ground"/>'
    for name, at, x in (
        ("a", "ground", 0.0),
        ("b", "a", 0.3),
        ("c", "ground", 0.0),
        ("d", "c", 0.3),
    ):
        links += f'<link name="{name}"><inertial><mass value="1"/></inertial></link>'
        links += (
            f'<joint name="j{name}" type="continuous"><origin xyz="{x} 0 0"/>'
            f'<parent link="{at}"/><child link="{name}"/><axis xyz="0 1 0"/></joint>'
        )
    for name, x in (("b", 0.3), ("d", length)):
        links += f'<link name="tip_{name}"/><joint name="t{name}" type="fixed">'
        links += f'<origin xyz="{x} 0 0"/><parent link="{name}"/><child link="tip_{name}"/></joint>'
    return f'<robot name="r">{links}</robot>'


def test_chains_that_meet_without_a_loop_are_named() -> None:
    (note,) = [n for n in read_tree(square(0.3), "a.urdf").notes if "open tree" in n]
    assert "'tip_b' and 'tip_d'" in note
    assert not [n for n in read_tree(square(0.301), "a.urdf").notes if "open tree" in n]


def test_check_says_what_was_assumed_of_a_foreign_file(tmp_path: Path) -> None:
    from gough.app.studies.study_file import run_step

    (tmp_path / "a.urdf").write_text(square(0.3))
    found = run_step("check", {"robot": str(tmp_path / "a.urdf")})
    assert any("'tip_b' and 'tip_d'" in notice.text for notice in found.notices)
    assert found.level == "ok"


def test_position_limits_beyond_which_loops_close_are_left_out(tmp_path: Path) -> None:
    """By the cosine rule the rocker of these bars is between 0.96 and 2.25 rad, of either sign."""
    (tmp_path / "bars.yaml").write_text(BARS_YAML)
    limit = '<limit lower="-0.3" upper="0.3" effort="1" velocity="1"/></joint>'
    head, tail = BARS.split('<joint name="rocker"')
    text = f'{head}<joint name="rocker"{tail.replace("</joint>", limit, 1)}'
    description, loops = import_robot(text, str(tmp_path / "bars.urdf"), MOTOR)
    notes = " ".join(description.notes)
    assert "ignored: position limits of rocker; the loops close only beyond them" in notes
    position = loops.home[loops.mechanism.coordinates.index("rocker")]
    assert 0.95 < abs(position) < 2.26


SCENE = """<mujoco model="scene"><include file="arm.xml"/>
<worldbody><light pos="0 0 1"/></worldbody></mujoco>"""
ARM_XML = """<mujoco model="arm"><compiler angle="radian"/><include file="parts/defaults.xml"/>
<worldbody><body name="upper"><joint name="shoulder" axis="0 1 0"/>
<geom size="0.05" fromto="0 0 0 0.3 0 0"/><include file="lower.xml"/></body></worldbody>
<actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator></mujoco>"""
LOWER_XML = """<mujocoinclude><body name="lower" pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/>
<geom size="0.04" fromto="0 0 0 0.2 0 0"/></body></mujocoinclude>"""
DEFAULTS_XML = """<mujoco><default><geom type="capsule" density="500"/>
<joint damping="0.3"/></default></mujoco>"""


def write_scene(folder: Path) -> Path:
    (folder / "parts").mkdir()
    (folder / "arm.xml").write_text(ARM_XML)
    (folder / "lower.xml").write_text(LOWER_XML)
    (folder / "parts/defaults.xml").write_text(DEFAULTS_XML)
    (folder / "scene.xml").write_text(SCENE)
    return folder / "scene.xml"


def test_included_files_are_read_as_mujoco_reads_them(tmp_path: Path) -> None:
    path = write_scene(tmp_path)
    model = mujoco.MjModel.from_xml_path(str(path))
    robot = load_robot(path)
    masses = [body.values["m"] for body in robot.bodies]
    assert masses == pytest.approx(model.body_mass[1:].tolist(), rel=1e-9)
    assert [joint.name for joint in robot.joints] == ["shoulder", "elbow"]
    assert [joint.values["fv"] for joint in robot.joints] == model.dof_damping.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("lower.xml", ARM_XML, "a second time"),
        ("lower.xml", "<robot name='r'/>", "expected <mujoco> or <mujocoinclude>"),
        ("lower.xml", None, "there is no file 'lower.xml' beside the model"),
        ("parts/defaults.xml", "<mujoco><include file='arm.xml'/></mujoco>", "a second time"),
    ],
)
def test_an_include_that_cannot_be_resolved_is_refused(name, content, message, tmp_path) -> None:
    path = write_scene(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidMechanism, match=message):
        load_robot(path)
