"""Long logs: regression in blocks, in memory that does not grow with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.core.regression import Condensed, Regression, condense
from gough.engine import Model
from gough.logs.checks import check_even
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.dead_band import position_noise
from gough.processing.decimation import decimate_regression_blocks
from gough.processing.filters import FilterSettings, default_filters, differentiate, edge_samples
from gough.processing.prepare import dead_band_of, independent_columns, matched, without_absent_payloads
from gough.processing.settings import Processing

WINDOW = 32768  # samples filtered at once
BLOCK = 4096  # samples of regressor held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class _Window:
    """Consecutive samples with a halo on both sides; `first` is the position of the inner part in the log."""

    recording: Recording
    inner: slice
    first: int


def regression_blocks(model: Model, source: Recording | RecordingSource, parameters: BaseParameters | Sequence[str],
                      settings: Processing | None = None, *, decimate: bool = True,
                      progress: Callable[[float], None] | None = None) -> Iterator[Regression]:
    """Yield the regression of a log in blocks: filtered in time, decimated by a polyphase FIR, exact across borders.

    Each window is filtered with a halo longer than the filter's memory, so the blocks equal the in-memory result to
    rounding. Cut-offs and dead band come from the first window unless given.

    Args:
        model: The robot.
        source: A recording, or a source of blocks that stays in its file.
        parameters: Base parameters or names.
        settings: Cut-off, decimation, dead band; method must be `time`, `raw` or `auto`.
        decimate: Decimate regressor and effort in parallel.
        progress: Called with the fraction done where the length is known.
    """
    chosen = Processing() if settings is None else settings
    if chosen.method not in ("auto", "time", "raw"):
        raise InvalidRecording(f"method '{chosen.method}' needs whole periods in memory; stream with 'time'")
    first = matched(next(iter(source.blocks(WINDOW))), model)
    rate = check_even(first)
    filters = default_filters(first, cutoff=chosen.cutoff, decimation=chosen.decimation)
    stream = _motions(model, source, chosen, filters, first, rate, parameters, progress)
    if decimate and filters.decimation > 1:
        return decimate_regression_blocks(stream, filters.decimation)
    return stream


@one_blas_thread
def condense_log(model: Model, sources: Iterable[Recording | RecordingSource],
                 parameters: BaseParameters | Sequence[str], settings: Processing | None = None, *,
                 decimate: bool = True, joint: bool = False,
                 progress: Callable[[float], None] | None = None) -> Condensed:
    """Reduce logs of any length to triangular factors; see `regression_blocks`."""
    def blocks() -> Iterator[Regression]:
        for source in sources:
            yield from regression_blocks(model, source, parameters, settings, decimate=decimate, progress=progress)

    return condense(blocks(), joint=joint)


def _motions(model: Model, source: Recording | RecordingSource, settings: Processing, filters: FilterSettings,
             sample: Recording, rate: float, parameters: BaseParameters | Sequence[str],
             progress: Callable[[float], None] | None) -> Iterator[Regression]:
    raw = settings.method == "raw"
    cutoff = None if raw else filters.cutoff
    edge = 0 if raw else edge_samples(rate, filters.cutoff)
    # A Butterworth impulse response of order 4 has fallen by 1e-14 after 14 / cut-off.
    halo = 4 if raw else int(np.ceil(14 * rate / filters.cutoff)) + 4
    noise = position_noise(sample.position)
    total = len(source) if isinstance(source, Recording) else source.samples
    band: FloatArray | None = None
    start: FloatArray | None = None
    for window in _windows(source, model, halo, 10 * edge):
        record = window.recording
        check_even(record, first=window.first - window.inner.start)
        smooth = differentiate(record.position, rate, cutoff, filters.order)
        inner = _trimmed(window, edge, len(record))
        if inner.start >= inner.stop:
            continue
        position, velocity, acceleration = (x[inner] for x in independent_columns(model, smooth))
        motion = model.kinematics.motion(record.time[inner], position, velocity, acceleration, "actuated", start=start)
        start = motion.q[-1]
        if band is None:
            band = dead_band_of(model, motion, noise, rate, cutoff or 0.45 * rate, settings)
        effort = record.effort
        if effort is None:
            what = "neither effort nor current" if record.current is None else "currents, which need drive gains"
            raise InvalidRecording(f"{record.source}: the log holds {what}", source=record.source)
        effort = effort[inner]
        period = record.period_samples
        for begin in range(0, len(motion), BLOCK):
            part = slice(begin, begin + BLOCK)
            block = model.regression(motion.take(part), effort[part], parameters, dead_band=band)
            block = without_absent_payloads(block, record.payload)
            if period is not None:
                index = window.first + (inner.start - window.inner.start) + begin + np.arange(len(block))
                block = replace(block, group=index // period)
            yield block
        if progress is not None and total:
            progress((window.first + len(motion)) / total)


def _trimmed(window: _Window, edge: int, count: int) -> slice:
    """Return the inner part without the samples at the log's own ends that the filter may spoil."""
    low, high = window.inner.start, window.inner.stop
    if window.first == 0 and high == count:  # a log seen whole may be short
        edge = min(edge, count // 10)
    if window.first == 0:
        low = max(low, edge)
    if high == count:  # no halo behind: the end of the log
        high = count - edge
    return slice(low, high)


def _windows(source: Recording | RecordingSource, model: Model, halo: int, least: int) -> Iterator[_Window]:
    """Yield windows with a halo on both sides, holding at most two blocks; logs below `least` samples in one."""
    held: Recording | None = None
    done, behind = 0, 0  # samples yielded so far, samples of halo before the inner part
    for block in source.blocks(WINDOW):
        block = _with_effort(matched(block, model), model)
        held = block if held is None else _joined(held, block)
        count = len(held)
        if count <= behind + 2 * halo or (not done and count < least):
            continue
        inner = slice(behind, count - halo)
        yield _Window(recording=held, inner=inner, first=done)
        done += inner.stop - inner.start
        keep = max(0, inner.stop - halo)
        behind = inner.stop - keep
        held = held.take(slice(keep, None))
    if held is not None and len(held) > behind:
        yield _Window(recording=held, inner=slice(behind, len(held)), first=done)


def _with_effort(recording: Recording, model: Model) -> Recording:
    """Turn currents into efforts with the robot file's drive gains where efforts are missing."""
    if recording.effort is not None or recording.current is None:
        return recording
    gains = [model.mechanism.joint(name).gain for name in model.mechanism.actuated]
    known = [g for g in gains if g is not None]
    return recording if len(known) < len(gains) else recording.with_effort(np.array(known))


def _joined(first: Recording, second: Recording) -> Recording:
    """Return two consecutive pieces as one; only what the regression needs is kept."""
    def both(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
        return None if a is None or b is None else np.concatenate([a, b])

    return replace(
        second, time=np.concatenate([first.time, second.time]),
        position=np.concatenate([first.position, second.position]), effort=both(first.effort, second.effort),
        current=both(first.current, second.current), velocity=None, reference=None, pose=None, passive=None, mocap=None)
