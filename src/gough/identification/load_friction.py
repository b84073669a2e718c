"""Friction that depends on the effort a joint passes on: linear around an estimate, found by repeating.

With u_j(chi) the effort of motor j without its own friction, the model is W(u) chi. Around an estimate

    W(u) chi + (dW/du du/dchi chi) = J chi - s,    J_jk = W_jk + mu_j g_j(u_j) / u_j W_jk  (k not friction of j),

s_j = mu_j g_j, where the term g is proportional to the size of u, as |u| sign(qd) is: a Gauss-Newton step is the linear
fit of J chi to y + s, and the covariance of that fit knows that u was found from the same data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import InvalidInput, NotConverged
from gough.core.regression import Regression
from gough.engine import Model
from gough.engine.base import standard_from_base
from gough.estimators.linear.least_squares import WeightedLeastSquares
from gough.identification.experiment import Experiment, assemble

STEPS, HALVINGS = 60, 6  # of the search, and of one step of it
WORTH = 1e-4  # of -2 log likelihood: a step must win it, which moves parameters by a hundredth of a sigma
EXACT = 1e-8  # of the efforts: smaller errors are rounding


class _Around(NamedTuple):
    """Robot, logs and linear problem around values, and what the values are worth: -2 log likelihood."""

    model: Model
    experiment: Experiment
    values: FloatArray
    cost: float


def with_passed_efforts(model: Model, experiment: Experiment) -> tuple[Model, Experiment]:
    """Return robot and logs with what joints pass on found from the logs; its problem is linear around the estimate.

    The first fit is without the terms that depend on it. What a log carries besides is the robot file's payload. Steps
    are halved until they win: where efforts change their sign, full ones may take turns for ever.

    Raises:
        NotConverged: The efforts passed on do not settle.
    """
    if not model.mechanism.loaded:
        return model, experiment
    base, terms = experiment.base, model.mechanism.terms
    heads = [base.standard[i].kind for i in base.independent]
    plain = [k for k, kind in enumerate(heads) if kind not in terms or not terms[kind].loaded]
    values = np.zeros(len(base))
    values[plain] = _fitted(experiment.problem.select([base.names[k] for k in plain]))
    best = _around(model, experiment, values)
    for _ in range(STEPS):
        step = _fitted(best.experiment.problem) - best.values
        tried = (_around(model, experiment, best.values + step / 2**k) for k in range(HALVINGS))
        better = next((trial for trial in tried if trial.cost < best.cost - WORTH), None)
        if better is None:
            return best.model, best.experiment
        best = better
    raise NotConverged(f"load-dependent friction of '{model.mechanism.name}' does not settle in {STEPS} steps; is its "
                       "coefficient below one? `gough diagnose` looks for other causes")


def _fitted(problem: Regression) -> FloatArray:
    return WeightedLeastSquares(uncertainty="white").fit(problem).values


def _around(model: Model, experiment: Experiment, values: FloatArray) -> _Around:
    """Return everything around values, (p,)."""
    model = model.with_passing(standard_from_base(model, experiment.base, values)[0])
    logs = [replace(log, motion=model.with_memory(log.motion, log.dead_band, around=log.average is not None,
                                                  payload=log.payload)[0]) for log in experiment.processed]
    again = replace(assemble(model, logs, experiment.base, experiment.choice), gains=experiment.gains)
    problem = _linear(model, again, values)
    squares = (problem.left(values)**2 * problem.counting).sum(axis=0)
    least = EXACT**2 * (problem.effort**2 * problem.counting).sum(axis=0) + TINY
    return _Around(model, replace(again, problem=problem), values,
                   float(problem.counts @ np.log(np.maximum(squares, least))))


def refuse_loaded(model: Model, what: str) -> None:
    """Raise for a robot with terms that depend on efforts passed on, where these are not known."""
    if model.mechanism.loaded:
        joint = model.mechanism.joints[model.mechanism.loaded[0]].name
        raise InvalidInput(f"friction of '{joint}' depends on the effort it passes on, which is not linear: {what} "
                           "cannot be found with it; leave the term out of the robot file", joint=joint)


def _linear(model: Model, experiment: Experiment, values: FloatArray) -> Regression:
    """Return the problem J chi = y + s around values, (p,)."""
    base, terms, problem = experiment.base, model.mechanism.terms, experiment.problem
    heads = [base.standard[i] for i in base.independent]
    J, shift = np.array(problem.regressor), np.zeros_like(problem.effort)
    for i in model.mechanism.loaded:
        row, joint = model.independent.index(i), model.mechanism.joints[i].name
        own = np.array([any(member.owner == joint for member in model.resolve(head)) and head.kind in terms
                        and terms[head.kind].own_friction for head in heads])
        lossy = own & np.array([head.kind in terms and terms[head.kind].loaded for head in heads])
        W = problem.regressor[:, row]
        passed, lost = W[:, ~own] @ values[~own], W[:, lossy] @ values[lossy]
        slope = np.divide(lost, passed, out=np.zeros_like(lost), where=np.abs(passed) > np.abs(lost))
        J[:, row, ~own] += slope[:, None] * W[:, ~own]
        shift[:, row] = slope * passed
    again = None if problem.replicates is None else problem.replicates + shift
    return replace(problem, regressor=J, effort=problem.effort + shift, replicates=again)
