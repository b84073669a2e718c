"""Units of measurement: SI and radians inside, conversion only where files are read."""

from __future__ import annotations

import math
import re

from gough.core.errors import InvalidInput, nearest

# name -> (factor to SI, dimension)
KNOWN_UNITS: dict[str, tuple[float, str]] = {
    "m": (1.0, "length"),
    "mm": (1e-3, "length"),
    "cm": (1e-2, "length"),
    "um": (1e-6, "length"),
    "in": (0.0254, "length"),
    "rad": (1.0, "angle"),
    "mrad": (1e-3, "angle"),
    "deg": (math.pi / 180, "angle"),
    "mdeg": (math.pi / 180e3, "angle"),
    "rev": (2 * math.pi, "angle"),
    "kg": (1.0, "mass"),
    "g": (1e-3, "mass"),
    "s": (1.0, "time"),
    "ms": (1e-3, "time"),
    "us": (1e-6, "time"),
    "ns": (1e-9, "time"),
    "min": (60.0, "time"),
    "Hz": (1.0, "frequency"),
    "kHz": (1e3, "frequency"),
    "N": (1.0, "force"),
    "kN": (1e3, "force"),
    "mN": (1e-3, "force"),
    "Nm": (1.0, "torque"),
    "mNm": (1e-3, "torque"),
    "kNm": (1e3, "torque"),
    "Ncm": (1e-2, "torque"),
    "Nmm": (1e-3, "torque"),
    "A": (1.0, "current"),
    "mA": (1e-3, "current"),
    "uA": (1e-6, "current"),
    "V": (1.0, "voltage"),
    "mV": (1e-3, "voltage"),
    "m/s": (1.0, "velocity"),
    "mm/s": (1e-3, "velocity"),
    "um/s": (1e-6, "velocity"),
    "cm/s": (1e-2, "velocity"),
    "m/min": (1 / 60, "velocity"),
    "mm/min": (1e-3 / 60, "velocity"),
    "rad/s": (1.0, "angular velocity"),
    "deg/s": (math.pi / 180, "angular velocity"),
    "mrad/s": (1e-3, "angular velocity"),
    "mdeg/s": (math.pi / 180e3, "angular velocity"),
    "deg/min": (math.pi / 180 / 60, "angular velocity"),
    "rev/s": (2 * math.pi, "angular velocity"),
    "rpm": (2 * math.pi / 60, "angular velocity"),
    "m/s2": (1.0, "acceleration"),
    "mm/s2": (1e-3, "acceleration"),
    "rad/s2": (1.0, "angular acceleration"),
    "deg/s2": (math.pi / 180, "angular acceleration"),
    "kgm2": (1.0, "inertia"),
    "gm2": (1e-3, "inertia"),
    "kgm": (1.0, "first moment"),
    "kgcm2": (1e-4, "inertia"),
    "kgmm2": (1e-6, "inertia"),
    "gmm2": (1e-9, "inertia"),
    "gcm2": (1e-7, "inertia"),
    "kgmm": (1e-3, "first moment"),
    "gmm": (1e-6, "first moment"),
    "Ns/m": (1.0, "viscous linear"),
    "Nms/rad": (1.0, "viscous rotary"),
    "N/m": (1.0, "stiffness linear"),
    "Nm/rad": (1.0, "stiffness rotary"),
    "kgm/s2": (1.0, "force"),
    "N/A": (1.0, "gain"),
    "N/V": (1.0, "gain"),
    "Nm/A": (1.0, "gain"),
    "Nm/V": (1.0, "gain"),
    "1": (1.0, "none"),
    "count": (1.0, "none"),
    "%": (0.01, "none"),
    "‰": (1e-3, "none"),
    "permille": (1e-3, "none"),
    "unit": (1.0, "none"),
}

# Characters of other spellings of a unit, and what `KNOWN_UNITS` has
# instead.
_SPELLINGS = str.maketrans(
    {
        "²": "2",
        "µ": "u",  # micro sign
        "μ": "u",  # Greek letter
        "°": "deg",
        "^": "",
        "·": "",
        "*": "",
        " ": "",
        ".": "",
    }
)
# Words and spellings that headers of other programs have, in lower case
# if that is no other unit.
_UNIT_WORDS = {
    # the units themselves, written in capitals
    "mm": "mm",
    "rad": "rad",
    "rad/s": "rad/s",
    "deg": "deg",
    "deg/s": "deg/s",
    "ms": "ms",
    "rpm": "rpm",
    "NM": "Nm",  # but `nm` is no torque
    "degree": "deg",
    "degrees": "deg",
    "degrees/s": "deg/s",
    "grad": "deg",  # German; gradians are in use nowhere
    "grad/s": "deg/s",
    "radian": "rad",
    "radians": "rad",
    "radians/s": "rad/s",
    "turn": "rev",
    "turns": "rev",
    "revs": "rev",
    "revolution": "rev",
    "revolutions": "rev",
    "inch": "in",
    "inches": "in",
    "meter": "m",
    "meters": "m",
    "metres": "m",
    "millimeter": "mm",
    "millimeters": "mm",
    "millimetre": "mm",
    "millimetres": "mm",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "sek": "s",
    "msec": "ms",
    "millisec": "ms",
    "millis": "ms",
    "millisecond": "ms",
    "milliseconds": "ms",
    "usec": "us",
    "microsec": "us",
    "micros": "us",
    "microsecond": "us",
    "microseconds": "us",
    "nsec": "ns",
    "nanosec": "ns",
    "nanos": "ns",
    "nanosecond": "ns",
    "nanoseconds": "ns",
    "newton": "N",
    "newtons": "N",
    "n-m": "Nm",
    "n_m": "Nm",
    "newtonmeter": "Nm",
    "newtonmeters": "Nm",
    "newton-meter": "Nm",
    "newton-meters": "Nm",
    "amp": "A",
    "amps": "A",
    "ampere": "A",
    "volt": "V",
    "volts": "V",
    "percent": "%",
    "promille": "permille",
    "1/1000": "permille",
    "01%": "permille",  # 0.1 %, in which drives count torques; dots are left out
    "0,1%": "permille",
    "deg/sec": "deg/s",
    "rad/sec": "rad/s",
    "m/sec": "m/s",
    "mm/sec": "mm/s",
    "degs-1": "deg/s",
    "rads-1": "rad/s",
    "mms-1": "mm/s",
    "1/min": "rpm",
    "u/min": "rpm",
    "r/min": "rpm",
    "tr/min": "rpm",
    "u/s": "rev/s",
    "rev/min": "rpm",
    "min-1": "rpm",
}
# The number takes all its digits: "1.27" has no unit 7.
_QUANTITY = re.compile(r"^\s*([-+]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++)?+)\s*(\S.*?)\s*$")


def canonical(unit: str) -> str:
    """Return the spelling of a unit in `KNOWN_UNITS`: 'Nm' for 'N m' and 'N-m', 's' for 'sec'."""
    spelled = unit.translate(_SPELLINGS)
    if spelled in KNOWN_UNITS:
        return spelled
    return _UNIT_WORDS.get(spelled) or _UNIT_WORDS.get(spelled.lower(), spelled)


def conversion(unit: str, dimension: str | None = None) -> float:
    """Return the factor that converts a number in `unit` to SI.

    Raises:
        InvalidInput: The unit is not known, or is not one of the
            dimension.
    """
    entry = KNOWN_UNITS.get(canonical(unit))
    if entry is None:
        raise InvalidInput(f"unit '{unit}' is not known{nearest(unit, KNOWN_UNITS)}", unit=unit)
    factor, kind = entry
    if dimension is not None and kind != dimension:
        known = [name for name, (_, measured) in KNOWN_UNITS.items() if measured == dimension]
        raise InvalidInput(
            f"unit '{unit}' measures {kind}, expected {dimension} ({', '.join(known)})",
            unit=unit,
        )
    return factor


def is_unit(unit: str) -> bool:
    """Return whether a unit is known, in any spelling."""
    return canonical(unit) in KNOWN_UNITS


def dimension_of(unit: str) -> str:
    """Return the dimension a unit measures, e.g. 'length'."""
    conversion(unit)
    return KNOWN_UNITS[canonical(unit)][1]


def quantity(text: str) -> tuple[float, str]:
    """Split '10 deg' into the number and its unit."""
    match = _QUANTITY.match(text)
    if match is None:
        raise InvalidInput(
            f"'{text}' is not a number with a unit; write for example '10 deg' or '26 mm'",
            text=text,
        )
    return float(match[1]), match[2]
