"""A load over time: its values after each block of the logs, and where another load begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.statistics import f_tail
from gough.fitting.autocorrelation import long_run_covariance
from gough.fitting.load_fit import LoadProblem, observe_load
from gough.fitting.regression import Regression, statistics_by_label

MAX_LOAD_BLOCKS = 100  # of all logs together
MIN_LOAD_BLOCK_SAMPLES = 8  # samples of the shortest block
MIN_BLOCKS_BESIDE_CHANGE = 3  # on each side of a change
# Numbers of changes that are looked for; as long as one is missed, the
# others look like noise.
SOUGHT_LOAD_CHANGES = (4, 8, 16, 32)
# A block with less than this fraction of the information along a
# direction is not used there.
MIN_DIRECTION_INFORMATION = 0.01
# Probability of a change in a log without one, if errors between blocks
# are independent.
LOAD_CHANGE_FALSE_ALARM = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadBlocks:
    """Statistics of the whitened equations of consecutive blocks."""

    edges: IntArray  # first sample of each block and the end, (k + 1,)
    grams: FloatArray  # [W y]^T [W y], (k, p + 1, p + 1)
    # the part of it that is noise of the positions, (k, p + 1, p + 1)
    noise: FloatArray
    # time of the first and the last sample of each block in units of
    # the response time of the filters, (k, 2)
    filter_time: FloatArray

    @classmethod
    def of(
        cls, problem: LoadProblem, covariance: FloatArray, filter_time: FloatArray
    ) -> LoadBlocks:
        """Return the blocks of a problem; none crosses logs or periods.

        Args:
            problem: Equations of the load.
            covariance: Noise of the rows, (r, r).
            filter_time: Time of each sample in units of the response
                time of the filters, (t,).
        """
        regression = problem.regression
        edges = _block_edges(regression)
        label = np.searchsorted(edges, np.arange(len(regression)), side="right") - 1
        n_blocks = len(edges) - 1
        white = regression.whitened(covariance)
        statistics = statistics_by_label(white, label, n_blocks)
        last = edges[1:] - 1
        return cls(
            edges=edges,
            grams=statistics.grams.sum(axis=1),
            noise=np.diff(edges)[:, None, None] * problem.of_noise(covariance),
            filter_time=np.column_stack([filter_time[edges[:-1]], filter_time[last]]),
        )


def _block_edges(regression: Regression) -> IntArray:
    """Return the first sample of each block and the end, (k + 1,)."""
    n_samples = len(regression)
    borders = [0, n_samples]
    for label in (regression.recording, regression.group):
        if label is not None:
            borders += (np.flatnonzero(np.diff(label)) + 1).tolist()
    edges = [0]
    for start, stop in pairwise(sorted(set(borders))):
        wanted = round(MAX_LOAD_BLOCKS * (stop - start) / n_samples)
        possible = (stop - start) // MIN_LOAD_BLOCK_SAMPLES
        n_blocks = max(1, min(wanted, possible))
        edges += np.linspace(start, stop, n_blocks + 1).astype(int)[1:].tolist()
    return np.array(edges)


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """Values of a load after each block of the logs."""

    time: FloatArray  # of the last sample of each block, (k,) [s]
    values: FloatArray  # (k, p)
    # standard errors under white noise of the stated size, (k, p)
    std: FloatArray


def history(
    blocks: LoadBlocks,
    time: FloatArray,
    prior_std: FloatArray,
    forgetting_time: float | None = None,
) -> History:
    """Return the values of a load after each block.

    Args:
        blocks: Statistics of consecutive blocks.
        time: Of all samples, (t,). [s]
        prior_std: How large parameters can be, (p,).
        forgetting_time: Time after which a sample has the weight 1 / e;
            infinite by default. [s]
    """
    ends = time[blocks.edges[1:] - 1]
    gram = np.zeros_like(blocks.grams[0])
    noise = np.zeros_like(blocks.grams[0])
    values = []
    std = []
    for k, end in enumerate(ends):
        weight = 1.0
        if forgetting_time is not None and k > 0:
            weight = float(np.exp(-abs(end - ends[k - 1]) / forgetting_time))
        gram = weight * gram + blocks.grams[k]
        noise = weight * noise + blocks.noise[k]
        known = observe_load(gram, noise, prior_std)
        values.append(known.values)
        std.append(np.sqrt(np.diag(known.white)))
    return History(time=ends, values=np.array(values), std=np.array(std))


class _Cut(NamedTuple):
    """A cut inside a range of blocks."""

    start: int
    at: int
    stop: int


def changes(blocks: LoadBlocks, prior_std: FloatArray) -> list[int]:
    """Return the blocks with which another load begins, in the order of time.

    The best cuts are found one by one, as many as
    `SOUGHT_LOAD_CHANGES`; then the weakest is removed as long as the
    difference between its two sides is not significant. The scatter of
    the blocks, with errors of the model, is estimated from the residual
    of all cuts. More are sought as long as that lowers the Bayesian
    information criterion, and the cuts with the least criterion are
    used. Cuts within the response time of the filters are one.
    """
    whole = observe_load(blocks.grams.sum(axis=0), blocks.noise.sum(axis=0), prior_std)
    if not whole.observed_directions.shape[1]:
        return []
    p = len(prior_std)
    useful = blocks.grams - blocks.noise
    directions = whole.observed_directions / np.sqrt(whole.information)
    residual = useful[:, :p, p] - useful[:, :p, :p] @ whole.values
    scores = _BlockScores(
        information=directions.T @ useful[:, :p, :p] @ directions, score=residual @ directions
    )
    cuts: list[int] = []
    sought: list[int] = []
    for count in SOUGHT_LOAD_CHANGES:
        fewer = sought
        sought = scores.with_strongest_cuts(fewer, count)
        kept = scores.significant_cuts(sought)
        if scores.information_criterion(kept) < scores.information_criterion(cuts):
            cuts = kept
        if scores.information_criterion(sought) >= scores.information_criterion(fewer):
            break
    return _merge_near_cuts(scores, cuts, blocks.filter_time)


def _merge_near_cuts(
    scores: _BlockScores, cuts: Sequence[int], filter_time: FloatArray
) -> list[int]:
    """Replace cuts within the response time of the filters by the best one between them."""
    groups: list[list[int]] = []
    for cut in cuts:
        if groups and filter_time[cut - 1, 1] - filter_time[groups[-1][-1], 0] < 1:
            groups[-1].append(cut)
        else:
            groups.append([cut])
    merged = []
    for k, group in enumerate(groups):
        start = groups[k - 1][-1] if k > 0 else 0
        stop = groups[k + 1][0] if k + 1 < len(groups) else len(scores.score)
        tried = [_Cut(start, at, stop) for at in range(group[0], group[-1] + 1)]
        merged.append(scores.best(tried).at)
    return merged


@dataclass(frozen=True, kw_only=True, eq=False)
class _BlockScores:
    """Blocks along q directions that are scaled to information 1 in all."""

    information: FloatArray  # S of each block, (k, q, q)
    score: FloatArray  # u of each block at the common solution, (k, q)

    def with_strongest_cuts(self, cuts: Sequence[int], count: int) -> list[int]:
        """Return cuts with those added, one by one, that explain most, `count` in all."""
        cuts = list(cuts)
        best_of_range: dict[tuple[int, int], _Cut | None] = {}
        while len(cuts) < count:
            candidates = []
            for start, stop in pairwise([0, *cuts, len(self.score)]):
                if (start, stop) not in best_of_range:
                    best_of_range[start, stop] = self._best_between(start, stop)
                best = best_of_range[start, stop]
                if best is not None:
                    candidates.append(best)
            if not candidates:
                break
            cuts = sorted([*cuts, self.best(candidates).at])
        return cuts

    def _best_between(self, start: int, stop: int) -> _Cut | None:
        """Return the cut of a range of blocks that explains most; None if the range is short."""
        first = start + MIN_BLOCKS_BESIDE_CHANGE
        last = stop - MIN_BLOCKS_BESIDE_CHANGE
        if first > last:
            return None
        return self.best([_Cut(start, at, stop) for at in range(first, last + 1)])

    def information_criterion(self, cuts: Sequence[int]) -> float:
        """Return the Bayesian information criterion of a load of its own between cuts.

        Of n residuals of mean square v and p values, n ln v + p ln n.
        """
        count, n_directions = self.score.shape
        ends = [0, *cuts, count]
        squares = 0.0
        for start, stop in pairwise(ends):
            side = slice(start, stop)
            load = _inverse(self.information[side].sum(axis=0)) @ self.score[side].sum(axis=0)
            residual = self.score[side] - self.information[side] @ load
            for block_residual, information in zip(residual, self.information[side]):
                squares += float(block_residual @ _inverse(information) @ block_residual)
        n_residuals = count * n_directions
        mean_square = max(squares / n_residuals, TINY)
        n_values = len(cuts) + 1 + n_directions * (len(cuts) + 1)
        return float(n_residuals * np.log(mean_square) + n_values * np.log(n_residuals))

    def significant_cuts(self, cuts: list[int]) -> list[int]:
        """Remove the weakest cut until all are significant."""
        count = len(self.score)
        while cuts:
            ends = [0, *cuts, count]
            scatter, _, freedom = long_run_covariance(self.residual_scores(ends))
            std = np.sqrt(np.diag(scatter))
            probability = []
            for start, at, stop in zip(ends, cuts, ends[2:]):
                statistic, n_directions = self.test(_Cut(start, at, stop), std)
                tail = 1.0
                if n_directions:
                    ratio = statistic / n_directions
                    tail = f_tail(ratio, n_directions, float(freedom.min())) * count
                probability.append(tail)
            weakest = int(np.argmax(probability))
            if probability[weakest] < LOAD_CHANGE_FALSE_ALARM:
                break
            cuts = [*cuts[:weakest], *cuts[weakest + 1 :]]
        return cuts

    def inside(self, start: int, stop: int) -> slice:
        """Return a range of blocks without those beside its cuts, which may hold both loads."""
        return slice(start + (start > 0), stop - (stop < len(self.score)))

    def best(self, tried: Sequence[_Cut]) -> _Cut:
        """Return the cut that explains most."""
        return max(tried, key=lambda cut: self.test(cut)[0])

    def test(self, cut: _Cut, std: FloatArray | None = None) -> tuple[float, int]:
        """Return the score test of a cut, and its number of directions.

        With S1, u1 the sums before the cut and S, u those of the range,
        d = u1 - S1 S^-1 u has the covariance V = S1 - S1 S^-1 S1 under
        noise of variance 1: d^T V^-1 d. Once the noise is known, `std`
        (q,), the blocks beside cuts are left out.
        """
        first = slice(cut.start, cut.at)
        second = slice(cut.at, cut.stop)
        if std is not None:
            first = self.inside(cut.start, cut.at)
            second = self.inside(cut.at, cut.stop)
        before = self.information[first].sum(axis=0)
        after = self.information[second].sum(axis=0)
        score_before = self.score[first].sum(axis=0)
        score_after = self.score[second].sum(axis=0)
        back = before @ _inverse(before + after)
        difference = score_before - back @ (score_before + score_after)
        if std is not None:
            difference = difference / np.maximum(std, TINY)
        variance, axes = np.linalg.eigh(before - back @ before)
        usable = variance > MIN_DIRECTION_INFORMATION
        along = axes[:, usable].T @ difference
        return float((along**2 / variance[usable]).sum()), int(usable.sum())

    def residual_scores(self, ends: list[int]) -> FloatArray:
        """Return the residual scores if each range of blocks has its own load, (k, q)."""
        residuals = []
        for start, stop in pairwise(ends):
            side = self.inside(start, stop)
            total = self.information[side].sum(axis=0)
            load = _inverse(total) @ self.score[side].sum(axis=0)
            residuals.append(self.score[side] - self.information[side] @ load)
        return np.concatenate(residuals)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of an information matrix where it is not too small."""
    weight, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    usable = weight > MIN_DIRECTION_INFORMATION
    return np.asarray((axes[:, usable] / weight[usable]) @ axes[:, usable].T)
