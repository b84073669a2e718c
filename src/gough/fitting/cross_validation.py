"""Fit some blocks, predict others: blocked cross-validation on sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gough.core.arrays import FloatArray
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.row_noise import MIN_FREEDOM, estimate_row_noise
from gough.fitting.solve import RANK_TOLERANCE

# Enough to choose by: the weights of the rows then change by less than
# a thousandth.
WEIGHT_PASSES = 20
WEIGHT_TOLERANCE = 1e-3
# On unit columns of normal equations: columns that are nearly
# combinations of others share their coefficients.
UNIT_COLUMN_RIDGE = 1e-9


class WeightedFit(NamedTuple):
    """Values and the weights of the rows they were found with."""

    # zero where the equations do not determine a parameter, (p,)
    values: FloatArray
    # inverse noise variance of each row, (r,) [1 / row unit squared]
    weights: FloatArray


def weighted_fit(statistics: BlockStatistics) -> WeightedFit:
    """Return the values and weights of `WeightedLeastSquares`, precise enough to compare fits."""
    fitted = _reweighted_fit(statistics)
    if fitted is not None:
        return fitted
    noise = estimate_row_noise(
        statistics,
        iterations=WEIGHT_PASSES,
        tolerance=WEIGHT_TOLERANCE,
        deficient=True,
    )
    return WeightedFit(noise.solution.values, 1 / np.diag(noise.covariance))


def _reweighted_fit(statistics: BlockStatistics) -> WeightedFit | None:
    """Return what `estimate_row_noise` gives for single rows, without all it keeps beside it.

    None if the equations do not determine all parameters, or the
    weights do not settle.
    """
    p = len(statistics.parameters)
    factors = statistics.factors
    if p == 0 or not statistics.equations.all() or factors.shape[0] * factors.shape[1] <= p:
        return None
    variance = np.ones(len(factors))
    settled = False
    for _ in range(WEIGHT_PASSES + 1):
        weighted = factors / np.sqrt(variance)[:, None, None]
        triangle = np.asarray(np.linalg.qr(weighted.reshape(-1, p + 1), mode="r"))
        inverse = _inverse_if_determined(triangle[:p, :p])
        if inverse is None:
            return None
        values = inverse @ triangle[:p, p]
        if settled:
            return WeightedFit(values, 1 / variance)
        # what each row contributes to the parameters takes from its
        # degrees of freedom
        contribution = np.square(weighted[:, :, :p] @ inverse).sum(axis=(1, 2))
        freedom = np.maximum(statistics.n_valid - contribution, MIN_FREEDOM)
        squares = np.square(factors @ np.append(values, -1.0)).sum(axis=1)
        before = variance
        variance = np.maximum(squares / freedom, statistics.rounding(values) ** 2)
        settled = bool((np.abs(variance - before) < WEIGHT_TOLERANCE * variance).all())
    return None


def _inverse_if_determined(triangle: FloatArray) -> FloatArray | None:
    """Return the inverse of a triangular factor; None if its columns may be dependent.

    With columns of unit length, the smallest singular value is at least
    the inverse of the Frobenius norm of the inverse, the largest at
    most the root of the number of columns.
    """
    p = len(triangle)
    column_norm = np.linalg.norm(triangle, axis=0)
    if not (np.abs(np.diag(triangle)) > RANK_TOLERANCE * column_norm).all():
        return None
    inverse = np.asarray(solve_triangular(triangle, np.eye(p), check_finite=False))
    condition_bound = float(np.linalg.norm(inverse * column_norm[:, None])) * np.sqrt(p)
    return inverse if condition_bound * RANK_TOLERANCE < 1 else None


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
        by_row: Fit every row by itself, e.g. where the scales of the
            efforts are not known.
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
