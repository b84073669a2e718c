"""What the platform of a six-legged robot does and feels, sample by sample, from its legs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, frozen
from gough.core.errors import InvalidRecording
from gough.core.names import last_word
from gough.core.rotation import rate_map
from gough.engine import Model
from gough.logs.recording import Recording
from gough.processing import in_robot_order

AXES = ("x", "y", "z", "rx", "ry", "rz")


@dataclass(frozen=True, kw_only=True, eq=False)
class PlatformSignals:
    """Motion and load of a platform about the origin of its frame, in fixed axes.

    Args:
        time: (t,). [s]
        pose: x, y, z and the angles about x, y, z whatever their order in the robot file, (t, 6).
            [m, rad]
        twist: Velocity of the origin and angular velocity, (t, 6). [m/s, rad/s]
        wrench: Force of the motors on the platform and its moment about the origin, (t, 6). [N, N
            m]
    """

    time: FloatArray
    pose: FloatArray
    twist: FloatArray
    wrench: FloatArray

    def __post_init__(self) -> None:
        for name in ("time", "pose", "twist", "wrench"):
            object.__setattr__(self, name, frozen(getattr(self, name)))


def platform_signals(model: Model, recording: Recording) -> PlatformSignals:
    """Turn positions, velocities and efforts of the motors into those of the platform, unfiltered
    (S20 (3), Fig. 3).

    With motor velocities qd = A xd of the task velocities xd and angular velocity w = H (angle
    rates), xd = A^-1 qd and A^T tau = [force; H^T moment]. Needs neither accelerations nor dynamic
    parameters.

    Raises:
        InvalidRecording: No velocities or no efforts recorded, or a robot whose platform does not
            move in all six ways by as many motors.
    """
    recording = in_robot_order(recording, model)
    names = [last_word(name) for name in model.mechanism.task]
    if sorted(names) != sorted(AXES) or len(model.actuated) != 6:
        raise InvalidRecording(
            f"'{model.mechanism.name}' has {len(model.actuated)} motors and the task coordinates "
            f"{', '.join(names) or 'none'}; expected six motors and {', '.join(AXES)}"
        )
    if recording.velocity is None or recording.effort is None:
        missing = "velocities" if recording.velocity is None else "efforts"
        raise InvalidRecording(
            f"{recording.source}: there are no {missing}; the platform's are found from positions, "
            "velocities and efforts of the motors",
            source=recording.source,
        )
    q = model.kinematics.close_loops(recording.position, "actuated", time=recording.time)
    task = list(model.loops.partitions["task"].independent)
    order = [names.index(axis) for axis in AXES]
    pose = q[:, task][:, order]
    A = model.kinematics.closure_map(q, "task")[:, list(model.actuated)][:, :, order]
    turns = [
        joint.axis for joint in model.mechanism.joints if joint.virtual and joint.kind == "revolute"
    ]
    H = rate_map(pose[:, 3:], "".join(turns))
    rates = np.linalg.solve(A, recording.velocity[:, :, None])[:, :, 0]
    general = np.einsum("tai,ta->ti", A, recording.effort)
    spin = (H @ rates[:, 3:, None])[:, :, 0]
    moment = np.linalg.solve(H.transpose(0, 2, 1), general[:, 3:, None])[:, :, 0]
    return PlatformSignals(
        time=recording.time,
        pose=pose,
        twist=np.concatenate([rates[:, :3], spin], axis=1),
        wrench=np.concatenate([general[:, :3], moment], axis=1),
    )
