"""Blocks, cross-validation and the rule of acceptance, against explicit fits with numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gough.fitting.acceptance import FAMILY_WISE_ERROR
from gough.fitting.cross_validation import solve_normal_equations
from gough.verdict.acceptance import (
    EQUAL_GAIN,
    MIN_BLOCKS,
    Baseline,
    Gain,
    effective_blocks,
    fold_floor,
    is_material,
    jackknife_error,
    log_folds,
    log_gain,
    neighbour_inflation,
    relative_error,
    size_errors,
    student_t,
    threshold,
    tied,
    with_size_test,
)
from gough.verdict.blocks import (
    ERROR_FLOOR,
    MIN_BLOCK_EQUATIONS,
    BlockSums,
    CrossValidation,
    cross_validate,
    fold_prediction_variance,
    row_weights,
    select_columns,
)

N_BLOCKS = 12
N_SAMPLES = 20  # of a block
N_ROWS = 2
N_PARAMETERS = 3


class Problem:
    """Equations W x + S s + noise with the block of each sample, as arrays and as sums."""

    def __init__(
        self,
        seed: int = 0,
        *,
        size: float = 0.0,
        n_columns: int = 1,
        n_blocks: int = N_BLOCKS,
        n_logs: int = 1,
        noise: tuple[float, float] = (1.0, 0.1),
        inside: tuple[int, ...] | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        n = n_blocks * N_SAMPLES
        self.block = np.repeat(np.arange(n_blocks), N_SAMPLES)
        self.log = np.arange(n_blocks) * n_logs // n_blocks
        self.W = rng.standard_normal((n, N_ROWS, N_PARAMETERS))
        self.S = rng.standard_normal((n, N_ROWS, n_columns))
        if inside is not None:
            self.S[~np.isin(self.log[self.block], inside)] = 0.0
        truth = np.arange(1.0, N_PARAMETERS + 1)
        self.y = self.W @ truth + size * self.S[:, :, 0]
        self.y = self.y + np.array(noise) * rng.standard_normal((n, N_ROWS))

    @property
    def sums(self) -> BlockSums:
        stacked = np.concatenate([self.W, self.S, self.y[:, :, None]], axis=2)
        n_blocks = len(self.log)
        grams = np.zeros((n_blocks, N_ROWS, stacked.shape[2], stacked.shape[2]))
        for block in range(n_blocks):
            for row in range(N_ROWS):
                A = stacked[self.block == block, row]
                grams[block, row] = A.T @ A
        return BlockSums(
            grams=grams,
            n_valid=np.full((n_blocks, N_ROWS), N_SAMPLES),
            log=self.log,
            n_parameters=N_PARAMETERS,
        )

    def columns(self, *, with_fault: bool) -> range:
        return range(N_PARAMETERS + with_fault * self.S.shape[2])

    def left_out_squares(
        self, *, with_fault: bool, weights: np.ndarray, folds: np.ndarray | None = None
    ) -> np.ndarray:
        """Squared errors of each fold, fitted with lstsq to all other folds, (f, r)."""
        X = np.concatenate([self.W, self.S], axis=2) if with_fault else self.W
        fold = self.block if folds is None else folds[self.block]
        squares = np.zeros((fold.max() + 1, N_ROWS))
        root = np.sqrt(weights)
        for left_out in range(len(squares)):
            kept = fold != left_out
            A = (X[kept] * root[:, None]).reshape(-1, X.shape[2])
            b = (self.y[kept] * root).ravel()
            values = np.linalg.lstsq(A, b, rcond=None)[0]
            error = self.y[~kept] - X[~kept] @ values
            squares[left_out] = (error**2).sum(axis=0)
        return squares


def gain_of(problem: Problem, trials: int = 1, scope: np.ndarray | None = None) -> Gain:
    sums = problem.sums
    if scope is None:
        scope = np.ones(len(problem.log), bool)
    baseline = Baseline(sums, problem.columns(with_fault=False))
    return baseline.gain(sums, scope, trials)


# -- cross-validation


def test_normal_equations_give_what_least_squares_gives() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4)) * np.array([1.0, 1e-4, 1e4, 1.0])
    y = rng.standard_normal(40)
    A = np.column_stack([X, y])
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(solve_normal_equations(A.T @ A), expected, rtol=1e-6)


def test_columns_without_power_have_the_coefficient_zero() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 3))
    A[:, 1] = 0.0
    coefficients = solve_normal_equations(A.T @ A)
    expected = np.linalg.lstsq(A[:, [0]], A[:, 2], rcond=None)[0]
    np.testing.assert_allclose(coefficients, [expected[0], 0.0], rtol=1e-6)
    assert solve_normal_equations(np.ones((2, 1, 1))).shape == (2, 0)


def test_equal_columns_share_their_coefficient() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    A = np.column_stack([x, x, 2 * x])
    np.testing.assert_allclose(solve_normal_equations(A.T @ A), [1.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize("with_fault", [False, True])
def test_cross_validation_is_that_of_fits_without_each_block(with_fault: bool) -> None:
    problem = Problem(size=0.3)
    weights = np.array([1.0, 50.0])
    columns = problem.columns(with_fault=with_fault)
    validation = cross_validate(problem.sums, columns, weights=weights)
    expected = problem.left_out_squares(with_fault=with_fault, weights=weights)
    np.testing.assert_allclose(validation.squares, expected, rtol=1e-6)
    assert (validation.n_valid == N_SAMPLES).all()


def test_cross_validation_over_folds_leaves_out_several_blocks() -> None:
    problem = Problem(size=0.3)
    folds = np.arange(N_BLOCKS) // 4
    weights = np.array([1.0, 50.0])
    columns = problem.columns(with_fault=True)
    validation = cross_validate(problem.sums, columns, folds=folds, weights=weights)
    expected = problem.left_out_squares(with_fault=True, weights=weights, folds=folds)
    np.testing.assert_allclose(validation.squares, expected, rtol=1e-6)
    assert (validation.n_valid == 4 * N_SAMPLES).all()


def test_rows_are_weighted_by_their_residual() -> None:
    problem = Problem(noise=(1.0, 0.1))
    weights, values = row_weights(problem.sums, problem.columns(with_fault=False))
    residual = problem.y - problem.W @ values
    np.testing.assert_allclose(weights, 1 / (residual**2).mean(axis=0), rtol=1e-2)
    A = (problem.W * np.sqrt(weights)[:, None]).reshape(-1, N_PARAMETERS)
    b = (problem.y * np.sqrt(weights)).ravel()
    np.testing.assert_allclose(values, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-4)


def test_a_row_without_effort_has_no_weight() -> None:
    problem = Problem()
    problem.y[:, 1] = 0.0
    weights, _ = row_weights(problem.sums, problem.columns(with_fault=False))
    assert weights[1] == 0.0


def test_a_perfect_fit_is_no_better_than_rounding() -> None:
    problem = Problem(noise=(0.0, 0.0))
    sums = problem.sums
    weights, _ = row_weights(sums, problem.columns(with_fault=False))
    np.testing.assert_allclose(weights * sums.effort_power, ERROR_FLOOR**-2, rtol=1e-9)


# -- gains


def test_the_gain_of_a_block_is_the_mean_over_rows_of_the_log_of_the_errors() -> None:
    problem = Problem(size=0.3)
    sums = problem.sums
    gain = gain_of(problem)
    errors = []
    for with_fault in (False, True):
        weights, _ = row_weights(sums, problem.columns(with_fault=with_fault))
        errors.append(problem.left_out_squares(with_fault=with_fault, weights=weights))
    floor = ERROR_FLOOR**2 * (problem.y**2).mean(axis=0) * N_SAMPLES
    expected = 0.5 * np.log((errors[0] + floor) / (errors[1] + floor)).mean(axis=1)
    np.testing.assert_allclose(gain.blocks, expected, rtol=1e-6, atol=1e-9)
    assert gain.mean == pytest.approx(expected.mean())
    assert gain.total == pytest.approx(expected.sum())


def made_validation(squares: list[list[float]], n_valid: list[list[int]]) -> CrossValidation:
    return CrossValidation(
        squares=np.array(squares),
        n_valid=np.array(n_valid),
        coefficients=np.zeros((len(squares), 0)),
        whole=np.zeros(0),
        weights=np.ones(2),
    )


def test_rows_with_few_equations_do_not_count_in_a_block() -> None:
    enough = MIN_BLOCK_EQUATIONS
    n_valid = [[enough, enough], [enough, enough - 1], [0, 0]]
    before = made_validation([[4.0, 4.0], [4.0, 9.0], [0.0, 0.0]], n_valid)
    after = made_validation([[1.0, 4.0], [1.0, 1.0], [0.0, 0.0]], n_valid)
    gains = log_gain(before, after, np.zeros((3, 2)))
    np.testing.assert_allclose(gains, [0.5 * np.log(2), np.log(2), np.nan])


def test_the_relative_error_is_the_rms_over_rows() -> None:
    validation = made_validation([[4.0, 9.0], [4.0, 0.0], [99.0, 99.0]], [[10, 5]] * 3)
    error = relative_error(validation, np.array([4.0, 9.0]), np.array([True, True, False]))
    assert error == pytest.approx(np.sqrt((0.4 / 4 + 0.9 / 9) / 2))


def test_student_t_of_independent_blocks_is_the_usual_one() -> None:
    """Neighbours of other logs are none: then blocks count as independent."""
    gains = np.random.default_rng(0).standard_normal(20) + 0.5
    mean, t, n = student_t(np.append(gains, np.nan), np.arange(21))
    expected = stats.ttest_1samp(gains, 0.0)
    assert (mean, n) == (pytest.approx(gains.mean()), 20)
    assert t == pytest.approx(expected.statistic)


def test_blocks_that_are_like_their_neighbours_count_less() -> None:
    """Pairs of equal gains are half as many independent ones."""
    gains = np.repeat(np.random.default_rng(0).standard_normal(400) + 0.5, 2)
    independent = student_t(gains, np.arange(800))[1]
    correlated = student_t(gains, np.zeros(800, int))[1]
    rho = 0.5  # every second pair of neighbours is equal
    assert correlated == pytest.approx(independent * np.sqrt((1 - rho) / (1 + rho)), rel=0.1)
    alternating = gains.mean() + np.tile([1.0, -1.0], 400)
    assert student_t(alternating, np.zeros(800, int))[1] == pytest.approx(
        student_t(alternating, np.arange(800))[1]
    )


def test_logs_that_gain_differently_are_no_neighbours_that_are_alike() -> None:
    rng = np.random.default_rng(0)
    gains = np.where(np.arange(40) < 20, 2.0, 1.0) + 0.3 * rng.standard_normal(40)
    logs = np.repeat([0, 1], 20)
    _, t, n = student_t(gains, logs)
    expected = stats.ttest_1samp(gains, 0.0).statistic
    assert n == 40
    assert t == pytest.approx(expected, rel=0.2)  # the usual one but for a correlation by chance
    assert student_t(gains, np.zeros(40, int))[1] < 0.5 * expected


def test_one_block_shows_nothing() -> None:
    assert student_t(np.array([3.0, np.nan]), np.zeros(2, int)) == (0.0, 0.0, 1)


@pytest.mark.parametrize(("trials", "n_blocks"), [(1, 6), (100, 16), (3000, 48)])
def test_the_threshold_is_students_with_bonferronis_correction(trials: int, n_blocks: int) -> None:
    expected = stats.t.isf(FAMILY_WISE_ERROR / trials, n_blocks - 1)
    assert threshold(trials, n_blocks) == pytest.approx(expected)


def test_below_six_blocks_nothing_is_accepted() -> None:
    assert MIN_BLOCKS == 6
    assert threshold(1, MIN_BLOCKS - 1) == np.inf
    assert not gain_of(Problem(size=3.0, n_blocks=MIN_BLOCKS - 1)).significant
    assert gain_of(Problem(size=3.0, n_blocks=MIN_BLOCKS)).significant


def test_a_fault_that_is_there_is_accepted_and_noise_is_not() -> None:
    assert gain_of(Problem(size=1.0), trials=1000).significant
    assert not gain_of(Problem(size=0.0), trials=1).significant


def test_on_pure_noise_nothing_at_all_is_accepted() -> None:
    """200 logs of 3 random candidates each: 1 % of the logs may show one."""
    n_trials = 200
    n_candidates = 3
    accepted = 0
    for seed in range(n_trials):
        problem = Problem(seed, n_columns=n_candidates)
        sums = problem.sums
        baseline = Baseline(sums, range(N_PARAMETERS))
        scope = np.ones(N_BLOCKS, bool)
        for k in range(n_candidates):
            columns = [*range(N_PARAMETERS), N_PARAMETERS + k, sums.n_columns]
            with_one = replace(sums, grams=select_columns(sums.grams, columns))
            if baseline.gain(with_one, scope, n_candidates).significant:
                accepted += 1
                break
    assert accepted <= stats.binom.ppf(0.999, n_trials, FAMILY_WISE_ERROR)


# -- scopes and logs


def test_a_fault_in_one_log_is_judged_on_its_blocks() -> None:
    problem = Problem(size=1.0, n_blocks=24, n_logs=2, inside=(1,))
    scope = problem.log == 1
    gain = gain_of(problem, trials=100, scope=scope)
    assert gain.significant
    in_scope = student_t(gain.blocks[scope], problem.log[scope])
    assert (gain.mean, gain.t) == (in_scope[0], in_scope[1])
    assert gain.threshold == threshold(200, 12)  # tested on all blocks too
    expected = relative_error(
        cross_validate(problem.sums, range(N_PARAMETERS)), problem.sums.effort_power, scope
    )
    assert gain.before == pytest.approx(expected)
    assert gain.after < gain.before
    assert gain.outside > 0  # the parameters become better


def test_a_fault_in_part_of_the_logs_is_also_tested_on_all_blocks() -> None:
    """Two trials: the better one, over its threshold for twice as many explanations."""
    gain = gain_of(Problem(size=3.0, n_logs=4, inside=(0,)), 50, np.arange(N_BLOCKS) < 3)
    everywhere = student_t(gain.blocks, np.arange(N_BLOCKS) * 4 // N_BLOCKS)
    assert gain.threshold == threshold(100, N_BLOCKS)  # three blocks alone accept nothing
    assert (gain.mean, gain.t) == (everywhere[0], everywhere[1])


@pytest.mark.parametrize(
    ("change", "significant"),
    [
        ({}, True),
        ({"t": 2.9}, False),
        ({"mean": -0.1}, False),
        ({"after": 0.21}, False),
        ({"explained": 0.0049}, False),
        ({"explained": 0.0051}, True),
        ({"logs": np.array([-0.1, 0.05])}, False),
        ({"logs": np.array([-0.02, 0.5])}, False),
        ({"logs": np.array([-0.005, 0.5])}, True),
        ({"logs": np.zeros(0)}, False),
        ({"outside": -0.02}, False),
        ({"outside": -0.005}, True),
    ],
)
def test_every_condition_of_the_rule_has_to_hold(change: dict, significant: bool) -> None:
    gain = Gain(
        blocks=np.ones(8),
        scope=np.ones(8, bool),
        mean=0.1,
        t=3.1,
        threshold=3.0,
        logs=np.array([0.1, 0.1]),
        outside=0.0,
        before=0.2,
        after=0.1,
        explained=0.17,
    )
    assert replace(gain, **change).significant == significant


def test_folds_are_whole_logs_of_the_scope_or_halves_of_one() -> None:
    log = np.array([0, 0, 1, 1, 2, 2])
    everywhere = np.ones(6, bool)
    np.testing.assert_array_equal(log_folds(log, everywhere), [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(log_folds(log, log == 1), [2, 2, 0, 1, 2, 2])
    np.testing.assert_array_equal(log_folds(log, log != 1), [0, 0, 2, 2, 1, 1])
    np.testing.assert_array_equal(log_folds(np.zeros(4, int), np.ones(4, bool)), [0, 0, 1, 1])
    floor = np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(fold_floor(floor, log), [[2, 4], [10, 12], [18, 20]])


def test_what_helps_in_one_half_only_is_not_accepted() -> None:
    """The size is a fifth in the second half: half a log predicts the other half worse."""
    problem = Problem(size=0.0)
    size = np.where(problem.block < N_BLOCKS // 2, 1.0, 0.2)
    problem.y += size[:, None] * problem.S[:, :, 0]
    gain = gain_of(problem)
    assert gain.blocks_better
    assert gain.logs.min() < 0
    assert not gain.significant


def test_whole_logs_are_not_predicted_if_blocks_are_not_better() -> None:
    problem = Problem(size=0.0)
    gain = gain_of(problem)
    assert not gain.blocks_better
    assert gain.logs.size == 0
    assert not gain.significant


def test_a_log_that_hardly_shows_a_fault_does_not_speak_against_it() -> None:
    """One log has a hundredth of the fault's effort, and predicts the other worse with it."""
    losses = 0
    for seed in range(20):
        problem = Problem(seed, size=0.3, n_blocks=24, n_logs=2)
        hardly = problem.log[problem.block] == 0
        problem.y[hardly] -= 0.297 * problem.S[hardly, :, 0]
        problem.S[hardly] *= 0.01
        gain = gain_of(problem)
        losses += bool(gain.logs.min() < -0.01)
    assert losses <= 1


def test_the_variance_of_predicting_a_log_is_that_of_a_jackknife_of_the_others() -> None:
    problem = Problem(n_blocks=8, n_logs=2)
    weights = np.array([1.0, 50.0])
    columns = problem.columns(with_fault=True)
    variance = fold_prediction_variance(problem.sums, columns, problem.log == 0, weights)
    X = np.concatenate([problem.W, problem.S], axis=2)
    root = np.sqrt(weights)
    estimates = []
    others = np.flatnonzero(problem.log == 1)
    for left_out in others:
        kept = np.isin(problem.block, others) & (problem.block != left_out)
        A = (X[kept] * root[:, None]).reshape(-1, X.shape[2])
        estimates.append(np.linalg.lstsq(A, (problem.y[kept] * root).ravel(), rcond=None)[0])
    covariance = np.cov(np.array(estimates).T, bias=True) * (len(others) - 1)
    inside = X[np.isin(problem.block, np.flatnonzero(problem.log == 0))]
    expected = np.einsum("trp,pq,trq->r", inside, covariance, inside)
    np.testing.assert_allclose(variance, expected, rtol=1e-6)


def test_errors_are_compared_in_the_unit_of_the_recorded_effort() -> None:
    """Efforts divided by 1000 have errors divided by 1000, which is no gain."""
    problem = Problem()
    small = Problem()
    small.y /= 1000
    baseline = Baseline(problem.sums, range(N_PARAMETERS))
    scope = np.ones(N_BLOCKS, bool)
    scale = np.full((N_BLOCKS, N_ROWS), 1000.0)
    columns = [*range(N_PARAMETERS), small.sums.n_columns]
    without_fault = replace(small.sums, grams=select_columns(small.sums.grams, columns))
    gain = baseline.gain(without_fault, scope, 1, effort_scale=scale)
    np.testing.assert_allclose(gain.blocks, 0.0, atol=1e-6)
    assert gain.after == pytest.approx(gain.before)


# -- size and materiality


def test_the_standard_error_of_a_mean_is_that_of_the_jackknife() -> None:
    values = np.random.default_rng(0).standard_normal(15)
    without = np.array([np.delete(values, k).mean() for k in range(15)])
    expected = values.std(ddof=1) / np.sqrt(15)
    np.testing.assert_allclose(jackknife_error(without[:, None]), [expected])


def test_sizes_are_within_their_standard_errors() -> None:
    deviations = []
    for seed in range(100):
        problem = Problem(seed, size=0.3, n_blocks=20)
        validation = cross_validate(problem.sums, problem.columns(with_fault=True))
        error = jackknife_error(validation.coefficients)[-1]
        deviations.append((validation.whole[-1] - 0.3) / error)
    assert np.std(deviations) == pytest.approx(1.0, abs=0.2)
    assert abs(np.mean(deviations)) < 0.3


@pytest.mark.parametrize(
    ("change", "shift", "error", "material"),
    [
        (0.0049, 0.0, 0.1, False),
        (0.0051, 0.0, 0.1, True),
        (0.0, 0.3, 0.1, True),
        (0.0, 0.3, 0.4, False),  # within its standard error
        (0.0, 0.015, 0.001, False),  # below 1 %
        (0.0, 3.0, 2.5, False),  # of a value that is not known at all
    ],
)
def test_material_is_half_a_per_cent_of_an_effort_or_a_parameter(
    change: float, shift: float, error: float, material: bool
) -> None:
    assert (
        is_material(
            np.array([0.0, change**2]),
            np.ones(2),
            np.array([0.0, shift]),
            np.array([1.0, 2.0]),
            np.array([0.1, error]),
        )
        == material
    )


def test_explanations_that_predict_alike_block_by_block_are_tied() -> None:
    rng = np.random.default_rng(0)
    gain = gain_of(Problem(size=1.0))
    log = np.zeros(N_BLOCKS, int)
    rounding = replace(gain, blocks=gain.blocks - 0.1 * EQUAL_GAIN)
    noisy = replace(gain, blocks=gain.blocks + rng.standard_normal(N_BLOCKS))
    worse = replace(gain, blocks=gain.blocks - 0.5 - 0.1 * rng.random(N_BLOCKS))
    assert tied(gain, rounding, log)
    assert tied(gain, noisy, log)
    assert not tied(gain, worse, log)


def uneven_problem(size: float, seed: int = 3) -> Problem:
    """Return a problem whose fault is strong in every third block and weak in the others."""
    problem = Problem(seed, n_blocks=24, noise=(1.0, 1.0))
    strength = np.where(problem.block % 3 == 0, 1.0, 0.05)[:, None, None]
    problem.y = problem.y + size * (strength * problem.S)[:, :, 0]
    problem.S = strength * problem.S
    return problem


def size_test_of(problem: Problem, trials: int) -> Gain:
    sums = problem.sums
    columns = range(sums.n_columns)
    validation = cross_validate(sums, columns)
    gain = gain_of(problem, trials)
    size = validation.whole[-1:]
    std = size_errors(sums, validation, 1)
    return with_size_test(gain, sums, validation, size, std, 1, trials)


def test_where_gains_are_uneven_the_size_shows_the_fault() -> None:
    gain = size_test_of(uneven_problem(1.5), trials=1000)
    assert gain.t < gain.threshold
    assert gain.size_t > gain.size_threshold
    assert gain.significant


def test_the_size_of_noise_is_not_accepted() -> None:
    accepted = [size_test_of(uneven_problem(0.0, seed), trials=1).significant for seed in range(60)]
    assert np.mean(accepted) < 0.05


def test_a_size_that_rests_on_few_blocks_has_few_degrees_of_freedom() -> None:
    """Eight of 24 blocks have nearly all information: (sum I)^2 / sum I^2 by hand."""
    problem = uneven_problem(0.0)
    sums = problem.sums
    weights = np.ones(N_ROWS)
    others = problem.W.reshape(-1, N_PARAMETERS)
    column = problem.S.reshape(-1)
    remaining = column - others @ np.linalg.lstsq(others, column)[0]
    information = np.bincount(np.repeat(problem.block, N_ROWS), remaining**2)
    by_hand = information.sum() ** 2 / (information @ information)
    assert effective_blocks(sums, weights, N_PARAMETERS) == pytest.approx(by_hand, rel=1e-6)
    assert 6 < by_hand < 9


def test_standard_errors_of_sizes_are_those_of_the_jackknife_over_all_blocks() -> None:
    problem = Problem(5, size=1.0)
    sums = problem.sums
    validation = cross_validate(sums, range(sums.n_columns))
    without = validation.coefficients[:, -1:]
    widened = np.sqrt(neighbour_inflation(without[:, 0], sums.log)) * jackknife_error(without)
    assert size_errors(sums, validation, 1) == pytest.approx(widened)
    assert widened[0] >= jackknife_error(without)[0]
