"""Spectra, filters, running extremes and what is usual near a sample, in a few lines each.

Spectra, filters and extremes equal those of scipy.signal and
scipy.ndimage, whose import takes longer than many commands. What is
usual near a sample depends on its neighbours only, so that a log gives
the same whether it is read whole or in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.linalg.lapack import dtbtrs

from gough.core.arrays import BoolArray, FloatArray, IntArray

# What is assumed beyond the ends: the last sample, the other end, or
# zeros
Ends = Literal["edge", "wrap", "constant"]
NEIGHBOURS = 16  # samples on each side that tell what is usual
WINDOWS_AT_ONCE = 4096  # few enough to stay in the cache of the processor
# of the largest number of a channel: smaller changes are rounding
ROUNDING_RATIO = 1e-12
# Samples on each side that the functions of this file depend on, with
# some to spare.
NEIGHBOUR_REACH = 2 * NEIGHBOURS + 8


def power_density(signal: FloatArray, segment: int) -> tuple[FloatArray, FloatArray]:
    """Estimate the power spectral density along the first axis by the method of Welch.

    Mean of the periodograms of segments with a Hann window, half of
    each overlapping the next, without their mean. Departure: none from
    `scipy.signal.welch(signal, nperseg=segment, axis=0)`.

    Args:
        signal: Samples, (t, ...).
        segment: Samples of a segment, at most t.

    Returns:
        Frequencies in cycles per sample, (f,), and the one-sided
            density, (f, ...).
    """
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(segment) / segment)
    column = window.reshape(-1, *[1] * (signal.ndim - 1))
    starts = range(0, len(signal) - segment + 1, segment - segment // 2)
    density = np.zeros((segment // 2 + 1, *signal.shape[1:]))
    for start in starts:
        block = signal[start : start + segment]
        spectrum = np.fft.rfft(column * (block - block.mean(axis=0)), axis=0)
        density += np.abs(spectrum) ** 2
    density /= len(starts) * (window**2).sum()
    last = -1 if segment % 2 == 0 else None  # at the Nyquist frequency there is one side only
    density[1:last] *= 2
    frequency = np.arange(len(density)) / segment
    return frequency, density


def kaiser_lowpass(cutoff: float, width: float, attenuation: float) -> FloatArray:
    """Return a symmetric FIR low-pass with a Kaiser window: odd length, sum 1.

    Number of taps and shape of the window by Kaiser's formulas for
    attenuations of 21 to 50 dB, as `scipy.signal.kaiserord` and
    `firwin`.

    Args:
        cutoff: Frequency of half the amplitude, as a fraction of the
            Nyquist frequency.
        width: Of the transition, as a fraction of the Nyquist
            frequency.
        attenuation: Beyond the transition. [dB]
    """
    n_taps = int(np.ceil((attenuation - 7.95) / (2.285 * np.pi * width) + 1)) | 1
    beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)
    position = np.arange(n_taps) - (n_taps - 1) / 2
    taps = cutoff * np.sinc(cutoff * position) * np.kaiser(n_taps, beta)
    return np.asarray(taps / taps.sum())


def recursive_filter(
    signal: FloatArray,
    numerator: Sequence[float],
    denominator: Sequence[float],
    start: FloatArray,
) -> FloatArray:
    """Filter along the first axis by y_t = sum_k b_k x_(t-k) - sum_k a_k y_(t-k).

    The equations of all samples are one triangular band matrix, which
    LAPACK solves. Departure: none from `scipy.signal.lfilter(numerator,
    [1, *denominator], signal, axis=0, zi=start)`.

    Args:
        signal: The input x, (t, ...).
        numerator: b_0, b_1, ...
        denominator: a_1, a_2, ...
        start: Added to the first outputs, for what was before the first
            sample, one row for each coefficient of the denominator, (k, ...).
    """
    flat = np.asfortranarray(signal.reshape(len(signal), -1))  # as LAPACK solves it
    right_side = numerator[0] * flat
    for delay, coefficient in enumerate(numerator[1:], start=1):
        right_side[delay:] += coefficient * flat[: len(flat) - delay]
    right_side[: len(start)] += start.reshape(len(start), -1)
    bands = np.ones((1 + len(denominator), len(flat)), order="F")  # diagonal, and below it
    bands[1:] = np.reshape(denominator, (-1, 1))
    outputs, _ = dtbtrs(bands, right_side, uplo="L", diag="U", overwrite_b=1)
    return np.ascontiguousarray(outputs).reshape(signal.shape)


def padded_ends(values: NDArray[Any], width: int, ends: Ends = "edge") -> NDArray[Any]:
    """Return samples continued so that each has a window of `width` samples around it.

    A window of even width has one more sample before its middle than
    after it.
    """
    before = width // 2
    after = width - 1 - before
    return np.pad(values, [(before, after), *[(0, 0)] * (values.ndim - 1)], mode=ends)


def running(
    extreme_of_two: Callable[..., Any], values: NDArray[Any], width: int, ends: Ends = "edge"
) -> NDArray[Any]:
    """Return the extreme of a window around each sample, along the first axis.

    It follows from the extremes of windows of 1, 2, 4, ... samples.

    Args:
        extreme_of_two: `np.maximum` or `np.minimum`.
        values: Samples, (t, ...).
        width: Samples of a window.
        ends: What is assumed beyond the ends.
    """
    extreme = padded_ends(values, width, ends)
    reach = 1  # samples of which `extreme` is that
    while 2 * reach <= width:
        extreme = extreme_of_two(extreme[:-reach], extreme[reach:])
        reach *= 2
    n = len(values)
    shift = width - reach
    return np.asarray(extreme_of_two(extreme[:n], extreme[shift : shift + n]))


def weighted_window(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted sum of a window around each sample, along the first axis."""
    continued = padded_ends(values, len(weights))
    total = np.zeros(values.shape)
    for k, weight in enumerate(weights):
        total += weight * continued[k : k + len(values)]
    return total


def median_around(values: FloatArray, reach: int) -> FloatArray:
    """Return the running median over 2 `reach` + 1 samples of each column, (t, k)."""
    width = 2 * reach + 1
    median = np.empty_like(values)
    for j, column in enumerate(values.T):
        windows = sliding_window_view(padded_ends(column, width), width)
        for start in range(0, len(windows), WINDOWS_AT_ONCE):
            some = slice(start, start + WINDOWS_AT_ONCE)
            median[some, j] = np.partition(windows[some], reach, axis=1)[:, reach]
    return median


def usual_size(values: FloatArray, samples: IntArray, skip: int = 2) -> FloatArray:
    """Return the usual magnitude of the neighbours of some samples, (n, ...).

    The larger of two medians, over `NEIGHBOURS` samples before and
    after it, so that a signal that is quiet on one side only is
    measured by the other side.

    Args:
        values: Magnitudes, (t, ...).
        samples: Numbers of the samples, (n,).
        skip: Samples on each side that do not count.
    """
    half = NEIGHBOURS // 2
    last = len(values) - 1
    window = np.arange(-half, half + 1)
    usual = np.zeros((len(samples), *values.shape[1:]))
    for side in (-1, 1):
        middle = np.clip(samples + side * (half + skip + 1), 0, last)
        neighbours = values[np.clip(middle[:, None] + window, 0, last)]
        usual = np.maximum(usual, np.partition(neighbours, half, axis=1)[:, half])
    return usual


def least_usual_size(values: FloatArray, skip: int = 2) -> FloatArray:
    """Return a lower bound of `usual_size` at all samples, fast to compute, (t, ...).

    The median of 2 h + 1 samples is not below the smallest of one of
    them and of the larger ones of h pairs: h of the samples at most are
    below that.

    Args:
        values: Magnitudes, (t, ...).
        skip: Samples on each side that do not count.
    """
    half = NEIGHBOURS // 2
    n = len(values) - 2 * half
    bound = np.zeros(values.shape)
    if n <= skip + 1:  # no sample has a whole window beside it
        return bound
    smallest = np.maximum(values[:-1], values[1:])  # of pairs
    reach = 2  # samples of the pairs of which `smallest` is the smallest
    while reach < 2 * half:
        smallest = np.minimum(smallest[:-reach], smallest[reach:])
        reach *= 2
    smallest = np.minimum(smallest[:n], values[2 * half :])  # of the window that begins there
    distance = half + skip + 1  # from the middle of a window to the sample
    bound[half + distance :] = smallest[: n + half - distance]
    before = bound[: n - distance + half]
    np.maximum(before, smallest[distance - half :], out=before)
    return bound


def local_resolution(values: FloatArray, repeated: BoolArray | None = None) -> FloatArray:
    """Return the smallest step that each column makes near each sample, (t, k).

    That is the step of an encoder, or the last digit that was printed,
    which changes with the magnitude of a number: the smallest change of
    the increments nearby, and where a column keeps its value, the
    smallest increment. It is tiny where values are continuous.

    Args:
        values: Samples by column, (t, k).
        repeated: Samples that repeat the one before for another reason,
            (t,).
    """
    width = 2 * NEIGHBOURS + 1
    increments = np.diff(values, axis=0, prepend=values[:1])
    change = np.abs(np.diff(increments, axis=0, append=increments[-1:]))
    change[change <= ROUNDING_RATIO * np.abs(values).max(axis=0, initial=0.0)] = np.inf
    smallest = running(np.minimum, change, width)
    overall = change.min(axis=0, initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, overall)
    smallest = np.where(np.isfinite(smallest), smallest, 0.0)
    keeps = increments == 0
    keeps[0] = False
    if repeated is not None:
        keeps[repeated] = False
    keeps_nearby = running(np.maximum, keeps, width)
    moved = np.where(increments == 0, np.inf, np.abs(increments))
    smallest_move = running(np.minimum, moved, width)
    coarse = keeps_nearby & np.isfinite(smallest_move)
    return np.where(coarse, np.maximum(smallest, smallest_move), smallest)


class PolynomialDistance:
    """Distance of each sample from the polynomial through others at given places beside it.

    Without a clock, samples are evenly spaced, and the same weights
    hold for all of them.
    """

    def __init__(self, time: FloatArray | None, places: tuple[int, ...]) -> None:
        self._places = places
        self._before = max(0, -places[0])
        self._after = max(0, places[-1])
        if time is None:
            time = np.arange(self._before + self._after + 1.0)
        sample = np.arange(self._before, len(time) - self._after)
        around = sample + np.array(places)[:, None]
        self._weights = lagrange_weights(time, around, sample)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the distances of all samples whose places lie inside of the log, (n, ...)."""
        n = len(values) - self._before - self._after
        distance = values[self._before : self._before + n].copy()
        for place, weight in zip(self._places, self._weights):
            first = self._before + place
            distance -= weight.reshape(-1, *[1] * (values.ndim - 1)) * values[first : first + n]
        return np.abs(distance, out=distance)


def lagrange_weights(time: FloatArray, around: IntArray, sample: IntArray) -> FloatArray:
    """Return the weights of samples in the polynomial through them at others, (p, n).

    Args:
        around: Samples that the polynomial passes, (p, n).
        sample: Where it is evaluated, (n,).
    """
    weights = np.ones(around.shape)
    instant = time[sample]
    others = time[around]
    for i, weight in enumerate(weights):
        for k in range(len(around)):
            if k != i:
                weight *= (instant - others[k]) / (others[i] - others[k])
    return weights
