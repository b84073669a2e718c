"""Euler angles, their rates, and the angular velocity that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.names import last_word

ANGLE_ORDERS = tuple("".join(axes) for axes in permutations("xyz"))
POSE_COORDINATES = ("x", "y", "z", "rx", "ry", "rz")


def rate_map(angles: ArrayLike, order: str) -> FloatArray:
    """Return H with omega = H @ rates, (t, 3, 3); omega in the fixed frame.

    The rotation to the fixed frame is R = R_a(.) R_b(.) R_c(.) for order
    'abc': 'xyz' is R = Rx(phi) Ry(theta) Rz(psi) of AH09, 'zyx' is R = Rz(psi)
    Ry(theta) Rx(phi) of S20. The column of an angle is its axis turned by the
    rotations before it: H_a = e_a, H_b = R_a e_b, H_c = R_a R_b e_c. For 'xyz'
    H = [[1, 0, sin th], [0, cos phi, -sin phi cos th], [0, sin phi, cos phi
    cos th]]: (16) of AH09, where the printed entries mix up the angles.
    Singular where the middle angle is +-90 deg.

    Args:
        angles: About x, y, z in this sequence whatever the order of the
            rotations, (t, 3). [rad]
        order: Order of the rotations, one of `ANGLE_ORDERS`.
    """
    from scipy.spatial.transform import Rotation  # here, because its import takes long

    if order not in ANGLE_ORDERS:
        valid = ", ".join(ANGLE_ORDERS)
        raise InvalidInput(
            f"angle order is '{order}', expected one of {valid}{nearest(order, ANGLE_ORDERS)}",
            order=order,
        )
    angle = np.asarray(angles, dtype=float)
    check_shape(angle, (None, 3), "angles")
    jacobian = np.zeros((len(angle), 3, 3))
    rotation = Rotation.identity(len(angle))  # product of the rotations so far
    for axis in order:
        k = "xyz".index(axis)
        jacobian[:, :, k] = rotation.as_matrix()[:, :, k]
        rotation = rotation * Rotation.from_euler(axis, angle[:, [k]])
    return jacobian


def angular_motion(
    angles: FloatArray,
    rates: FloatArray,
    accelerations: FloatArray,
    order: str,
) -> tuple[FloatArray, FloatArray]:
    """Return angular velocity and acceleration in the fixed frame, each (t, 3), AH09 (16).

    omega = H rates and d omega/dt = H accelerations + dH/dt rates. Each column of H turns
    with the angular velocity of the rotations before it: dH_b/dt = (H_a ad) x H_b,  dH_c/dt
    = (H_a ad + H_b bd) x H_c with rates ad, bd of the first two angles.

    Args:
        angles: About x, y and z, (t, 3). [rad]
        rates: Their derivatives, (t, 3). [rad/s]
        accelerations: Their second derivatives, (t, 3). [rad/s2]
        order: Order of the rotations, one of `ANGLE_ORDERS`.
    """
    jacobian = rate_map(angles, order)
    velocity = np.zeros_like(rates)
    acceleration = np.zeros_like(rates)
    for k in map("xyz".index, order):
        axis = jacobian[:, :, k]
        rate = rates[:, k, None]
        axis_change = np.cross(velocity, axis)
        acceleration = acceleration + axis * accelerations[:, k, None] + axis_change * rate
        velocity = velocity + axis * rate
    return velocity, acceleration


def platform_twist(
    coordinates: Sequence[str],
    q: FloatArray,
    qd: FloatArray,
    qdd: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the twist of a platform and its derivative, linear part first, each (t, 6).

    Both are in the base frame.

    Args:
        coordinates: Any of `x y z rx ry rz` (a name may precede them:
            `platform.x`), translations first, the angles in the order
            of the rotations; axes left out do not move.
        q: Their positions, (t, c). [m or rad]
        qd: Their rates, (t, c). [m/s or rad/s]
        qdd: Their accelerations, (t, c). [m/s2 or rad/s2]
    """
    axes = [last_word(name) for name in coordinates]
    turned = [name[1] for name in axes if name[0] == "r"]
    order = "".join(turned + [axis for axis in "xyz" if axis not in turned])
    columns = [POSE_COORDINATES.index(name) for name in axes]
    pose = np.zeros((len(q), 6))
    rate = np.zeros((len(q), 6))
    acceleration = np.zeros((len(q), 6))
    pose[:, columns] = q
    rate[:, columns] = qd
    acceleration[:, columns] = qdd
    omega, omega_rate = angular_motion(pose[:, 3:], rate[:, 3:], acceleration[:, 3:], order)
    twist = np.hstack([rate[:, :3], omega])
    twist_rate = np.hstack([acceleration[:, :3], omega_rate])
    return twist, twist_rate
