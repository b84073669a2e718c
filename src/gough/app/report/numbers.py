"""Numbers and units as people write them."""

from __future__ import annotations

import math
import re

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"


def unit(text: str) -> str:
    """Return a unit with raised exponents: `kg m2` becomes `kg m²`; `1` is no unit."""
    return (
        ""
        if text == "1"
        else re.sub(r"(?<=[A-Za-z])[2-9]\b", lambda match: raised(int(match[0])), text)
    )


def number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return _signed(f"{value:.{decimals}f}")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{_signed(mantissa)}·10{raised(int(power))}"


def with_std(value: float, std: float) -> tuple[str, str]:
    """Return a value and its standard deviation with the same last digit, two significant ones of
    the deviation.
    """
    if not (math.isfinite(std) and math.isfinite(value) and std > 0):
        return number(value, 6), number(std, 2)
    last = math.floor(math.log10(std)) - 1
    largest = max(abs(value), std)
    if 1e-3 <= largest < 1e5 and last >= -7:
        return tuple(_signed(f"{x:.{max(0, -last)}f}") for x in (value, std))  # type: ignore[return-value]
    power = max(math.floor(math.log10(largest)), -300)
    decimals = min(max(0, power - last), 9)
    texts = (
        f"{_signed(f'{x / 10.0**power:.{decimals}f}')}·10{raised(power)}" for x in (value, std)
    )
    return tuple(texts)  # type: ignore[return-value]


def percent(fraction: float) -> str:
    """Return a fraction in percent, two to three significant digits."""
    if not math.isfinite(fraction):
        return number(fraction)
    share = 100 * fraction
    decimals = 0 if abs(share) >= 100 else 1
    return (_signed(f"{share:.{decimals}f}") if abs(share) >= 1 else number(share, 2)) + "\u00a0%"


def raised(power: int) -> str:
    return str(power).translate(_RAISED)


def _signed(text: str) -> str:
    return text.replace("-", _MINUS) if text.strip("-0.") else text.lstrip("-")
