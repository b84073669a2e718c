"""Divide equations by the covariance of their noise, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shape,
)
from gough.core.errors import InvalidInput

# below it a covariance is refused as singular
MIN_CORRELATION_EIGENVALUE = 1e-13
SYMMETRY_TOLERANCE = 1e-9  # of the correlation matrix


def valid_row_sets(
    mask: BoolArray | None, shape: tuple[int, int]
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield each set of rows that are valid together, with the samples where they are.

    Samples without any valid row are left out.

    Args:
        mask: Valid equations, (t, r); None if all are.
        shape: t and r.
    """
    if mask is None or mask.all():
        yield np.arange(shape[1]), np.arange(shape[0])
        return
    row_sets, set_of_sample = np.unique(mask, axis=0, return_inverse=True)
    set_of_sample = set_of_sample.reshape(-1)
    for k, row_set in enumerate(row_sets):
        if row_set.any():
            yield np.flatnonzero(row_set), np.flatnonzero(set_of_sample == k)


def inverse_root(covariance: FloatArray, rows: tuple[str, ...]) -> FloatArray:
    """Return C^-1 with covariance = C C^T, (r, r) or (t, r, r).

    C = diag(std) U sqrt(L) U^T with the correlation U L U^T, so that
    whitened rows belong to the rows whatever their order is.
    """
    what = "covariance of the rows"
    check_finite(covariance, what)
    check_shape(covariance[..., 0, :], (*covariance.shape[:-2], len(rows)), what)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    if not (variance > 0).all():
        bad = rows[int(np.argwhere(variance <= 0)[0][-1])]
        raise InvalidInput(
            f"noise variance of row '{bad}' is not positive; expected a positive definite "
            "covariance",
            row=bad,
        )
    std = np.sqrt(variance)
    if len(rows) == 1:
        return np.asarray(1 / std[..., None])
    correlation = covariance / (std[..., :, None] * std[..., None, :])
    transposed = np.swapaxes(correlation, -1, -2)
    if not np.allclose(correlation, transposed, rtol=0, atol=SYMMETRY_TOLERANCE):
        raise InvalidInput(f"{what} is not symmetric")
    eigenvalues, vectors = np.linalg.eigh(correlation)
    least = float(eigenvalues[..., 0].min(initial=1.0))
    if least <= MIN_CORRELATION_EIGENVALUE:
        raise InvalidInput(
            f"{what} is not positive definite: its correlation matrix has the eigenvalue "
            f"{least:.3g}; expected all positive",
            eigenvalue=least,
        )
    scaled_vectors = vectors / np.sqrt(eigenvalues)[..., None, :]
    return np.asarray(scaled_vectors @ np.swapaxes(vectors, -1, -2) / std[..., None, :])


def padded_inverse_root(
    covariance: FloatArray, valid_rows: IntArray, rows: tuple[str, ...]
) -> FloatArray:
    """Return C^-1 of the valid rows, zeros for the others, (r, r) or (t, r, r)."""
    root = np.zeros_like(covariance)
    i, j = np.ix_(valid_rows, valid_rows)
    names = tuple(rows[k] for k in valid_rows)
    root[..., i, j] = inverse_root(covariance[..., i, j], names)
    return root


def whiten(
    stacked: FloatArray,
    covariance: FloatArray,
    mask: BoolArray | None,
    rows: tuple[str, ...],
) -> FloatArray:
    """Return C_s^-1 stacked_s with covariance_s = C_s C_s^T; zeros where an equation is not valid.

    Where some rows of a sample are not valid, the covariance of the
    others is taken.

    Args:
        stacked: Columns of each sample and row, (t, r, c).
        covariance: (r, r) or (t, r, r).
        mask: Valid equations, (t, r); None if all are.
        rows: Names of the rows.
    """
    white = np.zeros_like(stacked)
    for valid_rows, samples in valid_row_sets(mask, stacked.shape[:2]):
        noise = covariance[samples] if covariance.ndim == 3 else covariance
        white[samples] = padded_inverse_root(noise, valid_rows, rows) @ stacked[samples]
    return white
