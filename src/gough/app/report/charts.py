"""Small SVG charts: what every figure of the report is made of.

Drawn here and not by Plotly in the browser. Measured on the hexapod's report (headless Chromium,
two cores, no GPU): with Plotly 6.4 MB, of which 4.8 MB are its script, and 9-14 s until it is
drawn; with these 0.43 MB and 1-2 s. They are also vectors on paper, sized for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from gough.app.report.numbers import number, raised
from gough.core.arrays import FloatArray

FINE = 4000  # integer steps across a plot whose curves are packed
TALL = 1000  # and up it


def tag(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return an element; text and attribute values are escaped.

    `class_` is `class`, `x_y` is `x-y`.
    """
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    return Markup(
        f"<{name}{''.join(words)}>{''.join(escape(child) for child in children)}</{name}>"
    )


def _short(value: object) -> str:
    return (
        f"{value:.2f}".rstrip("0").rstrip(".")
        if isinstance(value, float | np.floating)
        else str(value)
    )


def svg(
    width: float,
    height: float,
    *children: str | Markup,
    title: str,
    class_: str = "chart",
    **attributes: object,
) -> Markup:
    """Return a picture that fills its column; the title is for those who cannot see it."""
    return tag(
        "svg",
        tag("title", title),
        *children,
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        class_=class_,
        role="img",
        **attributes,
    )


def text(x: float, y: float, content: str, class_: str = "label", **attributes: object) -> Markup:
    """Return a text; anchored by `class_` (`end`, `middle`)."""
    return tag("text", content, x=x, y=y, class_=class_, **attributes)


def line(x: Sequence[float], y: Sequence[float], class_: str) -> Markup:
    """Return a line between two points."""
    return tag("line", x1=x[0], x2=x[1], y1=y[0], y2=y[1], class_=class_)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers (1, 2 or 5 times a power of ten) between two bounds."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def span_of(*values: FloatArray, pad: float = 0.06) -> tuple[float, float]:
    """Return the range of some values with a margin; never empty."""
    finite = np.concatenate([np.ravel(v) for v in values])
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return -1.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = pad * (high - low) if high > low else max(abs(high), 1e-12) * 0.5
    return low - margin, high + margin


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A rectangle of the picture with its scales; a logarithmic axis is given in decades (log10 of
    its values).
    """

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def across(self, value: float) -> float:
        return self.left + self.width * (value - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        return self.bottom - self.height * (value - self.y[0]) / (self.y[1] - self.y[0])

    def level(self, value: float, class_: str) -> Markup:
        """Return a line from left to right at a value."""
        return line((self.left, self.right), (self.up(value),) * 2, class_)

    def y_axis(self, count: int = 4, *, log: bool = False) -> Markup:
        """Return horizontal grid lines with their values."""
        marks = decades(*self.y) if log else ticks(*self.y, count)
        return Markup("").join(
            self.level(v, "zero" if v == 0 and not log else "grid")
            + text(self.left - 5, self.up(v) + 3, label(v, marks, log), "tick end")
            for v in marks
        )

    def x_axis(self, count: int = 5, unit: str = "", *, log: bool = False) -> Markup:
        """Return the values along the lower edge; the last one carries the unit."""
        marks = decades(*self.x) if log else ticks(*self.x, count)
        words = [label(v, marks, log) for v in marks]
        words[-1:] = [f"{word} {unit}".rstrip() for word in words[-1:]]
        return tag(
            "g",
            *(
                text(self.across(v), self.bottom + 12, word, "tick middle")
                for v, word in zip(marks, words)
            ),
            class_="x-ticks",
        )

    def dots(
        self, x: FloatArray, y: FloatArray, radius: float, classes: Sequence[str]
    ) -> list[Markup]:
        return [
            tag(
                "circle",
                cx=round(self.across(a), 1),
                cy=round(self.up(b), 1),
                r=radius,
                class_=word,
            )
            for a, b, word in zip(x, y, classes)
        ]

    def curve(self, x: FloatArray, y: FloatArray, class_: str) -> Markup:
        """Return a line through points; one that is not finite interrupts it."""
        pieces, word = [], "M"
        for a, b in zip(x, y):
            if math.isfinite(a + b):
                pieces.append(f"{word}{self.across(a):.1f} {self.up(b):.1f}")
            word = "L" if math.isfinite(a + b) else "M"
        return tag("path", d="".join(pieces), class_=class_)

    def picture(
        self,
        y_axis: Markup,
        x_axis: Markup,
        *children: str | Markup,
        left: str = "",
        right: str = "",
        title: str,
    ) -> Markup:
        """Return a picture of its usual width: what is drawn between the axes, and words below
        them.
        """
        words = [text(self.right, self.bottom + 25, right, "tick end")] if right else []
        words += [text(self.left, self.bottom + 25, left, "tick")] if left else []
        return svg(420, self.bottom + 30, y_axis, *children, x_axis, *words, title=title)

    def window(self, *children: Markup) -> Markup:
        """Return a drawing area of `FINE` by `TALL` steps over the plot, for packed curves; it can
        be zoomed.
        """
        return tag(
            "svg",
            *children,
            x=self.left,
            y=self.top,
            width=self.width,
            height=self.height,
            class_="window",
            viewBox=f"0 0 {FINE} {TALL}",
            preserveAspectRatio="none",
        )

    def packed(
        self, x: FloatArray, y: FloatArray, segment: NDArray[np.int_], class_: str
    ) -> Markup:
        """Return a curve in relative integer steps: some five characters a point; it breaks where
        `segment` changes.
        """
        a = np.rint(FINE * (x - self.x[0]) / (self.x[1] - self.x[0])).astype(int)
        b = np.rint(TALL * (self.y[1] - y) / (self.y[1] - self.y[0])).astype(int)
        da, db = np.diff(a, prepend=0), np.diff(b, prepend=0)
        words, pen = [], ""
        for k in range(len(a)):
            command = "m" if k == 0 or segment[k] != segment[k - 1] else "l"
            words.append(
                (
                    " "
                    if command == pen == "l" and da[k] >= 0
                    else command
                    if command != pen or command == "m"
                    else ""
                )
                + f"{da[k]}{' ' if db[k] >= 0 else ''}{db[k]}"
            )
            pen = command
        return tag("path", d="".join(words), class_=class_)


def label(value: float, marks: Sequence[float], log: bool) -> str:
    """Return the text of a tick with as many decimals as the step between ticks needs."""
    if log:
        return (
            number(10.0**value, 1)
            if abs(value) <= 2 or value != round(value)
            else f"10{raised(round(value))}"
        )
    step = abs(marks[1] - marks[0]) if len(marks) > 1 else abs(value) or 1.0
    if value != 0 and not 1e-3 <= max(abs(m) for m in marks) < 1e5:
        return number(value, 2)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value + 0.0:.{decimals}f}".replace("-", "−")


def decades(low: float, high: float) -> list[float]:
    """Return whole decades within a range of logarithms, some if they are many; also 2 and 5 where
    there is but one.
    """
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if last - first < 1:
        fine = [k + math.log10(m) for k in range(first - 1, last + 2) for m in (1, 2, 5)]
        return [v for v in fine if low <= v <= high]
    step = max(1, math.ceil((last - first + 1) / 5))
    return [float(k) for k in range(first, last + 1, step)]
