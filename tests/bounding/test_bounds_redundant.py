"""Boxes of a robot with more motors than degrees of freedom: the bound is on each motor, rows add
several of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.bounding.bounds import bounded_problem, bounds
from gough.engine import Model, base_parameters
from gough.logs.recording import Recording
from gough.mechanism.types import Noise
from gough.virtual import record, simulate
from tests_support import fourier, model_of

BOUND = 0.3  # [N m]


@pytest.fixture(scope="module")
def robot() -> Model:
    return model_of("redundant")


@pytest.fixture(scope="module")
def log(robot: Model) -> Recording:
    """Errors as large as the bound allows, all motors off in the same direction half of the
    time. Steps are fine: without noise all harmonics are kept, and accelerations that jump
    from one sample to the next would ring where motors reverse.
    """
    trajectory = fourier(robot, 0.4, 0.5, harmonics=3)
    clean = record(simulate(robot, trajectory, periods=2, substeps=3), noise=Noise())
    rng = np.random.default_rng(0)
    assert clean.effort is not None
    sign = rng.choice([-1.0, 1.0], size=clean.effort.shape)
    same = rng.random(len(sign)) < 0.5
    sign[same] = sign[same, :1]
    period = clean.period_samples
    assert period is not None
    sign = np.tile(
        sign[:period], (2, 1)
    )  # both periods alike, so that averaging does not make them smaller
    return replace(clean, effort=clean.effort + 0.95 * BOUND * sign)


def test_the_box_holds_the_truth_although_rows_are_off_by_more_than_the_bound(
    robot: Model, log: Recording
) -> None:
    base = base_parameters(robot)
    true = base.values(robot.values(base.standard))
    problem = bounded_problem(robot, [log], base, error_bound=BOUND)
    middle = (problem.regressor_lower + problem.regressor_upper) / 2
    sure = (problem.regressor_lower == problem.regressor_upper).all(axis=(1, 2))
    gap = np.abs(problem.effort - middle @ true)[sure]
    assert gap.max() > 1.2 * BOUND
    assert (gap <= problem.error_bound[sure]).all()
    box = bounds(robot, [log], error_bound=BOUND)
    assert box.contains(true)
