"""Boxes that hold whichever q equations are wrong, against all subsets, and the heuristic that
holds if it guesses.
"""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from bounded import bounded_problem, problem, regression, uncertain_problem
from gough.bounding.exact_box import prove_bound
from gough.bounding.linear_program import LinearProgram
from gough.bounding.polytope import Polytope
from gough.bounding.solve import ExactBox, TrimmedBox, enclose
from gough.core.errors import InconsistentData, InvalidInput, NotIdentifiable
from gough.core.intervals import Interval
from gough.fitting.regression import Regression


def spoilt(count, seed, size, samples=40, parameters=3, rows=1):
    """A problem with outliers beyond the bound by `size` (least, most), all prior boxes [0, 2]."""
    rng = np.random.default_rng(seed)
    reg, truth = regression(samples=samples, parameters=parameters, rows=rows, seed=seed)
    effort = np.array(reg.effort)
    wrong = tuple(np.unravel_index(rng.choice(effort.size, count, replace=False), effort.shape))
    effort[wrong] = (reg.regressor @ truth)[wrong] + rng.choice([-1, 1], count) * (
        0.5 + rng.uniform(*size, count)
    )
    return bounded_problem(replace(reg, effort=effort), error_bound=0.5, prior=(0.0, 2.0)), truth


def smallest_box(bounded, wrong):
    """Enclose what breaks at most so many equations of two parameters in [0, 2], without any linear
    programme.

    The set is a union of cells that the lines `W theta = effort +- bound` and the sides of the
    prior cut out, so its extremes are crossings of two of them.
    """
    W, y, e = bounded.regressor_lower[:, 0], bounded.effort[:, 0], 0.5
    lines = np.vstack([W, W, np.eye(2), np.eye(2)])
    right = np.concatenate([y - e, y + e, [0, 0, 2, 2]])
    first, second = np.array(list(combinations(range(len(lines)), 2))).T
    pairs = np.stack([lines[first], lines[second]], axis=1)
    crossing = np.abs(np.linalg.det(pairs)) > 1e-9
    sides = np.stack([right[first], right[second]], axis=1)[crossing]
    points = np.linalg.solve(pairs[crossing], sides[..., None])[..., 0]
    fits = (np.abs(points @ W.T - y) > e + 1e-9).sum(axis=1) <= wrong
    fits &= ((points >= -1e-9) & (points <= 2 + 1e-9)).all(axis=1)
    return points[fits].min(axis=0), points[fits].max(axis=0)


@pytest.mark.parametrize("size", [(0.05, 0.5), (3.0, 8.0)], ids=["mild", "gross"])
@pytest.mark.parametrize(("wrong", "allowed"), [(1, 1), (3, 3), (0, 1), (1, 3), (0, 0)])
def test_the_box_holds_all_that_breaks_few_enough_equations_and_is_not_much_wider(
    size, wrong, allowed
):
    ratios = []
    for seed in range(6):
        bounded, truth = spoilt(wrong, seed, size, samples=40, parameters=2)
        low, high = smallest_box(bounded, allowed)
        box = ExactBox(outliers=allowed).fit(bounded)
        assert (box.lower <= low + 1e-9).all()
        assert (box.upper >= high - 1e-9).all()
        assert box.contains(truth)
        ratios.append(box.width / (high - low))
    if allowed == 0 or (size[0] > 1 and wrong == allowed):  # then it is the smallest
        assert np.max(ratios) < 1 + 1e-6
    assert np.median(ratios) < 1.5


@pytest.mark.parametrize(
    "size", [(0.01, 0.3), (0.3, 2.0), (4.0, 12.0)], ids=["hardly", "mild", "gross"]
)
def test_the_truth_is_never_outside_whichever_equations_are_wrong(size):
    for seed in range(40):
        wrong = 1 + seed % 3
        bounded, truth = spoilt(wrong, seed, size, samples=30)
        for allowed in (wrong, wrong + 1):
            assert ExactBox(outliers=allowed).fit(bounded).contains(truth), (seed, allowed)


def test_outliers_that_all_push_the_same_way_and_imitate_other_parameters_do_not_exclude_the_truth():
    rng = np.random.default_rng(0)
    for seed in range(30):
        reg, truth = regression(samples=40, parameters=3, seed=seed)
        effort = np.array(reg.effort)
        wrong = rng.choice(40, 4, replace=False)
        effort[wrong] = reg.regressor[wrong] @ rng.uniform(0, 2, 3)  # agree with each other
        bounded = bounded_problem(replace(reg, effort=effort), error_bound=0.5, prior=(0.0, 2.0))
        assert ExactBox(outliers=4).fit(bounded).contains(truth)


def test_gross_outliers_cost_nothing_once_the_box_is_small():
    for seed in range(5):
        bounded, _ = spoilt(5, seed, (4.0, 12.0), samples=150, rows=2, parameters=4)
        reg, truth = regression(samples=150, rows=2, parameters=4, seed=seed)
        clean = np.abs(bounded.effort - reg.regressor @ truth) <= 0.5
        best = ExactBox().fit(replace(bounded, used=clean))
        box = ExactBox(outliers=5).fit(bounded)
        np.testing.assert_allclose(box.lower, best.lower, atol=1e-9)
        np.testing.assert_allclose(box.upper, best.upper, atol=1e-9)


def test_dense_logs_survive_a_tenth_of_gross_outliers_with_a_guarantee():
    rng = np.random.default_rng(0)
    phase = np.linspace(0, 5, 600)[:, None] * np.array([2.0, 5.0, 9.0])
    amplitude = np.array([0.5, 0.2, 0.1])
    acceleration, velocity = 20 * np.sin(phase) @ amplitude, 4 * np.cos(phase) @ amplitude
    W = np.column_stack([acceleration, velocity, np.sign(velocity), np.ones(600)])[:, None]
    truth = np.array([0.05, 0.4, 1.1, 0.2])
    effort = W @ truth + 0.3 * rng.standard_normal((600, 1)).clip(-4, 4)
    bad = rng.random(effort.shape) < 0.1
    effort[bad] += rng.uniform(5, 15, bad.sum())
    reg = Regression(
        regressor=W,
        effort=effort,
        rows=("motor",),
        row_units=("N m",),
        parameters=("ia", "fv", "fs", "off"),
        units=("kg m2", "N m s/rad", "N m", "N m"),
    )
    bounded = bounded_problem(reg, error_bound=1.5, prior=(0.0, 2.0))
    box = ExactBox(outliers=int(bad.sum())).fit(bounded)
    assert box.contains(truth)
    best = ExactBox().fit(replace(bounded, used=~bad))
    assert (box.lower <= best.lower + 1e-9).all()
    assert (box.upper >= best.upper - 1e-9).all()
    assert (box.width <= 1.5 * best.width).all()


@pytest.mark.parametrize("prior", [(0.0, 2.0), (-2.0, 2.0)])
def test_outliers_and_uncertain_regressors_together_lose_nothing(prior):
    for seed in range(6):
        bounded, truth = uncertain_problem(seed=seed, samples=30, parameters=2, prior=prior)
        effort = np.array(bounded.effort)
        effort[[3, 17]] += [[4.0], [-0.9]]
        bounded = replace(bounded, effort=effort)
        box = ExactBox(outliers=2).fit(bounded)
        points = np.random.default_rng(seed).uniform(box.lower - 0.1, box.upper + 0.1, (20000, 2))
        points = np.clip(points, *prior)
        eq = bounded.equations
        ends = np.stack(
            [points[:, None] * eq.regressor.lower, points[:, None] * eq.regressor.upper]
        )
        broken = (ends.max(axis=0).sum(axis=-1) < eq.effort - eq.bound) | (
            ends.min(axis=0).sum(axis=-1) > eq.effort + eq.bound
        )
        allowed = points[broken.sum(axis=1) <= 2]
        assert len(allowed) > 100
        assert ((allowed >= box.lower) & (allowed <= box.upper)).all()
        assert box.contains(truth)


def test_unbounded_priors_are_bounded_by_sets_of_equations_of_which_one_is_right():
    bounded, truth = spoilt(2, 0, (50.0, 90.0), samples=60)
    free = replace(bounded, prior_lower=np.full(3, -np.inf), prior_upper=np.full(3, np.inf))
    box = ExactBox(outliers=2).fit(free)
    assert box.contains(truth)
    known = ExactBox(outliers=2).fit(
        replace(bounded, prior_lower=np.full(3, -9.0), prior_upper=np.full(3, 9.0))
    )
    np.testing.assert_allclose(box.lower, known.lower, atol=1e-6)
    with pytest.raises(NotIdentifiable, match="so many outliers"):
        ExactBox(outliers=30).fit(free)


def test_more_outliers_widen_a_box_and_with_too_many_it_is_the_prior_and_says_so():
    bounded, _ = problem(samples=40, parameters=3)
    boxes = [ExactBox(outliers=q).fit(bounded) for q in (0, 1, 3, 40)]
    assert all((b.width >= a.width - 1e-12).all() for a, b in pairwise(boxes))
    assert (boxes[1].width > boxes[0].width).any()
    assert boxes[3].lower.tolist() == [0.0] * 3
    notices = [n for n in boxes[3].notices if "do not narrow the prior" in n.text]
    assert [n.where for n in notices] == ["p0, p1, p2"]


def test_equations_of_a_bound_that_is_given_up_count_again():
    """One equation proves |theta| <= 1 and no other says as much as the box, so that two proofs are
    not to be had.
    """
    W = np.array([[1.0], [0.01], [0.01]])
    box = Interval(np.array([-2.0]), np.array([2.0]))
    programme = LinearProgram(Polytope(np.vstack([W, -W]), -np.ones(6), np.ones(3), box))
    given_up = prove_bound(programme, 0, True, 1.0, 2)
    assert (given_up.value, given_up.proofs) == (2.0, [])
    assert prove_bound(programme, 0, True, 1.0, 1).value == pytest.approx(1.0)


def test_more_wrong_equations_than_allowed_are_a_certified_error():
    bounded, _ = spoilt(5, 0, (30.0, 50.0))
    with pytest.raises(
        InconsistentData, match="more than 4 equations violate the error bound"
    ) as caught:
        ExactBox(outliers=4).fit(bounded)
    assert caught.value.needed == 5
    assert ExactBox(outliers=5).fit(bounded) is not None


def test_solvers_by_name_and_what_they_refuse():
    bounded, _ = problem()
    assert "heuristic" in enclose(bounded, "trimmed", 3).method
    assert "outliers" in enclose(bounded, "exact", 3).method
    with pytest.raises(InvalidInput, match="knows no outliers"):
        enclose(bounded, "gauss-seidel", 3)
    with pytest.raises(InvalidInput, match="did you mean 'exact'"):
        enclose(bounded, "exakt")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="outliers is -1"):
        TrimmedBox(outliers=-1).fit(bounded)


def with_outliers(count, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    reg, truth = regression(seed=seed, **kwargs)
    effort = np.array(reg.effort)
    flat = rng.choice(effort.size, count, replace=False)
    where = np.column_stack(np.unravel_index(flat, effort.shape))
    effort[tuple(where.T)] += rng.choice([-1, 1], count) * rng.uniform(4, 12, count)
    bounded = bounded_problem(replace(reg, effort=effort), error_bound=0.5, prior=(0.0, 2.0))
    return bounded, truth, {tuple(int(i) for i in pair) for pair in where}


@pytest.mark.parametrize("seed", range(4))
def test_outliers_are_found_by_name_and_the_box_of_the_rest_contains_the_truth(seed):
    bounded, truth, outliers = with_outliers(12, samples=60, rows=2, seed=seed)
    with pytest.raises(InconsistentData):
        ExactBox().fit(bounded)
    box = TrimmedBox(outliers=12).fit(bounded)
    assert {tuple(pair) for pair in box.certificate["removed"]} == outliers
    assert box.contains(truth)
    assert "conditional" in box.notices[0].text
    sample, row = min(outliers)
    assert f"sample {sample} joint{row}" in box.notices[0].text
    rest = ExactBox().fit(bounded.without(outliers))
    np.testing.assert_array_equal(rest.lower, box.lower)
    assert not any("conditional" in notice.text for notice in rest.notices)


def test_consistent_data_lose_nothing_when_outliers_are_allowed():
    bounded, _ = problem()
    box = TrimmedBox(outliers=10).fit(bounded)
    assert box.certificate["removed"] == []
    assert not any("conditional" in notice.text for notice in box.notices)
    np.testing.assert_array_equal(box.upper, ExactBox().fit(bounded).upper)


def test_more_outliers_than_allowed_are_an_error_with_the_number_needed():
    bounded, _, _ = with_outliers(5)
    with pytest.raises(InconsistentData, match="5 equations are left out") as caught:
        TrimmedBox(outliers=4).fit(bounded)
    assert caught.value.needed == 5


def test_good_equations_that_the_outliers_pushed_out_come_back():
    rng = np.random.default_rng(0)
    phase = np.linspace(0, 5, 1000)[:, None] * np.array([2.0, 5.0, 9.0])
    amplitude = np.array([0.5, 0.2, 0.1])
    acceleration, velocity = 20 * np.sin(phase) @ amplitude, 4 * np.cos(phase) @ amplitude
    W = np.column_stack([acceleration, velocity, np.sign(velocity), np.ones(1000)])[:, None]
    truth = np.array([0.05, 0.4, 1.1, 0.2])
    effort = W @ truth + 0.3 * rng.standard_normal((1000, 1))
    bad = rng.random(effort.shape) < 0.1
    effort[bad] += rng.uniform(3, 15, bad.sum())  # all to one side
    reg = Regression(
        regressor=W,
        effort=effort,
        rows=("motor",),
        row_units=("N m",),
        parameters=("ia", "fv", "fs", "off"),
        units=("kg m2", "N m s/rad", "N m", "N m"),
    )
    box = TrimmedBox(outliers=100 + 20).fit(bounded_problem(reg, error_bound=1.5, prior=(0.0, 2.0)))
    assert box.contains(truth)
    np.testing.assert_array_equal(sorted(map(tuple, box.certificate["removed"])), np.argwhere(bad))


def test_outliers_survive_one_sided_gross_errors_in_a_tenth_of_the_data():
    rng = np.random.default_rng(2)
    reg, truth = regression(samples=400, rows=2, parameters=5, seed=2)
    effort = np.array(reg.effort)
    bad = rng.random(effort.shape) < 0.1
    effort[bad] += rng.uniform(3, 10, bad.sum())
    bounded = bounded_problem(replace(reg, effort=effort), error_bound=0.5, prior=(0.0, 2.0))
    box = TrimmedBox(outliers=100).fit(bounded)
    assert box.contains(truth)
    assert len(box.certificate["removed"]) == bad.sum()
