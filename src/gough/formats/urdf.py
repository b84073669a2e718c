"""URDF; its loops are in it (`urdf_loops`) or in a YAML beside it (`urdf_sidecar`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.errors import nearest
from gough.formats.geometry import (
    INERTIA_NAMES,
    along_z,
    body_parameters,
    free_coordinates,
)
from gough.formats.tree import (
    BALL_MOTIONS,
    FREE_MOTIONS,
    X_AXIS,
    Connection,
    Link,
    Motion,
    RobotTree,
    mimic_coupling,
    read_limits,
)
from gough.formats.urdf_loops import closing_frames, loop_elements, undeclared_loops
from gough.formats.urdf_sidecar import apply_sidecar
from gough.formats.xml import Element
from gough.mechanism.placement import IDENTITY, Placement
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Limits

# Gough writes a range of this width where a joint has no position
# limits. [rad, m]
UNLIMITED_RANGE = {"revolute": 4 * math.pi, "prismatic": 2e3}
URDF_KINDS = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}


def read_urdf(root: Element, sidecar: Mapping[str, Any]) -> RobotTree:
    """Read `<robot>`; the sidecar closes its loops."""
    link_elements = root.by_name("link")
    joint_elements = root.by_name("joint")
    links = []
    for name, element in link_elements.items():
        links.append(Link(name=name, inertia=_inertia(element.find("inertial"))))
    joints = {name: _connection(element) for name, element in joint_elements.items()}
    tree = RobotTree(
        name=root.get("name", "robot"),
        format="URDF",
        root=_root_link(root, links, joints),
        links=tuple(links),
        joints=tuple(joints.values()),
        notes=tuple(_notes(root, sidecar)),
    )
    mimics = []
    for name, element in joint_elements.items():
        if element.get("type") != "fixed":
            mimics += [
                mimic_coupling(joints[name], mimic, joints) for mimic in element.all("mimic")
            ]
    stated = loop_elements(root, links)
    if not sidecar.get("closed_loop"):  # otherwise the YAML has the loops of these frames
        stated = [*stated, *closing_frames(links)]
    tree = replace(tree, loops=(*mimics, *stated))
    followers = {next(iter(loop.coefficients)) for loop in mimics}
    candidates = [name for name in tree.one_motion_joints() if name not in followers]
    motors = [name for name in dict.fromkeys(_motors(root)) if name in candidates]
    if mimics and not stated and not motors and not sidecar:
        motors = candidates
        tree = tree.with_notes(
            "assumed: every joint that follows no other is a motor; the file names none"
        )
    tree = apply_sidecar(tree.with_motors(motors), sidecar)
    return tree if tree.loops else _with_missing_loops(tree)


def _with_missing_loops(tree: RobotTree) -> RobotTree:
    """Note chains that end at one place, where a loop may not have been declared."""
    pairs = undeclared_loops(tree)
    if not pairs:
        return tree
    shown = join_names([f"'{a}' and '{b}'" for a, b in pairs], most=3)
    return tree.with_notes(
        f"assumed: an open tree, but chains end at one place: {shown}; if they are joined, declare "
        "it in a YAML beside the file (closed_loop, name_mot) or by frames closing_<name>_1 and _2"
    )


def _root_link(root: Element, links: list[Link], joints: Mapping[str, Connection]) -> str:
    """Return the only link that no joint carries."""
    if any(child.tag.startswith("xacro:") for child in root.children):
        raise root.error(
            "has macros: run xacro first (xacro x.xacro -o x.urdf), and read what it writes"
        )
    if not links:
        raise root.error("has no links")
    children = {joint.child for joint in joints.values()}
    roots = [link.name for link in links if link.name not in children]
    if len(roots) != 1:
        raise root.error(
            f"has {len(roots)} links that hang on no joint ({', '.join(roots[:5])}), expected one"
        )
    return roots[0]


def _notes(root: Element, sidecar: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is ignored or assumed."""
    for transmission in root.all("transmission"):
        for element in (transmission, *transmission.children):
            if element.child_text("mechanicalReduction", "1") not in (
                "1",
                "1.0",
            ):
                name = transmission.get("name", "")
                yield f"ignored: mechanicalReduction of {name}; efforts are those of the joint"
                break
    if "gravity" not in sidecar:
        yield "assumed: gravity 9.81 m/s2 along -z; the file has none"


def _motors(root: Element) -> Iterator[str]:
    """Yield the joints that `<transmission>` or `<ros2_control>` drives."""
    for element in root.inside("transmission"):
        if element.tag == "joint":
            yield element.get("name")
    for element in root.inside("ros2_control"):
        if element.tag == "joint" and element.find("command_interface") is not None:
            yield element.get("name")


def _origin(element: Element) -> FloatArray:
    """Return the pose that `<origin>` gives, (4, 4)."""
    origin = element.find("origin")
    if origin is None:
        return IDENTITY
    xyz = origin.numbers("xyz", "0 0 0", 3)
    return Placement.xyz_rpy(xyz, origin.numbers("rpy", "0 0 0", 3)).matrix


def _inertia(inertial: Element | None) -> FloatArray:
    """Return the ten inertial parameters of a link, (10,)."""
    if inertial is None:
        return np.zeros(10)
    mass = inertial.require("mass").number("value")
    entries = dict.fromkeys(INERTIA_NAMES, 0.0)
    inertia = inertial.find("inertia")
    if inertia is not None:
        entries = {name: inertia.number(name, 0.0) for name in INERTIA_NAMES}
    return body_parameters(inertial, mass, _origin(inertial), entries)


def _connection(element: Element) -> Connection:
    """Read `<joint>`."""
    kind = element.get("type")
    joint = Connection(
        name=element.get("name"),
        parent=element.require("parent").get("link"),
        child=element.require("child").get("link"),
        placement=_origin(element),
    )
    axis = element.find("axis")
    direction = X_AXIS if axis is None else axis.numbers("xyz", "1 0 0", 3)
    if kind in URDF_KINDS:
        return replace(
            joint,
            motions=(cast(Motion, (URDF_KINDS[kind], direction)),),
            limits=_limits(element, kind),
            values=_friction(element),
        )
    if kind == "floating":
        start = free_coordinates(joint.placement)
        return replace(joint, placement=IDENTITY, motions=FREE_MOTIONS, start=start)
    if kind == "planar":
        x, y, z = map(tuple, along_z(direction).T.tolist())
        motions = (("prismatic", x), ("prismatic", y), ("revolute", z))
        return replace(joint, motions=cast(tuple[Motion, ...], motions))
    if kind == "spherical":
        return replace(joint, motions=BALL_MOTIONS)
    if kind != "fixed":
        valid = (*URDF_KINDS, "fixed", "floating", "planar", "spherical")
        raise element.error(f"unknown type '{kind}'{nearest(kind, valid)}")
    return joint


def _limits(element: Element, kind: str) -> Limits:
    """Read the limits of a joint."""
    limits = read_limits(element.find("limit"), 0.0)
    if kind == "continuous" or limits.position is None:
        return replace(limits, position=None)
    low, high = limits.position
    if abs(high - low - UNLIMITED_RANGE[kind]) < 1e-9:
        return replace(limits, position=None)
    return limits


def _friction(element: Element) -> dict[str, float]:
    """Read `<dynamics>` of a joint: coefficients of joint terms."""
    dynamics = element.find("dynamics")
    values = {}
    for term in TERMS.values():
        if dynamics is not None and term.urdf in dynamics.attributes:
            values[term.name] = max(dynamics.number(term.urdf), 0.0)
    return values
