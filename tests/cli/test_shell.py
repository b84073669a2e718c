"""The command at a shell: completion, version, a search that is stopped, a log that nobody has
described.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gough
from command_line import succeed
from documentation import check_keys


def completed(line: str, folder: Path) -> list[str]:
    words = line.split(" ")
    asked = {
        "_GOUGH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "import sys; sys.argv = ['gough']; from gough.app.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_robots_options_and_words(tmp_path: Path) -> None:
    (tmp_path / "five_mine.toml").write_text("")
    assert completed("gough di", tmp_path) == ["diagnose"]
    assert completed("gough check five", tmp_path) == ["five_bar", "five_mine.toml"]
    assert completed("gough design five_bar --res", tmp_path) == ["--resume"]
    assert completed("gough identify five_bar --estimator gain", tmp_path) == ["gain_ml"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("default_interrupt")
def test_ctrl_c_during_a_design_keeps_the_best_so_far(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from gough.app.cli import main
from gough.excitation import solver
update, calls = solver._bfgs, []
def stopping(*words):
    calls.append(1)
    if len(calls) == 9:
        os.kill(os.getpid(), signal.SIGINT)
    return update(*words)
solver._bfgs = stopping
sys.argv = ["gough", "design", "five_bar", "--frequency", "0.5", "-o", "t.json"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "stopped before its end" in done.stdout
    assert gough.load_trajectory(tmp_path / "t.json", robot="five_bar").period == 2.0


def test_log_says_what_is_in_a_file_and_writes_a_description(tmp_path: Path) -> None:
    t = np.arange(300) / 200
    rows = np.column_stack([t, np.sin(t), np.cos(t), np.cos(t), np.sin(2 * t)])
    np.savetxt(tmp_path / "run.csv", rows, delimiter=",", header="t,qA,qB,tauA,tauB", comments="")
    line = "gough log run.csv --robot five_bar"
    answer = succeed(f"{line} --json", tmp_path)
    check_keys(answer, "study", "JSON of gough log")
    assert json.loads(answer)["joints"] == ["left.motor", "right.motor"]
    told = succeed(f"{line} -o run.toml", tmp_path)
    assert "are guesses" in told
    assert told.endswith("wrote run.toml\n")
    log = gough.read_recording(tmp_path / "run.csv", tmp_path / "run.toml")
    assert np.allclose(log.position, rows[:, 1:3])
