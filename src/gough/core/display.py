"""What people see of values: one line, a table, a DataFrame, a picture, numbers with the digits
that count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from gough.core.errors import InvalidInput

UNSURE = 0.3  # relative standard deviation beyond which a parameter is poorly known
NEAR_ZERO = 2.0  # standard deviations within which a value is not told from zero


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return some names, the rest counted."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def needed(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"this needs {error.name or module}; install it with pip install 'gough[{extra}]'",
            module=module,
        ) from None


def panels(
    titles: Sequence[str], height: float = 2.2, *, along: str = "time [s]", share: bool = True
) -> list[Any]:
    """Return one pair of axes for each title, below each other (needs matplotlib)."""
    _, axes = needed("matplotlib.pyplot", "plot").subplots(
        len(titles),
        1,
        sharex=share,
        squeeze=False,
        layout="constrained",
        figsize=(8.0, 0.8 + height * len(titles)),
    )
    for each, title in zip(axes[:, 0], titles):
        each.set_title(title, loc="left", fontsize="medium")
        each.grid(alpha=0.3)
    if titles:
        axes[-1, 0].set_xlabel(along)
    return list(axes[:, 0])


def expect(value: Any, kind: type | tuple[type, ...], what: str, wanted: str) -> None:
    """Raise `InvalidInput` unless a value is of a kind; says which argument it is, and what was
    wanted.
    """
    if not isinstance(value, kind):
        shown = (
            repr(value)
            if isinstance(value, str | int | float | None)
            else f"a {type(value).__name__}"
        )
        raise InvalidInput(f"{what} is {shown}, expected {wanted}", argument=what)


def rounded(value: float, std: float) -> tuple[str, str]:
    """Return a value and its standard deviation with the same last digit, two significant ones of
    the deviation.
    """
    if not (math.isfinite(value) and math.isfinite(std) and std > 0):
        return f"{value:.6g}", f"{std:.3g}"
    largest = max(abs(value), std)
    power = math.floor(math.log10(largest))
    last = max(math.floor(math.log10(std)) - 1, power - 11)

    def shown(x: float) -> str:
        if 1e-3 <= largest < 1e6 and last >= -9:
            return f"{round(x, -last) + 0.0:.{max(0, -last)}f}"
        return f"{x / 10.0**power:.{power - last}f}e{power:+03d}"

    return shown(value), shown(std)


def relative(value: float, std: float) -> str:
    """Return how well a value is known: in percent, or, where it is not told from zero, its
    distance from zero.

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
        "  ".join(
            cell.ljust(w) if c == 0 else cell.rjust(w)
            for c, (cell, w) in enumerate(zip(line, widths))
        ).rstrip()
        for line in every
    )
