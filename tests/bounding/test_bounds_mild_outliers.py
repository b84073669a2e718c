"""A tenth of the equations wrong, some by little more than the bound: the box of the rest still
holds the truth.
"""

from __future__ import annotations

import numpy as np
import pytest

from bounded import bounded_problem
from gough.bounding.solve import TrimmedBox
from gough.fitting.regression import Regression


@pytest.mark.parametrize("seed", range(5))
def test_outliers_just_beyond_the_bound_do_not_pull_the_box_off_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.array([1.2, 0.3, 0.8, 0.05])
    regressor = rng.standard_normal((1500, 2, 4)) * [1.0, 3.0, 0.5, 10.0]
    effort = regressor @ truth + 0.3 * rng.standard_normal((1500, 2)).clip(-4, 4)
    gross = rng.random(effort.shape) < 0.1
    count = int(gross.sum())
    effort[gross] += rng.choice([-1, 1], count) * rng.uniform(3, 15, count)
    data = Regression(
        regressor=regressor,
        effort=effort,
        rows=("a", "b"),
        row_units=("N m", "N m"),
        parameters=("p", "q", "r", "s"),
        units=("kg",) * 4,
    )
    box = TrimmedBox(outliers=count).fit(bounded_problem(data, error_bound=1.5, prior=(0.0, 2.0)))
    assert box.contains(truth)
    assert {tuple(pair) for pair in box.certificate["removed"]} == {
        tuple(pair) for pair in np.argwhere(gross).tolist()
    }
