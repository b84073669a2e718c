"""Run the command line in the test process, exactly as `python -m gough` does, without starting
Python each time.
"""

from __future__ import annotations

import io
import json
import runpy
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Outcome:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


def run(line: str, folder: Path) -> Outcome:
    """Run one line like `gough check five_bar  # a comment` in a folder."""
    words = shlex.split(line, comments=True)
    assert words[0] == "gough", line
    return run_words(words, folder)


def run_words(words: list[str], folder: Path) -> Outcome:
    """Run a command, given as its words, in a folder."""
    return _run(lambda: runpy.run_module("gough", run_name="__main__"), words, folder)


def run_program(program: Path, words: list[str], folder: Path) -> Outcome:
    """Run a program that has Gough's command line with some words in a folder."""
    start = partial(runpy.run_path, str(program), run_name="__main__")
    return _run(start, [program.name, *words], folder)


def _run(start: Callable[[], object], words: list[str], folder: Path) -> Outcome:
    """Call what runs a command line and exits, with words as its arguments."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with (
            chdir(folder),
            patch.object(sys, "argv", words),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            start()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Outcome(code, out.getvalue(), err.getvalue())


def succeed(line: str, folder: Path) -> str:
    """Run a line that must exit with 0; returns what it printed."""
    outcome = run(line, folder)
    assert outcome.code == 0, f"{line}\n{outcome.out}\n{outcome.err}"
    return outcome.out


def gough(folder: Path, *words: str, code: int = 0) -> Outcome:
    """Run a command that must exit with a code."""
    outcome = run_words(["gough", *words], folder)
    assert outcome.code == code, f"gough {' '.join(words)}\n{outcome.out}\n{outcome.err}"
    assert "Traceback" not in outcome.err
    return outcome


def answer(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command with `--json` and return what it answers."""
    facts: dict[str, Any] = json.loads(gough(folder, *words, "--json").out)
    return facts
