"""An explanation of the data: a fault at a place with its size, and how to undo it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.verdict.acceptance import Gain
from gough.verdict.discrete_faults import DiscreteFault
from gough.verdict.evidence import Evidence
from gough.verdict.faults import EFFORT_SCALE, Fault
from gough.verdict.fitted_log import FittedLog
from gough.verdict.motor_signals import MotorSignals


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """A fault with its size, and how much better the data are predicted with it."""

    fault: Fault | DiscreteFault
    place: str  # the joint or log it is at
    logs: tuple[int, ...]  # numbers of the logs it is in
    size: FloatArray  # (k,); empty for a discrete fault without a factor
    std: FloatArray  # standard errors of the size, (k,)
    gain: Gain  # how much better left-out blocks are predicted with it
    # the same at a lower cut-off, if it was computed
    gain_with_less_noise: Gain | None = None

    @property
    def name(self) -> str:
        """Name of the fault."""
        return self.fault.name

    @property
    def discrete(self) -> bool:
        """Whether it is there or not, without a size to be estimated."""
        return isinstance(self.fault, DiscreteFault)

    @property
    def n_sizes(self) -> int:
        """Numbers that were fitted."""
        return 0 if self.discrete else len(self.size)

    @property
    def segment(self) -> tuple[int, float, float] | None:
        """Log and times of the part of it that the fault is in; None for whole logs."""
        return self.fault.segment if isinstance(self.fault, Fault) else None

    @property
    def can_be_undone(self) -> bool:
        """Whether the logs change when it is corrected; otherwise the model gets columns."""
        return self.discrete or (isinstance(self.fault, Fault) and self.fault.undo is not None)

    @property
    def turns_efforts(self) -> bool:
        """Whether it is a sign, a channel, a unit, or a factor below zero."""
        return self.discrete or (self.name == EFFORT_SCALE and bool(self.size[0] < -1))

    def same_as(self, other: Explanation) -> bool:
        """Return whether it is the same fault at the same place."""
        return self.name == other.name and self.place == other.place and self.logs == other.logs

    def undone(self, number: int, log: FittedLog, signals: MotorSignals) -> MotorSignals:
        """Return the signals of a log without the fault."""
        if number not in self.logs:
            return signals
        if isinstance(self.fault, DiscreteFault):
            return self.fault.undo(signals)
        if self.fault.undo is None:
            return signals
        return self.fault.undo(log, signals, self.place, self.size)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A continuous fault at a place, in some logs, before its size is known."""

    fault: Fault
    place: str
    logs: tuple[int, ...]
    columns: tuple[int, ...]  # in the stacked columns of its screen

    def is_one_of(self, explanations: Sequence[Explanation]) -> bool:
        """Return whether the fault was accepted at this place already."""
        for each in explanations:
            same = each.name == self.fault.name and each.place == self.place
            if same and (each.segment is None) == (self.fault.segment is None):
                return True
        return False


def corrected(
    evidence: Evidence, explanations: Sequence[Explanation], before: Evidence | None = None
) -> Evidence | None:
    """Return the logs with faults undone, fitted again; None if loops do not close.

    Args:
        evidence: The logs as they were.
        explanations: The faults.
        before: The logs with all faults but the last undone, if they
            are known.
    """
    if not any(each.can_be_undone for each in explanations):
        return evidence
    if before is not None and not explanations[-1].can_be_undone:
        return before
    logs = []
    for number, log in enumerate(evidence.logs):
        if before is not None and number not in explanations[-1].logs:
            logs.append(before.logs[number])
            continue
        signals = log.signals
        for each in explanations:
            signals = each.undone(number, log, signals)
        changed = log
        if signals is not log.signals:
            new = log.with_signals(signals)
            if new is None:
                return None
            changed = new
        logs.append(changed)
    return replace(evidence, logs=tuple(logs)).refitted()


def effort_scale(evidence: Evidence, explanation: Explanation, block_log: IntArray) -> FloatArray:
    """Return the factor from the corrected to the recorded effort by block and row, (b, r).

    One where the rows are not motors.
    """
    scale = np.ones((len(block_log), len(evidence.model.rows)))
    if evidence.model.loops.redundant:
        return scale
    number = explanation.logs[0]
    log = evidence.logs[number]
    signals = replace(log.signals, deviations=log.signals.deviations[:0])
    zeros = replace(signals, effort=np.zeros(log.effort.shape))
    ones = replace(signals, effort=np.ones(log.effort.shape))
    zero = explanation.undone(number, log, zeros).effort
    one = explanation.undone(number, log, ones).effort
    change = np.abs(one - zero).mean(axis=0)
    scale[np.isin(block_log, explanation.logs)] = 1 / np.maximum(change, TINY)
    return scale
