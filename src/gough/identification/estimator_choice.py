"""Choose the estimator by how well it predicts logs, or parts of one, that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.errors import GoughError
from gough.core.notices import Notice
from gough.fitting.acceptance import gain_test
from gough.fitting.problem import Estimator, Problem
from gough.fitting.regression import Regression
from gough.fitting.robust import Robust
from gough.identification.estimators import CHOSEN_FROM
from gough.identification.term_choice import TermBlocks, term_blocks

# Change of the fitted effort, in noise scales, that ends iterations:
# enough to compare errors.
CHOICE_TOLERANCE = 1e-3


def choose_estimator(
    problem: Problem, estimators: Mapping[str, Any]
) -> tuple[str, tuple[Notice, ...]]:
    """Return the name of the estimator that predicts left-out data best, and how it was chosen.

    Whole logs are left out where there are several, else parts of the
    log. Gauss-Markov is taken unless another one is better by more than
    chance explains. Estimators whose values are all within a standard
    error of those of Gauss-Markov predict as it does: nothing is left
    out for them.

    Args:
        problem: The regression of all logs; nothing is left out of
            statistics of logs.
        estimators: By name; those of `CHOSEN_FROM` that it has are
            compared.
    """
    default = CHOSEN_FROM[0]
    if not isinstance(problem, Regression):
        return default, ()
    compared = _estimators_that_differ(problem, estimators)
    if not compared:
        return default, ()
    blocks = term_blocks(problem)
    squares: dict[str, FloatArray] = {}
    for name, estimator in compared.items():
        try:
            squares[name] = _left_out_squares(problem, estimator, blocks)
        except GoughError:
            continue  # e.g. a part of the log does not determine all parameters
    if not squares:
        return default, ()
    first = next(iter(squares))
    chosen = first
    best_gain = 0.0
    for name in squares:
        if name == first:
            continue
        tested = gain_test(squares[first], squares[name], len(squares) - 1)
        lower = _relative_error(problem, squares[name]) < _relative_error(problem, squares[first])
        if tested.accepted and lower and tested.gain > best_gain:
            chosen = name
            best_gain = tested.gain
    errors = []
    for name, by_block in squares.items():
        errors.append(f"{name} {100 * _relative_error(problem, by_block):.3g} %")
    notice = Notice(
        rule="estimator",
        level="info",
        where=chosen,
        text=f"chosen by the error of {blocks.kind} that were left out: {', '.join(errors)}",
    )
    return chosen, (notice,)


def _estimators_that_differ(problem: Regression, estimators: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first estimator and those that differ from it by more than a standard error.

    Empty if none differs. An estimator that fails on all logs is left
    out.
    """
    fitted: dict[str, tuple[Any, Any]] = {}
    for name in CHOSEN_FROM:
        if name not in estimators:
            continue
        estimator = replace(estimators[name], uncertainty="white")
        if isinstance(estimator, Robust):
            estimator = replace(estimator, tolerance=CHOICE_TOLERANCE)
        try:
            fitted[name] = (estimator, estimator.fit(problem))
        except GoughError:
            continue
    names = list(fitted)
    if not names:
        return {}
    reference = fitted[names[0]][1]
    differing = {}
    for name in names[1:]:
        estimator, estimate = fitted[name]
        difference = estimate.select(reference.parameters).values - reference.values
        if (np.abs(difference) > reference.std).any():
            differing[name] = estimator
    if not differing and names[0] == CHOSEN_FROM[0]:
        return {}
    return {names[0]: fitted[names[0]][0], **differing}


def _relative_error(problem: Regression, squares: FloatArray) -> float:
    """Return the rms over the rows of the relative error, from squares by block, fold and row."""
    by_row = squares.reshape(len(squares), -1, len(problem.rows)).sum(axis=(0, 1))
    effort_squares = (problem.valid * problem.effort**2).sum(axis=0)
    relative_squares = by_row / np.maximum(effort_squares, TINY)
    return float(np.sqrt(relative_squares.mean()))


def _left_out_squares(problem: Regression, estimator: Estimator, blocks: TermBlocks) -> FloatArray:
    """Return squared errors by block, fold and row, (b, f r), each fold predicted from the others.

    Each fold has columns of its own, so that outliers of one log do not
    hide what another shows.
    """
    n_rows = len(problem.rows)
    squares = np.zeros((blocks.n_blocks, len(blocks.folds) * n_rows))
    for k, fold in enumerate(blocks.folds):
        inside = np.isin(blocks.label, fold)
        used = np.flatnonzero(~inside & (blocks.label >= 0))
        estimate = estimator.fit(problem.take(used))
        values = estimate.select(problem.parameters).values
        label = np.where(inside, blocks.label, -1)
        columns = slice(k * n_rows, (k + 1) * n_rows)
        squares[:, columns] = _block_squares(problem, values, label, len(squares))
    return squares


def _block_squares(
    problem: Regression, values: FloatArray, label: IntArray, n_blocks: int
) -> FloatArray:
    """Return the squared residuals of labelled samples by block and row, (b, r)."""
    samples = np.flatnonzero(label >= 0)
    block = problem.take(samples)
    residual = (block.effort - block.regressor @ values) ** 2 * block.valid
    squares = np.zeros((n_blocks, len(problem.rows)))
    np.add.at(squares, label[samples], residual)
    return squares
