"""Line plots as SVG, without a plotting library: enough for the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

COLOURS = ("#1f5fa8", "#c8402f", "#2d8a4e", "#8a5bb5", "#d08a1d", "#4a4a4a")
WIDTH, HEIGHT, MARGIN = 760, 300, 64
Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers from low to high."""
    raw = (high - low) / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
    return [float(x) + 0.0 for x in np.arange(np.ceil(low / step) * step, high + 1e-9 * step, step)]  # no -0


def panel(title: str, x_label: str, y_label: str, curves: Curves, top: float, right: float, logarithmic: bool) -> str:
    """Return one panel as SVG elements, `top` pixels from the top; names of the curves begin at `right`."""
    data = {name: (np.asarray(x, float), np.asarray(y, float)) for name, (x, y) in curves.items()}
    x = np.concatenate([x for x, _ in data.values()])
    y = np.concatenate([y for _, y in data.values()])
    y = np.log10(y) if logarithmic else y
    x0, x1, y0, y1 = x.min(), x.max(), np.nanmin(y), np.nanmax(y)
    pad = 0.05 * (y1 - y0) or 1.0
    y0, y1 = y0 - pad, y1 + pad

    def at_x(value: float) -> float:
        return MARGIN + (value - x0) / (x1 - x0) * (right - 8 - MARGIN)

    def at_y(value: float) -> float:
        return top + HEIGHT - 46 - (value - y0) / (y1 - y0) * (HEIGHT - 86)

    parts = [f'<text x="{MARGIN}" y="{top + 22}" font-weight="bold">{escape(title)}</text>']
    for value in ticks(x0, x1):
        parts.append(f'<line x1="{at_x(value):.1f}" x2="{at_x(value):.1f}" y1="{at_y(y0):.1f}" y2="{at_y(y1):.1f}" '
                     f'stroke="#e3e3e3"/><text x="{at_x(value):.1f}" y="{at_y(y0) + 16:.1f}" text-anchor="middle">'
                     f"{value:g}</text>")
    levels = [float(v) for v in range(int(np.ceil(y0)), int(np.floor(y1)) + 1)] if logarithmic else ticks(y0, y1, 4)
    for value in levels:
        text = f"1e{value:g}" if logarithmic else f"{value:g}"
        parts.append(f'<line x1="{at_x(x0):.1f}" x2="{at_x(x1):.1f}" y1="{at_y(value):.1f}" y2="{at_y(value):.1f}" '
                     f'stroke="#e3e3e3"/><text x="{at_x(x0) - 6:.1f}" y="{at_y(value) + 4:.1f}" text-anchor="end">'
                     f"{text}</text>")
    parts.append(f'<text x="{(at_x(x0) + at_x(x1)) / 2:.1f}" y="{top + HEIGHT - 12}" text-anchor="middle">'
                 f"{escape(x_label)}</text>")
    parts.append(f'<text transform="translate(16 {(at_y(y0) + at_y(y1)) / 2:.1f}) rotate(-90)" text-anchor="middle">'
                 f"{escape(y_label)}</text>")
    for k, (name, (across, up)) in enumerate(data.items()):
        colour = COLOURS[k % len(COLOURS)]
        values = np.log10(up) if logarithmic else up
        keep = slice(None, None, max(1, len(across) // 1500))
        across, values = across[keep], values[keep]
        for part in np.ma.clump_unmasked(np.ma.masked_invalid(values)):
            points = " ".join(f"{at_x(a):.1f},{at_y(b):.1f}" for a, b in zip(across[part], values[part]))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        parts.append(f'<text x="{right:.0f}" y="{top + 50 + 18 * k}" fill="{colour}">{escape(name)}</text>')
    return "\n".join(parts)


def save(path: str | Path, panels: Sequence[tuple[str, str, str, Curves]], *, logarithmic: bool = False) -> Path:
    """Write panels below each other.

    Args:
        path: SVG file; its folder is made if need be.
        panels: Title, label of x, label of y, curves by name; a curve has a gap where y is NaN.
        logarithmic: Decades on the y axis.
    """
    right = WIDTH - max(60, 12 + 6.5 * max(len(name) for *_, curves in panels for name in curves))
    body = [panel(*content, top=k * HEIGHT, right=right, logarithmic=logarithmic) for k, content in enumerate(panels)]
    text = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(body) + "\n</svg>\n")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target
