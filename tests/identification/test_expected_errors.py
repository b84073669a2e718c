"""Predicted standard errors beside the scatter of estimates from repeated logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gough.core.arrays import FloatArray
from gough.engine import Model, base_parameters
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.regression import Regression
from gough.identification.expected_errors import _white_errors, expected_errors
from gough.identification.experiment import prepare
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.virtual.planned_log import planned_log
from tests_support import fourier, model_of


def repeated(model: Model, *, periodic: bool, periods: int) -> Callable[[int], Recording]:
    """Return logs of one motion by seed, with or without its period declared."""
    trajectory = fourier(model, 0.4, 0.5, harmonics=5)

    def log(seed: int) -> Recording:
        recording = planned_log(model, trajectory, periods, seed)
        return recording if periodic else replace(recording, period_samples=None)

    return log


def scatter(
    model: Model, log: Callable[[int], Recording], count: int, processing: Processing
) -> FloatArray:
    """Return the standard deviation of the estimates of repeated logs, processed alike, (b,)."""
    base = base_parameters(model)
    estimates = []
    for seed in range(count):
        experiment = prepare(model, [log(seed)], base, processing=processing)
        estimates.append(GaussMarkov().fit(experiment.problem).values)
    return np.std(estimates, axis=0, ddof=1)


def ratio_to_scatter(model: Model, log: Callable[[int], Recording], count: int) -> float:
    """Return predicted standard error over scatter, the median over the parameters."""
    processing = prepare(model, [log(count)], base_parameters(model)).processing
    expected = expected_errors(model, log(count), processing=processing)
    return float(np.median(expected.std / scatter(model, log, count, processing)))


def test_predicted_errors_are_the_scatter_of_repeated_logs(five_bar: Model) -> None:
    """The scatter of each parameter is known to 13 % from 30 logs; three more cases are long."""
    log = repeated(five_bar, periodic=True, periods=3)
    assert 0.8 < ratio_to_scatter(five_bar, log, 30) < 1.25


@pytest.mark.long
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("robot", ["five_bar", "delta"])
def test_predicted_errors_hold_over_many_logs(robot: str, periodic: bool) -> None:
    model = model_of(robot)
    log = repeated(model, periodic=periodic, periods=5)
    assert 0.8 < ratio_to_scatter(model, log, 60) < 1.25


def test_a_log_of_currents_shows_as_much_as_one_of_efforts(five_bar: Model) -> None:
    log = planned_log(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), 3)
    joints = []
    for joint in five_bar.mechanism.joints:
        joints.append(replace(joint, gain=2.0) if joint.actuated else joint)
    driven = Model(replace(five_bar.mechanism, joints=tuple(joints)))
    assert log.effort is not None
    currents = replace(log, effort=None, current=log.effort / 2, current_units=("A", "A"))
    expected = expected_errors(driven, currents)
    np.testing.assert_allclose(expected.std, expected_errors(five_bar, log).std, rtol=1e-6)


def test_more_periods_are_better_by_their_root(five_bar: Model) -> None:
    trajectory = fourier(five_bar, 0.4, 0.5, harmonics=5)
    few = expected_errors(five_bar, planned_log(five_bar, trajectory, 3))
    many = expected_errors(five_bar, planned_log(five_bar, trajectory, 12))
    assert np.median(few.std / many.std) == pytest.approx(2.0, rel=0.15)
    json.dumps(few.to_dict(), allow_nan=False)
    assert few.headline in few.summary()


def test_a_planned_log_is_the_one_of_the_simulation(
    five_bar: Model, five_bar_log: Recording
) -> None:
    """The closed loop follows the same trajectory: the predictions agree."""
    trajectory = fourier(five_bar, 0.4, 0.5, harmonics=5)
    processing = prepare(five_bar, [five_bar_log], base_parameters(five_bar)).processing
    recorded = expected_errors(five_bar, five_bar_log, processing=processing)
    log = planned_log(five_bar, trajectory, 5)
    planned = expected_errors(five_bar, log, processing=processing)
    assert np.median(planned.std / recorded.std) == pytest.approx(1.0, abs=0.1)
    assert recorded.periods == 5
    assert recorded.samples == len(five_bar_log)


def test_a_motion_that_shows_little_is_warned_of(five_bar: Model) -> None:
    small = planned_log(five_bar, fourier(five_bar, 0.002, 0.5, harmonics=5), 3)
    expected = expected_errors(five_bar, small)
    assert expected.level == "warning"
    assert expected.notices[0].rule == "condition number"


def test_a_parameter_that_is_not_observed_has_no_standard_error() -> None:
    """Of a + b and b, two equal columns show the sum only."""
    column = np.random.default_rng(0).standard_normal((50, 1))
    regressor = np.concatenate([column, column, column**2], axis=1)[:, None, :]
    block = Regression(
        parameters=("a.m", "b.m", "c.m"),
        units=("kg",) * 3,
        rows=("x",),
        row_units=("N",),
        regressor=regressor,
        effort=np.zeros((50, 1)),
    )
    std, condition = _white_errors(block)
    assert np.isinf(std[:2]).all()
    assert std[2] == pytest.approx(1 / np.linalg.norm(orthogonal(column**2, column)))
    assert condition > 1e10


def orthogonal(vector: FloatArray, other: FloatArray) -> FloatArray:
    """Return what is orthogonal to another vector."""
    return vector - other * (other.T @ vector) / (other.T @ other)
