"""A new user's way: a public URDF and a bag in, a report out, and no file written by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bags import write_bag

import gough

MODEL = Path(__file__).parents[3] / "shared" / "data" / "closed_loop_models" / "gepetto" / "5bar_linkage"
RATE, PERIOD = 500.0, 4.0


def command(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "gough", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_run(folder: Path, robot: Path, seed: int) -> Path:
    """Write what the machine would have recorded: joint states of five periods, with noise, and a temperature."""
    model = gough.Model(gough.load_robot(robot))
    independent = list(model.loops.partitions["actuated"].independent)
    rng = np.random.default_rng(seed)
    time, h = np.arange(round(RATE * PERIOD)) / RATE, np.arange(1, 6)[:, None]
    a, b = 0.1 * rng.standard_normal((2, 5, len(independent))) / h
    w = 2 * np.pi / PERIOD * h
    angle = w * time[:, None, None]
    position = model.home[independent] + (a * np.sin(angle) + b * (np.cos(angle) - 1)).sum(axis=1)
    velocity = (w * (a * np.cos(angle) - b * np.sin(angle))).sum(axis=1)
    acceleration = (-(w**2) * (a * np.sin(angle) + b * np.cos(angle))).sum(axis=1)
    effort = model.inverse_dynamics(model.kinematics.motion(time, position, velocity, acceleration, "actuated"))
    size = np.sqrt((effort**2).mean(axis=0))
    time = np.arange(5 * len(time)) / RATE
    own = folder / f"bag{seed}"
    own.mkdir()
    path = write_bag(own, time, [model.mechanism.coordinates[i] for i in independent],
                     np.tile(position, (5, 1)) + 1e-5 * rng.standard_normal((len(time), len(independent))),
                     np.tile(effort, (5, 1)) + 0.01 * size * rng.standard_normal((len(time), len(independent))),
                     slow=20 + time / 10)
    return path.rename(folder / f"run{seed}.mcap")


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason="the model is not here")
def test_from_a_urdf_and_a_bag_to_a_report_without_a_line_by_hand(tmp_path: Path) -> None:
    command(tmp_path, "import", str(MODEL / "robot.urdf"), "--loops", str(MODEL / "robot.yaml"), "-o", "robot.toml")
    for seed in (1, 2):
        write_run(tmp_path, tmp_path / "robot.toml", seed)
    command(tmp_path, "log", "run1.mcap", "--robot", "robot.toml", "-o", "run.toml")
    command(tmp_path, "identify", "robot.toml", "run1.mcap", "--validate", "run2.mcap", "--description", "run.toml",
            "-o", "result")
    command(tmp_path, "report", "result")
    stored = json.loads((tmp_path / "result" / "estimate.json").read_text())
    assert stored["validation"]["predicts"] == "good"
    report = (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    assert stored["digests"]["run1.mcap"][:12] in report
    assert "rate [Hz]" in report
