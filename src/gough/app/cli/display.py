"""Printing for all commands: text, tables, JSON and progress."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from gough.app.studies.step import FailOn, has_failed

# exit code: the work was done, and its result is beyond a threshold
BEYOND_THRESHOLD = 3
PROGRESS_DELAY = 1.0  # time before a progress bar is shown [s]
MIN_FRACTION_TIMED = 0.02  # done before the rest is estimated
NARROW_TERMINAL = 70  # columns below which progress has no bar
# wide gaps between words from which on a line belongs to a table
TABLE_GAPS = 2
# Words of levels and their colours on a terminal.
LEVEL_COLOURS = {
    r"^\S+: OK\b": "green",
    r"^\S+: WARNING\b|^  warning\b": "yellow",
    r"^\S+: ERROR\b|^  error\b": "red",
}
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON for machines instead of text."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is already there.")]


def say(text: str) -> None:
    """Print plain text, in which nothing is read as markup.

    On a terminal, levels are coloured and sentences wrapped at words;
    in a pipe or a file the text stays as it is.
    """
    for line in text.split("\n"):
        for piece in wrapped(line, out.width) if out.is_terminal else [line]:
            styled = Text(piece)
            for pattern, colour in LEVEL_COLOURS.items():
                styled.highlight_regex(pattern, colour)
            out.print(styled, soft_wrap=True)


def wrapped(line: str, width: int) -> list[str]:
    """Return a line broken at words to fit a width, continued with an indent.

    Rows of tables stay whole: broken, their columns could not be read.
    """
    body = line.strip()
    gaps = re.findall(r"\S {2,}(?=\S)", body)
    if len(line) <= width or len(gaps) >= TABLE_GAPS:
        return [line]
    margin = len(line) - len(line.lstrip())
    if gaps:  # a notice: its text is continued below its text
        margin = line.index(gaps[0]) + len(gaps[0])
    else:
        margin += 2
    margin = min(margin, width // 3)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * margin,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )


def print_json(content: Any) -> None:
    """Print JSON on standard output, and nothing else."""
    text = json.dumps(content, indent=2, allow_nan=False, default=lambda array: array.tolist())
    typer.echo(text)


def table(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table; columns of numbers are flush right."""
    grid = Table(header_style="bold", box=None, pad_edge=False)
    for k, name in enumerate(columns):
        is_numeric = all(row[k][:1] in "+-.0123456789" for row in rows if row[k])
        justify: Any = "right" if is_numeric else "left"
        grid.add_column(escape(name), justify=justify, overflow="fold")
    for row in rows:
        grid.add_row(*[escape(cell) for cell in row])
    out.print(grid)


def exit_if_failed(result: Any, fail_on: FailOn | None) -> None:
    """Exit with code 3 if a result is beyond thresholds or has a level to fail on."""
    if not has_failed(result, fail_on):
        return
    if getattr(result, "passed", True):
        err.print(f"failed: the level is {result.level}, --fail-on {fail_on}", soft_wrap=True)
    raise typer.Exit(BEYOND_THRESHOLD)


class TimeLeft(ProgressColumn):
    """The time a task will still take, at its pace so far."""

    def render(self, task: Task) -> Text:
        """Return `about 40 s left`; nothing before enough is done to tell."""
        elapsed = task.elapsed
        if task.total is None or elapsed is None or task.completed < MIN_FRACTION_TIMED:
            return Text("")
        return Text(time_left_text(elapsed, task.completed))


def time_left_text(elapsed: float, fraction: float) -> str:
    """Return how long a task will still take, in words.

    Args:
        elapsed: Time so far. [s]
        fraction: What is done, above 0 and up to 1.
    """
    left = elapsed * (1 - fraction) / fraction
    if left < 90:
        return f"about {left:.0f} s left"
    if left < 90 * 60:
        return f"about {left / 60:.0f} min left"
    return f"about {left / 3600:.1f} h left"


@contextmanager
def progress(label: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error once a task takes more than a second.

    The bar only moves to and fro while the task has not reported how
    much is done. There is none where standard error is no terminal.

    Yields:
        A function to call with the fraction done.
    """
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=min(40, max(10, err.width - len(label) - 40))),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeLeft(),
    ]
    if err.width < NARROW_TERMINAL:
        columns = [columns[0], *columns[2:]]
    is_shown = err.is_terminal and not quiet
    bar = Progress(
        *columns,
        console=err,
        transient=True,
        disable=not is_shown,
        redirect_stdout=out.is_terminal,  # otherwise what belongs in a pipe would go to stderr
    )
    task = bar.add_task(escape(label), total=None)

    def update(fraction: float) -> None:
        bar.update(task, total=1.0, completed=min(max(fraction, 0.0), 1.0))

    start = Timer(PROGRESS_DELAY, bar.start)
    start.daemon = True
    if is_shown:
        start.start()
    try:
        yield update
    finally:
        start.cancel()
        if start.is_alive():
            start.join()
        bar.stop()
