"""The rules about errors, noise and broken data, one by one: each warns where it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from gough.core.signals import power_density
from gough.core.statistics import squared_memory
from gough.engine.base import random_motion
from gough.fitting.estimate import Estimate, UncertaintyComponent
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.identification.validation import Validation, is_well_conditioned
from gough.logs.recording import Recording
from gough.verdict.exclusions import equations_at_speed
from gough.verdict.judge import (
    explained_by_standard_errors,
    prediction_variance,
    rounding_inflation,
)
from gough.verdict.noise import (
    NoisePower,
    mean_noise_power,
    noise_of_same_sensors,
    noise_power,
    without_peaks,
)
from gough.verdict.rules import (
    Misfit,
    error_notices,
    misfit,
    report_errors_at_low_speed,
    report_reused_logs,
    warn_about_broken_channels,
    warn_if_badly_fitted,
    warn_if_badly_predicted,
    warn_if_held_out_error_is_higher,
    warn_if_log_is_repeated,
    warn_if_logs_disagree,
    warn_if_poorly_conditioned,
    warn_if_residual_exceeds_noise,
    warn_if_window_excludes_most,
)
from tests_support import model_of

ROWS = ("a", "b")
ROW_UNITS = ("N", "N")


def made_estimate(
    values: list[float],
    std: list[float],
    *,
    rms: tuple[float, float] = (0.1, 0.1),
    relative: tuple[float, float] = (0.01, 0.01),
    condition: float = 10.0,
) -> Estimate:
    names = tuple(f"p{k}.m" for k in range(len(values)))
    return Estimate(
        parameters=names,
        units=("kg",) * len(names),
        values=np.array(values),
        covariance=np.diag(np.array(std) ** 2),
        rows=ROWS,
        row_units=ROW_UNITS,
        residual_rms=np.array(rms),
        residual_relative=np.array(relative),
        samples=100,
        degrees_of_freedom=100.0,
        condition_number=condition,
        method="test",
        uncertainty="white",
    )


def made_validation(
    relative: tuple[float, float], rms: tuple[float, float] = (0.1, 0.1), predicts: str = "good"
) -> Validation:
    return Validation(
        rows=ROWS,
        row_units=ROW_UNITS,
        rms=np.array(rms),
        relative=np.array(relative),
        relative_all=np.array(relative),
        share=np.ones(2),
        whiteness=np.ones(2),
        numerics=True,
        predicts=predicts,
        notices=(),
        source="other",
    )


def known_noise(least: list[float], most: list[float] | None = None) -> NoisePower:
    """Return noise of some standard deviations."""
    return NoisePower(np.array(least) ** 2, np.array(most or least) ** 2)


# -- conditioning and agreement


@pytest.mark.parametrize(("condition", "warns"), [(9.9e3, False), (1.1e4, True), (np.inf, True)])
def test_a_condition_number_of_ten_thousand_is_too_large(condition: float, warns: bool) -> None:
    notices = warn_if_poorly_conditioned(made_estimate([1.0], [0.1], condition=condition))
    assert [notice.level for notice in notices] == ["warning"] * warns


@pytest.mark.parametrize("wide", [True, False])
def test_poor_conditioning_is_no_warning_where_the_standard_errors_show_it(wide: bool) -> None:
    """Two columns that differ by 1e-5 of their length, with noisy and with exact efforts."""
    W = np.random.default_rng(0).standard_normal((400, 3))
    W[:, 1] = W[:, 0] + 1e-5 * W[:, 1]
    noise = 1e-2 if wide else 1e-6
    covariance = np.linalg.inv(W.T @ W) * noise**2
    condition = float(np.linalg.cond(W / np.linalg.norm(W, axis=0)))
    estimate = made_estimate([1.0, 1.0, 1.0], [1.0] * 3, condition=condition)
    estimate = replace(estimate, covariance=(covariance + covariance.T) / 2)
    assert estimate.condition_number > 1e5
    assert (estimate.relative_std[:2] > 1).all() == wide
    assert is_well_conditioned(estimate) == wide
    assert bool(warn_if_poorly_conditioned(estimate)) == (not wide)


def test_logs_that_disagree_are_a_warning() -> None:
    estimate = made_estimate([1.0, 2.0], [0.1, 0.2])
    assert warn_if_logs_disagree(estimate) == []
    noise = UncertaintyComponent(
        kind="hac", std=estimate.std / 3, degrees_of_freedom=np.full(2, 9.0)
    )
    (notice,) = warn_if_logs_disagree(replace(estimate, uncertainty="logs", sources=(noise,)))
    assert (notice.rule, notice.level) == ("logs disagree", "warning")
    assert notice.numbers["ratio"] == pytest.approx(3.0)


# -- errors above noise


def test_noise_is_subtracted_from_an_error_in_squares() -> None:
    rms = np.array([5.0, 1.0])
    relative = np.array([0.5, 0.01])  # of efforts of 10 and 100
    noise = known_noise([3.0, 2.0])
    (notice,) = error_notices("fit error", "error of {error}", ROWS, rms, relative, noise)
    assert notice.numbers["error"] == pytest.approx(0.4)
    assert (notice.level, notice.where) == ("error", "a")
    assert notice.text == "error of 40.0 %, expected below 5 %"


@pytest.mark.parametrize(
    ("least", "most", "level"),
    [
        (0.0, 0.0, "error"),
        (0.0, 2.9, "warning"),
        (2.9, 2.9, "warning"),
        (0.0, 1.0, "error"),
        (2.2, 2.26, None),
    ],
)
def test_an_error_needs_more_than_the_most_that_noise_can_be(
    least: float, most: float, level: str | None
) -> None:
    """An error of 30 % of an effort of 10; of 23 % where nothing is said."""
    rms = np.array([2.3 if level is None else 3.0])
    notices = error_notices("fit", "{error}", ("a",), rms, rms / 10, known_noise([least], [most]))
    assert [notice.level for notice in notices] == ([] if level is None else [level])


@pytest.mark.parametrize(("noise", "level"), [(2.4, None), (2.6, "warning"), (30.0, "warning")])
def test_noise_of_a_quarter_of_the_effort_hides_errors(noise: float, level: str | None) -> None:
    """Periods of a wrong length were averaged: the error of 66 % was all taken for noise."""
    validation = made_validation((0.24, 0.24), rms=(2.4, 2.4))  # of an effort of 10
    notices = warn_if_badly_predicted(validation, known_noise([noise, noise]))
    assert [notice.level for notice in notices] == ([] if level is None else [level])
    if notices:
        assert f"noise is {10 * noise:.1f} % of the effort" in notices[0].text


@pytest.mark.parametrize(
    ("relative", "known", "level"),
    [
        ((0.03, 0.04), True, None),
        ((0.03, 0.06), True, "warning"),
        ((0.05, 0.09), False, None),  # where noise is unknown it may be all noise
        ((0.05, 0.11), False, "warning"),
        ((0.05, 0.26), False, "error"),
    ],
)
def test_a_prediction_is_judged_by_the_worst_joint(
    relative: tuple[float, float], known: bool, level: str | None
) -> None:
    noise = known_noise([0.0, 0.0]) if known else None
    notices = warn_if_badly_predicted(made_validation(relative, rms=relative), noise)
    assert [notice.level for notice in notices] == ([] if level is None else [level])
    if notices:
        assert notices[0].where == "b"
        assert notices[0].numbers["error"] == pytest.approx(relative[1])


@pytest.mark.parametrize(
    ("explained", "rule"),
    [(0.0, "held-out error"), (0.85, "held-out error"), (0.88, "not determined")],
)
def test_an_error_that_standard_errors_explain_is_one_of_the_parameters(
    explained: float, rule: str
) -> None:
    """Efforts of 10: an error of 1, of which 0.866 is above 5 % of the effort."""
    validation = made_validation((0.1, 0.01), (1.0, 0.1))
    squares = np.array([explained**2, 0.0])
    noise = known_noise([0.0, 0.0])
    (notice,) = warn_if_badly_predicted(validation, noise, squares)
    assert (notice.rule, notice.level, notice.where) == (rule, "warning", "a")


def random_regression(estimate: Estimate) -> Regression:
    """Return a regression with the parameters of an estimate."""
    return Regression(
        regressor=np.random.default_rng(0).standard_normal((50, 2, 2)),
        effort=np.zeros((50, 2)),
        parameters=estimate.parameters,
        units=estimate.units,
        rows=ROWS,
        row_units=ROW_UNITS,
    )


def test_the_variance_of_a_prediction_is_that_of_noise_alone() -> None:
    """Standard errors that errors of the model have widened explain no error of the model."""
    estimate = made_estimate([1.0, 2.0], [0.1, 0.2])
    regression = random_regression(estimate)
    W = regression.regressor
    expected = ((W * np.array([0.1, 0.2])) ** 2).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(prediction_variance([regression], estimate), expected)
    narrow = UncertaintyComponent(
        kind="hac", std=estimate.std / 3, degrees_of_freedom=np.full(2, 9.0)
    )
    widened = replace(estimate, uncertainty="logs", sources=(narrow,))
    np.testing.assert_allclose(prediction_variance([regression], widened), expected / 9)
    # rounding that repeats allows for twice the noise; no more than was widened
    np.testing.assert_allclose(prediction_variance([regression], widened, 2.0), expected * 4 / 9)
    np.testing.assert_allclose(prediction_variance([regression], widened, 5.0), expected)


@pytest.mark.parametrize(("freedom", "quantile"), [(8.0, 3.8325), (1e9, 2.8070)])
def test_standard_errors_from_few_repetitions_explain_more(freedom: float, quantile: float) -> None:
    """Student's quantiles of 1 - 0.01 / 2 / 2, for two rows."""
    estimate = made_estimate([1.0, 2.0], [0.1, 0.2])
    estimate = replace(estimate, degrees_of_freedom=np.array([freedom, 2 * freedom]))
    regressions = [random_regression(estimate)]
    variance = prediction_variance(regressions, estimate)
    explained = explained_by_standard_errors(regressions, estimate)
    np.testing.assert_allclose(np.sqrt(explained / variance), quantile, rtol=1e-4)


def test_rounding_that_repeats_inflates_the_noise() -> None:
    rng = np.random.default_rng(0)
    each = rng.standard_normal((10, 500, 2))
    regression = replace(with_covariance(np.eye(2)), mask=None)
    regression = replace(
        regression,
        regressor=np.ones((500, 2, 1)),
        effort=each.mean(axis=0),
        replicates=each,
        covariance=np.diag([1.6, 0.1]),
    )
    assert rounding_inflation([regression]) == pytest.approx(4.0, rel=0.05)
    assert rounding_inflation([with_covariance(np.eye(2))]) == 1.0


@pytest.mark.parametrize(
    ("everywhere", "at_speed", "reported"),
    [(0.07, 0.02, True), (0.07, 0.06, False), (0.04, 0.02, False)],
)
def test_errors_that_arise_only_where_joints_creep_are_info(
    everywhere: float, at_speed: float, reported: bool
) -> None:
    noise = known_noise([0.0, 0.0])
    whole = made_validation((0.01, everywhere), rms=(0.1, 10 * everywhere))
    faster = made_validation((0.01, at_speed), rms=(0.1, 10 * at_speed))
    notices = report_errors_at_low_speed(whole, faster, noise)
    assert [(notice.rule, notice.level, notice.where) for notice in notices] == [
        ("low speed", "info", "b")
    ] * reported


def test_only_joints_with_coulomb_friction_are_near_a_reversal() -> None:
    """The platform of a Delta moves along x only while its motors move all the time."""
    model = model_of("delta")
    motion = random_motion(model, 400, seed=1)
    speed = np.linspace(0.5, 1.0, 400)[:, None] * np.ones(motion.qd.shape[1])
    column = model.mechanism.coordinates.index
    speed[:300, column("platform.y")] = 0.0
    speed[:100, column("leg1.motor")] = 0.0
    at_speed = equations_at_speed(model, replace(motion, qd=speed))
    others = [row != "leg1.motor" for row in model.rows]
    assert at_speed[:, others].all()
    assert at_speed[:, model.rows.index("leg1.motor")].sum() == 300


def test_without_held_out_logs_nothing_was_predicted() -> None:
    validation = made_validation((0.5, 0.5), predicts="not tested")
    (notice,) = warn_if_badly_predicted(validation, None)
    assert (notice.rule, notice.level) == ("not validated", "warning")
    assert not warn_if_held_out_error_is_higher(validation, made_estimate([1.0], [0.1]))


@pytest.mark.parametrize(
    ("rms", "expected", "warns"),
    [
        ((0.14, 0.1), None, False),
        ((0.16, 0.1), None, True),
        ((0.16, 0.1), (0.1, 0.1), False),
        ((0.3, 0.1), (0.1, 0.1), True),
    ],
)
def test_a_held_out_error_half_as_large_again_is_a_warning(
    rms: tuple[float, float], expected: tuple[float, float] | None, warns: bool
) -> None:
    notices = warn_if_held_out_error_is_higher(
        made_validation((0.01, 0.01), rms=rms),
        made_estimate([1.0], [0.1]),
        None if expected is None else np.array(expected),
    )
    assert bool(notices) == warns
    if notices:
        assert notices[0].where == "a"
        assert notices[0].numbers["ratio"] == pytest.approx(rms[0] / 0.1)


def test_a_joint_that_is_predicted_to_one_per_cent_is_not_compared_with_its_fit() -> None:
    """Held-out errors four times those of the fit, of efforts of 50 and of 30."""
    notices = warn_if_held_out_error_is_higher(
        made_validation((0.008, 0.4 / 30), rms=(0.4, 0.4)), made_estimate([1.0], [0.1])
    )
    assert [notice.where for notice in notices] == ["b"]


@pytest.mark.parametrize(
    ("relative", "level"),
    [((0.09, 0.09), None), ((0.12, 0.01), "warning"), ((0.01, 0.82), "error")],
)
def test_a_bad_fit_is_a_warning(relative: tuple[float, float], level: str | None) -> None:
    rms = np.array(relative)
    notices = warn_if_badly_fitted(("a", "b"), rms, rms, None)
    assert [notice.level for notice in notices] == ([] if level is None else [level])
    if level == "warning":
        assert not warn_if_badly_fitted(("a", "b"), rms, rms, known_noise([0.115, 0.0]))


# -- noise


def moved(error: np.ndarray) -> Regression:
    """A motion of 1 and 2 Hz at 100 Hz with an error (t,) in one row; the other is exact."""
    time = np.arange(6000) / 100
    first = np.sin(2 * np.pi * time) + 0.5 * np.cos(4 * np.pi * time)
    predicted = np.stack([first, np.cos(2 * np.pi * time)], axis=1)
    return Regression(
        regressor=predicted[:, :, None],
        effort=predicted + error[:, None] * [1.0, 0.0],
        rows=ROWS,
        row_units=ROW_UNITS,
        parameters=("p.m",),
        units=("kg",),
        time=time,
    )


def predicted_by(regression: Regression) -> np.ndarray:
    return regression.regressor[:, :, 0]


@pytest.mark.parametrize(
    ("memory", "least", "most"),
    [
        (0.0, (0.27, 0.3), (0.3, 0.33)),
        (0.6, (0.1, 0.2), (0.29, 0.4)),
        (-0.6, (0.1, 0.2), (0.29, 0.4)),
    ],
)
def test_noise_shows_above_the_band_of_the_motion(
    memory: float, least: tuple[float, float], most: tuple[float, float]
) -> None:
    """Of 0.3: white noise is found, red and blue noise lie between least and most."""
    rng = np.random.default_rng(3)
    noise = np.zeros(6000)
    for k in range(1, 6000):
        noise[k] = memory * noise[k - 1] + 0.3 * np.sqrt(1 - memory**2) * rng.standard_normal()
    regression = moved(noise)
    power = noise_power(regression, predicted_by(regression))
    assert power is not None
    for (low, high), bound in zip((least, most), power):
        assert low <= np.sqrt(bound[0]) <= high
        assert bound[1] == pytest.approx(0.0, abs=1e-20)


def test_an_error_of_the_model_is_not_taken_for_noise() -> None:
    """A wrong mass, and wrong friction, whose harmonics have 19 % of its power."""
    phase = 2 * np.pi * np.arange(6000) / 100
    for error in (np.sin(phase + 1), np.sign(np.sin(phase))):
        regression = moved(0.3 * error)
        power = noise_power(regression, predicted_by(regression))
        assert power is not None
        assert np.sqrt(power.least[0]) < 0.06
        assert np.sqrt(power.most[0]) < 0.16


def test_a_resonance_is_not_taken_for_noise() -> None:
    """White noise of variance 1, and a narrow peak of variance 8 above the motion."""
    rng = np.random.default_rng(0)
    white = rng.standard_normal((8192, 1))
    pole = 0.99 * np.exp(2j * np.pi * 0.15)
    ringing = lfilter([1.0], [1.0, -2 * pole.real, abs(pole) ** 2], rng.standard_normal(8192))
    ringing = ringing[:, None] * np.sqrt(8) / ringing.std()
    _, quiet = power_density(white, 1024)
    _, loud = power_density(white + ringing, 1024)
    assert without_peaks(quiet).sum() == pytest.approx(quiet.sum(), rel=0.01)
    assert loud.sum() > 8 * quiet.sum()
    assert without_peaks(loud).sum() < 3 * quiet.sum()


def test_a_motion_that_fills_the_band_hides_the_noise() -> None:
    regression = moved(np.zeros(6000))
    fast = np.random.default_rng(0).standard_normal((6000, 2))
    assert noise_power(regression, fast) is None
    assert mean_noise_power([regression] * 2, [predicted_by(regression), fast]) is None
    assert mean_noise_power([], []) is None


def with_covariance(covariance: np.ndarray) -> Regression:
    return Regression(
        regressor=np.ones((3, 2, 1)),
        effort=np.ones((3, 2)),
        rows=ROWS,
        row_units=ROW_UNITS,
        parameters=("p.m",),
        units=("kg",),
        covariance=covariance,
    )


def test_the_noise_of_several_logs_is_the_mean_of_their_powers() -> None:
    each = np.stack([np.diag([4.0, 1.0]), np.diag([16.0, 1.0]), np.diag([16.0, 1.0])])
    regressions = [with_covariance(np.diag([4.0, 9.0])), with_covariance(each)]
    power = mean_noise_power(regressions, [np.ones((3, 2))] * 2)
    assert power is not None
    np.testing.assert_allclose(power.least, [(4 + 12) / 2, (9 + 1) / 2])
    np.testing.assert_allclose(power.most, power.least)


@pytest.mark.parametrize("relative_noise", [0.05, 0.1, 0.2, 0.5, 2.0])
def test_the_noise_of_a_single_sample_is_known_from_rounded_repetitions(
    relative_noise: float,
) -> None:
    """The power of noise and rounding together, by simulation; noise over the step is given."""
    rng = np.random.default_rng(0)
    step = 0.7
    effort = 10 * rng.random((4000, 1))
    noisy = effort + relative_noise * step * rng.standard_normal((3, 4000, 1))
    each = np.round(noisy / step) * step
    true_power = float(np.mean((each - effort) ** 2))
    scatter = each.var(axis=0, ddof=1).mean() / 3
    rounding = step**2 / 12 * (relative_noise < 0.5)  # as where periods are averaged
    regression = Regression(
        regressor=np.ones((4000, 1, 1)),
        effort=each.mean(axis=0),
        rows=("a",),
        row_units=("N",),
        parameters=("p.m",),
        units=("kg",),
        replicates=each,
        covariance=np.array([[scatter + rounding]]),
    )
    power = noise_of_same_sensors([regression, regression])
    assert power is not None
    assert power[0] == pytest.approx(true_power, rel=0.1)
    unknown = replace(regression, replicates=None, covariance=None)
    assert noise_of_same_sensors([unknown]) is None
    short = unknown.take(np.arange(20))
    both = mean_noise_power([short], [short.effort], power)
    assert both is not None
    assert (both.least[0], both.most[0]) == (0.0, power[0])


def test_rounding_that_repeats_may_be_noise_but_need_not() -> None:
    """The covariance of averaged periods allows for rounding; their scatter does not show it."""
    rng = np.random.default_rng(0)
    each = rng.standard_normal((10, 500, 2))
    regression = Regression(
        regressor=np.ones((500, 2, 1)),
        effort=each.mean(axis=0),
        rows=ROWS,
        row_units=ROW_UNITS,
        parameters=("p.m",),
        units=("kg",),
        replicates=each,
        covariance=np.diag([5.0, 0.05]),
    )
    power = noise_power(regression, np.ones((500, 2)))
    assert power is not None
    np.testing.assert_allclose(power.most, [5.0, 0.05])
    np.testing.assert_allclose(power.least, [0.1, 0.05], rtol=0.1)


# -- lack of fit


def repeated(
    model_error: float, *, memory: float = 0.0, seed: int = 0, mask: bool = False
) -> tuple[Regression, Estimate]:
    """Six repetitions of 800 samples; the second row has an error that is in all of them."""
    n_repetitions = 6
    t = 800
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((t, 2, 2))
    noise = rng.standard_normal((n_repetitions, t, 2))
    noise *= np.append(1.0, np.full(t - 1, np.sqrt(1 - memory**2)))[:, None]
    noise = lfilter([1.0], [1.0, -memory], noise, axis=1)
    lacking = model_error * np.sin(np.arange(t) / 7.0)[:, None] * np.array([0.0, np.sqrt(2)])
    each = W @ np.array([1.0, -2.0]) + lacking + noise
    regression = Regression(
        regressor=W,
        effort=each.mean(axis=0),
        rows=ROWS,
        row_units=ROW_UNITS,
        parameters=("p.m", "q.m"),
        units=("kg", "kg"),
        replicates=each,
        time=np.arange(t, dtype=float),
    )
    if mask:
        valid = np.ones((t, 2), bool)
        valid[::3, 1] = False
        spoilt = regression.effort + np.where(valid, 0.0, 100.0)
        regression = replace(regression, effort=spoilt, mask=valid)
    return regression, GaussMarkov().fit(replace(regression, replicates=None))


def known_misfit(regression: Regression, estimate: Estimate) -> Misfit:
    result = misfit(regression, estimate)
    assert result is not None
    return result


def test_the_residual_of_a_right_model_is_the_noise_of_its_repetitions() -> None:
    ratios = np.array([known_misfit(*repeated(0.0, seed=seed)).ratio for seed in range(20)])
    assert ratios.mean() == pytest.approx(1.0, abs=0.02)
    assert ratios.std() == pytest.approx(np.sqrt(2 / 800 * 6 / 5), rel=0.35)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_the_chance_of_a_ratio_allows_for_memory(memory: float) -> None:
    misfits = [known_misfit(*repeated(0.0, seed=seed, memory=memory)) for seed in range(40)]
    chance = np.concatenate([each.chance for each in misfits])
    assert np.mean(chance < 0.1) == pytest.approx(0.1, abs=0.09)
    assert np.mean(chance < 0.5) == pytest.approx(0.5, abs=0.16)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_memory_is_that_of_a_mean_square(rho: float) -> None:
    """Autocorrelation rho^l: 1 + 2 sum rho^2l = (1 + rho^2) / (1 - rho^2)."""
    noise = np.random.default_rng(0).standard_normal((6, 20000))
    for k in range(1, noise.shape[1]):
        noise[:, k] = rho * noise[:, k - 1] + np.sqrt(1 - rho**2) * noise[:, k]
    assert squared_memory(noise) == pytest.approx((1 + rho**2) / (1 - rho**2), rel=0.1)


def test_an_error_in_all_repetitions_is_not_noise() -> None:
    """A power of 1 is missed; the noise of one repetition has 1, of the mean of six 1/6."""
    result = known_misfit(*repeated(1.0))
    assert result.ratio[1] == pytest.approx(7.0, rel=0.1)
    assert result.ratio[0] == pytest.approx(1.0, abs=0.2)
    assert result.repeats[1] == pytest.approx(0.5, abs=0.05)
    assert result.relative[1] == pytest.approx(1 / np.sqrt(1 + 4 + 1 + 1 / 6), rel=0.1)
    (notice,) = warn_if_residual_exceeds_noise([result], ROWS)
    assert (notice.level, notice.where) == ("warning", "b")
    assert notice.numbers["ratio"] == pytest.approx(result.ratio[1])


def test_equations_that_are_not_valid_are_no_lack_of_fit() -> None:
    result = known_misfit(*repeated(0.0, mask=True))
    np.testing.assert_allclose(result.ratio, 1.0, atol=0.2)


def test_there_is_no_lack_of_fit_without_repetitions() -> None:
    regression, estimate = repeated(1.0)
    assert misfit(replace(regression, replicates=None), estimate) is None
    assert warn_if_residual_exceeds_noise([], ROWS) == []


@pytest.mark.parametrize(
    ("ratio", "chance", "relative", "warns"),
    [
        ((1.4, 1.0), 1e-4, 0.1, False),  # sure, but standard errors nearly hold
        ((1.6, 1.0), 1e-4, 0.1, True),
        ((1.0, 1.6), 1e-4, 0.1, True),
        ((1.6, 1.0), 0.02, 0.1, False),  # large, but by chance
        ((1.6, 1.0), 1e-4, 0.009, False),  # of an effort that hardly notices
    ],
)
def test_lack_of_fit_must_be_large_and_sure_and_matter(
    ratio: tuple[float, float], chance: float, relative: float, warns: bool
) -> None:
    bad = Misfit(
        ratio=np.array(ratio),
        chance=np.full(2, chance),
        repeats=np.array([0.3, 0.4]),
        relative=np.full(2, relative),
    )
    fine = Misfit(np.ones(2), np.full(2, 0.5), np.zeros(2), np.zeros(2))
    assert bool(warn_if_residual_exceeds_noise([bad], ROWS)) == warns
    assert bool(warn_if_residual_exceeds_noise([fine, bad], ROWS)) == warns


def test_lack_of_fit_allows_for_the_parameters_that_were_fitted() -> None:
    """Twelve parameters on 32 equations: the residual of a right model has 0.6 of its noise."""
    names = tuple(f"p{k}.m" for k in range(12))
    ratios = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((16, 2, 12))
        each = W @ np.ones(12) + rng.standard_normal((6, 16, 2))
        regression = Regression(
            regressor=W,
            effort=each.mean(axis=0),
            rows=ROWS,
            row_units=ROW_UNITS,
            parameters=names,
            units=("kg",) * 12,
            replicates=each,
        )
        estimate = GaussMarkov(iterations=1).fit(replace(regression, replicates=None))
        ratios.append(known_misfit(regression, estimate).ratio)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


# -- logs


def made_log(seed: int = 0, t: int = 200, source: str = "log") -> Recording:
    rng = np.random.default_rng(seed)
    time = np.arange(t) / 100.0
    return Recording(
        joints=("a", "b"),
        time=time,
        position=np.sin(time)[:, None] + 1e-4 * rng.standard_normal((t, 2)),
        position_units=("rad", "rad"),
        effort=rng.standard_normal((t, 2)),
        source=source,
    )


def test_an_identification_log_is_found_among_the_held_out_ones() -> None:
    log = made_log(0)
    other = made_log(1, source="other")
    assert report_reused_logs([log], [other]) == []
    copy = replace(log, source="renamed", time=log.time + 5.0)
    (notice,) = report_reused_logs([log], [other, copy])
    assert (notice.level, notice.where) == ("error", "renamed")


def test_a_piece_of_an_identification_log_is_found_too() -> None:
    log = made_log(0)
    assert report_reused_logs([made_log(1), log], [log.take(slice(37, 150))])
    assert report_reused_logs([log.take(slice(0, 20))], [log]) == []  # a tenth of it was seen


def test_an_identification_log_that_is_given_twice_is_found() -> None:
    log = made_log(0)
    assert warn_if_log_is_repeated([log, made_log(1)]) == []
    (notice,) = warn_if_log_is_repeated([log, made_log(1), replace(log, source="copy")])
    assert (notice.level, notice.where) == ("warning", "copy")


def test_currents_are_compared_where_there_are_no_efforts() -> None:
    log = replace(made_log(0), effort=None, current=made_log(0).effort, current_units=("A", "A"))
    other = replace(log, current=log.current + 1e-9)
    assert report_reused_logs([log], [log])
    assert report_reused_logs([log], [other]) == []


@pytest.mark.parametrize(
    ("n_valid", "n_without", "warns"),
    [
        ((60, 55), (100, 100), False),
        ((60, 49), (100, 100), True),
        ((60, 49), (100, 60), False),  # the second joint rests in 40 of 100
        ((0, 100), (100, 100), True),
        ((60, 0), (100, 0), False),  # the second joint never moves: nothing was excluded
    ],
)
def test_an_exclusion_window_may_not_take_more_than_half_of_a_row(
    n_valid: tuple[int, int], n_without: tuple[int, int], warns: bool
) -> None:
    notices = warn_if_window_excludes_most(ROWS, np.array(n_valid), np.array(n_without))
    assert bool(notices) == warns
    if notices:
        fraction = np.array(n_valid) / np.maximum(n_without, 1)
        assert notices[0].numbers["fraction"] == pytest.approx(fraction.min())


def test_dead_and_copied_channels_are_warnings() -> None:
    log = made_log(0)
    assert warn_about_broken_channels([log]) == []
    dead = log.effort.copy()
    dead[:, 1] = 0.0
    (notice,) = warn_about_broken_channels([log, replace(log, effort=dead)])
    assert (notice.rule, notice.where) == ("dead", "log: b.effort")
    copied = log.effort.copy()
    copied[:, 1] = copied[:, 0]
    (notice,) = warn_about_broken_channels([replace(log, effort=copied)])
    assert notice.rule == "duplicated"
