"""Optimality criteria of a regressor, and their gradients.

With the regressor Psi of all samples and the effort covariance Sigma, W = Sigma^-1/2 Psi is
the whitened regressor, so that W^T W is the information matrix (AH09 (9)-(11)). s_1 >= ...
>= s_b are the singular values of W. All criteria are minimised:

    d       -ln det(W^T W) = -2 sum ln s_i            volume of the confidence ellipsoid,
    AH09 (22) cond    s_1 / s_b of Psi itself, not whitened     AH09 (21)
    a       trace (W^T W)^-1 = sum s_i^-2             mean variance of the parameters
    e       1 / smallest eigenvalue of W^T W = s_b^-2  largest variance of any direction

The minimiser of d does not depend on the units of the parameters. That
of the others does; they are evaluated in SI units.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.linalg import qr

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest

Criterion = Literal["d", "cond", "a", "e"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
# The information is singular if s_b / s_1 is below this: rounding of a
# double-precision SVD.
SINGULAR_INFORMATION_RATIO = 1e-13


def criterion_value(criterion: Criterion, factor: FloatArray) -> float:
    """Return a criterion of W; infinite if the information is singular.

    Args:
        factor: W, or any other matrix with the same W^T W, (k, b).
    """
    s = np.asarray(np.linalg.svd(factor, compute_uv=False), dtype=float)
    s = np.pad(s, (0, factor.shape[1] - len(s)))
    value, _ = _from_singular_values(criterion, s)
    return value


def criterion_gradient(criterion: Criterion, W: FloatArray) -> tuple[float, FloatArray]:
    """Return a criterion of W (k, b) and its derivative by each entry of W, (k, b).

    dc/dW = sum_i dc/ds_i u_i v_i^T = W V diag(dc/ds_i / s_i) V^T
    """
    R = qr(W, mode="r", check_finite=False)[0][: W.shape[1]]
    _, s, Vt = np.linalg.svd(R)
    s = np.pad(s, (0, W.shape[1] - len(s)))  # fewer rows than parameters: zeros
    value, slope = _from_singular_values(criterion, s)
    if not np.isfinite(value):
        return value, np.zeros_like(W)
    return value, W @ ((Vt.T * (slope / s)) @ Vt)


def _from_singular_values(criterion: Criterion, s: FloatArray) -> tuple[float, FloatArray]:
    """Return a criterion and its derivative by the singular values.

    Args:
        s: Singular values in descending order, (b,).
    """
    if criterion not in CRITERIA:
        raise InvalidInput(f"no criterion '{criterion}'{nearest(criterion, CRITERIA)}")
    slope = np.zeros_like(s)
    if not s[-1] > SINGULAR_INFORMATION_RATIO * s[0]:
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
