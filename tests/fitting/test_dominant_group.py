"""Scatter between groups misleads where one group holds nearly all that is known of a parameter."""

from __future__ import annotations

import numpy as np

from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import Regression


def problem(seed: int, share: float) -> Regression:
    """Six stretches of white noise; the second parameter is excited in the first, and by `share` of
    that elsewhere.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(6), 50)
    size = np.where(group == 0, 1.0, share)
    regressor = np.stack([rng.standard_normal(300), size * rng.standard_normal(300)], axis=-1)[
        :, None, :
    ]
    effort = regressor @ np.array([2.0, 1.0]) + rng.standard_normal((300, 1))
    return Regression(
        regressor=regressor,
        effort=effort,
        rows=("a",),
        row_units=("N",),
        parameters=("even", "uneven"),
        units=("kg", "kg"),
        group=group,
    )


def test_a_parameter_of_one_group_gets_its_deviation_from_the_samples() -> None:
    estimates = [WeightedLeastSquares().fit(problem(seed, 0.05)) for seed in range(60)]
    assert {e.uncertainty for e in estimates} == {"hac"}
    scatter = np.std([e["uneven"] for e in estimates])
    stated = np.array([e.std[1] for e in estimates])
    assert 0.4 * scatter < stated.min()  # no estimate claims to know what it does not
    assert 0.8 * scatter < np.median(stated) < 1.2 * scatter
    misled = [
        WeightedLeastSquares(uncertainty="period").fit(problem(seed, 0.05)).std[1]
        for seed in range(60)
    ]
    assert min(misled) < 0.1 * scatter


def test_groups_that_share_what_is_known_are_scattered_as_before() -> None:
    assert WeightedLeastSquares().fit(problem(0, 1.0)).uncertainty == "period"
