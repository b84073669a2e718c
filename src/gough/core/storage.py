"""Values as JSON: every float to its last bit, read back by the types of a dataclass's fields."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from gough.core.documents import parse_json
from gough.core.errors import InvalidInput
from gough.core.files import write_json

FORMAT = 1


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, tuples and mappings into what JSON knows; infinity and NaN become text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def restored(kind: Any, value: Any) -> Any:
    """Undo `plain` for a type: a dataclass, array, tuple, mapping, number, or one of these or None.

    `InvalidInput` where a field is missing, TypeError or ValueError where a value is of another type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or origin is Literal:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        chosen = [item for item in inner if item is not NoneType]
        return restored(chosen[0], value) if len(chosen) == 1 else value
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        missing = sorted(field.name for field in fields(kind) if field.name not in value)
        if missing:
            raise InvalidInput(f"stored {kind.__name__} lacks {', '.join(missing)}", missing=missing)
        return kind(**{field.name: restored(hints[field.name], value[field.name]) for field in fields(kind)})
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
    found = content.get("kind") if isinstance(content, dict) else None
    if found != kind:
        raise InvalidInput(f"'{path}' holds {found!r}, expected a stored {kind!r}", path=path, kind=found)
    return dict(content)


class Stored:
    """Results that are kept as JSON: dataclasses with a word that names them in files."""

    stored_as: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        return {"kind": self.stored_as, "format": FORMAT, **plain(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        kind, version = content.get("kind"), content.get("format")
        if kind != cls.stored_as or version != FORMAT:
            raise InvalidInput(f"content is {kind!r} in format {version!r}, expected {cls.stored_as!r} in format "
                               f"{FORMAT}", kind=kind)
        found: Self = restored(cls, content)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write strict JSON, whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        return cls.from_dict(read_json(path, cls.stored_as))
