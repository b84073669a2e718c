"""A periodic run repeated without simulating again."""

from __future__ import annotations

import numpy as np
from orthoglide_gains import repeated

from gough.engine import Model
from gough.virtual import Simulation, record, simulate
from tests_support import fourier


def test_a_run_of_one_period_repeated_is_the_run_of_several(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    one = simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), periods=1)
    again = repeated(one, 5)
    np.testing.assert_allclose(
        again.time, five_bar_run.time - five_bar_run.time[0] + one.time[0], atol=1e-9
    )
    np.testing.assert_allclose(again.position, five_bar_run.position, atol=1e-7)
    np.testing.assert_allclose(again.mean_effort, five_bar_run.mean_effort, atol=1e-2)
    assert record(again, seed=1).period_count == 5
