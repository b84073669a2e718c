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
from gough.engine.columns import column_names
from gough.fitting.regression import Regression
from gough.logs.recording import Recording
from gough.processing.decimation import Decimator
from gough.processing.match_robot import MatchedLog
from gough.processing.matching import signal_of
from gough.processing.processed_log import ProcessedLog, nominal_gains, process_log
from gough.processing.regressions import without_absent_payloads
from gough.processing.settings import Processing

N_FOLDS = 5  # contiguous blocks, each predicted from the others
# Samples per 1 / cut-off that are enough for the regressor of low-passed positions.
SAMPLES_PER_CUTOFF = 8.0
PREDICTED_SAMPLES = 4000  # enough to compare candidates
WEIGHT_ITERATIONS = 4  # of the weights of the rows
# Ridge on columns of unit norm: directions that a fold does not determine stay at zero.
RIDGE = 1e-11
RELATIVE_ROUNDING = 1e-12  # of an effort's square: smaller errors are rounding
BLOCK_SAMPLES = 2048  # samples of regressor held at once


class CrossValidation:
    """An experiment on which candidate settings are compared.

    Attributes:
        model: The robot.
        logs: Logs matched to the robot.
        parameters: Columns of the regressions.
        rate: Of the slowest log. [Hz]
        by_row: Rows are fitted one by one, since the scales of their efforts are not known.
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
        known = nominal_gains(model, gains)
        holds_currents = [log.recording.effort is None for log in logs]
        self.by_row = any(holds_currents) and len(known) < len(motors)
        if self.by_row and not all(holds_currents):
            raise InvalidRecording(
                "some logs hold efforts, others currents whose drive gains are not known; give "
                "'gain' in the robot file"
            )
        self._gains = np.ones(len(motors))
        if not self.by_row:
            self._gains = np.array([known.get(name, 1.0) for name in motors])
        self.rate = min(log.rate for log in logs)
        n_samples = sum(len(log) for log in logs)
        self.stride = _power_of_two(n_samples // PREDICTED_SAMPLES)

    def candidates(self, settings: Processing) -> list[ProcessedLog]:
        """Return every log processed with the settings, in efforts, at no more samples than needed.

        Dead bands are not yet applied; see `ProcessedLog.with_bands`.
        """
        return [self._candidate(log, settings) for log in self.logs]

    def _candidate(self, log: MatchedLog, settings: Processing) -> ProcessedLog:
        every = 1
        if settings.method != "raw" and settings.cutoff is not None:
            needed = log.rate / (SAMPLES_PER_CUTOFF * settings.cutoff)
            every = _power_of_two(min(needed, self.stride))
        processed = process_log(self.model, log, settings, every=every).with_gains(self._gains)
        return replace(processed, decimation=1) if processed.periodic else processed

    def is_predicted(self, log: ProcessedLog) -> BoolArray:
        """Return which samples of a candidate are predicted, (t,)."""
        if log.periodic:
            return np.ones(len(log), bool)
        return np.asarray(log.sample % self.stride == 0)

    def recorded_effort(self, log: ProcessedLog) -> FloatArray:
        """Return the efforts of a candidate as recorded, not low-passed, (t, a)."""
        if log.periodic:
            return log.effort
        recording = recording_of(log)
        signal: FloatArray = getattr(recording, signal_of(recording))[log.sample]
        return signal * self._gains if recording.effort is None else signal

    def equations(
        self, log: ProcessedLog, samples: slice | BoolArray, effort: FloatArray
    ) -> Regression:
        """Return the equations of some samples of a candidate with these efforts, (t, a)."""
        regression = self.model.regression(
            log.motion.take(samples), effort[samples], self.parameters, dead_band=log.dead_band
        )
        return without_absent_payloads(regression, log.payload)


def recording_of(log: ProcessedLog) -> Recording:
    """Return the recording that a candidate was made from."""
    assert log.matched is not None
    return log.matched.recording


def time_span(log: ProcessedLog) -> tuple[float, float]:
    """Return first and last time of a log. [s]"""
    time = log.motion.time if log.periodic else recording_of(log).time
    return float(time[0]), float(time[-1])


def _power_of_two(number: float) -> int:
    """Return the largest power of two that is not above a number; at least 1."""
    exponent = int(np.log2(max(1, number)))
    return 1 << exponent


class _Predicted(NamedTuple):
    """Equations whose recorded effort is predicted."""

    regressor: FloatArray  # (t, r, p)
    effort: FloatArray  # as recorded, (t, r)
    fold: IntArray  # which block each sample lies in, (t,)
    valid: BoolArray  # equations valid in every choice, (t, r)


def prediction_errors(
    validation: CrossValidation,
    logs: Sequence[ProcessedLog],
    masks: Sequence[Sequence[BoolArray]],
    *,
    margin: float = 0.0,
) -> FloatArray:
    """Return relative errors of the rows, each block predicted from the others, (2, choices, r).

    First the errors of all samples, then those of the equations that are valid in every choice.

    Args:
        logs: Candidates with dead bands.
        masks: For each log, nested choices of valid equations, (t, r) each: each a subset of the
            previous one.
        margin: Excluded at both ends of a log, so that candidates predict the same samples. [s]
    """
    n_rows = len(validation.model.rows)
    n_columns = len(column_names(validation.parameters)) + 1
    n_choices = len(masks[0])
    moments = np.zeros((n_choices, N_FOLDS, n_rows, n_columns, n_columns))
    n_valid = np.zeros((n_choices, N_FOLDS, n_rows))
    predicted: list[_Predicted] = []
    for log, choices in zip(logs, masks):
        predicted += _accumulate(validation, log, choices, margin, moments, n_valid)
    values = [_solved(moments[c], n_valid[c], by_row=validation.by_row) for c in range(n_choices)]
    return _relative_errors(predicted, np.array(values))


def _accumulate(
    validation: CrossValidation,
    log: ProcessedLog,
    masks: Sequence[BoolArray],
    margin: float,
    moments: FloatArray,
    n_valid: FloatArray,
) -> list[_Predicted]:
    """Add the moments of a log for each choice; return the equations to predict, block by block."""
    begin, end = time_span(log)
    borders = np.linspace(begin + margin, end - margin, N_FOLDS + 1)
    guard = 0.0 if log.periodic or log.cutoff is None else 1.0 / log.cutoff
    recorded = validation.recorded_effort(log)
    is_predicted = validation.is_predicted(log)
    decimators = [Decimator(log.decimation) for _ in masks]
    blocks = []
    for start in range(0, len(log), BLOCK_SAMPLES):
        samples = slice(start, start + BLOCK_SAMPLES)
        equations = validation.equations(log, samples, log.effort)
        for choice, decimator in enumerate(decimators):
            thinned = decimator.push(replace(equations, mask=masks[choice][samples]))
            if thinned is not None:
                _add_outside(thinned, borders, guard, moments[choice], n_valid[choice])
        time = log.motion.time[samples]
        here = is_predicted[samples] & (time >= borders[0]) & (time <= borders[-1])
        fold = np.searchsorted(borders, time[here], side="right") - 1
        effort = validation.model.project_to_rows(log.motion.q[samples], recorded[samples])
        blocks.append(
            _Predicted(
                regressor=equations.regressor[here],
                effort=effort[here],
                fold=np.clip(fold, 0, N_FOLDS - 1),
                valid=masks[-1][samples][here],
            )
        )
    return blocks


def _relative_errors(predicted: Sequence[_Predicted], values: FloatArray) -> FloatArray:
    """Return errors relative to the efforts for values of each choice and fold, (2, choices, r)."""
    regressor, effort, fold, valid = (np.concatenate(x) for x in zip(*predicted))
    n_choices, _, n_rows, _ = values.shape
    effort_squares = np.full((2, 1, n_rows), TINY)
    error_squares = np.zeros((2, n_choices, n_rows))
    for f in range(N_FOLDS):
        inside = fold == f
        y = effort[inside]
        mask = valid[inside]
        prediction = np.einsum("trp,crp->ctr", regressor[inside], values[:, f])
        squares = (y - prediction) ** 2
        effort_squares[0, 0] += (y**2).sum(axis=0)
        effort_squares[1, 0] += (mask * y**2).sum(axis=0)
        error_squares[0] += squares.sum(axis=1)
        error_squares[1] += (mask * squares).sum(axis=1)
    ratio = np.maximum(error_squares / effort_squares, RELATIVE_ROUNDING)
    return np.asarray(np.sqrt(ratio))


def _add_outside(
    equations: Regression,
    borders: FloatArray,
    guard: float,
    moments: FloatArray,
    n_valid: FloatArray,
) -> None:
    """Add moments [W y]^T [W y] of the samples outside each block, and the number of valid ones.

    Samples inside are subtracted from the whole, since most samples are outside.

    Args:
        borders: Of the blocks. [s]
        guard: Excluded beside a block. [s]
        moments: (folds, r, p + 1, p + 1)
        n_valid: (folds, r)
    """
    time = equations.time
    assert time is not None
    data = np.ascontiguousarray(equations.stacked().transpose(1, 0, 2))
    valid = equations.valid
    whole = data.transpose(0, 2, 1) @ data
    n_whole = valid.sum(axis=0)
    for f in range(N_FOLDS):
        inside = (time > borders[f] - guard) & (time < borders[f + 1] + guard)
        block = data[:, inside]
        moments[f] += whole - block.transpose(0, 2, 1) @ block
        n_valid[f] += n_whole - valid[inside].sum(axis=0)


def _solved(moments: FloatArray, n_valid: FloatArray, *, by_row: bool) -> FloatArray:
    """Return the weighted least-squares values of each fold for each row, (folds, r, p).

    The weight of a row is the inverse of its mean squared residual, iterated; with `by_row` every
    row has values of its own.
    """
    p = moments.shape[-1] - 1
    A = moments[..., :p, :p]
    b = moments[..., :p, p]
    yy = np.maximum(moments[..., p, p], TINY)
    if by_row:
        return _ridge_solved(A, b)
    weight = 1.0 / yy
    for _ in range(WEIGHT_ITERATIONS):
        weighted_A = np.einsum("fr,frpq->fpq", weight, A)
        weighted_b = np.einsum("fr,frp->fp", weight, b)
        x = _ridge_solved(weighted_A, weighted_b)
        explained = 2 * np.einsum("frp,fp->fr", b, x)
        model_square = np.einsum("fp,frpq,fq->fr", x, A, x, optimize=True)
        residual_square = yy - explained + model_square
        floor = RELATIVE_ROUNDING * yy
        weight = np.maximum(n_valid, 1.0) / np.maximum(residual_square, floor)
    return np.repeat(x[:, None], moments.shape[1], axis=1)


def _ridge_solved(A: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A x = b, A scaled to unit columns, with a small ridge; zero columns get zero."""
    norm = np.sqrt(np.maximum(np.diagonal(A, axis1=-2, axis2=-1), 0.0))
    norm = np.where(norm > 0, norm, 1.0)
    scaled = A / (norm[..., :, None] * norm[..., None, :])
    ridged = scaled + RIDGE * np.eye(A.shape[-1])
    solution = np.linalg.solve(ridged, (b / norm)[..., None])[..., 0]
    return np.asarray(solution / norm)
