"""The page of a fleet: all robots at a glance and over time, one of them in detail."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
from markupsafe import Markup

from gough.app.report.charts import Plot, line, span_of, svg, tag, text
from gough.app.report.report import page
from gough.core.arrays import FloatArray, IntArray
from gough.fleets.alerts import Alert
from gough.fleets.fleet import Fleet
from gough.fleets.history import DAY, RobotHistory, date_of

# parameters drawn of each robot: those that drift, then those with the
# smallest detectable drift
CHARTS_PER_ROBOT = 5
# parameters of each robot in the table, the largest deviations first
DEVIATIONS_LISTED = 12
INTERVAL_95 = 1.96  # half width of a 95 % interval in standard errors
# robots with charts, those to check first; the tables have all
MAX_ROBOTS_DETAILED = 100
MAX_MAP_ROBOTS = 150  # rows of the map, those to check first
# of the map; where there are more periods, neighbours share a column
MAX_MAP_COLUMNS = 124
MAP_WIDTH = 1100.0  # with names and margins [px]
MAP_ROW = 15.0  # height of a row of the map [px]
MAP_SHADES = 8  # colours of the map
# residual over its usual size that has the darkest colour
MAP_FULL_RATIO = 4.0
SEVERITY_FULL_BAR = 100.0  # standard deviations that fill the bar of severity


def fleet_page(fleet: Fleet, *, date: str | None = None) -> str:
    """Return the page of a fleet as HTML.

    Args:
        fleet: The fleet.
        date: Date of the page; today by default.
    """
    usual = np.median([np.median(history.residual, axis=0) for history in fleet.histories], axis=0)
    ratios = [(history.residual / usual).max(axis=1) for history in fleet.histories]
    typical_ratio = float(np.median([np.median(ratio) for ratio in ratios]))
    drawn_first = _parameter_order(fleet)
    robots = []
    for i, ratio in enumerate(ratios):
        robots.append(_robot(fleet, i, ratio / typical_ratio, drawn_first))
    robots.sort(key=lambda robot: (-robot["score"], -robot["residual_ratio"]))
    starts = np.concatenate([history.starts for history in fleet.histories])
    return page(
        "fleet.html",
        fleet=fleet,
        robots=robots,
        detailed=robots[:MAX_ROBOTS_DETAILED],
        alerts=sorted(fleet.alerts, key=lambda alert: -alert.score),
        logs=sum(robot["logs"] for robot in robots),
        first_day=date_of(starts.min())[:10],
        last_day=date_of(starts.max())[:10],
        map=_map(robots[:MAX_MAP_ROBOTS], float(starts.min()), float(starts.max())),
        n_mapped=min(len(robots), MAX_MAP_ROBOTS),
        severity_bar=_severity_bar,
        date=date or datetime.now().astimezone().date().isoformat(),
    )


def _parameter_order(fleet: Fleet) -> IntArray:
    """Return the parameters in the order in which they are drawn: the best observed first."""
    scale = np.maximum(np.abs(fleet.common.common), np.finfo(float).tiny)
    detectable = np.full(len(scale), np.inf)
    if fleet.drift is not None:
        detectable = np.median(fleet.drift.detectable, axis=0) / scale
    return np.argsort(detectable, kind="stable")


def _robot(fleet: Fleet, i: int, ratio: FloatArray, drawn_first: IntArray) -> dict[str, Any]:
    """Return what the page shows of robot i.

    Args:
        fleet: The fleet.
        i: Position of the robot.
        ratio: Residual of its worst motor in each period over that of
            the fleet, (t,).
        drawn_first: Parameters in the order in which they are drawn.
    """
    history = fleet.histories[i]
    common = fleet.common
    drifting: list[int] = []
    row = fleet.drift_of(history.robot)
    if row is not None and fleet.drift is not None:
        drifting = np.flatnonzero(fleet.drift.significant[row]).tolist()
    others = [k for k in drawn_first.tolist() if k not in drifting]
    drawn = [*drifting, *others][:CHARTS_PER_ROBOT]
    standard_error = np.maximum(common.std[i], np.finfo(float).tiny)
    deviation = np.abs(common.values[i] - common.common) / standard_error
    alerts = [alert for alert in fleet.alerts if alert.robot == history.robot]
    charts = [_residual_chart(history, ratio, alerts)]
    charts += [_parameter_chart(history, k, k in drifting) for k in drawn]
    return {
        "history": history,
        "values": common.values[i],
        "std": common.std[i],
        "deviation": deviation,
        "farthest": np.argsort(-deviation)[:DEVIATIONS_LISTED],
        "alerts": alerts,
        "score": max((alert.score for alert in alerts), default=0.0),
        "logs": sum(len(paths) for paths in history.logs),
        "ratio": ratio,
        "residual_ratio": float(np.median(ratio)),
        "worst_ratio": float(ratio.max()),
        "charts": charts,
    }


def _severity_bar(score: float) -> Markup:
    """Return a bar whose length is logarithmic in the severity, full at `SEVERITY_FULL_BAR`."""
    fraction = math.log(max(score, 1.0)) / math.log(SEVERITY_FULL_BAR)
    length = 60 * min(max(fraction, 0.02), 1.0)
    return svg(
        62,
        8,
        tag("rect", x=0, y=2, width=60, height=4, class_="rail"),
        tag("rect", x=0, y=2, width=length, height=4, class_="bad"),
        title=f"{score:.1f} standard deviations",
        class_="bar",
    )


def _map(robots: list[dict[str, Any]], first: float, last: float) -> Markup:
    """Draw the residual of every robot over time, one row for each robot.

    A cell is darker the larger the residual is, compared with the
    median of the fleet; it shows the worst period of its time.

    Args:
        robots: What the page shows of them, in the order of the rows.
        first, last: Start of the first and last period. [s since 1970]
    """
    margin = 16 + 7.0 * max(len(robot["history"].robot) for robot in robots)
    days = (last - first) / DAY + 1
    columns = min(MAX_MAP_COLUMNS, max(1, math.ceil(days)))
    plot = Plot(
        left=margin,
        top=6,
        width=MAP_WIDTH - margin - 60,
        height=MAP_ROW * len(robots),
        x=(0.0, days),
        y=(0.0, float(len(robots))),
    )
    names = []
    paths: dict[str, str] = {}
    for i, robot in enumerate(robots):
        name = robot["history"].robot
        middle = plot.top + (i + 0.72) * MAP_ROW
        style = "label end" if robot["alerts"] else "tick end"
        label = text(margin - 7, middle, name, style)
        names.append(tag("a", label, href=f"#robot-{name}"))
        for column, level in _map_row(robot, first, days, columns):
            style = f"plus-{level}" if level else "usual"
            paths[style] = paths.get(style, "") + f"M{column} {i}h.94v.9h-.94z"
    cells = [tag("path", d=path, class_=style) for style, path in sorted(paths.items())]
    scale = f"translate({margin:.1f} {plot.top}) scale({plot.width / columns:.4f} {MAP_ROW})"
    labels = []
    for day in np.linspace(0, math.ceil(days) - 1, min(6, math.ceil(days))):
        date = date_of(first + DAY * round(day))[:10]
        x = plot.across(round(day) + 0.5)
        labels.append(text(x, plot.bottom + 14, date, "tick middle"))
    return svg(
        MAP_WIDTH,
        plot.bottom + 22,
        tag("g", *cells, transform=scale),
        *names,
        *labels,
        title="residual of each robot over time",
        class_="chart map",
        style=f"min-width: {min(MAP_WIDTH, 640):.0f}px",
    )


def _map_row(
    robot: dict[str, Any], first: float, days: float, columns: int
) -> list[tuple[int, int]]:
    """Return the columns in which a robot has data, with their shades."""
    position = (robot["history"].starts - first) / DAY / days * columns
    column = np.minimum(position.astype(int), columns - 1)
    worst = np.zeros(columns)
    np.maximum.at(worst, column, robot["ratio"])
    excess = np.log(np.maximum(worst, 1.0)) / math.log(MAP_FULL_RATIO)
    shade = np.minimum(np.floor(MAP_SHADES * excess), MAP_SHADES).astype(int)
    return [(int(k), int(shade[k])) for k in np.unique(column)]


def _residual_chart(history: RobotHistory, ratio: FloatArray, alerts: list[Alert]) -> Markup:
    """Draw the residual of a robot over time, the days of its alerts marked."""
    affected: set[str] = set()
    for alert in alerts:
        affected.update(alert.days)
    styles = []
    for start in history.starts:
        styles.append("chosen" if date_of(start)[:10] in affected else "kept")
    days = (history.starts - history.starts[0]) / DAY
    plot = _plot(days, np.append(ratio, [0.0, 1.0]))
    return plot.picture(
        plot.y_axis(),
        plot.x_axis(5, "d"),
        plot.level(1.0, "limit"),
        *plot.dots(days, ratio, 2.2, styles),
        left="residual / median of the fleet, worst motor",
        title=f"{history.robot}: residual over time",
    )


def _parameter_chart(history: RobotHistory, k: int, drifts: bool) -> Markup:
    """Draw one parameter over time with 95 % intervals; marked where it drifts."""
    days = (history.starts - history.starts[0]) / DAY
    values = history.values[:, k]
    half_width = INTERVAL_95 * history.std[:, k]
    plot = _plot(days, np.append(values - half_width, values + half_width))
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
        left=f"{name}, drifts" if drifts else name,
        title=f"{history.robot}: {name} over time",
    )


def _plot(days: FloatArray, values: FloatArray) -> Plot:
    """Return the axes of a chart over time."""
    return Plot(
        left=58,
        top=10,
        width=352,
        height=100,
        x=span_of(days, pad=0.03),
        y=span_of(values),
    )
