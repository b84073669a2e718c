"""Efforts that change from period to period: their mean describes no period."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.statistics import f_tail, student_tail
from gough.fitting.acceptance import FAMILY_WISE_ERROR
from gough.identification.diagnosis import NamedFault
from gough.processing import ProcessedLog

MIN_PERIODS = 2
MIN_TREND_PERIODS = 4
MIN_DRIFT = 0.01  # change of an effort over a log that matters
PHASE_INTERVALS = 8  # of a period, in each of which a gain has to be the same
# range of evenly distributed values over their deviation
UNIFORM_RANGE = float(np.sqrt(12))


def drifting_efforts(processed: Sequence[ProcessedLog]) -> list[NamedFault]:
    """Return efforts that fall, grow or wander over the periods of a log by more than 1 %."""
    faults = []
    for log in processed:
        if log.repetitions is None or len(log.repetitions) < MIN_PERIODS:
            continue
        names = log.model.mechanism.actuated
        for k, name in enumerate(names):
            periods = log.repetitions[:, :, k]
            highest_chance = FAMILY_WISE_ERROR / (2 * len(names) * len(processed))
            if len(periods) >= MIN_TREND_PERIODS:
                change, std, chance = _trend(periods)
                if chance < highest_chance and abs(change) > MIN_DRIFT:
                    faults.append(_trend_fault(log.source, name, change, std))
                    continue
            change, std, chance = _wander(periods)
            chance = max(chance, _chance_of_equal_gains(periods))
            if chance < highest_chance and change > MIN_DRIFT:
                faults.append(_wander_fault(log.source, name, change, std))
    return faults


def _gains(periods: FloatArray) -> FloatArray:
    """Return g_k = tau_k . tau / tau . tau of period k with the mean period tau, (n,)."""
    mean = periods.mean(axis=0)
    return np.asarray(periods @ mean / max(float(mean @ mean), TINY))


def _trend(periods: FloatArray) -> tuple[float, float, float]:
    """Return relative change over all periods, its standard error, and the chance of it.

    g_k = tau_k . tau / tau . tau of period k with the mean period tau,
    and a line through g_1 ... g_n.

    Args:
        periods: Effort of each period, (n, t).
    """
    n = len(periods)
    number = np.arange(n) - (n - 1) / 2
    gains = _gains(periods)
    slope = float(number @ gains / (number @ number))
    residual = gains - gains.mean() - slope * number
    error = float(np.sqrt(residual @ residual / (n - 2) / (number @ number)))
    chance = 2 * float(student_tail(abs(slope) / max(error, TINY), n - 2))
    start = float(gains.mean()) - slope * n / 2
    if start == 0:
        return 0.0, 0.0, 1.0
    return slope * n / start, abs(error * n / start), chance


def _wander(periods: FloatArray) -> tuple[float, float, float]:
    """Return the range of the gains of periods, its standard error, and the chance of it.

    A gain is in phase with the mean period in every harmonic h, and
    stationary noise has as much power in phase as out of phase. What
    differs between the periods out of phase gives therefore the
    variance of the gains that noise causes,

        V = sum_h |T_h|^4 v_h / (sum_h |T_h|^2)^2,    v_h = sum_k Im(D_kh / T_h)^2 / (n - 1),

    T_h the harmonics of the mean period and D_kh those of a period's
    deviation from it. The variance of the gains over V is compared with
    F; the degrees of freedom of V are those of Welch and Satterthwaite.
    The range is that of evenly distributed gains.

    Args:
        periods: Effort of each period, (n, t).
    """
    n = len(periods)
    mean = np.fft.rfft(periods.mean(axis=0))[1:]
    deviations = np.fft.rfft(periods - periods.mean(axis=0), axis=1)[:, 1:]
    power = np.abs(mean) ** 2
    out_of_phase = (deviations * mean.conj()).imag ** 2
    terms = out_of_phase.sum(axis=0) / (n - 1) / max(float(power.sum()) ** 2, TINY)
    noise = float(terms.sum())
    freedom = (n - 1) * noise**2 / max(float(terms @ terms), TINY)
    in_phase = (deviations * mean.conj()).real.sum(axis=1) / max(float(power.sum()), TINY)
    variance = float(in_phase @ in_phase) / (n - 1)
    chance = float(f_tail(variance / max(noise, TINY), n - 1, max(freedom, 1.0)))
    deviation = np.sqrt(max(variance - noise, 0.0))
    error = deviation / np.sqrt(2 * (n - 1))  # of a standard deviation of n values
    return UNIFORM_RANGE * float(deviation), UNIFORM_RANGE * float(error), chance


def _chance_of_equal_gains(periods: FloatArray) -> float:
    """Return the chance that gains differ as much between periods as inside them.

    A gain is the same in all intervals b of a period, an outlier is in
    one of them. With x_kb = sum_b d_k tau / sqrt(P_b), P_b = sum_b
    tau^2, of the deviation d_k of period k from the mean period tau,
    the gain of a period is sum_b x_kb sqrt(P_b) / sum_b P_b. Its square
    is compared with that of what remains of x_kb, by F. Each interval
    is left out once, as one outlier may decide on the gain; the largest
    chance is returned.

    Args:
        periods: Effort of each period, (n, t).
    """
    mean = periods.mean(axis=0)
    deviations = periods - mean
    starts = np.arange(PHASE_INTERVALS) * len(mean) // PHASE_INTERVALS
    power = np.add.reduceat(mean**2, starts)
    products = np.add.reduceat(deviations * mean, starts, axis=1)
    chances = []
    for left_out in range(PHASE_INTERVALS):
        others = np.arange(PHASE_INTERVALS) != left_out
        chances.append(_chance_of_intervals(products[:, others], power[others]))
    return max(chances)


def _chance_of_intervals(products: FloatArray, power: FloatArray) -> float:
    """Return the chance of the gains between periods, see `_chance_of_equal_gains`.

    Args:
        products: sum_b d_k tau, (n, intervals).
        power: P_b, (intervals,).
    """
    n, n_intervals = products.shape
    scale = np.sqrt(np.maximum(power, TINY))
    projected = products / scale
    gains = projected @ scale / max(float(power.sum()), TINY)
    remaining = projected - np.outer(gains, scale)
    freedom = (n - 1) * (n_intervals - 1)
    between = float(gains @ gains) * float(power.sum()) / (n - 1)
    inside = float((remaining**2).sum()) / freedom
    return float(f_tail(between / max(inside, TINY), n - 1, freedom))


def _drift(
    source: str, motor: str, change: float, std: float, *, text: str, advice: str
) -> NamedFault:
    """Return the fault of a motor whose effort changes; `std` is the standard error."""
    return NamedFault(
        name="drift",
        place=motor,
        logs=(source,),
        size=(change,),
        std=(std,),
        unit="1",
        text=text,
        advice=advice,
    )


def _wander_fault(source: str, motor: str, change: float, std: float) -> NamedFault:
    return _drift(
        source,
        motor,
        change,
        std,
        text=f"the effort of {motor} changes from period to period, over a range of "
        f"{100 * change:.2g} +- {100 * std:.1g} %",
        advice="check the current sensor and the supply of the drive, and record again: the mean "
        "of these periods describes none of them",
    )


def _trend_fault(source: str, motor: str, change: float, std: float) -> NamedFault:
    verb = "falls" if change < 0 else "grows"
    return _drift(
        source,
        motor,
        change,
        std,
        text=f"the effort of {motor} {verb} along the log by {100 * abs(change):.2g} +- "
        f"{100 * std:.1g} %",
        advice="friction or magnets warm up: record after a warm-up, or use only the last periods",
    )
