"""From a `RobotTree` to the text of a robot file.

Fixed joints vanish: what they hold becomes part of the body before. A body's frame is that of its
joint, turned so that the axis is x, y or z. Joints that form loops are cut. Names become those of
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
from gough.formats.legs import robot_file
from gough.formats.tree import (
    FREE_MOTIONS,
    TERM,
    Connection,
    Loop,
    Place,
    RobotTree,
    word as spelled,
)
from gough.mechanism.placement import IDENTITY, Placement, inverse, transform
from gough.mechanism.terms import TERMS
from gough.mechanism.types import BASE, Axis, Body, Closure, Frame, Joint, Limits, Mechanism, Vector

# Kinds that are pins in a flat loop; axes this parallel are exactly so, or but for three printed
# digits. [rad]
PINS, EXACT, FLAT = ("point", "revolute"), 1e-9, 2e-3
USUAL = tuple(TERM[word] for word in ("armature", "damping", "frictionloss"))


@dataclass(frozen=True)
class Description:
    """A robot file and where its names come from."""

    text: str
    coordinates: dict[str, tuple[str, ...]]  # in the robot file, of each joint by its name before
    bodies: dict[str, Place]  # that a link is part of, and where on it, by the link's name
    notes: tuple[str, ...]  # what was lost or guessed


def describe(tree: RobotTree, source: str, redundant: bool = True) -> Description:
    """Turn a tree into a robot file; more motors than degrees of freedom may be taken as meant."""
    try:
        parts = _Parts(drop_placeholder_limits(_with_motors(tree)))
    except InvalidMechanism as error:
        raise InvalidMechanism(f"{source}: {error}", **{"file": source, **error.numbers}) from None
    mechanism = Mechanism(
        name=spelled(tree.name) or "robot",
        title=" ".join(tree.title.split()),
        bodies=tuple(parts.bodies),
        joints=tuple(parts.joints),
        closures=tuple(parts.closures),
        platform=parts.platform,
        gravity=tree.gravity,
        redundant=redundant,
        reference=f"imported from {Path(source).name}",
    )
    text, renamed, legs = robot_file(mechanism, parts.notes)
    return Description(
        text,
        {
            old: tuple(renamed.get(name, name) for name in new)
            for old, new in parts.coordinates.items()
        },
        {link: (renamed.get(body, body), at) for link, (body, at) in parts.at.items()},
        (*parts.notes, *filter(None, [legs])),
    )


def _with_motors(tree: RobotTree) -> RobotTree:
    """Take all joints of a tree without loops for motors where the file names none."""
    if any(joint.actuated for joint in tree.joints):
        return tree
    if tree.loops or len(tree.joints) != len(tree.links) - 1:
        raise InvalidMechanism(
            "the file names no motors; say which of its joints are `motors`: "
            + ", ".join(tree.moving_joints())
        )
    if not tree.one_motion_joints():
        raise InvalidMechanism("the file has no joint that could be a motor")
    return tree.with_motors(tree.one_motion_joints()).with_notes(
        "guessed: every joint is a motor; the file names none"
    )


def drop_placeholder_limits(tree: RobotTree) -> RobotTree:
    """Leave out limits that all joints have alike, those without a motor too: CAD programs write
    them, not drives.
    """
    moving = [joint for joint in tree.joints if joint.motions]
    alike = {
        key: value
        for key in ("effort", "velocity")
        if len({getattr(j.limits, key) for j in moving}) == 1
        and (value := getattr(moving[0].limits, key)) is not None
    }
    coupled = {
        name for loop in tree.loops for name in loop.coefficients
    }  # followers have the limits of their leader
    if not alike or all(joint.actuated or joint.name in coupled for joint in moving):
        return tree
    told = " and ".join(f"{key} {value:g}" for key, value in alike.items())
    joints = tuple(
        replace(j, limits=replace(j.limits, **dict.fromkeys(alike))) for j in tree.joints
    )
    return replace(tree, joints=joints).with_notes(
        f"guessed: {told} at every joint, those without a motor too, is no limit; say those of the "
        f"motors with "
        "`velocity` and `effort` before a design"
    )


class _Parts:
    """Bodies, joints and closures of a robot file, from a tree."""

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.notes = tree, list(tree.notes)
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.coordinates: dict[str, tuple[str, ...]] = {}
        self._taken = {"body": {BASE, PAYLOAD}, "joint": {PAYLOAD}, "closure": set[str]()}
        self._renamed: dict[str, str] = {}
        joints, cut = _spanned(tree)
        self.at: dict[str, Place] = {tree.root: (BASE, IDENTITY)}
        self.platform = self._add_platform(joints)
        for joint in joints:
            if joint.child not in self.at:
                self._add(joint)
        self.bodies = [self._with_inertia(body.name) for body in self.bodies]
        self.closures = [
            closure
            for loop in (*tree.loops, *cut)
            for closure in self._flattened(self._closure(loop))
        ]
        self._note_all(cut)

    def _name(self, kind: str, wanted: str) -> str:
        """Return an unused name of a body, joint or closure."""
        word, taken = spelled(wanted) or kind, self._taken[kind]
        name = next(
            n
            for n in (word, f"{word}_", *(f"{word}_{k}" for k in range(2, len(taken) + 4)))
            if n not in taken
        )
        taken.add(name)
        if name != wanted and "." not in wanted:  # dots are ours: they come back as legs
            self._renamed[wanted] = name
        return name

    def _add(self, joint: Connection) -> None:
        body, at = self.at[joint.parent]
        placed, names, single = at @ joint.placement, list[str](), len(joint.motions) == 1
        usual = USUAL if joint.actuated and self.tree.usual_terms else ()
        limits = joint.limits if single else Limits()
        for k, (kind, axis) in enumerate(joint.motions):
            if not np.linalg.norm(axis) > 1e-9:
                raise InvalidMechanism(
                    f"joint '{joint.name}' has an axis of no length", joint=joint.name
                )
            letter, turn = _aligned(axis)
            names.append(
                self._name("joint", joint.name if single else f"{joint.name}_{_ending(joint, k)}")
            )
            child = self._name("body", joint.child if k == len(joint.motions) - 1 else names[-1])
            self.joints.append(
                Joint(
                    name=names[-1],
                    kind=kind,
                    parent=body,
                    child=child,
                    placement=Placement.of(placed @ turn),
                    axis=letter,
                    limits=limits,
                    actuated=joint.actuated,
                    gain=joint.gain,
                    start=clamp_to_limits(_start(joint, k), limits),
                    values=dict(joint.values) if single else {},
                    terms=tuple(t for t in TERMS if t in joint.values or t in usual),
                )
            )
            self.bodies.append(Body(name=child, parameters=()))
            body, placed = (
                child,
                turn.T,
            )  # without translation the inverse of a transform is its transpose
        self.at[joint.child] = (body, placed @ joint.after)
        if names:
            back = any(j.name == joint.name and j.parent != joint.parent for j in self.tree.joints)
            self.coordinates[joint.name] = tuple(names[::-1] if back else names)

    def _add_platform(self, joints: list[Connection]) -> str | None:
        """Add the joints that are task coordinates, if they can be those of a platform; return its
        name.
        """
        free = [
            joint.name
            for joint in joints
            if joint.motions == FREE_MOTIONS and joint.parent == self.tree.root
        ]
        task = self.tree.task or (
            free if len(free) == 1 else ()
        )  # a single free body is the platform
        chain = sorted(
            (joint for joint in joints if joint.name in task),
            key=lambda joint: task.index(joint.name),
        )
        place, links = self.tree.root, {link.name: link for link in self.tree.links}
        for joint in chain:
            same = (
                np.abs(joint.placement - IDENTITY).max() < 1e-12
                and np.abs(joint.after - IDENTITY).max() < 1e-12
            )
            massless = place == self.tree.root or not np.any(links[place].inertia)
            if joint.parent != place or not same or not massless or joint.values or joint.actuated:
                return None
            place = joint.child
        motions = [
            (joint, k, *_aligned(joint.motions[k][1]))
            for joint in chain
            for k in range(len(joint.motions))
        ]
        words = [
            ("" if joint.motions[k][0] == "prismatic" else "r") + letter
            for joint, k, letter, _ in motions
        ]
        straight = all(np.array_equal(turn, IDENTITY) for *_, turn in motions)
        if (
            not chain
            or not straight
            or len(set(words)) < len(words)
            or words != sorted(words, key=len)
        ):
            return None
        name, parent = self._name("body", place), BASE
        for (joint, k, letter, _), word in zip(motions, words):
            child = name if word == words[-1] else f"{name}.{word}"
            self.joints.append(
                Joint(
                    name=f"{name}.{word}",
                    kind=joint.motions[k][0],
                    parent=parent,
                    child=child,
                    axis=letter,
                    virtual=True,
                    start=_start(joint, k),
                    limits=Limits(position=joint.limits.position),
                )
            )
            self.bodies.append(Body(name=child, parameters=()))
            self.coordinates[joint.name] = (*self.coordinates.get(joint.name, ()), f"{name}.{word}")
            self.at[joint.child], parent = (child, IDENTITY), child
        return name

    def _with_inertia(self, name: str) -> Body:
        """Return a body with the parameters of all links that are part of it, about its frame."""
        total, known = np.zeros(10), set[str]()
        for link in self.tree.links:
            body, at = self.at[link.name]
            if body == name:
                total = total + transform_inertia(at, link.inertia)
                own = (
                    link.parameters
                    if link.parameters is not None
                    else INERTIAL
                    if np.any(link.inertia)
                    else ()
                )
                known |= (
                    {*own}
                    if np.array_equal(at, IDENTITY) or link.parameters is None or not own
                    else {*INERTIAL}
                )
        if known and any(value and p not in known for p, value in zip(INERTIAL, total)):
            known = {*INERTIAL}
        names = tuple(p for p in INERTIAL if p in known)
        values = (
            {p: float(v) for p, v in zip(INERTIAL, total) if p in known} if np.any(total) else {}
        )
        return Body(name=name, parameters=names, values=values)

    def _closure(self, loop: Loop) -> Closure:
        ends = [(self.at[link], at) for link, at in loop.frames]
        a, b = [Frame(body=body, placement=Placement.of(own @ at)) for (body, own), at in ends] or (
            None,
            None,
        )
        return Closure(
            name=self._name("closure", loop.name),
            kind=loop.kind,
            a=a,
            b=b,
            values=loop.values,
            coefficients={self.coordinates[joint][0]: c for joint, c in loop.coefficients.items()},
            constant=loop.constant,
        )

    def _flattened(self, closure: Closure) -> list[Closure]:
        """Return a closure; of a loop that is flat but for its digits, one in its plane: two rods
        of length one.

        A pin in space holds a flat loop with more equations than it needs; printed angles let them
        contradict.
        """
        carriers, turns = (
            {joint.child: joint for joint in self.joints},
            dict[str, FloatArray]({BASE: np.eye(3)}),
        )
        for joint in self.joints:
            turns[joint.child] = turns[joint.parent] @ joint.placement.rotation
        way = set[str]()
        for frame in closure.frames:
            body = frame.body
            while body in carriers:
                way ^= {body}  # what carries both ends does not move them against each other
                body = carriers[body].parent
        axes = [
            turns[body] @ carriers[body].direction
            for body in sorted(way)
            if carriers[body].kind == "revolute"
        ]
        flat = len(axes) == len(way) > 0 and closure.kind in PINS
        if closure.kind == "revolute":
            axes += [
                (turns[frame.body] @ frame.placement.rotation)[:, 2] for frame in closure.frames
            ]
        apart = max((float(np.linalg.norm(np.cross(axes[0], axis))) for axis in axes), default=0.0)
        if not flat or not EXACT < apart < FLAT or closure.b is None:
            return [closure]
        self.notes.append(
            f"guessed: the loop '{closure.name}' is flat but for its digits, and closed in its "
            f"plane"
        )
        body, at = closure.b.body, closure.b.placement
        plane = at.rotation.T @ along_z(turns[body].T @ axes[0])
        return [
            replace(
                closure,
                name=self._name("closure", f"{closure.name}_{side}"),
                kind="distance",
                values={"length": 1.0},
                b=Frame(body=body, placement=Placement.of(at.matrix @ transform(plane[:, k]))),
            )
            for k, side in enumerate("xy")
        ]

    def _note_all(self, cut: list[Loop]) -> None:
        """Say what was guessed, lost, renamed."""
        on = {link.name: self.at[link.name][0] for link in self.tree.links}
        heavy = [link for link in self.tree.links if np.any(link.inertia)]
        with_mass, still = (
            {on[link.name] for link in heavy},
            {BASE, *(j.child for j in self.joints if j.virtual)},
        )
        moving = [link for link in self.tree.links if on[link.name] not in still]
        told = {
            "stand still, so that their masses do not count": [
                link.name for link in heavy if on[link.name] == BASE
            ],
            "massless, as the file gives no inertia": [
                link.name
                for link in moving
                if on[link.name] not in with_mass and not link.parameters and "." not in link.name
            ],
            "lost: masses that the file leaves to meshes or symbols": [
                link.name for link in moving if link.parameters and link not in heavy
            ],
            "cut to open the loops, and closed again": [loop.name for loop in cut],
            "renamed": [f"{old} -> {new}" for old, new in self._renamed.items()],
        }
        self.notes += [f"{what}: {join_names(names, 8)}" for what, names in told.items() if names]
        if self.tree.usual_terms and any(
            j.actuated and set(USUAL) - set(j.values) for j in self.joints
        ):
            self.notes.append(
                "guessed: motors have rotor inertia, viscous and Coulomb friction; those without a "
                "value "
                "are unknown"
            )


def _start(joint: Connection, k: int) -> float:
    return joint.start[k] if k < len(joint.start) else 0.0


def _ending(joint: Connection, k: int) -> str:
    """Return what tells the motions of a joint apart: x, rz, or a number."""
    kind, axis = joint.motions[k]
    letter, turn = _aligned(axis)
    straight = np.array_equal(turn, IDENTITY) and joint.motions.count((kind, axis)) == 1
    return (
        ("r" if kind == "revolute" and len(joint.motions) > 3 else "") + letter
        if straight
        else str(k + 1)
    )


def clamp_to_limits(start: float, limits: Limits) -> float:
    """Return a start moved into the position limits."""
    low, high = limits.position or (start, start)
    return min(max(start, low), high)


def _aligned(axis: Iterable[float]) -> tuple[Axis, FloatArray]:
    """Return the letter of an axis and a turn (4, 4) after which the joint's axis is that
    letter's.
    """
    a = np.array(list(axis))
    a = a / max(np.linalg.norm(a), 1e-300)
    k = int(np.argmax(np.abs(a)))
    if np.abs(np.delete(a, k)).max() > 1e-15:
        return "z", transform(rotation=along_z(a))
    half = np.diag([-1.0 if i in (k, (k + 1) % 3) else 1.0 for i in range(3)])
    return cast(Axis, "xyz"[k]), IDENTITY if a[k] > 0 else transform(rotation=half)


def _spanned(tree: RobotTree) -> tuple[list[Connection], list[Loop]]:
    """Return joints that reach every link once, parents first, and loops for the joints beyond."""
    at: dict[str, list[Connection]] = {link.name: [] for link in tree.links}
    for joint in tree.joints:
        for end in {joint.parent: 0, joint.child: 0}:
            if end not in at:
                raise InvalidMechanism(
                    f"joint '{joint.name}' names the link '{end}', which does not exist"
                )
            at[end].append(joint)
    reached, waiting, used = {tree.root}, deque([tree.root]), set[Connection]()
    joints, cut = list[Connection](), list[Loop]()
    while waiting:
        here = waiting.popleft()
        for joint in at.get(here, []):
            if joint in used:
                continue
            used.add(joint)
            onward = joint if joint.parent == here else _reversed(joint)
            if onward.child in reached:
                copy, loop = _cut(joint)
                joints += copy
                cut.append(loop)
            else:
                reached.add(onward.child)
                waiting.append(onward.child)
                joints.append(onward)
    for link in tree.links:
        if link.name not in reached:
            raise InvalidMechanism(
                f"the link '{link.name}' hangs on nothing: no joint leads to it from '{tree.root}'"
            )
    return joints, cut


def _reversed(joint: Connection) -> Connection:
    """Return a joint taken the other way round: T_child_parent = after^-1 M_-a(q) placement^-1."""
    back = tuple((kind, cast(Vector, tuple(-x for x in axis))) for kind, axis in joint.motions)
    return replace(
        joint,
        parent=joint.child,
        child=joint.parent,
        placement=inverse(joint.after),
        after=inverse(joint.placement),
        motions=back[::-1],
        start=joint.start[::-1],
    )


def _cut(joint: Connection) -> tuple[list[Connection], Loop]:
    """Return a closure in the place of a joint; the joint stays, with a massless body, where it has
    more to say.
    """
    kinds = [kind for kind, _ in joint.motions]
    plain = not joint.actuated and not joint.values and joint.limits.position is None
    ghost, turn, end = f"{joint.name}_end", IDENTITY, inverse(joint.after)
    kind = "weld" if not kinds else ""
    if plain and kinds == ["revolute"]:
        kind, turn = "revolute", transform(rotation=along_z(joint.motions[0][1]))
    elif plain and kinds == ["revolute"] * 3:
        kind = "point"
    if kind:
        return [], Loop(
            name=joint.name,
            kind=kind,
            frames=((joint.parent, joint.placement @ turn), (joint.child, end @ turn)),
        )
    return [replace(joint, child=ghost, after=IDENTITY)], Loop(
        name=joint.name, kind="weld", frames=((ghost, IDENTITY), (joint.child, end))
    )
