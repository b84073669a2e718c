"""From a `RobotTree` to the text of a robot file.

Fixed joints vanish: the links that they carry become part of the body
before. The frame of a body is that of its joint, turned so that the
axis is x, y or z. Joints that form loops are cut. Names become those of
robot files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.errors import InvalidMechanism
from gough.core.inertia import transform_inertia
from gough.core.names import INERTIAL, PAYLOAD
from gough.formats.geometry import along_z
from gough.formats.robot_file_writer import robot_file
from gough.formats.tree import (
    FREE_MOTIONS,
    MJCF_TERMS,
    Connection,
    Link,
    Loop,
    Place,
    RobotTree,
    valid_name,
    with_source,
)
from gough.mechanism.placement import IDENTITY, Placement, inverse, transform
from gough.mechanism.terms import TERMS
from gough.mechanism.types import (
    BASE,
    Axis,
    Body,
    Closure,
    Frame,
    Joint,
    Limits,
    Mechanism,
)

# Closures that are pins in a planar loop.
PIN_KINDS = ("point", "revolute")
# Axes of a planar loop: parallel exactly, or except for angles printed
# with three digits. [rad]
EXACTLY_PARALLEL = 1e-9
NEARLY_PARALLEL = 2e-3
# Terms that every motor has.
MOTOR_TERMS = tuple(MJCF_TERMS[word] for word in ("armature", "damping", "frictionloss"))
SHOWN_NAMES = 8  # in a note
IDENTITY_ROUND_OFF = 1e-12  # of poses of task coordinates [m, 1]
SHORTEST_AXIS = 1e-9  # shorter ones have no direction


@dataclass(frozen=True)
class Description:
    """A robot file and where its names come from."""

    text: str  # the robot file
    # in the robot file, by the joint's name in the source
    coordinates: dict[str, tuple[str, ...]]
    # body that a link is part of, and its pose there, by link
    bodies: dict[str, Place]
    notes: tuple[str, ...]  # what was ignored or assumed


def describe(tree: RobotTree, source: str, redundant: bool = True) -> Description:
    """Turn a tree into a robot file.

    Args:
        tree: The robot as read.
        source: Name of its file.
        redundant: Whether more motors than degrees of freedom are
            intended.
    """
    try:
        builder = _Builder(drop_placeholder_limits(_with_motors(tree)))
    except InvalidMechanism as error:
        raise with_source(error, source) from None
    mechanism = Mechanism(
        name=valid_name(tree.name) or "robot",
        title=" ".join(tree.title.split()),
        bodies=tuple(builder.bodies),
        joints=tuple(builder.joints),
        closures=tuple(builder.closures),
        platform=builder.platform,
        gravity=tree.gravity,
        redundant=redundant,
        reference=f"imported from {Path(source).name}",
    )
    text, full_names, leg_note = robot_file(mechanism, builder.notes)
    coordinates = {}
    for joint, names in builder.coordinates.items():
        coordinates[joint] = tuple(full_names.get(name, name) for name in names)
    bodies = {}
    for link, (body, pose) in builder.places.items():
        bodies[link] = (full_names.get(body, body), pose)
    notes = [*builder.notes, leg_note] if leg_note else builder.notes
    return Description(text, coordinates, bodies, tuple(notes))


def _with_motors(tree: RobotTree) -> RobotTree:
    """Take all joints of a tree without loops for motors where the file names none."""
    if any(joint.actuated for joint in tree.joints):
        return tree
    if tree.loops or len(tree.joints) != len(tree.links) - 1:
        names = ", ".join(tree.moving_joints())
        raise InvalidMechanism(
            f"the file names no motors; say which of its joints are `motors`: {names}"
        )
    if not tree.one_motion_joints():
        raise InvalidMechanism("the file has no joint that could be a motor")
    motors = tree.with_motors(tree.one_motion_joints())
    return motors.with_notes("assumed: every joint is a motor; the file names none")


def drop_placeholder_limits(tree: RobotTree) -> RobotTree:
    """Leave out limits that are equal at all joints, with and without a motor.

    CAD programs write such placeholders. Followers (mimic) have the
    limits of their leader, so they do not count as joints without a
    motor.
    """
    moving = [joint for joint in tree.joints if joint.motions]
    placeholders: dict[str, float] = {}
    for key in ("effort", "velocity"):
        limits = {getattr(joint.limits, key) for joint in moving}
        if len(limits) == 1 and None not in limits:
            placeholders[key] = limits.pop()
    coupled = set[str]().union(*(loop.coefficients for loop in tree.loops))
    if not placeholders or all(joint.actuated or joint.name in coupled for joint in moving):
        return tree
    none = dict.fromkeys(placeholders)
    joints = [replace(j, limits=replace(j.limits, **none)) for j in tree.joints]
    shown = ", ".join(f"{key} {limit:g}" for key, limit in placeholders.items())
    return replace(tree, joints=tuple(joints)).with_notes(
        f"ignored: {shown} at every joint (CAD placeholders); set `velocity` and `effort` of the "
        "motors before a design"
    )


class _Builder:
    """Build the bodies, joints and closures of a robot file from a tree."""

    def __init__(self, tree: RobotTree) -> None:
        self.tree = tree
        self.notes = list(tree.notes)
        self.joints: list[Joint] = []
        self.coordinates: dict[str, tuple[str, ...]] = {}  # names of joints, by joint of the tree
        self.places: dict[str, Place] = {tree.root: (BASE, IDENTITY)}  # of links, on bodies
        self._taken = {
            "body": {BASE, PAYLOAD},
            "joint": {PAYLOAD},
            "closure": set[str](),
        }
        self._renamed: dict[str, str] = {}
        joints, cut = _spanning_tree(tree)
        self._parents: dict[str, set[str]] = {}  # by the names of joints in the file
        for connection in tree.joints:
            self._parents.setdefault(connection.name, set()).add(connection.parent)
        self.platform = self._add_platform(joints)
        for joint in joints:
            if joint.child not in self.places:
                self._add_joint(joint)
        self._links_of_body: dict[str, list[Link]] = {}
        for link in tree.links:
            self._links_of_body.setdefault(self.places[link.name][0], []).append(link)
        self.bodies = [self._body(joint.child) for joint in self.joints]
        self.closures: list[Closure] = []
        for loop in (*tree.loops, *cut):
            self.closures += self._flattened(self._closure(loop))
        self._add_notes(cut)

    def _name(self, kind: str, wanted: str) -> str:
        """Return an unused name of a body, joint or closure."""
        taken = self._taken[kind]
        word = valid_name(wanted) or kind
        name = word
        number = 1
        while name in taken:
            name = f"{word}_{number}" if number > 1 else f"{word}_"
            number += 1
        taken.add(name)
        if name != wanted and "." not in wanted:  # names with dots are made by the readers
            self._renamed[wanted] = name
        return name

    def _add_joint(self, joint: Connection) -> None:
        """Add a joint for each motion, with massless bodies between them."""
        body, pose = self.places[joint.parent]
        pose = pose @ joint.placement
        single = len(joint.motions) == 1
        terms = set(joint.values)
        if joint.actuated and self.tree.usual_terms:
            terms.update(MOTOR_TERMS)
        limits = joint.limits if single else Limits()
        names: list[str] = []
        for k, (kind, axis) in enumerate(joint.motions):
            if not np.linalg.norm(axis) > SHORTEST_AXIS:
                raise InvalidMechanism(
                    f"joint '{joint.name}' has an axis of no length",
                    joint=joint.name,
                )
            letter, turn = _align_axis(axis)
            name = joint.name if single else f"{joint.name}_{_motion_label(joint, k)}"
            name = self._name("joint", name)
            names.append(name)
            child = self._name("body", joint.child if k == len(joint.motions) - 1 else name)
            self.joints.append(
                Joint(
                    name=name,
                    kind=kind,
                    parent=body,
                    child=child,
                    placement=Placement.of(pose @ turn),
                    axis=letter,
                    limits=limits,
                    actuated=joint.actuated,
                    gain=joint.gain,
                    start=clamp_to_limits(_start(joint, k), limits),
                    values=joint.values if single else {},
                    terms=tuple(term for term in TERMS if term in terms),
                )
            )
            body = child
            pose = turn.T  # the inverse of a transform without translation
        self.places[joint.child] = (body, pose @ joint.after)
        if names:
            if self._is_reversed(joint):
                names.reverse()
            self.coordinates[joint.name] = tuple(names)

    def _is_reversed(self, joint: Connection) -> bool:
        """Return whether a joint leads from the child to the parent of the file."""
        return joint.parent not in self._parents.get(joint.name, {joint.parent})

    def _add_platform(self, joints: list[Connection]) -> str | None:
        """Add the joints that are task coordinates of a platform; return its name.

        None if there are none, or if they cannot be task coordinates:
        these move along and about the axes of the base, translations
        first.
        """
        chain = self._platform_chain(joints)
        motions: list[tuple[Connection, int, str]] = []  # joint, index of the motion, coordinate
        for joint in chain:
            for k, (kind, axis) in enumerate(joint.motions):
                letter, turn = _align_axis(axis)
                if not np.array_equal(turn, IDENTITY):
                    return None
                motions.append((joint, k, letter if kind == "prismatic" else f"r{letter}"))
        words = [word for _, _, word in motions]
        if not chain or len(set(words)) < len(words) or words != sorted(words, key=len):
            return None
        name = self._name("body", chain[-1].child)
        parent = BASE
        for joint, k, word in motions:
            child = name if word == words[-1] else f"{name}.{word}"
            self.joints.append(
                Joint(
                    name=f"{name}.{word}",
                    kind=joint.motions[k][0],
                    parent=parent,
                    child=child,
                    axis=cast(Axis, word[-1]),
                    virtual=True,
                    start=_start(joint, k),
                    limits=Limits(position=joint.limits.position),
                )
            )
            self.coordinates[joint.name] = (
                *self.coordinates.get(joint.name, ()),
                f"{name}.{word}",
            )
            self.places[joint.child] = (child, IDENTITY)
            parent = child
        return name

    def _platform_chain(self, joints: list[Connection]) -> list[Connection]:
        """Return the joints of the tree that may be task coordinates, from the root outwards."""
        root = self.tree.root
        task = self.tree.task
        free = [j.name for j in joints if j.motions == FREE_MOTIONS and j.parent == root]
        if not task and len(free) == 1:  # a single free body is the platform
            task = tuple(free)
        chain = [joint for joint in joints if joint.name in task]
        chain.sort(key=lambda joint: task.index(joint.name))
        massive = {link.name for link in self.tree.links if np.any(link.inertia)}
        parent = root
        for joint in chain:
            in_line = _is_identity(joint.placement) and _is_identity(joint.after)
            carries_mass = parent != root and parent in massive
            if joint.parent != parent or not in_line or carries_mass:
                return []
            if joint.values or joint.actuated:
                return []
            parent = joint.child
        return chain

    def _body(self, name: str) -> Body:
        """Return a body with the parameters of all links that are part of it, about its frame."""
        total = np.zeros(10)
        parameters: set[str] = set()
        for link in self._links_of_body.get(name, ()):
            pose = self.places[link.name][1]
            total = total + transform_inertia(pose, link.inertia)
            parameters.update(_link_parameters(link, pose))
        values = {p: number for p, number in zip(INERTIAL, total.tolist()) if number}
        if parameters and not parameters.issuperset(values):
            parameters = set(INERTIAL)
        if values:
            values = {p: number for p, number in zip(INERTIAL, total.tolist()) if p in parameters}
        names = tuple(p for p in INERTIAL if p in parameters)
        return Body(name=name, parameters=names, values=values)

    def _closure(self, loop: Loop) -> Closure:
        """Return the closure of a loop."""
        frames = []
        for link, pose in loop.frames:
            body, link_pose = self.places[link]
            frames.append(Frame(body=body, placement=Placement.of(link_pose @ pose)))
        a, b = frames or (None, None)
        coefficients = {}
        for joint, coefficient in loop.coefficients.items():
            coefficients[self.coordinates[joint][0]] = coefficient
        return Closure(
            name=self._name("closure", loop.name),
            kind=loop.kind,
            a=a,
            b=b,
            values=loop.values,
            coefficients=coefficients,
            constant=loop.constant,
        )

    def _flattened(self, closure: Closure) -> list[Closure]:
        """Return a closure; in a planar loop with rounded angles two rods in its plane.

        A pin in space has more equations than a planar loop needs, and
        rounded angles let them contradict. Two rods of length one, at
        right angles, have none too many.
        """
        rotations = {BASE: np.eye(3)}  # of bodies in the base frame, at zero coordinates
        for joint in self.joints:
            rotations[joint.child] = rotations[joint.parent] @ joint.placement.rotation
        joints = self._joints_between(closure)
        axes = [rotations[joint.child] @ joint.direction for joint in joints]
        only_hinges = bool(joints) and all(joint.kind == "revolute" for joint in joints)
        if closure.kind not in PIN_KINDS or not only_hinges or closure.b is None:
            return [closure]
        if closure.kind == "revolute":
            for frame in closure.frames:
                axes.append((rotations[frame.body] @ frame.placement.rotation)[:, 2])
        deviation = max(float(np.linalg.norm(np.cross(axes[0], axis))) for axis in axes)
        if not EXACTLY_PARALLEL < deviation < NEARLY_PARALLEL:
            return [closure]
        self.notes.append(
            f"assumed: the loop '{closure.name}' is planar, its angles are rounded; it is closed "
            "in its plane"
        )
        body = closure.b.body
        placement = closure.b.placement
        plane = placement.rotation.T @ along_z(rotations[body].T @ axes[0])
        rods = []
        for k, side in enumerate("xy"):
            end = Placement.of(placement.matrix @ transform(plane[:, k]))
            rod = replace(
                closure,
                name=self._name("closure", f"{closure.name}_{side}"),
                kind="distance",
                values={"length": 1.0},
                b=Frame(body=body, placement=end),
            )
            rods.append(rod)
        return rods

    def _joints_between(self, closure: Closure) -> list[Joint]:
        """Return the joints that move the frames of a closure against each other."""
        carriers = {joint.child: joint for joint in self.joints}
        bodies = set[str]()
        for frame in closure.frames:
            body = frame.body
            while body in carriers:
                bodies ^= {body}  # a body that carries both frames does not count
                body = carriers[body].parent
        return [carriers[body] for body in sorted(bodies)]

    def _add_notes(self, cut: list[Loop]) -> None:
        """Note what was ignored, assumed and renamed."""
        body_of = {link.name: self.places[link.name][0] for link in self.tree.links}
        with_mass = {body_of[link.name] for link in self.tree.links if np.any(link.inertia)}
        unmoved = {
            BASE,
            *(joint.child for joint in self.joints if joint.virtual),
        }
        fixed: list[str] = []
        massless: list[str] = []
        unknown: list[str] = []
        for link in self.tree.links:
            body = body_of[link.name]
            massive = bool(np.any(link.inertia))
            if body == BASE and massive:
                fixed.append(link.name)
            if body in unmoved:
                continue
            if link.parameters and not massive:
                unknown.append(link.name)
            elif body not in with_mass and not link.parameters and "." not in link.name:
                massless.append(link.name)
        for reason, names in (
            ("fixed to the base, masses ignored", fixed),
            ("massless, as the file gives no inertia", massless),
            (
                "unknown: masses that the file leaves to meshes or symbols",
                unknown,
            ),
            (
                "cut to open the loops, and closed again",
                [loop.name for loop in cut],
            ),
            (
                "renamed",
                [f"{old} -> {new}" for old, new in self._renamed.items()],
            ),
        ):
            if names:
                self.notes.append(f"{reason}: {join_names(names, SHOWN_NAMES)}")
        motors = [joint for joint in self.joints if joint.actuated]
        if self.tree.usual_terms and any(set(MOTOR_TERMS) - set(j.values) for j in motors):
            self.notes.append(
                "assumed: motors have rotor inertia, viscous and Coulomb friction; those without a "
                "value are unknown"
            )


def _link_parameters(link: Link, pose: FloatArray) -> tuple[str, ...]:
    """Return the parameters that a link contributes to its body, at a pose (4, 4)."""
    if link.parameters is None:
        return INERTIAL if np.any(link.inertia) else ()
    if not link.parameters or np.array_equal(pose, IDENTITY):
        return link.parameters
    return INERTIAL


def _is_identity(pose: FloatArray) -> bool:
    return bool(np.abs(pose - IDENTITY).max() < IDENTITY_ROUND_OFF)


def _start(joint: Connection, k: int) -> float:
    """Return the start of a motion, zero without."""
    return joint.start[k] if k < len(joint.start) else 0.0


def _motion_label(joint: Connection, k: int) -> str:
    """Return what distinguishes a motion of a joint from the others: x, rz, or a number."""
    kind, axis = joint.motions[k]
    letter, turn = _align_axis(axis)
    if not np.array_equal(turn, IDENTITY) or joint.motions.count((kind, axis)) > 1:
        return str(k + 1)
    if kind == "revolute" and len(joint.motions) > 3:
        return f"r{letter}"
    return letter


def clamp_to_limits(start: float, limits: Limits) -> float:
    """Return a start moved into the position limits."""
    low, high = limits.position or (start, start)
    return min(max(start, low), high)


def _align_axis(axis: Iterable[float]) -> tuple[Axis, FloatArray]:
    """Return the letter of an axis, and a rotation (4, 4) after which it is that letter's axis."""
    direction = np.array(list(axis))
    direction = direction / max(np.linalg.norm(direction), 1e-300)
    k = int(np.argmax(np.abs(direction)))
    if np.abs(np.delete(direction, k)).max() > 1e-15:
        return "z", transform(rotation=along_z(direction))
    letter = cast(Axis, "xyz"[k])
    if direction[k] > 0:
        return letter, IDENTITY
    half_turn = np.eye(3)
    half_turn[k, k] = -1.0
    half_turn[(k + 1) % 3, (k + 1) % 3] = -1.0
    return letter, transform(rotation=half_turn)


def _spanning_tree(tree: RobotTree) -> tuple[list[Connection], list[Loop]]:
    """Return joints that reach every link once, parents first, and loops for the others."""
    joints_at: dict[str, list[Connection]] = {link.name: [] for link in tree.links}
    for joint in tree.joints:
        for link in dict.fromkeys((joint.parent, joint.child)):
            if link not in joints_at:
                raise InvalidMechanism(
                    f"joint '{joint.name}' names the link '{link}', which does not exist"
                )
            joints_at[link].append(joint)
    reached = {tree.root}
    waiting = deque([tree.root])
    used = set[Connection]()
    joints: list[Connection] = []
    cut: list[Loop] = []
    while waiting:
        link = waiting.popleft()
        for joint in joints_at.get(link, []):
            if joint in used:
                continue
            used.add(joint)
            onward = joint if joint.parent == link else _reversed(joint)
            if onward.child in reached:
                kept, loop = _cut(joint)
                joints += kept
                cut.append(loop)
            else:
                reached.add(onward.child)
                waiting.append(onward.child)
                joints.append(onward)
    for name in joints_at:
        if name not in reached:
            raise InvalidMechanism(
                f"the link '{name}' hangs on nothing: no joint leads to it from '{tree.root}'"
            )
    return joints, cut


def _reversed(joint: Connection) -> Connection:
    """Return a joint from child to parent: T_child_parent = after^-1 M_-a(q) placement^-1."""
    motions = []
    for kind, (x, y, z) in reversed(joint.motions):
        motions.append((kind, (-x, -y, -z)))
    return replace(
        joint,
        parent=joint.child,
        child=joint.parent,
        placement=inverse(joint.after),
        after=inverse(joint.placement),
        motions=tuple(motions),
        start=joint.start[::-1],
    )


def _cut(joint: Connection) -> tuple[list[Connection], Loop]:
    """Return the joints and the closure in place of a joint that closes a loop.

    A passive hinge or ball becomes a closure. Any other joint stays: it
    carries a massless body, which is welded to the child.
    """
    kinds = [kind for kind, _ in joint.motions]
    passive = not joint.actuated and not joint.values and joint.limits.position is None
    child_end = inverse(joint.after)
    turn = IDENTITY
    if not kinds:
        kind = "weld"
    elif passive and kinds == ["revolute"]:
        kind = "revolute"
        turn = transform(rotation=along_z(joint.motions[0][1]))
    elif passive and kinds == ["revolute"] * 3:
        kind = "point"
    else:
        end = f"{joint.name}_end"
        frames = ((end, IDENTITY), (joint.child, child_end))
        kept = replace(joint, child=end, after=IDENTITY)
        return [kept], Loop(name=joint.name, kind="weld", frames=frames)
    frames = (
        (joint.parent, joint.placement @ turn),
        (joint.child, child_end @ turn),
    )
    return [], Loop(name=joint.name, kind=kind, frames=frames)
