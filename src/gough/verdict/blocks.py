"""Blocks of logs on which explanations are compared, and cross-validation over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.fitting.cross_validation import UNIT_COLUMN_RIDGE, solve_normal_equations
from gough.verdict.fitted_log import FittedLog

# A block is at least so many correlation times of the gain long.
# Measured on a Delta and a five-bar with homing errors: neighbouring
# gains then have a correlation of -0.2 to 0.1, with one 0.2 to 0.35,
# with three -0.2.
BLOCK_CORRELATION_TIMES = 2.0
MAX_BLOCKS_PER_LOG = 24
MAX_VERDICT_BLOCKS = 48  # of all logs together
MIN_BLOCK_EQUATIONS = 5  # of a row, for its error in a block to count
# Errors below this fraction of a row's rms effort are rounding: no
# explanation improves on them.
ERROR_FLOOR = 1e-4
WEIGHT_ITERATIONS = 3  # of the row weights


def block_labels(logs: Sequence[FittedLog], *, of_motion: bool = False) -> list[IntArray]:
    """Return the block of each sample of the regressions, numbered over all logs, (t,) each.

    Where a motion repeats, errors of model and rounding repeat as well,
    and blocks of different periods would be the same data. A block is
    then an interval of the phase, over all periods together, whether
    they were averaged or not.

    Args:
        logs: The logs.
        of_motion: Blocks as long as a residual that is correlated like
            the motion asks for.
    """
    most = max(2, min(MAX_BLOCKS_PER_LOG, MAX_VERDICT_BLOCKS // len(logs)))
    labels = []
    first = 0
    for log in logs:
        n = len(log.regression)
        time = np.asarray(log.motion.time)
        duration = log.period or float(time[-1] - time[0])
        correlation_time = log.correlation_time
        if not of_motion:
            correlation_time = min(correlation_time, log.residual_correlation_time)
        shortest = BLOCK_CORRELATION_TIMES * correlation_time
        most_here = max(2, min(most, n // MIN_BLOCK_EQUATIONS))
        count = int(np.clip(duration / shortest, 2, most_here))
        if log.period is None:
            interval = np.arange(n) * count // max(n, 1)
        else:
            phase = (time[log.sample_numbers] - time[0]) / log.period % 1.0
            interval = (phase * count).astype(np.int64)
        label = np.unique(interval, return_inverse=True)[1]
        labels.append(first + label)
        first += int(label.max(initial=-1)) + 1
    return labels


def select_columns(grams: FloatArray, columns: Sequence[int]) -> FloatArray:
    """Return Gram matrices of some columns, in the given order, (..., k, k).

    Most often the first ones are those of the model, which are copied
    in one piece.
    """
    n_same = 0
    while n_same < len(columns) and columns[n_same] == n_same:
        n_same += 1
    others = list(columns[n_same:])
    selected = np.empty((*grams.shape[:-2], len(columns), len(columns)))
    selected[..., :n_same, :n_same] = grams[..., :n_same, :n_same]
    selected[..., :n_same, n_same:] = grams[..., :n_same, others]
    selected[..., n_same:, :] = grams[..., others, :][..., columns]
    return selected


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockSums:
    """Gram matrices of [W S y] by block and row: parameters, columns of faults, effort.

    Columns have numbers and no names, unlike those of
    `BlockStatistics`; see docs/decisions/008-sums-of-faults.md.
    """

    grams: FloatArray  # (b, r, c, c)
    n_valid: IntArray  # valid equations, (b, r)
    log: IntArray  # number of the log of each block, (b,)
    n_parameters: int  # columns that belong to every model

    @property
    def n_columns(self) -> int:
        """Columns beside the effort."""
        return int(self.grams.shape[-1]) - 1

    @cached_property
    def total(self) -> FloatArray:
        """Gram matrices of all blocks, (r, c, c)."""
        return np.asarray(self.grams.sum(axis=0))

    @cached_property
    def effort_power(self) -> FloatArray:
        """Mean square of the effort of each row, (r,). [row unit squared]"""
        return np.asarray(self.total[:, -1, -1] / np.maximum(self.n_valid.sum(axis=0), 1))

    @cached_property
    def floor(self) -> FloatArray:
        """Squared error that is rounding, by block and row, (b, r)."""
        return np.asarray(ERROR_FLOOR**2 * self.effort_power * self.n_valid)

    def chosen(self, columns: Sequence[int]) -> FloatArray:
        """Return the Gram matrices of some columns and the effort, (b, r, k + 1, k + 1)."""
        if list(columns) == list(range(self.n_columns)):
            return self.grams
        chosen = [*columns, self.n_columns]
        return select_columns(self.grams, chosen)

    def weighted(self, weights: FloatArray, columns: Sequence[int]) -> FloatArray:
        """Return the weighted sums over the rows of some columns and the effort, (b, k + 1, k + 1).

        Args:
            weights: Of the rows, (r,).
            columns: Numbers of the columns, (k,).
        """
        chosen = [*columns, self.n_columns]
        n_blocks, n_rows, width, _ = self.grams.shape
        if 2 * len(chosen) ** 2 < width**2:  # few columns: fewer numbers are added
            grams = self.chosen(columns)
            return np.asarray(
                (weights @ grams.reshape(n_blocks, n_rows, -1)).reshape(n_blocks, len(chosen), -1)
            )
        total = (weights @ self.grams.reshape(n_blocks, n_rows, -1)).reshape(n_blocks, width, width)
        return select_columns(total, chosen) if len(chosen) < width else total

    def with_logs(self, changed: Mapping[int, BlockSums], labels: Sequence[IntArray]) -> BlockSums:
        """Return the sums with those of some logs, by number, in the place of their blocks.

        Args:
            changed: Sums of single logs, whose blocks have the same
                numbers.
            labels: Block of each sample, (t,) of each log.
        """
        grams = self.grams.copy()
        n_valid = self.n_valid.copy()
        for number, sums in changed.items():
            blocks = np.unique(labels[number])
            grams[blocks] = sums.grams[blocks]
            n_valid[blocks] = sums.n_valid[blocks]
        return replace(self, grams=grams, n_valid=n_valid)

    def with_scaled_effort(self, row: int, blocks: BoolArray, factor: float) -> BlockSums:
        """Return the sums with the effort of a row multiplied by a factor in some blocks, (b,)."""
        grams = self.grams.copy()
        grams[blocks, row, -1, :] *= factor
        grams[blocks, row, :, -1] *= factor
        return replace(self, grams=grams)

    def squares(self, vectors: FloatArray) -> FloatArray:
        """Return v^T G v by block and row for a vector of each block, (b, c) -> (b, r)."""
        products = np.einsum("brcd,bd->brc", self.grams, vectors, optimize=True)
        squares = np.einsum("brc,bc->br", products, vectors, optimize=True)
        return np.asarray(np.maximum(squares, 0.0))


@one_blas_thread
def block_sums(
    logs: Sequence[FittedLog],
    labels: Sequence[IntArray],
    columns: Sequence[FloatArray] | None = None,
) -> BlockSums:
    """Return the sums of some logs.

    Args:
        logs: The logs.
        labels: Block of each sample, (t,) of each log; those of a log
            are in no other.
        columns: Columns of faults at the samples of the regressions,
            (t, r, k) of each log.
    """
    n_blocks = max(int(label.max()) for label in labels) + 1
    names = logs[0].fitted.base.names
    grams = None
    n_valid = np.zeros((n_blocks, len(logs[0].regression.rows)), np.int64)
    log_of_block = np.zeros(n_blocks, np.int64)
    for k, (log, label) in enumerate(zip(logs, labels)):
        regression = log.regression.select(names)
        parts = [regression.regressor]
        if columns is not None:
            parts.append(columns[k])
        parts.append(regression.effort[:, :, None])
        stacked = np.concatenate(parts, axis=2)
        stacked[~regression.valid] = 0.0
        if grams is None:
            width = stacked.shape[2]
            grams = np.zeros((n_blocks, stacked.shape[1], width, width))
        by_row = np.ascontiguousarray(stacked.transpose(1, 0, 2))
        valid_by_row = np.ascontiguousarray(regression.valid.T)
        borders = np.flatnonzero(np.diff(label)) + 1
        for start, stop in zip([0, *borders], [*borders, len(label)]):
            block = label[start]
            rows = by_row[:, start:stop]
            grams[block] += rows.transpose(0, 2, 1) @ rows
            n_valid[block] += valid_by_row[:, start:stop].sum(axis=1)
            log_of_block[block] = k
    assert grams is not None
    return BlockSums(grams=grams, n_valid=n_valid, log=log_of_block, n_parameters=len(names))


def expected_squares(sums: BlockSums, noise: FloatArray) -> FloatArray:
    """Return the squared errors of blocks left out that noise alone causes in a true model, (r,).

    sum_b (n_b s^2 + tr(G_b C_b)), with C_b the covariance of the
    parameters without block b: noise also enters the parameters that
    predict the block. A block that the others do not determine counts
    twice its noise.

    Args:
        sums: The equations.
        noise: Power s^2 of each row, (r,); zero where it is not known.
    """
    of_blocks = noise * sums.n_valid
    if not (noise > 0).all():
        return np.asarray(of_blocks.sum(axis=0))
    grams = sums.grams[:, :, :-1, :-1]
    variance = np.maximum(noise, ERROR_FLOOR**2 * sums.effort_power)
    by_block = np.tensordot(1 / variance, grams, axes=(0, 1))
    total = by_block.sum(axis=0)
    power = np.diagonal(total)
    scale = 1 / np.sqrt(np.where(power > 0, power, 1.0))
    to_unit = np.outer(scale, scale)
    unit = (total - by_block) * to_unit + UNIT_COLUMN_RIDGE * np.eye(len(scale))
    covariance = np.linalg.inv(unit) * to_unit
    of_parameters = np.einsum("brij,bij->br", grams, covariance)
    return np.asarray((of_blocks + np.minimum(of_parameters, of_blocks)).sum(axis=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossValidation:
    """Errors of a model on blocks it was not fitted to."""

    # squared errors by block and row, (f, r); f folds of blocks
    squares: FloatArray
    n_valid: IntArray  # equations behind them, (f, r)
    # of the chosen columns, fitted without each fold, (f, k)
    coefficients: FloatArray
    whole: FloatArray  # of the chosen columns, fitted to all blocks, (k,)
    weights: FloatArray  # of the rows, (r,)


def row_weights(sums: BlockSums, columns: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Return inverse residual variances of the rows (r,) and the fitted coefficients (k,).

    A row is weighted by the residual of the fit itself, iterated.
    """
    chosen = [*columns, sums.n_columns]
    total = select_columns(sums.total, chosen)
    count = np.maximum(sums.n_valid.sum(axis=0), 1)
    has_effort = sums.effort_power > 0
    floor = ERROR_FLOOR**2 * np.where(has_effort, sums.effort_power, 1.0)
    weights = has_effort / np.where(has_effort, sums.effort_power, 1.0)
    coefficients = np.zeros(len(columns))
    for _ in range(WEIGHT_ITERATIONS):
        coefficients = solve_normal_equations(np.tensordot(weights, total, axes=1))
        vector = np.append(-coefficients, 1.0)
        power = np.maximum(total @ vector @ vector, 0.0) / count
        weights = has_effort / np.maximum(power, floor)
    return weights, coefficients


def cross_validate(
    sums: BlockSums,
    columns: Sequence[int],
    *,
    folds: IntArray | None = None,
    weights: FloatArray | None = None,
) -> CrossValidation:
    """Predict every fold of blocks from the others, with some columns of the sums.

    Args:
        sums: The equations.
        columns: Columns of the model.
        folds: Fold of each block, (b,); every block is one by default.
        weights: Of the rows, (r,); from the residual by default.
    """
    n_blocks = len(sums.grams)
    if folds is None:
        folds = np.arange(n_blocks)
    n_folds = int(folds.max()) + 1
    chosen = [*columns, sums.n_columns]
    if weights is None:
        weights, whole = row_weights(sums, columns)
    else:
        total = select_columns(sums.total, chosen)
        whole = solve_normal_equations(np.tensordot(weights, total, axes=1))
    weighted = sums.weighted(weights, columns)
    by_fold = weighted
    if not np.array_equal(folds, np.arange(n_blocks)):
        by_fold = np.zeros((n_folds, *weighted.shape[1:]))
        np.add.at(by_fold, folds, weighted)
    coefficients = solve_normal_equations(by_fold.sum(axis=0) - by_fold)
    vectors = np.zeros((n_blocks, sums.n_columns + 1))
    vectors[:, list(columns)] = -coefficients[folds]
    vectors[:, -1] = 1.0
    squares = np.zeros((n_folds, sums.grams.shape[1]))
    np.add.at(squares, folds, sums.squares(vectors))
    n_valid = np.zeros(squares.shape, np.int64)
    np.add.at(n_valid, folds, sums.n_valid)
    return CrossValidation(
        squares=squares,
        n_valid=n_valid,
        coefficients=coefficients,
        whole=whole,
        weights=weights,
    )


def fold_prediction_variance(
    sums: BlockSums, columns: Sequence[int], fold: BoolArray, weights: FloatArray
) -> FloatArray:
    """Return the sum of the variance of predicting a fold of blocks from the others, (r,).

    sum_t w_t^T C w_t, C the covariance of the coefficients by a
    jackknife over the other blocks; zero if there are less than two of
    them.

    Args:
        sums: The equations.
        columns: Columns of the model.
        fold: Blocks that are predicted, (b,).
        weights: Of the rows, (r,).
    """
    grams = sums.chosen(columns)
    others = np.einsum("r,brij->bij", weights, grams[~fold], optimize=True)
    if len(others) < 2:
        return np.zeros(grams.shape[1])
    coefficients = solve_normal_equations(others.sum(axis=0) - others)
    deviation = coefficients - coefficients.mean(axis=0)
    covariance = (len(others) - 1) / len(others) * deviation.T @ deviation
    inside = grams[fold].sum(axis=0)[:, :-1, :-1]
    return np.asarray(np.einsum("rij,ij->r", inside, covariance))
