"""Writing files so that a crash or a full disk leaves the previous version intact."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from gough.core.errors import OutputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary stream to a temporary neighbour that takes the file's place once it is complete and on disk.

    Raises:
        OutputError: The folder does not exist, is not writable or is full; carries path.
    """
    target = Path(path)
    with _staging(target) as temporary:
        with open(temporary, "wb") as stream:
            yield stream
            _settle(stream)
        os.replace(temporary, target)


@contextmanager
def _staging(target: Path) -> Iterator[str]:
    """Give the path of an empty temporary neighbour, removed again if the block fails."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        yield temporary
    except BaseException as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"cannot write '{target}': {error.strerror or error}; check the folder, its permissions "
                              "and the free space", path=str(target)) from error
        raise


def _settle(stream: IO[bytes]) -> None:
    """Bring a stream to the disk, with the permissions a new file would have."""
    stream.flush()
    os.fsync(stream.fileno())
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(stream.name, 0o666 & ~mask)  # by name: Windows knows no other way before Python 3.13


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write files that belong together: none takes its place before all are complete and on disk.

    Raises:
        OutputError: As `replacing`; all previous files are then as they were.
    """
    with ExitStack() as stack:
        staged = []
        for target, data in files.items():
            temporary = stack.enter_context(_staging(target))
            with open(temporary, "wb") as stream:
                stream.write(data)
                _settle(stream)
            staged.append((temporary, target))
        for temporary, target in staged:
            os.replace(temporary, target)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; see `replacing`."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))
