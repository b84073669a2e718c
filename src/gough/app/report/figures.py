"""The figures of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gough.app.report.charts import PACKED_HEIGHT, Plot, line, span_of, svg, tag, text, ticks
from gough.app.report.numbers import number, percent, unit
from gough.core.arrays import FloatArray
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.estimate import Enclosure, Estimate
from gough.identification import Fit, Identification
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint
from gough.processing.choice import ProcessingChoice

POINTS = 60_000  # curve points in all effort pictures together
SHADES = 8  # steps of each colour of the correlation matrix
TALLEST = 800  # height of a comparison that fits on a page
REACH = 6.0  # standard deviations shown when estimators are compared
MARKS = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.6-2.6h5.2v5.2h-5.2z",
    "m0-3.6l3.6 3.6l-3.6 3.6l-3.6-3.6z",
    "m0-3.4l3.3 5.8h-6.6z",
    "m-3-1h2v-2h2v2h2v2h-2v2h-2v-2h-2z",
)  # circle, square, diamond, triangle, cross
SHOWN = 300  # points of a picture
STEPS = 241  # of a curve


def effort_charts(fit: Fit, rows: Sequence[str], units: Sequence[str], panels: int) -> list[Markup]:
    """Return measured against predicted effort with the residual below, one picture per row.

    All `panels` pictures of a report share a budget of points.
    """
    count = int(np.clip(POINTS / 3 / max(panels, 1), 250, 1400))
    gap = np.diff(fit.time, prepend=fit.time[0])
    usual = float(np.median(gap[1:])) if len(gap) > 1 else 1.0
    segment = np.cumsum((gap > 4 * usual).astype(int))
    return [
        _effort_chart(fit, j, row, unit(own), segment, count)
        for j, (row, own) in enumerate(zip(rows, units))
    ]


def _effort_chart(
    fit: Fit, j: int, row: str, own: str, segment: NDArray[np.int_], count: int
) -> Markup:
    measured, predicted, used = fit.measured[:, j], fit.predicted[:, j], _used(fit, j)
    residual = measured - predicted
    keep = extremes(residual, count)
    rms, size = (float(np.sqrt(np.mean(values[used] ** 2))) for values in (residual, measured))
    x = (float(fit.time[0]), float(fit.time[-1])) if len(fit.time) > 1 else (0.0, 1.0)
    top = Plot(left=46, top=26, width=366, height=112, x=x, y=span_of(measured, predicted))
    largest = float(np.abs(residual[used]).max()) * 1.15 or 1.0
    low = Plot(left=46, top=148, width=366, height=44, x=x, y=(-largest, largest))
    time, parts, left_out = fit.time[keep], segment[keep], _left_out(top, fit.time, used)
    return svg(
        420,
        208,
        text(top.left, 14, row, "name"),
        text(
            top.right,
            14,
            f"rms residual {number(rms, 3)} {own}, {percent(rms / max(size, 1e-300))}",
            "note end",
        ),
        top.y_axis(4),
        low.y_axis(3),
        low.x_axis(6, "s"),
        top.window(
            left_out,
            top.packed(time, measured[keep], parts, "measured"),
            top.packed(time, predicted[keep], parts, "predicted"),
        ),
        low.window(left_out, low.packed(time, residual[keep], parts, "residual")),
        line((0, 0), (top.top, low.bottom), "cursor"),
        text(8, top.top - 12, own, "tick"),
        title=f"{row}: measured and predicted effort, {fit.label}",
        class_="chart effort",
        tabindex=0,
        data_x=f"{x[0]!r} {x[1]!r}",
        data_y=f"{top.y[0]!r} {top.y[1]!r}",
        data_r=repr(largest),
        data_unit=own,
    )


def _used(fit: Fit, j: int) -> NDArray[np.bool_]:
    """Return which samples of a row entered the estimate or its validation; all if none are
    marked.
    """
    return fit.used[:, j] | (not fit.used[:, j].any())


def _left_out(plot: Plot, time: FloatArray, used: NDArray[np.bool_]) -> Markup:
    """Return a shade over the stretches that did not enter the estimate."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], ~used, [False]]).astype(int)))
    place = plot.packed_across(time)
    stretches = [(place[a], place[min(b, len(time) - 1)]) for a, b in edges.reshape(-1, 2)]
    return tag(
        "path",
        d="".join(f"M{a} 0H{max(b, a + 4)}V{PACKED_HEIGHT}H{a}z" for a, b in stretches),
        class_="skipped",
    )


def extremes(values: FloatArray, count: int) -> NDArray[np.int_]:
    """Return about `count` indices that keep the smallest and largest value of every stretch: no
    spike is hidden.
    """
    if len(values) <= count:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), max(count // 2, 1) + 1).astype(int)
    found = {0, len(values) - 1}
    for start, stop in pairwise(edges):
        part = values[start:stop]
        found |= {start + int(part.argmin()), start + int(part.argmax())}
    return np.array(sorted(found))


def _residuals(
    fits: Sequence[Fit], j: int
) -> list[tuple[str, list[tuple[FloatArray, FloatArray]]]]:
    """Return times and residuals of a row that count, (t,), of logs seen and unseen."""
    return [
        (
            word,
            [
                (f.time[use], (f.measured[:, j] - f.predicted[:, j])[use])
                for f in fits
                if f.held_out == held_out
                for use in [_used(f, j)]
            ],
        )
        for word, held_out in (("seen", False), ("unseen", True))
    ]


def histogram(fits: Sequence[Fit], j: int, row: str) -> Markup:
    """Return the distribution of a row's residual over its own rms, beside a Gaussian of that
    spread.
    """
    plot = Plot(left=6, top=4, width=168, height=54, x=(-4.0, 4.0), y=(0.0, 0.55))
    edges, grid = np.linspace(-4, 4, 33), np.linspace(-4, 4, 65)
    curves = [plot.curve(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), "gauss")]
    for word, parts in _residuals(fits, j):
        residual = np.concatenate([np.zeros(0), *(values for _, values in parts)])
        if residual.size and residual.std() > 0:
            height = np.histogram(
                np.clip(residual / np.sqrt(np.mean(residual**2)), -4, 4), edges, density=True
            )[0]
            curves.append(
                plot.curve(np.repeat(edges, 2)[1:-1], np.repeat(np.minimum(height, 0.55), 2), word)
            )
    marks = [
        text(plot.across(v), plot.bottom + 11, word, "tick middle")
        for v, word in ((-3, "−3σ"), (0, "0"), (3, "3σ"))
    ]
    return svg(
        180,
        72,
        plot.level(0, "zero"),
        *marks,
        *curves,
        title=f"distribution of the residual of {row}",
    )


def spectra(fits: Sequence[Fit], rows: Sequence[str]) -> list[Markup]:
    """Return the amplitude density of each row's residual over frequency, on common axes.

    [row unit / sqrt(Hz)]
    """
    found: list[list[tuple[FloatArray, FloatArray, str]]] = [[] for _ in rows]
    for j in range(len(rows)):
        for word, parts in _residuals(fits, j):
            for time, values in [part for part in parts if len(part[0]) >= 16][:1]:
                frequency, density = amplitude_density(time, values)
                found[j].append((np.log10(frequency), np.log10(density), word))
    if not any(found):
        return [Markup("")] * len(rows)
    x = span_of(*(f for curves in found for f, _, _ in curves), pad=0.0)
    pictures = []
    for row, curves in zip(rows, found):
        low, high = span_of(*(d for _, d, _ in curves), np.zeros(0), pad=0.05)
        plot = Plot(left=34, top=4, width=200, height=54, x=x, y=(low, max(high, low + 1.0)))
        pictures.append(
            svg(
                240,
                72,
                plot.y_axis(log=True),
                plot.x_axis(log=True),
                *(plot.curve(*curve) for curve in curves),
                title=f"spectrum of the residual of {row}",
            )
        )
    return pictures


def amplitude_density(time: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frequencies [Hz] and the amplitude density [unit / sqrt(Hz)] of samples with gaps,
    (b,), (b,).

    Missing samples of the even clock dt count as zero: for N samples of white noise of variance
    s^2, |sum x exp(-j w t)|^2 has mean N s^2 whatever is missing, so the one-sided density is 2 dt
    |X|^2 / N. Averaged in bands of equal width in log f.
    """
    step, bands = float(np.median(np.diff(time))), 48
    place = np.rint((time - time[0]) / step).astype(int)
    even = np.zeros(place[-1] + 1)
    even[place] = values - values.mean()
    frequency = np.fft.rfftfreq(len(even), step)[1:]
    power = 2 * step * np.abs(np.fft.rfft(even)[1:]) ** 2 / len(values)
    band = np.digitize(frequency, np.geomspace(frequency[0], frequency[-1], bands + 1)[1:-1])
    count = np.bincount(band, minlength=bands)
    used = count > 0
    centre = np.bincount(band, np.log(frequency), minlength=bands)[used] / count[used]
    density = np.sqrt(np.bincount(band, power, minlength=bands)[used] / count[used])
    return np.exp(centre), np.maximum(density, 1e-9 * max(float(density.max()), 1e-300))


def correlation_matrix(estimate: Estimate) -> Markup:
    """Return the lower triangle of the correlation matrix in colours, blue below zero and red
    above.
    """

    def shade(level: int) -> str:
        return f"{'minus' if level < 0 else 'plus'}-{abs(level)}" if level else "rail"

    p, names = len(estimate), estimate.parameters
    cell = float(np.clip(520 / max(p, 1), 6.5, 24))
    font = min(10.5, cell * 0.92)
    margin = 12 + 0.56 * font * max(map(len, names))
    width = p * cell
    shades: dict[str, str] = {}
    levels = np.rint(SHADES * np.tril(estimate.correlation)).astype(int)
    for i, j in np.argwhere(levels):
        word = shade(levels[i, j])
        shades[word] = shades.get(word, "") + f"M{j} {i}h1v1h-1z"
    outline = f"M0 0V{p}H{p}" + "".join(f"V{k - 1}H{k - 1}" for k in range(p, 1, -1)) + "z"
    cells = tag(
        "g",
        *(tag("path", d=path, class_=word) for word, path in ({"rail": outline} | shades).items()),
        transform=f"translate({margin:.1f} 0) scale({cell:.3f})",
    )
    middles = [(i + 0.5) * cell + 0.35 * font for i in range(p)]
    sides = [text(margin - 6, y, name, "tick end") for y, name in zip(middles, names)]
    feet = [
        text(
            0,
            0,
            name,
            "tick end",
            transform=f"translate({margin + x:.1f} {width + 6:.1f}) rotate(-90)",
        )
        for x, name in zip(middles, names)
    ]
    key, left = [], margin + width - 190
    if width >= 260:
        key = [
            tag("rect", x=left + 10 * (k + SHADES), y=8, width=10, height=9, class_=shade(k))
            for k in range(-SHADES, SHADES + 1)
        ]
        key += [
            text(left + x, 28, word, f"tick {anchor}")
            for x, word, anchor in ((0, "−1", ""), (85, "0", "middle"), (170, "1", "end"))
        ]
    return svg(
        margin + width + 2,
        width + margin,
        cells,
        tag("g", *sides, *feet, font_size=font),
        *key,
        title="correlation of the estimation errors",
        class_="chart correlation",
        data_cell=f"{margin} {cell} {p}",
        style=f"max-width: {1.2 * (margin + width):.0f}px",
    )


def comparison_charts(
    chosen: Estimate, results: Mapping[str, Estimate | Enclosure]
) -> list[Markup]:
    """Return every answer minus the chosen one in its standard deviations, with 95 % intervals and
    boxes.

    One picture for as many parameters as fit on a page.
    """
    names, pitch = (
        chosen.parameters,
        max(16, 5 * sum(isinstance(r, Estimate) for r in results.values()) + 7),
    )
    pages = -(-len(names) // max(1, TALLEST // pitch))
    count = -(-len(names) // pages)
    return [
        _comparison_chart(chosen.select(names[k : k + count]), results, pitch)
        for k in range(0, len(names), count)
    ]


def _comparison_chart(
    chosen: Estimate, results: Mapping[str, Estimate | Enclosure], pitch: int
) -> Markup:
    estimates = {k: r for k, r in results.items() if isinstance(r, Estimate)}
    boxes = {k: r for k, r in results.items() if isinstance(r, Enclosure)}
    p, margin = len(chosen), 14 + 5.9 * max(len(name) for name in chosen.parameters)
    plot = Plot(
        left=margin,
        top=34,
        width=860 - margin,
        height=p * pitch,
        x=(-REACH, REACH),
        y=(0.0, float(p)),
    )
    parts = [
        line((plot.across(v),) * 2, (plot.top, plot.bottom), "zero" if v == 0 else "grid")
        for v in ticks(-REACH, REACH, 6)
    ]
    scale = np.where(chosen.std > 0, chosen.std, np.maximum(np.abs(chosen.values), 1e-300) * 1e-2)
    for i, name in enumerate(chosen.parameters):
        top, centre = plot.top + i * pitch, chosen.values[i]
        if i % 2:
            parts.append(tag("rect", x=0, y=top, width=860, height=pitch, class_="stripe"))
        parts.append(text(margin - 8, top + pitch / 2 + 3.5, name, "label end"))
        for k, box in enumerate(boxes.values()):
            if name in box.parameters:
                edges = [float(edge - centre) / scale[i] for edge in box[name]]
                low, high = plot.across(max(edges[0], -REACH)), plot.across(min(edges[1], REACH))
                parts.append(
                    tag(
                        "rect",
                        x=low,
                        y=top + 2,
                        height=pitch - 4,
                        width=max(high - low, 1.5),
                        class_=f"box box-{k % 2}",
                    )
                )
                parts += [
                    line((plot.across(edge),) * 2, (top + 2, top + pitch - 2), "edge")
                    for edge in edges
                    if abs(edge) < REACH
                ]
        for k, estimate in enumerate(estimates.values()):
            if name in estimate.parameters:
                at, j = (
                    top + pitch / 2 + 5 * (k - (len(estimates) - 1) / 2),
                    estimate.parameters.index(name),
                )
                value, *ends = (
                    (x - centre) / scale[i] for x in (estimate.values[j], *estimate.interval()[j])
                )
                parts += _answer(plot, at, value, np.clip(ends, -REACH, REACH), k)
    key, x = [], margin
    for k, label in enumerate(estimates):
        key += [_mark(x + 5, 12, k), text(x + 14, 15.5, label, "label")]
        x += 30 + 6.2 * len(label)
    for k, label in enumerate(boxes):
        key += [
            tag("rect", x=x, y=7, width=14, height=10, class_=f"box box-{k % 2}"),
            text(x + 19, 15.5, label, "label"),
        ]
        x += 34 + 6.2 * len(label)
    words = (
        "difference from the chosen estimate, in its standard deviations; bars are 95 % intervals"
    )
    foot = text(plot.left + plot.width / 2, plot.bottom + 27, words, "tick middle")
    return svg(
        860,
        plot.bottom + 34,
        *parts,
        *key,
        plot.x_axis(6),
        foot,
        title="estimators compared",
        class_="chart comparison",
    )


def _answer(plot: Plot, at: float, value: float, ends: FloatArray, k: int) -> list[Markup]:
    """Return an interval with its mark, or an arrow to a value beyond the picture."""
    if abs(value) > REACH:
        side, shift, arrow, end = (REACH, 2, "→", "end") if value > 0 else (-REACH, -2, "←", "")
        return [
            text(
                plot.across(side) + shift,
                at + 3,
                f"{arrow} {number(value, 2)}",
                f"tick answer-{k % 8} {end}",
            )
        ]
    return [
        line([plot.across(edge) for edge in ends], (at, at), f"whisker answer-{k % 8}"),
        _mark(plot.across(value), at, k),
    ]


def _mark(x: float, y: float, k: int) -> Markup:
    return tag("path", d=f"M{x:.1f} {y:.1f}{MARKS[k % 8 % 5]}", class_=f"dot answer-{k % 8}")


def singular_value_chart(base: BaseParameters) -> Markup:
    """Return the singular values of the sampled regressor: the gap between kept and dropped ones is
    the rank.
    """
    values = np.log10(
        np.maximum(base.singular_values, 1e-300) / max(float(base.singular_values.max()), 1e-300)
    )
    values, order = np.maximum(values, -20.0), np.arange(1.0, len(values) + 1)
    plot = Plot(
        left=52,
        top=8,
        width=358,
        height=112,
        x=(0.0, len(values) + 1.0),
        y=span_of(values, np.zeros(1)),
    )
    limit = np.log10(base.tolerance) if base.tolerance > 0 else plot.y[0]
    return plot.picture(
        plot.y_axis(log=True),
        plot.x_axis(6),
        plot.level(limit, "limit") if plot.y[0] < limit < plot.y[1] else "",
        *plot.dots(order, values, 2.2, ["kept" if k <= len(base) else "dropped" for k in order]),
        right="singular value of the structure, relative to the largest",
        title="singular values of the structure",
    )


def candidate_charts(choice: ProcessingChoice | None) -> list[Markup]:
    """Return the prediction error over each number of the processing that was chosen by it, the one
    taken marked.
    """
    if choice is None:
        return []
    used, window = choice.processing.cutoff, choice.processing.window
    cutoffs = [(c.cutoff, c.error) for c in choice.cutoffs if c.cutoff is not None]
    windows = [(1e3 * c.window, c.error) for c in choice.windows]
    pictures = []
    for tried, taken, label, log in (
        (cutoffs, used, "cut-off [Hz]", True),
        (windows, None if window is None else 1e3 * window, "window about reversals [ms]", False),
    ):
        if len(tried) < 2:
            continue
        number, percents = np.array(tried).T * [[1.0], [100.0]]
        x = np.log10(number) if log else number
        plot = Plot(
            left=52,
            top=10,
            width=358,
            height=112,
            x=span_of(x, pad=0.03),
            y=span_of(percents, np.zeros(1)),
        )
        marked = -1 if taken is None else int(np.abs(number - taken).argmin())
        dots = plot.dots(
            x, percents, 2.6, ["chosen" if k == marked else "kept" for k in range(len(x))]
        )
        pictures.append(
            plot.picture(
                plot.y_axis(),
                plot.x_axis(log=log),
                plot.curve(x, percents, "candidates"),
                *dots,
                left="error of the prediction [%]",
                right=label,
                title=f"error of the prediction over the {label}",
            )
        )
    return pictures


def friction_charts(model: Model, result: Identification) -> list[Markup]:
    """Return, for each motor that is a row, its friction over speed and its terms over position.

    Points are what a motor's effort is besides all else: measured - predicted + the terms shown.
    """
    mechanism, fits = model.mechanism, [fit for fit in result.fits if len(fit.time) > 2]
    if not fits or any(
        name not in result.base.names
        for name in result.estimate.parameters
        if name.payload is None and not name.is_gain
    ):
        return []  # values put together by hand, not those of this model
    values: dict[Any, float] = dict(zip(mechanism.standard.names, result.standard(model)))
    charts = []
    for joint in (j for j in mechanism.joints if j.actuated and j.name in model.rows):
        own = [mechanism.terms[name] for name in joint.terms if values[f"{joint.name}.{name}"]]
        shown = [term for term in own if not (term.other_joints or term.load_dependent)]
        rest = ", ".join(term.name for term in own if term not in shown)
        i, row = mechanism.coordinates.index(joint.name), model.rows.index(joint.name)
        q, qd, left, used = (
            np.concatenate(parts)
            for parts in zip(
                *(
                    (
                        fit.q[:, i],
                        np.gradient(fit.q[:, i], fit.time),
                        fit.measured[:, row] - fit.predicted[:, row],
                        fit.used[:, row],
                    )
                    for fit in fits
                )
            )
        )
        at = np.flatnonzero(used)[:: max(1, int(used.sum()) // SHOWN)]
        for terms, x, axis, words in (
            ([t for t in shown if t.dissipative], qd, f"{joint.unit}/s", "friction over speed"),
            (
                [t for t in shown if t.uses("q") and not t.uses("qd")],
                q,
                joint.unit,
                "efforts over position",
            ),
        ):
            if not (terms and len(at)):
                continue
            grid, still = np.linspace(x[at].min(), x[at].max(), STEPS), np.full(STEPS, np.median(q))
            y = _sum(terms, joint, values, q[at], qd[at]) + left[at]
            curve = _sum(
                terms, joint, values, *((still, grid) if x is qd else (grid, np.zeros(STEPS)))
            )
            title = f"{words} [{joint.effort_unit}], {joint.name}" + (
                f" without {rest}" if rest else ""
            )
            plot = Plot(
                left=52,
                top=10,
                width=358,
                height=132,
                x=span_of(x[at], pad=0.03),
                y=span_of(y, curve),
            )
            charts.append(
                plot.picture(
                    plot.y_axis(),
                    plot.x_axis(unit=axis),
                    *plot.dots(x[at], y, 1.3, ["kept"] * len(at)),
                    plot.curve(grid, curve, "candidates"),
                    left=title,
                    title=title,
                )
            )
    return charts


def _sum(
    terms: Sequence[JointTerm],
    joint: Joint,
    values: dict[Any, float],
    q: FloatArray,
    qd: FloatArray,
) -> FloatArray:
    """Return the efforts of terms with settled lags, (t,). [N or N m]"""
    state = JointState(q=q, qd=qd, qdd=np.zeros_like(q), sign=np.sign(qd), math=np)
    return np.asarray(
        sum(values[f"{joint.name}.{term.name}"] * term.value(state) for term in terms)
    )
