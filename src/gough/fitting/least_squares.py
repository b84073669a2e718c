"""Least squares, with row weights, and with the full covariance of the rows (BG13 (24)-(28), AH09
(9)-(10)).
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
from gough.fitting.problem import LinearProblem, dead_rows, samples_of, statistics_of
from gough.fitting.row_noise import estimate_row_noise
from gough.fitting.solve import Solution, solve
from gough.fitting.uncertainty import (
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """Minimise |W chi - y|^2 over all rows alike; BG13 (24)-(27).

    Rows of different noise or unit deserve `WeightedLeastSquares`.

    Args:
        uncertainty: Where standard deviations come from: 'auto', 'white', 'period', 'hac',
            'blocks' or 'logs'; see `uncertainty.estimate_covariance`.
    """

    uncertainty: Uncertainty = "auto"

    def fit(self, problem: LinearProblem) -> Estimate:
        """Return the estimate of a regression or its block statistics."""
        statistics = statistics_of(problem)
        solution = solve(statistics.factors, statistics.parameters)
        free = float(statistics.equations.sum() - len(statistics.parameters))
        rounding = max(
            1e-15 * float(np.linalg.norm(statistics.factors[:, :, -1])), 1e-30
        )  # keeps weights finite
        noise = (
            np.eye(len(statistics.rows)) * max(solution.residual_norm, rounding) ** 2 / free
        )  # BG13 (26)
        return _estimate(
            problem, statistics.whitened(noise), self.uncertainty, noise, free, "least squares"
        )


@dataclass(frozen=True, kw_only=True)
class WeightedLeastSquares:
    """Least squares with each row divided by its own noise, found from its residual; BG13 (28).

    sigma_j^2 = |W_j chi - y_j|^2 / (n_j - h_j) with n_j the equations of row j that count and h_j
    its share in the fitted parameters (sum_j h_j = p): the weights are unbiased. Departure: BG13
    weights once; here the weights are iterated until they agree with the solution they give, see
    `estimate_row_noise`.

    Args:
        iterations: Most passes.
        tolerance: Relative change of the noise that ends them; None runs all passes (1 pass is
            BG13's estimator).
        uncertainty: As in `LeastSquares`.
    """

    iterations: int = 100
    tolerance: float | None = 1e-9
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: LinearProblem) -> Estimate:
        """Return the estimate of a regression or its block statistics."""
        return _iterated(problem, self, full=False, method="weighted least squares")


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussMarkov:
    """Least squares with the covariance between rows taken into account; AH09 (9)-(10).

    chi = (sum_s W_s^T Sigma_s^-1 W_s)^-1 sum_s W_s^T Sigma_s^-1 y_s, computed by whitening each
    sample and QR. Where equations of a sample do not count, Sigma_s is the covariance of those that
    do.

    Args:
        covariance: Of the rows' noise: (r, r), or (t, r, r) per sample, or 'estimated' from the
            residuals and iterated, or None for the problem's own covariance and, if it has none,
            'estimated'. [product of the row units]
        iterations, tolerance: Of the estimated covariance, as in `WeightedLeastSquares`.
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
        """Return the estimate of a regression, or of a problem condensed with `joint=True`."""
        covariance = (
            getattr(problem, "covariance", None) if self.covariance is None else self.covariance
        )
        if covariance is None or isinstance(covariance, str):
            return _iterated(
                problem,
                self,
                full=True,
                method="Gauss-Markov",
                notices=(
                    Notice(
                        rule="weights",
                        level="info",
                        text="covariance of the joint equations estimated from the residuals",
                    ),
                ),
            )
        if covariance.ndim == 2:
            check_shape(covariance, (len(problem.rows),) * 2, "covariance of the rows")
            joint = bool(np.any(covariance - np.diag(np.diag(covariance))))
            white = statistics_of(problem, joint=joint).whitened(covariance)
        else:
            white = (
                samples_of(
                    problem,
                    "a covariance per sample needs the samples (or whiten blocks before condensing "
                    "them, and give the identity)",
                )
                .whitened(covariance)
                .statistics()
            )
        return _estimate(problem, white, self.uncertainty, covariance, np.inf, "Gauss-Markov")


def _iterated(
    problem: LinearProblem,
    settings: WeightedLeastSquares | GaussMarkov,
    *,
    full: bool,
    method: str,
    notices: tuple[Notice, ...] = (),
) -> Estimate:
    statistics = statistics_of(problem, joint=full)
    found = estimate_row_noise(
        statistics, full=full, iterations=settings.iterations, tolerance=settings.tolerance
    )
    freedom, growth = found.freedom_and_inflation()
    return _estimate(
        problem,
        statistics.whitened(found.covariance),
        "white" if found.exact else settings.uncertainty,
        found.covariance,
        freedom,
        method,
        (*notices, *found.notices),
        growth,
        found.solution,
    )


def _estimate(
    problem: LinearProblem,
    white: BlockStatistics,
    mode: Uncertainty,
    noise: FloatArray,
    freedom: FloatArray | float,
    method: str,
    notices: tuple[Notice, ...] = (),
    growth: FloatArray | None = None,
    solution: Solution | None = None,
) -> Estimate:
    """Assemble the estimate from whitened factors and the solution they give; variances grow by
    `growth`, (p,).
    """
    solution = solution or solve(white.factors, white.parameters)
    sampled = useful_samples(problem, mode)
    influence = linear_influence(
        white, None if sampled is None else sampled.whitened(noise), solution.root, solution.values
    )
    found = estimate_covariance(influence, mode, freedom)
    return build_estimate(
        problem,
        solution.values,
        found if growth is None else found.inflated(growth),
        method=method,
        condition_number=solution.condition_number,
        notices=(*notices, *dead_rows(white)),
        noise_covariance=noise if noise.ndim == 2 else noise.mean(axis=0),
    )
