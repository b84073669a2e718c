"""Weighted least squares: noise of the rows from the residual, and the fit from the noise, in turn.

The covariance of the rows that maximises the likelihood given the
parameters, and the parameters given the covariance (Oberhofer and
Kmenta 1974), with degrees of freedom in the place of samples.
Everything that weights rows uses this: the estimators, the choice of
the processing, the selection of joint terms.
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

# of estimated weights, over the variance; more is no first order
MAX_EXTRA_VARIANCE = 0.5
# Smallest eigenvalue of the correlation between rows below which it is
# not used
MIN_ROW_CORRELATION_EIGENVALUE = 1e-8
# Eigenvalue to which it is raised where rows are missing: pairs of rows
# come from other samples
RAISED_EIGENVALUE = 1e-3
# standard errors by which parameters may still move in the end
SETTLED_STEP = 0.01
# passes after which this is enough, and steps are halved if it is not
PATIENT_PASSES = 30
# Degrees of freedom of a row for each row, below which correlations between rows are not estimated:
# in trials of 3 to 7 rows 95 % intervals covered 72 % at 3, 86 to 91 % at 6, 94 to 95 % from 7 on
MIN_FREEDOM_PER_ROW = 7.0
MIN_FREEDOM = 0.5  # of a row; with less its noise cannot be estimated


class _Singular(Exception):
    """The noise of some rows is a combination of that of others."""


class _NotSettled(Exception):
    """The covariance between rows still changes after all passes."""


def estimate_row_noise(
    statistics: BlockStatistics,
    *,
    full: bool = False,
    iterations: int = 100,
    tolerance: float | None = 1e-9,
    deficient: bool = False,
) -> RowNoise:
    """Return the noise of the rows and the weighted least-squares solution it gives.

    Passes end when the covariance changes by less than `tolerance` of
    itself; from `PATIENT_PASSES` on it is enough that no parameter
    moves by more than `SETTLED_STEP` standard errors, and steps are
    halved. If weights of single rows do not reach that either, the most
    likely pass is taken and a notice says so. Weights that diverge
    until a row is fitted exactly are replaced by those of the first
    pass, a covariance between rows that does not settle, is singular or
    of too few samples by that of single rows.

    Args:
        statistics: With the rows side by side if `full`.
        full: Estimate correlations between rows, too.
        iterations: Most passes.
        tolerance: None makes all passes (one pass is BG13's estimator).
        deficient: Accept parameters that the equations do not
            determine; they stay zero.
    """
    if iterations < 1 or (tolerance is not None and not tolerance > 0):
        raise InvalidInput(f"iterations {iterations} and tolerance {tolerance} must be positive")
    start = RowNoise(
        statistics=statistics,
        row_groups=_joint_row_groups(statistics) if full else _single_row_groups(statistics),
        covariance=np.eye(len(statistics.rows)),
        deficient=deficient,
    )
    try:
        if full:
            start.check_enough_samples()
        return _iterate(start, iterations, tolerance)
    except (_Singular, _NotSettled) as reason:
        single = estimate_row_noise(
            statistics,
            iterations=iterations,
            tolerance=tolerance,
            deficient=deficient,
        )
        notice = _weights_notice(f"{reason}: each joint equation was weighted on its own")
        return replace(single, notices=(*single.notices, notice))


def _joint_row_groups(statistics: BlockStatistics) -> tuple[JointFactor, ...]:
    """Return the rows side by side, without those that are not valid."""
    groups = []
    for group in statistics.joint_rows:
        groups.append(group._replace(stacked=group.stacked[:, group.valid_rows]))
    return tuple(groups)


def _single_row_groups(statistics: BlockStatistics) -> tuple[JointFactor, ...]:
    """Return each row as a group of its own."""
    groups = []
    for row, count in enumerate(statistics.n_valid):
        group = JointFactor(
            block=0,
            valid_rows=np.array([row]),
            samples=int(count),
            stacked=statistics.factors[row][:, None],
        )
        groups.append(group)
    return tuple(groups)


def _iterate(start: RowNoise, iterations: int, tolerance: float | None) -> RowNoise:
    """Return the pass after which the weights do not change; see `estimate_row_noise`."""
    passes: list[RowNoise] = []
    now = start
    for k in range(iterations):
        try:
            new = now.residual_covariance()
        except NotIdentifiable as reason:
            if k < 2:
                raise
            text = f"row weights diverge ({reason}); those of the first iteration were kept"
            return replace(passes[0], notices=(_weights_notice(text),))
        std = np.sqrt(np.diag(new))
        change = float(np.abs((new - now.covariance) / np.outer(std, std)).max())
        late = k >= PATIENT_PASSES and tolerance is not None
        before = now
        now = replace(now, covariance=(new + now.covariance) / 2 if late else new)
        passes.append(now)
        step = np.abs(now.solution.values - before.solution.values)
        standard_error = np.linalg.norm(now.solution.root, axis=1)
        moved = float(np.max(step / np.maximum(standard_error, 1e-300), initial=0.0))
        if tolerance is not None and (change < tolerance or (late and moved < SETTLED_STEP)):
            return now
    if tolerance is None or moved <= SETTLED_STEP:
        return now
    if any(len(group.valid_rows) > 1 for group in start.row_groups):
        raise _NotSettled(
            f"the covariance between joint equations still changes after {iterations} iterations"
        )
    text = (
        f"row weights still change after {iterations} iterations and change parameters by up to "
        f"{moved:.2g} standard errors; the most likely iteration was taken"
    )
    most_likely = min(passes, key=lambda each: each.deviance)
    return replace(most_likely, notices=(_weights_notice(text),))


def _weights_notice(text: str) -> Notice:
    """Return a notice on how the weights of the joint equations were found."""
    return Notice(rule="weights", level="info", text=text)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowNoise:
    """A covariance of the rows, the solution that it gives, and what follows from both."""

    statistics: BlockStatistics  # of the rows
    # rows that may be correlated side by side, or each alone
    row_groups: tuple[JointFactor, ...]
    covariance: FloatArray  # (r, r) [product of the row units]
    # accept parameters that the equations do not determine
    deficient: bool = False
    # how the iteration ended, if not as usual
    notices: tuple[Notice, ...] = ()

    @cached_property
    def roots(self) -> list[FloatArray]:
        """Inverse roots of the covariance of each group of rows."""
        roots = []
        for group in self.row_groups:
            rows = group.valid_rows
            names = tuple(self.statistics.rows[row] for row in rows)
            roots.append(inverse_root(self.covariance[rows[:, None], rows], names))
        return roots

    @cached_property
    def solution(self) -> Solution:
        """The fit of the rows weighted by the covariance."""
        whitened = []
        for root, group in zip(self.roots, self.row_groups):
            whitened.append((root @ group.stacked).reshape(-1, group.stacked.shape[2]))
        return solve(
            np.concatenate(whitened),
            self.statistics.parameters,
            deficient=self.deficient,
        )

    @cached_property
    def deviance(self) -> float:
        """Minus twice the log-likelihood, up to a constant."""
        log_determinant = 0.0
        for root, group in zip(self.roots, self.row_groups):
            log_determinant -= 2 * group.samples * float(np.linalg.slogdet(root)[1])
        return log_determinant + self.solution.residual_norm**2

    @property
    def rounding(self) -> FloatArray:
        """Level of each row below which a residual is rounding, (r,); 1 for rows of zeros."""
        return self.statistics.rounding(self.solution.values)

    @property
    def exact(self) -> bool:
        """Whether the residual is rounding in all rows."""
        at_rounding = np.diag(self.covariance) <= (2 * self.rounding) ** 2
        return bool(at_rounding[self.statistics.equations > 0].all())

    @cached_property
    def row_freedom(self) -> FloatArray:
        """Equations of each row minus its leverage, (r,); infinite if all are zero."""
        leverage = np.zeros(len(self.covariance))
        for root, group in zip(self.roots, self.row_groups):
            slopes = group.stacked[:, :, :-1] @ self.solution.root
            leverage[group.valid_rows] += (slopes * (root.T @ (root @ slopes))).sum(axis=(0, 2))
        equations = self.statistics.equations
        freedom = np.where(equations > 0, equations - leverage, np.inf)
        if self.deficient:
            return np.maximum(freedom, MIN_FREEDOM)
        if freedom.min() < MIN_FREEDOM:
            bad = self.statistics.rows[int(np.argmin(freedom))]
            raise NotIdentifiable(
                f"row '{bad}' is fitted exactly by parameters of its own, so its noise cannot be "
                "found; record longer, leave out parameters, or use LeastSquares",
                row=bad,
            )
        return freedom

    @cached_property
    def pair_freedom(self) -> FloatArray:
        """Degrees of freedom of a covariance, n_ij sqrt(f_i f_j / (n_i n_j)), (r, r)."""
        pairs = np.zeros_like(self.covariance)
        for group in self.row_groups:
            rows = group.valid_rows
            pairs[rows[:, None], rows] += group.samples
        known = np.isfinite(self.row_freedom)
        fraction = np.where(known, self.row_freedom, 1.0) / np.maximum(np.diag(pairs), 1)
        freedom = pairs * np.sqrt(np.outer(fraction, fraction))
        return np.where((pairs > 0) & np.outer(known, known), freedom, np.inf)

    def check_enough_samples(self) -> None:
        """Raise `_Singular` if there are too few samples for correlations between rows."""
        used = self.statistics.equations > 0
        mean_freedom = float(self.row_freedom[used].mean())
        count = int(used.sum())
        if count > 1 and mean_freedom < MIN_FREEDOM_PER_ROW * count:
            raise _Singular(
                f"{mean_freedom:.0f} degrees of freedom per joint equation are too few for "
                f"correlations between {count} of them"
            )

    def residual_covariance(self) -> FloatArray:
        """Return the covariance of the residual, (r, r).

        sigma_ij = sum over samples where both rows are valid of e_i e_j
        / f_ij.
        """
        products = np.zeros_like(self.covariance)
        for group in self.row_groups:
            rows = group.valid_rows
            residual = group.stacked @ self.solution.extended
            products[rows[:, None], rows] += residual.T @ residual
        covariance = products / self.pair_freedom
        floor = self.rounding**2
        variance = np.diag(covariance)
        # rounding is correlated with nothing
        known = (variance > floor) & np.isfinite(self.row_freedom)
        std = np.sqrt(np.where(known, variance, 1.0))
        correlation = np.where(np.outer(known, known), covariance / np.outer(std, std), 0.0)
        np.fill_diagonal(correlation, 1.0)
        correlation = self._usable_correlation(correlation)
        std = np.sqrt(np.maximum(variance, floor))
        return np.asarray(correlation * np.outer(std, std))

    def _usable_correlation(self, correlation: FloatArray) -> FloatArray:
        """Return a positive definite correlation; raise `_Singular` if there is none."""
        eigenvalues, vectors = np.linalg.eigh(correlation)
        least = eigenvalues[0]
        if least < MIN_ROW_CORRELATION_EIGENVALUE and len(self.row_groups) == 1:
            involved = np.flatnonzero(np.abs(vectors[:, 0]) > 0.3)
            names = ", ".join(self.statistics.rows[row] for row in involved)
            raise _Singular(
                f"the noise of the rows {names} is not independent (eigenvalue {least:.1e} of "
                "their correlation)"
            )
        if least < RAISED_EIGENVALUE and len(self.row_groups) > 1:
            weight = (RAISED_EIGENVALUE - least) / (1 - least)
            return np.asarray((1 - weight) * correlation + weight * np.eye(len(correlation)))
        return correlation

    def freedom_and_widening(self) -> tuple[FloatArray, FloatArray]:
        """Return degrees of freedom of each variance (p,), and what covariances gain, (p, p).

        With C the fraction of whitened rows in a parameter's variance
        (trace 1) and f_ij the degrees of freedom of the estimated
        covariance, Satterthwaite gives 1 / sum_ij C_ij^2 / f_ij.

        That the weights are estimates adds L Lambda L^T to the
        covariance L L^T, and takes as much from its estimate (Kackar
        and Harville 1984, Kenward and Roger 1997, to first order). With
        U_i the whitened equations of row i times L and K_ij = U_i^T U_j

            Lambda = sum_ij ((1 + d_ij) K_ii - K_ij K_ij - K_ij K_ji) / f_ij

        The covariance becomes L (1 - Lambda)^-2 L^T. Factors of the
        single variances would not do: nearly dependent parameters have
        combinations that are known much better than each of them.
        """
        root = self.solution.root
        q = root.shape[1]
        products = np.zeros((*self.covariance.shape, q, q))  # K
        for row_root, group in zip(self.roots, self.row_groups):
            slopes = row_root @ (group.stacked[:, :, :-1] @ root)
            rows = group.valid_rows
            products[np.ix_(rows, rows)] += np.einsum(
                "kia,kjb->ijab", slopes, slopes, optimize=True
            )
        inverse = 1 / self.pair_freedom
        C = np.einsum("pa,ijab,pb->pij", root, products, root, optimize=True)
        C /= np.trace(C, axis1=1, axis2=2)[:, None, None]
        freedom = 1 / (C**2 * inverse).sum(axis=(1, 2))
        row_sums = (inverse * (1 + np.eye(len(inverse)))).sum(axis=1)
        extra = np.einsum("iiab,i->ab", products, row_sums)
        both = products + products.transpose(0, 1, 3, 2)
        extra -= np.einsum("ijab,ijbc,ij->ac", products, both, inverse, optimize=True)
        values, vectors = np.linalg.eigh((extra + extra.T) / 2)
        gain = 1 / (1 - np.clip(values, 0.0, MAX_EXTRA_VARIANCE)) ** 2 - 1
        directions = root @ vectors
        return freedom, np.asarray((directions * gain) @ directions.T)


def pooled_degrees_of_freedom(variances: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the degrees of freedom of variances that add up parts with noise of their own, (q,).

    Satterthwaite: (sum_j v_j)^2 / sum_j (v_j^2 / f_j). A parameter that
    acts on one row knows the noise of that row only, whatever the
    number of other rows; one that acts on all alike has sum_j f_j.

    Args:
        variances: v, contribution of each row (or log) to the variance,
            (r, q).
        freedom: f, degrees of freedom of each row's noise, (r,) or (r,
            q).
    """
    if freedom.ndim == 1:
        freedom = freedom[:, None]
    freedom = np.broadcast_to(freedom, variances.shape)
    numerator = variances.sum(axis=0) ** 2
    denominator = (variances**2 / freedom).sum(axis=0)
    total = np.where(np.isfinite(freedom), freedom, 0.0).sum(axis=0)
    return np.asarray(np.divide(numerator, denominator, out=total, where=denominator > 0))
