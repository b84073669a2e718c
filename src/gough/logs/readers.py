"""From files to recordings: whole, or in blocks for logs that do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.logs.checks import check_gaps, inspect_clock, inspect_group, inspected, moving_joints
from gough.logs.containers import open_npz
from gough.logs.description import Description, Group, TimeBase, describe_headers, load_description
from gough.logs.finding import Finding
from gough.logs.formats import table_blocks
from gough.logs.recording import JOINT_KINDS, Channels, Recording, check_time
from gough.logs.resampling import even_times, interpolate, resample_evenly, stretch
from gough.logs.tables import Table, joined


def read_recording(path: str | Path, description: str | Path | Description | None = None,
                   joints: Sequence[str] | None = None) -> Recording:
    """Read a run: a CSV or text table, NPZ, MATLAB or Parquet file, or a folder of files with their own clocks.

    Files Gough wrote and tables whose headers look like `leg1.slider.position [m]` need no description. With a
    description file (see `gough.logs.description`) time counts from the first sample kept, and signals on other
    clocks than the positions are interpolated over the span all clocks share. What reading and `checks.inspect` found
    is in `quality`.

    Args:
        path: File, or folder of a run described by several files.
        description: Which column is which; a TOML file or what `load_description` returned.
        joints: The joints expected, in this order; e.g. those of the robot file.

    Raises:
        InvalidRecording: Anything that would have to be guessed; names file, column and sample.
    """
    path, described = Path(path), _loaded(description)
    if path.is_dir():
        if described is None:
            raise InvalidRecording(f"'{path}' is a folder; reading several files needs a description of them",
                                   source=path.name)
        recording = _read_folder(path, described)
    else:
        recording = inspected(_on_one_clock(joined(table_blocks(path, 65536, described)), described))
        if described is not None:
            recording = replace(recording, time=recording.time - recording.time[0])
            if described.rate is not None:
                recording = resample_evenly(recording, described.rate)
            recording = _with_period(recording, described)
    return _ordered(recording, joints)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingSource:
    """A long log as a source of blocks; the samples stay in the file.

    Args:
        joints: Names of the actuated joints, (a,).
        position_units: `m` or `rad` for each joint, (a,).
        period_samples: Samples in one period, or None.
        payload: Name of the payload, or None.
        source: File name.
        samples: Number of samples, or None where only reading the file tells.
        path: The file.
        description: How to read it, or None.
    """

    joints: tuple[str, ...]
    position_units: tuple[str, ...]
    period_samples: int | None
    payload: str | None
    source: str
    samples: int | None
    path: Path
    description: Description | None

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive recordings of at most `size` samples, in memory that does not grow with the log.

        Raises:
            InvalidRecording: As `read_recording`, at the block where it happens.
        """
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        for block in _blocks(self.path, self.description, size):
            yield _ordered(block, self.joints)

    def read(self) -> Recording:
        """Read the whole log into memory."""
        return read_recording(self.path, self.description, self.joints)


def open_recording(path: str | Path, description: str | Path | Description | None = None,
                   joints: Sequence[str] | None = None) -> RecordingSource:
    """Open a long log for reading in blocks; arguments as `read_recording`.

    Text and Parquet files are streamed; NPZ files are read slice by slice if stored uncompressed, as Gough does.

    Raises:
        InvalidRecording: As `read_recording`; also for runs that need resampling, which are read whole.
    """
    path, described = Path(path), _loaded(description)
    if path.is_dir() or (described is not None and (described.rate is not None or described.period is not None)):
        raise InvalidRecording(f"'{path.name}' needs resampling onto one clock (several files, rate or period in "
                               "seconds), which cannot be done in blocks: use read_recording", source=path.name)
    block = next(_blocks(path, described, 16), None)
    if block is None:
        raise InvalidRecording(f"{path.name}: there are no samples", source=path.name)
    first = _ordered(block, joints)
    facts, arrays = open_npz(path) if path.suffix.lower() == ".npz" else ({}, {})
    return RecordingSource(
        joints=first.joints, position_units=first.position_units, period_samples=first.period_samples,
        payload=first.payload, source=first.source, path=path, description=described,
        samples=len(arrays["time"]) if facts else None)


def describe_log(path: str | Path) -> Description:
    """Return how a file that describes itself is read.

    Raises:
        InvalidRecording: The file needs a description.
    """
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


def _loaded(description: str | Path | Description | None) -> Description | None:
    return description if isinstance(description, Description) or description is None else load_description(description)


def _origin(table: Table, description: Description | None) -> float:
    """Return the whole second where described stamps begin; files that describe themselves keep their times. [s]"""
    position = description.group("position") if description else None
    return float(np.floor(table.column(position.time.columns[0])[0] * position.time.factors[0])) if position else 0.0


def _stamps(table: Table, time: TimeBase, origin: float) -> FloatArray:
    """Return the times of a table's samples, (t,). [s after origin]

    The origin is taken from the first column before the rest is added: seconds since 1970 plus nanoseconds do not fit
    in one double.
    """
    columns = [table.column(name) for name in time.columns]
    stamps = columns[0] * time.factors[0] - origin
    for column, factor in zip(columns[1:], time.factors[1:]):
        stamps = stamps + column * factor
    stamps = stamps + time.offset
    check_time(stamps, table.source, " + ".join(time.columns), first=table.first)
    return np.asarray(stamps)


def _values(table: Table, group: Group, samples: int) -> FloatArray:
    """Return the columns of a group in SI, (t, k)."""
    columns = [table.column(name) for name in group.columns]
    for name, column in zip(group.columns, columns):
        if len(column) != samples:
            raise InvalidRecording(f"{table.source}: column '{name}' has {len(column)} samples, its time {samples}; "
                                   "matrices need one row for each sample", source=table.source, column=name)
    values = np.column_stack([column * factor for column, factor in zip(columns, group.factors)])
    for j, turn in enumerate(group.turns):
        values[:, j] = np.unwrap(values[:, j], period=turn)
    return values + np.array(group.offsets) if group.offsets else values


def _in_time(values: FloatArray, group: Group, stamps: FloatArray) -> FloatArray:
    """Return values at their stamps, (t, k): those of a column with a delay stand that much later in it."""
    if not any(group.delays):
        return values
    return np.column_stack([interpolate(column[:, None], stamps, np.clip(stamps + delay, stamps[0], stamps[-1]),
                                        "cubic")[:, 0] if delay else column
                            for column, delay in zip(values.T, group.delays)])


def _made(description: Description, time: FloatArray, values: Mapping[str, FloatArray], source: str,
          quality: tuple[Finding, ...], facts: Mapping[str, object] | None = None) -> Recording:
    """Build the recording of values by kind."""
    facts = facts or {}
    fields: dict[str, Any] = {}
    for group in description.groups:
        if group.kind in JOINT_KINDS:
            fields[group.kind] = values[group.kind]
        else:
            fields[group.kind] = Channels(names=group.names, units=group.units, values=values[group.kind])
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


def _on_one_clock(table: Table, described: Description | None, origin: float | None = None) -> Recording:
    """Return the recording of one table; times as in the file, or from the origin where it is described. [s]"""
    if described is None and table.repeated:
        table.column(min(table.repeated))  # raises: a header that repeats says nothing
    description = described or describe_headers([*table.columns, *table.unread], table.source)
    position = description.group("position")
    bases = {(g.time.columns, g.time.offset) for g in description.groups}
    if position is None or len(bases) > 1:
        raise InvalidRecording(f"{table.source}: one file with several time bases; describe it as a folder of files",
                               source=table.source)
    time = _stamps(table, position.time, _origin(table, described) if origin is None else origin)
    if origin is not None and any(any(g.delays) for g in description.groups):
        raise InvalidRecording(f"{table.source}: a delay of some columns cannot be undone in blocks; read the log "
                               "whole with read_recording", source=table.source)
    values = {g.kind: _in_time(_values(table, g, len(time)), g, time) for g in description.groups}
    return _made(description, time, values, table.source, table.findings, table.facts)


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


def _read_folder(path: Path, description: Description) -> Recording:
    """Read the files of a run and bring them to one clock."""
    position = description.group("position")
    if position is None or any(g.file is None for g in description.groups):
        raise InvalidRecording(f"'{path.name}' is a folder but the description names no files; add file = \"...\" to "
                               "each table", source=path.name)
    tables: dict[str, Table] = {}
    for group in description.groups:
        if group.file is not None and group.file not in tables:
            file = next((f for f in (path / group.file, path / f"{group.file}.gz") if f.is_file()), None)
            if file is None:
                there = nearest(group.file, [p.name for p in path.iterdir()])
                raise InvalidRecording(f"{path.name}: there is no file '{group.file}'{there}", source=path.name,
                                       file=group.file)
            tables[group.file] = joined(table_blocks(file, 65536, description))
    home = tables[str(position.file)]
    origin = _origin(home, description)
    clocks = {g.kind: _stamps(tables[str(g.file)], g.time, origin) for g in description.groups}
    start, end = max(c[0] for c in clocks.values()), min(c[-1] for c in clocks.values())
    own = clocks["position"]
    if description.rate is not None:
        time = even_times(start, end, description.rate) if end > start else own[:0]
    else:
        time = own[(own >= start) & (own <= end)]
    if len(time) < 2:
        spans = ", ".join(f"{kind} {c[0]:.3f} to {c[-1]:.3f} s" for kind, c in clocks.items())
        raise InvalidRecording(f"{path.name}: the files share no stretch of time: {spans}; are they of one run, and is "
                               "an offset missing?", source=path.name)
    quality = [f for table in tables.values() for f in table.findings]
    for name, table in tables.items():
        stamps = next(clocks[g.kind] for g in description.groups if g.file == name)
        quality += inspect_clock(stamps, table.source)
        quality += _clock_difference(stamps, own, table.source, home.source)
    values = {}
    moving = moving_joints(_values(home, position, len(own)))
    for group in description.groups:
        clock = clocks[group.kind]
        raw = _in_time(_values(tables[str(group.file)], group, len(clock)), group, clock)
        use = moving[np.clip(np.searchsorted(own, clock), 0, len(own) - 1)]
        quality += inspect_group(group.kind, Channels(names=group.names, units=group.units, values=raw), use)
        same = len(clock) == len(time) and np.array_equal(clock, time)
        if group.kind in ("position", "effort", "current") and not np.isin(time, clock).all():
            used = stretch(clock, time)
            check_gaps(clock[used], tables[str(group.file)].source, used.start)
        values[group.kind] = raw if same else interpolate(raw, clock, time, group.interpolation)
    quality.append(Finding(
        kind="overlap", channel=path.name, numbers={"start": start - own[0], "duration": end - start},
        message=f"all files together cover {end - start:.3f} s; samples outside were cut off"))
    made = _made(description, time - time[0], values, path.name, tuple(quality))
    return _with_period(replace(made, inspected=True), description)


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
