"""Covariance of an estimate: from noise, and from differences between blocks and logs.

Every estimator here solves a sum of row scores to zero. Near the
solution, with A_j = [W_j y_j] the data of row j, its residual is A_j
n_j and the derivative of that by the parameters A_j D_j, both already
divided by the noise of the row; L is a square root of the inverse
information, L L^T = (sum_j D_j^T A_j^T A_j D_j)^-1. Then

    estimation error = - L sum_s u_s,    u_s = sum_j (A_sj D_j L)^T (A_sj n_j)

and the covariance is that of the sum of the influences u_s. The sources
of uncertainty differ in how they estimate it: white noise from the
information alone, repetitions from their scatter, autocorrelated noise
from its autocorrelation. On real logs errors of the model dominate.
They show in a jackknife: without block c the solution moves by L (1 -
K_c)^-1 u_c, where K_c = L^T X_c^T X_c L is the fraction of the
information that block c contributes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.core.statistics import f_tail
from gough.fitting.autocorrelation import long_run_covariance
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import EstimateCovariance
from gough.fitting.problem import Problem
from gough.fitting.regression import Regression
from gough.fitting.row_noise import pooled_degrees_of_freedom

Uncertainty = Literal["auto", "white", "period", "hac", "blocks", "logs"]
UNCERTAINTY_MODES = get_args(Uncertainty)
MIN_GROUPS = 5  # groups of repetitions below which their scatter is not used
# Degrees of freedom below which one group holds most of the information
# on a parameter
MIN_GROUP_FREEDOM = 2.0
# Samples below which autocorrelation is not estimated: 95 % intervals
# then cover 92 %
MIN_HAC_SAMPLES = 50
# samples from which blocks are long enough to show all autocorrelation
MAX_HAC_SAMPLES = 2000
# Blocks of the motion left out in turn; measured on six robots, see
# docs/estimators.md
JACKKNIFE_BLOCKS = 20
MIN_JACKKNIFE_BLOCKS = 8  # blocks below which no block jackknife is made
# a leverage above this: one block alone determines a parameter
FULL_LEVERAGE = 1 - 1e-6
# Variance inflation without one block above which that block alone
# determines the parameter
MAX_VARIANCE_INFLATION = 100.0
# of noise alone scattering as much; below, the model has errors
SURPLUS_PROBABILITY = 0.01
# Degrees of freedom given to the mean surplus of all parameters beside a
# parameter's own. Pairs of five logs of a double pendulum against other pairs:
# rms z 1.5 without it, at worst 2.7; 0.7 and 1.5 with 2 to 4
POOLED_FREEDOM = 4.0
# Logs from which each parameter has a scatter of its own; below, all
# share one inflation factor
MIN_LOGS_BY_PARAMETER = 8


class BlockInfluence(NamedTuple):
    """Influence of each block on the solution."""

    score: FloatArray  # u of each block, (b, q)
    # fraction K of the information in each block, (b, q, q)
    information: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """Linearised estimator from which its covariance follows; see the head of this module."""

    statistics: BlockStatistics  # A_j = [W_j y_j], by block
    sampled: Regression | None  # the same sample by sample
    jacobian: FloatArray  # D_j, (r, p + 1, q)
    residual: FloatArray  # n_j, (r, p + 1)
    root: FloatArray  # L, (q, q)

    @cached_property
    def by_block(self) -> BlockInfluence:
        """Score and fraction of the information of each block."""
        factors = self.statistics.block_factors
        slopes = factors @ (self.jacobian @ self.root)  # (b, r, k, q)
        residual = (factors @ self.residual[:, :, None])[..., 0]
        score = np.einsum("brkq,brk->bq", slopes, residual, optimize=True)
        stacked = slopes.reshape(len(factors), -1, slopes.shape[3])
        return BlockInfluence(score=score, information=stacked.transpose(0, 2, 1) @ stacked)

    def samples(self, problem: Regression) -> tuple[FloatArray, FloatArray]:
        """Return slopes A_j D_j L (t, r, q) and residuals A_j n_j (t, r) sample by sample."""
        stacked = problem.stacked()
        slopes = np.einsum("trc,rcq->trq", stacked, self.jacobian @ self.root, optimize=True)
        residual = np.einsum("trc,rc->tr", stacked, self.residual)
        return slopes, residual


def linear_influence(
    statistics: BlockStatistics,
    sampled: Regression | None,
    root: FloatArray,
    values: FloatArray | None = None,
) -> Influence:
    """Return the influence of a linear estimator on whitened rows.

    Args:
        statistics: Of the whitened rows.
        sampled: The same sample by sample, or None.
        root: Square root L of the inverse information, (p, p).
        values: Solution, (p,); without it the effort is the residual
            already.
    """
    p = len(statistics.parameters)
    r = len(statistics.rows)
    residual = np.zeros(p + 1)
    residual[-1] = -1.0
    if values is not None:
        residual[:p] = values
    return Influence(
        statistics=statistics,
        sampled=sampled,
        jacobian=np.broadcast_to(np.eye(p + 1, p), (r, p + 1, p)),
        residual=np.broadcast_to(residual, (r, p + 1)),
        root=root,
    )


def useful_samples(problem: Problem, mode: Uncertainty) -> Regression | None:
    """Return a problem sample by sample if `estimate_covariance` needs the samples, else None."""
    sampled = problem.sampled()
    if sampled is None or mode == "white":
        return None
    repeated = sampled.replicates is not None or sampled.group is not None
    if mode == "auto" and not repeated and len(sampled) >= MAX_HAC_SAMPLES:
        return None
    return sampled


def estimate_covariance(
    influence: Influence,
    mode: Uncertainty,
    freedom: FloatArray | float,
    white: FloatArray | None = None,
) -> EstimateCovariance:
    """Return the covariance of an estimate from the source of uncertainty asked for.

    'auto' first estimates the noise: from the scatter over five or more
    repetitions if the problem holds them, with fewer from the
    autocorrelation of the differences between them; else from the
    scatter over groups if there are at least five and no parameter
    depends on one of them alone; else, of fewer than 2000 samples, from
    the autocorrelation of the residuals; else it is taken as white.
    Then follows a block jackknife: where the estimates scatter more
    than this noise explains (`SURPLUS_PROBABILITY`, all parameters
    together or one alone), the surplus is added to the variances: each
    parameter's own and that of all, weighted by their degrees of
    freedom. With several logs a jackknife over logs widens all standard
    errors by one factor, whether chance could explain it or not: a few
    logs cannot show that an experiment repeats. All parameters together
    decide whether chance does. From `MIN_LOGS_BY_PARAMETER` logs on
    parameters differ, as over blocks.

    Args:
        influence: Linearised estimator.
        mode: 'auto', or one source alone.
        freedom: Degrees of freedom under white noise, (q,) or one
            number.
        white: Covariance under white noise, (q, q); L L^T by default.
    """
    _check_mode(mode)
    if white is None:
        white = influence.root @ influence.root.T
    white_noise = EstimateCovariance(
        covariance=white,
        kind="white",
        degrees_of_freedom=np.broadcast_to(np.asarray(freedom, dtype=float), (len(white),)),
    )
    chosen = white_noise
    if mode in ("auto", "period", "hac"):
        chosen = _noise_covariance(influence, white_noise, mode)
    notices = chosen.notices
    evaluated = [white_noise]
    if chosen.kind != "white":
        evaluated.append(chosen)
    for kind in ("blocks", "logs"):
        if mode not in ("auto", kind):
            continue
        labels = _jackknife_labels(influence.statistics, kind)
        if labels is None and mode == kind:
            raise InvalidInput(
                f"the problem does not hold enough {mode} to leave some out; use uncertainty='auto'"
            )
        if labels is None:
            continue
        jackknife = _jackknife_covariance(influence, chosen, labels, kind)
        if jackknife is None:
            continue
        widened, probability = jackknife
        evaluated.append(widened)
        if mode == kind:
            chosen = widened
            continue
        chosen, added_notices = _widened_by(chosen, widened, kind, probability)
        notices = (*notices, *added_notices)
    if mode == "auto" and len(np.unique(influence.statistics.recording)) == 1:
        text = "whether the estimates repeat in another log was not tested: there is one log"
        notices = (*notices, _standard_errors(text))
    if chosen.kind == "white" and len(evaluated) > 1:
        test = evaluated[1]
        text = f"noise is taken as white: {test.count} {test.kind} do not contradict it"
        notices = (*notices, _standard_errors(text))
    sources = tuple(component.source for component in evaluated)
    return replace(chosen, notices=notices, sources=sources)


def _check_mode(mode: str) -> None:
    """Raise unless a source of uncertainty is known."""
    if mode not in UNCERTAINTY_MODES:
        choices = ", ".join(UNCERTAINTY_MODES[:-1])
        raise InvalidInput(
            f"uncertainty '{mode}' is not known; choose {choices} or {UNCERTAINTY_MODES[-1]}",
            mode=mode,
        )


def _widened_by(
    chosen: EstimateCovariance, widened: EstimateCovariance, kind: str, probability: float
) -> tuple[EstimateCovariance, tuple[Notice, ...]]:
    """Return the covariance after a jackknife, and notices on it.

    Args:
        chosen: Covariance before.
        widened: Covariance with the surplus of the jackknife.
        kind: What was left out, 'blocks' or 'logs'.
        probability: That noise alone scatters as much.
    """
    if probability < SURPLUS_PROBABILITY:
        return widened, widened.notices
    if kind == "logs" and (widening := _widening(widened, chosen)) > 1:
        text = (
            f"estimates without single logs of {widened.count} differ no more than chance "
            f"explains; standard errors are widened by {widening:.3g} for it"
        )
        return replace(chosen, covariance=widened.covariance), (_standard_errors(text),)
    return chosen, ()


def _widening(widened: EstimateCovariance, noise: EstimateCovariance) -> float:
    """Return the mean ratio of standard errors to those before a jackknife."""
    variance = np.diag(noise.covariance)
    known = variance > 0
    ratio = np.diag(widened.covariance)[known] / variance[known]
    return float(np.sqrt(ratio.mean())) if known.any() else 1.0


def _noise_covariance(
    influence: Influence, white: EstimateCovariance, mode: str
) -> EstimateCovariance:
    """Return the covariance due to noise, by repetitions, groups or autocorrelation."""
    sampled = influence.sampled
    statistics = influence.statistics
    long_enough = sampled is not None and len(sampled) >= MIN_HAC_SAMPLES
    if mode in ("auto", "period"):
        if sampled is not None and sampled.replicates is not None and len(sampled.replicates) > 1:
            return _repetition_covariance(influence, sampled, white, always=mode == "period")
        fewest = 2 if mode == "period" else MIN_GROUPS
        grouped = _group_covariance(influence, white, fewest=fewest)
        if isinstance(grouped, EstimateCovariance):
            enough_freedom = grouped.degrees_of_freedom.min() >= MIN_GROUP_FREEDOM
            if mode == "period" or not long_enough or enough_freedom:
                return grouped
        elif mode == "period":
            raise InvalidInput(
                f"scatter between periods cannot be used: {grouped}; use uncertainty='hac' or "
                "'white'"
            )
    if mode == "hac" and sampled is None:
        raise InvalidInput(
            "autocorrelated noise needs the samples, which block statistics do not hold; form "
            "the statistics with groups and use uncertainty='period', or 'blocks'"
        )
    if sampled is not None and long_enough:
        short_enough = statistics.repeats or len(sampled) < MAX_HAC_SAMPLES
        if mode == "hac" or short_enough:
            return _autocorrelated_covariance(influence, sampled)
    if _jackknife_labels(statistics, "blocks") is not None:
        return white
    text = (
        f"standard errors assume white noise: {statistics.samples} samples are too few to test that"
    )
    return replace(white, notices=(_standard_errors(text),))


def _jackknife_labels(statistics: BlockStatistics, kind: str) -> IntArray | None:
    """Return the jackknife block or log of each block, (b,), or None if there are too few."""
    if kind == "logs":
        labels = statistics.recording
        fewest = 2
    elif statistics.repeats:
        return None  # groups repeat one motion: they show its noise, not errors of the model
    else:
        labels = statistics.merged_labels(JACKKNIFE_BLOCKS)
        fewest = MIN_JACKKNIFE_BLOCKS
    if len(np.unique(labels)) < fewest:
        return None
    return labels


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scatter:
    """Shifts of the estimate by g blocks, and their distribution under white noise."""

    shifts: FloatArray  # (g, q)
    # Covariance of the shifts over |L_k|^2 that white noise of variance
    # 1 gives, (k, g, k, g)
    gram: FloatArray
    # largest fraction of the information that a block has in any
    # direction
    leverage: float
    weakest: FloatArray  # that direction, in parameters, (q,)

    @property
    def expected(self) -> FloatArray:
        """Sum of squares over the white variance that white noise gives each parameter, (q,)."""
        return np.asarray(np.einsum("kgkg->k", self.gram))

    @property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of each parameter's sum of squares, by Satterthwaite, (q,)."""
        square = np.einsum("kgkh,kgkh->k", self.gram, self.gram)
        freedom = np.zeros(len(square))
        np.divide(self.expected**2, square, out=freedom, where=square > 0)
        return freedom

    def pooled_freedom(self, weight: FloatArray) -> float:
        """Return the degrees of freedom of the weighted sum over all parameters, weights (q,)."""
        square = np.einsum(
            "k,kglh,kglh,l->",
            weight,
            self.gram,
            self.gram,
            weight,
            optimize=True,
        )
        return float((weight @ self.expected) ** 2 / square)


def _block_scatter(influence: Influence, labels: IntArray, power: float) -> _Scatter:
    """Return L (1 - K_c)^-power u_c of each block c.

    Power 1 leaves the block out, 1/2 is the correction of Bell and
    McCaffrey. Under white noise cov(u_c, u_d) = K_c d_cd - K_c K_d.
    Directions that one block alone determines are omitted.
    """
    member = (labels[None, :] == np.unique(labels)[:, None]).astype(float)  # (g, b)
    score = member @ influence.by_block.score
    information = np.tensordot(member, influence.by_block.information, axes=1)
    symmetric = (information + information.transpose(0, 2, 1)) / 2
    leverage, vectors = np.linalg.eigh(symmetric)
    leverage = np.clip(leverage, 0.0, 1.0)
    determined_by_others = leverage < FULL_LEVERAGE
    remaining = np.where(determined_by_others, 1 - leverage, 1.0)
    boost = np.where(determined_by_others, remaining**-power, 0.0)
    corrected = np.einsum("gqw,gw,gvw,gv->gq", vectors, boost, vectors, score, optimize=True)
    unit = influence.root / np.linalg.norm(influence.root, axis=1, keepdims=True)
    # L^T e_k in the eigenvectors of the block, parameter k in units of
    # its standard error
    rotated = np.einsum("gqw,kq->gkw", vectors, unit) * boost[:, None]
    cross = np.einsum("gqw,gw,gkw->kgq", vectors, leverage, rotated, optimize=True)
    gram = -np.tensordot(cross, cross, axes=(2, 2))  # (k, g, l, h)
    block = np.arange(len(member))
    within = np.einsum("gkw,gw,glw->gkl", rotated, leverage, rotated, optimize=True)
    gram[:, block, :, block] += within
    dominant = np.unravel_index(leverage.argmax(), leverage.shape)[0]
    return _Scatter(
        shifts=corrected @ influence.root.T,
        gram=gram,
        leverage=float(leverage.max(initial=0.0)),
        weakest=influence.root @ vectors[dominant, :, -1],
    )


def _jackknife_covariance(
    influence: Influence, noise: EstimateCovariance, labels: IntArray, kind: str
) -> tuple[EstimateCovariance, float] | None:
    """Return the noise widened by the surplus of a jackknife, and the probability of noise alone.

    With v the jackknife variance (g - 1) / g sum_c shift_c^2, n that of
    the noise and e n the jackknife variance that noise would give, the
    surplus v / n - e is estimated for each parameter with its degrees
    of freedom d and for all together, and n (1 + surplus) is reported:
    DerSimonian and Laird's random effects, shrunk to the mean of the
    parameters; that mean alone where logs are few. None if that is
    unknown for more than half of them.
    """
    scatter = _block_scatter(influence, labels, 1.0)
    count = len(np.unique(labels))
    variance = np.diag(noise.covariance)
    squares = (count - 1) / count * (scatter.shifts**2).sum(axis=0)
    ratio = squares / np.where(variance > 0, variance, 1.0)
    expected = (count - 1) / count * scatter.expected
    known = (expected < MAX_VARIANCE_INFLATION) & (scatter.freedom >= 1) & (variance > 0)
    if known.sum() < len(known) / 2:
        return None
    freedom = np.where(known, scatter.freedom, 0.0)
    surplus = np.where(known, ratio - expected, 0.0)
    mean_surplus = max(float(freedom @ surplus / freedom.sum()), 0.0)
    pooled = (freedom * surplus + POOLED_FREEDOM * mean_surplus) / (freedom + POOLED_FREEDOM)
    inflation = 1 + np.maximum(pooled, 0.0)
    degrees_of_freedom = freedom + POOLED_FREEDOM
    pooled_freedom = scatter.pooled_freedom(freedom / np.where(known, expected, 1.0))
    one_factor = kind == "logs" and count < MIN_LOGS_BY_PARAMETER
    if one_factor:
        inflation = np.full(len(freedom), 1 + mean_surplus)
        # both the variance of the noise and the factor are estimates
        degrees_of_freedom = 1 / (1 / noise.degrees_of_freedom + 1 / pooled_freedom)
    widening = np.sqrt(float(freedom @ inflation / freedom.sum()))
    if kind == "blocks":
        text = (
            f"estimates differ between {count} blocks of the motion more than noise explains "
            f"(errors of the model): standard errors are {widening:.2g} times those of the noise"
        )
    else:
        text = (
            "the model does not generalise from one motion to another: estimates without single "
            f"logs differ {widening:.2g} times as much as their standard errors allow, which are "
            "widened by as much"
        )
    widened = EstimateCovariance(
        covariance=noise.covariance * np.sqrt(np.outer(inflation, inflation)),
        degrees_of_freedom=degrees_of_freedom,
        kind=kind,
        count=count,
        notices=(_standard_errors(text),),
    )
    excess = ratio[known] / expected[known]
    together, single = _probabilities_of_noise(noise, known, excess, freedom[known], pooled_freedom)
    # what is applied to all parameters is tested for all together
    return widened, together if one_factor else min(together, single)


def _probabilities_of_noise(
    noise: EstimateCovariance,
    known: BoolArray,
    excess: FloatArray,
    freedom: FloatArray,
    pooled_freedom: float,
) -> tuple[float, float]:
    """Return the probability that noise alone gives jackknife variances as large.

    First that of all parameters together, then that of any single one.

    Args:
        noise: Covariance due to noise.
        known: Parameters with a jackknife variance, (q,).
        excess: Jackknife variance of these over that expected of noise,
            (k,).
        freedom: Degrees of freedom of each excess, (k,).
        pooled_freedom: Degrees of freedom of their mean.
    """
    noise_freedom = noise.degrees_of_freedom[known]
    # Under white noise all variances follow from the same few variances
    # of the rows: more parameters do not make these better known.
    pooled_noise_freedom = float(noise_freedom.mean())
    if noise.kind != "white":
        variance = np.diag(noise.covariance)[known]
        correlation = noise.covariance[np.ix_(known, known)] / np.sqrt(np.outer(variance, variance))
        independent_parameters = len(excess) ** 2 / float((correlation**2).sum())
        pooled_noise_freedom *= independent_parameters
    mean_excess = float(freedom @ excess / freedom.sum())
    together = f_tail(mean_excess, pooled_freedom, pooled_noise_freedom)
    single = [f_tail(*numbers) for numbers in zip(excess, freedom, noise_freedom)]
    return together, min(single) * len(single)


def _repetition_covariance(
    influence: Influence,
    problem: Regression,
    white: EstimateCovariance,
    *,
    always: bool,
) -> EstimateCovariance:
    """Return the covariance of the mean over k repetitions, log by log.

    Scatter of the k solutions / k, k - 1 degrees of freedom. With few
    of them the scatter is known only to a factor, while the t samples
    of their differences hold more: their long-run covariance, summed
    up, is (k - 1) times that of one solution.
    """
    shifts_by_log = _repetition_shifts(influence, problem)
    counts = [len(shifts) for shifts in shifts_by_log]
    total_freedom = sum(counts) - len(counts)
    few = not always and total_freedom < MIN_GROUPS - 1 and len(problem) >= MIN_HAC_SAMPLES
    covariances = []
    freedoms = []
    lags = 0
    for k, shifts in zip(counts, shifts_by_log):
        if few:
            n_samples = shifts.shape[1]
            repetition = np.repeat(np.arange(k), n_samples)
            terms = shifts.reshape(-1, shifts.shape[2])
            total, lags_of_log, long_run_freedom = long_run_covariance(terms, repetition)
            lags = max(lags, lags_of_log)
            freedom = np.maximum(long_run_freedom * (k - 1) / k, 1.0)
        else:
            sums = shifts.sum(axis=1)
            total = sums.T @ sums
            freedom = np.full(shifts.shape[2], k - 1.0)
        freedoms.append(freedom)
        covariances.append(total / (k * (k - 1)))
    covariance = np.sum(covariances, axis=0)
    count_text = "+".join(str(k) for k in counts)
    if few:
        text = (
            f"standard errors from the differences between {count_text} repetitions, "
            f"autocorrelation up to lag {lags} allowed for, after prewhitening"
        )
        notices: tuple[Notice, ...] = (_standard_errors(text),)
    else:
        covariance, rank_notices = _full_rank(covariance, white.covariance, total_freedom)
        text = f"standard errors from the scatter of {count_text} repetitions"
        notices = (_standard_errors(text), *rank_notices)
    variances = np.array([np.diag(covariance_of_log) for covariance_of_log in covariances])
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=pooled_degrees_of_freedom(variances, np.array(freedoms)),
        kind="hac" if few else "period",
        count=max(counts),
        notices=notices,
    )


def _repetition_shifts(influence: Influence, problem: Regression) -> list[FloatArray]:
    """Return for each log the shifts of the solution by each repetition and sample, (k, t, q)."""
    assert problem.replicates is not None
    slopes, _ = influence.samples(problem)
    difference = (problem.replicates - problem.effort) * problem.valid
    labels = problem.recording
    if labels is None:
        labels = np.zeros(len(problem), np.int64)
    shifts_by_log = []
    for label in np.unique(labels):
        in_log = labels == label
        deviation = difference[:, in_log]
        recorded = deviation.any(axis=(1, 2))  # logs may have fewer repetitions than the longest
        if recorded.sum() >= 2:
            deviation = deviation[recorded]
        deviation = (deviation - deviation.mean(axis=0)) * influence.residual[:, -1]
        scores = np.einsum("ktr,trq->ktq", deviation, slopes[in_log], optimize=True)
        shifts_by_log.append(scores @ influence.root.T)
    return shifts_by_log


def _group_covariance(
    influence: Influence, white: EstimateCovariance, *, fewest: int
) -> EstimateCovariance | str:
    """Return the covariance from the scatter between repetitions, or why it is not used.

    Bell and McCaffrey: covariance = sum_c a_c a_c^T,  a_c = L (1 - K_c)^(-1/2) u_c: exact
    for equal groups (factor g / (g - 1)).
    """
    statistics = influence.statistics
    if not statistics.repeats:
        return "the problem has no groups"
    count = len(statistics)
    if count < fewest:
        return f"there are {count} groups, expected at least {fewest}"
    scatter = _block_scatter(influence, np.arange(count), 0.5)
    if scatter.leverage > FULL_LEVERAGE:
        direction = np.abs(scatter.weakest) / np.linalg.norm(influence.root, axis=1)
        return f"one group alone determines {statistics.parameters[int(np.argmax(direction))]}"
    scatter_covariance = scatter.shifts.T @ scatter.shifts
    covariance, rank_notices = _full_rank(scatter_covariance, white.covariance, count - 1)
    text = f"standard errors from the scatter between {count} groups"
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=np.clip(scatter.freedom, 1.0, count - 1.0),
        kind="period",
        count=count,
        notices=(_standard_errors(text), *rank_notices),
    )


def _full_rank(
    covariance: FloatArray, white: FloatArray, freedom: int
) -> tuple[FloatArray, tuple[Notice, ...]]:
    """Replace the correlations by those of white noise if the scatter has too few for them."""
    if freedom >= 3 * len(covariance):
        return covariance, ()
    std = np.sqrt(np.diag(covariance))
    white_std = np.sqrt(np.diag(white))
    ratio = np.divide(std, white_std, out=np.zeros_like(std), where=white_std > 0)
    text = (
        "correlations between parameters are those of white noise: the scatter has "
        f"{freedom} degrees of freedom for {len(white)} parameters"
    )
    return white * np.outer(ratio, ratio), (_standard_errors(text),)


def _standard_errors(text: str) -> Notice:
    """Return a notice on how standard errors were computed."""
    return Notice(rule="standard errors", level="info", text=text)


def _autocorrelated_covariance(influence: Influence, problem: Regression) -> EstimateCovariance:
    """Return the covariance under autocorrelated noise, from the residual of each sample."""
    problem = replace(problem, replicates=None).in_order()
    slopes, residual = influence.samples(problem)
    n_valid = np.maximum(problem.n_valid, 1)
    leverage = (slopes**2).sum(axis=(0, 2))
    # Fitting made the residual of each row smaller than the noise.
    residual *= np.sqrt(n_valid / np.maximum(n_valid - leverage, 0.5))
    shifts = np.einsum("trq,tr->tq", slopes, residual) @ influence.root.T
    labels = [label for label in (problem.recording, problem.group) if label is not None]
    group = None
    if labels:
        group = np.unique(np.stack(labels), axis=1, return_inverse=True)[1].reshape(-1)
    covariance, lags, freedom = long_run_covariance(shifts, group)
    text = f"standard errors allow for autocorrelated noise, up to lag {lags} after prewhitening"
    return EstimateCovariance(
        covariance=covariance,
        degrees_of_freedom=freedom,
        kind="hac",
        notices=(_standard_errors(text),),
    )
