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


def test_every_benchmark_is_listed() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert scripts == {*NAMES, "run"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "real_robots" and not machines.available("emps"):
        pytest.skip("the logs are not here")
    monkeypatch.setattr(sys, "argv", [name, "--small"])
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
