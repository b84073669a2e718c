"""Fit load-dependent friction by Gauss-Newton iteration.

With the transmitted efforts u(chi) the model is W(u) chi. Around an estimate it is J chi - s (see
`TransmittedEffort.linearise`). A Gauss-Newton step is the linear fit of J chi to y + s; its
covariance accounts for u being estimated from the same data.
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

STEPS, HALVINGS = 60, 6  # of the search, and of one step of it
# of -2 log likelihood: a step must win it, which moves parameters by a hundredth of a sigma
WORTH = 1e-4
EXACT = 1e-8  # of the efforts: smaller errors are rounding


def linearise_load_friction(experiment: Experiment) -> Experiment:
    """Return the experiment linearised around the transmitted efforts that fit its logs best.

    The first fit omits the load-dependent terms. The payload of a log is that of the robot file.
    Steps are halved until the likelihood increases: full ones may alternate for ever where efforts
    change their sign.
    """
    mechanism, base = experiment.model.mechanism, experiment.base
    if not mechanism.load_dependent:
        return experiment
    plain = [
        k
        for k, head in enumerate(column_names(base))
        if head.kind not in mechanism.terms or not mechanism.terms[head.kind].load_dependent
    ]
    values = np.zeros(len(base))
    values[plain] = _fitted(experiment.problem.select([base.names[k] for k in plain]))
    found, cost = _around(experiment, values)
    for _ in range(STEPS):
        step = _fitted(found.problem) - values
        for k in range(HALVINGS):
            trial, fresh = _around(experiment, values + step / 2**k)
            if fresh < cost - WORTH:
                break
        else:
            return found
        found, cost, values = trial, fresh, values + step / 2**k
    raise NotConverged(
        f"load-dependent friction of '{mechanism.name}' does not settle in {STEPS} steps; is its "
        "coefficient below one? `gough diagnose` looks for other causes"
    )


def _fitted(problem: Regression) -> FloatArray:
    return WeightedLeastSquares(uncertainty="white").fit(problem).values


def _around(experiment: Experiment, values: FloatArray) -> tuple[Experiment, float]:
    """Return robot, logs and linear problem around values, (p,), and what these are worth: -2 log
    likelihood.
    """
    base = experiment.base
    parameters, _ = standard_from_base(experiment.model, base, values)
    model = experiment.model.with_transmitted_effort(parameters)
    logs = [
        replace(
            log,
            model=model,
            motion=model.with_internal_states(
                log.motion, log.dead_band, periodic=log.periodic, payload=log.payload
            )[0],
        )
        for log in experiment.processed
    ]
    again = build_experiment(model, experiment.recordings, logs, base, experiment.choice)
    problem = _linear(again, values)
    squares = (problem.residual(values) ** 2 * problem.valid).sum(axis=0)
    least = EXACT**2 * (problem.effort**2 * problem.valid).sum(axis=0) + TINY
    return (
        replace(again, problem=problem, gains=experiment.gains),
        float(problem.n_valid @ np.log(np.maximum(squares, least))),
    )


def refuse_load_friction(model: Model, what: str) -> None:
    """Raise if a robot has load-dependent friction, where a linear model is needed."""
    if model.mechanism.load_dependent:
        joint = model.mechanism.joints[model.mechanism.load_dependent[0]].name
        raise InvalidInput(
            f"friction of '{joint}' depends on the effort it transmits, which is not linear: "
            f"{what} "
            "cannot be found with it; leave the term out of the robot file",
            joint=joint,
        )


def _linear(experiment: Experiment, values: FloatArray) -> Regression:
    """Return the problem J chi = y + s around values, (p,)."""
    model = experiment.model
    problem = experiment.problem
    columns = [model.resolve(name) for name in column_names(experiment.base)]
    jacobian, shift = model.transmitted.linearise(problem.regressor, values, columns)
    again = None if problem.replicates is None else problem.replicates + shift
    return replace(problem, regressor=jacobian, effort=problem.effort + shift, replicates=again)
