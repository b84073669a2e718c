"""Drive gains by maximum likelihood: the model predicts the current, and only the current is
noisy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import NotConverged, NotIdentifiable
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate, build_estimate
from gough.fitting.gain_problem import (
    GainProblem,
    current_maps,
    determine_gains,
    open_gains,
    rough_solution,
)
from gough.fitting.problem import dead_rows, samples_of, statistics_of
from gough.fitting.row_noise import SETTLED_STEP, pooled_degrees_of_freedom
from gough.fitting.solve import Solution, solve
from gough.fitting.uncertainty import (
    Influence,
    Uncertainty,
    estimate_covariance,
    linear_influence,
    useful_samples,
)
from gough.fitting.whitening import whiten


@dataclass(frozen=True, kw_only=True)
class MaximumLikelihoodGains:
    """Minimise sum_j |current_j - (W_j chi + W_ul,j chi_ul + W_kl,j chi_kl) / g_j|^2 / sigma_j^2
    over chi, chi_ul, g.

    The noise sigma_j of each motor's current is estimated from its residual and iterated, as in
    `WeightedLeastSquares`. Gauss-Newton on condensed data: its time does not depend on the number
    of samples. Beyond the papers; BG13's total least squares spreads errors over all columns.

    With more motors than rows the currents are not functions of the parameters. Then they are
    corrected as little as possible, in units of their noise, until the equation of motion holds:
    minimise sum_s z_s^T C_s^-1 z_s with z = map diag(v) g - W chi - ... and C = map diag(g^2
    sigma^2) map^T. One noise level serves all motors, and the samples are needed.

    Args:
        nominal: Gains by motor, used only for those the data cannot determine.
        iterations, tolerance: Of Gauss-Newton; tolerance is the change of the fit in units of the
            noise.
        uncertainty: As in `LeastSquares`.
    """

    needs: ClassVar[type] = GainProblem
    nominal: Mapping[str, float] = field(default_factory=dict)
    iterations: int = 200
    tolerance: float = 1e-6
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: GainProblem) -> Estimate:
        """Return gains, base and payload parameters."""
        return determine_gains(problem, self.nominal, self.fit_or_name)

    def fit_or_name(self, problem: GainProblem) -> Estimate | Sequence[str]:
        """Return the estimate, or the gains that have no effect of their own; none is taken as
        known.
        """
        statistics = statistics_of(problem)
        try:
            start = rough_solution(problem)
            if problem.effort_map is None:  # else the standard deviations tell
                _check_rank(problem, statistics, start)
            values, step, noise, freedom = self._gauss_newton(problem, statistics, start)
        except NotIdentifiable as error:  # or a gain ran away until its column hung on the others
            return open_gains(problem, error)
        found = estimate_covariance(
            self._influence(problem, statistics, values, noise, step.root),
            self.uncertainty,
            freedom,
        )
        return build_estimate(
            problem,
            values,
            found,
            method="maximum likelihood of currents",
            condition_number=step.condition_number,
            notices=dead_rows(statistics),
            noise_covariance=None
            if problem.effort_map is not None
            else np.diag((noise * problem.gain_values(values)) ** 2),
        )

    def _gauss_newton(
        self, problem: GainProblem, statistics: BlockStatistics, values: FloatArray
    ) -> tuple[FloatArray, Solution, FloatArray, FloatArray]:
        """Return values, the last linear solution, the noise, and the degrees of freedom behind
        each variance.
        """
        view = _linearised(problem, statistics, values)
        counts = (
            statistics.equations
            if problem.effort_map is None
            else statistics.equations.sum(keepdims=True)
        )
        many = np.maximum(counts, 1)

        def rounding() -> FloatArray:
            size = np.linalg.norm(view[:, :, :-1] * values, axis=1).max(axis=1) / np.sqrt(many)
            return np.where(size > 0, 1e-12 * size, 1.0)

        noise = np.maximum(np.linalg.norm(view[:, :, -1], axis=1) / np.sqrt(many), rounding())
        for _ in range(self.iterations):
            step = solve(view / noise[:, None, None], problem.parameters)
            start = values
            values, view, shift = _shorten(problem, statistics, values, step.values, view, noise)
            share = np.linalg.norm(view[:, :, :-1] @ step.root, axis=(1, 2)) ** 2 / noise**2
            free = np.maximum(many - share, 0.5)
            left = np.linalg.norm(view[:, :, -1], axis=1) / np.sqrt(free)
            before, noise = noise, np.maximum(left, rounding())
            settled = np.abs(np.log(noise / before)).max() < self.tolerance
            if settled and (shift / np.sqrt(many) <= self.tolerance * noise + rounding()).all():
                break
        else:
            moved = (np.abs(values - start) / np.linalg.norm(step.root, axis=1)).max()
            if moved > SETTLED_STEP:
                raise NotConverged(
                    f"drive gains still change by {moved:.2g} standard deviations after "
                    f"{self.iterations} steps; is the payload hardly visible in the currents, or "
                    f"one "
                    "current constant?",
                    iterations=self.iterations,
                )
        step = solve(view / noise[:, None, None], problem.parameters)
        shares = (
            np.linalg.norm(view[:, :, :-1] @ step.root @ step.root.T, axis=1) ** 2
            / noise[:, None] ** 2
        )
        return values, step, noise, pooled_degrees_of_freedom(shares, free)

    def _influence(
        self,
        problem: GainProblem,
        statistics: BlockStatistics,
        values: FloatArray,
        noise: FloatArray,
        root: FloatArray,
    ) -> Influence:
        """Return what the scatter of the estimate follows from; see `uncertainty`."""
        if problem.effort_map is None:
            maps, residual = current_maps(problem, values)
            return Influence(
                statistics=statistics,
                sampled=useful_samples(problem, self.uncertainty),
                root=root,
                jacobian=maps / noise[:, None, None],
                residual=residual / noise[:, None],
            )
        slopes, white = _corrected(problem, values)
        data = replace(
            samples_of(problem, "motors share rows"),
            regressor=slopes / noise,
            effort=white / noise,
            covariance=None,
        )
        return linear_influence(data.statistics(), useful_samples(data, self.uncertainty), root)


def _check_rank(problem: GainProblem, statistics: BlockStatistics, values: FloatArray) -> None:
    """Raise `NotIdentifiable` if gains could change together with other parameters without changing
    any current.

    Their columns of the derivative of the model's currents then depend on the other columns. The
    model's currents carry no noise, so the dependence is exact where it exists, however noisy the
    data, and does not hinge on where the derivative is taken.
    """
    slopes = statistics.factors @ current_maps(problem, values)[0]
    size = np.linalg.norm(slopes, axis=(1, 2), keepdims=True)
    slopes = np.concatenate(slopes / np.where(size > 0, size, 1.0))
    solve(np.column_stack([slopes, np.zeros(len(slopes))]), problem.parameters)


def _linearised(
    problem: GainProblem, statistics: BlockStatistics, values: FloatArray
) -> FloatArray:
    """Return [J, -residual] of the currents: a factor for each motor, or one of all whitened
    samples, (q, k, p + 1).
    """
    if problem.effort_map is not None:
        slopes, residual = _corrected(problem, values)
        data = np.concatenate([slopes, -residual[:, :, None]], axis=2).reshape(-1, len(values) + 1)
        return np.asarray(np.linalg.qr(data, mode="r"))[None]
    maps, residual = current_maps(problem, values)
    return np.asarray(statistics.factors @ np.concatenate([maps, -residual[:, :, None]], axis=2))


def _corrected(problem: GainProblem, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return derivative (t, r, p) and residual (t, r) of the whitened equation of motion where
    motors outnumber rows.

    z = X values - y, C = map diag(g^2) map^T. The gradient of z^T C^-1 z by a gain is 2 (map_a^T
    C^-1 z) times the corrected current v_a - g_a map_a^T C^-1 z, so the gain column is map_a
    (corrected current).
    """
    assert problem.effort_map is not None
    data, gains = samples_of(problem, "motors share rows"), problem.gain_values(values)
    scaled = problem.effort_map * gains
    covariance = scaled @ scaled.transpose(0, 2, 1)

    def whitened(columns: FloatArray) -> FloatArray:
        return whiten(columns, covariance, data.mask, data.rows)

    white = whitened(-data.residual(values)[:, :, None])[:, :, 0]
    pull = np.einsum("tra,tr->ta", whitened(problem.effort_map), white)  # map^T C^-1 z
    slopes = data.regressor.copy()
    for a, name in enumerate(problem.all_gains):
        if name in problem.gains:
            shift = problem.effort_map[:, :, a] * (gains[a] * pull[:, a])[:, None]
            slopes[:, :, problem.parameters.index(name)] -= shift
    return whitened(slopes), white


def _shorten(
    problem: GainProblem,
    statistics: BlockStatistics,
    values: FloatArray,
    step: FloatArray,
    view: FloatArray,
    noise: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Halve the step until gains keep their sign and the cost does not grow; return values, factors
    and its size.
    """
    gains = problem.gain_values(values)
    cost = np.sum((np.linalg.norm(view[:, :, -1], axis=1) / noise) ** 2)
    for _ in range(30):
        trial = values + step
        if (problem.gain_values(trial) / gains > 0.1).all():
            new = _linearised(problem, statistics, trial)
            if np.sum((np.linalg.norm(new[:, :, -1], axis=1) / noise) ** 2) <= cost * (1 + 1e-9):
                return trial, new, np.linalg.norm(view[:, :, :-1] @ step, axis=1)
        step = step / 2
    return values, view, np.zeros(len(view))
