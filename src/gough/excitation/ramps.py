"""A designed trajectory as a machine runs it: from rest to rest, at the controller's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gough.core.errors import InfeasibleDesign
from gough.core.motion import Motion
from gough.core.trajectory import Fourier, Sampled, ease
from gough.engine.limits import collect_limits, measure
from gough.engine.model import Model

SETTLING_PERIODS = 1  # at full pace before those worth recording
FIRST_RAMP_PERIODS = 0.5  # duration of the first ramp tried [periods]
RAMP_GROWTH = 1.5  # between one ramp and the next
MAX_RAMP_PERIODS = 16.0  # longest ramp tried [periods]


def sample_with_ramps(model: Model, trajectory: Fourier, periods: int) -> Sampled:
    """Return a trajectory at the controller's samples with ramps from rest and back to rest.

    It holds the trajectory coordinates and the motors. Only the pace
    rises and falls, over half a period or, where a limit would be
    exceeded, longer. Between the ramps are `periods` whole periods at
    full pace, and one before them for the controller to settle.

    Raises:
        InfeasibleDesign: A limit is exceeded with every ramp.
    """
    rate = model.mechanism.noise.rate
    limits = collect_limits(model, singularity=None)
    by = model.loops.partition_driven_by(trajectory.coordinates)
    ramp_periods = FIRST_RAMP_PERIODS
    while ramp_periods <= MAX_RAMP_PERIODS:
        total_periods = periods + SETTLING_PERIODS + int(np.ceil(ramp_periods))
        ramp = round(ramp_periods * trajectory.period * rate) / rate
        eased = ease(replace(trajectory, periods=total_periods), ramp)
        times = eased.times(rate)
        motion = model.kinematics.motion(times, *eased.at(times), by)
        usage = np.abs(measure(model, limits, motion))
        if not len(limits) or usage.max() <= 1 + 1e-9:
            return _sampled(model, motion, trajectory.coordinates)
        ramp_periods *= RAMP_GROWTH
    worst = limits[int(np.argmax(usage.max(axis=0)))]
    raise InfeasibleDesign(
        f"the {worst} is exceeded while the trajectory is eased in from rest, however slowly; "
        "design a trajectory that starts and ends at rest",
        limit=str(worst),
    )


def _sampled(model: Model, motion: Motion, coordinates: Sequence[str]) -> Sampled:
    """Return a motion as trajectory of some coordinates and all motors."""
    mechanism = model.mechanism
    names = tuple(dict.fromkeys((*coordinates, *mechanism.actuated)))
    columns = [motion.column(name) for name in names]
    return Sampled(
        coordinates=names,
        units=tuple(mechanism.joint(name).unit for name in names),
        robot=mechanism.name,
        time=motion.time,
        position=motion.q[:, columns],
        velocity=motion.qd[:, columns],
        acceleration=motion.qdd[:, columns],
    )
