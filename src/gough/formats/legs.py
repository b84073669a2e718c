"""Find equal legs of a mechanism, which a robot file describes once.

Chains on one body are legs of a kind if their tables agree to
`LEG_TOLERANCE`, except for what an instance may have of its own: start,
limits, coefficients of joint terms, and where it is closed onto other
bodies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as concatenate
from typing import Any

import numpy as np

from gough.core.names import PAYLOAD
from gough.formats.robot_tables import (
    Names,
    Table,
    closure_table,
    inertia_table,
    joint_table,
    placement_table,
)
from gough.mechanism.types import BASE, Body, Closure, Joint, Mechanism

# Relative; CAD programs repeat a part to round-off.
LEG_TOLERANCE = 1e-10
# Keys whose values instances of a leg may have of their own.
INSTANCE_KEYS = ("start", "limits", "values", "gain", "friction_width", "constant")
# a joint on the body that carries the leg, and all that follow
Chain = list[Joint]


class _LegsDiffer(Exception):
    """Two legs are not equal."""


@dataclass(frozen=True, eq=False)
class Leg:
    """Equal chains of joints."""

    chains: list[Chain]
    instances: list[str]  # names of the legs
    # of bodies and joints inside a leg, by their names in the mechanism
    local_names: Names


def find_legs(mechanism: Mechanism) -> list[Leg]:
    """Return groups of equal chains, at least two of a kind, from the base outwards."""
    bodies = {body.name: body for body in mechanism.bodies}
    followers: dict[str, list[Joint]] = {}  # joints on each body
    for joint in mechanism.joints:
        if not joint.virtual:
            followers.setdefault(joint.parent, []).append(joint)
    legs: list[Leg] = []
    inside: set[str] = set()  # bodies of legs
    for parent in (BASE, *bodies):
        if parent in inside:
            continue
        chains = [_chain(root, followers) for root in followers.get(parent, [])]
        for group in _equal_chains(chains, bodies):
            children = {joint.child for joint in concatenate(*group)}
            taken = set[str]().union(*(leg.instances for leg in legs))
            leg = _name_leg(group, set(bodies) - children, taken)
            if leg is not None:
                legs.append(leg)
                inside |= children
    return legs


def _chain(root: Joint, followers: Mapping[str, list[Joint]]) -> Chain:
    """Return a joint and all that follow it, breadth first."""
    chain = [root]
    for joint in chain:
        chain += followers.get(joint.child, [])
    return chain


def _equal_chains(chains: list[Chain], bodies: Mapping[str, Body]) -> list[list[Chain]]:
    """Return groups of at least two equal chains of at least two joints."""
    groups: list[list[Chain]] = []
    for chain in chains:
        for group in groups:
            if _are_equal(group[0], chain, bodies):
                group.append(chain)
                break
        else:
            groups.append([chain])
    return [group for group in groups if len(group) > 1 and len(group[0]) > 1]


def _chain_tables(chain: Chain, bodies: Mapping[str, Body], names: Names) -> Table:
    """Return bodies and joints of a chain under names inside a leg."""
    tables: Table = {"body": [], "joint": []}
    for joint in chain:
        body = {
            "name": names[joint.child],
            **inertia_table(bodies[joint.child]),
        }
        tables["body"].append(body)
        tables["joint"].append(joint_table(joint, names, names[joint.name], joint is chain[0]))
    return tables


def _are_equal(first: Chain, other: Chain, bodies: Mapping[str, Body]) -> bool:
    """Return whether two chains may be legs of a kind."""
    tables = []
    for chain in (first, other):
        names = {}
        for k, joint in enumerate(chain):
            names[joint.name] = names[joint.child] = str(k)
        tables.append(_chain_tables(chain, bodies, names))
    try:
        _merge_tables(tables, "", [{}, {}])
    except _LegsDiffer:
        return False
    return True


def _merge_tables(
    values: Sequence[Any],
    path: str,
    instances: Sequence[Table],
    free: bool = False,
) -> Any:
    """Return the common content of tables; where they may differ, `$key`.

    Args:
        values: The same value of each leg: tables, lists of tables, or
            plain values.
        path: Key of the value, for `$key`.
        instances: Values of each leg that differ are put here.
        free: Whether the values may differ.
    """
    first = values[0]
    if all(isinstance(table, dict) and table.keys() == first.keys() for table in values):
        merged = {}
        for key in first:
            inner_path = f"{path}_{key}" if path else key
            inner = [table[key] for table in values]
            is_free = free or key in INSTANCE_KEYS
            merged[key] = _merge_tables(inner, inner_path, instances, is_free)
        return merged
    if all(map(_is_list_of_tables, values)) and any(values):
        if any(len(tables) != len(first) for tables in values):
            raise _LegsDiffer
        groups = zip(*values)
        return [_merge_tables(tables, tables[0]["name"], instances, free) for tables in groups]
    if all(_is_close(first, other) for other in values):
        return first
    if not free:
        raise _LegsDiffer
    key = re.sub(r"[^A-Za-z0-9_]", "_", path)
    for instance, value in zip(instances, values):
        instance[key] = value
    return f"${key}"


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _is_close(a: Any, b: Any) -> bool:
    """Return whether two plain values agree to `LEG_TOLERANCE` of the larger."""
    first = a if isinstance(a, list) else [a]
    second = b if isinstance(b, list) else [b]
    if len(first) != len(second) or not all(map(_is_number, (*first, *second))):
        return bool(a == b)
    difference = np.abs(np.subtract(first, second)).max(initial=0.0)
    return bool(difference <= LEG_TOLERANCE * np.abs((first, second)).max(initial=0.0))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name_leg(chains: list[Chain], outer: set[str], taken: set[str]) -> Leg | None:
    """Name the instances of a leg and what is inside: `leg1`, `leg2` and `rod` of `leg1_rod`.

    Args:
        chains: Equal chains.
        outer: Bodies outside the leg.
        taken: Names of other instances.

    Returns:
        None if the names of equal elements do not differ in one word.
    """
    count = len(chains[0])
    elements = [
        *_element_names(chains, "name"),
        *_element_names(chains, "child"),
    ]
    for pattern in (r"[^_.\-/]+", r"[A-Za-z]+|\d+"):
        splits = [_split_names(names, pattern) for names in elements]
        local = [common for common, _ in splits]
        words = {differing for _, differing in splits}
        body_names = set(local[count:])
        if len(words) > 1 or not all(local):
            continue
        if len(set(local[:count])) < count or len(body_names) < count:
            continue
        instances = []
        for word in words.pop():
            instances.append(f"leg{word}" if word[0].isdigit() else word)
        reserved = {*taken, BASE, PAYLOAD, *body_names}
        if outer & body_names or reserved.intersection(instances):
            continue
        local_names: dict[str, str] = {}
        for names, local_name in zip(elements, local):
            local_names |= dict.fromkeys(names, local_name)
        return Leg(chains, instances, local_names)
    return None


def _element_names(chains: list[Chain], attribute: str) -> list[list[str]]:
    """Return the names of each joint, or of its child, in all chains."""
    names = []
    for joints in zip(*chains):
        names.append([getattr(joint, attribute) for joint in joints])
    return names


def _split_names(names: Sequence[str], pattern: str) -> tuple[str, tuple[str, ...]]:
    """Return the common part of names, and of each the one word that differs.

    Empty if they do not differ in one word.
    """
    words = [re.findall(pattern, name) for name in names]
    if len({len(split) for split in words}) > 1:
        return "", ()
    places = [k for k, column in enumerate(zip(*words)) if len(set(column)) > 1]
    if len(places) != 1:
        return "", ()
    place = places[0]
    differing = tuple(split[place] for split in words)
    common = "_".join(words[0][:place] + words[0][place + 1 :])
    if len(set(differing)) < len(names) or common[:1].isdigit():
        return "", ()
    return common, differing


def leg_table(leg: Leg, legs: list[Leg], mechanism: Mechanism) -> tuple[Table, list[Closure]]:
    """Return `[[leg]]` without a name, and the closures that belong to its instances."""
    bodies = {body.name: body for body in mechanism.bodies}
    instances: list[Table] = []
    for name, chain in zip(leg.instances, leg.chains):
        base = placement_table(chain[0].placement.matrix)
        if chain[0].parent != BASE:
            base["body"] = chain[0].parent
        instances.append({"name": name, "base": base})
    tables = [_chain_tables(chain, bodies, leg.local_names) for chain in leg.chains]
    merged = _merge_tables(tables, "", instances)
    closures = _closures_of(leg, legs, mechanism.closures)
    closed = _merge_closures(leg, closures, instances, mechanism)
    if not closed:
        closures = []
    return {"instances": instances, **merged, "closure": closed}, [*concatenate(*closures)]


def _closures_of(leg: Leg, legs: list[Leg], closures: Sequence[Closure]) -> list[list[Closure]]:
    """Return the closures that touch one instance of a leg and no other, by instance."""
    owner: dict[str, tuple[Leg, int]] = {}  # leg and instance of bodies and joints
    for other in legs:
        for k, chain in enumerate(other.chains):
            for joint in chain:
                owner[joint.name] = owner[joint.child] = (other, k)
    by_instance: list[list[Closure]] = [[] for _ in leg.chains]
    for closure in closures:
        bodies = [frame.body for frame in closure.frames]
        owners = {owner[name] for name in (*bodies, *closure.coefficients) if name in owner}
        onto_base = BASE in bodies and leg.chains[0][0].parent != BASE
        outer_joint = any(name not in owner for name in closure.coefficients)
        if len(owners) != 1 or onto_base or outer_joint:
            continue
        other, k = owners.pop()
        if other is leg:
            by_instance[k].append(closure)
    return by_instance


def _merge_closures(
    leg: Leg,
    closures: list[list[Closure]],
    instances: list[Table],
    mechanism: Mechanism,
) -> list[Table]:
    """Return the closures of a leg; values that differ are added to its instances.

    Empty if the closures of its instances are not of the same kinds
    between the same bodies.
    """
    joints = {joint.name: joint for joint in mechanism.joints}
    tables: list[list[Table]] = []
    for chain, own_closures in zip(leg.chains, closures):
        base = chain[0].placement.matrix
        tables.append([])
        for n, closure in enumerate(own_closures):
            table = closure_table(closure, leg.local_names, f"loop{n + 1}", joints, base)
            tables[-1].append(table)
    values: list[Table] = [{} for _ in instances]
    try:
        merged: list[Table] = _merge_tables(tables, "", values, free=True)
    except _LegsDiffer:
        return []
    if any(map(_differs_in_kind, merged)):
        return []
    for instance, own_values in zip(instances, values):
        instance.update(own_values)
    return merged


def _differs_in_kind(closure: Table) -> bool:
    """Return whether the kind of a merged closure, or one of its bodies, is a `$key`."""
    words = [closure["kind"]]
    for key in "ab":
        end = closure.get(key, "")
        words.append(end["body"] if isinstance(end, dict) else end)
    return any(word.startswith("$") for word in words)
