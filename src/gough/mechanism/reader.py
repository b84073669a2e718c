"""Read a robot file (TOML) into a `Mechanism`. The format is described in docs/robot-file.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.inertia import transform_inertia
from gough.core.names import INERTIAL, PAYLOAD, Parameter
from gough.core.units import conversion
from gough.mechanism import elements, schema
from gough.mechanism.elements import DIMENSIONS, Scope
from gough.mechanism.terms import BUNDLES, TERMS, JointTerm
from gough.mechanism.toml_table import TOP_LEVEL, TomlTable, unit_factors
from gough.mechanism.types import (
    BASE,
    Body,
    Closure,
    Frame,
    Joint,
    Kind,
    Limits,
    Mechanism,
    Transmission,
    Vector,
)

FORMAT = 1
LARGEST = 1_000_000  # bytes; the largest bundled robot has 6 kB


def parse_robot(text: str, source: str) -> Mechanism:
    """Turn the text of a robot file into a mechanism; `source` is its name, for errors and
    `Mechanism.source`.
    """
    if len(text) > LARGEST:
        raise InvalidMechanism(
            f"{source}: {len(text) / 1e6:.1f} MB is too large for a robot file "
            f"(at most {LARGEST / 1e6:g} MB)",
            file=source,
            size=len(text),
        )
    if not text.strip():
        raise InvalidMechanism(f"{source}: the file is empty", file=source)
    try:
        return _read_mechanism(TomlTable(parse_toml(text), TOP_LEVEL, source))
    except InvalidInput as error:
        raise InvalidMechanism(f"{source}: not valid TOML: {error}", file=source) from None


def _read_mechanism(root: TomlTable) -> Mechanism:
    version = root.number("format", default=FORMAT)
    if version != FORMAT:
        raise root.error(
            f"format {version:g} is not supported; this version of Gough reads format {FORMAT}",
            "format",
        )
    root = replace(
        root, data={"units": {}, **root.data}
    )  # without the table its first key is missing
    root.check(schema.robot())
    gravity = (
        root.numbers("gravity", ("acceleration",) * 3)
        if "gravity" in root
        else (0.0, 0.0, -9.80665)
    )  # SI always
    root = replace(
        root, factors=unit_factors(*(conversion(root.data["units"][of]) for of in schema.UNIT_KEYS))
    )
    parts = _Parts(root)
    try:
        parts.merge()
        tree = Mechanism(
            name=root.name,
            title=root.get("title", ""),
            reference=root.get("reference", ""),
            source=root.file,
            bodies=tuple(parts.bodies),
            joints=tuple(parts.joints),
            closures=tuple(parts.closures),
            transmissions=tuple(parts.transmissions),
            platform=parts.platform,
            twist_limits=parts.twist_limits,
            redundant=root.get("redundant", False),
            gravity=cast(Vector, gravity),
            custom_terms=parts.custom_terms,
        )
        payloads = []
        for table in root.tables("payload"):
            parts.claim("payload", table.name, table)
            payload = elements.read_payload(
                table, {*parts.fixed, *(body.name for body in tree.bodies)}, tree.flange
            )
            at = parts.settled(Frame(body=payload.body, placement=payload.placement))
            payloads.append(replace(payload, body=at.body, placement=at.placement))
        motors = {joint.kind for joint in tree.joints if joint.actuated}
        return replace(
            tree,
            payloads=tuple(payloads),
            ties=_read_ties(root.table("tie"), tree),
            noise=elements.read_noise(root.table("noise"), motors),
        )
    except InvalidMechanism as error:
        if "table" in error.numbers:
            raise
        found = error.numbers
        raise parts.tables.get((found.get("part"), found.get("name")), root).error(
            str(error), cast(str | None, found.get("key"))
        ) from None


class _Parts:
    """Bodies, joints and closures of a file under their full names, and the tables they came
    from.
    """

    def __init__(self, root: TomlTable) -> None:
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.closures: list[Closure] = []
        self.transmissions: list[Transmission] = []
        self.fixed: dict[
            str, Frame
        ] = {}  # by carried body, the frame on its parent at which it is fixed
        self.tables: dict[tuple[object, object], TomlTable] = {}
        self.twist_limits: dict[str, Limits] = {}
        inner = [table.name for table in root.tables("body")]
        self.platform = self._read_platform(root.table("platform")) if "platform" in root else None
        own: dict[str, tuple[JointTerm, ...]] = {}
        for table in root.tables("term"):
            self.claim("term", table.name, table)
            own[table.name] = read = elements.read_term(table)
            self.tables |= {("term", term.name): table for term in read}
        self.custom_terms = {term.name: term for read in own.values() for term in read}
        known = {**TERMS, **self.custom_terms}
        words = {
            **{name: (term,) for name, term in known.items()},
            **{word: tuple(known[name] for name in names) for word, names in BUNDLES.items()},
            **{name: read for name, read in own.items() if name not in BUNDLES},
        }
        top = Scope(inner=frozenset(filter(None, [*inner, self.platform])), terms=words)
        self._read_tree(top, root)
        scopes: list[tuple[Scope, TomlTable]] = []
        for leg in root.tables("leg"):
            self.claim("leg", leg.name, leg)
            for scope, parts in _place_leg(leg, top):
                self.claim("leg instance", str(scope.leg), leg)
                self._read_tree(scope, parts)
                scopes.append((scope, parts))
        scopes.append((replace(top, inner=frozenset(body.name for body in self.bodies)), root))
        for scope, parts in scopes:
            for table in parts.tables("transmission"):
                transmission, motors, couplings = elements.read_transmission(
                    table, scope, self._known
                )
                self.transmissions.append(transmission)
                self._add(table, *motors, *_massless(motors), *couplings)
            for table in parts.tables("force"):
                slider, length = elements.read_force(table, scope)
                self._add(table, slider, *_massless([slider]), length)
        for scope, parts in scopes:
            for table in parts.tables("closure"):
                self._add(table, elements.read_closure(table, scope, self._known))

    def claim(self, kind: str, name: str, table: TomlTable) -> None:
        """Raise if a name is taken or means something else."""
        if name == BASE:
            raise table.error(f"'{BASE}' is the fixed body; choose another name", "name")
        if name == PAYLOAD and kind not in ("closure", "payload"):
            raise table.error(
                f"'{PAYLOAD}' stands before the parameters of payloads; choose another name", "name"
            )
        if (kind, name) in self.tables:
            raise table.error(
                f"{kind} '{name}' is defined twice (also in {self.tables[kind, name].place}); "
                "names must be unique",
                "name",
            )
        self.tables[kind, name] = table

    @property
    def _known(self) -> dict[str, Joint]:
        return {joint.name: joint for joint in self.joints}

    def _add(self, table: TomlTable, *parts: Body | Joint | Closure) -> None:
        lists: dict[type, list[Any]] = {
            Body: self.bodies,
            Joint: self.joints,
            Closure: self.closures,
        }
        for part in parts:
            self.claim(type(part).__name__.lower(), part.name, table)
            lists[type(part)].append(part)

    def _read_tree(self, scope: Scope, parts: TomlTable) -> None:
        for table in parts.tables("body"):
            self._add(table, elements.read_body(table, scope))
        for table in parts.tables("joint"):
            if table.data["type"] == "fixed":
                table.only(schema.FIXED_JOINT_KEYS)
                child = scope.child(table)
                self.claim("joint", scope.full(table.name), table)
                if child in self.fixed:
                    raise table.error(
                        f"body '{child}' has two parents, both by fixed joints; keep one", "child"
                    )
                self.fixed[child] = scope.frame(table, "parent")
                continue
            chain = elements.read_joint(table, scope)
            self._add(
                table, *chain, *_massless(chain[:-1])
            )  # between the axes of a universal or spherical joint

    def _read_platform(self, table: TomlTable) -> str:
        """Read `[platform]` into a chain of virtual joints, one for each task coordinate; return
        its name.
        """
        name, coordinates = table.get("name", "platform"), table.data["coordinates"]
        if not coordinates:
            raise table.error("a platform needs at least one task coordinate", "coordinates")
        kinds: list[Kind] = [
            cast(Kind, schema.TASK_JOINT_KINDS[coordinate]) for coordinate in coordinates
        ]
        if kinds != sorted(kinds):
            raise table.error(
                "list translations before angles, so that they are measured in the base frame",
                "coordinates",
            )
        start, limits = table.table("start"), table.table("limits")
        start.only(coordinates)
        whole = dict(
            zip(kinds, ("translation" if kind == "prismatic" else "rotation" for kind in kinds))
        )
        limits.only((*coordinates, *whole.values()))
        self.twist_limits = {
            word: elements.read_limits(limits.table(word), kind)
            for kind, word in whole.items()
            if word in limits
        }
        parent = BASE
        for coordinate, kind in zip(coordinates, kinds):
            bounds = elements.read_limits(limits.table(coordinate), kind)
            value = start.number(coordinate, DIMENSIONS[kind][0], 0.0)
            elements.check_start(start, value, bounds, coordinate)
            child = name if coordinate == coordinates[-1] else f"{name}.{coordinate}"
            if child != name:
                self._add(table, Body(name=child, parameters=()))
            self._add(
                table,
                Joint(
                    name=f"{name}.{coordinate}",
                    kind=kind,
                    parent=parent,
                    child=child,
                    axis=coordinate[-1],
                    virtual=True,
                    limits=bounds,
                    start=value,
                ),
            )
            parent = child
        self._add(table, Body(name=name, **elements.read_inertia(table)))
        return str(name)

    def settled(self, frame: Frame) -> Frame:
        """Return a frame on the body that it really moves with."""
        seen = set[str]()
        while frame.body in self.fixed:
            if frame.body in seen:
                raise InvalidMechanism(
                    f"body '{frame.body}' is not connected to the base: fixed joints form a ring",
                    part="body",
                    name=frame.body,
                    key="name",
                )
            seen.add(frame.body)
            below = self.fixed[frame.body]
            frame = Frame(body=below.body, placement=below.placement.then(frame.placement))
        return frame

    def merge(self) -> None:
        """Make what fixed joints carry a part of what they sit on: a body's inertia about the
        other's frame.
        """
        moving = {body.name: body for body in self.bodies if body.name not in self.fixed}
        for body in (body for body in self.bodies if body.name in self.fixed):
            at = self.settled(Frame(body=body.name))
            if at.body in moving:  # what is fixed to the base does not move
                moving[at.body] = _joined(moving[at.body], body, at.placement.matrix)
        for k, joint in enumerate(self.joints):
            if joint.child in self.fixed:
                raise InvalidMechanism(
                    f"body '{joint.child}' has two parents: joint '{joint.name}' and a fixed one; "
                    "keep one joint and close the loop with a closure",
                    part="joint",
                    name=joint.name,
                    key="child",
                )
            at = self.settled(Frame(body=joint.parent, placement=joint.placement))
            self.joints[k] = replace(joint, parent=at.body, placement=at.placement)
        self.closures = [
            replace(closure, a=self.settled(closure.a), b=self.settled(closure.b))
            if closure.a and closure.b
            else closure
            for closure in self.closures
        ]
        self.bodies = list(moving.values())


def _joined(own: Body, part: Body, at: FloatArray) -> Body:
    """Return a body with the parameters and values of one that is fixed to it."""

    def about(numbers: Mapping[str, float]) -> FloatArray:
        return transform_inertia(at, np.array([numbers.get(p, 0.0) for p in INERTIAL]))

    def reached(names: Sequence[str]) -> set[str]:
        some = np.random.default_rng(0).uniform(1, 2, len(names))  # no two of these cancel
        return {
            p for p, value in zip(INERTIAL, about(dict(zip(names, some)))) if abs(value) > 1e-12
        }

    known, moved = reached(tuple(part.values)), dict(zip(INERTIAL, about(part.values).tolist()))
    kept = {*own.parameters, *reached(part.parameters)}
    return replace(
        own,
        parameters=tuple(p for p in INERTIAL if p in kept),
        values={
            p: own.values.get(p, 0.0) + (moved[p] if p in known else 0.0)
            for p in INERTIAL
            if p in kept and (p in own.values or p in known)
        },
    )


def _massless(joints: Sequence[Joint]) -> list[Body]:
    """Return massless bodies for joints to carry."""
    return [
        Body(name=joint.child, parameters=(), leg=joint.leg, template=joint.template)
        for joint in joints
    ]


def _place_leg(leg: TomlTable, top: Scope) -> list[tuple[Scope, TomlTable]]:
    """Return scope and parts of every instance of a leg, with `$key` replaced by the instance's
    value.
    """
    if not leg.get("instances"):
        raise leg.error('a leg needs at least one instance, such as {name = "leg1"}', "instances")
    placed = []
    for instance in leg.tables("instances"):
        base, own = (
            instance.table("base"),
            [k for k in instance.data if k not in ("name", "base", *schema.SOURCE_KEYS)],
        )
        frame = (
            top.frame(base, "body")
            if "body" in base
            else Frame(body=BASE, placement=elements.read_placement(base))
        )
        used: set[str] = set()
        filled = _substitute(
            {key: leg.get(key, []) for key in schema.ELEMENT_TABLES}, instance, own, used
        )
        if unused := [key for key in own if key not in used]:
            raise instance.error(
                f"unknown key: nothing in the leg says '${unused[0]}'"
                f"{nearest(unused[0], ('name', 'base', *used))}",
                unused[0],
            )
        parts = replace(leg, data=filled, owner=f" of {instance.name}")
        parts.check({"properties": schema.element_tables()})
        for table in parts.tables("body"):
            if table.name in top.inner:
                raise table.error(
                    f"the robot already has a body '{table.name}' outside the leg; choose another "
                    f"name",
                    "name",
                )
        inner = frozenset(table.name for table in parts.tables("body"))
        placed.append(
            (
                replace(
                    top,
                    leg=instance.name,
                    template=leg.name,
                    base=frame,
                    inner=inner,
                    outer=top.inner,
                ),
                parts,
            )
        )
    return placed


def _substitute(value: Any, instance: TomlTable, own: Sequence[str], used: set[str]) -> Any:
    """Replace every text `$key` by the instance's value of that key."""
    if isinstance(value, Mapping):
        return {key: _substitute(v, instance, own, used) for key, v in value.items()}
    if isinstance(value, list):
        return [_substitute(v, instance, own, used) for v in value]
    if not isinstance(value, str) or value[:1] != "$":
        return value
    key = value[1:]
    if key not in own:
        raise instance.error(
            f"the leg asks for '{value}', which this instance does not give{nearest(key, own)}", key
        )
    used.add(key)
    return instance.data[key]


def _read_ties(table: TomlTable, tree: Mechanism) -> dict[Parameter, tuple[Parameter, ...]]:
    """Return the parameters shared by equal legs: `leg.rod.Ixx` -> (`leg1.rod.Ixx`, `leg2.rod.Ixx`,
    ...).
    """
    groups: dict[Parameter, list[Parameter]] = {}
    for body, joint in zip(tree.bodies, tree.joints):
        own = [(body, p) for p in INERTIAL if p in body.parameters] + [
            (joint, t) for t in joint.terms
        ]
        for item, parameter in own:
            if item.leg is not None:
                groups.setdefault(Parameter.of(item.template, parameter), []).append(
                    Parameter.of(item.name, parameter)
                )
    chosen: set[Parameter] = set()
    for i, pattern in enumerate(table.get("parameters", [])):
        # written without the leg's name, or with it where two kinds of legs differ
        found = {
            name
            for name in groups
            if fnmatchcase(name, pattern) or fnmatchcase(name.local, pattern)
        }
        if not found:
            short = (name.local for name in groups)
            raise table.error(
                f"no parameter of a leg matches '{pattern}'{nearest(pattern, short)}",
                f"parameters[{i}]",
            )
        chosen |= found
    standard = {name for members in groups.values() for name in members}
    for name in sorted(chosen & standard):
        if groups[name] != [name]:
            raise table.error(
                f"the tied parameter '{name}' has the name of a parameter of the leg '{name.leg}'; "
                f"name "
                "the kind of leg differently from its instances",
                "parameters",
            )
    return {name: tuple(members) for name, members in groups.items() if name in chosen}
