"""Joint terms: effort of a joint beside that of rigid bodies, each linear in its coefficient.

The effort of a joint is the sum of coefficient x term. An entry of
`TERMS` holds all that is known of a term: the engine, plants, exports,
physical consistency, bounds and the treatment of velocity reversals
look it up, and refuse by name what they cannot express. A new friction
law is one entry, here, in a user's file, or in a robot file as
`[[term]]`:

    register_term(JointTerm(
        name="fc", label="smooth Coulomb friction", units=("N", "N m"), nonnegative=True,
        dissipative=True, coulomb=1.0, expression="tanh(qd / 0.02)"))

Robot files then name it among a joint's `terms`. Expressions: see
`gough.mechanism.expression`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.names import GAIN_KIND, INERTIAL, Parameter
from gough.mechanism import expression as grammar
from gough.mechanism.expression import (
    EFFORT_NAME,
    STATE_NAMES,
    Dimension,
    Node,
    fault,
    powers,
)

# Operations and functions that are undefined, or very large, for some
# arguments.
_PARTIAL_FUNCTIONS = ("/", "^", "log", "sqrt", "exp", "tan")
# Numbers in an expression beyond this may make a term too large to be
# squared.
_LARGE_NUMBER = 1e9
# Velocity at which the jump of a term is evaluated; far below any dead
# band. [m/s or rad/s]
_JUMP_VELOCITY = 1e-9
# Half jumps below this are taken as none; a Coulomb friction has 1.
_SMALLEST_JUMP = 1e-3
# Dimensions of a constant that depend on the joint: (prismatic,
# revolute).
JOINT_DIMENSIONS = {
    "joint position": ("length", "angle"),
    "joint velocity": ("velocity", "angular velocity"),
    "joint acceleration": ("acceleration", "angular acceleration"),
}
_SI_UNITS = {
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
    """A number of a term beside its coefficient, such as a Stribeck velocity or a pitch; SI."""

    value: float  # start value if it is fitted
    # `time`, `length`, ..., `joint position` or `joint velocity`; empty
    # if not known
    dimension: str = ""
    fit: bool = False  # estimated from the data, between `low` and `high`
    low: float = -math.inf  # smallest value that is searched
    high: float = math.inf  # largest value that is searched

    @property
    def unit(self) -> str:
        """The SI unit, for reports."""
        return _SI_UNITS.get(self.dimension, self.dimension)


@dataclass(frozen=True, kw_only=True)
class JointState:
    """What a term may depend on, as arrays of numbers or as symbolic expressions."""

    q: Any  # [m or rad]
    qd: Any  # velocity [m/s or rad/s]
    qdd: Any  # acceleration [m/s2 or rad/s2]
    # of the velocity: linear inside the dead band, smooth while
    # optimising
    sign: Any
    # `sin cos tan exp log sqrt tanh fabs fmin fmax floor` of NumPy or
    # CasADi
    math: Any
    # state of another joint by its name in the expression
    other: Callable[[str], JointState] | None = None
    # internal states of the term, in order; None in steady state: a lag
    # equals its input
    lags: Sequence[Any] | None = None
    # recorded channels by name; missing ones have the term's default
    channels: Mapping[str, Any] = field(default_factory=dict)
    # by full name (`stribeck.speed`), in place of the term's own
    constants: Mapping[str, Any] = field(default_factory=dict)
    # transmitted: the motor's less the friction of its joint [N or N m]
    effort: Any = 0.0


@cache
def _joint_and_quantity(word: str) -> tuple[str, str]:
    """Return the joint, empty for that of the term, and the quantity that a word names."""
    parameter = Parameter(word)
    return parameter.owner, parameter.kind


@dataclass(frozen=True, kw_only=True)
class JointTerm:
    """One term of a joint's effort: coefficient x expression."""

    name: str  # of the parameter: `fv`
    label: str  # in words; that of friction ends in `friction`
    # of the coefficient at (prismatic, revolute) joints; derived from
    # the expression if empty
    units: tuple[str, str] = ("", "")
    expression: str  # linear in the acceleration
    constants: Mapping[str, Constant] = field(default_factory=dict)  # by name
    # recorded channels it depends on -> value where a log has none
    channels: Mapping[str, float] = field(default_factory=dict)
    # terms of a family share their constants, `family.constant`; by
    # default the term's name
    family: str = ""
    # the coefficient of a physical joint is not negative
    nonnegative: bool = False
    dissipative: bool = False  # friction: it opposes motion
    # Half its jump where the velocity changes sign; by default computed
    # from the expression. If not zero, samples near velocity reversals
    # are excluded and simulators resolve the dead band.
    coulomb: float | None = None
    # range of `q`, `qd`, `effort` or a channel that the term was
    # identified in, SI; beyond it the term keeps its value at the end
    # of the range
    validity: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # the diagnosis tests whether it is missing in a robot file
    fault_candidate: bool = True
    urdf: str | None = None  # attribute of `<dynamics>`
    sidecar: str | None = None  # key of the YAML beside a URDF
    # attribute of MJCF's `<joint>`; `springref` is a constant effort
    mjcf: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.name)
        self._check_names()
        self._acceleration_power(self.tree)
        for lag in self.lags:
            self.lag_is_distance(lag)
            if any(node.value == EFFORT_NAME for node in lag.walk()):
                raise fault(
                    self.expression,
                    lag.position,
                    "a lag of the effort is not possible",
                )
        for word in (*self.constants, *self.channels):
            if not self.uses(word):
                raise InvalidInput(
                    f"'{word}' is not in the expression '{self.expression}'",
                    name=word,
                )
        self._check_validity()
        if self.coulomb is None:
            object.__setattr__(self, "coulomb", self._half_jump())
        if not all(self.units):
            units = (
                self._derived_unit("prismatic", "N"),
                self._derived_unit("revolute", "N m"),
            )
            object.__setattr__(self, "units", units)

    def _check_names(self) -> None:
        """Raise unless names of constants and channels are free, and all names are known."""
        reserved = (*STATE_NAMES, EFFORT_NAME, "pi")
        declared = (*self.constants, *self.channels)
        for word in declared:
            if not word.isidentifier() or word in (
                *reserved,
                *grammar.FUNCTIONS,
            ):
                raise InvalidInput(
                    f"a constant or channel cannot be called '{word}'; use another word",
                    name=word,
                )
        known = (*reserved, *declared)
        for node in self.tree.walk():
            word = node.value
            if node.kind != "name" or word in known or Parameter(word).kind in STATE_NAMES:
                continue
            hint = nearest(word, known)
            if word == self.name:
                hint = (
                    ": a term is its coefficient times the expression, so leave the coefficient out"
                )
            raise fault(self.expression, node.position, f"no name '{word}'{hint}")

    def _check_validity(self) -> None:
        """Raise unless the range of validity is one of quantities that the term depends on."""
        for word, (low, high) in self.validity.items():
            if word not in self.limited_names:
                raise InvalidInput(
                    f"a range of validity of '{word}' is not possible"
                    f"{nearest(word, self.limited_names)}; the expression '{self.expression}' can "
                    f"have one of: {', '.join(self.limited_names) or '(nothing)'}",
                    name=word,
                )
            if not low < high:
                raise InvalidInput(
                    f"the range of validity of '{word}' is {low:g} to {high:g}; expected the lower "
                    "end first",
                    name=word,
                )

    def _acceleration_power(self, node: Node) -> int:
        """Return the power of accelerations in a subexpression, 0 or 1.

        Raises:
            InvalidInput: Any other dependence, which would not give a
                mass matrix.
        """
        if node.kind == "name":
            return int(Parameter(node.value).kind == "qdd")
        below = [self._acceleration_power(operand) for operand in node.operands]
        power = sum(below) if node.kind == "*" else max(below, default=0)
        linear = node.kind in ("+", "-", "*", "neg") or (node.kind == "/" and not below[1])
        if power > 1 or (power and not linear):
            message = "acceleration can only be a factor: efforts are linear in it"
            raise fault(self.expression, node.position, message)
        return power

    def _derived_unit(self, kind: str, effort: str) -> str:
        """Return the unit of the coefficient by the expression; empty at joints it does not fit."""
        try:
            return grammar.unit_text(self.dimension(kind), effort)
        except InvalidInput:
            return ""

    @cached_property
    def tree(self) -> Node:
        """Syntax tree of the expression."""
        return grammar.parse(self.expression)

    @cached_property
    def lags(self) -> tuple[Node, ...]:
        """The lags in the expression; each is one internal state."""
        return tuple(node for node in self.tree.walk() if node.kind == "lag")

    @cached_property
    def other_joints(self) -> tuple[str, ...]:
        """Other joints whose motion it depends on, as the expression names them."""
        owners = [Parameter(node.value).owner for node in self.tree.walk() if node.kind == "name"]
        return tuple(dict.fromkeys(filter(None, owners)))

    @cached_property
    def limited_names(self) -> tuple[str, ...]:
        """What a range of validity can be given for: `q`, `qd`, `effort` and channels.

        A quantity whose sign alone matters is none of them.
        """
        possible = ("q", "qd", EFFORT_NAME, *self.channels)
        names: dict[str, None] = {}  # an ordered set
        waiting = [self.tree]
        while waiting:
            node = waiting.pop()
            if node.kind == "call" and node.value == "sign":
                continue
            if node.kind == "name" and node.value in possible:
                names[node.value] = None
            waiting += node.operands
        return tuple(names)

    @cached_property
    def load_dependent(self) -> bool:
        """Whether it depends on the transmitted effort of its joint."""
        return self.uses(EFFORT_NAME)

    @property
    def is_joint_friction(self) -> bool:
        """Whether it is friction of its joint, which the joint does not transmit."""
        return self.dissipative or self.load_dependent

    @cached_property
    def may_be_undefined(self) -> bool:
        """Whether it may have no value for some motions, or one too large to be squared."""
        for node in self.tree.walk():
            if node.kind in _PARTIAL_FUNCTIONS or node.value in _PARTIAL_FUNCTIONS:
                return True
            if node.kind == "number" and abs(node.value[0]) > _LARGE_NUMBER:
                return True
        return False

    def uses(self, word: str) -> bool:
        """Return whether the expression has a name."""
        return any(node.kind == "name" and node.value == word for node in self.tree.walk())

    def is_periodic_in(self, constant: str) -> bool:
        """Return whether a constant is inside a sine: a search for it then has many minima."""
        for node in self.tree.walk():
            wave = node.kind == "call" and node.value in ("sin", "cos", "tan")
            if wave and any(below.value == constant for below in node.walk()):
                return True
        return False

    def unit(self, kind: str) -> str:
        """Return the unit of the coefficient at a prismatic or revolute joint."""
        return self.units[0 if kind == "prismatic" else 1]

    def dimension(self, kind: str) -> Dimension | None:
        """Return the dimension of the expression at a kind of joint, None where it is not known."""
        column = 0 if kind == "prismatic" else 1
        known = {EFFORT_NAME: ("force", "torque")[column], "pi": "none"}
        for name, dimensions in zip(STATE_NAMES, JOINT_DIMENSIONS.values()):
            known[name] = dimensions[column]
        for name, constant in self.constants.items():
            dimensions = JOINT_DIMENSIONS.get(constant.dimension, (constant.dimension,) * 2)
            known[name] = dimensions[column]

        def dimension_of_name(node: Node) -> Dimension | None:
            return powers(known.get(node.value, ""))

        return grammar.dimension_in(self.expression, self.tree, dimension_of_name)

    def lag_is_distance(self, lag: Node) -> bool:
        """Return whether a lag is over a distance, not a time.

        Raises:
            InvalidInput: Its second argument has no unit.
        """
        extent = lag.operands[1]
        dimension = ""
        if extent.kind == "number":
            dimension = extent.value[1]
        elif extent.kind == "name" and extent.value in self.constants:
            dimension = self.constants[extent.value].dimension
        if dimension not in ("time", "length", "angle", "joint position"):
            raise fault(
                self.expression,
                extent.position,
                "a lag is over a time or a distance; give a constant with a unit, or "
                "'0.1 s', '2 mm'",
            )
        return dimension != "time"

    def value(self, state: JointState, node: Node | None = None) -> Any:
        """Return the term, or a subexpression of it, for a unit coefficient."""
        value_of = partial(self._value_of, state)
        return grammar.evaluate(node or self.tree, value_of, state.math)

    def _value_of(self, state: JointState, node: Node) -> Any:
        """Return the value of a name, a lag or a sign."""
        if node.kind == "lag":
            if state.lags is None:
                return self.value(state, node.operands[0])
            return state.lags[node.value]
        if node.kind == "call":
            return self._sign(state, node.operands[0])
        word = node.value
        if word in self.constants:
            full_name = f"{self.family}.{word}"
            return state.constants.get(full_name, self.constants[word].value)
        if word == "pi":
            return math.pi
        if word in self.channels:
            quantity = state.channels.get(word, self.channels[word])
        else:
            quantity = getattr(self._state_of(state, word), _joint_and_quantity(word)[1])
        if word in self.validity:
            low, high = self.validity[word]
            return state.math.fmin(state.math.fmax(quantity, low), high)
        return quantity

    def _sign(self, state: JointState, argument: Node) -> Any:
        """Return the sign of a subexpression; that of a velocity is given with the state."""
        if argument.kind == "name" and _joint_and_quantity(argument.value)[1] == "qd":
            return self._state_of(state, argument.value).sign
        steep = self.value(state, argument) * 1e300
        return state.math.fmax(state.math.fmin(steep, 1.0), -1.0)

    @staticmethod
    def _state_of(state: JointState, name: str) -> JointState:
        """Return the state of the joint that a name belongs to."""
        joint = _joint_and_quantity(name)[0]
        if not joint:
            return state
        if state.other is None:
            raise InvalidInput(f"the state of joint '{joint}' is not known here")
        return state.other(joint)

    def _half_jump(self) -> float:
        """Return half the change of the term where the velocity of its joint changes sign."""
        zero = np.float64(0.0)  # of NumPy, which divides by zero without an exception
        still = JointState(
            q=np.float64(0.37),
            qd=zero,
            qdd=zero,
            sign=zero,
            math=np,
            effort=1.0,
            other=lambda name: still,
        )

        def value_moving(sign: np.float64) -> float:
            lags = (zero,) * len(self.lags)
            moving = replace(still, qd=sign * _JUMP_VELOCITY, sign=sign, lags=lags)
            return float(np.real(self.value(moving)))

        with np.errstate(all="ignore"):
            jump = abs(value_moving(np.float64(1.0)) - value_moving(np.float64(-1.0))) / 2
        if not math.isfinite(jump) or jump <= _SMALLEST_JUMP:
            return 0.0
        return round(jump, 6)

    def with_constants(self, constants: Mapping[str, float]) -> JointTerm:
        """Return the term with other values of constants, by full name; the others stay."""
        changed = {}
        for name, constant in self.constants.items():
            number = float(constants.get(f"{self.family}.{name}", constant.value))
            changed[name] = replace(constant, value=number)
        if changed == dict(self.constants):
            return self
        return replace(self, constants=changed)


# in the order in which base parameters are sought (BG13 (23))
TERMS: dict[str, JointTerm] = {}
# Words of a joint's `terms` that stand for several.
BUNDLES: dict[str, tuple[str, ...]] = {
    "ripple": ("ripple_sin", "ripple_cos"),
    "ripple2": ("ripple_sin2", "ripple_cos2"),
    "ripple3": ("ripple_sin3", "ripple_cos3"),
}


def register_term(term: JointTerm) -> JointTerm:
    """Make a term known to robot files and to the rest of Gough; return it."""
    check_term_name(term.name, (*TERMS, *BUNDLES))
    TERMS[term.name] = term
    return term


def check_term_name(name: str, taken: Sequence[str]) -> None:
    """Raise unless a term can have a name."""
    taken = (*taken, *INERTIAL, GAIN_KIND)
    if name in taken or not name.isidentifier():
        raise InvalidInput(
            f"a joint term cannot be called '{name}': expected letters, digits and _, and none of "
            f"{', '.join(taken)}",
            name=name,
        )
    Parameter.of("joint", name)  # raises for names that could not be read back


def _constant(value: float, dimension: str, low: float, high: float, fit: bool = False) -> Constant:
    return Constant(value=value, dimension=dimension, low=low, high=high, fit=fit)


def _register(name: str, label: str, expression: str, **fields: Any) -> None:
    """Register a term of Gough."""
    register_term(JointTerm(name=name, label=label, expression=expression, **fields))


def _register_standard_terms() -> None:
    """Register the terms that most robots have; the diagnosis tests whether one is missing."""
    force: Any = {"units": ("N", "N m")}
    friction: Any = {"nonnegative": True, "dissipative": True}
    _register(
        "ia",
        "rotor and drive inertia",
        "qdd",
        units=("kg", "kg m2"),
        nonnegative=True,
        sidecar="rotor_inertia",
        mjcf="armature",
    )
    viscous = ("N s/m", "N m s/rad")
    _register(
        "fv",
        "viscous friction",
        "qd",
        units=viscous,
        urdf="damping",
        mjcf="damping",
        **friction,
    )
    _register(
        "fs",
        "Coulomb friction",
        "sign(qd)",
        urdf="friction",
        mjcf="frictionloss",
        **force,
        **friction,
    )
    _register("off", "offset", "1", sidecar="effort_offset", mjcf="springref", **force)
    _register(
        "k",
        "spring about the zero position",
        "q",
        units=("N/m", "N m/rad"),
        nonnegative=True,
        sidecar="stiffness",
        mjcf="stiffness",
    )


def _register_friction_terms() -> None:
    """Register further friction laws."""
    friction: Any = {
        "nonnegative": True,
        "dissipative": True,
        "fault_candidate": False,
    }
    viscous = ("N s/m", "N m s/rad")
    _register(
        "fv_plus",
        "forward viscous friction",
        "max(qd, 0)",
        units=viscous,
        **friction,
    )
    _register(
        "fv_minus",
        "backward viscous friction",
        "min(qd, 0)",
        units=viscous,
        **friction,
    )
    _register("fs_plus", "forward Coulomb friction", "max(sign(qd), 0)", **friction)
    _register("fs_minus", "backward Coulomb friction", "min(sign(qd), 0)", **friction)
    _register(
        "stribeck",
        "Stribeck friction",
        "sign(qd) * exp(-abs(qd) / speed)",
        constants={"speed": _constant(0.05, "joint velocity", 5e-4, 5.0, fit=True)},
        **friction,
    )
    _register(
        "fs_smooth",
        "smooth Coulomb friction",
        "tanh(qd / width)",
        constants={"width": _constant(0.02, "joint velocity", 2e-4, 2.0, fit=True)},
        coulomb=1.0,
        **friction,
    )
    _register(
        "fv_cubic",
        "cubic viscous friction",
        "qd^3",
        dissipative=True,
        fault_candidate=False,
    )
    _register(
        "fv_root",
        "square-root viscous friction",
        "sign(qd) * sqrt(abs(qd))",
        dissipative=True,
        fault_candidate=False,
        coulomb=0.0,
    )
    _register(
        "fs_time",
        "friction with memory over time",
        "lag(sign(qd), time)",
        constants={"time": _constant(0.1, "time", 1e-3, 10.0)},
        **friction,
    )
    _register(
        "fs_distance",
        "friction with memory over distance",
        "lag(sign(qd), distance)",
        constants={"distance": _constant(0.02, "joint position", 1e-6, 10.0)},
        **friction,
    )
    _register(
        "fs_load",
        "load-dependent friction",
        "abs(effort) * sign(qd)",
        units=("1", "1"),
        **friction,
    )


def _register_other_terms() -> None:
    """Register temperature dependence, springs and ripple."""
    warm: Any = {
        "channels": {"temperature": 25.0},
        "constants": {"reference": Constant(value=20.0)},
        "fault_candidate": False,
    }
    _register(
        "fv_temperature",
        "change of viscous friction with temperature",
        "qd * (temperature - reference)",
        units=("N s/(m degC)", "N m s/(rad degC)"),
        **warm,
    )
    _register(
        "fs_temperature",
        "change of Coulomb friction with temperature",
        "sign(qd) * (temperature - reference)",
        units=("N/degC", "N m/degC"),
        **warm,
    )
    _register("k2", "quadratic spring", "q^2", fault_candidate=False)
    _register("k3", "cubic spring", "q^3", fault_candidate=False)
    _register(
        "k_preload",
        "preload of a spring",
        "sign(q - rest)",
        constants={"rest": _constant(0.0, "joint position", -math.inf, math.inf)},
        coulomb=0.0,
        fault_candidate=False,
    )
    pitch = _constant(0.01, "joint position", 1e-5, 10.0)
    for harmonic, ending in ((1, ""), (2, "2"), (3, "3")):
        for function, label in (("sin", "sine"), ("cos", "cosine")):
            _register(
                f"ripple_{function}{ending}",
                f"ripple, {label}, harmonic {harmonic}",
                f"{function}({2 * harmonic} * pi * q / pitch)",
                family="ripple",
                constants={"pitch": pitch},
                fault_candidate=False,
            )


_register_standard_terms()
_register_friction_terms()
_register_other_terms()
