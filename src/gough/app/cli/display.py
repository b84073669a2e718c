"""What all commands share: consoles, tables, JSON, progress."""

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

FAILED = 3  # exit code: the job was done, and its result is beyond a threshold
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is already there.")]


def say(text: str) -> None:
    """Print plain text; nothing in it is taken as markup."""
    out.print(escape(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output, and nothing else."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=lambda array: array.tolist()))


def table(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table; columns of numbers are flush right."""
    grid = Table(header_style="bold", box=None, pad_edge=False)
    for k, name in enumerate(columns):
        numbers = all(row[k][:1] in "+-.0123456789" for row in rows if row[k])
        grid.add_column(escape(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*[escape(cell) for cell in row])
    out.print(grid)


def failed(result: Any) -> bool:
    """Tell whether a result is beyond thresholds that were asked for."""
    return not getattr(result, "passed", True)


@contextmanager
def progress(label: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error once a task takes more than a second; gives a function of the
    fraction done.
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
        if monotonic() - started > 1.0:
            bar.start()  # a second time does nothing
        bar.update(task, completed=min(max(fraction, 0.0), 1.0))

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
