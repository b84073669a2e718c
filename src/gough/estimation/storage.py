"""Results as JSON files: every float to its last bit, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gough.errors import InvalidInput, OutputError


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
    """Write through a temporary file beside the target, so that a reader never sees half a result.

    Raises:
        OutputError: The file cannot be written.
    """
    target = Path(path)
    text = json.dumps(plain(content), indent=1, allow_nan=False)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise OutputError(f"cannot write '{target}': {error.strerror}; does the folder exist?", path=target) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
        os.chmod(name, 0o644)
        os.replace(name, target)
    except OSError as error:
        os.unlink(name)
        raise OutputError(f"cannot write '{target}': {error.strerror}", path=target) from error


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a stored result and check that it is of the kind asked for.

    Raises:
        InvalidInput: No such file, not JSON, or another kind of result.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", path=path) from error
    except ValueError as error:
        raise InvalidInput(f"'{path}' is not JSON: {error}", path=path) from error
    found = content.get("kind") if isinstance(content, dict) else None
    if found != kind:
        raise InvalidInput(f"'{path}' holds {found!r}, expected a stored {kind!r}", path=path, kind=found)
    return dict(content)
