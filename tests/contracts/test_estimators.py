"""What every estimator with a covariance promises, whatever its method.

Exact without noise; order irrelevant; units irrelevant; rank loss raises; covariance positive; 95 %
intervals cover; input untouched; deterministic; condensed data give the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gough.core.errors import InvalidInput, NotIdentifiable
from gough.fitting.estimate import Estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.gain_problem import GainProblem
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression, block_statistics
from gough.fitting.robust import Robust
from gough.fitting.total_least_squares import TotalLeastSquares
from gough.identification.validation import validate
from trials import assert_covers, repeated

TRUTH = np.array([2.0, -0.5, 30.0])
SIGMA = np.array([[0.09, 0.12], [0.12, 0.64]])
GAIN_TRUTH = np.array([3.0, 0.8, 1.2, 40.0, 55.0])  # inertia, two frictions, two gains


def linear(
    seed: int, noise: float, t: int = 120, covariance: np.ndarray = SIGMA, **changes: Any
) -> Regression:
    """Two rows, three parameters of different size; noise with the given covariance between
    rows.
    """
    regressor = np.random.default_rng([11, 7]).normal(size=(t, 2, 3)) * np.array([1.0, 20.0, 0.3])
    error = np.random.default_rng(seed).normal(size=(t, 2)) @ np.linalg.cholesky(covariance).T
    content = {
        "regressor": regressor,
        "effort": regressor @ TRUTH + noise * error,
        "rows": ("x", "y"),
        "row_units": ("N", "N"),
        "parameters": ("a", "b", "c"),
        "units": ("1",) * 3,
    }
    return Regression(**(content | changes))


def even(seed: int, noise: float) -> Regression:
    return linear(seed, noise, covariance=np.diag([0.25, 0.25]))


def rows_apart(seed: int, noise: float) -> Regression:
    return linear(seed, noise, covariance=np.diag([0.09, 4.0]))


def heavy(seed: int, noise: float) -> Regression:
    """5 % of the samples are gross errors."""
    problem = rows_apart(seed, noise)
    rng = np.random.default_rng(seed + 10_000)
    bad = (rng.random(problem.effort.shape) < 0.05) * (noise > 0)
    return replace(
        problem, effort=problem.effort + bad * 30 * rng.normal(size=problem.effort.shape)
    )


def currents(seed: int, noise: float, t: int = 240) -> GainProblem:
    """Two motors; an inertia both move, friction of their own, and in the second half a payload of
    2 kg.
    """
    rng = np.random.default_rng([11, 7])  # a stream the noise never uses
    pull, speed = rng.normal(size=(2, t, 2))
    load = 2.0 * (np.arange(t) >= t // 2)[:, None] * pull
    gains = GAIN_TRUTH[3:]
    current = (3.0 * pull + GAIN_TRUTH[1:3] * speed + load) / gains
    current = (
        current
        + noise * np.random.default_rng(seed).normal(size=(t, 2)) * np.array([0.3, 0.5]) / gains
    )
    regressor = np.zeros((t, 2, 5))
    regressor[:, :, 0] = -pull
    regressor[:, range(2), range(1, 3)] = -speed
    regressor[:, range(2), range(3, 5)] = current
    return GainProblem(
        motors=("m1", "m2"),
        problem=Regression(
            regressor=regressor,
            effort=load,
            rows=("m1", "m2"),
            row_units=("N", "N"),
            units=("1",) * 5,
            parameters=("m", "m1.fv", "m2.fv", "m1.gain", "m2.gain"),
            group=np.arange(t) // (t // 12),
        ),
    )


@dataclass(frozen=True)
class Case:
    estimator: Any
    make: Callable[[int, float], Any]
    truth: np.ndarray
    row_units: bool = True  # invariant to the unit of a single row
    samples: bool = False  # needs the samples


CASES = {
    "least squares": Case(LeastSquares(), even, TRUTH, row_units=False),
    "least squares, white": Case(LeastSquares(uncertainty="white"), even, TRUTH, row_units=False),
    "weighted": Case(WeightedLeastSquares(), rows_apart, TRUTH),
    "weighted, white": Case(WeightedLeastSquares(uncertainty="white"), rows_apart, TRUTH),
    "Gauss-Markov, estimated": Case(GaussMarkov(), linear, TRUTH),
    "Gauss-Markov, known": Case(
        GaussMarkov(covariance=SIGMA, uncertainty="white"), linear, TRUTH, row_units=False
    ),
    "Huber": Case(Robust(), heavy, TRUTH, samples=True),
    "Tukey": Case(Robust(loss="tukey", uncertainty="white"), heavy, TRUTH, samples=True),
    "total least squares of gains": Case(TotalLeastSquares(), currents, GAIN_TRUTH),
    "likelihood of currents": Case(MaximumLikelihoodGains(), currents, GAIN_TRUTH),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def inside(problem: Any) -> Regression:
    return problem.problem if isinstance(problem, GainProblem) else problem


def change(problem: Any, edit: Callable[[Regression], Regression]) -> Any:
    return (
        replace(problem, problem=edit(problem.problem))
        if isinstance(problem, GainProblem)
        else edit(problem)
    )


@cases
def test_exact_without_noise(case: Case) -> None:
    estimate = case.estimator.fit(case.make(0, 0.0))
    np.testing.assert_allclose(estimate.values, case.truth, rtol=1e-9)
    if not np.isinf(estimate.degrees_of_freedom).all():  # else the noise is what it was said to be
        assert (estimate.std < 1e-4 * np.abs(case.truth)).all()


@cases
def test_order_of_samples_is_irrelevant(case: Case) -> None:
    problem = case.make(0, 1.0)
    shuffle = np.random.default_rng(1).permutation(len(inside(problem)))
    a, b = (
        case.estimator.fit(problem),
        case.estimator.fit(change(problem, lambda p: p.take(shuffle))),
    )
    np.testing.assert_allclose(b.values, a.values, rtol=1e-5)
    np.testing.assert_allclose(b.white_std, a.white_std, rtol=1e-5)


@cases
def test_order_of_rows_is_irrelevant(case: Case) -> None:
    if isinstance(case.estimator, GaussMarkov) and case.estimator.covariance is not None:
        estimator = replace(case.estimator, covariance=SIGMA[::-1, ::-1])
    else:
        estimator = case.estimator

    def flip(p: Regression) -> Regression:
        return replace(
            p, regressor=p.regressor[:, ::-1], effort=p.effort[:, ::-1], rows=p.rows[::-1]
        )

    problem = case.make(0, 1.0)
    flipped = change(problem, flip)
    if isinstance(problem, GainProblem):
        flipped = replace(flipped, motors=problem.motors[::-1])
    a, b = case.estimator.fit(problem), estimator.fit(flipped)
    np.testing.assert_allclose(b.values, a.values, rtol=1e-5)
    np.testing.assert_allclose(b.std, a.std, rtol=1e-4)
    np.testing.assert_allclose(b.residual_rms[::-1], a.residual_rms, rtol=1e-4)


@cases
def test_rescaling_the_unit_of_a_parameter_rescales_the_answer(case: Case) -> None:
    problem = case.make(0, 1.0)
    factor = np.ones(len(case.truth))
    factor[[0, -1]] = 1000.0, 0.02
    scaled = change(problem, lambda p: replace(p, regressor=p.regressor * factor))
    a, b = case.estimator.fit(problem), case.estimator.fit(scaled)
    np.testing.assert_allclose(b.values, a.values / factor, rtol=1e-5)
    np.testing.assert_allclose(b.std, a.std / factor, rtol=1e-4)
    np.testing.assert_allclose(b.correlation, a.correlation, atol=1e-3)


@cases
def test_rescaling_the_effort_rescales_the_answer(case: Case) -> None:
    problem = case.make(0, 1.0)
    estimator = case.estimator
    if isinstance(estimator, GaussMarkov) and estimator.covariance is not None:
        estimator = replace(estimator, covariance=SIGMA * 1e6)
    scaled = change(problem, lambda p: replace(p, effort=p.effort * 1000))
    a, b = case.estimator.fit(problem), estimator.fit(scaled)
    np.testing.assert_allclose(b.values, a.values * 1000, rtol=1e-5)
    np.testing.assert_allclose(b.std, a.std * 1000, rtol=1e-4)


@cases
def test_rescaling_the_unit_of_a_row_changes_nothing(case: Case) -> None:
    if not case.row_units:
        pytest.skip("takes the rows as they are, by definition")
    problem, factor = case.make(0, 1.0), np.array([1.0, 1e-3])
    scaled = change(
        problem,
        lambda p: replace(p, regressor=p.regressor * factor[:, None], effort=p.effort * factor),
    )
    a, b = case.estimator.fit(problem), case.estimator.fit(scaled)
    np.testing.assert_allclose(b.values, a.values, rtol=1e-5)
    np.testing.assert_allclose(b.std, a.std, rtol=1e-4)


@cases
def test_rank_deficiency_raises_and_names_the_parameter(case: Case) -> None:
    problem = case.make(0, 1.0)

    def depend(p: Regression) -> Regression:
        regressor = p.regressor.copy()
        regressor[:, :, 1] = 2 * regressor[:, :, 0]
        return replace(p, regressor=regressor)

    with pytest.raises(NotIdentifiable, match=inside(problem).parameters[1].replace(".", r"\.")):
        case.estimator.fit(change(problem, depend))


@cases
def test_too_few_samples_raise(case: Case) -> None:
    with pytest.raises(NotIdentifiable):
        case.estimator.fit(change(case.make(0, 1.0), lambda p: p.take(slice(0, 1))))


def test_values_that_are_not_numbers_never_reach_an_estimator() -> None:
    effort = linear(0, 1.0).effort.copy()
    effort[3, 1] = np.nan
    with pytest.raises(InvalidInput, match="not finite"):
        linear(0, 1.0, effort=effort)


@cases
def test_covariance_is_symmetric_and_positive(case: Case) -> None:
    estimate = case.estimator.fit(case.make(0, 1.0))
    np.testing.assert_allclose(estimate.covariance, estimate.covariance.T, rtol=1e-9, atol=1e-300)
    assert np.linalg.eigvalsh(estimate.correlation).min() > 0
    assert (estimate.white_std > 0).all()


@repeated(60, 300)
@cases
def test_intervals_cover(case: Case, trials: int) -> None:
    hits = []
    for seed in range(trials):
        low, high = case.estimator.fit(case.make(seed, 1.0)).interval(0.95).T
        hits.append((low <= case.truth) & (case.truth <= high))
    assert_covers(hits)


def masked(problem: Any, garbage: float, share: float = 0.2) -> Any:
    """Say of some equations that they do not count, and put garbage in their place."""
    count = np.random.default_rng([5, 3]).random(inside(problem).effort.shape) >= share

    def spoil(p: Regression) -> Regression:
        return replace(
            p,
            mask=count,
            effort=np.where(count, p.effort, garbage),
            regressor=np.where(count[:, :, None], p.regressor, -3 * garbage),
        )

    return change(problem, spoil)


@cases
def test_equations_that_do_not_count_have_no_influence(case: Case) -> None:
    problem = case.make(0, 1.0)
    a, b = (case.estimator.fit(masked(problem, garbage)) for garbage in (0.0, 1e6))
    for name in (
        "values",
        "covariance",
        "degrees_of_freedom",
        "residual_rms",
        "residual_mean",
        "residual_relative",
        "noise_covariance",
        "n_valid",
    ):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.notices == b.notices
    assert (a.n_valid < a.samples).all()
    whole = case.estimator.fit(problem)
    assert np.abs(a.values / whole.values - 1).max() > 1e-9  # the mask is honoured at all
    exact = case.estimator.fit(masked(case.make(0, 0.0), 1e6))
    np.testing.assert_allclose(exact.values, case.truth, rtol=1e-9)


@cases
def test_a_mask_of_whole_samples_is_the_same_as_leaving_them_out(case: Case) -> None:
    problem = case.make(0, 1.0)
    keep = np.random.default_rng(2).random(len(inside(problem))) > 0.2
    short = case.estimator.fit(change(problem, lambda p: p.take(np.flatnonzero(keep))))
    mask = np.repeat(keep[:, None], len(inside(problem).rows), axis=1)
    same = case.estimator.fit(change(problem, lambda p: replace(p, mask=mask)))
    np.testing.assert_allclose(same.values, short.values, rtol=1e-9)
    np.testing.assert_allclose(same.white_std, short.white_std, rtol=1e-9)
    np.testing.assert_allclose(same.residual_rms, short.residual_rms, rtol=1e-9)
    np.testing.assert_allclose(same.noise_covariance, short.noise_covariance, rtol=1e-7)


@repeated(40, 200)
@cases
def test_intervals_cover_with_masks(case: Case, trials: int) -> None:
    hits = []
    for seed in range(trials):
        low, high = case.estimator.fit(masked(case.make(seed, 1.0), 1e3)).interval(0.95).T
        hits.append((low <= case.truth) & (case.truth <= high))
    assert_covers(hits, high=0.98)


@cases
def test_a_row_that_never_counts_is_named_and_changes_nothing(case: Case) -> None:
    """Three rows, the last one a motor that stood all the time, against two rows."""
    if isinstance(case.make(0, 0.0), GainProblem):
        pytest.skip("a motor that never counts leaves its gain open")
    estimator = case.estimator
    if isinstance(estimator, GaussMarkov) and estimator.covariance is not None:
        wide = np.eye(3)
        wide[:2, :2] = SIGMA
        estimator = replace(estimator, covariance=wide)
    problem = case.make(0, 1.0)
    t = len(problem)
    padded = replace(
        problem,
        rows=(*problem.rows, "z"),
        row_units=("N",) * 3,
        regressor=np.concatenate([problem.regressor, np.zeros((t, 1, 3))], axis=1),
        effort=np.concatenate([problem.effort, np.zeros((t, 1))], axis=1),
    )
    mask = np.ones((t, 3), bool)
    mask[:, 2] = False
    a = case.estimator.fit(problem)
    for other in (padded, replace(padded, mask=mask, effort=np.where(mask, padded.effort, 7.0))):
        b = estimator.fit(other)
        np.testing.assert_allclose(b.values, a.values, rtol=1e-9)
        np.testing.assert_allclose(b.std, a.std, rtol=1e-6)
        np.testing.assert_allclose(b.degrees_of_freedom, a.degrees_of_freedom, rtol=1e-6)
        assert any("z: no equation is valid" in str(notice) for notice in b.notices)
    assert not any("no equation is valid" in str(notice) for notice in a.notices)


@cases
def test_input_is_untouched_and_the_answer_deterministic(case: Case) -> None:
    problem = case.make(0, 1.0)
    before = inside(problem).regressor.copy(), inside(problem).effort.copy()
    a, b = case.estimator.fit(problem), case.estimator.fit(problem)
    np.testing.assert_array_equal(inside(problem).regressor, before[0])
    np.testing.assert_array_equal(inside(problem).effort, before[1])
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.covariance, b.covariance)


@cases
def test_condensed_data_give_the_same(case: Case) -> None:
    if case.samples:
        pytest.skip("weights differ from sample to sample")
    problem = case.make(0, 1.0)
    short = change(problem, lambda p: block_statistics(p.blocks(50), joint=True))
    a, b = case.estimator.fit(problem), case.estimator.fit(short)
    np.testing.assert_allclose(b.values, a.values, rtol=1e-6)
    np.testing.assert_allclose(b.white_std, a.white_std, rtol=1e-6)


@cases
def test_result_is_complete_and_survives_storage(case: Case, tmp_path: Any) -> None:
    problem = case.make(0, 1.0)
    estimate = case.estimator.fit(problem)
    estimate.save(tmp_path / "estimate.json")
    back = Estimate.load(tmp_path / "estimate.json")
    np.testing.assert_array_equal(back.covariance, estimate.covariance)
    assert back.summary() == estimate.summary()
    assert estimate.parameters == inside(problem).parameters
    assert estimate.samples == len(inside(problem))
    assert estimate.condition_number >= 1
    assert estimate.method
    assert estimate.uncertainty in estimate.summary()
    assert 0 < estimate.residual_relative.max() < 1


def test_settings_and_problems_that_make_no_sense_give_no_numbers() -> None:
    problem = linear(0, 1.0)
    for estimator in (LeastSquares(), WeightedLeastSquares(), GaussMarkov(), Robust()):
        with pytest.raises(InvalidInput, match="no parameter to estimate"):
            estimator.fit(problem.select([]))
        with pytest.raises(InvalidInput, match="empty"):
            estimator.fit(problem.take(slice(0, 0)))
    with pytest.raises(InvalidInput, match="iterations 0"):
        Robust(iterations=0).fit(problem)
    with pytest.raises(InvalidInput, match="no valid samples"):
        validate(LeastSquares().fit(problem), [problem.take(slice(0, 0))])


@pytest.mark.parametrize(
    "estimator",
    [LeastSquares(), WeightedLeastSquares(), GaussMarkov(), Robust()],
    ids=lambda e: type(e).__name__,
)
def test_efforts_of_zero_give_parameters_of_zero(estimator: Any) -> None:
    problem = linear(0, 1.0)
    for mode in ("auto", "white"):
        found = replace(estimator, uncertainty=mode).fit(
            replace(problem, effort=np.zeros_like(problem.effort))
        )
        np.testing.assert_array_equal(found.values, 0.0)
        assert "inf %" in found.summary()
