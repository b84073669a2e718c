"""The command line of a user's own program knows what the program adds, and Gough's own does not."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import my_gough
import pytest
from test_extension import TEXT

from command_line import Outcome, run, run_program
from gough.logs.recording import Recording
from tests_support import registries_restored


@pytest.fixture(scope="module")
def folder(five_bar_log: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot with a closure and a term that Gough does not know, a log, and a result."""
    folder = tmp_path_factory.mktemp("own")
    content = tomllib.loads(TEXT.replace('kind = "point"', 'kind = "flat"'))
    (folder / "robot.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "robot.toml").write_text(TEXT, encoding="utf-8")
    my_gough.write_counter(five_bar_log, folder / "run.cnt")
    words = ["identify", "robot.json", "run.cnt", "--estimator", "feasible", "-o", "result"]
    done = subprocess.run(
        [sys.executable, my_gough.__file__, *words], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def own(folder: Path, words: str) -> Outcome:
    """Run the user's program in this process."""
    with registries_restored():
        return run_program(Path(my_gough.__file__), words.split(), folder)


def test_terms_closures_formats_and_exports_work_in_commands(folder: Path) -> None:
    assert own(folder, "export result --to names").code == 0
    assert "left.motor.fc" in (folder / "result" / "names.txt").read_text().split()
    refused = own(folder, "export result --to mjcf")
    assert refused.code == 1
    assert "cannot express the term 'fc'" in refused.out + refused.err


def test_the_estimator_is_chosen_by_its_name(folder: Path) -> None:
    done = own(folder, "identify robot.json run.cnt --estimator halved")
    assert done.code == 0, done.err
    assert "every other sample: 17 parameters" in done.out


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("identify five_bar run.cnt --estimator halved", 2, "'halved' is not one of"),
        ("check robot.json", 1, "not from .json"),
        ("check robot.toml", 1, "unknown name 'fc'"),
    ],
)
def test_goughs_own_command_says_what_it_does_not_know(
    folder: Path, line: str, code: int, said: str
) -> None:
    done = run(f"gough {line}", folder)
    assert done.code == code
    words = (done.out + done.err).replace("│", " ").split()
    assert said in " ".join(words)
