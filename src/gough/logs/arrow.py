"""Reader of Parquet and Feather files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import MAX_COLUMNS, Budget, reading
from gough.logs.array_tables import array_table, log_budget
from gough.logs.description import Description
from gough.logs.messages import refused
from gough.logs.tables import Table, cut, numbered

ArrowColumn = Any  # pyarrow.Array, an optional dependency


def arrow_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Yield the tables of a Parquet or Feather file; lists become columns `q[1]`, `q[2]`, ..."""
    import_optional("pyarrow", "parquet")
    ipc = import_optional("pyarrow.ipc", "parquet")
    parquet = import_optional("pyarrow.parquet", "parquet")
    start = 0
    budget = log_budget(path, streamed=True)
    with reading(path.name, "Parquet or Feather", InvalidRecording), path.open("rb") as handle:
        if handle.read(5) == b"ARROW":
            reader = ipc.open_file(handle)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            handle.seek(0)
            file = parquet.ParquetFile(handle)
            groups = list(getattr(path, "row_groups", None) or range(file.num_row_groups))
            if groups and groups[-1] >= file.num_row_groups:
                raise ValueError(f"it has {file.num_row_groups} row groups")
            check_parquet(file.metadata, budget, groups)
            batches = file.iter_batches(batch_size=size, row_groups=groups)
        for batch in batches:
            batch.validate(full=True)
            budget.columns_left = MAX_COLUMNS
            names, repeated = numbered(batch.schema.names)
            columns = [arrow_values(column) for column in batch.columns]
            table = array_table(path.name, dict(zip(names, columns)), budget)
            yield from cut(replace(table, repeated=repeated, first=start), size)
            start += batch.num_rows
    if not start:
        raise refused(path.name, "there are no samples")


def check_parquet(metadata: Any, budget: Budget, groups: Sequence[int] | None = None) -> None:
    """Take from a budget what the metadata of a Parquet file announce, of some row groups."""
    for group in range(metadata.num_row_groups) if groups is None else groups:
        row_group = metadata.row_group(group)
        for k in range(row_group.num_columns):
            column = row_group.column(k)
            unpacked = max(column.total_uncompressed_size, 8 * column.num_values)
            budget.take_bytes(unpacked, f"column '{column.path_in_schema}'")


def arrow_values(column: ArrowColumn) -> Any:
    """Return a column as an array, (t,), lists of one length as a matrix, (t, k).

    Missing integers become NaN.
    """
    import pyarrow.types as types

    kind = column.type
    if types.is_struct(kind):
        return {field.name: arrow_values(column.field(k)) for k, field in enumerate(kind)}
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not lists:
        return column.to_numpy(zero_copy_only=False)
    entries = column.flatten()
    width = len(entries) // max(len(column), 1)
    lengths = set(column.value_lengths().to_pylist())
    if width and not column.null_count and lengths == {width}:
        return entries.to_numpy(zero_copy_only=False).reshape(-1, width)
    return np.array("lists of different lengths")
