"""Reader of TDMS files of LabVIEW."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import Budget, reading
from gough.core.units import is_unit
from gough.logs.array_tables import array_table, log_budget
from gough.logs.messages import log_notice
from gough.logs.tables import Table

# of a warning of the library, which may quote the file
MAX_WARNING_CHARACTERS = 120
TDMS_UNIT = "unit_string"  # property with the unit of a channel
TDMS_STEP = "wf_increment"  # property with the time between samples [s]
# property with the time of the first sample after the start [s]
TDMS_DELAY = "wf_start_offset"
TDMS_START = "wf_start_time"  # property with the start of a waveform


def read_tdms(path: Path) -> Table:
    """Read the channels of a TDMS file; a column is `group/channel`, its unit behind it.

    Waveforms have no column of times: `group/time` is made of their
    properties if all of a group share them, otherwise `group/channel
    time`, in seconds from the earliest start in the file.
    """
    tdms = import_optional("nptdms", "tdms")
    budget = log_budget(path)
    columns: dict[str, Any] = {}
    with (
        reading(path.name, "TDMS", InvalidRecording),
        _library_warnings() as warnings,
        path.open("rb") as handle,
        tdms.TdmsFile.open(handle) as file,
    ):
        channels = []
        for group in file.groups():
            channels += [channel for channel in group.channels() if len(channel)]
        origin = _origin(channels)
        for group in file.groups():
            own = [channel for channel in channels if channel.group_name == group.name]
            columns |= _times(group.name, own, origin, budget)
            for channel in own:
                budget.take_bytes(8 * len(channel), f"'{channel.name}'")
                columns[_column_name(channel)] = _samples(channel)
        table = array_table(path.name, columns, budget)
    notices = []
    if warnings:
        text = f"npTDMS warns: {warnings[0][:MAX_WARNING_CHARACTERS]}"
        notices.append(log_notice("truncated", path.name, text, level="warning"))
    return replace(table, notices=tuple(notices))


@contextmanager
def _library_warnings() -> Iterator[list[str]]:
    """Collect what npTDMS would write on the screen."""
    loggers = import_optional("nptdms.log", "tdms").log_manager.loggers.values()
    usual_handlers = [logger.handlers for logger in loggers]
    messages: list[str] = []
    handler = _Collector(messages)
    for logger in loggers:
        logger.handlers = [handler]
        logger.propagate = False
    try:
        yield messages
    finally:
        for logger, handlers in zip(loggers, usual_handlers):
            logger.handlers = handlers
            logger.propagate = True


class _Collector(logging.Handler):
    """Add the text of warnings to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _samples(channel: Any) -> Any:
    """Return the samples of a channel, or what it holds instead as text."""
    if channel.dtype.kind in "fiubM":
        return np.asarray(channel[:])
    return np.array("text")


def _column_name(channel: Any) -> str:
    """Return `group/channel [unit]`, without a unit that is not known."""
    unit = str(channel.properties.get(TDMS_UNIT, "")).strip()
    name = f"{channel.group_name}/{channel.name}"
    return f"{name} [{unit}]" if is_unit(unit) else name


def _origin(channels: list[Any]) -> Any:
    """Return the earliest start of all waveforms; None if none states its start."""
    starts = [channel.properties[TDMS_START] for channel in channels if _is_waveform(channel)]
    return min((start for start in starts if isinstance(start, np.datetime64)), default=None)


def _is_waveform(channel: Any) -> bool:
    """Return True for a channel with a time between samples."""
    properties = channel.properties
    return TDMS_STEP in properties and TDMS_START in properties


def _times(group: str, channels: list[Any], origin: Any, budget: Budget) -> dict[str, Any]:
    """Return the times of the waveforms of a group by name, (t,) each. [s]"""
    clocks: dict[str, tuple[float, float, int]] = {}  # start, step and samples
    for channel in channels:
        if not _is_waveform(channel):
            continue
        properties = channel.properties
        start = float(properties.get(TDMS_DELAY, 0.0))
        if origin is not None and isinstance(properties[TDMS_START], np.datetime64):
            start += float((properties[TDMS_START] - origin) / np.timedelta64(1, "s"))
        clocks[channel.name] = (start, float(properties[TDMS_STEP]), len(channel))
    if len(set(clocks.values())) == 1:
        clocks = {"": next(iter(clocks.values()))}
    times = {}
    for name, (start, step, samples) in clocks.items():
        budget.take_bytes(8 * samples)
        label = f"{group}/{name} time" if name else f"{group}/time"
        times[f"{label} [s]"] = start + step * np.arange(samples)
    return times
