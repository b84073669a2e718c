"""Regressor and effort low-passed in parallel over a period; dead bands given and found."""

from __future__ import annotations

import numpy as np
import pytest

from gough.app.identify import identify
from gough.app.studies.monte_carlo import truth_table
from gough.core.errors import InvalidInput
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism.types import Noise
from gough.processing import Processing, process
from gough.virtual import Simulation, record, simulate
from tests_support import fourier


def test_friction_reversals_need_no_window_and_cost_no_samples(five_bar: Model) -> None:
    """A PID lets friction shake the robot at reversals: intervals hold, tighter than with these
    samples left out.
    """
    run = simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=5), controller="pid+", periods=5)
    band = dict(zip(five_bar.mechanism.coordinates, run.dead_band.tolist()))
    held, ratios = [], []
    for seed in range(8):
        log = record(run, seed=50 + seed)
        whole = identify(
            five_bar,
            [log],
            processing=Processing(cutoff=100.0, decimation=20, dead_band=band, window=0.0),
        )
        held += [within for *_, within in truth_table("five_bar", whole.estimate, False)]
        ratios.append(whole.estimate.white_std / identify(five_bar, [log]).estimate.white_std)
    assert np.mean(held) > 0.88
    assert np.exp(np.mean(np.log(ratios))) < 0.9


def test_a_dead_band_can_be_given_by_joint(five_bar: Model, five_bar_log: Recording) -> None:
    usual = process(five_bar, five_bar_log).dead_band
    made = process(five_bar, five_bar_log, Processing(dead_band={"left.motor": 0.5})).dead_band
    where = five_bar.mechanism.coordinates.index("left.motor")
    assert made[where] == 0.5
    np.testing.assert_array_equal(np.delete(made, where), np.delete(usual, where))
    with pytest.raises(InvalidInput, match=r"did you mean 'left\.motor'"):
        process(five_bar, five_bar_log, Processing(dead_band={"left.moter": 0.5}))
    with pytest.raises(InvalidInput, match=r"dead_band is -1\.0 .* at least 0"):
        Processing(dead_band=-1.0)


def test_rounding_that_repeats_in_every_period_makes_a_dead_band(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    step = 1e-4  # [rad]
    coarse = record(five_bar_run, noise=Noise(effort=0.1, resolution=step), seed=1)
    band = process(five_bar, coarse, Processing(cutoff=20.0)).dead_band[list(five_bar.actuated)]
    # White rounding of variance step^2 / 12 at 1 kHz through 20 Hz: 2 pi 20 / sqrt(3) sqrt(20 /
    # 500).
    expected = 3 * step / np.sqrt(12) * 2 * np.pi * 20 / np.sqrt(3) * np.sqrt(20 / 500)
    np.testing.assert_allclose(band, expected, rtol=0.1)
