"""Spectra, filters and running extremes in a few lines each.

They equal those of scipy.signal and scipy.ndimage, whose import takes longer than many commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from gough.core.arrays import FloatArray

# What is assumed beyond the ends: the last sample, the other end, or zeros
Ends = Literal["edge", "wrap", "constant"]


def power_density(signal: FloatArray, segment: int) -> tuple[FloatArray, FloatArray]:
    """Estimate the power spectral density along the first axis by the method of Welch.

    Mean of the periodograms of segments with a Hann window, half of each overlapping the
    next, without their mean. Departure: none from `scipy.signal.welch(signal,
    nperseg=segment, axis=0)`.

    Args:
        signal: Samples, (t, ...).
        segment: Samples of a segment, at most t.

    Returns:
        Frequencies in cycles per sample, (f,), and the one-sided density, (f, ...).
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

    Number of taps and shape of the window by Kaiser's formulas for attenuations of 21 to 50
    dB, as `scipy.signal.kaiserord` and `firwin`.

    Args:
        cutoff: Frequency of half the amplitude, as a fraction of the Nyquist frequency.
        width: Of the transition, as a fraction of the Nyquist frequency.
        attenuation: Beyond the transition. [dB]
    """
    n_taps = int(np.ceil((attenuation - 7.95) / (2.285 * np.pi * width) + 1)) | 1
    beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)
    position = np.arange(n_taps) - (n_taps - 1) / 2
    taps = cutoff * np.sinc(cutoff * position) * np.kaiser(n_taps, beta)
    return np.asarray(taps / taps.sum())


def first_order_filter(
    signal: FloatArray,
    numerator: tuple[float, float],
    pole: float,
    start: FloatArray | float,
) -> FloatArray:
    """Filter along the first axis by y_t = pole y_(t-1) + b_0 x_t + b_1 x_(t-1).

    Args:
        signal: The input x, (t, ...).
        numerator: b_0 and b_1.
        pole: Between 0 and 1.
        start: Added to the first output, for what was before the first sample, (...).
    """
    flat = signal.reshape(len(signal), -1)
    right_side = numerator[0] * flat
    right_side[1:] += numerator[1] * flat[:-1]
    right_side[0] += np.ravel(start)
    bands = np.ones((2, len(flat)))  # diagonal, and below it
    bands[1] = -pole
    return np.asarray(solve_banded((1, 0), bands, right_side)).reshape(signal.shape)


def padded_ends(values: NDArray[Any], width: int, ends: Ends = "edge") -> NDArray[Any]:
    """Return samples continued so that each has a window of `width` samples around it.

    A window of even width has one more sample before its middle than after it.
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
