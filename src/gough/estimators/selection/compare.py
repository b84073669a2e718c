"""The same recording answered by several estimators and by guaranteed bounds, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gough.core.errors import InvalidInput
from gough.estimators.estimate import Enclosure, Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class Disagreement:
    """Two answers that hardly can both be right; `distance` in joint standard deviations, infinite for boxes."""

    parameter: str
    first: str
    second: str
    distance: float
    reason: str


def compare(results: Mapping[str, Estimate | Enclosure], sigmas: float = 3.0) -> list[Disagreement]:
    """Return which of several answers, by label, contradict each other.

    Two estimates disagree when they differ by more than `sigmas` joint standard deviations sqrt(s1^2 + s2^2); an
    estimate and a box when the value lies outside; two boxes when they do not meet. Estimates from the same data are
    correlated, so the first test is lenient.

    Raises:
        InvalidInput: Nothing to compare.
    """
    if not results or not sigmas > 0:
        raise InvalidInput("comparing needs at least one result and a positive number of sigmas")
    found = []
    for name in dict.fromkeys(name for result in results.values() for name in result.parameters):
        having = [(label, result) for label, result in results.items() if name in result.parameters]
        for (first, a), (second, b) in combinations(having, 2):
            distance, reason = _distance(a, b, name)
            if distance > sigmas:
                found.append(Disagreement(parameter=name, first=first, second=second, distance=distance, reason=reason))
    return found


def _distance(a: Estimate | Enclosure, b: Estimate | Enclosure, name: str) -> tuple[float, str]:
    (low_a, high_a, std_a), (low_b, high_b, std_b) = _range(a, name), _range(b, name)
    gap = max(low_a - high_b, low_b - high_a, 0.0)
    if gap == 0:
        return 0.0, ""
    if isinstance(a, Estimate) and isinstance(b, Estimate):
        joint = float(np.hypot(std_a, std_b))
        distance = gap / joint if joint > 0 else np.inf
        return distance, f"{distance:.1f} joint standard deviations apart"
    boxes = isinstance(a, Enclosure) and isinstance(b, Enclosure)
    kind = "the boxes are apart" if boxes else "the value is outside the box"
    return float("inf"), f"{kind} by {gap:.3g}"


def _range(result: Estimate | Enclosure, name: str) -> tuple[float, float, float]:
    if isinstance(result, Enclosure):
        low, high = result[name]
        return low, high, 0.0
    value = result[name]
    return value, value, float(result.std[result.parameters.index(name)])
