"""Divide logs where a recorded signal says that a payload is taken up or put down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.logs.recording import Recording

# Fractions of the range of a signal below which it is off and above
# which it is on; between them it stays as it was, so that a noisy
# vacuum sensor does not switch at every sample
OFF_FRACTION = 1 / 3
ON_FRACTION = 2 / 3
MIN_SEGMENT_SAMPLES = 50
# A signal that switches is off for this fraction of the time at least,
# and on; it is between both for at most the second fraction, which a
# temperature or a ramp exceeds
MIN_STATE_FRACTION = 0.05
MAX_BETWEEN_FRACTION = 0.05
# Segments shorter than this fraction of the longest one are left out: a
# low-pass that suits them would be too fast for the others
MIN_SEGMENT_RATIO = 0.1


class DividedLogs(NamedTuple):
    """Segments of logs without and with a payload, each a log of its own."""

    unloaded: list[Recording]
    loaded: list[Recording]


def divide_by_signal(
    recordings: Sequence[Recording],
    channel: str,
    levels: tuple[float, float] | None = None,
) -> DividedLogs:
    """Return the segments of logs in which a signal is off, and those in which it is on.

    On and off are the upper and the lower third of the range of the
    signal over all logs. Logs without the channel are unloaded as a
    whole.

    Args:
        recordings: Logs.
        channel: Name of an extra channel, e.g. of a gripper or a vacuum
            sensor.
        levels: Values below which the signal is off and above which it
            is on, where they are known from other logs; see
            `switching_levels`.

    Raises:
        InvalidInput: No log has the channel, or it never switches, and
            levels are not known.
    """
    low, high = levels or switching_levels(recordings, channel)
    signals = {}
    for k, recording in enumerate(recordings):
        if channel in recording.extra.names:
            signals[k] = recording.extra[channel]
    unloaded: list[Recording] = []
    loaded: list[Recording] = []
    for k, recording in enumerate(recordings):
        if k not in signals:
            unloaded.append(recording)
            continue
        on = _switched(signals[k], low, high)
        for segment, carries in _segments(recording, on):
            (loaded if carries else unloaded).append(segment)
    return DividedLogs(unloaded, loaded)


def switching_levels(recordings: Sequence[Recording], channel: str) -> tuple[float, float]:
    """Return below which value a signal is off and above which it is on.

    Raises:
        InvalidInput: No log has the channel, or it never switches.
    """
    signals = []
    for recording in recordings:
        if channel in recording.extra.names:
            signals.append(recording.extra[channel])
    if not signals:
        names: set[str] = set()
        for recording in recordings:
            names.update(recording.extra.names)
        listed = ", ".join(sorted(names)) or "none"
        raise InvalidInput(
            f"no log has the channel '{channel}' that says when a payload is carried; their extra "
            f"channels are: {listed}",
            channel=channel,
        )
    values = np.concatenate(signals)
    smallest = float(values.min())
    span = float(values.max()) - smallest
    if not span > 0:
        raise InvalidInput(
            f"the channel '{channel}' is {smallest:g} in all logs; expected a signal that switches "
            "when a payload is taken up or put down",
            channel=channel,
        )
    return smallest + OFF_FRACTION * span, smallest + ON_FRACTION * span


def switching_notices(recordings: Sequence[Recording]) -> list[Notice]:
    """Return a notice on each extra channel that switches, which may say when a load is carried."""
    names: list[str] = []
    for recording in recordings:
        names += [name for name in recording.extra.names if name not in names]
    notices = []
    for name in names:
        signals = [each.extra[name] for each in recordings if name in each.extra.names]
        n_switches = _count_switches(signals)
        if n_switches:
            text = (
                f"the channel switches {n_switches} time(s); if a payload is carried while it is "
                "on, these samples are not those of the robot alone"
            )
            advice = f"divide the logs there: carrying = '{name}'"
            notices.append(
                Notice(rule="payload", level="info", where=name, text=text, advice=advice)
            )
    return notices


def _count_switches(signals: Sequence[FloatArray]) -> int:
    """Return how often a signal of several logs switches; zero if it is none that switches."""
    values = np.concatenate(signals)
    smallest = float(values.min())
    span = float(values.max()) - smallest
    if not span > 0:
        return 0
    low = smallest + OFF_FRACTION * span
    high = smallest + ON_FRACTION * span
    off_fraction = float(np.mean(values <= low))
    on_fraction = float(np.mean(values >= high))
    if min(off_fraction, on_fraction) < MIN_STATE_FRACTION:
        return 0
    if 1 - off_fraction - on_fraction > MAX_BETWEEN_FRACTION:
        return 0
    return sum(int(np.diff(_switched(signal, low, high)).sum()) for signal in signals)


def _switched(signal: FloatArray, low: float, high: float) -> BoolArray:
    """Return where a signal is on, with hysteresis, (t,)."""
    state = np.where(signal >= high, 1, np.where(signal <= low, 0, -1))
    decided = np.flatnonzero(state >= 0)
    if not len(decided):
        return np.asarray(signal >= (low + high) / 2)
    last = np.searchsorted(decided, np.arange(len(signal)), side="right") - 1
    return np.asarray(state[decided[np.maximum(last, 0)]] == 1)


def _segments(recording: Recording, on: BoolArray) -> list[tuple[Recording, bool]]:
    """Return the segments of a log between switches, and whether the signal is on in each."""
    switches = np.flatnonzero(np.diff(on)) + 1
    if not len(switches):
        return [(recording, bool(on[0]))]
    edges = [0, *switches.tolist(), len(on)]
    lengths = np.diff(edges)
    shortest = max(MIN_SEGMENT_SAMPLES, MIN_SEGMENT_RATIO * lengths.max())
    segments = []
    skipped = 0.0
    for start, stop in pairwise(edges):
        first = float(recording.time[start])
        last = float(recording.time[stop - 1])
        if stop - start < shortest:
            skipped += last - first
            continue
        segment = replace(
            recording.take(slice(start, stop)),
            source=f"{recording.source} [{first:.4g} to {last:.4g} s]",
            period_samples=None,
            digest="",
        )
        segments.append((segment, bool(on[start])))
    if skipped > 0 and segments:
        segment, carries = segments[0]
        notice = Notice(
            rule="payload",
            level="info",
            text=f"{skipped:.3g} s of {recording.source} between switches of the payload are too "
            "short to be used",
        )
        segments[0] = (segment.with_notices([notice]), carries)
    return segments
