"""Faults that are there or not: signs, channels, units, reversed time, gravity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.engine import Model
from gough.mechanism.types import Mechanism
from gough.verdict.faults import ALL_MOTORS, BASE_PLACE, CLOCK_PLACE
from gough.verdict.motor_signals import MotorSignals

# Factors of time that are mixed up: half rates, minutes, milliseconds.
CLOCK_FACTORS = (2.0, 60.0, 1000.0)
CLOCK_UNIT = "clock unit"
LENGTH_FACTORS = (1000.0, 0.001)
ANGLE_FACTORS = (180 / np.pi, np.pi / 180, 2 * np.pi, 1 / (2 * np.pi))
# Motors may leave the limits of the robot file by this fraction of
# their range.
LIMIT_MARGIN = 0.2
FREE_TURNS = 5  # to either side of a revolute joint without limits


@dataclass(frozen=True, kw_only=True)
class DiscreteFault:
    """A fault that is there or not."""

    name: str  # also the rule of its notice
    place: str  # the joint, the log or all of them
    text: str  # what is the case
    advice: str  # what to do
    undo: Callable[[MotorSignals], MotorSignals]  # the signals without it
    size: float | None = None  # a factor, where it has one
    changes_positions: bool = False  # loops have to be closed again


def _divided(signal: FloatArray, factors: FloatArray) -> FloatArray:
    return signal / factors


def _undo_position_factor(signals: MotorSignals, factors: FloatArray) -> MotorSignals:
    return signals.with_motion(partial(_divided, factors=factors))


def _factors(n_motors: int, motors: Sequence[int], factor: float) -> FloatArray:
    """Return a factor at some motors, one elsewhere, (a,)."""
    factors = np.ones(n_motors)
    factors[list(motors)] = factor
    return factors


def position_signs(mechanism: Mechanism) -> Iterator[DiscreteFault]:
    """Yield flipped signs of positions, of one motor or of all."""
    names = mechanism.actuated
    groups = {name: [k] for k, name in enumerate(names)}
    if len(names) > 1:
        groups[ALL_MOTORS] = list(range(len(names)))
    for place, motors in groups.items():
        yield DiscreteFault(
            name="position sign",
            place=place,
            text=f"the position of {place} has the wrong sign",
            advice=f"put scale = -1 for the position of {place} in the description",
            undo=partial(_undo_position_factor, factors=_factors(len(names), motors, -1.0)),
            size=-1.0,
            changes_positions=True,
        )


def position_units(mechanism: Mechanism, ratio: float = 1.0) -> Iterator[DiscreteFault]:
    """Yield wrong units of positions, of one motor or of all with the same unit.

    Args:
        mechanism: The robot.
        ratio: Factor on all of them, to see whether a unit does better
            than another factor.
    """
    names = mechanism.actuated
    for unit in dict.fromkeys(mechanism.joint(name).unit for name in names):
        motors = {name: [k] for k, name in enumerate(names) if mechanism.joint(name).unit == unit}
        groups = dict(motors)
        if len(motors) > 1:
            every = ALL_MOTORS if len(motors) == len(names) else f"{ALL_MOTORS} in {unit}"
            groups[every] = [k for (k,) in motors.values()]
        for unit_factor in LENGTH_FACTORS if unit == "m" else ANGLE_FACTORS:
            factor = ratio * unit_factor
            for place, chosen in groups.items():
                factors = _factors(len(names), chosen, factor)
                yield DiscreteFault(
                    name="position unit",
                    place=place,
                    text=f"the position of {place} is {_too(factor, 'large', 'small')}",
                    advice=f"{_correction(f'the position of {place}', factor)}: correct its unit",
                    undo=partial(_undo_position_factor, factors=factors),
                    size=factor,
                    changes_positions=True,
                )


def _too(factor: float, above: str, below: str) -> str:
    """Return by how much values that were multiplied by a factor are too large or too small."""
    if factor < 1:
        return f"{1 / factor:.6g} times too {below}"
    return f"{factor:.6g} times too {above}"


def _correction(values: str, factor: float) -> str:
    """Return how values that were multiplied by a factor are corrected."""
    if factor < 1:
        return f"multiply {values} by {1 / factor:.6g}"
    return f"divide {values} by {factor:.6g}"


def _undo_swap(
    signals: MotorSignals, order: Sequence[int], motion: bool, effort: bool
) -> MotorSignals:
    change = partial(np.take, indices=list(order), axis=1)
    if motion:
        signals = signals.with_motion(change)
    return signals.with_effort(change) if effort else signals


def swapped_channels(mechanism: Mechanism) -> Iterator[DiscreteFault]:
    """Yield exchanged channels of two motors: efforts, positions, or both."""
    names = mechanism.actuated
    kinds = {"efforts": (False, True), "positions": (True, False), "channels": (True, True)}
    for one, two in combinations(range(len(names)), 2):
        order = list(range(len(names)))
        order[one] = two
        order[two] = one
        pair = f"{names[one]} and {names[two]}"
        for what, (motion, effort) in kinds.items():
            yield DiscreteFault(
                name=f"swapped {what}",
                place=pair,
                text=f"the {what} of {pair} are swapped",
                advice=f"exchange the {what} of {pair} in the description",
                undo=partial(_undo_swap, order=order, motion=motion, effort=effort),
                changes_positions=motion,
            )


def _undo_clock_factor(signals: MotorSignals, factor: float) -> MotorSignals:
    return signals.faster(factor)


def clock_faults() -> Iterator[DiscreteFault]:
    """Yield reversed time and wrong units of times."""
    yield DiscreteFault(
        name="reversed time",
        place=CLOCK_PLACE,
        text="time runs backwards",
        advice="sort the samples by time",
        undo=partial(_undo_clock_factor, factor=-1.0),
    )
    for number in CLOCK_FACTORS:
        for factor in (number, 1 / number):
            yield DiscreteFault(
                name=CLOCK_UNIT,
                place=CLOCK_PLACE,
                text=f"times are {_too(factor, 'long', 'short')}",
                advice=f"{_correction('the times', factor)}: correct their unit or the rate",
                undo=partial(_undo_clock_factor, factor=factor),
                size=factor,
            )


def _with_gravity(signals: MotorSignals, gravity: FloatArray) -> MotorSignals:
    return replace(signals, gravity=gravity)


def gravity_faults(mechanism: Mechanism) -> Iterator[DiscreteFault]:
    """Yield gravity along other axes, and efforts without gravity."""
    gravity = np.array(mechanism.gravity)
    strength = float(np.linalg.norm(gravity))
    if strength == 0:
        return
    for axis in np.concatenate([np.eye(3), -np.eye(3)]):
        if float(axis @ gravity) / strength > 1 - 1e-6:
            continue
        numbers = ", ".join(f"{strength * x + 0.0:.6g}" for x in axis)
        yield DiscreteFault(
            name="gravity direction",
            place=BASE_PLACE,
            text=f"gravity points along [{numbers}] in the frame of the base",
            advice=f"put gravity = [{numbers}] in the robot file",
            undo=partial(_with_gravity, gravity=strength * axis),
        )
    yield DiscreteFault(
        name="no gravity",
        place=BASE_PLACE,
        text="the recorded efforts do not contain gravity",
        advice="record the whole effort (the controller subtracts its gravity compensation), or "
        "put gravity = [0, 0, 0] in the robot file for these logs",
        undo=partial(_with_gravity, gravity=np.zeros(3)),
    )


def discrete_faults(mechanism: Mechanism) -> list[DiscreteFault]:
    """Return every discrete fault of a robot's logs."""
    return [
        *position_signs(mechanism),
        *position_units(mechanism),
        *swapped_channels(mechanism),
        *clock_faults(),
        *gravity_faults(mechanism),
    ]


def within_limits(model: Model, position: FloatArray, before: FloatArray | None = None) -> bool:
    """Return whether motors (t, a) are within the limits of the robot file, or were not before."""
    free = {"rad": FREE_TURNS * 2 * np.pi, "m": np.inf}
    low = np.zeros(position.shape[1])
    high = np.zeros(position.shape[1])
    for k, name in enumerate(model.mechanism.actuated):
        joint = model.mechanism.joint(name)
        reach = free[joint.unit]
        low[k], high[k] = joint.limits.position or (-reach, reach)
    margin = np.where(np.isfinite(high - low), LIMIT_MARGIN * (high - low), 0.0)

    def outside(motion: FloatArray) -> BoolArray:
        below = motion.min(axis=0) < low - margin
        return np.asarray(below | (motion.max(axis=0) > high + margin))

    now = outside(position)
    if before is not None:
        now &= ~outside(before)
    return not now.any()


def within_speed_limits(model: Model, velocity: FloatArray, before: FloatArray) -> bool:
    """Return whether motors (t, a) are not faster than the robot file allows, or were so before."""
    for k, name in enumerate(model.mechanism.actuated):
        limit = model.mechanism.joint(name).limits.velocity
        if limit is None:
            continue
        fastest = (1 + LIMIT_MARGIN) * limit
        if np.abs(velocity[:, k]).max() > fastest >= np.abs(before[:, k]).max():
            return False
    return True
