"""`benchmarks/house.py` counts what it says it counts."""

from __future__ import annotations

import ast
import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

from gough.core.units import dimension_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = '''
"""A payload.disc in a docstring does not count."""
NARROW = 0.3  # tuned on a five-bar
BARE = 7

WHOLE = 1


class DesignSettings:
    harmonics: int = option(5, "Harmonics.")
    seed: int = 0


def design(model, *, harmonics=5, progress=None):
    """Short.

    Though its docstring is long.
    """
    return name.split("."), name.endswith(".gain"), name.split(","), name.startswith("payload.")


def _helper(a, b, c, d, e, f, g, h, i):
    return a
'''


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", BENCHMARKS / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(house: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, ast.Module]:
    path = tmp_path_factory.mktemp("source") / "small.py"
    path.write_text(SMALL, encoding="utf-8")
    return {path: ast.parse(SMALL)}


def test_sizes_are_counted(
    house: ModuleType, files: dict[Path, ast.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "SOURCE", next(iter(files)).parent)
    found = house.sizes(files)
    assert (found["classes"], found["functions"], found["private"], found["wide"]) == (1, 2, 50, 1)
    lines = [line for line in SMALL.splitlines() if line]
    assert math.isclose(found["mean_line"], sum(map(len, lines)) / len(lines))


def test_a_docstring_does_not_make_a_function_long(
    house: ModuleType, files: dict[Path, ast.Module]
) -> None:
    functions = [
        node for node in ast.walk(next(iter(files.values()))) if isinstance(node, ast.FunctionDef)
    ]
    assert [house.length(node) for node in functions] == [2, 2]


def test_declarations_of_an_option_are_counted(
    house: ModuleType, files: dict[Path, ast.Module]
) -> None:
    assert house.options(files) == {
        "declared": 2,
        "declared_most": 2,
    }  # `harmonics`, as parameter and as field


def test_cut_names_are_counted(house: ModuleType, files: dict[Path, ast.Module]) -> None:
    assert house.cuts(files) == {"cuts": 2, "payload": 1}


def test_tuned_constants_are_counted(house: ModuleType, files: dict[Path, ast.Module]) -> None:
    assert house.constants(files) == {"numbers": 1, "constants": 2, "unexplained": 1}


def test_what_no_verb_reaches_is_found(
    house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    (tmp_path / "cli").mkdir()
    texts = {
        "cli/main.py": "from a import run\n\ndef main():\n    run().speak()\n",
        "a.py": "def run():\n    return Thing()\n\n\ndef idle():\n    return 1\n",
        "b.py": "class Thing:\n    def speak(self): ...\n\n    def sleep(self):\n        idle()\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = {tmp_path / name: ast.parse(text) for name, text in texts.items()}
    assert house.unreached(files) == [("a.py: idle", 2), ("b.py: Thing.sleep", 2)]


def test_calls_are_counted_once_and_only_of_the_source(house: ModuleType) -> None:
    found, before = house.calls(
        lambda: [dimension_of("mm"), dimension_of("deg"), math.sqrt(2)], "canonical"
    )
    assert "dimension_of" in {name for _, name in found}
    assert {Path(file).name for file, _ in found} == {"units.py"}
    assert {name for _, name in before} == {
        "dimension_of",
        "conversion",
        "canonical",
    }  # until it returned first
