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

from gough.core.arrays import FloatArray, check_shape
from gough.core.display import check_type
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.notices import Notice
from gough.logs.checks import check_gaps, inspect_clock, inspect_group, moving_joints
from gough.logs.description import (
    Description,
    describe_headers,
    load_description,
    parse_description,
)
from gough.logs.formats import array_table, is_folder, table_blocks
from gough.logs.messages import log_notice, refused
from gough.logs.periods import even_times, interpolate, stretch
from gough.logs.recording import JOINT_KINDS, KINDS, OTHER_KINDS, Channels, Recording, check_time
from gough.logs.tables import Table, joined, numbered

Described = str | Path | Mapping[str, Any] | Description
"""A description: its file, its keys, or what `load_description` returned."""
Log = Recording | str | Path | Any
"""A log: read, a file with or without `@description.toml`, or a DataFrame."""


def read_recording(
    path: str | Path, description: Described | None = None, joints: Sequence[str] | None = None
) -> Recording:
    """Read a run: a text table, any other file of `LOG_FORMATS`, a bag, or a folder of files with
    their own clocks.

    Files Gough wrote and tables whose headers look like `leg1.slider.position [m]` need no
    description. With a description time counts from the first sample kept, and signals on other
    clocks than the positions are interpolated over the span all clocks share. What reading and
    `checks.inspect` found is in `notices`. Anything that would have to be guessed is an
    `InvalidRecording` that names file, column and sample.

    Args:
        path: File, or folder of a run described by several files.
        description: Which column is which; a TOML file, its keys, or what `load_description`
            returned.
        joints: The joints expected, in this order; e.g. those of the robot file.
    """
    check_type(
        path,
        (str, Path),
        "the log",
        "the path of a file; for tables and arrays there are Recording.from_dataframe and "
        "from_arrays",
    )
    path, described = Path(path), _loaded(description)
    if not is_folder(path):
        tables = {"": joined(table_blocks(path, 65536, described))}
    elif described is None:
        raise InvalidRecording(
            f"'{path}' is a folder; reading several files needs a description of them",
            source=path.name,
        )
    else:
        tables = _folder(path, described)
    found = recorded(tables, described, path.name, joints)
    if not path.is_file():
        return found
    with path.open("rb") as handle:
        return replace(found, digest=hashlib.file_digest(handle, "sha256").hexdigest())


def _loaded(description: Described | None) -> Description | None:
    if description is None or isinstance(description, Description):
        return description
    return (
        parse_description(description)
        if isinstance(description, Mapping)
        else load_description(description)
    )


def _folder(path: Path, description: Description) -> dict[str, Table]:
    """Read the files of a run."""
    if not description.signals[0].file:
        raise InvalidRecording(
            f"'{path.name}' is a folder but the description names no files; add file = \"...\" to "
            "each table",
            source=path.name,
        )
    tables: dict[str, Table] = {}
    for name in dict.fromkeys(
        name for s in description.signals for name in (s.file, s.clock.file) if name
    ):
        file = next((f for f in (path / name, path / f"{name}.gz") if f.is_file()), None)
        if file is None:
            there = nearest(name, [p.name for p in path.iterdir()])
            raise refused(path.name, f"there is no file '{name}'{there}", file=name)
        tables[name] = joined(table_blocks(file, 65536, description))
    return tables


def recorded(
    tables: Mapping[str, Table],
    given: Description | None,
    source: str,
    joints: Sequence[str] | None = None,
) -> Recording:
    """Return the recording that tables contain by file name, that of a single file under ""; see
    `read_recording`.
    """
    home = tables[""] if given is None else _of(tables, given.signals[0].file)
    description = _resolved(home, given, joints)
    sampled = _sampled(tables, description, _origin(tables, description))
    own, clocks = sampled[0].clock, list({id(s.clock): s for s in sampled}.values())
    start, end = max(s.clock[0] for s in clocks), min(s.clock[-1] for s in clocks)
    if description.rate is None or not description.signals[0].clock.columns:
        time = own if len(clocks) == 1 else own[(own >= start) & (own <= end)]
        shown = time if description.absolute else time - time[:1]
    else:  # counted from zero: `start` and `stop` are compared with these
        shown = even_times(0.0, end - start, description.rate) if end >= start else own[:0]
        time = np.minimum(start + shown, end)
    if len(time) < min(2, len(own)):
        spans = ", ".join(f"{s.kind} {s.clock[0]:.3f} to {s.clock[-1]:.3f} s" for s in clocks)
        raise refused(
            source,
            f"the signals share no stretch of time: {spans}; are they of one run, and is an offset "
            "missing?",
        )
    notices = _told(tables, description)
    for s in clocks:
        notices += inspect_clock(s.clock, "time" if len(clocks) == 1 else s.source)
        if not np.array_equal(s.clock, own):
            late = float(s.clock[0] - own[0])
            ratio = _rate(s.clock) / _rate(own) - 1.0
            notices.append(
                log_notice(
                    "clock",
                    s.source,
                    f"another clock than {sampled[0].source}: starts "
                    f"{late * 1e3:+.2f} ms, mean rate {ratio * 1e6:+.0f} ppm; interpolated",
                    start=late,
                    rate_ratio=ratio,
                )
            )
    values = [_at(s, time) for s in sampled]
    notices += _inspected(description, sampled, values, time)
    if len(clocks) > 1:
        notices.append(
            log_notice(
                "overlap",
                source,
                f"all signals together cover {end - start:.3f} s; samples outside were cut off",
                start=start - own[0],
                duration=end - start,
            )
        )
    recording = _made(description, shown, values, source, notices=tuple(notices), inspected=True)
    if description.start > 0 or description.stop < recording.time[-1]:
        inside = (recording.time >= description.start) & (recording.time <= description.stop)
        if inside.sum() < 2:
            raise refused(
                source, f"start and stop leave {inside.sum()} samples of {recording.time[-1]:.6g} s"
            )
        recording = recording.take(inside)
        recording = replace(recording, time=recording.time - recording.time[0])
    period = _period(recording, description)
    return (
        recording
        if period == recording.period_samples
        else replace(recording, period_samples=period)
    )


def _told(tables: Mapping[str, Table], description: Description) -> list[Notice]:
    """Return what reading found, and the columns that were left out."""
    return [
        *(f for table in tables.values() for f in table.notices),
        *(log_notice("ignored", name, "unknown column; ignored") for name in description.ignored),
    ]


def _rate(clock: FloatArray) -> float:
    return float((len(clock) - 1) / (clock[-1] - clock[0])) if len(clock) > 1 else np.nan


def _resolved(table: Table, given: Description | None, joints: Sequence[str] | None) -> Description:
    """Return how a table is read, as described or as its headers say, with its facts and the joints
    as asked for.
    """
    if given is None and table.repeated:
        table.column(min(table.repeated))  # raises: a header that repeats says nothing
    description = given or describe_headers([*table.columns, *table.unread], table.source)
    payload, period = (
        table.facts.get("payload", description.payload),
        table.facts.get("period_samples"),
    )
    period = period if given is None else description.period_samples
    if (
        not isinstance(period, int | None)
        or isinstance(period, bool)
        or (period is not None and period < 2)
        or not isinstance(payload, str | None)
    ):
        raise refused(
            table.source,
            f"period_samples is {period!r} and payload {payload!r}; expected a whole number "
            "from 2 and a name",
        )
    description = replace(
        description, payload=None if payload == "none" else payload, period_samples=period
    )
    own = description.joints
    if joints is None or tuple(joints) == own:
        return description
    missing, extra = [j for j in joints if j not in own], [j for j in own if j not in joints]
    if missing or extra:
        words = [
            f" - {what}: {', '.join(names)}"
            for what, names in (("missing", missing), ("not expected", extra))
            if names
        ]
        hint = nearest(missing[0], own) if missing else nearest(extra[0], joints)
        raise refused(
            table.source,
            f"the joints are {', '.join(own)}; expected {', '.join(joints)}{''.join(words)}{hint}",
            missing=missing,
            extra=extra,
        )
    ordered = sorted(
        description.signals,
        key=lambda s: (KINDS.index(s.kind), joints.index(s.name) if s.kind in JOINT_KINDS else 0),
    )
    return replace(description, joints=tuple(joints), signals=tuple(ordered))


class _Sampled(NamedTuple):
    """A signal at the times where it has values."""

    kind: str
    source: str
    clock: FloatArray  # one object for those that share it [s after the origin]
    values: FloatArray
    interpolation: str


def _of(tables: Mapping[str, Table], file: str) -> Table:
    return tables[file if file in tables else ""]


def _origin(tables: Mapping[str, Table], description: Description) -> float:
    """Return the whole second where described stamps begin; files that describe themselves keep
    their times. [s]
    """
    signal = description.signals[0]
    if description.absolute or not signal.clock.columns:
        return 0.0
    stamps = (
        _of(tables, signal.clock.file or signal.file).column(signal.clock.columns[0])
        * signal.clock.factors[0]
    )
    known = stamps[np.isfinite(stamps)]
    return float(np.floor(known[0])) if len(known) else 0.0


def _sampled(
    tables: Mapping[str, Table], description: Description, origin: float, streamed: bool = False
) -> list[_Sampled]:
    """Return the signals, every one at the samples where it has a value; in blocks, and unless
    described, at all.
    """
    clocks: dict[tuple[object, ...], FloatArray] = {}
    found = []
    for s in description.signals:
        table, timed = _of(tables, s.file), _of(tables, s.clock.file or s.file)
        values, blank = table.column(s.column), table.blank.get(s.column)
        if blank is not None and (streamed or description.absolute):
            raise refused(
                table.source,
                f"column '{s.column}' is blank at sample {table.first + int(np.argmax(blank))} "
                f"({int(blank.sum())} such cells); columns sampled at different times need a "
                f"description, "
                "and read_recording to bring them together",
                column=s.column,
            )
        use = slice(None) if blank is None else ~blank
        key = (timed.source, s.clock, len(values), b"" if blank is None else blank.tobytes())
        if key not in clocks:
            stamps = np.arange(len(values)) / (description.rate or np.nan)
            if s.clock.columns:  # the origin is taken off first: doubles lack the digits
                first, *rest = (
                    timed.column(name) * by for name, by in zip(s.clock.columns, s.clock.factors)
                )
                stamps = sum(rest, first - origin) + s.clock.offset
            if len(values) != len(stamps):
                raise refused(
                    table.source,
                    f"column '{s.column}' has {len(values)} samples, its time {len(stamps)}; "
                    "matrices need one row for each sample",
                    column=s.column,
                )
            clocks[key] = stamps[use]
            check_time(
                clocks[key], timed.source, " + ".join(s.clock.columns) or "rate", first=timed.first
            )
        clock, values = clocks[key], values[use] if s.factor == 1 else values[use] * s.factor
        values = np.unwrap(values, period=s.turn) if s.turn else values
        values = values + s.offset if s.offset else values
        if s.delay:
            later = np.clip(clock + s.delay, clock[0], clock[-1])
            values = interpolate(values[:, None], clock, later, "cubic")[:, 0]
        found.append(_Sampled(s.kind, timed.source, clock, values, s.interpolation))
    return found


def _at(sampled: _Sampled, time: FloatArray) -> FloatArray:
    """Return values at other times inside their span, (t,); none are invented where measurements
    lack samples.
    """
    clock = sampled.clock
    if np.array_equal(clock, time):
        return sampled.values
    if sampled.kind in ("position", "effort", "current") and not np.isin(time, clock).all():
        used = stretch(clock, time)
        check_gaps(clock[used], sampled.source, used.start)
    return interpolate(sampled.values[:, None], clock, time, sampled.interpolation)[:, 0]


def _made(
    description: Description,
    time: FloatArray,
    values: Sequence[FloatArray],
    source: str,
    **more: Any,
) -> Recording:
    """Build the recording of the values of each signal."""
    groups: dict[str, Any] = {}
    for kind in dict.fromkeys(s.kind for s in description.signals):
        block = np.column_stack([v for s, v in zip(description.signals, values) if s.kind == kind])
        groups[kind] = block if kind in JOINT_KINDS else _channels(description, kind, block)
    position, current = ([s.unit for s in description.of(kind)] for kind in ("position", "current"))
    return Recording(
        joints=description.joints,
        time=time,
        position_units=tuple(position),
        source=source,
        current_units=tuple(current),
        payload=description.payload,
        period_samples=description.period_samples,
        **groups,
        **more,
    )


def _channels(description: Description, kind: str, values: FloatArray) -> Channels:
    own = description.of(kind)
    return Channels(
        names=tuple(s.name for s in own), units=tuple(s.unit for s in own), values=values
    )


def _inspected(
    description: Description,
    sampled: Sequence[_Sampled],
    values: Sequence[FloatArray],
    time: FloatArray,
) -> Iterator[Notice]:
    """Yield what is worth knowing of each kind: as recorded, or where its clocks differ, as
    interpolated.
    """
    moving, moves = None, time
    for kind in dict.fromkeys(s.kind for s in sampled):
        own = [(s, v) for s, v in zip(sampled, values) if s.kind == kind]
        alike = all(s.clock is own[0][0].clock for s, _ in own)
        clock = own[0][0].clock if alike else time
        raw = np.column_stack([s.values if alike else v for s, v in own])
        if moving is None:
            moving, moves = moving_joints(raw), clock
        use = (
            moving
            if clock is moves
            else moving[np.clip(np.searchsorted(moves, clock), 0, len(moves) - 1)]
        )
        yield from inspect_group(kind, _channels(description, kind, raw), use)


def _period(recording: Recording, description: Description) -> int | None:
    """Return the period in samples where the description gives it in seconds."""
    if description.period is None:
        return description.period_samples
    exact = description.period * recording.rate
    samples = round(exact)
    count = max(1, len(recording) // max(1, samples))
    if samples < 2 or abs(exact - samples) * count > 0.1:
        raise refused(
            recording.source,
            f"a period of {description.period:.9g} s is {exact:.4f} samples at "
            f"{recording.rate:.6g} Hz, expected a whole number; state a rate that fits, or leave "
            f"the period "
            'out: it is found in the motion with repeats = "found"',
            samples=exact,
        )
    return samples


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingSource:
    """A long log as a source of blocks; the samples stay in the file.

    Fields as those of `Recording`.
    """

    joints: tuple[str, ...]
    position_units: tuple[str, ...]
    period_samples: int | None
    payload: str | None
    source: str
    path: Path
    description: Description

    @cached_property
    def samples(self) -> int:
        """How many there are; the file is read once to count."""
        return sum(len(block) for block in self.blocks())

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Yield consecutive recordings of at most `size` samples, in memory that does not grow with
        the log.
        """
        if size < 1:
            raise InvalidInput(f"blocks of {size} samples; expected at least 1")
        description, origin, start, previous = self.description, None, 0.0, -np.inf
        last: dict[int, float] = {}
        for table in table_blocks(self.path, size, description):
            fresh = origin is None
            origin = _origin({"": table}, description) if origin is None else origin
            sampled = _streamed(table, description, origin)
            time = sampled[0].clock
            check_time(time, table.source, previous=previous, first=table.first)
            previous = float(time[-1])
            start = float(time[0]) if fresh and not description.absolute else start
            values = [s.values for s in sampled]
            for k, turn in ((k, s.turn) for k, s in enumerate(description.signals) if s.turn):
                # each block was unwrapped on its own; it goes on from where the last one ended
                values[k] = values[k] - turn * np.round(
                    (values[k][0] - last.get(k, values[k][0])) / turn
                )
                last[k] = values[k][-1]
            yield _made(
                description,
                time - start,
                values,
                table.source,
                notices=tuple(_told({"": table}, description)),
            )

    def read(self) -> Recording:
        """Read the whole log into memory."""
        return read_recording(self.path, self.description)


def _streamed(table: Table, description: Description, origin: float) -> list[_Sampled]:
    """Return the signals of a block, which must share its clock."""
    sampled = _sampled({"": table}, description, origin, streamed=True)
    if any(s.delay for s in description.signals):
        raise refused(
            table.source,
            "a delay of some columns cannot be undone in blocks; read the log whole with "
            "read_recording",
        )
    if any(s.clock is not sampled[0].clock for s in sampled):
        raise refused(
            table.source,
            "columns have clocks of their own; the log is read whole, with read_recording",
        )
    return sampled


def open_recording(
    path: str | Path, description: Described | None = None, joints: Sequence[str] | None = None
) -> RecordingSource:
    """Open a long log for reading in blocks; arguments as `read_recording`.

    Text, Parquet and Gough's NPZ files are streamed. Runs that need resampling are refused: they
    are read whole.
    """
    path, given = Path(path), _loaded(description)
    if is_folder(path) or (
        given is not None
        and (
            given.rate is not None
            or given.period is not None
            or given.start
            or isfinite(given.stop)
        )
    ):
        raise InvalidRecording(
            f"'{path.name}' needs resampling onto one clock or cutting (several files, rate, "
            f"start, "
            "stop or period in seconds), which cannot be done in blocks: use read_recording",
            source=path.name,
        )
    table = next(table_blocks(path, 16, given), None)
    if table is None:
        raise refused(path.name, "there are no samples")
    found = _resolved(table, given, joints)
    _streamed(table, found, _origin({"": table}, found))  # raises what stands against it
    return RecordingSource(
        joints=found.joints,
        position_units=tuple(s.unit for s in found.of("position")),
        payload=found.payload,
        period_samples=found.period_samples,
        source=path.name,
        path=path,
        description=found,
    )


def describe_log(path: str | Path) -> Description:
    """Return how a file that describes itself is read."""
    return replace(
        _resolved(next(table_blocks(Path(path), 16, None)), None, None), ignored=(), absolute=False
    )


def recording_of_frame(
    frame: Any, description: Described | None, joints: Sequence[str] | None, source: str
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
        numbers = column.dtype.kind in "fiub"
        columns[name] = (
            column.to_numpy(dtype=float, na_value=np.nan) if numbers else column.to_numpy()
        )
    table = replace(array_table(source, columns), repeated=repeated)
    return recorded({"": table}, _loaded(description), source, joints)


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
            raise InvalidInput(
                f"there is no signal '{kind}'{nearest(kind, (*KINDS, 'period_samples', 'payload'))}"
            )
        if kind in OTHER_KINDS and not isinstance(given, Mapping):
            raise InvalidInput(
                f"{kind} is a {type(given).__name__}, expected arrays by name: {{'name': array}}"
            )
        if units.get(kind) is None:
            raise InvalidInput(
                f"the unit of {kind} is missing: say units={{'{kind}': ...}}; it is never guessed"
            )
        own = list(given) if isinstance(given, Mapping) else list(joints)
        values = (
            np.column_stack(list(given.values()))
            if isinstance(given, Mapping)
            else np.asarray(given, dtype=float)
        )
        each = [units[kind]] * len(own) if isinstance(units[kind], str) else list(units[kind])
        check_shape(values, (None, len(own)), kind)
        check_shape(np.array(each), (len(own),), f"units of {kind}")
        columns |= {
            f"{name}.{kind} [{unit}]": column for name, unit, column in zip(own, each, values.T)
        }
    stamps = (
        np.arange(len(next(iter(columns.values())))) / rate
        if rate
        else np.asarray(time, dtype=float)
    )
    columns = {f"time [{units.get('time', 's')}]": stamps} | columns
    return recorded({"": replace(array_table(source, columns), facts=facts)}, None, source, joints)


def log_and_description(log: str) -> tuple[str, str | None]:
    """Return the file of a log and its own description: of `log.csv@its.toml` both, of `log.csv` no
    description.
    """
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
    check_type(
        logs, Recording, what, "a Recording, the path of a log, a DataFrame, or several of them"
    )
    return [logs]
