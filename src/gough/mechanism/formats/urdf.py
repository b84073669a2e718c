"""URDF, with the YAML beside it that closes its loops (Gepetto's `closed_loop`, and the keys Gough adds)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import permutations
from typing import Any

import numpy as np
import yaml

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidMechanism, nearest
from gough.core.showing import listed
from gough.mechanism.closures import CLOSURES
from gough.mechanism.formats.geometry import ENTRIES, along_z, free_coordinates, solid_body
from gough.mechanism.formats.tree import (
    BALL,
    FREE,
    Connection,
    Link,
    Loop,
    Motion,
    Place,
    RobotTree,
    X,
    Y,
    Z,
    stated_limits,
)
from gough.mechanism.formats.xml import Element
from gough.mechanism.placement import HERE, Placement
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Limits

WINDING = {"revolute": 4 * math.pi, "prismatic": 2e3}  # Gough writes this range about home for none [rad, m]
KINDS = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}
ABOUT: dict[str, Motion] = {"X": ("revolute", X), "Y": ("revolute", Y), "Z": ("revolute", Z)}
TURNS: dict[str, tuple[Motion, ...]] = {  # what `joint_type` beside a URDF makes of a joint
    "SPHERICAL": BALL, "FIXED": (), **{f"UJOINT_{a}{b}": (ABOUT[a], ABOUT[b]) for a, b in permutations("XYZ", 2)}}
KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type", "home", "task", "gravity", "drive_gain",
        *(term.sidecar for term in TERMS.values() if term.sidecar),
        *(kind.urdf for kind in CLOSURES.values() if kind.urdf not in (None, "3d", "6d")))


def read_urdf(root: Element, beside: Mapping[str, Any]) -> RobotTree:
    """Read `<robot>`; what closes its loops is `beside` it."""
    for tag in ("link", "joint"):
        known = set[str]()
        for element in root.all(tag):
            if element.get("name") in known:
                raise element.error("is defined twice; rename one of them, and what refers to it")
            known.add(element.get("name"))
    links = [Link(name=link.get("name"), inertia=_inertia(link.find("inertial"))) for link in root.all("link")]
    joints = [_connection(joint) for joint in root.all("joint")]
    children = {joint.child for joint in joints}
    roots = [link.name for link in links if link.name not in children]
    if any(child.tag[:6] == "xacro:" for child in root.children):
        raise root.error("has macros: run xacro first (xacro x.xacro -o x.urdf), and read what it writes")
    if not links:
        raise root.error("has no links")
    if len(roots) != 1:
        raise root.error(f"has {len(roots)} links that hang on no joint ({', '.join(roots[:5])}), expected one")
    motors = [name for tag in ("transmission", "ros2_control") for part in root.all(tag) for name in _driven(part)]
    named = {joint.name: joint for joint in joints}
    mimics = [_mimic(joint, named) for joint in root.all("joint") if joint.find("mimic") is not None
              and joint.get("type") != "fixed"]
    notes = [f"lost: mechanicalReduction of {part.get('name', '')}; efforts are those of the joint"
             for part in root.all("transmission")
             if any(e.word("mechanicalReduction", "1") not in ("1", "1.0") for e in (part, *part.children))]
    if "gravity" not in beside:
        notes.append("guessed: gravity 9.81 m/s2 along -z; the file does not say")
    tree = RobotTree(name=root.get("name", "robot"), title=f"{root.get('name', 'robot')}, from URDF", root=roots[0],
                     links=tuple(links), joints=tuple(joints), loops=tuple(mimics), notes=tuple(notes))
    coupled = {next(iter(loop.coefficients)) for loop in mimics}
    driven = [name for name in dict.fromkeys(motors) if name in tree.single() and name not in coupled]
    if mimics and not driven and not beside:
        driven = [name for name in tree.single() if name not in coupled]
        tree = tree.noting("guessed: every joint that follows no other is a motor; the file names none")
    return _with_loops(tree.driven_by(driven), beside)


def read_yaml(text: str, source: str) -> dict[str, Any]:
    """Return the content of the YAML beside a URDF."""
    if len(text) > 1_000_000 or re.search(r"(?m)^[^#\n]*(?:^|[\s\[,:-])[&*]\w", text):
        raise InvalidMechanism(f"{source}: too large, or with anchors, which loops do not need", file=source)
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidMechanism(f"{source}: not valid YAML: {' '.join(str(error).split())[:200]}", file=source) from None
    if not isinstance(content, dict):
        raise InvalidMechanism(f"{source}: expected keys such as closed_loop and name_mot", file=source)
    for key in set(map(str, content)) - set(KEYS):
        if get_close_matches(key, KEYS, cutoff=0.75):
            raise InvalidMechanism(f"{source}: unknown key '{key}'{nearest(key, KEYS)}", file=source)
    return content


def origin_of(element: Element) -> FloatArray:
    """Return the `<origin>` of an element as a transform."""
    origin = element.find("origin")
    if origin is None:
        return HERE
    return Placement.xyz_rpy(origin.numbers("xyz", "0 0 0", 3), origin.numbers("rpy", "0 0 0", 3)).matrix


def _inertia(element: Element | None) -> FloatArray:
    if element is None:
        return np.zeros(10)
    found = element.find("inertia")
    return solid_body(element, element.need("mass").number("value"), origin_of(element),
                      {key: 0.0 if found is None else found.number(key, 0.0) for key in ENTRIES})


def _connection(joint: Element) -> Connection:
    name, kind = joint.get("name"), joint.get("type")
    parent, child = (joint.need(end).get("link") for end in ("parent", "child"))
    plain = Connection(name=name, parent=parent, child=child, placement=origin_of(joint))
    axis = joint.find("axis")
    direction = (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz", "1 0 0", 3)
    if kind == "fixed":
        return plain
    if kind in KINDS:
        found = KINDS[kind]
        friction = joint.find("dynamics")
        values = {} if friction is None else {
            term.name: max(friction.number(term.urdf), 0.0) for term in TERMS.values()
            if term.urdf is not None and term.urdf in friction.attributes}
        limits = _limits(joint.find("limit"), found, kind == "continuous")
        return replace(plain, motions=((found, direction),), limits=limits, values=values)  # type: ignore[arg-type]
    if kind == "floating":
        return replace(plain, placement=HERE, motions=FREE, start=free_coordinates(plain.placement))
    if kind == "spherical":
        return replace(plain, motions=BALL)
    if kind == "planar":
        side = along_z(direction)
        x, y, z = (tuple(map(float, column)) for column in side.T)
        return replace(plain, motions=(("prismatic", x), ("prismatic", y), ("revolute", z)))  # type: ignore[arg-type]
    raise joint.error(f"unknown type '{kind}'{nearest(kind, (*KINDS, 'fixed', 'floating', 'planar', 'spherical'))}")


def _limits(limit: Element | None, kind: str, endless: bool) -> Limits:
    if limit is None:
        return Limits()
    found = stated_limits(*(limit.number(key, 0.0) for key in ("lower", "upper", "velocity", "effort")))
    width = limit.number("upper", 0.0) - limit.number("lower", 0.0)
    return replace(found, position=None) if endless or abs(width - WINDING[kind]) < 1e-9 else found


def _driven(part: Element) -> list[str]:
    """Return the joints of a `<transmission>`, or of `<ros2_control>` that take commands."""
    taken = [j for j in part.all("joint") if part.tag == "transmission" or j.find("command_interface") is not None]
    return [joint.get("name") for joint in taken]


def _mimic(joint: Element, known: Mapping[str, Connection]) -> Loop:
    """q = multiplier * q_other + offset."""
    mimic, name = joint.need("mimic"), joint.get("name")
    other = mimic.get("joint")
    for each in (name, other):
        if each not in known or len(known[each].motions) > 1:
            raise mimic.error(f"'{each}' is no joint with one motion{nearest(each, known)}")
    if name == other:
        raise mimic.error("a joint cannot follow itself")
    return Loop(name=f"{name}_mimic", kind="coupling", constant=-mimic.number("offset", 0.0),
                coefficients={name: 1.0} | (
                    {other: -mimic.number("multiplier", 1.0)} if known[other].motions else {}))


def _with_loops(tree: RobotTree, beside: Mapping[str, Any]) -> RobotTree:
    """Add what the YAML says."""
    joints = {joint.name: joint for joint in tree.joints}
    for name, kind in zip(_list(beside, "joint_name"), _list(beside, "joint_type")):
        if str(kind).upper() not in TURNS:
            raise InvalidMechanism(f"joint_type '{kind}' of '{name}' is unknown{nearest(str(kind), TURNS)}")
        joint = joints[_one_of(name, joints, "joint")]
        joints[joint.name] = replace(joint, motions=TURNS[str(kind).upper()], values={})
    ours = {term.sidecar: term.name for term in TERMS.values() if term.sidecar is not None}
    for key, term in ours.items():
        for name, value in _table(beside, key).items():
            joint = joints[_one_of(name, joints, "joint")]
            joints[name] = replace(joint, values={**joint.values, term: _float(value, key)})
    for name, value in _table(beside, "home").items():
        joints[_one_of(name, joints, "joint")] = replace(joints[name], start=(_float(value, "home"),))
    for name, value in _table(beside, "drive_gain").items():
        joints[_one_of(name, joints, "joint")] = replace(joints[name], gain=_float(value, "drive_gain"))
    frames = {joint.name: (joint.child, HERE) for joint in tree.joints}
    frames |= {link.name: (link.name, HERE) for link in tree.links}
    loops = list(tree.loops)
    types = _list(beside, "type") or ["6d"] * len(_list(beside, "closed_loop"))
    if len(types) != len(_list(beside, "closed_loop")):
        raise InvalidMechanism(f"closed_loop lists {len(_list(beside, 'closed_loop'))} pairs and type {len(types)}")
    known = {kind.urdf: kind for kind in CLOSURES.values() if kind.urdf is not None}
    for pair, kind in zip(_list(beside, "closed_loop"), types):
        if str(kind).lower() not in known:
            raise InvalidMechanism(f"type '{kind}' of a loop is unknown{nearest(str(kind), ('3d', '6d'))}")
        loops.append(_loop(pair, known[str(kind).lower()].name, frames, {}))
    for key, closure in known.items():
        for entry in [] if key in ("3d", "6d") else _list(beside, str(key)):
            loop = Loop(name=f"loop{len(loops) + 1}", kind=closure.name)
            if closure.frames:
                pair = entry["frames"] if isinstance(entry, dict) and "frames" in entry else entry
                values = {v: _float(entry[v], v) for v in closure.values if isinstance(entry, dict) and v in entry}
                loop = _loop(pair, closure.name, frames, values)
            if closure.weighs:
                weights = {_one_of(name, joints, "joint"): _float(c, str(key))
                           for name, c in _table(entry, "coefficients").items()}
                loop = replace(loop, coefficients=weights, constant=_float(entry.get("constant", 0.0), str(key)))
            loops.append(loop)
    gravity = beside.get("gravity", tree.gravity)
    if not isinstance(gravity, list | tuple) or len(gravity) != 3:
        raise InvalidMechanism(f"gravity is {gravity!r}, expected three numbers")
    x, y, z = (_float(g, "gravity") for g in gravity)
    task = tuple(_one_of(name, joints, "joint") for name in _list(beside, "task"))
    found = replace(tree, joints=tuple(joints.values()), loops=tuple(loops), gravity=(x, y, z), task=task,
                    usual_terms="home" not in beside)
    if unread := [str(key) for key in beside if key not in KEYS]:
        found = found.noting(f"lost: keys of the YAML that are not read: {listed(unread)}")
    motors = _list(beside, "name_mot")
    return found.driven_by([_one_of(name, joints, "joint") for name in motors]) if motors else found


def _loop(pair: Any, kind: str, frames: Mapping[str, Place], values: Mapping[str, float]) -> Loop:
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidMechanism(f"a loop is {str(pair)[:60]}, expected a pair of frames")
    a, b = (_one_of(name, frames, "link or joint") for name in pair)
    return Loop(name=f"{a}_{b}", kind=kind, frames=(frames[a], frames[b]), values=values)


def _one_of(name: Any, known: Mapping[str, Any], what: str) -> str:
    if name not in known:
        raise InvalidMechanism(f"the YAML names '{name}', which is no {what} of the URDF{nearest(str(name), known)}")
    return str(name)


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key) or []
    if not isinstance(value, list):
        raise InvalidMechanism(f"{key} is {str(value)[:60]}, expected a list")
    return value


def _table(content: Any, key: str) -> dict[str, Any]:
    value = (content.get(key) if isinstance(content, dict) else None) or {}
    if not isinstance(value, dict):
        raise InvalidMechanism(f"{key} is {str(value)[:60]}, expected names and numbers")
    return value


def _float(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidMechanism(f"{key} holds {str(value)[:60]}, expected a number")
    return float(value)
