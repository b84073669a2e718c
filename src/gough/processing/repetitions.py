"""What differs between the periods of a repeated motion: noise of positions and efforts, seen through the robot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.engine.loops import By
from gough.processing.averaging import PeriodAverage
from gough.processing.frequency import lowpass_periodic, pose_cutoff, rounding_variance
from gough.processing.pieces import Processed, averaged_pose


def pose_maps(model: Model, q: FloatArray, by: By) -> tuple[list[int], FloatArray]:
    """Return the motors that poses are found from, and the map from their changes to those of the pose, (N, m, m).

    Args:
        model: The robot.
        q: All coordinates of the mean period, (N, n).
        by: The coordinates of the pose.
    """
    used = list(model.loops.partitions["actuated"].independent)
    back = np.asarray(np.linalg.inv(model.kinematics.closure_map(q, by)[:, used]), dtype=np.float64)
    return [model.actuated.index(i) for i in used], back


def akaike_cutoff(model: Model, average: PeriodAverage) -> float:
    """Return the highest harmonic of the pose that Akaike's criterion keeps. [Hz]"""
    by, q, pose = averaged_pose(model, average)
    own, back = pose_maps(model, q, by)
    scatter = np.einsum("tma,pta->ptm", back, (average.position_periods - average.position)[:, :, own], optimize=True)
    rounding = np.einsum("tma,a->m", back**2, rounding_variance(average)[own]) / len(back)
    return pose_cutoff(pose, scatter, average.rate, rounding)


def period_motions(model: Model, processed: Processed, positions: FloatArray | None = None) -> Iterator[Motion]:
    """Yield the motion of each period of a mean one, low-passed as that is, with the past of that.

    Args:
        model: The robot.
        processed: The mean period.
        positions: Of the motors in each period, (k, N, a); those recorded by default. [m or rad]
    """
    average, cutoff = processed.average, processed.cutoff
    assert average is not None
    assert cutoff is not None
    by, q, pose = averaged_pose(model, average)
    own, back = pose_maps(model, q, by)
    for k, position in enumerate(average.position_periods if positions is None else positions):
        moved = pose + np.einsum("tma,ta->tm", back, (position - average.position)[:, own])
        smooth = lowpass_periodic(moved, average.rate, len(pose), cutoff)
        time = average.recording.time[k * len(pose):(k + 1) * len(pose)]
        motion = model.kinematics.motion(time, *smooth, by, start=processed.motion.q)
        yield replace(motion, remembered=processed.motion.remembered)


def with_position_noise(model: Model, processed: Processed, problem: Regression,
                        base: BaseParameters | Sequence[str], values: FloatArray) -> Regression:
    """Return the regression of a mean period with repetitions that carry the noise of the positions too.

    What one period adds to the error of the estimate is not its effort noise alone: its positions would have given
    another regressor W_k. To first order the repetitions are

        y_k - (W_k - W) x,    W_k from the pose of period k, low-passed as the mean one is,

    whose scatter holds the noise of efforts and positions and, since each period keeps its own, what feedback makes
    them share (AH09 3.2). The covariance is theirs, over the equations that count in all rows. Where sensors round more
    than they differ, rounding comes back in every period: what rounding the motion does to W x widens the scatter.

    Args:
        model: The robot.
        processed: The mean period, filtered explicitly.
        problem: Its regression, not decimated.
        base: Its parameters.
        values: x, as a first fit finds them, (p,).
    """
    average, replicates = processed.average, problem.replicates
    if average is None or processed.cutoff is None or replicates is None or len(replicates[0]) != len(average):
        return problem
    x = np.where(problem.regressor.any(axis=(0, 1)), values, 0.0)  # payloads that were not carried have no columns
    seen = np.stack([model.regressor(motion, base, dead_band=processed.dead_band) @ x
                     for motion in period_motions(model, processed)])
    made = replicates - (seen - seen.mean(axis=0))
    covariance, count = problem.covariance, len(made)
    step = np.sqrt(12 * rounding_variance(average))
    if step.any():
        smooth = processed.motion.q[:, list(model.actuated)]
        error = np.where(step > 0, np.round(smooth / np.where(step > 0, step, 1.0)) * step - smooth, 0.0)
        motion = next(period_motions(model, processed, (average.position + error)[None]))
        more = model.regressor(motion, base, dead_band=processed.dead_band) @ x - problem.regressor @ x
        counts, away = problem.counting, made - made.mean(axis=0)
        own = (away**2 * counts).sum(axis=(0, 1)) / (count * (count - 1))
        made = made.mean(axis=0) + away * np.sqrt(1 + (more**2 * counts).sum(axis=0) / np.maximum(own, TINY))
    if covariance is not None and covariance.ndim == 2:
        sure = np.ones(len(problem), bool) if problem.mask is None else problem.mask.all(axis=1)
        left = (made - made.mean(axis=0))[:, sure if sure.sum() > len(problem) // 10 else slice(None)]
        left = left.reshape(-1, left.shape[2])
        covariance = left.T @ left / (len(left) * (count - 1))  # of the mean: 1 / (N Nm (Nm - 1))
    return replace(problem, replicates=made, covariance=covariance)
