"""A second plant: constrained dynamics with Pinocchio's mass matrix, bias and Jacobians, friction
and integrator apart.

Acceptance data come from here: nothing but the mechanism's description is shared with the engine.
Inertias, kinematics, mass matrix and bias come from Pinocchio; closures are written again on its
world-frame Jacobian J and dJ/dt (point p of a body: velocity J_lin v + (J_ang v) x p).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pinocchio as pin
from scipy.linalg import qr
from scipy.linalg.lapack import dposv, dsysv

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Mechanism
from gough.virtual.plant import PlantSettings
from gough.virtual.tree_plant import JointEfforts, TreePlant, body_inertias, midpoint

JOINTS = {  # along an axis of the frame, and along any vector
    ("revolute", "x"): pin.JointModelRX,
    ("revolute", "y"): pin.JointModelRY,
    ("revolute", "z"): pin.JointModelRZ,
    ("prismatic", "x"): pin.JointModelPX,
    ("prismatic", "y"): pin.JointModelPY,
    ("prismatic", "z"): pin.JointModelPZ,
    "revolute": pin.JointModelRevoluteUnaligned,
    "prismatic": pin.JointModelPrismaticUnaligned,
}


def build_tree(
    mechanism: Mechanism, inertias: Mapping[str, FloatArray]
) -> tuple[Any, list[int], dict[str, int]]:
    """Return the Pinocchio model, the mechanism's joint at each of its places, and the joint that
    carries each body.

    Pinocchio's algorithms take a subtree to be contiguous, so joints are added depth first.
    """
    model = pin.Model()
    model.gravity.linear = np.array(mechanism.gravity)
    carried = {BASE: 0}
    order: list[int] = []

    def add(body: str) -> None:
        for i, joint in enumerate(mechanism.joints):
            if joint.parent == body:
                kind = (
                    JOINTS[joint.kind, joint.axis]()
                    if isinstance(joint.axis, str)
                    else JOINTS[joint.kind](joint.direction)
                )
                index = model.addJoint(
                    carried[body], kind, pin.SE3(np.array(joint.placement.matrix)), joint.name
                )
                model.appendBodyToJoint(
                    index, _inertia(inertias[joint.child], joint.child), pin.SE3.Identity()
                )
                carried[joint.child] = index
                order.append(i)
                add(joint.child)

    add(BASE)
    return model, order, carried


def _inertia(values: FloatArray, body: str) -> Any:
    """Return the inertia of [m, m c, I about the frame]."""
    if values[0] < 0 or (values[0] == 0 and values[1:4].any()):
        raise InvalidInput(
            f"body '{body}' has the mass {values[0]:g} kg and the first moments "
            f"{values[1:4].tolist()} "
            "kg m; Pinocchio simulates only bodies that could exist",
            body=body,
        )
    try:
        return pin.Inertia(*about_centre(values))
    except RuntimeError as error:
        raise InvalidInput(
            f"body '{body}' has inertias that no body can have about its centre of mass; Pinocchio "
            "simulates only bodies that could exist: use the plant 'gough'",
            body=body,
        ) from error


class Closures:
    """The closure equations of a mechanism in the coordinates of a Pinocchio tree.

    A kind of closure is made of the parts its entry names, each with a residual and its rate where
    the loops are closed (p origins, w angular velocities in the world):

        gap       p_b - p_a                                    d/dt of it
        distance  |p_b - p_a| - length (or + the sum below)    d/dt of it
        axis      x_a . z_b and y_a . z_b                      (w_b - w_a) . (z_b x axis), axis =
        x_a, y_a turn      rotation vector of R_a^T R_b                 R_a^T (w_b - w_a)
        sum       constant + sum of coefficient x coordinate   sum of coefficient x rate
    """

    def __init__(
        self, mechanism: Mechanism, model: Any, order: list[int], carried: dict[str, int]
    ) -> None:
        for closure in mechanism.closures:
            if CLOSURES[closure.kind].pinocchio is None:
                raise InvalidInput(
                    f"closure '{closure.name}' of kind {closure.kind} has no form in the pinocchio "
                    "plant; use the gough plant",
                    closure=closure.name,
                )
        pairs = [closure for closure in mechanism.closures if closure.frames]
        self._gap, self._axis, self._turn, self._distance = (
            [
                k
                for k, closure in enumerate(pairs)
                if part in (CLOSURES[closure.kind].pinocchio or ())
            ]
            for part in ("gap", "axis", "turn", "distance")
        )
        self._length = np.array(
            [pairs[k].values.get("length", -pairs[k].constant) for k in self._distance]
        )
        self._reel = _weights(mechanism, order, [pairs[k] for k in self._distance])
        # Ends 0..c-1 are the frames a, ends c..2c-1 the frames b.
        frames = [closure.frames[end] for end in (0, 1) for closure in pairs]
        joints = [carried[frame.body] for frame in frames]
        self._rotation = np.array([frame.placement.rotation for frame in frames]).reshape(-1, 3, 3)
        self._translation = np.array([frame.placement.translation for frame in frames]).reshape(
            -1, 3, 1
        )
        self._joints = sorted(set(joints) - {0})
        self._where = np.array([self._joints.index(j) + 1 if j else 0 for j in joints], dtype=int)
        support = np.zeros((model.njoints, model.nv))
        for j in range(1, model.njoints):
            for k in model.supports[j].tolist()[1:]:
                support[j, model.joints[k].idx_v] = 1.0
        self._mask = support[joints]  # which coordinates move each end, (2c, n)
        self._poses = np.tile(np.eye(3, 4), (len(self._joints) + 1, 1, 1))
        sums = [closure for closure in mechanism.closures if not closure.frames]
        self._coupling = _weights(mechanism, order, sums)
        self._constant = np.array([closure.constant for closure in sums])
        self._still = np.zeros(len(sums))

    def _ends(self, data: Any) -> tuple[FloatArray, FloatArray]:
        """Return rotations (2c, 3, 3) and origins (2c, 3) of the ends in the world."""
        for place, j in enumerate(self._joints):
            self._poses[place + 1] = data.oMi[j].np[:3]
        at = self._poses[self._where]
        turned = at[:, :, :3]
        return turned @ self._rotation, (turned @ self._translation)[:, :, 0] + at[:, :, 3]

    def residual(self, data: Any, q: FloatArray) -> FloatArray:
        if not len(self._mask):
            return np.asarray(self._coupling @ q + self._constant)
        rotation, origin = self._ends(data)
        c = len(origin) // 2
        gap = origin[c:] - origin[:c]
        parts = [gap[self._gap].ravel()]
        parts += [rotation[k, :, :2].T @ rotation[c + k, :, 2] for k in self._axis]
        parts += [pin.log3(rotation[k].T @ rotation[c + k]) for k in self._turn]
        parts += [
            np.linalg.norm(gap[self._distance], axis=1) - self._length + self._reel @ q,
            self._coupling @ q + self._constant,
        ]
        return np.concatenate(parts)

    def jacobian(self, data: Any, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return K (c, n) and (dK/dt) v (c,) where the loops are closed; data holds J and dJ at q
        and v.
        """
        if not len(self._mask):
            return self._coupling, self._still
        rotation, origin = self._ends(data)
        c, J, mask = len(origin) // 2, data.J, self._mask
        moved = mask * v
        twist, drift = (
            moved @ J.T,
            moved @ data.dJ.T,
        )  # of each end at the world's origin: linear, angular
        spin, turning = twist[:, 3:], drift[:, 3:]
        lever = _skew(origin)  # lever @ w = origin x w
        speed = twist[:, :3] - _times(lever, spin)
        # Classical acceleration of the point that coincides with the end.
        push = drift[:, :3] - _times(lever, turning) + _times(_skew(spin), speed)
        columns = J * mask[:, None]  # (2c, 6, n)
        linear = columns[:, :3] - lever @ columns[:, 3:]
        linear, push = linear[c:] - linear[:c], push[c:] - push[:c]
        rows, extra = [linear[self._gap].reshape(-1, len(v))], [push[self._gap].ravel()]
        if self._axis or self._turn:
            angular, relative = columns[c:, 3:] - columns[:c, 3:], spin[c:] - spin[:c]
            turning = turning[c:] - turning[:c]
        for k in self._axis:  # the relative spin is along z, so z x (w_a x axis) does not act on it
            z, axes = rotation[c + k, :, 2], rotation[k, :, :2].T
            across, rate = np.cross(z, axes), np.cross(np.cross(spin[c + k], z), axes)
            rows.append(across @ angular[k])
            extra.append(across @ turning[k] + rate @ relative[k])
        for k in self._turn:  # there is no relative spin
            rows.append(rotation[k].T @ angular[k])
            extra.append(rotation[k].T @ turning[k])
        if self._distance:
            far = self._distance
            gap, moving = (origin[c:] - origin[:c])[far], (speed[c:] - speed[:c])[far]
            size = np.sqrt((gap**2).sum(axis=1))
            along = gap / size[:, None]
            rows.append((along[:, None] @ linear[far])[:, 0] + self._reel)
            extra.append(
                (along * push[far]).sum(axis=1)
                + ((moving**2).sum(axis=1) - (along * moving).sum(axis=1) ** 2) / size
            )
        return np.concatenate([*rows, self._coupling]), np.concatenate([*extra, self._still])


def _weights(mechanism: Mechanism, order: list[int], closures: Sequence[Closure]) -> FloatArray:
    """Return the coefficients of coordinates in closures, (k, n)."""
    names = [mechanism.coordinates[i] for i in order]
    return np.array(
        [[closure.coefficients.get(name, 0.0) for name in names] for closure in closures]
    ).reshape(len(closures), len(names))


_LEVI_CIVITA = np.array(
    [[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0.0]]
)


def _skew(vectors: FloatArray) -> FloatArray:
    """Return the matrices of the cross product with vectors (k, 3)."""
    return np.asarray(vectors @ _LEVI_CIVITA).reshape(-1, 3, 3)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(matrices @ vectors[:, :, None])[:, :, 0]


def independent_rows(jacobian: FloatArray) -> list[int]:
    """Return the closure equations that imply the others, ascending."""
    if not len(jacobian):
        return []
    size = np.linalg.norm(jacobian, axis=1, keepdims=True)
    scaled = jacobian / np.maximum(
        size, 1e-8 * size.max()
    )  # rows of rounding errors must stay small
    _, R, pivots = qr(scaled.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    return sorted(pivots[: int((diagonal > 1e-7 * diagonal[0]).sum())].tolist())


class ConstrainedTree:
    """One robot: a tree with closures under motor efforts and joint terms.

        [M  K^T] [qdd  ]   [tau - h(q, qd) - f(q, qd)]
        [K  0  ] [-lambda] = [-(dK/dt) qd              ]

    with the rotor inertias on the diagonal of M, solved with pivoting: M may be singular (massless
    bodies) as long as the closures hold these bodies. Closure equations that others imply at home
    are left out. Parameters (p,), load and dead band as of `PlantSettings`, of one trial.
    """

    def __init__(
        self, model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray
    ) -> None:
        mechanism = model.mechanism
        table = dict(zip(mechanism.standard.names, values.tolist()))
        self._model, self.coordinates, carried = build_tree(
            mechanism, body_inertias(model, table, load)
        )
        self._data = self._model.createData()
        self._closures = Closures(mechanism, self._model, self.coordinates, carried)
        self.terms = JointEfforts(mechanism, table, self.coordinates, dead_band)
        self._motors = [self.coordinates.index(i) for i in model.actuated]
        n = self._model.nv
        pin.computeJointJacobiansTimeVariation(
            self._model, self._data, model.home[self.coordinates], np.zeros(n)
        )
        K = self._closures.jacobian(self._data, np.zeros(n))[0]
        self._rows = independent_rows(K)
        self._some = len(self._rows) < len(K)
        size = n + len(self._rows)
        self._system, self._right = np.zeros((size, size), order="F"), np.zeros(size)
        self._diagonal = np.arange(n)

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        model, data, n = self._model, self._data, len(q)
        mass = pin.crba(
            model, data, q
        )  # only its upper triangle is sure to be filled, and only that is used
        bias = pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobiansTimeVariation(model, data, q, v)
        K, drift = self._closures.jacobian(data, v)
        if self._some:
            K, drift = K[self._rows], drift[self._rows]
        system, right = self._system, self._right
        system[:n, :n] = mass
        system[self._diagonal, self._diagonal] += self.terms.rotor
        system[:n, n:] = K.T
        right[:n], right[n:] = -bias - self.terms(q, v, effort), -drift
        right[self._motors] += effort
        _, _, solution, info = dsysv(system, right)
        return np.asarray(solution[:n]) if info == 0 else np.full(n, np.nan)

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        return q[self._motors], v[self._motors]

    def settle(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Make one least-norm Newton step."""
        pin.computeJointJacobiansTimeVariation(self._model, self._data, q, v)
        phi = self._closures.residual(self._data, q)
        if not len(phi):
            return q, v, 0.0
        K = self._closures.jacobian(self._data, v)[0][self._rows]
        right = np.column_stack([phi[self._rows], K @ v])
        _, solution, info = dposv(K @ K.T, right)
        if info != 0:
            return q * np.nan, v * np.nan, np.nan
        step = K.T @ solution
        return q - step[:, 0], v - step[:, 1], float(np.abs(phi).max())


def pinocchio_plant(settings: PlantSettings) -> TreePlant:
    """Return Pinocchio's plant: the midpoint rule, projected onto the closures once a period."""
    return TreePlant(
        settings,
        [
            ConstrainedTree(settings.model, values, load, settings.dead_band)
            for values, load in zip(settings.values, settings.load)
        ],
        midpoint,
    )
