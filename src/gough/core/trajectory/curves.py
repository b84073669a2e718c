"""Point-to-point moves, curves through samples, and any trajectory eased in and out of rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PPoly, make_interp_spline

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory.base import PositionVelocityAcceleration, Trajectory, as_times, check_positive


@dataclass(frozen=True, kw_only=True, eq=False)
class PointToPoint(Trajectory):
    """Straight moves between waypoints, at rest in each; before and after, the first and last are held.

    s(u) = 10 u^3 - 15 u^4 + 6 u^5 (quintic: zero velocity and acceleration at the ends) or
    s(u) = 35 u^4 - 84 u^5 + 70 u^6 - 20 u^7 (septic: zero jerk as well).

    Args:
        waypoints: (w, c), at least two. [m or rad]
        moves: Time of each move, (w - 1,). [s]
        dwells: Time spent at each waypoint, (w,). [s]
        profile: 'quintic' or 'septic'.
    """

    kind: ClassVar[str] = "point-to-point"
    arrays: ClassVar[tuple[str, ...]] = ("waypoints", "moves", "dwells")
    profiles: ClassVar[dict[str, tuple[float, ...]]] = {  # highest power first
        "quintic": (6, -15, 10, 0, 0, 0), "septic": (-20, 70, -84, 35, 0, 0, 0, 0)}

    waypoints: FloatArray
    moves: FloatArray
    dwells: FloatArray
    profile: str = "quintic"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.waypoints, (None, len(self.coordinates)), "waypoints")
        w = len(self.waypoints)
        check_shape(self.moves, (max(w - 1, 0),), "moves")
        check_shape(self.dwells, (w,), "dwells")
        if w < 2 or (self.moves <= 0).any() or (self.dwells < 0).any():
            raise InvalidTrajectory("point-to-point motion needs at least two waypoints, positive move times and "
                                    f"dwell times of at least zero; got {w} waypoints, moves {self.moves.tolist()} s, "
                                    f"dwells {self.dwells.tolist()} s")
        if self.profile not in self.profiles:
            raise InvalidTrajectory(f"profile is '{self.profile}', expected one of {', '.join(self.profiles)}")

    @property
    def duration(self) -> float:
        """Moves and dwells. [s]"""
        return float(self.moves.sum() + self.dwells.sum())

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c)."""
        starts = np.cumsum(self.dwells[:-1]) + np.concatenate([[0.0], np.cumsum(self.moves[:-1])])
        t = as_times(time)
        leg = np.clip(np.searchsorted(starts, t, side="right") - 1, 0, len(starts) - 1)
        length = self.moves[leg]
        u = np.clip((t - starts[leg]) / length, 0.0, 1.0)
        shape = np.poly1d(self.profiles[self.profile])
        step = self.waypoints[leg + 1] - self.waypoints[leg]
        return (self.waypoints[leg] + step * shape(u)[:, None],
                step * (shape.deriv()(u) / length)[:, None],
                step * (shape.deriv(2)(u) / length**2)[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled(Trajectory):
    """A curve through samples.

    With velocity and acceleration given, the quintic that meets all three at every sample; otherwise a quintic
    interpolating spline of the positions (periodic if `repeats` is given), whose derivatives are the velocities.

    Args:
        time: Ascending from 0, (t,). [s]
        position: (t, c). [m or rad]
        velocity: (t, c), or None. [m/s or rad/s]
        acceleration: (t, c), or None. [m/s2 or rad/s2]
        repeats: Period, later than the last sample, or None for a motion that ends. [s]
    """

    kind: ClassVar[str] = "sampled"
    arrays: ClassVar[tuple[str, ...]] = ("time", "position", "velocity", "acceleration")

    time: FloatArray
    position: FloatArray
    velocity: FloatArray | None = None
    acceleration: FloatArray | None = None
    repeats: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t = len(self.time)
        for name in ("position", "velocity", "acceleration"):
            if getattr(self, name) is not None:
                check_shape(getattr(self, name), (t, len(self.coordinates)), name)
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
        """As given by `repeats`. [s]"""
        return self.repeats

    def only(self, coordinates: Sequence[str]) -> Sampled:
        """Return the curve of some coordinates."""
        keep = self.columns(coordinates)
        parts = {name: getattr(self, name)[:, keep] for name in self.arrays[1:] if getattr(self, name) is not None}
        return replace(self, coordinates=tuple(coordinates), units=tuple(self.units[i] for i in keep), **parts)

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c).

        Raises:
            InvalidTrajectory: A time outside a motion that does not repeat.
        """
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

    @property
    def steady(self) -> tuple[float, float]:
        """Start and end of the stretch in which the base runs at full speed. [s]"""
        return self.ramp, self.base.duration

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
    return PPoly(np.stack([c / h**k for c, k in zip(unit, range(5, -1, -1))]), time)
