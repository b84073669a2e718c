"""Drive gains, which turn recorded currents or voltages into efforts."""

from __future__ import annotations

from collections.abc import Mapping

from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.engine import Model


def known_gains(model: Model, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the drive gains that are known, by motor: the given one, else the robot file's."""
    stated = {**model.mechanism.drive_gains, **(given or {})}
    return {name: float(stated[name]) for name in model.mechanism.actuated if name in stated}


def drive_gains(model: Model, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the drive gain of every motor: the given one, else that of the robot file.

    Raises:
        InvalidInput: A gain is not positive, or given for a joint that is no motor.
        InvalidRecording: The gain of a motor is not known.
    """
    motors = model.mechanism.actuated
    gain_by_motor = known_gains(model, given)
    for name in given or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}")
    for name in motors:
        if name not in gain_by_motor:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' "
                "in the robot file, or identify the gains from an unloaded log and one with a "
                "weighed payload, or with `find_gains` and another log in efforts; if the column "
                "is a fraction of the rated torque (% or ‰), rename its table in the description "
                "to [effort] and add its rated torque and gear ratio"
            )
        if not gain_by_motor[name] > 0:
            raise InvalidInput(
                f"the drive gain of '{name}' is {gain_by_motor[name]}, expected a positive number"
            )
    return gain_by_motor
