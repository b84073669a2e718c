"""The log of a robot that follows a planned trajectory exactly."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.core.trajectory import Trajectory
from gough.engine.model import Model
from gough.logs.recording import Recording
from gough.virtual.simulation import draw_correlated, measure_positions

# Effort noise of a robot whose file gives none, as a fraction of the
# rms effort of each motor.
ASSUMED_NOISE_FRACTION = 0.02


def planned_log(model: Model, trajectory: Trajectory, periods: int = 1, seed: int = 0) -> Recording:
    """Return the log that would be recorded of a trajectory, by inverse dynamics and sensor noise.

    The robot file gives parameters, rate and noise. There is no
    controller: the robot moves as planned, so this takes a fraction of
    the time of a simulation.

    Args:
        model: The robot.
        trajectory: The motion, of platform or motors.
        periods: How often a periodic trajectory is repeated.
        seed: Of the noise.
    """
    if periods < 1:
        raise InvalidInput(f"{periods} periods; expected at least one")
    noise = model.mechanism.noise
    time = trajectory.times(noise.rate)
    driven_by = model.loops.partition_driven_by(trajectory.coordinates)
    motion = model.kinematics.motion(time, *trajectory.at(time), driven_by)
    effort = model.inverse_dynamics(motion)
    position = motion.q[:, list(model.actuated)]
    is_periodic = trajectory.period is not None
    repeats = periods if is_periodic else 1
    rng = np.random.default_rng(seed)
    covariance = planned_noise(model, effort)
    all_effort = np.tile(effort, (repeats, 1))
    all_position = np.tile(position, (repeats, 1))
    joints = model.mechanism.actuated
    return Recording(
        joints=joints,
        time=np.arange(len(all_effort)) / noise.rate,
        position=measure_positions(rng, all_position, noise),
        position_units=tuple(model.mechanism.joint(name).unit for name in joints),
        effort=all_effort + draw_correlated(rng, covariance, len(all_effort)),
        period_samples=len(time) if is_periodic and repeats > 1 else None,
        source="the trajectory",
    )


def planned_noise(model: Model, effort: FloatArray) -> FloatArray:
    """Return the covariance of the effort noise, (a, a); assumed where the robot file has none."""
    noise = model.mechanism.noise
    if noise.effort > 0:
        return np.asarray(noise.effort_covariance(len(model.actuated)))
    rms = np.sqrt((effort**2).mean(axis=0))
    return np.diag(np.maximum(ASSUMED_NOISE_FRACTION * rms, 1e-12) ** 2)


def assumed_noise_notices(model: Model) -> list[Notice]:
    """Report that the effort noise of a planned log is assumed."""
    if model.mechanism.noise.effort > 0:
        return []
    text = (
        f"the robot file gives no effort noise: {100 * ASSUMED_NOISE_FRACTION:.0f} % of each "
        "motor's rms effort is assumed"
    )
    return [Notice(rule="assumed noise", level="info", text=text)]
