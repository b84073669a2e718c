"""Resampling, and the period of a repeated motion."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import (
    InvalidInput,
    NotConverged,
    nearest,
)
from gough.logs.checks import GAP_STEPS, check_even, check_gaps
from gough.logs.messages import log_notice, refused
from gough.logs.recording import Recording

INTERPOLATIONS = ("linear", "cubic", "previous")
# A motion repeats if positions one period apart differ by less than
# this fraction of their standard deviation.
REPETITION_TOLERANCE = 0.05
# at most so many samples are used to look for a repetition
REPETITION_SAMPLES = 20000
PERIOD_HARMONICS = 10  # fitted; fewer if the sampling rate is too low for them
MIN_PERIODIC_FRACTION = 0.5  # of the variance of the positions
SAME_INSTANT_RATIO = 1e-6  # of a step: times that are closer are the same
# of the usual step: closer rows are not used for splines
MIN_CUBIC_STEP_RATIO = 0.2
MAX_PERIOD_ITERATIONS = 30  # of Gauss-Newton


def interpolate(
    values: FloatArray,
    time: FloatArray,
    new_time: FloatArray,
    method: str = "linear",
) -> FloatArray:
    """Interpolate samples, (t, k) at (t,), to other times inside their span, (s, k) at (s,).

    `linear` never overshoots and damps a component of frequency f by
    sinc^2(f step), at most, between samples; `cubic` is a not-a-knot
    spline for smooth signals, accurate to (2 pi f step)^4; `previous`
    holds the last value, which is what a controller does with its
    commands.
    """
    if method not in INTERPOLATIONS:
        raise InvalidInput(f"no interpolation '{method}'{nearest(method, INTERPOLATIONS)}")
    if len(new_time) and (new_time[0] < time[0] or new_time[-1] > time[-1]):
        raise InvalidInput(
            f"asked for times {new_time[0]:.6g} to {new_time[-1]:.6g} s of samples from "
            f"{time[0]:.6g} to {time[-1]:.6g} s; nothing is extrapolated"
        )
    if method == "previous":
        return np.asarray(values[np.searchsorted(time, new_time, side="right") - 1])
    if method == "cubic" and len(time) >= 4:
        from scipy.interpolate import CubicSpline  # here, because it takes long to import

        return np.asarray(CubicSpline(time, values, axis=0)(new_time))
    columns = [np.interp(new_time, time, column) for column in values.T]
    shape = values.shape[1], len(new_time)
    return np.array(columns).reshape(shape).T  # also without any channel


def samples_around(clock: FloatArray, time: FloatArray) -> slice:
    """Return the samples of a clock that enclose other times inside its span."""
    first = int(np.searchsorted(clock, time[0], "right")) - 1
    last = int(np.searchsorted(clock, time[-1]))
    return slice(first, last + 1)


def even_times(start: float, end: float, rate: float) -> FloatArray:
    """Return the times of a clock of this rate from start to at most end, (s,). [s]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"a rate of {rate} Hz; expected a positive number")
    count = int(np.floor((end - start) * rate * (1 + 1e-12) + 1e-9)) + 1
    return np.minimum(start + np.arange(count) / rate, end)


def resample(recording: Recording, new_time: FloatArray, method: str = "linear") -> Recording:
    """Return the recording at other times inside its span, without its period.

    Samples between rows that are more than `GAP_STEPS` apart, or beside
    one that was not measured, count as not measured.
    """
    return recording.mapped(
        lambda values: interpolate(values, recording.time, new_time, method),
        time=new_time,
        measured=_measured_at(recording, new_time),
        period_samples=None,
    )


def _measured_at(recording: Recording, new_time: FloatArray) -> BoolArray | None:
    """Return which of other times lie between measured samples, (s,); None if all do."""
    time = recording.time
    steps = np.diff(time)
    if not len(steps):
        return None
    usual = float(np.median(steps))
    rounding = SAME_INSTANT_RATIO * usual
    before = np.clip(np.searchsorted(time, new_time + rounding, "right") - 1, 0, len(time) - 1)
    after = np.clip(np.searchsorted(time, new_time - rounding, "left"), 0, len(time) - 1)
    measured = time[after] - time[before] <= GAP_STEPS * usual
    if recording.measured is not None:
        measured &= recording.measured[before] & recording.measured[after]
    return None if measured.all() else measured


def resample_evenly(recording: Recording) -> Recording:
    """Return the recording on an even clock at its own rate, with lost samples interpolated.

    Positions are interpolated by a cubic spline, without rows so close
    to the one before that it would magnify their noise; everything else
    linearly.
    """
    if len(recording) < 2:
        raise refused(
            recording.source,
            f"{len(recording)} samples cannot be put on another clock",
        )
    usual = check_gaps(recording.time, recording.source)
    time = even_times(float(recording.time[0]), float(recording.time[-1]), 1 / usual)
    even = resample(recording, time)
    apart = np.diff(recording.time, prepend=-np.inf) > MIN_CUBIC_STEP_RATIO * usual
    apart[-1] = True
    position = interpolate(recording.position[apart], recording.time[apart], time, "cubic")
    return replace(even, position=position, period_samples=recording.period_samples)


def repetition(recording: Recording) -> float | None:
    """Return the time after which all positions repeat, or None. [s]

    The first high peak of the autocorrelation is the candidate. It is
    accepted if positions one candidate period apart differ by less than
    `REPETITION_TOLERANCE` of their standard deviation.
    """
    every = max(1, len(recording) // REPETITION_SAMPLES)
    position = recording.position[::every]
    moving = np.ptp(position, axis=0) > 0
    x = (position - position.mean(axis=0))[:, moving]
    n = len(x)
    if n < 16 or not x.shape[1]:
        return None
    x = x / x.std(axis=0)
    lag = _autocorrelation_peak(x)
    if lag is None:
        return None
    change = x[lag:] - x[:-lag]
    difference = np.sqrt(np.mean(change**2, axis=0) / 2)
    if difference.max() >= REPETITION_TOLERANCE:
        return None
    return float(lag * every / recording.rate)


def _autocorrelation_peak(x: FloatArray) -> int | None:
    """Return the lag of the first high peak of the autocorrelation beyond that at zero."""
    n = len(x)
    power = (np.abs(np.fft.rfft(x, 2 * n, axis=0)) ** 2).sum(axis=1)
    correlation = np.fft.irfft(power)[: n // 2] / (n - np.arange(n // 2))
    below_half = correlation < 0.5 * correlation[0]
    if not below_half.any():
        return None
    start = int(np.argmax(below_half))  # beyond the peak at zero
    if start >= n // 2 - 1:
        return None
    beyond = correlation[start:]
    lag = start + int(np.argmax(beyond > 0.98 * beyond.max()))
    return lag + int(np.argmax(correlation[lag : lag + max(start, 2)]))


class PeriodEstimate(NamedTuple):
    """The period of a motion."""

    seconds: float
    std: float  # standard error of the period for white noise [s]
    explained: float  # fraction of the variance that repeats


def estimate_period(recording: Recording, nominal: float) -> PeriodEstimate:
    """Estimate the period of the positions to a small fraction of a sample.

    A Fourier series with a common frequency is fitted to all joints by
    least squares, frequency included (Gauss-Newton on w with the
    coefficients eliminated), over spans that double from two periods to
    the whole record so that the phase never slips. Each joint is
    weighted by its own residual variance. The samples are on an even
    clock, at least two periods, without rest at the ends.

    Args:
        nominal: Period at which the search starts, see `repetition`.
            [s]
    """
    rate = check_even(recording)
    moving = np.ptp(recording.position, axis=0) > 0
    if not moving.any():
        raise refused(recording.source, "no joint moves, so there is no period")
    x = recording.position[:, moving] - recording.position[:, moving].mean(axis=0)
    x = x / x.std(axis=0)
    duration = len(x) / rate
    if not 4 / rate < nominal <= duration / 2 * 1.02:
        raise refused(
            recording.source,
            f"a period of {nominal:.4g} s in {duration:.4g} s of samples; at least two "
            "periods and four samples in each are needed",
            period=nominal,
            duration=duration,
        )
    harmonics = max(1, min(PERIOD_HARMONICS, int(0.4 * rate * nominal)))
    w = 2 * np.pi / nominal
    samples = 0
    periods = 2.0
    while samples < len(x):
        samples = min(len(x), int(np.ceil(periods * nominal * rate)))
        w, w_std, explained = _refine_frequency(x[:samples], rate, w, harmonics)
        periods *= 2
    if explained < MIN_PERIODIC_FRACTION:
        raise refused(
            recording.source,
            f"only {explained:.0%} of the motion repeats with a period of "
            f"{2 * np.pi / w:.6g} s; the motion must be periodic",
            explained=explained,
        )
    seconds = 2 * np.pi / w
    return PeriodEstimate(seconds=seconds, std=seconds * w_std / w, explained=explained)


def _refine_frequency(
    x: FloatArray, rate: float, w: float, harmonics: int
) -> tuple[float, float, float]:
    """Return frequency and its standard error [rad/s], and the fraction of variance explained."""
    # centred: frequency and phases are then nearly uncorrelated
    t = (np.arange(len(x)) - (len(x) - 1) / 2) / rate
    k = np.arange(1, harmonics + 1)
    for _ in range(MAX_PERIOD_ITERATIONS):
        angle = np.exp(1j * w * t)[:, None] ** k
        basis = np.concatenate([np.ones((len(t), 1)), angle.real, angle.imag], axis=1)
        gram = basis.T @ basis
        coefficients = np.linalg.solve(gram, basis.T @ x)
        residual = x - basis @ coefficients
        cosine = coefficients[1 : harmonics + 1]
        sine = coefficients[harmonics + 1 :]
        slope = t[:, None] * ((angle.real * k) @ sine - (angle.imag * k) @ cosine)  # dx / dw
        slope -= basis @ np.linalg.solve(gram, basis.T @ slope)
        variance = residual.var(axis=0) + 1e-20  # x has variance 1
        information = float(np.sum(slope**2 / variance))
        step = float(np.sum(slope * residual / variance)) / information
        w += step
        if abs(step) * harmonics * (t[-1] - t[0]) < 1e-8:
            return w, 1 / np.sqrt(information), float(1 - np.mean(residual**2))
    raise NotConverged(
        f"the period does not converge near {2 * np.pi / w:.6g} s; give a better nominal one or "
        "cut off the time at rest",
        period=2 * np.pi / w,
    )


def resample_to_period(recording: Recording, period: PeriodEstimate) -> Recording:
    """Return the whole periods of a recording with a whole number of samples in each.

    A record of exactly whole periods keeps them all although an
    estimate of the period may be a little too long: it is shortened to
    fit if it then lies within four standard errors or a hundredth of a
    sample. The samples are on an even clock.
    """
    seconds = period.seconds
    n = max(round(seconds * recording.rate), 2)
    start = float(recording.time[0])
    end = float(recording.time[-1])
    span = end - start
    step = seconds / n
    count = int(np.floor((span + 1.5 * step) / seconds))  # as if there were half a sample more
    if count * seconds - step - span > max(1e-2 * step, 4 * count * period.std):
        count -= 1
    elif count:
        seconds = min(seconds, span / (count - 1 / n))
    if count < 1:
        raise refused(
            recording.source,
            f"{span:.6g} s hold no whole period of {seconds:.6g} s",
            period=seconds,
        )
    time = np.minimum(start + np.arange(count * n) * (seconds / n), end)
    periodic = resample(recording, time, "cubic")  # disturbs noise and harmonics least
    notice = log_notice(
        "resampled",
        recording.source,
        f"put on a clock with {n} samples in each of {count} periods of "
        f"{seconds:.9g} s (cubic interpolation)",
        period=seconds,
        samples=n,
    )
    return replace(periodic, period_samples=n).with_notices([notice])
