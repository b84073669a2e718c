"""Robust regression: against statsmodels, against its own criterion, and with gross outliers."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from gough.core.errors import InvalidInput
from gough.fitting.least_squares import LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression
from gough.fitting.robust import Robust, row_scale, slope, weight
from trials import assert_covers, repeated

TRUTH = np.array([2.0, -1.0, 0.3])


def make_problem(seed=0, t=200, rows=2, outliers=0.0, noise=1.0):
    rng = np.random.default_rng(seed)
    regressor = rng.normal(size=(t, rows, 3)) * np.array([1.0, 4.0, 20.0])
    error = noise * rng.normal(size=(t, rows)) * np.array([0.2, 3.0])[:rows]
    bad = rng.random((t, rows)) < outliers
    effort = regressor @ TRUTH + np.where(bad, 60.0 + 20 * rng.normal(size=(t, rows)), error)
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=("x", "y")[:rows],
        row_units=("N", "Nm")[:rows],
        parameters=("a", "b", "c"),
        units=("1",) * 3,
    )


@pytest.mark.parametrize(
    ("loss", "norm"),
    [("huber", sm.robust.norms.HuberT()), ("tukey", sm.robust.norms.TukeyBiweight())],
)
def test_single_row_equals_statsmodels(loss, norm):
    problem = make_problem(rows=1, outliers=0.1)
    estimate = Robust(loss=loss, tolerance=1e-11, uncertainty="white").fit(problem)
    start = {} if loss == "huber" else {"start_params": Robust().fit(problem).values}
    reference = sm.RLM(problem.effort[:, 0], problem.regressor[:, 0], M=norm).fit(
        scale_est="mad", conv="coefs", tol=1e-12, maxiter=500, cov="H1", **start
    )
    np.testing.assert_allclose(estimate.values, reference.params, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(estimate.noise_covariance[0, 0]), reference.scale, rtol=1e-7)
    np.testing.assert_allclose(estimate.std, reference.bse, rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_solution_minimises_the_criterion(loss):
    """The weights must reach the solution: at its own scales a general minimiser finds the same
    point.
    """
    problem = make_problem(outliers=0.1)
    estimate = Robust(loss=loss, tolerance=1e-11).fit(problem)
    scale = row_scale(problem, estimate.values)
    c = {"huber": 1.345, "tukey": 4.685}[loss]

    def criterion(values):
        u = (problem.effort - problem.regressor @ values) / scale
        size = np.abs(u)
        if loss == "huber":
            return np.where(size < c, u**2 / 2, c * size - c**2 / 2).sum()
        return np.where(size < c, c**2 / 6 * (1 - (1 - (u / c) ** 2) ** 3), c**2 / 6).sum()

    found = minimize(criterion, estimate.values + 0.002, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(estimate.values, found.x, atol=2e-6)


@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_weights_and_slopes_are_those_of_one_function(loss):
    u = np.linspace(-7, 7, 1401) + 1e-4
    psi = u * weight(u, loss, 4.0)
    smooth = np.abs(np.abs(u) - 4.0) > 0.02
    np.testing.assert_allclose(np.gradient(psi, u)[smooth], slope(u, loss, 4.0)[smooth], atol=2e-4)


def test_gross_outliers_ruin_least_squares_but_not_robust():
    errors = {"weighted": [], "huber": [], "tukey": []}
    for seed in range(30):
        problem = make_problem(seed, outliers=0.1)
        errors["weighted"].append(WeightedLeastSquares().fit(problem).values - TRUTH)
        errors["huber"].append(Robust().fit(problem).values - TRUTH)
        errors["tukey"].append(Robust(loss="tukey").fit(problem).values - TRUTH)
    rms = {name: np.sqrt(np.mean(np.square(values), axis=0)) for name, values in errors.items()}
    assert (rms["huber"] < 0.3 * rms["weighted"]).all()
    assert (rms["tukey"] < rms["huber"]).all()


def test_huge_tuning_is_least_squares_with_median_weights():
    problem = make_problem()
    estimate = Robust(tuning=1e6, uncertainty="white", tolerance=1e-12).fit(problem)
    scale = row_scale(problem, estimate.values)
    scaled = replace(
        problem, regressor=problem.regressor / scale[:, None], effort=problem.effort / scale
    )
    reference = LeastSquares(uncertainty="white").fit(scaled)
    np.testing.assert_allclose(estimate.values, reference.values, rtol=1e-9)
    np.testing.assert_allclose(
        estimate.std, reference.std, rtol=0.1
    )  # variance per row instead of one


def test_scale_is_the_normalised_median():
    problem = make_problem(t=20_001)
    np.testing.assert_allclose(row_scale(problem, TRUTH), [0.2, 3.0], rtol=0.03)


def test_notes_say_how_much_was_weighed_down():
    text = Robust(loss="tukey").fit(make_problem(outliers=0.1)).summary()
    assert "% beyond 4.685" in text
    assert "removed" in text


@repeated(80, 300)
@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_intervals_cover_with_outliers_in_the_data(loss, trials):
    hits = []
    for seed in range(trials):
        estimate = Robust(loss=loss, uncertainty="white").fit(
            make_problem(seed, t=80, outliers=0.05)
        )
        low, high = estimate.interval(0.95).T
        hits.append((low <= TRUTH) & (high >= TRUTH))
    assert_covers(hits)


def test_groups_and_autocorrelation_reach_robust_estimates():
    problem = make_problem(outliers=0.05)
    assert Robust().fit(problem).uncertainty == "hac"
    assert (
        Robust().fit(replace(problem, group=np.repeat(np.arange(10), 20))).uncertainty == "period"
    )


def test_what_cannot_be_done_is_refused():
    problem = make_problem()
    with pytest.raises(InvalidInput, match="block statistics"):
        Robust().fit(problem.statistics())
    with pytest.raises(InvalidInput, match="choose huber"):
        Robust(loss="cauchy").fit(problem)
    with pytest.raises(InvalidInput, match="tuning"):
        Robust(tuning=0.0).fit(problem)


def test_a_fit_that_has_not_settled_says_so():
    estimate = Robust(iterations=1).fit(make_problem(outliers=0.1))
    (notice,) = (n for n in estimate.notices if n.rule == "convergence")
    assert "after 1 iterations" in notice.text
    estimate = Robust().fit(make_problem(outliers=0.1))
    assert not any(n.rule == "convergence" for n in estimate.notices)


def test_errors_are_stated_for_weights_that_are_estimated_from_few_samples():
    """NEES of the robust fit is that of least squares, whose weights are known here, on average."""
    rng = np.random.default_rng(0)
    regressor = rng.standard_normal((40, 3, 6))
    differences = []
    for _ in range(80):
        problem = Regression(
            regressor=regressor,
            effort=rng.standard_normal((40, 3)),
            rows=("x", "y", "z"),
            row_units=("N",) * 3,
            parameters=tuple("abcdef"),
            units=("1",) * 6,
        )
        nees = []
        for estimator in (Robust(uncertainty="white"), LeastSquares(uncertainty="white")):
            estimate = estimator.fit(problem)
            nees.append(estimate.values @ np.linalg.solve(estimate.covariance, estimate.values) / 6)
        differences.append(nees[0] - nees[1])
    assert abs(np.mean(differences)) < 0.05
