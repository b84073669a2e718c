"""Joint terms: what a joint's effort is made of besides rigid bodies, each linear in its
coefficient.

A joint's effort is the sum of coefficient x term. All that is known of a term stands in its entry:
engine, plants, exports, feasibility, bounds and the treatment of reversals ask here, and refuse by
name what they cannot express. A new friction law is one entry, here, in a user's own file, or in a
robot file as `[[term]]`:

    register_term(JointTerm(
        name="fc", label="smooth Coulomb friction", units=("N", "N m"), nonnegative=True,
        dissipative=True, coulomb=1.0, expression="tanh(qd / 0.02)"))

Robot files then name it among a joint's `terms`. Expressions: see `gough.mechanism.expression`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.names import GAIN, INERTIAL, Parameter
from gough.mechanism import expression as grammar
from gough.mechanism.expression import EFFORT, STATE, Dimension, Node, fault, powers

RISKY = (
    "/",
    "^",
    "log",
    "sqrt",
    "exp",
    "tan",
)  # operations and functions that have no value everywhere
_JUMP = 1e-9  # velocity at which a term's jump is looked at; far below any dead band [m/s or rad/s]
# Dimensions of a constant that belongs to whatever joint has the term: for (prismatic, revolute)
# joints.
JOINT_DIMENSIONS = {
    "joint position": ("length", "angle"),
    "joint velocity": ("velocity", "angular velocity"),
    "joint acceleration": ("acceleration", "angular acceleration"),
}
_SI = {
    "joint position": "m or rad",
    "joint velocity": "m/s or rad/s",
    "length": "m",
    "angle": "rad",
    "time": "s",
    "velocity": "m/s",
    "angular velocity": "rad/s",
    "force": "N",
    "torque": "N m",
    "frequency": "Hz",
    "none": "1",
}


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A number of a term that is not its coefficient, such as a Stribeck velocity or a pitch;
    SI.
    """

    value: float  # or where a search for it starts
    # `time`, `length`, ..., `joint position` or `joint velocity`; empty if not known
    dimension: str = ""
    fit: bool = False  # found from the data, between `low` and `high`
    low: float = -math.inf
    high: float = math.inf

    @property
    def unit(self) -> str:
        return _SI.get(self.dimension, self.dimension)


@dataclass(frozen=True, kw_only=True)
class JointState:
    """What a term may depend on: arrays of numbers, or expressions."""

    q: Any  # [m or rad]
    qd: Any
    qdd: Any
    sign: Any  # of the velocity: linear inside the dead band, smooth while optimising
    math: Any  # `sin cos tan exp log sqrt tanh fabs fmin fmax floor` of NumPy or CasADi
    # state of another joint by the name an expression gives it
    other: Callable[[str], JointState] | None = None
    # of the term, in order; None where settled: a lag is what it follows
    lags: Sequence[Any] | None = None
    channels: Mapping[str, Any] = field(
        default_factory=dict
    )  # recorded; what is missing has its usual value
    constants: Mapping[str, Any] = field(
        default_factory=dict
    )  # `stribeck.speed`, instead of the term's own
    effort: Any = 0.0  # transmitted: the motor's less the friction of its joint [N or N m]


@dataclass(frozen=True, kw_only=True)
class JointTerm:
    """One term of a joint's effort.

    Samples near reversals say little about a term that jumps, and simulators resolve its dead band:
    see `coulomb`.
    """

    name: str  # of the parameter: `fv`
    label: str  # in words; friction ends in `friction`
    units: tuple[str, str] = (
        "",
        "",
    )  # of the coefficient at (prismatic, revolute) joints; made if empty
    expression: str  # acceleration only as a factor
    constants: Mapping[str, Constant] = field(default_factory=dict)  # what is not linear in it
    channels: Mapping[str, float] = field(
        default_factory=dict
    )  # recorded, with the value where none is
    family: str = ""  # its terms share their constants, `family.name`; the own name by default
    nonnegative: bool = False  # the coefficient of a physical joint
    dissipative: bool = False  # friction: it opposes motion
    # half its jump where the velocity changes sign; seen from the expression by default
    coulomb: float | None = None
    fault_candidate: bool = True  # the diagnosis looks for it where a robot file lacks it
    urdf: str | None = None  # attribute of `<dynamics>`
    sidecar: str | None = None  # key of the YAML beside a URDF
    mjcf: str | None = None  # attribute of MJCF's `<joint>`; `springref` is a constant effort

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.name)
        words, own = (*STATE, EFFORT, "pi"), (*self.constants, *self.channels)
        for word in own:
            if not word.isidentifier() or word in (*words, *grammar.FUNCTIONS):
                raise InvalidInput(
                    f"a constant or channel cannot be called '{word}'; use another word", name=word
                )
        for node in self.tree.walk():
            if (
                node.kind == "name"
                and node.value not in (*words, *own)
                and Parameter(node.value).kind not in STATE
            ):
                why = (
                    ": a term is its coefficient times the expression, so leave the coefficient out"
                    if node.value == self.name
                    else nearest(node.value, (*words, *own))
                )
                raise fault(self.expression, node.at, f"no name '{node.value}'{why}")
        self._acceleration(self.tree)
        for lag in self.lags:
            self.lag_is_distance(lag)
            if any(node.value == EFFORT for node in lag.walk()):
                raise fault(self.expression, lag.at, "a lag of the effort is not possible")
        if unused := [word for word in own if not self.uses(word)]:
            raise InvalidInput(
                f"'{unused[0]}' is not in the expression '{self.expression}'", name=unused[0]
            )
        if self.coulomb is None:
            object.__setattr__(self, "coulomb", self._jump())
        if not all(self.units):
            units = {"prismatic": "N", "revolute": "N m"}
            object.__setattr__(
                self,
                "units",
                tuple(self._made_unit(kind, effort) for kind, effort in units.items()),
            )

    def _acceleration(self, node: Node) -> int:
        """Return the power of accelerations in a part of the expression, 0 or 1: a mass matrix has
        no others.
        """
        if node.kind == "name":
            return int(Parameter(node.value).kind == "qdd")
        below = [self._acceleration(part) for part in node.parts]
        power = sum(below) if node.kind == "*" else max(below, default=0)
        linear = node.kind in ("+", "-", "*", "neg") or (node.kind == "/" and not below[1])
        if power > 1 or (power and not linear):
            raise fault(
                self.expression,
                node.at,
                "acceleration can only be a factor: efforts are linear in it",
            )
        return power

    def _made_unit(self, kind: str, effort: str) -> str:
        """Return the unit of the coefficient that the expression asks for; empty at joints it is
        not for.
        """
        try:
            return grammar.unit_text(self.dimension(kind), effort)
        except InvalidInput:
            return ""

    @cached_property
    def tree(self) -> Node:
        return grammar.parse(self.expression)

    @cached_property
    def lags(self) -> tuple[Node, ...]:
        """Its lags: what is remembered from sample to sample."""
        return tuple(node for node in self.tree.walk() if node.kind == "lag")

    @cached_property
    def other_joints(self) -> tuple[str, ...]:
        """Joints whose motion it depends on besides its own, as the expression names them."""
        names = (Parameter(node.value).owner for node in self.tree.walk() if node.kind == "name")
        return tuple(dict.fromkeys(filter(None, names)))

    @cached_property
    def load_dependent(self) -> bool:
        """Whether it depends on the transmitted effort of its joint."""
        return self.uses(EFFORT)

    @property
    def is_joint_friction(self) -> bool:
        """Whether it is friction of its joint, which the joint does not transmit."""
        return self.dissipative or self.load_dependent

    @property
    def may_be_undefined(self) -> bool:
        """It may have no value for some motions, or one too large to be squared."""
        return any(
            node.kind in RISKY
            or node.value in RISKY
            or (node.kind == "number" and abs(node.value[0]) > 1e9)
            for node in self.tree.walk()
        )

    def uses(self, word: str) -> bool:
        return any(node.kind == "name" and node.value == word for node in self.tree.walk())

    def is_periodic_in(self, constant: str) -> bool:
        """Tell whether a constant changes the pitch of a wave, so that a search for it has many
        minima.
        """
        return any(
            node.value in ("sin", "cos", "tan")
            and any(below.value == constant for below in node.walk())
            for node in self.tree.walk()
            if node.kind == "call"
        )

    def unit(self, kind: str) -> str:
        return self.units[0 if kind == "prismatic" else 1]

    def dimension(self, kind: str) -> Dimension | None:
        """Return the dimension of the expression at a kind of joint, None where it is not known."""
        own = 0 if kind == "prismatic" else 1
        known = {name: JOINT_DIMENSIONS[of][own] for name, of in zip(STATE, JOINT_DIMENSIONS)}
        known |= {EFFORT: ("force", "torque")[own], "pi": "none"}
        known |= {
            name: JOINT_DIMENSIONS.get(constant.dimension, (constant.dimension,) * 2)[own]
            for name, constant in self.constants.items()
        }

        def value(node: Node) -> Dimension | None:
            return powers(known.get(node.value, ""))

        return grammar.dimension_in(self.expression, self.tree, value)

    def lag_is_distance(self, lag: Node) -> bool:
        """Tell whether a lag is over a distance, not a time; raise where its second argument has no
        unit.
        """
        by = lag.parts[1]
        found = by.value[1] if by.kind == "number" else ""
        if by.kind == "name" and by.value in self.constants:
            found = self.constants[by.value].dimension
        if found not in ("time", "length", "angle", "joint position"):
            raise fault(
                self.expression,
                by.at,
                "a lag is over a time or a distance; give a constant with a unit, or "
                "'0.1 s', '2 mm'",
            )
        return found != "time"

    def value(self, state: JointState, node: Node | None = None) -> Any:
        """Return the term, or a part of its expression, for a unit coefficient."""

        def named(at: Node) -> Any:
            if at.kind == "lag":
                return (
                    self.value(state, at.parts[0]) if state.lags is None else state.lags[at.value]
                )
            if at.kind == "call":  # the sign of something
                inner = at.parts[0]
                if inner.kind == "name" and Parameter(inner.value).kind == "qd":
                    return self._state_of(state, inner.value).sign
                steep = self.value(state, inner) * 1e300
                return state.math.fmax(state.math.fmin(steep, 1.0), -1.0)
            if at.value in self.constants:
                full = f"{self.family}.{at.value}"
                return state.constants.get(full, self.constants[at.value].value)
            if at.value in self.channels:
                return state.channels.get(at.value, self.channels[at.value])
            if at.value == "pi":
                return math.pi
            return getattr(self._state_of(state, at.value), Parameter(at.value).kind)

        return grammar.evaluate(self.tree if node is None else node, named, state.math)

    @staticmethod
    def _state_of(state: JointState, name: str) -> JointState:
        joint = Parameter(name).owner
        if not joint:
            return state
        if state.other is None:
            raise InvalidInput(f"the state of joint '{joint}' is not known here")
        return state.other(joint)

    def _jump(self) -> float:
        """Return half the change of the term where the velocity of its own joint changes sign."""
        q, zero = np.float64(0.37), np.float64(0.0)  # NumPy's, which divide by zero
        still = JointState(
            q=q, qd=zero, qdd=zero, sign=zero, math=np, effort=1.0, other=lambda name: still
        )
        with np.errstate(all="ignore"):
            ahead, back = (
                float(
                    np.real(
                        self.value(
                            replace(
                                still,
                                qd=s * _JUMP,
                                sign=s,
                                lags=(0.0,) * len(self.lags),
                                other=lambda name: still,
                            )
                        )
                    )
                )
                for s in (1.0, -1.0)
            )
        jump = abs(ahead - back) / 2
        return round(jump, 6) if math.isfinite(jump) and jump > 1e-3 else 0.0

    def with_constants(self, constants: Mapping[str, float]) -> JointTerm:
        """Return the term with other values of constants, by their full name; the others stay."""
        own = {
            name: replace(c, value=float(constants.get(f"{self.family}.{name}", c.value)))
            for name, c in self.constants.items()
        }
        return self if own == dict(self.constants) else replace(self, constants=own)


def _constant(value: float, dimension: str, low: float, high: float, fit: bool = False) -> Constant:
    return Constant(
        value=value,
        dimension=f"joint {dimension}" if dimension != "time" else "time",
        low=low,
        high=high,
        fit=fit,
    )


def _bundled() -> Iterator[JointTerm]:
    """Yield the terms that come with Gough; those looked for in other ways are not `suspected`."""
    newton, viscous = ("N", "N m"), ("N s/m", "N m s/rad")
    positive: dict[str, Any] = {"nonnegative": True}
    rubs: dict[str, Any] = {"nonnegative": True, "dissipative": True}
    for name, label, units, expression, more in (
        (
            "ia",
            "rotor and drive inertia",
            ("kg", "kg m2"),
            "qdd",
            positive | {"sidecar": "rotor_inertia", "mjcf": "armature"},
        ),
        ("fv", "viscous friction", viscous, "qd", rubs | {"urdf": "damping", "mjcf": "damping"}),
        (
            "fs",
            "Coulomb friction",
            newton,
            "sign(qd)",
            rubs | {"urdf": "friction", "mjcf": "frictionloss"},
        ),
        ("off", "offset", newton, "1", {"sidecar": "effort_offset", "mjcf": "springref"}),
        (
            "k",
            "spring about the zero position",
            ("N/m", "N m/rad"),
            "q",
            positive | {"sidecar": "stiffness", "mjcf": "stiffness"},
        ),
    ):
        yield JointTerm(name=name, label=label, units=units, expression=expression, **more)
    made = ("", "")
    speed, width = (_constant(v, "velocity", v / 100, v * 100, fit=True) for v in (0.05, 0.02))
    time, distance = _constant(0.1, "time", 1e-3, 10.0), _constant(0.02, "position", 1e-6, 10.0)
    rest, pitch = (
        _constant(0.0, "position", -math.inf, math.inf),
        _constant(0.01, "position", 1e-5, 10.0),
    )
    warm: dict[str, Any] = {
        "channels": {"temperature": 25.0},
        "constants": {"reference": Constant(value=20.0)},
    }
    for name, label, units, expression, more in (
        ("fv_plus", "forward viscous friction", viscous, "max(qd, 0)", rubs),
        ("fv_minus", "backward viscous friction", viscous, "min(qd, 0)", rubs),
        ("fs_plus", "forward Coulomb friction", made, "max(sign(qd), 0)", rubs),
        ("fs_minus", "backward Coulomb friction", made, "min(sign(qd), 0)", rubs),
        (
            "stribeck",
            "Stribeck friction",
            made,
            "sign(qd) * exp(-abs(qd) / speed)",
            rubs | {"constants": {"speed": speed}},
        ),
        (
            "fs_smooth",
            "smooth Coulomb friction",
            made,
            "tanh(qd / width)",
            rubs | {"constants": {"width": width}, "coulomb": 1.0},
        ),
        ("fv_cubic", "cubic viscous friction", made, "qd^3", {"dissipative": True}),
        (
            "fv_root",
            "square-root viscous friction",
            made,
            "sign(qd) * sqrt(abs(qd))",
            {"dissipative": True, "coulomb": 0.0},
        ),
        (
            "fs_time",
            "friction with memory over time",
            made,
            "lag(sign(qd), time)",
            rubs | {"constants": {"time": time}},
        ),
        (
            "fs_distance",
            "friction with memory over distance",
            made,
            "lag(sign(qd), distance)",
            rubs | {"constants": {"distance": distance}},
        ),
        ("fs_load", "load-dependent friction", ("1", "1"), "abs(effort) * sign(qd)", rubs),
        (
            "fv_temperature",
            "change of viscous friction with temperature",
            ("N s/(m degC)", "N m s/(rad degC)"),
            "qd * (temperature - reference)",
            warm,
        ),
        (
            "fs_temperature",
            "change of Coulomb friction with temperature",
            ("N/degC", "N m/degC"),
            "sign(qd) * (temperature - reference)",
            warm,
        ),
        ("k2", "quadratic spring", made, "q^2", {}),
        ("k3", "cubic spring", made, "q^3", {}),
        (
            "k_preload",
            "preload of a spring",
            made,
            "sign(q - rest)",
            {"constants": {"rest": rest}, "coulomb": 0.0},
        ),
        *(
            (
                f"ripple_{wave}{n if n > 1 else ''}",
                f"ripple, {word}, harmonic {n}",
                made,
                f"{wave}({2 * n} * pi * q / pitch)",
                {"family": "ripple", "constants": {"pitch": pitch}},
            )
            for n in (1, 2, 3)
            for wave, word in (("sin", "sine"), ("cos", "cosine"))
        ),
    ):
        yield JointTerm(
            name=name,
            label=label,
            units=units,
            expression=expression,
            fault_candidate=False,
            **more,
        )


# In the order in which base parameters are sought (BG13 (23)); registered ones follow.
TERMS: dict[str, JointTerm] = {term.name: term for term in _bundled()}
# Words of a joint's `terms` that stand for several.
BUNDLES: dict[str, tuple[str, ...]] = {
    "ripple": ("ripple_sin", "ripple_cos"),
    "ripple2": ("ripple_sin2", "ripple_cos2"),
    "ripple3": ("ripple_sin3", "ripple_cos3"),
}


def register_term(term: JointTerm) -> JointTerm:
    """Make a term known to robot files and to everything that meets one; return it."""
    check_term_name(term.name, (*TERMS, *BUNDLES))
    TERMS[term.name] = term
    return term


def check_term_name(name: str, taken: Sequence[str]) -> None:
    """Raise unless a term can have a name."""
    taken = (*taken, *INERTIAL, GAIN)
    if name in taken or not name.isidentifier():
        raise InvalidInput(
            f"a joint term cannot be called '{name}': expected letters, digits and _, and none of "
            f"{', '.join(taken)}",
            name=name,
        )
    Parameter.of("joint", name)  # raises for names that could not be read back
