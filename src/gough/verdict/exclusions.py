"""Equations that no fault is judged on: near velocity reversals, and near jumps of positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, BoolArray
from gough.core.motion import Motion
from gough.engine import Model
from gough.processing import Processing
from gough.processing.valid_equations import (
    joints_with_friction,
    rows_with_coulomb,
    valid_equations,
)
from gough.verdict.fitted_log import FittedLog

# Equations so near to a velocity reversal are left out: a delay moves
# the jump of friction, and no derivative describes that. [s]
REVERSAL_GUARD = 0.02
# the same for jumps of positions, over the cut-off of their low-pass
JUMP_GUARD = 2.0
# Joints below this fraction of their top speed are near a reversal.
SLOW_FRACTION = 0.02
# Fraction of a row's valid equations that has to remain after that.
MIN_GUARDED_FRACTION = 0.5


def equations_at_speed(model: Model, motion: Motion) -> BoolArray:
    """Return the equations in which no joint with Coulomb friction is near a reversal, (t, r).

    There the sign of a velocity is uncertain, and friction has not
    built up.
    """
    joints = joints_with_friction(model, Processing())
    speed = np.abs(motion.qd[:, joints])
    slow = speed < SLOW_FRACTION * np.maximum(speed.max(axis=0, initial=0.0), TINY)
    return np.asarray(slow.astype(float) @ rows_with_coulomb(model)[joints] == 0)


def guarded(valid: BoolArray, mask: BoolArray) -> BoolArray:
    """Return valid equations inside a mask, (t, r); of a row that would lose half, all of them."""
    inside = valid & mask
    few = inside.sum(axis=0) < MIN_GUARDED_FRACTION * valid.sum(axis=0)
    inside[:, few] = valid[:, few]
    return inside


def away_from_reversals(log: FittedLog) -> FittedLog:
    """Return the log without equations near velocity reversals (see `REVERSAL_GUARD`).

    Decimated logs are low-passed there, and a row keeps at least half
    of its equations.
    """
    if log.decimation > 1 or len(log.regression) != len(log.motion):
        return log
    bands = dict(zip(log.model.mechanism.coordinates, log.dead_band.tolist()))
    guard = max(REVERSAL_GUARD, 1 / log.motion.rate)
    settings = Processing(dead_band=bands, window=guard)
    away = valid_equations(log.model, log.motion, settings, periodic=log.periodic)
    mask = guarded(log.regression.valid, away)
    return replace(log, regression=replace(log.regression, mask=mask))


def away_from_reversals_of(log: FittedLog, other: FittedLog) -> FittedLog:
    """Return the log with the equations that are valid here and in another form of it.

    Where undoing a fault moves velocity reversals, equations with a
    joint that is slow here are left out.
    """
    mask = guarded(other.regression.valid, equations_at_speed(log.model, log.motion))
    return replace(log, regression=replace(log.regression, mask=mask))


def away_from_jumps(log: FittedLog) -> FittedLog:
    """Return the log without equations near jumps of positions, whose filter rings there."""
    if not log.jumps or log.periodic or log.cutoff is None:
        return log
    time = np.asarray(log.motion.time)[log.sample_numbers]
    mask = log.regression.valid.copy()
    for jump in log.jumps:
        mask[np.abs(time - jump.time) < JUMP_GUARD / log.cutoff] = False
    return replace(log, regression=replace(log.regression, mask=mask))
