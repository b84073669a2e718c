"""From logs to the problem that the estimators solve.

Constants of joint terms, joint terms that are chosen and drive gains are part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.errors import InvalidInput
from gough.core.notices import Notice
from gough.engine import Model, base_parameters
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.gain_problem import GainProblem
from gough.fitting.problem import needed_problem
from gough.identification.added_terms import AddedTerms, added_terms
from gough.identification.constants import fit_constants
from gough.identification.currents import (
    CurrentsProblem,
    check_currents,
    currents_problem,
    match_currents,
)
from gough.identification.experiment import Experiment, prepare, rebuilt_with
from gough.identification.joint_gains import JointGains, find_gains
from gough.identification.load_friction import (
    linearise_load_friction,
    refuse_load_friction,
)
from gough.identification.measured_payload import known_payload, payload_of
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
class IdentificationLogs:
    """The logs of an identification by their use."""

    recordings: Sequence[Recording]  # without payload; without `loaded`, each with its payload
    loaded: Sequence[Recording]  # with a known payload
    held_out: Sequence[Recording]  # to validate on

    @property
    def with_currents(self) -> bool:
        """Whether logs with a payload hold currents, so that drive gains can be identified."""
        return bool(self.loaded) and self.loaded[0].effort is None

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the logs by their use, as the result stores them."""
        return {
            "identification": tuple(log.source for log in self.recordings),
            "loaded": tuple(log.source for log in self.loaded),
            "validation": tuple(log.source for log in self.held_out),
        }


@dataclass(frozen=True, kw_only=True)
class PreparedProblem:
    """Processed logs with the problem they state."""

    logs: Experiment | CurrentsProblem  # currents as long as the drive gains are not known
    # constants of joint terms that were fitted, by full name
    constants: Mapping[str, float] = field(default_factory=dict)
    # joint terms beside those of the robot file
    added_terms: AddedTerms = field(default_factory=AddedTerms)
    gains: JointGains | None = None  # drive gains found without a payload
    held_out: Experiment | None = None  # logs to validate on, where they are in efforts

    @property
    def problem(self) -> Any:
        """The regression of efforts, or the problem of drive gains."""
        if self.gains is not None:
            return self.gains.problem
        return self.logs.problem

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the user should know of gains and terms that were found."""
        gain_notices = () if self.gains is None else self.gains.notices
        return (*gain_notices, *self.added_terms.notices)


def read_logs(
    model: Model,
    settings: IdentifySettings,
    recordings: Log | Sequence[Log],
    loaded: Log | Sequence[Log] | None,
    held_out: Log | Sequence[Log] | None,
) -> IdentificationLogs:
    """Read the logs of an identification.

    Where a channel tells when the payload is carried, logs are divided by it: segments with the
    payload become loaded logs, and held-out ones name it.
    """
    logs = IdentificationLogs(
        recordings=as_recordings(recordings, "recordings"),
        loaded=as_recordings(() if loaded is None else loaded, "loaded"),
        held_out=as_recordings(() if held_out is None else held_out, "held_out"),
    )
    if settings.carrying is None:
        return logs
    divided = divide_by_signal(logs.recordings, settings.carrying)
    all_loaded = [*divided.loaded, *logs.loaded]
    held_out_logs = logs.held_out
    if any(settings.carrying in log.extra.names for log in held_out_logs):
        payload, _ = payload_of(model, all_loaded, settings.payload)
        parts = divide_by_signal(held_out_logs, settings.carrying)
        with_payload = [replace(log, payload=payload) for log in parts.loaded]
        held_out_logs = [*parts.unloaded, *with_payload]
    return IdentificationLogs(
        recordings=divided.unloaded, loaded=all_loaded, held_out=held_out_logs
    )


def prepare_problem(
    model: Model,
    logs: IdentificationLogs,
    settings: IdentifySettings,
    estimators: Mapping[str, Any],
) -> PreparedProblem:
    """Choose the processing, process the logs and build the problem that the estimators need."""
    payload = None
    measured = None
    if logs.loaded or settings.payload is not None:
        payload, measured = payload_of(model, logs.loaded, settings.payload)
    recordings = logs.recordings
    loaded = [replace(log, payload=payload) for log in logs.loaded]
    all_logs = [*recordings, *loaded]
    carried = dict.fromkeys(log.payload for log in all_logs if log.payload is not None)
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=tuple(carried))
    gain_estimators = []
    for estimator in estimators.values():
        if needed_problem(estimator) is GainProblem:
            gain_estimators.append(estimator)
    if gain_estimators:
        estimator = gain_estimators[0]
        check_currents(recordings, loaded)
        refuse_load_friction(model, "drive gains")
        known = known_payload(model, payload or "", measured)
        return _prepare_currents(model, recordings, loaded, known, base, settings, estimator)
    chosen = settings.processing
    experiment = prepare(model, all_logs, base, processing=chosen, gains=settings.gains)
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
    model: Model,
    recordings: Sequence[Recording],
    loaded: Sequence[Recording],
    known: Mapping[str, float],
    base: Any,
    settings: IdentifySettings,
    estimator: Any,
) -> PreparedProblem:
    """Build the problem of currents; gains and constants of joint terms are found in turn."""
    constants: dict[str, float] = {}
    matched = match_currents(model, [*recordings, *loaded], settings.processing)
    for turn in range(MAX_CONSTANT_ROUNDS + 1):
        currents = currents_problem(
            model,
            recordings,
            loaded,
            known,
            base,
            processing=settings.processing,
            matched=matched,
        )
        if currents.problem.effort_map is None:  # statistics suffice where each row is a motor
            currents = currents._replace(problem=currents.problem.in_factors())
        before = model.mechanism.fitted_constants
        if turn == MAX_CONSTANT_ROUNDS or not before:
            break
        estimate = estimator.fit(currents.problem)
        efforts = currents.in_efforts(estimate, known_gains(model, settings.gains))
        constants = fit_constants(efforts)
        changes = []
        for name, new in constants.items():
            changes.append(abs(new - before[name]) <= CONSTANT_TOLERANCE * abs(new))
        if all(changes):
            break
        model = Model(model.mechanism.with_constants(constants))
    return PreparedProblem(logs=currents, constants=constants)


def add_terms(
    prepared: PreparedProblem,
    logs: IdentificationLogs,
    settings: IdentifySettings,
    estimators: Mapping[str, Any],
) -> PreparedProblem:
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
    frozen = replace(settings, processing=experiment.processing)
    extended = prepare_problem(model, logs, frozen, estimators)
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
