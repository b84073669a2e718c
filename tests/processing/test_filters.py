"""Filters in time against their formulas and SciPy; noise of positions and velocities."""

import numpy as np
import pytest
from scipy import signal

from gough.core.errors import InvalidInput
from gough.processing.filters import (
    derivative,
    differentiate,
    edge_samples,
    memory_samples,
    zero_phase,
)
from gough.processing.valid_equations import position_noise, velocity_noise

RATE = 500.0
TIME = np.arange(4000) / RATE
MIDDLE = slice(500, -500)


@pytest.mark.parametrize("frequency", [2.0, 20.0, 40.0, 100.0])
def test_zero_phase_has_the_gain_of_its_formula_and_no_delay(frequency: float) -> None:
    x = np.sin(2 * np.pi * frequency * TIME)[:, None]
    y = zero_phase(x, RATE, 40.0)
    gain = 1 / (1 + (np.tan(np.pi * frequency / RATE) / np.tan(np.pi * 40.0 / RATE)) ** 8)
    assert np.abs(y - gain * x)[MIDDLE].max() < 1e-9


def test_zero_phase_is_the_filtfilt_of_the_field_with_longer_ends() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2)).cumsum(axis=0)
    b, a = signal.butter(4, 0.2)
    reach = edge_samples(1000.0, 100.0)
    np.testing.assert_allclose(
        zero_phase(x, 1000.0, 100.0), signal.filtfilt(b, a, x, axis=0, padlen=reach), atol=1e-9
    )


@pytest.mark.parametrize("cutoff", [250.0, 251.0, 0.0, -1.0, np.nan])
def test_cut_offs_outside_the_band_are_refused(cutoff: float) -> None:
    with pytest.raises(InvalidInput, match="Nyquist frequency 250"):
        zero_phase(np.zeros((100, 1)), RATE, cutoff)


def test_too_few_samples_and_a_bad_rate_are_refused() -> None:
    with pytest.raises(InvalidInput, match="12 samples"):
        zero_phase(np.zeros((12, 1)), RATE, 10.0)
    with pytest.raises(InvalidInput, match="rate"):
        zero_phase(np.zeros((100, 1)), 0.0, 10.0)
    with pytest.raises(InvalidInput, match="at least 2"):
        derivative(np.zeros((1, 1)), RATE)


def test_differences_are_exact_for_polynomials_of_degree_eight_inside_and_parabolas_near_the_ends() -> (
    None
):
    t = np.linspace(-1, 1, 41)
    rate = 1 / (t[1] - t[0])
    slope = derivative((t**8)[:, None], rate)[:, 0]
    np.testing.assert_allclose(slope[4:-4], 8 * t[4:-4] ** 7, atol=1e-12)
    slope = derivative((t**2)[:, None], rate)[:, 0]
    np.testing.assert_allclose(slope[1:-1], 2 * t[1:-1], atol=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_a_wave_up_to_a_tenth_of_the_rate_is_differentiated_to_a_ten_thousandth(
    share: float,
) -> None:
    w = 2 * np.pi * share * RATE
    slope = derivative(np.sin(w * TIME)[:, None], RATE)[MIDDLE, 0]
    assert np.abs(slope - w * np.cos(w * TIME[MIDDLE])).max() < 1e-4 * w
    plain = np.gradient(np.sin(w * TIME), 1 / RATE)[MIDDLE]
    assert np.abs(plain - w * np.cos(w * TIME[MIDDLE])).max() > 2e-3 * w


def test_differentiate_gives_both_derivatives_of_a_slow_wave() -> None:
    w = 2 * np.pi * 1.5
    _, velocity, acceleration = differentiate(np.sin(w * TIME)[:, None], RATE, cutoff=50.0)
    assert np.abs(velocity[MIDDLE, 0] - w * np.cos(w * TIME[MIDDLE])).max() < 1e-6 * w
    assert np.abs(acceleration[MIDDLE, 0] + w**2 * np.sin(w * TIME[MIDDLE])).max() < 1e-6 * w**2


def test_without_a_cut_off_noise_is_amplified_as_the_differences_do() -> None:
    noise = np.random.default_rng(0).normal(size=(200_000, 1))
    _, velocity, acceleration = differentiate(noise, RATE, cutoff=None)
    weights = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
    both = np.concatenate([-weights[::-1], [0.0], weights])
    assert velocity.std() == pytest.approx(RATE * np.sqrt((both**2).sum()), rel=0.01)
    assert acceleration.std() == pytest.approx(
        RATE**2 * np.sqrt((np.convolve(both, both) ** 2).sum()), rel=0.01
    )
    assert differentiate(noise, RATE, cutoff=20.0)[2].std() < 0.02 * acceleration.std()


def test_nan_does_not_pass_silently() -> None:
    x = np.zeros((100, 1))
    x[7] = np.nan
    with pytest.raises(InvalidInput, match=r"\(7, 0\)"):
        differentiate(x, RATE, 10.0)


def test_errors_of_the_ends_have_died_out_after_edge_and_memory_samples() -> None:
    wave = np.cos(2 * np.pi * 3.0 * np.arange(-2000, 6000) / RATE)[:, None]
    for order, tolerances in enumerate((1e-3, 1e-2, 1e-2)):
        long = differentiate(wave, RATE, 20.0)[order][2000:6000]
        short = differentiate(wave[2000:6000], RATE, 20.0)[order]
        error = np.abs(long - short) / np.abs(long).max()
        edge, memory = edge_samples(RATE, 20.0), memory_samples(RATE, 20.0)
        assert error[edge:-edge].max() < tolerances
        assert error[memory:-memory].max() < 1e-11
        assert error.max() > 1e-3


def noisy(scale: float = 1e-5) -> np.ndarray:
    """A sum of waves up to 4 Hz with white noise, 20 s at 500 Hz, (t, 2)."""
    time = np.arange(10_000) / RATE
    q = sum(np.sin(2 * np.pi * f * time + f) / f for f in (0.5, 1.0, 2.0, 4.0))
    q = np.column_stack([q, 0.2 * np.sin(2 * np.pi * 0.5 * time)])
    return np.asarray(q + np.random.default_rng(0).normal(scale=scale, size=q.shape))


def test_position_noise_is_found_under_motion_and_never_below_quantisation() -> None:
    assert position_noise(noisy(3e-5)) == pytest.approx([3e-5, 3e-5], rel=0.05)
    slow = np.round(np.sin(2 * np.pi * 0.01 * TIME) / 0.01)[:, None] * 0.01
    assert position_noise(slow) == pytest.approx([0.01 / np.sqrt(12)], rel=0.6)
    assert position_noise(slow)[0] >= 0.01 / np.sqrt(12) * 0.99
    with pytest.raises(InvalidInput, match="too few"):
        position_noise(np.zeros((5, 1)))


def test_a_joint_that_stands_most_of_the_time_has_the_noise_of_its_encoder() -> None:
    step = 1e-3
    moving = np.round(np.sin(2 * np.pi * 0.5 * TIME[:800]) / step) * step
    mostly = np.concatenate([np.zeros(12_000), moving, np.full(8000, moving[-1])])[:, None]
    assert position_noise(mostly)[0] == pytest.approx(position_noise(moving[:, None])[0], rel=0.5)
    assert position_noise(mostly)[0] > 0.25 * step
    assert (
        position_noise(np.full((100, 1), 2.0))[0] > 0
    )  # a joint that never moves: no sign of its velocity


def test_velocity_noise_is_that_of_filtered_differences() -> None:
    noise = np.random.default_rng(3).normal(scale=2e-5, size=(400_000, 1))
    spectrum = np.fft.rfft(noise, axis=0)
    f = np.fft.rfftfreq(len(noise), 1 / RATE)[:, None]
    velocity = np.fft.irfft(np.where(f <= 25.0, 2j * np.pi * f * spectrum, 0), len(noise), axis=0)
    assert velocity_noise([2e-5], RATE, 25.0)[0] == pytest.approx(velocity.std(), rel=0.02)


def test_two_derivatives_spoil_no_more_than_the_edge_at_a_cut_off_near_nyquist() -> None:
    """The filter forgets within a few samples there, the stencils reach eight: their low order at
    the ends shows.
    """
    wave = np.cos(2 * np.pi * 3.0 * np.arange(-200, 4200) / RATE)[:, None]
    long, short = (
        differentiate(wave, RATE, 200.0)[2][200:4200],
        differentiate(wave[200:4200], RATE, 200.0)[2],
    )
    error, edge = np.abs(long - short).ravel() / np.abs(long).max(), edge_samples(RATE, 200.0)
    assert error[edge:-edge].max() < 3e-3
    assert error[6:-6].max() > 1e-2  # what the filter alone spoils: 3 / cut-off
