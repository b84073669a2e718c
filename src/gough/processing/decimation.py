"""Parallel decimation: the same low-pass on effort and on every column of the regressor, then every n-th sample.

A linear filter in parallel changes nothing in effort = regressor @ parameters (BG13 (19)-(20)).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np
from scipy.signal import cheby1, firwin, kaiserord, resample, sosfiltfilt

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.regression import Regression

_OUTPUTS = 8  # samples made by one matrix product: enough to use BLAS, few enough to waste little on zeros


def _check_factor(factor: int) -> None:
    if factor < 1 or factor != int(factor):
        raise InvalidInput(f"decimation by {factor}; expected a whole number from 1")


def decimate(values: FloatArray, factor: int) -> FloatArray:
    """Decimate along the first axis as MATLAB's `decimate` does.

    Chebyshev filter of type I, order 8, ripple 0.05 dB, cut-off 0.8 of the new Nyquist frequency, forward and backward
    with point reflection over 24 samples; of t samples those at t, t - r, t - 2 r, ... (counted from 1) are kept.
    Whole arrays only: in blocks use `decimate_blocks`.

    Args:
        values: Samples on an even clock, (t, ...).
        factor: Keep one sample of so many; above 13 rather decimate twice.

    Raises:
        InvalidInput: Factor below 1, or not more than 24 samples.
    """
    _check_factor(factor)
    if factor == 1:
        return np.array(values, dtype=float)
    if len(values) <= 24:
        raise InvalidInput(f"{len(values)} samples are too few to decimate; more than 24 are needed",
                           samples=len(values))
    smooth = sosfiltfilt(_chebyshev(factor), values, axis=0, padlen=24)
    return np.ascontiguousarray(smooth[_phase(len(values), factor)::factor])


def _chebyshev(factor: int) -> FloatArray:
    return np.asarray(cheby1(8, 0.05, 0.8 / factor, output="sos"))


def _phase(samples: int, factor: int) -> int:
    """Return the first index kept such that the last sample is kept too."""
    return (samples - 1) % factor


@lru_cache(maxsize=32)
def _chebyshev_noise_gain(factor: int) -> float:
    """Return the variance of filtered white noise of variance 1: the energy of the impulse response."""
    impulse = np.zeros(800 * factor + 1)
    impulse[400 * factor] = 1.0
    response = sosfiltfilt(_chebyshev(factor), impulse, padlen=24)
    return float(response @ response)


def decimation_taps(factor: int, attenuation: float = 60.0) -> FloatArray:
    """Return a symmetric FIR low-pass for decimation, odd length, sum 1.

    Kaiser window; half amplitude at 0.8 of the new Nyquist frequency (BG13 after (19)), full attenuation from the new
    Nyquist frequency on, so that nothing folds back.

    Args:
        factor: Decimation factor.
        attenuation: Of what would fold back. [dB]
    """
    _check_factor(factor)
    if factor == 1:
        return np.ones(1)
    count, beta = kaiserord(attenuation, 0.4 / factor)
    return np.asarray(firwin(count | 1, 0.8 / factor, window=("kaiser", beta)))


def decimate_fir(values: FloatArray, factor: int, taps: FloatArray | None = None) -> FloatArray:
    """Decimate along the first axis with a FIR filter: y[n] = sum_j taps[j] x[n factor + j].

    y[n] stands at input sample n factor + (len(taps) - 1) / 2. Only outputs whose whole window is inside are made:
    nothing is assumed beyond the ends.

    Args:
        values: Samples on an even clock, (t, ...).
        factor: Decimation factor.
        taps: Symmetric filter of odd length; `decimation_taps` by default.

    Returns:
        ((t - len(taps)) // factor + 1, ...), or no samples if the window does not fit.
    """
    return next(decimate_blocks([values], factor, taps))


def decimate_blocks(blocks: Iterable[FloatArray], factor: int, taps: FloatArray | None = None) -> Iterator[FloatArray]:
    """Decimate a stream of blocks exactly as `decimate_fir` does the whole, in constant memory.

    Yields:
        For every block the outputs it completes, possibly none.

    Raises:
        InvalidInput: Factor below 1, or taps that are not symmetric, of even length or shorter than the factor.
    """
    h = _checked_taps(factor, taps)
    band = _band(h, factor)
    rest: FloatArray | None = None
    for block in blocks:
        x = np.asarray(block, dtype=float)
        flat = x.reshape(len(x), prod(x.shape[1:]))
        if rest is not None:
            flat = np.concatenate([rest, flat])
        made = _filtered(flat, band, len(h), factor)
        rest = flat[len(made) * factor:].copy()
        yield made.reshape(len(made), *x.shape[1:])


def _checked_taps(factor: int, taps: FloatArray | None) -> FloatArray:
    _check_factor(factor)
    h = decimation_taps(factor) if taps is None else np.asarray(taps, dtype=float)
    if h.ndim != 1 or len(h) % 2 == 0 or not np.allclose(h, h[::-1], rtol=0, atol=1e-12 * np.abs(h).max()):
        raise InvalidInput("decimation needs a symmetric filter of odd length, or signals would be shifted in time")
    if len(h) < factor:
        raise InvalidInput(f"{len(h)} taps for decimation by {factor}; expected at least as many as the factor")
    return h


def _band(h: FloatArray, factor: int) -> FloatArray:
    """Return the matrix that makes `_OUTPUTS` samples at once: decimation becomes a product of dense blocks."""
    band = np.zeros((_OUTPUTS, (_OUTPUTS - 1) * factor + len(h)))
    for k in range(_OUTPUTS):
        band[k, k * factor:k * factor + len(h)] = h
    return band


def _filtered(flat: FloatArray, band: FloatArray, length: int, factor: int) -> FloatArray:
    """Return all outputs whose window of `length` samples lies inside, (t, c) -> (count, c)."""
    count = max(0, (len(flat) - length) // factor + 1)
    made = np.empty((count, flat.shape[1]))
    for start in range(0, count, _OUTPUTS):
        k = min(_OUTPUTS, count - start)
        span = (k - 1) * factor + length
        np.matmul(band[:k, :span], flat[start * factor:start * factor + span], out=made[start:start + k])
    return made


def decimate_regression(regression: Regression, factor: int) -> Regression:
    """Decimate regressor, effort and replicates in parallel with `decimate`, each group on its own.

    A covariance is taken as that of white noise and multiplied by the energy of the filter's impulse response.
    """
    _check_factor(factor)
    if factor == 1:
        return regression
    gain = _chebyshev_noise_gain(factor)
    parts = []
    for part in _runs(regression):
        keep = slice(_phase(len(part), factor), None, factor)
        cov = part.covariance
        parts.append(replace(
            part,
            regressor=decimate(part.regressor, factor), effort=decimate(part.effort, factor),
            covariance=None if cov is None else gain * (cov[keep] if cov.ndim == 3 else cov),
            time=None if part.time is None else part.time[keep],
            group=None if part.group is None else part.group[keep],
            replicates=None if part.replicates is None
            else decimate(part.replicates.swapaxes(0, 1), factor).swapaxes(0, 1)))
    return _joined(parts)


def decimate_period(regression: Regression, factor: int) -> Regression:
    """Decimate the regression of exactly one period in parallel: an ideal low-pass at the new Nyquist frequency.

    The DFTs of regressor, effort and replicates keep the harmonics of t // factor samples. Nothing is guessed at the
    ends, and white noise stays white with 1 / factor of its covariance. A jump of friction and the jerk it causes stay
    on both sides of the equation as long as positions were filtered well above the new Nyquist frequency.

    Raises:
        InvalidInput: Factor below 1, several groups, or less than two samples left.
    """
    _check_factor(factor)
    if factor == 1:
        return regression
    t, left = len(regression), len(regression) // factor
    if left < 2 or (regression.group is not None and len(np.unique(regression.group)) > 1):
        raise InvalidInput(f"{t} samples cannot be decimated by {factor} as one period", samples=t)
    cov, time, replicates = regression.covariance, regression.time, regression.replicates
    if cov is not None:
        cov = (cov[np.arange(left) * t // left] if cov.ndim == 3 else cov) * left / t
    if time is not None:
        time = time[0] + (time[1] - time[0]) * t / left * np.arange(left)
    return replace(
        regression, regressor=resample(regression.regressor, left), effort=resample(regression.effort, left),
        covariance=cov, time=time, group=None if regression.group is None else regression.group[:left],
        replicates=None if replicates is None else resample(replicates, left, axis=1))


def decimate_regression_blocks(blocks: Iterable[Regression], factor: int,
                               taps: FloatArray | None = None) -> Iterator[Regression]:
    """Decimate a stream of regressions with a FIR filter, in constant memory, exact across block borders.

    Where the group changes a new stretch begins: no window reaches over it. A covariance is taken as that of white
    noise: sum_j taps[j]^2 Sigma[n factor + j].

    Args:
        blocks: Consecutive pieces of one problem.
        factor: Decimation factor.
        taps: Symmetric filter of odd length; `decimation_taps` by default.

    Yields:
        Regressions of the samples completed; pieces without any are left out.
    """
    h = _checked_taps(factor, taps)
    bands = (_band(h, factor), _band(h**2, factor))
    middle = (len(h) - 1) // 2
    label: int | None = None
    rest: tuple[FloatArray, FloatArray, FloatArray] | None = None
    for block in blocks:
        for part in _runs(block) if len(block) else ():
            group = None if part.group is None else int(part.group[0])
            signals, noise, time = _packed(part, rest if group == label else None)
            made = _filtered(signals, bands[0], len(h), factor)
            count = len(made)
            if count:
                kept = time[middle:middle + (count - 1) * factor + 1:factor]
                variances = _filtered(noise, bands[1], len(h), factor)
                yield _unpacked(part, made, variances, kept, float(h @ h), group)
            label, used = group, count * factor
            rest = (signals[used:].copy(), noise[used:].copy(), time[used:].copy())


def _packed(part: Regression, rest: tuple[FloatArray, FloatArray, FloatArray] | None
            ) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what is filtered by h, what by h^2 and the times, (t, c) each, behind the samples left over."""
    t = len(part)
    signals = [part.regressor.reshape(t, -1), part.effort]
    if part.replicates is not None:
        signals.append(part.replicates.swapaxes(0, 1).reshape(t, -1))
    cov = part.covariance
    noise = [cov.reshape(t, -1) if cov is not None and cov.ndim == 3 else np.empty((t, 0))]
    times = [np.empty((t, 0)) if part.time is None else part.time[:, None]]
    before = rest or tuple(np.empty((0, sum(a.shape[1] for a in arrays))) for arrays in (signals, noise, times))
    packed = []
    for arrays, old in zip((signals, noise, times), before):
        whole = np.empty((len(old) + t, old.shape[1]))
        whole[:len(old)] = old
        np.concatenate(arrays, axis=1, out=whole[len(old):])
        packed.append(whole)
    return packed[0], packed[1], packed[2]


def _unpacked(part: Regression, made: FloatArray, variances: FloatArray, time: FloatArray, gain: float,
              group: int | None) -> Regression:
    """Return the regression of filtered samples; `part` gives shapes and names."""
    _, r, p = part.regressor.shape
    count, cov = len(made), part.covariance
    if cov is not None:
        cov = variances.reshape(count, r, r) if cov.ndim == 3 else gain * cov
    return replace(
        part, regressor=made[:, :r * p].reshape(count, r, p), effort=made[:, r * p:r * p + r], covariance=cov,
        time=None if part.time is None else time[:, 0], group=None if group is None else np.full(count, group),
        replicates=None if part.replicates is None
        else made[:, r * p + r:].reshape(count, -1, r).swapaxes(0, 1))


def _joined(parts: list[Regression]) -> Regression:
    """Put stretches back together, labels unchanged."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def stacked(name: str, axis: int = 0) -> FloatArray | None:
        return None if getattr(first, name) is None else np.concatenate([getattr(p, name) for p in parts], axis=axis)

    constant = first.covariance is None or first.covariance.ndim == 2
    return replace(
        first, regressor=np.concatenate([p.regressor for p in parts]), effort=np.concatenate([p.effort for p in parts]),
        covariance=first.covariance if constant else stacked("covariance"), time=stacked("time"),
        group=None if first.group is None else np.concatenate([p.group for p in parts if p.group is not None]),
        replicates=stacked("replicates", axis=1))


def _runs(regression: Regression) -> Iterator[Regression]:
    """Yield the stretches of samples in which the group stays the same."""
    if regression.group is None or not len(regression):
        yield regression
        return
    # A regression of one group is passed on as it is: no copy.
    edges = [0, *(np.flatnonzero(np.diff(regression.group)) + 1).tolist(), len(regression)]
    for start, end in pairwise(edges):
        yield regression if end - start == len(regression) else regression.take(slice(start, end))
