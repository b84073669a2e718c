"""The noise of the rows from what a fit leaves, and the fit from the noise, until both agree.

The covariance of the rows that maximises the likelihood given the parameters, and the parameters given the covariance,
taken in turn (Oberhofer and Kmenta 1974), with degrees of freedom in the place of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.condensed import Condensed, Joint, inverse_root
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.estimators.linear.solve import Solution, solve

ROUNDING = 1e-9  # of a row's terms: a smaller residual is rounding and says nothing of noise
SINGULAR = 1e-8  # smallest eigenvalue of the correlation between rows below which it is not used
CLIPPED = 1e-3  # to which it is raised where rows are missing, as pairs of rows then come from different samples
SETTLED = 0.01  # standard deviations by which parameters may still move in the end
PATIENCE = 30  # passes after which this is enough, and after which steps are halved if it is not
ENOUGH = 7.0  # degrees of freedom of a row per row, below which correlations between rows are guesses: in trials of 3
# to 7 rows 95 % intervals covered 72 % at 3, 86 to 91 % at 6 and 94 to 95 % from 7 on


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """Noise of the rows and the solution that goes with it.

    Args:
        covariance: (r, r). [product of the row units]
        solution: Found with it.
        freedom: Degrees of freedom behind each parameter's variance, (p,).
        growth: Factor on each parameter's variance because the weights are estimates themselves, (p,).
        exact: Nothing is left but rounding.
        notes: How the iteration ended, if not as usual.
    """

    covariance: FloatArray
    solution: Solution
    freedom: FloatArray
    growth: FloatArray
    exact: bool
    notes: tuple[str, ...] = ()


class _Singular(Exception):
    """The noise of some rows is a combination of that of others."""


def estimated_noise(condensed: Condensed, *, full: bool, iterations: int, tolerance: float | None) -> Noise:
    """Return the noise of the rows, with correlations between them if `full`.

    Passes end when the covariance changes by less than `tolerance` of itself; from `PATIENCE` passes on it is enough
    that no parameter moves by more than `SETTLED` standard deviations, and steps are halved. If that is not reached
    either, the most likely pass is taken and a note says so. Weights that run away until a row is fitted exactly are
    replaced by those of the first pass, a covariance that is singular or of too few samples by that of single rows.

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
    notes: tuple[str, ...] = ()
    this = best = first = _Pass(condensed, _parts(condensed, full), np.eye(len(condensed.rows)))
    if full and (few := this.too_few()):
        return _single_rows(condensed, iterations, tolerance, few)
    for k in range(iterations):
        try:
            new = this.residual_noise()
        except _Singular as reason:
            return _single_rows(condensed, iterations, tolerance, str(reason))
        except NotIdentifiable as reason:
            if k < 2:
                raise
            this, notes = first, (f"row weights ran away ({reason}); those of the first pass were kept",)
            break
        size = np.sqrt(np.diag(new))
        change = float(np.abs((new - this.noise) / np.outer(size, size)).max())
        late = k >= PATIENCE and tolerance is not None
        before, this = this, _Pass(condensed, this.parts, (new + this.noise) / 2 if late else new)
        first = this if k == 0 else first
        best = this if k == 0 or this.deviance < best.deviance else best
        moved = this.moved(before)
        if tolerance is not None and (change < tolerance or (late and moved < SETTLED)):
            break
    else:
        if tolerance is not None and moved > SETTLED:
            this = best
            notes = (f"row weights still change after {iterations} passes and move parameters by up to {moved:.2g} "
                     "standard deviations; the most likely pass was taken",)
    silent = np.diag(this.noise) <= (2 * this.rounding) ** 2
    freedom, growth = this.freedom_and_growth()
    return Noise(covariance=this.noise, solution=this.solution, freedom=freedom, growth=growth, notes=notes,
                 exact=bool(silent[condensed.equations > 0].all()))


def _single_rows(condensed: Condensed, iterations: int, tolerance: float | None, reason: str) -> Noise:
    """Return the noise without correlations between rows, and why."""
    rows = estimated_noise(condensed, full=False, iterations=iterations, tolerance=tolerance)
    return replace(rows, notes=(*rows.notes, f"{reason}: each row was weighted on its own"))


def _parts(condensed: Condensed, full: bool) -> tuple[Joint, ...]:
    """Return rows whose noise may be correlated side by side: those that count together, or each row alone."""
    if full:
        return tuple(replace(part, data=part.data[:, part.present]) for part in condensed.patterns)
    return tuple(Joint(piece=0, present=np.array([j]), samples=int(count), data=condensed.factors[j][:, None])
                 for j, count in enumerate(condensed.counts))


class _Pass:
    """The solution that a covariance of the rows gives, and what follows from it."""

    def __init__(self, condensed: Condensed, parts: tuple[Joint, ...], noise: FloatArray) -> None:
        self.condensed, self.parts, self.noise = condensed, parts, noise
        self.roots = [inverse_root(noise[np.ix_(part.present, part.present)],
                                   tuple(condensed.rows[j] for j in part.present)) for part in parts]
        self.solution = solve(np.concatenate([
            (root @ part.data).reshape(-1, part.data.shape[2]) for root, part in zip(self.roots, parts)]),
            condensed.parameters)

    def moved(self, before: _Pass) -> float:
        """Return the largest change of a parameter in standard deviations."""
        step = np.abs(self.solution.values - before.solution.values)
        return float((step / np.linalg.norm(self.solution.root, axis=1)).max(initial=0.0))

    @cached_property
    def deviance(self) -> float:
        """Minus twice the log-likelihood, up to a constant."""
        size = sum(-2 * part.samples * float(np.linalg.slogdet(root)[1]) for root, part in zip(self.roots, self.parts))
        return size + self.solution.residual_norm**2

    @cached_property
    def rounding(self) -> FloatArray:
        """Level of each row below which a residual is no measure of noise, (r,); 1 for rows of zeros."""
        terms = self.condensed.factors * np.append(self.solution.values, 1.0)
        size = np.linalg.norm(terms, axis=1).max(axis=1) / np.sqrt(np.maximum(self.condensed.counts, 1))
        return np.asarray(np.where(size > 0, ROUNDING * size, 1.0))

    @cached_property
    def row_freedom(self) -> FloatArray:
        """Equations of each row less its share in the parameters, (r,); infinite for rows that say nothing."""
        share = np.zeros(len(self.noise))
        for root, part in zip(self.roots, self.parts):
            spared = part.data[:, :, :-1] @ self.solution.root
            share[part.present] += (spared * (root.T @ (root @ spared))).sum(axis=(0, 2))
        equations = self.condensed.equations
        free = np.where(equations > 0, equations - share, np.inf)
        if free.min() < 0.5:
            bad = self.condensed.rows[int(np.argmin(free))]
            raise NotIdentifiable(f"row '{bad}' is fitted exactly by parameters of its own, so its noise cannot be "
                                  "found; record longer, leave out parameters, or use LeastSquares", row=bad)
        return free

    @cached_property
    def pair_freedom(self) -> FloatArray:
        """Degrees of freedom of a covariance between two rows, n_ij sqrt(f_i f_j / (n_i n_j)), (r, r)."""
        pairs = np.zeros_like(self.noise)
        for part in self.parts:
            pairs[np.ix_(part.present, part.present)] += part.samples
        known = np.isfinite(self.row_freedom)
        share = np.where(known, self.row_freedom, 1.0) / np.maximum(np.diag(pairs), 1)
        return np.where((pairs > 0) & np.outer(known, known), pairs * np.sqrt(np.outer(share, share)), np.inf)

    def too_few(self) -> str:
        """Return why correlations between rows cannot be estimated, or nothing if they can."""
        alive = self.condensed.equations > 0
        free = float(self.row_freedom[alive].mean())
        if alive.sum() < 2 or free >= ENOUGH * alive.sum():
            return ""
        return f"{free:.0f} degrees of freedom a row are too few for correlations between {alive.sum()} rows"

    def residual_noise(self) -> FloatArray:
        """Return the covariance of what the solution leaves, (r, r).

        sigma_ij = sum over samples where both rows count of e_i e_j / f_ij.
        """
        total = np.zeros_like(self.noise)
        for part in self.parts:
            left = part.data @ self.solution.extended
            total[np.ix_(part.present, part.present)] += left.T @ left
        new = total / self.pair_freedom
        floor, variance = self.rounding**2, np.diag(new)
        known = (variance > floor) & np.isfinite(self.row_freedom)  # rounding is correlated with nothing
        size = np.sqrt(np.where(known, variance, 1.0))
        unit = np.where(np.outer(known, known), new / np.outer(size, size), 0.0)
        np.fill_diagonal(unit, 1.0)
        values, vectors = np.linalg.eigh(unit)
        if values[0] < SINGULAR and len(self.parts) == 1:
            names = [self.condensed.rows[j] for j in np.flatnonzero(np.abs(vectors[:, 0]) > 0.3)]
            raise _Singular(f"the noise of the rows {', '.join(names)} is not independent (eigenvalue {values[0]:.1e} "
                            "of their correlation)")
        if values[0] < CLIPPED and len(self.parts) > 1:
            share = (CLIPPED - values[0]) / (1 - values[0])
            unit = (1 - share) * unit + share * np.eye(len(unit))
        std = np.sqrt(np.maximum(variance, floor))
        return np.asarray(unit * np.outer(std, std))

    def freedom_and_growth(self) -> tuple[FloatArray, FloatArray]:
        """Return the degrees of freedom behind the variance of each parameter, and how much it grows, (p,) each.

        With C the share of whitened rows in a parameter's variance (trace 1) and f_ij the degrees of freedom of the
        estimated covariance, Satterthwaite gives 1 / sum_ij C_ij^2 / f_ij. That the weights are estimates adds
        Lambda = sum_ij C_ii (1 + d_ij) / f_ij - 2 / freedom to the variance, and takes as much from its estimate
        (Kackar and Harville 1984, to first order with few parameters): it grows by 1 / (1 - Lambda)^2.
        """
        spread = self.solution.root @ self.solution.root.T
        C = np.zeros((len(spread), *self.noise.shape))
        for root, part in zip(self.roots, self.parts):
            slopes = (root @ (part.data[:, :, :-1] @ spread)).transpose(2, 0, 1)
            C[np.ix_(np.arange(len(C)), part.present, part.present)] += slopes.transpose(0, 2, 1) @ slopes
        C /= np.trace(C, axis1=1, axis2=2)[:, None, None]
        inverse = 1 / self.pair_freedom
        freedom = 1 / (C**2 * inverse).sum(axis=(1, 2))
        rows = (inverse * (1 + np.eye(len(inverse)))).sum(axis=1)
        extra = np.diagonal(C, axis1=1, axis2=2) @ rows - 2 / freedom
        return freedom, 1 / (1 - np.clip(extra, 0.0, 0.5)) ** 2


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
