"""Estimators end well: rows that hang together, rows without noise, unequal rows, few samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gough.core.errors import NotIdentifiable
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression
from gough.fitting.robust import Robust
from gough.fitting.row_noise import SETTLED_STEP, estimate_row_noise
from trials import assert_covers, repeated

LINEAR = [LeastSquares(), WeightedLeastSquares(), GaussMarkov(), Robust()]
estimators = pytest.mark.parametrize("estimator", LINEAR, ids=lambda e: type(e).__name__)
weighted = pytest.mark.parametrize(
    "estimator", [WeightedLeastSquares(), GaussMarkov()], ids=lambda e: type(e).__name__
)


def make(t: int, r: int, p: int, noise: np.ndarray, seed: int = 0) -> tuple[Regression, np.ndarray]:
    """Return a problem whose noise has the given square root (r, r), and its truth."""
    regressor, truth = (
        np.random.default_rng([7, t, r, p]).normal(size=(t, r, p)),
        np.arange(1.0, p + 1),
    )
    effort = regressor @ truth + np.random.default_rng([seed, 1]).normal(size=(t, r)) @ noise.T
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=tuple("abcdefgh"[:r]),
        row_units=("N",) * r,
        parameters=tuple(f"p{i}" for i in range(p)),
        units=("1",) * p,
    ), truth


def coverage(
    estimator: Any, t: int, r: int, p: int, noise: np.ndarray, trials: int = 100
) -> tuple[list[np.ndarray], set[str]]:
    inside, notes = [], set()
    for seed in range(trials):
        problem, truth = make(t, r, p, noise, seed)
        found = estimator.fit(problem)
        notes |= {notice.text for notice in found.notices}
        low, high = found.interval().T
        inside.append((low <= truth) & (truth <= high))
    return inside, notes


def alike(rows: int, correlation: float) -> np.ndarray:
    return np.linalg.cholesky(
        correlation * np.ones((rows, rows)) + (1 - correlation) * np.eye(rows)
    )


@estimators
@pytest.mark.parametrize("samples", [3, 60])
def test_data_without_noise_are_answered_exactly(estimator: Any, samples: int) -> None:
    problem, truth = make(samples, 3, 6, np.zeros((3, 3)))
    found = estimator.fit(problem)
    np.testing.assert_allclose(found.values, truth, rtol=1e-12)
    assert (found.std < 1e-6).all()


def test_rows_that_hang_together_closely_are_used_for_what_they_tell() -> None:
    """Noise common to two rows cancels in their difference: a hundredfold gain at a correlation of
    0.9999.
    """
    covered, _ = coverage(GaussMarkov(), 120, 2, 5, alike(2, 0.9999))
    assert_covers(covered, high=0.985)
    problem, _ = make(120, 2, 5, alike(2, 0.9999))
    assert (GaussMarkov().fit(problem).std < 0.03 * WeightedLeastSquares().fit(problem).std).all()


def test_rows_with_the_very_same_noise_fall_back_to_single_rows() -> None:
    problem, _ = make(2000, 3, 2, np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 1.0]]))
    found, rows = GaussMarkov().fit(problem), WeightedLeastSquares().fit(problem)
    (note,) = (n.text for n in found.notices if "on its own" in n.text)
    assert "rows a, b is not independent" in note
    np.testing.assert_array_equal(found.values, rows.values)
    np.testing.assert_array_equal(found.std, rows.std)


@weighted
def test_a_row_without_noise_among_noisy_ones_decides_what_it_sees(estimator: Any) -> None:
    problem, truth = make(100, 3, 6, np.diag([0.0, 1.0, 1.0]))
    regressor = problem.regressor.copy()
    regressor[:, 0, 4:] = 0.0  # the first row sees four of the parameters
    effort = problem.effort + ((regressor - problem.regressor) @ truth)
    found = estimator.fit(
        Regression(
            regressor=regressor,
            effort=effort,
            rows=problem.rows,
            row_units=problem.row_units,
            parameters=problem.parameters,
            units=problem.units,
        )
    )
    np.testing.assert_allclose(found.values[:4], truth[:4], rtol=1e-9)
    assert (np.abs(found.values - truth)[4:] < 4 * found.std[4:]).all()
    assert (found.std[4:] > 0.01).all()


@repeated(30, 100)
@weighted
def test_very_unequal_rows_are_weighted_by_their_noise(estimator: Any, trials: int) -> None:
    noise = np.diag([1e-6, 1.0, 10.0, 1e3])
    covered, notes = coverage(estimator, 200, 4, 8, noise, trials)
    assert_covers(covered, high=0.98)
    assert not any("passes" in note for note in notes)


@repeated(15, 80)
@weighted
@pytest.mark.parametrize(
    ("samples", "rows", "parameters"), [(12, 6, 10), (16, 7, 40), (30, 3, 8), (45, 6, 20)]
)
def test_few_samples_give_wide_enough_intervals(
    estimator: Any, samples: int, rows: int, parameters: int, trials: int
) -> None:
    covered, notes = coverage(estimator, samples, rows, parameters, alike(rows, 0.5), trials)
    assert_covers(covered, high=0.98)
    if isinstance(estimator, GaussMarkov) and samples < 7 * rows:
        assert any("too few for correlations" in note for note in notes)


@weighted
def test_weights_that_run_away_are_caught(estimator: Any) -> None:
    """63 equations for 40 parameters: the more weight a row of nine has, the better it is fitted,
    until exactly.
    """
    ran = 0
    for seed in range(20):
        problem, truth = make(9, 7, 40, alike(7, 0.3), seed)
        found = estimator.fit(problem)
        ran += any("weights diverge" in str(notice) for notice in found.notices)
        assert (np.abs(found.values - truth) < 8 * found.std).all()
    assert ran > 0


def test_a_row_with_as_many_parameters_of_its_own_as_equations_is_named() -> None:
    rng = np.random.default_rng(0)
    regressor = np.zeros((4, 2, 5))
    regressor[:, 0, :4], regressor[:, 1, 4] = rng.normal(size=(4, 4)), 1.0
    problem = Regression(
        regressor=regressor,
        effort=rng.normal(size=(4, 2)),
        rows=("x", "y"),
        row_units=("N", "N"),
        parameters=tuple("abcde"),
        units=("1",) * 5,
    )
    for estimator in (WeightedLeastSquares(), GaussMarkov()):
        with pytest.raises(NotIdentifiable, match="row 'x' is fitted exactly"):
            estimator.fit(problem)


def test_a_covariance_that_does_not_settle_gives_way_to_weights_of_single_rows() -> None:
    problem, _ = make(120, 3, 5, alike(3, 1 - 1e-7))
    condensed = problem.statistics(joint=True)
    short = estimate_row_noise(condensed, full=True, iterations=3, tolerance=1e-9)
    single = estimate_row_noise(condensed, iterations=3, tolerance=1e-9)
    assert "still changes after 3 iterations: each joint equation was weighted on its own" in str(
        short.notices[-1]
    )
    np.testing.assert_allclose(short.solution.values, single.solution.values)
    np.testing.assert_allclose(short.covariance, single.covariance)
    whole = estimate_row_noise(condensed, full=True, iterations=200, tolerance=1e-9)
    again = estimate_row_noise(condensed, full=True, iterations=400, tolerance=1e-9)
    moved = np.abs(whole.solution.values - again.solution.values) / np.linalg.norm(
        again.solution.root, axis=1
    )
    assert whole.notices or moved.max() < 3 * SETTLED_STEP
