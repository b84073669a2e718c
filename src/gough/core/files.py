"""Read files of unknown origin within a budget; write so that a crash leaves the previous version.

A reader takes what it unpacks, and the columns and objects it makes,
from the budget of its file. Beyond it, reading ends with an error that
names the file. Any other error of a library that reads a damaged file
becomes such an error too.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from secrets import token_hex
from stat import S_ISDIR, S_ISREG
from time import process_time
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gough.core.errors import GoughError, InvalidInput, OutputError, StorageFault

MAX_UNPACKED_BYTES = 2 * 2**30  # of files that are read whole
# A file may always unpack to this; beyond it, to so many times its
# length. Recorded numbers expand ten times, a log of constants a
# thousand times.
FREE_UNPACKED_BYTES = 2**28
MAX_EXPANSION = 100
MAX_COLUMNS = 100_000  # of a log
MAX_OBJECTS = 100_000  # groups, structures and datasets in a file
MAX_STRUCTURE_DEPTH = 16  # levels of structures in structures
# Reading a file whole may take this much processor time, and more for
# long files.
READING_SECONDS = 15.0
READING_BYTES_PER_SECOND = 1e6
# Texts that people write; a stored result of a large robot has a few
# million characters.
MAX_ROBOT_BYTES = 1_000_000  # the largest bundled robot has 6 kB
MAX_TOML_CHARACTERS = 4 * 2**20
MAX_JSON_CHARACTERS = 64 * 2**20
MAX_YAML_CHARACTERS = 2**18  # beside a URDF; a hundred loops have ten thousand
MAX_TABLE_BYTES = 64 * 2**20  # of trajectories and of the logs of a fleet
# brackets inside brackets, and parts of a dotted key; robot files have
# five
MAX_TEXT_NESTING = 60
MAX_DIGITS = 300  # of one number: those of a double have at most 309
# nested elements; MJCF nests a body for each link of a chain
MAX_XML_DEPTH = 200
MAX_XML_ELEMENTS = 100_000  # a humanoid with hands has three thousand
# complete files that are being moved to their places
PENDING_FOLDER = ".gough-pending"
ENCODING_SAMPLE = 64  # bytes looked at to recognise UTF-16 without a mark


class Budget:
    """What reading one file may still cost.

    Args:
        source: Name of the file in errors.
        file_bytes: Its length.
        error: Type of the errors.
        streamed: It is read in blocks that are given away: neither its
            whole length nor the time between blocks counts, but it may
            not expand too much.
    """

    def __init__(
        self,
        source: str,
        file_bytes: int,
        error: type[GoughError] = InvalidInput,
        *,
        streamed: bool = False,
    ) -> None:
        expanded = MAX_EXPANSION * file_bytes
        if not streamed:
            expanded = min(expanded, MAX_UNPACKED_BYTES)
        self.source = source
        self.error = error
        self.max_bytes = max(expanded, FREE_UNPACKED_BYTES)
        self.bytes_left = self.max_bytes
        self.columns_left = MAX_COLUMNS
        self.objects_left = MAX_OBJECTS
        self.deadline = inf
        if not streamed:
            seconds = READING_SECONDS + file_bytes / READING_BYTES_PER_SECOND
            self.deadline = process_time() + seconds

    def refuse(self, message: str) -> GoughError:
        """Return the error about a file that costs too much."""
        return self.error(f"{self.source}: {message}", source=self.source)

    def take_bytes(self, count: int, what: str = "it") -> None:
        """Take bytes that are about to be unpacked."""
        self.bytes_left -= count
        self.check_time()
        if self.bytes_left < 0:
            raise self.refuse(
                f"{what} unpacks to more than {self.max_bytes / 2**20:.0f} MiB; a file of this "
                "length is not expected to; divide the log if it is sound"
            )

    def take_columns(self, count: int) -> None:
        """Take columns."""
        self.columns_left -= count
        self.check_time()
        if self.columns_left < 0:
            raise self.refuse(f"more than {MAX_COLUMNS} columns; expected the signals of a robot")

    def take_object(self, depth: int) -> None:
        """Take a group, structure or dataset at some level."""
        self.objects_left -= 1
        self.check_time()
        if self.objects_left < 0:
            raise self.refuse(f"more than {MAX_OBJECTS} structures; expected the log of a robot")
        if depth > 2 * MAX_STRUCTURE_DEPTH:
            raise self.refuse(f"structures are nested {depth} deep")

    def check_time(self) -> None:
        """Raise if reading takes too long."""
        if self.deadline < inf and process_time() > self.deadline:
            raise self.refuse(
                "reading takes too long for a file of this length; it is damaged, or not a file "
                "that was expected here"
            )


@contextmanager
def reading(
    source: str, kind: str, error: type[GoughError] = InvalidInput, cure: str = ""
) -> Iterator[None]:
    """Turn every error of a library that reads a damaged file into one that names it."""
    try:
        yield
    except (error, StorageFault):
        raise
    except Exception as reason:
        cause = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise error(f"{source} cannot be read as {kind} ({cause}){cure}", source=source) from reason


def read_bytes(
    path: str | os.PathLike[str], most: int, error: type[GoughError] = InvalidInput
) -> bytes:
    """Return the content of a regular file of at most so many bytes."""
    try:
        status = os.stat(path)
        if S_ISDIR(status.st_mode):
            raise error(f"'{path}' is a folder, expected a file", path=str(path))
        if not S_ISREG(status.st_mode):
            raise error(f"'{path}' is a device or a pipe, expected a file", path=str(path))
        if status.st_size > most:
            raise error(
                f"'{path}' has {status.st_size / 1e6:.1f} MB, too large for what is expected here "
                f"(at most {most / 1e6:g} MB)",
                path=str(path),
                size=status.st_size,
            )
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error(f"there is no file '{path}'", path=str(path)) from None
    except (OSError, ValueError) as reason:  # ValueError: a NUL in the path
        cause = getattr(reason, "strerror", None) or reason
        raise error(f"cannot read '{path}': {cause}", path=str(path)) from None


def read_text(
    path: str | os.PathLike[str], most: int, error: type[GoughError] = InvalidInput
) -> str:
    """Return the UTF-8 text of a file of at most so many bytes."""
    try:
        return read_bytes(path, most, error).decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        raise error(
            f"'{path}' is not text in UTF-8 (byte {reason.start})", path=str(path)
        ) from None


def check_archive(archive: zipfile.ZipFile, budget: Budget, *, stored_too: bool = True) -> None:
    """Take all members of an archive from a budget.

    Args:
        archive: The open archive.
        budget: Of its file.
        stored_too: Count members that are not compressed.
    """
    for member in archive.infolist():
        if stored_too or member.compress_type != zipfile.ZIP_STORED:
            budget.take_bytes(member.file_size, f"'{member.filename}'")


def load_arrays(content: bytes, budget: Budget) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of an NPZ file, without objects; errors come through `reading`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_archive(archive, budget)
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


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

    The files are first written to a temporary folder inside it.
    Renaming that folder to `PENDING_FOLDER` commits them; after that
    each file moves to its place. If a crash interrupts the moves,
    `locate_written` finds the files that are still pending, and the
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

    It may if nothing is there (not even a broken link), or with
    `force`. None passes.
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

    UTF-16 is recognised by its byte-order mark or its zero bytes; then
    UTF-8 if it fits, else that of Windows.
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
