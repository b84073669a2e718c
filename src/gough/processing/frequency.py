"""Filtering and differentiating periodic signals in the frequency domain, and the implicit way beside it (AH09 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import uniform_filter1d

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput
from gough.core.trajectory import Fourier, fourier_basis
from gough.core.trajectory.base import PositionVelocityAcceleration
from gough.logs.checks import quantisation_step
from gough.processing.averaging import PeriodAverage
from gough.processing.filters import check_cutoff

FREEDOM = 50  # repetitions times neighbouring harmonics that the noise of a harmonic is estimated from


def lowpass_periodic(values: FloatArray, rate: float, period_samples: int,
                     cutoff: float) -> PositionVelocityAcceleration:
    """Filter and differentiate whole periods exactly: DFT, ideal low-pass, times j w, back.

    X = DFT x,  X = 0 where f > cutoff,  x = DFT^-1 X,  xd = DFT^-1 (j w X),  xdd = DFT^-1 (-w^2 X); AH09 3.3.
    The harmonic at the cut-off itself is kept: cutoff = n_h rate / period_samples keeps n_h harmonics. Efforts are not
    to be filtered: their noise does not enter the regressor, and steps of friction would be smoothed on one side only.

    Args:
        values: Samples on an even clock, whole periods, (t, k).
        rate: Sampling rate. [Hz]
        period_samples: Samples in one period.
        cutoff: Highest frequency kept. [Hz]

    Raises:
        InvalidInput: Part of a period (the DFT would leak), or a cut-off not between the fundamental and Nyquist.
    """
    check_finite(values, "signal")
    check_whole_periods(len(values), period_samples)
    check_cutoff(cutoff, rate)
    if cutoff * (1 + 1e-9) < rate / period_samples:
        raise InvalidInput(f"cut-off {cutoff:.6g} Hz is below the fundamental frequency {rate / period_samples:.6g} "
                           "Hz; nothing of the motion would be left", cutoff=cutoff)
    n = len(values)
    frequency = np.fft.rfftfreq(n, 1.0 / rate)
    jw = (2j * np.pi * frequency).reshape(-1, *[1] * (values.ndim - 1))
    X = np.fft.rfft(values, axis=0)
    X[frequency > cutoff * (1 + 1e-9)] = 0.0
    position, velocity, acceleration = (np.fft.irfft(jw**k * X, n, axis=0) for k in range(3))
    return position, velocity, acceleration


def check_whole_periods(samples: int, period_samples: int) -> None:
    """Raise `InvalidInput` unless the samples are whole periods."""
    if period_samples < 2:
        raise InvalidInput(f"a period of {period_samples} samples; at least 2 are needed")
    if samples == 0 or samples % period_samples:
        raise InvalidInput(
            f"{samples} samples are {samples / period_samples:.4f} periods of {period_samples}, expected whole ones: "
            "the DFT of part of a period leaks into all harmonics; leave out what follows the last whole one",
            samples=samples, period_samples=period_samples)


def fourier_fit(values: FloatArray, time: FloatArray, frequency: float, harmonics: int, *,
                coordinates: Sequence[str], units: Sequence[str]) -> Fourier:
    """Fit a Fourier series of known frequency by least squares: the implicit filter of AH09 (17)-(18).

    B = [1, sin(k w t)/(k w) ..., -cos(k w t)/(k w) ...],  Xi = (B^T B)^-1 B^T x. Departure: (17) prints the cosines
    without the minus sign of (12), which gives -nu. The frequency must be that of the motion, not only of the
    reference: what is mistuned leaks. `lowpass_periodic` has no such condition.

    Args:
        values: Samples, (t, k).
        time: Their times, (t,). [s]
        frequency: Fundamental frequency. [Hz]
        harmonics: Number of harmonics.
        coordinates, units: Names and units of the columns, (k,).

    Raises:
        InvalidInput: Fewer samples than coefficients, harmonics beyond Nyquist, or a frequency that is not positive.
    """
    check_shape(values, (len(time), None), "signal")
    check_finite(values, "signal")
    if harmonics < 1 or len(time) < 2 * harmonics + 1:
        raise InvalidInput(f"{harmonics} harmonics from {len(time)} samples; expected from 1, and at least "
                           f"{2 * harmonics + 1} samples")
    if not frequency > 0:
        raise InvalidInput(f"fundamental frequency is {frequency} Hz, expected a positive number")
    check_cutoff(harmonics * frequency, (len(time) - 1) / float(time[-1] - time[0]))
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)
    scale = np.concatenate([[1.0], kw, kw])  # columns of equal size: better conditioned
    B = fourier_basis(time, frequency, harmonics)[0] * scale
    Xi = np.linalg.lstsq(B, values, rcond=None)[0] * scale[:, None]
    return Fourier(coordinates=tuple(coordinates), units=tuple(units), frequency=frequency, offset=Xi[0],
                   mu=Xi[1:harmonics + 1], nu=Xi[harmonics + 1:])


def pose_cutoff(pose: FloatArray, scatter: FloatArray, rate: float, rounding: FloatArray) -> float:
    """Return the highest harmonic of a pose that Akaike's criterion keeps. [Hz]

    With X_k the DFT of the mean pose at harmonic k and v_k the variance of its coordinates, from the scatter between
    periods, keeping harmonic k raises the log-likelihood by sum |X_k|^2 / v_k and costs 2 real parameters a coordinate:
    the harmonics kept are those up to argmax_K sum_k<=K (sum |X_k|^2 / v_k - 2 m). Poses are judged, not the positions
    of the motors: inverse kinematics makes harmonics of its own. Departure: coordinates are taken as independent. What
    differs between few periods may be one transient, which moves all of them together; a full covariance has next to
    nothing in all other directions, and takes the leaks of that transient for harmonics.

    Args:
        pose: Mean pose over a period, (N, m). [m or rad]
        scatter: Pose of each period minus the mean one, (Nm, N, m). [m or rad]
        rate: Sampling rate. [Hz]
        rounding: Variance of what rounding of the sensors adds to a sample in every period alike, (m,).

    Raises:
        InvalidInput: No harmonic stands out of the noise.
    """
    count, n, m = scatter.shape
    bins = (n - 1) // 2
    X = np.fft.rfft(pose, axis=0)[1:bins + 1]
    D = np.fft.rfft(scatter, axis=1)[:, 1:bins + 1]
    width = min(max(1, -(-FREEDOM // (count - 1)) | 1), max(bins, 1))
    v = uniform_filter1d((np.abs(D) ** 2).sum(axis=0) / (count * (count - 1)), width, axis=0, mode="nearest")
    floor = (1e-10 * np.abs(X).max(axis=0, initial=0.0)) ** 2 + np.finfo(float).tiny
    gain = (np.abs(X) ** 2 / (v + n * rounding + floor)).sum(axis=1)
    total = np.cumsum(gain - 2 * m)
    if not bins or total.max() <= 0:
        raise InvalidInput("no harmonic of the motion stands out of the noise; choose the cut-off yourself")
    return float((int(np.argmax(total)) + 1) * rate / n)


def rounding_variance(average: PeriodAverage) -> FloatArray:
    """Return the variance of rounding that averaging does not reduce, (a,). [m2 or rad2]"""
    steps = np.array([quantisation_step(column) or 0.0 for column in average.recording.position.T])
    spread = np.sqrt(np.diag(average.position_covariance))
    return np.asarray(np.where(spread < steps / 2, steps**2 / 12.0, 0.0))
