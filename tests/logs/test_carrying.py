"""Logs divided where a recorded signal says that a payload is taken up or put down."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.logs.carrying import divide_by_signal, switching_notices
from gough.logs.recording import Channels, Recording


def log(signal: np.ndarray, name: str = "gripper", source: str = "log") -> Recording:
    count = len(signal)
    extra = Channels(names=(name,), units=("1",), values=np.asarray(signal, float)[:, None])
    time = np.arange(count) / 100
    return Recording(
        joints=("j",),
        time=time,
        position=np.sin(time)[:, None],
        position_units=("rad",),
        effort=np.arange(count, dtype=float)[:, None],
        extra=extra,
        period_samples=200,
        source=source,
    )


def switching(*lengths: int, on: float = 1.0, off: float = 0.0) -> np.ndarray:
    pieces = []
    for k, length in enumerate(lengths):
        pieces.append(np.full(length, on if k % 2 else off))
    return np.concatenate(pieces)


def test_each_segment_is_a_log_with_its_samples() -> None:
    divided = divide_by_signal([log(switching(300, 400, 200, 100))], "gripper")
    assert [len(segment) for segment in divided.unloaded] == [300, 200]
    assert [len(segment) for segment in divided.loaded] == [400, 100]
    first = divided.loaded[0]
    np.testing.assert_array_equal(first.effort[:, 0], np.arange(300, 700))
    assert first.source == "log [3 to 6.99 s]"
    assert first.period_samples is None
    assert first.fingerprint != divided.loaded[1].fingerprint


def test_a_noisy_vacuum_sensor_switches_once() -> None:
    rng = np.random.default_rng(0)
    pressure = np.concatenate([np.full(300, 101.0), np.linspace(101, 35, 60), np.full(300, 35.0)])
    noisy = pressure + 3 * rng.standard_normal(len(pressure))
    divided = divide_by_signal([log(noisy, "vacuum")], "vacuum")
    assert len(divided.unloaded) == len(divided.loaded) == 1
    assert len(divided.unloaded[0]) + len(divided.loaded[0]) == 660


def test_short_segments_are_left_out_and_said() -> None:
    divided = divide_by_signal([log(switching(2000, 60, 1000, 500))], "gripper")
    assert [len(segment) for segment in divided.unloaded] == [2000, 1000]
    assert [len(segment) for segment in divided.loaded] == [500]
    [notice] = divided.unloaded[0].notices
    assert "0.59 s of log between switches" in str(notice)


def test_the_range_is_that_of_all_logs_and_logs_without_the_channel_are_unloaded() -> None:
    always = log(np.full(300, 24.0), source="always")
    never = log(np.zeros(300), source="never")
    other = log(np.zeros(300), "temperature", source="other")
    divided = divide_by_signal([always, never, other], "gripper")
    assert [segment.source for segment in divided.loaded] == ["always"]
    assert [segment.source for segment in divided.unloaded] == ["never", "other"]
    assert divided.loaded[0] is always


def test_a_channel_that_is_not_there_or_never_switches_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"no log has the channel 'gripper'.*temperature"):
        divide_by_signal([log(np.zeros(300), "temperature")], "gripper")
    with pytest.raises(InvalidInput, match="'gripper' is 1 in all logs"):
        divide_by_signal([log(np.ones(300))], "gripper")


def test_a_channel_that_switches_is_reported_with_what_to_do() -> None:
    rng = np.random.default_rng(0)
    gripper = switching(300, 400, 200, on=5.0) + 0.1 * rng.standard_normal(900)
    [notice] = switching_notices([log(gripper), log(np.zeros(500))])
    assert notice.where == "gripper"
    assert "switches 2 time(s)" in notice.text
    assert "carrying = 'gripper'" in notice.advice


def test_temperatures_ramps_and_spikes_do_not_switch() -> None:
    warm = 20 + 15 * (1 - np.exp(-np.linspace(0, 3, 900)))
    spike = np.zeros(900)
    spike[450] = 1.0
    for signal in (warm, np.linspace(0, 1, 900), spike, np.ones(900)):
        assert switching_notices([log(signal)]) == []
