"""NPZ, MATLAB and Parquet files as tables."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.tables import Table, repeated_names
from gough.logs.writers import FORMAT, MARK

LARGEST = 2 * 2**30  # bytes of compressed arrays once unpacked: they are read whole


@dataclass(frozen=True, kw_only=True)
class StoredArray:
    """An array inside a file, read slice by slice; a memory map would count as memory page by page."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise InvalidInput(f"stored arrays are read in consecutive rows, not every {step}")
        width = prod(self.shape[1:])
        count = max(0, stop - start) * width
        with open(self.path, "rb") as handle:
            handle.seek(self.offset + start * width * self.dtype.itemsize)
            values = np.fromfile(handle, dtype=self.dtype, count=count)
        if len(values) != count:
            raise InvalidRecording(f"{self.path.name} ends early: {len(values)} of {count} values from row {start}",
                                   source=self.path.name)
        return values.reshape(-1, *self.shape[1:])


def open_npz(path: Path) -> tuple[Mapping[str, object], dict[str, NDArray[Any] | StoredArray]]:
    """Return what an NPZ file says about itself and its arrays; long ones stored uncompressed stay in the file.

    Raises:
        InvalidRecording: Not an NPZ file, damaged, or with arrays of objects.
    """
    source = path.name
    arrays: dict[str, NDArray[Any] | StoredArray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        unpacked = sum(m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED)
        if unpacked > LARGEST:
            raise ValueError(f"{unpacked / 2**30:.1f} GiB when unpacked, expected at most {LARGEST / 2**30:g}; store "
                             "long arrays uncompressed, they are then read piece by piece")
        with np.load(path, allow_pickle=False) as data:
            for member in members:
                name = member.filename.removesuffix(".npy")
                stored = _stored(path, member)
                arrays[name] = data[name] if stored is None else stored
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, KeyError, MemoryError,
            NotImplementedError) as error:
        raise InvalidRecording(f"{source} cannot be read as NPZ ({error}); expected a file numpy.savez wrote, without "
                               "objects", source=source) from error
    facts: Mapping[str, object] = {}
    if "facts" in arrays:
        try:
            facts = parse_json(str(arrays["facts"]))
        except InvalidInput as error:
            raise InvalidRecording(f"{source}: the array 'facts' is damaged: {error}", source=source) from error
        if not isinstance(facts, dict) or facts.get("format") != MARK or facts.get("version") != FORMAT:
            raise InvalidRecording(f"{source}: 'facts' are not those of {MARK} version {FORMAT}", source=source)
    return facts, arrays


def recorded_blocks(source: str, facts: Mapping[str, Any], arrays: Mapping[str, Any], size: int) -> Iterator[Table]:
    """Read an NPZ file that Gough wrote in blocks, its columns under headers such as `leg1.slider.position [m]`."""
    try:
        if arrays["time"].ndim != 1:
            raise ValueError("the array 'time' is not a column")
        for i in range(0, len(arrays["time"]), size):
            rows = slice(i, i + size)
            columns = {"time [s]": np.asarray(arrays["time"][rows], dtype=float)}
            for kind, about in facts["columns"].items():
                headers = [f"{name}.{kind} [{unit}]" for name, unit in zip(about["names"], about["units"], strict=True)]
                columns |= dict(zip(headers, np.asarray(arrays[kind][rows], dtype=float).T, strict=True))
            yield Table(source=source, columns=columns, facts=facts, first=i)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRecording(f"{source}: the file does not fit together: {error!r}", source=source) from error


def _stored(path: Path, member: zipfile.ZipInfo) -> StoredArray | None:
    """Find an array inside a zip file; None if it is short, compressed, by columns or not of numbers."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size < 4096:
        return None
    with open(path, "rb") as handle:
        handle.seek(member.header_offset + 26)  # a local file header is 30 bytes, name and extra field follow
        lengths = handle.read(4)
        handle.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
        version = np.lib.format.read_magic(handle)
        read_header = (np.lib.format.read_array_header_1_0 if version == (1, 0)
                       else np.lib.format.read_array_header_2_0)
        shape, by_columns, dtype = read_header(handle)
        if not shape or by_columns or dtype.kind not in "fiu":
            return None
        if prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"'{member.filename}' claims {prod(shape)} values and has {member.file_size} bytes")
        return StoredArray(path=path, offset=handle.tell(), shape=shape, dtype=dtype)


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file; version 7.3 needs h5py.

    Raises:
        InvalidRecording: Not such a file, or h5py is not installed.
    """
    from scipy.io import loadmat

    source = path.name
    try:
        data = loadmat(path, squeeze_me=True)
    except NotImplementedError:  # SciPy's word for version 7.3, which is HDF5
        return _read_mat73(path)
    except Exception as error:  # SciPy raises whatever the damaged bytes lead to
        raise InvalidRecording(f"{source} cannot be read as a MATLAB file ({error})", source=source) from error
    return array_table(source, {k: v for k, v in data.items() if not k.startswith("__")})


def _read_mat73(path: Path) -> Table:
    """Read the numeric variables at the top of a MATLAB 7.3 file; MATLAB stores matrices transposed."""
    source = path.name
    try:
        import h5py
    except ImportError as error:
        raise InvalidRecording(f"{source} is a MATLAB 7.3 file: save it with '-v7', or install h5py with "
                               "pip install 'gough[mat73]'", source=source) from error
    try:
        with h5py.File(path) as data:
            arrays = {name: np.array("text") if item.attrs.get("MATLAB_class") == b"char" else np.squeeze(item[()].T)
                      for name, item in data.items() if isinstance(item, h5py.Dataset)}
    except OSError as error:
        raise InvalidRecording(f"{source} cannot be read as a MATLAB file ({error})", source=source) from error
    return array_table(source, arrays)


def array_table(source: str, arrays: Mapping[str, Any]) -> Table:
    """Return arrays as a table: column j of a matrix `q` is named `q[j]`, counted from 1; text is left out."""
    columns: dict[str, FloatArray] = {}
    unread: dict[str, str] = {}
    for name, value in arrays.items():
        array = value[:] if isinstance(value, StoredArray) else np.asarray(value)
        if array.dtype.kind not in "fiu":
            unread[name] = f"values of type {array.dtype}"
            continue
        array = np.atleast_1d(array.astype(float))
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns.update({f"{name}[{j + 1}]": array[:, j] for j in range(array.shape[1])})
    if not columns:
        raise InvalidRecording(f"{source}: there are no numbers in this file", source=source)
    return Table(source=source, columns=columns, unread=unread)


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
            for batch in handle.iter_batches(batch_size=size):  # missing integers arrive as floats with NaN
                names = batch.schema.names
                columns = {name: column.to_numpy(zero_copy_only=False) for name, column in zip(names, batch.columns)}
                yield replace(array_table(source, columns), repeated=repeated_names(names), first=start)
                start += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidRecording(f"{source} cannot be read as Parquet ({error})", source=source) from error
    if not start:
        raise InvalidRecording(f"{source}: there are no samples", source=source)
