"""Information over that of noise alone: what it says is what noise does to least squares."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gough.fitting.noise_information import (
    attenuation,
    information_over_noise,
    not_observed,
    whitened_rows,
)
from gough.fitting.regression import Regression

NAMES = ("a", "b", "c")


def noisy(
    rng: np.random.Generator, clean: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with noise in them, and what noise of the same size changes."""
    return clean + size * rng.standard_normal(clean.shape), size * rng.standard_normal(clean.shape)


def test_a_column_that_is_noise_beyond_the_others_has_ratio_one_however_large_it_is() -> None:
    rng = np.random.default_rng(0)
    clean = rng.standard_normal((20000, 3))
    clean[:, 2] = 3.0 * clean[:, 0] - clean[:, 1]
    size = np.array([0.0, 0.0, 0.01])
    ratio = information_over_noise(*noisy(rng, clean, size), NAMES)
    assert ratio[2] == pytest.approx(1.0, rel=0.05)
    assert (clean[:, 2] ** 2).sum() / (
        20000 * 0.01**2
    ) > 1e4  # the column alone would look well known
    assert any("c (1.0)" in notice.where for notice in not_observed(NAMES, ratio))


def test_least_squares_shrinks_by_what_the_ratio_says() -> None:
    rng = np.random.default_rng(1)
    clean, size, truth = (
        rng.standard_normal((50000, 3)),
        np.array([0.0, 0.5, 1.0]),
        np.array([2.0, -1.0, 3.0]),
    )
    clean[:, 1] += 0.5 * clean[:, 0]
    rows, changes = noisy(rng, clean, size)
    found = np.linalg.lstsq(rows, clean @ truth, rcond=None)[0]
    ratio = information_over_noise(rows, changes, NAMES)
    assert_allclose(found[1:], truth[1:] * (1 - 1 / ratio[1:]), rtol=0.03)
    assert ratio[2] < 3.0 < ratio[1]


def test_what_noise_takes_is_said_where_the_columns_of_others_are_noisy_too() -> None:
    """Two columns that move alike and share their noise: one takes from the other, whatever its own
    ratio says.
    """
    rng = np.random.default_rng(1)
    clean, truth = rng.standard_normal((50000, 3)), np.array([2.0, -1.0, 3.0])
    clean[:, 1] += 2.0 * clean[:, 0]
    error, again = (0.3 * rng.standard_normal((50000, 1)) * [1.0, -1.0, 0.0] for _ in range(2))
    found = np.linalg.lstsq(clean + error, clean @ truth, rcond=None)[0]
    taken = attenuation(clean + error, again, found, NAMES)
    assert abs(found - truth)[0] > 0.2
    assert_allclose(found + taken, truth, atol=0.15 * np.abs(found - truth).max())


def test_without_noise_everything_known_is_known_and_triangular_factors_say_the_same() -> None:
    rng = np.random.default_rng(2)
    rows, changes = noisy(rng, rng.standard_normal((500, 3)), np.array([0.1, 0.2, 0.3]))
    assert np.isinf(information_over_noise(rows, np.zeros((1, 3)), NAMES)).all()
    factors = [np.linalg.qr(part, mode="r") for part in (rows, changes)]
    assert_allclose(
        information_over_noise(*factors, NAMES),
        information_over_noise(rows, changes, NAMES),
        rtol=1e-9,
    )
    assert not_observed(NAMES, np.full(3, 3.0)) == ()


def test_equations_that_do_not_count_and_the_noise_of_rows_enter() -> None:
    rng = np.random.default_rng(3)
    regressor, std = rng.standard_normal((40, 2, 3)), np.array([2.0, 0.5])
    mask = rng.random((40, 2)) > 0.3
    problem = Regression(
        regressor=regressor,
        effort=np.zeros((40, 2)),
        rows=("x", "y"),
        row_units=("N", "N"),
        parameters=NAMES,
        units=("kg",) * 3,
        mask=mask,
    )
    factor = whitened_rows(problem, std)
    gram = sum(
        (mask[:, j, None] * regressor[:, j] / std[j]).T
        @ (mask[:, j, None] * regressor[:, j] / std[j])
        for j in range(2)
    )
    assert_allclose(factor.T @ factor, gram, rtol=1e-10)
