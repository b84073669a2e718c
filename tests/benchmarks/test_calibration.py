"""Simulation-based calibration: standard errors and covariances are what estimates scatter by.

Tests of uniformity and of chi-squared are SciPy's, the correction for many tests is statsmodels'.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import calibration

SIGNIFICANCE = 0.01


def probabilities(rows: list[calibration.Errors]) -> np.ndarray:
    return np.concatenate([[*row.uniform, row.consistent] for row in rows])


def scattered(factor: float, trials: int = 200, parameters: int = 5) -> calibration.Errors:
    """Errors of an estimator that states `factor` times its scatter."""
    from scipy import stats

    z = np.random.default_rng(0).standard_normal((trials, parameters)) / factor
    return calibration.Errors(
        robot="none",
        estimator="none",
        log="white",
        transform=stats.norm.cdf(z),
        squared=(z**2).sum(axis=1),
        freedom=z.size,
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


@pytest.mark.long
@pytest.mark.parametrize("part", ["linear", "nonlinear"])
def test_every_estimator_is_calibrated_on_every_robot(part: str) -> None:
    rows = list(getattr(calibration, part)())
    bad = [row for row in calibration.judged(rows) if not row["calibrated"] or row["failed"]]
    assert not bad
