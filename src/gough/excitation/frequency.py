"""Which fundamental frequency tells most in the time one is willing to record.

A slow trajectory uses the positions and leaves accelerations unused, a fast one is stopped by them before it has gone
anywhere. In between information per recorded time has a broad maximum, 2 to 8 times above the frequency at which
full swings meet the first limit (five_bar, delta, orthoglide, palida), and standard deviations fall by up to 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gough.core.errors import InfeasibleDesign, NotIdentifiable
from gough.excitation.problem import Problem
from gough.excitation.search import random_starts

STARTS = 2  # random trajectories kept of five times as many; their order over frequencies is that of optimised ones
ENOUGH = 1.1  # a lower frequency is preferred where it costs less than this factor of the standard deviations
OCTAVES = 6  # how far from the first guess to look, up and down


def informative_frequency(problem_at: Callable[[float], Problem], first: float, seed: int) -> float:
    """Return the lowest frequency of those that tell most per recorded time, within a tenth of the best.

    Each candidate is judged by random trajectories grown until a limit is met, with the same random directions at
    every frequency: the determinant of the information over the length of all runs. From the first guess the search
    goes up and down by octaves as long as it wins, then by half octaves about the best.

    Args:
        problem_at: The problem of the D criterion at a frequency. [Hz]
        first: Where to begin. [Hz]
        seed: Seed of the random generator.
    """
    scores: dict[float, float] = {}

    def score(steps: float) -> float:
        """Return the logarithm of the mean standard deviation after unit recording time; infinite if none fits."""
        if steps not in scores:
            problem = problem_at(first * 2**steps)
            seconds = sum(part.weight * part.samples for part in problem.parts)  # in controller samples
            try:
                best = random_starts(problem, STARTS, seed)[0].objective
                scores[steps] = best / (2 * len(problem.base)) + np.log(seconds) / 2
            except (InfeasibleDesign, NotIdentifiable):
                scores[steps] = np.inf
        return scores[steps]

    best = 0.0
    for direction in (1.0, -1.0):
        while abs(best) < OCTAVES and score(best + direction) < score(best):
            best += direction
    for steps in (best - 0.5, best + 0.5):
        score(steps)
    least = min(scores.values())
    if not np.isfinite(least):
        return first
    return first * 2 ** min(steps for steps, value in scores.items() if value <= least + np.log(ENOUGH))
