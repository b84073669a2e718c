"""The sign of a velocity near zero, the same everywhere.

Coulomb friction needs sign(qd), and where qd is smaller than its noise the sign is a coin toss. Two treatments, both
with the same dead band: interpolate the sign linearly inside it (`velocity_sign`, the default in estimation and
validation alike), or leave out the samples inside it (`outside_dead_band`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.logs.checks import quantisation_step
from gough.processing.filters import check_cutoff


def velocity_sign(qd: FloatArray, dead_band: ArrayLike) -> FloatArray:
    """Return sign(qd) with a linear passage through zero: qd / dead_band limited to [-1, 1].

    A dead band of zero gives the plain sign, 0 at zero velocity.

    Args:
        qd: Velocities, (t, ...). [m/s or rad/s]
        dead_band: Half width of the passage, one for all or one for each joint. [m/s or rad/s]
    """
    band = _checked(dead_band)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(band > 0, np.clip(qd / band, -1.0, 1.0), np.sign(qd))


def outside_dead_band(qd: FloatArray, dead_band: ArrayLike) -> NDArray[np.bool_]:
    """Tell where the sign of the velocity is beyond doubt: |qd| >= dead_band and not zero.

    Samples to keep for all joints are `outside_dead_band(qd, band).all(axis=1)`.
    """
    return np.asarray((np.abs(qd) >= _checked(dead_band)) & (qd != 0))


def _checked(dead_band: ArrayLike) -> FloatArray:
    band = np.asarray(dead_band, dtype=float)
    if not np.all(np.isfinite(band)) or np.any(band < 0):
        raise InvalidInput(f"dead band is {band}, expected velocities from zero")
    return band


def position_noise(position: FloatArray) -> FloatArray:
    """Return the standard deviation of the position noise of each joint, (t, a) -> (a,). [m or rad]

    From third differences, which a smooth motion hardly has: std = 1.4826 median |d3| / sqrt(20), exact for white
    Gaussian noise; at least step / sqrt(12) of a quantised sensor.
    """
    if len(position) < 16:
        raise InvalidInput(f"{len(position)} samples are too few to estimate noise; at least 16 are needed")
    third = np.diff(position, n=3, axis=0)
    scatter = 1.4826 * np.median(np.abs(third - np.median(third, axis=0)), axis=0) / np.sqrt(20.0)
    steps = [quantisation_step(column) or 0.0 for column in position.T]
    return np.asarray(np.maximum(scatter, np.asarray(steps) / np.sqrt(12.0)))


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


def default_dead_band(position: FloatArray, rate: float, cutoff: float, factor: float = 3.0) -> FloatArray:
    """Return a dead band of some standard deviations of the velocity noise for each joint, (a,). [m/s or rad/s]

    Args:
        position: Positions as recorded, before filtering, (t, a). [m or rad]
        rate: Sampling rate. [Hz]
        cutoff: Cut-off used on the positions. [Hz]
        factor: Standard deviations; 3 leaves one wrong sign in 700 at its edge.
    """
    return factor * velocity_noise(position_noise(position), rate, cutoff)
