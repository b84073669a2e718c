"""Rotations, and the inertia of solid shapes, as the formats of others give them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.inertia import INERTIA_ENTRIES, transform_inertia
from gough.formats.xml import Element
from gough.mechanism.placement import roll_pitch_yaw

DENSITY = 1000.0  # MuJoCo's, that of water [kg/m3]
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}
ENTRIES = tuple(
    f"i{'xyz'[i]}{'xyz'[j]}" for i, j in INERTIA_ENTRIES
)  # ixx, ixy, ... in the order of `INERTIA_ENTRIES`


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
    """Return position and the angles of R = Rx Ry Rz, (6,): R^T turns back by these, z first."""
    return (*map(float, pose[:3, 3]), *(-angle for angle in roll_pitch_yaw(pose[:3, :3].T)))


def along_z(axis: ArrayLike) -> FloatArray:
    """Return a rotation whose z axis is this axis, (3, 3)."""
    z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def ten_parameters(mass: float, inertia: FloatArray, at: FloatArray) -> FloatArray:
    """Return mass and inertia about the centre of mass, given in a frame there, about the frame
    `at` is in, (10,).
    """
    return transform_inertia(
        at, np.array([mass, 0.0, 0.0, 0.0, *(inertia[place] for place in INERTIA_ENTRIES)])
    )


def solid_body(
    element: Element, mass: float, at: FloatArray, entries: Mapping[str, float]
) -> FloatArray:
    """Return the ten parameters of a body whose inertia about its centre, at `at`, has these
    `ENTRIES`.
    """
    if mass < 0:
        raise element.error(f"a mass cannot be negative, found {mass:g} kg")
    tensor = np.empty((3, 3))
    for (i, j), key in zip(INERTIA_ENTRIES, ENTRIES):
        tensor[i, j] = tensor[j, i] = entries[key]
    return ten_parameters(mass, tensor, at)


def solid(geom: Element, sizes: Sequence[float], at: FloatArray) -> FloatArray:
    """Return the ten inertial parameters of a `<geom>` of MJCF about the frame `at` is in, (10,).

    Sizes are those of MuJoCo: radius; radius and half length along z; half lengths along x, y, z.
    """
    kind = geom.get("type", "sphere")
    if kind not in SIZES:
        raise geom.error(f"unknown type '{kind}'; expected one of {', '.join(SIZES)}")
    if geom.get("shellinertia", "false") == "true":
        raise geom.error("shellinertia is not read; give the body an <inertial>")
    own = tuple(sizes[: SIZES[kind]])
    if len(own) < SIZES[kind] or not all(size > 0 for size in own):
        raise geom.error(f"a {kind} needs {SIZES[kind]} sizes above zero")
    volume, unit = _unit(kind, *own)
    mass = geom.number("mass", volume * geom.number("density", DENSITY))
    return ten_parameters(mass, mass * np.diag(unit), at)


def _unit(
    kind: str, a: float, b: float = 0.0, c: float = 0.0
) -> tuple[float, tuple[float, float, float]]:
    """Return volume and principal inertias per mass."""
    ball, tube, length = 4 / 3 * math.pi * a**3, 2 * math.pi * a * a * b, 2 * b
    if kind in ("box", "ellipsoid"):
        volume, n = (8 * a * b * c, 3) if kind == "box" else (4 / 3 * math.pi * a * b * c, 5)
        return volume, ((b * b + c * c) / n, (a * a + c * c) / n, (a * a + b * b) / n)
    if kind == "sphere":
        return ball, (0.4 * a * a,) * 3
    if kind == "cylinder":
        across = (3 * a * a + length**2) / 12
        return tube, (across, across, a * a / 2)
    t, e = tube / (tube + ball), ball / (tube + ball)  # a capsule: a cylinder and two half spheres
    across = t * (a * a / 4 + length**2 / 12) + e * (
        0.4 * a * a + length**2 / 4 + 3 * length * a / 8
    )
    return tube + ball, (across, across, t * a * a / 2 + e * 0.4 * a * a)
