"""The pitch of a ripple: the spatial frequency that a residual has most of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray

RIPPLE_SAMPLES = 3000  # of a log in the search for the pitch of a ripple
MAX_RIPPLES = 150  # in the range of a joint
MIN_RIPPLES = 1.5  # below this a ripple looks the same as gravity
RIPPLE_STEP = 0.25  # between spatial frequencies, in ripples over the range


class Ripple(NamedTuple):
    """The strongest spatial frequency of a residual."""

    frequency: float  # [1/m or 1/rad]
    tried: int  # number of frequencies that it is the strongest of


def strongest_ripple(residual: FloatArray, position: FloatArray) -> Ripple:
    """Return the spatial frequency that a residual (t,) has most of, by a periodogram.

    Frequencies are equally spaced, so the phase factors of each are
    those of the one before times the same factors.

    Args:
        residual: Of the effort of a motor.
        position: Of the motor. [m or rad]
    """
    stride = max(1, len(residual) // RIPPLE_SAMPLES)
    residual = residual[::stride] - residual[::stride].mean()
    position = position[::stride]
    extent = float(np.ptp(position))
    if extent <= 0:
        return Ripple(0.0, 1)
    step = float(np.median(np.abs(np.diff(position))))
    highest = min(MAX_RIPPLES, 0.2 * extent / max(step, 1e-12 * extent))
    counts = np.arange(MIN_RIPPLES, max(highest, 2 * MIN_RIPPLES), RIPPLE_STEP)
    turns = (position - position.min()) / extent
    phase = np.exp(-2j * np.pi * MIN_RIPPLES * turns) * residual
    to_next = np.exp(-2j * np.pi * RIPPLE_STEP * turns)
    power = np.empty(len(counts))
    for k in range(len(counts)):
        power[k] = abs(phase.sum())
        phase *= to_next
    return Ripple(float(counts[int(np.argmax(power))]) / extent, len(counts))
