"""Fourier series, curves through samples, and any trajectory eased in and out of rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled(Trajectory):
    """A curve through samples.

    With velocity and acceleration given, the quintic that meets all three at every sample; otherwise a quintic
    interpolating spline of the positions (periodic if `repeats` is given), whose derivatives are the velocities.

    Args:
        time: Ascending from 0, (t,). [s]
        position, velocity, acceleration: (t, c); the latter two may be None. [m or rad, per s, per s2]
        repeats: Period, later than the last sample, or None for a motion that ends. [s]
    """

    kind: ClassVar[str] = "sampled"

    time: FloatArray
    position: FloatArray
    velocity: FloatArray | None = None
    acceleration: FloatArray | None = None
    repeats: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t = len(self.time)
        shape = (t, len(self.coordinates))
        check_shapes(self, position=shape, velocity=shape, acceleration=shape)
        if t < 6 or self.time[0] != 0 or (np.diff(self.time) <= 0).any():
            raise InvalidTrajectory("a sampled trajectory needs at least 6 samples at ascending times from 0 s; "
                                    f"got {t}" + (f" from {self.time[0]} s" if t else ""))
        if (self.velocity is None) != (self.acceleration is None):
            raise InvalidTrajectory("give velocity and acceleration, or neither")
        if self.repeats is not None and not (np.isfinite(self.repeats) and self.repeats > self.time[-1]):
            raise InvalidTrajectory(f"period is {self.repeats} s, expected later than the last sample at "
                                    f"{self.time[-1]} s; leave out the sample that repeats the first")

    @property
    def duration(self) -> float:
        """One period, or to the last sample. [s]"""
        return float(self.time[-1]) if self.repeats is None else self.repeats

    @property
    def period(self) -> float | None:
        return self.repeats

    def only(self, coordinates: Sequence[str]) -> Sampled:
        """Return the curve of some coordinates."""
        keep = self.columns(coordinates)
        parts = {name: getattr(self, name)[:, keep] for name in ("position", "velocity", "acceleration")
                 if getattr(self, name) is not None}
        return replace(self, coordinates=tuple(coordinates), units=tuple(self.units[i] for i in keep), **parts)

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c); at any time only if the motion repeats."""
        t = as_times(time)
        if self.repeats is not None:
            t = t % self.repeats
        elif len(t) and (t.min() < -1e-9 * self.duration or t.max() > (1 + 1e-9) * self.duration):
            raise InvalidTrajectory(f"time runs from {t.min():.6g} to {t.max():.6g} s, the samples from 0 to "
                                    f"{self.duration:.6g} s", duration=self.duration)
        t = np.clip(t, 0.0, self.duration)
        position, velocity, acceleration = (curve(t) for curve in self._curves)
        return position, velocity, acceleration

    @cached_property
    def _curves(self) -> tuple[Any, Any, Any]:
        def closed(values: FloatArray) -> FloatArray:
            return values if self.repeats is None else np.concatenate([values, values[:1]])

        time = self.time if self.repeats is None else np.append(self.time, self.repeats)
        if self.velocity is None or self.acceleration is None:
            from scipy.interpolate import make_interp_spline  # here, because it takes long to import

            curve = make_interp_spline(time, closed(self.position), k=5,
                                       bc_type=None if self.repeats is None else "periodic")
        else:
            curve = _quintic(time, closed(self.position), closed(self.velocity), closed(self.acceleration))
        return curve, curve.derivative(), curve.derivative(2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Eased(Trajectory):
    """Another trajectory along the same path, from rest to full speed within `ramp` and back to rest at its end.

    x(t) = base(s(t)); the pace ds/dt rises as 10 u^3 - 15 u^4 + 6 u^5 over the ramp, so velocity and acceleration
    vanish at start and end. Between the ramps the motion is the base, `ramp`/2 later. Before and after, it is held.

    Args:
        base: What to ease.
        ramp: Time to reach full speed, at most the duration of the base. [s]
    """

    kind: ClassVar[str] = "eased"

    base: Trajectory
    ramp: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.ramp, "ramp", "s")
        if (self.base.coordinates, self.base.units) != (self.coordinates, self.units):
            raise InvalidTrajectory(f"{self.coordinates} in {self.units} are eased from {self.base.coordinates} in "
                                    f"{self.base.units}; expected the same")
        if self.ramp > self.base.duration:
            raise InvalidTrajectory(f"ramp is {self.ramp:g} s, expected at most the duration of the base, "
                                    f"{self.base.duration:g} s", ramp=self.ramp)

    @property
    def duration(self) -> float:
        """The base and one ramp more. [s]"""
        return self.base.duration + self.ramp

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c): v = x' sd, a = x'' sd^2 + x' sdd."""
        t = as_times(time)
        late = t > self.duration / 2
        u = np.clip(np.where(late, self.duration - t, t) / self.ramp, 0.0, None)  # mirrored in the second half
        along, pace, change = smooth_start(u)
        s = np.where(late, self.base.duration - self.ramp * along, self.ramp * along)
        sd, sdd = pace[:, None], np.where(late, -change, change)[:, None] / self.ramp
        position, velocity, acceleration = self.base.at(s)
        return position, velocity * sd, acceleration * sd**2 + velocity * sdd


def smooth_start(u: FloatArray) -> PositionVelocityAcceleration:
    """Return path, pace and change of pace after u ramps from rest: 10 u^3 - 15 u^4 + 6 u^5, then full pace, (t,)."""
    v = np.minimum(u, 1.0)
    return (v**6 - 3 * v**5 + 2.5 * v**4 + u - v, 6 * v**5 - 15 * v**4 + 10 * v**3,
            30 * (v**4 - 2 * v**3 + v**2))


def ease(trajectory: Trajectory, ramp: float) -> Eased:
    """Return the trajectory eased from rest within `ramp` [s] and back to rest at its end."""
    return Eased(coordinates=trajectory.coordinates, units=trajectory.units, robot=trajectory.robot,
                 base=trajectory, ramp=ramp)


def _quintic(time: FloatArray, position: FloatArray, velocity: FloatArray, acceleration: FloatArray) -> Any:
    """Return the piecewise quintic through position, velocity and acceleration at every knot."""
    h = np.diff(time)[:, None]
    p0, v0, a0 = position[:-1], velocity[:-1] * h, acceleration[:-1] * h**2 / 2
    dp = position[1:] - p0 - v0 - a0
    dv = velocity[1:] * h - v0 - 2 * a0
    da = acceleration[1:] * h**2 - 2 * a0
    unit = [6 * dp - 3 * dv + da / 2, -15 * dp + 7 * dv - da, 10 * dp - 4 * dv + da / 2, a0, v0, p0]
    from scipy.interpolate import PPoly  # here, because it takes long to import

    return PPoly(np.stack([c / h**k for c, k in zip(unit, range(5, -1, -1))]), time)
