"""Real logs of the UPV robot: four or more files a run, each with its own clock.

Read where they are, skip without.
"""

import gzip
from pathlib import Path

import numpy as np
import pytest

from gough.logs.checks import check_even
from gough.logs.readers import read_recording

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "upv_3ups_rpu"
RUNS = {
    "exp_20_01_2021-16_15_33": "upv_run.toml",
    "exp_01_02_2021-10_29_52": "upv_run_mocap.toml",
    "exp_20_01_2021-13_37_26": "upv_run_voltage.toml",
    "exp_18_12_2020-12_36_29": "upv_run.toml",
}

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="UPV logs are not here")


@pytest.mark.parametrize("run", RUNS)
def test_every_run_reads_on_one_even_clock_with_its_clocks_reported(run: str) -> None:
    recording = read_recording(DATA / run, ROOT / "examples" / RUNS[run])
    assert recording.joints == tuple(f"leg{i}.slider" for i in (1, 2, 3, 4))
    assert check_even(recording) == pytest.approx(100.0)
    assert recording.time[0] == 0.0
    other_clocks = {f.where for f in recording.notices if f.rule == "clock"}
    assert "control_action.txt.gz" in other_clocks
    assert "joint_velocity.txt.gz" in other_clocks
    assert (recording.current is not None) == (RUNS[run] == "upv_run_voltage.toml")
    assert (recording.mocap is not None) == (RUNS[run] == "upv_run_mocap.toml")


@pytest.mark.parametrize("run", RUNS)
def test_encoder_steps_are_the_documented_20_and_2_325_micrometres(run: str) -> None:
    recording = read_recording(DATA / run, ROOT / "examples" / RUNS[run])
    steps = {f.where: f.numbers["step"] for f in recording.notices if f.rule == "quantisation"}
    for leg in (1, 2, 3):
        assert steps[f"leg{leg}.slider.position"] == pytest.approx(20e-6, rel=1e-3)
    assert steps["leg4.slider.position"] == pytest.approx(2.325e-6, rel=0.01)


def test_positions_equal_an_independent_reading_and_interpolation() -> None:
    run = "exp_20_01_2021-16_15_33"
    recording = read_recording(DATA / run, ROOT / "examples" / RUNS[run])
    with gzip.open(DATA / run / "joint_position.txt.gz", "rt") as handle:
        raw = np.genfromtxt(handle, skip_header=1)
    seconds = raw[:, 0] - 1611155761 + raw[:, 1] * 1e-9
    starts = {f.where: f.numbers["start"] for f in recording.notices if f.rule == "clock"}
    zero = seconds[0] + max(0.0, *starts.values())  # the file that starts last
    assert zero - seconds[0] == pytest.approx(0.0201, abs=1e-3)
    expected = np.interp(recording.time + zero, seconds, raw[:, 2])
    assert np.abs(recording.position[:, 0] - expected).max() < 1e-9


def test_a_dropped_message_is_reported() -> None:
    run = "exp_20_01_2021-13_37_26"
    gaps = [
        f
        for f in read_recording(DATA / run, ROOT / "examples" / RUNS[run]).notices
        if f.rule == "gap"
    ]
    assert {f.where for f in gaps} == {"joint_velocity.txt.gz", "control_action.txt.gz"}
    assert all(f.numbers["largest"] > 0.016 for f in gaps)


def test_a_run_whose_last_line_is_cut_says_so(tmp_path: Path) -> None:
    run = "exp_20_01_2021-16_15_33"
    for path in (DATA / run).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = gzip.decompress((tmp_path / "control_action.txt.gz").read_bytes())
    (tmp_path / "control_action.txt.gz").write_bytes(gzip.compress(text[:-20]))
    recording = read_recording(tmp_path, ROOT / "examples" / RUNS[run])
    cut = [f for f in recording.notices if f.rule == "truncated"]
    assert [f.where for f in cut] == ["control_action.txt.gz"]
