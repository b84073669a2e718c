"""Processed logs of a robot with their joint regression, in efforts or in currents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.names import INERTIAL, Parameter, index_of
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.core.progress import portion, report, tracked
from gough.engine import Model
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import Estimate
from gough.fitting.gain_problem import GainProblem, gain_problem, gain_unit
from gough.fitting.noise_information import (
    attenuation,
    information_over_noise,
    whitened_rows,
)
from gough.fitting.regression import Regression, concatenate
from gough.logs.recording import Recording
from gough.mechanism.types import Payload
from gough.processing import (
    MatchedLog,
    ProcessedLog,
    Processing,
    choose_processing,
    match_robot,
    raised_cutoff,
    regression,
)
from gough.processing.choice import MIN_WINDOW_VALID_FRACTION, ProcessingChoice
from gough.processing.likelihood_models import with_position_noise
from gough.processing.processed_log import nominal_gains, process_log

# Attenuation bias by position noise below this many standard errors is ignored.
NEGLIGIBLE_ATTENUATION = 0.1
# Perturbations of the positions, each of another block of a long log.
N_PERTURBATIONS = 4
# A log without periods is perturbed in blocks of so many samples.
PERTURBED_SAMPLES = 20000


# Name of a payload whose mass was measured and which the robot file does not declare.
UNDECLARED_PAYLOAD = "load"
# A log needs so many valid equations for each parameter where the user gives the window.
MIN_EQUATIONS_PER_PARAMETER = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Processed logs of a robot with the regression of each and of all."""

    model: Model  # the robot
    base: BaseParameters  # base parameters of the experiment
    recordings: tuple[Recording, ...]  # the logs
    choice: ProcessingChoice  # the processing of all logs, and the candidates it was chosen from
    processed: tuple[ProcessedLog, ...]  # the logs, processed alike
    # of each log, with its valid mask; the effort of `known` parameters is subtracted
    regressions: tuple[Regression, ...]
    problem: Regression  # the regressions of all logs concatenated
    # drive gains that were used, by joint; empty where efforts were recorded
    gains: Mapping[str, float]
    # measured payload parameters, by full name
    known: Mapping[str, float] = field(default_factory=dict)

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
    experiment = build_experiment(model, recordings, processed, base, choice, gains=gains)
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
    gains: Mapping[str, float] | None = None,
) -> Experiment:
    """Return the experiment with another model or other gains, processed as before.

    Args:
        experiment: The logs and how they were processed.
        model: Another model of the same geometry; the same by default.
        gains: Other drive gains of logs with currents; the same by default.
    """
    model = model or experiment.model
    logs = matched_logs(experiment)
    processed = [process_log(model, log, experiment.processing) for log in logs]
    return build_experiment(
        model,
        experiment.recordings,
        processed,
        experiment.base,
        experiment.choice,
        gains=gains or experiment.gains or None,
        known=experiment.known,
    )


def matched_logs(experiment: Experiment) -> list[MatchedLog]:
    """Return the logs that an experiment was processed from."""
    return [log.matched for log in experiment.processed if log.matched is not None]


def prepare_held_out(
    experiment: Experiment,
    recordings: Sequence[Recording],
    *,
    given: bool = False,
) -> Experiment:
    """Process held-out logs with the settings of the experiment.

    Only the cut-off may be higher: what the filter removes of a faster motion is no error
    of the model.

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
        values: Parameters of the model: the cut-off is raised to that with which they
            predict the logs best. None to keep the cut-off.
        gains: Drive gains by joint, for logs with currents.
        known: Measured payload parameters, by full name.
    """
    logs = match_logs(model, recordings, processing)
    if values is not None:
        processing = raised_cutoff(model, logs, base, processing, values, gains=gains)
    processed = process_with(model, logs, processing)
    choice = ProcessingChoice(processing=processed[0].settings, rows=model.rows)
    return build_experiment(model, recordings, processed, base, choice, gains=gains, known=known)


def process_with(
    model: Model, logs: Sequence[MatchedLog], settings: Processing
) -> list[ProcessedLog]:
    """Process logs with the settings of others.

    An exclusion window that would remove more than half of a joint's equations, as these
    logs reverse more often, is halved for all of them until it does not.
    """
    processed = [process_log(model, log, settings) for log in logs]
    slowest = min(log.rate for log in logs)
    while settings.window and _least_valid_fraction(processed) < MIN_WINDOW_VALID_FRACTION:
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
    recordings: Sequence[Recording],
    processed: Sequence[ProcessedLog],
    base: BaseParameters,
    choice: ProcessingChoice,
    *,
    gains: Mapping[str, float] | None = None,
    known: Mapping[str, float] | None = None,
) -> Experiment:
    """Build the regression of processed logs, with currents turned into efforts."""
    logs, used_gains = in_efforts(model, processed, gains)
    regressions = [regression(model, log, base) for log in logs]
    if any(block.replicates is not None for block in regressions):
        values = weighted_fit(concatenate(regressions).statistics()).values
        for k, log in enumerate(logs):
            regressions[k] = with_position_noise(model, log, regressions[k], base, values)
    if known:
        for k, block in enumerate(regressions):
            effort = block.effort - known_effort(block, known)
            regressions[k] = replace(block, effort=effort)
    problem = regressions[0]
    if len(regressions) > 1:
        problem = concatenate(regressions)
    return Experiment(
        model=model,
        base=base,
        recordings=tuple(recordings),
        choice=choice,
        processed=logs,
        regressions=tuple(regressions),
        problem=problem,
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


@one_blas_thread
def add_position_noise_effects(experiment: Experiment, estimate: Estimate) -> Estimate:
    """Add the effects of position noise to an estimate: signal-to-noise ratio and attenuation.

    `information` becomes the signal-to-noise ratio of each regressor column. The values are
    not corrected for attenuation, as the noise of real logs is not known exactly: the
    standard errors are widened by it instead. Drive gains among the parameters have
    neither.
    """
    names, rows, changes = _position_noise(experiment, estimate)
    place = [index_of(estimate.parameters, name) for name in names]
    information = np.full(len(estimate), np.nan)
    information[place] = information_over_noise(rows, changes, names)
    bias = np.zeros(len(estimate))
    bias[place] = attenuation(rows, changes, estimate.values[place], names)
    return _widened_by(replace(estimate, information=information), bias)


@one_blas_thread
def attenuation_bias(experiment: Experiment, estimate: Estimate) -> FloatArray:
    """Return the attenuation of an estimate by position noise, (p,)."""
    names, rows, changes = _position_noise(experiment, estimate)
    place = [index_of(estimate.parameters, name) for name in names]
    bias = np.zeros(len(estimate))
    bias[place] = attenuation(rows, changes, estimate.values[place], names)
    return bias


def _position_noise(
    experiment: Experiment, estimate: Estimate
) -> tuple[list[Parameter], FloatArray, FloatArray]:
    """Return the parameters that are no gains, their whitened regressor and its changes by noise.

    Both are triangular or stacked rows, (k, p).
    """
    noise = estimate.residual_rms
    if estimate.noise_covariance is not None:
        noise = np.sqrt(np.diag(estimate.noise_covariance))
    names = [name for name in estimate.parameters if name in experiment.problem.parameters]
    rows = whitened_rows(experiment.problem.select(names), noise)
    return names, rows, _regressor_changes(experiment, names, noise)


def _regressor_changes(
    experiment: Experiment, names: Sequence[Parameter], noise: FloatArray
) -> FloatArray:
    """Return the whitened change of the regressor by position noise, for all logs, (k, p)."""
    rng = np.random.default_rng(0)
    changes = []
    for log, whole in zip(experiment.processed, experiment.regressions):
        for block, perturbed in perturbed_pairs(log, rng):
            before = whole
            if block is not log:
                before = _regression_as_recorded(experiment, block)
            after = _regression_as_recorded(experiment, perturbed)
            change = replace(before, regressor=after.regressor - before.regressor).select(names)
            scale = np.sqrt(len(whole) / len(before) / N_PERTURBATIONS)
            changes.append(whitened_rows(change, noise) * scale)
    return np.concatenate(changes)


def _regression_as_recorded(experiment: Experiment, log: ProcessedLog) -> Regression:
    """Return the regression of a log whose currents, if any, need not be efforts."""
    return regression(experiment.model, replace(log, current=False), experiment.base)


def _widened_by(estimate: Estimate, bias: FloatArray) -> Estimate:
    """Return the estimate with standard errors widened by an attenuation bias, (p,).

    Nothing changes if the bias is negligible beside the standard errors.
    """
    ratio = np.abs(bias) / np.maximum(estimate.std, TINY)
    worst = int(np.argmax(ratio))
    if ratio[worst] < NEGLIGIBLE_ATTENUATION:
        return estimate
    notices = estimate.notices
    if ratio[worst] > 1:
        notice = Notice(
            rule="attenuation",
            level="info",
            where=estimate.parameters[worst],
            text=f"position noise lowers it, and others, by about {bias[worst]:.2g}: more than "
            "the standard error, which is widened by that",
            advice="a lower cut-off or repetitions help",
        )
        notices = (*notices, notice)
    sources = []
    for source in estimate.sources:
        sources.append(replace(source, std=np.hypot(source.std, bias)))
    return replace(
        estimate,
        covariance=estimate.covariance + np.outer(bias, bias),
        notices=notices,
        sources=tuple(sources),
    )


def perturbed_pairs(
    log: ProcessedLog, rng: np.random.Generator
) -> Iterator[tuple[ProcessedLog, ProcessedLog]]:
    """Yield `N_PERTURBATIONS` blocks of a log, each without and with added position noise.

    A log that is short or averaged over its periods is one block, perturbed several times.
    """
    matched = log.matched
    assert matched is not None
    if log.periodic or len(matched) <= PERTURBED_SAMPLES:
        for _ in range(N_PERTURBATIONS):
            yield log, log.perturbed(rng)
        return
    starts = np.linspace(0, len(matched) - PERTURBED_SAMPLES, N_PERTURBATIONS).astype(int)
    for start in starts.tolist():
        block = matched.block(slice(start, start + PERTURBED_SAMPLES))
        processed = process_log(log.model, block, log.settings)
        yield processed, processed.perturbed(rng)


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


def drive_gains(model: Model, gains: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the drive gain of every motor: the given one, else that of the robot file.

    Raises:
        InvalidInput: A gain is not positive, or given for a joint that is no motor.
        InvalidRecording: The gain of a motor is not known.
    """
    motors = model.mechanism.actuated
    gain_by_motor = nominal_gains(model, gains)
    for name in gains or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}")
    for name in motors:
        if name not in gain_by_motor:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' "
                "in the robot file, or identify the gains from an unloaded log and one with a "
                "weighed payload; if the column is a fraction of the rated torque (% or ‰), rename "
                "its table in the description to [effort] and add `rated` and `ratio`"
            )
        if not gain_by_motor[name] > 0:
            raise InvalidInput(
                f"the drive gain of '{name}' is {gain_by_motor[name]}, expected a positive number"
            )
    return gain_by_motor


class CurrentsProblem(NamedTuple):
    """Logs with currents and their problem: an `Experiment` whose drive gains are not yet known."""

    model: Model
    base: BaseParameters
    recordings: list[Recording]  # unloaded logs, then loaded ones
    choice: ProcessingChoice
    processed: list[ProcessedLog]
    problem: GainProblem
    known: Mapping[str, float]  # measured payload parameters, by full name

    def in_efforts(self, estimate: Estimate, nominal: Mapping[str, float]) -> Experiment:
        """Return the logs in efforts, with the estimated drive gains, else the nominal ones."""
        gains = dict(nominal)
        for name, gain in zip(estimate.parameters, estimate.values.tolist()):
            if name.is_gain:
                gains[name.owner] = gain
        return build_experiment(
            self.model,
            self.recordings,
            self.processed,
            self.base,
            self.choice,
            gains=gains,
            known=self.known,
        )


def payload_of(
    model: Model, loaded: Sequence[Recording], text: str | None
) -> tuple[str | None, dict[str, float] | None]:
    """Return the name of the payload of loaded logs, and its measured parameters by kind, if any.

    Args:
        model: The robot.
        loaded: Logs with the payload.
        text: A name of the robot file, measured values (`mass=1.983`), both
            (`disc:m=1.983,mx=0`), or None.
    """
    name, measured = _parse_payload(text or "")
    if text is not None and not loaded:
        raise InvalidInput(
            f"'{text}' is the payload of the loaded logs, and there are none; give them with "
            "`loaded`"
        )
    if name:
        return model.mechanism.payload(name).name, measured or None
    named = sorted({log.payload for log in loaded if log.payload is not None})
    if len(named) > 1:
        raise InvalidInput(
            f"the loaded logs carry different payloads: {', '.join(named)}; identify one by one"
        )
    if named:
        return named[0], measured or None
    declared = [payload.name for payload in model.mechanism.payloads]
    if measured and len(declared) == 1:
        return declared[0], measured
    if loaded:
        advice = f"name it with `payload`, one of: {', '.join(declared)}"
        if not declared:
            advice = "the robot file has none: give its mass with `payload='mass=...'`"
        raise InvalidInput(
            f"the loaded logs do not say which payload they carry; {advice}",
            payloads=declared,
        )
    return None, measured or None


def with_measured_payload(model: Model, text: str | None) -> Model:
    """Return the robot with a payload of its tool if its file has none and one was measured.

    Args:
        model: The robot.
        text: As for `payload_of`, e.g. `mass=1.983`.
    """
    name, measured = _parse_payload(text or "")
    if not measured or name or model.mechanism.payloads:
        return model
    undeclared = Payload(name=UNDECLARED_PAYLOAD, body=model.mechanism.flange)
    return model.with_mechanism(replace(model.mechanism, payloads=(undeclared,)))


def _parse_payload(text: str) -> tuple[str, dict[str, float]]:
    """Split `name:kind=number,...` into the name and the numbers by kind; each may be missing."""
    name, _, assignments = text.partition(":")
    if "=" in name:
        name = ""
        assignments = text
    measured = {}
    for assignment in filter(None, assignments.split(",")):
        kind, _, number = assignment.partition("=")
        kind = kind.strip()
        if kind == "mass":
            kind = "m"
        try:
            measured[kind] = float(number)
        except ValueError:
            raise InvalidInput(
                f"payload '{text}': '{assignment}' is not name=number, e.g. mass=1.983"
            ) from None
    if not all(np.isfinite(list(measured.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    return name, measured


def check_currents(recordings: Sequence[Recording], loaded: Sequence[Recording]) -> None:
    """Raise unless there are unloaded and loaded logs, with currents."""
    if not recordings or not loaded:
        raise InvalidInput(
            "drive gains need logs without payload and logs with a known one: `loaded`, and "
            "`payload` to name it"
        )
    for record in (*recordings, *loaded):
        if record.current is None:
            raise InvalidRecording(
                f"{record.source}: drive gains are found from currents, and there are none"
            )
    for record in recordings:
        if record.payload is not None:
            raise InvalidInput(
                f"{record.source}: given as unloaded but it carries '{record.payload}'; "
                "are loaded and unloaded logs swapped?"
            )


def known_payload(
    model: Model, name: str, measured: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the known parameters of a payload by full name, e.g. `payload.calibration.m`.

    They are the measured ones, or without any those that the robot file says are known.
    """
    payload = model.mechanism.payload(name)
    if measured is None:
        values = {kind: float(payload.values.get(kind, 0.0)) for kind in payload.known}
    else:
        values = dict(measured)
    for kind in values:
        if kind not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{kind}'{nearest(kind, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(
            f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it"
        )
    return {Parameter.of_payload(name, kind): known for kind, known in values.items()}


def match_currents(
    model: Model, recordings: Sequence[Recording], processing: Processing | None
) -> list[MatchedLog]:
    """Match recordings to the robot, with their currents and not their efforts."""
    currents = [replace(recording, effort=None) for recording in recordings]
    return match_logs(model, currents, processing)


def currents_problem(
    model: Model,
    recordings: Sequence[Recording],
    loaded: Sequence[Recording],
    known: Mapping[str, float],
    base: BaseParameters,
    *,
    processing: Processing | None = None,
    matched: Sequence[MatchedLog] | None = None,
) -> CurrentsProblem:
    """Build the problem of drive gains and parameters, BG13 (33), from logs with currents.

    A robot with more motors than degrees of freedom is not decimated: the fractions of the
    load that its motors bear change from sample to sample.

    Args:
        model: The robot.
        recordings: Logs without payload.
        loaded: Logs with the known payload.
        known: Known payload parameters, by full name.
        base: Base parameters.
        processing: Settings; what they leave open is chosen.
        matched: Unloaded and loaded logs as `match_currents` matched them before.
    """
    all_recordings = [*recordings, *loaded]
    logs = matched
    if logs is None:
        logs = match_currents(model, all_recordings, processing)
    choice = choose_processing(model, logs, base, processing)
    processed = [process_log(model, log, choice.processing) for log in logs]
    redundant = model.loops.redundant
    regressions = []
    for log in processed:
        in_currents = replace(log, current=False)
        regressions.append(regression(model, in_currents, base, decimate=not redundant))

    n_unloaded = len(recordings)
    units = _current_units(model, recordings[0])
    robot_names = [name for name in base.names if name.payload is None]
    payload_names = [name for name in base.names if name.payload is not None]
    unloaded = _joined(regressions[:n_unloaded], robot_names, units)
    mounted = _joined(regressions[n_unloaded:], [*robot_names, *payload_names], units)
    mounted_known = {name: known[name] for name in known if name in mounted.parameters}
    if redundant:
        currents, levers = _motor_currents(model, processed, regressions)
        motors = model.mechanism.actuated
        problem = gain_problem(
            unloaded,
            mounted,
            mounted_known,
            effort_units=model.row_units,
            motors=motors,
            motor_units=[model.mechanism.joint(name).effort_unit for name in motors],
            currents=_split(currents, n_unloaded),
            effort_map=_split(levers, n_unloaded),
        )
    else:
        problem = gain_problem(unloaded, mounted, mounted_known, effort_units=model.row_units)
    return CurrentsProblem(model, base, all_recordings, choice, processed, problem, known)


def gain_units(model: Model, recordings: Sequence[Recording]) -> dict[str, str]:
    """Return the unit of the drive gain of each motor; empty if efforts were recorded."""
    units: dict[str, str] = {}
    for recording in recordings:
        for joint, current_unit in zip(recording.joints, recording.current_units):
            effort_unit = model.mechanism.joint(joint).effort_unit
            units.setdefault(joint, gain_unit(effort_unit, current_unit))
    return units


def _current_units(model: Model, recording: Recording) -> tuple[str, ...]:
    """Return the current unit of each row; that of the first motor where a row is no motor."""
    unit_by_joint = dict(zip(recording.joints, recording.current_units))
    first_unit = recording.current_units[0]
    return tuple(unit_by_joint.get(name, first_unit) for name in model.rows)


def _joined(
    regressions: Sequence[Regression],
    names: Sequence[Parameter],
    units: tuple[str, ...],
) -> Regression:
    """Concatenate some columns of regressions of currents, without their repetitions."""
    blocks = []
    for block in regressions:
        columns = block.select(names)
        blocks.append(replace(columns, row_units=units, replicates=None, covariance=None))
    return concatenate(blocks)


def _motor_currents(
    model: Model,
    processed: Sequence[ProcessedLog],
    regressions: Sequence[Regression],
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the motors' currents, (t, a), and their levers on the rows, (t, r, a), by log."""
    currents = []
    levers = []
    for log, block in zip(processed, regressions):
        assert block.sample is not None
        samples = block.sample - log.sample[0]
        closure_map = model.kinematics.closure_map(log.motion.q[samples])
        motor_map = closure_map[:, list(model.actuated)]
        currents.append(log.effort[samples])
        levers.append(motor_map.transpose(0, 2, 1))
    return currents, levers


def _split(arrays: Sequence[FloatArray], n_unloaded: int) -> tuple[FloatArray, FloatArray]:
    """Concatenate arrays of the unloaded logs, and those of the loaded ones."""
    return np.concatenate(arrays[:n_unloaded]), np.concatenate(arrays[n_unloaded:])
