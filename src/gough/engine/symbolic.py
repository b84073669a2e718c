"""The equations of a mechanism as CasADi expressions, written once.

Notation: q all coordinates, phi(q) = 0 the closures, K = dphi/dq.
Vectors of a body are expressed in its own frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
        """Return the composition of two transforms, the other one first."""
        translation = self.translation + self.rotation @ other.translation
        return Transform(self.rotation @ other.rotation, translation)

    def twist(self, q: ca.SX, rates: ca.SX) -> ca.SX:
        """Return linear, then angular velocity in the base frame, (6,), from dR/dt R^T = [w]x."""
        rotation_rate = ca.reshape(ca.jtimes(ca.vec(self.rotation), q, rates), 3, 3)
        cross = rotation_rate @ self.rotation.T
        linear = ca.jtimes(self.translation, q, rates)
        return ca.vertcat(linear, cross[2, 1], cross[0, 2], cross[1, 0])

    def jacobian(self, q: ca.SX) -> ca.SX:
        """Return the derivative of the twist by the rates of coordinates, (6, n)."""
        rates = ca.SX.sym("rates", q.shape[0])
        return ca.densify(ca.jacobian(self.twist(q, rates), rates))


def _fixed(placement: Placement) -> Transform:
    return Transform(_sparse(placement.rotation), _sparse(placement.translation))


def _sparse(values: FloatArray) -> ca.SX:
    """Return a constant expression without stored zeros, so that multiplications by zero vanish."""
    array = np.atleast_2d(np.asarray(values, dtype=float).T).T  # a vector is one column
    return _sparse_constant(array.shape, array.tobytes())


@lru_cache(maxsize=1024)
def _sparse_constant(shape: tuple[int, ...], content: bytes) -> ca.SX:
    """Return a constant matrix; many joints have the same ones."""
    values = np.frombuffer(content).reshape(shape)
    return ca.SX(ca.sparsify(ca.DM(values)))


def _cross(a: ca.SX, b: ca.SX) -> ca.SX:
    """Return a x b, column by column; one of them may be a single column."""
    rows = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        rows.append(a[i, :] * b[j, :] - a[j, :] * b[i, :])
    return ca.vertcat(*rows)


def _rotation(axis: FloatArray, angle: ca.SX) -> ca.SX:
    """Return a a^T + cos (1 - a a^T) + sin [a]x for a unit vector a."""
    along = _sparse(np.outer(axis, axis))
    across = _sparse(np.eye(3) - np.outer(axis, axis))
    cross = _sparse(np.cross(axis, np.eye(3)).T)
    return along + ca.cos(angle) * across + ca.sin(angle) * cross


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


def closure_equations(
    mechanism: Mechanism, q: ca.SX, closures: Sequence[Closure] | None = None
) -> ca.SX:
    """Return phi of all closures, stacked, (c,): zero where the loops are closed. [m or rad]

    Args:
        closures: Taken in place of those of the mechanism; their
            numbers may be expressions.
    """
    poses = body_transforms(mechanism, q)
    coordinates = {name: q[i] for i, name in enumerate(mechanism.coordinates)}
    residuals: list[ca.SX] = []
    for closure in mechanism.closures if closures is None else closures:
        configuration = Configuration(coordinates, *closure_ends(closure, poses))
        residuals += CLOSURES[closure.kind].residual(closure, configuration)
    return ca.densify(ca.vertcat(*residuals)) if residuals else ca.SX(0, 1)


def equation_owners(mechanism: Mechanism) -> list[int]:
    """Return the number of the closure that each closure equation belongs to, (c,)."""
    owners: list[int] = []
    for k, closure in enumerate(mechanism.closures):
        owners += [k] * closure.equations
    return owners


def closure_ends(closure: Closure, poses: Mapping[str, Transform]) -> list[Transform]:
    """Return the poses of the frames that a closure connects, in the base frame."""
    return [poses[frame.body] @ _fixed(frame.placement) for frame in closure.frames]


class TreeEfforts:
    """Generalised efforts of the open tree by the Newton-Euler recursion.

    Args:
        q, qd, qdd: All coordinates and their derivatives, symbols or
            expressions, (n,).
        dead_band: Velocity below which Coulomb terms are interpolated,
            (n,), or these and the extra inputs of
            `Model.kernel_context`, (n + x,); without them, internal
            states have settled. [m/s or rad/s]
        smooth: Use tanh for the sign (optimisation); else it is linear
            inside the dead band, +-1 outside.
        sign: Signs of the velocities to use instead, (n,).

    Attributes:
        transmitted: Transmitted efforts by joint, for load-dependent
            friction; from `dead_band` if it contains them, otherwise
            written by `TransmittedEffort.insert`.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        q: ca.SX,
        qd: ca.SX,
        qdd: ca.SX,
        dead_band: ca.SX,
        smooth: bool = False,
        sign: ca.SX | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.q = q
        self.qd = qd
        self.qdd = qdd
        n = len(mechanism.joints)
        band = ca.fmax(dead_band[:n], 1e-300)  # a band of zero gives the sign with sign(0) = 0
        scaled = qd / band
        self.sign = ca.tanh(scaled) if smooth else ca.fmax(ca.fmin(scaled, 1.0), -1.0)
        if sign is not None:
            self.sign = sign
        self._lags: ca.SX | None = None
        self._channels: dict[str, ca.SX] = {}
        self.transmitted: dict[int, ca.SX] = {}
        if dead_band.shape[0] > n:
            self._split_extra_inputs(dead_band[n:])
        self._propagate_motion()

    def _split_extra_inputs(self, extra: ca.SX) -> None:
        """Split extra inputs into internal states, channels and transmitted efforts, if any."""
        mechanism = self.mechanism
        n_states = len(mechanism.internal_states)
        transmitted = extra[n_states + len(mechanism.channels) :]
        self._lags = extra[:n_states]
        for k, name in enumerate(mechanism.channels):
            self._channels[name] = extra[n_states + k]
        for k, joint in enumerate(mechanism.load_dependent[: transmitted.shape[0]]):
            self.transmitted[joint] = transmitted[k]

    def _propagate_motion(self) -> None:
        """Compute the motion of all bodies from the base outwards, in body frames.

        It consists of the acceleration of the origin minus gravity, the
        angular velocity and the angular acceleration.
        """
        self._transforms = joint_transforms(self.mechanism, self.q)
        gravity = _sparse(-np.array(self.mechanism.gravity))
        self._motion = {BASE: (gravity, ca.SX(3, 1), ca.SX(3, 1))}
        for i, joint in enumerate(self.mechanism.joints):
            R = self._transforms[i].rotation
            r = self._transforms[i].translation
            a, w, wd = self._motion[joint.parent]
            a = R.T @ (a + ca.cross(wd, r) + ca.cross(w, ca.cross(w, r)))
            w = R.T @ w
            wd = R.T @ wd
            direction = _sparse(joint.direction)
            velocity = direction * self.qd[i]
            acceleration = direction * self.qdd[i]
            if joint.kind == "revolute":
                wd = wd + acceleration + ca.cross(w, velocity)
                w = w + velocity
            else:
                a = a + acceleration + 2 * ca.cross(w, velocity)
            self._motion[joint.child] = a, w, wd

    def _state(self, i: int, term: str = "") -> JointState:
        """Return what a term of joint i may depend on."""
        mechanism = self.mechanism
        lags = None
        if self._lags is not None:
            states = mechanism.internal_states
            lags = [self._lags[k] for k, state in enumerate(states) if state[:2] == (i, term)]

        def other_state(name: str) -> JointState:
            other = mechanism.resolve_joint(mechanism.joints[i], name)
            return self._state(mechanism.coordinates.index(other.name))

        return JointState(
            q=self.q[i],
            qd=self.qd[i],
            qdd=self.qdd[i],
            sign=self.sign[i],
            math=ca,
            lags=lags,
            channels=self._channels,
            effort=self.transmitted.get(i, 0.0),
            other=other_state,
        )

    def state_derivatives(self) -> tuple[ca.SX, ca.SX]:
        """Return the signal that each lag follows and its rate, both (x,).

        The lag obeys d lag/dt = rate (followed - lag). [1/s]
        """
        followed: list[ca.SX] = []
        rates: list[ca.SX] = []
        for i, name, k in self.mechanism.internal_states:
            term = self.mechanism.terms[name]
            state = self._state(i, name)
            lag = term.lags[k]
            followed.append(term.value(state, lag.operands[0]))
            length = term.value(state, lag.operands[1])
            speed = ca.fabs(self.qd[i]) if term.lag_is_distance(lag) else 1.0
            rates.append(speed / length)
        return ca.SX(ca.vertcat(*followed)), ca.SX(ca.vertcat(*rates))

    def total(self, parameter: Callable[[Parameter], Any], columns: int = 1) -> ca.SX:
        """Return the tree efforts of all bodies and joint terms, (n, k).

        With the first moment s and the inertia I about the origin of a
        body, its wrench is

            f = m a + wd x s + w x (w x s),    n = s x a + I wd + w x I w.

        Friction of a joint with load-dependent terms is left out while
        `transmitted` does not contain its transmitted effort.

        Args:
            parameter: Gives a parameter by name as an expression, (1,
                k), or None if it has none.
            columns: k; regressors have one column for each parameter.
        """
        mechanism = self.mechanism
        efforts = ca.SX(len(mechanism.joints), columns)
        zero = ca.SX(3, columns)
        wrenches = {BASE: (zero, zero)}
        for body in mechanism.bodies:
            wrenches[body.name] = self._wrench(body.name, parameter, columns) or (zero, zero)
        for i, joint in reversed(list(enumerate(mechanism.joints))):
            R = self._transforms[i].rotation
            r = self._transforms[i].translation
            force, moment = wrenches[joint.child]
            driven = moment if joint.kind == "revolute" else force
            rigid = _sparse(joint.direction).T @ driven
            efforts[i, :] = rigid + self._terms(i, parameter, self._known_terms(i), columns)
            parent_force, parent_moment = wrenches[joint.parent]
            force = R @ force
            parent_moment = parent_moment + R @ moment + _cross(r, force)
            wrenches[joint.parent] = parent_force + force, parent_moment
        return efforts

    def _wrench(
        self, body: str, parameter: Callable[[Parameter], Any], columns: int
    ) -> tuple[ca.SX, ca.SX] | None:
        """Return force and moment on a body about its origin, (3, k) each; None if massless."""
        given = [parameter(Parameter.of(body, kind)) for kind in INERTIAL]
        if all(number is None for number in given):
            return None
        zero = ca.SX(1, columns)
        inertial: list[Any] = []
        for number in given:
            inertial.append(zero if number is None else number)
        m = inertial[0]
        s = ca.sparsify(ca.vertcat(*inertial[1:4]))
        inertia = dict(zip(INERTIA_ENTRIES, inertial[4:]))
        a, w, wd = self._motion[body]
        force = a @ m + _cross(wd, s) + _cross(w, _cross(w, s))
        moment = _cross(s, a) + _inertia_times(inertia, wd)
        moment = moment + _cross(w, _inertia_times(inertia, w))
        return force, moment

    def _known_terms(self, i: int) -> list[str]:
        """Return the terms of a joint without friction whose transmitted effort is unknown."""
        terms = self.mechanism.joints[i].terms
        if i not in self.mechanism.load_dependent or i in self.transmitted:
            return list(terms)
        return [name for name in terms if not self.mechanism.terms[name].is_joint_friction]

    def friction(self, i: int, parameter: Callable[[Parameter], Any]) -> ca.SX:
        """Return the friction of a joint at its transmitted effort."""
        terms = self.mechanism.joints[i].terms
        friction = [name for name in terms if self.mechanism.terms[name].is_joint_friction]
        return self._terms(i, parameter, friction)

    def _terms(
        self,
        i: int,
        parameter: Callable[[Parameter], Any],
        names: Sequence[str],
        columns: int = 1,
    ) -> ca.SX:
        """Return the effort of some terms of a joint, (1, k)."""
        joint = self.mechanism.joints[i].name
        effort = ca.SX(1, columns)
        for name in names:
            coefficient = parameter(Parameter.of(joint, name))
            if coefficient is not None:
                unit_effort = self.mechanism.terms[name].value(self._state(i, name))
                effort = effort + coefficient * unit_effort
        return effort


def _inertia_times(inertia: Mapping[tuple[int, int], ca.SX], w: ca.SX) -> ca.SX:
    """Return I w, (3, k), for entries of inertia matrices (1, k)."""
    rows = []
    for i in range(3):
        products = [inertia[min(i, j), max(i, j)] * w[j] for j in range(3)]
        rows.append(sum(products))
    return ca.vertcat(*rows)
