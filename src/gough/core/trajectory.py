"""Trajectories: position, velocity and acceleration of named coordinates at any time, in closed
form.
"""

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

from gough.core.arrays import FloatArray, check_finite, check_shape, check_shapes
from gough.core.display import panels
from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidTrajectory, nearest
from gough.core.files import write_json, write_text
from gough.core.record import Record

FORMAT = 1
WHOLE = 1e-6  # how far a period may be from a whole number of samples. [samples]
WORDS = {
    "position": "",
    "velocity": "/s",
    "acceleration": "/s2",
}  # and their units, behind that of the coordinate

PositionVelocityAcceleration = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory(Record, ABC):
    """A motion of named coordinates, e.g.

    `platform.x` or `leg1.slider`, from time 0 to `duration`.
    """

    kind: ClassVar[str]

    coordinates: tuple[str, ...]
    units: tuple[str, ...]  # m or rad
    robot: str = ""  # it was made for; empty for any

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
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                check_finite(value, name)

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

        A periodic motion ends one sample before it repeats, so that runs join without a doubled
        sample.
        """
        check_positive(rate, "sampling rate", "Hz")
        count = self.duration * rate
        if self.period is None:
            return np.arange(int(np.floor(count + WHOLE)) + 1) / rate
        samples = self.period * rate
        if samples < 2 - WHOLE or abs(samples - round(samples)) > max(WHOLE, 1e-12 * samples):
            raise InvalidTrajectory(
                f"a period of {self.period:.9g} s has {samples:.9g} samples at {rate:g} Hz, "
                f"expected a whole number of "
                "at least 2, so that runs join; choose a rate that fits, or move the frequency "
                "(Fourier.on_rate)",
                samples=samples,
            )
        return np.arange(round(count)) / rate

    def columns(self, coordinates: Iterable[str]) -> list[int]:
        """Return where the coordinates are found here."""
        names = list(coordinates)
        for name in names:
            if name not in self.coordinates:
                raise InvalidTrajectory(
                    f"the trajectory has no coordinate '{name}'{nearest(name, self.coordinates)}",
                    name=name,
                )
        return [self.coordinates.index(name) for name in names]

    def table(self, rate: float = 200.0) -> dict[str, FloatArray]:
        """Return time, then position, velocity and acceleration of each coordinate, at a rate. [Hz]

        Headings carry the units: `time [s]`, `leg1.slider.position [m]`, `leg1.slider.velocity
        [m/s]`, ...
        """
        time = self.times(rate)
        found = {"time [s]": time}
        for name, unit, *columns in zip(
            self.coordinates, self.units, *(values.T for values in self.at(time))
        ):
            found |= {_heading(name, word, unit): column for word, column in zip(WORDS, columns)}
        return found

    def plot(self, rate: float = 200.0) -> Any:
        """Draw position, velocity and acceleration of all coordinates; returns the axes."""
        time = self.times(rate)
        axes = panels([*WORDS])
        for each, values in zip(axes, self.at(time)):
            for name, unit, column in zip(self.coordinates, self.units, values.T):
                each.plot(time, column, label=f"{name} [{unit}]")
        axes[0].legend(loc="upper right", fontsize="small")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; nothing is rounded."""
        content: dict[str, Any] = {"format": FORMAT, "kind": self.kind}
        for f in fields(self):
            value = getattr(self, f.name)
            content[f.name] = (
                value.to_dict()
                if isinstance(value, Trajectory)
                else (value.tolist() if isinstance(value, np.ndarray) else value)
            )
        return content

    def save(self, path: str | os.PathLike[str]) -> None:
        write_json(path, self.to_dict())

    def to_csv(self, path: str | os.PathLike[str], rate: float) -> None:
        """Write `table`, one line per controller sample."""
        columns, text = self.table(rate), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(np.column_stack([*columns.values()]).tolist())
        write_text(path, text.getvalue())


def _heading(name: str, word: str, unit: str) -> str:
    return f"{name}.{word} [{unit}{WORDS[word]}]"


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
            f"{name} is {value}, expected a positive number [{unit}]", value=value
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fourier(Trajectory):
    """A periodic motion by its Fourier coefficients, which are velocities, AH09 (12)-(15).

    x_i(t) = x0_i + sum_k (mu_ki sin(k w t) - nu_ki cos(k w t)) / (k w),  w = 2 pi frequency.
    """

    kind: ClassVar[str] = "fourier"

    frequency: float  # [Hz]
    offset: FloatArray  # x0, (c,) [m or rad]
    mu: FloatArray  # cosine coefficients of the velocity, (harmonics, c) [m/s or rad/s]
    nu: FloatArray  # sine coefficients
    periods: int = 1  # how often it is run

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
        return len(self.mu)

    @property
    def duration(self) -> float:
        return self.periods / self.frequency

    @property
    def period(self) -> float:
        return 1 / self.frequency

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position (12), velocity (14) and acceleration (15) of AH09, each (t, c), at any
        time.
        """
        coefficients = np.vstack([self.offset, self.mu, self.nu])
        position, velocity, acceleration = (
            basis @ coefficients
            for basis in fourier_basis(as_times(time), self.frequency, self.harmonics)
        )
        return position, velocity, acceleration

    def on_rate(self, rate: float) -> Fourier:
        """Return the trajectory with a period of a whole number of controller samples at a rate.

        [Hz]

        The frequency moves to the nearest one that fits; the coefficients (velocities) stay, so
        positions about the offset scale by less than half a sample per period.
        """
        check_positive(rate, "sampling rate", "Hz")
        samples = rate / self.frequency
        whole = round(samples)
        if whole < 2 * self.harmonics + 1:
            raise InvalidTrajectory(
                f"a period has {samples:.6g} samples at {rate:g} Hz, expected at least "
                f"{2 * self.harmonics + 1} for "
                f"{self.harmonics} harmonics; lower the frequency or raise the rate",
                samples=samples,
            )
        return self if abs(samples - whole) <= WHOLE else replace(self, frequency=rate / whole)


def fourier_basis(
    time: FloatArray, frequency: float, harmonics: int
) -> PositionVelocityAcceleration:
    """Return position, velocity and acceleration by (offset, mu, nu) at some times, each (t, 1 + 2
    harmonics).

    AH09 (12), (14), (15): [1, sin(k w t) / (k w), -cos(k w t) / (k w)] and its derivatives, w = 2
    pi frequency.
    """
    kw = 2 * np.pi * frequency * np.arange(1, harmonics + 1)  # [rad/s]
    angle = time[:, None] * kw
    c, s = np.cos(angle), np.sin(angle)
    one, none = np.ones((len(time), 1)), np.zeros((len(time), 1))
    return (
        np.hstack([one, s / kw, -c / kw]),
        np.hstack([none, c, s]),
        np.hstack([none, -s * kw, c * kw]),
    )


def rest_basis(harmonics: int) -> tuple[FloatArray, FloatArray]:
    """Return orthonormal bases of the mu and of the nu that start at rest, each (harmonics,
    harmonics - 1).
    """
    if harmonics < 2:
        raise InvalidTrajectory(
            f"{harmonics} harmonic cannot start at rest; use two or more, or ease the trajectory "
            "in and out",
            harmonics=harmonics,
        )
    normals = np.ones((harmonics, 1)), np.arange(1.0, harmonics + 1)[:, None]
    mu, nu = (np.linalg.qr(normal, mode="complete")[0][:, 1:] for normal in normals)
    return mu, nu


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled(Trajectory):
    """A curve through samples.

    With velocity and acceleration given, the quintic that meets all three at every sample;
    otherwise a quintic interpolating spline of the positions (periodic if `repeats` is given),
    whose derivatives are the velocities.
    """

    kind: ClassVar[str] = "sampled"

    time: FloatArray  # ascending from 0, (t,) [s]
    position: FloatArray  # (t, c) [m or rad]
    velocity: FloatArray | None = None
    acceleration: FloatArray | None = None
    # period, later than the last sample; None for a motion that ends [s]
    repeats: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        t = len(self.time)
        check_shapes(self, **dict.fromkeys(WORDS, (t, len(self.coordinates))))
        if t < 6 or self.time[0] != 0 or (np.diff(self.time) <= 0).any():
            raise InvalidTrajectory(
                "a sampled trajectory needs at least 6 samples at ascending times from 0 s; "
                f"got {t}" + (f" from {self.time[0]} s" if t else "")
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
        return self.repeats

    @property
    def _samples(self) -> dict[str, FloatArray]:
        """What is known of position, velocity and acceleration."""
        return {name: getattr(self, name) for name in WORDS if getattr(self, name) is not None}

    def only(self, coordinates: Sequence[str]) -> Sampled:
        """Return the curve of some coordinates."""
        keep = self.columns(coordinates)
        parts: dict[str, Any] = {name: values[:, keep] for name, values in self._samples.items()}
        return replace(
            self, coordinates=tuple(coordinates), units=tuple(self.units[i] for i in keep), **parts
        )

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c); at any time only if the motion
        repeats.
        """
        t = as_times(time)
        if self.repeats is not None:
            t = t % self.repeats
        elif len(t) and (t.min() < -1e-9 * self.duration or t.max() > (1 + 1e-9) * self.duration):
            raise InvalidTrajectory(
                f"time runs from {t.min():.6g} to {t.max():.6g} s, the samples from 0 to "
                f"{self.duration:.6g} s",
                duration=self.duration,
            )
        t = np.clip(t, 0.0, self.duration)
        position, velocity, acceleration = (curve(t) for curve in self._curves)
        return position, velocity, acceleration

    @cached_property
    def _curves(self) -> tuple[Any, Any, Any]:
        from scipy.interpolate import (
            PPoly,
            make_interp_spline,
        )  # here, because it takes long to import

        time, parts = self.time, [*self._samples.values()]
        if self.repeats is not None:
            time, parts = (
                np.append(time, self.repeats),
                [np.concatenate([values, values[:1]]) for values in parts],
            )
        if len(parts) == 1:
            curve = make_interp_spline(
                time, parts[0], k=5, bc_type=None if self.repeats is None else "periodic"
            )
        else:
            h = np.diff(time)[:, None]
            p, v, a = parts[0], parts[1], parts[2]
            p0, v0, a0 = p[:-1], v[:-1] * h, a[:-1] * h**2 / 2
            dp = p[1:] - p0 - v0 - a0
            dv = v[1:] * h - v0 - 2 * a0
            da = a[1:] * h**2 - 2 * a0
            unit = [
                6 * dp - 3 * dv + da / 2,
                -15 * dp + 7 * dv - da,
                10 * dp - 4 * dv + da / 2,
                a0,
                v0,
                p0,
            ]
            curve = PPoly(np.stack([c / h**k for c, k in zip(unit, range(5, -1, -1))]), time)
        return curve, curve.derivative(), curve.derivative(2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Eased(Trajectory):
    """Another trajectory along the same path, from rest to full speed within `ramp` and back to
    rest at its end.

    x(t) = base(s(t)); the pace ds/dt rises as 10 u^3 - 15 u^4 + 6 u^5 over the ramp, so velocity
    and acceleration vanish at start and end. Between the ramps the motion is the base, `ramp`/2
    later. Before and after, it is held.
    """

    kind: ClassVar[str] = "eased"

    base: Trajectory
    ramp: float  # time to reach full speed, at most the duration of the base [s]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.ramp, "ramp", "s")
        if (self.base.coordinates, self.base.units) != (self.coordinates, self.units):
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
        """The base and one ramp more. [s]"""
        return self.base.duration + self.ramp

    def at(self, time: ArrayLike) -> PositionVelocityAcceleration:
        """Return position, velocity and acceleration, each (t, c): v = x' sd, a = x'' sd^2 + x'
        sdd.
        """
        t = as_times(time)
        late = t > self.duration / 2
        u = np.clip(
            np.where(late, self.duration - t, t) / self.ramp, 0.0, None
        )  # mirrored in the second half
        along, pace, change = smooth_start(u)
        s = np.where(late, self.base.duration - self.ramp * along, self.ramp * along)
        sd, sdd = pace[:, None], np.where(late, -change, change)[:, None] / self.ramp
        position, velocity, acceleration = self.base.at(s)
        return position, velocity * sd, acceleration * sd**2 + velocity * sdd


def smooth_start(u: FloatArray) -> PositionVelocityAcceleration:
    """Return path, pace and change of pace after u ramps from rest: 10 u^3 - 15 u^4 + 6 u^5, then
    full pace, (t,).
    """
    v = np.minimum(u, 1.0)
    return (
        v**6 - 3 * v**5 + 2.5 * v**4 + u - v,
        6 * v**5 - 15 * v**4 + 10 * v**3,
        30 * (v**4 - 2 * v**3 + v**2),
    )


def ease(trajectory: Trajectory, ramp: float) -> Eased:
    """Return the trajectory eased from rest within `ramp` [s] and back to rest at its end."""
    return Eased(
        coordinates=trajectory.coordinates,
        units=trajectory.units,
        robot=trajectory.robot,
        base=trajectory,
        ramp=ramp,
    )


KINDS: dict[str, type[Trajectory]] = {cls.kind: cls for cls in (Fourier, Sampled, Eased)}


def _from_dict(content: Any) -> Trajectory:
    """Undo `Trajectory.to_dict`; `settings`, by which it was designed, are for people."""
    values = dict(content) if isinstance(content, Mapping) else {}
    version, kind, _ = (values.pop(key, None) for key in ("format", "kind", "settings"))
    if version != FORMAT or str(kind) not in KINDS:
        raise InvalidTrajectory(
            f"it holds {kind!r} in format {version!r}, expected one of {', '.join(KINDS)} "
            f"in format {FORMAT}"
        )
    cls = KINDS[str(kind)]
    known = {f.name for f in fields(cls)}
    if set(values) != known:
        raise InvalidTrajectory(
            f"a {cls.kind} trajectory has the keys {', '.join(sorted(known))}; missing: "
            f"{sorted(known - set(values))}, unknown: {sorted(set(values) - known)}"
        )
    try:
        if "base" in values:
            values["base"] = _from_dict(values["base"])
        return cls(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidTrajectory(
            f"a value of the {cls.kind} trajectory cannot be read: {error}"
        ) from error


def load_trajectory(path: str | os.PathLike[str], *, robot: str | None = None) -> Trajectory:
    """Read what `Trajectory.save` or, a table (.csv), `Trajectory.to_csv` wrote; for this robot, if
    one is named.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        if Path(path).suffix.lower() == ".csv":
            return _from_table(text, robot or "")
        trajectory = _from_dict(parse_json(text))
    except OSError as error:
        raise InvalidTrajectory(f"cannot read '{path}': {error.strerror}", path=path) from error
    except (ValueError, IndexError, csv.Error, GoughError) as error:
        raise InvalidTrajectory(f"'{path}' is no trajectory: {error}", path=path) from error
    if robot is not None and trajectory.robot and trajectory.robot != robot:
        raise InvalidTrajectory(
            f"'{path}' was made for the robot '{trajectory.robot}', not for '{robot}'", path=path
        )
    return trajectory


def _from_table(text: str, robot: str) -> Sampled:
    """Undo `Trajectory.to_csv`: the curve through its lines, from the first to the last."""
    header, *lines = csv.reader(text.splitlines())
    column = {name.strip(): k for k, name in enumerate(header)}
    found = [
        (mark[1], mark[2])
        for name in column
        if (mark := re.fullmatch(r"(.+)\.position \[(m|rad)\]", name))
    ]
    if not found or "time [s]" not in column:
        raise InvalidTrajectory(
            "the table has no columns 'time [s]' and 'NAME.position [m or rad]'; it has "
            + ", ".join(f"'{name}'" for name in list(column)[:6])
        )
    table = np.array([[float(cell) for cell in line] for line in lines if line])
    parts: dict[str, Any] = {}
    for word in WORDS:
        names = [_heading(name, word, unit) for name, unit in found]
        if set(names) <= set(column):
            parts[word] = table[:, [column[name] for name in names]]
    if (
        len(parts) == 2
    ):  # one derivative alone is not used: the curve through the positions has its own
        parts = {"position": parts["position"]}
    time = table[:, column["time [s]"]]
    return Sampled(
        coordinates=tuple(name for name, _ in found),
        units=tuple(unit for _, unit in found),
        robot=robot,
        time=time - time[0],
        **parts,
    )
