"""Parameters that change with time or temperature: what is expected in each period."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.names import Parameter
from gough.fleets.period_lines import expected_parameters, may_change

PERIODS = 8
SAMPLES = 400
NOISE = 0.1
FRICTION = np.array([False, True, True])  # parameters that may change


def periods_of(
    parameters: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return Gram matrices and samples [W y] of periods with given parameters, (t, p).

    The first two columns of W are nearly the same, so that their parameters are correlated.
    """
    tables = []
    for chi in parameters:
        W = rng.standard_normal((SAMPLES, len(chi)))
        W[:, 1] = W[:, 0] + 0.02 * W[:, 1]
        y = W @ chi + NOISE * rng.standard_normal(SAMPLES)
        tables.append(np.column_stack([W, y]))
    return np.array([table.T @ table for table in tables]), tables


def rms_residual(tables: list[np.ndarray], parameters: np.ndarray) -> np.ndarray:
    """Return the rms residual of each period, from the samples."""
    residuals = []
    for table, chi in zip(tables, parameters):
        residuals.append(np.sqrt(np.mean((table[:, -1] - table[:, :-1] @ chi) ** 2)))
    return np.array(residuals)


@pytest.mark.parametrize("seed", range(5))
def test_a_change_with_temperature_leaves_only_noise_also_of_correlated_parameters(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    temperature = rng.uniform(15, 25, PERIODS)
    parameters = np.tile([1.0, 2.0, 0.5], (PERIODS, 1))
    parameters[:, 2] -= 0.05 * (temperature - 20)
    grams, tables = periods_of(parameters, rng)
    everyday = np.ones(PERIODS, bool)
    expected = expected_parameters(grams, np.arange(PERIODS), temperature, everyday, FRICTION)
    assert rms_residual(tables, expected).max() < 1.15 * NOISE
    unknown = np.full(PERIODS, np.nan)
    constant = expected_parameters(grams, np.zeros(PERIODS), unknown, everyday, FRICTION)
    assert np.ptp(constant, axis=0).max() == 0.0
    assert rms_residual(tables, constant).max() > 1.3 * NOISE


@pytest.mark.parametrize("seed", range(5))
def test_one_period_that_differs_does_not_pull_a_line_through_it(seed: int) -> None:
    """Not even the last and hottest one: lines are chosen by the periods left out."""
    rng = np.random.default_rng(100 + seed)
    temperature = np.sort(rng.uniform(15, 25, PERIODS))
    parameters = np.tile([1.0, 2.0, 0.5], (PERIODS, 1))
    parameters[-1] += [0.0, 0.0, 1.0]
    grams, tables = periods_of(parameters, rng)
    time = np.arange(PERIODS, dtype=float)
    expected = expected_parameters(grams, time, temperature, np.ones(PERIODS, bool), FRICTION)
    residual = rms_residual(tables, expected)
    assert residual[-1] > 2.5 * residual[:-1].max()


def test_a_period_that_is_left_out_is_predicted_on_the_line_of_the_others() -> None:
    rng = np.random.default_rng(7)
    time = np.arange(PERIODS, dtype=float)
    parameters = np.tile([1.0, 2.0, 0.5], (PERIODS, 1))
    parameters[:, 2] += 0.1 * time
    grams, tables = periods_of(parameters, rng)
    usual = np.ones(PERIODS, bool)
    usual[5] = False
    grams[5] *= np.nan
    expected = expected_parameters(grams, time, np.full(PERIODS, np.nan), usual, FRICTION)
    assert rms_residual(tables, expected)[5] < 1.15 * NOISE


def test_friction_may_change_and_inertia_may_not() -> None:
    names = ["left.motor.fs", "right.elbow.fv", "tool.mR", "left.proximal.IzzR"]
    assert [may_change(Parameter(name)) for name in names] == [True, True, False, False]
