"""The package works from a zip file, and from bytecode without its sources."""

from __future__ import annotations

import compileall
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import succeed
from gough.logs.recording import Recording
from gough.logs.writers import save_recording

PACKAGE = Path(__file__).parents[2] / "src" / "gough"
USE = """
import gough
assert "MARK" in gough.__file__, gough.__file__
robot = gough.load_robot("five_bar")
print(gough.check("five_bar").summary())
from gough.kernels.kernel import compiler
empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
assert empty not in compiler().key
"""

COMMANDS = """
import runpy, shlex, sys
for line in sys.argv[1:]:
    sys.argv = shlex.split(line)
    try:
        runpy.run_module("gough", run_name="__main__")
    except SystemExit as stop:
        assert not stop.code, line
"""


@pytest.fixture(scope="module", params=["zip", "bytecode"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what to put on the path: a zip of the package, or a folder with bytecode only."""
    folder = tmp_path_factory.mktemp("without")
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tree / "gough", ignore=ignored)
    if request.param == "zip":
        return Path(shutil.make_archive(str(folder / "x"), "zip", tree))
    compileall.compile_dir(tree, legacy=True, quiet=1)
    for source in [*tree.rglob("*.py"), *tree.rglob("*.pyi")]:
        source.unlink()
    return tree


def python(place: Path, *arguments: str) -> str:
    """Run Python with the package from a place and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=place.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_loads_and_checks_a_robot(place: Path) -> None:
    mark = "x.zip" if place.suffix == ".zip" else "tree"
    assert "degrees of freedom" in python(place, "-c", USE.replace("MARK", mark))


def commands(place: Path, *lines: str) -> str:
    """Run command lines one after the other in one process and return what they print."""
    return python(place, "-c", COMMANDS, *lines)


def test_the_command_line_shows_help_robots_and_options(place: Path) -> None:
    shown = commands(place, "gough --help", "gough robots", "gough check --help")
    assert "Identify a robot from its logs" in shown
    assert "five_bar" in shown
    assert "--tie-legs" in shown


@pytest.fixture(scope="module")
def result(five_bar_log: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an identification, made with the sources."""
    folder = tmp_path_factory.mktemp("result")
    save_recording(five_bar_log, folder / "log.csv")
    succeed("gough identify five_bar log.csv -o result", folder)
    return folder / "result"


@pytest.mark.slow
def test_a_report_and_controller_code_are_written(
    place: Path, result: Path, tmp_path: Path
) -> None:
    files = shlex.join([str(result), "-o", str(tmp_path / "report.html")])
    code = shlex.join([str(result), "--to", "c", "-o", str(tmp_path / "code")])
    commands(place, f"gough report {files}", f"gough export {code}")
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "code" / "controller.c").exists()
