"""A few rows of the benchmark of mistakes, and a few clean trials: what `benchmarks/mistakes.py`
shows in full.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

SOME = (
    "effort sign, one",
    "gain 1.1, one",
    "load, identification only",
    "Stribeck friction",
    "duplicated effort",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_a_mistake_is_noticed_named_and_measured(
    mistakes: ModuleType, stage: Any, name: str
) -> None:
    corruption = next(c for c in mistakes.corruptions(stage) if c.name == name)
    found = mistakes.trial(stage, corruption)
    assert found.level in ("warning", "error")
    assert found.named, found.first
    assert not found.sigmas > 3


@pytest.mark.slow
@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("periodic", [False, True])
def test_clean_logs_are_good(
    mistakes: ModuleType, stage: Any, colour: bool, periodic: bool
) -> None:
    result = mistakes.clean_trial(stage, 7, colour=colour, periodic=periodic)
    assert result.level == "ok", result.summary()


def test_there_are_forty_different_mistakes(mistakes: ModuleType, stage: Any) -> None:
    names = [corruption.name for corruption in mistakes.corruptions(stage)]
    assert len(set(names)) == len(names) >= 40
