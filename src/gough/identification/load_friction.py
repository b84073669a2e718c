"""Fit load-dependent friction by Gauss-Newton iteration.

With the transmitted efforts u(chi) the model is W(u) chi. Around an
estimate it is J chi - s (see `TransmittedEffort.linearise`). A
Gauss-Newton step is the linear fit of J chi to y + s; its covariance
accounts for u being estimated from the same data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import InvalidInput, NotConverged
from gough.engine import Model
from gough.engine.base import standard_from_base
from gough.engine.columns import column_names
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import Regression
from gough.identification.experiment import Experiment, build_experiment

LOAD_FRICTION_STEPS = 60  # most Gauss-Newton steps
MAX_LOAD_FRICTION_HALVINGS = 6  # of one step
# A step must lower -2 log likelihood by this: parameters then move by
# 0.01 standard errors.
MIN_LIKELIHOOD_GAIN = 1e-4
EFFORT_ROUNDING = 1e-8  # of the effort: smaller residuals are rounding


def linearise_load_friction(experiment: Experiment) -> Experiment:
    """Return the experiment linearised around the transmitted efforts that fit its logs best.

    The first fit omits the load-dependent terms. The payload of a log
    is that of the robot file. Steps are halved until the likelihood
    increases: full ones may alternate for ever where efforts change
    their sign.
    """
    mechanism = experiment.model.mechanism
    values = _fit_without_load_friction(experiment)
    best, cost = _linearise_at(experiment, values)
    for _ in range(LOAD_FRICTION_STEPS):
        step = _fit(best.problem) - values
        for halving in range(MAX_LOAD_FRICTION_HALVINGS):
            moved_values = values + step / 2**halving
            moved, moved_cost = _linearise_at(experiment, moved_values)
            if moved_cost < cost - MIN_LIKELIHOOD_GAIN:
                break
        else:
            return best
        best = moved
        cost = moved_cost
        values = moved_values
    raise NotConverged(
        f"load-dependent friction of '{mechanism.name}' does not converge in "
        f"{LOAD_FRICTION_STEPS} steps; is its coefficient below one? `gough diagnose` looks for "
        "other causes"
    )


def _fit(problem: Regression) -> FloatArray:
    """Return the weighted least-squares values, (p,)."""
    return WeightedLeastSquares(uncertainty="white").fit(problem).values


def _fit_without_load_friction(experiment: Experiment) -> FloatArray:
    """Return base values fitted without the load-dependent terms, which are zero, (p,)."""
    terms = experiment.model.mechanism.terms
    names = experiment.base.names
    columns = []
    for k, standard in enumerate(column_names(experiment.base)):
        if standard.kind not in terms or not terms[standard.kind].load_dependent:
            columns.append(k)
    values = np.zeros(len(names))
    values[columns] = _fit(experiment.problem.select([names[k] for k in columns]))
    return values


def _linearise_at(experiment: Experiment, values: FloatArray) -> tuple[Experiment, float]:
    """Return the experiment linearised at base values, (p,), and -2 log likelihood of these."""
    base = experiment.base
    parameters, _ = standard_from_base(experiment.model, base, values)
    model = experiment.model.with_transmitted_effort(parameters)
    logs = []
    for log in experiment.processed:
        motion, *_ = model.with_internal_states(
            log.motion,
            log.dead_band,
            periodic=log.periodic,
            payload=log.payload,
        )
        logs.append(replace(log, model=model, motion=motion))
    rebuilt = build_experiment(model, logs, base, experiment.choice)
    problem = _linear_problem(rebuilt, values)
    squares = (problem.residual(values) ** 2 * problem.valid).sum(axis=0)
    effort_squares = (problem.effort**2 * problem.valid).sum(axis=0)
    rounding = EFFORT_ROUNDING**2 * effort_squares + TINY
    cost = float(problem.n_valid @ np.log(np.maximum(squares, rounding)))
    return replace(rebuilt, problem=problem, gains=experiment.gains), cost


def refuse_load_friction(model: Model, what: str) -> None:
    """Raise if a robot has load-dependent friction, where a linear model is needed."""
    if model.mechanism.load_dependent:
        joint = model.mechanism.joints[model.mechanism.load_dependent[0]].name
        raise InvalidInput(
            f"friction of '{joint}' depends on the effort it transmits, which is not linear: "
            f"{what} cannot be found with it; leave the term out of the robot file",
            joint=joint,
        )


def _linear_problem(experiment: Experiment, values: FloatArray) -> Regression:
    """Return the problem J chi = y + s around values, (p,)."""
    model = experiment.model
    problem = experiment.problem
    columns = [model.resolve(name) for name in column_names(experiment.base)]
    jacobian, shift = model.transmitted.linearise(problem.regressor, values, columns)
    replicates = problem.replicates
    if replicates is not None:
        replicates = replicates + shift
    return replace(
        problem,
        regressor=jacobian,
        effort=problem.effort + shift,
        replicates=replicates,
    )
