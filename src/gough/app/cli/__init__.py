"""The command line: the only package that prints, colours and exits."""

from __future__ import annotations

import io
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

INTERRUPTED = 130  # exit code after Ctrl-C, as in shells: 128 + SIGINT
COMMANDS = ("robots", "schema", "view", *VERBS, "run", "demo")


def build(called: str | None) -> typer.Typer:
    """Return the application; verbs that are not called have help, but no options.

    The options of a verb are declared in the packages it uses, which
    take long to import.
    """
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
        if name in VERBS:
            app.command(name, help=cleandoc(VERBS[name].help))(_function_of(name, called))
        else:
            function = getattr(other_commands, name)
            app.command(name, help=getdoc(function))(function)
    return app


def _function_of(verb: str, called: str | None) -> Callable[..., None]:
    """Return the function of a verb with its options; an empty one if it is not called."""
    if verb != called:
        return lambda: None
    from gough.app.cli.verb_commands import command  # only now, with what the verb uses

    return command(verb)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"gough {__version__}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Find the dynamic model of a parallel robot from actuated positions and motor currents."""


def main() -> None:
    """Run the command line.

    The exit code is 0 when done, 1 after one error message on stderr, 2
    on wrong usage, 3 if the result is beyond a threshold, 130 after
    Ctrl-C.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        build(_called_command())()
    except GoughError as error:
        _fail(str(error))
    except OSError as error:
        message = str(error.strerror or error)
        if error.filename is not None:
            message += f": '{error.filename}'"
        _fail(message)
    except SystemExit as stop:
        if stop.code != INTERRUPTED:  # the exit code that Typer gives to Ctrl-C
            raise
        _fail(
            "stopped; files already complete were kept, nothing is half-written",
            INTERRUPTED,
        )


def _called_command() -> str | None:
    """Return the first word of the command line that is no option."""
    # a shell that asks for completion hands over the line so far in its
    # environment
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    for word in line.split()[1:] or sys.argv[1:]:
        if not word.startswith("-"):
            return word
    return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Make a termination request behave like Ctrl-C, so that half-written files are removed."""
    raise KeyboardInterrupt


def _fail(message: str, code: int = 1) -> None:
    err.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    sys.exit(code)
