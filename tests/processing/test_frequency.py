"""Frequency-domain filtering: exact on known series, equal to NumPy's DFT, no leakage where the implicit fit leaks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gough.core.errors import InvalidInput
from gough.logs.recording import Recording
from gough.processing.averaging import average_periods
from gough.processing.filters import differentiate
from gough.processing.frequency import (
    amplitude_spectrum,
    best_cutoff,
    compare_spectra,
    fourier_fit,
    lowpass_periodic,
)

RATE, N = 100.0, 309
F = RATE / N


def series(time: np.ndarray, mu: np.ndarray, nu: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, ...]:
    """AH09 (12), (14), (15) written out term by term."""
    x, v, a = (np.zeros((len(time), mu.shape[1])) for _ in range(3))
    for k in range(1, len(mu) + 1):
        w = 2 * np.pi * k * F
        s, c = np.sin(w * time)[:, None], np.cos(w * time)[:, None]
        x += mu[k - 1] / w * s - nu[k - 1] / w * c
        v += mu[k - 1] * c + nu[k - 1] * s
        a += -mu[k - 1] * w * s + nu[k - 1] * w * c
    return x + offset, v, a


def known(harmonics: int = 5, periods: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    mu, nu = rng.normal(size=(2, harmonics, 2))
    return (np.arange(periods * N) / RATE, mu, nu, np.array([3.0, -1.0]))


@pytest.mark.parametrize("periods", [1, 3])
def test_position_velocity_and_acceleration_of_a_series_are_exact(periods: int) -> None:
    time, mu, nu, offset = known(periods=periods)
    x, v, a = series(time, mu, nu, offset)
    made = lowpass_periodic(x, RATE, N, 5 * F)
    assert np.abs(made.position - x).max() < 1e-12
    assert np.abs(made.velocity - v).max() < 1e-11
    assert np.abs(made.acceleration - a).max() < 1e-10


def test_the_harmonic_at_the_cut_off_stays_and_all_above_go() -> None:
    time, mu, nu, offset = known(harmonics=7)
    x, _, _ = series(time, mu, nu, offset)
    low, _, acceleration = series(time, mu[:5], nu[:5], offset)
    for cutoff in (5 * F, 5.99 * F):
        made = lowpass_periodic(x, RATE, N, cutoff)
        assert np.abs(made.position - low).max() < 1e-12
        assert np.abs(made.acceleration - acceleration).max() < 1e-10


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 1000), st.floats(0.05, 0.49))
def test_filtering_equals_a_sum_over_harmonics_for_any_signal(n: int, periods: int, seed: int, part: float) -> None:
    """Second opinion without an FFT: projections on sines and cosines, differentiated term by term."""
    x = np.random.default_rng(seed).normal(size=(n * periods, 1))
    t = np.arange(len(x)) / RATE
    cutoff = max(part * RATE, RATE / n)
    if not cutoff < RATE / 2:
        return
    y, v = np.full_like(x, x.mean()), np.zeros_like(x)
    for k in range(1, (len(x) + 1) // 2):
        f = k * RATE / len(x)
        if f <= cutoff * (1 + 1e-9):
            w = 2 * np.pi * f
            c, s = 2 / len(x) * (np.cos(w * t) @ x), 2 / len(x) * (np.sin(w * t) @ x)
            y += np.outer(np.cos(w * t), c) + np.outer(np.sin(w * t), s)
            v += w * (np.outer(np.cos(w * t), s) - np.outer(np.sin(w * t), c))
    made = lowpass_periodic(x, RATE, n, cutoff)
    assert np.allclose(made.position, y, atol=1e-9)
    assert np.allclose(made.velocity, v, atol=1e-7)


@pytest.mark.parametrize(("samples", "cutoff", "words"), [
    (3 * N - 1, 5 * F, "2.9968 periods"), (100, 5 * F, "whole"), (0, 5 * F, "whole"),
    (N, 50.0, "Nyquist"), (N, 80.0, "Nyquist"), (N, 0.9 * F, "below the fundamental"), (N, -1.0, "Nyquist"),
])
def test_parts_of_periods_and_wrong_cut_offs_are_refused(samples: int, cutoff: float, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        lowpass_periodic(np.zeros((samples, 1)), RATE, N, cutoff)


def test_a_nan_and_a_period_of_one_sample_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not finite"):
        lowpass_periodic(np.full((N, 1), np.nan), RATE, N, 5 * F)
    with pytest.raises(InvalidInput, match="1 samples"):
        lowpass_periodic(np.zeros((N, 1)), RATE, 1, 5 * F)


def test_the_implicit_fit_recovers_mu_and_nu_with_their_signs() -> None:
    time, mu, nu, offset = known()
    x, v, a = series(time, mu, nu, offset)
    fit = fourier_fit(x, time, F, 5)
    assert np.allclose(fit.mu, mu, atol=1e-10)
    assert np.allclose(fit.nu, nu, atol=1e-10)  # (17) as printed gives -nu
    assert np.allclose(fit.offset, offset)
    made = fit.at(time)
    assert np.allclose(made.velocity, v, atol=1e-10)
    assert np.allclose(made.acceleration, a, atol=1e-9)


def test_implicit_and_explicit_agree_on_noisy_data_when_the_frequency_is_exact() -> None:
    time, mu, nu, offset = known(periods=1)
    x = series(time, mu, nu, offset)[0] + np.random.default_rng(1).normal(scale=0.1, size=(N, 2))
    both = compare_spectra(x, RATE, N, F, 5)
    assert np.abs(both.difference).max() < 1e-9


def test_a_mistuned_frequency_leaks_implicitly_and_not_explicitly() -> None:
    """AH09 Fig. 2: whole periods, only the nominal frequency off by 1 %."""
    time, mu, nu, offset = known(periods=4)
    x, v, a = series(time, mu, nu, offset)
    both = compare_spectra(x, RATE, N, 1.01 * F, 5)
    truth = np.stack([amplitude_spectrum(s) for s in (x, v, a)])
    above = both.frequency > 5.5 * F
    scale = truth[:, 1:].max(axis=(1, 2))
    assert np.all(np.abs(both.explicit - truth).max(axis=(1, 2)) < 1e-10 * scale)
    assert np.all(both.explicit[:, above].max(axis=(1, 2)) < 1e-10 * scale)
    assert np.all(np.abs(both.implicit - truth).max(axis=(1, 2)) > 0.05 * scale)
    assert np.all(both.implicit[:, above].max(axis=(1, 2)) > 1e-3 * scale)


def test_processing_in_the_frequency_domain_beats_time_domain_and_raw_derivatives() -> None:
    """AH09 Fig. 4 in terms of the accelerations that enter the regressor."""
    time, mu, nu, offset = known(periods=4)
    x, _, a = series(time, mu, nu, offset)
    noisy = x + np.random.default_rng(2).normal(scale=1e-3, size=x.shape)
    inside = slice(100, -100)

    def error(acceleration: np.ndarray) -> float:
        return float(np.sqrt(np.mean((acceleration - a)[inside] ** 2)))

    explicit = error(lowpass_periodic(noisy, RATE, N, 5 * F).acceleration)
    filtered = min(error(differentiate(noisy, RATE, c).acceleration) for c in (2.0, 3.0, 5.0, 8.0))
    raw = error(differentiate(noisy, RATE, None).acceleration)
    assert explicit < 0.5 * filtered < 0.1 * raw


@pytest.mark.parametrize(("frequency", "harmonics", "words"), [
    (F, 0, "harmonics"), (F, 200, "harmonics"), (0.0, 5, "positive"), (20.0, 5, "Nyquist"),
])
def test_impossible_fits_are_refused(frequency: float, harmonics: int, words: str) -> None:
    time = np.arange(N) / RATE
    with pytest.raises(InvalidInput, match=words):
        fourier_fit(np.zeros((N, 1)), time, frequency, harmonics)


def test_amplitudes_are_those_of_the_waves() -> None:
    for n in (40, 41):
        t = np.arange(n)
        wave = 3.0 + 2.0 * np.cos(2 * np.pi * 4 * t / n + 1) + (0.5 * (-1.0) ** t if n == 40 else 0.0)
        found = amplitude_spectrum(wave[:, None])[:, 0]
        assert found[0] == pytest.approx(3.0)
        assert found[4] == pytest.approx(2.0)
        if n == 40:
            assert found[20] == pytest.approx(0.5)


def average(noise: float, step: float | None = None, periods: int = 20):
    time, mu, nu, offset = known(periods=periods)
    x = series(time, mu, nu, offset)[0]
    x = x + np.random.default_rng(3).normal(scale=noise, size=x.shape) if noise else x
    if step is not None:
        x = np.round(x / step) * step
    return average_periods(Recording(joints=("a", "b"), time=time, position=x, position_units=("m", "m"), effort=x,
                                     period_samples=N))


@pytest.mark.parametrize(("noise", "step"), [(1e-4, None), (1e-2, None), (1e-3, 1e-3), (0.0, 1e-3), (0.0, None)])
def test_the_best_cut_off_keeps_the_harmonics_there_are(noise: float, step: float | None) -> None:
    assert best_cutoff(average(noise, step)) == pytest.approx(5 * F, abs=1.5 * F)


def test_chance_at_high_frequencies_does_not_decide_the_cut_off() -> None:
    """Weighted by k^4 one lucky bin of hundreds would; the noise of a few periods must not."""
    time, mu, nu, offset = known(periods=4)
    x = series(time, mu, nu, offset)[0]
    for seed in range(30):
        noisy = x + np.random.default_rng(seed).normal(scale=3e-3, size=x.shape)
        log = Recording(joints=("a", "b"), time=time, position=noisy, position_units=("m", "m"), effort=x,
                        period_samples=N)
        assert best_cutoff(average_periods(log)) == pytest.approx(5 * F, abs=1.5 * F)


def test_a_weak_wave_far_above_is_not_worth_the_noise_below_it() -> None:
    """At harmonic K in white noise v a wave pays if |X|^2 K^4 > v sum k^4, or |X|^2 > v K / 5; here 40 v < 80 v."""
    n, count, scale = 1001, 6, 1e-3
    phase = 2 * np.pi * np.arange(count * n) / n
    amplitude = 2 / n * np.sqrt(40 * scale**2 * n / count)
    x = np.sin(phase) + np.cos(3 * phase) + np.random.default_rng(0).normal(scale=scale, size=count * n)
    for top, kept in ((0.0, 3), (amplitude, 3), (3 * amplitude, 400)):
        q = (x + top * np.cos(400 * phase))[:, None]
        log = Recording(joints=("a",), time=np.arange(count * n) / 1000.0, position=q, position_units=("m",), effort=q,
                        period_samples=n)
        assert best_cutoff(average_periods(log)) == pytest.approx(kept * 1000.0 / n, abs=1.5)


def test_pure_noise_has_no_best_cut_off() -> None:
    time = np.arange(10 * N) / RATE
    x = np.random.default_rng(0).normal(size=(10 * N, 1))
    log = Recording(joints=("a",), time=time, position=x, position_units=("m",), effort=x, period_samples=N)
    with pytest.raises(InvalidInput, match="noise"):
        best_cutoff(average_periods(log))
