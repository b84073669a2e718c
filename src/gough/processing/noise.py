"""Noise of recorded positions, what it makes of velocities, and the dead bands of the velocity sign that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.statistics import robust_scale
from gough.engine import Model
from gough.logs.checks import quantisation_step
from gough.logs.recording import Recording
from gough.processing.averaging import average_periods
from gough.processing.filters import check_cutoff

SIGMAS = 3.0  # of the velocity noise in a dead band: one wrong sign in 700 at its edge
ROUNDING = 1e-12  # of a position: never without a band, so that the velocity of a joint at rest has no sign


def position_noise(position: FloatArray) -> FloatArray:
    """Return the standard deviation of the position noise of each joint, (t, a) -> (a,). [m or rad]

    From third differences, which a smooth motion hardly has: std = median |d3| / (0.6745 sqrt(20)), exact for white
    Gaussian noise; at least step / sqrt(12) of a quantised sensor. Where a joint stands, a quantised sensor shows no
    noise at all: differences that are zero tell nothing and are left out.
    """
    if len(position) < 16:
        raise InvalidInput(f"{len(position)} samples are too few to estimate noise; at least 16 are needed")
    noise = []
    for column in position.T:
        third = np.diff(column, n=3)
        third = third[third != 0]
        scatter = float(robust_scale(third)) / np.sqrt(20.0) if len(third) else 0.0
        noise.append(max(scatter, (quantisation_step(column) or 0.0) / np.sqrt(12.0),
                         ROUNDING * float(np.abs(column).max())))
    return np.array(noise)


def noise_again(recording: Recording, rng: np.random.Generator) -> Recording:
    """Return a recording with white noise of the size that its positions already have added to them.

    That is what third differences show; of repeated motions, what differs between periods if that is less: periods may
    also differ because the motion has not settled, which is no noise of a sensor.
    """
    size = position_noise(recording.position)
    if recording.period_count >= 2:
        size = np.minimum(size, np.sqrt(np.diag(average_periods(recording).position_covariance)))
    return replace(recording, position=recording.position + size * rng.standard_normal(recording.position.shape))


def velocity_noise(noise: ArrayLike, rate: float, cutoff: float) -> FloatArray:
    """Return the standard deviation of velocities from positions with white noise, low-passed at a cut-off.

    std_v^2 = std^2 (2 / rate) int_0^fc (2 pi f)^2 df = std^2 (8 pi^2 / 3) fc^3 / rate.

    Args:
        noise: Standard deviation of the positions, (a,). [m or rad]
        rate: Sampling rate. [Hz]
        cutoff: Cut-off of the low-pass. [Hz]
    """
    check_cutoff(cutoff, rate)
    return np.asarray(np.asarray(noise, dtype=float) * np.sqrt(8.0 * np.pi**2 / 3.0 * cutoff**3 / rate))


def dead_bands(model: Model, motions: Sequence[Motion], speeds: Sequence[FloatArray]) -> dict[str, float]:
    """Return the dead band of every joint from the velocity noise of several logs, the widest of them.

    `SIGMAS` standard deviations, carried through the closure to passive joints.

    Args:
        model: The robot.
        motions: Motion in each log, or a part of it.
        speeds: Noise of the velocities of the actuated joints in each log, (a,). [m/s or rad/s]
    """
    independent = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
    bands = np.zeros(len(model.mechanism.joints))
    for motion, speed in zip(motions, speeds):
        maps = model.kinematics.closure_map(motion.q[::max(1, len(motion) // 50)], "actuated")
        bands = np.maximum(bands, SIGMAS * np.sqrt(((maps * speed[independent]) ** 2).sum(axis=2).max(axis=0)))
    return dict(zip(model.mechanism.coordinates, bands.tolist()))
