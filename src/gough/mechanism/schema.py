"""The keys of a robot file: accepted by the reader, and written for editors by `json_schema`.

A key is declared by a fragment of JSON Schema. The reader also checks
dimensions of numbers and looks up names, which a schema cannot: it may
refuse a file that an editor finds valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gough.core.names import INERTIAL
from gough.core.units import KNOWN_UNITS
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import BUNDLES, TERMS

Key = Mapping[str, Any]
Keys = Mapping[str, Key]

NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]*$"
_NUMBER_KEY = {"$ref": "#/$defs/number"}
_SCHEMA_DEFINITIONS = {
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
    return {"description": text, **_NUMBER_KEY}


def numbers(text: str, longest: int, shortest: int | None = None) -> Key:
    """Declare a list of numbers."""
    return {
        "description": text,
        "type": "array",
        "items": _NUMBER_KEY,
        "minItems": shortest or longest,
        "maxItems": longest,
    }


def words(text: str, *valid: str, pattern: str = "") -> Key:
    """Declare a list of different texts."""
    items: dict[str, object] = {"type": "string"}
    if valid:
        items["enum"] = list(valid)
    elif pattern:
        items["pattern"] = pattern
    return {
        "description": text,
        "type": "array",
        "items": items,
        "uniqueItems": True,
    }


def text(meaning: str, **more: object) -> Key:
    """Declare a text."""
    return {"description": meaning, "type": "string", **more}


def choice(meaning: str, *valid: str) -> Key:
    """Declare one of several words."""
    return text(meaning, enum=list(valid))


def flag(meaning: str) -> Key:
    """Declare true or false."""
    return {"description": meaning, "type": "boolean"}


def table(meaning: str, keys: Keys | None, *required: str) -> Key:
    """Declare a table of these keys; without keys a table of numbers under any names."""
    declared: dict[str, Any] = {"description": meaning, "type": "object"}
    if keys is None:
        declared["additionalProperties"] = _NUMBER_KEY
    else:
        declared["properties"] = dict(keys)
        declared["additionalProperties"] = False
    if required:
        declared["required"] = list(required)
    return declared


def tables(meaning: str, keys: Keys, *required: str) -> Key:
    """Declare an array of tables; each may give the sources of its numbers."""
    return {
        "description": meaning,
        "type": "array",
        "items": table(meaning, {**keys, **SOURCE_KEYS}, *required),
    }


_SOURCE_WORDS = ("printed", "derived", "assumed")
SOURCE_KEYS: Keys = {
    "source": choice("Where the numbers of this table come from.", *_SOURCE_WORDS),
    "sources": {
        "description": "The same of single keys.",
        "type": "object",
        "additionalProperties": {"enum": list(_SOURCE_WORDS)},
    },
}
NAME_KEYS: Keys = {"name": text("Its name: letters, digits, _ and -.", pattern=NAME_PATTERN)}
MDH_DIMENSIONS = {
    "gamma": "angle",
    "b": "length",
    "alpha": "angle",
    "d": "length",
    "theta": "angle",
    "r": "length",
}
PLACEMENT_KEYS: Keys = {
    "xyz": numbers("Position.", 3),
    "rpy": numbers("Roll, pitch, yaw: R = Rz(yaw) Ry(pitch) Rx(roll).", 3),
    "polar": numbers("Radius, angle and z: Rz(angle), then along the turned x, then z.", 3, 2),
    "mdh": table(
        "Modified Denavit-Hartenberg: Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r).",
        {name: number(f"A {dimension}.") for name, dimension in MDH_DIMENSIONS.items()},
    ),
}
FRAME_KEYS: Keys = {
    "body": text("The body it is fixed to; `base` is the fixed one."),
    **PLACEMENT_KEYS,
}
_INERTIAL_TEXTS = (
    "Mass.",
    *("First moment about the frame.",) * 3,
    *("Entry of the inertia matrix; see about.",) * 6,
)
INERTIA_KEYS: Keys = {
    **{name: number(text) for name, text in zip(INERTIAL, _INERTIAL_TEXTS)},
    "com": numbers("Centre of mass, instead of first moments.", 3),
    "about": choice("What the inertia is about.", "frame", "com"),
    "parameters": words("The only parameters it has; none is a massless body.", *INERTIAL),
    "zero": words("Parameters it does not have.", *INERTIAL),
    "symmetric": choice(
        "It has m, its centre of mass on this axis, and no products of inertia.",
        "x",
        "y",
        "z",
    ),
}
BOX_KEYS: Keys = {
    "box": numbers("Holds all its mass, in its frame: lowest x, y, z, then highest.", 6),
}
BOUND_KEYS: Keys = {
    "position": numbers("Lowest and highest.", 2),
    "velocity": number("Largest speed."),
    "acceleration": number("Largest acceleration."),
}
LIMIT_KEYS: Keys = {**BOUND_KEYS, "effort": number("Largest effort: N or N m.")}
DRIVE_KEYS: Keys = {
    "limits": table("Bounds, each may be left out.", LIMIT_KEYS),
    "terms": {
        "description": "Terms of its effort, each coefficient times term.",
        "type": "array",
        "uniqueItems": True,
        "items": {"anyOf": [{"enum": [*TERMS, *BUNDLES]}, {"type": "string"}]},
    },
    "values": table("Coefficients of these terms known beforehand.", None),
    "gain": number("Drive gain of a motor: effort per recorded unit of current or voltage."),
    "friction_width": number("Speed up to which its Coulomb friction grows linearly."),
}
FIXED_JOINT_KEYS: Keys = {
    **NAME_KEYS,
    "type": choice(
        "What it lets move.",
        "revolute",
        "prismatic",
        "fixed",
        "universal",
        "spherical",
    ),
    "parent": text("Body it sits on; `base` is the fixed one."),
    "child": text("Body it carries."),
    **PLACEMENT_KEYS,
}
SHORTHAND_JOINT_KEYS: Keys = {
    **FIXED_JOINT_KEYS,
    "terms": DRIVE_KEYS["terms"],
    "values": DRIVE_KEYS["values"],
    "friction_width": DRIVE_KEYS["friction_width"],
    "start": {
        "description": "Coordinate from which the loops are assembled; of universal and spherical "
        "joints a list.",
        "anyOf": [
            _NUMBER_KEY,
            {
                "type": "array",
                "items": _NUMBER_KEY,
                "minItems": 2,
                "maxItems": 3,
            },
        ],
    },
    "axes": text(
        "Axes of a universal or spherical joint in order.",
        pattern="^[xyz]{2,3}$",
    ),
    "names": words(
        "Names of the joints of a universal or spherical one.",
        pattern=NAME_PATTERN,
    ),
}
SINGLE_JOINT_KEYS: Keys = {
    **{key: SHORTHAND_JOINT_KEYS[key] for key in (*FIXED_JOINT_KEYS, "terms", "values", "start")},
    **DRIVE_KEYS,
    "axis": {
        "description": "Axis of the placed frame it turns about or slides along; z if absent.",
        "anyOf": [
            {"enum": ["x", "y", "z", "-x", "-y", "-z"]},
            {
                "type": "array",
                "items": {"type": "number"},
                "minItems": 3,
                "maxItems": 3,
            },
        ],
    },
    "offset": number("Position of the joint where its coordinate is zero."),
    "actuated": flag("It has a motor."),
}
MOTOR_KEYS: Keys = {
    **NAME_KEYS,
    "type": choice("How it moves; revolute if absent.", "revolute", "prismatic"),
    **DRIVE_KEYS,
}
FRAME_PAIR_KEYS: Keys = {end: table(f"Frame {end}.", FRAME_KEYS, "body") for end in "ab"}
COEFFICIENT_KEYS: Keys = {
    "coefficients": table("Coefficients of coordinates.", None),
    "constant": number("Beside their sum."),
}
CLOSURE_KEYS = ("name", "kind")
_SIDE_TEXT = "Whose {} logs hold that are called after the joints."
TRANSMISSION_KEYS: Keys = {
    **NAME_KEYS,
    "joints": words("The joints it drives."),
    "matrix": {
        "description": "joints = matrix x motors, by rows, in SI.",
        "type": "array",
        "items": {"type": "array", "items": _NUMBER_KEY},
    },
    "motor": tables("A motor, one for each joint.", MOTOR_KEYS, "name"),
    "positions": choice(_SIDE_TEXT.format("positions"), "joints", "motors"),
    "efforts": choice(_SIDE_TEXT.format("efforts"), "joints", "motors"),
}
FORCE_KEYS: Keys = {
    **NAME_KEYS,
    **FRAME_PAIR_KEYS,
    "rest": number("Length at which its coordinate is zero."),
    "actuated": flag("A motor drives it."),
    **DRIVE_KEYS,
}
ELEMENT_TABLES = ("body", "joint", "closure", "transmission", "force")
CONSTANT_KEYS: Keys = {
    "start": number("Where the search starts."),
    "fit": flag("Find it; true if absent."),
    "low": number("It is at least this."),
    "high": number("It is at most this."),
}
TERM_KEYS: Keys = {
    **NAME_KEYS,
    "label": text("In words."),
    "unit": text("Unit of the coefficient."),
    "expression": {
        "description": "Of q, qd, qdd and constants; a list makes several terms.",
        "anyOf": [
            {"type": "string"},
            {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "uniqueItems": True,
            },
        ],
    },
    "constants": {
        "description": "Named constants of the expression.",
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                _NUMBER_KEY,
                table("One that is estimated from data.", CONSTANT_KEYS, "start"),
            ]
        },
    },
    "channels": table("Recorded channels with their default values.", None),
    "nonnegative": flag("Its coefficient cannot be negative."),
    "friction": flag("It opposes motion."),
    "coulomb": number("Half its jump where the velocity changes sign."),
    "validity": {
        "description": "Ranges of q, qd, effort or channels; beyond them the end's value is kept.",
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": _NUMBER_KEY,
            "minItems": 2,
            "maxItems": 2,
        },
    },
    "joints": {
        "description": "Full names of joints that have it beside those that list it.",
        "type": "array",
        "items": {"type": "string"},
    },
}
TASK_JOINT_KINDS = {
    "x": "prismatic",
    "y": "prismatic",
    "z": "prismatic",
    "rx": "revolute",
    "ry": "revolute",
    "rz": "revolute",
}
_TWIST_LIMIT = table(
    "Bounds in any direction.",
    {key: BOUND_KEYS[key] for key in ("velocity", "acceleration")},
)
_TASK_LIMIT = table("Bounds of a coordinate.", BOUND_KEYS)
_TASK_START = number("Zero if absent.")
PLATFORM_KEYS: Keys = {
    "name": text("Its name; `platform` if absent.", pattern=NAME_PATTERN),
    **INERTIA_KEYS,
    "coordinates": words("Task coordinates in order, translations first.", *TASK_JOINT_KINDS),
    "start": table(
        "Where the loops are assembled.",
        dict.fromkeys(TASK_JOINT_KINDS, _TASK_START),
    ),
    "limits": table(
        "Bounds of coordinates, and of the platform as a whole.",
        {
            **dict.fromkeys(TASK_JOINT_KINDS, _TASK_LIMIT),
            **dict.fromkeys(("translation", "rotation"), _TWIST_LIMIT),
        },
    ),
}
PAYLOAD_KEYS: Keys = {
    **NAME_KEYS,
    **FRAME_KEYS,
    **INERTIA_KEYS,
    "known": words("Parameters known well enough to calibrate with.", *INERTIAL),
}
NOISE_KEYS: Keys = {
    **{key: number(f"Standard deviation of {key} noise.") for key in ("position", "effort")},
    "correlation": number("Between the efforts of any two motors."),
    "resolution": number("Encoder step."),
    "rate": number("Sampling frequency of the controller."),
}
LEG_KEYS: Keys = {
    **NAME_KEYS,
    "instances": {
        "type": "array",
        "minItems": 1,
        "description": "The legs.",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {
                **NAME_KEYS,
                "base": table("Where it is placed.", FRAME_KEYS),
                **SOURCE_KEYS,
            },
        },
    },
    # checked with the values of each instance
    **{key: {} for key in ELEMENT_TABLES},
}


def _unit_choice(dimension: str) -> Key:
    units = [name for name, (_, measures) in KNOWN_UNITS.items() if measures == dimension]
    return choice(f"Unit of plain numbers of {dimension}.", *units)


UNIT_KEYS: Keys = {of: _unit_choice(of) for of in ("length", "angle", "mass")}
TOP_LEVEL_KEYS: Keys = {
    "format": {"description": "Version of this format.", "const": 1},
    **NAME_KEYS,
    "title": text("One line about it."),
    "reference": text("Where the robot and its numbers come from."),
    "gravity": numbers("Free fall in the base frame, m/s2.", 3),
    "redundant": flag("More motors than degrees of freedom are intended."),
    "units": table("Units of plain numbers.", UNIT_KEYS, *UNIT_KEYS),
    "platform": table(
        "Body with task coordinates.",
        {**PLATFORM_KEYS, **SOURCE_KEYS},
        "coordinates",
    ),
    "leg": tables("Parts that repeat.", LEG_KEYS, "name"),
    "term": tables("A term of the effort of joints.", TERM_KEYS, "name"),
    "payload": tables("A body that a log may carry.", PAYLOAD_KEYS, "name"),
    "tie": table(
        "Parameters that equal legs share.",
        {"parameters": words("Patterns of names inside a leg."), **SOURCE_KEYS},
    ),
    "uncertainty": tables(
        "How well values of this file are known.",
        {
            "relative": number("Standard deviation over the value."),
            "parameters": words("Patterns of parameter names; all by default."),
        },
        "relative",
    ),
    "noise": table(
        "What sensors add, for the virtual robot.",
        {**NOISE_KEYS, **SOURCE_KEYS},
    ),
}


def element_tables() -> Keys:
    """Return the tables of bodies, joints and closures, which the robot and its legs have.

    A function, not a constant: further kinds of closures may have been
    registered.
    """
    values: dict[str, Key] = {}
    for kind in CLOSURES.values():
        for key, dimension in kind.values.items():
            values[key] = number(f"A {dimension}.")
    return {
        "body": tables("A rigid body.", {**NAME_KEYS, **INERTIA_KEYS, **BOX_KEYS}, "name"),
        "joint": tables(
            "What carries a body.",
            {**SHORTHAND_JOINT_KEYS, **SINGLE_JOINT_KEYS},
            "name",
            "type",
            "parent",
            "child",
        ),
        "closure": tables(
            "What closes a loop.",
            {
                **NAME_KEYS,
                "kind": choice("Which equations hold.", *CLOSURES),
                **FRAME_PAIR_KEYS,
                **COEFFICIENT_KEYS,
                **values,
            },
            "name",
            "kind",
        ),
        "transmission": tables(
            "Motors that drive joints together.",
            TRANSMISSION_KEYS,
            "name",
            "joints",
            "matrix",
            "motor",
        ),
        "force": tables(
            "A force along the line between two points.",
            FORCE_KEYS,
            "name",
            "a",
            "b",
        ),
    }


def robot() -> Key:
    """Return the declaration of a robot file, without the elements of its legs."""
    return table(
        "A robot: its bodies, joints, loops, motors, payloads.",
        {**TOP_LEVEL_KEYS, **element_tables(), **SOURCE_KEYS},
        "format",
        "name",
        "units",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a robot file.

    In a leg any value may be `$key` of its instances.
    """
    schema = robot()
    leg = TOP_LEVEL_KEYS["leg"]["items"]
    properties = dict(leg["properties"])
    for name, key in element_tables().items():
        properties[name] = _with_placeholders(key)
    leg = {**leg, "properties": properties, "required": ["name", "instances"]}
    legs = {**TOP_LEVEL_KEYS["leg"], "items": leg}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Robot file of Gough",
        "$defs": _SCHEMA_DEFINITIONS,
        **schema,
        "properties": {**schema["properties"], "leg": legs},
    }


def _with_placeholders(key: Any) -> Any:
    """Allow `$key` in place of every value inside a table."""
    if isinstance(key, list):
        return [_with_placeholders(alternative) for alternative in key]
    if not isinstance(key, Mapping):
        return key
    declared = {name: _with_placeholders(inner) for name, inner in key.items()}
    for name, inner in declared.get("properties", {}).items():
        free_text = inner.get("type") == "string" and "enum" not in inner and "pattern" not in inner
        if "$ref" not in inner and not free_text:
            plain = {k: v for k, v in inner.items() if k != "description"}
            declared["properties"][name] = {
                "description": inner["description"],
                "anyOf": [plain, {"$ref": "#/$defs/given"}],
            }
    return declared
