"""Finding periods to a fraction of a sample, and putting whole numbers of samples in them."""

import numpy as np
import pytest

from gough.core.errors import InvalidRecording, NotConverged
from gough.logs.periods import (
    PeriodEstimate,
    estimate_period,
    repetition,
    resample_to_period,
    samples_around,
)
from gough.logs.recording import Recording
from gough.processing.filters import lowpass_periodic

RATE = 200.0


def motion(time: np.ndarray, period: float, harmonics: int = 5, seed: int = 0) -> np.ndarray:
    """Two joints with random Fourier series, the second a hundred times smaller."""
    rng = np.random.default_rng(seed)
    k = np.arange(1, harmonics + 1)
    phase = 2 * np.pi * np.outer(time, k) / period
    series = np.cos(phase) @ rng.normal(size=(harmonics, 2)) + np.sin(phase) @ rng.normal(
        size=(harmonics, 2)
    )
    return np.asarray(series * [1.0, 0.01])


def recording(period: float, duration: float, noise: float = 0.0, **options: int) -> Recording:
    time = np.arange(int(duration * RATE)) / RATE
    q = motion(time, period, **options)
    q = q + noise * q.std(axis=0) * np.random.default_rng(9).normal(size=q.shape)
    return Recording(
        joints=("a", "b"), time=time + 3.0, position=q, position_units=("m", "m"), effort=q * 2
    )


def known_period(seconds: float) -> PeriodEstimate:
    return PeriodEstimate(seconds=seconds, std=0.0, explained=1.0)


@pytest.mark.parametrize("period", [3.0899, 1.23456, 7.77])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_periods_without_noise_are_found_to_rounding(period: float, seed: int) -> None:
    log = recording(period, 10.3 * period, seed=seed)
    nominal = repetition(log)
    assert nominal is not None
    found = estimate_period(log, nominal)
    assert found.seconds == pytest.approx(period, rel=1e-9)
    assert found.explained == pytest.approx(1.0)


def test_noise_moves_the_estimate_by_as_much_as_its_standard_deviation_says() -> None:
    errors, stds = [], []
    time = np.arange(int(12.4 * 2.0137 * RATE)) / RATE
    clean = motion(time, 2.0137)
    for seed in range(40):
        q = clean + 0.1 * clean.std(axis=0) * np.random.default_rng(seed).normal(size=clean.shape)
        found = estimate_period(
            Recording(joints=("a", "b"), time=time, position=q, position_units=("m", "m")),
            nominal=2.01,
        )
        errors.append(found.seconds - 2.0137)
        stds.append(found.std)
    assert np.std(errors) == pytest.approx(np.mean(stds), rel=0.35)
    assert np.mean(stds) * RATE < 0.01  # a hundredth of a sample


def test_a_nominal_period_is_enough_for_two_periods_with_much_noise() -> None:
    found = estimate_period(recording(2.5, 5.1, noise=0.3), nominal=2.45)
    assert found.seconds == pytest.approx(2.5, rel=5e-3)


def test_motion_that_does_not_repeat_is_refused() -> None:
    time = np.arange(2000) / RATE
    walk = np.random.default_rng(0).normal(size=(2000, 1)).cumsum(axis=0)
    for q in (walk, np.exp(time)[:, None], np.zeros((2000, 1))):
        log = Recording(joints=("a",), time=time, position=q, position_units=("m",))
        assert repetition(log) is None
    with pytest.raises((InvalidRecording, NotConverged)):
        estimate_period(
            Recording(joints=("a",), time=time, position=walk, position_units=("m",)), nominal=1.0
        )


def test_a_weak_repetition_under_other_motion_is_refused_with_its_share() -> None:
    with pytest.raises(InvalidRecording, match=r"only .*% of the motion repeats") as caught:
        estimate_period(recording(2.5, 25.0, noise=3.0), nominal=2.5)
    assert caught.value.numbers["explained"] == pytest.approx(0.1, abs=0.05)


def test_fewer_than_two_periods_are_refused() -> None:
    with pytest.raises(InvalidRecording, match=r"twice|two periods"):
        estimate_period(recording(5.0, 9.0), nominal=5.0)
    with pytest.raises(InvalidRecording, match="two periods"):
        estimate_period(recording(5.0, 20.0), nominal=0.01)


def test_resampling_puts_a_whole_number_of_samples_in_each_period_and_ends_the_leak() -> None:
    period = 3.0899  # 617.98 samples
    log = recording(period, 8.4 * period)
    made = resample_to_period(log, estimate_period(log, nominal=3.08))
    assert made.period_samples == 618
    assert made.period_count == 8
    assert len(made) == 8 * 618
    assert [f.rule for f in made.notices] == ["resampled"]
    assert np.abs(made.position - motion(made.time - 3.0, period)).max() < 1e-6
    # The DFT over what merely looks like whole periods leaks into the accelerations; over whole
    # ones it does not.
    k = np.arange(1, 6)
    exact_rate = made.rate
    true = np.gradient(
        np.gradient(motion(np.arange(0, len(made)) / exact_rate, period), 1 / exact_rate, axis=0),
        1 / exact_rate,
        axis=0,
    )
    inside = slice(20, -20)

    def error(data: np.ndarray, n: int, rate: float) -> float:
        acceleration = lowpass_periodic(data, rate, n, k[-1] * rate / n)[2]
        return float(np.abs(acceleration - true[: len(data)])[inside].max() / np.abs(true).max())

    short = log.position[: 8 * 600]
    assert error(short, 600, RATE) > 0.1
    assert error(made.position, 618, exact_rate) < 2e-3


def test_a_record_of_exactly_whole_periods_keeps_them_all() -> None:
    log = recording(2.0, 8.0)
    made = resample_to_period(log, known_period(2.0))
    assert made.period_count == 4
    assert np.allclose(made.position, log.position, atol=1e-12)


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_a_record_of_exactly_whole_periods_keeps_them_all_under_noise(
    noise: float, seed: int
) -> None:
    log = recording(2.0, 8.0, noise=noise, seed=seed)
    found = estimate_period(log, nominal=2.0)
    made = resample_to_period(log, found)
    assert (made.period_samples, made.period_count) == (400, 4)
    assert made.time[-1] <= log.time[-1]
    assert np.diff(made.time) == pytest.approx(
        1 / RATE, rel=1e-3
    )  # no sample squeezed in at the end
    assert made.rate == pytest.approx(
        400 / found.seconds, abs=400 * 4 * found.std / found.seconds**2
    )


@pytest.mark.parametrize(("lost", "periods"), [(0, 4), (1, 3), (2, 3), (400, 3), (401, 2)])
def test_a_record_short_of_whole_periods_by_a_sample_loses_the_last(
    lost: int, periods: int
) -> None:
    log = recording(2.0, 8.0, noise=1e-2)
    shorter = log.take(slice(0, 1600 - lost))
    found = estimate_period(shorter, nominal=1.99)
    assert resample_to_period(shorter, found).period_count == periods


def test_impossible_periods_are_refused() -> None:
    log = recording(2.0, 8.0)
    with pytest.raises(InvalidRecording, match="period of -1"):
        estimate_period(log, nominal=-1.0)
    with pytest.raises(InvalidRecording, match="no whole period"):
        resample_to_period(log, known_period(9.0))


def test_samples_around_some_times_enclose_them() -> None:
    clock = np.arange(10.0)
    assert samples_around(clock, np.array([2.5, 4.5])) == slice(2, 6)
    assert samples_around(clock, np.array([2.0, 4.0])) == slice(2, 5)
    assert samples_around(clock, np.array([0.0, 9.0])) == slice(0, 10)
