"""Drive gains by maximum likelihood: the model predicts the currents, and only these are noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray, IntArray
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
    """Estimate gains g, base parameters chi and payload chi_ul by maximum likelihood.

    Minimises sum_j |current_j - (W_j chi + W_ul,j chi_ul + W_kl,j
    chi_kl) / g_j|^2 / sigma_j^2. The noise sigma_j of each motor's
    current is estimated from its residual and iterated, as in
    `WeightedLeastSquares`. Gauss-Newton on block statistics: its time
    does not depend on the number of samples. Beyond the papers; BG13's
    total least squares distributes errors over all columns.

    With more motors than rows the currents are not functions of the
    parameters. Then they are corrected as little as possible, in units
    of their noise, until the equation of motion holds: minimise sum_s
    z_s^T C_s^-1 z_s with z = map diag(v) g - W chi - ... and C = map
    diag(g^2 sigma^2) map^T. All motors have one noise level, and the
    samples are needed.

    Args:
        nominal: Gains by motor, used only for those the data cannot
            determine.
        iterations, tolerance: Of Gauss-Newton; tolerance is the change
            of the fit in units of the noise.
        uncertainty: As in `LeastSquares`.
    """

    needs: ClassVar[type] = GainProblem  # problem that it solves
    nominal: Mapping[str, float] = field(default_factory=dict)
    iterations: int = 200
    tolerance: float = 1e-6
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: GainProblem) -> Estimate:
        """Return gains, base and payload parameters."""
        return determine_gains(problem, self.nominal, self.fit_or_name)

    def fit_or_name(self, problem: GainProblem) -> Estimate | Sequence[str]:
        """Return the estimate, or the names of gains that the data cannot determine."""
        statistics = statistics_of(problem)
        try:
            start = rough_solution(problem)
            if problem.effort_map is None:  # else standard errors show it
                _check_rank(problem, statistics, start)
            optimum = self._gauss_newton(problem, statistics, start)
        except NotIdentifiable as error:  # also if a gain diverged until its column was dependent
            return open_gains(problem, error)
        covariance = estimate_covariance(
            self._influence(problem, statistics, optimum),
            self.uncertainty,
            optimum.freedom,
        )
        noise_covariance = None
        if problem.effort_map is None:
            effort_noise = optimum.noise * problem.gain_values(optimum.values)
            noise_covariance = np.diag(effort_noise**2)
        return build_estimate(
            problem,
            optimum.values,
            covariance,
            method="maximum likelihood of currents",
            condition_number=optimum.step.condition_number,
            notices=dead_rows(statistics),
            noise_covariance=noise_covariance,
        )

    def _gauss_newton(
        self,
        problem: GainProblem,
        statistics: BlockStatistics,
        values: FloatArray,
    ) -> _Optimum:
        """Return the optimum, started at values (p,)."""
        n_equations = statistics.equations
        if problem.effort_map is not None:
            n_equations = n_equations.sum(keepdims=True)
        n_equations = np.maximum(n_equations, 1)
        linearised = _linearised(problem, statistics, values)
        rounding = _rounding(linearised, values, n_equations)
        noise = np.maximum(_residual_norm(linearised) / np.sqrt(n_equations), rounding)
        for _ in range(self.iterations):
            step = solve(linearised / noise[:, None, None], problem.parameters)
            start = values
            values, linearised, change = _line_search(
                problem, statistics, values, step.values, linearised, noise
            )
            leverage = _leverage(linearised, step.root, noise)
            freedom = np.maximum(n_equations - leverage, 0.5)
            rounding = _rounding(linearised, values, n_equations)
            last_noise = noise
            noise = np.maximum(_residual_norm(linearised) / np.sqrt(freedom), rounding)
            noise_settled = np.abs(np.log(noise / last_noise)).max() < self.tolerance
            largest_change = self.tolerance * noise + rounding
            if noise_settled and (change / np.sqrt(n_equations) <= largest_change).all():
                break
        else:
            std = np.linalg.norm(step.root, axis=1)
            moved = (np.abs(values - start) / std).max()
            if moved > SETTLED_STEP:
                raise NotConverged(
                    f"drive gains still change by {moved:.2g} standard deviations after "
                    f"{self.iterations} steps; is the payload hardly visible in the currents, or "
                    "one current constant?",
                    iterations=self.iterations,
                )
        step = solve(linearised / noise[:, None, None], problem.parameters)
        inverse = step.root @ step.root.T
        variance_by_row = np.linalg.norm(linearised[:, :, :-1] @ inverse, axis=1) ** 2
        variance_by_row /= noise[:, None] ** 2
        return _Optimum(
            values,
            step,
            noise,
            pooled_degrees_of_freedom(variance_by_row, freedom),
        )

    def _influence(
        self,
        problem: GainProblem,
        statistics: BlockStatistics,
        optimum: _Optimum,
    ) -> Influence:
        """Return the linearised estimator at the optimum; see `uncertainty`."""
        root = optimum.step.root
        noise = optimum.noise
        if problem.effort_map is None:
            maps, residual = current_maps(problem, optimum.values)
            return Influence(
                statistics=statistics,
                sampled=useful_samples(problem, self.uncertainty),
                root=root,
                jacobian=maps / noise[:, None, None],
                residual=residual / noise[:, None],
            )
        slopes, white = _corrected(problem, optimum.values)
        linear = replace(
            samples_of(problem, "motors share rows"),
            regressor=slopes / noise,
            effort=white / noise,
            covariance=None,
        )
        return linear_influence(linear.statistics(), useful_samples(linear, self.uncertainty), root)


class _Optimum(NamedTuple):
    """Solution of Gauss-Newton."""

    values: FloatArray  # (p,)
    step: Solution  # of the linearised equations at the values
    noise: FloatArray  # of each motor's current, or one level of all, (m,)
    freedom: FloatArray  # degrees of freedom of each variance, (p,)


def _residual_norm(linearised: FloatArray) -> FloatArray:
    """Return the norm of the residual of each motor, (m,), from [J, -residual]."""
    return np.asarray(np.linalg.norm(linearised[:, :, -1], axis=1))


def _leverage(linearised: FloatArray, root: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the number of parameters that each motor determines, (m,)."""
    squares = np.linalg.norm(linearised[:, :, :-1] @ root, axis=(1, 2)) ** 2
    return np.asarray(squares / noise**2)


def _rounding(linearised: FloatArray, values: FloatArray, n_equations: IntArray) -> FloatArray:
    """Return the rounding error of each motor's current, the lower bound of its noise, (m,)."""
    term_norm = np.linalg.norm(linearised[:, :, :-1] * values, axis=1).max(axis=1)
    term_rms = term_norm / np.sqrt(n_equations)
    return np.where(term_rms > 0, 1e-12 * term_rms, 1.0)


def _check_rank(problem: GainProblem, statistics: BlockStatistics, values: FloatArray) -> None:
    """Raise `NotIdentifiable` if gains are collinear with other parameters.

    Their columns of the derivative of the model's currents then depend
    on the other columns. The model's currents have no noise, so the
    dependence is exact where it exists, however noisy the data, and the
    same wherever the derivative is taken.
    """
    maps, _ = current_maps(problem, values)
    slopes = statistics.factors @ maps
    norm = np.linalg.norm(slopes, axis=(1, 2), keepdims=True)
    stacked = np.concatenate(slopes / np.where(norm > 0, norm, 1.0))
    solve(np.column_stack([stacked, np.zeros(len(stacked))]), problem.parameters)


def _linearised(
    problem: GainProblem, statistics: BlockStatistics, values: FloatArray
) -> FloatArray:
    """Return [J, -residual] of the currents, (m, k, p + 1).

    A factor for each motor, or one of all whitened samples where motors
    outnumber rows.
    """
    if problem.effort_map is not None:
        slopes, residual = _corrected(problem, values)
        stacked = np.concatenate([slopes, -residual[:, :, None]], axis=2)
        factor = np.linalg.qr(stacked.reshape(-1, len(values) + 1), mode="r")
        return np.asarray(factor)[None]
    maps, residual = current_maps(problem, values)
    return np.asarray(statistics.factors @ np.concatenate([maps, -residual[:, :, None]], axis=2))


def _corrected(problem: GainProblem, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return derivative (t, r, p) and residual (t, r) of the whitened equation of motion.

    For robots with more motors than rows. With z = X values - y and C =
    map diag(g^2) map^T, the gradient of z^T C^-1 z by a gain is 2
    (map_a^T C^-1 z) times the corrected current v_a - g_a map_a^T C^-1
    z, so the gain column is map_a (corrected current).
    """
    assert problem.effort_map is not None
    samples = samples_of(problem, "motors share rows")
    gains = problem.gain_values(values)
    scaled = problem.effort_map * gains
    covariance = scaled @ scaled.transpose(0, 2, 1)

    def whitened(columns: FloatArray) -> FloatArray:
        return whiten(columns, covariance, samples.mask, samples.rows)

    white = whitened(-samples.residual(values)[:, :, None])[:, :, 0]
    correction = np.einsum("tra,tr->ta", whitened(problem.effort_map), white)  # map^T C^-1 z
    slopes = samples.regressor.copy()
    for a, name in enumerate(problem.all_gains):
        if name in problem.gains:
            shift = problem.effort_map[:, :, a] * (gains[a] * correction[:, a])[:, None]
            slopes[:, :, problem.parameters.index(name)] -= shift
    return whitened(slopes), white


def _line_search(
    problem: GainProblem,
    statistics: BlockStatistics,
    values: FloatArray,
    step: FloatArray,
    linearised: FloatArray,
    noise: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Halve the step until gains keep their sign and the cost does not grow.

    Returns:
        Values (p,), [J, -residual] there, and the change of each
            motor's currents (m,).
    """
    gains = problem.gain_values(values)
    cost = np.sum((_residual_norm(linearised) / noise) ** 2)
    for _ in range(30):
        trial = values + step
        if (problem.gain_values(trial) / gains > 0.1).all():
            trial_linearised = _linearised(problem, statistics, trial)
            trial_cost = np.sum((_residual_norm(trial_linearised) / noise) ** 2)
            if trial_cost <= cost * (1 + 1e-9):
                change = np.linalg.norm(linearised[:, :, :-1] @ step, axis=1)
                return trial, trial_linearised, change
        step = step / 2
    return values, linearised, np.zeros(len(linearised))
