"""Bodies, joints, closures, payloads: one function for each kind of table in a robot file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.inertia import INERTIA_ENTRIES, parallel_axes
from gough.core.names import INERTIAL, inside_leg
from gough.core.units import dimension_of, is_unit, quantity
from gough.mechanism import schema
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY_PLACEMENT, Placement, joint_transform
from gough.mechanism.terms import (
    BUNDLES,
    JOINT_DIMENSIONS,
    TERMS,
    Constant,
    JointTerm,
    check_term_name,
)
from gough.mechanism.toml_table import TomlTable
from gough.mechanism.types import (
    BASE,
    Body,
    Closure,
    Frame,
    Joint,
    Kind,
    Limits,
    Noise,
    Payload,
    Transmission,
)

# Dimensions of position, velocity, acceleration and effort.
DIMENSIONS = {
    "prismatic": ("length", "velocity", "acceleration", "force"),
    "revolute": ("angle", "angular velocity", "angular acceleration", "torque"),
}
# Shorthands: how many revolute joints, about which axes of the placed frame, one after the other.
SHORTHANDS = {"universal": "xy", "spherical": "xyz"}
WORLD = Frame(body=BASE)
INVERTIBLE = 1e-9  # ratio of singular values of a transmission below which no gears could be built


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where the names in a table are looked up: the top level of the file, or one placed leg."""

    leg: str | None = None  # `leg1`
    template: str = ""  # its kind: `leg`
    base: Frame = WORLD  # what `base` means here
    inner: frozenset[str]  # bodies defined in this scope, as written
    outer: frozenset[str] = frozenset()  # bodies of the top level, usable inside a leg
    terms: Mapping[str, tuple[JointTerm, ...]] = field(
        default_factory=dict
    )  # by word; one may stand for several

    def full(self, name: str) -> str:
        return name if self.leg is None else f"{self.leg}.{name}"

    def names(self, name: str) -> dict[str, Any]:
        """Return full name, leg, and the name shared by the same thing in equal legs."""
        return {
            "name": self.full(name),
            "leg": self.leg,
            "template": "" if self.leg is None else f"{self.template}.{name}",
        }

    def frame(self, table: TomlTable, key: str) -> Frame:
        """Return the table's placement on the body a key names."""
        name, local = table.data[key], read_placement(table)
        if name == BASE:
            return Frame(body=self.base.body, placement=self.base.placement.then(local))
        if name in self.inner or name in self.outer:
            return Frame(body=self.full(name) if name in self.inner else name, placement=local)
        raise table.error(
            f"body '{name}' does not exist{nearest(name, (BASE, *self.inner, *self.outer))}", key
        )

    def child(self, table: TomlTable) -> str:
        name = table.data["child"]
        if name not in self.inner:
            raise table.error(f"body '{name}' does not exist{nearest(name, self.inner)}", "child")
        return self.full(name)

    def ends(self, table: TomlTable) -> dict[str, Any]:
        """Read the frames `a` and `b`."""
        for key in schema.FRAME_PAIR_KEYS:
            if key not in table:
                raise table.error("is required but missing", key)
        return {key: self.frame(table.table(key), "body") for key in schema.FRAME_PAIR_KEYS}


def read_placement(table: TomlTable) -> Placement:
    """Read a placement: `xyz` and `rpy`, or `polar = [radius, angle, z]`, or `mdh`; none of them is
    identity.
    """
    given = [key for key in ("polar", "mdh") if key in table]
    if len(given) > 1 or (given and ("xyz" in table or "rpy" in table)):
        raise table.error(
            "place by xyz and rpy, or by polar, or by mdh, not by two of them", given[0]
        )
    if "polar" in table:
        return Placement.polar(*table.numbers("polar", ("length", "angle", "length"), shortest=2))
    if "mdh" in table:
        mdh = table.table("mdh")
        return Placement.mdh(
            **{
                name: mdh.number(name, dimension, 0.0)
                for name, dimension in schema.MDH_DIMENSIONS.items()
            }
        )
    return Placement.xyz_rpy(
        table.numbers("xyz", ("length",) * 3), table.numbers("rpy", ("angle",) * 3)
    )


def read_inertia(table: TomlTable) -> dict[str, Any]:
    """Read which inertial parameters a body has and their values about its frame's origin.

    About the centre of mass c (`about = "com"`) the inertia moves by Steiner: I = I_c + m (c.c 1 -
    c c^T). Ixy, Ixz, Iyz are entries of the inertia matrix (Ixy = - integral of x y dm).
    """
    chosen = [key for key in ("parameters", "zero", "symmetric") if key in table]
    if len(chosen) > 1:
        raise table.error(
            f"'{chosen[0]}' and '{chosen[1]}' both select parameters; keep one", chosen[1]
        )
    parameters = tuple(
        p
        for p in INERTIAL
        if p in table.get("parameters", INERTIAL) and p not in table.get("zero", ())
    )
    if "symmetric" in table:
        parameters = ("m", f"m{table.data['symmetric']}", "Ixx", "Iyy", "Izz")
    dimensions = ("mass", *("first moment",) * 3, *("inertia",) * 6)
    values = {key: table.number(key, of) for key, of in zip(INERTIAL, dimensions) if key in table}
    mass, moments = values.get("m", 0.0), INERTIAL[1:4]
    if mass < 0:
        raise table.error(f"a mass cannot be negative, found {mass:g} kg", "m")
    if "com" in table:
        if twice := [key for key in moments if key in table]:
            raise table.error(
                f"both 'com' and '{twice[0]}' give the centre of mass; keep one", "com"
            )
        if "m" not in table:
            raise table.error("a centre of mass needs the mass 'm'", "com")
        values |= {key: mass * c for key, c in zip(moments, table.numbers("com", ("length",) * 3))}
    if table.get("about") == "com":
        if mass == 0.0:
            raise table.error(
                "inertia about the centre of mass needs a mass 'm' above zero", "about"
            )
        shift = parallel_axes(mass, np.array([values.get(key, 0.0) for key in moments]) / mass)
        about = {
            name: values.get(name, 0.0) + float(shift[place])
            for name, place in zip(INERTIAL[4:], INERTIA_ENTRIES)
        }
        values |= {name: value for name, value in about.items() if name in values or value != 0.0}
    for name, value in values.items():
        if name not in parameters and value != 0.0:
            key = name if name in table else "com" if "com" in table else "about"
            why = (
                ""
                if name in table
                else f"; it comes from 'com': leave out '{chosen[0]}', or give moments instead"
            )
            raise table.error(
                f"gives {name} = {value:g} (SI), but '{chosen[0]}' says the body has no "
                f"{name}{why}",
                key,
            )
    return {
        "parameters": parameters,
        "values": {name: values[name] for name in parameters if name in values},
    }


def read_body(table: TomlTable, scope: Scope) -> Body:
    """Read `[[body]]`."""
    return Body(**scope.names(table.name), **read_inertia(table))


def read_limits(table: TomlTable, kind: Kind) -> Limits:
    """Read the bounds of a joint or a task coordinate."""
    limits = Limits(
        **{
            name: table.positive(name, of)
            for name, of in zip(("velocity", "acceleration", "effort"), DIMENSIONS[kind][1:])
        }
    )
    if "position" not in table:
        return limits
    low, high = table.numbers("position", DIMENSIONS[kind][:1] * 2)
    if low >= high:
        raise table.error("expected [lowest, highest] with lowest below highest", "position")
    return replace(limits, position=(low, high))


def check_start(table: TomlTable, start: float, limits: Limits, key: str) -> None:
    """Raise unless the start lies within the position limits."""
    if limits.position is not None and not limits.position[0] <= start <= limits.position[1]:
        low, high = limits.position
        raise table.error(
            f"starts at {start:g}, outside the position limits {low:g} to {high:g} (SI)", key
        )


def read_terms(table: TomlTable, kind: Kind, scope: Scope) -> dict[str, Any]:
    """Read which terms a joint has and their a-priori coefficients."""
    for i, word in enumerate(table.get("terms", [])):
        if word not in scope.terms:
            raise table.error(f"unknown name '{word}'{nearest(word, scope.terms)}", f"terms[{i}]")
    terms = {term.name: term for word in table.get("terms", []) for term in scope.terms[word]}
    given, values = table.table("values"), {}
    for name in given.data:
        if name not in terms:
            raise given.error(
                f"the key 'terms' does not list '{name}'{nearest(name, terms or scope.terms)}", name
            )
        unit = terms[name].unit(kind)
        values[name] = given.number(name, dimension_of(unit) if is_unit(unit) else "none")
        if terms[name].nonnegative and values[name] < 0:
            raise given.error(
                f"{terms[name].label} cannot be negative, found {values[name]:g} {unit}", name
            )
    return {"terms": tuple(terms), "values": values}


def read_term(table: TomlTable) -> tuple[JointTerm, ...]:
    """Read `[[term]]`: a term of the robot's own, several that share their constants, or constants
    of a bundled one.
    """
    name, texts = table.name, table.get("expression")
    if texts is None:
        bundled = [term for term in TERMS.values() if term.family == name]
        if not bundled or any(key not in ("name", "constants") for key in table.data):
            raise table.error(
                "is required but missing; only a bundled term has one already, and then nothing "
                "but "
                "its constants can be given" + ("" if bundled else nearest(name, TERMS)),
                "expression",
            )
        usual = bundled[0].constants
        constants = _read_constants(table.table("constants"), usual)
        if unknown := [key for key in constants if key not in usual]:
            raise table.error(
                f"{bundled[0].label} has no such constant{nearest(unknown[0], usual)}",
                f"constants.{unknown[0]}",
            )
        return tuple(replace(term, constants={**term.constants, **constants}) for term in bundled)
    single, texts = isinstance(texts, str), [texts] if isinstance(texts, str) else texts
    if not texts:
        raise table.error("expected an expression, found none", "expression")
    given, terms = table.table("channels"), []
    constants, channels = (
        _read_constants(table.table("constants"), {}),
        {key: given.number(key) for key in given.data},
    )
    mentioned = [set(re.findall(r"\w+", text)) for text in texts]
    nowhere = {*constants, *channels} - set().union(*mentioned)  # an error of each
    for k, text in enumerate(texts):
        own, mine = name if len(texts) == 1 else f"{name}_{k + 1}", mentioned[k] | nowhere
        try:
            check_term_name(own, (*TERMS, *BUNDLES))
            terms.append(
                JointTerm(
                    name=own,
                    label=table.get("label", name),
                    units=(table.get("unit", ""),) * 2,
                    expression=text,
                    family=name,
                    constants={key: value for key, value in constants.items() if key in mine},
                    channels={key: value for key, value in channels.items() if key in mine},
                    fault_candidate=False,
                    nonnegative=table.get("nonnegative", False),
                    dissipative=table.get("friction", False),
                    coulomb=table.number("coulomb"),
                )
            )
        except InvalidInput as error:
            where = "expression" if single else f"expression[{k}]"
            raise table.error(
                str(error),
                where
                if "position" in error.numbers
                else "name"
                if error.numbers.get("name") == own
                else None,
            ) from None
    return tuple(terms)


def _read_constants(given: TomlTable, usual: Mapping[str, Constant]) -> dict[str, Constant]:
    """Read the constants of a term: a number, text such as '14.8 mm', or { start, fit, low, high
    }.
    """
    found = {}
    for name, content in given.data.items():
        free = isinstance(content, Mapping)
        entry, key = (given.table(name), "start") if free else (given, name)
        known, first = usual.get(name, Constant(value=0.0)), entry.data[key]
        dimension = known.dimension
        if isinstance(first, str):
            try:
                dimension = dimension_of(quantity(first)[1])
            except InvalidInput as error:
                raise entry.error(str(error), key) from None
            if known.dimension and dimension not in JOINT_DIMENSIONS.get(
                known.dimension, (known.dimension,)
            ):
                raise entry.error(
                    f"'{first}' measures {dimension}, expected {known.dimension}", key
                )
        elif dimension in JOINT_DIMENSIONS:
            raise entry.error(f"give a unit: {' or '.join(JOINT_DIMENSIONS[dimension])}", key)
        of = dimension or "none"
        low, high = (
            (entry.number("low", of, -np.inf), entry.number("high", of, np.inf))
            if free
            else (-np.inf, np.inf)
        )
        found[name] = Constant(
            value=entry.number(key, of),
            dimension=dimension,
            fit=free and entry.get("fit", True),
            low=low,
            high=high,
        )
        if not low <= found[name].value <= high:
            raise entry.error(
                f"starts at {found[name].value:g}, outside of {low:g} to {high:g} (SI)", key
            )
    return found


def read_joint(table: TomlTable, scope: Scope) -> list[Joint]:
    """Read `[[joint]]`; universal and spherical joints become two or three revolute ones."""
    kind = table.data["type"]
    table.only(schema.SHORTHAND_JOINT_KEYS if kind in SHORTHANDS else schema.SINGLE_JOINT_KEYS)
    at, child = scope.frame(table, "parent"), scope.child(table)
    if kind in SHORTHANDS:
        return _expand(table, scope, at, child)
    if "gain" in table and not table.get("actuated"):
        raise table.error("only actuated joints have a drive gain", "gain")
    axis = table.get("axis", "z")
    if isinstance(axis, list):
        axis = table.numbers("axis", ("none",) * 3)
        if not any(axis):
            raise table.error(
                "the axis has no direction; one of its three numbers must not be zero", "axis"
            )
    elif len(axis) == 2:
        axis = tuple(-float(axis[1] == letter) for letter in "xyz")
    joint = _coordinate(
        table,
        scope,
        kind,
        parent=at.body,
        child=child,
        placement=at.placement,
        axis=axis,
        actuated=table.get("actuated", False),
        start=table.number("start", DIMENSIONS[kind][0], 0.0),
    )
    check_start(table, joint.start, joint.limits, "start")
    if "offset" not in table:
        return [joint]
    zero = Placement.of(
        joint_transform(kind, joint.direction, table.number("offset", DIMENSIONS[kind][0]))
    )
    return [replace(joint, placement=joint.placement.then(zero))]


def _coordinate(table: TomlTable, scope: Scope, kind: Kind, **rest: Any) -> Joint:
    """Read limits, terms and gain of a joint; by itself it is a massless body on the base, of the
    joint's name.
    """
    names = scope.names(table.name)
    return Joint(
        **{"parent": BASE, "child": names["name"], **names, **rest},
        kind=kind,
        limits=read_limits(table.table("limits"), kind),
        **read_terms(table, kind, scope),
        gain=table.positive("gain", "gain"),
    )


def _expand(table: TomlTable, scope: Scope, at: Frame, child: str) -> list[Joint]:
    """Turn a universal or spherical joint into revolute ones, with massless bodies between.

    At zero the child's frame is the placed frame; R = Rot(axes[0], start[0]) Rot(axes[1], start[1])
    ...
    """
    usual = SHORTHANDS[table.data["type"]]
    axes, count = table.get("axes", usual), len(usual)
    if len(axes) != count or set(axes) - set("xyz") or any(a == b for a, b in pairwise(axes)):
        raise table.error(
            f"expected {count} of the axes x, y, z, neighbours different, such as '{usual}'; "
            f"found '{axes}'",
            "axes",
        )
    names = table.get("names", [f"{table.name}.{i + 1}" for i in range(count)])
    if len(names) != count:
        raise table.error(f"expected {count} names, found {len(names)}", "names")
    starts, terms = table.numbers("start", ("angle",) * count), read_terms(table, "revolute", scope)
    bodies = [at.body, *(scope.full(name) for name in names[:-1]), child]
    return [
        Joint(
            **scope.names(names[i]),
            kind="revolute",
            parent=bodies[i],
            child=bodies[i + 1],
            axis=axes[i],
            placement=IDENTITY_PLACEMENT if i else at.placement,
            start=starts[i],
            **terms,
        )
        for i in range(count)
    ]


def read_closure(table: TomlTable, scope: Scope, joints: Mapping[str, Joint]) -> Closure:
    """Read `[[closure]]`."""
    kind = CLOSURES[table.data["kind"]]
    table.only(
        (
            *schema.CLOSURE_KEYS,
            *(schema.FRAME_PAIR_KEYS if kind.frames else ()),
            *kind.values,
            *(schema.COEFFICIENT_KEYS if kind.has_coefficients else ()),
        )
    )
    ends = scope.ends(table) if kind.frames else {}
    for key in kind.values:
        if key not in table:
            raise table.error("is required but missing", key)
    values = {key: table.positive(key, dimension) for key, dimension in kind.values.items()}
    given, coefficients = table.table("coefficients"), {}
    for short in given.data:
        full = scope.full(short)
        if full not in joints:
            near = (
                inside_leg(j.name, scope.leg) for j in joints.values() if scope.leg in (None, j.leg)
            )
            raise given.error(f"joint '{short}' does not exist{nearest(short, near)}", short)
        coefficients[full] = given.number(short)
    if kind.has_coefficients and not coefficients:
        raise table.error(
            f"a {kind.name} needs the coefficients of at least one joint", "coefficients"
        )
    kinds = {joints[j].kind for j in coefficients}
    dimension = (
        "length" if kind.frames else DIMENSIONS[kinds.pop()][0] if len(kinds) == 1 else "none"
    )
    return Closure(
        name=scope.full(table.name),
        kind=kind.name,
        **ends,
        values=values,
        coefficients=coefficients,
        constant=table.number("constant", dimension, 0.0),
    )


def read_transmission(
    table: TomlTable,
    scope: Scope,
    joints: Mapping[str, Joint],
) -> tuple[Transmission, list[Joint], list[Closure]]:
    """Read `[[transmission]]`: a massless rotor on the base for each motor, and a coupling for each
    joint.
    """
    name, driven = table.name, tuple(scope.full(joint) for joint in table.data["joints"])
    for k, joint in enumerate(driven):
        if joint not in joints or joints[joint].actuated:
            what = (
                "is a motor itself"
                if joint in joints
                else f"does not exist{nearest(joint, joints)}"
            )
            raise table.error(f"joint '{joint}' {what}", f"joints[{k}]")
    tables = table.tables("motor")
    if len(tables) != len(driven):
        raise table.error(
            f"{len(driven)} joints need as many [[transmission.motor]] tables, found {len(tables)}",
            "motor",
        )
    matrix = np.array(table.matrix("matrix", len(driven)))
    values = np.linalg.svd(matrix, compute_uv=False)
    if not values[-1] > INVERTIBLE * values[0]:
        raise table.error(
            f"the matrix is not invertible (singular values {values[0]:.3g} to {values[-1]:.1e}): "
            f"some "
            "motion of the joints moves no motor; check its rows",
            "matrix",
        )
    start = np.linalg.solve(matrix, [joints[joint].start for joint in driven])
    motors = [
        _coordinate(own, scope, own.get("type", "revolute"), start=float(at), actuated=True)
        for own, at in zip(tables, start)
    ]
    for own, motor in zip(tables, motors):
        check_start(own, motor.start, motor.limits, "limits")
    couplings = [
        Closure(
            name=scope.full(f"{name}.{inside_leg(joint, scope.leg)}"),
            kind="coupling",
            coefficients={
                joint: 1.0,
                **{motor.name: -float(b) for motor, b in zip(motors, row) if b},
            },
        )
        for joint, row in zip(driven, matrix)
    ]
    sides = {key: table.get(key, "joints") for key in ("positions", "efforts")}
    return (
        Transmission(
            name=scope.full(name),
            motors=tuple(motor.name for motor in motors),
            joints=driven,
            matrix=matrix,
            **sides,
        ),
        motors,
        couplings,
    )


def read_force(table: TomlTable, scope: Scope) -> tuple[Joint, Closure]:
    """Read `[[force]]`: a massless slider on the base, and the closure that makes it the length
    between two points.
    """
    actuated, rest = table.get("actuated", False), table.number("rest", "length", 0.0)
    if "gain" in table and not actuated:
        raise table.error("only what is actuated has a drive gain", "gain")
    if rest < 0:
        raise table.error(f"expected a length, found {rest:g} m", "rest")
    joint = _coordinate(table, scope, "prismatic", actuated=actuated)
    return joint, Closure(
        name=joint.name,
        kind="length",
        **scope.ends(table),
        coefficients={joint.name: -1.0},
        constant=-rest,
    )


def read_payload(table: TomlTable, bodies: Iterable[str], usual: str) -> Payload:
    """Read `[[payload]]`; it is fixed to the platform unless it names another body."""
    inertia = read_inertia(table)
    for i, name in enumerate(table.get("known", [])):
        if name not in inertia["values"]:
            raise table.error(f"'{name}' is said to be known but has no value", f"known[{i}]")
    scope = Scope(inner=frozenset(bodies))
    at = (
        scope.frame(table, "body")
        if "body" in table
        else Frame(body=usual, placement=read_placement(table))
    )
    return Payload(
        name=table.name,
        body=at.body,
        placement=at.placement,
        known=tuple(table.get("known", [])),
        **inertia,
    )


def read_noise(table: TomlTable, kinds: set[Kind]) -> Noise:
    """Read `[noise]`; plain numbers are in the units of the motors, or SI if these are of both
    kinds.
    """
    position, _, _, effort = DIMENSIONS[next(iter(kinds))] if len(kinds) == 1 else ("none",) * 4
    usual = Noise()
    noise = Noise(
        position=table.number("position", position, usual.position),
        effort=table.number("effort", effort, usual.effort),
        correlation=table.number("correlation", "none", usual.correlation),
        resolution=table.positive("resolution", position),
        rate=table.positive("rate", "frequency", usual.rate),
    )
    for key in ("position", "effort"):
        if getattr(noise, key) < 0:
            raise table.error("a standard deviation cannot be negative", key)
    if not -1 < noise.correlation < 1:
        raise table.error("expected a correlation between -1 and 1", "correlation")
    return noise
