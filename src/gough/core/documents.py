"""Read and write TOML and JSON.

Texts are parsed by the standard library. Before that, texts that would
make it hang or crash are refused: a dotted key of thirty thousand parts
takes the TOML parser half a minute and gigabytes of memory, deep
nesting ends in a recursion error, a number of five thousand digits in
an error about digits. No file of a robot comes near these limits.
Numbers are written to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from gough.core.errors import InvalidInput
from gough.core.files import (
    MAX_DIGITS,
    MAX_JSON_CHARACTERS,
    MAX_TEXT_NESTING,
    MAX_TOML_CHARACTERS,
    read_text,
)

STORED_FORMAT = 2  # of stored results
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DOTTED = re.compile(rf"(?<![\w\-\"'])[\w\-\"']++(?:\s*+\.\s*+[\w\-\"']++){{{MAX_TEXT_NESTING},}}")
_LONG_NUMBER = re.compile(rf"[\d_]{{{MAX_DIGITS},}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raises `InvalidInput` if it is not valid, or beyond the limits above."""
    dotted = _DOTTED.search(text[:MAX_TOML_CHARACTERS])
    if dotted is not None:
        raise _error_at(text, dotted.start(), f"a key with more than {MAX_TEXT_NESTING} parts")
    parsed: dict[str, Any] = _parse(text, tomllib.loads, MAX_TOML_CHARACTERS)
    return parsed


def parse_json(text: str) -> Any:
    """Parse JSON; raises `InvalidInput` if it is not valid, or beyond the limits above."""
    return _parse(text, json.loads, MAX_JSON_CHARACTERS)


def _parse(text: str, parser: Callable[[str], Any], most_characters: int) -> Any:
    """Parse a text of at most so many characters; refuse long numbers and deep nesting."""
    if len(text) > most_characters:
        raise InvalidInput(f"{len(text)} characters, expected at most {most_characters}")
    number = _LONG_NUMBER.search(text)
    if number is not None:
        raise _error_at(text, number.start(), f"a number of more than {MAX_DIGITS} digits")
    without_strings = _STRING.sub(lambda match: " " * len(match[0]), text)
    depth = 0
    for bracket in re.finditer(r"[\[{\]}]", without_strings):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_TEXT_NESTING:
            what = f"brackets nested more than {MAX_TEXT_NESTING} deep"
            raise _error_at(text, bracket.start(), what)
    try:
        return parser(text)
    except (ValueError, RecursionError) as error:
        # TOMLDecodeError is a ValueError; so are dates like 2020-13-01
        raise InvalidInput(str(error)) from error


def _error_at(text: str, position: int, what: str) -> InvalidInput:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return InvalidInput(f"{what} in line {line}, column {column}")


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML.

    Plain values come first, then mappings as tables and lists of
    mappings as arrays of tables.
    """
    simple: dict[str, Any] = {}
    tables: list[str] = []
    for key, entry in content.items():
        if isinstance(entry, Mapping):
            tables += ["", f"[{_key(key)}]", *_lines(entry)]
        elif _is_list_of_mappings(entry):
            for table in entry:
                tables += ["", f"[[{_key(key)}]]", *_lines(table)]
        else:
            simple[key] = entry
    return "\n".join([*_lines(simple), *tables]) + "\n"


def _is_list_of_mappings(entry: Any) -> bool:
    if not isinstance(entry, list) or not entry:
        return False
    return all(isinstance(table, Mapping) for table in entry)


def _lines(content: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {toml_value(entry)}" for name, entry in content.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as TOML, as it is written behind a key."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    readable = str(value).encode("utf-8", "backslashreplace").decode()
    text = json.dumps(readable, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # a JSON string, but TOML does not allow DEL


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, tuples and mappings into what JSON can hold.

    Infinity and NaN become text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what JSON can hold, whatever the order of keys, as hexadecimal text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def restored(kind: Any, stored: Any) -> Any:
    """Undo `plain`.

    Args:
        kind: A dataclass, array, tuple, mapping, number, text, or one
            of these or None.
        stored: What `plain` made of it.

    Raises:
        InvalidInput: A field of a dataclass is missing.
        TypeError: A value has another type; also ValueError.
    """
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin in (Union, UnionType):
        kinds = [each for each in inner if each is not NoneType]
        if len(kinds) > 1 or stored is None:
            return stored
        return restored(kinds[0], stored)
    if is_dataclass(kind) and isinstance(kind, type):
        return _restored_dataclass(kind, stored)
    if origin is np.ndarray:
        return np.array(stored, dtype=object).astype(get_args(inner[1])[0])
    if origin is tuple and isinstance(stored, list | tuple):
        return tuple(restored(inner[0], entry) for entry in stored)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: restored(inner[1], entry) for key, entry in dict(stored).items()}
    if kind is float:
        return float(stored)
    is_wrong = kind in (str, int, bool) and not isinstance(stored, kind)
    if is_wrong or origin is tuple:
        raise TypeError(f"{stored!r} is no {getattr(kind, '__name__', kind)}")
    return stored


def _restored_dataclass(kind: type, stored: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    missing = sorted(name for name in names if name not in stored)
    if missing:
        raise InvalidInput(
            f"stored {kind.__name__} lacks {', '.join(missing)}",
            missing=missing,
        )
    return kind(**{name: restored(hints[name], stored[name]) for name in names})


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a stored result and check its kind and its format."""
    text = read_text(path, MAX_JSON_CHARACTERS)
    try:
        content = parse_json(text)
    except InvalidInput as error:
        raise InvalidInput(f"'{path}' is not JSON: {error}", path=path) from error
    header = content if isinstance(content, dict) else {}
    stored_kind = header.get("kind")
    version = header.get("format")
    if stored_kind != kind or version != STORED_FORMAT:
        raise InvalidInput(
            f"'{path}' holds {stored_kind!r} in format {version!r}, expected a stored {kind!r} in "
            f"format {STORED_FORMAT}; if another version of Gough wrote it, compute and save it "
            "again",
            path=path,
            kind=stored_kind,
        )
    return dict(content)
