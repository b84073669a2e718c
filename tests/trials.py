"""What is repeated: few trials and robots in `make test`, all of them in `make accept`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from numpy.typing import ArrayLike


def repeated(few: int, many: int) -> pytest.MarkDecorator:
    """Give a test its number of `trials`: few, and many before a release."""
    return pytest.mark.parametrize("trials", [few, pytest.param(many, marks=pytest.mark.long)])


def larger_later(
    names: Iterable[str],
    larger: Collection[str],
    mark: pytest.MarkDecorator = pytest.mark.long,
) -> list[ParameterSet]:
    """Return names of robots as parameters of a test, the larger ones only in `make accept`.

    Args:
        names: Of all robots.
        larger: Those that repeat what a smaller robot of their kind shows.
        mark: Of the larger ones; with `slow` they run in `make test`, but not in `make quick`.
    """
    parameters = []
    for name in names:
        marks = [mark] if name in larger else []
        parameters.append(pytest.param(name, marks=marks))
    return parameters


def assert_covers(inside: ArrayLike, low: float = 0.92, high: float = 0.975) -> None:
    """Check that 95 % intervals hold the truth about as often as they say.

    Args:
        inside: Whether each interval held the truth.
        low: Least fraction, for many intervals. For few it is what chance explains: three standard
            errors of the fraction.
        high: Largest fraction, likewise.
    """
    standard_error = np.sqrt(0.95 * 0.05 / np.size(inside))
    least = min(low, 0.95 - 3 * standard_error)
    largest = max(high, 0.95 + 3 * standard_error)
    assert least <= np.mean(inside) <= largest
