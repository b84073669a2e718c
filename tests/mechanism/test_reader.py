"""Robot files: what the shorthands mean, and one clear error for every way to get a file wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tree_kinematics import fixed, poses

from gough.errors import InvalidMechanism
from gough.mechanism import Mechanism, bundled_robots, load_robot, parse_robot

HEAD = """
format = 1
name = "arm"
[units]
length = "m"
angle = "deg"
mass = "kg"
"""
ARM = (
    HEAD
    + """
[[body]]
name = "link"
m = 2
com = [0.1, 0, 0]

[[joint]]
name = "hinge"
type = "revolute"
parent = "base"
child = "link"
actuated = true
terms = ["fv"]
values = { fv = 0.5 }
"""
)
LEGS = (
    HEAD
    + """
[platform]
coordinates = ["x", "y"]
start = { y = 1 }
m = 1

[[leg]]
name = "leg"
instances = [
    { name = "left", base = { xyz = [-1, 0, 0] }, angle = 45, fs = 0.1 },
    { name = "right", base = { polar = [1, 0] }, angle = 135, fs = 0.2 },
]
[[leg.body]]
name = "rod"
[[leg.joint]]
name = "motor"
type = "revolute"
parent = "base"
child = "rod"
actuated = true
start = "$angle"
terms = ["fv", "fs"]
values = { fs = "$fs" }
[[leg.closure]]
name = "tip"
kind = "distance"
a = { body = "rod" }
b = { body = "platform", xyz = [0, 0.5, 0] }
length = 1.5
[tie]
parameters = ["rod.I*", "*.fv"]
"""
)


def read(text: str) -> Mechanism:
    return parse_robot(text, "arm.toml")


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


def test_text_with_a_unit_stands_for_any_number() -> None:
    robot = read(
        ARM.replace("m = 2\n", 'm = "2000 g"\nIzz = "7 kg mm2"\n').replace("fv = 0.5", 'fv = "0.5 N m s/rad"')
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
        ARM.replace('length = "m"', 'length = "mm"').replace("format = 1", "format = 1\ngravity = [0, 0, -9.81]")
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
    assert (closure.a.body, closure.b.body, closure.length) == ("right.rod", "platform", 1.5)


def test_ties_name_the_parameters_equal_legs_share() -> None:
    ties = read(LEGS).ties
    assert ties["leg.rod.Ixx"] == ("left.rod.Ixx", "right.rod.Ixx")
    assert ties["leg.motor.fv"] == ("left.motor.fv", "right.motor.fv")
    assert "leg.motor.fs" not in ties
    assert "leg.rod.m" not in ties
    assert len(ties) == 7


def test_legs_may_stand_on_a_moving_body() -> None:
    text = ARM + LEGS.partition("[[leg]]")[1] + LEGS.partition("[[leg]]")[2].partition("[[leg.closure]]")[0]
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

    joint = read(ARM + "mdh = { gamma = 10, b = 1, alpha = 20, d = 2, theta = 30, r = 3 }").joint("hinge")
    rad = np.radians([10, 20, 30])
    expected = Rot(2, rad[0]) @ Trans(2, 1) @ Rot(0, rad[1]) @ Trans(0, 2) @ Rot(2, rad[2]) @ Trans(2, 3)
    np.testing.assert_allclose(fixed(joint.placement), expected, atol=1e-15)
    joint = read(ARM + "rpy = [10, 20, 30]").joint("hinge")
    np.testing.assert_allclose(fixed(joint.placement), Rot(2, rad[2]) @ Rot(1, rad[1]) @ Rot(0, rad[0]), atol=1e-15)


@pytest.mark.parametrize(
    ("shorthand", "axes", "count"),
    [("universal", "xy", 2), ("universal", "zx", 2), ("spherical", "xyz", 3), ("spherical", "zyz", 3)],
)
def test_shorthands_expand_to_revolute_joints_about_their_axes(shorthand: str, axes: str, count: int) -> None:
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
    expected = Rotation.from_euler(axes.upper(), start, degrees=True).as_matrix()  # capitals: intrinsic
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
    ("coordinates", "order"), [(["x", "y", "z", "rx", "ry", "rz"], "XYZ"), (["z", "y", "x", "rz", "ry", "rx"], "ZYX")]
)
def test_task_coordinates_are_the_pose_of_the_platform(coordinates: list[str], order: str) -> None:
    robot = read(ARM + f'[platform]\nname = "hand"\ncoordinates = {coordinates}\n')
    assert robot.task == tuple(f"hand.{c}" for c in coordinates)
    value = {"hand.x": 0.1, "hand.y": 0.2, "hand.z": 0.3, "hand.rx": 0.4, "hand.ry": -0.5, "hand.rz": 0.6}
    pose = poses(robot, np.array([value.get(name, 0.0) for name in robot.coordinates]))["hand"]
    np.testing.assert_allclose(pose[:3, 3], [0.1, 0.2, 0.3])
    angles = [value[f"hand.r{axis.lower()}"] for axis in order]
    np.testing.assert_allclose(pose[:3, :3], Rotation.from_euler(order, angles).as_matrix(), atol=1e-15)


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
def test_bodies_may_have_some_of_the_ten_parameters(selection: str, parameters: tuple[str, ...]) -> None:
    assert read(ARM.replace("m = 2\ncom = [0.1, 0, 0]", selection)).body("link").parameters == parameters


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


def test_sources_of_values_are_kept() -> None:
    robot = read(
        ARM.replace("m = 2\n", 'm = 2\nsource = "derived"\nsources = { m = "printed" }\n')
        + 'sources = { fv = "assumed" }\n'
    )
    assert dict(robot.body("link").sources) == {"m": "printed", "com": "derived"}
    assert dict(robot.joint("hinge").sources) == {"fv": "assumed"}


def test_noise_is_in_the_units_of_the_motors() -> None:
    noise = read(ARM + '[noise]\nposition = 1\neffort = 0.2\nresolution = 0.5\ncorrelation = 0.3\nrate = "2 kHz"').noise
    assert noise.position == pytest.approx(np.pi / 180)
    assert noise.resolution == pytest.approx(np.pi / 360)
    assert (noise.effort, noise.correlation, noise.rate) == (0.2, 0.3, 2000.0)


EXTRA_JOINT = """
[[joint]]
name = "{name}"
type = "revolute"
parent = "{parent}"
child = "{child}"
"""

BAD = {  # name: (old text, new text, pattern in the message) applied to ARM or LEGS
    "unknown top-level key": (
        ARM,
        "format = 1",
        "format = 1\ngravty = [0, 0, -9.81]",
        "top level, key 'gravty'.*did you mean 'gravity'",
    ),
    "unknown body key": (ARM, "m = 2", "mas = 2", r"\[\[body\]\] 'link', key 'mas': unknown key"),
    "unknown joint key": (
        ARM,
        "actuated = true",
        "actuatd = true",
        r"\[\[joint\]\] 'hinge', key 'actuatd'.*did you mean 'actuated'",
    ),
    "unknown key in a table inside": (
        ARM,
        "actuated = true",
        "actuated = true\nlimits = { velocty = 2 }",
        "key 'limits.velocty'.*did you mean 'velocity'",
    ),
    "unknown platform key": (LEGS, "m = 1\n", "mm = 1\n", r"\[platform\], key 'mm': unknown key"),
    "unknown leg key": (LEGS, "[[leg.body]]", "[leg.extra]\n[[leg.body]]", r"\[\[leg\]\] 'leg', key 'extra'"),
    "unknown tie key": (LEGS, 'parameters = ["rod.I*", "*.fv"]', 'names = ["rod.m"]', r"\[tie\], key 'names'"),
    "unknown noise key": (ARM, "[[body]]", "[noise]\nsigma = 1\n[[body]]", r"\[noise\], key 'sigma'"),
    "unknown mdh key": (ARM, "actuated = true", "actuated = true\nmdh = { a = 1 }", "key 'mdh.a': unknown key"),
    "unknown instance key": (
        LEGS,
        "fs = 0.2",
        "fs = 0.2, fv = 1",
        r"'right' of leg 'leg', key 'fv': unknown key: nothing in the leg says '\$fv'",
    ),
    "missing placeholder value": (LEGS, ", fs = 0.2", "", r"'right' of leg 'leg', key 'fs': the leg asks for '\$fs'"),
    "placeholder outside a leg": (ARM, "m = 2", 'm = "$m"', "key 'm': expected a number"),
    "no units": (
        ARM,
        '[units]\nlength = "m"\nangle = "deg"\nmass = "kg"',
        "",
        r"\[units\], key 'length': is required but missing",
    ),
    "one unit missing": (ARM, 'angle = "deg"\n', "", r"\[units\], key 'angle': is required but missing"),
    "unknown unit": (
        ARM,
        'length = "m"',
        'length = "furlong"',
        r"\[units\], key 'length': unit 'furlong' is not known",
    ),
    "unit of another dimension": (
        ARM,
        'length = "m"',
        'length = "deg"',
        r"\[units\], key 'length': unit 'deg' measures angle",
    ),
    "wrong unit of a value": (ARM, "m = 2", 'm = "2 mm"', "key 'm'.*unit 'mm' measures length, expected mass"),
    "text without a unit": (ARM, "m = 2", 'm = "2"', "key 'm': expected a number"),
    "text for a number": (ARM, "m = 2", 'm = "heavy"', "key 'm': expected a number.*'heavy'"),
    "flag for a number": (ARM, "m = 2", "m = true", "key 'm': expected a number.*true"),
    "table for a number": (ARM, "m = 2", "m = {}", "key 'm': expected a number.*a table"),
    "number for text": (ARM, 'child = "link"', "child = 1", "key 'child': expected text, found 1"),
    "number for a flag": (ARM, "actuated = true", "actuated = 1", "key 'actuated': expected true or false"),
    "number for a table": (ARM, "values = { fv = 0.5 }", "values = 1", "key 'values': expected a table"),
    "table for tables": (ARM, "[[body]]", "[body]", r"key 'body': expected tables \[\[body\]\], found a table"),
    "text in a vector": (ARM, "[0.1, 0, 0]", '[0.1, "a", 0]', r"key 'com\[1\]': expected a number"),
    "short vector": (ARM, "[0.1, 0, 0]", "[0.1, 0]", "key 'com': expected a list of 3 numbers, found a list of 2"),
    "number for a list": (ARM, 'terms = ["fv"]', 'terms = "fv"', "key 'terms': expected a list of texts"),
    "NaN": (ARM, "m = 2", "m = nan", "key 'm': expected a finite number, found nan"),
    "infinity": (ARM, "[0.1, 0, 0]", "[-inf, 0, 0]", r"key 'com\[0\]': expected a finite number"),
    "a number too large": (ARM, "m = 2", "m = 1" + "0" * 400, "key 'm': expected a finite number"),
    "a number of 5000 digits": (ARM, "m = 2", "m = 1" + "0" * 5000, "not valid TOML"),
    "negative mass": (ARM, "m = 2", "m = -2", "key 'm': a mass cannot be negative"),
    "negative friction": (ARM, "fv = 0.5", "fv = -0.5", "key 'values.fv': viscous friction cannot be negative"),
    "missing name": (ARM, 'name = "link"\n', "", r"\[\[body\]\] number 1, key 'name': is required but missing"),
    "not a name": (ARM, 'name = "arm"', 'name = "my arm"', "key 'name': 'my arm' is not a name"),
    "missing type": (ARM, 'type = "revolute"\n', "", r"\[\[joint\]\] 'hinge', key 'type': is required but missing"),
    "unknown type": (
        ARM,
        '"revolute"',
        '"hinge"',
        "key 'type': 'hinge' is not one of revolute, prismatic, universal, spherical",
    ),
    "unknown axis": (ARM, "actuated = true", 'actuated = true\naxis = "w"', "key 'axis': 'w' is not one of x, y, z"),
    "unknown term": (ARM, '["fv"]', '["fx"]', r"key 'terms\[0\]': unknown name 'fx'.*did you mean 'f"),
    "value of a term not listed": (ARM, "fv = 0.5", "fs = 0.5", "key 'values.fs': the key 'terms' does not list 'fs'"),
    "gain of a passive joint": (ARM, "actuated = true", "gain = 2", "key 'gain': only actuated joints"),
    "negative gain": (ARM, "actuated = true", "actuated = true\ngain = -2", "key 'gain': expected a number above zero"),
    "two placements": (ARM, "actuated = true", "actuated = true\nxyz = [0, 0, 0]\nmdh = {}", "key 'mdh': place by"),
    "limits upside down": (
        ARM,
        "actuated = true",
        "actuated = true\nlimits = { position = [1, -1] }",
        "key 'limits.position': expected",
    ),
    "limit of zero": (
        ARM,
        "actuated = true",
        "actuated = true\nlimits = { effort = 0 }",
        "key 'limits.effort': expected a number above zero",
    ),
    "start outside the limits": (
        ARM,
        "actuated = true",
        "actuated = true\nstart = 9\nlimits = { position = [-1, 1] }",
        "key 'start': starts at",
    ),
    "unknown parent": (
        ARM,
        'parent = "base"',
        'parent = "bse"',
        "key 'parent': body 'bse' does not exist; did you mean 'base'",
    ),
    "unknown child": (
        ARM,
        'child = "link"',
        'child = "lnk"',
        "key 'child': body 'lnk' does not exist; did you mean 'link'",
    ),
    "dangling body": (
        ARM,
        "[[joint]]",
        '[[body]]\nname = "loose"\n[[joint]]',
        r"\[\[body\]\] 'loose', key 'name': body 'loose' hangs on no joint",
    ),
    "two parents": (
        ARM,
        "[[joint]]",
        EXTRA_JOINT.format(name="other", parent="base", child="link") + "[[joint]]",
        "key 'child': body 'link' has two parents: joints 'other' and 'hinge'",
    ),
    "ring of joints": (
        ARM,
        "[[joint]]",
        '[[body]]\nname = "a"\n[[body]]\nname = "b"\n'
        + EXTRA_JOINT.format(name="ab", parent="a", child="b")
        + EXTRA_JOINT.format(name="ba", parent="b", child="a")
        + "[[joint]]",
        "key 'parent': body 'a' is not connected to the base",
    ),
    "two bodies of one name": (
        ARM,
        "[[joint]]",
        '[[body]]\nname = "link"\n[[joint]]',
        "key 'name': body 'link' is defined twice",
    ),
    "two joints of one name": (
        ARM,
        "[[joint]]",
        '[[body]]\nname = "b"\n' + EXTRA_JOINT.format(name="hinge", parent="base", child="b") + "[[joint]]",
        "key 'name': joint 'hinge' is defined twice",
    ),
    "two legs of one name": (LEGS, 'name = "right"', 'name = "left"', "'left' is defined twice"),
    "leg body named as one outside": (
        LEGS,
        'name = "rod"',
        'name = "platform"',
        "already has a body 'platform' outside the leg",
    ),
    "body named base": (ARM, '"link"', '"base"', "'base' is the fixed body"),
    "leg without instances": (
        LEGS,
        LEGS[LEGS.index("instances") : LEGS.index("[[leg.body]]")],
        "",
        r"\[\[leg\]\] 'leg', key 'instances': a leg needs at least one",
    ),
    "no motors": (ARM, "actuated = true", "", "arm.toml: no joint is actuated"),
    "no joints": (HEAD, "format", "format", "top level, key 'joint': the robot has no joints"),
    "unknown closure kind": (LEGS, '"distance"', '"rope"', "key 'kind': 'rope' is not one of point"),
    "distance without a length": (
        LEGS,
        "length = 1.5",
        "",
        r"\[\[leg.closure\]\] 'tip' of left, key 'length': is required",
    ),
    "length of a point": (LEGS, '"distance"', '"point"', "key 'length': unknown key"),
    "closure without an end": (LEGS, 'a = { body = "rod" }', "", "key 'a': is required but missing"),
    "closure on an unknown body": (
        LEGS,
        'a = { body = "rod" }',
        'a = { body = "rad" }',
        "key 'a.body': body 'rad' does not exist; did you mean 'rod'",
    ),
    "coupling of an unknown joint": (
        LEGS,
        "[tie]",
        '[[closure]]\nname = "c"\nkind = "coupling"\ncoefficients = { "left.motr" = 1 }\n[tie]',
        "key 'coefficients.left.motr': joint 'left.motr' does not exist; did you mean 'left.motor'",
    ),
    "coupling of nothing": (
        LEGS,
        "[tie]",
        '[[closure]]\nname = "c"\nkind = "coupling"\n[tie]',
        "key 'coefficients': a coupling needs",
    ),
    "tie that matches nothing": (
        LEGS,
        '"*.fv"',
        '"rodd.m"',
        r"\[tie\], key 'parameters\[1\]': no parameter of a leg matches 'rodd.m'",
    ),
    "two selections": (
        ARM,
        "m = 2",
        'm = 2\nsymmetric = "x"\nzero = []',
        "key 'symmetric': 'zero' and 'symmetric' both select",
    ),
    "value of a structural zero": (ARM, "m = 2", 'm = 2\nsymmetric = "z"', "key 'com': gives mx = 0.2"),
    "centre of mass twice": (ARM, "m = 2", "m = 2\nmx = 1", "key 'com': both 'com' and 'mx'"),
    "centre of mass without mass": (ARM, "m = 2\n", "", "key 'com': a centre of mass needs the mass"),
    "inertia about com without mass": (
        ARM,
        "m = 2\ncom = [0.1, 0, 0]",
        'about = "com"\nIxx = 1',
        "key 'about': inertia about the centre of mass needs a mass",
    ),
    "unknown source": (
        ARM,
        "m = 2",
        'm = 2\nsource = "guessed"',
        "key 'source': 'guessed' is not one of printed, derived, assumed",
    ),
    "source of a value not there": (
        ARM,
        "m = 2",
        'm = 2\nsources = { Ixx = "printed" }',
        "key 'sources.Ixx': unknown key",
    ),
    "unknown task coordinate": (
        LEGS,
        '["x", "y"]',
        '["x", "w"]',
        r"\[platform\], key 'coordinates\[1\]': unknown name 'w'",
    ),
    "task coordinate twice": (LEGS, '["x", "y"]', '["x", "x"]', r"key 'coordinates\[1\]': 'x' is listed twice"),
    "angles before translations": (
        LEGS,
        '["x", "y"]',
        '["rz", "y"]',
        "key 'coordinates': list translations before angles",
    ),
    "start of another coordinate": (LEGS, "{ y = 1 }", "{ z = 1 }", "key 'start.z': unknown key"),
    "effort of a task coordinate": (
        LEGS,
        "m = 1\n",
        "m = 1\nlimits = { x = { effort = 1 } }\n",
        "key 'limits.x.effort': unknown key",
    ),
    "known without a value": (
        ARM,
        "[[joint]]",
        '[[payload]]\nname = "p"\nknown = ["m"]\n[[joint]]',
        r"\[\[payload\]\] 'p', key 'known\[0\]'",
    ),
    "payload on nothing": (
        ARM,
        "[[joint]]",
        '[[payload]]\nname = "p"\nbody = "hand"\n[[joint]]',
        r"\[\[payload\]\] 'p', key 'body': body 'hand' does not exist",
    ),
    "motor on a universal joint": (
        ARM,
        '"revolute"',
        '"universal"',
        r"\[\[joint\]\] 'hinge', key 'actuated': unknown key",
    ),
    "correlation of one": (ARM, "[[body]]", "[noise]\ncorrelation = 1\n[[body]]", r"\[noise\], key 'correlation'"),
    "format of tomorrow": (
        ARM,
        "format = 1",
        "format = 2\nnews = 1",
        "key 'format': format 2 is not supported; this version of Gough reads format 1",
    ),
    "format as text": (ARM, "format = 1", 'format = "one"', "key 'format': expected a number"),
    "no format": (ARM, "format = 1", "", "key 'format': is required but missing"),
    "not TOML": (ARM, "m = 2", "m = = 2", r"arm.toml: not valid TOML: .*line 11"),
    "a key twice": (ARM, "m = 2", "m = 2\nm = 3", r"arm.toml: not valid TOML: .*line 12"),
    "nested too deeply": (ARM, "m = 2", "m = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    "dotted too deeply": (LEGS, 'name = "rod"', 'name = "rod"\nm.' + "a." * 5000 + "a = 1", "nested too deeply"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_gives_one_error_that_names_file_table_and_key(case: str) -> None:
    text, old, new, message = BAD[case]
    assert old in text
    with pytest.raises(InvalidMechanism, match=message) as caught:
        read(text.replace(old, new, 1))
    assert str(caught.value).startswith("arm.toml: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_the_files_the_errors_start_from_are_right() -> None:
    assert read(ARM).name == "arm"
    assert read(LEGS).name == "arm"


def test_wrong_axes_of_a_shorthand_are_refused() -> None:
    text = ARM.replace('"revolute"', '"universal"').replace("actuated = true", "")
    for axes, start in (("xx", [0, 0]), ("xyz", [0, 0]), ("xw", [0, 0])):
        with pytest.raises(InvalidMechanism, match="key 'axes': expected 2 of the axes"):
            read(text + f'axes = "{axes}"\nstart = {start}')
    with pytest.raises(InvalidMechanism, match="key 'start': expected a list of 2 numbers"):
        read(text + "start = 3")
    with pytest.raises(InvalidMechanism, match="key 'names': expected 2 names, found 1"):
        read(text + 'names = ["a"]')
    with pytest.raises(InvalidMechanism, match=r"key 'names\[0\]': 'a b' is not a name"):
        read(text + 'names = ["a b", "c"]')


def test_errors_carry_file_table_and_key() -> None:
    with pytest.raises(InvalidMechanism) as caught:
        read(ARM.replace("m = 2", "m = nan"))
    assert caught.value.numbers == {"file": "arm.toml", "table": "[[body]] 'link'", "key": "m"}


def test_empty_missing_binary_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidMechanism, match="the file is empty"):
        read(" \n")
    with pytest.raises(
        InvalidMechanism, match=r"neither a robot file nor a bundled robot \(delta, .*did you mean 'palida'"
    ):
        load_robot("palido")
    with pytest.raises(InvalidMechanism, match="neither a robot file nor a bundled robot"):
        load_robot(tmp_path / "none.toml")
    with pytest.raises(InvalidMechanism, match="neither a robot file nor a bundled robot"):
        load_robot(tmp_path)
    with pytest.raises(InvalidMechanism, match=r"cannot be read|neither a robot file"):
        load_robot("a\0b")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InvalidMechanism, match="not a text file in UTF-8"):
        load_robot(tmp_path / "binary.toml")
    (tmp_path / "huge.toml").write_bytes(b"# " + b"x" * 10_000_000)
    with pytest.raises(InvalidMechanism, match=r"10\.0 MB is too large for a robot file \(at most 1 MB\)"):
        load_robot(tmp_path / "huge.toml")
    with pytest.raises(InvalidMechanism, match="too large"):
        read("#" * 1_000_001)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "arm.toml"
    path.write_text(ARM)
    assert load_robot(path).source == str(path)
    assert load_robot(str(path)).name == "arm"


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
        "upv",
    ]
    for name, title in robots:
        robot = load_robot(name)
        assert (robot.name, robot.title) == (name, title)
        assert 10 < len(title) < 100
        assert robot.reference
        assert robot.source == f"gough/robots/{name}.toml"
