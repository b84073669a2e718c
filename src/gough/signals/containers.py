"""NPZ, MATLAB and Parquet files as tables."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.arrays import FloatArray
from gough.errors import InvalidRecording
from gough.signals.tables import Table
from gough.signals.writers import FORMAT, MARK


def open_npz(path: Path) -> tuple[Mapping[str, object], dict[str, NDArray[Any]]]:
    """Return what an NPZ file says about itself and its arrays, those stored uncompressed mapped, not read.

    Raises:
        InvalidRecording: Not an NPZ file, damaged, or with arrays of objects.
    """
    source = path.name
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        with np.load(path, allow_pickle=False) as data:
            arrays = {m.filename.removesuffix(".npy"): _mapped(path, m) if m.compress_type == zipfile.ZIP_STORED
                      and m.file_size > 4096 else data[m.filename.removesuffix(".npy")] for m in members}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, KeyError) as error:
        raise InvalidRecording(f"{source} cannot be read as NPZ ({error}); expected a file numpy.savez wrote, without "
                               "objects", source=source) from error
    facts: Mapping[str, object] = {}
    if "facts" in arrays:
        try:
            facts = json.loads(str(arrays["facts"]))
        except ValueError as error:
            raise InvalidRecording(f"{source}: the array 'facts' is damaged: {error}", source=source) from error
        if not isinstance(facts, dict) or facts.get("format") != MARK or facts.get("version") != FORMAT:
            raise InvalidRecording(f"{source}: 'facts' are not those of {MARK} version {FORMAT}", source=source)
    return facts, arrays


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Map an uncompressed array inside a zip file."""
    with open(path, "rb") as handle:
        handle.seek(member.header_offset + 26)  # a local file header is 30 bytes, name and extra field follow
        lengths = handle.read(4)
        handle.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
        version = np.lib.format.read_magic(handle)
        read_header = (np.lib.format.read_array_header_1_0 if version == (1, 0)
                       else np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = read_header(handle)
        if dtype.hasobject:
            raise ValueError(f"'{member.filename}' holds objects")
        return np.memmap(handle, dtype=dtype, mode="r", shape=shape, order="F" if fortran else "C",
                         offset=handle.tell())


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file up to version 7.

    Raises:
        InvalidRecording: Not such a file.
    """
    from scipy.io import loadmat

    source = path.name
    try:
        data = loadmat(path, squeeze_me=True)
    except NotImplementedError as error:
        raise InvalidRecording(f"{source} is a MATLAB 7.3 file, which cannot be read; save it with '-v7'",
                               source=source) from error
    except Exception as error:  # SciPy raises whatever the damaged bytes lead to
        raise InvalidRecording(f"{source} cannot be read as a MATLAB file ({error})", source=source) from error
    return array_table(source, {k: v for k, v in data.items() if not k.startswith("__")})


def array_table(source: str, arrays: Mapping[str, Any]) -> Table:
    """Return arrays as a table: column j of a matrix `q` is named `q[j]`, counted from 1; text is left out."""
    columns: dict[str, FloatArray] = {}
    for name, value in arrays.items():
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            continue
        array = np.atleast_1d(array.astype(float))
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns.update({f"{name}[{j + 1}]": array[:, j] for j in range(array.shape[1])})
    if not columns:
        raise InvalidRecording(f"{source}: there are no numbers in this file", source=source)
    return Table(source=source, columns=columns)


def parquet_blocks(path: Path, size: int = 65536) -> Iterator[Table]:
    """Read a Parquet file in blocks.

    Raises:
        InvalidRecording: pyarrow is not installed, or the file is not Parquet.
    """
    source = path.name
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InvalidRecording(f"{source}: reading Parquet needs pyarrow; install it with "
                               "pip install 'gough[parquet]'", source=source) from error
    try:
        with parquet.ParquetFile(path) as handle:
            start = 0
            for batch in handle.iter_batches(batch_size=size):
                yield Table(source=source, columns=_numeric(batch, source), first=start)
                start += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidRecording(f"{source} cannot be read as Parquet ({error})", source=source) from error
    if not start:
        raise InvalidRecording(f"{source}: there are no samples", source=source)


def _numeric(batch: Any, source: str) -> dict[str, FloatArray]:
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns):
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind in "fiu":  # missing integers arrive as floats with NaN
            columns[name] = values.astype(float)
    if not columns:
        raise InvalidRecording(f"{source}: there are no numbers in this file", source=source)
    return columns
