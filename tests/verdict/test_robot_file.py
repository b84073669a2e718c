"""Values that no robot has, and agreement with the robot file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.problems import stated_uncertainty
from gough.mechanism import load_robot
from gough.verdict.robot_file import (
    FileRatios,
    Prior,
    effort_of,
    file_ratios,
    given_by_file,
    negative_value_notices,
    prior_of,
    robot_file_notices,
)


@pytest.fixture(scope="module")
def base(five_bar: Model) -> BaseParameters:
    return base_parameters(five_bar)


@pytest.fixture(scope="module")
def prior(five_bar: Model, base: BaseParameters) -> Prior:
    return prior_of(five_bar, base)


def made_estimate(
    model: Model,
    base: BaseParameters,
    changes: dict[str, float] | None = None,
    *,
    relative_error: float = 0.01,
    freedom: float = 100.0,
) -> Estimate:
    """The robot file's own values with standard errors of 1 %, some of them changed."""
    values = base.values(model.values(base.standard))
    std = relative_error * np.maximum(np.abs(values), 0.01)
    for name, value in (changes or {}).items():
        values[list(base.names).index(name)] = value
    return Estimate(
        parameters=base.names,
        units=base.units,
        values=values,
        covariance=np.diag(std**2),
        rows=("a", "b"),
        row_units=("N", "N"),
        residual_rms=np.full(2, 0.1),
        residual_relative=np.full(2, 0.01),
        samples=100,
        degrees_of_freedom=freedom,
        condition_number=10.0,
        method="test",
        uncertainty="white",
    )


def one_column(name: str, column: float = 1.0) -> Regression:
    """A parameter that causes an effort of 1 (times `column`) of one row."""
    return Regression(
        regressor=np.full((10, 1, 1), column),
        effort=np.ones((10, 1)),
        rows=("a",),
        row_units=("N",),
        parameters=(name,),
        units=("kg",),
    )


def negative(
    model: Model, base: BaseParameters, prior: Prior, name: str, value: float, **options: float
) -> list[Notice]:
    estimate = made_estimate(model, base, {name: value}, **options)
    return negative_value_notices(estimate, base, prior, one_column(name))


# -- values that no robot has


def test_the_files_own_values_are_possible_and_agree(
    five_bar: Model, base: BaseParameters, prior: Prior
) -> None:
    estimate = made_estimate(five_bar, base)
    assert negative_value_notices(estimate, base, prior, one_column("tool.mR")) == []
    (notice,) = robot_file_notices(file_ratios(estimate, base, prior))
    assert notice.level == "info"
    assert "agree with the robot file" in notice.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left.motor.fs", -0.1),
        ("right.motor.fv", -0.01),
        ("tool.mR", -0.07),
        ("left.proximal.IzzR", -0.1),
    ],
)
def test_negative_masses_inertias_and_friction_are_errors(
    five_bar: Model, base: BaseParameters, prior: Prior, name: str, value: float
) -> None:
    (notice,) = negative(five_bar, base, prior, name, value)
    assert notice.level == "error"
    assert name in notice.where
    assert notice.numbers["value"] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("left.proximal.my", -0.5), ("left.distal.IzzR", -0.02), ("left.motor.fs", -0.02)],
)
def test_what_may_be_negative_or_is_by_chance_is_no_error(
    five_bar: Model, base: BaseParameters, prior: Prior, name: str, value: float
) -> None:
    """A first moment has any sign, Izz - 0.35 mx may be negative, -0.02 +- 0.009 is chance."""
    assert negative(five_bar, base, prior, name, value) == []


def test_few_degrees_of_freedom_ask_for_more_standard_errors(
    five_bar: Model, base: BaseParameters, prior: Prior
) -> None:
    value = -0.054  # six standard errors
    assert negative(five_bar, base, prior, "left.motor.fs", value)
    assert not negative(five_bar, base, prior, "left.motor.fs", value, freedom=3.0)


@pytest.mark.parametrize(("column", "matters"), [(0.04, False), (0.06, True)])
def test_a_negative_value_has_to_matter_to_an_effort(
    five_bar: Model, base: BaseParameters, prior: Prior, column: float, matters: bool
) -> None:
    """-0.1 times a column of 0.04 is 0.4 % of the effort."""
    name = "left.motor.fs"
    problem = one_column(name, column)
    assert effort_of(problem, base.names[list(base.names).index(name)], 0.1) == matters
    estimate = made_estimate(five_bar, base, {name: -0.1})
    assert bool(negative_value_notices(estimate, base, prior, problem)) == matters


@pytest.mark.parametrize(("ratio", "judged"), [(2.0, False), (20.0, True)])
def test_a_value_that_is_mostly_position_noise_is_not_judged(
    five_bar: Model, base: BaseParameters, prior: Prior, ratio: float, judged: bool
) -> None:
    name = "left.motor.fs"
    estimate = made_estimate(five_bar, base, {name: -0.1})
    information = np.full(len(estimate), 1e3)
    information[list(base.names).index(name)] = ratio
    estimate = replace(estimate, information=information)
    assert bool(negative_value_notices(estimate, base, prior, one_column(name))) == judged


@pytest.mark.parametrize("possible", [True, False])
def test_a_regrouped_inertia_is_negative_if_no_bodies_have_it(
    five_bar: Model, base: BaseParameters, prior: Prior, possible: bool
) -> None:
    """A rod 15 times as heavy as in the file can be, and no friction is negative.

    The rod's regrouped inertia Izz - 0.35 mx is then below what twice the file's values give.
    """
    true = dict(zip(base.standard, five_bar.values(base.standard).tolist()))
    for name, number in true.items():
        if name.owner == "left.distal":
            true[name] = 15 * number
    values = base.values(np.array(list(true.values())))
    if not possible:
        values = values.copy()
        values[list(base.names).index("left.motor.fs")] = -0.5
    changes = dict(zip(base.names, values.tolist()))
    estimate = made_estimate(five_bar, base, changes)
    rng = np.random.default_rng(0)
    regressor = rng.standard_normal((300, 2, len(base.names)))
    problem = Regression(
        regressor=regressor,
        effort=regressor @ values,
        rows=("left.motor", "right.motor"),
        row_units=("N m", "N m"),
        parameters=base.names,
        units=base.units,
    )
    (notice, *_) = negative_value_notices(estimate, base, prior, problem)
    if possible:  # a difference of inertias can be negative, but not so far
        assert "cannot be negative" not in notice.text
        assert "is below -0." in notice.text
    assert bool(negative_value_notices(estimate, base, prior, problem, five_bar)) != possible


# -- agreement with the file


@pytest.mark.parametrize("factor", [1000.0, 2.0, 1.1, 0.01])
def test_a_common_factor_is_information_only(
    five_bar: Model, base: BaseParameters, prior: Prior, factor: float
) -> None:
    estimate = made_estimate(five_bar, base)
    scaled = replace(
        estimate, values=factor * estimate.values, covariance=factor**2 * estimate.covariance
    )
    (notice,) = robot_file_notices(file_ratios(scaled, base, prior))
    assert (notice.rule, notice.level) == ("robot file", "info")
    assert notice.numbers["factor"] == pytest.approx(factor)
    assert "cannot tell a heavier robot from a wrong drive gain" in notice.text


def test_a_single_value_far_off_is_no_warning_where_the_file_states_nothing(
    five_bar: Model, base: BaseParameters, prior: Prior
) -> None:
    estimate = made_estimate(five_bar, base, {"left.motor.fs": 3.0})
    (notice,) = robot_file_notices(file_ratios(estimate, base, prior))
    assert notice.level == "info"


def with_uncertainty(*patterns: tuple[str, float]) -> Model:
    return Model(replace(load_robot("five_bar"), uncertainty=patterns))


@pytest.mark.parametrize(
    ("patterns", "level"),
    [
        ((("*", 0.5),), "info"),  # 1.33 times the value is 0.67 standard deviations off
        ((("*", 0.05),), "warning"),
        ((("*", 0.05), ("left.motor.fs", 0.5)), "info"),  # the last pattern counts
        ((("tool.m", 0.05),), "info"),  # it says nothing of friction
    ],
)
def test_a_value_beyond_the_stated_uncertainty_is_a_warning(
    patterns: tuple[tuple[str, float], ...], level: str
) -> None:
    model = with_uncertainty(*patterns)
    base = base_parameters(model)
    estimate = made_estimate(model, base, {"left.motor.fs": 1.2})
    (notice,) = robot_file_notices(file_ratios(estimate, base, prior_of(model, base)))
    assert notice.level == level
    if level == "warning":
        assert notice.where == "left.motor.fs"
        assert notice.numbers["ratio"] == pytest.approx(1.2 / 0.9)
        assert "states an uncertainty of 5 %" in notice.text


def test_the_odds_against_the_file_are_a_thousand_to_one() -> None:
    """Ten values with a stated uncertainty of 10 %: 3.9 standard deviations are 1e-4 each."""

    def level(deviations: float) -> str:
        ratio = np.ones(10)
        ratio[3] += 0.1 * deviations
        ratios = FileRatios(
            names=tuple(f"b{k}.m" for k in range(10)),  # type: ignore[arg-type]
            ratio=ratio,
            relative_error=np.zeros(10),
            stated=np.full(10, 0.1),
        )
        return robot_file_notices(ratios)[0].level

    assert level(3.85) == "info"
    assert level(3.95) == "warning"


def test_the_stated_uncertainty_of_a_sum_adds_in_squares() -> None:
    model = with_uncertainty(("*", 0.1))
    base = base_parameters(model)
    contributions = base.matrix * model.values(base.standard)
    expected = 0.1 * np.sqrt((contributions**2).sum(axis=1))
    np.testing.assert_allclose(prior_of(model, base).std, expected)
    assert stated_uncertainty(model, base.standard[0]) == 0.1


def test_values_that_the_file_leaves_out_are_not_compared() -> None:
    mechanism = load_robot("five_bar")
    joints = []
    for joint in mechanism.joints:
        if joint.name == "left.motor":
            values = {kind: value for kind, value in joint.values.items() if kind != "fs"}
            joint = replace(joint, values=values)
        joints.append(joint)
    model = Model(replace(mechanism, joints=tuple(joints)))
    base = base_parameters(model)
    prior = prior_of(model, base)
    given = dict(zip(base.names, prior.given.tolist()))
    assert not given["left.motor.fs"]
    assert given["right.motor.fs"]
    assert not given_by_file(model, base.standard[base.standard.index("left.motor.fs")])
    names = file_ratios(made_estimate(model, base, {"left.motor.fs": 1.0}), base, prior).names
    assert "left.motor.fs" not in names
    assert "right.motor.fs" in names


def test_differences_of_large_contributions_are_not_compared(
    five_bar: Model, base: BaseParameters, prior: Prior
) -> None:
    names = file_ratios(made_estimate(five_bar, base), base, prior).names
    assert "left.distal.IzzR" not in names  # Izz - 0.35 mx
    assert "tool.mR" in names
    poor = made_estimate(five_bar, base, relative_error=0.2)
    assert file_ratios(poor, base, prior).names == ()
