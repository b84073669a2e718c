"""Boxes for the H4 from a plant with light rods that the model does not know (P03, and what it left
open).
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pinocchio")

import h4_bounds as example
from p03_contractors import contract

from gough import Enclosure
from gough.bounding.solve import BoundedProblem, ExactBox, GaussSeidel, TrimmedBox
from gough.bounding.verify import verify
from gough.core.errors import InconsistentData

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def study() -> example.Study:
    return example.experiments("pinocchio")


@pytest.fixture(scope="module")
def problem(study: example.Study) -> BoundedProblem:
    return study.problem()


@pytest.fixture(scope="module")
def exact(problem: BoundedProblem) -> Enclosure:
    return ExactBox().fit(problem)


@pytest.fixture(scope="module")
def rough(problem: BoundedProblem) -> Enclosure:
    return GaussSeidel().fit(problem)


def test_rods_of_a_gram_close_the_same_loops_and_hardly_change_torques(
    study: example.Study,
) -> None:
    robot = study.runs[0].model
    assert robot.degrees_of_freedom == 4
    shared = [robot.mechanism.coordinates.index(name) for name in study.model.mechanism.coordinates]
    np.testing.assert_allclose(robot.home[shared], study.model.home, atol=1e-9)
    assert 0.001 < study.rod_effect.max() < 0.03  # of 12 N m
    for run in study.runs:
        assert run.plant == "pinocchio"
        assert run.saturated.sum() == 0


def test_errors_stay_inside_the_bound(study: example.Study, problem: BoundedProblem) -> None:
    assert problem.effort.size > 10000
    assert 0.9 < study.largest_error(problem) < example.BOUND


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.long) for k in (2, 3))])
def test_every_box_contains_the_truth(study: example.Study, seed: int) -> None:
    problem = study.problem(seed)
    for method in (ExactBox(), GaussSeidel()):
        assert method.fit(problem).contains(study.truth), (method, seed)
    assert contract(problem).box.contains(study.truth).all()


def test_the_exact_box_lies_in_the_gauss_seidel_box_and_is_much_smaller(
    exact: Enclosure, rough: Enclosure
) -> None:
    assert (exact.lower >= rough.lower).all()
    assert (exact.upper <= rough.upper).all()
    ratio = exact.width / rough.width
    assert ratio.max() < 0.8
    assert np.exp(np.mean(np.log(ratio))) < 0.45
    assert exact.certificate["relative_gap"] < 1e-9


def test_weighted_least_squares_lies_in_the_gauss_seidel_box(
    study: example.Study, rough: Enclosure
) -> None:
    weighted = study.weighted()
    assert rough.contains(weighted.values)
    assert (np.abs(weighted.values - study.truth) < 4 * weighted.std).all()


@pytest.mark.long
def test_a_tenth_of_gross_outliers_is_refused_untold_and_survived_told(
    study: example.Study, problem: BoundedProblem, exact: Enclosure
) -> None:
    broken, count = example.spoilt(problem)
    assert count == pytest.approx(0.1 * np.sum(problem.used), rel=0.1)
    with pytest.raises(InconsistentData, match="contradict each other"):
        ExactBox().fit(broken)
    sure = ExactBox(outliers=count).fit(broken)
    assert sure.contains(study.truth)
    assert np.exp(np.mean(np.log(sure.width / exact.width))) < 2
    assert verify(sure.to_dict()).startswith("proven")
    box = TrimmedBox(outliers=count).fit(broken)
    assert box.contains(study.truth)
    removed = {tuple(pair) for pair in box.certificate["removed"]}
    wrong = {tuple(pair) for pair in np.argwhere(broken.effort != problem.effort).tolist()}
    assert len(removed & wrong) >= 0.995 * count
    assert len(removed - wrong) <= 0.005 * count
    assert np.exp(np.mean(np.log(box.width / exact.width))) < 1.1
    assert any("conditional" in str(notice) for notice in box.notices)


def test_boxes_grow_with_the_error_bound_and_vanish_below_the_errors(
    problem: BoundedProblem, exact: Enclosure
) -> None:
    found = example.widths(problem, [0.5, 1.25, example.BOUND, 2.0, 4.0])
    assert np.isnan(found).all(axis=1).tolist() == [True, False, False, False, False]
    widths = found[1:]
    np.testing.assert_allclose(widths[1], exact.width, rtol=1e-9)
    assert (np.diff(widths, axis=0) >= -1e-12).all()
    inertias = [k for k, name in enumerate(problem.parameters) if name.endswith((".ia", ".Izz"))]
    assert (widths[3, inertias] > 2.5 * widths[1, inertias]).all()
