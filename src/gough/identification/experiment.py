"""Recordings made ready for estimation: one processing for all, one regression of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.names import Parameter, index_of
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression, concatenate
from gough.engine import Model
from gough.estimators.estimate import Estimate
from gough.estimators.linear.solve import first_values
from gough.estimators.noise_information import attenuation, information_over_noise, whitened_rows
from gough.logs.recording import Recording
from gough.processing import (
    Processed,
    Processing,
    ProcessingChoice,
    choose_processing,
    process,
    raised_cutoff,
    regression,
)
from gough.processing.choice import MOST_LEFT_OUT
from gough.processing.families import with_position_noise
from gough.processing.masks import noise_again
from gough.processing.pieces import nominal_gains
from gough.processing.ready import ready

SMALL = 0.1  # sigmas: what noise of the positions takes from values is not counted below
AGAIN = 4  # times that noise is added again, each time to another stretch of a long log
ENOUGH = 20000  # samples of a log without periods in which noise shows what it does


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Logs of a robot, and all that became of them on the way to an estimate."""

    model: Model
    base: BaseParameters
    recordings: tuple[Recording, ...]
    choice: ProcessingChoice  # the processing of all, and what it was chosen from
    processed: tuple[Processed, ...]
    parts: tuple[Regression, ...]  # with the equations that count, less the efforts of what is `known`
    problem: Regression  # all parts together
    gains: Mapping[str, float]  # of drives that were used, by joint; empty where efforts were recorded
    known: Mapping[str, float] = field(default_factory=dict)  # payload parameters that were measured

    @property
    def processing(self) -> Processing:
        """How all recordings were processed."""
        return self.choice.processing


@one_blas_thread
def prepare(model: Model, recordings: Sequence[Recording], base: BaseParameters, *,
            processing: Processing | None = None, gains: Mapping[str, float] | None = None) -> Experiment:
    """Choose one processing for all recordings where it is not complete, and build their joint regression.

    Args:
        base: Base parameters (with payload columns where payloads were carried).
        gains: Drive gains by joint for logs with currents; the robot file's by default.
    """
    if not recordings:
        raise InvalidInput("there is no recording to identify from")
    choice = choose_processing(model, recordings, base, processing, gains=gains)
    done = [process(model, recording, choice.processing) for recording in recordings]
    experiment = assemble(model, recordings, done, base, choice, gains=gains)
    window = 0.0 if processing is None else processing.window or 0.0
    for log, part in zip(experiment.processed, experiment.parts):
        if window and part.counts.min() * len(part.rows) < 3 * len(part.parameters):
            raise InvalidInput(f"{log.source}: a window of {window} s about reversals leaves {part.counts.min()} of "
                               f"{len(part)} samples; give a shorter one, or 0 to keep all", window=window)
    return experiment


def prepare_unseen(experiment: Experiment, recordings: Sequence[Recording], *, given: bool = False) -> Experiment:
    """Make logs that are to be predicted ready, processed as those of the experiment that a model is found from.

    Only the cut-off may be higher, unless it was given: what a faster motion loses to it is no error of the model.
    """
    names, known = experiment.problem.parameters, experiment.known
    values = None if given else {name: value + known.get(name, 0.0)
                                 for name, value in zip(names, first_values(experiment.problem).tolist())}
    return processed_as(experiment.model, recordings, experiment.base, experiment.processing, values,
                        experiment.gains or None, known)


def processed_as(model: Model, recordings: Sequence[Recording], base: BaseParameters, processing: Processing,
                 values: Mapping[Parameter, float] | None, gains: Mapping[str, float] | None,
                 known: Mapping[str, float] | None = None) -> Experiment:
    """Make logs ready by the processing of others, with a cut-off that values of those parameters predict best with.

    A window about reversals that would take half of a row from logs which reverse more often is narrower.
    """
    used = processing if values is None else raised_cutoff(model, recordings, base, processing, values, gains=gains)
    done = [process(model, recording, used) for recording in recordings]
    while used.window and min(float(log.mask.mean(axis=0).min()) for log in done) < MOST_LEFT_OUT:
        narrower = used.window / 2
        used = replace(used, window=narrower if narrower * min(log.rate for log in recordings) > 1 else 0.0)
        done = [process(model, recording, used) for recording in recordings]
    choice = ProcessingChoice(processing=used, rows=model.rows)
    return assemble(model, recordings, done, base, choice, gains=gains, known=known)


def assemble(model: Model, recordings: Sequence[Recording], processed: Sequence[Processed], base: BaseParameters,
             choice: ProcessingChoice, *, gains: Mapping[str, float] | None = None,
             known: Mapping[str, float] | None = None) -> Experiment:
    """Build the joint regression of processed recordings."""
    done, factors = in_efforts(model, processed, gains)
    parts = [regression(model, log, base) for log in done]
    if any(part.replicates is not None for part in parts):
        values = first_values(concatenate(parts))
        parts = [with_position_noise(model, log, part, base, values) for log, part in zip(done, parts)]
    if known:
        parts = [replace(part, effort=part.effort - known_effort(part, known)) for part in parts]
    return Experiment(model=model, base=base, recordings=tuple(recordings), choice=choice, processed=done,
                      parts=tuple(parts), problem=parts[0] if len(parts) == 1 else concatenate(parts), gains=factors,
                      known=known or {})


def known_effort(part: Regression, known: Mapping[str, float]) -> FloatArray:
    """Return the effort of known payload parameters, (t, r). [row unit]"""
    total = np.zeros(part.effort.shape)
    for name, value in known.items():
        if name in part.parameters:
            total += part.regressor[:, :, part.parameters.index(name)] * value
    return total


@one_blas_thread
def with_information(experiment: Experiment, estimate: Estimate) -> Estimate:
    """Return an estimate that knows the information on each parameter over that of position noise alone.

    What that noise takes from the values is not taken back, as its size is a guess on real logs: it widens the sigmas.
    Drive gains among the parameters have no such figure.
    """
    model, settings, rng = experiment.model, experiment.processing, np.random.default_rng(0)
    noise = estimate.residual_rms if estimate.noise_covariance is None else np.sqrt(np.diag(estimate.noise_covariance))
    names = [name for name in estimate.parameters if name in experiment.problem.parameters]
    changes = []
    for recording, part in zip(experiment.recordings, experiment.parts):
        log = ready(model, recording, settings)
        for stretch, more in drawn_again(log, settings, rng):
            first, again = (part if r is log else
                            regression(model, replace(process(model, r, settings), current=False), experiment.base)
                            for r in (stretch, more))
            change = replace(first, regressor=again.regressor - first.regressor).select(names)
            changes.append(whitened_rows(change, noise) * np.sqrt(len(part) / len(first) / AGAIN))
    rows, every = whitened_rows(experiment.problem.select(names), noise), np.concatenate(changes)
    place = [index_of(estimate.parameters, name) for name in names]
    information, taken = np.full(len(estimate), np.nan), np.zeros(len(estimate))
    information[place] = information_over_noise(rows, every, names)
    taken[place] = attenuation(rows, every, estimate.values[place], names)
    estimate, share = replace(estimate, information=information), np.abs(taken) / np.maximum(estimate.std, TINY)
    worst = int(np.argmax(share))
    if share[worst] < SMALL:
        return estimate
    note = () if share[worst] <= 1 else (
        f"noise of the positions takes about {taken[worst]:.2g} from {estimate.parameters[worst]}, and others: more "
        "than their standard deviations, which are widened by it; a lower cut-off or repetitions help",)
    return replace(estimate, covariance=estimate.covariance + np.outer(taken, taken), notes=(*estimate.notes, *note),
                   sources=tuple(replace(source, std=np.hypot(source.std, taken)) for source in estimate.sources))


def drawn_again(log: Recording, settings: Processing,
                rng: np.random.Generator) -> Iterator[tuple[Recording, Recording]]:
    """Yield `AGAIN` stretches of a log, or the whole of one that is short or averaged, without and with more noise."""
    whole = len(log) <= ENOUGH or settings.method_for(log) in ("explicit", "implicit")
    for start in np.linspace(0, 0 if whole else len(log) - ENOUGH, AGAIN).astype(int):
        stretch = log if whole else log.take(slice(start, start + ENOUGH))
        yield stretch, noise_again(stretch, rng)


def in_efforts(model: Model, processed: Sequence[Processed],
               gains: Mapping[str, float] | None = None) -> tuple[tuple[Processed, ...], dict[str, float]]:
    """Return recordings with currents turned into efforts, and the drive gains used; none where there are no currents.

    Given gains come before the robot file's.
    """
    factors = drive_gains(model, gains) if any(log.current for log in processed) else {}
    vector = np.array([factors.get(name, 1.0) for name in model.mechanism.actuated])
    return tuple(log.with_gains(vector) for log in processed), factors


def drive_gains(model: Model, gains: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return a drive gain for every motor: given ones, else the robot file's; raises if one is missing or wrong."""
    motors, found = model.mechanism.actuated, nominal_gains(model, gains)
    for name in gains or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}")
    for name in motors:
        if name not in found:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' in the robot file, "
                "or identify the gains from an unloaded log and one with a weighed payload")
        if not found[name] > 0:
            raise InvalidInput(f"the drive gain of '{name}' is {found[name]}, expected a positive number")
    return found
