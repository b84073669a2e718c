"""Faults of one robot, diagnosed from its logs with the other robots as prior knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.documents import parse_json
from gough.core.errors import GoughError
from gough.core.names import Parameter
from gough.engine import Model
from gough.fitting.scores import LEAST_SEEN, Fitted, ScoreProblem, Scores
from gough.identification.many_logs import looked_at
from gough.logs.recording import Recording
from gough.processing.many_logs import Job, robot_of
from gough.verdict.diagnosis.diagnose import (
    DiagnoseSettings,
    diagnose,
    evidence_from,
)
from gough.verdict.diagnosis.directions import Suspicion, suspicions_of, words
from gough.verdict.diagnosis.evidence import Evidence, corrected
from gough.verdict.diagnosis.hypotheses import best_hypothesis
from gough.verdict.diagnosis.search import (
    CLOSE,
    ROUNDS,
    SMALL,
    Standing,
    fit_together,
    possible,
    score_problem,
)

# faults along which the parameters of robots are compared
COMPARED_FAULTS = ("gain", "encoder offset", "encoder scale")


class Kind(NamedTuple):
    """Usual parameters of the robots of a kind."""

    parameters: tuple[Parameter, ...]  # (p,)
    values: FloatArray  # mean, (p,)
    std: FloatArray  # standard deviation of one robot about the mean, (p,)


class FoundFault(NamedTuple):
    """A fault of one robot."""

    name: str
    text: str
    advice: str


def fault_sensitivities(
    job: Job, logs: Sequence[str], parameters: Sequence[Parameter]
) -> FloatArray:
    """Return the change of the estimate by faults of drives and encoders, (k, p).

    The faults have unit magnitude; the change is the same for all robots of a kind.
    """
    model, recordings, settings = _diagnosis_input(job, logs)
    evidence = evidence_from(model, recordings, (), settings)
    suspicions = []
    for name in COMPARED_FAULTS:
        suspicions += suspicions_of(evidence, name)
    state = Standing(evidence, only=suspicions)
    names = evidence.base.names
    sensitivities = []
    for suspicion in state.suspicions:
        change = dict(zip(names, state.scores.taken_in(suspicion.columns[0])))
        sensitivity = np.array([change.get(name, 0.0) for name in parameters])
        if sensitivity.any():
            sensitivities.append(sensitivity)
    return np.array(sensitivities).reshape(-1, len(parameters))


def find_faults(
    work: tuple[Job, tuple[str, ...], Kind | None],
) -> list[FoundFault]:
    """Return the faults in some logs of one robot.

    Args:
        work: Job, paths of the logs, and the kind to compare with, or None.
    """
    job, logs, kind = work
    model, recordings, settings = _diagnosis_input(job, logs)
    if kind is not None:
        # the diagnosis tries other signs, channels and units where loops do not close
        with suppress(GoughError):
            evidence = evidence_from(model, recordings, (), settings)
            if best_hypothesis(evidence) is None:
                return find_fault_given_kind(evidence, kind)
    faults = []
    for mistake in diagnose(model, recordings, settings).mistakes:
        faults.append(FoundFault(mistake.name, mistake.text, mistake.advice))
    return faults


def _diagnosis_input(
    job: Job, logs: Sequence[str]
) -> tuple[Model, list[Recording], DiagnoseSettings]:
    """Return the robot, its logs and the settings of a diagnosis."""
    model = robot_of(job)[0]
    recordings = [looked_at(log) for log in logs]
    settings = DiagnoseSettings(
        tie_legs=job.tie_legs,
        gains=parse_json(job.gains),
        processing=job.settings,
    )
    return model, recordings, settings


def find_fault_given_kind(evidence: Evidence, kind: Kind) -> list[FoundFault]:
    """Return the fault that explains a robot best, if its parameters are otherwise of its kind.

    Faults that explain as much are named with it. Its magnitude is estimated again on
    corrected logs until it does not change.
    """
    fits, tie = _fit_given_kind(evidence, kind)
    if not fits:
        return []
    best, fitted = max(fits, key=lambda fit: fit[1].share)
    alternatives: dict[str, None] = {}
    for suspicion, other in fits:
        as_good = fitted.share - other.share < tie * fitted.inflation
        if suspicion is not best and as_good:
            alternatives[f"{suspicion.direction.name} of {suspicion.place}"] = None
    magnitude = fitted.size
    for _ in range(ROUNDS if best.direction.undo is not None else 0):
        without_fault = corrected(evidence, partial(best.undo, size=magnitude))
        if without_fault is None:
            break
        steps, _ = _fit_given_kind(without_fault, kind, [best])
        if not steps:
            break
        fitted = steps[0][1]
        magnitude = magnitude + fitted.size
        if (np.abs(fitted.size) <= SMALL * fitted.sigma).all():
            break
    view = evidence.views[0]
    text = words(best, magnitude, fitted.sigma, view)
    if alternatives:
        text += f"; it may also be {' or '.join(alternatives)}"
    advice = best.direction.advice_at(view, best.place, magnitude)
    return [FoundFault(best.direction.name, text, advice)]


def _fit_given_kind(
    evidence: Evidence, kind: Kind, only: Sequence[Suspicion] | None = None
) -> tuple[list[tuple[Suspicion, Fitted]], float]:
    """Fit faults with the parameters of the kind as further equations.

    These are the score tests of the diagnosis. The equations of the kind keep a fault from
    being absorbed by the parameters.

    Returns:
        The faults with their fits, without impossible ones unless they are given by `only`;
        and the fraction of the residual power below which two faults are not
        distinguishable.
    """
    state = Standing(evidence, only=only)
    scores = Scores(
        _with_kind(
            score_problem(evidence.views, state.columns, state.noise),
            evidence,
            kind,
        )
    )
    fits = []
    for suspicion in state.suspicions:
        if max(scores.seen[list(suspicion.columns)]) <= LEAST_SEEN:
            continue
        fitted = fit_together(scores, [suspicion])
        if only is not None or possible(suspicion, fitted):
            fits.append((suspicion, fitted))
    return fits, CLOSE / scores.power()


def _with_kind(problem: ScoreProblem, evidence: Evidence, kind: Kind) -> ScoreProblem:
    """Add the equations L chi = known of the kind, divided by its standard deviations."""
    names = evidence.base.names
    shared = [k for k, name in enumerate(kind.parameters) if name in names]
    known = kind.values[shared] / kind.std[shared]
    L = np.zeros((len(shared), len(names)))
    for row, k in enumerate(shared):
        L[row, names.index(kind.parameters[k])] = 1 / kind.std[k]
    no_fault = np.zeros((len(shared), problem.columns.shape[1]))
    new_blocks = problem.stretch.max() + 1 + np.arange(len(shared))
    return ScoreProblem(
        regressor=np.concatenate([problem.regressor, L]),
        target=np.concatenate([problem.target, known]),
        columns=np.concatenate([problem.columns, no_fault]),
        stretch=np.concatenate([problem.stretch, new_blocks]),
    )
