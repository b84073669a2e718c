"""Text tables: any delimiter, plain or gzipped, whole or in blocks."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.logs.finding import Finding
from gough.logs.writers import FORMAT, MARK

DELIMITERS = ("\t", ";", ",", "|", None)  # None: any white space
COMMENTS = ("#", "%")
LONGEST = 2**22  # characters of a line; a table of 100,000 columns fits
_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+(?:\s+\[[^\]]*\])?")  # `leg1.slider.effort [N m]` is one


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of one file, or of a stretch of it.

    Args:
        source: File name, for messages.
        columns: Values by column name, (t,) each; a MATLAB file may hold scalars beside its signals.
        facts: What a Gough file says about itself.
        findings: What reading found.
        repeated: Names that more than one column has; they cannot be asked for.
        unread: What columns hold that are not numbers, by name; left out unless asked for.
        first: Index of the first sample in the file.
    """

    source: str
    columns: Mapping[str, FloatArray]
    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    repeated: frozenset[str] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)
    first: int = 0

    def column(self, name: str) -> FloatArray:
        """Return a column by name.

        Raises:
            InvalidRecording: No such column, several of them, one of text, or a value that is not finite.
        """
        if name in self.repeated:
            raise InvalidRecording(f"{self.source}: more than one column is named '{name}'; rename them",
                                   source=self.source, column=name)
        if name in self.unread:
            raise InvalidRecording(f"{self.source}: column '{name}' holds {self.unread[name]}, expected numbers",
                                   source=self.source, column=name)
        if name not in self.columns:
            raise InvalidRecording(f"{self.source}: there is no column '{name}'{nearest(name, self.columns)}",
                                   source=self.source, column=name)
        values = self.columns[name]
        good = np.isfinite(values)
        if not good.all():
            i = int(np.argmin(good))
            raise InvalidRecording(
                f"{self.source}: column '{name}' is {values[i]} at sample {self.first + i} ({int((~good).sum())} such "
                "values); cut out or repair these samples",
                source=self.source, column=name, sample=self.first + i)
        return values


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """How the lines of one text file are cut into columns; those at `text` are not numbers."""

    names: tuple[str, ...]
    text: Mapping[int, str]
    delimiter: str | None
    trailing: bool
    decimal: str
    facts: Mapping[str, object]


def text_blocks(path: Path, size: int = 65536, *, decimal: str = ".") -> Iterator[Table]:
    """Read a text table in blocks of at most `size` samples, in memory that does not grow with the file.

    The first line that is no comment (`#`, `%`) names the columns. Without one, the last comment line of the same
    width does (what numpy.savetxt writes), and failing that columns are named "1", "2", ... Columns that begin with
    text (a state, a date) are not read. A last line that is cut short is dropped and reported.

    Args:
        path: File, gzipped if it ends in `.gz`.
        size: Samples in a block.
        decimal: Decimal sign of the numbers.

    Raises:
        InvalidRecording: Empty, binary or damaged file, a line of another width, something that is no number.
    """
    source = path.name
    findings: list[Finding] = []
    try:
        opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig") as handle:
            lines = _numbered(handle, source, findings)
            layout, first_lines = _layout(lines, source, decimal)
            data = _checked(chain(first_lines, lines), layout, source, findings)
            repeated = repeated_names(layout.names)
            read = [name for i, name in enumerate(layout.names) if i not in layout.text]
            unread = {layout.names[i]: what for i, what in layout.text.items()}
            start = 0
            block = list(islice(data, size))
            if not block:
                raise InvalidRecording(f"{source}: there are column names but no samples", source=source)
            while block:
                following = list(islice(data, size))
                values = _parse(block, layout, source)
                yield Table(source=source, columns=dict(zip(read, values.T)), facts=layout.facts, unread=unread,
                            findings=() if following else tuple(findings), repeated=repeated, first=start)
                start += len(block)
                block = following
    except UnicodeDecodeError as error:
        raise InvalidRecording(f"{source} is not UTF-8 text (byte {error.start}); expected a text table, NPZ, MAT or "
                               "Parquet file with its usual suffix", source=source) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidRecording(f"{source} is not a sound gzip file ({error}); copy it again", source=source) from error
    except OSError as error:
        raise InvalidRecording(f"cannot read '{path}': {error.strerror or error}", source=source) from error


def repeated_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names that occur more than once."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def joined(blocks: Iterable[Table]) -> Table:
    """Return consecutive blocks as one table."""
    parts = list(blocks)
    first, last = parts[0], parts[-1]
    columns = {name: np.concatenate([b.columns[name] for b in parts]) for name in first.columns}
    return Table(source=first.source, columns=columns, facts=first.facts, findings=last.findings,
                 repeated=first.repeated, unread=first.unread)


def _numbered(handle: io.TextIOWrapper, source: str, findings: list[Finding]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a gzip stream that stops early ends there and is reported."""
    number = 0
    try:
        while line := handle.readline(LONGEST):
            number += 1
            if len(line) == LONGEST:
                raise InvalidRecording(f"{source}: line {number} has more than {LONGEST} characters; is this a table?",
                                       source=source, line=number)
            yield number, line
    except EOFError:
        findings.append(Finding(kind="truncated", channel=source, numbers={"line": number},
                                message=f"the compressed file stops early, after line {number}; the rest is lost"))


def _layout(lines: Iterator[tuple[int, str]], source: str,
            decimal: str) -> tuple[_Layout, list[tuple[int, str]]]:
    """Find column names and delimiter; also return the lines read so far that are data."""
    comments: list[str] = []
    head: list[tuple[int, str]] = []
    for number, line in lines:
        if "\0" in line:
            raise InvalidRecording(f"{source} is a binary file; expected a text table, NPZ, MAT or Parquet file with "
                                   "its usual suffix", source=source)
        if line.startswith(COMMENTS):
            comments.append(line)
        elif line.strip():
            head.append((number, line))
            if len(head) == 2:
                break
    if not head:
        raise InvalidRecording(f"{source} is empty; expected column names and samples", source=source)
    facts = _facts(comments[0] if comments else "", source)
    delimiter = _delimiter([line for _, line in head], source)
    names, last = _cells(head[0][1], delimiter), _cells(head[-1][1], delimiter)
    names = names[:-1] if not names[-1] else names
    trailing = len(last) == len(names) + 1 and not last[-1]
    if all(_is_number(cell, decimal) for cell in names):
        above = _cells(comments[-1].lstrip("#% "), delimiter) if comments else []
        names = above if len(above) == len(names) else [str(i + 1) for i in range(len(names))]
        data = head
    else:
        data = head[1:]
    # columns whose first value is no number with either decimal sign, and where that was seen
    text = {i: f"'{cell}' in line {number}" for number, line in data[:1]
            for i, cell in enumerate(_cells(line, delimiter)[:len(names)])
            if not _is_number(cell) and not _is_number(cell, ",")}
    return _Layout(names=tuple(names), text=text, delimiter=delimiter, trailing=trailing, decimal=decimal,
                   facts=facts), data


def _facts(comment: str, source: str) -> Mapping[str, object]:
    """Read the line `# gough-recording 1 {"payload": ...}`."""
    words = comment.lstrip("#% ").split(" ", 2)
    if words[0].strip() != MARK:
        return {}
    try:
        version, facts = int(words[1]), parse_json(words[2])
    except (IndexError, ValueError, InvalidInput) as error:
        raise InvalidRecording(f"{source}: the line '{comment.strip()[:60]}' is damaged; expected "
                               f"'# {MARK} {FORMAT} {{...}}'", source=source) from error
    if version != FORMAT or not isinstance(facts, dict):
        raise InvalidRecording(f"{source}: format version {version} of {MARK} is not known, expected {FORMAT}",
                               source=source)
    return facts


def _delimiter(head: list[str], source: str) -> str | None:
    """Return the first delimiter that cuts both lines into the same number of pieces, two or more."""
    for delimiter in DELIMITERS:
        for ends in ("\r\n", "\r\n" + (delimiter or "")):  # as they are; without a delimiter behind the last column
            widths = {len(_cells(line.rstrip(ends), delimiter)) for line in head}
            if len(widths) == 1 and min(widths) > 1:
                return delimiter
    if len(head) == 1:
        raise InvalidRecording(f"{source}: there is one line and no table in it", source=source)
    raise InvalidRecording(
        f"{source}: no delimiter (tab, semicolon, comma, bar, space) cuts the first two lines into the same number of "
        "columns, two or more; is this a table?", source=source)


def _cells(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return _WORD.findall(line)
    return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))]


def _is_number(text: str, decimal: str = ".") -> bool:
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000, files mean something else


def _checked(lines: Iterator[tuple[int, str]], layout: _Layout, source: str,
             findings: list[Finding]) -> Iterator[tuple[int, str]]:
    """Yield data lines of the right width; drop and report a last line that was cut short."""
    delimiter, width = layout.delimiter, len(layout.names)
    separators = width - (0 if layout.trailing else 1)
    for number, line in lines:
        if line.startswith(COMMENTS) or not line.strip():
            continue
        found = len(line.split()) - 1 if delimiter is None else line.count(delimiter)
        cells = [] if line.endswith("\n") else _cells(line, delimiter)[:width]
        readable = all(_is_number(cell, layout.decimal) for i, cell in enumerate(cells) if i not in layout.text)
        if found == separators and readable:
            if cells:
                findings.append(Finding(
                    kind="unterminated", channel=source, numbers={"line": number},
                    message=f"line {number}, the last, has no line end; its last value may be cut"))
            yield number, line
            continue
        if any(rest.strip() for _, rest in lines):
            pieces = found + (0 if layout.trailing else 1)
            raise InvalidRecording(f"{source}: line {number} has {pieces} columns, expected {width}; "
                                   "repair or cut the file there", source=source, line=number)
        findings.append(Finding(kind="truncated", channel=source, numbers={"line": number},
                                message=f"line {number}, the last, is cut short and was dropped"))


def _parse(lines: list[tuple[int, str]], layout: _Layout, source: str) -> FloatArray:
    """Turn data lines into numbers, (t, k)."""
    texts = [line for _, line in lines]
    if layout.decimal != ".":
        texts = [line.replace(layout.decimal, ".") for line in texts]
    columns = [i for i in range(len(layout.names)) if i not in layout.text]
    try:
        values: FloatArray = np.loadtxt(texts, delimiter=layout.delimiter, ndmin=2, comments=None, quotechar='"',
                                        usecols=columns if layout.trailing or layout.text else None)
    except ValueError as error:
        for number, line in lines:
            for i, (name, cell) in enumerate(zip(layout.names, _cells(line, layout.delimiter))):
                if i in columns and not _is_number(cell, layout.decimal):
                    hint = ("; if the comma is the decimal sign, say decimal = \",\" in a description file"
                            if _is_number(cell, ",") else "; repair or cut the file there")
                    raise InvalidRecording(f"{source}: line {number}, column '{name}' is '{cell}', expected a number"
                                           + hint, source=source, line=number, column=name) from error
        raise InvalidRecording(f"{source}: lines {lines[0][0]} to {lines[-1][0]} cannot be read as numbers: {error}",
                               source=source) from error
    return values
