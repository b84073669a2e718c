"""What the verdict computes of decimated logs agrees with their regressions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.engine import Model
from gough.logs.recording import Recording
from gough.processing.settings import Processing
from gough.verdict.diagnose import DiagnoseSettings, evidence_from


def test_signals_left_as_they_are_give_the_equations_of_the_fit(
    five_bar: Model, without_periods: tuple[Recording, Recording]
) -> None:
    """Equations near reversals are left out before decimation, also by the verdict."""
    settings = DiagnoseSettings(processing=Processing(cutoff=8.0, window=0.04))
    evidence, _ = evidence_from(five_bar, without_periods[:1], (), settings)
    (log,) = evidence.logs
    assert log.decimation > 1
    assert log.averaged_equations is not None
    assert not log.averaged_equations.all()
    same = log.with_signals(replace(log.signals, velocity=log.signals.velocity.copy()))
    assert same is not None
    valid = log.regression.valid
    np.testing.assert_allclose(same.regression.effort[valid], log.regression.effort[valid])
    difference = same.regression.regressor - log.regression.regressor
    scale = np.abs(log.regression.regressor).max()
    assert np.abs(difference[valid]).max() < 1e-6 * scale
