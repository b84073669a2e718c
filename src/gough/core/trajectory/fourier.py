"""Fourier series, with circles and single sines as special cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory.base import WHOLE, PositionVelocityAcceleration, Trajectory, as_times, check_positive


@dataclass(frozen=True, kw_only=True, eq=False)
class Fourier(Trajectory):
    """A periodic motion by its Fourier coefficients, which are velocities, AH09 (12)-(15).

    x_i(t) = x0_i + sum_k (mu_ki sin(k w t) - nu_ki cos(k w t)) / (k w),  w = 2 pi frequency.

    Args:
        frequency: Fundamental frequency. [Hz]
        offset: x0, (c,). [m or rad]
        mu: Cosine coefficients of the velocity, (harmonics, c). [m/s or rad/s]
        nu: Sine coefficients of the velocity, (harmonics, c). [m/s or rad/s]
        periods: How often it is run.
    """

    kind: ClassVar[str] = "fourier"
    arrays: ClassVar[tuple[str, ...]] = ("offset", "mu", "nu")

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
        check_shape(self.offset, (c,), "offset")
        check_shape(self.mu, (None, c), "mu")
        check_shape(self.nu, self.mu.shape, "nu")
        if not len(self.mu):
            raise InvalidTrajectory("a Fourier trajectory needs at least one harmonic")

    @property
    def harmonics(self) -> int:
        """Number of harmonics."""
        return len(self.mu)

    @property
    def duration(self) -> float:
        """All periods. [s]"""
        return self.periods / self.frequency

    @property
    def period(self) -> float:
        """1 / frequency. [s]"""
        return 1 / self.frequency

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position (12), velocity (14) and acceleration (15) of AH09, each (t, c), at any time."""
        coefficients = np.vstack([self.offset, self.mu, self.nu])
        position, velocity, acceleration = (
            basis @ coefficients for basis in fourier_basis(as_times(time), self.frequency, self.harmonics))
        return position, velocity, acceleration

    def on_rate(self, rate: float, *, adjust: bool = True) -> Fourier:
        """Return the trajectory with a period of a whole number of controller samples.

        The frequency moves to the nearest one that fits; the coefficients (velocities) stay, so positions about the
        offset scale by less than half a sample per period.

        Args:
            rate: Sampling rate of the controller. [Hz]
            adjust: Move the frequency; otherwise only check it.

        Raises:
            InvalidTrajectory: The period does not fit and may not be adjusted, or is too short for its harmonics.
        """
        check_positive(rate, "sampling rate", "Hz")
        samples = rate / self.frequency
        whole = round(samples)
        if whole < 2 * self.harmonics + 1:
            raise InvalidTrajectory(
                f"a period has {samples:.6g} samples at {rate:g} Hz, expected at least {2 * self.harmonics + 1} for "
                f"{self.harmonics} harmonics; lower the frequency or raise the rate", samples=samples)
        if abs(samples - whole) <= WHOLE:
            return self
        if not adjust:
            raise InvalidTrajectory(
                f"a period of {self.period:.9g} s has {samples:.9g} samples at {rate:g} Hz, expected a whole number; "
                f"use a frequency of {rate / whole:.12g} Hz or call on_rate", samples=samples)
        return replace(self, frequency=rate / whole)

    def at_rest(self) -> Fourier:
        """Return the nearest trajectory with zero velocity and acceleration at the start and end of each period.

        sum_k mu_k = 0 and sum_k k nu_k = 0; the coefficients are projected onto these conditions.

        Raises:
            InvalidTrajectory: One harmonic alone cannot start at rest; use two or more, or `Eased`.
        """
        mu_basis, nu_basis = rest_basis(self.harmonics)
        return replace(self, mu=mu_basis @ (mu_basis.T @ self.mu), nu=nu_basis @ (nu_basis.T @ self.nu))


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


def sines(*, coordinates: Iterable[str], units: Iterable[str], center: ArrayLike, amplitude: ArrayLike,
          frequency: float, periods: int = 1, robot: str = "") -> Fourier:
    """Return center + amplitude sin(2 pi f t) in each coordinate: S20 (23) with 0.2 m, 0.2 m, 0.2 deg and 0.5 Hz.

    Args:
        coordinates, units, robot: As in `Trajectory`.
        center: (c,). [m or rad]
        amplitude: (c,). [m or rad]
        frequency: [Hz]
        periods: How often it is run.
    """
    check_positive(frequency, "frequency", "Hz")
    velocity = 2 * np.pi * frequency * np.atleast_1d(np.asarray(amplitude, dtype=float))[None, :]
    return Fourier(coordinates=tuple(coordinates), units=tuple(units), robot=robot, frequency=frequency,
                   offset=np.asarray(center, dtype=float), mu=velocity, nu=np.zeros_like(velocity), periods=periods)


def circle(*, coordinates: Iterable[str], units: Iterable[str], center: ArrayLike, plane: tuple[str, str],
           radius: float, frequency: float, periods: int = 1, robot: str = "") -> Fourier:
    """Return a circle at constant speed, from center + (radius, 0) towards the second coordinate of the plane.

    Args:
        coordinates, units, robot: As in `Trajectory`; those outside the plane stay at the center.
        center: (c,). [m or rad]
        plane: Names of the two coordinates that move.
        radius: [unit of the plane's coordinates]
        frequency: Turns per second. [Hz]
        periods: Turns.
    """
    check_positive(frequency, "frequency", "Hz")
    check_positive(radius, "radius", "m or rad")
    rest = sines(coordinates=coordinates, units=units, center=center, amplitude=np.zeros(np.shape(center)),
                 frequency=frequency, periods=periods, robot=robot)
    first, second = rest.columns(plane)
    if first == second:
        raise InvalidTrajectory(f"the plane of the circle is {plane}, expected two different coordinates")
    speed = 2 * np.pi * frequency * radius
    mu, nu = np.zeros_like(rest.mu), np.zeros_like(rest.nu)
    nu[0, first], mu[0, second] = -speed, speed
    return replace(rest, mu=mu, nu=nu)
