"""MJCF: the tree is MuJoCo's, equality constraints close loops, the rest is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from foreign import described, samples, tree_efforts

from gough.app.studies.robot_import import close_tree, lock_joints
from gough.core.errors import InvalidMechanism
from gough.engine import Model
from gough.formats.read import read_tree
from gough.formats.robot_description import describe

# Nested bodies, classes, frames, shapes, several joints on a body, springs, references, every way
# to give a rotation.
ARM = """<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0.5 -1 -9"/>
  <default>
    <joint damping="0.1"/>
    <geom density="500"/>
    <default class="soft"><joint stiffness="3" springref="20" armature="0.02"/>
      <default class="softer"><joint damping="0.4"/></default></default>
  </default>
  <worldbody>
    <body name="pillar" pos="0 0 1" euler="10 20 30">
      <geom type="box" size="0.1 0.2 0.3"/>
      <body name="upper" pos="0.1 0.2 0.3" axisangle="1 1 0 40" childclass="soft">
        <joint name="turn" axis="1 2 3" pos="0.05 0 -0.1" ref="15" range="-90 120"/>
        <joint name="lift" type="slide" axis="0 1 1" class="main" ref="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.3 0.1 0.2" size="0.04"/>
        <geom type="ellipsoid" size="0.1 0.05 0.07" pos="0.1 0 0" xyaxes="1 1 0 -1 1 1" mass="0.8"/>
        <frame pos="0.3 0 0" quat="1 0.2 0 0.1">
          <body name="fore" zaxis="0.2 0.3 1">
            <joint name="bend" class="softer"/>
            <inertial pos="0.1 0 0.02" mass="1.3" quat="1 0.1 0.2 0.3" diaginertia="0.02 0.03 0.04"/>
            <geom type="sphere" size="0.3"/>
            <body name="hand" pos="0.2 0 0">
              <joint name="roll" axis="-1 0 0" stiffness="0"/>
              <geom type="cylinder" size="0.05 0.1" euler="0 30 0"/>
              <geom type="box" size="0.02 0.03" fromto="0 0 0 0.1 0.2 0.1" density="2000"/>
              <body name="tool" pos="0 0.1 0"><inertial pos="0 0 0" mass="0.2"
                fullinertia="0.02 0.03 0.04 0.001 0.002 0.003"/></body>
            </body>
          </body>
        </frame>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="turn" gear="50" ctrlrange="-2 2"/><position joint="lift"/><motor joint="bend"/>
    <motor joint="roll"/></actuator>
</mujoco>
"""

# Two fingers, each closed by `connect`, coupled, driven by one tendon.
GRIPPER = """<mujoco model="gripper">
  <compiler angle="radian"/>
  <default><joint axis="0 1 0" damping="0.01"/><geom type="capsule" size="0.01" density="2000"/></default>
  <worldbody>
    {fingers}
  </worldbody>
  <tendon><fixed name="split"><joint joint="left_crank" coef="0.5"/><joint joint="right_crank" coef="0.5"/></fixed>
  </tendon>
  <equality>
    <connect body1="left_b" body2="left_c" anchor="0.3 0 0"/>
    <connect body1="right_b" body2="right_c" anchor="0.3 0 0"/>
    <joint joint1="left_crank" joint2="right_crank" polycoef="0 1 0 0 0"/>
  </equality>
  <actuator><general name="close" tendon="split" forcerange="-5 5"/></actuator>
</mujoco>
""".replace(
    "{fingers}",
    "".join(
        f"""
    <body name="{side}" pos="0 {y} 0">
      <body name="{side}_a"><joint name="{side}_crank" ref="0.1"/><geom fromto="0 0 0 0.1 0 0.1"/>
        <body name="{side}_b" pos="0.1 0 0.1"><joint name="{side}_knee"/><geom fromto="0 0 0 0.3 0 0"/></body></body>
      <body name="{side}_c" pos="0.3 0 0"><joint name="{side}_rocker"/><geom fromto="0 0 0 0.1 0 0.1"/></body>
    </body>"""
        for side, y in (("left", 0.1), ("right", -0.1))
    ),
)


def test_efforts_of_the_tree_are_those_of_mujoco() -> None:
    mujoco = pytest.importorskip("mujoco")
    robot = mujoco.MjModel.from_xml_string(ARM)
    robot.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(robot)
    done, mechanism = described(ARM, "arm.xml")
    q, qd, qdd = samples(mechanism)
    ours = tree_efforts(mechanism, q, qd, qdd)
    order = [
        mechanism.coordinates.index(done.coordinates[robot.joint(j).name][0])
        for j in range(robot.njnt)
    ]
    for t in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[t, order], qd[t, order], qdd[t, order]
        mujoco.mj_inverse(robot, data)
        np.testing.assert_allclose(
            ours[t, order], data.qfrc_inverse, atol=1e-11 * np.abs(data.qfrc_inverse).max()
        )


def test_limits_motors_and_terms_come_along() -> None:
    done, mechanism = described(ARM, "arm.xml")
    assert mechanism.gravity == (0.5, -1, -9)
    assert set(mechanism.actuated) == {"turn", "lift", "bend", "roll"}
    turn = mechanism.joint("turn")
    assert turn.limits.position == pytest.approx(np.radians([-90, 120]))
    assert turn.limits.effort == pytest.approx(100)
    assert turn.start == pytest.approx(np.radians(15))
    assert dict(turn.values) == pytest.approx(
        {"ia": 0.02, "fv": 0.1, "k": 3, "off": -3 * np.radians(20)}
    )
    assert any("ignored: gears" in note and "turn 50" in note for note in done.notes)


def test_connects_close_where_the_model_is_written_and_a_tendon_is_a_motor() -> None:
    _, mechanism = described(GRIPPER, "gripper.xml")
    model = Model(mechanism)
    assert model.degrees_of_freedom == 1
    home = dict(zip(mechanism.coordinates, model.home))
    assert home["split"] == pytest.approx(0.1)  # the mean of both cranks, whose ref is 0.1
    assert model.loops.assembly == "from the start values"
    q = model.kinematics.close_loops(0.1 + np.linspace(0, 0.4, 5)[:, None])
    assert model.kinematics.residual(q).max() < 1e-10


def _hexapod(end: str) -> str:
    """Six legs under a free plate: their rods end at it, or in balls that are welded to it."""
    legs, equality = "", ""
    for k in range(6):
        foot, top = (
            r * np.array([np.cos(a), np.sin(a), 0])
            for r, a in (
                (0.5, k * np.pi / 3 + 0.17 * (-1) ** k),
                (0.3, k * np.pi / 3 + 0.4 * (-1) ** (k + 1)),
            )
        )
        way = top + np.array([0, 0, 0.6]) - foot
        away = np.linalg.norm(way)
        ball = (
            f"""<body name="ball{k}" pos="0 0 0.3"><joint name="ball{k}" type="ball" damping="0"/>
          <inertial pos="0 0.01 0.02" mass="0.1" diaginertia="1e-4 2e-4 2.5e-4"/></body>"""
            if end == "weld"
            else ""
        )
        legs += f"""<body name="cylinder{k}" childclass="leg" pos="{" ".join(map(str, foot))}"
          zaxis="{" ".join(map(str, way / away))}"><joint name="uni{k}x" axis="1 0 0"/>
          <joint name="uni{k}y" axis="0 1 0"/><geom fromto="0 0 0 0 0 0.3"/>
          <body name="rod{k}" pos="0 0 {away - 0.3}"><joint name="slide{k}" type="slide" frictionloss="3"/>
          <geom fromto="0 0 0 0 0 0.3" size="0.008" density="7800"/>{ball}</body></body>"""
        equality += (
            f'<weld body1="ball{k}" body2="plate"/>'
            if end == "weld"
            else f'<connect body1="rod{k}" body2="plate" anchor="0 0 0.3"/>'
        )
    motors = "".join(f'<position joint="slide{k}" kp="1000"/>' for k in range(6))
    return f"""<mujoco model="hexapod"><default><default class="leg"><joint damping="0.05"/>
      <geom type="capsule" size="0.015" density="2700"/></default></default><worldbody>
      <body name="plate" pos="0 0 0.6"><freejoint name="free"/>
      <inertial pos="0.01 0 0.02" mass="4" diaginertia="0.1 0.12 0.2"/></body>{legs}</worldbody>
      <equality>{equality}</equality><actuator>{motors}</actuator></mujoco>"""


# A shank whose foot is moved by two cranks over rods with balls, which nothing keeps from turning
# about themselves.
ANKLE = """<mujoco model="ankle"><compiler angle="radian"/><worldbody>
  <body name="shank" pos="0 0.1 0.7"><joint name="knee" axis="0 1 0" range="-1 1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="1.5"/>
    <body name="ring" pos="0 0 -0.4"><inertial pos="0 0 0" mass="0.05" diaginertia="1e-5 1e-5 1e-5"/>
      <joint name="pitch" axis="0 1 0"/><body name="foot"><joint name="roll" axis="1 0 0"/>
      <inertial pos="0.03 0 -0.03" mass="0.5" diaginertia="1e-3 2e-3 2e-3"/>
      <site name="left_heel" pos="-0.05 0.04 0"/><site name="right_heel" pos="-0.05 -0.04 0"/></body></body>
    {cranks}
  </body></worldbody>
  <equality><connect site1="left_tip" site2="left_heel"/><connect site1="right_tip" site2="right_heel"/></equality>
  <actuator><position joint="knee" kp="100"/><motor joint="left_motor"/><motor joint="right_motor"/></actuator>
</mujoco>""".replace(
    "{cranks}",
    "".join(
        f"""
    <body name="{side}_crank" pos="0 {y} -0.15"><joint name="{side}_motor" axis="0 1 0" armature="0.01" range="-1 1"/>
      <inertial pos="-0.02 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
      <body name="{side}_rod" pos="-0.05 0 0"><joint name="{side}_ball" type="ball"/><site name="{side}_tip"
        pos="0 0 -0.25"/><inertial pos="0 0 -0.125" mass="0.05" diaginertia="1e-4 1e-4 1e-6"/></body></body>"""
        for side, y in (("left", 0.04), ("right", -0.04))
    ),
)

# Couplings with references and offsets, a joint held where it is not zero, motors with gears,
# settings of the compiler.
COUPLED = """<mujoco model="coupled">
  <compiler angle="degree" eulerseq="XYZ" inertiafromgeom="true" boundmass="0.001" boundinertia="1e-6"/>
  <default><geom density="1200"/><joint armature="0.02" damping="0.3"/></default>
  <worldbody>
    <frame pos="0 0 0.2" euler="0 0 30"><body name="upper" euler="10 20 30">
      <inertial pos="9 9 9" mass="99" diaginertia="9 9 9"/>
      <joint name="shoulder" axis="0 1 0" ref="10" springref="5" stiffness="3"/>
      <geom type="capsule" fromto="0 0 0 0.3 0.05 0" size="0.03"/>
      <body name="hand" pos="0.3 0.05 0"><joint name="slide" type="slide" axis="1 0 0" ref="0.02"/>
        <joint name="roll" axis="1 0 0" pos="0 0.01 0"/><geom type="box" size="0.03 0.04 0.05" pos="0.1 0 0"/></body>
    </body></frame>
    <body name="crank" pos="0.1 -0.3 0.2"><joint name="crank" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.1 0 0" size="0.01"/>
      <body name="gauge" pos="0.1 0 0"><joint name="gauge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.05 0 0.05" size="0.01"/></body></body>
  </worldbody>
  <equality><joint joint1="crank" joint2="shoulder" polycoef="0.2 -0.5 0 0 0"/><joint joint1="gauge" polycoef="0.3"/>
    <joint joint1="roll" joint2="slide" polycoef="0 10 0 0 0"/></equality>
  <actuator><motor joint="shoulder" gear="-30"/><velocity joint="slide" kv="2"/></actuator>
</mujoco>"""


# A walker's leg: a rod between balls and two springs, which are locked. The loop of the keyframe is
# open, so that closing it could move the springs, too.
SPRUNG_LEG = """<mujoco model="sprung_leg"><compiler angle="radian"/><worldbody>
  <body name="thigh" pos="0 0 1"><joint name="hip" axis="0 1 0" armature="0.1"/>
    <inertial pos="0.1 0 -0.03" mass="5" fullinertia="0.011 0.03 0.031 -2e-4 -6e-5 9e-6"/>
    <body name="rod" pos="0 0.04 0"><joint name="ball" type="ball"/>
      <inertial pos="0.25 0 0" mass="0.15" fullinertia="3.7e-6 0.0045 0.0045 -4e-8 -2e-8 0"/></body>
    <body name="shin" pos="0.12 0 0"><joint name="knee" axis="0 1 0" damping="1"/>
      <inertial pos="0.02 0.03 0" mass="0.7" diaginertia="1e-3 1e-3 2e-3"/>
      <body name="spring" pos="0.06 0 0.05"><joint name="spring" axis="0 1 0" stiffness="1500" damping="0.1"/>
        <inertial pos="0.18 0 0" mass="0.6" diaginertia="4e-4 0.014 0.014"/>
        <body name="tarsus" pos="0.4 0 0.02"><joint name="tarsus" axis="0 1 0" damping="0.1"/>
          <inertial pos="0.11 -0.03 0" mass="0.8" diaginertia="4e-4 0.013 0.013"/>
          <body name="heel" pos="-0.01 0.02 -0.03"><joint name="heel" axis="0 1 0" stiffness="1200"/>
            <inertial pos="-0.05 0 0" mass="0.13" diaginertia="3e-5 2e-4 2e-4"/></body></body></body></body></body>
  </worldbody>
  <equality><connect body1="rod" body2="heel" anchor="0.5 0 0.1"/></equality>
  <actuator><motor joint="hip"/><motor joint="knee"/></actuator>
  <keyframe><key name="home" qpos="0.1 1 0 0 0 0.2 0 0 0"/></keyframe>
</mujoco>"""


def test_locked_springs_stay_where_the_file_has_them_as_in_mujoco() -> None:
    pytest.importorskip("mujoco")
    from mujoco_loops import compare

    found = compare(SPRUNG_LEG, lock=("spring", "heel"))
    assert max(found.position, found.velocity, found.acceleration) < 1e-11
    assert found.effort < 1e-10


def test_joints_are_locked_where_loops_close_if_they_do_not_at_the_start_and_that_is_noted() -> (
    None
):
    names = ["knee", "spring", "tarsus", "heel"]
    tree = lock_joints(read_tree(SPRUNG_LEG, "leg.xml"), "leg.xml", names)
    assert "assumed: knee, spring, tarsus, heel locked where the loops close" in tree.notes[0]
    _, loops = close_tree(tree, "leg.xml")
    assert loops.degrees_of_freedom == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GRIPPER, id="gripper"),
        pytest.param(_hexapod("connect"), id="hexapod"),
        pytest.param(_hexapod("weld"), id="welded hexapod", marks=pytest.mark.long),
        pytest.param(ANKLE, id="ankle"),
        pytest.param(COUPLED, id="coupled"),
    ],
)
def test_closed_chains_move_and_need_efforts_as_in_mujoco(text: str) -> None:
    pytest.importorskip("mujoco")
    from mujoco_loops import compare

    found = compare(text)
    assert max(found.position, found.velocity, found.acceleration) < 1e-11
    assert found.effort < 1e-10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("<worldbody>", "<worldbody><include file='x.xml'/>"),
            "<include>: there is no file 'x.xml' beside the model",
        ),
        (("<worldbody>", "<worldbody><replicate count='3'/>"), "<replicate>: is not read"),
        (
            ('polycoef="0 1 0 0 0"', 'polycoef="0 1 0.5 0 0"'),
            "powers above the first.*leave two numbers",
        ),
        (
            ('name="left_crank" ref="0.1"', 'name="left_crank" springdamper="0.1 1"'),
            "give the stiffness and damping",
        ),
        (('body2="left_c"', 'body2="left_x"'), "names the body 'left_x'"),
        (
            ('name="left_crank" ref="0.1"', 'name="left_crank" class="gone"'),
            "names the class 'gone'",
        ),
        (('tendon="split"', 'tendon="other"'), "names the tendon 'other'"),
        (('tendon="split"', 'site="here"'), "drives no joint"),
        (
            (
                '<fixed name="split"><joint joint="left_crank" coef="0.5"/><joint '
                'joint="right_crank" coef="0.5"/></fixed>',
                '<spatial name="split"><site site="a"/><site site="b"/></spatial>',
            ),
            "'split': a spatial tendon that pulls",
        ),
        (('<general name="close" tendon="split" forcerange="-5 5"/>', ""), "names no motors"),
        (('fromto="0 0 0 0.3 0 0"', 'fromto="0 0 0 0 0 0"'), "direction of no length"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(change: tuple[str, str], message: str) -> None:
    text = GRIPPER.replace(*change)
    assert text != GRIPPER
    with pytest.raises(InvalidMechanism, match=message):
        describe(read_tree(text, "gripper.xml"), "gripper.xml")


def test_a_free_body_held_by_loops_is_the_platform() -> None:
    """A plate on three struts with ball joints; the free joint becomes its task coordinates."""
    struts = "".join(
        f"""
      <body name="foot{k}" pos="{np.cos(a)} {np.sin(a)} 0">
        <joint name="tilt{k}" axis="{-np.sin(a)} {np.cos(a)} 0"/>
        <joint name="swing{k}" axis="{np.cos(a)} {np.sin(a)} 0"/>
        <geom type="sphere" size="0.05"/>
        <body name="rod{k}" pos="0 0 0.5"><joint name="slide{k}" type="slide"/><geom type="sphere" size="0.05"/>
          <site name="top{k}" pos="0 0 0.5"/></body></body>"""
        for k, a in enumerate(np.radians([0, 120, 240]))
    )
    sites = "".join(
        f'<site name="hook{k}" pos="{np.cos(a)} {np.sin(a)} 0"/>'
        for k, a in enumerate(np.radians([0, 120, 240]))
    )
    text = (
        f"""<mujoco><worldbody>{struts}<body name="plate" pos="0 0 1"><freejoint name="float"/>
      <geom type="box" size="1 1 0.1"/>{sites}</body></worldbody><equality>"""
        + "".join(f'<connect site1="top{k}" site2="hook{k}"/>' for k in range(3))
        + "</equality><actuator>"
        + "".join(f'<motor joint="slide{k}"/><motor joint="swing{k}"/>' for k in range(3))
        + "</actuator></mujoco>"
    )
    _, mechanism = described(text, "plate.xml")
    assert mechanism.platform == "plate"
    assert mechanism.task == tuple(f"plate.{c}" for c in ("x", "y", "z", "rx", "ry", "rz"))
    assert Model(mechanism).degrees_of_freedom == 6


def test_what_a_mocap_body_pulls_at_is_free_of_it_and_noted() -> None:
    """Simulators weld hands to bodies that people move; a robot held so could not move at all."""
    text = ARM.replace(
        "<worldbody>", '<worldbody><body name="mouse" mocap="true" pos="1 0 1"/>'
    ).replace(
        "</mujoco>", '<equality><weld name="pull" body1="mouse" body2="hand"/></equality></mujoco>'
    )
    done, mechanism = described(text, "arm.xml")
    assert not mechanism.closures
    assert any(
        "ignored: equality with mocap bodies" in note and "pull" in note for note in done.notes
    )


def test_forces_that_flags_disable_are_noted() -> None:
    flags = (
        '<option><flag equality="disable" gravity="disable" contact="disable"/></option><worldbody>'
    )
    done, mechanism = described(
        ARM.replace('<option gravity="0.5 -1 -9"/>', "").replace("<worldbody>", flags), "a.xml"
    )
    assert mechanism.gravity == (0, 0, 0)
    assert any("ignored: flags that disable" in note and "equality" in note for note in done.notes)


def test_the_mass_of_a_mesh_is_unknown_and_noted() -> None:
    text = GRIPPER.replace('<geom fromto="0 0 0 0.1 0 0.1"/>', '<geom type="mesh" mesh="part"/>', 1)
    done, mechanism = described(text, "gripper.xml")
    assert any(
        "masses that the file leaves to meshes" in note and "left_a" in note for note in done.notes
    )
    assert mechanism.body("left_a").parameters
    assert not any(mechanism.body("left_a").values.values())


@pytest.mark.parametrize(
    ("compiler", "limited", "applies"),
    [
        ("", "", True),
        ("", 'limited="false"', False),
        ('<compiler autolimits="false"/>', 'limited="false"', False),
        ('<compiler autolimits="false"/>', 'limited="true"', True),
    ],
)
def test_a_range_is_a_limit_where_mujoco_applies_it(
    compiler: str, limited: str, applies: bool
) -> None:
    text = f"""<mujoco model="arm">{compiler}<worldbody><body name="bar">
      <joint name="lift" type="slide" axis="0 0 1" range="-0.5 1.5" {limited}/>
      <geom type="sphere" size="0.1"/></body></worldbody>
      <actuator><motor joint="lift"/></actuator></mujoco>"""
    mujoco = pytest.importorskip("mujoco")
    assert bool(mujoco.MjModel.from_xml_string(text).jnt_limited[0]) == applies
    _, mechanism = described(text, "arm.xml")
    assert mechanism.joint("lift").limits.position == ((-0.5, 1.5) if applies else None)
