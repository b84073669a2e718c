"""Numbers and units as people write them."""

from __future__ import annotations

import math
import re

from gough.core.display import rounded

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "−"
# Numbers outside this range are written with a power of ten.
PLAIN_MIN = 1e-3
PLAIN_MAX = 1e5


def unit(text: str) -> str:
    """Return a unit with superscripts: `kg m2` becomes `kg m²`; `1` is no unit."""
    if text == "1":
        return ""
    return re.sub(r"(?<=[A-Za-z])[2-9]\b", lambda match: superscript(int(match[0])), text)


def number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    if value == 0:
        return "0"
    if PLAIN_MIN <= abs(value) < PLAIN_MAX:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return _signed(f"{value:.{decimals}f}")
    return _typeset(f"{value:.{digits - 1}e}")


def with_std(value: float, std: float) -> tuple[str, str]:
    """Return a value and its standard error with the same last digit.

    The standard error has two significant digits.
    """
    if not (math.isfinite(std) and math.isfinite(value) and std > 0):
        return number(value, 6), number(std, 2)
    value_text, std_text = rounded(value, std)
    return _typeset(value_text), _typeset(std_text)


def _typeset(text: str) -> str:
    """Return a number such as `-1.2e-05` as it is printed in books."""
    mantissa, _, power = text.partition("e")
    if not power:
        return _signed(mantissa)
    return f"{_signed(mantissa)}·10{superscript(int(power))}"


def percent(fraction: float) -> str:
    """Return a fraction in percent, two to three significant digits."""
    if not math.isfinite(fraction):
        return number(fraction)
    percentage = 100 * fraction
    if abs(percentage) < 1:
        text = number(percentage, 2)
    elif abs(percentage) < 100:
        text = _signed(f"{percentage:.1f}")
    else:
        text = _signed(f"{percentage:.0f}")
    return text + "\u00a0%"


def superscript(power: int) -> str:
    """Return an integer in superscript digits."""
    return str(power).translate(_SUPERSCRIPTS)


def _signed(text: str) -> str:
    """Return a number with a typographic minus sign, and zero without one."""
    is_zero = not text.strip("-0.")
    return text.lstrip("-") if is_zero else text.replace("-", _MINUS)
