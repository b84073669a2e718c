"""Small SVG charts: the building blocks of all figures of the report.

Drawn here and not by Plotly in the browser. Measured on the hexapod's
report (headless Chromium, two cores, no GPU): with Plotly 6.4 MB, of
which 4.8 MB are its script, and 9-14 s until it is drawn; with these
0.43 MB and 1-2 s. They are also vectors on paper, sized for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from gough.app.report.numbers import PLAIN_MAX, PLAIN_MIN, number, superscript
from gough.core.arrays import FloatArray

PACKED_WIDTH = 4000  # integer steps across a plot whose curves are packed
PACKED_HEIGHT = 1000  # integer steps up such a plot
PICTURE_WIDTH = 420  # of a picture with one plot
TICK_ROUNDING = 1e-9  # ticks this close to an end of an axis are drawn
# of the values beside an axis, from one line to the next [px]
MIN_LABEL_DISTANCE = 11.0
MOST_DECADES = 5  # labelled on a logarithmic axis


def tag(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return an element; text and attribute values are escaped.

    `class_` is `class`, `x_y` is `x-y`.
    """
    words = []
    for key, content in attributes.items():
        if content is not None:
            attribute = key.rstrip("_").replace("_", "-")
            words.append(f' {attribute}="{escape(_short(content))}"')
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{''.join(words)}>{inside}</{name}>")


def _short(content: object) -> str:
    """Return a text; numbers with at most two decimals."""
    if isinstance(content, float | np.floating):
        return f"{content:.2f}".rstrip("0").rstrip(".")
    return str(content)


def svg(
    width: float,
    height: float,
    *children: str | Markup,
    title: str,
    class_: str = "chart",
    **attributes: object,
) -> Markup:
    """Return a picture that fills its column; screen readers read the title."""
    return tag(
        "svg",
        tag("title", title),
        *children,
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        class_=class_,
        role="img",
        **attributes,
    )


def text(
    x: float,
    y: float,
    content: str,
    class_: str = "label",
    **attributes: object,
) -> Markup:
    """Return a text; anchored by `class_` (`end`, `middle`)."""
    return tag("text", content, x=x, y=y, class_=class_, **attributes)


def line(x: Sequence[float], y: Sequence[float], class_: str) -> Markup:
    """Return a line between two points."""
    return tag("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_=class_)


def vertical_line(x: float, y: Sequence[float], class_: str) -> Markup:
    """Return a line between two heights."""
    return line((x, x), y, class_)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers (1, 2 or 5 times a power of ten) between two bounds."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough_step = span / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough_step))
    round_steps = [factor * power for factor in (1, 2, 5, 10)]
    step = min(round_steps, key=lambda s: abs(math.log(s / rough_step)))
    first = math.ceil(low / step - TICK_ROUNDING)
    last = math.floor(high / step + TICK_ROUNDING)
    return [k * step for k in range(first, last + 1)]


def span_of(*values: FloatArray, pad: float = 0.06) -> tuple[float, float]:
    """Return the range of some values with a margin; never empty."""
    numbers = np.concatenate([np.ravel(array) for array in values])
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        return -1.0, 1.0
    low = float(finite.min())
    high = float(finite.max())
    margin = pad * (high - low) if high > low else max(abs(high), 1e-12) * 0.5
    return low - margin, high + margin


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A rectangle of the picture with its scales.

    A logarithmic axis is given in decades (log10 of its values).
    """

    left: float  # in the units of the picture, like the three below
    top: float  # of the plot area [px]
    width: float  # [px]
    height: float  # [px]
    x: tuple[float, float]  # values at the left and right edge
    y: tuple[float, float]  # values at the lower and upper edge

    @property
    def right(self) -> float:
        """The right edge in the picture."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge in the picture."""
        return self.top + self.height

    def across(self, value: float) -> float:
        """Return the place in the picture of a value on the horizontal axis."""
        return self.left + self.width * (value - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        """Return the place in the picture of a value on the vertical axis."""
        return self.bottom - self.height * (value - self.y[0]) / (self.y[1] - self.y[0])

    def level(self, value: float, class_: str) -> Markup:
        """Return a line from left to right at a value."""
        height = self.up(value)
        return line((self.left, self.right), (height, height), class_)

    def y_axis(self, count: int = 4, *, log: bool = False) -> Markup:
        """Return horizontal grid lines with their values; where they are dense, of some of them."""
        marks = decades(*self.y) if log else ticks(*self.y, count)
        every = 1
        step = 1.0
        if len(marks) > 1 and not log:
            step = marks[1] - marks[0]
            every = math.ceil(MIN_LABEL_DISTANCE / (self.up(marks[0]) - self.up(marks[1])))
        axis = Markup("")
        for mark in marks:
            is_zero = mark == 0 and not log
            axis += self.level(mark, "zero" if is_zero else "grid")
            if round(mark / step) % every:
                continue
            axis += text(
                self.left - 5,
                self.up(mark) + 3,
                label(mark, marks, log),
                "tick end",
            )
        return axis

    def x_axis(self, count: int = 5, unit: str = "", *, log: bool = False) -> Markup:
        """Return the values along the lower edge; the last one has the unit."""
        marks = decades(*self.x) if log else ticks(*self.x, count)
        labels = [label(mark, marks, log) for mark in marks]
        if labels:
            labels[-1] = f"{labels[-1]} {unit}".rstrip()
        texts = []
        for mark, word in zip(marks, labels):
            texts.append(text(self.across(mark), self.bottom + 12, word, "tick middle"))
        return tag("g", *texts, class_="x-ticks")

    def dots(
        self,
        x: FloatArray,
        y: FloatArray,
        radius: float,
        classes: Sequence[str],
    ) -> list[Markup]:
        """Return a dot of a class for each point."""
        circles = []
        for a, b, class_ in zip(x, y, classes):
            cx = round(self.across(a), 1)
            cy = round(self.up(b), 1)
            circles.append(tag("circle", cx=cx, cy=cy, r=radius, class_=class_))
        return circles

    def curve(self, x: FloatArray, y: FloatArray, class_: str) -> Markup:
        """Return a line through points; one that is not finite interrupts it."""
        commands = []
        command = "M"
        for a, b in zip(x, y):
            if math.isfinite(a + b):
                commands.append(f"{command}{self.across(a):.1f} {self.up(b):.1f}")
                command = "L"
            else:
                command = "M"
        return tag("path", d="".join(commands), class_=class_)

    def picture(
        self,
        y_axis: Markup,
        x_axis: Markup,
        *children: str | Markup,
        left: str = "",
        right: str = "",
        title: str,
    ) -> Markup:
        """Return a picture of the usual width with a text at each side below the axes."""
        texts = []
        if right:
            texts.append(text(self.right, self.bottom + 25, right, "tick end"))
        if left:
            texts.append(text(self.left, self.bottom + 25, left, "tick"))
        height = self.bottom + 30
        return svg(
            PICTURE_WIDTH,
            height,
            y_axis,
            *children,
            x_axis,
            *texts,
            title=title,
        )

    def window(self, *children: Markup) -> Markup:
        """Return a drawing area for packed curves over the plot; the page can zoom it."""
        return tag(
            "svg",
            *children,
            x=self.left,
            y=self.top,
            width=self.width,
            height=self.height,
            class_="window",
            viewBox=f"0 0 {PACKED_WIDTH} {PACKED_HEIGHT}",
            preserveAspectRatio="none",
        )

    def packed_across(self, x: FloatArray) -> NDArray[np.int_]:
        """Return values on the horizontal axis in integer steps of a window."""
        return np.rint(PACKED_WIDTH * (x - self.x[0]) / (self.x[1] - self.x[0])).astype(int)

    def packed(
        self,
        x: FloatArray,
        y: FloatArray,
        segment: NDArray[np.int_],
        class_: str,
    ) -> Markup:
        """Return a curve in relative integer steps, about five characters per point.

        It is interrupted where `segment` changes.
        """
        a = self.packed_across(x)
        b = np.rint(PACKED_HEIGHT * (self.y[1] - y) / (self.y[1] - self.y[0])).astype(int)
        da = np.diff(a, prepend=0)
        db = np.diff(b, prepend=0)
        commands = []
        previous = ""
        for k in range(len(a)):
            command = "m" if k == 0 or segment[k] != segment[k - 1] else "l"
            if command == "m" or previous == "m":
                commands.append(command)
            elif da[k] >= 0:
                commands.append(" ")  # between numbers; a minus sign needs none
            commands.append(f"{da[k]}{' ' if db[k] >= 0 else ''}{db[k]}")
            previous = command
        return tag("path", d="".join(commands), class_=class_)


def label(value: float, marks: Sequence[float], log: bool) -> str:
    """Return the text of a tick with as many decimals as the step between ticks needs."""
    if log and (abs(value) <= 2 or value != round(value)):
        return number(10.0**value, 1)
    if log:
        return f"10{superscript(round(value))}"
    if value != 0 and not PLAIN_MIN <= max(abs(mark) for mark in marks) < PLAIN_MAX:
        return number(value, 2)
    step = abs(marks[1] - marks[0]) if len(marks) > 1 else abs(value) or 1.0
    decimals = 0
    if step > 0:
        decimals = max(0, -math.floor(math.log10(step) + TICK_ROUNDING))
    return f"{value + 0.0:.{decimals}f}".replace("-", "−")


def decades(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis, as logarithms.

    Whole decades, some of them if they are many; also 2 and 5 times if
    there is only one.
    """
    first = math.ceil(low - TICK_ROUNDING)
    last = math.floor(high + TICK_ROUNDING)
    if last - first < 1:
        return _fine_decades(low, high)
    step = max(1, math.ceil((last - first + 1) / MOST_DECADES))
    return [float(k) for k in range(first, last + 1, step)]


def _fine_decades(low: float, high: float) -> list[float]:
    """Return the logarithms of 1, 2 and 5 times the powers of ten in a range."""
    marks = []
    for power in range(math.floor(low) - 1, math.ceil(high) + 1):
        for factor in (1, 2, 5):
            marks.append(power + math.log10(factor))
    return [mark for mark in marks if low <= mark <= high]
