"""Is the noise of a repeated motion Gaussian and white (AH09 3.2 and 6)?

from noise_check import check_noise
check_noise(recording.periods("effort"), recording.joints)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, kurtosis, normaltest, skew

from gough.core.arrays import FloatArray, frozen

LAGS = 20  # of the whiteness test
MOST = 5000  # samples in the normality test; more would reject over departures too small to matter


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseCheck:
    """Is the noise of each channel Gaussian and white?

    Args:
        channels: Names, (k,).
        std: Standard deviation of a single sample, (k,). [unit of the channel]
        skewness: 0 for Gaussian noise, (k,).
        excess_kurtosis: 0 for Gaussian noise, (k,).
        normality: Probability of a departure this large if it is Gaussian (D'Agostino-Pearson on
            samples far enough apart to be independent), (k,); NaN where they are too few or all the
            same.
        autocorrelation: At lag 1, (k,).
        whiteness: Probability of autocorrelations this large if it is white (Ljung-Box), (k,).
    """

    channels: tuple[str, ...]
    std: FloatArray
    skewness: FloatArray
    excess_kurtosis: FloatArray
    normality: FloatArray
    autocorrelation: FloatArray
    whiteness: FloatArray

    def __post_init__(self) -> None:
        for name in (
            "std",
            "skewness",
            "excess_kurtosis",
            "normality",
            "autocorrelation",
            "whiteness",
        ):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def gaussian(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Tell the channels where a Gaussian distribution is not rejected at this level, (k,)."""
        return np.asarray(self.normality >= level)

    def white(self, level: float = 0.01) -> NDArray[np.bool_]:
        """Tell the channels where white noise is not rejected at this level, (k,)."""
        return np.asarray(self.whiteness >= level)


def check_noise(periods: FloatArray, channels: tuple[str, ...]) -> NoiseCheck:
    """Test what differs between periods for a Gaussian distribution and for whiteness.

    Autocorrelations come from products within periods, r_l = sum_ki d_k,i d_k,i+l / sum_ki d_k,i^2
    with d the deviation from the mean period. These are as good as those of Nm - 1 independent
    records of N samples, so Ljung-Box reads Q = (Nm - 1) N (N + 2) sum_l r_l^2 / (N - l),
    chi-squared with as many degrees of freedom as lags.

    Args:
        periods: (Nm, N, k), at least two periods.
        channels: Names, (k,).
    """
    count, n, k = periods.shape
    mean = periods.mean(axis=0)
    lags = max(1, min(LAGS, n // 5))
    products = np.zeros((lags + 1, k))
    for period in periods:
        d = period - mean
        products += np.stack(
            [np.einsum("ij,ij->j", d[: n - lag], d[lag:]) for lag in range(lags + 1)]
        )
    alive = products[0] > 0
    r = np.divide(products, products[0], out=np.full_like(products, np.nan), where=alive)
    Q = (
        (count - 1)
        * n
        * (n + 2)
        * np.sum(r[1:] ** 2 / (n - np.arange(1, lags + 1))[:, None], axis=0)
    )
    shape = np.full((3, k), np.nan)
    for j in np.flatnonzero(alive):
        sample = _independent(periods[:-1, :, j] - mean[:, j], r[:, j])
        if len(sample) >= 20 and np.ptp(sample) > 0:
            shape[:, j] = skew(sample), kurtosis(sample), normaltest(sample).pvalue
    return NoiseCheck(
        channels=channels,
        std=np.sqrt(products[0] / (n * (count - 1))),
        skewness=shape[0],
        excess_kurtosis=shape[1],
        normality=shape[2],
        autocorrelation=r[1],
        whiteness=np.where(alive, chi2.sf(Q, lags), np.nan),
    )


def _independent(deviations: FloatArray, r: FloatArray) -> FloatArray:
    """Return deviations far enough apart in time to be independent, at most `MOST`, (Nm - 1, N) ->
    (s,).
    """
    positive = np.flatnonzero(r <= 0)
    last = int(positive[0]) if len(positive) else len(r)
    spacing = max(1, round(1 + 2 * float(r[1:last].sum())))  # the integrated autocorrelation time
    sample = deviations[:, ::spacing].ravel()
    return sample[:: max(1, len(sample) // MOST)]
