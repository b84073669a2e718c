"""Recordings: actuated positions and motor currents or efforts over time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import BoolArray, FloatArray, check_shape, check_shapes
from gough.core.display import import_optional, stacked_axes
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.record import Columns, Record
from gough.logs.messages import refused

if TYPE_CHECKING:
    from pandas import DataFrame

# The kinds of columns, in the order they are written. The first five
# belong to the actuated joints.
JOINT_KINDS = ("position", "velocity", "reference", "effort", "current")
OTHER_KINDS = ("pose", "passive", "mocap", "extra")
KINDS = JOINT_KINDS + OTHER_KINDS
LARGEST_SAMPLE = 1e100  # in a log; the squares of larger ones overflow
# Units of the signals of a joint by the unit of its position; currents
# have the one they were recorded in.
JOINT_SIGNAL_UNITS = {
    "m": {"position": "m", "velocity": "m/s", "reference": "m", "effort": "N"},
    "rad": {
        "position": "rad",
        "velocity": "rad/s",
        "reference": "rad",
        "effort": "N m",
    },
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Channels(Record):
    """Named columns sampled together, (t, k); `channels["name"]` is one of them."""

    names: tuple[str, ...]  # of the channels
    units: tuple[str, ...]
    values: FloatArray  # (t, c), in their units

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, values=(None, len(self.names)), units=(len(self.names),))
        if len(set(self.names)) != len(self.names):
            raise InvalidInput(f"channel names repeat: {', '.join(self.names)}")

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self.names:
            raise InvalidInput(
                f"there is no channel '{name}'{nearest(name, self.names)}",
                name=name,
            )
        return np.asarray(self.values[:, self.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


NO_CHANNELS = Channels(names=(), units=(), values=np.zeros((0, 0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording(Record):
    """Samples of one run on one clock, in SI units and radians: t samples, a actuated joints."""

    joints: tuple[str, ...]  # (a,)
    time: FloatArray  # strictly increasing, (t,) [s]
    position: FloatArray  # (t, a) [m or rad]
    position_units: tuple[str, ...]  # `m` or `rad`, (a,)
    # (t, a) [N for joints in m, N m for joints in rad]
    effort: FloatArray | None = None
    # what the drive was told or measured instead, (t, a)
    # [current_units]
    current: FloatArray | None = None
    # as recorded (`A`, `mA`, `V`, `%`, `1`), (a,); drive gains are per
    # this unit
    current_units: tuple[str, ...] = ()
    # that the controller computed, (t, a) [m/s or rad/s]
    velocity: FloatArray | None = None
    # positions asked for, (t, a) [m or rad]
    reference: FloatArray | None = None
    # of the platform, as the controller computed it
    pose: Channels | None = None
    passive: Channels | None = None  # sensors on passive joints
    # pose of the platform that an outside instrument measured
    mocap: Channels | None = None
    # other channels (a temperature, ...), as recorded
    extra: Channels = field(default_factory=lambda: NO_CHANNELS)
    # samples that were measured, (t,): not those between lost rows or
    # in place of outliers; None if all were
    measured: BoolArray | None = None
    period_samples: int | None = None  # of a periodic motion
    # name of the payload that is carried; None without one
    payload: str | None = None
    source: str = "recording"  # where the samples come from, for messages
    # what the user should know about the samples
    notices: tuple[Notice, ...] = ()
    inspected: bool = False  # those of `checks.inspected` are among `notices`
    digest: str = ""  # SHA-256 of the file

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.joints)
        if not self.joints or len(set(self.joints)) != count:
            raise InvalidInput(f"a recording needs joints with different names, got {self.joints}")
        if len(self.position_units) != count or not set(self.position_units) <= {"m", "rad"}:
            raise InvalidInput(
                f"position_units is {self.position_units}, expected 'm' or 'rad' for each of "
                f"{count} joints"
            )
        n_currents = 0
        if self.current is not None:
            n_currents = count
        if len(self.current_units) != n_currents:
            raise InvalidInput(
                f"current_units is {self.current_units}, expected 'A', 'V', '1' or what else was "
                "recorded for each joint, and nothing without current"
            )
        if self.period_samples is not None and self.period_samples < 2:
            raise InvalidInput(f"a period of {self.period_samples} samples; at least 2 are needed")
        check_shapes(self, time=(None,), measured=(len(self.time),))
        check_time(self.time, self.source)
        for kind, channels in self.groups():
            check_shape(channels.values, (len(self.time), len(channels.names)), kind)
            bad = ~(np.abs(channels.values) < LARGEST_SAMPLE)  # also NaN
            if bad.any():
                raise _bad_value(channels, kind, bad, self)

    @staticmethod
    def from_dataframe(
        frame: Any,
        description: Any = None,
        *,
        source: str = "DataFrame",
    ) -> Recording:
        """Return the recording in a pandas DataFrame, with the checks that files pass.

        Columns have headers such as `leg1.slider.position [m]`, or any
        with a description; time may be a named index. Dates are
        seconds.
        """
        from gough.logs.readers import recording_of_frame  # readers make recordings

        return recording_of_frame(frame, description, source)

    @staticmethod
    def from_arrays(
        joints: Sequence[str],
        *,
        units: Mapping[str, str | Sequence[str]],
        time: Any = None,
        rate: float | None = None,
        source: str = "arrays",
        **signals: Any,
    ) -> Recording:
        """Return the recording of arrays, with the checks that files pass.

            Recording.from_arrays(["hinge"], position=q, current=i, rate=1000.0,
                                  units={"position": "deg", "current": "A"})

        Args:
            joints: Names of the actuated joints, (a,).
            units: Of each signal, one for all columns or one for each;
                `time` is in s unless it has one here.
            time, rate: Sample times, (t,), or samples a second [Hz].
            source: Name for messages.
            signals: `position`, (t, a), and `effort`, `current`,
                `velocity`, `reference`; `pose`, `passive`, `mocap`,
                `extra` as columns by name; `period_samples` and
                `payload`.
        """
        from gough.logs.readers import recording_of_arrays

        return recording_of_arrays(joints, units, time, rate, source, signals)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def effort_units(self) -> tuple[str, ...]:
        """`N` for joints in m, `N m` for joints in rad."""
        return tuple(JOINT_SIGNAL_UNITS[unit]["effort"] for unit in self.position_units)

    @property
    def motor_signal(self) -> Literal["effort", "current"]:
        """Which signal of the motors is used: efforts, or currents if there are none."""
        if self.effort is not None:
            return "effort"
        if self.current is not None:
            return "current"
        raise refused(self.source, "there is neither effort nor current; add such columns")

    @property
    def rate(self) -> float:
        """Mean sampling rate. [Hz]"""
        if len(self) < 2:
            raise refused(
                self.source,
                f"{len(self)} samples have no sampling rate",
                samples=len(self),
            )
        return float((len(self) - 1) / (self.time[-1] - self.time[0]))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, or of all samples where there was none."""
        if self.digest:
            return self.digest
        digest = hashlib.sha256(self.time.tobytes())
        for kind, channels in self.groups():
            digest.update(f"{kind} {channels.names} {channels.units}".encode())
            digest.update(channels.values.tobytes())
        return digest.hexdigest()

    @property
    def period_count(self) -> int:
        """Whole periods in the samples; 0 without a period."""
        if self.period_samples is None:
            return 0
        return len(self) // self.period_samples

    def groups(self) -> Iterator[tuple[str, Channels]]:
        """Yield each kind of column that is there with its names, units and values."""
        for kind in KINDS:
            values = getattr(self, kind)
            if isinstance(values, Channels):
                if values.names:
                    yield kind, values
            elif values is not None:
                units = self.current_units
                if kind != "current":
                    units = tuple(JOINT_SIGNAL_UNITS[unit][kind] for unit in self.position_units)
                yield (
                    kind,
                    Channels(names=self.joints, units=units, values=values),
                )

    def columns(self) -> Iterator[tuple[str, str, FloatArray]]:
        """Yield name (`leg1.slider.position`), unit and samples, (t,), of each column."""
        for kind, channels in self.groups():
            for name, unit, column in zip(channels.names, channels.units, channels.values.T):
                yield f"{name}.{kind}", unit, column

    @property
    def channels(self) -> dict[str, FloatArray]:
        """The extra channels by name, (t,) each."""
        return dict(zip(self.extra.names, self.extra.values.T))

    def mapped(self, change: Any, **fields: Any) -> Recording:
        """Return the recording with each kind of column changed, and other fields.

        Args:
            change: Function of the samples of one kind, (t, k).
            fields: Other fields of the new recording.
        """
        changed: dict[str, Any] = {}
        for kind, channels in self.groups():
            values = change(channels.values)
            changed[kind] = values
            if kind in OTHER_KINDS:
                changed[kind] = replace(channels, values=values)
        return replace(self, **changed, **fields)

    def with_notices(self, notices: Iterable[Notice]) -> Recording:
        """Return the recording with more notices behind its own."""
        return replace(self, notices=(*self.notices, *notices))

    def take(self, rows: slice | NDArray[Any]) -> Recording:
        """Return some samples; the period is kept by a slice whose step divides it."""
        period = None
        if isinstance(rows, slice) and self.period_samples is not None:
            step = rows.step or 1
            n, remainder = divmod(self.period_samples, step)
            if step > 0 and remainder == 0 and n > 1:
                period = n
        measured = self.measured
        if measured is not None:
            measured = measured[rows]
        return self.mapped(
            lambda values: values[rows],
            time=self.time[rows],
            measured=measured,
            period_samples=period,
        )

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive pieces of at most `size` samples."""
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def periods(self, kind: str) -> FloatArray:
        """Return a view of one kind of joint signal by periods, (k, N, a)."""
        if kind not in JOINT_KINDS:
            raise InvalidInput(f"no joint signal '{kind}'{nearest(kind, JOINT_KINDS)}")
        values: FloatArray | None = getattr(self, kind)
        if values is None:
            raise refused(self.source, f"there is no {kind} in this recording", kind=kind)
        n = self.period_samples
        if n is None:
            raise refused(
                self.source,
                "no period is known; give period_samples or estimate it",
            )
        if len(self) % n:
            raise refused(
                self.source,
                f"{len(self)} samples are {len(self) // n} periods of {n} and {len(self) % n} "
                "more; expected whole periods: leave out what follows the last one",
                samples=len(self),
                period_samples=n,
            )
        return values.reshape(-1, n, values.shape[1])

    def table(self) -> Columns:
        """Return what a notebook shows: the range of each channel."""
        table: dict[str, list[Any]] = {
            "channel": [],
            "unit": [],
            "smallest": [],
            "largest": [],
        }
        for name, unit, column in self.columns():
            table["channel"].append(name)
            table["unit"].append(unit)
            table["smallest"].append(float(column.min()))
            table["largest"].append(float(column.max()))
        return table

    def to_dataframe(self) -> DataFrame:
        """Return the samples as a pandas DataFrame, with headers as in files, indexed by time."""
        columns = {f"{name} [{unit}]": column for name, unit, column in self.columns()}
        pandas = import_optional("pandas", "notebook")
        return pandas.DataFrame(columns, index=pandas.Index(self.time, name="time [s]"))

    def summary(self) -> str:
        """Return the content in one line, then the notices."""
        kinds = ", ".join(kind for kind, _ in self.groups())
        line = f"{self.source}: {len(self)} samples"
        if len(self) > 1:
            line += f", {self.time[-1] - self.time[0]:.4g} s at {self.rate:.6g} Hz"
        if self.period_samples:
            line += f", {self.period_count} periods"
        if self.payload:
            line += f", with '{self.payload}'"
        line += f"; {kinds} of {', '.join(self.joints)}"
        return "\n".join([line, *notice_lines(ordered(self.notices))])

    def plot(self) -> Any:
        """Draw all channels, a panel for each kind; returns the axes."""
        groups = list(self.groups())
        axes = stacked_axes([kind for kind, _ in groups])
        for axis, (_, channels) in zip(axes, groups):
            for name, unit, column in zip(channels.names, channels.units, channels.values.T):
                axis.plot(self.time, column, linewidth=0.8, label=f"{name} [{unit}]")
            axis.legend(loc="upper right", fontsize="small")
        return axes

    def save(self, path: str | Path, *, settings: Mapping[str, object] | None = None) -> Path:
        """Write the recording as `.csv`, `.csv.gz`, `.npz` or bag (`.mcap`); return the path.

        The file appears complete or not at all. CSV numbers have the
        digits to read back the same. Bags hold `/joint_states`, other
        columns at topics of their own, and need rosbags. `settings` are
        kept with the log: how it was made.
        """
        from gough.logs.writers import save_recording  # a recording must not need files to exist

        return save_recording(self, Path(path), settings)


def _bad_value(
    channels: Channels, kind: str, bad: BoolArray, recording: Recording
) -> InvalidRecording:
    """Return the error that names the first value that is not finite, or huge."""
    i, j = np.argwhere(bad)[0].tolist()
    column = f"{channels.names[j]}.{kind}"
    count = int(bad.sum())
    return refused(
        recording.source,
        f"column '{column}' is {channels.values[i, j]} at sample {i} (t = "
        f"{recording.time[i]:.6g} s; {count} such values); cut out or repair these samples",
        column=column,
        sample=i,
        count=count,
    )


def check_time(
    time: FloatArray,
    source: str,
    column: str = "time",
    previous: float = -np.inf,
    first: int = 0,
) -> None:
    """Raise `InvalidRecording` naming the first time that is not finite or does not increase.

    Args:
        time: Of a block of samples, (t,). [s]
        source: Name of the log.
        column: Name of the time column.
        previous: Time of the sample before the block. [s]
        first: Index of the first sample of the block in the whole log.
    """
    if not len(time):
        raise refused(source, "there are no samples")
    steps = np.diff(time, prepend=previous)
    good = np.isfinite(time) & (steps > 0)
    if not good.all():
        i = int(np.argmin(good))
        what = f"is {time[i]}"
        if np.isfinite(time[i]):
            relation = "the same as" if steps[i] == 0 else f"{-steps[i]:.3g} s earlier than"
            what = f"is {time[i]:.9g} s, {relation} the sample before it"
        raise refused(
            source,
            f"column '{column}' {what} at sample {first + i} ({int((~good).sum())} such samples); "
            "times must increase: repair the clock or cut the log there",
            column=column,
            sample=first + i,
        )
