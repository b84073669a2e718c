"""A load over time: what was known of it when, and where it changed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.statistics import f_tail
from gough.estimators.load.fit import LoadProblem, seen
from gough.estimators.uncertainty import long_run_covariance

PIECES = 100  # of a log, between which a load is looked at
SHORTEST = 8  # samples of a piece
FEWEST = 3  # pieces on each side of a change
MOST = 4  # changes looked for
SMALL = 0.01  # a stretch with less than this of what is known along a direction says nothing of it
FALSE_ALARM = 1e-3  # chance of a change being seen in a log without one, if errors between pieces are independent


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """What was known of a load after each piece of the logs.

    Args:
        time: Of the last sample of each piece, (k,). [s]
        values: (k, p).
        std: As white noise of the stated size gives them, (k, p).
    """

    time: FloatArray
    values: FloatArray
    std: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Whitened equations of consecutive pieces, condensed.

    Args:
        edges: First sample of each piece and the end, (k + 1,).
        grams: [W y]^T [W y], (k, p + 1, p + 1).
        noise: What noise of the positions makes of it, (k, p + 1, p + 1).
        zone: Of the first and the last sample of each piece, (k, 2): filters smear a change over one of them.
    """

    edges: IntArray
    grams: FloatArray
    noise: FloatArray
    zone: FloatArray

    @classmethod
    def of(cls, problem: LoadProblem, covariance: FloatArray, zone: FloatArray) -> Pieces:
        """Return the pieces of a problem; none reaches over the end of a recording or a period.

        Args:
            covariance: Noise of its rows, (r, r).
            zone: Time of each sample in units of what filters smear a change over, (t,).
        """
        data, edges = problem.regression, [0]
        breaks = [np.flatnonzero(np.diff(label)) + 1 for label in (data.recording, data.group) if label is not None]
        ends = [0, *np.unique(np.concatenate(breaks)).tolist(), len(data)] if breaks else [0, len(data)]
        for start, stop in pairwise(ends):
            count = max(1, min(round(PIECES * (stop - start) / len(data)), (stop - start) // SHORTEST))
            edges += np.linspace(start, stop, count + 1).astype(int)[1:].tolist()
        rows = data.whitened(covariance).stacked()
        parts = [rows[a:b].reshape(-1, rows.shape[2]) for a, b in pairwise(edges)]
        lengths = np.diff(edges)[:, None, None]
        return cls(edges=np.array(edges), grams=np.stack([part.T @ part for part in parts]),
                   noise=lengths * problem.of_noise(covariance),
                   zone=np.column_stack([zone[edges[:-1]], zone[np.array(edges[1:]) - 1]]))


def history(pieces: Pieces, time: FloatArray, prior_std: FloatArray, memory: float | None = None) -> History:
    """Return what was known after each piece.

    Args:
        pieces: The data.
        time: Of all samples, (t,). [s]
        prior_std: How large parameters can be, (p,).
        memory: Time after which a sample counts 1 / e; for ever by default. [s]
    """
    ends = time[pieces.edges[1:] - 1]
    gram, noise = np.zeros_like(pieces.grams[0]), np.zeros_like(pieces.grams[0])
    values, std = [], []
    for k, (new, blur) in enumerate(zip(pieces.grams, pieces.noise)):
        keep = 1.0 if memory is None or k == 0 else float(np.exp(-abs(ends[k] - ends[k - 1]) / memory))
        gram, noise = keep * gram + new, keep * noise + blur
        found = seen(gram, noise, prior_std)
        values.append(found.values)
        std.append(np.sqrt(np.diag(found.white)))
    return History(time=ends, values=np.array(values), std=np.array(std))


def changes(pieces: Pieces, prior_std: FloatArray) -> list[int]:
    """Return the pieces with which another load begins, in the order of time.

    Cuts are put where they explain most, `MOST` of them; then the weakest is taken back as long as its two sides do
    not differ by more than chance. How much pieces scatter, model errors included, is what all cuts leave. Cuts within
    what filters smear a change over are one.
    """
    whole, useful = seen(pieces.grams.sum(axis=0), pieces.noise.sum(axis=0), prior_std), pieces.grams - pieces.noise
    half, p = whole.along / np.sqrt(whole.information), len(prior_std)
    if not half.shape[1]:
        return []
    scores = _Scores(share=half.T @ useful[:, :p, :p] @ half,
                     score=(useful[:, :p, p] - useful[:, :p, :p] @ whole.values) @ half)
    cuts: list[int] = []
    for _ in range(MOST):
        ends = [0, *cuts, len(scores.score)]
        tried = {cut: scores.test(a, cut, b)[0] for a, b in pairwise(ends) for cut in range(a + FEWEST, b - FEWEST + 1)}
        if tried:
            cuts = sorted([*cuts, max(tried, key=lambda cut: tried[cut])])
    while cuts:
        ends = [0, *cuts, len(scores.score)]
        spread, _, freedom = long_run_covariance(scores.left(ends))
        std = np.sqrt(np.diag(spread))
        chance = []
        for a, cut, b in zip(ends, cuts, ends[2:]):
            size, count = scores.test(a, cut, b, std)
            chance.append(f_tail(size / count, count, float(freedom.min())) * len(scores.score) if count else 1.0)
        weakest = int(np.argmax(chance))
        if chance[weakest] < FALSE_ALARM:
            break
        del cuts[weakest]
    return _joined(scores, pieces.zone, cuts)


def _joined(scores: _Scores, zone: FloatArray, cuts: list[int]) -> list[int]:
    """Return one cut, that explains most, for those that are one change smeared."""
    groups: list[list[int]] = []
    for cut in cuts:
        if groups and zone[cut - 1, 1] - zone[groups[-1][-1], 0] < 1:
            groups[-1].append(cut)
        else:
            groups.append([cut])
    ends = [0, *(group[-1] for group in groups[:-1]), *(group[0] for group in groups[1:]), len(scores.score)]
    starts, stops = ends[:len(groups)], ends[len(groups):]
    best = []
    for group, start, stop in zip(groups, starts, stops):
        tried = {scores.test(start, cut, stop)[0]: cut for cut in range(group[0], group[-1] + 1)}
        best.append(tried[max(tried)])
    return best


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scores:
    """Pieces seen along q directions scaled to information 1 in all.

    Args:
        share: S of each piece in the information, (k, q, q).
        score: u of each piece at the common solution, (k, q).
    """

    share: FloatArray
    score: FloatArray

    def inside(self, start: int, stop: int) -> slice:
        """Return the pieces of a stretch without those beside its cuts, in which there may be both loads."""
        return slice(start + (start > 0), stop - (stop < len(self.score)))

    def test(self, start: int, cut: int, stop: int, std: FloatArray | None = None) -> tuple[float, int]:
        """Return the score test of a cut in a stretch, and over how many directions it is.

        With S1, u1 the sums before the cut and S, u those of the stretch, d = u1 - S1 S^-1 u has the covariance
        V = S1 - S1 S^-1 S1 under noise of variance 1: d^T V^-1 d. Once it is known how large noise is, `std` (q,), the
        pieces beside cuts are left out.
        """
        sides = [slice(start, cut), slice(cut, stop)] if std is None else [
            self.inside(start, cut), self.inside(cut, stop)]
        before, after = (self.share[side].sum(axis=0) for side in sides)
        own, other = (self.score[side].sum(axis=0) for side in sides)
        back = before @ _inverse(before + after)
        gap = own - back @ (own + other)
        weight, axes = np.linalg.eigh(before - back @ before)
        clear = weight > SMALL
        turned = axes[:, clear].T @ (gap if std is None else gap / np.maximum(std, np.finfo(float).tiny))
        return float((turned**2 / weight[clear]).sum()), int(clear.sum())

    def left(self, ends: list[int]) -> FloatArray:
        """Return the scores inside stretches with a load of its own in each, (k, q)."""
        left = []
        for side in (self.inside(a, b) for a, b in pairwise(ends)):
            own = _inverse(self.share[side].sum(axis=0)) @ self.score[side].sum(axis=0)
            left.append(self.score[side] - self.share[side] @ own)
        return np.concatenate(left)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a share of the information where that is not too small."""
    weight, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    clear = weight > SMALL
    return np.asarray((axes[:, clear] / weight[clear]) @ axes[:, clear].T)
