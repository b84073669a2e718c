"""Plain text for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

UNSURE = 0.3  # relative standard deviation beyond which a parameter is poorly known
NEAR_ZERO = 2.0  # standard deviations within which a value is not told from zero


def rounded(value: float, std: float) -> tuple[str, str]:
    """Return a value and its standard deviation with the same last digit, two significant ones of the deviation."""
    if not (math.isfinite(value) and math.isfinite(std) and std > 0):
        return f"{value:.6g}", f"{std:.3g}"
    last = max(math.floor(math.log10(std)) - 1, math.floor(math.log10(max(abs(value), std))) - 11)
    largest = max(abs(value), std)
    if 1e-3 <= largest < 1e6 and last >= -9:
        return tuple(f"{round(x, -last) + 0.0:.{max(0, -last)}f}" for x in (value, std))  # type: ignore[return-value]
    power = math.floor(math.log10(largest))
    return tuple(f"{x / 10.0**power:.{power - last}f}e{power:+03d}" for x in (value, std))  # type: ignore[return-value]


def relative(value: float, std: float) -> str:
    """Return how well a value is known: in percent, or, where it is not told from zero, its distance from zero.

    A percentage of a value near zero says nothing but that it is near zero.
    """
    if abs(value) < NEAR_ZERO * std:
        return f"{abs(value) / std:.1f} sigma from 0"
    return f"{100 * std / abs(value):.3g} %" if value else "0 %"


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return aligned columns as plain text: the first to the left, the others to the right."""
    every = [list(header), *(list(line) for line in lines)]
    widths = [max(len(line[c]) for line in every) for c in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(line, widths))).rstrip()
        for line in every
    )
