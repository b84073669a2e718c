"""Write a fleet into one page: all robots at a glance, each in detail."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from gough.app.report.charts import Plot, line, span_of
from gough.app.report.report import page
from gough.fleets.fleet import Fleet
from gough.fleets.history import DAY, RobotHistory

# parameters drawn of each robot: those that would show the smallest drift, and those that do
SHOWN = 4


def fleet_page(fleet: Fleet) -> str:
    worst = np.array([np.median(h.residual, axis=0) for h in fleet.histories])
    ratio = (worst / np.median(worst, axis=0)).max(axis=1)
    size = np.maximum(np.abs(fleet.common.common), np.finfo(float).tiny)
    least = (
        np.full(len(size), np.inf)
        if fleet.drift is None
        else np.median(fleet.drift.least, axis=0) / size
    )
    robots = [
        _robot(fleet, i, float(ratio[i]), np.argsort(least)) for i in range(len(fleet.histories))
    ]
    return page(
        "fleet.html", fleet=fleet, robots=robots, logs=sum(robot["logs"] for robot in robots)
    )


def _robot(fleet: Fleet, i: int, ratio: float, order: Any) -> dict[str, Any]:
    h, c, row = fleet.histories[i], fleet.common, fleet.drift_of(fleet.histories[i].robot)
    found = (
        []
        if row is None or fleet.drift is None
        else np.flatnonzero(fleet.drift.found[row]).tolist()
    )
    drawn = [*found, *(k for k in order.tolist() if k not in found)][:SHOWN]
    gap = np.abs(c.values[i] - c.common) / np.maximum(c.std[i], np.finfo(float).tiny)
    return {
        "history": h,
        "values": c.values[i],
        "std": c.std[i],
        "gap": gap,
        "farthest": np.argsort(-gap)[:12],
        "alerts": [alert for alert in fleet.alerts if alert.robot == h.robot],
        "logs": sum(map(len, h.logs)),
        "ratio": ratio,
        "charts": [_chart(h, k, k in found) for k in drawn],
    }


def _chart(history: RobotHistory, k: int, drifts: bool) -> Markup:
    """Return one parameter over time with 95 % intervals; a line where it drifts."""
    days, value = (history.starts - history.starts[0]) / DAY, history.values[:, k]
    reach = 1.96 * history.std[:, k]
    plot = Plot(
        left=58,
        top=10,
        width=352,
        height=100,
        x=span_of(days, pad=0.03),
        y=span_of(value - reach, value + reach),
    )
    whiskers = [
        line((plot.across(d),) * 2, (plot.up(v - w), plot.up(v + w)), "whisker")
        for d, v, w in zip(days, value, reach)
    ]
    name = f"{history.estimate.parameters[k]} [{history.estimate.units[k]}]"
    return plot.picture(
        plot.y_axis(),
        plot.x_axis(5, "d"),
        *whiskers,
        *plot.dots(days, value, 2.2, ["chosen" if drifts else "kept"] * len(days)),
        left=name,
        title=f"{history.robot}: {name} over time",
    )
