"""The way of a log: a recording becomes motions, these become regressions; blocks in, blocks
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model, Robot, as_model
from gough.fitting.regression import BlockStatistics, Regression, block_statistics
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.choice import choose_processing
from gough.processing.decimation import decimated, together
from gough.processing.match_robot import ready
from gough.processing.settings import PERIODIC, Processing
from gough.processing.time_domain import (
    Processed,
    averaged,
    length,
    nominal_gains,
    pieces,
    without_absent_payloads,
)

WINDOW = 32768  # samples filtered at once
BLOCK = 4096  # samples of regressor held at once


def process(model: Robot, recording: Recording, settings: Processing | None = None) -> Processed:
    """Turn a recording into the motion of all coordinates, with efforts, noise and the equations
    that count.

    What the settings do not give is chosen from this log alone (`choose_processing` chooses for
    several).

    Raises:
        InvalidRecording: Not this robot's log, no effort, or not processable as asked.
        LoopNotClosed, SingularConfiguration: The recorded positions leave the robot's branch.
    """
    model = as_model(model)
    chosen = complete(model, [recording], settings)
    recording = ready(model, recording, chosen)
    if chosen.method_for(recording) in PERIODIC:
        return averaged(model, recording, chosen)
    return next(pieces(model, recording, chosen, len(recording)))


def complete(
    model: Model,
    recordings: Sequence[Recording | RecordingSource],
    settings: Processing | None,
    parameters: BaseParameters | Sequence[str] | None = None,
) -> Processing:
    """Return the settings if they are complete, else what `choose_processing` makes of them."""
    if settings is not None and settings.complete:
        return settings
    return choose_processing(model, recordings, parameters, settings).processing


def regression(
    model: Model,
    processed: Processed,
    parameters: BaseParameters | Sequence[str],
    *,
    decimate: bool = True,
) -> Regression:
    """Return the linear problem of a processed recording; with a payload its columns are those of
    the base.

    Columns named `payload.<name>.*` of payloads that this recording does not carry are zero (BG13
    (29)).
    """
    if not decimate or processed.decimation == 1:
        return next(blocks_of(model, processed, parameters, len(processed)))
    blocks = blocks_of(model, processed, parameters, BLOCK)
    parts = list(decimated(blocks, processed.decimation, around=processed.average is not None))
    if not parts:
        raise InvalidRecording(
            f"{processed.source}: {len(processed)} samples are too few to decimate by "
            f"{processed.decimation}; raise the cut-off or decimate less",
            source=processed.source,
        )
    return together(parts)


def blocks_of(
    model: Model, processed: Processed, parameters: BaseParameters | Sequence[str], size: int
) -> Iterator[Regression]:
    """Yield the regression of all samples in pieces."""
    if processed.current:
        raise InvalidRecording(
            f"{processed.source}: the log holds currents and the drive gains are not known; give "
            "'gain' in the robot file, or identify the gains from a loaded and an unloaded log"
        )
    for start in range(0, len(processed), size):
        part = slice(start, start + size)
        motion = processed.motion if size >= len(processed) else processed.motion.take(part)
        block = model.regression(
            motion,
            processed.effort[part],
            parameters,
            dead_band=processed.dead_band,
            covariance=processed.covariance,
        )
        replicates = processed.replicates
        if replicates is not None:
            replicates = np.stack(
                [model.project_to_rows(motion.q, period[part]) for period in replicates]
            )
        yield replace(
            without_absent_payloads(block, processed.payload),
            replicates=replicates,
            mask=processed.mask[part],
            sample=processed.sample[part],
            group=None if processed.group is None else processed.group[part],
        )


def regression_blocks(
    model: Model,
    source: Recording | RecordingSource,
    parameters: BaseParameters | Sequence[str],
    settings: Processing | None = None,
    *,
    gains: Mapping[str, float] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Regression]:
    """Yield the regression of a log of any length in blocks; together they equal `regression` to
    rounding.

    Args:
        source: A recording, or a source of blocks that stays in its file. Only logs in memory can
            be averaged over periods.
        gains: Drive gains by joint, by which currents become efforts; the robot file's by default.
        progress: Called with the fraction done.
    """
    chosen = complete(model, [source], settings, parameters)
    factors = nominal_gains(model, gains)

    def in_efforts(piece: Processed) -> Processed:
        known = len(factors) == len(model.mechanism.actuated)
        return piece.with_gains(np.array([*factors.values()])) if known else piece

    if isinstance(source, Recording):
        source = ready(model, source, chosen)
        if chosen.method_for(source) in PERIODIC:
            yield regression(model, in_efforts(averaged(model, source, chosen)), parameters)
            return
    elif chosen.method in PERIODIC:
        raise InvalidRecording(
            f"{source.source}: method '{chosen.method}' averages whole periods in memory; read the "
            "log whole, or process it in time",
            source=source.source,
        )
    total, parts = length(source), pieces(model, source, chosen, WINDOW)
    first = next(parts, None)
    if first is None:
        return

    def blocks() -> Iterator[Regression]:
        for piece in chain([first], parts):
            yield from blocks_of(model, in_efforts(piece), parameters, BLOCK)
            if progress is not None:
                progress(float(piece.sample[-1] + 1) / total)

    yield from decimated(blocks(), first.decimation)


@one_blas_thread
def log_statistics(
    model: Model,
    sources: Iterable[Recording | RecordingSource],
    parameters: BaseParameters | Sequence[str],
    settings: Processing | None = None,
    *,
    joint: bool = False,
    progress: Callable[[float], None] | None = None,
) -> BlockStatistics:
    """Reduce logs of any length to triangular factors, all with one processing; see
    `regression_blocks`.
    """
    logs = list(sources)
    chosen = complete(model, logs, settings, parameters)

    def blocks() -> Iterator[Regression]:
        after = 0  # group labels of one log follow those of the one before
        for k, source in enumerate(logs):
            first = after
            for block in regression_blocks(model, source, parameters, chosen, progress=progress):
                group = None if block.group is None else first + block.group
                after = after if group is None else max(after, int(group.max()) + 1)
                yield replace(block, group=group, recording=np.full(len(block), k))

    return block_statistics(blocks(), joint=joint)
