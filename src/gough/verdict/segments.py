"""Faults in a part of a log: a payload that is picked up and put down, counts that were lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.names import LOAD_PARAMETERS
from gough.core.trajectory import PositionVelocityAcceleration
from gough.logs.outliers import Jump
from gough.processing.filters import lowpass_periodic
from gough.verdict.evidence import Evidence
from gough.verdict.faults import PAYLOAD_FAULT, Fault, at_motors
from gough.verdict.fitted_log import FittedLog
from gough.verdict.motor_signals import MotorSignals
from gough.verdict.screen import explained_squares
from gough.verdict.stage import Stage

LOST_COUNTS = "lost counts"
# a log is cut into so many cells; a segment begins and ends with one
SEGMENT_CELLS = 24
MIN_SEGMENT_CELLS = 3
# of a log: what is carried longer is carried in the whole log
MAX_SEGMENT_FRACTION = 0.85
LARGEST_CUTOFF = 0.4  # of the low-pass on a step, over the rate
# Mass and its first moments: the inertia of a payload is not determined
# in a part of a log.
SEGMENT_PARAMETERS = LOAD_PARAMETERS[:4]


def payload_segments(stage: Stage) -> list[Fault]:
    """Return the payloads in parts of logs that are worth a trial, at most one a log.

    Payloads in averaged periods are found from what differs between
    periods.
    """
    faults = []
    for number, log in enumerate(stage.evidence.logs):
        if log.payload is None and not log.periodic:
            faults += _payload_in_segment(stage, number, log)
    return faults


def lost_counts(evidence: Evidence) -> list[Fault]:
    """Return the jumps of single positions that the recordings show, as faults."""
    faults = []
    for number, log in enumerate(evidence.logs):
        for jump in log.jumps:
            if not jump.wraps and jump.joint in log.model.mechanism.actuated:
                faults.append(_lost_counts(number, log, jump))
    return faults


def _place(evidence: Evidence, name: str) -> tuple[str, ...]:
    return (name,)


# -- a payload


def segment_trials(evidence: Evidence) -> int:
    """Return how many parts of logs are tried for a payload."""
    n_logs = sum(log.payload is None and not log.periodic for log in evidence.logs)
    return n_logs * len(segments_of_cells())


def segments_of_cells() -> IntArray:
    """Return the first and the last edge of all segments that are tried, (m, 2)."""
    first, last = np.triu_indices(SEGMENT_CELLS + 1, MIN_SEGMENT_CELLS)
    short_enough = last - first <= int(MAX_SEGMENT_FRACTION * SEGMENT_CELLS)
    return np.stack([first[short_enough], last[short_enough]], axis=1)


def _carried(log: FittedLog, place: str, start: float, end: float, n_periods: int) -> FloatArray:
    """Return the columns of a payload that is carried from a time to another, (t, r, 4). [s]

    Of averaged periods they are means over the periods, and times begin
    with the first of them.
    """
    columns = log.model.regressor(log.motion, SEGMENT_PARAMETERS, dead_band=log.dead_band)
    if log.periodic:
        carried = presence(log, n_periods, start, end).mean(axis=0)
    else:
        time = np.asarray(log.motion.time)
        carried = ((time >= start) & (time <= end)).astype(float)
    return np.asarray(columns * carried[:, None, None])


def payload_in_part(
    number: int, log: FittedLog, start: float, end: float, n_tried: int = 1
) -> Fault:
    """Return the fault of a payload that is carried from a time of a log to another.

    Args:
        number: Of the log.
        log: The log.
        start: When it is picked up. [s]
        end: When it is put down. [s]
        n_tried: Number of segments that this is the best of.
    """
    advice = 'cut the log there, and name the payload of that part: payload = "..."'
    if log.periodic:
        advice = (
            "use only the periods without it, or only those with it and name the payload in "
            "the description"
        )
    n_periods = 1 if log.deviations is None else len(log.deviations)
    return Fault(
        name=PAYLOAD_FAULT,
        places=partial(_place, name=log.name),
        unit="kg",
        columns=partial(_carried, start=start, end=end, n_periods=n_periods),
        scopes=("one log",),
        segment=(number, start, end),
        n_decisive=1,
        searched=lambda evidence, place: n_tried,
        text=f"a payload of {{size}} was carried from {start:.3g} to {end:.3g} s of the log, "
        "which the description does not name",
        advice=advice,
    )


def _payload_in_segment(stage: Stage, number: int, log: FittedLog) -> list[Fault]:
    """Return the payload in the segment of a log in which it lowers the squared error most."""
    time = np.asarray(log.motion.time)
    edges = np.linspace(time[0], time[-1], SEGMENT_CELLS + 1)
    columns = log.resampled(
        log.model.regressor(log.motion, SEGMENT_PARAMETERS, dead_band=log.dead_band)
    )
    samples = time[log.sample_numbers]
    cell = np.clip(np.searchsorted(edges, samples, side="right") - 1, 0, SEGMENT_CELLS - 1)
    products = _cell_products(stage, number, columns, cell)
    cumulative = np.zeros((SEGMENT_CELLS + 1, *products.shape[1:]))
    cumulative[1:] = np.cumsum(products, axis=0)
    first, last = segments_of_cells().T
    z = explained_squares(stage, cumulative[last] - cumulative[first])
    best = int(np.argmax(z))
    if z[best] == 0.0:
        return []
    start = float(edges[first[best]])
    end = float(edges[last[best]])
    return [payload_in_part(number, log, start, end, len(z))]


def _cell_products(stage: Stage, number: int, columns: FloatArray, cell: IntArray) -> FloatArray:
    """Return weighted products of columns with [model, columns, effort] by cells, (n, k, c).

    Args:
        stage: The logs as corrected so far.
        number: Of the log.
        columns: At the samples of its regression, (t, r, k).
        cell: Of each sample, (t,).
    """
    stacked = stage.weighted_equations(number, columns)
    width = stacked.shape[2]
    first = width - 1 - columns.shape[2]
    products = np.zeros((SEGMENT_CELLS, columns.shape[2], width))
    for k in range(SEGMENT_CELLS):
        flat = stacked[cell == k].reshape(-1, width)
        products[k] = flat[:, first:-1].T @ flat
    return products


# -- lost counts


def presence(log: FittedLog, n_periods: int, start: float, end: float) -> FloatArray:
    """Return one in the part of averaged periods between two times since the first, (k, t). [s]"""
    n_samples = len(log.motion)
    step = log.signals.step
    time = np.arange(n_periods * n_samples).reshape(n_periods, n_samples) * step
    return ((time >= start) & (time <= end)).astype(float)


def _undo_lost_counts(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray, start: float
) -> MotorSignals:
    """Subtract a step from a position. [m or rad]"""
    if not log.periodic:
        behind = np.asarray(signals.time) >= start
        step = behind[:, None] * at_motors(log, place, float(size[0]))
        return replace(signals, position=signals.position - step)
    position, velocity, acceleration = _mean_step(log, place, start)
    return replace(
        signals,
        position=signals.position - size[0] * position,
        velocity=signals.velocity - size[0] * velocity,
        acceleration=signals.acceleration - size[0] * acceleration,
    )


def _mean_step(log: FittedLog, motor: str, start: float) -> PositionVelocityAcceleration:
    """Return the trace of a step of one in the mean of periods, and its derivatives, (t, a).

    Of n periods, k come after the one with the step: the mean is higher
    by k / n before the phase of the step and by (k + 1) / n after it.
    The pose was low-passed, which spreads the step to all motors.
    """
    model = log.model
    time = np.asarray(log.motion.time)
    n_periods = 1 if log.deviations is None else len(log.deviations)
    fraction = presence(log, n_periods, start - float(time[0]), np.inf).mean(axis=0)
    rate = 1 / log.signals.step
    highest = LARGEST_CUTOFF * rate
    by_pose = model.kinematics.closure_map(log.motion.q, model.kinematics.pose_coordinates)
    motors_by_pose = by_pose[:, list(model.actuated)]
    number = model.mechanism.actuated.index(motor)
    pose = np.linalg.pinv(motors_by_pose)[:, :, number] * fraction[:, None]
    cutoff = min(log.cutoff or highest, highest)
    smooth = lowpass_periodic(pose, rate, len(pose), cutoff)[0]
    motors = np.einsum("tap,tp->ta", motors_by_pose, smooth)
    return lowpass_periodic(motors, rate, len(motors), highest)


def _lost_counts(number: int, log: FittedLog, jump: Jump) -> Fault:
    """Return the fault of a jump of one position: the residual has to have that step too."""
    time = np.asarray(log.motion.time)
    return Fault(
        name=LOST_COUNTS,
        places=partial(_place, name=jump.joint),
        unit="{position}",
        undo=partial(_undo_lost_counts, start=jump.time),
        scopes=("one log",),
        segment=(number, float(time[0]), float(time[-1])),
        near_size=jump.size,
        text=f"the position of {{place}} jumps by {{size}} at {jump.time:.4g} s: the encoder lost "
        "counts there",
        advice="cut the log there, and check encoder and cable of {place}",
    )
