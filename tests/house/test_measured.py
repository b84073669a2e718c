"""The list of slow tests is renewed by measuring and marks tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import measured
from tests_support import made_once


def test_measuring_renews_the_files_that_ran_and_keeps_the_others() -> None:
    before = {"a.py::old": 3.0, "a.py::faster": 2.0, "b.py::kept": 5.0}
    ran = {"a.py::faster": 0.2, "a.py::slower": 1.5}
    assert measured.renewed(before, ran) == {"b.py::kept": 5.0, "a.py::slower": 1.5}


def test_a_listed_test_is_slow(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = request.node
    monkeypatch.setattr(measured, "listed", lambda: {item.nodeid: 2.0})
    assert item.get_closest_marker("slow") is None
    measured.pytest_collection_modifyitems([item])
    assert item.get_closest_marker("slow") is not None


def test_users_of_a_listed_fixture_are_slow(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, five_bar: object
) -> None:
    item = request.node
    assert "tests::five_bar" in measured.fixture_names(item)
    monkeypatch.setattr(measured, "listed", lambda: {"tests::five_bar": 2.0})
    measured.pytest_collection_modifyitems([item])
    assert item.get_closest_marker("slow") is not None


def test_measuring_finds_what_works_hard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch = measured.Stopwatch()
    monkeypatch.setattr(measured, "LIST", tmp_path / "slow_tests.txt")
    (tmp_path / "slow_tests.txt").write_text("2.5 a.py::gone\n3.0 b.py::kept\n", encoding="utf-8")
    stopwatch.measured = {"a.py::hard": 1.25, "a.py::easy": 0.2}
    stopwatch.pytest_sessionfinish(type("Session", (), {"config": object()})())
    text = (tmp_path / "slow_tests.txt").read_text(encoding="utf-8")
    assert text == "1.2 a.py::hard\n3.0 b.py::kept\n"


def test_what_takes_long_is_made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return 7

    first = made_once(tmp_path_factory, "seven", make)
    again = made_once(tmp_path_factory, "seven", make)
    assert (first, again) == (7, 7)
    assert len(made) == 1


def test_what_another_process_never_finishes_is_made_here(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "eight.lock").touch()
    assert made_once(tmp_path_factory, "eight", lambda: 8, wait=0.0) == 8
