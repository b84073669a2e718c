"""Columns of a file; text tables with any delimiter, plain or gzipped, whole or in blocks."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.files import text_encoding
from gough.core.notices import Notice
from gough.core.units import is_unit
from gough.logs.messages import log_notice, refused
from gough.logs.writers import FORMAT, MARK

DELIMITERS = ("\t", ";", ",", "|", None)  # None: any white space
COMMENTS = ("#", "%")
LONGEST = 2**22  # characters of a line; a table of 100,000 columns fits
# lines among which a table must begin; oscilloscopes of controllers write some twenty above it
BLOCK = 64
KEYS = ("name", "symbolname")  # what begins the line of names in such a block
SIGNS = (
    (".", ""),
    (",", ""),
    (".", ","),
    (",", "."),
    (".", "'"),
    (".", " "),
    (",", " "),
)  # decimal, thousands
MEANT = {
    (",", ""): "the comma is the decimal sign",
    (".", ""): "the point is the decimal sign",
    (".", ","): "the comma separates thousands",
    (",", "."): "the point separates thousands",
}
_CLOCK = re.compile(r"(?:(\d\d)\.(\d\d)\.(\d{4}) +)?(\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)")
_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+(?:\s+\[[^\]]*\])?")  # `leg1.slider.effort [N m]` is one

Lines = Iterable[tuple[int, str]]  # with their numbers in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of one file, or of a stretch of it."""

    source: str
    columns: Mapping[
        str, FloatArray
    ]  # (t,) each; a MATLAB file may hold scalars beside its signals
    facts: Mapping[str, object] = field(default_factory=dict)  # what a Gough file says about itself
    notices: tuple[Notice, ...] = ()
    repeated: frozenset[str] = (
        frozenset()
    )  # names of more than one column, here called `q[1]`, `q[2]`, ...
    unread: Mapping[str, str] = field(
        default_factory=dict
    )  # what columns hold that are not numbers
    blank: Mapping[str, BoolArray] = field(
        default_factory=dict
    )  # rows where a column has no value, but NaN, (t,)
    seconds: frozenset[str] = (
        frozenset()
    )  # columns that are times in s by their nature: dates, stamps of a bag
    first: int = 0  # index of the first sample in the file

    def column(self, name: str) -> FloatArray:
        """Return a column by name, or without one the only one; none, several, text and NaN are
        refused.
        """
        if not name and len(self.columns) != 1:
            raise InvalidRecording(
                f"{self.source} has {len(self.columns)} columns ({', '.join(self.columns)}); say "
                "which with columns = [...]",
                source=self.source,
            )
        name = name or next(iter(self.columns))
        if name in self.repeated or name not in self.columns:
            wrong = (
                f"more than one column is named '{name}'; in a description say which: '{name}[1]', "
                f"'{name}[2]'"
                if name in self.repeated
                else f"column '{name}' holds {self.unread[name]}, expected numbers"
                if name in self.unread
                else f"there is no column '{name}'{nearest(name, self.columns)}"
            )
            raise refused(self.source, wrong, column=name)
        values = self.columns[name]
        good = np.isfinite(values) | self.blank.get(name, False)
        if not good.all():
            i = int(np.argmin(good))
            raise refused(
                self.source,
                f"column '{name}' is {values[i]} at sample {self.first + i} "
                f"({int((~good).sum())} such values); cut out or repair these samples",
                column=name,
                sample=self.first + i,
            )
        return values


def numbered(names: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Return names with those that occur more than once numbered from 1, `q[1]`, `q[2]`, and which
    these are.
    """
    more = frozenset(name for name, count in Counter(names).items() if count > 1)
    return [
        f"{name}[{names[: i + 1].count(name)}]" if name in more else name
        for i, name in enumerate(names)
    ], more


def cut(whole: Table, size: int) -> Iterator[Table]:
    """Yield a table in blocks; whole if columns have clocks of their own, or constants stand beside
    the signals.
    """
    counts = {len(column) for column in whole.columns.values()}
    if len(counts) > 1:
        yield whole
        return
    for i in range(0, max(counts), size):
        yield replace(
            whole,
            first=whole.first + i,
            columns={name: c[i : i + size] for name, c in whole.columns.items()},
            blank={name: rows[i : i + size] for name, rows in whole.blank.items()},
        )


def joined(blocks: Iterable[Table]) -> Table:
    """Return consecutive blocks as one table."""
    parts = list(blocks)
    columns = {name: np.concatenate([b.columns[name] for b in parts]) for name in parts[0].columns}
    blank = {
        name: np.concatenate(
            [b.blank.get(name, np.zeros(len(b.columns[name]), dtype=bool)) for b in parts]
        )
        for name in dict.fromkeys(name for b in parts for name in b.blank)
    }
    return replace(parts[0], columns=columns, blank=blank, notices=parts[-1].notices)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """How the lines of one text file are cut into columns; those at `text` are not numbers, those
    at `dates` stamps.
    """

    source: str
    names: tuple[str, ...]
    text: Mapping[int, str]
    dates: frozenset[int]
    delimiter: str | None
    trailing: bool
    decimal: str
    thousands: str
    facts: Mapping[str, object]
    above: int

    def value(self, i: int, cell: str) -> float | None:
        """Return the number or the date in a cell of a column; None if it is none."""
        return _seconds(cell) if i in self.dates else _number(cell, self.decimal, self.thousands)


def text_blocks(
    path: Path, size: int = 65536, *, decimal: str = ".", thousands: str = "", skip: int = 0
) -> Iterator[Table]:
    """Read a text table in blocks of at most `size` samples, in memory that does not grow with the
    file.

    After `skip` lines, the first that is no comment (`#`, `%`) names the columns. Without one, the
    last comment line of the same width does (what numpy.savetxt writes), and failing that columns
    are named "1", "2", ... A block of other lines may stand above (`_headed`). Where each column
    has its own time before it, that is named `<column> time`. Columns that begin with text are not
    read. A last line that is cut short is dropped and reported.
    """
    source = path.name
    notices: list[Notice] = []
    try:
        opened: Any = gzip.open if source.lower().endswith(".gz") else open
        with opened(path, "rb") as raw:
            encoding = text_encoding(raw.read1(2**16))
        if encoding == "cp1252":
            notices.append(
                log_notice(
                    "encoding",
                    source,
                    "the text is not UTF-8 and was taken for that of Windows (CP 1252)",
                )
            )
        with opened(
            path, "rt", encoding=encoding, errors="replace" if encoding == "cp1252" else "strict"
        ) as handle:
            lines = islice(_numbered(handle, source, notices), skip, None)
            layout, first_lines = _layout(lines, source, decimal, thousands)
            if layout.above:
                notices.append(
                    log_notice(
                        "above",
                        source,
                        f"{layout.above} lines above the table were passed over",
                        lines=layout.above,
                    )
                )
            data = _checked(chain(first_lines, lines), layout, notices)
            names, repeated = numbered(layout.names)
            read = [name for i, name in enumerate(names) if i not in layout.text]
            about = Table(
                source=source,
                columns={},
                facts=layout.facts,
                repeated=repeated,
                unread={names[i]: what for i, what in layout.text.items()},
                seconds=frozenset(names[i] for i in layout.dates),
            )
            start, block = 0, list(islice(data, size))
            if not block:
                raise refused(source, "there are column names but no samples")
            while block:
                values, blank = _parse(block, layout)
                start, block = start + len(block), list(islice(data, size))
                yield replace(
                    about,
                    columns=dict(zip(read, values.T)),
                    first=start - len(values),
                    blank={name: rows for name, rows in zip(read, blank.T) if rows.any()},
                    notices=() if block else tuple(notices),
                )
    except UnicodeError as error:
        raise InvalidRecording(
            f"{source} is not UTF-8 text, nor UTF-16 ({error}); expected a text table, or another "
            "file with its usual suffix",
            source=source,
        ) from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidRecording(
            f"{source} is not a sound gzip file ({error}); copy it again", source=source
        ) from error
    except OSError as error:
        raise InvalidRecording(
            f"cannot read '{path}': {error.strerror or error}", source=source
        ) from error


def _numbered(handle: Any, source: str, notices: list[Notice]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a gzip stream that stops early ends there and is reported."""
    number = 0
    try:
        while line := handle.readline(LONGEST):
            number += 1
            if len(line) == LONGEST:
                raise refused(
                    source,
                    f"line {number} has more than {LONGEST} characters; is this a table?",
                    line=number,
                )
            yield number, line
    except EOFError:
        notices.append(
            log_notice(
                "truncated",
                source,
                f"the compressed file stops early, after line {number}; the rest is lost",
                line=number,
            )
        )


def _layout(
    lines: Lines, source: str, decimal: str, thousands: str
) -> tuple[_Layout, list[tuple[int, str]]]:
    """Find column names and delimiter; also return the lines read so far that are data."""
    comments: list[str] = []
    head: list[tuple[int, str]] = []
    for number, line in lines:
        if "\0" in line:
            raise InvalidRecording(
                f"{source} is a binary file; expected a text table, or another file with its usual "
                "suffix",
                source=source,
            )
        if line.startswith(COMMENTS) and not head:
            comments.append(line)
        elif line.strip() and not line.startswith(COMMENTS):
            head.append((number, line))
            if len(head) == BLOCK:
                break
    if not head:
        raise InvalidRecording(
            f"{source} is empty; expected column names and samples", source=source
        )
    facts = _facts(comments[0] if comments else "", source)
    above, data, delimiter = _headed(head)
    passed = len(above)
    if not above:
        delimiter = _delimiter([line for _, line in head[:2]], source)
        above, data = [_cells(head[0][1], delimiter)], head[1:]
        if all(_number(cell, decimal, thousands) is not None for cell in above[0] if cell):
            data = head
            above = [_cells(comments[-1].lstrip("#% "), delimiter)] if comments else []
    width = len(_cells(data[0][1] if data else head[0][1], delimiter))
    names = _column_names(above, width)
    first = _cells(data[0][1], delimiter)[: len(names)] if data else []
    dates = frozenset(i for i, cell in enumerate(first) if _seconds(cell) is not None)
    # columns whose first value is no number with either decimal sign, and where that was seen
    text = {
        i: f"'{cell}' in line {data[0][0]}"
        for i, cell in enumerate(first)
        if i not in dates and not _fits(cell)
    }
    return _Layout(
        source=source,
        names=tuple(names),
        text=text,
        dates=dates,
        delimiter=delimiter,
        decimal=decimal,
        trailing=bool(data) and width == len(names) + 1,
        thousands=thousands,
        facts=facts,
        above=passed,
    ), data


def _headed(
    head: list[tuple[int, str]],
) -> tuple[list[list[str]], list[tuple[int, str]], str | None]:
    """Find a table below a block of lines that are no table: the lines above as cells, those of
    data, the delimiter.

    The first two lines of a plain table have the same width and the second holds mostly numbers: no
    block. Else the data begin with the first line that holds nothing but numbers, blanks and dates,
    two at least, and goes on like that. Without such a line nothing is returned.
    """

    def usable(row: list[str]) -> int:
        return sum(_fits(cell) or _seconds(cell) is not None for cell in row)

    for delimiter in DELIMITERS if len(head) > 3 else ():
        rows = [_cells(line, delimiter) for _, line in head]
        if 1 < len(rows[0]) == len(rows[1]) < 2 * usable(rows[1]):
            break
        start = next(
            (
                i
                for i, row in enumerate(rows)
                if len(row) > 1 and any(row) and usable(row) == len(row)
            ),
            0,
        )
        alike = rows[start : start + 3]
        if (
            start > 1
            and len(alike) > 1
            and all(len(row) == len(alike[0]) == usable(row) for row in alike)
        ):
            return rows[:start], head[start:], delimiter
    return [], [], None


def _column_names(above: list[list[str]], width: int) -> list[str]:
    """Return the names for columns of this many cells from the lines above them; numbers if none
    has them.

    A line that begins with `Name` has them; else the last of the right width, with the units below
    it if there is a line of them. Cells that alternate with one word (`Name, x, Name, y` or `Time,
    x, Time, y`) mean that each column has its own time before it.
    """
    fitting = [row[:-1] if not row[-1] else row for row in above if row]
    fitting = [row for row in fitting if len(row) in (width, width - 1)]
    if len(fitting) > 1 and all(
        not cell or is_unit(cell.strip("[]()")) for cell in fitting[-1]
    ):  # a line of units
        fitting[-1] = [
            f"{name} [{unit.strip('[]()')}]" if unit else name for name, unit in zip(*fitting[-2:])
        ]
    keyed = [row for row in fitting if row[0].lower() in KEYS]
    if not fitting:
        return [str(i + 1) for i in range(width)]
    found = keyed[0] if keyed else fitting[-1]
    if len(found) % 2 == 0 and len(set(found[::2])) == 1 and (keyed or len(found) > 2):
        return [name for own in found[1::2] for name in (f"{own} time", own)]
    return ["Time", *found[1:]] if keyed else found


def _facts(comment: str, source: str) -> Mapping[str, object]:
    """Read the line `# gough-recording 1 {"payload": ...}`."""
    words = comment.lstrip("#% ").split(" ", 2)
    if words[0].strip() != MARK:
        return {}
    try:
        version, facts = int(words[1]), parse_json(words[2])
    except (IndexError, ValueError, InvalidInput) as error:
        raise refused(
            source,
            f"the line '{comment.strip()[:60]}' is damaged; expected '# {MARK} {FORMAT} {{...}}'",
        ) from error
    if version != FORMAT or not isinstance(facts, dict):
        raise refused(source, f"format version {version} of {MARK} is not known, expected {FORMAT}")
    return facts


def _delimiter(head: list[str], source: str) -> str | None:
    """Return the first delimiter that cuts both lines into the same number of pieces, two or
    more.
    """
    for delimiter in DELIMITERS:
        for ends in (
            "\r\n",
            "\r\n" + (delimiter or ""),
        ):  # as they are; without a delimiter behind the last column
            widths = {len(_cells(line.rstrip(ends), delimiter)) for line in head}
            if len(widths) == 1 and min(widths) > 1:
                return delimiter
    if len(head) == 1:
        raise refused(source, "there is one line and no table in it")
    if all(len(_cells(line, None)) == 1 for line in head) and _fits(head[1].strip()):
        return None  # one column
    raise refused(
        source,
        "no delimiter (tab, semicolon, comma, bar, space) cuts the first two lines into the same "
        "number of columns, nor is it one column of numbers; is this a table?",
    )


def _cells(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return _WORD.findall(line)
    return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))]


def _number(cell: str, decimal: str = ".", thousands: str = "") -> float | None:
    """Return a cell as a number; None if it is none, or written with other signs."""
    if thousands and re.fullmatch(
        r"[-+]?\d{1,3}(T\d{3})+(D\d*)?".replace("T", re.escape(thousands)).replace(
            "D", re.escape(decimal)
        ),
        cell,
    ):
        cell = cell.replace(thousands, "")
    if "_" in cell or (
        decimal != "." and "." in cell
    ):  # Python reads 1_000, files mean something else
        return None
    try:
        return float(cell.replace(decimal, "."))
    except ValueError:
        return None


def _fits(cell: str) -> bool:
    """Tell whether a cell is blank or a number with any signs."""
    return not cell or any(_number(cell, *signs) is not None for signs in SIGNS)


def _seconds(cell: str) -> float | None:
    """Return a date with time as seconds since 1970, one without zone as if it were UTC; None if it
    is none. [s]

    ISO, or with points, the day first (31.12.2024 23:59:59.5); a time alone is on the first day. A
    double resolves 0.24 us there.
    """
    plain = _CLOCK.fullmatch(cell)
    if plain:
        day, month, year, clock = plain.groups("")
        cell = f"{year or 1970}-{month or '01'}-{day or '01'}T{clock}"
    elif len(cell) < 16 or cell[4] != "-" or cell[13] != ":":
        return None
    try:
        stamp = datetime.fromisoformat(cell.replace(",", "."))
    except ValueError:
        return None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _checked(
    lines: Iterator[tuple[int, str]], layout: _Layout, notices: list[Notice]
) -> Iterator[tuple[int, str]]:
    """Yield data lines of the right width; drop and report a last line that was cut short."""
    delimiter, width, source = layout.delimiter, len(layout.names), layout.source
    for number, line in lines:
        if line.startswith(COMMENTS) or not line.strip():
            continue
        found = (
            len(line.split())
            if delimiter is None
            else len(_cells(line, delimiter))
            if '"' in line
            else line.count(delimiter) + 1
        ) - layout.trailing
        cells = [] if line.endswith("\n") else _cells(line, delimiter)[:width]
        readable = all(
            layout.value(i, cell) is not None
            for i, cell in enumerate(cells)
            if i not in layout.text
        )
        if found == width and readable:
            if cells:
                notices.append(
                    log_notice(
                        "unterminated",
                        source,
                        f"line {number}, the last, has no line end; its last value may be cut",
                        line=number,
                    )
                )
            yield number, line
            continue
        if any(rest.strip() for _, rest in lines):
            raise refused(
                source,
                f"line {number} has {found} columns, expected {width}; repair or cut the file "
                f"there",
                line=number,
            )
        notices.append(
            log_notice(
                "truncated",
                source,
                f"line {number}, the last, is cut short and was dropped",
                line=number,
            )
        )


def _parse(lines: list[tuple[int, str]], layout: _Layout) -> tuple[FloatArray, BoolArray]:
    """Turn data lines into numbers, and say which cells are blank, (t, k) each."""
    texts = [line for _, line in lines]
    plain = not layout.dates and not layout.thousands
    if layout.decimal != ".":
        plain = plain and not any("." in line for line in texts)
        texts = [line.replace(layout.decimal, ".") for line in texts]
    columns = [i for i in range(len(layout.names)) if i not in layout.text]
    if plain:
        try:
            values: FloatArray = np.loadtxt(
                texts,
                delimiter=layout.delimiter,
                ndmin=2,
                comments=None,
                quotechar='"',
                usecols=columns if layout.trailing or layout.text else None,
            )
            return values, np.zeros(values.shape, dtype=bool)
        except ValueError:
            pass  # blank cells, or a wrong one
    values = np.full((len(lines), len(columns)), np.nan)
    blank = np.zeros(values.shape, dtype=bool)
    for t, (number, line) in enumerate(lines):
        cells = _cells(line, layout.delimiter)
        for k, i in enumerate(columns):
            cell = cells[i] if i < len(cells) else ""
            blank[t, k] = not cell
            read = layout.value(i, cell)
            if read is not None:
                values[t, k] = read
            elif cell:
                raise _no_number(cell, i, number, layout)
    return values, blank


def _no_number(cell: str, i: int, line: int, layout: _Layout) -> InvalidRecording:
    hint = "; repair or cut the file there"
    for (decimal, thousands), what in MEANT.items():
        if _number(cell, decimal, thousands) is not None:
            both = f' and thousands = "{thousands}"' if thousands else ""
            hint = f'; if {what}, say decimal = "{decimal}"{both} in a description file'
            break
    wanted = "date" if i in layout.dates else "number"
    return refused(
        layout.source,
        f"line {line}, column '{layout.names[i]}' is '{cell}', expected a {wanted}{hint}",
        line=line,
        column=layout.names[i],
    )
