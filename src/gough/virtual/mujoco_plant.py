"""A third plant: MuJoCo.

Robots with massless legs (S20's Stewart platform) are one rigid body under leg forces: no
constraints, exact to the integrator. Other robots have their loops held by MuJoCo's soft equality
constraints; `Simulation.loop_error` tells how far they open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import SubElement

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.engine.model import Model
from gough.mechanism.closures import CLOSURES
from gough.mechanism.types import BASE, Frame, Joint, Mechanism
from gough.virtual.mujoco_model import Scene, links_of, text
from gough.virtual.plant import PlantSettings
from gough.virtual.tree_plant import JointEfforts, TreePlant, body_inertias, runge_kutta

TINY = 1e-12  # of a rotor whose inertia is its joint's; MuJoCo wants more than 1e-15 [kg and kg m2]


def build_mujoco(model: Model, values: FloatArray, load: FloatArray, timestep: float) -> Any:
    """Return a robot of one trial as MjModel; actuator k drives motor k with gear 1.

    Force elements are tendons; those without a motor have actuators after the motors'. A leg
    without inertia (base, two or three pivots in one point, slider, two ends that coincide) becomes
    a force between its two ends, too.
    """
    mechanism = model.mechanism
    table = dict(zip(mechanism.standard.names, values.tolist()))
    inertia = body_inertias(model, table, load)
    every = range(len(mechanism.joints))
    rotor = dict(
        zip(
            mechanism.coordinates,
            JointEfforts(mechanism, table, every, np.ones(len(every))).rotor.tolist(),
        )
    )
    legs = _massless_legs(model, inertia, rotor)
    massive = {name for name, parameters in inertia.items() if parameters.any()}
    links = links_of(model, massive, {joint.child for leg in legs.values() for joint in leg})
    held = {
        *(link.parent for link in links),
        *(frame.body for c in mechanism.closures for frame in c.frames),
    }
    for link in links:
        if link.body not in massive and rotor[link.joints[-1].name] > 0 and link.body not in held:
            inertia[link.body] = TINY * np.array(
                [1.0, 0, 0, 0, 1, 0, 1, 0, 0, 1]
            )  # the joint has the inertia
        elif link.body not in massive:
            raise InvalidInput(
                f"body '{link.body}' has no mass; MuJoCo needs some in every body: use the "
                f"pinocchio or "
                "gough plant",
                body=link.body,
            )
    scene = Scene(model, links, timestep=timestep, tolerance=1e-14)
    scene.add_links(
        inertia, {name: {"armature": repr(value)} for name, value in rotor.items() if value}
    )
    tendon = {}
    for closure in mechanism.closures:
        if (leg := legs.get(closure.name)) is not None:
            ends = (Frame(body=BASE, placement=leg[0].placement), closure.frames[1])
            tendon[leg[-1].name] = scene.add_rod(closure.name, ends)
        elif closure.name in mechanism.forces:
            inertia_of = {"armature": repr(rotor[closure.name])} if rotor[closure.name] else {}
            tendon[closure.name] = scene.add_rod(closure.name, closure.frames, inertia_of)
        else:
            scene.add_closure(closure)
    for name in driven(mechanism):
        where = {"tendon": tendon[name]} if name in tendon else {"joint": text(name)}
        SubElement(scene.actuator, "motor", {"name": text(name)} | where)
    try:
        return mujoco.MjModel.from_xml_string(scene.xml())
    except ValueError as error:
        raise InvalidInput(
            f"MuJoCo cannot simulate '{mechanism.name}': {error}; use the pinocchio or gough plant"
        ) from error


def driven(mechanism: Mechanism) -> tuple[str, ...]:
    """Return the coordinates with actuators: motors, then force elements without one."""
    return mechanism.actuated + tuple(
        name for name in mechanism.forces if name not in mechanism.actuated
    )


def _massless_legs(
    model: Model,
    inertia: Mapping[str, FloatArray],
    rotor: Mapping[str, float],
) -> dict[str, tuple[Joint, ...]]:
    """Return the joints of each massless leg, slider last, by the closure at its tip."""
    before = {joint.child: joint for joint in model.mechanism.joints}
    legs = {}
    for closure in model.mechanism.closures:
        body, chain = closure.frames[0].body if closure.frames else BASE, list[Joint]()
        while body != BASE:
            chain.insert(0, before[body])
            body = chain[0].parent
        inner = [frame.placement for frame in closure.frames[:1]] + [
            joint.placement for joint in chain[1:]
        ]
        if (
            CLOSURES[closure.kind].mjcf == ("connect",)
            and chain
            and chain[-1].actuated
            and chain[-1].kind == "prismatic"
            and not rotor[chain[-1].name]
            and all(joint.kind == "revolute" and not joint.terms for joint in chain[:-1])
            and not any(inertia[joint.child].any() for joint in chain)
            and not any(placement.translation.any() for placement in inner)
        ):
            legs[closure.name] = tuple(chain)
    return legs


class MujocoTree:
    """One robot; all its joints are scalar, so qpos integrates qvel.

    Joint terms act as applied force.
    """

    def __init__(self, settings: PlantSettings, trial: int) -> None:
        model, mechanism = settings.model, settings.model.mechanism
        values = settings.values[trial]
        self._model = build_mujoco(
            model, values, settings.load[trial], settings.period / settings.substeps
        )
        self._data = mujoco.MjData(self._model)
        index = {text(name): i for i, name in enumerate(mechanism.coordinates)}
        self.coordinates = [index[self._model.joint(j).name] for j in range(self._model.njnt)]
        table = dict(zip(mechanism.standard.names, values.tolist()))
        names, self._count = driven(mechanism), len(model.actuated)
        actuators = [mechanism.coordinates.index(name) for name in names]
        self.terms, self._leg_terms = (
            JointEfforts(mechanism, table, coordinates, settings.dead_band)
            for coordinates in (self.coordinates, actuators)
        )
        for joint in (mechanism.joints[i] for i in actuators if i not in self.coordinates):
            for name in joint.terms:
                if mechanism.terms[name].lags:
                    raise InvalidInput(
                        f"the term '{name}' of joint '{joint.name}' remembers, and the mujoco "
                        f"plant has "
                        "no place for that on a massless leg or a force; use the gough plant",
                        joint=joint.name,
                        term=name,
                    )
        self._on_leg = np.array([i not in self.coordinates for i in actuators], dtype=float)
        self._rest = np.array(
            [-mechanism.forces[n].constant if n in mechanism.forces else 0.0 for n in names]
        )
        self._effort = np.zeros(len(names))

    def motors(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        position, velocity = self._actuators(q, v)
        return position[: self._count], velocity[: self._count]

    def _actuators(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        data = self._data
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_fwdPosition(self._model, data)
        mujoco.mj_fwdVelocity(self._model, data)
        return np.array(data.actuator_length) - self._rest, np.array(data.actuator_velocity)

    def acceleration(self, q: FloatArray, v: FloatArray, effort: FloatArray) -> FloatArray:
        data = self._data
        position, velocity = self._actuators(q, v)
        self._effort[: self._count] = effort
        data.qfrc_applied[:] = -self.terms(q, v, effort)
        data.ctrl[:] = self._effort - self._on_leg * self._leg_terms(position, velocity, effort)
        mujoco.mj_fwdActuation(self._model, data)
        mujoco.mj_fwdAcceleration(self._model, data)
        mujoco.mj_fwdConstraint(self._model, data)
        return np.array(data.qacc)

    def settle(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        # MuJoCo pulls its loops closed itself, and `Simulation.loop_error` shows how well.
        return q, v, 0.0 if np.isfinite(q).all() else np.inf


def mujoco_plant(settings: PlantSettings) -> TreePlant:
    """Return MuJoCo's plant: its accelerations, integrated by the classical Runge-Kutta method.

    Not by `mj_step`, which would hold friction and efforts over its step.
    """
    return TreePlant(
        settings, [MujocoTree(settings, k) for k in range(settings.n_variants)], runge_kutta
    )
