"""Total least squares for drive gains and payload: errors in the columns too; BG13 (29)-(39)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput, NotConverged, NotIdentifiable
from gough.core.notices import Notice
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate, EstimateCovariance, build_estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.gain_problem import (
    GainProblem,
    determine_gains,
    rough_solution,
)
from gough.fitting.problem import statistics_of
from gough.fitting.uncertainty import JACKKNIFE_BLOCKS, MIN_GROUPS, Influence

# Difference from the maximum likelihood of the same data above which a
# notice reports it, in standard errors. On 28 logs of two arms it was
# below 0.6 with errors in the currents only, and up to 5 with equal
# errors in all columns.
MAX_LIKELIHOOD_DISTANCE = 1.0


@dataclass(frozen=True, kw_only=True)
class TotalLeastSquares:
    """Find the compatible system closest to [X y]; BG13 (33)-(36).

    The solution [chi; -1] is the right singular vector of the smallest
    singular value of the weighted [X y], scaled so that its last entry
    is -1. Rows are weighted by their residual.

    TLS is not invariant to the scale of columns: the scale states how
    large the errors of each column are assumed to be. BG13 take the
    columns as they are, in SI units, although payload columns are
    exactly zero in unloaded samples and the regressor has other errors
    than the currents. Here the scaling can be chosen:

    - 'noise' (default): only the columns of the gains have errors, as large as the current
    noise,
      residual / gain, at the maximum likelihood of the currents. Generalised TLS: QR of the
      exact columns, then the smallest singular vector of the projected gain columns, each
      times its gain. Independent of units; consistent where each row is a motor. Weights
      iterated with the solution instead converge to a single row on some arms. To first
      order it is the estimate of maximum likelihood, so its standard errors are used.
    - 'none': the paper. Good as long as gains are much larger numbers than the other
    parameters.
      (39) of the paper, which assumes independent equal errors in all entries, is
      `white_std`.

    With both, a notice reports a difference from the maximum
    likelihood.

    Args:
        scaling: 'noise' or 'none'.
        nominal: Gains by motor, used only for those the data cannot
            determine.
    """

    needs: ClassVar[type] = GainProblem  # problem that it solves
    scaling: Literal["noise", "none"] = "noise"
    nominal: Mapping[str, float] = field(default_factory=dict)

    def fit(self, problem: GainProblem) -> Estimate:
        """Return gains, base and payload parameters."""
        if self.scaling not in ("noise", "none"):
            raise InvalidInput(f"scaling '{self.scaling}' is not known; choose noise or none")
        return determine_gains(problem, self.nominal, self._fit)

    def _fit(self, problem: GainProblem) -> Estimate | Sequence[str]:
        """Return the estimate, or the gains that the data cannot determine."""
        statistics = statistics_of(problem)
        likely: Estimate | None = None
        try:
            fitted = MaximumLikelihoodGains().fit_or_name(problem)
            if not isinstance(fitted, Estimate):
                return fitted
            likely = fitted
        except NotConverged:
            if self.scaling == "noise":
                raise
        if likely is not None and self.scaling == "noise":
            is_gain = np.array([name in problem.gains for name in problem.parameters])
            solution = _solve(statistics, likely.values, is_gain, len(problem.fixed))
            covariance = EstimateCovariance(
                covariance=likely.covariance,
                degrees_of_freedom=likely.degrees_of_freedom,
                kind=likely.uncertainty,
                sources=likely.sources,
                notices=likely.notices,
            )
        else:  # the paper's weights are those of least squares
            solution = _solve(statistics, rough_solution(problem))
            covariance = _covariance(statistics, solution)
        notices = []
        if likely is not None:
            notices = _difference_notices(problem, solution.values, likely)
        return build_estimate(
            problem,
            solution.values,
            covariance,
            notices=notices,
            method=f"total least squares, scaling {self.scaling}",
            condition_number=float(np.linalg.cond(solution.factor[:, :-1])),
            noise_covariance=np.diag(problem.residual_statistics(solution.values).rms ** 2),
        )


def _difference_notices(problem: GainProblem, values: FloatArray, likely: Estimate) -> list[Notice]:
    """Return a notice if gains differ from the maximum likelihood of the same data."""
    differences = []
    for k, name in enumerate(problem.parameters):
        distance = abs(values[k] - likely.values[k])
        if name in problem.gains and distance > MAX_LIKELIHOOD_DISTANCE * likely.std[k]:
            differences.append(f"{name} {values[k]:.4g} instead of {likely.values[k]:.4g}")
    if not differences:
        return []
    notice = Notice(
        rule="gain",
        level="info",
        text="more than a standard error from the maximum likelihood of the same "
        f"data: {', '.join(differences)}",
        advice="trust the latter, which does not depend on how columns are scaled",
    )
    return [notice]


class _TotalSolution(NamedTuple):
    """Solution of total least squares."""

    values: FloatArray  # (p,)
    sigma: FloatArray  # noise of the rows, which they were divided by, (r,)
    # triangular factor of the weighted, scaled [X y], (k, p + 1)
    factor: FloatArray


def _solve(
    statistics: BlockStatistics,
    start: FloatArray,
    is_gain: BoolArray | None = None,
    n_fixed: int = 0,
) -> _TotalSolution:
    """Return the solution of total least squares.

    Args:
        statistics: Of [X y].
        start: Values whose residual weights the rows, (p,).
        is_gain: Parameters whose columns have errors, as large as these
            gains, (p,); None for errors in all columns.
        n_fixed: Number of fixed gains; their currents give the effort
            errors, too.
    """
    if not statistics.factors[:, :, -1].any():
        raise InvalidInput("the effort, or that of the known payload, is zero everywhere")
    n = np.append(start, -1.0)
    root_count = np.sqrt(np.maximum(statistics.n_valid, 1))
    residual_rms = np.linalg.norm(statistics.factors @ n, axis=1) / root_count
    term_rms = np.linalg.norm(statistics.factors * n, axis=1).max(axis=1) / root_count
    rounding = np.where(term_rms > 0, 1e-12 * term_rms, 1.0)
    sigma = np.maximum(residual_rms, rounding)
    stacked = np.concatenate(statistics.factors / sigma[:, None, None])
    scale = np.ones(len(start) + 1)
    noisy = np.ones(len(start) + 1, dtype=bool)
    if is_gain is not None:
        column_norm = np.linalg.norm(stacked, axis=0)
        scale[:-1] = np.where(is_gain, np.abs(start), 1 / column_norm[:-1])
        # The effort has the noise of the rows with fixed gains.
        scale[-1] = 1 / np.sqrt(n_fixed) if n_fixed else 1 / column_norm[-1]
        noisy[:-1] = is_gain
        noisy[-1] = n_fixed > 0
    factor = np.asarray(np.linalg.qr(stacked * scale, mode="r"))
    vector = _smallest(factor, noisy)
    if abs(vector[-1]) < 1e-12 * np.abs(vector).max():
        raise NotIdentifiable(
            "nothing sets the scale: the effort takes no part in the closest compatible system; is "
            "the known payload visible in the recordings?"
        )
    values = -vector[:-1] / vector[-1] * scale[:-1] / scale[-1]
    return _TotalSolution(values, sigma, factor)


def _covariance(statistics: BlockStatistics, solution: _TotalSolution) -> EstimateCovariance:
    """Return the covariance with equal errors in all columns, from blocks if there are enough.

    With n = [chi; -1] the sum of squares is |Wtot n|^2 / n^T n, its
    derivative by chi What^T Wtot n, where the closest compatible matrix
    What = Wtot (1 - n n^T / n^T n) is linear in the data: a sum over
    blocks, whose scatter is that of the estimate, times the inverse of
    the second derivative W^T W - |Wtot n|^2 / n^T n. Unloaded and
    loaded blocks are two strata, since this scaling favours one of
    both. With too few blocks, white noise of all entries gives BG13
    (39), sigma_W^2 (1 + |chi|^2) (What^T What)^-1 over the first c - 1
    columns, the factor being |Wtot n|^2 / freedom by (38).
    """
    p = len(solution.values)
    n = np.append(solution.values, -1.0)
    factor = solution.factor
    compatible = np.eye(p + 1, p) - np.outer(n, n[:p]) / (n @ n)
    freedom = float(statistics.equations.sum() - p - 1)
    squares = float(np.sum((factor @ n) ** 2))
    half = np.linalg.inv(np.linalg.qr(factor @ compatible, mode="r"))
    white = EstimateCovariance(
        covariance=half @ half.T * squares / freedom,
        degrees_of_freedom=np.asarray(freedom),
        kind="white",
        notices=(
            Notice(
                rule="standard errors",
                level="info",
                text="standard errors by BG13 (39), which assumes independent errors: "
                "too few blocks",
            ),
        ),
    )
    influence = Influence(
        statistics=statistics,
        sampled=None,
        root=np.eye(p),
        residual=n / solution.sigma[:, None],
        jacobian=compatible / solution.sigma[:, None, None],
    )
    hessian = factor[:, :p].T @ factor[:, :p] - squares / (n @ n) * np.eye(p)
    shifts = np.linalg.solve(hessian, influence.by_block.score.T).T
    strata = _strata(statistics, shifts)
    count = sum(len(stratum) for stratum in strata)
    smallest = min(len(stratum) for stratum in strata)
    if count < MIN_GROUPS or smallest < 2:
        return replace(white, sources=(white.source,))
    covariances = [len(stratum) * np.cov(stratum.T) for stratum in strata]
    scatter = EstimateCovariance(
        covariance=np.sum(covariances, axis=0),
        count=count,
        degrees_of_freedom=np.asarray(float(count - len(strata))),
        kind="period" if statistics.repeats else "blocks",
        notices=(
            Notice(
                rule="standard errors",
                level="info",
                text=f"standard errors from the effect of each of {count} blocks on the solution",
            ),
        ),
    )
    return replace(scatter, sources=(white.source, scatter.source))


def _strata(statistics: BlockStatistics, shifts: FloatArray) -> list[FloatArray]:
    """Return the shifts of the solution by merged blocks, unloaded and loaded, (g, p) each."""
    labels = np.arange(len(shifts))
    if not statistics.repeats:
        labels = statistics.merged_labels(JACKKNIFE_BLOCKS)
    loaded = statistics.block_factors[..., -1].any(axis=(1, 2))
    strata = []
    for in_stratum in (~loaded, loaded):
        if in_stratum.any():
            sums = []
            for label in np.unique(labels[in_stratum]):
                sums.append(shifts[(labels == label) & in_stratum].sum(axis=0))
            strata.append(np.array(sums))
    return strata


def _smallest(factor: FloatArray, noisy: BoolArray) -> FloatArray:
    """Return the vector of unit length on the noisy columns that the matrix shrinks most, (c,)."""
    exact = int((~noisy).sum())
    triangle = np.asarray(np.linalg.qr(np.hstack([factor[:, ~noisy], factor[:, noisy]]), mode="r"))
    vector = np.empty(len(noisy))
    vector[noisy] = np.linalg.svd(triangle[exact:, exact:])[2][-1]
    vector[~noisy] = -np.linalg.solve(
        triangle[:exact, :exact], triangle[:exact, exact:] @ vector[noisy]
    )
    return vector
