"""Leaving stretches and recordings out: against solving again, streamed and in memory, with and
without model error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gough.core.errors import InvalidInput
from gough.fitting import uncertainty
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression, block_statistics, concatenate
from gough.fitting.uncertainty import JACKKNIFE_BLOCKS, POOLED_FREEDOM
from trials import assert_covers, repeated

TRUTH = np.array([1.0, -2.0, 0.5, 3.0])


def make(
    seed: int = 0,
    t: int = 160,
    rows: int = 2,
    missed: float = 0.0,
    motion: int = 0,
    **changes: Any,
) -> Regression:
    """Smooth columns; `missed` scales a slow effort that the model does not have."""
    time = np.arange(t) * 0.05
    fixed = np.random.default_rng([99, motion])
    frequency, phase = fixed.uniform(0.3, 4.0, (rows, 4)), fixed.uniform(0, 6.3, (rows, 4))
    regressor = np.sin(frequency * time[:, None, None] + phase)
    left = (
        missed
        * np.sin(0.31 * time[:, None] + fixed.uniform(0, 6.3, rows)) ** 3
        * regressor[:, :, 0]
    )
    effort = (
        regressor @ TRUTH
        + left
        + 0.2 * np.random.default_rng([seed, motion]).normal(size=(t, rows))
    )
    content = {
        "regressor": regressor,
        "effort": effort,
        "rows": ("x", "y", "z")[:rows],
        "row_units": ("N",) * rows,
        "parameters": tuple("abcd"),
        "units": ("1",) * 4,
        "time": time,
    }
    return Regression(**(content | changes))


def test_stretches_are_left_out_exactly_as_by_solving_again() -> None:
    problem = make(rows=1, missed=0.5)
    found = LeastSquares(uncertainty="blocks").fit(problem)
    X, y = problem.regressor[:, 0], problem.effort[:, 0]
    P = np.linalg.inv(X.T @ X)
    x, H = P @ X.T @ y, X @ P @ X.T
    noise = np.sum((y - X @ x) ** 2) / (160 - 4) * np.diag(P)
    # 160 samples are 20 pieces of 8: each a stretch
    shifts, maps = [], []
    for part in np.split(np.arange(160), JACKKNIFE_BLOCKS):
        rest = np.setdiff1d(np.arange(160), part)
        shifts.append(np.linalg.lstsq(X[rest], y[rest], rcond=None)[0] - x)
        inside = np.linalg.inv(np.eye(len(part)) - H[np.ix_(part, part)])
        maps.append(-P @ X[part].T @ inside @ (np.eye(160) - H)[part])  # shift = map @ noise
    share = (JACKKNIFE_BLOCKS - 1) / JACKKNIFE_BLOCKS
    ratio = share * np.sum(np.square(shifts), axis=0) / noise
    gram = np.einsum("gkt,hkt->kgh", maps, maps) / np.diag(P)[:, None, None]
    expected = share * np.einsum("kgg->k", gram)
    freedom = np.einsum("kgg->k", gram) ** 2 / np.einsum("kgh,kgh->k", gram, gram)
    surplus = ratio - expected
    mean = max(freedom @ surplus / freedom.sum(), 0.0)
    growth = 1 + np.maximum(
        (freedom * surplus + POOLED_FREEDOM * mean) / (freedom + POOLED_FREEDOM), 0.0
    )
    np.testing.assert_allclose(found.std, np.sqrt(noise * growth), rtol=1e-9)
    np.testing.assert_allclose(found.degrees_of_freedom, freedom + POOLED_FREEDOM, rtol=1e-9)
    assert growth.max() > 1.5


@pytest.mark.parametrize(
    "estimator",
    [LeastSquares(), WeightedLeastSquares(), GaussMarkov()],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("missed", [0.0, 0.3])
def test_streamed_and_in_memory_give_the_same_standard_deviations(
    estimator: Any, mask: bool, missed: float
) -> None:
    parts = [make(k, t=t, rows=3, missed=missed, motion=k) for k, t in enumerate((850, 450, 1150))]
    whole = concatenate(parts)
    if mask:
        whole = replace(whole, mask=np.random.default_rng(3).random(whole.effort.shape) > 0.1)
    a = estimator.fit(whole)
    for size in (7, 611):
        b = estimator.fit(block_statistics(whole.blocks(size), joint=True))
        assert b.uncertainty == a.uncertainty == ("blocks" if missed else "white")
        np.testing.assert_allclose(b.values, a.values, rtol=1e-9)
        np.testing.assert_allclose(b.std, a.std, rtol=1e-7)
        np.testing.assert_allclose(b.degrees_of_freedom, a.degrees_of_freedom, rtol=1e-7)
        assert b.notices == a.notices
        for one, two in zip(a.sources, b.sources, strict=True):
            assert (one.kind, one.count) == (two.kind, two.count)
            np.testing.assert_allclose(two.std, one.std, rtol=1e-7)


def test_samples_in_another_order_give_the_same() -> None:
    whole = concatenate([make(k, t=900, motion=k, missed=0.3) for k in range(3)])
    mixed = whole.take(np.random.default_rng(0).permutation(len(whole)))
    a, b = WeightedLeastSquares().fit(whole), WeightedLeastSquares().fit(mixed)
    np.testing.assert_allclose(b.std, a.std, rtol=1e-7)


def test_model_error_shows_between_halves_and_is_in_the_standard_deviations() -> None:
    """What noise alone says is wrong by several sigmas; with stretches left out halves agree."""
    noise, honest = [], []
    for motion in range(8):
        whole = make(t=4800, missed=0.6, motion=motion)
        a, b = (WeightedLeastSquares().fit(part) for part in whole.blocks(2400))
        assert a.uncertainty == b.uncertainty == "blocks"
        noise.append((a.values - b.values) / np.hypot(a.white_std, b.white_std))
        honest.append((a.values - b.values) / np.hypot(a.std, b.std))
    assert np.sqrt(np.mean(np.square(noise))) > 2
    assert 0.5 < np.sqrt(np.mean(np.square(honest))) < 1.3


@repeated(20, 150)
@pytest.mark.parametrize(
    "estimator", [WeightedLeastSquares(), GaussMarkov()], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("recordings", [1, 4])
def test_clean_data_are_not_widened(estimator: Any, recordings: int, trials: int) -> None:
    wide, inside, ratio = 0, [], []
    for seed in range(trials):
        parts = [make(seed, t=2400 // recordings, motion=k) for k in range(recordings)]
        found = estimator.fit(concatenate(parts))
        wide += found.uncertainty != "white"
        ratio.append(found.std / found.white_std)
        low, high = found.interval().T
        inside.append((low < TRUTH) & (high > TRUTH))
    assert wide <= 0.05 * trials  # one in a hundred by design, for each of two tests
    # four logs cannot show that they agree: what scatter there is enters, by a tenth on average
    assert np.mean(ratio) < (1.02 if recordings == 1 else 1.15)
    assert_covers(inside, 0.93, 0.98)


@repeated(25, 60)
def test_recordings_that_disagree_are_said_and_their_mean_is_covered(trials: int) -> None:
    """Each recording of a robot has parameters of its own; the intervals hold their mean."""
    inside, said = [], 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 8])
        parts = []
        for k in range(5):
            own = make(seed, t=400, motion=k)
            parts.append(
                replace(own, effort=own.effort + own.regressor @ (0.3 * rng.normal(size=4)))
            )
        found = WeightedLeastSquares().fit(concatenate(parts))
        said += any(
            "does not generalise from one motion to another" in str(notice)
            for notice in found.notices
        )
        low, high = found.interval().T
        inside.append((low < TRUTH) & (high > TRUTH))
    assert said == trials
    assert found.uncertainty == "logs"
    assert_covers(inside, 0.9, 0.995)


def test_few_logs_widen_all_parameters_by_one_factor_and_many_each_its_own() -> None:
    rng = np.random.default_rng(5)
    logs = []
    for k in range(10):
        log = make(1, t=400, motion=k)
        change = np.array([0.5, 0.0, 0.0, 0.0]) * rng.normal()
        logs.append(replace(log, effort=log.effort + log.regressor @ change))
    few = WeightedLeastSquares().fit(concatenate(logs[:4]))
    by_blocks = {source.kind: source for source in few.sources}["blocks"]
    factor = few.std / by_blocks.std
    np.testing.assert_allclose(factor, factor[0], rtol=1e-3)
    assert factor[0] > 1.5
    many = WeightedLeastSquares().fit(concatenate(logs))
    by_blocks = {source.kind: source for source in many.sources}["blocks"]
    factor = many.std / by_blocks.std
    assert factor[0] > 1.2 * factor[1:].max()


def test_the_scatter_between_logs_enters_though_chance_explains_it() -> None:
    """One factor from the surplus of all parameters; without surplus nothing changes."""
    factors = []
    for seed in range(8):
        found = WeightedLeastSquares().fit(
            concatenate([make(seed, t=400, motion=k) for k in range(3)])
        )
        before = {source.kind: source for source in found.sources}[found.uncertainty]
        factors.append(found.std / before.std)
        text = " ".join(str(notice) for notice in found.notices)
        assert "generalise" not in text
        assert ("no more than chance explains" in text) == (factors[-1].max() > 1 + 1e-9)
    assert np.ptp(factors, axis=1).max() < 1e-3
    assert 1.01 < np.max(factors) < 2
    assert np.min(factors) == pytest.approx(1)


def test_one_log_says_that_repeatability_was_not_tested() -> None:
    one = WeightedLeastSquares().fit(make(t=400))
    two = WeightedLeastSquares().fit(concatenate([make(t=400), make(1, t=400, motion=1)]))
    assert "there is one log" in " ".join(str(notice) for notice in one.notices)
    assert "there is one log" not in " ".join(str(notice) for notice in two.notices)


def test_recordings_of_one_robot_are_not_said_to_disagree() -> None:
    found = WeightedLeastSquares().fit(concatenate([make(3, t=400, motion=k) for k in range(5)]))
    assert not any("generalise" in str(notice) for notice in found.notices)
    assert [source.kind for source in found.sources] == ["white", "blocks", "logs"]
    assert [source.count for source in found.sources] == [0, 20, 5]


def test_a_parameter_that_one_recording_alone_shows_keeps_its_deviation() -> None:
    """Without that recording nothing is known of it: no scatter to judge by, and none to inflate
    it.
    """
    parts = [make(0, t=1500, motion=k) for k in range(4)]
    for k in (1, 2, 3):
        regressor = parts[k].regressor.copy()
        regressor[:, :, 3] = 0.0
        parts[k] = replace(
            parts[k],
            regressor=regressor,
            effort=parts[k].effort - 3.0 * parts[k].regressor[:, :, 3],
        )
    found = WeightedLeastSquares().fit(concatenate(parts))
    assert found.std[3] == pytest.approx(found.white_std[3])
    rng = np.random.default_rng(4)
    spoilt = [
        replace(p, effort=p.effort + p.regressor @ np.append(rng.normal(size=3), 0.0))
        for p in parts
    ]
    loud = WeightedLeastSquares().fit(concatenate(spoilt))
    assert loud.uncertainty == "logs"
    assert (loud.std[:3] > 10 * loud.white_std[:3]).all()
    assert np.isfinite(loud.std[3])


def test_pieces_hold_whole_groups_and_never_two_recordings() -> None:
    parts = [make(k, t=900, motion=k, group=np.arange(900) // 50) for k in range(6)]
    found = block_statistics(concatenate(parts).blocks(333))
    assert len(found)
    assert found.repeats
    assert 40 < len(found.block_factors) <= 80
    assert (found.block_samples % 50 == 0).all()
    np.testing.assert_array_equal(np.bincount(found.recording, found.block_samples), [900] * 6)
    grams = np.einsum("urkc,urkd->rcd", found.block_factors, found.block_factors)
    np.testing.assert_allclose(
        grams, np.einsum("rkc,rkd->rcd", found.factors, found.factors), atol=1e-9
    )
    assert "blocks" not in {
        source.kind for source in LeastSquares().fit(found).sources
    }  # groups repeat a motion


def test_sources_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInput, match="enough logs"):
        LeastSquares(uncertainty="logs").fit(make())
    with pytest.raises(InvalidInput, match="enough blocks"):
        LeastSquares(uncertainty="blocks").fit(make(t=40))
    two = concatenate([make(), make(1, motion=1)])
    assert LeastSquares(uncertainty="logs").fit(two).uncertainty == "logs"


def test_repetitions_of_several_recordings_are_scattered_recording_by_recording() -> None:
    """Three recordings with 6, 5 and 9 repetitions: the covariance is that of solving each
    repetition apart.
    """
    rng, parts, counts = np.random.default_rng(1), [], (6, 5, 9)
    for motion, count in enumerate(counts):
        clean = make(t=200, motion=motion)
        repeats = clean.regressor @ TRUTH + rng.normal(size=(count, 200, 2))
        parts.append(replace(clean, effort=repeats.mean(axis=0), replicates=repeats))
    whole = concatenate(parts)
    found = LeastSquares(uncertainty="period").fit(whole)
    W = whole.regressor.reshape(-1, 4)
    hat = np.linalg.solve(W.T @ W, W.T).reshape(4, -1, 2)
    total = np.zeros((4, 4))
    for k, (part, count) in enumerate(zip(parts, counts)):
        assert part.replicates is not None
        shifts = np.einsum(
            "pts,kts->kp", hat[:, whole.recording == k], part.replicates - part.effort
        )
        total += shifts.T @ shifts / (count * (count - 1))
    np.testing.assert_allclose(found.covariance, total, rtol=1e-9)
    assert (found.degrees_of_freedom > 8).all()
    assert (found.degrees_of_freedom <= 17 + 1e-9).all()
    assert "6+5+9 repetitions" in str(found.notices[0])


def test_few_logs_that_are_said_to_disagree_widen_standard_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What widens all parameters by one factor is not decided by a single one."""
    monkeypatch.setattr(uncertainty, "SURPLUS_PROBABILITY", 0.3)
    factors = []
    for seed in range(25):
        logs = [make(seed, t=400, motion=k) for k in range(3)]
        estimate = WeightedLeastSquares().fit(concatenate(logs))
        if estimate.uncertainty == "logs":
            noise = next(source for source in estimate.sources if source.kind == "blocks")
            factors.append(float((estimate.std / noise.std).max()))
    assert len(factors) > 3
    assert min(factors) > 1.05
