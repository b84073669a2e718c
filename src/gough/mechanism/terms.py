"""Joint terms: basis functions of one joint's motion, linear in their coefficient.

A joint's effort is the sum of coefficient x term. A new friction law is one entry here and nothing else: the engine
calls `expression` with the joint's symbols (any type with operators and the functions of `Operations`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class JointTerm:
    """One term of a joint's effort.

    Args:
        name: Parameter name, e.g. `fv`.
        label: In words.
        expression: (q, qd, qdd, sign) -> value, where sign is the documented sign of the velocity.
        units: Unit of the coefficient for (prismatic, revolute) joints.
        nonnegative: The coefficient of a physical joint cannot be negative.
        dissipative: The term is friction: it opposes motion and a simulator must treat zero velocity with care.
    """

    name: str
    label: str
    expression: Callable[[Any, Any, Any, Any], Any]
    units: tuple[str, str]
    nonnegative: bool = False
    dissipative: bool = False


TERMS: dict[str, JointTerm] = {
    term.name: term
    for term in (
        JointTerm(name="ia", label="rotor and drive inertia", expression=lambda q, qd, qdd, sign: qdd,
                  units=("kg", "kg m2"), nonnegative=True),
        JointTerm(name="fv", label="viscous friction", expression=lambda q, qd, qdd, sign: qd,
                  units=("N s/m", "N m s/rad"), nonnegative=True, dissipative=True),
        JointTerm(name="fs", label="Coulomb friction", expression=lambda q, qd, qdd, sign: sign,
                  units=("N", "N m"), nonnegative=True, dissipative=True),
        JointTerm(name="off", label="offset", expression=lambda q, qd, qdd, sign: 1.0, units=("N", "N m")),
        JointTerm(name="k", label="spring about the zero position", expression=lambda q, qd, qdd, sign: q,
                  units=("N/m", "N m/rad"), nonnegative=True),
    )
}
