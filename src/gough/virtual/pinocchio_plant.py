"""A second plant: constrained dynamics with Pinocchio's mass matrix, bias and Jacobians, friction and integrator apart.

Acceptance data come from here: nothing but the mechanism's description is shared with the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dposv, dsysv

from gough.core.arrays import FloatArray
from gough.mechanism.types import Mechanism
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.pinocchio_tree import Closures, build_tree, independent_rows
from gough.virtual.plant import PlantSettings, Sample

TreeState = tuple[FloatArray, FloatArray]  # q and qd of all coordinates, each (k, n)


class ConstrainedTree:
    """One robot: a tree with closures under joint efforts and friction.

        [M  K^T] [qdd  ]   [tau - h(q, qd) - f(q, qd)]
        [K  0  ] [-lambda] = [-(dK/dt) qd              ]

    with the rotor inertias on the diagonal of M, solved with pivoting: M may be singular (massless bodies) as long as
    the closures hold these bodies. Closure equations that others imply are left out.

    Args:
        mechanism: The robot.
        values: Standard parameters, (p,).
        load: Payload on the load body, (10,).
        load_body: Its name.
        dead_band: Velocity band of Coulomb friction, (n,). [m/s or rad/s]
        home: A configuration with the loops closed, where independent closure equations are chosen, (n,).
    """

    def __init__(self, mechanism: Mechanism, values: FloatArray, load: FloatArray, load_body: str,
                 dead_band: FloatArray, home: FloatArray) -> None:
        table = dict(zip(mechanism.standard.names, values.tolist()))
        self._model, self.order, carried = build_tree(mechanism, table, load, load_body)
        self._data = self._model.createData()
        self._closures = Closures(mechanism, self._model, self.order, carried)
        self._terms = JointEfforts(mechanism, table, self.order, dead_band)
        n = self._model.nv
        pin.computeJointJacobiansTimeVariation(self._model, self._data, home[self.order], np.zeros(n))
        K = self._closures.jacobian(self._data, np.zeros(n))[0]
        self._rows = independent_rows(K)
        self._some = len(self._rows) < len(K)
        size = n + len(self._rows)
        self._system, self._right = np.zeros((size, size), order="F"), np.zeros(size)
        self._diagonal = np.arange(n)

    def acceleration(self, q: FloatArray, v: FloatArray, tau: FloatArray) -> FloatArray:
        """Return the accelerations of all coordinates (in tree order) under joint efforts, each (n,)."""
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
        right[:n], right[n:] = tau - bias - self._terms(q, v), -drift
        _, _, solution, info = dsysv(system, right)
        return np.asarray(solution[:n]) if info == 0 else np.full(n, np.nan)

    def close(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
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


class PinocchioPlant:
    """Trials one after the other, each by the explicit midpoint rule, projected onto the closures once a period.

    Coulomb friction as in `GoughPlant`: linear inside the dead band.
    """

    def __init__(self, settings: PlantSettings) -> None:
        model = settings.model
        self._settings = settings
        self._trees = [
            ConstrainedTree(model.mechanism, values, load, model.load_body, settings.dead_band, model.home)
            for values, load in zip(settings.values, settings.load)]
        self._order = self._trees[0].order
        self._back = np.argsort(self._order)
        self._motors = list(model.actuated)
        self._places = [self._order.index(i) for i in self._motors]
        self._row_places = [self._order.index(i) for i in model.independent]

    def start(self, q: FloatArray, qd: FloatArray) -> TreeState:
        """Return the state, in tree order."""
        return np.array(q[:, self._order]), np.array(qd[:, self._order])

    def read(self, state: TreeState) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors."""
        q, v = state
        return q[:, self._places], v[:, self._places]

    def step(self, state: TreeState, effort: FloatArray) -> tuple[Sample, TreeState]:
        """Advance by one controller period."""
        q_all, v_all = state
        h, trials = self._settings.period / self._settings.substeps, len(q_all)
        closed, first, gap = np.empty_like(q_all), np.empty_like(q_all), np.empty(trials)
        speeds = np.empty_like(v_all)
        next_q, next_v = np.empty_like(q_all), np.empty_like(v_all)
        tau = np.zeros(q_all.shape[1])
        for k, tree in enumerate(self._trees):
            q, v, gap[k] = tree.close(q_all[k], v_all[k])
            closed[k], speeds[k] = q, v
            for i in range(self._settings.substeps):
                tau[self._places] = effort[2 * i, k]
                a = tree.acceleration(q, v, tau)
                if i == 0:
                    first[k] = a
                tau[self._places] = effort[2 * i + 1, k]
                middle = v + h / 2 * a
                a = tree.acceleration(q + h / 2 * v, middle, tau)
                q, v = q + h * middle, v + h * a
            next_q[k], next_v[k] = q, v
        rows = self._row_places
        return Sample(closed[:, self._back], speeds[:, rows], first[:, rows], gap), (next_q, next_v)


def constrained_acceleration(tree: ConstrainedTree, q: FloatArray, qd: FloatArray, tau: FloatArray) -> Any:
    """Return accelerations in the mechanism's order, (n,), for configurations and efforts in that order."""
    order = tree.order
    return tree.acceleration(q[order], qd[order], tau[order])[np.argsort(order)]
