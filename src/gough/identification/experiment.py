"""Processed logs of a robot in efforts, with the regression of each and of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.core.progress import portion, report, tracked
from gough.engine import Model
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.regression import Regression, concatenate
from gough.logs.recording import Recording
from gough.processing import (
    MatchedLog,
    ProcessedLog,
    Processing,
    choose_processing,
    match_robot,
    raised_cutoff,
    regression,
)
from gough.processing.choice import ProcessingChoice
from gough.processing.matching import drive_gains
from gough.processing.processed_log import process_log
from gough.processing.repetitions import with_position_noise
from gough.processing.valid_equations import MIN_VALID_FRACTION

# A log needs so many valid equations for each parameter where the user
# gives the window.
MIN_EQUATIONS_PER_PARAMETER = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Processed logs of a robot with the regression of each and of all."""

    model: Model  # the robot
    base: BaseParameters  # base parameters of the experiment
    # the processing of all logs, and the candidates it was chosen from
    choice: ProcessingChoice
    processed: tuple[ProcessedLog, ...]  # the logs, processed alike
    # of each log, with its valid mask; the effort of `known` parameters
    # is subtracted
    regressions: tuple[Regression, ...]
    problem: Regression  # the regressions of all logs concatenated
    # drive gains that were used, by joint; empty where efforts were
    # recorded
    gains: Mapping[str, float]
    # measured payload parameters, by full name
    known: Mapping[str, float] = field(default_factory=dict)

    @property
    def matched(self) -> tuple[MatchedLog, ...]:
        """The logs matched to the robot, before they were processed."""
        return tuple(log.whole_log for log in self.processed)

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The logs as they were read."""
        return tuple(log.recorded for log in self.matched)

    @property
    def processing(self) -> Processing:
        """How all recordings were processed."""
        return self.choice.processing


@one_blas_thread
def prepare(
    model: Model,
    recordings: Sequence[Recording],
    base: BaseParameters,
    *,
    processing: Processing | None = None,
    gains: Mapping[str, float] | None = None,
) -> Experiment:
    """Choose one processing for all logs where it is not complete, and build their regression."""
    if not recordings:
        raise InvalidInput("there is no recording to identify from")
    with portion(0.0, 0.4):
        logs = match_logs(model, recordings, processing)
    choice = choose_processing(model, logs, base, processing, gains=gains)
    report(0.6)
    with portion(0.6, 0.8):
        processed = [process_log(model, log, choice.processing) for log in tracked(logs)]
    experiment = build_experiment(model, processed, base, choice, gains=gains)
    if processing is not None and processing.window:
        _check_window(experiment, processing.window)
    return experiment


def _check_window(experiment: Experiment, window: float) -> None:
    """Raise if the exclusion window given by the user excludes too much of all logs together."""
    n_valid = np.sum([block.n_valid for block in experiment.regressions], axis=0)
    n_samples = sum(len(block) for block in experiment.regressions)
    fewest = int(n_valid.min())
    needed = MIN_EQUATIONS_PER_PARAMETER * len(experiment.problem.parameters)
    if fewest * len(n_valid) < needed:
        source = experiment.processed[0].source
        if len(experiment.processed) > 1:
            source = f"{len(experiment.processed)} logs"
        raise InvalidInput(
            f"{source}: an exclusion window of {window} s around reversals keeps {fewest} of "
            f"{n_samples} samples; give a shorter one, or 0 to keep all",
            window=window,
        )


def match_logs(
    model: Model, recordings: Sequence[Recording], processing: Processing | None
) -> list[MatchedLog]:
    """Match recordings to the robot, with periods as the settings ask for."""
    repeats = (processing or Processing()).repeats
    return [match_robot(model, recording, repeats) for recording in tracked(recordings)]


def rebuilt_with(
    experiment: Experiment,
    *,
    model: Model | None = None,
    processed: Sequence[ProcessedLog] | None = None,
    gains: Mapping[str, float] | None = None,
) -> Experiment:
    """Return the experiment with another model, another processing or other gains.

    Args:
        experiment: The logs and how they were processed.
        model: Another model of the same geometry; the same by default.
        processed: The same logs processed otherwise; as before by
            default.
        gains: Other drive gains of logs with currents; the same by
            default.
    """
    model = model or experiment.model
    if processed is None:
        settings = experiment.processing
        processed = [process_log(model, log, settings) for log in experiment.matched]
    return build_experiment(
        model,
        processed,
        experiment.base,
        experiment.choice,
        gains=gains or experiment.gains or None,
        known=experiment.known,
    )


def prepare_held_out(
    experiment: Experiment,
    recordings: Sequence[Recording],
    *,
    given: bool = False,
) -> Experiment:
    """Process held-out logs with the settings of the experiment.

    Only the cut-off may be higher: what the filter removes of a faster
    motion is no error of the model.

    Args:
        experiment: The logs that the model is identified from.
        recordings: The held-out logs.
        given: The user has set the cut-off: it is kept.
    """
    values = None
    if not given:
        fitted = weighted_fit(experiment.problem.statistics()).values.tolist()
        values = dict(zip(experiment.problem.parameters, fitted))
        for name in values:
            values[name] += experiment.known.get(name, 0.0)
    return prepare_with_settings(
        experiment.model,
        recordings,
        experiment.base,
        experiment.processing,
        values,
        experiment.gains or None,
        experiment.known,
    )


def prepare_with_settings(
    model: Model,
    recordings: Sequence[Recording],
    base: BaseParameters,
    processing: Processing,
    values: Mapping[Parameter, float] | None,
    gains: Mapping[str, float] | None,
    known: Mapping[str, float] | None = None,
) -> Experiment:
    """Process logs with the settings of others, and build their regression.

    Args:
        model: The robot.
        recordings: The logs.
        base: Base parameters, the columns of the regression.
        processing: Settings of the other logs.
        values: Parameters of the model: the cut-off is raised to that
            with which they predict the logs best. None to keep the
            cut-off.
        gains: Drive gains by joint, for logs with currents.
        known: Measured payload parameters, by full name.
    """
    logs = match_logs(model, recordings, processing)
    if values is not None:
        processing = raised_cutoff(model, logs, base, processing, values, gains=gains)
    processed = process_with(model, logs, processing)
    choice = ProcessingChoice(processing=processed[0].settings, rows=model.rows)
    return build_experiment(model, processed, base, choice, gains=gains, known=known)


def process_with(
    model: Model, logs: Sequence[MatchedLog], settings: Processing
) -> list[ProcessedLog]:
    """Process logs with the settings of others.

    An exclusion window that would remove more than half of a joint's
    equations, as these logs reverse more often, is halved for all of
    them until it does not.
    """
    processed = [process_log(model, log, settings) for log in logs]
    slowest = min(log.recording.rate for log in logs)
    while settings.window and _least_valid_fraction(processed) < MIN_VALID_FRACTION:
        window = settings.window / 2
        if window * slowest <= 1:
            window = 0.0
        settings = replace(settings, window=window)
        processed = [log.at(settings) for log in processed]
    return processed


def _least_valid_fraction(processed: Sequence[ProcessedLog]) -> float:
    """Return the smallest fraction of valid equations of a joint in any log."""
    return min(float(log.valid.mean(axis=0).min()) for log in processed)


def build_experiment(
    model: Model,
    processed: Sequence[ProcessedLog],
    base: BaseParameters,
    choice: ProcessingChoice,
    *,
    gains: Mapping[str, float] | None = None,
    known: Mapping[str, float] | None = None,
) -> Experiment:
    """Build the regression of processed logs, with currents turned into efforts."""
    logs = tuple(processed)
    used_gains: dict[str, float] = {}
    if any(log.current for log in logs):
        logs, used_gains = in_efforts(model, logs, gains)
    regressions = [regression(model, log, base) for log in logs]
    if any(block.replicates is not None for block in regressions):
        values = weighted_fit(concatenate(regressions).statistics()).values
        for k, log in enumerate(logs):
            regressions[k] = with_position_noise(model, log, regressions[k], base, values)
    if known:
        for k, block in enumerate(regressions):
            effort = block.effort - known_effort(block, known)
            regressions[k] = replace(block, effort=effort)
    return Experiment(
        model=model,
        base=base,
        choice=choice,
        processed=logs,
        regressions=tuple(regressions),
        problem=concatenate(regressions),
        gains=used_gains,
        known=known or {},
    )


def known_effort(block: Regression, known: Mapping[str, float]) -> FloatArray:
    """Return the effort of known payload parameters, (t, r). [row unit]"""
    effort = np.zeros(block.effort.shape)
    for name, parameter in known.items():
        if name in block.parameters:
            effort += block.regressor[:, :, block.parameters.index(name)] * parameter
    return effort


def in_efforts(
    model: Model,
    processed: Sequence[ProcessedLog],
    gains: Mapping[str, float] | None = None,
) -> tuple[tuple[ProcessedLog, ...], dict[str, float]]:
    """Turn currents into efforts, and return the drive gains used; none without currents."""
    used_gains = {}
    if any(log.current for log in processed):
        used_gains = drive_gains(model, gains)
    gain_vector = np.array([used_gains.get(name, 1.0) for name in model.mechanism.actuated])
    return tuple(log.with_gains(gain_vector) for log in processed), used_gains
