"""`benchmarks/house.py` counts what it says it counts."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

from gough.core.units import dimension_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = '''
"""A module."""
NARROW = 0.3
WIDE = 1


class Bare:
    pass


@dataclass
class Box:
    """A box."""

    low: float
    high: float  # [m]


def run(rows):
    """Run."""
    found, left = rows[0], rows[1]
    plain = [row for row in rows]
    nested = [[cell for cell in row] for row in rows]
    double = [cell for row in rows for cell in row]
    return found if left else plain + nested + double


def silent():
    return 1
'''


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", BENCHMARKS / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    __import__("sys").modules["house"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def files(house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    (tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    (tmp_path / "other.py").write_text('"""Other."""\nWIDE = 2\n', encoding="utf-8")
    return list(house.source_files(tmp_path))


def test_dense_statements_are_counted(house: ModuleType, files: list[Path]) -> None:
    counts = house.density(files).counts
    assert counts["packed"] == 1
    assert counts["conditional"] == 1
    assert counts["comprehension"] == 4
    assert counts["hard"] == 2
    assert counts["vague"] == 4


def test_missing_docstrings_and_comments_are_counted(house: ModuleType, files: list[Path]) -> None:
    places = [place for place in house.density(files).places if "undocumented" in place]
    lines = SMALL.splitlines()
    named = [lines[int(place.split(":")[1]) - 1].strip() for place in places]
    assert sorted(named) == ["class Bare:", "def silent():", "low: float"]


def test_constants_with_two_definitions_are_named(house: ModuleType, files: list[Path]) -> None:
    counted = house.density(files)
    assert counted.counts["ambiguous"] == 1
    assert "WIDE: defined in other.py, small.py" in counted.places


def test_calls_are_counted_once_and_only_of_the_source(house: ModuleType) -> None:
    def work() -> None:
        dimension_of("m/s")
        dimension_of("m/s")
        math.sqrt(2.0)

    passed, before = house.calls(work, ("nothing",))
    names = {name for _, name in passed}
    assert "dimension_of" in names
    assert before == set()


def test_the_first_of_several_functions_ends_what_comes_before(house: ModuleType) -> None:
    _, before = house.calls(lambda: dimension_of("m/s"), ("canonical", "nothing"))
    assert {name for _, name in before} == {"dimension_of", "conversion"}
