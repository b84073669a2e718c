"""TOML and JSON: texts of strangers, text for people, and values to the last bit.

Texts are read by the standard library, after a look at what would hang or crash it: a dotted key of
thirty thousand parts takes the TOML parser half a minute and gigabytes, deep nesting ends in a
recursion error, a number of five thousand digits in an error about digits. No file of ours comes
near these limits.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from gough.core.errors import InvalidInput

FORMAT = 2  # of stored results
LARGEST = 64 * 2**20  # characters; a stored result of a large robot has a few million
LARGEST_TOML = 4 * 2**20  # characters; people write these
DEEPEST = 60  # brackets inside brackets, and parts of a dotted key; robot files have five
DIGITS = 400  # digits of one number; a double has seventeen
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DOTTED = re.compile(rf"(?<![\w\-\"'])[\w\-\"']++(?:\s*+\.\s*+[\w\-\"']++){{{DEEPEST},}}")
_NUMBER = re.compile(rf"[\d_]{{{DIGITS},}}")


def parse_toml(text: str) -> dict[str, Any]:
    found: dict[str, Any] = _parsed(
        text, tomllib.loads, LARGEST_TOML, {_DOTTED: f"a key with more than {DEEPEST} parts"}
    )
    return found


def parse_json(text: str) -> Any:
    return _parsed(text, json.loads, LARGEST, {})


def _parsed(
    text: str, load: Callable[[str], Any], largest: int, bad: Mapping[re.Pattern[str], str]
) -> Any:
    def refuse(what: str, position: int) -> None:
        line = text.count("\n", 0, position) + 1
        raise InvalidInput(
            f"{what} in line {line}, column {position - text.rfind(chr(10), 0, position)}"
        )

    if len(text) > largest:
        raise InvalidInput(f"{len(text)} characters, expected at most {largest}")
    for pattern, what in {_NUMBER: f"a number of more than {DIGITS} digits", **bad}.items():
        if (match := pattern.search(text)) is not None:
            refuse(what, match.start())
    depth = 0
    for bracket in re.finditer(r"[\[{\]}]", _STRING.sub(lambda match: " " * len(match[0]), text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEEPEST:
            refuse(f"brackets nested more than {DEEPEST} deep", bracket.start())
    try:
        return load(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOMLDecodeError is a ValueError; so are dates like 2020-13-01
        raise InvalidInput(str(error)) from error


def toml_text(content: Mapping[str, Any]) -> str:
    """Return a mapping as TOML: plain values first, then mappings as tables, lists of mappings as
    arrays of tables.
    """
    plain, tables = {}, []
    for key, value in content.items():
        if isinstance(value, Mapping):
            tables += ["", f"[{_key(key)}]", *_lines(value)]
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            tables += [line for item in value for line in ("", f"[[{_key(key)}]]", *_lines(item))]
        else:
            plain[key] = value
    return "\n".join([*_lines(plain), *tables]) + "\n"


def _lines(content: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {toml_value(item)}" for name, item in content.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as it stands behind a key."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )  # JSON strings, but TOML bars DEL


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, tuples and mappings into what JSON knows; infinity and NaN become
    text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def restored(kind: Any, value: Any) -> Any:
    """Undo `plain` for a type: a dataclass, array, tuple, mapping, number, or one of these or None.

    `InvalidInput` where a field is missing, TypeError or ValueError where a value is of another
    type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        chosen = [item for item in inner if item is not NoneType]
        return restored(chosen[0], value) if len(chosen) == 1 and value is not None else value
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        missing = sorted(field.name for field in fields(kind) if field.name not in value)
        if missing:
            raise InvalidInput(
                f"stored {kind.__name__} lacks {', '.join(missing)}", missing=missing
            )
        return kind(
            **{field.name: restored(hints[field.name], value[field.name]) for field in fields(kind)}
        )
    if origin is np.ndarray:
        return np.array(value, dtype=object).astype(get_args(inner[1])[0])
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(restored(inner[0], item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: restored(inner[1], item) for key, item in dict(value).items()}
    if kind is float:
        return float(value)
    if (kind in (str, int, bool) and not isinstance(value, kind)) or origin is tuple:
        raise TypeError(f"{value!r} is no {getattr(kind, '__name__', kind)}")
    return value


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a stored result and check that it is of the kind asked for."""
    try:
        content = parse_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", path=path) from error
    except (UnicodeDecodeError, InvalidInput) as error:
        raise InvalidInput(f"'{path}' is not JSON: {error}", path=path) from error
    found, version = (
        content.get(key) if isinstance(content, dict) else None for key in ("kind", "format")
    )
    if found != kind or version != FORMAT:
        raise InvalidInput(
            f"'{path}' holds {found!r} in format {version!r}, expected a stored {kind!r} in format "
            f"{FORMAT}; if another version of Gough wrote it, compute and save it again",
            path=path,
            kind=found,
        )
    return dict(content)
