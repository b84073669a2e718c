"""Quantiles, tail probabilities and tests.

They use scipy.special, because importing scipy.stats takes half of the
time of a start. SciPy itself imports scipy.special when the first of
them is called.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gough.core.arrays import TINY, BoolArray, FloatArray

# most lags; the usual choice for logs of a few hundred samples or more
LJUNG_BOX_LAGS = 20
LJUNG_BOX_SAMPLES_PER_LAG = 5  # short logs have fewer lags
MAX_CORRELATION_LAGS = 200  # samples
GAUSSIAN_MEDIAN = 0.6744897501960817  # median of |x| of standard normal x


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(scipy.special.ndtri(probability))


def robust_scale(values: FloatArray) -> FloatArray:
    """Return the standard deviation of zero-mean Gaussian noise from the median of |values|.

    Args:
        values: Samples along the first axis, (n, ...).
    """
    return np.asarray(np.median(np.abs(values), axis=0) / GAUSSIAN_MEDIAN)


def robust_scores(values: FloatArray, least: ArrayLike = 1e-300) -> FloatArray:
    """Return the distances from the median in robust standard deviations, (n, r).

    Args:
        values: Samples of each column, (n, r).
        least: Lower bound of the standard deviation of each column,
            (r,) or a number.
    """
    distance = values - np.median(values, axis=0)
    return np.asarray(distance / np.maximum(robust_scale(distance), least))


def student_quantile(probability: float, dof: ArrayLike) -> FloatArray:
    """Return the quantile of Student's t; Gaussian where the degrees of freedom are infinite."""
    return np.asarray(scipy.special.stdtrit(dof, probability))


def student_tail(value: ArrayLike, dof: ArrayLike) -> FloatArray:
    """Return P(t > value) of Student's t; Gaussian where `dof` is infinite."""
    return np.asarray(scipy.special.stdtr(dof, -np.asarray(value)))


def chi2_quantile(probability: float, dof: float) -> float:
    """Return the quantile of the chi-squared distribution."""
    return float(scipy.special.chdtri(dof, 1 - probability))


def chi2_tail(value: ArrayLike, dof: ArrayLike) -> FloatArray:
    """Return the probability that chi-squared exceeds a value."""
    return np.asarray(scipy.special.chdtrc(dof, value))


def f_tail(value: float, dof: float, denominator_dof: float) -> float:
    """Return the probability that F exceeds a value.

    Args:
        value: Of the F statistic.
        dof: Degrees of freedom of the numerator.
        denominator_dof: Degrees of freedom of the denominator; if
            infinite, F is chi-squared / dof.
    """
    if not np.isfinite(denominator_dof):
        return float(chi2_tail(value * dof, dof))
    return float(scipy.special.fdtrc(dof, denominator_dof, value))


def f_quantile(probability: float, dof: float, denominator_dof: float) -> float:
    """Return the quantile of the F distribution."""
    return float(scipy.special.fdtri(dof, denominator_dof, probability))


def squared_memory(deviation: FloatArray) -> float:
    """Return 1 + 2 sum_l rho_l^2 of noise, (k, t).

    So many samples determine a mean square as well as one independent
    sample.
    """
    power = float((deviation**2).sum())
    if power <= 0:
        return 1.0
    chance_correlation = 1 / np.sqrt(deviation.size)  # of white noise
    memory = 1.0
    for lag in range(1, min(MAX_CORRELATION_LAGS, deviation.shape[1] // 4) + 1):
        rho = float((deviation[:, lag:] * deviation[:, :-lag]).sum()) / power
        if abs(rho) > 2 * chance_correlation:
            memory += 2.0 * rho**2
    return memory


def holm(p: FloatArray) -> FloatArray:
    """Return p-values corrected for multiple tests by Holm's method, (n,).

    The k-th smallest of n is multiplied by n - k + 1; they never fall,
    and are at most 1.
    """
    order = np.argsort(p, kind="stable")
    multiplied = np.arange(len(p), 0, -1) * p[order]
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(multiplied), 1.0)
    return corrected


def ljung_box(residual: FloatArray, mask: BoolArray | None = None) -> FloatArray:
    """Return the p-value of the Ljung-Box test for white noise of each column, (r,).

    Q = n (n + 2) sum_k rho_k^2 / n_k, chi-squared with as many degrees
    of freedom as lags (Ljung and Box 1978), for n valid samples of a
    column and n_k pairs of valid samples at lag k (n - k if all are
    valid). There are 20 lags, or a fifth of the samples if that is
    less; NaN if there is not even one.

    Args:
        residual: (t, r).
        mask: Valid samples, (t, r); None if all are.
    """
    samples, columns = residual.shape
    lags = min(LJUNG_BOX_LAGS, samples // LJUNG_BOX_SAMPLES_PER_LAG)
    if lags < 1:
        return np.full(columns, np.nan)
    valid = np.ones((samples, columns), bool) if mask is None else mask
    n_valid = np.maximum(valid.sum(axis=0), 1)
    mean = np.where(valid, residual, 0.0).sum(axis=0) / n_valid
    centred = np.where(valid, residual - mean, 0.0)
    power = np.maximum((centred**2).sum(axis=0), TINY)
    total = np.zeros(columns)
    for lag in range(1, lags + 1):
        autocorrelation = (centred[lag:] * centred[:-lag]).sum(axis=0) / power
        pairs = (valid[lag:] & valid[:-lag]).sum(axis=0)
        total += autocorrelation**2 / np.maximum(pairs, 1)
    return chi2_tail(n_valid * (n_valid + 2) * total, lags)
