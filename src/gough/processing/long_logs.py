"""Logs of any length: processed in blocks, each with the samples beside it that influence it.

Results do not depend on where blocks begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.signals import NEIGHBOUR_REACH
from gough.engine import Model
from gough.engine.internal_states import FilterState
from gough.logs.checks import check_even
from gough.logs.outliers import without_outliers
from gough.logs.recording import Recording
from gough.logs.recording_sources import RecordingSource
from gough.processing.filters import memory_samples
from gough.processing.matching import MatchedLog, in_robot_order
from gough.processing.processed_log import (
    LogBlock,
    ProcessedLog,
    TimeFilter,
    process_block,
    validity_halo,
)
from gough.processing.settings import Processing


def process_blocks(
    model: Model,
    source: MatchedLog | RecordingSource,
    settings: Processing,
    block_length: int,
) -> Iterator[ProcessedLog]:
    """Yield a log of any length, processed in time, in blocks of about `block_length` samples."""
    matched: MatchedLog | None = None
    recording: Recording | RecordingSource
    if isinstance(source, MatchedLog):
        matched = source
        recording = source.recording
        n_samples = len(source)
        time_filter = TimeFilter.of(settings, recording)
    else:
        recording = source
        n_samples = source.samples
        time_filter = TimeFilter.of(settings, next(recording.blocks(block_length)))
    # samples on both sides that influence a filtered sample and its
    # validity
    halo = memory_samples(time_filter.rate, time_filter.cutoff)
    halo += validity_halo(settings, time_filter.rate) + NEIGHBOUR_REACH
    ordered = (in_robot_order(block, model) for block in recording.blocks(block_length))
    pose: FloatArray | None = None
    state: FilterState | None = None
    for held, first, inner in _with_halos(ordered, time_filter.edge, halo):
        check_even(held, first=first)
        if matched is None:
            held = without_outliers(held)
        block = LogBlock(
            recording=held,
            kept=range(inner.start, inner.stop),
            log_samples=n_samples,
            first=first,
            matched=matched,
        )
        processed, pose, state = process_block(model, block, settings, time_filter, pose, state)
        yield processed
        del block, held, processed  # not held while the next block is computed


def _with_halos(
    blocks: Iterator[Recording], edge: int, halo: int
) -> Iterator[tuple[Recording, int, slice]]:
    """Yield blocks with a halo on both sides: samples, number of the first one, and inner samples.

    At most two blocks are held. The inner samples of all blocks follow
    each other without a gap. Those that the filter spoils at the two
    ends of the log are left out: at most a tenth each.
    """
    held = next(blocks)
    first = 0  # number of the first sample held
    begin = -1  # number of the first sample not yet yielded
    for block in blocks:
        held = joined(held, block)
        known = first + len(held)
        if begin < 0 and known < 10 * edge:
            continue
        begin = max(begin, edge)
        stop = known - max(halo, edge)
        if stop <= begin + halo:
            continue
        yield held, first, slice(begin - first, stop - first)
        begin = stop
        oldest = max(first, stop - halo)
        held = held.take(slice(oldest - first, None))
        first = oldest
    known = first + len(held)
    if begin < 0:  # a log that is held whole may be short
        edge = min(edge, known // 10)
    begin = max(begin, edge)
    if known - edge > begin:
        yield held, first, slice(begin - first, known - edge - first)


def joined(first: Recording, second: Recording) -> Recording:
    """Return two consecutive blocks as one; only what the regression needs is kept."""
    columns: dict[str, Any] = {}
    for name in ("time", "position", "effort", "current"):
        values = getattr(first, name)
        if values is not None:
            columns[name] = np.concatenate([values, getattr(second, name)])
    if first.extra.names:
        values = np.concatenate([first.extra.values, second.extra.values])
        columns["extra"] = replace(second.extra, values=values)
    if first.measured is not None or second.measured is not None:
        columns["measured"] = np.concatenate([_measured(first), _measured(second)])
    return replace(
        second,
        **columns,
        velocity=None,
        reference=None,
        pose=None,
        passive=None,
        mocap=None,
    )


def _measured(recording: Recording) -> BoolArray:
    """Return which samples were measured, (t,)."""
    if recording.measured is None:
        return np.ones(len(recording), bool)
    return recording.measured
