"""One robot of a fleet over time, from the sufficient statistics of its logs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.errors import NotIdentifiable
from gough.core.notices import Notice
from gough.core.statistics import robust_scores
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.log_statistics import LogStatistics, merge_all
from gough.fleets.hierarchy import Trend, trend
from gough.fleets.period_lines import expected_parameters, may_change
from gough.processing.many_logs import Collected

DAY = 86400.0  # [s]
# robust standard deviations beyond which the residual of a period is
# not usual for the robot
UNUSUAL_PERIOD_SCORE = 6.0
# Fraction of the squared residual of a robot, in most of its periods,
# that is due to differences between periods: above it, some periods
# distort the fit to all of them.
DISTORTED_FRACTION = 0.2
# most refits to the half of the periods that fits best
CONCENTRATION_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class FleetLog:
    """One log of a fleet."""

    path: str  # `log.csv@its.toml` with a description of its own
    robot: str  # name of the robot
    time: float  # when it was recorded [s since 1970, UTC]
    # of the robot, if it was recorded [K or degC, the same for all]
    temperature: float = float("nan")
    # of the clock at the robot: local time minus UTC [s]
    utc_offset: float = 0.0

    @property
    def local_time(self) -> float:
        """Time on the clock at the robot. [s since 1970 of that clock]"""
        return self.time + self.utc_offset


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotHistory:
    """One robot over time, in t periods."""

    robot: str  # name of the robot
    estimate: Estimate  # from all its logs
    # of the periods, (t,) [s since 1970 of the clock at the robot]
    starts: FloatArray
    temperature: FloatArray  # mean of the logs of each period, (t,)
    values: FloatArray  # parameters of each period, (t, p)
    std: FloatArray  # their standard errors, (t, p)
    # rms about the robot's own line or mean, (t, r) [row unit]
    residual: FloatArray
    n_valid: IntArray  # valid equations of each period, (t, r)
    # without unusual periods; None where there are too few
    trend: Trend | None
    logs: tuple[tuple[str, ...], ...]  # paths of each period
    notices: tuple[Notice, ...] = ()  # periods with too few data


class RobotLogs(NamedTuple):
    """The logs of one robot by the start of their period, and their statistics."""

    robot: str  # name of the robot
    # by the start of the period [s since 1970, local]
    periods: dict[float, list[FleetLog]]
    collected: Collected  # statistics of all logs


class _Period(NamedTuple):
    """One period of a robot."""

    start: float  # [s since 1970, local]
    logs: list[FleetLog]
    statistics: LogStatistics
    estimate: Estimate  # from this period alone

    @property
    def temperature(self) -> float:
        """Mean of the logs."""
        return float(np.mean([log.temperature for log in self.logs]))

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the logs."""
        return tuple(log.path for log in self.logs)


class _RobotFit(NamedTuple):
    """Estimate of a robot from its usual periods, and the residual of all periods."""

    estimate: Estimate
    trend: Trend | None
    residual: FloatArray  # rms, (t, r) [row unit]


def date_of(seconds: float) -> str:
    """Return a time in seconds since 1970 of some clock as an ISO date of that clock."""
    return datetime.fromtimestamp(float(seconds), UTC).replace(tzinfo=None).isoformat()


def group_logs(collected: Collected, logs: Sequence[FleetLog], period: float) -> list[RobotLogs]:
    """Group the usable logs by robot and period; of copies only the first is used.

    Periods start at midnight of the clock at the robot.

    Args:
        collected: Statistics of the usable logs.
        logs: All logs.
        period: Length of a period. [d]
    """
    length = period * DAY
    usable = {log.path: log for log in logs if log.path in collected.keys}
    groups: dict[str, dict[float, list[FleetLog]]] = {}
    for log in sorted(usable.values(), key=lambda log: (log.local_time // length, log.path)):
        start = int(log.local_time // length) * length
        periods = groups.setdefault(log.robot, {})
        periods.setdefault(start, []).append(log)
    robots = []
    for robot, periods in sorted(groups.items()):
        keys = {}
        for logs_of_period in periods.values():
            for log in logs_of_period:
                keys[log.path] = collected.keys[log.path]
        own_statistics = Collected(folder=collected.folder, keys=keys)
        robots.append(RobotLogs(robot, periods, own_statistics))
    return robots


def spread_logs(history: RobotHistory, count: int, left_out: Sequence[int] = ()) -> tuple[str, ...]:
    """Return the first logs of some periods of a robot, spread evenly over time.

    Args:
        history: The robot.
        count: Number of periods.
        left_out: Periods that are not used.
    """
    periods = [k for k in range(len(history.logs)) if k not in left_out]
    if not periods:
        return ()
    positions = np.round(np.linspace(0, len(periods) - 1, count)).astype(int)
    return tuple(history.logs[periods[k]][0] for k in sorted(set(positions.tolist())))


@one_blas_thread
def history_of(task: RobotLogs) -> RobotHistory:
    """Return one robot over time.

    Periods with an unusually large residual are left out of its
    estimate and trend.
    """
    periods, notices = _fit_periods(task)
    starts = np.array([period.start for period in periods])
    temperature = np.array([period.temperature for period in periods])
    fit = _fit_robot(periods, starts, temperature, np.ones(len(periods), bool))
    residual = fit.residual
    if _is_distorted(periods, residual):
        residual = _concentrated_residual(periods, residual)
    log_residual = np.log(np.maximum(residual, np.finfo(float).tiny))
    unusual = robust_scores(log_residual).max(axis=1) > UNUSUAL_PERIOD_SCORE
    if unusual.any() and 2 * unusual.sum() < len(unusual):
        fit = _fit_robot(periods, starts, temperature, ~unusual)
    return RobotHistory(
        robot=task.robot,
        estimate=fit.estimate,
        starts=starts,
        temperature=temperature,
        values=np.array([period.estimate.values for period in periods]),
        std=np.array([period.estimate.std for period in periods]),
        residual=fit.residual,
        n_valid=np.array([period.statistics.statistics.n_valid for period in periods]),
        trend=fit.trend,
        notices=tuple(notices),
        logs=tuple(period.paths for period in periods),
    )


def _excess(periods: Sequence[_Period], residual: FloatArray) -> FloatArray:
    """Return squared residuals over those of each period fitted alone, (t, r)."""
    alone = np.array([period.estimate.residual_rms for period in periods])
    return np.asarray((residual / np.maximum(alone, TINY)) ** 2)


def _is_distorted(periods: Sequence[_Period], residual: FloatArray) -> bool:
    """Return whether a fit to all periods is far from most of them, for the sake of some."""
    typical_excess = np.median(_excess(periods, residual), axis=0)
    return bool(typical_excess.max() > 1 / (1 - DISTORTED_FRACTION))


def _concentrated_residual(periods: Sequence[_Period], residual: FloatArray) -> FloatArray:
    """Return the residual of all periods about a fit to the half that agrees best, (t, r).

    Unusual periods change a fit to all, so that usual periods have
    large residuals too. The fit is repeated on the half with the
    smallest residuals until that half stays the same (concentration
    steps of least trimmed squares, Rousseeuw and Van Driessen 1999).

    Args:
        periods: The periods.
        residual: About a fit to all of them, (t, r). [row unit]
    """
    n_kept = len(periods) // 2 + 1
    kept: list[int] = []
    for _ in range(CONCENTRATION_STEPS):
        order = np.argsort(_excess(periods, residual).sum(axis=1), kind="stable")
        closest = sorted(order[:n_kept].tolist())
        if closest == kept:
            break
        kept = closest
        estimate = _fit_together([periods[k] for k in kept])
        residual = _residuals(
            periods, np.broadcast_to(estimate.values, (len(periods), len(estimate)))
        )
    return residual


def _fit_together(periods: Sequence[_Period]) -> Estimate:
    """Return the estimate from all logs of some periods."""
    loaders = [partial(_itself, period.statistics) for period in periods]
    return WeightedLeastSquares().fit(merge_all(loaders).statistics)


def _residuals(periods: Sequence[_Period], parameters: FloatArray) -> FloatArray:
    """Return the rms residual of each period with its parameters, (t, p), as (t, r)."""
    residual = []
    for period, values in zip(periods, parameters):
        residual.append(period.statistics.statistics.residual_statistics(values).rms)
    return np.array(residual)


def _fit_periods(task: RobotLogs) -> tuple[list[_Period], list[Notice]]:
    """Estimate the parameters of each period; periods with too few data are left out."""
    estimator = WeightedLeastSquares()
    periods = []
    notices = []
    for start, logs in task.periods.items():
        keys = {log.path: task.collected.keys[log.path] for log in logs}
        merged = replace(task.collected, keys=keys).merged()
        try:
            estimate = estimator.fit(merged.statistics)
        except NotIdentifiable as error:
            place = f"{task.robot}, {date_of(start)}"
            text = f"too few data of its own: {error}"
            notices.append(Notice(rule="left out", level="info", where=place, text=text))
            continue
        periods.append(_Period(start, logs, merged, estimate))
    return periods, notices


def _fit_robot(
    periods: Sequence[_Period],
    starts: FloatArray,
    temperature: FloatArray,
    usual: BoolArray,
) -> _RobotFit:
    """Fit a robot to its usual periods; residuals are about parameters on lines or their mean."""
    estimate = _fit_together([period for period, is_usual in zip(periods, usual) if is_usual])
    weights = 1 / np.maximum(estimate.residual_rms, TINY) ** 2
    grams = []
    for period in periods:
        weighted = period.statistics.statistics.weighted(weights)
        grams.append(weighted.grams[:, 0].sum(axis=0))
    changing = np.array([may_change(name) for name in estimate.parameters])
    expected = expected_parameters(np.array(grams), starts, temperature, usual, changing)
    values = np.array([period.estimate.values for period in periods])
    white_std = np.array([period.estimate.white_std for period in periods])
    line = trend(starts[usual], values[usual], white_std[usual], temperature[usual])
    return _RobotFit(estimate, line, _residuals(periods, expected))


def _itself(statistics: LogStatistics) -> LogStatistics:
    return statistics
