"""The equations of a mechanism as CasADi expressions, written once.

Notation: q all coordinates, phi(q) = 0 the closures, K = dphi/dq. Vectors of a body are expressed in its own frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.names import INERTIAL, Parameter, parameters
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
        return Transform(self.rotation @ other.rotation, self.translation + self.rotation @ other.translation)

    def jacobian(self, q: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return linear and angular velocity by the rates of coordinates, (3, n) each, in the frame it leads to.

        W = dR/dt R^T = [w]x, column by column.
        """
        spin, angular = ca.jacobian(ca.vec(self.rotation), q), list[ca.SX]()
        for k in range(q.shape[0]):
            W = ca.reshape(spin[:, k], 3, 3) @ self.rotation.T
            angular.append(ca.vertcat(W[2, 1], W[0, 2], W[1, 0]))
        return ca.jacobian(self.translation, q), ca.horzcat(*angular)


def fixed_transform(placement: Placement) -> Transform:
    """Return a placement as constant expressions."""
    return Transform(_sparse(placement.rotation), _sparse(placement.translation))


def _sparse(values: FloatArray) -> ca.SX:
    """Return a constant expression without stored zeros, so that multiplications by zero vanish."""
    return ca.SX(ca.sparsify(ca.DM(values)))


def _cross(a: ca.SX, b: ca.SX) -> ca.SX:
    """Return a x (each column of b)."""
    return ca.vertcat(a[1] * b[2, :] - a[2] * b[1, :], a[2] * b[0, :] - a[0] * b[2, :], a[0] * b[1, :] - a[1] * b[0, :])


def _rotation(axis: FloatArray, angle: ca.SX) -> ca.SX:
    """Return a a^T + cos (1 - a a^T) + sin [a]x for a unit vector a."""
    x, y, z = axis
    along, cross = np.outer(axis, axis), np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return _sparse(along) + ca.cos(angle) * _sparse(np.eye(3) - along) + ca.sin(angle) * _sparse(cross)


def joint_transforms(mechanism: Mechanism, q: ca.SX) -> list[Transform]:
    """Return the transform from each joint's parent body to its child body."""
    transforms = []
    for i, joint in enumerate(mechanism.joints):
        fixed = fixed_transform(joint.placement)
        if joint.kind == "revolute":
            turn = _rotation(joint.direction, q[i])
            transforms.append(Transform(fixed.rotation @ turn, fixed.translation))
        else:
            along = fixed.rotation @ _sparse(joint.direction) * q[i]
            transforms.append(Transform(fixed.rotation, fixed.translation + along))
    return transforms


def body_transforms(mechanism: Mechanism, q: ca.SX) -> dict[str, Transform]:
    """Return the pose of every body in the base frame, by name."""
    poses = {BASE: Transform(ca.SX(ca.Sparsity.diag(3), 1), ca.SX(3, 1))}
    for joint, transform in zip(mechanism.joints, joint_transforms(mechanism, q)):
        poses[joint.child] = poses[joint.parent] @ transform
    return poses


def closure_equations(mechanism: Mechanism, q: ca.SX) -> ca.SX:
    """Return phi of all closures, stacked, (c,): zero where the loops are closed. [m or rad]"""
    poses = body_transforms(mechanism, q)
    coordinates = {name: q[i] for i, name in enumerate(mechanism.coordinates)}
    parts: list[ca.SX] = []
    for closure in mechanism.closures:
        parts += CLOSURES[closure.kind].residual(closure, Configuration(coordinates, *closure_ends(closure, poses)))
    return ca.densify(ca.vertcat(*parts)) if parts else ca.SX(0, 1)


def closure_ends(closure: Closure, poses: Mapping[str, Transform]) -> list[Transform]:
    """Return where the frames are that a closure brings together."""
    return [poses[frame.body] @ fixed_transform(frame.placement) for frame in closure.frames]


def velocity_sign(qd: ca.SX, dead_band: ca.SX, smooth: bool) -> ca.SX:
    """Return sign(qd) as documented: linear inside the dead band, +-1 outside; tanh while optimising.

    A band of zero gives the plain sign with sign(0) = 0.
    """
    scaled = qd / ca.fmax(dead_band, 1e-300)
    return ca.tanh(scaled) if smooth else ca.fmax(ca.fmin(scaled, 1.0), -1.0)


@dataclass(frozen=True)
class Kinematics:
    """Motion of all bodies: acceleration of the origin minus gravity, angular velocity and acceleration."""

    transforms: list[Transform]
    linear: dict[str, ca.SX]
    rate: dict[str, ca.SX]
    angular: dict[str, ca.SX]


def forward_kinematics(mechanism: Mechanism, q: ca.SX, qd: ca.SX, qdd: ca.SX) -> Kinematics:
    """Run the outward Newton-Euler recursion over the tree."""
    transforms = joint_transforms(mechanism, q)
    linear = {BASE: _sparse(-np.array(mechanism.gravity))}
    rate, angular = {BASE: ca.SX(3, 1)}, {BASE: ca.SX(3, 1)}
    for i, joint in enumerate(mechanism.joints):
        axis = _sparse(joint.direction)
        R, r = transforms[i].rotation, transforms[i].translation
        w, wd, a = rate[joint.parent], angular[joint.parent], linear[joint.parent]
        turned = R.T @ w
        carried = R.T @ (a + _cross(wd, r) + _cross(w, _cross(w, r)))
        if joint.kind == "revolute":
            rate[joint.child] = turned + axis * qd[i]
            angular[joint.child] = R.T @ wd + axis * qdd[i] + _cross(turned, axis * qd[i])
            linear[joint.child] = carried
        else:
            rate[joint.child] = turned
            angular[joint.child] = R.T @ wd
            linear[joint.child] = carried + axis * qdd[i] + 2 * _cross(turned, axis * qd[i])
    return Kinematics(transforms, linear, rate, angular)


def wrench_columns(a: ca.SX, w: ca.SX, wd: ca.SX) -> dict[str, tuple[ca.SX, ca.SX]]:
    """Return force and moment of a body for a unit of each inertial parameter.

    f = m a + wd x s + w x (w x s),  n = s x a + I wd + w x I w, s the first moment, I about the frame's origin.
    """
    columns = {"m": (a, ca.SX(3, 1))}
    unit = [_sparse(e) for e in np.eye(3)]
    for name, e in zip(("mx", "my", "mz"), unit):
        columns[name] = (_cross(wd, e) + _cross(w, _cross(w, e)), _cross(e, a))
    for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)):
        inertia = np.zeros((3, 3))
        inertia[i, j] = inertia[j, i] = 1.0
        tensor = _sparse(inertia)
        columns["I" + "xyz"[i] + "xyz"[j]] = (ca.SX(3, 1), tensor @ wd + _cross(w, tensor @ w))
    return {name: columns[name] for name in INERTIAL}


class TreeEfforts:
    """Generalised efforts of the open tree for unit parameters: the columns before projection.

    Args:
        q, qd, qdd: All coordinates and their derivatives, symbols or expressions, (n,).
        dead_band: Velocity below which Coulomb terms are interpolated, (n,), then, where they are known, what the robot
            remembers and recorded channels, (n + x,), see `Model.context`; else lags have settled. [m/s or rad/s]
        smooth: Use tanh for the sign (optimisation).

    Attributes:
        passed: Efforts that joints pass on, by index, for terms that depend on them; from `dead_band` where it is
            known there, else to be filled in (see `Model.pass_on`).
    """

    def __init__(self, mechanism: Mechanism, q: ca.SX, qd: ca.SX, qdd: ca.SX, dead_band: ca.SX,
                 smooth: bool = False) -> None:
        self.mechanism = mechanism
        self.q, self.qd, self.qdd = q, qd, qdd
        n, kept = len(mechanism.joints), len(mechanism.memories)
        self.sign = velocity_sign(qd, dead_band[:n], smooth)
        known = dead_band.shape[0] > n
        self._lags = dead_band[n:n + kept] if known else None
        self._channels = {name: dead_band[n + kept + k] for k, name in enumerate(mechanism.channels)} if known else {}
        last = dead_band[n + kept + len(mechanism.channels):]
        self.passed = {i: last[k] for k, i in enumerate(mechanism.loaded) if k < last.shape[0]}
        self.kinematics = forward_kinematics(mechanism, q, qd, qdd)
        self._carrier = {joint.child: i for i, joint in enumerate(mechanism.joints)}
        self._index = {joint.name: i for i, joint in enumerate(mechanism.joints)}
        self._wrenches: dict[str, dict[str, tuple[ca.SX, ca.SX]]] = {}

    def project_wrench(self, body: str, force: ca.SX, moment: ca.SX) -> ca.SX:
        """Return the tree efforts (n, k) of wrenches (3, k) at a body's origin, in its frame."""
        efforts = ca.SX(len(self.mechanism.joints), force.shape[1])
        while body != BASE:
            i = self._carrier[body]
            joint = self.mechanism.joints[i]
            efforts[i, :] = _sparse(joint.direction).T @ (moment if joint.kind == "revolute" else force)
            R, r = self.kinematics.transforms[i].rotation, self.kinematics.transforms[i].translation
            force, moment = R @ force, R @ moment
            moment = moment + _cross(r, force)
            body = joint.parent
        return efforts

    def _term(self, i: int, name: str) -> Any:
        """Return a joint term for a unit coefficient."""
        return self.mechanism.terms[name].value(self._state(i, name))

    def _state(self, i: int, name: str = "") -> JointState:
        """Return what a term of a joint may depend on."""
        mechanism = self.mechanism
        own = None if self._lags is None else [
            self._lags[k] for k, memory in enumerate(mechanism.memories) if memory[:2] == (i, name)]
        return JointState(
            q=self.q[i], qd=self.qd[i], qdd=self.qdd[i], sign=self.sign[i], math=ca, lags=own, channels=self._channels,
            effort=self.passed.get(i, 0.0),
            other=lambda other: self._state(self._index[mechanism.joint_near(mechanism.joints[i], other).name]))

    def memory(self) -> tuple[ca.SX, ca.SX]:
        """Return what each lag follows, and how fast, both (x,): d lag/dt = rate (followed - lag). [1/s]"""
        followed, rates = [], []
        for i, name, k in self.mechanism.memories:
            term, state = self.mechanism.terms[name], self._state(i, name)
            lag = term.lags[k]
            followed.append(term.value(state, lag.parts[0]))
            length = term.value(state, lag.parts[1])
            rates.append((ca.fabs(self.qd[i]) if term.lag_distance(lag) else 1.0) / length)
        return ca.SX(ca.vertcat(*followed)), ca.SX(ca.vertcat(*rates))

    def columns(self, names: Sequence[str]) -> ca.SX:
        """Return the tree efforts for a unit of each named standard parameter, (n, p)."""
        result = ca.SX(len(self.mechanism.joints), len(names))
        wanted: dict[str, list[tuple[int, str]]] = {}
        for k, name in enumerate(parameters(names)):
            if name.kind in self.mechanism.terms and name.owner in self._index:
                result[self._index[name.owner], k] = self._term(self._index[name.owner], name.kind)
            else:
                wanted.setdefault(name.owner, []).append((k, name.kind))
        for body, requests in wanted.items():
            if body not in self._wrenches:
                kin = self.kinematics
                self._wrenches[body] = wrench_columns(kin.linear[body], kin.rate[body], kin.angular[body])
            unit = self._wrenches[body]
            force = ca.horzcat(*[unit[parameter][0] for _, parameter in requests])
            moment = ca.horzcat(*[unit[parameter][1] for _, parameter in requests])
            result[:, [k for k, _ in requests]] = self.project_wrench(body, force, moment)
        return result

    def total(self, value: Callable[[str], Any]) -> ca.SX:
        """Return the tree efforts (n,) of all bodies and joint terms; cheaper than the columns times the values.

        These are expressions by name, or None where the mechanism does not have a parameter. Without the own friction
        of joints with a term that depends on the effort they pass on: see `friction`.
        """
        kin, joints = self.kinematics, self.mechanism.joints
        force = {body.name: ca.SX(3, 1) for body in self.mechanism.bodies}
        moment = {body.name: ca.SX(3, 1) for body in self.mechanism.bodies}
        for body in self.mechanism.bodies:
            given = {p: value(Parameter.of(body.name, p)) for p in INERTIAL}
            if all(v is None for v in given.values()):
                continue
            number = {p: ca.SX(0) if v is None else v for p, v in given.items()}
            a, w, wd = kin.linear[body.name], kin.rate[body.name], kin.angular[body.name]
            s = ca.sparsify(ca.vertcat(number["mx"], number["my"], number["mz"]))
            tensor = ca.sparsify(ca.vertcat(
                ca.horzcat(number["Ixx"], number["Ixy"], number["Ixz"]),
                ca.horzcat(number["Ixy"], number["Iyy"], number["Iyz"]),
                ca.horzcat(number["Ixz"], number["Iyz"], number["Izz"])))
            force[body.name] = number["m"] * a + _cross(wd, s) + _cross(w, _cross(w, s))
            moment[body.name] = _cross(s, a) + tensor @ wd + _cross(w, tensor @ w)
        efforts = ca.SX(len(joints), 1)
        for i in reversed(range(len(joints))):
            joint = joints[i]
            f, n = force[joint.child], moment[joint.child]
            own = _sparse(joint.direction).T @ (n if joint.kind == "revolute" else f)
            efforts[i] = own + self._terms(i, value, [
                t for t in joint.terms if i not in self.mechanism.loaded or not self.mechanism.terms[t].own_friction])
            if joint.parent != BASE:
                R, r = kin.transforms[i].rotation, kin.transforms[i].translation
                carried = R @ f
                force[joint.parent] = force[joint.parent] + carried
                moment[joint.parent] = moment[joint.parent] + R @ n + _cross(r, carried)
        return efforts

    def friction(self, i: int, value: Callable[[str], Any]) -> ca.SX:
        """Return the own friction of a joint, where it passes on `passed[i]`."""
        terms = self.mechanism.terms
        return self._terms(i, value, [t for t in self.mechanism.joints[i].terms if terms[t].own_friction])

    def _terms(self, i: int, value: Callable[[str], Any], names: Sequence[str]) -> ca.SX:
        given = {name: value(Parameter.of(self.mechanism.joints[i].name, name)) for name in names}
        return sum((v * self._term(i, name) for name, v in given.items() if v is not None), ca.SX(0))
