"""Many robots of one kind over months of ordinary logs: who differs, what drifts, what is wrong
with whom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.errors import GoughError, InvalidInput
from gough.core.executors import InProcess
from gough.core.names import Parameter
from gough.core.notices import Notice, notice_lines, ordered
from gough.core.options import Settings, merge_settings, nested, option, with_settings
from gough.engine import Model
from gough.engine.base import TIE_LEGS
from gough.fleets.alerts import Alert, drifting, strange
from gough.fleets.hierarchy import Drifts, Hierarchy, drifts, hierarchy
from gough.fleets.history import (
    FleetLog,
    RobotHistory,
    date_of,
    history_of,
    tasks_of,
)
from gough.identification.many_logs import FactorSettings, frozen_job, sample_of
from gough.mechanism import load_robot
from gough.processing import Processing
from gough.processing.many_logs import collect

UNTOLD = 0.3  # smallest drift over value beyond which ordinary motion is said to tell little


@dataclass(frozen=True, kw_only=True)
class FleetSettings(Settings):
    """How the logs of a fleet are looked at."""

    period: float = option(
        1.0, "Time over which parameters are taken as constant.", unit="d", above=0
    )
    level: float = option(
        0.01, "Chance of naming any drift in the fleet although nothing drifts.", above=0
    )
    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
    diagnosed: int = option(6, "Robots to diagnose at most, the strangest first.", least=0)
    processing: Processing = nested(Processing)
    many: FactorSettings = nested(FactorSettings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """What the logs of a fleet of one kind tell."""

    kind: str
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    histories: tuple[RobotHistory, ...]
    common: Hierarchy  # part and deviations, in the order of the histories
    drift: Drifts | None  # which trends are more than chance; rows are the robots in `trending`
    trending: tuple[str, ...]
    alerts: tuple[Alert, ...]  # what to look at, the surest first
    level: float  # chance of a false drift
    notices: tuple[Notice, ...]  # logs that were left out or used once, in their order
    told: tuple[str, ...]  # what ordinary motion tells of each parameter, in words

    def drift_of(self, robot: str) -> int | None:
        """Return the row of a robot in `drift`, or None."""
        return self.trending.index(robot) if robot in self.trending else None

    def tables(self) -> dict[str, dict[str, list[Any]]]:
        """Return all numbers as columns of four tables: `common`, `robots`, `periods`, `alerts`."""
        c, robots, periods = self.common, [], []
        for i, h in enumerate(self.histories):
            row = self.drift_of(h.robot)
            for k, (name, unit) in enumerate(zip(self.parameters, self.units)):
                trends: dict[str, Any] = dict.fromkeys(
                    (
                        "drift",
                        "drift_std",
                        "drift_p",
                        "drift_found",
                        "smallest_drift",
                        "per_kelvin",
                        "per_kelvin_std",
                    )
                )
                if row is not None and h.trend is not None and self.drift is not None:
                    warm = bool(h.trend.temperature_std[k])
                    trends = {
                        "drift": h.trend.change[k],
                        "drift_std": h.trend.std[k],
                        "drift_p": self.drift.p[row, k],
                        "drift_found": bool(self.drift.found[row, k]),
                        "smallest_drift": self.drift.least[row, k],
                        "per_kelvin": h.trend.temperature[k] if warm else None,
                        "per_kelvin_std": h.trend.temperature_std[k] if warm else None,
                    }
                robots.append(
                    {
                        "robot": h.robot,
                        "parameter": str(name),
                        "unit": unit,
                        "value": c.values[i, k],
                        "std": c.std[i, k],
                        "alone": h.estimate.values[k],
                        "alone_std": h.estimate.std[k],
                        "deviation": c.values[i, k] - c.common[k],
                        "own_share": c.own[i, k],
                        **trends,
                    }
                )
                periods += [
                    {
                        "robot": h.robot,
                        "start": date_of(start),
                        "parameter": str(name),
                        "unit": unit,
                        "value": h.values[t, k],
                        "std": h.std[t, k],
                        "temperature": h.temperature[t] if np.isfinite(h.temperature[t]) else None,
                        "logs": len(h.logs[t]),
                        "worst_residual": h.residual[t].max(),
                    }
                    for t, start in enumerate(h.starts)
                ]
        common = {
            "parameter": [str(name) for name in self.parameters],
            "unit": list(self.units),
            "value": c.common.tolist(),
            "std": c.common_std.tolist(),
            "between_robots": c.between.tolist(),
            "told": list(self.told),
        }
        found = {
            name: [getattr(w, name) for w in self.alerts]
            for name in ("robot", "kind", "text", "advice")
        }
        return {
            "common": common,
            "robots": _columns(robots),
            "periods": _columns(periods),
            "alerts": found,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form; the period table stays in its file."""
        tables = self.tables()
        rows = {
            name: [dict(zip(tables[name], row)) for row in zip(*tables[name].values())]
            for name in ("alerts", "common")
        }
        return {
            "kind": self.kind,
            "robots": len(self.histories),
            "level": self.level,
            **rows,
            "notices": [notice.to_dict() for notice in self.notices],
        }

    def summary(self) -> str:
        """Return the fleet as plain text, alerts first."""
        logs = sum(len(own) for h in self.histories for own in h.logs)
        periods = sum(len(h.starts) for h in self.histories)
        lines = [
            f"{len(self.histories)} robots '{self.kind}', {periods} periods, {logs} logs: "
            f"{len({w.robot for w in self.alerts}) or 'none'} to look at"
        ]
        lines += [
            f"  {w.robot}: {w.text}" + (f"; {w.advice}" if w.advice else "") for w in self.alerts
        ]
        lines += [
            "",
            f"The chance of any false drift among them is {100 * self.level:g} %.",
            "What ordinary motion tells of each parameter:",
        ]
        lines += [f"  {name}: {text}" for name, text in zip(self.parameters, self.told)]
        if self.notices:
            lines += ["", *notice_lines(self.notices)]
        return "\n".join(lines)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows of a table as columns of plain numbers and words."""
    return {
        name: [row[name].item() if isinstance(row[name], np.generic) else row[name] for row in rows]
        for name in (rows[0] if rows else ())
    }


@with_settings(FleetSettings)
def fleet(
    robot: str,
    logs: Sequence[FleetLog],
    settings: FleetSettings | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Fleet:
    """Look at the logs of many robots of one kind, recorded in ordinary motion over time.

    Every log becomes a factor. From these: parameters of each robot in each period; the common part
    and each robot's deviation (`hierarchy`); straight lines over time, apart from temperature where
    it is known, tested all together (`drifts`); the residual of each robot and period beside the
    others, and the diagnosis of those that stand out.

    Args:
        robot: Name or path of the robot file of the kind.
        settings: How; single options may be given by name instead.
        progress: Called with the fraction done, over all workers.
    """
    chosen = merge_settings(FleetSettings, settings, options)
    tell, model = progress or (lambda fraction: None), Model(load_robot(robot))
    paths = [log.path for log in logs]
    job = frozen_job(
        robot,
        model,
        sample_of(model, paths),
        chosen.processing,
        gains=chosen.gains,
        tie_legs=chosen.tie_legs,
    )
    work = chosen.many.work
    collected = collect(
        job,
        paths,
        chosen.many.folder,
        work.executor,
        bad=chosen.many.bad,
        progress=lambda fraction: tell(0.05 + 0.6 * fraction),
    )
    tasks = tasks_of(collected, logs, chosen.period)
    reducer = (
        InProcess() if work.cluster is not None else work.executor
    )  # factors are here, not on the cluster
    found, notices = dict[int, RobotHistory](), list(collected.notices)
    for k, result in reducer.run(history_of, tasks):
        if isinstance(result, RobotHistory):
            found[k] = result
        elif isinstance(result, GoughError):
            text = f"all logs left out: {result}"
            robot_name = tasks[k].robot
            notices.append(Notice(rule="left out", level="info", where=robot_name, text=text))
        else:
            raise result
        tell(0.65 + 0.2 * len(found) / len(tasks))
    histories = tuple(found[k] for k in sorted(found))
    if len(histories) < 3:
        raise InvalidInput(
            f"{len(histories)} robots have logs that can be used, expected three or more: "
            + "; ".join(map(str, notices[:4])),
            robots=len(histories),
        )
    for history in histories:
        notices += history.notices
    common = hierarchy(
        np.array([h.estimate.values for h in histories]),
        np.array([h.estimate.covariance for h in histories]),
    )
    trends = {h.robot: h.trend for h in histories if h.trend is not None}
    drift = drifts(list(trends.values()), chosen.level) if trends else None
    tell(0.9)
    odd, unexplained = strange(
        histories, common, job, chosen.level, chosen.diagnosed, work.executor
    )
    names = histories[0].estimate.parameters
    return Fleet(
        kind=model.mechanism.name,
        parameters=names,
        units=histories[0].estimate.units,
        histories=histories,
        common=common,
        drift=drift,
        trending=tuple(trends),
        level=chosen.level,
        alerts=(*drifting(histories, drift, tuple(trends)), *odd),
        notices=ordered((*notices, *unexplained)),
        told=_told(common, drift, len(names)),
    )


def _told(common: Hierarchy, drift: Drifts | None, count: int) -> tuple[str, ...]:
    """Say what ordinary motion tells of each parameter: the drift it would show, and whose value it
    is.
    """
    words = []
    for k in range(count):
        size = max(abs(common.common[k]), np.finfo(float).tiny)
        own = float(np.median(common.own[:, k]))
        least = np.inf if drift is None else float(np.median(drift.least[:, k])) / size
        seen = (
            f"a drift of {100 * least:.2g} % would be found"
            if least < UNTOLD
            else "ordinary motion does not show whether it drifts"
            if least > 1
            else f"only a drift beyond {100 * least:.0f} % would be found"
        )
        whose = (
            ""
            if own > 0.5
            else f"; the value of a robot is mostly that of the kind ({100 * (1 - own):.0f} %)"
        )
        words.append(seen + whose)
    return tuple(words)
