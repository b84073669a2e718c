"""Logs as they come: periods cut short, repeated motions that nobody declared, uneven clocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.app.identify import identify
from gough.engine import Model, base_parameters
from gough.identification import prepare
from gough.logs.periods import repetition
from gough.logs.recording import Recording
from gough.processing import Processing, match_robot, process


def kinds(log: Recording) -> list[str]:
    return [notice.rule for notice in log.notices]


@pytest.mark.parametrize("left", [1, 700, 1999])
def test_a_log_that_stops_in_mid_period_is_used_without_it_and_says_so(
    five_bar: Model, five_bar_log: Recording, left: int
) -> None:
    cut = five_bar_log.take(slice(0, 3 * 2000 + left))
    done = process(five_bar, cut)
    whole = process(five_bar, five_bar_log.take(slice(0, 6000)))
    assert (done.method, done.periods) == ("explicit", 3)
    np.testing.assert_array_equal(done.motion.q, whole.motion.q)
    (found,) = (f for f in done.notices if f.rule == "incomplete")
    assert f"the last period stops after {left} of 2000 samples" in found.text
    assert not [f for f in whole.notices if f.rule == "incomplete"]
    assert any("left out" in str(notice) for notice in identify(five_bar, [cut]).notices)


def test_a_period_that_still_settles_is_left_out_and_said(
    five_bar: Model, five_bar_log: Recording
) -> None:
    fading = 0.1 * np.exp(-np.arange(len(five_bar_log)) / 200.0)[:, None]
    done = process(five_bar, replace(five_bar_log, position=five_bar_log.position + fading))
    later = process(five_bar, five_bar_log.take(slice(2000, None)))
    assert done.periods == five_bar_log.period_count - 1
    np.testing.assert_allclose(done.motion.q, later.motion.q, atol=1e-4)
    (found,) = (f for f in done.notices if f.rule == "transient")
    assert "still settles in the first 1 of 5 periods" in found.text


def test_less_than_two_periods_are_processed_in_time(
    five_bar: Model, five_bar_log: Recording
) -> None:
    done = process(five_bar, five_bar_log.take(slice(0, 3999)))
    assert (done.method, done.periods) == ("time", 0)


def test_a_motion_that_repeats_undeclared_is_said_and_used_if_asked(
    five_bar: Model, five_bar_log: Recording
) -> None:
    undeclared = replace(five_bar_log, period_samples=None)
    assert repetition(undeclared) == pytest.approx(2.0, abs=1e-2)
    usual = process(five_bar, undeclared)
    assert usual.method == "time"
    (said,) = (f for f in usual.notices if f.rule == "period")
    assert said.numbers["seconds"] == pytest.approx(2.0, abs=1e-2)
    asked = process(five_bar, undeclared, Processing(repeats="found"))
    assert (asked.method, asked.periods) == ("explicit", 5)
    declared = process(five_bar, five_bar_log)
    scale = np.abs(declared.motion.qdd).max(axis=0)
    assert np.abs((asked.motion.qdd - declared.motion.qdd) / scale).max() < 0.02


def test_the_processing_of_a_found_repetition_finds_it_in_other_logs_too(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> None:
    logs = [replace(log, period_samples=None) for log in (five_bar_log, five_bar_other)]
    chosen = prepare(
        five_bar, logs[:1], base_parameters(five_bar), processing=Processing(repeats="found")
    ).processing
    assert chosen.complete
    assert process(five_bar, logs[1], chosen).periods == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_motion_that_does_not_repeat_is_not_said_to(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(8000) / 200
    waves = [np.sin(2 * np.pi * f * t + phase) for f, phase in rng.uniform(0.1, 1.0, (6, 2))]
    q = np.column_stack([sum(waves[:3]), sum(waves[3:])])
    log = Recording(joints=("a", "b"), time=t, position=q, position_units=("m", "m"), effort=q)
    assert repetition(log) is None
    assert repetition(replace(log, position=np.zeros_like(q))) is None
    assert repetition(log.take(slice(0, 10))) is None


def test_one_joint_that_does_not_repeat_is_enough(five_bar_log: Recording) -> None:
    drifting = np.array(five_bar_log.position)
    drifting[:, 1] += 0.2 * np.linspace(0, 1, len(drifting))
    assert repetition(replace(five_bar_log, position=drifting)) is None


def test_uneven_clocks_are_put_right_and_said(five_bar: Model, five_bar_log: Recording) -> None:
    time = np.array(five_bar_log.time)
    time[1::7] += 3e-4
    log = match_robot(five_bar, replace(five_bar_log, time=time, period_samples=None)).recording
    assert "controller time" in kinds(log)  # the stamps were wrong, the samples even
    assert np.abs(np.diff(log.time) * log.rate - 1).max() < 1e-9
    cut = five_bar_log.take(np.delete(np.arange(len(time)), [500, 501, 3000]))
    log = match_robot(five_bar, cut).recording
    assert "resampled" in kinds(log)
    assert np.abs(np.diff(log.time) * log.rate - 1).max() < 1e-9
    assert np.flatnonzero(~log.measured).tolist() == [500, 501, 3000]


def test_efforts_beyond_the_limit_of_a_motor_are_questioned(
    five_bar: Model, five_bar_log: Recording
) -> None:
    assert "beyond limit" not in kinds(match_robot(five_bar, five_bar_log).recording)
    name = five_bar.mechanism.actuated[0]
    limit = five_bar.mechanism.joint(name).limits.effort
    assert limit is not None
    effort = np.array(five_bar_log.effort)
    effort[:, 0] *= 7.6 * limit / np.abs(effort[:, 0]).max()
    log = match_robot(five_bar, replace(five_bar_log, effort=effort)).recording
    (notice,) = [notice for notice in log.notices if notice.rule == "beyond limit"]
    assert notice.level == "warning"
    assert notice.where == f"{name}.effort"
    assert "7.6 times" in notice.text
