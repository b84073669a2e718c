"""From recordings to regressions, one way for short and long logs: blocks in, blocks out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.core.regression import Condensed, Regression, condense
from gough.engine import Model, Robot, as_model
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.choice import choose_processing
from gough.processing.decimation import decimated
from gough.processing.pieces import BLOCK, Processed, averaged, blocks_of, in_file_efforts, length, pieces, regression
from gough.processing.ready import ready
from gough.processing.settings import Processing

WINDOW = 32768  # samples filtered at once


def process(model: Robot, recording: Recording, settings: Processing | None = None) -> Processed:
    """Turn a recording into the motion of all coordinates, with efforts, noise and the equations that count.

    Args:
        model: The robot.
        recording: A log of it.
        settings: How; what is not given is chosen from this log alone (`choose_processing` chooses for several).

    Raises:
        InvalidRecording: Not this robot's log, no effort, or not processable as asked.
        LoopNotClosed, SingularConfiguration: The recorded positions leave the robot's branch.
    """
    model = as_model(model)
    chosen = complete(model, [recording], settings)
    recording = ready(model, recording, chosen)
    if chosen.method_for(recording) in ("explicit", "implicit"):
        return averaged(model, recording, chosen)
    return next(pieces(model, recording, chosen, len(recording)))


def complete(model: Model, recordings: Sequence[Recording | RecordingSource], settings: Processing | None,
             parameters: BaseParameters | Sequence[str] | None = None) -> Processing:
    """Return the settings if they are complete, else what `choose_processing` makes of them."""
    if settings is not None and settings.complete:
        return settings
    return choose_processing(model, recordings, parameters, settings).processing


def regression_blocks(model: Model, source: Recording | RecordingSource, parameters: BaseParameters | Sequence[str],
                      settings: Processing | None = None, *, gains: Mapping[str, float] | None = None,
                      progress: Callable[[float], None] | None = None) -> Iterator[Regression]:
    """Yield the regression of a log of any length in blocks; together they equal `regression` to rounding.

    Args:
        model: The robot.
        source: A recording, or a source of blocks that stays in its file.
        parameters: Base parameters or names.
        settings: How; what is not given is chosen first. Only logs in memory can be averaged over periods.
        gains: Drive gains by joint, by which currents become efforts; the robot file's by default.
        progress: Called with the fraction done.
    """
    chosen = complete(model, [source], settings, parameters)
    if isinstance(source, Recording):
        source = ready(model, source, chosen)
        if chosen.method_for(source) in ("explicit", "implicit"):
            yield regression(model, in_file_efforts(model, averaged(model, source, chosen), gains), parameters)
            return
    elif chosen.method in ("explicit", "implicit"):
        raise InvalidRecording(f"{source.source}: method '{chosen.method}' averages whole periods in memory; read the "
                               "log whole, or process it in time", source=source.source)
    total, parts = length(source), pieces(model, source, chosen, WINDOW)
    first = next(parts, None)
    if first is None:
        return

    def blocks() -> Iterator[Regression]:
        for piece in chain([first], parts):
            yield from blocks_of(model, in_file_efforts(model, piece, gains), parameters, BLOCK)
            if progress is not None:
                progress(float(piece.sample[-1] + 1) / total)

    yield from decimated(blocks(), first.decimation)


@one_blas_thread
def condense_log(model: Model, sources: Iterable[Recording | RecordingSource],
                 parameters: BaseParameters | Sequence[str], settings: Processing | None = None, *,
                 joint: bool = False, progress: Callable[[float], None] | None = None) -> Condensed:
    """Reduce logs of any length to triangular factors, all with one processing; see `regression_blocks`."""
    logs = list(sources)
    chosen = complete(model, logs, settings, parameters)

    def blocks() -> Iterator[Regression]:
        after = 0  # group labels of one log follow those of the one before
        for k, source in enumerate(logs):
            first, behind = after, after
            for block in regression_blocks(model, source, parameters, chosen, progress=progress):
                group = None if block.group is None else first + block.group
                behind = behind if group is None else max(behind, int(group.max()) + 1)
                yield replace(block, group=group, recording=np.full(len(block), k))
            after = behind

    return condense(blocks(), joint=joint)
