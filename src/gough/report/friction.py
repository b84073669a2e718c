"""Friction of each motor over its speed, and what depends on position, with the data behind the curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.identification import Identification
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint
from gough.report.charts import Plot, span_of, svg, tag, text

SHOWN = 300  # points of a picture
STEPS = 241  # of a curve


def friction_charts(model: Model, result: Identification) -> list[dict[str, Any]]:
    """Return, for each motor that is a row, its friction over speed and its terms over position.

    Points are what a motor's effort is besides all else: measured - predicted + the terms shown.
    """
    mechanism, fits = model.mechanism, [fit for fit in result.fits if len(fit.time) > 2]
    named = [name for name in result.estimate.parameters if name.payload is None and not name.is_gain]
    if any(name not in result.base.names for name in named):
        return []  # values put together by hand, not those of this model
    values = dict(zip(mechanism.standard.names, result.standard(model)))
    found = []
    for joint in (j for j in mechanism.joints if j.actuated and j.name in model.rows and fits):
        own = [mechanism.terms[name] for name in joint.terms if values[f"{joint.name}.{name}"]]
        shown = [term for term in own if not (term.others or term.loaded)]
        rest = ", ".join(term.name for term in own if term not in shown)
        i, row = mechanism.coordinates.index(joint.name), model.rows.index(joint.name)
        q = np.concatenate([fit.q[:, i] for fit in fits])
        qd = np.concatenate([np.gradient(fit.q[:, i], fit.time) for fit in fits])
        left = np.concatenate([fit.measured[:, row] - fit.predicted[:, row] for fit in fits])
        used = np.concatenate([np.ones(len(fit.time), bool) if fit.used is None else fit.used[:, row] for fit in fits])
        at = np.flatnonzero(used)[::max(1, int(used.sum()) // SHOWN)]
        charts = []
        for terms, x, unit, words in (
                ([t for t in shown if t.dissipative], qd, f"{joint.unit}/s", "friction over speed"),
                ([t for t in shown if t.mentions("q") and not t.mentions("qd")], q, joint.unit,
                 "efforts over position")):
            if terms and len(at):
                seen = _sum(terms, joint, values, q[at], qd[at]) + left[at]
                grid = np.linspace(x[at].min(), x[at].max(), STEPS)
                still = np.full(STEPS, np.median(q))
                curve = _sum(terms, joint, values, *((still, grid) if x is qd else (grid, np.zeros(STEPS))))
                charts.append(_chart(x[at], seen, grid, curve, unit, f"{words} [{joint.effort_unit}], {joint.name}"
                                     + (f" without {rest}" if rest else "")))
        if charts:
            found.append({"name": joint.name, "charts": charts})
    return found


def _sum(terms: Sequence[JointTerm], joint: Joint, values: dict[Any, float], q: FloatArray,
         qd: FloatArray) -> FloatArray:
    """Return the efforts of terms with settled lags, (t,). [N or N m]"""
    state = JointState(q=q, qd=qd, qdd=np.zeros_like(q), sign=np.sign(qd), math=np)
    return np.asarray(sum(values[f"{joint.name}.{term.name}"] * term.value(state) for term in terms))


def _chart(x: FloatArray, y: FloatArray, grid: FloatArray, curve: FloatArray, unit: str, title: str) -> Markup:
    plot = Plot(left=52, top=10, width=358, height=132, x=span_of(x, pad=0.03), y=span_of(y, curve))
    dots = [tag("circle", cx=round(plot.across(a), 1), cy=round(plot.up(b), 1), r=1.3, class_="kept")
            for a, b in zip(x, y)]
    return svg(420, 172, plot.y_axis(4), *dots, plot.curve(grid, curve, "candidates"), plot.x_axis(unit=unit),
               text(plot.left, plot.bottom + 25, title, "tick"), title=title)
