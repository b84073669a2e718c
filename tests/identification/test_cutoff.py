"""The filter cut-off by likelihood on a robot: the position term at the most likely trajectory of
each order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.errors import InvalidRecording
from gough.engine import Model, base_parameters
from gough.identification import prepare
from gough.identification.likelihood import averaged_period, cutoff_likelihood
from gough.logs.recording import Recording
from gough.mechanism.types import Noise
from gough.processing import Processing
from gough.processing.likelihood_models import AveragedPeriod, CutoffFamily
from gough.virtual import Simulation, record


def period_of(model: Model, log: Recording, window: float = 0.0) -> AveragedPeriod:
    base = base_parameters(model)
    ready = prepare(model, [log], base, processing=Processing(window=window))
    return averaged_period(model, ready.processed, base)


def test_fitted_terms_equal_fits_of_the_motors_order_by_order(
    five_bar: Model, five_bar_log: Recording
) -> None:
    """Second opinion: Gauss-Newton on the motors' positions themselves, loops solved, each order on
    its own.
    """
    period = period_of(five_bar, five_bar_log)
    terms = CutoffFamily(period=period).fitted_terms(8)
    count = len(period.pose)
    whiten = np.linalg.inv(np.linalg.cholesky(period.position_covariance))
    for order in (5, 6, 8):
        angle = 2 * np.pi * np.outer(np.arange(count) / count, np.arange(order + 1))
        phi = np.hstack([np.cos(angle), np.sin(angle[:, 1:])])
        Z = np.linalg.lstsq(phi, period.pose, rcond=None)[0]
        for _ in range(3):
            q = five_bar.kinematics.close_loops(
                phi @ Z, period.by, start=period.processed.motion.q[0]
            )
            left = (period.average.position - q[:, list(five_bar.actuated)]) @ whiten.T
            maps = (
                whiten @ five_bar.kinematics.closure_map(q, period.by)[:, list(five_bar.actuated)]
            )
            J = np.einsum("tam,tk->takm", maps, phi).reshape(left.size, -1)
            Z = Z + np.linalg.lstsq(J, left.reshape(-1), rcond=None)[0].reshape(Z.shape)
        assert terms[order - 1] == pytest.approx((left**2).sum() / 2, rel=1e-6)


def test_a_harmonic_that_is_not_there_lowers_the_fitted_term_by_half_a_chi_square(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    """Two coordinates: half a chi-square of four degrees, mean 2 and variance 2; what Akaike's
    penalty is made for.
    """
    noise = replace(
        five_bar.mechanism.noise, position=2e-4
    )  # so that the controlled motion has five harmonics only
    drops = np.concatenate(
        [
            -np.diff(
                CutoffFamily(
                    period=period_of(five_bar, record(five_bar_run, noise=noise, seed=k))
                ).fitted_terms(15)[6:]
            )
            for k in range(12)
        ]
    )
    assert drops.mean() == pytest.approx(2.0, abs=0.5)
    assert drops.var() == pytest.approx(2.0, abs=1.2)


def test_the_cut_off_keeps_the_harmonics_of_the_motion(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    """With four parameters a harmonic, Akaike keeps one too many in 9 % of the recordings."""
    noise = replace(five_bar.mechanism.noise, position=2e-4)
    kept = []
    for seed in range(10):
        log = record(five_bar_run, noise=noise, seed=seed)
        result = cutoff_likelihood(period_of(five_bar, log, window=0.03), max_bins=10)
        kept.append(int(np.argmin(result.aic)) + 1)
    assert kept.count(5) >= 7
    np.testing.assert_allclose(result.aic, result.fitted_term + result.effort_term + result.orders)
    np.testing.assert_array_equal(result.printed, result.position_term + result.effort_term)


def test_without_position_errors_the_cut_off_likelihood_is_gauss_markov(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    """AH09 section 5. Second opinion: the normal equations of what counts, sample by sample."""
    log = record(five_bar_run, noise=Noise(effort=0.05))
    result = identify(five_bar, [log], estimator="ml")
    problem = prepare(
        five_bar, [log], base_parameters(five_bar), processing=result.processing
    ).problem
    periods = log.periods("effort")
    scatter = (periods - periods.mean(axis=0)).reshape(-1, 2)
    gram, right = 0.0, 0.0
    for W, y, counts in zip(problem.regressor, problem.effort, np.asarray(problem.mask)):
        weight = np.linalg.inv((scatter.T @ scatter)[np.ix_(counts, counts)])
        gram, right = (
            gram + W[counts].T @ weight @ W[counts],
            right + W[counts].T @ weight @ y[counts],
        )
    expected = np.linalg.solve(gram, right)
    np.testing.assert_allclose(result.estimate.values, expected, rtol=1e-6)
    for name in ("ml", "full_ml"):
        assert any("is Gauss-Markov" in str(notice) for notice in result.estimates[name].notices)
        np.testing.assert_array_equal(result.estimates[name].values, result.estimate.values)


def test_ever_smaller_position_errors_lead_to_gauss_markov(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    log = record(five_bar_run, noise=Noise(effort=0.01))
    limit = cutoff_likelihood(period_of(five_bar, log))
    assert (limit.position_term == 0).all()
    error, away = np.random.default_rng(0).standard_normal(np.shape(log.position)), []
    for size in (1e-3, 1e-7):
        noisy = period_of(five_bar, replace(log, position=log.position + size * error))
        away.append(
            np.abs(
                (cutoff_likelihood(noisy).estimate.values - limit.estimate.values)
                / limit.estimate.std
            )
        )
    assert away[1].max() < 0.3 < away[0].max()


def test_positions_of_which_only_some_scatter_are_refused_with_what_to_do(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    log = record(five_bar_run, noise=Noise(effort=0.01))
    position = np.array(log.position)
    position[:, 0] += 1e-4 * np.random.default_rng(0).standard_normal(len(position))
    with pytest.raises(InvalidRecording, match=r"only some positions scatter.*use `gm`"):
        cutoff_likelihood(period_of(five_bar, replace(log, position=position)))
