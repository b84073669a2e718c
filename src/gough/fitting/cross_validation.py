"""Fit some blocks, predict others: blocked cross-validation on sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from gough.core.arrays import TINY, FloatArray
from gough.fitting.block_statistics import BlockStatistics, factors_of_grams
from gough.fitting.row_noise import estimate_row_noise
from gough.fitting.solve import solve

# Enough to choose by: the weights of the rows then change by less than a thousandth.
WEIGHT_PASSES = 20
WEIGHT_TOLERANCE = 1e-3
# Ridge on unit columns where candidate columns are compared with fixed weights: columns that are
# nearly combinations of others share their coefficients.
CANDIDATE_RIDGE = 1e-9
MIN_UNIT_DIAGONAL = 1e-5  # of a unit column's factor; below it columns are nearly dependent


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
    return WeightedFit(values_of_gram(total, statistics.parameters), weights)


def values_of_gram(gram: FloatArray, parameters: tuple[str, ...]) -> FloatArray:
    """Return the values of a Gram matrix of [W y], with a small ridge on unit columns, (p,)."""
    return _solve_factor(factors_of_grams(gram, CANDIDATE_RIDGE), parameters)


def _solve_factor(factor: FloatArray, parameters: tuple[str, ...]) -> FloatArray:
    """Return the least-squares values of a triangular factor of [W y], (p,)."""
    p = len(parameters)
    triangle = factor[:p, :p]
    column_norm = np.linalg.norm(triangle, axis=0)
    diagonal = np.abs(np.diag(triangle))
    if p and (diagonal > MIN_UNIT_DIAGONAL * column_norm).all():
        return np.asarray(solve_triangular(triangle, factor[:p, p]))
    return solve(factor, parameters, deficient=True).values


def values_without(
    statistics: BlockStatistics,
    left_out: Sequence[Sequence[int]],
    *,
    weights: FloatArray | None = None,
    by_row: bool = False,
) -> FloatArray:
    """Return the values of fits without some blocks, for each row, (folds, r, p).

    Args:
        statistics: Blocks that are fitted.
        left_out: Blocks that each fit leaves out.
        weights: Fixed weights of the rows, (r,); found from each fit by default.
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
            values[k] = weighted_fit(fitted, weights).values
    return values


def cross_validate(
    statistics: BlockStatistics,
    folds: Sequence[Sequence[int]],
    *,
    left_out: Sequence[Sequence[int]] | None = None,
    scored: BlockStatistics | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return the squared errors of predicting each fold from the others, by block and row, (b, r).

    Args:
        statistics: Blocks that are fitted.
        folds: Blocks that are predicted together.
        left_out: For each fold all blocks that its fit leaves out, e.g. also those beside
            it; the fold itself by default.
        scored: Statistics whose blocks are predicted, numbered as the folds say; the fitted
            ones by default.
        weights: Fixed weights of the rows, (r,); found from each fit by default.
    """
    scored = statistics if scored is None else scored
    values = values_without(statistics, folds if left_out is None else left_out, weights=weights)
    squares = np.zeros((len(scored), len(scored.rows)))
    for k, fold in enumerate(folds):
        blocks = list(fold)
        squares[blocks] = scored.only(blocks).squared_residuals(values[k, 0])
    return squares


def relative_errors(squares: FloatArray, scored: BlockStatistics) -> FloatArray:
    """Return rms error over rms effort of each row, from squared errors by block and row, (r,)."""
    effort_squares = scored.squared_residuals(np.zeros(len(scored.parameters)))
    total = np.maximum(effort_squares.sum(axis=0), TINY)
    return np.asarray(np.sqrt(squares.sum(axis=0) / total))
