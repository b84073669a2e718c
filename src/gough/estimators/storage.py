"""Results as JSON files: every float to its last bit, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.documents import parse_json
from gough.core.errors import InvalidInput
from gough.core.files import write_text


def plain(value: Any) -> Any:
    """Turn arrays, tuples and mappings into what JSON knows; non-finite floats become 'nan', 'inf', '-inf'."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write strict JSON, whole or not at all."""
    write_text(path, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")


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
