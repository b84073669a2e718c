"""The judge of the verdict: its plant, its faults and its scores are right; a few of its trials."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.core.notices import Notice
from gough.engine import Model, random_motion

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import verdict_faults as faults
import verdict_plant as plants
import verdict_robots as robots

import verdict as judge

ROBOT = "five_bar"
SEED = 5


def scene_of(robot: str, kind: str = "f") -> faults.Scene:
    """Return the first scene with a robot."""
    number = next(n for n in range(100) if judge.robot_of(kind, n) == robot)
    return judge.draw_scene(kind, number, SEED)[0]


@pytest.fixture(scope="module")
def scene() -> faults.Scene:
    return scene_of(ROBOT)


def draft_with(scene: faults.Scene, label: str) -> faults.Draft:
    """Return a draft with the fault of a label."""
    draft = faults.Draft(scene=scene, rng=np.random.default_rng(3))
    next(fault for fault in faults.FAULTS if fault.label == label).apply(draft)
    return draft


# -- plant


@pytest.mark.parametrize("name", ["random_serial4", "random_3prr", "five_bar"])
def test_the_tree_of_the_plant_equals_pinocchio(name: str) -> None:
    pin = pytest.importorskip("pinocchio")
    from gough.virtual.pinocchio_plant import build_tree
    from gough.virtual.tree_plant import body_inertias

    model = Model(robots.robot_file(name, SEED))
    mechanism = model.mechanism
    values = mechanism.standard.as_dict()
    motion = random_motion(model, 5, seed=1, reach=0.3)
    gravity = np.array(mechanism.gravity)
    efforts = plants.tree_efforts(mechanism, values, motion, gravity)
    load = np.zeros(len(model.load_columns))
    tree = build_tree(mechanism, body_inertias(model, values, load))
    data = tree.model.createData()
    for t in range(5):
        q, qd, qdd = (x[t, tree.order] for x in (motion.q, motion.qd, motion.qdd))
        expected = np.array(pin.rnea(tree.model, data, q, qd, qdd))
        np.testing.assert_allclose(efforts[t, tree.order], expected, atol=1e-9)


def test_the_plant_equals_the_inverse_dynamics_where_friction_is_not_smoothed(
    scene: faults.Scene,
) -> None:
    model = scene.model
    values = model.mechanism.standard.as_dict()
    sharp = replace(scene.plant, values=values, band=1e-12)
    motion = scene.motion(0)
    moving = (np.abs(motion.qd[:, list(model.actuated)]) > 1e-9).all(axis=1)
    expected = model.inverse_dynamics(motion)
    np.testing.assert_allclose(sharp.efforts(motion)[moving], expected[moving], atol=1e-9)


def test_friction_is_smooth_and_holds_at_rest() -> None:
    friction = plants.coulomb(np.array([1.0, 0.5, 0.0, 0.0, -0.001, -1.0]), 0.01)
    np.testing.assert_allclose(friction[[0, 1, 5]], [1.0, 1.0, -1.0], atol=1e-6)
    np.testing.assert_allclose(friction[2:4], plants.HELD_FRICTION)
    assert -1 < friction[4] < 1


@pytest.mark.parametrize("name", ["five_bar", "random_serial3", "random_3rrr"])
def test_true_bodies_are_possible_and_differ_from_the_file(name: str) -> None:
    mechanism = robots.robot_file(name, SEED)
    same = robots.true_values(mechanism, np.random.default_rng(0), 0.0, 0.0)
    filed = mechanism.standard.as_dict()
    for parameter, number in filed.items():
        assert same[parameter] == pytest.approx(number, abs=1e-12)
    true = robots.true_values(mechanism, np.random.default_rng(0), 0.1, 0.25)
    for body in mechanism.bodies:
        parameters = plants.inertial_parameters(true, body.name)
        if parameters[0] == 0:
            continue
        assert parameters[0] != pytest.approx(filed[f"{body.name}.m"], rel=1e-3)
        centre = parameters[1:4] / parameters[0]
        moments = robots.second_moments(parameters) - parameters[0] * np.outer(centre, centre)
        assert np.linalg.eigvalsh(moments).min() > -1e-12


def test_motions_keep_the_limits(scene: faults.Scene) -> None:
    limits = []
    for limit in plants.collect_limits(scene.model):
        if limit.quantity != "effort":
            limits.append(limit)
    for log in (0, 1):
        assert np.abs(plants.measure(scene.model, limits, scene.motions[log])).max() < 1.2


# -- faults


def test_there_are_forty_kinds_of_faults_and_every_robot_meets_all() -> None:
    labels = [fault.label for fault in faults.FAULTS]
    assert len(set(labels)) == len(labels) >= 40
    assert np.gcd(judge.FAULT_STRIDE, len(labels)) == 1
    met = set()
    for number in range(len(labels) * len(robots.ROBOTS)):
        met.add((judge.fault_of(number).label, judge.robot_of("f", number)))
    assert len(met) == len(labels) * len(robots.ROBOTS)


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.label)
def test_a_fault_changes_a_log_or_the_file(scene: faults.Scene, fault: faults.Fault) -> None:
    draft = faults.Draft(scene=scene, rng=np.random.default_rng(3))
    try:
        fault.apply(draft)
    except faults.NotApplicable:
        pytest.skip("the robot cannot have this fault")
    assert draft.what
    assert draft.expected or fault.family == "unlisted"
    if draft.mechanism is not None:
        return
    changed = []
    for log in (0, 1):
        clean = scene.recordings[log]
        changed.append(draft.recording(log).fingerprint != clean.fingerprint)
    assert any(changed)


def test_a_trial_can_be_repeated() -> None:
    first = judge.draw_scene("c", 0, SEED)[0]
    second = judge.draw_scene("c", 0, SEED)[0]
    other = judge.draw_scene("c", 10, SEED)[0]
    assert first.recordings[1].fingerprint == second.recordings[1].fingerprint
    assert first.recordings[1].fingerprint != other.recordings[1].fingerprint


def test_the_wrong_geometry_is_in_the_file_only(scene: faults.Scene) -> None:
    draft = draft_with(scene, "link length 10 mm")
    assert draft.recording(0).fingerprint == scene.recordings[0].fingerprint
    assert draft.mechanism is not None
    lengths = []
    for mechanism in (draft.mechanism, scene.model.mechanism):
        steps = [joint.placement.translation for joint in mechanism.joints]
        lengths.append(np.array(steps))
    assert np.abs(lengths[0] - lengths[1]).sum() == pytest.approx(0.01)


# -- scores


def outcome_of(family: str = "listed") -> judge.Outcome:
    """Return an outcome in which nothing was said yet."""
    return judge.Outcome(
        trial="f0",
        seed=0,
        robot=ROBOT,
        family=family,
        label="",
        what=[],
        file_error=0.0,
        motions=[],
        seconds_of_logs=[],
        samples=[],
        noise="",
    )


def said(rule: str, where: str, text: str = "", **numbers: float) -> Notice:
    return Notice(rule=rule, level="warning", where=where, text=text, numbers=numbers)


@pytest.mark.parametrize(
    ("notice", "first", "right", "wrong"),
    [
        (said("effort scale", "PLACE"), True, True, False),
        (said("effort scale", "elsewhere"), False, False, True),
        (said("payload", "PLACE"), False, False, True),
        (said("held-out error", "PLACE"), False, False, False),
        (
            said(
                "encoder scale",
                "x",
                "one of these: the position of x is too large by 2 %; or the effort of PLACE is "
                "1.3 +- 0.1 times what it should be",
            ),
            False,
            True,
            False,
        ),
    ],
)
def test_names_are_right_by_rule_and_place(
    scene: faults.Scene, notice: Notice, first: bool, right: bool, wrong: bool
) -> None:
    draft = draft_with(scene, "effort x 1.3, one")
    place = draft.expected[0][1]
    outcome = outcome_of()
    there = replace(
        notice,
        where=notice.where.replace("PLACE", place),
        text=notice.text.replace("PLACE", place),
    )
    judge.score_names(draft, outcome, [there])
    assert (outcome.first_right, outcome.right, bool(outcome.wrong)) == (first, right, wrong)


def test_any_name_of_an_unlisted_fault_is_wrong(scene: faults.Scene) -> None:
    draft = draft_with(scene, "curved gain 30%")
    outcome = outcome_of("unlisted")
    judge.score_names(draft, outcome, [said("effort scale", scene.motors[0])])
    assert outcome.wrong


def test_sizes_are_compared_in_standard_errors(scene: faults.Scene) -> None:
    draft = draft_with(scene, "effort x 1.3, one")
    place = draft.expected[0][1]
    outcome = outcome_of()
    judge.score_names(draft, outcome, [said("effort scale", place, size=1.36, std=0.02)])
    assert outcome.size_errors == pytest.approx(3.0)


def test_warnings_of_short_logs_are_counted_apart() -> None:
    short = outcome_of("clean")
    short.level = "warning"
    short.alarms = ["conditioning"]
    false = outcome_of("clean")
    false.level = "warning"
    false.alarms = ["conditioning", "tilt"]
    line = judge.summary([short, false])[0]
    assert line == (
        "clean trials not ok: 1 of 2 (50.0 %), and 1 with parameters that are not determined"
    )


def test_a_fault_without_effect_on_the_prediction_is_not_visible() -> None:
    outcome = outcome_of()
    outcome.t = 20.0
    outcome.error_before = [0.0101]
    outcome.error_after = [0.01]
    assert not outcome.visible
    outcome.error_before = [0.02]
    assert outcome.visible


# -- trials


@pytest.mark.slow
def test_gross_faults_are_visible_and_not_called_ok() -> None:
    numbers = []
    for number in range(len(faults.FAULTS) * len(robots.ROBOTS)):
        gross = judge.fault_of(number).label in ("effort x 1000, one", "swapped efforts")
        if gross and judge.robot_of("f", number) == ROBOT:
            numbers.append(number)
    assert len(numbers) == 2
    for number in numbers:
        outcome = judge.run_trial(("f", number, SEED))
        assert outcome.visible, judge.details(outcome)
        assert outcome.level != "ok", judge.details(outcome)


@pytest.mark.slow
def test_clean_logs_of_an_exact_file_have_no_wrong_name() -> None:
    outcome = judge.run_trial(("c", 0, SEED))
    assert outcome.robot == ROBOT
    assert not outcome.wrong, judge.details(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("number", [4, 84])
def test_position_noise_and_creeping_joints_of_clean_logs_are_no_faults(number: int) -> None:
    """Noise in accelerations looked like a geometry that couples the legs less.

    Friction of a leg that creeps in the identification log looked like a bad fit.
    """
    outcome = judge.run_trial(("c", number, 2065343009))
    assert outcome.robot == "orthoglide"
    assert outcome.level == "ok", judge.details(outcome)


@pytest.mark.long
def test_acceptance() -> None:
    outcomes = judge.main(
        ["--clean", "300", "--faults", str(8 * len(faults.FAULTS)), "--jobs", "2"]
    )
    done = [outcome for outcome in outcomes if not outcome.skipped]
    clean = [outcome for outcome in done if outcome.family == "clean"]
    alarmed = [each for each in clean if each.level != "ok" and not each.only_not_determined]
    assert len(alarmed) <= 0.03 * len(clean)
    assert sum(bool(outcome.wrong) for outcome in done) <= 0.05 * len(done)
    listed = [outcome for outcome in done if outcome.family not in ("clean", "unlisted")]
    visible = [outcome for outcome in listed if outcome.visible]
    assert sum(outcome.right for outcome in visible) >= 0.8 * len(visible)
    sizes = [outcome.size_errors for outcome in done if outcome.size_errors is not None]
    assert sum(distance <= 3 for distance in sizes) >= 0.95 * len(sizes)
    missed = [outcome for outcome in listed if judge.is_missed(outcome)]
    assert not missed, [judge.row(outcome) for outcome in missed]


@pytest.mark.slow
def test_a_large_factor_beside_another_fault_is_named() -> None:
    """An effort recorded 1.5 times, beside a homing error: the model is wrong by half an effort."""
    outcome = judge.run_trial(("f", 64, 340881412))
    assert outcome.names == ["effort scale: leg1.q1"]
    assert outcome.level == "error"


@pytest.mark.slow
@pytest.mark.parametrize("number", [33, 223])
def test_what_else_opens_the_loops_is_no_unit_of_the_positions(number: int) -> None:
    """A homing error and an encoder scale: motions that are 6 or 12 times smaller close any loop."""
    outcome = judge.run_trial(("f", number, 3591530681))
    assert outcome.failure.startswith("SingularConfiguration")
    assert outcome.names == []


@pytest.mark.slow
def test_a_unit_of_the_positions_that_opens_the_loops_is_named() -> None:
    outcome = judge.run_trial(("f", 73, 3591530681))
    assert outcome.names == ["position unit: all motors"]
