"""Robust regression: Huber and Tukey by iteratively reweighted least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.notices import Notice
from gough.core.statistics import robust_scale
from gough.fitting.cross_validation import solve_normal_equations
from gough.fitting.estimate import Estimate, build_estimate
from gough.fitting.problem import Problem, dead_rows, samples_of, statistics_of
from gough.fitting.regression import Regression
from gough.fitting.row_noise import MAX_EXTRA_VARIANCE, SETTLED_STEP, pooled_degrees_of_freedom
from gough.fitting.solve import solve
from gough.fitting.uncertainty import (
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)

# Residual over scale where a loss bends; 95 % efficiency under Gaussian
# noise
LOSS_TUNING = {"huber": 1.345, "tukey": 4.685}
# Variance of a scale from the median over that of the rms, under
# Gaussian noise: 1.361 / 0.5
MEDIAN_SCALE_VARIANCE = 2.72
# Change of the fitted effort, in scales: as long as it is larger, an
# iteration is solved by normal equations, which have half the digits
# and take a fifth of the time.
ROUGH_CHANGE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Robust:
    """Minimise sum_j sum_s rho((y - W chi) / scale_j) by reweighted least squares.

    scale_j = median |residual of row j| / 0.6745. Each iteration solves
    least squares with rows divided by their scale and samples weighted
    by psi(u) / u. Huber's loss downweights residuals beyond `tuning`,
    Tukey's removes them (started from Huber, as its criterion has
    several minima). Notices report the fraction. Source: Huber and
    Ronchetti, Robust Statistics, ch. 7; departure: one scale per row.

    Args:
        loss: 'huber' or 'tukey'.
        tuning: Residual, in scales, where weighting begins (Huber) or
            ends (Tukey); None for 95 % efficiency.
        iterations: Maximum number of iterations.
        tolerance: Change of the fitted effort, in scales, that ends
            them.
        uncertainty: As in `LeastSquares`; 'white' is Huber's covariance
            for independent errors.
    """

    loss: Literal["huber", "tukey"] = "huber"
    tuning: float | None = None
    iterations: int = 500
    tolerance: float = 1e-6
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: Problem) -> Estimate:
        """Return the estimate of a regression; weights per sample need the samples."""
        if self.loss not in LOSS_TUNING:
            raise InvalidInput(
                f"loss '{self.loss}' is not known; choose huber or tukey",
                loss=self.loss,
            )
        tuning = LOSS_TUNING[self.loss] if self.tuning is None else self.tuning
        if not tuning > 0 or self.iterations < 1:
            raise InvalidInput(
                f"tuning is {tuning} and iterations {self.iterations}, expected positive numbers",
                tuning=tuning,
            )
        samples = samples_of(problem, "robust weights differ from sample to sample")
        values = solve(statistics_of(samples).factors, samples.parameters).values
        notices: tuple[Notice, ...] = ()
        if self.loss == "tukey":
            values, notices = self._iterate(samples, values, "huber", LOSS_TUNING["huber"])
        values, loss_notices = self._iterate(samples, values, self.loss, tuning)
        return self._estimate(samples, values, tuning, (*notices, *loss_notices))

    def _iterate(
        self,
        problem: Regression,
        values: FloatArray,
        loss: str,
        tuning: float,
    ) -> tuple[FloatArray, tuple[Notice, ...]]:
        """Return the values, and a notice if they still move by `SETTLED_STEP` standard errors."""
        stacked = problem.stacked()
        largest_entries = np.abs(stacked).max(axis=0, initial=0.0)
        rough = True
        for _ in range(self.iterations):
            residual = problem.residual(values)
            scale = row_scale(problem, values, residual, largest_entries)
            root_weight = np.sqrt(weight(residual / scale, loss, tuning)) / scale
            weighted = stacked * root_weight[:, :, None]
            if rough:
                equations = weighted.reshape(-1, stacked.shape[2])
                improved = solve_normal_equations(equations.T @ equations)
            else:
                improved = solve(weighted, problem.parameters).values
            step = improved - values
            values = improved
            change = float((np.abs(stacked[:, :, :-1] @ step) / scale).max())
            if rough:
                rough = change > ROUGH_CHANGE
            elif change < self.tolerance:
                return values, ()
        solution = solve(weighted, problem.parameters)
        moved = float((np.abs(step) / np.linalg.norm(solution.root, axis=1)).max())
        if moved < SETTLED_STEP:
            return values, ()
        notice = Notice(
            rule="convergence",
            level="info",
            text=f"the {loss} fit still changes parameters by up to {moved:.2g} standard errors "
            f"after {self.iterations} iterations",
            advice="try loss='huber', a larger tuning, or look for samples of two kinds",
            numbers={"change": moved},
        )
        return values, (notice,)

    def _estimate(
        self,
        problem: Regression,
        values: FloatArray,
        tuning: float,
        notices: tuple[Notice, ...],
    ) -> Estimate:
        """Return the estimate with the covariance of its pseudo residuals.

        Rows sqrt(slope_j) / scale_j with the pseudo residuals psi(u) /
        sqrt(slope_j) have the same scores, slope_j = mean of psi'(u)
        over row j. For independent errors the variance of a pseudo
        residual is Huber's k^2 mean(psi^2) n / (n - h_j) / slope_j with
        k = 1 + (h_j / n) var(psi') / slope_j^2.
        """
        n_valid = np.maximum(problem.n_valid, 1)
        scale = row_scale(problem, values)
        u = problem.residual(values) / scale
        derivative = np.where(problem.valid, slope(u, self.loss, tuning), 0.0)
        mean_slope = np.where(problem.n_valid > 0, derivative.sum(axis=0) / n_valid, 1.0)
        if not (mean_slope > 0).all():
            row = problem.rows[int(np.argmin(mean_slope))]
            raise NotIdentifiable(
                f"almost all samples of row '{row}' are beyond {tuning:g} scales; raise the tuning",
                row=row,
            )
        row_factor = np.sqrt(mean_slope) / scale
        regressor = problem.regressor * row_factor[:, None]
        pseudo_residual = u * weight(u, self.loss, tuning) / np.sqrt(mean_slope)
        linear = replace(
            problem,
            regressor=regressor,
            effort=regressor @ values + pseudo_residual,
            covariance=None,
            replicates=None,
        )
        statistics = linear.statistics()
        solution = solve(statistics.factors, problem.parameters)
        projected = statistics.factors[:, :, :-1] @ solution.root
        leverage = np.linalg.norm(projected, axis=(1, 2)) ** 2  # h_j
        slope_variance = (derivative**2).sum(axis=0) / n_valid - mean_slope**2
        k = 1 + leverage / n_valid * np.maximum(slope_variance, 0.0) / mean_slope**2
        freedom = np.maximum(statistics.equations - leverage, 0.5)
        variance = k**2 * (pseudo_residual**2).sum(axis=0) / freedom
        half = np.sqrt(variance)[:, None, None] * (projected @ solution.root.T)
        sampled = useful_samples(linear, self.uncertainty)
        covariance = estimate_covariance(
            linear_influence(statistics, sampled, solution.root, values),
            self.uncertainty,
            pooled_degrees_of_freedom((half**2).sum(axis=1), freedom),
            white=np.einsum("rkp,rkq->pq", half, half),
        )
        widening = _weight_noise(projected, solution.root, variance, freedom)
        covariance = covariance.widened(widening)
        outliers = self._outlier_notices(problem, u, scale, tuning)
        return build_estimate(
            problem,
            values,
            covariance,
            method=f"robust ({self.loss})",
            noise_covariance=np.diag(scale**2),
            condition_number=solution.condition_number,
            notices=(*notices, *outliers, *dead_rows(statistics)),
        )

    def _outlier_notices(
        self,
        problem: Regression,
        u: FloatArray,
        scale: FloatArray,
        tuning: float,
    ) -> list[Notice]:
        """Return a notice for each row with residuals u beyond the tuning, (t, r) in scales."""
        n_valid = np.maximum(problem.n_valid, 1)
        fractions = (np.abs(u) > tuning).sum(axis=0) / n_valid
        verb = "downweighted" if self.loss == "huber" else "removed"
        notices = []
        for j, fraction in enumerate(fractions):
            if fraction > 0:
                limit = f"{tuning:g} x {scale[j]:.3g} {problem.row_units[j]}"
                notices.append(
                    Notice(
                        rule="outliers",
                        level="info",
                        where=problem.rows[j],
                        text=f"{100 * fraction:.1f} % beyond {limit} {verb}",
                        numbers={"fraction": fraction},
                    )
                )
        return notices


def _weight_noise(
    projected: FloatArray, root: FloatArray, variance: FloatArray, freedom: FloatArray
) -> FloatArray:
    """Return what the covariance gains because the weights of the rows are estimates, (p, p).

    As in `RowNoise.freedom_and_widening`, for rows that are independent
    of each other: with K_j the fraction of the information in row j and
    f_j its degrees of freedom

        Lambda = sum_j 2 (K_j - K_j^2) / f_j

    is added to the variance by weights from the rms of residuals, g
    Lambda by those from their median, and Lambda is taken from its
    estimate.

    Args:
        projected: Equations of each row times the root, (r, k, q).
        root: Square root of the inverse information, (p, q).
        variance: Of the pseudo residuals of each row, (r,).
        freedom: Degrees of freedom of each row, (r,).
    """
    information = np.swapaxes(projected, 1, 2) @ projected  # K, (r, q, q)
    independent = information - information @ information
    extra = np.tensordot(2 / freedom, independent, axes=1)
    values, vectors = np.linalg.eigh((extra + extra.T) / 2)
    gain = np.clip((1 + MEDIAN_SCALE_VARIANCE) * values, 0.0, MAX_EXTRA_VARIANCE)
    factor = (vectors / np.sqrt(1 - gain)) @ vectors.T
    covariance = np.tensordot(variance, information, axes=1)
    addition = factor @ covariance @ factor - covariance
    return np.asarray(root @ addition @ root.T)


def weight(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi(u) / u: Huber min(1, c / |u|), Tukey (1 - (u / c)^2)^2 inside c, else 0."""
    magnitude = np.abs(u)
    if loss == "huber":
        return np.where(magnitude > tuning, tuning / np.maximum(magnitude, tuning), 1.0)
    return np.where(magnitude < tuning, (1 - (u / tuning) ** 2) ** 2, 0.0)


def slope(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi'(u), zero outside the tuning c.

    Inside it is 1 for Huber, and (1 - v)(1 - 5 v) with v = (u / c)^2
    for Tukey.
    """
    if loss == "huber":
        return (np.abs(u) <= tuning).astype(float)
    v = (u / tuning) ** 2
    return np.where(v < 1, (1 - v) * (1 - 5 * v), 0.0)


def row_scale(
    problem: Regression,
    values: FloatArray,
    residual: FloatArray | None = None,
    largest_entries: FloatArray | None = None,
) -> FloatArray:
    """Return the noise scale of each row, (r,).

    median |residual| / 0.6745, not below 1e-8 of the largest effort of
    any term in the row.

    Args:
        problem: The regression.
        values: Of the parameters, (p,).
        residual: Of these values, if it is known, (t, r).
        largest_entries: Of |W y| over the samples, if it is known, (r,
            p + 1).
    """
    if residual is None:
        residual = problem.residual(values)
    if largest_entries is None:
        largest_entries = np.abs(problem.stacked()).max(axis=0, initial=0.0)
    largest_effort = (largest_entries * np.append(np.abs(values), 1.0)).max(axis=1, initial=0.0)
    scale = np.zeros(len(problem.rows))
    for j in range(len(scale)):
        valid = problem.valid[:, j]
        if valid.any():
            scale[j] = robust_scale(residual[valid, j])
    return np.maximum(scale, np.where(largest_effort > 0, 1e-8 * largest_effort, 1.0))
