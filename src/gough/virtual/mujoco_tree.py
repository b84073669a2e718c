"""A mechanism as a MuJoCo model: real bodies with equality constraints, massless legs as forces between two points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import INERTIAL
from gough.mechanism.types import BASE, Frame, Joint, Mechanism, Placement

# Constraints as stiff as double precision and a fixed step allow: reference time of two steps, impedance 0.9999.
SOLIMP = (0.9999, 0.9999, 0.001, 0.5, 2.0)


@dataclass(frozen=True, eq=False)
class MujocoRobot:
    """A compiled robot.

    Args:
        model: MjModel; actuator k drives motor k with gear 1.
        coordinates: Coordinates of the mechanism that MuJoCo has, in the order of its scalar joints.
    """

    model: Any
    coordinates: tuple[int, ...]


def build_mujoco(mechanism: Mechanism, values: Mapping[str, float], load: FloatArray, load_body: str,
                 timestep: float) -> MujocoRobot:
    """Build a robot for MuJoCo.

    Bodies without inertia that only link two joints vanish: their joints move to the next body. A leg without inertia
    (base, two or three pivots in one point, slider, `point` closure) becomes a force between its two ends. Other
    closures become equality constraints between sites, couplings of the length of a tendon.

    Args:
        mechanism: The robot.
        values: Standard parameters by name.
        load: Inertial parameters of a payload, (10,).
        load_body: The body it is fixed to.
        timestep: Of the integrator. [s]

    Raises:
        InvalidInput: Other massless bodies, closures of kind `distance`, `revolute` or `parallel`, inertias that no
            body can have: MuJoCo cannot simulate them.
    """
    inertia = {body.name: np.array([values.get(f"{body.name}.{p}", 0.0) for p in INERTIAL])
               + (load if body.name == load_body else 0.0) for body in mechanism.bodies}
    legs = _massless_legs(mechanism, inertia)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = timestep
    spec.option.gravity = list(mechanism.gravity)
    spec.option.tolerance, spec.option.iterations = 1e-14, 200
    bodies: dict[str, Any] = {BASE: spec.worldbody}
    dropped = {joint for leg in legs.values() for joint in leg}
    _add_bodies(mechanism, inertia, bodies, values, dropped)
    for closure in mechanism.closures:
        leg = legs.get(closure.name)
        if leg is not None:
            _add_leg(spec, mechanism, bodies, leg, closure.name)
        elif closure.kind in ("point", "weld"):
            ends = [_add_site(bodies, frame, f"{closure.name}.{i}") for i, frame in enumerate((closure.a, closure.b))]
            kind = mujoco.mjtEq.mjEQ_CONNECT if closure.kind == "point" else mujoco.mjtEq.mjEQ_WELD
            # Sites, not bodies: anchors of bodies are taken from the zero pose, where the loops are open.
            spec.add_equality(name=closure.name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, name1=ends[0],
                              name2=ends[1], solref=(2 * timestep, 1.0), solimp=SOLIMP)
        elif closure.kind == "coupling":
            tendon = spec.add_tendon(name=closure.name)  # its length is the sum of coefficient times coordinate
            for joint, coefficient in closure.coefficients.items():
                tendon.wrap_joint(joint, coefficient)
            spec.add_equality(
                name=closure.name, type=mujoco.mjtEq.mjEQ_TENDON, objtype=mujoco.mjtObj.mjOBJ_TENDON,
                name1=closure.name, data=[-closure.constant, *[0.0] * (mujoco.mjNEQDATA - 1)],
                solref=(2 * timestep, 1.0), solimp=SOLIMP)
        else:
            raise InvalidInput(f"closure '{closure.name}' of kind {closure.kind} cannot be simulated by MuJoCo; use "
                               "the pinocchio or gough plant", closure=closure.name)
    in_tendon = {leg[-1]: name for name, leg in legs.items()}
    for name in mechanism.actuated:
        on_leg = name in in_tendon
        spec.add_actuator(
            name=name, target=in_tendon[name] if on_leg else name,
            trntype=mujoco.mjtTrn.mjTRN_TENDON if on_leg else mujoco.mjtTrn.mjTRN_JOINT)
    try:
        model = spec.compile()
    except ValueError as error:
        raise InvalidInput(f"MuJoCo cannot simulate '{mechanism.name}': {error}; use the pinocchio or gough plant"
                           ) from error
    names = [model.joint(j).name for j in range(model.njnt)]
    return MujocoRobot(model, tuple(mechanism.coordinates.index(name) for name in names))


def _massless_legs(mechanism: Mechanism, inertia: Mapping[str, FloatArray]) -> dict[str, tuple[str, ...]]:
    """Return the joints of each massless leg, slider last, by the closure at its tip."""
    legs = {}
    by_child = {joint.child: joint for joint in mechanism.joints}
    for closure in mechanism.closures:
        if closure.kind != "point" or closure.a is None or closure.b is None:
            continue
        chain: list[Joint] = []
        body = closure.a.body
        while body != BASE:
            chain.insert(0, by_child[body])
            body = by_child[body].parent
        pivots = chain[:-1]
        if (chain and chain[-1].actuated and chain[-1].kind == "prismatic"
                and all(j.kind == "revolute" and not j.terms for j in pivots)
                and not any(inertia[j.child].any() for j in chain) and "ia" not in chain[-1].terms
                and not transform(closure.a.placement)[:3, 3].any()
                and not any(transform(j.placement)[:3, 3].any() for j in chain[1:])):
            legs[closure.name] = tuple(j.name for j in chain)
    return legs


def _add_bodies(mechanism: Mechanism, inertia: Mapping[str, FloatArray], bodies: dict[str, Any],
                values: Mapping[str, float], dropped: set[str]) -> None:
    """Add bodies and joints; the joints of a massless link go to the body it carries.

    MuJoCo gives a body several joints, applied one after the other, with axes and anchors in the body's frame at zero.
    """
    waiting: dict[str, tuple[str, FloatArray, list[Joint], list[FloatArray]]] = {}  # by massless body
    for joint in mechanism.joints:
        if joint.name in dropped:
            continue
        origin, placed, joints, frames = waiting.pop(joint.parent, (joint.parent, np.eye(4), [], []))
        placed = placed @ transform(joint.placement)
        joints, frames = [*joints, joint], [*frames, placed]
        if not inertia[joint.child].any():
            used = any(f is not None and f.body == joint.child for c in mechanism.closures for f in (c.a, c.b))
            if used or sum(other.parent == joint.child for other in mechanism.joints) != 1:
                raise InvalidInput(f"body '{joint.child}' has no mass; MuJoCo needs some in every body: use the "
                                   "pinocchio or gough plant", body=joint.child)
            waiting[joint.child] = (origin, placed, joints, frames)
            continue
        mass, com, about = _inertia(inertia[joint.child])
        body = bodies[origin].add_body(
            name=joint.child, pos=placed[:3, 3], quat=_quaternion(placed[:3, :3]), mass=mass, ipos=com,
            fullinertia=[about[0, 0], about[1, 1], about[2, 2], about[0, 1], about[0, 2], about[1, 2]])
        body.explicitinertial = True
        bodies[joint.child] = body
        back = np.linalg.inv(placed)
        for single, frame in zip(joints, frames):
            local = back @ frame
            body.add_joint(
                name=single.name, pos=local[:3, 3], axis=local[:3, "xyz".index(single.axis)],
                type=mujoco.mjtJoint.mjJNT_HINGE if single.kind == "revolute" else mujoco.mjtJoint.mjJNT_SLIDE,
                armature=values.get(f"{single.name}.ia", 0.0))


def _add_leg(spec: Any, mechanism: Mechanism, bodies: dict[str, Any], leg: tuple[str, ...], name: str) -> None:
    """Add a massless leg as a spatial tendon from its base point to the platform."""
    closure = next(c for c in mechanism.closures if c.name == name)
    assert closure.b is not None
    first = mechanism.joint(leg[0])
    ends = [_add_site(bodies, Frame(body=BASE, placement=first.placement), f"{name}.0"),
            _add_site(bodies, closure.b, f"{name}.1")]
    tendon = spec.add_tendon(name=name)
    for end in ends:
        tendon.wrap_site(end)


def _add_site(bodies: dict[str, Any], frame: Frame | None, name: str) -> str:
    assert frame is not None
    if frame.body not in bodies:
        raise InvalidInput(f"body '{frame.body}' has no mass; MuJoCo needs mass in every body", body=frame.body)
    placed = transform(frame.placement)
    bodies[frame.body].add_site(name=name, pos=placed[:3, 3], quat=_quaternion(placed[:3, :3]))
    return name


def transform(placement: Placement) -> FloatArray:
    """Return a placement as a homogeneous matrix, (4, 4)."""
    result = np.eye(4)
    for step, value in placement.steps:
        axis = "xyz".index(step[1].lower())
        part = np.eye(4)
        if step[0] == "T":
            part[axis, 3] = value
        else:
            i, j = (axis + 1) % 3, (axis + 2) % 3
            part[i, i], part[i, j], part[j, i], part[j, j] = np.cos(value), -np.sin(value), np.sin(value), np.cos(value)
        result = result @ part
    return result


def _quaternion(rotation: FloatArray) -> FloatArray:
    result = np.empty(4)
    mujoco.mju_mat2Quat(result, np.ascontiguousarray(rotation).ravel())
    return result


def _inertia(values: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return mass, centre of mass (3,) and inertia about it (3, 3)."""
    mass, xx, xy, yy, xz, yz, zz = values[[0, 4, 5, 6, 7, 8, 9]]
    c = values[1:4] / mass if mass > 0 else np.zeros(3)
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return float(mass), c, about - mass * (c @ c * np.eye(3) - np.outer(c, c))
