"""The figures of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gough.app.report.charts import (
    PACKED_HEIGHT,
    Plot,
    line,
    span_of,
    svg,
    tag,
    text,
    ticks,
    vertical_line,
)
from gough.app.report.numbers import number, percent, unit
from gough.core.arrays import BoolArray, FloatArray
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.estimate import Enclosure, Estimate
from gough.identification import Fit, Identification
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint
from gough.processing.choice import ProcessingChoice

CURVE_POINTS = 60_000  # in all effort pictures together
CORRELATION_SHADES = 8  # steps of each colour of the correlation matrix
COMPARISON_HEIGHT = 800  # of a comparison that fits on a page
COMPARISON_WIDTH = 860
COMPARISON_REACH = 6.0  # standard errors shown when estimators are compared
# Circle, square, diamond, triangle, cross.
ESTIMATOR_MARKS = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.6-2.6h5.2v5.2h-5.2z",
    "m0-3.6l3.6 3.6l-3.6 3.6l-3.6-3.6z",
    "m0-3.4l3.3 5.8h-6.6z",
    "m-3-1h2v-2h2v2h2v2h-2v2h-2v-2h-2z",
)
ESTIMATOR_COLOURS = 8  # colours of estimators in the style sheet
FRICTION_POINTS = 300  # samples in one friction picture
FRICTION_STEPS = 241  # of its curve
HISTOGRAM_REACH = 4.0  # standard deviations
HISTOGRAM_HEIGHT = 0.55  # probability density
SPECTRUM_BANDS = 48
MIN_CHART_SAMPLES = 16


def effort_charts(fit: Fit, rows: Sequence[str], units: Sequence[str], panels: int) -> list[Markup]:
    """Return measured and predicted effort with the residual below, one picture per joint equation.

    Args:
        fit: Measured and predicted effort of a log.
        rows: Names of the joint equations.
        units: Of their efforts.
        panels: Number of such pictures in the report, which share a
            budget of points.
    """
    count = int(np.clip(CURVE_POINTS / 3 / max(panels, 1), 250, 1400))
    gap = np.diff(fit.time, prepend=fit.time[0])
    usual_gap = float(np.median(gap[1:])) if len(gap) > 1 else 1.0
    segment = np.cumsum((gap > 4 * usual_gap).astype(int))
    charts = []
    for j, (row, effort_unit) in enumerate(zip(rows, units)):
        charts.append(_effort_chart(fit, j, row, unit(effort_unit), segment, count))
    return charts


def _effort_chart(
    fit: Fit,
    j: int,
    row: str,
    effort_unit: str,
    segment: NDArray[np.int_],
    count: int,
) -> Markup:
    """Return the picture of joint equation j; curves are interrupted where `segment` changes."""
    measured = fit.measured[:, j]
    predicted = fit.predicted[:, j]
    used = _used(fit, j)
    residual = measured - predicted
    keep = extremes(residual, count)
    residual_rms = _rms(residual[used])
    relative = percent(residual_rms / max(_rms(measured[used]), 1e-300))
    x = (float(fit.time[0]), float(fit.time[-1])) if len(fit.time) > 1 else (0.0, 1.0)
    upper = Plot(
        left=46,
        top=26,
        width=366,
        height=112,
        x=x,
        y=span_of(measured, predicted),
    )
    largest = float(np.abs(residual[used]).max()) * 1.15 or 1.0
    lower = Plot(left=46, top=148, width=366, height=44, x=x, y=(-largest, largest))
    time = fit.time[keep]
    parts = segment[keep]
    excluded = _excluded(upper, fit.time, used)
    caption = f"rms residual {number(residual_rms, 3)} {effort_unit}, {relative}"
    return svg(
        420,
        208,
        text(upper.left, 14, row, "name"),
        text(upper.right, 14, caption, "note end"),
        upper.y_axis(4),
        lower.y_axis(3),
        lower.x_axis(6, "s"),
        upper.window(
            excluded,
            upper.packed(time, measured[keep], parts, "measured"),
            upper.packed(time, predicted[keep], parts, "predicted"),
        ),
        lower.window(excluded, lower.packed(time, residual[keep], parts, "residual")),
        vertical_line(0, (upper.top, lower.bottom), "cursor"),
        text(8, upper.top - 12, effort_unit, "tick"),
        title=f"{row}: measured and predicted effort, {fit.label}",
        class_="chart effort",
        tabindex=0,
        data_x=f"{x[0]!r} {x[1]!r}",
        data_y=f"{upper.y[0]!r} {upper.y[1]!r}",
        data_r=repr(largest),
        data_unit=effort_unit,
    )


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _used(fit: Fit, j: int) -> BoolArray:
    """Return the samples of a joint equation that are valid; all if none are marked."""
    used = fit.used[:, j]
    return used if used.any() else np.ones_like(used)


def _excluded(plot: Plot, time: FloatArray, used: BoolArray) -> Markup:
    """Return a shade over the samples that did not enter the estimate."""
    padded = np.concatenate([[False], ~used, [False]])
    edges = np.flatnonzero(np.diff(padded.astype(int)))
    place = plot.packed_across(time)
    path = ""
    for first, after in edges.reshape(-1, 2):
        start = place[first]
        stop = max(place[min(after, len(time) - 1)], start + 4)
        path += f"M{start} 0H{stop}V{PACKED_HEIGHT}H{start}z"
    return tag("path", d=path, class_="excluded")


def extremes(values: FloatArray, count: int) -> NDArray[np.int_]:
    """Return about `count` indices with the smallest and largest value of every block.

    A thinned curve then shows every spike.
    """
    if len(values) <= count:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), max(count // 2, 1) + 1).astype(int)
    kept = {0, len(values) - 1}
    for start, stop in pairwise(edges):
        block = values[start:stop]
        kept |= {start + int(block.argmin()), start + int(block.argmax())}
    return np.array(sorted(kept))


def _residuals(fits: Sequence[Fit], j: int, held_out: bool) -> list[tuple[FloatArray, FloatArray]]:
    """Return times and residuals of a joint equation at valid samples, (t,) each, by log."""
    residuals = []
    for fit in fits:
        if fit.held_out == held_out:
            used = _used(fit, j)
            residual = fit.measured[:, j] - fit.predicted[:, j]
            residuals.append((fit.time[used], residual[used]))
    return residuals


def histogram(fits: Sequence[Fit], j: int, row: str) -> Markup:
    """Return the distribution of a residual over its rms, beside a Gaussian."""
    reach = HISTOGRAM_REACH
    plot = Plot(
        left=6,
        top=4,
        width=168,
        height=54,
        x=(-reach, reach),
        y=(0.0, HISTOGRAM_HEIGHT),
    )
    edges = np.linspace(-reach, reach, 33)
    grid = np.linspace(-reach, reach, 65)
    gaussian = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    curves = [plot.curve(grid, gaussian, "gauss")]
    for class_, held_out in (("identified", False), ("held-out", True)):
        logs = _residuals(fits, j, held_out)
        residual = np.concatenate([np.zeros(0), *(values for _, values in logs)])
        if residual.size and residual.std() > 0:
            scaled = np.clip(residual / _rms(residual), -reach, reach)
            density, _ = np.histogram(scaled, edges, density=True)
            steps = np.repeat(np.minimum(density, HISTOGRAM_HEIGHT), 2)
            curves.append(plot.curve(np.repeat(edges, 2)[1:-1], steps, class_))
    marks = []
    for place, word in ((-3, "−3σ"), (0, "0"), (3, "3σ")):
        marks.append(text(plot.across(place), plot.bottom + 11, word, "tick middle"))
    return svg(
        180,
        72,
        plot.level(0, "zero"),
        *marks,
        *curves,
        title=f"distribution of the residual of {row}",
    )


def spectra(fits: Sequence[Fit], rows: Sequence[str]) -> list[Markup]:
    """Return the amplitude density of each residual over frequency, on a common frequency axis.

    The unit is that of the effort over sqrt(Hz).
    """
    spectra_of_rows = [_spectra_of_row(fits, j) for j in range(len(rows))]
    frequencies = []
    for curves in spectra_of_rows:
        frequencies += [frequency for frequency, _, _ in curves]
    if not frequencies:
        return [Markup("")] * len(rows)
    x = span_of(*frequencies, pad=0.0)
    pictures = []
    for row, curves in zip(rows, spectra_of_rows):
        densities = [density for _, density, _ in curves]
        low, high = span_of(*densities, np.zeros(0), pad=0.05)
        plot = Plot(
            left=34,
            top=4,
            width=200,
            height=54,
            x=x,
            y=(low, max(high, low + 1.0)),
        )
        lines = [plot.curve(*curve) for curve in curves]
        y_axis = plot.y_axis(log=True)
        x_axis = plot.x_axis(log=True)
        title = f"spectrum of the residual of {row}"
        pictures.append(svg(240, 72, y_axis, x_axis, *lines, title=title))
    return pictures


def _spectra_of_row(fits: Sequence[Fit], j: int) -> list[tuple[FloatArray, FloatArray, str]]:
    """Return log10 of frequency and density, and the class, of the first log of each use."""
    curves = []
    for class_, held_out in (("identified", False), ("held-out", True)):
        for time, residual in _residuals(fits, j, held_out):
            if len(time) >= MIN_CHART_SAMPLES:
                frequency, density = amplitude_density(time, residual)
                curves.append((np.log10(frequency), np.log10(density), class_))
                break
    return curves


def amplitude_density(time: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frequencies (b,) [Hz] and amplitude densities (b,) [unit / sqrt(Hz)].

    Missing samples of the even clock dt are set to zero: for N samples
    of white noise of variance s^2, |sum x exp(-j w t)|^2 has mean N s^2
    whatever is missing, so the one-sided density is 2 dt |X|^2 / N.
    Averaged in bands of equal width in log f.

    Args:
        time: Of samples with gaps, (t,). [s]
        values: (t,).
    """
    step = float(np.median(np.diff(time)))
    place = np.rint((time - time[0]) / step).astype(int)
    even = np.zeros(place[-1] + 1)
    even[place] = values - values.mean()
    frequency = np.fft.rfftfreq(len(even), step)[1:]
    power = 2 * step * np.abs(np.fft.rfft(even)[1:]) ** 2 / len(values)
    edges = np.geomspace(frequency[0], frequency[-1], SPECTRUM_BANDS + 1)
    band = np.digitize(frequency, edges[1:-1])
    count = np.bincount(band, minlength=SPECTRUM_BANDS)
    filled = count > 0
    log_sum = np.bincount(band, np.log(frequency), minlength=SPECTRUM_BANDS)
    power_sum = np.bincount(band, power, minlength=SPECTRUM_BANDS)
    centre = log_sum[filled] / count[filled]
    density = np.sqrt(power_sum[filled] / count[filled])
    floor = 1e-9 * max(float(density.max()), 1e-300)
    return np.exp(centre), np.maximum(density, floor)


def correlation_matrix(estimate: Estimate) -> Markup:
    """Return the lower triangle of the correlation matrix, blue below zero and red above."""
    p = len(estimate)
    cell = float(np.clip(520 / max(p, 1), 6.5, 24))
    font = min(10.5, cell * 0.92)
    margin = 12 + 0.56 * font * max(map(len, estimate.parameters))
    width = p * cell
    cells = tag(
        "g",
        *_correlation_cells(estimate.correlation),
        transform=f"translate({margin:.1f} 0) scale({cell:.3f})",
    )
    row_names = []
    column_names = []
    for i, name in enumerate(estimate.parameters):
        middle = (i + 0.5) * cell + 0.35 * font
        turned = f"translate({margin + middle:.1f} {width + 6:.1f}) rotate(-90)"
        row_names.append(text(margin - 6, middle, name, "tick end"))
        column_names.append(text(0, 0, name, "tick end", transform=turned))
    key = _correlation_key(margin + width - 190) if width >= 260 else []
    return svg(
        margin + width + 2,
        width + margin,
        cells,
        tag("g", *row_names, *column_names, font_size=font),
        *key,
        title="correlation of the estimation errors",
        class_="chart correlation",
        data_cell=f"{margin} {cell} {p}",
        style=f"max-width: {1.2 * (margin + width):.0f}px",
    )


def _correlation_cells(correlation: FloatArray) -> list[Markup]:
    """Return one path for all cells of a colour, in steps of cells."""
    p = len(correlation)
    outline = f"M0 0V{p}H{p}"
    for k in range(p, 1, -1):
        outline += f"V{k - 1}H{k - 1}"
    paths = {"rail": outline + "z"}
    levels = np.rint(CORRELATION_SHADES * np.tril(correlation)).astype(int)
    for i, j in np.argwhere(levels):
        class_ = _shade(levels[i, j])
        paths[class_] = paths.get(class_, "") + f"M{j} {i}h1v1h-1z"
    return [tag("path", d=path, class_=class_) for class_, path in paths.items()]


def _correlation_key(left: float) -> list[Markup]:
    """Return the colours with their numbers."""
    key = []
    for level in range(-CORRELATION_SHADES, CORRELATION_SHADES + 1):
        x = left + 10 * (level + CORRELATION_SHADES)
        key.append(tag("rect", x=x, y=8, width=10, height=9, class_=_shade(level)))
    for x, word, anchor in (
        (0, "−1", ""),
        (85, "0", "middle"),
        (170, "1", "end"),
    ):
        key.append(text(left + x, 28, word, f"tick {anchor}"))
    return key


def _shade(level: int) -> str:
    """Return the class of a colour of the correlation matrix."""
    if level == 0:
        return "rail"
    return f"minus-{-level}" if level < 0 else f"plus-{level}"


def comparison_charts(
    chosen: Estimate, results: Mapping[str, Estimate | Enclosure]
) -> list[Markup]:
    """Return all results minus the chosen estimate, over its standard errors.

    Estimates have 95 % confidence intervals, enclosures are boxes. One
    picture for as many parameters as fit on a page.
    """
    names = chosen.parameters
    n_estimates = sum(isinstance(result, Estimate) for result in results.values())
    pitch = max(16, 5 * n_estimates + 7)
    most = max(1, COMPARISON_HEIGHT // pitch)
    pages = math.ceil(len(names) / most)
    count = math.ceil(len(names) / pages)
    charts = []
    for first in range(0, len(names), count):
        on_page = chosen.select(names[first : first + count])
        charts.append(_comparison_chart(_ComparedPage.of(on_page, results, pitch)))
    return charts


@dataclass(frozen=True, kw_only=True, eq=False)
class _ComparedPage:
    """Results beside the chosen estimate in one picture."""

    chosen: Estimate
    estimates: dict[str, Estimate]
    boxes: dict[str, Enclosure]
    pitch: int  # height of a parameter
    plot: Plot
    scale: FloatArray  # unit of the horizontal axis for each parameter, (p,)

    @classmethod
    def of(
        cls,
        chosen: Estimate,
        results: Mapping[str, Estimate | Enclosure],
        pitch: int,
    ) -> _ComparedPage:
        """Return the picture of some parameters of the chosen estimate."""
        margin = 14 + 5.9 * max(len(name) for name in chosen.parameters)
        plot = Plot(
            left=margin,
            top=34,
            width=COMPARISON_WIDTH - margin,
            height=len(chosen) * pitch,
            x=(-COMPARISON_REACH, COMPARISON_REACH),
            y=(0.0, float(len(chosen))),
        )
        without_error = np.maximum(np.abs(chosen.values), 1e-300) * 1e-2
        return cls(
            chosen=chosen,
            estimates={k: r for k, r in results.items() if isinstance(r, Estimate)},
            boxes={k: r for k, r in results.items() if isinstance(r, Enclosure)},
            pitch=pitch,
            plot=plot,
            scale=np.where(chosen.std > 0, chosen.std, without_error),
        )

    def scaled(self, value: float, i: int) -> float:
        """Return a value minus the chosen one over the standard error of parameter i."""
        return float((value - self.chosen.values[i]) / self.scale[i])


def _comparison_chart(page: _ComparedPage) -> Markup:
    plot = page.plot
    parts = []
    for tick in ticks(-COMPARISON_REACH, COMPARISON_REACH, 6):
        class_ = "zero" if tick == 0 else "grid"
        parts.append(vertical_line(plot.across(tick), (plot.top, plot.bottom), class_))
    for i in range(len(page.chosen)):
        parts += _compared_parameter(page, i)
    caption = "difference from the chosen estimate, in its standard errors; bars are 95 % intervals"
    foot = text(plot.left + plot.width / 2, plot.bottom + 27, caption, "tick middle")
    return svg(
        COMPARISON_WIDTH,
        plot.bottom + 34,
        *parts,
        *_comparison_key(page),
        plot.x_axis(6),
        foot,
        title="estimators compared",
        class_="chart comparison",
    )


def _compared_parameter(page: _ComparedPage, i: int) -> list[Markup]:
    """Return the line of one parameter: its name, boxes and confidence intervals."""
    name = page.chosen.parameters[i]
    top = page.plot.top + i * page.pitch
    middle = top + page.pitch / 2
    parts = []
    if i % 2:
        stripe = tag(
            "rect",
            x=0,
            y=top,
            width=COMPARISON_WIDTH,
            height=page.pitch,
            class_="stripe",
        )
        parts.append(stripe)
    parts.append(text(page.plot.left - 8, middle + 3.5, name, "label end"))
    for k, box in enumerate(page.boxes.values()):
        if name in box.parameters:
            lower, upper = box[name]
            parts += _box(page, top, page.scaled(lower, i), page.scaled(upper, i), k)
    for k, estimate in enumerate(page.estimates.values()):
        if name in estimate.parameters:
            j = estimate.parameters.index(name)
            height = middle + 5 * (k - (len(page.estimates) - 1) / 2)
            value = page.scaled(estimate.values[j], i)
            ends = [page.scaled(end, i) for end in estimate.interval()[j]]
            parts += _confidence_interval(page.plot, height, value, ends, k)
    return parts


def _box(page: _ComparedPage, top: float, lower: float, upper: float, k: int) -> list[Markup]:
    """Return an interval enclosure; edges beyond the picture are not drawn."""
    left = page.plot.across(max(lower, -COMPARISON_REACH))
    right = page.plot.across(min(upper, COMPARISON_REACH))
    parts = [
        tag(
            "rect",
            x=left,
            y=top + 2,
            height=page.pitch - 4,
            width=max(right - left, 1.5),
            class_=f"box box-{k % 2}",
        )
    ]
    for edge in (lower, upper):
        if abs(edge) < COMPARISON_REACH:
            height = (top + 2, top + page.pitch - 2)
            parts.append(vertical_line(page.plot.across(edge), height, "edge"))
    return parts


def _comparison_key(page: _ComparedPage) -> list[Markup]:
    """Return the marks of estimators and the colours of boxes with their names."""
    key = []
    x = page.plot.left
    for k, label in enumerate(page.estimates):
        key += [_mark(x + 5, 12, k), text(x + 14, 15.5, label, "label")]
        x += 30 + 6.2 * len(label)
    for k, label in enumerate(page.boxes):
        key.append(tag("rect", x=x, y=7, width=14, height=10, class_=f"box box-{k % 2}"))
        key.append(text(x + 19, 15.5, label, "label"))
        x += 34 + 6.2 * len(label)
    return key


def _confidence_interval(
    plot: Plot, height: float, value: float, ends: Sequence[float], k: int
) -> list[Markup]:
    """Return an interval with its mark, or an arrow to a value beyond the picture."""
    class_ = f"estimator-{k % ESTIMATOR_COLOURS}"
    if value > COMPARISON_REACH:
        words = f"→ {number(value, 2)}"
        return [text(plot.right + 2, height + 3, words, f"tick {class_} end")]
    if value < -COMPARISON_REACH:
        words = f"← {number(value, 2)}"
        return [text(plot.left - 2, height + 3, words, f"tick {class_} ")]
    inside = np.clip(ends, -COMPARISON_REACH, COMPARISON_REACH)
    x = [plot.across(end) for end in inside]
    return [
        line(x, (height, height), f"whisker {class_}"),
        _mark(plot.across(value), height, k),
    ]


def _mark(x: float, y: float, k: int) -> Markup:
    """Return the mark of estimator k."""
    colour = k % ESTIMATOR_COLOURS
    shape = ESTIMATOR_MARKS[colour % len(ESTIMATOR_MARKS)]
    return tag("path", d=f"M{x:.1f} {y:.1f}{shape}", class_=f"dot estimator-{colour}")


def singular_value_chart(base: BaseParameters) -> Markup:
    """Return the singular values of the sampled regressor, kept and dropped ones."""
    largest = max(float(base.singular_values.max()), 1e-300)
    values = np.log10(np.maximum(base.singular_values, 1e-300) / largest)
    values = np.maximum(values, -20.0)
    order = np.arange(1.0, len(values) + 1)
    x = (0.0, len(values) + 1.0)
    plot = Plot(
        left=52,
        top=8,
        width=358,
        height=112,
        x=x,
        y=span_of(values, np.zeros(1)),
    )
    limit = np.log10(base.tolerance) if base.tolerance > 0 else plot.y[0]
    limit_line = plot.level(limit, "limit") if plot.y[0] < limit < plot.y[1] else ""
    classes = np.where(order <= len(base), "kept", "dropped")
    return plot.picture(
        plot.y_axis(log=True),
        plot.x_axis(6),
        limit_line,
        *plot.dots(order, values, 2.2, classes.tolist()),
        right="singular values of the regressor, relative to the largest",
        title="singular values of the regressor",
    )


def candidate_charts(choice: ProcessingChoice | None) -> list[Markup]:
    """Return the prediction error over cut-off and exclusion window, with the chosen ones marked.

    Only for those that were chosen among several candidates.
    """
    if choice is None:
        return []
    charts = []
    cutoffs = [(c.cutoff, c.error) for c in choice.cutoffs if c.cutoff is not None]
    if len(cutoffs) > 1:
        chosen = choice.processing.cutoff
        charts.append(_candidate_chart(cutoffs, chosen, "cut-off [Hz]", log=True))
    windows = [(1e3 * c.window, c.error) for c in choice.windows]
    if len(windows) > 1:
        chosen = choice.processing.window
        chosen = None if chosen is None else 1e3 * chosen
        label = "exclusion window around reversals [ms]"
        charts.append(_candidate_chart(windows, chosen, label, log=False))
    return charts


def _candidate_chart(
    candidates: Sequence[tuple[float, float]],
    chosen: float | None,
    label: str,
    *,
    log: bool,
) -> Markup:
    """Return the prediction error over a setting; candidates are (setting, error)."""
    settings, errors = np.array(candidates).T
    percentages = 100.0 * errors
    x = np.log10(settings) if log else settings
    plot = Plot(
        left=52,
        top=10,
        width=358,
        height=112,
        x=span_of(x, pad=0.03),
        y=span_of(percentages, np.zeros(1)),
    )
    classes = ["kept"] * len(x)
    if chosen is not None:
        classes[int(np.abs(settings - chosen).argmin())] = "chosen"
    return plot.picture(
        plot.y_axis(),
        plot.x_axis(log=log),
        plot.curve(x, percentages, "candidates"),
        *plot.dots(x, percentages, 2.6, classes),
        left="prediction error [%]",
        right=label,
        title=f"prediction error over the {label}",
    )


def friction_charts(model: Model, result: Identification) -> list[Markup]:
    """Return friction over velocity and position-dependent terms of each motor.

    Only of motors that have a joint equation of their own. Points are
    measured effort minus the rest of the model: measured - predicted +
    the terms shown.
    """
    mechanism = model.mechanism
    fits = [fit for fit in result.fits if len(fit.time) > 2]
    if not fits or not _is_of_model(result):
        return []
    values: dict[Any, float] = dict(zip(mechanism.standard.names, result.standard(model)))
    charts = []
    for joint in mechanism.joints:
        if joint.actuated and joint.name in model.rows:
            charts += _joint_charts(_JointSamples.of(model, joint, fits), mechanism.terms, values)
    return charts


def _is_of_model(result: Identification) -> bool:
    """Return whether all robot parameters are base parameters, not values made by hand."""
    for name in result.estimate.parameters:
        if name.payload is None and not name.is_gain and name not in result.base.names:
            return False
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class _JointSamples:
    """Motion and residual of one joint at some valid samples of all logs."""

    joint: Joint
    q: FloatArray  # (t,) [m or rad]
    qd: FloatArray  # (t,) [m/s or rad/s]
    residual: FloatArray  # (t,) [N or N m]
    median: float  # of the position over all samples [m or rad]

    @classmethod
    def of(cls, model: Model, joint: Joint, fits: Sequence[Fit]) -> _JointSamples:
        """Return about `FRICTION_POINTS` samples of a joint."""
        column = model.mechanism.coordinates.index(joint.name)
        row = model.rows.index(joint.name)
        q = np.concatenate([fit.q[:, column] for fit in fits])
        qd = np.concatenate([np.gradient(fit.q[:, column], fit.time) for fit in fits])
        residual = np.concatenate([fit.measured[:, row] - fit.predicted[:, row] for fit in fits])
        used = np.concatenate([fit.used[:, row] for fit in fits])
        every = max(1, int(used.sum()) // FRICTION_POINTS)
        kept = np.flatnonzero(used)[::every]
        median = float(np.median(q))
        return cls(
            joint=joint,
            q=q[kept],
            qd=qd[kept],
            residual=residual[kept],
            median=median,
        )


def _joint_charts(
    samples: _JointSamples,
    all_terms: Mapping[str, JointTerm],
    values: dict[Any, float],
) -> list[Markup]:
    """Return friction over velocity and terms over position of one joint, if it has such terms."""
    joint = samples.joint
    nonzero = [all_terms[name] for name in joint.terms if values[f"{joint.name}.{name}"]]
    shown = [term for term in nonzero if not (term.other_joints or term.load_dependent)]
    hidden = ", ".join(term.name for term in nonzero if term not in shown)
    ending = f", {joint.name}" + (f" without {hidden}" if hidden else "")
    charts = []
    dissipative = [term for term in shown if term.dissipative]
    if dissipative and len(samples.q):
        grid = np.linspace(samples.qd.min(), samples.qd.max(), FRICTION_STEPS)
        still = np.full(FRICTION_STEPS, samples.median)
        curve = _sum(dissipative, joint, values, still, grid)
        points = _sum(dissipative, joint, values, samples.q, samples.qd) + samples.residual
        title = f"friction over velocity [{joint.effort_unit}]{ending}"
        unit_of_x = f"{joint.unit}/s"
        charts.append(_friction_chart(samples.qd, points, grid, curve, unit_of_x, title))
    positional = [term for term in shown if term.uses("q") and not term.uses("qd")]
    if positional and len(samples.q):
        grid = np.linspace(samples.q.min(), samples.q.max(), FRICTION_STEPS)
        curve = _sum(positional, joint, values, grid, np.zeros(FRICTION_STEPS))
        points = _sum(positional, joint, values, samples.q, samples.qd) + samples.residual
        title = f"effort over position [{joint.effort_unit}]{ending}"
        charts.append(_friction_chart(samples.q, points, grid, curve, joint.unit, title))
    return charts


def _friction_chart(
    x: FloatArray,
    points: FloatArray,
    grid: FloatArray,
    curve: FloatArray,
    x_unit: str,
    title: str,
) -> Markup:
    """Return points (x, points) with the curve (grid, curve) of the model."""
    plot = Plot(
        left=52,
        top=10,
        width=358,
        height=132,
        x=span_of(x, pad=0.03),
        y=span_of(points, curve),
    )
    return plot.picture(
        plot.y_axis(),
        plot.x_axis(unit=x_unit),
        *plot.dots(x, points, 1.3, ["kept"] * len(x)),
        plot.curve(grid, curve, "candidates"),
        left=title,
        title=title,
    )


def _sum(
    terms: Sequence[JointTerm],
    joint: Joint,
    values: dict[Any, float],
    q: FloatArray,
    qd: FloatArray,
) -> FloatArray:
    """Return the sum of joint terms with internal states at equilibrium, (t,). [N or N m]"""
    state = JointState(q=q, qd=qd, qdd=np.zeros_like(q), sign=np.sign(qd), math=np)
    total = np.zeros_like(q)
    for term in terms:
        total = total + values[f"{joint.name}.{term.name}"] * term.value(state)
    return total
