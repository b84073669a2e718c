"""Payloads and drifting friction in the periods of a log that were averaged.

The mean of the periods shows a part of them only, and the errors of the
model beside it. What differs between the periods shows them without any
model of the robot: the effort of period i minus the mean effort is

    d_i(t) = (c_i(t) - mean c(t)) C(t) theta + noise,

C the columns of a payload and c_i(t) one while it is carried, zero
otherwise, or C the friction and c_i(t) the time. Blocks of these
deviations are predicted with and without theta by the rule for all
explanations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.verdict.acceptance import (
    MATERIAL_EFFORT_CHANGE,
    TESTS_PER_FAULT,
    Baseline,
    Gain,
    size_errors,
    with_size_test,
)
from gough.verdict.blocks import (
    MAX_BLOCKS_PER_LOG,
    MIN_BLOCK_EQUATIONS,
    BlockSums,
    cross_validate,
)
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation
from gough.verdict.faults import (
    ALL_JOINTS,
    DRIFT_OF_ALL_JOINTS,
    common_drift,
)
from gough.verdict.fitted_log import FittedLog
from gough.verdict.segments import (
    SEGMENT_PARAMETERS,
    payload_in_part,
    presence,
    segments_of_cells,
)

LEAST_PERIODS = 2  # between which something can change
# to which a cell is divided to find when a payload was picked up and
# put down
STEPS_PER_CELL = 10
KINDS_OF_CHANGES = 2  # that are tried
MIN_MASS_T = 3.0  # mass over its standard error


def changes_between_periods(evidence: Evidence) -> list[Explanation]:
    """Return what the rule accepts in averaged logs: one a log at most, that of the larger gain."""
    numbers = []
    for number, log in enumerate(evidence.logs):
        if log.periodic and log.deviations is not None and len(log.deviations) >= LEAST_PERIODS:
            numbers.append(number)
    changes = []
    for number in numbers:
        periods = _Periods.of(evidence.logs[number])
        accepted = []
        for tried in (_payload, _friction_drift):
            explanation = tried(periods, number, len(numbers))
            if explanation is not None:
                accepted.append(explanation)
        if accepted:
            changes.append(max(accepted, key=lambda each: each.gain.total))
    return changes


@dataclass(frozen=True, kw_only=True, eq=False)
class _Periods:
    """What differs between the periods of a log."""

    log: FittedLog
    # effort of each period minus their mean, in rows, (k, t, r)
    deviations: FloatArray
    valid: BoolArray  # equations that count, (t, r)
    columns: FloatArray  # of a payload, (t, r, 4)

    @classmethod
    def of(cls, log: FittedLog) -> _Periods:
        assert log.deviations is not None
        valid = np.ones((len(log.motion), len(log.model.rows)), bool)
        if log.decimation == 1:
            valid[:] = False
            valid[log.sample_numbers] = log.regression.valid
        columns = log.model.regressor(log.motion, SEGMENT_PARAMETERS, dead_band=log.dead_band)
        return cls(
            log=log,
            deviations=np.stack([log.in_rows(each) for each in log.deviations]),
            valid=valid,
            columns=np.asarray(columns),
        )

    @property
    def n_periods(self) -> int:
        """Number of periods."""
        return len(self.deviations)

    @property
    def duration(self) -> float:
        """Duration of all periods. [s]"""
        return self.n_periods * len(self.log.motion) * self.log.signals.step

    @property
    def weights(self) -> FloatArray:
        """Inverse variances of the deviations of each row, (r,)."""
        n_valid = np.maximum(self.valid.sum(axis=0) * self.n_periods, 1)
        power = ((self.deviations * self.valid) ** 2).sum(axis=(0, 1)) / n_valid
        return np.where(power > 0, 1 / np.maximum(power, TINY), 0.0)

    def sums(self, columns: FloatArray, carried: FloatArray) -> BlockSums:
        """Return the sums of the deviations with columns while something is carried.

        Blocks are intervals of the phase in all periods together: the
        deviations of two periods are the same but for their sign.

        Args:
            columns: Effect on the rows, (t, r, k).
            carried: One while it is there, or how much of it is, (k,
                t).
        """
        n_phases = self.n_phases
        n_samples, n_rows, width = columns.shape
        phase = np.arange(n_samples) * n_phases // n_samples
        grams = np.zeros((n_phases, n_rows, width + 1, width + 1))
        n_valid = np.zeros((n_phases, n_rows), np.int64)
        deviation = carried - carried.mean(axis=0)
        for period in range(self.n_periods):
            changing = columns * deviation[period][:, None, None]
            stacked = np.concatenate([changing, self.deviations[period][:, :, None]], axis=2)
            stacked = stacked * self.valid[:, :, None]
            for k in range(n_phases):
                rows = stacked[phase == k].transpose(1, 0, 2)
                grams[k] += rows.transpose(0, 2, 1) @ rows
                n_valid[k] += self.valid[phase == k].sum(axis=0)
        one_log = np.zeros(n_phases, np.int64)
        return BlockSums(grams=grams, n_valid=n_valid, log=one_log, n_parameters=0)

    @property
    def n_phases(self) -> int:
        """Number of blocks."""
        return min(MAX_BLOCKS_PER_LOG, max(len(self.log.motion) // MIN_BLOCK_EQUATIONS, 1))

    @property
    def friction(self) -> FloatArray:
        """Effect on the rows of the friction of all joints, (t, r, 1)."""
        return common_drift(self.log, ALL_JOINTS)[:, :, -1:]

    def carried(self, start: float, end: float) -> FloatArray:
        """Return one while something is carried from a time of the log to another, (k, t). [s]"""
        return presence(self.log, self.n_periods, start, end)


def _payload(periods: _Periods, number: int, n_logs: int) -> Explanation | None:
    """Return the payload in a part of the periods of a log, if the rule accepts one.

    Not if a change of the gains or of the times in that part predicts
    as well.
    """
    if periods.log.payload is not None:
        return None
    start, end, n_tried = _best_segment(periods)
    carried = periods.carried(start, end)
    trials = KINDS_OF_CHANGES * TESTS_PER_FAULT * n_tried * n_logs
    gain, size, std = _tested(periods, periods.columns, carried, trials)
    if not gain.significant or size[0] < MIN_MASS_T * std[0]:
        return None
    if _other_change_explains_more(periods, carried, gain):
        return None
    log = periods.log
    return Explanation(
        fault=payload_in_part(number, log, start, end),
        place=log.name,
        logs=(number,),
        size=size,
        std=std,
        gain=gain,
    )


def _other_change_explains_more(periods: _Periods, carried: FloatArray, gain: Gain) -> bool:
    """Return whether another change of the same course in time explains as much.

    Gains of motors, a gain of all efforts, or times: periods that are a
    little longer or shorter than declared are ever later, so that
    efforts change by their rate.
    """
    prediction = periods.log.in_rows(periods.log.prediction)
    gains = prediction[:, :, None] * np.eye(prediction.shape[1])
    rate = np.gradient(prediction, periods.log.signals.step, axis=0)
    for other in (gains, prediction[:, :, None], rate[:, :, None]):
        if _tested(periods, other, carried, 1)[0].total >= gain.total:
            return True
    return False


def _friction_drift(periods: _Periods, number: int, n_logs: int) -> Explanation | None:
    """Return friction of all joints that grows or falls along a log, if the rule accepts it.

    Not if a change of the gains or of the times predicts as well.
    """
    ramp = time_fraction(periods.log, periods.n_periods)
    trials = KINDS_OF_CHANGES * TESTS_PER_FAULT * n_logs
    gain, size, std = _tested(periods, periods.friction, ramp, trials)
    if not gain.significant or _other_change_explains_more(periods, ramp, gain):
        return None
    fault = replace(
        DRIFT_OF_ALL_JOINTS, columns=partial(_mean_friction, n_periods=periods.n_periods)
    )
    # the mean of the periods has a friction of its own; it is no part
    # of the growth
    return Explanation(
        fault=fault,
        place=ALL_JOINTS,
        logs=(number,),
        size=np.array([size[0], 0.0, 0.0]),
        std=np.array([std[0], 0.0, 0.0]),
        gain=gain,
    )


def time_fraction(log: FittedLog, n_periods: int) -> FloatArray:
    """Return the time from -1/2 to 1/2 over all periods of a log, (k, t)."""
    n_samples = len(log.motion)
    return np.linspace(-0.5, 0.5, n_periods * n_samples).reshape(n_periods, n_samples)


def _mean_friction(log: FittedLog, place: str, n_periods: int) -> FloatArray:
    """Return friction of all joints by its growth over the log and by its mean, (t, r, 3)."""
    friction = common_drift(log, place)[:, :, -1]
    fraction = time_fraction(log, n_periods).mean(axis=0)
    shapes = np.stack([fraction, fraction**2, np.ones(len(fraction))], axis=1)
    return np.asarray(friction[:, :, None] * shapes[:, None, :])


def _tested(
    periods: _Periods, columns: FloatArray, carried: FloatArray, trials: int
) -> tuple[Gain, FloatArray, FloatArray]:
    """Return the gain of an effect in a part of the periods, its size and standard errors."""
    sums = periods.sums(columns, carried)
    width = columns.shape[2]
    scope = np.ones(len(sums.grams), bool)
    validation = cross_validate(sums, range(width))
    gain = Baseline(sums, ()).gain(sums, scope, trials, validation=validation)
    size = validation.whole
    std = size_errors(sums, validation, width)
    gain = with_size_test(gain, sums, validation, size, std, 1, trials)
    effort = periods.log.in_rows(periods.log.effort) * periods.valid
    power = (effort**2).sum(axis=0) / np.maximum(periods.valid.sum(axis=0), 1)
    relative = np.sqrt(sums.effort_power / np.maximum(power, TINY))
    explained = gain.explained * float(relative.max())
    if explained < MATERIAL_EFFORT_CHANGE:
        gain = replace(gain, explained=explained)
    mean_relative = float(np.sqrt(np.mean(relative**2)))
    gain = replace(gain, before=gain.before * mean_relative, after=gain.after * mean_relative)
    return gain, size, std


def _best_segment(periods: _Periods) -> tuple[float, float, int]:
    """Return beginning and end of the part in which a payload explains most, and how many tried.

    On a coarse grid, then both ends on a finer one.
    """
    coarse = segments_of_cells()
    n_cells = int(coarse.max())
    edges = np.linspace(0.0, periods.duration, n_cells + 1)
    best = coarse[int(np.argmax(_explained(periods, edges, coarse)))]
    finer = np.linspace(0.0, periods.duration, n_cells * STEPS_PER_CELL + 1)
    reach = np.arange(-STEPS_PER_CELL, STEPS_PER_CELL + 1)
    firsts, lasts = np.meshgrid(best[0] * STEPS_PER_CELL + reach, best[1] * STEPS_PER_CELL + reach)
    fine = np.stack([firsts.ravel(), lasts.ravel()], axis=1)
    inside = (fine[:, 0] >= 0) & (fine[:, 1] < len(finer)) & (fine[:, 0] < fine[:, 1])
    fine = fine[inside]
    first, last = fine[int(np.argmax(_explained(periods, finer, fine)))]
    return float(finer[first]), float(finer[last]), len(coarse) + len(fine)


def _explained(periods: _Periods, edges: FloatArray, segments: IntArray) -> FloatArray:
    """Return by how much a payload in each of some segments lowers the squared deviations, (m,).

    Args:
        periods: The deviations.
        edges: Times at which segments begin or end. [s]
        segments: Numbers of the first and the last edge of each, (m,
            2).
    """
    n_periods = periods.n_periods
    n_samples, _, width = periods.columns.shape
    weighted = periods.columns * (periods.valid * periods.weights)[:, :, None]
    scores = np.einsum("ktr,trc->ktc", periods.deviations, weighted, optimize=True)
    cumulative = np.zeros((n_periods * n_samples + 1, width))
    cumulative[1:] = np.cumsum(scores.reshape(-1, width), axis=0)
    products = np.einsum("trc,trd->tcd", weighted, periods.columns, optimize=True)
    products = products.reshape(n_samples, -1)
    step = periods.log.signals.step
    samples = np.clip(np.round(edges / step).astype(int), 0, n_periods * n_samples)
    explained = np.zeros(len(segments))
    for k, (first, last) in enumerate(samples[segments]):
        carried = np.zeros(n_periods * n_samples)
        carried[first:last] = 1.0
        fraction = carried.reshape(n_periods, n_samples).mean(axis=0)
        gram = (n_periods * fraction * (1 - fraction)) @ products
        score = cumulative[last] - cumulative[first]
        size = np.linalg.lstsq(gram.reshape(width, width), score, rcond=1e-10)[0]
        explained[k] = score @ size if size[0] > 0 else 0.0
    return explained
