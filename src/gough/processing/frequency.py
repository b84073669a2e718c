"""Filtering and differentiating periodic signals in the frequency domain, and the implicit way beside it (AH09 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput
from gough.logs.checks import quantisation_step
from gough.processing.averaging import PeriodAverage
from gough.processing.filters import Derivatives, check_cutoff


def lowpass_periodic(values: FloatArray, rate: float, period_samples: int, cutoff: float) -> Derivatives:
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
    return Derivatives(position=np.fft.irfft(X, n, axis=0), velocity=np.fft.irfft(jw * X, n, axis=0),
                       acceleration=np.fft.irfft(jw**2 * X, n, axis=0))


def check_whole_periods(samples: int, period_samples: int) -> None:
    """Raise `InvalidInput` unless the samples are whole periods."""
    if period_samples < 2:
        raise InvalidInput(f"a period of {period_samples} samples; at least 2 are needed")
    if samples == 0 or samples % period_samples:
        raise InvalidInput(
            f"{samples} samples are {samples / period_samples:.4f} periods of {period_samples}, expected whole ones: "
            "the DFT of part of a period leaks into all harmonics; cut with whole_periods() or use resample_to_period",
            samples=samples, period_samples=period_samples)


@dataclass(frozen=True, kw_only=True, eq=False)
class FourierFit:
    """A Fourier series fitted to samples; AH09 (12), coefficients are velocities.

    Args:
        frequency: Fundamental frequency. [Hz]
        offset: Mean, (k,). [unit]
        mu: Velocity amplitudes of the cosines, (n_h, k). [unit/s]
        nu: Velocity amplitudes of the sines, (n_h, k). [unit/s]
    """

    frequency: float
    offset: FloatArray
    mu: FloatArray
    nu: FloatArray

    def __post_init__(self) -> None:
        for name in ("offset", "mu", "nu"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        check_shape(self.nu, self.mu.shape, "nu")

    def at(self, time: FloatArray) -> Derivatives:
        """Return position, velocity and acceleration at some times; AH09 (12), (14), (15)."""
        kw = 2 * np.pi * self.frequency * np.arange(1, len(self.mu) + 1)
        sine, cosine = np.sin(time[:, None] * kw), np.cos(time[:, None] * kw)
        return Derivatives(
            position=self.offset + (sine / kw) @ self.mu - (cosine / kw) @ self.nu,
            velocity=cosine @ self.mu + sine @ self.nu,
            acceleration=-(sine * kw) @ self.mu + (cosine * kw) @ self.nu)


def fourier_fit(values: FloatArray, time: FloatArray, frequency: float, harmonics: int) -> FourierFit:
    """Fit a Fourier series of known frequency by least squares: the implicit filter of AH09 (17)-(18).

    B = [1, sin(k w t)/(k w) ..., -cos(k w t)/(k w) ...],  Xi = (B^T B)^-1 B^T x. Departure: (17) prints the cosines
    without the minus sign of (12), which gives -nu. The frequency must be that of the motion, not only of the
    reference: what is mistuned leaks. `lowpass_periodic` has no such condition.

    Args:
        values: Samples, (t, k).
        time: Their times, (t,). [s]
        frequency: Fundamental frequency. [Hz]
        harmonics: Number of harmonics.

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
    B = np.concatenate([np.ones((len(time), 1)), np.sin(time[:, None] * kw), -np.cos(time[:, None] * kw)], axis=1)
    Xi = np.linalg.lstsq(B, values, rcond=None)[0]  # columns scaled by k w: better conditioned
    return FourierFit(frequency=frequency, offset=Xi[0], mu=Xi[1:harmonics + 1] * kw[:, None],
                      nu=Xi[harmonics + 1:] * kw[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class SpectralComparison:
    """Amplitude spectra of position, velocity and acceleration after implicit and explicit filtering; AH09 Fig. 2.

    Args:
        frequency: Of the DFT bins, (m,). [Hz]
        implicit: From the Fourier fit, (3, m, k).
        explicit: From the DFT over whole periods, (3, m, k).
    """

    frequency: FloatArray
    implicit: FloatArray
    explicit: FloatArray

    @property
    def difference(self) -> FloatArray:
        """implicit - explicit, (3, m, k)."""
        return np.asarray(self.implicit - self.explicit)


def compare_spectra(values: FloatArray, rate: float, period_samples: int, frequency: float,
                    harmonics: int) -> SpectralComparison:
    """Filter whole periods implicitly with a nominal frequency and explicitly, and return both spectra; AH09 Fig. 2.

    Args:
        values: Samples on an even clock, whole periods, (t, k).
        rate: Sampling rate. [Hz]
        period_samples: Samples in one real period.
        frequency: Nominal fundamental frequency given to the implicit fit, perhaps mistuned. [Hz]
        harmonics: Harmonics fitted, and kept by the explicit filter.
    """
    time = np.arange(len(values)) / rate
    explicit = lowpass_periodic(values, rate, period_samples, harmonics * rate / period_samples)
    implicit = fourier_fit(values, time, frequency, harmonics).at(time)
    spectra = [np.stack([amplitude_spectrum(getattr(d, name)) for name in ("position", "velocity", "acceleration")])
               for d in (implicit, explicit)]
    bins = np.asarray(np.fft.rfftfreq(len(values), 1 / rate), dtype=np.float64)
    return SpectralComparison(frequency=bins, implicit=spectra[0], explicit=spectra[1])


def amplitude_spectrum(values: FloatArray) -> FloatArray:
    """Return the amplitudes of the sine waves a signal is the sum of, (t, k) -> (t // 2 + 1, k)."""
    n = len(values)
    amplitude = np.abs(np.fft.rfft(values, axis=0)) / n
    amplitude[1:(n + 1) // 2] *= 2.0
    return np.asarray(amplitude)


def best_cutoff(average: PeriodAverage) -> float:
    """Return the cut-off that gives the most accurate accelerations of an averaged motion. [Hz]

    Of K harmonics kept, those kept bring noise V_k / Nm and those dropped lose signal |X_k|^2 - V_k / Nm, with X_k the
    mean and V_k the variance between periods of the DFT at harmonic k, smoothed over neighbouring harmonics. The sum of
    both over w_k^4, relative to the acceleration energy of each joint, estimates the error; K minimises it. Only
    harmonics that stand out of the noise (1e-3 for a false one among all) count as signal: the weight k^4 would
    otherwise let chance at high frequencies decide. A sensor whose noise is below half its quantisation step repeats
    its rounding in every period: its noise is at least step^2 / 12 a sample.

    Raises:
        InvalidInput: No harmonic stands out of the noise.
    """
    n, count = len(average), average.count
    bins = (n - 1) // 2
    mean = np.fft.rfft(average.position, axis=0)[1:bins + 1]
    variance = np.zeros(mean.shape)
    for period in average.position_periods:
        variance += np.abs(np.fft.rfft(period, axis=0)[1:bins + 1] - mean) ** 2 / (count - 1)
    noise = uniform_filter1d(variance, min(25, max(bins, 1)), axis=0, mode="nearest") / count
    noise = np.maximum(noise, n * rounding_variance(average))
    power = np.abs(mean) ** 2
    level = np.log(1e3 * max(power.size, 1))  # |X|^2 / noise is exponentially distributed without signal
    signal = np.where(power > level * noise, power - noise, 0.0)
    weight = np.arange(1.0, bins + 1)[:, None] ** 4
    scale = np.sum(weight * power, axis=0)
    alive = scale > 0
    gain = np.cumsum(np.sum((weight * (signal - noise))[:, alive] / scale[alive], axis=1))
    if not len(gain) or gain.max() <= 0:
        raise InvalidInput("no harmonic of the motion stands out of the noise; choose the cut-off yourself")
    kept = int(np.argmax(gain >= gain.max() * (1 - 1e-9))) + 1  # without noise, rounding errors must not decide
    return float(kept * average.rate / n)


def rounding_variance(average: PeriodAverage) -> FloatArray:
    """Return the variance of rounding that averaging does not reduce, (a,). [m2 or rad2]"""
    steps = np.array([quantisation_step(column) or 0.0 for column in average.recording.position.T])
    spread = np.sqrt(np.diag(average.position_covariance))
    return np.asarray(np.where(spread < steps / 2, steps**2 / 12.0, 0.0))
