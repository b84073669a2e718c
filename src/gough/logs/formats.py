"""Readers of binary files: NPZ, MATLAB, HDF5, Parquet, Feather, ROS bags.

docs/extending.md shows how to add a format.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.budget import (
    MAX_COLUMNS,
    MAX_STRUCTURE_DEPTH,
    MAX_UNPACKED_BYTES,
    Budget,
    check_archive,
    load_arrays,
    read_bytes,
    reading,
)
from gough.core.display import import_optional
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.description import Description
from gough.logs.messages import refused
from gough.logs.tables import Table, cut, numbered, text_blocks
from gough.logs.writers import RECORDING_FORMAT, RECORDING_MARK

MAX_LISTED_OBJECTS = 1000  # entries of an array of objects that are read one by one
MATLAB_OBJECT = np.array(
    "an object of MATLAB: save its numbers, e.g. t = x.Time; q = squeeze(x.Data)"
)
# Types of numbers in MATLAB files.
MATLAB_NUMBERS = {
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
}
# Elements of MATLAB files.
MATLAB_MATRIX = 14
MATLAB_COMPRESSED = 15
# Classes of MATLAB arrays.
MATLAB_CELL = 1
MATLAB_STRUCTURE = 2
MATLAB_TEXT = 4
MATLAB_NUMERIC = range(6, 16)
MATLAB_OPAQUE = 17
# Fields of ROS messages whose texts name the entries of the lists beside and below them.
LABEL_FIELDS = ("name", "joint_names")
# Entries of a list in a ROS message that become columns; longer lists are images, clouds, maps.
MAX_LIST_COLUMNS = 64
MIN_ROW_RATIO = 20  # of columns to rows of a matrix, from which its rows are taken as signals
NANOSECOND = 1e-9  # [s]

LogReader = Callable[[Path, int, Description | None], Iterator[Table]]
"""(file, samples a block, description or None) -> consecutive tables of at most so many samples."""
ArrowColumn = Any  # pyarrow.Array, an optional dependency


def _budget(path: Path, *, streamed: bool = False) -> Budget:
    """Return what reading a log may cost."""
    return Budget(path.name, path.stat().st_size, InvalidRecording, streamed=streamed)


def npz_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Yield the tables of an NPZ file: one that Gough wrote in blocks, any other whole.

    Columns of the former have headers such as `leg1.slider.position [m]`.
    """
    source = path.name
    with (
        reading(
            source,
            "NPZ",
            InvalidRecording,
            "; expected a file numpy.savez wrote, without objects",
        ),
        zipfile.ZipFile(path) as archive,
        ExitStack() as stack,
    ):
        ours = "facts.npy" in archive.namelist()
        budget = _budget(path)
        if not ours:
            content = read_bytes(path, MAX_UNPACKED_BYTES, InvalidRecording)
            yield from cut(array_table(source, load_arrays(content, budget), budget), size)
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


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file, those inside structures as `log.q`.

    Version 7.3 needs h5py. Objects (a `timeseries`, a `Simulink.SimulationData.Dataset`)
    can be read by MATLAB alone; they are listed as not read, with what to save instead.
    Files of version 5 to 7 are read here element by element: a damaged one is an error, not
    a crash of a C library.
    """
    budget = _budget(path)
    content = read_bytes(path, MAX_UNPACKED_BYTES, InvalidRecording)
    if content[124:126] in (b"\x00\x02", b"\x02\x00"):  # version 7.3 is HDF5
        return read_hdf5(path)
    with reading(path.name, "a MATLAB file", InvalidRecording):
        if content[126:128] not in (b"IM", b"MI"):
            raise ValueError("it has not the mark of version 5 or newer; save it with '-v7'")
        order = "<" if content[126:128] == b"IM" else ">"
        variables = {}
        for element in _elements(content[128:], order):
            kind, body = _unpacked(*element, order, budget)
            if kind == MATLAB_MATRIX:
                name, variable = _variable(body, order, 0, budget)
                variables[name] = variable
        return array_table(path.name, variables, budget)


def _unpacked(kind: int, content: bytes, order: str, budget: Budget) -> tuple[int, bytes]:
    """Return an element of a MATLAB file, decompressed if it is compressed."""
    if kind != MATLAB_COMPRESSED:
        return kind, content
    body = zlib.decompressobj().decompress(content, budget.bytes_left + 1)
    budget.take_bytes(len(body))
    return next(_elements(body, order), (0, b""))


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of the elements of a MATLAB file one after the other."""
    offset = 0
    while offset + 8 <= len(content):
        kind, length = struct.unpack_from(order + "II", content, offset)
        small = kind >> 16  # length of a content inside the tag
        if small:
            kind &= 0xFFFF
            length = small
            start = offset + 4
            end = offset + 8
        else:
            start = offset + 8
            end = start + length
            if kind != MATLAB_COMPRESSED:
                end += -length % 8  # padding
        if start + length > len(content) or small > 4:
            raise ValueError(f"an element of {length} bytes ends beyond the file")
        yield kind, content[start : start + length]
        offset = end


def _matlab_numbers(kind: int, content: bytes, order: str) -> NDArray[Any]:
    """Return the numbers of an element."""
    if kind not in MATLAB_NUMBERS:
        raise ValueError(f"there is no number of type {kind}")
    return np.frombuffer(content, dtype=order + MATLAB_NUMBERS[kind])


def _matlab_name(content: bytes) -> str:
    """Return the name in an element, which may be padded."""
    return content.split(b"\0")[0].decode("latin-1")


def _matlab_text(kind: int, content: bytes, order: str) -> str:
    """Return the text in an element."""
    if kind == 16:
        return content.decode("utf-8", "replace")
    if kind == 17:
        return content.decode("utf-16-le" if order == "<" else "utf-16-be", "replace")
    return "".join(map(chr, _matlab_numbers(kind, content, order)))


def _variable(content: bytes, order: str, depth: int, budget: Budget) -> tuple[str, Any]:
    """Return name and value of a MATLAB array.

    Structures become dictionaries, cells and arrays of structures lists.
    """
    budget.take_object(depth)
    elements = _elements(content, order)
    flags = next(elements, None)
    if flags is None:
        return "", np.zeros(0)
    kind = struct.unpack_from(order + "I", flags[1])[0] & 0xFF
    if kind == MATLAB_OPAQUE:
        return _matlab_name(next(elements)[1]), MATLAB_OBJECT
    shape = tuple(int(n) for n in _matlab_numbers(*next(elements), order))
    name = _matlab_name(next(elements)[1])
    if min(shape, default=0) < 0:
        raise ValueError(f"'{name}' has the shape {shape}")
    if kind in MATLAB_NUMERIC:
        numbers = _matlab_numbers(*next(elements), order)[: prod(shape)]
        return name, np.squeeze(numbers.reshape(shape, order="F"))
    if kind == MATLAB_TEXT:
        return name, np.array(_matlab_text(*next(elements), order))
    if kind not in (MATLAB_CELL, MATLAB_STRUCTURE):
        return name, MATLAB_OBJECT
    fields = [""]
    if kind == MATLAB_STRUCTURE:
        width = int(_matlab_numbers(*next(elements), order)[0])
        names = next(elements)[1]
        starts = range(0, len(names), max(width, 1))
        fields = [_matlab_name(names[i : i + width]) for i in starts]
    entries = [_variable(inner, order, depth + 1, budget)[1] for _, inner in elements]
    expected = prod(shape) * len(fields)
    if len(entries) != expected:
        raise ValueError(f"'{name}' has {len(entries)} entries, expected {expected}")
    if kind == MATLAB_CELL:
        return name, entries
    structures = []
    for i in range(0, len(entries), max(len(fields), 1)):
        structures.append(dict(zip(fields, entries[i : i + len(fields)])))
    return name, structures[0] if len(structures) == 1 else structures


def read_hdf5(path: Path) -> Table:
    """Read the numbers of an HDF5 file; `log/q` is named `log.q`.

    Also of MATLAB 7.3, which stores matrices transposed.
    """
    h5py = import_optional("h5py", "hdf5")
    budget = _budget(path)
    visited: set[int] = set()

    def read(node: Any, depth: int = 0) -> Any:
        """Return the content of a group or of a dataset."""
        budget.take_object(depth)
        if isinstance(node, h5py.Group) and depth < MAX_STRUCTURE_DEPTH:
            address = h5py.h5o.get_info(node.id).addr
            if address in visited:
                return np.array("a link to a group that was read already")
            visited.add(address)
            return {name: member(node, name, depth) for name in node if not name.startswith("#")}
        if not isinstance(node, h5py.Dataset):
            return np.array("no data")
        references = node.dtype.kind == "O" and h5py.check_ref_dtype(node.dtype)
        if references and node.size < MAX_LISTED_OBJECTS and depth < MAX_STRUCTURE_DEPTH:
            return [read(node.file[reference], depth + 1) for reference in np.ravel(node[()])]
        return _hdf5_dataset(node, budget)

    def member(group: Any, name: str, depth: int) -> Any:
        """Return the content of a member of a group, unless it is in another file."""
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
            return np.array("a link to another file, which is not followed")
        return read(group[name], depth + 1)

    with reading(path.name, "HDF5 or MATLAB file", InvalidRecording), h5py.File(path) as file:
        return array_table(path.name, read(file), budget)


def _hdf5_dataset(node: Any, budget: Budget) -> Any:
    """Return the numbers of a dataset, or what it holds instead as text."""
    if "MATLAB_object_decode" in node.attrs:
        return MATLAB_OBJECT
    if node.external or node.is_virtual:
        return np.array("numbers of another file, which is not opened")
    letters = node.attrs.get("MATLAB_class") == b"char"
    if not letters and node.dtype.kind not in "fiubV":
        return np.array("text")
    chunk_bytes = prod(node.chunks or (0,)) * node.dtype.itemsize  # is unpacked whole
    budget.take_bytes(max(node.nbytes, chunk_bytes), f"'{node.name}'")
    if letters and node.dtype.kind == "u" and node.size < MAX_LISTED_OBJECTS:
        return np.array("".join(map(chr, np.ravel(node[()]))))
    if letters:
        return np.array("text")
    numbers = node[()]
    if numbers.dtype.names:
        return {name: numbers[name] for name in numbers.dtype.names}
    return np.squeeze(numbers.T) if "MATLAB_class" in node.attrs else numbers


def _flat(content: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the arrays inside structures by name: `log.q`.

    The third of a list of structures is `signals[3].values`, or `signals.torque.values` if
    each has a `label` of its own. A matrix beside `time` with a column for each sample, as
    Simulink saves signals of several dimensions, is transposed.
    """
    if isinstance(content, np.ndarray) and content.dtype == object:
        entries = list(content.flat) if content.size < MAX_LISTED_OBJECTS else [None]
        if all(isinstance(entry, Mapping | np.ndarray) for entry in entries):
            content = entries
    if isinstance(content, Mapping) and depth < MAX_STRUCTURE_DEPTH:
        samples = _samples_beside(content)
        for key, entry in content.items():
            full_name = f"{name}.{key}" if name else str(key)
            for label, inner in _flat(entry, full_name, depth + 1):
                matrix = isinstance(inner, np.ndarray) and inner.ndim == 2
                if matrix and inner.shape[0] != samples == inner.shape[1]:
                    inner = inner.T
                yield label, inner
    elif isinstance(content, list) and depth < MAX_STRUCTURE_DEPTH:
        for label, entry in zip(_labels(content), content):
            yield from _flat(entry, f"{name}{label}", depth + 1)
    else:
        yield name, content


def _samples_beside(structure: Mapping[Any, Any]) -> int:
    """Return the length of the time in a structure, 0 without one."""
    for key, entry in structure.items():
        if str(key).lower() in ("time", "tout", "t"):
            return int(np.size(entry))
    return 0


def _labels(structures: list[Any]) -> list[str]:
    """Return `.torque` for structures with labels of their own, otherwise `[1]`, `[2]`, ..."""
    labels = []
    for structure in structures:
        label = structure.get("label", "") if isinstance(structure, Mapping) else ""
        labels.append(str(label).strip())
    if all(labels) and len(set(labels)) == len(labels):
        return [f".{label}" for label in labels]
    return [f"[{i + 1}]" for i in range(len(structures))]


def array_table(source: str, arrays: Mapping[str, Any], budget: Budget | None = None) -> Table:
    """Return arrays as a table; column j of a matrix `q` is named `q[j]`, counted from 1.

    Of a matrix with signals in rows, `q[j]` is row j: one whose rows are as long as another
    array, or many times as long as its columns. Text is left out. Dates become seconds since
    1970, time spans seconds.

    Args:
        source: Name of the file.
        arrays: By name; structures and lists of them are mappings and lists.
        budget: Of the file; None for arrays that are not from a file.
    """
    columns: dict[str, FloatArray] = {}
    unread: dict[str, str] = {}
    seconds: set[str] = set()
    flat = list(_flat(arrays))
    lengths = {np.size(content) for _, content in flat if np.ndim(content) == 1}
    for name, content in flat:
        numbers = np.asarray(content)
        if numbers.ndim == 2 and _has_signals_in_rows(numbers.shape, lengths):
            numbers = numbers.T
        if numbers.dtype.kind == "M":
            numbers = numbers - np.datetime64(0, "s")
        if numbers.dtype.kind == "m":
            numbers = numbers / np.timedelta64(1, "s")
            seconds.add(name)
        if numbers.ndim > 2:
            numbers = np.squeeze(numbers)
        if budget is not None and numbers.dtype.kind in "fiub" and numbers.ndim <= 2:
            budget.take_bytes(max(8 * numbers.size - numbers.nbytes, 0), f"'{name}'")
            budget.take_columns(numbers.shape[1] if numbers.ndim == 2 else 1)
        if numbers.dtype.kind not in "fiub":
            scalar = numbers.shape == ()
            unread[name] = str(numbers)[:90] if scalar else f"values of type {numbers.dtype}"
        elif numbers.ndim <= 1:
            columns[name] = np.atleast_1d(numbers.astype(float))
        elif numbers.ndim == 2:
            for j, column in enumerate(numbers.T):
                columns[f"{name}[{j + 1}]"] = column.astype(float)
        else:
            unread[name] = f"an array of shape {numbers.shape}"
    if not columns:
        examples = [f"; '{name}' is {what}" for name, what in list(unread.items())[:3]]
        raise refused(source, f"there are no numbers in this file{''.join(examples)}")
    return Table(
        source=source,
        columns=columns,
        unread=unread,
        seconds=frozenset(seconds),
    )


def _has_signals_in_rows(shape: tuple[int, ...], lengths: set[int]) -> bool:
    """Tell whether a matrix holds a signal in each row, given the lengths of arrays beside it."""
    rows, columns = shape
    if rows in lengths or rows >= columns:
        return False
    return columns in lengths or columns >= MIN_ROW_RATIO * rows


def arrow_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Yield the tables of a Parquet or Feather file; lists become columns `q[1]`, `q[2]`, ..."""
    import_optional("pyarrow", "parquet")
    ipc = import_optional("pyarrow.ipc", "parquet")
    parquet = import_optional("pyarrow.parquet", "parquet")
    start = 0
    budget = _budget(path, streamed=True)
    with reading(path.name, "Parquet or Feather", InvalidRecording), open(path, "rb") as handle:
        if handle.read(5) == b"ARROW":
            reader = ipc.open_file(handle)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            handle.seek(0)
            file = parquet.ParquetFile(handle)
            _check_parquet(file.metadata, budget)
            batches = file.iter_batches(batch_size=size)
        for batch in batches:
            batch.validate(full=True)
            budget.columns_left = MAX_COLUMNS
            names, repeated = numbered(batch.schema.names)
            columns = [_arrow_values(column) for column in batch.columns]
            table = array_table(path.name, dict(zip(names, columns)), budget)
            yield from cut(replace(table, repeated=repeated, first=start), size)
            start += batch.num_rows
    if not start:
        raise refused(path.name, "there are no samples")


def _check_parquet(metadata: Any, budget: Budget) -> None:
    """Take from a budget what the metadata of a Parquet file announce."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for k in range(row_group.num_columns):
            column = row_group.column(k)
            unpacked = max(column.total_uncompressed_size, 8 * column.num_values)
            budget.take_bytes(unpacked, f"column '{column.path_in_schema}'")


def _arrow_values(column: ArrowColumn) -> Any:
    """Return a column as an array, (t,), lists of one length as a matrix, (t, k).

    Missing integers become NaN.
    """
    import pyarrow.types as types

    kind = column.type
    if types.is_struct(kind):
        return {field.name: _arrow_values(column.field(k)) for k, field in enumerate(kind)}
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not lists:
        return column.to_numpy(zero_copy_only=False)
    entries = column.flatten()
    width = len(entries) // max(len(column), 1)
    lengths = set(column.value_lengths().to_pylist())
    if width and not column.null_count and lengths == {width}:
        return entries.to_numpy(zero_copy_only=False).reshape(-1, width)
    return np.array("lists of different lengths")


def read_bag(path: Path) -> Table:
    """Read the numeric fields of all topics of a bag: `.bag`, `.mcap`, `.db3`, or a folder.

    A column is `/topic/field.part`; entries of a list are counted from 1, or named where
    the message names them: those of a JointState are `/joint_states/elbow.position`.
    `/topic/time` is when the message was written, and `/topic/header.stamp` its own stamp,
    both in seconds from the start of the bag.
    """
    open_bag = import_optional("rosbags.highlevel", "ros").AnyReader
    types = import_optional("rosbags.typesys", "ros")
    typestore = types.get_typestore(types.Stores.LATEST)
    # messages of the topic that have the field, and its numbers
    fields: dict[tuple[str, str], tuple[array[int], array[float]]] = {}
    n_messages: Counter[str] = Counter()
    unread: dict[str, str] = {}
    budget = _bag_budget(path)
    with (
        reading(
            path.name,
            "a ROS bag",
            InvalidRecording,
            "; expected one of ROS messages, closed properly",
        ),
        open_bag([path], default_typestore=typestore) as bag,
    ):
        for connection, stamp, raw in bag.messages():
            topic = connection.topic
            if topic in unread:
                continue
            budget.take_bytes(len(raw), "the bag")
            message = bag.deserialize(raw, connection.msgtype)
            numbers = dict(_numbers(message, bag.start_time))
            if not numbers:
                unread[topic] = f"messages {connection.msgtype} without numbers"
                continue
            numbers = {"time": (stamp - bag.start_time) * NANOSECOND, **numbers}
            for name, number in numbers.items():
                if (topic, name) not in fields:
                    budget.take_columns(1)
                rows, column = fields.setdefault((topic, name), (array("q"), array("d")))
                rows.append(n_messages[topic])
                column.append(number)
            n_messages[topic] += 1
    if not fields:
        raise refused(path.name, "there are no numbers in this bag")
    columns = {}
    blank = {}
    for (topic, name), (rows, numbers_of_field) in fields.items():
        column_values = np.full(n_messages[topic], np.nan)
        column_values[rows] = numbers_of_field
        absent = np.ones(n_messages[topic], dtype=bool)
        absent[rows] = False
        columns[f"{topic}/{name}"] = column_values
        if absent.any():  # a joint that only some of the messages contain
            blank[f"{topic}/{name}"] = absent
    seconds: set[str] = set()
    for topic in n_messages:
        seconds |= {f"{topic}/time", f"{topic}/header.stamp"}
    return Table(
        source=path.name,
        columns=columns,
        blank=blank,
        unread=unread,
        seconds=frozenset(seconds),
    )


def _bag_budget(path: Path) -> Budget:
    """Return what reading a bag may cost: a file, or a folder of files."""
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    length = sum(file.stat().st_size for file in files)
    return Budget(path.name, length, InvalidRecording)


def _numbers(
    content: Any, start: int, name: str = "", labels: tuple[str, ...] = ()
) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a message by name; stamps become seconds after the start of the bag.

    Args:
        content: A message, or a field of one.
        start: Of the bag. [ns]
        name: Of the field.
        labels: Names of the entries of lists.
    """
    if isinstance(content, bool | int | float | np.number):
        yield name, float(content)
    elif hasattr(content, "nanosec"):
        nanoseconds = content.sec * 10**9 + content.nanosec
        if content.__msgtype__.endswith("Time"):  # not a duration
            nanoseconds -= start
        yield name, nanoseconds * NANOSECOND
    elif hasattr(content, "__msgtype__"):
        fields = {key: entry for key, entry in vars(content).items() if not key.startswith("_")}
        for key in LABEL_FIELDS:
            texts = fields.get(key)
            if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
                labels = tuple(texts)
        for key, entry in fields.items():
            yield from _numbers(entry, start, f"{name}.{key}" if name else key, labels)
    elif isinstance(content, list | np.ndarray) and len(content) <= MAX_LIST_COLUMNS:
        labelled = len(labels) == len(set(labels)) == len(content)
        for k, entry in enumerate(content):
            entry_name = f"{labels[k]}.{name}" if labelled else f"{name}[{k + 1}]"
            yield from _numbers(entry, start, entry_name)


def in_blocks(read: Callable[[Path], Table]) -> LogReader:
    """Return a reader in blocks, given one that returns the whole file."""
    return lambda path, size, description: cut(read(path), size)


LOG_FORMATS: dict[str, LogReader] = {
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow"), arrow_blocks),
    **dict.fromkeys((".bag", ".mcap", ".db3"), in_blocks(read_bag)),
    **dict.fromkeys((".h5", ".hdf5"), in_blocks(read_hdf5)),
    ".mat": in_blocks(read_mat),
    ".npz": npz_blocks,
}


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


def is_folder(path: Path) -> bool:
    """Return True for a folder of files; a ROS 2 bag is a folder too, but one log."""
    return path.is_dir() and not (path / "metadata.yaml").is_file()


def table_blocks(path: Path, size: int, description: Description | None) -> Iterator[Table]:
    """Yield the tables of a file of any format."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        raise InvalidRecording(f"there is no file '{path}'", source=path.name) from None
    if not S_ISREG(status.st_mode) and not S_ISDIR(status.st_mode):
        raise InvalidRecording(f"'{path}' is a device or a pipe, expected a file", source=path.name)
    reader = LOG_FORMATS.get(".bag" if path.is_dir() else path.suffix.lower())
    if reader is not None:
        return reader(path, size, description)
    if description is None:
        return text_blocks(path, size)
    return text_blocks(
        path,
        size,
        decimal=description.decimal,
        thousands=description.thousands,
        skip=description.skip,
    )
