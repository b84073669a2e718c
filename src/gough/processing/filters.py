"""Zero-phase low-pass and derivatives of positions in time, exact in blocks that overlap by the filter's memory."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import correlate1d

from gough.core.arrays import FloatArray, check_finite
from gough.core.errors import InvalidInput
from gough.core.trajectory.base import PositionVelocityAcceleration

ORDER = 4  # of the one-way Butterworth filter
# The slowest pole decays by exp(-2.4 cutoff t): to below 1e-3 after 3 / cutoff, to rounding after 14 / cutoff.
SPOILT, MEMORY = 3.0, 14.0
# Central difference of order 8: (4/5, -1/5, 4/105, -1/280), right to 1e-4 up to a tenth of the sampling rate.
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])


def check_cutoff(cutoff: float, rate: float) -> None:
    """Raise `InvalidInput` unless the cut-off lies between zero and the Nyquist frequency. [Hz]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"sampling rate is {rate} Hz, expected a positive number", rate=rate)
    if not 0 < cutoff < rate / 2:
        raise InvalidInput(f"cut-off {cutoff:.6g} Hz is not between 0 and the Nyquist frequency {rate / 2:.6g} Hz of "
                           f"{rate:.6g} Hz sampling; choose a lower one", cutoff=cutoff, nyquist=rate / 2)


def zero_phase(values: FloatArray, rate: float, cutoff: float) -> FloatArray:
    """Low-pass filter forward and backward with a Butterworth filter along the first axis.

    The gain is 1 / (1 + (tan(pi f / rate) / tan(pi cutoff / rate))^(2 ORDER)), real: no delay, 6 dB at the cut-off.
    The ends are extended by point reflection over `SPOILT` / cutoff, or all there is.

    Args:
        values: Samples on an even clock, (t, ...).
        rate: Sampling rate. [Hz]
        cutoff: Cut-off frequency. [Hz]

    Raises:
        InvalidInput: Cut-off not below Nyquist, or too few samples.
    """
    check_cutoff(cutoff, rate)
    if len(values) <= 3 * ORDER:
        raise InvalidInput(f"{len(values)} samples are too few to filter; more than {3 * ORDER} are needed",
                           samples=len(values))
    from scipy.signal import butter, sosfiltfilt  # here: it takes long to import

    sections = butter(ORDER, cutoff, fs=rate, output="sos")
    reach = min(edge_samples(rate, cutoff), len(values) - 1)
    return np.asarray(sosfiltfilt(sections, values, axis=0, padlen=reach))


def derivative(values: FloatArray, rate: float) -> FloatArray:
    """Differentiate along the first axis by central differences of order 8, of lower order at the ends."""
    if len(values) < 2:
        raise InvalidInput(f"{len(values)} samples cannot be differentiated; at least 2 are needed")
    made = correlate1d(values, STENCIL * rate, axis=0, mode="nearest")
    reach = len(STENCIL) // 2
    for end in (slice(0, reach), slice(-reach, None)):  # where the stencil leaves the samples
        near = slice(0, 2 * reach) if end.start == 0 else slice(-2 * reach, None)
        made[end] = np.gradient(values[near], 1.0 / rate, axis=0)[end]
    return np.asarray(made)


def differentiate(values: FloatArray, rate: float, cutoff: float | None) -> PositionVelocityAcceleration:
    """Filter a signal and differentiate it twice (BG13 section 3.1, P03 section 4.1).

    Args:
        values: Samples on an even clock, (t, k).
        rate: Sampling rate. [Hz]
        cutoff: Cut-off of the zero-phase low-pass; None filters nothing: the raw comparison of AH09 Fig. 4. [Hz]
    """
    check_finite(values, "signal")
    smooth = values if cutoff is None else zero_phase(values, rate, cutoff)
    velocity = derivative(smooth, rate)
    return smooth, velocity, derivative(velocity, rate)


def edge_samples(rate: float, cutoff: float) -> int:
    """Return how many samples at each end of a log the low-pass or, near Nyquist, two derivatives may spoil."""
    check_cutoff(cutoff, rate)
    return max(int(np.ceil(SPOILT * rate / cutoff)), 4 * (len(STENCIL) // 2))


def memory_samples(rate: float, cutoff: float | None) -> int:
    """Return how many samples on both sides decide a filtered and differentiated one, to rounding."""
    return 2 * (len(STENCIL) // 2) + (0 if cutoff is None else int(np.ceil(MEMORY * rate / cutoff)))
