"""What every robot format says, in one form: links, joints, loops, motors.

Readers return a `RobotTree` with the frames, axes and names of their file. `description.py` turns
it into a robot file.
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

Motion = tuple[Kind, Vector]
Place = tuple[str, FloatArray]
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
BALL_MOTIONS: tuple[Motion, ...] = (("revolute", X), ("revolute", Y), ("revolute", Z))
FREE_MOTIONS: tuple[Motion, ...] = (
    ("prismatic", X),
    ("prismatic", Y),
    ("prismatic", Z),
    *BALL_MOTIONS,
)
# Gough writes this where URDF demands a number; SDF has 1e16. [N, N m, m/s, rad/s, m, rad]
ENDLESS = 1e6
TERM = {
    term.mjcf: term.name for term in TERMS.values() if term.mjcf is not None
}  # by the words of MJCF


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """A body as a file has it."""

    name: str
    inertia: FloatArray = field(
        default_factory=lambda: np.zeros(10)
    )  # ten parameters about its frame
    # those to be identified; of a massless link none, unless said
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Connection:
    """A joint as a file has it: none, one or several motions, one after the other.

    T_parent_child = placement * motion(q_1) * motion(q_2) ... * after, both (4, 4); no motion is a
    fixed joint. Starts are coordinates from which the loops are assembled. Limits, values of joint
    terms, motor and gain are those of a joint with one motion.
    """

    name: str
    parent: str
    child: str
    motions: tuple[Motion, ...] = ()
    placement: FloatArray = field(default_factory=lambda: IDENTITY)
    after: FloatArray = field(default_factory=lambda: IDENTITY)
    start: tuple[float, ...] = ()
    limits: Limits = field(default_factory=Limits)
    values: Mapping[str, float] = field(default_factory=dict)
    actuated: bool = False
    gain: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """What closes a loop, of a kind in `CLOSURES`: frames on links, or coefficients of joints."""

    name: str
    kind: str
    frames: tuple[Place, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    coefficients: Mapping[str, float] = field(default_factory=dict)
    constant: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotTree:
    """A robot as a file has it; joints may form loops, too."""

    name: str
    title: str
    root: str  # the link that stands still
    links: tuple[Link, ...]
    joints: tuple[Connection, ...]
    loops: tuple[Loop, ...] = ()
    gravity: Vector = (0.0, 0.0, -9.81)
    task: tuple[str, ...] = ()  # joints that are coordinates of a platform, in order
    # motors have rotor inertia and friction that the file does not speak of
    usual_terms: bool = True
    notes: tuple[str, ...] = ()  # what was lost or guessed

    def with_notes(self, *notes: str) -> RobotTree:
        """Return the tree with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def moving_joints(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints if joint.motions)

    def one_motion_joints(self) -> tuple[str, ...]:
        """Return the names of the joints with one motion."""
        return tuple(joint.name for joint in self.joints if len(joint.motions) == 1)

    def with_motors(self, motors: Iterable[str]) -> RobotTree:
        """Return the tree with these joints as its motors, and no others."""
        wanted = self.resolve_joints(motors)
        for joint in self.joints:
            if joint.name in wanted and len(joint.motions) != 1:
                raise InvalidMechanism(
                    f"'{joint.name}' has {len(joint.motions)} motions and cannot be a motor",
                    joint=joint.name,
                )
        return replace(
            self, joints=tuple(replace(j, actuated=j.name in wanted) for j in self.joints)
        )

    def with_locked_joints(self, where: Mapping[str, Sequence[float | None]]) -> RobotTree:
        """Return the tree with these joints fixed where they are; a motion whose value is None goes
        on. [m or rad]
        """
        loops = []
        for loop in self.loops:
            left = {name: c for name, c in loop.coefficients.items() if name not in where}
            constant = loop.constant + sum(
                c * (where[n][0] or 0.0) for n, c in loop.coefficients.items() if n in where
            )
            if loop.frames or left:
                loops.append(replace(loop, coefficients=left, constant=constant))
        parts = [
            part
            for j in self.joints
            for part in (_fixed(j, where[j.name]) if j.name in where else [j])
        ]
        between = {part.child for part in parts} - {link.name for link in self.links}
        return replace(
            self,
            loops=tuple(loops),
            task=tuple(name for name in self.task if name not in where),
            joints=tuple(parts),
            links=(*self.links, *(Link(name=name) for name in sorted(between))),
        )

    def resolve_joints(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return joints that move by their names in the file; names as robot files spell them are
        understood, too.
        """
        spelled = {word(name): name for name in self.moving_joints()} | {
            name: name for name in self.moving_joints()
        }
        found = tuple(names)
        for name in found:
            if name not in spelled:
                raise InvalidMechanism(
                    f"the file has no moving joint '{name}'{nearest(name, self.moving_joints())}",
                    joint=name,
                )
        return tuple(spelled[name] for name in found)


def stated_limits(low: float, high: float, velocity: float, effort: float) -> Limits:
    """Return limits without those that a format demands and a file gives no meaning: none,
    reversed, endless ones.
    """
    fastest, strongest = (value if 0 < value < ENDLESS else None for value in (velocity, effort))
    return Limits(
        position=(low, high) if low < high and max(-low, high) < ENDLESS else None,
        velocity=fastest,
        effort=strongest,
    )


def follower(joint: Connection, mimic: Element, known: Mapping[str, Connection]) -> Loop:
    """Return the coupling that a `<mimic>` of URDF or SDF is: q = multiplier * (q_other -
    reference) + offset.
    """
    other, factor = mimic.get("joint"), mimic.amount("multiplier", 1.0)
    for name in (joint.name, other):
        if name not in known or len(known[name].motions) > 1:
            raise mimic.error(f"'{name}' is no joint with one motion{nearest(name, known)}")
    if joint.name == other:
        raise mimic.error("a joint cannot follow itself")
    return Loop(
        name=f"{joint.name}_mimic",
        kind="coupling",
        coefficients={joint.name: 1.0} | ({other: -factor} if known[other].motions else {}),
        constant=factor * mimic.amount("reference", 0.0) - mimic.amount("offset", 0.0),
    )


def word(name: str) -> str:
    """Return a name of letters, digits, _ and - that starts with a letter."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return f"_{plain}" if plain[:1].isdigit() or plain[:1] == "-" else plain


def _fixed(joint: Connection, position: Sequence[float | None]) -> list[Connection]:
    """Return a joint with some of its motions fixed: the motions before such a one end at a
    massless link.
    """
    placed, here, free, parts = joint.placement, joint.parent, list[int](), list[Connection]()

    def part(child: str, after: FloatArray) -> Connection:
        return Connection(
            name=f"{joint.name}_{len(parts) + 1}" if parts else joint.name,
            parent=here,
            child=child,
            placement=placed,
            after=after,
            motions=tuple(joint.motions[k] for k in free),
            start=tuple(joint.start[k] for k in free if k < len(joint.start)),
            limits=replace(joint.limits, position=None),
        )

    for k, (motion, value) in enumerate(zip(joint.motions, position)):
        if value is None:
            free.append(k)
            continue
        if free:
            parts.append(part(f"{joint.name}_held{k + 1}", IDENTITY))
            here, placed, free = parts[-1].child, IDENTITY, []
        placed = placed @ joint_transform(*motion, value)
    if parts and not free:  # nothing moves behind the last one
        return [*parts[:-1], replace(parts[-1], child=joint.child, after=placed @ joint.after)]
    return [*parts, part(joint.child, joint.after)]
