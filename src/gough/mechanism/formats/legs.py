"""The text of a robot file from a mechanism; legs that repeat are written once.

Chains on one body are legs of a kind if their tables agree to `SAME` but for what an instance may say itself: where it
starts, limits, coefficients of joint terms, where it is closed onto others.
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
from gough.mechanism.placement import Placement, roll_pitch_yaw
from gough.mechanism.types import BASE, Body, Closure, Frame, Joint, Limits, Mechanism

SAME = 1e-10  # relative; CAD programs repeat a part to round-off, and a robot that differs by more is another robot
ZERO = 1e-14  # of the largest: what is left of zeros when frames are turned
OWN = ("start", "limits", "values", "gain", "constant")  # what instances of a leg may have of their own
Table = dict[str, Any]


class _Differ(Exception):
    """Two legs are not equal."""


@dataclass(eq=False)
class _Leg:
    """Chains that may be one leg: for each instance its root joint, bodies, joints; names inside the leg."""

    roots: list[Joint]
    joints: list[list[Joint]]
    instances: list[str] = field(default_factory=list)
    local: dict[str, str] = field(default_factory=dict)  # of bodies and joints, by full name


def robot_file(mechanism: Mechanism, notes: Sequence[str]) -> tuple[str, dict[str, str], str]:
    """Return a mechanism as a robot file, and the names that changed because they are in legs, also as a note."""
    bodies = {body.name: body for body in mechanism.bodies}
    legs = _find_legs(mechanism, bodies)
    inside = {joint.name: (leg, k) for leg in legs for k, chain in enumerate(leg.joints) for joint in chain}
    inside |= {joint.child: inside[joint.name] for joint in mechanism.joints if joint.name in inside}
    full = {name: f"{leg.instances[k]}.{leg.local[name]}" for name, (leg, k) in inside.items()}
    left, tables = list(mechanism.closures), []
    for n, leg in enumerate(legs):
        table, own = _leg_table(leg, bodies, mechanism.closures, inside, "leg" if n == 0 else f"leg_{chr(97 + n)}")
        left = [closure for closure in left if closure not in own]
        tables.append(table)
    outside = [joint for joint in mechanism.joints if joint.name not in inside and not joint.virtual]
    content: Table = {
        "format": 1, "name": mechanism.name, "title": mechanism.title, "reference": mechanism.reference,
        "gravity": [_number(g) for g in mechanism.gravity], "redundant": mechanism.redundant or None,
        "units": {"length": "m", "angle": "deg", "mass": "kg"}}
    if mechanism.platform is not None:
        content["platform"] = _platform_table(mechanism, bodies[mechanism.platform])
    content["body"] = [_body_table(bodies[joint.child], joint.child) for joint in outside]
    content["joint"] = [_joint_table(joint, full, joint.name) for joint in outside]
    content["leg"] = tables
    content["closure"] = [_closure_table(closure, full, closure.name, mechanism.joints) for closure in left]
    pairs = ", ".join(f"{chain[0].name} -> {full[chain[0].name]}" for leg in legs for chain in leg.joints)
    note = f"legs that repeat are written once, and their names with a dot: {pairs}" if legs else ""
    head = [f"# {line}" for each in (mechanism.reference, *notes, note) if each
            for line in wrap(re.sub(r"[^\x20-\x7e]", "?", each), 110, subsequent_indent="    ", break_long_words=False,
                             break_on_hyphens=False)]
    return "\n".join([*head, *_lines(content)]) + "\n", full, note


def _lines(content: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return TOML: plain values, then tables `[x]`, then arrays of tables `[[x]]`, each with its own inside."""
    nested = {key: value for key, value in content.items() if key in ("body", "joint", "leg", "closure")}
    tables = {} if prefix else {k: v for k, v in content.items() if isinstance(v, dict)}
    plain = {k: v for k, v in content.items() if k not in nested and k not in tables
             and (v not in ("", {}, [], None) or k == "parameters")}
    lines = [f"{key} = {toml_value(value)}" for key, value in plain.items() if key != "instances"]
    if "instances" in plain:
        lines += ["instances = [", *(f"    {toml_value(item)}," for item in plain["instances"]), "]"]
    for key, table in tables.items():
        lines += ["", f"[{key}]", *_lines(table, f"{key}.")]
    for key, items in nested.items():
        for item in items:
            lines += ["", f"[[{prefix}{key}]]", *_lines(item, f"{prefix}{key}.")]
    return lines


def _number(value: float) -> float | int:
    """Return a number as people write it: fifteen digits, whole ones whole."""
    short = float(f"{value:.15g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def _told(value: float, unit: str) -> float | int | str:
    """Return a number; an angle, or its rate, in degrees, or in radians as printed where shorter (`1.5708 rad`)."""
    plain = _number(value)
    number = _number(0.0 if abs(value) < ZERO else math.degrees(value)) if unit[:3] == "rad" else plain
    return f"{plain} {unit}" if len(str(plain)) <= 8 < len(str(number)) else number


def _placement_table(matrix: FloatArray) -> Table:
    """Return a placement with both keys."""
    return {"xyz": [_number(0.0 if abs(v) < ZERO else float(v)) for v in matrix[:3, 3]],
            "rpy": [_told(v, "rad") for v in roll_pitch_yaw(matrix[:3, :3])]}


def _without_zeros(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in ("xyz", "rpy") or value != [0, 0, 0]}


def _inertia_table(body: Body) -> Table:
    values = np.array([body.values.get(p, 0.0) for p in INERTIAL])
    partial = len(body.parameters) < len(INERTIAL)
    chosen: Table = {"parameters": list(body.parameters)} if partial else {}
    if not values.any():
        return chosen
    if partial or not values[0] > 0:
        return chosen | {p: _number(float(v)) for p, v in zip(INERTIAL, values) if v}
    mass, centre, inertia = about_centre(values)
    size = np.abs(inertia).max() + ZERO * mass * float(centre @ centre)
    own = {f"I{'xyz'[i]}{'xyz'[j]}": float(inertia[i, j]) for j in range(3) for i in range(j + 1)}
    kept = {key: _number(value) for key, value in own.items() if abs(value) > ZERO * size}
    com = [_number(0.0 if abs(c) < ZERO else float(c)) for c in centre]
    return {"m": _number(mass), "com": com, "about": "com", **{k: kept[k] for k in INERTIAL if k in kept}}


def _body_table(body: Body, name: str) -> Table:
    return {"name": name, **_inertia_table(body)}


def _limits_table(limits: Limits, unit: str) -> Table:
    units = {"velocity": f"{unit}/s", "acceleration": f"{unit}/s2", "effort": "N"}
    found: Table = {"position": [_told(v, unit) for v in limits.position]} if limits.position else {}
    return found | {key: _told(value, of) for key, of in units.items() if (value := getattr(limits, key)) is not None}


def _joint_table(joint: Joint, names: Mapping[str, str], name: str, placed: FloatArray | None = None) -> Table:
    table = {"name": name, "type": joint.kind, "parent": names.get(joint.parent, joint.parent),
             "child": names.get(joint.child, joint.child),
             **_placement_table(joint.placement.matrix if placed is None else placed)}
    table |= {"axis": joint.axis} if joint.axis != "z" else {}
    table |= {"actuated": True} if joint.actuated else {}
    table |= {} if joint.gain is None else {"gain": _number(joint.gain)}
    table |= {"start": _told(joint.start, joint.unit), "limits": _limits_table(joint.limits, joint.unit),
              "terms": list(joint.terms), "values": {key: _number(value) for key, value in joint.values.items()}}
    return table if placed is not None else _without_zeros(table)


def _closure_table(closure: Closure, names: Mapping[str, str], name: str, joints: Iterable[Joint],
                   frames: Sequence[Frame] | None = None) -> Table:
    table: Table = {"name": name, "kind": closure.kind}
    for key, frame in zip("ab", closure.frames if frames is None else frames):
        end = {"body": names.get(frame.body, frame.body), **_placement_table(frame.placement.matrix)}
        if set(CLOSURES[closure.kind].units) == {"m"}:  # holds points: no matter how their frames are turned
            end["rpy"] = [0, 0, 0]
        table[key] = end if frames is not None else _without_zeros(end)
    if CLOSURES[closure.kind].weighs:
        kinds = {joint.name: joint.kind for joint in joints}
        turning = {kinds[j] for j in closure.coefficients} == {"revolute"}
        table["coefficients"] = {names.get(j, j): _number(c) for j, c in closure.coefficients.items()}
        table["constant"] = _told(closure.constant, "rad" if turning and not closure.frames else "m")
    return table | {key: _number(value) for key, value in closure.values.items()}


def _platform_table(mechanism: Mechanism, body: Body) -> Table:
    """Return `[platform]` with its task coordinates."""
    chain = {last_word(joint.name): joint for joint in mechanism.joints if joint.virtual}
    start = {key: _told(j.start, j.unit) for key, j in chain.items()}
    limits = {key: _limits_table(j.limits, j.unit) for key, j in chain.items()}
    return {"name": body.name, "coordinates": list(chain), "start": {k: v for k, v in start.items() if v},
            "limits": {k: v for k, v in limits.items() if v}, **_inertia_table(body)}


def _find_legs(mechanism: Mechanism, bodies: Mapping[str, Body]) -> list[_Leg]:
    """Return groups of equal chains, at least two of a kind, from the base outwards."""
    real = [joint for joint in mechanism.joints if not joint.virtual]
    on: dict[str, list[Joint]] = {}
    for joint in real:
        on.setdefault(joint.parent, []).append(joint)
    legs: list[_Leg] = []
    taken: set[str] = set()
    for parent in (BASE, *(body.name for body in mechanism.bodies)):
        if parent in taken:
            continue
        groups: list[_Leg] = []
        for root in on.get(parent, []):
            chain = [root]
            for joint in chain:
                chain += on.get(joint.child, [])
            for group in groups:
                if _equal(group.joints[0], chain, bodies):
                    group.roots.append(root)
                    group.joints.append(chain)
                    break
            else:
                groups.append(_Leg([root], [chain]))
        for leg in groups:
            outer = set(bodies) - {joint.child for chain in leg.joints for joint in chain}
            if len(leg.roots) > 1 and len(leg.joints[0]) > 1 and _named(leg, outer, legs):
                legs.append(leg)
                taken |= {joint.child for chain in leg.joints for joint in chain}
    return legs


def _chain_tables(chain: Sequence[Joint], bodies: Mapping[str, Body], names: Mapping[str, str]) -> Table:
    """Return bodies and joints of a chain under names inside a leg; its root sits on the leg's base."""
    known = {**names, chain[0].parent: BASE}
    return {"body": [_body_table(bodies[joint.child], known[joint.child]) for joint in chain],
            "joint": [_joint_table(joint, known, names[joint.name],
                                   joint.placement.matrix if k else np.eye(4)) for k, joint in enumerate(chain)]}


def _equal(first: Sequence[Joint], other: Sequence[Joint], bodies: Mapping[str, Body]) -> bool:
    if len(first) != len(other):
        return False
    tables = []
    for chain in (first, other):
        index = {name: str(k) for k, joint in enumerate(chain) for name in (joint.name, joint.child)}
        tables.append(_chain_tables(chain, bodies, index))
    try:
        _merged(tables, "", [{}, {}])
    except _Differ:
        return False
    return True


def _merged(values: Sequence[Any], path: str, own: Sequence[Table], free: bool = False) -> Any:
    """Return what several tables have in common; where they may differ, `$key`, and each its own value in `own`."""
    first = values[0]
    if all(isinstance(v, dict) for v in values) and all(v.keys() == first.keys() for v in values):
        return {key: _merged([v[key] for v in values], f"{path}_{key}" if path else key, own,
                             free or key in OWN) for key in first}
    if all(isinstance(v, list) for v in values) and first and isinstance(first[0], dict):
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
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(
            isinstance(v, int | float) for v in (*a, *b)):
        return bool(np.abs(np.subtract(a, b)).max(initial=0.0) <= SAME * np.abs((a, b)).max(initial=0.0))
    if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool):
        return abs(a - b) <= SAME * max(abs(a), abs(b))
    return bool(a == b)


def _named(leg: _Leg, outer: set[str], legs: Sequence[_Leg]) -> bool:
    """Find names of the instances and inside them: what is common to `leg1_rod` and `leg2_rod`; False without."""
    count = len(leg.joints[0])
    groups = [[[getattr(chain[k], what) for chain in leg.joints] for k in range(count)] for what in ("name", "child")]
    used = {name for other in legs for name in other.instances}
    for pattern in (r"[^_.\-/]+", r"[A-Za-z]+|\d+"):
        found = [[_split(names, pattern) for names in group] for group in groups]
        flat = [entry for group in found for entry in group]
        if any(entry is None for entry in flat):
            continue
        tokens = {tuple(entry[1]) for entry in flat if entry is not None}
        local = [[entry[0] for entry in group if entry is not None] for group in found]
        if len(tokens) > 1 or any(len(set(names)) < count for names in local) or set(local[1]) & outer:
            continue
        instances = [f"leg{token}" if token[0].isdigit() else token for token in tokens.pop()]
        if set(instances) & (used | {BASE, PAYLOAD, *local[1]}):
            continue
        leg.instances = instances
        leg.local = {full: name for group, names in zip(groups, local) for fulls, name in zip(group, names)
                     for full in fulls}
        return True
    return False


def _split(names: Sequence[str], pattern: str) -> tuple[str, list[str]] | None:
    """Return what names have in common without the one word that tells them apart, and that word of each."""
    parts = [re.findall(pattern, name) for name in names]
    if len({len(words) for words in parts}) > 1:
        return None
    differ = [k for k, words in enumerate(zip(*parts)) if len(set(words)) > 1]
    if len(differ) != 1 or len({words[differ[0]] for words in parts}) < len(names):
        return None
    rest = "_".join(word for k, word in enumerate(parts[0]) if k != differ[0])
    return (rest, [words[differ[0]] for words in parts]) if rest and not rest[0].isdigit() else None


def _leg_table(leg: _Leg, bodies: Mapping[str, Body], closures: Sequence[Closure],
               inside: Mapping[str, tuple[_Leg, int]], kind: str) -> tuple[Table, list[Closure]]:
    """Return `[[leg]]` and the closures that belong to its instances."""
    own: list[Table] = [{} for _ in leg.roots]
    merged = _merged([_chain_tables(chain, bodies, leg.local) for chain in leg.joints], "", own)
    held: list[list[Closure]] = [[] for _ in leg.roots]
    for closure in closures:
        ends = [inside.get(name) for name in (*(f.body for f in closure.frames), *closure.coefficients)]
        mine = {end for end in ends if end is not None}
        onto_base = any(frame.body == BASE for frame in closure.frames) and leg.roots[0].parent != BASE
        if len(mine) == 1 and next(iter(mine))[0] is leg and not onto_base and all(
                name in inside for name in closure.coefficients):
            held[next(iter(mine))[1]].append(closure)
    taken: list[Closure] = []
    try:
        tables = [[_held_table(closure, leg, k, n) for n, closure in enumerate(held[k])] for k in range(len(held))]
        trial: list[Table] = [{} for _ in own]
        merged["closure"] = _merged_closures(tables, trial)
        for mine_, more in zip(own, trial):
            mine_ |= more
        taken = [closure for chain in held for closure in chain]
    except _Differ:
        merged["closure"] = []
    merged["joint"] = [_without_zeros(table) for table in merged["joint"]]
    instances = []
    for name, root, more in zip(leg.instances, leg.roots, own):
        base = _without_zeros(_placement_table(root.placement.matrix))
        base |= {"body": root.parent} if root.parent != BASE else {}
        instances.append({"name": name, "base": base, **more})
    return {"name": kind, "instances": instances, **merged}, taken


def _held_table(closure: Closure, leg: _Leg, instance: int, number: int) -> Table:
    """Return a closure under names inside its leg; what it says of the base is about the leg's base."""
    frames = []
    for frame in closure.frames:
        moved = frame
        if frame.body == BASE:
            back = np.linalg.inv(leg.roots[instance].placement.matrix)
            moved = Frame(body=BASE, placement=Placement.of(back @ frame.placement.matrix))
        frames.append(moved)
    return _closure_table(closure, leg.local, f"loop{number + 1}", leg.joints[instance], frames)


def _merged_closures(tables: Sequence[Sequence[Table]], own: Sequence[Table]) -> list[Table]:
    """Return the closures of a leg; where they are held by a body outside, each instance has its own place."""
    if any(len(each) != len(tables[0]) for each in tables):
        raise _Differ
    merged = []
    for group in zip(*tables):
        table = _merged(group, group[0]["name"], own, free=True)
        if any(isinstance(table[key], str) or str(table[key].get("body", "")).startswith("$")
               for key in "ab" if key in table) or str(table["kind"]).startswith("$"):
            raise _Differ
        merged.append(table | {key: _without_zeros(table[key]) for key in "ab" if key in table})
    return merged
