"""Regression that bad samples cannot pull away: Huber and Tukey by iteratively reweighted least
squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.notices import Notice
from gough.core.statistics import robust_scale
from gough.fitting.estimate import Estimate, build_estimate
from gough.fitting.problem import Problem, dead_rows, samples_of, statistics_of
from gough.fitting.regression import Regression
from gough.fitting.row_noise import SETTLED_STEP, pooled_degrees_of_freedom
from gough.fitting.solve import solve
from gough.fitting.uncertainty import (
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)

TUNING = {"huber": 1.345, "tukey": 4.685}  # 95 % efficiency under Gaussian noise


@dataclass(frozen=True, kw_only=True)
class Robust:
    """Minimise sum_j sum_s rho((y - W chi) / scale_j) with scale_j = median |residual of row j| /
    0.6745, iterated.

    Each pass solves least squares with rows divided by their scale and samples weighted by psi(u) /
    u. Huber weighs residuals beyond `tuning` down, Tukey removes them (started from Huber, as its
    criterion has several minima). `notices` report how much was downweighted. Source:
    Huber and Ronchetti, Robust Statistics, ch. 7;
    departure: one scale per row.

    Args:
        loss: 'huber' or 'tukey'.
        tuning: Residual, in scales, where weighting begins (Huber) or ends (Tukey); None for 95 %
            efficiency.
        iterations: Most passes.
        tolerance: Change of the fitted effort, in scales, that ends them.
        uncertainty: As in `LeastSquares`; 'white' is Huber's covariance for independent errors.
    """

    loss: Literal["huber", "tukey"] = "huber"
    tuning: float | None = None
    iterations: int = 500
    tolerance: float = 1e-6
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: Problem) -> Estimate:
        """Return the estimate of a regression; weights per sample need the samples."""
        if self.loss not in TUNING:
            raise InvalidInput(
                f"loss '{self.loss}' is not known; choose huber or tukey", loss=self.loss
            )
        tuning = TUNING[self.loss] if self.tuning is None else self.tuning
        if not tuning > 0 or self.iterations < 1:
            raise InvalidInput(
                f"tuning is {tuning} and iterations {self.iterations}, expected positive numbers",
                tuning=tuning,
            )
        samples = samples_of(problem, "robust weights differ from sample to sample")
        values = solve(statistics_of(samples).factors, samples.parameters).values
        notices: tuple[Notice, ...] = ()
        if self.loss == "tukey":
            values, notices = self._iterate(samples, values, "huber", TUNING["huber"])
        values, last = self._iterate(samples, values, self.loss, tuning)
        return self._report(samples, values, tuning, (*notices, *last))

    def _iterate(
        self,
        problem: Regression,
        values: FloatArray,
        loss: str,
        tuning: float,
    ) -> tuple[FloatArray, tuple[Notice, ...]]:
        """Return the values, and a notice if they still move by more than `SETTLED_STEP` standard
        deviations.
        """
        data = problem.stacked()
        for _ in range(self.iterations):
            scale = row_scale(problem, values)
            rows = np.sqrt(weight(problem.residual(values) / scale, loss, tuning)) / scale
            solution = solve(data * rows[:, :, None], problem.parameters)
            step, values = solution.values - values, solution.values
            change = (np.abs(data[:, :, :-1] @ step) / scale).max()
            if change < self.tolerance:
                return values, ()
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

    def _report(
        self, problem: Regression, values: FloatArray, tuning: float, notices: tuple[Notice, ...]
    ) -> Estimate:
        """Covariance from pseudo residuals psi(u) / sqrt(slope), rows sqrt(slope) / scale: their
        scores are the same.

        slope_j = mean of psi'(u) over row j. For independent errors the variance of a pseudo
        residual is Huber's k^2 mean(psi^2) n / (n - h_j) / slope_j with k = 1 + (h_j / n) var(psi')
        / slope_j^2.
        """
        count, scale = np.maximum(problem.n_valid, 1), row_scale(problem, values)
        u = problem.residual(values) / scale
        derivative = np.where(problem.valid, slope(u, self.loss, tuning), 0.0)
        mean = np.where(problem.n_valid > 0, derivative.sum(axis=0) / count, 1.0)
        if not (mean > 0).all():
            bad = problem.rows[int(np.argmin(mean))]
            raise NotIdentifiable(
                f"almost all samples of row '{bad}' are beyond {tuning:g} scales; raise the tuning",
                row=bad,
            )
        rows = np.sqrt(mean) / scale
        regressor, pseudo = (
            problem.regressor * rows[:, None],
            u * weight(u, self.loss, tuning) / np.sqrt(mean),
        )
        moved = replace(
            problem,
            regressor=regressor,
            effort=regressor @ values + pseudo,
            covariance=None,
            replicates=None,
        )
        statistics = moved.statistics()
        solution = solve(statistics.factors, problem.parameters)
        share = (
            np.linalg.norm(statistics.factors[:, :, :-1] @ solution.root, axis=(1, 2)) ** 2
        )  # h_j
        varying = (derivative**2).sum(axis=0) / count - mean**2
        k = 1 + share / count * np.maximum(varying, 0.0) / mean**2
        free = np.maximum(statistics.equations - share, 0.5)
        variance = k**2 * (pseudo**2).sum(axis=0) / free
        half = np.sqrt(variance)[:, None, None] * (
            statistics.factors[:, :, :-1] @ solution.root @ solution.root.T
        )
        white = np.einsum("rkp,rkq->pq", half, half)
        found = estimate_covariance(
            linear_influence(
                statistics, useful_samples(moved, self.uncertainty), solution.root, values
            ),
            self.uncertainty,
            pooled_degrees_of_freedom((half**2).sum(axis=1), free),
            white,
        )
        down = (np.abs(u) > tuning).sum(axis=0) / count
        word = "downweighted" if self.loss == "huber" else "removed"
        outliers = [
            Notice(
                rule="outliers",
                level="info",
                where=row,
                text=f"{100 * fraction:.1f} % beyond {tuning:g} x {size:.3g} {unit} {word}",
                numbers={"fraction": fraction},
            )
            for row, fraction, size, unit in zip(problem.rows, down, scale, problem.row_units)
            if fraction > 0
        ]
        return build_estimate(
            problem,
            values,
            found,
            method=f"robust ({self.loss})",
            noise_covariance=np.diag(scale**2),
            condition_number=solution.condition_number,
            notices=(*notices, *outliers, *dead_rows(statistics)),
        )


def weight(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi(u) / u: Huber min(1, c / |u|), Tukey (1 - (u / c)^2)^2 inside c, else 0."""
    size = np.abs(u)
    if loss == "huber":
        return np.where(size > tuning, tuning / np.maximum(size, tuning), 1.0)
    return np.where(size < tuning, (1 - (u / tuning) ** 2) ** 2, 0.0)


def slope(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi'(u): Huber 1 inside c, else 0; Tukey (1 - v)(1 - 5 v) with v = (u / c)^2 inside c,
    else 0.
    """
    if loss == "huber":
        return (np.abs(u) <= tuning).astype(float)
    v = (u / tuning) ** 2
    return np.where(v < 1, (1 - v) * (1 - 5 * v), 0.0)


def row_scale(problem: Regression, values: FloatArray) -> FloatArray:
    """Return the noise scale of each row, median |residual| / 0.6745, not below 1e-8 of its largest
    effort, (r,).
    """
    size = (np.abs(problem.stacked()) * np.append(np.abs(values), 1.0)).max(
        axis=(0, 2), initial=0.0
    )
    found = [
        float(robust_scale(row[there])) if there.any() else 0.0
        for row, there in zip(problem.residual(values).T, problem.valid.T)
    ]
    return np.maximum(found, np.where(size > 0, 1e-8 * size, 1.0))
