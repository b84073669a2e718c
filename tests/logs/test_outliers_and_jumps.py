"""Outliers against neighbouring samples, and positions that jump alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.signals import (
    NEIGHBOURS,
    least_usual_size,
    local_resolution,
    usual_size,
)
from gough.logs.outliers import find_jumps, find_outliers, without_outliers
from gough.logs.recording import Recording

TIME = np.arange(4000) / 1000.0


@pytest.fixture(scope="module")
def recording() -> Recording:
    rng = np.random.default_rng(0)
    position = np.column_stack([np.sin(3 * TIME), 0.5 * np.cos(2 * TIME), 0.2 * np.sin(5 * TIME)])
    effort = 10 * np.cos(3 * TIME) + 3 * np.sign(np.cos(3 * TIME))
    efforts = effort[:, None] * np.array([1.0, 2.0, 0.5])
    return Recording(
        joints=("a", "b", "c"),
        time=TIME,
        position=np.round(position + 1e-5 * rng.standard_normal(position.shape), 5),
        position_units=("rad",) * 3,
        effort=efforts + 0.1 * rng.standard_normal(efforts.shape),
    )


def test_a_clean_log_has_neither(recording: Recording) -> None:
    assert without_outliers(recording) is recording
    assert find_jumps(recording) == ()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_outliers_of_up_to_three_samples_are_excluded(recording: Recording, length: int) -> None:
    effort = np.array(recording.effort)
    position = np.array(recording.position)
    effort[1000 : 1000 + length, 1] += 12.0
    position[2500 : 2500 + length, 0] -= 0.05
    treated = without_outliers(replace(recording, effort=effort, position=position))
    assert treated.measured is not None
    marked = np.flatnonzero(~treated.measured)
    expected = [*range(1000, 1000 + length), *range(2500, 2500 + length)]
    assert set(expected) <= set(marked)
    assert len(marked) <= len(expected) + 2
    assert np.abs(treated.position - recording.position).max() < 1e-3
    assert [notice.where for notice in treated.notices] == ["a.position", "b.effort"]


def test_most_of_one_percent_of_gross_errors_is_found(recording: Recording) -> None:
    rng = np.random.default_rng(4)
    effort = np.array(recording.effort[:, :1])
    spoilt = np.sort(rng.choice(np.arange(50, 3950), 40, replace=False))
    effort[spoilt, 0] += rng.choice([-1, 1], 40) * 20.0
    marked = find_outliers(effort, TIME)[:, 0]
    assert marked[spoilt].mean() > 0.9
    assert marked.sum() < 1.5 * len(spoilt)


@pytest.mark.parametrize("law", ["standard_normal", "standard_laplace", "walk"])
def test_noise_has_no_outliers(law: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((20000, 2))
    if law == "walk":
        values = np.cumsum(values, axis=0)
    if law == "standard_laplace":
        values = rng.laplace(size=values.shape)
    assert find_outliers(values, np.arange(20000.0)).mean() < 1e-4


def test_a_step_of_friction_is_no_outlier() -> None:
    effort = np.where(np.sin(20 * TIME) > 0, 5.0, -5.0)[:, None] + np.sin(TIME)[:, None]
    assert not find_outliers(effort, TIME).any()


def test_one_position_that_jumps_alone_is_found_with_size_and_time(recording: Recording) -> None:
    position = np.array(recording.position)
    position[1700:, 1] += 0.003
    (jump,) = find_jumps(replace(recording, position=position))
    assert (jump.joint, jump.sample, jump.wraps) == ("b", 1700, False)
    assert jump.time == TIME[1700]
    assert jump.size == pytest.approx(0.003, rel=0.05)


def test_joints_that_step_together_are_lost_rows_and_no_jump(recording: Recording) -> None:
    rows = np.delete(np.arange(4000), np.arange(1700, 1705))
    cut = replace(recording.take(rows), time=TIME[: len(rows)])
    assert find_jumps(cut) == ()


def test_a_lost_row_of_a_joint_that_moves_alone_is_no_jump() -> None:
    rows = np.delete(np.arange(4000), 1700)
    q = np.column_stack([np.sin(3 * TIME), np.zeros(4000)])[rows]
    log = Recording(joints=("a", "b"), time=TIME[:3999], position=q, position_units=("rad", "rad"))
    assert find_jumps(log) == ()


def test_starts_stops_and_impacts_are_no_jumps() -> None:
    ramp = np.interp(TIME, [0, 1, 2, 3, 4], [0, 0, 1, 1, 0.5])
    bounce = np.abs(np.sin(3 * TIME))
    q = np.column_stack([ramp, bounce])
    log = Recording(joints=("a", "b"), time=TIME, position=q, position_units=("rad", "rad"))
    assert find_jumps(log) == ()


def test_a_step_of_one_encoder_count_at_rest_is_no_jump() -> None:
    q = 1e-4 * np.round(np.interp(TIME, [0, 4], [0, 3.2]))
    log = Recording(joints=("a",), time=TIME, position=q[:, None], position_units=("rad",))
    assert find_jumps(log) == ()


def test_outliers_are_those_that_a_comparison_of_all_samples_gives() -> None:
    """Brute force: every run of every channel against both lines and the cubic."""
    rng = np.random.default_rng(11)
    time = np.arange(300) / 1000.0 + rng.uniform(-2e-4, 2e-4, 300)
    values = np.sin(30 * time) + 1e-3 * rng.standard_normal(300)
    for first in (40, 41, 120, 200, 297):
        values[first : first + rng.integers(1, 4)] += rng.choice([-0.3, 0.3])
    outlier = find_outliers(values[:, None], time)[:, 0]
    for first in np.flatnonzero(outlier & ~np.roll(outlier, 1)):
        stop = first + int(np.argmin(outlier[first : first + 5]))
        for sample in range(first, stop):
            for around in ([-2, -1], [0, 1], [-2, -1, 0, 1]):
                places = [first + k if k < 0 else stop + k for k in around]
                line = np.polynomial.Polynomial.fit(time[places], values[places], len(places) - 1)
                assert abs(values[sample] - line(time[sample])) > 0.1
    assert outlier[[40, 120, 200]].all()
    assert outlier.sum() <= 14


@pytest.mark.parametrize("skewed", [False, True])
def test_the_fast_lower_bound_of_what_is_usual_is_one(skewed: bool) -> None:
    rng = np.random.default_rng(6)
    values = np.abs(rng.standard_normal(400))
    if skewed:
        values = values**8
    for skip in (2, 5):
        usual = usual_size(values, np.arange(400), skip)
        bound = least_usual_size(values, skip)
        assert (bound <= usual).all()
        assert (bound[40:-40] > 0).all()
        for length in range(8, 40):
            usual = usual_size(values[:length], np.arange(length), skip)
            assert (least_usual_size(values[:length], skip) <= usual).all()


@pytest.mark.parametrize("skip", [2, 5])
def test_what_is_usual_is_the_larger_median_of_both_sides(skip: int) -> None:
    values = np.abs(np.random.default_rng(7).standard_normal(90))
    samples = np.arange(30, 60)
    expected = []
    for sample in samples:
        before = values[sample - skip - NEIGHBOURS - 1 : sample - skip]
        after = values[sample + skip + 1 : sample + skip + NEIGHBOURS + 2]
        expected.append(max(np.median(before), np.median(after)))
    assert usual_size(values, samples, skip) == pytest.approx(np.array(expected), rel=0, abs=0)


def test_the_resolution_of_rounded_positions_is_that_of_the_encoder(recording: Recording) -> None:
    for column in recording.position.T:
        resolution = local_resolution(column[:, None])
        assert resolution.min() == pytest.approx(1e-5, rel=1e-9)


def test_even_and_uneven_clocks_give_the_same_outliers(recording: Recording) -> None:
    rng = np.random.default_rng(12)
    effort = np.array(recording.effort)
    for first in rng.integers(10, 3980, 60):
        effort[first : first + rng.integers(1, 4), rng.integers(3)] += rng.choice([-9.0, 9.0])
    even = find_outliers(effort, TIME, 0.2)
    nearly_even = TIME + 1e-9 * rng.standard_normal(len(TIME))
    assert even.sum() > 60
    assert (find_outliers(effort, nearly_even, 0.2) == even).all()
    by_channel = find_outliers(effort, TIME, np.array([0.2, np.inf, 0.2]))
    assert (by_channel[:, [0, 2]] == even[:, [0, 2]]).all()
    assert not by_channel[:, 1].any()
