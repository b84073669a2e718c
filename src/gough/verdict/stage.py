"""A stage of the search: the logs with the explanations that were accepted so far."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.fitting.cross_validation import UNIT_COLUMN_RIDGE, solve_normal_equations
from gough.verdict.acceptance import MATERIAL_EFFORT_CHANGE, Baseline, Gain, row_errors
from gough.verdict.blocks import block_sums
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation, corrected, effort_scale
from gough.verdict.faults import Fault
from gough.verdict.fitted_log import FittedLog

# of the samples of a block, for it to be in a part of a log
MIN_INSIDE_FRACTION = 0.5


class WholeFit(NamedTuple):
    """A weighted least-squares fit to all blocks."""

    # effort minus model as a combination of [model, effort], (p + 1,)
    residual: FloatArray
    scale: FloatArray  # norms of the model's columns, (p,)
    # of the Gram matrix of the model's columns over their norms, (p, p)
    inverse: FloatArray


class Stage:
    """Logs as corrected so far, with the sums that candidates are compared on.

    Attributes:
        original: The logs as they were.
        accepted: Explanations accepted so far.
        evidence: The logs with these undone.
    """

    def __init__(
        self,
        original: Evidence,
        labels: Sequence[IntArray],
        accepted: Sequence[Explanation] = (),
        evidence: Evidence | None = None,
    ) -> None:
        self.original = original
        self.labels = list(labels)
        self.accepted = tuple(accepted)
        if evidence is None:
            evidence = corrected(original, accepted)
            assert evidence is not None
        self.evidence = evidence

    def followed_by(self, explanation: Explanation) -> Stage | None:
        """Return the stage with one more explanation; None if loops do not close then."""
        explanations = [*self.accepted, explanation]
        evidence = corrected(self.original, explanations, self.evidence)
        if evidence is None:
            return None
        return Stage(self.original, self.labels, explanations, evidence)

    def with_others(self, explanations: Sequence[Explanation]) -> Stage | None:
        """Return the same logs with other explanations; None if loops do not close then."""
        evidence = corrected(self.original, explanations)
        if evidence is None:
            return None
        return Stage(self.original, self.labels, explanations, evidence)

    def gain_of(
        self,
        explanation: Explanation,
        n_tests: int,
        least_explained: float = MATERIAL_EFFORT_CHANGE,
    ) -> Gain | None:
        """Return the gain of one more explanation; None if loops do not close with it.

        Args:
            explanation: A fault with its size.
            n_tests: Number of tests that it is the best of.
            least_explained: Error that it has to take away, over the
                rms effort.
        """
        following = self.followed_by(explanation)
        if following is None:
            return None
        sums = following.baseline.sums
        return self.baseline.gain(
            sums,
            self.scope(explanation.logs, explanation.segment),
            n_tests,
            effort_scale=effort_scale(self.evidence, explanation, self.block_log),
            least_explained=least_explained,
        )

    @property
    def error(self) -> float:
        """The rms over rows of the error on blocks left out, over the effort."""
        return float(np.sqrt(np.mean(self.row_errors() ** 2)))

    def row_errors(self, blocks: BoolArray | None = None) -> FloatArray:
        """Return the rms error of each row on some blocks (b,) left out, over the effort, (r,)."""
        if blocks is None:
            blocks = np.ones(len(self.block_log), bool)
        return row_errors(self.baseline.validation(), self.baseline.sums.effort_power, blocks)

    @property
    def added(self) -> tuple[Explanation, ...]:
        """Accepted explanations that are columns of the model."""
        added = []
        for each in self.accepted:
            if isinstance(each.fault, Fault) and each.fault.undo is None:
                added.append(each)
        return tuple(added)

    @cached_property
    def block_log(self) -> IntArray:
        """Log of each block, (b,)."""
        numbers = np.zeros(max(int(label.max()) for label in self.labels) + 1, np.int64)
        for k, label in enumerate(self.labels):
            numbers[label] = k
        return numbers

    def scope(
        self, logs: Sequence[int], segment: tuple[int, float, float] | None = None
    ) -> BoolArray:
        """Return the blocks of some logs, or those that are mostly in a part of one, (b,)."""
        if segment is None:
            return np.isin(self.block_log, logs)
        number, start, end = segment
        log = self.original.logs[number]
        if log.periodic or log.period is not None:  # blocks are intervals of the phase
            return np.asarray(self.block_log == number)
        time = np.asarray(log.motion.time)[log.sample_numbers]
        inside = (time >= start) & (time <= end)
        n_blocks = len(self.block_log)
        n_samples = np.bincount(self.labels[number], minlength=n_blocks)
        n_inside = np.bincount(self.labels[number][inside], minlength=n_blocks)
        return np.asarray(n_inside > MIN_INSIDE_FRACTION * np.maximum(n_samples, 1))

    def weighted_equations(self, number: int, columns: FloatArray) -> FloatArray:
        """Return [model, columns, effort] of a log, over the residual of each row, (t, r, c).

        Args:
            number: Of the log.
            columns: At the samples of its regression, (t, r, k).
        """
        weights = self.baseline.validation().weights
        log = self.evidence.logs[number]
        regression = log.regression.select(log.fitted.base.names)
        accepted = self.accepted_columns[number]
        effort = regression.effort[:, :, None]
        stacked = np.concatenate([regression.regressor, accepted, columns, effort], axis=2)
        return np.asarray(stacked * (regression.valid * np.sqrt(weights))[:, :, None])

    @cached_property
    def whole_fit(self) -> WholeFit:
        """The weighted fit of the model to all blocks."""
        sums = self.baseline.sums
        total = np.tensordot(self.baseline.validation().weights, sums.total, axes=1)
        n_model = sums.n_columns
        model = total[:n_model, :n_model]
        scale = np.sqrt(np.maximum(np.diag(model), TINY))
        unit = model / np.outer(scale, scale) + UNIT_COLUMN_RIDGE * np.eye(n_model)
        return WholeFit(
            residual=np.append(-solve_normal_equations(total), 1.0),
            scale=scale,
            inverse=np.linalg.inv(unit),
        )

    def added_columns(self, log: FittedLog, number: int) -> FloatArray:
        """Return the columns of accepted explanations at the samples of a regression."""
        columns = [np.zeros((len(log.regression), len(log.model.rows), 0))]
        for each in self.added:
            columns.append(_sensitivity(each, log, number))
        return np.concatenate(columns, axis=2)

    @cached_property
    def accepted_columns(self) -> list[FloatArray]:
        """Columns of accepted explanations of each log, (t, r, k)."""
        columns = []
        for number, log in enumerate(self.evidence.logs):
            columns.append(self.added_columns(log, number))
        return columns

    def columns(self, faults: Sequence[tuple[Fault, str]]) -> list[FloatArray]:
        """Return accepted columns, then those of some faults, (t, r, k) of each log."""
        stacked = []
        for number, log in enumerate(self.evidence.logs):
            columns = [self.accepted_columns[number]]
            for fault, place in faults:
                columns.append(log.resampled(fault.sensitivity(log, place)))
            stacked.append(np.concatenate(columns, axis=2))
        return stacked

    def columns_with(self, trial: Explanation) -> list[FloatArray]:
        """Return accepted columns, then those of an explanation in its logs, (t, r, k) of each."""
        stacked = []
        for number, log in enumerate(self.evidence.logs):
            columns = [self.accepted_columns[number], _sensitivity(trial, log, number)]
            stacked.append(np.concatenate(columns, axis=2))
        return stacked

    @property
    def n_added(self) -> int:
        """Columns of accepted explanations."""
        return sum(len(each.size) for each in self.added)

    @cached_property
    def baseline(self) -> Baseline:
        """The model with what was accepted so far."""
        sums = block_sums(self.evidence.logs, self.labels, self.accepted_columns)
        return Baseline(sums, range(sums.n_columns))


def _sensitivity(explanation: Explanation, log: FittedLog, number: int) -> FloatArray:
    """Return the columns of a fault at the samples of a regression, zero in other logs, (t, r, k).

    Args:
        explanation: The fault.
        log: The log.
        number: Of the log.
    """
    if number not in explanation.logs:
        return np.zeros((len(log.regression), len(log.model.rows), len(explanation.size)))
    assert isinstance(explanation.fault, Fault)
    return log.resampled(explanation.fault.sensitivity(log, explanation.place))
