"""Text for people: rounded numbers, tables and lists; and optional plotting libraries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from gough.core.errors import MissingLibrary

# relative standard error above which a parameter is poorly known
POORLY_KNOWN_RATIO = 0.3
SIGNIFICANT_T = 2.0  # |value| / standard error below which a value may be zero
# Numbers outside this range are written with an exponent.
FIXED_POINT_MIN = 1e-3
FIXED_POINT_MAX = 1e6


def join_names(names: Sequence[str], most: int = 4) -> str:
    """Return the first names with commas between them, and the number of the others."""
    text = ", ".join(names[:most])
    hidden = len(names) - most
    return f"{text} and {hidden} more" if hidden > 0 else text


def import_optional(module: str, extra: str) -> Any:
    """Import an optional library; the error for a missing one names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingLibrary(
            f"this needs {error.name or module}; install it with pip install 'gough[{extra}]'",
            module=module,
        ) from None


def stacked_axes(
    titles: Sequence[str],
    height: float = 2.2,
    *,
    along: str = "time [s]",
    share: bool = True,
) -> list[Any]:
    """Return one pair of axes for each title, below each other (needs matplotlib).

    Args:
        titles: Title of each pair of axes.
        height: Of one pair of axes. [inch]
        along: Label of the lowest horizontal axis.
        share: Use the same horizontal axis for all.
    """
    pyplot = import_optional("matplotlib.pyplot", "plot")
    _, axes = pyplot.subplots(
        len(titles),
        1,
        sharex=share,
        squeeze=False,
        layout="constrained",
        figsize=(8.0, 0.8 + height * len(titles)),
    )
    column = list(axes[:, 0])
    for one_axes, title in zip(column, titles):
        one_axes.set_title(title, loc="left", fontsize="medium")
        one_axes.grid(alpha=0.3)
    if column:
        column[-1].set_xlabel(along)
    return column


def rounded(value: float, std: float) -> tuple[str, str]:
    """Round a value and its standard error to the same last digit.

    The standard error keeps two significant digits.
    """
    if not (math.isfinite(value) and math.isfinite(std) and std > 0):
        return f"{value:.6g}", f"{std:.3g}"
    largest = max(abs(value), std)
    power = math.floor(math.log10(largest))
    last_digit = max(math.floor(math.log10(std)) - 1, power - 11)  # power of ten

    def write(number: float) -> str:
        no_minus_zero = round(number, -last_digit) + 0.0
        if FIXED_POINT_MIN <= largest < FIXED_POINT_MAX and last_digit >= -9:
            return f"{no_minus_zero:.{max(0, -last_digit)}f}"
        return f"{no_minus_zero / 10.0**power:.{power - last_digit}f}e{power:+03d}"

    return write(value), write(std)


def relative(value: float, std: float) -> str:
    """Return the standard error in percent of the value, or |t| if the value may be zero.

    A percentage of a value near zero has no meaning.
    """
    if abs(value) < SIGNIFICANT_T * std:
        return f"|t| = {abs(value) / std:.1f}"
    if value == 0:
        return "0 %"
    return f"{100 * std / abs(value):.3g} %"


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return aligned columns as plain text: the first to the left, the others to the right."""
    rows = [list(header), *(list(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(_aligned(row, widths) for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first = row[0].ljust(widths[0])
    others = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
    return "  ".join([first, *others]).rstrip()


def combination_text(
    coefficients: Iterable[float], names: Iterable[str], digits: str = ".4g"
) -> str:
    """Return a linear combination as text, e.g. `m6 + 0.31 mx3 - mz2`.

    Args:
        coefficients: Those that are exactly zero are left out.
        names: What they multiply.
        digits: Format of the coefficients; one that prints as 1 is left
            out.
    """
    text = ""
    for coefficient, name in zip(coefficients, names):
        factor = format(abs(coefficient), digits)
        term = name if factor == "1" else f"{factor} {name}"
        if coefficient > 0:
            text += f" + {term}"
        elif coefficient < 0:
            text += f" - {term}"
    return text.strip().removeprefix("+ ")
