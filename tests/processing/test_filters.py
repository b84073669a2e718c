"""Filters against their formulas, SciPy and NumPy; rules for cut-offs; the sign of small velocities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.recording import Recording
from gough.processing.dead_band import (
    default_dead_band,
    outside_dead_band,
    position_noise,
    velocity_noise,
    velocity_sign,
)
from gough.processing.filters import (
    central_difference,
    default_filters,
    differentiate,
    edge_samples,
    motion_bandwidth,
    quiet_cutoff,
    zero_phase,
)

RATE = 500.0
TIME = np.arange(4000) / RATE
MIDDLE = slice(500, -500)


@pytest.mark.parametrize("frequency", [2.0, 20.0, 40.0, 100.0])
def test_zero_phase_has_the_gain_of_its_formula_and_no_delay(frequency: float) -> None:
    x = np.sin(2 * np.pi * frequency * TIME)[:, None]
    y = zero_phase(x, RATE, 40.0)
    gain = 1 / (1 + (np.tan(np.pi * frequency / RATE) / np.tan(np.pi * 40.0 / RATE)) ** 8)
    assert np.abs(y - gain * x)[MIDDLE].max() < 1e-9


def test_zero_phase_is_the_filtfilt_of_the_field() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2)).cumsum(axis=0)
    b, a = signal.butter(4, 0.2)
    assert np.allclose(zero_phase(x, 1000.0, 100.0), signal.filtfilt(b, a, x, axis=0, padlen=12), atol=1e-10)


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
        central_difference(np.zeros((1, 1)), RATE)


def test_central_differences_are_exact_for_parabolas_inside_and_one_sided_at_the_ends() -> None:
    x = (TIME**2)[:, None]
    slope = central_difference(x, RATE)[:, 0]
    assert np.allclose(slope[1:-1], 2 * TIME[1:-1], atol=1e-9)
    assert slope[0] == pytest.approx((x[1, 0] - x[0, 0]) * RATE)
    assert slope[-1] == pytest.approx((x[-1, 0] - x[-2, 0]) * RATE)


def test_differentiate_gives_both_derivatives_of_a_slow_wave() -> None:
    w = 2 * np.pi * 1.5
    made = differentiate(np.sin(w * TIME)[:, None], RATE, cutoff=50.0)
    assert np.abs(made.velocity[MIDDLE, 0] - w * np.cos(w * TIME[MIDDLE])).max() < 1e-3 * w
    assert np.abs(made.acceleration[MIDDLE, 0] + w**2 * np.sin(w * TIME[MIDDLE])).max() < 1e-3 * w**2


def test_without_a_cut_off_noise_is_amplified_as_central_differences_do() -> None:
    noise = np.random.default_rng(0).normal(size=(200_000, 1))
    raw = differentiate(noise, RATE, cutoff=None)
    assert raw.velocity.std() == pytest.approx(RATE / np.sqrt(2), rel=0.01)
    assert raw.acceleration.std() == pytest.approx(RATE**2 * np.sqrt(6) / 4, rel=0.01)
    assert differentiate(noise, RATE, cutoff=20.0).acceleration.std() < 0.02 * raw.acceleration.std()


def test_nan_does_not_pass_silently() -> None:
    x = np.zeros((100, 1))
    x[7] = np.nan
    with pytest.raises(InvalidInput, match=r"\(7, 0\)"):
        differentiate(x, RATE, 10.0)


def test_errors_of_the_ends_have_died_out_after_edge_samples() -> None:
    wave = np.cos(2 * np.pi * 3.0 * np.arange(-2000, 6000) / RATE)[:, None]
    long = zero_phase(wave, RATE, 20.0)[2000:6000]
    short = zero_phase(wave[2000:6000], RATE, 20.0)
    edge = edge_samples(RATE, 20.0)
    assert np.abs(long - short)[edge:-edge].max() < 1e-5
    assert np.abs(long - short).max() > 1e-3


def noisy(scale: float = 1e-5) -> Recording:
    """A sum of waves up to 4 Hz with white noise, 20 s at 500 Hz."""
    time = np.arange(10_000) / RATE
    q = sum(np.sin(2 * np.pi * f * time + f) / f for f in (0.5, 1.0, 2.0, 4.0))
    q = np.column_stack([q, 0.2 * np.sin(2 * np.pi * 0.5 * time)])
    q = q + np.random.default_rng(0).normal(scale=scale, size=q.shape)
    return Recording(joints=("a", "b"), time=time, position=q, position_units=("m", "m"))


def test_bandwidth_is_that_of_the_fastest_joint_whatever_the_noise() -> None:
    for scale in (1e-9, 1e-5, 1e-4):
        assert motion_bandwidth(noisy(scale).position, RATE) == pytest.approx(4.0, abs=0.5)
        # Accelerations of the four waves have energies 0.25, 1, 4, 16: a quarter lies at or below 2 Hz.
        assert motion_bandwidth(noisy(scale).position, RATE, energy=0.3) == pytest.approx(4.0, abs=0.5)
        assert motion_bandwidth(noisy(scale).position, RATE, energy=0.2) == pytest.approx(2.0, abs=0.5)


def test_bandwidth_of_nothing_but_noise_or_too_little_is_refused() -> None:
    with pytest.raises(InvalidRecording, match="noise"):
        motion_bandwidth(np.random.default_rng(0).normal(size=(5000, 2)), RATE)
    with pytest.raises(InvalidRecording, match="too few"):
        motion_bandwidth(np.zeros((10, 1)), RATE)
    with pytest.raises(InvalidInput, match="energy"):
        motion_bandwidth(np.zeros((100, 1)), RATE, energy=1.0)


@pytest.mark.parametrize("scale", [1e-5, 1e-4, 1e-3])
def test_the_quiet_cutoff_leaves_the_smallest_error_of_the_acceleration(scale: float) -> None:
    time = np.arange(10_000) / RATE
    waves = [(f, -(2 * np.pi * f) ** 2 / f) for f in (0.5, 1.0, 2.0, 4.0)]
    truth = sum(a * np.sin(2 * np.pi * f * time + f) for f, a in waves)
    position = noisy(scale).position[:, :1]
    inner = slice(1500, -1500)

    def error(cutoff: float) -> float:
        smooth = differentiate(position, RATE, cutoff).acceleration[:, 0]
        return float(np.sqrt(np.mean((smooth - truth)[inner] ** 2)))

    best = min(error(cutoff) for cutoff in np.geomspace(2.0, 150.0, 40))
    assert error(quiet_cutoff(position, RATE)) < 1.3 * best
    assert error(150.0) > 2 * best


def test_default_filters_follow_the_rules_and_can_be_overridden() -> None:
    chosen = default_filters(noisy(1e-9))
    assert chosen.cutoff == pytest.approx(5 * chosen.bandwidth)
    rough = default_filters(noisy(1e-3))
    assert rough.cutoff == pytest.approx(quiet_cutoff(noisy(1e-3).position, RATE))
    assert rough.cutoff < 3 * rough.bandwidth
    assert 0.8 * RATE / (2 * chosen.decimation) == pytest.approx(5 * chosen.bandwidth, rel=0.15)
    mine = default_filters(noisy(), cutoff=33.0, decimation=4, order=2)
    assert (mine.cutoff, mine.decimation, mine.order, mine.bandwidth) == (33.0, 4, 2, None)
    assert default_filters(noisy(), bandwidth=100.0).decimation == 1
    with pytest.raises(InvalidInput, match="Nyquist"):
        default_filters(noisy(), cutoff=300.0)
    with pytest.raises(InvalidInput, match="decimation"):
        default_filters(noisy(), decimation=0)


def test_the_sign_passes_linearly_through_the_dead_band() -> None:
    qd = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0])
    assert np.array_equal(velocity_sign(qd, 1.0), [-1, -1, -0.25, 0, 0.5, 1, 1])
    assert np.array_equal(velocity_sign(qd, 0.0), np.sign(qd))
    two = velocity_sign(np.column_stack([qd, qd]), [0.0, 2.0])
    assert np.array_equal(two[:, 0], np.sign(qd))
    assert np.array_equal(two[:, 1], np.clip(qd / 2, -1, 1))
    assert np.array_equal(outside_dead_band(qd, 1.0), [1, 1, 0, 0, 0, 1, 1])
    assert not outside_dead_band(np.zeros(1), 0.0)[0]


@pytest.mark.parametrize("band", [-1.0, np.nan, [1.0, -0.1]])
def test_impossible_dead_bands_are_refused(band: object) -> None:
    with pytest.raises(InvalidInput, match="dead band"):
        velocity_sign(np.zeros(2), band)  # type: ignore[arg-type]


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_the_sign_is_odd_bounded_and_exact_outside(qd: float, band: float) -> None:
    x = np.array([qd])
    s = velocity_sign(x, band)
    assert np.array_equal(s, -velocity_sign(-x, band))
    assert abs(s[0]) <= 1.0
    if outside_dead_band(x, band)[0]:
        assert s[0] == np.sign(qd)


def test_position_noise_is_found_under_motion_and_never_below_quantisation() -> None:
    assert position_noise(noisy(3e-5).position) == pytest.approx([3e-5, 3e-5], rel=0.05)
    slow = np.round(np.sin(2 * np.pi * 0.01 * TIME) / 0.01)[:, None] * 0.01
    assert position_noise(slow) == pytest.approx([0.01 / np.sqrt(12)], rel=0.01)
    with pytest.raises(InvalidInput, match="too few"):
        position_noise(np.zeros((5, 1)))


def test_velocity_noise_is_that_of_filtered_differences() -> None:
    noise = np.random.default_rng(3).normal(scale=2e-5, size=(400_000, 1))
    spectrum = np.fft.rfft(noise, axis=0)
    f = np.fft.rfftfreq(len(noise), 1 / RATE)[:, None]
    velocity = np.fft.irfft(np.where(f <= 25.0, 2j * np.pi * f * spectrum, 0), len(noise), axis=0)
    assert velocity_noise([2e-5], RATE, 25.0)[0] == pytest.approx(velocity.std(), rel=0.02)
    assert default_dead_band(noisy(2e-5).position, RATE, 25.0)[0] == pytest.approx(3 * velocity.std(), rel=0.06)
