"""The description of a robot, and its reader."""

from gough.mechanism.reader import bundled_robots, load_robot, parse_robot, robot_text
from gough.mechanism.terms import TERMS, JointTerm
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
    Placement,
)

__all__ = [
    "BASE", "TERMS", "Body", "Closure", "Frame", "Joint", "JointTerm", "Limits", "Mechanism", "Noise", "Payload",
    "Placement", "bundled_robots", "load_robot", "parse_robot", "robot_text",
]
