"""Sparse elimination written out as expressions, with pivots fixed in advance.

A batched LAPACK solve of the closures would be the bottleneck of every kernel. Written out with a
pivot order that keeps the matrix sparse, a six-legged robot costs six 3x3 and one 6x6 elimination
without anyone having to say so. The order is chosen on sample matrices; a kernel that uses it must
report a check value so that samples where the order is poor can be solved again with pivoting.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import SingularConfiguration

Pivots = tuple[tuple[int, int], ...]
THRESHOLD = 0.1  # smallest accepted ratio of a pivot to the largest entry of its column


def choose_pivots(samples: FloatArray, pattern: FloatArray) -> Pivots:
    """Choose a pivot order that keeps sparse matrices sparse and is stable on all samples
    (Markowitz with threshold).

    Args:
        samples: Matrices at typical configurations, (s, n, n).
        pattern: Where an entry can be non-zero, (n, n).
    """
    work = np.array(samples, dtype=float)
    work /= np.maximum(np.abs(work).max(axis=2, keepdims=True), 1e-300)  # rows of one size
    filled = np.array(pattern, dtype=bool)
    size = work.shape[1]
    rows, columns = list(range(size)), list(range(size))
    pivots: list[tuple[int, int]] = []
    for _ in range(size):
        sub = np.abs(work[:, rows][:, :, columns])
        largest = np.maximum(sub.max(axis=1, keepdims=True), 1e-300)
        ratio = (sub / largest).min(axis=0)  # worst over samples
        mask = filled[np.ix_(rows, columns)]
        if (sub.max(axis=(1, 2)) < 1e-10).any() or not mask.any():
            raise SingularConfiguration(
                "the closures lose rank at a sampled configuration; check the geometry or move the "
                "start pose away "
                "from the singularity",
                singular_value=float(sub.max(axis=(1, 2)).min()),
            )
        count_row, count_column = mask.sum(axis=1), mask.sum(axis=0)
        cost = (count_row[:, None] - 1.0) * (count_column[None, :] - 1.0)
        accepted = mask & (ratio >= min(THRESHOLD, float((ratio * mask).max())))
        cost = np.where(accepted, cost - 0.1 * ratio, np.inf)
        i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
        row, column = rows.pop(int(i)), columns.pop(int(j))
        pivots.append((row, column))
        factor = work[:, rows, column] / work[:, row, column][:, None]
        work[:, rows] -= factor[:, :, None] * work[:, row][:, None, :]
        touched = [r for r in rows if filled[r, column]]
        filled[np.ix_(touched, columns)] |= filled[row, columns]
    return tuple(pivots)


def solve(matrix: ca.SX, right: ca.SX, pivots: Pivots) -> ca.SX:
    """Return matrix^-1 right, (n, n) and (n, k), as expressions, eliminating in the order of
    `choose_pivots`.
    """
    size, rows = len(pivots), _eliminated(ca.horzcat(matrix, right), pivots)
    solution: dict[int, dict[int, ca.SX]] = {}
    result = ca.SX(*right.shape)
    for row, column in reversed(pivots):
        inverse = 1 / rows[row].pop(column)
        values = {k: value for k, value in rows[row].items() if k >= size}
        for j in (j for j in rows[row] if j < size):
            _subtract(values, rows[row][j], solution[j])
        solution[column] = {k: value * inverse for k, value in values.items()}
        for k, value in solution[column].items():
            result[column, k - size] = value
    return result


def determinant(matrix: ca.SX, pivots: Pivots) -> ca.SX:
    """Return the determinant up to a constant sign, by elimination in the given pivot order."""
    rows, product = _eliminated(matrix, pivots), ca.SX(1)
    for row, column in pivots:
        product *= rows[row][column]
    return product


def _eliminated(table: ca.SX, pivots: Pivots) -> list[dict[int, ca.SX]]:
    """Return the non-zero entries of rows by column, once each pivot's column is gone from the rows
    after it.
    """
    entries = [[(j, table[i, j]) for j in range(table.shape[1])] for i in range(len(pivots))]
    rows = [
        {j: value for j, value in row if value.nnz() and not value.is_zero()} for row in entries
    ]
    for k, (row, column) in enumerate(pivots):
        inverse = 1 / rows[row][column]
        others = {j: value for j, value in rows[row].items() if j != column}
        for other, _ in pivots[k + 1 :]:
            if column in rows[other]:
                _subtract(rows[other], rows[other].pop(column) * inverse, others)
    return rows


def _subtract(target: dict[int, ca.SX], factor: ca.SX, row: dict[int, ca.SX]) -> None:
    for j, value in row.items():
        target[j] = target[j] - factor * value if j in target else -factor * value


def cholesky_solve(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Return matrix^-1 right for a symmetric positive definite matrix (L D L^T, no pivoting
    needed).
    """
    D, upper, _ = ca.ldl(matrix.T, False)
    size, result = matrix.shape[0], ca.SX(right)
    for i in range(size):
        for k in range(i):
            result[i, :] -= upper[k, i] * result[k, :]
    for i in reversed(range(size)):
        result[i, :] /= D[i]
        for k in range(i + 1, size):
            result[i, :] -= upper[i, k] * result[k, :]
    return result
