"""Quantiles and tests. From scipy.special: importing scipy.stats takes half of the time of a start."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gough.core.arrays import FloatArray


def normal_quantile(probability: float) -> float:
    """Return the value that a standard Gaussian is below with a probability."""
    return float(special.ndtri(probability))


def student_quantile(probability: float, freedom: ArrayLike) -> FloatArray:
    """Return the quantile of Student's t; Gaussian where the degrees of freedom are infinite."""
    return np.asarray(special.stdtrit(freedom, probability))


def chi2_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of chi-squared."""
    return float(special.chdtri(freedom, 1 - probability))


def chi2_tail(value: ArrayLike, freedom: ArrayLike) -> FloatArray:
    """Return the probability that chi-squared exceeds a value."""
    return np.asarray(special.chdtrc(freedom, value))


def f_tail(value: float, freedom: float, below: float) -> float:
    """Return the probability that F exceeds a value; chi-squared / freedom where `below` is infinite."""
    if not np.isfinite(below):
        return float(chi2_tail(value * freedom, freedom))
    return float(special.fdtrc(freedom, below, value))


def ljung_box(records: FloatArray, *, independent: int | None = None, lags: int | None = None) -> FloatArray:
    """Return the probability of autocorrelations this large in white noise, channel by channel, (k, t, r) -> (r,).

    With r_l the autocorrelation pooled over m independent records of t samples (Ljung and Box for m = 1),
    Q = m t (t + 2) sum_l r_l^2 / (t - l) is chi-squared with as many degrees of freedom as lags.

    Args:
        records: Noise of zero mean, (k, t, r).
        independent: m; k by default, k - 1 for deviations from the mean of k.
        lags: 20 by default, a fifth of the samples if these are few. NaN comes back if there is not even one.
    """
    k, t, r = records.shape
    count = min(20, t // 5) if lags is None else lags
    if count < 1:
        return np.full(r, np.nan)
    power = np.einsum("ktr,ktr->r", records, records)
    total = np.zeros(r)
    for lag in range(1, count + 1):
        product = np.einsum("ktr,ktr->r", records[:, lag:], records[:, :-lag])
        total += np.divide(product, power, out=np.zeros(r), where=power > 0) ** 2 / (t - lag)
    return chi2_tail((k if independent is None else independent) * t * (t + 2) * total, count)
