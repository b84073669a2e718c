"""Sparse elimination written out as expressions, with pivots fixed in advance.

A batched LAPACK solve of the closures would be the bottleneck of every kernel. Written out with a pivot order that
keeps the matrix sparse, a six-legged robot costs six 3x3 and one 6x6 elimination without anyone having to say so.
The order is chosen on sample matrices; a kernel that uses it must report a check value so that samples where the
order is poor can be solved again with pivoting.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import SingularConfiguration

Pivots = tuple[tuple[int, int], ...]
Row = dict[int, ca.SX]
THRESHOLD = 0.1  # smallest accepted ratio of a pivot to the largest entry of its column


def choose_pivots(samples: FloatArray, pattern: FloatArray) -> Pivots:
    """Choose a pivot order that keeps sparse matrices sparse and is stable on all samples (Markowitz with threshold).

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
                "the closures lose rank at a sampled configuration; check the geometry or move the start pose away "
                "from the singularity", singular_value=float(sub.max(axis=(1, 2)).min()))
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


def solve(matrix: ca.SX, right: ca.SX, pivots: Sequence[tuple[int, int]]) -> ca.SX:
    """Return matrix^-1 right, (n, n) and (n, k), as expressions, eliminating in the order of `choose_pivots`."""
    rows, rhs = _eliminated(matrix, right, pivots)
    solution: dict[int, dict[int, ca.SX]] = {}
    for row, column in reversed(pivots):
        values = dict(rhs[row])
        for j, coefficient in rows[row].items():
            if j == column:
                continue
            for k, value in solution[j].items():
                values[k] = values[k] - coefficient * value if k in values else -coefficient * value
        inverse = 1 / rows[row][column]
        solution[column] = {k: value * inverse for k, value in values.items()}
    result = ca.SX(*right.shape)
    for i, values in solution.items():
        for k, value in values.items():
            result[i, k] = value
    return result


def cholesky_solve(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Return matrix^-1 right for a symmetric positive definite matrix (L D L^T, no pivoting needed)."""
    size = matrix.shape[0]
    lower, scaled = ca.SX.eye(size), ca.SX(size, size)  # L and L D
    for j in range(size):
        for i in range(j, size):
            value = matrix[i, j]
            for k in range(j):
                value -= scaled[i, k] * lower[j, k]
            scaled[i, j] = value
            if i > j:
                lower[i, j] = value / scaled[j, j]
    result = ca.SX(right)
    for i in range(size):
        for k in range(i):
            result[i, :] -= lower[i, k] * result[k, :]
    for i in range(size):
        result[i, :] = result[i, :] / scaled[i, i]
    for i in reversed(range(size)):
        for k in range(i + 1, size):
            result[i, :] -= lower[k, i] * result[k, :]
    return result


def determinant(matrix: ca.SX, pivots: Sequence[tuple[int, int]]) -> ca.SX:
    """Return the determinant up to a constant sign, by elimination in the given pivot order."""
    rows, _ = _eliminated(matrix, ca.SX(matrix.shape[0], 0), pivots)
    product = ca.SX(1)
    for row, column in pivots:
        product *= rows[row][column]
    return product


def _eliminated(matrix: ca.SX, right: ca.SX, pivots: Sequence[tuple[int, int]]) -> tuple[list[Row], list[Row]]:
    """Return the rows of a matrix and of a right side once each pivot's column is gone from the rows after it."""
    rows, rhs = ([_entries(part, i) for i in range(matrix.shape[0])] for part in (matrix, right))
    waiting = [i for i, _ in pivots]
    for row, column in pivots:
        waiting.remove(row)
        inverse = 1 / rows[row][column]
        for other in waiting:
            if column not in rows[other]:
                continue
            factor = rows[other].pop(column) * inverse
            for target, source in ((rows[other], rows[row]), (rhs[other], rhs[row])):
                for j, value in source.items():
                    if j != column or target is rhs[other]:
                        target[j] = target[j] - factor * value if j in target else -factor * value
    return rows, rhs


def _entries(matrix: ca.SX, row: int) -> Row:
    """Return the non-zero entries of a row by column."""
    entries = ((j, matrix[row, j]) for j in range(matrix.shape[1]))
    return {j: value for j, value in entries if value.nnz() and not value.is_zero()}
