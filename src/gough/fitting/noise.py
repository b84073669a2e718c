"""The noise of the rows from what a fit leaves, and the fit from the noise, until both agree.

The covariance of the rows that maximises the likelihood given the parameters, and the parameters
given the covariance, taken in turn (Oberhofer and Kmenta 1974), with degrees of freedom in the
place of samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.notices import Notice
from gough.fitting.block_statistics import BlockStatistics, JointFactor
from gough.fitting.solve import Solution, solve
from gough.fitting.whitening import inverse_root

ROUNDING = 1e-9  # of a row's terms: a smaller residual is rounding and says nothing of noise
SINGULAR = 1e-8  # smallest eigenvalue of the correlation between rows below which it is not used
# to which it is raised where rows are missing, as pairs of rows then come from different samples
CLIPPED = 1e-3
SETTLED = 0.01  # standard deviations by which parameters may still move in the end
PATIENCE = 30  # passes after which this is enough, and after which steps are halved if it is not
# degrees of freedom of a row per row, below which correlations between rows are guesses: in trials
# of 3
ENOUGH = 7.0
# to 7 rows 95 % intervals covered 72 % at 3, 86 to 91 % at 6 and 94 to 95 % from 7 on


class _Singular(Exception):
    """The noise of some rows is a combination of that of others."""


def estimated_noise(
    statistics: BlockStatistics, *, full: bool, iterations: int, tolerance: float | None
) -> Noise:
    """Return the noise of the rows, with correlations between them if `full`, which needs the rows
    side by side.

    Passes end when the covariance changes by less than `tolerance` of itself; from `PATIENCE`
    passes on it is enough that no parameter moves by more than `SETTLED` standard deviations, and
    steps are halved. If that is not reached either, the most likely pass is taken and a note says
    so. Weights that run away until a row is fitted exactly are replaced by those of the first pass,
    a covariance that is singular or of too few samples by that of single rows. A tolerance of None
    makes all passes (one is BG13's estimator).
    """
    if iterations < 1 or (tolerance is not None and not tolerance > 0):
        raise InvalidInput(f"iterations {iterations} and tolerance {tolerance} must be positive")
    parts = (
        tuple(
            part._replace(stacked=part.stacked[:, part.valid_rows])
            for part in statistics.joint_rows
        )
        if full
        else tuple(
            JointFactor(
                block=0,
                valid_rows=np.array([j]),
                samples=int(count),
                stacked=statistics.factors[j][:, None],
            )
            for j, count in enumerate(statistics.n_valid)
        )
    )
    this = Noise(statistics=statistics, parts=parts, covariance=np.eye(len(statistics.rows)))
    try:
        if full:
            this.check_enough()
        return _iterated(this, iterations, tolerance)
    except _Singular as reason:
        rows = estimated_noise(statistics, full=False, iterations=iterations, tolerance=tolerance)
        notice = _weights(f"{reason}: each joint equation was weighted on its own")
        return replace(rows, notices=(*rows.notices, notice))


def _iterated(this: Noise, iterations: int, tolerance: float | None) -> Noise:
    best = first = this
    for k in range(iterations):
        try:
            new = this.of_residuals()
        except NotIdentifiable as reason:
            if k < 2:
                raise
            text = f"row weights diverge ({reason}); those of the first iteration were kept"
            return replace(first, notices=(_weights(text),))
        size = np.sqrt(np.diag(new))
        change = float(np.abs((new - this.covariance) / np.outer(size, size)).max())
        late = k >= PATIENCE and tolerance is not None
        before, this = this, replace(this, covariance=(new + this.covariance) / 2 if late else new)
        first = this if k == 0 else first
        best = this if k == 0 or this.deviance < best.deviance else best
        step = np.abs(this.solution.values - before.solution.values)
        moved = float((step / np.linalg.norm(this.solution.root, axis=1)).max(initial=0.0))
        if tolerance is not None and (change < tolerance or (late and moved < SETTLED)):
            return this
    if tolerance is None or moved <= SETTLED:
        return this
    text = (
        f"row weights still change after {iterations} iterations and change parameters by up to "
        f"{moved:.2g} standard errors; the most likely iteration was taken"
    )
    return replace(best, notices=(_weights(text),))


def _weights(text: str) -> Notice:
    """Return a notice on how the weights of the joint equations were found."""
    return Notice(rule="weights", level="info", text=text)


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """A covariance of the rows, the solution that it gives, and what follows from both."""

    statistics: BlockStatistics
    parts: tuple[
        JointFactor, ...
    ]  # rows whose noise may be correlated side by side, or each row alone
    covariance: FloatArray  # (r, r) [product of the row units]
    notices: tuple[Notice, ...] = ()  # how the iteration ended, if not as usual

    @cached_property
    def roots(self) -> list[FloatArray]:
        """Inverse roots of the covariance of the rows in each part."""
        return [
            inverse_root(
                self.covariance[np.ix_(part.valid_rows, part.valid_rows)],
                tuple(self.statistics.rows[j] for j in part.valid_rows),
            )
            for part in self.parts
        ]

    @cached_property
    def solution(self) -> Solution:
        """The fit of the rows weighted by it."""
        return solve(
            np.concatenate(
                [
                    (root @ part.stacked).reshape(-1, part.stacked.shape[2])
                    for root, part in zip(self.roots, self.parts)
                ]
            ),
            self.statistics.parameters,
        )

    @cached_property
    def deviance(self) -> float:
        """Minus twice the log-likelihood, up to a constant."""
        size = sum(
            -2 * part.samples * float(np.linalg.slogdet(root)[1])
            for root, part in zip(self.roots, self.parts)
        )
        return size + self.solution.residual_norm**2

    @property
    def rounding(self) -> FloatArray:
        """Level of each row below which a residual is no measure of noise, (r,); 1 for rows of
        zeros.
        """
        terms = self.statistics.factors * np.append(self.solution.values, 1.0)
        size = np.linalg.norm(terms, axis=1).max(axis=1) / np.sqrt(
            np.maximum(self.statistics.n_valid, 1)
        )
        return np.asarray(np.where(size > 0, ROUNDING * size, 1.0))

    @property
    def exact(self) -> bool:
        """Nothing is left but rounding."""
        silent = np.diag(self.covariance) <= (2 * self.rounding) ** 2
        return bool(silent[self.statistics.equations > 0].all())

    @cached_property
    def row_freedom(self) -> FloatArray:
        """Equations of each row less its share in the parameters, (r,); infinite for rows that say
        nothing.
        """
        share = np.zeros(len(self.covariance))
        for root, part in zip(self.roots, self.parts):
            spared = part.stacked[:, :, :-1] @ self.solution.root
            share[part.valid_rows] += (spared * (root.T @ (root @ spared))).sum(axis=(0, 2))
        equations = self.statistics.equations
        free = np.where(equations > 0, equations - share, np.inf)
        if free.min() < 0.5:
            bad = self.statistics.rows[int(np.argmin(free))]
            raise NotIdentifiable(
                f"row '{bad}' is fitted exactly by parameters of its own, so its noise cannot be "
                "found; record longer, leave out parameters, or use LeastSquares",
                row=bad,
            )
        return free

    @cached_property
    def pair_freedom(self) -> FloatArray:
        """Degrees of freedom of a covariance between two rows, n_ij sqrt(f_i f_j / (n_i n_j)), (r,
        r).
        """
        pairs = np.zeros_like(self.covariance)
        for part in self.parts:
            pairs[np.ix_(part.valid_rows, part.valid_rows)] += part.samples
        known = np.isfinite(self.row_freedom)
        share = np.where(known, self.row_freedom, 1.0) / np.maximum(np.diag(pairs), 1)
        return np.where(
            (pairs > 0) & np.outer(known, known), pairs * np.sqrt(np.outer(share, share)), np.inf
        )

    def check_enough(self) -> None:
        """Raise `_Singular` if there are too few samples to estimate correlations between rows."""
        alive = self.statistics.equations > 0
        free, many = float(self.row_freedom[alive].mean()), int(alive.sum())
        if many > 1 and free < ENOUGH * many:
            raise _Singular(
                f"{free:.0f} degrees of freedom a row are too few for correlations between {many} "
                f"rows"
            )

    def of_residuals(self) -> FloatArray:
        """Return the covariance of what the solution leaves, (r, r).

        sigma_ij = sum over samples where both rows count of e_i e_j / f_ij.
        """
        total = np.zeros_like(self.covariance)
        for part in self.parts:
            left = part.stacked @ self.solution.extended
            total[np.ix_(part.valid_rows, part.valid_rows)] += left.T @ left
        new = total / self.pair_freedom
        floor, variance = self.rounding**2, np.diag(new)
        known = (variance > floor) & np.isfinite(
            self.row_freedom
        )  # rounding is correlated with nothing
        size = np.sqrt(np.where(known, variance, 1.0))
        unit = np.where(np.outer(known, known), new / np.outer(size, size), 0.0)
        np.fill_diagonal(unit, 1.0)
        values, vectors = np.linalg.eigh(unit)
        if values[0] < SINGULAR and len(self.parts) == 1:
            names = [self.statistics.rows[j] for j in np.flatnonzero(np.abs(vectors[:, 0]) > 0.3)]
            raise _Singular(
                f"the noise of the rows {', '.join(names)} is not independent (eigenvalue "
                f"{values[0]:.1e} "
                "of their correlation)"
            )
        if values[0] < CLIPPED and len(self.parts) > 1:
            share = (CLIPPED - values[0]) / (1 - values[0])
            unit = (1 - share) * unit + share * np.eye(len(unit))
        std = np.sqrt(np.maximum(variance, floor))
        return np.asarray(unit * np.outer(std, std))

    def freedom_and_inflation(self) -> tuple[FloatArray, FloatArray]:
        """Return the degrees of freedom behind the variance of each parameter, and how much it
        grows, (p,) each.

        With C the share of whitened rows in a parameter's variance (trace 1) and f_ij the degrees
        of freedom of the estimated covariance, Satterthwaite gives 1 / sum_ij C_ij^2 / f_ij. That
        the weights are estimates adds Lambda = sum_ij C_ii (1 + d_ij) / f_ij - 2 / freedom to the
        variance, and takes as much from its estimate (Kackar and Harville 1984, to first order with
        few parameters): it grows by 1 / (1 - Lambda)^2.
        """
        spread = self.solution.root @ self.solution.root.T
        C = np.zeros((len(spread), *self.covariance.shape))
        for root, part in zip(self.roots, self.parts):
            slopes = (root @ (part.stacked[:, :, :-1] @ spread)).transpose(2, 0, 1)
            C[np.ix_(np.arange(len(C)), part.valid_rows, part.valid_rows)] += (
                slopes.transpose(0, 2, 1) @ slopes
            )
        C /= np.trace(C, axis1=1, axis2=2)[:, None, None]
        inverse = 1 / self.pair_freedom
        freedom = 1 / (C**2 * inverse).sum(axis=(1, 2))
        rows = (inverse * (1 + np.eye(len(inverse)))).sum(axis=1)
        extra = np.diagonal(C, axis1=1, axis2=2) @ rows - 2 / freedom
        return freedom, 1 / (1 - np.clip(extra, 0.0, 0.5)) ** 2


def pooled_degrees_of_freedom(shares: FloatArray, free: FloatArray) -> FloatArray:
    """Return the degrees of freedom behind variances that add up shares of rows with noise of their
    own, (q,).

    Satterthwaite: (sum_j v_j)^2 / sum_j (v_j^2 / f_j). A parameter that acts on one row knows that
    row's noise only, whatever the number of other rows; one that acts on all alike has sum_j f_j.
    Here v are the shares, (r, q), and f the degrees of freedom of each row's noise, (r,) or (r, q).
    """
    each = np.broadcast_to(free[:, None] if free.ndim == 1 else free, shares.shape)
    top, bottom = shares.sum(axis=0) ** 2, (shares**2 / each).sum(axis=0)
    most = np.where(np.isfinite(each), each, 0.0).sum(axis=0)
    return np.asarray(np.divide(top, bottom, out=most, where=bottom > 0))
