"""Build the regression of a load from logs of the loaded robot."""

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
from gough.identification.experiment import in_efforts
from gough.identification.position_noise import N_PERTURBATIONS, perturbed_pairs
from gough.identification.result import Identification
from gough.processing import MatchedLog, ProcessedLog, Processing, regression
from gough.processing.processed_log import process_log
from gough.processing.repetitions import period_motions

# The scatter of few periods is not a reliable covariance: white noise
# is taken instead if there are fewer degrees of freedom than so many
# for each parameter.
MIN_PERIOD_FREEDOM = 3


class Unloaded(NamedTuple):
    """The model of the robot without its load."""

    base: BaseParameters
    values: FloatArray  # of the base parameters, (b,)
    # of the errors of these values and, after them, of drive gains, (b
    # + g, b + g)
    covariance: FloatArray
    # identified ones by motor, in that order
    gains: tuple[tuple[str, float], ...]
    # standard parameters with the same efforts, by name
    standard: Mapping[str, float]


def unloaded_robot(
    model: Model, result: Identification | None, values: FloatArray | None
) -> Unloaded:
    """Return the robot as identified, or with values that are taken as exact.

    Args:
        model: The robot.
        result: Its identification without load.
        values: Standard parameters, (p,); the robot file's by default.
    """
    names = model.mechanism.standard.names
    if result is None or values is not None:
        if values is None:
            values = model.standard_values()
        standard = dict(zip(names, values.tolist()))
        base = base_parameters(model)
        return Unloaded(
            base=base,
            values=base.values([standard[name] for name in base.standard]),
            covariance=np.zeros((len(base), len(base))),
            gains=(),
            standard=standard,
        )
    estimate = result.estimate
    robot = []
    motors = []
    for k, name in enumerate(estimate.parameters):
        if name.is_gain:
            motors.append(k)
        elif name.payload is None:
            robot.append(k)
    columns = [*robot, *motors]
    gains = [(estimate.parameters[k].owner, float(estimate.values[k])) for k in motors]
    return Unloaded(
        base=result.base.select([estimate.parameters[k] for k in robot]),
        values=estimate.values[robot],
        covariance=_evenly_inflated(estimate)[np.ix_(columns, columns)],
        gains=tuple(gains),
        standard=dict(zip(names, result.standard(model).tolist())),
    )


def _evenly_inflated(estimate: Estimate) -> FloatArray:
    """Return the covariance of noise times one inflation factor for all parameters, (p, p).

    Errors of nearly collinear parameters cancel in the efforts. They no
    longer do where variances were inflated one by one (by blocks, logs,
    or the scatter of few repetitions): the mean factor is used instead.
    On a real hexapod the model's contribution to the standard error of
    a load's mass is 0.1 kg with it, and 74 kg without.
    """
    components = {component.kind: component for component in estimate.sources}
    noise_std = estimate.noise_std
    period = components.get("period")
    white = components.get("white")
    if period is not None and white is not None:
        few_periods = period.count - 1 < MIN_PERIOD_FREEDOM * len(estimate)
        noise_std = white.std if few_periods else noise_std
    ratio = np.ones(len(estimate))
    np.divide(estimate.std, noise_std, out=ratio, where=noise_std > 0)
    return np.asarray(estimate.covariance / np.outer(ratio, ratio) * np.mean(ratio**2))


def load_problem(
    model: Model,
    logs: Sequence[MatchedLog],
    settings: Processing,
    unloaded: Unloaded,
    gains: Mapping[str, float] | None,
) -> LoadProblem:
    """Return the regression of the load: the effort minus that of the unloaded robot.

    Periods that are averaged elsewhere follow one another, each with
    its own motion, low-passed as the mean one is, and its own effort: a
    change in time is visible, and differences between periods are
    noise.

    Args:
        model: The robot.
        logs: Logs with the load.
        settings: Processing of all logs.
        unloaded: The model of the unloaded robot.
        gains: Drive gains by joint, for logs with currents.
    """
    rng = np.random.default_rng(0)
    names = (*column_names(unloaded.base), *LOAD_PARAMETERS)
    blocks = []
    errors = []
    noise = np.zeros(())
    for log in logs:
        processed = process_log(model, log, settings)
        carrying = _carrying(model, processed, gains)
        whole = _in_time(model, carrying, names)
        whole, friction = _with_joints_at_rest(model, carrying, whole, unloaded)
        blocks.append(_beyond(whole, unloaded))
        errors.append(np.concatenate([_model_error(whole, unloaded), friction], axis=2))
        # Squares of the change of [W y] by position noise, for pairs of
        # rows, (r, r, 11, 11).
        n_periods = processed.periods if processed.periodic else 1  # noise of a single one
        used_rows = (whole.n_valid > 0)[:, None]
        for pair in perturbed_pairs(processed, rng):
            stacked = []
            for block in pair:
                single = replace(_carrying(model, block, gains), repetitions=None)
                stacked.append(_beyond(regression(model, single, names), unloaded).stacked())
            change = (stacked[1] - stacked[0]) * used_rows
            scale = len(whole) / len(change) / N_PERTURBATIONS * n_periods
            noise = noise + scale * np.einsum("tic,tjd->ijcd", change, change, optimize=True)
    width = max(error.shape[2] for error in errors)
    for k, error in enumerate(errors):
        errors[k] = np.pad(error, ((0, 0), (0, 0), (0, width - error.shape[2])))
    data = blocks[0]
    if len(blocks) > 1:
        data = concatenate(blocks)
    return LoadProblem(
        regression=data,
        noise=noise / len(data),
        model_error=np.concatenate(errors),
    )


def _carrying(model: Model, log: ProcessedLog, gains: Mapping[str, float] | None) -> ProcessedLog:
    """Return a log in efforts that carries the load, whatever payload it names."""
    (log_in_efforts,), _ = in_efforts(model, [log], gains)
    return replace(log_in_efforts, payload=LOAD_PARAMETERS[0].payload)


def _in_time(model: Model, log: ProcessedLog, names: Sequence[Parameter]) -> Regression:
    """Return the regression of robot and load, with each averaged period as a group."""
    if log.average is None or log.cutoff is None or log.repetitions is None:
        return regression(model, log, names)
    blocks = []
    for k, motion in enumerate(period_motions(model, log)):
        period = replace(log, motion=motion, effort=log.repetitions[k], repetitions=None)
        block = regression(model, period, names)
        blocks.append(replace(block, group=np.full(len(block), k), recording=None))
    return replace(concatenate(blocks), recording=None)


def _beyond(whole: Regression, unloaded: Unloaded) -> Regression:
    """Return the regression of the load alone: the effort beyond that of the unloaded robot."""
    b = len(unloaded.values)
    p = len(LOAD_PARAMETERS)
    matrix = np.zeros((b + p + 1, p + 1))
    matrix[b:, :] = np.eye(p + 1)
    matrix[:b, p] = -unloaded.values
    return whole.transform(matrix, LOAD_PARAMETERS, [name.unit for name in LOAD_PARAMETERS])


def _model_error(whole: Regression, unloaded: Unloaded) -> FloatArray:
    """Return efforts by independent errors of the unloaded model and drive gains, (t, r, b + g)."""
    std = np.sqrt(np.maximum(np.diag(unloaded.covariance), np.finfo(float).tiny))
    eigenvalues, axes = np.linalg.eigh(unloaded.covariance / np.outer(std, std))
    root = std[:, None] * axes * np.sqrt(np.maximum(eigenvalues, 0.0))
    b = len(unloaded.values)
    columns = np.zeros((*whole.effort.shape, len(unloaded.covariance)))
    columns[:, :, :b] = -whole.regressor[:, :, :b]
    for k, (motor, gain) in enumerate(unloaded.gains):
        if motor in whole.rows:
            row = whole.rows.index(motor)
            columns[:, row, b + k] = whole.effort[:, row] / gain
    return np.asarray(columns @ root)


def _with_joints_at_rest(
    model: Model, log: ProcessedLog, whole: Regression, unloaded: Unloaded
) -> tuple[Regression, FloatArray]:
    """Make rows valid that never are as joints are at rest, and return their friction, (t, r, k).

    Coulomb friction of a joint at rest is constant within +-f: its
    standard deviation is f / sqrt(3). With that uncertainty gravity is
    measured on a robot at rest.
    """
    never_valid = whole.n_valid == 0
    if whole.mask is None or not never_valid.any():
        return whole, np.zeros((*whole.effort.shape, 0))
    mean_position = log.motion.q.mean(axis=0, keepdims=True)
    closure_map = model.kinematics.closure_map(mean_position)[0]
    columns = []
    for j, joint in enumerate(model.mechanism.joints):
        for name in joint.terms:
            jump = model.mechanism.terms[name].coulomb
            if jump:
                coefficient = abs(unloaded.standard.get(f"{joint.name}.{name}", 0.0))
                std = jump * coefficient / np.sqrt(3.0)
                columns.append(np.where(never_valid, closure_map[j] * std, 0.0))
    friction = np.array(columns).reshape(len(columns), len(never_valid)).T
    at_all_samples = np.broadcast_to(friction, (len(whole), *friction.shape))
    return replace(whole, mask=whole.mask | never_valid), at_all_samples
