"""Repetitions of a motion: the motion of each period, and the noise of their positions.

One regressor, that of the mean period, predicts the efforts of all
periods. Differences between the positions of a period and the mean ones
are therefore noise of its efforts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.regression import Regression
from gough.processing.averaging import PeriodAverage
from gough.processing.filters import lowpass_periodic
from gough.processing.processed_log import ProcessedLog


def period_motions(
    model: Model, processed: ProcessedLog, positions: FloatArray | None = None
) -> Iterator[Motion]:
    """Yield the motion of each period with the filter and internal states of the average period.

    Args:
        positions: Of the motors in each period, (k, N, a); those
            recorded by default.
    """
    average = processed.average
    cutoff = processed.cutoff
    assert average is not None
    assert cutoff is not None
    if positions is None:
        positions = average.recording.periods("position")
    q = processed.whole_log.mean_pose
    kinematics = model.kinematics
    pose = kinematics.pose_of(q)
    by = kinematics.pose_coordinates
    motors = kinematics.motor_columns
    to_pose = kinematics.pose_map(q)
    n = len(pose)
    for k, position in enumerate(positions):
        deviation = (position - average.position)[:, motors]
        pose_k = pose + np.einsum("tma,ta->tm", to_pose, deviation)
        smooth = lowpass_periodic(pose_k, average.rate, n, cutoff)
        time = average.recording.time[k * n : (k + 1) * n]
        motion = kinematics.motion(time, *smooth, by, start=processed.motion.q)
        yield replace(motion, extra_inputs=processed.motion.extra_inputs)


def with_position_noise(
    model: Model,
    processed: ProcessedLog,
    problem: Regression,
    base: BaseParameters | Sequence[str],
    values: FloatArray,
) -> Regression:
    """Return the regression of a mean period with position noise added to its repetitions.

    The positions of a period would have given another regressor W_k. To
    first order the repetitions are, for values x of a first fit,

        y_k - (W_k - W) x,    W_k from the pose of period k, low-passed as the mean one is,

    whose scatter holds the noise of efforts and positions and their
    correlation by feedback (AH09 3.2). The covariance is that of the
    repetitions, over samples whose equations are all valid. Where
    sensors round by more than periods differ, the effect of rounding
    the motion on W x widens the scatter.
    """
    average = processed.average
    replicates = problem.replicates
    if average is None or processed.cutoff is None or replicates is None:
        return problem
    if replicates.shape[1] != len(average):
        return problem
    # not so for payloads that were not carried
    has_column = problem.regressor.any(axis=(0, 1))
    x = np.where(has_column, values, 0.0)
    band = processed.dead_band
    predictions = np.empty_like(replicates)
    for k, motion in enumerate(period_motions(model, processed)):
        predictions[k] = model.regressor(motion, base, dead_band=band) @ x
    repetitions = replicates - (predictions - predictions.mean(axis=0))
    if average.rounding_variance.any():
        rounded = _rounded_positions(model, processed, average)
        motion = next(period_motions(model, processed, rounded[None]))
        prediction = model.regressor(motion, base, dead_band=band) @ x
        error = prediction - problem.regressor @ x
        repetitions = _widened(repetitions, error, problem.valid)
    known_covariance = problem.covariance
    covariance = known_covariance
    if known_covariance is not None and known_covariance.ndim == 2:
        covariance = _covariance_of_mean(repetitions, problem.valid)
        if average.effort_rounding_variance.any():  # which the scatter does not show
            scatter = _covariance_of_mean(replicates, problem.valid)
            rounding = np.maximum(np.diag(known_covariance - scatter), 0.0)
            covariance = covariance + np.diag(rounding)
    return replace(problem, replicates=repetitions, covariance=covariance)


def _rounded_positions(model: Model, processed: ProcessedLog, average: PeriodAverage) -> FloatArray:
    """Return the mean positions plus the rounding error that the sensors make, (N, a)."""
    step = np.sqrt(12 * average.rounding_variance)
    smooth = processed.motion.q[:, list(model.actuated)]
    rounds = step > 0
    divisor = np.where(rounds, step, 1.0)
    rounded = np.round(smooth / divisor) * step
    rounding = np.where(rounds, rounded - smooth, 0.0)
    return np.asarray(average.position + rounding)


def _widened(repetitions: FloatArray, error: FloatArray, valid: BoolArray) -> FloatArray:
    """Return repetitions (k, t, r) whose mean is as uncertain as with an added error, (t, r)."""
    count = len(repetitions)
    mean = repetitions.mean(axis=0)
    deviation = repetitions - mean
    variance = (deviation**2 * valid).sum(axis=(0, 1)) / (count * (count - 1))
    added = (error**2 * valid).sum(axis=0)
    factor = np.sqrt(1 + added / np.maximum(variance, TINY))
    return np.asarray(mean + deviation * factor)


def _covariance_of_mean(repetitions: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the covariance of the mean of repetitions (k, t, r): 1 / (N Nm (Nm - 1)), (r, r)."""
    deviation = repetitions - repetitions.mean(axis=0)
    all_valid = np.asarray(valid.all(axis=1))
    if all_valid.sum() > len(all_valid) // 10:
        deviation = deviation[:, all_valid]
    flat = deviation.reshape(-1, deviation.shape[2])
    return np.asarray(flat.T @ flat / (len(flat) * (len(repetitions) - 1)))
