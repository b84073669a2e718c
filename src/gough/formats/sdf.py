"""SDF, Gazebo's format: loops are native (a link may be the child of two joints), frames are
named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import nearest
from gough.core.names import INERTIAL
from gough.formats.geometry import ENTRIES, quaternion_rotation, solid_body
from gough.formats.tree import (
    BALL_MOTIONS,
    TERM,
    Connection,
    Link,
    Loop,
    Motion,
    RobotTree,
    follower,
    stated_limits,
)
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, Placement, inverse, transform
from gough.mechanism.types import Limits, Vector

WORLD, MODEL = "world", "__model__"
YES = ("1", "true")
LIMITS = {"lower": -1e16, "upper": 1e16, "velocity": -1.0, "effort": -1.0}  # what SDF means without
AXES = {
    "revolute": ("axis",),
    "continuous": ("axis",),
    "prismatic": ("axis",),
    "universal": ("axis", "axis2"),
    "revolute2": ("axis", "axis2"),
    "ball": (),
    "fixed": (),
}


def read_sdf(root: Element, beside: Mapping[str, Any]) -> RobotTree:
    """Read `<sdf>` with one model, in a world or alone."""
    worlds = root.all("world")
    models = [
        model
        for place in (root, *worlds)
        for model in place.all("model")
        if model.word("static", "0") not in YES
    ]
    if len(models) != 1:
        named = ", ".join(model.get("name", "") for model in models[:5])
        raise root.error(
            f"has {len(models)} models that move{f' ({named})' if named else ''}, expected one"
        )
    gravity = next(
        (g.parse(g.text, "gravity", 3) for world in worlds for g in world.all("gravity")),
        (0.0, 0.0, -9.81),
    )
    return _Model(models[0], root.get("version", "1.6")).tree(cast(Vector, gravity))


class _Model:
    """A model being read."""

    def __init__(self, model: Element, version: str) -> None:
        self.model = model
        for child in model.all("include", "model"):
            raise child.error("is not read; save the model as one, without nested or included ones")
        self.old = version in ("1.0", "1.1", "1.2", "1.3", "1.4")  # axes were those of the model
        self.links = {e.get("name"): e for e in model.all("link")}
        self.joints = {e.get("name"): e for e in model.all("joint")}
        self.frames = {e.get("name"): e for e in model.all("frame")}
        if not self.links or len(self.links) + len(self.joints) != len(model.all("link", "joint")):
            raise model.error("has no links, or two links or joints of one name")

    def tree(self, gravity: Vector) -> RobotTree:
        """Return all of it; without a joint to the world the first link stands still."""
        joints = [self._connection(e) for e in self.joints.values() if e.get("type") != "gearbox"]
        notes, loops = (
            [],
            [self._gearbox(e) for e in self.joints.values() if e.get("type") == "gearbox"],
        )
        known = {joint.name: joint for joint in joints}
        loops += [
            follower(joint, mimic, known)
            for joint in joints
            for axis in self.joints[joint.name].all("axis")
            for mimic in axis.all("mimic")
        ]
        if not any(WORLD in (joint.parent, joint.child) for joint in joints):
            first = self._carrier(MODEL)
            joints.insert(
                0,
                Connection(
                    name="world_fixed",
                    parent=WORLD,
                    child=first,
                    placement=inverse(self._at(WORLD)) @ self._at(first),
                ),
            )
            notes.append(
                f"guessed: the link '{first}' stands still; no joint holds it to the world"
            )
        name = self.model.get("name", "robot")
        tree = RobotTree(
            name=name,
            title=f"{name}, from SDF",
            root=WORLD,
            joints=tuple(joints),
            loops=tuple(loops),
            links=(Link(name=WORLD), *map(_link, self.links.values())),
            gravity=gravity,
            notes=tuple(notes),
        )
        driven = [
            e.word("joint_name")
            for e in self.model.all("plugin")
            if e.find("joint_name") is not None
        ]
        return (
            tree.with_motors(
                name for name in dict.fromkeys(driven) if name in tree.one_motion_joints()
            )
            if driven
            else tree
        )

    def _at(self, name: str, seen: tuple[str, ...] = ()) -> FloatArray:
        """Return the pose of a link, joint or frame in the model."""
        if name in (MODEL, WORLD, ""):
            return inverse(_pose(self.model.find("pose"))) if name == WORLD else IDENTITY
        found = self.links.get(name) or self.joints.get(name) or self.frames.get(name)
        if found is None or name in seen:
            names = (*self.links, *self.joints, *self.frames)
            raise self.model.error(
                f"the frame '{name}' "
                + (
                    "is placed relative to itself"
                    if found is not None
                    else f"does not exist{nearest(name, names)}"
                )
            )
        usual = found.word("child") if found.tag == "joint" else found.get("attached_to", MODEL)
        pose = found.find("pose")
        said = {} if pose is None else pose.attributes
        return self._at(
            said.get("relative_to") or said.get("frame") or usual, (*seen, name)
        ) @ _pose(pose)

    def _carrier(self, name: str, seen: tuple[str, ...] = ()) -> str:
        """Return the link that a link, joint or frame moves with."""
        if name in self.joints and name not in self.links:
            return self._carrier(self.joints[name].word("child"), seen)
        if name in self.frames and name not in seen:
            return self._carrier(self.frames[name].get("attached_to", MODEL), (*seen, name))
        return self.model.get("canonical_link", next(iter(self.links))) if name == MODEL else name

    def _connection(self, element: Element) -> Connection:
        name, kind = element.get("name"), element.get("type")
        ends = [element.word(end) for end in ("parent", "child")]
        if kind not in AXES:
            raise element.error(f"joints of type '{kind}' are not read{nearest(kind, AXES)}")
        parent, child = map(self._carrier, ends)
        at, move = self._at(name), "prismatic" if kind == "prismatic" else "revolute"
        motions = (
            BALL_MOTIONS
            if kind == "ball"
            else tuple(
                cast(Motion, (move, self._axis(element.need(tag), name))) for tag in AXES[kind]
            )
        )
        joint = Connection(
            name=name,
            parent=parent,
            child=child,
            motions=motions,
            placement=inverse(self._at(parent)) @ at,
            after=inverse(at) @ self._at(child),
        )
        if len(motions) != 1:
            return joint
        limit, dynamics = element.need("axis").find("limit"), element.need("axis").find("dynamics")
        limits = (
            Limits()
            if limit is None
            else stated_limits(*(limit.amount(*usual) for usual in LIMITS.items()))
        )
        return replace(
            joint,
            limits=limits if kind != "continuous" else replace(limits, position=None),
            values={} if dynamics is None else _values(dynamics),
        )

    def _axis(self, axis: Element, joint: str) -> tuple[float, ...]:
        xyz = axis.need("xyz")
        vector = np.array(xyz.parse(xyz.text, "xyz", 3))
        old = self.old or axis.word("use_parent_model_frame", "0") in YES
        frame = xyz.attributes.get("expressed_in") or (MODEL if old else joint)
        if frame != joint:
            vector = inverse(self._at(joint))[:3, :3] @ self._at(frame)[:3, :3] @ vector
        return tuple(vector.tolist())

    def _gearbox(self, element: Element) -> Loop:
        """theta_child = -ratio * theta_parent, both measured from the reference body."""
        body, weights = element.word("gearbox_reference_body"), dict[str, float]()
        for end, factor in (("child", 1.0), ("parent", element.amount("gearbox_ratio", 1.0))):
            link = element.word(end)
            for name, joint in self.joints.items():
                ends = (joint.word("parent"), joint.word("child"))
                if joint.get("type") in ("revolute", "continuous", "prismatic") and set(ends) == {
                    body,
                    link,
                }:
                    weights[name] = factor if ends[0] == body else -factor
        if len(weights) != 2:
            raise element.error(f"finds no joints between '{body}' and the links it couples")
        return Loop(name=element.get("name"), kind="coupling", coefficients=weights)


def _pose(element: Element | None) -> FloatArray:
    if element is None or not element.text.strip():
        return IDENTITY
    numbers = element.parse(element.text, "pose")
    if (
        element.attributes.get("rotation_format") == "quat_xyzw"
        and len(numbers) == 7
        and any(numbers[3:])
    ):
        return transform(numbers[:3], quaternion_rotation((numbers[6], *numbers[3:6])))
    if len(numbers) != 6:
        raise element.error(f"has {len(numbers)} numbers, expected x y z roll pitch yaw")
    scale = math.radians(1.0) if element.attributes.get("degrees") in YES else 1.0
    return Placement.xyz_rpy(numbers[:3], [scale * angle for angle in numbers[3:]]).matrix


def _link(link: Element) -> Link:
    """Return a link; without `<inertial>` SDF means a kilogram, which Gough does not believe."""
    inertial, name = link.find("inertial"), link.get("name")
    if inertial is None:
        return Link(name=name)
    if inertial.attributes.get("auto") in YES:  # from its shapes, as the simulator sees them
        return Link(name=name, parameters=INERTIAL)
    found = inertial.find("inertia") or inertial
    entries = {key: found.amount(key, float(key[1] == key[2])) for key in ENTRIES}
    return Link(
        name=name,
        inertia=solid_body(
            inertial, inertial.amount("mass", 1.0), _pose(inertial.find("pose")), entries
        ),
    )


def _values(dynamics: Element) -> dict[str, float]:
    stiffness = dynamics.amount("spring_stiffness", 0.0)
    found = {
        TERM["damping"]: dynamics.amount("damping", 0.0),
        TERM["frictionloss"]: dynamics.amount("friction", 0.0),
        TERM["stiffness"]: stiffness,
        TERM["springref"]: -stiffness * dynamics.amount("spring_reference", 0.0),
    }
    return {name: value for name, value in found.items() if value}
