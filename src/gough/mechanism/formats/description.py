"""From a `RobotTree` to the text of a robot file.

Fixed joints vanish: what they hold becomes part of the body before. A body's frame is that of its joint, turned so that
the axis is x, y or z. Joints that form loops are cut. Names become those of robot files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism
from gough.core.inertia import seen_from
from gough.core.names import INERTIAL, PAYLOAD
from gough.core.showing import listed
from gough.mechanism.formats.geometry import along_z
from gough.mechanism.formats.legs import robot_file
from gough.mechanism.formats.tree import FREE, Connection, Link, Loop, Place, RobotTree, word as spelled
from gough.mechanism.placement import HERE, Placement, inverse, transform
from gough.mechanism.terms import TERMS
from gough.mechanism.types import BASE, Axis, Body, Closure, Frame, Joint, Limits, Mechanism

# Kinds that are pins in a flat loop; axes this parallel are exactly so, or but for three printed digits. [rad]
PINS, EXACT, FLAT = ("point", "revolute"), 1e-9, 2e-3
USUAL = tuple(term.name for term in TERMS.values() if term.mjcf in ("armature", "damping", "frictionloss"))


@dataclass(frozen=True)
class Description:
    """A robot file and where its names come from.

    Args:
        text: TOML.
        coordinates: Names in the robot file of the coordinates of each joint, by the joint's name before.
        bodies: Body in the robot file that a link is part of, and where on it, by the link's name.
        notes: What was lost or guessed.
    """

    text: str
    coordinates: dict[str, tuple[str, ...]]
    bodies: dict[str, Place]
    notes: tuple[str, ...]


def describe(tree: RobotTree, source: str, redundant: bool = True) -> Description:
    """Turn a tree into a robot file; more motors than degrees of freedom may be taken as meant.

    Raises:
        InvalidMechanism: No motors, links that hang on nothing, an axis of no length.
    """
    try:
        parts = _Parts(without_placeholders(_with_motors(tree)))
    except InvalidMechanism as error:
        raise InvalidMechanism(f"{source}: {error}", **{"file": source, **error.numbers}) from None
    notes = (*parts.tree.notes, *parts.notes)
    mechanism = Mechanism(
        name=spelled(tree.name) or "robot", title=" ".join(tree.title.split()), bodies=tuple(parts.bodies),
        joints=tuple(parts.joints), closures=tuple(parts.closures), platform=parts.platform, gravity=tree.gravity,
        redundant=redundant, reference=f"imported from {Path(source).name}")
    text, renamed, legs = robot_file(mechanism, notes)
    return Description(
        text, {old: tuple(renamed.get(name, name) for name in new) for old, new in parts.coordinates.items()},
        {link: (renamed.get(body, body), at) for link, (body, at) in parts.at.items()},
        (*notes, *filter(None, [legs])))


def _with_motors(tree: RobotTree) -> RobotTree:
    """Take all joints of a tree without loops for motors where the file names none."""
    if any(joint.actuated for joint in tree.joints):
        return tree
    if tree.loops or len(tree.joints) != len(tree.links) - 1:
        raise InvalidMechanism("the file names no motors; say which of its joints are `motors`: "
                               + ", ".join(tree.moving()))
    if not tree.single():
        raise InvalidMechanism("the file has no joint that could be a motor")
    return tree.driven_by(tree.single()).noting("guessed: every joint is a motor; the file names none")


def without_placeholders(tree: RobotTree) -> RobotTree:
    """Leave out limits that all joints have alike, those without a motor too: CAD programs write them, not drives."""
    moving = [joint for joint in tree.joints if joint.motions]
    alike = {key: value for key in ("effort", "velocity") if len({getattr(j.limits, key) for j in moving}) == 1
             and (value := getattr(moving[0].limits, key)) is not None}
    coupled = {name for loop in tree.loops for name in loop.coefficients}  # followers have the limits of their leader
    if not alike or all(joint.actuated or joint.name in coupled for joint in moving):
        return tree
    told = " and ".join(f"{key} {value:g}" for key, value in alike.items())
    joints = tuple(replace(j, limits=replace(j.limits, **dict.fromkeys(alike))) for j in tree.joints)
    return replace(tree, joints=joints).noting(
        f"guessed: {told} at every joint, those without a motor too, is no limit; say those of the motors with "
        "`velocity` and `effort` before a design")


class _Parts:
    """Bodies, joints and closures of a robot file, from a tree."""

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.notes = tree, list[str]()
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.coordinates: dict[str, tuple[str, ...]] = {}
        self._taken = {"body": {BASE, PAYLOAD}, "joint": {PAYLOAD}, "closure": set[str]()}
        self._renamed: dict[str, str] = {}
        self._inertia: dict[str, list[tuple[FloatArray, tuple[str, ...]]]] = {}
        joints, cut = _spanned(tree)
        self.at: dict[str, Place] = {tree.root: (BASE, HERE)}
        self.platform = self._add_platform(joints)
        for joint in joints:
            if joint.child not in self.at:
                self._add(joint)
        for link in tree.links:
            self._carry(link)
        self.bodies = [self._with_inertia(body.name) for body in self.bodies]
        self.closures = [closure for loop in (*tree.loops, *cut) for closure in self._flattened(self._closure(loop))]
        self._note_all(cut)

    def _name(self, kind: str, wanted: str) -> str:
        """Return an unused name of a body, joint or closure."""
        word = spelled(wanted) or kind
        taken = self._taken[kind]
        name = next(n for n in (word, f"{word}_", *(f"{word}_{k}" for k in range(2, len(taken) + 4))) if n not in taken)
        taken.add(name)
        if name != wanted and "." not in wanted:  # dots are ours: they come back as legs
            self._renamed[wanted] = name
        return name

    def _add(self, joint: Connection) -> None:
        body, at = self.at[joint.parent]
        placed, names = at @ joint.placement, list[str]()
        for k, (kind, axis) in enumerate(joint.motions):
            if not np.linalg.norm(axis) > 1e-9:
                raise InvalidMechanism(f"joint '{joint.name}' has an axis of no length", joint=joint.name)
            letter, turn = _aligned(axis)
            last, single = k == len(joint.motions) - 1, len(joint.motions) == 1
            name = self._name("joint", joint.name if single else f"{joint.name}_{_ending(joint, k)}")
            child = self._name("body", joint.child if last else name)
            limits = joint.limits if single else Limits()
            terms = (*joint.values, *(t for t in USUAL if t not in joint.values and self.tree.usual_terms)
                     ) if joint.actuated else tuple(joint.values)
            start = joint.start[k] if k < len(joint.start) else 0.0
            self.joints.append(Joint(
                name=name, kind=kind, parent=body, child=child, placement=Placement.of(placed @ turn), axis=letter,
                limits=limits, actuated=joint.actuated, gain=joint.gain, start=inside(start, limits),
                terms=tuple(t for t in TERMS if t in terms), values=dict(joint.values) if single else {}))
            self.bodies.append(Body(name=child, parameters=()))
            body, placed = child, turn.T  # without translation the inverse of a transform is its transpose
            names.append(name)
        self.at[joint.child] = (body, placed @ joint.after)
        if names:
            back = any(j.name == joint.name and j.parent != joint.parent for j in self.tree.joints)
            self.coordinates[joint.name] = tuple(names[::-1] if back else names)

    def _add_platform(self, joints: list[Connection]) -> str | None:
        """Add the joints that are task coordinates, if they can be those of a platform; return its name."""
        free = [joint.name for joint in joints if joint.motions == FREE and joint.parent == self.tree.root]
        task = self.tree.task or (free if len(free) == 1 else ())  # a single free body is the platform
        chain = [joint for joint in joints if joint.name in task]
        chain.sort(key=lambda joint: task.index(joint.name))
        motions = [(joint, k) for joint in chain for k in range(len(joint.motions))]
        letters = [_aligned(joint.motions[k][1]) for joint, k in motions]
        words = [("" if joint.motions[k][0] == "prismatic" else "r") + letter
                 for (joint, k), (letter, _) in zip(motions, letters)]
        place, between = self.tree.root, {link.name: link for link in self.tree.links}
        for joint in chain:
            same = np.abs(joint.placement - HERE).max() < 1e-12 and np.abs(joint.after - HERE).max() < 1e-12
            massless = place == self.tree.root or not np.any(between[place].inertia)
            if joint.parent != place or not same or not massless or joint.values or joint.actuated:
                return None
            place = joint.child
        straight = all(np.array_equal(turn, HERE) for _, turn in letters)
        if not chain or not straight or len(set(words)) < len(words) or words != sorted(words, key=len):
            return None
        name, parent = self._name("body", place), BASE
        for (joint, k), word, (letter, _) in zip(motions, words, letters):
            child = name if (joint, k) == motions[-1] else f"{name}.{word}"
            self.joints.append(Joint(
                name=f"{name}.{word}", kind=joint.motions[k][0], parent=parent, child=child, axis=letter, virtual=True,
                start=joint.start[k] if k < len(joint.start) else 0.0,
                limits=Limits(position=joint.limits.position)))
            self.bodies.append(Body(name=child, parameters=()))
            self.coordinates[joint.name] = (*self.coordinates.get(joint.name, ()), f"{name}.{word}")
            self.at[joint.child], parent = (child, HERE), child
        return name

    def _carry(self, link: Link) -> None:
        body, at = self.at[link.name]
        known: tuple[str, ...] = INERTIAL if np.any(link.inertia) else ()
        if link.parameters is not None:
            known = link.parameters if np.array_equal(at, HERE) or not link.parameters else INERTIAL
        self._inertia.setdefault(body, []).append((seen_from(at, link.inertia), known))

    def _with_inertia(self, name: str) -> Body:
        own = self._inertia.get(name, [])
        total = np.sum([inertia for inertia, _ in own], axis=0) if own else np.zeros(10)
        names = tuple(p for p in INERTIAL if any(p in known for _, known in own))
        if names and any(total[k] and p not in names for k, p in enumerate(INERTIAL)):
            names = INERTIAL
        values = {p: float(v) for p, v in zip(INERTIAL, total) if p in names} if np.any(total) else {}
        return Body(name=name, parameters=names, values=values)

    def _closure(self, loop: Loop) -> Closure:
        frames = []
        for link, at in loop.frames:
            body, own = self.at[link]
            frames.append(Frame(body=body, placement=Placement.of(own @ at)))
        coefficients = {self.coordinates[joint][0]: c for joint, c in loop.coefficients.items()}
        a, b = frames if frames else (None, None)
        return Closure(name=self._name("closure", loop.name), kind=loop.kind, a=a, b=b, values=loop.values,
                       coefficients=coefficients, constant=loop.constant)

    def _flattened(self, closure: Closure) -> list[Closure]:
        """Return a closure; of a loop that is flat but for its digits, one in its plane: two rods of length one.

        A pin in space holds a flat loop with more equations than it needs; printed angles let them contradict.
        """
        carriers, turns = {joint.child: joint for joint in self.joints}, dict[str, FloatArray]({BASE: np.eye(3)})
        for joint in self.joints:
            turns[joint.child] = turns[joint.parent] @ joint.placement.rotation
        way = set[str]()
        for frame in closure.frames:
            body = frame.body
            while body in carriers:
                way ^= {body}  # what carries both ends does not move them against each other
                body = carriers[body].parent
        axes = [np.asarray(turns[body][:, "xyz".index(str(carriers[body].axis))]) for body in sorted(way)
                if carriers[body].kind == "revolute"]
        flat = len(axes) == len(way) > 0 and closure.kind in PINS
        if closure.kind == "revolute":
            axes += [np.asarray((turns[frame.body] @ frame.placement.rotation)[:, 2]) for frame in closure.frames]
        apart = max((float(np.linalg.norm(np.cross(axes[0], axis))) for axis in axes), default=0.0)
        if not flat or not EXACT < apart < FLAT or closure.b is None:
            return [closure]
        self.notes.append(f"guessed: the loop '{closure.name}' is flat but for its digits, and closed in its plane")
        plane = along_z(turns[closure.b.body].T @ axes[0])
        ends = [closure.b.placement.matrix @ transform(closure.b.placement.rotation.T @ plane[:, k]) for k in (0, 1)]
        return [replace(closure, name=self._name("closure", f"{closure.name}_{side}"), kind="distance",
                        values={"length": 1.0}, b=Frame(body=closure.b.body, placement=Placement.of(end)))
                for side, end in zip("xy", ends)]

    def _note_all(self, cut: list[Loop]) -> None:
        """Say what was guessed, lost, renamed."""
        on = {link.name: self.at[link.name][0] for link in self.tree.links}
        with_mass = {body for body, own in self._inertia.items() if any(np.any(inertia) for inertia, _ in own)}
        virtual = {joint.child for joint in self.joints if joint.virtual}
        moving = [link for link in self.tree.links if on[link.name] not in {BASE, *virtual}]
        told = {
            "stand still, so that their masses do not count":
                [link.name for link in self.tree.links if on[link.name] == BASE and np.any(link.inertia)],
            "massless, as the file gives no inertia":
                [link.name for link in moving if on[link.name] not in with_mass and not link.parameters
                 and "." not in link.name],
            "lost: masses that the file leaves to meshes or symbols":
                [link.name for link in moving if link.parameters and not np.any(link.inertia)],
            "cut to open the loops, and closed again": [loop.name for loop in cut],
            "renamed": [f"{old} -> {new}" for old, new in self._renamed.items()]}
        self.notes += [f"{what}: {listed(names, 8)}" for what, names in told.items() if names]
        if self.tree.usual_terms and any(j.actuated and set(USUAL) - set(j.values) for j in self.joints):
            self.notes.append("guessed: motors have rotor inertia, viscous and Coulomb friction; those without a value "
                              "are unknown")


def _ending(joint: Connection, k: int) -> str:
    """Return what tells the motions of a joint apart: x, rz, or a number."""
    kind, axis = joint.motions[k]
    letter, turn = _aligned(axis)
    straight = np.array_equal(turn, HERE) and joint.motions.count((kind, axis)) == 1
    return ("r" if kind == "revolute" and len(joint.motions) > 3 else "") + letter if straight else str(k + 1)


def inside(start: float, limits: Limits) -> float:
    """Return a start moved into the position limits."""
    low, high = limits.position or (start, start)
    return min(max(start, low), high)


def _aligned(axis: Iterable[float]) -> tuple[Axis, FloatArray]:
    """Return the letter of an axis and a turn (4, 4) after which the joint's axis is that letter's."""
    a = np.array(list(axis))
    a = a / max(np.linalg.norm(a), 1e-300)
    k = int(np.argmax(np.abs(a)))
    letter = cast(Axis, "xyz"[k])
    if np.abs(np.delete(a, k)).max() > 1e-15:
        return "z", transform(rotation=along_z(a))
    half = np.diag([-1.0 if i in (k, (k + 1) % 3) else 1.0 for i in range(3)])
    return letter, HERE if a[k] > 0 else transform(rotation=half)


def _spanned(tree: RobotTree) -> tuple[list[Connection], list[Loop]]:
    """Return joints that reach every link once, parents first, and loops for the joints beyond.

    A joint reached from its child is taken the other way round: T_child_parent = after^-1 M_-a(q) placement^-1.
    """
    known = {link.name for link in tree.links}
    for joint in tree.joints:
        for end in (joint.parent, joint.child):
            if end not in known:
                raise InvalidMechanism(f"joint '{joint.name}' names the link '{end}', which does not exist")
    reached, waiting, used = {tree.root}, deque([tree.root]), set[int]()
    joints, cut = list[Connection](), list[Loop]()
    at = dict[str, list[int]]()
    for k, joint in enumerate(tree.joints):
        for end in {joint.parent, joint.child}:
            at.setdefault(end, []).append(k)
    while waiting:
        here = waiting.popleft()
        for k in at.get(here, []):
            if k in used:
                continue
            used.add(k)
            joint = tree.joints[k] if tree.joints[k].parent == here else _reversed(tree.joints[k])
            if joint.child in reached:
                copy, loop = _cut(tree.joints[k])
                joints += copy
                cut.append(loop)
            else:
                reached.add(joint.child)
                waiting.append(joint.child)
                joints.append(joint)
    for link in tree.links:
        if link.name not in reached:
            raise InvalidMechanism(f"the link '{link.name}' hangs on nothing: no joint leads to it from '{tree.root}'")
    return joints, cut


def _reversed(joint: Connection) -> Connection:
    back = tuple((kind, cast(tuple[float, float, float], tuple(-x for x in axis))) for kind, axis in joint.motions)
    return replace(joint, parent=joint.child, child=joint.parent, placement=inverse(joint.after),
                   after=inverse(joint.placement), motions=back[::-1], start=joint.start[::-1])


def _cut(joint: Connection) -> tuple[list[Connection], Loop]:
    """Return a closure in the place of a joint; the joint stays, with a massless body, where it has more to say."""
    kinds = [kind for kind, _ in joint.motions]
    plain = not joint.actuated and not joint.values and joint.limits.position is None
    name, before, behind = joint.name, joint.placement, inverse(joint.after)
    if plain and kinds == ["revolute"]:
        turn = transform(rotation=along_z(joint.motions[0][1]))
        return [], Loop(name=name, kind="revolute",
                        frames=((joint.parent, before @ turn), (joint.child, behind @ turn)))
    if plain and len(kinds) == 3 and set(kinds) == {"revolute"}:
        return [], Loop(name=name, kind="point", frames=((joint.parent, before), (joint.child, behind)))
    if not kinds:
        return [], Loop(name=name, kind="weld", frames=((joint.parent, before), (joint.child, behind)))
    ghost = f"{name}_end"
    return [replace(joint, child=ghost, after=HERE)], Loop(name=name, kind="weld",
                                                           frames=((ghost, HERE), (joint.child, behind)))
