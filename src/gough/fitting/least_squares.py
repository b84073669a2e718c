"""Least squares: plain, with row weights, and with the covariance of the rows.

BG13 (24)-(28), AH09 (9)-(10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, check_shape, frozen
from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate, build_estimate
from gough.fitting.problem import (
    LinearProblem,
    dead_rows,
    samples_of,
    statistics_of,
)
from gough.fitting.refinement import refine
from gough.fitting.regression import Regression
from gough.fitting.row_noise import MIN_ROW_CORRELATION_EIGENVALUE, estimate_row_noise
from gough.fitting.solve import Solution, solve
from gough.fitting.uncertainty import (
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)

# scatter of repetitions, over the rms effort, that is rounding
SCATTER_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """Minimise |W chi - y|^2 with equal weights of all rows; BG13 (24)-(27).

    Use `WeightedLeastSquares` for rows of different noise or unit.

    Args:
        uncertainty: Source of the standard errors: 'auto', 'white',
            'period', 'hac', 'blocks' or 'logs'; see
            `uncertainty.estimate_covariance`.
    """

    uncertainty: Uncertainty = "auto"

    def fit(self, problem: LinearProblem) -> Estimate:
        """Return the estimate of a regression or its block statistics."""
        statistics = statistics_of(problem)
        solution = solve(statistics.factors, statistics.parameters)
        freedom = float(statistics.equations.sum() - len(statistics.parameters))
        effort_norm = float(np.linalg.norm(statistics.factors[:, :, -1]))
        rounding = max(1e-15 * effort_norm, 1e-30)  # keeps the weights finite
        variance = max(solution.residual_norm, rounding) ** 2 / freedom  # BG13 (26)
        noise = np.eye(len(statistics.rows)) * variance
        return _estimate(
            problem,
            statistics.whitened(noise),
            uncertainty=self.uncertainty,
            noise=noise,
            freedom=freedom,
            method="least squares",
        )


@dataclass(frozen=True, kw_only=True)
class WeightedLeastSquares:
    """Least squares with each row divided by its noise, estimated from its residual; BG13 (28).

    sigma_j^2 = |W_j chi - y_j|^2 / (n_j - h_j) with n_j the valid
    equations of row j and h_j its fraction of the fitted parameters
    (sum_j h_j = p): the weights are unbiased. Departure: BG13 weights
    once; here the weights are iterated until they agree with the
    solution they give, see `estimate_row_noise`.

    Args:
        iterations: Maximum number of iterations.
        tolerance: Relative change of the noise that ends them; None
            runs all iterations (one iteration is BG13's estimator).
        uncertainty: As in `LeastSquares`.
    """

    iterations: int = 100
    tolerance: float | None = 1e-9
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: LinearProblem) -> Estimate:
        """Return the estimate of a regression or its block statistics."""
        return _fit_with_estimated_noise(problem, self, full=False, method="weighted least squares")


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussMarkov:
    """Least squares weighted by the covariance of the rows; AH09 (9)-(10).

    chi = (sum_s W_s^T Sigma_s^-1 W_s)^-1 sum_s W_s^T Sigma_s^-1 y_s,
    computed by whitening each sample and QR. Sigma_s is the covariance
    of the valid equations of a sample.

    Args:
        covariance: Of the rows' noise: (r, r), or (t, r, r) per sample,
            or 'estimated' from the residuals and iterated, or None for
            the problem's own covariance and, if it has none or
            repetitions do not scatter, 'estimated'. [product of the row
            units]
        iterations, tolerance: Of the estimated covariance, as in
            `WeightedLeastSquares`.
        uncertainty: As in `LeastSquares`.
    """

    covariance: FloatArray | Literal["estimated"] | None = None
    iterations: int = 200
    tolerance: float | None = 1e-9
    uncertainty: Uncertainty = "auto"

    def __post_init__(self) -> None:
        if self.covariance is not None and not isinstance(self.covariance, str):
            object.__setattr__(self, "covariance", frozen(self.covariance))
        elif self.covariance not in (None, "estimated"):
            raise InvalidInput(
                f"covariance is {self.covariance!r}, expected an array, 'estimated' or None"
            )

    def fit(self, problem: LinearProblem) -> Estimate:
        """Return the estimate of a regression, or of block statistics with `joint=True`."""
        covariance = self.covariance
        if covariance is None and _scatters(problem):
            covariance = getattr(problem, "covariance", None)
        if covariance is None or isinstance(covariance, str):
            notice = Notice(
                rule="weights",
                level="info",
                text="covariance of the joint equations estimated from the residuals",
            )
            return _fit_with_estimated_noise(
                problem,
                self,
                full=True,
                method="Gauss-Markov",
                notices=(notice,),
            )
        if covariance.ndim == 2:
            check_shape(covariance, (len(problem.rows),) * 2, "covariance of the rows")
            correlated = bool(np.any(covariance - np.diag(np.diag(covariance))))
            white = statistics_of(problem, joint=correlated).whitened(covariance)
        else:
            samples = samples_of(
                problem,
                "a covariance per sample needs the samples (or whiten blocks before forming their "
                "statistics, and give the identity)",
            )
            white = samples.whitened(covariance).statistics()
        return _estimate(
            problem,
            white,
            uncertainty=self.uncertainty,
            noise=covariance,
            freedom=np.inf,
            method="Gauss-Markov",
        )


def _scatters(problem: LinearProblem) -> bool:
    """Return whether the problem's own covariance has more than rounding in every direction.

    It is that of repetitions, which may be equal, or differ in fewer
    directions than there are rows: then it gives no weights.
    """
    covariance = getattr(problem, "covariance", None)
    if covariance is None or not isinstance(problem, Regression):
        return covariance is not None
    rms = np.sqrt((problem.effort**2).mean(axis=0))
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    if not (deviation > SCATTER_ROUNDING * rms).all():
        return False
    correlation = covariance / (deviation[..., :, None] * deviation[..., None, :])
    smallest = np.linalg.eigvalsh(correlation)[..., 0]
    return bool((smallest > MIN_ROW_CORRELATION_EIGENVALUE).all())


def _fit_with_estimated_noise(
    problem: LinearProblem,
    settings: WeightedLeastSquares | GaussMarkov,
    *,
    full: bool,
    method: str,
    notices: tuple[Notice, ...] = (),
) -> Estimate:
    """Estimate the noise of the rows from the residuals, and the parameters with it.

    Args:
        problem: Regression or block statistics.
        settings: Iterations, tolerance and source of the standard
            errors.
        full: Estimate the covariance between rows too, not only their
            variances.
        method: Name of the estimator.
        notices: To report besides those of the noise.
    """
    statistics = statistics_of(problem, joint=full)
    noise = estimate_row_noise(
        statistics,
        full=full,
        iterations=settings.iterations,
        tolerance=settings.tolerance,
    )
    freedom, widening = noise.freedom_and_widening()
    return _estimate(
        problem,
        statistics.whitened(noise.covariance),
        uncertainty="white" if noise.exact else settings.uncertainty,
        noise=noise.covariance,
        freedom=freedom,
        method=method,
        notices=(*notices, *noise.notices),
        widening=widening,
        solution=noise.solution,
    )


def _estimate(
    problem: LinearProblem,
    white: BlockStatistics,
    *,
    uncertainty: Uncertainty,
    noise: FloatArray,
    freedom: FloatArray | float,
    method: str,
    notices: tuple[Notice, ...] = (),
    widening: FloatArray | None = None,
    solution: Solution | None = None,
) -> Estimate:
    """Return the estimate from whitened statistics.

    Args:
        problem: Regression or block statistics.
        white: Statistics of the whitened problem.
        uncertainty: Source of the standard errors.
        noise: Covariance of the rows, (r, r) or (t, r, r).
        freedom: Degrees of freedom under white noise, (p,) or one
            number.
        method: Name of the estimator.
        notices: To report.
        widening: Added to the covariance because the noise is
            estimated, (p, p).
        solution: Of the whitened equations, if it is known already.
    """
    if solution is None:
        solution = solve(white.factors, white.parameters)
    solution = refine(solution, problem.sampled(), noise)
    sampled = useful_samples(problem, uncertainty)
    if sampled is not None:
        sampled = sampled.whitened(noise)
    influence = linear_influence(white, sampled, solution.root, solution.values)
    covariance = estimate_covariance(influence, uncertainty, freedom)
    if widening is not None:
        covariance = covariance.widened(widening)
    return build_estimate(
        problem,
        solution.values,
        covariance,
        method=method,
        condition_number=solution.condition_number,
        notices=(*notices, *dead_rows(white)),
        noise_covariance=noise if noise.ndim == 2 else noise.mean(axis=0),
    )
