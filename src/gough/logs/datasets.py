"""Parquet datasets in folders `robot=.../day=...`: the logs of a fleet where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.storage import file_system, is_address

MAX_PART_ROWS = 2_000_000  # samples of a dataset that are one log; a row group is never divided


class DatasetPart(NamedTuple):
    """A range of row groups of one file of a dataset, which is one log."""

    log: str  # address with `#row_groups=...`
    robot: str
    day: date


def dataset_parts(folder: str, rows: int = MAX_PART_ROWS) -> list[DatasetPart]:
    """Return the logs of a dataset that is divided into folders `robot=.../day=...`.

    Only the ends of the files, which list their row groups, are read.

    Args:
        folder: Path or address.
        rows: Most samples of a log, unless a row group has more.

    Raises:
        InvalidRecording: The folder is no such dataset.
    """
    dataset = import_optional("pyarrow.dataset", "parquet")
    address = folder if is_address(folder) else Path(folder).resolve().as_uri()
    system, path = file_system(address)
    try:
        opened = dataset.dataset(path, filesystem=system, format="parquet", partitioning="hive")
        fragments = list(opened.get_fragments())
    except (OSError, ValueError, TypeError) as error:
        raise InvalidRecording(
            f"'{folder}' is no Parquet dataset that can be read ({error})"
        ) from None
    parts = []
    for fragment in sorted(fragments, key=lambda one: str(one.path)):
        robot, day = _keys(dataset.get_partition_keys(fragment.partition_expression), fragment.path)
        location = system.unstrip_protocol(fragment.path)
        for start, stop in _ranges(fragment, rows):
            parts.append(DatasetPart(f"{location}#row_groups={start}:{stop}", robot, day))
    if not parts:
        raise InvalidRecording(f"'{folder}' holds no Parquet files")
    return parts


def _keys(keys: dict[str, Any], path: str) -> tuple[str, date]:
    """Return robot and day of a file from the names of its folders."""
    try:
        return str(keys["robot"]), date.fromisoformat(str(keys["day"])[:10])
    except (KeyError, ValueError):
        raise InvalidRecording(
            f"'{path}' does not lie in folders robot=NAME/day=2026-03-02, which say what its "
            "samples are of"
        ) from None


def _ranges(fragment: Any, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of row groups with at most so many rows, or one row group."""
    start = 0
    count = 0
    groups = fragment.row_groups
    for k, group in enumerate(groups):
        if count and count + group.num_rows > rows:
            yield start, k
            start = k
            count = 0
        count += group.num_rows
    if count:
        yield start, len(groups)
