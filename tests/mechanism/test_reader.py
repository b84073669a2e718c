"""Robot files: what keys, units and shorthands mean."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from robot_texts import ARM, HEAD, LEGS, read
from scipy.spatial.transform import Rotation
from tree_kinematics import fixed, poses

from gough.mechanism import bundled_robots, load_robot, parse_robot
from gough.mechanism.placement import Placement


def test_plain_numbers_are_in_the_units_of_the_file() -> None:
    text = ARM.replace('length = "m"', 'length = "mm"').replace('mass = "kg"', 'mass = "g"')
    robot = read(
        text.replace("m = 2\n", "m = 2000\nIxx = 5e9\n").replace("[0.1, 0, 0]", "[100, 0, 0]")
        + """
start = 90
xyz = [26, 0, 0]
limits = { position = [-180, 180], velocity = 360, acceleration = 720, effort = 3 }
"""
    )
    link, hinge = robot.body("link"), robot.joint("hinge")
    assert link.values["m"] == pytest.approx(2.0)
    assert link.values["mx"] == pytest.approx(0.2)
    assert link.values["Ixx"] == pytest.approx(5.0)  # g mm2 -> kg m2
    assert hinge.start == pytest.approx(np.pi / 2)
    assert hinge.limits.velocity == pytest.approx(2 * np.pi)
    assert hinge.limits.acceleration == pytest.approx(4 * np.pi)
    assert hinge.limits.effort == 3.0
    assert hinge.limits.position == pytest.approx((-np.pi, np.pi))
    assert hinge.values["fv"] == 0.5  # friction is SI whatever the units
    assert fixed(hinge.placement)[0, 3] == pytest.approx(0.026)
    assert robot.gravity == (0.0, 0.0, -9.80665)


def test_prismatic_joints_take_lengths_forces_and_masses() -> None:
    text = ARM.replace('length = "m"', 'length = "mm"').replace('mass = "kg"', 'mass = "g"')
    text = (
        text.replace('"revolute"', '"prismatic"')
        .replace('["fv"]', '["fv", "ia"]')
        .replace("fv = 0.5", "fv = 0.5, ia = 800")
    )
    slider = read(
        text
        + "start = 5\nlimits = { position = [-10, 20], velocity = 300, acceleration = 4000, effort "
        "= 50 }"
    ).joint("hinge")
    assert slider.start == pytest.approx(0.005)
    assert slider.limits.position == pytest.approx((-0.01, 0.02))
    assert slider.limits.velocity == pytest.approx(0.3)
    assert slider.limits.acceleration == pytest.approx(4.0)
    assert slider.limits.effort == 50.0
    assert dict(slider.values) == pytest.approx({"fv": 0.5, "ia": 0.8})


def test_text_with_a_unit_may_replace_any_number() -> None:
    robot = read(
        ARM.replace("m = 2\n", 'm = "2000 g"\nIzz = "7 kg mm2"\n').replace(
            "fv = 0.5", 'fv = "0.5 N m s/rad"'
        )
        + """
start = "0.5 rad"
xyz = ["26 mm", 1, 0]
limits = { velocity = "2 rad/s" }
gain = "0.3 N m/A"
"""
    )
    assert robot.body("link").values["m"] == 2.0
    assert robot.body("link").values["Izz"] == pytest.approx(7e-6)
    assert robot.joint("hinge").start == 0.5
    assert robot.joint("hinge").limits.velocity == 2.0
    assert robot.joint("hinge").gain == 0.3
    np.testing.assert_allclose(fixed(robot.joint("hinge").placement)[:3, 3], [0.026, 1, 0])


def test_gravity_is_in_si_even_in_a_file_of_millimetres() -> None:
    robot = read(
        ARM.replace('length = "m"', 'length = "mm"').replace(
            "format = 1", "format = 1\ngravity = [0, 0, -9.81]"
        )
    )
    assert robot.gravity == (0.0, 0.0, -9.81)


def test_a_leg_is_placed_for_each_instance_with_its_own_values() -> None:
    robot = read(LEGS)
    assert robot.coordinates == ("platform.x", "platform.y", "left.motor", "right.motor")
    assert robot.task == ("platform.x", "platform.y")
    assert robot.platform == "platform"
    assert [b.name for b in robot.bodies] == ["platform.x", "platform", "left.rod", "right.rod"]
    assert robot.body("platform.x").parameters == ()
    left, right = robot.joint("left.motor"), robot.joint("right.motor")
    assert (left.leg, left.template) == ("left", "leg.motor")
    assert (left.start, right.start) == pytest.approx((np.pi / 4, 3 * np.pi / 4))
    assert (left.values["fs"], right.values["fs"]) == (0.1, 0.2)
    np.testing.assert_allclose(fixed(left.placement)[:3, 3], [-1, 0, 0])
    np.testing.assert_allclose(fixed(right.placement)[:3, 3], [1, 0, 0])
    closure = robot.closures[1]
    assert closure.name == "right.tip"
    assert closure.a is not None
    assert closure.b is not None
    assert (closure.a.body, closure.b.body, closure.values["length"]) == (
        "right.rod",
        "platform",
        1.5,
    )


def test_ties_name_the_parameters_equal_legs_share() -> None:
    ties = read(LEGS).ties
    assert ties["leg.rod.Ixx"] == ("left.rod.Ixx", "right.rod.Ixx")
    assert ties["leg.motor.fv"] == ("left.motor.fv", "right.motor.fv")
    assert "leg.motor.fs" not in ties
    assert "leg.rod.m" not in ties
    assert len(ties) == 7


def test_legs_may_stand_on_a_moving_body() -> None:
    text = (
        ARM
        + LEGS.partition("[[leg]]")[1]
        + LEGS.partition("[[leg]]")[2].partition("[[leg.closure]]")[0]
    )
    robot = read(text.replace("{ xyz = [-1, 0, 0] }", '{ body = "link", xyz = [-1, 0, 0] }'))
    assert robot.joint("left.motor").parent == "link"
    assert robot.joint("right.motor").parent == "base"


def test_polar_placement_turns_x_outwards() -> None:
    joint = read(ARM + "polar = [0.4, 90, 0.1]").joint("hinge")
    placed = fixed(joint.placement)
    np.testing.assert_allclose(placed[:3, 3], [0, 0.4, 0.1], atol=1e-15)
    np.testing.assert_allclose(placed[:3, :2].T, [[0, 1, 0], [-1, 0, 0]], atol=1e-15)


def test_denavit_hartenberg_and_roll_pitch_yaw_follow_their_definitions() -> None:
    def Rot(axis: int, angle: float) -> np.ndarray:
        c, s, i, j = np.cos(angle), np.sin(angle), (axis + 1) % 3, (axis + 2) % 3
        R = np.eye(4)
        R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
        return R

    def Trans(axis: int, distance: float) -> np.ndarray:
        T = np.eye(4)
        T[axis, 3] = distance
        return T

    joint = read(ARM + "mdh = { gamma = 10, b = 1, alpha = 20, d = 2, theta = 30, r = 3 }").joint(
        "hinge"
    )
    rad = np.radians([10, 20, 30])
    expected = (
        Rot(2, rad[0]) @ Trans(2, 1) @ Rot(0, rad[1]) @ Trans(0, 2) @ Rot(2, rad[2]) @ Trans(2, 3)
    )
    np.testing.assert_allclose(fixed(joint.placement), expected, atol=1e-15)
    joint = read(ARM + "rpy = [10, 20, 30]").joint("hinge")
    np.testing.assert_allclose(
        fixed(joint.placement), Rot(2, rad[2]) @ Rot(1, rad[1]) @ Rot(0, rad[0]), atol=1e-15
    )


@pytest.mark.parametrize(
    ("shorthand", "axes", "count"),
    [
        ("universal", "xy", 2),
        ("universal", "zx", 2),
        ("spherical", "xyz", 3),
        ("spherical", "zyz", 3),
    ],
)
def test_shorthands_expand_to_revolute_joints_about_their_axes(
    shorthand: str, axes: str, count: int
) -> None:
    start = [10, 20, 30][:count]
    robot = read(
        ARM
        + f"""
[[body]]
name = "tip"
[[joint]]
name = "ball"
type = "{shorthand}"
parent = "link"
child = "tip"
xyz = [0.2, 0, 0]
axes = "{axes}"
start = {start}
terms = ["fv"]
values = {{ fv = 0.01 }}
"""
    )
    added = robot.joints[1:]
    assert [joint.name for joint in added] == [f"ball.{i + 1}" for i in range(count)]
    assert "".join(joint.axis for joint in added) == axes
    assert all(joint.values["fv"] == 0.01 and not joint.actuated for joint in added)
    assert all(robot.body(joint.child).parameters == () for joint in added[:-1])
    assert added[-1].child == "tip"
    pose = poses(robot, np.array([0.0, *np.radians(start)]))["tip"]
    np.testing.assert_allclose(pose[:3, 3], [0.2, 0, 0], atol=1e-15)
    expected = Rotation.from_euler(
        axes.upper(), start, degrees=True
    ).as_matrix()  # capitals: intrinsic
    np.testing.assert_allclose(pose[:3, :3], expected, atol=1e-14)


def test_axes_and_names_of_shorthands_have_defaults_and_may_be_given() -> None:
    extra = """
[[body]]
name = "tip"
[[joint]]
name = "cardan"
type = "universal"
parent = "link"
child = "tip"
"""
    assert [j.axis for j in read(ARM + extra).joints[1:]] == ["x", "y"]
    robot = read(ARM + extra + 'names = ["alpha", "beta"]')
    assert robot.coordinates == ("hinge", "alpha", "beta")
    assert robot.body("alpha").parameters == ()


@pytest.mark.parametrize(
    ("coordinates", "order"),
    [(["x", "y", "z", "rx", "ry", "rz"], "XYZ"), (["z", "y", "x", "rz", "ry", "rx"], "ZYX")],
)
def test_task_coordinates_are_the_pose_of_the_platform(coordinates: list[str], order: str) -> None:
    robot = read(ARM + f'[platform]\nname = "hand"\ncoordinates = {coordinates}\n')
    assert robot.task == tuple(f"hand.{c}" for c in coordinates)
    value = {
        "hand.x": 0.1,
        "hand.y": 0.2,
        "hand.z": 0.3,
        "hand.rx": 0.4,
        "hand.ry": -0.5,
        "hand.rz": 0.6,
    }
    pose = poses(robot, np.array([value.get(name, 0.0) for name in robot.coordinates]))["hand"]
    np.testing.assert_allclose(pose[:3, 3], [0.1, 0.2, 0.3])
    angles = [value[f"hand.r{axis.lower()}"] for axis in order]
    np.testing.assert_allclose(
        pose[:3, :3], Rotation.from_euler(order, angles).as_matrix(), atol=1e-15
    )


def test_inertia_about_the_centre_of_mass_moves_to_the_frame() -> None:
    link = read(
        ARM.replace(
            "com = [0.1, 0, 0]",
            """com = [0.1, 0.2, -0.3]
about = "com"
Ixx = 0.5
Iyy = 0.6
Izz = 0.7
Ixy = 0.01""",
        )
    ).body("link")
    # Steiner written out
    x, y, z, m = 0.1, 0.2, -0.3, 2.0
    expected = {
        "Ixx": 0.5 + m * (y * y + z * z),
        "Iyy": 0.6 + m * (x * x + z * z),
        "Izz": 0.7 + m * (x * x + y * y),
        "Ixy": 0.01 - m * x * y,
        "Ixz": -m * x * z,
        "Iyz": -m * y * z,
        "m": 2.0,
        "mx": 0.2,
        "my": 0.4,
        "mz": -0.6,
    }
    assert dict(link.values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("selection", "parameters"),
    [
        ('symmetric = "x"', ("m", "mx", "Ixx", "Iyy", "Izz")),
        ('symmetric = "z"', ("m", "mz", "Ixx", "Iyy", "Izz")),
        ('parameters = ["Izz", "m"]', ("m", "Izz")),
        ("parameters = []", ()),
        ('zero = ["Ixy", "Ixz", "Iyz", "my", "mz"]', ("m", "mx", "Ixx", "Iyy", "Izz")),
    ],
)
def test_bodies_may_have_some_of_the_ten_parameters(
    selection: str, parameters: tuple[str, ...]
) -> None:
    assert (
        read(ARM.replace("m = 2\ncom = [0.1, 0, 0]", selection)).body("link").parameters
        == parameters
    )


def test_payloads_are_fixed_to_the_platform_or_else_the_last_body() -> None:
    payload = '[[payload]]\nname = "load"\nm = 3\nknown = ["m"]\n'
    assert read(ARM + payload).payload("load").body == "link"
    assert read(LEGS + payload).payload("load").body == "platform"
    assert read(LEGS + payload + 'body = "left.rod"').payload("load").body == "left.rod"
    assert read(LEGS + payload).payload("load").known == ("m",)


def test_couplings_relate_coordinates_in_the_units_of_the_file() -> None:
    text = LEGS.replace(
        "[tie]",
        """[[closure]]
name = "gear"
kind = "coupling"
coefficients = { "left.motor" = 1, "right.motor" = -2 }
constant = 30
[tie]""",
    )
    closure = read(text).closures[-1]
    assert dict(closure.coefficients) == {"left.motor": 1.0, "right.motor": -2.0}
    assert closure.constant == pytest.approx(np.pi / 6)


def test_joints_may_be_listed_in_any_order() -> None:
    robot = read(
        HEAD
        + """
[[body]]
name = "a"
[[body]]
name = "b"
[[joint]]
name = "second"
type = "prismatic"
parent = "a"
child = "b"
actuated = true
[[joint]]
name = "first"
type = "revolute"
parent = "base"
child = "a"
actuated = true
"""
    )
    assert robot.coordinates == ("first", "second")
    assert [body.name for body in robot.bodies] == ["a", "b"]


def test_sources_of_values_may_be_given() -> None:
    text = ARM.replace("m = 2\n", 'm = 2\nsource = "derived"\nsources = { m = "printed" }\n')
    assert read(text + 'sources = { fv = "assumed" }\n').body("link").values["m"] == 2.0


def test_noise_is_in_the_units_of_the_motors() -> None:
    noise = read(
        ARM
        + '[noise]\nposition = 1\neffort = 0.2\nresolution = 0.5\ncorrelation = 0.3\nrate = "2 kHz"'
    ).noise
    assert noise.position == pytest.approx(np.pi / 180)
    assert noise.resolution == pytest.approx(np.pi / 360)
    assert (noise.effort, noise.correlation, noise.rate) == (0.2, 0.3, 2000.0)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "arm.toml"
    path.write_text(ARM)
    assert load_robot(path).source == str(path)
    assert load_robot(str(path)).name == "arm"


def test_a_mark_of_the_byte_order_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "arm.toml").write_text(ARM, encoding="utf-8-sig")
    assert load_robot(tmp_path / "arm.toml").name == "arm"


def test_the_example_of_the_reference_is_the_bundled_file() -> None:
    document = Path(__file__).parents[2] / "docs" / "robot-file.md"
    blocks = re.findall(r"```toml\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    complete = [block for block in blocks if "\nformat = 1" in "\n" + block]
    assert len(complete) == 1
    written, bundled = parse_robot(complete[0], "robot-file.md"), load_robot("five_bar")
    assert written.standard.as_dict() == bundled.standard.as_dict()
    assert written.coordinates == bundled.coordinates
    assert [j.placement for j in written.joints] == [j.placement for j in bundled.joints]
    assert [j.limits for j in written.joints] == [j.limits for j in bundled.joints]


def test_every_bundled_robot_has_a_name_and_a_title() -> None:
    robots = bundled_robots()
    assert [name for name, _ in robots] == [
        "delta",
        "five_bar",
        "h4",
        "orthoglide",
        "palida",
        "redundant",
        "serial6",
        "stewart",
        "tx40",
        "upv",
    ]
    for name, title in robots:
        robot = load_robot(name)
        assert (robot.name, robot.title) == (name, title)
        assert 10 < len(title) < 100
        assert robot.reference
        assert robot.source == f"gough/robots/{name}.toml"


@pytest.mark.parametrize("digits", ["1.5708", "-1.570796", "1.57079632679", "3.1416", "-0.000003"])
def test_a_right_angle_of_few_digits_is_taken_as_printed_and_right_only_where_idealised(
    digits: str,
) -> None:
    """Otherwise parallel axes would not be so, and there were indistinguishable parameters."""
    robot = read(ARM + f'\nrpy = ["{digits} rad", 0, 0]\n')
    printed = Rotation.from_euler("x", float(digits)).as_matrix()
    np.testing.assert_allclose(robot.joint("hinge").placement.rotation, printed, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(
        robot.idealised.joint("hinge").placement.rotation, np.round(printed)
    )


@pytest.mark.parametrize(
    "angles", [(90.0, 0.0, 0.0), (30.0, 90.0, -180.0), (10.0, 20.0, 90.01), (0.0, 0.0, 0.0)]
)
def test_a_robot_without_printed_right_angles_is_its_own_ideal(angles: tuple[float, ...]) -> None:
    robot = read(ARM + f"\nrpy = {list(angles)}\n")
    assert robot.idealised is robot


def test_an_offset_that_a_printed_right_angle_turned_aside_is_turned_back_where_idealised() -> None:
    turned = Placement((("Rz", 1.5708), ("Tx", -10.0)))
    np.testing.assert_allclose(
        turned.translation, [-10 * np.cos(1.5708), -10 * np.sin(1.5708), 0], rtol=1e-12
    )
    np.testing.assert_array_equal(Placement.of(turned.matrix).idealised.translation, [0, -10, 0])


def test_printed_right_angles_one_after_the_other_are_right_where_idealised() -> None:
    """Roll and yaw are not unique where the pitch is a right angle: only their sum is near one."""
    turns = [
        Placement((("Rx", 1.5708),)),
        Placement((("Rz", 1.5708),)),
        Placement((("Ry", -1.570796),)),
    ]
    whole = turns[0].then(turns[1]).then(turns[2])
    ideal = Placement.of(whole.matrix).idealised
    np.testing.assert_array_equal(ideal.matrix, np.round(whole.matrix))
    assert 0 < np.abs(ideal.matrix - whole.matrix).max() < 2e-5


def test_an_angle_that_is_a_hundredth_of_a_degree_off_a_right_one_is_kept() -> None:
    rotation = read(ARM + "\nrpy = [90.01, 0, 0]\n").joint("hinge").placement.rotation
    np.testing.assert_allclose(
        rotation, Rotation.from_euler("x", 90.01, degrees=True).as_matrix(), atol=1e-15
    )
