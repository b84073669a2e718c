"""Equations that do not count: where the sign of a joint's velocity does not tell its friction.

Where a motor reverses, the low-pass of the positions smears the instant; where it stands, friction
takes any value up to fs; within the noise of a velocity, its dead band, the sign says nothing. This
spoils the equations that contain its friction and no others: those with E_j != 0 in qd = E qd_I,
which for a motor that is a row is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.statistics import robust_scale
from gough.engine import Model
from gough.engine.base import random_motion
from gough.logs.checks import quantisation_step
from gough.processing.averaging import independent_motor_columns
from gough.processing.filters import check_cutoff
from gough.processing.settings import Processing, whole_samples

TOUCHES = 1e-9  # of a joint's largest lever: what is smaller is rounding
SIGMAS = 3.0  # of the velocity noise in a dead band: one wrong sign in 700 at its edge
# of a position: never without a band, so that the velocity of a joint at rest has no sign
ROUNDING = 1e-12


def position_noise(position: FloatArray) -> FloatArray:
    """Return the standard deviation of the position noise of each joint, (t, a) -> (a,). [m or rad]

    From third differences, which a smooth motion hardly has: std = median |d3| / (0.6745 sqrt(20));
    at least step / sqrt(12) of a quantised sensor. Differences of zero, where a joint stands, tell
    nothing.
    """
    if len(position) < 16:
        raise InvalidInput(
            f"{len(position)} samples are too few to estimate noise; at least 16 are needed"
        )
    noise = []
    for column in position.T:
        third = np.diff(column, n=3)
        third = third[third != 0]
        scatter = float(robust_scale(third)) / np.sqrt(20.0) if len(third) else 0.0
        step = quantisation_step(column) or 0.0
        noise.append(max(scatter, step / np.sqrt(12.0), ROUNDING * float(np.abs(column).max())))
    return np.array(noise)


def velocity_noise(noise: ArrayLike, rate: float, cutoff: float) -> FloatArray:
    """Return the standard deviation of velocities from positions with white noise (a,), low-passed
    at a cut-off.

    std_v^2 = std^2 (2 / rate) int_0^fc (2 pi f)^2 df = std^2 (8 pi^2 / 3) fc^3 / rate.
    """
    check_cutoff(cutoff, rate)
    return np.asarray(np.asarray(noise) * np.sqrt(8.0 * np.pi**2 / 3.0 * cutoff**3 / rate))


def dead_bands(
    model: Model, motions: Sequence[Motion], speeds: Sequence[FloatArray]
) -> dict[str, float]:
    """Return the dead band of every joint, the widest of several logs.

    `SIGMAS` standard deviations of the motors' velocities in each log (a,), carried through the
    closure to passive joints.
    """
    bands = np.zeros(len(model.mechanism.joints))
    for motion, speed in zip(motions, speeds):
        maps = model.kinematics.closure_map(motion.q[:: max(1, len(motion) // 50)], "actuated")
        bands = np.maximum(
            bands,
            SIGMAS
            * np.sqrt(
                ((maps * speed[independent_motor_columns(model)]) ** 2).sum(axis=2).max(axis=0)
            ),
        )
    return dict(zip(model.mechanism.coordinates, bands.tolist()))


def smeared_samples(settings: Processing, rate: float) -> int:
    """Return over how many samples the low-pass of the positions smears the end of a standstill: 1
    / (2 cut-off).
    """
    return 0 if settings.cutoff is None else whole_samples(rate / (2 * settings.cutoff))


def spoilt_samples(
    speed: FloatArray, band: FloatArray, reach: int, *, smear: int = 0, around: bool = False
) -> BoolArray:
    """Tell where velocities (t, k) say nothing about friction, (t, k).

    Inside their dead bands (k,); with a reach, within so many samples of there or of a change of
    sign; and within as many as a filter smears of a longer standstill. A period that repeats goes
    on `around` its ends.
    """
    mode = "wrap" if around else "constant"
    bad = np.abs(speed) < band
    smear = min(smear, len(speed) // 4)
    stands = maximum_filter1d(
        minimum_filter1d(bad, 2 * smear + 1, axis=0, mode=mode), 4 * smear + 1, axis=0, mode=mode
    )
    if reach:
        turned = np.signbit(speed) != np.signbit(np.roll(speed, 1, axis=0))
        turned[0] &= around
        bad |= turned | np.roll(turned, -1, axis=0)  # the samples on both sides of the reversal
        bad = maximum_filter1d(bad, 2 * min(reach, len(speed)) + 1, axis=0, mode=mode)
    return np.asarray(bad | stands)


@lru_cache(maxsize=16)
def rows_with_coulomb(model: Model) -> BoolArray:
    """Tell which rows contain the friction of each coordinate: E_j != 0 anywhere, (n, r)."""
    levers = np.abs(model.kinematics.closure_map(random_motion(model, 8, seed=0).q)).max(axis=0)
    return np.asarray(levers > TOUCHES * levers.max(axis=1, keepdims=True))


def valid_equations(
    model: Model, motion: Motion, settings: Processing, reach: int, *, around: bool = False
) -> BoolArray:
    """Return which equations of a motion, or of a period that repeats, count, (t, r).

    As many samples as `reach` on both sides of a motor's reversal or standstill do not count
    either; of passive joints they do, which rub a little in all rows: it would be most of a log.
    """
    counts = np.ones((len(motion), len(model.rows)), bool)
    bands, rubbed = settings.bands(model.mechanism.coordinates), rows_with_coulomb(model)
    rubbing = [
        i
        for i, joint in enumerate(model.mechanism.joints)
        if model.mechanism.has_coulomb(joint) and joint.name not in (settings.joints_at_rest or ())
    ]
    motors = [i for i in rubbing if i in model.actuated]
    passive = [i for i in rubbing if i not in model.actuated]
    rate = (len(motion) - 1) / float(motion.time[-1] - motion.time[0]) if len(motion) > 1 else 1.0
    for joints, beyond, smear in (
        (motors, reach, smeared_samples(settings, rate)),
        (passive, 0, 0),
    ):
        spoilt = spoilt_samples(
            motion.qd[:, joints], bands[joints], beyond, smear=smear, around=around
        )
        for bad, rows in zip(spoilt.T, rubbed[joints]):
            counts[:, rows] &= ~bad[:, None]
    return counts
