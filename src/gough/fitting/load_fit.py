"""Parameters of a payload from the effort beyond that of the unloaded robot, and its changes.

With [W y] the whitened equations, G = W^T W their information, N what noise of the
positions alone would make of it and D how large the parameters of a load can be, the
directions v of

    (G - N) v = mu (N + D^-2) v

with mu + 1 below `MIN_OBSERVED_RATIO` are hidden: noise fills them, or a load of any kind
would look the same. Along the others, V, the equations give, without the attenuation by
noisy columns,

    V^T (N + D^-2) x = diag(1 / mu) V^T (W^T y - n),    n = what noise makes of W^T y,

whatever the hidden part of x, since the directions are orthogonal in G - N. Of all x with
that, the smallest in units of D is taken; the rest of what was open before stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.statistics import f_tail
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import EstimateCovariance
from gough.fitting.noise_information import MIN_OBSERVED_RATIO
from gough.fitting.regression import Regression
from gough.fitting.row_noise import (
    MIN_FREEDOM_PER_ROW,
    MIN_ROW_CORRELATION_EIGENVALUE,
)
from gough.fitting.uncertainty import (
    estimate_covariance,
    linear_influence,
    long_run_covariance,
    useful_samples,
)
from gough.fitting.whitening import whiten

# Alternations of noise and fit; the values then change by less than 0.1 standard errors
LOAD_FIT_ITERATIONS = 4
MAX_LOAD_BLOCKS = 100  # of all logs, between which a change of load is searched
MIN_LOAD_BLOCK_SAMPLES = 8
MIN_BLOCKS_BESIDE_CHANGE = 3  # on each side
MAX_LOAD_CHANGES = 4  # searched for
# Fraction of the information along a direction below which a block does not determine it
MIN_DIRECTION_INFORMATION = 0.01
# Probability of a change in a log without one, if errors of the blocks are independent
LOAD_CHANGE_FALSE_ALARM = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What equations tell of p parameters."""

    values: FloatArray  # the smallest that agree with the equations, (p,)
    along: FloatArray  # V, the q directions that are seen, (p, q) [parameter unit]
    information: FloatArray  # mu, on each of them, (q,)
    back: FloatArray  # from what is seen along them to the parameters, (p, q) [parameter unit]
    hidden: FloatArray  # square root of the covariance of what stays open, (p, p) [parameter unit]
    # changes of the parameters that the equations do not show, (k, p) [parameter unit]
    directions: FloatArray
    prior_std: FloatArray  # D, (p,) [parameter unit]
    over_noise: tuple[
        FloatArray, FloatArray
    ]  # V and mu of all directions, in units of D, (p, p) and (p,)

    @property
    def root(self) -> FloatArray:
        """Square root of the covariance that white noise of the stated size gives, (p, q)."""
        return np.asarray(self.back / np.sqrt(self.information))

    @property
    def white(self) -> FloatArray:
        """Covariance if noise is white and of the stated size, (p, p)."""
        return np.asarray(self.root @ self.root.T + self.hidden @ self.hidden.T)

    def ratio(self, contrasts: FloatArray) -> FloatArray:
        """Return the signal-to-noise ratio of combinations a x, a (k, p), (k,).

        Whatever the others, a x is seen along c = (G + D^-2)^-1 a: 1 + c^T (G - N) c / c^T
        (N + D^-2) c, of which 1 means nothing.
        """
        V, known = self.over_noise
        c = (V.T @ (contrasts * self.prior_std).T) / (
            known[:, None] + 1
        )  # along V, where N + D^-2 is 1
        below = (c**2).sum(axis=0)
        return np.asarray(
            1 + np.divide(known @ c**2, below, out=np.zeros(len(below)), where=below > 0)
        )


def seen(gram: FloatArray, noise: FloatArray, prior_std: FloatArray) -> Seen:
    """Return what equations tell.

    Args:
        gram, noise: [W y]^T [W y] of the whitened equations, and what noise of the
            positions alone makes of it, (p + 1, p + 1) each.
        prior_std: How large parameters can be, (p,): finite, so that "not observed" has a
            scale.
    """
    p = len(prior_std)
    scale = np.append(prior_std, 1.0)
    gram, noise = gram * np.outer(scale, scale), noise * np.outer(scale, scale)
    before = noise[:p, :p] + np.eye(p)
    lower, useful = cholesky(before, lower=True), gram - noise
    inner = solve_triangular(
        lower, solve_triangular(lower, useful[:p, :p], lower=True).T, lower=True
    )
    known, turned = np.linalg.eigh((inner + inner.T) / 2)
    V = solve_triangular(lower.T, turned)
    clear = known >= MIN_OBSERVED_RATIO - 1
    along, hidden = V[:, clear], V[:, ~clear].T
    frame, triangle = np.linalg.qr(before @ along)
    back = solve_triangular(triangle, frame.T).T
    values = back @ ((along.T @ useful[:p, p]) / known[clear])
    if len(
        hidden
    ):  # another basis of the same space, in which each direction has a parameter of its own
        hidden = np.linalg.solve(
            hidden[:, qr(hidden, mode="r", pivoting=True)[1][: len(hidden)]],
            hidden,
        )
    unit = prior_std[:, None]
    return Seen(
        values=values * prior_std,
        along=along * unit,
        information=known[clear],
        back=back * unit,
        hidden=(np.eye(p) - frame @ frame.T) * unit,
        prior_std=prior_std,
        over_noise=(V, known),
        directions=np.where(np.abs(hidden) < 0.02, 0.0, hidden) * prior_std,
    )


def in_words(names: tuple[str, ...], direction: FloatArray) -> str:
    """Return a direction as text, e.g. `Ixx - 0.98 Iyy`."""
    lead = direction[np.argmax(np.abs(direction) > 0)]
    text = ""
    for name, coefficient in zip(names, direction / lead):
        if coefficient:
            size = f"{abs(coefficient):.2g}"
            sign = (" - " if coefficient < 0 else " + ") if text else ""
            text += f"{sign}{'' if size == '1' else size + ' '}{name}"
    return text


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadProblem:
    """Equations of a load in the order of time: additional effort = W x + noise.

    Args:
        regression: W and that effort, (t, r, p) and (t, r).
        noise: Mean over the samples of d_i d_j^T for rows i and j, d the change of [W y]
            when the noise of the positions is drawn again, (r, r, p + 1, p + 1).
        model_error: Efforts by which the model of the unloaded robot may be wrong:
            independent ways, each of one standard deviation, (t, r, k). [row unit]
    """

    regression: Regression
    noise: FloatArray
    model_error: FloatArray

    def take(self, samples: slice | IntArray) -> LoadProblem:
        """Return the problem of some samples."""
        return replace(
            self,
            regression=self.regression.take(samples),
            model_error=self.model_error[samples],
        )

    def of_noise(self, covariance: FloatArray) -> FloatArray:
        """Return the contribution of position noise to [W y]^T Sigma^-1 [W y] of one sample."""
        return np.asarray(np.tensordot(np.linalg.inv(covariance), self.noise))


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadFit:
    """Values and what they are known by."""

    seen: Seen
    # covariance of the values with hidden directions and errors of the model, (p, p)
    uncertainty: EstimateCovariance
    model_std: FloatArray  # the part of the unloaded robot's model in the standard deviations, (p,)
    covariance: FloatArray  # noise of the rows, (r, r) [product of the row units]
    # [W y]^T [W y] of the whitened equations, and what noise makes of it, (2, p + 1, p + 1)
    grams: FloatArray


def fit(
    problem: LoadProblem,
    prior_std: FloatArray,
    weight: FloatArray | None = None,
) -> LoadFit:
    """Fit a load as large as `prior_std` (p,), with samples weighted by `weight` (t,).

    The error of the values is that of noise, by what the residuals show
    (`estimate_covariance`), of hidden directions, as large as before, and of the unloaded
    robot's model E, which enters all samples alike: diag(1 / mu) V^T W^T Sigma^-1 E.
    """
    data = problem.regression
    weight = np.ones(len(data)) if weight is None else weight
    values = weighted_fit(data.statistics()).values
    for _ in range(LOAD_FIT_ITERATIONS):
        covariance = _row_noise(data, values, weight)
        each = covariance if (weight == 1).all() else covariance / weight[:, None, None]
        white = data.whitened(each)
        rows = white.stacked().reshape(-1, len(values) + 1)
        grams = np.stack([rows.T @ rows, weight.sum() * problem.of_noise(covariance)])
        found = seen(grams[0], grams[1], prior_std)
        values = found.values
    error = whiten(problem.model_error, each, data.mask, data.rows)
    pull = np.tensordot(white.regressor @ found.along, error, axes=((0, 1), (0, 1)))
    shift = found.back @ (pull / found.information[:, None])
    noise = _noise_covariance(white, found)
    return LoadFit(
        seen=found,
        covariance=covariance,
        grams=grams,
        model_std=np.sqrt((shift**2).sum(axis=1)),
        uncertainty=replace(
            noise,
            covariance=noise.covariance + shift @ shift.T + found.hidden @ found.hidden.T,
        ),
    )


def _noise_covariance(white: Regression, found: Seen) -> EstimateCovariance:
    """Return the covariance of the values due to noise along the observed directions, (p, p)."""
    p, q = found.along.shape
    if not q:
        return EstimateCovariance(
            covariance=np.zeros((p, p)),
            degrees_of_freedom=np.full(p, np.inf),
            kind="white",
        )
    matrix = np.zeros((p + 1, q + 1))
    matrix[:p, :q] = found.along
    matrix[:p, q] = -found.values  # the effort becomes the residual
    matrix[p, q] = 1.0
    rotated = white.transform(matrix, [f"direction{k}" for k in range(q)], ["1"] * q)
    root = np.diag(found.information**-0.5)
    influence = linear_influence(rotated.statistics(), useful_samples(rotated, "auto"), root)
    freedom = max(float(white.n_valid.sum()) - q, 1.0)
    directions = estimate_covariance(influence, "auto", freedom)
    variance = found.back**2 * np.diag(directions.covariance)
    weighted = (variance / directions.degrees_of_freedom).sum(axis=1)
    pooled_freedom = np.maximum(variance.sum(axis=1) / np.maximum(weighted, TINY), 1.0)
    return replace(
        directions,
        covariance=found.back @ directions.covariance @ found.back.T,
        sources=(),
        degrees_of_freedom=np.where(variance.any(axis=1), pooled_freedom, np.inf),
    )


def _row_noise(data: Regression, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the covariance of the rows from the residual, (r, r).

    Diagonal where the correlations are not well determined.
    """
    root_weight = np.sqrt(weight)[:, None]
    residual = data.residual(values) * root_weight
    valid = data.valid * root_weight
    n_valid = np.maximum(valid.T @ valid, TINY)
    free_fraction = max(1 - len(values) / max(float(np.trace(n_valid)), 1.0), 0.1)
    covariance = residual.T @ residual / n_valid / free_fraction
    largest_effort = float(np.abs(data.effort).max(initial=0.0))
    rounding = 1e-9 * max(largest_effort, 1e-3)  # keeps exact data finite
    std = np.maximum(np.sqrt(np.diag(covariance)), rounding)
    correlation = covariance / np.outer(std, std)
    np.fill_diagonal(correlation, 1.0)
    enough_samples = np.diag(n_valid).min() >= MIN_FREEDOM_PER_ROW * len(std)
    if not enough_samples or not (
        np.linalg.eigvalsh(correlation)[0] > MIN_ROW_CORRELATION_EIGENVALUE
    ):
        correlation = np.eye(len(std))
    return np.asarray(correlation * np.outer(std, std))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Statistics of the whitened equations of consecutive pieces."""

    edges: IntArray  # first sample of each piece and the end, (k + 1,)
    grams: FloatArray  # [W y]^T [W y], (k, p + 1, p + 1)
    noise: FloatArray  # what noise of the positions makes of it, (k, p + 1, p + 1)
    # of the first and the last sample of each piece, (k, 2): filters smear a change over one of
    # them
    zone: FloatArray

    @classmethod
    def of(cls, problem: LoadProblem, covariance: FloatArray, zone: FloatArray) -> Pieces:
        """Return the pieces of a problem with noise (r, r); none crosses logs or periods.

        The zone is the time of each sample in units of what filters smear a change over,
        (t,).
        """
        data, edges = problem.regression, [0]
        breaks = [
            np.flatnonzero(np.diff(label)) + 1
            for label in (data.recording, data.group)
            if label is not None
        ]
        for start, stop in pairwise(
            [
                0,
                *np.unique(np.concatenate([*breaks, [len(data)]])).astype(int).tolist(),
            ]
        ):
            count = max(
                1,
                min(
                    round(MAX_LOAD_BLOCKS * (stop - start) / len(data)),
                    (stop - start) // MIN_LOAD_BLOCK_SAMPLES,
                ),
            )
            edges += np.linspace(start, stop, count + 1).astype(int)[1:].tolist()
        rows = data.whitened(covariance).stacked()
        parts = [rows[a:b].reshape(-1, rows.shape[2]) for a, b in pairwise(edges)]
        return cls(
            edges=np.array(edges),
            grams=np.stack([part.T @ part for part in parts]),
            noise=np.diff(edges)[:, None, None] * problem.of_noise(covariance),
            zone=np.column_stack([zone[edges[:-1]], zone[np.array(edges[1:]) - 1]]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """What was known of a load after each piece of the logs."""

    time: FloatArray  # of the last sample of each piece, (k,) [s]
    values: FloatArray  # (k, p)
    std: FloatArray  # as white noise of the stated size gives them, (k, p)


def history(
    pieces: Pieces,
    time: FloatArray,
    prior_std: FloatArray,
    memory: float | None = None,
) -> History:
    """Return the values of a load after each piece.

    Args:
        pieces: Statistics of consecutive pieces.
        time: Of all samples, (t,). [s]
        prior_std: How large parameters can be, (p,).
        memory: Time after which a sample has the weight 1 / e; infinite by default. [s]
    """
    ends = time[pieces.edges[1:] - 1]
    gram, noise = np.zeros_like(pieces.grams[0]), np.zeros_like(pieces.grams[0])
    values, std = [], []
    for k, (new, blur) in enumerate(zip(pieces.grams, pieces.noise)):
        keep = (
            1.0 if memory is None or k == 0 else float(np.exp(-abs(ends[k] - ends[k - 1]) / memory))
        )
        gram, noise = keep * gram + new, keep * noise + blur
        found = seen(gram, noise, prior_std)
        values.append(found.values)
        std.append(np.sqrt(np.diag(found.white)))
    return History(time=ends, values=np.array(values), std=np.array(std))


def changes(pieces: Pieces, prior_std: FloatArray) -> list[int]:
    """Return the pieces with which another load begins, in the order of time.

    The best `MAX_LOAD_CHANGES` cuts are found one by one; then the weakest is removed as
    long as the difference between its two sides is not significant. The scatter of the
    pieces, with errors of the model, is estimated from the residual of all cuts. Cuts
    within the response time of the filters are one.
    """
    whole, useful = (
        seen(pieces.grams.sum(axis=0), pieces.noise.sum(axis=0), prior_std),
        pieces.grams - pieces.noise,
    )
    half, p = whole.along / np.sqrt(whole.information), len(prior_std)
    if not half.shape[1]:
        return []
    scores = _Scores(
        share=half.T @ useful[:, :p, :p] @ half,
        score=(useful[:, :p, p] - useful[:, :p, :p] @ whole.values) @ half,
    )
    count = len(scores.score)
    cuts: list[int] = []
    for _ in range(MAX_LOAD_CHANGES):
        tried = [
            (a, cut, b)
            for a, b in pairwise([0, *cuts, count])
            for cut in range(a + MIN_BLOCKS_BESIDE_CHANGE, b - MIN_BLOCKS_BESIDE_CHANGE + 1)
        ]
        cuts = sorted([*cuts, *scores.best(tried)])
    while cuts:
        ends = [0, *cuts, count]
        scatter, _, freedom = long_run_covariance(scores.left(ends))
        std = np.sqrt(np.diag(scatter))
        chance = []
        for a, cut, b in zip(ends, cuts, ends[2:]):
            size, many = scores.test(a, cut, b, std)
            chance.append(f_tail(size / many, many, float(freedom.min())) * count if many else 1.0)
        weakest = int(np.argmax(chance))
        if chance[weakest] < LOAD_CHANGE_FALSE_ALARM:
            break
        del cuts[weakest]
    groups: list[list[int]] = []  # of cuts that are one change smeared
    for cut in cuts:
        if groups and pieces.zone[cut - 1, 1] - pieces.zone[groups[-1][-1], 0] < 1:
            groups[-1].append(cut)
        else:
            groups.append([cut])
    starts, stops = (
        [0, *(group[-1] for group in groups[:-1])],
        [*(group[0] for group in groups[1:]), count],
    )
    return [
        scores.best([(start, cut, stop) for cut in range(group[0], group[-1] + 1)])[0]
        for group, start, stop in zip(groups, starts, stops)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scores:
    """Pieces seen along q directions scaled to information 1 in all."""

    share: FloatArray  # S of each piece in the information, (k, q, q)
    score: FloatArray  # u of each piece at the common solution, (k, q)

    def inside(self, start: int, stop: int) -> slice:
        """Return the pieces of a block without those beside its cuts, which may hold both loads."""
        return slice(start + (start > 0), stop - (stop < len(self.score)))

    def best(self, tried: list[tuple[int, int, int]]) -> list[int]:
        """Return the cut that explains most of start, cut and stop of some; none of none."""
        return [max(tried, key=lambda each: self.test(*each)[0])[1]] if tried else []

    def test(
        self, start: int, cut: int, stop: int, std: FloatArray | None = None
    ) -> tuple[float, int]:
        """Return the score test of a cut in a block, and its number of directions.

        With S1, u1 the sums before the cut and S, u those of the block, d = u1 - S1 S^-1 u
        has the covariance V = S1 - S1 S^-1 S1 under noise of variance 1: d^T V^-1 d. Once
        it is known how large noise is, `std` (q,), the pieces beside cuts are left out.
        """
        sides = (
            [slice(start, cut), slice(cut, stop)]
            if std is None
            else [self.inside(start, cut), self.inside(cut, stop)]
        )
        before, after = (self.share[side].sum(axis=0) for side in sides)
        own, other = (self.score[side].sum(axis=0) for side in sides)
        back = before @ _inverse(before + after)
        gap = own - back @ (own + other)
        weight, axes = np.linalg.eigh(before - back @ before)
        clear = weight > MIN_DIRECTION_INFORMATION
        turned = axes[:, clear].T @ (gap if std is None else gap / np.maximum(std, TINY))
        return float((turned**2 / weight[clear]).sum()), int(clear.sum())

    def left(self, ends: list[int]) -> FloatArray:
        """Return the residual scores if each block has its own load, (k, q)."""
        left = []
        for side in (self.inside(a, b) for a, b in pairwise(ends)):
            own = _inverse(self.share[side].sum(axis=0)) @ self.score[side].sum(axis=0)
            left.append(self.score[side] - self.share[side] @ own)
        return np.concatenate(left)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a share of the information where that is not too small."""
    weight, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    clear = weight > MIN_DIRECTION_INFORMATION
    return np.asarray((axes[:, clear] / weight[clear]) @ axes[:, clear].T)
