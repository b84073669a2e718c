"""From recordings to a validated model: the main verb."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.blas import one_blas_thread
from gough.core.errors import GoughError, InvalidInput, LoopNotClosed, SingularConfiguration
from gough.core.options import Settings, nested, option, settle, takes
from gough.core.parameters import BaseParameters
from gough.core.regression import Condensed, Regression, concatenate
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.estimators.estimate import Estimate
from gough.estimators.gains.gain_problem import GainProblem
from gough.estimators.linear.least_squares import GaussMarkov, WeightedLeastSquares
from gough.estimators.physical.feasible import FeasibleEstimate
from gough.estimators.problem import Estimator
from gough.estimators.selection.selection import Elimination, essential_parameters
from gough.identification import methods
from gough.identification.constants import FittedConstants, fit_constants, with_constants
from gough.identification.currents import CurrentsProblem, check_currents, currents_problem, known_payload, payload_of
from gough.identification.experiment import (
    Experiment,
    assemble,
    prepare,
    prepare_unseen,
    with_information,
)
from gough.identification.judge import judged
from gough.identification.load_friction import refuse_loaded, with_passed_efforts
from gough.identification.methods import ALL, ESTIMATORS, BodyProblem, PeriodProblem, wants
from gough.identification.result import Identification, fits_of
from gough.identification.structures import ModelChoice, model_choice
from gough.identification.term_choice import choose_terms
from gough.identification.validation import processed_alike, validate, validate_on
from gough.logs.checks import inspected
from gough.logs.finding import notes as finding_notes
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.pieces import nominal_gains

TURNS, SETTLED = 8, 1e-4  # of drive gains and constants; relative change of the latter that ends them


@dataclass(frozen=True, kw_only=True)
class IdentifySettings(Settings):
    """How a robot is identified."""

    estimator: str | Estimator = option(
        "gm", "Whose estimate is the result. gm: Gauss-Markov; ml: filter cut-off by likelihood; feasible: possible "
        "bodies; tls, gain_ml: with drive gains, from loaded logs; all: side by side.",
        choices=lambda: (*ESTIMATORS, ALL))
    payload: str | None = option(
        None, "What the loaded logs carry: a name of the robot file, mass=1.983, or name:m=1.983,mx=0.")
    essential: bool = option(
        False, "Keep only the essential parameters (BG13); with logs to validate on, the smallest model that predicts "
        "them within 1 % of the best.")
    ratio: float = option(10.0, "Ratio of relative standard deviations at which that ends.", above=1)
    tie_legs: bool = option(False, TIE_LEGS)
    structures: bool = option(
        False, "Also compare friction structures, try other joint terms on stretches left out, test whether legs are "
        "alike and name what the data hardly see.")
    gains: Mapping[str, float] | None = option(
        None, "Drive gains, motor=value; the robot file's by default.", unit="N or N m per recorded unit", above=0)
    processing: Processing = nested(Processing)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Case:
    """What is identified from which logs, and what became of these so far.

    Args:
        base: The base parameters of the experiment.
        estimators: To run, by name.
        known: Payload parameters that were measured, where drive gains are wanted.
        currents: The problem with unknown drive gains, where they are wanted.
        experiment: The logs in efforts; None as long as the gains are not known.
        unseen: The logs to validate on, likewise, if there are any.
        constants: Of joint terms, found from the logs; the robot has them.
    """

    model: Model
    base: BaseParameters
    settings: IdentifySettings
    estimators: Mapping[str, Any]
    recordings: Sequence[Recording]
    loaded: Sequence[Recording]
    held_out: Sequence[Recording]
    known: Mapping[str, float] = field(default_factory=dict)
    currents: CurrentsProblem | None = None
    experiment: Experiment | None = None
    unseen: Experiment | None = None
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def logs(self) -> list[Recording]:
        """All logs to identify from."""
        return [*self.recordings, *self.loaded]

    @property
    def efforts(self) -> Experiment:
        """The logs in efforts."""
        assert self.experiment is not None
        return self.experiment

    def with_efforts(self, experiment: Experiment) -> _Case:
        """Return the case with the logs in efforts, those to validate on likewise."""
        unseen = None if not self.held_out else prepare_unseen(
            experiment, self.held_out, given=self.settings.processing.cutoff is not None)
        return replace(self, model=experiment.model, experiment=experiment, unseen=unseen)


@takes(IdentifySettings)
@one_blas_thread
def identify(model: Robot, recordings: Log | Sequence[Log], settings: IdentifySettings | None = None, *,
             loaded: Log | Sequence[Log] = (), held_out: Log | Sequence[Log] = (), whole: Condensed | None = None,
             progress: Callable[[float], None] | None = None, **options: Any) -> Identification:
    """Identify a robot from its logs.

    Where drive gains are wanted the problem is one of currents, and logs become efforts once the gains are known;
    all else is one way.

    Args:
        model: The robot, also by name or path.
        recordings: Logs without payload (or, without `loaded`, all logs, each with the payload it names); one or
            several, read or as paths or DataFrames.
        settings: How; single options may be given by name instead.
        loaded: Logs with a known payload; if they hold currents, drive gains can be identified.
        held_out: Logs to validate on.
        whole: Factors of all logs, condensed with the rows side by side, where `recordings` are but a sample of them:
            the estimate is that of all, verdict and pictures are of the sample. See `identify_logs`.
        progress: Called with the fraction done.
    """
    chosen, tell = settle(IdentifySettings, settings, options), progress or (lambda fraction: None)
    recordings, loaded, held_out = (
        [inspected(log) for log in as_recordings(logs, name)] for logs, name in (
            (recordings, "recordings"), (loaded, "loaded"), (held_out, "held_out")))
    try:
        case = _posed(as_model(model), recordings, loaded, held_out, chosen)
    except (LoopNotClosed, SingularConfiguration) as error:
        raise type(error)(f"the recorded positions do not fit the robot: {error}; `gough diagnose` tries other signs, "
                          "channels and units of them", **error.numbers) from None
    tell(0.4)
    problem: Any = whole or (case.efforts if case.currents is None else case.currents).problem
    main, elimination = methods.main_of(chosen.estimator, case.estimators), None
    if chosen.essential:
        elimination = essential_parameters(problem, main, chosen.ratio,
                                           held_out=None if case.unseen is None else case.unseen.problem)
        kept = elimination.steps[elimination.stop].estimate.parameters
        problem = problem.select([name for name in kept if not name.is_gain])
    found, failed = dict[str, Any](), dict[str, GoughError]()
    methods.run_all(case.estimators, {"regression": lambda: problem, "gains": lambda: problem}, found, failed)
    if case.currents is not None:
        case = case.with_efforts(_in_efforts(case, found[methods.name_of(chosen.estimator, found, failed)]))
    fitted = FittedConstants()
    if case.constants:
        names = [name for name in problem.parameters if not name.is_gain and name not in case.known]
        plain = {name: one for name, one in found.items() if wants(case.estimators[name]) == "regression"}
        made, fitted = with_constants(case.efforts, case.efforts.problem.select(names), case.estimators, plain,
                                      case.constants)
        found |= made
    tell(0.6)
    methods.run_all(case.estimators, {"period": lambda: _period(case, problem, whole),
                              "bodies": lambda: _bodies(case, problem, found)}, found, failed)
    tell(0.8)
    choice = _choice(case, main) if chosen.structures else None
    tell(0.9)
    return _result(case, found, failed, elimination, choice, fitted)


def _posed(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording], held_out: Sequence[Recording],
           chosen: IdentifySettings) -> _Case:
    """Process the logs into the problem that the estimators want, and find constants of joint terms.

    With drive gains, which scale them, constants are found in turns.
    """
    name, measured = payload_of(model, loaded, chosen.payload)
    loaded = [replace(log, payload=name) for log in loaded]
    carried = dict.fromkeys(log.payload for log in (*recordings, *loaded) if log.payload is not None)
    base = base_parameters(model, tie_legs=chosen.tie_legs, payloads=tuple(carried))
    estimators = methods.wanted(chosen.estimator, nominal_gains(model, chosen.gains),
                        with_currents=bool(loaded) and loaded[0].effort is None)
    case = _Case(model=model, base=base, settings=chosen, estimators=estimators, recordings=recordings, loaded=loaded,
                 held_out=held_out)
    of_gains = [estimator for estimator in estimators.values() if wants(estimator) == "gains"]
    if not of_gains:
        experiment = with_passed_efforts(prepare(model, case.logs, base, processing=chosen.processing,
                                                 gains=chosen.gains))
        found = fit_constants(experiment)
        if found:
            model = Model(experiment.model.mechanism.with_constants(found), experiment.model.passing)
            again = prepare(model, case.logs, base, processing=experiment.processing, gains=experiment.gains or None)
            experiment = with_passed_efforts(replace(again, choice=experiment.choice))
        return replace(case.with_efforts(experiment), constants=found)
    check_currents(recordings, loaded)
    refuse_loaded(model, "drive gains")
    case = _in_currents(replace(case, known=known_payload(model, name or "", measured)))
    for _ in range(TURNS if any(constant.fit for constant in model.mechanism.constants.values()) else 0):
        assert case.currents is not None
        found, before = fit_constants(_in_efforts(case, of_gains[0].fit(case.currents.problem))), case.model.mechanism
        case = replace(case, constants=found)
        if all(abs(value - before.constants[name].value) <= SETTLED * abs(value) for name, value in found.items()):
            break
        case = _in_currents(replace(case, model=Model(before.with_constants(found))))
    return case


def _in_currents(case: _Case) -> _Case:
    """Return the case with the problem of currents."""
    currents = currents_problem(case.model, case.recordings, case.loaded, case.known, case.base,
                                processing=case.settings.processing)
    if currents.problem.effort_map is None:  # all that follows is a matter of milliseconds on triangular factors
        currents = currents._replace(problem=currents.problem.in_factors())
    return replace(case, currents=currents)


def _in_efforts(case: _Case, estimate: Estimate) -> Experiment:
    """Return the logs of currents in efforts, with drive gains that were found, or known where data do not tell."""
    assert case.currents is not None
    found = {name.owner: float(value) for name, value in zip(estimate.parameters, estimate.values) if name.is_gain}
    return assemble(case.model, case.logs, case.currents.processed, case.base, case.currents.choice,
                    gains=nominal_gains(case.model, case.settings.gains) | found, known=case.known)


def _period(case: _Case, problem: Regression, whole: Condensed | None) -> PeriodProblem:
    """Return the averaged period of the one log; `all` does not wait for what takes long."""
    if whole is not None:
        raise InvalidInput("maximum likelihood needs the samples of one periodic log in memory, which factors of many "
                           "no longer have; identify that log by itself")
    base = case.base.select(problem.parameters)
    return PeriodProblem(period=methods.averaged_period(case.model, case.efforts.processed, base),
                         brief=case.settings.estimator == ALL)


def _bodies(case: _Case, problem: Regression | Condensed | GainProblem, found: Mapping[str, Any]) -> BodyProblem:
    """Return the regression of the bodies; with drive gains, that of the unloaded robot with the gains found."""
    base = case.base
    if isinstance(problem, GainProblem):
        base = base_parameters(case.model, tie_legs=case.settings.tie_legs)
        problem = concatenate(case.efforts.parts[:len(case.recordings)]).select(base.names)
    start = found.get("gm") or found.get("wls")
    if start is None:
        try:
            start = GaussMarkov().fit(problem)
        except GoughError:
            start = WeightedLeastSquares().fit(problem)
    return BodyProblem(case.model, base, problem, start)


def _choice(case: _Case, main: Estimator) -> ModelChoice:
    """Compare structures on all logs in efforts."""
    experiment, unseen = case.efforts, case.unseen
    problem = experiment.problem.select([name for name in experiment.problem.parameters if name not in case.known])
    choice = model_choice(case.model, case.base, problem, GaussMarkov() if case.currents else main,
                          held_out=None if unseen is None else unseen.problem)
    return choice if case.currents else replace(choice, terms=choose_terms(experiment, unseen))


def _story(elimination: Elimination) -> Iterator[str]:
    for k, step in enumerate(elimination.steps):
        error = "" if step.held_out_error is None else f", held-out error {100 * step.held_out_error:.2f} %"
        what = "all base parameters" if step.removed is None else f"without {step.removed}"
        here = "  <- kept: smallest model that predicts best" if k == elimination.stop and error else ""
        yield f"{len(step.estimate):3d} parameters, {what}: ratio {step.ratio:.1f}{error}{here}"


def _moved(elimination: Elimination) -> Iterator[str]:
    """Say which parameters left their interval when others were removed: the removed ones were small, not zero."""
    full, reduced = elimination.steps[0].estimate, elimination.steps[elimination.stop].estimate
    gone = [name for name, value, std in zip(reduced.parameters, reduced.values, reduced.std)
            if abs(value - full[name]) > 1.96 * std]
    if gone:
        yield (f"essential parameters: {len(gone)} of {len(reduced)} moved by more than their 95 % interval when "
               f"{len(full) - len(reduced)} others were removed ({', '.join(gone)}); the model predicts, but their "
               "standard deviations hold only if what was removed is zero: identify without `essential` to see them")


def _result(case: _Case, found: Mapping[str, Any], failed: Mapping[str, GoughError], elimination: Elimination | None,
            choice: ModelChoice | None, fitted: FittedConstants) -> Identification:
    """Judge the estimate and put everything together."""
    experiment, unseen, name = case.efforts, case.unseen, methods.name_of(case.settings.estimator, found, failed)
    possible = [one for one in found.values() if isinstance(one, FeasibleEstimate)]
    estimates = {key: one.estimate if isinstance(one, FeasibleEstimate) else one for key, one in found.items()}
    estimates[name] = estimate = alike = with_information(experiment, estimates[name])
    validation, fits = validate(estimate), fits_of(experiment, estimate.predict)
    quality = _quality([experiment] if unseen is None else [experiment, unseen])
    notes = [*(() if elimination is None else _moved(elimination)),
             *(f"{key} was not possible: {error}" for key, error in failed.items()), *fitted.notes]
    processed = experiment.processed
    if unseen is not None:
        alike = processed_alike(experiment, unseen, estimate)
        validation = validate_on(unseen, alike, experiment.processing)
        fits += fits_of(unseen, estimate.predict, held_out=True)
        processed += unseen.processed
    notes += [note for log in processed for note in finding_notes(log.findings, log.source)]
    verdict, diagnosis = judged(estimate, alike, validation, experiment, unseen)
    bodies, terms = methods.physical_parameters(case.model, possible[0]) if possible else ({}, {})
    return Identification(
        robot=case.model.mechanism.name, estimator=name, estimate=estimate, base=case.base,
        tied=case.settings.tie_legs, estimates=estimates, validation=validation, verdict=verdict, diagnosis=diagnosis,
        nominal_gains=experiment.gains, known=case.known, constants=fitted, bodies=bodies, joint_terms=terms, fits=fits,
        quality=quality, digests=dict(zip(quality, (log.fingerprint for log in (*case.logs, *case.held_out)))),
        history=() if elimination is None else tuple(_story(elimination)), notes=tuple(notes),
        settings=case.settings.to_dict(), structures=choice, choice=experiment.choice,
        logs={use: tuple(log.source for log in logs) for use, logs in (
            ("identification", case.recordings), ("loaded", case.loaded), ("validation", case.held_out))})


def _quality(experiments: Sequence[Experiment]) -> dict[str, dict[str, float]]:
    """Return figures of the logs, as processed and as recorded, by name; logs of one name keep their own."""
    quality: dict[str, dict[str, float]] = {}
    logs = [(raw, log) for each in experiments for raw, log in zip(each.recordings, each.processed)]
    model, window = experiments[0].model, experiments[0].processing.window or 0.0
    for k, (raw, log) in enumerate(logs):
        again = sum(other.source == log.source for _, other in logs[:k])
        quality[f"{log.source} ({again + 1})" if again else log.source] = {
            "rate [Hz]": raw.rate, **log.quality, "cut-off [Hz]": log.cutoff or 0.0,
            "decimation": float(log.decimation), "periods": float(log.periods),
            "window about reversals [s]": window, "samples": float(len(log)),
            **{f"share of {row} that counts": float(share) for row, share in zip(model.rows, log.mask.mean(axis=0))}}
    return quality
