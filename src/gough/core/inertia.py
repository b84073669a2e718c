"""The ten inertial parameters of a body, about its frame and about its centre of mass."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import FloatArray

# Row and column of Ixx Ixy Iyy Ixz Iyz Izz in the inertia matrix.
INERTIA_ENTRIES = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))


def parallel_axes(mass: float, centre: FloatArray) -> FloatArray:
    """Return the parallel-axis term m (c.c 1 - c c^T), (3, 3). [kg m2]

    Args:
        mass: Of the body. [kg]
        centre: Centre of mass in the frame, (3,). [m]
    """
    return np.asarray(mass * (centre @ centre * np.eye(3) - np.outer(centre, centre)))


def about_centre(
    parameters: FloatArray,
) -> tuple[float, FloatArray, FloatArray]:
    """Return mass [kg], centre of mass (3,) [m] and the inertia about it (3, 3) [kg m2].

    The centre of a body without mass is the origin of its frame.

    Args:
        parameters: The ten inertial parameters about the frame, (10,).
    """
    mass = float(parameters[0])
    centre = parameters[1:4] / mass if mass else np.zeros(3)
    return (
        mass,
        centre,
        _inertia_matrix(parameters) - parallel_axes(mass, centre),
    )


def transform_inertia(pose: FloatArray, parameters: FloatArray) -> FloatArray:
    """Return the ten inertial parameters about another frame.

    With rotation R and translation t of the pose, m' = m, s' = R s + m t and
    I' = R I R^T + 2 (R s).t 1 - (R s) t^T - t (R s)^T + m (t.t 1 - t t^T).

    Args:
        pose: Pose of the body's frame in the other frame, (4, 4). [m]
        parameters: The ten inertial parameters about the body's frame,
            (10,).
    """
    R = pose[:3, :3]
    t = pose[:3, 3]
    mass = parameters[0]
    s = R @ parameters[1:4]
    shift = 2 * s @ t * np.eye(3) - np.outer(s, t) - np.outer(t, s) + parallel_axes(mass, t)
    inertia = R @ _inertia_matrix(parameters) @ R.T + shift
    entries = [inertia[entry] for entry in INERTIA_ENTRIES]
    return np.array([mass, *(s + mass * t), *entries])


def _inertia_matrix(parameters: FloatArray) -> FloatArray:
    """Return the inertia matrix about the frame, (3, 3). [kg m2]"""
    inertia = np.empty((3, 3))
    for (i, j), entry in zip(INERTIA_ENTRIES, parameters[4:]):
        inertia[i, j] = entry
        inertia[j, i] = entry
    return inertia
