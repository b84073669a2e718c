"""Trials of continuous faults: their sizes to first order, then refined by undoing them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.verdict.acceptance import (
    changes_enough,
    no_gain,
    size_errors,
    with_size_test,
)
from gough.verdict.blocks import BlockSums, CrossValidation, block_sums, cross_validate, row_weights
from gough.verdict.explanation import Candidate, Explanation, effort_scale
from gough.verdict.faults import EFFORT_SCALE, MAX_RELATIVE_SIZE, PAYLOAD_FAULT, Fault
from gough.verdict.screen import Screen
from gough.verdict.stage import Stage

GAUSS_NEWTON_STEPS = 8
GAUSS_NEWTON_TOLERANCE = 0.1  # standard errors of the size
MIN_SIZE_T = 3.0  # size over its standard error
# between the size that is estimated and the one that the signals show
MAX_SIZE_RATIO = 2.0


def guessed(
    stage: Stage, fault: Fault, place: str, logs: tuple[int, ...], size: FloatArray
) -> Explanation:
    """Return an explanation whose size is a guess."""
    return Explanation(
        fault=fault,
        place=place,
        logs=logs,
        size=size,
        std=0 * size,
        gain=no_gain(len(stage.block_log)),
    )


def guessed_to_first_order(stage: Stage, candidate: Candidate, sums: BlockSums) -> Explanation:
    """Return a candidate with the size that lowers the squared error most, to first order.

    Args:
        stage: The logs as corrected so far.
        candidate: The fault.
        sums: Of the model with the columns of the candidate last.
    """
    coefficients = row_weights(sums, range(sums.n_columns))[1]
    size = coefficients[-len(candidate.columns) :]
    return guessed(stage, candidate.fault, candidate.place, candidate.logs, size)


def first_order(
    stage: Stage, candidate: Candidate, sums: BlockSums, n_tests: int
) -> Explanation | None:
    """Return a candidate with its size to first order, if blocks are predicted better with it.

    Its gain is that of blocks: whole logs are not compared yet. One
    that is too small to matter is no cause by itself, but may be the
    better explanation of what another one explains.

    Args:
        stage: The logs as corrected so far.
        candidate: The fault.
        sums: Of the model with the columns of the candidate last.
        n_tests: Number of tests that it is the best of.
    """
    fault = candidate.fault
    scope = stage.scope(candidate.logs, fault.segment)
    validation = cross_validate(sums, range(sums.n_columns))
    gain = stage.baseline.block_gain(sums, scope, n_tests, validation=validation)
    if not gain.blocks_better:
        return None
    n_sizes = len(candidate.columns)
    size = validation.whole[-n_sizes:]
    error = size_errors(sums, validation, n_sizes)
    std = np.hypot(error, fault.first_order_error * size)
    if not is_possible(stage, fault, size, std):
        return None
    material = changes_enough(
        stage.baseline, sums, validation.whole, efforts_only=fault.in_robot_file
    )
    gain = replace(gain, material=material)
    n_decisive = fault.n_decisive or n_sizes
    return Explanation(
        fault=fault,
        place=candidate.place,
        logs=candidate.logs,
        size=size,
        std=std,
        gain=with_size_test(gain, sums, validation, size, error, n_decisive, n_tests),
    )


def on_whole_logs(stage: Stage, screen: Screen, explanation: Explanation) -> Explanation | None:
    """Return an explanation to first order with its gain on whole logs, if that is better, too."""
    ((_, sums),) = screen.sums([screen.candidate_of(explanation)])
    gain = stage.baseline.with_whole_logs(explanation.gain, sums)
    return replace(explanation, gain=gain) if gain.better else None


def is_possible(stage: Stage, fault: Fault, size: FloatArray, std: FloatArray) -> bool:
    """Return whether a robot can have a fault of some size, and the data determine the size.

    Args:
        stage: The logs as corrected so far.
        fault: The fault.
        size: Of the fault, (k,).
        std: Standard errors of the size, (k,).
    """
    largest = float(np.abs(size).max())
    if (fault.positive or fault.name == PAYLOAD_FAULT) and size[0] <= 0:
        return False
    if fault.near_size is not None:
        ratio = size[0] / fault.near_size
        if not 1 / MAX_SIZE_RATIO < ratio < MAX_SIZE_RATIO:
            return False
    if largest < fault.least_size:
        return False
    if fault.max_size is not None and largest > fault.max_size:
        return False
    if fault.min_samples and abs(size[0]) < fault.min_samples * stage.evidence.logs[0].signals.step:
        return False
    determined = np.abs(size) > MIN_SIZE_T * std
    return bool(determined[: fault.n_decisive].any())


class _Undone(NamedTuple):
    """Logs with a fault of some size undone, and what remains of it."""

    trial: Explanation  # the fault with its size
    sums: BlockSums  # of the logs without it, with its columns last
    validation: CrossValidation  # of these sums over single blocks
    remaining: FloatArray  # size of what remains of it, (k,)
    std: FloatArray  # standard errors of that, (k,)

    @property
    def std_of_size(self) -> FloatArray:
        """Standard errors of the size; what remains of a fraction is relative to the rest."""
        if isinstance(self.trial.fault, Fault) and self.trial.fault.relative:
            return np.asarray(self.std * np.abs(1 + self.trial.size))
        return self.std

    @property
    def nothing_remains(self) -> bool:
        """Whether what remains of the fault is small beside its standard errors."""
        return bool((np.abs(self.remaining) <= GAUSS_NEWTON_TOLERANCE * self.std).all())


def refined(stage: Stage, explanation: Explanation, n_tests: int) -> Explanation | None:
    """Find the size of a fault by undoing it on the logs until nothing of it remains.

    None if it does not predict better at that size.

    Args:
        stage: The logs as corrected so far.
        explanation: The fault with its size to first order, or a guess
            of it.
        n_tests: Number of tests that it is the best of.
    """
    undone = _gauss_newton(stage, explanation)
    if undone is None:
        return None
    better = _explanation_of(stage, undone, n_tests)
    assert isinstance(better.fault, Fault)
    if not better.gain.better or not is_possible(stage, better.fault, better.size, better.std):
        return None
    return better


def _gauss_newton(stage: Stage, explanation: Explanation) -> _Undone | None:
    """Undo a fault in steps until nothing of it remains; a step that leaves more is halved.

    The gain is no measure of a step: the model has the column of what
    remains. None if the loops do not close at any size, or if a
    relative size grows beyond what a derivative describes.
    """
    fault = explanation.fault
    assert isinstance(fault, Fault)
    std = explanation.std
    step = explanation.size
    previous = np.zeros_like(step)
    best: _Undone | None = None
    smallest = np.inf
    for _ in range(GAUSS_NEWTON_STEPS):
        size = _composed(fault, previous, step)
        too_large = fault.relative and np.abs(size).max() > MAX_RELATIVE_SIZE
        if too_large and fault.name != EFFORT_SCALE:
            return None
        undone = _undone(stage, replace(explanation, size=size))
        if undone is None or np.linalg.norm(undone.remaining) > smallest:
            step = step / 2
            if (np.abs(step) < GAUSS_NEWTON_TOLERANCE * std).all():
                break
            continue
        best = undone
        std = undone.std_of_size
        smallest = float(np.linalg.norm(undone.remaining))
        previous = size
        step = undone.remaining
        if undone.nothing_remains:
            break
    return best


def _composed(fault: Fault, size: FloatArray, step: FloatArray) -> FloatArray:
    """Return the size of a fault of which a part was undone and a further step was found."""
    if fault.relative:
        return np.asarray((1 + size) * (1 + step) - 1)
    return np.asarray(size + step)


def _undone(stage: Stage, trial: Explanation) -> _Undone | None:
    """Undo a fault of some size; return the logs without it and what remains of it.

    None if the loops do not close then.
    """
    following = stage.followed_by(trial)
    if following is None:
        return None
    columns = following.columns_with(trial)
    sums = block_sums(following.evidence.logs, stage.labels, columns)
    validation = cross_validate(sums, range(sums.n_columns))
    n_sizes = columns[0].shape[2] - following.n_added
    return _Undone(
        trial=trial,
        sums=sums,
        validation=validation,
        remaining=validation.whole[-n_sizes:],
        std=size_errors(sums, validation, n_sizes),
    )


def _explanation_of(stage: Stage, undone: _Undone, n_tests: int) -> Explanation:
    """Return the explanation by a fault that was undone, with its gain and standard errors."""
    trial = undone.trial
    assert isinstance(trial.fault, Fault)
    gain = stage.baseline.gain(
        undone.sums,
        stage.scope(trial.logs, trial.segment),
        n_tests,
        effort_scale=effort_scale(stage.evidence, trial, stage.block_log),
        validation=undone.validation,
    )
    std = undone.std_of_size
    n_decisive = trial.fault.n_decisive or len(trial.size)
    gain = with_size_test(
        gain, undone.sums, undone.validation, trial.size, std, n_decisive, n_tests
    )
    return replace(trial, std=std, gain=replace(gain, material=trial.gain.material))
