"""Block statistics: the same answers as the samples they come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.arrays import IntArray
from gough.core.names import parameters
from gough.fitting.cross_validation import values_without, weighted_fit
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import Regression, block_statistics, statistics_by_label
from gough.fitting.row_noise import estimate_row_noise

TRUTH = np.array([2.0, -1.0, 0.5])
NOISE = np.array([0.1, 1.0])


def make(samples: int = 400, seed: int = 0, *, dead_column: bool = False) -> Regression:
    rng = np.random.default_rng(seed)
    regressor = rng.standard_normal((samples, 2, 3))
    if dead_column:
        regressor[:, :, 2] = 0.0
    effort = regressor @ TRUTH + NOISE * rng.standard_normal((samples, 2))
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=("a", "b"),
        row_units=("N", "N m"),
        parameters=parameters(("x", "y", "z"), ("kg",) * 3),
        units=("kg",) * 3,
        time=np.arange(samples) * 0.01,
        mask=rng.uniform(size=(samples, 2)) < 0.9,
    )


def labels(samples: int, blocks: int) -> IntArray:
    return np.arange(samples) * blocks // samples


def test_the_fit_is_that_of_the_weighted_least_squares_estimator() -> None:
    problem = make()
    estimate = WeightedLeastSquares().fit(problem)
    fit = weighted_fit(problem.statistics())
    assert np.abs(fit.values - estimate.values).max() < 1e-3 * estimate.std.min()
    assert 1 / np.sqrt(fit.weights) == pytest.approx(NOISE, rel=0.1)


@pytest.mark.parametrize("kind", ["usual", "nearly dependent", "without effect", "exact"])
def test_the_fit_is_that_of_the_full_iteration(kind: str) -> None:
    problem = make(dead_column=kind == "without effect")
    if kind == "nearly dependent":
        regressor = np.array(problem.regressor)
        regressor[:, :, 2] = regressor[:, :, 1] + 1e-7 * regressor[:, :, 2]
        problem = replace(problem, regressor=regressor)
    if kind == "exact":
        problem = replace(problem, effort=problem.regressor @ TRUTH)
    statistics = problem.statistics()
    noise = estimate_row_noise(statistics, iterations=20, tolerance=1e-3, deficient=True)
    fit = weighted_fit(statistics)
    standard_error = np.linalg.norm(noise.solution.root, axis=1)
    shift = np.abs(fit.values - noise.solution.values)
    assert (shift <= 1e-6 * standard_error + 1e-12).all()
    assert fit.weights == pytest.approx(1 / np.diag(noise.covariance), rel=1e-6)


def test_gram_matrices_and_factors_give_the_same_fit() -> None:
    problem = make()
    by_label = statistics_by_label(problem, labels(len(problem), 5), 5)
    from_grams = weighted_fit(by_label).values
    from_factors = weighted_fit(problem.statistics()).values
    assert from_grams == pytest.approx(from_factors, rel=1e-9)


def test_samples_without_a_label_are_left_out_of_blocks_in_any_order() -> None:
    problem = make(60)
    label = np.array([2, -1, 0, 0, 1, -1] * 10)
    blocks = statistics_by_label(problem, label, 3)
    for block in range(3):
        alone = problem.take(np.flatnonzero(label == block))
        stacked = alone.stacked()
        expected = np.einsum("tri,trj->rij", stacked, stacked)
        assert blocks.grams[block] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert blocks.block_valid[block].tolist() == alone.n_valid.tolist()
    assert blocks.block_samples.tolist() == [20, 10, 10]


def test_leaving_blocks_out_equals_a_fit_of_the_other_samples() -> None:
    problem = make()
    label = labels(len(problem), 5)
    without = statistics_by_label(problem, label, 5).without([1, 3])
    kept = problem.take(np.flatnonzero((label != 1) & (label != 3)))
    assert weighted_fit(without).values == pytest.approx(
        weighted_fit(kept.statistics()).values, rel=1e-9
    )
    assert (without.n_valid == kept.n_valid).all()


def test_cross_validation_is_that_of_samples_fitted_again() -> None:
    problem = make()
    label = labels(len(problem), 4)
    statistics = statistics_by_label(problem, label, 4)
    values = values_without(statistics, [[0], [1], [2], [3]])
    for block in range(4):
        inside = problem.take(np.flatnonzero(label == block))
        outside = problem.take(np.flatnonzero(label != block))
        fitted = weighted_fit(outside.statistics()).values
        others = set(range(4)) - {block}
        squares = statistics.without(others).squared_residuals(values[block])[0]
        expected = (inside.residual(fitted) ** 2).sum(axis=0)
        assert squares == pytest.approx(expected, rel=1e-7)


def test_what_the_blocks_do_not_determine_stays_zero() -> None:
    fit = weighted_fit(make(dead_column=True).statistics())
    assert fit.values[2] == 0.0


def test_selected_columns_are_those_of_the_selected_regression() -> None:
    problem = make()
    statistics = block_statistics(problem.blocks(100))
    chosen = statistics.select(["z", "x"])
    assert chosen.parameters == ("z", "x")
    expected = problem.select(["z", "x"]).statistics().factors
    gram = np.swapaxes(chosen.factors, 1, 2) @ chosen.factors
    np.testing.assert_allclose(gram, np.swapaxes(expected, 1, 2) @ expected, atol=1e-9)


def test_valid_equations_are_counted_by_block_and_row() -> None:
    problem = make()
    statistics = problem.statistics()
    assert (statistics.block_valid.sum(axis=0) == problem.n_valid).all()
    assert statistics.block_samples.sum() == len(problem)


def test_estimators_share_the_statistics_of_a_regression() -> None:
    problem = make()
    assert problem.statistics() is problem.statistics()
    assert problem.statistics(joint=True).joint is not None
    assert problem.statistics().joint is None
