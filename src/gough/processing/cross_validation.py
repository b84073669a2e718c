"""Blocked cross-validation: fit outside a block of the logs, predict the recorded efforts in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.cross_validation import values_without
from gough.fitting.regression import LabelledBlocks
from gough.processing.filters import Decimator
from gough.processing.matching import MatchedLog, known_gains
from gough.processing.processed_log import ProcessedLog, equations_of_samples, process_log
from gough.processing.settings import Processing

N_FOLDS = 5  # contiguous blocks, each predicted from the others
# Samples per 1 / cut-off that are enough for the regressor of
# low-passed positions.
SAMPLES_PER_CUTOFF = 8.0
PREDICTED_SAMPLES = 4000  # enough to compare candidates
# Blocks of the fits: the inner part of each fold, the samples around
# each border, and the rest.
N_FIT_BLOCKS = 2 * N_FOLDS + 2
# Blocks that the fit leaves out for each fold: its inner part and the
# samples around its borders.
LEFT_OUT_BLOCKS = tuple((2 * fold, 2 * fold + 1, 2 * fold + 2) for fold in range(N_FOLDS))
RELATIVE_ROUNDING = 1e-12  # of an effort's square: smaller errors are rounding
BLOCK_SAMPLES = 2048  # samples of regressor held at once


class RecordedEffort(NamedTuple):
    """What is predicted of a log: its efforts as recorded, not low-passed."""

    effort: FloatArray  # (t, a) [N or N m]
    is_predicted: BoolArray  # samples that are predicted, (t,)
    begin: float  # of the log [s]
    end: float


class CrossValidation:
    """An experiment on which candidate settings are compared.

    Attributes:
        model: The robot.
        logs: Logs matched to the robot.
        parameters: Columns of the regressions.
        rate: Of the slowest log. [Hz]
        gains: Drive gains of the motors, 1 for logs in efforts, (a,).
        by_row: Rows are fitted one by one, since the scales of their
            efforts are not known.
        stride: One in so many samples is predicted.
    """

    def __init__(
        self,
        model: Model,
        logs: Sequence[MatchedLog],
        parameters: BaseParameters | Sequence[str],
        gains: Mapping[str, float] | None,
    ) -> None:
        self.model = model
        self.logs = logs
        self.parameters = parameters
        motors = model.mechanism.actuated
        known = known_gains(model, gains)
        holds_currents = [log.recording.effort is None for log in logs]
        self.by_row = any(holds_currents) and len(known) < len(motors)
        if self.by_row and not all(holds_currents):
            raise InvalidRecording(
                "some logs hold efforts, others currents whose drive gains are not known; give "
                "'gain' in the robot file, or find the gains from these logs with `find_gains`"
            )
        self.gains = np.ones(len(motors))
        if not self.by_row:
            self.gains = np.array([known.get(name, 1.0) for name in motors])
        self.rate = min(log.recording.rate for log in logs)
        n_samples = sum(len(log) for log in logs)
        self.stride = _power_of_two(n_samples // PREDICTED_SAMPLES)

    def process(self, settings: Processing) -> list[ProcessedLog]:
        """Return every log processed with the settings, in efforts, at no more samples than needed.

        Dead bands are not yet applied; see `ProcessedLog.with_bands`.
        """
        logs = []
        for log in self.logs:
            every = 1
            if settings.method != "raw" and settings.cutoff is not None:
                needed = log.recording.rate / (SAMPLES_PER_CUTOFF * settings.cutoff)
                every = _power_of_two(min(needed, self.stride))
            processed = process_log(self.model, log, settings, every=every)
            if processed.periodic:
                processed = replace(processed, decimation=1)
            logs.append(processed.with_gains(self.gains))
        return logs

    def recorded(self, log: ProcessedLog) -> RecordedEffort:
        """Return what is predicted of a processed log."""
        if log.average is not None:
            time = log.motion.time
            effort = log.effort
            is_predicted = np.ones(len(time), bool)
        else:
            recording = log.whole_log.recording
            time = recording.time
            effort = getattr(recording, recording.motor_signal)[log.sample]
            if recording.effort is None:
                effort = effort * self.gains
            is_predicted = np.asarray(log.sample % self.stride == 0)
        return RecordedEffort(effort, is_predicted, time[0], time[-1])


def _power_of_two(number: float) -> int:
    """Return the largest power of two that is not above a number; at least 1."""
    exponent = int(np.log2(max(1, number)))
    return 1 << exponent


class PredictionErrors(NamedTuple):
    """Relative errors of the rows for choices of valid equations, (choices, r) each."""

    on_all: FloatArray  # of all samples
    # of the equations that are valid in every choice; of all samples if
    # there is one choice
    on_valid: FloatArray


def prediction_errors(
    validation: CrossValidation,
    logs: Sequence[ProcessedLog],
    masks: Sequence[Sequence[BoolArray]],
    *,
    margin: float = 0.0,
) -> PredictionErrors:
    """Return the errors of the rows, each block predicted from the others.

    The model is fitted to the processed efforts outside a block and
    predicts the recorded, unfiltered efforts inside it.

    Args:
        logs: Processed with the settings that are judged, with dead
            bands.
        masks: For each log, nested choices of valid equations, (t, r)
            each: each a subset of the previous one.
        margin: Excluded at both ends of a log, so that all settings
            predict the same samples. [s]
    """
    n_choices = len(masks[0])
    fitted = [LabelledBlocks(N_FIT_BLOCKS) for _ in range(n_choices)]
    predicted = [LabelledBlocks(N_FOLDS)]
    if n_choices > 1:
        predicted.append(LabelledBlocks(N_FOLDS))
    for log, choices in zip(logs, masks):
        _add_log(validation, log, choices, margin, fitted, predicted)
    scored = [blocks.build() for blocks in predicted]
    errors = np.zeros((len(scored), n_choices, len(validation.model.rows)))
    for choice, blocks in enumerate(fitted):
        statistics = blocks.build()
        values = values_without(statistics, LEFT_OUT_BLOCKS, by_row=validation.by_row)
        for k, predicted_statistics in enumerate(scored):
            squares = predicted_statistics.squared_residuals(values).sum(axis=0)
            effort_squares = predicted_statistics.grams[:, :, -1, -1].sum(axis=0)
            ratio = squares / np.maximum(effort_squares, TINY)
            errors[k, choice] = np.sqrt(np.maximum(ratio, RELATIVE_ROUNDING))
    return PredictionErrors(on_all=errors[0], on_valid=errors[-1])


def _add_log(
    validation: CrossValidation,
    log: ProcessedLog,
    masks: Sequence[BoolArray],
    margin: float,
    fitted: Sequence[LabelledBlocks],
    predicted: Sequence[LabelledBlocks],
) -> None:
    """Add a log to the statistics that are fitted, for each choice, and to those predicted.

    Args:
        predicted: Statistics of all samples, and of the equations valid
            in every choice.
    """
    recorded = validation.recorded(log)
    begin = recorded.begin + margin
    end = recorded.end - margin
    borders = np.linspace(begin, end, N_FOLDS + 1)
    guard = 0.0
    if not log.periodic and log.cutoff is not None:
        guard = 1.0 / log.cutoff
    decimators = [Decimator(log.decimation) for _ in masks]
    for start in range(0, len(log), BLOCK_SAMPLES):
        samples = slice(start, start + BLOCK_SAMPLES)
        equations = equations_of_samples(
            validation.model, log, validation.parameters, samples, log.effort
        )
        for mask, decimator, blocks in zip(masks, decimators, fitted):
            thinned = decimator.push(replace(equations, mask=mask[samples]))
            if thinned is not None:
                assert thinned.time is not None
                blocks.add(thinned, _fit_blocks(thinned.time, borders, guard))
        time = log.motion.time[samples]
        inside = (time >= borders[0]) & (time <= borders[-1])
        interval = np.searchsorted(borders, time, side="right") - 1
        fold = np.clip(interval, 0, N_FOLDS - 1)
        recorded_effort = recorded.effort[samples]
        pose = log.motion.q[samples]
        effort = validation.model.project_to_rows(pose, recorded_effort)
        chosen = np.flatnonzero(inside & recorded.is_predicted[samples])
        unfiltered = equations.take(chosen)
        unfiltered = replace(unfiltered, effort=effort[chosen], mask=None)
        predicted[0].add(unfiltered, fold[chosen])
        for blocks in predicted[1:]:
            valid_in_all = masks[-1][samples][chosen]
            blocks.add(replace(unfiltered, mask=valid_in_all), fold[chosen])


def _fit_blocks(time: FloatArray, borders: FloatArray, guard: float) -> IntArray:
    """Return the block of each sample for the fits, (t,).

    Fold f is predicted from samples that are further from it than the
    guard. So the samples near a border make blocks of their own: block
    2 f + 1 is the inner part of fold f, block 2 f the samples around
    its lower border, the last one those around the upper end.

    Args:
        time: (t,) [s]
        borders: Of the folds. [s]
        guard: Samples this near to a border belong to it; at most half
            of a fold. [s]
    """
    width = float(borders[1] - borders[0])
    guard = min(guard, 0.499 * width)
    guards = np.concatenate([borders - guard, borders + guard])
    edges = np.sort(guards)
    interval = np.searchsorted(edges, time, side="right")  # 0 before the first guard
    # Samples before the first guard and behind the last one are never
    # near a predicted block.
    outside = (interval == 0) | (interval == len(edges))
    return np.asarray(np.where(outside, N_FIT_BLOCKS - 1, interval - 1))
