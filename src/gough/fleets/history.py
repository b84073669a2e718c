"""One robot of a fleet over time, from the factors of its logs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import NotIdentifiable
from gough.core.notices import Notice
from gough.core.statistics import robust_scores
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.log_statistics import LogStatistics, merge_all
from gough.fleets.hierarchy import Trend, trend
from gough.processing.many_logs import Collected

DAY = 86400.0  # [s]
# chance of a change with time or temperature below which a residual is about the line, not the mean
LIKELY = 1e-4
# robust standard deviations from which on a period is no part of a robot's usual behaviour
FAR = 6.0


@dataclass(frozen=True, kw_only=True)
class FleetLog:
    """One log of a fleet."""

    path: str  # `log.csv@its.toml` with a description of its own
    robot: str
    time: float  # when it was recorded [s since 1970, UTC]
    temperature: float = float(
        "nan"
    )  # of the robot, if it was recorded [K or degC, the same for all]


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotHistory:
    """One robot over time, in t periods."""

    robot: str
    estimate: Estimate  # from all its logs
    starts: FloatArray  # (t,) [s since 1970]
    temperature: FloatArray  # mean of the logs of each period, (t,)
    values: FloatArray  # of the parameters in each period, (t, p)
    std: FloatArray  # by scatter
    residual: FloatArray  # rms of what its own line or mean leaves, (t, r) [row unit]
    trend: Trend | None  # without periods that stand out; None where there are too few
    logs: tuple[tuple[str, ...], ...]  # paths of each period
    notices: tuple[Notice, ...] = ()  # periods with too few data


class RobotLogs(NamedTuple):
    """The logs of one robot by the start of their period, and their factors."""

    robot: str
    periods: dict[float, list[FleetLog]]
    collected: Collected


def date_of(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).isoformat()


def tasks_of(collected: Collected, logs: Sequence[FleetLog], period: float) -> list[RobotLogs]:
    """Return the logs that count by robot and period; of copies only the first counts."""
    length, groups = period * DAY, dict[str, dict[float, list[FleetLog]]]()
    every = {log.path: log for log in logs if log.path in collected.keys}
    for log in sorted(every.values(), key=lambda log: (log.time // length, log.path)):
        groups.setdefault(log.robot, {}).setdefault(int(log.time // length) * length, []).append(
            log
        )
    found = []
    for robot, periods in sorted(groups.items()):
        own = {log.path: collected.keys[log.path] for those in periods.values() for log in those}
        found.append(RobotLogs(robot, periods, Collected(folder=collected.folder, keys=own)))
    return found


@one_blas_thread
def history_of(task: RobotLogs) -> RobotHistory:
    """Return one robot over time, from its factors alone."""
    estimator, kept, notices = WeightedLeastSquares(), [], []
    for start, logs in task.periods.items():
        factor = replace(
            task.collected, keys={log.path: task.collected.keys[log.path] for log in logs}
        ).merged()
        try:
            kept.append((start, logs, factor, estimator.fit(factor.statistics)))
        except NotIdentifiable as error:
            place = f"{task.robot}, {date_of(start)}"
            text = f"too few data of its own: {error}"
            notices.append(Notice(rule="left out", level="info", where=place, text=text))
    starts = np.array([start for start, *_ in kept])
    warm = np.array([float(np.mean([log.temperature for log in logs])) for _, logs, *_ in kept])
    usual = np.ones(len(kept), bool)
    for _ in range(
        2
    ):  # once more without periods that stand out: they are no part of what is usual
        every = merge_all(
            [partial(_itself, factor) for (_, _, factor, _), here in zip(kept, usual) if here]
        )
        whole = estimator.fit(every.statistics)
        values, std, noise = (
            np.array([getattr(e, name) for *_, e in kept]).reshape(-1, len(whole))
            for name in ("values", "std", "white_std")
        )
        line = trend(starts[usual], values[usual], noise[usual], warm[usual])
        about = np.broadcast_to(whole.values, values.shape).copy()
        if line is not None:
            moving = np.minimum(line.p, line.temperature_p) < LIKELY
            lines = np.asarray(line.fitted - line.fitted.mean(axis=0))
            about[np.ix_(usual, moving)] += lines[:, moving]
        residual = np.array(
            [
                factor.statistics.residual_statistics(own).rms
                for (_, _, factor, _), own in zip(kept, about)
            ]
        )
        far = robust_scores(np.log(np.maximum(residual, np.finfo(float).tiny))).max(axis=1) > FAR
        if not far.any() or not usual.all() or 2 * far.sum() >= len(far):
            break
        usual = ~far
    return RobotHistory(
        robot=task.robot,
        estimate=whole,
        starts=starts,
        temperature=warm,
        values=values,
        std=std,
        residual=residual,
        trend=line,
        notices=tuple(notices),
        logs=tuple(tuple(log.path for log in logs) for _, logs, *_ in kept),
    )


def _itself(factor: LogStatistics) -> LogStatistics:
    return factor
