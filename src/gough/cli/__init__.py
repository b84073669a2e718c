"""The command line: the only place that prints, colours and exits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from gough.cli.common import err, stop_on_terminate
from gough.cli.diagnosis import diagnose_verb
from gough.cli.experiments import design_verb, simulate_verb
from gough.cli.results import bounds_verb, export_verb, identify_verb, payload_verb, report_verb, validate_verb
from gough.cli.robots import check_verb, robots_verb
from gough.cli.studies import demo_verb, run_verb
from gough.core.errors import GoughError

INTERRUPTED = 130

app = typer.Typer(
    name="gough", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # Rich's own markup would swallow units such as [s]
    help="Find the dynamic model of a parallel robot from actuated positions and motor currents.")
VERBS: dict[str, Callable[..., None]] = {
    "robots": robots_verb, "check": check_verb, "design": design_verb, "simulate": simulate_verb,
    "identify": identify_verb, "diagnose": diagnose_verb, "payload": payload_verb, "bounds": bounds_verb,
    "validate": validate_verb,
    "report": report_verb, "export": export_verb, "run": run_verb, "demo": demo_verb,
}
for name, verb in VERBS.items():
    app.command(name)(verb)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gough {version('gough')}")
        raise typer.Exit


@app.callback()
def _root(show_version: Annotated[bool, typer.Option(
        "--version", callback=_tell_version, is_eager=True, help="Say which version this is.")] = False) -> None:
    """Find the dynamic model of a parallel robot from actuated positions and motor currents."""


def main() -> None:
    """Run the command line: exit 0 when done, 1 with one clear error on stderr, 2 on wrong usage."""
    stop_on_terminate()
    try:
        app()
    except GoughError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}" + ("" if error.filename is None else f": '{error.filename}'"))
    except SystemExit as stop:
        if stop.code != INTERRUPTED:  # what Typer makes of Ctrl-C
            raise
        _fail("stopped; files already complete were kept, nothing is half-written", INTERRUPTED)


def _fail(message: str, code: int = 1) -> None:
    err.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    sys.exit(code)
