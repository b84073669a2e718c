"""Standard deviations that hold: white noise, scatter between periods, or autocorrelated noise.

Every estimator here solves a sum of row scores to zero. Near the solution, with A_j = [W_j y_j] the data of row j,
its residual is A_j n_j and the derivative of that by the parameters A_j D_j, both already divided by the noise of the
row; L is a square root of the inverse information, L L^T = (sum_j D_j^T A_j^T A_j D_j)^-1. Then

    estimation error = - L sum_s u_s,    u_s = sum_j (A_sj D_j L)^T (A_sj n_j)

and the covariance is that of the sum of the influences u_s. The three ways differ in how they estimate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.regression import Condensed, Regression
from gough.estimators.linear.solve import Problem

Uncertainty = Literal["auto", "white", "period", "hac"]
ENOUGH_GROUPS = 5  # below this, scatter between groups says too little
ENOUGH_FREEDOM = 2.0  # below this, one group holds most of what is known of a parameter, and scatter misleads
SHORTEST = 30  # samples below which autocorrelation is not worth estimating
NEAR_ONE = 1 - 1e-6  # a leverage above this: one group alone determines a parameter


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Covariance of the estimation error, (p, p), degrees of freedom behind each variance, (p,), and where from."""

    covariance: FloatArray
    degrees_of_freedom: FloatArray
    kind: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """What the covariance of an estimator follows from, see the head of this file.

    Args:
        problem: The data, A_j = [W_j y_j].
        jacobian: D_j, (r, p + 1, q).
        residual: n_j, (r, p + 1).
        root: L, (q, q).
    """

    problem: Problem
    jacobian: FloatArray
    residual: FloatArray
    root: FloatArray


def linear_influence(problem: Regression, root: FloatArray, values: FloatArray | None = None) -> Influence:
    """Return the influence of values (p,) on whitened rows; without values the effort is the residual already."""
    p, r = len(problem.parameters), len(problem.rows)
    pick = np.concatenate([np.eye(p), np.zeros((1, p))])
    residual = np.append(np.zeros(p) if values is None else values, -1.0)
    return Influence(problem=problem, jacobian=np.broadcast_to(pick, (r, p + 1, p)), root=root,
                     residual=np.broadcast_to(residual, (r, p + 1)))


def spread(influence: Influence, *, white: FloatArray, white_freedom: FloatArray | float, mode: Uncertainty) -> Spread:
    """Return the covariance of an estimate the way asked for.

    'auto' takes the scatter over five or more repetitions if the problem holds them, with fewer the autocorrelation of
    what differs between them; else the scatter over groups (periods, recordings) if there are at least five and no
    parameter depends on one of them alone, else it allows for autocorrelation of the residuals, else assumes white
    noise. It says which.

    Args:
        influence: Where the covariance follows from.
        white: Covariance under white noise, (q, q).
        white_freedom: Degrees of freedom of `white`, (q,) or one number.
        mode: 'auto', 'white', 'period' or 'hac'.

    Raises:
        InvalidInput: The problem does not hold what the mode needs.
    """
    problem = influence.problem
    if not len(white):
        raise InvalidInput("there is no parameter to estimate; the problem has none left")
    if mode not in ("auto", "white", "period", "hac"):
        raise InvalidInput(f"uncertainty '{mode}' is not known; choose auto, white, period or hac", mode=mode)
    if mode in ("auto", "period"):
        if isinstance(problem, Regression) and problem.replicates is not None and len(problem.replicates) > 1:
            few = mode == "auto" and len(problem.replicates) < ENOUGH_GROUPS and len(problem) >= SHORTEST
            return _coloured_replicates(influence, problem) if few else _replicate_spread(influence, problem, white)
        found = _group_spread(influence, white, fewest=2 if mode == "period" else ENOUGH_GROUPS)
        samples = isinstance(problem, Regression) and len(problem) >= SHORTEST
        if isinstance(found, Spread) and (mode == "period" or not samples
                                          or found.degrees_of_freedom.min() >= ENOUGH_FREEDOM):
            return found
        if mode == "period":
            raise InvalidInput(f"scatter between periods cannot be used: {found}; use uncertainty='hac' or 'white'")
    if mode == "hac" and not isinstance(problem, Regression):
        raise InvalidInput("autocorrelated noise needs the samples, which a condensed problem no longer has; "
                           "condense with groups and use uncertainty='period'")
    if mode in ("auto", "hac") and isinstance(problem, Regression) and len(problem) >= SHORTEST:
        return _autocorrelated_spread(influence, problem)
    notes = () if mode == "white" else (
        "standard deviations assume white noise: there are no groups and no samples to tell otherwise"
        if isinstance(problem, Condensed) else
        f"standard deviations assume white noise: {len(problem)} samples are too few to tell otherwise",)
    freedom = np.broadcast_to(np.asarray(white_freedom, dtype=float), (len(white),))
    return Spread(covariance=white, degrees_of_freedom=freedom, kind="white", notes=notes)


def pooled_freedom(shares: FloatArray, free: FloatArray) -> FloatArray:
    """Return the degrees of freedom behind variances that add up shares of rows with noise of their own, (q,).

    Satterthwaite: (sum_j v_j)^2 / sum_j (v_j^2 / f_j). A parameter that acts on one row knows that row's noise only,
    whatever the number of other rows; one that acts on all alike has sum_j f_j.

    Args:
        shares: v, part of each row in the variance of each parameter, (r, q).
        free: f, degrees of freedom of each row's noise, (r,).
    """
    top, bottom = shares.sum(axis=0) ** 2, (shares**2 / free[:, None]).sum(axis=0)
    return np.asarray(np.divide(top, bottom, out=np.full_like(top, free.sum()), where=bottom > 0))


def _replicate_spread(influence: Influence, problem: Regression, white: FloatArray) -> Spread:
    """Covariance of the mean over k repetitions: scatter of the k solutions / k, k - 1 degrees of freedom."""
    deviation, slopes = _deviations(influence, problem)
    k = len(deviation)
    shifts = deviation.reshape(k, -1) @ slopes.reshape(-1, slopes.shape[2]) @ influence.root.T  # (k, q)
    covariance, notes = _full_rank(shifts.T @ shifts / (k * (k - 1)), white, k - 1)
    return Spread(covariance=covariance, degrees_of_freedom=np.full(len(white), k - 1.0), kind="period",
                  notes=(f"standard deviations from the scatter of {k} repetitions", *notes))


def _coloured_replicates(influence: Influence, problem: Regression) -> Spread:
    """Covariance of the mean over few repetitions: what differs between them is noise, its autocorrelation estimated.

    The scatter of two or three solutions is known to a factor only; t samples of noise each say more. Their long-run
    covariance, added up, is (k - 1) times that of one solution.
    """
    deviation, slopes = _deviations(influence, problem)
    k, t, _ = deviation.shape
    shifts = np.einsum("ktr,trq->ktq", deviation, slopes, optimize=True) @ influence.root.T
    covariance, lags, freedom = long_run_covariance(shifts.reshape(k * t, -1), np.repeat(np.arange(k), t))
    return Spread(covariance=covariance / (k * (k - 1)), degrees_of_freedom=np.maximum(freedom * (k - 1) / k, 1.0),
                  kind="hac", notes=(f"standard deviations from what differs between {k} repetitions, autocorrelation "
                                     f"allowed for ({lags} lags after prewhitening)",))


def _deviations(influence: Influence, problem: Regression) -> tuple[FloatArray, FloatArray]:
    """Return repetitions minus their mean, as residuals (k, t, r), and the whitened slopes A_j D_j L, (t, r, q)."""
    replicates = problem.replicates
    assert replicates is not None
    data = np.concatenate([problem.regressor, problem.effort[:, :, None]], axis=2)
    slopes = np.einsum("trc,rcq->trq", data, influence.jacobian @ influence.root, optimize=True)
    return (replicates - replicates.mean(axis=0)) * influence.residual[:, -1], np.asarray(slopes)


def group_moments(problem: Problem) -> FloatArray | None:
    """Return [W_j y_j]^T [W_j y_j] of each group, (g, r, p + 1, p + 1), or None without groups."""
    if isinstance(problem, Condensed):
        return problem.group_moments
    if problem.group is None:
        return None
    data = np.concatenate([problem.regressor, problem.effort[:, :, None]], axis=2).transpose(1, 0, 2)
    parts = (data[:, problem.group == label] for label in np.unique(problem.group))
    return np.stack([part.transpose(0, 2, 1) @ part for part in parts])


def _group_spread(influence: Influence, white: FloatArray, *, fewest: int) -> Spread | str:
    """Covariance from the scatter of the scores between independent groups, or the reason why not.

    Bell and McCaffrey's correction: with K_c = L^T X_c^T X_c L the share of group c in the information and
    u_c = L^T X_c^T e_c its score,  covariance = L (sum_c a_c a_c^T) L^T,  a_c = (1 - K_c)^(-1/2) u_c: exact for
    equal groups (factor g / (g - 1)). Degrees of freedom per parameter by Satterthwaite under white noise.
    """
    moments = group_moments(influence.problem)
    if moments is None:
        return "the problem has no groups"
    count = len(moments)
    if count < fewest:
        return f"there are {count} groups, expected at least {fewest}"
    slopes = influence.jacobian @ influence.root  # D_j L
    score = np.einsum("rcq,grcd,rd->gq", slopes, moments, influence.residual, optimize=True)
    share = np.einsum("rcq,grcd,rdw->gqw", slopes, moments, slopes, optimize=True)
    leverage, vectors = np.linalg.eigh((share + share.transpose(0, 2, 1)) / 2)
    leverage = np.maximum(leverage, 0.0)
    if leverage.max(initial=0.0) > NEAR_ONE:
        weight = np.abs(influence.root @ vectors[np.unravel_index(leverage.argmax(), leverage.shape)[0], :, -1])
        name = influence.problem.parameters[int(np.argmax(weight / np.linalg.norm(influence.root, axis=1)))] if (
            len(weight) == len(influence.problem.parameters)) else "a parameter"
        return f"one group alone determines {name}"
    boost = 1 / np.sqrt(1 - leverage)
    adjusted = np.einsum("gqw,gw,gvw,gv->gq", vectors, boost, vectors, score, optimize=True) @ influence.root.T
    covariance, notes = _full_rank(adjusted.T @ adjusted, white, count - 1)
    turned = np.einsum("gqw,kq->gkw", vectors, influence.root)  # V^T L^T e_k for parameter k
    own = np.einsum("gkw,gw->kg", turned**2, leverage / (1 - leverage))
    cross = np.einsum("gqw,gw,gkw->kgq", vectors, leverage * boost, turned, optimize=True)
    gram = -cross @ cross.transpose(0, 2, 1)
    gram[:, np.arange(count), np.arange(count)] += own
    freedom = np.trace(gram, axis1=1, axis2=2) ** 2 / np.einsum("kgh,kgh->k", gram, gram)
    return Spread(covariance=covariance, degrees_of_freedom=np.clip(freedom, 1.0, count - 1.0), kind="period",
                  notes=(f"standard deviations from the scatter between {count} groups", *notes))


def _full_rank(covariance: FloatArray, white: FloatArray, freedom: int) -> tuple[FloatArray, tuple[str, ...]]:
    """Keep the scatter's standard deviations but take white noise's correlations where the scatter has too few."""
    if freedom >= 3 * len(covariance):
        return covariance, ()
    std, reference = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(white))
    ratio = np.divide(std, reference, out=np.zeros_like(std), where=reference > 0)
    return white * np.outer(ratio, ratio), ("correlations between parameters are those of white noise: the scatter has "
                                            f"{freedom} degrees of freedom for {len(white)} parameters",)


def sample_influence(influence: Influence, problem: Regression) -> FloatArray:
    """Return L u_s of every sample, (t, q): the shift of the estimate each sample asks for."""
    data = np.concatenate([problem.regressor, problem.effort[:, :, None]], axis=2)
    residual = np.einsum("trc,rc->tr", data, influence.residual)
    slopes = np.einsum("trc,rcq->trq", data, influence.jacobian @ influence.root, optimize=True)
    return np.asarray(np.einsum("trq,tr->tq", slopes, residual) @ influence.root.T)


def _autocorrelated_spread(influence: Influence, problem: Regression) -> Spread:
    shifts, group = sample_influence(influence, problem), problem.group
    keys = [key for key in (problem.time, group) if key is not None]
    if keys:
        order = np.lexsort(keys)
        shifts, group = shifts[order], None if group is None else group[order]
    covariance, lags, freedom = long_run_covariance(shifts, group)
    equations, p = problem.effort.size, len(problem.parameters)
    return Spread(covariance=covariance * equations / (equations - p), degrees_of_freedom=freedom, kind="hac",
                  notes=(f"standard deviations allow for autocorrelated noise, {lags} lags after prewhitening",))


def long_run_covariance(
    shifts: FloatArray, group: IntArray | None = None, *, lags: int | None = None, prewhiten: bool = True
) -> tuple[FloatArray, int, FloatArray]:
    """Return the covariance of a sum of autocorrelated terms, the lags used and degrees of freedom.

    Newey and West: sum_h (1 - |h| / (lags + 1)) Gamma_h, lags by Andrews' AR(1) rule, after prewhitening each column by
    its own AR(1) (Andrews and Monahan), which keeps the result positive. Lags stay inside a group.
    Degrees of freedom: those of the kernel, 3 t / (2 lags + 2), and of the AR(1) factor, t (1 - a) / (2 (1 + a)).

    Args:
        shifts: Terms in time order, (t, q).
        group: Stretch of each sample, (t,); terms of different stretches are independent.
        lags: Lags to use; None chooses.
        prewhiten: Take out an AR(1) first.
    """
    t, q = shifts.shape
    labels = np.zeros(t, np.int64) if group is None else group
    size = np.maximum(np.abs(shifts).max(axis=0, initial=0.0), np.finfo(float).tiny)
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
    freedom = 1 / ((lags + 1) / (1.5 * t) + (2 * (1 + memory) / ((1 - memory) * t) if prewhiten else 0.0))
    covariance = total * np.outer(back, back) * (t / len(terms))
    return covariance, lags, np.maximum(np.broadcast_to(freedom, (q,)), 1.0)


def _first_correlation(terms: FloatArray, labels: IntArray) -> FloatArray:
    """Return each column's AR(1) coefficient inside groups, kept away from +-1, (q,)."""
    inside = (labels[1:] == labels[:-1])[:, None]
    top = (terms[1:] * terms[:-1] * inside).sum(axis=0)
    bottom = (terms[:-1] ** 2 * inside).sum(axis=0)
    return np.asarray(np.clip(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), -0.97, 0.97))
