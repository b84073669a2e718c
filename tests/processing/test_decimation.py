"""Decimation: MATLAB's rule in memory, polyphase FIR in streams, regressor and effort in parallel."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from gough.core.errors import InvalidInput
from gough.core.regression import Regression, condense
from gough.processing.decimation import (
    decimate,
    decimate_blocks,
    decimate_fir,
    decimate_regression,
    decimate_regression_blocks,
    decimation_taps,
)

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("samples", [200, 203, 209, 210])
def test_decimate_filters_like_scipy_and_keeps_the_last_sample(samples: int) -> None:
    x = RNG.normal(size=(samples, 2)).cumsum(axis=0)
    b, a = signal.cheby1(8, 0.05, 0.8 / 10)
    smooth = signal.filtfilt(b, a, x, axis=0, padlen=24)
    y = decimate(x, 10)
    first = 10 - (10 * int(np.ceil(samples / 10)) - samples)  # MATLAB's rule, counted from 1
    assert len(y) == int(np.ceil(samples / 10))
    assert np.allclose(y, smooth[first - 1::10], atol=1e-6)
    assert np.allclose(y[-1], smooth[-1], atol=1e-6)


def test_decimate_takes_arrays_of_any_shape_and_factor_one_changes_nothing() -> None:
    x = RNG.normal(size=(100, 2, 3))
    assert np.array_equal(decimate(x, 1), x)
    assert np.allclose(decimate(x, 4)[:, 1, 2], decimate(x[:, 1, 2], 4))


@pytest.mark.parametrize("factor", [0, -2, 2.5])
def test_impossible_factors_are_refused(factor: float) -> None:
    for call in (decimate, decimate_fir):
        with pytest.raises(InvalidInput, match="decimation by"):
            call(np.zeros((100, 1)), factor)  # type: ignore[arg-type]


def test_too_few_samples_and_bad_taps_are_refused() -> None:
    with pytest.raises(InvalidInput, match="24"):
        decimate(np.zeros((24, 1)), 2)
    for taps in (np.ones(4), np.array([1.0, 2.0, 3.0])):
        with pytest.raises(InvalidInput, match="symmetric"):
            decimate_fir(np.zeros((100, 1)), 2, taps)
    with pytest.raises(InvalidInput, match="at least as many"):
        decimate_fir(np.zeros((100, 1)), 5, np.ones(3))


@pytest.mark.parametrize("factor", [2, 5, 10, 40])
def test_taps_pass_the_band_and_stop_what_would_fold_back(factor: int) -> None:
    taps = decimation_taps(factor)
    w, response = signal.freqz(taps, worN=20000)
    gain = np.abs(response)
    nyquist = np.pi / factor
    assert taps.sum() == pytest.approx(1.0)
    assert np.abs(gain[w <= 0.6 * nyquist] - 1).max() < 2e-3
    assert gain[w >= nyquist].max() < 2e-3
    assert np.interp(0.8 * nyquist, w, gain) == pytest.approx(0.5, abs=0.01)


def test_fir_decimation_equals_scipy_convolution_and_keeps_waves_in_place() -> None:
    x = RNG.normal(size=(500, 3))
    taps = decimation_taps(4)
    full = np.stack([np.convolve(c, taps, mode="valid") for c in x.T], axis=1)
    assert np.allclose(decimate_fir(x, 4), full[::4], atol=1e-12)
    t = np.arange(2000)
    wave = np.sin(2 * np.pi * 0.01 * t)[:, None]
    middle = (len(taps) - 1) // 2
    y = decimate_fir(wave, 4)
    assert np.abs(y - wave[middle:middle + 4 * len(y):4][:len(y)]).max() < 2e-3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.lists(st.integers(0, 90), min_size=1, max_size=8))
def test_streams_decimate_exactly_like_the_whole(factor: int, sizes: list[int]) -> None:
    x = np.random.default_rng(sum(sizes)).normal(size=(sum(sizes), 2, 2))
    borders = np.cumsum(sizes)[:-1]
    taps = decimation_taps(factor, attenuation=30.0)
    parts = list(decimate_blocks(np.split(x, borders), factor, taps))
    assert np.allclose(np.concatenate(parts), decimate_fir(x, factor, taps), atol=1e-13)


def problem(samples: int = 3000, **changes: object) -> Regression:
    rng = np.random.default_rng(1)
    W = rng.normal(size=(samples, 2, 3)).cumsum(axis=0)
    fields: dict[str, object] = {
        "regressor": W, "effort": W @ [1.0, -2.0, 0.5], "rows": ("a", "b"), "row_units": ("N", "N"),
        "parameters": ("x", "y", "z"), "units": ("", "", ""), "time": np.arange(samples) / 100.0}
    return Regression(**(fields | changes))  # type: ignore[arg-type]


def test_parallel_decimation_keeps_the_model_exact() -> None:
    small = decimate_regression(problem(), 10)
    assert len(small) == 300
    assert np.allclose(small.effort, small.regressor @ [1.0, -2.0, 0.5], atol=1e-9)
    assert np.array_equal(small.time, problem().time[9::10])
    assert np.allclose(small.regressor, decimate(problem().regressor, 10))


def test_decimation_does_not_reach_over_group_borders() -> None:
    group = np.repeat([3, 1, 3], 1000)
    whole = problem(group=group)
    small = decimate_regression(whole, 10)
    for start, label in ((0, 3), (1000, 1), (2000, 3)):
        alone = decimate_regression(problem().take(slice(start, start + 1000)), 10)
        rows = slice(start // 10, start // 10 + 100)
        assert np.allclose(small.regressor[rows], alone.regressor)
        assert np.all(small.group[rows] == label)
    streamed = list(decimate_regression_blocks(whole.blocks(170), 10))
    per_group = (1000 - len(decimation_taps(10))) // 10 + 1
    assert sum(len(b) for b in streamed) == 3 * per_group
    assert np.concatenate([b.group for b in streamed]).tolist() == [3] * per_group + [1] * per_group + [3] * per_group
    first = np.concatenate([b.effort for b in streamed])[per_group:2 * per_group]
    assert np.allclose(first, decimate_fir(whole.effort[1000:2000], 10), atol=1e-12)


def test_empty_blocks_in_a_stream_change_nothing() -> None:
    whole = problem(600, group=np.zeros(600, int))
    empty = whole.take(slice(0, 0))
    blocks = [empty, whole.take(slice(0, 250)), empty, whole.take(slice(250, 600)), empty]
    made = np.concatenate([b.effort for b in decimate_regression_blocks(blocks, 5)])
    assert np.allclose(made, decimate_fir(whole.effort, 5), atol=1e-12)


@pytest.mark.parametrize("size", [1, 64, 999, 5000])
def test_streamed_regressions_equal_the_whole_with_times_noise_and_replicates(size: int) -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(600, 2, 2))
    whole = problem(600, covariance=root @ root.swapaxes(1, 2), replicates=rng.normal(size=(4, 600, 2)))
    parts = list(decimate_regression_blocks(whole.blocks(size), 5))
    taps = decimation_taps(5)
    middle = (len(taps) - 1) // 2
    count = (600 - len(taps)) // 5 + 1
    assert np.allclose(np.concatenate([b.regressor for b in parts]), decimate_fir(whole.regressor, 5), atol=1e-12)
    assert np.allclose(np.concatenate([b.effort for b in parts]), decimate_fir(whole.effort, 5), atol=1e-12)
    assert np.array_equal(np.concatenate([b.time for b in parts]), whole.time[middle:middle + 5 * count:5][:count])
    replicates = np.concatenate([b.replicates for b in parts], axis=1)
    assert np.allclose(replicates[2], decimate_fir(whole.replicates[2], 5), atol=1e-12)
    covariance = np.concatenate([b.covariance for b in parts])
    expected = sum(h**2 * whole.covariance[j:j + 5 * count:5][:count] for j, h in enumerate(taps))
    assert np.allclose(covariance, expected)


def test_covariance_of_decimated_white_noise_is_right() -> None:
    sigma = np.array([[2.0, 0.6], [0.6, 1.0]])
    noise = RNG.multivariate_normal([0, 0], sigma, size=200_000)
    whole = problem(200_000, effort=noise, covariance=sigma)
    small = decimate_regression(whole, 5)
    assert small.covariance == pytest.approx(np.cov(small.effort.T), rel=0.05)
    (streamed,) = decimate_regression_blocks([whole], 5)
    assert streamed.covariance == pytest.approx(np.cov(streamed.effort.T), rel=0.05)


def test_filtering_the_effort_alone_biases_friction_and_filtering_in_parallel_does_not() -> None:
    """AH09 3.3: a filtered effort no longer fits a regressor with steps in it."""
    t = np.arange(20_000) / 1000.0
    w = 2 * np.pi
    qd = w * np.cos(w * t) + 2 * w * 0.3 * np.cos(2 * w * t + 1)
    qdd = -(w**2) * np.sin(w * t) - (2 * w) ** 2 * 0.3 * np.sin(2 * w * t + 1)
    W = np.column_stack([qdd, np.sign(qd)])
    truth = np.array([2.0, 20.0])
    effort = W @ truth + RNG.normal(scale=1.0, size=len(t))
    sections = signal.butter(4, 4.0, fs=1000.0, output="sos")
    alone = np.linalg.lstsq(W, signal.sosfiltfilt(sections, effort), rcond=None)[0]
    both = np.linalg.lstsq(signal.sosfiltfilt(sections, W, axis=0), signal.sosfiltfilt(sections, effort), rcond=None)[0]
    plain = np.linalg.lstsq(W, effort, rcond=None)[0]
    assert abs(alone[1] / truth[1] - 1) > 0.02
    assert abs(both[1] / truth[1] - 1) < 0.005
    assert abs(plain[1] / truth[1] - 1) < 0.005


def test_streaming_memory_does_not_grow_with_the_stream() -> None:
    block = problem(2000)

    def peak(count: int) -> int:
        tracemalloc.start()
        condense(decimate_regression_blocks((block for _ in range(count)), 10))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(2)
    assert peak(60) < 1.3 * peak(6)
