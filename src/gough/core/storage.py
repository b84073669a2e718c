"""Values as JSON and back, field by field: nothing is rounded, nothing is executed."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gough.core.documents import parse_json
from gough.core.errors import InvalidInput
from gough.core.files import write_text

FORMAT = 1
T = TypeVar("T")


def plain(value: Any) -> Any:
    """Return dataclasses, arrays, tuples and mappings as JSON knows them; non-finite floats as 'nan', 'inf', '-inf'."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def restore(hint: Any, content: Any) -> Any:
    """Return what `plain` was given, which was of the type `hint`.

    Raises:
        KeyError, TypeError, ValueError: The content is not of that type.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _first(inner, content)
    if hint is Any or origin is Literal or (content is None and hint is type(None)):
        return content
    if origin is np.ndarray:
        kind = get_args(inner[1])[0]
        if kind is np.float64 and isinstance(content, list):
            return np.array(content, dtype=object).astype(kind)  # 'inf' and 'nan' are texts
        return np.array(content, dtype=kind)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{f.name: restore(hints[f.name], content[f.name]) for f in fields(hint)})  # type: ignore[operator]
    if origin is not None and issubclass(origin, Mapping):
        return {key: restore(inner[1], item) for key, item in dict(content).items()}
    if origin is not None and issubclass(origin, Sequence):
        if isinstance(content, str):
            raise TypeError(f"a text where a list of {inner[0]} was expected")
        return tuple(restore(inner[0], item) for item in content)
    if hint is float:
        return float(content)
    kind = str if issubclass(hint, str) else hint
    if not isinstance(content, kind):
        raise TypeError(f"{content!r} is no {hint.__name__}")
    return hint(content)


def _first(hints: tuple[Any, ...], content: Any) -> Any:
    """Return the content as the first type it fits."""
    for hint in hints:
        try:
            return restore(hint, content)
        except (KeyError, TypeError, ValueError):
            continue
    raise TypeError(f"{content!r} is none of {hints}")


def stored(value: Any, kind: str) -> dict[str, Any]:
    """Return a dataclass as plain lists, numbers and strings, with its kind; nothing is rounded."""
    return {"kind": kind, "format": FORMAT, **plain(value)}


def unstored(cls: type[T], content: Mapping[str, Any], kind: str) -> T:
    """Undo `stored`.

    Raises:
        InvalidInput: Another kind or format, or something is missing.
    """
    if content.get("kind") != kind or content.get("format") != FORMAT:
        raise InvalidInput(f"content is {content.get('kind')!r} in format {content.get('format')!r}, expected {kind!r} "
                           f"in format {FORMAT}", kind=content.get("kind"))
    try:
        found: T = restore(cls, content)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"stored {kind} is damaged: {error!r}") from error
    return found


def json_text(content: Any) -> str:
    """Return strict JSON."""
    return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write strict JSON, whole or not at all."""
    write_text(path, json_text(content))


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a stored result and check that it is of the kind asked for.

    Raises:
        InvalidInput: No such file, not JSON, or another kind of result.
    """
    try:
        content = parse_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", path=path) from error
    except (UnicodeDecodeError, InvalidInput) as error:
        raise InvalidInput(f"'{path}' is not JSON: {error}", path=path) from error
    found = content.get("kind") if isinstance(content, dict) else None
    if found != kind:
        raise InvalidInput(f"'{path}' holds {found!r}, expected a stored {kind!r}", path=path, kind=found)
    return dict(content)
