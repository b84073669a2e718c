"""Parameters found sample by sample, against batch solutions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from gough.core.errors import GoughError, InvalidInput
from gough.core.regression import Regression
from gough.estimators.linear.least_squares import GaussMarkov
from gough.estimators.load.recursive import RecursiveLeastSquares, prior_belief

NAMES = tuple(f"payload.{n}" for n in "abcd")
UNITS = ("kg", "kg m", "kg m2", "kg m2")
NOISE = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]])
TRUTH = np.array([5.0, -1.0, 0.3, 2.0])


def make_regression(seed=0, samples=60, truth=TRUTH, noise=NOISE, regressor=None):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(samples, 3, 4)) if regressor is None else regressor
    covariance = np.broadcast_to(noise, (len(W), 3, 3))
    root = np.linalg.cholesky(covariance)
    effort = W @ truth + (root @ rng.normal(size=(len(W), 3, 1)))[:, :, 0]
    return Regression(regressor=W, effort=effort, rows=("x", "y", "z"), row_units=("N",) * 3, parameters=NAMES,
                      units=UNITS, covariance=noise)


def make_prior(std=(50.0, 20.0, 10.0, 10.0), mean=None):
    return prior_belief(parameters=NAMES, units=UNITS, std=np.array(std), mean=mean)


def batch(regression, prior_mean, prior_std):
    """Solve data and prior as one stacked least-squares problem."""
    t = len(regression)
    noise = np.broadcast_to(regression.covariance, (t, 3, 3))
    inverse = np.linalg.inv(noise)
    W, y = regression.regressor, regression.effort
    information = np.einsum("tip,tij,tjq->pq", W, inverse, W) + np.diag(1 / np.asarray(prior_std) ** 2)
    right = np.einsum("tip,tij,tj->p", W, inverse, y) + np.asarray(prior_mean) / np.asarray(prior_std) ** 2
    return np.linalg.solve(information, right), np.linalg.inv(information)


def test_recursive_least_squares_equals_the_batch_solution_after_every_sample():
    regression = make_regression()
    mean, std = np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 2.0, 1.0, 3.0])
    history = RecursiveLeastSquares().run(make_prior(std, mean), regression)
    for k in (0, 1, 5, 59):
        values, covariance = batch(regression.take(slice(0, k + 1)), mean, std)
        np.testing.assert_allclose(history.values[k], values, rtol=1e-10)
        np.testing.assert_allclose(history.std[k], np.sqrt(np.diag(covariance)), rtol=1e-10)
    np.testing.assert_allclose(history.belief.covariance, batch(regression, mean, std)[1], rtol=1e-9, atol=1e-14)


def test_with_a_wide_prior_it_equals_gauss_markov():
    regression = make_regression()
    belief = RecursiveLeastSquares().run(make_prior(std=(1e7,) * 4), regression).belief
    expected = GaussMarkov(uncertainty="white").fit(regression)
    np.testing.assert_allclose(belief.values, expected.values, rtol=1e-9)
    np.testing.assert_allclose(belief.std, expected.std, rtol=1e-9)
    estimate = belief.estimate(regression)
    np.testing.assert_allclose(estimate.residual_rms, expected.residual_rms, rtol=1e-9)
    np.testing.assert_allclose(estimate.condition_number, expected.condition_number, rtol=1e-6)


def test_sample_by_sample_updates_equal_the_run_and_leave_the_input_alone():
    regression = make_regression(noise=np.stack([NOISE * (1 + k % 3) for k in range(60)]))
    filter_, belief = RecursiveLeastSquares(), make_prior()
    first = belief.factor.copy()
    after = belief
    for k in range(60):
        after = filter_.update(after, regression.regressor[k], regression.effort[k], regression.covariance[k])
    np.testing.assert_array_equal(after.factor, filter_.run(belief, regression).belief.factor)
    np.testing.assert_array_equal(belief.factor, first)
    assert after.samples == 60
    assert belief.samples == 0


def test_the_order_of_samples_does_not_matter():
    regression = make_regression()
    shuffled = regression.take(np.random.default_rng(5).permutation(60))
    one, other = (RecursiveLeastSquares().run(make_prior(), r).belief for r in (regression, shuffled))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-10)
    np.testing.assert_allclose(one.std, other.std, rtol=1e-10)
    np.testing.assert_allclose(one.misfit, other.misfit, rtol=1e-10)


def test_unseen_parameters_and_combinations_are_named():
    rng = np.random.default_rng(6)
    W = rng.normal(size=(200, 3, 4))
    W[:, :, 1] = 0.0  # b never acts
    W[:, :, 3] = 2.0 * W[:, :, 2]  # c and d only as c + 2 d
    belief = RecursiveLeastSquares().run(make_prior((50.0, 20.0, 10.0, 30.0)), make_regression(regressor=W)).belief
    seen = belief.observability()
    # c + 2 d is seen: then the prior of c, 10, holds d to 5 of its own 30, but d's does not hold c.
    assert seen.unobserved == ("payload.b", "payload.c")
    assert seen.ratio[0] < 0.01
    assert seen.ratio[1] == pytest.approx(1.0)
    assert set(seen.texts()) == {"payload.b", "payload.c - 0.5 payload.d"}
    np.testing.assert_allclose(W @ seen.directions.T, 0, atol=1e-12)  # the effort does not show them
    notes = belief.estimate(make_regression(regressor=W)).notes
    assert any("payload.b is not observable" in note for note in notes)
    assert any("payload.c - 0.5 payload.d" in note for note in notes)


def test_everything_is_seen_on_a_rich_motion_and_nothing_before_it():
    assert make_prior().observability().unobserved == NAMES
    belief = RecursiveLeastSquares().run(make_prior(), make_regression()).belief
    assert belief.observability().unobserved == ()
    assert belief.observability().texts() == ()
    assert belief.estimate(make_regression(), uncertainty="white").notes == ()


def test_observability_does_not_depend_on_units():
    regression = make_regression(samples=3)
    scale = np.array([1e3, 1.0, 1e-3, 1e6])
    scaled = replace(regression, regressor=regression.regressor / scale)
    one = RecursiveLeastSquares().run(make_prior(), regression).belief
    other = RecursiveLeastSquares().run(make_prior(np.array([50.0, 20.0, 10.0, 10.0]) * scale), scaled).belief
    np.testing.assert_allclose(other.observability().ratio, one.observability().ratio, rtol=1e-8)
    np.testing.assert_allclose(other.values, one.values * scale, rtol=1e-8)


def test_intervals_cover_the_truth():
    W = np.random.default_rng(7).normal(size=(30, 3, 4))
    inside = 0
    for seed in range(300):
        regression = make_regression(seed=seed, regressor=W)
        interval = RecursiveLeastSquares().run(make_prior(std=(1e4,) * 4), regression).belief.estimate(
            regression).interval()
        inside += int(((interval[:, 0] < TRUTH) & (interval[:, 1] > TRUTH)).sum())
    assert 0.92 <= inside / 1200 <= 0.975


def test_residuals_above_the_stated_noise_widen_the_standard_deviations():
    regression = make_regression(samples=200, noise=NOISE)
    quiet = replace(regression, covariance=NOISE / 9)
    honest = RecursiveLeastSquares().run(make_prior(), regression).belief
    naive = RecursiveLeastSquares().run(make_prior(), quiet).belief
    np.testing.assert_allclose(naive.std, honest.std / 3, rtol=0.01)
    for mode in ("white", "hac"):
        estimate = naive.estimate(quiet, uncertainty=mode)
        assert estimate.uncertainty == mode
        assert any("times the stated noise" in note for note in estimate.notes)
        np.testing.assert_allclose(estimate.std, honest.std, rtol=0.15)


def test_intervals_cover_under_coloured_noise_where_the_filters_own_do_not():
    """Noise that remembers itself, as after every low-pass: the filter takes each sample for independent."""
    time = np.arange(600) / 100
    fixed = np.random.default_rng(5)
    angle = 2 * np.pi * np.array([0.5, 1.0, 1.5, 2.0]) * time[:, None, None, None]
    waves = np.sin(angle + fixed.uniform(0, 6, (3, 4, 4)))
    W = (waves * fixed.normal(size=(3, 4, 4))).sum(axis=3)
    inside, naive = 0, 0
    for seed in range(150):
        white = np.random.default_rng([seed, 2]).normal(size=(800, 3)) @ np.linalg.cholesky(NOISE).T
        noise = lfilter([np.sqrt(1 - 0.8**2)], [1, -0.8], white, axis=0)[200:]
        regression = replace(make_regression(regressor=W), effort=W @ TRUTH + noise, time=time)
        belief = RecursiveLeastSquares().run(make_prior(std=(1e4,) * 4), regression).belief
        found = belief.estimate(regression)
        assert found.uncertainty == "hac"
        low, high = found.interval().T
        inside += int(((low < TRUTH) & (high > TRUTH)).sum())
        naive += int((np.abs(belief.values - TRUTH) < 1.96 * belief.std).sum())
    assert 0.92 <= inside / 600 <= 0.975
    assert naive / 600 < 0.7


def test_what_only_the_prior_holds_never_grows_beyond_it():
    W = np.random.default_rng(8).normal(size=(100, 3, 4))
    W[:, :, 1] = 0.0
    regression = replace(make_regression(regressor=W), covariance=NOISE / 100)
    estimate = RecursiveLeastSquares().run(make_prior(), regression).belief.estimate(regression)
    assert estimate.std[1] == pytest.approx(20.0)
    assert np.linalg.eigvalsh(estimate.covariance)[0] > 0


def test_forgetting_is_least_squares_with_fading_weights():
    regression = make_regression(samples=30)
    belief = RecursiveLeastSquares(forgetting=0.9).run(make_prior(), regression).belief
    fading = 0.9 ** np.arange(29, -1, -1)
    faded = replace(regression, covariance=NOISE / fading[:, None, None])
    values, covariance = batch(faded, np.zeros(4), np.array([50.0, 20.0, 10.0, 10.0]) / 0.9**15)
    np.testing.assert_allclose(belief.values, values, rtol=1e-9)
    np.testing.assert_allclose(belief.covariance, covariance, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("build", "error"), [
    (lambda: make_prior(std=(1.0, 0.0, 1.0, 1.0)), InvalidInput),
    (lambda: make_prior(std=(1.0, np.inf, 1.0, 1.0)), InvalidInput),
    (lambda: make_prior(mean=[0.0, np.nan, 0.0, 0.0]), InvalidInput),
    (lambda: prior_belief(parameters=NAMES, units=("kg",), std=1.0), InvalidInput),
    (lambda: make_prior().observability(threshold=1.5), InvalidInput),
    (lambda: RecursiveLeastSquares(forgetting=0.0), InvalidInput),
    (lambda: RecursiveLeastSquares().update(make_prior(), np.ones((3, 5)), np.ones(3), NOISE), InvalidInput),
    (lambda: RecursiveLeastSquares().update(make_prior(), np.full((3, 4), np.nan), np.ones(3), NOISE), InvalidInput),
    (lambda: RecursiveLeastSquares().update(make_prior(), np.ones((3, 4)), np.ones(3), -NOISE), InvalidInput),
    (lambda: RecursiveLeastSquares().run(make_prior(), make_regression().select(NAMES[:2])), InvalidInput),
])
def test_bad_input_is_a_clear_error(build, error):
    with pytest.raises(error) as caught:
        build()
    assert isinstance(caught.value, GoughError)


def test_a_regression_without_noise_covariance_is_refused():
    bare = replace(make_regression(), covariance=None)
    with pytest.raises(InvalidInput, match="covariance of the effort noise"):
        RecursiveLeastSquares().run(make_prior(), bare)
