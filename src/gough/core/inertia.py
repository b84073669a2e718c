"""Ten inertial parameters of a body about its frame, and the same about its centre of mass."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import FloatArray

PLACES = (
    (0, 0),
    (0, 1),
    (1, 1),
    (0, 2),
    (1, 2),
    (2, 2),
)  # of Ixx Ixy Iyy Ixz Iyz Izz in the inertia matrix


def parallel_axes(mass: float, centre: FloatArray) -> FloatArray:
    """Return m (c.c 1 - c c^T), what the inertia about the frame has beyond that about the centre,
    (3, 3). [kg m2]
    """
    return np.asarray(mass * (centre @ centre * np.eye(3) - np.outer(centre, centre)))


def about_centre(parameters: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return mass, centre of mass (3,) and inertia about it (3, 3) of ten parameters.

    [kg, m, kg m2]

    Without mass there is no centre: the frame's origin is taken.
    """
    mass = float(parameters[0])
    centre = parameters[1:4] / mass if mass else np.zeros(3)
    return mass, centre, _tensor(parameters) - parallel_axes(mass, centre)


def seen_from(frame: FloatArray, parameters: FloatArray) -> FloatArray:
    """Return ten parameters about another frame, in which the body's own frame stands at `frame`
    (4, 4).

    With R, t of that frame: m, s' = R s + m t, I' = R I R^T + 2 s.t 1 - s t^T - t s^T + m (t.t 1 -
    t t^T), s = R s.
    """
    R, t = frame[:3, :3], frame[:3, 3]
    mass, s = parameters[0], R @ parameters[1:4]
    shift = 2 * s @ t * np.eye(3) - np.outer(s, t) - np.outer(t, s) + parallel_axes(mass, t)
    moved = R @ _tensor(parameters) @ R.T + shift
    return np.array([mass, *(s + mass * t), *(moved[place] for place in PLACES)])


def _tensor(parameters: FloatArray) -> FloatArray:
    inertia = np.empty((3, 3))
    for (i, j), value in zip(PLACES, parameters[4:]):
        inertia[i, j] = inertia[j, i] = value
    return inertia
