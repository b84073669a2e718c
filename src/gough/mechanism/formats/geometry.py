"""Rigid transforms as (4, 4) arrays, rotations, inertias in them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray
from gough.core.inertia import PLACES, seen_from
from gough.mechanism.placement import roll_pitch_yaw, turned

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
HERE = np.eye(4)


def transform(xyz: ArrayLike = (0.0, 0.0, 0.0), rotation: ArrayLike | None = None) -> FloatArray:
    """Return position and rotation (3, 3) as one transform, (4, 4)."""
    result = np.eye(4)
    result[:3, 3] = xyz
    if rotation is not None:
        result[:3, :3] = rotation
    return result


def inverse(pose: FloatArray) -> FloatArray:
    """Return the inverse of a rigid transform."""
    return transform(-pose[:3, :3].T @ pose[:3, 3], pose[:3, :3].T)


def moved(kind: str, axis: ArrayLike, value: float) -> FloatArray:
    """Return the motion of a joint as a transform, (4, 4)."""
    a = np.asarray(axis, dtype=float)
    return transform(rotation=turned(a, value)) if kind == "revolute" else transform(value * a / np.linalg.norm(a))


def quaternion_rotation(quaternion: ArrayLike) -> FloatArray:
    """Return the rotation of a quaternion w, x, y, z of any length."""
    q = np.asarray(quaternion, dtype=float)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


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
    """Return mass and inertia about the centre of mass, given in a frame there, about the frame `at` is in, (10,)."""
    return seen_from(at, np.array([mass, 0.0, 0.0, 0.0, *(inertia[place] for place in PLACES)]))
