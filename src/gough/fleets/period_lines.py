"""Parameters of one robot along its periods: constant, or on lines over time and temperature."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.names import INERTIAL, Parameter
from gough.fitting.cross_validation import solve_normal_equations

# periods beyond the number of coefficients of a line, below which it is
# not tried
MIN_SPARE_PERIODS = 3


def may_change(name: Parameter) -> bool:
    """Return whether a parameter may change: those of joints do, masses and inertias do not."""
    return name.kind not in INERTIAL


def expected_parameters(
    grams: FloatArray,
    time: FloatArray,
    temperature: FloatArray,
    usual: BoolArray,
    changing: BoolArray,
) -> FloatArray:
    """Return the parameters that are expected in each period, (t, p).

    They are constant, or some follow a line over temperature, time or
    both, whichever predicts usual periods best that were left out of
    the fit (mean logarithm of the squared error). A line is fitted to
    the equations of all usual periods together, chi_t = theta_0 + sum_k
    Z_tk theta_k. Lines through the estimates of single parameters would
    not do: where parameters are correlated, the change of one of them
    alone fits no period.

    Args:
        grams: Gram matrix of [W y] of each period, rows weighted, (t, p + 1, p + 1).
        time: Start of the periods, (t,).
        temperature: Mean of the periods, (t,); not used if some are not
            a number.
        usual: Periods to which the parameters are fitted, (t,).
        changing: Parameters that may change, (p,).
    """
    columns = np.flatnonzero(changing)
    best = np.zeros((len(time), 0))
    smallest_error = np.inf
    for covariates in _candidates(time, temperature):
        if covariates.shape[1] and usual.sum() < covariates.shape[1] + MIN_SPARE_PERIODS:
            continue
        error = _error_left_out(grams[usual], covariates[usual], columns)
        if error < smallest_error:
            smallest_error = error
            best = covariates
    moments = _moments(grams[usual], best[usual], columns)
    coefficients = solve_normal_equations(moments.sum(axis=0))
    return np.array([_on_line(coefficients, z, columns) for z in best])


def _candidates(time: FloatArray, temperature: FloatArray) -> list[FloatArray]:
    """Return the covariates Z of each candidate, (t, m), the simplest first."""
    candidates = [np.zeros((len(time), 0))]
    with_temperature = np.isfinite(temperature).all() and np.ptp(temperature) > 0
    if with_temperature:
        warmth = (temperature - temperature.mean()) / np.ptp(temperature)
        candidates.append(warmth[:, None])
    if np.ptp(time) > 0:
        elapsed = (time - time.mean()) / np.ptp(time)
        candidates.append(elapsed[:, None])
        if with_temperature:
            candidates.append(np.column_stack([warmth, elapsed]))
    return candidates


def _moments(grams: FloatArray, covariates: FloatArray, columns: IntArray) -> FloatArray:
    """Return the Gram matrix of [W, Z_1 W_c, ..., Z_m W_c, y] of each period, (t, k, k).

    W_c are the columns of parameters that may change.
    """
    p = grams.shape[1] - 1
    order = [np.arange(p)]
    factors = [np.ones((len(grams), p))]
    for covariate in covariates.T:
        order.append(columns)
        factors.append(np.repeat(covariate[:, None], len(columns), axis=1))
    order.append(np.array([p]))
    factors.append(np.ones((len(grams), 1)))
    chosen = np.concatenate(order)
    factor = np.concatenate(factors, axis=1)
    moments = grams[:, chosen[:, None], chosen]
    return np.asarray(moments * factor[:, :, None] * factor[:, None, :])


def _on_line(coefficients: FloatArray, z: FloatArray, columns: IntArray) -> FloatArray:
    """Return the parameters at some covariates z (m,), (p,)."""
    n_slopes = len(z) * len(columns)
    n_parameters = len(coefficients) - n_slopes
    parameters = coefficients[:n_parameters].copy()
    slopes = coefficients[n_parameters:].reshape(len(z), len(columns))
    parameters[columns] += z @ slopes
    return parameters


def _error_left_out(grams: FloatArray, covariates: FloatArray, columns: IntArray) -> float:
    """Return the mean logarithm of the squared error of periods left out one at a time."""
    moments = _moments(grams, covariates, columns)
    total = moments.sum(axis=0)
    logarithms = []
    for gram, moment, z in zip(grams, moments, covariates):
        parameters = _on_line(solve_normal_equations(total - moment), z, columns)
        extended = np.append(-parameters, 1.0)
        logarithms.append(np.log(max(float(extended @ gram @ extended), TINY)))
    return float(np.mean(logarithms))
