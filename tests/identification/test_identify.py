"""The main verb: estimates that hold, verdicts that tell, results that come back from disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.app.studies.monte_carlo import truth_table
from gough.bounding.bounds import bounds
from gough.core.errors import (
    InvalidInput,
    InvalidRecording,
    LoopNotClosed,
    NotConverged,
    SingularConfiguration,
)
from gough.core.notices import Notice
from gough.core.options import options_of
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression
from gough.identification import Identification, IdentifySettings, load_identification
from gough.identification.diagnosis import Diagnosis, NamedFault
from gough.identification.estimators import ESTIMATORS
from gough.identification.fit import fit_logs
from gough.identification.payload import payload
from gough.logs.recording import Recording
from gough.mechanism.types import Payload
from gough.processing import Processing
from gough.virtual import Simulation, record, simulate
from tests_support import fourier
from trials import assert_covers, repeated

KEYS = {
    "robot",
    "estimator",
    "parameters",
    "drive_gains",
    "payload",
    "residual",
    "validation",
    "level",
    "headline",
    "notices",
}


@pytest.fixture(scope="module")
def everything(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> Identification:
    return identify(five_bar, [five_bar_log], held_out=[five_bar_other], estimator="all")


def test_most_intervals_hold_the_truth(everything: Identification) -> None:
    rows = truth_table("five_bar", everything.estimate, False)
    assert len(rows) == 17
    assert sum(within for *_, within in rows) >= 14


@repeated(8, 15)
def test_intervals_cover_over_many_noises(
    five_bar: Model, five_bar_run: Simulation, trials: int
) -> None:
    """95 % intervals of one robot under many noises: pooled coverage near 95 %."""
    settings = IdentifySettings(processing=Processing(window=0.04))
    held: list[bool] = []
    for seed in range(trials):
        log = record(five_bar_run, seed=100 + seed)
        fit = fit_logs(five_bar, [log], settings)
        held += [
            within for *_, within in truth_table("five_bar", fit.identification.estimate, False)
        ]
    assert_covers(held, 0.90, 0.99)


def test_all_estimators_answer_and_agree(everything: Identification) -> None:
    assert {"ls", "wls", "gm", "robust", "ml", "feasible"} <= set(everything.estimates)
    for name, other in everything.estimates.items():
        joint = np.hypot(other.std, everything.estimate.std)
        gap = np.abs(other.values - everything.estimate.values) / joint
        assert np.median(gap) < 2, name


def test_it_predicts_a_motion_and_a_plant_it_has_not_seen(everything: Identification) -> None:
    assert everything.validation.predicts == "good"
    assert everything.headline.startswith("five_bar: OK - predicts the held-out log ")


def test_a_wrong_model_is_not_called_good(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> None:
    spoilt = replace(five_bar_other, effort=five_bar_other.effort + 3.0)
    result = identify(five_bar, [five_bar_log], held_out=[spoilt])
    assert result.validation.predicts == "poor"
    assert any("held-out error" in str(notice) for notice in result.validation.notices)


def test_the_standard_vector_of_a_base_estimate_gives_the_same_efforts(
    everything: Identification, five_bar: Model, five_bar_run: Simulation
) -> None:
    motion = five_bar_run.motion().take(slice(0, 50))
    direct = five_bar.regressor(motion, everything.base) @ everything.estimate.values
    np.testing.assert_allclose(
        five_bar.inverse_dynamics(motion, everything.standard(five_bar)), direct, atol=1e-9
    )


def test_the_json_form_has_the_documented_keys(everything: Identification) -> None:
    content = everything.to_dict()
    assert set(content) >= KEYS
    json.dumps(content, allow_nan=False)
    first = content["parameters"][0]
    assert set(first) == {"name", "value", "std", "unit", "std_by_source", "information_over_noise"}
    assert first["information_over_noise"] > 100
    assert first["std_by_source"][content["uncertainty"]] == first["std"]


def test_the_error_over_all_samples_includes_those_that_are_not_valid(
    everything: Identification,
) -> None:
    for row, residual in everything.to_dict()["residual"].items():
        squares = np.zeros(2)
        for fit in everything.fits:
            if not fit.held_out:
                k = everything.estimate.rows.index(row)
                error = fit.measured[:, k] - fit.predicted[:, k]
                squares += (error @ error, fit.measured[:, k] @ fit.measured[:, k])
        assert residual["relative_all"] == pytest.approx(np.sqrt(squares[0] / squares[1]), rel=0.05)
        assert residual["relative_all"] > residual["relative"]
        assert residual["share"] < 1
    assert "of all samples, rests and reversals too" in everything.summary()


def test_a_result_of_one_log_says_that_repeatability_was_not_tested(
    everything: Identification,
) -> None:
    assert any("there is one log" in str(notice) for notice in everything.notices)


def test_a_result_comes_back_from_disk_unchanged(
    everything: Identification, tmp_path: Path
) -> None:
    everything.save(tmp_path)
    back = load_identification(tmp_path)
    assert back.to_dict() == everything.to_dict()
    np.testing.assert_array_equal(back.fits[0].predicted, everything.fits[0].predicted)
    np.testing.assert_array_equal(back.estimate.covariance, everything.estimate.covariance)


@pytest.mark.parametrize(
    ("text", "message"), [("", "not a result"), ("{}", "format"), ('{"format": 1}', "damaged")]
)
def test_a_damaged_result_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "estimate.json").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_identification(tmp_path)


def test_essential_parameters_predict_as_well_with_fewer(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording, everything: Identification
) -> None:
    result = identify(
        five_bar, [five_bar_log], held_out=[five_bar_other], essential=True, ratio=30.0
    )
    assert len(result.estimate) < 17
    assert any(
        "kept" in line and line.split()[0] == str(len(result.estimate)) for line in result.history
    )
    assert result.validation.relative.max() < 1.5 * everything.validation.relative.max()


def test_parameters_that_left_their_interval_with_the_small_ones_are_named(
    five_bar: Model, five_bar_log: Recording, five_bar_result: Identification
) -> None:
    full = five_bar_result
    few = identify(five_bar, [five_bar_log], essential=True, ratio=2.0)
    gone = [
        name
        for name, value, std in zip(few.estimate.parameters, few.estimate.values, few.estimate.std)
        if abs(value - full.estimate[name]) > 1.96 * std
    ]
    assert gone
    (notice,) = (n for n in few.notices if n.rule == "essential parameters")
    assert f"{len(gone)} of {len(few.estimate)} essential parameters changed" in notice.text
    assert notice.where.split(", ") == gone
    assert not any(n.rule == "essential parameters" for n in full.notices)


def test_tied_legs_have_one_parameter_for_both(five_bar: Model, five_bar_log: Recording) -> None:
    result = identify(five_bar, [five_bar_log], tie_legs=True)
    assert len(result.estimate) == 13


def test_exact_bounds_hold_the_truth_and_the_estimate(
    five_bar: Model, five_bar_log: Recording, everything: Identification
) -> None:
    box = bounds(five_bar, [five_bar_log], error_bound=0.6)
    rough = bounds(five_bar, [five_bar_log], error_bound=0.6, solver="gauss-seidel")
    true = np.array([row[1] for row in truth_table("five_bar", everything.estimate, False)])
    assert ((box.lower <= true) & (true <= box.upper)).all()
    assert (box.lower >= rough.lower - 1e-9).all()
    assert (box.upper <= rough.upper + 1e-9).all()


def test_a_payload_is_found_and_the_rest_called_unseen(
    five_bar: Model, five_bar_run: Simulation
) -> None:
    loaded = Model(
        replace(
            five_bar.mechanism,
            payloads=(
                Payload(name="brick", body=five_bar.load_body, values={"m": 0.7}, known=("m",)),
            ),
        )
    )
    log = record(
        simulate(loaded, fourier(loaded, 0.4, 0.5, harmonics=5), periods=2, payload="brick"), seed=4
    )
    found = payload(five_bar, [replace(log, payload=None)])
    values = dict(zip(found.estimate.parameters, found.estimate.values))
    std = dict(zip(found.estimate.parameters, found.estimate.std))
    assert values["payload.load.m"] == pytest.approx(0.7, abs=max(5 * std["payload.load.m"], 0.01))
    assert "payload.load.Izz" in found.unobserved  # a planar tool point does not turn


def test_nothing_to_identify_from_is_an_error(five_bar: Model) -> None:
    with pytest.raises(InvalidInput, match="no recording"):
        identify(five_bar, [])


def test_an_unknown_estimator_offers_the_nearest(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'robust'"):
        identify(five_bar, [five_bar_log], estimator="robst")


def test_drive_gains_need_a_loaded_log(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidInput, match="logs without payload and logs with a known one"):
        identify(five_bar, [five_bar_log], estimator="tls")


def test_currents_without_gains_are_refused(five_bar: Model, five_bar_log: Recording) -> None:
    log = replace(five_bar_log, effort=None, current=five_bar_log.effort, current_units=("A", "A"))
    with pytest.raises(InvalidRecording, match=r"drive gain of 'left\.motor' is not known"):
        identify(five_bar, [log])
    result = identify(five_bar, [log], gains={"left.motor": 1.0, "right.motor": 1.0})
    assert result.drive_gains["left.motor"]["value"] == 1.0


def test_efforts_are_gains_times_currents(five_bar: Model, five_bar_log: Recording) -> None:
    """BG13 (17), P03 (33): the same answer from currents and their gains as from efforts."""
    gains = {"left.motor": 2.5, "right.motor": 0.04}
    current = five_bar_log.effort / [gains[name] for name in five_bar_log.joints]
    log = replace(five_bar_log, effort=None, current=current, current_units=("A", "A"))
    ours, theirs = identify(five_bar, [log], gains=gains), identify(five_bar, [five_bar_log])
    np.testing.assert_allclose(ours.estimate.values, theirs.estimate.values, rtol=1e-7)
    assert {name: one["value"] for name, one in ours.drive_gains.items()} == gains


def test_a_bound_of_zero_is_refused(five_bar: Model, five_bar_log: Recording) -> None:
    with pytest.raises(InvalidInput, match="error_bound is 0"):
        bounds(five_bar, [five_bar_log], error_bound=0.0)


@dataclass(frozen=True)
class Scaled:
    """Least squares of a user: the values of ordinary least squares, made a little worse on
    purpose.
    """

    factor: float = 1.0

    def fit(self, problem: Regression) -> Estimate:
        found = LeastSquares().fit(problem)
        return replace(found, values=self.factor * found.values, method="mine")


def test_an_estimator_may_be_an_object(five_bar: Model, five_bar_log: Recording) -> None:
    own = identify(five_bar, [five_bar_log], estimator=LeastSquares(uncertainty="white"))
    word = identify(five_bar, [five_bar_log], estimator="ls")
    np.testing.assert_array_equal(own.estimate.values, word.estimate.values)
    assert own.estimate.uncertainty == "white"
    assert own.estimator == "LeastSquares"
    assert own.settings["estimator"] == repr(LeastSquares(uncertainty="white"))


def test_an_estimator_of_the_user_is_the_result_and_chooses_parameters(
    five_bar: Model, five_bar_log: Recording, tmp_path: Path
) -> None:
    result = identify(
        five_bar, [five_bar_log], estimator=Scaled(factor=1.01), essential=True, ratio=30.0
    )
    assert result.estimate.method == "mine"
    assert set(result.estimates) == {"Scaled"}
    assert len(result.estimate) < 17
    result.save(tmp_path)
    assert load_identification(tmp_path).estimator == "Scaled"
    with pytest.raises(InvalidInput, match="estimator is 3, expected one of"):
        identify(five_bar, [five_bar_log], estimator=3)


class Failing:
    """An estimator that does not answer."""

    def fit(self, problem: Regression) -> Estimate:
        raise NotConverged("row weights still change after 200 passes")


@pytest.mark.parametrize("gone", [("gm",), ("gm", "wls"), ("ls", "robust", "feasible")])
def test_one_estimator_that_fails_never_takes_all_with_it(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...]
) -> None:
    for name in gone:
        monkeypatch.setitem(ESTIMATORS, name, Failing())
    result = identify(five_bar, [five_bar_log], estimator="all")
    assert not set(gone) & set(result.estimates)
    assert result.estimator == next(name for name in ("gm", "wls", "ls") if name not in gone)
    for name in gone:
        (failed,) = (n for n in result.notices if n.rule == "estimator")
        assert name in failed.where.split(", ")
        assert failed.text == "was not possible: row weights still change after 200 passes"
    if "feasible" not in gone:
        assert result.bodies  # which start from another estimate then
    with pytest.raises(NotConverged, match="row weights"):
        identify(five_bar, [five_bar_log], estimator=gone[0])


def test_if_no_estimator_answers_the_error_is_that_of_the_first(
    five_bar: Model, five_bar_log: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ESTIMATORS:
        monkeypatch.setitem(ESTIMATORS, name, Failing())
    with pytest.raises(NotConverged, match="row weights"):
        identify(five_bar, [five_bar_log], estimator="all")


def test_settings_and_keywords_come_to_the_same_result(
    five_bar: Model, five_bar_log: Recording
) -> None:
    one = identify(
        five_bar,
        [five_bar_log],
        estimator="wls",
        cutoff=12.0,
        dead_band={"left.motor": 0.1},
        window=0.02,
    )
    two = identify(
        five_bar,
        [five_bar_log],
        IdentifySettings(
            estimator="wls",
            processing=Processing(cutoff=12.0, dead_band={"left.motor": 0.1}, window=0.02),
        ),
    )
    assert one.to_dict() == two.to_dict()
    other = identify(
        five_bar,
        [five_bar_log],
        estimator="wls",
        cutoff=12.0,
        dead_band={"left.motor": 0.3},
        window=0.02,
    )
    assert not np.array_equal(other.estimate.values, one.estimate.values)
    with pytest.raises(InvalidInput, match="no option 'cuttoff'; did you mean 'cutoff'"):
        identify(five_bar, [five_bar_log], cuttoff=12.0)


def test_a_result_shows_itself_in_a_line(everything: Identification) -> None:
    assert repr(everything) == f"<Identification of {everything.headline}; 17 parameters by gm>"
    assert len(repr(everything)) < 250


def test_the_result_names_every_option_and_how_logs_were_processed(
    everything: Identification,
) -> None:
    assert set(everything.settings) == set(options_of(IdentifySettings))
    assert everything.settings["window"] is None  # asked for nothing
    assert everything.processing.window is not None  # and this was found
    assert everything.to_dict()["processing"] == everything.processing.to_dict()
    assert {use: len(names) for use, names in everything.logs.items()} == {
        "identification": 1,
        "loaded": 0,
        "validation": 1,
    }


def test_positions_that_do_not_fit_the_robot_lead_to_the_diagnosis(five_bar: Model) -> None:
    log = record(simulate(five_bar, fourier(five_bar, 0.4, 0.5, harmonics=3), periods=2), seed=4)
    degrees = replace(log, position=np.rad2deg(log.position), reference=None)
    with pytest.raises((LoopNotClosed, SingularConfiguration), match="gough diagnose"):
        identify(five_bar, [degrees])


def test_a_named_cause_is_in_the_headline_instead_of_the_rules_that_warn(everything) -> None:
    fault = NamedFault(
        name="effort sign", place="left.motor", text="a wrong sign", advice="turn it"
    )
    alarm = Notice(rule="fit error", level="error", text="a large error")
    doubtful = replace(
        everything,
        notices=(alarm, fault.notice()),
        diagnosis=Diagnosis(robot="five_bar", faults=(fault,)),
    )
    assert doubtful.headline.startswith("five_bar: ERROR - a wrong sign; predicts the held-out log")
    assert "see" not in doubtful.headline
    assert replace(doubtful, diagnosis=None).headline.endswith("; see fit error, effort sign")


def test_the_summary_puts_the_verdict_first_and_other_info_last(everything) -> None:
    limits = Notice(rule="not noticed", level="info", text="these logs may not show: a tilt")
    steps = Notice(rule="quantisation", level="info", text="values come in steps")
    lines = replace(everything, notices=(steps, limits)).summary().splitlines()
    assert lines[1] == f"  info     not noticed: {limits.text}"
    assert lines[-2:] == ["Notes", f"  info     quantisation: {steps.text}"]


def test_a_large_factor_to_the_robot_file_is_in_the_headline(everything) -> None:
    notice = Notice(rule="robot file", level="info", text="", numbers={"factor": 0.01})
    scaled = replace(everything, notices=(notice,))
    assert scaled.headline.endswith("masses and friction are 0.01 times the robot file's")
    assert "robot file" not in everything.headline
