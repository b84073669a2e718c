"""From recordings to a validated model: the main verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import GoughError, InvalidInput, InvalidRecording, nearest
from gough.core.parameters import BaseParameters, ParameterTable
from gough.core.regression import Regression, concatenate
from gough.engine import Model, base_parameters
from gough.estimators.estimate import GAIN, Estimate
from gough.estimators.gains.maximum_likelihood import MaximumLikelihoodGains
from gough.estimators.gains.total_least_squares import TotalLeastSquares
from gough.estimators.linear.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.estimators.linear.robust import Robust
from gough.estimators.physical.feasible import Feasible, FeasibleEstimate
from gough.estimators.problem import Estimator
from gough.estimators.selection.selection import Elimination, essential_parameters
from gough.identification.currents import currents_problem, known_payload
from gough.identification.experiment import Experiment, assemble, prepare
from gough.identification.likelihood import averaged_period, cutoff_likelihood, full_likelihood
from gough.identification.physical import physical_parameters
from gough.identification.result import Fit, Identification
from gough.identification.structures import ModelChoice, model_choice
from gough.identification.validation import validate
from gough.logs.finding import notes as finding_notes
from gough.logs.recording import Recording
from gough.mechanism.terms import TERMS
from gough.processing import Processed, Processing

EstimatorName = Literal["ls", "wls", "gm", "tls", "ml", "robust", "feasible", "all"]
LINEAR: dict[str, Estimator] = {
    "ls": LeastSquares(), "wls": WeightedLeastSquares(), "gm": GaussMarkov(), "robust": Robust()}
MOST_COEFFICIENTS = 120  # of the executed trajectory, for full maximum likelihood among `all`
PLOTTED = 4000  # samples kept for pictures
Progress = Callable[[float], None]


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
    held = [name for name in base.standard if (term := TERMS.get(name.rpartition(".")[2])) and term.nonnegative]
    return (settings or Feasible()).about(base, prior, held).nearest(problem, estimate)


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
    problem, done, window = currents_problem(model, recordings, loaded, name, known, base, processing=processing,
                                             window=window)
    if problem.effort_map is None:
        problem = problem.in_factors()  # all that follows is a matter of milliseconds on triangular factors
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
    chosen = "tls" if estimator == "tls" else "gain_ml"
    estimates: dict[str, Estimate] = {}
    notes: tuple[str, ...] = moved
    for key, fitting in settings.items():
        try:
            estimates[key] = fitting.fit(problem)
        except GoughError as error:
            if key == chosen:
                raise
            notes = (*notes, f"{key} was not possible: {error}")
    result = estimates[chosen]
    identified = {j: result[j + GAIN] if j + GAIN in result.parameters else guess[j] for j in model.mechanism.actuated}
    validation = _held_out(model, held_out, base, processing, identified, window)
    experiment = assemble(model, done, base, gains=identified, window=window)
    given = known_payload(model, name, known)
    efforts = [replace(part, effort=part.effort - _known_part(part, given)) for part in experiment.parts]
    choice = None
    if structures:
        together = concatenate(efforts)
        together = together.select([n for n in together.parameters if n not in given])
        choice = model_choice(model, base, together, GaussMarkov(),
                              held_out=None if validation is None else validation.problem)
    possible: FeasibleEstimate | None = None
    if estimator == "all":
        robot = base_parameters(model, tie_legs=tie_legs)
        alone = concatenate(efforts[: len(recordings)]).select(robot.names)
        try:
            possible = feasible(model, robot, alone, GaussMarkov().fit(alone))
            estimates["feasible"] = possible.estimate
        except GoughError as error:
            notes = (*notes, f"feasible was not possible: {error}")
    return _result(model, chosen, result, base, tie_legs, estimates, experiment, validation, history, notes,
                   settings=_settings(recordings, loaded, held_out, estimator, essential, tie_legs, known, name,
                                      processing, experiment.window),
                   known=given, possible=possible, choice=choice)


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
    known = known or {}
    fits, judged, processed = [], [], [*experiment.processed]
    for source in (experiment, held_out):
        if source is None:
            continue
        for log, whole, part in zip(source.processed, source.whole, source.parts):
            fits.append(_fit(log, whole, part, estimate, known, held_out=source is held_out))
            if source is held_out:
                judged.append(replace(part, effort=part.effort - _known_part(part, known)))
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
