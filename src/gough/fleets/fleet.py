"""Many robots of one kind over months of ordinary logs: deviations, drifts and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.errors import GoughError, InvalidInput
from gough.core.executors import InProcess
from gough.core.names import Parameter
from gough.core.notices import Level, Notice, ResultLevel, level_of, notice_lines, ordered
from gough.core.options import (
    Settings,
    merge_settings,
    nested,
    option,
    with_settings,
)
from gough.engine import Model
from gough.engine.base import TIE_LEGS
from gough.fitting.estimate import Estimate
from gough.fleets.alerts import (
    Alert,
    drift_alerts,
    fault_alerts,
    find_unusual,
    shared_file_alerts,
)
from gough.fleets.hierarchy import Drifts, Hierarchy, drifts, hierarchy
from gough.fleets.history import (
    FleetLog,
    RobotHistory,
    date_of,
    group_logs,
    history_of,
)
from gough.fleets.kind import error_parts, judge_kind
from gough.fleets.misfiled import shared_files, without_logs
from gough.identification.many_logs import FactorSettings, carrying_of, frozen_job, sample_of
from gough.mechanism import load_robot
from gough.processing import Processing
from gough.processing.many_logs import NOT_THE_LOG, Collected, collect

# Smallest detectable drift, over the value, from which on it is stated
# as a lower limit.
WEAK_DETECTION = 0.3
# Standard errors below zero from which on a negative value contradicts
# the model.
SIGNIFICANT_DEVIATIONS = 2.0
# Columns of the table of robots that need a trend.
TREND_COLUMNS = (
    "drift",
    "drift_std",
    "drift_p",
    "drift_found",
    "smallest_drift",
    "per_kelvin",
    "per_kelvin_std",
)


@dataclass(frozen=True, kw_only=True)
class FleetSettings(Settings):
    """How the logs of a fleet are analysed."""

    period: float = option(
        1.0,
        "Time over which parameters are taken as constant.",
        unit="d",
        above=0,
    )
    false_alarms: float = option(0.01, "False-alarm probability for the whole fleet.", above=0)
    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
    carrying: str | None = option(
        None,
        "Extra channel of the logs that is on while the payload of the robot file is carried, e.g. "
        "of a gripper or a vacuum sensor; the payload is identified with each robot.",
    )
    diagnosed: int = option(
        6,
        "Largest number of robots to diagnose, the most unusual first.",
        least=0,
    )
    processing: Processing = nested(Processing)
    many: FactorSettings = nested(FactorSettings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """Parameters, deviations, drifts and alerts of a fleet of one kind."""

    kind: str  # name of the robot file's robot
    parameters: tuple[Parameter, ...]  # (p,)
    units: tuple[str, ...]  # (p,)
    histories: tuple[RobotHistory, ...]  # one for each robot
    common: Hierarchy  # mean and deviations, in the order of the histories
    # significance of the trends; rows are the robots in `trending`
    drift: Drifts | None
    trending: tuple[str, ...]  # names of the robots that have a trend
    alerts: tuple[Alert, ...]  # what to check, the surest first
    false_alarms: float  # probability of any for the whole fleet
    # logs that were left out or used once, in their order
    notices: tuple[Notice, ...]
    # what ordinary motion shows of each parameter, (p,)
    observability: tuple[str, ...]

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `warning` at least if there is an alert."""
        level = level_of(self.notices)
        return "warning" if self.alerts and level == "ok" else level

    @property
    def headline(self) -> str:
        """Size of the fleet, and how many robots to check, in one sentence."""
        n_logs = 0
        n_periods = 0
        for history in self.histories:
            n_periods += len(history.starts)
            n_logs += sum(len(paths) for paths in history.logs)
        n_alarmed = len({alert.robot for alert in self.alerts})
        return (
            f"{len(self.histories)} robots '{self.kind}', {n_periods} periods, {n_logs} logs: "
            f"{n_alarmed or 'none'} to check"
        )

    def drift_of(self, robot: str) -> int | None:
        """Return the row of a robot in `drift`, or None."""
        return self.trending.index(robot) if robot in self.trending else None

    def tables(self) -> dict[str, dict[str, list[Any]]]:
        """Return all numbers as columns of four tables: `common`, `robots`, `periods`, `alerts`."""
        robots = []
        periods = []
        for i, history in enumerate(self.histories):
            for k in range(len(self.parameters)):
                robots.append(self._robot_row(i, k))
                for t in range(len(history.starts)):
                    periods.append(self._period_row(history, t, k))
        common = {
            "parameter": [str(name) for name in self.parameters],
            "unit": list(self.units),
            "value": self.common.common.tolist(),
            "std": self.common.common_std.tolist(),
            "between_robots": self.common.between.tolist(),
            "observability": list(self.observability),
        }
        alerts = {}
        for column in Alert._fields:
            alerts[column] = [getattr(alert, column) for alert in self.alerts]
        alerts["days"] = [" ".join(alert.days) for alert in self.alerts]
        return {
            "common": common,
            "robots": _columns(robots),
            "periods": _columns(periods),
            "alerts": alerts,
        }

    def _robot_row(self, i: int, k: int) -> dict[str, Any]:
        """Return parameter k of robot i as a row of the table of robots."""
        history = self.histories[i]
        common = self.common
        return {
            "robot": history.robot,
            "parameter": str(self.parameters[k]),
            "unit": self.units[k],
            "value": common.values[i, k],
            "std": common.std[i, k],
            "alone": history.estimate.values[k],
            "alone_std": history.estimate.std[k],
            "deviation": common.values[i, k] - common.common[k],
            "own_fraction": common.own_fraction[i, k],
            **self._trend_columns(history, k),
        }

    def _trend_columns(self, history: RobotHistory, k: int) -> dict[str, Any]:
        """Return the trend of parameter k, or nothing in each column."""
        row = self.drift_of(history.robot)
        trend = history.trend
        if row is None or trend is None or self.drift is None:
            return dict.fromkeys(TREND_COLUMNS)
        per_kelvin = None
        per_kelvin_std = None
        if trend.temperature_std[k]:
            per_kelvin = trend.temperature[k]
            per_kelvin_std = trend.temperature_std[k]
        return {
            "drift": trend.change[k],
            "drift_std": trend.std[k],
            "drift_p": self.drift.p[row, k],
            "drift_found": bool(self.drift.significant[row, k]),
            "smallest_drift": self.drift.detectable[row, k],
            "per_kelvin": per_kelvin,
            "per_kelvin_std": per_kelvin_std,
        }

    def _period_row(self, history: RobotHistory, t: int, k: int) -> dict[str, Any]:
        """Return parameter k in period t as a row of the table of periods."""
        temperature = history.temperature[t]
        return {
            "robot": history.robot,
            "start": date_of(history.starts[t]),
            "parameter": str(self.parameters[k]),
            "unit": self.units[k],
            "value": history.values[t, k],
            "std": history.std[t, k],
            "temperature": temperature if np.isfinite(temperature) else None,
            "logs": len(history.logs[t]),
            "worst_residual": history.residual[t].max(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form; the period table stays in its file."""
        tables = self.tables()
        return {
            "kind": self.kind,
            "robots": len(self.histories),
            "level": self.level,
            "headline": self.headline,
            "false_alarms": self.false_alarms,
            "alerts": _rows(tables["alerts"]),
            "common": _rows(tables["common"]),
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the fleet as plain text, alerts first."""
        lines = [self.headline]
        for alert in self.alerts:
            advice = f"; {alert.advice}" if alert.advice else ""
            lines.append(f"  {alert.robot}: {alert.text}{advice}")
        lines.append("")
        lines.append(f"False-alarm probability of these drifts: {100 * self.false_alarms:g} %.")
        lines.append("What ordinary motion shows of each parameter:")
        for name, text in zip(self.parameters, self.observability):
            lines.append(f"  {name}: {text}")
        if self.notices:
            lines += ["", *notice_lines(self.notices)]
        return "\n".join(lines)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows of a table as columns of plain numbers and words."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, entry in row.items():
            number = entry.item() if isinstance(entry, np.generic) else entry
            columns.setdefault(name, []).append(number)
    return columns


def _rows(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Return columns of a table as rows."""
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


@with_settings(FleetSettings)
def fleet(
    robot: str,
    logs: Sequence[FleetLog],
    settings: FleetSettings | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Fleet:
    """Analyse the logs of many robots of one kind, recorded in ordinary motion over time.

    Every log is reduced to sufficient statistics. From these:
    parameters of each robot in each period; the mean of the kind and
    each robot's deviation (`hierarchy`); straight lines over time,
    apart from temperature where it is known, tested all together
    (`drifts`); the residual of each robot and period compared with the
    others, and the diagnosis of unusual ones.

    Args:
        robot: Name or path of the robot file of the kind.
        logs: The logs with robot, time and temperature.
        settings: How; single options may be given by name instead.
        progress: Called with the fraction done, over all workers.
    """
    chosen = merge_settings(FleetSettings, settings, options)
    report = progress or (lambda fraction: None)
    model = Model(load_robot(robot))
    paths = [log.path for log in logs]
    sample = sample_of(model, paths)
    job = frozen_job(
        robot,
        model,
        sample,
        chosen.processing,
        gains=chosen.gains,
        tie_legs=chosen.tie_legs,
        carrying=carrying_of(model, sample, chosen.carrying),
    )
    executor = chosen.many.work.executor
    collected = collect(
        job,
        paths,
        chosen.many.folder,
        executor,
        bad=chosen.many.bad,
        progress=lambda fraction: report(0.05 + 0.6 * fraction),
    )
    shared = shared_files(logs, collected.copies)
    collected = without_logs(collected, shared)
    histories, notices = _histories(collected, logs, chosen, report)
    estimates = [history.estimate for history in histories]
    errors = error_parts(estimates)
    unusual = find_unusual(histories, errors.independent, job, chosen.false_alarms)
    verdict = judge_kind(job, unusual.typical)
    values = np.array([estimate.values for estimate in estimates])
    common = hierarchy(values, errors.independent, errors.shared + verdict.attenuation**2)
    trends = {history.robot: history.trend for history in histories if history.trend is not None}
    drift = drifts(list(trends.values()), chosen.false_alarms) if trends else None
    report(0.9)
    faults, unexplained = fault_alerts(
        histories,
        unusual,
        collected,
        job,
        chosen.diagnosed,
        executor,
    )
    estimate = estimates[0]
    friction = negative_friction(model, estimate, common)
    drifting = drift_alerts(histories, drift, tuple(trends))
    return Fleet(
        kind=model.mechanism.name,
        parameters=estimate.parameters,
        units=estimate.units,
        histories=tuple(histories),
        common=common,
        drift=drift,
        trending=tuple(trends),
        false_alarms=chosen.false_alarms,
        alerts=(
            *shared_file_alerts(shared),
            *drifting,
            *faults,
        ),
        notices=ordered((*verdict.notices, *notices, *unexplained, *friction)),
        observability=_observability(common, drift, len(estimate.parameters)),
    )


def negative_friction(model: Model, estimate: Estimate, common: Hierarchy) -> tuple[Notice, ...]:
    """Report coefficients of the kind that no joint can have; combinations may be negative.

    One that is not significantly different from zero is information:
    motion does not show it.
    """
    nonnegative = {kind for kind, term in model.mechanism.terms.items() if term.nonnegative}
    notices = []
    for k, name in enumerate(estimate.parameters):
        value = common.common[k]
        std = common.common_std[k]
        if name.regrouped or name.kind not in nonnegative or not value < 0:
            continue
        text = f"{value:.3g} +- {std:.2g} {estimate.units[k]} is negative, which no joint can have"
        level: Level = "warning"
        advice = "the model or the signals of this joint are wrong; do not use the value"
        if value > -SIGNIFICANT_DEVIATIONS * std:
            text = f"{text}, but not significantly different from zero"
            level = "info"
            advice = "ordinary motion does not determine it; do not use it"
        notices.append(
            Notice(rule="negative friction", level=level, where=str(name), text=text, advice=advice)
        )
    return tuple(notices)


def _histories(
    collected: Collected,
    logs: Sequence[FleetLog],
    settings: FleetSettings,
    report: Callable[[float], None],
) -> tuple[list[RobotHistory], list[Notice]]:
    """Return every robot over time, and notices of logs and robots that were left out."""
    tasks = group_logs(collected, logs, settings.period)
    work = settings.many.work
    # the statistics are on this machine, not on the cluster
    executor = InProcess() if work.cluster is not None else work.executor
    by_task: dict[int, RobotHistory] = {}
    notices = list(collected.notices)
    for k, answer in executor.run(history_of, tasks):
        if isinstance(answer, RobotHistory):
            by_task[k] = answer
        elif isinstance(answer, GoughError) and not isinstance(answer, NOT_THE_LOG):
            text = f"all logs left out: {answer}"
            notices.append(
                Notice(
                    rule="left out",
                    level="info",
                    where=tasks[k].robot,
                    text=text,
                )
            )
        else:
            raise answer
        report(0.65 + 0.2 * len(by_task) / len(tasks))
    if len(by_task) < 3:
        reasons = "; ".join(str(notice) for notice in notices[:4])
        raise InvalidInput(
            f"{len(by_task)} robots have logs that can be used, expected three or more: {reasons}",
            robots=len(by_task),
        )
    histories = [by_task[k] for k in sorted(by_task)]
    for history in histories:
        notices += history.notices
    return histories, notices


def _observability(common: Hierarchy, drift: Drifts | None, count: int) -> tuple[str, ...]:
    """State which drift of each parameter ordinary motion would show, and the shrinkage."""
    texts = []
    for k in range(count):
        scale = max(abs(common.common[k]), np.finfo(float).tiny)
        detectable = np.inf
        if drift is not None:
            detectable = float(np.median(drift.detectable[:, k])) / scale
        if detectable < WEAK_DETECTION:
            text = f"a drift of {100 * detectable:.2g} % would be detected"
        elif detectable > 1:
            text = "ordinary motion does not show whether it drifts"
        else:
            text = f"only a drift beyond {100 * detectable:.0f} % would be detected"
        shrinkage = 1 - float(np.median(common.own_fraction[:, k]))
        if shrinkage >= 0.995:
            text += "; a robot's data add nothing: the fleet mean is reported (shrinkage 100 %)"
        elif shrinkage >= 0.5:
            text += f"; a robot's data add little (shrinkage {100 * shrinkage:.0f} %)"
        texts.append(text)
    return tuple(texts)
