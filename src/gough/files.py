"""Writing files so that a crash or a full disk leaves the previous version intact."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gough.errors import OutputError


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: to a temporary neighbour, flushed, then renamed.

    Raises:
        OutputError: The folder does not exist, is not writable or is full; carries path.
    """
    target = Path(path)
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"cannot write '{target}': {error.strerror or error}; check the folder, its permissions and "
                          "the free space", path=str(target)) from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode("utf-8"))
