"""Time-domain filters: zero-phase Butterworth low-pass and central differences, and rules for their cut-offs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, detrend, sosfiltfilt, welch

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.checks import check_even
from gough.logs.recording import Recording


@dataclass(frozen=True, kw_only=True, eq=False)
class Derivatives:
    """A signal with its first two derivatives by time, (t, k) each."""

    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray

    def __post_init__(self) -> None:
        for name in ("position", "velocity", "acceleration"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            check_shape(getattr(self, name), self.position.shape, name)


def check_cutoff(cutoff: float, rate: float) -> None:
    """Raise `InvalidInput` unless the cut-off lies between zero and the Nyquist frequency. [Hz]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"sampling rate is {rate} Hz, expected a positive number", rate=rate)
    if not 0 < cutoff < rate / 2:
        raise InvalidInput(f"cut-off {cutoff:.6g} Hz is not between 0 and the Nyquist frequency {rate / 2:.6g} Hz of "
                           f"{rate:.6g} Hz sampling; choose a lower one", cutoff=cutoff, nyquist=rate / 2)


def zero_phase(values: FloatArray, rate: float, cutoff: float, order: int = 4) -> FloatArray:
    """Low-pass filter forward and backward with a Butterworth filter along the first axis.

    The gain is 1 / (1 + (tan(pi f / rate) / tan(pi cutoff / rate))^(2 order)), real: no delay, 6 dB at the cut-off.
    The ends are extended by point reflection over 3 `order` samples as MATLAB's filtfilt does.

    Args:
        values: Samples on an even clock, (t, ...).
        rate: Sampling rate. [Hz]
        cutoff: Cut-off frequency. [Hz]
        order: Order of the one-way filter.

    Raises:
        InvalidInput: Cut-off not below Nyquist, or fewer samples than the extension needs.
    """
    check_cutoff(cutoff, rate)
    if order < 1 or len(values) <= 3 * order:
        raise InvalidInput(f"a filter of order {order} on {len(values)} samples; expected an order from 1 and more "
                           f"than {3 * max(order, 1)} samples", samples=len(values))
    sections = butter(order, cutoff, fs=rate, output="sos")
    return np.asarray(sosfiltfilt(sections, values, axis=0, padlen=3 * order))


def central_difference(values: FloatArray, rate: float) -> FloatArray:
    """Differentiate along the first axis: (x[k+1] - x[k-1]) rate / 2, one-sided at the two ends.

    The gain is sin(w) / w of the true derivative, w = 2 pi f / rate.
    """
    if len(values) < 2:
        raise InvalidInput(f"{len(values)} samples cannot be differentiated; at least 2 are needed")
    return np.asarray(np.gradient(values, 1.0 / rate, axis=0))


def differentiate(values: FloatArray, rate: float, cutoff: float | None, order: int = 4) -> Derivatives:
    """Filter a signal and differentiate it twice by central differences (BG13 section 3.1, P03 section 4.1).

    Args:
        values: Samples on an even clock, (t, k).
        rate: Sampling rate. [Hz]
        cutoff: Cut-off of the zero-phase low-pass; None filters nothing: the raw comparison of AH09 Fig. 4. [Hz]
        order: Order of the one-way Butterworth filter.
    """
    check_finite(values, "signal")
    smooth = values if cutoff is None else zero_phase(values, rate, cutoff, order)
    velocity = central_difference(smooth, rate)
    return Derivatives(position=smooth, velocity=velocity, acceleration=central_difference(velocity, rate))


def edge_samples(rate: float, cutoff: float) -> int:
    """Return how many samples at each end the zero-phase filter may spoil: five over the cut-off.

    The ends are guessed by reflection; their error decays with the impulse response, whose length is about one over
    the cut-off.
    """
    check_cutoff(cutoff, rate)
    return int(np.ceil(5.0 * rate / cutoff))


def motion_bandwidth(position: FloatArray, rate: float, energy: float = 0.99) -> float:
    """Return the frequency below which this part of the acceleration energy lies, in the fastest channel. [Hz]

    From the spectrum of the positions (Welch, Hann window) without its white noise floor, which is the median above
    half the Nyquist frequency; bins below a hundred times the floor count as noise: their accelerations would be.

    Args:
        position: Positions on an even clock, (t, a).
        rate: Sampling rate. [Hz]
        energy: Part of the acceleration energy, between 0 and 1.

    Raises:
        InvalidRecording: Nothing moves above the noise.
    """
    if not 0 < energy < 1:
        raise InvalidInput(f"energy is {energy}, expected a part between 0 and 1")
    frequency, power, floor = _spectrum(position, rate)
    motion = np.where(power > 100.0 * floor, power - floor, 0.0) * frequency[:, None] ** 4
    total = motion.sum(axis=0)
    if not np.any(total > 0):
        raise InvalidRecording("no motion stands out of the noise of the positions; choose the cut-off yourself")
    share = np.cumsum(motion[:, total > 0], axis=0) / total[total > 0]
    return float(frequency[np.argmax(share >= energy, axis=0)].max())


def _spectrum(position: FloatArray, rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return frequencies [Hz], power density of each channel and its white floor."""
    count = len(position)
    if count < 32:
        raise InvalidRecording(f"{count} samples are too few to estimate a bandwidth; at least 32 are needed")
    window = min(count, max(32, 2 ** int(np.log2(count / 4))))
    frequency, power = welch(detrend(position, axis=0), fs=rate, nperseg=window, axis=0, detrend=False)
    return frequency, power, np.median(power[frequency >= rate / 4], axis=0)


def quiet_cutoff(position: FloatArray, rate: float, order: int = 4) -> float:
    """Return the cut-off that leaves the smallest error of the acceleration, in the channel that wants most. [Hz]

    With S the spectrum of the motion, N the white floor of the positions and G the gain of `zero_phase`, the error is
    sum f^4 ((1 - G)^2 S + G^2 N): motion that is lost and noise that is kept. Bins within four times the floor count
    as noise.

    Args:
        position: Positions on an even clock, (t, a).
        rate: Sampling rate. [Hz]
        order: Order of the one-way Butterworth filter.
    """
    frequency, power, floor = _spectrum(position, rate)
    weight = frequency[:, None] ** 4
    motion = np.where(power > 4.0 * floor, power - floor, 0.0) * weight
    noise = floor * weight
    warped = np.tan(np.pi * np.minimum(frequency / rate, 0.4999))
    cutoffs = np.geomspace(frequency[1], 0.4 * rate, 100)
    errors = np.empty((len(cutoffs), position.shape[1]))
    for k, cutoff in enumerate(cutoffs):
        gain = (1.0 / (1.0 + (warped / np.tan(np.pi * cutoff / rate)) ** (2 * order)))[:, None]
        errors[k] = ((1.0 - gain) ** 2 * motion + gain**2 * noise).sum(axis=0)
    return float(cutoffs[errors.argmin(axis=0)].max())


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterSettings:
    """How to filter positions and decimate; made by `default_filters` or by hand.

    Args:
        cutoff: Low-pass cut-off of the positions. [Hz]
        order: Order of the one-way Butterworth filter.
        decimation: Keep one of so many samples of regressor and effort; 1 keeps all.
        bandwidth: Bandwidth of the motion they were made for, or None. [Hz]
    """

    cutoff: float
    order: int = 4
    decimation: int = 1
    bandwidth: float | None = None


def default_filters(recording: Recording, *, bandwidth: float | None = None, cutoff: float | None = None,
                    order: int = 4, decimation: int | None = None) -> FilterSettings:
    """Choose filters from data by the practical rules of the field; every number can be given instead.

    With f_dyn the bandwidth of the motion (`motion_bandwidth`): positions are low-passed at 5 f_dyn, where the filter
    still passes f_dyn to 3e-6 (the rule is 5 to 10 times; here f_dyn is a generous one), but at most at 0.8 of Nyquist,
    and lower where the noise of the positions asks for it (`quiet_cutoff`); regressor and effort are decimated by n_d
    such that 0.8 rate / (2 n_d) is about 5 f_dyn too (BG13 after (19)).

    Args:
        recording: Samples on an even clock.
        bandwidth: Bandwidth of the motion. [Hz]
        cutoff: Cut-off of the positions. [Hz]
        order: Order of the one-way Butterworth filter.
        decimation: Decimation factor.

    Raises:
        InvalidRecording: An uneven clock, too few samples or no motion; names the recording.
    """
    rate = check_even(recording)
    try:
        if bandwidth is None and (cutoff is None or decimation is None):
            bandwidth = motion_bandwidth(recording.position, rate)
        if cutoff is None:
            cutoff = min(5.0 * (bandwidth or 0.0), 0.4 * rate, quiet_cutoff(recording.position, rate, order))
    except InvalidRecording as error:
        raise InvalidRecording(f"{recording.source}: {error}", source=recording.source, **error.numbers) from error
    check_cutoff(cutoff, rate)
    if decimation is None:
        decimation = max(1, int(0.8 * rate / (10.0 * (bandwidth or rate))))
    if decimation < 1:
        raise InvalidInput(f"decimation by {decimation}; expected a whole number from 1")
    return FilterSettings(cutoff=cutoff, order=order, decimation=decimation, bandwidth=bandwidth)
