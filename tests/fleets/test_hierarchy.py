"""Common part, deviations and drift of many machines: closed forms, MixedLM, coverage, false
alarms.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.fleets.hierarchy import drifts, hierarchy, trend
from trials import repeated


def test_equal_machines_give_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(1)
    x = 3.0 + 2.0 * rng.standard_normal((20, 1)) + 0.5 * rng.standard_normal((20, 1))
    found = hierarchy(x, np.full((20, 1, 1), 0.25))
    between = x.var(ddof=1) - 0.25
    assert found.common == pytest.approx(x.mean(), rel=1e-9)
    assert found.between[0] ** 2 == pytest.approx(between, rel=1e-4)
    assert found.values[:, 0] == pytest.approx(
        (x.mean() + between / (between + 0.25) * (x - x.mean()))[:, 0], rel=1e-5
    )
    assert found.common_std[0] == pytest.approx(np.sqrt((between + 0.25) / 20), rel=1e-4)


def test_unequal_machines_agree_with_mixed_linear_models() -> None:
    """MixedLM sees single measurements of the same variance; here each machine's mean with variance
    over count.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    rng = np.random.default_rng(5)
    counts = rng.integers(3, 30, 25)
    groups = np.repeat(np.arange(25), counts)
    y = 1.0 + rng.standard_normal(25)[groups] + 0.8 * rng.standard_normal(len(groups))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = MixedLM(y, np.ones((len(y), 1)), groups=groups).fit(reml=True)
    means = np.array([y[groups == k].mean() for k in range(25)])
    found = hierarchy(means[:, None], (mixed.scale / counts)[:, None, None])
    assert found.common[0] == pytest.approx(mixed.fe_params[0], abs=2e-3)
    assert found.between[0] ** 2 == pytest.approx(float(np.squeeze(mixed.cov_re)), rel=0.02)
    effects = np.array([float(np.squeeze(mixed.random_effects[k])) for k in range(25)])
    assert found.values[:, 0] - found.common[0] == pytest.approx(effects, abs=5e-3)


def fleet_of(
    rng: np.random.Generator, n: int, p: int, between: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return true values, estimates and covariances; every fourth parameter is the same in all
    machines.
    """
    mixing = rng.standard_normal((p, p))
    S = np.array(
        [
            (A := mixing + 0.5 * rng.standard_normal((p, p))) @ A.T / p + 0.1 * np.eye(p)
            for _ in range(n)
        ]
    )
    size = np.where(np.arange(p) % 4 == 3, 0.0, between)
    truth = rng.standard_normal(p) + size * rng.standard_normal((n, p))
    return truth, truth + np.array([np.linalg.cholesky(s) @ rng.standard_normal(p) for s in S]), S


@pytest.mark.parametrize("between", [0.3, 1.0, 2.0])
def test_hierarchical_values_are_nearer_and_their_intervals_hold(between: float) -> None:
    rng = np.random.default_rng(7)
    held, alone, together = [], [], []
    for _ in range(12):
        truth, x, S = fleet_of(rng, 40, 6, between)
        found = hierarchy(x, S)
        held.append(np.abs(found.values - truth) < 1.96 * found.std)
        alone.append((x - truth) ** 2)
        together.append((found.values - truth) ** 2)
    assert np.mean(together) < 0.8 * np.mean(alone)
    assert 0.93 <= np.mean(held) <= 0.97


def test_two_machines_have_no_common_part() -> None:
    with pytest.raises(InvalidInput, match="three or more"):
        hierarchy(np.zeros((2, 1)), np.ones((2, 1, 1)))


def series(rng: np.random.Generator, days: int = 30, p: int = 5, slope: float = 0.0) -> FloatArray:
    return rng.standard_normal((days, p)) + slope * np.linspace(-0.5, 0.5, days)[:, None]


def test_a_trend_is_weighted_least_squares() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    time, warm, std = np.arange(25.0), rng.standard_normal(25), rng.uniform(0.5, 2, (25, 1))
    values = std * series(rng, 25, 1, 3.0) + 0.7 * warm[:, None]
    found = trend(time, values, std, warm)
    peer = sm.WLS(
        values[:, 0], sm.add_constant(np.column_stack([time / 24, warm])), weights=std[:, 0] ** -2
    ).fit()
    assert found is not None
    assert (found.change[0], found.temperature[0]) == pytest.approx(
        tuple(peer.params[1:]), rel=1e-9
    )
    assert (found.std[0], found.temperature_std[0]) == pytest.approx(tuple(peer.bse[1:]), rel=1e-9)
    assert found.p[0] == pytest.approx(peer.pvalues[1], rel=1e-9)


@repeated(60, 200)
def test_false_alarms_over_a_fleet_are_as_stated_and_a_large_drift_is_found(trials: int) -> None:
    """Fleets of 20 robots and 10 parameters: one in ten may name any of those without a drift."""
    rng, time, std = np.random.default_rng(3), np.arange(30.0), np.ones((30, 10))
    false, found = 0, 0
    for k in range(trials):
        trends = [trend(time, series(rng, p=10), std) for _ in range(19)]
        drifting = series(rng, p=10)
        drifting[:, k % 10] += 8.0 * np.linspace(-0.5, 0.5, 30)
        trends.append(trend(time, drifting, std))
        result = drifts([each for each in trends if each is not None], 0.1)
        false += bool(result.significant[:19].any())
        found += bool(result.significant[19, k % 10])
    fewest, most = stats.binom.ppf([0.005, 0.995], trials, 0.1)
    assert fewest <= false <= most
    assert found >= 0.95 * trials


def test_the_smallest_drift_is_found_in_95_of_100() -> None:
    rng, time, std = np.random.default_rng(4), np.arange(30.0), np.ones((30, 1))
    least = np.mean(
        [
            drifts([t], 0.01).detectable[0, 0]
            for _ in range(200)
            if (t := trend(time, series(rng, p=1), std)) is not None
        ]
    )
    found = [
        drifts([t], 0.01).significant[0, 0]
        for _ in range(400)
        if (t := trend(time, series(rng, p=1, slope=float(least)), std)) is not None
    ]
    assert 0.91 <= np.mean(found) <= 0.985


def test_temperature_is_distinguished_from_drift() -> None:
    rng, time = np.random.default_rng(6), np.arange(30.0)
    warm = (
        20 + 5 * np.sin(2 * np.pi * time / 60) + rng.standard_normal(30)
    )  # rises over the month as well
    values = 0.05 * rng.standard_normal((30, 1)) + 0.1 * warm[:, None]
    with_it, without = (
        trend(time, values, np.ones((30, 1)), warm),
        trend(time, values, np.ones((30, 1))),
    )
    assert with_it is not None
    assert without is not None
    assert with_it.temperature[0] == pytest.approx(0.1, abs=4 * with_it.temperature_std[0])
    assert with_it.p[0] > 0.01
    assert np.abs(with_it.change[0]) < np.abs(without.change[0])


def test_few_periods_have_no_trend() -> None:
    assert trend(np.arange(4.0), np.zeros((4, 1)), np.ones((4, 1))) is None
    assert trend(np.zeros(9), np.zeros((9, 1)), np.ones((9, 1))) is None


def test_what_can_be_detected_allows_for_the_number_of_trends() -> None:
    """The t-test of Bonferroni on both sides, and 95 of 100 such changes beyond it."""
    rng = np.random.default_rng(2)
    clock = np.arange(12.0)
    trends = []
    for _ in range(5):
        found = trend(clock, rng.standard_normal((12, 3)), np.ones((12, 3)), None)
        assert found is not None
        trends.append(found)
    result = drifts(trends, 0.05)
    limit = stats.t.ppf(1 - 0.05 / (2 * 15), trends[0].degrees_of_freedom)
    factor = limit + stats.norm.ppf(0.95)
    np.testing.assert_allclose(result.detectable[0], factor * trends[0].std, rtol=1e-9)


def test_an_error_that_all_machines_share_does_not_average_out() -> None:
    rng = np.random.default_rng(1)
    machines = 30
    values = 5.0 + rng.standard_normal((machines, 1))
    covariances = np.full((machines, 1, 1), 0.25)
    alone = hierarchy(values, covariances)
    together = hierarchy(values, covariances, np.array([0.49]))
    assert np.allclose(together.common_std**2, alone.common_std**2 + 0.49)
    assert np.allclose(together.std**2, alone.std**2 + 0.49)
    assert np.array_equal(together.values, alone.values)
