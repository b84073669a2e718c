"""The frequency of a design is the one that tells most in the time it is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from gough.engine import Model
from gough.excitation import Design, design, first_frequency, information_factor
from tests_support import model_of


def mean_sigma(model: Model, plan: Design) -> float:
    """Return the geometric mean of the standard deviations after a second of recording, from the
    information alone.
    """
    R = information_factor(model, plan.trajectories, plan.base)
    variances = np.diag(np.linalg.inv(R.T @ R)) * plan.trajectory.period
    return float(np.exp(np.mean(np.log(variances)) / 2))


@pytest.mark.parametrize("name", ["five_bar", pytest.param("serial6", marks=pytest.mark.long)])
def test_no_other_frequency_tells_much_more_in_the_same_time(name: str) -> None:
    model = model_of(name)
    chosen = design(model, starts=1, iterations=60)
    own = mean_sigma(model, chosen)
    for factor in (0.25, 0.5, 2.0, 4.0):
        frequency = factor * chosen.trajectory.frequency
        other = design(model, frequency=frequency, starts=1, iterations=60)
        assert own < 1.25 * mean_sigma(model, other), factor


def test_the_first_guess_left_accelerations_unused() -> None:
    model = model_of("five_bar")
    slow = design(model, frequency=first_frequency(model), starts=1)
    assert mean_sigma(model, slow) > 2.5 * mean_sigma(model, design(model, starts=1))


def test_a_given_frequency_is_kept() -> None:
    model = model_of("five_bar")
    assert design(
        model, frequency=0.5, starts=1, iterations=10
    ).trajectory.frequency == pytest.approx(0.5, rel=1e-3)
