"""The reference motion of a controller, checked before the simulation starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import (
    InvalidTrajectory,
    LoopNotClosed,
    SingularConfiguration,
    nearest,
)
from gough.core.motion import Motion
from gough.core.trajectory import Trajectory, smooth_start
from gough.engine.limits import collect_limits, measure
from gough.engine.loops import By
from gough.engine.model import Model

# Ratio of singular values of the scaled closures below which a pose is
# refused as singular.
REFERENCE_SINGULARITY_RATIO = 1e-4
SINGULARITY_SAMPLES = 1000  # of a motion that are checked for singularities


class Reference(NamedTuple):
    """A trajectory at the controller's samples."""

    # all coordinates, lead-in included; time is negative there, (t,)
    motion: Motion
    lead: int  # samples of the lead-in
    period_samples: int | None  # of one period, if there is one


class Pace(NamedTuple):
    """Path time s along a trajectory as a function of time."""

    s: FloatArray  # path time, (t,) [s]
    rate: FloatArray  # ds/dt, (t,)
    acceleration: FloatArray  # d2s/dt2, (t,) [1/s]


def build_reference(
    model: Model,
    trajectory: Trajectory,
    rate: float,
    periods: int | None = None,
    lead_in: int = 1,
) -> Reference:
    """Return the motion of all coordinates along a trajectory that the robot can follow.

    A periodic trajectory is preceded by `lead_in` periods along the
    same path whose pace rises smoothly from rest within the first half
    period, so that the recorded periods repeat. Task coordinates that
    the trajectory does not name keep their reference configuration.

    Args:
        rate: Of the controller. [Hz]
        periods: To record; all of the trajectory by default.
        lead_in: Periods before the first recorded one.

    Raises:
        InvalidTrajectory: The robot cannot follow it.
    """
    by = driving_coordinates(model, trajectory)
    period = trajectory.period
    if period is None:
        if periods not in (None, 1):
            raise InvalidTrajectory(
                f"the trajectory does not repeat, but {periods} periods were asked for; use one",
                periods=periods,
            )
        times = trajectory.times(rate)
        motion = _follow(model, trajectory, times, by, _full_pace(times))
        _check_motion(model, motion)
        return Reference(motion=motion, lead=0, period_samples=None)
    if periods is None:
        periods = max(1, round(trajectory.duration / period))
    trajectory.times(rate)  # raises if a period is not a whole number of samples
    samples = round(period * rate)
    times = np.arange(samples) / rate
    once = _follow(model, trajectory, times, by, _full_pace(times))
    _check_motion(model, once)
    lead = lead_in * samples
    motions = [once] * periods
    if lead:
        times = np.arange(-lead, 0) / rate
        pace = _ramp_pace(times, period / 2)
        motions.insert(0, _follow(model, trajectory, times, by, pace, start=once.q[-1]))
    motion = Motion(
        coordinates=once.coordinates,
        time=np.arange(-lead, periods * samples) / rate,
        q=np.concatenate([motion.q for motion in motions]),
        qd=np.concatenate([motion.qd for motion in motions]),
        qdd=np.concatenate([motion.qdd for motion in motions]),
        closure_residual=np.concatenate([motion.closure_residual for motion in motions]),
    )
    return Reference(motion=motion, lead=lead, period_samples=samples)


def _full_pace(times: FloatArray) -> Pace:
    """Return the pace of the trajectory itself."""
    return Pace(times, np.ones_like(times), np.zeros_like(times))


def _ramp_pace(times: FloatArray, ramp: float) -> Pace:
    """Return a pace that rises from rest within a ramp [s] and reaches path time 0 at time 0.

    Args:
        times: Of the lead-in, from its negative duration on. [s]
    """
    duration = -times[0]
    path, rate, acceleration = smooth_start((times + duration) / ramp)
    # During the ramp the path time advances by half of it.
    return Pace(ramp * path - (duration - ramp / 2), rate, acceleration / ramp)


def driving_coordinates(model: Model, trajectory: Trajectory) -> By:
    """Return whether a trajectory moves task or actuated coordinates of the robot.

    Raises:
        InvalidTrajectory: It is for another robot, or names other
            coordinates or units.
    """
    mechanism = model.mechanism
    if trajectory.robot and trajectory.robot != mechanism.name:
        raise InvalidTrajectory(
            f"the trajectory was made for the robot '{trajectory.robot}', not for "
            f"'{mechanism.name}'",
            robot=trajectory.robot,
        )
    by: By = "task" if trajectory.coordinates[0] in mechanism.task else "actuated"
    task = model.loops.names("task") or mechanism.task
    valid = task if by == "task" else mechanism.actuated
    for name, unit in zip(trajectory.coordinates, trajectory.units):
        if name not in valid:
            raise InvalidTrajectory(
                f"the trajectory moves '{name}', but '{mechanism.name}' follows its independent "
                f"task coordinates ({', '.join(task) or 'none'}) or its actuated joints, all of "
                f"one kind{nearest(name, (*task, *mechanism.actuated))}",
                joint=name,
            )
        if unit != mechanism.joint(name).unit:
            raise InvalidTrajectory(
                f"the trajectory moves '{name}' in {unit}, but the robot in "
                f"{mechanism.joint(name).unit}",
                joint=name,
            )
    if by not in model.loops.partitions or (by == "actuated" and model.loops.redundant):
        raise InvalidTrajectory(
            f"'{mechanism.name}' cannot be driven by its {by} coordinates: {len(valid)} of them "
            f"for {model.degrees_of_freedom} degrees of freedom; use the other kind"
        )
    return by


def _follow(
    model: Model,
    trajectory: Trajectory,
    times: FloatArray,
    by: By,
    pace: Pace,
    start: FloatArray | None = None,
) -> Motion:
    """Return the motion of all coordinates along the path at a pace.

    Args:
        start: Configuration from which the loops are closed first,
            (n,).
    """
    position, path_velocity, path_acceleration = trajectory.at(pace.s)
    rate = pace.rate[:, None]
    velocity = path_velocity * rate
    acceleration = path_acceleration * rate**2 + path_velocity * pace.acceleration[:, None]
    independent = list(model.loops.partitions[by].independent)
    coordinates = [model.mechanism.coordinates[i] for i in independent]
    moved = [coordinates.index(name) for name in trajectory.coordinates]
    q = np.tile(model.home[independent], (len(times), 1))
    qd = np.zeros_like(q)
    qdd = np.zeros_like(q)
    q[:, moved] = position
    qd[:, moved] = velocity
    qdd[:, moved] = acceleration
    try:
        return model.kinematics.motion(times, q, qd, qdd, by, start=start)
    except (LoopNotClosed, SingularConfiguration) as error:
        raise InvalidTrajectory(
            f"'{model.mechanism.name}' cannot follow the trajectory: {error}",
            **error.numbers,
        ) from error


def _check_motion(model: Model, motion: Motion) -> None:
    """Raise if a motion exceeds limits of its coordinates or meets a singularity."""
    limits = collect_limits(model, singularity=None)
    kinematic = [limit for limit in limits if limit.quantity != "effort"]
    for limit, usage in zip(kinematic, measure(model, kinematic, motion).T):
        tolerance = 1e-9 * max(abs(limit.lower), abs(limit.upper), 1.0) / limit.half
        exceeded = np.abs(usage) - 1 > tolerance
        if exceeded.any():
            time = float(motion.time[np.argmax(exceeded)])
            worst = float(limit.centre + limit.half * usage[np.argmax(np.abs(usage))])
            raise InvalidTrajectory(
                f"the trajectory takes '{limit.name}' beyond its {limit.quantity} limits at t = "
                f"{time:.4g} s: {worst:.4g} {limit.unit} at worst, allowed {limit.lower:.4g} to "
                f"{limit.upper:.4g}; make it smaller or slower",
                joint=limit.name,
                time=time,
                value=worst,
            )
    _check_singularities(model, motion)


def _check_singularities(model: Model, motion: Motion) -> None:
    """Raise if the motors do not determine the platform at a sample, or between two samples.

    The determinant of the closures' dependent columns K changes sign
    across a Type-2 singularity.
    """
    partition = model.loops.partitions["actuated"]
    if not partition.dependent:
        return
    every = max(1, len(motion) // SINGULARITY_SAMPLES)
    q = motion.q[::every]
    jacobian = model.loops.scaled(model.kinematics.jacobian(q))[:, :, partition.dependent]
    sign = np.linalg.slogdet(jacobian[:, partition.rows])[0]
    if (sign == sign[0]).all() and _well_conditioned(jacobian):
        return
    singular_values = np.linalg.svd(jacobian, compute_uv=False)
    ratio = singular_values[:, -1] / singular_values[:, 0]
    singular = ratio < REFERENCE_SINGULARITY_RATIO
    singular[1:] |= sign[1:] != sign[0]
    if singular.any():
        k = int(np.argmax(singular))
        time = float(motion.time[::every][k])
        joint = model.loops.least_constrained(q[k], "actuated")
        raise InvalidTrajectory(
            f"the trajectory meets a singularity at about t = {time:.4g} s: with all motors "
            f"locked '{joint}' can still move (singular value ratio {ratio[k]:.1e}); keep away "
            "from this pose",
            joint=joint,
            time=time,
            singular_value=float(ratio[k]),
        )


def _well_conditioned(jacobian: FloatArray) -> bool:
    """Return whether K^T K - (ratio |K|)^2 has a Cholesky factor at all samples.

    Then no singular value of K is small. This takes a fifth of the time
    of singular values.
    """
    squares = jacobian.swapaxes(1, 2) @ jacobian
    norms = np.einsum("tii->t", squares)
    np.einsum("tii->ti", squares)[:] -= REFERENCE_SINGULARITY_RATIO**2 * norms[:, None]
    try:
        np.linalg.cholesky(squares)
    except np.linalg.LinAlgError:
        return False
    return True
