"""A third plant: MuJoCo.

Robots with massless legs (S20's Stewart platform) are one rigid body under leg forces: no constraints, exact to the
integrator. Other robots have their loops held by MuJoCo's soft equality constraints; `Simulation.loop_error` tells how
far they open.
"""

from __future__ import annotations

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.virtual.mujoco_tree import build_mujoco
from gough.virtual.plant import PlantSettings, Sample, check_terms

MujocoState = tuple[FloatArray, FloatArray]  # qpos and qvel, each (k, number of MuJoCo's joints)


class MujocoPlant:
    """Trials one after the other: MuJoCo's accelerations, integrated by the classical Runge-Kutta method.

    Not by `mj_step`, which would hold friction and efforts over its step. All joints are scalar, so qpos integrates
    qvel. Friction acts as applied force; Coulomb friction is linear inside the dead band, as in the other plants.
    """

    def __init__(self, settings: PlantSettings) -> None:
        model, mechanism = settings.model, settings.model.mechanism
        check_terms(mechanism, "mujoco")
        self._settings = settings
        names = mechanism.standard.names
        step = settings.period / settings.substeps
        self._robots = [
            build_mujoco(mechanism, dict(zip(names, values.tolist())), load, model.load_body, step)
            for values, load in zip(settings.values, settings.load)]
        self._data = [mujoco.MjData(robot.model) for robot in self._robots]
        self._own = list(self._robots[0].coordinates)
        self._motors, self._rows = list(model.actuated), list(model.independent)
        self._whole = len(self._own) == len(mechanism.joints)
        self._terms = [_terms(settings, values, self._own) for values in settings.values]
        self._leg_terms = [_terms(settings, values, self._motors) for values in settings.values]
        self._free = np.array([i not in self._own for i in self._motors], dtype=float)
        self._q = np.repeat(model.home[None], settings.trials, axis=0)

    def start(self, q: FloatArray, qd: FloatArray) -> MujocoState:
        """Return the state."""
        self._q = np.array(q)
        return np.array(q[:, self._own]), np.array(qd[:, self._own])

    def read(self, state: MujocoState) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors."""
        position, velocity = np.empty((2, len(self._robots), len(self._motors)))
        for k, (robot, data) in enumerate(zip(self._robots, self._data)):
            data.qpos[:], data.qvel[:] = state[0][k], state[1][k]
            mujoco.mj_fwdPosition(robot.model, data)
            mujoco.mj_fwdVelocity(robot.model, data)
            position[k], velocity[k] = data.actuator_length, data.actuator_velocity
        return position, velocity

    def step(self, state: MujocoState, effort: FloatArray) -> tuple[Sample, MujocoState]:
        """Advance by one controller period."""
        position, _ = self.read(state)
        h = self._settings.period / self._settings.substeps
        acceleration = np.empty_like(state[0])
        next_q, next_v = np.empty_like(state[0]), np.empty_like(state[1])
        for k in range(len(self._robots)):
            q, v = state[0][k], state[1][k]
            for i in range(self._settings.substeps):
                tau = effort[2 * i:2 * i + 3, k]
                a1 = self._acceleration(k, q, v, tau[0])
                v2 = v + h / 2 * a1
                a2 = self._acceleration(k, q + h / 2 * v, v2, tau[1])
                v3 = v + h / 2 * a2
                a3 = self._acceleration(k, q + h / 2 * v2, v3, tau[1])
                v4 = v + h * a3
                a4 = self._acceleration(k, q + h * v3, v4, tau[2])
                if i == 0:
                    acceleration[k] = a1
                q, v = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
            next_q[k], next_v[k] = q, v
        return self._sample(state, position, acceleration), (next_q, next_v)

    def _acceleration(self, k: int, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return MuJoCo's qacc under motor efforts less the friction of joints and massless legs."""
        data, model = self._data[k], self._robots[k].model
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        viscous, coulomb, offset, spring, band = self._terms[k]
        sign = np.clip(data.qvel / band, -1.0, 1.0)
        data.qfrc_applied[:] = -(viscous * data.qvel + coulomb * sign + offset + spring * data.qpos)
        viscous, coulomb, offset, spring, band = self._leg_terms[k]
        length, rate = data.actuator_length, data.actuator_velocity
        friction = viscous * rate + coulomb * np.clip(rate / band, -1.0, 1.0) + offset + spring * length
        data.ctrl[:] = effort - self._free * friction
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_fwdConstraint(model, data)
        return np.array(data.qacc)

    def _sample(self, state: MujocoState, position: FloatArray, acceleration: FloatArray) -> Sample:
        """Return all coordinates; those of massless legs follow from the platform's."""
        model, q = self._settings.model, self._q.copy()
        q[:, self._own] = state[0]
        velocity, rates = state[1], acceleration
        if not self._whole:
            q, error = model.kinematics._newton(q, "task")
            self._q = q.copy()
            task = list(model.loops.partitions["task"].independent)
            order = [self._own.index(i) for i in task]
            qd, qdd = model.kinematics.rates(q, velocity[:, order], rates[:, order], "task")
            q[:, self._motors] = position
            return Sample(q, qd[:, self._rows], qdd[:, self._rows], error)
        order = [self._own.index(i) for i in self._rows]
        check = np.where(np.isfinite(q).all(axis=1), 0.0, np.inf)  # open loops show in Simulation.loop_error
        return Sample(q, velocity[:, order], rates[:, order], check)


def _terms(settings: PlantSettings, values: FloatArray, coordinates: list[int]) -> tuple[FloatArray, ...]:
    """Return viscous, Coulomb, offset and spring coefficients and the dead band of some coordinates."""
    mechanism = settings.model.mechanism
    table = dict(zip(mechanism.standard.names, values.tolist()))
    names = [mechanism.coordinates[i] for i in coordinates]
    found = [np.array([table.get(f"{name}.{term}", 0.0) for name in names]) for term in ("fv", "fs", "off", "k")]
    return (*found, np.maximum(settings.dead_band[coordinates], 1e-300))
