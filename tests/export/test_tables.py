"""Tables: read back by Python's own readers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable

import numpy as np
import pytest
from results import result_with

from gough.core.documents import toml_text
from gough.core.parameters import ParameterTable
from gough.export import EXPORTS
from gough.identification import Identification

FORMATS = pytest.mark.parametrize(
    ("format", "read"), [("json", json.loads), ("toml", tomllib.loads)]
)


def written(format: str, result: Identification) -> str:
    (text,) = EXPORTS[format].write(None, result, "parameters").values()
    return text


def read_parameters(content: dict) -> ParameterTable:
    rows = content["parameters"]
    return ParameterTable(
        names=tuple(row["name"] for row in rows),
        values=np.array([row["value"] for row in rows]),
        units=tuple(row["unit"] for row in rows),
        std=np.array([row["std"] for row in rows]),
    )


@FORMATS
def test_parameters_come_back_to_the_last_digit(format: str, read: Callable) -> None:
    result = result_with(std=[1 / 3, 2e-17, 5e100])
    content = read(written(format, result))
    table = read_parameters(content)
    estimate = result.estimate
    assert table.names == estimate.parameters
    assert table.units == estimate.units
    np.testing.assert_array_equal(table.values, estimate.values)
    np.testing.assert_array_equal(table.std, estimate.std)
    assert content["robot"] == result.robot
    assert content["estimator"] == result.estimator
    assert content["notices"] == [notice.to_dict() for notice in result.notices]


@FORMATS
def test_gains_and_bodies_come_back(format: str, read: Callable) -> None:
    result = result_with(
        nominal_gains={"left.motor": 2.5},
        bodies={"left.rod": tuple(np.arange(10) / 7)},
        joint_terms={"left.motor.fv": 0.1},
    )
    content = read(written(format, result))
    assert content["drive_gains"] == {"left.motor": {"value": 2.5}}
    assert content["bodies"] == {"left.rod": [k / 7 for k in range(10)]}
    assert content["joint_terms"] == {"left.motor.fv": 0.1}


@pytest.mark.parametrize(
    "text", ['a"b\\c', "line\nbreak\ttab", "\x00\x1f\x7f", "ünï 🤖", "<script>", "", "a.b c"]
)
def test_any_text_survives_toml(text: str) -> None:
    content = {
        "text": text,
        text: 1.5,
        "list": [text, text],
        "table": {text: text},
        "rows": [{text: text}],
    }
    assert tomllib.loads(toml_text(content)) == content


@pytest.mark.parametrize(
    "value", [True, False, 3, -0.0, 1e300, 5e-324, 1e16, [1, 2.5], {"a": [1.0], "b": {}}, []]
)
def test_any_value_survives_toml(value: object) -> None:
    assert tomllib.loads(toml_text({"plain": 1, "value": value})) == {"plain": 1, "value": value}
