"""Regressions by the trajectory: derivatives of the efforts are those of the efforts, inside the
dead band too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.engine import Model, base_parameters
from gough.identification.experiment import prepare
from gough.identification.likelihood import averaged_period
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.likelihood_models import TrajectoryFamily


@pytest.fixture(scope="module")
def family(five_bar: Model, five_bar_log: Recording) -> TrajectoryFamily:
    base = base_parameters(five_bar)
    experiment = prepare(
        five_bar, [five_bar_log], base, processing=Processing(window=0.0, dead_band=0.2)
    )
    period = averaged_period(five_bar, experiment.processed, base)
    done = replace(period.processed, valid=np.ones_like(period.processed.valid))
    return TrajectoryFamily(period=replace(period, processed=done), harmonics=5)


def test_the_derivative_of_friction_is_that_of_the_friction_that_is_fitted(
    family: TrajectoryFamily,
) -> None:
    z = family.start()
    problem = family.regression(z)
    values = np.array([3.0 if name.kind == "fs" else 0.0 for name in problem.parameters])
    jacobian, h = family.effort_jacobian(z, values), 1e-7
    assert np.abs(jacobian).max() > 1
    for k in range(0, len(z), 5):
        step = h * (np.arange(len(z)) == k)
        ahead, back = (family.regression(z + s).regressor @ values for s in (step, -step))
        numeric = (ahead - back) / (2 * h)
        wrong = np.abs(numeric - jacobian[:, :, k]) > 1e-5 * max(1.0, np.abs(numeric).max())
        assert wrong.mean() < 0.01  # only where a step leaves the band


def test_known_signs_of_friction_stay_while_the_trajectory_varies(
    five_bar: Model, five_bar_log: Recording
) -> None:
    """A sample that passes the edge of a dead band would be a kink of the likelihood, and its
    local minimum.
    """
    base = base_parameters(five_bar)
    experiment = prepare(
        five_bar, [five_bar_log], base, processing=Processing(window=0.0, dead_band=0.2)
    )
    period = averaged_period(five_bar, experiment.processed, base)
    family = TrajectoryFamily(period=period, harmonics=5)
    recorded, start = period.processed.motion, family.start()
    rng = np.random.default_rng(0)
    moved = start + 5e-4 * rng.standard_normal(len(start))
    problem = family.regression(moved)
    crossed = 0
    for row, name in enumerate(problem.rows):
        joint = five_bar.mechanism.coordinates.index(name)
        speed = family.motion(moved).qd[:, joint]
        valid = period.processed.valid[:, row]
        crossed += int((np.abs(speed[valid]) < 0.2).sum())
        column = problem.regressor[valid, row, problem.parameters.index(f"{name}.fs")]
        np.testing.assert_array_equal(column, np.sign(recorded.qd[valid, joint]))
    assert crossed > 5
