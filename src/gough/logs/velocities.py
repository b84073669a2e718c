"""Recorded velocities compared with the derivatives of the recorded positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.notices import Notice
from gough.core.units import conversion
from gough.logs.messages import log_notice
from gough.logs.recording import Recording

MIN_COMPARED_SAMPLES = 50
# Windows over which a velocity is integrated and compared with the change of the position: this
# fraction of the log, and at least so many samples.
COMPARED_WINDOW = 0.005
MIN_COMPARED_WINDOW = 10
# Correlation of changes and integrals from which both are of the same joint.
SAME_JOINT_CORRELATION = 0.9
# Factor between both from which a unit, a gear ratio or the clock is wrong; delays and filters of
# a drive change it by some percent.
VELOCITY_MISMATCH_RATIO = 1.2
VELOCITY_UNITS = {"rad": ("rad/s", "deg/s", "rpm"), "m": ("m/s", "mm/s")}  # guessed in this order


def velocity_ratio(time: FloatArray, position: FloatArray, velocity: FloatArray) -> float:
    """Return a recorded velocity over the derivative of a position; NaN if they are unrelated.

    The velocity is integrated over short windows, as a position would be differentiated with
    its noise.

    Args:
        time: Time stamps, (t,). [s]
        position: Of a joint, (t,).
        velocity: Recorded as that of the joint, (t,).
    """
    finite = np.isfinite(time) & np.isfinite(position) & np.isfinite(velocity)
    if int(finite.sum()) < MIN_COMPARED_SAMPLES:
        return float("nan")
    time = time[finite]
    position = position[finite]
    velocity = velocity[finite]
    window = max(MIN_COMPARED_WINDOW, int(COMPARED_WINDOW * len(time)))
    mean_velocity = (velocity[1:] + velocity[:-1]) / 2
    integral = np.concatenate([[0.0], np.cumsum(mean_velocity * np.diff(time))])
    travelled = position[window:] - position[:-window]
    integrated = integral[window:] - integral[:-window]
    scale = float(np.linalg.norm(travelled) * np.linalg.norm(integrated))
    if not (np.isfinite(scale) and scale > 0):
        return float("nan")
    correlation = float(travelled @ integrated) / scale
    if abs(correlation) < SAME_JOINT_CORRELATION:
        return float("nan")
    return float(np.sign(correlation) * np.linalg.norm(integrated) / np.linalg.norm(travelled))


def inspect_velocities(recording: Recording) -> Iterator[Notice]:
    """Yield a warning for each joint whose recorded velocity contradicts its position."""
    if recording.velocity is None:
        return
    for j, joint in enumerate(recording.joints):
        ratio = velocity_ratio(recording.time, recording.position[:, j], recording.velocity[:, j])
        if 1 / VELOCITY_MISMATCH_RATIO <= ratio <= VELOCITY_MISMATCH_RATIO or np.isnan(ratio):
            continue
        yield log_notice(
            "velocity",
            f"{joint}.velocity",
            f"is {ratio:.4g} times the derivative of the position",
            "check units, signs and gear ratios of position and velocity, and the unit of time",
            level="warning",
            ratio=ratio,
        )


def common_velocity_unit(ratios: Sequence[float], units: Sequence[str]) -> str | None:
    """Return the unit in which all velocities are the derivatives of their positions.

    Args:
        ratios: Recorded numbers over the derivatives of the positions in SI units; NaN if not
            known.
        units: Candidates.

    Returns:
        None if there is no such unit, or if no ratio is known.
    """
    known = [ratio for ratio in ratios if not np.isnan(ratio)]
    for unit in units:
        in_unit = [ratio * conversion(unit) for ratio in known]
        fits = [1 / VELOCITY_MISMATCH_RATIO <= r <= VELOCITY_MISMATCH_RATIO for r in in_unit]
        if known and all(fits):
            return unit
    return None
