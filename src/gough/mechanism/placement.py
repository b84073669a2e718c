"""Fixed transforms: chains of elementary steps, and rigid transforms as matrices (4, 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, frozen

# Entries of a transform below this are set to zero: cos(pi / 2) is
# 6e-17.
TRANSFORM_ROUND_OFF = 1e-15
# Angles this close to a right angle are exact: 3.1415926536 has eleven
# digits. [rad]
EXACT_ANGLE_TOLERANCE = 2e-11
# Angles this close to a right angle are right in `idealised`: 1.5708
# has five digits, and no machine is built to 10 um on a metre. [rad;
# also relative, for offsets]
PRINTED_ANGLE_TOLERANCE = 1e-5
# Decimals of an angle [rad] from which half a unit of the last one
# counts as rounding: 1.57 is a right angle, 1.6 may be meant as it is.
MIN_PRINTED_DECIMALS = 2

Step = tuple[Literal["Rx", "Ry", "Rz", "Tx", "Ty", "Tz"], float]


@dataclass(frozen=True)
class Placement:
    """A fixed transform as a chain of elementary rotations [rad] and translations [m].

    The steps apply from left to right. They are kept, instead of a
    matrix, so that the geometry stays symbolic until compilation.
    """

    # ("Rx", angle) or ("Tx", distance), and so on
    steps: tuple[Step, ...] = ()

    @cached_property
    def matrix(self) -> FloatArray:
        """The homogeneous transform, (4, 4)."""
        matrix = np.eye(4)
        for step in self.steps:
            matrix = matrix @ _step_matrix(step)
        matrix[np.abs(matrix) < TRANSFORM_ROUND_OFF] = 0.0
        return frozen(matrix)

    @property
    def idealised(self) -> Placement:
        """The placement with right angles and axis-parallel offsets where these were rounded.

        Angles and offsets within `PRINTED_ANGLE_TOLERANCE`, and angles
        within half a unit of their last decimal (1.57), are changed;
        offsets keep their length. The placement itself is returned if
        nothing changes.
        """
        steps = tuple(_idealised_step(step) for step in self.steps)
        matrix = np.array(Placement(steps).matrix)
        rotation = np.round(matrix[:3, :3])
        # Roll and yaw add up where the pitch is a right angle: their
        # sum may be a right one.
        if np.abs(matrix[:3, :3] - rotation).max() < PRINTED_ANGLE_TOLERANCE:
            matrix[:3, :3] = rotation
        offset = matrix[:3, 3]
        tolerance = PRINTED_ANGLE_TOLERANCE * np.abs(offset).max()
        negligible = (offset != 0.0) & (np.abs(offset) < tolerance)
        if negligible.any():
            length = np.linalg.norm(offset)
            straight = np.where(negligible, 0.0, offset)
            matrix[:3, 3] = straight * length / np.linalg.norm(straight)
        if np.array_equal(matrix, self.matrix):
            return self
        return Placement.of(matrix)

    @property
    def rotation(self) -> FloatArray:
        """The rotation matrix, (3, 3)."""
        return self.matrix[:3, :3]

    @property
    def translation(self) -> FloatArray:
        """The position of the origin, (3,). [m]"""
        return self.matrix[:3, 3]

    def then(self, other: Placement) -> Placement:
        """Return this placement followed by another."""
        return Placement(self.steps + other.steps)

    @classmethod
    def xyz_rpy(cls, xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0)) -> Placement:
        """Place by position [m] and fixed-axis roll, pitch, yaw [rad].

        As in URDF, R = Rz(yaw) Ry(pitch) Rx(roll).
        """
        x, y, z = xyz
        roll, pitch, yaw = rpy
        return cls(
            (
                ("Tx", x),
                ("Ty", y),
                ("Tz", z),
                ("Rz", yaw),
                ("Ry", pitch),
                ("Rx", roll),
            )
        )

    @classmethod
    def of(cls, matrix: FloatArray) -> Placement:
        """Return a homogeneous transform as position and roll, pitch, yaw."""
        return cls.xyz_rpy(matrix[:3, 3].tolist(), roll_pitch_yaw(matrix[:3, :3]))

    @classmethod
    def mdh(
        cls,
        *,
        gamma: float = 0.0,
        b: float = 0.0,
        alpha: float = 0.0,
        d: float = 0.0,
        theta: float = 0.0,
        r: float = 0.0,
    ) -> Placement:
        """Place by modified Denavit-Hartenberg parameters of a tree. [m, rad]

        T = Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r).
        """
        return cls(
            (
                ("Rz", gamma),
                ("Tz", b),
                ("Rx", alpha),
                ("Tx", d),
                ("Rz", theta),
                ("Tz", r),
            )
        )

    @classmethod
    def polar(cls, radius: float, angle: float, z: float = 0.0) -> Placement:
        """Place on a circle about z: x axis radial outwards, y tangential. [m, rad, m]"""
        return cls((("Rz", angle), ("Tx", radius), ("Tz", z)))


IDENTITY_PLACEMENT = Placement()
IDENTITY = np.eye(4)


def _off_right_angle(angle: float) -> float:
    """Return the difference to the nearest multiple of a right angle. [rad]"""
    return math.remainder(angle, math.pi / 2)


def _step_matrix(step: Step) -> FloatArray:
    """Return an elementary rotation or translation, (4, 4)."""
    kind, amount = step
    matrix = np.eye(4)
    axis = "xyz".index(kind[1])
    if kind[0] == "T":
        matrix[axis, 3] = amount
        return matrix
    cosine = math.cos(amount)
    sine = math.sin(amount)
    if abs(_off_right_angle(amount)) < EXACT_ANGLE_TOLERANCE:
        cosine = round(cosine)
        sine = round(sine)
    i = (axis + 1) % 3
    j = (axis + 2) % 3
    matrix[i, i] = matrix[j, j] = cosine
    matrix[i, j] = -sine
    matrix[j, i] = sine
    return matrix


def _idealised_step(step: Step) -> Step:
    """Return a step whose angle, if nearly a right one, is right."""
    kind, amount = step
    difference = _off_right_angle(amount)
    tolerance = max(PRINTED_ANGLE_TOLERANCE, _rounding_of(amount))
    if kind[0] == "R" and abs(difference) < tolerance:
        return kind, amount - difference
    return step


def _rounding_of(angle: float) -> float:
    """Return half a unit of the last decimal an angle is written with; zero if it has few. [rad]

    The shortest decimal number that is the same double is what a file
    has; converted angles have many decimals.
    """
    exponent = Decimal(repr(float(angle))).as_tuple().exponent
    if not isinstance(exponent, int) or -exponent < MIN_PRINTED_DECIMALS:
        return 0.0
    return 0.5 * 10.0**exponent


def transform(xyz: ArrayLike = (0.0, 0.0, 0.0), rotation: ArrayLike | None = None) -> FloatArray:
    """Return position (3,) and rotation (3, 3) as one transform, (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, 3] = xyz
    if rotation is not None:
        matrix[:3, :3] = rotation
    return matrix


def inverse(pose: FloatArray) -> FloatArray:
    """Return the inverse of a rigid transform."""
    return transform(-pose[:3, :3].T @ pose[:3, 3], pose[:3, :3].T)


def joint_transform(kind: str, axis: ArrayLike, value: float) -> FloatArray:
    """Return the transform of a revolute or prismatic joint, (4, 4).

    Args:
        kind: `revolute` or `prismatic`.
        axis: Direction in the joint frame, of any length, (3,).
        value: Joint coordinate. [rad or m]
    """
    if kind == "revolute":
        return transform(rotation=axis_rotation(axis, value))
    direction = np.asarray(axis, dtype=float)
    return transform(value * direction / np.linalg.norm(direction))


def axis_rotation(axis: ArrayLike, angle: float) -> FloatArray:
    """Return the rotation about an axis of any length (Rodrigues), (3, 3)."""
    x, y, z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def roll_pitch_yaw(rotation: FloatArray) -> tuple[float, float, float]:
    """Return the angles of R = Rz(yaw) Ry(pitch) Rx(roll). [rad]

    The roll follows from Rz^T R with the yaw just computed. So R is met
    to round-off also where the pitch is a right angle, and yaw and roll
    are not unique.
    """
    R = rotation
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    yaw = math.atan2(R[1, 0], R[0, 0])
    c = math.cos(yaw)
    s = math.sin(yaw)
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw
