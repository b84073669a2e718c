"""Read a robot file (TOML) into a `Mechanism`. The format is described in docs/robot-file.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, cast

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, PAYLOAD, Parameter
from gough.core.units import conversion
from gough.mechanism.elements import (
    INERTIA_KEYS,
    PLACEMENT_KEYS,
    SOURCE_KEYS,
    Axis,
    Kind,
    Scope,
    check_start,
    read_body,
    read_closure,
    read_inertia,
    read_joint,
    read_limits,
    read_noise,
    read_payload,
    read_placement,
)
from gough.mechanism.toml_table import Table, unit_factors
from gough.mechanism.types import BASE, Body, Closure, Frame, Joint, Limits, Mechanism, Payload

FORMAT = 1
LARGEST = 1_000_000  # bytes; the largest bundled robot has 6 kB
TOP_KEYS = ("format", "name", "title", "reference", "gravity", "redundant", "units", "platform", "body", "joint",
            "leg", "closure", "payload", "tie", "noise")
TASK = {"x": "prismatic", "y": "prismatic", "z": "prismatic", "rx": "revolute", "ry": "revolute", "rz": "revolute"}


def parse_robot(text: str, source: str) -> Mechanism:
    """Turn the text of a robot file into a mechanism.

    Args:
        text: TOML.
        source: File name, for errors and for `Mechanism.source`.

    Raises:
        InvalidMechanism: Names file, table and key.
    """
    if len(text) > LARGEST:
        raise InvalidMechanism(f"{source}: {len(text) / 1e6:.1f} MB is too large for a robot file "
                               f"(at most {LARGEST / 1e6:g} MB)", file=source, size=len(text))
    if not text.strip():
        raise InvalidMechanism(f"{source}: the file is empty", file=source)
    try:
        return _read_mechanism(Table(_read_toml(text, source), "top level", source))
    except RecursionError:
        raise InvalidMechanism(f"{source}: lists or tables are nested too deeply", file=source) from None


def _read_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except InvalidInput as error:
        raise InvalidMechanism(f"{source}: not valid TOML: {error}", file=source) from None


def _read_mechanism(root: Table) -> Mechanism:
    version = root.number("format")
    if version != FORMAT:
        raise root.error(f"format {version:g} is not supported; this version of Gough reads format {FORMAT}", "format")
    root.check_keys(TOP_KEYS)
    name = root.name()
    gravity = root.numbers("gravity", ("acceleration",) * 3) if "gravity" in root else (0.0, 0.0, -9.80665)  # SI always
    root = replace(root, factors=_read_units(root))
    build = _Build(root)
    build.read()
    joints = _tree_order(build)
    bodies = {body.name: body for body in build.bodies.values()}
    ordered = tuple(bodies[joint.child] for joint in joints)
    platform = build.platform
    everything = Scope(inner=frozenset(bodies), outer=frozenset())
    payloads: list[Payload] = []
    for table in root.sections("payload", "payload"):
        payloads.append(read_payload(table, everything, platform or ordered[-1].name))
        if payloads[-1].body != payloads[0].body:
            raise table.error(f"is fixed to '{payloads[-1].body}', but '{payloads[0].name}' to '{payloads[0].body}'; "
                              "all payloads of a robot go on one body", "body")
    kinds: set[Kind] = {joint.kind for joint in joints if joint.actuated}
    if not kinds:
        raise root.error("no joint is actuated; mark the motors with 'actuated = true'", "joint")
    try:
        return Mechanism(
            name=name, title=root.text("title", ""), reference=root.text("reference", ""), source=root.file,
            bodies=ordered, joints=joints, closures=tuple(build.closures), platform=platform,
            twist_limits=build.twist_limits, payloads=tuple(payloads),
            gravity=cast(tuple[float, float, float], gravity), redundant=root.flag("redundant"),
            ties=_read_ties(root.section("tie"), ordered, joints), noise=read_noise(root.section("noise"), kinds))
    except InvalidMechanism as error:
        message = str(error)
        if message.startswith(root.file):
            raise
        raise InvalidMechanism(f"{root.file}: {message}", **{"file": root.file, **error.numbers}) from None


def _read_units(root: Table) -> dict[str, float]:
    units = root.section("units")
    dimensions = ("length", "angle", "mass")
    units.check_keys(dimensions)
    for dimension in dimensions:
        if dimension not in units:
            raise units.error("is required but missing; write for example length = \"m\", angle = \"deg\", "
                              "mass = \"kg\"", dimension)
    factors = {}
    for dimension in dimensions:
        try:
            factors[dimension] = conversion(units.text(dimension), dimension)
        except InvalidInput as error:
            raise units.error(str(error), dimension) from None
    return unit_factors(**factors)


@dataclass
class _Placed:
    """A joint with the table it came from, for errors about the tree."""

    joint: Joint
    table: Table


class _Build:
    """Collects bodies, joints and closures of a file, each under its full name."""

    def __init__(self, root: Table) -> None:
        self.root = root
        self.bodies: dict[str, Body] = {}
        self.joints: dict[str, _Placed] = {}
        self.closures: list[Closure] = []
        self.tables: dict[tuple[str, str], Table] = {}
        self.platform: str | None = None
        self.twist_limits: dict[str, Limits] = {}

    def read(self) -> None:
        """Read platform, top level and legs; closures last, since they may name anything."""
        root = self.root
        bodies, joints = root.sections("body", "body"), root.sections("joint", "joint")
        inner = {table.name() for table in bodies}
        if "platform" in root:
            inner.add(self._read_platform(root.section("platform")))
        top = Scope(inner=frozenset(inner), outer=frozenset())
        self._read_parts(top, bodies, joints)
        closures: list[tuple[Table, Scope]] = []
        for leg in root.sections("leg", "leg"):
            self._claim("leg", leg.name(), leg)
            for scope, parts in _place_leg(leg, top):
                self._claim("leg instance", str(scope.leg), leg)
                self._read_parts(scope, parts["body"], parts["joint"])
                closures += [(table, scope) for table in parts["closure"]]
        everything = replace(top, inner=frozenset(self.bodies))
        closures += [(table, everything) for table in root.sections("closure", "closure")]
        known = {name: placed.joint for name, placed in self.joints.items()}
        for table, scope in closures:
            closure = read_closure(table, scope, known)
            self._claim("closure", closure.name, table)
            self.closures.append(closure)
        for table in root.sections("payload", "payload"):
            self._claim("payload", table.name(), table)

    def _claim(self, kind: str, name: str, table: Table) -> None:
        if name == BASE:
            raise table.error(f"'{BASE}' is the fixed body; choose another name", "name")
        if name == PAYLOAD and kind not in ("closure", "payload"):
            raise table.error(f"'{PAYLOAD}' stands before the parameters of payloads; choose another name", "name")
        if (kind, name) in self.tables:
            raise table.error(f"{kind} '{name}' is defined twice (also in {self.tables[kind, name].place}); "
                              "names must be unique", "name")
        self.tables[kind, name] = table

    def _add_body(self, body: Body, table: Table) -> None:
        self._claim("body", body.name, table)
        self.bodies[body.name] = body

    def _add_joint(self, joint: Joint, table: Table) -> None:
        self._claim("joint", joint.name, table)
        self.joints[joint.name] = _Placed(joint, table)

    def _read_parts(self, scope: Scope, bodies: list[Table], joints: list[Table]) -> None:
        for table in bodies:
            self._add_body(read_body(table, scope), table)
        for table in joints:
            chain = read_joint(table, scope)
            for joint in chain:
                self._add_joint(joint, table)
            for joint in chain[:-1]:  # the massless bodies between the axes of a universal or spherical joint
                self._add_body(Body(name=joint.child, parameters=(), leg=scope.leg, template=joint.template), table)

    def _read_platform(self, table: Table) -> str:
        """Read `[platform]` into a chain of virtual joints, one for each task coordinate; return its name."""
        table.check_keys(("name", "coordinates", "start", "limits", *INERTIA_KEYS, *SOURCE_KEYS))
        name = table.name("name", "platform")
        coordinates = table.words("coordinates", TASK)
        if not coordinates:
            raise table.error("a platform needs at least one task coordinate", "coordinates")
        kinds = [TASK[c] for c in coordinates]
        if kinds != sorted(kinds):
            raise table.error("list translations before angles, so that they are measured in the base frame",
                              "coordinates")
        start, limits = table.table("start"), table.table("limits")
        start.check_keys(coordinates)
        parts = {"prismatic": "translation", "revolute": "rotation"}
        limits.check_keys((*coordinates, *dict.fromkeys(parts[kind] for kind in kinds)))
        for kind in (cast(Kind, kind) for kind in parts if parts[kind] in limits):
            own = limits.table(parts[kind])
            own.check_keys(("velocity", "acceleration"))
            self.twist_limits[parts[kind]] = read_limits(own, kind, effort=False)
        parent = BASE
        for i, coordinate in enumerate(coordinates):
            kind = cast(Kind, TASK[coordinate])
            bounds = read_limits(limits.table(coordinate), kind, effort=False)
            value = start.number(coordinate, "length" if kind == "prismatic" else "angle", 0.0)
            check_start(start, value, bounds, coordinate)
            last = i == len(coordinates) - 1
            child = name if last else f"{name}.{coordinate}"
            if not last:
                self._add_body(Body(name=child, parameters=()), table)
            self._add_joint(
                Joint(name=f"{name}.{coordinate}", kind=kind, parent=parent, child=child,
                      axis=cast(Axis, coordinate[-1]), virtual=True, limits=bounds, start=value), table)
            parent = child
        parameters, values = read_inertia(table)
        sources = table.sources(key for key in table.data if key in (*INERTIAL, "com", "start", "limits"))
        self._add_body(Body(name=name, parameters=parameters, values=values, sources=sources), table)
        self.platform = name
        return name


def _place_leg(leg: Table, top: Scope) -> list[tuple[Scope, dict[str, list[Table]]]]:
    """Return scope and tables of every instance of a leg, with `$key` replaced by the instance's value."""
    leg.check_keys(("name", "instances", "body", "joint", "closure", *SOURCE_KEYS))
    leg.sources(("instances",))
    template = leg.name()
    instances = leg.sections("instances", "leg.instances", f" of leg '{template}'")
    if not instances:
        raise leg.error("a leg needs at least one instance, such as {name = \"leg1\"}", "instances")
    placed = []
    for instance in instances:
        name = instance.name()
        instance.sources(key for key in instance.data if key not in ("name", *SOURCE_KEYS))
        base = instance.table("base")
        base.check_keys(("body", *PLACEMENT_KEYS))
        frame = Frame(body=BASE, placement=read_placement(base))
        if "body" in base:
            frame = top.frame(base, "body", frame.placement)
        used: set[str] = set()
        filled = _substitute({key: leg.data.get(key, []) for key in ("body", "joint", "closure")}, instance, used)
        unused = [key for key in instance.data if key not in ("name", "base", *SOURCE_KEYS, *used)]
        if unused:
            raise instance.error(f"unknown key: nothing in the leg says '${unused[0]}'"
                                 f"{nearest(unused[0], ('name', 'base', *used))}", unused[0])
        full = replace(leg, data=filled)
        parts = {key: full.sections(key, f"leg.{key}", f" of {name}") for key in filled}
        inner = frozenset(table.name() for table in parts["body"])
        for table in parts["body"]:
            if table.name() in top.inner:
                raise table.error(f"the robot already has a body '{table.name()}' outside the leg; choose another name",
                                  "name")
        placed.append((Scope(leg=name, template=template, base=frame, inner=inner, outer=top.inner), parts))
    return placed


def _substitute(value: Any, instance: Table, used: set[str]) -> Any:
    """Replace every text `$key` by the instance's value of that key."""
    if isinstance(value, Mapping):
        return {key: _substitute(v, instance, used) for key, v in value.items()}
    if isinstance(value, list):
        return [_substitute(v, instance, used) for v in value]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    key = value[1:]
    valid = [k for k in instance.data if k not in ("name", "base", *SOURCE_KEYS)]
    if key not in valid:
        raise instance.error(f"the leg asks for '{value}', which this instance does not give{nearest(key, valid)}", key)
    used.add(key)
    return instance.data[key]


def _tree_order(build: _Build) -> tuple[Joint, ...]:
    """Return the joints with parents before children, otherwise in the order of the file."""
    carrier: dict[str, _Placed] = {}
    for placed in build.joints.values():
        child = placed.joint.child
        if child in carrier:
            raise placed.table.error(
                f"body '{child}' has two parents: joints '{carrier[child].joint.name}' and '{placed.joint.name}'; "
                "keep one joint and close the loop with a closure", "child")
        carrier[child] = placed
    for name in build.bodies:
        if name not in carrier:
            raise build.tables["body", name].error(f"body '{name}' hangs on no joint; add a joint or remove it", "name")
    if not carrier:
        raise build.root.error("the robot has no joints; add [[joint]] or [[leg]] tables", "joint")
    reached, ordered, waiting = {BASE}, [], [placed.joint for placed in build.joints.values()]
    while waiting:
        ready = next((joint for joint in waiting if joint.parent in reached), None)
        if ready is None:
            placed = build.joints[waiting[0].name]
            raise placed.table.error(f"body '{placed.joint.parent}' is not connected to the base: "
                                     "the joints that carry it form a ring", "parent")
        waiting.remove(ready)
        reached.add(ready.child)
        ordered.append(ready)
    return tuple(ordered)


def _read_ties(table: Table, bodies: tuple[Body, ...], joints: tuple[Joint, ...],
               ) -> dict[Parameter, tuple[Parameter, ...]]:
    """Return the parameters shared by equal legs: `leg.rod.Ixx` -> (`leg1.rod.Ixx`, `leg2.rod.Ixx`, ...)."""
    table.check_keys(("parameters", *SOURCE_KEYS))
    groups: dict[Parameter, list[Parameter]] = {}
    for body, joint in zip(bodies, joints):
        own = [(body, p) for p in INERTIAL if p in body.parameters] + [(joint, t) for t in joint.terms]
        for item, parameter in own:
            if item.leg is not None:
                groups.setdefault(Parameter.of(item.template, parameter), []).append(Parameter.of(item.name, parameter))
    patterns = table.words("parameters") if "parameters" in table else ()
    chosen: set[Parameter] = set()
    for i, pattern in enumerate(patterns):
        # written without the leg's name, or with it where two kinds of legs differ
        found = {name for name in groups if fnmatchcase(name, pattern) or fnmatchcase(name.local, pattern)}
        if not found:
            short = (name.local for name in groups)
            raise table.error(f"no parameter of a leg matches '{pattern}'{nearest(pattern, short)}",
                              f"parameters[{i}]")
        chosen |= found
    standard = {name for members in groups.values() for name in members}
    for name in sorted(chosen & standard):
        if groups[name] == [name]:
            continue
        raise table.error(f"the tied parameter '{name}' has the name of a parameter of the leg '{name.leg}'; name the "
                          "kind of leg differently from its instances", "parameters")
    return {name: tuple(members) for name, members in groups.items() if name in chosen}
