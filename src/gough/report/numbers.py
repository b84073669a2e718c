"""Numbers and units as people write them."""

from __future__ import annotations

import math
import re

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"


def unit(text: str) -> str:
    """Return a unit with raised exponents: `kg m2` becomes `kg m²`; `1` is no unit."""
    return "" if text == "1" else re.sub(r"(?<=[A-Za-z])[2-9]\b", lambda match: match[0].translate(_RAISED), text)


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
    return _powered(value, math.floor(math.log10(abs(value))), digits - 1)


def with_std(value: float, std: float) -> tuple[str, str]:
    """Return a value and its standard deviation with the same last digit, two significant ones of the deviation."""
    if not (math.isfinite(std) and math.isfinite(value) and std > 0):
        return number(value, 6), number(std, 2)
    last = math.floor(math.log10(std)) - 1
    largest = max(abs(value), std)
    if 1e-3 <= largest < 1e5 and last >= -7:
        return tuple(_signed(f"{x:.{max(0, -last)}f}") for x in (value, std))  # type: ignore[return-value]
    power = math.floor(math.log10(largest))
    decimals = min(max(0, power - last), 9)
    return _powered(value, power, decimals), _powered(std, power, decimals)


def percent(fraction: float) -> str:
    """Return a fraction in percent, two to three significant digits."""
    if not math.isfinite(fraction):
        return number(fraction)
    share = 100 * fraction
    return f"{_signed(f'{share:.0f}' if abs(share) >= 100 else f'{share:.1f}' if abs(share) >= 1 else f'{share:.2g}')} %"


def _powered(value: float, power: int, decimals: int) -> str:
    return f"{_signed(f'{value / 10.0**power:.{decimals}f}')}·10{str(power).translate(_RAISED)}"


def _signed(text: str) -> str:
    return text.replace("-", _MINUS)
