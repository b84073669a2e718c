"""Simulation-based calibration: standard errors and covariances are what estimates scatter by.

Tests of uniformity and of chi-squared are SciPy's, the correction for many tests is statsmodels'.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import calibration

from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression

SIGNIFICANCE = 0.01


def probabilities(rows: list[calibration.Errors]) -> np.ndarray:
    return np.concatenate([[*row.uniform, row.consistent] for row in rows])


def scattered(factor: float, trials: int = 200, parameters: int = 5) -> calibration.Errors:
    """Errors of an estimator that states `factor` times its scatter."""
    expected = {"combinations": parameters, "mean": parameters, "variance": 2 * parameters}
    z = np.random.default_rng(0).standard_normal((trials, parameters)) / factor
    return calibration.Errors(
        robot="none",
        estimator="none",
        log="white",
        transform=stats.norm.cdf(z),
        squared=tuple(
            calibration.SquaredError(total=total, **expected) for total in (z**2).sum(axis=1)
        ),
        held=float((np.abs(z) < 1.96).mean()),
    )


@pytest.mark.slow
def test_linear_estimators_of_two_robots_are_calibrated() -> None:
    rows = list(calibration.linear(("five_bar", "redundant"), 30))
    rejected, _, _, _ = multipletests(probabilities(rows), alpha=SIGNIFICANCE, method="holm")
    assert not rejected.any()
    assert all(row["calibrated"] for row in calibration.judged(rows))


@pytest.mark.parametrize(("factor", "calibrated"), [(1.0, True), (0.8, False), (1.25, False)])
def test_standard_errors_a_fifth_off_are_found(factor: float, calibrated: bool) -> None:
    (row,) = calibration.judged([scattered(factor)])
    assert row["calibrated"] is calibrated


def test_probabilities_are_corrected_as_statsmodels_corrects_them() -> None:
    rows = [scattered(0.9), scattered(1.0), scattered(1.1)]
    _, corrected, _, _ = multipletests(probabilities(rows), method="holm")
    for k, row in enumerate(calibration.judged(rows)):
        block = corrected[6 * k : 6 * k + 6]
        assert row["uniform"] == pytest.approx(block[:5].min())
        assert row["consistent"] == pytest.approx(block[5])


def test_squared_errors_of_an_estimated_covariance_have_the_distribution_they_state() -> None:
    """Ten equations more than parameters: e^T P^-1 e is 25 % larger than with a known covariance."""
    rng = np.random.default_rng(2)
    regressor = rng.normal(size=(16, 1, 6))
    totals = []
    for _ in range(400):
        problem = Regression(
            regressor=regressor,
            effort=rng.normal(size=(16, 1)),
            rows=("a",),
            row_units=("N",),
            parameters=tuple("bcdefg"),
            units=("1",) * 6,
        )
        estimate = LeastSquares(uncertainty="white").fit(problem)
        error = calibration.squared_error(estimate, np.zeros(6))
        totals.append(error.total)
    exact = stats.f(6, 10)  # of normal errors
    assert error.combinations == 6
    assert error.mean == pytest.approx(6 * exact.mean())
    assert error.variance == pytest.approx(36 * exact.var())
    assert stats.kstest(np.array(totals) / 6, exact.cdf).pvalue > 0.01


def test_the_excess_of_an_estimated_covariance_is_that_of_hotelling() -> None:
    """Three rows, each with parameters of its own through the same regressor."""
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(100, 4))
    regressor = np.zeros((100, 3, 12))
    for row in range(3):
        regressor[:, row, 4 * row : 4 * row + 4] = columns
    covariance = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.3], [0.0, 0.3, 4.0]])
    problem = Regression(
        regressor=regressor,
        effort=np.zeros((100, 3)),
        rows=("a", "b", "c"),
        row_units=("N",) * 3,
        parameters=tuple("defghijklmno"),
        units=("1",) * 12,
    )
    excess = calibration.correlated_excess(problem, covariance)
    assert excess == pytest.approx(4 / 96)  # (r + 1) / f; exactly f / (f - r - 1) - 1
    assert 1 + excess == pytest.approx(96 / 92, abs=2e-3)


@pytest.mark.long
@pytest.mark.parametrize("part", ["linear", "nonlinear"])
def test_every_estimator_is_calibrated_on_every_robot(part: str) -> None:
    rows = list(getattr(calibration, part)())
    bad = [row for row in calibration.judged(rows) if not row["calibrated"] or row["failed"]]
    assert not bad
