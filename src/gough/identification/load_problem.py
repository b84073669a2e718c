"""From logs of a loaded robot to the equations of its load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.names import LOAD_PARAMETERS, Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.engine.columns import column_names
from gough.fitting.estimate import Estimate
from gough.fitting.load_fit import LoadProblem
from gough.fitting.regression import Regression, concatenate
from gough.identification.experiment import N_PERTURBATIONS, in_efforts, perturbed_pairs
from gough.identification.result import Identification
from gough.processing import MatchedLog, ProcessedLog, Processing, regression
from gough.processing.likelihood_models import period_motions
from gough.processing.processed_log import process_log


class Unloaded(NamedTuple):
    """What is known of the robot without its load."""

    base: BaseParameters
    values: FloatArray
    covariance: (
        FloatArray  # of the errors of these values and, after them, of drive gains, (b + g, b + g)
    )
    gains: tuple[tuple[str, float], ...]  # that were identified, by motor, in that order
    standard: Mapping[str, float]  # parameters with the same efforts, by name


def unloaded_robot(
    model: Model, result: Identification | None, values: FloatArray | None
) -> Unloaded:
    """Return the robot as identified, or as given or the robot file's, which are taken as exact."""
    names = model.mechanism.standard.names
    if result is None or values is not None:
        table = dict(zip(names, (model.standard_values() if values is None else values).tolist()))
        base = base_parameters(model)
        return Unloaded(
            base,
            base.values([table[name] for name in base.standard]),
            np.zeros((len(base), len(base))),
            (),
            table,
        )
    e = result.estimate
    own = [k for k, name in enumerate(e.parameters) if name.payload is None and not name.is_gain]
    gains = [k for k, name in enumerate(e.parameters) if name.is_gain]
    return Unloaded(
        result.base.select([e.parameters[k] for k in own]),
        e.values[own],
        _alike(e)[np.ix_([*own, *gains], [*own, *gains])],
        tuple((e.parameters[k].owner, float(e.values[k])) for k in gains),
        dict(zip(names, result.standard(model).tolist())),
    )


def _alike(estimate: Estimate) -> FloatArray:
    """Return a covariance that is wider than that of noise by one factor for all parameters, (p,
    p).

    Errors of parameters that the data cannot tell apart cancel in the efforts. Where variances were
    widened one by one (by stretches, recordings, or the scatter of few repetitions), they no longer
    do: that is taken back and the mean taken instead. On a real hexapod the part of the model in a
    load's mass is 0.1 kg so, and 74 kg otherwise.
    """
    kinds = {source.kind: source for source in estimate.sources}
    narrow, few = estimate.noise_std, kinds.get("period")
    if few is not None and "white" in kinds and few.count - 1 < 3 * len(estimate):
        narrow = kinds["white"].std
    ratio = np.divide(estimate.std, narrow, out=np.ones(len(estimate)), where=narrow > 0)
    return np.asarray(estimate.covariance / np.outer(ratio, ratio) * np.mean(ratio**2))


def load_problem(
    model: Model,
    logs: Sequence[MatchedLog],
    settings: Processing,
    unloaded: Unloaded,
    gains: Mapping[str, float] | None,
) -> LoadProblem:
    """Return the equations of the load, effort minus that of the unloaded robot, of logs processed
    alike.

    Periods that are to be averaged stand one after the other, each with its own motion, low-passed
    as the mean one is, and its own effort: what changes in time is seen, and what differs between
    periods is noise.
    """
    rng, names = np.random.default_rng(0), (*column_names(unloaded.base), *LOAD_PARAMETERS)

    def carrying(log: ProcessedLog) -> ProcessedLog:
        """Return a log in efforts that carries the load, whatever payload it names."""
        in_effort = in_efforts(model, [log], gains)[0][0]
        return replace(in_effort, payload=LOAD_PARAMETERS[0].payload)

    parts, errors, noise = [], [], np.zeros(())
    for log in logs:
        processed = process_log(model, log, settings)
        done = carrying(processed)
        every, doubt = _standing(model, done, _in_time(model, done, names), unloaded)
        parts.append(_beyond(every, unloaded))
        errors.append(np.concatenate([_model_error(every, unloaded), doubt], axis=2))
        # What noise of the positions makes of [W y], over samples, for pairs of rows, (r, r, 11,
        # 11).
        periods = processed.periods if processed.periodic else 1  # noise of a single one
        for pair in perturbed_pairs(processed, rng):
            first, again = (
                _beyond(
                    regression(model, replace(carrying(each), repetitions=None), names), unloaded
                )
                for each in pair
            )
            change = (again.stacked() - first.stacked()) * (every.n_valid > 0)[:, None]
            share = len(every) / len(change) / N_PERTURBATIONS * periods
            noise = noise + share * np.einsum("tic,tjd->ijcd", change, change, optimize=True)
    width = max(error.shape[2] for error in errors)
    errors = [np.pad(error, ((0, 0), (0, 0), (0, width - error.shape[2]))) for error in errors]
    data = parts[0] if len(parts) == 1 else concatenate(parts)
    return LoadProblem(regression=data, noise=noise / len(data), model_error=np.concatenate(errors))


def _in_time(model: Model, done: ProcessedLog, names: Sequence[Parameter]) -> Regression:
    """Return the equations of robot and load, those of averaged periods one after the other, each a
    group.
    """
    if done.average is None or done.cutoff is None or done.repetitions is None:
        return regression(model, done, names)
    parts = []
    for k, (motion, effort) in enumerate(zip(period_motions(model, done), done.repetitions)):
        part = regression(
            model, replace(done, motion=motion, effort=effort, repetitions=None), names
        )
        parts.append(replace(part, group=np.full(len(part), k), recording=None))
    return replace(concatenate(parts), recording=None)


def _beyond(every: Regression, unloaded: Unloaded) -> Regression:
    """Return the equations of the load alone: the effort beyond that of the unloaded robot."""
    b, p = len(unloaded.values), len(LOAD_PARAMETERS)
    matrix = np.zeros((b + p + 1, p + 1))
    matrix[b:, :] = np.eye(p + 1)
    matrix[:b, p] = -unloaded.values
    return every.transform(matrix, LOAD_PARAMETERS, [name.unit for name in LOAD_PARAMETERS])


def _model_error(every: Regression, unloaded: Unloaded) -> FloatArray:
    """Return the efforts that errors of the unloaded robot's parameters and drive gains make, (t,
    r, b + g).
    """
    scale = np.sqrt(np.maximum(np.diag(unloaded.covariance), np.finfo(float).tiny))
    size, axes = np.linalg.eigh(unloaded.covariance / np.outer(scale, scale))
    root = scale[:, None] * axes * np.sqrt(np.maximum(size, 0.0))
    b, columns = len(unloaded.values), np.zeros((*every.effort.shape, len(unloaded.covariance)))
    columns[:, :, :b] = -every.regressor[:, :, :b]
    for k, (motor, gain) in enumerate(unloaded.gains):
        if motor in every.rows:
            row = every.rows.index(motor)
            columns[:, row, b + k] = every.effort[:, row] / gain
    return np.asarray(columns @ root)


def _standing(
    model: Model, done: ProcessedLog, every: Regression, unloaded: Unloaded
) -> tuple[Regression, FloatArray]:
    """Let rows count that never do because joints stand, and return the friction that may hold
    there, (t, r, k).

    Friction of a joint at rest is anything up to +-f, the same all the time: f / sqrt(3) of
    standard deviation. That is what gravity is read with on a robot that stands.
    """
    never, columns = every.n_valid == 0, []
    if every.mask is None or not never.any():
        return every, np.zeros((*every.effort.shape, 0))
    own = model.kinematics.closure_map(done.motion.q.mean(axis=0, keepdims=True))[0]
    for j, joint in enumerate(model.mechanism.joints):
        for name in joint.terms:
            jump = model.mechanism.terms[name].coulomb
            if jump:
                size = jump * abs(unloaded.standard.get(f"{joint.name}.{name}", 0.0)) / np.sqrt(3.0)
                columns.append(np.where(never, own[j] * size, 0.0))
    doubt = np.array(columns).reshape(len(columns), len(never)).T
    return replace(every, mask=every.mask | never), np.broadcast_to(
        doubt, (len(every), *doubt.shape)
    )
