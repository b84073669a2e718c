"""The load of a rigid body whose forces are computed in closed form from its motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from gough.core.names import INERTIAL, LOAD_PARAMETERS
from gough.fitting.load_changes import LoadBlocks, changes, history
from gough.fitting.load_fit import LoadProblem, direction_text, fit_load, observe_load
from gough.fitting.regression import Regression
from trials import repeated

G = 9.81
VALUES = np.array(
    [20.0, 1.0, -2.0, 5.0, 2.0, 0.1, 1.8, -0.2, 0.3, 0.9]
)  # m mx my mz Ixx Ixy Iyy Ixz Iyz Izz
NOISE = np.diag([4.0, 4.0, 4.0, 0.25, 0.25, 0.25]) + 0.2
PRIOR = 100.0 * np.ones(10)


def wrench(
    acceleration: np.ndarray, w: np.ndarray, wd: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return force and moment of a body about its frame's origin, (t, 6), by Newton and Euler."""
    m, h, I6 = values[0], values[1:4], values[4:]
    inertia = np.array([[I6[0], I6[1], I6[3]], [I6[1], I6[2], I6[4]], [I6[3], I6[4], I6[5]]])
    felt = acceleration + np.array([0.0, 0.0, G])
    force = m * felt + np.cross(wd, h) + np.cross(w, np.cross(w, h))
    return np.concatenate(
        [force, np.cross(h, felt) + wd @ inertia + np.cross(w, w @ inertia)], axis=1
    )


def body_regressor(acceleration: np.ndarray, w: np.ndarray, wd: np.ndarray) -> np.ndarray:
    return np.stack([wrench(acceleration, w, wd, unit) for unit in np.eye(10)], axis=2)


def regressor(
    samples: int = 120, turning: float = 1.0, blur: float = 0.0, seed: int = 0
) -> np.ndarray:
    """Return W (t, 6, 10) of a random motion, its accelerations with errors."""
    rng, error = np.random.default_rng(0), np.random.default_rng([seed, 1])
    a, w, wd = (
        rng.normal(size=(samples, 3)) * 3,
        *(turning * rng.normal(size=(2, samples, 3)) * [[[1.0]], [[4.0]]]),
    )
    a, wd = a + blur * error.normal(size=a.shape), wd + blur * error.normal(size=a.shape)
    return body_regressor(a, w, wd)


def draw(seed: int, samples: int) -> np.ndarray:
    return np.random.default_rng([seed, 2]).normal(size=(samples, 6)) @ np.linalg.cholesky(NOISE).T


def problem(
    W: np.ndarray,
    effort: np.ndarray,
    noise: np.ndarray | None = None,
    model_error: np.ndarray | None = None,
) -> LoadProblem:
    data = Regression(
        regressor=W,
        effort=effort,
        rows=tuple("abcdef"),
        row_units=("N",) * 3 + ("N m",) * 3,
        parameters=LOAD_PARAMETERS,
        units=[name.unit for name in LOAD_PARAMETERS],
        time=np.arange(len(W)) / 100,
    )
    return LoadProblem(
        regression=data,
        noise=np.zeros((6, 6, 11, 11)) if noise is None else noise,
        model_error=np.zeros((len(W), 6, 0)) if model_error is None else model_error,
    )


def blurred(blur: float, samples: int, turning: float) -> np.ndarray:
    """Return what noise of the accelerations makes of [W y], rows by rows, (6, 6, 11, 11)."""
    clean = regressor(samples, turning)
    total = np.zeros((6, 6, 11, 11))
    for seed in range(1000, 1004):
        change = np.concatenate(
            [regressor(samples, turning, blur, seed) - clean, np.zeros((samples, 6, 1))], axis=2
        )
        total += np.einsum("tic,tjd->ijcd", change, change) / samples / 4
    return total


def gram(W: np.ndarray, effort: np.ndarray) -> np.ndarray:
    rows = np.linalg.solve(
        np.linalg.cholesky(NOISE), np.concatenate([W, effort[:, :, None]], axis=2)
    )
    return np.einsum("tri,trj->ij", rows, rows)


def test_all_ten_parameters_equal_generalised_least_squares() -> None:
    W = regressor()
    effort = W @ VALUES + draw(0, 120)
    found = observe_load(gram(W, effort), np.zeros((11, 11)), 1e4 * np.ones(10))
    inverse = np.linalg.inv(NOISE)
    information = np.einsum("tip,ij,tjq->pq", W, inverse, W)
    expected = np.linalg.solve(information, np.einsum("tip,ij,tj->p", W, inverse, effort))
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    np.testing.assert_allclose(found.white, np.linalg.inv(information), rtol=1e-7, atol=1e-12)
    assert not len(found.hidden_directions)


def test_intervals_of_all_ten_hold() -> None:
    W = regressor()
    inside = 0
    for seed in range(60):
        found = fit_load(problem(W, W @ VALUES + draw(seed, 120)), PRIOR)
        std = np.sqrt(np.diag(found.uncertainty.covariance))
        inside += int((np.abs(found.observed.values - VALUES) < 1.96 * std).sum())
    assert 0.92 < inside / 600 < 0.98


def test_a_motion_without_rotation_shows_no_inertia() -> None:
    W = regressor(turning=0.0)
    found = fit_load(problem(W, W @ VALUES + draw(0, 120)), PRIOR)
    assert {direction_text(INERTIAL, row) for row in found.observed.hidden_directions} == set(
        INERTIAL[4:]
    )
    np.testing.assert_allclose(found.observed.values[:4], VALUES[:4], atol=0.3)
    np.testing.assert_allclose(np.sqrt(np.diag(found.uncertainty.covariance))[4:], 100.0)


def test_standing_still_shows_mass_and_two_moments_only() -> None:
    """Gravity alone: the height of the centre of mass along it stays hidden."""
    W = body_regressor(*np.zeros((3, 50, 3)))
    found = fit_load(problem(W, W @ VALUES + draw(0, 50)), PRIOR)
    std = np.sqrt(np.diag(found.uncertainty.covariance))
    assert [name for name, s in zip(INERTIAL, std) if s < 50] == ["m", "mx", "my"]
    assert (np.abs(found.observed.values - VALUES)[:3] < 4 * std[:3]).all()


def test_columns_that_noise_alone_fills_are_not_information() -> None:
    """Least squares would report inertias hundreds of its sigmas from the truth."""
    W, blur = regressor(400, turning=0.0, blur=0.5), 0.5
    effort = regressor(400, turning=0.0) @ VALUES + 0.05 * draw(0, 400)
    naive = fit_load(problem(W, effort), PRIOR)
    wrong = np.abs(naive.observed.values - VALUES) / np.sqrt(np.diag(naive.uncertainty.covariance))
    assert wrong[[4, 6, 9]].min() > 3
    found = fit_load(problem(W, effort, blurred(blur, 400, 0.0)), PRIOR)
    assert len(found.observed.hidden_directions) == 6
    assert (found.observed.signal_to_noise(np.eye(10))[4:] < 2).all()
    std = np.sqrt(np.diag(found.uncertainty.covariance))
    assert (np.abs(found.observed.values - VALUES) < 3 * std).all()
    assert (std[4:] > 90).all()


def test_noise_in_the_columns_does_not_attenuate() -> None:
    """With errors of a seventh of the accelerations least squares is biased; what is known of them
    takes it out.
    """
    noise = blurred(0.5, 300, 0.2)
    z: dict[str, list[np.ndarray]] = {"told": [], "not told": []}
    for seed in range(20):
        W = regressor(300, 0.2, 0.5, seed)
        effort = regressor(300, 0.2) @ VALUES + 0.3 * draw(seed, 300)
        for key, of_noise in (("told", noise), ("not told", None)):
            found = fit_load(problem(W, effort, of_noise), PRIOR)
            z[key].append(
                (found.observed.values - VALUES) / np.sqrt(np.diag(found.uncertainty.covariance))
            )
    assert np.abs(np.mean(z["told"], axis=0)).max() < 0.8
    assert np.abs(np.mean(z["not told"], axis=0)).max() > 3
    assert np.sqrt(np.mean(np.square(z["told"]))) < 1.2


def test_errors_of_the_unloaded_model_widen_the_intervals() -> None:
    W = regressor()
    own = regressor(seed=0) @ np.diag([0.2] + [0.05] * 9)  # its platform is uncertain by so much
    inside = {"told": 0, "not told": 0}
    for seed in range(30):
        effort = (
            W @ VALUES
            + own @ np.random.default_rng([seed, 7]).normal(size=10)
            + 0.02 * draw(seed, 120)
        )
        for key, error in (("told", own), ("not told", None)):
            found = fit_load(problem(W, effort, model_error=error), PRIOR)
            std = np.sqrt(np.diag(found.uncertainty.covariance))
            inside[key] += int((np.abs(found.observed.values - VALUES) < 1.96 * std).sum())
    assert 0.9 < inside["told"] / 300 < 0.99
    assert inside["not told"] / 300 < 0.5


def test_information_over_noise_does_not_depend_on_units() -> None:
    W = regressor(turning=0.1)
    scale = 10.0 ** np.array([3, 0, -3, 6, 1, 0, 0, -2, 2, 0])
    own, other = (
        observe_load(gram(A, W @ VALUES), np.diag(np.append(0.1 / unit**2, 0.0)), PRIOR * unit)
        for A, unit in ((W, np.ones(10)), (W / scale, scale))
    )
    np.testing.assert_allclose(other.values, own.values * scale, rtol=1e-6)
    np.testing.assert_allclose(
        other.signal_to_noise(np.eye(10)), own.signal_to_noise(np.eye(10)), rtol=1e-6
    )


def test_what_acts_only_together_is_said_in_words() -> None:
    W = regressor()
    W[:, :, 6] = -2 * W[:, :, 4]
    found = observe_load(gram(W, W @ VALUES), np.zeros((11, 11)), PRIOR)
    assert [direction_text(INERTIAL, row) for row in found.hidden_directions] == ["Ixx + 0.5 Iyy"]
    np.testing.assert_allclose(W @ found.hidden_directions[0], 0, atol=1e-6)


def test_history_is_the_batch_solution_of_what_came_before() -> None:
    W = regressor(400)
    whole = problem(W, W @ VALUES + draw(0, 400))
    pieces = LoadBlocks.of(whole, NOISE, np.arange(400.0))
    track = history(pieces, whole.regression.time, PRIOR)
    k = 20
    stop = pieces.edges[k + 1]
    expected = observe_load(
        gram(W[:stop], whole.regression.effort[:stop]), np.zeros((11, 11)), PRIOR
    )
    np.testing.assert_allclose(track.values[k], expected.values, rtol=1e-8)
    np.testing.assert_allclose(track.std[k], np.sqrt(np.diag(expected.white)), rtol=1e-8)
    assert track.time[k] == whole.regression.time[stop - 1]


def test_a_memory_follows_another_load() -> None:
    W = regressor(600)
    effort = np.where(np.arange(600)[:, None] < 300, W @ VALUES, W @ (2 * VALUES)) + draw(0, 600)
    data = problem(W, effort)
    pieces = LoadBlocks.of(data, NOISE, np.arange(600.0))
    long, short = (history(pieces, data.regression.time, PRIOR, memory) for memory in (None, 0.5))
    assert abs(long.values[-1, 0] - 40) > 5
    assert abs(short.values[-1, 0] - 40) < 1


@repeated(10, 25)
@pytest.mark.parametrize("kept", [0.0, 0.9])
def test_a_load_that_changes_is_dated_and_one_that_does_not_is_left_alone(
    kept: float, trials: int
) -> None:
    """Under noise with memory too; a change of 5 % of the mass at 40 % of the run."""
    W = regressor(1500)
    found, alarms = [], 0
    for seed in range(trials):
        noise = lfilter([np.sqrt(1 - kept**2)], [1, -kept], draw(seed, 1700), axis=0)[200:]
        pieces = LoadBlocks.of(problem(W, W @ VALUES + noise), NOISE, np.arange(1500.0))
        alarms += len(changes(pieces, PRIOR))
        other = np.where(
            np.arange(1500)[:, None] < 600, W @ VALUES, W @ (VALUES * np.append(1.05, np.ones(9)))
        )
        pieces = LoadBlocks.of(problem(W, other + noise), NOISE, np.arange(1500.0))
        found.append([int(pieces.edges[cut]) for cut in changes(pieces, PRIOR)])
    assert alarms == 0
    assert sum(len(cuts) == 1 for cuts in found) >= trials - 1
    assert np.median(np.abs([cuts[0] - 600 for cuts in found if cuts])) <= 30


def test_two_changes_are_two() -> None:
    W = regressor(1500)
    size = np.select([np.arange(1500) < 500, np.arange(1500) < 900], [1.0, 0.5], 2.0)
    pieces = LoadBlocks.of(
        problem(W, (W @ VALUES) * size[:, None] + draw(3, 1500)), NOISE, np.arange(1500.0)
    )
    np.testing.assert_allclose(pieces.edges[changes(pieces, PRIOR)], [500, 900], atol=15)


def test_equations_that_do_not_count_play_no_part() -> None:
    W = regressor()
    effort = W @ VALUES + draw(0, 120)
    mask = np.random.default_rng(9).random((120, 6)) < 0.7
    spoilt = np.where(mask, effort, 1e3)
    one, other = (
        fit_load(replace(p, regression=replace(p.regression, mask=mask)), PRIOR)
        for p in (problem(W, effort), problem(W, spoilt))
    )
    np.testing.assert_allclose(one.observed.values, other.observed.values, rtol=1e-9)
    assert (
        np.abs(one.observed.values - VALUES) < 5 * np.sqrt(np.diag(one.uncertainty.covariance))
    ).all()


def test_effort_without_noise_is_answered_exactly() -> None:
    W = regressor()
    found = fit_load(problem(W, W @ VALUES), PRIOR)
    np.testing.assert_allclose(found.observed.values, VALUES, rtol=1e-6)


def test_a_change_that_a_filter_smears_is_one() -> None:
    """After a step of the load something rings for 0.9 of a zone of 450 samples."""
    W = regressor(1500)
    ringing = np.zeros(1500)
    ringing[600:1000] = np.where(np.arange(400) < 200, 8.0, -5.0)
    effort = (W @ VALUES) * np.where(np.arange(1500) < 600, 1.0, 1.2)[:, None] + W[
        :, :, 0
    ] * ringing[:, None]
    data = problem(W, effort + draw(3, 1500))
    one, several = (LoadBlocks.of(data, NOISE, np.arange(1500.0) / zone) for zone in (450, 1))
    assert len(changes(several, PRIOR)) > 1
    (cut,) = changes(one, PRIOR)
    assert 600 <= one.edges[cut] <= 1005


def test_many_changes_are_all_found() -> None:
    """A product is picked and placed five times: while one change is missed, others look odd."""
    W = regressor(1500)
    size = (np.arange(1500) // 150) % 2
    effort = (W @ VALUES) * size[:, None] + draw(3, 1500)
    pieces = LoadBlocks.of(problem(W, effort), NOISE, np.arange(1500.0))
    np.testing.assert_allclose(
        pieces.edges[changes(pieces, PRIOR)], 150 * np.arange(1, 10), atol=15
    )
