"""Reader of NPZ files: those that Gough wrote, and any other."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import InvalidRecording
from gough.core.files import (
    MAX_UNPACKED_BYTES,
    check_archive,
    load_arrays,
    reading,
)
from gough.logs.array_tables import array_table, log_budget
from gough.logs.description import Description
from gough.logs.tables import Table, cut
from gough.logs.writers import RECORDING_FORMAT, RECORDING_MARK


def npz_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Yield the tables of an NPZ file: one that Gough wrote in blocks, any other whole.

    Columns of the former have headers such as `leg1.slider.position
    [m]`.
    """
    source = path.name
    with (
        reading(
            source,
            "NPZ",
            InvalidRecording,
            "; expected a file numpy.savez wrote, without objects",
        ),
        path.open("rb") as stream,
        zipfile.ZipFile(stream) as archive,
        ExitStack() as stack,
    ):
        ours = "facts.npy" in archive.namelist()
        budget = log_budget(path)
        if not ours:
            n_bytes = stream.seek(0, io.SEEK_END)
            if n_bytes > MAX_UNPACKED_BYTES:
                raise InvalidRecording(
                    f"'{source}' has {n_bytes / 1e6:.0f} MB, too large to be read whole (at most "
                    f"{MAX_UNPACKED_BYTES / 1e6:.0f} MB); divide the log",
                    source=source,
                )
            stream.seek(0)
            arrays_of_file = load_arrays(stream.read(), budget)
            yield from cut(array_table(source, arrays_of_file, budget), size)
            return
        check_archive(archive, budget, stored_too=False)
        with archive.open("facts.npy") as handle:
            facts = parse_json(str(np.lib.format.read_array(handle, allow_pickle=False)))
        headers = _npz_headers(facts)
        arrays = []
        for kind in headers:
            handle = stack.enter_context(archive.open(f"{kind}.npy"))
            arrays.append(_array_blocks(handle, size))
        first = 0
        for blocks in zip(*arrays, strict=True):
            columns: dict[str, FloatArray] = {}
            for names, block in zip(headers.values(), blocks):
                matrix = block.reshape(len(block), -1)
                columns.update(zip(names, matrix.T, strict=True))
            yield Table(source=source, columns=columns, facts=facts, first=first)
            first += len(blocks[0])


def _npz_headers(facts: Any) -> dict[str, list[str]]:
    """Return the headers of the columns of each kind in a file of Gough."""
    known = isinstance(facts, dict) and facts.get("format") == RECORDING_MARK
    if not known or facts.get("version") != RECORDING_FORMAT:
        raise ValueError(f"'facts' are not those of {RECORDING_MARK} version {RECORDING_FORMAT}")
    headers = {"time": ["time [s]"]}
    for kind, about in facts["columns"].items():
        pairs = zip(about["names"], about["units"], strict=True)
        headers[kind] = [f"{name}.{kind} [{unit}]" for name, unit in pairs]
    return headers


def _array_blocks(handle: IO[bytes], rows: int) -> Iterator[FloatArray]:
    """Yield blocks of at most so many rows of a stored array of numbers."""
    if np.lib.format.read_magic(handle) == (1, 0):
        header = np.lib.format.read_array_header_1_0(handle)
    else:
        header = np.lib.format.read_array_header_2_0(handle)
    shape, by_columns, dtype = header
    if dtype.kind not in "fiu" or not 0 < len(shape) < 3 or (by_columns and len(shape) > 1):
        raise ValueError(
            f"an array of {dtype} with shape {shape}, by columns: {by_columns}; expected rows of "
            "numbers"
        )
    width = prod(shape[1:]) * dtype.itemsize
    for start in range(0, shape[0], rows):
        count = min(rows, shape[0] - start)
        content = handle.read(count * width)
        if len(content) != count * width:
            raise ValueError(f"an array claims {prod(shape)} values and ends early")
        yield (np.frombuffer(content, dtype=dtype).reshape(count, *shape[1:]).astype(float))
