"""Parameters fixed and bounded by name, against least squares under the same constraints."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import gough
from gough.core.errors import InvalidInput
from gough.core.parameters import BaseParameters
from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression
from gough.identification.parameter_constraints import constrained

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
    found = constrained(white(regression), regression, base(), {"a.motor.fs": 1.7}, {})
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
    found = constrained(white(regression), regression, base(), {}, bounds)
    low = [1.5, -np.inf, 0.0, -1.0]
    high = [2.0, np.inf, np.inf, 5.0]
    expected = lsq_linear(regression.regressor[:, 0, :], regression.effort[:, 0], (low, high)).x
    assert found.values == pytest.approx(expected, rel=1e-6, abs=1e-9)
    (notice,) = [each for each in found.notices if each.rule == "bounds"]
    assert notice.where == "a.motor.fv, a.arm.mx"


@pytest.mark.parametrize(
    ("fixed", "bounds", "message"),
    [
        ({"a.arm.m": 1.2}, {}, r"'a\.arm\.m' acts on the efforts only together.*a\.arm\.IzzR = "),
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
    log = gough.record(gough.simulate("five_bar", plan, periods=3), seed=1)
    free = gough.identify("five_bar", log)
    name = next(str(name) for name in free.params if name.endswith(".fv"))
    other = next(str(name) for name in free.params if name.endswith(".fs"))
    low = free.params[other] + 2 * free.bse[other]
    value = free.params[name] + 3 * free.bse[name]
    found = gough.identify("five_bar", log, fixed={name: value}, bounds={other: (low, np.inf)})
    assert found.params[name] == pytest.approx(value)
    assert found.bse[name] == 0.0
    assert found.params[other] >= low * (1 - 1e-9)
    assert {"fixed", "bounds"} <= {notice.rule for notice in found.notices}
    assert found.estimate.residual_rms.sum() > free.estimate.residual_rms.sum()
    with pytest.raises(InvalidInput, match="fixed and bounded in one linear fit"):
        gough.identify("five_bar", log, estimator="all", fixed={name: value})


def test_bounds_are_written_with_a_colon_on_the_command_line() -> None:
    from gough.app.cli.verb_commands import parse_cli_value
    from gough.app.studies.verbs import step_type
    from gough.core.options import options_of

    options = options_of(step_type("identify"))
    given = parse_cli_value(options["bounds"], ["a.fs=0:inf", "b.fv=-1:2"])
    assert options["bounds"].read(given) == {"a.fs": (0.0, np.inf), "b.fv": (-1.0, 2.0)}
    assert parse_cli_value(options["fixed"], ["a.fs=1.5"]) == {"a.fs": 1.5}
    with pytest.raises(InvalidInput, match="name=low:high"):
        parse_cli_value(options["bounds"], ["a.fs=3"])
