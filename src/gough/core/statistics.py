"""Quantiles and tests. From scipy.special: importing scipy.stats takes half of the time of a
start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gough.core.arrays import TINY, BoolArray, FloatArray


def normal_quantile(probability: float) -> float:
    """Return the value that a standard Gaussian is below with a probability."""
    return float(special.ndtri(probability))


def robust_scale(values: FloatArray) -> FloatArray:
    """Return the standard deviation of Gaussian noise about zero from its median size, (n, ...) ->
    (...).
    """
    return np.asarray(np.median(np.abs(values), axis=0) / normal_quantile(0.75))


def robust_scores(values: FloatArray, least: ArrayLike = 1e-300) -> FloatArray:
    """Return values (n, r) in robust standard deviations, known to be at `least` (r,), from the
    median of a column.
    """
    gap = values - np.median(values, axis=0)
    return np.asarray(gap / np.maximum(robust_scale(gap), least))


def student_quantile(probability: float, freedom: ArrayLike) -> FloatArray:
    """Return the quantile of Student's t; Gaussian where the degrees of freedom are infinite."""
    return np.asarray(special.stdtrit(freedom, probability))


def student_tail(value: ArrayLike, freedom: ArrayLike) -> FloatArray:
    """Return the probability that Student's t exceeds a value; Gaussian where `freedom` is
    infinite.
    """
    return np.asarray(special.stdtr(freedom, -np.asarray(value)))


def chi2_quantile(probability: float, freedom: float) -> float:
    return float(special.chdtri(freedom, 1 - probability))


def chi2_tail(value: ArrayLike, freedom: ArrayLike) -> FloatArray:
    """Return the probability that chi-squared exceeds a value."""
    return np.asarray(special.chdtrc(freedom, value))


def f_tail(value: float, freedom: float, below: float) -> float:
    """Return the probability that F exceeds a value; chi-squared / freedom where `below` is
    infinite.
    """
    if not np.isfinite(below):
        return float(chi2_tail(value * freedom, freedom))
    return float(special.fdtrc(freedom, below, value))


def holm(p: FloatArray) -> FloatArray:
    """Return Holm's corrected p-values: the k-th smallest of n times n - k + 1, never falling, at
    most 1, (n,).
    """
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order]), 1.0)
    return corrected


def ljung_box(residual: FloatArray, mask: BoolArray | None = None) -> FloatArray:
    """Return the probability of autocorrelations this large in white noise, column by column, (t,
    r) -> (r,).

    Q = n (n + 2) sum_k rho_k^2 / n_k, chi-squared with as many degrees of freedom as lags (Ljung
    and Box 1978); n samples of a column count and n_k pairs of them at lag k, n - k if all do. 20
    lags, or a fifth of the samples if these are few; NaN if there is not even one.
    """
    t, r = residual.shape
    lags = min(20, t // 5)
    if lags < 1:
        return np.full(r, np.nan)
    there = np.ones((t, r), bool) if mask is None else mask
    many = np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, residual - np.where(there, residual, 0.0).sum(axis=0) / many, 0.0)
    power = np.maximum((centred**2).sum(axis=0), TINY)
    total = np.zeros(r)
    for k in range(1, lags + 1):
        rho = (centred[k:] * centred[:-k]).sum(axis=0) / power
        total += rho**2 / np.maximum((there[k:] & there[:-k]).sum(axis=0), 1)
    return chi2_tail(many * (many + 2) * total, lags)
