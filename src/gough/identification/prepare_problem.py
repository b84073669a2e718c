"""From logs to the problem that the estimators need, constants of joint terms included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gough.engine import Model, base_parameters
from gough.fitting.gain_problem import GainProblem
from gough.fitting.problem import needed_problem
from gough.identification.constants import fit_constants
from gough.identification.experiment import (
    CurrentsProblem,
    Experiment,
    check_currents,
    currents_problem,
    known_payload,
    match_currents,
    payload_of,
    prepare,
    rebuilt_with,
)
from gough.identification.load_friction import (
    linearise_load_friction,
    refuse_load_friction,
)
from gough.identification.settings import IdentifySettings
from gough.logs.recording import Recording
from gough.processing.processed_log import nominal_gains

MAX_CONSTANT_ROUNDS = 8  # of drive gains and constants found in turn
CONSTANT_TOLERANCE = 1e-4  # relative change of the constants that ends them


@dataclass(frozen=True, kw_only=True)
class PreparedProblem:
    """Processed logs with the problem they state."""

    logs: Experiment | CurrentsProblem  # currents as long as the drive gains are not known
    constants: Mapping[str, float]  # constants of joint terms that were fitted, by full name

    def in_efforts(self, estimate: Any, gains: Mapping[str, float]) -> Experiment:
        """Return the logs in efforts, with the gains of an estimate where it has them."""
        if isinstance(self.logs, Experiment):
            return self.logs
        return self.logs.in_efforts(estimate, gains)


def prepare_problem(
    model: Model,
    recordings: Sequence[Recording],
    loaded: Sequence[Recording],
    settings: IdentifySettings,
    estimators: Mapping[str, Any],
) -> PreparedProblem:
    """Choose the processing, process the logs and build the problem that the estimators need."""
    payload, measured = payload_of(model, loaded, settings.payload)
    loaded = [replace(log, payload=payload) for log in loaded]
    logs = [*recordings, *loaded]
    carried = dict.fromkeys(log.payload for log in logs if log.payload is not None)
    base = base_parameters(model, tie_legs=settings.tie_legs, payloads=tuple(carried))
    gain_estimators = []
    for estimator in estimators.values():
        if needed_problem(estimator) is GainProblem:
            gain_estimators.append(estimator)
    if not gain_estimators:
        return _prepare_efforts(model, logs, base, settings)
    check_currents(recordings, loaded)
    refuse_load_friction(model, "drive gains")
    known = known_payload(model, payload or "", measured)
    return _prepare_currents(model, recordings, loaded, known, base, settings, gain_estimators[0])


def _prepare_efforts(
    model: Model,
    logs: Sequence[Recording],
    base: Any,
    settings: IdentifySettings,
) -> PreparedProblem:
    """Build the linear problem of logs with efforts, or with currents and known drive gains."""
    experiment = prepare(model, logs, base, processing=settings.processing, gains=settings.gains)
    experiment = linearise_load_friction(experiment)
    constants = fit_constants(experiment)
    if constants:
        mechanism = experiment.model.mechanism.with_constants(constants)
        model = experiment.model.with_mechanism(mechanism)
        experiment = linearise_load_friction(rebuilt_with(experiment, model=model))
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
        before = model.mechanism.constants
        if turn == MAX_CONSTANT_ROUNDS or not any(one.fit for one in before.values()):
            break
        estimate = estimator.fit(currents.problem)
        efforts = currents.in_efforts(estimate, nominal_gains(model, settings.gains))
        constants = fit_constants(efforts)
        changes = []
        for name, new in constants.items():
            changes.append(abs(new - before[name].value) <= CONSTANT_TOLERANCE * abs(new))
        if all(changes):
            break
        model = Model(model.mechanism.with_constants(constants))
    return PreparedProblem(logs=currents, constants=constants)
