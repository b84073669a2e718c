"""The covariance of a sum of autocorrelated terms."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray


def long_run_covariance(
    shifts: FloatArray,
    group: IntArray | None = None,
    *,
    lags: int | None = None,
    prewhiten: bool = True,
) -> tuple[FloatArray, int, FloatArray]:
    """Return the covariance of a sum of autocorrelated terms, its lags and degrees of freedom.

    Newey and West: sum_h (1 - |h| / (lags + 1)) Gamma_h, lags by
    Andrews' AR(1) rule, after prewhitening each column by its own AR(1)
    (Andrews and Monahan), which keeps the covariance positive. Degrees
    of freedom: those of the kernel, 3 t / (2 lags + 2), and of the
    AR(1) factor, t (1 - a) / (2 (1 + a)).

    Args:
        shifts: Terms in the order of time, (t, q).
        group: Label of each term, (t,); terms of different groups are
            independent.
        lags: Number of lags; chosen by default.
        prewhiten: Whether to prewhiten the terms.
    """
    t, q = shifts.shape
    labels = np.zeros(t, np.int64) if group is None else group
    scale = np.maximum(np.abs(shifts).max(axis=0, initial=0.0), TINY)
    terms = shifts / scale  # keeps fourth powers in range
    coefficient = np.zeros(q)  # of the AR(1) model
    if prewhiten:
        coefficient = _first_correlation(terms, labels)
        same_group = labels[1:] == labels[:-1]
        terms = (terms[1:] - coefficient * terms[:-1])[same_group]
        labels = labels[1:][same_group]
    if lags is None:
        lags = _andrews_lags(terms, labels)
    lags = min(lags, len(terms) - 1)
    total = terms.T @ terms
    for h in range(1, lags + 1):
        same_group = labels[h:] == labels[:-h]
        gamma = (terms[h:] * same_group[:, None]).T @ terms[:-h]
        total += (1 - h / (lags + 1)) * (gamma + gamma.T)
    recolouring = scale / (1 - coefficient)
    covariance = total * np.outer(recolouring, recolouring) * (t / len(terms))
    inverse_freedom = np.full(q, (lags + 1) / (1.5 * t))
    if prewhiten:
        inverse_freedom += 2 * (1 + coefficient) / ((1 - coefficient) * t)
    return covariance, lags, np.maximum(1 / inverse_freedom, 1.0)


def _andrews_lags(terms: FloatArray, labels: IntArray) -> int:
    """Return the number of lags by Andrews' AR(1) rule for the Bartlett kernel."""
    rho = _first_correlation(terms, labels)
    numerator = (4 * rho**2 / ((1 - rho) ** 6 * (1 + rho) ** 2)).sum()
    denominator = (1 / (1 - rho) ** 4).sum()
    return int(np.ceil(1.1447 * (numerator / denominator * len(terms)) ** (1 / 3)))


def _first_correlation(terms: FloatArray, labels: IntArray) -> FloatArray:
    """Return each column's AR(1) coefficient inside groups, kept away from +-1, (q,)."""
    same_group = (labels[1:] == labels[:-1])[:, None]
    lagged = (terms[1:] * terms[:-1] * same_group).sum(axis=0)
    squares = (terms[:-1] ** 2 * same_group).sum(axis=0)
    coefficient = np.divide(lagged, squares, out=np.zeros_like(lagged), where=squares > 0)
    return np.asarray(np.clip(coefficient, -0.97, 0.97))
