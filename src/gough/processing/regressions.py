"""From processed logs to regressions: effort = regressor @ parameters + noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.regression import Regression
from gough.processing.decimation import decimated, together
from gough.processing.processed_log import ProcessedLog

REGRESSOR_SAMPLES = 4096  # samples of regressor held at once


def regression(
    model: Model,
    processed: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    *,
    decimate: bool = True,
) -> Regression:
    """Return the linear problem of a processed log.

    Columns named `payload.<name>.*` of payloads that this log does not carry are zero (BG13
    (29)).
    """
    if not decimate or processed.decimation == 1:
        return next(blocks_of_regression(model, processed, parameters, len(processed)))
    blocks = blocks_of_regression(model, processed, parameters, REGRESSOR_SAMPLES)
    thinned = list(decimated(blocks, processed.decimation, periodic=processed.periodic))
    if not thinned:
        raise InvalidRecording(
            f"{processed.source}: {len(processed)} samples are too few to decimate by "
            f"{processed.decimation}; raise the cut-off or decimate less",
            source=processed.source,
        )
    return together(thinned)


def blocks_of_regression(
    model: Model,
    processed: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    length: int,
) -> Iterator[Regression]:
    """Yield the regression of all samples in consecutive blocks of at most `length`."""
    if processed.current:
        raise InvalidRecording(
            f"{processed.source}: the log holds currents and the drive gains are not known; give "
            "'gain' in the robot file, or identify the gains from a loaded and an unloaded log"
        )
    repetitions = processed.repetitions
    group = processed.group
    for start in range(0, len(processed), length):
        samples = slice(start, start + length)
        motion = processed.motion
        if length < len(processed):
            motion = motion.take(samples)
        block = model.regression(
            motion,
            processed.effort[samples],
            parameters,
            dead_band=processed.dead_band,
            covariance=processed.covariance,
        )
        replicates = None
        if repetitions is not None:
            periods = [model.project_to_rows(motion.q, period[samples]) for period in repetitions]
            replicates = np.stack(periods)
        yield replace(
            without_absent_payloads(block, processed.payload),
            replicates=replicates,
            mask=processed.valid[samples],
            sample=processed.sample[samples],
            group=None if group is None else group[samples],
        )


def without_absent_payloads(problem: Regression, payload: str | None) -> Regression:
    """Return the problem with zero columns for payloads that were not carried (BG13 (29))."""
    carried = (None, payload)
    absent = [k for k, name in enumerate(problem.parameters) if name.payload not in carried]
    if not absent:
        return problem
    regressor = problem.regressor.copy()
    regressor[:, :, absent] = 0.0
    return replace(problem, regressor=regressor)
