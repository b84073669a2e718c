"""What is identified, and the problem that it states for the estimators.

Constants of joint terms, joint terms that are chosen and drive gains
are part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.gain_problem import GainProblem
from gough.fitting.problem import Estimator, LinearProblem, needed_problem
from gough.identification.added_terms import AddedTerms, added_terms
from gough.identification.constants import fit_constants
from gough.identification.currents import (
    CurrentsProblem,
    check_currents,
    currents_problem,
    match_currents,
)
from gough.identification.estimators import ESTIMATORS, select_estimators
from gough.identification.experiment import Experiment, prepare, rebuilt_with
from gough.identification.joint_gains import JointGains, find_gains, first_gains
from gough.identification.load_friction import (
    linearise_load_friction,
    refuse_load_friction,
)
from gough.identification.measured_payload import (
    known_payload,
    payload_of,
    with_measured_payload,
)
from gough.identification.settings import IdentifySettings
from gough.identification.term_choice import choose_terms
from gough.logs.carrying import divide_by_signal
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.mechanism.added_terms import with_term_text
from gough.processing.matching import known_gains

MAX_CONSTANT_ROUNDS = 8  # of drive gains and constants found in turn
CONSTANT_TOLERANCE = 1e-4  # relative change of the constants that ends them


@dataclass(frozen=True, kw_only=True)
class IdentificationTask:
    """What is identified: a robot, its logs by their use, and how."""

    # the robot; with the payload that was weighed, if its file has none
    model: Model
    # without payload; without `loaded`, each with its payload
    recordings: Sequence[Recording]
    loaded: Sequence[Recording] = ()  # with a known payload
    held_out: Sequence[Recording] = ()  # to validate on
    # of all logs, where `recordings` are a sample of them
    whole: BlockStatistics | None = None
    settings: IdentifySettings = field(default_factory=IdentifySettings)  # how
    # by name, the first is the one asked for
    estimators: Mapping[str, Estimator]

    @property
    def gains(self) -> dict[str, float]:
        """Drive gains that are known, by motor."""
        return known_gains(self.model, self.settings.gains)

    def with_estimator(self, name: str) -> IdentificationTask:
        """Return the task with another estimator."""
        settings = replace(self.settings, estimator=name)
        return replace(self, settings=settings, estimators={name: ESTIMATORS[name]})

    def log_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the logs by their use, as the result stores them."""
        return {
            "identification": tuple(log.source for log in self.recordings),
            "loaded": tuple(log.source for log in self.loaded),
            "validation": tuple(log.source for log in self.held_out),
        }


@dataclass(frozen=True, kw_only=True)
class PreparedProblem:
    """Processed logs with the problem they state."""

    # currents as long as the drive gains are not known
    logs: Experiment | CurrentsProblem
    # constants of joint terms that were fitted, by full name
    constants: Mapping[str, float] = field(default_factory=dict)
    # joint terms beside those of the robot file
    added_terms: AddedTerms = field(default_factory=AddedTerms)
    gains: JointGains | None = None  # drive gains found without a payload
    # logs to validate on, where they are in efforts
    held_out: Experiment | None = None

    @property
    def problem(self) -> LinearProblem | GainProblem:
        """The regression of efforts, or the problem of drive gains."""
        if self.gains is not None:
            return self.gains.problem
        return self.logs.problem

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the user should know of gains and terms that were found."""
        gain_notices = () if self.gains is None else self.gains.notices
        return (*gain_notices, *self.added_terms.notices)


def read_task(
    model: Model,
    settings: IdentifySettings,
    recordings: Log | Sequence[Log],
    loaded: Log | Sequence[Log] | None,
    held_out: Log | Sequence[Log] | None,
    whole: BlockStatistics | None,
) -> IdentificationTask:
    """Read the logs of an identification, and select its estimators."""
    if settings.payload:
        model = with_measured_payload(model, settings.payload)
    task = IdentificationTask(
        model=model,
        recordings=as_recordings(recordings, "recordings"),
        loaded=as_recordings(() if loaded is None else loaded, "loaded"),
        held_out=as_recordings(() if held_out is None else held_out, "held_out"),
        whole=whole,
        settings=settings,
        estimators={},
    )
    if settings.carrying is not None:
        task = _divided_by_payload(task, settings.carrying)
    if settings.find_gains:
        gains = first_gains(model, task.recordings, settings.gains)
        task = replace(task, settings=replace(settings, gains=gains))
    loaded_with_currents = bool(task.loaded) and task.loaded[0].effort is None
    estimators = select_estimators(
        settings.estimator, task.gains, with_currents=loaded_with_currents
    )
    if settings.fixed or settings.tied or settings.bounds:
        _check_constrainable(estimators, whole)
    return replace(task, estimators=estimators)


def _divided_by_payload(task: IdentificationTask, channel: str) -> IdentificationTask:
    """Return the task with its logs divided where a channel tells that the payload is carried.

    Segments with the payload become loaded logs, and held-out ones name
    it.
    """
    divided = divide_by_signal(task.recordings, channel)
    loaded = [*divided.loaded, *task.loaded]
    held_out = task.held_out
    if any(channel in log.extra.names for log in held_out):
        payload, _ = payload_of(task.model, loaded, task.settings.payload)
        segments = divide_by_signal(held_out, channel)
        with_payload = [replace(log, payload=payload) for log in segments.loaded]
        held_out = [*segments.unloaded, *with_payload]
    return replace(task, recordings=divided.unloaded, loaded=loaded, held_out=held_out)


def _check_constrainable(
    estimators: Mapping[str, Estimator], whole: BlockStatistics | None
) -> None:
    """Raise unless parameters can be constrained: in one linear fit of logs in memory."""
    linear = all(needed_problem(one) is LinearProblem for one in estimators.values())
    if len(estimators) != 1 or not linear or whole is not None:
        raise InvalidInput(
            "parameters are fixed, tied and bounded in one linear fit of logs in memory: use the "
            "estimator gm, wls, ls or robust, without `fixed`, `tied` and `bounds` otherwise"
        )


def prepare_problem(task: IdentificationTask) -> PreparedProblem:
    """Choose the processing, process the logs and build the problem that the estimators need."""
    settings = task.settings
    model = task.model
    payload = None
    measured = None
    if task.loaded or settings.payload is not None:
        payload, measured = payload_of(model, task.loaded, settings.payload)
    loaded = [replace(log, payload=payload) for log in task.loaded]
    all_logs = [*task.recordings, *loaded]
    carried = dict.fromkeys(log.payload for log in all_logs if log.payload is not None)
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=tuple(carried))
    for estimator in task.estimators.values():
        if needed_problem(estimator) is GainProblem:
            check_currents(task.recordings, task.loaded)
            known = known_payload(model, payload or "", measured)
            return _prepare_currents(replace(task, loaded=loaded), known, base, estimator)
    experiment = prepare(
        model, all_logs, base, processing=settings.processing, gains=settings.gains
    )
    if model.mechanism.load_dependent:
        experiment = linearise_load_friction(experiment)
    if not model.mechanism.fitted_constants:
        return PreparedProblem(logs=experiment)
    constants = fit_constants(experiment)
    mechanism = experiment.model.mechanism.with_constants(constants)
    model = experiment.model.with_mechanism(mechanism)
    experiment = rebuilt_with(experiment, model=model)
    if model.mechanism.load_dependent:
        experiment = linearise_load_friction(experiment)
    return PreparedProblem(logs=experiment, constants=constants)


def _prepare_currents(
    task: IdentificationTask,
    known: Mapping[str, float],
    base: BaseParameters,
    estimator: Estimator,
) -> PreparedProblem:
    """Build the problem of currents; gains and constants of joint terms are found in turn.

    Args:
        task: Its loaded logs name the payload.
        known: Measured payload parameters, by full name.
        base: Base parameters.
        estimator: Of drive gains.
    """
    model = task.model
    refuse_load_friction(model, "drive gains")
    constants: dict[str, float] = {}
    processing = task.settings.processing
    matched = match_currents(model, [*task.recordings, *task.loaded], processing)
    for turn in range(MAX_CONSTANT_ROUNDS + 1):
        currents = currents_problem(
            model,
            matched,
            known,
            base,
            n_unloaded=len(task.recordings),
            processing=processing,
        )
        if currents.problem.effort_map is None:  # statistics suffice where each row is a motor
            currents = currents._replace(problem=currents.problem.in_factors())
        before = model.mechanism.fitted_constants
        if turn == MAX_CONSTANT_ROUNDS or not before:
            break
        estimate = estimator.fit(currents.problem)
        efforts = currents.in_efforts(estimate, task.gains)
        constants = fit_constants(efforts)
        changes = []
        for name, new in constants.items():
            changes.append(abs(new - before[name]) <= CONSTANT_TOLERANCE * abs(new))
        if all(changes):
            break
        model = Model(model.mechanism.with_constants(constants))
    return PreparedProblem(logs=currents, constants=constants)


def add_terms(task: IdentificationTask, prepared: PreparedProblem) -> PreparedProblem:
    """Return the problem with the joint terms that predict left-out logs better."""
    experiment = prepared.logs
    if not isinstance(experiment, Experiment):
        raise InvalidInput(
            "joint terms are added to logs in efforts, not while drive gains are identified; "
            "identify the gains first, then give them with `gains`"
        )
    mechanism = experiment.model.mechanism
    added = added_terms(mechanism, choose_terms(experiment))
    if not added.text:
        return replace(prepared, added_terms=added)
    model = Model(with_term_text(mechanism, added.text))
    frozen = replace(task.settings, processing=experiment.processing)
    extended = prepare_problem(replace(task, model=model, settings=frozen))
    assert isinstance(extended.logs, Experiment)
    return PreparedProblem(
        logs=replace(extended.logs, choice=experiment.choice),
        constants={**prepared.constants, **extended.constants},
        added_terms=added,
    )


def add_gains(prepared: PreparedProblem, whole: BlockStatistics | None) -> PreparedProblem:
    """Return the problem with the drive gains of logs in currents among its parameters."""
    if whole is not None or not isinstance(prepared.logs, Experiment):
        raise InvalidInput(
            "drive gains are found without a payload from a few logs in memory, by the estimators "
            "gm, wls, ls or robust; leave out `loaded` logs with currents or `find_gains`"
        )
    gains = find_gains(prepared.logs)
    return replace(prepared, logs=gains.experiment, gains=gains)
