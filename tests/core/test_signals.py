"""Spectra and filters against scipy.signal and scipy.ndimage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage, signal as scipy_signal

from gough.core.signals import (
    Ends,
    kaiser_lowpass,
    power_density,
    recursive_filter,
    running,
    weighted_window,
)


@pytest.mark.parametrize(("samples", "segment"), [(1000, 256), (1001, 255), (300, 300), (37, 37)])
def test_the_power_density_is_that_of_welch(samples: int, segment: int) -> None:
    noise = np.random.default_rng(0).normal(size=(samples, 3)) + 5.0
    frequency, density = power_density(noise, segment)
    expected_frequency, expected = scipy_signal.welch(noise, nperseg=segment, axis=0)
    np.testing.assert_allclose(frequency, expected_frequency)
    np.testing.assert_allclose(density, expected, rtol=1e-9, atol=1e-12 * expected.max())


@pytest.mark.parametrize("factor", [2, 3, 10, 50])
def test_the_low_pass_is_that_of_kaiser(factor: int) -> None:
    count, beta = scipy_signal.kaiserord(40.0, 0.4 / factor)
    expected = scipy_signal.firwin(count | 1, 0.8 / factor, window=("kaiser", beta))
    taps = kaiser_lowpass(0.8 / factor, 0.4 / factor, 40.0)
    np.testing.assert_allclose(taps, expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("shape", [(1,), (200,), (200, 3), (50, 2, 2)])
def test_the_recursive_filter_of_first_order_is_that_of_lfilter(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    pole, part = 0.9, 0.3
    start = part * values[:1]
    filtered = recursive_filter(values, (1 - part, part - pole), (-pole,), start)
    expected, _ = scipy_signal.lfilter(
        [1 - part, part - pole], [1, -pole], values, axis=0, zi=start
    )
    np.testing.assert_allclose(filtered, expected, rtol=1e-12, atol=1e-14)


def test_the_recursive_filter_of_higher_order_is_that_of_lfilter() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(120, 2))
    numerator, denominator = scipy_signal.butter(3, 0.2)
    start = rng.normal(size=(3, 2))
    filtered = recursive_filter(values, numerator, denominator[1:], start)
    expected, _ = scipy_signal.lfilter(numerator, denominator, values, axis=0, zi=start)
    np.testing.assert_allclose(filtered, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("ends", "mode"), [("edge", "nearest"), ("wrap", "wrap"), ("constant", "constant")]
)
@pytest.mark.parametrize("width", [1, 2, 5, 10, 33, 63])
def test_running_extremes_are_those_of_scipy(ends: Ends, mode: str, width: int) -> None:
    values = np.random.default_rng(0).normal(size=(31, 2))
    largest = ndimage.maximum_filter1d(values, width, axis=0, mode=mode)
    smallest = ndimage.minimum_filter1d(values, width, axis=0, mode=mode)
    np.testing.assert_array_equal(running(np.maximum, values, width, ends), largest)
    np.testing.assert_array_equal(running(np.minimum, values, width, ends), smallest)


@pytest.mark.parametrize("width", [1, 4, 9])
def test_the_weighted_window_is_a_correlation(width: int) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(40, 3))
    weights = generator.normal(size=width)
    expected = ndimage.correlate1d(values, weights, axis=0, mode="nearest")
    np.testing.assert_allclose(weighted_window(values, weights), expected, atol=1e-13)
