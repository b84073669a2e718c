"""How much of a residual is noise: from repetitions, or from frequencies above the motion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.signals import power_density
from gough.fitting.regression import Regression
from gough.identification.validation import noise_variance
from gough.processing.settings import DECIMATION_EDGE

SPECTRUM_SEGMENT = 1024  # samples: enough to resolve the band of a motion
MIN_SPECTRUM_SAMPLES = 32
# fraction of the predicted efforts' power in the band of the motion
MOTION_POWER = 0.99
# above the band of the motion, each with its own noise density
NOISE_BANDS = 4
MIN_BAND_FREQUENCIES = 4  # in each of these bands
# A line of the spectrum above so many times the median of its
# neighbours is no noise but a resonance or a hum. Of 512 lines of white
# noise the highest is about nine times the median.
MAX_LINE_RATIO = 10.0
MEDIAN_FREQUENCIES = 60
# ratio of the highest to the middle frequency of the neighbours
LINE_NEIGHBOURS = 1.5


class NoisePower(NamedTuple):
    """Least and most noise power of each row, (r,) each. [row unit squared]"""

    least: FloatArray
    most: FloatArray


def noise_power(
    regression: Regression, predicted: FloatArray, bands: int = NOISE_BANDS
) -> NoisePower | None:
    """Return the noise power of the efforts of a log; None if it is not known.

    With repetitions it is their scatter at least, and at most their
    covariance, which allows for rounding that is the same in all of
    them. Without, the residual above the band of the predicted efforts
    is noise, or faster than any error of the parameters. The densities
    S in parts of that band bound the noise inside the band of the
    motion, whether its spectrum falls or rises:

        least = min S (inside + above),    most = max S inside + power above.

    Narrow peaks above the band, of a resonance that reversals of
    friction excite, are not noise.

    Args:
        regression: Of the log.
        predicted: Efforts by the model, (t, r).
        bands: Above the band of the motion, that the log has to have.
    """
    if regression.covariance is not None:
        known = noise_variance(regression)
        return NoisePower(np.minimum(scatter_of_mean(regression, known), known), known)
    if len(predicted) < MIN_SPECTRUM_SAMPLES:
        return None
    valid = regression.valid
    valid_fraction = np.maximum(valid.mean(axis=0), TINY)
    residual = np.where(valid, regression.effort - predicted, 0.0) / np.sqrt(valid_fraction)
    spectrum = _residual_spectrum(residual, predicted, bands)
    if spectrum is None:
        return None
    density, step, band_edge, top, lowest, highest = spectrum
    least = lowest * top + np.minimum(density[top:], lowest).sum(axis=0)
    most = highest * band_edge + density[band_edge:].sum(axis=0)
    return NoisePower(least * step, most * step)


def least_white_noise(residual: FloatArray, predicted: FloatArray) -> FloatArray | None:
    """Return the power of white noise as dense as a residual in its quietest band, (r,).

    A decimated log may hold nothing above the band of the motion, but
    it did before it was decimated. None if there is too little above
    the motion there, too.

    Args:
        residual: Recorded minus predicted efforts before decimation,
            (t, r).
        predicted: Efforts by the model, (t, r).
    """
    if len(predicted) < MIN_SPECTRUM_SAMPLES:
        return None
    spectrum = _residual_spectrum(residual, predicted, NOISE_BANDS)
    if spectrum is None:
        return None
    return np.asarray(spectrum.lowest * spectrum.step * len(spectrum.density))


class _ResidualSpectrum(NamedTuple):
    """Spectrum of a residual, and its mean densities above the band of the motion."""

    density: FloatArray  # without narrow peaks, (f, r) [row unit squared / Hz]
    step: float  # between frequencies [Hz]
    band_edge: int  # frequencies in the band of the motion
    top: int  # frequencies below the edge of a decimation filter
    # mean density of the quietest band above the motion, (r,)
    lowest: FloatArray
    highest: FloatArray  # and of the loudest, (r,)


def _residual_spectrum(
    residual: FloatArray, predicted: FloatArray, bands: int
) -> _ResidualSpectrum | None:
    """Return the spectrum of a residual, (t, r); None if there is too little above the motion."""
    segment = min(len(predicted), SPECTRUM_SEGMENT)
    _, predicted_density = power_density(predicted, segment)
    frequency, density = power_density(residual, segment)
    density = without_peaks(density)
    cumulative = np.cumsum(predicted_density, axis=0)
    in_motion_band = cumulative < MOTION_POWER * predicted_density.sum(axis=0)
    band_edge = int(in_motion_band.sum(axis=0).max()) + 1
    top = int(DECIMATION_EDGE * len(frequency))  # a decimated log has nothing above
    borders = np.geomspace(band_edge, max(top, band_edge), bands + 1).astype(int)
    if np.diff(borders).min() < MIN_BAND_FREQUENCIES:
        return None
    densities = np.array([density[low:high].mean(axis=0) for low, high in pairwise(borders)])
    return _ResidualSpectrum(
        density=density,
        step=float(frequency[1]),
        band_edge=band_edge,
        top=top,
        lowest=densities.min(axis=0),
        highest=densities.max(axis=0),
    )


def scatter_of_mean(regression: Regression, otherwise: FloatArray) -> FloatArray:
    """Return the variance of the mean of repetitions by their scatter, (r,).

    Args:
        regression: Of a log, perhaps with repetitions.
        otherwise: Returned if there are none, (r,).
    """
    replicates = regression.replicates
    if replicates is None or len(replicates) < 2:
        return otherwise
    k = len(replicates)
    deviation = np.where(regression.valid, replicates - replicates.mean(axis=0), 0.0)
    n_valid = np.maximum(regression.n_valid, 1)
    return np.asarray((deviation**2).sum(axis=(0, 1)) / (n_valid * k * (k - 1)))


def without_peaks(density: FloatArray) -> FloatArray:
    """Return spectra (f, r) with lines cut at `MAX_LINE_RATIO` times the median of neighbours.

    Medians are taken at frequencies a tenth apart and interpolated.
    """
    n = len(density)
    centres = np.unique(np.geomspace(1, n - 1, MEDIAN_FREQUENCIES).astype(int))
    usual = np.empty((len(centres), density.shape[1]))
    for row, centre in enumerate(centres):
        first = max(1, min(int(centre / LINE_NEIGHBOURS), centre - MIN_BAND_FREQUENCIES))
        last = max(int(centre * LINE_NEIGHBOURS), centre + MIN_BAND_FREQUENCIES) + 1
        usual[row] = np.median(density[first:last], axis=0)
    cut = density.copy()
    for k in range(density.shape[1]):
        most = MAX_LINE_RATIO * np.interp(np.arange(n), centres, usual[:, k])
        cut[1:, k] = np.minimum(density[1:, k], most[1:])
    return cut


def noise_of_same_sensors(regressions: Sequence[Regression]) -> FloatArray | None:
    """Return the noise power of a sample that was not averaged, (r,). [row unit squared]

    From logs with repetitions: the same sensors recorded other logs.
    Their scatter S lacks rounding that is the same in all repetitions.
    Gaussian noise of standard deviation s, small beside a step d,
    scatters by S = s d / sqrt(pi) after rounding: two samples are in
    different steps with probability 2 s / (d sqrt(pi)). With R = d^2 /
    12, the power of rounding,

        R + s^2 = R + pi S^2 / (12 R)    if S < 2 R,    else S.

    None if no log has repetitions.
    """
    powers = []
    for regression in regressions:
        if regression.covariance is None or regression.replicates is None:
            continue
        of_mean = noise_variance(regression)
        scatter = np.minimum(scatter_of_mean(regression, of_mean), of_mean)
        rounding = of_mean - scatter
        single = len(regression.replicates) * scatter
        least_rounding = np.maximum(rounding, np.maximum(single / 2, TINY))
        coarse = rounding + np.pi * single**2 / (12 * least_rounding)
        powers.append(np.where(single < 2 * rounding, coarse, single))
    return np.max(powers, axis=0) if powers else None


def mean_noise_power(
    regressions: Sequence[Regression],
    predicted: Sequence[FloatArray],
    otherwise: FloatArray | None = None,
    bands: int = NOISE_BANDS,
) -> NoisePower | None:
    """Return the mean noise power of some logs; None where that of any is not known.

    Args:
        regressions: Of the logs.
        predicted: Efforts by the model, (t, r) of each log.
        otherwise: The most that the noise of a log can be that does not
            show its noise, (r,).
        bands: As of `noise_power`.
    """
    powers = []
    for regression, effort in zip(regressions, predicted):
        power = noise_power(regression, effort, bands)
        if power is None and otherwise is not None:
            power = NoisePower(np.zeros(len(otherwise)), otherwise)
        if power is None:
            return None
        powers.append(power)
    if not powers:
        return None
    least = np.mean([power.least for power in powers], axis=0)
    most = np.mean([power.most for power in powers], axis=0)
    return NoisePower(least, most)
