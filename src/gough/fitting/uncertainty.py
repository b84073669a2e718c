"""Standard deviations that hold: noise of any colour, and what varies between stretches of motion
and between logs.

Every estimator here solves a sum of row scores to zero. Near the solution, with A_j = [W_j y_j] the
data of row j, its residual is A_j n_j and the derivative of that by the parameters A_j D_j, both
already divided by the noise of the row; L is a square root of the inverse information, L L^T =
(sum_j D_j^T A_j^T A_j D_j)^-1. Then

    estimation error = - L sum_s u_s,    u_s = sum_j (A_sj D_j L)^T (A_sj n_j)

and the covariance is that of the sum of the influences u_s. Sources differ in how they see it:
white noise by the information alone, repetitions by their scatter, noise with memory by its
autocorrelation. On real logs errors of the model decide, and these show when parts of the data are
left out: without part c the solution moves by L (1 - K_c)^-1 u_c, K_c = L^T X_c^T X_c L its share
in the information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.core.statistics import f_tail
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import EstimateCovariance
from gough.fitting.problem import Problem
from gough.fitting.regression import Regression
from gough.fitting.row_noise import pooled_degrees_of_freedom

Uncertainty = Literal["auto", "white", "period", "hac", "blocks", "logs"]
UNCERTAINTY_MODES = get_args(Uncertainty)
MIN_GROUPS = 5  # below this, scatter between groups says too little
# below this, one group holds most of what is known of a parameter, and scatter misleads
MIN_GROUP_FREEDOM = 2.0
# samples below which autocorrelation is not worth estimating: 95 % intervals then cover 92 %
MIN_HAC_SAMPLES = 50
MAX_HAC_SAMPLES = (
    2000  # samples from which stretches see all memory that noise has, in memory or streamed
)
# parts of the motion left out in turn; measured on six robots, see docs/estimators.md
JACKKNIFE_BLOCKS = 20
MIN_JACKKNIFE_BLOCKS = 8  # below this, leaving stretches out says too little
FULL_LEVERAGE = 1 - 1e-6  # a leverage above this: one group alone determines a parameter
# variance of the estimate without a part over that with it: beyond, the rest does not know it
MAX_VARIANCE_INFLATION = 100.0
SURPLUS_PROBABILITY = (
    0.01  # probability of noise alone scattering as much, below which it is more than noise
)
# degrees of freedom that the mean of all parameters is worth beside a parameter's own scatter.
# Pairs of
POOLED_FREEDOM = 4.0
# five logs of a double pendulum against other pairs: rms z 1.5 without it, at worst 2.7; 0.7 and
# 1.5 with 2 to 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """What the covariance of an estimator follows from, see the head of this file."""

    statistics: BlockStatistics  # A_j = [W_j y_j], by piece
    sampled: Regression | None  # the same sample by sample
    jacobian: FloatArray  # D_j, (r, p + 1, q)
    residual: FloatArray  # n_j, (r, p + 1)
    root: FloatArray  # L, (q, q)

    @cached_property
    def pieces(self) -> tuple[FloatArray, FloatArray]:
        """Score u and share K of each piece, (u, q) and (u, q, q)."""
        data = self.statistics.block_factors
        slopes = data @ (self.jacobian @ self.root)  # (u, r, k, q)
        left = (data @ self.residual[:, :, None])[..., 0]
        flat = slopes.reshape(len(data), -1, slopes.shape[3])
        return np.einsum("urkq,urk->uq", slopes, left, optimize=True), flat.transpose(
            0, 2, 1
        ) @ flat

    def samples(self, problem: Regression) -> tuple[FloatArray, FloatArray]:
        """Return slopes A_j D_j L (t, r, q) and residuals A_j n_j (t, r) sample by sample."""
        data = problem.stacked()
        slopes = np.einsum("trc,rcq->trq", data, self.jacobian @ self.root, optimize=True)
        return slopes, np.einsum("trc,rc->tr", data, self.residual)


def linear_influence(
    statistics: BlockStatistics,
    sampled: Regression | None,
    root: FloatArray,
    values: FloatArray | None = None,
) -> Influence:
    """Return the influence of values (p,) on whitened rows; without values the effort is the
    residual already.
    """
    p, r = len(statistics.parameters), len(statistics.rows)
    residual = np.append(np.zeros(p) if values is None else values, -1.0)
    return Influence(
        statistics=statistics,
        sampled=sampled,
        jacobian=np.broadcast_to(np.eye(p + 1, p), (r, p + 1, p)),
        residual=np.broadcast_to(residual, (r, p + 1)),
        root=root,
    )


def useful_samples(problem: Problem, mode: Uncertainty) -> Regression | None:
    """Return a problem sample by sample where `estimate_covariance` looks at samples, else None."""
    sampled = problem.sampled()
    if sampled is None or mode == "white":
        return None
    plain = sampled.replicates is None and sampled.group is None
    return None if mode == "auto" and plain and len(sampled) >= MAX_HAC_SAMPLES else sampled


def estimate_covariance(
    influence: Influence,
    mode: Uncertainty,
    freedom: FloatArray | float,
    white: FloatArray | None = None,
) -> EstimateCovariance:
    """Return the covariance of an estimate the way asked for.

    'auto' first takes the noise: from the scatter over five or more repetitions if the problem
    holds them, with fewer from the autocorrelation of what differs between them; else from the
    scatter over groups if there are at least five and no parameter depends on one of them alone;
    else, of fewer than 2000 samples, from the autocorrelation of the residuals; else white. Then it
    leaves out stretches of the motion, and whole recordings where there are several. Where the
    estimates then scatter more than this noise explains (`SURPLUS_PROBABILITY`, all
    parameters together or one alone), the surplus is added to the variances, each
    parameter's own and that of all weighed by their degrees of freedom.

    Args:
        influence: Where the covariance follows from.
        mode: 'auto', or one source alone.
        freedom: Degrees of freedom under white noise, (q,) or one number.
        white: Covariance under white noise, (q, q); L L^T by default.
    """
    if mode not in UNCERTAINTY_MODES:
        choices = ", ".join(UNCERTAINTY_MODES[:-1])
        raise InvalidInput(
            f"uncertainty '{mode}' is not known; choose {choices} or {UNCERTAINTY_MODES[-1]}",
            mode=mode,
        )
    white = influence.root @ influence.root.T if white is None else white
    base = EstimateCovariance(
        covariance=white,
        kind="white",
        degrees_of_freedom=np.broadcast_to(np.asarray(freedom, dtype=float), (len(white),)),
    )
    last = _noise(influence, base, mode) if mode in ("auto", "period", "hac") else base
    asked, notices = [base] if last.kind == "white" else [base, last], last.notices
    for kind in ("blocks", "logs"):
        labels = _labels(influence.statistics, kind) if mode in ("auto", kind) else None
        if labels is None and mode == kind:
            raise InvalidInput(
                f"the problem does not hold enough {mode} to leave some out; use uncertainty='auto'"
            )
        found = None if labels is None else _beyond(influence, last, labels, kind)
        if found is not None:
            level, chance = found
            asked.append(level)
            if mode == kind:
                last = level
            elif chance < SURPLUS_PROBABILITY:
                last, notices = level, (*notices, *level.notices)
    if last.kind == "white" and len(asked) > 1:
        text = f"noise is taken as white: {asked[1].count} {asked[1].kind} do not contradict it"
        notices = (*notices, _standard_errors(text))
    return replace(last, notices=notices, sources=tuple(level.source for level in asked))


def _noise(influence: Influence, white: EstimateCovariance, mode: str) -> EstimateCovariance:
    """Return what is known of the noise, by repetitions, groups or autocorrelation."""
    sampled, statistics = influence.sampled, influence.statistics
    memory = sampled is not None and len(sampled) >= MIN_HAC_SAMPLES
    if mode in ("auto", "period"):
        if sampled is not None and sampled.replicates is not None and len(sampled.replicates) > 1:
            return _repetitions(influence, sampled, white, always=mode == "period")
        found = _groups(influence, white, fewest=2 if mode == "period" else MIN_GROUPS)
        if isinstance(found, EstimateCovariance) and (
            mode == "period" or not memory or found.degrees_of_freedom.min() >= MIN_GROUP_FREEDOM
        ):
            return found
        if mode == "period":
            raise InvalidInput(
                f"scatter between periods cannot be used: {found}; use uncertainty='hac' or 'white'"
            )
    if mode == "hac" and sampled is None:
        raise InvalidInput(
            "autocorrelated noise needs the samples, which a condensed problem no longer has; "
            "condense with groups and use uncertainty='period', or 'blocks'"
        )
    if (
        sampled is not None
        and memory
        and (mode == "hac" or statistics.repeats or len(sampled) < MAX_HAC_SAMPLES)
    ):
        return _autocorrelated(influence, sampled)
    return (
        white
        if _labels(statistics, "blocks") is not None
        else replace(
            white,
            notices=(
                _standard_errors(
                    f"standard errors assume white noise: {statistics.samples} samples are too few "
                    f"to test that"
                ),
            ),
        )
    )


def _labels(statistics: BlockStatistics, kind: str) -> IntArray | None:
    """Return which stretch or recording each piece belongs to, (u,), or None if there are too
    few.
    """
    if kind == "blocks" and statistics.repeats:
        return None  # groups repeat one motion: they show its noise, not what the model misses
    labels = (
        statistics.merged_labels(JACKKNIFE_BLOCKS) if kind == "blocks" else statistics.recording
    )
    return (
        labels
        if len(np.unique(labels)) >= (MIN_JACKKNIFE_BLOCKS if kind == "blocks" else 2)
        else None
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scatter:
    """Shifts of the estimate that g parts ask for, and how they would be distributed under white
    noise.
    """

    shifts: FloatArray  # (g, q)
    # covariance of the shifts over |L_k|^2 that white noise of variance 1 gives, (k, g, k, g)
    gram: FloatArray
    leverage: float  # largest share of a part in any direction
    weakest: FloatArray  # that direction, in parameters, (q,)

    @property
    def expected(self) -> FloatArray:
        """Sum of squares over the white variance that white noise gives each parameter, (q,)."""
        return np.asarray(np.einsum("kgkg->k", self.gram))

    @property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of each parameter's sum of squares, by Satterthwaite, (q,)."""
        square = np.einsum("kgkh,kgkh->k", self.gram, self.gram)
        return np.asarray(
            np.divide(self.expected**2, square, out=np.zeros(len(square)), where=square > 0)
        )

    def together(self, weight: FloatArray) -> float:
        """Return the degrees of freedom of the sums of squares of all parameters, added up with
        weights (q,).
        """
        square = np.einsum("k,kglh,kglh,l->", weight, self.gram, self.gram, weight, optimize=True)
        return float((weight @ self.expected) ** 2 / square)


def _scatter(influence: Influence, labels: IntArray, power: float) -> _Scatter:
    """Return L (1 - K_c)^-power u_c of each part c; power 1 is leaving it out, 1/2 Bell and
    McCaffrey's correction.

    Under white noise cov(u_c, u_d) = K_c d_cd - K_c K_d. Directions that one part alone determines
    are left out.
    """
    score, share = influence.pieces
    member = (labels[None, :] == np.unique(labels)[:, None]).astype(float)  # (g, u)
    score = member @ score
    share = np.tensordot(member, share, axes=1)
    leverage, vectors = np.linalg.eigh((share + share.transpose(0, 2, 1)) / 2)
    leverage = np.clip(leverage, 0.0, 1.0)
    free = leverage < FULL_LEVERAGE
    boost = np.where(free, (1 - np.where(free, leverage, 0.0)) ** -power, 0.0)
    worst = np.unravel_index(leverage.argmax(), leverage.shape)[0]
    shifts = (
        np.einsum("gqw,gw,gvw,gv->gq", vectors, boost, vectors, score, optimize=True)
        @ influence.root.T
    )
    unit = influence.root / np.linalg.norm(influence.root, axis=1, keepdims=True)
    turned = (
        np.einsum("gqw,kq->gkw", vectors, unit) * boost[:, None]
    )  # of L^T e_k, parameter k in units of its std
    cross = np.einsum("gqw,gw,gkw->kgq", vectors, leverage, turned, optimize=True)
    gram = -np.tensordot(cross, cross, axes=(2, 2))  # (k, g, l, h)
    parts = np.arange(len(member))
    gram[:, parts, :, parts] += np.einsum(
        "gkw,gw,glw->gkl", turned, leverage, turned, optimize=True
    )
    return _Scatter(
        shifts=shifts,
        gram=gram,
        leverage=float(leverage.max(initial=0.0)),
        weakest=influence.root @ vectors[worst, :, -1],
    )


def _beyond(
    influence: Influence, noise: EstimateCovariance, labels: IntArray, kind: str
) -> tuple[EstimateCovariance, float] | None:
    """Return the noise widened by what leaving parts out shows beyond it, and the chance of noise
    alone doing this.

    With v the jackknife variance (g - 1) / g sum_c shift_c^2, n that of the noise and e n what the
    noise would make of v, the surplus v / n - e is estimated for each parameter with its degrees of
    freedom d and for all together, and n (1 + surplus) is reported: DerSimonian and Laird's random
    effects, shrunk to the mean of the parameters. None if that says nothing of half of them.
    """
    found, count = _scatter(influence, labels, 1.0), len(np.unique(labels))
    share = (count - 1) / count
    level = np.diag(noise.covariance)
    ratio = share * (found.shifts**2).sum(axis=0) / np.where(level > 0, level, 1.0)
    expected, freedom = share * found.expected, found.freedom
    known = (expected < MAX_VARIANCE_INFLATION) & (freedom >= 1) & (level > 0)
    if known.sum() < len(known) / 2:
        return None
    own = np.where(known, freedom, 0.0)
    surplus = np.where(known, ratio - expected, 0.0)
    mean = max(float(own @ surplus / own.sum()), 0.0)
    growth = 1 + np.maximum((own * surplus + POOLED_FREEDOM * mean) / (own + POOLED_FREEDOM), 0.0)
    single = ratio[known] / expected[known]
    together = float(own[known] @ single / own.sum())
    correlation = noise.covariance[np.ix_(known, known)] / np.sqrt(
        np.outer(level[known], level[known])
    )
    independent = known.sum() ** 2 / float((correlation**2).sum())  # parameters that differ
    below = noise.degrees_of_freedom[known]
    # under white noise all hang on the same few variances of the rows: more parameters do not make
    # these better known
    pooled = float(below.mean()) * (1.0 if noise.kind == "white" else independent)
    weight = own / np.where(known, expected, 1.0)
    worst = min(f_tail(*each) for each in zip(single, own[known], below))
    chance = min(f_tail(together, found.together(weight), pooled), worst * len(single))
    times = np.sqrt(float(own @ growth / own.sum()))
    if kind == "blocks":
        text = (
            f"estimates differ between {count} blocks of the motion more than noise explains "
            f"(errors of the model): standard errors are {times:.2g} times those of the noise"
        )
    else:
        text = (
            "the model does not generalise from one motion to another: estimates without single "
            f"logs differ {times:.2g} times as much as their standard errors allow, which are "
            "widened by as much"
        )
    return EstimateCovariance(
        covariance=noise.covariance * np.sqrt(np.outer(growth, growth)),
        degrees_of_freedom=own + POOLED_FREEDOM,
        kind=kind,
        count=count,
        notices=(_standard_errors(text),),
    ), chance


def _repetitions(
    influence: Influence, problem: Regression, white: EstimateCovariance, *, always: bool
) -> EstimateCovariance:
    """Return the covariance of the mean over k repetitions, recording by recording.

    Scatter of the k solutions / k, k - 1 degrees of freedom. With few of them, the scatter is known
    to a factor only, while t samples of what differs between them say more: its long-run
    covariance, added up, is (k - 1) times that of one solution.
    """
    assert problem.replicates is not None
    slopes, _ = influence.samples(problem)
    gap = (problem.replicates - problem.effort) * problem.valid
    labels = np.zeros(len(problem), np.int64) if problem.recording is None else problem.recording
    runs = []  # shifts of the solution by what differs, (k, t, q)
    for own in (labels == label for label in np.unique(labels)):
        there = gap[:, own].any(axis=(1, 2))
        deviation = gap[:, own] if there.sum() < 2 else gap[there][:, own]
        deviation = (deviation - deviation.mean(axis=0)) * influence.residual[:, -1]
        runs.append(
            np.einsum("ktr,trq->ktq", deviation, slopes[own], optimize=True) @ influence.root.T
        )
    counts = [len(shifts) for shifts in runs]
    few = (
        not always
        and sum(k - 1 for k in counts) < MIN_GROUPS - 1
        and len(problem) >= MIN_HAC_SAMPLES
    )
    covariances, freedoms, lags = [], [], 0
    for k, shifts in zip(counts, runs):
        total, freedom = (
            shifts.sum(axis=1).T @ shifts.sum(axis=1),
            np.full(shifts.shape[2], k - 1.0),
        )
        if few:
            terms, period = (
                shifts.reshape(-1, shifts.shape[2]),
                np.repeat(np.arange(k), shifts.shape[1]),
            )
            total, used, freedom = long_run_covariance(terms, period)
            lags, freedom = max(lags, used), np.maximum(freedom * (k - 1) / k, 1.0)
        freedoms.append(freedom)
        covariances.append(total / (k * (k - 1)))
    covariance = np.sum(covariances, axis=0)
    many = "+".join(str(k) for k in counts)
    text = (
        f"standard errors from the differences between {many} repetitions, autocorrelation "
        f"allowed for ({lags} lags after prewhitening)"
    )
    notices: tuple[Notice, ...] = (_standard_errors(text),)
    if not few:
        covariance, more = _full_rank(covariance, white.covariance, sum(counts) - len(counts))
        text = f"standard errors from the scatter of {many} repetitions"
        notices = (_standard_errors(text), *more)
    freedom = pooled_degrees_of_freedom(
        np.array([np.diag(c) for c in covariances]), np.array(freedoms)
    )
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=freedom,
        kind="hac" if few else "period",
        count=max(counts),
        notices=notices,
    )


def _groups(
    influence: Influence, white: EstimateCovariance, *, fewest: int
) -> EstimateCovariance | str:
    """Return the covariance from the scatter of the scores between repetitions of a motion, or the
    reason why not.

    Bell and McCaffrey: covariance = sum_c a_c a_c^T,  a_c = L (1 - K_c)^(-1/2) u_c: exact for equal
    groups (factor g / (g - 1)).
    """
    statistics = influence.statistics
    if not statistics.repeats:
        return "the problem has no groups"
    count = len(statistics)
    if count < fewest:
        return f"there are {count} groups, expected at least {fewest}"
    found = _scatter(influence, np.arange(count), 0.5)
    if found.leverage > FULL_LEVERAGE:
        part = np.abs(found.weakest) / np.linalg.norm(influence.root, axis=1)
        return f"one group alone determines {statistics.parameters[int(np.argmax(part))]}"
    covariance, notices = _full_rank(found.shifts.T @ found.shifts, white.covariance, count - 1)
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=np.clip(found.freedom, 1.0, count - 1.0),
        kind="period",
        count=count,
        notices=(
            _standard_errors(f"standard errors from the scatter between {count} groups"),
            *notices,
        ),
    )


def _full_rank(
    covariance: FloatArray, white: FloatArray, freedom: int
) -> tuple[FloatArray, tuple[Notice, ...]]:
    """Keep the scatter's standard deviations but take white noise's correlations where the scatter
    has too few.
    """
    if freedom >= 3 * len(covariance):
        return covariance, ()
    std, reference = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(white))
    ratio = np.divide(std, reference, out=np.zeros_like(std), where=reference > 0)
    text = (
        "correlations between parameters are those of white noise: the scatter has "
        f"{freedom} degrees of freedom for {len(white)} parameters"
    )
    return white * np.outer(ratio, ratio), (_standard_errors(text),)


def _standard_errors(text: str) -> Notice:
    """Return a notice on how standard errors were computed."""
    return Notice(rule="standard errors", level="info", text=text)


def _autocorrelated(influence: Influence, problem: Regression) -> EstimateCovariance:
    problem = replace(problem, replicates=None).in_order()
    slopes, left = influence.samples(problem)
    count, share = np.maximum(problem.n_valid, 1), (slopes**2).sum(axis=(0, 2))
    left *= np.sqrt(count / np.maximum(count - share, 0.5))  # what fitting took out of each row
    shifts = np.einsum("trq,tr->tq", slopes, left) @ influence.root.T
    labels = [label for label in (problem.recording, problem.group) if label is not None]
    group = (
        np.unique(np.stack(labels), axis=1, return_inverse=True)[1].reshape(-1) if labels else None
    )
    covariance, lags, freedom = long_run_covariance(shifts, group)
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=freedom,
        kind="hac",
        notices=(
            _standard_errors(
                f"standard errors allow for autocorrelated noise, {lags} lags after prewhitening"
            ),
        ),
    )


def long_run_covariance(
    shifts: FloatArray,
    group: IntArray | None = None,
    *,
    lags: int | None = None,
    prewhiten: bool = True,
) -> tuple[FloatArray, int, FloatArray]:
    """Return the covariance of a sum of autocorrelated terms (t, q) in the order of time, lags and
    degrees of freedom.

    Newey and West: sum_h (1 - |h| / (lags + 1)) Gamma_h, lags by Andrews' AR(1) rule, after
    prewhitening each column by its own AR(1) (Andrews and Monahan), which keeps the result
    positive. Terms of different groups are independent. Degrees of freedom: those of the kernel, 3
    t / (2 lags + 2), and of the AR(1) factor, t (1 - a) / (2 (1 + a)).
    """
    t, q = shifts.shape
    labels = np.zeros(t, np.int64) if group is None else group
    size = np.maximum(np.abs(shifts).max(axis=0, initial=0.0), TINY)
    terms = shifts / size  # keeps fourth powers in range
    memory = np.zeros(q)
    if prewhiten:
        memory = _first_correlation(terms, labels)
        same = labels[1:] == labels[:-1]
        terms = (terms[1:] - memory * terms[:-1])[same]
        labels = labels[1:][same]
    if lags is None:
        rho = _first_correlation(terms, labels)
        top = (4 * rho**2 / ((1 - rho) ** 6 * (1 + rho) ** 2)).sum()
        lags = int(np.ceil(1.1447 * (top / (1 / (1 - rho) ** 4).sum() * len(terms)) ** (1 / 3)))
    lags = min(lags, len(terms) - 1)
    total = terms.T @ terms
    for h in range(1, lags + 1):
        gamma = (terms[h:] * (labels[h:] == labels[:-h])[:, None]).T @ terms[:-h]
        total += (1 - h / (lags + 1)) * (gamma + gamma.T)
    back = size / (1 - memory)
    freedom = 1 / (
        (lags + 1) / (1.5 * t) + (2 * (1 + memory) / ((1 - memory) * t) if prewhiten else 0.0)
    )
    covariance = total * np.outer(back, back) * (t / len(terms))
    return covariance, lags, np.maximum(np.broadcast_to(freedom, (q,)), 1.0)


def _first_correlation(terms: FloatArray, labels: IntArray) -> FloatArray:
    """Return each column's AR(1) coefficient inside groups, kept away from +-1, (q,)."""
    inside = (labels[1:] == labels[:-1])[:, None]
    top = (terms[1:] * terms[:-1] * inside).sum(axis=0)
    bottom = (terms[:-1] ** 2 * inside).sum(axis=0)
    return np.asarray(
        np.clip(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), -0.97, 0.97)
    )
