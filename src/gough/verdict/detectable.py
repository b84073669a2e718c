"""What `ok` cannot see: the smallest faults that these logs would have shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.notices import Notice
from gough.core.statistics import normal_quantile
from gough.identification.diagnosis import Limit, describe
from gough.verdict.acceptance import (
    MATERIAL_EFFORT_CHANGE,
    TESTS_PER_FAULT,
    effective_blocks,
    size_errors,
    student_t,
    threshold,
)
from gough.verdict.blocks import (
    MIN_BLOCK_EQUATIONS,
    BlockSums,
    CrossValidation,
    cross_validate,
    select_columns,
)
from gough.verdict.explanation import Candidate
from gough.verdict.faults import (
    ALL_MOTORS,
    EFFORT_SCALE,
    PAYLOAD_FAULT,
    Fault,
)
from gough.verdict.screen import Screen
from gough.verdict.stage import Stage

NOTICED_PROBABILITY = 0.95
SIZE_STEPS = 60  # of the search for the smallest size, each 1.25 times the one before
SIZE_RATIO = 1.25
MAX_LIMITS = {"1": 0.5, "rad": 0.5}  # larger sizes are not described by a derivative
MIN_VISIBLE_FRACTION = 1e-4  # of a fault's effort that the parameters do not absorb


def smallest_noticed(
    stage: Stage, candidate: Candidate, sums: BlockSums, trials: int
) -> tuple[float, FloatArray]:
    """Return the size that would be noticed in 95 of 100 cases, and what absorbs it.

    A fault of size s adds s S to the recorded effort. The model with the fault predicts the
    blocks as well as before; the error of the model without it is a known quadratic in s.
    The size is the smallest that passes the acceptance rule with the margin of a normal
    deviate of 95 %, both its gain and its effect, which has to matter; of a fault with several
    sizes, as a tilt about two axes, that of the size which is seen worst.

    Returns:
        The size, infinite if the parameters absorb the fault or if it would have to exceed
        the recorded effort, and the change of the parameters by a unit of it, (p,).
    """
    n_model = sums.n_columns - len(candidate.columns)
    limits = []
    for column in range(n_model, n_model + candidate.fault.n_sizes):
        limits.append(_smallest_of_column(stage, candidate, sums, trials, column))
    return max(limits, key=lambda limit: limit[0])


def _smallest_of_column(
    stage: Stage, candidate: Candidate, sums: BlockSums, trials: int, column: int
) -> tuple[float, FloatArray]:
    """Return the smallest noticed size whose effect is a column, and what absorbs it."""
    model = list(range(sums.n_columns - len(candidate.columns)))
    scope = stage.scope(candidate.logs)
    before = stage.baseline.validation()
    faulty = cross_validate(_with_effort(sums, model, column), model, weights=before.weights)
    both = _products(sums, before.coefficients, faulty.coefficients, column)
    count = np.maximum(sums.n_valid[scope].sum(axis=0), 1)
    visible = np.sqrt(faulty.squares[scope].sum(axis=0) / count)
    whole = np.sqrt(sums.grams[scope][:, :, column, column].sum(axis=0) / count)
    if visible.max() < MIN_VISIBLE_FRACTION * max(float(whole.max()), TINY):
        return np.inf, faulty.whole
    effort = np.sqrt(np.maximum(stage.baseline.sums.effort_power, TINY))
    material = MATERIAL_EFFORT_CHANGE / max(float((visible / effort).max()), TINY)
    unit = candidate.fault.unit_at(stage.evidence, candidate.place)
    largest = min(1 / float((whole / effort).max()), MAX_LIMITS.get(unit, np.inf))
    if material > largest:
        return np.inf, faulty.whole
    after = cross_validate(sums, range(sums.n_columns), weights=before.weights)
    wanted = normal_quantile(NOTICED_PROBABILITY)
    std = float(size_errors(sums, after, sums.n_columns - column)[0])
    material += wanted * std  # the size that is estimated has to be material
    by_size = max(material, _noticed_by_size(sums, after, column, trials, std))
    largest = min(largest, by_size)
    counts = before.n_valid >= MIN_BLOCK_EQUATIONS
    floor = stage.baseline.sums.floor + TINY
    size = material
    for _ in range(SIZE_STEPS):
        squares = before.squares + 2 * size * both + size**2 * faulty.squares
        gain = 0.5 * np.log((np.maximum(squares, 0.0) + floor) / (after.squares + floor))
        rows = np.maximum(counts.sum(axis=1), 1)
        blocks = np.where(counts, gain, 0.0).sum(axis=1) / rows
        blocks = np.where(counts.any(axis=1), blocks, np.nan)
        _, t, n = student_t(blocks[scope], stage.block_log[scope])
        limit = threshold(trials, n)
        if not np.isfinite(limit):
            break
        if t > limit + wanted:
            return float(size), faulty.whole
        size *= SIZE_RATIO
        if size > largest:
            break
    return (by_size if by_size <= largest else np.inf), faulty.whole


def _noticed_by_size(
    sums: BlockSums, after: CrossValidation, column: int, trials: int, std: float
) -> float:
    """Return the size that the test of sizes notices in 95 of 100 cases; infinite if none.

    Args:
        sums: With the columns of the fault last.
        after: Cross-validation with them.
        column: Number of the column.
        trials: Number of tests.
        std: Standard error of the size.
    """
    limit = threshold(trials, effective_blocks(sums, after.weights, column))
    return (limit + normal_quantile(NOTICED_PROBABILITY)) * std


def _with_effort(sums: BlockSums, model: Sequence[int], column: int) -> BlockSums:
    """Return the sums of some columns with another one in the place of the effort."""
    return BlockSums(
        grams=select_columns(sums.grams, [*model, column]),
        n_valid=sums.n_valid,
        log=sums.log,
        n_parameters=sums.n_parameters,
    )


def _products(
    sums: BlockSums, coefficients: FloatArray, faulty: FloatArray, column: int
) -> FloatArray:
    """Return products of the left-out residuals of effort and fault, by block and row, (b, r)."""
    n_blocks = len(sums.grams)
    n_model = coefficients.shape[1]
    first = np.zeros((n_blocks, sums.n_columns + 1))
    first[:, :n_model] = -coefficients
    first[:, -1] = 1.0
    second = np.zeros((n_blocks, sums.n_columns + 1))
    second[:, :n_model] = -faulty
    second[:, column] = 1.0
    return np.asarray(np.einsum("bi,brij,bj->br", first, sums.grams, second, optimize=True))


def detection_limits(screen: Screen, trials: int) -> tuple[Limit, ...]:
    """Return the smallest noticed size of the faults that `not noticed` lists, at every place."""
    stage = screen.stage
    chosen = []
    for candidate in screen.candidates:
        everywhere = len(candidate.logs) == len(stage.labels)
        if not candidate.fault.unnoticed:
            continue
        if everywhere or candidate.fault.name == PAYLOAD_FAULT:
            chosen.append(candidate)
    limits = []
    names = stage.evidence.base.names
    for candidate, sums in screen.sums(chosen):
        size, shift = smallest_noticed(stage, candidate, sums, TESTS_PER_FAULT * trials)
        if candidate.fault.name == EFFORT_SCALE and size < 1:
            size = size / (1 - size)  # a fraction of the recorded effort, which is scaled itself
        absorbed: tuple[str, ...] = ()
        if not np.isfinite(size):
            weight = (
                np.abs(shift[: len(names)])
                * np.sqrt(np.maximum(np.diagonal(sums.total, axis1=1, axis2=2).sum(axis=0), 0.0))[
                    : len(names)
                ]
            )
            order = np.argsort(-weight)[:3]
            absorbed = tuple(names[k] for k in order if weight[k] > 0.1 * weight.max(initial=TINY))
        limits.append(
            Limit(
                name=candidate.fault.name,
                place=candidate.place,
                unit=candidate.fault.unit_at(stage.evidence, candidate.place),
                size=size,
                instead=absorbed,
            )
        )
    return tuple(limits)


def limits_notice(
    limits: Sequence[Limit],
    faults: Sequence[Fault] = (),
    named: Collection[str] = (),
    unnoticed: Sequence[str] = (),
) -> list[Notice]:
    """Say what may have stayed unnoticed: of each fault the place where it is worst seen.

    Args:
        limits: The smallest noticed size of each fault at each place.
        faults: All faults that were tried.
        named: Faults that the logs did show; nothing is said of them.
        unnoticed: Faults without a size that the logs would not show, in words.
    """
    worst: dict[str, Limit] = {}
    for limit in limits:
        if limit.name == "effort delay" and limit.place != ALL_MOTORS:
            continue
        before = worst.get(limit.name)
        if before is None or limit.size > before.size:
            worst[limit.name] = limit
    words = ["one factor on all efforts"]
    numbers = {}
    for fault in faults:
        if fault.name not in worst or fault.name in named:
            continue
        limit = worst[fault.name]
        what = fault.unnoticed
        if not np.isfinite(limit.size):
            words.append(what)
            continue
        size, unit = describe(limit.size, limit.unit)
        rounded = float(f"{size:.2g}")
        words.append(f"{what} below {rounded:g} {unit}")
        numbers[fault.name] = limit.size
    words += [f"that {text}" for text in unnoticed]
    notice = Notice(
        rule="not noticed",
        level="info",
        text=f"these logs may not show: {'; '.join(words)}",
        numbers=numbers,
    )
    return [notice]
