"""What differs between periods, and what does not although it is noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.engine import Model, base_parameters
from gough.identification import prepare
from gough.virtual import Simulation, record


def test_rounding_that_comes_back_in_every_period_is_part_of_the_noise(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    """Oracle: what the true parameters leave of the mean period, whose sensors round by 2 mrad and
    hardly scatter.
    """
    noise = replace(five_bar.mechanism.noise, position=1e-5, effort=3e-4, resolution=2e-3)
    base = base_parameters(five_bar)
    (part,) = prepare(five_bar, [record(five_bar_run, noise=noise, seed=1)], base).regressions
    assert part.covariance is not None
    left = (part.effort - part.regressor @ base.values(five_bar.values(base.standard)))[
        part.valid.all(axis=1)
    ]
    ratio = (left**2).mean(axis=0).sum() / np.trace(part.covariance)
    assert 1 / 3 < ratio < 3
    plain = 3e-4**2 / len(part.replicates if part.replicates is not None else ())
    assert (
        (left**2).mean(axis=0) > 4 * plain
    ).all()  # the noise of the efforts alone would not explain it
