"""TOML and JSON: as text, and from strangers by the standard library, after a look at what would hang or crash it.

A dotted key of thirty thousand parts takes the TOML parser half a minute and gigabytes, deep nesting ends in a
recursion error, a number of five thousand digits in an error about digits. No file of ours comes near these limits.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from gough.core.errors import InvalidInput

LARGEST = 64 * 2**20  # characters; a stored result of a large robot has a few million
LARGEST_TOML = 4 * 2**20  # characters; people write these
DEEPEST = 60  # brackets inside brackets, and parts of a dotted key; robot files have five
DIGITS = 400  # digits of one number; a double has seventeen
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DOTTED = re.compile(rf"[\w\-\"']+(?:\s*\.\s*[\w\-\"']+){{{DEEPEST},}}")
_NUMBER = re.compile(rf"[\d_]{{{DIGITS},}}")


def parse_toml(text: str) -> dict[str, Any]:
    _check(text, LARGEST_TOML)
    dotted = _DOTTED.search(text)
    if dotted is not None:
        raise InvalidInput(f"a key with more than {DEEPEST} parts {_where(text, dotted.start())}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError; so are dates like 2020-13-01
        raise InvalidInput(str(error)) from error


def parse_json(text: str) -> Any:
    _check(text, LARGEST)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(error)) from error


def _check(text: str, largest: int) -> None:
    if len(text) > largest:
        raise InvalidInput(f"{len(text)} characters, expected at most {largest}")
    number = _NUMBER.search(text)
    if number is not None:
        raise InvalidInput(f"a number of more than {DIGITS} digits {_where(text, number.start())}")
    depth = 0
    for bracket in re.finditer(r"[\[{\]}]", _STRING.sub(lambda match: " " * len(match[0]), text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            raise InvalidInput(f"brackets nested more than {DEEPEST} deep {_where(text, bracket.start())}")


def _where(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"in line {line}, column {position - text.rfind(chr(10), 0, position)}"


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML: plain values first, then mappings as tables, lists of mappings as arrays of tables."""
    plain, tables = [], []
    for key, value in content.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", *(f"{_key(name)} = {toml_value(item)}" for name, item in value.items())]
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                tables += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {toml_value(v)}" for name, v in item.items())]
        else:
            plain.append(f"{_key(key)} = {toml_value(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as it stands behind a key."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON strings, but TOML bars DEL
