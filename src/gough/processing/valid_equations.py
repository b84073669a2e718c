"""Which equations are valid: where the sign of a joint's velocity determines its friction.

Where a motor reverses, the low-pass of the positions smears the
instant. At rest, friction takes any value up to fs. Within the noise of
a velocity, its dead band, the sign is not known. This invalidates the
equations that contain the friction of the joint and no others: those
with E_j != 0 in qd = E qd_I. For a motor that is a row this is its own
equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.signals import Ends, running
from gough.core.statistics import robust_scale
from gough.engine import Model
from gough.engine.base import random_motion
from gough.logs.checks import quantisation_step
from gough.processing.filters import check_cutoff
from gough.processing.settings import Processing

if TYPE_CHECKING:
    from gough.processing.processed_log import ProcessedLog

# A joint acts on a row if its lever exceeds this fraction of its
# largest one; less is rounding.
MIN_LEVER_RATIO = 1e-9
# Half width of a dead band in standard deviations of the velocity: 1
# wrong sign in 700 at its edge.
BAND_DEVIATIONS = 3.0
# Least noise as a fraction of the position: the velocity of a joint at
# rest must have no sign.
POSITION_ROUNDING = 1e-12
# Smallest fraction of a row's equations, or of the samples in which its
# joint moves, that exclusion windows and widths of friction may leave.
# With less they choose the data.
MIN_VALID_FRACTION = 0.5
MIN_NOISE_SAMPLES = 16  # to estimate noise from


def position_noise(position: FloatArray) -> FloatArray:
    """Return the standard deviation of the position noise of each joint, (t, a) -> (a,).

    From third differences, which a smooth motion hardly has: std =
    median |d3| / (0.6745 sqrt(20)); at least step / sqrt(12) of a
    quantised sensor. Differences of zero, of a joint at rest, are not
    used. [m or rad]
    """
    if len(position) < MIN_NOISE_SAMPLES:
        raise InvalidInput(
            f"{len(position)} samples are too few to estimate noise; at least "
            f"{MIN_NOISE_SAMPLES} are needed"
        )
    return np.array([_column_noise(column) for column in position.T])


def _column_noise(position: FloatArray) -> float:
    """Return the standard deviation of the noise of one position, (t,)."""
    third = np.diff(position, n=3)
    third = third[third != 0]
    scatter = 0.0
    if len(third):
        scatter = float(robust_scale(third)) / np.sqrt(20.0)
    step = quantisation_step(position) or 0.0
    rounding = POSITION_ROUNDING * float(np.abs(position).max())
    return float(max(scatter, step / np.sqrt(12.0), rounding))


def velocity_noise(noise: ArrayLike, rate: float, cutoff: float) -> FloatArray:
    """Return the standard deviation of velocities of low-passed positions with white noise, (a,).

    std_v^2 = std^2 (2 / rate) int_0^fc (2 pi f)^2 df = std^2 (8 pi^2 / 3) fc^3
    / rate.

    Args:
        noise: Standard deviation of the positions, (a,). [m or rad]
        rate: Sampling rate. [Hz]
        cutoff: Of the low-pass. [Hz]
    """
    check_cutoff(cutoff, rate)
    factor = np.sqrt(8.0 * np.pi**2 / 3.0 * cutoff**3 / rate)
    return np.asarray(np.asarray(noise) * factor)


def dead_bands(model: Model, logs: Sequence[ProcessedLog]) -> dict[str, float]:
    """Return the dead band of every joint, the widest of several logs. [m/s or rad/s]

    `BAND_DEVIATIONS` standard deviations of the motors' velocities in
    each log, propagated through the closures to passive joints; at
    least the width of friction that the robot file states.
    """
    motors = model.kinematics.motor_columns
    bands = model.mechanism.friction_widths
    for log in logs:
        some = slice(None, None, max(1, len(log) // 50))
        maps = model.kinematics.closure_map(log.motion.q[some], "actuated")
        variance = ((maps * log.velocity_noise[motors]) ** 2).sum(axis=2).max(axis=0)
        bands = np.maximum(bands, BAND_DEVIATIONS * np.sqrt(variance))
    return dict(zip(model.mechanism.coordinates, bands.tolist()))


def unknown_signs(
    speed: FloatArray,
    band: FloatArray,
    reach: int,
    *,
    smear: int = 0,
    periodic: bool = False,
) -> BoolArray:
    """Return where velocities (t, k) do not determine the sign of friction, (t, k).

    That is inside the dead bands (k,); with a reach, within so many
    samples of there or of a change of sign; and within `smear` samples
    of a longer rest.

    Args:
        periodic: The samples are one period of a motion that repeats.
    """
    ends: Ends = "constant"
    if periodic:
        ends = "wrap"
    unknown = np.abs(speed) < band
    smear = min(smear, len(speed) // 4)
    long_rest = running(np.minimum, unknown, 2 * smear + 1, ends)
    smeared_rest = running(np.maximum, long_rest, 4 * smear + 1, ends)
    if reach:
        negative = np.signbit(speed)
        reversed_sign = negative != np.roll(negative, 1, axis=0)
        reversed_sign[0] &= periodic
        # the samples on both sides of the reversal
        unknown |= reversed_sign | np.roll(reversed_sign, -1, axis=0)
        width = 2 * min(reach, len(speed)) + 1
        unknown = running(np.maximum, unknown, width, ends)
    return np.asarray(unknown | smeared_rest)


@lru_cache(maxsize=16)
def rows_with_coulomb(model: Model) -> BoolArray:
    """Return which rows contain the friction of each coordinate: E_j != 0 anywhere, (n, r)."""
    motion = random_motion(model, 8, seed=0)
    maps = model.kinematics.closure_map(motion.q)
    levers = np.abs(maps).max(axis=0)
    largest = levers.max(axis=1, keepdims=True)
    return np.asarray(levers > MIN_LEVER_RATIO * largest)


def valid_equations(
    model: Model,
    motion: Motion,
    settings: Processing,
    *,
    periodic: bool = False,
) -> BoolArray:
    """Return which equations of a motion are valid, (t, r).

    Passive joints exclude only the samples inside their dead bands:
    their friction acts on all rows, and a window around their reversals
    would discard most of a log. Joints that are at rest most of the
    time exclude nothing.

    Args:
        periodic: The samples are one period of a motion that repeats.
    """
    valid = np.ones((len(motion), len(model.rows)), bool)
    bands = settings.bands(model.mechanism.coordinates)
    rows_of_joint = rows_with_coulomb(model)
    with_friction = joints_with_friction(model, settings)
    motors = [i for i in with_friction if i in model.actuated]
    passive = [i for i in with_friction if i not in model.actuated]
    motors_unknown = unknown_signs(
        motion.qd[:, motors],
        bands[motors],
        settings.excluded_samples(motion.rate),
        smear=settings.smeared_samples(motion.rate),
        periodic=periodic,
    )
    passive_unknown = unknown_signs(
        motion.qd[:, passive],
        bands[passive],
        0,
        periodic=periodic,
    )
    unknown = np.concatenate([motors_unknown, passive_unknown], axis=1)
    for k, joint_unknown in zip([*motors, *passive], unknown.T):
        valid[:, rows_of_joint[k]] &= ~joint_unknown[:, None]
    return valid


def joints_with_friction(model: Model, settings: Processing) -> list[int]:
    """Return the coordinates with Coulomb friction that are not at rest most of the time."""
    mechanism = model.mechanism
    at_rest = settings.joints_at_rest or ()
    joints = []
    for i, joint in enumerate(mechanism.joints):
        if mechanism.has_coulomb(joint) and joint.name not in at_rest:
            joints.append(i)
    return joints
