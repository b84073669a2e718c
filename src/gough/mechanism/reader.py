"""Read a robot file (TOML) into a `Mechanism`. The format is described in docs/robot-file.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

import numpy as np

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, PAYLOAD, Parameter, inside_leg
from gough.core.units import conversion
from gough.mechanism import elements, schema
from gough.mechanism.elements import Axis, Kind, Scope, check_start, read_ends, read_limits, read_terms
from gough.mechanism.fixed import Welds
from gough.mechanism.terms import BUNDLES, JointTerm
from gough.mechanism.toml_table import SOURCE_KEYS, TomlTable, unit_factors
from gough.mechanism.types import BASE, Body, Closure, Frame, Joint, Limits, Mechanism, Transmission

FORMAT = 1
LARGEST = 1_000_000  # bytes; the largest bundled robot has 6 kB
INVERTIBLE = 1e-9  # ratio of singular values of a transmission below which no gears could be built


def read_transmission(table: TomlTable, scope: Scope, joints: dict[str, Joint],
                      ) -> tuple[Transmission, list[Joint], list[Closure]]:
    """Read `[[transmission]]`: a massless rotor on the base for each motor, and a coupling for each joint."""
    table.check_keys(schema.TRANSMISSION)
    name, driven = table.name(), tuple(scope.full(joint) for joint in table.words("joints"))
    for k, joint in enumerate(driven):
        if joint not in joints or joints[joint].actuated:
            what = "is a motor itself" if joint in joints else f"does not exist{nearest(joint, joints)}"
            raise table.error(f"joint '{joint}' {what}", f"joints[{k}]")
    tables = table.sections("motor", "transmission.motor", f" of '{name}'")
    if len(tables) != len(driven):
        raise table.error(f"{len(driven)} joints need as many [[transmission.motor]] tables, found {len(tables)}",
                          "motor")
    matrix = np.array(table.matrix("matrix", len(driven)))
    values = np.linalg.svd(matrix, compute_uv=False)
    if not values[-1] > INVERTIBLE * values[0]:
        raise table.error(f"the matrix is not invertible (singular values {values[0]:.3g} to {values[-1]:.1e}): some "
                          "motion of the joints moves no motor; check its rows", "matrix")
    start = np.linalg.solve(matrix, [joints[joint].start for joint in driven])
    motors = [_read_motor(own, scope, float(at)) for own, at in zip(tables, start)]
    couplings = [Closure(name=scope.full(f"{name}.{inside_leg(joint, scope.leg)}"), kind="coupling", coefficients={
        joint: 1.0, **{motor.name: -float(b) for motor, b in zip(motors, row) if b}})
        for joint, row in zip(driven, matrix)]
    sides = {key: cast(Any, table.choice(key, ("joints", "motors"), "joints")) for key in ("positions", "efforts")}
    return Transmission(name=scope.full(name), motors=tuple(motor.name for motor in motors), joints=driven,
                        matrix=matrix, **sides), motors, couplings


def _read_motor(table: TomlTable, scope: Scope, start: float) -> Joint:
    table.check_keys(schema.MOTOR)
    kind = cast(Kind, table.choice("type", ("revolute", "prismatic"), "revolute"))
    motor = _slider(table, scope, kind, True, start)
    check_start(table, start, motor.limits, "limits")
    return motor


def read_force(table: TomlTable, scope: Scope) -> tuple[Joint, Closure]:
    """Read `[[force]]`: a massless slider on the base, and the closure that makes it the length between two points."""
    table.check_keys(schema.FORCE)
    a, b = read_ends(table, scope)
    joint, rest = _slider(table, scope, "prismatic", table.flag("actuated")), table.number("rest", "length", 0.0)
    if rest < 0:
        raise table.error(f"expected a length, found {rest:g} m", "rest")
    return joint, Closure(name=joint.name, kind="length", a=a, b=b, coefficients={joint.name: -1.0},
                          constant=-rest)


def _slider(table: TomlTable, scope: Scope, kind: Kind, actuated: bool, start: float = 0.0) -> Joint:
    """Read a joint that is only a coordinate: a massless body on the base, of the joint's name."""
    if "gain" in table and not actuated:
        raise table.error("only what is actuated has a drive gain", "gain")
    name, limits = table.name(), read_limits(table.table("limits"), kind)
    terms, values = read_terms(table, kind, scope)
    full = scope.full(name)
    return Joint(name=full, kind=kind, parent=BASE, child=full, actuated=actuated, limits=limits, terms=terms,
                 values=values, gain=table.positive("gain", "gain", None), start=start, leg=scope.leg,
                 template=scope.kin(name), sources=table.sources())


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
        return _read_mechanism(TomlTable(parse_toml(text), "top level", source))
    except InvalidInput as error:
        raise InvalidMechanism(f"{source}: not valid TOML: {error}", file=source) from None
    except RecursionError:
        raise InvalidMechanism(f"{source}: lists or tables are nested too deeply", file=source) from None


def _read_mechanism(root: TomlTable) -> Mechanism:
    version = root.number("format")
    if version != FORMAT:
        raise root.error(f"format {version:g} is not supported; this version of Gough reads format {FORMAT}", "format")
    root.check_keys(schema.TOP)
    name = root.name()
    gravity = root.numbers("gravity", ("acceleration",) * 3) if "gravity" in root else (0.0, 0.0, -9.80665)  # SI always
    root = replace(root, factors=_read_units(root))
    parts = _Parts(root)
    try:
        parts.merge()
        tree = Mechanism(
            name=name, title=root.text("title", ""), reference=root.text("reference", ""), source=root.file,
            bodies=tuple(parts.bodies), joints=tuple(parts.joints), closures=tuple(parts.closures),
            transmissions=tuple(parts.transmissions), platform=parts.platform, twist_limits=parts.twist_limits,
            redundant=root.flag("redundant"), gravity=cast(tuple[float, float, float], gravity),
            own_terms=parts.own_terms)
        inner = parts.welds.bodies.union(body.name for body in tree.bodies)
        everything = Scope(inner=inner, outer=frozenset())
        tables = root.sections("payload", "payload")
        for table in tables:
            parts.claim("payload", table.name(), table)
        payloads = (elements.read_payload(table, everything, tree.flange) for table in tables)
        return replace(
            tree, payloads=tuple(parts.welds.payload(payload) for payload in payloads),
            ties=_read_ties(root.section("tie"), tree),
            noise=elements.read_noise(root.section("noise"), {joint.kind for joint in tree.joints if joint.actuated}))
    except InvalidMechanism as error:
        if "table" in error.numbers:
            raise
        found = error.numbers
        raise parts.tables.get((found.get("part"), found.get("name")), root).error(
            str(error), cast(str | None, found.get("key"))) from None


def _read_units(root: TomlTable) -> dict[str, float]:
    units = root.section("units")
    units.check_keys(schema.UNITS)
    for dimension in schema.UNITS:
        if dimension not in units:
            raise units.error("is required but missing; write for example length = \"m\", angle = \"deg\", "
                              "mass = \"kg\"", dimension)
    factors = {}
    for dimension in schema.UNITS:
        try:
            factors[dimension] = conversion(units.text(dimension), dimension)
        except InvalidInput as error:
            raise units.error(str(error), dimension) from None
    return unit_factors(**factors)


class _Parts:
    """Bodies, joints and closures of a file under their full names, and the tables they came from."""

    def __init__(self, root: TomlTable) -> None:
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.closures: list[Closure] = []
        self.transmissions: list[Transmission] = []
        self.fixed: dict[str, Frame] = {}
        self.tables: dict[tuple[object, object], TomlTable] = {}
        self.platform: str | None = None
        self.twist_limits: dict[str, Limits] = {}
        bodies, joints = root.sections("body", "body"), root.sections("joint", "joint")
        inner = {table.name() for table in bodies}
        if "platform" in root:
            self.platform = self._read_platform(root.section("platform"))
            inner.add(self.platform)
        own: dict[str, tuple[JointTerm, ...]] = {}
        for table in root.sections("term", "term"):
            self.claim("term", table.name(), table)
            own[table.name()] = read = elements.read_term(table)
            self.tables |= {("term", term.name): table for term in read}
        self.own_terms = {term.name: term for read in own.values() for term in read}
        words = elements.term_words(self.own_terms, {name: read for name, read in own.items() if name not in BUNDLES})
        top = Scope(inner=frozenset(inner), outer=frozenset(), terms=words)
        self._read_tree(top, bodies, joints)
        scopes: list[tuple[Scope, dict[str, list[TomlTable]]]] = []
        for leg in root.sections("leg", "leg"):
            self.claim("leg", leg.name(), leg)
            for scope, tables in _place_leg(leg, top):
                self.claim("leg instance", str(scope.leg), leg)
                self._read_tree(scope, tables["body"], tables["joint"])
                scopes.append((scope, tables))
        everything = replace(top, inner=frozenset(body.name for body in self.bodies))
        scopes.append((everything, {key: root.sections(key, key) for key in schema.PARTS}))
        for scope, tables in scopes:
            for table in tables["transmission"]:
                transmission, motors, couplings = read_transmission(table, scope, self._known)
                self.transmissions.append(transmission)
                self._add(table, *motors, *_massless(motors))
                self._close(table, *couplings)
            for table in tables["force"]:
                slider, length = read_force(table, scope)
                self._add(table, slider, *_massless([slider]))
                self._close(table, length)
        for scope, tables in scopes:
            for table in tables["closure"]:
                self._close(table, elements.read_closure(table, scope, self._known))

    def merge(self) -> None:
        """Make what fixed joints carry a part of what they sit on."""
        self.welds = Welds(self.fixed)
        self.joints = [self.welds.joint(joint) for joint in self.joints]
        self.closures = [self.welds.closure(closure) for closure in self.closures]
        self.bodies = self.welds.merge(self.bodies)

    def claim(self, kind: str, name: str, table: TomlTable) -> None:
        """Raise if a name is taken or means something else."""
        if name == BASE:
            raise table.error(f"'{BASE}' is the fixed body; choose another name", "name")
        if name == PAYLOAD and kind not in ("closure", "payload"):
            raise table.error(f"'{PAYLOAD}' stands before the parameters of payloads; choose another name", "name")
        if (kind, name) in self.tables:
            raise table.error(f"{kind} '{name}' is defined twice (also in {self.tables[kind, name].place}); "
                              "names must be unique", "name")
        self.tables[kind, name] = table

    @property
    def _known(self) -> dict[str, Joint]:
        return {joint.name: joint for joint in self.joints}

    def _close(self, table: TomlTable, *closures: Closure) -> None:
        for closure in closures:
            self.claim("closure", closure.name, table)
            self.closures.append(closure)

    def _add(self, table: TomlTable, *parts: Body | Joint) -> None:
        for part in parts:
            self.claim("body" if isinstance(part, Body) else "joint", part.name, table)
            if isinstance(part, Body):
                self.bodies.append(part)
            else:
                self.joints.append(part)

    def _read_tree(self, scope: Scope, bodies: list[TomlTable], joints: list[TomlTable]) -> None:
        for table in bodies:
            self._add(table, elements.read_body(table, scope))
        for table in joints:
            if table.data.get("type") == "fixed":
                child, frame = elements.read_fixed(table, scope)
                self.claim("joint", scope.full(table.name()), table)
                if child in self.fixed:
                    raise table.error(f"body '{child}' has two parents, both by fixed joints; keep one", "child")
                self.fixed[child] = frame
                continue
            chain = elements.read_joint(table, scope)
            self._add(table, *chain, *_massless(chain[:-1]))  # between the axes of a universal or spherical joint

    def _read_platform(self, table: TomlTable) -> str:
        """Read `[platform]` into a chain of virtual joints, one for each task coordinate; return its name."""
        table.check_keys(schema.PLATFORM)
        name = table.name("name", "platform")
        coordinates = table.words("coordinates", schema.TASK)
        if not coordinates:
            raise table.error("a platform needs at least one task coordinate", "coordinates")
        kinds = [schema.TASK[c] for c in coordinates]
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
            self.twist_limits[parts[kind]] = elements.read_limits(own, kind, effort=False)
        parent = BASE
        for coordinate in coordinates:
            kind = cast(Kind, schema.TASK[coordinate])
            bounds = elements.read_limits(limits.table(coordinate), kind, effort=False)
            value = start.number(coordinate, elements.POSITION[kind], 0.0)
            elements.check_start(start, value, bounds, coordinate)
            child = name if coordinate == coordinates[-1] else f"{name}.{coordinate}"
            if child != name:
                self._add(table, Body(name=child, parameters=()))
            self._add(table, Joint(
                name=f"{name}.{coordinate}", kind=kind, parent=parent, child=child, axis=cast(Axis, coordinate[-1]),
                virtual=True, limits=bounds, start=value))
            parent = child
        parameters, values = elements.read_inertia(table)
        self._add(table, Body(name=name, parameters=parameters, values=values, sources=table.sources()))
        return name


def _massless(joints: Sequence[Joint]) -> list[Body]:
    """Return massless bodies for joints to carry."""
    return [Body(name=joint.child, parameters=(), leg=joint.leg, template=joint.template) for joint in joints]


def _place_leg(leg: TomlTable, top: Scope) -> list[tuple[Scope, dict[str, list[TomlTable]]]]:
    """Return scope and tables of every instance of a leg, with `$key` replaced by the instance's value."""
    leg.check_keys(schema.LEG)
    template = leg.name()
    instances = leg.sections("instances", "leg.instances", f" of leg '{template}'")
    if not instances:
        raise leg.error("a leg needs at least one instance, such as {name = \"leg1\"}", "instances")
    placed = []
    for instance in instances:
        name = instance.name()
        instance.sources()
        base = instance.table("base")
        base.check_keys(schema.FRAME)
        frame = Frame(body=BASE, placement=elements.read_placement(base))
        if "body" in base:
            frame = top.frame(base, "body", frame.placement)
        used: set[str] = set()
        filled = _substitute({key: leg.data.get(key, []) for key in schema.PARTS}, instance, used)
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
        placed.append((Scope(leg=name, template=template, base=frame, inner=inner, outer=top.inner, terms=top.terms),
                       parts))
    return placed


def _substitute(value: Any, instance: TomlTable, used: set[str]) -> Any:
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


def _read_ties(table: TomlTable, tree: Mechanism) -> dict[Parameter, tuple[Parameter, ...]]:
    """Return the parameters shared by equal legs: `leg.rod.Ixx` -> (`leg1.rod.Ixx`, `leg2.rod.Ixx`, ...)."""
    table.check_keys(("parameters",))
    groups: dict[Parameter, list[Parameter]] = {}
    for body, joint in zip(tree.bodies, tree.joints):
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
