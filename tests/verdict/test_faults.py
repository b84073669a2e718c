"""Sensitivities are what small faults do to the efforts, and every fault can be undone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gough.core.motion import Motion
from gough.core.names import LOAD_PARAMETERS
from gough.engine import Model, base_parameters
from gough.mechanism import load_robot
from gough.mechanism.terms import TERMS
from gough.verdict.blocks import BlockSums, block_labels, block_sums
from gough.verdict.continuous_trials import guessed
from gough.verdict.diagnose import DiagnoseSettings, evidence_from
from gough.verdict.discrete_faults import discrete_faults, within_limits
from gough.verdict.discrete_trials import DiscreteTrials, discrete_explanations, on_all_samples
from gough.verdict.effort_factors import effort_factor
from gough.verdict.evidence import Evidence
from gough.verdict.exclusions import away_from_reversals_of
from gough.verdict.explanation import corrected
from gough.verdict.faults import (
    ALL_MOTORS,
    FAULTS,
    PAYLOAD_FAULT,
    Fault,
    add_term_advice,
    all_faults,
    common_drift,
    curved_effort,
    drift_columns,
    friction_of_a_log,
    motors,
    register_fault,
    rotated,
    tilt_axes,
)
from gough.verdict.fitted_log import FittedLog
from gough.verdict.fitted_model import FittedModel
from gough.verdict.geometry_faults import geometry_faults
from gough.verdict.judge import errors_by_noise
from gough.verdict.motor_signals import MotorSignals
from gough.verdict.search import Search
from gough.verdict.stage import Stage
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet
from tests_support import model_of

RELATIVE = ("effort scale", "encoder scale", "clock")


def smooth_motion(model: Model, samples: int = 200) -> Motion:
    """A periodic motion of the motors about the reference configuration, two seconds long."""
    time = np.arange(samples) * (2.0 / samples)
    independent = list(model.loops.partitions["actuated"].independent)
    w = 2 * np.pi * 0.5
    angle = w * time[:, None] + np.arange(1, len(independent) + 1)
    q = model.home[independent] + 0.05 * np.sin(angle) + 0.02 * np.cos(2 * angle)
    qd = w * (0.05 * np.cos(angle) - 0.04 * np.sin(2 * angle))
    qdd = w**2 * (-0.05 * np.sin(angle) - 0.08 * np.cos(2 * angle))
    return model.kinematics.motion(time, q, qd, qdd, "actuated")


def frictionless(model: Model) -> np.ndarray:
    """The robot file's parameters without dry friction, whose jumps have no derivative."""
    values = model.mechanism.standard.values.copy()
    for k, name in enumerate(model.mechanism.standard.names):
        if name.kind == "fs":
            values[k] = 0.0
    return values


def made_evidence(model: Model, *, extra: np.ndarray | None = None, n_logs: int = 1) -> Evidence:
    base = base_parameters(model)
    chi = frictionless(model)
    names = model.mechanism.standard.names
    values = base.values(np.array([chi[names.index(name)] for name in base.standard]))
    motion = smooth_motion(model)
    effort = model.inverse_dynamics(motion, chi)
    if extra is not None:
        effort = effort + extra
    fitted = FittedModel(model=model, base=base, values=values)
    log = FittedLog(
        fitted=fitted,
        name="log",
        held_out=False,
        motion=motion,
        effort=effort,
        dead_band=np.zeros(len(model.home)),
        regression=model.regression(motion, effort, base),
        periodic=True,
    )
    logs = tuple(replace(log, name=f"log {k}") for k in range(n_logs))
    return Evidence(fitted=fitted, logs=logs)


@pytest.fixture(scope="module", params=["five_bar", "redundant"])
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return made_evidence(model_of(request.param))


def fault_named(evidence: Evidence, name: str) -> Fault:
    return next(fault for fault in all_faults(evidence) if fault.name == name)


def predicted(log: FittedLog, signals: MotorSignals) -> np.ndarray:
    """Return what the model predicts for the rows of a log with other signals."""
    changed = log.with_signals(signals)
    assert changed is not None
    return changed.regression.regressor @ log.fitted.values


@pytest.mark.parametrize("name", ["encoder offset", "encoder scale", "clock", "compliance"])
def test_sensitivities_to_the_motion_are_differences_of_predictions(
    evidence: Evidence, name: str
) -> None:
    fault = fault_named(evidence, name)
    log = evidence.logs[0]
    step = 1e-8 if name == "compliance" else 1e-5
    for place in fault.places(evidence):
        assert fault.undo is not None
        ahead = predicted(log, fault.undo(log, log.signals, place, np.array([step])))
        behind = predicted(log, fault.undo(log, log.signals, place, np.array([-step])))
        expected = (ahead - behind) / (2 * step)
        scale = max(np.abs(expected).max(), 1e-3 * np.abs(log.effort).max())
        column = fault.sensitivity(log, place)[:, :, 0]
        np.testing.assert_allclose(column, expected, atol=5e-4 * scale)


def test_the_sensitivity_to_a_tilt_is_the_difference_of_two_gravities(evidence: Evidence) -> None:
    log = evidence.logs[0]
    mechanism = evidence.model.mechanism
    gravity = np.array(mechanism.gravity)
    columns = fault_named(evidence, "tilt").sensitivity(log, "base")
    for k, axis in enumerate(tilt_axes(gravity)):
        efforts = []
        for step in (1e-4, -1e-4):
            turned = Model(replace(mechanism, gravity=tuple(rotated(gravity, step * axis))))
            efforts.append(turned.inverse_dynamics(log.motion, frictionless(evidence.model)))
        expected = log.in_rows((efforts[0] - efforts[1]) / 2e-4)
        np.testing.assert_allclose(columns[:, :, k], expected, atol=1e-5 * np.abs(columns).max())


def test_sensitivities_to_efforts_are_what_is_added_to_them(evidence: Evidence) -> None:
    log = evidence.logs[0]
    scale = next(fault for fault in all_faults(evidence) if fault.name == "effort scale")
    offset = fault_named(evidence, "effort offset")
    for j, motor in enumerate(evidence.model.mechanism.actuated):
        added = np.zeros_like(log.effort)
        added[:, j] = log.effort[:, j]
        column = scale.sensitivity(log, motor)[:, :, 0]
        atol = 1e-6 * np.abs(log.effort).max()
        np.testing.assert_allclose(column, log.in_rows(added), atol=atol)
        added[:, j] = 1.0
        column = offset.sensitivity(log, motor)[:, :, 0]
        np.testing.assert_allclose(column, log.in_rows(added), atol=1e-8)


def test_a_delay_is_minus_the_rate_of_the_effort_and_a_short_lag_is_a_delay(
    evidence: Evidence,
) -> None:
    log = evidence.logs[0]
    delay = fault_named(evidence, "effort delay")
    spectrum = np.fft.rfft(log.effort, axis=0)
    w = 2j * np.pi * np.fft.rfftfreq(len(log.effort), log.signals.step)
    rate = np.fft.irfft(spectrum * w[:, None], len(log.effort), axis=0)
    column = delay.sensitivity(log, ALL_MOTORS)
    atol = 0.02 * np.abs(column).max()
    np.testing.assert_allclose(column[:, :, 0], log.in_rows(-rate), atol=atol)
    lag = fault_named(evidence, "effort lag")
    if evidence.model.loops.redundant:
        assert not lag.places(evidence)
    else:
        np.testing.assert_allclose(lag.sensitivity(log, ALL_MOTORS), column, atol=atol)


@pytest.mark.parametrize(
    "name",
    ["effort delay", "effort offset", "effort scale", "encoder offset", "encoder scale", "clock"],
)
def test_undoing_a_fault_and_making_it_again_changes_nothing(evidence: Evidence, name: str) -> None:
    fault = next(fault for fault in all_faults(evidence) if fault.name == name)
    log = evidence.logs[0]
    place = motors(evidence)[0] if name != "clock" else "clock"
    size = 1e-3
    opposite = 1 / (1 + size) - 1 if name in RELATIVE else -size
    assert fault.undo is not None
    undone = fault.undo(log, log.signals, place, np.array([size]))
    again = fault.undo(log, undone, place, np.array([opposite]))
    changed = 0.0
    for channel in ("position", "velocity", "acceleration", "effort"):
        before = getattr(log.signals, channel)
        atol = 1e-9 * np.abs(before).max()
        np.testing.assert_allclose(getattr(again, channel), before, atol=atol)
        changed = max(changed, np.abs(getattr(undone, channel) - before).max())
    assert changed > 1e-9


def test_a_log_with_its_own_signals_is_the_same_log(evidence: Evidence) -> None:
    log = evidence.logs[0]
    same = log.with_signals(log.signals)
    assert same is not None
    np.testing.assert_allclose(same.regression.regressor, log.regression.regressor, atol=1e-9)
    np.testing.assert_allclose(same.regression.effort, log.regression.effort, atol=1e-9)


# -- what a model lacks


def test_missing_terms_are_the_columns_of_a_file_that_has_them(five_bar: Model) -> None:
    bare = five_bar.mechanism
    joints = []
    for joint in bare.joints:
        if not joint.virtual:
            terms = []
            for name, term in TERMS.items():
                if joint.actuated or not term.load_dependent:
                    terms.append(name)
            joint = replace(joint, values={}, terms=tuple(terms))
        joints.append(joint)
    full = Model(replace(bare, joints=tuple(joints)))
    evidence = made_evidence(five_bar)
    log = evidence.logs[0]
    by_advice = {fault.advice: fault for fault in FAULTS["missing term"](evidence)}
    for name, term in TERMS.items():
        if not term.fault_candidate:
            continue
        fault = by_advice[add_term_advice(term.label, name)]
        for place in fault.places(evidence):
            assert name not in bare.joint(place).terms
            expected = full.regressor(log.motion, [f"{place}.{name}"])
            atol = 1e-9 * max(np.abs(expected).max(), 1)
            np.testing.assert_allclose(fault.sensitivity(log, place), expected, atol=atol)


def test_the_drift_of_all_joints_is_that_of_their_friction(evidence: Evidence) -> None:
    """The column of a log is the sum over joints of drifting Coulomb and viscous friction."""
    log = replace(evidence.logs[0], periodic=False)
    chi, _ = log.fitted.parameters(None)
    coefficients = dict(zip(log.model.mechanism.standard.names, chi.tolist()))
    expected = np.zeros((len(log.motion), len(log.model.rows)))
    for joint in log.model.mechanism.joints:
        if joint.virtual:
            continue
        columns = drift_columns(log, joint.name)
        for k, term in enumerate(("fs", "fv")):
            expected += coefficients.get(f"{joint.name}.{term}", 0.0) * columns[:, :, k]
    columns = common_drift(log, "all joints")
    np.testing.assert_allclose(columns[:, :, 0], expected, atol=1e-9)
    fraction = np.linspace(-0.5, 0.5, len(log.motion))[:, None]
    np.testing.assert_allclose(columns[:, :, 2] * fraction, expected, atol=1e-9)
    np.testing.assert_allclose(columns[:, :, 1], columns[:, :, 2] * fraction**2, atol=1e-9)


def test_a_payload_is_sought_in_logs_that_name_none(five_bar: Model) -> None:
    twins = made_evidence(five_bar, n_logs=2)
    fault = fault_named(twins, "payload")
    assert fault.places(twins) == ("log 0", "log 1")
    assert fault.places(made_evidence(five_bar)) == ()
    log = twins.logs[0]
    expected = five_bar.regressor(log.motion, LOAD_PARAMETERS)
    np.testing.assert_allclose(fault.sensitivity(log, "log 0"), expected, atol=1e-12)
    named = replace(twins, logs=(twins.logs[0], replace(twins.logs[1], payload="disc")))
    assert fault.places(named) == ("log 0",)


def test_a_ripple_is_found_at_its_pitch(five_bar: Model) -> None:
    q = smooth_motion(five_bar).q[:, five_bar.actuated[0]]
    extra = np.zeros((len(q), 2))
    extra[:, 0] = 0.05 * np.sin(2 * np.pi * q / (np.ptp(q) / 4) + 0.3)
    evidence = made_evidence(five_bar, extra=extra)
    frequency, tried = evidence.logs[0].ripples["left.motor"]
    assert 1 / frequency == pytest.approx(np.ptp(q) / 4, rel=0.1)
    assert tried > 10


def test_a_registered_fault_is_tried(five_bar: Model) -> None:
    evidence = made_evidence(five_bar)
    before = dict(FAULTS)
    try:
        fault = register_fault(
            Fault(
                name="hysteresis",
                places=motors,
                text="{place}: {size}",
                advice="",
                columns=lambda log, place: log.in_rows(np.sign(log.signals.acceleration)),
            )
        )
        assert fault in all_faults(evidence)
    finally:
        FAULTS.clear()
        FAULTS.update(before)


def test_errors_of_the_geometry_have_places_of_their_own_and_finite_columns(
    five_bar: Model,
) -> None:
    evidence = made_evidence(five_bar)
    log = evidence.logs[0]
    places = []
    largest = 0.0
    for fault in geometry_faults(evidence):
        (place,) = fault.places(evidence)
        column = fault.sensitivity(log, place)
        assert column.shape == (len(log.motion), len(log.model.rows), 1)
        assert np.isfinite(column).all()
        places.append(place)
        largest = max(largest, np.abs(column).max())
    assert len(set(places)) == len(places)
    assert largest > 0


# -- discrete faults


def test_discrete_faults_are_all_different(five_bar: Model) -> None:
    faults = discrete_faults(five_bar.mechanism)
    texts = {fault.text for fault in faults}
    assert len(texts) == len(faults)
    signals = made_evidence(five_bar).logs[0].signals
    for fault in faults:
        undone = fault.undo(signals)
        changed = []
        for channel in ("position", "velocity", "acceleration", "effort", "gravity"):
            changed.append(np.abs(getattr(undone, channel) - getattr(signals, channel)).max())
        assert max(changed) > 0
        assert (changed[0] > 0) == fault.changes_positions


def test_channels_of_motors_that_slide_and_turn_may_be_exchanged(example_robot: Model) -> None:
    named = {(fault.name, fault.place) for fault in discrete_faults(example_robot.mechanism)}
    assert ("swapped efforts", "lean and insertion") in named
    assert ("swapped channels", "lean and insertion") in named
    assert ("position unit", "all motors") not in named


@pytest.fixture(scope="module")
def example_robot(request: pytest.FixtureRequest) -> Model:
    return Model(load_robot(str(request.config.rootpath / "examples/robots/surgical_arm.toml")))


def test_positions_far_outside_the_limits_are_not_possible(five_bar: Model) -> None:
    position = made_evidence(five_bar).logs[0].signals.position
    assert within_limits(five_bar, position)
    far = position + 1000.0
    assert not within_limits(five_bar, far)
    assert within_limits(five_bar, far, before=far)


# -- the factor on the efforts of one row


@pytest.mark.parametrize("factor", [2.35, -1.0, 1e-3, -40.0])
def test_the_factor_on_one_row_is_found_with_its_sign(factor: float) -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((10, 30, 2, 3))
    effort = W @ np.array([1.0, 2.0, 3.0]) + 0.01 * rng.standard_normal((10, 30, 2))
    effort[:, :, 1] *= factor
    stacked = np.concatenate([W, effort[..., None]], axis=3).transpose(0, 2, 1, 3)
    sums = BlockSums(
        grams=stacked.transpose(0, 1, 3, 2) @ stacked,
        n_valid=np.full((10, 2), 30),
        log=np.zeros(10, int),
        n_parameters=3,
    )
    estimate = effort_factor(sums, 1, np.ones(10, bool))
    assert estimate == pytest.approx(factor, rel=5e-3)


def test_where_only_efforts_change_the_equations_are_those_of_all_signals_anew(
    evidence: Evidence,
) -> None:
    (log,) = evidence.logs
    halved = replace(log.signals, effort=log.signals.effort / 2)
    anew = replace(halved, position=log.signals.position + 0.0)  # a copy: nothing is reused
    assert halved.same_model_as(log.signals)
    assert not anew.same_model_as(log.signals)
    fast = log.with_signals(halved)
    slow = log.with_signals(anew)
    assert fast is not None
    assert slow is not None
    assert np.array_equal(fast.regression.regressor, slow.regression.regressor)
    assert np.array_equal(fast.regression.effort, slow.regression.effort)
    assert fast.regression.effort == pytest.approx(log.regression.effort / 2, rel=1e-12)


def test_a_discrete_fault_of_some_logs_has_the_sums_of_these_logs_changed() -> None:
    evidence = made_evidence(model_of("five_bar"), n_logs=3)
    labels = block_labels(evidence.logs)
    base = Stage(evidence, labels)
    fault = next(f for f in discrete_faults(evidence.model.mechanism) if f.name == "no gravity")
    trials = DiscreteTrials(base, 1)
    for scope in ((0, 1, 2), (1,)):
        both = trials.sums(fault, scope)
        assert both is not None
        logs = list(evidence.logs)
        masks = [log.regression.valid for log in logs]
        for number in scope:
            changed = logs[number].with_signals(fault.undo(logs[number].signals))
            assert changed is not None
            logs[number] = away_from_reversals_of(changed, logs[number])
            masks[number] = logs[number].regression.valid
        with_masks = []
        for log, mask in zip(evidence.logs, masks):
            with_masks.append(replace(log, regression=replace(log.regression, mask=mask)))
        for sums, written_out in zip(both, (with_masks, logs)):
            whole = block_sums(written_out, labels)
            assert np.array_equal(sums.n_valid, whole.n_valid)
            assert sums.grams == pytest.approx(whole.grams, rel=1e-12)
    assert not np.allclose(both[0].grams, both[1].grams)


def test_errors_by_noise_contain_those_of_the_parameters_that_noise_causes() -> None:
    """Fifty samples for seventeen parameters: over 30 noises, blocks left out are predicted so."""
    clean = made_evidence(model_of("five_bar"))
    (log,) = clean.logs
    index = np.arange(0, len(log.motion), 4)
    effort_rms = np.sqrt((log.effort**2).mean(axis=0))
    std = 0.01 * effort_rms
    actual = []
    expected = []
    for seed in range(30):
        noise = np.random.default_rng(seed).normal(0, std, log.effort.shape)
        noisy = replace(log.regression, effort=log.regression.effort + noise)
        fewer = replace(log, effort=log.effort + noise, regression=noisy.take(index), samples=index)
        evidence = replace(clean, logs=(fewer,))
        stage = Stage(evidence, block_labels(evidence.logs))
        actual.append(stage.row_errors() ** 2)
        expected.append(errors_by_noise(stage, std**2) ** 2)
    error = np.sqrt(np.mean(actual))
    assert np.sqrt(np.mean(expected)) == pytest.approx(error, rel=0.05)
    assert error > 1.15 * 0.01
    assert not errors_by_noise(stage, None).any()


def test_discrete_faults_are_tried_beside_a_payload_that_was_accepted_before() -> None:
    """A payload is no change of the signals, but columns of the model: they must stay in it."""
    model = model_of("five_bar")
    faults = FleetFaults(payload={0: (1,)})
    virtual = VirtualFleet(model=model, days=4, faults=faults, seconds=6.0)
    recordings = [virtual.record(0, day) for day in range(4)]
    evidence, _ = evidence_from(model, recordings, (), DiagnoseSettings())
    search = Search(evidence, faults=[])
    search.discrete = [each for each in search.discrete if each.name == "position sign"]
    stage = search.first
    payload = fault_named(evidence, PAYLOAD_FAULT)
    accepted = guessed(stage, payload, evidence.logs[1].name, (1,), np.zeros(10))
    beside = search.first.with_others([accepted])
    assert beside is not None
    scopes = search.scopes
    alone = discrete_explanations(stage, search.discrete, scopes, search.trials)
    assert any(each.gain.significant for each in alone)
    assert discrete_explanations(beside, search.discrete, scopes, search.trials) == []


def test_exchanged_channels_have_to_lower_the_error_of_all_samples() -> None:
    """A few samples may be predicted better by chance with the channels exchanged."""
    right = made_evidence(model_of("five_bar"), n_logs=2)
    search = Search(right, faults=[])
    fault = next(each for each in search.discrete if each.name == "swapped channels")
    stage = search.first
    nothing = np.zeros(0)
    swap = replace(guessed(stage, fault, fault.place, (0, 1), nothing), std=nothing)
    assert on_all_samples(stage, [swap], 1) == []
    exchanged = corrected(right, [swap])
    assert exchanged is not None
    kept = on_all_samples(Search(exchanged, faults=[]).first, [swap], 1)
    assert [each.fault for each in kept] == [fault]


def test_undoing_a_fault_of_one_log_leaves_the_others_as_they_are() -> None:
    evidence = made_evidence(model_of("five_bar"), n_logs=2)
    search = Search(evidence, with_discrete=False)
    stage = search.first
    scale = next(fault for fault in search.faults if fault.name == "effort scale")
    place = scale.places(evidence)[0]
    guess = guessed(stage, scale, place, (1,), np.array([0.5]))
    fast = stage.followed_by(guess)
    slow = stage.with_others([guess])
    assert fast is not None
    assert slow is not None
    for one, two in zip(fast.evidence.logs, slow.evidence.logs):
        assert np.array_equal(one.regression.effort, two.regression.effort)
    columns = fast.columns_with(guess)
    assert not columns[0].any()
    assert columns[1].any()
    assert np.array_equal(columns[1], fast.columns([(scale, place)])[1])


def test_a_block_may_come_back_in_a_log() -> None:
    """A block of a repeated motion is an interval of its phase, in every period."""
    evidence = made_evidence(model_of("five_bar"))
    (log,) = evidence.logs
    label = np.arange(len(log.regression)) // 10 % 4
    sums = block_sums([log], [label])
    stacked = log.regression.stacked()
    for block in range(4):
        rows = stacked[label == block]
        assert sums.grams[block] == pytest.approx(np.einsum("tri,trj->rij", rows, rows), rel=1e-12)
        assert (sums.n_valid[block] == len(rows)).all()


def test_the_column_of_a_curved_gain_is_the_difference_of_the_recorded_effort(
    clean: Evidence,
) -> None:
    """tau (1 + s |tau| / max |tau|) of one motor, projected to the rows."""
    log = clean.logs[0]
    motor = log.model.actuated.index(log.model.actuated[1])
    true = log.prediction
    recorded = true.copy()
    top = np.abs(true[:, motor]).max()
    recorded[:, motor] *= 1 + 0.2 * np.abs(true[:, motor]) / top
    expected = log.in_rows(recorded - true) / 0.2
    place = log.model.mechanism.actuated[1]
    np.testing.assert_allclose(curved_effort(log, place), expected, rtol=1e-10, atol=1e-12)


def test_the_column_of_friction_of_a_log_is_what_more_friction_adds(clean: Evidence) -> None:
    """The effort of the fitted model with all friction doubled, less that of the model."""
    log = clean.logs[0]
    chi, _ = log.fitted.parameters(log.payload)
    names = log.model.mechanism.standard.names
    doubled = chi * [2.0 if name.kind in ("fv", "fs") else 1.0 for name in names]
    more = log.model.inverse_dynamics(log.motion, doubled, dead_band=log.dead_band)
    usual = log.model.inverse_dynamics(log.motion, chi, dead_band=log.dead_band)
    expected = log.in_rows(more - usual)
    np.testing.assert_allclose(friction_of_a_log(log, "all joints"), expected, atol=1e-9)
