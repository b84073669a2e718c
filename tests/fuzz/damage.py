"""Damage to files that knows their structure: values, keys, elements, cells, arrays, bytes."""

from __future__ import annotations

import io
import json
import random
import tomllib
import zipfile
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

from gough.core.documents import toml_text

Damage = Callable[[bytes, random.Random], bytes]
WORDS = (
    "",
    "0",
    "-1",
    "1e300",
    "nan",
    "inf",
    "x",
    "1 2",
    "0 0 0",
    "base",
    "world",
    "../a",
    "a" * 5000,
    "é",
    "1:30",
    "@",
    "2024-13-01",
    "1_000",
    "9" * 390,
)
HOSTILE: tuple[Any, ...] = (
    *WORDS,
    0,
    -1,
    10**380,
    2**63,
    True,
    -0.0,
    1e308,
    -1e-308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[[[]]]],
    {"a": {"b": [1]}},
    [1, "a"],
    ["a"] * 200,
)
BYTES = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\n",
    b"\r",
    b'"',
    b"#",
    b",",
    b";",
    b"[",
    b"9" * 400,
    b"2024-01-01T00:00:00",
)


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change one to four places of a file: bits, pieces, words."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        length = len(damaged)
        at = rng.randint(0, length if rng.random() < 0.6 else min(length, 400))
        width = rng.randint(1, 60)
        kind = rng.randrange(7)
        if kind == 0 and at < length:
            damaged[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del damaged[at : at + width]
        elif kind == 2:
            damaged[at:at] = damaged[at : at + width]
        elif kind == 3:
            del damaged[at:]
        elif kind == 4:
            damaged[at : at + rng.randint(0, 8)] = rng.choice(BYTES)
        elif kind == 5:
            damaged[at : at + width] = rng.randbytes(width)
        else:
            other = rng.randint(0, length)
            damaged[at : at + width] = damaged[other : other + width]
    return bytes(damaged)


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return all (container, key) inside mappings and lists."""
    places = []
    waiting = [content]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            places.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return places


def damage_structure(content: Any, rng: random.Random) -> Any:
    """Change one to three values or keys of mappings and lists; the content itself is changed."""
    for _ in range(rng.randint(1, 3)):
        places = _places(content)
        if not places:
            return content
        container, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0:
            del container[key]
        elif kind == 1 and isinstance(container, dict):
            container[rng.choice(WORDS)] = container.pop(key)
        elif kind == 2 and isinstance(container, list):
            container.append(container[key])
        elif kind == 3:
            other, other_key = rng.choice(places)
            copied = json.loads(json.dumps(other[other_key]))
            container[key] = copied
        elif kind == 4:
            for _ in range(rng.choice((1, 3, 70))):
                container[key] = [container[key]]
        else:
            container[key] = deepcopy(rng.choice(HOSTILE))
    return content


def damage_toml(content: bytes, rng: random.Random) -> bytes:
    """Change values and keys of a TOML file."""
    return toml_text(damage_structure(tomllib.loads(content.decode()), rng)).encode()


def damage_json(content: bytes, rng: random.Random) -> bytes:
    """Change values and keys of a JSON file."""
    return json.dumps(damage_structure(json.loads(content), rng)).encode()


def damage_yaml(content: bytes, rng: random.Random) -> bytes:
    """Change values and keys of a YAML file, or add anchors."""
    text = yaml.safe_dump(damage_structure(yaml.safe_load(content), rng))
    if rng.random() < 0.2:
        text = text.replace(": ", ": &-a ", 1) + "again: [*-a, *-a]\n"
    return text.encode()


def damage_xml(content: bytes, rng: random.Random) -> bytes:
    """Change attributes, elements and texts of an XML file."""
    root = ElementTree.fromstring(content)
    for _ in range(rng.randint(1, 3)):
        elements = list(root.iter())
        element = rng.choice(elements)
        kind = rng.randrange(6)
        if kind == 0 and element.attrib:
            del element.attrib[rng.choice(list(element.attrib))]
        elif kind == 1:
            element.append(deepcopy(rng.choice(elements[1:] or elements)))
        elif kind == 2 and len(element):
            element.remove(rng.choice(list(element)))
        elif kind == 3:
            element.tag = rng.choice(elements).tag
        elif kind == 4:
            element.text = rng.choice(WORDS)
        elif element.attrib:
            element.attrib[rng.choice(list(element.attrib))] = rng.choice(WORDS)
    return ElementTree.tostring(root)


def damage_table(content: bytes, rng: random.Random) -> bytes:
    """Change cells, lines and columns of a table."""
    rows = [line.split(",") for line in content.decode("utf-8", "surrogateescape").split("\n")]
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows[: rng.choice((1, 2, len(rows)))])
        kind = rng.randrange(5)
        if kind == 0 and row:
            row[rng.randrange(len(row))] = rng.choice(WORDS)
        elif kind == 1 and row:
            del row[rng.randrange(len(row))]
        elif kind == 2:
            row.append(rng.choice(WORDS))
        elif kind == 3:
            rows.insert(rng.randrange(len(rows)), list(row))
        else:
            del rows[rng.randrange(len(rows)) :]
            rows = rows or [[""]]
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogateescape") + b"\n"


def damage_archive(content: bytes, rng: random.Random) -> bytes:
    """Change elements or bytes of one file in a ZIP archive, whose checksums fit again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    how = rng.choice((damage_xml, damage_bytes)) if name.endswith(".xml") else damage_bytes
    members[name] = how(members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, inner in members.items():
            archive.writestr(member, inner)
    return buffer.getvalue()


def damage_json_lines(content: bytes, rng: random.Random) -> bytes:
    """Change values and keys of one line of JSON."""
    lines = content.splitlines()
    k = rng.randrange(len(lines))
    lines[k] = damage_json(lines[k], rng)
    return b"\n".join(lines)


def damage_arrays(content: bytes, rng: random.Random) -> bytes:
    """Change shapes, types and numbers of the arrays of an NPZ file, or leave some out."""
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(list(arrays))
        array = arrays[name]
        kind = rng.randrange(6)
        if kind == 0 and len(arrays) > 1:
            del arrays[name]
        elif kind == 1:
            arrays[name] = array.reshape(-1)[: array.size // 2]
        elif kind == 2:
            arrays[name] = array.reshape(1, *array.shape)
        elif kind == 3 and array.dtype.kind in "fiub":
            with np.errstate(invalid="ignore", over="ignore"):
                arrays[name] = array.astype(rng.choice(["i1", "c16", "f4", "U5", "u8"]))
        elif kind == 4 and array.dtype.kind == "f" and array.size:
            hostile = array.copy()
            hostile.reshape(-1)[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, 1e308])
            arrays[name] = hostile
        else:
            arrays[name] = arrays[rng.choice(list(arrays))]
    buffer = io.BytesIO()
    with np.errstate(all="ignore"):
        np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def either(structured: Damage) -> Damage:
    """Return damage to the structure of a file, or to its bytes."""

    def damage(content: bytes, rng: random.Random) -> bytes:
        chosen = structured if rng.random() < 0.75 else damage_bytes
        return chosen(content, rng)

    return damage
