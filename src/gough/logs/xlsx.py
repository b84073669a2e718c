"""Reader of workbooks of Excel: each sheet is read as a text table is."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import Budget, check_archive, reading
from gough.core.notices import Notice
from gough.logs.array_tables import log_budget
from gough.logs.description import Description
from gough.logs.messages import refused
from gough.logs.tables import Table, joined, line_blocks

SHEET_BLOCK = 65536  # rows that are parsed at a time
EXCEL_ERRORS = ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A")


def read_xlsx(path: Path, description: Description | None = None) -> Table:
    """Read the tables of a workbook; columns of several sheets are `sheet/column`.

    Names, lines above the table, units below the names and dates are
    found as in text. Formulas have the results that Excel stored.
    Sheets without a table are listed as not read.
    """
    openpyxl = import_optional("openpyxl", "xlsx")
    budget = log_budget(path)
    skip = description.skip if description is not None else 0
    tables: dict[str, Table] = {}
    unread: dict[str, str] = {}
    with reading(path.name, "an Excel workbook (.xlsx)", InvalidRecording), path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            check_archive(archive, budget)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        for sheet in book.worksheets:
            lines = _lines(sheet.iter_rows(values_only=True), budget)
            try:
                tables[sheet.title] = _sheet_table(lines[skip:], budget)
            except InvalidRecording as error:
                unread[sheet.title] = f"no table: {error}"
    if not tables:
        reasons = "; ".join(f"sheet '{name}' has {what}" for name, what in unread.items())
        raise refused(path.name, f"no sheet of this workbook holds a table: {reasons}")
    if len(tables) == 1:
        (table,) = tables.values()
        return replace(table, unread={**table.unread, **unread})
    return _of_sheets(path.name, tables, unread)


def _sheet_table(lines: list[tuple[int, str]], budget: Budget) -> Table:
    """Return the table that the rows of a sheet hold."""
    notices: list[Notice] = []
    return joined(line_blocks(iter(lines), budget, SHEET_BLOCK, notices))


def _lines(rows: Iterable[tuple[Any, ...]], budget: Budget) -> list[tuple[int, str]]:
    """Return rows as lines of text with tabs, without columns and last rows that are blank."""
    cells = []
    for row in rows:
        texts = [_text(cell) for cell in row]
        while texts and not texts[-1]:
            texts.pop()
        budget.take_bytes(sum(map(len, texts)) + 8 * len(texts))
        cells.append(texts)
    while cells and not cells[-1]:
        cells.pop()
    used: set[int] = set()
    for texts in cells:
        used.update(i for i, text in enumerate(texts) if text)
    budget.take_columns(len(used))
    columns = sorted(used)
    last_column = max(columns, default=-1)
    lines = []
    for number, texts in enumerate(cells, 1):
        filled = [*texts, *[""] * (last_column + 1 - len(texts))]
        line = [filled[i] for i in columns]
        budget.take_bytes(len(line))
        if texts:
            lines.append((number, "\t".join(line) + "\n"))
    return lines


def _text(cell: Any) -> str:
    """Return a cell as text that reads back as the same number or date."""
    if cell is None:
        return ""
    if isinstance(cell, bool | int | float):
        return repr(float(cell))
    if isinstance(cell, timedelta):
        return repr(cell.total_seconds())
    if isinstance(cell, datetime | time):
        return cell.isoformat(timespec="microseconds")
    if isinstance(cell, date):
        return f"{cell.isoformat()}T00:00:00"
    text = " ".join(str(cell).split())
    return "nan" if text in EXCEL_ERRORS else text.replace('"', "'")


def _of_sheets(source: str, tables: dict[str, Table], unread: dict[str, str]) -> Table:
    """Return the columns of several sheets as one table."""
    merged = Table(source=source, columns={}, unread=unread)
    for sheet, table in tables.items():
        names = {name: f"{sheet}/{name}" for name in (*table.columns, *table.unread)}
        merged = replace(
            merged,
            columns={**merged.columns, **{names[k]: v for k, v in table.columns.items()}},
            unread={**merged.unread, **{names[k]: v for k, v in table.unread.items()}},
            blank={**merged.blank, **{names[k]: v for k, v in table.blank.items()}},
            repeated=merged.repeated | {f"{sheet}/{name}" for name in table.repeated},
            seconds=merged.seconds | {names[name] for name in table.seconds},
            notices=(*merged.notices, *table.notices),
        )
    return merged
