"""What reading a file may cost, and the way every file of unknown origin comes in.

A reader takes what it unpacks, and the columns and objects it makes, from the budget of its file.
Beyond it, reading ends with an error that names the file. Any other error of a library that reads
a damaged file becomes such an error too.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.errors import GoughError, InvalidInput, StorageFault

MAX_UNPACKED_BYTES = 2 * 2**30  # of files that are read whole
# A file may always unpack to this; beyond it, to so many times its length. Recorded numbers
# expand ten times, a log of constants a thousand times.
FREE_UNPACKED_BYTES = 2**28
MAX_EXPANSION = 100
MAX_COLUMNS = 100_000  # of a log
MAX_OBJECTS = 100_000  # groups, structures and datasets in a file
MAX_STRUCTURE_DEPTH = 16  # levels of structures in structures
# Reading a file whole may take this much processor time, and more for long files.
READING_SECONDS = 15.0
READING_BYTES_PER_SECOND = 1e6
# Texts that people write; a stored result of a large robot has a few million characters.
MAX_ROBOT_BYTES = 1_000_000  # the largest bundled robot has 6 kB
MAX_TOML_CHARACTERS = 4 * 2**20
MAX_JSON_CHARACTERS = 64 * 2**20
MAX_YAML_CHARACTERS = 2**18  # beside a URDF; a hundred loops have ten thousand
MAX_TABLE_BYTES = 64 * 2**20  # of trajectories and of the logs of a fleet
MAX_TEXT_NESTING = 60  # brackets inside brackets, and parts of a dotted key; robot files have five
MAX_DIGITS = 300  # of one number: those of a double have at most 309
MAX_XML_DEPTH = 200  # nested elements; MJCF nests a body for each link of a chain
MAX_XML_ELEMENTS = 100_000  # a humanoid with hands has three thousand


class Budget:
    """What reading one file may still cost.

    Args:
        source: Name of the file in errors.
        file_bytes: Its length.
        error: Type of the errors.
        streamed: It is read in blocks that are given away: neither its whole length nor the
            time between blocks counts, but it may not expand too much.
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
