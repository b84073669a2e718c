"""Files at addresses such as `s3://bucket/log.parquet`, opened through fsspec and never copied."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from stat import S_IFREG
from typing import Any, BinaryIO, NamedTuple, TypeVar

from gough.core.display import import_optional
from gough.core.errors import InvalidInput, MissingLibrary, StorageFault

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
ROW_GROUPS = re.compile(r"#row_groups=(\d+):(\d+)$")
STREAM_BUFFER = 2**20  # bytes read ahead of a reader
# of the facts that file systems of fsspec give
ETAG_KEYS = ("ETag", "etag", "e_tag")
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

    `#row_groups=2:5` after the address selects row groups of a Parquet
    file.
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

    @property
    def etag(self) -> str:
        """Name that the store gives to this content; empty if it gives none."""
        return next((str(self.facts[key]) for key in ETAG_KEYS if self.facts.get(key)), "")

    def identity(self) -> str:
        """Return a hash by which the content is known: of size and ETag, or of the content.

        Of row groups without an ETag only their own bytes are read.
        """
        groups = self.row_groups
        if self.etag:
            selected = "" if groups is None else f"{groups.start}:{groups.stop}"
            return _hash_of([f"{self.stat().st_size} {self.etag} {selected}".encode()])
        with self.open() as stream:
            if groups is None:
                return _hash_of(iter(lambda: stream.read(STREAM_BUFFER), b""))
            return _hash_of(_row_group_content(stream, groups))

    def stamp(self) -> str:
        """Return a text that changes with the content, for which as little as possible is read.

        Size with ETag, or with the time of change; the hash of the
        content in a store that knows neither.
        """
        if self.etag:
            return f"{self.stat().st_size} {self.etag}"
        system, path = file_system(self.location)
        changed = _asked(self.location, lambda: _time_of_change(system, path))
        return f"{self.stat().st_size} {changed}" if changed else self.identity()


def _time_of_change(system: Any, path: str) -> str:
    """Return when a file was changed, as text; empty if the store does not say."""
    try:
        return str(system.modified(path).isoformat())
    except NotImplementedError:
        return ""


def _hash_of(blocks: Iterable[bytes]) -> str:
    """Return the hash of some bytes."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _row_group_content(stream: BinaryIO, groups: range) -> Iterator[bytes]:
    """Yield the bytes of some row groups of a Parquet file, and before them its schema.

    A file that is damaged, or that has not these row groups, is known
    by all its bytes.
    """
    parquet = import_optional("pyarrow.parquet", "parquet")
    chunks: list[tuple[int, int]] = []
    schema = ""
    try:
        file = parquet.ParquetFile(stream)
        schema = str(file.schema_arrow.remove_metadata())
        for group in groups:
            chunks += _column_chunks(file.metadata.row_group(group))
    except StorageFault:
        raise
    except Exception:  # pyarrow raises many kinds; the reader of the log names the damage
        chunks = [(0, stream.seek(0, io.SEEK_END))]
    yield schema.encode()
    for start, length in chunks:
        stream.seek(start)
        while length > 0 and (block := stream.read(min(length, STREAM_BUFFER))):
            length -= len(block)
            yield block


def _column_chunks(row_group: Any) -> list[tuple[int, int]]:
    """Return start and length of the columns of a row group, in bytes of its file."""
    chunks = []
    for k in range(row_group.num_columns):
        column = row_group.column(k)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset:
            start = min(start, column.dictionary_page_offset)
        chunks.append((start, column.total_compressed_size))
    return chunks


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
        raise MissingLibrary(
            f"'{address}' cannot be opened: {error}; s3:// needs `pip install gough[s3]`"
        ) from None
    except ValueError as error:
        raise InvalidInput(f"'{address}' cannot be opened: {error}") from None
    return system, path


def address_of(path: Path) -> str:
    """Return the address of a file or folder of this machine."""
    local = import_optional("fsspec.implementations.local", "remote")
    return str(local.LocalFileSystem().unstrip_protocol(str(path.resolve())))


def matching_files(pattern: str) -> list[str]:
    """Return the addresses that match a pattern with `*`, sorted."""
    system, path = file_system(pattern)
    system.invalidate_cache()  # of an earlier list in this process
    paths = _asked(pattern, lambda: system.glob(path))
    return sorted(system.unstrip_protocol(str(match)) for match in paths)


def files_below(folder: str) -> list[str]:
    """Return the addresses of all files in a folder and its folders, sorted.

    Raises:
        FileNotFoundError: There is no such folder, or nothing in it.
        StorageFault: The store does not answer.
    """
    system, path = file_system(folder)
    system.invalidate_cache()
    paths = _asked(folder, lambda: system.find(path))
    if not paths:
        raise FileNotFoundError(folder)
    return sorted(system.unstrip_protocol(str(file)) for file in paths)


def place_of(path: str | Path | StoredFile) -> Path | StoredFile:
    """Return a file by its path or address."""
    if isinstance(path, StoredFile):
        return path
    if isinstance(path, str) and is_address(path):
        return StoredFile(path)
    return Path(path)
