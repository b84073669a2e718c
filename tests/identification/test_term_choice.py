"""Which terms data ask for, on robots whose friction is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.app.studies.input_files import load_result
from gough.app.studies.steps.identify import IdentifyStep
from gough.core.documents import parse_toml, restored
from gough.engine import Model, base_parameters
from gough.fitting.regression import Regression
from gough.identification import IdentifySettings, prepare
from gough.identification.structures import ModelChoice
from gough.identification.term_candidates import Candidate, Placement
from gough.identification.term_choice import _TermComparison, choose_terms, term_blocks
from gough.identification.validation import validate_result
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.mechanism import load_robot, parse_robot, robot_text
from gough.virtual import record, simulate
from tests_support import fourier

TEXT = robot_text("five_bar")[0]


def log_of(term: str, values: str, seed: int) -> Recording:
    """A log of a five-bar whose left motor has one more term."""
    text = (
        TEXT.replace('terms = ["ia", "fv", "fs"]', f'terms = ["ia", "fv", "fs", {term}]').replace(
            'fs = "$fs" }', f'fs = "$fs", {values} }}'
        )
        + '\n[[term]]\nname = "ripple"\nconstants = { pitch = "9 deg" }\n'
    )
    model = Model(parse_robot(text, "five_bar.toml"))
    zero = {
        name: 0.0
        for name in model.mechanism.standard.names
        if name.owner == "right.motor" and name.kind not in ("ia", "fv", "fs")
    }
    return record(
        simulate(model, fourier(model, 0.4, 0.5, seed=seed, harmonics=5), periods=3, values=zero),
        seed=seed,
    )


@pytest.mark.parametrize(
    ("term", "values", "label"),
    [
        ('"ripple"', "ripple_sin = 0.3, ripple_cos = 0.2", "ripple"),
        ('"fs_time"', "fs_time = 0.6", "friction with memory over time"),
        ('"fs_load"', "fs_load = 0.1", "load-dependent friction"),
        ('"fv_plus"', "fv_plus = 0.5", "asymmetric viscous friction"),
    ],
)
def test_the_term_that_is_missing_is_found_where_it_is_missing(
    term: str, values: str, label: str
) -> None:
    model = Model(load_robot("five_bar"))
    base = base_parameters(model)
    known = prepare(model, [log_of(term, values, 1)], base)
    unseen = prepare(model, [log_of(term, values, 2)], base, processing=known.processing)
    found = choose_terms(known, unseen)
    assert found.steps[0].label == label
    assert found.steps[0].joints == ("left.motor",)
    if label == "ripple":
        assert found.steps[0].constants["left.motor"]["ripple.pitch"] == pytest.approx(
            np.radians(9), rel=0.02
        )
    without, with_ = found.held_out["left.motor"]
    assert with_ < 0.75 * without  # the other log leaves the range in which the ripple was seen
    assert found.alone[0].label == label


def test_added_terms_are_in_the_result_the_robot_file_and_the_validation(tmp_path: Path) -> None:
    rippling = ('"ripple"', "ripple_sin = 0.3, ripple_cos = 0.2")
    paths = []
    for seed in (1, 2, 3):
        path = tmp_path / f"log{seed}.csv"
        log_of(*rippling, seed).save(path)
        paths.append(str(path))
    folder = str(tmp_path / "result")
    step = IdentifyStep(
        robot="five_bar",
        logs=paths[:2],
        validate=paths[2:],
        settings=IdentifySettings(terms="auto"),
        output=folder,
    )
    result = step.run(lambda fraction: None)
    added = [notice for notice in result.notices if notice.rule == "terms"]
    assert [notice.where for notice in added] == ["left.motor"]
    assert "q 2." in added[0].text  # the range in which it was identified
    assert result.validation.relative.max() < 0.03  # without the ripple 0.088
    model, stored = load_result(folder)
    assert {"ripple_1_1", "ripple_1_2"} <= set(model.mechanism.joint("left.motor").terms)
    assert stored.added_terms == result.added_terms
    assert stored.fitted(model) is model  # the robot file beside the result has the terms
    log = read_recording(paths[2])
    for robot in (model, Model(load_robot("five_bar"))):
        again = validate_result(robot, stored, [log])
        np.testing.assert_allclose(again.relative, result.validation.relative, rtol=1e-9)
    study = parse_toml((Path(folder) / "study.toml").read_text())
    assert study["identify"]["terms"] == "given"


def test_friction_by_direction_adds_one_coefficient_to_a_joint_with_viscous_friction() -> None:
    """Both directions and the mean would be dependent, and the fit with them end in an error."""
    log = log_of('"fv_plus"', "fv_plus = 0.5", 1)
    result = identify(Model(load_robot("five_bar")), [log], terms="auto")
    names = [name.kind for name in result.estimate.parameters if name.owner == "left.motor"]
    by_direction = [name for name in names if name.startswith(("fv_plus", "fv_minus"))]
    assert len(by_direction) == 1
    assert "fv" in names


def test_a_robot_that_lacks_nothing_gets_no_proposal_and_the_answer_is_kept() -> None:
    model = Model(load_robot("five_bar"))
    log = record(simulate(model, fourier(model, 0.4, 0.5, harmonics=5), periods=3), seed=4)
    choice = identify(model, [log], structures=True).structures
    assert choice is not None
    assert not choice.terms.steps
    assert "Gain of each term alone" in choice.summary()
    assert "none: the robot file has all terms that the data show" in choice.summary()
    again = restored(ModelChoice, json.loads(json.dumps(choice.to_dict())))
    assert again.terms.alone == choice.terms.alone


def test_errors_from_moments_are_those_of_refitting_without_each_fold_and_predicting_what_was_recorded() -> (
    None
):
    rng = np.random.default_rng(0)
    W, chi = rng.standard_normal((300, 2, 4)), np.array([1.0, -2.0, 0.5, 0.0])
    mask = rng.uniform(size=(300, 2)) < 0.8
    problem = Regression(
        regressor=W,
        effort=W @ chi + 0.3 * rng.standard_normal((300, 2)),
        rows=("a", "b"),
        row_units=("N", "N"),
        parameters=tuple("wxyz"),
        units=("1",) * 4,
        mask=mask,
        recording=np.repeat([0, 1, 2], 100),
    )
    blocks = term_blocks(problem)
    block = blocks.label
    n_blocks = blocks.n_blocks // 3
    fold = block // n_blocks
    assert (blocks.kind, len(blocks.folds), n_blocks) == ("logs", 3, 12)
    np.testing.assert_array_equal(fold, problem.recording)
    recorded = replace(
        problem, regressor=W + 0.1 * rng.standard_normal(W.shape), effort=problem.effort + 0.2
    )
    comparison = _TermComparison(problem, recorded, blocks=blocks, weights=np.array([1.0, 4.0]))
    columns = [0, 2, 3]
    weight = np.array([1.0, 2.0]) * mask
    A, y = W[:, :, columns] * weight[:, :, None], problem.effort * weight
    R, z = recorded.regressor[:, :, columns] * weight[:, :, None], recorded.effort * weight
    squares = comparison.squares(columns)
    fitted = 0.0
    for f in range(3):
        x = np.linalg.lstsq(A[fold != f].reshape(-1, 3), y[fold != f].reshape(-1), rcond=None)[0]
        fitted += ((y - A @ x)[fold == f] ** 2).sum()
        for b in range(n_blocks * f, n_blocks * (f + 1)):
            expected = ((z - R @ x)[block == b] ** 2).sum(axis=0)
            np.testing.assert_allclose(squares[b], expected, rtol=1e-6)
    assert comparison.fitted_error(columns) == pytest.approx(fitted, rel=1e-6)


def comparison_of_logs(coefficients: list[float], sizes: list[float]) -> _TermComparison:
    """Four parameters of the robot, and a fifth column whose coefficient depends on the log."""
    rng = np.random.default_rng(3)
    n = 400
    log = np.repeat(np.arange(len(sizes)), n)
    W = rng.standard_normal((len(log), 1, 5))
    W[:, :, 4] *= np.array(sizes)[log][:, None]
    effort = W[:, :, :4] @ np.array([1.0, -2.0, 0.5, 3.0])
    effort += np.array(coefficients)[log][:, None] * W[:, :, 4]
    problem = Regression(
        regressor=W,
        effort=effort + 0.3 * rng.standard_normal(effort.shape),
        rows=("motor",),
        row_units=("N",),
        parameters=tuple("wxyzt"),
        units=("1",) * 5,
        recording=log,
    )
    return _TermComparison(problem, problem, blocks=term_blocks(problem), weights=np.ones(1))


@pytest.mark.parametrize(
    ("coefficients", "accepted"),
    [
        ([1.0, 1.0, 1.0, 1.0], True),
        ([1.0, 1.1, 1.3, 0.9], True),
        ([1.0, 1.0, 4.0, 4.0], False),  # it predicts every log better, the next one perhaps not
    ],
)
def test_a_term_whose_coefficient_differs_between_logs_is_no_term(
    coefficients: list[float], accepted: bool
) -> None:
    comparison = comparison_of_logs(coefficients, [1.0, 1.0, 0.3, 0.3])
    columns = [0, 1, 2, 3]
    squares = comparison.squares(columns)
    joint = load_robot("five_bar").joint("left.motor")
    term = Candidate("term", replace(joint, name="motor"), (), {}, 0, (4,))
    trial = comparison.trial(columns, squares, Placement((term,)))
    assert comparison.wins_on_every_log(squares, trial)
    assert comparison.gain_test(squares, trial, 1).accepted
    assert comparison.same_in_every_fold(columns, trial) is accepted
