"""Fit a model to logs and validate it: the data flow of an identification."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from gough.core.blas import one_blas_thread
from gough.core.errors import (
    GoughError,
    InvalidInput,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.core.notices import Notice, of_log
from gough.core.progress import portion, report
from gough.engine import Robot, as_model, base_parameters
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Estimate
from gough.fitting.gain_problem import GainProblem
from gough.fitting.least_squares import GaussMarkov, WeightedLeastSquares
from gough.fitting.problem import (
    BodyProblem,
    LinearProblem,
    PeriodicProblem,
    SimulationProblem,
    needed_problem,
)
from gough.fitting.regression import concatenate
from gough.fitting.selection import Elimination, essential_parameters
from gough.identification.constants import FittedConstants, with_constants
from gough.identification.currents import gain_units
from gough.identification.estimator_choice import choose_estimator
from gough.identification.estimators import (
    ALL,
    AUTO_ESTIMATOR,
    ESTIMATORS,
    EstimatorRun,
    PhysicalParameters,
    physical_parameters,
    selection_estimator,
)
from gough.identification.experiment import Experiment, prepare_held_out
from gough.identification.parameter_constraints import (
    ConstrainedEstimate,
    constrained,
    no_parameters,
)
from gough.identification.position_noise import add_position_noise_effects
from gough.identification.prepare_problem import (
    IdentificationTask,
    PreparedProblem,
    add_gains,
    add_terms,
    prepare_problem,
    read_task,
)
from gough.identification.problems import (
    AveragedPeriodProblem,
    RobotBodyProblem,
    SimulatedLogs,
)
from gough.identification.result import VALID_FRACTION, Identification, fits_of
from gough.identification.settings import AUTO_TERMS, IdentifySettings
from gough.identification.stated_values import stated_payload_notices
from gough.identification.structures import ModelChoice, model_choice
from gough.identification.term_choice import choose_terms
from gough.identification.validation import (
    error_of_all_samples,
    validate,
    validate_on,
    with_same_filter,
)
from gough.logs.carrying import switching_notices
from gough.logs.readers import Log

Problem = LinearProblem | GainProblem


@dataclass(frozen=True, kw_only=True)
class FittedLogs:
    """A fitted model with the logs it was fitted to and those it was validated on."""

    identification: Identification  # the result
    experiment: Experiment  # the logs it was fitted to
    held_out: Experiment | None  # processed as the experiment
    # the estimate with the residuals of the experiment at the filter of
    # the held-out logs
    estimate_same_filter: Estimate

    @property
    def estimate(self) -> Estimate:
        """The estimate that is the result."""
        return self.identification.estimate


@one_blas_thread
def fit_logs(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: IdentifySettings | None = None,
    *,
    loaded: Log | Sequence[Log] | None = None,
    held_out: Log | Sequence[Log] | None = None,
    whole: BlockStatistics | None = None,
) -> FittedLogs:
    """Fit a model to the logs of a robot and validate it.

    Where drive gains are identified, the problem is one of currents,
    and the logs are turned into efforts once the gains are known.

    Args:
        model: The robot, also by name or path.
        recordings: Logs without payload (or, without `loaded`, all
            logs, each with the payload it names); one or several, read
            or as paths or DataFrames.
        settings: Options.
        loaded: Logs with a known payload; if they hold currents, drive
            gains can be identified.
        held_out: Logs to validate on.
        whole: Statistics of all logs with the rows side by side, where
            `recordings` are only a sample of them: the estimate is that
            of all, figures are of the sample.
    """
    asked = settings or IdentifySettings()
    task = read_task(as_model(model), asked, recordings, loaded, held_out, whole)
    prepared = _prepare(task)
    problem = whole or prepared.problem
    report(0.4)
    choice_notices: tuple[Notice, ...] = ()
    if asked.estimator == AUTO_ESTIMATOR:
        name, choice_notices = choose_estimator(problem, ESTIMATORS)
        task = task.with_estimator(name)
    problem, elimination = _essential(task, problem, prepared.held_out)
    run = EstimatorRun()
    run.run(task.estimators, {LinearProblem: lambda: problem, GainProblem: lambda: problem})
    experiment, held_out_logs = _in_efforts(task, prepared, run)
    constants = _fit_with_constants(task, prepared, experiment, problem, run)
    report(0.6)
    _run_with_robot(task, experiment, problem, run)
    report(0.8)
    structures = _compare_structures(task, experiment, held_out_logs)
    report(0.9)

    fitted = _validate(task, experiment, held_out_logs, run)
    switching: list[Notice] = []
    if asked.carrying is None and not task.loaded:
        switching = switching_notices(task.recordings)
    notices = (
        *stated_payload_notices(task.model, task.loaded, asked.payload, fitted.estimate),
        *elimination.notices(),
        *run.failures(),
        *choice_notices,
        *prepared.notices,
        *constants.notices,
        *switching,
        *fitted.identification.notices,
    )
    identification = replace(
        fitted.identification,
        settings=asked.to_dict(),
        notices=notices,
        added_terms=prepared.added_terms.text,
        constants=constants,
        structures=structures,
        history=elimination.history(),
        logs=task.log_names(),
    )
    return replace(fitted, identification=identification)


def _prepare(task: IdentificationTask) -> PreparedProblem:
    """Process the logs and build the problem, with the joint terms and gains to be found."""
    try:
        with portion(0.0, 0.3):
            prepared = prepare_problem(task)
        if task.settings.terms == AUTO_TERMS:
            prepared = add_terms(task, prepared)
        if task.settings.find_gains:
            prepared = add_gains(prepared, task.whole)
        if not task.held_out or not isinstance(prepared.logs, Experiment):
            return prepared  # held-out logs need the drive gains
        return replace(prepared, held_out=_process_held_out(task, prepared.logs))
    except (LoopNotClosed, SingularConfiguration) as error:
        raise type(error)(
            f"the recorded positions do not fit the robot: {error}; `gough diagnose` tries other "
            "signs, channels and units of them",
            **error.numbers,
        ) from None


def _process_held_out(task: IdentificationTask, experiment: Experiment) -> Experiment:
    """Process the held-out logs as the experiment."""
    given = task.settings.processing.cutoff is not None
    return prepare_held_out(experiment, task.held_out, given=given)


def _essential(
    task: IdentificationTask, problem: Problem, held_out: Experiment | None
) -> tuple[Problem, Elimination]:
    """Return the problem of the essential parameters, if they were asked for, and the steps."""
    settings = task.settings
    if not settings.essential:
        return problem, Elimination()
    elimination = essential_parameters(
        problem,
        selection_estimator(settings.estimator, task.estimators),
        settings.ratio,
        held_out=None if held_out is None else held_out.problem,
    )
    kept = elimination.steps[elimination.stop].estimate.parameters
    return problem.select([name for name in kept if not name.is_gain]), elimination


def _in_efforts(
    task: IdentificationTask, prepared: PreparedProblem, run: EstimatorRun
) -> tuple[Experiment, Experiment | None]:
    """Return all logs and the held-out ones in efforts, by the drive gains that were estimated."""
    if prepared.gains is not None:
        for name, estimate in run.estimates.items():
            run.estimates[name] = prepared.gains.completed(estimate)
    if isinstance(prepared.logs, Experiment):
        return prepared.logs, prepared.held_out
    estimate = run.estimates[run.result_name(task.settings.estimator)]
    experiment = prepared.logs.in_efforts(estimate, task.gains)
    if not task.held_out:
        return experiment, None
    return experiment, _process_held_out(task, experiment)


def _fit_with_constants(
    task: IdentificationTask,
    prepared: PreparedProblem,
    experiment: Experiment,
    problem: Problem,
    run: EstimatorRun,
) -> FittedConstants:
    """Put estimates in their place that know that constants were fitted to the same data."""
    if not prepared.constants:
        return FittedConstants()
    names = []
    for name in problem.parameters:
        if not name.is_gain and name not in experiment.known:
            names.append(name)
    linear = {}
    for key, estimate in run.estimates.items():
        if needed_problem(task.estimators[key]) is LinearProblem:
            linear[key] = estimate
    estimates, constants = with_constants(
        experiment,
        experiment.problem.select(names),
        task.estimators,
        linear,
        prepared.constants,
    )
    run.estimates.update(estimates)
    return constants


def _run_with_robot(
    task: IdentificationTask, experiment: Experiment, problem: Problem, run: EstimatorRun
) -> None:
    """Run the estimators that need more of the robot than its regression."""
    run.run(
        task.estimators,
        {
            PeriodicProblem: lambda: _period_problem(task, experiment, problem),
            BodyProblem: lambda: _body_problem(task, experiment, problem, run),
            SimulationProblem: lambda: _simulation_problem(experiment),
        },
    )


def _period_problem(
    task: IdentificationTask, experiment: Experiment, problem: Problem
) -> AveragedPeriodProblem:
    """Return the averaged period of the one periodic log."""
    if task.whole is not None:
        raise InvalidInput(
            "maximum likelihood needs the samples of one periodic log in memory, which statistics "
            "of many logs do not have; identify that log by itself"
        )
    base = experiment.base.select(problem.parameters)
    from gough.identification.likelihood import averaged_period  # most fits need it not

    period = averaged_period(experiment.model, experiment.processed, base)
    return AveragedPeriodProblem(period=period, skip_long=task.settings.estimator == ALL)


def _body_problem(
    task: IdentificationTask, experiment: Experiment, problem: Problem, run: EstimatorRun
) -> RobotBodyProblem:
    """Return the linear problem of the bodies; with drive gains that of the unloaded robot."""
    base = experiment.base
    if isinstance(problem, GainProblem):
        base = base_parameters(experiment.model, tie_legs=task.settings.tie_legs)
        unloaded = []
        for regression, log in zip(experiment.regressions, experiment.processed):
            if log.payload is None:
                unloaded.append(regression)
        problem = concatenate(unloaded).select(base.names)
    start = run.estimates.get("gm") or run.estimates.get("wls")
    if any(name.is_gain for name in problem.parameters):  # found beside logs in efforts
        problem = experiment.problem
        start = None
    if start is None:
        try:
            start = GaussMarkov().fit(problem)
        except GoughError:
            start = WeightedLeastSquares().fit(problem)
    return RobotBodyProblem(
        model=experiment.model,
        base=base,
        regression=problem,
        start=start,
        total_mass=task.settings.total_mass,
    )


def _simulation_problem(experiment: Experiment) -> SimulatedLogs:
    """Return robot and logs with a simulation of the closed loop."""
    return SimulatedLogs(
        model=experiment.model,
        base=experiment.base,
        regression=experiment.problem,
        recordings=experiment.recordings,
    )


def _compare_structures(
    task: IdentificationTask, experiment: Experiment, held_out: Experiment | None
) -> ModelChoice | None:
    """Compare friction structures and joint terms on all logs in efforts, if asked for."""
    if not task.settings.structures:
        return None
    estimator = selection_estimator(task.settings.estimator, task.estimators)
    names = [name for name in experiment.problem.parameters if name not in experiment.known]
    with_gains = needed_problem(estimator) is GainProblem
    choice = model_choice(
        experiment.model,
        experiment.base,
        experiment.problem.select(names),
        GaussMarkov() if with_gains else estimator,
        held_out=None if held_out is None else held_out.problem,
    )
    if with_gains:
        return choice
    return replace(choice, terms=choose_terms(experiment, held_out))


def _validate(
    task: IdentificationTask,
    experiment: Experiment,
    held_out: Experiment | None,
    run: EstimatorRun,
) -> FittedLogs:
    """Validate the estimate that was asked for, and collect the result."""
    settings = task.settings
    name = run.result_name(settings.estimator)
    physical = PhysicalParameters({}, {}, {})
    for consistent in run.physical.values():
        physical = physical_parameters(experiment.model, consistent)
    with_position_noise = add_position_noise_effects(experiment, run.estimates[name])
    solution = _constrained(with_position_noise, experiment, settings)
    estimate = solution.estimate
    same_filter = estimate
    validation = validate(estimate)
    fits = fits_of(experiment, estimate.predict)
    experiments = [experiment]
    if held_out is not None:
        same_filter = with_same_filter(experiment, held_out, estimate)
        validation = validate_on(held_out, same_filter, experiment.processing)
        fits += fits_of(held_out, estimate.predict, held_out=True)
        experiments.append(held_out)
    quality, digests = _data_quality(experiments)
    notices = (
        *estimate.notices,
        *estimate.parameter_notices,
        *validation.notices,
        *_log_notices(experiments),
    )
    identification = Identification(
        robot=experiment.model.mechanism.name,
        estimator=name,
        estimate=estimate,
        base=experiment.base,
        stated=solution.stated,
        derived=solution.derived,
        tied=settings.tie_legs,
        estimates={**run.estimates, name: estimate},
        validation=validation,
        known=experiment.known,
        nominal_gains=experiment.gains,
        gain_units=gain_units(experiment.model, experiment.recordings),
        bodies=physical.bodies,
        joint_terms=physical.terms,
        determined=physical.determined,
        relative_all=_error_by_row(estimate, experiment),
        fits=fits,
        quality=quality,
        digests=digests,
        notices=notices,
        choice=experiment.choice,
    )
    return FittedLogs(
        identification=identification,
        experiment=experiment,
        held_out=held_out,
        estimate_same_filter=same_filter,
    )


def _log_notices(experiments: Sequence[Experiment]) -> list[Notice]:
    """Return what reading and processing reported of each log."""
    notices: list[Notice] = []
    for experiment in experiments:
        for log in experiment.processed:
            notices += of_log(log.notices, log.source)
    return notices


def _constrained(
    estimate: Estimate, experiment: Experiment, settings: IdentifySettings
) -> ConstrainedEstimate:
    """Return the estimate with the parameters that are fixed, tied or bounded."""
    if not (settings.fixed or settings.tied or settings.bounds):
        return ConstrainedEstimate(estimate=estimate, stated=(), derived=no_parameters())
    return constrained(
        estimate,
        experiment.problem,
        experiment.base,
        settings.fixed or {},
        settings.bounds or {},
        settings.tied or {},
    )


def _error_by_row(estimate: Estimate, experiment: Experiment) -> dict[str, float]:
    """Return the error over the effort of all samples of the identification logs, by row."""
    errors = error_of_all_samples(estimate, experiment.regressions)
    return dict(zip(estimate.rows, errors.tolist()))


def _data_quality(
    experiments: Sequence[Experiment],
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return figures of the logs, as recorded and as processed, and fingerprints, by name."""
    model = experiments[0].model
    window = experiments[0].processing.window or 0.0
    quality: dict[str, dict[str, float]] = {}
    digests: dict[str, str] = {}
    for experiment in experiments:
        for log in experiment.processed:
            recorded = log.whole_log.recorded
            figures = {"rate [Hz]": recorded.rate, **log.quality}
            figures["cut-off [Hz]"] = log.cutoff or 0.0
            figures["decimation"] = float(log.decimation)
            figures["periods"] = float(log.periods)
            figures["window around reversals [s]"] = window
            figures["samples"] = float(len(log))
            for row, fraction in zip(model.rows, log.valid.mean(axis=0)):
                figures[f"{VALID_FRACTION} {row}"] = float(fraction)
            name = _unused_name(log.source, quality)
            quality[name] = figures
            digests[name] = recorded.fingerprint
    return quality, digests


def _unused_name(name: str, names: Container[str]) -> str:
    """Return a name that is not taken yet: `log.csv`, `log.csv (2)`."""
    if name not in names:
        return name
    count = 2
    while f"{name} ({count})" in names:
        count += 1
    return f"{name} ({count})"
