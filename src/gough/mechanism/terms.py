"""Joint terms: what a joint's effort is made of besides rigid bodies, each linear in its coefficient.

A joint's effort is the sum of coefficient x term. All that is known of a term stands in its entry: engine, plants,
exports, feasibility, bounds and the treatment of reversals ask here, and refuse by name what they cannot express. A new
friction law is one entry, here, in a user's own file, or in a robot file as `[[term]]`:

    register_term(JointTerm(
        name="fc", label="smooth Coulomb friction", units=("N", "N m"), nonnegative=True, dissipative=True, coulomb=1.0,
        expression="tanh(qd / 0.02)"))

Robot files then name it among a joint's `terms`. Expressions: see `gough.mechanism.expression`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.names import GAIN, INERTIAL, Parameter
from gough.mechanism.expression import (
    EFFORT,
    FUNCTIONS,
    STATE,
    Dimension,
    Node,
    dimension_in,
    evaluate,
    fault,
    parse,
    powers,
    unit_text,
)

RISKY = ("/", "^")  # operations, and functions, that have no value everywhere
_JUMP = 1e-9  # velocity at which a term's jump is looked at; far below any dead band [m/s or rad/s]
# Dimensions of a constant that belongs to whatever joint has the term: for (prismatic, revolute) joints.
JOINT_DIMENSIONS = {"joint position": ("length", "angle"), "joint velocity": ("velocity", "angular velocity"),
                    "joint acceleration": ("acceleration", "angular acceleration")}
_SI = {"joint position": "m or rad", "joint velocity": "m/s or rad/s", "length": "m", "angle": "rad", "time": "s",
       "velocity": "m/s", "angular velocity": "rad/s", "force": "N", "torque": "N m", "frequency": "Hz", "none": "1"}


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A number of a term that is not its coefficient, such as a Stribeck velocity or a pitch.

    Args:
        value: Or where a search for it starts. [SI]
        dimension: What it measures: `time`, `length`, ..., `joint position` or `joint velocity`; empty if not known.
        fit: It is found from the data, between `low` and `high`.
    """

    value: float
    dimension: str = ""
    fit: bool = False
    low: float = -math.inf
    high: float = math.inf

    @property
    def unit(self) -> str:
        return _SI.get(self.dimension, self.dimension)


@dataclass(frozen=True, kw_only=True)
class JointState:
    """What a term may depend on: arrays of numbers, or expressions.

    Args:
        q, qd, qdd: Coordinate, velocity, acceleration. [m or rad, per s, per s2]
        sign: Of the velocity: linear inside the dead band, smooth while optimising.
        math: Functions for these: `sin cos tan exp log sqrt tanh fabs fmin fmax floor` of NumPy or CasADi.
        other: State of another joint by the name that an expression gives it.
        lags: Values of the term's lags, in their order; None where a lag has settled: it is what it follows.
        channels: Recorded channels by name; what is missing has its usual value.
        constants: Values of constants by their full name (`stribeck.speed`) instead of the term's own.
        effort: What the joint passes on: its motor's effort less its own friction. [N or N m]
    """

    q: Any
    qd: Any
    qdd: Any
    sign: Any
    math: Any
    other: Callable[[str], JointState] | None = None
    lags: Sequence[Any] | None = None
    channels: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    effort: Any = 0.0


@dataclass(frozen=True, kw_only=True)
class JointTerm:
    """One term of a joint's effort.

    Args:
        name: Parameter name, e.g. `fv`.
        label: In words; friction ends in `friction`.
        units: Unit of the coefficient for (prismatic, revolute) joints; made from the expression if empty.
        expression: Of the joint's state, constants and channels; acceleration only as a factor.
        constants: Numbers in it that are not linear, by name.
        channels: Recorded channels in it, with the value each has where none is recorded.
        family: Terms of one family share their constants, `family.name`; its own name by default.
        nonnegative: The coefficient of a physical joint cannot be negative.
        dissipative: The term is friction: it opposes motion.
        coulomb: Half the term's jump where the velocity changes sign: 1 for dry friction, 0 for what is continuous.
            Samples near reversals say little about a term that jumps, and simulators resolve its dead band. Seen from
            the expression by default.
        suspected: The diagnosis looks for it where a robot file lacks it.
        urdf: Attribute of URDF's `<dynamics>` that the coefficient is, or None.
        sidecar: Key of the YAML file beside a URDF, for what URDF has no word for, or None.
        mjcf: Attribute of MJCF's `<joint>` that the coefficient is, or None. `springref` is a constant effort.

    Raises:
        InvalidInput: The expression cannot be read, or names what there is not; carries the position.
    """

    name: str
    label: str
    units: tuple[str, str] = ("", "")
    expression: str
    constants: Mapping[str, Constant] = field(default_factory=dict)
    channels: Mapping[str, float] = field(default_factory=dict)
    family: str = ""
    nonnegative: bool = False
    dissipative: bool = False
    coulomb: float | None = None
    suspected: bool = True
    urdf: str | None = None
    sidecar: str | None = None
    mjcf: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.name)
        known = (*STATE, EFFORT, "pi", *self.constants, *self.channels)
        for word in (*self.constants, *self.channels):
            if not word.isidentifier() or word in (*STATE, EFFORT, "pi", *FUNCTIONS):
                raise InvalidInput(f"a constant or channel cannot be called '{word}'; use another word", name=word)
        for node in self.tree.walk():
            if node.kind == "name" and node.value not in known and Parameter(node.value).kind not in STATE:
                why = (": a term is its coefficient times the expression, so leave the coefficient out"
                       if node.value == self.name else nearest(node.value, known))
                raise fault(self.expression, node.at, f"no name '{node.value}'{why}")
        self._acceleration(self.tree)
        for lag in self.lags:
            self.lag_distance(lag)
            if any(node.value == EFFORT for node in lag.walk()):
                raise fault(self.expression, lag.at, "a lag of the effort is not possible")
        unused = [c for c in (*self.constants, *self.channels) if not self.mentions(c)]
        if unused:
            raise InvalidInput(f"'{unused[0]}' is not in the expression '{self.expression}'", name=unused[0])
        if self.coulomb is None:
            object.__setattr__(self, "coulomb", self._jump())
        if not all(self.units):
            object.__setattr__(self, "units", (self._unit("prismatic", "N"), self._unit("revolute", "N m")))

    def _acceleration(self, node: Node) -> int:
        """Return the power of accelerations in a part of the expression, 0 or 1: a mass matrix has no others."""
        if node.kind == "name":
            return int(Parameter(node.value).kind == "qdd")
        below = [self._acceleration(part) for part in node.parts]
        power = sum(below) if node.kind == "*" else max(below, default=0)
        linear = node.kind in ("+", "-", "*", "neg") or (node.kind == "/" and not below[1])
        if power > 1 or (power and not linear):
            raise fault(self.expression, node.at, "acceleration can only be a factor: efforts are linear in it")
        return power

    def _unit(self, kind: str, effort: str) -> str:
        """Return the unit of the coefficient that the expression asks for; empty at joints it is not for."""
        try:
            return unit_text(self.dimension(kind), effort)
        except InvalidInput:
            return ""

    @cached_property
    def tree(self) -> Node:
        return parse(self.expression)

    @cached_property
    def lags(self) -> tuple[Node, ...]:
        """Its lags: what is remembered from sample to sample."""
        return tuple(node for node in self.tree.walk() if node.kind == "lag")

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Joints whose motion it depends on besides its own, as the expression names them."""
        names = (Parameter(node.value).owner for node in self.tree.walk() if node.kind == "name")
        return tuple(dict.fromkeys(filter(None, names)))

    @cached_property
    def loaded(self) -> bool:
        """It depends on the effort that its joint passes on."""
        return self.mentions(EFFORT)

    @property
    def own_friction(self) -> bool:
        """It is lost in its joint, so that the joint does not pass it on."""
        return self.dissipative or self.loaded

    @property
    def risky(self) -> bool:
        """It may have no value for some motions, or one too large to be squared."""
        return any(node.kind in RISKY or node.value in ("log", "sqrt", "exp", "tan")
                   or (isinstance(node.value, tuple) and abs(node.value[0]) > 1e9) for node in self.tree.walk())

    def mentions(self, word: str) -> bool:
        return any(node.kind == "name" and node.value == word for node in self.tree.walk())

    def is_wavy(self, constant: str) -> bool:
        """Tell whether a constant changes the pitch of a wave, so that a search for it has many minima."""
        return any(node.value in ("sin", "cos", "tan") and any(below.value == constant for below in node.walk())
                   for node in self.tree.walk() if node.kind == "call")

    def unit(self, kind: str) -> str:
        return self.units[0 if kind == "prismatic" else 1]

    def dimension(self, kind: str) -> Dimension | None:
        """Return the dimension of the expression at a kind of joint, None where it is not known.

        Raises:
            InvalidInput: Units do not fit; carries the position.
        """
        own = 0 if kind == "prismatic" else 1
        state = dict(zip(STATE, JOINT_DIMENSIONS))

        def value(node: Node) -> Dimension | None:
            if node.value in state:
                return powers(JOINT_DIMENSIONS[state[node.value]][own])
            if node.value == EFFORT:
                return powers(("force", "torque")[own])
            if node.value == "pi":
                return powers("none")
            constant = self.constants.get(node.value)
            if constant is None or not constant.dimension:
                return None
            given = JOINT_DIMENSIONS.get(constant.dimension)
            return powers(constant.dimension if given is None else given[own])

        return dimension_in(self.expression, self.tree, value)

    def lag_distance(self, lag: Node) -> bool:
        """Tell whether a lag is over a distance, not a time.

        Raises:
            InvalidInput: It does not say which: its second argument has no unit.
        """
        by = lag.parts[1]
        found = by.value[1] if by.kind == "number" else ""
        if by.kind == "name" and by.value in self.constants:
            found = self.constants[by.value].dimension
        if found not in ("time", "length", "angle", "joint position"):
            raise fault(self.expression, by.at, "a lag is over a time or a distance; give a constant with a unit, or "
                                                "'0.1 s', '2 mm'")
        return found != "time"

    def value(self, state: JointState, node: Node | None = None) -> Any:
        """Return the term, or a part of its expression, for a unit coefficient."""
        def named(at: Node) -> Any:
            if at.kind == "lag":
                return self.value(state, at.parts[0]) if state.lags is None else state.lags[at.value]
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

        return evaluate(self.tree if node is None else node, named, state.math)

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
        still = JointState(q=q, qd=zero, qdd=zero, sign=zero, math=np, effort=1.0, other=lambda name: still)
        with np.errstate(all="ignore"):
            ahead, back = (float(np.real(self.value(replace(
                still, qd=s * _JUMP, sign=s, lags=(0.0,) * len(self.lags), other=lambda name: still))))
                for s in (1.0, -1.0))
        jump = abs(ahead - back) / 2
        return round(jump, 6) if math.isfinite(jump) and jump > 1e-3 else 0.0

    def with_constants(self, constants: Mapping[str, float]) -> JointTerm:
        """Return the term with other values of constants, by their full name; the others stay."""
        own = {name: replace(c, value=float(constants.get(f"{self.family}.{name}", c.value)))
               for name, c in self.constants.items()}
        return self if own == dict(self.constants) else replace(self, constants=own)


def _velocity(value: float) -> Constant:
    return Constant(value=value, dimension="joint velocity", fit=True, low=value / 100, high=value * 100)


def _bundled() -> list[JointTerm]:
    """Return the terms that come with Gough; those looked for in other ways are not `suspected`."""
    friction: dict[str, Any] = {"dissipative": True, "suspected": False}
    lasting = friction | {"nonnegative": True}
    warm: dict[str, Any] = {"channels": {"temperature": 25.0}, "constants": {"reference": Constant(value=20.0)},
                            "suspected": False}
    terms = [
        JointTerm(name="ia", label="rotor and drive inertia", units=("kg", "kg m2"), expression="qdd",
                  nonnegative=True, sidecar="rotor_inertia", mjcf="armature"),
        JointTerm(name="fv", label="viscous friction", units=("N s/m", "N m s/rad"), expression="qd",
                  nonnegative=True, dissipative=True, urdf="damping", mjcf="damping"),
        JointTerm(name="fs", label="Coulomb friction", units=("N", "N m"), expression="sign(qd)",
                  nonnegative=True, dissipative=True, urdf="friction", mjcf="frictionloss"),
        JointTerm(name="off", label="offset", units=("N", "N m"), expression="1", sidecar="effort_offset",
                  mjcf="springref"),
        JointTerm(name="k", label="spring about the zero position", units=("N/m", "N m/rad"), expression="q",
                  nonnegative=True, sidecar="stiffness", mjcf="stiffness"),
        JointTerm(name="fv_plus", label="forward viscous friction", units=("N s/m", "N m s/rad"),
                  expression="max(qd, 0)", **lasting),
        JointTerm(name="fv_minus", label="backward viscous friction", units=("N s/m", "N m s/rad"),
                  expression="min(qd, 0)", **lasting),
        JointTerm(name="fs_plus", label="forward Coulomb friction", expression="max(sign(qd), 0)", **lasting),
        JointTerm(name="fs_minus", label="backward Coulomb friction", expression="min(sign(qd), 0)", **lasting),
        JointTerm(name="stribeck", label="Stribeck friction", expression="sign(qd) * exp(-abs(qd) / speed)",
                  constants={"speed": _velocity(0.05)}, **lasting),
        JointTerm(name="fs_smooth", label="smooth Coulomb friction", expression="tanh(qd / width)", coulomb=1.0,
                  constants={"width": _velocity(0.02)}, **lasting),
        JointTerm(name="fv_cubic", label="cubic viscous friction", expression="qd^3", **friction),
        JointTerm(name="fv_root", label="square-root viscous friction", expression="sign(qd) * sqrt(abs(qd))",
                  coulomb=0.0, **friction),
        JointTerm(name="fs_time", label="friction with memory over time", expression="lag(sign(qd), time)",
                  constants={"time": Constant(value=0.1, dimension="time", low=1e-3, high=10.0)}, **lasting),
        JointTerm(name="fs_distance", label="friction with memory over distance", expression="lag(sign(qd), distance)",
                  constants={"distance": Constant(value=0.02, dimension="joint position", low=1e-6, high=10.0)},
                  **lasting),
        JointTerm(name="fs_load", label="load-dependent friction", units=("1", "1"),
                  expression="abs(effort) * sign(qd)", **lasting),
        JointTerm(name="fv_temperature", label="change of viscous friction with temperature",
                  units=("N s/(m degC)", "N m s/(rad degC)"), expression="qd * (temperature - reference)", **warm),
        JointTerm(name="fs_temperature", label="change of Coulomb friction with temperature",
                  units=("N/degC", "N m/degC"), expression="sign(qd) * (temperature - reference)", **warm),
        JointTerm(name="k2", label="quadratic spring", expression="q^2", suspected=False),
        JointTerm(name="k3", label="cubic spring", expression="q^3", suspected=False),
        JointTerm(name="k_preload", label="preload of a spring", expression="sign(q - rest)", suspected=False,
                  constants={"rest": Constant(value=0.0, dimension="joint position")}, coulomb=0.0)]
    for harmonic in (1, 2, 3):
        terms += [JointTerm(
            name=f"ripple_{wave}{harmonic if harmonic > 1 else ''}", label=f"ripple, {word}, harmonic {harmonic}",
            expression=f"{wave}({2 * harmonic} * pi * q / pitch)", family="ripple", suspected=False,
            constants={"pitch": Constant(value=0.01, dimension="joint position", low=1e-5, high=10.0)})
            for wave, word in (("sin", "sine"), ("cos", "cosine"))]
    return terms


# In the order in which base parameters are sought (BG13 (23)); registered ones follow.
TERMS: dict[str, JointTerm] = {term.name: term for term in _bundled()}
# Words of a joint's `terms` that stand for several.
BUNDLES: dict[str, tuple[str, ...]] = {
    "ripple": ("ripple_sin", "ripple_cos"), "ripple2": ("ripple_sin2", "ripple_cos2"),
    "ripple3": ("ripple_sin3", "ripple_cos3")}


def register_term(term: JointTerm) -> JointTerm:
    """Make a term known to robot files and to everything that meets one; return it."""
    check_term_name(term.name, (*TERMS, *BUNDLES))
    TERMS[term.name] = term
    return term


def check_term_name(name: str, taken: Sequence[str]) -> None:
    """Raise unless a term can have a name."""
    taken = (*taken, *INERTIAL, GAIN)
    if name in taken or not name.isidentifier():
        raise InvalidInput(f"a joint term cannot be called '{name}': expected letters, digits and _, and none of "
                           f"{', '.join(taken)}", name=name)
    Parameter.of("joint", name)  # raises for names that could not be read back
