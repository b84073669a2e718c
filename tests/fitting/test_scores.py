"""Score tests: sizes, sigmas and predictions against brute force; chances that are what they
say.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gough.core.errors import InvalidInput
from gough.fitting.scores import LEAST_SEEN, ScoreProblem, Scores, cut_stretches

N, P, K, G = 240, 4, 3, 8


def problem(
    seed: int = 0,
    *,
    missing: float = 0.0,
    noise: float = 1.0,
    repetitions: int = 0,
    memory: float = 0.0,
    n: int = N,
    stretches: int = G,
) -> ScoreProblem:
    rng = np.random.default_rng(seed)
    W, D = rng.standard_normal((n, P)), rng.standard_normal((n, K))
    D[:, 1] += W[:, 0]  # partly mimicked by the regressor

    def drawn() -> np.ndarray:
        white, out, value = rng.standard_normal(n), np.empty(n), rng.standard_normal()
        for k in range(n):
            value = memory * value + np.sqrt(1 - memory**2) * white[k]
            out[k] = value
        return noise * out

    each = np.stack([drawn() for _ in range(repetitions)]) if repetitions else drawn()[None]
    deviations = (
        None
        if repetitions < 2
        else (each - each.mean(axis=0)) / np.sqrt(repetitions * (repetitions - 1))
    )
    y = W @ np.arange(1.0, P + 1) + missing * D[:, 1] + each.mean(axis=0)
    return ScoreProblem(
        regressor=W,
        target=y,
        columns=D,
        stretch=cut_stretches([n], stretches)[0],
        deviations=deviations,
    )


def solved(W: np.ndarray, D: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the coefficients of D in the least squares fit of [W D]."""
    return np.linalg.lstsq(np.hstack([W, D]), y, rcond=None)[0][W.shape[1] :]


@pytest.mark.parametrize("use", [[1], [0, 2], [2, 1, 0]])
def test_sizes_are_those_of_a_fit_with_the_columns_in_it(use: list[int]) -> None:
    p = problem(missing=0.3)
    fitted = Scores(p).fit(use)
    np.testing.assert_allclose(
        fitted.size, solved(p.regressor, p.columns[:, use], p.target), rtol=1e-9
    )


def test_the_share_is_what_the_residual_loses() -> None:
    p = problem(missing=0.3)
    W, D = p.regressor, p.columns[:, [1]]
    before = np.linalg.lstsq(W, p.target, rcond=None)[1][0]
    after = np.linalg.lstsq(np.hstack([W, D]), p.target, rcond=None)[1][0]
    assert Scores(p).fit([1]).share == pytest.approx(1 - after / before, rel=1e-9)
    assert Scores(p).power() == pytest.approx(before, rel=1e-9)
    assert Scores(p).power([1]) == pytest.approx(after, rel=1e-9)


def test_given_columns_are_in_the_model_already() -> None:
    p = problem(missing=0.3)
    both = solved(p.regressor, p.columns[:, [2, 0]], p.target)
    assert Scores(p).fit([2], [0]).size == pytest.approx(both[:1], rel=1e-9)
    left = [
        np.linalg.lstsq(np.hstack([p.regressor, p.columns[:, use]]), p.target, rcond=None)[1][0]
        for use in ([0], [0, 2])
    ]
    assert Scores(p).fit([2], [0]).share == pytest.approx(1 - left[1] / left[0], rel=1e-8)


def test_sigma_is_the_jackknife_over_stretches() -> None:
    p = problem(missing=0.3)
    left = []
    for b in range(G):
        keep = p.stretch != b
        left.append(solved(p.regressor[keep], p.columns[keep][:, [1]], p.target[keep])[0])
    expected = np.sqrt((G - 1) / G * np.sum((np.array(left) - np.mean(left)) ** 2))
    assert Scores(p).fit([1]).sigma[0] == pytest.approx(expected, rel=1e-8)


def test_the_gain_is_that_of_predicting_stretches_from_the_others() -> None:
    p = problem(missing=0.5)
    errors = {}
    for name, use in (("before", []), ("after", [1, 2])):
        total = []
        for b in range(G):
            keep = p.stretch != b
            A = np.hstack([p.regressor, p.columns[:, use]])
            x = np.linalg.lstsq(A[keep], p.target[keep], rcond=None)[0]
            total.append(np.sum((p.target[~keep] - A[~keep] @ x) ** 2))
        errors[name] = np.array(total)
    fitted = Scores(p).fit([1, 2])
    assert fitted.gain == pytest.approx(
        1 - errors["after"].sum() / errors["before"].sum(), rel=1e-8
    )
    assert Scores(p).left_out_error() == pytest.approx(
        np.sqrt(errors["before"].sum() / np.sum(p.target**2)), rel=1e-8
    )


@pytest.mark.parametrize(("repetitions", "memory"), [(0, 0.0), (0, 0.8), (5, 0.0), (5, 0.8)])
def test_chances_are_rare_as_they_say(repetitions: int, memory: float) -> None:
    """Of 400 trials without a missing column about 5 % have a chance below 0.05, whatever the
    colour of the noise.
    """
    found = [
        Scores(problem(seed, repetitions=repetitions, memory=memory, n=600, stretches=20))
        .fit([1])
        .probability
        for seed in range(400)
    ]
    # Stretches of 30 samples do not hold all of the memory of noise that lasts ten.
    assert 0.02 <= np.mean(np.array(found) < 0.05) <= (0.08 if memory == 0 else 0.12)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.1)


def test_sizes_are_within_their_sigmas() -> None:
    off = []
    for seed in range(200):
        fitted = Scores(problem(seed, missing=0.3, n=600, stretches=20)).fit([1])
        off.append((fitted.size[0] - 0.3) / fitted.sigma[0])
    assert np.std(off) == pytest.approx(1.0, abs=0.2)
    assert abs(np.mean(off)) < 0.3


def test_repetitions_show_the_noise_that_few_stretches_miss() -> None:
    """The jackknife of one trial scatters; the noise of repetitions does not, and sigma is at least
    that.
    """
    p = problem(repetitions=30, n=600)
    scores = Scores(p)
    free = (
        p.columns[:, 1] - p.regressor @ np.linalg.lstsq(p.regressor, p.columns[:, 1], rcond=None)[0]
    )
    expected = 1 / np.sqrt(30 * free @ free)
    assert scores.sigma(1) == pytest.approx(expected, rel=0.1)
    assert scores.fit([1]).sigma[0] >= 0.99 * scores.sigma(1)
    assert scores.sigma(1, white=True) == pytest.approx(1 / np.sqrt(free @ free), rel=1e-9)


def test_a_column_of_the_regressor_cannot_be_seen() -> None:
    p = problem()
    D = p.columns.copy()
    D[:, 0] = 2 * p.regressor[:, 1] - p.regressor[:, 3]
    scores = Scores(
        ScoreProblem(regressor=p.regressor, target=p.target, columns=D, stretch=p.stretch)
    )
    assert scores.seen[0] < LEAST_SEEN
    assert (scores.seen[1:3] > LEAST_SEEN).all()
    lengths = np.linalg.norm(p.regressor, axis=0)
    expected = np.array([0, 2, 0, -1]) * lengths / np.linalg.norm(D[:, 0])
    np.testing.assert_allclose(scores.mimicked(0), expected, atol=1e-9)
    np.testing.assert_allclose(scores.taken_in(0), [0, 2, 0, -1], atol=1e-9)


def test_what_is_left_out_of_the_model_moves_its_parameters() -> None:
    p = problem(missing=0.7, noise=0.0)
    biased = np.linalg.lstsq(p.regressor, p.target, rcond=None)[0]
    np.testing.assert_allclose(biased - np.arange(1, P + 1), 0.7 * Scores(p).taken_in(1), atol=1e-9)


def test_one_stretch_that_determines_a_direction_says_little() -> None:
    p = problem(missing=0.0)
    D = p.columns.copy()
    D[p.stretch != 3, 0] = 0.0
    alone = Scores(
        ScoreProblem(
            regressor=p.regressor, target=p.target + 3 * D[:, 0], columns=D, stretch=p.stretch
        )
    )
    spread = Scores(
        ScoreProblem(
            regressor=p.regressor, target=p.target + 3 * D[:, 1], columns=D, stretch=p.stretch
        )
    )
    assert alone.fit([0]).probability > 1e-3
    assert spread.fit([1]).probability < 1e-6


def test_the_chance_of_two_columns_is_hotellings() -> None:
    """With noise of known size T^2 is chi-squared; with many repetitions the test must agree."""
    p = problem(3, missing=0.02, repetitions=60, n=600)
    free = (
        p.columns[:, :2]
        - p.regressor @ np.linalg.lstsq(p.regressor, p.columns[:, :2], rcond=None)[0]
    )
    size = solved(p.regressor, p.columns[:, :2], p.target)
    square = 60 * size @ (free.T @ free) @ size  # the noise of the mean has variance 1 / 60
    assert stats.chi2.isf(Scores(p).fit([0, 1]).probability, 2) == pytest.approx(square, rel=0.2)


def test_stretches_do_not_cross_the_borders_of_logs() -> None:
    labels = cut_stretches([100, 30, 2], 13)
    assert [len(x) for x in labels] == [100, 30, 2]
    assert not set(labels[0]) & set(labels[1])
    assert len(set(labels[0])) == 10
    assert len(set(labels[1])) == 3
    assert len(set(labels[2])) == 1
    assert all(np.all(np.diff(x) >= 0) for x in labels)


def test_equations_that_do_not_fit_together_are_refused() -> None:
    p = problem()
    with pytest.raises(InvalidInput, match="240 equations"):
        ScoreProblem(
            regressor=p.regressor[:-1], target=p.target, columns=p.columns, stretch=p.stretch
        )
    with pytest.raises(InvalidInput, match="three stretches"):
        ScoreProblem(
            regressor=p.regressor, target=p.target, columns=p.columns, stretch=np.zeros(N, int)
        )


def test_two_repetitions_are_one_degree_of_freedom_a_stretch() -> None:
    """Pure noise, two repetitions, four stretches: a chance of 5 % comes in 5 %; one degree more
    would make it 9 %.
    """
    rng, hits, trials = np.random.default_rng(11), 0, 1500
    for _ in range(trials):
        noise = rng.standard_normal((2, 80))
        deviations = (noise - noise.mean(axis=0)) / np.sqrt(2)  # of the mean of two
        scores = Scores(
            ScoreProblem(
                regressor=np.ones((80, 1)),
                target=noise.mean(axis=0),
                columns=rng.standard_normal((80, 1)),
                stretch=np.arange(80) // 20,
                deviations=deviations,
            )
        )
        hits += scores.fit([0]).probability < 0.05
    assert 0.035 < hits / trials < 0.067
