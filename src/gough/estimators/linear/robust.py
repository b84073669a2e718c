"""Regression that bad samples cannot pull away: Huber and Tukey by iteratively reweighted least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, NotConverged, NotIdentifiable
from gough.core.regression import Regression
from gough.estimators.estimate import Estimate
from gough.estimators.linear.solve import condensed_form, residual_statistics, solve
from gough.estimators.uncertainty import Uncertainty, linear_influence, pooled_freedom, spread

TUNING = {"huber": 1.345, "tukey": 4.685}  # 95 % efficiency under Gaussian noise
MAD = float(stats.norm.ppf(0.75))  # median |e| of unit Gaussian noise


@dataclass(frozen=True, kw_only=True)
class Robust:
    """Minimise sum_j sum_s rho((y - W chi) / scale_j) with scale_j = median |residual of row j| / 0.6745, iterated.

    Each pass solves least squares with rows divided by their scale and samples weighted by psi(u) / u. Huber weighs
    residuals beyond `tuning` down, Tukey removes them (started from Huber, as its criterion has several minima).
    `notes` of the estimate say how much was weighed down. Source: Huber and Ronchetti, Robust Statistics, ch. 7;
    departure: one scale per row.

    Args:
        loss: 'huber' or 'tukey'.
        tuning: Residual, in scales, where weighting begins (Huber) or ends (Tukey); None for 95 % efficiency.
        iterations: Most passes.
        tolerance: Change of the fitted effort, in scales, that ends them.
        uncertainty: As in `LeastSquares`; 'white' is Huber's covariance for independent errors.
    """

    loss: Literal["huber", "tukey"] = "huber"
    tuning: float | None = None
    iterations: int = 500
    tolerance: float = 1e-6
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: Regression) -> Estimate:
        """Return the estimate of a regression; weights per sample need the samples.

        Raises:
            InvalidInput: A condensed problem, or settings that make no sense.
            NotIdentifiable: Dependent parameters, or a row half of whose samples are fitted exactly.
            NotConverged: The values still change after `iterations` passes.
        """
        if self.loss not in TUNING:
            raise InvalidInput(f"loss '{self.loss}' is not known; choose huber or tukey", loss=self.loss)
        if not isinstance(problem, Regression):
            raise InvalidInput("robust weights differ from sample to sample: fit the regression, not its condensed "
                               "form")
        tuning = TUNING[self.loss] if self.tuning is None else self.tuning
        if not tuning > 0 or self.iterations < 1:
            raise InvalidInput(f"tuning is {tuning} and iterations {self.iterations}, expected positive numbers",
                               tuning=tuning)
        condensed = condensed_form(problem)
        values = solve(np.concatenate(condensed.factors), problem.parameters).values
        if self.loss == "tukey":
            values = self._iterate(problem, values, "huber", TUNING["huber"])
        values = self._iterate(problem, values, self.loss, tuning)
        return self._report(problem, values, tuning)

    def _iterate(self, problem: Regression, values: FloatArray, loss: str, tuning: float) -> FloatArray:
        for _ in range(self.iterations):
            scale = row_scale(problem, values)
            u = (problem.effort - problem.regressor @ values) / scale
            rows = np.sqrt(weight(u, loss, tuning)) / scale
            stacked = np.concatenate([problem.regressor, problem.effort[:, :, None]], axis=2) * rows[:, :, None]
            solution = solve(stacked.reshape(-1, len(values) + 1), problem.parameters)
            change = (np.abs(problem.regressor @ (solution.values - values)) / scale).max()
            values = solution.values
            if change < self.tolerance:
                return values
        raise NotConverged(f"the robust fit still changes by {change:.2g} scales after {self.iterations} passes; "
                           "try loss='huber', a larger tuning, or look for samples of two kinds",
                           change=float(change))

    def _report(self, problem: Regression, values: FloatArray, tuning: float) -> Estimate:
        """Covariance from pseudo residuals psi(u) / sqrt(slope), rows sqrt(slope) / scale: their scores are the same.

        slope_j = mean of psi'(u) over row j. For independent errors the variance of a pseudo residual is Huber's
        k^2 mean(psi^2) t / (t - h_j) / slope_j with k = 1 + (h_j / t) var(psi') / slope_j^2.
        """
        t = len(problem)
        scale = row_scale(problem, values)
        u = (problem.effort - problem.regressor @ values) / scale
        psi, derivative = u * weight(u, self.loss, tuning), slope(u, self.loss, tuning)
        mean = derivative.mean(axis=0)
        if not (mean > 0).all():
            bad = problem.rows[int(np.argmin(mean))]
            raise NotIdentifiable(f"almost all samples of row '{bad}' are beyond {tuning:g} scales; raise the tuning",
                                  row=bad)
        rows = np.sqrt(mean) / scale
        regressor = problem.regressor * rows[:, None]
        pseudo = psi / np.sqrt(mean)
        moved = replace(problem, regressor=regressor, effort=regressor @ values + pseudo, covariance=None,
                        replicates=None)
        solution = solve(np.concatenate(condensed_form(moved).factors), problem.parameters)
        share = (np.linalg.norm(regressor @ solution.root, axis=2) ** 2).sum(axis=0)  # h_j
        k = 1 + share / t * derivative.var(axis=0) / mean**2
        variance = k**2 * (pseudo**2).sum(axis=0) / np.maximum(t - share, 0.5)
        half = (regressor * np.sqrt(variance)[:, None]) @ solution.root @ solution.root.T
        white = np.einsum("trp,trq->pq", half, half)
        freedom = pooled_freedom((half**2).sum(axis=0), np.maximum(t - share, 0.5))
        found = spread(linear_influence(moved, solution.root, values), white=white, white_freedom=freedom,
                       mode=self.uncertainty)
        rms, relative, average = residual_statistics(problem, condensed_form(problem), values)
        down = (np.abs(u) > tuning).mean(axis=0)
        word = "weighed down" if self.loss == "huber" else "removed"
        notes = tuple(f"{100 * part:.1f} % of row {row} beyond {tuning:g} x {size:.3g} {unit} {word}"
                      for row, part, size, unit in zip(problem.rows, down, scale, problem.row_units) if part > 0)
        return Estimate(
            parameters=problem.parameters, units=problem.units, values=values, covariance=found.covariance,
            rows=problem.rows, row_units=problem.row_units, residual_rms=rms, residual_relative=relative,
            residual_mean=average, samples=t, degrees_of_freedom=found.degrees_of_freedom,
            condition_number=solution.condition_number, method=f"robust ({self.loss})", uncertainty=found.kind,
            white_std=np.sqrt(np.diag(white)), noise_covariance=np.diag(scale**2), notes=(*notes, *found.notes))


def weight(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi(u) / u: Huber min(1, c / |u|), Tukey (1 - (u / c)^2)^2 inside c, else 0."""
    size = np.abs(u)
    if loss == "huber":
        return np.where(size > tuning, tuning / np.maximum(size, tuning), 1.0)
    return np.where(size < tuning, (1 - (u / tuning) ** 2) ** 2, 0.0)


def slope(u: FloatArray, loss: str, tuning: float) -> FloatArray:
    """Return psi'(u): Huber 1 inside c, else 0; Tukey (1 - v)(1 - 5 v) with v = (u / c)^2 inside c, else 0."""
    if loss == "huber":
        return (np.abs(u) <= tuning).astype(float)
    v = (u / tuning) ** 2
    return np.where(v < 1, (1 - v) * (1 - 5 * v), 0.0)


def row_scale(problem: Regression, values: FloatArray) -> FloatArray:
    """Return the noise scale of each row, median |residual| / 0.6745, not below 1e-8 of its largest effort, (r,)."""
    left = np.abs(problem.effort - problem.regressor @ values)
    size = np.abs(problem.effort).max(axis=0, initial=0.0)
    size = np.maximum(size, np.abs(problem.regressor * values).max(axis=(0, 2), initial=0.0))
    return np.asarray(np.maximum(np.median(left, axis=0) / MAD, np.where(size > 0, 1e-8 * size, 1.0)))
