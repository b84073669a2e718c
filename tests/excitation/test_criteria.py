"""Criteria of a regressor: values by their textbook formulas, gradients by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.excitation.criteria import CRITERIA, Criterion, criterion_gradient, criterion_value


def _regressor() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 6)) * [1.0, 0.1, 30.0, 2.0, 0.5, 4.0]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_gradient_equals_finite_differences(criterion: Criterion) -> None:
    W = _regressor()
    value, gradient = criterion_gradient(criterion, W)
    assert value == pytest.approx(criterion_value(criterion, W), rel=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(5):
        direction = rng.standard_normal(W.shape)
        step = 1e-6
        change = (
            criterion_value(criterion, W + step * direction)
            - criterion_value(criterion, W - step * direction)
        ) / (2 * step)
        assert (gradient * direction).sum() == pytest.approx(change, rel=1e-6)


def test_the_values_are_those_of_the_information_matrix() -> None:
    W = _regressor()
    information = W.T @ W
    eigenvalues = np.linalg.eigvalsh(information)
    assert criterion_value("d", W) == pytest.approx(-np.linalg.slogdet(information)[1], rel=1e-12)
    assert criterion_value("a", W) == pytest.approx(np.trace(np.linalg.inv(information)), rel=1e-10)
    assert criterion_value("e", W) == pytest.approx(1 / eigenvalues[0], rel=1e-10)
    assert criterion_value("cond", W) == pytest.approx(np.linalg.cond(W), rel=1e-12)


def test_d_is_invariant_to_units_up_to_a_constant_and_the_others_are_not() -> None:
    W, other = _regressor(), _regressor()[::-1] + 0.3
    scale = np.array([10.0, 0.2, 3.0, 1.0, 5.0, 0.1])
    shift = -2 * np.log(scale).sum()
    for matrix in (W, other):
        assert criterion_value("d", matrix * scale) - criterion_value("d", matrix) == pytest.approx(
            shift, rel=1e-12
        )
    for criterion in ("cond", "a", "e"):
        ratios = [
            criterion_value(criterion, m * scale) / criterion_value(criterion, m)
            for m in (W, other)
        ]
        assert abs(ratios[0] / ratios[1] - 1) > 1e-3


@pytest.mark.parametrize("criterion", CRITERIA)
def test_singular_information_is_infinitely_bad(criterion: Criterion) -> None:
    W = _regressor()
    W[:, 3] = 2 * W[:, 0]
    assert criterion_value(criterion, W) == np.inf
    assert criterion_gradient(criterion, W)[0] == np.inf


def test_an_unknown_criterion_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cond"):
        criterion_value("con", _regressor())  # type: ignore[arg-type]
