"""What the controller is asked to follow, checked before anything moves."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidTrajectory, LoopNotClosed, SingularConfiguration, nearest
from gough.core.motion import Motion
from gough.core.trajectory import Trajectory, smooth_start
from gough.engine.limits import collect_limits, measure
from gough.engine.loops import By
from gough.engine.model import Model

NEAR = 1e-4  # ratio of singular values of the scaled closures taken as too close to a singularity


class Reference(NamedTuple):
    """A trajectory at the controller's samples."""

    motion: Motion  # all coordinates, lead-in included; time is negative there, (t,)
    lead: int  # samples of the lead-in
    period_samples: int | None  # of one period, if there is one


def build_reference(
    model: Model, trajectory: Trajectory, rate: float, periods: int | None = None, lead_in: int = 1
) -> Reference:
    """Return the motion of all coordinates along a trajectory, after checking that the robot can
    follow it.

    A periodic trajectory is preceded by `lead_in` periods along the same path whose pace rises
    smoothly from rest within the first half period, so that the recorded periods repeat. Task
    coordinates the trajectory does not name stay at home.
    """
    by = driven_by(model, trajectory)
    period = trajectory.period
    if period is None:
        if periods not in (None, 1):
            raise InvalidTrajectory(
                f"the trajectory does not repeat, but {periods} periods were asked for; use one",
                periods=periods,
            )
        motion = _motion(model, trajectory, trajectory.times(rate), by)
        _check(model, motion)
        return Reference(motion=motion, lead=0, period_samples=None)
    count = periods if periods is not None else max(1, round(trajectory.duration / period))
    trajectory.times(rate)  # refuses a period that is not a whole number of samples
    samples = round(period * rate)
    once = _motion(model, trajectory, np.arange(samples) / rate, by)
    _check(model, once)
    lead = lead_in * samples
    parts = [once] * count
    if lead:
        time, ramp = np.arange(-lead, 0) / rate, period / 2
        along, pace, change = smooth_start((time + lead / rate) / ramp)
        path = ramp * along - (
            lead / rate - ramp / 2
        )  # ends at zero: half a ramp of path time is lost on the way
        parts.insert(
            0, _motion(model, trajectory, time, by, (path, pace, change / ramp), start=once.q[-1])
        )
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("q", "qd", "qdd", "closure_residual")
    }
    motion = Motion(
        coordinates=once.coordinates, time=np.arange(-lead, count * samples) / rate, **joined
    )
    return Reference(motion=motion, lead=lead, period_samples=samples)


def driven_by(model: Model, trajectory: Trajectory) -> By:
    """Return whether a trajectory moves task or actuated coordinates of the robot."""
    mechanism = model.mechanism
    if trajectory.robot and trajectory.robot != mechanism.name:
        raise InvalidTrajectory(
            f"the trajectory was made for the robot '{trajectory.robot}', not for "
            f"'{mechanism.name}'",
            robot=trajectory.robot,
        )
    by: By = "task" if trajectory.coordinates[0] in mechanism.task else "actuated"
    lead = model.loops.names("task") or mechanism.task
    valid = lead if by == "task" else mechanism.actuated
    for name, unit in zip(trajectory.coordinates, trajectory.units):
        if name not in valid:
            raise InvalidTrajectory(
                f"the trajectory moves '{name}', but '{mechanism.name}' follows its independent "
                f"task coordinates "
                f"({', '.join(lead) or 'none'}) or its actuated joints, all of one kind"
                f"{nearest(name, (*lead, *mechanism.actuated))}",
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
            f"'{mechanism.name}' cannot be led by its {by} coordinates: {len(valid)} of them for "
            f"{model.degrees_of_freedom} degrees of freedom; use the other kind"
        )
    return by


def _motion(
    model: Model,
    trajectory: Trajectory,
    time: FloatArray,
    by: By,
    pace: tuple[FloatArray, FloatArray, FloatArray] | None = None,
    start: FloatArray | None = None,
) -> Motion:
    """Return the motion along the path at a pace (s, ds/dt, d2s/dt2), or at its own."""
    s, sd, sdd = (time, np.ones_like(time), np.zeros_like(time)) if pace is None else pace
    position, velocity, acceleration = trajectory.at(s)
    acceleration = acceleration * sd[:, None] ** 2 + velocity * sdd[:, None]
    velocity = velocity * sd[:, None]
    lead = list(model.loops.partitions[by].independent)
    full = np.zeros((3, len(time), len(lead)))
    full[0] = model.home[lead]
    moved = [lead.index(model.mechanism.coordinates.index(name)) for name in trajectory.coordinates]
    full[:, :, moved] = position, velocity, acceleration
    try:
        return model.kinematics.motion(time, full[0], full[1], full[2], by, start=start)
    except (LoopNotClosed, SingularConfiguration) as error:
        raise InvalidTrajectory(
            f"'{model.mechanism.name}' cannot follow the trajectory: {error}", **error.numbers
        ) from error


def _check(model: Model, motion: Motion) -> None:
    """Refuse a motion beyond limits of actuated or task coordinates, or through a singularity."""
    limits = [
        limit for limit in collect_limits(model, singularity=None) if limit.quantity != "effort"
    ]
    for limit, used in zip(limits, measure(model, limits, motion).T):
        slack = 1e-9 * max(abs(limit.lower), abs(limit.upper), 1.0) / limit.half
        beyond = np.abs(used) - 1 > slack
        if beyond.any():
            time, worst = float(motion.time[np.argmax(beyond)]), used[np.argmax(np.abs(used))]
            value = float(limit.centre + limit.half * worst)
            raise InvalidTrajectory(
                f"the trajectory takes '{limit.name}' beyond its {limit.quantity} limits at t = "
                f"{time:.4g} s: "
                f"{value:.4g} {limit.unit} at worst, allowed {limit.lower:.4g} to "
                f"{limit.upper:.4g}; make it smaller "
                "or slower",
                joint=limit.name,
                time=time,
                value=value,
            )
    _check_singularities(model, motion)


def _check_singularities(model: Model, motion: Motion) -> None:
    """Refuse poses where the motors stop determining the platform, or between samples where they
    did.

    The determinant of the closures' dependent columns K changes sign across a Type-2 singularity.
    Where K^T K - (NEAR |K|)^2 has a Cholesky factor no singular value is small: a fifth of the
    work.
    """
    part = model.loops.partitions["actuated"]
    if not part.dependent:
        return
    every = max(1, len(motion) // 1000)
    q, time = motion.q[::every], motion.time[::every]
    scaled = model.loops.scaled(model.kinematics.jacobian(q))[:, :, part.dependent]
    sign = np.linalg.slogdet(scaled[:, part.rows])[0]
    if (sign == sign[0]).all():
        squares = scaled.swapaxes(1, 2) @ scaled
        np.einsum("tii->ti", squares)[:] -= NEAR**2 * np.einsum("tii->t", squares)[:, None]
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(squares)
            return
    values = np.linalg.svd(scaled, compute_uv=False)
    ratio = values[:, -1] / values[:, 0]
    bad = ratio < NEAR
    bad[1:] |= sign[1:] != sign[0]
    if bad.any():
        k = int(np.argmax(bad))
        moves = model.loops.least_constrained(q[k], "actuated")
        raise InvalidTrajectory(
            f"the trajectory meets a singularity at about t = {time[k]:.4g} s: with all motors "
            f"locked '{moves}' can "
            f"still move (singular value ratio {ratio[k]:.1e}); keep away from this pose",
            joint=moves,
            time=float(time[k]),
            singular_value=float(ratio[k]),
        )
