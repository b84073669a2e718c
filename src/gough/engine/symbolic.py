"""The equations of a mechanism as CasADi expressions, written once.

Notation: q all coordinates, phi(q) = 0 the closures, K = dphi/dq. Vectors of a body are expressed
in its own frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.inertia import INERTIA_ENTRIES
from gough.core.names import INERTIAL, Parameter
from gough.mechanism.closures import CLOSURES, Configuration
from gough.mechanism.placement import Placement
from gough.mechanism.terms import JointState
from gough.mechanism.types import BASE, Closure, Mechanism


@dataclass(frozen=True)
class Transform:
    """A rigid transform: rotation (3, 3) and translation (3,), numbers or expressions."""

    rotation: ca.SX
    translation: ca.SX

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(
            self.rotation @ other.rotation, self.translation + self.rotation @ other.translation
        )

    def twist(self, q: ca.SX, rates: ca.SX) -> ca.SX:
        """Return linear, then angular velocity in the frame it leads to, (6,): dR/dt R^T = [w]x."""
        turn = ca.reshape(ca.jtimes(ca.vec(self.rotation), q, rates), 3, 3) @ self.rotation.T
        return ca.vertcat(ca.jtimes(self.translation, q, rates), turn[2, 1], turn[0, 2], turn[1, 0])

    def jacobian(self, q: ca.SX) -> ca.SX:
        """Return the twist by the rates of coordinates, (6, n)."""
        rates = ca.SX.sym("rates", q.shape[0])
        return ca.densify(ca.jacobian(self.twist(q, rates), rates))


def _fixed(placement: Placement) -> Transform:
    return Transform(_sparse(placement.rotation), _sparse(placement.translation))


def _sparse(values: FloatArray) -> ca.SX:
    """Return a constant expression without stored zeros, so that multiplications by zero vanish."""
    return ca.SX(ca.sparsify(ca.DM(values)))


def _cross(a: ca.SX, b: ca.SX) -> ca.SX:
    """Return a x b, column by column; one of them may be a single column."""
    i, j = [1, 2, 0], [2, 0, 1]
    return ca.vertcat(*[a[i[k], :] * b[j[k], :] - a[j[k], :] * b[i[k], :] for k in range(3)])


def _rotation(axis: FloatArray, angle: ca.SX) -> ca.SX:
    """Return a a^T + cos (1 - a a^T) + sin [a]x for a unit vector a."""
    along, cross = np.outer(axis, axis), np.cross(axis, np.eye(3)).T
    return (
        _sparse(along) + ca.cos(angle) * _sparse(np.eye(3) - along) + ca.sin(angle) * _sparse(cross)
    )


def joint_transforms(mechanism: Mechanism, q: ca.SX) -> list[Transform]:
    """Return the transform from each joint's parent body to its child body."""
    transforms = []
    for i, joint in enumerate(mechanism.joints):
        if joint.kind == "revolute":
            move = Transform(_rotation(joint.direction, q[i]), ca.SX(3, 1))
        else:
            move = Transform(_sparse(np.eye(3)), _sparse(joint.direction) * q[i])
        transforms.append(_fixed(joint.placement) @ move)
    return transforms


def body_transforms(mechanism: Mechanism, q: ca.SX) -> dict[str, Transform]:
    """Return the pose of every body in the base frame, by name."""
    poses = {BASE: _fixed(Placement())}
    for joint, transform in zip(mechanism.joints, joint_transforms(mechanism, q)):
        poses[joint.child] = poses[joint.parent] @ transform
    return poses


def closure_equations(mechanism: Mechanism, q: ca.SX) -> ca.SX:
    """Return phi of all closures, stacked, (c,): zero where the loops are closed. [m or rad]"""
    poses = body_transforms(mechanism, q)
    coordinates = {name: q[i] for i, name in enumerate(mechanism.coordinates)}
    parts: list[ca.SX] = []
    for closure in mechanism.closures:
        parts += CLOSURES[closure.kind].residual(
            closure, Configuration(coordinates, *closure_ends(closure, poses))
        )
    return ca.densify(ca.vertcat(*parts)) if parts else ca.SX(0, 1)


def equation_owners(mechanism: Mechanism) -> list[int]:
    """Return the number of the closure that each closure equation belongs to, (c,)."""
    return [k for k, closure in enumerate(mechanism.closures) for _ in range(closure.equations)]


def closure_ends(closure: Closure, poses: Mapping[str, Transform]) -> list[Transform]:
    """Return where the frames are that a closure brings together."""
    return [poses[frame.body] @ _fixed(frame.placement) for frame in closure.frames]


class TreeEfforts:
    """Generalised efforts of the open tree by the Newton-Euler recursion.

    Args:
        q, qd, qdd: All coordinates and their derivatives, symbols or expressions, (n,).
        dead_band: Velocity below which Coulomb terms are interpolated, (n,), or these
            and the extra inputs of `Model.kernel_context`, (n + x,); without them, internal states
            have settled. [m/s or rad/s]
        smooth: Use tanh for the sign (optimisation); else it is linear inside the dead band, +-1
            outside.

    Attributes:
        transmitted: Transmitted efforts by joint, for load-dependent friction; from `dead_band`
            if it contains them, otherwise written by `TransmittedEffort.insert`.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        q: ca.SX,
        qd: ca.SX,
        qdd: ca.SX,
        dead_band: ca.SX,
        smooth: bool = False,
    ) -> None:
        self.mechanism = mechanism
        self.q, self.qd, self.qdd = q, qd, qdd
        n, kept = len(mechanism.joints), len(mechanism.internal_states)
        scaled = qd / ca.fmax(
            dead_band[:n], 1e-300
        )  # a band of zero gives the plain sign with sign(0) = 0
        self.sign = ca.tanh(scaled) if smooth else ca.fmax(ca.fmin(scaled, 1.0), -1.0)
        known = dead_band.shape[0] > n
        self._lags = dead_band[n : n + kept] if known else None
        self._channels = (
            {name: dead_band[n + kept + k] for k, name in enumerate(mechanism.channels)}
            if known
            else {}
        )
        transmitted = dead_band[n + kept + len(mechanism.channels) :]
        self.transmitted: dict[int, ca.SX] = {}
        for k, joint in enumerate(mechanism.load_dependent[: transmitted.shape[0]]):
            self.transmitted[joint] = transmitted[k]
        self._outward()

    def _outward(self) -> None:
        """Find the motion of all bodies: acceleration of the origin minus gravity, angular
        velocity, acceleration.
        """
        self._transforms = joint_transforms(self.mechanism, self.q)
        self._motion = {
            BASE: (_sparse(-np.array(self.mechanism.gravity)), ca.SX(3, 1), ca.SX(3, 1))
        }
        for i, joint in enumerate(self.mechanism.joints):
            R, r = self._transforms[i].rotation, self._transforms[i].translation
            a, w, wd = self._motion[joint.parent]
            speed, thrust = (_sparse(joint.direction) * x[i] for x in (self.qd, self.qdd))
            a, w, wd = R.T @ (a + ca.cross(wd, r) + ca.cross(w, ca.cross(w, r))), R.T @ w, R.T @ wd
            if joint.kind == "revolute":
                self._motion[joint.child] = a, w + speed, wd + thrust + ca.cross(w, speed)
            else:
                self._motion[joint.child] = a + thrust + 2 * ca.cross(w, speed), w, wd

    def _term(self, i: int, name: str) -> Any:
        """Return a joint term for a unit coefficient."""
        return self.mechanism.terms[name].value(self._state(i, name))

    def _state(self, i: int, name: str = "") -> JointState:
        """Return what a term of a joint may depend on."""
        mechanism = self.mechanism
        own = (
            None
            if self._lags is None
            else [
                self._lags[k]
                for k, memory in enumerate(mechanism.internal_states)
                if memory[:2] == (i, name)
            ]
        )
        return JointState(
            q=self.q[i],
            qd=self.qd[i],
            qdd=self.qdd[i],
            sign=self.sign[i],
            math=ca,
            lags=own,
            channels=self._channels,
            effort=self.transmitted.get(i, 0.0),
            other=lambda other: self._state(
                mechanism.coordinates.index(
                    mechanism.resolve_joint(mechanism.joints[i], other).name
                )
            ),
        )

    def state_derivatives(self) -> tuple[ca.SX, ca.SX]:
        """Return what each lag follows, and how fast, both (x,): d lag/dt = rate (followed - lag).

        [1/s]
        """
        followed, rates = [], []
        for i, name, k in self.mechanism.internal_states:
            term, state = self.mechanism.terms[name], self._state(i, name)
            lag = term.lags[k]
            followed.append(term.value(state, lag.operands[0]))
            length = term.value(state, lag.operands[1])
            rates.append((ca.fabs(self.qd[i]) if term.lag_is_distance(lag) else 1.0) / length)
        return ca.SX(ca.vertcat(*followed)), ca.SX(ca.vertcat(*rates))

    def total(self, value: Callable[[Parameter], Any], columns: int = 1) -> ca.SX:
        """Return the tree efforts of all bodies and joint terms, (n, k).

        With the first moment s and the inertia I about the origin of a body, its wrench is

            f = m a + wd x s + w x (w x s),    n = s x a + I wd + w x I w.

        Friction of a joint with load-dependent terms is left out while `transmitted` does not
        contain its transmitted effort.

        Args:
            value: Gives parameters by name, as expressions, (1, k); None where there is none.
            columns: k, for instance to have the efforts of one parameter in each.
        """
        mechanism, efforts = self.mechanism, ca.SX(len(self.mechanism.joints), columns)
        none = ca.SX(3, columns)
        wrenches = dict.fromkeys((BASE, *(body.name for body in mechanism.bodies)), (none, none))
        for body in mechanism.bodies:
            given = [value(Parameter.of(body.name, kind)) for kind in INERTIAL]
            if any(v is not None for v in given):
                m, *rest = (ca.SX(1, columns) if v is None else v for v in given)
                s, inertia = (
                    ca.sparsify(ca.vertcat(*rest[:3])),
                    dict(zip(INERTIA_ENTRIES, rest[3:])),
                )
                a, w, wd = self._motion[body.name]
                force = a @ m + _cross(wd, s) + _cross(w, _cross(w, s))
                moment = _cross(s, a) + _turned(inertia, wd) + _cross(w, _turned(inertia, w))
                wrenches[body.name] = force, moment
        for i, joint in reversed(list(enumerate(mechanism.joints))):
            R, r = self._transforms[i].rotation, self._transforms[i].translation
            force, moment = wrenches[joint.child]
            unknown = i in mechanism.load_dependent and i not in self.transmitted
            terms = [
                t for t in joint.terms if not unknown or not mechanism.terms[t].is_joint_friction
            ]
            own = _sparse(joint.direction).T @ (moment if joint.kind == "revolute" else force)
            efforts[i, :] = own + self._terms(i, value, terms, columns)
            f, n = wrenches[joint.parent]
            carried = R @ force
            wrenches[joint.parent] = f + carried, n + R @ moment + _cross(r, carried)
        return efforts

    def friction(self, i: int, value: Callable[[Parameter], Any]) -> ca.SX:
        """Return the friction of a joint at its transmitted effort."""
        terms = self.mechanism.terms
        return self._terms(
            i, value, [t for t in self.mechanism.joints[i].terms if terms[t].is_joint_friction]
        )

    def _terms(
        self, i: int, value: Callable[[Parameter], Any], names: list[str], columns: int = 1
    ) -> ca.SX:
        given = {name: value(Parameter.of(self.mechanism.joints[i].name, name)) for name in names}
        return sum(
            (v * self._term(i, name) for name, v in given.items() if v is not None),
            ca.SX(1, columns),
        )


def _turned(inertia: Mapping[tuple[int, int], ca.SX], w: ca.SX) -> ca.SX:
    """Return I w, (3, k), for entries of inertia matrices (1, k)."""
    return ca.vertcat(
        *[sum(inertia[min(i, j), max(i, j)] * w[j] for j in range(3)) for i in range(3)]
    )
