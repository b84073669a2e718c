"""Bodies, joints, closures, payloads: one function for each kind of table in a robot file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, TypeVar, cast

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.inertia import PLACES, parallel_axes
from gough.core.names import INERTIAL, inside_leg
from gough.core.units import dimension_of, is_unit, quantity
from gough.mechanism import schema
from gough.mechanism.closures import CLOSURES
from gough.mechanism.formats.geometry import moved
from gough.mechanism.placement import Placement
from gough.mechanism.terms import BUNDLES, JOINT_DIMENSIONS, TERMS, Constant, JointTerm, check_term_name
from gough.mechanism.toml_table import TomlTable
from gough.mechanism.types import BASE, Body, Closure, Frame, Joint, Limits, Noise, Payload

T = TypeVar("T")
Kind = Literal["revolute", "prismatic"]
Axis = Literal["x", "y", "z"]
Vector = tuple[float, float, float]

# Dimensions of (prismatic, revolute) joints.
POSITION = {"prismatic": "length", "revolute": "angle"}
VELOCITY = {"prismatic": "velocity", "revolute": "angular velocity"}
ACCELERATION = {"prismatic": "acceleration", "revolute": "angular acceleration"}
EFFORT = {"prismatic": "force", "revolute": "torque"}
# Shorthands: how many revolute joints, about which axes of the placed frame, one after the other.
SHORTHANDS = {"universal": "xy", "spherical": "xyz"}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where the names in a table are looked up: the top level of the file, or one placed leg.

    Args:
        leg: Name of the placed leg (`leg1`), None at the top level.
        template: Name of the leg's template (`leg`).
        base: What `base` means here.
        inner: Names of the bodies defined in this scope, as written.
        outer: Names of the bodies of the top level, usable inside a leg.
        terms: Joint terms that may be listed, by the words of a robot file; a word may stand for several.
    """

    leg: str | None = None
    template: str = ""
    base: Frame = field(default_factory=lambda: Frame(body=BASE))
    inner: frozenset[str]
    outer: frozenset[str]
    terms: Mapping[str, tuple[JointTerm, ...]] = field(default_factory=lambda: term_words({}, {}))

    def full(self, name: str) -> str:
        return name if self.leg is None else f"{self.leg}.{name}"

    def kin(self, name: str) -> str:
        """Return the name shared by the same thing in equal legs."""
        return "" if self.leg is None else f"{self.template}.{name}"

    def frame(self, table: TomlTable, key: str, local: Placement) -> Frame:
        """Return a placement on the body a key names."""
        name = table.text(key)
        if name == BASE:
            return Frame(body=self.base.body, placement=self.base.placement.then(local))
        if name in self.inner:
            return Frame(body=self.full(name), placement=local)
        if name in self.outer:
            return Frame(body=name, placement=local)
        raise table.error(f"body '{name}' does not exist{nearest(name, (BASE, *self.inner, *self.outer))}", key)


def read_placement(table: TomlTable) -> Placement:
    """Read a placement: `xyz` and `rpy`, or `polar = [radius, angle, z]`, or `mdh`; none of them is identity."""
    given = [key for key in ("polar", "mdh") if key in table]
    if len(given) > 1 or (given and ("xyz" in table or "rpy" in table)):
        raise table.error("place by xyz and rpy, or by polar, or by mdh, not by two of them", given[0])
    if "polar" in table:
        return Placement.polar(*table.numbers("polar", ("length", "angle", "length"), shortest=2))
    if "mdh" in table:
        mdh = table.table("mdh")
        mdh.check_keys(schema.MDH)
        return Placement.mdh(**{name: mdh.number(name, dimension, 0.0) for name, dimension in schema.MDH.items()})
    origin = (0.0, 0.0, 0.0)
    xyz = table.numbers("xyz", ("length",) * 3) if "xyz" in table else origin
    rpy = table.numbers("rpy", ("angle",) * 3) if "rpy" in table else origin
    return Placement.xyz_rpy(cast(tuple[float, float, float], xyz), cast(tuple[float, float, float], rpy))


def read_inertia(table: TomlTable) -> tuple[tuple[str, ...], dict[str, float]]:
    """Read which inertial parameters a body has and their values about its frame's origin.

    About the centre of mass c (`about = "com"`) the inertia moves by Steiner: I = I_c + m (c.c 1 - c c^T).
    Ixy, Ixz, Iyz are entries of the inertia matrix (Ixy = - integral of x y dm).
    """
    chosen = [key for key in ("parameters", "zero", "symmetric") if key in table]
    if len(chosen) > 1:
        raise table.error(f"'{chosen[0]}' and '{chosen[1]}' both select parameters; keep one", chosen[1])
    parameters: tuple[str, ...] = INERTIAL
    if "parameters" in table:
        parameters = tuple(p for p in INERTIAL if p in table.words("parameters", INERTIAL))
    elif "zero" in table:
        parameters = tuple(p for p in INERTIAL if p not in table.words("zero", INERTIAL))
    elif "symmetric" in table:
        axis = table.choice("symmetric", ("x", "y", "z"))
        parameters = ("m", f"m{axis}", "Ixx", "Iyy", "Izz")
    values = {"m": table.number("m", "mass")} if "m" in table else {}
    if values.get("m", 0.0) < 0:
        raise table.error(f"a mass cannot be negative, found {values['m']:g} kg", "m")
    moments = [key for key in ("mx", "my", "mz") if key in table]
    values |= {key: table.number(key, "first moment") for key in moments}
    if "com" in table:
        if moments:
            raise table.error(f"both 'com' and '{moments[0]}' give the centre of mass; keep one", "com")
        if "m" not in table:
            raise table.error("a centre of mass needs the mass 'm'", "com")
        com = table.numbers("com", ("length",) * 3)
        values |= {key: values["m"] * c for key, c in zip(("mx", "my", "mz"), com)}
    inertia = [key for key in INERTIAL if key.startswith("I") and key in table]
    values |= {key: table.number(key, "inertia") for key in inertia}
    if table.choice("about", ("frame", "com"), "frame") == "com":
        values |= _about_frame(table, values)
    for name, value in values.items():
        if name not in parameters and value != 0.0:
            key = name if name in table else next((k for k in ("com", "about") if k in table), None)
            moved = "" if name in table else f"; it comes from 'com': leave out '{chosen[0]}', or give moments instead"
            raise table.error(
                f"gives {name} = {value:g} (SI), but '{chosen[0]}' says the body has no {name}{moved}", key)
    return parameters, {name: values[name] for name in parameters if name in values}


def _about_frame(table: TomlTable, values: dict[str, float]) -> dict[str, float]:
    """Move the inertia from the centre of mass to the frame's origin."""
    mass = values.get("m", 0.0)
    if mass == 0.0:
        raise table.error("inertia about the centre of mass needs a mass 'm' above zero", "about")
    shift = parallel_axes(mass, np.array([values.get(key, 0.0) for key in ("mx", "my", "mz")]) / mass)
    moved = {name: values.get(name, 0.0) + float(shift[place]) for name, place in zip(INERTIAL[4:], PLACES)}
    return {name: value for name, value in moved.items() if name in values or value != 0.0}


def read_body(table: TomlTable, scope: Scope) -> Body:
    """Read `[[body]]`."""
    table.check_keys((*schema.NAMED, *schema.INERTIA))
    name = table.name()
    parameters, values = read_inertia(table)
    return Body(name=scope.full(name), parameters=parameters, values=values, leg=scope.leg, template=scope.kin(name),
                sources=table.sources())


def read_limits(table: TomlTable, kind: Kind, *, effort: bool = True) -> Limits:
    """Read the bounds of a joint or a task coordinate."""
    table.check_keys(schema.LIMITS if effort else schema.BOUNDS)
    position = None
    if "position" in table:
        low, high = table.numbers("position", (POSITION[kind],) * 2)
        if low >= high:
            raise table.error("expected [lowest, highest] with lowest below highest", "position")
        position = (low, high)
    return Limits(position=position, velocity=table.positive("velocity", VELOCITY[kind], None),
                  acceleration=table.positive("acceleration", ACCELERATION[kind], None),
                  effort=table.positive("effort", EFFORT[kind], None) if effort else None)


def check_start(table: TomlTable, start: float, limits: Limits, key: str) -> None:
    """Raise unless the start lies within the position limits."""
    if limits.position is not None and not limits.position[0] <= start <= limits.position[1]:
        low, high = limits.position
        raise table.error(f"starts at {start:g}, outside the position limits {low:g} to {high:g} (SI)", key)


def read_terms(table: TomlTable, kind: Kind, scope: Scope) -> tuple[tuple[str, ...], dict[str, float]]:
    """Read which terms a joint has and their a-priori coefficients."""
    words = table.words("terms", scope.terms) if "terms" in table else ()
    terms = {term.name: term for word in words for term in scope.terms[word]}
    given = table.table("values")
    values = {}
    for name in given.data:
        if name not in terms:
            raise given.error(f"the key 'terms' does not list '{name}'{nearest(name, terms or scope.terms)}", name)
        unit = terms[name].unit(kind)
        values[name] = given.number(name, dimension_of(unit) if is_unit(unit) else "none")
        if terms[name].nonnegative and values[name] < 0:
            raise given.error(f"{terms[name].label} cannot be negative, found {values[name]:g} {unit}", name)
    return tuple(terms), values


def term_words(own: Mapping[str, JointTerm],
               bundles: Mapping[str, tuple[JointTerm, ...]]) -> dict[str, tuple[JointTerm, ...]]:
    """Return the words that joints may list as terms: registered ones, those of a file, and bundles of both."""
    known = {**TERMS, **own}
    return {**{name: (term,) for name, term in known.items()},
            **{word: tuple(known[name] for name in names) for word, names in BUNDLES.items()}, **bundles}


def read_term(table: TomlTable) -> tuple[JointTerm, ...]:
    """Read `[[term]]`: a term of the robot's own, several that share their constants, or constants of a bundled one."""
    table.check_keys(schema.TERM)
    name = table.text("name")
    if "expression" not in table:
        bundled = [term for term in TERMS.values() if term.family == name]
        if not bundled or any(key not in ("name", "constants") for key in table.data):
            raise table.error("is required but missing; only a bundled term has one already, and then nothing but "
                              "its constants can be given" + ("" if bundled else nearest(name, TERMS)), "expression")
        constants = _read_constants(table, bundled[0].constants)
        unknown = [key for key in constants if key not in bundled[0].constants]
        if unknown:
            raise table.error(f"{bundled[0].label} has no such constant{nearest(unknown[0], bundled[0].constants)}",
                              f"constants.{unknown[0]}")
        return tuple(replace(term, constants={**term.constants, **constants}) for term in bundled)
    texts = table.data["expression"]
    texts = [table.text("expression")] if not isinstance(texts, list) else table.words("expression")
    given = table.table("channels")
    constants, channels = _read_constants(table, {}), {key: given.number(key) for key in given.data}
    unit, words, terms = table.text("unit", ""), " ".join(texts), []
    for k, text in enumerate(texts):
        own = name if len(texts) == 1 else f"{name}_{k + 1}"
        try:
            check_term_name(own, (*TERMS, *BUNDLES))
            terms.append(JointTerm(
                name=own, label=table.text("label", name), units=(unit, unit), expression=text, family=name,
                constants=_mentioned(constants, text, words), channels=_mentioned(channels, text, words),
                nonnegative=table.flag("nonnegative"), dissipative=table.flag("friction"), suspected=False,
                coulomb=table.number("coulomb") if "coulomb" in table else None))
        except InvalidInput as error:
            key = "expression" if "position" in error.numbers else "name" if error.numbers.get("name") == own else None
            raise table.error(str(error), key if len(texts) == 1 or key != "expression" else f"{key}[{k}]") from None
    if not terms:
        raise table.error("expected an expression, found none", "expression")
    return tuple(terms)


def _mentioned(given: dict[str, T], text: str, all_texts: str) -> dict[str, T]:
    """Return what one of several expressions names, and what none does, which is an error of each."""
    return {name: value for name, value in given.items()
            if re.search(rf"\b{re.escape(name)}\b", text) or not re.search(rf"\b{re.escape(name)}\b", all_texts)}


def _read_constants(table: TomlTable, usual: Mapping[str, Constant]) -> dict[str, Constant]:
    """Read the constants of a term: a number, text such as '14.8 mm', or { start, fit, low, high }."""
    given, found = table.table("constants"), {}
    for name, content in given.data.items():
        free = isinstance(content, Mapping)
        entry = given.table(name) if free else given
        keys = {"value": "start" if free else name, "low": "low", "high": "high"}
        if free:
            entry.check_keys(schema.CONSTANT)
            if "start" not in entry:
                raise entry.error("is required but missing", "start")
        known = usual.get(name, Constant(value=0.0))
        first = entry.data.get(keys["value"])
        dimension = known.dimension
        if isinstance(first, str):
            try:
                dimension = dimension_of(quantity(first)[1])
            except InvalidInput as error:
                raise entry.error(str(error), keys["value"]) from None
            if known.dimension and dimension not in JOINT_DIMENSIONS.get(known.dimension, (known.dimension,)):
                raise entry.error(f"'{first}' measures {dimension}, expected {known.dimension}", keys["value"])
        elif dimension in JOINT_DIMENSIONS:
            raise entry.error(f"give a unit: {' or '.join(JOINT_DIMENSIONS[dimension])}", keys["value"])
        numbers = {field: entry.number(key, dimension or "none") for field, key in keys.items()
                   if key in entry and (free or field == "value")}
        fit = free and (entry.flag("fit") if "fit" in entry else True)
        constant = replace(known, dimension=dimension, fit=fit, **{"low": -np.inf, "high": np.inf, **numbers})
        if not constant.low <= constant.value <= constant.high:
            raise entry.error(f"starts at {constant.value:g}, outside of {constant.low:g} to {constant.high:g} (SI)",
                              keys["value"])
        found[name] = constant
    return found


def read_joint(table: TomlTable, scope: Scope) -> list[Joint]:
    """Read `[[joint]]`; universal and spherical joints become two or three revolute ones."""
    kind = table.choice("type", ("revolute", "prismatic", "fixed", *SHORTHANDS))
    if kind in SHORTHANDS:
        table.check_keys(schema.SHORTHAND)
        return _expand(table, scope, SHORTHANDS[kind])
    table.check_keys(schema.SINGLE)
    single: Kind = "prismatic" if kind == "prismatic" else "revolute"
    limits = read_limits(table.table("limits"), single)
    start = table.number("start", POSITION[single], 0.0)
    check_start(table, start, limits, "start")
    actuated = table.flag("actuated")
    if "gain" in table and not actuated:
        raise table.error("only actuated joints have a drive gain", "gain")
    terms, values = read_terms(table, single, scope)
    parent = scope.frame(table, "parent", read_placement(table))
    name = table.name()
    joint = Joint(
        name=scope.full(name), kind=single, parent=parent.body, child=_child(table, scope), placement=parent.placement,
        axis=_axis(table), actuated=actuated, limits=limits, terms=terms, values=values,
        gain=table.positive("gain", "gain", None), start=start, leg=scope.leg, template=scope.kin(name),
        sources=table.sources())
    if "offset" not in table:
        return [joint]
    zero = Placement.of(moved(single, joint.direction, table.number("offset", POSITION[single])))
    return [replace(joint, placement=joint.placement.then(zero))]


def _axis(table: TomlTable) -> Axis | Vector:
    """Read `axis`: a letter, one with a minus before it, or a vector."""
    if isinstance(table.data.get("axis"), list):
        vector = table.numbers("axis", ("none",) * 3)
        if not any(vector):
            raise table.error("the axis has no direction; one of its three numbers must not be zero", "axis")
        return cast(Vector, vector)
    name = table.choice("axis", (*"xyz", "-x", "-y", "-z"), "z")
    return cast(Axis, name) if len(name) == 1 else cast(Vector, tuple(-float(name[1] == letter) for letter in "xyz"))


def read_fixed(table: TomlTable, scope: Scope) -> tuple[str, Frame]:
    """Read a `[[joint]]` of type `fixed`: the body it carries, and where that is fixed."""
    table.check_keys(schema.FIXED)
    return _child(table, scope), scope.frame(table, "parent", read_placement(table))


def _child(table: TomlTable, scope: Scope) -> str:
    name = table.text("child")
    if name not in scope.inner:
        raise table.error(f"body '{name}' does not exist{nearest(name, scope.inner)}", "child")
    return scope.full(name)


def _expand(table: TomlTable, scope: Scope, usual: str) -> list[Joint]:
    """Turn a universal or spherical joint into revolute ones, with massless bodies between.

    At zero the child's frame is the placed frame; R = Rot(axes[0], start[0]) Rot(axes[1], start[1]) ...
    """
    axes, name = table.text("axes", usual), table.name()
    if len(axes) != len(usual) or set(axes) - set("xyz") or any(a == b for a, b in pairwise(axes)):
        raise table.error(f"expected {len(usual)} of the axes x, y, z, neighbours different, such as '{usual}'; "
                          f"found '{axes}'", "axes")
    names = table.words("names") if "names" in table else tuple(f"{name}.{i + 1}" for i in range(len(axes)))
    if len(names) != len(axes):
        raise table.error(f"expected {len(axes)} names, found {len(names)}", "names")
    for i, part in enumerate(names if "names" in table else ()):
        table.check_name(part, f"names[{i}]")
    starts = table.numbers("start", ("angle",) * len(axes)) if "start" in table else (0.0,) * len(axes)
    terms, values = read_terms(table, "revolute", scope)
    first = scope.frame(table, "parent", read_placement(table))
    carried = [scope.full(n) for n in names[:-1]] + [_child(table, scope)]
    parents = [first.body, *carried[:-1]]
    return [
        Joint(name=scope.full(names[i]), kind="revolute", parent=parents[i], child=carried[i], axis=cast(Axis, axes[i]),
              placement=first.placement if i == 0 else Placement(), terms=terms, values=values, start=starts[i],
              leg=scope.leg, template=scope.kin(names[i]), sources=table.sources())
        for i in range(len(axes))]


def read_closure(table: TomlTable, scope: Scope, joints: dict[str, Joint]) -> Closure:
    """Read `[[closure]]`."""
    kind = CLOSURES[table.choice("kind", tuple(CLOSURES))]
    own = (*((*schema.ENDS, *kind.values) if kind.frames else ()), *(schema.WEIGHTS if kind.weighs else ()))
    table.check_keys((*schema.CLOSURE, *own))
    a, b = read_ends(table, scope) if kind.frames else (None, None)
    values = {key: table.positive(key, dimension) for key, dimension in kind.values.items()}
    closure = Closure(name=scope.full(table.name()), kind=kind.name, a=a, b=b, values=values)
    if not kind.weighs:
        return closure
    given = table.table("coefficients")
    coefficients = {}
    for short in given.data:
        full = scope.full(short)
        if full not in joints:
            near = (inside_leg(j.name, scope.leg) for j in joints.values() if scope.leg in (None, j.leg))
            raise given.error(f"joint '{short}' does not exist{nearest(short, near)}", short)
        coefficients[full] = given.number(short)
    if not coefficients:
        raise table.error(f"a {kind.name} needs the coefficients of at least one joint", "coefficients")
    kinds = {joints[j].kind for j in coefficients}
    dimension = "length" if kind.frames else POSITION[kinds.pop()] if len(kinds) == 1 else "none"
    return replace(closure, coefficients=coefficients, constant=table.number("constant", dimension, 0.0))


def read_ends(table: TomlTable, scope: Scope) -> tuple[Frame, Frame]:
    """Read the frames `a` and `b`."""
    ends = [table.table(key, required=True) for key in ("a", "b")]
    for end in ends:
        end.check_keys(schema.FRAME)
    a, b = (scope.frame(end, "body", read_placement(end)) for end in ends)
    return a, b


def read_payload(table: TomlTable, scope: Scope, usual: str) -> Payload:
    """Read `[[payload]]`; it is fixed to the platform unless it names another body."""
    table.check_keys(schema.PAYLOAD)
    parameters, values = read_inertia(table)
    known = table.words("known", parameters) if "known" in table else ()
    for i, name in enumerate(known):
        if name not in values:
            raise table.error(f"'{name}' is said to be known but has no value", f"known[{i}]")
    place = read_placement(table)
    at = scope.frame(table, "body", place) if "body" in table else Frame(body=usual, placement=place)
    return Payload(name=table.name(), body=at.body, placement=at.placement, parameters=parameters, values=values,
                   known=known)


def read_noise(table: TomlTable, kinds: set[Kind]) -> Noise:
    """Read `[noise]`; plain numbers are in the units of the motors, or SI if these are of both kinds."""
    table.check_keys(schema.NOISE)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    position, effort = (POSITION[kind], EFFORT[kind]) if kind else ("none", "none")
    usual = Noise()
    noise = Noise(position=table.number("position", position, usual.position),
                  effort=table.number("effort", effort, usual.effort),
                  correlation=table.number("correlation", "none", usual.correlation),
                  resolution=table.positive("resolution", position, None),
                  rate=table.positive("rate", "frequency", usual.rate))
    for key in ("position", "effort"):
        if getattr(noise, key) < 0:
            raise table.error("a standard deviation cannot be negative", key)
    if not -1 < noise.correlation < 1:
        raise table.error("expected a correlation between -1 and 1", "correlation")
    return noise
