"""The factor on the effort of one motor with which all motors agree best."""

from __future__ import annotations

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.fitting.cross_validation import solve_normal_equations
from gough.verdict.blocks import BlockSums, select_columns

# An effort scale is searched between these factors, of either sign.
FACTOR_RANGE = (1e-4, 1e4)
FACTOR_GRID = 33
# Each refinement narrows the interval about the best factor by (FACTORS_PER_REFINEMENT - 1) / 2.
REFINEMENTS = 8
FACTORS_PER_REFINEMENT = 11


def effort_factor(sums: BlockSums, row: int, scope: BoolArray) -> float:
    """Return the factor on the effort of one row with which all rows agree best.

    The squared errors of the recorded efforts, each row relative to its own power, with the
    prediction of that row multiplied by the factor inside the scope. Searched on a
    logarithmic grid of both signs, then refined.
    """
    chosen = [*range(sums.n_columns), sums.n_columns]
    grams = select_columns(sums.grams, chosen)
    has_effort = sums.effort_power > 0
    weights = has_effort / np.where(has_effort, sums.effort_power, 1.0)
    fixed = np.tensordot(weights, grams.sum(axis=0), axes=1)
    scaled = weights[row] * grams[scope, row].sum(axis=0)
    fixed = fixed - scaled
    n = len(chosen) - 1

    def squared_errors(factors: FloatArray) -> FloatArray:
        column_scale = np.repeat(factors[:, None], n + 1, axis=1)
        column_scale[:, -1] = 1.0
        normal = fixed + scaled * column_scale[:, :, None] * column_scale[:, None, :]
        vectors = np.concatenate(
            [-solve_normal_equations(normal), np.ones((len(factors), 1))], axis=1
        )
        return np.asarray(np.einsum("fi,fij,fj->f", vectors, normal, vectors, optimize=True))

    grid = np.geomspace(*FACTOR_RANGE, FACTOR_GRID)
    factors = np.concatenate([-grid, grid])
    best = int(np.argmin(squared_errors(factors)))
    sign = np.sign(factors[best])
    centre = abs(factors[best])
    ratio = grid[1] / grid[0]
    for _ in range(REFINEMENTS):
        finer = centre * np.geomspace(1 / ratio, ratio, FACTORS_PER_REFINEMENT)
        centre = finer[int(np.argmin(squared_errors(sign * finer)))]
        ratio = finer[1] / finer[0]
    return float(sign * centre)
