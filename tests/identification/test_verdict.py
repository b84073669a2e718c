"""The verdict's rules, one by one: each speaks where it should, is silent where it should, and says
its number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.estimate import Estimate, UncertaintyComponent
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.identification.validation import Validation, is_well_conditioned
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.verdict import robot_file as prior
from gough.verdict.robot_file import (
    Factors,
    Prior,
    common_factor,
    exchanged_legs,
    factors,
    file_scatter,
    given_by_file,
    prior_of,
    report_negative_values,
    unit_of,
    warn_if_far_from_robot_file,
)
from gough.verdict.rules import (
    Misfit,
    error_notices,
    misfit,
    report_reused_logs,
    warn_about_broken_channels,
    warn_if_badly_fitted,
    warn_if_badly_predicted,
    warn_if_few_samples_are_valid,
    warn_if_held_out_error_is_higher,
    warn_if_logs_disagree,
    warn_if_poorly_conditioned,
    warn_if_residual_exceeds_noise,
)

ROWS = ("a", "b")


def estimate(
    values: list[float],
    std: list[float],
    names: tuple[str, ...] = (),
    *,
    rms: tuple[float, float] = (0.1, 0.1),
    relative: tuple[float, float] = (0.01, 0.01),
    condition: float = 10.0,
    freedom: float = 100.0,
) -> Estimate:
    names = names or tuple(f"p{k}.m" for k in range(len(values)))
    return Estimate(
        parameters=names,
        units=("kg",) * len(names),
        values=np.array(values),
        covariance=np.diag(np.array(std) ** 2),
        rows=ROWS,
        row_units=("N", "N"),
        residual_rms=np.array(rms),
        residual_relative=np.array(relative),
        samples=100,
        degrees_of_freedom=freedom,
        condition_number=condition,
        method="test",
        uncertainty="white",
    )


def validation(
    relative: tuple[float, float], rms: tuple[float, float] = (0.1, 0.1), predicts: str = "good"
) -> Validation:
    return Validation(
        rows=ROWS,
        row_units=("N", "N"),
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


# -- numbers and prediction


@pytest.mark.parametrize(("condition", "speaks"), [(9.9e3, False), (1.1e4, True), (np.inf, True)])
def test_a_condition_number_of_ten_thousand_is_too_large(condition: float, speaks: bool) -> None:
    found = warn_if_poorly_conditioned(estimate([1.0], [0.1], condition=condition))
    assert bool(found) == speaks
    assert all(notice.level == "warning" for notice in found)


@pytest.mark.parametrize(("wide", "fine"), [(True, True), (False, False)])
def test_a_weak_direction_is_no_alarm_where_the_sigmas_show_it(wide: bool, fine: bool) -> None:
    """Two columns that differ by 1e-5 of their length: as efforts are noisy or not, both values are
    unknown or not.
    """
    W = np.random.default_rng(0).standard_normal((400, 3))
    W[:, 1] = W[:, 0] + 1e-5 * W[:, 1]
    covariance = np.linalg.inv(W.T @ W) * (1e-2 if wide else 1e-6) ** 2
    own = estimate(
        [1.0, 1.0, 1.0], [1.0] * 3, condition=float(np.linalg.cond(W / np.linalg.norm(W, axis=0)))
    )
    own = replace(own, covariance=(covariance + covariance.T) / 2)
    assert own.condition_number > 1e5
    assert (own.relative_std[:2] > 1).all() == wide
    assert is_well_conditioned(own) == fine
    assert bool(warn_if_poorly_conditioned(own)) == (not fine)


def test_a_weak_parameter_that_claims_to_be_known_is_told_beside_others_that_do_not() -> None:
    """Efforts known to 1e-2: nothing is known of a pair that differs by 1e-8, little of one by
    3e-5.
    """
    W = np.random.default_rng(0).standard_normal((400, 4))
    W[:, 1], W[:, 3] = W[:, 0] + 1e-8 * W[:, 1], W[:, 2] + 3e-5 * W[:, 3]
    unit = np.linalg.norm(W, axis=0)
    shape = np.linalg.qr(W / unit, mode="r")
    root = np.linalg.inv(shape) / unit[:, None] * 1e-2
    own = replace(
        estimate([1.0] * 4, [1.0] * 4, condition=float(np.linalg.cond(shape))),
        covariance=root @ root.T,
    )
    assert is_well_conditioned(own)
    assert not is_well_conditioned(replace(own, values=np.array([1.0, 1.0, 1e4, 1.0])))
    assert not is_well_conditioned(replace(own, values=np.array([1e9, 1.0, 1.0, 1.0])))


def test_a_row_that_is_predicted_to_one_per_cent_is_not_compared_with_its_fit() -> None:
    """Held-out errors four times those of the fit, of efforts of 50 and of 30."""
    found = warn_if_held_out_error_is_higher(
        validation((0.008, 0.4 / 30), rms=(0.4, 0.4)), estimate([1.0], [0.1])
    )
    assert [notice.where for notice in found] == ["b"]


def test_logs_that_disagree_are_a_remark() -> None:
    own = estimate([1.0, 2.0], [0.1, 0.2])
    assert warn_if_logs_disagree(own) == []
    noise = UncertaintyComponent(kind="hac", std=own.std / 3, degrees_of_freedom=np.full(2, 9.0))
    (found,) = warn_if_logs_disagree(replace(own, uncertainty="logs", sources=(noise,)))
    assert (found.rule, found.level) == ("logs disagree", "warning")
    assert found.numbers["ratio"] == pytest.approx(3.0)
    assert "does not generalise from one motion to another" in found.text


def test_noise_is_taken_out_of_an_error_in_squares() -> None:
    rms, relative = np.array([5.0, 1.0]), np.array([0.5, 0.01])  # of efforts of 10 and 100
    (found,) = error_notices(
        "fit error", "error of {error}", ("a", "b"), rms, relative, (np.array([3.0, 2.0]),) * 2
    )
    assert found.numbers["error"] == pytest.approx(0.4)
    assert (found.level, found.where) == ("error", "a")
    assert found.text == "error of 40.0 %, expected below 10 %"


@pytest.mark.parametrize(
    ("least", "most", "level"),
    [
        (0.0, 0.0, "error"),
        (0.0, 2.9, "warning"),
        (2.4, 2.9, "warning"),
        (2.9, 2.9, "warning"),
        (2.2, 2.2, None),
        (0.0, 1.0, "error"),
    ],
)
def test_wrong_needs_more_than_the_most_that_noise_can_be(
    least: float, most: float, level: str | None
) -> None:
    """An error of 30 % of an effort of 10; of 2.3 where nothing speaks."""
    rms = np.array([2.3 if level is None else 3.0])
    found = error_notices(
        "fit", "{error}", ("a",), rms, rms / 10, (np.array([least]), np.array([most]))
    )
    assert [notice.level for notice in found] == ([] if level is None else [level])
    if least == 2.9:
        assert found[0].where == "a"
        assert "noise is 29.0 % of the effort" in found[0].text


@pytest.mark.parametrize(("noise", "level"), [(2.4, None), (2.6, "warning"), (30.0, "warning")])
def test_a_log_whose_repetitions_differ_by_a_quarter_of_the_effort_tests_nothing(
    noise: float, level: str | None
) -> None:
    """Periods of a wrong length were averaged: the error of 66 % was all taken for noise."""
    found = warn_if_badly_predicted(
        validation((0.25, 0.25), rms=(2.5, 2.5)), (np.full(2, noise),) * 2
    )  # of an effort of 10
    assert [r.level for r in found] == ([] if level is None else [level])
    if found:
        assert f"{10 * noise:.1f} % of the effort" in found[0].text


@pytest.mark.parametrize(
    ("relative", "level"),
    [((0.09, 0.05), None), ((0.05, 0.11), "warning"), ((0.05, 0.26), "error")],
)
def test_prediction_is_judged_by_the_worst_row(
    relative: tuple[float, float], level: str | None
) -> None:
    found = warn_if_badly_predicted(validation(relative, rms=relative))
    assert [r.level for r in found] == ([] if level is None else [level])
    if found:
        assert found[0].where == "b"
        assert found[0].numbers["error"] == pytest.approx(relative[1])


def test_noise_of_the_held_out_log_is_not_held_against_the_model() -> None:
    noisy = validation((0.12, 0.12), rms=(1.2, 1.2))  # of an effort of 10
    assert warn_if_badly_predicted(noisy)
    assert not warn_if_badly_predicted(
        noisy, (np.array([1.0, 1.0]),) * 2
    )  # sqrt(1.44 - 1) / 10 = 6.6 %
    assert warn_if_badly_predicted(noisy, (np.array([1.0, 0.1]),) * 2)


def test_without_held_out_data_nothing_was_predicted() -> None:
    found = warn_if_badly_predicted(validation((0.01, 0.01), predicts="not tested"))
    assert [r.level for r in found] == ["warning"]
    assert found[0].rule == "not validated"
    assert not warn_if_held_out_error_is_higher(
        validation((0.5, 0.5), predicts="not tested"), estimate([1.0], [0.1])
    )


@pytest.mark.parametrize(
    ("rms", "noise", "speaks"),
    [
        ((0.14, 0.1), None, False),
        ((0.16, 0.1), None, True),
        ((0.16, 0.1), (0.1, 0.1), False),
        ((0.3, 0.1), (0.1, 0.1), True),
    ],
)
def test_a_held_out_error_half_as_large_again_is_told(
    rms: tuple, noise: tuple | None, speaks: bool
) -> None:
    found = warn_if_held_out_error_is_higher(
        validation((0.01, 0.01), rms=rms),
        estimate([1.0], [0.1]),
        None if noise is None else np.array(noise),
    )
    assert bool(found) == speaks
    if found:
        assert found[0].where == "a"
        assert found[0].numbers["ratio"] == pytest.approx(rms[0] / 0.1)


@pytest.mark.parametrize(
    ("relative", "level"),
    [((0.09, 0.09), None), ((0.12, 0.01), "warning"), ((0.01, 0.82), "error")],
)
def test_a_fit_that_leaves_much_is_not_green(
    relative: tuple[float, float], level: str | None
) -> None:
    found = warn_if_badly_fitted(estimate([1.0], [0.1], rms=relative, relative=relative))
    assert [r.level for r in found] == ([] if level is None else [level])
    if level != "error":
        noise = np.full(2, 0.1)  # efforts of 1
        assert not warn_if_badly_fitted(
            estimate([1.0], [0.1], rms=relative, relative=relative), (noise, noise)
        )


# -- lack of fit


def repeated(
    model_error: float,
    *,
    memory: float = 0.0,
    k: int = 6,
    t: int = 800,
    seed: int = 0,
    mask: bool = False,
) -> tuple[Regression, Estimate]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((t, 2, 2))
    noise = rng.standard_normal((k, t, 2))
    for i in range(1, t):
        noise[:, i] = memory * noise[:, i - 1] + np.sqrt(1 - memory**2) * noise[:, i]
    unseen = model_error * np.sin(np.arange(t) / 7.0)[:, None] * np.array([0.0, np.sqrt(2)])
    each = W @ np.array([1.0, -2.0]) + unseen + noise
    part = Regression(
        regressor=W,
        effort=each.mean(axis=0),
        rows=ROWS,
        row_units=("N", "N"),
        parameters=("p.m", "q.m"),
        units=("kg", "kg"),
        replicates=each,
        time=np.arange(t, dtype=float),
    )
    if mask:
        keep = np.ones((t, 2), bool)
        keep[::3, 1] = False
        spoilt = part.effort + np.where(keep, 0.0, 100.0)
        part = replace(part, effort=spoilt, mask=keep)
    return part, GaussMarkov().fit(replace(part, replicates=None))


def test_the_residual_of_a_right_model_is_the_noise_of_its_repetitions() -> None:
    found = [misfit(*repeated(0.0, seed=s)) for s in range(20)]
    ratios = np.array([f.ratio for f in found])
    assert ratios.mean() == pytest.approx(1.0, abs=0.02)
    assert ratios.std() == pytest.approx(np.sqrt(2 / 800 * 6 / 5), rel=0.35)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_the_chance_of_a_ratio_allows_for_memory(memory: float) -> None:
    found = [misfit(*repeated(0.0, seed=s, memory=memory)) for s in range(60)]
    chance = np.concatenate([f.chance for f in found])
    assert np.mean(chance < 0.1) == pytest.approx(0.1, abs=0.09)
    assert np.mean(chance < 0.5) == pytest.approx(0.5, abs=0.15)
    assert (
        sum(bool(warn_if_residual_exceeds_noise([f], ROWS)) for f in found) <= 4
    )  # memory of a tenth of a stretch: heavier tails


def test_what_repeats_is_not_noise_and_its_share_is_told() -> None:
    part, fitted = repeated(1.0)
    found = misfit(part, fitted)
    # The model misses a power of 1 on the second row; the noise of one repetition has 1, of the
    # mean of six 1/6.
    assert found.ratio[1] == pytest.approx(7.0, rel=0.1)
    assert found.repeats[1] == pytest.approx(0.5, abs=0.05)
    assert found.ratio[0] == pytest.approx(1.0, abs=0.2)
    notice = warn_if_residual_exceeds_noise([found], ROWS)[0]
    assert notice.level == "warning"
    assert notice.where == "b"
    assert notice.numbers["ratio"] == pytest.approx(found.ratio[1])


def test_equations_that_do_not_count_are_not_misfits() -> None:
    found = misfit(*repeated(0.0, mask=True))
    np.testing.assert_allclose(found.ratio, 1.0, atol=0.2)


def test_there_is_no_misfit_without_repetitions() -> None:
    part, fitted = repeated(1.0)
    assert misfit(replace(part, replicates=None), fitted) is None
    assert warn_if_residual_exceeds_noise([], ROWS) == []


@pytest.mark.parametrize(
    ("ratio", "chance", "speaks"),
    [
        ((1.4, 1.0), 1e-4, False),  # sure, but sigmas nearly hold
        ((1.6, 1.0), 1e-4, True),
        ((1.0, 1.6), 1e-4, True),
        ((1.6, 1.0), 0.02, False),  # large, but by chance
        ((1.1, 0.5), 1e-4, False),
    ],
)
def test_a_misfit_must_be_large_and_sure(ratio: tuple, chance: float, speaks: bool) -> None:
    found = Misfit(ratio=np.array(ratio), chance=np.full(2, chance), repeats=np.array([0.3, 0.4]))
    assert bool(warn_if_residual_exceeds_noise([found], ROWS)) == speaks
    fine = Misfit(ratio=np.ones(2), chance=np.full(2, 0.5), repeats=np.zeros(2))
    assert bool(warn_if_residual_exceeds_noise([fine, found], ROWS)) == speaks


# -- physics


@pytest.fixture(scope="module")
def five_bar_base(five_bar: Model) -> BaseParameters:
    return base_parameters(five_bar)


def truth(
    model: Model,
    base: BaseParameters,
    changes: dict[str, float] | None = None,
    share: float = 0.01,
    freedom: float = 100.0,
) -> Estimate:
    values = dict(zip(base.names, base.values(model.values(base.standard)).tolist()))
    sizes = dict(
        zip(base.names, np.maximum(np.abs(base.values(model.values(base.standard))), 0.01))
    )
    values |= changes or {}
    return replace(
        estimate(
            list(values.values()),
            [share * sizes[n] for n in values],
            tuple(values),
            freedom=freedom,
        ),
        units=base.units,
    )


def test_the_robot_files_own_values_are_possible_and_expected(
    five_bar: Model, five_bar_base: BaseParameters
) -> None:
    prior = prior_of(five_bar, five_bar_base)
    own = truth(five_bar, five_bar_base)
    assert report_negative_values(own, five_bar_base, prior) == []
    assert warn_if_far_from_robot_file(own, five_bar_base, prior) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left.motor.fs", -0.1),
        ("right.motor.fv", -0.01),
        ("tool.mR", -0.07),
        ("left.proximal.IzzR", -0.1),
    ],
)
def test_negative_masses_inertias_and_friction_are_wrong(
    five_bar: Model, five_bar_base: BaseParameters, name: str, value: float
) -> None:
    own = truth(five_bar, five_bar_base, {name: value})
    found = report_negative_values(own, five_bar_base, prior_of(five_bar, five_bar_base))
    assert [r.level for r in found] == ["error"]
    assert name in found[0].where
    assert found[0].numbers["value"] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("left.proximal.my", -0.5), ("left.distal.IzzR", -0.02), ("left.motor.fs", -0.02)],
)
def test_what_may_be_negative_or_is_by_chance_is_not_wrong(
    five_bar: Model, five_bar_base: BaseParameters, name: str, value: float
) -> None:
    """A first moment has any sign, Izz - 0.35 mx may be negative, and -0.02 +- 0.009 is within
    three sigmas.
    """
    own = truth(five_bar, five_bar_base, {name: value})
    assert report_negative_values(own, five_bar_base, prior_of(five_bar, five_bar_base)) == []


def test_few_degrees_of_freedom_ask_for_more_sigmas(
    five_bar: Model, five_bar_base: BaseParameters
) -> None:
    prior = prior_of(five_bar, five_bar_base)
    change = {"left.motor.fs": -0.054}  # six sigmas
    assert report_negative_values(truth(five_bar, five_bar_base, change), five_bar_base, prior)
    assert not report_negative_values(
        truth(five_bar, five_bar_base, change, freedom=3.0), five_bar_base, prior
    )


# -- prior


def test_values_the_file_leaves_out_have_no_prior() -> None:
    mechanism = load_robot("five_bar")
    bare = replace(
        mechanism,
        joints=tuple(
            replace(j, values={k: v for k, v in j.values.items() if k != "fs"})
            if j.name == "left.motor"
            else j
            for j in mechanism.joints
        ),
    )
    model = Model(bare)
    base = base_parameters(model)
    prior = prior_of(model, base)
    given = dict(zip(base.names, prior.given.tolist()))
    assert not given["left.motor.fs"]
    assert given["right.motor.fs"]
    assert not given_by_file(model, base.standard[base.standard.index("left.motor.fs")])
    found = warn_if_far_from_robot_file(truth(model, base, {"left.motor.fs": 100.0}), base, prior)
    assert found == []
    assert warn_if_far_from_robot_file(truth(model, base, {"right.motor.fs": 100.0}), base, prior)


def test_a_value_three_times_off_is_told(five_bar: Model, five_bar_base: BaseParameters) -> None:
    prior = prior_of(five_bar, five_bar_base)
    found = warn_if_far_from_robot_file(
        truth(five_bar, five_bar_base, {"left.motor.fs": 3.0}), five_bar_base, prior
    )
    assert [r.level for r in found] == ["warning"]
    assert found[0].numbers["ratio"] == pytest.approx(3.0 / 0.9)
    assert "left.motor.fs is 3.33 times" in found[0].text


def test_a_good_file_makes_smaller_differences_odd(
    five_bar: Model, five_bar_base: BaseParameters
) -> None:
    """All other values agree to a per cent: a mass of twice the file's is worth a look, of a poor
    file it is not.
    """
    prior = prior_of(five_bar, five_bar_base)
    assert warn_if_far_from_robot_file(
        truth(five_bar, five_bar_base, {"tool.mR": 2.0}), five_bar_base, prior
    )
    rng = np.random.default_rng(0)
    own = truth(five_bar, five_bar_base)
    rough = replace(own, values=own.values * np.exp(0.3 * rng.standard_normal(len(own))))
    changed = replace(
        rough, values=np.where(np.array(own.parameters) == "tool.mR", 2.0, rough.values)
    )
    assert warn_if_far_from_robot_file(rough, five_bar_base, prior) == []
    assert warn_if_far_from_robot_file(changed, five_bar_base, prior) == []


def test_a_poorly_determined_value_is_not_compared(
    five_bar: Model, five_bar_base: BaseParameters
) -> None:
    prior = prior_of(five_bar, five_bar_base)
    own = truth(five_bar, five_bar_base, {"left.motor.fs": 3.0})
    unsure = replace(own, covariance=own.covariance * 1e4)
    assert warn_if_far_from_robot_file(unsure, five_bar_base, prior) == []


@pytest.mark.parametrize(
    ("factor", "text", "level"),
    [
        (1000.0, "1000", "error"),
        (1e-3, "1 / 1000", "error"),
        (180 / np.pi, "180/pi", "error"),
        (-1.0, "sign", "error"),
        (2 * np.pi, "2 pi", "error"),
        (60.0, "that is 60", "error"),
        (1 / 9.81, "9.81", "error"),
        (1.1, "the robot file's", "warning"),
        (2.0, "the robot file's", "error"),
    ],
)
def test_all_values_off_by_one_factor_is_a_unit(
    five_bar: Model, five_bar_base: BaseParameters, factor: float, text: str, level: str
) -> None:
    own = truth(five_bar, five_bar_base)
    scaled = replace(own, values=own.values * factor, covariance=own.covariance * factor**2)
    found = warn_if_far_from_robot_file(scaled, five_bar_base, prior_of(five_bar, five_bar_base))
    assert [r.level for r in found] == [level]
    assert text in found[0].text
    assert found[0].numbers["factor"] == pytest.approx(factor, rel=1e-6)


def test_a_common_factor_may_be_a_drive_gain(
    five_bar: Model, five_bar_base: BaseParameters
) -> None:
    own = truth(five_bar, five_bar_base)
    scaled = replace(own, values=own.values / 37.0, covariance=own.covariance / 37.0**2)
    prior = prior_of(five_bar, five_bar_base)
    found = warn_if_far_from_robot_file(scaled, five_bar_base, prior, {"left.motor": 37.0})
    assert "1 / 37 (the drive gain)" in found[0].text
    assert "drive gain" not in warn_if_far_from_robot_file(scaled, five_bar_base, prior)[0].text


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ([2.0, 2.1, 1.9, 2.0, 2.05, 2.0], 2.0),
        ([1.0, 1.02, 0.99, 1.0, 1.01, 0.98], None),
        ([2.0, 2.1, 0.1, 7.0, 30.0, 1.0], None),
        ([2.0, -2.0, 2.0, -2.0, 2.0, -2.0], None),
        ([2.0, 2.0, 2.0], None),
        ([-1.0, -1.1, -0.9, -1.0, -1.0], -1.0),
    ],
)
def test_a_common_factor_needs_values_that_agree(
    ratio: list[float], expected: float | None
) -> None:
    names = tuple("abcdef"[: len(ratio)])
    found = common_factor(Factors(names=names, ratio=np.array(ratio), reach=np.zeros(len(ratio))))
    assert found == (None if expected is None else pytest.approx(expected, rel=0.03))


def test_the_scatter_of_a_file_is_robust() -> None:
    ratio = np.exp(0.1 * np.random.default_rng(1).standard_normal(200))
    ratio[:20] = 50.0
    middle, scatter = file_scatter(Factors(names=("n",) * 200, ratio=ratio, reach=np.zeros(200)))
    assert middle == pytest.approx(1.0, abs=0.05)
    assert scatter == pytest.approx(0.1, rel=0.3)


def test_sums_that_cancel_are_not_compared(five_bar: Model, five_bar_base: BaseParameters) -> None:
    prior = prior_of(five_bar, five_bar_base)
    names = factors(truth(five_bar, five_bar_base), five_bar_base, prior).names
    assert "left.distal.IzzR" not in names  # Izz - 0.35 mx
    assert "tool.mR" in names
    loose = Prior(values=prior.values, size=prior.size * 3, given=prior.given, lowest=prior.lowest)
    assert factors(truth(five_bar, five_bar_base), five_bar_base, loose).names == ()


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1020.0, "1000"), (1 / 57.0, "1 / 180/pi"), (3.3, None), (1.0, None), (1.05, None)],
)
def test_a_factor_near_a_unit_is_named(factor: float, expected: str | None) -> None:
    found = unit_of(factor)
    assert found is None if expected is None else found is not None and found.startswith(expected)


def test_of_two_units_that_are_close_the_nearer_is_named() -> None:
    for name, value in prior.UNIT_FACTORS.items():
        assert unit_of(value) == name
        assert unit_of(1 / value) == f"1 / {name}"


# -- data


def log(seed: int = 0, t: int = 200, source: str = "log") -> Recording:
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


def test_the_identification_log_is_found_among_the_held_out_ones() -> None:
    one, other = log(0), log(1, source="other")
    assert report_reused_logs([one], [other]) == []
    copy = replace(one, source="renamed", time=one.time + 5.0)
    found = report_reused_logs([one], [other, copy])
    assert [r.level for r in found] == ["error"]
    assert found[0].where == "renamed"


def test_a_piece_of_the_identification_log_is_found_too() -> None:
    one = log(0)
    assert report_reused_logs([log(1), one], [one.take(slice(37, 150))])
    assert report_reused_logs([one.take(slice(0, 20))], [one]) == []  # a tenth of it was seen


def test_currents_are_compared_where_there_are_no_efforts() -> None:
    one = replace(log(0), effort=None, current=log(0).effort, current_units=("A", "A"))
    other = replace(one, current=one.current + 1e-9)
    assert report_reused_logs([one], [one])
    assert report_reused_logs([one], [other]) == []


@pytest.mark.parametrize(
    ("counts", "speaks"), [((60, 55), False), ((60, 49), True), ((0, 100), True)]
)
def test_a_row_of_which_less_than_half_counts_is_told(
    counts: tuple[int, int], speaks: bool
) -> None:
    found = warn_if_few_samples_are_valid(ROWS, np.array(counts), 100)
    assert bool(found) == speaks
    if found:
        assert found[0].numbers["fraction"] == pytest.approx(min(counts) / 100)


def test_dead_and_copied_channels_are_told_of_arrays_too() -> None:
    fine = log(0)
    assert warn_about_broken_channels([fine]) == []
    dead = fine.effort.copy()
    dead[:, 1] = 0.0
    (found,) = warn_about_broken_channels([fine, replace(fine, effort=dead)])
    assert (found.rule, found.where) == ("dead", "log: b.effort")
    twin = fine.effort.copy()
    twin[:, 1] = twin[:, 0]
    assert warn_about_broken_channels([replace(fine, effort=twin)])[0].rule == "duplicated"


# -- all together


@pytest.mark.parametrize("what", ["dead", "duplicated"])
def test_arrays_with_a_broken_channel_are_named_before_they_are_fitted(
    what: str, five_bar: Model, excited: tuple[Recording, Recording]
) -> None:
    def spoiled(log: Recording) -> Recording:
        own = 0.0 if what == "dead" else log.effort[:, 1]
        return replace(
            log, effort=np.stack([np.broadcast_to(own, len(log)), log.effort[:, 1]], axis=1)
        )

    logs = [spoiled(log) for log in excited]
    if what == "dead":
        with pytest.raises(
            InvalidRecording, match=r"all \d+ samples of left.motor.effort are 0; is the channel"
        ):
            identify(five_bar, logs[:1], held_out=logs[1:])
        return
    result = identify(five_bar, logs[:1], held_out=logs[1:])
    said = [n for n in result.notices if n.rule == "duplicated"]
    assert "right.motor.effort" in said[0].where
    assert "left.motor.effort" in said[0].text
    assert "recorded twice" in said[0].advice
    assert result.level != "ok"


def test_a_clean_robot_is_good_and_keeps_its_verdict(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> None:
    result = identify(five_bar, [five_bar_log], held_out=[five_bar_other])
    assert result.level == "ok", result.summary()
    assert result.diagnosis is None
    assert result.to_dict()["level"] == "ok"
    assert result.summary().startswith("five_bar: OK - predicts the held-out log")


def test_nothing_predicted_is_not_good(five_bar: Model, five_bar_log: Recording) -> None:
    result = identify(five_bar, [five_bar_log])
    assert [n.rule for n in result.notices if n.level != "info"] == ["not validated"]
    assert result.headline == (
        "five_bar: WARNING - not validated (well conditioned; no held-out log was given)"
    )
    assert result.diagnosis is None


def test_the_identification_log_is_no_held_out_log(
    five_bar: Model, five_bar_log: Recording
) -> None:
    result = identify(five_bar, [five_bar_log], held_out=[five_bar_log])
    assert result.level == "error"
    assert "same log" in [n.rule for n in result.notices]


@pytest.mark.parametrize(
    ("ratio", "legs"),
    [
        (
            (0.85, 1 / 0.85, 0.7, 1 / 0.7, 1.0),
            ("left", "right"),
        ),  # each has the friction that the file gives the other
        ((1.01, 0.99, 1.02, 0.98, 1.0), None),
        ((0.85, 0.85, 0.7, 0.7, 1.0), None),
        ((-0.85, 1 / 0.85, 0.7, 1 / 0.7, 1.0), None),
    ],
)
def test_legs_that_have_each_others_values_are_told(
    ratio: tuple[float, ...], legs: tuple[str, str] | None
) -> None:
    names = ("left.slide.fv", "right.slide.fv", "left.slide.fs", "right.slide.fs", "tool.m")
    file = dict(zip(names, (2000.0, 1700.0, 700.0, 490.0, 1500.0)))
    found = Factors(names=names, ratio=np.array(ratio), reach=np.full(5, 0.01))
    assert exchanged_legs(found, file) == legs
    assert exchanged_legs(replace(found, reach=np.full(5, 0.5)), file) is None  # noise says as much
    assert exchanged_legs(replace(found, names=tuple(f"a{k}.m" for k in range(5))), file) is None
