"""Apply all rules to a fit, and diagnose it if they warn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import GoughError
from gough.core.notices import Notice
from gough.core.signals import power_density
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.diagnosis import Diagnosis
from gough.identification.experiment import Experiment
from gough.identification.fit import FittedLogs
from gough.identification.validation import (
    VISIBLE_FRACTION,
    Validation,
    noise_variance,
)
from gough.logs.recording import Recording
from gough.processing.settings import DECIMATION_EDGE
from gough.verdict import rules
from gough.verdict.diagnosis.diagnose import diagnose_evidence, fading_efforts
from gough.verdict.diagnosis.directions import words
from gough.verdict.diagnosis.evidence import HEARD, Evidence, evidence_of
from gough.verdict.diagnosis.hypotheses import HYPOTHESES
from gough.verdict.diagnosis.search import Standing
from gough.verdict.diagnosis.steps import mistakes_of_jumps
from gough.verdict.diagnosis.track import sources
from gough.verdict.robot_file import (
    prior_of,
    report_negative_values,
    warn_if_far_from_robot_file,
)
from gough.verdict.rules import NoiseBounds

SPECTRUM_SEGMENT = 1024  # samples: enough to resolve the band of a motion
NOISE_BANDS = 4  # above the band of the motion, each with its own noise density
MIN_BAND_FREQUENCIES = 4  # in each of these bands
# Standard errors by which a fault has to change some parameter: 95 % intervals then contain the
# true value in 80 % of all cases.
FAULT_SHIFT = 1.1


def known_noise(regressions: Sequence[Regression]) -> FloatArray | None:
    """Return the standard deviation of the known noise of each joint, (r,). [row unit]

    Returns:
        None where the noise of a regression is not known, or without any.
    """
    if not regressions or any(each.covariance is None for each in regressions):
        return None
    variances = [noise_variance(each) for each in regressions]
    return np.asarray(np.sqrt(np.mean(variances, axis=0)))


def noise_bounds(regressions: Sequence[Regression], estimate: Estimate) -> NoiseBounds | None:
    """Return the least and the most noise that each joint can have, (r,) each. [row unit]

    Without repetitions the residual above the band of the predicted efforts is noise, or
    faster than any error of the parameters. The densities S in parts of that band bound the
    noise inside the band of the motion, whether its spectrum falls or rises:

        least^2 = min S (inside + above),    most^2 = max S inside + power above.

    Returns:
        None where the bounds are not known.
    """
    known = known_noise(regressions)
    if known is not None:
        return known, known
    least = []
    most = []
    for regression in regressions:
        bounds = _noise_power_bounds(regression, estimate)
        if bounds is None:
            return None
        least.append(bounds[0])
        most.append(bounds[1])
    if not least:
        return None
    return np.sqrt(np.mean(least, axis=0)), np.sqrt(np.mean(most, axis=0))


def _noise_power_bounds(regression: Regression, estimate: Estimate) -> NoiseBounds | None:
    """Return the least and the most noise power of a log without repetitions, (r,) each.

    Returns:
        None if the motion fills the band.
    """
    predicted = estimate.predict(regression)
    valid = regression.valid
    valid_fraction = np.maximum(valid.mean(axis=0), TINY)
    residual = np.where(valid, regression.effort - predicted, 0.0) / np.sqrt(valid_fraction)
    segment = min(len(predicted), SPECTRUM_SEGMENT)
    _, predicted_power = power_density(predicted, segment)
    frequency, density = power_density(residual, segment)
    cumulative = np.cumsum(predicted_power, axis=0)
    in_motion_band = cumulative < HEARD * predicted_power.sum(axis=0)
    band_edge = int(in_motion_band.sum(axis=0).max()) + 1
    top = int(DECIMATION_EDGE * len(frequency))  # a decimated log has nothing above
    borders = np.geomspace(band_edge, max(top, band_edge), NOISE_BANDS + 1).astype(int)
    if np.diff(borders).min() < MIN_BAND_FREQUENCIES:
        return None
    densities = np.array([density[low:high].mean(axis=0) for low, high in pairwise(borders)])
    lowest = densities.min(axis=0)
    highest = densities.max(axis=0)
    least = lowest * top + np.minimum(density[top:], lowest).sum(axis=0)
    most = highest * band_edge + density[band_edge:].sum(axis=0)
    step = frequency[1]
    return least * step, most * step


def expected_error(
    regressions: Sequence[Regression],
    estimate: Estimate,
    noise: FloatArray | None,
) -> FloatArray:
    """Return the rms error to expect of predicting some logs, (r,). [row unit]

    sqrt(noise^2 + mean_t w_t^T C w_t), C the covariance of the estimate, w the equation of
    a joint: a motion that moves what the identification hardly excited is predicted worse,
    and that is no fault of model or machine.
    """
    variance = np.zeros(len(regressions[0].rows))
    n_valid = np.zeros(len(regressions[0].rows))
    for regression in regressions:
        known = [k for k, name in enumerate(estimate.parameters) if name in regression.parameters]
        W = regression.select([estimate.parameters[k] for k in known]).regressor
        C = estimate.covariance[np.ix_(known, known)]
        each = np.einsum("trp,pq,trq->tr", W, C, W)
        variance += (each * regression.valid).sum(axis=0)
        n_valid += regression.n_valid
    variance /= np.maximum(n_valid, 1)
    return np.sqrt(variance if noise is None else variance + noise**2)


def apply_rules(
    fitted: FittedLogs, validation: Validation, search: Standing | None
) -> list[Notice]:
    """Return the notices of all rules.

    Args:
        fitted: The estimate and the logs it comes from.
        validation: Of that estimate.
        search: Fault hypotheses scored on the residual; None if the logs are too short for
            that.
    """
    estimate = fitted.identification.estimate
    experiment = fitted.experiment
    held_out = fitted.held_out
    recordings = experiment.recordings
    held_out_recordings = () if held_out is None else held_out.recordings
    every = (*recordings, *held_out_recordings)
    notices = [
        *rules.warn_if_poorly_conditioned(estimate),
        *rules.warn_if_logs_disagree(estimate),
        *rules.warn_if_badly_fitted(estimate, noise_bounds(experiment.regressions, estimate)),
        *_prediction_notices(fitted, validation),
        *_misfit_notices(experiment, estimate),
        *_robot_file_notices(experiment, estimate),
        *rules.report_reused_logs(recordings, held_out_recordings),
        *_valid_sample_notices(experiment),
        *rules.warn_about_broken_channels(every),
        *warn_if_positions_jump(every),
    ]
    if search is not None:
        notices += warn_if_efforts_drift(search.evidence, recordings)
        notices += warn_if_a_fault_explains_the_residual(search, estimate)
    return notices


def _prediction_notices(fitted: FittedLogs, validation: Validation) -> list[Notice]:
    """Return the notices on the prediction of held-out logs."""
    if fitted.held_out is None:
        return rules.warn_if_badly_predicted(validation)
    estimate = fitted.identification.estimate
    regressions = fitted.held_out.regressions
    expected = expected_error(regressions, estimate, known_noise(regressions))
    return [
        *rules.warn_if_badly_predicted(validation, noise_bounds(regressions, estimate)),
        *rules.warn_if_held_out_error_is_higher(validation, fitted.estimate_same_filter, expected),
    ]


def _misfit_notices(experiment: Experiment, estimate: Estimate) -> list[Notice]:
    """Return the notices on residuals beyond the repeatability noise."""
    misfits = [rules.misfit(regression, estimate) for regression in experiment.regressions]
    known = [misfit for misfit in misfits if misfit is not None]
    return rules.warn_if_residual_exceeds_noise(known, estimate.rows)


def _robot_file_notices(experiment: Experiment, estimate: Estimate) -> list[Notice]:
    """Return the notices on values that contradict physics or the robot file."""
    base = experiment.base
    prior = prior_of(experiment.model, base)
    return [
        *report_negative_values(estimate, base, prior),
        *warn_if_far_from_robot_file(estimate, base, prior, experiment.gains),
    ]


def _valid_sample_notices(experiment: Experiment) -> list[Notice]:
    """Return the notices on joints with few valid samples."""
    n_valid = np.sum([regression.n_valid for regression in experiment.regressions], axis=0)
    samples = sum(len(regression) for regression in experiment.regressions)
    return rules.warn_if_few_samples_are_valid(experiment.regressions[0].rows, n_valid, samples)


def warn_if_positions_jump(recordings: Sequence[Recording]) -> list[Notice]:
    """Warn if a position jumps or is constant as no motor is: counts wrapped or lost, or frozen."""
    return [mistake.notice() for mistake in mistakes_of_jumps(recordings)[:1]]


def warn_if_efforts_drift(evidence: Evidence, recordings: Sequence[Recording]) -> list[Notice]:
    """Warn if an effort falls or grows from period to period: their mean describes no period."""
    fading = fading_efforts(evidence, recordings)
    if not fading:
        return []
    worst = max(fading, key=lambda mistake: abs(mistake.size[0]))
    return [
        Notice(
            rule="drift",
            level="warning",
            where=worst.place,
            text=worst.text,
            numbers={"change": worst.size[0]},
        )
    ]


def warn_if_a_fault_explains_the_residual(search: Standing, estimate: Estimate) -> list[Notice]:
    """Warn if a fault explains part of the residual beyond chance, and matters.

    It matters if it changes some parameter by more than a standard error, or the effort of
    a joint by more than 1 %.
    """
    std = dict(zip(estimate.parameters, estimate.std.tolist()))
    standard_error = np.array([std.get(name, np.inf) for name in search.evidence.base.names])
    for suspicion, fit in search.ranked():
        shift = np.zeros(len(standard_error))
        for column, magnitude in zip(suspicion.columns, fit.size):
            shift += search.scores.taken_in(column) * magnitude
        largest = float(np.max(np.abs(shift) / np.maximum(standard_error, 1e-300), initial=0.0))
        if largest < FAULT_SHIFT and search.effect(suspicion.columns, fit.size) < VISIBLE_FRACTION:
            continue
        text = words(suspicion, fit.size, fit.sigma, search.evidence.views[0])
        chance = search.chance(suspicion, fit)
        notice = Notice(
            rule="fault",
            level="warning",
            text=f"{text} (chance {chance:.0e}); it explains {100 * fit.share:.2g} % of the "
            f"residual and changes parameters by up to {largest:.1f} standard errors",
            numbers={
                "chance": chance,
                "fraction": fit.share,
                "change": largest,
            },
        )
        return [notice]
    return []


def fault_notices(diagnosis: Diagnosis) -> list[Notice]:
    """Return the faults of a diagnosis as notices.

    Logs that make sense only with a sign, a channel, a unit or a clock changed are errors,
    as the result is then wrong.
    """
    notices = []
    for mistake in diagnosis.mistakes:
        discrete = mistake.name in HYPOTHESES
        notices.append(mistake.notice("error" if discrete else "warning"))
    return notices


def judge(fitted: FittedLogs) -> tuple[list[Notice], Diagnosis | None]:
    """Return the notices of all rules and, if they warn, the diagnosis.

    There is no diagnosis where only the held-out log is missing, and none where the logs
    are too short to score faults on.
    """
    validation = fitted.identification.validation
    try:
        evidence = _evidence(fitted)
        search = Standing(evidence)
    except GoughError:
        return apply_rules(fitted, validation, None), None
    notices = apply_rules(fitted, validation, search)
    if all(notice.rule == "not validated" for notice in notices):
        return notices, None
    recordings = fitted.experiment.recordings
    jumps = mistakes_of_jumps(recordings)
    try:
        diagnosis = diagnose_evidence(evidence, recordings, found=jumps)
    except GoughError as error:
        failed = Notice(rule="diagnosis", level="info", text=f"no diagnosis: {error}")
        robot = fitted.experiment.model.mechanism.name
        return [*notices, failed], Diagnosis(robot=robot, notices=(failed,))
    return [*notices, *fault_notices(diagnosis), *diagnosis.notices], diagnosis


def _evidence(fitted: FittedLogs) -> Evidence:
    """Return the logs of a fit as the diagnosis needs them."""
    experiment = fitted.experiment
    held_out = fitted.held_out
    return evidence_of(
        experiment.model,
        experiment.base,
        fitted.identification.estimate,
        sources(experiment.processed, experiment.regressions),
        () if held_out is None else sources(held_out.processed, held_out.regressions),
        experiment.known,
    )
