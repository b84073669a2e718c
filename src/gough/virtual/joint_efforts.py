"""The efforts of joint terms (friction, springs, rotor inertia) on plants of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint, Mechanism

# of u = tau / (1 + f(u) / u); exact after one if f(u) ~ u
TRANSMITTED_EFFORT_ITERATIONS = 2
# (q, qd, sign) at which the derivative of a term by the acceleration is
# evaluated.
PROBE_STATES = ((0.0, 0.0, 0.0), (0.7, 1.3, 1.0), (-0.4, -0.9, -1.0))


class _TermGroup(NamedTuple):
    """A joint term with the joints at which it is evaluated together."""

    term: JointTerm
    joints: NDArray[np.intp]  # indices of the joints
    coefficients: FloatArray  # of the term at these joints
    states: slice  # its internal states among all


class JointEfforts:
    """The joint terms of some coordinates: `rotor` qdd plus the efforts that a call returns.

    Internal states are held over a step of the integrator and updated
    after it: exact to first order in its length. The transmitted effort
    u of a motor is its effort less the friction of its joint: u + f(u)
    = tau, solved by u = tau / (1 + f(u) / u), at once where f is in
    proportion to u.

    Args:
        values: Coefficients of the terms by parameter name.
        coordinates: Indices of the mechanism's coordinates, (c,).
        dead_band: Of Coulomb friction, of all coordinates, (n,). [m/s
            or rad/s]

    Attributes:
        rotor: Inertia of the terms in proportion to the acceleration,
            (c,).
        n_states: Number of internal states, x.
        states: Internal states, (x,).
    """

    def __init__(
        self,
        mechanism: Mechanism,
        values: Mapping[str, float],
        coordinates: Sequence[int],
        dead_band: FloatArray,
    ) -> None:
        self._mechanism = mechanism
        self._joints = [mechanism.joints[i] for i in coordinates]
        self._names = [joint.name for joint in self._joints]
        self._band = np.maximum(dead_band[list(coordinates)], 1e-300)
        self._load_dependent: list[tuple[int, int]] = []  # index here and among the motors
        for k, i in enumerate(coordinates):
            if i in mechanism.load_dependent:
                motor = mechanism.actuated.index(mechanism.coordinates[i])
                self._load_dependent.append((k, motor))
        self.rotor = np.zeros(len(self._joints))
        self.n_states = 0
        self._groups: list[_TermGroup] = []
        for name, term in mechanism.terms.items():
            for joints in self._joints_together(name, term):
                self._add_group(name, term, joints, values)
        self.states = np.zeros(self.n_states)

    def _joints_together(self, name: str, term: JointTerm) -> list[NDArray[np.intp]]:
        """Return the joints of a term in groups that are evaluated together.

        Joints with internal states, or that depend on other joints, are
        evaluated one by one.
        """
        joints = [k for k, joint in enumerate(self._joints) if name in joint.terms]
        if term.lags or term.other_joints:
            return [np.array([k]) for k in joints]
        return [np.array(joints)] if joints else []

    def _add_group(
        self,
        name: str,
        term: JointTerm,
        joints: NDArray[np.intp],
        values: Mapping[str, float],
    ) -> None:
        """Add the joints of a term that are evaluated together."""
        first = self._joints[joints[0]]
        self._check_other_joints(name, term, first)
        coefficients = np.array([values.get(f"{self._names[k]}.{name}", 0.0) for k in joints])
        self.rotor[joints] += _inertia_of(term, first.name) * coefficients
        states = slice(self.n_states, self.n_states + len(term.lags))
        self._groups.append(_TermGroup(term, joints, coefficients, states))
        self.n_states = states.stop

    def _check_other_joints(self, name: str, term: JointTerm, joint: Joint) -> None:
        """Raise if a term depends on a joint that this plant does not have."""
        for other in term.other_joints:
            if self._mechanism.resolve_joint(joint, other).name not in self._names:
                raise InvalidInput(
                    f"the term '{name}' of joint '{joint.name}' depends on '{other}', which this "
                    "plant does not have; use the gough plant",
                    joint=joint.name,
                    term=name,
                )

    def _joint_state(
        self,
        q: FloatArray,
        qd: FloatArray,
        joints: NDArray[np.intp],
        states: FloatArray,
        transmitted: FloatArray | None = None,
    ) -> JointState:
        """Return the arguments of a term.

        Args:
            joints: Indices of the joints at which it is evaluated.
            states: Its internal states.
            transmitted: Transmitted efforts of all joints, (c,), if it
                depends on them.
        """

        def other(name: str) -> JointState:
            joint = self._mechanism.resolve_joint(self._joints[int(joints[0])], name)
            return self._joint_state(q, qd, np.array([self._names.index(joint.name)]), states)

        return JointState(
            q=q[joints],
            qd=qd[joints],
            qdd=0.0,
            sign=np.minimum(np.maximum(qd[joints] / self._band[joints], -1.0), 1.0),
            math=np,
            lags=list(states),
            other=other,
            effort=0.0 if transmitted is None else transmitted[joints],
        )

    def _sum(
        self,
        groups: Sequence[_TermGroup],
        q: FloatArray,
        qd: FloatArray,
        transmitted: FloatArray | None = None,
    ) -> FloatArray:
        """Return the sum of some terms, (c,)."""
        total = np.zeros(len(q))
        for group in groups:
            states = self.states[group.states]
            state = self._joint_state(q, qd, group.joints, states, transmitted)
            total[group.joints] += group.coefficients * group.term.value(state)
        return total

    def __call__(self, q: FloatArray, qd: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the efforts without acceleration under motor efforts (a,), (c,)."""
        if not self._load_dependent:
            return self._sum(self._groups, q, qd)
        load_dependent = []
        other_friction = []
        for group in self._groups:
            if group.term.load_dependent:
                load_dependent.append(group)
            elif group.term.dissipative:
                other_friction.append(group)
        available = -self._sum(other_friction, q, qd)
        for k, motor in self._load_dependent:
            available[k] += effort[motor]
        transmitted = available
        for _ in range(TRANSMITTED_EFFORT_ITERATIONS):
            friction = self._sum(load_dependent, q, qd, transmitted)
            ratio = np.zeros(len(q))
            np.divide(friction, transmitted, out=ratio, where=transmitted != 0)
            transmitted = available / (1 + ratio)
        return self._sum(self._groups, q, qd, transmitted)

    def update_states(
        self,
        before: tuple[FloatArray, FloatArray],
        after: tuple[FloatArray, FloatArray],
        h: float,
    ) -> None:
        """Update the internal states over a step of length h [s].

        Args:
            before: Position and velocity at its start, (c,) each.
            after: Position and velocity at its end, (c,) each.
        """
        if not self.n_states:
            return
        updated = self.states.copy()
        distance = np.abs(after[0] - before[0])
        for group in self._groups:
            term = group.term
            for k, lag in enumerate(term.lags):
                start = self._joint_state(*before, group.joints, updated[group.states])
                end = self._joint_state(*after, group.joints, updated[group.states])
                start_input = float(np.squeeze(term.value(start, lag.operands[0])))
                end_input = float(np.squeeze(term.value(end, lag.operands[0])))
                mean = (start_input + end_input) / 2
                advance = h
                if term.lag_is_distance(lag):
                    advance = float(distance[group.joints[0]])
                decay = np.exp(-advance / term.value(start, lag.operands[1]))
                index = group.states.start + k
                updated[index] = decay * updated[index] + (1 - decay) * mean
        self.states = updated


def _inertia_of(term: JointTerm, joint: str) -> float:
    """Return the factor of the acceleration in a term, which must be constant."""

    def value_at(q: float, qd: float, qdd: float, sign: float) -> float:
        state = JointState(
            q=np.float64(q),
            qd=np.float64(qd),
            qdd=qdd,
            sign=sign,
            math=np,
            other=lambda name: state,
        )
        return float(term.value(state))

    values = []
    with np.errstate(all="ignore"):  # a term may exist only on one side of zero
        for q, qd, sign in PROBE_STATES:
            values.append([value_at(q, qd, qdd, sign) for qdd in (0.0, 1.0, 2.0)])
    factors = np.diff(values, axis=1)
    factors = factors[np.isfinite(factors)]
    if not factors.size:
        return 0.0
    if np.ptp(factors) > 1e-12 * np.abs(factors).max():
        raise InvalidInput(
            f"the term '{term.name}' of joint '{joint}' multiplies the acceleration by position or "
            "velocity; only the gough plant can simulate that",
            joint=joint,
            term=term.name,
        )
    return float(factors[0])
