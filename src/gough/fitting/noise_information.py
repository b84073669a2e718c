"""Signal-to-noise ratio of the regressor columns, and attenuation by position noise.

Noisy accelerations fill columns that the motion does not excite, and
least squares then reports standard errors that are too small. So noise
of the same size is added to the positions once more, and the regressor
is computed again.

With W the whitened regressor and D its change, the component of column
k orthogonal to the other columns is W c_k with

    c_k = (W^T W)^-1 e_k / [(W^T W)^-1]_kk,    ratio_k = |W c_k|^2 / E|D c_k|^2.

|W c_k|^2 is the information on parameter k, whatever the other parameters; E|D c_k|^2 is
the contribution of noise. Least squares attenuates the estimate by about 1 - 1 / ratio_k,
if the columns of the others have no noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.notices import Notice
from gough.fitting.regression import Regression
from gough.fitting.solve import solve

# Signal-to-noise ratio below which a parameter is not observed: noise
# is more than a third of the information
MIN_OBSERVED_RATIO = 3.0


def information_over_noise(
    rows: FloatArray, changes: FloatArray, parameters: Sequence[str]
) -> FloatArray:
    """Return the signal-to-noise ratio of each parameter, infinite without noise, (p,). [1]

    About 1 means that the information is noise alone.

    Args:
        rows: W, or a triangular factor of it, (k, p).
        changes: D of equally many rows, or a matrix with the expected
            Gram matrix of D, (l, p).
        parameters: Names of the columns.
    """
    root = _inverse_root(rows, parameters)
    inverse = root @ root.T
    variance = np.diag(inverse)
    noise = ((changes @ (inverse / variance)) ** 2).sum(axis=0)  # |D c_k|^2
    ratio = np.full(len(variance), np.inf)
    np.divide(1 / variance, noise, out=ratio, where=noise > 0)
    return ratio


def attenuation(
    rows: FloatArray,
    changes: FloatArray,
    values: FloatArray,
    parameters: Sequence[str],
) -> FloatArray:
    """Return the attenuation of least-squares values x by position noise, (p,).

    (G - N)^-1 N x with G = W^T W and N = E[D^T D]; where N is nearly G,
    it is limited by `MIN_OBSERVED_RATIO`.
    """
    root = _inverse_root(rows, parameters)
    scaled_changes = changes @ root
    noise_fraction, axes = np.linalg.eigh(np.asarray(scaled_changes.T @ scaled_changes))
    rotated = axes.T @ np.linalg.solve(root, values)
    factor = noise_fraction / np.maximum(1 - noise_fraction, 1 / MIN_OBSERVED_RATIO)
    return np.asarray(root @ (axes @ (factor * rotated)))


def _inverse_root(rows: FloatArray, parameters: Sequence[str]) -> FloatArray:
    """Return a square root of (W^T W)^-1, (p, p)."""
    return solve(np.column_stack([rows, np.zeros(len(rows))]), tuple(parameters)).root


def whitened_rows(problem: Regression, std: FloatArray) -> FloatArray:
    """Return a triangular factor of the valid equations, each row over its noise (r,), (k, p)."""
    weight = np.divide(1.0, std, out=np.zeros(len(std)), where=std > 0)
    white = problem.regressor * weight[:, None]
    return np.asarray(np.linalg.qr(white[problem.valid], mode="r"))


def not_observed(parameters: Sequence[str], ratio: FloatArray) -> tuple[Notice, ...]:
    """Return a notice that names parameters with a low signal-to-noise ratio, if any."""
    names = []
    for name, ratio_of_name in zip(parameters, ratio):
        if ratio_of_name < MIN_OBSERVED_RATIO:
            names.append(f"{name} ({ratio_of_name:.1f})")
    if not names:
        return ()
    notice = Notice(
        rule="not observed",
        level="info",
        where=", ".join(names),
        text="signal-to-noise ratio of the regressor column (position noise) below "
        f"{MIN_OBSERVED_RATIO:g}",
    )
    return (notice,)
