"""From recordings to a validated model: the main verb.

Of more logs than fit in memory a sample chooses, and factors of all logs decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gough.core.blas import one_blas_thread
from gough.core.errors import (
    GoughError,
    InvalidInput,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.core.notices import Notice, of_log
from gough.core.options import Settings, nested, option
from gough.engine import Model, Robot, as_model, base_parameters
from gough.engine.base import TIE_LEGS
from gough.fitting.estimate import Estimate
from gough.fitting.gain_problem import GainProblem
from gough.fitting.least_squares import GaussMarkov, WeightedLeastSquares
from gough.fitting.physical_consistency import PhysicalEstimate
from gough.fitting.problem import Estimator
from gough.fitting.regression import BlockStatistics, Regression, concatenate
from gough.fitting.selection import Elimination, essential_parameters
from gough.identification import methods
from gough.identification.constants import FittedConstants, fit_constants, with_constants
from gough.identification.experiment import (
    CurrentsProblem,
    Experiment,
    check_currents,
    currents_problem,
    known_payload,
    match_currents,
    payload_of,
    prepare,
    prepare_unseen,
    with_information,
    with_model,
)
from gough.identification.load_friction import linearise_load_friction, refuse_load_friction
from gough.identification.methods import ALL, ESTIMATORS, BodyProblem, PeriodProblem, wants
from gough.identification.result import Identification, fits_of
from gough.identification.structures import ModelChoice, model_choice
from gough.identification.term_choice import choose_terms
from gough.identification.validation import processed_alike, validate, validate_on
from gough.logs.checks import inspected
from gough.logs.readers import Log, as_recordings
from gough.logs.recording import Recording
from gough.processing import Processing
from gough.processing.processed_log import nominal_gains

TURNS, SETTLED = (
    8,
    1e-4,
)  # of drive gains and constants; relative change of the latter that ends them


@dataclass(frozen=True, kw_only=True)
class IdentifySettings(Settings):
    """How a robot is identified."""

    estimator: str | Estimator = option(
        "gm",
        "Whose estimate is the result. gm: Gauss-Markov; ml: filter cut-off by likelihood; "
        "feasible: possible "
        "bodies; tls, gain_ml: with drive gains, from loaded logs; all: side by side.",
        choices=lambda: (*ESTIMATORS, ALL),
    )
    payload: str | None = option(
        None,
        "What the loaded logs carry: a name of the robot file, mass=1.983, or name:m=1.983,mx=0.",
    )
    essential: bool = option(
        False,
        "Keep only the essential parameters (BG13); with logs to validate on, the smallest model "
        "that predicts "
        "them within 1 % of the best.",
    )
    ratio: float = option(
        10.0, "Ratio of relative standard deviations at which that ends.", above=1
    )
    tie_legs: bool = option(False, TIE_LEGS)
    structures: bool = option(
        False,
        "Also compare friction structures, try other joint terms on stretches left out, test "
        "whether legs are "
        "alike and name what the data hardly see.",
    )
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
    processing: Processing = nested(Processing)


@dataclass(frozen=True, kw_only=True)
class FittedLogs:
    """A fitted model with the logs it was fitted to and those it was validated on."""

    identification: Identification
    experiment: Experiment
    held_out: Experiment | None  # processed as the experiment
    estimate_same_filter: (
        Estimate  # with the residuals of the experiment at the held-out logs' filter
    )


@one_blas_thread
def fit_logs(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: IdentifySettings | None = None,
    *,
    loaded: Log | Sequence[Log] = (),
    held_out: Log | Sequence[Log] = (),
    whole: BlockStatistics | None = None,
    progress: Callable[[float], None] | None = None,
) -> FittedLogs:
    """Fit a model to the logs of a robot and validate it.

    Where drive gains are wanted the problem is one of currents, and logs become efforts once the
    gains are known; all else is one way.

    Args:
        model: The robot, also by name or path.
        recordings: Logs without payload (or, without `loaded`, all logs, each with the payload it
            names); one or several, read or as paths or DataFrames.
        settings: How; single options may be given by name instead.
        loaded: Logs with a known payload; if they hold currents, drive gains can be identified.
        held_out: Logs to validate on.
        whole: Factors of all logs, condensed with the rows side by side, where `recordings` are but
            a sample of them: the estimate is that of all, verdict and pictures are of the sample.
                See `identify_logs`.
        progress: Called with the fraction done.
    """
    chosen = settings or IdentifySettings()
    tell = progress or (lambda fraction: None)
    model = as_model(model)
    recordings, loaded, held_out = (
        [inspected(log) for log in as_recordings(logs, name)]
        for logs, name in ((recordings, "recordings"), (loaded, "loaded"), (held_out, "held_out"))
    )
    nominal = nominal_gains(model, chosen.gains)
    estimators = methods.wanted(
        chosen.estimator, nominal, with_currents=bool(loaded) and loaded[0].effort is None
    )

    def unseen_by(experiment: Experiment) -> Experiment | None:
        given = chosen.processing.cutoff is not None
        return prepare_unseen(experiment, held_out, given=given) if held_out else None

    try:
        posed, constants = _posed(model, recordings, loaded, chosen, estimators)
        unseen = unseen_by(posed) if isinstance(posed, Experiment) else None
    except (LoopNotClosed, SingularConfiguration) as error:
        raise type(error)(
            f"the recorded positions do not fit the robot: {error}; `gough diagnose` tries other "
            f"signs, "
            "channels and units of them",
            **error.numbers,
        ) from None
    tell(0.4)
    problem: Any = whole or posed.problem
    main, elimination = methods.main_of(chosen.estimator, estimators), None
    if chosen.essential:
        elimination = essential_parameters(
            problem, main, chosen.ratio, held_out=None if unseen is None else unseen.problem
        )
        kept = elimination.steps[elimination.stop].estimate.parameters
        problem = problem.select([name for name in kept if not name.is_gain])
    found, failed = dict[str, Any](), dict[str, GoughError]()
    methods.run_all(
        estimators, {"regression": lambda: problem, "gains": lambda: problem}, found, failed
    )
    if isinstance(posed, Experiment):
        experiment = posed
    else:
        experiment = posed.in_efforts(
            found[methods.name_of(chosen.estimator, found, failed)], nominal
        )
        unseen = unseen_by(experiment)
    fitted = FittedConstants()
    if constants:
        names = [
            name for name in problem.parameters if not name.is_gain and name not in experiment.known
        ]
        plain = {
            name: one for name, one in found.items() if wants(estimators[name]) == "regression"
        }
        made, fitted = with_constants(
            experiment, experiment.problem.select(names), estimators, plain, constants
        )
        found |= made
    tell(0.6)
    methods.run_all(
        estimators,
        {
            "period": lambda: _period(experiment, problem, whole, brief=chosen.estimator == ALL),
            "bodies": lambda: _bodies(experiment, problem, found, chosen.tie_legs),
        },
        found,
        failed,
    )
    tell(0.8)
    choice = _choice(experiment, unseen, main) if chosen.structures else None
    tell(0.9)
    fit = _validated(experiment, unseen, found, failed, chosen)
    result = fit.identification
    notices = [] if elimination is None else [*_moved(elimination)]
    for key, reason in failed.items():
        text = f"was not possible: {reason}"
        notices.append(Notice(rule="estimator", level="info", where=key, text=text))
    logs = {"identification": recordings, "loaded": loaded, "validation": held_out}
    result = replace(
        result,
        notices=(*notices, *fitted.notices, *result.notices),
        constants=fitted,
        structures=choice,
        history=() if elimination is None else tuple(_story(elimination)),
        logs={use: tuple(log.source for log in own) for use, own in logs.items()},
    )
    return replace(fit, identification=result)


def _posed(
    model: Model,
    recordings: Sequence[Recording],
    loaded: Sequence[Recording],
    chosen: IdentifySettings,
    estimators: Mapping[str, Any],
) -> tuple[Experiment | CurrentsProblem, dict[str, float]]:
    """Process logs into the problem that estimators want, and find constants; in turns with gains
    that scale them.
    """
    name, measured = payload_of(model, loaded, chosen.payload)
    loaded = [replace(log, payload=name) for log in loaded]
    logs, asked, found = [*recordings, *loaded], chosen.processing, dict[str, float]()
    carried = dict.fromkeys(log.payload for log in logs if log.payload is not None)
    base = base_parameters(model, tie_legs=chosen.tie_legs, payloads=tuple(carried))
    of_gains = [estimator for estimator in estimators.values() if wants(estimator) == "gains"]
    if not of_gains:
        experiment = linearise_load_friction(
            prepare(model, logs, base, processing=asked, gains=chosen.gains)
        )
        found = fit_constants(experiment)
        if found:
            mechanism = experiment.model.mechanism.with_constants(found)
            model = experiment.model.with_mechanism(mechanism)
            experiment = linearise_load_friction(with_model(experiment, model))
        return experiment, found
    check_currents(recordings, loaded)
    refuse_load_friction(model, "drive gains")
    known = known_payload(model, name or "", measured)
    matched = match_currents(model, logs, asked)
    for turn in range(TURNS + 1):
        currents = currents_problem(
            model, recordings, loaded, known, base, processing=asked, matched=matched
        )
        constants = model.mechanism.constants
        if (
            currents.problem.effort_map is None
        ):  # all that follows is a matter of milliseconds on triangular factors
            currents = currents._replace(problem=currents.problem.in_factors())
        if turn == TURNS or not any(constant.fit for constant in constants.values()):
            break
        estimate = of_gains[0].fit(currents.problem)
        found = fit_constants(currents.in_efforts(estimate, nominal_gains(model, chosen.gains)))
        if all(
            abs(value - constants[name].value) <= SETTLED * abs(value)
            for name, value in found.items()
        ):
            break
        model = Model(model.mechanism.with_constants(found))
    return currents, found


def _period(
    experiment: Experiment, problem: Regression, whole: BlockStatistics | None, *, brief: bool
) -> PeriodProblem:
    """Return the averaged period of the one log; `all` does not wait for what takes long."""
    if whole is not None:
        raise InvalidInput(
            "maximum likelihood needs the samples of one periodic log in memory, which factors of "
            "many "
            "no longer have; identify that log by itself"
        )
    base = experiment.base.select(problem.parameters)
    return PeriodProblem(
        period=methods.averaged_period(experiment.model, experiment.processed, base), brief=brief
    )


def _bodies(
    experiment: Experiment,
    problem: Regression | BlockStatistics | GainProblem,
    found: Mapping[str, Any],
    tie_legs: bool,
) -> BodyProblem:
    """Return the regression of the bodies; with drive gains, that of the unloaded robot with the
    gains found.
    """
    base = experiment.base
    if isinstance(problem, GainProblem):
        base = base_parameters(experiment.model, tie_legs=tie_legs)
        bare = [
            part for part, log in zip(experiment.parts, experiment.processed) if log.payload is None
        ]
        problem = concatenate(bare).select(base.names)
    start = found.get("gm") or found.get("wls")
    if start is None:
        try:
            start = GaussMarkov().fit(problem)
        except GoughError:
            start = WeightedLeastSquares().fit(problem)
    return BodyProblem(experiment.model, base, problem, start)


def _choice(experiment: Experiment, unseen: Experiment | None, main: Estimator) -> ModelChoice:
    """Compare structures on all logs in efforts."""
    known, problem, of_gains = experiment.known, experiment.problem, wants(main) == "gains"
    problem = problem.select([name for name in problem.parameters if name not in known])
    choice = model_choice(
        experiment.model,
        experiment.base,
        problem,
        GaussMarkov() if of_gains else main,
        held_out=None if unseen is None else unseen.problem,
    )
    return choice if of_gains else replace(choice, terms=choose_terms(experiment, unseen))


def _story(elimination: Elimination) -> Iterator[str]:
    for k, step in enumerate(elimination.steps):
        error = (
            ""
            if step.held_out_error is None
            else f", held-out error {100 * step.held_out_error:.2f} %"
        )
        what = "all base parameters" if step.removed is None else f"without {step.removed}"
        here = (
            "  <- kept: smallest model that predicts best"
            if k == elimination.stop and error
            else ""
        )
        yield f"{len(step.estimate):3d} parameters, {what}: ratio {step.ratio:.1f}{error}{here}"


def _moved(elimination: Elimination) -> Iterator[Notice]:
    """Say which parameters left their interval when others were removed: the removed ones were
    small, not zero.
    """
    full, reduced = elimination.steps[0].estimate, elimination.steps[elimination.stop].estimate
    gone = [
        name
        for name, value, std in zip(reduced.parameters, reduced.values, reduced.std)
        if abs(value - full[name]) > 1.96 * std
    ]
    if gone:
        yield Notice(
            rule="essential parameters",
            level="info",
            where=", ".join(gone),
            text=f"{len(gone)} of {len(reduced)} essential parameters changed by more than their "
            f"95 % interval when {len(full) - len(reduced)} others were removed; the model "
            "predicts, but standard errors hold only if the removed parameters are zero",
            advice="identify without `essential` to see them",
        )


def _validated(
    experiment: Experiment,
    unseen: Experiment | None,
    found: Mapping[str, Any],
    failed: Mapping[str, GoughError],
    chosen: IdentifySettings,
) -> FittedLogs:
    """Validate the estimate that was asked for, and put all of them together."""
    model, name = experiment.model, methods.name_of(chosen.estimator, found, failed)
    possible = [one for one in found.values() if isinstance(one, PhysicalEstimate)]
    estimates = {
        key: one.estimate if isinstance(one, PhysicalEstimate) else one
        for key, one in found.items()
    }
    estimates[name] = estimate = alike = with_information(experiment, estimates[name])
    validation, fits, both = validate(estimate), fits_of(experiment, estimate.predict), [experiment]
    if unseen is not None:
        alike = processed_alike(experiment, unseen, estimate)
        validation = validate_on(unseen, alike, experiment.processing)
        fits += fits_of(unseen, estimate.predict, held_out=True)
        both.append(unseen)
    bodies, terms = methods.physical_parameters(model, possible[0]) if possible else ({}, {})
    quality, logs = _quality(both), [log for each in both for log in each.recordings]
    notices = [*estimate.notices, *estimate.parameter_notices, *validation.notices]
    for each in both:
        for log in each.processed:
            notices += of_log(log.notices, log.source)
    identification = Identification(
        robot=model.mechanism.name,
        estimator=name,
        estimate=estimate,
        base=experiment.base,
        tied=chosen.tie_legs,
        estimates=estimates,
        validation=validation,
        known=experiment.known,
        nominal_gains=experiment.gains,
        bodies=bodies,
        joint_terms=terms,
        fits=fits,
        quality=quality,
        digests=dict(zip(quality, (log.fingerprint for log in logs))),
        notices=tuple(notices),
        settings=chosen.to_dict(),
        choice=experiment.choice,
    )
    return FittedLogs(
        identification=identification,
        experiment=experiment,
        held_out=unseen,
        estimate_same_filter=alike,
    )


def _quality(experiments: Sequence[Experiment]) -> dict[str, dict[str, float]]:
    """Return figures of the logs, as processed and as recorded, by name; logs of one name keep
    their own.
    """
    quality: dict[str, dict[str, float]] = {}
    logs = [(raw, log) for each in experiments for raw, log in zip(each.recordings, each.processed)]
    model, window = experiments[0].model, experiments[0].processing.window or 0.0
    for k, (raw, log) in enumerate(logs):
        again = sum(other.source == log.source for _, other in logs[:k])
        quality[f"{log.source} ({again + 1})" if again else log.source] = {
            "rate [Hz]": raw.rate,
            **log.quality,
            "cut-off [Hz]": log.cutoff or 0.0,
            "decimation": float(log.decimation),
            "periods": float(log.periods),
            "window about reversals [s]": window,
            "samples": float(len(log)),
            **{
                f"share of {row} that counts": float(share)
                for row, share in zip(model.rows, log.valid.mean(axis=0))
            },
        }
    return quality
