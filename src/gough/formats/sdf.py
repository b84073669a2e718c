"""SDF, Gazebo's format: a link may be the child of two joints, which closes a loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import nearest
from gough.core.names import INERTIAL
from gough.formats.geometry import (
    INERTIA_NAMES,
    body_parameters,
    quaternion_rotation,
)
from gough.formats.tree import (
    BALL_MOTIONS,
    MJCF_TERMS,
    Connection,
    Link,
    Loop,
    Motion,
    RobotTree,
    mimic_coupling,
    read_limits,
)
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, Placement, inverse, transform
from gough.mechanism.types import Vector

SDF_WORLD = "world"
SDF_MODEL = "__model__"
SDF_TRUE = ("1", "true")
SDF_UNLIMITED = 1e16  # position limit of joints without one [m or rad]
# Axes of a joint are those of the model up to here, later those of the
# joint.
MODEL_AXES_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
# Elements with the axes of each type of joint.
SDF_AXES = {
    "revolute": ("axis",),
    "continuous": ("axis",),
    "prismatic": ("axis",),
    "universal": ("axis", "axis2"),
    "revolute2": ("axis", "axis2"),
    "ball": (),
    "fixed": (),
}


def read_sdf(root: Element, sidecar: Mapping[str, Any]) -> RobotTree:
    """Read `<sdf>` with one model, in a world or alone."""
    models = []
    for element in [*root.children, *root.inside("world")]:
        if element.tag == "model" and element.child_text("static", "0") not in SDF_TRUE:
            models.append(element)
    if len(models) != 1:
        names = ", ".join(model.get("name", "") for model in models[:5])
        shown = f" ({names})" if names else ""
        raise root.error(f"has {len(models)} models that move{shown}, expected one")
    gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
    elements = [element for element in root.inside("world") if element.tag == "gravity"]
    if elements:
        gravity = elements[0].text_numbers(3)
    return _Model(models[0], root.get("version", "1.6")).tree(cast(Vector, gravity))


class _Model:
    """A model being read."""

    def __init__(self, model: Element, version: str) -> None:
        self.model = model
        for child in model.all("include", "model"):
            raise child.error("is not read; save the model as one, without nested or included ones")
        self.model_axes = version in MODEL_AXES_VERSIONS
        self.links = model.by_name("link")
        self.joints = model.by_name("joint")
        self.frames = {element.get("name"): element for element in model.all("frame")}
        if not self.links:
            raise model.error("has no links")

    def tree(self, gravity: Vector) -> RobotTree:
        """Return the robot; without a joint to the world the first link is fixed."""
        joints: dict[str, Connection] = {}
        loops: list[Loop] = []
        for name, element in self.joints.items():
            if element.get("type") == "gearbox":
                loops.append(self._gearbox(element))
            else:
                joints[name] = self._connection(element)
        for name, joint in joints.items():
            for child in self.joints[name].inside("axis"):
                if child.tag == "mimic":
                    loops.append(mimic_coupling(joint, child, joints))
        notes = []
        grounded = any(SDF_WORLD in (joint.parent, joint.child) for joint in joints.values())
        if not grounded:
            ground = self._ground()
            joints = {ground.name: ground, **joints}
            notes.append(
                f"assumed: the link '{ground.child}' is fixed; no joint connects it to the world"
            )
        name = self.model.get("name", "robot")
        tree = RobotTree(
            name=name,
            format="SDF",
            root=SDF_WORLD,
            joints=tuple(joints.values()),
            loops=tuple(loops),
            links=(Link(name=SDF_WORLD), *map(_link, self.links.values())),
            gravity=gravity,
            notes=tuple(notes),
        )
        plugins = self.model.all("plugin")
        named = [e.child_text("joint_name") for e in plugins if e.find("joint_name") is not None]
        single = tree.one_motion_joints()
        return tree.with_motors(name for name in dict.fromkeys(named) if name in single)

    def _ground(self) -> Connection:
        """Return a fixed joint between the world and the first link."""
        link = self._carrier(SDF_MODEL)
        placement = inverse(self._pose_of(SDF_WORLD)) @ self._pose_of(link)
        return Connection(
            name="world_fixed",
            parent=SDF_WORLD,
            child=link,
            placement=placement,
        )

    def _pose_of(self, name: str, passed: tuple[str, ...] = ()) -> FloatArray:
        """Return the pose of a link, joint or frame in the model, (4, 4).

        Args:
            name: Name of the link, joint or frame.
            passed: Names that are placed relative to it, to detect
                rings.
        """
        if name == SDF_WORLD:
            return inverse(_pose(self.model.find("pose")))
        if name in (SDF_MODEL, ""):
            return IDENTITY
        element = self.links.get(name) or self.joints.get(name) or self.frames.get(name)
        if element is None:
            hint = nearest(name, (*self.links, *self.joints, *self.frames))
            raise self.model.error(f"the frame '{name}' does not exist{hint}")
        if name in passed:
            raise self.model.error(f"the frame '{name}' is placed relative to itself")
        if element.tag == "joint":
            default = element.child_text("child")
        else:
            default = element.get("attached_to", SDF_MODEL)
        pose = element.find("pose")
        given = {} if pose is None else pose.attributes
        reference = given.get("relative_to") or given.get("frame") or default
        return self._pose_of(reference, (*passed, name)) @ _pose(pose)

    def _carrier(self, name: str, passed: tuple[str, ...] = ()) -> str:
        """Return the link that a link, joint or frame moves with."""
        if name in self.joints and name not in self.links:
            return self._carrier(self.joints[name].child_text("child"), passed)
        if name in self.frames and name not in passed:
            parent = self.frames[name].get("attached_to", SDF_MODEL)
            return self._carrier(parent, (*passed, name))
        if name == SDF_MODEL:
            return self.model.get("canonical_link", next(iter(self.links)))
        return name

    def _connection(self, element: Element) -> Connection:
        """Read `<joint>`."""
        name = element.get("name")
        kind = element.get("type")
        parent = element.child_text("parent")
        child = element.child_text("child")
        if kind not in SDF_AXES:
            raise element.error(f"joints of type '{kind}' are not read{nearest(kind, SDF_AXES)}")
        parent = self._carrier(parent)
        child = self._carrier(child)
        pose = self._pose_of(name)
        motion = "prismatic" if kind == "prismatic" else "revolute"
        motions = BALL_MOTIONS if kind == "ball" else ()
        for tag in SDF_AXES[kind]:
            axis = self._axis(element.require(tag), name)
            motions = (*motions, cast(Motion, (motion, axis)))
        joint = Connection(
            name=name,
            parent=parent,
            child=child,
            motions=motions,
            placement=inverse(self._pose_of(parent)) @ pose,
            after=inverse(pose) @ self._pose_of(child),
        )
        if len(motions) != 1:
            return joint
        axis_element = element.require("axis")
        limits = read_limits(axis_element.find("limit"), SDF_UNLIMITED)
        if kind == "continuous":
            limits = replace(limits, position=None)
        return replace(joint, limits=limits, values=_values(axis_element.find("dynamics")))

    def _axis(self, axis: Element, joint: str) -> tuple[float, ...]:
        """Return the direction of an axis in the frame of its joint, (3,)."""
        xyz = axis.require("xyz")
        vector = np.array(xyz.text_numbers(3))
        in_model = self.model_axes or axis.child_text("use_parent_model_frame", "0") in SDF_TRUE
        frame = xyz.attributes.get("expressed_in") or (SDF_MODEL if in_model else joint)
        if frame != joint:
            to_joint = inverse(self._pose_of(joint))[:3, :3] @ self._pose_of(frame)[:3, :3]
            vector = to_joint @ vector
        return tuple(vector.tolist())

    def _gearbox(self, element: Element) -> Loop:
        """Read a gearbox: q_child = -ratio * q_parent, both measured from the reference body."""
        body = element.child_text("gearbox_reference_body")
        coefficients: dict[str, float] = {}
        ratio = element.quantity("gearbox_ratio", 1.0)
        for end, factor in (("child", 1.0), ("parent", ratio)):
            link = element.child_text(end)
            for name, joint in self.joints.items():
                ends = (joint.child_text("parent"), joint.child_text("child"))
                single = joint.get("type") in (
                    "revolute",
                    "continuous",
                    "prismatic",
                )
                if single and set(ends) == {body, link}:
                    coefficients[name] = factor if ends[0] == body else -factor
        if len(coefficients) != 2:
            raise element.error(f"finds no joints between '{body}' and the links it couples")
        return Loop(name=element.get("name"), kind="coupling", coefficients=coefficients)


def _pose(element: Element | None) -> FloatArray:
    """Return the pose of a `<pose>`, (4, 4)."""
    if element is None or not element.text.strip():
        return IDENTITY
    numbers = element.text_numbers()
    is_quaternion = element.attributes.get("rotation_format") == "quat_xyzw"
    if is_quaternion and len(numbers) == 7 and any(numbers[3:]):
        x, y, z, w = numbers[3:]
        return transform(numbers[:3], quaternion_rotation((w, x, y, z)))
    if len(numbers) != 6:
        raise element.error(f"has {len(numbers)} numbers, expected x y z roll pitch yaw")
    scale = math.radians(1.0) if element.attributes.get("degrees") in SDF_TRUE else 1.0
    return Placement.xyz_rpy(numbers[:3], [scale * angle for angle in numbers[3:]]).matrix


def _link(link: Element) -> Link:
    """Read `<link>`; without `<inertial>` it is massless, not of one kilogram as in SDF."""
    name = link.get("name")
    inertial = link.find("inertial")
    if inertial is None:
        return Link(name=name)
    if inertial.attributes.get("auto") in SDF_TRUE:  # computed from its shapes by the simulator
        return Link(name=name, parameters=INERTIAL)
    inertia = inertial.find("inertia") or inertial
    entries = {}
    for key in INERTIA_NAMES:
        entries[key] = inertia.quantity(key, float(key in ("ixx", "iyy", "izz")))
    mass = inertial.quantity("mass", 1.0)
    pose = _pose(inertial.find("pose"))
    return Link(name=name, inertia=body_parameters(inertial, mass, pose, entries))


def _values(dynamics: Element | None) -> dict[str, float]:
    """Read `<dynamics>`: coefficients of joint terms; a spring has a constant effort, too."""
    if dynamics is None:
        return {}
    stiffness = dynamics.quantity("spring_stiffness", 0.0)
    values = {
        MJCF_TERMS["damping"]: dynamics.quantity("damping", 0.0),
        MJCF_TERMS["frictionloss"]: dynamics.quantity("friction", 0.0),
        MJCF_TERMS["stiffness"]: stiffness,
        MJCF_TERMS["springref"]: -stiffness * dynamics.quantity("spring_reference", 0.0),
    }
    return {name: coefficient for name, coefficient in values.items() if coefficient}
