"""The verdict on a fit: does the model predict, and is it possible? Does it agree with the file?

The first question is answered by data and physics alone and sets the
level. The second one is answered beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.errors import GoughError
from gough.core.notices import Notice
from gough.core.progress import portion
from gough.core.statistics import student_quantile
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.diagnosis import Diagnosis, NamedFault
from gough.identification.experiment import Experiment
from gough.identification.fit import FittedLogs
from gough.identification.validation import Validation, noise_excess, noise_variance
from gough.processing import ProcessedLog
from gough.verdict import rules
from gough.verdict.acceptance import MATERIAL_EFFORT_CHANGE
from gough.verdict.blocks import expected_squares
from gough.verdict.detectable import EXPLAINED_FRACTION, detection_limits, limits_notice
from gough.verdict.drift import drifting_efforts
from gough.verdict.evidence import Evidence, evidence_of, sample_numbers
from gough.verdict.exclusions import equations_at_speed, guarded
from gough.verdict.explanation import Explanation
from gough.verdict.fitted_model import fitted_model
from gough.verdict.naming import name_fault, without_other_causes
from gough.verdict.noise import mean_noise_power, noise_of_same_sensors, scatter_of_mean
from gough.verdict.odd_logs import MIN_LOGS_TO_COMPARE, log_errors, odd_logs
from gough.verdict.robot_file import (
    file_ratios,
    negative_value_notices,
    prior_of,
    robot_file_notices,
)
from gough.verdict.search import Search
from gough.verdict.stage import Stage
from gough.verdict.unnoticed import unnoticed_faults

# Change of an effort over its rms: if the fault that comes closest
# would change an effort by more, a model that does not know it may be
# wrong by as much as `ok` excludes.
DOUBTFUL_EFFORT_CHANGE = 0.05


def judge(fitted: FittedLogs) -> tuple[list[Notice], Diagnosis | None]:
    """Return the notices of all rules, and the faults that the data show.

    There is no diagnosis where the logs are too short to compare
    explanations on.
    """
    notices = prediction_notices(fitted)
    notices += possibility_notices(fitted.experiment, fitted.identification.estimate)
    notices += data_notices(fitted)
    if any(notice.rule in rules.BROKEN_CHANNEL_RULES for notice in notices):
        text = "faults were not looked for, because channels are broken"
        return [*notices, Notice(rule="diagnosis", level="info", text=text)], None
    try:
        suspicious = any(notice.rule in rules.MISFIT_RULES for notice in alarms(notices))
        diagnosis = diagnose_fit(fitted, thorough=suspicious)
    except GoughError as error:
        notices.append(
            Notice(rule="diagnosis", level="info", text=f"faults were not looked for: {error}")
        )
        return notices, None
    faults = [fault.notice() for fault in diagnosis.faults]
    return [*faults, *notices, *diagnosis.notices], diagnosis


def alarms(notices: Sequence[Notice]) -> list[Notice]:
    """Return the notices that are warnings or errors."""
    return [notice for notice in notices if notice.level != "info"]


def diagnose_fit(fitted: FittedLogs, *, thorough: bool = False) -> Diagnosis:
    """Return the faults that the logs of a fit show.

    Args:
        fitted: The fit and its logs.
        thorough: Try every fault, also if the error is within the
            noise.
    """
    evidence, processed = evidence_of_fit(fitted)
    return diagnose_evidence(evidence, drifting_efforts(processed), thorough=thorough)


def evidence_of_fit(fitted: FittedLogs) -> tuple[Evidence, list[ProcessedLog]]:
    """Return a fit and its logs, held-out ones too, as the search for faults needs them."""
    experiment = fitted.experiment
    held_out = fitted.held_out
    processed = list(experiment.processed)
    regressions = list(experiment.regressions)
    if held_out is not None:
        processed += held_out.processed
        regressions += held_out.regressions
    model = fitted_model(
        experiment.model,
        experiment.base,
        fitted.identification.estimate,
        regressions[0],
        experiment.known,
    )
    n_held_out = 0 if held_out is None else len(held_out.processed)
    return evidence_of(model, processed, regressions, n_held_out), processed


def diagnose_evidence(
    evidence: Evidence, before: Sequence[NamedFault] = (), *, thorough: bool = False
) -> Diagnosis:
    """Return the faults that some evidence shows.

    Args:
        evidence: The fitted model and its logs.
        before: Faults that the signals themselves show.
        thorough: Try every fault, also if the error is within the
            noise.
    """
    search = Search(evidence, thorough=thorough)
    with portion(0.0, 0.8):
        groups, stage = search.run()
    noise = _noise_at(stage)
    explained = {evidence.logs[each.logs[0]].name for each in search.from_periods}
    faults = [each for each in before if not explained.intersection(each.logs)]
    notices = []
    if _explain_the_error(groups, search.first, stage, noise):
        faults += [name_fault(group, evidence) for group in without_other_causes(groups)]
    else:
        notices += partial_notices(groups, search.first, stage)
    assert search.screen is not None
    trials = search.trials_of_all_faults
    limits = detection_limits(search.screen, trials, noise)
    named = {fault.name for fault in faults}
    unnoticed = unnoticed_faults(evidence, search.labels, search.trials)
    texts = [fault.text for fault in unnoticed if fault.name not in named]
    notices += odd_log_notices(search.first)
    notices += limits_notice(limits, search.faults, named, texts)
    above_noise = stage.error**2 - float(np.mean(noise**2))
    return Diagnosis(
        robot=evidence.model.mechanism.name,
        faults=tuple(faults),
        limits=limits,
        error=search.first.error,
        unexplained=float(np.sqrt(max(above_noise, 0.0))),
        notices=tuple(notices),
    )


def _noise_at(stage: Stage) -> FloatArray:
    """Return the most that noise can be of the error of each row, over the effort, (r,).

    One band above the motion is enough here: how much of an error is
    noise need not be known as well as for calling a model wrong.
    """
    power = stage.evidence.refitted().noise_power(bands=1)
    return errors_by_noise(stage, None if power is None else power.most)


def _explain_the_error(
    groups: Sequence[Sequence[Explanation]], first: Stage, last: Stage, noise: FloatArray
) -> bool:
    """Return whether accepted faults explain enough of the error of the logs that they are in.

    Args:
        groups: Accepted faults.
        first: The logs as they are.
        last: The logs with the faults corrected.
        noise: Error of each row that noise causes, over the effort,
            (r,).
    """
    scope = np.zeros(len(first.block_log), bool)
    for group in groups:
        scope |= first.scope(group[0].logs, group[0].segment)
    return explains_enough(first.row_errors(scope), last.row_errors(scope), noise)


def errors_by_noise(stage: Stage, power: FloatArray | None) -> FloatArray:
    """Return the rms error of each row that noise causes on blocks left out, over the effort, (r,).

    Noise of the blocks themselves and of the parameters that predict
    them: logs that hardly determine the model are predicted badly, and
    no fault has to explain that.

    Args:
        stage: The logs, faults corrected.
        power: Of the noise of each row, (r,); None if it is not known.
    """
    sums = stage.baseline.sums
    if power is None:
        return np.zeros(len(sums.effort_power))
    n_valid = np.maximum(sums.n_valid.sum(axis=0), 1)
    squares = expected_squares(sums, power) / n_valid
    return np.asarray(np.sqrt(squares / np.maximum(sums.effort_power, TINY)))


def explains_enough(before: FloatArray, after: FloatArray, noise: FloatArray) -> bool:
    """Return whether a fall of the errors explains most of what is above the noise, (r,) each.

    In all rows together, or in one whose error falls by what matters:
    another error of another joint does not make the fault of this one
    doubtful. What remains above the noise may also be too little to
    matter.
    """
    together = [np.sqrt(np.mean(each**2)) for each in (before, after, noise)]
    if _explains_most(*together):
        return True
    material = before**2 - after**2 >= MATERIAL_EFFORT_CHANGE**2
    for row in np.flatnonzero(material):
        if _explains_most(before[row], after[row], noise[row]):
            return True
    return False


def _explains_most(before: float, after: float, noise: float) -> bool:
    above = before**2 - min(noise, after, before) ** 2
    remaining = after**2 - min(noise, after) ** 2
    if above <= 0 or remaining <= MATERIAL_EFFORT_CHANGE**2:
        return True
    return bool(before**2 - after**2 >= EXPLAINED_FRACTION * above)


def largest_effort_change(recorded: Evidence, corrected: Evidence) -> float:
    """Return by how much faults changed an effort of a log, over its rms; infinite for a clock."""
    largest = 0.0
    for log, without_fault in zip(recorded.logs, corrected.logs):
        if log.effort.shape != without_fault.effort.shape:
            return float("inf")
        change = np.sqrt(np.mean((without_fault.effort - log.effort) ** 2, axis=0))
        usual = np.sqrt(np.mean(log.effort**2, axis=0))
        largest = max(largest, float((change / np.maximum(usual, TINY)).max(initial=0.0)))
    return largest


def partial_notices(
    groups: Sequence[Sequence[Explanation]], first: Stage, last: Stage
) -> list[Notice]:
    """Say that no known fault explains the error, and which one looks most like it.

    Nothing is said of faults whose correction does not lower the error
    over all joints: they predict some blocks better, but explain
    nothing.

    Args:
        groups: Accepted faults, the nearest first.
        first: The logs as they are.
        last: The logs with the faults corrected.
    """
    if not groups or last.error >= first.error:
        return []
    before = first.error
    after = last.error
    recorded = first.evidence
    corrected = last.evidence
    doubtful = largest_effort_change(recorded, corrected) > DOUBTFUL_EFFORT_CHANGE
    best = name_fault(groups[0], recorded)
    notice = Notice(
        rule="unexplained",
        level="warning" if doubtful else "info",
        where=best.place,
        text="no known fault explains the error of the model; the nearest explains too little: "
        f"{best.text} (error {100 * before:.3g} to {100 * after:.3g} % of the effort)",
        advice="look for what the model lacks there",
        numbers={"before": before, "after": after},
    )
    return [notice]


def odd_log_notices(stage: Stage) -> list[Notice]:
    """Warn about logs that are predicted much worse than the others."""
    if len(stage.evidence.logs) < MIN_LOGS_TO_COMPARE:
        return []
    errors = log_errors(stage)
    notices = []
    for k in odd_logs(errors):
        own = float(np.exp(errors[k]))
        usual = float(np.exp(np.nanmedian(errors)))
        notices.append(
            Notice(
                rule="odd log",
                level="warning",
                where=stage.evidence.logs[k].name,
                text=f"unlike the others: fitted without it, it is predicted to {100 * own:.3g} % "
                f"of the effort, the others to {100 * usual:.3g} %",
                advice="identify without it, or find out what differs in it",
                numbers={"error": own, "usual": usual},
            )
        )
    return notices


def prediction_notices(fitted: FittedLogs) -> list[Notice]:
    """Return the notices on how well the model fits and predicts."""
    estimate = fitted.identification.estimate
    validation = fitted.identification.validation
    regressions = fitted.experiment.regressions
    noise = mean_noise_power(regressions, [estimate.predict(each) for each in regressions])
    fit_rms, fit_relative = errors_at_speed(fitted.experiment, estimate)
    notices = [
        *rules.warn_if_poorly_conditioned(estimate),
        *rules.warn_if_logs_disagree(estimate),
        *rules.warn_if_badly_fitted(estimate.rows, fit_rms, fit_relative, noise),
        *_misfit_notices(fitted.experiment, estimate),
    ]
    if fitted.held_out is None:
        return [*notices, *rules.warn_if_badly_predicted(validation, None)]
    held_out = fitted.held_out.regressions
    noise = mean_noise_power(
        held_out,
        [estimate.predict(each) for each in held_out],
        noise_of_same_sensors(regressions),
    )
    explained = explained_by_standard_errors(held_out, estimate, rounding_inflation(regressions))
    at_speed = validation_at_speed(fitted.held_out, estimate, validation)
    notices += rules.warn_if_badly_predicted(at_speed, noise, explained)
    notices += rules.report_errors_at_low_speed(validation, at_speed, noise)
    averaged = regressions[0].covariance is not None
    if noise is None and averaged:  # single samples are noisier than the mean of periods
        return notices
    expected = explained
    if noise is not None:
        expected = expected + noise_excess(held_out) * noise.most
    return notices + rules.warn_if_held_out_error_is_higher(
        at_speed,
        fitted.estimate_same_filter,
        np.sqrt(expected),
    )


def validation_at_speed(
    held_out: Experiment, estimate: Estimate, validation: Validation
) -> Validation:
    """Return a validation on the equations in which no joint is near a velocity reversal.

    A joint that creeps does not have all of its Coulomb friction yet. A
    few such samples can be most of the error, and say nothing of the
    rest of the model.
    """
    rms, relative = errors_at_speed(held_out, estimate)
    return replace(validation, rms=rms, relative=relative)


def errors_at_speed(experiment: Experiment, estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Return the rms error of each row where no joint creeps, and over its rms effort, (r,) each.

    Args:
        experiment: The logs.
        estimate: The model.
    """
    squares = np.zeros(len(estimate.rows))
    power = np.zeros(len(estimate.rows))
    n_valid = np.zeros(len(estimate.rows))
    for log, regression in zip(experiment.processed, experiment.regressions):
        mask = valid_at_speed(experiment.model, log, regression)
        residual = regression.effort - estimate.predict(regression)
        squares += (residual**2 * mask).sum(axis=0)
        power += (regression.effort**2 * mask).sum(axis=0)
        n_valid += mask.sum(axis=0)
    rms = np.sqrt(squares / np.maximum(n_valid, 1))
    relative = np.sqrt(squares / np.maximum(power, TINY))
    return rms, relative


def valid_at_speed(model: Model, log: ProcessedLog, regression: Regression) -> BoolArray:
    """Return the valid equations of a log in which no joint creeps, (t, r)."""
    samples = sample_numbers(log, regression)
    return guarded(regression.valid, equations_at_speed(model, log.motion)[samples])


def rounding_inflation(regressions: Sequence[Regression]) -> float:
    """Return how much larger the noise of averaged periods may be than their scatter shows.

    Rounding that is the same in all periods is noise, but does not
    scatter. One without it.
    """
    largest = 1.0
    for regression in regressions:
        known = noise_variance(regression)
        scatter = scatter_of_mean(regression, known)
        ratio = np.divide(known, scatter, out=np.ones_like(known), where=scatter > 0)
        largest = max(largest, float(np.sqrt(ratio.max())))
    return largest


def explained_by_standard_errors(
    regressions: Sequence[Regression], estimate: Estimate, inflation: float = 1.0
) -> FloatArray:
    """Return the largest mean square error that standard errors explain, (r,). [row unit squared]

    As if one combination of parameters caused all of it: Student's
    quantile for the false alarms of all rows, times the standard error
    of the prediction. Standard errors from few repetitions explain
    more.

    Args:
        regressions: Of the logs that are predicted.
        estimate: With standard errors and their degrees of freedom.
        inflation: As of `prediction_variance`.
    """
    chance = rules.FALSE_ALARM_CHANCE / len(regressions[0].rows)
    quantile = student_quantile(1 - chance / 2, estimate.degrees_of_freedom.min())
    return np.asarray(quantile**2 * prediction_variance(regressions, estimate, inflation))


def prediction_variance(
    regressions: Sequence[Regression], estimate: Estimate, inflation: float = 1.0
) -> FloatArray:
    """Return the variance of predicting some logs, (r,). [row unit squared]

    mean_t w_t^T C w_t, C the covariance of the estimate that noise
    causes, w the equation of a joint: a motion that moves what the
    identification hardly excited is predicted worse, and that is no
    fault of model or machine. Standard errors that were widened because
    the model is wrong must not explain that it predicts badly.

    Args:
        regressions: Of the logs.
        estimate: With standard errors of noise, and those widened by
            errors of the model.
        inflation: Of the standard errors of noise, as far as they were
            widened.
    """
    widening = estimate.std / np.maximum(estimate.noise_std, TINY)
    widening = np.where(estimate.std > 0, widening, 1.0)  # not of parameters with a stated value
    widening = np.where(widening > 1, widening / np.minimum(widening, inflation), widening)
    noise_covariance = estimate.covariance / np.outer(widening, widening)
    variance = np.zeros(len(regressions[0].rows))
    n_valid = np.zeros(len(regressions[0].rows))
    for regression in regressions:
        known = [k for k, name in enumerate(estimate.parameters) if name in regression.parameters]
        W = regression.select([estimate.parameters[k] for k in known]).regressor
        C = noise_covariance[np.ix_(known, known)]
        each = np.einsum("trp,pq,trq->tr", W, C, W, optimize=True)
        variance += (each * regression.valid).sum(axis=0)
        n_valid += regression.n_valid
    return np.asarray(variance / np.maximum(n_valid, 1))


def _misfit_notices(experiment: Experiment, estimate: Estimate) -> list[Notice]:
    """Return the notices on residuals beyond the repeatability noise, where no joint creeps."""
    misfits = []
    for log, regression in zip(experiment.processed, experiment.regressions):
        mask = valid_at_speed(experiment.model, log, regression)
        misfits.append(rules.misfit(replace(regression, mask=mask), estimate))
    known = [misfit for misfit in misfits if misfit is not None]
    return rules.warn_if_residual_exceeds_noise(known, estimate.rows)


def possibility_notices(experiment: Experiment, estimate: Estimate) -> list[Notice]:
    """Return the notices on values that contradict physics, and on the robot file."""
    base = experiment.base
    prior = prior_of(experiment.model, base)
    return [
        *negative_value_notices(estimate, base, prior, experiment.problem, experiment.model),
        *robot_file_notices(file_ratios(estimate, base, prior)),
    ]


def data_notices(fitted: FittedLogs) -> list[Notice]:
    """Return the notices on the logs themselves."""
    recordings = fitted.experiment.recordings
    held_out = () if fitted.held_out is None else fitted.held_out.recordings
    experiment = fitted.experiment
    n_valid = np.sum([each.n_valid for each in experiment.regressions], axis=0)
    return [
        *rules.report_reused_logs(recordings, held_out),
        *rules.warn_if_log_is_repeated(recordings),
        *rules.warn_if_window_excludes_most(
            experiment.regressions[0].rows, n_valid, samples_without_window(experiment)
        ),
        *rules.warn_about_broken_channels((*recordings, *held_out)),
    ]


def samples_without_window(experiment: Experiment) -> IntArray:
    """Return how many equations of each row would be valid without an exclusion window, (r,)."""
    without_window = replace(experiment.processing, window=0.0)
    n_samples = np.zeros(len(experiment.model.rows), np.int64)
    for log, regression in zip(experiment.processed, experiment.regressions):
        fraction = len(regression) / max(len(log), 1)
        valid = log.valid_at(without_window)
        n_samples += np.round(fraction * valid.sum(axis=0)).astype(np.int64)
    return n_samples
