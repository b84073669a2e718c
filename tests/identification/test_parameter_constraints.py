"""Parameters fixed, tied and bounded by name, against least squares under the same constraints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import gough
from gough.core.errors import InvalidInput
from gough.core.parameters import BaseParameters
from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression
from gough.identification.parameter_constraints import constrained, split_combinations

NAMES = ("a.arm.mx", "a.arm.IzzR", "a.motor.fv", "a.motor.fs")
UNITS = ("kg m", "kg m2", "N m s/rad", "N m")
STANDARD = ("a.arm.mx", "a.arm.Izz", "a.arm.m", "a.motor.fv", "a.motor.fs")
MATRIX = np.array([[1, 0, 0, 0, 0], [0, 1, 0.25, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1.0]])
TRUTH = np.array([1.0, 0.5, -0.2, 2.0])


def problem() -> Regression:
    rng = np.random.default_rng(3)
    regressor = rng.standard_normal((300, 1, 4))
    regressor[:, :, 2] += 0.8 * regressor[:, :, 3]
    effort = regressor @ TRUTH + 0.3 * rng.standard_normal((300, 1))
    return Regression(
        regressor=regressor,
        effort=effort,
        parameters=NAMES,
        units=UNITS,
        rows=("a.motor",),
        row_units=("N m",),
    )


def base() -> BaseParameters:
    return BaseParameters(
        names=NAMES,
        units=UNITS,
        standard=STANDARD,
        matrix=MATRIX,
        independent=(0, 1, 3, 4),
        singular_values=np.array([3.0, 2.0, 1.0, 0.5, 0.0]),
        tolerance=1e-8,
    )


def white(regression: Regression):
    """Return the estimate with the covariance of white noise, for which the formulas are exact."""
    from dataclasses import replace

    estimate = LeastSquares().fit(regression)
    matrix = regression.regressor[:, 0, :]
    return replace(estimate, covariance=0.09 * np.linalg.inv(matrix.T @ matrix))


def test_fixed_parameters_are_those_of_least_squares_without_their_columns() -> None:
    regression = problem()
    found = constrained(white(regression), regression, base(), {"a.motor.fs": 1.7}, {}).estimate
    matrix = regression.regressor[:, 0, :3]
    effort = regression.effort[:, 0] - 1.7 * regression.regressor[:, 0, 3]
    expected = np.linalg.lstsq(matrix, effort, rcond=None)[0]
    assert found.values == pytest.approx([*expected, 1.7], rel=1e-9)
    assert found.std[3] == 0.0
    covariance = 0.09 * np.linalg.inv(matrix.T @ matrix)
    assert found.covariance[:3, :3] == pytest.approx(covariance, rel=1e-8)
    residual = effort - matrix @ expected
    assert found.residual_rms[0] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-9)


def test_bounded_parameters_are_those_of_bounded_least_squares() -> None:
    regression = problem()
    bounds = {"a.motor.fv": (0.0, np.inf), "a.motor.fs": (-1.0, 5.0), "a.arm.mx": (1.5, 2.0)}
    found = constrained(white(regression), regression, base(), {}, bounds).estimate
    low = [1.5, -np.inf, 0.0, -1.0]
    high = [2.0, np.inf, np.inf, 5.0]
    expected = lsq_linear(regression.regressor[:, 0, :], regression.effort[:, 0], (low, high)).x
    assert found.values == pytest.approx(expected, rel=1e-6, abs=1e-9)
    (notice,) = [each for each in found.notices if each.rule == "bounds"]
    assert notice.where == "a.motor.fv, a.arm.mx"


def test_a_fixed_member_of_a_combination_changes_no_prediction_and_gives_the_other() -> None:
    regression = problem()
    free = white(regression)
    found = constrained(free, regression, base(), {"a.arm.m": 1.2}, {})
    assert np.array_equal(found.estimate.values, free.values)
    assert np.array_equal(found.estimate.covariance, free.covariance)
    assert found.derived.names == ("a.arm.Izz",)
    assert found.derived.units == ("kg m2",)
    assert found.derived["a.arm.Izz"] == pytest.approx(free.params["a.arm.IzzR"] - 0.25 * 1.2)
    assert found.derived.std == pytest.approx([free.bse["a.arm.IzzR"]])
    rules = {notice.rule: notice.text for notice in found.estimate.notices}
    assert "no prediction changes" in rules["fixed"]
    assert "a.arm.Izz = " in rules["derived"]
    standard = split_combinations(base(), found.estimate.values, found.stated)
    assert standard[2] == pytest.approx(1.2)
    assert base().values(standard) == pytest.approx(found.estimate.values)


def test_all_members_of_a_combination_that_are_fixed_fix_the_combination() -> None:
    regression = problem()
    members = {"a.arm.m": 1.2, "a.arm.Izz": 0.1}
    found = constrained(white(regression), regression, base(), members, {})
    expected = constrained(white(regression), regression, base(), {"a.arm.IzzR": 0.4}, {})
    assert found.estimate.values == pytest.approx(expected.estimate.values, rel=1e-9)
    assert found.estimate.covariance == pytest.approx(expected.estimate.covariance, abs=1e-15)
    assert found.estimate.params["a.arm.IzzR"] == pytest.approx(0.4)
    assert len(found.derived) == 0


def test_tied_parameters_are_those_of_least_squares_with_a_common_column() -> None:
    regression = problem()
    tied = {"a.motor.fs": "-2.5 * a.motor.fv"}
    found = constrained(white(regression), regression, base(), {}, {}, tied).estimate
    columns = regression.regressor[:, 0, :]
    matrix = np.column_stack([columns[:, :2], columns[:, 2] - 2.5 * columns[:, 3]])
    expected = np.linalg.lstsq(matrix, regression.effort[:, 0], rcond=None)[0]
    assert found.values == pytest.approx([*expected, -2.5 * expected[2]], rel=1e-9)
    covariance = 0.09 * np.linalg.inv(matrix.T @ matrix)
    assert found.covariance[:3, :3] == pytest.approx(covariance, rel=1e-8)


def test_tied_members_of_a_combination_follow_from_it() -> None:
    regression = problem()
    free = white(regression)
    found = constrained(free, regression, base(), {}, {}, {"a.arm.Izz": "0.15 a.arm.m"})
    mass = free.params["a.arm.IzzR"] / (0.25 + 0.15)
    assert found.derived["a.arm.m"] == pytest.approx(mass)
    assert found.derived["a.arm.Izz"] == pytest.approx(0.15 * mass)


def test_a_stated_equation_of_three_parameters_leaves_the_correlation_of_the_others() -> None:
    regression = problem()
    tied = {"a.arm.m": "2 * a.arm.mx", "a.arm.Izz": "-0.1 * a.motor.fv"}
    found = constrained(white(regression), regression, base(), {}, {}, tied).estimate
    assert len(found.dependent) == 1
    others = [name for name in NAMES if name not in found.dependent]
    alone = found.select(others)
    expected = np.linalg.cond(alone.correlation)
    assert found.correlation_condition == pytest.approx(expected, rel=1e-9)
    assert expected < 100
    assert not alone.dependent


def test_a_member_of_a_combination_is_bounded_once_the_others_are_fixed() -> None:
    regression = problem()
    limit = TRUTH[1] - 0.25 * 1.2 + 0.1  # above the estimate
    bounds = {"a.arm.Izz": (limit, np.inf)}
    found = constrained(white(regression), regression, base(), {"a.arm.m": 1.2}, bounds)
    expected = constrained(
        white(regression), regression, base(), {"a.arm.IzzR": limit + 0.25 * 1.2}, {}
    )
    assert found.estimate.values == pytest.approx(expected.estimate.values, rel=1e-7)
    assert found.derived["a.arm.Izz"] == pytest.approx(limit)


def test_stated_values_that_contradict_each_other_are_refused() -> None:
    regression = problem()
    fixed = {"a.motor.fv": 1.0, "a.motor.fs": 2.0}
    with pytest.raises(InvalidInput, match="contradict each other"):
        constrained(white(regression), regression, base(), fixed, {}, {"a.motor.fs": "a.motor.fv"})
    agreeing = {"a.motor.fs": "2 a.motor.fv"}
    found = constrained(white(regression), regression, base(), fixed, {}, agreeing).estimate
    assert found.params["a.motor.fs"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("fixed", "bounds", "message"),
    [
        (
            {},
            {"a.arm.m": (0, 1)},
            r"'a\.arm\.m' acts on the efforts only together.*a\.arm\.IzzR = ",
        ),
        ({"a.motor.fx": 1.2}, {}, r"no parameter 'a\.motor\.fx'"),
        ({"a.motor.fs": 1.0}, {"a.motor.fs": (0.0, 2.0)}, "both fixed and bounded"),
        ({}, {"a.motor.fs": (2.0, 1.0)}, "lower one below a higher one"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(fixed, bounds, message) -> None:
    regression = problem()
    with pytest.raises(InvalidInput, match=message):
        constrained(white(regression), regression, base(), fixed, bounds)


def test_an_identification_keeps_fixed_and_bounded_parameters() -> None:
    plan = gough.design("five_bar", frequency=0.5, starts=1, iterations=5, harmonics=2)
    run = gough.simulate("five_bar", plan, periods=3)
    log = gough.record(run, seed=1)
    free = gough.identify("five_bar", log)
    name = next(str(name) for name in free.params if name.endswith(".fv"))
    other = next(str(name) for name in free.params if name.endswith(".fs"))
    low = free.params[other] + 2 * free.bse[other]
    value = free.params[name] + 3 * free.bse[name]
    found = gough.identify(
        "five_bar",
        log,
        held_out=gough.record(run, seed=2),
        fixed={name: value},
        bounds={other: (low, np.inf)},
    )
    assert found.params[name] == pytest.approx(value)
    assert found.bse[name] == 0.0
    assert found.params[other] >= low * (1 - 1e-9)
    assert {"fixed", "bounds"} <= {notice.rule for notice in found.notices}
    assert found.estimate.residual_rms.sum() > free.estimate.residual_rms.sum()
    with pytest.raises(InvalidInput, match="fixed, tied and bounded in one linear fit"):
        gough.identify("five_bar", log, estimator="all", fixed={name: value})


def test_an_identification_divides_combinations_by_stated_members(tmp_path: Path) -> None:
    model = gough.Model(gough.load_robot("five_bar"))
    plan = gough.design(model, frequency=0.5, starts=1, iterations=5, harmonics=2)
    log = gough.record(gough.simulate(model, plan, periods=3), seed=1)
    moments = {"left.distal.mx": 0.01, "right.distal.mx": 0.02}
    tied = {"right.motor.fv": "left.motor.fv"}
    found = gough.identify(model, log, fixed=moments, tied=tied)
    assert {"tool.m", "left.distal.Izz", "right.distal.Izz"} == set(found.derived.names)
    params = found.params
    assert params["right.motor.fv"] == pytest.approx(params["left.motor.fv"])
    pairs = [notice.where for notice in found.estimate.parameter_notices]
    assert not any("left.motor.fv and right.motor.fv" in pair for pair in pairs)
    assert found.estimate.correlation_condition < 1e9
    assert found.derived["tool.m"] == pytest.approx(params["tool.mR"] - 0.03 / 0.35)
    assert found.to_dict()["derived"]["tool.m"]["unit"] == "kg"
    standard = dict(zip(model.mechanism.standard.names, found.standard(model)))
    assert standard["right.distal.mx"] == pytest.approx(0.02)
    assert standard["tool.m"] == pytest.approx(found.derived["tool.m"])
    expected = [params[name] for name in found.base.names]
    in_order = [standard[name] for name in found.base.standard]
    assert found.base.values(in_order) == pytest.approx(expected, rel=1e-9)
    found.save(tmp_path)
    stored = gough.load_identification(tmp_path)
    assert stored.derived.as_dict() == found.derived.as_dict()
    assert np.array_equal(stored.standard(model), found.standard(model))


def test_bounds_are_written_with_a_colon_on_the_command_line() -> None:
    from gough.app.cli.verb_commands import parse_cli_value
    from gough.app.studies.verbs import step_type
    from gough.core.options import options_of

    options = options_of(step_type("identify"))
    given = parse_cli_value(options["bounds"], ["a.fs=0:inf", "b.fv=-1:2"])
    assert options["bounds"].read(given) == {"a.fs": (0.0, np.inf), "b.fv": (-1.0, 2.0)}
    assert parse_cli_value(options["fixed"], ["a.fs=1.5"]) == {"a.fs": 1.5}
    given = parse_cli_value(options["tied"], ["a.fs=b.fs,a.fv=0.5*b.fv"])
    assert options["tied"].read(given) == {"a.fs": "b.fs", "a.fv": "0.5*b.fv"}
    with pytest.raises(InvalidInput, match="name=other"):
        parse_cli_value(options["tied"], ["a.fs"])
    with pytest.raises(InvalidInput, match="name=low:high"):
        parse_cli_value(options["bounds"], ["a.fs=3"])
