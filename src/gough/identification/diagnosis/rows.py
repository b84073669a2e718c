"""Weighted least squares that always answers: what diagnosis fits while it tries things out."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import FloatArray


def fit_rows(W: FloatArray, y: FloatArray, passes: int = 4) -> tuple[FloatArray, FloatArray, float]:
    """Return weighted least squares with iterated row weights: values (p,), their white sigmas, relative error.

    The error is the geometric mean over the rows of rms residual over rms effort, (n / (n - p))^(1/2) times: it does
    not change with the unit of a row, and a row that is hard to predict does not drown the others.
    """
    s, r, p = W.shape
    size = np.sqrt((y**2).mean(axis=0))
    size = np.where(size > 0, size, 1.0)  # a dead row has no size of its own
    weight = size.copy()
    length = np.maximum(np.linalg.norm((W / size[:, None]).reshape(-1, p), axis=0), 1e-300)
    values, rms = np.zeros(p), size
    for _ in range(passes):
        stacked = (W / weight[:, None]).reshape(-1, p) / length
        values = np.linalg.lstsq(stacked, (y / weight).ravel(), rcond=1e-9)[0] / length
        rms = np.sqrt(((y - W @ values) ** 2).mean(axis=0) * s * r / max(s * r - p, 1))
        weight = np.maximum(rms, 1e-6 * size)
    stacked = (W / weight[:, None]).reshape(-1, p) / length
    spread = np.linalg.pinv(stacked.T @ stacked, rcond=1e-12, hermitian=True)
    error = float(np.exp(np.mean(np.log(np.maximum(rms / size, 1e-12)))))
    return values, np.sqrt(np.maximum(np.diag(spread), 0.0)) / length, error
