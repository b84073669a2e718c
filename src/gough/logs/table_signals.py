"""From columns of tables to signals in SI units, each on its clock, and to a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.notices import Notice
from gough.logs.checks import check_gaps, spread_equal_stamps
from gough.logs.description import Description, Signal, describe_headers
from gough.logs.messages import log_notice, refused
from gough.logs.periods import interpolate, samples_around
from gough.logs.recording import JOINT_KINDS, Channels, Recording, check_time
from gough.logs.tables import Table


def reading_notices(tables: Mapping[str, Table], description: Description) -> list[Notice]:
    """Return the notices of reading, and on columns that were ignored."""
    notices: list[Notice] = []
    for table in tables.values():
        notices += table.notices
    for name in description.ignored:
        notices.append(log_notice("ignored", name, "unknown column; ignored"))
    return notices


def resolve_description(table: Table, given: Description | None) -> Description:
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


class SampledSignal(NamedTuple):
    """A signal at the times where it has values."""

    kind: str
    source: str  # file of its clock
    # (t,), one object for the signals that share it [s after the
    # origin]
    clock: FloatArray
    values: FloatArray  # (t,)
    interpolation: str
    equal_stamps: int  # of its clock, that were put between others


def table_of(tables: Mapping[str, Table], file: str) -> Table:
    """Return the table of a file; that of a single file has no name."""
    return tables.get(file) or tables[""]


def time_origin(tables: Mapping[str, Table], description: Description) -> float:
    """Return the whole second in which described stamps begin, otherwise 0. [s]

    Files that describe themselves keep their times.
    """
    signal = description.signals[0]
    if description.absolute or not signal.clock.columns:
        return 0.0
    table = table_of(tables, signal.clock.file or signal.file)
    stamps = table.column(signal.clock.columns[0]) * signal.clock.factors[0]
    known = stamps[np.isfinite(stamps)]
    return float(np.floor(known[0])) if len(known) else 0.0


def sample_signals(
    tables: Mapping[str, Table],
    description: Description,
    origin: float,
    streamed: bool = False,
) -> list[SampledSignal]:
    """Return the signals, each at the samples where it has a value.

    Args:
        tables: By file name.
        description: Of their columns.
        origin: Subtracted from the stamps. [s]
        streamed: The tables are a block of a log; blank cells are then
            refused.
    """
    clocks: dict[tuple[object, ...], FloatArray] = {}
    equal_stamps: dict[tuple[object, ...], int] = {}
    signals = []
    for signal in description.signals:
        table = table_of(tables, signal.file)
        timed = table_of(tables, signal.clock.file or signal.file)
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
            SampledSignal(
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
    # the origin is subtracted first: doubles do not have enough digits
    # otherwise
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


def interpolate_signal(sampled: SampledSignal, time: FloatArray) -> FloatArray:
    """Return a signal at other times inside its span, (t,); refuse measurements with long gaps."""
    clock = sampled.clock
    if np.array_equal(clock, time):
        return sampled.values
    if sampled.kind in ("position", "effort", "current") and not np.isin(time, clock).all():
        used = samples_around(clock, time)
        check_gaps(clock[used], sampled.source, used.start)
    return interpolate(sampled.values[:, None], clock, time, sampled.interpolation)[:, 0]


def build_recording(
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
            groups[kind] = channels_of_kind(description, kind, block)
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


def channels_of_kind(description: Description, kind: str, values: FloatArray) -> Channels:
    """Return the columns of one kind with their names and units."""
    signals = description.of(kind)
    names = tuple(signal.name for signal in signals)
    units = tuple(signal.unit for signal in signals)
    return Channels(names=names, units=units, values=values)
