"""Bodies, joints, closures, payloads: one function for each kind of table in a robot file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import nearest
from gough.core.inertia import INERTIA_ENTRIES, parallel_axes
from gough.core.names import INERTIAL, inside_leg
from gough.mechanism import schema
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import Placement, joint_transform
from gough.mechanism.term_reader import TermsByWord, read_joint_terms
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

# Dimensions of a joint's quantities, by its kind.
QUANTITY_DIMENSIONS: Mapping[Kind, Mapping[str, str]] = {
    "prismatic": {
        "position": "length",
        "velocity": "velocity",
        "acceleration": "acceleration",
        "effort": "force",
    },
    "revolute": {
        "position": "angle",
        "velocity": "angular velocity",
        "acceleration": "angular acceleration",
        "effort": "torque",
    },
}
# Joints that become several revolute ones: their default axes in the
# placed frame, in order.
SHORTHAND_AXES = {"universal": "xy", "spherical": "xyz"}
BASE_FRAME = Frame(body=BASE)
# Smallest ratio of singular values of a transmission; no gears could be
# built below it.
INVERTIBLE_RATIO = 1e-9
_INERTIAL_DIMENSIONS = ("mass", *("first moment",) * 3, *("inertia",) * 6)
_FIRST_MOMENTS = INERTIAL[1:4]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where the names in a table are looked up: the top level of the file, or one placed leg."""

    leg: str | None = None  # `leg1`
    template: str = ""  # its kind: `leg`
    base: Frame = BASE_FRAME  # what `base` means here
    inner: frozenset[str]  # bodies defined in this scope, as written
    # bodies of the top level, usable inside a leg
    outer: frozenset[str] = frozenset()
    # joint terms by their word in the file
    terms: TermsByWord = field(default_factory=dict)

    def full(self, name: str) -> str:
        """Return the full name of an element of this scope: `leg1.rod`."""
        return name if self.leg is None else f"{self.leg}.{name}"

    def names(self, name: str) -> dict[str, Any]:
        """Return full name, leg, and the name shared by the same element of equal legs."""
        template = "" if self.leg is None else f"{self.template}.{name}"
        return {"name": self.full(name), "leg": self.leg, "template": template}

    def frame(self, table: TomlTable, key: str) -> Frame:
        """Return the placement of a table on the body that a key names."""
        name = table.data[key]
        placement = read_placement(table)
        if name == BASE:
            return Frame(
                body=self.base.body,
                placement=self.base.placement.then(placement),
            )
        if name in self.inner:
            return Frame(body=self.full(name), placement=placement)
        if name in self.outer:
            return Frame(body=name, placement=placement)
        valid = (BASE, *self.inner, *self.outer)
        raise table.error(f"body '{name}' does not exist{nearest(name, valid)}", key)

    def child(self, table: TomlTable) -> str:
        """Return the full name of the body that a joint carries."""
        name = table.data["child"]
        if name not in self.inner:
            raise table.error(
                f"body '{name}' does not exist{nearest(name, self.inner)}",
                "child",
            )
        return self.full(name)

    def frame_pair(self, table: TomlTable) -> dict[str, Any]:
        """Read the frames `a` and `b`."""
        for key in schema.FRAME_PAIR_KEYS:
            table.require(key)
        return {key: self.frame(table.table(key), "body") for key in schema.FRAME_PAIR_KEYS}


def read_placement(table: TomlTable) -> Placement:
    """Read a placement by `xyz` and `rpy`, by `polar`, or by `mdh`; without them the identity."""
    given = [key for key in ("polar", "mdh") if key in table]
    if len(given) > 1 or (given and ("xyz" in table or "rpy" in table)):
        message = "place by xyz and rpy, or by polar, or by mdh, not by two of them"
        raise table.error(message, given[0])
    if "polar" in table:
        return Placement.polar(*table.numbers("polar", ("length", "angle", "length"), shortest=2))
    if "mdh" in table:
        mdh = table.table("mdh")
        dimensions = schema.MDH_DIMENSIONS.items()
        return Placement.mdh(**{key: mdh.number(key, of, 0.0) for key, of in dimensions})
    return Placement.xyz_rpy(
        table.numbers("xyz", ("length",) * 3),
        table.numbers("rpy", ("angle",) * 3),
    )


def read_inertia(table: TomlTable) -> dict[str, Any]:
    """Read which inertial parameters a body has, and their values about its frame's origin."""
    selections = [key for key in ("parameters", "zero", "symmetric") if key in table]
    if len(selections) > 1:
        first, second = selections[:2]
        raise table.error(f"'{first}' and '{second}' both select parameters; keep one", second)
    excluded = set(table.get("zero", ()))
    selected = set(table.get("parameters", INERTIAL)) - excluded
    if "symmetric" in table:
        selected = {"m", f"m{table.data['symmetric']}", "Ixx", "Iyy", "Izz"}
    values = _read_inertial_values(table)
    for name, number in values.items():
        if name in selected or number == 0.0:
            continue
        selection = selections[0]
        key = name
        hint = ""
        if name not in table:
            key = "com" if "com" in table else "about"
            hint = f"; it comes from 'com': leave out '{selection}', or give moments instead"
        raise table.error(
            f"gives {name} = {number:g} (SI), but '{selection}' excludes this parameter{hint}",
            key,
        )
    parameters = tuple(name for name in INERTIAL if name in selected)
    return {
        "parameters": parameters,
        "values": {name: values[name] for name in parameters if name in values},
    }


def _read_inertial_values(table: TomlTable) -> dict[str, float]:
    """Read inertial parameters about the origin of the body's frame.

    About the centre of mass c (`about = "com"`) the inertia moves by
    Steiner: I = I_c + m (c.c 1 - c c^T). Ixy, Ixz, Iyz are entries of
    the inertia matrix (Ixy = - integral of x y dm).
    """
    values: dict[str, float] = {}
    for key, dimension in zip(INERTIAL, _INERTIAL_DIMENSIONS):
        if key in table:
            values[key] = table.number(key, dimension)
    mass = values.get("m", 0.0)
    if mass < 0:
        raise table.error(f"a mass cannot be negative, found {mass:g} kg", "m")
    if "com" in table:
        for key in _FIRST_MOMENTS:
            if key in table:
                message = f"both 'com' and '{key}' give the centre of mass; keep one"
                raise table.error(message, "com")
        if "m" not in table:
            raise table.error("a centre of mass needs the mass 'm'", "com")
        for key, offset in zip(_FIRST_MOMENTS, table.numbers("com", ("length",) * 3)):
            values[key] = mass * offset
    if table.get("about") == "com":
        if mass == 0.0:
            message = "inertia about the centre of mass needs a mass 'm' above zero"
            raise table.error(message, "about")
        first_moments = np.array([values.get(key, 0.0) for key in _FIRST_MOMENTS])
        shift = parallel_axes(mass, first_moments / mass)
        for name, place in zip(INERTIAL[4:], INERTIA_ENTRIES):
            moment = values.get(name, 0.0) + float(shift[place])
            if name in values or moment != 0.0:
                values[name] = moment
    return values


def read_body(table: TomlTable, scope: Scope) -> Body:
    """Read `[[body]]`."""
    return Body(**scope.names(table.name), **read_inertia(table), box=_read_box(table))


def _read_box(table: TomlTable) -> tuple[float, float, float, float, float, float] | None:
    """Read the box that holds all mass of a body."""
    if "box" not in table:
        return None
    box = table.numbers("box", ("length",) * 6)
    for low, high in zip(box[:3], box[3:]):
        if low >= high:
            raise table.error("expected lowest x, y, z, then highest x, y, z", "box")
    x_low, y_low, z_low, x_high, y_high, z_high = box
    return x_low, y_low, z_low, x_high, y_high, z_high


def read_limits(table: TomlTable, kind: Kind) -> Limits:
    """Read the bounds of a joint or a task coordinate."""
    dimensions = QUANTITY_DIMENSIONS[kind]
    limits = Limits(
        velocity=table.positive("velocity", dimensions["velocity"]),
        acceleration=table.positive("acceleration", dimensions["acceleration"]),
        effort=table.positive("effort", dimensions["effort"]),
    )
    if "position" not in table:
        return limits
    low, high = table.numbers("position", (dimensions["position"],) * 2)
    if low >= high:
        raise table.error("expected [lowest, highest] with lowest below highest", "position")
    return replace(limits, position=(low, high))


def check_start(table: TomlTable, start: float, limits: Limits, key: str) -> None:
    """Raise unless the start lies within the position limits."""
    if limits.position is None:
        return
    low, high = limits.position
    if not low <= start <= high:
        raise table.error(
            f"starts at {start:g}, outside the position limits {low:g} to {high:g} (SI)",
            key,
        )


def read_joint(table: TomlTable, scope: Scope) -> list[Joint]:
    """Read `[[joint]]`; universal and spherical joints become two or three revolute ones."""
    kind = table.data["type"]
    shorthand = kind in SHORTHAND_AXES
    table.only(schema.SHORTHAND_JOINT_KEYS if shorthand else schema.SINGLE_JOINT_KEYS)
    frame = scope.frame(table, "parent")
    child = scope.child(table)
    if shorthand:
        return _read_shorthand_joint(table, scope, frame, child)
    if "gain" in table and not table.get("actuated"):
        raise table.error("only actuated joints have a drive gain", "gain")
    position = QUANTITY_DIMENSIONS[kind]["position"]
    joint = _read_coordinate(
        table,
        scope,
        kind,
        parent=frame.body,
        child=child,
        placement=frame.placement,
        axis=_read_axis(table),
        actuated=table.get("actuated", False),
        start=table.number("start", position, 0.0),
    )
    check_start(table, joint.start, joint.limits, "start")
    if "offset" not in table:
        return [joint]
    offset = joint_transform(kind, joint.direction, table.number("offset", position))
    return [replace(joint, placement=joint.placement.then(Placement.of(offset)))]


def _read_axis(table: TomlTable) -> Any:
    """Read the axis of a joint: x, y, z, or a vector; `-x` becomes a vector."""
    axis = table.get("axis", "z")
    if isinstance(axis, list):
        direction = table.numbers("axis", ("none",) * 3)
        if not any(direction):
            message = "the axis has no direction; one of its three numbers must not be zero"
            raise table.error(message, "axis")
        return direction
    if axis.startswith("-"):
        return tuple(-float(axis[1] == letter) for letter in "xyz")
    return axis


def _read_coordinate(table: TomlTable, scope: Scope, kind: Kind, **fields: Any) -> Joint:
    """Read limits, terms and gain of a joint.

    Without further fields it carries a massless body of its own name,
    and sits on the base.
    """
    names = scope.names(table.name)
    return Joint(
        **{"parent": BASE, "child": names["name"], **names, **fields},
        kind=kind,
        limits=read_limits(table.table("limits"), kind),
        **read_joint_terms(table, kind, scope.terms),
        gain=table.positive("gain", "gain"),
        friction_width=_read_friction_width(table, kind),
    )


def _read_friction_width(table: TomlTable, kind: Kind) -> float | None:
    """Read the speed up to which Coulomb friction grows; None if it is not given."""
    width: float | None = table.positive("friction_width", QUANTITY_DIMENSIONS[kind]["velocity"])
    return width


def _read_shorthand_joint(table: TomlTable, scope: Scope, frame: Frame, child: str) -> list[Joint]:
    """Turn a universal or spherical joint into revolute ones, with massless bodies between.

    At zero the child's frame is the placed frame; R = Rot(axes[0],
    start[0]) Rot(axes[1], start[1]) ...
    """
    default_axes = SHORTHAND_AXES[table.data["type"]]
    count = len(default_axes)
    axes = table.get("axes", default_axes)
    repeated = any(a == b for a, b in pairwise(axes))
    if len(axes) != count or set(axes) - set("xyz") or repeated:
        raise table.error(
            f"expected {count} of the axes x, y, z, neighbours different, such as "
            f"'{default_axes}'; found '{axes}'",
            "axes",
        )
    names = table.get("names", [f"{table.name}.{i + 1}" for i in range(count)])
    if len(names) != count:
        raise table.error(f"expected {count} names, found {len(names)}", "names")
    starts = table.numbers("start", ("angle",) * count)
    terms = read_joint_terms(table, "revolute", scope.terms)
    friction_width = _read_friction_width(table, "revolute")
    children = [*map(scope.full, names[:-1]), child]
    joints: list[Joint] = []
    for i, name in enumerate(names):
        joint = Joint(
            **scope.names(name),
            kind="revolute",
            parent=frame.body,
            child=children[i],
            axis=axes[i],
            placement=frame.placement,
            start=starts[i],
            friction_width=friction_width,
            **terms,
        )
        joints.append(joint)
        frame = Frame(body=joint.child)
    return joints


def read_closure(table: TomlTable, scope: Scope, joints: Mapping[str, Joint]) -> Closure:
    """Read `[[closure]]`."""
    kind = CLOSURES[table.data["kind"]]
    valid = [*schema.CLOSURE_KEYS, *kind.values]
    frames: dict[str, Any] = {}
    if kind.frames:
        valid += schema.FRAME_PAIR_KEYS
    if kind.has_coefficients:
        valid += schema.COEFFICIENT_KEYS
    table.only(valid)
    if kind.frames:
        frames = scope.frame_pair(table)
    for key in kind.values:
        table.require(key)
    values = {key: table.positive(key, dimension) for key, dimension in kind.values.items()}
    coefficients = _read_coefficients(table.table("coefficients"), scope, joints)
    if kind.has_coefficients and not coefficients:
        message = f"a {kind.name} needs the coefficients of at least one joint"
        raise table.error(message, "coefficients")
    dimension = "length"
    if not kind.frames:
        dimension = _common_dimension({joints[name].kind for name in coefficients}, "position")
    return Closure(
        name=scope.full(table.name),
        kind=kind.name,
        **frames,
        values=values,
        coefficients=coefficients,
        constant=table.number("constant", dimension, 0.0),
    )


def _read_coefficients(
    table: TomlTable, scope: Scope, joints: Mapping[str, Joint]
) -> dict[str, float]:
    """Read coefficients of coordinates, by full joint name."""
    coefficients = {}
    for name in table.data:
        full_name = scope.full(name)
        if full_name not in joints:
            near = [joint for joint in joints.values() if scope.leg in (None, joint.leg)]
            valid = [inside_leg(joint.name, scope.leg) for joint in near]
            raise table.error(f"joint '{name}' does not exist{nearest(name, valid)}", name)
        coefficients[full_name] = table.number(name)
    return coefficients


def _common_dimension(kinds: set[Kind], quantity: str) -> str:
    """Return the dimension of a quantity of joints; `none` if they are of both kinds."""
    if len(kinds) != 1:
        return "none"
    (kind,) = kinds
    return QUANTITY_DIMENSIONS[kind][quantity]


def read_transmission(
    table: TomlTable, scope: Scope, joints: Mapping[str, Joint]
) -> tuple[Transmission, list[Joint], list[Closure]]:
    """Read `[[transmission]]`: a massless rotor for each motor, and a coupling for each joint."""
    driven = tuple(scope.full(name) for name in table.data["joints"])
    for k, name in enumerate(driven):
        if name not in joints:
            message = f"joint '{name}' does not exist{nearest(name, joints)}"
            raise table.error(message, f"joints[{k}]")
        if joints[name].actuated:
            raise table.error(f"joint '{name}' is a motor itself", f"joints[{k}]")
    motor_tables = table.tables("motor")
    if len(motor_tables) != len(driven):
        raise table.error(
            f"{len(driven)} joints need as many [[transmission.motor]] tables, found "
            f"{len(motor_tables)}",
            "motor",
        )
    matrix = _read_transmission_matrix(table, len(driven))
    starts = np.linalg.solve(matrix, [joints[name].start for name in driven])
    motors = []
    for motor_table, start in zip(motor_tables, starts):
        kind = motor_table.get("type", "revolute")
        motor = _read_coordinate(motor_table, scope, kind, start=float(start), actuated=True)
        motors.append(motor)
    for motor_table, motor in zip(motor_tables, motors):
        check_start(motor_table, motor.start, motor.limits, "limits")
    couplings = []
    for name, row in zip(driven, matrix):
        coefficients = {name: 1.0}
        for motor, ratio in zip(motors, row):
            if ratio:
                coefficients[motor.name] = -float(ratio)
        coupling = scope.full(f"{table.name}.{inside_leg(name, scope.leg)}")
        couplings.append(Closure(name=coupling, kind="coupling", coefficients=coefficients))
    transmission = Transmission(
        name=scope.full(table.name),
        motors=tuple(motor.name for motor in motors),
        joints=driven,
        matrix=matrix,
        positions=table.get("positions", "joints"),
        efforts=table.get("efforts", "joints"),
    )
    return transmission, motors, couplings


def _read_transmission_matrix(table: TomlTable, order: int) -> FloatArray:
    """Read the matrix of a transmission; raise unless it is invertible."""
    matrix = np.array(table.matrix("matrix", order))
    singular_values = np.linalg.svd(matrix, compute_uv=False)
    largest = singular_values[0]
    smallest = singular_values[-1]
    if not smallest > INVERTIBLE_RATIO * largest:
        raise table.error(
            f"the matrix is not invertible (singular values {largest:.3g} to {smallest:.1e}): some "
            "motion of the joints moves no motor; check its rows",
            "matrix",
        )
    return matrix


def read_force(table: TomlTable, scope: Scope) -> tuple[Joint, Closure]:
    """Read `[[force]]`: a massless slider on the base, and a closure.

    The closure makes the slider's coordinate the distance between two
    points.
    """
    actuated = table.get("actuated", False)
    rest_length = table.number("rest", "length", 0.0)
    if "gain" in table and not actuated:
        raise table.error("only what is actuated has a drive gain", "gain")
    if rest_length < 0:
        raise table.error(f"expected a length, found {rest_length:g} m", "rest")
    joint = _read_coordinate(table, scope, "prismatic", actuated=actuated)
    closure = Closure(
        name=joint.name,
        kind="length",
        **scope.frame_pair(table),
        coefficients={joint.name: -1.0},
        constant=-rest_length,
    )
    return joint, closure


def read_payload(table: TomlTable, bodies: Iterable[str], flange: str) -> Payload:
    """Read `[[payload]]`; it is fixed to the flange unless it names another body."""
    inertia = read_inertia(table)
    known = tuple(table.get("known", []))
    for i, name in enumerate(known):
        if name not in inertia["values"]:
            raise table.error(f"'{name}' is listed as known but has no value", f"known[{i}]")
    if "body" in table:
        frame = Scope(inner=frozenset(bodies)).frame(table, "body")
    else:
        frame = Frame(body=flange, placement=read_placement(table))
    return Payload(
        name=table.name,
        body=frame.body,
        placement=frame.placement,
        known=known,
        **inertia,
    )


def read_noise(table: TomlTable, kinds: set[Kind]) -> Noise:
    """Read `[noise]`.

    Plain numbers are in the units of the motors, or SI if these are of
    both kinds.
    """
    position = _common_dimension(kinds, "position")
    effort = _common_dimension(kinds, "effort")
    default = Noise()
    noise = Noise(
        position=table.number("position", position, default.position),
        effort=table.number("effort", effort, default.effort),
        correlation=table.number("correlation", "none", default.correlation),
        resolution=table.positive("resolution", position),
        rate=table.positive("rate", "frequency", default.rate),
    )
    for key in ("position", "effort"):
        if getattr(noise, key) < 0:
            raise table.error("a standard deviation cannot be negative", key)
    if not -1 < noise.correlation < 1:
        raise table.error("expected a correlation between -1 and 1", "correlation")
    return noise
