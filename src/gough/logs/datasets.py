"""Parquet datasets in folders `robot=.../day=...`: the logs of a fleet where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording, StorageFault
from gough.core.storage import StoredFile, address_of, files_below, is_address

# samples of a dataset that are one log; a row group is never divided
MAX_PART_ROWS = 2_000_000
# files that writers of datasets leave beside the data
HIDDEN_PREFIXES = ("_", ".")


class DatasetPart(NamedTuple):
    """A range of row groups of one file of a dataset, which is one log."""

    log: str  # address with `#row_groups=...`
    robot: str
    day: date


def dataset_parts(folder: str, rows: int = MAX_PART_ROWS) -> list[DatasetPart]:
    """Return the logs of a dataset that is divided into folders `robot=.../day=...`.

    Only the ends of the files, which list their row groups, are read. A
    file without samples, or one that is damaged, is a log as a whole:
    whoever reads it names what is wrong.

    Args:
        folder: Path or address.
        rows: Most samples of a log, unless a row group has more.

    Raises:
        InvalidRecording: The folder is no such dataset.
        StorageFault: The store does not answer.
    """
    address = folder if is_address(folder) else address_of(Path(folder))
    try:
        files = files_below(address)
    except FileNotFoundError:
        raise InvalidRecording(
            f"there are no files in '{folder}', expected Parquet files in folders "
            "robot=NAME/day=2026-03-02"
        ) from None
    partitioning = _partitioning()
    parts = []
    for file in files:
        if PurePosixPath(file).name.startswith(HIDDEN_PREFIXES):
            continue
        robot, day = _keys(partitioning, file)
        ranges = list(_ranges(StoredFile(file), rows))
        logs = [f"{file}#row_groups={start}:{stop}" for start, stop in ranges]
        for log in logs or [file]:
            parts.append(DatasetPart(log, robot, day))
    return parts


def _partitioning() -> Any:
    """Return how folders name robot and day; as text, so that robot 007 stays robot 007."""
    dataset = import_optional("pyarrow.dataset", "parquet")
    pyarrow = import_optional("pyarrow", "parquet")
    fields = [pyarrow.field(name, pyarrow.string()) for name in ("robot", "day")]
    return dataset.partitioning(pyarrow.schema(fields), flavor="hive")


def _keys(partitioning: Any, file: str) -> tuple[str, date]:
    """Return robot and day of a file from the names of its folders."""
    dataset = import_optional("pyarrow.dataset", "parquet")
    keys = dataset.get_partition_keys(partitioning.parse(file))
    robot = keys.get("robot")
    try:
        day = date.fromisoformat(keys.get("day") or "")
    except ValueError:
        day = None
    if not robot or day is None:
        raise InvalidRecording(
            f"'{file}' does not lie in folders robot=NAME/day=2026-03-02, which say what its "
            "samples are of"
        )
    return robot, day


def _ranges(file: StoredFile, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of row groups with at most so many rows, or one row group.

    Nothing is yielded of a file without samples, or of one that is no
    Parquet file.
    """
    start = 0
    count = 0
    lengths = _row_group_lengths(file)
    for k, length in enumerate(lengths):
        if count and count + length > rows:
            yield start, k
            start = k
            count = 0
        count += length
    if count:
        yield start, len(lengths)


def _row_group_lengths(file: StoredFile) -> list[int]:
    """Return the number of samples of each row group; none of a damaged file."""
    parquet = import_optional("pyarrow.parquet", "parquet")
    try:
        with file.open() as stream:
            metadata = parquet.ParquetFile(stream).metadata
    except StorageFault:
        raise
    except Exception:  # pyarrow raises many kinds; the reader of the log names the damage
        return []
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
