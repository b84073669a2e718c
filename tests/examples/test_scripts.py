"""Every script in examples/ can be imported, and runs from beginning to end."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import upv_identify

EXAMPLES = Path(__file__).parents[2] / "examples"
# Scripts and the words that keep them short.
SCRIPTS: dict[str, list[str]] = {
    "h4_bounds": [],
    "orthoglide_control": [],
    "orthoglide_gains": ["--seeds", "2"],
    "p03_contractors": [],
    "palida_control": [],
    "palida_figures": [],
    "palida_identification": [],
    "palida_likelihood": ["--seeds", "1"],
    "serial_payload": ["--seeds", "1"],
    "stewart_any_load": ["--seeds", "1"],
    "stewart_hydraulic": [],
    "stewart_load": ["--seeds", "1"],
    "upv_identify": [],
}


def test_every_script_is_run_here() -> None:
    programs = []
    for path in sorted(EXAMPLES.glob("*.py")):
        if "__main__" in path.read_text(encoding="utf-8"):
            programs.append(path.stem)
    assert programs == sorted(SCRIPTS)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_can_be_imported(path: Path) -> None:
    assert runpy.run_path(str(path), run_name="example")["__doc__"]


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "upv_identify" and not upv_identify.DATA.exists():
        pytest.skip("the logs are not here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *SCRIPTS[name]])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
