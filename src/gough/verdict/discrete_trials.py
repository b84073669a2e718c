"""Trials of discrete faults: signs, channels, units and gravity, on a thinned copy of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, IntArray
from gough.verdict.acceptance import MIN_DISCRETE_BLOCKS, Baseline
from gough.verdict.blocks import BlockSums, block_sums, row_weights
from gough.verdict.discrete_faults import DiscreteFault, within_limits, within_speed_limits
from gough.verdict.explanation import Explanation
from gough.verdict.fitted_log import Evidence
from gough.verdict.stage import Stage

DISCRETE_SAMPLES = 1200  # of all logs together


class _Changed(NamedTuple):
    """The sums of one log without a fault, and with it on the same equations."""

    without: BlockSums
    with_fault: BlockSums | None  # None if its equations are those of the log as it is


class DiscreteTrials:
    """Discrete faults compared with the logs as they are.

    Args:
        base: Thinned logs, with what was accepted before.
        n_trials: Number of explanations that are tried.
    """

    def __init__(self, base: Stage, n_trials: int) -> None:
        self.base = base
        self.n_trials = n_trials
        self._changes: dict[int, _Changed | None] = {}  # by log, of the fault tried last
        self._fault: DiscreteFault | None = None

    def explanation(self, fault: DiscreteFault, scope: tuple[int, ...]) -> Explanation | None:
        """Return a fault in some logs, by number, if they are predicted better without it."""
        both = self.sums(fault, scope)
        if both is None:
            return None
        before, after = both
        if fitted_error(after) >= fitted_error(before):
            return None
        baseline = self.base.baseline
        if before is not baseline.sums:
            baseline = Baseline(before, range(before.n_columns))
        blocks = self.base.scope(scope)
        gain = baseline.gain(after, range(after.n_columns), blocks, self.n_trials)
        if not gain.better or np.isfinite(gain.blocks[gain.scope]).sum() < MIN_DISCRETE_BLOCKS:
            return None
        size = np.zeros(0) if fault.size is None else np.array([fault.size])
        return Explanation(
            fault=fault, place=fault.place, logs=scope, size=size, std=0 * size, gain=gain
        )

    def sums(
        self, fault: DiscreteFault, scope: Sequence[int]
    ) -> tuple[BlockSums, BlockSums] | None:
        """Return the sums of all logs with a fault in some, and without it, on the same equations.

        None if the signals without it are impossible.
        """
        if fault is not self._fault:
            self._fault = fault
            self._changes = {}
        with_fault = {}
        without = {}
        for number in scope:
            if number not in self._changes:
                self._changes[number] = self._changed(fault, number)
            changed = self._changes[number]
            if changed is None:
                return None
            without[number] = changed.without
            if changed.with_fault is not None:
                with_fault[number] = changed.with_fault
        sums = self.base.baseline.sums
        labels = self.base.labels
        before = sums.with_logs(with_fault, labels) if with_fault else sums
        return before, sums.with_logs(without, labels)

    def _changed(self, fault: DiscreteFault, number: int) -> _Changed | None:
        """Undo a fault in one log; None if the signals without it are impossible."""
        log = self.base.evidence.logs[number]
        signals = fault.undo(log.signals)
        if not within_limits(log.model, signals.position, log.signals.position):
            return None
        if not within_speed_limits(log.model, signals.velocity, log.signals.velocity):
            return None
        changed = log.with_signals(signals)
        if changed is None:
            return None
        changed = changed.away_from_reversals_of(log)
        label = self.base.labels[number]
        without = block_sums([changed], [label], [self.base.added_columns(changed, number)])
        if np.array_equal(changed.regression.valid, log.regression.valid):
            return _Changed(without=without, with_fault=None)
        regression = replace(log.regression, mask=changed.regression.mask)
        masked = replace(log, regression=regression)
        with_fault = block_sums([masked], [label], [self.base.accepted_columns[number]])
        return _Changed(without=without, with_fault=with_fault)


def fitted_error(sums: BlockSums) -> float:
    """Return the geometric mean over rows of residual over effort, fitted to all blocks."""
    weights, _ = row_weights(sums, range(sums.n_columns))
    has_effort = sums.effort_power > 0
    relative = 1 / np.maximum(weights * sums.effort_power, TINY)
    return float(np.exp(0.5 * np.mean(np.log(relative[has_effort]))))


def thinned(evidence: Evidence, labels: Sequence[IntArray]) -> tuple[Evidence, list[IntArray]]:
    """Return about a thousand samples of the logs, with efforts as recorded, and their blocks."""
    per_log = max(DISCRETE_SAMPLES // len(evidence.logs), 100)
    logs = []
    thin_labels = []
    for log, label in zip(evidence.logs, labels):
        n = len(log.regression)
        index = np.unique(np.linspace(0, n - 1, min(per_log, n)).astype(int))
        logs.append(log.thinned(index))
        thin_labels.append(label[index])
    return replace(evidence, logs=tuple(logs)), thin_labels
