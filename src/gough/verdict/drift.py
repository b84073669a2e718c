"""Efforts that change from period to period: their mean describes no period."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.statistics import student_tail
from gough.fitting.acceptance import FAMILY_WISE_ERROR
from gough.identification.diagnosis import NamedFault
from gough.processing import ProcessedLog

MIN_PERIODS = 4  # for a trend over periods
MIN_DRIFT = 0.01  # change of an effort over a log that matters


def drifting_efforts(processed: Sequence[ProcessedLog]) -> list[NamedFault]:
    """Return efforts that fall or grow over the periods of a log by more than 1 %."""
    faults = []
    for log in processed:
        if log.repetitions is None or len(log.repetitions) < MIN_PERIODS:
            continue
        names = log.model.mechanism.actuated
        for k, name in enumerate(names):
            change, std, chance = _trend(log.repetitions[:, :, k])
            if chance * len(names) * len(processed) < FAMILY_WISE_ERROR and abs(change) > MIN_DRIFT:
                faults.append(_fault(log.source, name, change, std))
    return faults


def _trend(periods: FloatArray) -> tuple[float, float, float]:
    """Return relative change over all periods, its standard error, and the chance of it.

    g_k = tau_k . tau / tau . tau of period k with the mean period tau, and a line through
    g_1 ... g_n.

    Args:
        periods: Effort of each period, (n, t).
    """
    n = len(periods)
    number = np.arange(n) - (n - 1) / 2
    mean = periods.mean(axis=0)
    gains = periods @ mean / max(float(mean @ mean), TINY)
    slope = float(number @ gains / (number @ number))
    residual = gains - gains.mean() - slope * number
    error = float(np.sqrt(residual @ residual / (n - 2) / (number @ number)))
    chance = 2 * float(student_tail(abs(slope) / max(error, TINY), n - 2))
    start = float(gains.mean()) - slope * n / 2
    if start == 0:
        return 0.0, 0.0, 1.0
    return slope * n / start, abs(error * n / start), chance


def _fault(source: str, motor: str, change: float, std: float) -> NamedFault:
    verb = "falls" if change < 0 else "grows"
    return NamedFault(
        name="drift",
        place=motor,
        logs=(source,),
        size=(change,),
        std=(std,),
        unit="1",
        text=f"the effort of {motor} {verb} along the log by {100 * abs(change):.2g} +- "
        f"{100 * std:.1g} %",
        advice="friction or magnets warm up: record after a warm-up, or use only the last periods",
    )
