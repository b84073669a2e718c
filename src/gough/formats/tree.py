"""The content of every robot format in one form: links, joints, loops, motors.

Readers return a `RobotTree` with the frames, axes and names of their
file. `robot_description` turns it into a robot file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism, nearest
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, joint_transform
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Kind, Limits, Vector

Motion = tuple[Kind, Vector]  # of a joint: kind and axis
Place = tuple[str, FloatArray]  # a body or link, and a pose on it (4, 4)
X_AXIS = (1.0, 0.0, 0.0)
Y_AXIS = (0.0, 1.0, 0.0)
Z_AXIS = (0.0, 0.0, 1.0)
BALL_MOTIONS: tuple[Motion, ...] = (
    ("revolute", X_AXIS),
    ("revolute", Y_AXIS),
    ("revolute", Z_AXIS),
)
FREE_MOTIONS: tuple[Motion, ...] = (
    ("prismatic", X_AXIS),
    ("prismatic", Y_AXIS),
    ("prismatic", Z_AXIS),
    *BALL_MOTIONS,
)
# Limits from here on mean none. Gough writes this where URDF demands a
# number; SDF has 1e16. [N, N m, m/s, rad/s, m, rad]
UNLIMITED_BOUND = 1e6
# Joint terms by their attribute of MJCF.
MJCF_TERMS = {term.mjcf: term.name for term in TERMS.values() if term.mjcf is not None}


def _no_inertia() -> FloatArray:
    return np.zeros(10)


def _identity() -> FloatArray:
    return IDENTITY


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """A body of the file."""

    name: str
    # ten parameters about its frame
    inertia: FloatArray = field(default_factory=_no_inertia)
    # those to be identified; None means all, or none of a massless link
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Connection:
    """A joint of the file, with any number of motions, one after the other.

    T_parent_child = placement * motion(q_1) * motion(q_2) ... * after,
    both (4, 4). A joint without motions is fixed. Limits, values of
    joint terms, motor and gain are those of a joint with one motion.
    """

    name: str
    parent: str
    child: str
    motions: tuple[Motion, ...] = ()
    placement: FloatArray = field(default_factory=_identity)
    after: FloatArray = field(default_factory=_identity)
    # coordinates from which the loops are assembled [m or rad]
    start: tuple[float, ...] = ()
    limits: Limits = field(default_factory=Limits)  # of the motion
    # coefficients of joint terms
    values: Mapping[str, float] = field(default_factory=dict)
    actuated: bool = False  # whether a motor drives it
    gain: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """A closure of a kind in `CLOSURES`: frames on links, or coefficients of joints."""

    name: str
    kind: str
    frames: tuple[Place, ...] = ()
    # of joint terms by name
    values: Mapping[str, float] = field(default_factory=dict)
    coefficients: Mapping[str, float] = field(default_factory=dict)  # by joint
    constant: float = 0.0  # of the coupling


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotTree:
    """A robot as its file describes it; joints may form loops, too."""

    name: str
    format: str  # of the file: `URDF`
    root: str  # the link that does not move
    links: tuple[Link, ...]  # the bodies
    joints: tuple[Connection, ...]
    loops: tuple[Loop, ...] = ()
    gravity: Vector = (0.0, 0.0, -9.81)  # in the base frame [m/s2]
    # joints that are coordinates of a platform, in order
    task: tuple[str, ...] = ()
    # motors have rotor inertia and friction even where the file has no
    # values
    usual_terms: bool = True
    notes: tuple[str, ...] = ()  # what was ignored or assumed

    @property
    def title(self) -> str:
        """One line about the robot."""
        return f"{self.name}, from {self.format}"

    def with_notes(self, *notes: str) -> RobotTree:
        """Return the tree with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def moving_joints(self) -> tuple[str, ...]:
        """Return the names of the joints that are not fixed."""
        return tuple(joint.name for joint in self.joints if joint.motions)

    def one_motion_joints(self) -> tuple[str, ...]:
        """Return the names of the joints with one motion."""
        return tuple(joint.name for joint in self.joints if len(joint.motions) == 1)

    def with_motors(self, motors: Iterable[str]) -> RobotTree:
        """Return the tree with these joints as its motors, and no others."""
        names = self.resolve_joints(motors)
        joints = []
        for joint in self.joints:
            actuated = joint.name in names
            if actuated and len(joint.motions) != 1:
                raise InvalidMechanism(
                    f"'{joint.name}' has {len(joint.motions)} motions and cannot be a motor",
                    joint=joint.name,
                )
            joints.append(replace(joint, actuated=actuated))
        return replace(self, joints=tuple(joints))

    def with_locked_joints(self, positions: Mapping[str, Sequence[float | None]]) -> RobotTree:
        """Return the tree with joints locked.

        Args:
            positions: Position of each motion, by joint; None leaves
                the motion free. [m or rad]
        """
        loops = [_without_locked(loop, positions) for loop in self.loops]
        joints: list[Connection] = []
        for joint in self.joints:
            if joint.name in positions:
                joints += _lock_motions(joint, positions[joint.name])
            else:
                joints.append(joint)
        added = {joint.child for joint in joints} - {link.name for link in self.links}
        return replace(
            self,
            loops=tuple(loop for loop in loops if loop.frames or loop.coefficients),
            task=tuple(name for name in self.task if name not in positions),
            joints=tuple(joints),
            links=(*self.links, *(Link(name=name) for name in sorted(added))),
        )

    def resolve_joints(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return moving joints by their names in the file, or as robot files spell them."""
        moving = self.moving_joints()
        spelled = {valid_name(name): name for name in moving}
        spelled |= {name: name for name in moving}
        resolved = []
        for name in names:
            if name not in spelled:
                raise InvalidMechanism(
                    f"the file has no moving joint '{name}'{nearest(name, moving)}",
                    joint=name,
                )
            resolved.append(spelled[name])
        return tuple(resolved)


def read_limits(limit: Element | None, default_bound: float) -> Limits:
    """Read `<limit>` of URDF or SDF.

    Numbers that mean no limit are left out: zero, negative, reversed or
    very large ones.

    Args:
        limit: The element, if any.
        default_bound: Of the absolute position, where the file gives
            none. [m or rad]
    """
    if limit is None:
        return Limits()
    low = limit.quantity("lower", -default_bound)
    high = limit.quantity("upper", default_bound)
    velocity = limit.quantity("velocity", 0.0)
    effort = limit.quantity("effort", 0.0)
    bounded = low < high and max(-low, high) < UNLIMITED_BOUND
    return Limits(
        position=(low, high) if bounded else None,
        velocity=velocity if 0 < velocity < UNLIMITED_BOUND else None,
        effort=effort if 0 < effort < UNLIMITED_BOUND else None,
    )


def mimic_coupling(joint: Connection, mimic: Element, known: Mapping[str, Connection]) -> Loop:
    """Return the coupling of a `<mimic>` of URDF or SDF.

    It is q = multiplier * (q_other - reference) + offset.
    """
    other = mimic.get("joint")
    multiplier = mimic.quantity("multiplier", 1.0)
    for name in (joint.name, other):
        if name not in known or len(known[name].motions) > 1:
            raise mimic.error(f"'{name}' is no joint with one motion{nearest(name, known)}")
    if joint.name == other:
        raise mimic.error("a joint cannot follow itself")
    coefficients = {joint.name: 1.0}
    if known[other].motions:
        coefficients[other] = -multiplier
    return Loop(
        name=f"{joint.name}_mimic",
        kind="coupling",
        coefficients=coefficients,
        constant=multiplier * mimic.quantity("reference", 0.0) - mimic.quantity("offset", 0.0),
    )


def valid_name(name: str) -> str:
    """Return a name with letters, digits, _ and - only, which starts with a letter."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return f"_{plain}" if re.match(r"[\d-]", plain) else plain


def with_source(error: InvalidMechanism, source: str) -> InvalidMechanism:
    """Return an error whose message names the file."""
    message = str(error)
    if source not in message:
        message = f"{source}: {message}"
    return InvalidMechanism(message, **{"file": source, **error.numbers})


def _without_locked(loop: Loop, positions: Mapping[str, Sequence[float | None]]) -> Loop:
    """Return a loop with the coordinates of locked joints in its constant."""
    coefficients = {}
    shift = 0.0
    for name, coefficient in loop.coefficients.items():
        if name in positions:
            shift += coefficient * (positions[name][0] or 0.0)
        else:
            coefficients[name] = coefficient
    return replace(loop, coefficients=coefficients, constant=loop.constant + shift)


def _lock_motions(joint: Connection, positions: Sequence[float | None]) -> list[Connection]:
    """Return a joint with some of its motions locked.

    Motions before a locked one end at a massless link, from which the
    next joint goes on.
    """
    empty = Connection(
        name=joint.name,
        parent=joint.parent,
        child=joint.child,
        placement=joint.placement,
        limits=replace(joint.limits, position=None),
    )
    segments = [empty]
    for k, (motion, position) in enumerate(zip(joint.motions, positions)):
        segment = segments[-1]
        if position is None:
            motions = (*segment.motions, motion)
            segments[-1] = replace(
                segment,
                motions=motions,
                start=segment.start + joint.start[k : k + 1],
            )
            continue
        locked = joint_transform(*motion, position)
        if not segment.motions:
            segments[-1] = replace(segment, placement=segment.placement @ locked)
            continue
        link = f"{joint.name}_held{k + 1}"
        name = f"{joint.name}_{len(segments) + 1}"
        segments[-1] = replace(segment, child=link)
        segments.append(replace(empty, name=name, parent=link, placement=locked))
    last = segments.pop()
    after = joint.after
    if segments and not last.motions:  # only locked motions follow: they belong to the joint before
        after = last.placement @ after
        last = segments.pop()
    return [*segments, replace(last, child=joint.child, after=after)]
