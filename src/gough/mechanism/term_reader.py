"""Read the joint terms of a robot file: those of a joint, and `[[term]]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.units import dimension_of, is_unit, quantity
from gough.mechanism.expression import EFFORT_NAME, STATE_NAMES
from gough.mechanism.terms import (
    BUNDLES,
    JOINT_DIMENSIONS,
    TERMS,
    Constant,
    JointTerm,
    check_term_name,
)
from gough.mechanism.toml_table import TomlTable
from gough.mechanism.types import Joint, Kind

TermsByWord = Mapping[str, tuple[JointTerm, ...]]
"""Words of a joint's `terms`; one may stand for several terms."""


def read_joint_terms(table: TomlTable, kind: Kind, known: TermsByWord) -> dict[str, Any]:
    """Read the `terms` of a joint and their a-priori coefficients."""
    terms: dict[str, JointTerm] = {}
    for i, word in enumerate(table.get("terms", [])):
        if word not in known:
            raise table.error(f"unknown name '{word}'{nearest(word, known)}", f"terms[{i}]")
        terms |= {term.name: term for term in known[word]}
    coefficients = table.table("values")
    values = {}
    for name in coefficients.data:
        if name not in terms:
            hint = nearest(name, terms or known)
            raise coefficients.error(f"the key 'terms' does not list '{name}'{hint}", name)
        unit = terms[name].unit(kind)
        dimension = dimension_of(unit) if is_unit(unit) else "none"
        number = coefficients.number(name, dimension)
        if terms[name].nonnegative and number < 0:
            message = f"{terms[name].label} cannot be negative, found {number:g} {unit}"
            raise coefficients.error(message, name)
        values[name] = number
    return {"terms": tuple(terms), "values": values}


def with_terms(joint: Joint, terms: Sequence[JointTerm]) -> Joint:
    """Return a joint with more terms; one that it has already is not repeated."""
    names = dict.fromkeys((*joint.terms, *(term.name for term in terms)))
    return replace(joint, terms=tuple(names))


def read_term(table: TomlTable) -> tuple[JointTerm, ...]:
    """Read `[[term]]`: terms by their expressions, or other constants of a bundled term.

    Several expressions make several terms that share their constants.
    """
    expressions = table.get("expression")
    if expressions is None:
        return _read_bundled_term(table)
    key = "expression[{}]"
    if isinstance(expressions, str):
        expressions = [expressions]
        key = "expression"
    if not expressions:
        raise table.error("expected an expression, found none", "expression")
    constants = _read_constants(table.table("constants"), {})
    channel_table = table.table("channels")
    channels = {name: channel_table.number(name) for name in channel_table.data}
    validity = _read_validity(table.table("validity"))
    words = [set(re.findall(r"\w+", expression)) for expression in expressions]
    unused = {*constants, *channels, *validity} - set().union(*words)  # each term raises for these
    terms = []
    for k, expression in enumerate(expressions):
        name = table.name if len(expressions) == 1 else f"{table.name}_{k + 1}"
        used = words[k] | unused
        try:
            check_term_name(name, (*TERMS, *BUNDLES))
            term = JointTerm(
                name=name,
                label=table.get("label", table.name),
                units=(table.get("unit", ""),) * 2,
                expression=expression,
                family=table.name,
                constants={word: constants[word] for word in constants if word in used},
                channels={word: channels[word] for word in channels if word in used},
                fault_candidate=False,
                nonnegative=table.get("nonnegative", False),
                dissipative=table.get("friction", False),
                coulomb=table.number("coulomb"),
                validity={word: validity[word] for word in validity if word in used},
            )
        except InvalidInput as error:
            place = "name" if error.numbers.get("name") == name else None
            if "position" in error.numbers:
                place = key.format(k)
            raise table.error(str(error), place) from None
        terms.append(term)
    return tuple(terms)


def _read_bundled_term(table: TomlTable) -> tuple[JointTerm, ...]:
    """Read a `[[term]]` that only changes the constants of a bundled term."""
    terms = [term for term in TERMS.values() if term.family == table.name]
    if not terms or not set(table.data) <= {"name", "constants", "joints"}:
        hint = "" if terms else nearest(table.name, TERMS)
        raise table.error(
            "is required but missing; only a bundled term has one already, and then nothing but "
            f"its constants can be given{hint}",
            "expression",
        )
    defaults = terms[0].constants
    constants = _read_constants(table.table("constants"), defaults)
    for name in constants:
        if name not in defaults:
            message = f"{terms[0].label} has no such constant{nearest(name, defaults)}"
            raise table.error(message, f"constants.{name}")
    return tuple(replace(term, constants={**term.constants, **constants}) for term in terms)


def _read_validity(table: TomlTable) -> dict[str, tuple[float, float]]:
    """Read ranges of validity: two texts with units, or two numbers for a channel."""
    dimensions = dict(zip(STATE_NAMES, JOINT_DIMENSIONS.values()))
    dimensions[EFFORT_NAME] = ("force", "torque")
    validity = {}
    for word, ends in table.data.items():
        if not isinstance(ends, list) or len(ends) != 2:
            raise table.error(f"expected two numbers, the lower end first, found {ends!r}", word)
        dimension = "none"
        if word in dimensions:
            dimension = _range_dimension(table, word, dimensions[word])
        low, high = table.numbers(word, (dimension, dimension))
        validity[word] = (low, high)
    return validity


def _range_dimension(table: TomlTable, word: str, possible: Sequence[str]) -> str:
    """Return the dimension of both ends of a range; raise unless it is a possible one."""
    for end in table.data[word]:
        if not isinstance(end, str):
            raise table.error(f"give a unit: {' or '.join(possible)}", word)
        try:
            dimension = dimension_of(quantity(end)[1])
        except InvalidInput as error:
            raise table.error(str(error), word) from None
        if dimension not in possible:
            message = f"'{end}' measures {dimension}, expected {' or '.join(possible)}"
            raise table.error(message, word)
    return dimension


def _read_constants(table: TomlTable, defaults: Mapping[str, Constant]) -> dict[str, Constant]:
    """Read constants: a number, text such as '14.8 mm', or { start, fit, low, high }."""
    constants = {}
    for name, content in table.data.items():
        default = defaults.get(name, Constant(value=0.0))
        if isinstance(content, Mapping):
            constants[name] = _read_fitted_constant(table.table(name), default)
        else:
            dimension = _constant_dimension(table, name, default.dimension)
            number = table.number(name, dimension or "none")
            constants[name] = Constant(value=number, dimension=dimension)
    return constants


def _read_fitted_constant(table: TomlTable, default: Constant) -> Constant:
    """Read a constant that is estimated from data."""
    dimension = _constant_dimension(table, "start", default.dimension)
    low = table.number("low", dimension or "none", -np.inf)
    high = table.number("high", dimension or "none", np.inf)
    start = table.number("start", dimension or "none")
    if not low <= start <= high:
        raise table.error(f"starts at {start:g}, outside of {low:g} to {high:g} (SI)", "start")
    fit = table.get("fit", True)
    return Constant(value=start, dimension=dimension, fit=fit, low=low, high=high)


def _constant_dimension(table: TomlTable, key: str, expected: str) -> str:
    """Return the dimension of a constant: that of its unit, which must be as expected if known."""
    written = table.data[key]
    valid = JOINT_DIMENSIONS.get(expected, (expected,))
    if not isinstance(written, str):
        if expected in JOINT_DIMENSIONS:
            raise table.error(f"give a unit: {' or '.join(valid)}", key)
        return expected
    try:
        dimension = dimension_of(quantity(written)[1])
    except InvalidInput as error:
        raise table.error(str(error), key) from None
    if expected and dimension not in valid:
        raise table.error(f"'{written}' measures {dimension}, expected {expected}", key)
    return dimension
