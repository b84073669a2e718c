"""Implicit and explicit filtering of a repeated motion side by side: AH09 Fig. 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.processing.filters import fourier_fit, lowpass_periodic


@dataclass(frozen=True, kw_only=True, eq=False)
class SpectralComparison:
    """Amplitude spectra of position, velocity and acceleration after implicit and explicit
    filtering; AH09 Fig. 2.

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


def compare_spectra(
    values: FloatArray, rate: float, period_samples: int, frequency: float, harmonics: int
) -> SpectralComparison:
    """Filter whole periods implicitly with a nominal frequency and explicitly, and return both
    spectra; AH09 Fig. 2.

    Args:
        values: Samples on an even clock, whole periods, (t, k).
        rate: Sampling rate. [Hz]
        period_samples: Samples in one real period.
        frequency: Nominal fundamental frequency given to the implicit fit, perhaps mistuned. [Hz]
        harmonics: Harmonics fitted, and kept by the explicit filter.
    """
    time = np.arange(len(values)) / rate
    explicit = lowpass_periodic(values, rate, period_samples, harmonics * rate / period_samples)
    names = [f"x{k}" for k in range(values.shape[1])]
    implicit = fourier_fit(
        values, time, frequency, harmonics, coordinates=names, units=["m"] * len(names)
    ).at(time)
    spectra = [
        np.stack([amplitude_spectrum(signal) for signal in three]) for three in (implicit, explicit)
    ]
    bins = np.asarray(np.fft.rfftfreq(len(values), 1 / rate), dtype=np.float64)
    return SpectralComparison(frequency=bins, implicit=spectra[0], explicit=spectra[1])


def amplitude_spectrum(values: FloatArray) -> FloatArray:
    """Return the amplitudes of the sine waves a signal is the sum of, (t, k) -> (t // 2 + 1, k)."""
    n = len(values)
    amplitude = np.abs(np.fft.rfft(values, axis=0)) / n
    amplitude[1 : (n + 1) // 2] *= 2.0
    return np.asarray(amplitude)
