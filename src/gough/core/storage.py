"""Files at addresses such as `s3://bucket/log.parquet`, opened through fsspec and never copied."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from stat import S_IFREG
from typing import Any, BinaryIO, NamedTuple, TypeVar

from gough.core.display import import_optional
from gough.core.errors import InvalidInput, StorageFault

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
ROW_GROUPS = re.compile(r"#row_groups=(\d+):(\d+)$")
STREAM_BUFFER = 2**20  # bytes read ahead of a reader
ETAG_KEYS = ("ETag", "etag", "e_tag")  # of the facts that file systems of fsspec give
T = TypeVar("T")


class StoredStatus(NamedTuple):
    """Size and kind of a stored file, named as `os.stat_result` names them."""

    st_size: int
    st_mode: int = S_IFREG


def is_address(text: object) -> bool:
    """Return whether a text is the address of a file elsewhere: `protocol://...`."""
    return isinstance(text, str) and ADDRESS.match(text) is not None


@dataclass(frozen=True)
class StoredFile:
    """A file at an address, with those parts of `pathlib.Path` that readers use.

    `#row_groups=2:5` after the address selects row groups of a Parquet file.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def row_groups(self) -> range | None:
        """Row groups of a Parquet file that are read; None for all."""
        match = ROW_GROUPS.search(self.address)
        return None if match is None else range(int(match[1]), int(match[2]))

    @property
    def location(self) -> str:
        """The address without row groups."""
        return ROW_GROUPS.sub("", self.address)

    @property
    def name(self) -> str:
        """Last part of the address, with row groups."""
        return PurePosixPath(self.address).name

    @property
    def suffix(self) -> str:
        """Suffix of the name."""
        return PurePosixPath(self.location).suffix

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the file system knows about the file: size, ETag, ...

        Raises:
            FileNotFoundError: There is no such file.
            StorageFault: The store does not answer.
        """
        system, path = file_system(self.location)
        return _asked(self.location, lambda: dict(system.info(path)))

    def stat(self) -> StoredStatus:
        """Return the size of the file."""
        return StoredStatus(int(self.facts["size"]))

    def is_dir(self) -> bool:
        """Return False: folders are listed by `matching_files` and `dataset_parts`."""
        return False

    def is_file(self) -> bool:
        """Return whether there is such a file."""
        try:
            return bool(self.facts)
        except FileNotFoundError:
            return False

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading; bytes are fetched as they are needed."""
        if mode != "rb":
            raise InvalidInput(f"'{self.address}' can only be read")
        system, path = file_system(self.location)
        stream = _asked(self.location, lambda: system.open(path, "rb"))
        return io.BufferedReader(_StoredStream(self.location, stream), STREAM_BUFFER)

    def identity(self) -> str:
        """Return a hash by which the content is known: of size and ETag, or of the content."""
        etag = next((str(self.facts[key]) for key in ETAG_KEYS if self.facts.get(key)), "")
        groups = self.row_groups
        selected = "" if groups is None else f"{groups.start}:{groups.stop}"
        digest = hashlib.sha256(f"{self.stat().st_size} {etag} {selected}".encode())
        if not etag:
            with self.open() as stream:
                while block := stream.read(STREAM_BUFFER):
                    digest.update(block)
        return digest.hexdigest()


class _StoredStream(io.RawIOBase):
    """A stream of a store whose failures are distinct from damage of the file."""

    def __init__(self, address: str, stream: Any) -> None:
        super().__init__()
        self._address = address
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        content = _asked(self._address, lambda: self._stream.read(len(buffer)))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _asked(address: str, question: Callable[[], T]) -> T:
    """Return the answer of a store; its failures say nothing about the file.

    Raises:
        FileNotFoundError: There is no such file.
        StorageFault: Anything else.
    """
    try:
        return question()
    except FileNotFoundError:
        raise
    except Exception as error:
        cause = str(error) or type(error).__name__
        raise StorageFault(
            f"the store of '{address}' failed ({cause}); check network and access rights, then "
            "start again: what is done is kept",
            address=address,
        ) from error


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of fsspec for an address, and the path in it."""
    core = import_optional("fsspec.core", "remote")
    try:
        system, path = core.url_to_fs(address)
    except ImportError as error:
        raise InvalidInput(
            f"'{address}' cannot be opened: {error}; s3:// needs `pip install gough[s3]`"
        ) from None
    except ValueError as error:
        raise InvalidInput(f"'{address}' cannot be opened: {error}") from None
    return system, path


def matching_files(pattern: str) -> list[str]:
    """Return the addresses that match a pattern with `*`, sorted."""
    system, path = file_system(pattern)
    paths = _asked(pattern, lambda: system.glob(path))
    return sorted(system.unstrip_protocol(str(match)) for match in paths)


def place_of(path: str | Path | StoredFile) -> Path | StoredFile:
    """Return a file by its path or address."""
    if isinstance(path, StoredFile):
        return path
    if isinstance(path, str) and is_address(path):
        return StoredFile(path)
    return Path(path)
