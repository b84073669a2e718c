"""What a terminal shows: lines that fit it, colours, progress; and nothing of it in a pipe."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from gough.app.cli import display

NOTICE = (
    "  warning  held-out error: the model predicts the held-out log to 12 % of the torque, which is "
    "more than the 5 % expected; record a log with other motions"
)
ROW = (
    "left.motor.fs             0.9009       0.0035     0.39 %   N m      0.9000     as in the file"
)
HEADLINE = "five_bar: WARNING - not validated (well conditioned; no held-out log was given)"


def printed(text: str, monkeypatch: pytest.MonkeyPatch, width: int, terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        highlight=False,
    )
    monkeypatch.setattr(display, "out", console)
    display.say(text)
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_sentences_are_wrapped_at_words_below_their_beginning(width: int) -> None:
    lines = display.wrapped(NOTICE, width)
    assert len(lines) > 1
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == NOTICE.strip()
    assert all(line.startswith(" " * 11) for line in lines[1:])


def test_rows_of_tables_and_what_fits_stay_whole() -> None:
    assert display.wrapped(ROW, 50) == [ROW]
    assert display.wrapped(NOTICE, 400) == [NOTICE]
    assert display.wrapped("", 40) == [""]


def test_a_word_that_is_longer_than_the_terminal_stays_whole() -> None:
    path = "/a/very/long/path/" + "x" * 60
    assert any(path in line for line in display.wrapped(f"wrote {path} and more", 30))


def test_levels_are_coloured_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (NOTICE, HEADLINE):
        assert "\x1b[33m" in printed(text, monkeypatch, 200, True)
        assert printed(text, monkeypatch, 40, False) == text + "\n"


def test_names_in_brackets_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed("offset [rad] of [red]x[/]", monkeypatch, 80, True) == (
        "offset [rad] of [red]x[/]\n"
    )


@pytest.mark.parametrize(
    ("elapsed", "fraction", "words"),
    [
        (10.0, 0.2, "about 40 s left"),
        (10.0, 1.0, "about 0 s left"),
        (60.0, 0.1, "about 9 min left"),
        (3600.0, 0.25, "about 3.0 h left"),
    ],
)
def test_the_rest_follows_from_the_pace_so_far(elapsed: float, fraction: float, words: str) -> None:
    assert display.time_left_text(elapsed, fraction) == words


SCRIPT = """
import time
from gough.app.cli import display
display.PROGRESS_DELAY = 0.02
with display.progress("identify five_bar") as update:
    if {reports}:
        update(0.5)
    time.sleep(0.5)
    display.say("an answer")
"""


def on_terminal(script: str, cwd: Path) -> tuple[str, str]:
    """Run a script with a terminal as standard error; returns standard output and error."""
    main, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=end,
    )
    os.close(end)
    shown = b""
    while True:
        try:
            block = os.read(main, 1 << 16)
        except OSError:  # the terminal has no writer left
            break
        if not block:
            break
        shown += block
    os.close(main)
    output, _ = process.communicate()
    assert process.returncode == 0, shown
    return output.decode(), shown.decode()


def test_a_bar_with_an_estimate_of_the_rest_appears_and_leaves_a_pipe_alone(tmp_path: Path) -> None:
    output, shown = on_terminal(SCRIPT.format(reports=True), tmp_path)
    assert output == "an answer\n"
    assert "identify five_bar" in shown
    assert " 50%" in shown
    assert "s left" in shown


def test_a_task_that_reports_nothing_has_a_bar_too(tmp_path: Path) -> None:
    _, shown = on_terminal(SCRIPT.format(reports=False), tmp_path)
    assert "identify five_bar" in shown
    assert "left" not in shown


def test_there_is_no_bar_where_standard_error_is_a_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(reports=True)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("an answer\n", "")
