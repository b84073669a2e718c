"""The one rule by which an explanation of the data is accepted.

The gain of a block is the mean over joints of log(error without / error
with the explanation), both of the recorded effort on the same
equations, fitted to all other blocks. An explanation is accepted if

- the mean gain exceeds the Student quantile times its standard error over the blocks of its
  scope, or over all blocks, or its size does so, corrected for everything that was tried
  (family-wise 1 %),
- it is material: it changes some effort by at least 0.5 % of its rms, or a parameter by more
  than its standard error and 1 %, and takes away an error of 0.5 % of some effort,
- it also lowers the error of whole logs (with one log: halves) that it was not fitted to,
- outside its scope nothing becomes worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.fitting.acceptance import required_t
from gough.fitting.cross_validation import solve_normal_equations
from gough.verdict.blocks import (
    MIN_BLOCK_EQUATIONS,
    BlockSums,
    CrossValidation,
    cross_validate,
    fold_prediction_variance,
    row_weights,
)

MIN_BLOCKS = 6  # of a scope, below which nothing can be accepted
TESTS_PER_FAULT = 2  # of its gain and of its size
MIN_DISCRETE_BLOCKS = 10  # for a sign, a channel, a unit
MATERIAL_EFFORT_CHANGE = 0.005  # change of an effort over its rms
MATERIAL_PARAMETER = 0.01  # relative change of a parameter
# mean gain outside the scope, or of one log: not worse by 1 %
OUTSIDE_TOLERANCE = -0.01
# Standard errors of a size that explain why a log which was left out is
# predicted worse with it.
LOSS_QUANTILE = 3.0
# Student t of paired differences below which two explanations predict
# alike.
TIE_T = 3.0
MAX_NEIGHBOUR_CORRELATION = 0.9  # beyond it a variance would be unbounded
# gains that differ by less are of the same explanation in two forms
EQUAL_GAIN = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Gain:
    """How much better an explanation predicts blocks that it was not fitted to."""

    # log(error without / error with) by block, NaN without equations,
    # (b,)
    blocks: FloatArray
    scope: BoolArray  # blocks that the explanation is about, (b,)
    mean: float  # over the scope
    t: float  # mean over its standard error
    threshold: float  # Student quantile that t has to exceed
    # the same of whole logs or halves, left out of the fit; empty if
    # blocks are not better
    logs: FloatArray
    # mean gain of the blocks outside the scope; 0 if there are none
    outside: float
    # rms over joints of the relative error without the explanation, in
    # the scope
    before: float
    after: float  # and with it
    # largest of the joints: error that it takes away, over the rms
    # effort
    explained: float
    size_t: float = 0.0  # size over its standard error
    # Student quantile that this may exceed instead
    size_threshold: float = float("inf")
    # it changes an effort or a parameter enough to matter
    material: bool = True
    # error that it has to take away
    least_explained: float = MATERIAL_EFFORT_CHANGE

    @property
    def significant(self) -> bool:
        """Whether it matters and predicts better beyond chance, and nothing gets worse."""
        return self.material and self.beyond_chance and self.better

    @property
    def beyond_chance(self) -> bool:
        """Whether the gain of blocks, or the size, is larger than chance makes it."""
        return bool(self.t > self.threshold or self.size_t > self.size_threshold)

    @property
    def better(self) -> bool:
        """Whether it predicts better by what matters, also whole logs, and nothing gets worse."""
        no_log_worse = len(self.logs) < 2 or self.logs.min() > OUTSIDE_TOLERANCE
        return self.better_on_average and bool(no_log_worse)

    @property
    def better_on_average(self) -> bool:
        """The same without looking at single logs: it predicts better, also whole logs.

        A mean of logarithms may rise because one joint is predicted
        much better and the others worse; the error over all joints has
        to fall, too.
        """
        return self.blocks_better and len(self.logs) > 0 and bool(self.logs.mean() > 0)

    @property
    def blocks_better(self) -> bool:
        """The same without whole logs: blocks are predicted better, none outside gets worse."""
        return bool(
            self.mean > 0
            and self.after < self.before
            and self.explained >= self.least_explained
            and self.outside > OUTSIDE_TOLERANCE
        )

    @property
    def total(self) -> float:
        """Sum of the gains of all blocks, for comparing explanations of different scopes."""
        return float(np.nansum(self.blocks))


def no_gain(n_blocks: int) -> Gain:
    """Return the gain of nothing."""
    return Gain(
        blocks=np.zeros(n_blocks),
        scope=np.ones(n_blocks, bool),
        mean=0.0,
        t=0.0,
        threshold=np.inf,
        logs=np.zeros(1),
        outside=0.0,
        before=np.nan,
        after=np.nan,
        explained=0.0,
    )


def log_gain(before: CrossValidation, after: CrossValidation, floor: FloatArray) -> FloatArray:
    """Return the mean over rows of log(error before / error after) by fold, (f,).

    Rows with too few equations in a fold do not count; a fold without
    any row is NaN.

    Args:
        before: Errors without the explanation.
        after: Errors with it, in the units of the recorded effort.
        floor: Squared error that is rounding, (f, r).
    """
    counts = np.minimum(before.n_valid, after.n_valid) >= MIN_BLOCK_EQUATIONS
    ratio = (before.squares + floor + TINY) / (after.squares + floor + TINY)
    gain = np.where(counts, 0.5 * np.log(ratio), 0.0).sum(axis=1)
    rows = counts.sum(axis=1)
    return np.where(rows > 0, gain / np.maximum(rows, 1), np.nan)


def student_t(gains: FloatArray, logs: IntArray) -> tuple[float, float, int]:
    """Return mean, mean over standard error, and number of the gains of blocks, (b,).

    Neighbours in a log that are alike count less: with their
    correlation rho > 0 the variance of the mean is (1 + rho) / (1 -
    rho) times that of independent blocks. It is the correlation of
    deviations from the mean of their log: logs that gain differently
    are not neighbours that are alike.

    Args:
        gains: NaN where a block has no equations.
        logs: Log of each block.
    """
    used = np.isfinite(gains)
    gains = gains[used]
    logs = logs[used]
    n = len(gains)
    if n < 2:
        return 0.0, 0.0, n
    mean = float(gains.mean())
    deviation = gains - mean
    variance = float(deviation @ deviation) / (n - 1)
    error = np.sqrt(variance * neighbour_inflation(gains, logs) / n)
    return mean, mean / max(float(error), TINY), n


def neighbour_inflation(values: FloatArray, logs: IntArray) -> float:
    """Return by how much correlated neighbours widen the variance of a mean over blocks, (b,).

    (1 + rho) / (1 - rho), rho the correlation of neighbours in a log;
    one if it is negative.
    """
    within = values.copy()
    for log in np.unique(logs):
        within[logs == log] -= values[logs == log].mean()
    neighbours = logs[1:] == logs[:-1]
    products = (within[1:] * within[:-1])[neighbours]
    power = float(within @ within) / max(len(values) - 1, 1)
    rho = 0.0
    if neighbours.any() and power > 0:
        rho = float(products.mean()) / power
    rho = float(np.clip(rho, 0.0, MAX_NEIGHBOUR_CORRELATION))
    return (1 + rho) / (1 - rho)


def size_errors(sums: BlockSums, validation: CrossValidation, n_sizes: int) -> FloatArray:
    """Return the standard errors of the last coefficients by a jackknife over all blocks, (k,).

    Blocks without the fault count too: they determine the parameters
    beside it. Neighbours whose influences are alike widen the standard
    errors.

    Args:
        sums: With the columns of the fault last.
        validation: Of these sums over single blocks.
        n_sizes: Number of sizes.
    """
    without = validation.coefficients[:, -n_sizes:]
    errors = jackknife_error(without)
    for k in range(n_sizes):
        errors[k] *= np.sqrt(neighbour_inflation(without[:, k], sums.log))
    return errors


def effective_blocks(sums: BlockSums, weights: FloatArray, column: int) -> float:
    """Return how many equally informative blocks determine the coefficient of a column.

    (sum I)^2 / sum I^2, I the information of a block: the squares of
    what the other columns leave of this one. A size that rests on two
    of thirty blocks has the degrees of freedom of two.

    Args:
        sums: The equations.
        weights: Of the rows, (r,).
        column: Number of the column.
    """
    others = [k for k in range(sums.n_columns) if k != column]
    total = np.tensordot(weights, sums.total, axes=1)
    chosen = [*others, column]
    by_others = solve_normal_equations(total[np.ix_(chosen, chosen)])
    vector = np.zeros(sums.n_columns + 1)
    vector[others] = -by_others
    vector[column] = 1.0
    information = sums.squares(np.tile(vector, (len(sums.grams), 1))) @ weights
    return float(information.sum() ** 2 / max(float(information @ information), TINY))


def with_size_test(
    gain: Gain,
    sums: BlockSums,
    validation: CrossValidation,
    size: FloatArray,
    std: FloatArray,
    n_decisive: int,
    trials: int,
) -> Gain:
    """Return a gain with the test of its size: where gains are uneven, sizes need not be.

    A fault that shows only while a joint accelerates has a large gain
    in a few blocks and none in others, but the same size in all. The
    best of the decisive sizes counts.

    Args:
        gain: Of the explanation.
        sums: With the columns of the fault last.
        validation: Of these sums over single blocks.
        size: Of the fault, (k,).
        std: Standard errors of the size, (k,).
        n_decisive: First sizes, one of which has to be determined.
        trials: Number of explanations that were tried.
    """
    first = sums.n_columns - len(size)
    tests = []
    for k in range(min(n_decisive, len(size))):
        n_blocks = effective_blocks(sums, validation.weights, first + k)
        limit = threshold(trials * n_decisive, n_blocks)
        t = float(abs(size[k]) / max(float(std[k]), TINY))
        tests.append((t / limit, t, limit))
    _, t, limit = max(tests)
    return replace(gain, size_t=t, size_threshold=limit)


def threshold(trials: int, n_blocks: float) -> float:
    """Return the Student quantile for so many trials and blocks; infinite below `MIN_BLOCKS`."""
    if n_blocks < MIN_BLOCKS:
        return float("inf")
    return required_t(trials, n_blocks)


def row_errors(validation: CrossValidation, power: FloatArray, folds: BoolArray) -> FloatArray:
    """Return the rms error of each row over its effort on some folds, (r,).

    Args:
        validation: Errors by fold and row.
        power: Mean square of the effort of each row, (r,).
        folds: Those that count, (f,).
    """
    n_valid = np.maximum(validation.n_valid[folds].sum(axis=0), 1)
    squares = validation.squares[folds].sum(axis=0) / n_valid
    return np.asarray(np.sqrt(squares / np.maximum(power, TINY)))


def relative_error(validation: CrossValidation, power: FloatArray, folds: BoolArray) -> float:
    """Return the rms over rows of error over effort on some folds; see `row_errors`."""
    return float(np.sqrt(np.mean(row_errors(validation, power, folds) ** 2)))


def explained_error(
    before: CrossValidation, after: CrossValidation, power: FloatArray, folds: BoolArray
) -> float:
    """Return the rms error that an explanation takes away from some row, over its effort.

    The root of the largest difference of mean squares; see
    `row_errors`.
    """
    fall = row_errors(before, power, folds) ** 2 - row_errors(after, power, folds) ** 2
    return float(np.sqrt(max(float(fall.max()), 0.0)))


def log_folds(log: IntArray, scope: BoolArray) -> IntArray:
    """Return folds of whole logs of a scope, or of two halves if it is one log, (b,).

    Blocks outside the scope are a fold of their own, the last one.
    """
    inside = np.unique(log[scope])
    folds = np.full(len(log), 0)
    if len(inside) > 1:
        for k, number in enumerate(inside):
            folds[scope & (log == number)] = k
        n_folds = len(inside)
    else:
        blocks = np.flatnonzero(scope)
        folds[blocks] = np.arange(len(blocks)) * 2 // max(len(blocks), 1)
        n_folds = 2
    folds[~scope] = n_folds
    return folds


def fold_floor(floor: FloatArray, folds: IntArray) -> FloatArray:
    """Return the sums of a floor (b, r) over folds, (f, r)."""
    summed = np.zeros((int(folds.max()) + 1, floor.shape[1]))
    np.add.at(summed, folds, floor)
    return summed


class Baseline:
    """The model without any further explanation, and its errors."""

    def __init__(self, sums: BlockSums, columns: Sequence[int]) -> None:
        self.sums = sums
        self.columns = tuple(columns)
        self._validations: dict[bytes, CrossValidation] = {}
        self._variances: dict[tuple[bytes, int], FloatArray] = {}

    def validation(self, folds: IntArray | None = None) -> CrossValidation:
        """Return the errors by block, or by folds of blocks, (b,)."""
        if folds is None:
            folds = np.arange(len(self.sums.grams))
        key = folds.tobytes()
        if key not in self._validations:
            self._validations[key] = cross_validate(self.sums, self.columns, folds=folds)
        return self._validations[key]

    def prediction_variance(self, folds: IntArray, fold: int) -> FloatArray:
        """Return the sum of the variance of predicting one of some folds from the others, (r,)."""
        key = (folds.tobytes(), fold)
        if key not in self._variances:
            weights = self.validation().weights
            self._variances[key] = fold_prediction_variance(
                self.sums, self.columns, folds == fold, weights
            )
        return self._variances[key]

    def gain(
        self,
        sums: BlockSums,
        scope: BoolArray,
        n_tests: int,
        *,
        effort_scale: FloatArray | None = None,
        validation: CrossValidation | None = None,
        least_explained: float = MATERIAL_EFFORT_CHANGE,
    ) -> Gain:
        """Return the gain of an explanation, on blocks and on whole logs.

        Args:
            sums: With the explanation: other columns, or logs changed
                by it.
            scope: Blocks that the explanation is about, (b,).
            n_tests: Number of tests that it is the best of.
            effort_scale: Factor from the effort after undoing the
                explanation to the recorded one, by block and row, (b,
                r): errors are compared in the unit of the latter.
            validation: Cross-validation of the sums over single blocks,
                if it is known.
            least_explained: Error that the explanation has to take
                away, over the rms effort.
        """
        if validation is None:
            validation = cross_validate(sums, range(sums.n_columns))
        gain = self.block_gain(
            sums, scope, n_tests, effort_scale=effort_scale, validation=validation
        )
        gain = replace(gain, least_explained=least_explained)
        return self.with_whole_logs(gain, sums, effort_scale=effort_scale, validation=validation)

    def block_gain(
        self,
        sums: BlockSums,
        scope: BoolArray,
        n_tests: int,
        *,
        effort_scale: FloatArray | None = None,
        validation: CrossValidation,
    ) -> Gain:
        """Return the gain of an explanation on single blocks; arguments as of `gain`."""
        scale = np.ones(sums.n_valid.shape) if effort_scale is None else effort_scale
        before = self.validation()
        after = _rescaled(validation, scale)
        gains = log_gain(before, after, self.sums.floor)
        mean, t, limit = self._tested(gains, scope, n_tests)
        outside = gains[~scope]
        outside = outside[np.isfinite(outside)]
        power = self.sums.effort_power
        return Gain(
            blocks=gains,
            scope=scope,
            mean=mean,
            t=t,
            threshold=limit,
            logs=np.zeros(0),
            outside=float(outside.mean()) if len(outside) else 0.0,
            before=relative_error(before, power, scope),
            after=relative_error(after, power, scope),
            explained=explained_error(before, after, power, scope),
        )

    def with_whole_logs(
        self,
        gain: Gain,
        sums: BlockSums,
        *,
        effort_scale: FloatArray | None = None,
        validation: CrossValidation | None = None,
    ) -> Gain:
        """Return a gain of blocks with that of whole logs, or halves, left out of the fit.

        They are not compared if blocks are not predicted better.
        Arguments as of `gain`.
        """
        if not gain.blocks_better:
            return gain
        columns = range(sums.n_columns)
        weights = row_weights(sums, columns)[0] if validation is None else validation.weights
        scale = np.ones(sums.n_valid.shape) if effort_scale is None else effort_scale
        folds = log_folds(self.sums.log, gain.scope)
        before = self.validation(folds)
        fold_scale = np.ones((int(folds.max()) + 1, scale.shape[1]))
        fold_scale[folds] = scale  # the same in all blocks of a fold
        after = _rescaled(cross_validate(sums, columns, folds=folds, weights=weights), fold_scale)
        floor = fold_floor(self.sums.floor, folds)
        gains = log_gain(before, after, floor)
        inside = np.arange(len(gains) - int((~gain.scope).any()))  # the last fold is outside
        variance = np.zeros(before.squares.shape)
        for fold in np.flatnonzero(gains[inside] < 0):
            with_fault = fold_prediction_variance(sums, columns, folds == fold, weights)
            without = self.prediction_variance(folds, int(fold))
            variance[fold] = with_fault * fold_scale[fold] ** 2 - without
        gains = _without_loss_by_variance(gains, before, after, variance, floor)[inside]
        return replace(gain, logs=np.asarray(gains[np.isfinite(gains)]))

    def _tested(
        self, gains: FloatArray, scope: BoolArray, trials: int
    ) -> tuple[float, float, float]:
        """Return mean and Student t of gains, and the threshold of t.

        A fault in a part of the logs is tested on the blocks of that
        part and on all blocks, because it spoils the prediction of the
        others too: two trials, of which the better one counts.
        """
        log = self.sums.log
        if scope.all():
            mean, t, n = student_t(gains, log)
            return mean, t, threshold(trials, n)
        tests = []
        for blocks in (scope, np.ones_like(scope)):
            mean, t, n = student_t(gains[blocks], log[blocks])
            limit = threshold(2 * trials, n)
            tests.append((t / limit, mean, t, limit))
        return max(tests)[1:]


def _without_loss_by_variance(
    gain: FloatArray,
    before: CrossValidation,
    after: CrossValidation,
    variance: FloatArray,
    floor: FloatArray,
) -> FloatArray:
    """Return gains of logs (f,) without losses that the standard errors explain.

    Logs that hardly determine a size predict the others worse with it
    than without it, although it is true. Such a loss counts as no gain.

    Args:
        gain: Of each log, left out of the fit.
        before: Errors without the explanation.
        after: Errors with it.
        variance: What the sums of squares are higher by on the average
            with the explanation, because its size has a standard error,
            (f, r).
        floor: Squared error that is rounding, (f, r).
    """
    explained = LOSS_QUANTILE**2 * np.maximum(variance, 0.0)
    least = np.minimum(after.squares, before.squares)
    squares = np.maximum(after.squares - explained, least)
    possible = log_gain(before, replace(after, squares=squares), floor)
    return np.where(gain < 0, np.minimum(possible, 0.0), gain)


def _rescaled(validation: CrossValidation, scale: FloatArray) -> CrossValidation:
    """Return errors in the unit of the recorded effort, by factors (f, r)."""
    return CrossValidation(
        squares=validation.squares * scale**2,
        n_valid=validation.n_valid,
        coefficients=validation.coefficients,
        whole=validation.whole,
        weights=validation.weights,
    )


def jackknife_error(without: FloatArray) -> FloatArray:
    """Return standard errors from estimates without each of n blocks, (n, k) -> (k,)."""
    n = len(without)
    return np.asarray(np.sqrt((n - 1) * without.var(axis=0)))


def tied(best: Gain, other: Gain, log: IntArray) -> bool:
    """Return whether two explanations predict alike, block by block."""
    difference = best.blocks - other.blocks
    if np.nanmax(np.abs(difference), initial=0.0) < EQUAL_GAIN:
        return True
    return bool(abs(student_t(difference, log)[1]) < TIE_T)


def is_material(
    change: FloatArray,
    power: FloatArray,
    shift: FloatArray,
    values: FloatArray,
    errors: FloatArray,
) -> bool:
    """Return whether an explanation changes an effort or a parameter enough to matter.

    Args:
        change: Mean square of the change of each row's prediction,
            (r,).
        power: Mean square of each row's effort, (r,).
        shift: Change of the parameters, (p,).
        values: Of the parameters, (p,).
        errors: Standard errors of them, (p,).
    """
    effort = np.sqrt(change / np.maximum(power, TINY))
    if effort.max(initial=0.0) >= MATERIAL_EFFORT_CHANGE:
        return True
    moved = np.abs(shift) > np.maximum(errors, MATERIAL_PARAMETER * np.abs(values))
    return bool((moved & (np.abs(values) > errors)).any())


def changes_enough(
    baseline: Baseline, sums: BlockSums, whole: FloatArray, *, efforts_only: bool = False
) -> bool:
    """Return whether an explanation changes efforts or parameters enough to matter.

    Args:
        baseline: The model without it.
        sums: Of the model with it, whose columns are last.
        whole: Coefficients of all columns.
        efforts_only: A change of the parameters does not count: what a
            robot file lacks has to change an effort.
    """
    before = baseline.validation()
    change = np.zeros(sums.n_columns + 1)
    change[: len(whole)] = whole
    change[: len(before.whole)] -= before.whole
    n_valid = np.maximum(sums.n_valid.sum(axis=0), 1)
    power = np.einsum("i,rij,j->r", change, sums.total, change) / n_valid
    p = sums.n_parameters
    return is_material(
        power,
        sums.effort_power,
        change[:p] * (not efforts_only),
        before.whole[:p],
        jackknife_error(before.coefficients[:, :p]),
    )
