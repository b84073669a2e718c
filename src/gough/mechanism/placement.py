"""Fixed transforms by elementary steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, frozen

ROUND_OFF = 1e-15  # entries of a transform below this are zero: cos(pi / 2) is 6e-17
# right angles printed with eleven digits or more (3.1415926536) are right ones [rad]
ROUNDED = 2e-11
# with five or more (1.5708), right ones where idealised: no machine is built to 10 um on a metre
# [rad]
PRINTED = 1e-5

Step = tuple[Literal["Rx", "Ry", "Rz", "Tx", "Ty", "Tz"], float]


@dataclass(frozen=True)
class Placement:
    """A fixed transform as a chain of elementary rotations [rad] and translations [m], applied left
    to right.

    Kept as steps, not as a matrix, so that geometry stays symbolic until compilation.
    """

    steps: tuple[Step, ...] = ()

    @cached_property
    def matrix(self) -> FloatArray:
        """The homogeneous transform, (4, 4)."""
        result = np.eye(4)
        for step, value in self.steps:
            k, part = "xyz".index(step[1]), np.eye(4)
            if step[0] == "T":
                part[k, 3] = value
            else:
                i, j = (k + 1) % 3, (k + 2) % 3
                c, s = (
                    round(x) if abs(math.remainder(value, math.pi / 2)) < ROUNDED else x
                    for x in (math.cos(value), math.sin(value))
                )
                part[i, i], part[i, j], part[j, i], part[j, j] = c, -s, s, c
            result = result @ part
        result[np.abs(result) < ROUND_OFF] = 0.0
        return frozen(result)

    @property
    def idealised(self) -> Placement:
        """With right angles, and offsets along axes, for those that are so but for their digits;
        itself without.
        """
        result = np.array(
            Placement(
                tuple(
                    (
                        step,
                        value - off
                        if step[0] == "R"
                        and abs(off := math.remainder(value, math.pi / 2)) < PRINTED
                        else value,
                    )
                    for step, value in self.steps
                )
            ).matrix
        )
        whole = np.round(result[:3, :3])
        if (
            np.abs(result[:3, :3] - whole).max() < PRINTED
        ):  # roll and yaw share a turn where the pitch is a right angle
            result[:3, :3] = whole
        offset = result[:3, 3]
        aside = (offset != 0.0) & (np.abs(offset) < PRINTED * np.abs(offset).max())
        if aside.any():
            result[:3, 3] = (
                np.where(aside, 0.0, offset)
                * np.linalg.norm(offset)
                / np.linalg.norm(offset[~aside])
            )
        return self if np.array_equal(result, self.matrix) else Placement.of(result)

    @property
    def rotation(self) -> FloatArray:
        return self.matrix[:3, :3]

    @property
    def translation(self) -> FloatArray:
        """Where the origin is, (3,). [m]"""
        return self.matrix[:3, 3]

    def then(self, other: Placement) -> Placement:
        """Return this placement followed by another."""
        return Placement(self.steps + other.steps)

    @classmethod
    def xyz_rpy(cls, xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0)) -> Placement:
        """Place by position [m] and fixed-axis roll, pitch, yaw [rad] (URDF: R = Rz(yaw) Ry(pitch)
        Rx(roll)).
        """
        x, y, z = xyz
        roll, pitch, yaw = rpy
        return cls((("Tx", x), ("Ty", y), ("Tz", z), ("Rz", yaw), ("Ry", pitch), ("Rx", roll)))

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
        """Place by modified Denavit-Hartenberg parameters, tree form: Rz Tz Rx Tx Rz Tz.

        [m, rad]
        """
        return cls((("Rz", gamma), ("Tz", b), ("Rx", alpha), ("Tx", d), ("Rz", theta), ("Tz", r)))

    @classmethod
    def polar(cls, radius: float, angle: float, z: float = 0.0) -> Placement:
        """Place on a circle about z: x axis radial outwards, y tangential. [m, rad, m]"""
        return cls((("Rz", angle), ("Tx", radius), ("Tz", z)))


IDENTITY = np.eye(4)


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


def joint_transform(kind: str, axis: ArrayLike, value: float) -> FloatArray:
    """Return the motion of a joint as a transform, (4, 4)."""
    a = np.asarray(axis, dtype=float)
    return (
        transform(rotation=axis_rotation(a, value))
        if kind == "revolute"
        else transform(value * a / np.linalg.norm(a))
    )


def axis_rotation(axis: ArrayLike, angle: float) -> FloatArray:
    """Return the rotation about an axis of any length (Rodrigues), (3, 3)."""
    x, y, z = np.asarray(axis, dtype=float) / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K)


def roll_pitch_yaw(rotation: FloatArray) -> tuple[float, float, float]:
    """Return the angles of R = Rz(yaw) Ry(pitch) Rx(roll). [rad]

    Roll follows from Rz^T R with the yaw found, so that R is met to round-off also where the pitch
    is a right angle and yaw and roll are not unique.
    """
    R = rotation
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    return math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw


IDENTITY_PLACEMENT = Placement()
