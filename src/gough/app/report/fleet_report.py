"""The page of a fleet: all robots at a glance, each in detail."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from gough.app.report.charts import Plot, line, span_of
from gough.app.report.report import page
from gough.core.arrays import IntArray
from gough.fleets.fleet import Fleet
from gough.fleets.history import DAY, RobotHistory

# parameters drawn of each robot: those that drift, then those with the smallest detectable drift
CHARTS_PER_ROBOT = 4
DEVIATIONS_LISTED = 12  # parameters of each robot in the table, the largest deviations first
INTERVAL_95 = 1.96  # half width of a 95 % interval in standard errors


def fleet_page(fleet: Fleet) -> str:
    """Return the page of a fleet as HTML."""
    residual = np.array([np.median(history.residual, axis=0) for history in fleet.histories])
    residual_ratio = (residual / np.median(residual, axis=0)).max(axis=1)
    scale = np.maximum(np.abs(fleet.common.common), np.finfo(float).tiny)
    detectable = np.full(len(scale), np.inf)
    if fleet.drift is not None:
        detectable = np.median(fleet.drift.detectable, axis=0) / scale
    order = np.argsort(detectable)
    robots = []
    for i, ratio in enumerate(residual_ratio):
        robots.append(_robot(fleet, i, float(ratio), order))
    n_logs = sum(robot["logs"] for robot in robots)
    return page("fleet.html", fleet=fleet, robots=robots, logs=n_logs)


def _robot(fleet: Fleet, i: int, residual_ratio: float, order: IntArray) -> dict[str, Any]:
    """Return what the page shows of robot i; parameters are drawn in an order."""
    history = fleet.histories[i]
    common = fleet.common
    drifting: list[int] = []
    row = fleet.drift_of(history.robot)
    if row is not None and fleet.drift is not None:
        drifting = np.flatnonzero(fleet.drift.significant[row]).tolist()
    others = [k for k in order.tolist() if k not in drifting]
    drawn = [*drifting, *others][:CHARTS_PER_ROBOT]
    standard_error = np.maximum(common.std[i], np.finfo(float).tiny)
    deviation = np.abs(common.values[i] - common.common) / standard_error
    return {
        "history": history,
        "values": common.values[i],
        "std": common.std[i],
        "deviation": deviation,
        "farthest": np.argsort(-deviation)[:DEVIATIONS_LISTED],
        "alerts": [alert for alert in fleet.alerts if alert.robot == history.robot],
        "logs": sum(len(paths) for paths in history.logs),
        "residual_ratio": residual_ratio,
        "charts": [_chart(history, k, k in drifting) for k in drawn],
    }


def _chart(history: RobotHistory, k: int, drifts: bool) -> Markup:
    """Draw one parameter over time with 95 % intervals; marked where it drifts."""
    days = (history.starts - history.starts[0]) / DAY
    values = history.values[:, k]
    half_width = INTERVAL_95 * history.std[:, k]
    plot = Plot(
        left=58,
        top=10,
        width=352,
        height=100,
        x=span_of(days, pad=0.03),
        y=span_of(values - half_width, values + half_width),
    )
    whiskers = []
    for day, low, high in zip(days, values - half_width, values + half_width):
        x = plot.across(day)
        whiskers.append(line((x, x), (plot.up(low), plot.up(high)), "whisker"))
    name = f"{history.estimate.parameters[k]} [{history.estimate.units[k]}]"
    style = "chosen" if drifts else "kept"
    return plot.picture(
        plot.y_axis(),
        plot.x_axis(5, "d"),
        *whiskers,
        *plot.dots(days, values, 2.2, [style] * len(days)),
        left=name,
        title=f"{history.robot}: {name} over time",
    )
