"""How informative a regressor is: one number, and its gradient.

With the regressor Psi of all samples and the effort covariance Sigma, W stands for Sigma^-1/2 Psi,
so that W^T W is the information (AH09 (9)-(11)), and s_1 >= ... >= s_b are its singular values. All
criteria are to be made small:

    d       -ln det(W^T W) = -2 sum ln s_i            volume of the confidence ellipsoid, AH09 (22)
    cond    s_1 / s_b of Psi itself, not whitened     AH09 (21)
    a       trace (W^T W)^-1 = sum s_i^-2             mean variance of the parameters
    e       1 / smallest eigenvalue of W^T W = s_b^-2  largest variance of any direction

d does not care about the units of the parameters; the others do, and are evaluated in SI units.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.linalg import qr

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest

Criterion = Literal["d", "cond", "a", "e"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
RANK = 1e-13  # ratio of singular values below which the information counts as singular


def criterion_value(criterion: Criterion, factor: FloatArray) -> float:
    """Return a criterion of W, or of any factor with the same W^T W, (k, b); infinite if it is
    singular.
    """
    s = np.asarray(np.linalg.svd(factor, compute_uv=False), dtype=float)
    return _of_values(criterion, np.pad(s, (0, factor.shape[1] - len(s))))[0]


def criterion_gradient(criterion: Criterion, W: FloatArray) -> tuple[float, FloatArray]:
    """Return a criterion of W (k, b) and its derivative by each entry of W, (k, b).

    dc/dW = sum_i dc/ds_i u_i v_i^T = W V diag(dc/ds_i / s_i) V^T
    """
    R = qr(W, mode="r", check_finite=False)[0][: W.shape[1]]
    _, s, Vt = np.linalg.svd(R)
    s = np.pad(s, (0, W.shape[1] - len(s)))  # fewer rows than parameters: zeros
    value, slope = _of_values(criterion, s)
    if not np.isfinite(value):
        return value, np.zeros_like(W)
    return value, W @ ((Vt.T * (slope / s)) @ Vt)


def _of_values(criterion: Criterion, s: FloatArray) -> tuple[float, FloatArray]:
    """Return a criterion of the singular values (b,), in descending order, and its derivative by
    them.
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"no criterion '{criterion}'{nearest(criterion, CRITERIA)}")
    slope = np.zeros_like(s)
    if not s[-1] > RANK * s[0]:
        return float("inf"), slope
    if criterion == "d":
        return float(-2 * np.log(s).sum()), -2 / s
    if criterion == "a":
        return float((s**-2).sum()), -2 / s**3
    if criterion == "e":
        slope[-1] = -2 / s[-1] ** 3
        return float(s[-1] ** -2), slope
    slope[-1] = -s[0] / s[-1] ** 2
    slope[0] += 1 / s[-1]
    return float(s[0] / s[-1]), slope
