"""What `gough design --csv` writes for a controller, and the virtual robot that follows it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gough import read_recording
from gough.app.studies.study_file import run_step
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory import load_trajectory
from gough.engine import Model
from gough.excitation import design
from gough.excitation.ramps import sample_with_ramps
from tests_support import fourier, model_of


def test_a_controller_gets_platform_and_motors_from_rest_to_rest(
    five_bar: Model, tmp_path: Path
) -> None:
    trajectory = fourier(five_bar, 0.4, 0.5)
    sample_with_ramps(five_bar, trajectory, 3).to_csv(tmp_path / "t.csv", 1000.0)
    header, *rows = csv.reader((tmp_path / "t.csv").read_text().splitlines())
    table = dict(zip(header, np.array(rows, dtype=float).T))
    position = np.stack([table["tool.x.position [m]"], table["tool.y.position [m]"]], axis=1)
    for name, column in table.items():
        if ".velocity " in name or ".acceleration " in name:
            assert abs(column[[0, -1]]).max() < 1e-9 * abs(column).max(), name
    # The motors of a five-bar in closed form: the elbow is where two circles meet, and the tip is
    # on both.
    for side, sign in (("left", -1.0), ("right", 1.0)):
        angle = table[f"{side}.motor.position [rad]"]
        elbow = np.stack([sign * 0.1 + 0.25 * np.cos(angle), 0.25 * np.sin(angle)])
        assert np.linalg.norm(position.T - elbow, axis=0) == pytest.approx(0.35, abs=1e-9)
        for below, above in (
            ("position [rad]", "velocity [rad/s]"),
            ("velocity [rad/s]", "acceleration [rad/s2]"),
        ):
            column, slope = table[f"{side}.motor.{below}"], table[f"{side}.motor.{above}"]
            assert np.gradient(column, 1e-3)[2:-2] == pytest.approx(
                slope[2:-2], abs=1e-3 * np.abs(slope).max()
            )
    # Somewhere in it are three whole periods of the designed motion, one after the other, and one
    # to settle.
    period = round(trajectory.period * 1000)
    once = trajectory.at(np.arange(period) / 1000)[0]
    same = [
        k
        for k in range(len(position) - period)
        if np.allclose(position[k : k + period], once, atol=1e-9)
    ]
    assert len(same) >= 3
    assert set(np.diff(same)) == {period}


@pytest.mark.parametrize(
    "name",
    [
        "five_bar",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("serial6", marks=pytest.mark.long),
    ],
)
def test_no_limit_is_exceeded_on_the_way_into_the_motion(name: str) -> None:
    model = model_of(name)
    plan = design(model, starts=1, iterations=20)
    run = sample_with_ramps(model, plan.trajectory, 2)
    for k, joint in enumerate(run.coordinates):
        limits = model.mechanism.joint(joint).limits
        for word, most in (("velocity", limits.velocity), ("acceleration", limits.acceleration)):
            if most is not None:
                assert np.abs(getattr(run, word)[:, k]).max() <= most * (1 + 1e-9), (joint, word)


def test_the_virtual_robot_runs_the_table_of_the_controller(
    five_bar: Model, tmp_path: Path
) -> None:
    trajectory = fourier(five_bar, 0.4, 0.5)
    sample_with_ramps(five_bar, trajectory, 2).to_csv(tmp_path / "t.csv", 1000.0)
    run_step(
        "simulate",
        {"robot": "five_bar", "trajectory": "t.csv", "noise": False, "output": "log.csv"},
        folder=tmp_path,
    )
    log = read_recording(tmp_path / "log.csv")
    wanted = load_trajectory(tmp_path / "t.csv").only(log.joints)
    assert log.position[0] == pytest.approx(wanted.position[0], abs=1e-3)
    assert np.sqrt(np.mean((log.position - wanted.position[: len(log)]) ** 2)) < 0.01 * np.ptp(
        wanted.position
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "table"),
        ("time,a\n1,2\n", "position"),
        ("time [s],a.position [m]\n0,x\n", "could not convert"),
        (
            "time [s],a.position [m]\n" + "".join(f"{t},0\n" for t in (0, 1, 1, 2, 3, 4, 5)),
            "ascending",
        ),
    ],
)
def test_tables_that_are_no_trajectory_are_refused_by_name(
    tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InvalidTrajectory, match=word) as caught:
        load_trajectory(tmp_path / "bad.csv")
    assert "bad.csv" in str(caught.value)
