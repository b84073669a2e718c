"""Curves through samples, and any trajectory eased in and out of rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shapes
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory.base import PositionVelocityAcceleration, Trajectory, as_times, check_positive


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
