"""Alerts of a fleet: drifts, faults, and robots or periods with an unusual residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.executors import Executor, outcome_of
from gough.core.notices import Notice
from gough.core.statistics import (
    normal_quantile,
    robust_scale,
    robust_scores,
    student_quantile,
)
from gough.fleets.faults import (
    FaultTask,
    FoundFault,
    Kind,
    fault_sensitivities,
    find_faults,
)
from gough.fleets.hierarchy import Drifts, Trend
from gough.fleets.history import DAY, FleetLog, RobotHistory, date_of, spread_logs
from gough.fleets.misfiled import owners_of_period
from gough.fleets.outliers import find_outlying_robots, robot_scatter
from gough.processing.many_logs import NOT_THE_LOG, Collected, Job, name_of

# logs of a robot that are diagnosed, beside one of an unusual period
DIAGNOSED_LOGS = 3
CERTAIN_SCORE = 100.0  # severity of what needs no statistics
MAX_FAULTS_NAMED = 2  # faults reported for one robot


class Alert(NamedTuple):
    """Something about one robot that somebody should check."""

    robot: str  # name of the robot
    kind: str  # `drift`, `fault`, `log` (of another robot) or `unexplained`
    text: str  # what is the case
    score: float  # severity: distance from the usual [standard deviations]
    advice: str = ""  # what to do
    # first days of the affected periods; all periods if empty
    days: tuple[str, ...] = ()


class _Unusual(NamedTuple):
    """A robot, or one of its periods, that differs from the others."""

    score: float  # in standard deviations
    robot: int
    periods: tuple[int, ...]  # the most unusual first; empty: the whole robot
    text: str
    by_residual: bool = True  # else by its parameters
    # other unusual periods, whose reason is known
    explained: tuple[int, ...] = ()


class UnusualRobots(NamedTuple):
    """The robots of a fleet that differ from the others, and what the others are like."""

    unusual: tuple[_Unusual, ...]  # the most unusual first
    kind: Kind  # parameters of the other robots
    typical: RobotHistory  # of the other robots


def drift_alerts(
    histories: Sequence[RobotHistory],
    drift: Drifts | None,
    trending: Sequence[str],
) -> list[Alert]:
    """Return the significant drifts, the smallest p-value first.

    Args:
        histories: The robots.
        drift: Tests of the robots that have a trend, or None.
        trending: Names of these robots.
    """
    alerts: list[tuple[float, Alert]] = []
    for history in histories:
        if drift is None or history.trend is None:
            continue
        row = trending.index(history.robot)
        for k in np.flatnonzero(drift.significant[row]):
            p_value = float(drift.p[row, k])
            alert = Alert(
                history.robot,
                "drift",
                f"{_drift_text(history, history.trend, int(k))} (p = {p_value:.1g})",
                _drift_score(history.trend, int(k)),
                "check bearings, seals, belts and brakes of this joint",
            )
            alerts.append((p_value, alert))
    alerts.sort(key=lambda pair: pair[0])
    return [alert for _, alert in alerts]


def _drift_score(trend: Trend, k: int) -> float:
    """Return the change of parameter k over its standard error; finite without noise too."""
    change = abs(float(trend.change[k]))
    return change / max(float(trend.std[k]), np.finfo(float).eps * change)


def _drift_text(history: RobotHistory, trend: Trend, k: int) -> str:
    """Return the change of parameter k over the whole time, in words."""
    estimate = history.estimate
    change = trend.change[k]
    relative = ""
    if abs(estimate.values[k]) > 2 * abs(estimate.std[k]):
        relative = f" ({100 * change / abs(estimate.values[k]):+.0f} %)"
    days = float(np.ptp(history.starts)) / DAY
    return (
        f"{estimate.parameters[k]} changes by {change:+.3g} +- {trend.std[k]:.2g} "
        f"{estimate.units[k]}{relative} in {days:.0f} days"
    )


def find_unusual(
    histories: Sequence[RobotHistory], covariances: FloatArray, job: Job, level: float
) -> UnusualRobots:
    """Find robots and periods that differ from the others.

    A robot is unusual by its residual, or by parameters far from those
    of the kind in a direction in which a fault of a drive or encoder
    changes them; a period is unusual by its residual.

    Args:
        histories: The robots.
        covariances: Of errors of the estimates that robots do not
            share, (n, p, p).
        job: How logs were processed.
        level: False-alarm probability.
    """
    robot_scores, period_scores = residual_scores(histories)
    # what a fault does to the estimate is the same for all robots of a
    # kind
    any_robot = typical_robot(histories)
    parameters = any_robot.estimate.parameters
    sensitivities = fault_sensitivities(job, _logs_to_diagnose(any_robot), parameters)
    outliers = find_outlying_robots(histories, covariances, sensitivities, level)
    limits = score_limits(histories, level)
    unusual = unusual_robots(histories, robot_scores, period_scores, outliers.distances, limits)
    return UnusualRobots(
        unusual=tuple(unusual),
        kind=Kind(parameters, outliers.common.common, robot_scatter(outliers.common)),
        typical=typical_robot(histories, [one.robot for one in unusual]),
    )


def fault_alerts(
    histories: Sequence[RobotHistory],
    comparison: UnusualRobots,
    collected: Collected,
    job: Job,
    max_diagnosed: int,
    executor: Executor,
) -> tuple[list[Alert], list[Notice]]:
    """Return alerts for unusual robots and periods, and notices of periods without explanation.

    The most unusual ones are diagnosed.

    Args:
        histories: The robots.
        comparison: Those that are unusual, and what the others are
            like.
        collected: Statistics of all logs.
        job: How logs were processed.
        max_diagnosed: Most robots to diagnose.
        executor: Runs the diagnoses.
    """
    alerts, unusual = misfiled_alerts(histories, comparison.unusual, collected)
    answers: dict[int, Any] = {}
    if unusual and max_diagnosed:
        # faults of a typical robot belong to the model, not to a robot
        typical_faults = _typical_faults(job, comparison.typical)
        tasks = []
        for one in unusual[:max_diagnosed]:
            logs = _logs_to_diagnose(histories[one.robot], one.periods, one.explained)
            kind = None if one.periods else comparison.kind
            tasks.append(FaultTask(job, logs, kind, one.by_residual, typical_faults))
        answers = dict(executor.run(find_faults, tasks))
    for answer in answers.values():
        if isinstance(answer, NOT_THE_LOG):
            raise answer
    notices: list[Notice] = []
    for n, one in enumerate(unusual):
        history = histories[one.robot]
        robot = history.robot
        days = tuple(_day(history, period) for period in sorted(one.periods))
        text = f"{one.text}, {one.score:.1f} standard deviations"
        faults, reason = _explanation(answers.get(n))
        for fault in faults[:MAX_FAULTS_NAMED]:
            alerts.append(
                Alert(robot, "fault", f"{text}: {fault.text}", one.score, fault.advice, days)
            )
        if faults:
            continue
        text = f"{text}: {reason}"
        if len(one.periods) == 1:  # one bad log is no reason to send somebody to a robot
            notices.append(Notice(rule="unexplained", level="info", where=robot, text=text))
        else:
            alerts.append(Alert(robot, "unexplained", text, one.score, days=days))
    return alerts, notices


def misfiled_alerts(
    histories: Sequence[RobotHistory],
    unusual: Sequence[_Unusual],
    collected: Collected,
) -> tuple[list[Alert], list[_Unusual]]:
    """Return alerts for periods that belong to another robot, and the remaining unusual ones."""
    alerts = []
    remaining = []
    # the parameters of a robot that its own logs do not fit explain no
    # log
    misfitting = {one.robot for one in unusual if one.by_residual and not one.periods}
    for one in unusual:
        history = histories[one.robot]
        periods = []
        misfiled = []
        for period in one.periods:
            owners = owners_of_period(histories, one.robot, period, collected, misfitting)
            if not owners:
                periods.append(period)
                continue
            misfiled.append(period)
            day = _day(history, period)
            names = ", ".join(name_of(log) for log in history.logs[period])
            other = " or ".join(histories[owner].robot for owner in owners)
            alerts.append(
                Alert(
                    history.robot,
                    "log",
                    f"its log of {day} ({names}) does not fit its parameters, but those of {other}",
                    one.score,
                    f"check whether the log was recorded on {other}",
                    (day,),
                )
            )
        if periods and misfiled:
            one = one._replace(
                periods=tuple(periods),
                text=_unusual_days(history, periods),
                explained=tuple(misfiled),
            )
        if periods or not one.periods:
            remaining.append(one)
    return alerts, remaining


def shared_file_alerts(groups: Sequence[Sequence[FleetLog]]) -> list[Alert]:
    """Return an alert for each robot under which a file of another one is filed too."""
    alerts = []
    for group in groups:
        names = ", ".join(f"{name_of(log.path)} of {log.robot}" for log in group)
        for log in group:
            alerts.append(
                Alert(
                    log.robot,
                    "log",
                    f"one log is filed under several robots: {names} have the same content; it is "
                    "used for none of them",
                    CERTAIN_SCORE,
                    "find out which robot recorded it, and remove the others from the table",
                    (date_of(log.local_time)[:10],),
                )
            )
    return alerts


def typical_robot(histories: Sequence[RobotHistory], left_out: Sequence[int] = ()) -> RobotHistory:
    """Return the robot with the median residual.

    Args:
        histories: The robots.
        left_out: Robots that are not typical, unless all are.
    """
    robot_scores, _ = residual_scores(histories)
    order = [int(k) for k in np.argsort(robot_scores)]
    usual = [k for k in order if k not in left_out] or order
    return histories[usual[len(usual) // 2]]


def residual_scores(
    histories: Sequence[RobotHistory],
) -> tuple[FloatArray, list[FloatArray]]:
    """Compare residuals between robots and between periods of a robot.

    Returns:
        Robust scores of the worst joint: of each robot, (n,), and of
            its periods, (t,) each.
    """
    tiny = np.finfo(float).tiny
    log_residuals = [np.log(np.maximum(history.residual, tiny)) for history in histories]
    medians = np.array([np.median(residual, axis=0) for residual in log_residuals])  # (n, r)
    deviations = [residual - median for residual, median in zip(log_residuals, medians)]
    within = np.concatenate(deviations)
    ends = np.cumsum([len(residual) for residual in log_residuals])
    # The rms of n equations scatters by 1 / sqrt(2 n). Deviations from
    # medians of few periods may scatter less, as the periods in the
    # middle are the medians.
    n_valid = np.concatenate([history.n_valid for history in histories])
    noise_scale = 1 / np.sqrt(2 * np.maximum(np.median(n_valid, axis=0), 1.0))
    period_scores = np.split(robust_scores(within, noise_scale).max(axis=1), ends[:-1])
    # The median of T periods scatters by sqrt(pi / 2 T) of one. The
    # scatter of a few robots may be smaller by chance.
    least_scale = robust_scale(within) * np.sqrt(np.pi / 2 * len(histories) / len(within))
    robot_scores = robust_scores(medians, least_scale).max(axis=1)
    return robot_scores, period_scores


class ScoreLimits(NamedTuple):
    """Scores beyond which residuals are unusual."""

    robot: float
    period: float


def score_limits(histories: Sequence[RobotHistory], level: float) -> ScoreLimits:
    """Return the limits of scores; `level` is the probability that any in a fleet is beyond.

    The scatter between robots is that of a few robots: Student's t.
    """
    n_rows = histories[0].residual.shape[1]
    n_periods = sum(len(history.residual) for history in histories)
    probability = 1 - level / (n_rows * (n_periods + len(histories)))
    return ScoreLimits(
        robot=float(student_quantile(probability, len(histories) - 1)),
        period=float(normal_quantile(probability)),
    )


def unusual_robots(
    histories: Sequence[RobotHistory],
    robot_scores: FloatArray,
    period_scores: Sequence[FloatArray],
    distances: dict[int, float],
    limits: ScoreLimits,
) -> list[_Unusual]:
    """Return robots and periods beyond their limits, the most unusual first.

    A robot that is unusual as a whole may have unusual periods too:
    these are an entry of their own.
    """
    unusual = []
    for i, history in enumerate(histories):
        scores = period_scores[i]
        if robot_scores[i] > limits.robot:
            text = "residual is unusually large in all its logs"
            unusual.append(_Unusual(float(robot_scores[i]), i, (), text))
        elif i in distances:
            text = "its parameters are not those of the other robots"
            unusual.append(_Unusual(distances[i], i, (), text, by_residual=False))
        periods = [int(k) for k in np.argsort(-scores) if scores[k] > limits.period]
        if periods:
            text = _unusual_days(history, periods)
            unusual.append(_Unusual(float(scores[periods[0]]), i, tuple(periods), text))
    unusual.sort(key=lambda one: -one.score)
    return unusual


def _unusual_days(history: RobotHistory, periods: Sequence[int]) -> str:
    """State when the residual of a robot is unusual, the most unusual period with its log."""
    worst = f"{_day(history, periods[0])} ({name_of(history.logs[periods[0]][0])})"
    if len(periods) == 1:
        return f"residual is unusually large on {worst}"
    days = ", ".join(_day(history, period) for period in sorted(periods))
    return f"residual is unusually large on {len(periods)} days ({days}), most on {worst}"


def _day(history: RobotHistory, period: int) -> str:
    """Return the first day of a period as an ISO date."""
    return date_of(history.starts[period])[:10]


def _explanation(answer: Any) -> tuple[list[FoundFault], str]:
    """Return faults, and why there are none.

    Args:
        answer: Faults, the error of a diagnosis, or None if there was
            none.
    """
    if answer is None:
        return [], "not diagnosed"
    if not isinstance(answer, list):
        return [], str(answer)
    return list(dict.fromkeys(answer)), "no known fault explains it"


def _typical_faults(job: Job, typical: RobotHistory) -> frozenset[str]:
    """Return the names of faults that a typical robot shows; none if it cannot be diagnosed."""
    answer = outcome_of(find_faults, FaultTask(job, _logs_to_diagnose(typical)))
    if isinstance(answer, NOT_THE_LOG):
        raise answer
    faults, _ = _explanation(answer)
    return frozenset(fault.name for fault in faults)


def _logs_to_diagnose(
    history: RobotHistory, periods: Sequence[int] = (), explained: Sequence[int] = ()
) -> tuple[str, ...]:
    """Return a log of the most unusual period, if any, and some usual ones spread over time.

    Args:
        history: The robot.
        periods: Unusual periods, the most unusual first.
        explained: Other unusual periods.
    """
    unusual = tuple(history.logs[k][0] for k in periods[:1])
    return (*unusual, *spread_logs(history, DIAGNOSED_LOGS, (*periods, *explained)))
