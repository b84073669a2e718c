"""From recordings to a validated model: the main verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, LoopNotClosed, SingularConfiguration
from gough.core.names import Parameter
from gough.core.options import Settings, nested, option, settle, takes
from gough.core.parameters import BaseParameters
from gough.core.regression import Condensed, Regression, concatenate
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.estimators.estimate import Estimate
from gough.estimators.gains.gain_problem import GainProblem
from gough.estimators.linear.least_squares import GaussMarkov
from gough.estimators.physical.feasible import FeasibleEstimate
from gough.estimators.problem import Estimator
from gough.estimators.selection.selection import Elimination, essential_parameters
from gough.identification.constants import FittedConstants, fit_constants, with_constants
from gough.identification.currents import (
    CurrentsProblem,
    check_currents,
    currents_problem,
    gains_of,
    known_payload,
    nominal_gains,
    payload_of,
)
from gough.identification.experiment import (
    Experiment,
    assemble,
    prepare,
    prepare_unseen,
    with_information,
)
from gough.identification.judge import Trial, judged
from gough.identification.load_friction import refuse_loaded, with_passed_efforts
from gough.identification.methods import (
    ALL,
    ESTIMATORS,
    BodyProblem,
    Outcome,
    PeriodProblem,
    averaged_period,
    main_of,
    physical_parameters,
    run_all,
    wanted,
    wants,
)
from gough.identification.result import Fit, Identification
from gough.identification.structures import ModelChoice, model_choice
from gough.identification.term_choice import choose_terms
from gough.identification.validation import (
    known_effort,
    processed_alike,
    told_faster,
    validate,
    without_known,
)
from gough.logs.checks import inspected
from gough.logs.finding import notes as finding_notes
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processed, Processing

PLOTTED = 4000  # samples kept for pictures
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
    """What is identified from which logs, and the problem they state.

    Args:
        model, base: The robot, and the base parameters of the experiment.
        settings: As asked.
        estimators: To run, by name.
        recordings, loaded, held_out: The logs.
        known: Payload parameters that were measured, where drive gains are wanted.
        currents: The problem with unknown drive gains, where they are wanted.
        experiment: The logs in efforts; None as long as the gains are not known.
        unseen: The logs to validate on, likewise, if there are any.
        constants: Of joint terms, found from the logs; the robot has them.
        kept: Names of the parameters to estimate.
        whole: Factors of all logs, where the others are but a sample of them.
    """

    model: Model
    base: BaseParameters
    settings: IdentifySettings
    estimators: Mapping[str, Any]
    recordings: Sequence[Recording]
    loaded: Sequence[Recording]
    held_out: Sequence[Recording]
    known: Mapping[str, float]
    currents: CurrentsProblem | None = None
    experiment: Experiment | None = None
    unseen: Experiment | None = None
    constants: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[Parameter, ...] | None = None
    whole: Condensed | None = None

    @property
    def problem(self) -> Regression | Condensed | GainProblem:
        """What the main estimators are given."""
        whole = self.whole or (self.efforts.problem if self.currents is None else self.currents.problem)
        return whole if self.kept is None else whole.select(self.kept)

    @property
    def efforts(self) -> Experiment:
        """The logs in efforts."""
        assert self.experiment is not None
        return self.experiment

    def with_efforts(self, experiment: Experiment) -> _Case:
        """Return the case with the logs in efforts, those to validate on likewise, and constants of terms found."""
        model, experiment = with_passed_efforts(self.model, experiment)
        found = self.constants if self.currents else fit_constants(model, experiment)
        if found and not self.currents:
            model = Model(model.mechanism.with_constants(found), model.passing)
            again = prepare(model, [*self.recordings, *self.loaded], self.base, processing=experiment.processing,
                            gains=experiment.gains or None)
            model, experiment = with_passed_efforts(model, replace(again, choice=experiment.choice))
        unseen = None if not self.held_out else prepare_unseen(
            model, self.held_out, experiment, given=self.settings.processing.cutoff is not None)
        return replace(self, model=model, constants=found, experiment=experiment, unseen=unseen)

    @property
    def unloaded(self) -> Regression:
        """All logs in efforts, without those of known payload parameters."""
        return concatenate(self.free_parts()) if self.known else self.efforts.problem

    def free_parts(self) -> list[Regression]:
        """Return the regressions of the logs without the efforts of known payload parameters."""
        return [without_known(part, self.known) for part in self.efforts.parts]


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
    chosen = settle(IdentifySettings, settings, options)
    tell = progress or (lambda fraction: None)
    model = as_model(model)
    recordings, loaded, held_out = (
        [inspected(log) for log in as_recordings(logs, name)] for logs, name in (
            (recordings, "recordings"), (loaded, "loaded"), (held_out, "held_out")))
    try:
        case = replace(_settled(_pose(model, recordings, loaded, held_out, chosen)), whole=whole)
    except (LoopNotClosed, SingularConfiguration) as error:
        raise type(error)(f"the recorded positions do not fit the robot: {error}; `gough diagnose` tries other signs, "
                          "channels and units of them", **error.numbers) from None
    tell(0.4)
    unseen = None if case.unseen is None else case.unseen.problem
    main = main_of(chosen.estimator, case.estimators)
    elimination = None
    if chosen.essential:
        elimination = essential_parameters(case.problem, main, chosen.ratio, held_out=unseen)
        kept = elimination.steps[elimination.stop].estimate.parameters
        case = replace(case, kept=tuple(name for name in kept if not name.is_gain))
    outcome = run_all(case.estimators, {"regression": lambda: case.problem, "gains": lambda: case.problem}, Outcome())
    if case.currents is not None:
        case = case.with_efforts(_in_efforts(case, outcome.found[outcome.name(chosen.estimator)]))
    fitted = FittedConstants()
    if case.constants:
        plain = {name: found for name, found in outcome.found.items() if wants(case.estimators[name]) == "regression"}
        names = [name for name in case.problem.parameters if not name.is_gain and name not in case.known]
        made, fitted = with_constants(case.model, case.efforts, case.unloaded.select(names), case.estimators, plain,
                                      case.constants)
        outcome = replace(outcome, found={**outcome.found, **made})
    tell(0.6)
    outcome = run_all(case.estimators, {"period": lambda: _period(case), "bodies": lambda: _bodies(case, outcome)},
                      outcome)
    tell(0.8)
    choice = _choice(case, main) if chosen.structures else None
    tell(0.9)
    return _result(case, outcome, elimination, choice, fitted)


def _pose(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording], held_out: Sequence[Recording],
          chosen: IdentifySettings) -> _Case:
    """Process the logs into the problem that the estimators want."""
    name, measured = payload_of(model, loaded, chosen.payload)
    loaded = [replace(log, payload=name) for log in loaded]
    carried = dict.fromkeys(log.payload for log in (*recordings, *loaded) if log.payload is not None)
    base = base_parameters(model, tie_legs=chosen.tie_legs, payloads=tuple(carried))
    estimators = wanted(chosen.estimator, nominal_gains(model, chosen.gains),
                        with_currents=bool(loaded) and loaded[0].effort is None)
    asked = chosen.processing
    case = _Case(model=model, base=base, settings=chosen, estimators=estimators, recordings=recordings, loaded=loaded,
                 held_out=held_out, known={})
    if any(wants(estimator) == "gains" for estimator in estimators.values()):
        check_currents(recordings, loaded)
        refuse_loaded(model, "drive gains")
        currents = currents_problem(model, recordings, loaded, name or "", measured, base, processing=asked)
        if currents.problem.effort_map is None:  # all that follows is a matter of milliseconds on triangular factors
            currents = currents._replace(problem=currents.problem.in_factors())
        return replace(case, currents=currents, known=known_payload(model, name or "", measured))
    return case.with_efforts(prepare(model, [*recordings, *loaded], base, processing=asked, gains=chosen.gains))


def _in_efforts(case: _Case, estimate: Any) -> Experiment:
    """Return the logs of currents in efforts, with drive gains that were found."""
    assert case.currents is not None
    gains = gains_of(estimate, case.model, case.settings.gains)
    return assemble(case.model, case.currents.processed, case.base, case.currents.choice, gains=gains)


def _settled(case: _Case) -> _Case:
    """Return a case of currents with constants of joint terms: found in turns with the drive gains that scale them."""
    free = [name for name, constant in case.model.mechanism.constants.items() if constant.fit]
    if case.currents is None or not free:
        return case
    estimator = next(one for one in case.estimators.values() if wants(one) == "gains")
    for _ in range(TURNS):
        found = fit_constants(case.model, _in_efforts(case, estimator.fit(case.problem)))
        before = case.model.mechanism.constants
        if all(abs(value - before[name].value) <= SETTLED * abs(value) for name, value in found.items()):
            break
        case = _pose(Model(case.model.mechanism.with_constants(found)), case.recordings, case.loaded, case.held_out,
                     case.settings)
    return replace(case, constants=found)


def _period(case: _Case) -> PeriodProblem:
    """Return the averaged period of the one log; `all` does not wait for what takes long."""
    if case.whole is not None:
        raise InvalidInput("maximum likelihood needs the samples of one periodic log in memory, which factors of many "
                           "no longer have; identify that log by itself")
    base = case.base.select(case.problem.parameters)
    return PeriodProblem(period=averaged_period(case.model, case.efforts.processed, base),
                         brief=case.settings.estimator == ALL)


def _bodies(case: _Case, outcome: Outcome) -> BodyProblem:
    """Return the regression of the bodies; with drive gains, that of the unloaded robot with the gains found."""
    base, problem = case.base, case.problem
    if isinstance(problem, GainProblem):
        base = base_parameters(case.model, tie_legs=case.settings.tie_legs)
        problem = concatenate(case.free_parts()[:len(case.recordings)]).select(base.names)
    return BodyProblem(model=case.model, base=base, regression=problem, start=outcome.start(problem))


def _choice(case: _Case, main: Estimator) -> ModelChoice:
    """Compare structures on all logs in efforts."""
    problem = case.unloaded
    problem = problem.select([name for name in problem.parameters if name not in case.known])
    choice = model_choice(case.model, case.base, problem, GaussMarkov() if case.currents else main,
                          held_out=None if case.unseen is None else case.unseen.problem)
    return choice if case.currents else replace(choice, terms=choose_terms(case.model, case.efforts, case.unseen))


def _story(elimination: Elimination) -> tuple[str, ...]:
    lines = []
    for k, step in enumerate(elimination.steps):
        error = "" if step.held_out_error is None else f", held-out error {100 * step.held_out_error:.2f} %"
        what = "all base parameters" if step.removed is None else f"without {step.removed}"
        here = "  <- kept: smallest model that predicts best" if k == elimination.stop and error else ""
        lines.append(f"{len(step.estimate):3d} parameters, {what}: ratio {step.ratio:.1f}{error}{here}")
    return tuple(lines)


def _moved(full: Estimate, reduced: Estimate) -> tuple[str, ...]:
    """Say which parameters left their interval when others were removed: the removed ones were small, not zero."""
    gone = [name for name, value, std in zip(reduced.parameters, reduced.values, reduced.std)
            if abs(value - full[name]) > 1.96 * std]
    if not gone:
        return ()
    return (f"essential parameters: {len(gone)} of {len(reduced)} moved by more than their 95 % interval when "
            f"{len(full) - len(reduced)} others were removed ({', '.join(gone)}); the model predicts, but their "
            "standard deviations hold only if what was removed is zero: identify without `essential` to see them",)


def _result(case: _Case, outcome: Outcome, elimination: Elimination | None, choice: ModelChoice | None,
            fitted: FittedConstants) -> Identification:
    """Judge the estimate and put everything together."""
    name = outcome.name(case.settings.estimator)
    estimates = {key: found.estimate if isinstance(found, FeasibleEstimate) else found
                 for key, found in outcome.found.items()}
    estimates[name] = estimate = with_information(case.model, [*case.recordings, *case.loaded], case.efforts,
                                                  estimates[name])
    notes = [] if elimination is None else [*_moved(elimination.steps[0].estimate,
                                                    elimination.steps[elimination.stop].estimate)]
    notes += [f"{key} was not possible: {error}" for key, error in outcome.failed.items()]
    notes += fitted.notes
    fits, processed = [], []
    for source in filter(None, (case.efforts, case.unseen)):
        for log, part in zip(source.processed, source.parts):
            fits.append(fit_of(log, part, lambda p: estimate.predict(p) + known_effort(p, case.known),
                               held_out=source is case.unseen))
            processed.append(log)
    for log in processed:
        notes += finding_notes(log.findings, log.source)
    unseen = [] if case.unseen is None else [without_known(part, case.known) for part in case.unseen.parts]
    used = (*case.recordings, *case.loaded)
    alike = processed_alike(case.model, used, case.efforts, case.unseen, estimate, case.known)
    validation = validate(alike, unseen, source=", ".join(log.source for log in case.held_out))
    if case.unseen is not None:
        validation = told_faster(validation, case.efforts.processing, case.unseen.processing)
    verdict, diagnosis = judged(Trial(
        model=case.model, base=case.base, estimate=estimate, alike=alike, validation=validation,
        experiment=case.efforts, unseen=case.unseen, recordings=used, held_out=case.held_out, known=case.known))
    logs = [*used, *case.held_out]
    quality = _quality(case.model, processed, logs, case.efforts.processing.window or 0.0)
    possible = next((found for found in outcome.found.values() if isinstance(found, FeasibleEstimate)), None)
    bodies, terms = ({}, {}) if possible is None else physical_parameters(case.model, possible)
    return Identification(
        robot=case.model.mechanism.name, estimator=name, estimate=estimate, base=case.base,
        tied=case.settings.tie_legs, estimates=estimates,
        validation=validation, verdict=verdict, diagnosis=diagnosis,
        nominal_gains=case.efforts.gains, known=case.known, constants=fitted, bodies=bodies, joint_terms=terms,
        fits=tuple(fits),
        quality=quality, digests=dict(zip(quality, (log.fingerprint for log in logs))),
        history=() if elimination is None else _story(elimination),
        notes=tuple(notes), settings=case.settings.to_dict(), structures=choice, choice=case.efforts.choice,
        logs={"identification": tuple(log.source for log in case.recordings),
              "loaded": tuple(log.source for log in case.loaded),
              "validation": tuple(log.source for log in case.held_out)})


def _quality(model: Model, processed: Sequence[Processed], logs: Sequence[Recording],
             window: float) -> dict[str, dict[str, float]]:
    """Return figures of the logs, as processed and as recorded, by name; logs of one name keep their own."""
    quality: dict[str, dict[str, float]] = {}
    for k, log in enumerate(processed):
        again = sum(other.source == log.source for other in processed[:k])
        quality[f"{log.source} ({again + 1})" if again else log.source] = {
            "rate [Hz]": logs[k].rate, **log.quality, "cut-off [Hz]": log.cutoff or 0.0,
            "decimation": float(log.decimation), "periods": float(log.periods),
            "window about reversals [s]": window, "samples": float(len(log)),
            **{f"share of {row} that counts": float(share) for row, share in zip(model.rows, log.mask.mean(axis=0))}}
    return quality


def fit_of(processed: Processed, part: Regression, predict: Callable[[Regression], FloatArray], *,
           held_out: bool = False) -> Fit:
    """Return measured and predicted efforts of a recording, thinned, with the equations that count marked as used."""
    shown = part.take(slice(None, None, max(1, len(part) // PLOTTED)))
    assert shown.time is not None
    assert shown.sample is not None
    assert shown.mask is not None
    return Fit(label=f"{'held-out' if held_out else 'identification'}: {processed.source}", held_out=held_out,
               time=shown.time, measured=shown.effort, predicted=predict(shown),
               q=processed.motion.q[shown.sample - processed.sample[0]], used=shown.mask)
