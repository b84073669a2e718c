"""Maximum likelihood: errors of positions and efforts together (AH09 section 5, and what it calls inhibited)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidRecording
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.estimators.linear.least_squares import GaussMarkov
from gough.estimators.linear.likelihood import (
    CutoffLikelihood,
    CutoffResult,
    FullLikelihood,
    LikelihoodResult,
    fourier_bins,
)
from gough.estimators.linear.solve import solve
from gough.processing import Processed, regression
from gough.processing.families import AveragedPeriod, CutoffFamily, TrajectoryFamily

HIGHEST = 40  # bins tried by default


def averaged_period(model: Model, processed: Sequence[Processed], base: BaseParameters) -> AveragedPeriod:
    """Return the one periodic recording that maximum likelihood works on.

    Raises:
        InvalidRecording: Several recordings, or one without periods.
    """
    if len(processed) != 1:
        raise InvalidRecording(f"maximum likelihood takes one periodic log, got {len(processed)}")
    done = processed[0]
    if done.average is None:
        raise InvalidRecording(f"{done.source}: maximum likelihood needs at least two whole periods")
    return AveragedPeriod(model=model, processed=done, base=base, mask=done.mask)


def cutoff_likelihood(period: AveragedPeriod, *, highest: int = HIGHEST,
                      settings: CutoffLikelihood | None = None) -> CutoffResult:
    """Choose the filter cut-off by likelihood, linear parameters profiled out; AH09 (24).

    Where positions do not scatter their errors vanish, nothing is left to choose, and (24) is Gauss-Markov on the
    motion as it was processed (AH09 section 5).
    """
    if not period.scatters.any():
        return _without_errors(period)
    seconds = len(period.average) / period.average.rate
    highest = min(highest, (len(period.average) - 1) // 2)
    cutoffs, orders = fourier_bins(seconds, highest, period.pose.shape[1])
    family = CutoffFamily(period=period)
    return (settings or CutoffLikelihood()).fit(family, cutoffs, orders, family.fitted_terms(highest))


def _without_errors(period: AveragedPeriod) -> CutoffResult:
    average, problem = period.average, regression(period.model, period.processed, period.base)
    estimate = GaussMarkov().fit(problem)
    bins = int((period.processed.cutoff or average.rate / 2) * len(average) / average.rate * (1 + 1e-9))
    cutoffs, orders = fourier_bins(len(average) / average.rate, max(1, bins), period.pose.shape[1])
    left = solve(problem.whitened().stacked(), problem.parameters).residual_norm
    notes = (f"positions of {average.count} periods do not scatter: without errors of them maximum likelihood is "
             "Gauss-Markov", *estimate.notes)
    return CutoffResult(
        estimate=replace(estimate, notes=notes), cutoff=float(cutoffs[-1]), cutoffs=cutoffs[-1:], orders=orders[-1:],
        position_term=np.zeros(1), fitted_term=np.zeros(1), effort_term=np.array([left**2 / 2]),
        values=estimate.values[None])


def full_likelihood(period: AveragedPeriod, *, harmonics: int | None = None,
                    settings: FullLikelihood | None = None) -> LikelihoodResult:
    """Estimate parameters and executed trajectory together: errors in variables, exact derivatives through the loops.

    Args:
        period: The averaged period.
        harmonics: Of the executed trajectory; by default those the cut-off likelihood keeps.
        settings: Of the optimiser.
    """
    if harmonics is None:
        chosen = cutoff_likelihood(period)
        harmonics = max(1, round(chosen.cutoff * len(period.average) / period.average.rate))
    family = TrajectoryFamily(period=period, harmonics=harmonics)
    average = period.average
    cross = average.cross_covariance / average.count
    model = period.model
    known = None
    if not model.loops.redundant:
        known = cross[:, [model.actuated.index(i) for i in model.independent]]
    return (settings or FullLikelihood(tolerance=1e-6)).fit(
        family, family.start(), cross_covariance=known, position_periods=average.position_periods)
