"""What `ok` cannot see: the smallest faults that these logs would have shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
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
    block_labels,
    cross_validate,
    select_columns,
)
from gough.verdict.explanation import Candidate
from gough.verdict.faults import (
    ALL_MOTORS,
    CLOCK_FAULT,
    EFFORT_SCALE,
    PAYLOAD_FAULT,
    Fault,
)
from gough.verdict.rules import UNEXPLAINED_WARNING
from gough.verdict.screen import Screen
from gough.verdict.stage import Stage

NOTICED_PROBABILITY = 0.95
# The size that the calculation gives is enlarged by this factor: other
# explanations compete, and the effect of a large fault is less than its
# derivative says. Tuned on five scenes of benchmarks/verdict.py, where
# 165 of 176 faults are then noticed at their limit (docs/diagnosis.md).
LIMIT_MARGIN = 1.3
# Fraction of the error above noise that a fault has to explain to be
# named as its cause.
EXPLAINED_FRACTION = 0.8
# of the search for the smallest size, each 1.25 times the one before
SIZE_STEPS = 60
SIZE_RATIO = 1.25
# Larger sizes are not described by a derivative, by unit of the size.
MAX_LIMITS = {"1": 0.5, "rad": 0.5}
# The same for an error of the clock: accelerations follow its square.
MAX_CLOCK_LIMIT = 0.2
# of a fault's effort that the parameters do not absorb
MIN_VISIBLE_FRACTION = 1e-4


def smallest_noticed(
    stage: Stage, candidate: Candidate, sums: BlockSums, trials: int, noise: FloatArray
) -> tuple[float, FloatArray]:
    """Return the size that would be noticed in 95 of 100 cases, and what absorbs it.

    A fault of size s adds s S to the recorded effort. The model with
    the fault predicts the blocks as well as before; the error of the
    model without it is a known quadratic in s. The size is the smallest
    that is noticed with either sign, because an error of the model may
    look like the fault with one of them; of a fault with several sizes,
    as a tilt about two axes, that of the size which is seen worst.

    Args:
        stage: The logs.
        candidate: The fault.
        sums: With the columns of the fault last.
        trials: Number of tests that the fault has to be the best of.
        noise: Error of each row that noise causes, over its rms effort,
            (r,).

    Returns:
        The size, infinite if the parameters absorb the fault or if it
        would have to exceed the recorded effort, and the change of the
        parameters by a unit of it, (p,).
    """
    n_model = sums.n_columns - len(candidate.columns)
    limits = []
    for column in range(n_model, n_model + candidate.fault.n_sizes):
        limits.append(_smallest_of_column(stage, candidate, sums, trials, noise, column))
    return max(limits, key=lambda limit: limit[0])


def _smallest_of_column(
    stage: Stage,
    candidate: Candidate,
    sums: BlockSums,
    trials: int,
    noise: FloatArray,
    column: int,
) -> tuple[float, FloatArray]:
    """Return the smallest noticed size whose effect is a column, and what absorbs it."""
    model = list(range(sums.n_columns - len(candidate.columns)))
    scope = stage.scope(candidate.logs)
    before = stage.baseline.validation()
    unexplained = np.sqrt(np.maximum(stage.row_errors(scope) ** 2 - noise**2, 0.0))
    faulty = cross_validate(_with_effort(sums, model, column), model, weights=before.weights)
    count = np.maximum(sums.n_valid[scope].sum(axis=0), 1)
    visible = np.sqrt(faulty.squares[scope].sum(axis=0) / count)
    whole = np.sqrt(sums.grams[scope][:, :, column, column].sum(axis=0) / count)
    if visible.max() < MIN_VISIBLE_FRACTION * max(float(whole.max()), TINY):
        return np.inf, faulty.whole
    effort = np.sqrt(np.maximum(stage.baseline.sums.effort_power, TINY))
    material = MATERIAL_EFFORT_CHANGE / max(float((visible / effort).max()), TINY)
    unit = candidate.fault.unit_at(stage.evidence, candidate.place)
    largest = min(1 / float((whole / effort).max()), MAX_LIMITS.get(unit, np.inf))
    if candidate.fault.name == CLOCK_FAULT:
        largest = min(largest, MAX_CLOCK_LIMIT)
    after = cross_validate(sums, range(sums.n_columns), weights=before.weights)
    std = float(size_errors(sums, after, sums.n_columns - column)[0])
    effect = _Effect(
        before=before,
        after=after,
        both=_products(sums, before.coefficients, faulty.coefficients, column),
        faulty=faulty.squares,
        scope=scope,
        power=stage.baseline.sums.effort_power,
        floor=stage.baseline.sums.floor,
        std=std,
        by_size=_noticed_by_size(sums, after, column, trials, std),
    )
    signs = (1,) if candidate.fault.name == PAYLOAD_FAULT or candidate.fault.positive else (1, -1)
    size = material
    for _ in range(SIZE_STEPS):
        if size > largest:
            break
        if all(
            effect.is_noticed(sign * size, stage.block_log, trials, unexplained) for sign in signs
        ):
            size *= LIMIT_MARGIN
            return float(size), faulty.whole
        size *= SIZE_RATIO
    return np.inf, faulty.whole


@dataclass(frozen=True, kw_only=True, eq=False)
class _Effect:
    """What a fault of unit size adds to the errors on blocks left out."""

    before: CrossValidation  # of the model without the fault
    after: CrossValidation  # of the model with it
    both: FloatArray  # products of the residuals of effort and fault, (b, r)
    faulty: FloatArray  # squares of the residual of the fault, (b, r)
    scope: BoolArray  # blocks of the logs it is in, (b,)
    power: FloatArray  # mean square of the effort of each row, (r,)
    floor: FloatArray  # squared error that is rounding, (b, r)
    std: float  # standard error of the size
    by_size: float  # size that the test of sizes notices in 95 of 100 cases

    def is_noticed(
        self, size: float, block_log: IntArray, trials: int, unexplained: FloatArray
    ) -> bool:
        """Return whether the verdict notices a size in 95 of 100 cases.

        A size that is estimated too small by the normal deviate of 95 %
        has to matter, has to explain most of the error, and has to pass
        the test of the gain or of the size. Or its error alone is too
        large for a model that is `ok`.
        """
        wanted = normal_quantile(NOTICED_PROBABILITY)
        smaller = np.sign(size) * max(abs(size) - wanted * self.std, 0.0)
        count = np.maximum(self.before.n_valid[self.scope].sum(axis=0), 1)
        difference = self._squares(smaller) - self.after.squares
        explained = np.maximum(difference[self.scope].sum(axis=0), 0.0) / count / self.power
        added = self.faulty[self.scope].sum(axis=0) * smaller**2 / count / self.power
        if added.max() > UNEXPLAINED_WARNING**2:
            return True
        remaining = np.where(unexplained > MATERIAL_EFFORT_CHANGE, unexplained, 0.0) ** 2
        share = EXPLAINED_FRACTION / (1 - EXPLAINED_FRACTION)
        material = explained >= MATERIAL_EFFORT_CHANGE**2
        enough = (explained >= share * remaining)[material].any()
        together = explained.sum() >= share * remaining.sum()
        if not material.any() or not (enough or together):
            return False
        return abs(size) >= self.by_size or self._gain_is_noticed(size, block_log, trials, wanted)

    def _squares(self, size: float) -> FloatArray:
        """Return squared errors of the model without the fault, of logs with it, (b, r)."""
        squares = self.before.squares + 2 * size * self.both + size**2 * self.faulty
        return np.maximum(squares, 0.0)

    def _gain_is_noticed(
        self, size: float, block_log: IntArray, trials: int, wanted: float
    ) -> bool:
        """Return whether the gain of correcting a size passes the test by some normal deviate."""
        counts = self.before.n_valid >= MIN_BLOCK_EQUATIONS
        floor = self.floor + TINY
        gain = 0.5 * np.log((self._squares(size) + floor) / (self.after.squares + floor))
        rows = np.maximum(counts.sum(axis=1), 1)
        blocks = np.where(counts, gain, 0.0).sum(axis=1) / rows
        blocks = np.where(counts.any(axis=1), blocks, np.nan)
        _, t, n = student_t(blocks[self.scope], block_log[self.scope])
        limit = threshold(trials, n)
        return bool(np.isfinite(limit) and t > limit + wanted)


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


def detection_limits(
    screen: Screen, trials: int, noise: FloatArray | None = None
) -> tuple[Limit, ...]:
    """Return the smallest noticed size of the faults that `not noticed` lists, at every place.

    With a fault the residual is correlated like the motion, and blocks
    are as long as that asks for.

    Args:
        screen: The logs, with all candidates.
        trials: Number of explanations that are tried if a fault is
            visible.
        noise: Error of each row that noise causes, over its rms effort,
            (r,); all of it by default.
    """
    labels = block_labels(screen.stage.original.logs, of_motion=True)
    stage = Stage(screen.stage.original, labels, screen.stage.accepted, screen.stage.evidence)
    listed = [fault for fault in screen.faults if fault.unnoticed]
    screen = Screen(stage, listed, screen.single_logs, screen)
    if noise is None:
        noise = np.full(len(stage.evidence.model.rows), np.inf)
    chosen = []
    for candidate in screen.candidates:
        everywhere = len(candidate.logs) == len(stage.labels)
        if everywhere or candidate.fault.name == PAYLOAD_FAULT:
            chosen.append(candidate)
    limits = []
    names = stage.evidence.base.names
    for candidate, sums in screen.sums(chosen):
        n_tests = TESTS_PER_FAULT * trials
        size, shift = smallest_noticed(stage, candidate, sums, n_tests, noise)
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
        unnoticed: Faults without a size that the logs would not show,
            in words.
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
