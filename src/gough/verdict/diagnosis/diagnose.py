"""What is wrong with the logs or the robot file, where, by how much, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import GoughError, InvalidInput
from gough.core.notices import Notice
from gough.core.options import (
    Settings,
    merge_settings,
    nested,
    option,
    with_settings,
)
from gough.core.statistics import normal_quantile
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.fitting.scores import PROBABLE
from gough.identification.diagnosis import (
    HELD_OUT,
    LEFT_OUT,
    Diagnosis,
    Limit,
    Mistake,
)
from gough.identification.experiment import prepare, prepare_held_out
from gough.identification.validation import FAIR_ERROR, GOOD_ERROR
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.verdict.diagnosis.directions import Suspicion, suspicions_of, words
from gough.verdict.diagnosis.evidence import (
    Evidence,
    View,
    corrected,
    evidence_of,
    thinned,
)
from gough.verdict.diagnosis.hypotheses import (
    BETTER,
    Hypothesis,
    best_hypothesis,
    hypotheses,
    may_close,
    try_out,
)
from gough.verdict.diagnosis.search import Standing, Step, explains, search
from gough.verdict.diagnosis.steps import (
    DOUBT,
    find_fading,
    find_jumps,
    mistakes_of_jumps,
    without_jumps,
)
from gough.verdict.diagnosis.track import Track, sources

POWER = 1.64  # sigmas above the threshold that a mistake needs to be found in 95 of 100 cases
LOAD = "unmentioned load"
UNLIMITED = (
    LOAD,
    "fading effort",
)  # found by comparing logs and periods, not by a size within one


def _turned(view: View, track: Track) -> tuple[float, ...]:
    """Return the gravity of a corrected track, if it is another one."""
    return (
        () if np.array_equal(track.gravity, view.track.gravity) else tuple(track.gravity.tolist())
    )


def _continuous(step: Step, view: View, **common: Any) -> Mistake:
    direction, place, fitted = (
        step.suspicion.direction,
        step.suspicion.place,
        step.fitted,
    )
    shown = (fitted.size != 0) | (
        not step.column
    )  # what the motion does not show of a load has no size
    return Mistake(
        name=direction.name,
        place=place,
        size=tuple(fitted.size[shown].tolist()),
        sigma=tuple(fitted.sigma[shown].tolist()),
        unit=direction.unit_at(view, place),
        text=words(step.suspicion, fitted.size, fitted.sigma, view),
        advice=direction.advice_at(view, place, fitted.size),
        before=step.before,
        after=step.after,
        alike=tuple(dict.fromkeys(f"{s.direction.name} of {s.place}" for s in step.alike)),
        share=fitted.share,
        gravity=_turned(view, step.suspicion.undo(view.track, view, fitted.size)),
        **common,
    )


def _discrete(hypothesis: Hypothesis, **common: Any) -> Mistake:
    size = () if hypothesis.factor is None else (float(hypothesis.factor),)
    return Mistake(
        name=hypothesis.name,
        place=hypothesis.place,
        size=size,
        sigma=(hypothesis.sigma,) * len(size),
        unit="times" if size else "",
        text=hypothesis.text,
        advice=hypothesis.advice,
        **common,
    )


def limits_of(standing: Standing, *, white: bool = False) -> tuple[Limit, ...]:
    """Return the smallest size of every direction that these logs would show in 95 of 100 cases.

    (z + 1.64) sigma with z the threshold for all tests together; of a direction with
    several columns that of its most visible one. What cannot be seen names the parameters
    that mimic it. The rows' noise is what repetitions or residuals show, or taken as
    `white` and known.
    """
    found: dict[tuple[str, str], Limit] = {}
    scores, names = standing.scores, standing.evidence.base.names
    threshold = POWER - normal_quantile(PROBABLE / (2 * max(standing.trials, 1)))
    for suspicion in standing.suspicions:
        direction, place = suspicion.direction, suspicion.place
        if direction.name in UNLIMITED:
            continue
        size = min(
            (threshold * scores.sigma(c, white=white) for c in standing.seen(suspicion)),
            default=np.inf,
        )
        shares = np.abs(scores.mimicked(suspicion.columns[0])) * np.isinf(size)
        limit = Limit(
            name=direction.name,
            place=place,
            unit=direction.unit_at(standing.evidence.views[0], place),
            size=size,
            instead=tuple(names[i] for i in np.argsort(-shares)[:4] if shares[i] > 0.1),
        )
        if size < found.setdefault((direction.name, place), limit).size:
            found[direction.name, place] = limit
    return tuple(found.values())


def diagnose_evidence(
    evidence: Evidence,
    recordings: Sequence[Recording] = (),
    *,
    most: int = 4,
    notices: Sequence[Notice] = (),
    found: Sequence[Mistake] = (),
) -> Diagnosis:
    """Diagnose logs that were processed and fitted already; `notices` and mistakes `found` before
    come first.

    Recordings as they were are looked at for what changes between periods.
    """
    judged_on = HELD_OUT if evidence.held_out else LEFT_OUT
    first = start = Standing(evidence)
    signs: list[Mistake] = []
    best = best_hypothesis(evidence)
    if best is not None:
        fresh = corrected(evidence, lambda track, view: best.undo(track), guard=True)
        after = None if fresh is None else Standing(fresh)
        if after is not None and explains(first, after):
            view, start = evidence.views[0], after
            signs = [
                _discrete(
                    best,
                    before=first.error,
                    after=after.error,
                    judged_on=judged_on,
                    gravity=_turned(view, best.undo(view.track)),
                )
            ]
    steps, doubtful = search(start, most=most - len(signs))
    standing = Standing(steps[-1].standing.evidence) if steps else start
    view = start.evidence.views[0]
    named = [_continuous(step, view, judged_on=judged_on) for step in steps]
    loads, place = (
        _differing(start.evidence, [s.suspicion for s in steps[:1]]),
        0,
    )  # signs and units are right now
    if not loads:
        loads, place = _differing(standing.evidence), len(named)
    mistakes = [
        *found,
        *fading_efforts(evidence, recordings),
        *signs,
        *named[:place],
        *loads,
        *named[place:],
    ]
    left = standing.error
    rest = (
        [
            f"{100 * left:.3g} % of the effort stays unexplained: there is more than the usual "
            f"mistakes"
        ]
        if left > GOOD_ERROR
        else []
    )
    if doubtful is not None:
        rest.append(
            f"what is left looks like this, but correcting it predicts the {judged_on} no better, "
            f"so it is "
            f"something else: {_continuous(doubtful, view).text}"
        )
    return Diagnosis(
        robot=evidence.model.mechanism.name,
        mistakes=tuple(mistakes),
        limits=limits_of(standing),
        error=first.error,
        notices=(*notices, *(_notice(text) for text in rest)),
    )


def _notice(text: str) -> Notice:
    return Notice(rule="diagnosis", level="info", text=text)


def _differing(evidence: Evidence, rivals: Sequence[Suspicion] = ()) -> list[Mistake]:
    """Return the load that some logs carried and did not say, held-out logs among them; none if a
    rival explains more.
    """
    together = evidence.together
    if len(together.logs) < 2:
        return []
    view = together.views[0]
    for suspicion, fitted in Standing(
        together, only=[*suspicions_of(together, LOAD), *rivals]
    ).ranked():
        if suspicion.direction.name != LOAD:
            return []
        size, sigma = float(fitted.size[0]), float(fitted.sigma[0])
        if size > 3 * sigma:  # else the others carried it, or it is no mass
            return [
                Mistake(
                    name=LOAD,
                    place=suspicion.place,
                    size=(size,),
                    sigma=(sigma,),
                    unit="kg",
                    text=words(suspicion, fitted.size, fitted.sigma, view),
                    share=fitted.share,
                    advice=suspicion.direction.advice_at(view, suspicion.place, fitted.size),
                )
            ]
    return []


def fading_efforts(evidence: Evidence, recordings: Sequence[Recording]) -> list[Mistake]:
    """Return efforts that fade or grow from period to period in logs whose periods were
    averaged.
    """
    return [
        mistake
        for view, recording in zip(evidence.views, recordings)
        if view.source.periodic and recording.period_samples
        for mistake in find_fading(recording)
    ]


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(Settings):
    """How to look for mistakes in logs and robot file."""

    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
    most: int = option(4, "Mistakes to find at most, one after the other.", least=1)
    processing: Processing = nested(Processing)


@with_settings(DiagnoseSettings)
@one_blas_thread
def diagnose(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: DiagnoseSettings | None = None,
    *,
    held_out: Log | Sequence[Log] = (),
    **options: Any,
) -> Diagnosis:
    """Find the usual mistakes in logs and robot file: names, sizes with sigmas, and what to change.

    Jumps of encoders are undone first. Then hypotheses (signs, channels, units, reversed
    time) and directions (delay, offsets, scales, gains, tilt, clock, loads, missing terms)
    are tried one after the other, as long as one explains what is left beyond chance. Logs
    whose loops do not close are tried with signs, channels and units of the positions
    changed.

    Args:
        model: The robot.
        recordings: Logs of it.
        settings: How; single options may be given by name instead.
        held_out: Logs to judge corrections on.
        options: See `DiagnoseSettings`.
    """
    chosen = merge_settings(DiagnoseSettings, settings, options)
    model, recordings, held_out = (
        as_model(model),
        as_recordings(recordings),
        as_recordings(held_out, "held_out"),
    )
    if not recordings:
        raise InvalidInput("there is no recording to diagnose")
    found = mistakes_of_jumps([*recordings, *held_out])
    home = dict(zip(model.mechanism.coordinates, model.home.tolist()))
    logs, others = (
        [without_jumps(log, find_jumps(log), home) for log in group]
        for group in (recordings, held_out)
    )
    try:
        return diagnose_evidence(
            evidence_from(model, logs, others, chosen),
            logs,
            most=chosen.most,
            found=found,
        )
    except GoughError as error:
        found = found or mistakes_of_jumps([*recordings, *held_out], DOUBT)
        try:
            evidence, mistake = _made_to_close(model, logs, others, chosen, error)
        except GoughError:
            if not found:
                raise
            return Diagnosis(
                robot=model.mechanism.name,
                mistakes=tuple(found),
                notices=(_notice(f"the logs cannot be processed: {error}"),),
            )
        return diagnose_evidence(
            evidence,
            logs,
            most=chosen.most,
            found=[*found, mistake],
            notices=[_notice(f"the logs as they are cannot be processed: {error}")],
        )


def evidence_from(
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
) -> Evidence:
    """Process logs and held-out ones alike, and fit what they determine."""
    carried = tuple(dict.fromkeys(r.payload for r in (*logs, *others) if r.payload is not None))
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=carried)
    experiment = prepare(model, logs, base, processing=settings.processing, gains=settings.gains)
    known = sources(experiment.processed, experiment.regressions)
    if not others:
        return evidence_of(model, base, None, known)
    unseen = prepare_held_out(experiment, others, given=settings.processing.cutoff is not None)
    return evidence_of(model, base, None, known, sources(unseen.processed, unseen.regressions))


def undone_on_recording(recording: Recording, hypothesis: Hypothesis) -> Recording:
    """Return a recording with a hypothesis about its positions or efforts undone."""
    signal = "effort" if recording.effort is not None else "current"
    values, none = (
        getattr(recording, signal),
        np.zeros(recording.position.shape),
    )
    track = hypothesis.undo(
        Track(
            time=recording.time,
            position=recording.position,
            velocity=none,
            acceleration=none,
            effort=none if values is None else values,
            gravity=np.zeros(3),
            periodic=False,
            deviations=none[None][:0],
            lag=np.zeros(len(recording.joints)),
        )
    )
    changed: dict[str, Any] = {
        "position": track.position,
        "reference": None,
        "velocity": None,
    }
    return replace(
        recording,
        **(changed if values is None else changed | {signal: track.effort}),
    )


def _made_to_close(
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
    error: GoughError,
) -> tuple[Evidence, Mistake]:
    """Return the evidence of logs whose loops only close with a hypothesis about positions, the
    best of those.

    The error that the logs give as they are is raised if no hypothesis helps.
    """
    tried: list[tuple[float, float, Hypothesis, Evidence]] = []
    for hypothesis in hypotheses(model.mechanism):
        changed = [undone_on_recording(log, hypothesis) for log in (*logs, *others)]
        own, unseen = changed[: len(logs)], changed[len(logs) :]
        if np.array_equal(own[0].position, logs[0].position) or not may_close(model, own):
            continue
        with suppress(GoughError):
            evidence = evidence_from(model, own, unseen, settings)
            result = try_out(thinned(evidence))
            if result is not None and result[0] < FAIR_ERROR:  # else it explains nothing
                tried.append((*result, hypothesis, evidence))
    if not tried:
        raise error
    least = min(item[0] for item in tried)
    _, _, hypothesis, evidence = min(
        (item for item in tried if item[0] * BETTER <= least),
        key=lambda item: item[1],
    )
    return evidence, _discrete(
        hypothesis,
        after=Standing(evidence, only=()).error,
        judged_on=HELD_OUT if others else LEFT_OUT,
    )
