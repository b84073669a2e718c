"""Factors merge: the same bits in any order of arrival, the same answer as all samples at once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gough.core.errors import InvalidInput
from gough.fitting.least_squares import GaussMarkov, WeightedLeastSquares
from gough.fitting.log_statistics import (
    LogStatistics,
    _digest,
    load_log_statistics,
    merge_all,
    merge_log_statistics,
)
from gough.fitting.regression import MAX_BLOCKS, Regression, concatenate, merge

MADE = {"robot": "a", "processing": "b", "parameters": "c", "version": "1"}


def problem(seed: int, samples: int = 400, memory: float = 0.0) -> Regression:
    rng = np.random.default_rng(seed)
    regressor = rng.standard_normal((samples, 2, 3))
    noise = rng.standard_normal((samples, 2))
    for k in range(1, samples):
        noise[k] += memory * noise[k - 1]
    return Regression(
        regressor=regressor,
        effort=regressor @ np.array([1.0, -2.0, 0.5]) + 0.1 * noise,
        rows=("one", "two"),
        row_units=("N", "N"),
        parameters=("a.m", "b.m", "c.m"),
        units=("kg",) * 3,
        mask=rng.random((samples, 2)) > 0.1,
    )


def factor(seed: int, memory: float = 0.0, **made: str) -> LogStatistics:
    one = problem(seed, memory=memory)
    data, there = one.stacked(), one.valid
    return LogStatistics(
        made_from=MADE | made,
        logs=(hashlib.sha256(str(seed).encode()).hexdigest(),),
        sources=(f"log{seed}",),
        statistics=one.statistics(joint=True),
        lagged=np.einsum("tri,trj->rij", data[:-1], data[1:]),
        pairs=(there[:-1] & there[1:]).sum(axis=0),
    )


@pytest.mark.parametrize("count", [2, 5, 9])
def test_merged_factors_give_the_estimate_of_all_samples(count: int) -> None:
    merged = merge_all([partial(factor, k) for k in range(count)]).statistics
    whole = concatenate([problem(k) for k in range(count)])
    for estimator in (GaussMarkov(uncertainty="white"), WeightedLeastSquares(uncertainty="white")):
        one, all_at_once = estimator.fit(merged), estimator.fit(whole)
        assert one.values == pytest.approx(all_at_once.values, rel=1e-10)
        assert one.covariance == pytest.approx(all_at_once.covariance, rel=1e-8)
        assert one.residual_mean == pytest.approx(all_at_once.residual_mean, rel=1e-8)
    assert merged.samples == len(whole)
    assert merged.n_valid.tolist() == whole.n_valid.tolist()


def test_stretches_and_recordings_survive_merging() -> None:
    merged = merge_all([partial(factor, k) for k in range(5)]).statistics
    whole = concatenate([problem(k) for k in range(5)]).statistics(joint=True)
    assert len(np.unique(merged.recording)) == 5
    one, other = (
        WeightedLeastSquares(uncertainty="logs").fit(merged),
        (WeightedLeastSquares(uncertainty="logs").fit(whole)),
    )
    assert one.std == pytest.approx(other.std, rel=1e-8)


def test_pieces_stay_few_however_many_logs() -> None:
    merged = problem(0).statistics()
    for k in range(1, 3 * MAX_BLOCKS):
        merged = merge(merged, problem(k, samples=10).statistics())
    assert len(merged.block_factors) <= MAX_BLOCKS
    assert merged.block_samples.sum() == merged.samples == 400 + 10 * (3 * MAX_BLOCKS - 1)


def test_the_tree_is_fixed_by_number_and_order() -> None:
    def text(factors: list[LogStatistics]) -> bytes:
        return merge_all([partial(load_log_statistics, f.to_bytes()) for f in factors]).to_bytes()

    some = [factor(k) for k in range(6)]
    assert text(some) == text([factor(k) for k in range(6)])
    by_hand = merge_log_statistics(
        merge_log_statistics(
            merge_log_statistics(some[0], some[1]), merge_log_statistics(some[2], some[3])
        ),
        merge_log_statistics(some[4], some[5]),
    )
    assert by_hand.to_bytes() == text(some)


def test_a_factor_reads_back_to_the_last_bit_and_numpy_opens_it(tmp_path: Path) -> None:
    one = factor(3)
    path = one.save(tmp_path)
    assert path.stem == one.key
    assert load_log_statistics(path).to_bytes() == one.to_bytes()
    with np.load(path, allow_pickle=False) as stored:
        assert stored["blocks"].shape[1:] == (2, 4, 4)  # triangular


def test_whiteness_is_that_of_the_samples() -> None:
    white, coloured = factor(1), factor(1, memory=0.6)
    truth = np.array([1.0, -2.0, 0.5])
    rho, chance = coloured.whiteness(truth)
    left, there = problem(1, memory=0.6).residual(truth), problem(1).valid
    pairs = (there[1:] & there[:-1]).sum(axis=0)
    expected = (
        (left[1:] * left[:-1]).sum(axis=0) / pairs / ((left**2).sum(axis=0) / there.sum(axis=0))
    )
    assert rho == pytest.approx(expected, rel=1e-9)
    assert (chance < 1e-6).all()
    assert (white.whiteness(truth)[1] > 0.01).all()
    assert chance == pytest.approx(stats.chi2.sf(pairs * expected**2, 1), rel=1e-6)


@pytest.mark.parametrize(
    "what", ["cut", "changed", "renamed", "packed otherwise", "short", "foreign"]
)
def test_damaged_and_foreign_files_are_refused_by_name(what: str, tmp_path: Path) -> None:
    path = factor(0).save(tmp_path)
    data = bytearray(path.read_bytes())
    if what == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif what == "changed":
        place = data.index(factor(0).statistics.blocks[0, 0, 0].tobytes())
        data[place] ^= 1
        path.write_bytes(data)
    elif what == "packed otherwise":
        data[data.index(b"PK\x01\x02") + 6] = 91  # the version of ZIP that is needed to unpack it
        path.write_bytes(data)
    elif what == "short":
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files if name != "facts"}
            facts = json.loads(str(stored["facts"]))
        arrays["joint_block"] = arrays["joint_block"][:-1]
        np.savez(path, facts=np.array(json.dumps(facts | {"sha256": _digest(arrays)})), **arrays)
    elif what == "renamed":
        path = path.rename(tmp_path / f"{'0' * 64}.npz")
    else:
        np.savez(path, time=np.arange(3))
    with pytest.raises(InvalidInput, match=path.name):
        load_log_statistics(path)


def test_only_factors_made_alike_merge() -> None:
    with pytest.raises(InvalidInput, match=r"log1 was reduced with another processing than log0"):
        merge_log_statistics(factor(0), factor(1, processing="other"))
    with pytest.raises(InvalidInput, match="counted twice"):
        merge_log_statistics(factor(0), factor(0))
    with pytest.raises(InvalidInput, match="side by side"):
        merge(factor(0).statistics, replace(factor(1).statistics, joint=None))
