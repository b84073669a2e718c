"""Period averages: covariances by Monte Carlo; the noise checks of an example against SciPy and
statsmodels.
"""

from dataclasses import replace

import numpy as np
import pytest
from noise_check import check_noise
from scipy import signal, stats
from statsmodels.stats.diagnostic import acorr_ljungbox

from gough.core.errors import InvalidRecording
from gough.logs.recording import Recording
from gough.processing.averaging import (
    PeriodAverage,
    _repeated_rounding,
    average_periods,
    check_repeats,
)
from gough.processing.matching import unsettled_periods

COVARIANCE = np.array(
    [[2.0, 0.5, 0.8, -0.3], [0.5, 1.0, 0.1, 0.4], [0.8, 0.1, 3.0, 1.1], [-0.3, 0.4, 1.1, 1.5]]
)


def repeated(noise: np.ndarray, n: int, **changes: object) -> Recording:
    """Two joints, positions and efforts of a fixed motion plus noise, (Nm N, 4)."""
    phase = 2 * np.pi * np.arange(len(noise)) / n
    motion = np.column_stack(
        [np.sin(phase), np.cos(2 * phase), 5 * np.cos(phase), 9 + np.sin(3 * phase)]
    )
    data = motion + noise
    fields: dict[str, object] = {
        "joints": ("a", "b"),
        "time": np.arange(len(noise)) / 100.0,
        "position": data[:, :2],
        "position_units": ("m", "m"),
        "effort": data[:, 2:],
        "period_samples": n,
    }
    return Recording(**(fields | changes))  # type: ignore[arg-type]


def draw(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    return rng.multivariate_normal(np.zeros(4), COVARIANCE, size=count * n)


def whole(average: PeriodAverage) -> np.ndarray:
    """The covariance of positions and efforts together, (2 a, 2 a)."""
    cross = average.cross_covariance
    return np.block([[average.position_covariance, cross], [cross.T, average.effort_covariance]])


@pytest.mark.parametrize("count", [2, 5])
def test_full_covariances_are_unbiased_in_monte_carlo(count: int) -> None:
    rng = np.random.default_rng(count)
    trials, n = 400, 25
    found = np.array(
        [whole(average_periods(repeated(draw(rng, count, n), n))) for _ in range(trials)]
    )
    standard = found.std(axis=0) / np.sqrt(trials)
    assert np.all(np.abs(found.mean(axis=0) - COVARIANCE) < 4 * standard)
    # The factor AH09 prints for the efforts would be low by (Nm - 1) / Nm, far outside.
    printed = found.mean(axis=0) * (n * (count - 1)) / (n * count - 1)
    assert np.all(np.abs(printed - COVARIANCE).diagonal() > 10 * standard.diagonal())


def test_covariance_equals_the_sum_written_out() -> None:
    noise = draw(np.random.default_rng(0), 4, 30)
    average = average_periods(repeated(noise, 30))
    x, y = average.recording.periods("position"), average.recording.periods("effort")
    for i in range(2):
        for j in range(2):
            total = sum(
                (x[k, :, i] - x[:, :, i].mean(0)) @ (y[k, :, j] - y[:, :, j].mean(0))
                for k in range(4)
            )
            assert average.cross_covariance[i, j] == pytest.approx(total / (30 * 3))
    assert average.effort_covariance[0, 1] == pytest.approx(average.effort_covariance[1, 0])


def test_averaged_data_carry_the_covariance_over_the_number_of_periods() -> None:
    rng = np.random.default_rng(1)
    count, n = 8, 40
    phase = 2 * np.pi * np.arange(n) / n
    errors = []
    for _ in range(200):
        average = average_periods(repeated(draw(rng, count, n), n))
        truth = np.column_stack(
            [np.sin(phase), np.cos(2 * phase), 5 * np.cos(phase), 9 + np.sin(3 * phase)]
        )
        errors.append(np.column_stack([average.position, average.effort]) - truth)
    scatter = np.cov(np.concatenate(errors).T)
    assert scatter == pytest.approx(COVARIANCE / count, abs=0.012)


def test_one_period_part_of_one_and_no_effort_are_refused() -> None:
    noise = draw(np.random.default_rng(0), 2, 30)
    with pytest.raises(InvalidRecording, match=r"1 period of 60 samples.*at least two"):
        average_periods(repeated(noise, 60))
    with pytest.raises(InvalidRecording, match="1 periods of 31 and 29 more"):
        average_periods(repeated(noise, 31))
    with pytest.raises(InvalidRecording, match="neither effort nor current"):
        average_periods(repeated(noise, 30, effort=None))
    with pytest.raises(InvalidRecording, match="no period"):
        average_periods(repeated(noise, 30, period_samples=None))


def test_currents_are_averaged_where_there_are_no_efforts() -> None:
    noise = draw(np.random.default_rng(0), 3, 30)
    current = repeated(noise, 30).effort
    average = average_periods(
        repeated(noise, 30, effort=None, current=current, current_units=("A", "V"))
    )
    assert np.allclose(average.effort, current.reshape(3, 30, 2).mean(axis=0))
    assert average.recording.motor_signal == "current"


def test_a_first_period_that_is_still_settling_is_reported() -> None:
    noise = 0.01 * draw(np.random.default_rng(0), 6, 200)
    assert average_periods(repeated(noise, 200)).notices == ()
    noise[:200, 0] += np.exp(-np.arange(200) / 30.0)
    (found,) = average_periods(repeated(noise, 200)).notices
    assert (found.rule, found.where, found.numbers["period"]) == ("transient", "a.position", 0)


def test_periods_that_still_settle_are_told_from_noise_drift_and_change() -> None:
    """Fading is unsettled; noise with memory, what differs all the time and what happens later are
    not.
    """
    settling, false = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = 0.01 * draw(rng, 4, 400)
        false += unsettled_periods(repeated(noise, 400))
        slow = signal.lfilter([1], [1, -0.9], draw(rng, 4, 400), axis=0)
        false += unsettled_periods(repeated(slow, 400))
        fading = np.exp(-np.arange(1600) / 200.0)[:, None] * [0.0, 0.1, 0.0, 0.0]
        settling += unsettled_periods(repeated(noise + fading, 400))
    assert settling >= 40  # after one period 0.013 is left, as much as there is noise
    assert false <= 2
    for change in (
        np.arange(1600) // 400 == 0,
        np.arange(1600) < 250,
        np.arange(1600) // 400 * 0.3,
    ):
        assert unsettled_periods(repeated(noise + np.outer(change, [0.0, 0.0, 0.0, 1.0]), 400)) == 0


def rejections(kind: str, make, trials: int = 200) -> float:
    rng = np.random.default_rng(2)
    return float(
        np.mean([getattr(check_noise(make(rng), ("x",)), kind)[0] < 0.05 for _ in range(trials)])
    )


@pytest.mark.parametrize("count", [2, 3, 10])
def test_white_gaussian_noise_is_rejected_as_often_as_the_level_says(count: int) -> None:
    def make(rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(count, 200, 1))

    assert rejections("whiteness", make) == pytest.approx(0.05, abs=0.045)
    assert rejections("normality", make) == pytest.approx(0.05, abs=0.045)


def coloured(rng: np.random.Generator, pole: float = 0.9) -> np.ndarray:
    noise = signal.lfilter([1.0], [1.0, -pole], rng.normal(size=(6, 700)), axis=1)[:, 200:, None]
    return np.asarray(noise)


def test_coloured_noise_is_not_white_but_may_still_be_gaussian() -> None:
    assert rejections("whiteness", coloured, 50) == 1.0
    assert rejections("normality", coloured) < 0.12
    assert check_noise(coloured(np.random.default_rng(0)), ("x",)).autocorrelation[
        0
    ] == pytest.approx(0.9, abs=0.05)


def test_uniform_and_skewed_noise_is_not_gaussian() -> None:
    assert rejections("normality", lambda rng: rng.uniform(size=(10, 300, 1)), 50) == 1.0
    skewed = check_noise(np.random.default_rng(0).exponential(size=(20, 500, 1)), ("x",))
    assert skewed.skewness[0] == pytest.approx(2.0, rel=0.2)
    assert not skewed.gaussian()[0]
    assert skewed.white()[0]


def test_two_opposite_periods_are_tested_as_scipy_and_statsmodels_test_one_record() -> None:
    x = np.random.default_rng(4).normal(size=2000)
    ours = check_noise(
        np.stack([x, -x])[:, :, None], ("x",)
    )  # mean period exactly zero, one degree of freedom
    theirs = acorr_ljungbox(x, lags=[20], return_df=True)["lb_pvalue"].iloc[0]
    assert ours.whiteness[0] == pytest.approx(theirs, rel=0.15)
    assert ours.normality[0] == pytest.approx(stats.normaltest(x).pvalue, rel=1e-6)
    assert ours.std[0] == pytest.approx(np.sqrt(2) * np.sqrt(np.mean(x**2)))


def test_a_dead_channel_has_no_verdict_and_no_warning() -> None:
    made = check_noise(np.zeros((3, 50, 1)), ("x",))
    assert made.std[0] == 0.0
    assert np.isnan(made.whiteness[0])
    assert np.isnan(made.normality[0])


def test_a_motion_that_does_not_repeat_after_its_period_is_refused() -> None:
    """A period of 200 samples declared as 150, one joint at rest; the right one is averaged."""
    time = np.arange(1200) * 1e-3
    rng = np.random.default_rng(3)
    q = np.stack([np.sin(2 * np.pi * time / 0.2), 0 * time], axis=1) + 1e-5 * rng.standard_normal(
        (1200, 2)
    )
    log = Recording(
        joints=("a", "b"),
        time=time,
        position=q,
        position_units=("rad", "rad"),
        effort=q,
        period_samples=200,
    )
    check_repeats(average_periods(log))
    with pytest.raises(
        InvalidRecording, match=r"does not repeat after the 150 samples.*a the periods differ by"
    ):
        check_repeats(average_periods(replace(log, period_samples=150)))


def test_rounding_that_repeats_adds_a_twelfth_of_a_squared_step() -> None:
    """Noise of less than half a step rounds alike in every period, so that no mean removes it."""
    step = 0.01
    signals = step * np.round(np.sin(np.linspace(0, 6, 400)) / step)[:, None]
    quiet = _repeated_rounding(signals, np.array([[(0.1 * step) ** 2]]))
    np.testing.assert_allclose(quiet, step**2 / 12, rtol=1e-6)
    noisy = _repeated_rounding(signals, np.array([[(0.9 * step) ** 2]]))
    np.testing.assert_array_equal(noisy, 0.0)
