"""Decimation: one symmetric FIR low-pass, regressor and effort in parallel, what does not count
left out of both.
"""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import signal

from gough.core.errors import InvalidInput
from gough.fitting.regression import Regression, block_statistics
from gough.processing.filters import decimated, decimation_taps, lowpass

RNG = np.random.default_rng(5)
TRUTH = np.array([1.0, -2.0, 0.5])


def problem(samples: int = 3000, **changes: object) -> Regression:
    rng = np.random.default_rng(1)
    W = rng.normal(size=(samples, 2, 3)).cumsum(axis=0)
    fields: dict[str, object] = {
        "regressor": W,
        "effort": W @ TRUTH,
        "rows": ("a", "b"),
        "row_units": ("N", "N"),
        "parameters": ("x", "y", "z"),
        "units": ("", "", ""),
        "time": np.arange(samples) / 100.0,
    }
    return Regression(**(fields | changes))  # type: ignore[arg-type]


def whole(parts: list[Regression], name: str) -> np.ndarray:
    return np.concatenate([getattr(part, name) for part in parts])


@pytest.mark.parametrize("factor", [0, -2, 2.5])
def test_impossible_factors_are_refused(factor: float) -> None:
    with pytest.raises(InvalidInput, match="decimation by"):
        lowpass(np.zeros((100, 1)), factor)  # type: ignore[arg-type]


@pytest.mark.parametrize("factor", [2, 5, 10, 40])
def test_taps_pass_the_band_and_stop_what_would_fold_back(factor: int) -> None:
    taps = decimation_taps(factor)
    w, response = signal.freqz(taps, worN=20000)
    gain, nyquist = np.abs(response), np.pi / factor
    assert len(taps) % 2 == 1
    np.testing.assert_allclose(taps, taps[::-1], atol=1e-15)
    assert taps.sum() == pytest.approx(1.0)
    assert np.abs(gain[w <= 0.6 * nyquist] - 1).max() < 0.02
    assert gain[w >= nyquist].max() < 0.015
    assert np.interp(0.8 * nyquist, w, gain) == pytest.approx(0.5, abs=0.01)


def test_the_low_pass_equals_a_convolution_and_keeps_waves_in_place() -> None:
    x = RNG.normal(size=(500, 3))
    taps = decimation_taps(4)
    full = np.stack([np.convolve(c, taps, mode="valid") for c in x.T], axis=1)
    np.testing.assert_allclose(lowpass(x, 4), full[::4], atol=1e-12)
    wave = np.sin(2 * np.pi * 0.01 * np.arange(2000))[:, None]
    made, middle = lowpass(wave, 4), (len(taps) - 1) // 2
    assert np.abs(made - wave[middle : middle + 4 * len(made) : 4][: len(made)]).max() < 0.02
    assert not len(lowpass(x[: len(taps) - 1], 4))
    np.testing.assert_array_equal(lowpass(x, 1), x)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 90), min_size=1, max_size=8), st.floats(0, 0.5))
def test_streams_decimate_exactly_like_the_whole(
    factor: int, sizes: list[int], left_out: float
) -> None:
    samples = sum(sizes)
    rng = np.random.default_rng(samples)
    full = problem(
        samples, mask=rng.uniform(size=(samples, 2)) >= left_out, sample=np.arange(samples)
    )
    blocks = [full.take(slice(end - size, end)) for size, end in zip(sizes, np.cumsum(sizes))]
    parts, once = list(decimated(blocks, factor)), list(decimated([full], factor))
    assert sum(len(part) for part in parts) == sum(len(part) for part in once)
    for name in ("regressor", "effort", "mask", "sample", "time") if once else ():
        np.testing.assert_allclose(whole(parts, name), whole(once, name), atol=1e-11)


@pytest.mark.parametrize("size", [64, 999, 5000])
def test_streamed_regressions_carry_labels_noise_and_repetitions(size: int) -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(600, 2, 2))
    full = problem(
        600,
        covariance=root @ root.swapaxes(1, 2),
        replicates=rng.normal(size=(4, 600, 2)),
        group=np.arange(600) // 100,
        sample=np.arange(600) + 7,
    )
    parts = list(decimated(full.blocks(size), 5))
    taps = decimation_taps(5)
    count, middle = (600 - len(taps)) // 5 + 1, (len(taps) - 1) // 2
    kept = middle + 5 * np.arange(count)
    np.testing.assert_allclose(whole(parts, "regressor"), lowpass(full.regressor, 5), atol=1e-12)
    np.testing.assert_allclose(whole(parts, "effort"), lowpass(full.effort, 5), atol=1e-12)
    for name in ("time", "group", "sample"):
        np.testing.assert_array_equal(whole(parts, name), getattr(full, name)[kept])
    replicates = np.concatenate([part.replicates for part in parts], axis=1)
    np.testing.assert_allclose(replicates[2], lowpass(full.replicates[2], 5), atol=1e-12)
    expected = sum(
        h**2 * full.covariance[j : j + 5 * count : 5][:count] for j, h in enumerate(taps)
    )
    np.testing.assert_allclose(whole(parts, "covariance"), expected, rtol=1e-10)


def test_equations_that_do_not_count_leave_no_trace_in_those_that_do() -> None:
    """Whatever the effort was there: what is left out of both sides cannot be seen."""
    mask = np.ones((3000, 2), bool)
    mask[1000:1012, 0] = mask[2000:2300, 1] = False
    clean = problem(mask=mask)
    spoilt = problem(mask=mask, effort=clean.effort + 1e6 * ~mask)
    one, two = (next(iter(decimated([p], 10))) for p in (clean, spoilt))
    np.testing.assert_array_equal(one.mask, two.mask)
    np.testing.assert_allclose(one.effort[one.mask], two.effort[two.mask], rtol=1e-9)
    np.testing.assert_allclose(one.effort, one.regressor @ TRUTH, rtol=1e-9, atol=1e-9)
    assert one.mask[:, 0].sum() >= len(one) - 2  # a dozen samples of a filter over a hundred
    assert 25 <= (~one.mask[:, 1]).sum() <= 35  # three hundred of them, thirty equations


def test_an_equation_counts_if_half_of_the_energy_of_its_filter_does() -> None:
    taps = decimation_taps(10)
    for width in range(0, len(taps), 6):
        mask = np.ones((len(taps), 2), bool)
        mask[:width, 0] = False
        (made,) = decimated([problem(len(taps), mask=mask)], 10)
        assert made.mask.tolist() == [
            [bool((taps[width:] ** 2).sum() >= 0.5 * (taps**2).sum()), True]
        ]


@pytest.mark.parametrize("excluded", [200, 1000])  # few are computed alone, many with all others
def test_what_does_not_count_is_still_shown_low_passed(excluded: int) -> None:
    mask = np.ones((3000, 2), bool)
    mask[1000 : 1000 + excluded, 0] = False
    (made,) = decimated([problem(mask=mask)], 10)
    (plain,) = decimated([problem()], 10)
    assert (~made.mask).any()
    np.testing.assert_allclose(made.effort[~made.mask], plain.effort[~made.mask], rtol=1e-9)
    np.testing.assert_allclose(made.effort[:, 1], plain.effort[:, 1], rtol=1e-12)


def test_a_period_is_decimated_around_its_ends() -> None:
    """As the middle one of three equal periods is."""
    period = 400
    angle = 2 * np.pi * np.arange(period) / period
    W = np.stack([np.cos(k * angle + k) for k in range(1, 7)], axis=1).reshape(period, 2, 3)
    one = problem(period, regressor=W, effort=W @ TRUTH, sample=np.arange(period))
    parts = list(decimated(one.blocks(150), 8, periodic=True))
    np.testing.assert_array_equal(whole(parts, "sample"), np.arange(0, period, 8))
    half = (len(decimation_taps(8)) - 1) // 2
    three = np.concatenate([W] * 3)[period - half : 2 * period + half]
    np.testing.assert_allclose(whole(parts, "regressor"), lowpass(three, 8), atol=1e-12)
    with pytest.raises(InvalidInput, match="cannot be decimated as one period"):
        list(decimated([one], 80, periodic=True))


def test_covariance_of_decimated_white_noise_is_right() -> None:
    sigma = np.array([[2.0, 0.6], [0.6, 1.0]])
    noise = RNG.multivariate_normal([0, 0], sigma, size=200_000)
    (made,) = decimated([problem(200_000, effort=noise, covariance=sigma)], 5)
    assert made.covariance == pytest.approx(np.cov(made.effort.T), rel=0.05)


def test_filtering_the_effort_alone_biases_friction_and_filtering_in_parallel_does_not() -> None:
    """AH09 3.3: a filtered effort no longer fits a regressor with steps in it."""
    t = np.arange(20_000) / 1000.0
    w = 2 * np.pi
    qd = w * np.cos(w * t) + 2 * w * 0.3 * np.cos(2 * w * t + 1)
    qdd = -(w**2) * np.sin(w * t) - (2 * w) ** 2 * 0.3 * np.sin(2 * w * t + 1)
    W = np.column_stack([qdd, np.sign(qd)])
    truth = np.array([2.0, 20.0])
    effort = W @ truth + RNG.normal(scale=1.0, size=len(t))
    middle = (len(decimation_taps(100)) - 1) // 2
    kept = slice(middle, len(t) - middle, 100)
    alone = np.linalg.lstsq(W[kept], lowpass(effort, 100), rcond=None)[0]
    both = np.linalg.lstsq(lowpass(W, 100), lowpass(effort, 100), rcond=None)[0]
    assert abs(alone[1] / truth[1] - 1) > 0.02
    assert abs(both[1] / truth[1] - 1) < 0.01


def test_streaming_memory_does_not_grow_with_the_stream() -> None:
    block = problem(2000)

    def peak(count: int) -> int:
        tracemalloc.start()
        block_statistics(decimated((block for _ in range(count)), 10))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(2)
    assert peak(60) < 1.3 * peak(6)


def test_the_mean_of_valid_equations_does_not_depend_on_how_many_there_are() -> None:
    """A third of the samples is excluded, another third in the other row: constants stay."""
    counts = np.ones((600, 2), dtype=bool)
    counts[::3, 0] = False
    counts[1::3, 1] = False
    constant = problem(
        600, regressor=np.full((600, 2, 3), 2.0), effort=np.full((600, 2), 5.0), mask=counts
    )
    parts = list(decimated([constant], 10))
    assert whole(parts, "valid").all()
    np.testing.assert_allclose(whole(parts, "effort"), 5.0, rtol=1e-12)
    np.testing.assert_allclose(whole(parts, "regressor"), 2.0, rtol=1e-12)
