"""Finding the period of a repeated motion, and putting a whole number of samples in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidRecording, NotConverged
from gough.logs.checks import check_even
from gough.logs.finding import Finding
from gough.logs.recording import Recording
from gough.logs.resampling import resample

HARMONICS = 10  # fitted; fewer where the sampling rate does not carry them


@dataclass(frozen=True, kw_only=True)
class PeriodEstimate:
    """The period of a motion, its standard deviation for white noise [s], and the part of the variance that repeats.

    `samples` is its length in samples of the recording, in general not a whole number.
    """

    seconds: float
    std: float
    samples: float
    explained: float
    harmonics: int


def estimate_period(recording: Recording, nominal: float | None = None) -> PeriodEstimate:
    """Find the period of the positions to a small part of a sample.

    A Fourier series with a common frequency is fitted to all joints by least squares, frequency included
    (Gauss-Newton on w with the coefficients eliminated), over spans that double from two periods to the whole record
    so that the phase never slips. Each joint counts by its own residual. The start is `nominal`, or the first high peak
    of the autocorrelation. The samples are on an even clock, at least two periods, without rest at the ends.

    Raises:
        InvalidRecording: The motion does not repeat, or not twice.
        NotConverged: The frequency does not settle.
    """
    rate = check_even(recording)
    moving = np.ptp(recording.position, axis=0) > 0
    if not moving.any():
        raise InvalidRecording(f"{recording.source}: no joint moves, so there is no period")
    x = recording.position[:, moving] - recording.position[:, moving].mean(axis=0)
    x = x / x.std(axis=0)
    duration = len(x) / rate
    guess = _autocorrelation_peak(x) / rate if nominal is None else nominal
    if not 4 / rate < guess <= duration / 2 * 1.02:
        raise InvalidRecording(f"{recording.source}: a period of {guess:.4g} s in {duration:.4g} s of samples; at "
                               "least two periods and four samples in each are needed", period=guess, duration=duration)
    count = max(1, min(HARMONICS, int(0.4 * rate * guess)))
    w, spread, span = 2 * np.pi / guess, np.nan, 2.0
    while True:
        samples = min(len(x), int(np.ceil(span * guess * rate)))
        w, spread, explained = _refined(x[:samples], rate, w, count)
        if samples == len(x):
            break
        span *= 2
    if explained < 0.5:
        raise InvalidRecording(f"{recording.source}: only {explained:.0%} of the motion repeats with a period of "
                               f"{2 * np.pi / w:.6g} s; is it periodic?", explained=explained)
    seconds = 2 * np.pi / w
    return PeriodEstimate(seconds=seconds, std=seconds * spread / w, samples=seconds * rate, explained=explained,
                          harmonics=count)


def _autocorrelation_peak(x: FloatArray) -> float:
    """Return the lag, in samples, of the first peak of the autocorrelation within 5 % of the highest one."""
    n = len(x)
    spectrum = np.abs(np.fft.rfft(x, 2 * n, axis=0)) ** 2
    r = np.fft.irfft(spectrum.sum(axis=1))[:n // 2 + 2]
    r = r / (n - np.arange(len(r)))
    r = r / r[0]
    below = np.flatnonzero(r < 0)
    peaks = np.flatnonzero((r[1:-1] >= r[:-2]) & (r[1:-1] > r[2:])) + 1
    peaks = peaks[peaks > below[0]] if len(below) else peaks[:0]
    if not len(peaks) or r[peaks].max() < 0.5:
        raise InvalidRecording("the positions show no period that fits twice in the record; give a nominal one or "
                               "record more periods")
    k = int(peaks[np.argmax(r[peaks] > 0.95 * r[peaks].max())])
    curvature = r[k - 1] - 2 * r[k] + r[k + 1]
    return float(k + 0.5 * (r[k - 1] - r[k + 1]) / curvature) if curvature < 0 else float(k)


def _refined(x: FloatArray, rate: float, w: float, harmonics: int) -> tuple[float, float, float]:
    """Return frequency [rad/s], its standard deviation and the part of the variance explained."""
    t = (np.arange(len(x)) - (len(x) - 1) / 2) / rate  # centred: frequency and phases are then nearly uncorrelated
    k = np.arange(1, harmonics + 1)
    for _ in range(30):
        angle = np.exp(1j * w * t)[:, None] ** k
        basis = np.concatenate([np.ones((len(t), 1)), angle.real, angle.imag], axis=1)
        gram = basis.T @ basis
        coefficients = np.linalg.solve(gram, basis.T @ x)
        residual = x - basis @ coefficients
        cosine, sine = coefficients[1:harmonics + 1], coefficients[harmonics + 1:]
        slope = t[:, None] * ((angle.real * k) @ sine - (angle.imag * k) @ cosine)  # dx / dw
        slope -= basis @ np.linalg.solve(gram, basis.T @ slope)
        variance = residual.var(axis=0) + 1e-20  # x has variance 1
        information = float(np.sum(slope**2 / variance))
        step = float(np.sum(slope * residual / variance)) / information
        w += step
        if abs(step) * harmonics * (t[-1] - t[0]) < 1e-8:
            return w, 1 / np.sqrt(information), float(1 - np.mean(residual**2))
    raise NotConverged(f"the period does not settle near {2 * np.pi / w:.6g} s; give a better nominal one or cut off "
                       "stretches of rest", period=2 * np.pi / w)


def resample_to_period(recording: Recording, period: float | PeriodEstimate | None = None) -> Recording:
    """Return the whole periods of a recording with a whole number of samples in each.

    A record of exactly whole periods keeps them all although an estimate of the period may be a little too long: it is
    shortened to fit where it then lies within four of its standard deviations (a given one: a hundredth of a sample).
    None means that it is estimated. [s]

    Raises:
        InvalidRecording: Less than one period, or `estimate_period` failed.
    """
    if period is None:
        period = estimate_period(recording)
    seconds = period.seconds if isinstance(period, PeriodEstimate) else float(period)
    if not np.isfinite(seconds) or seconds <= 0:
        raise InvalidInput(f"a period of {seconds} s; expected a positive number")
    n = max(round(seconds * recording.rate), 2)
    start, end = float(recording.time[0]), float(recording.time[-1])
    count, seconds = _fitted(seconds, period.std if isinstance(period, PeriodEstimate) else 0.0, n, end - start)
    if count < 1:
        raise InvalidRecording(f"{recording.source}: {end - start:.6g} s hold no whole period of {seconds:.6g} s",
                               source=recording.source, period=seconds)
    time = np.minimum(start + np.arange(count * n) * (seconds / n), end)
    made = resample(recording, time, "cubic")  # disturbs noise and harmonics least
    note = Finding(kind="resampled", channel=recording.source, numbers={"period": seconds, "samples": n},
                   message=f"put on a clock with {n} samples in each of {count} periods of {seconds:.9g} s "
                           "(cubic interpolation)")
    return replace(made, period_samples=n, quality=(*made.quality, note))


def _fitted(seconds: float, std: float, samples: int, span: float) -> tuple[int, float]:
    """Return how many periods fit between first and last sample, `span` apart, and the period that makes them fit."""
    step = seconds / samples
    count = int(np.floor((span + 1.5 * step) / seconds))  # as if there were half a sample more
    excess = count * seconds - step - span
    if excess > max(1e-2 * step, 4 * count * std):
        return count - 1, seconds
    return count, min(seconds, span / (count - 1 / samples)) if count else seconds
