"""The text of a robot file from a mechanism; legs that repeat are written once.

Chains on one body are legs of a kind if their tables agree to `SAME` but for what an instance may
say itself: where it starts, limits, coefficients of joint terms, where it is closed onto others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import toml_value
from gough.core.inertia import about_centre
from gough.core.names import INERTIAL, PAYLOAD, last_word
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY, inverse, roll_pitch_yaw
from gough.mechanism.types import BASE, Body, Closure, Joint, Limits, Mechanism

# relative; CAD programs repeat a part to round-off, and a robot that differs by more is another
# robot
SAME = 1e-10
ZERO = 1e-14  # of the largest: what is left of zeros when frames are turned
OWN = (
    "start",
    "limits",
    "values",
    "gain",
    "constant",
)  # what instances of a leg may have of their own
Table = dict[str, Any]


class _Differ(Exception):
    """Two legs are not equal."""


@dataclass(eq=False)
class _Leg:
    """Chains of joints that may be one leg, the names of the instances, and of bodies and joints
    inside the leg.
    """

    chains: list[list[Joint]]
    instances: list[str] = field(default_factory=list)
    local: dict[str, str] = field(default_factory=dict)


def robot_file(mechanism: Mechanism, notes: Sequence[str]) -> tuple[str, dict[str, str], str]:
    """Return a mechanism as a robot file, and the names that changed because they are in legs, also
    as a note.
    """
    bodies, joints = (
        {body.name: body for body in mechanism.bodies},
        {j.name: j for j in mechanism.joints},
    )
    legs = _find_legs(mechanism, bodies)
    inside = {
        name: (leg, k)
        for leg in legs
        for k, chain in enumerate(leg.chains)
        for joint in chain
        for name in (joint.name, joint.child)
    }
    full = {name: f"{leg.instances[k]}.{leg.local[name]}" for name, (leg, k) in inside.items()}
    left, tables = list(mechanism.closures), []
    for n, leg in enumerate(legs):
        table, own = _leg_table(leg, bodies, mechanism.closures, inside, joints)
        tables.append({"name": f"leg_{chr(97 + n)}" if n else "leg", **table})
        left = [closure for closure in left if closure not in own]
    outside = [
        joint for joint in mechanism.joints if joint.name not in inside and not joint.virtual
    ]
    content: Table = {
        "format": 1,
        "name": mechanism.name,
        "title": mechanism.title,
        "reference": mechanism.reference,
        "gravity": [_number(g) for g in mechanism.gravity],
        "redundant": mechanism.redundant or None,
        "units": {"length": "m", "angle": "deg", "mass": "kg"},
    }
    if mechanism.platform is not None:
        content["platform"] = _platform_table(mechanism, bodies[mechanism.platform])
    content["body"] = [
        {"name": joint.child, **_inertia_table(bodies[joint.child])} for joint in outside
    ]
    content["joint"] = [_joint_table(joint, full, joint.name) for joint in outside]
    content["leg"] = tables
    content["closure"] = [_closure_table(closure, full, closure.name, joints) for closure in left]
    pairs = ", ".join(
        f"{chain[0].name} -> {full[chain[0].name]}" for leg in legs for chain in leg.chains
    )
    note = f"legs that repeat are written once, and their names with a dot: {pairs}" if legs else ""
    head = [
        f"# {line}"
        for each in (mechanism.reference, *notes, note)
        if each
        for line in wrap(
            re.sub(r"[^\x20-\x7e]", "?", each),
            110,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return "\n".join([*head, *_lines(_without_empty(content))]) + "\n", full, note


def _without_empty(value: Any) -> Any:
    """Leave out keys that say nothing, at all depths."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(item) for key, item in value.items()}
    return {
        key: item
        for key, item in inner.items()
        if key == "parameters"
        or (item not in ("", {}, [], None) and not (key in ("xyz", "rpy") and item == [0, 0, 0]))
    }


def _lines(content: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return TOML: plain values, then tables `[x]`, then arrays of tables `[[x]]`, each with its
    own inside.
    """
    lines: list[str] = []
    later: list[str] = []
    for key, value in content.items():
        if key in ("body", "joint", "leg", "closure"):
            for item in value:
                later += ["", f"[[{prefix}{key}]]", *_lines(item, f"{prefix}{key}.")]
        elif key == "instances":
            lines += ["instances = [", *(f"    {toml_value(item)}," for item in value), "]"]
        elif isinstance(value, dict) and not prefix:
            later += ["", f"[{key}]", *_lines(value, f"{key}.")]
        else:
            lines.append(f"{key} = {toml_value(value)}")
    return lines + later


def _number(value: float) -> float | int:
    """Return a number as people write it: fifteen digits, whole ones whole."""
    short = float(f"{value:.15g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def _numbers(values: Iterable[float]) -> list[float | int]:
    return [_number(0.0 if abs(value) < ZERO else float(value)) for value in values]


def _told(value: float, unit: str) -> float | int | str:
    """Return a number; an angle, or its rate, in degrees, or in radians as printed where shorter
    (`1.5708 rad`).
    """
    plain = _number(value)
    number = (
        _number(0.0 if abs(value) < ZERO else math.degrees(value)) if unit[:3] == "rad" else plain
    )
    return f"{plain} {unit}" if len(str(plain)) <= 8 < len(str(number)) else number


def _placement_table(matrix: FloatArray) -> Table:
    return {
        "xyz": _numbers(matrix[:3, 3]),
        "rpy": [_told(v, "rad") for v in roll_pitch_yaw(matrix[:3, :3])],
    }


def _inertia_table(body: Body) -> Table:
    values = np.array([body.values.get(p, 0.0) for p in INERTIAL])
    partial = len(body.parameters) < len(INERTIAL)
    chosen: Table = {"parameters": list(body.parameters)} if partial else {}
    if partial or not values[0] > 0:
        return chosen | {p: _number(float(v)) for p, v in zip(INERTIAL, values) if v}
    mass, centre, inertia = about_centre(values)
    size = np.abs(inertia).max() + ZERO * mass * float(centre @ centre)
    own = {f"I{'xyz'[i]}{'xyz'[j]}": float(inertia[i, j]) for j in range(3) for i in range(j + 1)}
    return {
        "m": _number(mass),
        "com": _numbers(centre),
        "about": "com",
        **{key: _number(own[key]) for key in INERTIAL[4:] if abs(own[key]) > ZERO * size},
    }


def _limits_table(limits: Limits, unit: str) -> Table:
    units = {"velocity": f"{unit}/s", "acceleration": f"{unit}/s2", "effort": "N"}
    found: Table = (
        {"position": [_told(v, unit) for v in limits.position]} if limits.position else {}
    )
    return found | {
        key: _told(value, of)
        for key, of in units.items()
        if (value := getattr(limits, key)) is not None
    }


def _joint_table(joint: Joint, names: Mapping[str, str], name: str, root: bool = False) -> Table:
    """Return `[[joint]]`; the root of a leg sits on the leg's base."""
    table = {
        "name": name,
        "type": joint.kind,
        "parent": BASE if root else names.get(joint.parent, joint.parent),
        "child": names.get(joint.child, joint.child),
        **_placement_table(IDENTITY if root else joint.placement.matrix),
    }
    table |= {"axis": joint.axis} if joint.axis != "z" else {}
    table |= {"actuated": True} if joint.actuated else {}
    table |= {} if joint.gain is None else {"gain": _number(joint.gain)}
    return table | {
        "start": _told(joint.start, joint.unit),
        "limits": _limits_table(joint.limits, joint.unit),
        "terms": list(joint.terms),
        "values": {key: _number(value) for key, value in joint.values.items()},
    }


def _closure_table(
    closure: Closure,
    names: Mapping[str, str],
    name: str,
    joints: Mapping[str, Joint],
    base: FloatArray = IDENTITY,
) -> Table:
    """Return `[[closure]]`; what it says of the base is seen from a leg's."""
    table: Table = {"name": name, "kind": closure.kind}
    for key, frame in zip("ab", closure.frames):
        at = inverse(base) if frame.body == BASE else IDENTITY
        table[key] = {
            "body": names.get(frame.body, frame.body),
            **_placement_table(at @ frame.placement.matrix),
        }
        if set(CLOSURES[closure.kind].units) == {
            "m"
        }:  # holds points: no matter how their frames are turned
            table[key]["rpy"] = [0, 0, 0]
    if CLOSURES[closure.kind].has_coefficients:
        turning = {joints[j].kind for j in closure.coefficients} == {"revolute"}
        table["coefficients"] = {
            names.get(j, j): _number(c) for j, c in closure.coefficients.items()
        }
        table["constant"] = _told(
            closure.constant, "rad" if turning and not closure.frames else "m"
        )
    return table | {key: _number(value) for key, value in closure.values.items()}


def _platform_table(mechanism: Mechanism, body: Body) -> Table:
    """Return `[platform]` with its task coordinates."""
    chain = {last_word(joint.name): joint for joint in mechanism.joints if joint.virtual}
    start = {key: _told(j.start, j.unit) for key, j in chain.items()}
    return {
        "name": body.name,
        "coordinates": list(chain),
        "start": {k: v for k, v in start.items() if v},
        "limits": {key: _limits_table(j.limits, j.unit) for key, j in chain.items()},
        **_inertia_table(body),
    }


def _find_legs(mechanism: Mechanism, bodies: Mapping[str, Body]) -> list[_Leg]:
    """Return groups of equal chains, at least two of a kind, from the base outwards."""
    on: dict[str, list[Joint]] = {}
    for joint in mechanism.joints:
        if not joint.virtual:
            on.setdefault(joint.parent, []).append(joint)
    legs: list[_Leg] = []
    taken: set[str] = set()
    for parent in (BASE, *bodies):
        groups: list[_Leg] = []
        for root in on.get(parent, []) if parent not in taken else []:
            chain = [root]
            for joint in chain:
                chain += on.get(joint.child, [])
            equal = next(
                (group for group in groups if _equal(group.chains[0], chain, bodies)), None
            )
            if equal is None:
                groups.append(_Leg([chain]))
            else:
                equal.chains.append(chain)
        for leg in groups:
            inner = {joint.child for chain in leg.chains for joint in chain}
            used = {name for other in legs for name in other.instances}
            if (
                len(leg.chains) > 1
                and len(leg.chains[0]) > 1
                and _named(leg, set(bodies) - inner, used)
            ):
                legs.append(leg)
                taken |= inner
    return legs


def _chain_tables(
    chain: Sequence[Joint], bodies: Mapping[str, Body], names: Mapping[str, str]
) -> Table:
    """Return bodies and joints of a chain under names inside a leg."""
    return {
        "body": [{"name": names[j.child], **_inertia_table(bodies[j.child])} for j in chain],
        "joint": [_joint_table(j, names, names[j.name], j is chain[0]) for j in chain],
    }


def _equal(first: Sequence[Joint], other: Sequence[Joint], bodies: Mapping[str, Body]) -> bool:
    tables = []
    for chain in (first, other):
        index = {
            name: str(k) for k, joint in enumerate(chain) for name in (joint.name, joint.child)
        }
        tables.append(_chain_tables(chain, bodies, index))
    try:
        return bool(_merged(tables, "", [{}, {}]))
    except _Differ:
        return False


def _merged(values: Sequence[Any], path: str, own: Sequence[Table], free: bool = False) -> Any:
    """Return what several tables have in common; where they may differ, `$key`, and each its own
    value in `own`.
    """
    first = values[0]
    if all(isinstance(v, dict) and v.keys() == first.keys() for v in values):
        return {
            key: _merged(
                [v[key] for v in values], f"{path}_{key}" if path else key, own, free or key in OWN
            )
            for key in first
        }
    if all(isinstance(v, list) for v in values) and any(
        isinstance(item, dict) for v in values for item in v
    ):
        if any(len(v) != len(first) for v in values):
            raise _Differ
        return [_merged(items, str(items[0].get("name", "")), own, free) for items in zip(*values)]
    if all(_close(first, v) for v in values):
        return first
    if not free:
        raise _Differ
    key = re.sub(r"[^A-Za-z0-9_]", "_", path)
    for mine, value in zip(own, values):
        mine[key] = value
    return f"${key}"


def _close(a: Any, b: Any) -> bool:
    """Tell whether two plain values agree to `SAME` of the larger."""
    one, two = (v if isinstance(v, list) else [v] for v in (a, b))
    if len(one) == len(two) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in (*one, *two)
    ):
        return bool(
            np.abs(np.subtract(one, two)).max(initial=0.0)
            <= SAME * np.abs((one, two)).max(initial=0.0)
        )
    return bool(a == b)


def _named(leg: _Leg, outer: set[str], used: set[str]) -> bool:
    """Find names of the instances and inside them: what is common to `leg1_rod` and `leg2_rod`;
    False without.
    """
    groups = [
        [[getattr(joint, what) for joint in same] for same in zip(*leg.chains)]
        for what in ("name", "child")
    ]
    for pattern in (r"[^_.\-/]+", r"[A-Za-z]+|\d+"):
        found = [[_split(names, pattern) for names in group] for group in groups]
        tokens = {tuple(token) for group in found for _, token in group}
        local = [[name for name, _ in group] for group in found]
        if (
            len(tokens) > 1
            or not all(map(all, local))
            or any(len(set(names)) < len(names) for names in local)
        ):
            continue
        instances = [f"leg{token}" if token[0].isdigit() else token for token in tokens.pop()]
        if set(local[1]) & outer or set(instances) & (used | {BASE, PAYLOAD, *local[1]}):
            continue
        leg.instances = instances
        leg.local = {
            full: name
            for group, names in zip(groups, local)
            for fulls, name in zip(group, names)
            for full in fulls
        }
        return True
    return False


def _split(names: Sequence[str], pattern: str) -> tuple[str, list[str]]:
    """Return what names have in common without the one word that tells them apart, and that word of
    each.
    """
    parts = [re.findall(pattern, name) for name in names]
    differ = [k for k, words in enumerate(zip(*parts)) if len(set(words)) > 1]
    if len({len(words) for words in parts}) > 1 or len(differ) != 1:
        return "", []
    told = [words[differ[0]] for words in parts]
    rest = "_".join(word for k, word in enumerate(parts[0]) if k != differ[0])
    return (rest, told) if len(set(told)) == len(names) and not rest[:1].isdigit() else ("", [])


def _leg_table(
    leg: _Leg,
    bodies: Mapping[str, Body],
    closures: Sequence[Closure],
    inside: Mapping[str, tuple[_Leg, int]],
    joints: Mapping[str, Joint],
) -> tuple[Table, list[Closure]]:
    """Return `[[leg]]` and the closures that belong to its instances."""
    own: list[Table] = [{} for _ in leg.chains]
    merged = _merged([_chain_tables(chain, bodies, leg.local) for chain in leg.chains], "", own)
    held: list[list[Closure]] = [[] for _ in leg.chains]
    for closure in closures:
        on = [frame.body for frame in closure.frames]
        mine = {inside[name] for name in (*on, *closure.coefficients) if name in inside}
        onto_base = BASE in on and leg.chains[0][0].parent != BASE
        if (
            len(mine) == 1
            and not onto_base
            and all(name in inside for name in closure.coefficients)
        ):
            owner, k = mine.pop()
            if owner is leg:
                held[k].append(closure)
    places = [chain[0].placement.matrix for chain in leg.chains]
    tables = [
        [
            _closure_table(closure, leg.local, f"loop{n + 1}", joints, base)
            for n, closure in enumerate(mine)
        ]
        for mine, base in zip(held, places)
    ]
    ends: list[Table] = [{} for _ in own]  # where a leg is closed onto others
    try:
        closed = _merged(tables, "", ends, free=True)
        words = [
            word for table in closed for word in (table["kind"], table.get("a"), table.get("b"))
        ]
        if any(str(word["body"] if isinstance(word, dict) else word)[:1] == "$" for word in words):
            raise _Differ
    except _Differ:
        closed, held, ends = [], [], [{} for _ in own]
    instances = []
    for name, chain, at, values, more in zip(leg.instances, leg.chains, places, own, ends):
        base = _placement_table(at) | ({"body": chain[0].parent} if chain[0].parent != BASE else {})
        instances.append({"name": name, "base": base, **values, **more})
    return {"instances": instances, **merged, "closure": closed}, [
        closure for mine in held for closure in mine
    ]
