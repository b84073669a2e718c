"""Fourier series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shapes
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory.base import WHOLE, PositionVelocityAcceleration, Trajectory, as_times, check_positive


@dataclass(frozen=True, kw_only=True, eq=False)
class Fourier(Trajectory):
    """A periodic motion by its Fourier coefficients, which are velocities, AH09 (12)-(15).

    x_i(t) = x0_i + sum_k (mu_ki sin(k w t) - nu_ki cos(k w t)) / (k w),  w = 2 pi frequency.

    Args:
        frequency: Fundamental frequency. [Hz]
        offset: x0, (c,). [m or rad]
        mu, nu: Cosine and sine coefficients of the velocity, (harmonics, c). [m/s or rad/s]
        periods: How often it is run.
    """

    kind: ClassVar[str] = "fourier"

    frequency: float
    offset: FloatArray
    mu: FloatArray
    nu: FloatArray
    periods: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.frequency, "fundamental frequency", "Hz")
        if not (isinstance(self.periods, int) and self.periods >= 1):
            raise InvalidTrajectory(f"number of periods is {self.periods}, expected a whole number of at least 1")
        c = len(self.coordinates)
        check_shapes(self, offset=(c,), mu=(None, c), nu=self.mu.shape)
        if not len(self.mu):
            raise InvalidTrajectory("a Fourier trajectory needs at least one harmonic")

    @property
    def harmonics(self) -> int:
        return len(self.mu)

    @property
    def duration(self) -> float:
        return self.periods / self.frequency

    @property
    def period(self) -> float:
        return 1 / self.frequency

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position (12), velocity (14) and acceleration (15) of AH09, each (t, c), at any time."""
        coefficients = np.vstack([self.offset, self.mu, self.nu])
        position, velocity, acceleration = (
            basis @ coefficients for basis in fourier_basis(as_times(time), self.frequency, self.harmonics))
        return position, velocity, acceleration

    def on_rate(self, rate: float) -> Fourier:
        """Return the trajectory with a period of a whole number of controller samples at a rate. [Hz]

        The frequency moves to the nearest one that fits; the coefficients (velocities) stay, so positions about the
        offset scale by less than half a sample per period.
        """
        check_positive(rate, "sampling rate", "Hz")
        samples = rate / self.frequency
        whole = round(samples)
        if whole < 2 * self.harmonics + 1:
            raise InvalidTrajectory(
                f"a period has {samples:.6g} samples at {rate:g} Hz, expected at least {2 * self.harmonics + 1} for "
                f"{self.harmonics} harmonics; lower the frequency or raise the rate", samples=samples)
        return self if abs(samples - whole) <= WHOLE else replace(self, frequency=rate / whole)


def fourier_basis(time: FloatArray, frequency: float, harmonics: int) -> PositionVelocityAcceleration:
    """Return position, velocity and acceleration by (offset, mu, nu) at some times, each (t, 1 + 2 harmonics).

    AH09 (12), (14), (15): [1, sin(k w t) / (k w), -cos(k w t) / (k w)] and its derivatives, w = 2 pi frequency.
    """
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)  # [rad/s]
    angle = time[:, None] * kw
    c, s = np.cos(angle), np.sin(angle)
    one, none = np.ones((len(time), 1)), np.zeros((len(time), 1))
    return np.hstack([one, s / kw, -c / kw]), np.hstack([none, c, s]), np.hstack([none, -s * kw, c * kw])


def rest_basis(harmonics: int) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal bases of the mu and of the nu that start at rest, each (harmonics, harmonics - 1)."""
    if harmonics < 2:
        raise InvalidTrajectory(f"{harmonics} harmonic cannot start at rest; use two or more, or ease the trajectory "
                                "in and out", harmonics=harmonics)
    normals = np.ones((harmonics, 1)), np.arange(1.0, harmonics + 1)[:, None]
    mu, nu = (np.linalg.qr(normal, mode="complete")[0][:, 1:] for normal in normals)
    return mu, nu
