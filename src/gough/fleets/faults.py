"""Faults of one robot, diagnosed from its logs with the other robots as prior knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.documents import parse_json
from gough.core.errors import GoughError
from gough.core.names import Parameter
from gough.engine import Model
from gough.fitting.cross_validation import solve_normal_equations
from gough.identification.diagnosis import NamedFault
from gough.identification.many_logs import read_beginning
from gough.logs.recording import Recording
from gough.processing.many_logs import Job, divide_logs, robot_of
from gough.verdict.acceptance import jackknife_error, no_gain
from gough.verdict.blocks import (
    block_labels,
    block_sums,
    row_weights,
)
from gough.verdict.diagnose import DiagnoseSettings, diagnose, evidence_from
from gough.verdict.evidence import Evidence
from gough.verdict.explanation import Explanation, corrected
from gough.verdict.faults import EFFORT_SCALE, Fault, all_faults
from gough.verdict.judge import diagnose_evidence
from gough.verdict.naming import describe_size
from gough.verdict.stage import Stage

# faults along which the parameters of robots are compared
COMPARED_FAULTS = (EFFORT_SCALE, "encoder offset", "encoder scale")
# size over its standard error, below which no fault is named
MIN_FAULT_T = 6.0
# Difference of squared errors, in units of the noise, below which two
# faults are alike.
ALIKE_SQUARES = 9.0
REFINEMENT_STEPS = 6
# of the standard error: a smaller step ends the refinement
REFINED_FRACTION = 0.1


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

    The faults have unit magnitude; the change is the same for all
    robots of a kind.
    """
    model, recordings, settings = _diagnosis_input(job, logs)
    evidence, _ = evidence_from(model, recordings, (), settings)
    stage = Stage(evidence, block_labels(evidence.logs))
    faults = compared_faults(evidence)
    sums = block_sums(evidence.logs, stage.labels, stage.columns(faults))
    weights, _ = row_weights(sums, range(sums.n_parameters))
    total = np.tensordot(weights, sums.total, axes=1)
    names = evidence.base.names
    columns = [*range(sums.n_parameters)]
    sensitivities = []
    for k in range(len(faults)):
        chosen = [*columns, sums.n_parameters + k]
        shift = solve_normal_equations(total[np.ix_(chosen, chosen)])
        change = dict(zip(names, shift))
        sensitivity = np.array([change.get(name, 0.0) for name in parameters])
        if sensitivity.any():
            sensitivities.append(sensitivity)
    return np.array(sensitivities).reshape(-1, len(parameters))


def compared_faults(evidence: Evidence) -> list[tuple[Fault, str]]:
    """Return the faults along which robots are compared, at all places."""
    compared = []
    for fault in all_faults(evidence):
        if fault.name in COMPARED_FAULTS:
            compared += [(fault, place) for place in fault.places(evidence)]
    return compared


class FaultTask(NamedTuple):
    """Logs of one robot that are to be diagnosed."""

    job: Job  # how logs were processed
    logs: tuple[str, ...]  # paths
    # to compare with, if the robot is unusual as a whole
    kind: Kind | None = None
    # the robot is unusual by its residual, not by its parameters
    by_residual: bool = True
    # names of faults of a typical robot, which are not its
    typical: frozenset[str] = frozenset()


def find_faults(task: FaultTask) -> list[FoundFault]:
    """Return the faults in some logs of one robot.

    Faults that parameters absorb are found by comparison with the kind;
    what a large residual is due to is looked for first without it.
    """
    model, recordings, settings = _diagnosis_input(task.job, task.logs)
    if task.kind is not None:
        # the diagnosis tries other signs, channels and units where
        # loops do not close
        with suppress(GoughError):
            evidence, _ = evidence_from(model, recordings, (), settings)
            diagnosis = diagnose_evidence(evidence).faults
            faults = _not_typical(diagnosis, task.typical)
            if task.by_residual and faults:
                return faults
            if not any(fault.level == "error" for fault in diagnosis):
                return find_fault_given_kind(evidence, task.kind)
    return _not_typical(diagnose(model, recordings, settings).faults, task.typical)


def _not_typical(faults: Sequence[NamedFault], typical: frozenset[str]) -> list[FoundFault]:
    """Return the faults of a diagnosis that a typical robot does not have."""
    unlike = []
    for fault in faults:
        if fault.name not in typical:
            unlike.append(FoundFault(fault.name, fault.text, fault.advice))
    return unlike


def _diagnosis_input(
    job: Job, logs: Sequence[str]
) -> tuple[Model, list[Recording], DiagnoseSettings]:
    """Return the robot, its logs and the settings of a diagnosis.

    Of logs with a payload in parts of them, the parts without it are
    diagnosed.
    """
    model = robot_of(job)[0]
    recordings = divide_logs([read_beginning(log) for log in logs], job.carrying)
    if job.carrying is not None:
        recordings = [segment for segment in recordings if segment.payload is None]
    settings = DiagnoseSettings(
        tie_legs=job.tie_legs,
        gains=parse_json(job.gains),
        processing=job.settings,
    )
    return model, recordings, settings


def find_fault_given_kind(evidence: Evidence, kind: Kind) -> list[FoundFault]:
    """Return the fault that explains a robot best, if its parameters are otherwise of its kind.

    Faults that explain as much are named with it. Its size is estimated
    again on corrected logs until it does not change.
    """
    labels = block_labels(evidence.logs)
    fits = _fit_given_kind(evidence, kind, compared_faults(evidence), labels)
    fits = [each for each in fits if each.t > MIN_FAULT_T]
    if not fits:
        return []
    best = max(fits, key=lambda each: each.squares)
    alternatives = []
    for other in fits:
        if other is not best and best.squares - other.squares < ALIKE_SQUARES:
            alternatives.append(f"{other.fault.name} of {other.place}")
    fault = best.fault
    size = np.array([best.size])
    std = best.std
    stage = Stage(evidence, labels)
    for _ in range(REFINEMENT_STEPS):
        explanation = _explanation(best, size, std, stage)
        without_fault = corrected(evidence, [explanation])
        if without_fault is None:
            break
        step = _fit_given_kind(without_fault, kind, [(fault, best.place)], labels)[0]
        # sizes of scales multiply: (1 + size) (1 + step) = 1 + size +
        # step (1 + size)
        factor = float(1 + size[0]) if fault.relative else 1.0
        size = size + step.size * factor
        std = step.std * factor
        if abs(step.size) <= REFINED_FRACTION * step.std:
            break
    text, advice = describe_size(_explanation(best, size, std, stage), evidence)
    if alternatives:
        text += f"; it may also be {' or '.join(alternatives)}"
    return [FoundFault(fault.name, text, advice)]


def _explanation(fit: KindFit, size: FloatArray, std: float, stage: Stage) -> Explanation:
    """Return a fault of some size in all logs."""
    return Explanation(
        fault=fit.fault,
        place=fit.place,
        logs=tuple(range(len(stage.labels))),
        size=size,
        std=np.array([std]),
        gain=no_gain(len(stage.block_log)),
    )


class KindFit(NamedTuple):
    """A fault fitted with the parameters of the kind as further equations."""

    fault: Fault
    place: str
    size: float
    # standard error: fits without single blocks, and the scatter of
    # robots of the kind
    std: float
    squares: float  # fall of the squared error, in units of the noise

    @property
    def t(self) -> float:
        """Size over its standard error."""
        return abs(self.size) / max(self.std, 1e-300)


def _fit_given_kind(
    evidence: Evidence,
    kind: Kind,
    faults: Sequence[tuple[Fault, str]],
    labels: Sequence[IntArray],
) -> list[KindFit]:
    """Fit single faults with the parameters of the kind as further equations.

    They keep a fault from being absorbed by the parameters.
    """
    stage = Stage(evidence, labels)
    sums = block_sums(evidence.logs, stage.labels, stage.columns(faults))
    p = sums.n_parameters
    weights, _ = row_weights(sums, range(p))
    prior = _prior_normal(evidence, kind, sums.n_columns + 1)
    blocks = np.einsum("r,brij->bij", weights, sums.grams)
    total = blocks.sum(axis=0) + prior
    without = total - blocks
    base = [*range(p), sums.n_columns]
    before = _squared_error(total, base)
    fits = []
    for k, (fault, place) in enumerate(faults):
        chosen = [*range(p), p + k, sums.n_columns]
        normal = total[np.ix_(chosen, chosen)]
        size = float(solve_normal_equations(normal)[-1])
        sizes = solve_normal_equations(without[:, chosen][:, :, chosen])[:, -1:]
        scatter = error_of_prior(normal, prior[np.ix_(chosen, chosen)])
        fits.append(
            KindFit(
                fault=fault,
                place=place,
                size=size,
                std=float(np.hypot(jackknife_error(sizes)[0], scatter)),
                squares=before - _squared_error(total, chosen),
            )
        )
    return fits


def error_of_prior(normal: FloatArray, prior: FloatArray) -> float:
    """Return the standard error of the last unknown due to a robot that is not exactly its kind.

    With H = X^T W X + P the estimate is H^-1 (X^T W y + P known), P^-1
    the covariance of a robot about `known`: an error of covariance H^-1
    P H^-1, which no block of the logs shows.

    Args:
        normal: Gram matrix of [X y] with the equations of the prior, (k + 1, k + 1).
        prior: Gram matrix of these equations alone, (k + 1, k + 1).
    """
    unit = np.array(normal)
    unit[:-1, -1] = 0.0
    unit[-2, -1] = 1.0
    row = solve_normal_equations(unit)  # of H^-1
    return float(np.sqrt(row @ prior[:-1, :-1] @ row))


def _squared_error(total: FloatArray, chosen: Sequence[int]) -> float:
    """Return the squared error of a least-squares fit from a Gram matrix of [X y]."""
    normal = total[np.ix_(chosen, chosen)]
    vector = np.append(-solve_normal_equations(normal), 1.0)
    return float(vector @ normal @ vector)


def _prior_normal(evidence: Evidence, kind: Kind, width: int) -> FloatArray:
    """Return the Gram matrix of the equations chi = known of the kind, over their std."""
    names = evidence.base.names
    normal = np.zeros((width, width))
    for name, value, std in zip(kind.parameters, kind.values, kind.std):
        if name not in names:
            continue
        row = np.zeros(width)
        row[names.index(name)] = 1 / std
        row[-1] = value / std
        normal += np.outer(row, row)
    return normal
