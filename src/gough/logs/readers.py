"""From files to recordings: whole, or in blocks for logs that do not fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, check_shape
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.showing import expect
from gough.logs.checks import check_gaps, inspect_clock, inspect_group, inspected, moving_joints
from gough.logs.containers import array_table
from gough.logs.description import (
    FIRST,
    Description,
    Group,
    TimeBase,
    describe_headers,
    load_description,
    parse_description,
)
from gough.logs.finding import Finding
from gough.logs.formats import is_folder, table_blocks
from gough.logs.recording import JOINT_KINDS, KINDS, OTHER_KINDS, Channels, Recording, check_time
from gough.logs.resampling import even_times, interpolate, resample_evenly, stretch
from gough.logs.tables import Table, joined, numbered_names, repeated_names

Described = str | Path | Mapping[str, Any] | Description
"""A description: its file, its keys, or what `load_description` returned."""


def read_recording(path: str | Path, description: Described | None = None,
                   joints: Sequence[str] | None = None) -> Recording:
    """Read a run: a text table, any other file of `LOG_FORMATS`, a bag, or a folder of files with their own clocks.

    Files Gough wrote and tables whose headers look like `leg1.slider.position [m]` need no description. With a
    description file (see `gough.logs.description`) time counts from the first sample kept, and signals on other
    clocks than the positions are interpolated over the span all clocks share. What reading and `checks.inspect` found
    is in `quality`.

    Args:
        path: File, or folder of a run described by several files.
        description: Which column is which; a TOML file, its keys, or what `load_description` returned.
        joints: The joints expected, in this order; e.g. those of the robot file.

    Raises:
        InvalidRecording: Anything that would have to be guessed; names file, column and sample.
    """
    expect(path, (str, Path), "the log", "the path of a file; for tables and arrays there are Recording.from_dataframe "
                                         "and from_arrays")
    path, described = Path(path), _loaded(description)
    if is_folder(path):
        if described is None:
            raise InvalidRecording(f"'{path}' is a folder; reading several files needs a description of them",
                                   source=path.name)
        tables = _folder(path, described)
    else:
        tables = {"": joined(table_blocks(path, 65536, described))}
    found = recorded(tables, described, path.name, joints)
    if not path.is_file():
        return found
    with path.open("rb") as handle:
        return replace(found, digest=hashlib.file_digest(handle, "sha256").hexdigest())


def recorded(tables: Mapping[str, Table], described: Description | None, source: str,
             joints: Sequence[str] | None = None) -> Recording:
    """Return the recording that tables contain by file name, that of a single file under ""; see `read_recording`."""
    if described is None or ("" in tables and _has_one_clock(tables[""], described)):
        recording = inspected(_on_one_clock(tables[""], described))
        if described is not None:
            recording = replace(recording, time=recording.time - recording.time[0])
            if described.rate is not None and described.groups[0].time.columns:
                recording = resample_evenly(recording, described.rate)
    else:
        recording = _merged(tables, described, source)
    if described is not None:
        if described.start > 0 or described.stop < recording.time[-1]:
            inside = (recording.time >= described.start) & (recording.time <= described.stop)
            if inside.sum() < 2:
                raise InvalidRecording(f"{source}: start and stop leave {inside.sum()} samples of "
                                       f"{recording.time[-1]:.6g} s", source=source)
            recording = recording.take(inside)
            recording = replace(recording, time=recording.time - recording.time[0])
        recording = _with_period(recording, described)
    return _ordered(recording, joints)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingSource:
    """A long log as a source of blocks; the samples stay in the file. Fields as those of `Recording`."""

    joints: tuple[str, ...]
    position_units: tuple[str, ...]
    period_samples: int | None
    payload: str | None
    source: str
    path: Path
    description: Description | None

    @cached_property
    def samples(self) -> int:
        """How many there are; the file is read once to count."""
        return sum(len(block) for block in self.blocks())

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive recordings of at most `size` samples, in memory that does not grow with the log."""
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        for block in _blocks(self.path, self.description, size):
            yield _ordered(block, self.joints)

    def read(self) -> Recording:
        """Read the whole log into memory."""
        return read_recording(self.path, self.description, self.joints)


def open_recording(path: str | Path, description: Described | None = None,
                   joints: Sequence[str] | None = None) -> RecordingSource:
    """Open a long log for reading in blocks; arguments as `read_recording`.

    Text, Parquet and Gough's NPZ files are streamed.

    Raises:
        InvalidRecording: As `read_recording`; also for runs that need resampling, which are read whole.
    """
    path, described = Path(path), _loaded(description)
    if is_folder(path) or (described is not None and (
            described.rate is not None or described.period is not None or described.start or isfinite(described.stop))):
        raise InvalidRecording(f"'{path.name}' needs resampling onto one clock or cutting (several files, rate, start, "
                               "stop or period in seconds), which cannot be done in blocks: use read_recording",
                               source=path.name)
    block = next(_blocks(path, described, 16), None)
    if block is None:
        raise InvalidRecording(f"{path.name}: there are no samples", source=path.name)
    first = _ordered(block, joints)
    return RecordingSource(
        joints=first.joints, position_units=first.position_units, period_samples=first.period_samples,
        payload=first.payload, source=first.source, path=path, description=described)


def recording_of_frame(frame: Any, description: Described | None, joints: Sequence[str] | None,
                       source: str) -> Recording:
    """Return the recording in a table of pandas; see `Recording.from_dataframe`."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise InvalidInput(f"a DataFrame was expected, not a {type(frame).__name__}; for arrays there is "
                           "Recording.from_arrays")
    if frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    names, columns = [str(name) for name in frame.columns], {}
    for k, name in enumerate(numbered_names(names)):
        column = frame.iloc[:, k]
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert(None)
        numbers = column.dtype.kind in "fiub"
        columns[name] = column.to_numpy(dtype=float, na_value=np.nan) if numbers else column.to_numpy()
    table = replace(array_table(source, columns), repeated=repeated_names(names))
    return recorded({"": table}, _loaded(description), source, joints)


def recording_of_arrays(joints: Sequence[str], units: Mapping[str, Any], time: Any, rate: float | None, source: str,
                        signals: Mapping[str, Any]) -> Recording:
    """Return the recording of arrays; see `Recording.from_arrays`."""
    if (time is None) == (rate is None) or "position" not in signals:
        raise InvalidInput("a recording of arrays needs position, and either time or rate")
    facts = {name: signals[name] for name in ("period_samples", "payload") if name in signals}
    names: dict[str, FloatArray] = {}
    for kind, given in signals.items():
        if kind in facts or given is None:
            continue
        if kind not in KINDS:
            raise InvalidInput(f"there is no signal '{kind}'{nearest(kind, (*KINDS, 'period_samples', 'payload'))}")
        if kind in OTHER_KINDS and not isinstance(given, Mapping):
            raise InvalidInput(f"{kind} is a {type(given).__name__}, expected arrays by name: {{'name': array}}")
        own = list(given) if isinstance(given, Mapping) else list(joints)
        values = np.column_stack(list(given.values())) if isinstance(given, Mapping) else np.asarray(given, dtype=float)
        check_shape(values, (None, len(own)), kind)
        unit = units.get(kind)
        if unit is None:
            raise InvalidInput(f"the unit of {kind} is missing: say units={{'{kind}': ...}}; it is never guessed")
        each = [unit] * len(own) if isinstance(unit, str) else list(unit)
        check_shape(np.array(each), (len(own),), f"units of {kind}")
        names |= {f"{name}.{kind} [{u}]": column for name, u, column in zip(own, each, values.T)}
    count = len(next(iter(names.values())))
    stamps = np.arange(count) / rate if rate else np.asarray(time, dtype=float)
    return recorded({"": replace(array_table(source, {f"time [{units.get('time', 's')}]": stamps} | names),
                                 facts=facts)}, None, source, joints)


Log = Recording | str | Path | Any
"""A log: read, a file with or without `@description.toml`, or a DataFrame."""


def log_and_description(log: str) -> tuple[str, str | None]:
    """Return the file of a log and its own description: of `log.csv@its.toml` both, of `log.csv` no description."""
    file, _, own = log.partition("@")
    return file, own or None


def as_recordings(logs: Log | Sequence[Log], what: str = "recordings") -> list[Recording]:
    """Return logs as recordings, whatever they were given as; one alone need not be in a list."""
    if isinstance(logs, Sequence) and not isinstance(logs, str | Recording):
        return [each for log in logs for each in as_recordings(log, what)]
    if isinstance(logs, str | Path):
        return [read_recording(*log_and_description(str(logs)))]
    if hasattr(logs, "iloc") or hasattr(logs, "to_pandas"):
        return [Recording.from_dataframe(logs)]
    expect(logs, Recording, what, "a Recording, the path of a log, a DataFrame, or several of them")
    return [logs]


def describe_log(path: str | Path) -> Description:
    """Return how a file that describes itself is read."""
    table = next(table_blocks(Path(path), 16, None))
    found = describe_headers([*table.columns, *table.unread], table.source)
    first = _on_one_clock(table, None)
    return replace(found, payload=first.payload, period_samples=first.period_samples, ignored=())


def _blocks(path: Path, description: Description | None, size: int) -> Iterator[Recording]:
    done, start, previous = 0, 0.0, -np.inf
    position = description.group("position") if description is not None else None
    turns = np.array(position.turns if position is not None else ())
    last: FloatArray | None = None
    origin = None
    for table in table_blocks(path, size, description):
        origin = _origin(table, description) if origin is None else origin
        record = _on_one_clock(table, description, origin)
        if len(turns):  # each block was unwrapped on its own; it goes on from where the last one ended
            whole = turns * np.round((record.position[0] - (record.position[0] if last is None else last)) / turns)
            record = replace(record, position=record.position - whole)
            last = record.position[-1]
        check_time(record.time, record.source, previous=previous, first=done)
        previous = float(record.time[-1])
        if description is not None:
            start = start if done else float(record.time[0])
            record = replace(record, time=record.time - start)
        done += len(record)
        yield record


def _loaded(description: Described | None) -> Description | None:
    if description is None or isinstance(description, Description):
        return description
    return parse_description(description) if isinstance(description, Mapping) else load_description(description)


def _origin(table: Table, description: Description | None) -> float:
    """Return the whole second where described stamps begin; files that describe themselves keep their times. [s]"""
    position = description.group("position") if description else None
    if position is None or not position.time.columns:
        return 0.0
    stamps = _picked(table, position.time.columns[0]) * position.time.factors[0]
    known = stamps[np.isfinite(stamps)]
    return float(np.floor(known[0])) if len(known) else 0.0


def _picked(table: Table, name: str) -> FloatArray:
    """Return a column by name, or the only one."""
    if name == FIRST and len(table.columns) != 1:
        raise InvalidRecording(f"{table.source} has {len(table.columns)} columns ({', '.join(table.columns)}); say "
                               "which with columns = [...]", source=table.source)
    return table.column(next(iter(table.columns)) if name == FIRST else name)


def _stamps(table: Table, time: TimeBase, origin: float) -> FloatArray:
    """Return the times of a table's samples, (t,). [s after origin, taken off first: doubles lack the digits]"""
    first, *rest = (_picked(table, name) * factor for name, factor in zip(time.columns, time.factors))
    return np.asarray(sum(rest, first - origin) + time.offset)


def _values(table: Table, group: Group, j: int, use: slice | BoolArray = slice(None)) -> FloatArray:
    """Return some samples of a column of a group in SI, (t,)."""
    values = _picked(table, group.columns[j])[use] * group.factors[j]
    if group.turns and group.turns[j]:
        values = np.unwrap(values, period=group.turns[j])
    return np.asarray(values + group.offsets[j] if group.offsets else values)


def _in_time(values: FloatArray, group: Group, j: int, stamps: FloatArray) -> FloatArray:
    """Return values at their stamps, (t,): those of a column with a delay stand that much later in it."""
    delay = group.delays[j] if group.delays else 0.0
    if not delay:
        return values
    return interpolate(values[:, None], stamps, np.clip(stamps + delay, stamps[0], stamps[-1]), "cubic")[:, 0]


def _made(description: Description, time: FloatArray, values: Mapping[str, FloatArray], source: str,
          quality: tuple[Finding, ...], facts: Mapping[str, object] | None = None) -> Recording:
    """Build the recording of values by kind."""
    facts = facts or {}
    fields: dict[str, Any] = {g.kind: values[g.kind] if g.kind in JOINT_KINDS else Channels(
        names=g.names, units=g.units, values=values[g.kind]) for g in description.groups}
    position, current = description.group("position"), description.group("current")
    period, payload = facts.get("period_samples", description.period_samples), facts.get("payload", description.payload)
    if (not isinstance(period, int | None) or isinstance(period, bool) or (period is not None and period < 2)
            or not isinstance(payload, str | None)):
        raise InvalidRecording(f"{source}: period_samples is {period!r} and payload {payload!r}; expected a whole "
                               "number from 2 and a name", source=source)
    ignored = tuple(Finding(kind="ignored", channel=name, message="this column is none Gough knows; it was left out")
                    for name in description.ignored)
    return Recording(joints=description.joints, time=time, position_units=position.units if position else (),
                     current_units=current.units if current else (), period_samples=period,
                     payload=None if payload == "none" else payload, source=source, quality=quality + ignored, **fields)


def _has_one_clock(table: Table, description: Description) -> bool:
    """Tell whether all columns of a file are sampled together."""
    bases = {(g.time.columns, g.time.offset) for g in description.groups}
    used = [*(name for g in description.groups for name in (*g.columns, *g.time.columns))]
    return len(bases) == 1 and not any(name in table.blank for name in used) and bool(next(iter(bases))[0])


def _on_one_clock(table: Table, described: Description | None, origin: float | None = None) -> Recording:
    """Return the recording of one table; times as in the file, or from the origin where it is described. [s]"""
    if described is None and table.repeated:
        table.column(min(table.repeated))  # raises: a header that repeats says nothing
    description = described or describe_headers([*table.columns, *table.unread], table.source)
    position = description.group("position")
    for name in (name for g in description.groups for name in g.columns if name in table.blank):
        blank = table.blank[name]
        raise InvalidRecording(f"{table.source}: column '{name}' is blank at sample "
                               f"{table.first + int(np.argmax(blank))} ({int(blank.sum())} such cells); columns "
                               "sampled at different times need a description, and read_recording to bring them "
                               "together", source=table.source, column=name)
    if position is None or not _has_one_clock(table, description):
        raise InvalidRecording(f"{table.source}: columns have clocks of their own; the log is read whole, with "
                               "read_recording", source=table.source)
    time = _stamps(table, position.time, _origin(table, described) if origin is None else origin)
    check_time(time, table.source, " + ".join(position.time.columns), first=table.first)
    if origin is not None and any(any(g.delays) for g in description.groups):
        raise InvalidRecording(f"{table.source}: a delay of some columns cannot be undone in blocks; read the log "
                               "whole with read_recording", source=table.source)
    values = {}
    for group in description.groups:
        for name in group.columns:
            _check_length(table, name, len(table.column(name)), len(time))
        values[group.kind] = np.column_stack([_in_time(_values(table, group, j), group, j, time)
                                              for j in range(len(group.columns))])
    return _made(description, time, values, table.source, table.findings, table.facts)


def _check_length(table: Table, column: str, samples: int, times: int) -> None:
    if samples != times:
        raise InvalidRecording(f"{table.source}: column '{column}' has {samples} samples, its time {times}; matrices "
                               "need one row for each sample", source=table.source, column=column)


def _with_period(recording: Recording, description: Description) -> Recording:
    """State the period in samples where the description gives it in seconds."""
    if description.period is None:
        return replace(recording, period_samples=description.period_samples)
    exact = description.period * recording.rate
    samples = round(exact)
    count = max(1, len(recording) // max(1, samples))
    if samples < 2 or abs(exact - samples) * count > 0.1:
        raise InvalidRecording(
            f"{recording.source}: a period of {description.period:.9g} s is {exact:.4f} samples at "
            f"{recording.rate:.6g} Hz, expected a whole number; state a rate that fits, or leave the period out: it is "
            "found in the motion with repeats = \"found\"", source=recording.source, samples=exact)
    return replace(recording, period_samples=samples)


def _folder(path: Path, description: Description) -> dict[str, Table]:
    """Read the files of a run."""
    if any(not g.files for g in description.groups):
        raise InvalidRecording(f"'{path.name}' is a folder but the description names no files; add file = \"...\" to "
                               "each table", source=path.name)
    tables: dict[str, Table] = {}
    for name in (name for g in description.groups for name in (*g.files, g.time.file)):
        if name is None or name in tables:
            continue
        file = next((f for f in (path / name, path / f"{name}.gz") if f.is_file()), None)
        if file is None:
            there = nearest(name, [p.name for p in path.iterdir()])
            raise InvalidRecording(f"{path.name}: there is no file '{name}'{there}", source=path.name, file=name)
        tables[name] = joined(table_blocks(file, 65536, description))
    return tables


class _Signal(NamedTuple):
    """A column at its own times; `clock` is one object for columns that share it."""

    table: Table
    clock: FloatArray
    values: FloatArray


def _signals(tables: Mapping[str, Table], description: Description) -> dict[str, list[_Signal]]:
    """Return the columns of each group, every one at the samples where it has a value."""
    clocks: dict[tuple[object, ...], FloatArray] = {}
    position = description.groups[0]
    origin = _origin(tables[position.time.file or (position.files or ("",))[0]], description)
    found: dict[str, list[_Signal]] = {}
    for group in description.groups:
        for j, column in enumerate(group.columns):
            table = tables[group.files[j] if group.files else ""]
            source, time = table if group.time.file is None else tables[group.time.file], group.time
            use = ~table.blank.get(column, np.zeros(len(_picked(table, column)), dtype=bool))
            key = (source.source, time.columns, time.offset, use.tobytes())
            if key not in clocks:
                stamps = _stamps(source, time, origin) if time.columns else np.arange(len(use)) / (
                    description.rate or np.nan)
                _check_length(table, column, len(use), len(stamps))
                clocks[key] = stamps[use]
                check_time(clocks[key], source.source, " + ".join(time.columns) or "rate")
            clock = clocks[key]
            values = _values(table, group, j, use)
            found.setdefault(group.kind, []).append(_Signal(table, clock, _in_time(values, group, j, clock)))
    return found


def _merged(tables: Mapping[str, Table], description: Description, source: str) -> Recording:
    """Bring columns with clocks of their own to one clock."""
    signals = _signals(tables, description)
    every = [signal for group in signals.values() for signal in group]
    own, home = signals["position"][0].clock, signals["position"][0].table.source
    start, end = max(s.clock[0] for s in every), min(s.clock[-1] for s in every)
    if description.rate is not None:
        time = even_times(start, end, description.rate) if end > start else own[:0]
    else:
        time = own[(own >= start) & (own <= end)]
    if len(time) < 2:
        spans = ", ".join(f"{kind} {group[0].clock[0]:.3f} to {group[0].clock[-1]:.3f} s"
                          for kind, group in signals.items())
        raise InvalidRecording(f"{source}: the signals share no stretch of time: {spans}; are they of one run, and is "
                               "an offset missing?", source=source)
    quality = [f for table in tables.values() for f in table.findings]
    for clock, name in {id(s.clock): (s.clock, s.table.source) for s in every}.values():
        quality += [*inspect_clock(clock, name), *_clock_difference(clock, own, name, home)]
    values = {}
    moving: BoolArray | None = None
    for group in description.groups:
        columns = signals[group.kind]
        for signal in columns:
            if group.kind in ("position", "effort", "current") and not np.isin(time, signal.clock).all():
                used = stretch(signal.clock, time)
                check_gaps(signal.clock[used], signal.table.source, used.start)
        values[group.kind] = np.column_stack([
            s.values if len(s.clock) == len(time) and np.array_equal(s.clock, time)
            else interpolate(s.values[:, None], s.clock, time, group.interpolation)[:, 0] for s in columns])
        clock, raw = time, values[group.kind]
        if all(s.clock is columns[0].clock for s in columns):  # what was recorded tells more than what was interpolated
            clock, raw = columns[0].clock, np.column_stack([s.values for s in columns])
        if moving is None:
            moving, moves = moving_joints(raw), clock
        use = moving[np.clip(np.searchsorted(moves, clock), 0, len(moves) - 1)]
        quality += inspect_group(group.kind, Channels(names=group.names, units=group.units, values=raw), use)
    quality.append(Finding(
        kind="overlap", channel=source, numbers={"start": start - own[0], "duration": end - start},
        message=f"all signals together cover {end - start:.3f} s; samples outside were cut off"))
    return replace(_made(description, time - time[0], values, source, tuple(quality)), inspected=True)


def _clock_difference(stamps: FloatArray, own: FloatArray, source: str, home: str) -> list[Finding]:
    """Compare a clock with the one of the positions."""
    if len(stamps) == len(own) and np.array_equal(stamps, own):
        return []
    rates = [(len(c) - 1) / (c[-1] - c[0]) if len(c) > 1 else np.nan for c in (stamps, own)]
    start = float(stamps[0] - own[0])
    ratio = float(rates[0] / rates[1] - 1.0)
    return [Finding(kind="clock", channel=source, numbers={"start": start, "rate_ratio": ratio},
                    message=f"another clock than {home}: starts {start * 1e3:+.2f} ms, mean rate "
                            f"{ratio * 1e6:+.0f} ppm; interpolated")]


def _ordered(recording: Recording, joints: Sequence[str] | None) -> Recording:
    """Return the recording with its joints in the order asked for."""
    if joints is None or tuple(joints) == recording.joints:
        return recording
    missing = [j for j in joints if j not in recording.joints]
    extra = [j for j in recording.joints if j not in joints]
    if missing or extra:
        first = missing[0] if missing else extra[0]
        hint = nearest(first, recording.joints if missing else joints)
        raise InvalidRecording(
            f"{recording.source}: the joints are {', '.join(recording.joints)}; expected {', '.join(joints)}"
            f"{' - missing: ' + ', '.join(missing) if missing else ''}"
            f"{' - not expected: ' + ', '.join(extra) if extra else ''}{hint}",
            source=recording.source, missing=missing, extra=extra)
    order = [recording.joints.index(j) for j in joints]
    fields: dict[str, Any] = {kind: getattr(recording, kind)[:, order] for kind in JOINT_KINDS
                              if getattr(recording, kind) is not None}
    units = recording.current_units
    return replace(recording, joints=tuple(joints), position_units=tuple(recording.position_units[i] for i in order),
                   current_units=tuple(units[i] for i in order) if units else (), **fields)
