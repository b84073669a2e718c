"""Choosing the model: essential parameters, structures, weak directions, tie tests."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from gough.core.errors import InvalidInput
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.least_squares import LeastSquares, WeightedLeastSquares
from gough.fitting.problem import tie_parameters
from gough.fitting.regression import Regression
from gough.fitting.selection import (
    Symmetry,
    compare_structures,
    essential_parameters,
    held_out_error,
    tie_test,
    tied_name,
    weak_directions,
)
from trials import repeated

NAMES = (
    "platform.m",
    "leg1.fv",
    "leg2.fv",
    "leg3.fv",
    "leg1.fs",
    "leg2.fs",
    "leg3.fs",
    "platform.mx",
)
TRUTH = np.array([5.0, 2.0, 2.0, 2.0, 1.0, 1.5, 2.0, 0.0])


def make_problem(seed=0, t=300, noise=0.3, truth=TRUTH, **changes):
    rng = np.random.default_rng(seed)
    speed, pull = rng.normal(size=(2, t, 3))
    regressor = np.zeros((t, 3, 8))
    regressor[:, :, 0], regressor[:, :, 7] = pull, rng.normal(size=(t, 3))
    regressor[:, range(3), range(1, 4)] = speed
    regressor[:, range(3), range(4, 7)] = np.sign(speed)
    content = {
        "regressor": regressor,
        "effort": regressor @ truth + noise * rng.normal(size=(t, 3)),
        "rows": ("x", "y", "z"),
        "row_units": ("N",) * 3,
        "parameters": NAMES,
        "units": ("kg", *("Ns/m",) * 3, *("N",) * 3, "kgm"),
    }
    return Regression(**(content | changes))


def test_elimination_removes_what_the_data_do_not_carry():
    history = essential_parameters(
        make_problem(), WeightedLeastSquares(), ratio=30, held_out=make_problem(1)
    )
    assert history.removed == ("platform.mx",)
    assert history.reached
    assert history.steps[0].ratio > 30 > history.steps[1].ratio
    assert history.estimate.parameters == NAMES[:-1]
    assert history.stop == 1


def test_every_step_is_a_fresh_estimate_with_its_held_out_error():
    problem, other = make_problem(), make_problem(1)
    history = essential_parameters(problem, LeastSquares(), ratio=1.001, held_out=other)
    assert len(history.steps) == 8
    assert len(history.estimate) == 1
    for step in history.steps:
        fresh = LeastSquares().fit(problem.select(step.estimate.parameters))
        np.testing.assert_array_equal(step.estimate.values, fresh.values)
        left = other.effort - fresh.predict(other)
        expected = np.sqrt((left**2).mean(axis=0) / (other.effort**2).mean(axis=0))
        np.testing.assert_allclose(step.held_out, expected, rtol=1e-10)
        worst = dict(
            zip(step.estimate.parameters, step.estimate.noise_std / np.abs(step.estimate.values))
        )
        following = history.steps[history.steps.index(step) + 1 :]
        if following:
            assert following[0].removed == max(worst, key=worst.get)
    errors = [step.held_out_error for step in history.steps]
    assert history.stop == 1
    assert errors[-1] > 2 * min(errors)  # eliminating friction is seen by data not used


def test_elimination_gives_the_same_on_condensed_data():
    problem, other = make_problem(), make_problem(1)
    estimator = WeightedLeastSquares(uncertainty="white")
    a = essential_parameters(problem, estimator, ratio=1.5, held_out=other)
    b = essential_parameters(
        problem.statistics(), estimator, ratio=1.5, held_out=other.statistics()
    )
    assert a.removed == b.removed
    np.testing.assert_allclose(
        [s.held_out_error for s in b.steps], [s.held_out_error for s in a.steps], rtol=1e-9
    )


def test_elimination_never_removes_gains():
    from test_drive_gains import make_problem as make_gains

    problem = make_gains(scale=3.0)
    history = essential_parameters(
        problem, MaximumLikelihoodGains(), ratio=1.01, held_out=make_gains(5, scale=3.0)
    )
    assert set(problem.gains) <= set(history.estimate.parameters)
    assert not history.reached
    assert history.steps[0].held_out_error < 0.5
    np.testing.assert_allclose(
        history.steps[0].held_out, history.steps[0].estimate.residual_relative, rtol=0.3
    )
    fixed = problem.fix({"leg1.slider.gain": 2170.0})
    estimate = MaximumLikelihoodGains().fit(fixed)
    with pytest.raises(InvalidInput, match=r"fix it in the held-out problem"):
        held_out_error(estimate, problem)
    assert held_out_error(estimate, fixed).max() < 0.5


def test_ratio_must_make_sense():
    with pytest.raises(InvalidInput, match="10 to 30"):
        essential_parameters(make_problem(), LeastSquares(), ratio=1.0)


STRUCTURES = {
    "none": ["platform.m"],
    "Coulomb": ["platform.m", "leg1.fs", "leg2.fs", "leg3.fs"],
    "both": ["platform.m", *NAMES[1:7]],
    "both, viscous tied": [
        "platform.m",
        ("leg1.fv", "leg2.fv", "leg3.fv"),
        "leg1.fs",
        "leg2.fs",
        "leg3.fs",
    ],
}


def test_structures_are_compared_by_correlation_and_held_out_error():
    problem, other = make_problem(), make_problem(1)
    table = compare_structures(
        problem, STRUCTURES, WeightedLeastSquares(uncertainty="white"), held_out=other
    )
    errors = {r.name: np.sqrt(np.mean(r.held_out**2)) for r in table.values()}
    assert errors["none"] > errors["Coulomb"] > errors["both"]
    np.testing.assert_allclose(errors["both, viscous tied"], errors["both"], rtol=0.02)
    both = table["both"].estimate
    correlation = both.covariance / np.outer(both.std, both.std)
    np.testing.assert_allclose(both.correlation_condition, np.linalg.cond(correlation), rtol=1e-9)
    assert table["none"].estimate.correlation_condition == pytest.approx(1.0)
    assert both.correlation_condition > 2 * table["Coulomb"].estimate.correlation_condition
    assert "leg*.fv" in table["both, viscous tied"].estimate.parameters


def test_a_structure_the_data_cannot_determine_is_listed_with_its_reason():
    regressor = make_problem().regressor.copy()
    regressor[:, :, 4] = 3 * regressor[:, :, 1]
    problem = make_problem(regressor=regressor)
    table = compare_structures(problem, STRUCTURES, LeastSquares())
    assert table["both"].estimate is None
    assert "leg1.fs" in table["both"].reason
    assert table["Coulomb"].estimate is not None
    assert any("cannot be determined" in result.reason for result in table.values())


def test_two_tied_groups_of_one_kind_stay_apart():
    table = compare_structures(
        make_problem(),
        {
            "pairs": [("leg1.fs", "leg2.fs"), ("leg1.fv", "leg2.fv"), "leg3.fs"],
            "odd": [("leg1.fs", "leg2.fs"), ("leg3.fs", "leg1.fv")[:1]],
        },
        LeastSquares(),
    )
    assert len(table["pairs"].estimate) == 3
    assert tied_name(("leg1.rod.fv", "leg2.rod.fv")) == "leg*.rod.fv"
    assert tied_name(("a.fv",)) == "a.fv"
    assert tied_name(("leg1.fv", "leg11.fv")) == "leg1*.fv"
    assert tied_name(("x", "y")) == "*"
    assert tied_name(("left.fv", "right.fv")) == "*.fv"


def test_tying_adds_columns():
    problem = make_problem(replicates=np.stack([make_problem(s).effort for s in range(3)]))
    tied = tie_parameters(problem, {"leg*.fs": NAMES[4:7]})
    np.testing.assert_allclose(tied.regressor[:, :, 4], problem.regressor[:, :, 4:7].sum(axis=2))
    np.testing.assert_array_equal(tied.effort, problem.effort)
    np.testing.assert_array_equal(tied.replicates, problem.replicates)
    assert tied.parameters == (*NAMES[:4], "leg*.fs", "platform.mx")
    condensed = tie_parameters(problem.statistics(), {"leg*.fs": NAMES[4:7]})
    np.testing.assert_allclose(
        LeastSquares().fit(condensed).values, LeastSquares().fit(tied).values, rtol=1e-10
    )
    for bad, message in (
        ({"q": ("leg1.fv", "leg1.fs")}, "different units"),
        ({"q": ("nothing",)}, "no parameter"),
        ({"q": ("leg1.fv", "leg2.fv"), "r": ("leg2.fv", "leg3.fv")}, "twice"),
    ):
        with pytest.raises(InvalidInput, match=message):
            tie_parameters(problem, bad)


def test_weak_directions_name_what_hides():
    problem = make_problem()
    regressor = problem.regressor.copy()
    regressor[:, :, 7] = 0.7 * regressor[:, :, 0] + 1e-4 * regressor[:, :, 7]
    found = weak_directions(replace(problem, regressor=regressor))
    assert found[0].direction in (
        "0.71 platform.m - 0.71 platform.mx",
        "0.71 platform.mx - 0.71 platform.m",
    )
    assert found[0].relative < 1e-3 * found[1].relative
    W = regressor / np.sqrt((problem.effort**2).sum(axis=0))[:, None]
    W = W.reshape(-1, 8) / np.linalg.norm(W.reshape(-1, 8), axis=0)
    values = np.linalg.svd(W)[1]
    np.testing.assert_allclose(
        [one.relative for one in found], values[:2:-1] / values[0], rtol=1e-8
    )
    regressor[:, :, 7] = 0.7 * regressor[:, :, 0]
    lost = weak_directions(replace(problem, regressor=regressor).statistics())
    assert lost[0].relative < 1e-12
    assert "platform.mx" in lost[0].direction
    from test_drive_gains import make_problem as make_gains

    assert "gain" in weak_directions(make_gains())[0].direction


def test_tie_test_equals_the_f_test_of_statsmodels():
    problem = make_problem(t=60)
    test = tie_test(LeastSquares(uncertainty="white").fit(problem), [NAMES[1:4], NAMES[4:7]])
    W, y = problem.regressor.reshape(-1, 8), problem.effort.reshape(-1)
    free = sm.OLS(y, W).fit()
    for i, columns in enumerate(([1, 2, 3], [4, 5, 6])):
        tied = sm.OLS(
            y, np.column_stack([np.delete(W, columns, axis=1), W[:, columns].sum(axis=1)])
        ).fit()
        f, p, k = free.compare_f_test(tied)
        np.testing.assert_allclose(
            [test[i].f, test[i].p, test[i].constraints], [f, p, k], rtol=1e-8
        )
    assert [one.name for one in test] == ["leg*.fv", "leg*.fs", "all together"]
    assert test[0].p > 0.05
    assert test[1].p < 1e-6


@repeated(100, 300)
@pytest.mark.parametrize("groups", [None, 30])
def test_tie_test_has_its_level_when_the_members_are_equal(groups, trials):
    truth = np.array([5.0, 2, 2, 2, 1, 1, 1, 0.5])
    label = None if groups is None else np.arange(300) // (300 // groups)
    p_values = []
    for seed in range(trials):
        problem = make_problem(seed, truth=truth, group=label)
        estimator = WeightedLeastSquares(uncertainty="white" if groups is None else "period")
        p_values.append(
            [one.p for one in tie_test(estimator.fit(problem), [NAMES[1:4], NAMES[4:7]])]
        )
    rate = np.mean(np.array(p_values) < 0.05, axis=0)
    assert (np.abs(rate - 0.05) < 3 * np.sqrt(0.05 * 0.95 / trials)).all()
    assert stats.kstest(np.array(p_values)[:, 2], "uniform").pvalue > 1e-3


@repeated(150, 400)
def test_tie_test_has_its_level_with_few_repetitions(trials):
    """Three constraints, twelve degrees of freedom: a plain F would reject two to three times too
    often.
    """
    rng = np.random.default_rng(0)
    regressor, p_values = rng.normal(size=(40, 1, 4)), []
    for _ in range(trials):
        repeats = regressor @ np.ones(4) + rng.normal(size=(13, 40, 1))
        problem = Regression(
            regressor=regressor,
            effort=repeats.mean(axis=0),
            replicates=repeats,
            rows=("x",),
            row_units=("N",),
            parameters=tuple("abcd"),
            units=("1",) * 4,
        )
        p_values.append(tie_test(LeastSquares().fit(problem), ["abcd"])[0].p)
    rate = np.mean(np.array(p_values) < 0.05)
    assert abs(rate - 0.05) < 3 * np.sqrt(0.05 * 0.95 / trials)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_tie_test_refuses_what_it_cannot_test():
    with pytest.raises(InvalidInput, match="at least two"):
        tie_test(LeastSquares().fit(make_problem()), [["leg1.fv"]])
    with pytest.raises(InvalidInput, match=r"no parameter 'leg9\.fv'"):
        tie_test(LeastSquares().fit(make_problem()), [["leg1.fv", "leg9.fv"]])


def test_parameters_differ_where_equality_is_improbable() -> None:
    unlikely = Symmetry(name="fv", f=40.0, constraints=2.0, degrees_of_freedom=99.0, p=1e-9)
    assert unlikely.differ
    assert not replace(unlikely, f=1.0, p=0.4).differ
