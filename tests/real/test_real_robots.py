"""Real robots with defaults everywhere: as good as the best cut-off of a grid, whatever the robot.

The logs lie beside the project where they are available; `benchmarks/real_robots.py` prints the
whole tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import machines
import numpy as np
import pytest

from gough.core.arrays import FloatArray
from gough.engine import Model, base_parameters
from gough.fitting.least_squares import WeightedLeastSquares
from gough.identification import prepare
from gough.identification.experiment import Experiment
from gough.logs.recording import Recording
from gough.processing import Processing, regression

TX40_ANCHOR = np.array([14.2, 15.5, 21.7, 13.5, 24.9, 19.4])  # relative rms of its PROVENANCE [%]


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not machines.available(name), reason=f"the logs of {name} are not here"
    )


def fitted(
    model: Model, logs: Sequence[Recording], settings: Processing | None = None
) -> tuple[Experiment, FloatArray]:
    ready = prepare(model, logs, base_parameters(model), processing=settings)
    return ready, WeightedLeastSquares(uncertainty="white").fit(ready.problem).values


def errors(
    model: Model,
    ready: Experiment,
    values: FloatArray,
    log: Recording,
    *,
    counted: bool = False,
    faster: float = 0.0,
) -> FloatArray:
    """Relative rms of the recorded, unfiltered effort of a log that was not fitted to, by row.

    [%]
    """
    other = prepare(model, [log], ready.base, processing=ready.processing).processed[0]
    whole = regression(model, other, ready.base, decimate=False)
    speed = np.abs(other.motion.qd[:, [other.motion.column(row) for row in model.rows]])
    use = (speed > faster) & (whole.mask if counted else np.ones_like(whole.mask))
    left = whole.effort - whole.regressor @ values
    return np.asarray(
        100 * np.sqrt((use * left**2).sum(axis=0) / (use * whole.effort**2).sum(axis=0))
    )


@needs("staubli_tx40")
def test_tx40_predicts_its_second_half_as_well_as_the_best_cut_off_and_better_than_its_anchor() -> (
    None
):
    model, log = machines.tx40(), machines.tx40_log()
    first, second = log.take(slice(0, 22500)), log.take(slice(22500, None))
    found = errors(model, *fitted(model, [first]), second, faster=0.05)
    assert (found < TX40_ANCHOR).sum() >= 5
    grid = [
        errors(model, *fitted(model, [first], Processing(cutoff=cutoff)), second, faster=0.05)
        for cutoff in (30.0, 60.0, 120.0)
    ]
    assert (found < 1.05 * np.min(grid, axis=0)).all()


@needs("double_pendulum")
def test_four_logs_of_the_pendulum_predict_the_fifth_as_well_as_the_best_cut_off() -> None:
    model = machines.pendulum()
    logs = [machines.pendulum_log(name) for name in machines.PENDULUM_LOGS]
    found = errors(model, *fitted(model, logs[:4]), logs[4])
    grid = [
        errors(model, *fitted(model, logs[:4], Processing(cutoff=cutoff)), logs[4])
        for cutoff in (2.5, 3.5, 5.0, 7.0, 10.0, 20.0)
    ]
    assert (found < 1.1 * np.min(grid, axis=0)).all()


@needs("upv_3ups_rpu")
def test_every_leg_of_the_upv_robot_is_predicted_in_each_run_left_out() -> None:
    model, logs = machines.upv(), [machines.upv_log(run) for run in machines.UPV_RUNS]
    found = []
    for k, log in enumerate(logs):
        rest = [other for j, other in enumerate(logs) if j != k]
        found.append(errors(model, *fitted(model, rest), log, counted=True))
    table = np.array(found)
    assert np.sqrt((table**2).mean(axis=0)).max() < 14.0
    assert table[:, 3].max() < 14.0  # leg 4 stands two fifths of the time


@needs("emps")
def test_halves_of_emps_give_the_same_axis() -> None:
    model, log = machines.emps(), machines.emps_log()
    half = len(log) // 2
    halves = [log.take(slice(0, half)), log.take(slice(half, None))]
    for one, other in (halves, halves[::-1]):
        ready, values = fitted(model, [one])
        assert values[[str(n) for n in ready.base.names].index("car.m")] == pytest.approx(
            95.1089, rel=0.003
        )
        unseen = errors(model, ready, values, other, counted=True)
        assert unseen < 1.15 * errors(model, ready, values, one, counted=True)
        assert unseen < 5.0
