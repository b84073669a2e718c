"""The formats of logs by their suffixes, and the way every log comes in.

docs/extending.md shows how to add a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import cast

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.storage import StoredFile
from gough.logs.arrow import arrow_blocks
from gough.logs.description import Description
from gough.logs.hdf5 import read_hdf5
from gough.logs.json_lines import read_json_lines
from gough.logs.lerobot import is_dataset, lerobot_blocks
from gough.logs.matlab import read_mat
from gough.logs.mcap import read_mcap
from gough.logs.npz import npz_blocks
from gough.logs.ros_bags import read_bag
from gough.logs.rsi import read_rsi
from gough.logs.tables import Table, cut, text_blocks
from gough.logs.tdms import read_tdms
from gough.logs.ulog import read_ulog
from gough.logs.xlsx import read_xlsx

LogReader = Callable[[Path, int, Description | None], Iterator[Table]]
"""(file, samples a block, description or None) -> consecutive tables of at most so many samples."""


def in_blocks(read: Callable[[Path], Table]) -> LogReader:
    """Return a reader in blocks, given one that returns the whole file."""
    return lambda path, size, description: cut(read(path), size)


def workbook_blocks(path: Path, size: int, description: Description | None) -> Iterator[Table]:
    """Yield the tables of a workbook of Excel."""
    return cut(read_xlsx(path, description), size)


LOG_FORMATS: dict[str, LogReader] = {
    ".npz": npz_blocks,
    ".mat": in_blocks(read_mat),
    **dict.fromkeys((".h5", ".hdf5"), in_blocks(read_hdf5)),
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow"), arrow_blocks),
    **dict.fromkeys((".bag", ".db3"), in_blocks(read_bag)),
    ".mcap": in_blocks(read_mcap),
    **dict.fromkeys((".xlsx", ".xlsm"), workbook_blocks),
    ".tdms": in_blocks(read_tdms),
    ".ulg": in_blocks(read_ulog),
    **dict.fromkeys((".jsonl", ".ndjson"), in_blocks(read_json_lines)),
    ".xml": in_blocks(read_rsi),
}


STREAMING_READERS: tuple[LogReader, ...] = (arrow_blocks, npz_blocks, text_blocks)
"""Readers that open a file once and read it from there."""


def log_formats_text() -> str:
    """Return which files are read as logs, for help."""
    return (
        f"{', '.join(LOG_FORMATS)}; any other file as a text table (.csv, .txt, ...), plain or "
        ".gz; the folder of a ROS 2 bag, of a LeRobot dataset, or of files with a description"
    )


def register_log_format(suffix: str, reader: LogReader) -> LogReader:
    """Register a reader for a suffix such as `.cnt`; return it.

    Files with an unknown suffix are read as text.
    """
    suffix = suffix.lower()
    if suffix in LOG_FORMATS or not suffix.startswith("."):
        raise InvalidInput(
            f"'{suffix}' cannot be registered: expected a suffix such as .cnt, other than "
            f"{', '.join(LOG_FORMATS)}",
            suffix=suffix,
        )
    LOG_FORMATS[suffix] = reader
    return reader


def is_folder(path: Path | StoredFile) -> bool:
    """Return True for a folder of files; a ROS 2 bag and a dataset are folders too, but logs."""
    if isinstance(path, StoredFile) or not path.is_dir() or is_dataset(path):
        return False
    return not (path / "metadata.yaml").is_file()


def table_blocks(
    path: Path | StoredFile, size: int, description: Description | None
) -> Iterator[Table]:
    """Yield the tables of a file of any format."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        raise InvalidRecording(f"there is no file '{path}'", source=path.name) from None
    if not S_ISREG(status.st_mode) and not S_ISDIR(status.st_mode):
        raise InvalidRecording(f"'{path}' is a device or a pipe, expected a file", source=path.name)
    if isinstance(path, StoredFile):
        return _stored_blocks(path, size, description)
    reader = LOG_FORMATS.get(path.suffix.lower(), text_blocks)
    if path.is_dir():
        reader = lerobot_blocks if is_dataset(path) else LOG_FORMATS[".bag"]
    return reader(path, size, description)


def _stored_blocks(
    stored: StoredFile, size: int, description: Description | None
) -> Iterator[Table]:
    """Yield the tables of a file at an address, by the readers that need no file on a disk."""
    path = cast(Path, stored)  # they open it, and ask for its name and size
    reader = LOG_FORMATS.get(stored.suffix.lower(), text_blocks)
    if reader not in STREAMING_READERS:
        raise InvalidRecording(
            f"'{stored}': files of this format are read from a disk, not from an address; store "
            "logs as Parquet, NPZ or text",
            source=stored.name,
        )
    return reader(path, size, description)
