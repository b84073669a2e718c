"""Joint terms: what a joint's effort is made of besides rigid bodies, each linear in its coefficient.

A joint's effort is the sum of coefficient x term. All that is known of a term stands in its entry: engine, plants,
exports, feasibility, bounds and the treatment of reversals ask here, and refuse by name what they cannot express. A new
friction law is one entry, here or in a user's own file:

    register_term(JointTerm(
        name="fc", label="smooth Coulomb friction", units=("N", "N m"), nonnegative=True, dissipative=True, coulomb=1.0,
        expression=lambda joint: joint.math.tanh(joint.qd / 0.02)))

Robot files then name it among a joint's `terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gough.core.errors import InvalidInput
from gough.core.names import GAIN, INERTIAL, Parameter


class JointState(NamedTuple):
    """What a term may depend on: arrays of numbers, or expressions.

    Args:
        q, qd, qdd: Coordinate, velocity, acceleration. [m or rad, per s, per s2]
        sign: Of the velocity: linear inside the dead band, smooth while optimising.
        math: Functions for these: `sin cos tan exp log sqrt tanh fabs fmin fmax floor` of NumPy or CasADi.
    """

    q: Any
    qd: Any
    qdd: Any
    sign: Any
    math: Any


@dataclass(frozen=True, kw_only=True)
class JointTerm:
    """One term of a joint's effort.

    Args:
        name: Parameter name, e.g. `fv`.
        label: In words; friction ends in `friction`.
        units: Unit of the coefficient for (prismatic, revolute) joints.
        expression: State of the joint -> value, of operators and `joint.math`; acceleration only as a factor.
        nonnegative: The coefficient of a physical joint cannot be negative.
        dissipative: The term is friction: it opposes motion.
        coulomb: Half the term's jump where the velocity changes sign: 1 for dry friction, 0 for what is continuous.
            Samples near reversals say little about a term that jumps, and simulators resolve its dead band.
        urdf: Attribute of URDF's `<dynamics>` that the coefficient is, or None.
        sidecar: Key of the YAML file beside a URDF, for what URDF has no word for, or None.
        mjcf: Attribute of MJCF's `<joint>` that the coefficient is, or None. `springref` is a constant effort.
    """

    name: str
    label: str
    units: tuple[str, str]
    expression: Callable[[JointState], Any]
    nonnegative: bool = False
    dissipative: bool = False
    coulomb: float = 0.0
    urdf: str | None = None
    sidecar: str | None = None
    mjcf: str | None = None

    def unit(self, kind: str) -> str:
        """Return the coefficient's unit for a kind of joint."""
        return self.units[0 if kind == "prismatic" else 1]


# In the order in which base parameters are sought (BG13 (23)); registered ones follow.
TERMS: dict[str, JointTerm] = {
    term.name: term
    for term in (
        JointTerm(name="ia", label="rotor and drive inertia", units=("kg", "kg m2"),
                  expression=lambda joint: joint.qdd, nonnegative=True,
                  sidecar="rotor_inertia", mjcf="armature"),
        JointTerm(name="fv", label="viscous friction", units=("N s/m", "N m s/rad"),
                  expression=lambda joint: joint.qd, nonnegative=True, dissipative=True,
                  urdf="damping", mjcf="damping"),
        JointTerm(name="fs", label="Coulomb friction", units=("N", "N m"),
                  expression=lambda joint: joint.sign, nonnegative=True, dissipative=True, coulomb=1.0,
                  urdf="friction", mjcf="frictionloss"),
        JointTerm(name="off", label="offset", units=("N", "N m"),
                  expression=lambda joint: 1.0, sidecar="effort_offset", mjcf="springref"),
        JointTerm(name="k", label="spring about the zero position", units=("N/m", "N m/rad"),
                  expression=lambda joint: joint.q, nonnegative=True, sidecar="stiffness", mjcf="stiffness"),
    )
}


def register_term(term: JointTerm) -> JointTerm:
    """Make a term known to robot files and to everything that meets one; return it."""
    taken = (*TERMS, *INERTIAL, GAIN)
    if term.name in taken or not term.name.isidentifier():
        raise InvalidInput(f"a joint term cannot be called '{term.name}': expected letters, digits and _, and none of "
                           f"{', '.join(taken)}", name=term.name)
    Parameter.of("joint", term.name)  # raises for names that could not be read back
    TERMS[term.name] = term
    return term
