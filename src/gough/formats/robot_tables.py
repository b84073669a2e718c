"""Tables of a robot file for bodies, joints, closures and the platform of a mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import INERTIA_ENTRIES, about_centre
from gough.core.names import INERTIAL, last_word
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY, inverse, roll_pitch_yaw
from gough.mechanism.types import BASE, Body, Closure, Joint, Limits, Mechanism

# Numbers below this, relative to the largest, are zeros that rotations
# of frames have rounded.
ROTATION_ROUND_OFF = 1e-14
# Angles that need more digits in degrees, but no more in radians, are
# written in radians.
_PRINTED_DIGITS = 8
# Entries of the inertia matrix by name.
_INERTIA_PLACES = dict(zip(INERTIAL[4:], INERTIA_ENTRIES))
Table = dict[str, Any]
Names = Mapping[str, str]  # how the file calls bodies and joints


def plain_number(number: float) -> float | int:
    """Return a number as people write it: fifteen digits, whole ones without a point."""
    short = float(f"{number:.15g}")
    if short == int(short) and abs(short) < 1e15:
        return int(short)
    return short


def _without_round_off(number: float) -> float:
    return 0.0 if abs(number) < ROTATION_ROUND_OFF else float(number)


def _plain_numbers(numbers: Iterable[float]) -> list[float | int]:
    return [plain_number(_without_round_off(number)) for number in numbers]


def _quantity(number: float, unit: str) -> float | int | str:
    """Return a number for a file in degrees.

    An angle, or its rate, is converted; if it is shorter in radians, it
    has its unit: `1.5708 rad`.
    """
    plain = plain_number(number)
    if not unit.startswith("rad"):
        return plain
    degrees = plain_number(math.degrees(_without_round_off(number)))
    if len(str(plain)) <= _PRINTED_DIGITS < len(str(degrees)):
        return f"{plain} {unit}"
    return degrees


def placement_table(pose: FloatArray) -> Table:
    """Return `xyz` and `rpy` of a pose (4, 4)."""
    angles = roll_pitch_yaw(pose[:3, :3])
    return {
        "xyz": _plain_numbers(pose[:3, 3]),
        "rpy": [_quantity(angle, "rad") for angle in angles],
    }


def inertia_table(body: Body) -> Table:
    """Return the inertia of a body, about its centre of mass if it has all parameters."""
    numbers = np.array([body.values.get(name, 0.0) for name in INERTIAL])
    table: Table = {}
    complete = len(body.parameters) == len(INERTIAL)
    if not complete:
        table["parameters"] = list(body.parameters)
    if not complete or not numbers[0] > 0:
        for name, number in zip(INERTIAL, numbers.tolist()):
            if number:
                table[name] = plain_number(number)
        return table
    mass, centre, inertia = about_centre(numbers)
    scale = np.abs(inertia).max() + ROTATION_ROUND_OFF * mass * float(centre @ centre)
    table |= {
        "m": plain_number(mass),
        "com": _plain_numbers(centre),
        "about": "com",
    }
    for name, place in _INERTIA_PLACES.items():
        moment = float(inertia[place])
        if abs(moment) > ROTATION_ROUND_OFF * scale:
            table[name] = plain_number(moment)
    return table


def _limits_table(limits: Limits, unit: str) -> Table:
    """Return the limits of a coordinate with a unit."""
    table: Table = {}
    if limits.position:
        table["position"] = [_quantity(bound, unit) for bound in limits.position]
    units = {
        "velocity": f"{unit}/s",
        "acceleration": f"{unit}/s2",
        "effort": "N",
    }
    for key, bound_unit in units.items():
        bound = getattr(limits, key)
        if bound is not None:
            table[key] = _quantity(bound, bound_unit)
    return table


def joint_table(joint: Joint, names: Names, name: str, root: bool = False) -> Table:
    """Return `[[joint]]`; the root of a leg sits on the leg's base."""
    table = {
        "name": name,
        "type": joint.kind,
        "parent": BASE if root else names.get(joint.parent, joint.parent),
        "child": names.get(joint.child, joint.child),
        **placement_table(IDENTITY if root else joint.placement.matrix),
    }
    if joint.axis != "z":
        table["axis"] = joint.axis
    if joint.actuated:
        table["actuated"] = True
    if joint.gain is not None:
        table["gain"] = plain_number(joint.gain)
    if joint.friction_width is not None:
        table["friction_width"] = _quantity(joint.friction_width, f"{joint.unit}/s")
    return table | {
        "start": _quantity(joint.start, joint.unit),
        "limits": _limits_table(joint.limits, joint.unit),
        "terms": list(joint.terms),
        "values": {key: plain_number(number) for key, number in joint.values.items()},
    }


def closure_table(
    closure: Closure,
    names: Names,
    name: str,
    joints: Mapping[str, Joint],
    base: FloatArray = IDENTITY,
) -> Table:
    """Return `[[closure]]`.

    Args:
        closure: The closure.
        names: Names of bodies and joints in the file.
        name: Its own name in the file.
        joints: Joints by name.
        base: Pose of a leg's base, (4, 4); frames on the base are given
            from there.
    """
    kind = CLOSURES[closure.kind]
    table: Table = {"name": name, "kind": closure.kind}
    for key, frame in zip("ab", closure.frames):
        pose = frame.placement.matrix
        if frame.body == BASE:
            pose = inverse(base) @ pose
        table[key] = {
            "body": names.get(frame.body, frame.body),
            **placement_table(pose),
        }
        if set(kind.units) == {
            "m"
        }:  # it relates points: the rotation of their frames is irrelevant
            table[key]["rpy"] = [0, 0, 0]
    if kind.has_coefficients:
        coefficients = closure.coefficients.items()
        table["coefficients"] = {names.get(j, j): plain_number(c) for j, c in coefficients}
        turning = {joints[joint].kind for joint in closure.coefficients} == {"revolute"}
        unit = "rad" if turning and not closure.frames else "m"
        table["constant"] = _quantity(closure.constant, unit)
    for key, number in closure.values.items():
        table[key] = plain_number(number)
    return table


def platform_table(mechanism: Mechanism, body: Body) -> Table:
    """Return `[platform]` with its task coordinates."""
    joints = {last_word(joint.name): joint for joint in mechanism.joints if joint.virtual}
    starts = {key: _quantity(joint.start, joint.unit) for key, joint in joints.items()}
    return {
        "name": body.name,
        "coordinates": list(joints),
        "start": {key: start for key, start in starts.items() if start},
        "limits": {key: _limits_table(joint.limits, joint.unit) for key, joint in joints.items()},
        **inertia_table(body),
    }
