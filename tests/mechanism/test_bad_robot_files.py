"""One clear error, naming file, table and key, for every way to get a robot file wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from robot_texts import ARM, HEAD, LEGS, read

from gough.core.errors import InvalidMechanism
from gough.mechanism import (
    Body,
    Closure,
    Frame,
    Joint,
    Mechanism,
    Payload,
    load_robot,
    parse_robot,
    robot_text,
)

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
    "unknown leg key": (
        LEGS,
        "[[leg.body]]",
        "[leg.extra]\n[[leg.body]]",
        r"\[\[leg\]\] 'leg', key 'extra'",
    ),
    "unknown tie key": (
        LEGS,
        'parameters = ["rod.I*", "*.fv"]',
        'names = ["rod.m"]',
        r"\[tie\], key 'names'",
    ),
    "unknown noise key": (
        ARM,
        "[[body]]",
        "[noise]\nsigma = 1\n[[body]]",
        r"\[noise\], key 'sigma'",
    ),
    "unknown mdh key": (
        ARM,
        "actuated = true",
        "actuated = true\nmdh = { a = 1 }",
        "key 'mdh.a': unknown key",
    ),
    "unknown instance key": (
        LEGS,
        "fs = 0.2",
        "fs = 0.2, fv = 1",
        r"'right' of leg 'leg', key 'fv': unknown key: the leg does not use '\$fv'",
    ),
    "missing placeholder value": (
        LEGS,
        ", fs = 0.2",
        "",
        r"'right' of leg 'leg', key 'fs': the leg uses '\$fs'",
    ),
    "placeholder outside a leg": (ARM, "m = 2", 'm = "$m"', "key 'm': expected a number"),
    "no units": (
        ARM,
        '[units]\nlength = "m"\nangle = "deg"\nmass = "kg"',
        "",
        r"\[units\], key 'length': is required but missing",
    ),
    "one unit missing": (
        ARM,
        'angle = "deg"\n',
        "",
        r"\[units\], key 'angle': is required but missing",
    ),
    "unknown unit": (
        ARM,
        'length = "m"',
        'length = "furlong"',
        r"\[units\], key 'length': 'furlong' is not one of m, mm",
    ),
    "unit of another dimension": (
        ARM,
        'length = "m"',
        'length = "deg"',
        r"\[units\], key 'length': 'deg' is not one of m, mm",
    ),
    "wrong unit of a value": (
        ARM,
        "m = 2",
        'm = "2 mm"',
        "key 'm'.*unit 'mm' measures length, expected mass",
    ),
    "text without a unit": (ARM, "m = 2", 'm = "2"', "key 'm': expected a number"),
    "text for a number": (ARM, "m = 2", 'm = "heavy"', "key 'm': expected a number.*'heavy'"),
    "flag for a number": (ARM, "m = 2", "m = true", "key 'm': expected a number.*true"),
    "table for a number": (ARM, "m = 2", "m = {}", "key 'm': expected a number.*a table"),
    "number for text": (ARM, 'child = "link"', "child = 1", "key 'child': expected text, found 1"),
    "number for a flag": (
        ARM,
        "actuated = true",
        "actuated = 1",
        "key 'actuated': expected true or false",
    ),
    "number for a table": (
        ARM,
        "values = { fv = 0.5 }",
        "values = 1",
        "key 'values': expected a table",
    ),
    "table for tables": (
        ARM,
        "[[body]]",
        "[body]",
        r"key 'body': expected tables \[\[body\]\], found a table",
    ),
    "text in a vector": (ARM, "[0.1, 0, 0]", '[0.1, "a", 0]', r"key 'com\[1\]': expected a number"),
    "short vector": (
        ARM,
        "[0.1, 0, 0]",
        "[0.1, 0]",
        "key 'com': expected a list of 3 numbers, found a list of 2",
    ),
    "number for a list": (
        ARM,
        'terms = ["fv"]',
        'terms = "fv"',
        "key 'terms': expected a list of texts",
    ),
    "NaN": (ARM, "m = 2", "m = nan", "key 'm': expected a finite number, found nan"),
    "infinity": (ARM, "[0.1, 0, 0]", "[-inf, 0, 0]", r"key 'com\[0\]': expected a finite number"),
    "a number for no robot": (
        ARM,
        "[0.1, 0, 0]",
        "[1e300, 0, 0]",
        r"key 'com\[0\]': 1e\+300 is too large for a robot",
    ),
    "a number too large": (ARM, "m = 2", "m = 1" + "0" * 350, "a number of more than 300 digits"),
    "a number of 5000 digits": (ARM, "m = 2", "m = 1" + "0" * 5000, "not valid TOML"),
    "negative mass": (ARM, "m = 2", "m = -2", "key 'm': a mass cannot be negative"),
    "negative friction": (
        ARM,
        "fv = 0.5",
        "fv = -0.5",
        "key 'values.fv': viscous friction cannot be negative",
    ),
    "missing name": (
        ARM,
        'name = "link"\n',
        "",
        r"\[\[body\]\] number 1, key 'name': is required but missing",
    ),
    "not a name": (ARM, 'name = "arm"', 'name = "my arm"', "key 'name': 'my arm' is not a name"),
    "missing type": (
        ARM,
        'type = "revolute"\n',
        "",
        r"\[\[joint\]\] 'hinge', key 'type': is required but missing",
    ),
    "unknown type": (
        ARM,
        '"revolute"',
        '"hinge"',
        "key 'type': 'hinge' is not one of revolute, prismatic, fixed, universal, spherical",
    ),
    "unknown axis": (
        ARM,
        "actuated = true",
        'actuated = true\naxis = "w"',
        "key 'axis': 'w' is not one of x, y, z",
    ),
    "unknown term": (
        ARM,
        '["fv"]',
        '["fx"]',
        r"key 'terms\[0\]': unknown name 'fx'.*did you mean 'f",
    ),
    "value of a term not listed": (
        ARM,
        "fv = 0.5",
        "fs = 0.5",
        "key 'values.fs': the key 'terms' does not list 'fs'",
    ),
    "gain of a passive joint": (
        ARM,
        "actuated = true",
        "gain = 2",
        "key 'gain': only actuated joints",
    ),
    "negative gain": (
        ARM,
        "actuated = true",
        "actuated = true\ngain = -2",
        "key 'gain': expected a number above zero",
    ),
    "two placements": (
        ARM,
        "actuated = true",
        "actuated = true\nxyz = [0, 0, 0]\nmdh = {}",
        "key 'mdh': place by",
    ),
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
        '[[body]]\nname = "b"\n'
        + EXTRA_JOINT.format(name="hinge", parent="base", child="b")
        + "[[joint]]",
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
    "no motors": (ARM, "actuated = true", "", "top level, key 'joint': no joint is actuated"),
    "no motors but noise in their unit": (
        ARM,
        'actuated = true\nterms = ["fv"]\nvalues = { fv = 0.5 }\n',
        '[noise]\nposition = "1 mrad"\n',
        "top level, key 'joint': no joint is actuated",
    ),
    "no joints": (HEAD, "format", "format", "top level, key 'joint': the robot has no joints"),
    "unknown closure kind": (
        LEGS,
        '"distance"',
        '"rope"',
        "key 'kind': 'rope' is not one of point",
    ),
    "distance without a length": (
        LEGS,
        "length = 1.5",
        "",
        r"\[\[leg.closure\]\] 'tip' of left, key 'length': is required",
    ),
    "length of a point": (LEGS, '"distance"', '"point"', "key 'length': unknown key"),
    "closure without an end": (
        LEGS,
        'a = { body = "rod" }',
        "",
        "key 'a': is required but missing",
    ),
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
    "tied parameter named as one of a leg": (
        LEGS,
        'name = "left"',
        'name = "leg"',
        r"\[tie\], key 'parameters': the tied parameter 'leg\.motor\.fv' has the name of a "
        r"parameter of the leg 'leg'",
    ),
    "body named as payloads are": (
        ARM,
        '"link"',
        '"payload"',
        r"\[\[body\]\] 'payload', key 'name': 'payload' is reserved",
    ),
    "joint named as payloads are": (
        ARM,
        '"hinge"',
        '"payload"',
        r"\[\[joint\]\] 'payload', key 'name': 'payload' is reserved",
    ),
    "kind of leg named as payloads are": (
        LEGS,
        '[[leg]]\nname = "leg"',
        '[[leg]]\nname = "payload"',
        r"\[\[leg\]\] 'payload', key 'name': 'payload' is reserved",
    ),
    "leg named as payloads are": (
        LEGS,
        '"left"',
        '"payload"',
        r"\[\[leg\]\] 'leg', key 'name': 'payload' is reserved",
    ),
    "payload on the base": (
        LEGS,
        "[tie]",
        '[[payload]]\nname = "a"\n[[payload]]\nname = "b"\nbody = "base"\n[tie]',
        r"\[\[payload\]\] 'b', key 'body': payload 'b' is fixed to 'base', which is no moving body",
    ),
    "two selections": (
        ARM,
        "m = 2",
        'm = 2\nsymmetric = "x"\nzero = []',
        "key 'symmetric': 'zero' and 'symmetric' both select",
    ),
    "value of a structural zero": (
        ARM,
        "m = 2",
        'm = 2\nsymmetric = "z"',
        "key 'com': gives mx = 0.2",
    ),
    "centre of mass twice": (ARM, "m = 2", "m = 2\nmx = 1", "key 'com': both 'com' and 'mx'"),
    "centre of mass without mass": (
        ARM,
        "m = 2\n",
        "",
        "key 'com': a centre of mass needs the mass",
    ),
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
    "unknown source of noise": (
        ARM,
        "[[body]]",
        '[noise]\nrate = 500\nsource = "guessed"\n[[body]]',
        r"\[noise\], key 'source': 'guessed' is not one of",
    ),
    "source of a length not there": (
        LEGS,
        "length = 1.5",
        'length = 1.5\nsources = { lenght = "printed" }',
        "key 'sources.lenght': unknown key; did you mean 'length'",
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
    "task coordinate twice": (
        LEGS,
        '["x", "y"]',
        '["x", "x"]',
        r"key 'coordinates\[1\]': 'x' is listed twice",
    ),
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
    "correlation of one": (
        ARM,
        "[[body]]",
        "[noise]\ncorrelation = 1\n[[body]]",
        r"\[noise\], key 'correlation'",
    ),
    "format of tomorrow": (
        ARM,
        "format = 1",
        "format = 2\nnews = 1",
        "key 'format': format 2 is not supported; this version of Gough reads format 1",
    ),
    "uncertainty of no parameter": (
        ARM,
        "[[body]]",
        '[[uncertainty]]\nrelative = 0.1\nparameters = ["link.m", "links.m"]\n\n[[body]]',
        r"uncertainty.*parameters\[1\].*no parameter matches 'links.m'.*did you mean 'link.m'",
    ),
    "uncertainty below zero": (
        ARM,
        "[[body]]",
        "[[uncertainty]]\nrelative = -0.1\n\n[[body]]",
        "uncertainty.*key 'relative'",
    ),
    "format as text": (ARM, "format = 1", 'format = "one"', "key 'format': expected a number"),
    "no format": (ARM, "format = 1", "", "key 'format': is required but missing"),
    "not TOML": (ARM, "m = 2", "m = = 2", r"arm.toml: not valid TOML: .*line 11"),
    "a key twice": (ARM, "m = 2", "m = 2\nm = 3", r"arm.toml: not valid TOML: .*line 12"),
    "nested too deeply": (
        ARM,
        "m = 2",
        "m = " + "[" * 5000 + "]" * 5000,
        "nested more than 60 deep",
    ),
    "dotted too deeply": (
        LEGS,
        'name = "rod"',
        'name = "rod"\nm.' + "a." * 5000 + "a = 1",
        "more than 60 parts",
    ),
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


def test_the_uncertainty_of_a_file_is_read_in_its_order() -> None:
    tables = """
[[uncertainty]]
relative = 0.1

[[uncertainty]]
relative = 0.005
parameters = ["link.m", "*.fv"]
"""
    expected = (("*", 0.1), ("link.m", 0.005), ("*.fv", 0.005))
    assert read(ARM + tables).uncertainty == expected
    assert read(ARM).uncertainty == ()


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
        InvalidMechanism, match=r"neither a robot file nor a bundled robot; did you mean 'palida'"
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
    with pytest.raises(
        InvalidMechanism, match=r"10\.0 MB is too large for a robot file \(at most 1 MB\)"
    ):
        load_robot(tmp_path / "huge.toml")
    with pytest.raises(InvalidMechanism, match="too large"):
        read("#" * 1_000_001)


def test_an_inertia_that_comes_from_the_centre_of_mass_says_so() -> None:
    text = robot_text("five_bar")[0]
    old = 'com = [0.11, 0, 0]\nabout = "com"\nIxx = 4e-4\nIyy = 5e-3\n'
    assert old in text
    planar = text.replace(old, 'com = [1, 0, 0]\nabout = "com"\nparameters = ["m", "mx", "Izz"]\n')
    with pytest.raises(
        InvalidMechanism, match=r"gives Iyy = 0\.8 .*it comes from 'com': leave out 'parameters'"
    ):
        parse_robot(planar, "mine.toml")


ARM_JOINT = Joint(name="hinge", kind="revolute", parent="base", child="link", actuated=True)
ROD = Closure(
    name="rod", kind="distance", a=Frame(body="link"), b=Frame(body="base"), values={"length": 1.0}
)


@pytest.mark.parametrize(
    ("parts", "part", "key", "message"),
    [
        (
            {"joints": [replace(ARM_JOINT, child="lnik")]},
            "joint",
            "child",
            "'lnik' is not known; did you mean 'link'",
        ),
        (
            {"joints": [replace(ARM_JOINT, parent="bass")]},
            "joint",
            "parent",
            "'bass' is not known; did you mean 'base'",
        ),
        ({"joints": [replace(ARM_JOINT, kind="ball")]}, "joint", "kind", "'ball' is not known"),
        (
            {"joints": [replace(ARM_JOINT, terms=("fx",))]},
            "joint",
            "terms",
            "'fx' is not known; did you mean 'fv'",
        ),
        (
            {"joints": [replace(ARM_JOINT, values={"fx": 1.0})]},
            "joint",
            "terms",
            "'fx' is not known",
        ),
        ({"joints": [ARM_JOINT, ARM_JOINT]}, "joint", "name", "'hinge' is defined twice"),
        (
            {"bodies": [Body(name="link"), Body(name="link")]},
            "body",
            "name",
            "'link' is defined twice",
        ),
        (
            {"bodies": [Body(name="link", parameters=("mass",))]},
            "body",
            "parameters",
            "'mass' is not known",
        ),
        (
            {"bodies": [Body(name="link", parameters=("m",), values={"Ixx": 1.0})]},
            "body",
            "values",
            "'Ixx' is not known",
        ),
        ({"closures": [ROD, ROD]}, "closure", "name", "'rod' is defined twice"),
        ({"closures": [replace(ROD, b=Frame(body="lnik"))]}, "closure", "b", "'lnik' is not known"),
        (
            {"closures": [replace(ROD, b=None)]},
            "closure",
            "kind",
            "distance needs two frames and nothing else",
        ),
        ({"closures": [replace(ROD, values={})]}, "closure", "length", "needs a positive length"),
        (
            {"closures": [Closure(name="gear", kind="coupling", coefficients={"hing": 1.0})]},
            "closure",
            "coefficients",
            "'hing' is not known; did you mean 'hinge'",
        ),
        (
            {"payloads": [Payload(name="load", body="link", parameters=("mass",))]},
            "payload",
            "parameters",
            "'mass' is not",
        ),
        ({"platform": "plate"}, "robot", "platform", "'plate' is not known"),
    ],
)
def test_robots_that_no_robot_file_describes_are_checked_too(
    parts: dict[str, Any], part: str, key: str, message: str
) -> None:
    with pytest.raises(InvalidMechanism, match=message) as caught:
        Mechanism(**{"name": "arm", "bodies": [Body(name="link")], "joints": [ARM_JOINT], **parts})
    assert (caught.value.numbers["part"], caught.value.numbers["key"]) == (part, key)


@pytest.mark.parametrize("axis", [(0.0, 0.0, 0.0), "w"])
def test_an_axis_needs_a_direction(axis: Any) -> None:
    with pytest.raises(InvalidMechanism, match="joint 'hinge' has an axis without direction"):
        replace(ARM_JOINT, axis=axis)
