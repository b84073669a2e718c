"""MATLAB files of version 5 to 7, read element by element: a damaged one is an error, not a crash of a C library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# Numbers of the file format: kinds of elements.
NAME, MATRIX, PACKED = 1, 14, 15
CELL, STRUCTURE, TEXT, OPAQUE = 1, 2, 4, 17  # classes of arrays
NUMBERS = range(6, 16)  # classes of numeric arrays
DEEPEST = 32  # structures inside structures
DENSEST = 1100  # times that zlib can shrink anything
OBJECT = np.array("an object of MATLAB: save its numbers, e.g. t = x.Time; q = squeeze(x.Data)")

Element = tuple[int, bytes]


def read_mat5(data: bytes) -> dict[str, Any]:
    """Return the variables of a file: arrays, structures as dictionaries, cells and lists of structures as lists.

    Raises:
        ValueError: The file is damaged.
    """
    order = {b"IM": "<", b"MI": ">"}[data[126:128]]
    found: dict[str, Any] = {}
    for kind, content in _elements(data[128:], order):
        if kind == PACKED:
            unpacked = zlib.decompressobj().decompress(content, DENSEST * len(content))
            kind, content = next(_elements(unpacked, order), (0, b""))
        if kind == MATRIX:
            name, value = _variable(content, order, 0)
            found[name] = value
    return found


def _elements(data: bytes, order: str) -> Iterator[Element]:
    """Yield type and content of the elements one after the other."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        if kind >> 16:  # a small one: its content stands in the tag
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        else:
            start, step = at + 8, 8 + (size if kind == PACKED else size + -size % 8)
        if start + size > len(data) or (step == 8 and size > 4 and start == at + 4):
            raise ValueError(f"an element of {size} bytes ends beyond the file")
        yield kind, data[start:start + size]
        at += step


def _variable(data: bytes, order: str, depth: int) -> tuple[str, Any]:
    """Return name and value of an array."""
    parts = _elements(data, order)
    first = next(parts, None)
    if first is None:
        return "", np.zeros(0)
    (flags,) = struct.unpack_from(order + "I", first[1])
    kind = flags & 0xFF
    if kind == OPAQUE:
        return _text(next(parts)), OBJECT
    shape = tuple(int(n) for n in _numbers(next(parts), order))
    name = _text(next(parts))
    if depth > DEEPEST or min(shape, default=0) < 0:
        raise ValueError(f"'{name}' has {depth} levels and the shape {shape}")
    if kind in NUMBERS:
        return name, np.squeeze(_numbers(next(parts), order)[:prod(shape)].reshape(shape, order="F"))
    if kind not in (CELL, STRUCTURE):
        return name, np.array(_letters(next(parts), order)) if kind == TEXT else OBJECT
    fields = [""]
    if kind == STRUCTURE:
        (width,) = _numbers(next(parts), order)
        names = next(parts)[1]
        fields = [_text((NAME, names[i:i + int(width)])) for i in range(0, len(names), max(int(width), 1))]
    inside = [_variable(content, order, depth + 1)[1] for _, content in parts]
    if len(inside) != prod(shape) * len(fields):
        raise ValueError(f"'{name}' has {len(inside)} entries, expected {prod(shape) * len(fields)}")
    if kind == CELL:
        return name, inside
    rows = [dict(zip(fields, inside[i:i + len(fields)])) for i in range(0, len(inside), max(len(fields), 1))]
    return name, rows[0] if len(rows) == 1 else rows


def _numbers(element: Element, order: str) -> np.ndarray[Any, np.dtype[Any]]:
    kind, content = element
    if kind not in TYPES:
        raise ValueError(f"there is no number of type {kind}")
    return np.frombuffer(content, dtype=order + TYPES[kind])


def _letters(element: Element, order: str) -> str:
    """Return the text of an array of characters."""
    codes = {16: "utf-8", 17: "utf-16-le" if order == "<" else "utf-16-be"}
    if element[0] in codes:
        return element[1].decode(codes[element[0]], "replace")
    return "".join(map(chr, _numbers(element, order)))


def _text(element: Element) -> str:
    return element[1].split(b"\0")[0].decode("latin-1")
