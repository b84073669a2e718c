"""Write a fleet into one page: all robots at a glance, each in detail."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from gough.identification.fleets.fleet import Fleet
from gough.identification.fleets.history import DAY, RobotHistory
from gough.report.charts import Plot, span_of, svg, tag, text
from gough.report.numbers import number, with_std
from gough.report.report import page

SHOWN = 4  # parameters drawn of each robot: those that would show the smallest drift, and those that do


def fleet_page(fleet: Fleet) -> str:
    worst = np.array([np.median(h.residual, axis=0) for h in fleet.histories])
    ratio = (worst / np.median(worst, axis=0)).max(axis=1)
    size = np.maximum(np.abs(fleet.common.common), np.finfo(float).tiny)
    least = np.full(len(size), np.inf) if fleet.drift is None else np.median(fleet.drift.least, axis=0) / size
    robots = [_robot(fleet, i, float(ratio[i]), np.argsort(least)) for i in range(len(fleet.histories))]
    common = [{"name": name, "unit": unit, "value": with_std(fleet.common.common[k], fleet.common.common_std[k]),
               "between": number(fleet.common.between[k], 2), "told": fleet.told[k]}
              for k, (name, unit) in enumerate(zip(fleet.parameters, fleet.units))]
    return page("fleet.html", fleet=fleet, robots=robots, common=common,
                logs=sum(len(own) for h in fleet.histories for own in h.logs))


def _robot(fleet: Fleet, i: int, ratio: float, order: Any) -> dict[str, Any]:
    h, c, row = fleet.histories[i], fleet.common, fleet.drift_of(fleet.histories[i].robot)
    found = [] if row is None or fleet.drift is None else np.flatnonzero(fleet.drift.found[row]).tolist()
    drawn = [*found, *(k for k in order.tolist() if k not in found)][:SHOWN]
    gap = np.abs(c.values[i] - c.common) / np.maximum(c.std[i], np.finfo(float).tiny)
    rows = [{"name": fleet.parameters[k], "unit": fleet.units[k], "value": with_std(c.values[i, k], c.std[i, k]),
             "alone": with_std(h.estimate.values[k], h.estimate.std[k]), "common": number(c.common[k], 4),
             "gap": number(gap[k], 2)} for k in np.argsort(-gap)[:12]]
    return {"name": h.robot, "alerts": [alert for alert in fleet.alerts if alert.robot == h.robot], "rows": rows,
            "logs": sum(map(len, h.logs)), "ratio": ratio, "charts": [_chart(h, k, k in found) for k in drawn]}


def _chart(history: RobotHistory, k: int, drifts: bool) -> Markup:
    """Return one parameter over time with 95 % intervals; a line where it drifts."""
    days, value = (history.starts - history.starts[0]) / DAY, history.values[:, k]
    reach = 1.96 * history.std[:, k]
    plot = Plot(left=58, top=10, width=352, height=100, x=span_of(days, pad=0.03),
                y=span_of(value - reach, value + reach))
    marks = [tag("line", x1=plot.across(d), x2=plot.across(d), y1=plot.up(v - w), y2=plot.up(v + w), class_="whisker")
             + tag("circle", cx=plot.across(d), cy=plot.up(v), r=2.2, class_="chosen" if drifts else "kept")
             for d, v, w in zip(days, value, reach)]
    name = f"{history.estimate.parameters[k]} [{history.estimate.units[k]}]"
    return svg(420, 140, plot.y_axis(4), *marks, plot.x_axis(5, "d"), text(plot.left, plot.bottom + 25, name, "tick"),
               title=f"{history.robot}: {name} over time")
