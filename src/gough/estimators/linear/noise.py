"""The noise of the rows from what a fit leaves, and the fit from the noise, until both agree.

The covariance of the rows that maximises the likelihood given the parameters, and the parameters given the covariance,
taken in turn (Oberhofer and Kmenta 1974), with degrees of freedom in the place of samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.condensed import Condensed, inverse_root
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.estimators.linear.solve import Solution, solve

ROUNDING = 1e-9  # of a row's terms: a smaller residual is rounding and says nothing of noise
SINGULAR = 1e-8  # smallest eigenvalue of the correlation between rows below which it is not used
CLIPPED = 1e-3  # to which it is raised where rows are missing, as pairs of rows then come from different samples
SETTLED = 0.01  # standard deviations by which parameters may still move in the end
PATIENCE = 30  # passes after which this is enough, and after which steps are halved if it is not


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """Noise of the rows and the solution that goes with it.

    Args:
        covariance: (r, r). [product of the row units]
        solution: Found with it.
        freedom: Degrees of freedom behind each parameter's variance, (p,).
        exact: Nothing is left but rounding.
        notes: How the iteration ended, if not as usual.
    """

    covariance: FloatArray
    solution: Solution
    freedom: FloatArray
    exact: bool
    notes: tuple[str, ...] = ()


class _Singular(Exception):
    """The noise of some rows is a combination of that of others."""


def estimated_noise(condensed: Condensed, *, full: bool, iterations: int, tolerance: float | None) -> Noise:
    """Return the noise of the rows, with correlations between them if `full`.

    Passes end when the covariance changes by less than `tolerance` of itself; from `PATIENCE` passes on it is enough
    that no parameter moves by more than `SETTLED` standard deviations, and steps are halved. If that is not reached
    either, the most likely pass is taken and a note says so. A singular covariance is replaced by that of single rows.

    Args:
        condensed: The problem; with the rows side by side if `full`.
        full: Estimate correlations between rows too.
        iterations: Most passes.
        tolerance: None makes all passes (one is BG13's estimator).

    Raises:
        NotIdentifiable: Dependent parameters, or a row with as many parameters of its own as equations.
    """
    if iterations < 1 or (tolerance is not None and not tolerance > 0):
        raise InvalidInput(f"iterations {iterations} and tolerance {tolerance} must be positive")
    r = len(condensed.rows)
    noise, best, before = np.eye(r), (np.inf, np.eye(r)), None
    notes: tuple[str, ...] = ()
    for k in range(iterations):
        solution = solve(_whitened(condensed, noise, full), condensed.parameters)
        likely = _deviance(condensed, noise, solution, full) if k else np.inf
        best = (likely, noise) if likely < best[0] else best
        try:
            new = _residual_noise(condensed, solution, noise, full)
        except _Singular as reason:
            rows = estimated_noise(condensed, full=False, iterations=iterations, tolerance=tolerance)
            return Noise(covariance=rows.covariance, solution=rows.solution, freedom=rows.freedom, exact=rows.exact,
                         notes=(*rows.notes, f"{reason}: each row was weighted on its own"))
        shift = np.inf if before is None else _largest_move(before, solution)
        size = np.sqrt(np.diag(new))
        change = np.abs((new - noise) / np.outer(size, size)).max()
        before, last = solution, noise
        noise = (new + noise) / 2 if k >= PATIENCE and tolerance is not None else new
        if tolerance is not None and (change < tolerance or (k >= PATIENCE and shift < SETTLED)):
            break
    else:
        if tolerance is not None and shift > SETTLED:
            noise = best[1] if np.isfinite(best[0]) else last
            notes = (f"row weights still change after {iterations} passes and move parameters by up to "
                     f"{shift:.2g} standard deviations; the most likely pass was taken",)
    solution = solve(_whitened(condensed, noise, full), condensed.parameters)
    silent = np.diag(noise) <= (2 * _rounding(condensed, solution)) ** 2
    return Noise(covariance=noise, solution=solution, notes=notes, freedom=_freedom(condensed, solution, noise, full),
                 exact=bool(silent[condensed.equations > 0].all()))


def _largest_move(before: Solution, now: Solution) -> float:
    """Return the largest change of a parameter in standard deviations."""
    return float((np.abs(now.values - before.values) / np.linalg.norm(now.root, axis=1)).max(initial=0.0))


def _rounding(condensed: Condensed, solution: Solution) -> FloatArray:
    """Return the level of each row below which a residual is no measure of noise, (r,); 1 for rows of zeros."""
    terms = condensed.factors * np.append(solution.values, 1.0)
    size = np.linalg.norm(terms, axis=1).max(axis=1) / np.sqrt(np.maximum(condensed.counts, 1))
    return np.asarray(np.where(size > 0, ROUNDING * size, 1.0))


def _whitened(condensed: Condensed, noise: FloatArray, full: bool) -> FloatArray:
    """Return factors of the whitened rows, (..., p + 1)."""
    if not full:
        return condensed.factors / np.sqrt(np.diag(noise))[:, None, None]
    return np.concatenate([np.einsum("ij,kjc->ikc", _root(noise, part.present), part.data[:, part.present])
                           .reshape(-1, len(condensed.parameters) + 1) for part in condensed.patterns])


def _root(noise: FloatArray, present: IntArray) -> FloatArray:
    return inverse_root(noise[np.ix_(present, present)], tuple(str(j) for j in present))


def _deviance(condensed: Condensed, noise: FloatArray, solution: Solution, full: bool) -> float:
    """Return minus twice the log-likelihood, up to a constant."""
    if not full:
        size = float(condensed.equations @ np.log(np.diag(noise)))
    else:
        size = sum(part.samples * float(np.linalg.slogdet(noise[np.ix_(part.present, part.present)])[1])
                   for part in condensed.patterns)
    return size + solution.residual_norm**2


def _shares(condensed: Condensed, solution: Solution, noise: FloatArray, full: bool) -> FloatArray:
    """Return h_j, the share of row j in the fitted parameters, (r,); they add up to p."""
    if not full:
        part = np.linalg.norm(condensed.factors[:, :, :-1] @ solution.root, axis=(1, 2))
        return np.asarray(part**2 / np.diag(noise))
    share = np.zeros(len(condensed.rows))
    for part in condensed.patterns:
        root, spared = _root(noise, part.present), part.data[:, part.present, :-1] @ solution.root
        share[part.present] += np.einsum("kjq,kiq,ij->j", spared, spared, root.T @ root, optimize=True)
    return share


def _row_freedom(condensed: Condensed, solution: Solution, noise: FloatArray, full: bool) -> FloatArray:
    """Return the equations of each row less its share in the parameters, (r,); infinite for rows that say nothing."""
    free = condensed.equations - _shares(condensed, solution, noise, full)
    free = np.where(condensed.equations > 0, free, np.inf)
    if free.min() < 0.5:
        bad = condensed.rows[int(np.argmin(free))]
        raise NotIdentifiable(f"row '{bad}' is fitted exactly by parameters of its own, so its noise cannot be found; "
                              "record longer, leave out parameters, or use LeastSquares", row=bad)
    return free


def _pair_freedom(condensed: Condensed, free: FloatArray) -> FloatArray:
    """Return the degrees of freedom of a covariance between two rows, (r, r): n_ij sqrt(f_i f_j / (n_i n_j))."""
    known = np.where(np.isfinite(free), free, 1.0)
    rows = np.sqrt(np.outer(known, known))
    pairs = np.zeros_like(rows)
    for part in condensed.patterns:
        pairs[np.ix_(part.present, part.present)] += part.samples
    own = np.maximum(np.diag(pairs), 1)
    return np.where(pairs > 0, rows * pairs / np.sqrt(np.outer(own, own)), np.inf)


def _residual_noise(condensed: Condensed, solution: Solution, noise: FloatArray, full: bool) -> FloatArray:
    """Return the covariance of what a solution found with `noise` leaves, (r, r).

    sigma_ij = sum over samples where both rows count of e_i e_j / f_ij.
    """
    floor = _rounding(condensed, solution) ** 2
    free = _row_freedom(condensed, solution, noise, full)
    if not full:
        left = np.linalg.norm(condensed.factors @ solution.extended, axis=1)
        return np.diag(np.maximum(left**2 / free, floor))
    total = np.zeros_like(noise)
    for part in condensed.patterns:
        left = part.data @ solution.extended
        total += left.T @ left
    new = total / _pair_freedom(condensed, free)
    variance = np.diag(new)
    known = (variance > floor) & np.isfinite(free)  # rounding and rows of zeros are correlated with nothing
    size = np.sqrt(np.where(known, variance, 1.0))
    unit = np.where(np.outer(known, known), new / np.outer(size, size), 0.0)
    np.fill_diagonal(unit, 1.0)
    values, vectors = np.linalg.eigh(unit)
    if values[0] < SINGULAR and len(condensed.patterns) == 1:
        names = [condensed.rows[j] for j in np.flatnonzero(np.abs(vectors[:, 0]) > 0.3)]
        raise _Singular(f"the noise of the rows {', '.join(names)} is not independent (eigenvalue {values[0]:.1e} of "
                        "their correlation)")
    if values[0] < CLIPPED and len(condensed.patterns) > 1:
        share = (CLIPPED - values[0]) / (1 - values[0])
        unit = (1 - share) * unit + share * np.eye(len(unit))
    std = np.sqrt(np.maximum(variance, floor))
    return np.asarray(unit * np.outer(std, std))


def _freedom(condensed: Condensed, solution: Solution, noise: FloatArray, full: bool) -> FloatArray:
    """Return the degrees of freedom behind the variance of each parameter, (p,), by Satterthwaite.

    The variance is tr(C Sigma) with Sigma a scatter matrix of f_ij degrees of freedom: tr(C)^2 / sum_ij C_ij^2 / f_ij
    in whitened rows.
    """
    free = _row_freedom(condensed, solution, noise, full)
    spread = solution.root @ solution.root.T
    if not full:
        shares = np.linalg.norm(condensed.factors[:, :, :-1] @ spread, axis=1) ** 2 / np.diag(noise)[:, None]
        return pooled_freedom(shares, free)
    C = np.zeros((len(spread), *noise.shape))
    for part in condensed.patterns:
        slopes = np.einsum("ij,kjp->pki", _root(noise, part.present), part.data[:, part.present, :-1] @ spread)
        C[np.ix_(np.arange(len(C)), part.present, part.present)] += slopes.transpose(0, 2, 1) @ slopes
    pairs = _pair_freedom(condensed, free)
    return np.asarray(np.trace(C, axis1=1, axis2=2) ** 2 / (C**2 / pairs).sum(axis=(1, 2)))


def pooled_freedom(shares: FloatArray, free: FloatArray) -> FloatArray:
    """Return the degrees of freedom behind variances that add up shares of rows with noise of their own, (q,).

    Satterthwaite: (sum_j v_j)^2 / sum_j (v_j^2 / f_j). A parameter that acts on one row knows that row's noise only,
    whatever the number of other rows; one that acts on all alike has sum_j f_j.

    Args:
        shares: v, part of each row in the variance of each parameter, (r, q).
        free: f, degrees of freedom of each row's noise, (r,) or (r, q).
    """
    each = np.broadcast_to(free[:, None] if free.ndim == 1 else free, shares.shape)
    top, bottom = shares.sum(axis=0) ** 2, (shares**2 / each).sum(axis=0)
    most = np.where(np.isfinite(each), each, 0.0).sum(axis=0)
    return np.asarray(np.divide(top, bottom, out=most, where=bottom > 0))
