"""Regressor and effort low-passed in parallel over a period: exact for what is kept, noise white, no window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.core.regression import Regression
from gough.engine import Model
from gough.identification import identify
from gough.logs.recording import Recording
from gough.mechanism.types import Noise
from gough.processing import Processing, process
from gough.processing.decimation import decimate_period
from gough.study.demo import truth_table
from gough.virtual import Simulation, record, simulate
from tests_support import fourier


def series(time: np.ndarray, period: float, harmonics: int, seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """A Fourier series evaluated at any time, (t, *shape)."""
    a, b = np.random.default_rng(seed).standard_normal((2, harmonics + 1, *shape))
    angle = 2 * np.pi * np.outer(time, np.arange(harmonics + 1)) / period
    return np.tensordot(np.cos(angle), a, axes=1) + np.tensordot(np.sin(angle), b, axes=1)


def problem(regressor: np.ndarray, effort: np.ndarray, **more: object) -> Regression:
    names = [f"p{k}" for k in range(regressor.shape[2])]
    return Regression(regressor=regressor, effort=effort, rows=("a", "b"), row_units=("N", "N"), parameters=names,
                      units=("kg",) * len(names), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("samples", "factor"), [(600, 10), (618, 7), (601, 10)])
def test_what_is_slower_than_the_new_nyquist_frequency_is_kept_exactly(samples: int, factor: int) -> None:
    period = 3.0
    time = np.arange(samples) * period / samples
    low = [series(time, period, 20, k, shape) for k, shape in ((0, (2, 3)), (1, (2,)))]
    angle = 2 * np.pi * 80 * time / period
    high = [low[0] + np.cos(angle)[:, None, None], low[1] + np.sin(angle)[:, None]]
    made = decimate_period(problem(*high, time=time + 5.0, replicates=np.stack([high[1], low[1]])), factor)
    assert len(made) == samples // factor
    np.testing.assert_allclose(made.regressor, series(made.time - 5.0, period, 20, 0, (2, 3)), atol=1e-10)
    np.testing.assert_allclose(made.effort, series(made.time - 5.0, period, 20, 1, (2,)), atol=1e-10)
    np.testing.assert_allclose(made.replicates, np.stack([made.effort] * 2), atol=1e-10)


def test_white_noise_stays_white_with_the_covariance_that_is_stated() -> None:
    rng = np.random.default_rng(2)
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    noise = rng.multivariate_normal(np.zeros(2), covariance, 200000)
    made = decimate_period(problem(np.zeros((len(noise), 2, 1)), noise, covariance=covariance), 20)
    np.testing.assert_allclose(np.cov(made.effort.T), made.covariance, rtol=0.06)
    np.testing.assert_allclose(made.covariance, covariance / 20, rtol=1e-12)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(made.effort[lag:, 0], made.effort[:-lag, 0])[0, 1]) < 0.03


def test_several_periods_or_too_few_samples_are_refused() -> None:
    flat = problem(np.ones((40, 2, 1)), np.ones((40, 2)), group=np.repeat([0, 1], 20))
    with pytest.raises(InvalidInput, match="as one period"):
        decimate_period(flat, 2)
    with pytest.raises(InvalidInput, match="40 samples cannot be decimated by 30"):
        decimate_period(replace(flat, group=None), 30)


def test_friction_reversals_need_no_window_and_cost_no_samples(five_bar: Model) -> None:
    """A PID lets friction shake the robot at reversals: intervals hold, tighter than with these samples left out."""
    run = simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), controller="pid+", periods=5)
    band = dict(zip(five_bar.mechanism.coordinates, run.dead_band.tolist()))
    held, ratios = [], []
    for seed in range(8):
        log = record(run, seed=50 + seed)
        whole = identify(five_bar, [log], processing=Processing(cutoff=100.0, decimation=20, dead_band=band))
        assert whole.quality[log.source]["window about reversals [s]"] == 0.0
        held += [within for *_, within in truth_table("five_bar", whole.estimate, False)]
        ratios.append(whole.estimate.white_std / identify(five_bar, [log]).estimate.white_std)
    assert np.mean(held) > 0.88
    assert np.exp(np.mean(np.log(ratios))) < 0.9


def test_a_dead_band_can_be_given_by_joint(five_bar: Model, five_bar_log: Recording) -> None:
    usual = process(five_bar, five_bar_log).dead_band
    made = process(five_bar, five_bar_log, Processing(dead_band={"left.motor": 0.5})).dead_band
    where = five_bar.mechanism.coordinates.index("left.motor")
    assert made[where] == 0.5
    np.testing.assert_array_equal(np.delete(made, where), np.delete(usual, where))
    with pytest.raises(InvalidInput, match=r"did you mean 'left\.motor'"):
        process(five_bar, five_bar_log, Processing(dead_band={"left.moter": 0.5}))
    with pytest.raises(InvalidInput, match=r"dead_band is -1\.0 .* at least 0"):
        Processing(dead_band=-1.0)


def test_rounding_that_repeats_in_every_period_makes_a_dead_band(five_bar: Model, five_bar_run: Simulation) -> None:
    step = 1e-4  # [rad]
    coarse = record(five_bar_run, noise=Noise(effort=0.1, resolution=step), seed=1)
    band = process(five_bar, coarse, Processing(cutoff=20.0)).dead_band[list(five_bar.actuated)]
    # White rounding of variance step^2 / 12 at 1 kHz through 20 Hz: 2 pi 20 / sqrt(3) sqrt(20 / 500).
    expected = 3 * step / np.sqrt(12) * 2 * np.pi * 20 / np.sqrt(3) * np.sqrt(20 / 500)
    np.testing.assert_allclose(band, expected, rtol=0.1)
