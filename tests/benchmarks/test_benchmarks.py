"""Every benchmark runs from beginning to end, at a small size."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import machines
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
RUN = runpy.run_path(str(FOLDER / "run.py"))
NAMES = (*RUN["ALL"], *RUN["BY_NAME_ONLY"])
LONG = (
    "coverage",
    "fleets",
    "identify",
    "mutations",
    "scale",
    "streaming",
    "verdict",
)  # also at their small size
# Words that make a benchmark small, where `--small` does not.
SMALL = {"verdict": ["--clean", "1", "--robots", "five_bar", "--seed", "1"]}


def test_every_benchmark_is_listed() -> None:
    scripts = set()
    for path in FOLDER.glob("*.py"):
        if "__main__" in path.read_text(encoding="utf-8"):
            scripts.add(path.stem)
    assert scripts == {*NAMES, "run"}


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    assert runpy.run_path(str(FOLDER / f"{name}.py"), run_name="benchmark")["__doc__"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in NAMES],
)
def test_a_benchmark_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "real_robots" and not machines.available("emps"):
        pytest.skip("the logs are not here")
    monkeypatch.setattr(sys, "argv", [name, *SMALL.get(name, ["--small"])])
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
