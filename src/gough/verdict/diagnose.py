"""The verb `diagnose`: what is wrong with logs or robot file, by how much, what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.blas import one_blas_thread
from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.notices import Notice
from gough.core.options import (
    Settings,
    merge_settings,
    nested,
    option,
    with_settings,
)
from gough.core.progress import portion
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.identification.diagnosis import Diagnosis, Limit, NamedFault
from gough.identification.experiment import prepare, prepare_held_out
from gough.identification.validation import FAIR_ERROR
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import ProcessedLog, Processing, on_motor_side
from gough.processing.settings import MAX_CUTOFF_RATIO
from gough.verdict.blocks import block_labels
from gough.verdict.close_path import close_along_path
from gough.verdict.detectable import detection_limits
from gough.verdict.discrete_faults import (
    CLOCK_UNIT,
    DiscreteFault,
    clock_faults,
    discrete_faults,
    position_units,
    within_limits,
)
from gough.verdict.drift import drifting_efforts
from gough.verdict.evidence import Evidence, evidence_of
from gough.verdict.fitted_model import FittedModel
from gough.verdict.judge import diagnose_evidence
from gough.verdict.motor_signals import MotorSignals
from gough.verdict.rules import UNEXPLAINED_WARNING
from gough.verdict.screen import Screen
from gough.verdict.search import Search
from gough.verdict.stage import Stage

# Motion in which nothing has to be filtered has a cut-off up to an
# octave below the highest.
UNFILTERED_RATIO = 2.1
# Rules that say that no fault was found, or which the logs do not show.
NO_FAULT_RULES = ("unexplained", "not noticed")
LOOP_TEST_SAMPLES = 12  # of a log, to see whether its loops close at all
# factor: logs at twice their speed can be processed as well
MIN_TIME_UNIT = 10.0
# A second fault that lets loops close must leave so many times the
# error of the first one, or both are named.
CLEARLY_WORSE = 1.25
# on the factor of a unit, which does clearly better if it is right
OTHER_FACTORS = (0.8, 1.25)


@dataclass(frozen=True, kw_only=True)
class DiagnoseSettings(Settings):
    """How to look for faults in logs and robot file."""

    tie_legs: bool = option(False, TIE_LEGS)
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
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
    """Find faults in logs and robot file: names, sizes with standard errors, what to change.

    Every explanation is accepted by one rule: it predicts parts of the
    logs that it was not fitted to better, beyond chance
    (docs/diagnosis.md). Logs that cannot be processed are tried with
    signs, channels and units of the positions changed if their loops do
    not close, and with another unit of the times otherwise.

    Args:
        model: The robot.
        recordings: Logs of it.
        settings: How; single options may be given by name instead.
        held_out: More logs; corrections are also judged on them.
        options: See `DiagnoseSettings`.
    """
    chosen = merge_settings(DiagnoseSettings, settings, options)
    model = as_model(model)
    logs = as_recordings(recordings)
    others = as_recordings(held_out, "held_out")
    if not logs:
        raise InvalidInput("there is no recording to diagnose")
    try:
        with portion(0.0, 0.4):
            evidence, processed = evidence_from(model, logs, others, chosen)
    except GoughError as error:
        return _diagnose_unusable_logs(model, logs, others, chosen, error)
    with portion(0.4, 1.0):
        diagnosis = diagnose_evidence(evidence, drifting_efforts(processed))
        return with_time_unit(diagnosis, model, logs, others, chosen, processed[0].settings)


def with_time_unit(
    diagnosis: Diagnosis,
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
    processing: Processing,
) -> Diagnosis:
    """Return a diagnosis with a wrong unit of the times, if that explains an unexplained error.

    With times that are far too long, accelerations have no effect, and
    nothing has to be filtered: the cut-off is among the highest that
    are tried. The search for faults keeps this cut-off, with which
    noise hides the effort at the right pace; so the logs are processed
    anew here.

    Args:
        diagnosis: Without the unit.
        model: The robot.
        logs: Logs of it.
        others: Held-out logs.
        settings: Of the diagnosis.
        processing: How the logs were processed.
    """
    if diagnosis.faults or not diagnosis.error > UNEXPLAINED_WARNING:
        return diagnosis
    highest = MAX_CUTOFF_RATIO * min(log.rate for log in logs)
    is_filtered = processing.cutoff is not None and UNFILTERED_RATIO * processing.cutoff < highest
    if processing.method != "time" or is_filtered:
        return diagnosis
    too_long = [fault for fault in clock_faults() if (fault.size or 0.0) >= MIN_TIME_UNIT]
    enabling = _enabling_fault(model, logs, others, settings, too_long)
    if enabling is None or diagnosis.error < CLEARLY_WORSE * enabling[0].after:
        return diagnosis
    named = replace(enabling[0], before=diagnosis.error)
    notices = [each for each in diagnosis.notices if each.rule not in NO_FAULT_RULES]
    return replace(diagnosis, faults=(named,), notices=tuple(notices))


def evidence_from(
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
) -> tuple[Evidence, list[ProcessedLog]]:
    """Process logs and held-out ones alike, and fit what they determine."""
    payloads = dict.fromkeys(log.payload for log in (*logs, *others) if log.payload is not None)
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=tuple(payloads))
    experiment = prepare(model, logs, base, processing=settings.processing, gains=settings.gains)
    processed = list(experiment.processed)
    regressions = list(experiment.regressions)
    if others:
        given = settings.processing.cutoff is not None
        held_out = prepare_held_out(experiment, others, given=given)
        processed += held_out.processed
        regressions += held_out.regressions
    names = [name for name in base.names if name in regressions[0].parameters]
    fitted = FittedModel(model=model, base=base.select(names), values=np.zeros(len(names)))
    evidence = evidence_of(fitted, processed, regressions, len(others))
    return evidence.refitted(), processed


def limits_of_log(
    model: Model, recording: Recording, *, tie_legs: bool = False
) -> tuple[Limit, ...]:
    """Return the smallest faults that a log shows, or would show if it is a planned one."""
    settings = DiagnoseSettings(tie_legs=tie_legs)
    evidence, _ = evidence_from(model, [recording], (), settings)
    search = Search(evidence, with_discrete=False)
    screen = Screen(search.first, search.faults, ())
    return detection_limits(screen, screen.trials)


def _diagnose_unusable_logs(
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
    error: GoughError,
) -> Diagnosis:
    """Diagnose logs that can be processed only with a fault of positions or times undone.

    The error of the logs as they are is raised if no fault helps.
    """
    wrong_times = isinstance(error, InvalidRecording)
    faults = _faults_that_may_enable(model, wrong_times)
    enabling = _enabling_fault(model, logs, others, settings, faults)
    if enabling is None:
        raise error
    named, evidence = enabling
    text = f"the logs as they are cannot be processed: {error}"
    rule = "log" if wrong_times else "loops"
    notice = Notice(rule=rule, level="info", text=text)
    diagnosis = diagnose_evidence(evidence, [named])
    return replace(diagnosis, notices=(notice, *diagnosis.notices))


def explain_unusable_logs(
    error: GoughError,
    model: Robot,
    recordings: Log | Sequence[Log],
    held_out: Log | Sequence[Log] | None,
    settings: DiagnoseSettings,
) -> GoughError:
    """Return the error of logs that cannot be processed, with the fault that explains it.

    Its `notices` are those of the fault. The same error is returned if
    no fault of positions or times does.
    """
    logs = as_recordings(recordings)
    others = [] if held_out is None else as_recordings(held_out, "held_out")
    robot = as_model(model)
    faults = _faults_that_may_enable(robot, isinstance(error, InvalidRecording))
    with suppress(GoughError):
        enabling = _enabling_fault(robot, logs, others, settings, faults)
        if enabling is not None:
            notice = enabling[0].notice()
            message = f"{error}. Probable cause, {notice.rule}: {notice.text}; {notice.advice}"
            return type(error)(message, **{**error.numbers, "notices": (notice,)})
    return error


def _enabling_fault(
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
    faults: Sequence[DiscreteFault],
) -> tuple[NamedFault, Evidence] | None:
    """Return the fault without which logs can be processed and the model fits best.

    None if the model fits with none of them.

    Args:
        model: The robot.
        logs: Logs of it.
        others: Held-out logs.
        settings: Of the diagnosis.
        faults: Those to try.
    """
    fits: list[_FitWithout] = []
    for fault in faults:
        closing = fault.changes_positions
        fit = _fit_without(fault, model, logs, others, settings, closing=closing)
        if fit is not None and fit.error < FAIR_ERROR:
            fits.append(fit)
    if not fits:
        return None
    fits.sort(key=lambda each: each.error)
    best = fits[0].fault
    alike = [each.fault for each in fits[1:] if each.error < CLEARLY_WORSE * fits[0].error]
    if any((each.name, each.place) == (best.name, best.place) for each in alike):
        return None
    # motions that are small enough close any loop, and offsets and
    # friction explain much of their efforts: a unit has to do better
    # than other factors
    for neighbour in _other_factors(best, model):
        fit = _fit_without(neighbour, model, logs, others, settings)
        if fit is not None and fit.error < CLEARLY_WORSE * fits[0].error:
            return None
    named = NamedFault(
        name=best.name,
        place=best.place,
        size=() if best.size is None else (best.size,),
        std=() if best.size is None else (0.0,),
        unit="" if best.size is None else "times",
        text=best.text,
        advice=best.advice,
        level="error",
        after=fits[0].error,
        equivalents=tuple(each.text for each in alike),
    )
    return named, fits[0].evidence


class _FitWithout(NamedTuple):
    """A model that was fitted to logs with a fault undone."""

    fault: DiscreteFault
    error: float  # on blocks left out, over the effort
    evidence: Evidence


def _fit_without(
    fault: DiscreteFault,
    model: Model,
    logs: Sequence[Recording],
    others: Sequence[Recording],
    settings: DiagnoseSettings,
    *,
    closing: bool = False,
) -> _FitWithout | None:
    """Return the fit to logs with a fault undone; None if they cannot be processed then.

    Args:
        fault: What is undone.
        model: The robot.
        logs: To fit.
        others: Held-out logs.
        settings: Of the diagnosis.
        closing: See first whether loops close at some samples.
    """
    changed = [without_fault(log, fault) for log in logs]
    if closing and not may_close(model, changed):
        return None
    changed_others = [without_fault(log, fault) for log in others]
    with suppress(GoughError):
        evidence, _ = evidence_from(model, changed, changed_others, settings)
        return _FitWithout(fault, Stage(evidence, block_labels(evidence.logs)).error, evidence)
    return None


def _other_factors(fault: DiscreteFault, model: Model) -> list[DiscreteFault]:
    """Return the fault of a unit with other factors in the place of that of the unit."""
    neighbours = []
    for ratio in OTHER_FACTORS:
        for other in position_units(model.mechanism, ratio):
            same_unit = fault.size is not None and other.size == ratio * fault.size
            if same_unit and (other.name, other.place) == (fault.name, fault.place):
                neighbours.append(other)
    return neighbours


def _faults_that_may_enable(model: Model, wrong_times: bool) -> list[DiscreteFault]:
    """Return the faults that may keep logs from being processed.

    Loops that do not close have wrong positions; logs that cannot be
    filtered may have times in another unit.
    """
    if not wrong_times:
        return [fault for fault in discrete_faults(model.mechanism) if fault.changes_positions]
    units = []
    for fault in clock_faults():
        if fault.size is not None and abs(np.log(fault.size)) >= np.log(MIN_TIME_UNIT):
            units.append(fault)
    return units


def without_fault(recording: Recording, fault: DiscreteFault) -> Recording:
    """Return a recording with a fault of its positions, efforts or times undone."""
    if fault.name == CLOCK_UNIT:
        assert fault.size is not None
        return replace(recording, time=recording.time / fault.size, velocity=None)
    kind = "effort" if recording.effort is not None else "current"
    effort = getattr(recording, kind)
    nothing = np.zeros(recording.position.shape)
    signals = MotorSignals(
        time=recording.time,
        position=recording.position,
        velocity=nothing,
        acceleration=nothing,
        effort=nothing if effort is None else effort,
        gravity=np.zeros(3),
        periodic=False,
        deviations=nothing[None][:0],
        lag=np.zeros(len(recording.joints)),
    )
    undone = fault.undo(signals)
    changed: dict[str, Any] = {
        "position": undone.position,
        "reference": None,
        "velocity": None,
    }
    if effort is not None:
        changed[kind] = undone.effort
    return replace(recording, **changed)


def may_close(model: Model, logs: Sequence[Recording]) -> bool:
    """Return whether the loops close at a few samples of each log, within the motors' limits."""
    motors = model.mechanism.actuated
    independent = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
    for recording in logs:
        log = on_motor_side(recording, model.mechanism)
        if any(name not in log.joints for name in motors):
            return False
        order = [log.joints.index(name) for name in motors]
        samples = np.linspace(0, len(log) - 1, LOOP_TEST_SAMPLES).astype(int)
        position = log.position[samples][:, order]
        if not within_limits(model, position):
            return False
        try:
            close_along_path(model, position[:, independent], None)
        except GoughError:
            return False
    return True
