"""The list of wrong changes fits the source: each can be applied, and names tests that exist."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mutations() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks" / "mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module
    spec.loader.exec_module(module)
    return module


def test_every_old_text_occurs_exactly_once_in_its_file(mutations: ModuleType) -> None:
    for mutation in mutations.MUTATIONS:
        text = (mutations.SOURCE / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, f"{mutation.file}: {mutation.old}"
        assert mutation.new != mutation.old


def test_every_change_names_tests_that_exist(mutations: ModuleType) -> None:
    for mutation in mutations.MUTATIONS:
        paths = [word for word in shlex.split(mutation.tests) if word.startswith("tests/")]
        assert paths
        for path in paths:
            assert (ROOT / path).exists(), path


def test_all_packages_are_changed(mutations: ModuleType) -> None:
    assert len(mutations.MUTATIONS) >= 60
    changed = {mutation.file.partition("/")[0] for mutation in mutations.MUTATIONS}
    packages = {path.parent.name for path in mutations.SOURCE.glob("*/__init__.py")}
    assert changed == packages


def test_a_change_that_nothing_depends_on_survives_and_another_is_caught(
    mutations: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src" / "gough"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("used = 1\nunused = 2\n", encoding="utf-8")
    test = tmp_path / "tests" / "test_used.py"
    test.parent.mkdir()
    test.write_text("import gough\n\ndef test_used(): assert gough.used == 1\n", encoding="utf-8")
    monkeypatch.setattr(mutations, "SOURCE", source)
    monkeypatch.setattr(mutations, "ROOT", tmp_path)
    caught = mutations.Mutation("__init__.py", "used = 1", "used = 3", str(test))
    survived = mutations.Mutation("__init__.py", "unused = 2", "unused = 3", str(test))
    assert mutations.is_caught(caught)
    assert not mutations.is_caught(survived)
    untested = mutations.Mutation("__init__.py", "used = 1", "used = 3", f"{test} -k none")
    with pytest.raises(RuntimeError, match="1 deselected"):
        mutations.is_caught(untested)
    assert mutations.outcome_of(untested) == "NOT TESTED"
    assert mutations.outcome_of(survived) == "SURVIVED"
