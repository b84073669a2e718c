"""Writing files so that a crash or a full disk leaves the previous version intact."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gough.errors import OutputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary stream to a temporary neighbour that takes the file's place once it is complete and on disk.

    Raises:
        OutputError: The folder does not exist, is not writable or is full; carries path.
    """
    target = Path(path)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except OSError as error:
        _discard(temporary)
        raise OutputError(f"cannot write '{target}': {error.strerror or error}; check the folder, its permissions and "
                          "the free space", path=str(target)) from error
    except BaseException:
        _discard(temporary)
        raise


def _discard(temporary: str) -> None:
    if temporary:
        Path(temporary).unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes; see `replacing`."""
    with replacing(path) as stream:
        stream.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; see `replacing`."""
    write_bytes(path, text.encode("utf-8"))
