"""The JSON Schema of robot files: it accepts what the reader accepts; both refuse plain errors."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_bad_robot_files import BAD

from gough.core.errors import InvalidMechanism
from gough.mechanism import bundled_robots, robot_text
from gough.mechanism.reader import _read_mechanism
from gough.mechanism.schema import SOURCE_KEYS, json_schema
from gough.mechanism.toml_table import TomlTable

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / "examples" / "robots").glob("*.toml"),
    *(ROOT / "tests" / "oracles" / "robots").glob("*.toml"),
    ROOT / "examples" / "linear_delta.toml",
]
TEXTS = {name: robot_text(name)[0] for name, _ in bundled_robots()} | {
    path.stem: path.read_text(encoding="utf-8") for path in FILES
}
CHECK = jsonschema.Draft202012Validator(json_schema())
# What a schema can see of a wrong file.
PLAIN = (
    "unknown key",
    "expected a number (",
    "expected text",
    "expected a list of",
    "is not one of",
    "expected true",
    "is required but missing",
    "is not a name",
    "expected tables",
    "expected a table",
)
# What depends on other keys of the table.
BEYOND = {
    "unknown instance key",
    "length of a point",
    "closure without an end",
    "source of a length not there",
    "source of a value not there",
    "start of another coordinate",
    "motor on a universal joint",
}


def test_the_schema_is_valid_and_the_documentation_has_it() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    written = (ROOT / "docs" / "robot.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == json_schema(), (
        "write it again: gough schema > docs/robot.schema.json"
    )


@pytest.mark.parametrize("name", TEXTS)
def test_every_robot_file_fits(name: str) -> None:
    CHECK.validate(tomllib.loads(TEXTS[name]))


@pytest.mark.parametrize(
    "case",
    [
        case
        for case, content in BAD.items()
        if case not in BEYOND and any(text in content[3].replace("\\", "") for text in PLAIN)
    ],
)
def test_a_file_that_is_plainly_wrong_does_not_fit(case: str) -> None:
    text, old, new, _ = BAD[case]
    try:
        data = tomllib.loads(text.replace(old, new, 1))
    except tomllib.TOMLDecodeError:
        return
    assert not CHECK.is_valid(data)


ALL: dict[str, Any] = {
    "format": 1,
    "name": "all",
    "title": "t",
    "reference": "r",
    "gravity": [0, 0, -9.81],
    "redundant": False,
    "units": {"length": "m", "angle": "rad", "mass": "kg"},
    "platform": {
        "name": "plate",
        "coordinates": ["x"],
        "start": {"x": 0.0},
        "limits": {
            "x": {"position": [-1, 1], "velocity": 1, "acceleration": 1},
            "translation": {"velocity": 1},
        },
        "m": 1.0,
        "com": [0, 0, 0],
        "about": "com",
        "Ixx": 1.0,
    },
    "body": [{"name": "arm", "m": 1.0, "zero": ["Ixy"], "source": "assumed"}],
    "joint": [
        {
            "name": "hinge",
            "type": "revolute",
            "parent": "base",
            "child": "arm",
            "xyz": [0, 0, 0],
            "rpy": [0, 0, 0],
            "axis": "z",
            "offset": 0.1,
            "start": 0.0,
            "terms": ["fv"],
            "values": {"fv": 0.1},
            "limits": {"position": [-1, 1], "effort": 3},
            "actuated": False,
        }
    ],
    "closure": [
        {
            "name": "link",
            "kind": "length",
            "a": {"body": "plate"},
            "b": {"body": "arm", "xyz": [1, 0, 0]},
            "coefficients": {"hinge": 0.1},
            "constant": 0.1,
        }
    ],
    "transmission": [
        {
            "name": "gear",
            "joints": ["hinge"],
            "matrix": [[0.1]],
            "positions": "joints",
            "motor": [{"name": "motor", "type": "revolute", "gain": 2.0}],
        }
    ],
    "force": [
        {
            "name": "spring",
            "a": {"body": "base", "polar": [1, 0.2]},
            "b": {"body": "plate"},
            "rest": 0.2,
            "terms": ["k"],
            "actuated": False,
        }
    ],
    "leg": [
        {
            "name": "leg",
            "instances": [{"name": "one", "base": {"mdh": {"d": 0.2}}, "mass": 2.0}],
            "body": [{"name": "rod", "m": "$mass", "symmetric": "z"}],
            "joint": [
                {
                    "name": "cardan",
                    "type": "universal",
                    "parent": "base",
                    "child": "rod",
                    "axes": "xy",
                    "names": ["a", "b"],
                    "start": [0.0, 0.0],
                }
            ],
        }
    ],
    "term": [
        {
            "name": "wave",
            "label": "wave",
            "unit": "N m",
            "expression": "sin(2*pi*q/pitch)",
            "coulomb": 0.0,
            "constants": {
                "pitch": {"start": "0.1 rad", "fit": True, "low": "0.05 rad", "high": "0.2 rad"}
            },
            "nonnegative": False,
            "friction": False,
        }
    ],
    "payload": [{"name": "load", "body": "plate", "m": 1.0, "known": ["m"], "parameters": ["m"]}],
    "tie": {"parameters": ["rod.*"]},
    "uncertainty": [{"relative": 0.1, "parameters": ["*"]}],
    "noise": {
        "position": 1e-5,
        "effort": 0.1,
        "correlation": 0.0,
        "resolution": 1e-5,
        "rate": 1000,
    },
}


def read(data: dict[str, Any]) -> None:
    _read_mechanism(TomlTable(data, "top level", "all.toml"))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of every value that a file gives to a key."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        if isinstance(key, str) and "mass" not in (key, path[-1:]):
            yield (*path, key)
        yield from places(inner, (*path, key))


def test_the_file_with_every_table_fits_and_is_read() -> None:
    assert set(ALL) == set(json_schema()["properties"]) - set(SOURCE_KEYS)
    CHECK.validate(ALL)
    read(copy.deepcopy(ALL))


@pytest.mark.parametrize("path", list(places(ALL)), ids=lambda path: ".".join(map(str, path)))
def test_a_value_of_the_wrong_type_is_refused_by_both(path: tuple[Any, ...]) -> None:
    data = copy.deepcopy(ALL)
    inside: Any = data
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = 1.5 if isinstance(inside[path[-1]], bool) else True
    assert not CHECK.is_valid(data)
    with pytest.raises(InvalidMechanism):
        read(data)


@pytest.mark.parametrize(
    "path",
    sorted({path[:-1] for path in places(ALL)}, key=str),
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_key_nobody_knows_is_refused_by_both(path: tuple[Any, ...]) -> None:
    if path[-2:-1] == ("instances",):
        pytest.skip("keys of instances are the leg's")
    data = copy.deepcopy(ALL)
    inside: Any = data
    for key in path:
        inside = inside[key]
    inside["nonsense"] = True
    assert not CHECK.is_valid(data)
    with pytest.raises(InvalidMechanism):
        read(data)
