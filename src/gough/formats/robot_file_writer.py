"""The text of a robot file from a mechanism; legs that repeat are written once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from gough.core.documents import toml_value
from gough.formats.legs import Leg, find_legs, leg_table
from gough.formats.robot_tables import (
    Table,
    closure_table,
    inertia_table,
    joint_table,
    plain_number,
    platform_table,
)
from gough.mechanism.types import Mechanism

COMMENT_WIDTH = 110  # characters
_ARRAYS = ("body", "joint", "leg", "closure")  # written as [[...]]


def robot_file(mechanism: Mechanism, notes: Sequence[str]) -> tuple[str, dict[str, str], str]:
    """Return a mechanism as a robot file.

    Returns:
        The text; the full names of elements of legs by their names in
        the mechanism; and a note about these, empty without legs.
    """
    bodies = {body.name: body for body in mechanism.bodies}
    joints = {joint.name: joint for joint in mechanism.joints}
    legs = find_legs(mechanism)
    full_names = _full_names(legs)
    closures = list(mechanism.closures)
    leg_tables = []
    for n, leg in enumerate(legs):
        table, leg_closures = leg_table(leg, legs, mechanism)
        leg_tables.append({"name": f"leg_{chr(97 + n)}" if n else "leg", **table})
        closures = [closure for closure in closures if closure not in leg_closures]
    content: Table = {
        "format": 1,
        "name": mechanism.name,
        "title": mechanism.title,
        "reference": mechanism.reference,
        "gravity": [plain_number(g) for g in mechanism.gravity],
        "redundant": mechanism.redundant or None,
        "units": {"length": "m", "angle": "deg", "mass": "kg"},
    }
    if mechanism.platform is not None:
        content["platform"] = platform_table(mechanism, bodies[mechanism.platform])
    content |= {"body": [], "joint": [], "leg": leg_tables, "closure": []}
    for joint in mechanism.joints:
        if joint.name in full_names or joint.virtual:
            continue
        content["body"].append({"name": joint.child, **inertia_table(bodies[joint.child])})
        content["joint"].append(joint_table(joint, full_names, joint.name))
    for closure in closures:
        content["closure"].append(closure_table(closure, full_names, closure.name, joints))
    note = _leg_note(legs, full_names)
    comments = _comments((mechanism.reference, *notes, note))
    return (
        "\n".join([*comments, *_lines(_without_empty(content))]) + "\n",
        full_names,
        note,
    )


def _full_names(legs: list[Leg]) -> dict[str, str]:
    """Return the full names of bodies and joints of legs, by their names in the mechanism."""
    full_names = {}
    for leg in legs:
        for instance, chain in zip(leg.instances, leg.chains):
            for joint in chain:
                for name in (joint.name, joint.child):
                    full_names[name] = f"{instance}.{leg.local_names[name]}"
    return full_names


def _leg_note(legs: list[Leg], full_names: Mapping[str, str]) -> str:
    """Return a note about the names of legs, empty without."""
    changes = []
    for leg in legs:
        roots = [chain[0].name for chain in leg.chains]
        changes += [f"{name} -> {full_names[name]}" for name in roots]
    if not changes:
        return ""
    return f"legs that repeat are written once, and their names with a dot: {', '.join(changes)}"


def _comments(texts: Sequence[str]) -> list[str]:
    """Return texts as comments in plain ASCII."""
    lines = []
    for text in texts:
        ascii_text = re.sub(r"[^\x20-\x7e]", "?", text)
        lines += wrap(
            ascii_text,
            COMMENT_WIDTH,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return [f"# {line}" for line in lines]


def _without_empty(value: Any) -> Any:
    """Leave out keys with empty or default values, at all depths."""
    if isinstance(value, list):
        return [_without_empty(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    table = {}
    for key, entry in value.items():
        content = _without_empty(entry)
        empty = content in ("", {}, [], None)
        at_zero = key in ("xyz", "rpy") and content == [0, 0, 0]
        if key == "parameters" or not (empty or at_zero):
            table[key] = content
    return table


def _lines(content: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return TOML: plain values, then tables `[x]`, then arrays of tables `[[x]]`."""
    lines: list[str] = []
    tables: list[str] = []
    for key, value in content.items():
        if key in _ARRAYS:
            for table in value:
                tables += [
                    "",
                    f"[[{prefix}{key}]]",
                    *_lines(table, f"{prefix}{key}."),
                ]
        elif key == "instances":
            lines += [
                "instances = [",
                *(f"    {toml_value(entry)}," for entry in value),
                "]",
            ]
        elif isinstance(value, dict) and not prefix:
            tables += ["", f"[{key}]", *_lines(value, f"{key}.")]
        else:
            lines.append(f"{key} = {toml_value(value)}")
    return lines + tables
