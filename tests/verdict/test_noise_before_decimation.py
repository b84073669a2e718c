"""Noise of decimated logs, known from what was recorded before decimation."""

from __future__ import annotations

import numpy as np

from gough.processing.filters import decimated_noise, decimation_taps, masked_lowpass
from gough.verdict.blocks import BlockSums, cross_validate, expected_squares
from gough.verdict.noise import least_white_noise

RNG = np.random.default_rng(8)


def test_decimation_leaves_of_white_noise_what_many_realisations_show() -> None:
    mask = np.ones((200, 2), bool)
    mask[90:105, 1] = False
    noise = RNG.normal(size=(200, 2, 4000))
    outputs, valid = masked_lowpass(noise, mask, 7)
    power = decimated_noise(mask, 7)
    assert valid.any()
    np.testing.assert_allclose(power[0, 0], decimation_taps(7) @ decimation_taps(7))
    np.testing.assert_allclose(outputs.var(axis=2)[valid], power[valid], rtol=0.1)
    assert power[valid].max() > 1.2 * power[0, 0]  # near the equations left out


def test_where_nothing_is_valid_the_noise_is_that_of_one_sample() -> None:
    assert (decimated_noise(np.zeros((90, 1), bool), 7) == 1.0).all()


def test_white_noise_is_found_above_slow_errors_and_never_exceeded() -> None:
    """A slow model error of ten times the noise is not taken for noise."""
    time = np.arange(5000) / 1000.0
    predicted = np.sin(2 * np.pi * 1.3 * time)[:, None] * [3.0, 5.0]
    noise = RNG.normal(size=(5000, 2)) * [0.1, 0.3]
    power = least_white_noise(noise + 0.3 * predicted, predicted)
    assert power is not None
    np.testing.assert_allclose(power, [0.01, 0.09], rtol=0.25)
    assert (power < [0.0105, 0.0945]).all()


def test_noise_of_few_samples_is_not_known() -> None:
    assert least_white_noise(np.ones((20, 1)), np.ones((20, 1))) is None


def test_errors_of_blocks_left_out_are_those_that_many_noises_cause() -> None:
    n_blocks, n_samples, n_parameters = 6, 20, 8
    noise = np.array([0.2, 1.5])
    regressor = RNG.normal(size=(n_blocks, n_samples, 2, n_parameters))
    values = RNG.normal(size=n_parameters)
    squares = []
    for _ in range(300):
        errors = RNG.normal(size=(n_blocks, n_samples, 2)) * np.sqrt(noise)
        effort = regressor @ values + errors
        stacked = np.concatenate([regressor, effort[..., None]], axis=-1)
        by_row = stacked.transpose(0, 2, 1, 3)
        sums = BlockSums(
            grams=by_row.transpose(0, 1, 3, 2) @ by_row,
            n_valid=np.full((n_blocks, 2), n_samples),
            log=np.zeros(n_blocks, np.int64),
            n_parameters=n_parameters,
        )
        validation = cross_validate(sums, range(n_parameters), weights=1 / noise)
        squares.append(validation.squares.sum(axis=0))
    expected = expected_squares(sums, noise)
    np.testing.assert_allclose(np.mean(squares, axis=0), expected, rtol=0.03)
    assert (expected > 1.005 * noise * n_blocks * n_samples).all()  # more than noise alone
    unknown = np.zeros(2)
    assert (expected_squares(sums, unknown) == 0).all()
