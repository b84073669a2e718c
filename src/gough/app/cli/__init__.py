"""The command line: the only place that prints, colours and exits."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from inspect import cleandoc, getdoc
from types import FrameType
from typing import Annotated

import typer
from rich.markup import escape

from gough import __version__
from gough.app.cli import other_commands
from gough.app.cli.display import err
from gough.app.studies.verbs import VERBS
from gough.core.errors import GoughError

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it: 128 + SIGINT
COMMANDS = ("robots", "schema", "view", *VERBS, "run", "demo")


def build(wanted: str | None) -> typer.Typer:
    """Return the application; of verbs that are not wanted only the help is there."""
    app = typer.Typer(
        name="gough",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # Rich's own markup would swallow units such as [s]
        help="Find the dynamic model of a parallel robot from actuated positions and motor "
        "currents.",
    )
    app.callback()(_root)
    for name in COMMANDS:
        function: Callable[..., None] = getattr(other_commands, name, lambda: None)
        if name in VERBS and name == wanted:
            from gough.app.cli.commands import command  # only now, with what the verb uses

            function = command(name)
        app.command(name, help=cleandoc(VERBS[name].help) if name in VERBS else getdoc(function))(
            function
        )
    return app


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gough {__version__}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Say which version this is."
        ),
    ] = False,
) -> None:
    """Find the dynamic model of a parallel robot from actuated positions and motor currents."""


def main() -> None:
    """Run the command line: exit 0 when done, 1 with one clear error on stderr, 2 on wrong
    usage.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        # a shell that asks for completion hands over the line so far in its environment
        line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
        build(
            next(
                (word for word in line.split()[1:] or sys.argv[1:] if not word.startswith("-")),
                None,
            )
        )()
    except GoughError as error:
        _fail(str(error))
    except OSError as error:
        _fail(
            f"{error.strerror or error}"
            + ("" if error.filename is None else f": '{error.filename}'")
        )
    except SystemExit as stop:
        if stop.code != INTERRUPTED:  # what Typer makes of Ctrl-C
            raise
        _fail("stopped; files already complete were kept, nothing is half-written", INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Make a termination request behave like Ctrl-C, so that half-written files are removed."""
    raise KeyboardInterrupt


def _fail(message: str, code: int = 1) -> None:
    err.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    sys.exit(code)
