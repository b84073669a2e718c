"""Three angles, their rates, and the angular velocity they make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput, nearest
from gough.core.names import last_word

ORDERS = tuple("".join(axes) for axes in permutations("xyz"))


def rate_map(angles: ArrayLike, order: str) -> FloatArray:
    """Return H with omega = H @ rates, (t, 3, 3); omega in the fixed frame.

    The rotation to the fixed frame is R = R_a(.) R_b(.) R_c(.) for order 'abc': 'xyz' is R =
    Rx(phi) Ry(theta) Rz(psi) of AH09, 'zyx' is R = Rz(psi) Ry(theta) Rx(phi) of S20.
    The column of an angle is its axis turned by the rotations before it: H_a = e_a, H_b = R_a e_b,
    H_c = R_a R_b e_c. For 'xyz' H = [[1, 0, sin th], [0, cos phi, -sin phi cos th], [0, sin phi,
    cos phi cos th]]: (16) of AH09, where the printed entries mix up the angles. Singular where the
    middle angle is +-90 deg.

    Args:
        angles: About x, y, z in this sequence whatever the order of the rotations, (t, 3). [rad]
    """
    from scipy.spatial.transform import (
        Rotation,
    )  # here, because it takes as long to import as a small verb

    if order not in ORDERS:
        raise InvalidInput(
            f"angle order is '{order}', expected one of "
            f"{', '.join(ORDERS)}{nearest(order, ORDERS)}",
            order=order,
        )
    value = np.asarray(angles, dtype=float)
    check_shape(value, (None, 3), "angles")
    map_ = np.zeros((len(value), 3, 3))
    before = Rotation.identity(len(value))
    for axis in order:
        k = "xyz".index(axis)
        map_[:, :, k] = before.as_matrix()[:, :, k]
        before = before * Rotation.from_euler(axis, value[:, [k]])
    return map_


def angular_motion(
    angles: FloatArray,
    rates: FloatArray,
    accelerations: FloatArray,
    order: str,
) -> tuple[FloatArray, FloatArray]:
    """Return omega = H rates and d omega/dt = H accelerations + dH/dt rates in the fixed frame, (t,
    3), AH09 (16).

    Each column turns with the angular velocity of the rotations before it:
    dH_b/dt = (H_a ad) x H_b,  dH_c/dt = (H_a ad + H_b bd) x H_c with rates ad, bd of the first two
    angles. [rad/s]
    """
    map_ = rate_map(angles, order)
    velocity, acceleration = np.zeros_like(rates), np.zeros_like(rates)
    for k in map("xyz".index, order):
        axis, rate = map_[:, :, k], rates[:, k, None]
        acceleration = (
            acceleration + axis * accelerations[:, k, None] + np.cross(velocity, axis) * rate
        )
        velocity = velocity + axis * rate
    return velocity, acceleration


def platform_twist(
    coordinates: Sequence[str],
    q: FloatArray,
    qd: FloatArray,
    qdd: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the twist of a platform and its derivative in the base frame, linear part first, each
    (t, 6).

    Args:
        coordinates: Any of `x y z rx ry rz` (a name may precede them: `platform.x`), translations
            first, the angles in the order of the rotations; axes left out do not move.
        q, qd, qdd: Their positions, rates and accelerations, each (t, c). [m or rad, per s, per s2]
    """
    short = [last_word(name) for name in coordinates]
    turns = [name[1] for name in short if name[0] == "r"]
    order = "".join(turns + [axis for axis in "xyz" if axis not in turns])
    full = np.zeros((3, len(q), 6))
    full[:, :, [("x", "y", "z", "rx", "ry", "rz").index(name) for name in short]] = q, qd, qdd
    angles, rates, accelerations = full[:, :, 3:]
    turning = angular_motion(angles, rates, accelerations, order)
    return np.hstack([full[1, :, :3], turning[0]]), np.hstack([full[2, :, :3], turning[1]])
