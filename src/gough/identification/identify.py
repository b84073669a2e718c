"""From recordings to a validated model: the main verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gough.arrays import FloatArray
from gough.blas import one_blas_thread
from gough.engine import Model, base_parameters
from gough.errors import GoughError, InvalidInput, InvalidRecording, NotIdentifiable, nearest
from gough.estimation.estimate import GAIN, Estimate
from gough.estimation.feasible import Feasible, FeasibleEstimate
from gough.estimation.gain_problem import GainProblem, gain_problem
from gough.estimation.gains import MaximumLikelihoodGains
from gough.estimation.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.estimation.robust import Robust
from gough.estimation.selection import Elimination, Estimator, essential_parameters
from gough.estimation.total_least_squares import TotalLeastSquares
from gough.identification.likelihood import averaged_period, cutoff_likelihood, full_likelihood
from gough.identification.physical import physical_parameters
from gough.identification.result import Fit, Identification
from gough.identification.structures import ModelChoice, model_choice
from gough.parameters import INERTIAL, BaseParameters, ParameterTable
from gough.processing import Processed, Processing, process, regression
from gough.processing.reversals import away_from_reversals, reversal_window
from gough.regression import Regression, concatenate
from gough.signals.finding import notes as finding_notes
from gough.signals.recording import Recording
from gough.validation import validate

EstimatorName = Literal["ls", "wls", "gm", "tls", "ml", "robust", "feasible", "all"]
LINEAR: dict[str, Estimator] = {
    "ls": LeastSquares(), "wls": WeightedLeastSquares(), "gm": GaussMarkov(), "robust": Robust()}
MOST_COEFFICIENTS = 120  # of the executed trajectory, for full maximum likelihood among `all`
PLOTTED = 4000  # samples kept for pictures
Progress = Callable[[float], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Recordings made ready: one regression of all, and each part for pictures.

    Args:
        base: The base parameters of the experiment.
        processed: Each recording.
        whole: Each recording's regression.
        parts: The same, samples near reversals left out.
        problem: All parts together.
        window: Half width of what was left out about reversals. [s]
        gains: Drive gains used, by joint; empty where efforts were recorded.
    """

    base: BaseParameters
    processed: tuple[Processed, ...]
    whole: tuple[Regression, ...]
    parts: tuple[Regression, ...]
    problem: Regression
    window: float
    gains: Mapping[str, float]


@one_blas_thread
def prepare(model: Model, recordings: Sequence[Recording], base: BaseParameters, *,
            processing: Processing | None = None, gains: Mapping[str, float] | None = None,
            window: float | None = None, strict: bool = False) -> Experiment:
    """Process recordings and build their joint regression; a first fit finds the reversal window unless given.

    Args:
        model: The robot.
        recordings: Logs of it.
        base: Base parameters (with payload columns where payloads were carried).
        processing: How to process; from the data by default.
        gains: Drive gains by joint for logs with currents; the robot file's by default.
        window: Half width of what is left out about velocity reversals; 0 keeps all. [s]
        strict: Refuse a window that leaves too few samples of a recording, instead of keeping all of it.
    """
    if not recordings:
        raise InvalidInput("there is no recording to identify from")
    factors = drive_gains(model, gains) if any(needs_gains(r) for r in recordings) else {}
    vector = np.array([factors.get(name, 1.0) for name in model.mechanism.actuated])
    done = tuple(process(model, recording, processing).with_gains(vector) for recording in recordings)
    full = [regression(model, p, base) for p in done]
    if window is None:
        window = 0.0 if all(p.parallel for p in done) else _first_window(model, done, full)
    parts = tuple(_kept(model, p, part, window, strict) for p, part in zip(done, full))
    problem = parts[0] if len(parts) == 1 else concatenate(parts)
    return Experiment(base=base, processed=done, whole=tuple(full), parts=parts, problem=problem, window=window,
                      gains=factors)


def needs_gains(recording: Recording) -> bool:
    """Tell whether a log has currents only."""
    return recording.effort is None and recording.current is not None


def drive_gains(model: Model, gains: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return a drive gain for every motor: given ones, else the robot file's.

    Raises:
        InvalidInput: A gain is missing, not positive, or of no motor.
    """
    for name in gains or {}:
        if name not in model.mechanism.actuated:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, model.mechanism.actuated)}")
    found = {}
    for name in model.mechanism.actuated:
        value = (gains or {}).get(name, model.mechanism.joint(name).gain)
        if value is None:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' in the robot file, "
                "or identify the gains from an unloaded log and one with a weighed payload")
        if not value > 0:
            raise InvalidInput(f"the drive gain of '{name}' is {value}, expected a positive number")
        found[name] = float(value)
    return found


def _first_window(model: Model, processed: Sequence[Processed], parts: Sequence[Regression]) -> float:
    """Fit once with all samples and see how long residuals stay large after reversals."""
    try:
        problem = concatenate([replace(p, group=None, replicates=None) for p in parts])
        # Columns of payloads that none of these logs carries are zero; the rest is fitted without them.
        used = np.asarray(problem.regressor.any(axis=(0, 1)))
        problem = problem.select([name for name, there in zip(problem.parameters, used) if there])
        first = WeightedLeastSquares(uncertainty="white").fit(problem)
    except NotIdentifiable:
        return 0.0
    return max(reversal_window(model, p.motion, part, part.effort - first.predict(part))
               for p, part in zip(processed, parts))


def _kept(model: Model, processed: Processed, part: Regression, window: float, strict: bool) -> Regression:
    assert part.time is not None
    if not window >= 0:
        raise InvalidInput(f"the window about reversals is {window} s; it must not be negative", window=window)
    if window == 0:
        return part
    keep = away_from_reversals(model, processed.motion, part.time, window, processed.dead_band)
    if keep.sum() < 3 * len(part.parameters) / len(part.rows):
        if strict:
            raise InvalidInput(f"{processed.source}: a window of {window} s about reversals leaves {keep.sum()} of "
                               f"{len(part)} samples; give a shorter one, or 0 to keep all", window=window)
        return part
    return part.take(np.flatnonzero(keep))


@one_blas_thread
def identify(model: Model, recordings: Sequence[Recording], *, loaded: Sequence[Recording] = (),
             payload: str | None = None, known: Mapping[str, float] | None = None, estimator: EstimatorName = "gm",
             held_out: Sequence[Recording] = (), essential: bool = False, ratio: float = 10.0, tie_legs: bool = False,
             structures: bool = False, processing: Processing | None = None, gains: Mapping[str, float] | None = None,
             window: float | None = None, progress: Progress | None = None) -> Identification:
    """Identify a robot from its logs.

    Args:
        model: The robot.
        recordings: Logs without payload (or, without `loaded`, all logs, each with the payload it names).
        loaded: Logs with a known payload: with currents, drive gains are identified (estimator `tls`).
        payload: Name of that payload in the robot file, if the logs do not name it.
        known: Known payload parameters, e.g. {"m": 1.983}; the robot file's by default. [SI]
        estimator: `ls`, `wls`, `gm` (Gauss-Markov), `tls` (drive gains), `ml` (filter cut-off by likelihood, with the
            full maximum likelihood beside it), `robust`, `feasible`, or `all`.
        held_out: Logs to validate on.
        essential: Keep only the essential parameters (BG13), largest relative deviation out first; with held-out logs
            the smallest model that predicts them within 1 % of the best.
        ratio: Where that stops.
        tie_legs: Take what the robot file ties as equal across legs.
        structures: Also compare friction structures, test whether legs are alike and name what the data hardly see.
        processing: How to process; from the data by default.
        gains: Drive gains by joint; the robot file's by default.
        window: Half width of what is left out about reversals; from the data by default. [s]
        progress: Called with the fraction done.
    """
    tell = progress or (lambda fraction: None)
    if estimator not in (*LINEAR, "tls", "ml", "feasible", "all"):
        raise InvalidInput(f"no estimator '{estimator}'{nearest(estimator, (*LINEAR, 'tls', 'ml', 'feasible', 'all'))}")
    name = _payload_name(model, loaded, payload)
    loaded = [replace(r, payload=name) for r in loaded]
    carried = dict.fromkeys(r.payload for r in (*recordings, *loaded) if r.payload is not None)
    base = base_parameters(model, tie_legs=tie_legs, payloads=tuple(carried))
    tell(0.1)
    if estimator == "tls" or (loaded and estimator == "all" and loaded[0].effort is None):
        return _with_gains(model, recordings, loaded, name, known, base, estimator=estimator, held_out=held_out,
                           essential=essential, ratio=ratio, tie_legs=tie_legs, structures=structures,
                           processing=processing, window=window, nominal=gains, tell=tell)
    experiment = prepare(model, [*recordings, *loaded], base, processing=processing, gains=gains, window=window,
                         strict=window is not None)
    tell(0.4)
    validation = _held_out(model, held_out, base, processing, experiment.gains, experiment.window)
    problem = experiment.problem
    history: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    chosen = LINEAR.get(estimator, GaussMarkov())
    unseen = None if validation is None else validation.problem
    choice = model_choice(model, base, problem, chosen, held_out=unseen) if structures else None
    if essential:
        elimination = essential_parameters(problem, chosen, ratio, held_out=unseen)
        reduced = elimination.steps[elimination.stop].estimate
        problem, history = problem.select(reduced.parameters), _story(elimination)
        moved = _moved(elimination.steps[0].estimate, reduced)
    estimates, notes, possible = _estimates(model, experiment, problem, estimator, tell)
    result = estimates["gm" if estimator == "all" else estimator]
    tell(0.9)
    return _result(model, estimator, result, base, tie_legs, estimates, experiment, validation, history, notes + moved,
                   settings=_settings(recordings, loaded, held_out, estimator, essential, tie_legs, known, name,
                                      processing, experiment.window),
                   possible=possible, choice=choice)


def _payload_name(model: Model, loaded: Sequence[Recording], payload: str | None) -> str | None:
    if payload is not None and not loaded:
        raise InvalidInput(f"'{payload}' is what the loaded logs carry, and there are none; give them with --loaded")
    if payload is not None:
        return model.mechanism.payload(payload).name
    named = {r.payload for r in loaded if r.payload is not None}
    if len(named) > 1:
        raise InvalidInput(f"the loaded logs carry different payloads: {', '.join(sorted(named))}; identify one by one")
    if loaded and not named:
        raise InvalidInput("the loaded logs do not say which payload they carry; name it with --payload, one of: "
                           f"{', '.join(p.name for p in model.mechanism.payloads) or '(the robot file has none)'}")
    return named.pop() if named else None


def _estimates(model: Model, experiment: Experiment, problem: Regression, estimator: str,
               tell: Progress) -> tuple[dict[str, Estimate], tuple[str, ...], FeasibleEstimate | None]:
    """Run the asked estimators; with `all`, those that cannot be run leave a note."""
    wanted = [*LINEAR, "ml", "full_ml", "feasible"] if estimator == "all" else [estimator]
    if estimator == "ml":
        wanted.append("full_ml")
    found: dict[str, Estimate] = {}
    notes: list[str] = []
    harmonics: int | None = None
    possible: FeasibleEstimate | None = None
    for k, name in enumerate(wanted):
        try:
            if name in LINEAR:
                found[name] = LINEAR[name].fit(problem)
            elif name in ("ml", "full_ml"):
                period = averaged_period(model, experiment.processed, experiment.base.select(problem.parameters),
                                         experiment.window)
                if name == "ml":
                    chosen = cutoff_likelihood(period)
                    harmonics = max(1, round(chosen.cutoff * len(period.average) / period.average.rate))
                    found[name] = chosen.estimate
                elif estimator == "all" and 2 * (harmonics or 0) * period.pose.shape[1] > MOST_COEFFICIENTS:
                    notes.append(f"full maximum likelihood was left out: {harmonics} harmonics of the executed "
                                 "trajectory take long; ask for it with --estimator ml")
                else:
                    found[name] = full_likelihood(period, harmonics=harmonics).estimate
            else:
                start = found.get("gm") or GaussMarkov().fit(problem)
                possible = feasible(model, experiment.base, problem, start)
                found[name] = possible.estimate
        except GoughError as error:
            if estimator == name or name == "gm":
                raise
            notes.append(f"{name} was not possible: {error}")
        tell(0.4 + 0.5 * (k + 1) / len(wanted))
    return found, tuple(notes), possible


def feasible(model: Model, base: BaseParameters, problem: Regression, estimate: Estimate,
             settings: Feasible | None = None) -> FeasibleEstimate:
    """Return the physically possible standard parameters nearest to the robot file's that explain the data."""
    values = model.values(base.standard)
    prior = ParameterTable(names=base.standard, values=values, units=tuple(model.unit(n) for n in base.standard))
    return (settings or Feasible()).fit(problem, estimate, model=base, prior=prior)


def _with_gains(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording], name: str | None,
                known: Mapping[str, float] | None, base: BaseParameters, *, estimator: str,
                held_out: Sequence[Recording], essential: bool, ratio: float, tie_legs: bool, structures: bool,
                processing: Processing | None, window: float | None, nominal: Mapping[str, float] | None,
                tell: Progress) -> Identification:
    """Identify drive gains with a known payload: total least squares and, beside it, maximum likelihood."""
    if not recordings or not loaded or name is None:
        raise InvalidInput("drive gains need logs without payload and logs with a known one: "
                           "gough identify ROBOT unloaded.csv --loaded loaded.csv --payload NAME")
    for record in (*recordings, *loaded):
        if record.current is None:
            raise InvalidRecording(f"{record.source}: drive gains are found from currents, and there are none")
    for record in recordings:
        if record.payload is not None:
            raise InvalidInput(f"{record.source}: given as unloaded but it carries '{record.payload}'; "
                               "are loaded and unloaded logs swapped?")
    problem, experiment = currents_problem(model, recordings, loaded, name, known, base, processing=processing,
                                           window=window)
    problem = problem.condense()  # all that follows is a matter of milliseconds on triangular factors
    tell(0.5)
    guess = {n: v for n, v in ((j, (nominal or {}).get(j, model.mechanism.joint(j).gain))
                               for j in model.mechanism.actuated) if v is not None}
    settings: dict[str, Estimator] = {
        "tls": TotalLeastSquares(nominal=guess), "tls_paper": TotalLeastSquares(nominal=guess, scaling="none"),
        "gain_ml": MaximumLikelihoodGains(nominal=guess)}
    history: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    if essential:
        elimination = essential_parameters(problem, settings["gain_ml"], ratio)
        kept = elimination.estimate.parameters
        problem, history = problem.select([n for n in kept if not n.endswith(GAIN)]), _story(elimination)
        moved = _moved(elimination.steps[0].estimate, elimination.estimate)
    tell(0.7)
    estimates = {key: s.fit(problem) for key, s in settings.items()}
    result = estimates["tls" if estimator == "tls" else "gain_ml"]
    identified = {j: result[j + GAIN] if j + GAIN in result.parameters else guess[j] for j in model.mechanism.actuated}
    validation = _held_out(model, held_out, base, processing, identified, experiment.window)
    experiment = replace(experiment, gains=identified)
    given = known_payload(model, name, known)
    efforts = [_in_efforts(model, part, identified, given) for part in experiment.parts]
    choice = None
    if structures:
        together = concatenate(efforts)
        together = together.select([n for n in together.parameters if n not in given])
        choice = model_choice(model, base, together, GaussMarkov(),
                              held_out=None if validation is None else validation.problem)
    possible: FeasibleEstimate | None = None
    notes = moved
    if estimator == "all":
        robot = base_parameters(model, tie_legs=tie_legs)
        alone = concatenate(efforts[: len(recordings)]).select(robot.names)
        try:
            possible = feasible(model, robot, alone, GaussMarkov().fit(alone))
            estimates["feasible"] = possible.estimate
        except GoughError as error:
            notes = (*notes, f"feasible was not possible: {error}")
    return _result(model, "tls" if estimator == "tls" else "gain_ml", result, base, tie_legs, estimates, experiment,
                   validation, history, notes,
                   settings=_settings(recordings, loaded, held_out, estimator, essential, tie_legs, known, name,
                                      processing, experiment.window),
                   known=given, possible=possible, choice=choice)


def _in_efforts(model: Model, part: Regression, gains: Mapping[str, float], known: Mapping[str, float]) -> Regression:
    """Return a regression of currents as one of efforts, what known payload parameters explain taken off."""
    factor = np.array([gains[row] for row in model.rows])
    return replace(part, effort=part.effort * factor - _known_part(part, known), row_units=model.row_units,
                   covariance=None, replicates=None)


def known_payload(model: Model, name: str, known: Mapping[str, float] | None) -> dict[str, float]:
    """Return the known parameters of a payload by full name (`payload.calibration.m`)."""
    payload = model.mechanism.payload(name)
    values = {p: float(payload.values.get(p, 0.0)) for p in payload.known} if known is None else dict(known)
    for parameter in values:
        if parameter not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{parameter}'{nearest(parameter, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it")
    return {f"payload.{name}.{p}": v for p, v in values.items()}


def currents_problem(model: Model, recordings: Sequence[Recording], loaded: Sequence[Recording], name: str,
                     known: Mapping[str, float] | None, base: BaseParameters, *,
                     processing: Processing | None = None, window: float | None = None,
                     ) -> tuple[GainProblem, Experiment]:
    """Build BG13 (33) from unloaded and loaded logs with currents."""
    robot = [n for n in base.names if not n.startswith("payload.")]
    given = known_payload(model, name, known)
    done, parts = [], []
    for record in (*recordings, *loaded):
        processed = process(model, record, processing)
        done.append(processed)
        unit = processed if processed.current else replace(processed, current=True)
        parts.append(regression(model, replace(unit, current=False), base))
    experiment = Experiment(base=base, processed=tuple(done), whole=tuple(parts), parts=tuple(parts), problem=parts[0],
                            window=window or 0.0, gains={})
    strict = window is not None
    if window is None:
        window = 0.0 if all(p.parallel for p in done) else _current_window(model, done, parts)
    parts = [_kept(model, p, part, window, strict) for p, part in zip(done, parts)]
    count = len(recordings)
    units = _current_units((*recordings, *loaded), model)
    unloaded = _stacked(parts[:count], robot, units)
    mounted = _stacked(parts[count:], [*robot, *(n for n in base.names if n.startswith("payload."))], units)
    missing = {n: v for n, v in given.items() if n in mounted.parameters}
    options: dict[str, Any] = {}
    if model.loops.redundant:
        raise InvalidInput("drive gains of robots with more motors than degrees of freedom: use the Python functions "
                           "`gain_problem(..., currents=, effort_map=)`")
    problem = gain_problem(unloaded, mounted, missing, effort_units=model.row_units, **options)
    return problem, replace(experiment, parts=tuple(parts), window=window)


def _current_units(recordings: Sequence[Recording], model: Model) -> tuple[str, ...]:
    first = recordings[0]
    lookup = dict(zip(first.joints, first.current_units))
    return tuple(lookup[name] for name in model.rows)


def _stacked(parts: Sequence[Regression], names: Sequence[str], units: tuple[str, ...]) -> Regression:
    """Return the parts as one problem, several stretches in each so that scatter between them can be seen."""
    chosen = []
    for part in parts:
        group = part.group if part.group is not None else np.arange(len(part)) * 10 // max(len(part), 1)
        chosen.append(replace(part.select(names), row_units=units, group=group, replicates=None, covariance=None))
    return concatenate(chosen)


def _current_window(model: Model, processed: Sequence[Processed], parts: Sequence[Regression]) -> float:
    """Find the reversal window of logs with currents: each row fitted on its own, so gains do not matter."""
    windows = [0.0]
    for p, part in zip(processed, parts):
        residual = np.empty_like(part.effort)
        for j in range(len(part.rows)):
            W = part.regressor[:, j]
            scale = np.maximum(np.linalg.norm(W, axis=0), 1e-300)
            solution = np.linalg.lstsq(W / scale, part.effort[:, j], rcond=1e-8)[0]
            residual[:, j] = part.effort[:, j] - (W / scale) @ solution
        windows.append(reversal_window(model, p.motion, part, residual))
    return max(windows)


def _held_out(model: Model, recordings: Sequence[Recording], base: BaseParameters, processing: Processing | None,
              gains: Mapping[str, float], window: float) -> Experiment | None:
    """Process held-out recordings with the same rules as those for identification."""
    if not recordings:
        return None
    return prepare(model, recordings, base, processing=processing, gains=gains or None, window=window)


def _story(elimination: Elimination) -> tuple[str, ...]:
    lines = []
    for k, step in enumerate(elimination.steps):
        error = ""
        if step.held_out is not None:
            error = f", held-out error {100 * float(np.sqrt(np.mean(step.held_out**2))):.2f} %"
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
            "standard deviations hold only if what was removed is zero: identify without --essential to see them",)


def _settings(recordings: Sequence[Recording], loaded: Sequence[Recording], held_out: Sequence[Recording],
              estimator: str, essential: bool, tie_legs: bool, known: Mapping[str, float] | None,
              payload: str | None, processing: Processing | None, window: float) -> dict[str, Any]:
    used = Processing() if processing is None else processing
    return {"recordings": [r.source for r in recordings], "loaded": [r.source for r in loaded],
            "validate": [r.source for r in held_out], "estimator": estimator, "essential": essential,
            "tie_legs": tie_legs, "payload": payload, "known": dict(known or {}), "method": used.method,
            "cutoff": used.cutoff, "decimation": used.decimation, "window": window}


def _result(model: Model, estimator: str, estimate: Estimate, base: BaseParameters, tied: bool,
            estimates: Mapping[str, Estimate], experiment: Experiment,
            held_out: Experiment | None, history: tuple[str, ...], notes: tuple[str, ...],
            settings: Mapping[str, Any], known: Mapping[str, float] | None = None,
            possible: FeasibleEstimate | None = None, choice: ModelChoice | None = None) -> Identification:
    gains = np.array([experiment.gains.get(row, 1.0) for row in model.rows])
    known = known or {}
    fits, judged, processed = [], [], [*experiment.processed]
    for source in (experiment, held_out):
        if source is None:
            continue
        for log, whole, part in zip(source.processed, source.whole, source.parts):
            factor = gains if log.current else 1.0
            fits.append(_fit(log, replace(whole, effort=whole.effort * factor), part, estimate, known,
                             held_out=source is held_out))
            if source is held_out:
                judged.append(replace(part, effort=part.effort * factor - _known_part(part, known),
                                      row_units=model.row_units))
    if held_out is not None:
        processed += held_out.processed
    quality = {}
    for k, log in enumerate(processed):
        figures = dict(log.quality)
        figures |= {"cut-off [Hz]": log.cutoff or 0.0, "decimation": float(log.decimation),
                    "periods": float(log.periods), "window about reversals [s]": experiment.window,
                    "samples": float(len(log))}
        again = sum(other.source == log.source for other in processed[:k])  # logs of one name keep their own figures
        quality[f"{log.source} ({again + 1})" if again else log.source] = figures
    findings = tuple(line for log in processed for line in finding_notes(log.findings, log.source))
    bodies, terms = ({}, {}) if possible is None else physical_parameters(model, possible)
    return Identification(
        robot=model.mechanism.name, estimator=estimator, estimate=estimate, base=base,
        tied=tied, estimates=estimates, validation=validate(
            estimate, judged, source=", ".join(log.source for log in processed[len(experiment.processed):])),
        nominal_gains=experiment.gains, bodies=bodies, joint_terms=terms, fits=tuple(fits), quality=quality,
        history=history, notes=notes + findings, settings=settings,
        structures=choice)


def _known_part(part: Regression, known: Mapping[str, float]) -> FloatArray:
    """Return the effort of known payload parameters, (t, r)."""
    total = np.zeros(part.effort.shape)
    for name, value in known.items():
        if name in part.parameters:
            total += part.regressor[:, :, part.parameters.index(name)] * value
    return total


def _fit(processed: Processed, whole: Regression, part: Regression, estimate: Estimate, known: Mapping[str, float], *,
         held_out: bool) -> Fit:
    """Return measured and predicted efforts of a recording, thinned, with the samples in `part` marked as used."""
    assert whole.time is not None
    assert part.time is not None
    stride = max(1, len(whole) // PLOTTED)
    shown = whole.take(slice(None, None, stride))
    time = whole.time[::stride]
    index = np.clip(np.searchsorted(processed.motion.time, time), 0, len(processed) - 1)
    return Fit(label=f"{'held-out' if held_out else 'identification'}: {processed.source}", held_out=held_out,
               time=time, measured=shown.effort, predicted=estimate.predict(shown) + _known_part(shown, known),
               q=processed.motion.q[index], used=np.isin(time, part.time))
