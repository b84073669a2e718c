"""The estimator chosen by what it predicts of data that were left out."""

from __future__ import annotations

import numpy as np
import pytest

from gough.fitting.regression import Regression
from gough.identification.estimator_choice import choose_estimator
from gough.identification.estimators import ESTIMATORS


def regression(rng: np.random.Generator, noise: np.ndarray) -> Regression:
    """Return three logs of 200 samples with three parameters and the given noise, (600, 2)."""
    regressor = rng.standard_normal((600, 2, 3))
    return Regression(
        regressor=regressor,
        effort=regressor @ np.array([1.0, -2.0, 0.5]) + noise,
        rows=("a", "b"),
        row_units=("N", "N"),
        parameters=("x", "y", "z"),
        units=("1",) * 3,
        recording=np.repeat([0, 1, 2], 200),
    )


def test_gaussian_noise_keeps_gauss_markov() -> None:
    """No estimator differs from it by a standard error, so that nothing need be left out."""
    rng = np.random.default_rng(0)
    problem = regression(rng, 0.3 * rng.standard_normal((600, 2)))
    assert choose_estimator(problem, ESTIMATORS) == ("gm", ())


def test_only_estimators_that_differ_are_compared_and_gauss_markov_is_kept() -> None:
    """Rows of very different noise: only plain least squares differs by more than its error."""
    rng = np.random.default_rng(3)
    problem = regression(rng, [0.01, 3.0] * rng.standard_normal((600, 2)))
    name, notices = choose_estimator(problem, ESTIMATORS)
    assert name == "gm"
    assert "logs that were left out: gm" in notices[0].text
    assert " ls " in notices[0].text
    assert "robust" not in notices[0].text


def test_gross_outliers_in_one_log_choose_the_robust_one() -> None:
    """Least squares fits the outliers; the logs without any show it."""
    rng = np.random.default_rng(1)
    noise = 0.01 * rng.standard_normal((600, 2))
    problem = regression(rng, noise)
    hit = rng.uniform(size=(600, 2)) < np.where(np.arange(600) < 200, 0.25, 0.0)[:, None]
    outliers = np.where(hit, 5.0 * problem.regressor[:, :, 0] ** 2, 0.0)
    problem = regression(np.random.default_rng(1), noise + outliers)
    name, notices = choose_estimator(problem, ESTIMATORS)
    assert name == "robust"
    assert notices[0].where == "robust"


def test_errors_are_those_of_fits_without_the_log() -> None:
    rng = np.random.default_rng(2)
    problem = regression(rng, 0.3 * rng.standard_normal((600, 2)))
    text = choose_estimator(problem, {"ls": ESTIMATORS["ls"]})[1][0].text
    squares = 0.0
    for log in range(3):
        left_out = problem.recording == log
        W, y = problem.regressor[~left_out].reshape(-1, 3), problem.effort[~left_out].reshape(-1)
        values = np.linalg.lstsq(W, y, rcond=None)[0]
        residual = (problem.effort - problem.regressor @ values)[left_out]
        squares = squares + (residual**2).sum(axis=0)
    relative = squares / (problem.effort**2).sum(axis=0)
    expected = 100 * np.sqrt(relative.mean())
    assert float(text.split("ls ")[1].split(" %")[0]) == pytest.approx(expected, rel=0.01)
