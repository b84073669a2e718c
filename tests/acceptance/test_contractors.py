"""The contractors of P03 as written, against literal ones on the whole square system, samples and
exact boxes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from p03_contractors import contract

from bounded import (
    augmented,
    bounded_problem,
    feasible_points,
    literal,
    problem,
    uncertain_problem,
    with_unknown_signs,
)
from gough.bounding.solve import ExactBox, GaussSeidel
from gough.core.errors import InconsistentData
from gough.fitting.regression import Regression

KINDS = [
    {},
    {"backward": True},
    {"preconditioned": True},
    {"preconditioned": True, "backward": True},
]


def test_the_plain_contractor_is_inside_the_literal_one_for_any_choice_of_rows():
    bounded, _ = problem(samples=12, parameters=2, bound=0.3)
    eq = bounded.equations
    W = eq.regressor.lower
    n, p = W.shape
    box = contract(bounded, tolerance=0.0).box
    A = augmented(W)
    zero = np.zeros(n)
    best_low, best_high = np.zeros(p), np.full(p, 2.0)
    for chosen in combinations(range(n), p):
        others = [k for k in range(n) if k not in chosen]
        # equation of each unknown: theta_j its row, z of the other rows their row, z of the chosen
        # rows the last p
        order = np.empty(n + p, int)
        order[:p] = chosen
        for k in others:
            order[p + k] = k
        for j, k in enumerate(chosen):
            order[p + k] = n + j
        b_low = np.concatenate([eq.effort - eq.bound, np.zeros(p)])[order]
        b_high = np.concatenate([eq.effort + eq.bound, np.zeros(p)])[order]
        assert (np.diag(A[order]) != 0).all()
        low, high = literal(
            A[order],
            A[order],
            b_low,
            b_high,
            np.concatenate([np.zeros(p), zero]),
            np.concatenate([np.full(p, 2.0), zero]),
            sweeps=30,
        )
        assert (low[:p] <= box.lower + 1e-12).all()
        assert (high[:p] >= box.upper - 1e-12).all()
        best_low, best_high = np.maximum(best_low, low[:p]), np.minimum(best_high, high[:p])
    assert (best_high - best_low < 1.0).all()  # the literal one does contract
    exact = ExactBox().fit(bounded)
    assert (box.lower <= exact.lower).all()
    assert (box.upper >= exact.upper).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_contractor_encloses_the_exact_box_and_covers_the_truth_always(kind):
    for seed in range(20):
        bounded, truth = (problem if seed % 2 else uncertain_problem)(
            samples=30, parameters=3, seed=seed
        )
        box, exact = contract(bounded, **kind).box, ExactBox().fit(bounded)
        assert (box.lower <= exact.lower).all()
        assert (box.upper >= exact.upper).all()
        assert box.contains(truth).all()


def test_without_backward_steps_the_preconditioned_one_is_that_of_the_package():
    bounded, _ = uncertain_problem()
    box, ours = contract(bounded, preconditioned=True).box, GaussSeidel().fit(bounded)
    np.testing.assert_array_equal(box.lower, ours.lower)
    np.testing.assert_array_equal(box.upper, ours.upper)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("uncertain", [False, True])
def test_contractors_never_grow_a_box_and_never_lose_a_solution(kind, uncertain):
    rng = np.random.default_rng(7)
    bounded, truth = problem(samples=20, parameters=3, bound=0.4)
    points = feasible_points(bounded, truth, 5000)
    if uncertain:  # more solutions, none lost
        bounded = replace(
            bounded,
            regressor_lower=bounded.regressor_lower - 0.05,
            regressor_upper=bounded.regressor_upper + 0.05,
        )
    lost = 0
    for _ in range(40):
        ends = np.sort(rng.uniform(0, 2, (2, 3)), axis=0)
        inside = points[((points >= ends[0]) & (points <= ends[1])).all(axis=1)]
        try:
            result = contract(replace(bounded, prior_lower=ends[0], prior_upper=ends[1]), **kind)
        except InconsistentData:
            assert not len(inside)
            lost += 1
            continue
        assert (result.box.lower >= ends[0]).all()
        assert (result.box.upper <= ends[1]).all()
        assert ((inside >= result.box.lower) & (inside <= result.box.upper)).all()
    assert 0 < lost < 40


@pytest.mark.parametrize("preconditioned", [True, False])
def test_backward_steps_find_unknown_coulomb_signs_and_shrink_effort_and_box(preconditioned):
    rng = np.random.default_rng(0)
    velocity = np.sin(np.linspace(0.01, 20, 200))
    truth = np.array([0.5, 1.2])
    regressor = np.column_stack([velocity, np.sign(velocity)])
    effort = regressor @ truth + rng.uniform(-0.3, 0.3, 200)
    reg = Regression(
        regressor=regressor[:, None],
        effort=effort[:, None],
        rows=("motor",),
        row_units=("N m",),
        parameters=("fv", "fs"),
        units=("N m s/rad", "N m"),
    )
    unknown = np.zeros((200, 1, 2), bool)
    unknown[:, 0, 1] = np.abs(velocity) < 0.1
    bounded = with_unknown_signs(bounded_problem(reg, error_bound=0.4, prior=(0.1, 2.0)), unknown)
    forward, backward = (
        contract(bounded, preconditioned=preconditioned, backward=b) for b in (False, True)
    )
    assert forward.regressor is bounded.equations.regressor
    column = backward.regressor[unknown[:, 0, 1], 1]
    sign = regressor[unknown[:, 0, 1], 1]
    assert column.contains(sign).all()
    assert not column.contains(-sign).any()  # the effort told the sign
    shrunk = backward.effort.upper - backward.effort.lower < 0.8 - 1e-3
    assert shrunk.any() or preconditioned  # whose box is too wide for that
    assert (backward.box.lower >= forward.box.lower).all()
    assert (backward.box.upper <= forward.box.upper).all()
    assert (
        backward.box.upper - backward.box.lower < 0.99 * (forward.box.upper - forward.box.lower)
    ).any()
    assert backward.box.contains(truth).all()


def test_backward_steps_lose_no_consistent_triple_of_regressor_effort_and_parameters():
    bounded, truth = uncertain_problem(samples=30, parameters=2, width=0.8)
    result = contract(bounded, preconditioned=True, backward=True)
    lower, upper = bounded.equations.regressor.lower, bounded.equations.regressor.upper
    rng = np.random.default_rng(0)
    member = lower + rng.random((5000, *lower.shape)) * (upper - lower)
    effort = member @ truth
    fits = np.abs(effort - bounded.equations.effort) <= bounded.equations.bound
    assert fits.any(axis=0).all()
    assert (result.regressor.contains(member).all(axis=-1) | ~fits).all()
    assert (result.effort.contains(effort) | ~fits).all()
