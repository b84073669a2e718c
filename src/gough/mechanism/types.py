"""A mechanism: a tree of one-degree-of-freedom joints plus closures. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, Parameter, inside_leg, parameters
from gough.core.parameters import BASE_ORDER, ParameterTable
from gough.core.record import Columns, Record
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY_PLACEMENT, Placement
from gough.mechanism.terms import TERMS, Constant, JointTerm
from gough.mechanism.validation import (
    BASE as BASE,
    check_content,
    check_names,
    invalid,
    tree_order,
)

Kind = Literal["revolute", "prismatic"]
Axis = Literal["x", "y", "z"]
Vector = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Body(Record):
    """A rigid body; its inertial parameters are about the frame of the joint that carries it."""

    name: str  # in full: `leg1.rod`
    # those it has; the others are structural zeros
    parameters: tuple[str, ...] = INERTIAL
    # a priori, SI; missing is unknown
    values: Mapping[str, float] = field(default_factory=dict)
    leg: str | None = None  # `leg1`
    # its name in the kind of leg, shared by equal legs: `leg.rod`
    template: str = ""
    # holds all its mass, in its frame: lowest x, y, z, then highest [m]
    box: tuple[float, float, float, float, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of an actuated joint or a task coordinate, SI; None means unlimited."""

    # lowest and highest [m or rad]
    position: tuple[float, float] | None = None
    velocity: float | None = None  # largest [m/s or rad/s]
    acceleration: float | None = None  # largest [m/s2 or rad/s2]
    effort: float | None = None  # largest [N or N m]


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint(Record):
    """A revolute or prismatic joint about or along an axis of a placed frame.

    The child's frame is the placed frame moved by q: T = placement *
    Rot(axis, q) or placement * Trans(axis, q).
    """

    name: str  # in full: `leg1.slider`; also that of its coordinate
    kind: Kind  # revolute or prismatic
    parent: str  # body it sits on
    child: str  # body it carries
    # from the parent's frame to the joint frame at q = 0
    placement: Placement = IDENTITY_PLACEMENT
    axis: Axis | Vector = "z"  # of the joint frame
    actuated: bool = False  # it has a motor
    # a task coordinate of the platform: no real joint, no terms
    virtual: bool = False
    limits: Limits = Limits()  # of the motion
    terms: tuple[str, ...] = ()  # by name; see `Mechanism.known_terms`
    # a-priori coefficients of terms, SI
    values: Mapping[str, float] = field(default_factory=dict)
    # effort per recorded current or voltage; None if efforts are logged
    gain: float | None = None
    # speed up to which its Coulomb friction grows linearly; None if not
    # known [m/s or rad/s]
    friction_width: float | None = None
    # coordinate from which the loops are assembled [m or rad]
    start: float = 0.0
    leg: str | None = None  # `leg1`
    template: str = ""  # its name in the kind of leg: `leg.slider`

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.axis, str):
            valid = self.axis in get_args(Axis)
        else:
            valid = bool(np.linalg.norm(self.axis) > 0)
        if not valid:
            raise invalid(
                "joint",
                self.name,
                "axis",
                f"joint '{self.name}' has an axis without direction: {self.axis}; expected x, y, "
                "z or a vector",
            )

    @cached_property
    def direction(self) -> FloatArray:
        """Unit vector along its axis in the joint frame, (3,)."""
        if isinstance(self.axis, str):
            return frozen(np.eye(3)["xyz".index(self.axis)])
        return frozen(np.array(self.axis) / np.linalg.norm(self.axis))

    @property
    def unit(self) -> str:
        """The SI unit of its coordinate."""
        return "m" if self.kind == "prismatic" else "rad"

    @property
    def effort_unit(self) -> str:
        """The SI unit of its effort."""
        return "N" if self.kind == "prismatic" else "N m"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame fixed to a body."""

    body: str
    placement: Placement = IDENTITY_PLACEMENT  # in the body's frame


@dataclass(frozen=True, kw_only=True, eq=False)
class Closure(Record):
    """A constraint that closes a loop, of a kind in `CLOSURES`."""

    name: str  # in full: `leg1.tip`
    kind: str
    a: Frame | None = None  # both frames, or none: see `ClosureKind.frames`
    b: Frame | None = None  # second frame
    # e.g. the `length` of a rod [SI]
    values: Mapping[str, float] = field(default_factory=dict)
    # of coordinates, by joint name
    coefficients: Mapping[str, float] = field(default_factory=dict)
    constant: float = 0.0  # added to the weighted sum of coordinates

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in CLOSURES:
            raise InvalidMechanism(
                f"closure '{self.name}' is of the unknown kind '{self.kind}'"
                f"{nearest(self.kind, CLOSURES)}",
                closure=self.name,
            )

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Its frames a and b, or none."""
        if self.a is None or self.b is None:
            return ()
        return self.a, self.b

    @property
    def equations(self) -> int:
        """The number of its equations."""
        return len(CLOSURES[self.kind].units)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transmission(Record):
    """Motors that drive joints together: q_joints = B q_motors, effort_motors = B^T effort_joints.

    The motors are joints with couplings like any other. The
    transmission converts logs that were recorded on the other side.
    """

    name: str
    motors: tuple[str, ...]
    joints: tuple[str, ...]
    matrix: FloatArray  # B, (k, k) [rad or m, per rad or m]
    # whether log columns named after the joints are of the joints or of
    # the motors
    positions: Literal["joints", "motors"] = "joints"
    # which efforts are recorded
    efforts: Literal["joints", "motors"] = "joints"


@dataclass(frozen=True, kw_only=True, eq=False)
class Payload(Record):
    """A body fixed to another, usually the platform; its parameters are about its own frame."""

    name: str
    body: str  # that carries it
    placement: Placement = IDENTITY_PLACEMENT  # of its frame on that body
    parameters: tuple[str, ...] = INERTIAL  # those it has
    values: Mapping[str, float] = field(default_factory=dict)  # SI
    # parameters good enough to calibrate with, such as a weighed mass
    known: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """Noise of the virtual robot's sensors: standard deviations for all motors, quantisation."""

    position: float = 0.0  # [m or rad]
    effort: float = 0.0  # [N or N m]
    correlation: float = 0.0  # of effort noise between any two motors
    resolution: float | None = None  # encoder step [m or rad]
    rate: float = 1000.0  # of the controller [Hz]

    def effort_covariance(self, motors: int) -> FloatArray:
        """Return the covariance of effort noise between motors, (a, a).

        It is sigma^2 ((1 - rho) 1 + rho 1 1^T), with the correlation
        rho.
        """
        rho = self.correlation
        lowest = -1.0 / max(motors - 1, 1)
        if not self.effort >= 0 or not lowest <= rho <= 1:
            raise InvalidInput(
                f"effort noise is {self.effort} and its correlation {rho}; expected at least zero, "
                f"and {lowest:.3g} to 1 for {motors} motors",
                effort=self.effort,
                correlation=rho,
            )
        return self.effort**2 * ((1 - rho) * np.eye(motors) + rho * np.ones((motors, motors)))


class InternalState(NamedTuple):
    """An internal state of the robot beside its motion: a lag of a joint term."""

    joint: int  # index of the joint
    term: str
    lag: int  # index of the lag in the term


def _drive_word(joint: Joint) -> str:
    """Return whether a joint has a motor, is passive, or is a coordinate of the platform."""
    if joint.virtual:
        return "task coordinate"
    return "motor" if joint.actuated else "passive"


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism(Record):
    """A robot: bodies, joints in tree order (parents first), closures, payloads."""

    name: str
    # all that move; put into the order of the joints that carry them
    bodies: tuple[Body, ...]
    # one per body, task coordinates included; put into tree order
    joints: tuple[Joint, ...]
    closures: tuple[Closure, ...] = ()
    # their couplings are among the closures
    transmissions: tuple[Transmission, ...] = ()
    # body that carries tool and payloads; see `flange`
    platform: str | None = None
    # Bounds of the platform's speed and acceleration in any direction:
    # `translation` (of its origin) and `rotation` (angular velocity, not rates
    # of angles).
    twist_limits: Mapping[str, Limits] = field(default_factory=dict)
    payloads: tuple[Payload, ...] = ()
    gravity: tuple[float, float, float] = (
        0.0,
        0.0,
        -9.80665,
    )  # free fall in the base frame [m/s2]
    # parameters that are equal across legs: tied name -> parameters of
    # the legs
    ties: Mapping[Parameter, tuple[Parameter, ...]] = field(default_factory=dict)
    # relative standard deviation of values of this file, by pattern of
    # their names; later ones win
    uncertainty: tuple[tuple[str, float], ...] = ()
    redundant: bool = False  # more motors than degrees of freedom are intended
    noise: Noise = Noise()  # of the virtual robot's sensors
    # terms of this robot; they replace registered ones of the same name
    custom_terms: Mapping[str, JointTerm] = field(default_factory=dict)
    title: str = ""  # one line for people
    reference: str = ""  # where the robot and its numbers come from
    source: str = ""  # file it was read from

    def table(self) -> Columns:
        """Return the joints: what they connect, which have motors, their limits and terms."""
        limits = [joint.limits for joint in self.joints]
        return {
            "joint": [joint.name for joint in self.joints],
            "kind": [joint.kind for joint in self.joints],
            "from": [joint.parent for joint in self.joints],
            "to": [joint.child for joint in self.joints],
            "drive": [_drive_word(joint) for joint in self.joints],
            "lowest": [limit.position and limit.position[0] for limit in limits],
            "highest": [limit.position and limit.position[1] for limit in limits],
            "velocity": [limit.velocity for limit in limits],
            "effort": [limit.effort for limit in limits],
            "unit": [joint.unit for joint in self.joints],
            "terms": [", ".join(joint.terms) for joint in self.joints],
        }

    def __post_init__(self) -> None:
        check_names(self)
        joints = tree_order(self.bodies, self.joints)
        body = {body.name: body for body in self.bodies}
        ties = {Parameter(tied): parameters(members) for tied, members in self.ties.items()}
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "bodies", tuple(body[joint.child] for joint in joints))
        object.__setattr__(self, "ties", ties)
        super().__post_init__()
        check_content(self)

    def resolve_joint(self, joint: Joint, name: str) -> Joint:
        """Return the joint that a term of another joint names: in its leg, or by its full name."""
        names = (f"{joint.leg}.{name}", name) if joint.leg else (name,)
        for other in self.joints:
            if other.name in names:
                return other
        valid = []
        for other in self.joints:
            same_leg = other.leg == joint.leg
            valid.append(inside_leg(other.name, joint.leg) if same_leg else other.name)
        raise InvalidInput(f"no joint '{name}'{nearest(name, valid)}", name=name)

    def has_coulomb(self, joint: Joint) -> bool:
        """Return whether a joint has friction that jumps where the velocity changes sign."""
        return any(self.terms[name].coulomb for name in joint.terms)

    @cached_property
    def friction_widths(self) -> FloatArray:
        """Speed up to which the friction of each joint grows, zero if not known, (n,)."""
        return frozen(np.array([joint.friction_width or 0.0 for joint in self.joints]))

    @cached_property
    def known_terms(self) -> Mapping[str, JointTerm]:
        """All joint terms that its joints may have: the registered ones and its own."""
        return MappingProxyType({**TERMS, **self.custom_terms})

    @cached_property
    def internal_states(self) -> tuple[InternalState, ...]:
        """Internal states of all joints, in the order of the joints and their terms."""
        states = []
        for index, joint in enumerate(self.joints):
            for name in joint.terms:
                lags = self.known_terms[name].lags
                states += [InternalState(index, name, lag) for lag in range(len(lags))]
        return tuple(states)

    @cached_property
    def channels(self) -> Mapping[str, float]:
        """Recorded channels that its terms depend on, with their default values."""
        channels: dict[str, float] = {}
        for term in self.terms.values():
            channels |= term.channels
        return MappingProxyType(channels)

    @cached_property
    def may_be_undefined(self) -> bool:
        """Whether a joint term has no value somewhere, for instance divides by zero."""
        return any(term.may_be_undefined for term in self.terms.values())

    @cached_property
    def load_dependent(self) -> tuple[int, ...]:
        """Indices of the joints with load-dependent friction."""
        indices = []
        for index, joint in enumerate(self.joints):
            if any(self.known_terms[name].load_dependent for name in joint.terms):
                indices.append(index)
        return tuple(indices)

    @cached_property
    def constants(self) -> Mapping[str, Constant]:
        """Constants of its terms by their full name: `stribeck.speed`."""
        constants = {}
        for term in self.terms.values():
            for name, constant in term.constants.items():
                constants[f"{term.family}.{name}"] = constant
        return MappingProxyType(constants)

    @cached_property
    def fitted_constants(self) -> Mapping[str, float]:
        """Stated values of the constants that are fitted to logs, by full name."""
        values = {name: constant.value for name, constant in self.constants.items() if constant.fit}
        return MappingProxyType(values)

    def with_constants(self, constants: Mapping[str, float]) -> Mechanism:
        """Return the robot with other values of its terms' constants, by full name."""
        for name in constants:
            if name not in self.constants:
                raise InvalidInput(
                    f"'{self.name}' has no constant '{name}'{nearest(name, self.constants)}",
                    name=name,
                )
        if not constants:
            return self
        return self._with_terms(term.with_constants(constants) for term in self.terms.values())

    def with_channels(self, channels: Mapping[str, float]) -> Mechanism:
        """Return the robot with other default values of recorded channels."""
        for name in channels:
            if name not in self.channels:
                raise InvalidInput(
                    f"no term of '{self.name}' depends on a channel '{name}'"
                    f"{nearest(name, self.channels)}",
                    name=name,
                )
        changed = []
        for term in self.terms.values():
            defaults = {key: channels.get(key, default) for key, default in term.channels.items()}
            changed.append(replace(term, channels=defaults))
        return self._with_terms(changed)

    def _with_terms(self, terms: Iterable[JointTerm]) -> Mechanism:
        """Return the robot with terms in place of those of the same name."""
        changed = {term.name: term for term in terms}
        return replace(self, custom_terms={**self.custom_terms, **changed})

    @cached_property
    def idealised(self) -> Mechanism:
        """The robot with exact right angles in place of rounded ones; itself without such angles.

        See `Placement.idealised`.
        """
        joints = [replace(j, placement=j.placement.idealised) for j in self.joints]
        closures = [replace(c, a=_idealised(c.a), b=_idealised(c.b)) for c in self.closures]
        if _placements(joints, closures) == _placements(self.joints, self.closures):
            return self
        return replace(self, joints=tuple(joints), closures=tuple(closures))

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of all coordinates, in tree order."""
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def actuated(self) -> tuple[str, ...]:
        """Names of the actuated joints, in tree order."""
        return tuple(joint.name for joint in self.joints if joint.actuated)

    @cached_property
    def drive_gains(self) -> Mapping[str, float]:
        """Effort per recorded current or voltage, by motor, where the robot file states it."""
        return {joint.name: joint.gain for joint in self.joints if joint.gain is not None}

    @cached_property
    def task(self) -> tuple[str, ...]:
        """Names of the task coordinates of the platform (empty for serial robots)."""
        return tuple(joint.name for joint in self.joints if joint.virtual)

    @cached_property
    def forces(self) -> Mapping[str, Closure]:
        """Force elements by name: each a closure between two points.

        The closure makes a coordinate the distance of the points. The
        coordinate is that of a massless slider on the base, with the
        name of the closure.
        """
        sliders = set()
        for joint, body in zip(self.joints, self.bodies):
            if joint.parent == BASE and joint.name == body.name and not body.parameters:
                sliders.add(joint.name)
        forces = {}
        for closure in self.closures:
            measures_length = CLOSURES[closure.kind].measures_length
            if closure.name in sliders and measures_length and len(closure.coefficients) == 1:
                forces[closure.name] = closure
        return MappingProxyType(forces)

    @cached_property
    def flange(self) -> str:
        """The body that carries tool and payloads.

        It is the platform, or the end of the longest chain of joints;
        of equally long chains the last. The last body itself may be a
        rotor on the base.
        """
        depth = {BASE: 0}
        for joint in self.joints:
            depth[joint.child] = depth[joint.parent] + 1
        return self.platform or max(reversed(depth), key=lambda body: depth[body])

    @cached_property
    def terms(self) -> Mapping[str, JointTerm]:
        """The joint terms in use, in the order in which base parameters are sought."""
        used = set[str]().union(*(joint.terms for joint in self.joints))
        terms = {name: term for name, term in self.known_terms.items() if name in used}
        return MappingProxyType(terms)

    def body(self, name: str) -> Body:
        """Return a body by name."""
        return _find("body", self.bodies, name)

    def joint(self, name: str) -> Joint:
        """Return a joint by name."""
        return _find("joint", self.joints, name)

    def payload(self, name: str) -> Payload:
        """Return a payload by name."""
        if not self.payloads:
            raise InvalidInput(
                f"no payload '{name}': the robot file of '{self.name}' has none; describe it there "
                "as [[payload]]"
            )
        return _find("payload", self.payloads, name)

    @cached_property
    def standard(self) -> ParameterTable:
        """All standard parameters with a-priori values.

        The platform comes first, then leg by leg and body by body.
        """
        values: dict[Parameter, float] = {}
        elements = zip(self.bodies, self.joints)
        for body, joint in sorted(elements, key=lambda pair: pair[0].name != self.platform):
            for kind in INERTIAL:
                if kind in body.parameters:
                    values[Parameter.of(body.name, kind)] = body.values.get(kind, 0.0)
            for name in joint.terms:
                parameter = Parameter.of(joint.name, name, self.terms[name].unit(joint.kind))
                values[parameter] = joint.values.get(name, 0.0)
        return _parameter_table(values)

    def payload_parameters(self, name: str) -> ParameterTable:
        """Return a payload's parameters as `payload.<name>.m` and so on, in INERTIAL order."""
        payload = self.payload(name)
        values = {}
        for kind in INERTIAL:
            if kind in payload.parameters:
                values[Parameter.of_payload(name, kind)] = payload.values.get(kind, 0.0)
        return _parameter_table(values)

    @cached_property
    def base_order(self) -> tuple[int, ...]:
        """Order of the standard parameters in which base parameters are sought (BG13 (23)).

        Platform first, then parameter by parameter across the legs;
        inside a body `BASE_ORDER`, then its joint's terms. So identical
        legs regroup identically.
        """
        ranks = {name: rank for rank, name in enumerate((*BASE_ORDER, *self.terms))}
        carried = {joint.name: body for body, joint in zip(self.bodies, self.joints)}
        legs = list(dict.fromkeys(body.leg for body in self.bodies))
        templates = list(dict.fromkeys(body.template or body.name for body in self.bodies))

        def rank(index: int) -> tuple[bool, int, int, int]:
            name = self.standard.names[index]
            body = self.body(name.owner) if name.inertial else carried[name.owner]
            return (
                body.name != self.platform,
                templates.index(body.template or body.name),
                ranks[name.kind],
                legs.index(body.leg),
            )

        return tuple(sorted(range(len(self.standard)), key=rank))


Element = TypeVar("Element", Body, Joint, Payload)


def _find(kind: str, elements: tuple[Element, ...], name: str) -> Element:
    """Return the element of a name."""
    for element in elements:
        if element.name == name:
            return element
    names = [element.name for element in elements]
    raise InvalidInput(f"no {kind} '{name}'{nearest(name, names)}")


def _parameter_table(values: Mapping[Parameter, float]) -> ParameterTable:
    return ParameterTable(names=tuple(values), values=np.array([*values.values()], dtype=float))


def _idealised(frame: Frame | None) -> Frame | None:
    """Return a frame with exact right angles; see `Placement.idealised`."""
    if frame is None:
        return None
    return replace(frame, placement=frame.placement.idealised)


def _placements(joints: Iterable[Joint], closures: Iterable[Closure]) -> list[Placement]:
    """Return the placements of joints and of the frames of closures."""
    placements = [joint.placement for joint in joints]
    for closure in closures:
        placements += [frame.placement for frame in closure.frames]
    return placements
