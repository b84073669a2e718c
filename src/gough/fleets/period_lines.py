"""Parameters of one robot along its periods: constant, or on lines over time and temperature."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray
from gough.fitting.cross_validation import solve_normal_equations

# periods beyond the number of coefficients of a line, below which it is not tried
MIN_SPARE_PERIODS = 3


def expected_parameters(
    grams: FloatArray, time: FloatArray, temperature: FloatArray, usual: BoolArray
) -> FloatArray:
    """Return the parameters that are expected in each period, (t, p).

    They are constant, or follow a line over temperature, time or both, whichever predicts
    usual periods best that were left out of the fit (mean logarithm of the squared error).
    A line is fitted to the equations of all usual periods together, chi_t = sum_k Z_tk
    theta_k. Lines through the estimates of single parameters would not do: where parameters
    are correlated, the change of one of them alone fits no period.

    Args:
        grams: Gram matrix of [W y] of each period, rows weighted, (t, p + 1, p + 1).
        time: Start of the periods, (t,).
        temperature: Mean of the periods, (t,); not used if some are not a number.
        usual: Periods to which the parameters are fitted, (t,).
    """
    best = np.ones((len(time), 1))
    smallest_error = np.inf
    for covariates in _candidates(time, temperature):
        if usual.sum() < covariates.shape[1] + MIN_SPARE_PERIODS and covariates.shape[1] > 1:
            continue
        error = _error_left_out(grams[usual], covariates[usual])
        if error < smallest_error:
            smallest_error = error
            best = covariates
    coefficients = _fit_lines(_moments(grams[usual], best[usual]).sum(axis=0), best.shape[1])
    return np.asarray(best @ coefficients)


def _candidates(time: FloatArray, temperature: FloatArray) -> list[FloatArray]:
    """Return the covariates Z of each candidate, (t, m), the simplest first."""
    constant = np.ones(len(time))
    candidates = [constant[:, None]]
    with_temperature = np.isfinite(temperature).all() and np.ptp(temperature) > 0
    if with_temperature:
        warmth = (temperature - temperature.mean()) / np.ptp(temperature)
        candidates.append(np.column_stack([constant, warmth]))
    if np.ptp(time) > 0:
        elapsed = (time - time.mean()) / np.ptp(time)
        candidates.append(np.column_stack([constant, elapsed]))
        if with_temperature:
            candidates.append(np.column_stack([constant, warmth, elapsed]))
    return candidates


def _moments(grams: FloatArray, covariates: FloatArray) -> FloatArray:
    """Return the Gram matrix of [Z (x) W, y] of each period, (t, m p + 1, m p + 1)."""
    n_periods, width, _ = grams.shape
    p = width - 1
    m = covariates.shape[1]
    products = np.einsum("tk,tl,tij->tkilj", covariates, covariates, grams[:, :p, :p])
    target = np.einsum("tk,ti->tki", covariates, grams[:, :p, p]).reshape(n_periods, m * p)
    moments = np.empty((n_periods, m * p + 1, m * p + 1))
    moments[:, :-1, :-1] = products.reshape(n_periods, m * p, m * p)
    moments[:, :-1, -1] = target
    moments[:, -1, :-1] = target
    moments[:, -1, -1] = grams[:, p, p]
    return moments


def _fit_lines(moments: FloatArray, n_covariates: int) -> FloatArray:
    """Return the coefficients theta of the lines, (m, p)."""
    return solve_normal_equations(moments).reshape(n_covariates, -1)


def _error_left_out(grams: FloatArray, covariates: FloatArray) -> float:
    """Return the mean logarithm of the squared error of periods left out one at a time."""
    moments = _moments(grams, covariates)
    total = moments.sum(axis=0)
    n_covariates = covariates.shape[1]
    logarithms = []
    for gram, moment, z in zip(grams, moments, covariates):
        parameters = z @ _fit_lines(total - moment, n_covariates)
        extended = np.append(-parameters, 1.0)
        logarithms.append(np.log(max(float(extended @ gram @ extended), TINY)))
    return float(np.mean(logarithms))
