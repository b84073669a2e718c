"""Notebooks hold what their pages show, and run."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from documentation import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))


def script(name: str) -> ModuleType:
    """Return a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


notebooks = script("notebooks")


def stored(name: str) -> list[dict[str, Any]]:
    content = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    return list(content["cells"])


def test_there_are_five() -> None:
    assert NAMES == ["diagnosis", "fleet", "own-robot", "payload-and-gains", "quick-start"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_cells_of_its_page(name: str) -> None:
    page = notebooks.cells((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    kept = [(cell["cell_type"], cell["source"]) for cell in stored(name)]
    assert kept == [(cell["cell_type"], cell["source"]) for cell in page], (
        f"run: python docs/notebooks.py {name}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_prints_as_much_as_it_shows(name: str, tmp_path: Path) -> None:
    done = notebooks.run(stored(name), tmp_path)
    for now, before in zip(done, stored(name)):
        kinds = [output["output_type"] for output in now.get("outputs", [])]
        assert kinds == [output["output_type"] for output in before.get("outputs", [])]


def test_a_notebook_with_a_mistake_fails(tmp_path: Path) -> None:
    cells = notebooks.cells("# Title\n\n```python\nunknown_name\n```\n")
    with pytest.raises(NameError, match="unknown_name"):
        notebooks.run(cells, tmp_path)
