"""Paths of experiments in the papers: circles, single sines and moves between points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidTrajectory
from gough.core.trajectory import (
    Fourier,
    PositionVelocityAcceleration,
    Trajectory,
    as_times,
    check_positive,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PointToPoint(Trajectory):
    """Straight moves between waypoints, at rest in each; before and after, the first and last are
    held.

    s(u) = 10 u^3 - 15 u^4 + 6 u^5 (quintic: zero velocity and acceleration at the ends) or
    s(u) = 35 u^4 - 84 u^5 + 70 u^6 - 20 u^7 (septic: zero jerk as well).

    Args:
        waypoints: (w, c), at least two. [m or rad]
        moves: Time of each move, (w - 1,). [s]
        dwells: Time spent at each waypoint, (w,). [s]
        profile: 'quintic' or 'septic'.
    """

    kind: ClassVar[str] = "point-to-point"
    profiles: ClassVar[dict[str, tuple[float, ...]]] = {  # highest power first
        "quintic": (6, -15, 10, 0, 0, 0),
        "septic": (-20, 70, -84, 35, 0, 0, 0, 0),
    }

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
            raise InvalidTrajectory(
                "point-to-point motion needs at least two waypoints, positive move times and "
                f"dwell times of at least zero; got {w} waypoints, moves {self.moves.tolist()} s, "
                f"dwells {self.dwells.tolist()} s"
            )
        if self.profile not in self.profiles:
            raise InvalidTrajectory(
                f"profile is '{self.profile}', expected one of {', '.join(self.profiles)}"
            )

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
        return (
            self.waypoints[leg] + step * shape(u)[:, None],
            step * (shape.deriv()(u) / length)[:, None],
            step * (shape.deriv(2)(u) / length**2)[:, None],
        )


def sines(
    *,
    coordinates: Iterable[str],
    units: Iterable[str],
    center: ArrayLike,
    amplitude: ArrayLike,
    frequency: float,
    periods: int = 1,
    robot: str = "",
) -> Fourier:
    """Return center + amplitude sin(2 pi f t) in each coordinate: S20 (23) with 0.2 m, 0.2 m, 0.2
    deg and 0.5 Hz.

    Args:
        coordinates, units, robot: As in `Trajectory`.
        center: (c,). [m or rad]
        amplitude: (c,). [m or rad]
        frequency: [Hz]
        periods: How often it is run.
    """
    check_positive(frequency, "frequency", "Hz")
    velocity = 2 * np.pi * frequency * np.atleast_1d(np.asarray(amplitude, dtype=float))[None, :]
    return Fourier(
        coordinates=tuple(coordinates),
        units=tuple(units),
        robot=robot,
        frequency=frequency,
        offset=np.asarray(center, dtype=float),
        mu=velocity,
        nu=np.zeros_like(velocity),
        periods=periods,
    )


def circle(
    *,
    coordinates: Iterable[str],
    units: Iterable[str],
    center: ArrayLike,
    plane: tuple[str, str],
    radius: float,
    frequency: float,
    periods: int = 1,
    robot: str = "",
) -> Fourier:
    """Return a circle at constant speed, from center + (radius, 0) towards the second coordinate of
    the plane.

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
    rest = sines(
        coordinates=coordinates,
        units=units,
        center=center,
        amplitude=np.zeros(np.shape(center)),
        frequency=frequency,
        periods=periods,
        robot=robot,
    )
    first, second = rest.columns(plane)
    if first == second:
        raise InvalidTrajectory(
            f"the plane of the circle is {plane}, expected two different coordinates"
        )
    speed = 2 * np.pi * frequency * radius
    mu, nu = np.zeros_like(rest.mu), np.zeros_like(rest.nu)
    nu[0, first], mu[0, second] = -speed, speed
    return replace(rest, mu=mu, nu=nu)
