"""The pages of the documentation and what is in them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def builder() -> Any:
    """Return `docs/build.py` as a module."""
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = builder()
PAGES: dict[str, Path] = {page.stem: page for page in BUILD.pages()}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it belongs to if it names one, and its text."""

    language: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    found = []
    for token in BUILD.parse(PAGES[page]):
        if token.type == "fence":
            language, _, file = token.info.partition(" ")
            found.append(Block(language, file.strip(), token.content))
    return found


def tables(page: str) -> dict[str, list[list[str]]]:
    """Return the rows below each heading of a page, cells as plain Markdown."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in PAGES[page].read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.setdefault(heading, []).append(cells)
    return found


@dataclass(frozen=True)
class Key:
    """A documented place in a JSON value: `residual.<row>.rms` is ("residual", "<row>", "rms")."""

    path: tuple[str, ...]
    optional: bool

    def matches(self, path: tuple[str, ...]) -> bool:
        """Whether an actual place is this one, or ends in an empty table on the way to it."""
        return len(path) <= len(self.path) and all(
            a == b or a.startswith("<") for a, b in zip(self.path, path))


def documented_keys(page: str, heading: str) -> list[Key]:
    """Return the keys in the table below a heading."""
    return [Key(tuple(re.findall(r"\[\]|<[^>]*>|[^.\[\]]+", row[0].strip("`"))), row[1].startswith("("))
            for row in tables(page)[heading]]


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every leaf of a JSON value; lists of tables are `[]`, other lists are leaves."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from places(item, (*path, "[]"))
    else:
        yield path


def check_keys(output: str, page: str, heading: str) -> None:
    """Compare a JSON output with the documented keys, both ways."""
    keys, found = documented_keys(page, heading), set(places(json.loads(output)))
    for path in found:
        assert any(key.matches(path) for key in keys), f"{heading}: {'.'.join(path)} is not documented"
    for key in keys:
        there = any(key.matches(path) and len(path) == len(key.path) for path in found)
        assert there or key.optional, f"{heading}: {'.'.join(key.path)} is documented but was not there"
