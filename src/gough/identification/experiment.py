"""Recordings made ready for estimation: one processing for all, one problem of all, of efforts or
of currents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, InvalidRecording, nearest
from gough.core.names import INERTIAL, Parameter, index_of
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import Estimate
from gough.fitting.gain_problem import GainProblem, gain_problem
from gough.fitting.noise_information import attenuation, information_over_noise, whitened_rows
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
from gough.processing.choice import MIN_WINDOW_VALID_FRACTION, ProcessingChoice
from gough.processing.likelihood_models import with_position_noise
from gough.processing.processed_log import nominal_gains, process_log

# Attenuation bias by position noise below this many standard errors is ignored.
NEGLIGIBLE_ATTENUATION = 0.1
# Perturbations of the positions, each of another block of a long log.
N_PERTURBATIONS = 4
# A log without periods is perturbed in blocks of so many samples.
PERTURBED_SAMPLES = 20000


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Logs of a robot, and all that became of them on the way to an estimate."""

    model: Model
    base: BaseParameters
    recordings: tuple[Recording, ...]
    choice: ProcessingChoice  # the processing of all, and what it was chosen from
    processed: tuple[ProcessedLog, ...]
    regressions: tuple[
        Regression, ...
    ]  # with the equations that count, less the efforts of what is `known`
    problem: Regression  # all parts together
    gains: Mapping[
        str, float
    ]  # of drives that were used, by joint; empty where efforts were recorded
    known: Mapping[str, float] = field(
        default_factory=dict
    )  # payload parameters that were measured

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
    """Choose one processing for all recordings where it is not complete, and build their joint
    regression.
    """
    if not recordings:
        raise InvalidInput("there is no recording to identify from")
    logs = match_logs(model, recordings, processing)
    choice = choose_processing(model, logs, base, processing, gains=gains)
    done = [process_log(model, log, choice.processing) for log in logs]
    experiment = build_experiment(model, recordings, done, base, choice, gains=gains)
    window = 0.0 if processing is None else processing.window or 0.0
    for log, part in zip(experiment.processed, experiment.regressions):
        if window and part.n_valid.min() * len(part.rows) < 3 * len(part.parameters):
            raise InvalidInput(
                f"{log.source}: a window of {window} s about reversals leaves {part.n_valid.min()} "
                f"of "
                f"{len(part)} samples; give a shorter one, or 0 to keep all",
                window=window,
            )
    return experiment


def match_logs(
    model: Model, recordings: Sequence[Recording], processing: Processing | None
) -> list[MatchedLog]:
    """Match recordings to the robot, with periods as the settings ask for."""
    repeats = (processing or Processing()).repeats
    return [match_robot(model, recording, repeats) for recording in recordings]


def with_model(experiment: Experiment, model: Model) -> Experiment:
    """Return the experiment with another model of the same geometry, processed as before."""
    done = [process_log(model, log, experiment.processing) for log in matched_logs(experiment)]
    return build_experiment(
        model,
        experiment.recordings,
        done,
        experiment.base,
        experiment.choice,
        gains=experiment.gains or None,
    )


def matched_logs(experiment: Experiment) -> list[MatchedLog]:
    """Return the logs that an experiment was processed from."""
    return [log.matched for log in experiment.processed if log.matched is not None]


def prepare_held_out(
    experiment: Experiment, recordings: Sequence[Recording], *, given: bool = False
) -> Experiment:
    """Make logs that are to be predicted ready, processed as those of the experiment that a model
    is found from.

    Only the cut-off may be higher, unless it was given: what a faster motion loses to it is no
    error of the model.
    """
    names, known = experiment.problem.parameters, experiment.known
    values = (
        None
        if given
        else {
            name: value + known.get(name, 0.0)
            for name, value in zip(
                names, weighted_fit(experiment.problem.statistics()).values.tolist()
            )
        }
    )
    return prepare_with_settings(
        experiment.model,
        recordings,
        experiment.base,
        experiment.processing,
        values,
        experiment.gains or None,
        known,
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
    """Process logs with the settings of others, and a cut-off with which values predict them best.

    A window around reversals that would exclude half of a row is made narrower.
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

    A window around reversals that would exclude half of a row of logs which reverse more often is
    made narrower, for all of them.
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
    """Return the smallest fraction of valid equations of a row of a log."""
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
    """Build the joint regression of processed recordings."""
    done, factors = in_efforts(model, processed, gains)
    parts = [regression(model, log, base) for log in done]
    if any(part.replicates is not None for part in parts):
        values = weighted_fit(concatenate(parts).statistics()).values
        parts = [
            with_position_noise(model, log, part, base, values) for log, part in zip(done, parts)
        ]
    if known:
        parts = [replace(part, effort=part.effort - known_effort(part, known)) for part in parts]
    return Experiment(
        model=model,
        base=base,
        recordings=tuple(recordings),
        choice=choice,
        processed=done,
        regressions=tuple(parts),
        problem=parts[0] if len(parts) == 1 else concatenate(parts),
        gains=factors,
        known=known or {},
    )


def known_effort(part: Regression, known: Mapping[str, float]) -> FloatArray:
    """Return the effort of known payload parameters, (t, r). [row unit]"""
    total = np.zeros(part.effort.shape)
    for name, value in known.items():
        if name in part.parameters:
            total += part.regressor[:, :, part.parameters.index(name)] * value
    return total


@one_blas_thread
def add_position_noise_effects(experiment: Experiment, estimate: Estimate) -> Estimate:
    """Return an estimate that knows the information on each parameter over that of position noise
    alone.

    What that noise takes from the values is not taken back, as its size is a guess on real logs: it
    widens the sigmas. Drive gains among the parameters have no such figure.
    """
    model, rng = experiment.model, np.random.default_rng(0)
    noise = (
        estimate.residual_rms
        if estimate.noise_covariance is None
        else np.sqrt(np.diag(estimate.noise_covariance))
    )
    names = [name for name in estimate.parameters if name in experiment.problem.parameters]
    changes = []
    for log, part in zip(experiment.processed, experiment.regressions):
        for block, perturbed in perturbed_pairs(log, rng):
            first = part
            if block is not log:
                first = regression(model, replace(block, current=False), experiment.base)
            again = regression(model, replace(perturbed, current=False), experiment.base)
            change = replace(first, regressor=again.regressor - first.regressor).select(names)
            scale = np.sqrt(len(part) / len(first) / N_PERTURBATIONS)
            changes.append(whitened_rows(change, noise) * scale)
    rows, every = whitened_rows(experiment.problem.select(names), noise), np.concatenate(changes)
    place = [index_of(estimate.parameters, name) for name in names]
    information, taken = np.full(len(estimate), np.nan), np.zeros(len(estimate))
    information[place] = information_over_noise(rows, every, names)
    taken[place] = attenuation(rows, every, estimate.values[place], names)
    estimate, share = (
        replace(estimate, information=information),
        np.abs(taken) / np.maximum(estimate.std, TINY),
    )
    worst = int(np.argmax(share))
    if share[worst] < NEGLIGIBLE_ATTENUATION:
        return estimate
    notices = estimate.notices
    if share[worst] > 1:
        notice = Notice(
            rule="attenuation",
            level="info",
            where=estimate.parameters[worst],
            text=f"position noise lowers it, and others, by about {taken[worst]:.2g}: more than "
            "the standard error, which is widened by that",
            advice="a lower cut-off or repetitions help",
        )
        notices = (*notices, notice)
    return replace(
        estimate,
        covariance=estimate.covariance + np.outer(taken, taken),
        notices=notices,
        sources=tuple(
            replace(source, std=np.hypot(source.std, taken)) for source in estimate.sources
        ),
    )


def perturbed_pairs(
    log: ProcessedLog, rng: np.random.Generator
) -> Iterator[tuple[ProcessedLog, ProcessedLog]]:
    """Yield `N_PERTURBATIONS` blocks of a log, without and with more noise of the positions.

    A log that is short or averaged is one block.
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
    model: Model, processed: Sequence[ProcessedLog], gains: Mapping[str, float] | None = None
) -> tuple[tuple[ProcessedLog, ...], dict[str, float]]:
    """Return recordings with currents turned into efforts, and the drive gains used; none without
    currents.
    """
    factors = drive_gains(model, gains) if any(log.current for log in processed) else {}
    vector = np.array([factors.get(name, 1.0) for name in model.mechanism.actuated])
    return tuple(log.with_gains(vector) for log in processed), factors


def drive_gains(model: Model, gains: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return a drive gain for every motor: given ones, else the robot file's; raises if one is
    missing or wrong.
    """
    motors, found = model.mechanism.actuated, nominal_gains(model, gains)
    for name in gains or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}")
    for name in motors:
        if name not in found:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' "
                f"in the robot file, "
                "or identify the gains from an unloaded log and one with a weighed payload"
            )
        if not found[name] > 0:
            raise InvalidInput(
                f"the drive gain of '{name}' is {found[name]}, expected a positive number"
            )
    return found


class CurrentsProblem(NamedTuple):
    """Logs with currents, and the problem that they state: an `Experiment` as long as the drive
    gains are not known.
    """

    model: Model
    base: BaseParameters
    recordings: list[Recording]
    choice: ProcessingChoice
    processed: list[ProcessedLog]
    problem: GainProblem
    known: Mapping[str, float]

    def in_efforts(self, estimate: Estimate, nominal: Mapping[str, float]) -> Experiment:
        """Return the logs in efforts, with drive gains that were found, or nominal ones that the
        data do not tell.
        """
        found = {
            name.owner: float(value)
            for name, value in zip(estimate.parameters, estimate.values)
            if name.is_gain
        }
        return build_experiment(
            self.model,
            self.recordings,
            self.processed,
            self.base,
            self.choice,
            gains={**nominal, **found},
            known=self.known,
        )


def payload_of(
    model: Model, loaded: Sequence[Recording], text: str | None
) -> tuple[str | None, dict[str, float] | None]:
    """Return the payload that loaded logs carry, and what was measured of it, by kind, if that is
    said.

    Args:
        text: A name of the robot file, measured values (`mass=1.983`), both (`disc:m=1.983,mx=0`),
            or None.
    """
    name, _, rest = (text or "").partition(":")
    if "=" in name:
        name, rest = "", text or ""
    measured = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        try:
            measured["m" if key.strip() == "mass" else key.strip()] = float(value)
        except ValueError:
            raise InvalidInput(
                f"payload '{text}': '{item}' is not name=number, e.g. mass=1.983"
            ) from None
    if not all(np.isfinite(list(measured.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    if text is not None and not loaded:
        raise InvalidInput(
            f"'{text}' is what the loaded logs carry, and there are none; give them with `loaded`"
        )
    if name:
        return model.mechanism.payload(name).name, measured or None
    named = sorted({r.payload for r in loaded if r.payload is not None})
    if len(named) > 1:
        raise InvalidInput(
            f"the loaded logs carry different payloads: {', '.join(named)}; identify one by one"
        )
    if loaded and not named:
        raise InvalidInput(
            "the loaded logs do not say which payload they carry; name it with `payload`, one of: "
            f"{', '.join(p.name for p in model.mechanism.payloads) or '(the robot file has none)'}"
        )
    return named[0] if named else None, measured or None


def check_currents(recordings: Sequence[Recording], loaded: Sequence[Recording]) -> None:
    """Raise unless there are unloaded and loaded logs, with currents."""
    if not recordings or not loaded:
        raise InvalidInput(
            "drive gains need logs without payload and logs with a known one: `loaded`, and "
            "`payload` "
            "to name it"
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
    """Return known parameters of a payload by full name (`payload.calibration.m`): measured, or the
    robot file's.
    """
    payload = model.mechanism.payload(name)
    values = (
        {p: float(payload.values.get(p, 0.0)) for p in payload.known}
        if measured is None
        else dict(measured)
    )
    for parameter in values:
        if parameter not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{parameter}'{nearest(parameter, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(
            f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it"
        )
    return {Parameter.of_payload(name, p): v for p, v in values.items()}


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
    """Build BG13 (33) from unloaded and loaded logs with currents, and known payload parameters by
    full name.

    A robot with more motors than degrees of freedom is taken without decimation: its motors share
    the load of a row in a way that changes from sample to sample.

    Args:
        matched: Unloaded and loaded logs as `match_currents` matched them before.
    """
    count, shared, every = len(recordings), model.loops.redundant, [*recordings, *loaded]
    logs = match_currents(model, every, processing) if matched is None else matched
    choice = choose_processing(model, logs, base, processing)
    done = [process_log(model, log, choice.processing) for log in logs]
    parts = [
        regression(model, replace(log, current=False), base, decimate=not shared) for log in done
    ]
    # Of robots whose rows are not motors the unit is that of the first motor.
    lookup = dict(zip(recordings[0].joints, recordings[0].current_units))
    units = tuple(lookup.get(name, recordings[0].current_units[0]) for name in model.rows)
    robot = [n for n in base.names if n.payload is None]
    whole = [*robot, *(n for n in base.names if n.payload is not None)]
    unloaded, mounted = (
        concatenate(
            [
                replace(part.select(names), row_units=units, replicates=None, covariance=None)
                for part in own
            ]
        )
        for own, names in ((parts[:count], robot), (parts[count:], whole))
    )
    sharing: dict[str, Any] = {}
    # the motors' currents, (t, a), and their levers on the rows, (t, r, a), at the samples of each
    # part
    if shared:
        each = []
        for log, part in zip(done, parts):
            assert part.sample is not None
            at = part.sample - log.sample[0]
            maps = model.kinematics.closure_map(log.motion.q[at])[:, list(model.actuated)]
            each.append((log.effort[at], maps.transpose(0, 2, 1)))
        currents, levers = (
            (
                np.concatenate([pair[k] for pair in each[:count]]),
                np.concatenate([pair[k] for pair in each[count:]]),
            )
            for k in range(2)
        )
        motors = model.mechanism.actuated
        sharing = {
            "motors": motors,
            "motor_units": [model.mechanism.joint(name).effort_unit for name in motors],
            "currents": currents,
            "effort_map": levers,
        }
    problem = gain_problem(
        unloaded,
        mounted,
        {n: v for n, v in known.items() if n in mounted.parameters},
        effort_units=model.row_units,
        **sharing,
    )
    return CurrentsProblem(model, base, every, choice, done, problem, known)
