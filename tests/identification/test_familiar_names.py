"""Names and tables that users of statsmodels, pandas and Rich expect."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import gough
from gough.excitation import DesignSettings, design


@pytest.fixture(scope="module")
def plan():
    settings = DesignSettings(frequency=0.5, starts=1, iterations=5, harmonics=2)
    return design("five_bar", settings)


@pytest.fixture(scope="module")
def log(plan):
    return gough.record(gough.simulate("five_bar", plan, periods=3), seed=1)


@pytest.fixture(scope="module")
def result(log):
    return gough.identify("five_bar", log, held_out=None, loaded=None)


def test_values_errors_and_intervals_are_found_by_name(result) -> None:
    estimate = result.estimate
    assert list(result.params) == list(estimate.parameters)
    assert list(result.params.values()) == estimate.values.tolist()
    assert list(result.bse.values()) == estimate.std.tolist()
    for name, (low, high) in result.conf_int(0.9).items():
        assert low < result.params[name] < high
    assert np.array(list(result.conf_int(0.9).values())) == pytest.approx(estimate.interval(0.9))


def test_residuals_are_measured_minus_predicted(result) -> None:
    (fit,) = result.fits
    (resid,) = result.resid.values()
    assert np.array_equal(resid, fit.measured - fit.predicted)


def test_a_design_is_run_as_its_trajectory_is(plan, log) -> None:
    by_trajectory = gough.record(gough.simulate("five_bar", plan.trajectory, periods=3), seed=1)
    assert np.array_equal(by_trajectory.position, log.position)


def test_parameters_are_listed_by_name(result) -> None:
    standard = gough.load_robot("five_bar").standard
    assert list(standard) == list(standard.names)
    assert standard.names[0] in standard
    assert "left.nothing.m" not in standard
    assert list(result.estimate) == list(result.estimate.parameters)


def shown(thing: object) -> str:
    """Return what `rich.print` writes."""
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(thing)
    return console.file.getvalue()


def test_robots_designs_and_validations_are_tables(plan, result) -> None:
    robot = gough.load_robot("five_bar")
    cases = [
        (robot, "left.motor"),
        (gough.Model(robot), "task coordinate"),
        (plan, "position of 'left.motor'"),
        (result.validation, "right.motor"),
    ]
    for thing, word in cases:
        assert word.replace("'", "&#x27;") in thing._repr_html_()
        assert "<td>" in thing._repr_html_()
        assert word in shown(thing)


def test_brackets_in_tables_are_no_markup(plan) -> None:
    assert "in [" in shown(plan)
