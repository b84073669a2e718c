"""The acceptance test of explanations: false acceptances at the stated rate, true gains found."""

from __future__ import annotations

import numpy as np
import pytest

from gough.fitting.acceptance import FAMILY_WISE_ERROR, gain_test


def squares(rng: np.random.Generator, n_blocks: int, scale: float = 1.0) -> np.ndarray:
    """Return squared errors of 30 samples in each block of two joints, (b, 2)."""
    return np.square(scale * rng.standard_normal((n_blocks, 30, 2))).sum(axis=1)


def test_gain_is_the_mean_log_ratio_of_the_errors_of_all_blocks() -> None:
    rng = np.random.default_rng(1)
    without = squares(rng, 12)
    with_explanation = without * np.array([0.25, 1.0])
    tested = gain_test(without, with_explanation, 1)
    assert tested.gain == pytest.approx(0.5 * np.log(2.0))


def test_standard_error_agrees_with_the_jackknife() -> None:
    rng = np.random.default_rng(2)
    without, with_explanation = squares(rng, 200), squares(rng, 200, 0.8)
    tested = gain_test(without, with_explanation, 1)
    values = []
    for block in range(200):
        totals = [
            np.delete(each, block, axis=0).sum(axis=0) for each in (without, with_explanation)
        ]
        values.append(0.5 * np.log(totals[0] / totals[1]).mean())
    jackknife = np.sqrt(199 / 200 * np.square(values - np.mean(values)).sum())
    assert tested.gain / tested.t >= 0.99 * jackknife  # wider only by the correlation found
    assert tested.gain / tested.t == pytest.approx(jackknife, rel=0.25)


def test_chance_is_accepted_no_more_often_than_stated() -> None:
    rng = np.random.default_rng(3)
    n_studies, n_tried = 300, 20
    accepted = 0
    for _ in range(n_studies):
        without = squares(rng, 24)
        accepted += any(
            gain_test(without, squares(rng, 24), n_tried).accepted for _ in range(n_tried)
        )
    # family-wise 1 %: more than 8 of 300 has a probability below 0.4 %
    assert accepted <= 8
    assert FAMILY_WISE_ERROR == 0.01


def test_correlated_blocks_count_less() -> None:
    rng = np.random.default_rng(4)
    without = squares(rng, 40)
    ratio = np.exp(-0.2 + 0.3 * rng.standard_normal((10, 1)))
    together = gain_test(without, without * np.repeat(ratio, 4, axis=0), 1)
    mixed = gain_test(without, without * rng.permutation(np.repeat(ratio, 4, axis=0)), 1)
    assert together.t < 0.75 * mixed.t


def test_one_block_proves_nothing() -> None:
    assert not gain_test(np.ones((1, 2)), np.full((1, 2), 1e-3), 1).accepted
