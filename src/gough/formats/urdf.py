"""URDF, with the YAML beside it that closes its loops (Gepetto's `closed_loop`, and the keys Gough
adds).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import permutations
from typing import Any, cast

import numpy as np
import yaml

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.errors import InvalidMechanism, nearest
from gough.formats.geometry import ENTRIES, along_z, free_coordinates, solid_body
from gough.formats.tree import (
    BALL_MOTIONS,
    FREE_MOTIONS,
    Connection,
    Link,
    Loop,
    Motion,
    RobotTree,
    follower,
    stated_limits,
)
from gough.formats.xml import Element
from gough.mechanism.closures import CLOSURES, ClosureKind
from gough.mechanism.placement import IDENTITY, Placement
from gough.mechanism.terms import TERMS
from gough.mechanism.types import Limits

WINDING = {
    "revolute": 4 * math.pi,
    "prismatic": 2e3,
}  # Gough writes this range about home for none [rad, m]
KINDS = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}
ABOUT = dict(zip("XYZ", BALL_MOTIONS))
TURNS: dict[str, tuple[Motion, ...]] = {  # what `joint_type` beside a URDF makes of a joint
    "SPHERICAL": BALL_MOTIONS,
    "FIXED": (),
    **{f"UJOINT_{a}{b}": (ABOUT[a], ABOUT[b]) for a, b in permutations("XYZ", 2)},
}
TYPES = ("3d", "6d")  # of `closed_loop`; other kinds of closures have a key of their own
KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type", "task", "gravity")


def _closing() -> dict[str, ClosureKind]:
    """Return the kinds of closures by their word beside a URDF."""
    return {kind.urdf: kind for kind in CLOSURES.values() if kind.urdf is not None}


def _numbers() -> dict[str, str]:
    """Return the keys beside a URDF that give numbers to joints, with the joint term that these
    belong to.
    """
    return {
        "home": "",
        "drive_gain": "",
        **{term.sidecar: term.name for term in TERMS.values() if term.sidecar},
    }


def read_urdf(root: Element, beside: Mapping[str, Any]) -> RobotTree:
    """Read `<robot>`; what closes its loops is `beside` it."""
    for tag in ("link", "joint"):
        known = set[str]()
        for element in root.all(tag):
            if element.get("name") in known:
                raise element.error("is defined twice; rename one of them, and what refers to it")
            known.add(element.get("name"))
    links = [
        Link(name=link.get("name"), inertia=_inertia(link.find("inertial")))
        for link in root.all("link")
    ]
    joints = [_connection(joint) for joint in root.all("joint")]
    children = {joint.child for joint in joints}
    roots = [link.name for link in links if link.name not in children]
    if any(child.tag[:6] == "xacro:" for child in root.children):
        raise root.error(
            "has macros: run xacro first (xacro x.xacro -o x.urdf), and read what it writes"
        )
    if not links:
        raise root.error("has no links")
    if len(roots) != 1:
        raise root.error(
            f"has {len(roots)} links that hang on no joint ({', '.join(roots[:5])}), expected one"
        )
    named = {joint.name: joint for joint in joints}
    mimics = [
        follower(named[joint.get("name")], mimic, named)
        for joint in root.all("joint")
        for mimic in joint.all("mimic")
        if joint.get("type") != "fixed"
    ]
    notes = [
        f"lost: mechanicalReduction of {part.get('name', '')}; efforts are those of the joint"
        for part in root.all("transmission")
        if any(
            e.word("mechanicalReduction", "1") not in ("1", "1.0") for e in (part, *part.children)
        )
    ]
    if "gravity" not in beside:
        notes.append("guessed: gravity 9.81 m/s2 along -z; the file does not say")
    tree = RobotTree(
        name=root.get("name", "robot"),
        title=f"{root.get('name', 'robot')}, from URDF",
        root=roots[0],
        links=tuple(links),
        joints=tuple(joints),
        loops=tuple(mimics),
        notes=tuple(notes),
    )
    motors = [
        joint.get("name")
        for tag in ("transmission", "ros2_control")
        for part in root.all(tag)
        for joint in part.all("joint")
        if tag == "transmission" or joint.find("command_interface") is not None
    ]
    coupled = {next(iter(loop.coefficients)) for loop in mimics}
    driven = [
        name
        for name in dict.fromkeys(motors)
        if name in tree.one_motion_joints() and name not in coupled
    ]
    if mimics and not driven and not beside:
        driven = [name for name in tree.one_motion_joints() if name not in coupled]
        tree = tree.with_notes(
            "guessed: every joint that follows no other is a motor; the file names none"
        )
    return _with_loops(tree.with_motors(driven), beside)


def read_yaml(text: str, source: str) -> dict[str, Any]:
    """Return the content of the YAML beside a URDF."""
    if len(text) > 1_000_000 or re.search(r"(?m)^[^#\n]*(?:^|[\s\[,:-])[&*]\w", text):
        raise InvalidMechanism(
            f"{source}: too large, or with anchors, which loops do not need", file=source
        )
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidMechanism(
            f"{source}: not valid YAML: {' '.join(str(error).split())[:200]}", file=source
        ) from None
    if not isinstance(content, dict):
        raise InvalidMechanism(
            f"{source}: expected keys such as closed_loop and name_mot", file=source
        )
    known = (*KEYS, *_numbers(), *_closing())
    for key in set(map(str, content)) - set(known):
        if get_close_matches(key, known, cutoff=0.75):
            raise InvalidMechanism(
                f"{source}: unknown key '{key}'{nearest(key, known)}", file=source
            )
    return content


def _origin(element: Element) -> FloatArray:
    origin = element.find("origin")
    if origin is None:
        return IDENTITY
    return Placement.xyz_rpy(
        origin.numbers("xyz", "0 0 0", 3), origin.numbers("rpy", "0 0 0", 3)
    ).matrix


def _inertia(element: Element | None) -> FloatArray:
    if element is None:
        return np.zeros(10)
    found = element.find("inertia")
    return solid_body(
        element,
        element.need("mass").number("value"),
        _origin(element),
        {key: 0.0 if found is None else found.number(key, 0.0) for key in ENTRIES},
    )


def _connection(joint: Element) -> Connection:
    kind, axis = joint.get("type"), joint.find("axis")
    parent, child = (joint.need(end).get("link") for end in ("parent", "child"))
    plain = Connection(name=joint.get("name"), parent=parent, child=child, placement=_origin(joint))
    direction = (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz", "1 0 0", 3)
    if kind in KINDS:
        friction, limit = joint.find("dynamics"), joint.find("limit")
        values = (
            {}
            if friction is None
            else {
                term.name: max(friction.number(term.urdf), 0.0)
                for term in TERMS.values()
                if term.urdf is not None and term.urdf in friction.attributes
            }
        )
        limits = Limits()
        if limit is not None:
            low, high = limit.number("lower", 0.0), limit.number("upper", 0.0)
            limits = stated_limits(
                low, high, limit.number("velocity", 0.0), limit.number("effort", 0.0)
            )
            if kind == "continuous" or abs(high - low - WINDING[KINDS[kind]]) < 1e-9:
                limits = replace(limits, position=None)
        return replace(
            plain, motions=(cast(Motion, (KINDS[kind], direction)),), limits=limits, values=values
        )
    if kind == "floating":
        return replace(
            plain, placement=IDENTITY, motions=FREE_MOTIONS, start=free_coordinates(plain.placement)
        )
    if kind == "planar":
        moves = zip(("prismatic", "prismatic", "revolute"), along_z(direction).T.tolist())
        return replace(
            plain, motions=tuple(cast(Motion, (move, tuple(along))) for move, along in moves)
        )
    if kind not in ("fixed", "spherical"):
        raise joint.error(
            f"unknown type "
            f"'{kind}'{nearest(kind, (*KINDS, 'fixed', 'floating', 'planar', 'spherical'))}"
        )
    return replace(plain, motions=BALL_MOTIONS if kind == "spherical" else ())


def _with_loops(tree: RobotTree, beside: Mapping[str, Any]) -> RobotTree:
    """Add what the YAML says."""
    joints = {joint.name: joint for joint in tree.joints}
    for name, turn in zip(_get(beside, "joint_name", list), _get(beside, "joint_type", list)):
        if str(turn).upper() not in TURNS:
            raise InvalidMechanism(
                f"joint_type '{turn}' of '{name}' is unknown{nearest(str(turn), TURNS)}"
            )
        joint = joints[_one_of(name, joints, "joint")]
        joints[joint.name] = replace(joint, motions=TURNS[str(turn).upper()], values={})
    closing, numbers = _closing(), _numbers()
    for key, term in numbers.items():
        for name, given in _get(beside, key, dict).items():
            joint, value = joints[_one_of(name, joints, "joint")], _float(given, key)
            joints[name] = (
                replace(joint, values={**joint.values, term: value})
                if term
                else replace(joint, start=(value,))
                if key == "home"
                else replace(joint, gain=value)
            )
    pairs = _get(beside, "closed_loop", list)
    types = [str(kind).lower() for kind in _get(beside, "type", list) or ["6d"] * len(pairs)]
    if len(types) != len(pairs):
        raise InvalidMechanism(f"closed_loop lists {len(pairs)} pairs and type {len(types)}")
    for kind in types:
        if kind not in closing:
            raise InvalidMechanism(f"type '{kind}' of a loop is unknown{nearest(kind, TYPES)}")
    entries = [
        *zip(types, pairs),
        *((key, entry) for key in closing if key not in TYPES for entry in _get(beside, key, list)),
    ]
    frames = {joint.name: joint.child for joint in tree.joints} | {
        link.name: link.name for link in tree.links
    }
    loops = list(tree.loops)
    for key, entry in entries:
        loops.append(_loop(closing[key], entry, frames, joints, f"loop{len(loops) + 1}"))
    gravity = beside.get("gravity", tree.gravity)
    if not isinstance(gravity, list | tuple) or len(gravity) != 3:
        raise InvalidMechanism(f"gravity is {gravity!r}, expected three numbers")
    x, y, z = (_float(g, "gravity") for g in gravity)
    task = tuple(_one_of(name, joints, "joint") for name in _get(beside, "task", list))
    found = replace(
        tree,
        joints=tuple(joints.values()),
        loops=tuple(loops),
        gravity=(x, y, z),
        task=task,
        usual_terms="home" not in beside,
    )
    if unread := [str(key) for key in beside if key not in {*KEYS, *numbers, *closing}]:
        found = found.with_notes(f"lost: keys of the YAML that are not read: {join_names(unread)}")
    motors = [_one_of(name, joints, "joint") for name in _get(beside, "name_mot", list)]
    return found.with_motors(motors) if motors else found


def _loop(
    kind: ClosureKind,
    entry: Any,
    frames: Mapping[str, str],
    joints: Mapping[str, Connection],
    name: str,
) -> Loop:
    """Read a loop: a pair of frames, or a table of `frames`, `coefficients` and what else the kind
    needs.
    """
    table = entry if isinstance(entry, dict) else {"frames": entry}
    loop = Loop(name=name, kind=kind.name)
    if kind.frames:
        pair = table.get("frames", entry)
        if not isinstance(pair, list) or len(pair) != 2:
            raise InvalidMechanism(f"a loop is {str(pair)[:60]}, expected a pair of frames")
        a, b = (_one_of(end, frames, "link or joint") for end in pair)
        loop = replace(
            loop,
            name=f"{a}_{b}",
            frames=((frames[a], IDENTITY), (frames[b], IDENTITY)),
            values={key: _float(table[key], key) for key in kind.values if key in table},
        )
    if kind.has_coefficients:
        weights = {
            _one_of(joint, joints, "joint"): _float(c, kind.name)
            for joint, c in _get(table, "coefficients", dict).items()
        }
        if still := [joint for joint in weights if not joints[joint].motions]:
            raise InvalidMechanism(
                f"a {kind.name} weighs '{still[0]}', which is a fixed joint", joint=still[0]
            )
        loop = replace(
            loop, coefficients=weights, constant=_float(table.get("constant", 0.0), kind.name)
        )
    return loop


def _one_of(name: Any, known: Mapping[str, Any], what: str) -> str:
    if name not in known:
        raise InvalidMechanism(
            f"the YAML names '{name}', which is no {what} of the URDF{nearest(str(name), known)}"
        )
    return str(name)


def _get(content: Mapping[str, Any], key: str, kind: type) -> Any:
    """Return a list or a table of the YAML; empty if absent."""
    value = content.get(key) or kind()
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "names and numbers"
        raise InvalidMechanism(f"{key} is {str(value)[:60]}, expected {wanted}")
    return value


def _float(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidMechanism(f"{key} holds {str(value)[:60]}, expected a number")
    return float(value)
