"""Looking at recordings: each finding appears where it should and only there."""

import numpy as np
import pytest

from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.notices import of_log, ordered
from gough.logs.checks import (
    check_even,
    inspect_channel,
    inspect_clock,
    inspected,
    is_even,
    joint_motion,
    quantisation_step,
    spread_equal_stamps,
    travelling,
)
from gough.logs.messages import log_notice
from gough.logs.periods import even_times, interpolate, resample, resample_evenly
from gough.logs.recording import Recording

TIME = np.arange(5000) / 500.0
WAVE = np.sin(2 * np.pi * 0.7 * TIME) + 0.3 * np.cos(2 * np.pi * 2.1 * TIME)


def kinds(findings) -> list[str]:
    return [f.rule for f in findings]


def test_a_clean_smooth_signal_has_no_findings() -> None:
    assert list(inspect_clock(TIME, "time")) == []
    assert list(inspect_channel(WAVE, "q", "m")) == []


def test_jitter_is_measured() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=1e-4, size=len(TIME))
    (found,) = inspect_clock(TIME + noise, "time")
    assert found.rule == "jitter"
    assert found.numbers["std"] == pytest.approx(np.sqrt(2) * 1e-4, rel=0.05)


def test_a_gap_is_found_with_place_length_and_samples_lost() -> None:
    time = np.delete(TIME, slice(1000, 1007))
    (found,) = inspect_clock(time, "time")
    assert found.rule == "gap"
    assert found.numbers == {"count": 1, "largest": pytest.approx(0.016), "sample": 999, "lost": 7}


def test_a_clock_that_speeds_up_drifts() -> None:
    time = TIME * (1 + 2e-3 * TIME / TIME[-1])
    (found,) = inspect_clock(time, "time")
    assert found.rule == "drift"
    # A quadratic bulge of height h stands h * 2/3 above and h / 3 below its straight line: here h =
    # 2e-3 * 10 s / 4.
    assert found.numbers["largest"] == pytest.approx(2e-3 * 10 / 4 * 2 / 3, rel=0.01)


def one_joint(position: np.ndarray, effort: np.ndarray) -> Recording:
    """Return a log of one joint."""
    return Recording(
        joints=("a",),
        time=TIME,
        position=position[:, None],
        position_units=("m",),
        effort=effort[:, None],
    )


@pytest.mark.parametrize(("hold", "found"), [(1, True), (10, True), (100, False)])
def test_an_effort_that_stands_still_for_a_part_of_the_log_is_found(hold: int, found: bool) -> None:
    """Each value may be held for some samples, as by a slower drive; standing still must then last
    longer.
    """
    held = np.repeat(WAVE[::hold], hold)
    stuck = held.copy()
    stuck[3000:3800] = stuck[3000]

    def dead(position: np.ndarray, effort: np.ndarray) -> list[tuple[str, float]]:
        log = one_joint(position, effort)
        return [(f.where, f.numbers["sample"]) for f in inspected(log).notices if f.rule == "dead"]

    assert dead(WAVE, stuck) == ([("a.effort", 3000)] if found else [])
    assert dead(WAVE, held) == []
    assert dead(stuck, held) == []  # a joint may stand still, alone or with the whole robot
    assert dead(stuck, stuck) == []


@pytest.mark.parametrize("dead", [False, True])
def test_a_coarse_effort_that_begins_with_a_jump_of_friction_is_not_dead(dead: bool) -> None:
    """The joint rests, starts with a jump of friction and moves slowly, then fast."""
    speed = np.select([TIME < 4, TIME < 6], [0.0, 0.02], 1.0) * np.cos(TIME)
    position = np.cumsum(speed) / 500
    effort = 0.9 * np.sign(speed) + np.where(TIME > 6, 2 * np.sin(30 * TIME), 0.1 * (TIME > 4))
    if dead:
        effort[4000:4803] = effort[4000]
    log = one_joint(position, 0.25 * np.round(effort / 0.25))
    assert [notice.rule for notice in inspected(log).notices if notice.rule == "dead"] == [
        "dead"
    ] * dead


@pytest.mark.parametrize("dead", [False, True])
def test_a_coarse_effort_that_ends_with_a_jump_of_friction_is_not_dead(dead: bool) -> None:
    """The effort is flat until its joint reverses; a dead one also ends where it does not."""
    position = np.sin(2 * np.pi * TIME / 8)
    effort = np.sign(np.cos(2 * np.pi * TIME / 8)) + np.where(TIME > 2, np.sin(30 * TIME), 0.0)
    if dead:
        effort[3500:3700] = effort[3500]
    log = one_joint(position, 0.1 * np.round(effort / 0.1))
    assert [notice.rule for notice in inspected(log).notices if notice.rule == "dead"] == [
        "dead"
    ] * dead


@pytest.mark.parametrize("clipped", [False, True])
def test_an_effort_that_is_largest_at_rest_is_not_clipped(clipped: bool) -> None:
    """At rest the last bit of the encoder changes all the time."""
    speed = np.where(TIME < 1, 0.0, np.sin(4 * TIME))
    toggling = np.random.default_rng(0).integers(0, 2, len(TIME))
    position = 1e-4 * (np.round(np.cumsum(speed) / 500 / 1e-4) + toggling)
    effort = np.where(TIME < 1, 1.0, 0.9 * np.sin(7 * TIME) * np.sin(TIME))
    if clipped:
        effort = np.where(TIME < 1, 0.5, np.minimum(effort, 0.7))
    log = one_joint(position, effort)
    rules = [notice.rule for notice in inspected(log).notices]
    assert ("saturation" in rules) == clipped


def test_a_dead_channel_is_found() -> None:
    (found,) = inspect_channel(np.full(100, 3.0), "a.current", "A")
    assert found.rule == "dead"
    assert found.numbers["value"] == 3.0


@pytest.mark.parametrize("step", [1e-3, 2.325e-4, 0.05])
def test_quantisation_steps_are_found(step: float) -> None:
    assert quantisation_step(np.round(WAVE / step) * step) == pytest.approx(step, rel=1e-6)


def test_quantisation_under_printed_digits_is_found_within_two_percent() -> None:
    slow = 1e-3 * WAVE
    printed = np.round(np.round(slow / 2.325e-6) * 2.325e-6, 6)
    assert quantisation_step(printed) == pytest.approx(2.325e-6, rel=0.02)


def test_rounding_of_a_signal_that_settles_is_no_quantisation() -> None:
    motion = np.linspace(0.0, 1.0, 300) ** 1.7
    settled = 1.0 - 1e-12 * np.arange(300) % 40e-12
    assert quantisation_step(np.concatenate([motion, settled])) is None


def test_continuous_signals_have_no_quantisation_step() -> None:
    rng = np.random.default_rng(0)
    assert quantisation_step(rng.normal(size=5000)) is None
    assert quantisation_step(np.concatenate([np.zeros(500), rng.normal(size=5000)])) is None
    assert quantisation_step(WAVE) is None


@pytest.mark.parametrize("step", [None, 0.01])
def test_clipping_is_found_on_the_side_where_it_is(step: float | None) -> None:
    clipped = np.minimum(WAVE, 0.9)
    if step is not None:
        clipped = np.round(clipped / step) * step
    found = [f for f in inspect_channel(clipped, "a.effort", "N") if f.rule == "saturation"]
    assert len(found) == 1
    assert found[0].numbers["value"] == pytest.approx(0.9)
    assert found[0].numbers["count"] == np.sum(clipped == clipped.max())


@pytest.mark.parametrize("step", [0.001, 0.02, 0.1])
def test_turning_points_of_a_quantised_wave_are_not_saturation(step: float) -> None:
    assert "saturation" not in kinds(
        inspect_channel(np.round(WAVE / step) * step, "a.position", "m")
    )


def test_friction_of_a_slow_joint_behind_a_coarse_converter_is_not_saturation() -> None:
    time = np.linspace(0, 20, 4000)
    effort = 4.6 * np.sign(np.sin(time)) + 1.1 * np.sin(time)  # never above 5.7
    assert "saturation" not in kinds(inspect_channel(np.round(effort), "a.effort", "N"))
    swing = 20.0 * np.sin(time)
    clipped = np.round(np.clip(swing, -6.0, 6.0))
    assert kinds(inspect_channel(clipped, "a.effort", "N")).count("saturation") == 2


@pytest.mark.parametrize("clipped", [False, True])
def test_friction_of_a_joint_behind_a_coarse_converter_is_saturated_only_where_it_hides_a_peak(
    clipped: bool,
) -> None:
    """Friction jumps where the joint starts, and keeps one value until it stops or the log ends."""
    speed = np.where(TIME < 1, 0.0, np.minimum(TIME - 1, 1.0))
    noise = 1e-6 * np.random.default_rng(0).normal(size=len(TIME))
    position = np.cumsum(speed) / 500 + noise
    effort = 9.9 * np.tanh(speed / 1e-2) + 0.05 * np.sin(3 * TIME)
    if clipped:
        effort = np.minimum(8 + 5 * np.sin(4 * TIME), 10.0)
    log = one_joint(position, 0.7 * np.round(effort / 0.7))
    rules = [notice.rule for notice in inspected(log).notices]
    assert ("saturation" in rules) == clipped


def test_positions_of_a_damaged_file_overflow_without_a_word() -> None:
    position = np.array([[1e308], [-1e308], [1e308], [-1e308], [0.0]])
    assert travelling(position).shape == position.shape


def test_rest_is_not_saturation() -> None:
    position = np.concatenate([np.full(800, WAVE.min()), WAVE, np.full(800, WAVE.min())])
    recording = Recording(
        joints=("a",),
        time=np.arange(len(position)) / 500.0,
        position=position[:, None],
        position_units=("m",),
        effort=np.where(position == position.min(), 9.0, position)[:, None],
    )
    assert kinds(inspected(recording).notices) == []
    assert kinds(inspect_channel(position, "a.position", "m")) == ["saturation"]


def test_moving_samples_reach_to_both_sides_of_a_change() -> None:
    position = np.zeros((30, 2))
    position[15:, 1] = 1.0
    changes = joint_motion(position).changes
    assert not changes[:, 0].any()
    assert np.array_equal(np.flatnonzero(changes[:, 1]), np.arange(12, 17))


def recording(time: np.ndarray) -> Recording:
    return Recording(
        joints=("a",),
        time=time,
        position=(time**3)[:, None],
        position_units=("m",),
        effort=(2 * time)[:, None],
        period_samples=10,
    )


def test_uneven_clocks_are_refused_for_filtering_until_resampled() -> None:
    time = TIME[:100].copy()
    time[40] += 0.0004
    with pytest.raises(InvalidRecording, match=r"after sample (39|40) .*state a rate"):
        check_even(recording(time))
    assert check_even(resample_evenly(recording(time))) == pytest.approx(500.0, rel=1e-3)


def test_the_most_unusual_step_is_compared_with_the_usual_one() -> None:
    time = TIME[:100].copy()
    time[41:] += 10 * (time[1] - time[0])
    with pytest.raises(InvalidRecording, match="after sample 40 ") as caught:
        check_even(recording(time))
    assert caught.value.numbers["deviation"] == pytest.approx(10.0)
    assert not is_even(time)
    assert is_even(TIME)


def test_a_few_lost_samples_are_put_back_and_the_others_stay_as_they_are() -> None:
    whole = recording(TIME[:200])
    made = resample_evenly(whole.take(np.delete(np.arange(200), [50, 120, 121])))
    assert np.allclose(made.time, whole.time, atol=1e-12)
    assert np.allclose(
        np.delete(made.position, [50, 120, 121], axis=0),
        np.delete(whole.position, [50, 120, 121], axis=0),
        atol=1e-12,
    )


@pytest.mark.parametrize("lost", [9, 10])
def test_a_gap_of_more_than_ten_steps_is_not_filled_with_invented_samples(lost: int) -> None:
    log = recording(TIME[:200]).take(np.delete(np.arange(200), np.arange(100, 100 + lost)))
    if lost < 10:
        assert len(resample_evenly(log)) == 200
        return
    with pytest.raises(
        InvalidRecording, match=r"no samples for .* after sample 99 \(t = .*cut the log there"
    ):
        resample_evenly(log)
    with pytest.raises(InvalidRecording, match="1 samples"):
        resample_evenly(log.take(slice(0, 1)))


@pytest.mark.parametrize(
    ("method", "error"), [("linear", 2e-4), ("cubic", 1e-12), ("previous", 0.02)]
)
def test_interpolation_is_as_good_as_its_order(method: str, error: float) -> None:
    made = resample(recording(TIME[:500]), TIME[10:400] + 0.0007, method)
    assert made.period_samples is None
    worst = np.abs(made.position[:, 0] - made.time**3).max()
    assert worst <= error
    assert worst > error * 1e-4 or method == "cubic"


def test_holding_takes_the_sample_at_its_own_time() -> None:
    held = interpolate(
        np.arange(4.0)[:, None], TIME[:4], np.array([TIME[1], TIME[2] - 1e-6, TIME[2]]), "previous"
    )
    assert held[:, 0].tolist() == [1.0, 1.0, 2.0]


def test_nothing_is_extrapolated_and_methods_are_named() -> None:
    with pytest.raises(InvalidInput, match="extrapolated"):
        resample(recording(TIME[:50]), TIME[:51])
    with pytest.raises(InvalidInput, match="extrapolated"):
        resample(recording(TIME[1:50]), TIME[:20])
    with pytest.raises(InvalidInput, match="did you mean 'cubic'"):
        interpolate(np.zeros((3, 1)), TIME[:3], TIME[:3], "cubik")
    with pytest.raises(InvalidInput, match="rate"):
        even_times(0.0, 1.0, -1.0)


def test_an_even_clock_keeps_the_last_sample_despite_rounding() -> None:
    assert len(even_times(0.0, 0.7, 10.0)) == 8
    assert even_times(0.1, 0.8, 10.0)[-1] <= 0.8


def test_channels_of_which_the_same_is_to_be_said_share_a_note() -> None:
    coarse = np.round(WAVE / 0.05) * 0.05
    found = [f for name in ("a.position", "b.position") for f in inspect_channel(coarse, name, "m")]
    found += inspect_channel(np.full(100, 3.0), "a.current", "A")
    found += [log_notice("truncated", "log.csv", "the last line is cut")]
    assert [str(notice) for notice in ordered(of_log(found, "log.csv"))] == [
        "log.csv: a.current: all 100 samples are 3 A; check whether the channel is connected",
        "log.csv: a.position, b.position: values come in steps of 0.05 m",
        "log.csv: the last line is cut",
    ]


def test_few_visited_levels_of_a_short_motion_are_still_multiples_of_the_step() -> None:
    """A move visits 60 of 2000 counts, few of which are neighbours."""
    rng = np.random.default_rng(0)
    counts = rng.choice(2000, 60, replace=False)
    values = 0.3 + 2e-5 * counts
    assert quantisation_step(values) == pytest.approx(2e-5, rel=1e-6)
    assert quantisation_step(values + 1e-5 * rng.random(60)) is None


def test_equal_stamps_are_spread_unless_the_clock_hung() -> None:
    time = np.arange(400) * 4e-3
    coarse = np.floor(time / 0.0156) * 0.0156  # as a clock of Windows
    spread, count = spread_equal_stamps(coarse)
    assert count == len(time) - len(np.unique(coarse))
    assert np.abs(spread - time - np.median(spread - time)).max() < 0.0156
    assert (np.diff(spread) > 0).all()
    hung = time.copy()
    hung[100:150] = hung[100]
    assert spread_equal_stamps(hung) == (hung, 0)
    assert spread_equal_stamps(time) == (time, 0)


@pytest.mark.parametrize(("factor", "warned"), [(1.05, False), (57.3, True), (-1.0, True)])
def test_velocities_that_contradict_the_positions_are_found(factor: float, warned: bool) -> None:
    time = np.arange(2000) * 2e-3
    position = np.column_stack([np.sin(3 * time), np.cos(2 * time)])
    velocity = np.column_stack([3 * np.cos(3 * time), -2 * np.sin(2 * time)])
    recording = Recording(
        joints=("a", "b"),
        time=time,
        position=position,
        position_units=("rad", "rad"),
        velocity=factor * velocity,
    )
    notices = [notice for notice in inspected(recording).notices if notice.rule == "velocity"]
    assert len(notices) == (2 if warned else 0)
    for notice in notices:
        assert notice.numbers["ratio"] == pytest.approx(factor, rel=0.02)
