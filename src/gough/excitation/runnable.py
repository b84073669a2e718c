"""A designed trajectory as a machine can run it: from rest, settled periods, back to rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.core.errors import InfeasibleDesign
from gough.core.trajectory import Fourier, Sampled, ease
from gough.engine.limits import collect_limits, measure
from gough.engine.model import Model

SETTLING = 1  # periods at full pace before those worth recording
LONGEST = 16.0  # longest ramp tried [periods]


def runnable(model: Model, trajectory: Fourier, periods: int) -> Sampled:
    """Return a trajectory at the controller's samples, eased in and out of rest, with the motors beside the platform.

    The path is the trajectory's own; only the pace rises from rest and falls back (`Eased`). The ramp is half a
    period, and longer where a limit of the robot would be exceeded on the way. Between the ramps there are `periods`
    whole periods at full pace and one before them for the controller to settle.
    """
    rate = model.mechanism.noise.rate
    by = model.loops.led_by(trajectory.coordinates)
    limits = collect_limits(model, singularity=None)
    length = 0.5  # [periods]
    while length <= LONGEST:
        ramp = round(length * trajectory.period * rate) / rate
        runs = replace(trajectory, periods=periods + SETTLING + int(np.ceil(length)))
        eased = ease(runs, ramp)
        time = eased.times(rate)
        motion = model.kinematics.motion(time, *eased.at(time), by)
        used = np.abs(measure(model, limits, motion))
        if not len(limits) or used.max() <= 1 + 1e-9:
            names = tuple(dict.fromkeys((*trajectory.coordinates, *model.mechanism.actuated)))
            columns = [motion.column(name) for name in names]
            return Sampled(coordinates=names, units=tuple(model.mechanism.joint(name).unit for name in names),
                           robot=model.mechanism.name, time=time, position=motion.q[:, columns],
                           velocity=motion.qd[:, columns], acceleration=motion.qdd[:, columns])
        length *= 1.5
    worst = limits[int(np.argmax(used.max(axis=0)))]
    raise InfeasibleDesign(f"the {worst} is exceeded while the trajectory is eased in from rest, however slowly; "
                           "design a trajectory that starts and ends at rest", limit=str(worst))
