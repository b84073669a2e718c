"""Held-out errors by the exported C code, over samples that no candidate chooses.

Positions are filtered and differentiated here, with one cut-off for each robot, and the samples that
count are those where a joint is faster than a fraction of its usual top speed. Candidates only differ
by the C code they export.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, sosfiltfilt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "export"))

from c_controller import OK, Controller, compiled

from gough.core.arrays import BoolArray, FloatArray
from gough.engine import Model
from gough.export.controller import controller_code
from gough.identification import Identification
from gough.logs.recording import Recording
from gough.processing.matching import known_gains

MOVING_FRACTION = 0.05  # of the speed that a joint exceeds in a tenth of the samples
EDGE_PERIODS = 1.0  # of the cut-off: samples at both ends that the filter disturbs


class JudgedLog(NamedTuple):
    """A log as every candidate meets it, on an even clock."""

    name: str
    period: float  # [s]
    q: FloatArray  # of the motors, (t, a)
    qd: FloatArray
    qdd: FloatArray
    effort: FloatArray  # as recorded, (t, a)
    moving: BoolArray  # samples that count, (t, a)


def judged_log(model: Model, recording: Recording, cutoff: float) -> JudgedLog:
    """Return a log on an even clock, positions low-passed forth and back at a cut-off [Hz]."""
    motors = model.mechanism.actuated
    columns = [recording.joints.index(name) for name in motors]
    time = recording.time
    period = float(np.median(np.diff(time)))
    even = np.arange(time[0], time[-1], period)

    def resampled(signal: FloatArray) -> FloatArray:
        return np.column_stack([np.interp(even, time, signal[:, k]) for k in columns])

    if recording.effort is not None:
        effort = resampled(recording.effort)
    else:
        assert recording.current is not None
        gains = known_gains(model, None)
        effort = resampled(recording.current) * np.array([gains[name] for name in motors])
    low_pass = butter(4, min(2 * cutoff * period, 0.99), output="sos")
    q = sosfiltfilt(low_pass, resampled(recording.position), axis=0)
    qd = np.gradient(q, period, axis=0)
    qdd = np.gradient(qd, period, axis=0)
    speed = np.abs(qd)
    moving = speed > MOVING_FRACTION * np.quantile(speed, 0.9, axis=0)
    edge = int(EDGE_PERIODS / cutoff / period) + 1
    moving[:edge] = False
    moving[-edge:] = False
    return JudgedLog(recording.source, period, q, qd, qdd, effort, moving)


class Errors(NamedTuple):
    """Relative errors of the motors in percent."""

    moving: FloatArray  # over the samples where the motor moves, (a,)
    every: FloatArray  # over all samples, (a,)
    refused: int  # samples that the C code refused


def c_errors(model: Model, result: Identification, log: JudgedLog) -> Errors:
    """Return the errors of the exported C code of a result on a log."""
    fitted = result.fitted(model)
    code = controller_code(fitted, result.standard(fitted), name="controller", period=log.period)
    with tempfile.TemporaryDirectory() as folder:
        control = Controller(fitted, compiled(Path(folder), *code, flags=("-O1", "-w")))
        predicted = np.full(log.q.shape, np.nan)
        for k in range(len(log.q)):
            status, effort = control(log.q[k], log.qd[k], log.qdd[k])
            if status == OK:
                predicted[k] = effort
    known = np.isfinite(predicted)
    residual = np.where(known, log.effort - predicted, 0.0)
    return Errors(
        _percent(residual, log.effort, log.moving & known),
        _percent(residual, log.effort, known),
        int((~known).any(axis=1).sum()),
    )


def _percent(residual: FloatArray, effort: FloatArray, used: BoolArray) -> FloatArray:
    """Return rms residual over rms effort of the samples used, (a,)."""
    squares = (used * residual**2).sum(axis=0) / (used * effort**2).sum(axis=0)
    return np.asarray(100 * np.sqrt(squares))
