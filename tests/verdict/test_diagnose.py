"""Diagnosis of logs with a fault made on purpose: the right name and size, and none without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from gough import identify
from gough.core.errors import GoughError, InvalidInput, LoopNotClosed
from gough.engine import Model
from gough.engine.geometry import displaced, geometric_errors
from gough.identification.diagnosis import Diagnosis, NamedFault
from gough.logs.recording import Recording
from gough.verdict.acceptance import no_gain
from gough.verdict.blocks import block_labels
from gough.verdict.close_path import close_along_path
from gough.verdict.diagnose import DiagnoseSettings, diagnose, evidence_from, without_fault
from gough.verdict.discrete_faults import discrete_faults
from gough.verdict.discrete_trials import discrete_explanations
from gough.verdict.drift import _wander, drifting_efforts
from gough.verdict.explanation import Explanation
from gough.verdict.faults import Fault, all_faults
from gough.verdict.geometry_faults import geometry_faults
from gough.verdict.judge import (
    explains_enough,
    largest_effort_change,
    odd_log_notices,
    partial_notices,
)
from gough.verdict.odd_logs import needed_logs, odd_logs
from gough.verdict.search import Search, beyond_first_order
from gough.verdict.stage import Stage
from gough.virtual import record, simulate
from tests_support import fourier
from trials import repeated

Logs = tuple[Recording, Recording]
Spoil = Callable[[Recording], Recording]


def efforts(change: Callable[[np.ndarray], np.ndarray], motor: int | None = None) -> Spoil:
    def spoil(log: Recording) -> Recording:
        assert log.effort is not None
        effort = log.effort.copy()
        columns = slice(None) if motor is None else [motor]
        effort[:, columns] = change(effort[:, columns])
        return replace(log, effort=effort)

    return spoil


def positions(change: Callable[[np.ndarray], np.ndarray], motor: int | None = None) -> Spoil:
    def spoil(log: Recording) -> Recording:
        position = log.position.copy()
        columns = slice(None) if motor is None else [motor]
        position[:, columns] = change(position[:, columns])
        return replace(log, position=position)

    return spoil


def diagnosed(model: Model, logs: Logs, spoil: Spoil) -> Diagnosis:
    return diagnose(model, [spoil(log) for log in logs])


def texts(diagnosis: Diagnosis) -> list[str]:
    return [fault.text for fault in diagnosis.faults]


def test_clean_logs_show_no_fault_although_the_file_is_ten_per_cent_off(
    five_bar: Model, logs: Logs
) -> None:
    diagnosis = diagnose(five_bar, logs[:1], held_out=logs[1:])
    assert texts(diagnosis) == []
    assert diagnosis.level == "ok"
    assert diagnosis.unexplained < 0.01
    assert "none of the known faults" in diagnosis.summary()


def test_clean_logs_without_periods_show_no_fault(five_bar: Model, without_periods: Logs) -> None:
    assert texts(diagnose(five_bar, without_periods)) == []


@pytest.mark.parametrize(
    ("spoil", "name", "place", "size"),
    [
        (efforts(lambda e: np.roll(e, 1, axis=0)), "effort delay", "all motors", 8e-3),
        (positions(lambda q: 1.1 * q, 1), "encoder scale", "right.motor", 0.1),
        (positions(lambda q: q + 0.1, 0), "encoder offset", "left.motor", 0.1),
        (positions(lambda q: q + 0.3, 0), "encoder offset", "left.motor", 0.3),
    ],
    ids=["delay", "encoder scale", "homing", "gross homing"],
)
def test_a_fault_of_both_logs_is_named_and_measured(
    five_bar: Model, logs: Logs, spoil: Spoil, name: str, place: str, size: float
) -> None:
    diagnosis = diagnosed(five_bar, logs, spoil)
    assert len(diagnosis.faults) == 1, texts(diagnosis)
    fault = diagnosis.faults[0]
    assert (fault.name, fault.place, fault.logs) == (name, place, ())
    assert abs(fault.size[0] - size) < 3 * fault.std[0]
    assert fault.std[0] < 0.1 * abs(size)
    assert fault.after < fault.before
    assert fault.notice().rule == name


@pytest.mark.parametrize("factor", [2.35, 1000.0])
def test_a_factor_on_one_motor_is_named_up_to_a_factor_on_all(
    five_bar: Model, logs: Logs, factor: float
) -> None:
    """Logs of two motors cannot tell one that is too large from another that is too small."""
    diagnosis = diagnosed(five_bar, logs, efforts(lambda e: factor * e, 1))
    (fault,) = diagnosis.faults
    assert (fault.name, fault.unit, fault.level) == ("effort scale", "times", "error")
    expected = factor if fault.place == "right.motor" else 1 / factor
    assert abs(fault.size[0] - expected) < 3 * fault.std[0]
    assert fault.std[0] < 0.1 * expected
    other = ({"left.motor", "right.motor"} - {fault.place}).pop()
    assert any(other in text for text in fault.equivalents)


def test_a_flipped_sign_of_one_motor_is_an_error(five_bar: Model, logs: Logs) -> None:
    """With the sign of the other motor flipped, all masses would be negative."""
    diagnosis = diagnosed(five_bar, logs, efforts(np.negative, 0))
    fault = diagnosis.faults[0]
    assert fault.name == "effort sign", texts(diagnosis)
    assert fault.place == "left.motor"
    assert fault.equivalents == ()
    assert abs(fault.size[0] + 1) < 3 * fault.std[0]
    assert diagnosis.level == "error"


def test_swapped_efforts_are_an_error(five_bar: Model, logs: Logs) -> None:
    diagnosis = diagnosed(five_bar, logs, efforts(lambda e: e[:, ::-1]))
    fault = diagnosis.faults[0]
    assert fault.name == "swapped efforts", texts(diagnosis)
    assert fault.place == "left.motor and right.motor"
    assert diagnosis.level == "error"


def test_a_payload_in_one_log_is_weighed(
    five_bar: Model, logs: Logs, make_log: Callable[..., Recording]
) -> None:
    diagnosis = diagnose(five_bar, [logs[0], make_log(1, payload=0.4)])
    (fault,) = diagnosis.faults
    assert (fault.name, fault.place, fault.logs) == ("payload", "log 1", ("log 1",))
    assert abs(fault.size[0] - 0.4) < 3 * fault.std[0]


def test_positions_with_which_loops_do_not_close_are_named(five_bar: Model, logs: Logs) -> None:
    diagnosis = diagnosed(five_bar, logs, positions(np.rad2deg))
    fault = diagnosis.faults[0]
    assert (fault.name, fault.place, fault.level) == ("position unit", "all motors", "error")
    assert fault.size == (pytest.approx(180 / np.pi),)
    assert diagnosis.notices[0].rule == "loops"


def test_identify_says_why_loops_do_not_close(five_bar: Model, logs: Logs) -> None:
    with pytest.raises(GoughError, match=r"all motors is 57\.2958 times too large") as caught:
        identify(five_bar, [positions(np.rad2deg)(log) for log in logs])
    (notice,) = caught.value.numbers["notices"]  # type: ignore[misc]
    assert (notice.rule, notice.where, notice.level) == ("position unit", "all motors", "error")


def test_times_in_milliseconds_are_named_though_the_logs_can_be_processed(five_bar: Model) -> None:
    """Without accelerations nothing is filtered, and at the right pace noise hides the effort."""
    slow = []
    for seed in (1, 2):
        trajectory = fourier(five_bar, 0.4, 0.5, harmonics=5, seed=seed)
        log = record(simulate(five_bar, trajectory, periods=3), seed=seed)
        slow.append(replace(log, time=1000 * log.time, period_samples=None))
    result = identify(five_bar, slow[:1], held_out=slow[1:])
    assert result.headline.startswith("five_bar: ERROR - times are 1000 times too long")
    assert not {"unexplained", "not noticed"} & {notice.rule for notice in result.notices}
    (fault,) = diagnose(five_bar, slow[:1], held_out=slow[1:]).faults
    assert (fault.name, fault.level) == ("clock unit", "error")
    assert fault.after < 0.1 * fault.before
    assert fault.evidence.endswith("% of the effort")


def test_times_in_milliseconds_are_found_by_the_search(
    five_bar: Model, without_periods: Logs
) -> None:
    slow = [replace(log, time=1000 * log.time) for log in without_periods]
    result = identify(five_bar, slow[:1], held_out=slow[1:])
    assert result.headline.startswith("five_bar: ERROR - times are 1000 times too long")


def test_a_log_that_nothing_makes_close_gives_its_own_error(five_bar: Model, logs: Logs) -> None:
    walk = np.random.default_rng(0).standard_normal(logs[0].position.shape).cumsum(axis=0)
    far = replace(logs[0], position=logs[0].position + 0.05 * walk)
    with pytest.raises(GoughError):
        diagnose(five_bar, [far])


def test_no_logs_are_refused(five_bar: Model) -> None:
    with pytest.raises(InvalidInput, match="no recording"):
        diagnose(five_bar, [])


def test_a_discrete_fault_is_undone_on_a_recording(five_bar: Model, logs: Logs) -> None:
    faults = discrete_faults(five_bar.mechanism)
    swap = next(fault for fault in faults if fault.name == "swapped channels")
    undone = without_fault(logs[0], swap)
    assert logs[0].effort is not None
    np.testing.assert_array_equal(undone.position, logs[0].position[:, ::-1])
    np.testing.assert_array_equal(undone.effort, logs[0].effort[:, ::-1])


# -- drift from period to period


class Periods:
    """A processed log, as far as the rule of drift looks at it."""

    source = "log"

    def __init__(self, model: Model, gains: np.ndarray, noise: float = 0.01) -> None:
        phase = np.linspace(0, 2 * np.pi, 200, endpoint=False)
        shape = np.stack([np.sin(phase), 3 * np.cos(phase)], axis=1)
        rng = np.random.default_rng(0)
        self.model = model
        self.repetitions = gains[:, None, :] * shape
        self.repetitions = self.repetitions + noise * rng.standard_normal(self.repetitions.shape)


def drifts(model: Model, gains: np.ndarray) -> list[NamedFault]:
    return drifting_efforts([Periods(model, gains)])  # type: ignore[list-item]


def test_an_effort_that_falls_from_period_to_period_is_measured(five_bar: Model) -> None:
    """A fall of 2 % a period over ten periods: 20 % of the effort at the start of the log."""
    gains = np.ones((10, 2))
    gains[:, 1] -= 0.02 * (np.arange(10) + 0.5)
    (fault,) = drifts(five_bar, gains)
    assert (fault.name, fault.place, fault.logs) == ("drift", "right.motor", ("log",))
    assert abs(fault.size[0] + 0.2) < 4 * fault.std[0]
    assert "falls along the log by" in fault.text


def test_little_drift_and_few_periods_are_no_fault(five_bar: Model) -> None:
    slope = np.linspace(1.0, 0.8, 10)[:, None] * np.ones(2)
    assert drifts(five_bar, np.ones((10, 2))) == []
    assert drifts(five_bar, 1 + 0.02 * (slope - 1)) == []  # 0.4 %
    assert drifts(five_bar, slope[:1]) == []


def test_a_gain_that_goes_up_and_down_is_no_trend_but_changes_from_period_to_period(
    five_bar: Model,
) -> None:
    """A sine of 5 %: the range of evenly distributed values of that deviation is 0.122."""
    gains = np.ones((12, 2))
    gains[:, 0] += 0.05 * np.sin(np.arange(12) * 2 * np.pi / 3)
    (fault,) = drifts(five_bar, gains)
    assert (fault.name, fault.place, fault.logs) == ("drift", "left.motor", ("log",))
    expected = 0.05 * np.sqrt(12 / 11 / 2) * np.sqrt(12)
    assert fault.size[0] == pytest.approx(expected, rel=0.01)
    assert "changes from period to period" in fault.text


@pytest.mark.parametrize("correlation", [0.0, 0.95])
@repeated(100, 2000)
def test_noise_of_periods_is_no_wandering_gain(
    five_bar: Model, correlation: float, trials: int
) -> None:
    """Also noise with most of its power in the band of the motion; 1 % of the logs may alarm."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(trials):
        log = Periods(five_bar, np.ones((6, 2)), noise=0.0)
        white = rng.standard_normal((7 * 200, 2))
        noise = lfilter([0.3], [1.0, -correlation], white, axis=0)[200:]  # behind its start
        log.repetitions = log.repetitions + noise.reshape(log.repetitions.shape)
        alarms += len(drifting_efforts([log])) > 0  # type: ignore[list-item]
    assert alarms <= stats.binom.ppf(0.999, trials, 0.01)


def test_a_delay_that_differs_between_periods_is_no_wandering_gain(five_bar: Model) -> None:
    log = Periods(five_bar, np.ones((8, 2)), noise=0.0)
    periods = [np.roll(period, k % 3, axis=0) for k, period in enumerate(log.repetitions)]
    log.repetitions = np.array(periods)
    assert drifting_efforts([log]) == []  # type: ignore[list-item]


def test_the_chance_of_wandering_gains_is_that_of_the_noise() -> None:
    """With noise alone it is below 5 % in one of twenty logs."""
    rng = np.random.default_rng(5)
    phase = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    mean = np.sin(phase) + 0.3 * np.cos(3 * phase)
    chances = []
    for _ in range(200):
        _, _, chance = _wander(mean + 0.1 * rng.standard_normal((6, len(phase))))
        chances.append(chance)
    rare = int((np.array(chances) < 0.05).sum())
    assert stats.binom.ppf(0.001, 200, 0.05) <= rare <= stats.binom.ppf(0.999, 200, 0.05)


def test_outliers_of_single_periods_are_no_wandering_gain(five_bar: Model) -> None:
    """One in a hundred samples, in other places of each period; 1 % of the logs may alarm."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(100):
        log = Periods(five_bar, np.ones((3, 2)))
        outliers = rng.random(log.repetitions.shape) < 0.01
        sign = np.where(rng.random(outliers.shape) < 0.5, -1.0, 1.0)
        log.repetitions = np.where(outliers, 10 * sign * log.repetitions, log.repetitions)
        alarms += len(drifting_efforts([log])) > 0  # type: ignore[list-item]
    assert alarms <= stats.binom.ppf(0.999, 100, 0.01)


# -- what is enough


@pytest.mark.parametrize(
    ("before", "after", "noise", "enough"),
    [
        (0.10, 0.02, 0.02, True),
        (0.10, 0.09, 0.02, False),
        (0.10, 0.04, 0.00, True),
        (0.10, 0.05, 0.00, False),
        (0.02, 0.02, 0.02, True),  # nothing to explain
        (0.02, 0.01, 0.05, True),
        (0.0118, 0.0107, 0.01, True),  # what remains does not matter
        (0.0118, 0.0113, 0.01, False),
    ],
)
def test_a_cause_explains_four_fifths_of_the_error_above_noise(
    before: float, after: float, noise: float, enough: bool
) -> None:
    one_row = [np.array([each]) for each in (before, after, noise)]
    assert explains_enough(*one_row) == enough


def test_the_error_of_another_joint_does_not_make_a_cause_doubtful() -> None:
    """The effort of the first joint is explained; the second has an error of its own."""
    before = np.array([0.05, 0.06])
    noise = np.array([0.01, 0.01])
    assert explains_enough(before, np.array([0.015, 0.06]), noise)
    assert not explains_enough(before, np.array([0.03, 0.06]), noise)
    hardly_lower = np.array([0.05, 0.0599])
    assert not explains_enough(before, hardly_lower, np.array([0.01, 0.0598]))


def test_a_base_point_that_is_off_is_named_and_measured(
    five_bar: Model, make_log: Callable[..., Recording]
) -> None:
    """One base point 15 mm outwards is the same as both of them by half of it."""
    errors = {error.name: error for error in geometric_errors(five_bar)}
    wrong = {errors["base point of left.motor, x"]: 0.015}
    plant = Model(displaced(five_bar.mechanism, wrong))
    spoilt = [make_log(0, plant=plant), make_log(1, plant=plant)]
    evidence = evidence_from(five_bar, spoilt, (), DiagnoseSettings())[0]
    search = Search(evidence, faults=[])
    search.discrete = []
    first = search.best_explanations(search.first)[0]
    assert (first.name, first.place) == ("geometry", "base point of motor in all legs, radial")
    assert first.size[0] == pytest.approx(-0.0075, rel=0.1)  # to first order
    assert first.std[0] < 0.001


def test_below_ten_blocks_no_sign_or_channel_is_named(five_bar: Model, logs: Logs) -> None:
    swapped = [efforts(lambda effort: effort[:, ::-1])(log) for log in logs]
    evidence = evidence_from(five_bar, swapped, (), DiagnoseSettings())[0]
    for n_blocks, tried in ((5, True), (4, False)):
        search = Search(evidence, faults=[])
        search.discrete = [each for each in search.discrete if each.name == "swapped efforts"]
        labels = [
            np.arange(len(log.regression)) * n_blocks // len(log.regression) + k * n_blocks
            for k, log in enumerate(evidence.logs)
        ]
        stage = Stage(evidence, labels)
        explanations = discrete_explanations(stage, search.discrete, search.scopes, 1)
        names = [each.name for each in explanations]
        assert ("swapped efforts" in names) == tried


def test_one_log_unlike_the_others_is_named(
    five_bar: Model, logs: Logs, make_log: Callable[..., Recording]
) -> None:
    flipped = efforts(np.negative)(make_log(2))
    evidence = evidence_from(five_bar, [*logs, make_log(3), flipped], (), DiagnoseSettings())[0]
    (notice,) = odd_log_notices(Stage(evidence, block_labels(evidence.logs)))
    assert (notice.rule, notice.level, notice.where) == ("odd log", "warning", "log 2")
    assert notice.numbers["error"] > 2 * notice.numbers["usual"]


def test_a_log_predicted_twice_as_badly_as_the_median_is_odd() -> None:
    usual = np.log([0.010, 0.011, 0.0105, 0.0098])
    assert odd_logs(np.append(usual, np.log(0.05))) == [4]
    assert odd_logs(np.append(usual, np.log(0.019))) == []  # less than twice
    assert odd_logs(np.log([0.01, 0.02, 0.04, 0.08, 0.12])) == []  # they all differ
    assert odd_logs(np.append(usual, np.nan)) == []  # the only log with a payload
    assert odd_logs(np.log([0.01, 0.1])) == []


def test_logs_that_alone_determine_a_payload_are_not_compared() -> None:
    """Two sums, platform and platform with disc, are known if both kinds of logs are."""
    assert needed_logs([None, "disc", "disc"], {"disc"}) == [0]  # platform alone: only log 0
    assert needed_logs([None, None, "disc"], {"disc"}) == [2]
    assert needed_logs([None, "disc"], {"disc"}) == [0, 1]
    assert needed_logs([None, "disc", "disc", "rod", "rod"], {"disc", "rod"}) == [0]
    assert needed_logs([None, "disc", "weighed"], {"disc"}) == [1]  # platform: weighed less known
    assert needed_logs([None, "weighed"], set()) == []
    assert needed_logs([None, None, None], set()) == []


def test_the_change_of_efforts_by_faults_is_that_of_the_worst_joint() -> None:
    effort = np.random.default_rng(0).standard_normal((100, 2))
    recorded: Any = SimpleNamespace(logs=[SimpleNamespace(effort=effort)])
    scaled: Any = SimpleNamespace(logs=[SimpleNamespace(effort=effort * [1.0, 0.8])])
    shorter: Any = SimpleNamespace(logs=[SimpleNamespace(effort=effort[:50])])
    assert largest_effort_change(recorded, recorded) == 0.0
    assert largest_effort_change(recorded, scaled) == pytest.approx(0.2)
    assert largest_effort_change(recorded, shorter) == np.inf


@pytest.mark.parametrize(
    ("change", "after", "levels"),
    [(0.2, 0.01, ["warning"]), (0.02, 0.01, ["info"]), (0.2, 0.03, [])],
)
def test_a_fault_that_explains_too_little_is_a_warning_if_it_changes_much(
    monkeypatch: pytest.MonkeyPatch, change: float, after: float, levels: list[str]
) -> None:
    """One that raises the error explains nothing: a Delta with exchanged legs is its mirror image."""
    effort = np.random.default_rng(0).standard_normal((100, 2))
    recorded: Any = SimpleNamespace(logs=[SimpleNamespace(effort=effort)])
    corrected: Any = SimpleNamespace(logs=[SimpleNamespace(effort=(1 - change) * effort)])
    fault = SimpleNamespace(place="q1", text="the effort of q1 is scaled")
    monkeypatch.setattr("gough.verdict.judge.name_fault", lambda *_: fault)
    groups: Any = [("an explanation",)]
    first: Any = SimpleNamespace(evidence=recorded, error=0.02)
    last: Any = SimpleNamespace(evidence=corrected, error=after)
    notices = partial_notices(groups, first, last)
    assert [notice.level for notice in notices] == levels


def test_positions_in_a_wrong_unit_are_not_followed_for_ever(five_bar: Model) -> None:
    """A path of a million radians once took 12 GB."""
    path = np.array([[0.0, 0.0], [1e6, 0.0]]) + five_bar.home[list(five_bar.actuated)]
    with pytest.raises(LoopNotClosed, match="check the unit of the positions"):
        close_along_path(five_bar, path, None)


def test_a_clock_is_not_blamed_for_a_base_point_that_is_too_little_off_to_matter(
    five_bar: Model, make_log: Callable[..., Recording]
) -> None:
    """The wrong clock lowers the error by a quarter, the base point by half."""
    errors = {error.name: error for error in geometric_errors(five_bar)}
    wrong = {errors["base point of left.motor, x"]: 0.01}
    plant = Model(displaced(five_bar.mechanism, wrong))
    spoilt = [make_log(0, plant=plant), make_log(1, plant=plant)]
    assert texts(diagnose(five_bar, spoilt)) == []


def test_a_first_order_size_leaves_a_tenth_of_its_error_to_no_other_fault(
    five_bar: Model, logs: Logs
) -> None:
    evidence = evidence_from(five_bar, logs, (), DiagnoseSettings())[0]
    stage = Search(evidence, with_discrete=False).first
    gain = no_gain(len(stage.block_log))

    def explanation(fault: Fault, explained: float) -> Explanation:
        return Explanation(
            fault=fault,
            place=fault.places(evidence)[0],
            logs=(0, 1),
            size=np.array([0.01]),
            std=np.array([0.001]),
            gain=replace(gain, explained=explained),
        )

    wrong_point = explanation(geometry_faults(evidence)[0], 0.11)
    homing = next(fault for fault in all_faults(evidence) if fault.name == "encoder offset")
    small = explanation(homing, 0.01)
    large = explanation(homing, 0.012)
    assert beyond_first_order([small, large], []) == [small, large]
    assert beyond_first_order([small, large], [wrong_point]) == [large]
    assert beyond_first_order([small], [large]) == [small]
