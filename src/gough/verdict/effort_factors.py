"""The factor on the effort of one motor with which all motors agree best."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import BoolArray
from gough.verdict.blocks import BlockSums, solve_normal_equations

# An effort scale is searched between these factors, of either sign.
FACTOR_RANGE = (1e-4, 1e4)
FACTOR_GRID = 33


def effort_factor(sums: BlockSums, row: int, scope: BoolArray) -> float:
    """Return the factor on the effort of one row with which all rows agree best.

    The squared errors of the recorded efforts, each row relative to its own power, with the
    prediction of that row multiplied by the factor inside the scope. Searched on a
    logarithmic grid of both signs, then refined.
    """
    chosen = [*range(sums.n_columns), sums.n_columns]
    grams = sums.grams[:, :, chosen][:, :, :, chosen]
    has_effort = sums.effort_power > 0
    weights = has_effort / np.where(has_effort, sums.effort_power, 1.0)
    fixed = np.tensordot(weights, grams.sum(axis=0), axes=1)
    scaled = weights[row] * grams[scope, row].sum(axis=0)
    fixed = fixed - scaled
    n = len(chosen) - 1

    def squared_error(factor: float) -> float:
        column_scale = np.full(n + 1, factor)
        column_scale[-1] = 1.0
        normal = fixed + scaled * np.outer(column_scale, column_scale)
        vector = np.append(-solve_normal_equations(normal), 1.0)
        return float(vector @ normal @ vector)

    grid = np.geomspace(*FACTOR_RANGE, FACTOR_GRID)
    factors = np.concatenate([-grid, grid])
    errors = [squared_error(factor) for factor in factors]
    best = int(np.argmin(errors))
    ratio = grid[1] / grid[0]
    low = abs(factors[best]) / ratio
    high = abs(factors[best]) * ratio
    sign = np.sign(factors[best])
    for _ in range(40):  # golden section on the logarithm
        inner = low * (high / low) ** 0.382
        outer = low * (high / low) ** 0.618
        if squared_error(sign * inner) < squared_error(sign * outer):
            high = outer
        else:
            low = inner
    return float(sign * np.sqrt(low * high))
