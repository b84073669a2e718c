"""Friction structures, leg symmetry and weak directions of an experiment."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gough.app.identify import identify
from gough.core.names import parameters
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.least_squares import LeastSquares
from gough.identification import Identification, load_identification, prepare
from gough.identification.structures import (
    ModelChoice,
    friction_structures,
    leg_groups,
    model_choice,
)
from gough.logs.recording import Recording
from gough.processing import Processing

MOTORS = {"left.motor.fv", "right.motor.fv", "left.motor.fs", "right.motor.fs"}
ELBOWS = {"left.elbow.fv", "right.elbow.fv"}


@pytest.fixture(scope="module")
def result(five_bar: Model, five_bar_log: Recording, five_bar_other: Recording) -> Identification:
    return identify(five_bar, [five_bar_log], held_out=[five_bar_other], structures=True)


def test_axes_of_joints_outside_the_legs_are_not_taken_for_legs() -> None:
    names = ("wrist.1.fv", "ankle.1.fv", "left.hip.1.fv", "right.hip.1.fv")
    base = BaseParameters(
        names=parameters(names),
        units=("N m s/rad",) * 4,
        standard=parameters(names),
        matrix=np.eye(4),
        independent=(0, 1, 2, 3),
        singular_values=np.ones(4),
        tolerance=1e-7,
    )
    assert leg_groups(base) == (names[2:],)


@pytest.fixture(scope="module")
def choice(result: Identification) -> ModelChoice:
    assert result.structures is not None
    return result.structures


def test_structures_differ_by_their_friction_only(five_bar: Model) -> None:
    base = base_parameters(five_bar)
    rest = set(base.names) - MOTORS - ELBOWS
    found = friction_structures(five_bar, base)
    assert {name: set(structure) - rest for name, structure in found.items()} == {
        "none": set(),
        "viscous": {"left.motor.fv", "right.motor.fv"},
        "Coulomb": {"left.motor.fs", "right.motor.fs"},
        "both": MOTORS,
        "both, legs alike": {
            ("left.motor.fv", "right.motor.fv"),
            ("left.motor.fs", "right.motor.fs"),
        },
        "both, passive joints too": MOTORS | ELBOWS,
        "both, passive joints too, legs alike": {
            ("left.motor.fv", "right.motor.fv"),
            ("left.motor.fs", "right.motor.fs"),
            ("left.elbow.fv", "right.elbow.fv"),
        },
    }
    assert all(rest <= set(structure) for structure in found.values())


def test_parameters_are_grouped_only_if_equal_legs_make_them_equal(five_bar: Model) -> None:
    tied = base_parameters(five_bar, tie_legs=True)
    assert any(name.endswith("iaR") for name in tied.names)  # left - right: nothing to be equal to
    assert {name for group in leg_groups(tied) for name in group} == MOTORS | ELBOWS
    free = base_parameters(five_bar)
    values = dict(zip(free.names, free.values(five_bar.values(free.standard))))
    for group in leg_groups(free):
        if not any(
            name.endswith((".motor.fv", ".motor.fs")) for name in group
        ):  # legs are equal but for these
            assert values[group[0]] == pytest.approx(values[group[1]])


def test_residuals_and_held_out_errors_are_those_of_plain_least_squares(
    five_bar: Model, five_bar_log: Recording, five_bar_other: Recording
) -> None:
    base = base_parameters(five_bar)
    every = Processing(window=0.0, dead_band=0.0)  # all equations count
    first, other = (
        prepare(five_bar, [log], base, processing=every).problem
        for log in (five_bar_log, five_bar_other)
    )
    for found in model_choice(five_bar, base, first, LeastSquares(), held_out=other).friction[:4]:
        use = [base.names.index(n) for n in friction_structures(five_bar, base)[found.name]]
        W, y = (a.reshape(-1, *a.shape[2:]) for a in (first.regressor[:, :, use], first.effort))
        x = np.linalg.lstsq(W, y, rcond=None)[0]
        for part, error in ((first, found.residual), (other, found.held_out)):
            left = part.effort - part.regressor[:, :, use] @ x
            shares = np.linalg.norm(left, axis=0) / np.linalg.norm(part.effort, axis=0)
            assert error == pytest.approx(np.sqrt(np.mean(shares**2)), rel=1e-6)


def test_the_plants_friction_is_advised(choice: ModelChoice) -> None:
    errors = {s.name: s.held_out for s in choice.friction}
    assert errors["none"] > errors["viscous"] > errors["both"]
    assert choice.advised is not None
    assert choice.advised.startswith("both")
    assert "alike" not in choice.advised  # the plant's motors rub differently


def test_legs_differ_where_the_plants_do(choice: ModelChoice) -> None:
    verdicts = {s.name: s.differ for s in choice.symmetry}
    assert verdicts["*.motor.fs"]  # 0.9 and 0.7 N m
    assert not verdicts["*.distal.IzzR"]
    assert verdicts["all together"]


def test_without_held_out_data_nothing_is_advised(five_bar: Model, five_bar_log: Recording) -> None:
    found = identify(five_bar, [five_bar_log], structures=True).structures
    assert found is not None
    assert found.advised is None
    assert "advised" not in found.summary()
    assert all(s.held_out is None for s in found.friction)


def test_it_is_told_stored_and_read_back(
    result: Identification, choice: ModelChoice, tmp_path: Path
) -> None:
    assert "<- advised" in result.summary()
    assert "differ" in result.summary()
    result.save(tmp_path)
    again = load_identification(tmp_path)
    assert again.structures == choice
    assert (
        json.loads((tmp_path / "estimate.json").read_text())["structures"]["advised"]
        == choice.advised
    )


def test_it_is_left_out_unless_asked(five_bar_result: Identification) -> None:
    assert five_bar_result.structures is None
    assert "structures" not in five_bar_result.to_dict()
