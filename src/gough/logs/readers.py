"""Reading of recordings from files, whole or in blocks, and from arrays and DataFrames."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, check_shape, check_type
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.notices import Notice
from gough.core.storage import StoredFile, place_of
from gough.logs.array_tables import array_table
from gough.logs.checks import (
    check_gaps,
    inspect_clock,
    inspect_group,
    inspect_velocities,
    inspected,
    joint_motion,
    spread_equal_stamps,
)
from gough.logs.description import (
    Description,
    Signal,
    describe_headers,
    load_description,
    parse_description,
)
from gough.logs.formats import is_folder, table_blocks
from gough.logs.messages import log_notice, refused
from gough.logs.periods import even_times, interpolate, samples_around
from gough.logs.recording import (
    JOINT_KINDS,
    KINDS,
    OTHER_KINDS,
    Channels,
    Recording,
    check_time,
)
from gough.logs.tables import Table, joined, numbered

Described = str | Path | Mapping[str, Any] | Description
"""A description: its file, its keys, or what `load_description` returned."""
Log = Recording | str | Path | Any
"""A log: read, a file with or without `@description.toml`, or a DataFrame."""
DESCRIPTION_SUFFIX = ".toml"
READ_BLOCK = 65536  # samples read from a file at a time
HEAD_SAMPLES = 16  # read to find out how a file is to be read
MAX_PERIOD_ERROR = 0.1  # samples by which a stated period may be off at the end of a log


def read_recording(
    path: str | Path | StoredFile,
    description: Described | None = None,
) -> Recording:
    """Read a log: a text table, another file of `LOG_FORMATS`, a bag, or a folder of files.

    Files Gough wrote and tables whose headers look like `leg1.slider.position [m]` need no
    description. With a description time counts from the first sample kept, and signals on
    other clocks than the positions are interpolated over the span all clocks share. The
    result has the notices of reading and of `checks.inspected`. Anything that would have to
    be guessed is an `InvalidRecording` that names file, column and sample.

    Args:
        path: File, folder of several files, each with its own clock, or address of a file
            (`s3://bucket/log.parquet`).
        description: Which column is which; a TOML file, its keys, or what
            `load_description` returned.
    """
    check_type(
        path,
        (str, Path, StoredFile),
        "the log",
        "the path of a file; for tables and arrays there are Recording.from_dataframe and "
        "from_arrays",
    )
    place = place_of(path)
    described = _as_description(description)
    if isinstance(place, StoredFile):
        tables = {"": joined(table_blocks(place, READ_BLOCK, described))}
        recording = recorded(tables, described, place.name)
        return replace(recording, digest=place.identity())
    path = place
    if not is_folder(path):
        tables = {"": joined(table_blocks(path, READ_BLOCK, described))}
    elif described is None:
        raise InvalidRecording(
            f"'{path}' is a folder; reading several files needs a description of them",
            source=path.name,
        )
    else:
        tables = _read_folder(path, described)
    recording = recorded(tables, described, path.name)
    if not path.is_file():
        return recording
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return replace(recording, digest=digest)


def _as_description(description: Described | None) -> Description | None:
    """Return a description, whatever it was given as."""
    if description is None or isinstance(description, Description):
        return description
    if isinstance(description, Mapping):
        return parse_description(description)
    return load_description(description)


def _read_folder(path: Path, description: Description) -> dict[str, Table]:
    """Read the files of a folder."""
    if not description.signals[0].file:
        raise InvalidRecording(
            f"'{path.name}' is a folder but the description names no files; add file = \"...\" to "
            "each table",
            source=path.name,
        )
    names: dict[str, None] = {}
    for signal in description.signals:
        names[signal.file] = None
        names[signal.clock.file] = None
    tables: dict[str, Table] = {}
    for name in filter(None, names):
        file = path / name
        if not file.is_file():
            file = path / f"{name}.gz"
        if not file.is_file():
            hint = nearest(name, [other.name for other in path.iterdir()])
            raise refused(path.name, f"there is no file '{name}'{hint}", file=name)
        tables[name] = joined(table_blocks(file, READ_BLOCK, description))
    return tables


def recorded(
    tables: Mapping[str, Table],
    given: Description | None,
    source: str,
) -> Recording:
    """Return the recording in some tables; see `read_recording`.

    Args:
        tables: By file name; that of a single file under "".
        given: Description, if there is any.
        source: Name of the log.
    """
    first_file = ""
    if given is not None:
        first_file = given.signals[0].file
    description = _resolve_description(_table_of(tables, first_file), given)
    origin = 0.0
    if given is not None:
        origin = _time_origin(tables, description)
    sampled = _sample_signals(tables, description, origin)
    signal_by_clock = {id(signal.clock): signal for signal in sampled}
    clocks = list(signal_by_clock.values())
    time = clocks[0].clock
    shown = time
    if not description.absolute:
        shown = time - time[:1]
    values = [signal.values for signal in sampled]
    notices = _reading_notices(tables, description)
    stated_rate = description.rate is not None and description.signals[0].clock.columns
    if stated_rate or len(clocks) > 1:
        time, shown = _common_clock(clocks, description, source)
        values = [_interpolate_signal(signal, time) for signal in sampled]
        notices += _clock_notices(clocks, source)
        notices += _inspect_signals(description, sampled, values, time)
        recording = _build_recording(description, shown, values, source)
        notices += inspect_velocities(recording)
        recording = replace(recording, notices=tuple(notices), inspected=True)
    else:
        if clocks[0].equal_stamps:
            notices.append(_equal_stamps_notice(clocks[0], "time"))
        recording = _build_recording(description, shown, values, source, notices=tuple(notices))
        recording = inspected(recording)
    if given is None:  # headers state no start, no stop and no period in seconds
        return recording
    recording = _cut_to_description(recording, description)
    period = _period_in_samples(recording, description)
    if period == recording.period_samples:
        return recording
    return replace(recording, period_samples=period)


def _common_clock(
    clocks: Sequence[_SampledSignal], description: Description, source: str
) -> tuple[FloatArray, FloatArray]:
    """Return the times to which signals are interpolated, and as they are reported, (t,). [s]

    Args:
        clocks: One signal of each clock, a position first.
    """
    position_clock = clocks[0].clock
    start = max(signal.clock[0] for signal in clocks)
    end = min(signal.clock[-1] for signal in clocks)
    if description.rate is None or not description.signals[0].clock.columns:
        time = position_clock[(position_clock >= start) & (position_clock <= end)]
        shown = time
        if not description.absolute:
            shown = time - time[:1]
    else:  # from zero: `start` and `stop` of the description are compared with these
        shown = np.empty(0)
        if end >= start:
            shown = even_times(0.0, end - start, description.rate)
        time = np.minimum(start + shown, end)
    if len(time) < min(2, len(position_clock)):
        spans = [f"{s.kind} {s.clock[0]:.3f} to {s.clock[-1]:.3f} s" for s in clocks]
        raise refused(
            source,
            f"the signals have no time in common: {', '.join(spans)}; check whether they belong to "
            "one run, and whether an offset is missing",
        )
    return time, shown


def _clock_notices(clocks: Sequence[_SampledSignal], source: str) -> list[Notice]:
    """Return the notices on the clocks, of one signal each, and on how they differ."""
    position_clock = clocks[0].clock
    notices: list[Notice] = []
    for signal in clocks:
        clock_name = "time"
        if len(clocks) > 1:
            clock_name = signal.source
        notices += inspect_clock(signal.clock, clock_name)
        if signal.equal_stamps:
            notices.append(_equal_stamps_notice(signal, clock_name))
        if not np.array_equal(signal.clock, position_clock):
            late = float(signal.clock[0] - position_clock[0])
            ratio = _mean_rate(signal.clock) / _mean_rate(position_clock) - 1.0
            notices.append(
                log_notice(
                    "clock",
                    signal.source,
                    f"another clock than {clocks[0].source}: starts "
                    f"{late * 1e3:+.2f} ms, mean rate {ratio * 1e6:+.0f} ppm; interpolated",
                    start=late,
                    rate_ratio=ratio,
                )
            )
    if len(clocks) > 1:
        start = max(signal.clock[0] for signal in clocks)
        end = min(signal.clock[-1] for signal in clocks)
        begins_earlier = any(signal.clock[0] < start for signal in clocks)
        ends_later = any(signal.clock[-1] > end for signal in clocks)
        if not begins_earlier and not ends_later:
            return notices
        notices.append(
            log_notice(
                "overlap",
                source,
                f"all signals together cover {end - start:.3f} s; samples outside were cut off",
                start=start - position_clock[0],
                duration=end - start,
            )
        )
    return notices


def _equal_stamps_notice(signal: _SampledSignal, clock_name: str) -> Notice:
    """Return the notice on time stamps that are those of the sample before."""
    return log_notice(
        "equal stamps",
        clock_name,
        f"{signal.equal_stamps} of {len(signal.clock)} samples have the time stamp of the sample "
        "before them; they were put evenly before the next stamp",
        count=signal.equal_stamps,
    )


def _cut_to_description(recording: Recording, description: Description) -> Recording:
    """Return the samples between the start and the stop of the description."""
    time = recording.time
    if description.start <= 0 and description.stop >= time[-1]:
        return recording
    inside = (time >= description.start) & (time <= description.stop)
    if inside.sum() < 2:
        message = f"start and stop leave {inside.sum()} samples of {time[-1]:.6g} s"
        raise refused(recording.source, message)
    cut = recording.take(inside)
    return replace(cut, time=cut.time - cut.time[0])


def _reading_notices(tables: Mapping[str, Table], description: Description) -> list[Notice]:
    """Return the notices of reading, and on columns that were ignored."""
    notices: list[Notice] = []
    for table in tables.values():
        notices += table.notices
    for name in description.ignored:
        notices.append(log_notice("ignored", name, "unknown column; ignored"))
    return notices


def _mean_rate(clock: FloatArray) -> float:
    """Return the mean rate of a clock, NaN of a single sample. [Hz]"""
    if len(clock) < 2:
        return np.nan
    return float((len(clock) - 1) / (clock[-1] - clock[0]))


def _resolve_description(table: Table, given: Description | None) -> Description:
    """Return how a table is read, as described or as its headers say, with its facts."""
    if given is None and table.repeated:
        table.column(min(table.repeated))  # raises: a repeated header is ambiguous
    description = given or describe_headers([*table.columns, *table.unread], table.source)
    payload = table.facts.get("payload", description.payload)
    period = description.period_samples
    if given is None:
        stated: Any = table.facts.get("period_samples")
        period = stated
    whole_number = isinstance(period, int) and not isinstance(period, bool)
    period_fits = period is None or (whole_number and period >= 2)
    if not period_fits or not isinstance(payload, str | None):
        raise refused(
            table.source,
            f"period_samples is {period!r} and payload {payload!r}; expected a whole number "
            "from 2 and a name",
        )
    return replace(
        description,
        payload=None if payload == "none" else payload,
        period_samples=period,
    )


class _SampledSignal(NamedTuple):
    """A signal at the times where it has values."""

    kind: str
    source: str  # file of its clock
    clock: FloatArray  # (t,), one object for the signals that share it [s after the origin]
    values: FloatArray  # (t,)
    interpolation: str
    equal_stamps: int  # of its clock, that were put between others


def _table_of(tables: Mapping[str, Table], file: str) -> Table:
    """Return the table of a file; that of a single file has no name."""
    return tables.get(file) or tables[""]


def _time_origin(tables: Mapping[str, Table], description: Description) -> float:
    """Return the whole second in which described stamps begin, otherwise 0. [s]

    Files that describe themselves keep their times.
    """
    signal = description.signals[0]
    if description.absolute or not signal.clock.columns:
        return 0.0
    table = _table_of(tables, signal.clock.file or signal.file)
    stamps = table.column(signal.clock.columns[0]) * signal.clock.factors[0]
    known = stamps[np.isfinite(stamps)]
    return float(np.floor(known[0])) if len(known) else 0.0


def _sample_signals(
    tables: Mapping[str, Table],
    description: Description,
    origin: float,
    streamed: bool = False,
) -> list[_SampledSignal]:
    """Return the signals, each at the samples where it has a value.

    Args:
        tables: By file name.
        description: Of their columns.
        origin: Subtracted from the stamps. [s]
        streamed: The tables are a block of a log; blank cells are then refused.
    """
    clocks: dict[tuple[object, ...], FloatArray] = {}
    equal_stamps: dict[tuple[object, ...], int] = {}
    signals = []
    for signal in description.signals:
        table = _table_of(tables, signal.file)
        timed = _table_of(tables, signal.clock.file or signal.file)
        column = table.column(signal.column)
        blank = table.blank.get(signal.column)
        if blank is not None and (streamed or description.absolute):
            raise refused(
                table.source,
                f"column '{signal.column}' is blank at sample "
                f"{table.first + int(np.argmax(blank))} ({int(blank.sum())} such cells); columns "
                "sampled at different times need a description, and read_recording to bring them "
                "together",
                column=signal.column,
            )
        known: slice | BoolArray = slice(None)
        blank_cells = b""
        if blank is not None:
            known = ~blank
            blank_cells = blank.tobytes()
        key = (timed.source, signal.clock, len(column), blank_cells)
        if key not in clocks:
            stamps = _time_stamps(signal, timed, len(column), origin, description.rate)
            if len(column) != len(stamps):
                raise refused(
                    table.source,
                    f"column '{signal.column}' has {len(column)} samples, its time {len(stamps)}; "
                    "matrices need one row for each sample",
                    column=signal.column,
                )
            clocks[key] = stamps[known]
            equal_stamps[key] = 0
            if not streamed:
                clocks[key], equal_stamps[key] = spread_equal_stamps(stamps[known])
            clock_name = " + ".join(signal.clock.columns) or "rate"
            check_time(clocks[key], timed.source, clock_name, first=timed.first)
        clock = clocks[key]
        values = _in_si_units(signal, column[known], clock)
        signals.append(
            _SampledSignal(
                signal.kind, timed.source, clock, values, signal.interpolation, equal_stamps[key]
            )
        )
    return signals


def _time_stamps(
    signal: Signal,
    table: Table,
    samples: int,
    origin: float,
    rate: float | None,
) -> FloatArray:
    """Return the times of a signal after the origin, (t,). [s]"""
    clock = signal.clock
    if not clock.columns:
        return np.arange(samples) / (rate or np.nan)
    # the origin is subtracted first: doubles do not have enough digits otherwise
    stamps = table.column(clock.columns[0]) * clock.factors[0] - origin
    for name, factor in zip(clock.columns[1:], clock.factors[1:]):
        stamps = stamps + table.column(name) * factor
    return stamps + clock.offset


def _in_si_units(signal: Signal, column: FloatArray, clock: FloatArray) -> FloatArray:
    """Return a column scaled, unwrapped, offset and shifted as described, (t,)."""
    values = column
    if signal.factor != 1:
        values = values * signal.factor
    if signal.turn:
        values = np.unwrap(values, period=signal.turn)
    if signal.offset:
        values = values + signal.offset
    if signal.delay:
        later = np.clip(clock + signal.delay, clock[0], clock[-1])
        values = interpolate(values[:, None], clock, later, "cubic")[:, 0]
    return values


def _interpolate_signal(sampled: _SampledSignal, time: FloatArray) -> FloatArray:
    """Return a signal at other times inside its span, (t,); refuse measurements with long gaps."""
    clock = sampled.clock
    if np.array_equal(clock, time):
        return sampled.values
    if sampled.kind in ("position", "effort", "current") and not np.isin(time, clock).all():
        used = samples_around(clock, time)
        check_gaps(clock[used], sampled.source, used.start)
    return interpolate(sampled.values[:, None], clock, time, sampled.interpolation)[:, 0]


def _build_recording(
    description: Description,
    time: FloatArray,
    values: Sequence[FloatArray],
    source: str,
    **more: Any,
) -> Recording:
    """Build the recording of the values of each signal."""
    columns: dict[str, list[FloatArray]] = {}
    for signal, column in zip(description.signals, values):
        columns.setdefault(signal.kind, []).append(column)
    groups: dict[str, Any] = {}
    for kind, columns_of_kind in columns.items():
        block = np.column_stack(columns_of_kind)
        groups[kind] = block
        if kind not in JOINT_KINDS:
            groups[kind] = _channels_of_kind(description, kind, block)
    return Recording(
        joints=description.joints,
        time=time,
        position_units=tuple(signal.unit for signal in description.of("position")),
        source=source,
        current_units=tuple(signal.unit for signal in description.of("current")),
        payload=description.payload,
        period_samples=description.period_samples,
        **groups,
        **more,
    )


def _channels_of_kind(description: Description, kind: str, values: FloatArray) -> Channels:
    """Return the columns of one kind with their names and units."""
    signals = description.of(kind)
    names = tuple(signal.name for signal in signals)
    units = tuple(signal.unit for signal in signals)
    return Channels(names=names, units=units, values=values)


def _inspect_signals(
    description: Description,
    sampled: Sequence[_SampledSignal],
    values: Sequence[FloatArray],
    time: FloatArray,
) -> Iterator[Notice]:
    """Yield the notices on each kind of column.

    The columns are inspected as recorded or, if their clocks differ, as interpolated.
    """
    motion = None
    position_clock = time
    for kind in dict.fromkeys(signal.kind for signal in sampled):
        members = [k for k, signal in enumerate(sampled) if signal.kind == kind]
        clock = sampled[members[0]].clock
        columns = [sampled[k].values for k in members]
        if any(sampled[k].clock is not clock for k in members):
            clock = time
            columns = [values[k] for k in members]
        block = np.column_stack(columns)
        if motion is None:  # the first kind are the positions
            motion = joint_motion(block)
            position_clock = clock
        motion_here = motion
        if clock is not position_clock:
            nearest_sample = np.searchsorted(position_clock, clock)
            samples = np.clip(nearest_sample, 0, len(position_clock) - 1)
            motion_here = motion.at(samples)
        channels = _channels_of_kind(description, kind, block)
        yield from inspect_group(kind, channels, motion_here)


def _period_in_samples(recording: Recording, description: Description) -> int | None:
    """Return the period in samples, converted if the description gives it in seconds."""
    if description.period is None:
        return description.period_samples
    exact = description.period * recording.rate
    samples = round(exact)
    count = max(1, len(recording) // max(1, samples))
    if samples < 2 or abs(exact - samples) * count > MAX_PERIOD_ERROR:
        raise refused(
            recording.source,
            f"a period of {description.period:.9g} s is {exact:.4f} samples at "
            f"{recording.rate:.6g} Hz, expected a whole number; state a rate that fits, or leave "
            'the period out: it is estimated from the motion with repeats = "found"',
            samples=exact,
        )
    return samples


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingSource:
    """A long log as a source of blocks; the samples stay in the file.

    Fields as those of `Recording`.
    """

    joints: tuple[str, ...]
    position_units: tuple[str, ...]  # by joint
    period_samples: int | None  # samples of a period; None without one
    payload: str | None  # name of the payload that is carried
    source: str  # name of the file
    path: Path | StoredFile  # of the file
    description: Description  # how the file is read

    @cached_property
    def samples(self) -> int:
        """Number of samples; the file is read once to count."""
        return sum(len(block) for block in self.blocks())

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive recordings of at most `size` samples."""
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        description = self.description
        origin = None
        start = 0.0
        previous = -np.inf
        last: dict[int, float] = {}  # value of each wrapped signal at the end of the last block
        for table in table_blocks(self.path, size, description):
            first_block = origin is None
            if origin is None:
                origin = _time_origin({"": table}, description)
            sampled = _sample_block(table, description, origin)
            time = sampled[0].clock
            check_time(time, table.source, previous=previous, first=table.first)
            previous = float(time[-1])
            if first_block and not description.absolute:
                start = float(time[0])
            values = [signal.values for signal in sampled]
            for k, signal in enumerate(description.signals):
                if signal.turn:  # each block was unwrapped by itself
                    jump = values[k][0] - last.get(k, values[k][0])
                    values[k] = values[k] - signal.turn * np.round(jump / signal.turn)
                    last[k] = values[k][-1]
            yield _build_recording(
                description,
                time - start,
                values,
                table.source,
                notices=tuple(_reading_notices({"": table}, description)),
            )

    def read(self) -> Recording:
        """Read the whole log into memory."""
        return read_recording(self.path, self.description)


def _sample_block(table: Table, description: Description, origin: float) -> list[_SampledSignal]:
    """Return the signals of a block, which must share its clock."""
    sampled = _sample_signals({"": table}, description, origin, streamed=True)
    if any(s.delay for s in description.signals):
        raise refused(
            table.source,
            "a delay of some columns cannot be corrected in blocks; read the whole log with "
            "read_recording",
        )
    if any(s.clock is not sampled[0].clock for s in sampled):
        raise refused(
            table.source,
            "columns have clocks of their own; read the whole log with read_recording",
        )
    return sampled


def open_recording(
    path: str | Path | StoredFile,
    description: Described | None = None,
) -> RecordingSource:
    """Open a long log for reading in blocks; arguments as `read_recording`.

    Text, Parquet and Gough's NPZ files are streamed. Logs that need resampling are refused:
    they are read whole.
    """
    place = place_of(path)
    given = _as_description(description)
    if is_folder(place) or (given is not None and _needs_resampling(given)):
        raise InvalidRecording(
            f"'{place.name}' needs resampling onto one clock or cutting (several files, rate, "
            "start, stop or period in seconds), which cannot be done in blocks: use read_recording",
            source=place.name,
        )
    table = next(table_blocks(place, HEAD_SAMPLES, given), None)
    if table is None:
        raise refused(place.name, "there are no samples")
    resolved = _resolve_description(table, given)
    origin = _time_origin({"": table}, resolved)
    _sample_block(table, resolved, origin)  # raises if that is not possible
    return RecordingSource(
        joints=resolved.joints,
        position_units=tuple(signal.unit for signal in resolved.of("position")),
        payload=resolved.payload,
        period_samples=resolved.period_samples,
        source=place.name,
        path=place,
        description=resolved,
    )


def _needs_resampling(description: Description) -> bool:
    """Return True if a description asks for what cannot be done in blocks."""
    if description.rate is not None or description.period is not None:
        return True
    return bool(description.start) or isfinite(description.stop)


def describe_log(path: str | Path) -> Description:
    """Return how a file that describes itself is read."""
    head = next(table_blocks(place_of(path), HEAD_SAMPLES, None))
    return replace(_resolve_description(head, None), ignored=(), absolute=False)


def recording_of_frame(
    frame: Any,
    description: Described | None,
    source: str,
) -> Recording:
    """Return the recording in a table of pandas; see `Recording.from_dataframe`."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise InvalidInput(
            f"a DataFrame was expected, not a {type(frame).__name__}; for arrays there is "
            "Recording.from_arrays"
        )
    if frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    names, repeated = numbered([str(name) for name in frame.columns])
    columns = {}
    for k, name in enumerate(names):
        column = frame.iloc[:, k]
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert(None)
        if column.dtype.kind in "fiub":  # numbers
            columns[name] = column.to_numpy(dtype=float, na_value=np.nan)
        else:
            columns[name] = column.to_numpy()
    table = replace(array_table(source, columns), repeated=repeated)
    return recorded({"": table}, _as_description(description), source)


def recording_of_arrays(
    joints: Sequence[str],
    units: Mapping[str, Any],
    time: Any,
    rate: float | None,
    source: str,
    signals: Mapping[str, Any],
) -> Recording:
    """Return the recording of arrays; see `Recording.from_arrays`."""
    if (time is None) == (rate is None) or "position" not in signals:
        raise InvalidInput("a recording of arrays needs position, and either time or rate")
    facts = {name: signals[name] for name in ("period_samples", "payload") if name in signals}
    columns: dict[str, FloatArray] = {}
    for kind, given in signals.items():
        if kind in facts or given is None:
            continue
        if kind not in KINDS:
            hint = nearest(kind, (*KINDS, "period_samples", "payload"))
            raise InvalidInput(f"there is no signal '{kind}'{hint}")
        if isinstance(given, Mapping) != (kind in OTHER_KINDS):
            expected = "an array with a column for each joint"
            if kind in OTHER_KINDS:
                expected = "arrays by name: {'name': array}"
            raise InvalidInput(f"{kind} is a {type(given).__name__}, expected {expected}")
        if units.get(kind) is None:
            raise InvalidInput(
                f"the unit of {kind} is missing: say units={{'{kind}': ...}}; it is never guessed"
            )
        if isinstance(given, Mapping):
            names = list(given)
            values = np.column_stack(list(given.values()))
        else:
            names = list(joints)
            values = np.asarray(given, dtype=float)
        stated = units[kind]
        column_units = [stated] * len(names) if isinstance(stated, str) else list(stated)
        check_shape(values, (None, len(names)), kind)
        check_shape(np.array(column_units), (len(names),), f"units of {kind}")
        for name, unit, column in zip(names, column_units, values.T):
            columns[f"{name}.{kind} [{unit}]"] = column
    if rate:
        samples = len(next(iter(columns.values())))
        stamps = np.arange(samples) / rate
    else:
        stamps = np.asarray(time, dtype=float)
    columns = {f"time [{units.get('time', 's')}]": stamps} | columns
    return recorded(
        {"": replace(array_table(source, columns), facts=facts)},
        None,
        source,
    )


def log_and_description(log: str | Path) -> tuple[str, str | None]:
    """Return the file of a log and its own description, if any: `log.csv@its.toml`.

    The last `@` separates them if the text ends with `.toml`; any other belongs to a name, and
    so does `@@`, which stands for one. A `Path` is a file without a description.
    """
    if isinstance(log, Path):
        return str(log), None
    separators = []
    if log.lower().endswith(DESCRIPTION_SUFFIX):
        separators = [run.end() - 1 for run in re.finditer("@+", log) if len(run[0]) % 2]
    if not separators:
        return log.replace("@@", "@"), None
    file = log[: separators[-1]]
    description = log[separators[-1] + 1 :]
    return file.replace("@@", "@"), description.replace("@@", "@")


def log_with_description(file: str | Path, description: str | Path | None) -> str:
    """Return the text from which `log_and_description` finds the same file and description."""
    name = str(file)
    escaped = name.replace("@", "@@")
    if description is None:
        is_plain = "@@" not in name and not name.lower().endswith(DESCRIPTION_SUFFIX)
        return name if is_plain else escaped
    described = str(description)
    if described.startswith("@"):
        described = f"./{described}"
    return f"{escaped}@{described.replace('@', '@@')}"


def as_recordings(logs: Log | Sequence[Log], what: str = "recordings") -> list[Recording]:
    """Return logs as recordings, whatever they were given as; one alone need not be in a list."""
    if isinstance(logs, Sequence) and not isinstance(logs, str | Recording):
        recordings = []
        for log in logs:
            recordings += as_recordings(log, what)
        return recordings
    if isinstance(logs, str | Path):
        return [read_recording(*log_and_description(logs))]
    if hasattr(logs, "iloc") or hasattr(logs, "to_pandas"):
        return [Recording.from_dataframe(logs)]
    check_type(
        logs,
        Recording,
        what,
        "a Recording, the path of a log, a DataFrame, or several of them",
    )
    return [logs]
