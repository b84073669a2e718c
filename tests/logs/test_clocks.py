"""True instants: host stamps, repeated, lost and late rows, found from the motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.logs.clocks import row_steps, with_true_instants
from gough.logs.periods import resample_evenly
from gough.logs.recording import Recording

STEP = 1e-3


def motion(time: np.ndarray) -> np.ndarray:
    """Three joints with several frequencies each, as functions of time."""
    joints = [
        np.sin(2.1 * time) + 0.3 * np.sin(7.3 * time + 1),
        0.7 * np.cos(3.3 * time) + 0.2 * np.sin(5.7 * time),
        0.4 * np.sin(1.3 * time + 2) - 0.2 * np.cos(9.1 * time),
    ]
    return np.column_stack(joints)


def log(sampled: np.ndarray, stamps: np.ndarray, noise: float = 1e-6, joints: int = 3) -> Recording:
    """A log whose rows were sampled at some instants and stamped with others."""
    rng = np.random.default_rng(1)
    position = np.round((motion(sampled) + noise * rng.standard_normal((len(sampled), 3))), 7)
    names = ("a", "b", "c")[:joints]
    return Recording(
        joints=names,
        time=stamps,
        position=position[:, :joints],
        position_units=("rad",) * joints,
        effort=np.cos(3 * sampled)[:, None] * np.arange(1, joints + 1),
    )


def rules(recording: Recording) -> list[str]:
    return [notice.rule for notice in recording.notices]


def host_log(seed: int = 0) -> tuple[Recording, np.ndarray]:
    """A log of a host that reads the newest sample of a 1 kHz controller at uneven times."""
    rng = np.random.default_rng(seed)
    stamps = np.cumsum(STEP * rng.uniform(0.7, 1.3, 4000))
    stamps[2000:] += 5 * STEP
    sampled = np.floor(stamps / STEP) * STEP
    sampled_motion = log(sampled, stamps, noise=0.0)
    return sampled_motion, sampled


def test_an_even_log_is_returned_as_it_is() -> None:
    time = np.arange(3000) * STEP
    recording = log(time, time)
    assert with_true_instants(recording) is recording


def test_host_stamps_are_replaced_by_the_cycles_of_the_controller() -> None:
    recording, sampled = host_log()
    treated = with_true_instants(recording)
    assert rules(treated) == ["repeated", "controller time"]
    kept = np.concatenate([[True], np.diff(sampled) > STEP / 2])
    assert len(treated) == kept.sum()
    true_time = sampled[kept]
    off = (treated.time - treated.time[0]) - (true_time - true_time[0])
    assert np.abs(off).max() < 0.5 * STEP  # stamps know the rate of the controller only so well


def test_lost_cycles_are_filled_but_not_counted_as_measured() -> None:
    recording, sampled = host_log()
    even = resample_evenly(with_true_instants(recording))
    assert np.abs(np.diff(even.time) * even.rate - 1).max() < 1e-9
    present = np.unique(np.round(sampled / STEP).astype(int))
    cycles = np.arange(present[0], present[-1] + 1)
    assert np.abs(even.position - motion(cycles * STEP)).max() < 1e-6
    n_lost = len(cycles) - len(present)
    assert even.measured is not None
    assert (~even.measured).sum() == n_lost


def test_stamps_that_are_the_instants_of_sampling_are_kept() -> None:
    rng = np.random.default_rng(2)
    time = np.cumsum(STEP * rng.uniform(0.6, 1.4, 3000))
    treated = with_true_instants(log(time, time))
    assert np.array_equal(treated.time, time)


def test_rows_repeated_or_lost_behind_even_stamps_are_found() -> None:
    number = np.delete(np.arange(3000), [700, 701, 1500])
    number[2000] = number[1999]
    stamps = np.arange(len(number)) * STEP
    recording = log(number * STEP, stamps, noise=0.0)
    steps = row_steps(recording)
    assert np.flatnonzero(steps.repeated).tolist() == [2000]
    assert steps.lost == 4  # with the one behind the repeated row
    treated = with_true_instants(recording)
    expected = np.delete(number, 2000) * STEP
    assert np.allclose(treated.time - treated.time[0], expected, atol=1e-9)


@pytest.mark.parametrize("host_rate", [1041.0, 963.0])
def test_the_cycle_of_a_controller_read_at_another_even_rate_is_found(host_rate: float) -> None:
    stamps = np.arange(4000) / host_rate
    sampled = np.floor(stamps / STEP) * STEP
    treated = with_true_instants(log(sampled, stamps, noise=0.0))
    (notice,) = [notice for notice in treated.notices if notice.rule == "controller time"]
    assert notice.numbers["period"] == pytest.approx(STEP, rel=2e-4)


def test_rows_sampled_early_and_late_are_put_at_the_instants_the_motion_shows() -> None:
    rng = np.random.default_rng(3)
    stamps = np.arange(3000) * 5e-3
    sampled = stamps + 5e-3 * 0.1 * rng.standard_normal(len(stamps))
    sampled = np.sort(sampled)
    treated = with_true_instants(log(sampled, stamps, noise=1e-5))
    assert rules(treated) == ["late samples"]
    # what is slow in the lateness cannot be seen: a quarter of the variance of white noise
    assert np.std(treated.time - sampled) < 0.55 * np.std(sampled - stamps)
    before = np.diff(motion(sampled), n=3, axis=0).std()
    after = np.diff(resample_evenly(treated).position, n=3, axis=0).std()
    assert after < 0.2 * before


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_positions_is_not_taken_for_late_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = np.arange(2000) * STEP
    noise = 10 ** rng.uniform(-6, -3)
    recording = log(time, time, noise=noise)
    assert with_true_instants(recording) is recording


def test_a_ripple_of_the_feed_rate_is_motion_and_not_time() -> None:
    time = np.arange(3000) * STEP
    rippled = time + 0.1 * STEP * np.sin(2 * np.pi * 250.3 * time)
    recording = log(rippled, time)
    assert with_true_instants(recording) is recording


def test_joints_that_start_and_stop_together_are_not_late() -> None:
    """Fast moves between rests at 100 Hz: a smoothing of nine rows does not follow them."""
    rng = np.random.default_rng(0)
    time = np.arange(475) * 0.01
    places = np.cumsum(rng.uniform(-1, 1, (8, 3)), axis=0)
    position = np.zeros((len(time), 3))
    for k in range(7):
        u = np.clip((time - 0.1 - 0.65 * k) / 0.25, 0, 1)
        position += (u**3 * (10 - 15 * u + 6 * u**2))[:, None] * (places[k + 1] - places[k])
    recording = Recording(
        joints=("a", "b", "c"),
        time=time,
        position=position + 1e-5 * rng.standard_normal(position.shape),
        position_units=("rad",) * 3,
        effort=np.sin(position),
    )
    assert rules(with_true_instants(recording)) == []


def test_a_robot_at_rest_repeats_no_rows() -> None:
    time = np.arange(2000) * STEP
    held = np.minimum(time, 1.0)
    recording = log(held, time, noise=0.0)
    assert with_true_instants(recording) is recording


def test_a_single_joint_repeats_a_row_only_with_its_effort() -> None:
    number = np.arange(2000)
    number[1000] = 999
    recording = log(number * STEP, np.arange(2000) * STEP, noise=0.0, joints=1)
    assert rules(with_true_instants(recording)) == ["repeated"]
    effort = np.array(recording.effort)
    effort[1000] += 0.01
    other = replace(recording, effort=effort)
    assert with_true_instants(other) is other


@pytest.mark.parametrize("seed", range(4))
def test_short_rests_between_moves_repeat_no_rows(seed: int) -> None:
    """A coarse encoder shows a few equal rows where a robot stops between two moves."""
    rng = np.random.default_rng(seed)
    step = 0.01
    parts = []
    place = np.zeros(3)
    for _ in range(60):
        target = rng.uniform(-0.5, 0.5, 3)
        u = np.linspace(0, 1, int(rng.integers(40, 80)))[:, None]
        parts.append(place + (target - place) * (10 * u**3 - 15 * u**4 + 6 * u**5))
        parts.append(np.tile(target, (int(rng.integers(1, 9)), 1)))
        place = target
    position = np.concatenate(parts)
    resolution = 7e-5
    noise = 0.3 * resolution * rng.standard_normal(position.shape)
    position = np.round((position + noise) / resolution) * resolution
    time = np.arange(len(position)) * step
    recording = Recording(
        joints=("a", "b", "c"),
        time=time,
        position=position,
        position_units=("rad",) * 3,
        effort=np.round(10 * position, 1),
    )
    assert not row_steps(recording).repeated.any()
