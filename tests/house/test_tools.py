"""`tools.py`: one home for the commands, and each installs only what it needs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("tools", ROOT / "tools.py")
assert spec is not None
assert spec.loader is not None
tools = importlib.util.module_from_spec(spec)
sys.modules["tools"] = tools
spec.loader.exec_module(tools)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class Recorder:
    """Stands for `subprocess.run`: makes the interpreter of an environment, remembers the rest."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, []

    def __call__(self, command: list[str], **_: object) -> SimpleNamespace:
        self.calls.append(command[1:])
        if "venv" in command:
            python = tools.environment_python(self.root)
            python.parent.mkdir(parents=True)
            python.touch()
        return SimpleNamespace(returncode=0)

    def installed(self) -> list[str]:
        return [call[-1] for call in self.calls if "pip" in call]


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    (tmp_path / "pyproject.toml").write_text("first")
    made = Recorder(tmp_path)
    monkeypatch.setattr(subprocess, "run", made)
    return made


def test_make_and_the_script_know_the_same_commands() -> None:
    phony = re.search(
        r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert phony is not None
    assert set(phony[1].split()) == {*tools.COMMANDS, "clean"}


def test_every_command_installs_extras_that_exist_and_runs_modules_they_bring() -> None:
    brings = {"pytest": "test", "ruff": "lint", "mypy": "lint", "mkdocs": "docs"}
    for command in tools.COMMANDS.values():
        assert set(command.extras) <= set(PROJECT["optional-dependencies"])
        for module, *_ in command.steps:
            assert brings.get(module, "") in (*command.extras, "")


def test_the_demo_installs_no_tools(recorder: Recorder) -> None:
    assert tools.run(recorder.root, "demo", []) == 0
    assert recorder.installed() == ["."]
    names = {re.split(r"[<>=!;\[ ]", entry)[0] for entry in PROJECT["dependencies"]}
    assert not names & {
        "pytest",
        "mypy",
        "ruff",
        "mkdocs",
        "pin",
        "mujoco",
        "statsmodels",
        "cvxpy",
        "pyarrow",
    }


def test_nothing_is_installed_twice_unless_the_project_asks_for_more(recorder: Recorder) -> None:
    for _ in range(2):
        tools.run(recorder.root, "demo", [])
        tools.run(recorder.root, "quick", [])
    assert recorder.installed() == [".", ".[test]"]
    tools.run(recorder.root, "test", [])
    assert recorder.installed() == [".", ".[test]", ".[lint,test]"]
    (recorder.root / "pyproject.toml").write_text("second")
    tools.run(recorder.root, "demo", [])
    assert recorder.installed()[-1] == "."
    assert sum("venv" in call for call in recorder.calls) == 1


def test_more_arguments_go_to_the_last_step(recorder: Recorder) -> None:
    tools.run(recorder.root, "test", ["tests/kernels"])
    assert [call[1] for call in recorder.calls[-3:]] == ["ruff", "mypy", "pytest"]
    assert [call[-1] == "tests/kernels" for call in recorder.calls[-3:]] == [False, False, True]


def test_the_first_failure_ends_a_command_with_its_code(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **options: object) -> SimpleNamespace:
        recorder(command, **options)
        return SimpleNamespace(returncode=3 if "mypy" in command else 0)

    monkeypatch.setattr(subprocess, "run", fail)
    assert tools.run(recorder.root, "test", []) == 3
    assert not any("pytest" in call for call in recorder.calls)


def test_a_wrong_command_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert tools.main(["tset"]) == 2
    assert "quick" in capsys.readouterr().out
