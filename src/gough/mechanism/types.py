"""A mechanism: a tree of one-degree-of-freedom joints plus closures. Pure data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidInput, InvalidMechanism, nearest
from gough.core.names import INERTIAL, Parameter, inside_leg, parameters
from gough.core.parameters import BASE_ORDER, ParameterTable
from gough.core.record import Record
from gough.mechanism.closures import CLOSURES
from gough.mechanism.expression import fault, powers, unit_powers
from gough.mechanism.placement import IDENTITY_PLACEMENT, Placement
from gough.mechanism.terms import TERMS, Constant, JointTerm

BASE = "base"  # the name of the fixed body
Kind = Literal["revolute", "prismatic"]
Axis = Literal["x", "y", "z"]
Vector = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Body(Record):
    """A rigid body with inertial parameters about its own frame (that of the joint that carries
    it).
    """

    name: str  # in full: `leg1.rod`
    parameters: tuple[str, ...] = INERTIAL  # those it has; the others are structural zeros
    values: Mapping[str, float] = field(
        default_factory=dict
    )  # a priori, SI; missing is unknown, taken as zero
    leg: str | None = None  # `leg1`
    template: str = ""  # its name in the leg's kind, which equal legs share: `leg.rod`


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of an actuated joint or a task coordinate, SI; None means unlimited."""

    position: tuple[float, float] | None = None
    velocity: float | None = None
    acceleration: float | None = None
    effort: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint(Record):
    """A revolute or prismatic joint about or along an axis (z unless said) of a placed frame.

    The child's frame is the placed frame moved by q: T = placement * Rot(axis, q) or placement *
    Trans(axis, q).
    """

    name: str  # in full: `leg1.slider`; also that of its coordinate
    kind: Kind
    parent: str  # body it sits on
    child: str  # body it carries
    placement: Placement = IDENTITY_PLACEMENT  # from the parent's frame to the joint frame at q = 0
    axis: Axis | Vector = "z"  # of the joint frame
    actuated: bool = False
    virtual: bool = False  # a task coordinate of the platform: no real joint, no terms
    limits: Limits = Limits()
    terms: tuple[str, ...] = ()  # by name; see `Mechanism.known_terms`
    values: Mapping[str, float] = field(default_factory=dict)  # coefficients of these a priori, SI
    # effort per recorded current or voltage; None if efforts are recorded
    gain: float | None = None
    start: float = 0.0  # from which the loops are assembled [m or rad]
    leg: str | None = None
    template: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axis not in get_args(Axis) and (
            isinstance(self.axis, str) or not np.linalg.norm(self.axis) > 0
        ):
            raise InvalidMechanism(
                f"joint '{self.name}' has an axis without direction: {self.axis}; expected x, y, z "
                "or a vector",
                part="joint",
                name=self.name,
                key="axis",
            )

    @cached_property
    def direction(self) -> FloatArray:
        """Unit vector along its axis in the joint frame, (3,)."""
        if isinstance(self.axis, str):
            return frozen(np.eye(3)["xyz".index(self.axis)])
        return frozen(np.array(self.axis) / np.linalg.norm(self.axis))

    @property
    def unit(self) -> str:
        return "m" if self.kind == "prismatic" else "rad"

    @property
    def effort_unit(self) -> str:
        return "N" if self.kind == "prismatic" else "N m"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame fixed to a body."""

    body: str
    placement: Placement = IDENTITY_PLACEMENT


@dataclass(frozen=True, kw_only=True, eq=False)
class Closure(Record):
    """A constraint that closes a loop, of a kind in `CLOSURES`."""

    name: str  # in full: `leg1.tip`
    kind: str
    a: Frame | None = None  # both for kinds that hold frames
    b: Frame | None = None
    values: Mapping[str, float] = field(default_factory=dict)  # e.g. the `length` of a rod [SI]
    coefficients: Mapping[str, float] = field(default_factory=dict)  # of coordinates, by joint name
    constant: float = 0.0  # beside their sum

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
        """The frames it holds: two, or none."""
        return () if self.a is None or self.b is None else (self.a, self.b)

    @property
    def equations(self) -> int:
        return len(CLOSURES[self.kind].units)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transmission(Record):
    """Motors that drive joints together: q_joints = B q_motors, so that efforts are motors = B^T
    joints.

    The motors are joints with couplings like any other; this is how logs on the other side are
    understood.
    """

    name: str
    motors: tuple[str, ...]
    joints: tuple[str, ...]
    matrix: FloatArray  # B, (k, k) [rad or m, per rad or m]
    positions: Literal["joints", "motors"] = (
        "joints"  # whose they are in logs called after the joints
    )
    efforts: Literal["joints", "motors"] = "joints"


@dataclass(frozen=True, kw_only=True, eq=False)
class Payload(Record):
    """A body fixed to another (usually the platform), with what is known of it about its own frame
    there.
    """

    name: str
    body: str
    placement: Placement = IDENTITY_PLACEMENT
    parameters: tuple[str, ...] = INERTIAL
    values: Mapping[str, float] = field(default_factory=dict)  # SI
    known: tuple[str, ...] = ()  # parameters good enough to calibrate with, such as a weighed mass


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """What the virtual robot's sensors add: standard deviations for all motors, and what else is
    not ideal.
    """

    position: float = 0.0  # [m or rad]
    effort: float = 0.0  # [N or N m]
    correlation: float = 0.0  # of effort noise between any two motors
    resolution: float | None = None  # encoder step [m or rad]
    rate: float = 1000.0  # of the controller [Hz]

    def effort_covariance(self, motors: int) -> FloatArray:
        """Return sigma^2 ((1 - rho) 1 + rho 1 1^T), the covariance of effort noise between motors,
        (a, a).
        """
        low, rho = -1.0 / max(motors - 1, 1), self.correlation
        if not self.effort >= 0 or not low <= rho <= 1:
            raise InvalidInput(
                f"effort noise is {self.effort} and its correlation {rho}; expected at least zero, "
                f"and "
                f"{low:.3g} to 1 for {motors} motors",
                effort=self.effort,
                correlation=rho,
            )
        return self.effort**2 * ((1 - rho) * np.eye(motors) + rho * np.ones((motors, motors)))


class InternalState(NamedTuple):
    """What a robot remembers besides its motion."""

    joint: int  # its index
    term: str
    lag: int  # which of the term


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism(Record):
    """A robot: bodies, joints in tree order (parents first), closures, payloads."""

    name: str
    bodies: tuple[Body, ...]  # all that move; put into the order of the joints that carry them
    joints: tuple[Joint, ...]  # one per body, task coordinates included; put into tree order
    closures: tuple[Closure, ...] = ()
    transmissions: tuple[Transmission, ...] = ()  # their couplings are among the closures
    platform: str | None = None  # body that carries tool and payloads; see `flange`
    # Bounds of the platform's speed and acceleration whatever the direction, by `translation` (of
    # its origin) and
    # `rotation` (angular velocity, not rates of angles).
    twist_limits: Mapping[str, Limits] = field(default_factory=dict)
    payloads: tuple[Payload, ...] = ()
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.80665)  # free fall in the base frame [m/s2]
    ties: Mapping[Parameter, tuple[Parameter, ...]] = field(
        default_factory=dict
    )  # equal across legs, by tied name
    redundant: bool = False  # more motors than degrees of freedom are intended
    noise: Noise = Noise()
    custom_terms: Mapping[str, JointTerm] = field(
        default_factory=dict
    )  # in place of registered ones of the same name
    title: str = ""
    reference: str = ""  # where the robot and its numbers come from
    source: str = ""  # file it was read from

    def __post_init__(self) -> None:
        ties = {Parameter(tied): parameters(members) for tied, members in self.ties.items()}
        self._check_names()
        joints = _tree_order(self.bodies, self.joints)
        bodies = {body.name: body for body in self.bodies}
        for name, content in (
            ("ties", ties),
            ("joints", joints),
            ("bodies", [bodies[j.child] for j in joints]),
        ):
            object.__setattr__(self, name, content)
        super().__post_init__()
        if not any(joint.actuated for joint in self.joints):
            raise InvalidMechanism(
                "no joint is actuated; mark the motors with 'actuated = true'", key="joint"
            )
        for joint in self.joints:
            for name in (*joint.terms, *joint.values):
                self._check_term(joint, name)
        for closure in self.closures:
            kind, what = CLOSURES[closure.kind], f"closure '{closure.name}' of kind {closure.kind}"
            if kind.frames != bool(closure.frames) or kind.has_coefficients != bool(
                closure.coefficients
            ):
                needed = ["two frames"] * kind.frames + [
                    "coefficients of joints"
                ] * kind.has_coefficients
                raise _wrong(
                    "closure",
                    closure.name,
                    "kind",
                    f"{what} needs {' and '.join(needed)} and nothing else",
                )
            if kind.measures_length and len({frame.body for frame in closure.frames}) == 1:
                raise _wrong(
                    "closure",
                    closure.name,
                    "b",
                    f"{what} has both ends on '{closure.frames[0].body}': their "
                    "distance never changes",
                )
            for key in kind.values:
                if not closure.values.get(key, 0.0) > 0:
                    raise _wrong("closure", closure.name, key, f"{what} needs a positive {key}")
        for payload in self.payloads:
            if payload.body not in bodies:
                raise _wrong(
                    "payload",
                    payload.name,
                    "body",
                    f"payload '{payload.name}' is fixed to '{payload.body}', "
                    f"which is no moving body{nearest(payload.body, bodies)}",
                )

    def _check_names(self) -> None:
        """Raise unless parts have names of their own, and what they name is there."""
        parts = {
            "body": [body.name for body in self.bodies],
            "joint": [joint.name for joint in self.joints],
            "closure": [closure.name for closure in self.closures],
            "payload": [payload.name for payload in self.payloads],
        }
        for part, names in parts.items():
            if twice := [name for k, name in enumerate(names) if name in names[:k]]:
                raise _wrong(
                    part,
                    twice[0],
                    "name",
                    f"{part} '{twice[0]}' is defined twice; names must be unique",
                )
        for part, owner, key, used, valid in self._uses():
            for name in used:
                if name not in valid:
                    raise _wrong(
                        part,
                        owner,
                        key,
                        f"{part} '{owner}', {key}: '{name}' is not known{nearest(name, valid)}",
                    )

    def _uses(self) -> Iterator[tuple[str, str, str, Collection[str], Collection[str]]]:
        """Yield each part and its name, a key of it, the names that stand there, and those that
        may.
        """
        bodies, joints = ({part.name for part in parts} for parts in (self.bodies, self.joints))
        ends = {BASE, *bodies}
        rigid: list[tuple[str, Body | Payload]] = [
            *(("body", body) for body in self.bodies),
            *(("payload", payload) for payload in self.payloads),
        ]
        for part, own in rigid:
            yield part, own.name, "parameters", own.parameters, INERTIAL
            yield (
                part,
                own.name,
                "values",
                [name for name, value in own.values.items() if value],
                own.parameters,
            )
        for joint in self.joints:
            yield "joint", joint.name, "kind", [joint.kind], get_args(Kind)
            yield "joint", joint.name, "parent", [joint.parent], ends
            yield "joint", joint.name, "child", [joint.child], bodies
            yield "joint", joint.name, "terms", (*joint.terms, *joint.values), self.known_terms
        for closure in self.closures:
            yield "closure", closure.name, "coefficients", [*closure.coefficients], joints
            for key, frame in zip("ab", closure.frames):
                yield "closure", closure.name, key, [frame.body], ends
        yield "robot", self.name, "platform", [self.platform] if self.platform else [], bodies

    def _check_term(self, joint: Joint, name: str) -> None:
        """Raise unless a term may act at a joint: what it depends on is known, and its units give
        an effort.
        """
        term, at = self.known_terms[name], f"joint '{joint.name}'"
        if term.load_dependent and (self.redundant or not joint.actuated):
            why = (
                "the robot has more motors than degrees of freedom"
                if self.redundant
                else "it has no motor"
            )
            raise _wrong(
                "joint",
                joint.name,
                "terms",
                f"'{name}' depends on the effort that {at} transmits, which is unknown: {why}",
            )
        for node in term.tree.walk():
            try:
                if node.kind == "name" and Parameter(node.value).owner:
                    self.resolve_joint(joint, Parameter(node.value).owner)
            except InvalidInput as error:
                placed = fault(term.expression, node.at, str(error))
                raise _wrong("term", name, "expression", f"{placed} ({at})") from None
        try:
            found, stated = term.dimension(joint.kind), unit_powers(term.unit(joint.kind))
        except InvalidInput as error:
            raise _wrong("term", name, "expression", f"{error} ({at})") from None
        effort = powers("force" if joint.kind == "prismatic" else "torque")
        if (
            found is not None
            and stated is not None
            and effort != tuple(a + b for a, b in zip(found, stated))
        ):
            raise _wrong(
                "term",
                name,
                "unit",
                f"the coefficient of '{term.expression}' in {term.unit(joint.kind)} "
                f"gives no effort in {joint.effort_unit} at {at}",
            )

    def resolve_joint(self, joint: Joint, name: str) -> Joint:
        """Return the joint that a term of another joint calls by a name: one of its leg, else by
        its full name.
        """
        names = (f"{joint.leg}.{name}", name) if joint.leg else (name,)
        for other in self.joints:
            if other.name in names:
                return other
        near = [
            inside_leg(other.name, joint.leg) if other.leg == joint.leg else other.name
            for other in self.joints
        ]
        raise InvalidInput(f"no joint '{name}'{nearest(name, near)}", name=name)

    def has_coulomb(self, joint: Joint) -> bool:
        """Tell whether a joint has friction that jumps where the velocity changes sign."""
        return any(self.terms[name].coulomb for name in joint.terms)

    @cached_property
    def known_terms(self) -> Mapping[str, JointTerm]:
        """All joint terms that its joints may have: the registered ones and its own."""
        return MappingProxyType({**TERMS, **self.custom_terms})

    @cached_property
    def internal_states(self) -> tuple[InternalState, ...]:
        return tuple(
            InternalState(i, name, k)
            for i, joint in enumerate(self.joints)
            for name in joint.terms
            for k in range(len(self.known_terms[name].lags))
        )

    @cached_property
    def channels(self) -> Mapping[str, float]:
        """Recorded channels that its terms depend on, with their usual values."""
        return MappingProxyType(
            {name: value for term in self.terms.values() for name, value in term.channels.items()}
        )

    @cached_property
    def load_dependent(self) -> tuple[int, ...]:
        """Indices of the joints with load-dependent friction."""
        return tuple(
            i
            for i, joint in enumerate(self.joints)
            if any(self.known_terms[t].load_dependent for t in joint.terms)
        )

    @cached_property
    def constants(self) -> Mapping[str, Constant]:
        """Constants of its terms by their full name: `stribeck.speed`."""
        return MappingProxyType(
            {
                f"{term.family}.{name}": constant
                for term in self.terms.values()
                for name, constant in term.constants.items()
            }
        )

    def with_constants(self, constants: Mapping[str, float]) -> Mechanism:
        """Return the robot with other values of its terms' constants, by their full name."""
        for name in constants:
            if name not in self.constants:
                raise InvalidInput(
                    f"'{self.name}' has no constant '{name}'{nearest(name, self.constants)}",
                    name=name,
                )
        own = {name: term.with_constants(constants) for name, term in self.terms.items()}
        return replace(self, custom_terms={**self.custom_terms, **own}) if constants else self

    def with_channels(self, channels: Mapping[str, float]) -> Mechanism:
        """Return the robot with other usual values of recorded channels that its terms depend
        on.
        """
        for name in channels:
            if name not in self.channels:
                raise InvalidInput(
                    f"no term of '{self.name}' depends on a channel '{name}'"
                    f"{nearest(name, self.channels)}",
                    name=name,
                )
        own = {
            name: replace(
                term,
                channels={key: channels.get(key, value) for key, value in term.channels.items()},
            )
            for name, term in self.terms.items()
        }
        return replace(self, custom_terms={**self.custom_terms, **own})

    @cached_property
    def idealised(self) -> Mechanism:
        """The robot with right angles for those that are right but for their digits; itself where
        there are none.
        """
        frames = [frame for closure in self.closures for frame in closure.frames]
        turns = [joint.placement for joint in self.joints] + [frame.placement for frame in frames]
        if all(turn.idealised is turn for turn in turns):
            return self
        ends = iter([replace(frame, placement=frame.placement.idealised) for frame in frames])
        return replace(
            self,
            joints=tuple(
                replace(joint, placement=joint.placement.idealised) for joint in self.joints
            ),
            closures=tuple(
                replace(c, a=next(ends), b=next(ends)) if c.frames else c for c in self.closures
            ),
        )

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of all coordinates, in tree order."""
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def actuated(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints if joint.actuated)

    @cached_property
    def task(self) -> tuple[str, ...]:
        """Names of the task coordinates of the platform (empty for serial robots)."""
        return tuple(joint.name for joint in self.joints if joint.virtual)

    @cached_property
    def forces(self) -> Mapping[str, Closure]:
        """Force elements: by the name of their coordinate the closure that makes it the length
        between two points.

        The coordinate is that of a massless slider on the base with the name of the closure.
        """
        sliders = {
            joint.name
            for joint, body in zip(self.joints, self.bodies)
            if joint.parent == BASE and joint.name == body.name and not body.parameters
        }
        return MappingProxyType(
            {
                closure.name: closure
                for closure in self.closures
                if closure.name in sliders
                and CLOSURES[closure.kind].measures_length
                and len(closure.coefficients) == 1
            }
        )

    @cached_property
    def flange(self) -> str:
        """The body that carries tool and payloads: the platform, or the end of the longest chain of
        joints.

        Not simply the last body: a rotor on the base may come after it. Of equally long chains, the
        last.
        """
        depth = {BASE: 0}
        for joint in self.joints:
            depth[joint.child] = depth[joint.parent] + 1
        return self.platform or max(reversed(depth), key=lambda body: depth[body])

    @cached_property
    def terms(self) -> Mapping[str, JointTerm]:
        """The joint terms it has anywhere, in the order in which base parameters are sought."""
        used = {term for joint in self.joints for term in joint.terms}
        return MappingProxyType(
            {name: term for name, term in self.known_terms.items() if name in used}
        )

    def body(self, name: str) -> Body:
        return _find("body", self.bodies, name)

    def joint(self, name: str) -> Joint:
        return _find("joint", self.joints, name)

    def payload(self, name: str) -> Payload:
        return _find("payload", self.payloads, name)

    @cached_property
    def standard(self) -> ParameterTable:
        """All standard parameters with a-priori values, platform first, then leg by leg, body by
        body.
        """
        found: dict[Parameter, float] = {}
        for body, joint in sorted(
            zip(self.bodies, self.joints), key=lambda pair: pair[0].name != self.platform
        ):
            found |= {
                Parameter.of(body.name, kind): float(body.values.get(kind, 0.0))
                for kind in INERTIAL
                if kind in body.parameters
            }
            found |= {
                Parameter.of(joint.name, term, self.terms[term].unit(joint.kind)): float(
                    joint.values.get(term, 0.0)
                )
                for term in joint.terms
            }
        return ParameterTable(names=tuple(found), values=np.array(list(found.values())))

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

        Platform first, then parameter by parameter across the legs; inside a body `BASE_ORDER`,
        then its joint's terms. So identical legs regroup identically.
        """
        ranks = {name: rank for rank, name in enumerate((*BASE_ORDER, *self.terms))}
        carried = {joint.name: body for body, joint in zip(self.bodies, self.joints)}
        legs = list(dict.fromkeys(body.leg for body in self.bodies))
        templates = list(dict.fromkeys(body.template or body.name for body in self.bodies))

        def key(name: Parameter) -> tuple[bool, int, int, int]:
            body = self.body(name.owner) if name.inertial else carried[name.owner]
            return (
                body.name != self.platform,
                templates.index(body.template or body.name),
                ranks[name.kind],
                legs.index(body.leg),
            )

        return tuple(sorted(range(len(self.standard)), key=lambda i: key(self.standard.names[i])))


Part = TypeVar("Part", Body, Joint, Payload)


def _find(kind: str, parts: tuple[Part, ...], name: str) -> Part:
    for part in parts:
        if part.name == name:
            return part
    raise InvalidInput(f"no {kind} '{name}'{nearest(name, (part.name for part in parts))}")


def _wrong(part: str, name: str, key: str, message: str) -> InvalidMechanism:
    """Return an error that says where in a robot file it is."""
    return InvalidMechanism(message, part=part, name=name, key=key)


def _tree_order(bodies: tuple[Body, ...], joints: tuple[Joint, ...]) -> tuple[Joint, ...]:
    """Return the joints with parents before children, otherwise in their order."""
    carrier: dict[str, Joint] = {}
    for joint in joints:
        if joint.child in carrier:
            raise _wrong(
                "joint",
                joint.name,
                "child",
                f"body '{joint.child}' has two parents: joints "
                f"'{carrier[joint.child].name}' and '{joint.name}'; keep one joint and close the "
                f"loop with a "
                "closure",
            )
        carrier[joint.child] = joint
    for body in bodies:
        if body.name not in carrier:
            raise _wrong(
                "body",
                body.name,
                "name",
                f"body '{body.name}' hangs on no joint; add a joint or remove it",
            )
    if not joints:
        raise InvalidMechanism(
            "the robot has no joints; add [[joint]] or [[leg]] tables", key="joint"
        )
    reached, ordered, waiting = {BASE}, [], list(joints)
    while waiting:
        ready = next((joint for joint in waiting if joint.parent in reached), None)
        if ready is None:
            raise _wrong(
                "joint",
                waiting[0].name,
                "parent",
                f"body '{waiting[0].parent}' is not connected to the "
                "base: the joints that carry it form a ring",
            )
        waiting.remove(ready)
        reached.add(ready.child)
        ordered.append(ready)
    return tuple(ordered)
