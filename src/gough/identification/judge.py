"""The verdict of an identification: all rules on what it came from and what it was tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import GoughError
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.identification.diagnosis.diagnose import diagnose_evidence, fading_efforts, mistakes_of_jumps, words
from gough.identification.diagnosis.evidence import Evidence, evidence_of
from gough.identification.diagnosis.mistakes import Diagnosis
from gough.identification.diagnosis.search import Standing
from gough.identification.prior import judge_physics, judge_prior, prior_of
from gough.identification.validation import Validation
from gough.identification.verdict import (
    Remark,
    Verdict,
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
from gough.processing import Processed

MATTERS = 1.0  # sigmas that a mistake has to move some parameter by: intervals then hold visibly less than they say
VISIBLE = 0.01  # of the effort that it has to change, if it moves no parameter


def noise_of(parts: Sequence[Regression]) -> FloatArray | None:
    """Return the standard deviation of the rows' known noise, (r,); None where a part does not know it."""
    squares = []
    for part in parts:
        if part.covariance is None:
            return None
        diagonal = np.diagonal(part.covariance, axis1=-2, axis2=-1)
        squares.append(diagonal if diagonal.ndim == 1 else diagonal.mean(axis=0))
    return np.sqrt(np.mean(squares, axis=0)) if squares else None


def judge(model: Model, base: BaseParameters, estimate: Estimate, validation: Validation, *,
          parts: Sequence[Regression], held_out_parts: Sequence[Regression] = (),
          recordings: Sequence[Recording] = (), held_out: Sequence[Recording] = (),
          gains: Mapping[str, float] | None = None, standing: Standing | None = None) -> Verdict:
    """Return what all rules say.

    Args:
        model: The robot.
        base: Base parameters behind the estimate.
        estimate: What was identified.
        validation: Its prediction of held-out logs.
        parts: Regressions it came from, equations that count marked.
        held_out_parts: Regressions it was tested on.
        recordings, held_out: The logs themselves.
        gains: Drive gains used, by motor.
        standing: Usual mistakes scored on what is left, or None to leave them out.
    """
    noise, unseen = noise_of(parts), noise_of(held_out_parts)
    prior = prior_of(model, base)
    misfits = [found for found in (misfit(part, estimate) for part in parts) if found is not None]
    counts = sum(part.counts for part in parts)
    return Verdict(sentence=validation.verdict, remarks=(
        *judge_numerics(estimate), *judge_fit(estimate, noise), *judge_prediction(validation, unseen),
        *judge_transfer(validation, estimate, unseen), *judge_misfit(misfits, estimate.rows),
        *judge_physics(estimate, base, prior), *judge_prior(estimate, base, prior, gains),
        *judge_sameness(recordings, held_out), *judge_share(estimate.rows, np.asarray(counts), sum(map(len, parts))),
        *judge_data((*recordings, *held_out)), *judge_encoders((*recordings, *held_out)),
        *(() if standing is None else judge_drift(standing.evidence, recordings)),
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
        columns = standing.seen(suspicion)
        shift = np.sum([standing.scores.taken_in(c) * s for c, s in zip(columns, fitted.size)], axis=0)
        moved = float(np.max(np.abs(shift) / np.maximum(sigma, 1e-300), initial=0.0))
        if moved < MATTERS and standing.effect(columns, fitted.size) < VISIBLE:
            continue
        text = words(suspicion, fitted.size, fitted.sigma, standing.evidence)
        return (Remark(rule="direction", level="look", numbers={
            "chance": standing.chance(suspicion, fitted), "share": fitted.share, "moves": moved},
            message=f"{text} (chance {standing.chance(suspicion, fitted):.0e}); it explains "
                    f"{100 * fitted.share:.2g} % of what is left and moves parameters by up to {moved:.1f} sigma"),)
    return ()


def judged(model: Model, base: BaseParameters, estimate: Estimate, validation: Validation, *,
           processed: Sequence[Processed], parts: Sequence[Regression],
           held_out_processed: Sequence[Processed] = (), held_out_parts: Sequence[Regression] = (),
           recordings: Sequence[Recording] = (), held_out: Sequence[Recording] = (),
           gains: Mapping[str, float] | None = None,
           known: Mapping[str, float] | None = None) -> tuple[Verdict, Diagnosis | None]:
    """Return the verdict of an identification and, if it is not good, the diagnosis behind it.

    A diagnosis is not made where only the held-out log is missing, and not where the logs are too short to score
    mistakes on.

    Args:
        model, base, estimate, validation, parts, held_out_parts, recordings, held_out, gains: As in `judge`.
        processed, held_out_processed: The logs behind the regressions.
        known: Payload parameters that were known and taken out of the efforts, by name.
    """
    evidence: Evidence | None = None
    standing: Standing | None = None
    try:
        evidence = evidence_of(model, base, estimate, processed, parts, held_out_processed, held_out_parts, known)
        standing = Standing(evidence)
    except GoughError:
        evidence = None
    verdict = judge(model, base, estimate, validation, parts=parts, held_out_parts=held_out_parts,
                    recordings=recordings, held_out=held_out, gains=gains, standing=standing)
    spoken = [r for r in verdict.remarks if not (r.rule == "prediction" and validation.predicts == "not tested")]
    if not spoken or evidence is None:
        return verdict, None
    try:
        return verdict, diagnose_evidence(evidence, recordings, found=mistakes_of_jumps(recordings))
    except GoughError as error:
        return verdict, Diagnosis(robot=model.mechanism.name, notes=(f"no diagnosis: {error}",))
