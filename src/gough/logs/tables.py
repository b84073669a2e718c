"""Tables of columns, and text files with any delimiter, plain or gzipped, in blocks."""

from __future__ import annotations

import csv
import gzip
import io
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
from gough.core.files import Budget, text_encoding
from gough.core.notices import Notice
from gough.core.units import is_unit
from gough.logs.description import Description
from gough.logs.messages import log_notice, refused
from gough.logs.writers import RECORDING_FORMAT, RECORDING_MARK

DELIMITERS = ("\t", ";", ",", "|", None)  # None: any white space
COMMENT_SIGNS = ("#", "%")
MAX_LINE_CHARACTERS = 2**22  # a table of 100,000 columns fits
# Lines among which a table must begin; oscilloscopes of controllers
# write some twenty above it.
MAX_LINES_ABOVE = 64
NAME_LINE_WORDS = (
    "name",
    "symbolname",
)  # that begin the line of names above such a table
# that begin the line of units below it
UNIT_LINE_WORDS = ("unit", "units", "einheit")
NUMBER_SIGNS = (
    (".", ""),
    (",", ""),
    (".", ","),
    (",", "."),
    (".", "'"),
    (".", " "),
    (",", " "),
)  # decimal, thousands
SIGN_MEANINGS = {
    (",", ""): "the comma is the decimal sign",
    (".", ""): "the point is the decimal sign",
    (".", ","): "the comma separates thousands",
    (",", "."): "the point separates thousands",
}
_AMERICAN_DATE = re.compile(
    r"(\d\d?)/(\d\d?)/(\d{4}),? +(\d\d?):(\d\d):(\d\d(?:\.\d{1,9})?) *([AP])M", re.IGNORECASE
)
_CLOCK = re.compile(r"(?:(\d\d)\.(\d\d)\.(\d{4}) +)?(\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)")
# `leg1.slider.effort [N m]` is one
_WORD = re.compile(r"(?:\[[^\]]*\]|\S)+(?:\s+\[[^\]]*\])?")

Lines = Iterable[tuple[int, str]]  # with their numbers in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of one file, or of a block of it."""

    source: str  # name of the file
    # (t,) each; of a MATLAB file also scalars
    columns: Mapping[str, FloatArray]
    # that Gough wrote into its file
    facts: Mapping[str, object] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()  # on reading it
    # names of more than one column, here called `q[1]`, `q[2]`, ...
    repeated: frozenset[str] = frozenset()
    # content of the columns that are not numbers
    unread: Mapping[str, str] = field(default_factory=dict)
    # rows where a column has NaN because its cell is blank, (t,)
    blank: Mapping[str, BoolArray] = field(default_factory=dict)
    # columns known to be times in s: dates, stamps of a bag
    seconds: frozenset[str] = frozenset()
    first: int = 0  # index of the first sample in the file

    def column(self, name: str) -> FloatArray:
        """Return a column by name, the only one without a name; refuse text and NaN."""
        if not name and len(self.columns) != 1:
            raise InvalidRecording(
                f"{self.source} has {len(self.columns)} columns ({', '.join(self.columns)}); say "
                "which with columns = [...]",
                source=self.source,
            )
        name = name or next(iter(self.columns))
        if name in self.repeated:
            raise refused(
                self.source,
                f"more than one column is named '{name}'; in a description say which: '{name}[1]', "
                f"'{name}[2]'",
                column=name,
            )
        if name in self.unread:
            message = f"column '{name}' holds {self.unread[name]}, expected numbers"
            raise refused(self.source, message, column=name)
        if name not in self.columns:
            message = f"there is no column '{name}'{nearest(name, self.columns)}"
            raise refused(self.source, message, column=name)
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
    """Number names that occur more than once from 1, `q[1]`, `q[2]`; also return these names."""
    repeated = frozenset(name for name, count in Counter(names).items() if count > 1)
    unique = []
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        unique.append(f"{name}[{seen[name]}]" if name in repeated else name)
    return unique, repeated


def cut(table: Table, samples: int) -> Iterator[Table]:
    """Yield a table in blocks of samples; the whole table if its columns differ in length."""
    lengths = {len(column) for column in table.columns.values()}
    if len(lengths) > 1:
        yield table
        return
    for start in range(0, max(lengths), samples):
        rows = slice(start, start + samples)
        yield replace(
            table,
            first=table.first + start,
            columns={name: column[rows] for name, column in table.columns.items()},
            blank={name: mask[rows] for name, mask in table.blank.items()},
        )


def joined(blocks: Iterable[Table]) -> Table:
    """Return consecutive blocks as one table."""
    tables = list(blocks)
    columns = {}
    for name in tables[0].columns:
        columns[name] = np.concatenate([table.columns[name] for table in tables])
    blank = {}
    for name in columns:
        if any(name in table.blank for table in tables):
            blank[name] = np.concatenate([_blank_cells(table, name) for table in tables])
    return replace(tables[0], columns=columns, blank=blank, notices=tables[-1].notices)


def _blank_cells(table: Table, name: str) -> BoolArray:
    """Return where a column of a table is blank, (t,)."""
    if name in table.blank:
        return table.blank[name]
    return np.zeros(len(table.columns[name]), dtype=bool)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """How the lines of one text file are split into columns."""

    source: str  # name of the file
    names: tuple[str, ...]  # of the columns
    # content of the columns that are not numbers, by their index
    text: Mapping[int, str]
    dates: frozenset[int]  # indices of the columns with dates
    delimiter: str | None
    trailing: bool  # lines end with a delimiter
    decimal: str
    thousands: str
    facts: Mapping[str, object]  # that Gough wrote into its file
    above: int  # lines above the table

    def value(self, i: int, cell: str) -> float | None:
        """Return the number or the date in a cell of a column; None if it is none."""
        if i in self.dates:
            return seconds_of_date(cell)
        return _parse_number(cell, self.decimal, self.thousands)


def text_blocks(path: Path, size: int, description: Description | None = None) -> Iterator[Table]:
    """Yield a text table in blocks of at most `size` samples.

    The description may state the signs of the numbers and how many
    lines to skip. After these, the first that is no comment (`#`, `%`)
    names the columns. Without one, the last comment line of the same
    width does (what numpy.savetxt writes), and failing that columns are
    named "1", "2", ... Other lines may stand above (`_table_below`).
    Where each column has its own time before it, that is named
    `<column> time`. Columns that begin with text are not read. A last
    line that is cut short is dropped and reported.
    """
    source = path.name
    notices: list[Notice] = []
    skip = 0
    signs: tuple[str, ...] = ()
    if description is not None:
        skip = description.skip
        signs = (description.decimal, description.thousands)
    try:
        budget = Budget(source, path.stat().st_size, InvalidRecording, streamed=True)
        with path.open("rb") as stream:
            raw: Any = stream
            if path.name.lower().endswith(".gz"):
                raw = gzip.GzipFile(fileobj=stream)
            encoding = text_encoding(raw.read1(2**16))
            raw.seek(0)
            errors = "strict"
            if encoding == "cp1252":
                errors = "replace"
                text = "the text is not UTF-8 and was read as Windows text (CP 1252)"
                notices.append(log_notice("encoding", source, text))
            with io.TextIOWrapper(raw, encoding=encoding, errors=errors) as handle:
                lines = islice(_numbered_lines(handle, budget, notices), skip, None)
                yield from line_blocks(lines, budget, size, notices, *signs)
    except UnicodeError as error:
        raise InvalidRecording(
            f"{source} is not UTF-8 text, nor UTF-16 ({error}); expected a text table, or another "
            "file with its usual suffix",
            source=source,
        ) from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidRecording(
            f"{source} is a damaged gzip file ({error}); copy it again",
            source=source,
        ) from error
    except OSError as error:
        raise InvalidRecording(
            f"cannot read '{path}': {error.strerror or error}", source=source
        ) from error


def line_blocks(
    lines: Iterator[tuple[int, str]],
    budget: Budget,
    size: int,
    notices: list[Notice],
    decimal: str = ".",
    thousands: str = "",
) -> Iterator[Table]:
    """Yield the table that lines of text hold in blocks.

    Args:
        lines: With their numbers in the file.
        budget: Of the file.
        size: Samples a block.
        notices: On reading it; more are added, and the last block has
            all of them.
        decimal, thousands: Signs of the numbers.
    """
    source = budget.source
    lines = _with_list_members_apart(lines)
    layout, first_lines = _find_layout(lines, budget, decimal, thousands)
    if layout.above:
        notices.append(
            log_notice(
                "above",
                source,
                f"{layout.above} lines above the table were skipped",
                lines=layout.above,
            )
        )
    table_lines = _complete_lines(chain(first_lines, lines), layout, notices)
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
    start = 0
    block = list(islice(table_lines, size))
    if not block:
        raise refused(source, "there are column names but no samples")
    while block:
        values, blank = _parse_lines(block, layout)
        next_block = list(islice(table_lines, size))
        yield replace(
            about,
            columns=dict(zip(read, values.T)),
            first=start,
            blank={name: rows for name, rows in zip(read, blank.T) if rows.any()},
            notices=() if next_block else tuple(notices),
        )
        start += len(block)
        block = next_block


def _numbered_lines(
    handle: Any, budget: Budget, notices: list[Notice]
) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a gzip stream that stops early ends there and is reported."""
    number = 0
    source = budget.source
    try:
        while line := handle.readline(MAX_LINE_CHARACTERS):
            number += 1
            budget.take_bytes(len(line))
            if len(line) == MAX_LINE_CHARACTERS:
                raise refused(
                    source,
                    f"line {number} has more than {MAX_LINE_CHARACTERS} characters, expected a "
                    "table",
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


def _with_list_members_apart(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield lines with each member of a list of numbers in a cell of its own.

    A column `q` with cells such as `"[0.1, 0.2]"` or `[0.1 0.2]`
    becomes `q[1]` and `q[2]`. Only tables whose first line names the
    columns have such cells; others are yielded as they are.
    """
    head = list(islice(lines, 2))
    rest = chain(head, lines)
    lengths: dict[int, int] = {}
    for delimiter in DELIMITERS[:-1]:
        rows = [_split_cells(line, delimiter) for _, line in head]
        if len(rows) == 2 and len(rows[0]) == len(rows[1]):
            for i, cell in enumerate(rows[1]):
                members = _list_members(cell)
                if members and not _list_members(rows[0][i]):
                    lengths[i] = len(members)
        if lengths:
            break
    else:
        yield from rest
        return
    buffer = io.StringIO()
    output = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    for number, line in rest:
        cells: list[str] = []
        for i, cell in enumerate(_split_cells(line, delimiter)):
            if i not in lengths:
                cells.append(cell)
            elif number == head[0][0]:
                cells += [f"{cell}[{k + 1}]" for k in range(lengths[i])]
            else:
                cells += _list_members(cell) or [cell]
        buffer.seek(0)
        buffer.truncate()
        output.writerow(cells)
        yield number, buffer.getvalue()


def _list_members(cell: str) -> list[str]:
    """Return the numbers of a list in a cell, `[0.1, 0.2]` or `(0.1 0.2)`; empty if it is none."""
    inner = re.fullmatch(r"[\[(](.*)[\])]", cell)
    if inner is None:
        return []
    members = inner[1].replace(",", " ").split()
    if any(_parse_number(member) is None for member in members):
        return []
    return members


def _find_layout(
    lines: Lines, budget: Budget, decimal: str, thousands: str
) -> tuple[_Layout, list[tuple[int, str]]]:
    """Find column names and delimiter; also return the lines read so far that are data."""
    source = budget.source
    comments, head = _first_lines(lines, source)
    facts: Mapping[str, object] = {}
    if comments:
        facts = _read_facts(comments[0], source)
    lines_above = 0
    if facts:  # Gough wrote the file: names and then data
        delimiter = _find_delimiter([line for _, line in head[:2]], source)
        above = [_split_cells(head[0][1], delimiter)]
        data = head[1:]
    else:
        above, data, delimiter = _table_below(head)
        lines_above = len(above)
    if not above:
        delimiter = _find_delimiter([line for _, line in head[:2]], source)
        first_rows = [_split_cells(line, delimiter) for _, line in head[:2]]
        width = len(first_rows[0])
        above = _comment_names(comments, delimiter, width)
        named = any(len(row) == width for row in above)
        data = head
        if not _begins_with_data(first_rows, named=named):
            above = first_rows[:1]
            data = head[1:]
    number, first_line = (data or head)[0]
    first_cells = _split_cells(first_line, delimiter)
    width = len(first_cells)
    budget.take_columns(width)
    names = [name or str(i + 1) for i, name in enumerate(_column_names(above, width))]
    first = first_cells[: len(names)]
    if not data:
        first = []
    dates = frozenset(i for i, cell in enumerate(first) if seconds_of_date(cell) is not None)
    text = {}  # columns whose first cell is no number with any decimal sign
    for i, cell in enumerate(first):
        if i not in dates and not _is_blank_or_number(cell):
            text[i] = f"'{cell}' in line {number}"
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
        above=lines_above,
    ), data


def _comment_names(comments: list[str], delimiter: str | None, width: int) -> list[list[str]]:
    """Return the cells of the comments that may name as many columns, else those of the last."""
    rows = [_split_cells(comment.lstrip("#% "), delimiter) for comment in comments]
    fitting = [row for row in rows if len(row) == width and _count_usable(row) < width]
    return fitting or rows[-1:]


def _begins_with_data(rows: list[list[str]], *, named: bool) -> bool:
    """Return True if the first row of a table holds data, not the names of the columns.

    It holds only numbers and dates, or, if a comment names the columns,
    it has numbers in the same columns as the next row (and text in the
    others, such as the names of frames). Without names, the text in the
    others must be that of the next row: names are not repeated.
    """
    numeric = []
    for row in rows:
        numeric.append([_is_usable(cell) for cell in row])
    if all(numeric[0]):
        return True
    if len(rows) < 2 or not any(numeric[0]) or numeric[0] != numeric[1]:
        return False
    if named:
        return True
    for first, second, is_number in zip(rows[0], rows[1], numeric[0]):
        if not is_number and first != second:
            return False
    return True


def _first_lines(lines: Lines, source: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the comments above a table, and the first lines that are none, with their numbers."""
    comments: list[str] = []
    head: list[tuple[int, str]] = []
    for number, line in lines:
        if "\0" in line:
            raise InvalidRecording(
                f"{source} is a binary file; expected a text table, or another file with its usual "
                "suffix",
                source=source,
            )
        if line.startswith(COMMENT_SIGNS) and not head:
            comments.append(line)
        elif line.strip() and not line.startswith(COMMENT_SIGNS):
            head.append((number, line))
            if len(head) == MAX_LINES_ABOVE:
                break
    if not head:
        raise InvalidRecording(
            f"{source} is empty; expected column names and samples",
            source=source,
        )
    return comments, head


def _table_below(
    head: list[tuple[int, str]],
) -> tuple[list[list[str]], list[tuple[int, str]], str | None]:
    """Find a table below other lines: their cells, the lines of data, and the delimiter.

    The first two lines of a plain table have the same width and the
    second holds mostly numbers: no other lines. Otherwise the data
    begin with the first line of at least two numbers, blanks or dates
    and nothing else, if the next lines are like it. Without such a line
    nothing is returned.
    """
    if len(head) <= 3:
        return [], [], None
    for delimiter in DELIMITERS:
        rows = [_split_cells(line, delimiter) for _, line in head]
        if 1 < len(rows[0]) == len(rows[1]) < 2 * _count_usable(rows[1]):
            break
        usable = [len(row) > 1 and any(row) and _count_usable(row) == len(row) for row in rows]
        start = usable.index(True) if True in usable else 0
        data_rows = rows[start : start + 3]
        width = len(data_rows[0])
        alike = all(len(row) == width == _count_usable(row) for row in data_rows)
        if start > 1 and len(data_rows) > 1 and alike:
            return rows[:start], head[start:], delimiter
    return [], [], None


def _count_usable(cells: list[str]) -> int:
    """Return how many cells are blank, a number or a date."""
    return sum(_is_usable(cell) for cell in cells)


def _is_usable(cell: str) -> bool:
    """Return True if a cell is blank, a number or a date."""
    return _is_blank_or_number(cell) or seconds_of_date(cell) is not None


def _column_names(above: list[list[str]], width: int) -> list[str]:
    """Return the names of the columns from the lines above them; numbers if no line has them.

    A line that begins with `Name` has them; otherwise the last one of
    the right width, with the units below it if there is a line of them.
    Cells that alternate with one word (`Name, x, Name, y` or `Time, x,
    Time, y`) mean that each column has its own time before it.
    """
    trimmed = []
    for row in filter(None, above):
        trimmed.append(row if row[-1] else row[:-1])
    fitting = [row for row in trimmed if len(row) in (width, width - 1)]
    if not fitting:
        return [str(i + 1) for i in range(width)]
    if len(fitting) > 1 and _is_unit_line(fitting[-1]):
        fitting[-1] = _names_with_units(fitting[-2], fitting[-1])
    keyed = [row for row in fitting if row[0].lower() in NAME_LINE_WORDS]
    names = keyed[0] if keyed else fitting[-1]
    if keyed:
        names = _names_with_keyed_units(names, fitting)
    if len(names) % 2 == 0 and len(set(names[::2])) == 1 and (keyed or len(names) > 2):
        with_times = []
        for name in names[1::2]:
            with_times += [f"{name.partition(' [')[0]} time", name]
        return with_times
    return ["Time", *names[1:]] if keyed else names


def _names_with_keyed_units(names: list[str], rows: list[list[str]]) -> list[str]:
    """Return names followed by the units of the line that begins with `Unit`, if there is one."""
    for row in rows:
        if row[0].lower() not in UNIT_LINE_WORDS or len(row) != len(names):
            continue
        units = []
        for cell in row:
            known = cell.lower() not in UNIT_LINE_WORDS and is_unit(cell.strip("[]()"))
            units.append(cell if known else "")
        return _names_with_units(names, units)
    return names


def _is_unit_line(cells: list[str]) -> bool:
    """Return True if most cells of a line that are not blank are units."""
    filled = [cell for cell in cells if cell]
    known = [cell for cell in filled if is_unit(cell.strip("[]()"))]
    return 2 * len(known) > len(filled) or not filled


def _names_with_units(names: list[str], units: list[str]) -> list[str]:
    """Return names followed by their units in brackets."""
    headers = []
    for name, unit in zip(names, units):
        headers.append(f"{name} [{unit.strip('[]()')}]" if unit else name)
    return headers


def _read_facts(comment: str, source: str) -> Mapping[str, object]:
    """Read the line `# gough-recording 1 {"payload": ...}`."""
    words = comment.lstrip("#% ").split(" ", 2)
    if words[0].strip() != RECORDING_MARK:
        return {}
    try:
        version = int(words[1])
        facts = parse_json(words[2])
    except (IndexError, ValueError, InvalidInput) as error:
        raise refused(
            source,
            f"the line '{comment.strip()[:60]}' is damaged; expected "
            f"'# {RECORDING_MARK} {RECORDING_FORMAT} {{...}}'",
        ) from error
    if version != RECORDING_FORMAT or not isinstance(facts, dict):
        raise refused(
            source,
            f"format version {version} of {RECORDING_MARK} is not known, expected "
            f"{RECORDING_FORMAT}",
        )
    return facts


def _find_delimiter(head: list[str], source: str) -> str | None:
    """Return the first delimiter that splits both lines into as many cells, two or more."""
    for delimiter in DELIMITERS:
        # as they are; without a delimiter behind the last column
        for ends in ("\r\n", "\r\n" + (delimiter or "")):
            widths = {len(_split_cells(line.rstrip(ends), delimiter)) for line in head}
            if len(widths) == 1 and min(widths) > 1:
                return delimiter
    if len(head) == 1:
        raise refused(source, "there is only one line, expected a table")
    one_column = all(len(_split_cells(line, None)) == 1 for line in head)
    if one_column and _is_blank_or_number(head[1].strip()):
        return None
    raise refused(
        source,
        "no delimiter (tab, semicolon, comma, bar, space) splits the first two lines into the same "
        "number of columns, nor is it one column of numbers; expected a table",
    )


def _split_cells(line: str, delimiter: str | None) -> list[str]:
    """Split a line into its cells."""
    if delimiter is None:
        return _WORD.findall(line)
    try:
        cells = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter))
    except csv.Error:  # a cell of more than 131,072 characters: the line has another delimiter
        cells = [line]
    return [cell.strip() for cell in cells]


def _parse_number(cell: str, decimal: str = ".", thousands: str = "") -> float | None:
    """Return a cell as a number; None if it is none, or written with other signs."""
    if thousands:
        group = re.escape(thousands)
        point = re.escape(decimal)
        if re.fullmatch(rf"[-+]?\d{{1,3}}({group}\d{{3}})+({point}\d*)?", cell):
            cell = cell.replace(thousands, "")
    if "_" in cell:  # Python reads 1_000, files mean something else
        return None
    if decimal != "." and "." in cell:
        return None
    try:
        return float(cell.replace(decimal, "."))
    except ValueError:
        return None


def _is_blank_or_number(cell: str) -> bool:
    """Return True if a cell is blank or a number with any signs."""
    return not cell or any(_parse_number(cell, *signs) is not None for signs in NUMBER_SIGNS)


def seconds_of_date(cell: str) -> float | None:
    """Return a date with time as seconds since 1970, None if the cell is none. [s]

    ISO, with points, the day first (31.12.2024 23:59:59.5), or with AM
    and PM, the month first (12/31/2024 11:59:59.5 PM); UTC if there is
    no zone; a time alone is on the first day. A double resolves 0.24 us
    there.
    """
    american = _AMERICAN_DATE.fullmatch(cell)
    if american:
        month, day, year, hour, minute, second, half = american.groups()
        hours = int(hour) % 12 + (12 if half in "Pp" else 0)
        cell = f"{year}-{month:>02}-{day:>02}T{hours:02}:{minute}:{second}"
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
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return stamp.timestamp()


def _complete_lines(
    lines: Iterator[tuple[int, str]], layout: _Layout, notices: list[Notice]
) -> Iterator[tuple[int, str]]:
    """Yield data lines of the right width; drop and report a last line that was cut short."""
    width = len(layout.names)
    source = layout.source
    for number, line in lines:
        if line.startswith(COMMENT_SIGNS) or not line.strip():
            continue
        if layout.delimiter is None:
            columns = len(line.split())
        elif '"' in line:
            columns = len(_split_cells(line, layout.delimiter))
        else:
            columns = line.count(layout.delimiter) + 1
        columns -= layout.trailing
        terminated = line.endswith("\n")
        if columns == width and (terminated or _is_readable(line, layout)):
            if not terminated:
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
        if any(later.strip() for _, later in lines):
            raise refused(
                source,
                f"line {number} has {columns} columns, expected {width}; repair or cut the file "
                "there",
                line=number,
            )
        notices.append(truncated_notice(source, number))


def truncated_notice(source: str, line: int) -> Notice:
    """Return the notice about a last line that was cut short."""
    return log_notice(
        "truncated",
        source,
        f"line {line}, the last, is cut short and was dropped",
        line=line,
    )


def _is_readable(line: str, layout: _Layout) -> bool:
    """Return True if all cells of a line can be read; the last line of a file may be cut."""
    cells = _split_cells(line, layout.delimiter)[: len(layout.names)]
    for i, cell in enumerate(cells):
        if i not in layout.text and layout.value(i, cell) is None:
            return False
    return True


def _parse_lines(lines: list[tuple[int, str]], layout: _Layout) -> tuple[FloatArray, BoolArray]:
    """Return the numbers of data lines and a mask of the blank cells, (t, k) each."""
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
        cells = _split_cells(line, layout.delimiter)
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
    """Return the error about a cell that is no number, with the decimal sign it may have."""
    hint = "; repair or cut the file there"
    for (decimal, thousands), what in SIGN_MEANINGS.items():
        if _parse_number(cell, decimal, thousands) is not None:
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
