"""Least squares, weighted and Gauss-Markov against statsmodels, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from gough.core.errors import InvalidInput, NotIdentifiable
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.problem import fix_parameters
from gough.fitting.regression import Regression, block_statistics

TRUTH = np.array([1.5, -0.2, 30.0, 4e-3])
COVARIANCE = np.array([[0.04, 0.05, 0.0], [0.05, 0.25, -0.2], [0.0, -0.2, 1.0]])


def make_problem(seed=0, t=200, noise=1.0, **changes):
    rng = np.random.default_rng(seed)
    regressor = rng.normal(size=(t, 3, 4)) * np.array(
        [1.0, 5.0, 0.1, 300.0]
    )  # columns of very different size
    error = rng.normal(size=(t, 3)) @ np.linalg.cholesky(COVARIANCE).T
    content = {
        "regressor": regressor,
        "effort": regressor @ TRUTH + noise * error,
        "rows": ("x", "y", "z"),
        "row_units": ("N", "N", "Nm"),
        "parameters": ("m", "fv", "fs", "off"),
        "units": ("kg", "Ns/m", "N", "N"),
    }
    return Regression(**(content | changes))


def stack(problem):
    return problem.regressor.reshape(-1, len(problem.parameters)), problem.effort.reshape(-1)


def test_least_squares_equals_statsmodels_to_rounding():
    problem = make_problem()
    W, y = stack(problem)
    reference = sm.OLS(y, W).fit()
    estimate = LeastSquares(uncertainty="white").fit(problem)
    np.testing.assert_allclose(estimate.values, reference.params, rtol=1e-11)
    np.testing.assert_allclose(estimate.covariance, reference.cov_params(), rtol=1e-9)
    np.testing.assert_allclose(estimate.interval(0.9), reference.conf_int(0.1), rtol=1e-9)
    np.testing.assert_allclose(estimate.noise_covariance, np.eye(3) * reference.scale, rtol=1e-10)


def test_weighted_least_squares_equals_statsmodels_with_the_same_weights():
    problem = make_problem()
    estimate = WeightedLeastSquares(uncertainty="white").fit(problem)
    W, y = stack(problem)
    weights = np.tile(1 / np.diag(estimate.noise_covariance), len(problem))
    reference = sm.WLS(y, W, weights=weights).fit()
    np.testing.assert_allclose(estimate.values, reference.params, rtol=1e-10)
    np.testing.assert_allclose(
        reference.scale, 1.0, rtol=1e-7
    )  # converged weights make the weighted variance one
    # That the weights are estimates adds 2 sum_j (P_j - P_j C P_j) / f_j of Kenward and Roger,
    # P_j the information of row j and C the covariance, and takes as much from its estimate.
    sigma = np.sqrt(np.diag(estimate.noise_covariance))
    covariance = reference.normalized_cov_params
    addition = 0.0
    for j in range(3):
        rows = problem.regressor[:, j] / sigma[j]
        information = rows.T @ rows
        freedom = 200 - np.trace(information @ covariance)
        addition = addition + (information - information @ covariance @ information) * 2 / freedom
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(np.eye(4) - root.T @ addition @ root)
    np.testing.assert_allclose(
        estimate.covariance, root @ inverse @ inverse @ root.T, rtol=1e-7, atol=1e-12
    )


def test_converged_weights_are_a_fixed_point_of_the_residuals():
    problem = make_problem(t=40)
    estimate = WeightedLeastSquares(uncertainty="white").fit(problem)
    W, y = stack(problem)
    sigma = np.tile(np.sqrt(np.diag(estimate.noise_covariance)), 40)
    left = ((W @ estimate.values - y) / sigma).reshape(-1, 3)
    leverage = (
        np.diag((W / sigma[:, None]) @ np.linalg.pinv(W / sigma[:, None]))
        .reshape(-1, 3)
        .sum(axis=0)
    )
    np.testing.assert_allclose((left**2).sum(axis=0), 40 - leverage, rtol=1e-7)


def test_one_pass_is_the_estimator_of_the_paper():
    problem = make_problem()
    estimate = WeightedLeastSquares(iterations=1, tolerance=None, uncertainty="white").fit(problem)
    W, y = stack(problem)
    first = np.linalg.lstsq(W, y, rcond=None)[0]
    left = problem.effort - problem.regressor @ first
    leverage = np.diag(W @ np.linalg.pinv(W)).reshape(-1, 3).sum(axis=0)
    sigma = np.tile(np.sqrt((left**2).sum(axis=0) / (200 - leverage)), 200)
    second = np.linalg.lstsq(W / sigma[:, None], y / sigma, rcond=None)[0]
    np.testing.assert_allclose(estimate.values, second, rtol=1e-10)


def test_gauss_markov_with_known_covariance_equals_statsmodels():
    problem = make_problem(t=60, covariance=COVARIANCE)
    estimate = GaussMarkov(uncertainty="white").fit(problem)
    W, y = stack(problem)
    reference = sm.GLS(y, W, sigma=np.kron(np.eye(60), COVARIANCE)).fit()
    np.testing.assert_allclose(estimate.values, reference.params, rtol=1e-10)
    np.testing.assert_allclose(estimate.covariance, reference.normalized_cov_params, rtol=1e-9)
    assert np.isinf(estimate.degrees_of_freedom).all()


def test_gauss_markov_with_a_covariance_per_sample_equals_statsmodels():
    rng = np.random.default_rng(3)
    size = rng.uniform(0.2, 3.0, (60, 3))
    covariance = COVARIANCE * size[:, :, None] * size[:, None, :]
    problem = make_problem(t=60, covariance=covariance)
    estimate = GaussMarkov(uncertainty="white").fit(problem)
    W, y = stack(problem)
    sigma = np.zeros((180, 180))
    for s in range(60):
        sigma[3 * s : 3 * s + 3, 3 * s : 3 * s + 3] = covariance[s]
    reference = sm.GLS(y, W, sigma=sigma).fit()
    np.testing.assert_allclose(estimate.values, reference.params, rtol=1e-9)
    np.testing.assert_allclose(estimate.covariance, reference.normalized_cov_params, rtol=1e-8)
    streamed = block_statistics(block.whitened() for block in problem.blocks(17))
    again = GaussMarkov(covariance=np.eye(3), uncertainty="white").fit(streamed)
    np.testing.assert_allclose(again.values, estimate.values, rtol=1e-10)
    np.testing.assert_allclose(again.covariance, estimate.covariance, rtol=1e-9)


def test_estimated_covariance_is_a_fixed_point_and_close_to_the_truth():
    problem = make_problem(t=3000)
    estimate = GaussMarkov(uncertainty="white").fit(problem)
    np.testing.assert_allclose(estimate.noise_covariance, COVARIANCE, atol=0.05)
    again = GaussMarkov(covariance=estimate.noise_covariance, uncertainty="white").fit(problem)
    np.testing.assert_allclose(again.values, estimate.values, rtol=1e-9)
    left = problem.effort - problem.regressor @ estimate.values
    np.testing.assert_allclose(
        estimate.noise_covariance, left.T @ left / 3000, rtol=0.01, atol=1e-3
    )


def test_estimated_covariance_may_override_that_of_the_problem():
    problem = make_problem(covariance=np.eye(3))
    plain = GaussMarkov(uncertainty="white").fit(replace(problem, covariance=None))
    forced = GaussMarkov(covariance="estimated", uncertainty="white").fit(problem)
    own = GaussMarkov(uncertainty="white").fit(problem)
    np.testing.assert_array_equal(forced.values, plain.values)
    assert np.abs(own.values / plain.values - 1).max() > 1e-4


def test_full_covariance_beats_row_weights_when_rows_are_correlated():
    correlated = 0.95 * np.ones((3, 3)) + 0.05 * np.eye(3)
    errors = {"rows": [], "full": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        clean = make_problem(seed, noise=0.0, t=80)
        effort = clean.effort + rng.normal(size=(80, 3)) @ np.linalg.cholesky(correlated).T
        problem = replace(clean, effort=effort)
        errors["rows"].append(WeightedLeastSquares(uncertainty="white").fit(problem).values - TRUTH)
        errors["full"].append(GaussMarkov(uncertainty="white").fit(problem).values - TRUTH)
    assert (np.std(errors["full"], axis=0) < 0.6 * np.std(errors["rows"], axis=0)).all()


@pytest.mark.parametrize(
    "estimator",
    [
        LeastSquares(),
        WeightedLeastSquares(),
        GaussMarkov(),
        GaussMarkov(covariance=COVARIANCE),
        GaussMarkov(covariance=np.diag([1.0, 2.0, 3.0])),
    ],
)
def test_condensed_equals_in_memory_to_rounding(estimator):
    problem = make_problem(group=np.repeat(np.arange(8), 25))
    condensed = block_statistics(problem.blocks(37), joint=True)
    a, b = estimator.fit(problem), estimator.fit(condensed)
    np.testing.assert_allclose(b.values, a.values, rtol=1e-11)
    np.testing.assert_allclose(b.white_std, a.white_std, rtol=1e-9)
    np.testing.assert_allclose(b.residual_rms, a.residual_rms, rtol=1e-11)
    np.testing.assert_allclose(b.noise_covariance, a.noise_covariance, rtol=1e-9)
    np.testing.assert_allclose(a.residual_mean, (problem.effort - a.predict(problem)).mean(axis=0))
    np.testing.assert_allclose(b.residual_mean, a.residual_mean, rtol=1e-9)
    assert a.uncertainty == b.uncertainty == "period"
    np.testing.assert_allclose(b.std, a.std, rtol=1e-8)
    np.testing.assert_allclose(b.degrees_of_freedom, a.degrees_of_freedom, rtol=1e-8)


def test_ill_conditioned_problems_keep_their_digits():
    """A normal-equation inverse would lose all sixteen digits here; QR keeps half of them."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=(400, 1, 3))
    base[:, :, 2] = base[:, :, 0] + base[:, :, 1] + 1e-8 * base[:, :, 2]
    truth = np.array([1.0, 2.0, 3.0])
    problem = Regression(
        regressor=base,
        effort=base @ truth,
        rows=("x",),
        row_units=("N",),
        parameters=("a", "b", "c"),
        units=("1", "1", "1"),
    )
    np.testing.assert_allclose(LeastSquares().fit(problem).values, truth, rtol=1e-6)


def test_condition_number_ignores_units():
    estimate = LeastSquares().fit(make_problem())
    W = stack(make_problem())[0]
    np.testing.assert_allclose(
        estimate.condition_number, np.linalg.cond(W / np.linalg.norm(W, axis=0)), rtol=1e-9
    )


def test_dependent_parameters_are_named_with_their_combination():
    problem = make_problem()
    regressor = problem.regressor.copy()
    regressor[:, :, 2] = 0.31 * regressor[:, :, 0] - 2.0 * regressor[:, :, 1]
    regressor[:, :, 3] = 0.0
    for estimator in (LeastSquares(), WeightedLeastSquares(), GaussMarkov()):
        with pytest.raises(NotIdentifiable) as caught:
            estimator.fit(replace(problem, regressor=regressor))
        text = str(caught.value)
        assert "m + 0.31 fs" in text
        assert "fv - 2 fs" in text
        assert "'off' has no effect" in text
        assert caught.value.dependent == ["off", "fs"]
        assert caught.value.combinations["fs"] == pytest.approx({"m": 0.31, "fv": -2.0})
        estimator.fit(replace(problem, regressor=regressor).select(["m", "fv"]))  # the advice works


def test_too_few_equations_are_refused():
    with pytest.raises(NotIdentifiable, match="3 equations for 4 parameters"):
        LeastSquares().fit(make_problem().take(slice(0, 1)))
    with pytest.raises(InvalidInput, match="empty"):
        LeastSquares().fit(make_problem().take(slice(0, 0)))


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.diag([1.0, 0.0, 1.0]), "row 'y' is not positive"),
        (np.array([[1.0, 2.0, 0], [2.0, 1.0, 0], [0, 0, 1.0]]), "not positive definite"),
        (np.array([[1.0, 0.5, 0], [0.0, 1.0, 0], [0, 0, 1.0]]), "not symmetric"),
        (np.full((3, 3), np.nan), "not finite"),
        (np.eye(2), "shape"),
        (np.ones((200, 3, 3)), "not positive definite"),
    ],
)
def test_bad_covariances_are_refused(covariance, message):
    with pytest.raises(InvalidInput, match=message):
        GaussMarkov(covariance=covariance).fit(make_problem())


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(InvalidInput, match="expected an array"):
        GaussMarkov(covariance="guess")
    with pytest.raises(InvalidInput, match="positive"):
        WeightedLeastSquares(iterations=0).fit(make_problem())
    with pytest.raises(InvalidInput, match="joint=True"):
        GaussMarkov().fit(make_problem().statistics())
    with pytest.raises(InvalidInput, match="samples"):
        GaussMarkov(covariance=np.ones((200, 3, 3))).fit(make_problem().statistics())
    with pytest.raises(InvalidInput, match="Regression"):
        LeastSquares().fit(np.eye(3))


def test_a_row_with_as_many_parameters_as_samples_has_no_noise():
    rng = np.random.default_rng(0)
    regressor = np.zeros((4, 2, 5))
    regressor[:, 0, :4] = rng.normal(size=(4, 4))
    regressor[:, 1, 4] = 1.0
    problem = Regression(
        regressor=regressor,
        effort=rng.normal(size=(4, 2)),
        rows=("x", "y"),
        row_units=("N", "N"),
        parameters=tuple("abcde"),
        units=("1",) * 5,
    )
    with pytest.raises(NotIdentifiable, match="row 'x' is fitted exactly"):
        WeightedLeastSquares().fit(problem)


@pytest.mark.parametrize("joint", [False, True])
def test_fixed_parameters_move_to_the_effort(joint):
    problem = make_problem()
    fixed = fix_parameters(problem, {"fv": -0.2, "off": 4e-3})
    expected = problem.effort - problem.regressor[:, :, [1, 3]] @ [-0.2, 4e-3]
    np.testing.assert_allclose(fixed.effort, expected, rtol=1e-13, atol=1e-13)
    assert fixed.parameters == ("m", "fs")
    estimator = GaussMarkov() if joint else WeightedLeastSquares()
    condensed = fix_parameters(
        block_statistics(problem.blocks(64), joint=joint), {"fv": -0.2, "off": 4e-3}
    )
    np.testing.assert_allclose(
        estimator.fit(condensed).values, estimator.fit(fixed).values, rtol=1e-10
    )
    with pytest.raises(InvalidInput, match="no parameter"):
        fix_parameters(problem, {"nothing": 1.0})


@pytest.mark.parametrize("scatter", [0.0, 1e-15])
def test_gauss_markov_fits_repetitions_that_do_not_scatter(scatter):
    """Without noise the covariance of repetitions is zero: it gives no weights, and needs none."""
    clean = make_problem(noise=0.0)
    size = scatter * np.abs(clean.effort).max()
    repeats = np.stack([clean.effort + size * k for k in (-1, 0, 1)])
    problem = replace(clean, replicates=repeats, covariance=size**2 * np.eye(3))
    estimate = GaussMarkov().fit(problem)
    np.testing.assert_allclose(estimate.values, np.linalg.lstsq(*stack(clean))[0], rtol=1e-9)
    with pytest.raises(InvalidInput, match="not positive"):
        GaussMarkov(covariance=np.zeros((3, 3))).fit(problem)


def test_gauss_markov_fits_repetitions_that_differ_in_one_direction_only():
    """Three rows that scatter together have a singular covariance: weights come from residuals."""
    clean = make_problem(noise=0.01)
    together = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) * 1e-8
    estimate = GaussMarkov().fit(replace(clean, covariance=together))
    expected = GaussMarkov(covariance="estimated").fit(clean)
    np.testing.assert_allclose(estimate.values, expected.values, rtol=1e-9)
