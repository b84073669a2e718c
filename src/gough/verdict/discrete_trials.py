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
from gough.verdict.evidence import Evidence
from gough.verdict.exclusions import away_from_reversals_of
from gough.verdict.explanation import Explanation
from gough.verdict.shorter_logs import with_some_samples
from gough.verdict.stage import Stage

# Error above noise, over the effort, from which signs, channels and
# units are tried.
MIN_DISCRETE_ERROR = 0.02
DISCRETE_SAMPLES = 1200  # of all logs together
MAX_ON_ALL_SAMPLES = 6  # discrete faults that are compared on all samples


class _Changed(NamedTuple):
    """The sums of one log without a fault, and with it on the same equations."""

    without: BlockSums
    # None if its equations are those of the log as it is
    with_fault: BlockSums | None


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
        gain = baseline.gain(after, blocks, self.n_trials)
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
        changed = away_from_reversals_of(changed, log)
        label = self.base.labels[number]
        without = block_sums([changed], [label], [self.base.added_columns(changed, number)])
        if np.array_equal(changed.regression.valid, log.regression.valid):
            return _Changed(without=without, with_fault=None)
        regression = replace(log.regression, mask=changed.regression.mask)
        masked = replace(log, regression=regression)
        with_fault = block_sums([masked], [label], [self.base.accepted_columns[number]])
        return _Changed(without=without, with_fault=with_fault)


def discrete_explanations(
    stage: Stage,
    faults: Sequence[DiscreteFault],
    scopes: Sequence[tuple[int, ...]],
    n_trials: int,
) -> list[Explanation]:
    """Return discrete faults that predict better, tried on some samples of the logs.

    Args:
        stage: The logs as corrected so far.
        faults: That are tried.
        scopes: Sets of logs that a fault may be in.
        n_trials: Number of explanations that are tried.
    """
    if not faults or len(stage.block_log) < MIN_DISCRETE_BLOCKS:
        return []
    thin, labels = thinned(stage.evidence, stage.labels)
    trials = DiscreteTrials(Stage(thin, labels, stage.added, evidence=thin), n_trials)
    accepted = [each.fault for each in stage.accepted]
    explanations = []
    for fault in faults:
        if fault in accepted:
            continue
        for scope in scopes:
            explanation = trials.explanation(fault, scope)
            if explanation is not None:
                explanations.append(explanation)
    return explanations


def on_all_samples(
    stage: Stage, explanations: Sequence[Explanation], n_trials: int
) -> list[Explanation]:
    """Return discrete explanations with gains of all samples where these can be compared.

    A thinned log is not averaged, so its noise is higher and gains are
    lower than those of continuous faults. Faults of positions change
    which equations are valid: their gains are not compared, but they
    have to lower the error of all samples too.

    Args:
        stage: The logs as corrected so far.
        explanations: Discrete faults that predict some samples better.
        n_trials: Number of explanations that are tried.
    """
    compared: list[Explanation] = []
    for each in sorted(explanations, key=lambda each: -each.gain.total):
        assert isinstance(each.fault, DiscreteFault)
        if len(compared) >= MAX_ON_ALL_SAMPLES:
            compared.append(each)
            continue
        gain = stage.gain_of(each, n_trials)
        if gain is None or gain.after >= gain.before:
            continue
        comparable = gain.better and not each.fault.changes_positions
        compared.append(replace(each, gain=gain) if comparable else each)
    return compared


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
        logs.append(with_some_samples(log, index))
        thin_labels.append(label[index])
    return replace(evidence, logs=tuple(logs)), thin_labels
