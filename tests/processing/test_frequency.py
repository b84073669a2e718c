"""Frequency-domain filtering: exact on known series, equal to NumPy's DFT, no leakage where the
implicit fit leaks.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from spectra import amplitude_spectrum, compare_spectra

from gough.core.errors import InvalidInput
from gough.processing.averaging import pose_cutoff
from gough.processing.filters import differentiate, fourier_fit, lowpass_periodic

RATE, N = 100.0, 309
F = RATE / N


def series(
    time: np.ndarray, mu: np.ndarray, nu: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, ...]:
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
    position, velocity, acceleration = lowpass_periodic(x, RATE, N, 5 * F)
    assert np.abs(position - x).max() < 1e-12
    assert np.abs(velocity - v).max() < 1e-11
    assert np.abs(acceleration - a).max() < 1e-10


def test_the_harmonic_at_the_cut_off_stays_and_all_above_go() -> None:
    time, mu, nu, offset = known(harmonics=7)
    x, _, _ = series(time, mu, nu, offset)
    low, _, acceleration = series(time, mu[:5], nu[:5], offset)
    for cutoff in (5 * F, 5.99 * F):
        made = lowpass_periodic(x, RATE, N, cutoff)
        assert np.abs(made[0] - low).max() < 1e-12
        assert np.abs(made[2] - acceleration).max() < 1e-10


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 1000), st.floats(0.05, 0.49))
def test_filtering_equals_a_sum_over_harmonics_for_any_signal(
    n: int, periods: int, seed: int, part: float
) -> None:
    """Second opinion without an FFT: projections on sines and cosines, differentiated term by
    term.
    """
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
    assert np.allclose(made[0], y, atol=1e-9)
    assert np.allclose(made[1], v, atol=1e-7)


@pytest.mark.parametrize(
    ("samples", "cutoff", "words"),
    [
        (3 * N - 1, 5 * F, "2.9968 periods"),
        (100, 5 * F, "whole"),
        (0, 5 * F, "whole"),
        (N, 50.0, "Nyquist"),
        (N, 80.0, "Nyquist"),
        (N, 0.9 * F, "below the fundamental"),
        (N, -1.0, "Nyquist"),
    ],
)
def test_parts_of_periods_and_wrong_cut_offs_are_refused(
    samples: int, cutoff: float, words: str
) -> None:
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
    fit = fourier_fit(x, time, F, 5, coordinates=("a", "b"), units=("m", "m"))
    assert np.allclose(fit.mu, mu, atol=1e-10)
    assert np.allclose(fit.nu, nu, atol=1e-10)  # (17) as printed gives -nu
    assert np.allclose(fit.offset, offset)
    _, velocity, acceleration = fit.at(time)
    assert np.allclose(velocity, v, atol=1e-10)
    assert np.allclose(acceleration, a, atol=1e-9)


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

    explicit = error(lowpass_periodic(noisy, RATE, N, 5 * F)[2])
    filtered = min(error(differentiate(noisy, RATE, c)[2]) for c in (2.0, 3.0, 5.0, 8.0))
    raw = error(differentiate(noisy, RATE, None)[2])
    assert explicit < 0.5 * filtered < 0.1 * raw


@pytest.mark.parametrize(
    ("frequency", "harmonics", "words"),
    [
        (F, 0, "harmonics"),
        (F, 200, "harmonics"),
        (0.0, 5, "positive"),
        (20.0, 5, "Nyquist"),
    ],
)
def test_impossible_fits_are_refused(frequency: float, harmonics: int, words: str) -> None:
    time = np.arange(N) / RATE
    with pytest.raises(InvalidInput, match=words):
        fourier_fit(np.zeros((N, 1)), time, frequency, harmonics, coordinates=("a",), units=("m",))


def test_amplitudes_are_those_of_the_waves() -> None:
    for n in (40, 41):
        t = np.arange(n)
        wave = (
            3.0 + 2.0 * np.cos(2 * np.pi * 4 * t / n + 1) + (0.5 * (-1.0) ** t if n == 40 else 0.0)
        )
        found = amplitude_spectrum(wave[:, None])[:, 0]
        assert found[0] == pytest.approx(3.0)
        assert found[4] == pytest.approx(2.0)
        if n == 40:
            assert found[20] == pytest.approx(0.5)


def kept(noise: float, periods: int, seed: int, harmonics: int = 5, rounding: float = 0.0) -> int:
    """Harmonics that Akaike's criterion keeps of a series in noise that correlates between
    coordinates.
    """
    time, mu, nu, offset = known(harmonics, periods)
    x = series(time, mu, nu, offset)[0]
    mixed = np.random.default_rng(seed).normal(scale=noise, size=x.shape) @ np.array(
        [[1.0, 0.6], [0.0, 0.5]]
    )
    x = x + mixed
    if rounding:
        x = np.round(x / rounding) * rounding
    each = x.reshape(periods, N, 2)
    mean = each.mean(axis=0)
    floor = np.full(2, rounding**2 / 12 if noise < rounding / 2 else 0.0)
    return round(pose_cutoff(mean, each - mean, RATE, floor) / F)


@pytest.mark.parametrize(
    ("noise", "periods", "share"),
    [(1e-4, 2, 0.6), (1e-3, 3, 0.75), (1e-2, 6, 0.75), (1e-2, 40, 0.8)],
)
def test_the_harmonics_there_are_are_kept(noise: float, periods: int, share: float) -> None:
    """Two parameters a coordinate and harmonic: chance keeps some too many, more often if the noise
    is known badly.
    """
    found = np.array([kept(noise, periods, seed) for seed in range(100)])
    assert np.mean(found == 5) >= share
    assert found.min() == 5
    assert np.quantile(found, 0.9) <= 10


def test_the_leaks_of_a_transient_are_no_harmonics() -> None:
    """Without noise, all coordinates settle together: the jump from the end of the mean period to
    its start leaks.
    """
    time, mu, nu, offset = known(5, 3)
    x = series(time, mu, nu, offset)[0] + np.exp(-time[:, None] / time[-1] * [8, 12]) * [1e-3, 2e-3]
    each = x.reshape(3, N, 2)
    assert (
        5
        <= round(pose_cutoff(each.mean(axis=0), each - each.mean(axis=0), RATE, np.zeros(2)) / F)
        <= 8
    )


def test_rounding_that_repeats_in_every_period_is_noise_too() -> None:
    assert 5 <= kept(0.0, 4, 0, rounding=1e-3) <= 7
    assert kept(0.0, 4, 0) == 5


def test_a_harmonic_is_kept_if_it_raises_the_likelihood_by_more_than_its_parameters() -> None:
    """One coordinate, white noise: |X|^2 / V against 2, those in between against the 1 that chance
    gives them.
    """
    n, count, scale = 1001, 50, 1e-3
    phase = 2 * np.pi * np.arange(count * n) / n
    noise = np.random.default_rng(0).normal(scale=scale, size=count * n)
    for top, ratio, expected in ((4, 0.0, 3), (4, 12.0, 4), (400, 100.0, 3), (400, 1200.0, 400)):
        size = 2 / n * np.sqrt(ratio * scale**2 * n / count)
        x = np.sin(phase) + np.cos(3 * phase) + size * np.cos(top * phase) + noise
        each = x.reshape(count, n, 1)
        found = pose_cutoff(each.mean(axis=0), each - each.mean(axis=0), 1000.0, np.zeros(1))
        assert found == pytest.approx(expected * 1000.0 / n)


def test_pure_noise_has_no_harmonics_to_keep() -> None:
    each = np.random.default_rng(0).normal(size=(10, N, 1))
    with pytest.raises(InvalidInput, match="noise"):
        pose_cutoff(each.mean(axis=0) * 0, each - each.mean(axis=0), RATE, np.zeros(1))
