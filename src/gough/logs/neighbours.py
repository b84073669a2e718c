"""What is usual near a sample: medians and resolution of its neighbours.

All of it is local, so that a log gives the same whether it is read whole or in blocks.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import median_filter, minimum_filter1d

from gough.core.arrays import FloatArray

NEIGHBOURS = 16  # samples on each side that tell what is usual
# Samples on each side that the functions of this file depend on, with some to spare.
NEIGHBOUR_REACH = 2 * NEIGHBOURS + 8


def median_around(values: FloatArray, reach: int) -> FloatArray:
    """Return the running median over 2 `reach` + 1 samples of each column, (t, k)."""
    return np.asarray(median_filter(values, size=(2 * reach + 1, 1), mode="nearest"))


def usual_size(values: FloatArray, skip: int = 2) -> FloatArray:
    """Return the usual magnitude of the neighbours of each sample, (t, k).

    The larger of two medians of |values|, over `NEIGHBOURS` samples before and after it, so
    that a signal that is quiet on one side only is measured by the other side.

    Args:
        values: Samples by column, (t, k).
        skip: Samples on each side that do not count.
    """
    half = NEIGHBOURS // 2
    median = median_around(np.abs(values), half)
    n = len(median)
    distance = half + skip + 1
    before = np.maximum(np.arange(n) - distance, 0)
    after = np.minimum(np.arange(n) + distance, n - 1)
    return np.maximum(median[before], median[after])


def local_resolution(values: FloatArray) -> FloatArray:
    """Return the smallest change of the increments near each sample, (t, k).

    That is the step of an encoder, or the last digit that was printed, which changes with
    the magnitude of a number; it is tiny where the values are continuous.
    """
    change = np.abs(np.diff(values, n=2, axis=0, prepend=values[:1], append=values[-1:]))
    largest = np.abs(values).max(axis=0, initial=0.0)
    change[change <= 1e-12 * largest] = np.inf
    smallest = minimum_filter1d(change, 2 * NEIGHBOURS + 1, axis=0, mode="nearest")
    overall = change.min(axis=0, initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, overall)
    return np.where(np.isfinite(smallest), smallest, 0.0)
