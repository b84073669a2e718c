"""The recording type: what it refuses, how it is cut, what it writes."""

import gzip
import json

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidRecording, OutputError
from gough.logs.recording import Channels, Recording


def small(samples: int = 12, **changes: object) -> Recording:
    rng = np.random.default_rng(0)
    fields: dict[str, object] = {
        "joints": ("leg1.slider", "leg2.motor"),
        "time": np.arange(samples) / 100.0,
        "position": rng.normal(size=(samples, 2)),
        "position_units": ("m", "rad"),
        "effort": rng.normal(size=(samples, 2)),
        "period_samples": 4,
        "payload": "disc",
        "pose": Channels(names=("platform.x",), units=("m",), values=rng.normal(size=(samples, 1))),
    }
    return Recording(**(fields | changes))  # type: ignore[arg-type]


def test_effort_units_follow_the_position_units() -> None:
    assert small().effort_units == ("N", "N m")


def test_arrays_are_copied_and_read_only() -> None:
    position = np.zeros((12, 2))
    recording = small(position=position)
    position[0, 0] = 7.0
    assert recording.position[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        recording.position[0, 0] = 1.0


def test_rate_counts_intervals_not_samples() -> None:
    assert small().rate == pytest.approx(100.0)


def test_a_nan_is_refused_naming_source_column_and_sample() -> None:
    position = np.zeros((12, 2))
    position[5, 1] = np.nan
    with pytest.raises(
        InvalidRecording, match=r"run7.*'leg2\.motor\.position'.*sample 5"
    ) as caught:
        small(position=position, source="run7")
    assert caught.value.numbers["sample"] == 5


@pytest.mark.parametrize(
    ("value", "words"), [(0.02, "same as"), (0.015, "0.005 s earlier than"), (np.nan, "nan")]
)
def test_time_that_does_not_increase_is_refused_at_its_sample(value: float, words: str) -> None:
    time = np.arange(12) / 100.0
    time[3] = value
    with pytest.raises(InvalidRecording, match=words) as caught:
        small(time=time)
    assert caught.value.numbers["sample"] == 3


def test_no_samples_are_refused() -> None:
    with pytest.raises(InvalidRecording, match="no samples"):
        small(samples=0)


@pytest.mark.parametrize(
    "changes",
    [
        {"position_units": ("m", "deg")},
        {"position_units": ("m",)},
        {"joints": ("a", "a")},
        {"joints": ()},
        {"current": np.zeros((12, 2))},
        {"current_units": ("A", "A")},
        {"effort": np.zeros((12, 3))},
        {"effort": np.zeros((11, 2))},
        {"period_samples": 1},
        {"time": np.zeros((12, 1))},
    ],
)
def test_fields_that_do_not_fit_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        small(**changes)


def test_periods_are_a_view_in_order() -> None:
    recording = small()
    periods = recording.periods("effort")
    assert recording.effort is not None
    assert periods.shape == (3, 4, 2)
    assert np.shares_memory(periods, recording.effort)
    assert np.array_equal(periods[1], recording.effort[4:8])


def test_part_of_a_period_is_refused_until_cut() -> None:
    recording = small(samples=14)
    with pytest.raises(InvalidRecording, match="3 periods of 4 and 2 more"):
        recording.periods("position")
    assert recording.take(slice(0, 12)).periods("position").shape == (3, 4, 2)


def test_without_a_period_there_are_no_periods() -> None:
    recording = small(period_samples=None)
    assert recording.period_count == 0
    with pytest.raises(InvalidRecording, match="period"):
        recording.periods("position")


def test_a_missing_signal_and_a_wrong_word_are_told_apart() -> None:
    with pytest.raises(InvalidRecording, match="no current"):
        small().periods("current")
    with pytest.raises(InvalidInput, match="did you mean 'effort'"):
        small().periods("efort")


def test_every_second_sample_halves_the_period_and_other_steps_drop_it() -> None:
    recording = small()
    assert recording.take(slice(None, None, 2)).period_samples == 2
    assert recording.take(slice(None, None, 3)).period_samples is None
    assert recording.take(np.arange(5)).period_samples is None


def test_blocks_join_to_the_whole() -> None:
    recording = small()
    parts = list(recording.blocks(5))
    assert [len(p) for p in parts] == [5, 5, 2]
    assert np.array_equal(np.concatenate([p.position for p in parts]), recording.position)
    assert np.array_equal(
        np.concatenate([p.pose.values for p in parts if p.pose]), recording.pose.values
    )


def test_csv_has_units_in_its_header_and_exact_digits(tmp_path) -> None:
    recording = small()
    lines = recording.save(tmp_path / "run.csv").read_text().splitlines()
    mark, facts = lines[0].split(" 1 ", 1)
    assert mark == "# gough-recording"
    assert json.loads(facts) == {"payload": "disc", "period_samples": 4}
    assert lines[1] == (
        "time [s],leg1.slider.position [m],leg2.motor.position [rad],leg1.slider.effort [N],"
        "leg2.motor.effort [N m],platform.x.pose [m]"
    )
    row = np.array(lines[2 + 7].split(","), dtype=float)
    assert np.array_equal(row[1:3], recording.position[7])
    assert (
        gzip.decompress(recording.save(tmp_path / "run.csv.gz").read_bytes()).decode().splitlines()
        == lines
    )


def test_npz_holds_no_objects(tmp_path) -> None:
    recording = small()
    with np.load(recording.save(tmp_path / "run.npz"), allow_pickle=False) as data:
        assert np.array_equal(data["effort"], recording.effort)
        assert json.loads(str(data["facts"]))["joints"] == ["leg1.slider", "leg2.motor"]


def test_an_unknown_suffix_and_a_missing_folder_are_output_errors(tmp_path) -> None:
    with pytest.raises(OutputError, match=r"expected \.csv"):
        small().save(tmp_path / "run.xlsx")
    with pytest.raises(OutputError, match="No such file"):
        small().save(tmp_path / "nowhere" / "run.csv")


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch) -> None:
    path = small().save(tmp_path / "run.csv")
    before = path.read_bytes()
    monkeypatch.setattr(
        "gough.logs.writers._write_csv", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full"))
    )
    with pytest.raises(OutputError, match="disk full"):
        small(samples=8).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.csv"]


def test_blocks_of_no_samples_are_refused() -> None:
    with pytest.raises(InvalidInput, match="blocks of 0 samples"):
        next(small().blocks(0))
