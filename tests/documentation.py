"""The pages of the documentation and what is in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gough.app.studies.result_schema import result_schema

ROOT = Path(__file__).resolve().parents[1]


PAGES: dict[str, Path] = {
    page.stem: page
    for page in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").glob("*.md")),
    )
}


@cache
def parse(page: Path) -> list[Token]:
    """Return the tokens of a page, headings with an `id` to link to; they must not be changed."""
    tokens = (
        MarkdownIt("commonmark", {"html": False})
        .enable("table")
        .parse(page.read_text(encoding="utf-8"))
    )
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", slug(text.content))
    return tokens


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(page: Path) -> list[str]:
    """Return the targets of all links and pictures of a page."""
    inside = [child for token in parse(page) for child in token.children or ()]
    return [
        str(t.attrGet("href" if t.type == "link_open" else "src"))
        for t in inside
        if t.type in ("link_open", "image")
    ]


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or no heading."""
    found = []
    for target in links(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        headings = parse(file) if file.suffix == ".md" and file.is_file() else []
        if not file.is_file() or (anchor and anchor not in [t.attrGet("id") for t in headings]):
            found.append(target)
    return found


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it belongs to if it names one, and its text."""

    language: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    found = []
    for token in parse(PAGES[page]):
        if token.type == "fence":
            language, _, rest = token.info.partition(" ")
            title = re.search(r'title="([^"]+)"', rest)
            found.append(Block(language, title[1] if title else "", token.content))
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
            a == b or a.startswith("<") for a, b in zip(self.path, path)
        )


def documented_keys(page: str, heading: str) -> list[Key]:
    """Return the keys in the table below a heading."""
    return [
        Key(tuple(re.findall(r"\[\]|<[^>]*>|[^.\[\]]+", row[0].strip("`"))), row[1].startswith("("))
        for row in tables(page)[heading]
    ]


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every leaf of a JSON value; lists of tables are `[]`, other lists are
    leaves.
    """
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
        assert any(key.matches(path) for key in keys), (
            f"{heading}: {'.'.join(path)} is not documented"
        )
    for key in keys:
        there = any(key.matches(path) and len(path) == len(key.path) for path in found)
        assert there or key.optional, (
            f"{heading}: {'.'.join(key.path)} is documented but was not there"
        )


def check_result(verb: str, output: str) -> None:
    """Compare the JSON output of a verb with the schema of results."""
    schema = result_schema() | {"anyOf": [{"$ref": f"#/$defs/{verb}"}]}
    jsonschema.Draft202012Validator(schema).validate(json.loads(output))
