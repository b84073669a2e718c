"""Iterative refinement of a least-squares solution, with residuals in twice the precision.

QR leaves an error of rounding times condition number. One step with the
gradient in twice the precision removes it: what remains is that the
equations themselves are rounded to doubles. Sums and products without
rounding error: Dekker 1971; Ogita, Rump and Oishi 2005.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.fitting.regression import Regression
from gough.fitting.solve import Solution
from gough.fitting.whitening import padded_inverse_root, valid_row_sets

# Most numbers in [W y] of a problem that is refined. It then takes
# about a millisecond. Longer logs are not: their rounding stays below a
# thousandth of a standard error even at the largest condition number
# that `solve` accepts, and refinement would take as long as the fit.
MAX_REFINED_NUMBERS = 5_000
SPLITTER = 2.0**27 + 1  # splits a double into two numbers of 26 bits


class Doubled(NamedTuple):
    """Numbers in twice the precision: high + low."""

    high: FloatArray
    low: FloatArray


def refine(solution: Solution, samples: Regression | None, covariance: FloatArray) -> Solution:
    """Return a solution after one step of refinement: chi + (W^T P W)^-1 W^T P (y - W chi).

    P is the inverse covariance of the valid equations of each sample.
    Long problems, and those of which only statistics are known, are
    returned as they are.

    Args:
        solution: Of the whitened equations.
        samples: The equations before they were whitened; None if they
            are not known.
        covariance: Of the rows, (r, r), or (t, r, r) by sample.
            [product of the row units]
    """
    if samples is None or covariance.ndim == 3:
        return solution
    stacked = samples.stacked()
    if stacked.size > MAX_REFINED_NUMBERS:
        return solution
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = _gradient(samples, stacked, solution.values, covariance)
        values = solution.values + solution.root @ (solution.root.T @ gradient)
    if not np.isfinite(values).all():  # numbers near the largest double
        return solution
    return solution._replace(values=values)


def _gradient(
    samples: Regression, stacked: FloatArray, values: FloatArray, covariance: FloatArray
) -> FloatArray:
    """Return W^T P (y - W chi), (p,).

    Args:
        samples: The equations, for names and mask.
        stacked: [W y] of them, (t, r, p + 1).
        values: chi, (p,).
        covariance: Of the rows, (r, r).
    """
    extended = np.append(-values, 1.0)
    residual = _sum_of_products(Doubled(stacked, np.zeros_like(stacked)), extended)
    gradient = np.zeros(len(values))
    for valid_rows, chosen in valid_row_sets(samples.mask, stacked.shape[:2]):
        root = padded_inverse_root(covariance, valid_rows, samples.rows)
        chosen_residual = Doubled(residual.high[chosen, None, :], residual.low[chosen, None, :])
        weighted = _sum_of_products(chosen_residual, root.T @ root)
        by_parameter = stacked[chosen, :, :-1].reshape(-1, len(values)).T
        in_a_row = Doubled(weighted.high.reshape(-1), weighted.low.reshape(-1))
        total = _sum_of_products(in_a_row, by_parameter)
        gradient += total.high + total.low
    return gradient


def _sum_of_products(first: Doubled, second: FloatArray) -> Doubled:
    """Return the sum of first times second over their last axis, which is added up pairwise."""
    product, error = _product(first.high, second)
    low = (error + first.low * second).sum(axis=-1)
    while product.shape[-1] > 1:
        if product.shape[-1] % 2:
            product = np.concatenate([product, np.zeros_like(product[..., :1])], axis=-1)
        product, error = _sum(product[..., ::2], product[..., 1::2])
        low = low + error.sum(axis=-1)
    high, low = _sum(product[..., 0], low)
    return Doubled(high, low)


def _sum(first: FloatArray, second: FloatArray) -> Doubled:
    """Return a sum without rounding error."""
    total = first + second
    of_second = total - first
    error = (first - (total - of_second)) + (second - of_second)
    return Doubled(total, error)


def _product(first: FloatArray, second: FloatArray) -> Doubled:
    """Return a product without rounding error."""
    product = first * second
    first_high, first_low = _halves(first)
    second_high, second_low = _halves(second)
    error = first_high * second_high - product
    error = error + first_high * second_low + first_low * second_high
    return Doubled(product, error + first_low * second_low)


def _halves(number: FloatArray) -> Doubled:
    """Return a number as the sum of two of 26 bits."""
    scaled = SPLITTER * number
    high = scaled - (scaled - number)
    return Doubled(high, number - high)
