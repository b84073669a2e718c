"""Fit some blocks, predict others: blocked cross-validation on sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.row_noise import estimate_row_noise

# Enough to choose by: the weights of the rows then change by less than a thousandth.
WEIGHT_PASSES = 20
WEIGHT_TOLERANCE = 1e-3
# On unit columns of normal equations: columns that are nearly combinations of others share their
# coefficients.
UNIT_COLUMN_RIDGE = 1e-9


class WeightedFit(NamedTuple):
    """Values and the weights of the rows they were found with."""

    values: FloatArray  # zero where the equations do not determine a parameter, (p,)
    weights: FloatArray  # inverse noise variance of each row, (r,) [1 / row unit squared]


def weighted_fit(statistics: BlockStatistics, weights: FloatArray | None = None) -> WeightedFit:
    """Return the weighted least-squares values of some blocks.

    The weights are those of `WeightedLeastSquares` unless they are given, (r,).
    """
    if weights is None:
        noise = estimate_row_noise(
            statistics,
            iterations=WEIGHT_PASSES,
            tolerance=WEIGHT_TOLERANCE,
            deficient=True,
        )
        return WeightedFit(noise.solution.values, 1 / np.diag(noise.covariance))
    row_grams = statistics.grams.sum(axis=0)
    total = np.tensordot(weights, row_grams, axes=1)
    return WeightedFit(solve_normal_equations(total), weights)


def solve_normal_equations(normal: FloatArray) -> FloatArray:
    """Return the least-squares coefficients of Gram matrices of [X y], (..., k + 1, k + 1).

    Columns without power have the coefficient zero.
    """
    k = normal.shape[-1] - 1
    if k == 0:
        return np.zeros((*normal.shape[:-2], 0))
    matrix = normal[..., :k, :k]
    scale = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 0.0))
    empty = scale <= 0
    scale = np.where(empty, 1.0, scale)
    unit = matrix / (scale[..., :, None] * scale[..., None, :])
    diagonal = np.arange(k)
    unit[..., diagonal, diagonal] += UNIT_COLUMN_RIDGE + empty
    target = normal[..., :k, k] / scale
    return np.asarray(np.linalg.solve(unit, target[..., None])[..., 0] / scale)


def values_without(
    statistics: BlockStatistics,
    left_out: Sequence[Sequence[int]],
    *,
    by_row: bool = False,
) -> FloatArray:
    """Return the values of fits without some blocks, for each row, (folds, r, p).

    Args:
        statistics: Blocks that are fitted.
        left_out: Blocks that each fit leaves out.
        by_row: Fit every row by itself, e.g. where the scales of the efforts are not known.
    """
    n_rows = len(statistics.rows)
    values = np.zeros((len(left_out), n_rows, len(statistics.parameters)))
    for k, blocks in enumerate(left_out):
        fitted = statistics.without(blocks)
        if by_row:
            for row in range(n_rows):
                values[k, row] = weighted_fit(fitted.row(row)).values
        else:
            values[k] = weighted_fit(fitted).values
    return values
