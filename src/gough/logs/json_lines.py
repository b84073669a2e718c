"""Reader of JSON lines: one JSON value a line, each a sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.files import read_bytes, reading, text_encoding
from gough.logs.array_tables import log_budget
from gough.logs.message_columns import MessageColumns, message_numbers
from gough.logs.messages import refused
from gough.logs.tables import Table, truncated_notice


def read_json_lines(path: Path) -> Table:
    """Read the numbers of JSON lines; `{"arm": {"q": [1, 2]}}` has `arm.q[1]` and `arm.q[2]`.

    A field that a line lacks, or that is null, is blank there. Dates
    become seconds.
    """
    budget = log_budget(path)
    content = read_bytes(path, budget.max_bytes, InvalidRecording)
    columns = MessageColumns(budget)
    notices = []
    with reading(path.name, "JSON lines", InvalidRecording):
        lines = content.decode(text_encoding(content[: 2**16])).split("\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            budget.take_bytes(len(line))
            try:
                sample = parse_json(line)
            except InvalidInput as error:
                if number == len(lines) > 1:  # without a line end: the program was stopped
                    notices.append(truncated_notice(path.name, number))
                    break
                raise refused(
                    path.name,
                    f"line {number} is not JSON ({error}); expected one value a line: repair or "
                    "cut the file there",
                    line=number,
                ) from error
            columns.add("", dict(message_numbers(sample)))
    return replace(columns.table(), notices=tuple(notices))
