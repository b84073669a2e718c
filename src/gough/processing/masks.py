"""Equations that do not count: where the sign of a joint's velocity does not tell its friction.

Where a motor reverses, friction passes from -fs to fs within microns, the controller rings, and the low-pass of the
positions smears the instant; where it stands, friction takes any value up to fs. This spoils the equations that contain
its friction and no others: those with E_j != 0 in qd = E qd_I, which for a motor that is a row is its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from gough.core.arrays import BoolArray, FloatArray
from gough.core.motion import Motion
from gough.engine import Model
from gough.engine.base import random_motion
from gough.processing.settings import Processing

TOUCHES = 1e-9  # of a joint's largest lever: what is smaller is rounding


def smeared_samples(settings: Processing, rate: float) -> int:
    """Return over how many samples the low-pass of the positions smears the end of a standstill: 1 / (2 cut-off)."""
    return 0 if settings.cutoff is None else round(rate / (2 * settings.cutoff))


def spoilt_samples(speed: FloatArray, band: FloatArray, reach: int, *, smear: int = 0,
                   around: bool = False) -> BoolArray:
    """Tell where a velocity says nothing about friction, (t, k).

    Inside its dead band; with a reach, within so many samples of there or of a change of sign; and within so many
    samples as a filter smears of a standstill that lasts longer than that on both sides: friction is not yet what the
    smeared velocity says.

    Args:
        speed: Velocities, (t, k). [m/s or rad/s]
        band: Dead bands, (k,). [m/s or rad/s]
        reach: Samples on both sides.
        smear: Samples over which filters smear the end of a standstill.
        around: The samples are a period that repeats.
    """
    mode = "wrap" if around else "constant"
    bad = np.abs(speed) < band
    smear = min(smear, len(speed) // 4)
    stands = maximum_filter1d(minimum_filter1d(bad, 2 * smear + 1, axis=0, mode=mode), 4 * smear + 1, axis=0, mode=mode)
    if reach:
        turned = np.signbit(speed) != np.signbit(np.roll(speed, 1, axis=0))
        if not around:
            turned[0] = False
        bad |= turned | np.roll(turned, -1, axis=0)  # the samples on both sides of the reversal
        reach = min(reach, len(speed))
        bad = maximum_filter1d(bad, 2 * reach + 1, axis=0, mode=mode)
    return np.asarray(bad | stands)


@lru_cache(maxsize=16)
def rubbed_rows(model: Model) -> BoolArray:
    """Tell which rows contain the friction of each coordinate: E_j != 0 anywhere, (n, r)."""
    levers = np.abs(model.kinematics.closure_map(random_motion(model, 8, seed=0).q)).max(axis=0)
    return np.asarray(levers > TOUCHES * levers.max(axis=1, keepdims=True))


def counting_rows(model: Model, motion: Motion, settings: Processing, reach: int, *,
                  around: bool = False) -> BoolArray:
    """Return which equations of a motion count, (t, r).

    Args:
        model: The robot.
        motion: Of all coordinates, (t, n).
        settings: Dead bands, and the joints that hardly ever move.
        reach: Samples on both sides of a motor's reversal or standstill that do not count either. A passive joint rubs
            in all rows, so what is about its reversals would be most of a log, and its friction is small beside the
            motors'.
        around: The motion is a period that repeats.
    """
    counts = np.ones((len(motion), len(model.rows)), bool)
    bands, rubbed = settings.bands(model.mechanism.coordinates), rubbed_rows(model)
    rubbing = [i for i, joint in enumerate(model.mechanism.joints)
               if model.mechanism.rubs(joint) and joint.name not in (settings.standing or ())]
    motors = [i for i in rubbing if i in model.actuated]
    passive = [i for i in rubbing if i not in model.actuated]
    rate = (len(motion) - 1) / float(motion.time[-1] - motion.time[0]) if len(motion) > 1 else 1.0
    smear = smeared_samples(settings, rate)
    for joints, beyond, late in ((motors, reach, smear), (passive, 0, 0)):
        spoilt = spoilt_samples(motion.qd[:, joints], bands[joints], beyond, smear=late, around=around)
        for bad, rows in zip(spoilt.T, rubbed[joints]):
            counts[:, rows] &= ~bad[:, None]
    return counts
