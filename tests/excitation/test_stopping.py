"""A search that is stopped keeps what it has, and goes on from there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gough
from gough.app.studies.study_file import run_step
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.excitation.design import Design, Run, collect_limits
from gough.excitation.search import find_extremes

OPTIONS = {"frequency": 0.5, "harmonics": 3, "starts": 2, "iterations": 40}


class Nerve:
    """Somebody who loses patience after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(five_bar: Model) -> Design:
    """The design that nobody stops."""
    return gough.design(five_bar, **OPTIONS)


@pytest.mark.parametrize("steps", [1, 7, 45])
def test_a_stopped_design_is_the_best_so_far_and_keeps_all_limits(
    five_bar: Model, whole: Design, steps: int
) -> None:
    found = gough.design(five_bar, **OPTIONS, progress=Nerve(steps))
    assert found.stopped
    assert not whole.stopped
    assert "stopped before its end" in found.summary()
    assert found.value >= whole.value - 1e-9  # what is minimised
    seen = find_extremes(
        five_bar,
        found.trajectory,
        collect_limits(five_bar),
        by="task",
        samples=5000,
        load=np.zeros(10),
    )
    assert np.abs(seen).max() <= 1


def test_a_design_goes_on_from_where_it_was_stopped(five_bar: Model, tmp_path: Path) -> None:
    found = gough.design(five_bar, **OPTIONS, progress=Nerve(12))
    more = gough.design(five_bar, **OPTIONS | {"starts": 1}, runs=[Run(start=found.trajectory)])
    assert more.value < found.value
    found.save(tmp_path / "t.json")
    file = str(tmp_path / "t.json")
    options = {"harmonics": 3, "starts": 1, "iterations": 5, "output": file, "resume": file}
    again = run_step("design", {"robot": "five_bar", **options})
    assert again.trajectory.frequency == pytest.approx(found.trajectory.frequency, rel=1e-3)
    assert gough.load_trajectory(tmp_path / "t.json").frequency == again.trajectory.frequency
    with pytest.raises(InvalidInput, match=r"with 3 harmonics, expected .* with at most 2"):
        gough.design(five_bar, **OPTIONS | {"harmonics": 2}, runs=[Run(start=found.trajectory)])
