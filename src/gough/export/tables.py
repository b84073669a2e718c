"""Identified parameters as JSON or TOML: name, value, standard deviation, unit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gough.identification import Identification


def to_table(identification: Identification) -> dict[str, Any]:
    """Return what both formats hold, SI units.

    `parameters` are the estimate's, each with `name, value, std, unit`; `drive_gains` and `payload` those found, by
    name, with `value` and, where it was estimated, `std`; `bodies` (ten numbers in the order `m mx my mz Ixx Ixy Iyy
    Ixz Iyz Izz` about the body's frame) and `joint_terms` the physically consistent ones, if that estimate was made.
    """
    result = identification.to_dict()
    return {key: result[key] for key in ("robot", "estimator", "verdict", "parameters", "drive_gains", "payload")} | {
        "bodies": {name: [float(v) for v in values] for name, values in identification.bodies.items()},
        "joint_terms": {name: float(v) for name, v in identification.joint_terms.items()},
    }


def to_json(identification: Identification) -> str:
    """Return the parameters as JSON, see `to_table`."""
    return json.dumps(to_table(identification), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_toml(identification: Identification) -> str:
    """Return the parameters as TOML, see `to_table`."""
    return toml_text(to_table(identification))


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML: plain values first, then mappings as tables, lists of mappings as arrays of tables."""
    plain, tables = [], []
    for key, value in content.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_toml(item)}" for name, item in value.items())]
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                tables += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {_toml(v)}" for name, v in item.items())]
        else:
            plain.append(f"{_key(key)} = {_toml(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON strings, but TOML bars DEL
