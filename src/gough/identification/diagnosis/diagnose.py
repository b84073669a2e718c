"""What is wrong with the logs or the robot file, where, by how much, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import GoughError, InvalidInput
from gough.core.options import Settings, nested, option, settle, takes
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.estimators.selection.scores import PROBABLE
from gough.identification.diagnosis.columns import axes
from gough.identification.diagnosis.directions import Suspicion, describe, suspicions_of
from gough.identification.diagnosis.evidence import Evidence, evidence_of, followed, sources, thinned
from gough.identification.diagnosis.hypotheses import BETTER, Hypothesis, hypotheses, try_out, within_limits
from gough.identification.diagnosis.mistakes import HELD_OUT, LEFT_OUT, Diagnosis, Limit, Mistake, length, size_text
from gough.identification.diagnosis.search import Standing, Step, search
from gough.identification.diagnosis.steps import DOUBT, STEEP, find_fading, find_frozen, find_jumps, without_jumps
from gough.identification.diagnosis.track import Source, Track
from gough.identification.experiment import prepare, prepare_unseen
from gough.identification.validation import FAIR, GOOD
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processing, on_motor_side

POWER = 1.64  # sigmas above the threshold that a mistake needs to be found in 95 of 100 cases
PLAY = "play of the transmission"
UNLIMITED = ("unmentioned load", "fading effort")  # found by comparing logs and periods, not by a size within one


# -- words ------------------------------------------------------------------------------------------------------------


def _mistake_of(step: Step, evidence: Evidence, judged_on: str) -> Mistake:
    """Return a step of the search in words."""
    share = float("nan") if step.fitted is None else step.fitted.share
    track = evidence.views[0].track
    gravity = step.undone.undo(track, evidence.views[0]).gravity
    common: dict[str, Any] = {"before": step.before, "after": step.after, "judged_on": judged_on, "share": share,
                              "gravity": () if np.array_equal(gravity, track.gravity) else tuple(map(float, gravity))}
    hypothesis = step.undone.hypothesis
    if hypothesis is not None:
        return _discrete(hypothesis, **common)
    suspicion, view = step.undone.suspicion, evidence.views[0]
    assert suspicion is not None
    assert step.fitted is not None
    direction, place = suspicion.direction, suspicion.place
    size, sigma = step.fitted.size, step.fitted.sigma
    return Mistake(name=direction.name, place=place, size=tuple(map(float, size)), sigma=tuple(map(float, sigma)),
                   unit=direction.unit_at(view, place), text=words(suspicion, step.undone.size, sigma, evidence),
                   advice=direction.advice_at(view, place, step.undone.size),
                   alike=tuple(dict.fromkeys(f"{s.direction.name} of {s.place}" for s in step.alike)), **common)


def words(suspicion: Suspicion, size: FloatArray, sigma: FloatArray, evidence: Evidence) -> str:
    """Return a suspicion with its size in words: of two numbers (a tilt, a ripple) their length, else the first."""
    direction, place, view = suspicion.direction, suspicion.place, evidence.views[0]
    turn = size @ axes(view) / max(length(size), 1e-300) if len(size) == 2 else np.zeros(3)
    return direction.says.format(place=place, size=size_text(size, sigma, direction.unit_at(view, place)),
                                 axis=", ".join(f"{x:.2f}" for x in turn))


def _discrete(hypothesis: Hypothesis, **common: Any) -> Mistake:
    size = () if hypothesis.factor is None else (float(hypothesis.factor),)
    return Mistake(name=hypothesis.name, place=hypothesis.place, size=size, sigma=(hypothesis.sigma,) * len(size),
                   unit="times" if size else "", text=hypothesis.text, advice=hypothesis.advice, **common)


# -- limits -----------------------------------------------------------------------------------------------------------


def limits_of(standing: Standing, *, white: bool = False) -> tuple[Limit, ...]:
    """Return the smallest size of every direction that these logs would show in 95 of 100 cases.

    (z + 1.64) sigma with z the threshold for all tests together; of a direction with several columns that of its most
    visible one. What cannot be seen names the parameters that mimic it.

    Args:
        standing: Every direction scored.
        white: Take the rows' noise as white and known, instead of what repetitions or residuals show.
    """
    found: dict[tuple[str, str], Limit] = {}
    view = standing.evidence.views[0]
    threshold = float(stats.norm.isf(PROBABLE / (2 * max(standing.trials, 1)))) + POWER
    for suspicion in standing.suspicions:
        if suspicion.direction.name in UNLIMITED:
            continue
        columns = standing.seen(suspicion)
        unit = suspicion.direction.unit_at(view, suspicion.place)
        size = float("inf")
        instead: tuple[str, ...] = ()
        if columns:
            size = min(threshold * standing.scores.sigma(c, white=white) for c in columns)
        else:
            shares = np.abs(standing.scores.mimicked(suspicion.columns[0]))
            instead = tuple(standing.evidence.base.names[i] for i in np.argsort(-shares)[:4] if shares[i] > 0.1)
        key = (suspicion.direction.name, suspicion.place)
        if key not in found or size < found[key].size:
            found[key] = Limit(name=key[0], place=key[1], unit=unit, size=size, instead=instead)
    return tuple(found.values())


# -- the verb ---------------------------------------------------------------------------------------------------------


def diagnose_evidence(evidence: Evidence, recordings: Sequence[Recording] = (), *, most: int = 4,
                      notes: Sequence[str] = (), found: Sequence[Mistake] = ()) -> Diagnosis:
    """Diagnose logs that were processed and fitted already; see `diagnose`.

    Args:
        recordings: As recorded, for what changes between periods.
        most: Mistakes at most.
        notes: What is known already.
        found: Mistakes that were corrected before.
    """
    judged_on = HELD_OUT if evidence.held_out else LEFT_OUT
    first, steps, doubtful = search(evidence, most=most)
    standing = first if not steps else Standing(steps[-1].standing.evidence)
    named = [_mistake_of(step, evidence, judged_on) for step in steps]
    # Logs are compared once signs and units are right.
    place = int(bool(steps) and steps[0].undone.hypothesis is not None)
    rivals = [s.undone.suspicion for s in steps[place:place + 1] if s.undone.suspicion is not None]
    loads = _differing(steps[0].standing.evidence if place else evidence, rivals)
    if not loads:
        loads, place = _differing(standing.evidence), len(named)
    mistakes = [*found, *fading_efforts(evidence, recordings), *named[:place], *loads, *named[place:]]
    left = standing.error
    rest = [f"{100 * left:.3g} % of the effort stays unexplained: there is more than the usual mistakes"
            ] if left > GOOD else []
    if doubtful is not None:
        rest.append(f"what is left looks like this, but correcting it predicts the {judged_on} no better, so it is "
                    f"something else: {_mistake_of(doubtful, evidence, judged_on).text}")
    return Diagnosis(robot=evidence.model.mechanism.name, mistakes=tuple(mistakes), limits=limits_of(standing),
                     error=first.error, notes=(*notes, *rest))


def _differing(evidence: Evidence, rivals: Sequence[Suspicion] = ()) -> list[Mistake]:
    """Return the load that some logs carried and did not say, held-out logs among them; none if a rival explains more.

    Args:
        rivals: Mistakes found otherwise.
    """
    together = evidence.together
    if len(together.logs) < 2:
        return []
    standing = Standing(together, only=[*suspicions_of(together, "unmentioned load"), *rivals])
    for suspicion, fitted in standing.ranked():
        size, sigma = float(fitted.size[0]), float(fitted.sigma[0])
        if suspicion.direction.name != "unmentioned load":
            return []
        if size < 3 * sigma:  # the others carried it, or it is no mass
            continue
        return [Mistake(
            name=suspicion.direction.name, place=suspicion.place, size=(size,), sigma=(sigma,), unit="kg",
            text=words(suspicion, fitted.size, fitted.sigma, together), share=fitted.share,
            advice=suspicion.direction.advice_at(standing.evidence.views[0], suspicion.place, fitted.size))]
    return []


def fading_efforts(evidence: Evidence, recordings: Sequence[Recording]) -> list[Mistake]:
    """Return efforts that fade or grow from period to period in logs whose periods were averaged."""
    return [mistake for view, recording in zip(evidence.views, recordings)
            if view.source.periodic and recording.period_samples for mistake in find_fading(recording)]


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(Settings):
    """How to look for mistakes in logs and robot file."""

    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None, "Drive gains, motor=value; the robot file's by default.", unit="N or N m per recorded unit", above=0)
    most: int = option(4, "Mistakes to find at most, one after the other.", least=1)
    processing: Processing = nested(Processing)


@takes(DiagnoseSettings)
@one_blas_thread
def diagnose(model: Robot, recordings: Log | Sequence[Log], settings: DiagnoseSettings | None = None, *,
             held_out: Log | Sequence[Log] = (), **options: Any) -> Diagnosis:
    """Find the usual mistakes in logs and robot file: names, sizes with sigmas, and what to change.

    Jumps of encoders are undone first. Then hypotheses (signs, channels, units, reversed time) and directions (delay,
    offsets, scales, gains, tilt, clock, loads, missing terms) are tried one after the other, as long as one explains
    what is left beyond chance. Logs whose loops do not close are tried with signs, channels and units of the positions
    changed.

    Args:
        model: The robot.
        recordings: Logs of it.
        settings: How; single options may be given by name instead.
        held_out: Logs to judge corrections on.
        options: See `DiagnoseSettings`.
    """
    chosen = settle(DiagnoseSettings, settings, options)
    model, recordings, held_out = as_model(model), as_recordings(recordings), as_recordings(held_out, "held_out")
    if not recordings:
        raise InvalidInput("there is no recording to diagnose")
    found = mistakes_of_jumps([*recordings, *held_out])
    home = dict(zip(model.mechanism.coordinates, model.home.tolist()))
    logs, others = ([without_jumps(log, find_jumps(log), home) for log in group] for group in (recordings, held_out))
    try:
        evidence = evidence_from(model, logs, others, chosen)
        return diagnose_evidence(evidence, logs, most=chosen.most, found=found)
    except GoughError as error:
        found = found or mistakes_of_jumps([*recordings, *held_out], DOUBT)
        try:
            evidence, mistake = _made_to_close(model, logs, others, chosen, error)
        except GoughError:
            if not found:
                raise
            return Diagnosis(robot=model.mechanism.name, mistakes=tuple(found),
                             notes=(f"the logs cannot be processed: {error}",))
        notes = (f"the logs as they are cannot be processed: {error}",)
        return diagnose_evidence(evidence, logs, most=chosen.most, found=[*found, mistake], notes=notes)


def evidence_from(model: Model, logs: Sequence[Recording], others: Sequence[Recording],
                  settings: DiagnoseSettings) -> Evidence:
    """Process logs and held-out ones alike, and fit what they determine."""
    carried = tuple(dict.fromkeys(r.payload for r in (*logs, *others) if r.payload is not None))
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=carried)
    experiment = prepare(model, logs, base, processing=settings.processing, gains=settings.gains)
    unseen: tuple[Source, ...] = ()
    if others:
        other = prepare_unseen(model, others, experiment, given=settings.processing.cutoff is not None)
        unseen = sources(other.processed, other.parts)
    return evidence_of(model, base, None, sources(experiment.processed, experiment.parts), unseen)


def mistakes_of_jumps(recordings: Sequence[Recording], steep: float = STEEP) -> list[Mistake]:
    """Return wrapped and lost counts and frozen values of encoders, each motor once; `steep` as in `find_frozen`."""
    kept: dict[tuple[str, str], Mistake] = {}
    for log in recordings:
        jumps = find_jumps(log)
        for joint in dict.fromkeys(jump.joint for jump in jumps):
            own = [jump for jump in jumps if jump.joint == joint]
            wrap, play = all(jump.wrap for jump in own), all(jump.turning and not jump.wrap for jump in own)
            unit = log.position_units[log.joints.index(joint)]
            size, name = describe(own[0].size, unit)
            turn = "true" if unit == "rad" else f"{abs(own[0].size):.6g}"
            mistake = Mistake(
                name="wrapped counts" if wrap else PLAY if play else "lost counts", place=joint, size=(own[0].size,),
                sigma=(own[0].sigma,), unit=unit,
                text=f"{joint}: the position of {log.source} jumps {len(own)} time(s), first by {size:.4g} +- "
                     f"{describe(own[0].sigma, unit)[0]:.1g} {name} at {own[0].time:.3f} s"
                     + (", where the motor reverses" if play else ""),
                alike=(f"compliance of {joint}", f"lost counts of {joint}") if play else (), advice=
                f"look for play or a soft transmission at {joint}, and at its encoder; record again" if play else
                f"put unwrap = {turn} in the [position] table of the description" if wrap
                else f"the encoder of {joint} lost counts: home it and record again, or cut the log there")
            kept.setdefault((mistake.name, mistake.place), mistake)
        for frozen in find_frozen(log, steep):
            kept.setdefault((frozen.name, frozen.place), frozen)
    return list(kept.values())


def undone_on_recording(recording: Recording, hypothesis: Hypothesis) -> Recording:
    """Return a recording with a hypothesis about its positions or efforts undone."""
    signal = "effort" if recording.effort is not None else "current"
    values = getattr(recording, signal)
    efforts = np.zeros(recording.position.shape) if values is None else values
    none = np.zeros(recording.position.shape)
    track = hypothesis.undo(Track(time=recording.time, position=recording.position, velocity=none, acceleration=none,
                                  effort=efforts, gravity=np.zeros(3), periodic=False,
                                  deviations=np.zeros((0, *efforts.shape)),
                                  lag=np.zeros(len(recording.joints))))
    changed: dict[str, Any] = {"position": track.position, "reference": None, "velocity": None}
    return replace(recording, **(changed if values is None else changed | {signal: track.effort}))


def _made_to_close(model: Model, logs: Sequence[Recording], others: Sequence[Recording], settings: DiagnoseSettings,
                   error: GoughError) -> tuple[Evidence, Mistake]:
    """Return the evidence of logs whose loops only close with a hypothesis about positions, the best of those.

    Raises:
        GoughError: The error the logs give as they are, if no hypothesis helps.
    """
    bare = Evidence(model=model, base=base_parameters(model, tie_legs=settings.tie_legs), values=np.zeros(0), logs=())
    tried: list[tuple[float, float, Hypothesis, Evidence]] = []
    for hypothesis in hypotheses(bare):
        if not hypothesis.moves or hypothesis.name in ("clock unit", "reversed time"):
            continue
        changed = [undone_on_recording(log, hypothesis) for log in logs]
        if not _may_close(model, changed):
            continue
        try:
            evidence = evidence_from(model, changed, [undone_on_recording(log, hypothesis) for log in others], settings)
            result = try_out(thinned(evidence))
        except GoughError:
            continue
        if result is not None and result[0] < FAIR:  # else it explains nothing
            tried.append((*result, hypothesis, evidence))
    if not tried:
        raise error
    least = min(item[0] for item in tried)
    _, _, hypothesis, evidence = min((item for item in tried if item[0] * BETTER <= least), key=lambda item: item[1])
    judged_on = HELD_OUT if others else LEFT_OUT
    after = Standing(evidence, only=()).error
    return evidence, _discrete(hypothesis, after=after, judged_on=judged_on)


def _may_close(model: Model, logs: Sequence[Recording]) -> bool:
    """Tell whether the loops close at a few samples of each log, inside the limits of the motors."""
    for log in (on_motor_side(log, model.mechanism) for log in logs):
        if any(name not in log.joints for name in model.mechanism.actuated):
            return False
        order = [log.joints.index(name) for name in model.mechanism.actuated]
        few = log.position[np.linspace(0, len(log) - 1, 12).astype(int)][:, order]
        if not within_limits(model, few):
            return False
        try:
            followed(model, few[:, [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]])
        except GoughError:
            return False
    return True
