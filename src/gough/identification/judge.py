"""The verdict of an identification: all rules on what it came from and what it was tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.signal import welch

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import GoughError
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.identification.diagnosis.diagnose import diagnose_evidence, fading_efforts
from gough.identification.diagnosis.directions import words
from gough.identification.diagnosis.evidence import HEARD, Evidence, evidence_of, sources
from gough.identification.diagnosis.hypotheses import HYPOTHESES
from gough.identification.diagnosis.mistakes import Diagnosis
from gough.identification.diagnosis.search import Standing
from gough.identification.diagnosis.steps import mistakes_of_jumps
from gough.identification.experiment import Experiment
from gough.identification.prior import judge_physics, judge_prior, prior_of
from gough.identification.validation import VISIBLE, Validation, noise_variance, without_known
from gough.identification.verdict import (
    Bounds,
    Remark,
    Verdict,
    judge_carrying,
    judge_data,
    judge_fit,
    judge_misfit,
    judge_numerics,
    judge_prediction,
    judge_sameness,
    judge_share,
    judge_transfer,
    misfit,
)
from gough.logs.recording import Recording
from gough.processing.settings import EDGE

LENGTH = 1024  # samples of a spectrum: enough to tell the band of a motion
BANDS, FEWEST = 4, 4  # parts of the band beyond it, and frequencies in each
MATTERS = 1.1  # sigmas that a mistake has to move some parameter by: 95 % intervals then hold in 80 %


def noise_of(parts: Sequence[Regression]) -> FloatArray | None:
    """Return the standard deviation of the rows' known noise, (r,); None where a part does not know it."""
    if not parts or any(part.covariance is None for part in parts):
        return None
    return np.asarray(np.sqrt(np.mean([noise_variance(part) for part in parts], axis=0)))


def noise_between(parts: Sequence[Regression], estimate: Estimate) -> Bounds | None:
    """Return the least and the most noise that the rows can have, (r,) each; None where nothing tells.

    Without repetitions: beyond the band that holds the predicted efforts, what the model leaves is noise, or faster
    than any error of its parameters. Densities S of parts of that band say what noise there is inside, red or blue,

        least^2 = min S (inside + beyond),    most^2 = max S inside + power beyond.
    """
    known = noise_of(parts)
    if known is not None or not parts:
        return None if known is None else (known, known)
    found = [bounds for part in parts if (bounds := _beyond_motion(part, estimate)) is not None]
    return None if len(found) < len(parts) else tuple(np.sqrt(np.mean(found, axis=0)))


def _beyond_motion(part: Regression, estimate: Estimate) -> Bounds | None:
    """Return least and most noise power of a log without repetitions, (r,) each; None if its motion fills the band."""
    said, counts = estimate.predict(part), part.counting
    left = np.where(counts, part.effort - said, 0.0) / np.sqrt(np.maximum(counts.mean(axis=0), TINY))
    (_, motion), (at, density) = (welch(x, nperseg=min(len(x), LENGTH), axis=0) for x in (said, left))
    inside = int((np.cumsum(motion, axis=0) < HEARD * motion.sum(axis=0)).sum(axis=0).max()) + 1
    top = int(EDGE * len(at))  # a decimated log has nothing beyond
    borders = np.geomspace(inside, max(top, inside), BANDS + 1).astype(int)
    if np.diff(borders).min() < FEWEST:
        return None
    each = np.array([density[a:b].mean(axis=0) for a, b in pairwise(borders)])
    above = np.minimum(density[top:], each.min(axis=0)).sum(axis=0)
    beyond = density[inside:].sum(axis=0)
    return (each.min(axis=0) * top + above) * at[1], (each.max(axis=0) * inside + beyond) * at[1]


def expected_error(parts: Sequence[Regression], estimate: Estimate, noise: FloatArray | None) -> FloatArray:
    """Return the rms error to expect of predicting some logs: their noise, and what sigmas allow, (r,). [row unit]

    sqrt(noise^2 + mean_t w_t^T C w_t), C the covariance of the estimate, w a row's equation: a motion that moves what
    the identification hardly saw is predicted worse, and that is no fault of model or machine.
    """
    square, count = np.zeros(len(parts[0].rows)), np.zeros(len(parts[0].rows))
    for part in parts:
        names = [name for name in estimate.parameters if name in part.parameters]
        own = [estimate.parameters.index(name) for name in names]
        W = part.select(names).regressor
        counts = part.counting
        square += (np.einsum("trp,pq,trq->tr", W, estimate.covariance[np.ix_(own, own)], W) * counts).sum(axis=0)
        count += counts.sum(axis=0)
    known = np.zeros(len(square)) if noise is None else noise
    return np.sqrt(known**2 + square / np.maximum(count, 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """An estimate and all it has to answer for.

    Args:
        base: Base parameters behind the estimate.
        estimate: What was identified.
        alike: The same, with what it leaves of its logs processed as the held-out ones.
        validation: Its prediction of held-out logs.
        experiment: The logs it was identified from.
        unseen: Held-out logs, if there are any.
        recordings, held_out: Both as recorded.
        known: Payload parameters that were known and taken out of the efforts, by name.
    """

    model: Model
    base: BaseParameters
    estimate: Estimate
    alike: Estimate
    validation: Validation
    experiment: Experiment
    unseen: Experiment | None = None
    recordings: Sequence[Recording] = ()
    held_out: Sequence[Recording] = ()
    known: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def parts(self) -> list[Regression]:
        """Regressions it was identified from, without what was known."""
        return [without_known(part, self.known) for part in self.experiment.parts]

    @cached_property
    def unseen_parts(self) -> list[Regression]:
        """Regressions it was tested on, likewise."""
        return [] if self.unseen is None else [without_known(part, self.known) for part in self.unseen.parts]

    @cached_property
    def evidence(self) -> Evidence:
        """The logs as a diagnosis looks at them."""
        unseen = () if self.unseen is None else sources(self.unseen.processed, self.unseen_parts)
        return evidence_of(self.model, self.base, self.estimate, sources(self.experiment.processed, self.parts),
                           unseen, self.known)


def judge(trial: Trial, standing: Standing | None = None) -> Verdict:
    """Return what all rules say.

    Args:
        standing: Usual mistakes scored on what is left, or None to leave them out.
    """
    estimate, validation, parts = trial.estimate, trial.validation, trial.parts
    unseen = noise_of(trial.unseen_parts)
    prior = prior_of(trial.model, trial.base)
    misfits = [found for found in (misfit(part, estimate) for part in parts) if found is not None]
    counts = np.sum([part.counts for part in parts], axis=0)
    every = (*trial.recordings, *trial.held_out)
    return Verdict(sentence=validation.verdict, remarks=(
        *judge_numerics(estimate), *judge_carrying(estimate), *judge_fit(estimate, noise_between(parts, estimate)),
        *judge_prediction(validation, noise_between(trial.unseen_parts, estimate)),
        *(judge_transfer(validation, trial.alike, expected_error(trial.unseen_parts, estimate, unseen))
          if trial.unseen_parts else ()), *judge_misfit(misfits, estimate.rows),
        *judge_physics(estimate, trial.base, prior), *judge_prior(estimate, trial.base, prior, trial.experiment.gains),
        *judge_sameness(trial.recordings, trial.held_out), *judge_share(estimate.rows, counts, sum(map(len, parts))),
        *judge_data(every), *judge_encoders(every),
        *(() if standing is None else judge_drift(standing.evidence, trial.recordings)),
        *(() if standing is None else judge_directions(standing, estimate))))


def judge_encoders(recordings: Sequence[Recording]) -> tuple[Remark, ...]:
    """Speak if a position jumps or stands still as no motor does: counts wrapped or lost, a channel that froze."""
    return tuple(Remark(rule="data", level="look", message=f"{mistake.text}; {mistake.advice}")
                 for mistake in mistakes_of_jumps(recordings))[:1]


def judge_drift(evidence: Evidence, recordings: Sequence[Recording]) -> tuple[Remark, ...]:
    """Speak if an effort fades or grows from period to period: the mean of all periods is then no single machine."""
    found = fading_efforts(evidence, recordings)
    if not found:
        return ()
    worst = max(found, key=lambda mistake: abs(mistake.size[0]))
    return (Remark(rule="drift", level="look", numbers={"change": worst.size[0]}, message=worst.text),)


def judge_directions(standing: Standing, estimate: Estimate) -> tuple[Remark, ...]:
    """Speak if a usual mistake explains part of what is left beyond chance, and matters.

    It matters if it moves some parameter by more than a sigma, or the effort of a row by more than 1 %.
    """
    std = {name: float(s) for name, s in zip(estimate.parameters, estimate.std)}
    sigma = np.array([std.get(name, np.inf) for name in standing.evidence.base.names])
    for suspicion, fitted in standing.ranked():
        columns = suspicion.columns
        shift = np.sum([standing.scores.taken_in(c) * s for c, s in zip(columns, fitted.size)], axis=0)
        moved = float(np.max(np.abs(shift) / np.maximum(sigma, 1e-300), initial=0.0))
        if moved < MATTERS and standing.effect(columns, fitted.size) < VISIBLE:
            continue
        text = words(suspicion, fitted.size, fitted.sigma, standing.evidence.views[0])
        return (Remark(rule="direction", level="look", numbers={
            "chance": standing.chance(suspicion, fitted), "share": fitted.share, "moves": moved},
            message=f"{text} (chance {standing.chance(suspicion, fitted):.0e}); it explains "
                    f"{100 * fitted.share:.2g} % of what is left and moves parameters by up to {moved:.1f} sigma"),)
    return ()


def judged(trial: Trial) -> tuple[Verdict, Diagnosis | None]:
    """Return the verdict of an identification and, if it is not good, the diagnosis behind it.

    A diagnosis is not made where only the held-out log is missing, and not where the logs are too short to score
    mistakes on.
    """
    try:
        standing = Standing(trial.evidence)
    except GoughError:
        return judge(trial), None
    verdict = judge(trial, standing)
    if all(r.rule == "prediction" and trial.validation.predicts == "not tested" for r in verdict.remarks):
        return verdict, None
    try:
        found = diagnose_evidence(trial.evidence, trial.recordings, found=mistakes_of_jumps(trial.recordings))
    except GoughError as error:
        return verdict, Diagnosis(robot=trial.model.mechanism.name, notes=(f"no diagnosis: {error}",))
    return replace(verdict, remarks=(*verdict.remarks, *judge_hypotheses(found))), found


def judge_hypotheses(diagnosis: Diagnosis) -> tuple[Remark, ...]:
    """Speak if logs make sense only with a sign, a channel, a unit or a clock changed: the result is then wrong."""
    return tuple(Remark(rule="mistake", level="wrong", message=mistake.sentence) for mistake in diagnosis.mistakes
                 if mistake.name in HYPOTHESES)
