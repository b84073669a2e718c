"""The description of a robot, and its readers."""

from gough.mechanism.closures import CLOSURES, ClosureKind, register_closure
from gough.mechanism.files import (
    ROBOT_FORMATS,
    bundled_robots,
    load_robot,
    register_robot_format,
    robot_text,
)
from gough.mechanism.placement import Placement
from gough.mechanism.reader import parse_robot
from gough.mechanism.terms import TERMS, JointState, JointTerm, register_term
from gough.mechanism.types import (
    BASE,
    Body,
    Closure,
    Frame,
    Joint,
    Limits,
    Mechanism,
    Noise,
    Payload,
    Transmission,
)

__all__ = [
    "BASE",
    "CLOSURES",
    "ROBOT_FORMATS",
    "TERMS",
    "Body",
    "Closure",
    "ClosureKind",
    "Frame",
    "Joint",
    "JointState",
    "JointTerm",
    "Limits",
    "Mechanism",
    "Noise",
    "Payload",
    "Placement",
    "Transmission",
    "bundled_robots",
    "load_robot",
    "parse_robot",
    "register_closure",
    "register_robot_format",
    "register_term",
    "robot_text",
]
