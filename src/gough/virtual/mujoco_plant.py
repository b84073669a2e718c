"""A third plant: MuJoCo.

Robots with massless legs (S20's Stewart platform) are one rigid body
under leg forces: no constraints, exact to the integrator. Other robots
have their loops held by MuJoCo's soft equality constraints;
`Simulation.loop_error` is how far they open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import SubElement

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.engine.model import Model
from gough.engine.mujoco_model import (
    MujocoScene,
    bodies_of,
    closed_bodies,
    xml_text,
)
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Closure, Frame, Joint, Mechanism
from gough.virtual.joint_efforts import JointEfforts
from gough.virtual.plant import PlantSettings
from gough.virtual.tree_plant import TreePlant, body_inertias, runge_kutta

# Mass and inertia of a rotor whose inertia is that of its joint; MuJoCo
# demands more than 1e-15. [kg and kg m2]
ROTOR_MASS = 1e-12


def build_mujoco(model: Model, values: FloatArray, load: FloatArray, timestep: float) -> Any:
    """Return one variant of a robot as MjModel; actuator k drives motor k with gear 1.

    Force elements are tendons; those without a motor have actuators
    after the motors'. A leg without inertia (base, two or three pivots
    in one point, slider, two ends that coincide) becomes a force
    between its two ends, too.

    Args:
        values: Standard parameters, (p,).
        load: Payload, (10 l,).
        timestep: Of the integrator. [s]
    """
    mechanism = model.mechanism
    parameters = dict(zip(mechanism.standard.names, values.tolist()))
    inertia = body_inertias(model, parameters, load)
    rotor = _rotor_inertias(mechanism, parameters)
    legs = _massless_legs(model, inertia, rotor)
    leg_bodies: set[str] = set()
    for leg in legs.values():
        leg_bodies.update(joint.child for joint in leg)
    massive = {name for name, body_inertia in inertia.items() if body_inertia.any()}
    links = bodies_of(model, massive, leg_bodies)
    loaded = {link.parent for link in links} | closed_bodies(model)
    for link in links:
        if link.body in massive:
            continue
        if link.body in loaded or not rotor[link.joints[-1].name] > 0:
            raise InvalidInput(
                f"body '{link.body}' has no mass; MuJoCo needs some in every body: use the "
                "pinocchio or gough plant",
                body=link.body,
            )
        inertia[link.body] = ROTOR_MASS * np.array([1.0, 0, 0, 0, 1, 0, 1, 0, 0, 1])
    scene = MujocoScene(model, links, timestep=timestep, tolerance=1e-14)
    armatures = {name: {"armature": repr(value)} for name, value in rotor.items() if value}
    scene.add_links(inertia, armatures)
    tendons = {}
    for closure in mechanism.closures:
        if closure.name in legs:
            leg = legs[closure.name]
            ends = (
                Frame(body=BASE, placement=leg[0].placement),
                closure.frames[1],
            )
            tendons[leg[-1].name] = scene.add_rod(closure.name, ends)
        elif closure.name in mechanism.forces:
            armature = armatures.get(closure.name, {})
            tendons[closure.name] = scene.add_rod(closure.name, closure.frames, armature)
        else:
            scene.add_closure(closure)
    for name in driven_coordinates(mechanism):
        target = {"tendon": tendons[name]} if name in tendons else {"joint": xml_text(name)}
        SubElement(scene.actuator, "motor", {"name": xml_text(name)} | target)
    try:
        return mujoco.MjModel.from_xml_string(scene.xml())
    except ValueError as error:
        raise InvalidInput(
            f"MuJoCo cannot simulate '{mechanism.name}': {error}; use the pinocchio or gough plant"
        ) from error


def _rotor_inertias(mechanism: Mechanism, parameters: Mapping[str, float]) -> dict[str, float]:
    """Return the inertia of the joint terms by coordinate."""
    n = len(mechanism.joints)
    terms = JointEfforts(mechanism, parameters, range(n), np.ones(n))
    return dict(zip(mechanism.coordinates, terms.rotor.tolist()))


def driven_coordinates(mechanism: Mechanism) -> tuple[str, ...]:
    """Return the coordinates with actuators: motors, then force elements without one."""
    others = [name for name in mechanism.forces if name not in mechanism.actuated]
    return (*mechanism.actuated, *others)


def _massless_legs(
    model: Model,
    inertia: Mapping[str, FloatArray],
    rotor: Mapping[str, float],
) -> dict[str, tuple[Joint, ...]]:
    """Return the joints of each massless leg, slider last, by the closure at its tip.

    Args:
        inertia: Ten inertial parameters by body.
        rotor: Inertia of the joint terms by coordinate.
    """
    joint_before = {joint.child: joint for joint in model.mechanism.joints}
    legs = {}
    for closure in model.mechanism.closures:
        body = closure.frames[0].body if closure.frames else BASE
        chain: list[Joint] = []
        while body != BASE:
            chain.insert(0, joint_before[body])
            body = chain[0].parent
        if chain and _is_massless_leg(closure, chain, inertia, rotor):
            legs[closure.name] = tuple(chain)
    return legs


def _is_massless_leg(
    closure: Closure,
    chain: Sequence[Joint],
    inertia: Mapping[str, FloatArray],
    rotor: Mapping[str, float],
) -> bool:
    """Return whether a chain is a massless leg: free pivots in one point, then a driven slider.

    Args:
        closure: At the tip of the chain.
        chain: Joints from the base to the tip.
    """
    slider = chain[-1]
    if CLOSURES[closure.kind].mjcf != ("connect",):
        return False
    if not slider.actuated or slider.kind != "prismatic" or rotor[slider.name]:
        return False
    if any(joint.kind != "revolute" or joint.terms for joint in chain[:-1]):
        return False
    if any(inertia[joint.child].any() for joint in chain):
        return False
    placements = [closure.frames[0].placement]
    placements += [joint.placement for joint in chain[1:]]
    return not any(placement.translation.any() for placement in placements)


class MujocoTree:
    """One variant of a robot; all its joints are scalar, so qpos integrates qvel.

    Joint terms act as applied force.
    """

    def __init__(self, settings: PlantSettings, variant: int) -> None:
        model = settings.model
        mechanism = model.mechanism
        values = settings.values[variant]
        step = settings.period / settings.substeps
        self._model = build_mujoco(model, values, settings.load[variant], step)
        self._data = mujoco.MjData(self._model)
        index = {xml_text(name): i for i, name in enumerate(mechanism.coordinates)}
        self.coordinates = [index[self._model.joint(j).name] for j in range(self._model.njnt)]
        parameters = dict(zip(mechanism.standard.names, values.tolist()))
        names = driven_coordinates(mechanism)
        actuators = [mechanism.coordinates.index(name) for name in names]
        self._n_motors = len(model.actuated)
        dead_band = settings.dead_band
        self.terms = JointEfforts(mechanism, parameters, self.coordinates, dead_band)
        self._actuator_terms = JointEfforts(mechanism, parameters, actuators, dead_band)
        on_leg = [i not in self.coordinates for i in actuators]
        for i, is_on_leg in zip(actuators, on_leg):
            if is_on_leg:
                _check_leg_terms(mechanism, mechanism.joints[i])
        self._on_leg = np.array(on_leg, dtype=float)
        self._rest_length = np.zeros(len(names))
        for k, name in enumerate(names):
            if name in mechanism.forces:
                self._rest_length[k] = -mechanism.forces[name].constant
        self._effort = np.zeros(len(names))

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, (a,) each."""
        position, velocity = self._actuators(q, v)
        return position[: self._n_motors], velocity[: self._n_motors]

    def _actuators(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of all actuators."""
        data = self._data
        data.qpos[:] = q
        data.qvel[:] = v
        mujoco.mj_fwdPosition(self._model, data)
        mujoco.mj_fwdVelocity(self._model, data)
        position = np.array(data.actuator_length) - self._rest_length
        return position, np.array(data.actuator_velocity)

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        """Return accelerations (c,) under motor efforts (a,)."""
        data = self._data
        position, velocity = self._actuators(q, v)
        self._effort[: self._n_motors] = effort
        data.qfrc_applied[:] = -self.terms(q, v, effort)
        leg_friction = self._on_leg * self._actuator_terms(position, velocity, effort)
        data.ctrl[:] = self._effort - leg_friction
        mujoco.mj_fwdActuation(self._model, data)
        mujoco.mj_fwdAcceleration(self._model, data)
        mujoco.mj_fwdConstraint(self._model, data)
        return np.array(data.qacc)

    def close(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return q and v unchanged: MuJoCo closes its loops itself, see `Simulation.loop_error`."""
        return q, v, 0.0 if np.isfinite(q).all() else np.inf


def _check_leg_terms(mechanism: Mechanism, joint: Joint) -> None:
    """Raise if a massless leg or a force element has a term with an internal state."""
    for name in joint.terms:
        if mechanism.terms[name].lags:
            raise InvalidInput(
                f"the term '{name}' of joint '{joint.name}' has an internal state, which the "
                "mujoco plant does not support on a massless leg or a force; use the gough plant",
                joint=joint.name,
                term=name,
            )


def mujoco_plant(settings: PlantSettings) -> TreePlant:
    """Return MuJoCo's plant: its accelerations, integrated by the classical Runge-Kutta method.

    Not by `mj_step`, which would hold friction and efforts over its
    step.
    """
    trees = [MujocoTree(settings, variant) for variant in range(settings.n_variants)]
    return TreePlant(settings, trees, runge_kutta)
