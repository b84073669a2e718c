"""Trajectories: position, velocity and acceleration of named coordinates, in closed form."""

from __future__ import annotations

import csv
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import (
    FloatArray,
    check_finite,
    check_shape,
    check_shapes,
)
from gough.core.display import stacked_axes
from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidTrajectory, nearest
from gough.core.files import MAX_TABLE_BYTES, read_text, write_json, write_text
from gough.core.record import Record

TRAJECTORY_FORMAT = 1  # version of trajectory files
# difference of a period from a whole number of samples [samples]
PERIOD_TOLERANCE = 1e-6
# the same relative to the samples of a period, for very long ones
PERIOD_ROUNDING = 1e-12
MIN_SAMPLES = 6  # of a sampled trajectory: a quintic has six coefficients
TIME_ROUNDING = 1e-9  # by which times may exceed the duration, relative to it
# Signals of a coordinate, each with what follows the coordinate's unit
# in its unit.
SIGNAL_UNITS = {"position": "", "velocity": "/s", "acceleration": "/s2"}

PositionVelocityAcceleration = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory(Record, ABC):
    """A motion of named coordinates (e.g. `platform.x`, `leg1.slider`) from 0 to `duration`."""

    kind: ClassVar[str]  # names the class in files

    coordinates: tuple[str, ...]  # (c,)
    units: tuple[str, ...]  # of each coordinate, m or rad, (c,)
    robot: str = ""  # that it was made for; empty for any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.coordinates or len(set(self.coordinates)) != len(self.coordinates):
            raise InvalidTrajectory(
                f"coordinates are {self.coordinates}, expected at least one name and none twice"
            )
        check_shapes(self, units=(len(self.coordinates),))
        for name, unit in zip(self.coordinates, self.units):
            if unit not in ("m", "rad"):
                raise InvalidTrajectory(
                    f"unit of '{name}' is '{unit}', expected 'm' or 'rad'; convert the numbers "
                    "first",
                    name=name,
                )
        for name, content in vars(self).items():
            if isinstance(content, np.ndarray):
                check_finite(content, name)

    @property
    @abstractmethod
    def duration(self) -> float:
        """Length of the motion. [s]"""

    @property
    def period(self) -> float | None:
        """Time after which the motion repeats, or None. [s]"""
        return None

    @abstractmethod
    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c), at the times (t,). [SI]"""

    def times(self, rate: float) -> FloatArray:
        """Return the sample times of a controller over the motion, (t,). [s]

        A periodic motion ends one sample before it repeats, so that no
        sample is doubled when periods follow each other.

        Args:
            rate: Sampling rate. [Hz]
        """
        check_positive(rate, "sampling rate", "Hz")
        duration = self.duration * rate  # [samples]
        if self.period is None:
            return np.arange(int(np.floor(duration + PERIOD_TOLERANCE)) + 1) / rate
        period = self.period * rate  # [samples]
        tolerance = max(PERIOD_TOLERANCE, PERIOD_ROUNDING * period)
        if period < 2 - PERIOD_TOLERANCE or abs(period - round(period)) > tolerance:
            raise InvalidTrajectory(
                f"a period of {self.period:.9g} s has {period:.9g} samples at {rate:g} Hz, "
                "expected a whole number of at least 2, so that periods join; choose a rate that "
                "fits, or change the frequency (Fourier.on_rate)",
                samples=period,
            )
        return np.arange(round(duration)) / rate

    def columns(self, coordinates: Iterable[str]) -> list[int]:
        """Return the columns of some coordinates."""
        names = list(coordinates)
        for name in names:
            if name not in self.coordinates:
                raise InvalidTrajectory(
                    f"the trajectory has no coordinate '{name}'{nearest(name, self.coordinates)}",
                    name=name,
                )
        return [self.coordinates.index(name) for name in names]

    def table(self, rate: float = 200.0) -> dict[str, FloatArray]:
        """Return columns with time, position, velocity and acceleration of each coordinate.

        Headings include the units: `time [s]`, `leg1.slider.position
        [m]`, `leg1.slider.velocity [m/s]`, ...

        Args:
            rate: Sampling rate. [Hz]
        """
        time = self.times(rate)
        signals = dict(zip(SIGNAL_UNITS, self.at(time)))
        columns = {"time [s]": time}
        for k, (name, unit) in enumerate(zip(self.coordinates, self.units)):
            for signal, values in signals.items():
                columns[_heading(name, signal, unit)] = values[:, k]
        return columns

    def plot(self, rate: float = 200.0) -> Any:
        """Draw position, velocity and acceleration of all coordinates; returns the axes."""
        time = self.times(rate)
        axes = stacked_axes(list(SIGNAL_UNITS))
        for signal_axes, values in zip(axes, self.at(time)):
            for name, unit, column in zip(self.coordinates, self.units, values.T):
                signal_axes.plot(time, column, label=f"{name} [{unit}]")
        axes[0].legend(loc="upper right", fontsize="small")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        content: dict[str, Any] = {
            "format": TRAJECTORY_FORMAT,
            "kind": self.kind,
        }
        for field in fields(self):
            attribute = getattr(self, field.name)
            if isinstance(attribute, Trajectory):
                attribute = attribute.to_dict()
            elif isinstance(attribute, np.ndarray):
                attribute = attribute.tolist()
            content[field.name] = attribute
        return content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trajectory as JSON; `load_trajectory` reads it."""
        write_json(path, self.to_dict())

    def to_csv(self, path: str | os.PathLike[str], rate: float) -> None:
        """Write `table`, one line per controller sample."""
        columns = self.table(rate)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(np.column_stack(list(columns.values())).tolist())
        write_text(path, text.getvalue())


def _heading(name: str, signal: str, unit: str) -> str:
    """Return the heading of a column, e.g. `leg1.slider.velocity [m/s]`."""
    return f"{name}.{signal} [{unit}{SIGNAL_UNITS[signal]}]"


def as_times(time: ArrayLike) -> FloatArray:
    """Return times as an array (t,), checked."""
    t = np.atleast_1d(np.asarray(time, dtype=float))
    check_shape(t, (None,), "time")
    check_finite(t, "time")
    return t


def check_positive(value: float, name: str, unit: str) -> None:
    """Raise `InvalidTrajectory` unless a value is a positive, finite number."""
    if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
        raise InvalidTrajectory(
            f"{name} is {value}, expected a positive number [{unit}]",
            value=value,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fourier(Trajectory):
    """A periodic motion by its Fourier coefficients, which are velocities, AH09 (12)-(15).

    x_i(t) = x0_i + sum_k (mu_ki sin(k w t) - nu_ki cos(k w t)) / (k w),  w = 2 pi
    frequency.
    """

    kind: ClassVar[str] = "fourier"  # in files

    frequency: float  # [Hz]
    offset: FloatArray  # x0, (c,) [m or rad]
    # cosine coefficients of the velocity, (harmonics, c) [m/s or rad/s]
    mu: FloatArray
    # sine coefficients of the velocity, (harmonics, c) [m/s or rad/s]
    nu: FloatArray
    periods: int = 1  # number of repetitions

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.frequency, "fundamental frequency", "Hz")
        if not (isinstance(self.periods, int) and self.periods >= 1):
            raise InvalidTrajectory(
                f"number of periods is {self.periods}, expected a whole number of at least 1"
            )
        c = len(self.coordinates)
        check_shapes(self, offset=(c,), mu=(None, c), nu=self.mu.shape)
        if not len(self.mu):
            raise InvalidTrajectory("a Fourier trajectory needs at least one harmonic")

    @property
    def harmonics(self) -> int:
        """Number of harmonics."""
        return len(self.mu)

    @property
    def duration(self) -> float:
        """Length of all periods. [s]"""
        return self.periods / self.frequency

    @property
    def period(self) -> float:
        """Length of one period. [s]"""
        return 1 / self.frequency

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c), at any time; AH09 (12)-(15)."""
        coefficients = np.vstack([self.offset, self.mu, self.nu])
        position, velocity, acceleration = fourier_basis(
            as_times(time), self.frequency, self.harmonics
        )
        return (
            position @ coefficients,
            velocity @ coefficients,
            acceleration @ coefficients,
        )

    def on_rate(self, rate: float) -> Fourier:
        """Return the trajectory with a period of a whole number of controller samples.

        The frequency changes to the nearest one that fits. The
        coefficients (velocities) stay, so positions about the offset
        scale by less than half a sample per period.

        Args:
            rate: Sampling rate of the controller. [Hz]
        """
        check_positive(rate, "sampling rate", "Hz")
        samples = rate / self.frequency
        nearest_whole = round(samples)
        least = 2 * self.harmonics + 1
        if nearest_whole < least:
            raise InvalidTrajectory(
                f"a period has {samples:.6g} samples at {rate:g} Hz, expected at least {least} for "
                f"{self.harmonics} harmonics; lower the frequency or raise the rate",
                samples=samples,
            )
        if abs(samples - nearest_whole) <= PERIOD_TOLERANCE:
            return self
        return replace(self, frequency=rate / nearest_whole)


def fourier_basis(
    time: FloatArray, frequency: float, harmonics: int
) -> PositionVelocityAcceleration:
    """Return the derivatives of position, velocity and acceleration by (offset, mu, nu).

    AH09 (12), (14), (15): [1, sin(k w t) / (k w), -cos(k w t) / (k w)]
    and its derivatives by time, w = 2 pi frequency; each (t, 1 + 2
    harmonics).

    Args:
        time: (t,). [s]
        frequency: Of the first harmonic. [Hz]
        harmonics: Their number.
    """
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)  # [rad/s]
    angle = time[:, None] * kw
    c = np.cos(angle)
    s = np.sin(angle)
    ones = np.ones((len(time), 1))
    zeros = np.zeros((len(time), 1))
    position = np.hstack([ones, s / kw, -c / kw])
    velocity = np.hstack([zeros, c, s])
    acceleration = np.hstack([zeros, -s * kw, c * kw])
    return position, velocity, acceleration


def rest_basis(harmonics: int) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal bases of the mu and of the nu that start at rest.

    The sums of mu_k (velocity) and of k nu_k (acceleration) are zero;
    each basis is (harmonics, harmonics - 1).
    """
    if harmonics < 2:
        raise InvalidTrajectory(
            f"{harmonics} harmonic cannot start at rest; use two or more, or ease the trajectory "
            "in and out",
            harmonics=harmonics,
        )
    mu = _orthogonal_complement(np.ones(harmonics))
    nu = _orthogonal_complement(np.arange(1.0, harmonics + 1))
    return mu, nu


def _orthogonal_complement(vector: FloatArray) -> FloatArray:
    """Return an orthonormal basis of all that is orthogonal to a vector, (n,) -> (n, n - 1)."""
    basis, _ = np.linalg.qr(vector[:, None], mode="complete")
    return basis[:, 1:]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled(Trajectory):
    """A curve through samples.

    With velocity and acceleration given, the quintic that meets all
    three at every sample; otherwise a quintic interpolating spline of
    the positions (periodic if `repeats` is given), whose derivatives
    are the velocities.
    """

    kind: ClassVar[str] = "sampled"  # in files

    time: FloatArray  # ascending from 0, (t,) [s]
    position: FloatArray  # (t, c) [m or rad]
    velocity: FloatArray | None = None  # (t, c) [m/s or rad/s]
    acceleration: FloatArray | None = None  # (t, c) [m/s2 or rad/s2]
    # period, later than the last sample; None for a motion that ends
    # [s]
    repeats: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        samples = len(self.time)
        shape = (samples, len(self.coordinates))
        check_shapes(self, position=shape, velocity=shape, acceleration=shape)
        if samples < MIN_SAMPLES or self.time[0] != 0 or (np.diff(self.time) <= 0).any():
            start = f" from {self.time[0]} s" if samples else ""
            raise InvalidTrajectory(
                f"a sampled trajectory needs at least {MIN_SAMPLES} samples at ascending times "
                f"from 0 s; got {samples}{start}"
            )
        if (self.velocity is None) != (self.acceleration is None):
            raise InvalidTrajectory("give velocity and acceleration, or neither")
        if self.repeats is not None and not (
            np.isfinite(self.repeats) and self.repeats > self.time[-1]
        ):
            raise InvalidTrajectory(
                f"period is {self.repeats} s, expected later than the last sample at "
                f"{self.time[-1]} s; leave out the sample that repeats the first"
            )

    @property
    def duration(self) -> float:
        """One period, or to the last sample. [s]"""
        return float(self.time[-1]) if self.repeats is None else self.repeats

    @property
    def period(self) -> float | None:
        """Time after which the motion repeats, or None. [s]"""
        return self.repeats

    @property
    def _signals(self) -> dict[str, FloatArray]:
        """Position, velocity and acceleration, as far as they are given."""
        signals = {name: getattr(self, name) for name in SIGNAL_UNITS}
        return {name: values for name, values in signals.items() if values is not None}

    def only(self, coordinates: Sequence[str]) -> Sampled:
        """Return the curve of some coordinates."""
        keep = self.columns(coordinates)
        units = tuple(self.units[i] for i in keep)
        signals: dict[str, Any] = {name: values[:, keep] for name, values in self._signals.items()}
        return replace(self, coordinates=tuple(coordinates), units=units, **signals)

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c).

        Times outside 0 to `duration` are an error unless the motion
        repeats.
        """
        t = as_times(time)
        if self.repeats is not None:
            t = t % self.repeats
        else:
            self._check_inside(t)
        t = np.clip(t, 0.0, self.duration)
        position, velocity, acceleration = self._curves
        return position(t), velocity(t), acceleration(t)

    def _check_inside(self, time: FloatArray) -> None:
        """Raise `InvalidTrajectory` for times before the first or after the last sample."""
        if not len(time):
            return
        first = time.min()
        last = time.max()
        margin = TIME_ROUNDING * self.duration
        if first < -margin or last > self.duration + margin:
            raise InvalidTrajectory(
                f"time runs from {first:.6g} to {last:.6g} s, the samples from 0 to "
                f"{self.duration:.6g} s",
                duration=self.duration,
            )

    @cached_property
    def _curves(self) -> tuple[Any, Any, Any]:
        """Position, velocity and acceleration as functions of time."""
        time = self.time
        signals = list(self._signals.values())
        if self.repeats is not None:
            time = np.append(time, self.repeats)
            signals = [np.concatenate([values, values[:1]]) for values in signals]
        if len(signals) == 1:
            curve = _interpolating_spline(time, signals[0], periodic=self.repeats is not None)
        else:
            curve = _quintic_hermite(time, *signals)
        return curve, curve.derivative(), curve.derivative(2)


def _interpolating_spline(time: FloatArray, position: FloatArray, periodic: bool) -> Any:
    """Return the quintic spline through the positions."""
    from scipy.interpolate import make_interp_spline  # here, because its import takes long

    return make_interp_spline(time, position, k=5, bc_type="periodic" if periodic else None)


def _quintic_hermite(
    time: FloatArray,
    position: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
) -> Any:
    """Return the piecewise quintic with these positions, velocities and accelerations.

    In a piece of length h it is sum_k c_k u^k with u from 0 to 1. The
    values at u = 0 give c_0, c_1 and c_2; what these do not explain at
    u = 1 (dp, dv, da) gives the others.
    """
    from scipy.interpolate import PPoly  # here, because its import takes long

    h = np.diff(time)[:, None]
    c0 = position[:-1]
    c1 = velocity[:-1] * h
    c2 = acceleration[:-1] * h**2 / 2
    dp = position[1:] - c0 - c1 - c2
    dv = velocity[1:] * h - c1 - 2 * c2
    da = acceleration[1:] * h**2 - 2 * c2
    c3 = 10 * dp - 4 * dv + da / 2
    c4 = -15 * dp + 7 * dv - da
    c5 = 6 * dp - 3 * dv + da / 2
    coefficients = np.stack([c5 / h**5, c4 / h**4, c3 / h**3, c2 / h**2, c1 / h, c0])
    return PPoly(coefficients, time)


@dataclass(frozen=True, kw_only=True, eq=False)
class Eased(Trajectory):
    """Another trajectory with a smooth start from rest and a smooth stop.

    x(t) = base(s(t)); the pace ds/dt rises as 10 u^3 - 15 u^4 + 6 u^5
    over the ramp, so velocity and acceleration vanish at start and end.
    Between the ramps the motion is the base, `ramp`/2 later. Before the
    start and after the end it does not move.
    """

    kind: ClassVar[str] = "eased"  # in files

    base: Trajectory  # whose path it follows
    # time to reach full speed, at most the duration of the base [s]
    ramp: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.ramp, "ramp", "s")
        if (self.base.coordinates, self.base.units) != (
            self.coordinates,
            self.units,
        ):
            raise InvalidTrajectory(
                f"{self.coordinates} in {self.units} are eased from {self.base.coordinates} in "
                f"{self.base.units}; expected the same"
            )
        if self.ramp > self.base.duration:
            raise InvalidTrajectory(
                f"ramp is {self.ramp:g} s, expected at most the duration of the base, "
                f"{self.base.duration:g} s",
                ramp=self.ramp,
            )

    @property
    def duration(self) -> float:
        """Duration of the base plus one ramp. [s]"""
        return self.base.duration + self.ramp

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c).

        With x(s) of the base, v = x' sd and a = x'' sd^2 + x' sdd.
        """
        t = as_times(time)
        stopping = t > self.duration / 2  # the second half mirrors the first
        from_end = np.where(stopping, self.duration - t, t)
        ramps = np.clip(from_end / self.ramp, 0.0, None)
        path, pace, pace_rate = smooth_start(ramps)
        s = np.where(stopping, self.base.duration - self.ramp * path, self.ramp * path)
        sd = pace[:, None]
        sdd = np.where(stopping, -pace_rate, pace_rate)[:, None] / self.ramp
        position, velocity, acceleration = self.base.at(s)
        return position, velocity * sd, acceleration * sd**2 + velocity * sdd


def smooth_start(u: FloatArray) -> PositionVelocityAcceleration:
    """Return path, pace and rate of the pace, each (t,), after u ramps from rest.

    The pace is 10 u^3 - 15 u^4 + 6 u^5 up to u = 1, and 1 from then on.
    """
    v = np.minimum(u, 1.0)
    path = v**6 - 3 * v**5 + 2.5 * v**4 + u - v
    pace = 6 * v**5 - 15 * v**4 + 10 * v**3
    pace_rate = 30 * (v**4 - 2 * v**3 + v**2)
    return path, pace, pace_rate


def ease(trajectory: Trajectory, ramp: float) -> Eased:
    """Return the trajectory eased from rest within `ramp` [s] and back to rest at its end."""
    return Eased(
        coordinates=trajectory.coordinates,
        units=trajectory.units,
        robot=trajectory.robot,
        base=trajectory,
        ramp=ramp,
    )


# Classes by the kind that names them in files.
TRAJECTORY_KINDS: dict[str, type[Trajectory]] = {
    "fourier": Fourier,
    "sampled": Sampled,
    "eased": Eased,
}


def _from_dict(content: Any) -> Trajectory:
    """Return the trajectory that `Trajectory.to_dict` described.

    The `settings` of its design, which a file may also hold, are not
    read.
    """
    arguments = dict(content) if isinstance(content, Mapping) else {}
    version = arguments.pop("format", None)
    kind = arguments.pop("kind", None)
    arguments.pop("settings", None)
    if version != TRAJECTORY_FORMAT or str(kind) not in TRAJECTORY_KINDS:
        raise InvalidTrajectory(
            f"it holds {kind!r} in format {version!r}, expected one of "
            f"{', '.join(TRAJECTORY_KINDS)} in format {TRAJECTORY_FORMAT}"
        )
    cls = TRAJECTORY_KINDS[str(kind)]
    keys = {field.name for field in fields(cls)}
    if set(arguments) != keys:
        missing = sorted(keys - set(arguments))
        unknown = sorted(set(arguments) - keys)
        raise InvalidTrajectory(
            f"a {cls.kind} trajectory has the keys {', '.join(sorted(keys))}; "
            f"missing: {missing}, unknown: {unknown}"
        )
    try:
        if "base" in arguments:
            arguments["base"] = _from_dict(arguments["base"])
        return cls(**arguments)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidTrajectory(
            f"a value of the {cls.kind} trajectory cannot be read: {error}"
        ) from error


def load_trajectory(path: str | os.PathLike[str], *, robot: str | None = None) -> Trajectory:
    """Read a trajectory that `Trajectory.save` or `Trajectory.to_csv` (.csv) wrote.

    Args:
        path: Of the file.
        robot: Name of the robot that will run it; a file made for
            another one is an error.
    """
    text = read_text(path, MAX_TABLE_BYTES, InvalidTrajectory)
    try:
        if Path(path).suffix.lower() == ".csv":
            return _from_table(text, robot or "")
        trajectory = _from_dict(parse_json(text))
    except (ArithmeticError, LookupError, TypeError, ValueError, csv.Error, GoughError) as error:
        raise InvalidTrajectory(f"'{path}' is no trajectory: {error}", path=path) from error
    if robot is not None and trajectory.robot and trajectory.robot != robot:
        raise InvalidTrajectory(
            f"'{path}' was made for the robot '{trajectory.robot}', not for '{robot}'",
            path=path,
        )
    return trajectory


def _from_table(text: str, robot: str) -> Sampled:
    """Return the curve through the lines that `Trajectory.to_csv` wrote."""
    if text.startswith("#"):
        raise InvalidTrajectory(
            "it begins with a comment, as logs do; give the file that `gough design` wrote"
        )
    header, *lines = csv.reader(text.splitlines())
    column = {heading.strip(): k for k, heading in enumerate(header)}
    coordinates, units = _coordinates_in(column)
    if not coordinates or "time [s]" not in column:
        raise InvalidTrajectory(
            "the table has no columns 'time [s]' and 'NAME.position [m or rad]'; it has "
            + ", ".join(f"'{heading}'" for heading in list(column)[:6])
        )
    table = np.array([list(map(float, line)) for line in lines if line])
    if not np.isfinite(table).all():
        raise InvalidTrajectory("the table holds numbers that are not finite")
    signals: dict[str, Any] = {}
    for signal in SIGNAL_UNITS:
        headings = [_heading(name, signal, unit) for name, unit in zip(coordinates, units)]
        if set(headings) <= set(column):
            signals[signal] = table[:, [column[heading] for heading in headings]]
    if len(signals) == 2:  # one derivative alone is not used: that of the spline is taken
        signals = {"position": signals["position"]}
    time = table[:, column["time [s]"]]
    return Sampled(
        coordinates=tuple(coordinates),
        units=tuple(units),
        robot=robot,
        time=time - time[0],
        **signals,
    )


def _coordinates_in(headings: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names and the units of the coordinates that a table has positions of."""
    names = []
    units = []
    for heading in headings:
        match = re.fullmatch(r"(.+)\.position \[(m|rad)\]", heading)
        if match:
            names.append(match[1])
            units.append(match[2])
    return names, units
