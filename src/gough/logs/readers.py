"""Reading of recordings: from files, arrays and DataFrames."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray, check_shape, check_type
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.notices import Notice
from gough.core.storage import StoredFile, place_of
from gough.logs.array_tables import array_table
from gough.logs.checks import (
    inspect_clock,
    inspect_group,
    inspect_velocities,
    inspected,
    joint_motion,
)
from gough.logs.description import Description, load_description, parse_description
from gough.logs.formats import is_folder, table_blocks
from gough.logs.messages import log_notice, refused
from gough.logs.periods import even_times
from gough.logs.recording import KINDS, OTHER_KINDS, Recording
from gough.logs.table_signals import (
    SampledSignal,
    build_recording,
    channels_of_kind,
    interpolate_signal,
    reading_notices,
    resolve_description,
    sample_signals,
    table_of,
    time_origin,
)
from gough.logs.tables import Table, joined, numbered

Described = str | Path | Mapping[str, Any] | Description
"""A description: its file, its keys, or what `load_description` returned."""
Log = Recording | str | Path | Any
"""A log: read, a file with or without `@description.toml`, or a DataFrame."""
DESCRIPTION_SUFFIX = ".toml"
READ_BLOCK = 65536  # samples read from a file at a time
HEAD_SAMPLES = 16  # read to find out how a file is to be read
# samples by which a stated period may be off at the end of a log
MAX_PERIOD_ERROR = 0.1


def read_recording(
    path: str | Path | StoredFile,
    description: Described | None = None,
) -> Recording:
    """Read a log: a text table, another file of `LOG_FORMATS`, a bag, or a folder of files.

    Files Gough wrote and tables whose headers look like
    `leg1.slider.position [m]` need no description. With a description
    time counts from the first sample kept, and signals on other clocks
    than the positions are interpolated over the span all clocks share.
    The result has the notices of reading and of `checks.inspected`.
    Anything that would have to be guessed is an `InvalidRecording` that
    names file, column and sample.

    Args:
        path: File, folder of several files, each with its own clock, or
            address of a file (`s3://bucket/log.parquet`).
        description: Which column is which; a TOML file, its keys, or
            what `load_description` returned.
    """
    check_type(
        path,
        (str, Path, StoredFile),
        "the log",
        "the path of a file; for tables and arrays there are Recording.from_dataframe and "
        "from_arrays",
    )
    place = place_of(path)
    described = as_description(description)
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


def as_description(description: Described | None) -> Description | None:
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
    description = resolve_description(table_of(tables, first_file), given)
    origin = 0.0
    if given is not None:
        origin = time_origin(tables, description)
    sampled = sample_signals(tables, description, origin)
    signal_by_clock = {id(signal.clock): signal for signal in sampled}
    clocks = list(signal_by_clock.values())
    time = clocks[0].clock
    shown = time
    if not description.absolute:
        shown = time - time[:1]
    values = [signal.values for signal in sampled]
    notices = reading_notices(tables, description)
    stated_rate = description.rate is not None and description.signals[0].clock.columns
    if stated_rate or len(clocks) > 1:
        time, shown = _common_clock(clocks, description, source)
        values = [interpolate_signal(signal, time) for signal in sampled]
        notices += _clock_notices(clocks, source)
        notices += _inspect_signals(description, sampled, values, time)
        recording = build_recording(description, shown, values, source)
        notices += inspect_velocities(recording)
        recording = replace(recording, notices=tuple(notices), inspected=True)
    else:
        if clocks[0].equal_stamps:
            notices.append(_equal_stamps_notice(clocks[0], "time"))
        recording = build_recording(description, shown, values, source, notices=tuple(notices))
        recording = inspected(recording)
    if given is None:  # headers state no start, no stop and no period in seconds
        return recording
    recording = _cut_to_description(recording, description)
    period = _period_in_samples(recording, description)
    if period == recording.period_samples:
        return recording
    return replace(recording, period_samples=period)


def _common_clock(
    clocks: Sequence[SampledSignal], description: Description, source: str
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


def _clock_notices(clocks: Sequence[SampledSignal], source: str) -> list[Notice]:
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


def _equal_stamps_notice(signal: SampledSignal, clock_name: str) -> Notice:
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


def _mean_rate(clock: FloatArray) -> float:
    """Return the mean rate of a clock, NaN of a single sample. [Hz]"""
    if len(clock) < 2:
        return np.nan
    return float((len(clock) - 1) / (clock[-1] - clock[0]))


def _inspect_signals(
    description: Description,
    sampled: Sequence[SampledSignal],
    values: Sequence[FloatArray],
    time: FloatArray,
) -> Iterator[Notice]:
    """Yield the notices on each kind of column.

    The columns are inspected as recorded or, if their clocks differ, as
    interpolated.
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
        channels = channels_of_kind(description, kind, block)
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


def describe_log(path: str | Path) -> Description:
    """Return how a file that describes itself is read."""
    head = next(table_blocks(place_of(path), HEAD_SAMPLES, None))
    return replace(resolve_description(head, None), ignored=(), absolute=False)


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
    return recorded({"": table}, as_description(description), source)


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

    The last `@` separates them if the text ends with `.toml`; any other
    belongs to a name, and so does `@@`, which stands for one. A `Path`
    is a file without a description.
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
