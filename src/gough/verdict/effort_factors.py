"""Efforts of single motors that are scaled by any factor, also a negative one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.fitting.cross_validation import solve_normal_equations
from gough.verdict.blocks import BlockSums, select_columns
from gough.verdict.continuous_trials import guessed, guessed_to_first_order, refined
from gough.verdict.explanation import Explanation
from gough.verdict.faults import EFFORT_SCALE, Fault
from gough.verdict.screen import Screen
from gough.verdict.stage import Stage

MIN_SCALE_CHANGE = 0.02  # relative: smaller effort scales are not refined

# An effort scale is searched between these factors, of either sign.
FACTOR_RANGE = (1e-4, 1e4)
FACTOR_GRID = 33
# Each refinement narrows the interval about the best factor by
# (FACTORS_PER_REFINEMENT - 1) / 2.
REFINEMENTS = 8
FACTORS_PER_REFINEMENT = 11


def effort_factor(sums: BlockSums, row: int, scope: BoolArray) -> float:
    """Return the factor on the effort of one row with which all rows agree best.

    The squared errors of the recorded efforts, each row relative to its
    own power, with the prediction of that row multiplied by the factor
    inside the scope. Searched on a logarithmic grid of both signs, then
    refined.
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


def factors_to_first_order(screen: Screen) -> list[Explanation]:
    """Return the factors on efforts that lower the squared error, to first order."""
    candidates = [each for each in screen.ranked if each.fault.name == EFFORT_SCALE]
    explanations = []
    for candidate, sums in screen.sums(candidates):
        explanations.append(guessed_to_first_order(screen.stage, candidate, sums))
    return explanations


def factors_of_any_size(
    stage: Stage, faults: Sequence[Fault], scopes: Sequence[tuple[int, ...]]
) -> list[Explanation]:
    """Return the factor on every motor's effort with which all motors agree best.

    Args:
        stage: The logs as corrected so far.
        faults: All faults that are tried.
        scopes: Sets of logs that a fault of the recording may be in.
    """
    guesses = []
    for fault in faults:
        if fault.name != EFFORT_SCALE:
            continue
        for row, place in enumerate(fault.places(stage.evidence)):
            for scope in scopes:
                factor = effort_factor(stage.baseline.sums, row, stage.scope(scope))
                guesses.append(guessed(stage, fault, place, scope, np.array([factor - 1])))
    return guesses


def better_factors(stage: Stage, guesses: Sequence[Explanation], n_tests: int) -> list[Explanation]:
    """Return the guessed factors that predict better, refined.

    Args:
        stage: The logs as corrected so far.
        guesses: Factors on efforts.
        n_tests: Number of tests that each is the best of.
    """
    explanations = []
    for guess in guesses:
        known = any(each.same_as(guess) for each in stage.accepted)
        if known or abs(guess.size[0]) < MIN_SCALE_CHANGE:
            continue
        if not _predicts_better(stage, guess):
            continue
        better = refined(stage, guess, n_tests)
        if better is not None:
            explanations.append(better)
    return explanations


def _predicts_better(stage: Stage, guess: Explanation) -> bool:
    """Return whether an effort divided by the guessed factor predicts better.

    The sums show it, without undoing the factor on the logs: refining
    the size costs a hundred times as much, and of guesses that do not
    predict better none did with a refined size.
    """
    row = stage.evidence.model.rows.index(guess.place)
    factor = float(1 + guess.size[0])
    scope = stage.scope(guess.logs)
    scale = np.ones((len(scope), len(stage.evidence.model.rows)))
    scale[scope, row] = abs(factor)
    sums = stage.baseline.sums.with_scaled_effort(row, scope, 1 / factor)
    return stage.baseline.gain(sums, scope, 1, effort_scale=scale).better
