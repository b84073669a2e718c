"""Rotations, and the inertia of solid shapes, as other formats define them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.inertia import INERTIA_ENTRIES, transform_inertia
from gough.formats.xml import Element
from gough.mechanism.placement import roll_pitch_yaw

MUJOCO_DENSITY = 1000.0  # default, that of water [kg/m3]
SHAPE_SIZES = {
    "sphere": 1,
    "capsule": 2,
    "cylinder": 2,
    "box": 3,
    "ellipsoid": 3,
}
# ixx, ixy, ... in the order of `INERTIA_ENTRIES`
INERTIA_NAMES = tuple(f"i{'xyz'[i]}{'xyz'[j]}" for i, j in INERTIA_ENTRIES)


def quaternion_rotation(quaternion: ArrayLike) -> FloatArray:
    """Return the rotation of a quaternion w, x, y, z of any length."""
    q = np.asarray(quaternion, dtype=float)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def free_coordinates(pose: FloatArray) -> tuple[float, ...]:
    """Return the position [m] and the angles [rad] of R = Rx Ry Rz, (6,)."""
    angles = roll_pitch_yaw(pose[:3, :3].T)  # R^T = Rz(-rz) Ry(-ry) Rx(-rx)
    return (*map(float, pose[:3, 3]), *(-angle for angle in angles))


def along_z(axis: ArrayLike) -> FloatArray:
    """Return a rotation whose z axis is this axis, (3, 3)."""
    z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def inertial_parameters(mass: float, inertia: FloatArray, pose: FloatArray) -> FloatArray:
    """Return the ten inertial parameters of a body, (10,).

    Args:
        mass: [kg]
        inertia: Inertia about the centre of mass, in a frame there, (3,
            3). [kg m2]
        pose: Pose of that frame in the frame that the parameters are
            about, (4, 4).
    """
    entries = [inertia[entry] for entry in INERTIA_ENTRIES]
    return transform_inertia(pose, np.array([mass, 0.0, 0.0, 0.0, *entries]))


def body_parameters(
    element: Element,
    mass: float,
    pose: FloatArray,
    inertia: Mapping[str, float],
) -> FloatArray:
    """Return the ten parameters of a body with an inertia about its centre of mass, (10,).

    Args:
        element: For errors.
        mass: [kg]
        pose: Pose of a frame at the centre of mass, (4, 4).
        inertia: Entries `INERTIA_NAMES` of the inertia in that frame.
            [kg m2]
    """
    if mass < 0:
        raise element.error(f"a mass cannot be negative, found {mass:g} kg")
    matrix = np.empty((3, 3))
    for (i, j), name in zip(INERTIA_ENTRIES, INERTIA_NAMES):
        matrix[i, j] = matrix[j, i] = inertia[name]
    return inertial_parameters(mass, matrix, pose)


def shape_parameters(geom: Element, sizes: Sequence[float], pose: FloatArray) -> FloatArray:
    """Return the ten inertial parameters of a `<geom>` of MJCF, (10,).

    Args:
        geom: The element, with type and mass or density.
        sizes: Those of MuJoCo: radius; radius and half length along z;
            half lengths along x, y, z.
        pose: Pose of the shape in the frame that the parameters are
            about, (4, 4).
    """
    kind = geom.get("type", "sphere")
    if kind not in SHAPE_SIZES:
        raise geom.error(f"unknown type '{kind}'; expected one of {', '.join(SHAPE_SIZES)}")
    if geom.is_true("shellinertia"):
        raise geom.error("shellinertia is not read; give the body an <inertial>")
    count = SHAPE_SIZES[kind]
    sizes = sizes[:count]
    if len(sizes) < count or not min(sizes) > 0:
        raise geom.error(f"a {kind} needs {count} sizes above zero")
    volume, specific_inertia = _solid(kind, *sizes)
    mass = geom.number("mass", volume * geom.number("density", MUJOCO_DENSITY))
    return inertial_parameters(mass, mass * np.diag(specific_inertia), pose)


def _solid(
    kind: str, a: float, b: float = 0.0, c: float = 0.0
) -> tuple[float, tuple[float, float, float]]:
    """Return volume [m3] and principal inertias per mass [m2] of a solid shape."""
    ball = 4 / 3 * math.pi * a**3
    tube = 2 * math.pi * a * a * b
    length = 2 * b
    if kind == "box":
        return 8 * a * b * c, _squared_sums(a, b, c, 3)
    if kind == "ellipsoid":
        return 4 / 3 * math.pi * a * b * c, _squared_sums(a, b, c, 5)
    if kind == "sphere":
        return ball, (0.4 * a * a,) * 3
    if kind == "cylinder":
        across = (3 * a * a + length**2) / 12
        return tube, (across, across, a * a / 2)
    # A capsule is a cylinder and two half spheres; their fractions of
    # the mass:
    t = tube / (tube + ball)
    e = ball / (tube + ball)
    across = t * (a * a / 4 + length**2 / 12) + e * (
        0.4 * a * a + length**2 / 4 + 3 * length * a / 8
    )
    return tube + ball, (across, across, t * a * a / 2 + e * 0.4 * a * a)


def _squared_sums(a: float, b: float, c: float, n: int) -> tuple[float, float, float]:
    return (b * b + c * c) / n, (a * a + c * c) / n, (a * a + b * b) / n
