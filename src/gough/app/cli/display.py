"""Printing for all commands: text, tables, JSON and progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gough.app.studies.step import FailOn, has_failed

BEYOND_THRESHOLD = 3  # exit code: the work was done, and its result is beyond a threshold
PROGRESS_DELAY = 1.0  # time before a progress bar is shown [s]
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON for machines instead of text."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is already there.")]


def say(text: str) -> None:
    """Print plain text, in which nothing is read as markup."""
    out.print(escape(text), soft_wrap=True)


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


@contextmanager
def progress(label: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error once a task takes more than a second.

    Yields:
        A function to call with the fraction done.
    """
    started = monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=quiet,
    )
    task = bar.add_task(escape(label), total=1.0)

    def update(fraction: float) -> None:
        if monotonic() - started > PROGRESS_DELAY:
            bar.start()  # a second call does nothing
        bar.update(task, completed=min(max(fraction, 0.0), 1.0))

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
