"""Widths of friction near zero speed: up to which speed a joint has less than its Coulomb friction.

Coulomb friction does not jump where a velocity changes sign. It takes a
range of speeds, its width, and within one sample before and after the
reversal the recorded effort holds both signs. Samples inside the width
bias the friction of the joint and what is correlated with it, most
where the friction of a passive joint acts on all equations.

The width is found from the data. For joint j and a range of speeds b
the column

    d_jb = E_j sign(qd_j) [speed in range b]

has a coefficient of zero where friction is complete, and a negative one
where some of it is missing. Ranges double from the speed below which
there are two samples for each reversal. Only valid equations count:
those of a motor begin outside of its exclusion window. From the lowest
range upwards the coefficient is tested given all columns of the
regressor, and the width is the upper end of the last range with missing
friction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.block_statistics import BlockStatistics, triangular_factor
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.regression import Regression, block_statistics
from gough.processing.filters import decimated
from gough.processing.processed_log import ProcessedLog, blocks_of_regression
from gough.processing.settings import Processing
from gough.processing.valid_equations import (
    MIN_VALID_FRACTION,
    joints_with_friction,
    rows_with_coulomb,
)

# samples of regressor and columns of ranges held at once
WIDTH_BLOCK_SAMPLES = 512
WIDTH_RANGES = 4  # tested, each twice as far as the last
SAMPLES_PER_REVERSAL = 2  # in the lowest range
# Deviations by which a coefficient has to be below zero: 1 in 20 by
# chance
MISSING_FRICTION_DEVIATIONS = 1.64
# joints whose speeds differ by less, relative to the largest, move
# alike
SAME_SPEED_RATIO = 1e-9
# A column of which less than this fraction is independent of the
# regressor is not tested
MIN_INDEPENDENT_FRACTION = 1e-3
# Columns of the regressor with a singular value below this fraction of
# the largest are dependent
RANGE_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class _SpeedRanges:
    """Joints that move alike, and the ranges of speed in which their friction is tested."""

    joints: tuple[int, ...]  # coordinates with the same speed
    # ends of the ranges, rising from zero, (ranges + 1,) [m/s or rad/s]
    edges: FloatArray

    def columns(self, maps: FloatArray, velocity: FloatArray) -> FloatArray:
        """Return the column of each range at some samples, (t, r, ranges).

        Args:
            maps: Velocities of the coordinates by those of the motors,
                (t, n, r).
            velocity: Of the coordinates, (t, n).
        """
        lever = np.zeros((len(maps), maps.shape[2]))
        for joint in self.joints:
            lever += maps[:, joint] * np.sign(velocity[:, joint, None])
        speed = np.abs(velocity[:, self.joints[0]])
        number = np.searchsorted(self.edges, speed, side="right") - 1
        in_range = number[:, None] == np.arange(len(self.edges) - 1)
        return np.asarray(lever[:, :, None] * in_range[:, None, :])


def friction_widths(
    model: Model,
    logs: Sequence[ProcessedLog],
    parameters: BaseParameters | Sequence[str],
    settings: Processing,
    fixed: Collection[str] = (),
) -> dict[str, float]:
    """Return the width of friction of each joint where the data show one. [m/s or rad/s]

    Args:
        logs: Processed with the settings, at all samples, in efforts.
        parameters: Columns of the regressor.
        settings: With dead bands and the exclusion window.
        fixed: Joints whose dead band is given.
    """
    groups = _groups_of_joints(model, logs, settings, fixed)
    if not groups:
        return {}
    coordinates = model.mechanism.coordinates
    blocks = _blocks_of_logs(model, logs, parameters, groups)
    statistics = block_statistics(blocks)
    n_equations = int(statistics.n_valid.sum())
    n_parameters = len(statistics.parameters) - len(groups) * WIDTH_RANGES
    equations = _weighted_equations(statistics, n_parameters)
    known = list(range(n_parameters))
    widths: dict[str, float] = {}
    untested = list(range(len(groups)))
    for k in range(WIDTH_RANGES):
        columns = [n_parameters + g * WIDTH_RANGES + k for g in untested]
        missing = _missing_friction(equations, known, columns, n_equations)
        incomplete = [g for g, is_missing in zip(untested, missing) if is_missing]
        wider = dict(widths)
        for g in incomplete:
            width = float(groups[g].edges[k + 1])
            for joint in groups[g].joints:
                wider[coordinates[joint]] = width
        if not incomplete or not _leaves_enough(logs, settings, wider):
            break
        known += [column for column, is_missing in zip(columns, missing) if is_missing]
        widths = wider
        untested = incomplete
    return widths


def _groups_of_joints(
    model: Model, logs: Sequence[ProcessedLog], settings: Processing, fixed: Collection[str]
) -> list[_SpeedRanges]:
    """Return the joints with friction that reverse, those that move alike together."""
    velocity = np.concatenate([log.motion.qd for log in logs])
    reversals = np.zeros(velocity.shape[1], np.int64)
    for log in logs:
        negative = np.signbit(log.motion.qd)
        reversals += (negative[1:] != negative[:-1]).sum(axis=0)
    groups: list[list[int]] = []
    coordinates = model.mechanism.coordinates
    for joint in joints_with_friction(model, settings):
        if coordinates[joint] in fixed or not reversals[joint]:
            continue
        for group in groups:
            speed = np.abs(velocity[:, joint])
            difference = np.abs(speed - np.abs(velocity[:, group[0]])).max()
            if difference <= SAME_SPEED_RATIO * speed.max():
                group.append(joint)
                break
        else:
            groups.append([joint])
    ranges = []
    valid = np.concatenate([log.valid for log in logs])
    rows_of_joint = rows_with_coulomb(model)
    for group in groups:
        used = valid[:, rows_of_joint[group[0]]].any(axis=1)
        speed = np.abs(velocity[used, group[0]])
        if not len(speed):
            continue
        n_lowest = SAMPLES_PER_REVERSAL * reversals[group[0]]
        n_lowest = min(n_lowest, len(speed) - 1)
        lowest = float(np.partition(speed, n_lowest)[n_lowest])
        doubled = lowest * 2.0 ** np.arange(WIDTH_RANGES)
        edges = np.concatenate([[0.0], doubled])
        ranges.append(_SpeedRanges(joints=tuple(group), edges=edges))
    return ranges


def _leaves_enough(
    logs: Sequence[ProcessedLog], settings: Processing, widths: dict[str, float]
) -> bool:
    """Return whether enough of the samples in which a motor moves are valid with widths."""
    wider = settings.with_wider_bands(widths)
    moving = [log.moving.sum(axis=0) for log in logs]
    valid = [log.valid_at(wider).sum(axis=0) for log in logs]
    n_moving = np.sum(moving, axis=0)
    n_valid = np.sum(valid, axis=0)
    return bool((n_valid >= MIN_VALID_FRACTION * n_moving).all())


def _blocks_of_logs(
    model: Model,
    logs: Sequence[ProcessedLog],
    parameters: BaseParameters | Sequence[str],
    groups: Sequence[_SpeedRanges],
) -> Iterator[Regression]:
    """Yield decimated blocks of the regressions of all logs with the columns of all ranges."""
    for number, log in enumerate(logs):
        extended = _extended_blocks(model, log, parameters, groups)
        for block in decimated(extended, log.decimation, periodic=log.periodic):
            label = np.full(len(block), number)
            yield replace(block, recording=label, group=None)


def _extended_blocks(
    model: Model,
    log: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    groups: Sequence[_SpeedRanges],
) -> Iterator[Regression]:
    """Yield blocks of the regression of a log with the columns of all ranges."""
    start = 0
    n_ranges = len(groups) * WIDTH_RANGES
    names = [f"range{k}" for k in range(n_ranges)]
    units = ["1"] * n_ranges
    for block in blocks_of_regression(model, log, parameters, WIDTH_BLOCK_SAMPLES):
        samples = slice(start, start + len(block))
        start += len(block)
        maps = model.kinematics.closure_map(log.motion.q[samples])
        velocity = log.motion.qd[samples]
        columns = [group.columns(maps, velocity) for group in groups]
        extended = block.with_columns(np.concatenate(columns, axis=2), names, units)
        yield replace(extended, replicates=None)


def _weighted_equations(statistics: BlockStatistics, n_parameters: int) -> FloatArray:
    """Return factors of all blocks with weighted rows and columns of unit length, (b, k, c).

    The rows are weighted by their residual without the columns of
    ranges, which follow the parameters.
    """
    weights = weighted_fit(statistics.select(statistics.parameters[:n_parameters])).weights
    weighted = statistics.block_factors * np.sqrt(weights)[:, None, None]
    equations = weighted.reshape(len(statistics), -1, weighted.shape[3])
    norm = np.linalg.norm(equations, axis=(0, 1))
    return np.asarray(equations / np.maximum(norm, TINY))


def _missing_friction(
    equations: FloatArray, known: Sequence[int], columns: Sequence[int], n_equations: int
) -> BoolArray:
    """Return in which ranges friction is missing, beyond noise and scatter of blocks, (n,).

    Args:
        equations: Factors of all blocks, the effort in the last column,
            (b, k, c).
        known: Columns of the model.
        columns: Those of the ranges, each tested beside the model
            alone, (n,).
        n_equations: Number of valid equations behind the factors.
    """
    total = triangular_factor(equations.reshape(-1, equations.shape[2]))
    tested = [*columns, -1]
    coefficients, _, rank, _ = np.linalg.lstsq(
        total[:, known], total[:, tested], rcond=RANGE_RANK_TOLERANCE
    )
    remaining = equations[:, :, tested] - equations[:, :, known] @ coefficients
    independent = remaining[:, :, :-1]
    residual = remaining[:, :, -1]
    square = (independent**2).sum(axis=(0, 1))
    score_by_block = np.einsum("bkn,bk->bn", independent, residual)
    noise = float((residual**2).sum()) / max(n_equations - int(rank), 1)
    deviation = np.sqrt(np.maximum(noise * square, (score_by_block**2).sum(axis=0)))
    negative = score_by_block.sum(axis=0) < -MISSING_FRICTION_DEVIATIONS * deviation
    return np.asarray(negative & (square > MIN_INDEPENDENT_FRACTION))
