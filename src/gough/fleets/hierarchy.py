"""Many machines of one kind: their mean, the deviation of each, and changes over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.core.record import Record
from gough.core.statistics import (
    holm,
    normal_quantile,
    student_quantile,
    student_tail,
)

# degrees of freedom below which the scatter about a trend is too
# uncertain
MIN_TREND_FREEDOM = 3
# probability of detecting the smallest detectable drift
DETECTION_POWER = 0.95
VARIANCE_ITERATIONS = 2000
# change of a variance at convergence, relative to the larger of
# variance and sampling variance
VARIANCE_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Trend(Record):
    """Straight lines through the values of one machine over time, one for each parameter."""

    change: FloatArray  # over the whole time, (p,)
    std: FloatArray  # standard error of the change, (p,)
    degrees_of_freedom: float  # of the scatter about the line
    # change with temperature, (p,), zeros where it is unknown [1 / K]
    temperature: FloatArray
    temperature_std: FloatArray  # its standard error, (p,) [1 / K]
    p: FloatArray  # p-value of the change, for this parameter alone, (p,)


def trend(
    time: FloatArray,
    values: FloatArray,
    std: FloatArray,
    temperature: FloatArray | None = None,
) -> Trend | None:
    """Fit value = a + change (t - t_mean) / span + b (T - T_mean), weighted with std^-2.

    The significance follows from the scatter about the line; `std` is
    only a weight. So a scale of std that is wrong for all periods alike
    has no effect.

    Args:
        time: Start of the periods, (t,).
        values, std: Parameters and their standard deviations, (t, p).
        temperature: Mean of the periods, (t,), or None. It is ignored
            if some are not a number.

    Returns:
        The lines, or None where there are too few periods for one.
    """
    n_periods, n_parameters = values.shape
    span = float(np.ptp(time)) if n_periods else 0.0
    if span <= 0:
        return None
    columns = [np.ones(n_periods), (time - time.mean()) / span]
    with_temperature = False
    if temperature is not None and np.isfinite(temperature).all() and np.ptp(temperature) > 0:
        with_temperature = True
        columns.append(temperature - temperature.mean())
    X = np.column_stack(columns)
    degrees_of_freedom = float(n_periods - X.shape[1])
    if degrees_of_freedom < MIN_TREND_FREEDOM:
        return None
    weight = std**-2.0
    gram = np.einsum("ti,tp,tj->pij", X, weight, X, optimize=True)
    inverse = np.linalg.pinv(gram, hermitian=True)
    solution = np.einsum("pij,tj,tp->pi", inverse, X, weight * values, optimize=True)
    fitted = X @ solution.T
    scatter = (weight * (values - fitted) ** 2).sum(axis=0) / degrees_of_freedom
    variance = np.diagonal(inverse, axis1=1, axis2=2) * scatter[:, None]
    standard_error = np.sqrt(np.maximum(variance, TINY))
    t_value = np.abs(solution[:, 1]) / standard_error[:, 1]
    none = np.zeros(n_parameters)
    return Trend(
        change=solution[:, 1],
        std=standard_error[:, 1],
        degrees_of_freedom=degrees_of_freedom,
        temperature=solution[:, 2] if with_temperature else none,
        temperature_std=standard_error[:, 2] if with_temperature else none,
        p=2 * student_tail(t_value, degrees_of_freedom),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Drifts(Record):
    """Significance of the trends of n machines."""

    # p-values, corrected for all trends tested together (Holm), (n, p)
    p: FloatArray
    significant: BoolArray  # p-value below the level, (n, p)
    # change that would be significant in 95 of 100 cases, (n, p)
    detectable: FloatArray


def drifts(trends: list[Trend], level: float) -> Drifts:
    """Test all trends of a fleet together; `level` is the probability of any false alarm."""
    if not trends:
        raise InvalidInput("there is no trend to test; more periods are needed")
    p = np.array([each.p for each in trends])
    corrected = holm(p.reshape(-1)).reshape(p.shape)
    detectable = []
    for each in trends:
        limit = student_quantile(1 - level / (2 * p.size), each.degrees_of_freedom)
        detectable.append((float(limit) + normal_quantile(DETECTION_POWER)) * each.std)
    return Drifts(
        p=corrected,
        significant=corrected < level,
        detectable=np.array(detectable),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy(Record):
    """Mean of n machines of one kind, and the best estimate of each."""

    common: FloatArray  # mean of the kind, (p,)
    common_std: FloatArray  # its standard error, (p,)
    between: FloatArray  # standard deviation between machines, (p,)
    values: FloatArray  # of each machine, shrunk towards the mean, (n, p)
    std: FloatArray  # their standard errors, (n, p)
    # fraction of a machine's own data in its value, 1 - shrinkage, (n,
    # p)
    own_fraction: FloatArray


def hierarchy(
    values: FloatArray, covariances: FloatArray, shared: FloatArray | None = None
) -> Hierarchy:
    """Estimate the mean of n machines, the scatter between them and the best value of each.

    x_i = mu + b_i + e_i, b_i ~ N(0, D) with D diagonal, e_i ~ N(0, S_i) known. With V_i = D
    + S_i and P = sum_i V_i^-1:  mu = P^-1 sum_i V_i^-1 x_i,  b_i = D V_i^-1 (x_i - mu). D
    maximises the restricted likelihood, by

        d_k <- d_k sqrt(sum_i (V_i^-1 (x_i - mu))_k^2 / sum_i (V_i^-1 - V_i^-1 P^-1
        V_i^-1)_kk)

    (Zhou, Hu, Zhou and Lange 2019, "MM algorithms for variance
    components models"). Variances of the values are those of
    prediction, with twice Prasad and Rao's term for the uncertainty of
    D: w = (V_i^-1)_kk, 2 w (1 - d_k w)^2 2 / sum_i w^2. An error that
    is the same for all machines cannot be seen between them: its
    variance is added to that of the mean and of all values.

    Args:
        values: Estimates x_i, (n, p).
        covariances: Covariances S_i of errors that are independent
            between machines, (n, p, p).
        shared: Variance of an error that is the same for all machines,
            (p,); none by default.
    """
    n, p = values.shape
    check_shape(covariances, (n, p, p), "covariances of the machines")
    if n < 3:
        raise InvalidInput(
            f"{n} machines are too few to estimate what they have in common; expected three or more"
        )
    sampling_variance = np.diagonal(covariances, axis1=1, axis2=2)
    unit = np.maximum(np.sqrt(np.median(sampling_variance, axis=0)), TINY)
    x = values / unit
    S = covariances / np.outer(unit, unit)
    d = np.maximum(x.var(axis=0, ddof=1) - 1.0, 0.1)
    for _ in range(VARIANCE_ITERATIONS):
        V_inverse = np.linalg.inv(S + np.diag(d))
        P_inverse = np.linalg.inv(V_inverse.sum(axis=0))
        mu = P_inverse @ (V_inverse @ x[:, :, None]).sum(axis=0)[:, 0]
        score = (V_inverse @ (x - mu)[:, :, None])[:, :, 0]
        correction = ((V_inverse @ P_inverse) * V_inverse).sum(axis=(0, 2))  # V is symmetric
        trace = np.einsum("npp->p", V_inverse) - correction
        before = d
        d = d * np.sqrt((score**2).sum(axis=0) / np.maximum(trace, TINY))
        if (np.abs(d - before) < VARIANCE_TOLERANCE * np.maximum(d, 1.0)).all():
            break
    gain = d[:, None] * V_inverse  # D V^-1, (n, p, p)
    shrinkage = np.eye(p) - gain
    of_mean = np.einsum("npq,qr,nsr->nps", shrinkage, P_inverse, shrinkage, optimize=True)
    prediction = of_mean + np.diag(d) - gain * d
    w = np.diagonal(V_inverse, axis1=1, axis2=2)
    of_scatter = 4.0 * w * (1.0 - d * w) ** 2 / (w**2).sum(axis=0)
    of_all = np.zeros(p) if shared is None else shared / unit**2
    variance = np.diagonal(prediction, axis1=1, axis2=2) + of_scatter + of_all
    return Hierarchy(
        common=mu * unit,
        common_std=np.sqrt(np.diag(P_inverse) + of_all) * unit,
        between=np.sqrt(d) * unit,
        values=(mu + np.einsum("npq,nq->np", gain, x - mu)) * unit,
        std=np.sqrt(np.maximum(variance, 0.0)) * unit,
        own_fraction=np.clip(d * w, 0.0, 1.0),
    )
