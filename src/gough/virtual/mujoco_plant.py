"""A third plant: MuJoCo.

Robots with massless legs (S20's Stewart platform) are one rigid body under leg forces: no constraints, exact to the
integrator. Other robots have their loops held by MuJoCo's soft equality constraints; `Simulation.loop_error` tells how
far they open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import SubElement

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import INERTIAL
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Frame, Joint
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.mjcf import Scene, links_of, text
from gough.virtual.plant import PlantSettings, Sample

MujocoState = tuple[FloatArray, FloatArray]  # qpos and qvel, each (k, number of MuJoCo's joints)


def build_mujoco(model: Model, values: FloatArray, load: FloatArray, timestep: float) -> Any:
    """Return a robot as MjModel; actuator k drives motor k with gear 1, joints have the coordinates' names.

    A leg without inertia (base, two or three pivots in one point, slider, two ends that coincide) becomes a force
    between its two ends.

    Args:
        model: The robot.
        values: Standard parameters, (p,).
        load: Inertial parameters of a payload on the load body, (10,).
        timestep: Of the integrator. [s]

    Raises:
        InvalidInput: Other massless bodies, bodies that cannot exist, closures without a form in MuJoCo.
    """
    mechanism = model.mechanism
    table = dict(zip(mechanism.standard.names, values.tolist()))
    inertia = {body.name: np.array([table.get(f"{body.name}.{p}", 0.0) for p in INERTIAL])
               + (load if body.name == model.load_body else 0.0) for body in mechanism.bodies}
    every = range(len(mechanism.joints))
    rotor = dict(zip(mechanism.coordinates, JointEfforts(mechanism, table, every, np.ones(len(every))).rotor.tolist()))
    legs = _massless_legs(model, inertia, rotor)
    massive = {name for name, parameters in inertia.items() if parameters.any()}
    links = links_of(model, massive, {joint.child for leg in legs.values() for joint in leg})
    for link in links:
        if link.body not in massive:
            raise InvalidInput(f"body '{link.body}' has no mass; MuJoCo needs some in every body: use the pinocchio or "
                               "gough plant", body=link.body)
    scene = Scene(model, links, timestep=timestep, tolerance=1e-14)
    scene.add_links(inertia, {name: {"armature": repr(value)} for name, value in rotor.items() if value})
    tendon = {}
    for closure in mechanism.closures:
        if (leg := legs.get(closure.name)) is not None:
            ends = (Frame(body=BASE, placement=leg[0].placement), closure.frames[1])
            sites = [scene.add_site(frame, f"{closure.name}.{end}") for end, frame in zip("ab", ends)]
            tendon[leg[-1].name] = scene.add_rod(closure.name, sites)
        else:
            scene.add_closure(closure)
    for name in mechanism.actuated:
        where = {"tendon": tendon[name]} if name in tendon else {"joint": text(name)}
        SubElement(scene.actuator, "motor", {"name": text(name)} | where)
    try:
        return mujoco.MjModel.from_xml_string(scene.xml())
    except ValueError as error:
        raise InvalidInput(f"MuJoCo cannot simulate '{mechanism.name}': {error}; use the pinocchio or gough plant"
                           ) from error


def _massless_legs(model: Model, inertia: Mapping[str, FloatArray], rotor: Mapping[str, float],
                   ) -> dict[str, tuple[Joint, ...]]:
    """Return the joints of each massless leg, slider last, by the closure at its tip."""
    by_child = {joint.child: joint for joint in model.mechanism.joints}

    def chain(closure: Closure) -> tuple[Joint, ...]:
        joints: list[Joint] = []
        body = closure.frames[0].body
        while body != BASE:
            joints.insert(0, by_child[body])
            body = by_child[body].parent
        return tuple(joints)

    def is_leg(closure: Closure, joints: tuple[Joint, ...]) -> bool:
        inner = [closure.frames[0].placement, *(joint.placement for joint in joints[1:])]
        return (bool(joints) and joints[-1].actuated and joints[-1].kind == "prismatic"
                and all(joint.kind == "revolute" and not joint.terms for joint in joints[:-1])
                and not any(inertia[joint.child].any() for joint in joints) and not rotor[joints[-1].name]
                and not any(placement.translation.any() for placement in inner))

    tips = {c.name: (c, chain(c)) for c in model.mechanism.closures if CLOSURES[c.kind].mjcf == ("connect",)}
    return {name: joints for name, (closure, joints) in tips.items() if is_leg(closure, joints)}


class MujocoPlant:
    """Trials one after the other: MuJoCo's accelerations, integrated by the classical Runge-Kutta method.

    Not by `mj_step`, which would hold friction and efforts over its step. All joints are scalar, so qpos integrates
    qvel. Joint terms act as applied force; Coulomb friction is linear inside the dead band, as in the other plants.
    """

    def __init__(self, settings: PlantSettings) -> None:
        model, mechanism = settings.model, settings.model.mechanism
        self._settings = settings
        step = settings.period / settings.substeps
        self._robots = [build_mujoco(model, *trial, step) for trial in zip(settings.values, settings.load)]
        self._data = [mujoco.MjData(robot) for robot in self._robots]
        index = {text(name): i for i, name in enumerate(mechanism.coordinates)}
        self._own = [index[self._robots[0].joint(j).name] for j in range(self._robots[0].njnt)]
        self._motors, self._rows = list(model.actuated), list(model.independent)
        self._whole = len(self._own) == len(mechanism.joints)
        tables = [dict(zip(mechanism.standard.names, values.tolist())) for values in settings.values]
        self._friction, self._leg_friction = (
            [JointEfforts(mechanism, table, coordinates, settings.dead_band) for table in tables]
            for coordinates in (self._own, self._motors))
        self._free = np.array([i not in self._own for i in self._motors], dtype=float)
        self._q = np.repeat(model.home[None], settings.trials, axis=0)

    def start(self, q: FloatArray, qd: FloatArray) -> MujocoState:
        """Return the state."""
        self._q = np.array(q)
        return np.array(q[:, self._own]), np.array(qd[:, self._own])

    def read(self, state: MujocoState) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors."""
        position, velocity = np.empty((2, len(self._robots), len(self._motors)))
        for k, data in enumerate(self._data):
            self._set(k, state[0][k], state[1][k])
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

    def _set(self, k: int, q: FloatArray, v: FloatArray) -> None:
        model, data = self._robots[k], self._data[k]
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)

    def _acceleration(self, k: int, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return MuJoCo's qacc under motor efforts less the joint terms, also those of massless legs."""
        model, data = self._robots[k], self._data[k]
        self._set(k, q, v)
        data.qfrc_applied[:] = -self._friction[k](q, v)
        legs = self._leg_friction[k](np.array(data.actuator_length), np.array(data.actuator_velocity))
        data.ctrl[:] = effort - self._free * legs
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
