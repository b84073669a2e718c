"""Every verb that may take more than a second reports how much is done, from early on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gough
from gough.app.studies.study_file import run_step


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("progress")
    plan = gough.design("five_bar", frequency=0.5, starts=1, iterations=5, harmonics=2)
    plan.trajectory.save(place / "plan.json")
    log = gough.record(gough.simulate("five_bar", plan, periods=3), seed=1)
    log.save(place / "log.csv")
    gough.identify("five_bar", log).save(place)
    return place


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("check", {"robot": "five_bar"}),
        ("check", {"robot": "five_bar", "trajectory": "plan.json"}),
        ("identify", {"robot": "five_bar", "logs": ["log.csv"]}),
        ("diagnose", {"robot": "five_bar", "logs": ["log.csv"]}),
        ("payload", {"robot": "five_bar", "logs": ["log.csv"]}),
        ("bounds", {"robot": "five_bar", "logs": ["log.csv"], "error_bound": 5.0}),
    ],
)
def test_a_verb_reports_what_is_done(verb: str, options: Mapping[str, Any], folder: Path) -> None:
    heard: list[float] = []
    run_step(verb, options, folder=folder, progress=heard.append)
    steps = sorted({round(fraction, 3) for fraction in heard})
    assert heard == sorted(heard)
    assert steps[0] <= 0.1
    assert len(steps) >= (2 if verb == "check" else 6)
    assert max(heard) <= 1.0
