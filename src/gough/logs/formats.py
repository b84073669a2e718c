"""Formats of log files: which reader opens which suffix; docs/extending.md adds one.

What a description may say about columns and clocks, and all checks, come after the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.bags import read_bag
from gough.logs.containers import arrow_blocks, npz_blocks, read_hdf5, read_mat
from gough.logs.description import Description
from gough.logs.tables import Table, cut, text_blocks

LogReader = Callable[[Path, int, Description | None], Iterator[Table]]
"""(file, samples a block, description or None) -> consecutive tables of at most so many samples."""


def in_blocks(read: Callable[[Path], Table]) -> LogReader:
    """Make a reader of one that returns the whole file."""

    return lambda path, size, description: cut(read(path), size)


LOG_FORMATS: dict[str, LogReader] = {
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow"),
                    lambda path, size, description: arrow_blocks(path, size)),
    **dict.fromkeys((".bag", ".mcap", ".db3"), in_blocks(read_bag)),
    **dict.fromkeys((".h5", ".hdf5"), in_blocks(read_hdf5)),
    ".mat": in_blocks(read_mat),
    ".npz": lambda path, size, description: npz_blocks(path, size),
}


def register_log_format(suffix: str, reader: LogReader) -> LogReader:
    """Make a suffix known, such as `.cnt`; any that is not known is read as text. Returns the reader."""
    suffix = suffix.lower()
    if suffix in LOG_FORMATS or not suffix.startswith("."):
        raise InvalidInput(f"'{suffix}' cannot be registered: expected a suffix such as .cnt, other than "
                           f"{', '.join(LOG_FORMATS)}", suffix=suffix)
    LOG_FORMATS[suffix] = reader
    return reader


def is_folder(path: Path) -> bool:
    """Tell whether a run is a folder of files; a ROS 2 bag is a folder too, but one log."""
    return path.is_dir() and not (path / "metadata.yaml").is_file()


def table_blocks(path: Path, size: int, description: Description | None) -> Iterator[Table]:
    """Yield the tables of a file of any format."""
    if not path.exists():
        raise InvalidRecording(f"there is no file '{path}'", source=path.name)
    reader = LOG_FORMATS.get(".bag" if path.is_dir() else path.suffix.lower())
    if reader is not None:
        return reader(path, size, description)
    if description is None:
        return text_blocks(path, size)
    return text_blocks(path, size, decimal=description.decimal, thousands=description.thousands, skip=description.skip)
