"""Explanations that predict alike, and which of them are physical."""

from __future__ import annotations

from collections.abc import Sequence

from gough.verdict.acceptance import jackknife_error, tied
from gough.verdict.explanation import Explanation
from gough.verdict.robot_file import prior_of
from gough.verdict.stage import Stage

# standard errors by which a value has to be below the least physical
# one
NEGATIVE_VALUE_T = 3.0


def best_group(
    explanations: Sequence[Explanation], stage: Stage, smooth: Stage | None
) -> tuple[Explanation, ...]:
    """Return the best explanation and those that predict alike or better, the simplest first.

    Empty if none of these matters: what predicts clearly worse is not
    the cause of an error that something too small to matter explains.

    Args:
        explanations: At least one of them is accepted.
        stage: The logs as corrected so far.
        smooth: The same with less noise of the positions; None if there
            cannot be less.
    """
    ranked = sorted(explanations, key=lambda each: -each.gain.total)
    best = next(each for each in ranked if each.gain.beyond_chance and each.gain.better)
    group = []
    for each in ranked:
        better = each.gain.total > best.gain.total
        if better or _predict_alike(best, each, stage, smooth):
            group.append(each)
    if not any(each.gain.significant for each in group):
        return ()
    group.sort(key=lambda each: each.n_sizes + 0.5 * (len(each.logs) < len(stage.labels)))
    return tuple(_physical(group, stage))


def _predict_alike(
    best: Explanation, other: Explanation, stage: Stage, smooth: Stage | None
) -> bool:
    """Return whether two explanations predict alike, also with less noise of positions."""
    if tied(best.gain, other.gain, stage.block_log):
        return True
    if smooth is None or best.gain_with_less_noise is None or other.gain_with_less_noise is None:
        return False
    return tied(best.gain_with_less_noise, other.gain_with_less_noise, smooth.block_log)


def _physical(group: Sequence[Explanation], stage: Stage) -> list[Explanation]:
    """Return those of a group with which no mass, inertia or friction is negative, or all.

    Flipping the effort of one motor or those of all others predicts
    alike; with one of them the robot has negative masses.
    """
    if len(group) < 2 or not any(each.turns_efforts for each in group):
        return list(group)
    physical = []
    for each in group:
        following = stage.followed_by(each)
        if following is not None and not _has_negative_values(following):
            physical.append(each)
    significant = any(each.gain.significant for each in physical)
    return physical if significant else list(group)


def _has_negative_values(stage: Stage) -> bool:
    """Return whether a parameter is below its least physical value by three standard errors."""
    validation = stage.baseline.validation()
    n_parameters = stage.baseline.sums.n_parameters
    values = validation.whole[:n_parameters]
    errors = jackknife_error(validation.coefficients[:, :n_parameters])
    lowest = prior_of(stage.evidence.model, stage.evidence.base).lowest
    return bool((values < lowest - NEGATIVE_VALUE_T * errors).any())
