"""The verdict of an identification: all rules on what it came from and what it was tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import GoughError
from gough.core.notices import Remark, Remarks, Verdict
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.identification.diagnosis import Diagnosis
from gough.identification.experiment import Experiment
from gough.identification.fit import FittedLogs
from gough.identification.validation import VISIBLE, Validation, noise_variance
from gough.logs.recording import Recording
from gough.processing.settings import EDGE
from gough.verdict import rules
from gough.verdict.diagnosis.diagnose import diagnose_evidence, fading_efforts
from gough.verdict.diagnosis.directions import words
from gough.verdict.diagnosis.evidence import HEARD, Evidence, evidence_of
from gough.verdict.diagnosis.hypotheses import HYPOTHESES
from gough.verdict.diagnosis.search import Standing
from gough.verdict.diagnosis.steps import mistakes_of_jumps
from gough.verdict.diagnosis.track import sources
from gough.verdict.robot_file import judge_physics, judge_prior, prior_of
from gough.verdict.rules import Bounds

LENGTH = 1024  # samples of a spectrum: enough to tell the band of a motion
BANDS, FEWEST = 4, 4  # parts of the band beyond it, and frequencies in each
# sigmas that a mistake has to move some parameter by: 95 % intervals then hold in 80 %
MATTERS = 1.1


def noise_of(parts: Sequence[Regression]) -> FloatArray | None:
    """Return the standard deviation of the rows' known noise, (r,); None where a part does not know
    it.
    """
    if not parts or any(part.covariance is None for part in parts):
        return None
    return np.asarray(np.sqrt(np.mean([noise_variance(part) for part in parts], axis=0)))


def noise_between(parts: Sequence[Regression], estimate: Estimate) -> Bounds | None:
    """Return the least and the most noise that the rows can have, (r,) each; None where nothing
    tells.

    Without repetitions: beyond the band that holds the predicted efforts, what the model leaves is
    noise, or faster than any error of its parameters. Densities S of parts of that band say what
    noise there is inside, red or blue,

        least^2 = min S (inside + beyond),    most^2 = max S inside + power beyond.
    """
    known = noise_of(parts)
    if known is not None:
        return known, known
    found = [_beyond_motion(part, estimate) for part in parts]
    return None if not parts or None in found else tuple(np.sqrt(np.mean(np.array(found), axis=0)))


def _beyond_motion(part: Regression, estimate: Estimate) -> Bounds | None:
    """Return least and most noise power of a log without repetitions, (r,) each; None if its motion
    fills the band.
    """
    from scipy.signal import welch  # here: it takes long to import

    said, counts = estimate.predict(part), part.valid
    left = np.where(counts, part.effort - said, 0.0) / np.sqrt(
        np.maximum(counts.mean(axis=0), TINY)
    )
    (_, motion), (at, density) = (
        welch(x, nperseg=min(len(x), LENGTH), axis=0) for x in (said, left)
    )
    inside = int((np.cumsum(motion, axis=0) < HEARD * motion.sum(axis=0)).sum(axis=0).max()) + 1
    top = int(EDGE * len(at))  # a decimated log has nothing beyond
    borders = np.geomspace(inside, max(top, inside), BANDS + 1).astype(int)
    if np.diff(borders).min() < FEWEST:
        return None
    each = np.array([density[a:b].mean(axis=0) for a, b in pairwise(borders)])
    above = np.minimum(density[top:], each.min(axis=0)).sum(axis=0)
    beyond = density[inside:].sum(axis=0)
    return (each.min(axis=0) * top + above) * at[1], (each.max(axis=0) * inside + beyond) * at[1]


def expected_error(
    parts: Sequence[Regression], estimate: Estimate, noise: FloatArray | None
) -> FloatArray:
    """Return the rms error to expect of predicting some logs: their noise, and what sigmas allow,
    (r,). [row unit]

    sqrt(noise^2 + mean_t w_t^T C w_t), C the covariance of the estimate, w a row's equation: a
    motion that moves what the identification hardly saw is predicted worse, and that is no fault of
    model or machine.
    """
    square, count = np.zeros(len(parts[0].rows)), np.zeros(len(parts[0].rows))
    for part in parts:
        own = [k for k, name in enumerate(estimate.parameters) if name in part.parameters]
        W, C = (
            part.select([estimate.parameters[k] for k in own]).regressor,
            estimate.covariance[np.ix_(own, own)],
        )
        square += (np.einsum("trp,pq,trq->tr", W, C, W) * part.valid).sum(axis=0)
        count += part.n_valid
    return np.sqrt((0.0 if noise is None else noise) ** 2 + square / np.maximum(count, 1))


def apply_rules(
    estimate: Estimate,
    alike: Estimate,
    validation: Validation,
    experiment: Experiment,
    unseen: Experiment | None,
    standing: Standing | None,
) -> Verdict:
    """Return what all rules say; those of usual mistakes only if these were scored on what is left.

    `alike` is the estimate with what it leaves of its logs processed as the held-out ones.
    """
    parts, others = experiment.parts, () if unseen is None else unseen.parts
    held_out = () if unseen is None else unseen.recordings
    every = (*experiment.recordings, *held_out)
    prior = prior_of(experiment.model, experiment.base)
    misfits = [found for part in parts if (found := rules.misfit(part, estimate)) is not None]
    counts = np.sum([part.n_valid for part in parts], axis=0)
    remarks = (
        *rules.judge_numerics(estimate),
        *rules.judge_carrying(estimate),
        *rules.judge_fit(estimate, noise_between(parts, estimate)),
        *rules.judge_prediction(validation, noise_between(others, estimate)),
        *(
            ()
            if unseen is None
            else rules.judge_transfer(
                validation, alike, expected_error(others, estimate, noise_of(others))
            )
        ),
        *rules.judge_misfit(misfits, estimate.rows),
        *judge_physics(estimate, experiment.base, prior),
        *judge_prior(estimate, experiment.base, prior, experiment.gains),
        *rules.judge_sameness(experiment.recordings, held_out),
        *rules.judge_share(estimate.rows, counts, sum(map(len, parts))),
        *rules.judge_data(every),
        *judge_encoders(every),
        *(
            ()
            if standing is None
            else (
                *judge_drift(standing.evidence, experiment.recordings),
                *judge_directions(standing, estimate),
            )
        ),
    )
    return Verdict(sentence=validation.verdict, remarks=remarks)


def judge_encoders(recordings: Sequence[Recording]) -> Remarks:
    """Speak if a position jumps or stands still as no motor does: counts wrapped or lost, a channel
    that froze.
    """
    return tuple(
        Remark("data", "look", f"{mistake.text}; {mistake.advice}")
        for mistake in mistakes_of_jumps(recordings)[:1]
    )


def judge_drift(evidence: Evidence, recordings: Sequence[Recording]) -> Remarks:
    """Speak if an effort fades or grows from period to period: the mean of all periods is then no
    single machine.
    """
    found = sorted(fading_efforts(evidence, recordings), key=lambda mistake: -abs(mistake.size[0]))
    return tuple(
        Remark("drift", "look", worst.text, {"change": worst.size[0]}) for worst in found[:1]
    )


def judge_directions(standing: Standing, estimate: Estimate) -> Remarks:
    """Speak if a usual mistake explains part of what is left beyond chance, and matters.

    It matters if it moves some parameter by more than a sigma, or the effort of a row by more than
    1 %.
    """
    std = dict(zip(estimate.parameters, estimate.std.tolist()))
    sigma = np.array([std.get(name, np.inf) for name in standing.evidence.base.names])
    for suspicion, fitted in standing.ranked():
        columns = suspicion.columns
        shift = np.sum(
            [standing.scores.taken_in(c) * s for c, s in zip(columns, fitted.size)], axis=0
        )
        moved = float(np.max(np.abs(shift) / np.maximum(sigma, 1e-300), initial=0.0))
        if moved < MATTERS and standing.effect(columns, fitted.size) < VISIBLE:
            continue
        text = words(suspicion, fitted.size, fitted.sigma, standing.evidence.views[0])
        chance = standing.chance(suspicion, fitted)
        return (
            Remark(
                "direction",
                "look",
                f"{text} (chance {chance:.0e}); it explains {100 * fitted.share:.2g} % of "
                f"what is left and moves parameters by up to {moved:.1f} sigma",
                {"chance": chance, "share": fitted.share, "moves": moved},
            ),
        )
    return ()


def judge_hypotheses(diagnosis: Diagnosis) -> Remarks:
    """Speak if logs make sense only with a sign, a channel, a unit or a clock changed: the result
    is then wrong.
    """
    return tuple(
        Remark("mistake", "wrong", mistake.sentence)
        for mistake in diagnosis.mistakes
        if mistake.name in HYPOTHESES
    )


def judge(fitted: FittedLogs) -> tuple[Verdict, Diagnosis | None]:
    """Return the verdict of a fit and, if it is not good, the diagnosis behind it.

    A diagnosis is not made where only the held-out log is missing, and not where the logs are too
    short to score mistakes on.
    """
    estimate = fitted.identification.estimate
    validation = fitted.identification.validation
    alike, experiment, unseen = fitted.estimate_same_filter, fitted.experiment, fitted.held_out
    model, others = (
        experiment.model,
        () if unseen is None else sources(unseen.processed, unseen.parts),
    )
    try:
        evidence = evidence_of(
            model,
            experiment.base,
            estimate,
            sources(experiment.processed, experiment.parts),
            others,
            experiment.known,
        )
        standing = Standing(evidence)
    except GoughError:
        return apply_rules(estimate, alike, validation, experiment, unseen, None), None
    verdict = apply_rules(estimate, alike, validation, experiment, unseen, standing)
    if all(r.rule == "prediction" and unseen is None for r in verdict.remarks):
        return verdict, None
    try:
        found = diagnose_evidence(
            evidence, experiment.recordings, found=mistakes_of_jumps(experiment.recordings)
        )
    except GoughError as error:
        return verdict, Diagnosis(robot=model.mechanism.name, notes=(f"no diagnosis: {error}",))
    return replace(verdict, remarks=(*verdict.remarks, *judge_hypotheses(found))), found
