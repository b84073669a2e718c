"""Many machines of one kind: what they have in common, how each differs, and what changes over
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.core.record import Record
from gough.core.statistics import holm, normal_quantile, student_quantile, student_tail

FEWEST = 3  # periods beyond the unknowns of a trend, below which its scatter says too little
POWER = 0.95  # of finding the smallest drift that is told
ITERATIONS, TOLERANCE = (
    2000,
    1e-6,
)  # of the variances, relative to the larger of variance and sampling variance


@dataclass(frozen=True, kw_only=True, eq=False)
class Trend(Record):
    """Straight lines through the values of one machine over time, one for each parameter."""

    change: FloatArray  # over the whole time, (p,)
    std: FloatArray  # of the change, (p,)
    freedom: float  # degrees of freedom behind it
    temperature: FloatArray  # change with temperature, (p,), zeros where it is not known [1 / K]
    temperature_std: FloatArray
    fitted: FloatArray  # values on the line, (t, p)
    p: FloatArray  # chance of a change this large if there is none, for this parameter alone, (p,)
    temperature_p: FloatArray


def trend(
    time: FloatArray, values: FloatArray, std: FloatArray, temperature: FloatArray | None = None
) -> Trend | None:
    """Fit value = a + change (t - t_mean) / span + b (T - T_mean) by least squares weighted with
    std^-2.

    The scatter about the line, and not `std`, decides what is chance: std only weighs. So a scale
    of std that is wrong for all periods alike does no harm.

    Args:
        time: Of the periods, (t,).
        values, std: Of the parameters, (t, p).
        temperature: Of the periods, (t,), or None; not a number where it was not recorded: then of
            none.

    Returns:
        The lines, or None where there are too few periods for one.
    """
    span = float(np.ptp(time)) if len(time) else 0.0
    warm = temperature is not None and np.isfinite(temperature).all() and np.ptp(temperature) > 0
    t, p = values.shape
    if span <= 0 or t < 2 + warm + FEWEST:
        return None
    X = np.column_stack([np.ones(t), (time - time.mean()) / span])
    if warm and temperature is not None:
        X = np.column_stack([X, temperature - temperature.mean()])
    freedom = float(t - X.shape[1])
    weight = std**-2.0
    inverse = np.linalg.pinv(
        np.einsum("ti,tp,tj->pij", X, weight, X, optimize=True), hermitian=True
    )
    solution = np.einsum("pij,tj,tp->pi", inverse, X, weight * values, optimize=True)
    scatter = (weight * (values - X @ solution.T) ** 2).sum(axis=0) / freedom
    variance = np.diagonal(inverse, axis1=1, axis2=2) * scatter[:, None]
    sigma, none = np.sqrt(np.maximum(variance, TINY)), np.zeros(p)
    chance = 2 * student_tail(np.abs(solution) / sigma, freedom)
    return Trend(
        change=solution[:, 1],
        std=sigma[:, 1],
        freedom=freedom,
        fitted=X @ solution.T,
        temperature=solution[:, 2] if warm else none,
        temperature_std=sigma[:, 2] if warm else none,
        p=chance[:, 1],
        temperature_p=chance[:, 2] if warm else none + 1.0,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Drifts(Record):
    """Which of many trends are more than chance."""

    p: FloatArray  # chance, corrected for all trends tested together (Holm), (n, p)
    found: BoolArray  # it is below the level, (n, p)
    least: FloatArray  # change that would be found in 95 of 100 cases, (n, p)


def drifts(trends: list[Trend], level: float) -> Drifts:
    """Test all trends of a fleet together: the chance of naming any although nothing drifts is
    `level`.
    """
    if not trends:
        raise InvalidInput("there is no trend to test; more periods are needed")
    p = np.array([each.p for each in trends])
    corrected = holm(p.reshape(-1)).reshape(p.shape)
    alone = [float(student_quantile(1 - level / (2 * p.size), each.freedom)) for each in trends]
    least = np.array(
        [(limit + normal_quantile(POWER)) * each.std for limit, each in zip(alone, trends)]
    )
    return Drifts(p=corrected, found=corrected < level, least=least)


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy(Record):
    """What n machines of one kind have in common, and each of them."""

    common: FloatArray  # mean of the kind, (p,)
    common_std: FloatArray
    between: FloatArray  # standard deviation from machine to machine, (p,)
    values: FloatArray  # of each machine, with what the others tell, (n, p)
    std: FloatArray
    own: (
        FloatArray  # share of a machine's own data in its value, from 0 (all borrowed) to 1, (n, p)
    )


def hierarchy(values: FloatArray, covariances: FloatArray) -> Hierarchy:
    """Return the common part of n machines' estimates (n, p) with errors (n, p, p), and the best
    value of each.

    x_i = mu + b_i + e_i, b_i ~ N(0, D) with D diagonal, e_i ~ N(0, S_i) known. With V_i = D + S_i
    and P = sum_i V_i^-1:  mu = P^-1 sum_i V_i^-1 x_i,  b_i = D V_i^-1 (x_i - mu). D maximises the
    restricted likelihood, by

        d_k <- d_k sqrt(sum_i (V_i^-1 (x_i - mu))_k^2 / sum_i (V_i^-1 - V_i^-1 P^-1 V_i^-1)_kk)

    (Zhou, Hu, Zhou and Lange 2019, "MM algorithms for variance components models"). Variances of
    the values are those of prediction, with twice Prasad and Rao's term for not knowing D: w =
    (V_i^-1)_kk, 2 w (1 - d_k w)^2 2 / sum_i w^2.
    """
    n, p = values.shape
    check_shape(covariances, (n, p, p), "covariances of the machines")
    if n < 3:
        raise InvalidInput(f"{n} machines have no common part to speak of; expected three or more")
    unit = np.maximum(np.sqrt(np.median(np.diagonal(covariances, axis1=1, axis2=2), axis=0)), TINY)
    x, S = values / unit, covariances / np.outer(unit, unit)
    d = np.maximum(x.var(axis=0, ddof=1) - 1.0, 0.1)
    for _ in range(ITERATIONS):
        inverse = np.linalg.inv(S + np.diag(d))
        P = np.linalg.inv(inverse.sum(axis=0))
        mu = P @ np.einsum("npq,nq->p", inverse, x)
        score = np.einsum("npq,nq->np", inverse, x - mu)
        trace = np.einsum("npp->p", inverse) - np.einsum(
            "npq,qr,nrp->p", inverse, P, inverse, optimize=True
        )
        before, d = d, d * np.sqrt((score**2).sum(axis=0) / np.maximum(trace, TINY))
        if (np.abs(d - before) < TOLERANCE * np.maximum(d, 1.0)).all():
            break
    shrink = d[:, None] * inverse  # D V^-1, (n, p, p)
    kept = np.eye(p) - shrink
    spread = np.einsum("npq,qr,nsr->nps", kept, P, kept, optimize=True) + np.diag(d) - shrink * d
    w = np.diagonal(inverse, axis1=1, axis2=2)
    doubt = 4.0 * w * (1.0 - d * w) ** 2 / (w**2).sum(axis=0)
    variance = np.diagonal(spread, axis1=1, axis2=2) + doubt
    return Hierarchy(
        common=mu * unit,
        common_std=np.sqrt(np.diag(P)) * unit,
        between=np.sqrt(d) * unit,
        values=(mu + np.einsum("npq,nq->np", shrink, x - mu)) * unit,
        std=np.sqrt(np.maximum(variance, 0.0)) * unit,
        own=np.clip(d * w, 0.0, 1.0),
    )
