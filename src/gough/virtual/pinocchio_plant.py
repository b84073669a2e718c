"""A second plant: constrained dynamics with Pinocchio's mass matrix, bias and Jacobians, friction and integrator apart.

Acceptance data come from here: nothing but the mechanism's description is shared with the engine.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dposv, dsysv

from gough.core.arrays import FloatArray
from gough.engine.model import Model
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.pinocchio_tree import Closures, build_tree, independent_rows
from gough.virtual.plant import PlantSettings
from gough.virtual.tree_plant import TreePlant, midpoint


class ConstrainedTree:
    """One robot: a tree with closures under motor efforts and joint terms.

        [M  K^T] [qdd  ]   [tau - h(q, qd) - f(q, qd)]
        [K  0  ] [-lambda] = [-(dK/dt) qd              ]

    with the rotor inertias on the diagonal of M, solved with pivoting: M may be singular (massless bodies) as long as
    the closures hold these bodies. Closure equations that others imply are left out.

    Args:
        model: The robot; at its home independent closure equations are chosen.
        values: Standard parameters, (p,).
        load: Payload on the load body, (10,).
        dead_band: Velocity band of Coulomb friction, (n,). [m/s or rad/s]
    """

    def __init__(self, model: Model, values: FloatArray, load: FloatArray, dead_band: FloatArray) -> None:
        mechanism = model.mechanism
        table = dict(zip(mechanism.standard.names, values.tolist()))
        self._model, self.coordinates, carried = build_tree(mechanism, table, load, model.load_body)
        self._data = self._model.createData()
        self._closures = Closures(mechanism, self._model, self.coordinates, carried)
        self._terms = JointEfforts(mechanism, table, self.coordinates, dead_band)
        self._motors = [self.coordinates.index(i) for i in model.actuated]
        n = self._model.nv
        pin.computeJointJacobiansTimeVariation(self._model, self._data, model.home[self.coordinates], np.zeros(n))
        K = self._closures.jacobian(self._data, np.zeros(n))[0]
        self._rows = independent_rows(K)
        self._some = len(self._rows) < len(K)
        size = n + len(self._rows)
        self._system, self._right = np.zeros((size, size), order="F"), np.zeros(size)
        self._diagonal = np.arange(n)

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return the accelerations of all coordinates (n,), in the tree's order, under motor efforts (a,)."""
        model, data, n = self._model, self._data, len(q)
        mass = pin.crba(model, data, q)  # only its upper triangle is sure to be filled, and only that is used
        bias = pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobiansTimeVariation(model, data, q, v)
        K, drift = self._closures.jacobian(data, v)
        if self._some:
            K, drift = K[self._rows], drift[self._rows]
        system, right = self._system, self._right
        system[:n, :n] = mass
        system[self._diagonal, self._diagonal] += self._terms.rotor
        system[:n, n:] = K.T
        right[:n], right[n:] = -bias - self._terms(q, v), -drift
        right[self._motors] += effort
        _, _, solution, info = dsysv(system, right)
        return np.asarray(solution[:n]) if info == 0 else np.full(n, np.nan)

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors."""
        return q[self._motors], v[self._motors]

    def settle(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return configuration and velocity after one least-norm Newton step, and the closure error before it."""
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
    """Return Pinocchio's plant: the explicit midpoint rule, projected onto the closures once a period."""
    model = settings.model
    trees = [ConstrainedTree(model, values, load, settings.dead_band)
             for values, load in zip(settings.values, settings.load)]
    return TreePlant(settings, trees, midpoint)
