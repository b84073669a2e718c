"""What both robot formats need: bodies that can exist, poses with the loops closed, numbers as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.names import INERTIAL, payload_of
from gough.engine import Model
from gough.engine.symbolic import fixed_transform
from gough.estimators.physical.pseudo_inertia import pseudo_inertia
from gough.mechanism.types import BASE, Placement

_CONSISTENT = 1e-9  # round-off allowed in the eigenvalues of a scaled pseudo-inertia


def check_bodies(model: Model, bodies: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Return the ten inertial parameters of every body of the robot that has any, after checking them.

    Bodies that have no parameters in the robot file are massless and may be missing; a payload (`payload.<name>`) is no
    part of the robot and is left out.

    Raises:
        InvalidInput: Parameters that no body can have, of no body, or missing.
    """
    known = [body.name for body in model.mechanism.bodies]
    found = {}
    for name, values in bodies.items():
        if payload_of(name) is not None:
            continue
        if name not in known:
            raise InvalidInput(f"'{model.mechanism.name}' has no body '{name}'{nearest(name, known)}", body=name)
        parameters = np.asarray(values, dtype=float)
        check_shape(parameters, (len(INERTIAL),), f"inertial parameters of '{name}'")
        check_finite(parameters, f"inertial parameters of '{name}'")
        if parameters.any():
            if not _possible(parameters):
                raise InvalidInput(f"no body can have the inertial parameters of '{name}' "
                                   f"({', '.join(f'{p} {v:.4g}' for p, v in zip(INERTIAL, parameters))}): its "
                                   "pseudo-inertia is not positive; export a physically consistent estimate", body=name)
            found[name] = parameters
    for body in model.mechanism.bodies:
        if body.parameters and body.name not in bodies:
            raise InvalidInput(f"the inertial parameters of body '{body.name}' are missing", body=body.name)
    return found


def _possible(parameters: FloatArray) -> bool:
    """Tell whether some distribution of mass has these parameters, up to round-off."""
    J = pseudo_inertia(parameters)
    if not parameters[0] > 0 or not np.trace(J[:3, :3]) >= 0:
        return False
    length = np.sqrt(np.trace(J[:3, :3]) / parameters[0]) or 1.0
    scale = np.sqrt(parameters[0]) * np.array([length, length, length, 1.0])
    return bool(np.linalg.eigvalsh(J / np.outer(scale, scale))[0] > -_CONSISTENT)


def check_terms(model: Model, terms: Mapping[str, float] | None) -> dict[str, float]:
    """Return the coefficient of every joint term: given ones, else the robot file's.

    Raises:
        InvalidInput: A name that is no joint term of the robot.
    """
    standard = model.mechanism.standard
    own: dict[str, float] = {name: standard[name] for name in standard.names if not name.inertial}
    for name in terms or {}:
        if name not in own:
            raise InvalidInput(f"'{model.mechanism.name}' has no joint term '{name}'{nearest(name, own)}", name=name)
    return own | {name: float(value) for name, value in (terms or {}).items()}


def standard_values(model: Model, bodies: Mapping[str, FloatArray], terms: Mapping[str, float]) -> FloatArray:
    """Return bodies and joint terms as standard parameters, (p,)."""
    values = []
    for name in model.mechanism.standard.names:
        values.append(bodies[name.owner][INERTIAL.index(name.kind)] if name.inertial and name.owner in bodies
                      else terms.get(name, 0.0))
    return np.array(values)


def about_centre(parameters: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return mass, centre of mass (3,) and inertia about it (3, 3) of ten parameters. [kg, m, kg m2]"""
    mass, xx, xy, yy, xz, yz, zz = parameters[[0, 4, 5, 6, 7, 8, 9]]
    c = parameters[1:4] / mass
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return float(mass), c, about_origin - mass * (c @ c * np.eye(3) - np.outer(c, c))


def matrix(placement: Placement) -> FloatArray:
    """Return a placement as a homogeneous matrix, (4, 4)."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = fixed_transform(placement)
    return result


def home_poses(model: Model) -> dict[str, FloatArray]:
    """Return the pose of every body in the base frame at home, (4, 4) each."""
    rotation, origin = model.kinematics.body_poses(model.home[None])
    poses = {BASE: np.eye(4)}
    for k, body in enumerate(model.mechanism.bodies):
        poses[body.name] = np.eye(4)
        poses[body.name][:3, :3], poses[body.name][:3, 3] = rotation[0, k], origin[0, k]
    return poses


def numbers(values: Iterable[float]) -> str:
    """Return numbers to the last digit, round-off beside one removed: `0.0 0.25 1.0`."""
    return " ".join(repr(0.0 if abs(v) < 1e-15 else float(v)) for v in values)


def comment(text: str) -> str:
    """Keep text from ending an XML comment or spanning lines."""
    return re.sub(r"-(?=-|$)|[^\x20-\x7e]", "?", text)
