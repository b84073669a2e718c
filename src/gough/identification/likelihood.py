"""Maximum likelihood of one averaged period: the filter cut-off, or the executed trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidRecording
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.least_squares import GaussMarkov
from gough.fitting.likelihood import (
    CutoffLikelihood,
    CutoffResult,
    FullLikelihood,
    LikelihoodResult,
    fourier_bins,
)
from gough.fitting.solve import solve
from gough.processing import ProcessedLog, regression
from gough.processing.likelihood_models import (
    AveragedPeriod,
    CutoffFamily,
    TrajectoryFamily,
)

__all__ = [
    "CutoffResult",
    "averaged_period",
    "cutoff_likelihood",
    "full_likelihood",
    "n_trajectory_coefficients",
]

MAX_CUTOFF_BINS = 40  # frequency bins tried as cut-off by default


def averaged_period(
    model: Model, processed: Sequence[ProcessedLog], base: BaseParameters
) -> AveragedPeriod:
    """Return the one periodic log that maximum likelihood works on."""
    if len(processed) != 1:
        raise InvalidRecording(f"maximum likelihood takes one periodic log, got {len(processed)}")
    return AveragedPeriod(model=model, processed=processed[0], base=base)


def n_trajectory_coefficients(period: AveragedPeriod, harmonics: int) -> int:
    """Return the number of Fourier coefficients of an executed trajectory."""
    return 2 * harmonics * int(period.pose.shape[1])


def cutoff_likelihood(period: AveragedPeriod, *, max_bins: int = MAX_CUTOFF_BINS) -> CutoffResult:
    """Choose the filter cut-off by likelihood, linear parameters profiled out; AH09 (24).

    Where positions do not scatter, their errors vanish and there is
    nothing to choose: (24) is then Gauss-Markov on the motion as it was
    processed (AH09 section 5).
    """
    if not period.scatters.any():
        return _likelihood_without_position_noise(period)
    average = period.average
    seconds = len(average) / average.rate
    max_bins = min(max_bins, (len(average) - 1) // 2)
    cutoffs, orders = fourier_bins(seconds, max_bins, period.pose.shape[1])
    family = CutoffFamily(period=period)
    return CutoffLikelihood().fit(family, cutoffs, orders, family.fitted_terms(max_bins))


def _likelihood_without_position_noise(period: AveragedPeriod) -> CutoffResult:
    """Return the Gauss-Markov estimate as the result of a choice of the cut-off."""
    average = period.average
    problem = regression(period.model, period.processed, period.base)
    estimate = GaussMarkov().fit(problem)
    seconds = len(average) / average.rate
    cutoff = period.processed.cutoff or average.rate / 2
    bins = int(cutoff * seconds * (1 + 1e-9))
    cutoffs, orders = fourier_bins(seconds, max(1, bins), period.pose.shape[1])
    residual_norm = solve(problem.whitened().stacked(), problem.parameters).residual_norm
    notice = Notice(
        rule="position noise",
        level="info",
        text=f"positions of {average.count} periods do not scatter: without position noise "
        "maximum likelihood is Gauss-Markov",
    )
    return CutoffResult(
        estimate=replace(estimate, notices=(notice, *estimate.notices)),
        cutoff=float(cutoffs[-1]),
        cutoffs=cutoffs[-1:],
        orders=orders[-1:],
        position_term=np.zeros(1),
        fitted_term=np.zeros(1),
        effort_term=np.array([residual_norm**2 / 2]),
        values=estimate.values[None],
    )


def full_likelihood(period: AveragedPeriod, *, harmonics: int) -> LikelihoodResult:
    """Estimate parameters and executed trajectory together: errors in variables."""
    family = TrajectoryFamily(period=period, harmonics=harmonics)
    average = period.average
    model = period.model
    cross_covariance = None
    if not model.loops.redundant:
        motor_columns = [model.actuated.index(i) for i in model.independent]
        cross_covariance = average.cross_covariance[:, motor_columns] / average.count
    return FullLikelihood(tolerance=1e-6).fit(
        family,
        family.start(),
        cross_covariance=cross_covariance,
        position_periods=average.recording.periods("position"),
    )
