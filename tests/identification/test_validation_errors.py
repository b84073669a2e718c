"""Errors on held-out logs, by hand: over valid equations and over all samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import Regression
from gough.identification.validation import noise_excess, validate

TRUTH = np.array([2.0, -1.0, 0.5])


def regression(seed: int, noise: float, mask: np.ndarray | None = None) -> Regression:
    """Return 400 samples of two rows with noise."""
    rng = np.random.default_rng(seed)
    regressor = rng.standard_normal((400, 2, 3))
    effort = regressor @ TRUTH + noise * rng.standard_normal((400, 2))
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=("a", "b"),
        row_units=("N", "N"),
        parameters=("p", "q", "r"),
        units=("kg",) * 3,
        mask=mask,
    )


def test_errors_are_those_of_valid_equations_and_of_all_samples() -> None:
    estimate = WeightedLeastSquares().fit(regression(0, 0.1))
    mask = np.ones((400, 2), dtype=bool)
    mask[:100, 1] = False
    held_out = regression(1, 0.1, mask)
    effort = held_out.effort.copy()
    effort[:100, 1] += 3.0  # as friction near reversals, which the mask leaves out
    held_out = Regression(
        regressor=held_out.regressor,
        effort=effort,
        rows=held_out.rows,
        row_units=held_out.row_units,
        parameters=held_out.parameters,
        units=held_out.units,
        mask=mask,
    )
    found = validate(estimate, [held_out])
    residual = effort - held_out.regressor @ estimate.values
    for row in range(2):
        valid = mask[:, row]
        rms = np.sqrt(np.mean(residual[valid, row] ** 2))
        effort_rms = np.sqrt(np.mean(effort[valid, row] ** 2))
        assert found.rms[row] == pytest.approx(rms)
        assert found.relative[row] == pytest.approx(rms / effort_rms)
        everything = np.sqrt(np.mean(residual[:, row] ** 2) / np.mean(effort[:, row] ** 2))
        assert found.relative_all[row] == pytest.approx(everything)
    assert found.relative_all[1] > 5 * found.relative[1]
    np.testing.assert_allclose(found.share, [1.0, 0.75])


@pytest.mark.parametrize(("noise", "grade"), [(0.15, "good"), (0.4, "fair"), (0.9, "poor")])
def test_the_grade_follows_from_the_error_of_the_worst_row(noise: float, grade: str) -> None:
    """Efforts are about 2.3 N: noise of a tenth and of a quarter of that are the limits."""
    estimate = WeightedLeastSquares().fit(regression(0, 0.01))
    found = validate(estimate, [regression(1, noise)])
    expected = noise / np.sqrt(TRUTH @ TRUTH + noise**2)
    assert found.relative.max() == pytest.approx(expected, rel=0.1)
    assert found.predicts == grade


def repeated(seed: int, noise: float, repetitions: int) -> Regression:
    """Return the mean of repetitions of one motion, with its covariance."""
    exact = regression(seed, 0.0)
    rng = np.random.default_rng([seed, repetitions])
    efforts = exact.effort + noise * rng.standard_normal((repetitions, 400, 2))
    mean = efforts.mean(axis=0)
    variance = ((efforts - mean) ** 2).sum(axis=(0, 1)) / (400 * repetitions * (repetitions - 1))
    return replace(exact, effort=mean, replicates=efforts, covariance=np.diag(variance))


def test_noise_of_few_held_out_periods_is_no_higher_error() -> None:
    """A fit of twenty periods and two held-out ones: the error is 3.2 times that of the fit."""
    estimate = WeightedLeastSquares().fit(repeated(0, 0.2, 20))
    for seed in range(1, 101):
        assert not validate(estimate, [repeated(seed, 0.2, 2)]).notices
    worse = validate(estimate, [repeated(1, 0.2, 2)]).rms ** 2 + 0.15**2
    biased = repeated(1, 0.2, 2)
    bias = 0.15 * np.random.default_rng(3).standard_normal((400, 2))
    found = validate(estimate, [replace(biased, effort=biased.effort + bias)])
    assert found.rms**2 == pytest.approx(worse, rel=0.1)
    assert len(found.notices) == 2


def test_the_noise_that_is_allowed_for_is_a_quantile_of_f() -> None:
    block = repeated(5, 0.2, 3)
    expected = stats.f.ppf(0.999, 400, 800)
    assert noise_excess([block]) == pytest.approx(expected, rel=0.02)
    assert noise_excess([block, block]) == pytest.approx(stats.f.ppf(0.999, 800, 1600), rel=0.02)
    assert list(noise_excess([regression(5, 0.2)])) == [1.0, 1.0]
