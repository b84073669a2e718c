"""What `gough design --csv` writes for a controller."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gough.engine import Model
from gough.study.verbs import with_motors
from tests_support import fourier


def test_a_controller_gets_platform_and_motors(five_bar: Model, tmp_path: Path) -> None:
    trajectory = fourier(five_bar, 0.4, 0.5)
    with_motors(five_bar, trajectory).to_csv(tmp_path / "t.csv", 1000.0)
    header, *rows = csv.reader((tmp_path / "t.csv").read_text().splitlines())
    table = dict(zip(header, np.array(rows, dtype=float).T))
    assert len(rows) == 2000  # one period, the first sample not repeated
    position, velocity, _ = trajectory.at(table["time [s]"])
    assert table["tool.y.position [m]"] == pytest.approx(position[:, 1], abs=1e-12)
    assert table["tool.y.velocity [m/s]"] == pytest.approx(velocity[:, 1], abs=1e-12)
    # The motors of a five-bar in closed form: the elbow is where two circles meet, and the tip is on both.
    for side, sign in (("left", -1.0), ("right", 1.0)):
        angle = table[f"{side}.motor.position [rad]"]
        elbow = np.stack([sign * 0.1 + 0.25 * np.cos(angle), 0.25 * np.sin(angle)])
        assert np.linalg.norm(position.T - elbow, axis=0) == pytest.approx(0.35, abs=1e-9)
        for below, above in (("position [rad]", "velocity [rad/s]"), ("velocity [rad/s]", "acceleration [rad/s2]")):
            column, slope = table[f"{side}.motor.{below}"], table[f"{side}.motor.{above}"]
            difference = (np.roll(column, -1) - np.roll(column, 1)) / 0.002
            assert difference == pytest.approx(slope, abs=1e-3 * np.abs(slope).max())
