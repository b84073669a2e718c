"""Drive gains, essential parameters and a second payload of the Orthoglide, recorded on the
independent plant.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pinocchio")

import orthoglide_control as control
import orthoglide_gains as example

from gough import Identification, identify
from gough.fitting.estimate import Estimate

pytestmark = pytest.mark.long
TRUE = np.array([2170.0, 2100.0, 2070.0])
SEEDS = 16


@pytest.fixture(scope="module")
def study() -> example.Study:
    return example.experiments("pinocchio")


@pytest.fixture(scope="module")
def bound(study: example.Study) -> np.ndarray:
    return study.bound()


@pytest.fixture(scope="module")
def estimates(study: example.Study) -> dict[str, Estimate]:
    problem = study.problem(1)
    return {name: settings.fit(problem) for name, settings in example.estimators().items()}


@pytest.fixture(scope="module")
def result(study: example.Study) -> Identification:
    return identify(
        study.model,
        [study.log("unloaded", 1)],
        loaded=[study.log("loaded", 1)],
        estimator="all",
        processing=study.processing,
        held_out=[study.log("other", 1)],
        gains=dict.fromkeys(study.model.mechanism.actuated, example.MANUFACTURER),
    )


def gains_of(study: example.Study, estimate: Estimate, what: str = "values") -> np.ndarray:
    return getattr(estimate, what)[[estimate.parameters.index(name) for name in study.gains]]


def test_all_three_ways_find_the_gains_within_three_standard_deviations(
    study: example.Study, estimates: dict[str, Estimate]
) -> None:
    assert len(estimates) == 3
    for name, estimate in estimates.items():
        error, std = gains_of(study, estimate) - TRUE, gains_of(study, estimate, "std")
        assert (np.abs(error) < 3 * std).all(), (name, error, std)
        assert (std < 0.004 * TRUE).all(), name  # BG13: 0.24 to 0.39 %


def test_standard_deviations_reach_the_cramer_rao_bound(
    study: example.Study, bound: np.ndarray
) -> None:
    """What maximum likelihood states, and what it does over noises, is at most 1.2 times the bound
    of all samples.
    """
    stated = [
        gains_of(study, example.MaximumLikelihoodGains().fit(study.problem(seed)), "white_std")
        for seed in range(1, 7)
    ]
    assert (np.mean(stated, axis=0) < 1.2 * bound).all(), np.mean(stated, axis=0) / bound
    many = example.scatter(study, SEEDS)
    for name, values in many.items():
        ratio = values.std(axis=0, ddof=1) / bound
        assert 0.75 < np.sqrt(np.mean(ratio**2)) < 1.2, (name, ratio)
        off = np.abs(values.mean(axis=0) - TRUE) / bound
        assert (off < 1.0).all(), (name, off)


def test_the_default_result_is_right_although_told_the_manufacturers_gains(
    study: example.Study, result: Identification
) -> None:
    for name, true in zip(study.model.mechanism.actuated, TRUE):
        found = result.drive_gains[name]
        assert abs(found["value"] - true) < 3 * found["std"]
    assert result.validation.predicts == "good"
    assert result.validation.relative.max() < 0.005


def test_essential_parameters_are_those_of_table_3(study: example.Study) -> None:
    steps = example.essential(study)
    printed = set(example.TABLE_3) - set(example.ABSENT)
    chosen = steps.steps[steps.stop].estimate
    assert printed <= set(chosen.parameters)
    for name in printed - {"platform.mR"}:  # which takes up what the bars' inertias no longer do
        assert chosen[name] == pytest.approx(example.TABLE_3[name][0], rel=0.02), name
    last = set(steps.estimate.parameters)
    assert steps.reached
    assert last <= printed  # the ratio of 10 goes further than the data want,
    assert len(last) >= len(printed) - 3
    errors = [step.held_out_error for step in steps.steps]
    few = [
        step.held_out_error
        for step in steps.steps
        if len(set(step.estimate.parameters) ^ printed) <= 4
    ]
    assert min(few[:-1]) < 1.03 * min(
        errors
    )  # the paper's and up to four more predict as well as any
    assert errors[-1] > 1.2 * min(errors)  # and the held-out error shows it


def test_efforts_on_another_trajectory_are_computed_to_the_noise(
    study: example.Study, result: Identification
) -> None:
    time, measured, computed = example.figure_5(study, result)
    assert len(time) == 1000 * example.PERIOD
    left = np.sqrt(np.mean((measured - computed) ** 2, axis=0))
    assert (left < 2 * example.NOISE).all()
    assert (left < 0.05 * np.sqrt(np.mean(measured**2, axis=0))).all()


def test_the_second_payload_is_right_with_identified_gains_and_light_with_the_manufacturers(
    study: example.Study, result: Identification
) -> None:
    identified = {name: value["value"] for name, value in result.drive_gains.items()}
    mass, _ = example.second_payload(study, identified)
    assert mass == pytest.approx(example.SECOND_MASS, abs=0.02)
    biased, std = example.second_payload(study, dict.fromkeys(identified, example.MANUFACTURER))
    assert biased == pytest.approx(1.09, abs=0.02)  # BG13: 1.09 +- 0.02
    assert example.SECOND_MASS - biased > max(0.02, 3 * std)


def rms(runs: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Tracking error of all joints together by strategy. [m]"""
    return {name: float(np.sqrt(np.mean(error**2))) for name, (_, error) in runs.items()}


def test_controllers_rank_as_in_table_4(study: example.Study) -> None:
    """Models identified anew under each set of gains; encoder in the loop, and then the models' own
    errors alone.
    """
    model, models = study.model, control.identified_strategies(study)
    both = {
        **control.plain_strategies(),
        **{name: models[name] for name in models if name != control.HIGH},
    }
    for runs in control.track(model, both, feedback=control.encoder(model)).values():
        error = rms(runs)
        assert error["simple PID"] > 5 * error["advanced PID"]
        assert (
            error["advanced PID"]
            > error[control.LOW]
            > error[control.MANUFACTURERS]
            > error[control.RIGHT]
        )
        assert error["simple PID"] > 15 * error[control.RIGHT]  # about 40 in the paper
    for runs in control.track(model, models).values():
        error = rms(runs)
        assert min(error[control.LOW], error[control.HIGH]) > 1.5 * error[control.MANUFACTURERS]
        assert error[control.MANUFACTURERS] > 1.1 * error[control.RIGHT]
