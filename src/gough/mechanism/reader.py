"""Read a robot file (TOML) into a `Mechanism`. The format is described in docs/robot-file.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

from gough.core.documents import parse_toml
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.files import MAX_ROBOT_BYTES
from gough.core.names import INERTIAL, PAYLOAD, Parameter
from gough.core.units import conversion
from gough.mechanism import element_readers, schema
from gough.mechanism.element_readers import QUANTITY_DIMENSIONS, Scope
from gough.mechanism.fixed_joints import (
    attach_closure,
    attach_joint,
    merge_bodies,
    moving_frame,
)
from gough.mechanism.term_reader import TermsByWord, read_term, with_terms
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
    Payload,
    Transmission,
    Vector,
)

ROBOT_FILE_FORMAT = 1
_STANDARD_GRAVITY = (0.0, 0.0, -9.80665)  # [m/s2]


def parse_robot(text: str, source: str) -> Mechanism:
    """Turn the text of a robot file into a mechanism.

    Args:
        text: Content of the file.
        source: Name of the file, for errors and `Mechanism.source`.
    """
    check_robot_size(len(text), source)
    if not text.strip():
        raise InvalidMechanism(f"{source}: the file is empty", file=source)
    try:
        return _read_mechanism(TomlTable(parse_toml(text), TOP_LEVEL, source))
    except InvalidInput as error:
        raise InvalidMechanism(f"{source}: not valid TOML: {error}", file=source) from None


def check_robot_size(length: int, source: str) -> None:
    """Raise if a text is too large for a robot. [bytes or characters]"""
    if length > MAX_ROBOT_BYTES:
        raise InvalidMechanism(
            f"{source}: {length / 1e6:.1f} MB is too large for a robot file (at most "
            f"{MAX_ROBOT_BYTES / 1e6:g} MB); is this a recording?",
            file=source,
            size=length,
        )


def _read_mechanism(root: TomlTable) -> Mechanism:
    version = root.number("format", default=ROBOT_FILE_FORMAT)
    if version != ROBOT_FILE_FORMAT:
        raise root.error(
            f"format {version:g} is not supported; this version of Gough reads format "
            f"{ROBOT_FILE_FORMAT}",
            "format",
        )
    # Without the table [units], its first key is reported as missing.
    root = replace(root, data={"units": {}, **root.data})
    root.check(schema.robot())
    gravity: tuple[float, ...] = _STANDARD_GRAVITY
    if "gravity" in root:  # always in SI: the file's units are not yet set
        gravity = root.numbers("gravity", ("acceleration",) * 3)
    units = root.data["units"]
    factors = unit_factors(*(conversion(units[dimension]) for dimension in schema.UNIT_KEYS))
    root = replace(root, factors=factors)
    reader = _ElementReader(root)
    try:
        return _assemble_mechanism(root, reader, cast(Vector, gravity))
    except InvalidMechanism as error:
        if "table" in error.numbers:
            raise
        numbers = error.numbers
        table = reader.tables.get((numbers.get("part"), numbers.get("name")), root)
        raise table.error(str(error), cast(str | None, numbers.get("key"))) from None


def _assemble_mechanism(root: TomlTable, reader: _ElementReader, gravity: Vector) -> Mechanism:
    """Build the mechanism; errors of its own checks are not yet placed in the file."""
    fixed = reader.fixed
    mechanism = Mechanism(
        name=root.name,
        title=root.get("title", ""),
        reference=root.get("reference", ""),
        source=root.file,
        bodies=tuple(merge_bodies(reader.bodies, fixed)),
        joints=tuple(attach_joint(joint, fixed) for joint in reader.joints),
        closures=tuple(attach_closure(closure, fixed) for closure in reader.closures),
        transmissions=tuple(reader.transmissions),
        platform=reader.platform,
        twist_limits=reader.twist_limits,
        redundant=root.get("redundant", False),
        gravity=gravity,
        custom_terms=reader.custom_terms,
    )
    payloads = reader.read_payloads(root, mechanism)
    motor_kinds = {joint.kind for joint in mechanism.joints if joint.actuated}
    return replace(
        mechanism,
        payloads=tuple(payloads),
        ties=_read_ties(root.table("tie"), mechanism),
        uncertainty=_read_uncertainty(root, mechanism),
        noise=element_readers.read_noise(root.table("noise"), motor_kinds),
    )


class _ElementReader:
    """Elements of a robot file under their full names, and the tables they were read from."""

    def __init__(self, root: TomlTable) -> None:
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.closures: list[Closure] = []
        self.transmissions: list[Transmission] = []
        self.fixed: dict[str, Frame] = {}  # see `fixed_joints.FixedBodies`
        self.tables: dict[tuple[object, object], TomlTable] = {}  # by kind and name of element
        self.twist_limits: dict[str, Limits] = {}
        self.custom_terms: dict[str, JointTerm] = {}
        self.platform: str | None = None
        names = [table.name for table in root.tables("body")]
        if "platform" in root:
            self.platform = self._read_platform(root.table("platform"))
            names.append(self.platform)
        top = Scope(inner=frozenset(names), terms=self._read_terms(root))
        self._read_tree(top, root)
        scopes: list[tuple[Scope, TomlTable]] = []
        for leg in root.tables("leg"):
            self.claim("leg", leg.name, leg)
            for instance in _leg_instances(leg):
                scope, elements = _place_leg(leg, instance, top)
                self.claim("leg instance", instance.name, leg)
                self._read_tree(scope, elements)
                scopes.append((scope, elements))
        all_bodies = frozenset(body.name for body in self.bodies)
        scopes.append((replace(top, inner=all_bodies), root))
        for scope, elements in scopes:
            self._read_drives(scope, elements)
        self._give_terms(root)
        for scope, elements in scopes:
            joints = self._joints_by_name()
            for table in elements.tables("closure"):
                self._add(table, element_readers.read_closure(table, scope, joints))

    def claim(self, kind: str, name: str, table: TomlTable) -> None:
        """Raise if a name is taken or reserved."""
        if name == BASE:
            raise table.error(f"'{BASE}' is the fixed body; choose another name", "name")
        if name == PAYLOAD and kind not in ("closure", "payload"):
            raise table.error(
                f"'{PAYLOAD}' is reserved for the parameters of payloads; choose another name",
                "name",
            )
        if (kind, name) in self.tables:
            raise table.error(
                f"{kind} '{name}' is defined twice (also in {self.tables[kind, name].place}); "
                "names must be unique",
                "name",
            )
        self.tables[kind, name] = table

    def _joints_by_name(self) -> dict[str, Joint]:
        return {joint.name: joint for joint in self.joints}

    def _add(self, table: TomlTable, *elements: Body | Joint | Closure) -> None:
        """Add elements that were read from a table."""
        lists: dict[type, list[Any]] = {
            Body: self.bodies,
            Joint: self.joints,
            Closure: self.closures,
        }
        for element in elements:
            kind = type(element)
            self.claim(kind.__name__.lower(), element.name, table)
            lists[kind].append(element)

    def _read_terms(self, root: TomlTable) -> TermsByWord:
        """Read `[[term]]`; return all terms by the words that joints may use for them."""
        families: dict[str, tuple[JointTerm, ...]] = {}
        for table in root.tables("term"):
            self.claim("term", table.name, table)
            families[table.name] = read_term(table)
            for term in families[table.name]:
                self.custom_terms[term.name] = term
                self.tables["term", term.name] = table
        known = {**TERMS, **self.custom_terms}
        words: dict[str, tuple[JointTerm, ...]] = {name: (term,) for name, term in known.items()}
        words |= families
        for word, names in BUNDLES.items():
            words[word] = tuple(known[name] for name in names)
        return words

    def _give_terms(self, root: TomlTable) -> None:
        """Give terms to the joints that `joints` of a `[[term]]` names."""
        for table in root.tables("term"):
            family = [term for term in self.custom_terms.values() if term.family == table.name]
            for i, name in enumerate(table.get("joints", [])):
                joints = self._joints_by_name()
                if name not in joints:
                    message = f"no joint '{name}'{nearest(name, joints)}"
                    raise table.error(message, f"joints[{i}]")
                position = list(joints).index(name)
                self.joints[position] = with_terms(joints[name], family)

    def _read_tree(self, scope: Scope, elements: TomlTable) -> None:
        """Read bodies and joints."""
        for table in elements.tables("body"):
            self._add(table, element_readers.read_body(table, scope))
        for table in elements.tables("joint"):
            if table.data["type"] == "fixed":
                self._read_fixed_joint(table, scope)
                continue
            chain = element_readers.read_joint(table, scope)
            # The axes of a universal or spherical joint have massless
            # bodies between them.
            self._add(table, *chain, *_massless_bodies(chain[:-1]))

    def _read_fixed_joint(self, table: TomlTable, scope: Scope) -> None:
        table.only(schema.FIXED_JOINT_KEYS)
        child = scope.child(table)
        self.claim("joint", scope.full(table.name), table)
        if child in self.fixed:
            message = f"body '{child}' has two parents, both by fixed joints; keep one"
            raise table.error(message, "child")
        self.fixed[child] = scope.frame(table, "parent")

    def _read_drives(self, scope: Scope, elements: TomlTable) -> None:
        """Read transmissions and force elements."""
        for table in elements.tables("transmission"):
            transmission, motors, couplings = element_readers.read_transmission(
                table, scope, self._joints_by_name()
            )
            self.transmissions.append(transmission)
            self._add(table, *motors, *_massless_bodies(motors), *couplings)
        for table in elements.tables("force"):
            slider, closure = element_readers.read_force(table, scope)
            self._add(table, slider, *_massless_bodies([slider]), closure)

    def _read_platform(self, table: TomlTable) -> str:
        """Read `[platform]` into a chain of virtual joints; return its name.

        There is one joint for each task coordinate.
        """
        name = str(table.get("name", "platform"))
        coordinates = table.data["coordinates"]
        if not coordinates:
            raise table.error("a platform needs at least one task coordinate", "coordinates")
        kinds = [cast(Kind, schema.TASK_JOINT_KINDS[coordinate]) for coordinate in coordinates]
        if kinds != sorted(kinds):
            raise table.error(
                "list translations before angles, so that they are measured in the base frame",
                "coordinates",
            )
        starts = table.table("start")
        starts.only(coordinates)
        limits = table.table("limits")
        self._read_twist_limits(limits, coordinates, kinds)
        parent = BASE
        for coordinate, kind in zip(coordinates, kinds):
            bounds = element_readers.read_limits(limits.table(coordinate), kind)
            start = starts.number(coordinate, QUANTITY_DIMENSIONS[kind]["position"], 0.0)
            element_readers.check_start(starts, start, bounds, coordinate)
            child = f"{name}.{coordinate}"
            if coordinate == coordinates[-1]:
                child = name
            else:
                self._add(table, Body(name=child, parameters=()))
            joint = Joint(
                name=f"{name}.{coordinate}",
                kind=kind,
                parent=parent,
                child=child,
                axis=coordinate[-1],
                virtual=True,
                limits=bounds,
                start=start,
            )
            self._add(table, joint)
            parent = child
        self._add(table, Body(name=name, **element_readers.read_inertia(table)))
        return name

    def _read_twist_limits(
        self,
        limits: TomlTable,
        coordinates: Sequence[str],
        kinds: Sequence[Kind],
    ) -> None:
        """Read bounds of the platform as a whole: `translation` and `rotation`."""
        words: dict[str, Kind] = {}
        if "prismatic" in kinds:
            words["translation"] = "prismatic"
        if "revolute" in kinds:
            words["rotation"] = "revolute"
        limits.only((*coordinates, *words))
        for word, kind in words.items():
            if word in limits:
                self.twist_limits[word] = element_readers.read_limits(limits.table(word), kind)

    def read_payloads(self, root: TomlTable, mechanism: Mechanism) -> list[Payload]:
        """Read `[[payload]]`; each is placed on the body that it moves with."""
        bodies = {*self.fixed, *(body.name for body in mechanism.bodies)}
        payloads = []
        for table in root.tables("payload"):
            self.claim("payload", table.name, table)
            payload = element_readers.read_payload(table, bodies, mechanism.flange)
            frame = Frame(body=payload.body, placement=payload.placement)
            frame = moving_frame(frame, self.fixed)
            payloads.append(replace(payload, body=frame.body, placement=frame.placement))
        return payloads


def _massless_bodies(joints: Sequence[Joint]) -> list[Body]:
    """Return massless bodies for joints to carry."""
    bodies = []
    for joint in joints:
        body = Body(
            name=joint.child,
            parameters=(),
            leg=joint.leg,
            template=joint.template,
        )
        bodies.append(body)
    return bodies


def _leg_instances(leg: TomlTable) -> list[TomlTable]:
    if not leg.get("instances"):
        raise leg.error(
            'a leg needs at least one instance, such as {name = "leg1"}',
            "instances",
        )
    return leg.tables("instances")


def _place_leg(leg: TomlTable, instance: TomlTable, top: Scope) -> tuple[Scope, TomlTable]:
    """Return scope and elements of a leg, with `$key` replaced by the instance's value."""
    base = instance.table("base")
    if "body" in base:
        frame = top.frame(base, "body")
    else:
        frame = Frame(body=BASE, placement=element_readers.read_placement(base))
    reserved = ("name", "base", *schema.SOURCE_KEYS)
    given = {key: value for key, value in instance.data.items() if key not in reserved}
    used: set[str] = set()
    written = {key: leg.get(key, []) for key in schema.ELEMENT_TABLES}
    filled = _substitute(written, instance, given, used)
    for key in given:
        if key not in used:
            hint = nearest(key, ("name", "base", *used))
            raise instance.error(f"unknown key: the leg does not use '${key}'{hint}", key)
    elements = replace(leg, data=filled, owner=f" of {instance.name}")
    elements.check({"properties": schema.element_tables()})
    inner = set()
    for table in elements.tables("body"):
        if table.name in top.inner:
            raise table.error(
                f"the robot already has a body '{table.name}' outside the leg; choose another name",
                "name",
            )
        inner.add(table.name)
    scope = replace(
        top,
        leg=instance.name,
        template=leg.name,
        base=frame,
        inner=frozenset(inner),
        outer=top.inner,
    )
    return scope, elements


def _substitute(written: Any, instance: TomlTable, given: Mapping[str, Any], used: set[str]) -> Any:
    """Replace every text `$key` by the instance's value of that key; note the used keys."""
    if isinstance(written, Mapping):
        return {key: _substitute(v, instance, given, used) for key, v in written.items()}
    if isinstance(written, list):
        return [_substitute(v, instance, given, used) for v in written]
    if not isinstance(written, str) or not written.startswith("$"):
        return written
    key = written[1:]
    if key not in given:
        hint = nearest(key, given)
        raise instance.error(
            f"the leg uses '{written}', which this instance does not give{hint}",
            key,
        )
    used.add(key)
    return given[key]


def _read_uncertainty(root: TomlTable, mechanism: Mechanism) -> tuple[tuple[str, float], ...]:
    """Return the relative uncertainty of values of the file, by pattern of their names."""
    names = mechanism.standard.names
    patterns: list[tuple[str, float]] = []
    for table in root.tables("uncertainty"):
        relative = table.positive("relative")
        for i, pattern in enumerate(table.get("parameters", ["*"])):
            if not any(fnmatchcase(name, pattern) for name in names):
                message = f"no parameter matches '{pattern}'{nearest(pattern, list(names))}"
                raise table.error(message, f"parameters[{i}]")
            patterns.append((pattern, relative))
    return tuple(patterns)


def _read_ties(table: TomlTable, mechanism: Mechanism) -> dict[Parameter, tuple[Parameter, ...]]:
    """Return the parameters shared by equal legs.

    For instance `leg.rod.Ixx` -> (`leg1.rod.Ixx`, `leg2.rod.Ixx`, ...).
    """
    groups = _parameters_by_template(mechanism)
    tied: set[Parameter] = set()
    for i, pattern in enumerate(table.get("parameters", [])):
        # written without the leg's name, or with it where two kinds of
        # legs differ
        matching = []
        for name in groups:
            if fnmatchcase(name, pattern) or fnmatchcase(name.local, pattern):
                matching.append(name)
        if not matching:
            hint = nearest(pattern, [name.local for name in groups])
            message = f"no parameter of a leg matches '{pattern}'{hint}"
            raise table.error(message, f"parameters[{i}]")
        tied.update(matching)
    standard = set[Parameter]().union(*groups.values())
    for name in sorted(tied & standard):
        if groups[name] != [name]:
            raise table.error(
                f"the tied parameter '{name}' has the name of a parameter of the leg '{name.leg}'; "
                "name the kind of leg differently from its instances",
                "parameters",
            )
    return {name: tuple(members) for name, members in groups.items() if name in tied}


def _parameters_by_template(
    mechanism: Mechanism,
) -> dict[Parameter, list[Parameter]]:
    """Return the parameters of all legs, by their name in the kind of leg."""
    groups: dict[Parameter, list[Parameter]] = {}
    for body, joint in zip(mechanism.bodies, mechanism.joints):
        inertial = [name for name in INERTIAL if name in body.parameters]
        for element, kinds in ((body, inertial), (joint, joint.terms)):
            if element.leg is None:
                continue
            for kind in kinds:
                template = Parameter.of(element.template, kind)
                groups.setdefault(template, []).append(Parameter.of(element.name, kind))
    return groups
