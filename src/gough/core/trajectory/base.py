"""What every trajectory can do."""

from __future__ import annotations

import csv
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, Value, check_finite, check_shape
from gough.core.errors import InvalidTrajectory, nearest
from gough.core.files import write_json, write_text
from gough.core.showing import Shown, panels

FORMAT = 1
WHOLE = 1e-6  # how far a period may be from a whole number of samples. [samples]

PositionVelocityAcceleration = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory(Shown, Value, ABC):
    """A motion of named coordinates from time 0 to `duration`.

    Args:
        coordinates: Names, (c,), e.g. `platform.x` or `leg1.slider`.
        units: Unit of each coordinate, 'm' or 'rad', (c,).
        robot: The robot it was made for; empty for any.
    """

    kind: ClassVar[str]

    coordinates: tuple[str, ...]
    units: tuple[str, ...]
    robot: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.coordinates or len(set(self.coordinates)) != len(self.coordinates):
            raise InvalidTrajectory(f"coordinates are {self.coordinates}, expected at least one name and none twice")
        if len(self.units) != len(self.coordinates):
            raise InvalidTrajectory(f"{len(self.coordinates)} coordinates but {len(self.units)} units")
        for name, unit in zip(self.coordinates, self.units):
            if unit not in ("m", "rad"):
                raise InvalidTrajectory(f"unit of '{name}' is '{unit}', expected 'm' or 'rad'; convert the numbers "
                                        "first", name=name)
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

        A periodic motion ends one sample before it repeats, so that runs join without a doubled sample.
        """
        check_positive(rate, "sampling rate", "Hz")
        count = self.duration * rate
        if self.period is None:
            return np.arange(int(np.floor(count + WHOLE)) + 1) / rate
        samples = self.period * rate
        if samples < 2 - WHOLE or abs(samples - round(samples)) > max(WHOLE, 1e-12 * samples):
            raise InvalidTrajectory(
                f"a period of {self.period:.9g} s has {samples:.9g} samples at {rate:g} Hz, expected a whole number of "
                "at least 2, so that runs join; choose a rate that fits, or move the frequency (Fourier.on_rate)",
                samples=samples)
        return np.arange(round(count)) / rate

    def columns(self, coordinates: Iterable[str]) -> list[int]:
        """Return where the coordinates are found here."""
        found = []
        for name in coordinates:
            if name not in self.coordinates:
                raise InvalidTrajectory(f"the trajectory has no coordinate '{name}'{nearest(name, self.coordinates)}",
                                        name=name)
            found.append(self.coordinates.index(name))
        return found

    def table(self, rate: float = 200.0) -> dict[str, FloatArray]:
        """Return time, then position, velocity and acceleration of each coordinate, at a rate. [Hz]

        Headings carry the units: `time [s]`, `leg1.slider.position [m]`, `leg1.slider.velocity [m/s]`, ...
        """
        time = self.times(rate)
        found = {"time [s]": time}
        for name, unit, *columns in zip(self.coordinates, self.units, *(values.T for values in self.at(time))):
            for word, per, column in zip(("position", "velocity", "acceleration"), ("", "/s", "/s2"), columns):
                found[f"{name}.{word} [{unit}{per}]"] = column
        return found

    def plot(self, rate: float = 200.0) -> Any:
        """Draw position, velocity and acceleration of all coordinates; returns the axes."""
        time = self.times(rate)
        axes = panels(["position", "velocity", "acceleration"])
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
            if isinstance(value, Trajectory):
                value = value.to_dict()
            content[f.name] = value.tolist() if isinstance(value, np.ndarray) else value
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


def as_times(time: ArrayLike) -> FloatArray:
    """Return times as an array (t,), checked."""
    t = np.atleast_1d(np.asarray(time, dtype=float))
    check_shape(t, (None,), "time")
    check_finite(t, "time")
    return t


def check_positive(value: float, name: str, unit: str) -> None:
    """Raise `InvalidTrajectory` unless a value is a positive, finite number."""
    if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
        raise InvalidTrajectory(f"{name} is {value}, expected a positive number [{unit}]", value=value)
