"""Total least squares: errors in the columns as well, for drive gains and payload (BG13
(29)-(39)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidInput, NotConverged, NotIdentifiable
from gough.core.notices import Notice
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate, EstimateCovariance, build_estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.gain_problem import GainProblem, determine_gains, rough_solution
from gough.fitting.problem import statistics_of
from gough.fitting.uncertainty import JACKKNIFE_BLOCKS, MIN_GROUPS, Influence

# Standard deviations between two answers to the same data that are not one: errors in the currents
# only kept 28
# recordings of two arms within 0.6, equal errors everywhere went up to 5.
APART = 1.0


@dataclass(frozen=True, kw_only=True)
class TotalLeastSquares:
    """Find the compatible system closest to [X y]; BG13 (33)-(36).

    The solution [chi; -1] is the right singular vector of the smallest singular value of the
    weighted [X y], scaled so that its last entry is -1. Rows are weighted by their residual.

    TLS is not invariant to the scale of columns: the scale states how large the errors of each
    column are thought to be. BG13 take the columns as they are, in SI units, although payload
    columns are exactly zero in unloaded samples and the regressor has other errors than the
    currents. Here one chooses:

    - 'noise' (default): only the columns of the gains have errors, of the size of the current
    noise, residual / gain,
      at the maximum likelihood of the currents. Generalised TLS: QR of the exact columns, then the
      smallest singular vector of what is left of the gain columns, each times its gain. Free of
      units; consistent where each row is a motor. Weights that follow the solution instead draw it
      into a single row on some arms. To first order it is the likelihood's estimate, so its
      standard deviations are those.
    - 'none': the paper. Good as long as gains are much larger numbers than the other parameters.
    (39) of the paper,
      which assumes independent equal errors in all entries, is `white_std`.

    Both say where they disagree with the maximum likelihood.

    Args:
        scaling: 'noise' or 'none'.
        nominal: Gains by motor, used only for those the data cannot determine.
    """

    needs: ClassVar[type] = GainProblem
    scaling: Literal["noise", "none"] = "noise"
    nominal: Mapping[str, float] = field(default_factory=dict)

    def fit(self, problem: GainProblem) -> Estimate:
        """Return gains, base and payload parameters."""
        if self.scaling not in ("noise", "none"):
            raise InvalidInput(f"scaling '{self.scaling}' is not known; choose noise or none")
        return determine_gains(problem, self.nominal, self._fit)

    def _fit(self, problem: GainProblem) -> Estimate | Sequence[str]:
        statistics = statistics_of(problem)
        try:
            likely = MaximumLikelihoodGains().fit_or_name(problem)
        except NotConverged:
            if self.scaling == "noise":
                raise
            likely = None
        if not isinstance(likely, Estimate | None):
            return likely
        if likely is not None and self.scaling == "noise":
            is_gain = np.array([name in problem.gains for name in problem.parameters])
            values, sigma, factor = _solved(statistics, likely.values, is_gain, len(problem.fixed))
            found = EstimateCovariance(
                covariance=likely.covariance,
                degrees_of_freedom=likely.degrees_of_freedom,
                kind=likely.uncertainty,
                sources=likely.sources,
                notices=likely.notices,
            )
        else:  # the paper's weights are those of least squares
            values, sigma, factor = _solved(statistics, rough_solution(problem))
            found = _spread(statistics, values, sigma, factor)
        far = (
            ""
            if likely is None
            else ", ".join(
                f"{name} {value:.4g} instead of {other:.4g}"
                for name, value, other, std in zip(
                    problem.parameters, values, likely.values, likely.std
                )
                if name in problem.gains and abs(value - other) > APART * std
            )
        )
        notices = []
        if far:
            notices.append(
                Notice(
                    rule="gain",
                    level="info",
                    text="more than a standard error from the maximum likelihood of the same "
                    f"data: {far}",
                    advice="trust the latter, which does not depend on how columns are scaled",
                )
            )
        return build_estimate(
            problem,
            values,
            found,
            notices=notices,
            method=f"total least squares, scaling {self.scaling}",
            condition_number=float(np.linalg.cond(factor[:, :-1])),
            noise_covariance=np.diag(problem.residual_statistics(values).rms ** 2),
        )


def _solved(
    statistics: BlockStatistics,
    start: FloatArray,
    gains: BoolArray | None = None,
    fixed: int = 0,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the solution (p,), the weights of the rows (r,) and the triangular factor of the
    weighted, scaled [X y].

    Rows are divided by what the values (p,) to start from leave of them. If it is said which
    parameters are gains, only their columns have errors, of the size of these gains; and the
    effort, if it holds the currents of fixed ones.
    """
    if not statistics.factors[:, :, -1].any():
        raise InvalidInput("the effort, or that of the known payload, is zero everywhere")
    n, many = np.append(start, -1.0), np.sqrt(np.maximum(statistics.n_valid, 1))
    left = np.linalg.norm(statistics.factors @ n, axis=1) / many
    size = np.linalg.norm(statistics.factors * n, axis=1).max(axis=1) / many
    sigma = np.maximum(left, np.where(size > 0, 1e-12 * size, 1.0))  # not below rounding
    stacked = np.concatenate(statistics.factors / sigma[:, None, None])
    scale, noisy = np.ones(len(start) + 1), np.ones(len(start) + 1, dtype=bool)
    if gains is not None:
        length = np.linalg.norm(stacked, axis=0)
        last = (
            1 / np.sqrt(fixed) if fixed else 1 / length[-1]
        )  # the effort then carries noise of these rows
        scale = np.append(np.where(gains, np.abs(start), 1 / length[:-1]), last)
        noisy = np.append(gains, fixed > 0)
    factor = np.asarray(np.linalg.qr(stacked * scale, mode="r"))
    vector = _smallest(factor, noisy)
    if abs(vector[-1]) < 1e-12 * np.abs(vector).max():
        raise NotIdentifiable(
            "nothing sets the scale: the effort takes no part in the closest compatible system; is "
            "the known payload visible in the recordings?"
        )
    return -vector[:-1] / vector[-1] * scale[:-1] / scale[-1], sigma, factor


def _spread(
    statistics: BlockStatistics, values: FloatArray, sigma: FloatArray, factor: FloatArray
) -> EstimateCovariance:
    """Return the covariance where all columns have equal errors, over stretches if there are some,
    else BG13 (39).

    With n = [chi; -1] the sum of squares is |Wtot n|^2 / n^T n, its derivative by chi What^T Wtot
    n, where the closest compatible matrix What = Wtot (1 - n n^T / n^T n) is linear in the data: a
    sum over stretches, whose scatter is that of the estimate, times the inverse of the second
    derivative W^T W - |Wtot n|^2 / n^T n. Unloaded and loaded ones are taken apart, since this
    scaling favours one of both. White noise of all entries gives sigma_W^2 (1 + |chi|^2) (What^T
    What)^-1 over the first c - 1 columns, the factor being |Wtot n|^2 / free by (38).
    """
    n, p = np.append(values, -1.0), len(values)
    compatible, free = (
        np.eye(p + 1, p) - np.outer(n, n[:p]) / (n @ n),
        float(statistics.equations.sum() - p - 1),
    )
    squares = float(np.sum((factor @ n) ** 2))
    half = np.linalg.inv(np.linalg.qr(factor @ compatible, mode="r"))
    white = EstimateCovariance(
        covariance=half @ half.T * squares / free,
        degrees_of_freedom=np.asarray(free),
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
        residual=n / sigma[:, None],
        jacobian=compatible / sigma[:, None, None],
    )
    second = factor[:, :p].T @ factor[:, :p] - squares / (n @ n) * np.eye(p)
    moves = np.linalg.solve(second, influence.by_block.score.T).T
    label = (
        np.arange(len(moves)) if statistics.repeats else statistics.merged_labels(JACKKNIFE_BLOCKS)
    )
    loaded = statistics.block_factors[..., -1].any(axis=(1, 2))
    strata = [
        np.array([moves[(label == k) & kind].sum(axis=0) for k in np.unique(label[kind])])
        for kind in (~loaded, loaded)
        if kind.any()
    ]
    count = sum(map(len, strata))
    if count < MIN_GROUPS or min(map(len, strata)) < 2:
        return replace(white, sources=(white.source,))
    found = EstimateCovariance(
        covariance=np.sum([len(part) * np.cov(part.T) for part in strata], axis=0),
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
    return replace(found, sources=(white.source, found.source))


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
