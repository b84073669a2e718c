"""Exchanged channels and wrong units of times and angles that logs do not show.

A robot with equal legs is its own mirror image: with the channels of
two legs exchanged, other parameters predict the same efforts. Slow
motions are predicted as well at twice the pace. The angle of a balanced
axis may be in degrees: other inertias and frictions predict the same.
Neither is a fault of the model's prediction, and no rule can warn about
it; so it is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.mechanism.types import Mechanism
from gough.verdict.acceptance import MIN_DISCRETE_BLOCKS, Baseline
from gough.verdict.blocks import BlockSums, block_sums, row_weights
from gough.verdict.discrete_faults import (
    DiscreteFault,
    clock_faults,
    position_units,
    swapped_channels,
)
from gough.verdict.discrete_trials import MIN_DISCRETE_ERROR, thinned
from gough.verdict.evidence import Evidence
from gough.verdict.rules import UNEXPLAINED_WARNING

DEGREES = float(np.rad2deg(1.0))  # in a radian
LARGEST_CLOCK_FACTOR = 2.0  # nobody misses a larger one


def _possible_faults(mechanism: Mechanism) -> Iterator[DiscreteFault]:
    """Yield the discrete faults that some logs do not show."""
    for fault in swapped_channels(mechanism):
        if fault.name == "swapped channels":
            yield fault
    if not mechanism.closures:  # a loop does not close with one of its angles in another unit
        for fault in position_units(mechanism):
            if fault.place in mechanism.actuated and fault.size in (DEGREES, 1 / DEGREES):
                yield fault
    for fault in clock_faults():
        if fault.size is not None and fault.size in (
            LARGEST_CLOCK_FACTOR,
            1 / LARGEST_CLOCK_FACTOR,
        ):
            yield fault


@one_blas_thread
def unnoticed_faults(
    evidence: Evidence, labels: Sequence[IntArray], trials: int
) -> list[DiscreteFault]:
    """Return discrete faults that would change the logs and that no rule would notice.

    The fault is undone in thinned logs, and the model is fitted to
    them. The change is noticed if it adds an error of 5 % of an effort,
    or if the acceptance rule would name it. As it is not known which
    logs are right, times too long and too short are both listed if one
    of them would not be noticed.

    Args:
        evidence: The logs.
        labels: Block of each sample, (t,) of each log.
        trials: Number of explanations that the verdict tries.
    """
    thin, thin_labels = thinned(evidence, labels)
    without = block_sums(thin.logs, thin_labels)
    unnoticed: list[DiscreteFault] = []
    for fault in _possible_faults(evidence.model.mechanism):
        faulty = []
        for log in thin.logs:
            changed = log.with_signals(fault.undo(log.signals))
            if changed is None:
                break
            faulty.append(changed)
        if len(faulty) < len(thin.logs):
            continue
        if not _is_noticed(block_sums(faulty, thin_labels), without, trials):
            unnoticed.append(fault)
    names = {(fault.name, fault.place) for fault in unnoticed}
    every = _possible_faults(evidence.model.mechanism)
    return [fault for fault in every if (fault.name, fault.place) in names]


def _squared_errors(sums: BlockSums) -> FloatArray:
    """Return the mean square of each row's residual over that of its effort, (r,)."""
    weights, _ = row_weights(sums, range(sums.n_columns))
    return np.asarray(1 / np.maximum(weights * sums.effort_power, TINY))


def _is_noticed(faulty: BlockSums, without: BlockSums, trials: int) -> bool:
    """Return whether the verdict would not be `ok`, or name the fault."""
    added = _squared_errors(faulty) - _squared_errors(without)
    if added.max() > UNEXPLAINED_WARNING**2:
        return True
    n_blocks = len(faulty.grams)
    if added.max() < MIN_DISCRETE_ERROR**2 or n_blocks < MIN_DISCRETE_BLOCKS:
        return False
    baseline = Baseline(faulty, range(faulty.n_columns))
    return baseline.gain(without, np.ones(n_blocks, bool), trials).significant
