"""Write files so that a crash or a full disk leaves the previous version; detect text encodings."""

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

PENDING_FOLDER = ".gough-pending"  # complete files that are being moved to their places
ENCODING_SAMPLE = 64  # bytes looked at to recognise UTF-16 without a mark


@contextmanager
def _raise_output_error(path: Path) -> Iterator[None]:
    """Turn an `OSError` into an `OutputError` that names the path."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write '{path}': {error.strerror or error}; check the folder, its permissions "
            "and the free space",
            path=str(path),
        ) from error


@contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary stream to a temporary file that replaces the target once it is on disk."""
    target = Path(path)
    with _raise_output_error(target):
        temporary = target.with_name(f".{target.name}.{token_hex(8)}")
        try:
            with open(temporary, "xb") as stream:
                yield stream
                _flush_to_disk(stream)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _flush_to_disk(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def write_together(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write files that belong together into an existing folder: all of them, or none.

    The files are first written to a temporary folder inside it. Renaming that folder to
    `PENDING_FOLDER` commits them; after that each file moves to its place. If a crash
    interrupts the moves, `locate_written` finds the files that are still pending, and the
    next call moves them.

    Args:
        folder: Where the files belong.
        files: Content by file name.
    """
    target = Path(folder)
    with _raise_output_error(target):
        _move_pending(target)
        staged = Path(tempfile.mkdtemp(prefix=".gough-", dir=target))
        try:
            staged.chmod(target.stat().st_mode & 0o777)
            for name, content in files.items():
                with open(staged / name, "wb") as stream:
                    stream.write(content)
                    _flush_to_disk(stream)
            os.rename(staged, target / PENDING_FOLDER)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        _move_pending(target)


def _move_pending(folder: Path) -> None:
    """Move committed files to their places."""
    pending = folder / PENDING_FOLDER
    if pending.is_dir():
        for file in sorted(pending.iterdir()):
            os.replace(file, folder / file.name)
        pending.rmdir()


def locate_written(folder: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file that `write_together` wrote; it may still be pending."""
    pending = Path(folder) / PENDING_FOLDER / name
    return pending if pending.exists() else Path(folder) / name


def require_free(path: str | os.PathLike[str] | None, force: bool) -> None:
    """Raise `OutputError` unless a file may be written.

    It may if nothing is there (not even a broken link), or with `force`. None passes.
    """
    if path is None:
        return
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"'{path}' is a folder, expected a file", path=str(path))
    if os.path.lexists(target) and not force:
        raise OutputError(
            f"'{path}' already exists; choose another name or use `force=True`",
            path=str(path),
        )
    if not target.parent.is_dir():
        raise OutputError(
            f"the folder of '{path}' does not exist; create '{target.parent}' first",
            path=str(path),
        )


def require_free_folder(path: str | os.PathLike[str], force: bool) -> Path:
    """Return a folder that may be written into; raise `OutputError` otherwise.

    It may if it does not exist yet, if it is empty, or with `force`.
    """
    target = Path(path)
    if os.path.lexists(target) and not target.is_dir():
        raise OutputError(
            f"'{path}' is a file or a broken link, expected a folder",
            path=str(path),
        )
    if target.is_dir() and any(target.iterdir()) and not force:
        raise OutputError(
            f"the folder '{path}' is not empty; choose another one or use `force=True`",
            path=str(path),
        )
    return target


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text; see `replace_atomically` and `encode_text`."""
    with replace_atomically(path) as stream:
        stream.write(encode_text(text))


def encode_text(text: str) -> bytes:
    """Return text as UTF-8; bytes of file names that are no UTF-8 are written like `\\udcff`."""
    return text.encode("utf-8", "backslashreplace")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write strict JSON with all digits of every number; see `replace_atomically`."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def text_encoding(beginning: bytes) -> str:
    """Return the encoding of a text from its first bytes.

    UTF-16 is recognised by its byte-order mark or its zero bytes; then UTF-8 if it fits,
    else that of Windows.
    """
    if beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even = beginning[0:ENCODING_SAMPLE:2]
    odd = beginning[1:ENCODING_SAMPLE:2]
    even_zeros = even.count(0) > len(even) / 2
    odd_zeros = odd.count(0) > len(odd) / 2
    if even_zeros != odd_zeros:
        return "utf-16-be" if even_zeros else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        is_binary = 0 in beginning  # decoding it as UTF-8 then raises a clear error
        return "utf-8" if is_binary else "cp1252"
    return "utf-8-sig"
