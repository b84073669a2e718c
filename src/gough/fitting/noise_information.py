"""Noise is not information: what a regressor knows of each parameter, over what noise of the
positions alone gives.

Noisy accelerations fill columns that the motion leaves empty, and least squares then reports small
standard deviations for nothing. So noise of the same size is added to the positions again, and the
regressor built again.

With W the whitened regressor and D its change, column k less what the others explain is W c_k with

    c_k = (W^T W)^-1 e_k / [(W^T W)^-1]_kk,    ratio_k = |W c_k|^2 / E|D c_k|^2.

|W c_k|^2 is the information on parameter k, whatever the other parameters; E|D c_k|^2 is what noise
adds to it. Least squares shrinks the estimate by about 1 - 1 / ratio_k, if the columns of the
others have no noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.notices import Notice
from gough.fitting.regression import Regression
from gough.fitting.solve import solve

OBSERVED = 3.0  # below, noise makes more than a third of what is known: "not observed"


def information_over_noise(
    rows: FloatArray, changes: FloatArray, parameters: Sequence[str]
) -> FloatArray:
    """Return for each parameter the information over that of noise alone, (p,); infinite without
    noise. [1]

    About 1 means that noise is all there is. `rows` are W, or a triangular factor of it, (k, p),
    `changes` D of equally many rows, or anything with the expected Gram matrix of D, (l, p).
    """
    root = _root(rows, parameters)
    inverse = root @ root.T
    known = np.diag(inverse)
    noise = ((changes @ (inverse / known)) ** 2).sum(axis=0)  # |D c_k|^2
    return np.asarray(np.divide(1 / known, noise, out=np.full(len(known), np.inf), where=noise > 0))


def attenuation(
    rows: FloatArray, changes: FloatArray, values: FloatArray, parameters: Sequence[str]
) -> FloatArray:
    """Return what noise of the positions takes from values x by least squares, (p,).

    (G - N)^-1 N x with G = W^T W and N = E[D^T D]; where N is nearly G, at most what `OBSERVED`
    allows.
    """
    root = _root(rows, parameters)
    share, axes = np.linalg.eigh(np.asarray((changes @ root).T @ (changes @ root)))
    pulled = axes.T @ np.linalg.solve(root, values)
    return np.asarray(root @ (axes @ (share / np.maximum(1 - share, 1 / OBSERVED) * pulled)))


def _root(rows: FloatArray, parameters: Sequence[str]) -> FloatArray:
    return solve(np.column_stack([rows, np.zeros(len(rows))]), tuple(parameters)).root


def whitened_rows(problem: Regression, std: FloatArray) -> FloatArray:
    """Return the regressor that counts, each row over its noise (r,), as a triangular factor, (p,
    p) or fewer rows.
    """
    weight = np.divide(1.0, std, out=np.zeros(len(std)), where=std > 0)
    return np.asarray(np.linalg.qr((problem.regressor * weight[:, None])[problem.valid], mode="r"))


def not_observed(parameters: Sequence[str], ratio: FloatArray) -> tuple[Notice, ...]:
    """Return a notice that names parameters with a low signal-to-noise ratio, if any."""
    few = [f"{name} ({value:.1f})" for name, value in zip(parameters, ratio) if value < OBSERVED]
    if not few:
        return ()
    notice = Notice(
        rule="not observed",
        level="info",
        where=", ".join(few),
        text=f"signal-to-noise ratio of the regressor column (position noise) below {OBSERVED:g}",
    )
    return (notice,)
