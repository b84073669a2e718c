"""Limits written as text: `left.motor.velocity=2`, `platform.x.position=-0.1:0.1`, `effort=5`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gough.core.errors import InvalidInput, nearest
from gough.core.names import words
from gough.core.units import conversion, dimension_of
from gough.engine.model import Model
from gough.mechanism import Limits

LIMIT_QUANTITIES = ("position", "velocity", "acceleration", "effort")
# Dimensions of the units that a limit may be written with, by the unit
# of the coordinate.
LIMIT_DIMENSIONS = {
    "m": dict(zip(LIMIT_QUANTITIES, ("length", "velocity", "acceleration", "force"))),
    "rad": dict(
        zip(LIMIT_QUANTITIES, ("angle", "angular velocity", "angular acceleration", "torque"))
    ),
}
LIMIT_SYNTAX = "NAME.QUANTITY=VALUE, e.g. left.motor.velocity=2 or platform.x.position=-0.1:0.1"


def parse_limits(texts: Sequence[str], model: Model) -> dict[str, Limits]:
    """Return limits by coordinate; without a name those of all motors.

    Args:
        texts: `left.motor.velocity=2` in SI units, or with a unit,
            `velocity=30 deg/s`; positions have a lowest and a highest
            one, `position=-90:90 deg`.
        model: The robot.

    Raises:
        InvalidInput: A text is not of this form, or names no coordinate
            of the robot.
    """
    limits: dict[str, Limits] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        *owner, quantity = words(label.strip())
        if not equals or quantity not in LIMIT_QUANTITIES:
            hint = nearest(quantity, LIMIT_QUANTITIES) if quantity else ""
            raise InvalidInput(f"a limit is '{text}', expected {LIMIT_SYNTAX}{hint}")
        named = (".".join(owner),) if owner else model.mechanism.actuated
        for coordinate in named:
            number = _parse_value(text, value, quantity, _unit_of(coordinate, model, text))
            known = limits.get(coordinate, Limits())
            limits[coordinate] = replace(known, **{quantity: number})
    return limits


def _unit_of(name: str, model: Model, text: str) -> str:
    """Return the unit of a coordinate, or of the platform's translation or rotation."""
    units = {joint.name: joint.unit for joint in model.mechanism.joints}
    platform = model.mechanism.platform
    if platform is not None:
        units |= {f"{platform}.translation": "m", f"{platform}.rotation": "rad"}
    if name not in units:
        raise InvalidInput(f"limit '{text}': there is no coordinate '{name}'{nearest(name, units)}")
    return units[name]


def _parse_value(text: str, value: str, quantity: str, unit: str) -> Any:
    """Return the number of a limit, or the lowest and highest one of a position, in SI."""
    numbers, _, written_unit = value.strip().partition(" ")
    factor = 1.0
    if written_unit:
        if dimension_of(written_unit) != LIMIT_DIMENSIONS[unit][quantity]:
            raise InvalidInput(
                f"limit '{text}': '{written_unit}' is no unit of this {quantity}; leave it out for "
                "SI units"
            )
        factor = conversion(written_unit)
    try:
        parsed = [factor * float(number) for number in numbers.split(":")]
    except ValueError:
        parsed = []
    wanted = 2 if quantity == "position" else 1
    if len(parsed) != wanted:
        form = "LOW:HIGH" if wanted == 2 else "one number"
        raise InvalidInput(f"limit '{text}': the value is '{value}', expected {form}")
    if wanted == 2:
        low, high = parsed
        if not low < high:
            raise InvalidInput(f"limit '{text}': the lower one is not below the higher one")
        return (low, high)
    if not parsed[0] > 0:
        raise InvalidInput(f"limit '{text}': expected a number above zero")
    return parsed[0]
