"""Low-pass and derivatives of positions: in time, or of whole periods, where exact (AH09 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput
from gough.core.signals import weighted_window
from gough.core.trajectory import (
    Fourier,
    PositionVelocityAcceleration,
    fourier_basis,
)

FILTER_ORDER = 4  # of the one-way Butterworth filter
# The slowest pole decays by exp(-2.4 cutoff t): to below 1e-3 after FILTER_EDGE_PERIODS / cutoff,
# to rounding after FILTER_SETTLING_PERIODS / cutoff.
FILTER_EDGE_PERIODS = 3.0
FILTER_SETTLING_PERIODS = 14.0
# Central difference of order 8: (4/5, -1/5, 4/105, -1/280), right to 1e-4 up to a tenth of the
# sampling rate.
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
STENCIL_HALF = len(STENCIL) // 2
HARMONIC_ROUNDING = 1 + 1e-9  # a cut-off at a harmonic keeps it, whatever its rounding


def check_cutoff(cutoff: float, rate: float) -> None:
    """Raise `InvalidInput` unless the cut-off lies between zero and the Nyquist frequency. [Hz]"""
    if not np.isfinite(rate) or rate <= 0:
        raise InvalidInput(f"sampling rate is {rate} Hz, expected a positive number", rate=rate)
    if not 0 < cutoff < rate / 2:
        raise InvalidInput(
            f"cut-off {cutoff:.6g} Hz is not between 0 and the Nyquist frequency {rate / 2:.6g} Hz "
            f"of {rate:.6g} Hz sampling; choose a lower one",
            cutoff=cutoff,
            nyquist=rate / 2,
        )


def zero_phase(values: FloatArray, rate: float, cutoff: float) -> FloatArray:
    """Low-pass filter forward and backward with a Butterworth filter along the first axis.

    The gain is 1 / (1 + (tan(pi f / rate) / tan(pi cutoff / rate))^(2 FILTER_ORDER)), real:
    no delay, 6 dB at the cut-off. The ends are extended by point reflection over
    `FILTER_EDGE_PERIODS` / cutoff, or over the whole signal if it is shorter.
    """
    check_cutoff(cutoff, rate)
    if len(values) <= 3 * FILTER_ORDER:
        raise InvalidInput(
            f"{len(values)} samples are too few to filter; more than {3 * FILTER_ORDER} are needed",
            samples=len(values),
        )
    from scipy.signal import sosfiltfilt  # here: it takes long to import

    reach = min(edge_samples(rate, cutoff), len(values) - 1)
    sections = _sections(rate, cutoff).copy()  # SciPy takes no read-only array
    return np.asarray(sosfiltfilt(sections, values, axis=0, padlen=reach))


@lru_cache(maxsize=64)
def _sections(rate: float, cutoff: float) -> FloatArray:
    """Return the second-order sections of the Butterworth filter, (s, 6)."""
    from scipy.signal import butter

    sections = np.asarray(butter(FILTER_ORDER, cutoff, fs=rate, output="sos"))
    sections.flags.writeable = False  # every caller gets the same array
    return sections


def derivative(values: FloatArray, rate: float) -> FloatArray:
    """Differentiate along the first axis by central differences of order 8, lower at the ends."""
    if len(values) < 2:
        raise InvalidInput(f"{len(values)} samples cannot be differentiated; at least 2 are needed")
    step = 1.0 / rate
    half = STENCIL_HALF
    slope = weighted_window(values, STENCIL * rate)
    slope[:half] = np.gradient(values[: 2 * half], step, axis=0)[:half]
    slope[-half:] = np.gradient(values[-2 * half :], step, axis=0)[-half:]
    return slope


def differentiate(
    values: FloatArray, rate: float, cutoff: float | None
) -> PositionVelocityAcceleration:
    """Filter a signal (t, k) and differentiate it twice (BG13 section 3.1, P03 section 4.1).

    Without a cut-off nothing is filtered: the raw comparison of AH09 Fig. 4.
    """
    check_finite(values, "signal")
    smooth = values if cutoff is None else zero_phase(values, rate, cutoff)
    velocity = derivative(smooth, rate)
    return smooth, velocity, derivative(velocity, rate)


def edge_samples(rate: float, cutoff: float) -> int:
    """Return how many samples at each end of a log the low-pass or the derivatives may spoil.

    Near the Nyquist frequency it is the two derivatives.
    """
    check_cutoff(cutoff, rate)
    return max(int(np.ceil(FILTER_EDGE_PERIODS * rate / cutoff)), 4 * STENCIL_HALF)


def memory_samples(rate: float, cutoff: float | None) -> int:
    """Return how many samples on both sides influence a filtered and differentiated one.

    The influence of samples further away is below rounding.
    """
    derivatives = 2 * STENCIL_HALF
    if cutoff is None:
        return derivatives
    return derivatives + int(np.ceil(FILTER_SETTLING_PERIODS * rate / cutoff))


def lowpass_periodic(
    values: FloatArray, rate: float, period_samples: int, cutoff: float
) -> PositionVelocityAcceleration:
    """Filter and differentiate whole periods (t, k) exactly: DFT, ideal low-pass, times j w, back.

    X = DFT x,  X = 0 where f > cutoff,  x = DFT^-1 X,  xd = DFT^-1 (j w X),  xdd = DFT^-1
    (-w^2 X); AH09 3.3. The harmonic at the cut-off itself is kept: cutoff = n_h rate /
    period_samples keeps n_h harmonics. Efforts are not to be filtered: their noise does not
    enter the regressor, and steps of friction would be smoothed on one side only.
    """
    n = len(values)
    check_finite(values, "signal")
    if period_samples < 2:
        raise InvalidInput(f"a period of {period_samples} samples; at least 2 are needed")
    if n == 0 or n % period_samples:
        raise InvalidInput(
            f"{n} samples are {n / period_samples:.4f} periods of {period_samples}, expected whole "
            "ones: the DFT of part of a period leaks into all harmonics; leave out what follows "
            "the last whole one",
            samples=n,
            period_samples=period_samples,
        )
    check_cutoff(cutoff, rate)
    if cutoff * HARMONIC_ROUNDING < rate / period_samples:
        raise InvalidInput(
            f"cut-off {cutoff:.6g} Hz is below the fundamental frequency "
            f"{rate / period_samples:.6g} Hz; nothing of the motion would be left",
            cutoff=cutoff,
        )
    frequency = np.fft.rfftfreq(n, 1.0 / rate)
    jw = (2j * np.pi * frequency).reshape(-1, *[1] * (values.ndim - 1))
    X = np.fft.rfft(values, axis=0)
    X[frequency > cutoff * HARMONIC_ROUNDING] = 0.0
    position = np.fft.irfft(X, n, axis=0)
    velocity = np.fft.irfft(jw * X, n, axis=0)
    acceleration = np.fft.irfft(jw**2 * X, n, axis=0)
    return position, velocity, acceleration


def fourier_fit(
    values: FloatArray,
    time: FloatArray,
    frequency: float,
    harmonics: int,
    *,
    coordinates: Sequence[str],
    units: Sequence[str],
) -> Fourier:
    """Fit a Fourier series of known frequency [Hz] to (t, k) by least squares.

    This is the implicit filter of AH09 (17)-(18):
    B = [1, sin(k w t)/(k w) ..., -cos(k w t)/(k w) ...],  Xi = (B^T B)^-1 B^T x. Departure:
    (17) prints the cosines without the minus sign of (12), which gives -nu. The frequency
    must be that of the motion, not only of the reference: otherwise harmonics leak.
    `lowpass_periodic` has no such condition.
    """
    check_shape(values, (len(time), None), "signal")
    check_finite(values, "signal")
    if harmonics < 1 or len(time) < 2 * harmonics + 1:
        raise InvalidInput(
            f"{harmonics} harmonics from {len(time)} samples; expected from 1, and at least "
            f"{2 * harmonics + 1} samples"
        )
    if not frequency > 0:
        raise InvalidInput(f"fundamental frequency is {frequency} Hz, expected a positive number")
    check_cutoff(harmonics * frequency, (len(time) - 1) / float(time[-1] - time[0]))
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)
    scale = np.concatenate([[1.0], kw, kw])  # columns of equal size: better conditioned
    B = fourier_basis(time, frequency, harmonics)[0] * scale
    Xi = np.linalg.lstsq(B, values, rcond=None)[0] * scale[:, None]
    return Fourier(
        coordinates=tuple(coordinates),
        units=tuple(units),
        frequency=frequency,
        offset=Xi[0],
        mu=Xi[1 : harmonics + 1],
        nu=Xi[harmonics + 1 :],
    )
