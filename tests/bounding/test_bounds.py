"""Boxes around the feasible set, against exact rationals, grids, vertex enumeration, samples and
literal algorithms.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog

from bounded import (
    augmented,
    bounded_problem,
    exact_hull,
    feasible_points,
    literal,
    problem,
    regression,
    uncertain_problem,
    with_unknown_signs,
)
from gough.bounding.messages import format_rounded_up
from gough.bounding.solve import ExactBox, GaussSeidel
from gough.core.errors import InconsistentData, InvalidInput, NotIdentifiable
from gough.fitting.regression import Regression

METHODS = [ExactBox(), GaussSeidel()]


@pytest.mark.parametrize("seed", range(25))
def test_no_rounding_puts_a_bound_inside_the_hull_computed_in_rationals(seed):
    bounded, _ = problem(samples=8, parameters=2, seed=seed, prior=(0.1, 1.9))
    hull = exact_hull(bounded)
    for method in METHODS:
        box = method.fit(bounded)
        for j, (low, high) in enumerate(hull):
            assert Fraction(box.lower[j]) <= low, method
            assert Fraction(box.upper[j]) >= high, method
    exact = ExactBox().fit(bounded)
    assert all(
        low - Fraction(exact.lower[j]) < Fraction(1, 10**13) for j, (low, _) in enumerate(hull)
    )
    assert all(
        Fraction(exact.upper[j]) - high < Fraction(1, 10**13) for j, (_, high) in enumerate(hull)
    )


@pytest.mark.parametrize("method", METHODS)
def test_none_of_100_000_random_feasible_points_is_outside(method):
    bounded, truth = problem(samples=30, parameters=4, bound=0.4)
    box = method.fit(bounded)
    points = feasible_points(bounded, truth, 100_000)
    assert len(points) >= 100_000
    assert ((points >= box.lower) & (points <= box.upper)).all()


def test_the_exact_box_is_as_tight_as_a_grid_can_tell():
    bounded, _ = problem(samples=10, parameters=2, seed=5)
    axis = np.linspace(0, 2, 1001)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    eq = bounded.equations
    inside = grid[(np.abs(eq.effort - grid @ eq.regressor.lower.T) <= eq.bound).all(axis=1)]
    box = ExactBox().fit(bounded)
    assert len(inside) > 1000
    assert (inside >= box.lower).all()
    assert (inside <= box.upper).all()
    np.testing.assert_allclose(inside.min(axis=0), box.lower, atol=0.02)
    np.testing.assert_allclose(inside.max(axis=0), box.upper, atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_box_equals_the_linear_programmes_with_all_rows_at_once(seed):
    rng = np.random.default_rng(seed)
    reg, _ = regression(samples=300, parameters=5, rows=2, seed=seed)
    scale = 10.0 ** rng.uniform(-4, 4, 5)
    reg = replace(reg, regressor=reg.regressor * scale)
    bounded = bounded_problem(reg, error_bound=[0.5, 0.7], prior=(0.0, 2.0 / scale))
    box = ExactBox().fit(bounded)
    W, y, e = (reg.regressor / scale).reshape(-1, 5), reg.effort.ravel(), np.tile([0.5, 0.7], 300)
    for j in range(5):
        for sign, ours in ((1, box.lower[j]), (-1, box.upper[j])):
            cost = sign * np.eye(5)[j]
            best = linprog(
                cost, A_ub=np.vstack([W, -W]), b_ub=np.concatenate([y + e, e - y]), bounds=(0, 2)
            )
            assert best.status == 0
            assert sign * best.fun == pytest.approx(ours * scale[j], abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_box_is_inside_every_gauss_seidel_box(seed):
    bounded, _ = problem(samples=60, parameters=4, seed=seed)
    exact = ExactBox().fit(bounded)
    for method in METHODS[1:]:
        box = method.fit(bounded)
        assert (box.lower <= exact.lower).all()
        assert (box.upper >= exact.upper).all()


def test_preconditioned_gauss_seidel_is_the_pseudo_inverse_box_cut_with_the_prior():
    bounded, _ = problem(samples=60, parameters=4, bound=0.3)
    eq = bounded.equations
    X = np.linalg.pinv(eq.regressor.lower)
    center, reach = X @ eq.effort, np.abs(X) @ eq.bound
    box = GaussSeidel().fit(bounded)
    np.testing.assert_allclose(box.lower, np.maximum(center - reach, 0), atol=1e-12)
    np.testing.assert_allclose(box.upper, np.minimum(center + reach, 2), atol=1e-12)
    assert (box.lower > 0).any()  # the prior is not all that speaks
    free = GaussSeidel().fit(
        replace(bounded, prior_lower=np.full(4, -np.inf), prior_upper=np.full(4, np.inf))
    )
    np.testing.assert_allclose(free.lower, center - reach, atol=1e-12)
    # it encloses least squares solutions of all efforts in the bounds and so is much wider than the
    # feasible set
    exact = ExactBox().fit(bounded)
    assert (box.width > 1.5 * exact.width).all()


def test_the_preconditioned_contractor_equals_the_literal_one_on_the_whole_augmented_system():
    bounded, _ = problem(samples=25, parameters=3, bound=0.3)
    eq = bounded.equations
    n, p = eq.regressor.lower.shape
    A = augmented(eq.regressor.lower)
    inverse = np.linalg.inv(A)
    center = inverse @ np.concatenate([eq.effort, np.zeros(p)])
    reach = np.abs(inverse) @ np.concatenate([eq.bound, np.zeros(p)])
    prior = (
        np.concatenate([np.zeros(p), np.full(n, -99.0)]),
        np.concatenate([np.full(p, 2.0), np.full(n, 99.0)]),
    )
    low, high = literal(inverse @ A, inverse @ A, center - reach, center + reach, *prior, sweeps=3)
    box = GaussSeidel().fit(bounded)
    np.testing.assert_allclose(box.lower, low[:p], atol=1e-9)
    np.testing.assert_allclose(box.upper, high[:p], atol=1e-9)


@pytest.mark.parametrize(
    ("prior", "signs", "samples"),
    [
        ((0.0, 2.0), [1, 1], 12),
        ((-2.0, 2.0), [1, 1], 12),
        (([-2.0, 0.0], [0.0, 2.0]), [-1, 1], 12),
        ((-2.0, 2.0), [-1, -1], 12),
        ((-2.0, 2.0), [1, -1], 5),
    ],
    ids=["signs fixed", "signs open", "one negative", "open and negative", "box through zero"],
)
def test_with_an_uncertain_regressor_the_exact_box_is_as_tight_as_a_grid_over_all_corners_can_tell(
    prior, signs, samples
):
    bounded, _ = uncertain_problem(
        samples=samples, parameters=2, prior=prior, signs=np.array(signs)
    )
    eq = bounded.equations
    axis = np.linspace(-2, 2, 1601)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    grid = grid[((grid >= bounded.prior_lower) & (grid <= bounded.prior_upper)).all(axis=1)]
    distance = np.abs(
        grid @ (0.5 * eq.regressor.lower + 0.5 * eq.regressor.upper)[:3].T - eq.effort[:3]
    )
    grid = grid[(distance <= eq.bound[:3] + 1.2).all(axis=1)]  # the others cannot fit; saves time
    corners = np.stack(
        [
            grid @ np.stack([a[:, 0], b[:, 1]], axis=1).T
            for a, b in product((eq.regressor.lower, eq.regressor.upper), repeat=2)
        ]
    )
    fits = (corners.max(axis=0) >= eq.effort - eq.bound) & (
        corners.min(axis=0) <= eq.effort + eq.bound
    )
    inside = grid[fits.all(axis=1)]
    box = ExactBox().fit(bounded)
    assert len(inside) > 1000
    assert (inside >= box.lower).all()
    assert (inside <= box.upper).all()
    np.testing.assert_allclose(inside.min(axis=0), box.lower, atol=0.025)
    np.testing.assert_allclose(inside.max(axis=0), box.upper, atol=0.025)
    if samples == 5:
        assert ((box.lower < -0.1) & (box.upper > 0.1)).any()


@pytest.mark.parametrize("prior", [(0.0, 2.0), (-2.0, 2.0)])
@pytest.mark.parametrize("method", METHODS)
def test_with_an_uncertain_regressor_the_box_contains_the_box_of_every_regressor_inside(
    method, prior
):
    bounded, truth = uncertain_problem(prior=prior)
    box = method.fit(bounded)
    rng = np.random.default_rng(1)
    met = 0
    for _ in range(30):
        weight = rng.choice([0.0, 0.5, 1.0], bounded.regressor_lower.shape)
        member = bounded.regressor_lower + weight * (
            bounded.regressor_upper - bounded.regressor_lower
        )
        member = np.clip(member, bounded.regressor_lower, bounded.regressor_upper)
        effort = np.clip(member @ truth, bounded.effort - 0.5, bounded.effort + 0.5)
        if np.abs(effort - member @ truth).max() == 0:
            met += 1
        try:
            inner = ExactBox().fit(replace(bounded, regressor_lower=member, regressor_upper=member))
        except InconsistentData:
            continue
        assert (box.lower <= inner.lower).all()
        assert (box.upper >= inner.upper).all()
    assert box.contains(truth)


def test_with_too_many_open_signs_the_box_still_holds_and_names_what_makes_it_wide():
    bounded, truth = uncertain_problem(samples=100, parameters=8, width=0.3)
    wide = replace(bounded, prior_lower=np.full(8, -2.0), error_bound=np.full((100, 1), 20.0))
    box = ExactBox().fit(wide)
    assert box.contains(truth)
    assert any("the signs are open" in str(notice) for notice in box.notices)
    # second opinion: random members of the regressor leave nothing outside
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, (20000, 8))
    low, high = wide.equations.regressor.lower, wide.equations.regressor.upper
    most = np.maximum(points[:, None] * low, points[:, None] * high).sum(axis=-1)
    least = np.minimum(points[:, None] * low, points[:, None] * high).sum(axis=-1)
    fits = ((most >= wide.equations.effort - 20) & (least <= wide.equations.effort + 20)).all(
        axis=1
    )
    assert fits.sum() > 1000
    assert ((points[fits] >= box.lower) & (points[fits] <= box.upper)).all()


def test_a_wrong_coulomb_sign_breaks_the_bound_and_an_uncertain_one_does_not():
    rng = np.random.default_rng(0)
    velocity = np.sin(np.linspace(0, 20, 400))
    truth = np.array([0.5, 1.2])
    seen = velocity + 0.02 * rng.standard_normal(400)
    effort = np.column_stack([velocity, np.sign(velocity)]) @ truth + rng.uniform(-0.3, 0.3, 400)
    reg = Regression(
        regressor=np.column_stack([seen, np.sign(seen)])[:, None],
        effort=effort[:, None],
        rows=("motor",),
        row_units=("N m",),
        parameters=("fv", "fs"),
        units=("N m s/rad", "N m"),
    )
    with pytest.raises(InconsistentData):
        ExactBox().fit(bounded_problem(reg, error_bound=0.4, prior=(0.0, 2.0)))
    slow = np.zeros((400, 1, 2), bool)
    slow[:, 0, 1] = np.abs(seen) < 0.1
    bounded = with_unknown_signs(bounded_problem(reg, error_bound=0.4, prior=(0.0, 2.0)), slow)
    assert ExactBox().fit(bounded).contains(truth)


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_set_names_samples_that_contradict_each_other_and_no_more(method):
    reg, _ = regression(samples=80, rows=2, parameters=3)
    effort = np.array(reg.effort)
    effort[17, 1] += 9.0
    bounded = bounded_problem(replace(reg, effort=effort), error_bound=0.5, prior=(-9.0, 9.0))
    with pytest.raises(InconsistentData, match="contradict each other") as caught:
        method.fit(bounded)
    error = caught.value
    assert error.certified
    assert 1 <= len(error.samples) <= 4  # p + 1
    assert (17, 1) in error.samples
    assert "sample 17 joint1" in str(error)
    # second opinion: these alone contradict each other, any fewer do not, and the stated factor is
    # the limit
    eq = bounded.equations
    index = [int(np.flatnonzero((eq.sample == s) & (eq.row == r))[0]) for s, r in error.samples]

    def fits(rows, factor=1.0):
        W, y, e = eq.regressor.lower[rows], eq.effort[rows], factor * eq.bound[rows]
        return (
            linprog(
                np.zeros(3),
                A_ub=np.vstack([W, -W]),
                b_ub=np.concatenate([y + e, e - y]),
                bounds=list(zip(bounded.prior_lower, bounded.prior_upper)),
            ).status
            == 0
        )

    assert not fits(index)
    assert all(fits([k for k in index if k != left]) for left in index if len(index) > 1)
    assert fits(slice(None), error.factor * (1 + 1e-6))
    assert not fits(slice(None), error.factor * (1 - 1e-6))


@pytest.mark.parametrize("method", METHODS)
def test_a_prior_that_contradicts_the_data_is_an_empty_set_too(method):
    bounded, _ = problem(prior=(3.0, 4.0))
    with pytest.raises(InconsistentData, match="prior"):
        method.fit(bounded)


def test_boxes_grow_with_the_error_bound_and_a_bound_that_fits_nothing_is_refused():
    bounded, truth = problem(samples=200, bound=0.5)
    boxes = [ExactBox().fit(replace(bounded, error_bound=np.array(e))) for e in (0.5, 1.0, 2.0)]
    assert (np.diff([box.width for box in boxes], axis=0) >= 0).all()
    assert all(box.contains(truth) for box in boxes)
    with pytest.raises(InconsistentData):
        ExactBox().fit(replace(bounded, error_bound=np.array(0.05)))


@pytest.mark.parametrize("method", METHODS)
def test_boxes_cover_the_truth_always_even_with_errors_as_large_as_the_bound(method):
    for seed in range(75):
        rng = np.random.default_rng(seed)
        reg, truth = regression(samples=15, parameters=3, seed=seed)
        effort = reg.regressor @ truth + 0.5 * rng.choice([-1.0, 1.0], (15, 1))
        bounded = bounded_problem(
            replace(reg, effort=effort), error_bound=0.5 + 1e-12, prior=(0.0, 2.0)
        )
        assert method.fit(bounded).contains(truth)


@pytest.mark.parametrize("method", METHODS)
def test_order_of_samples_is_irrelevant_units_rescale_input_stays_and_repeats_agree(method):
    reg, _ = regression(samples=50, rows=2, parameters=3)
    bounded = bounded_problem(reg, error_bound=0.5, prior=(0.0, 2.0))
    kept = bounded.effort.copy(), bounded.regressor_lower.copy()
    box = method.fit(bounded)
    again = method.fit(bounded)
    np.testing.assert_array_equal(box.lower, again.lower)
    np.testing.assert_array_equal(kept[0], bounded.effort)
    np.testing.assert_array_equal(kept[1], bounded.regressor_lower)
    order = np.random.default_rng(0).permutation(50)
    mixed = method.fit(bounded_problem(reg.take(order), error_bound=0.5, prior=(0.0, 2.0)))
    np.testing.assert_allclose(mixed.upper, box.upper, atol=1e-10)
    scale = np.array([1e3, 1.0, 1e-3])
    grams = replace(reg, regressor=reg.regressor / scale)
    scaled = method.fit(bounded_problem(grams, error_bound=0.5, prior=(np.zeros(3), 2 * scale)))
    np.testing.assert_allclose(scaled.lower, box.lower * scale, atol=1e-9 * scale.max())
    np.testing.assert_allclose(scaled.upper, box.upper * scale, rtol=1e-8)


def test_an_unexcited_parameter_keeps_its_prior_and_without_one_is_an_error():
    reg, truth = regression(samples=40, parameters=3)
    dark = replace(
        reg,
        regressor=reg.regressor * np.array([1.0, 1.0, 0.0]),
        effort=reg.effort - reg.regressor[:, :, 2] * truth[2],
    )
    box = ExactBox().fit(bounded_problem(dark, error_bound=0.5, prior=(0.0, 2.0)))
    assert (box.lower[2], box.upper[2]) == (0.0, 2.0)
    free = bounded_problem(dark, error_bound=0.5, prior={"p0": (0.0, 2.0)})
    for method in METHODS:
        with pytest.raises(NotIdentifiable, match="p2"):
            method.fit(free)


def test_more_parameters_than_equations_still_give_a_box_inside_the_prior():
    bounded, truth = problem(samples=2, parameters=4)
    for method in METHODS:
        assert method.fit(bounded).contains(truth)


@pytest.mark.parametrize("reach", [1e6, 1e8, 1e10, 1e12])
def test_a_set_that_no_arithmetic_can_prove_empty_is_still_enclosed(reach):
    w = np.array([1 / 3, 0.1, 0.7, 1.1])
    reg = Regression(
        regressor=np.stack([w, 3 * w], axis=1)[:, None],
        effort=np.zeros((4, 1)),
        rows=("a",),
        row_units=("N",),
        parameters=("x", "y"),
        units=("kg", "kg"),
    )
    effort = w[:, None] * np.array([0.0, 0.0, 0.0, 2.0])[:, None] * (1 + 1e-11)
    bounded = bounded_problem(
        replace(reg, effort=effort), error_bound=w[:, None], prior=(-reach, reach)
    )
    box = ExactBox().fit(bounded)  # x + 3 y = 1 fits all to one part in 1e11
    assert box.upper[0] == reach
    assert box.upper[1] == pytest.approx(reach / 3, rel=1e-3)


def test_nearly_empty_sets_are_either_boxed_or_refused_but_never_wrong():
    bounded, _ = problem(samples=40, parameters=3)
    with pytest.raises(InconsistentData) as caught:
        ExactBox().fit(replace(bounded, error_bound=np.array(0.01)))
    limit = 0.01 * caught.value.factor
    for step in (-1e-6, -1e-11, -1e-15, 0.0, 1e-15, 1e-11, 1e-6):
        try:
            box = ExactBox().fit(replace(bounded, error_bound=np.array(limit * (1 + step))))
        except InconsistentData:
            assert step < 1e-12
            continue
        assert step > -1e-12
        assert (box.width < 1e-4).all()


def least_fitting_factor(bounded):
    """Smallest factor on the error bounds that fits, and the parameters that need no more: one
    linear programme.
    """
    eq = bounded.equations
    W, y, e = eq.regressor.lower, eq.effort, eq.bound
    p = W.shape[1]
    size = np.abs(W).max(axis=0)
    sides = np.block([[W / size, -e[:, None]], [-W / size, -e[:, None]]])
    prior = zip(bounded.prior_lower * size, bounded.prior_upper * size)
    best = linprog(
        np.eye(p + 1)[p],
        A_ub=sides,
        b_ub=np.concatenate([y, -y]),
        bounds=[*prior, (0, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert best.status == 0
    return best.x[p], best.x[:p] / size


@pytest.mark.parametrize("method", [ExactBox(), GaussSeidel()])
@pytest.mark.parametrize("bound", [0.5, 0.55, 0.62, 0.8])
def test_a_box_says_how_near_to_empty_its_set_is_and_warns_below_1_2(method, bound):
    bounded, _ = problem(samples=80, bound=0.5)
    bounded = replace(bounded, error_bound=np.array(bound))
    factor, _ = least_fitting_factor(bounded)
    box = method.fit(bounded)
    assert box.certificate["smallest_fitting"] == pytest.approx(factor, rel=1e-6)
    warned = [str(n) for n in box.notices if "nearly empty" in str(n)]
    assert bool(warned) == (1 / factor < 1.2)
    assert not warned or format_rounded_up(factor) in warned[0]


def test_the_advice_on_an_empty_set_offers_no_bound_to_use():
    bounded, truth = problem(samples=80, bound=0.5)
    tight = replace(bounded, error_bound=np.array(0.3))
    with pytest.raises(InconsistentData) as caught:
        ExactBox().fit(tight)
    factor, _ = least_fitting_factor(tight)
    assert caught.value.factor == pytest.approx(factor, rel=1e-6)
    said = str(caught.value)
    assert format_rounded_up(factor) in said
    assert "from the accuracy of sensors and model" in said
    assert "would fit" not in said
    assert "widen" not in said
    # who uses it all the same is warned, and with reason
    box = ExactBox().fit(replace(bounded, error_bound=np.array(0.3 * factor * 1.001)))
    assert "nearly empty" in str(box.notices[0])
    assert not box.contains(truth)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-6, 1e6))
def test_printed_factors_are_rounded_upwards(factor):
    assert factor * (1 - 1e-11) <= float(format_rounded_up(factor)) <= 1.011 * factor


def test_sets_on_the_verge_of_empty_fall_back_to_wider_bounds_where_the_solver_gives_up():
    boxed = 0
    for seed, p in ((40, 8), (44, 14), (48, 3), (52, 8)):
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((40, 1, p)) * 10.0 ** rng.uniform(-3, 3, p)
        W[..., 0] = W[..., 1] * (1 + 1e-6 * rng.standard_normal((40, 1)))
        effort = W @ rng.uniform(0.2, 1.8, p) + rng.uniform(-0.5, 0.5, (40, 1))
        reg = Regression(
            regressor=W,
            effort=effort,
            rows=("a",),
            row_units=("N",),
            parameters=tuple(f"p{i}" for i in range(p)),
            units=("kg",) * p,
        )
        bounded = bounded_problem(reg, error_bound=0.01, prior=(-20.0, 20.0))
        factor, best = least_fitting_factor(bounded)
        for step in (0.0, 1e-15, 1e-14, 1e-13, 1e-11, 1e-9, 1e-8, 1e-6):
            try:
                box = ExactBox().fit(
                    replace(bounded, error_bound=np.array(0.01 * factor * (1 + step)))
                )
            except InconsistentData:
                assert step < 1e-8
                continue
            boxed += 1
            if step > 1e-7:  # beyond the tolerance of either solver
                assert box.contains(best)
    assert boxed > 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error_bound": 0.0}, "error_bound is 0"),
        ({"error_bound": -1.0}, "error_bound is -1"),
        ({"error_bound": np.nan}, "error_bound is nan"),
        ({"error_bound": [0.5, 0.5, 0.5]}, "error_bound has shape"),
        ({"prior": (2.0, 0.0)}, "prior of 'p0' is \\[2.0, 0.0\\]"),
        ({"prior": (np.nan, 1.0)}, "prior of 'p0'"),
    ],
)
def test_bad_bounds_and_priors_are_clear_errors(changes, message):
    reg, _ = regression(rows=2)
    with pytest.raises(InvalidInput, match=message):
        bounded_problem(reg, **{"error_bound": 0.5, "prior": (0.0, 2.0), **changes})


def test_bad_arrays_and_settings_are_clear_errors():
    bounded, _ = problem()
    with pytest.raises(InvalidInput, match="not finite"):
        replace(bounded, effort=np.full(bounded.effort.shape, np.nan))
    with pytest.raises(InvalidInput, match="regressor_lower exceeds"):
        replace(bounded, regressor_lower=bounded.regressor_upper + 1)
    with pytest.raises(InvalidInput, match="at least one"):
        replace(
            bounded,
            effort=np.zeros((0, 1)),
            regressor_lower=np.zeros((0, 1, 4)),
            regressor_upper=np.zeros((0, 1, 4)),
        )
    with pytest.raises(InvalidInput, match="no equation is used"):
        replace(bounded, used=np.zeros(bounded.effort.shape, bool))
    with pytest.raises(InvalidInput, match="outliers is -1"):
        ExactBox(outliers=-1)


def test_error_bounds_may_differ_by_row_and_by_sample():
    reg, _ = regression(samples=3, rows=2)
    by_row = bounded_problem(reg, error_bound=[0.5, 0.7])
    assert by_row.error_bound.tolist() == [[0.5, 0.7]] * 3
    by_sample = bounded_problem(reg, error_bound=[[0.1], [0.2], [0.3]])
    assert by_sample.error_bound[:, 1].tolist() == [0.1, 0.2, 0.3]
