"""A second plant: constrained dynamics from Pinocchio's mass matrix, bias and Jacobians.

Acceptance data come from here: nothing but the mechanism's description
is shared with the engine. Inertias, kinematics, mass matrix and bias
come from Pinocchio; friction, integrator and closures are written
again, the closures on its world-frame Jacobian J and dJ/dt (point p of
a body: velocity J_lin v + (J_ang v) x p).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
from scipy.linalg import qr
from scipy.linalg.lapack import dposv, dsysv

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.inertia import about_centre
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Joint, Mechanism
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.plant import PlantSettings
from gough.virtual.tree_plant import TreePlant, body_inertias, midpoint

# Joints along an axis of their frame, and along any vector.
PINOCCHIO_JOINTS = {
    ("revolute", "x"): pin.JointModelRX,
    ("revolute", "y"): pin.JointModelRY,
    ("revolute", "z"): pin.JointModelRZ,
    ("prismatic", "x"): pin.JointModelPX,
    ("prismatic", "y"): pin.JointModelPY,
    ("prismatic", "z"): pin.JointModelPZ,
    "revolute": pin.JointModelRevoluteUnaligned,
    "prismatic": pin.JointModelPrismaticUnaligned,
}


class PinocchioTree(NamedTuple):
    """The tree of a mechanism as a Pinocchio model."""

    model: Any  # pin.Model
    # index of the mechanism's joint at each of Pinocchio's coordinates
    order: list[int]
    joint_of: dict[str, int]  # Pinocchio's joint that carries a body


def build_tree(mechanism: Mechanism, inertias: Mapping[str, FloatArray]) -> PinocchioTree:
    """Return the tree of a mechanism as a Pinocchio model.

    Pinocchio's algorithms assume that subtrees are contiguous, so
    joints are added depth first.

    Args:
        inertias: Ten inertial parameters by body.
    """
    model = pin.Model()
    model.gravity.linear = np.array(mechanism.gravity)
    tree = PinocchioTree(model, [], {BASE: 0})

    def add_children(body: str) -> None:
        for i, joint in enumerate(mechanism.joints):
            if joint.parent == body:
                placement = pin.SE3(np.array(joint.placement.matrix))
                parent = tree.joint_of[body]
                index = model.addJoint(parent, _joint_model(joint), placement, joint.name)
                inertia = _inertia(inertias[joint.child], joint.child)
                model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
                tree.joint_of[joint.child] = index
                tree.order.append(i)
                add_children(joint.child)

    add_children(BASE)
    return tree


def _joint_model(joint: Joint) -> Any:
    """Return Pinocchio's model of a joint."""
    if isinstance(joint.axis, str):
        return PINOCCHIO_JOINTS[joint.kind, joint.axis]()
    return PINOCCHIO_JOINTS[joint.kind](joint.direction)


def _inertia(parameters: FloatArray, body: str) -> Any:
    """Return Pinocchio's inertia of [m, m c, I about the frame]."""
    mass = parameters[0]
    first_moments = parameters[1:4]
    if mass < 0 or (mass == 0 and first_moments.any()):
        raise InvalidInput(
            f"body '{body}' has the mass {mass:g} kg and the first moments "
            f"{first_moments.tolist()} kg m; Pinocchio simulates only physically consistent bodies",
            body=body,
        )
    try:
        return pin.Inertia(*about_centre(parameters))
    except RuntimeError as error:
        raise InvalidInput(
            f"body '{body}' has inertias that no body can have about its centre of mass; Pinocchio "
            "simulates only physically consistent bodies: use the plant 'gough'",
            body=body,
        ) from error


class Closures:
    """The closure equations of a mechanism in the coordinates of a Pinocchio tree.

    A kind of closure is made of the equations that its entry names.
    With frames a and b, their origins p and angular velocities w in the
    world, their residuals and the rates of these where the loops are
    closed are:

        gap       p_b - p_a                                    d/dt of it
        distance  |p_b - p_a| - length (or + the sum below)    d/dt of it
        axis      x_a . z_b and y_a . z_b                      (w_b - w_a) . (z_b x axis),
                                                               axis = x_a, y_a
        turn      rotation vector of R_a^T R_b                 R_a^T (w_b - w_a)
        sum       constant + sum of coefficient x coordinate   sum of coefficient x rate

    Arrays over the ends of the c closures have the frames a first, then the frames b: (2c,
    ...).
    """

    def __init__(self, mechanism: Mechanism, tree: PinocchioTree) -> None:
        for closure in mechanism.closures:
            if CLOSURES[closure.kind].pinocchio is None:
                raise InvalidInput(
                    f"closure '{closure.name}' of kind {closure.kind} has no form in the pinocchio "
                    "plant; use the gough plant",
                    closure=closure.name,
                )
        pairs = [closure for closure in mechanism.closures if closure.frames]
        self._gap = _with_equation(pairs, "gap")
        self._axis = _with_equation(pairs, "axis")
        self._turn = _with_equation(pairs, "turn")
        self._distance = _with_equation(pairs, "distance")
        distances = [pairs[k] for k in self._distance]
        self._length = np.array([c.values.get("length", -c.constant) for c in distances])
        self._reel = _coefficients(mechanism, tree.order, distances)
        sums = [closure for closure in mechanism.closures if not closure.frames]
        self._coupling = _coefficients(mechanism, tree.order, sums)
        self._constant = np.array([closure.constant for closure in sums])
        self._set_ends(pairs, tree)

    def _set_ends(self, pairs: Sequence[Closure], tree: PinocchioTree) -> None:
        """Set the placements of the ends, and which joints carry them."""
        frames = [closure.frames[0] for closure in pairs]
        frames += [closure.frames[1] for closure in pairs]
        joints = [tree.joint_of[frame.body] for frame in frames]
        rotations = np.array([frame.placement.rotation for frame in frames])
        translations = np.array([frame.placement.translation for frame in frames])
        self._rotation = rotations.reshape(-1, 3, 3)
        self._translation = translations.reshape(-1, 3, 1)
        # Poses of the joints that carry ends; the first one is the
        # base.
        self._joints = sorted(set(joints) - {0})
        self._joint_poses = np.tile(np.eye(3, 4), (len(self._joints) + 1, 1, 1))
        carriers = [0, *self._joints]
        self._pose_of_end = np.array([carriers.index(joint) for joint in joints], dtype=int)
        model = tree.model
        moves = np.zeros((model.njoints, model.nv))
        for joint in range(1, model.njoints):
            for support in model.supports[joint].tolist()[1:]:
                moves[joint, model.joints[support].idx_v] = 1.0
        self._moves_end = moves[joints]  # one where a coordinate moves an end, (2c, n)

    def _ends(self, data: Any) -> tuple[FloatArray, FloatArray]:
        """Return rotations (2c, 3, 3) and origins (2c, 3) of the ends in the world."""
        for k, joint in enumerate(self._joints):
            self._joint_poses[k + 1] = data.oMi[joint].np[:3]
        poses = self._joint_poses[self._pose_of_end]
        rotation = poses[:, :, :3]
        origin = (rotation @ self._translation)[:, :, 0] + poses[:, :, 3]
        return rotation @ self._rotation, origin

    def residual(self, data: Any, q: FloatArray) -> FloatArray:
        """Return the closure residuals, (e,); data holds the placements at q."""
        coupling = np.asarray(self._coupling @ q + self._constant)
        if not len(self._moves_end):
            return coupling
        rotation, origin = self._ends(data)
        c = len(origin) // 2
        gap = origin[c:] - origin[:c]
        residuals = [gap[self._gap].ravel()]
        for k in self._axis:
            residuals.append(rotation[k, :, :2].T @ rotation[c + k, :, 2])
        for k in self._turn:
            residuals.append(pin.log3(rotation[k].T @ rotation[c + k]))
        distance = np.linalg.norm(gap[self._distance], axis=1)
        residuals.append(distance - self._length + self._reel @ q)
        residuals.append(coupling)
        return np.concatenate(residuals)

    def jacobian(self, data: Any, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return K (e, n) and (dK/dt) v (e,) where the loops are closed.

        Args:
            data: Holds Pinocchio's J and dJ at q and v.
        """
        no_drift = np.zeros(len(self._coupling))
        if not len(self._moves_end):
            return self._coupling, no_drift
        rotation, origin = self._ends(data)
        c = len(origin) // 2
        end_rates = self._moves_end * v
        # Velocity and drift of each end at the world's origin: linear
        # part, angular part.
        twist = end_rates @ data.J.T
        drift = end_rates @ data.dJ.T
        spin = twist[:, 3:]
        spin_drift = drift[:, 3:]
        lever = _skew(origin)
        velocity = twist[:, :3] - _times(lever, spin)
        # Classical acceleration, without that of the coordinates, of
        # the point at the end.
        acceleration = drift[:, :3] - _times(lever, spin_drift) + _times(_skew(spin), velocity)
        columns = data.J * self._moves_end[:, None]  # (2c, 6, n)
        linear = columns[:, :3] - lever @ columns[:, 3:]
        linear = linear[c:] - linear[:c]
        acceleration = acceleration[c:] - acceleration[:c]
        rows = [linear[self._gap].reshape(-1, len(v))]
        drifts = [acceleration[self._gap].ravel()]
        if self._axis or self._turn:
            angular = columns[c:, 3:] - columns[:c, 3:]
            relative_spin = spin[c:] - spin[:c]
            spin_drift = spin_drift[c:] - spin_drift[:c]
        for k in self._axis:  # the relative spin is along z, so z x (w_a x axis) does not act on it
            z = rotation[c + k, :, 2]
            axes = rotation[k, :, :2].T
            normals = np.cross(z, axes)
            normal_rates = np.cross(np.cross(spin[c + k], z), axes)
            rows.append(normals @ angular[k])
            drifts.append(normals @ spin_drift[k] + normal_rates @ relative_spin[k])
        for k in self._turn:  # there is no relative spin
            rows.append(rotation[k].T @ angular[k])
            drifts.append(rotation[k].T @ spin_drift[k])
        if self._distance:
            gap = (origin[c:] - origin[:c])[self._distance]
            gap_rate = (velocity[c:] - velocity[:c])[self._distance]
            length = np.sqrt((gap**2).sum(axis=1))
            direction = gap / length[:, None]
            rows.append((direction[:, None] @ linear[self._distance])[:, 0] + self._reel)
            # Squared speed across the direction.
            squared = (gap_rate**2).sum(axis=1) - (direction * gap_rate).sum(axis=1) ** 2
            along = (direction * acceleration[self._distance]).sum(axis=1)
            drifts.append(along + squared / length)
        return np.concatenate([*rows, self._coupling]), np.concatenate([*drifts, no_drift])


def _with_equation(closures: Sequence[Closure], equation: str) -> list[int]:
    """Return the indices of closures that have an equation of `Closures`."""
    indices = []
    for k, closure in enumerate(closures):
        if equation in (CLOSURES[closure.kind].pinocchio or ()):
            indices.append(k)
    return indices


def _coefficients(
    mechanism: Mechanism, order: list[int], closures: Sequence[Closure]
) -> FloatArray:
    """Return the coefficients of coordinates in closures, (k, n)."""
    coefficients = np.zeros((len(closures), len(order)))
    for row, closure in zip(coefficients, closures):
        for column, i in enumerate(order):
            row[column] = closure.coefficients.get(mechanism.coordinates[i], 0.0)
    return coefficients


# Maps a vector to its cross-product matrix, row by row.
_LEVI_CIVITA = np.array(
    [
        [0, 0, 0, 0, 0, -1, 0, 1, 0],
        [0, 0, 1, 0, 0, 0, -1, 0, 0],
        [0, -1, 0, 1, 0, 0, 0, 0, 0.0],
    ]
)


def _skew(vectors: FloatArray) -> FloatArray:
    """Return the matrices S with S w = vector x w, (k, 3, 3)."""
    return np.asarray(vectors @ _LEVI_CIVITA).reshape(-1, 3, 3)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the product of each matrix with its vector."""
    return np.asarray(matrices @ vectors[:, :, None])[:, :, 0]


def independent_rows(jacobian: FloatArray) -> list[int]:
    """Return the closure equations that imply the others, ascending."""
    if not len(jacobian):
        return []
    norm = np.linalg.norm(jacobian, axis=1, keepdims=True)
    # Rows of rounding errors are not scaled to one.
    scaled = jacobian / np.maximum(norm, 1e-8 * norm.max())
    _, R, pivots = qr(scaled.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > 1e-7 * diagonal[0]).sum())
    return sorted(pivots[:rank].tolist())


class ConstrainedTree:
    """One robot: a tree with closures under motor efforts and joint terms.

        [M  K^T] [qdd  ]   [tau - h(q, qd) - f(q, qd)]
        [K  0  ] [-lambda] = [-(dK/dt) qd              ]

    with the rotor inertias on the diagonal of M, solved with pivoting:
    M may be singular (massless bodies) as long as the closures hold
    these bodies. Closure equations that others imply in the reference
    configuration are left out.

    Args:
        values: Standard parameters of one variant, (p,).
        load: Payload of one variant, (10 l,).
        dead_band: Of Coulomb friction, (n,). [m/s or rad/s]
    """

    def __init__(
        self,
        model: Model,
        values: FloatArray,
        load: FloatArray,
        dead_band: FloatArray,
    ) -> None:
        mechanism = model.mechanism
        parameters = dict(zip(mechanism.standard.names, values.tolist()))
        tree = build_tree(mechanism, body_inertias(model, parameters, load))
        self._model = tree.model
        self._data = self._model.createData()
        self._closures = Closures(mechanism, tree)
        self.coordinates = tree.order
        self.terms = JointEfforts(mechanism, parameters, self.coordinates, dead_band)
        self._motors = [self.coordinates.index(i) for i in model.actuated]
        n = self._model.nv
        self._compute_jacobians(model.home[self.coordinates], np.zeros(n))
        K, _ = self._closures.jacobian(self._data, np.zeros(n))
        self._rows = independent_rows(K)
        self._has_redundant_rows = len(self._rows) < len(K)
        unknowns = n + len(self._rows)
        self._system = np.zeros((unknowns, unknowns), order="F")
        self._right = np.zeros(unknowns)
        self._diagonal = np.arange(n)

    def _compute_jacobians(self, q: FloatArray, v: FloatArray) -> None:
        """Let Pinocchio compute placements, J and dJ."""
        pin.computeJointJacobiansTimeVariation(self._model, self._data, q, v)

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return accelerations (c,) under motor efforts (a,); NaN if the system is singular."""
        n = len(q)
        # Only the upper triangle of the mass matrix is filled, and only
        # that is used.
        mass = pin.crba(self._model, self._data, q)
        bias = pin.nonLinearEffects(self._model, self._data, q, v)
        self._compute_jacobians(q, v)
        K, drift = self._closures.jacobian(self._data, v)
        if self._has_redundant_rows:
            K = K[self._rows]
            drift = drift[self._rows]
        system = self._system
        system[:n, :n] = mass
        system[self._diagonal, self._diagonal] += self.terms.rotor
        system[:n, n:] = K.T
        right = self._right
        right[:n] = -bias - self.terms(q, v, effort)
        right[n:] = -drift
        right[self._motors] += effort
        _, _, solution, info = dsysv(system, right)
        return np.asarray(solution[:n]) if info == 0 else np.full(n, np.nan)

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, (a,) each."""
        return q[self._motors], v[self._motors]

    def close(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Make one least-norm Newton step towards the closures; return also their error before."""
        self._compute_jacobians(q, v)
        residual = self._closures.residual(self._data, q)
        if not len(residual):
            return q, v, 0.0
        K = self._closures.jacobian(self._data, v)[0][self._rows]
        right = np.column_stack([residual[self._rows], K @ v])
        _, solution, info = dposv(K @ K.T, right)
        if info != 0:
            return q * np.nan, v * np.nan, np.nan
        step = K.T @ solution
        return q - step[:, 0], v - step[:, 1], float(np.abs(residual).max())


def pinocchio_plant(settings: PlantSettings) -> TreePlant:
    """Return Pinocchio's plant: the midpoint rule, projected onto the closures once a period."""
    trees = []
    for values, load in zip(settings.values, settings.load):
        trees.append(ConstrainedTree(settings.model, values, load, settings.dead_band))
    return TreePlant(settings, trees, midpoint)
