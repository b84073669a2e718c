"""Joint terms as numbers, for plants that do not use the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Mechanism

_STATES = ((0.0, 0.0, 0.0), (0.7, 1.3, 1.0), (-0.4, -0.9, -1.0))  # (q, qd, sign) at which a term's weight is looked at


class JointEfforts:
    """The joint terms of some coordinates: `rotor` qdd plus what a call with q and qd returns.

    Coulomb-like terms see the sign of the velocity, linear inside the dead band.

    Args:
        mechanism: The robot.
        values: Standard parameters by name.
        coordinates: Indices of the coordinates, (c,).
        dead_band: Of all coordinates, (n,). [m/s or rad/s]

    Raises:
        InvalidInput: A term that weighs the acceleration by position or velocity; names term and joint.
    """

    def __init__(self, mechanism: Mechanism, values: Mapping[str, float], coordinates: Sequence[int],
                 dead_band: FloatArray) -> None:
        joints = [mechanism.joints[i] for i in coordinates]
        self.rotor = np.zeros(len(joints))
        self._band = np.maximum(dead_band[list(coordinates)], 1e-300)
        self._terms = []
        for name, term in mechanism.terms.items():
            at = [k for k, joint in enumerate(joints) if name in joint.terms]
            if not at:
                continue
            coefficient = np.array([values.get(f"{joints[k].name}.{name}", 0.0) for k in at])
            weight = _weight(term, joints[at[0]].name)
            self.rotor[at] += weight * coefficient
            self._terms.append((term.expression, np.array(at), coefficient))

    def __call__(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        """Return the efforts without acceleration, (c,). [N or N m]"""
        sign = np.minimum(np.maximum(qd / self._band, -1.0), 1.0)
        total = np.zeros_like(q)
        for expression, at, coefficient in self._terms:
            total[at] += coefficient * expression(JointState(q[at], qd[at], 0.0, sign[at], np))
        return total


def _weight(term: JointTerm, joint: str) -> float:
    """Return what a term multiplies the acceleration with, if that is a constant."""
    with np.errstate(all="ignore"):  # a term may exist only on one side of zero
        values = np.array([[term.expression(JointState(q, qd, qdd, sign, np)) for qdd in (0.0, 1.0, 2.0)]
                           for q, qd, sign in _STATES], dtype=float)
    weights = np.diff(values, axis=1)
    weights = weights[np.isfinite(weights)]
    if weights.size and np.ptp(weights) > 1e-12 * np.abs(weights).max():
        raise InvalidInput(f"the term '{term.name}' of joint '{joint}' weighs the acceleration by position or "
                           "velocity; only the gough plant can simulate that", joint=joint, term=term.name)
    return float(weights[0]) if weights.size else 0.0
