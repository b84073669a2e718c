"""Joint terms that are added to a robot: as text for its robot file, and to the robot itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gough.core.documents import parse_toml, toml_text
from gough.core.errors import nearest
from gough.core.names import Parameter
from gough.mechanism.expression import EFFORT_NAME
from gough.mechanism.term_reader import read_term, with_terms
from gough.mechanism.terms import JointTerm
from gough.mechanism.toml_table import TOP_LEVEL, TomlTable
from gough.mechanism.types import Joint, Mechanism

Ranges = Mapping[str, tuple[float, float]]  # by quantity, SI


def with_term_text(mechanism: Mechanism, text: str) -> Mechanism:
    """Return the robot with the terms of `[[term]]` tables, which name their joints.

    Terms that the robot has already are not repeated.
    """
    joints = {joint.name: joint for joint in mechanism.joints}
    custom_terms = dict(mechanism.custom_terms)
    root = TomlTable(parse_toml(text), TOP_LEVEL, "added terms")
    for table in root.tables("term"):
        family = read_term(table)
        for term in family:
            custom_terms[term.name] = term
        for i, name in enumerate(table.get("joints", [])):
            if name not in joints:
                raise table.error(f"no joint '{name}'{nearest(name, joints)}", f"joints[{i}]")
            joints[name] = with_terms(joints[name], family)
    return replace(mechanism, joints=tuple(joints.values()), custom_terms=custom_terms)


def term_text(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return `[[term]]` tables as they stand in a robot file."""
    return toml_text({"term": list(tables)})


def term_table(
    name: str,
    label: str,
    terms: Sequence[JointTerm],
    joint: Joint,
    constants: Mapping[str, float],
    validity: Ranges,
) -> dict[str, Any]:
    """Return the `[[term]]` of terms at one joint, with constants and validity of its own.

    Args:
        name: Of the term in the robot file.
        label: In words.
        terms: One term, or some that share their constants.
        joint: The joint that gets them.
        constants: Values of the constants by full name, SI.
        validity: Ranges that the terms were identified in.
    """
    first = terms[0]
    expressions = [term.expression for term in terms]
    table: dict[str, Any] = {"name": name, "label": label}
    table["expression"] = expressions[0] if len(terms) == 1 else expressions
    table["unit"] = first.unit(joint.kind)
    constant_texts = {}
    for term in terms:
        for word, constant in term.constants.items():
            number = constants[f"{term.family}.{word}"]
            constant_texts[word] = _with_unit(number, constant.dimension, joint)
    if constant_texts:
        table["constants"] = constant_texts
    table["nonnegative"] = first.nonnegative
    table["friction"] = first.dissipative
    table["coulomb"] = first.coulomb
    ranges = {}
    for word, ends in validity.items():
        unit = {"q": joint.unit, "qd": f"{joint.unit}/s", EFFORT_NAME: joint.effort_unit}[word]
        ranges[word] = [f"{end!r} {unit}" for end in ends]
    if ranges:
        table["validity"] = ranges
    table["joints"] = [joint.name]
    return table


def _with_unit(number: float, dimension: str, joint: Joint) -> str | float:
    """Return a constant of a term as text with its unit, or as a number without one."""
    units = {
        "joint position": joint.unit,
        "joint velocity": f"{joint.unit}/s",
        "time": "s",
    }
    if dimension in units:
        return f"{float(number)!r} {units[dimension]}"
    return float(number)


def free_term_name(mechanism: Mechanism, stem: str, taken: Sequence[str]) -> str:
    """Return a name for an added term: `ripple_1`, or the next number that is free."""
    used = {*taken}
    for term in mechanism.known_terms.values():
        used |= {term.name, term.family}
    number = 1
    while f"{stem}_{number}" in used:
        number += 1
    return str(Parameter(f"{stem}_{number}"))
