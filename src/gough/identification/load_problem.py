"""From logs of a loaded robot to the equations of its load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.names import LOAD
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression, concatenate
from gough.engine import Model, base_parameters
from gough.engine.model import column_names
from gough.estimators.load.fit import LoadProblem
from gough.identification.experiment import first_fit, in_efforts
from gough.identification.result import Identification
from gough.logs.recording import Recording
from gough.mechanism import TERMS
from gough.processing import Processed, Processing, process, regression
from gough.processing.noise import noise_again
from gough.processing.ready import ready
from gough.processing.repetitions import with_position_noise

AGAIN = 4  # times that the noise of the positions is drawn again
ENOUGH = 20000  # samples of a log without periods in which noise shows what it does


@dataclass(frozen=True, kw_only=True, eq=False)
class Unloaded:
    """What is known of the robot without its load.

    Args:
        base: Its base parameters.
        values: Theirs, (b,).
        covariance: Of the errors of these values and, after them, of drive gains, (b + g, b + g).
        gains: Motors whose gains were identified, in that order, and these gains, (g,).
        standard: Standard parameters with the same efforts, by name.
    """

    base: BaseParameters
    values: FloatArray
    covariance: FloatArray
    gains: tuple[tuple[str, float], ...]
    standard: Mapping[str, float]

    @classmethod
    def of(cls, model: Model, result: Identification | None, values: FloatArray | None) -> Unloaded:
        """Return the robot as identified, or as given or the robot file's, which are taken as exact."""
        names = model.mechanism.standard.names
        if result is None or values is not None:
            table = dict(zip(names, (model.standard_values() if values is None else values).tolist()))
            base = base_parameters(model)
            return cls(base=base, values=base.values([table[name] for name in base.standard]), standard=table, gains=(),
                       covariance=np.zeros((len(base), len(base))))
        e = result.estimate
        own = [k for k, name in enumerate(e.parameters) if name.payload is None and not name.is_gain]
        gains = [k for k, name in enumerate(e.parameters) if name.is_gain]
        every = [*own, *gains]
        return cls(base=result.base.select([e.parameters[k] for k in own]), values=e.values[own],
                   covariance=e.covariance[np.ix_(every, every)],
                   gains=tuple((e.parameters[k].owner, float(e.values[k])) for k in gains),
                   standard=dict(zip(names, result.standard(model).tolist())))


def load_problem(model: Model, recordings: Sequence[Recording], settings: Processing, unloaded: Unloaded,
                 gains: Mapping[str, float] | None) -> LoadProblem:
    """Return the equations of the load, effort minus that of the unloaded robot, of logs processed alike.

    Averaged periods stand one after the other again, each with its own effort: what changes in time is seen, and what
    differs between periods is noise. The effort of a period is corrected for its own positions (`with_position_noise`).

    Args:
        model: The robot.
        recordings: Logs with the load.
        settings: How they are processed; complete.
        unloaded: The robot without it.
        gains: Drive gains for logs with currents.
    """
    rng = np.random.default_rng(0)
    parts, errors, noise = [], [], []
    for recording in recordings:
        log = ready(model, recording, settings)
        done = _carrying(model, log, settings, gains)
        every = regression(model, done, (*column_names(unloaded.base), *LOAD))
        if every.replicates is not None:
            first = np.append(unloaded.values, first_fit(_beyond(every, unloaded)))
            every = with_position_noise(model, done, every, every.parameters, first)
        every, doubt = _standing(model, done, every, unloaded)
        error = np.concatenate([_model_error(every, unloaded), doubt], axis=2)
        part, error = _in_time(_beyond(every, unloaded), error, done)
        parts.append(part)
        errors.append(error)
        noise.append(len(part) * _noise(model, log, settings, unloaded, gains, part.counts > 0, rng))
    width = max(error.shape[2] for error in errors)
    errors = [np.pad(error, ((0, 0), (0, 0), (0, width - error.shape[2]))) for error in errors]
    data = parts[0] if len(parts) == 1 else concatenate(parts)
    return LoadProblem(regression=data, noise=np.sum(noise, axis=0) / len(data), model_error=np.concatenate(errors))


def _carrying(model: Model, log: Recording, settings: Processing, gains: Mapping[str, float] | None) -> Processed:
    """Return a processed log in efforts that carries the load, whatever it says of its payload."""
    done = in_efforts(model, [process(model, log, settings)], gains)[0][0]
    return replace(done, payload=LOAD[0].payload)


def _beyond(every: Regression, unloaded: Unloaded) -> Regression:
    """Return the equations of the load alone: the effort beyond that of the unloaded robot."""
    b, p = len(unloaded.values), len(LOAD)
    matrix = np.zeros((b + p + 1, p + 1))
    matrix[b:, :] = np.eye(p + 1)
    matrix[:b, p] = -unloaded.values
    return every.transform(matrix, LOAD, [name.unit for name in LOAD])


def _model_error(every: Regression, unloaded: Unloaded) -> FloatArray:
    """Return the efforts that errors of the unloaded robot's parameters and drive gains make, (t, r, b + g)."""
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


def _standing(model: Model, done: Processed, every: Regression, unloaded: Unloaded) -> tuple[Regression, FloatArray]:
    """Let rows count that never do because joints stand, and return the friction that may hold there, (t, r, k).

    Friction of a joint at rest is anything up to +-f, the same all the time: f / sqrt(3) of standard deviation. That is
    what gravity is read with on a robot that stands.
    """
    never = every.counts == 0
    none = np.zeros((*every.effort.shape, 0))
    if every.mask is None or not never.any():
        return every, none
    own = model.kinematics.closure_map(done.motion.q.mean(axis=0, keepdims=True))[0]
    columns = []
    for j, joint in enumerate(model.mechanism.joints):
        for term in (name for name in joint.terms if TERMS[name].coulomb):
            size = TERMS[term].coulomb * abs(unloaded.standard.get(f"{joint.name}.{term}", 0.0)) / np.sqrt(3.0)
            columns.append(np.where(never, own[j] * size, 0.0))
    doubt = np.broadcast_to(np.array(columns).T, (len(every), len(never), len(columns))) if columns else none
    return replace(every, mask=every.mask | never), doubt


def _in_time(part: Regression, error: FloatArray, done: Processed) -> tuple[Regression, FloatArray]:
    """Return the repetitions of a mean period one after the other, each a group with its own effort."""
    if part.replicates is None or done.average is None or len(part) != len(done.average):
        return part, error
    count, n = len(part.replicates), len(part)
    again = np.tile(np.arange(n), count)
    return replace(replace(part, replicates=None).take(again), effort=part.replicates.reshape(count * n, -1),
                   group=np.repeat(np.arange(count), n), time=done.average.recording.time[:count * n]), error[again]


def _noise(model: Model, log: Recording, settings: Processing, unloaded: Unloaded, gains: Mapping[str, float] | None,
           rows: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Return the mean over samples of what noise of the positions makes of [W y], for pairs of rows, (r, r, 11, 11)."""
    long = len(log) > ENOUGH and settings.method_for(log) == "time"
    starts = np.linspace(0, len(log) - ENOUGH, AGAIN).astype(int) if long else [0] * AGAIN
    names, total = (*column_names(unloaded.base), *LOAD), np.zeros(())
    for start in starts:
        stretch = log.take(slice(start, start + ENOUGH)) if long else log
        first, again = (_beyond(regression(model, replace(_carrying(model, each, settings, gains), replicates=None),
                                           names), unloaded) for each in (stretch, noise_again(stretch, rng)))
        change = (again.stacked() - first.stacked()) * rows[:, None]
        total = total + np.einsum("tic,tjd->ijcd", change, change, optimize=True) / len(change) / AGAIN
    return np.asarray(total)
