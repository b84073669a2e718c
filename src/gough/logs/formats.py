"""Files other than text as tables: NPZ, MATLAB, HDF5, Parquet, Feather, bags; docs/extending.md
adds a format.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import import_optional
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.description import Description
from gough.logs.messages import refused
from gough.logs.tables import Table, cut, numbered, text_blocks
from gough.logs.writers import RECORDING_FORMAT, RECORDING_MARK

LARGEST = 2 * 2**30  # bytes of compressed arrays once unpacked: they are read whole
TIGHT, MODEST = (
    100,
    2**28,
)  # times the file: what was recorded packs ten times; beyond it, so much is unpacked [bytes]
DENSEST = 1000  # values in a byte of the file; a log of constants reaches it, noise stays below 1
DEEPEST = 16  # levels of structures in structures
OBJECT = np.array("an object of MATLAB: save its numbers, e.g. t = x.Time; q = squeeze(x.Data)")
NUMBERS = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}  # of MATLAB
MATRIX, PACKED = 14, 15  # elements of its files
CELL, STRUCTURE, TEXT, OPAQUE, NUMERIC = 1, 2, 4, 17, range(6, 16)  # classes of its arrays
LABELS = (
    "name",
    "joint_names",
)  # fields of messages whose texts name the entries of lists beside and below them
WIDEST = 64  # entries of a list that are columns of their own; longer ones are images, clouds, maps
NANO = 1e-9  # of a second, in which bags tell the time [s]

LogReader = Callable[[Path, int, Description | None], Iterator[Table]]
"""(file, samples a block, description or None) -> consecutive tables of at most so many samples."""


@contextmanager
def _reading(source: str, kind: str, cure: str = "") -> Iterator[None]:
    """Refuse a file of this kind, whatever its damaged bytes lead a library to raise."""
    try:
        yield
    except InvalidRecording:
        raise
    except Exception as error:
        raise InvalidRecording(
            f"{source} cannot be read as {kind} ({str(error) or type(error).__name__}){cure}",
            source=source,
        ) from error


def npz_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Read an NPZ file: one that Gough wrote in blocks, any other whole.

    Columns of the former are under headers such as `leg1.slider.position [m]`; their arrays are
    read side by side.
    """
    source = path.name
    with (
        _reading(source, "NPZ", "; expected a file numpy.savez wrote, without objects"),
        zipfile.ZipFile(path) as archive,
        ExitStack() as stack,
    ):
        ours = "facts.npy" in archive.namelist()
        unpacked = sum(
            m.file_size
            for m in archive.infolist()
            if not ours or m.compress_type != zipfile.ZIP_STORED
        )
        most = LARGEST if unpacked < TIGHT * path.stat().st_size else MODEST
        if unpacked > most:
            raise ValueError(
                f"{unpacked / 2**30:.1f} GiB when unpacked, expected at most {most / 2**30:g}"
            )
        if not ours:
            with np.load(path, allow_pickle=False) as data:
                yield from cut(array_table(source, dict(data)), size)
            return
        with archive.open("facts.npy") as handle:
            facts = parse_json(str(np.lib.format.read_array(handle, allow_pickle=False)))
        if (
            not isinstance(facts, dict)
            or facts.get("format") != RECORDING_MARK
            or facts.get("version") != RECORDING_FORMAT
        ):
            raise ValueError(
                f"'facts' are not those of {RECORDING_MARK} version {RECORDING_FORMAT}"
            )
        groups = {"time": ["time [s]"]} | {
            kind: [
                f"{name}.{kind} [{unit}]"
                for name, unit in zip(about["names"], about["units"], strict=True)
            ]
            for kind, about in cast(dict[str, Any], facts["columns"]).items()
        }
        arrays = [_rows(stack.enter_context(archive.open(f"{kind}.npy")), size) for kind in groups]
        first = 0
        for rows in zip(*arrays, strict=True):
            columns = {
                header: column
                for headers, part in zip(groups.values(), rows)
                for header, column in zip(headers, part.reshape(len(part), -1).T, strict=True)
            }
            yield Table(source=source, columns=columns, facts=facts, first=first)
            first += len(rows[0])


def _rows(handle: IO[bytes], size: int) -> Iterator[FloatArray]:
    """Yield consecutive rows of a stored array of numbers, at most so many at a time."""
    version = np.lib.format.read_magic(handle)
    read_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, by_columns, dtype = read_header(handle)
    if dtype.kind not in "fiu" or not 0 < len(shape) < 3 or (by_columns and len(shape) > 1):
        raise ValueError(
            f"an array of {dtype} with shape {shape}, by columns: {by_columns}; expected rows of "
            f"numbers"
        )
    width = prod(shape[1:]) * dtype.itemsize
    for start in range(0, shape[0], size):
        count = min(size, shape[0] - start)
        data = handle.read(count * width)
        if len(data) != count * width:
            raise ValueError(f"an array claims {prod(shape)} values and ends early")
        yield np.frombuffer(data, dtype=dtype).reshape(count, *shape[1:]).astype(float)


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file, those inside structures as `log.q`; version 7.3
    needs h5py.

    Objects (a `timeseries`, a `Simulink.SimulationData.Dataset`) are stored in a way only MATLAB
    reads; they are named among what is not read, with what to save instead. Files of version 5 to 7
    are read here element by element: a damaged one is an error, not a crash of a C library.
    """
    data, variables = path.read_bytes(), {}
    if data[124:126] in (b"\x00\x02", b"\x02\x00"):  # version 7.3 is HDF5
        return read_hdf5(path)
    with _reading(path.name, "a MATLAB file"):
        if data[126:128] not in (b"IM", b"MI"):
            raise ValueError("it has not the mark of version 5 or newer; save it with '-v7'")
        order = "<" if data[126:128] == b"IM" else ">"
        for kind, content in _elements(data[128:], order):
            if kind == PACKED:
                unpacked = zlib.decompressobj().decompress(
                    content, 1100 * len(content)
                )  # zlib packs no tighter
                kind, content = next(_elements(unpacked, order), (0, b""))
            if kind == MATRIX:
                name, variables[name] = _variable(content, order, 0)
    return array_table(path.name, variables)


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of the elements of a MATLAB file one after the other."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        small = kind >> 16  # its content stands in the tag
        if small:
            kind, size, start, step = kind & 0xFFFF, small, at + 4, 8
        else:
            start, step = at + 8, 8 + (size if kind == PACKED else size + -size % 8)
        if start + size > len(data) or small > 4:
            raise ValueError(f"an element of {size} bytes ends beyond the file")
        yield kind, data[start : start + size]
        at += step


def _variable(data: bytes, order: str, depth: int) -> tuple[str, Any]:
    """Return name and value of a MATLAB array: structures are dictionaries, cells and arrays of
    structures lists.
    """

    def numbers(kind: int, content: bytes) -> np.ndarray[Any, np.dtype[Any]]:
        if kind not in NUMBERS:
            raise ValueError(f"there is no number of type {kind}")
        return np.frombuffer(content, dtype=order + NUMBERS[kind])

    def text(content: bytes) -> str:
        return content.split(b"\0")[0].decode("latin-1")

    parts = _elements(data, order)
    first = next(parts, None)
    if first is None:
        return "", np.zeros(0)
    kind = struct.unpack_from(order + "I", first[1])[0] & 0xFF
    if kind == OPAQUE:
        return text(next(parts)[1]), OBJECT
    shape = tuple(int(n) for n in numbers(*next(parts)))
    name = text(next(parts)[1])
    if depth > 2 * DEEPEST or min(shape, default=0) < 0:
        raise ValueError(f"'{name}' has {depth} levels and the shape {shape}")
    if kind in NUMERIC:
        return name, np.squeeze(numbers(*next(parts))[: prod(shape)].reshape(shape, order="F"))
    if kind == TEXT:
        coded, content = next(parts)
        code = {16: "utf-8", 17: "utf-16-le" if order == "<" else "utf-16-be"}.get(coded)
        return name, np.array(
            content.decode(code, "replace") if code else "".join(map(chr, numbers(coded, content)))
        )
    if kind not in (CELL, STRUCTURE):
        return name, OBJECT
    fields = [""]
    if kind == STRUCTURE:
        width, names = int(numbers(*next(parts))[0]), next(parts)[1]
        fields = [text(names[i : i + width]) for i in range(0, len(names), max(width, 1))]
    inside = [_variable(content, order, depth + 1)[1] for _, content in parts]
    if len(inside) != prod(shape) * len(fields):
        raise ValueError(
            f"'{name}' has {len(inside)} entries, expected {prod(shape) * len(fields)}"
        )
    if kind == CELL:
        return name, inside
    rows = [
        dict(zip(fields, inside[i : i + len(fields)]))
        for i in range(0, len(inside), max(len(fields), 1))
    ]
    return name, rows[0] if len(rows) == 1 else rows


def read_hdf5(path: Path) -> Table:
    """Read the numbers of an HDF5 file, also of MATLAB 7.3, which stores matrices transposed;
    `log/q` is `log.q`.
    """
    h5py = import_optional("h5py", "hdf5")
    most = min(LARGEST, DENSEST * path.stat().st_size)

    def read(item: Any, depth: int = 0) -> Any:
        if isinstance(item, h5py.Group) and depth < DEEPEST:
            return {name: read(item[name], depth + 1) for name in item if not name.startswith("#")}
        if not isinstance(item, h5py.Dataset):
            return np.array("no data")
        if (
            item.dtype.kind == "O"
            and h5py.check_ref_dtype(item.dtype)
            and item.size < 1000
            and depth < DEEPEST
        ):
            return [read(item.file[reference], depth + 1) for reference in np.ravel(item[()])]
        if "MATLAB_object_decode" in item.attrs:
            return OBJECT
        letters = item.attrs.get("MATLAB_class") == b"char"
        if letters and item.dtype.kind == "u" and item.size < 1000:
            return np.array("".join(map(chr, np.ravel(item[()]))))
        if letters or item.dtype.kind not in "fiubV":
            return np.array("text")
        if item.nbytes > most:
            raise ValueError(f"'{item.name}' has {item.nbytes / 2**20:.0f} MiB when unpacked")
        values = item[()]
        if values.dtype.names:
            return {name: values[name] for name in values.dtype.names}
        return np.squeeze(values.T) if "MATLAB_class" in item.attrs else values

    with _reading(path.name, "HDF5 or MATLAB file"), h5py.File(path) as data:
        return array_table(path.name, read(data))


def _flat(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arrays inside structures by name: `log.q`; the third of a list of structures is
    `signals[3].values`, or `signals.torque.values` where each has a `label` of its own.

    A matrix beside `time` with a column for each sample, as Simulink saves signals of several
    dimensions, is turned.
    """
    if isinstance(value, np.ndarray) and value.dtype == object and value.size < 1000:
        inside = list(value.flat)
        value = inside if all(isinstance(item, Mapping | np.ndarray) for item in inside) else value
    if isinstance(value, Mapping) and depth < DEEPEST:
        times = next(
            (np.size(v) for k, v in value.items() if str(k).lower() in ("time", "tout", "t")), 0
        )
        for key, item in value.items():
            for label, found in _flat(item, f"{name}.{key}" if name else str(key), depth + 1):
                turned = (
                    isinstance(found, np.ndarray)
                    and found.ndim == 2
                    and found.shape[0] != times == found.shape[1]
                )
                yield label, found.T if turned else found
    elif isinstance(value, list) and depth < DEEPEST:
        labels = [
            str(item.get("label", "")).strip() if isinstance(item, Mapping) else ""
            for item in value
        ]
        told = all(labels) and len(set(labels)) == len(labels)  # what Simulink's signals are called
        for i, (label, item) in enumerate(zip(labels, value)):
            yield from _flat(item, f"{name}.{label}" if told else f"{name}[{i + 1}]", depth + 1)
    else:
        yield name, value


def array_table(source: str, arrays: Mapping[str, Any]) -> Table:
    """Return arrays as a table: column j of a matrix `q` is named `q[j]`, counted from 1; text is
    left out.

    Dates become seconds since 1970, spans of time seconds.
    """
    columns: dict[str, FloatArray] = {}
    unread: dict[str, str] = {}
    seconds: set[str] = set()
    for name, value in _flat(arrays):
        found = np.asarray(value)
        if found.dtype.kind in "mM":
            since = found - np.datetime64(0, "s") if found.dtype.kind == "M" else found
            found, seconds = since / np.timedelta64(1, "s"), {*seconds, name}
        found = np.squeeze(found) if found.ndim > 2 else found
        if found.dtype.kind not in "fiub":
            unread[name] = str(found)[:90] if found.shape == () else f"values of type {found.dtype}"
        elif found.ndim <= 1:
            columns[name] = np.atleast_1d(found.astype(float))
        elif found.ndim == 2:
            columns.update(
                {f"{name}[{j + 1}]": column.astype(float) for j, column in enumerate(found.T)}
            )
        else:
            unread[name] = f"an array of shape {found.shape}"
    if not columns:
        held = "".join(f"; '{name}' is {what}" for name, what in list(unread.items())[:3])
        raise refused(source, f"there are no numbers in this file{held}")
    return Table(source=source, columns=columns, unread=unread, seconds=frozenset(seconds))


def arrow_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Read a Parquet or Feather file in blocks; lists of one length become columns `q[1]`, `q[2]`,
    ...
    """
    _, ipc, parquet = (
        import_optional(f"pyarrow{part}", "parquet") for part in ("", ".ipc", ".parquet")
    )
    start = 0
    with _reading(path.name, "Parquet or Feather"), open(path, "rb") as handle:
        if handle.read(5) == b"ARROW":
            reader = ipc.open_file(handle)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            handle.seek(0)
            batches = parquet.ParquetFile(handle).iter_batches(batch_size=size)
        for batch in batches:
            batch.validate(full=True)
            names, repeated = numbered(batch.schema.names)
            whole = array_table(path.name, dict(zip(names, map(_arrow_values, batch.columns))))
            yield from cut(replace(whole, repeated=repeated, first=start), size)
            start += batch.num_rows
    if not start:
        raise refused(path.name, "there are no samples")


def _arrow_values(column: Any) -> Any:
    """Return a column as an array, (t,), lists of one length as a matrix, (t, k); missing integers
    become NaN.
    """
    import pyarrow.types as types

    if types.is_struct(column.type):
        return {field.name: _arrow_values(column.field(k)) for k, field in enumerate(column.type)}
    if not (
        types.is_list(column.type)
        or types.is_large_list(column.type)
        or types.is_fixed_size_list(column.type)
    ):
        return column.to_numpy(zero_copy_only=False)
    inner = column.flatten()
    width, rest = divmod(len(inner), max(len(column), 1))
    even = (
        not rest
        and width
        and not column.null_count
        and set(column.value_lengths().to_pylist()) == {width}
    )
    return (
        inner.to_numpy(zero_copy_only=False).reshape(-1, width)
        if even
        else np.array("lists of different lengths")
    )


def read_bag(path: Path) -> Table:
    """Read the numeric fields of all topics of a ROS 1 or ROS 2 bag: `.bag`, `.mcap`, `.db3`, or a
    folder.

    A column is `/topic/field.part`; entries of a list are counted from 1, or named where the
    message names them: those of a JointState are `/joint_states/elbow.position`. `/topic/time` is
    when the message was written, and `/topic/header.stamp` what it says itself, both in seconds
    from the start of the bag.
    """
    open_bag, types = (
        import_optional("rosbags.highlevel", "ros").AnyReader,
        import_optional("rosbags.typesys", "ros"),
    )
    fields: dict[tuple[str, str], tuple[array[int], array[float]]] = {}  # rows of the topic, values
    counts: Counter[str] = Counter()
    silent: dict[str, str] = {}
    with (
        _reading(path.name, "a ROS bag", "; expected one of ROS messages, closed properly"),
        open_bag([path], default_typestore=types.get_typestore(types.Stores.LATEST)) as bag,
    ):
        for connection, stamp, raw in bag.messages():
            topic = connection.topic
            found = (
                {}
                if topic in silent
                else dict(_numbers(bag.deserialize(raw, connection.msgtype), bag.start_time))
            )
            if not found:
                silent[topic] = f"messages {connection.msgtype} without numbers"
                continue
            for name, value in ({"time": (stamp - bag.start_time) * NANO} | found).items():
                rows, values = fields.setdefault((topic, name), (array("q"), array("d")))
                rows.append(counts[topic])
                values.append(value)
            counts[topic] += 1
    columns, blank = {}, {}
    for (topic, name), (rows, values) in fields.items():
        column, absent = np.full(counts[topic], np.nan), np.ones(counts[topic], dtype=bool)
        column[rows], absent[rows] = values, False
        columns[f"{topic}/{name}"] = column
        if absent.any():  # joints that only some of the messages tell of
            blank[f"{topic}/{name}"] = absent
    if not columns:
        raise refused(path.name, "there are no numbers in this bag")
    stamps = frozenset(f"{topic}/{name}" for topic in counts for name in ("time", "header.stamp"))
    return Table(source=path.name, columns=columns, blank=blank, unread=silent, seconds=stamps)


def _numbers(
    value: Any, start: int, name: str = "", labels: tuple[str, ...] = ()
) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a message by name; stamps in seconds after the start of the bag. [ns]"""
    if isinstance(value, bool | int | float | np.number):
        yield name, float(value)
    elif hasattr(value, "nanosec"):
        is_stamp = value.__msgtype__.endswith("Time")
        yield name, (value.sec * 10**9 + value.nanosec - is_stamp * start) * NANO
    elif hasattr(value, "__msgtype__"):
        fields = {key: item for key, item in vars(value).items() if not key.startswith("_")}
        for key in LABELS:
            texts = fields.get(key)
            if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
                labels = tuple(texts)
        for key, item in fields.items():
            yield from _numbers(item, start, f"{name}.{key}" if name else key, labels)
    elif isinstance(value, list | np.ndarray) and len(value) <= WIDEST:
        named = labels if len(labels) == len(set(labels)) == len(value) else ()
        for k, item in enumerate(value):
            yield from _numbers(item, start, f"{named[k]}.{name}" if named else f"{name}[{k + 1}]")


def in_blocks(read: Callable[[Path], Table]) -> LogReader:
    """Make a reader of one that returns the whole file."""
    return lambda path, size, description: cut(read(path), size)


LOG_FORMATS: dict[str, LogReader] = {
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow"), arrow_blocks),
    **dict.fromkeys((".bag", ".mcap", ".db3"), in_blocks(read_bag)),
    **dict.fromkeys((".h5", ".hdf5"), in_blocks(read_hdf5)),
    ".mat": in_blocks(read_mat),
    ".npz": npz_blocks,
}


def register_log_format(suffix: str, reader: LogReader) -> LogReader:
    """Make a suffix known, such as `.cnt`; any that is not known is read as text.

    Returns the reader.
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
    keys = (
        {}
        if description is None
        else {key: getattr(description, key) for key in ("decimal", "thousands", "skip")}
    )
    return text_blocks(path, size, **keys)
