"""Panels of curves below each other, drawn with matplotlib (`pip install 'gough[plot]'`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

COLOURS = ("#1f5fa8", "#c8402f", "#2d8a4e", "#8a5bb5", "#d08a1d", "#4a4a4a")
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "font.size": 9,
    "lines.linewidth": 1.2,
    "svg.hashsalt": "gough",
}  # the same data give the same file
Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]
Panel = tuple[
    str, str, str, Curves
]  # title, label of x, label of y, curves by name; NaN makes a gap


def draw(panels: Sequence[Panel], *, logarithmic: bool = False) -> Figure:
    """Return a figure with the panels below each other; `logarithmic` is of the y axis."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3 * len(panels)), layout="constrained")
        every = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (title, x_label, y_label, curves) in zip(every, panels):
            for k, (name, (x, y)) in enumerate(curves.items()):
                axes.plot(x, y, label=name, color=COLOURS[k % len(COLOURS)])
            axes.set(
                title=title,
                xlabel=x_label,
                ylabel=y_label,
                yscale="log" if logarithmic else "linear",
            )
            axes.margins(x=0)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def save(path: str | Path, panels: Sequence[Panel], *, logarithmic: bool = False) -> Path:
    """Write panels into a file, SVG or whatever its ending says; its folder is made if need be."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        dated = {"Date": None} if target.suffix == ".svg" else {}
        draw(panels, logarithmic=logarithmic).savefig(target, metadata=dated)
    return target
