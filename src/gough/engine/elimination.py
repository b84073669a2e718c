"""Sparse Gaussian elimination written out as expressions, with pivots chosen in advance.

A batched LAPACK solve of the closures would be the bottleneck of every
kernel. With a pivot order that keeps the matrix sparse, a six-legged
robot costs six 3x3 and one 6x6 elimination. The order is chosen on
sample matrices. A kernel that uses it must output a check value, so
that samples where the order is poor can be solved again with other
pivots.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import SingularConfiguration

Pivots = tuple[tuple[int, int], ...]
SparseRow = dict[int, ca.SX]  # non-zero entries by column

# Smallest accepted ratio of a pivot to the largest entry of its column
# (Markowitz threshold).
PIVOT_THRESHOLD = 0.1
# Largest entry of an equilibrated matrix below which the matrix has
# lost rank.
SMALLEST_PIVOT = 1e-10


def choose_pivots(samples: FloatArray, pattern: FloatArray) -> Pivots:
    """Choose a pivot order that keeps matrices sparse and is stable on all samples.

    This is the rule of Markowitz with a threshold on the pivots.

    Args:
        samples: Matrices at typical configurations, (s, n, n).
        pattern: Where an entry can be non-zero, (n, n).

    Raises:
        SingularConfiguration: A sample is singular.
    """
    work = np.array(samples, dtype=float)
    work /= np.maximum(np.abs(work).max(axis=2, keepdims=True), 1e-300)  # equilibrate the rows
    filled = np.array(pattern, dtype=bool)
    order = work.shape[1]
    rows = list(range(order))
    columns = list(range(order))
    pivots: list[tuple[int, int]] = []
    for _ in range(order):
        magnitude = np.abs(work[:, rows][:, :, columns])
        mask = filled[np.ix_(rows, columns)]
        if (magnitude.max(axis=(1, 2)) < SMALLEST_PIVOT).any() or not mask.any():
            raise SingularConfiguration(
                "the closures lose rank at a sampled configuration; check the geometry or move "
                "the start pose away from the singularity",
                singular_value=float(magnitude.max(axis=(1, 2)).min()),
            )
        i, j = _cheapest_pivot(magnitude, mask)
        row = rows.pop(i)
        column = columns.pop(j)
        pivots.append((row, column))
        factor = work[:, rows, column] / work[:, row, column][:, None]
        work[:, rows] -= factor[:, :, None] * work[:, row][:, None, :]
        touched = [r for r in rows if filled[r, column]]
        filled[np.ix_(touched, columns)] |= filled[row, columns]
    return tuple(pivots)


def _cheapest_pivot(magnitude: FloatArray, mask: FloatArray) -> tuple[int, int]:
    """Return row and column of the stable pivot that fills in the fewest entries.

    Args:
        magnitude: Absolute values of the remaining matrices, (s, n, n).
        mask: Where these can be non-zero, (n, n).
    """
    largest = np.maximum(magnitude.max(axis=1, keepdims=True), 1e-300)
    ratio = (magnitude / largest).min(axis=0)  # of the worst sample
    row_entries = mask.sum(axis=1)
    column_entries = mask.sum(axis=0)
    fill_in = (row_entries[:, None] - 1.0) * (column_entries[None, :] - 1.0)
    accepted = mask & (ratio >= min(PIVOT_THRESHOLD, float((ratio * mask).max())))
    cost = np.where(accepted, fill_in - 0.1 * ratio, np.inf)
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return int(i), int(j)


def solve(matrix: ca.SX, right: ca.SX, pivots: Pivots) -> ca.SX:
    """Return matrix^-1 right as expressions, eliminating in the order of `choose_pivots`.

    Args:
        matrix: (n, n).
        right: (n, k).
    """
    order = len(pivots)
    rows = _eliminate(ca.horzcat(matrix, right), pivots)
    solved_rows: dict[int, SparseRow] = {}
    solution = ca.SX(*right.shape)
    for row, column in reversed(pivots):
        inverse = 1 / rows[row].pop(column)
        right_entries = {k: entry for k, entry in rows[row].items() if k >= order}
        for j, coefficient in rows[row].items():
            if j < order:
                _subtract(right_entries, coefficient, solved_rows[j])
        solved_rows[column] = {k: entry * inverse for k, entry in right_entries.items()}
        for k, entry in solved_rows[column].items():
            solution[column, k - order] = entry
    return solution


def determinant(matrix: ca.SX, pivots: Pivots) -> ca.SX:
    """Return the determinant up to a constant sign, by elimination in the given pivot order."""
    rows = _eliminate(matrix, pivots)
    product = ca.SX(1)
    for row, column in pivots:
        product *= rows[row][column]
    return product


def _eliminate(matrix: ca.SX, pivots: Pivots) -> list[SparseRow]:
    """Return the rows after eliminating the column of each pivot from the rows after it."""
    rows = [_nonzero_entries(matrix, i) for i in range(len(pivots))]
    for k, (row, column) in enumerate(pivots):
        inverse = 1 / rows[row][column]
        others = {j: entry for j, entry in rows[row].items() if j != column}
        for other, _ in pivots[k + 1 :]:
            if column in rows[other]:
                _subtract(rows[other], rows[other].pop(column) * inverse, others)
    return rows


def _nonzero_entries(matrix: ca.SX, row: int) -> SparseRow:
    """Return the entries of a row that are not structurally or exactly zero."""
    entries: SparseRow = {}
    for column in range(matrix.shape[1]):
        entry = matrix[row, column]
        if entry.nnz() and not entry.is_zero():
            entries[column] = entry
    return entries


def _subtract(target: SparseRow, factor: ca.SX, row: SparseRow) -> None:
    """Subtract a multiple of a row from another row, in place."""
    for j, entry in row.items():
        if j in target:
            target[j] = target[j] - factor * entry
        else:
            target[j] = -factor * entry


def cholesky_solve(matrix: ca.SX, right: ca.SX) -> ca.SX:
    """Return matrix^-1 right for a symmetric positive definite matrix, by L D L^T."""
    D, upper, _ = ca.ldl(matrix.T, False)
    order = matrix.shape[0]
    solution = ca.SX(right)
    for i in range(order):
        for k in range(i):
            solution[i, :] -= upper[k, i] * solution[k, :]
    for i in reversed(range(order)):
        solution[i, :] /= D[i]
        for k in range(i + 1, order):
            solution[i, :] -= upper[i, k] * solution[k, :]
    return solution
