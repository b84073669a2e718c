"""Putting signals on another clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.logs.checks import check_gaps
from gough.logs.recording import Recording

METHODS = ("linear", "cubic", "previous")


def interpolate(values: FloatArray, time: FloatArray, new_time: FloatArray, method: str = "linear") -> FloatArray:
    """Take samples to other times inside their span, (t, k) at (t,) to (s, k) at (s,); nothing is extrapolated.

    `linear` never overshoots and damps a component of frequency f by sinc^2(f step), at most, between samples;
    `cubic` is a not-a-knot spline for smooth signals, accurate to (2 pi f step)^4; `previous` holds the last value,
    which is what a controller does with its commands.
    """
    if method not in METHODS:
        raise InvalidInput(f"no interpolation '{method}'{nearest(method, METHODS)}")
    if len(new_time) and (new_time[0] < time[0] or new_time[-1] > time[-1]):
        raise InvalidInput(f"asked for times {new_time[0]:.6g} to {new_time[-1]:.6g} s of samples from {time[0]:.6g} "
                           f"to {time[-1]:.6g} s; nothing is extrapolated")
    if method == "previous":
        return np.asarray(values[np.searchsorted(time, new_time, side="right") - 1])
    if method == "cubic" and len(time) >= 4:
        from scipy.interpolate import CubicSpline  # here, because it takes long to import

        return np.asarray(CubicSpline(time, values, axis=0)(new_time))
    columns = [np.interp(new_time, time, column) for column in values.T]
    return np.array(columns).reshape(values.shape[1], len(new_time)).T  # of no channel, too


def stretch(clock: FloatArray, time: FloatArray) -> slice:
    """Return the samples of a clock between which other times, inside its span, lie."""
    return slice(int(np.searchsorted(clock, time[0], "right")) - 1, int(np.searchsorted(clock, time[-1])) + 1)


def even_times(start: float, end: float, rate: float) -> FloatArray:
    """Return the times of a clock of this rate from start to at most end, (s,). [s]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"a rate of {rate} Hz; expected a positive number")
    count = int(np.floor((end - start) * rate * (1 + 1e-12) + 1e-9)) + 1
    return np.minimum(start + np.arange(count) / rate, end)


def resample(recording: Recording, new_time: FloatArray, method: str = "linear") -> Recording:
    """Return the recording at other times inside its span, without its period."""
    return recording.mapped(lambda values: interpolate(values, recording.time, new_time, method), time=new_time,
                            period_samples=None)


def resample_evenly(recording: Recording) -> Recording:
    """Return the recording on an even clock at its own rate: lost samples come back, and a period is whole again."""
    if len(recording) < 2:
        raise InvalidRecording(f"{recording.source}: {len(recording)} samples cannot be put on another clock")
    rate = 1 / check_gaps(recording.time, recording.source)
    made = resample(recording, even_times(float(recording.time[0]), float(recording.time[-1]), rate))
    return replace(made, period_samples=recording.period_samples)
