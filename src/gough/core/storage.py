"""Values as JSON and back, field by field: nothing is rounded, nothing is executed."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np


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
