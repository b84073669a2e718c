"""NPZ, MATLAB, HDF5, Parquet and Feather files as tables."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.showing import needed
from gough.logs.matlab import OBJECT, read_mat5
from gough.logs.tables import Table, cut, numbered_names, repeated_names
from gough.logs.writers import FORMAT, MARK

LARGEST = 2 * 2**30  # bytes of compressed arrays once unpacked: they are read whole
TIGHT, MODEST = 100, 2**28  # times the file: what was recorded packs ten times; beyond it, so much is unpacked [bytes]
DENSEST = 1000  # values in a byte of the file; a log of constants reaches it, noise stays below 1
DEEPEST = 16  # levels of structures in structures


def npz_blocks(path: Path, size: int) -> Iterator[Table]:
    """Read an NPZ file: one that Gough wrote in blocks, any other whole.

    Columns of the former are under headers such as `leg1.slider.position [m]`; their arrays are read side by side.

    Raises:
        InvalidRecording: Not an NPZ file, damaged, with arrays of objects, or too large once unpacked.
    """
    source = path.name
    try:
        with zipfile.ZipFile(path) as archive, ExitStack() as stack:
            members = archive.infolist()
            ours = "facts.npy" in archive.namelist()
            unpacked = sum(m.file_size for m in members if not ours or m.compress_type != zipfile.ZIP_STORED)
            most = LARGEST if unpacked < TIGHT * path.stat().st_size else MODEST
            if unpacked > most:
                raise ValueError(f"{unpacked / 2**30:.1f} GiB when unpacked, expected at most {most / 2**30:g}")
            if not ours:
                with np.load(path, allow_pickle=False) as data:
                    yield from cut(array_table(source, dict(data)), size)
                return
            with archive.open("facts.npy") as handle:
                facts = parse_json(str(np.lib.format.read_array(handle, allow_pickle=False)))
            if not isinstance(facts, dict) or facts.get("format") != MARK or facts.get("version") != FORMAT:
                raise ValueError(f"'facts' are not those of {MARK} version {FORMAT}")
            groups = {"time": ["time [s]"]} | {
                kind: [f"{name}.{kind} [{unit}]" for name, unit in zip(about["names"], about["units"], strict=True)]
                for kind, about in cast(dict[str, Any], facts["columns"]).items()}
            arrays = {kind: _rows(stack.enter_context(archive.open(f"{kind}.npy")), size) for kind in groups}
            first = 0
            for rows in zip(*arrays.values(), strict=True):
                columns = {header: column for headers, part in zip(groups.values(), rows)
                           for header, column in zip(headers, part.reshape(len(part), -1).T, strict=True)}
                yield Table(source=source, columns=columns, facts=facts, first=first)
                first += len(rows[0])
    except (zipfile.BadZipFile, zlib.error, ValueError, TypeError, AttributeError, OSError, EOFError, KeyError,
            MemoryError, NotImplementedError, InvalidInput) as error:
        raise InvalidRecording(f"{source} cannot be read as NPZ ({error}); expected a file numpy.savez wrote, without "
                               "objects", source=source) from error


def _rows(handle: IO[bytes], size: int) -> Iterator[FloatArray]:
    """Yield consecutive rows of a stored array of numbers, at most so many at a time."""
    version = np.lib.format.read_magic(handle)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read_header(handle)
    if dtype.kind not in "fiu" or not 0 < len(shape) < 3 or (by_columns and len(shape) > 1):
        raise ValueError(f"an array of {dtype} with shape {shape}, by columns: {by_columns}; expected rows of numbers")
    width = prod(shape[1:]) * dtype.itemsize
    for start in range(0, shape[0], size):
        count = min(size, shape[0] - start)
        data = handle.read(count * width)
        if len(data) != count * width:
            raise ValueError(f"an array claims {prod(shape)} values and ends early")
        yield np.frombuffer(data, dtype=dtype).reshape(count, *shape[1:]).astype(float)


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file, those inside structures as `log.q`; version 7.3 needs h5py.

    Objects (a `timeseries`, a `Simulink.SimulationData.Dataset`) are stored in a way only MATLAB reads; they are named
    among what is not read, with what to save instead.

    Raises:
        InvalidRecording: Not such a file, or h5py is not installed.
    """
    source, data = path.name, path.read_bytes()
    if data[124:126] in (b"\x00\x02", b"\x02\x00"):  # version 7.3 is HDF5
        return read_hdf5(path)
    if data[126:128] not in (b"IM", b"MI"):
        raise InvalidRecording(f"{source} cannot be read as a MATLAB file: it has not the mark of version 5 or newer; "
                               "save it with '-v7'", source=source)
    try:
        return array_table(source, read_mat5(data))
    except (ValueError, KeyError, StopIteration, struct.error, zlib.error, OverflowError, MemoryError) as error:
        raise InvalidRecording(f"{source} cannot be read as a MATLAB file ({error or type(error).__name__})",
                               source=source) from error


def read_hdf5(path: Path) -> Table:
    """Read the numbers of an HDF5 file, also of MATLAB 7.3, which stores matrices transposed; `log/q` by its path.

    Raises:
        InvalidRecording: Not such a file, too large once unpacked, or h5py is not installed.
    """
    source = path.name
    h5py = needed("h5py", "hdf5")
    most = min(LARGEST, DENSEST * path.stat().st_size)

    def read(item: Any, depth: int = 0) -> Any:
        if isinstance(item, h5py.Group) and depth < DEEPEST:
            return {name: read(item[name], depth + 1) for name in item if not name.startswith("#")}
        if not isinstance(item, h5py.Dataset):
            return np.array("no data")
        if item.dtype.kind == "O" and h5py.check_ref_dtype(item.dtype) and item.size < 1000 and depth < DEEPEST:
            return [read(item.file[reference], depth + 1) for reference in np.ravel(item[()])]
        if "MATLAB_object_decode" in item.attrs:
            return OBJECT
        if item.attrs.get("MATLAB_class") == b"char" and item.dtype.kind == "u" and item.size < 1000:
            return np.array("".join(map(chr, np.ravel(item[()]))))
        if item.attrs.get("MATLAB_class") == b"char" or item.dtype.kind not in "fiubV":
            return np.array("text")
        if item.nbytes > most:
            raise ValueError(f"'{item.name}' has {item.nbytes / 2**20:.0f} MiB when unpacked")
        values = item[()]
        if values.dtype.names:
            return {name: values[name] for name in values.dtype.names}
        return np.squeeze(values.T) if "MATLAB_class" in item.attrs else values

    try:
        with h5py.File(path) as data:
            arrays = read(data)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, RecursionError) as error:
        raise InvalidRecording(f"{source} cannot be read as HDF5 or MATLAB file ({error})", source=source) from error
    return array_table(source, arrays)


def flat(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arrays inside structures by name: `log.q`; the third of a list of structures is `signals[3].values`,
    or `signals.torque.values` where each has a `label` of its own.

    A matrix beside `time` with a column for each sample, as Simulink saves signals of several dimensions, is turned.
    """
    if isinstance(value, np.ndarray) and value.dtype == object and value.size < 1000:
        inside = list(value.flat)
        value = inside if all(isinstance(item, Mapping | np.ndarray) for item in inside) else value
    if isinstance(value, Mapping) and depth < DEEPEST:
        times = next((np.size(v) for k, v in value.items() if str(k).lower() in ("time", "tout", "t")), 0)
        for key, item in value.items():
            for label, array in flat(item, f"{name}.{key}" if name else str(key), depth + 1):
                turned = isinstance(array, np.ndarray) and array.ndim == 2 and array.shape[0] != times == array.shape[1]
                yield label, array.T if turned else array
    elif isinstance(value, list) and depth < DEEPEST:
        labels = [str(item.get("label", "")).strip() if isinstance(item, Mapping) else "" for item in value]
        told = all(labels) and len(set(labels)) == len(labels)  # what Simulink's signals are called
        for i, item in enumerate(value):
            yield from flat(item, f"{name}.{labels[i]}" if told else f"{name}[{i + 1}]", depth + 1)
    else:
        yield name, value


def array_table(source: str, arrays: Mapping[str, Any]) -> Table:
    """Return arrays as a table: column j of a matrix `q` is named `q[j]`, counted from 1; text is left out.

    Dates become seconds since 1970, spans of time seconds.
    """
    columns: dict[str, FloatArray] = {}
    unread: dict[str, str] = {}
    seconds: set[str] = set()
    for name, value in flat(arrays):
        array = np.asarray(value)
        if array.dtype.kind in "mM":
            since = array - np.datetime64(0, "s") if array.dtype.kind == "M" else array
            array, seconds = since / np.timedelta64(1, "s"), {*seconds, name}
        array = np.squeeze(array) if array.ndim > 2 else array
        if array.dtype.kind not in "fiub":
            unread[name] = str(array)[:90] if array.shape == () else f"values of type {array.dtype}"
        elif array.ndim <= 1:
            columns[name] = np.atleast_1d(array.astype(float))
        elif array.ndim == 2:
            columns.update({f"{name}[{j + 1}]": array[:, j].astype(float) for j in range(array.shape[1])})
        else:
            unread[name] = f"an array of shape {array.shape}"
    if not columns:
        held = "".join(f"; '{name}' is {what}" for name, what in list(unread.items())[:3])
        raise InvalidRecording(f"{source}: there are no numbers in this file{held}", source=source)
    return Table(source=source, columns=columns, unread=unread, seconds=frozenset(seconds))


def arrow_blocks(path: Path, size: int = 65536) -> Iterator[Table]:
    """Read a Parquet or Feather file in blocks; lists of one length become columns `q[1]`, `q[2]`, ...

    Raises:
        InvalidRecording: pyarrow is not installed, or the file is of neither kind.
    """
    source = path.name
    pyarrow, ipc, parquet = (needed(name, "parquet") for name in ("pyarrow", "pyarrow.ipc", "pyarrow.parquet"))
    start = 0
    try:
        with open(path, "rb") as handle:
            if handle.read(5) == b"ARROW":
                reader = ipc.open_file(handle)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                handle.seek(0)
                batches = parquet.ParquetFile(handle).iter_batches(batch_size=size)
            for whole in batches:
                whole.validate(full=True)
                for i in range(0, whole.num_rows, size):
                    batch = whole.slice(i, size)
                    names = batch.schema.names
                    columns = dict(zip(numbered_names(names), map(_arrow_values, batch.columns)))
                    yield replace(array_table(source, columns), repeated=repeated_names(names), first=start)
                    start += batch.num_rows
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InvalidRecording(f"{source} cannot be read as Parquet or Feather ({error})", source=source) from error
    if not start:
        raise InvalidRecording(f"{source}: there are no samples", source=source)


def _arrow_values(column: Any) -> Any:
    """Return a column as an array, (t,), lists of one length as a matrix, (t, k); missing integers become NaN."""
    import pyarrow.types as types

    if types.is_struct(column.type):
        return {field.name: _arrow_values(column.field(k)) for k, field in enumerate(column.type)}
    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        return column.to_numpy(zero_copy_only=False)
    inner = column.flatten()
    width, rest = divmod(len(inner), max(len(column), 1))
    even = not rest and width and not column.null_count and set(column.value_lengths().to_pylist()) == {width}
    return inner.to_numpy(zero_copy_only=False).reshape(-1, width) if even else np.array("lists of different lengths")
