"""Samples near velocity reversals, where Coulomb friction is not a sign.

When a motor reverses, friction passes from -fs to fs within microns, the controller rings for a few of its time
constants, and the regressor sees neither. These samples bias friction first and then everything else, so they are
left out: those within a window of a reversal of some motor with Coulomb friction, and those where it stands still.
Passive joints reverse too, without a controller that rings: only samples at which one with Coulomb friction is slow
are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.motion import Motion
from gough.core.regression import Regression
from gough.engine import Model

SLOW = 0.01  # part of a passive joint's top speed below which the sign of its velocity says little
LONGEST = 0.1  # window never longer than this, unless samples are further apart than a fifth of it [s]


def rubbing(model: Model) -> tuple[int, ...]:
    """Return the indices of the motors' coordinates that have Coulomb friction."""
    return tuple(i for i in model.actuated if i in model.mechanism.rubbing)


def reversal_distance(motion: Motion, coordinate: int, time: FloatArray) -> FloatArray:
    """Return the time from each instant to the nearest velocity reversal of a coordinate, (t,). [s]"""
    speed = motion.qd[:, coordinate]
    crossing = np.flatnonzero(np.signbit(speed[1:]) != np.signbit(speed[:-1]))
    if crossing.size == 0:
        return np.full(len(time), np.inf)
    v0, v1 = speed[crossing], speed[crossing + 1]
    part = np.where(v0 != v1, v0 / np.where(v0 != v1, v0 - v1, 1.0), 0.0)
    at = motion.time[crossing] + part * (motion.time[crossing + 1] - motion.time[crossing])
    right = np.clip(np.searchsorted(at, time), 1, max(len(at) - 1, 1))
    left = np.minimum(right - 1, len(at) - 1)
    return np.asarray(np.minimum(np.abs(time - at[left]), np.abs(time - at[np.minimum(right, len(at) - 1)])))


def away_from_reversals(model: Model, motion: Motion, time: FloatArray, window: float,
                        dead_band: FloatArray | None = None) -> NDArray[np.bool_]:
    """Tell the instants at which every joint that rubs moves and no motor reversed within the window, (t,).

    Args:
        model: The robot.
        motion: Its motion, all samples.
        time: Instants among the motion's, e.g. after decimation, (t,). [s]
        window: Half width about a motor's reversal. [s]
        dead_band: Velocity below which a motor counts as standing, and a passive joint unless `SLOW` says more, (n,);
            by default joints may stand. [m/s or rad/s]
    """
    keep = np.ones(len(time), dtype=bool)
    motors = rubbing(model)
    for i in motors:
        keep &= reversal_distance(motion, i, time) >= window
    if dead_band is None:
        return keep
    for i in model.mechanism.rubbing:
        speed = np.abs(motion.qd[:, i])
        slow = dead_band[i] if i in motors else max(float(dead_band[i]), SLOW * float(speed.max()))
        keep &= np.interp(time, motion.time, speed) >= slow
    return keep


def reversal_window(model: Model, motion: Motion, problem: Regression, residual: FloatArray) -> float:
    """Return how long after a reversal a first fit's residual stays above its usual size. [s]

    Residuals are gathered by their distance to the nearest reversal of their own motor in bins of about a millisecond;
    the window ends where the mean square of three bins running is within 20 % of that far from any reversal. Where rows
    are not motors, all rows are gathered by their distance to the nearest reversal of any motor.

    Args:
        model: The robot.
        motion: Its motion.
        problem: The regression the residual belongs to, with times.
        residual: (t, r). [row unit]
    """
    time = problem.time
    motors = rubbing(model)
    if time is None or len(time) < 50 or not motors:
        return 0.0
    step = max(1e-3, float(np.median(np.diff(time))))
    longest = max(LONGEST, 5 * step)  # five bins at least, however much was decimated
    edges = np.arange(0.0, longest + step / 2, step)
    squared = residual**2 / np.maximum(np.mean(residual**2, axis=0), 1e-300)
    distances = [reversal_distance(motion, i, time) for i in motors]
    names = [model.mechanism.coordinates[i] for i in motors]
    if set(names) <= set(problem.rows):
        pairs = [(squared[:, problem.rows.index(name)], distance) for name, distance in zip(names, distances)]
    else:
        pairs = [(squared.mean(axis=1), np.min(distances, axis=0))]
    return round(max(_settled(*pair, edges) for pair in pairs), 6)


def _settled(squared: FloatArray, distance: FloatArray, edges: FloatArray) -> float:
    """Return the edge from which squared residuals, gathered by distance, are as small as far away. [s]"""
    far = distance > edges[-1]
    if far.sum() < 50:
        far = distance >= np.quantile(distance[np.isfinite(distance)], 0.5) if np.isfinite(distance).any() else far
    if far.sum() < 20:
        return 0.0
    index = np.digitize(distance, edges) - 1
    near = index < len(edges) - 1
    count = np.bincount(index[near], minlength=len(edges) - 1)
    total = np.bincount(index[near], squared[near], minlength=len(edges) - 1)
    moving_count = np.convolve(count, np.ones(3), "valid")
    level = np.convolve(total, np.ones(3), "valid") / np.maximum(moving_count, 1)
    # Three bins of a chi-squared mean scatter by about sqrt(2 / count).
    quiet = level <= float(np.mean(squared[far])) * (1.2 + 2 * np.sqrt(2 / np.maximum(moving_count, 1)))
    return float(edges[int(np.argmax(quiet)) if quiet.any() else len(quiet)])
