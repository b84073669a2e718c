"""Loops closed along paths of the motors whose samples may be far apart."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import LoopNotClosed
from gough.engine import Model

# Longest move of a motor between two samples of a path that Newton's
# method follows. [rad or lengths of the robot]
MAX_PATH_STEP = 0.1
# beside the samples: positions in a wrong unit are not followed for
# ever
MAX_PATH_STEPS = 10_000


def close_along_path(model: Model, position: FloatArray, near: FloatArray | None) -> FloatArray:
    """Return all coordinates (t, n) from motors (t, m) that may move far between samples.

    Args:
        model: The robot.
        position: Independent motor positions. [m or rad]
        near: Configurations on the branch to follow, (t, n); by default
            that of the reference configuration.
    """
    scale = model.kinematics.step_scale("actuated")
    move = (np.abs(np.diff(position, axis=0)) / scale).max(axis=1, initial=0.0)
    steps = np.maximum(np.ceil(move / MAX_PATH_STEP), 1)
    place = np.concatenate([[0], np.cumsum(steps)]).astype(int)
    n_between = int(place[-1]) + 1 - len(position)
    if n_between > MAX_PATH_STEPS:
        raise LoopNotClosed(
            f"the motors move more than {MAX_PATH_STEPS * MAX_PATH_STEP:.0f} times as far as the "
            "robot is large; check the unit of the positions"
        )
    numbers = np.arange(place[-1] + 1)

    def interpolated(columns: FloatArray) -> FloatArray:
        return np.stack([np.interp(numbers, place, column) for column in columns.T], axis=1)

    start = None if near is None else interpolated(near)
    closed = model.kinematics.close_loops(interpolated(position), "actuated", start=start)
    return np.asarray(closed[place])
