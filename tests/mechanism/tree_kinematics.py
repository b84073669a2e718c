"""Kinematics of a mechanism in plain NumPy, sample by sample, without code of the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from gough.core.arrays import FloatArray
from gough.mechanism import BASE, Closure, Frame, Mechanism, Placement

AXES = {"x": np.eye(3)[0], "y": np.eye(3)[1], "z": np.eye(3)[2]}


def rotation(axis: FloatArray, angle: float) -> FloatArray:
    """Rodrigues' formula."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def move(kind: str, axis: str, value: float) -> FloatArray:
    """Homogeneous transform of one rotation or translation."""
    transform = np.eye(4)
    if kind == "R":
        transform[:3, :3] = rotation(AXES[axis], value)
    else:
        transform[:3, 3] = AXES[axis] * value
    return transform


@cache
def fixed(placement: Placement) -> FloatArray:
    """Homogeneous transform of a placement."""
    transform = np.eye(4)
    for step, value in placement.steps:
        transform = transform @ move(step[0], step[1], value)
    return transform


def poses(mechanism: Mechanism, q: FloatArray) -> dict[str, FloatArray]:
    """Homogeneous transform of every body in the base frame."""
    found = {BASE: np.eye(4)}
    for joint, value in zip(mechanism.joints, q):
        kind = "R" if joint.kind == "revolute" else "T"
        found[joint.child] = (
            found[joint.parent] @ fixed(joint.placement) @ move(kind, joint.axis, value)
        )
    return found


def gap(
    closure: Closure, mechanism: Mechanism, q: FloatArray, found: dict[str, FloatArray]
) -> FloatArray:
    """How far one closure is from being closed. [m or rad]"""
    if closure.kind == "coupling":
        total = sum(
            c * q[mechanism.coordinates.index(name)] for name, c in closure.coefficients.items()
        )
        return np.array([total + closure.constant])

    def end(frame: Frame | None) -> FloatArray:
        assert frame is not None
        return found[frame.body] @ fixed(frame.placement)

    a, b = end(closure.a), end(closure.b)
    apart = b[:3, 3] - a[:3, 3]
    if closure.kind == "distance":
        return np.array([np.linalg.norm(apart) - closure.values["length"]])
    axes = np.cross(a[:3, 2], b[:3, 2])
    return {
        "point": apart,
        "revolute": np.r_[apart, axes],
        "parallel": axes,
        "weld": np.r_[apart, (a[:3, :3].T @ b[:3, :3] - np.eye(3)).ravel()],
    }[closure.kind]


def residual(mechanism: Mechanism, q: FloatArray) -> FloatArray:
    """All closures, stacked."""
    found = poses(mechanism, q)
    return np.concatenate(
        [gap(c, mechanism, q, found) for c in mechanism.closures] or [np.zeros(0)]
    )


def start(mechanism: Mechanism) -> FloatArray:
    """Start values of the file."""
    return np.array([joint.start for joint in mechanism.joints])


def derivative(
    function: Callable[[FloatArray], FloatArray], q: FloatArray, step: float = 1e-6
) -> FloatArray:
    """Central differences, (rows, n)."""
    columns = [(function(q + e) - function(q - e)) / (2 * step) for e in step * np.eye(len(q))]
    return np.stack(columns, axis=-1)


def close(mechanism: Mechanism, q: FloatArray, held: tuple[str, ...]) -> FloatArray:
    """Close the loops by Gauss-Newton with some coordinates held."""
    q = q.copy()
    free = [i for i, name in enumerate(mechanism.coordinates) if name not in held]
    for _ in range(50):
        phi = residual(mechanism, q)
        if np.abs(phi).max(initial=0.0) < 1e-13:
            break
        K = derivative(lambda v: residual(mechanism, v), q)[:, free]
        q[free] -= np.linalg.lstsq(K, phi, rcond=1e-9)[0]
    return q
