"""What changes over time, with a stated chance of a false alarm; temperature told apart where it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, Value
from gough.core.errors import InvalidInput
from gough.core.statistics import holm, normal_quantile, student_quantile, student_tail

FEWEST = 3  # periods beyond the unknowns of a trend, below which its scatter says too little
POWER = 0.95  # of finding the smallest drift that is told


@dataclass(frozen=True, kw_only=True, eq=False)
class Trend(Value):
    """Straight lines through the values of one machine over time, one for each parameter.

    Args:
        change, std: Over the whole time, (p,).
        freedom: Degrees of freedom behind it.
        temperature, temperature_std: Change with temperature, (p,), zeros where it is not known. [1 / K]
        fitted: Values on the line, (t, p).
        p, temperature_p: Chance of a change this large if there is none, for this parameter alone, (p,).
    """

    change: FloatArray
    std: FloatArray
    freedom: float
    temperature: FloatArray
    temperature_std: FloatArray
    fitted: FloatArray
    p: FloatArray
    temperature_p: FloatArray


def trend(time: FloatArray, values: FloatArray, std: FloatArray, temperature: FloatArray | None = None) -> Trend | None:
    """Fit value = a + change (t - t_mean) / span + b (T - T_mean) by least squares weighted with std^-2.

    The scatter about the line, and not `std`, decides what is chance: std only weighs. So a scale of std that is wrong
    for all periods alike does no harm.

    Args:
        time: Of the periods, (t,).
        values, std: Of the parameters, (t, p).
        temperature: Of the periods, (t,), or None; not a number where it was not recorded: then of none.

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
    inverse = np.linalg.pinv(np.einsum("ti,tp,tj->pij", X, weight, X, optimize=True), hermitian=True)
    solution = np.einsum("pij,tj,tp->pi", inverse, X, weight * values, optimize=True)
    scatter = (weight * (values - X @ solution.T) ** 2).sum(axis=0) / freedom
    variance = np.diagonal(inverse, axis1=1, axis2=2) * scatter[:, None]
    sigma, none = np.sqrt(np.maximum(variance, np.finfo(float).tiny)), np.zeros(p)
    chance = 2 * student_tail(np.abs(solution) / sigma, freedom)
    return Trend(change=solution[:, 1], std=sigma[:, 1], freedom=freedom, fitted=X @ solution.T,
                 temperature=solution[:, 2] if warm else none, temperature_std=sigma[:, 2] if warm else none,
                 p=chance[:, 1], temperature_p=chance[:, 2] if warm else none + 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drifts(Value):
    """Which of many trends are more than chance.

    Args:
        p: Chance, corrected for all trends tested together (Holm), (n, p).
        found: It is below the level, (n, p).
        least: Change that would be found in 95 of 100 cases, (n, p).
    """

    p: FloatArray
    found: BoolArray
    least: FloatArray


def drifts(trends: list[Trend], level: float) -> Drifts:
    """Test all trends of a fleet together: the chance of naming any although nothing drifts is `level`.

    Raises:
        InvalidInput: No trend.
    """
    if not trends:
        raise InvalidInput("there is no trend to test; more periods are needed")
    p = np.array([each.p for each in trends])
    corrected = holm(p.reshape(-1)).reshape(p.shape)
    alone = [float(student_quantile(1 - level / (2 * p.size), each.freedom)) for each in trends]
    least = np.array([(limit + normal_quantile(POWER)) * each.std for limit, each in zip(alone, trends)])
    return Drifts(p=corrected, found=corrected < level, least=least)
