"""The data flow of a log: matched, processed, turned into a regression or sufficient statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model, Robot, as_model
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.regression import Regression, block_statistics
from gough.logs.recording import Recording
from gough.logs.recording_sources import RecordingSource
from gough.processing.choice import choose_processing
from gough.processing.filters import decimated
from gough.processing.long_logs import process_blocks
from gough.processing.matching import MatchedLog, known_gains, match_robot
from gough.processing.processed_log import (
    REGRESSOR_SAMPLES,
    ProcessedLog,
    blocks_of_regression,
    process_log,
    regression,
)
from gough.processing.settings import PERIODIC, Processing

FILTERED_SAMPLES = 16384  # samples of a long log filtered at once


def process(
    model: Robot,
    log: Recording | MatchedLog,
    settings: Processing | None = None,
) -> ProcessedLog:
    """Turn a recording into the motion of all coordinates, with efforts, noise and valid equations.

    Settings that are None are chosen from this log alone
    (`choose_processing` chooses for several).

    Raises:
        InvalidRecording: Not this robot's log, no effort, or not
            processable as asked.
        LoopNotClosed, SingularConfiguration: The recorded positions
            leave the robot's branch.
    """
    model = as_model(model)
    repeats = (settings or Processing()).repeats
    matched = match_robot(model, log, repeats)
    chosen = complete(model, [matched], settings)
    return process_log(model, matched, chosen)


def complete(
    model: Model,
    logs: Sequence[Recording | RecordingSource | MatchedLog],
    settings: Processing | None,
    parameters: BaseParameters | Sequence[str] | None = None,
) -> Processing:
    """Return the settings if they are complete, else those that `choose_processing` chooses."""
    if settings is not None and settings.complete:
        return settings
    return choose_processing(model, logs, parameters, settings).processing


def regression_blocks(
    model: Model,
    source: Recording | RecordingSource | MatchedLog,
    parameters: BaseParameters | Sequence[str],
    settings: Processing | None = None,
    *,
    gains: Mapping[str, float] | None = None,
) -> Iterator[Regression]:
    """Yield the regression of a log of any length in blocks; together they equal `regression`.

    Args:
        source: A recording, or a source of blocks that stays in its
            file. Only logs in memory can be averaged over periods.
        gains: Drive gains by joint, which turn currents into efforts;
            the robot file's by default.
    """
    log = source
    if isinstance(log, Recording):
        log = match_robot(model, log, (settings or Processing()).repeats)
    chosen = complete(model, [log], settings, parameters)
    factors = known_gains(model, gains)
    known = len(factors) == len(model.mechanism.actuated)
    vector = np.array([*factors.values()])

    def in_efforts(block: ProcessedLog) -> ProcessedLog:
        return block.with_gains(vector) if known else block

    if isinstance(log, MatchedLog):
        if chosen.method_for(log.recording) in PERIODIC:
            averaged = process_log(model, log, chosen)
            yield regression(model, in_efforts(averaged), parameters)
            return
    elif chosen.method in PERIODIC:
        raise InvalidRecording(
            f"{log.source}: method '{chosen.method}' averages whole periods in memory; read the "
            "log whole, or process it in time",
            source=log.source,
        )
    processed = process_blocks(model, log, chosen, FILTERED_SAMPLES)
    first = next(processed, None)
    if first is None:
        return
    decimation = first.decimation
    all_blocks = chain(iter([first]), processed)
    del first  # no block is held while the next one is computed

    def blocks() -> Iterator[Regression]:
        for block in all_blocks:
            efforts = in_efforts(block)
            yield from blocks_of_regression(model, efforts, parameters, REGRESSOR_SAMPLES)
            del block, efforts

    yield from decimated(blocks(), decimation)


@one_blas_thread
def log_statistics(
    model: Model,
    sources: Iterable[Recording | RecordingSource],
    parameters: BaseParameters | Sequence[str],
    settings: Processing | None = None,
) -> BlockStatistics:
    """Reduce logs of any length to triangular factors, all with one processing.

    See `regression_blocks` for the arguments.
    """
    logs = list(sources)
    chosen = complete(model, logs, settings, parameters)

    def blocks() -> Iterator[Regression]:
        next_group = 0  # group labels of a log follow those of the one before
        for k, source in enumerate(logs):
            first_group = next_group
            for block in regression_blocks(model, source, parameters, chosen):
                group = block.group
                if group is not None:
                    group = first_group + group
                    next_group = max(next_group, int(group.max()) + 1)
                if k == 0:  # samples without a label are those of the first log
                    yield block
                else:
                    recording = np.full(len(block), k)
                    yield replace(block, group=group, recording=recording)

    return block_statistics(blocks())
