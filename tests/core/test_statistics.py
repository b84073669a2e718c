"""Quantiles and tests against scipy.stats and statsmodels, which the package itself does not
import.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.diagnostic import acorr_ljungbox

from gough.core.statistics import (
    chi2_quantile,
    chi2_tail,
    f_tail,
    ljung_box,
    normal_quantile,
    student_quantile,
)


def test_quantiles_and_tails_are_those_of_scipy() -> None:
    freedom = np.array([1.0, 3.7, 40.0, np.inf])
    np.testing.assert_allclose(
        student_quantile(0.975, freedom), stats.t.ppf(0.975, freedom), rtol=1e-9
    )
    assert normal_quantile(0.75) == pytest.approx(stats.norm.ppf(0.75), rel=1e-12)
    assert chi2_quantile(0.99, 5) == pytest.approx(stats.chi2.ppf(0.99, 5), rel=1e-12)
    assert chi2_tail(3.0, 5.5) == pytest.approx(stats.chi2.sf(3.0, 5.5), rel=1e-12)
    assert f_tail(2.0, 3.0, 7.5) == pytest.approx(stats.f.sf(2.0, 3, 7.5), rel=1e-12)
    assert f_tail(2.0, 3.0, np.inf) == pytest.approx(stats.f.sf(2.0, 3, 1e9), rel=1e-6)


def test_ljung_box_equals_statsmodels() -> None:
    noise = (
        np.random.default_rng(0).normal(size=(300, 2)).cumsum(axis=0) * [0.0, 1.0]
        + np.random.default_rng(1).normal(size=(300, 2))
        + 5.0
    )
    expected = [acorr_ljungbox(column, lags=[20])["lb_pvalue"].iloc[0] for column in noise.T]
    np.testing.assert_allclose(ljung_box(noise), expected, rtol=1e-9)
    assert ljung_box(noise)[1] < 1e-10
    assert np.isnan(ljung_box(noise[:4])).all()


def test_samples_that_do_not_count_say_nothing_of_whiteness() -> None:
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        noise, mask = rng.normal(size=(400, 1)), rng.random((400, 1)) > 0.3
        noise[~mask] = 1e6
        p.append(float(ljung_box(noise, mask)[0]))
        noise[~mask] = -3.0
        assert float(ljung_box(noise, mask)[0]) == p[-1]
    assert stats.kstest(p, "uniform").pvalue > 0.01
