"""SDF: native loops, reversed joints, frames; same dynamics as the URDF of the same robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from foreign import BARS, BARS_YAML, described, written

from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.mechanism import load_robot

LOOP = """<sdf version="1.9"><model name="four_bar">
  <frame name="right"><pose>0.5 0 0 0 0 0</pose></frame>
  {links}
  <joint name="ground" type="fixed"><parent>world</parent><child>a0</child></joint>
  <link name="a0"/>
  <joint name="crank" type="revolute"><parent>a0</parent><child>a</child><axis><xyz>0 1 0</xyz></axis></joint>
  <joint name="knee" type="revolute"><parent>b</parent><child>a</child>
    <pose relative_to="b"/><axis><xyz>0 -1 0</xyz></axis></joint>
  <joint name="pin" type="revolute"><parent>b</parent><child>c</child>
    <pose relative_to="b">0.6 0 0 0 0 0</pose><axis><xyz expressed_in="__model__">0 1 0</xyz></axis></joint>
  <joint name="rocker" type="revolute"><parent>world</parent><child>c</child><axis><xyz>0 1 0</xyz>
    <limit><lower>-1e16</lower><upper>1e16</upper></limit></axis></joint>
  <plugin name="drive" filename="x"><joint_name>crank</joint_name></plugin>
</model></sdf>
"""


def poses() -> dict[str, tuple[float, float, float]]:
    """Where the bars stand at a crank angle of -1.2: circles about both ends meet."""
    knee = 0.2 * np.array([np.cos(1.2), np.sin(1.2)])
    far = np.array([0.5, 0.0])
    d = np.linalg.norm(far - knee)
    along = (0.6**2 - 0.4**2 + d**2) / (2 * d)
    u = (far - knee) / d
    tip = knee + along * u + np.sqrt(0.6**2 - along**2) * np.array([-u[1], u[0]])
    pitch = lambda v: -np.arctan2(v[1], v[0])  # noqa: E731
    return {"a": (0.0, 0.0, -1.2), "b": (*knee, pitch(tip - knee)), "c": (*far, pitch(tip - far))}


def links(relative: bool = True) -> str:
    text = ""
    for (name, (x, z, pitch)), (c, m) in zip(poses().items(), ((0.1, 0.5), (0.3, 1.2), (0.2, 0.8))):
        pose = (
            f'<pose relative_to="right">{x - 0.5} 0 {z} 0 {pitch} 0</pose>'
            if name == "c" and relative
            else f"<pose>{x} 0 {z} 0 {pitch} 0</pose>"
        )
        text += f"""<link name="{name}">{pose}<inertial><pose>{c} 0 0 0 0 0</pose><mass>{m}</mass><inertia>
          <ixx>0.001</ixx><iyy>{m / 50}</iyy><izz>{m / 50}</izz></inertia></inertial></link>"""
    return text


LOOP = LOOP.replace("{links}", links())


def test_a_native_loop_is_the_same_robot_as_a_urdf_with_its_yaml(tmp_path: Path) -> None:
    written(tmp_path, "bars.yaml", BARS_YAML)
    urdf = Model(load_robot(written(tmp_path, "bars.urdf", BARS)))
    sdf = Model(described(LOOP, "loop.sdf")[1])
    assert sdf.degrees_of_freedom == 1
    assert sdf.mechanism.actuated == ("crank",)
    angle = np.linspace(0.0, 0.4, 5)[:, None]  # the SDF counts the crank from where it is drawn
    start = {"crank": -1.2, "knee": poses()["b"][2] + 1.2, "rocker": poses()["c"][2]}
    near = np.array([start[name] for name in urdf.mechanism.coordinates])
    ones = np.ones((5, 1))
    motions = [
        model.kinematics.motion(np.zeros(5), at, 2 * ones, -3 * ones, start=home)
        for model, at, home in ((urdf, -1.2 + angle, near), (sdf, angle, sdf.home))
    ]
    expected = urdf.inverse_dynamics(motions[0])
    np.testing.assert_allclose(
        sdf.inverse_dynamics(motions[1]), expected, atol=1e-10 * np.abs(expected).max()
    )


def test_a_cut_joint_with_friction_keeps_its_coordinate() -> None:
    text = LOOP.replace("0 -1 0</xyz>", "0 -1 0</xyz><dynamics><damping>0.3</damping></dynamics>")
    assert text != LOOP
    plain, rubbing = (described(each, "loop.sdf") for each in (LOOP, text))
    assert "knee" not in plain[1].coordinates
    assert rubbing[1].joint("knee").values["fv"] == 0.3
    assert Model(rubbing[1]).degrees_of_freedom == 1


def test_gearboxes_and_mimics_couple() -> None:
    text = LOOP.replace(
        "</model>",
        """<link name="d"><inertial><mass>1</mass></inertial></link>
      <joint name="wheel" type="revolute"><parent>a0</parent><child>d</child><axis><xyz>0 1 0</xyz></axis></joint>
      <joint name="gears" type="gearbox"><parent>a</parent><child>d</child><gearbox_ratio>4</gearbox_ratio>
        <gearbox_reference_body>a0</gearbox_reference_body></joint></model>""",
    )
    _, mechanism = described(text, "loop.sdf")
    gears = next(closure for closure in mechanism.closures if closure.coefficients)
    assert dict(gears.coefficients) == {"wheel": 1.0, "crank": 4.0}
    assert Model(mechanism).degrees_of_freedom == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('relative_to="b"', 'relative_to="bb"'), "'bb' does not exist"),
        (
            ('<frame name="right"><pose>', '<frame name="right"><pose relative_to="right">'),
            "relative to itself",
        ),
        (('type="fixed"', 'type="screw"'), "joints of type 'screw' are not read"),
        (('<joint name="rocker"', '<include/><joint name="rocker"'), "<include>: is not read"),
        (
            ("<parent>world</parent><child>c</child>", "<parent>world</parent><child>x</child>"),
            "does not exist",
        ),
        (("</model>", "</model><model name='n'><link name='l'/></model>"), "has 2 models"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidMechanism, match=message):
        described(LOOP.replace(*change), "loop.sdf")


def test_a_planar_loop_with_rounded_angles_is_closed_in_its_plane() -> None:
    """Its revolute closure has three redundant equations, which contradict by 1e-4 rad."""
    pitch = poses()["b"][2]
    tilted = LOOP.replace(f" 0 {pitch} 0</pose>", f" 1e-4 {pitch} 0</pose>")
    assert tilted != LOOP
    done, mechanism = described(tilted, "loop.sdf")
    assert any("planar, its angles are rounded" in note for note in done.notes)
    model, exact = Model(mechanism), Model(described(LOOP, "loop.sdf")[1])
    assert model.degrees_of_freedom == 1
    ones, angle = np.ones((4, 1)), np.linspace(0, 0.4, 4)[:, None]
    efforts = [
        m.inverse_dynamics(m.kinematics.motion(np.zeros(4), angle, 2 * ones, -3 * ones))
        for m in (model, exact)
    ]
    np.testing.assert_allclose(efforts[0], efforts[1], rtol=1e-3)


def test_frames_carry_joints_and_the_model_is_placed_by_its_pose() -> None:
    """Joints on frames of frames, all tilted: equal to a plain model with gravity tilted back."""
    framed = LOOP.replace(
        "<parent>world</parent><child>c</child>", "<parent>pivot</parent><child>c</child>"
    ).replace(
        '<model name="four_bar">',
        """<model name="four_bar"><pose>1 2 3 0 0.4 0</pose>
        <frame name="plate" attached_to="a0"><pose>0.1 0 0.3 0 0.2 0</pose></frame>
        <frame name="pivot" attached_to="plate"><pose relative_to="right"/></frame>""",
    )
    tilted = (
        LOOP.replace("<model", "<world name='w'><gravity>{} 0 {}</gravity><model")
        .replace("</model>", "</model></world>")
        .format(9.81 * np.sin(0.4), -9.81 * np.cos(0.4))
    )
    models = [Model(described(text, "loop.sdf")[1]) for text in (framed, tilted)]
    angle, ones = np.linspace(0.0, 0.4, 5)[:, None], np.ones((5, 1))
    efforts = [
        model.inverse_dynamics(
            model.kinematics.motion(np.zeros(5), angle, 2 * ones, -3 * ones, start=model.home)
        )
        for model in models
    ]
    np.testing.assert_allclose(*efforts, atol=1e-10 * np.abs(efforts[1]).max())


def test_inertia_that_the_simulator_makes_is_unknown() -> None:
    text = LOOP.replace('<link name="b">', '<link name="b"><inertial auto="true"/>')
    done, robot = described(text, "loop.sdf")
    assert "unknown: masses that the file leaves to meshes or symbols: b" in done.notes
    assert next(body for body in robot.bodies if body.name == "b").values == {}
