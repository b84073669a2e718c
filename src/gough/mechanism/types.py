"""A mechanism: a tree of one-degree-of-freedom joints plus closures. Pure data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, Parameter, parameters
from gough.core.parameters import BASE_ORDER, ParameterTable
from gough.mechanism.closures import CLOSURES
from gough.mechanism.terms import TERMS, JointTerm

BASE = "base"  # the name of the fixed body
ROUND_OFF = 1e-15  # entries of a transform below this are zero: cos(pi / 2) is 6e-17

Step = tuple[Literal["Rx", "Ry", "Rz", "Tx", "Ty", "Tz"], float]


@dataclass(frozen=True)
class Placement:
    """A fixed transform as a chain of elementary rotations [rad] and translations [m], applied left to right.

    Kept as steps, not as a matrix, so that geometry stays symbolic until compilation.
    """

    steps: tuple[Step, ...] = ()

    @cached_property
    def matrix(self) -> FloatArray:
        """The homogeneous transform, (4, 4); round-off at right angles is removed."""
        result = np.eye(4)
        for step, value in self.steps:
            k, part = "xyz".index(step[1]), np.eye(4)
            if step[0] == "T":
                part[k, 3] = value
            else:
                i, j = (k + 1) % 3, (k + 2) % 3
                c, s = (0.0 if abs(x) < ROUND_OFF else x for x in (math.cos(value), math.sin(value)))
                part[i, i], part[i, j], part[j, i], part[j, j] = c, -s, s, c
            result = result @ part
        result[np.abs(result) < ROUND_OFF] = 0.0
        return frozen(result)

    @property
    def rotation(self) -> FloatArray:
        """The rotation, (3, 3)."""
        return self.matrix[:3, :3]

    @property
    def translation(self) -> FloatArray:
        """Where the origin is, (3,). [m]"""
        return self.matrix[:3, 3]

    def then(self, other: Placement) -> Placement:
        """Return this placement followed by another."""
        return Placement(self.steps + other.steps)

    @classmethod
    def xyz_rpy(cls, xyz: tuple[float, float, float], rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Placement:
        """Place by position [m] and fixed-axis roll, pitch, yaw [rad] (URDF: R = Rz(yaw) Ry(pitch) Rx(roll))."""
        x, y, z = xyz
        roll, pitch, yaw = rpy
        return cls((("Tx", x), ("Ty", y), ("Tz", z), ("Rz", yaw), ("Ry", pitch), ("Rx", roll)))

    @classmethod
    def mdh(cls, *, gamma: float = 0.0, b: float = 0.0, alpha: float = 0.0, d: float = 0.0, theta: float = 0.0,
            r: float = 0.0) -> Placement:
        """Place by modified Denavit-Hartenberg parameters, tree form: Rz Tz Rx Tx Rz Tz. [m, rad]"""
        return cls((("Rz", gamma), ("Tz", b), ("Rx", alpha), ("Tx", d), ("Rz", theta), ("Tz", r)))

    @classmethod
    def polar(cls, radius: float, angle: float, z: float = 0.0) -> Placement:
        """Place on a circle about z: x axis radial outwards, y tangential. [m, rad, m]"""
        return cls((("Rz", angle), ("Tx", radius), ("Tz", z)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """A rigid body with inertial parameters about its own frame (that of the joint that carries it).

    Args:
        name: Full name, e.g. `leg1.rod`.
        parameters: Which of the ten inertial parameters the body has; the others are structural zeros.
        values: A-priori values of these, SI. Missing means unknown a priori (taken as zero).
        leg: The leg it belongs to (`leg1`), or None.
        template: Its name with that of the leg's template (`leg.rod`); equal bodies of equal legs share it.
        sources: Where a value comes from: printed, derived or assumed.
    """

    name: str
    parameters: tuple[str, ...] = INERTIAL
    values: Mapping[str, float] = field(default_factory=dict)
    leg: str | None = None
    template: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.parameters, *self.values):
            if name not in INERTIAL:
                raise InvalidMechanism(
                    f"body '{self.name}' has no inertial parameter '{name}'{nearest(name, INERTIAL)}")
        for name in self.values:
            if name not in self.parameters and self.values[name] != 0.0:
                raise InvalidMechanism(
                    f"body '{self.name}' gives a value for '{name}' but does not list it as a parameter")
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of an actuated joint or a task coordinate, SI; None means unlimited."""

    position: tuple[float, float] | None = None
    velocity: float | None = None
    acceleration: float | None = None
    effort: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """A revolute or prismatic joint about or along an axis (z unless said) of a placed frame.

    The child's frame is the placed frame moved by q: T = placement * Rot(axis, q) or placement * Trans(axis, q).

    Args:
        name: Full name, e.g. `leg1.slider`; also the name of its coordinate.
        kind: `revolute` or `prismatic`.
        parent: Body it sits on (`base` for the fixed one).
        child: Body it carries.
        placement: From the parent's frame to the joint frame at q = 0.
        axis: Axis of the joint frame it turns about or slides along.
        actuated: Driven by a motor.
        virtual: A task coordinate of the platform: no real joint, no terms.
        limits: Bounds.
        terms: Which joint terms it has, by name; see `TERMS`.
        values: A-priori coefficients of these, SI.
        gain: Drive gain: effort per unit of recorded current or voltage, or None if efforts are recorded.
        start: Value from which the loops are assembled. [m or rad]
        leg, template, sources: As for bodies.
    """

    name: str
    kind: Literal["revolute", "prismatic"]
    parent: str
    child: str
    placement: Placement = Placement()
    axis: Literal["x", "y", "z"] = "z"
    actuated: bool = False
    virtual: bool = False
    limits: Limits = Limits()
    terms: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    gain: float | None = None
    start: float = 0.0
    leg: str | None = None
    template: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.terms, *self.values):
            if name not in TERMS:
                raise InvalidMechanism(f"joint '{self.name}' has an unknown term '{name}'{nearest(name, TERMS)}")
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    @property
    def unit(self) -> str:
        """Unit of the coordinate."""
        return "m" if self.kind == "prismatic" else "rad"

    @property
    def effort_unit(self) -> str:
        """Unit of the effort."""
        return "N" if self.kind == "prismatic" else "N m"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame fixed to a body."""

    body: str
    placement: Placement = Placement()


@dataclass(frozen=True, kw_only=True, eq=False)
class Closure:
    """A constraint that closes a loop.

    Args:
        name: Full name, e.g. `leg1.tip`.
        kind: Its entry in `CLOSURES`.
        a, b: The two frames, for kinds that hold frames.
        values: What the kind needs beside them, e.g. the `length` of a rod. [SI]
        coefficients: Joint name -> coefficient, for a `coupling`.
        constant: Of a `coupling`.
    """

    name: str
    kind: str
    a: Frame | None = None
    b: Frame | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    coefficients: Mapping[str, float] = field(default_factory=dict)
    constant: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in CLOSURES:
            raise InvalidMechanism(f"closure '{self.name}' is of the unknown kind '{self.kind}'"
                                   f"{nearest(self.kind, CLOSURES)}", closure=self.name)
        for name in ("values", "coefficients"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames it holds: two, or none."""
        return () if self.a is None or self.b is None else (self.a, self.b)

    @property
    def equations(self) -> int:
        """Number of scalar equations."""
        return len(CLOSURES[self.kind].units)


@dataclass(frozen=True, kw_only=True, eq=False)
class Payload:
    """A body fixed to another (usually the platform), with what is known of it.

    Args:
        name: E.g. `calibration`.
        body: The body it is fixed to; its parameters are about that body's frame.
        parameters: Which inertial parameters it has.
        values: Values, SI.
        known: Names of the parameters known well enough to calibrate with (e.g. a weighed mass).
    """

    name: str
    body: str
    parameters: tuple[str, ...] = INERTIAL
    values: Mapping[str, float] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """What the virtual robot's sensors add.

    Args:
        position: Standard deviation of position noise per actuated joint, or one for all. [m or rad]
        effort: Standard deviation of effort noise. [N or N m]
        correlation: Cross-correlation of effort noise between motors.
        resolution: Encoder step, or None. [m or rad]
        rate: Sampling frequency of the controller. [Hz]
    """

    position: float = 0.0
    effort: float = 0.0
    correlation: float = 0.0
    resolution: float | None = None
    rate: float = 1000.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism:
    """A robot: bodies, joints in tree order (parents first), closures, payloads.

    Args:
        name: E.g. `palida`.
        bodies: All moving bodies.
        joints: One per body, parents before children, task coordinates (virtual) included.
        closures: What closes the loops.
        platform: Body that carries tool and payloads, or None (serial: the last body).
        twist_limits: Bounds of the platform's speed and acceleration whatever the direction, by `translation` (of its
            origin) and `rotation` (angular velocity, not rates of angles).
        payloads: Bodies that may be attached.
        gravity: Acceleration of free fall in the base frame. [m/s2]
        ties: Groups of parameter names declared equal across identical legs, keyed by the tied name.
        redundant: More motors than degrees of freedom is intended.
        noise: Defaults of the virtual robot.
        title: One line about it.
        reference: Where the robot and its numbers come from.
        source: File it was read from.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    closures: tuple[Closure, ...] = ()
    platform: str | None = None
    twist_limits: Mapping[str, Limits] = field(default_factory=dict)
    payloads: tuple[Payload, ...] = ()
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.80665)
    ties: Mapping[Parameter, tuple[Parameter, ...]] = field(default_factory=dict)
    redundant: bool = False
    noise: Noise = Noise()
    title: str = ""
    reference: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        ties = {Parameter(tied): parameters(members) for tied, members in self.ties.items()}
        for name, content in (("ties", ties), ("twist_limits", dict(self.twist_limits))):
            object.__setattr__(self, name, MappingProxyType(content))
        self._check_tree()
        self._check_closures()

    def _check_tree(self) -> None:
        for kind, names in (("body", [b.name for b in self.bodies]), ("joint", [j.name for j in self.joints]),
                            ("closure", [c.name for c in self.closures]), ("payload", [p.name for p in self.payloads])):
            for i, name in enumerate(names):
                if name in names[:i]:
                    raise InvalidMechanism(f"{kind} '{name}' is defined twice; names must be unique", name=name)
        known = {b.name for b in self.bodies}
        reached = {BASE}
        for joint in self.joints:
            for role, end in (("parent", joint.parent), ("child", joint.child)):
                if end not in known and not (role == "parent" and end == BASE):
                    raise InvalidMechanism(
                        f"joint '{joint.name}' names the {role} body '{end}', which does not exist"
                        f"{nearest(end, known)}", joint=joint.name, body=end)
            if joint.child in reached:
                other = next(j.name for j in self.joints if j.child == joint.child)
                raise InvalidMechanism(
                    f"body '{joint.child}' has two parents: joints '{other}' and '{joint.name}'; "
                    "keep one joint and close the loop with a closure", body=joint.child)
            if joint.parent not in reached:
                raise InvalidMechanism(
                    f"joint '{joint.name}' sits on body '{joint.parent}', which no earlier joint carries; "
                    "list joints from the base outwards", joint=joint.name)
            reached.add(joint.child)
        for body in self.bodies:
            if body.name not in reached:
                raise InvalidMechanism(
                    f"body '{body.name}' hangs on no joint; add a joint or remove it", body=body.name)
        if not self.joints:
            raise InvalidMechanism("the mechanism has no joints")
        if not any(joint.actuated for joint in self.joints):
            raise InvalidMechanism("no joint is actuated; mark the motors with 'actuated = true'")

    def _check_closures(self) -> None:
        names = {b.name for b in self.bodies} | {BASE}
        joints = {j.name for j in self.joints}
        for closure in self.closures:
            kind = CLOSURES[closure.kind]
            if kind.frames != bool(closure.frames) or kind.frames == bool(closure.coefficients):
                raise InvalidMechanism(f"closure '{closure.name}' of kind {kind.name} needs "
                                       f"{'two frames' if kind.frames else 'coefficients of joints'} and nothing else")
            for joint in closure.coefficients:
                if joint not in joints:
                    raise InvalidMechanism(f"{kind.name} '{closure.name}' names the joint '{joint}'"
                                           f"{nearest(joint, joints)}")
            for frame in closure.frames:
                if frame.body not in names:
                    raise InvalidMechanism(
                        f"closure '{closure.name}' names the body '{frame.body}', which does not exist"
                        f"{nearest(frame.body, names)}", closure=closure.name, body=frame.body)
            for key in kind.values:
                if not closure.values.get(key, 0.0) > 0:
                    raise InvalidMechanism(f"closure '{closure.name}' of kind {kind.name} needs a positive {key}")
        for payload in self.payloads:
            if payload.body not in names - {BASE}:
                raise InvalidMechanism(
                    f"payload '{payload.name}' is fixed to the body '{payload.body}', which does not exist"
                    f"{nearest(payload.body, names)}")
            if payload.body != self.payloads[0].body:
                raise InvalidMechanism(f"payloads are fixed to '{self.payloads[0].body}' and to '{payload.body}'; "
                                       "all payloads of a robot go on one body")

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of all coordinates, in tree order."""
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def actuated(self) -> tuple[str, ...]:
        """Names of the actuated coordinates."""
        return tuple(joint.name for joint in self.joints if joint.actuated)

    @cached_property
    def task(self) -> tuple[str, ...]:
        """Names of the task coordinates of the platform (empty for serial robots)."""
        return tuple(joint.name for joint in self.joints if joint.virtual)

    @cached_property
    def terms(self) -> Mapping[str, JointTerm]:
        """The joint terms it has anywhere, in the order in which base parameters are sought."""
        used = {term for joint in self.joints for term in joint.terms}
        return MappingProxyType({name: term for name, term in TERMS.items() if name in used})

    @cached_property
    def rubbing(self) -> tuple[int, ...]:
        """Indices of the coordinates with dry friction: a term that jumps where the velocity changes sign."""
        return tuple(i for i, joint in enumerate(self.joints) if any(self.terms[t].coulomb for t in joint.terms))

    def body(self, name: str) -> Body:
        """Return a body by name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise InvalidInput(f"no body '{name}'{nearest(name, (b.name for b in self.bodies))}")

    def joint(self, name: str) -> Joint:
        """Return a joint by name."""
        for joint in self.joints:
            if joint.name == name:
                return joint
        raise InvalidInput(f"no joint '{name}'{nearest(name, self.coordinates)}")

    def payload(self, name: str) -> Payload:
        """Return a payload by name."""
        for payload in self.payloads:
            if payload.name == name:
                return payload
        raise InvalidInput(f"no payload '{name}'{nearest(name, (p.name for p in self.payloads))}")

    @cached_property
    def standard(self) -> ParameterTable:
        """All standard parameters with a-priori values, platform first, then leg by leg, body by body."""
        names: list[Parameter] = []
        values: list[float] = []
        carried = {joint.child: joint for joint in self.joints}
        order = sorted(range(len(self.bodies)), key=lambda i: (self.bodies[i].name != self.platform, i))
        for body in (self.bodies[i] for i in order):
            for parameter in INERTIAL:
                if parameter in body.parameters:
                    names.append(Parameter.of(body.name, parameter))
                    values.append(float(body.values.get(parameter, 0.0)))
            joint = carried[body.name]
            for term in joint.terms:
                names.append(Parameter.of(joint.name, term, self.terms[term].unit(joint.kind)))
                values.append(float(joint.values.get(term, 0.0)))
        return ParameterTable(names=tuple(names), values=np.array(values))

    def payload_parameters(self, name: str) -> ParameterTable:
        """Return a payload's parameters as `payload.<name>.m` and so on, in INERTIAL order."""
        payload = self.payload(name)
        keep = [p for p in INERTIAL if p in payload.parameters]
        return ParameterTable(
            names=tuple(Parameter.of_payload(name, p) for p in keep),
            values=np.array([float(payload.values.get(p, 0.0)) for p in keep]),
        )

    @cached_property
    def base_order(self) -> tuple[int, ...]:
        """Order of the standard parameters in which base parameters are sought (BG13 (23)).

        Platform first, then parameter by parameter across the legs; inside a body `BASE_ORDER`, then its joint's terms.
        So identical legs regroup identically.
        """
        ranks = {name: rank for rank, name in enumerate((*BASE_ORDER, *self.terms))}
        owner: dict[str, tuple[str | None, str, int]] = {}
        for depth, joint in enumerate(self.joints):
            for item in (self.body(joint.child), joint):
                owner[item.name] = (item.leg, item.template or item.name, depth)
        templates: dict[str, int] = {}
        for _, template, _depth in owner.values():
            templates.setdefault(template, len(templates))
        legs = list(dict.fromkeys(leg for leg, _, _ in owner.values()))
        # A body and the joint that carries it share one place: body parameters first, then the joint's terms.
        body_of = {joint.name: joint.child for joint in self.joints}

        def key(i: int) -> tuple[int, int, int, int]:
            name = self.standard.names[i]
            body = name.owner if name.inertial else body_of.get(name.owner, name.owner)
            leg, template, _ = owner[body]
            return (0 if body == self.platform else 1, templates[template], ranks[name.kind], legs.index(leg))

        return tuple(sorted(range(len(self.standard)), key=key))
