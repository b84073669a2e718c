"""What machines of one kind have in common, and how each one differs: random effects from estimates alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, Value, check_shape
from gough.core.errors import InvalidInput

ITERATIONS, TOLERANCE = 2000, 1e-6  # of the variances, relative to the larger of variance and sampling variance


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy(Value):
    """Common values and those of each machine.

    Args:
        common, common_std: Mean of the kind and its standard deviation, (p,).
        between: Standard deviation from machine to machine, (p,).
        values, std: Of each machine, with what the others tell, (n, p).
        own: Share of a machine's own data in its value, from 0 (all borrowed) to 1, (n, p).
    """

    common: FloatArray
    common_std: FloatArray
    between: FloatArray
    values: FloatArray
    std: FloatArray
    own: FloatArray


def hierarchy(values: FloatArray, covariances: FloatArray) -> Hierarchy:
    """Return the common part of n machines' estimates and the best value of each.

    x_i = mu + b_i + e_i, b_i ~ N(0, D) with D diagonal, e_i ~ N(0, S_i) known. With V_i = D + S_i and
    P = sum_i V_i^-1:  mu = P^-1 sum_i V_i^-1 x_i,  b_i = D V_i^-1 (x_i - mu). D maximises the restricted likelihood, by

        d_k <- d_k sqrt(sum_i (V_i^-1 (x_i - mu))_k^2 / sum_i (V_i^-1 - V_i^-1 P^-1 V_i^-1)_kk)

    (Zhou, Hu, Zhou and Lange 2019, "MM algorithms for variance components models"). Variances of the values are those
    of prediction, with twice Prasad and Rao's term for not knowing D: w = (V_i^-1)_kk, 2 w (1 - d_k w)^2 2 / sum_i w^2.

    Args:
        values: Estimates, (n, p).
        covariances: Of their errors, (n, p, p).

    Raises:
        InvalidInput: Fewer than three machines.
    """
    n, p = values.shape
    check_shape(covariances, (n, p, p), "covariances of the machines")
    if n < 3:
        raise InvalidInput(f"{n} machines have no common part to speak of; expected three or more")
    noise = np.sqrt(np.median(np.diagonal(covariances, axis1=1, axis2=2), axis=0))
    unit = np.maximum(noise, np.finfo(float).tiny)
    x, S = values / unit, covariances / np.outer(unit, unit)
    d = np.maximum(x.var(axis=0, ddof=1) - 1.0, 0.1)
    for _ in range(ITERATIONS):
        inverse = np.linalg.inv(S + np.diag(d))
        P = np.linalg.inv(inverse.sum(axis=0))
        mu = P @ np.einsum("npq,nq->p", inverse, x)
        score = np.einsum("npq,nq->np", inverse, x - mu)
        trace = (np.einsum("npp->p", inverse) - np.einsum("npq,qr,nrp->p", inverse, P, inverse, optimize=True))
        before, d = d, d * np.sqrt((score**2).sum(axis=0) / np.maximum(trace, np.finfo(float).tiny))
        if (np.abs(d - before) < TOLERANCE * np.maximum(d, 1.0)).all():
            break
    shrink = d[:, None] * inverse  # D V^-1, (n, p, p)
    kept = np.eye(p) - shrink
    spread = np.einsum("npq,qr,nsr->nps", kept, P, kept, optimize=True) + np.diag(d) - shrink * d
    w = np.diagonal(inverse, axis1=1, axis2=2)
    doubt = 4.0 * w * (1.0 - d * w) ** 2 / (w**2).sum(axis=0)
    variance = np.diagonal(spread, axis1=1, axis2=2) + doubt
    return Hierarchy(common=mu * unit, common_std=np.sqrt(np.diag(P)) * unit, between=np.sqrt(d) * unit,
                     values=(mu + np.einsum("npq,nq->np", shrink, x - mu)) * unit,
                     std=np.sqrt(np.maximum(variance, 0.0)) * unit, own=np.clip(d * w, 0.0, 1.0))
