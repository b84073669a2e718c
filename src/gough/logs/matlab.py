"""Reader of MATLAB files of version 5 to 7, element by element; version 7.3 is HDF5."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.errors import InvalidRecording
from gough.core.files import MAX_UNPACKED_BYTES, Budget, read_bytes, reading
from gough.logs.array_tables import array_table, log_budget
from gough.logs.hdf5 import matlab_object, read_hdf5
from gough.logs.tables import Table

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


def read_mat(path: Path) -> Table:
    """Read the numeric variables of a MATLAB file, those inside structures as `log.q`.

    Version 7.3 needs h5py. Objects (a `timetable`, a `timeseries`, a
    `Simulink.SimulationData.Dataset`) can be read by MATLAB alone; they
    are listed as not read, with what to save instead. Files of version
    5 to 7 are read here element by element: a damaged one is an error,
    not a crash of a C library.
    """
    budget = log_budget(path)
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

    Structures become dictionaries, cells and arrays of structures
    lists.
    """
    budget.take_object(depth)
    elements = _elements(content, order)
    flags = next(elements, None)
    if flags is None:
        return "", np.zeros(0)
    kind = struct.unpack_from(order + "I", flags[1])[0] & 0xFF
    if kind == MATLAB_OPAQUE:  # name, "MCOS", class, numbers that only MATLAB knows
        name = _matlab_name(next(elements)[1])
        next(elements, None)
        _, class_name = next(elements, (0, b""))
        return name, matlab_object(_matlab_name(class_name))
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
        return name, matlab_object("")
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
