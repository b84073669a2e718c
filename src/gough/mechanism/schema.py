"""The keys of a robot file, declared once: the reader accepts these, and `json_schema` writes them
down for editors.

A key is a fragment of JSON Schema. Where a table is read, its number gets a dimension and its names
are looked up; that is beyond a schema, so a file an editor finds right may still be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gough.core.names import INERTIAL
from gough.core.units import UNITS as KNOWN_UNITS
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import BUNDLES, TERMS

Key = Mapping[str, Any]
Keys = Mapping[str, Key]

NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
_NUMBER = {"$ref": "#/$defs/number"}
_DEFS = {
    "number": {
        "anyOf": [{"type": "number"}, {"type": "string"}],
        "description": "Text names its unit: '10 deg'.",
    },
    "given": {
        "type": "string",
        "pattern": r"^\$",
        "description": "The instance's value of that key.",
    },
}


def number(text: str) -> Key:
    """Declare a number in the file's units, or text with a unit."""
    return {"description": text, **_NUMBER}


def numbers(text: str, most: int, least: int | None = None) -> Key:
    return {
        "description": text,
        "type": "array",
        "items": _NUMBER,
        "minItems": most if least is None else least,
        "maxItems": most,
    }


def words(text: str, *valid: str, pattern: str = "") -> Key:
    """Declare a list of different texts."""
    own = {"enum": list(valid)} if valid else {"pattern": pattern} if pattern else {}
    return {
        "description": text,
        "type": "array",
        "items": {"type": "string", **own},
        "uniqueItems": True,
    }


def text(meaning: str, **more: object) -> Key:
    return {"description": meaning, "type": "string", **more}


def choice(meaning: str, *valid: str) -> Key:
    return text(meaning, enum=list(valid))


def flag(meaning: str) -> Key:
    return {"description": meaning, "type": "boolean"}


def table(meaning: str, keys: Keys | None, *required: str) -> Key:
    """Declare a table of these keys, or of any with numbers."""
    own: dict[str, Any] = (
        {"additionalProperties": _NUMBER}
        if keys is None
        else {"properties": dict(keys), "additionalProperties": False}
    )
    return {
        "description": meaning,
        "type": "object",
        **own,
        **({"required": list(required)} if required else {}),
    }


def tables(meaning: str, keys: Keys, *required: str) -> Key:
    """Declare an array of tables, each of which may say where its numbers come from."""
    return {
        "description": meaning,
        "type": "array",
        "items": table(meaning, {**keys, **SOURCE}, *required),
    }


_SOURCES = ("printed", "derived", "assumed")
SOURCE: Keys = {
    "source": choice("Where the numbers of this table come from.", *_SOURCES),
    "sources": {
        "description": "The same of single keys.",
        "type": "object",
        "additionalProperties": {"enum": list(_SOURCES)},
    },
}
NAMED: Keys = {"name": text("Its name: letters, digits, _ and -.", pattern=NAME)}
MDH = {
    "gamma": "angle",
    "b": "length",
    "alpha": "angle",
    "d": "length",
    "theta": "angle",
    "r": "length",
}
PLACEMENT: Keys = {
    "xyz": numbers("Position.", 3),
    "rpy": numbers("Roll, pitch, yaw: R = Rz(yaw) Ry(pitch) Rx(roll).", 3),
    "polar": numbers("Radius, angle and z: Rz(angle), then along the turned x, then z.", 3, 2),
    "mdh": table(
        "Modified Denavit-Hartenberg: Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r).",
        {name: number(f"A {dimension}.") for name, dimension in MDH.items()},
    ),
}
FRAME: Keys = {"body": text("The body it is fixed to; `base` is the fixed one."), **PLACEMENT}
INERTIA: Keys = {
    **{
        name: number(
            "Mass."
            if name == "m"
            else "First moment about the frame."
            if name[0] == "m"
            else "Entry of the inertia matrix; see about."
        )
        for name in INERTIAL
    },
    "com": numbers("Centre of mass, instead of first moments.", 3),
    "about": choice("What the inertia is about.", "frame", "com"),
    "parameters": words("The only parameters it has; none is a massless body.", *INERTIAL),
    "zero": words("Parameters it does not have.", *INERTIAL),
    "symmetric": choice(
        "It has m, its centre of mass on this axis, and no products of inertia.", "x", "y", "z"
    ),
}
BOUNDS: Keys = {
    "position": numbers("Lowest and highest.", 2),
    "velocity": number("Largest speed."),
    "acceleration": number("Largest acceleration."),
}
LIMITS: Keys = {**BOUNDS, "effort": number("Largest effort: N or N m.")}
DRIVE: Keys = {
    "limits": table("Bounds, each may be left out.", LIMITS),
    "terms": {
        "description": "Terms of its effort, each coefficient times term.",
        "type": "array",
        "uniqueItems": True,
        "items": {"anyOf": [{"enum": [*TERMS, *BUNDLES]}, {"type": "string"}]},
    },
    "values": table("Coefficients of these terms known beforehand.", None),
    "gain": number("Drive gain of a motor: effort per recorded unit of current or voltage."),
}
FIXED: Keys = {
    **NAMED,
    "type": choice(
        "What it lets move.", "revolute", "prismatic", "fixed", "universal", "spherical"
    ),
    "parent": text("Body it sits on; `base` is the fixed one."),
    "child": text("Body it carries."),
    **PLACEMENT,
}
SHORTHAND: Keys = {
    **FIXED,
    "terms": DRIVE["terms"],
    "values": DRIVE["values"],
    "start": {
        "description": "Coordinate from which the loops are assembled; of universal and spherical "
        "joints a list.",
        "anyOf": [_NUMBER, {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 3}],
    },
    "axes": text("Axes of a universal or spherical joint in order.", pattern="^[xyz]{2,3}$"),
    "names": words("Names of the joints of a universal or spherical one.", pattern=NAME),
}
SINGLE: Keys = {
    **{key: SHORTHAND[key] for key in SHORTHAND if key not in ("axes", "names")},
    **DRIVE,
    "axis": {
        "description": "Axis of the placed frame it turns about or slides along; z if absent.",
        "anyOf": [
            {"enum": ["x", "y", "z", "-x", "-y", "-z"]},
            {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3},
        ],
    },
    "offset": number("Where the joint stands when its coordinate is zero."),
    "actuated": flag("It has a motor."),
}
MOTOR: Keys = {
    **NAMED,
    "type": choice("How it moves; revolute if absent.", "revolute", "prismatic"),
    **DRIVE,
}
ENDS: Keys = {end: table(f"Frame {end}.", FRAME, "body") for end in "ab"}
WEIGHTS: Keys = {
    "coefficients": table("Coefficients of coordinates.", None),
    "constant": number("Beside their sum."),
}
CLOSURE = ("name", "kind")
TRANSMISSION: Keys = {
    **NAMED,
    "joints": words("The joints it drives."),
    "matrix": {
        "description": "joints = matrix x motors, by rows, in SI.",
        "type": "array",
        "items": {"type": "array", "items": _NUMBER},
    },
    "motor": tables("A motor, one for each joint.", MOTOR, "name"),
    **{
        key: choice(f"Whose {key} logs hold that are called after the joints.", "joints", "motors")
        for key in ("positions", "efforts")
    },
}
FORCE: Keys = {
    **NAMED,
    **ENDS,
    "rest": number("Length at which its coordinate is zero."),
    "actuated": flag("A motor drives it."),
    **DRIVE,
}
PARTS = ("body", "joint", "closure", "transmission", "force")
CONSTANT: Keys = {
    "start": number("Where the search starts."),
    "fit": flag("Find it; true if absent."),
    "low": number("It is at least this."),
    "high": number("It is at most this."),
}
TERM: Keys = {
    **NAMED,
    "label": text("In words."),
    "unit": text("Unit of the coefficient."),
    "expression": {
        "description": "Of q, qd, qdd and constants; a list makes several terms.",
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
        ],
    },
    "constants": {
        "description": "Named constants of the expression.",
        "type": "object",
        "additionalProperties": {
            "anyOf": [_NUMBER, table("One that is found from data.", CONSTANT, "start")]
        },
    },
    "channels": table("Recorded channels with their usual values.", None),
    "nonnegative": flag("Its coefficient cannot be negative."),
    "friction": flag("It opposes motion."),
    "coulomb": number("Half its jump where the velocity changes sign."),
}
TASK = {
    "x": "prismatic",
    "y": "prismatic",
    "z": "prismatic",
    "rx": "revolute",
    "ry": "revolute",
    "rz": "revolute",
}
WHOLE = ("translation", "rotation")
PLATFORM: Keys = {
    "name": text("Its name; `platform` if absent.", pattern=NAME),
    **INERTIA,
    "coordinates": words("Task coordinates in order, translations first.", *TASK),
    "start": table(
        "Where the loops are assembled.", {name: number("Zero if absent.") for name in TASK}
    ),
    "limits": table(
        "Bounds of coordinates, and of the platform as a whole.",
        {
            **{name: table("Bounds of a coordinate.", BOUNDS) for name in TASK},
            **{
                name: table(
                    "Bounds in any direction.", {k: BOUNDS[k] for k in ("velocity", "acceleration")}
                )
                for name in WHOLE
            },
        },
    ),
}
PAYLOAD: Keys = {
    **NAMED,
    **FRAME,
    **INERTIA,
    "known": words("Parameters known well enough to calibrate with.", *INERTIAL),
}
NOISE: Keys = {
    **{key: number(f"Standard deviation of {key} noise.") for key in ("position", "effort")},
    "correlation": number("Between the efforts of any two motors."),
    "resolution": number("Encoder step."),
    "rate": number("Sampling frequency of the controller."),
}
LEG: Keys = {
    **NAMED,
    "instances": {
        "type": "array",
        "minItems": 1,
        "description": "The legs.",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {**NAMED, "base": table("Where it stands.", FRAME), **SOURCE},
        },
    },
    **{part: {} for part in PARTS},
}  # these are checked with the values of each instance
UNITS: Keys = {
    dimension: choice(
        f"Unit of plain numbers of {dimension}.",
        *(name for name, (_, measures) in KNOWN_UNITS.items() if measures == dimension),
    )
    for dimension in ("length", "angle", "mass")
}
TOP: Keys = {
    "format": {"description": "Version of this format.", "const": 1},
    **NAMED,
    "title": text("One line about it."),
    "reference": text("Where the robot and its numbers come from."),
    "gravity": numbers("Free fall in the base frame, m/s2.", 3),
    "redundant": flag("More motors than degrees of freedom are intended."),
    "units": table("Units of plain numbers.", UNITS, *UNITS),
    "platform": table("Body with task coordinates.", {**PLATFORM, **SOURCE}, "coordinates"),
    "leg": tables("Parts that repeat.", LEG, "name"),
    "term": tables("A term of the effort of joints.", TERM, "name"),
    "payload": tables("A body that a log may carry.", PAYLOAD, "name"),
    "tie": table(
        "Parameters that equal legs share.",
        {"parameters": words("Patterns of names inside a leg."), **SOURCE},
    ),
    "noise": table("What sensors add, for the virtual robot.", {**NOISE, **SOURCE}),
}


def parts() -> Keys:
    """Return what a robot and a leg are made of; asked each time, as kinds of closures may have
    been registered.
    """
    values = {
        key: dimension for kind in CLOSURES.values() for key, dimension in kind.values.items()
    }
    return {
        "body": tables("A rigid body.", {**NAMED, **INERTIA}, "name"),
        "joint": tables(
            "What carries a body.", {**SHORTHAND, **SINGLE}, "name", "type", "parent", "child"
        ),
        "closure": tables(
            "What closes a loop.",
            {
                **NAMED,
                "kind": choice("Which equations hold.", *CLOSURES),
                **ENDS,
                **WEIGHTS,
                **{key: number(f"A {dimension}.") for key, dimension in values.items()},
            },
            "name",
            "kind",
        ),
        "transmission": tables(
            "Motors that drive joints together.", TRANSMISSION, "name", "joints", "matrix", "motor"
        ),
        "force": tables("A force along the line between two points.", FORCE, "name", "a", "b"),
    }


def robot() -> Key:
    """Return the declaration of a robot file, but for the parts of its legs."""
    return table(
        "A robot: its bodies, joints, loops, motors, payloads.",
        {**TOP, **parts(), **SOURCE},
        "format",
        "name",
        "units",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a robot file.

    In a leg any value may be `$key` of its instances.
    """
    whole, leg = robot(), TOP["leg"]["items"]
    inside = {
        **leg["properties"],
        **{part: _with_placeholders(key) for part, key in parts().items()},
    }
    legs = {**TOP["leg"], "items": {**leg, "properties": inside, "required": ["name", "instances"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Robot file of Gough",
        "$defs": _DEFS,
        **whole,
        "properties": {**whole["properties"], "leg": legs},
    }


def _with_placeholders(key: Any) -> Any:
    """Allow `$key` in place of every value inside a table."""
    if isinstance(key, list):
        return [_with_placeholders(item) for item in key]
    if not isinstance(key, Mapping):
        return key
    inner = {name: _with_placeholders(value) for name, value in key.items()}
    for name, value in inner.get("properties", {}).items():
        if "$ref" not in value and (
            value.get("type") != "string" or "enum" in value or "pattern" in value
        ):
            rest = {k: v for k, v in value.items() if k != "description"}
            inner["properties"][name] = {
                "description": value["description"],
                "anyOf": [rest, {"$ref": "#/$defs/given"}],
            }
    return inner
