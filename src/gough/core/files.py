"""Writing files so that a crash or a full disk leaves the previous version intact; how a text is
encoded.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

from gough.core.errors import OutputError

PENDING = ".gough-pending"  # complete files on the way to their places


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Say in an `OutputError`, which carries the path, what could not be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write '{path}': {error.strerror or error}; check the folder, its permissions "
            f"and "
            "the free space",
            path=str(path),
        ) from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary stream to a temporary neighbour that takes the file's place once it is complete
    and on disk.
    """
    target = Path(path)
    with _reporting(target):
        temporary = target.with_name(f".{target.name}.{token_hex(8)}")
        try:
            with open(temporary, "xb") as stream:
                yield stream
                _settle(stream)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _settle(stream: IO[bytes]) -> None:
    """Bring a stream to the disk."""
    stream.flush()
    os.fsync(stream.fileno())


def write_together(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write files that belong together, by name, into an existing folder: all of them, or none.

    They are made in a temporary folder beside their places. Renaming it to `PENDING` is the one
    moment from which on they count; only then do they move to their places. A crash in between
    leaves the rest there, where `written_together` finds it, and the next to write moves it.
    """
    place = Path(folder)
    with _reporting(place):
        _finish(place)
        staged = Path(tempfile.mkdtemp(prefix=".gough-", dir=place))
        try:
            staged.chmod(place.stat().st_mode & 0o777)
            for name, data in files.items():
                with open(staged / name, "wb") as stream:
                    stream.write(data)
                    _settle(stream)
            os.rename(staged, place / PENDING)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        _finish(place)


def _finish(folder: Path) -> None:
    """Move files that belong together to their places."""
    pending = folder / PENDING
    if pending.is_dir():
        for file in sorted(pending.iterdir()):
            os.replace(file, folder / file.name)
        pending.rmdir()


def written_together(folder: str | os.PathLike[str], name: str) -> Path:
    """Return where a file that `write_together` wrote is: at its place, or still on the way
    there.
    """
    pending = Path(folder) / PENDING / name
    return pending if pending.exists() else Path(folder) / name


def require_free(path: str | os.PathLike[str] | None, force: bool) -> None:
    """Raise `OutputError` unless a file may be written: nothing is there (not even a link to
    nowhere), or `force`.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"'{path}' is a folder, expected a file", path=str(path))
    if os.path.lexists(target) and not force:
        raise OutputError(
            f"'{path}' already exists; choose another name or use `force=True`", path=str(path)
        )
    if not target.parent.is_dir():
        raise OutputError(
            f"the folder of '{path}' does not exist; create '{target.parent}' first", path=str(path)
        )


def require_free_folder(path: str | os.PathLike[str], force: bool) -> Path:
    """Return a folder that may be written into: it is not there yet, or empty, or `force`; else
    raise `OutputError`.
    """
    target = Path(path)
    if os.path.lexists(target) and not target.is_dir():
        raise OutputError(
            f"'{path}' is a file or a link to nowhere, expected a folder", path=str(path)
        )
    if target.is_dir() and any(target.iterdir()) and not force:
        raise OutputError(
            f"the folder '{path}' is not empty; choose another one or use `force=True`",
            path=str(path),
        )
    return target


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; see `replacing`."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write strict JSON, every number to its last bit; see `replacing`."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def text_encoding(beginning: bytes) -> str:
    """Return how a text is written: UTF-16 by its mark or its zeros, UTF-8 if that fits, else that
    of Windows.
    """
    if beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    zeros = [beginning[k:64:2].count(0) > len(beginning[k:64:2]) / 2 for k in (0, 1)]
    if zeros[0] != zeros[1]:
        return "utf-16-be" if zeros[0] else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return "utf-8" if 0 in beginning else "cp1252"  # a binary file says itself that it is none
    return "utf-8-sig"
