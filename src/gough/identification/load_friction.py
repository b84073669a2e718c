"""Friction that depends on the effort a joint passes on: linear around an estimate, found by
repeating.

With u_j(chi) the effort of motor j without its own friction, the model is W(u) chi. Around an
estimate

    W(u) chi + (dW/du du/dchi chi) = J chi - s,    J_jk = W_jk + mu_j g_j(u_j) / u_j W_jk  (k not
    friction of j),

s_j = mu_j g_j, where the term g is proportional to the size of u, as |u| sign(qd) is: a
Gauss-Newton step is the linear fit of J chi to y + s, and the covariance of that fit knows that u
was found from the same data.
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
from gough.identification.experiment import Experiment, assemble

STEPS, HALVINGS = 60, 6  # of the search, and of one step of it
# of -2 log likelihood: a step must win it, which moves parameters by a hundredth of a sigma
WORTH = 1e-4
EXACT = 1e-8  # of the efforts: smaller errors are rounding


def with_passed_efforts(experiment: Experiment) -> Experiment:
    """Return logs, and their robot, with what joints pass on found from them; the problem is linear
    around that.

    The first fit is without the terms that depend on it. What a log carries besides is the robot
    file's payload. Steps are halved until they win: where efforts change their sign, full ones may
    take turns for ever.
    """
    mechanism, base = experiment.model.mechanism, experiment.base
    if not mechanism.loaded:
        return experiment
    plain = [
        k
        for k, head in enumerate(column_names(base))
        if head.kind not in mechanism.terms or not mechanism.terms[head.kind].loaded
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
    model = experiment.model.with_passing(standard_from_base(experiment.model, base, values)[0])
    logs = [
        replace(
            log,
            motion=model.with_memory(
                log.motion, log.dead_band, around=log.average is not None, payload=log.payload
            )[0],
        )
        for log in experiment.processed
    ]
    again = assemble(model, experiment.recordings, logs, base, experiment.choice)
    problem = _linear(again, values)
    squares = (problem.left(values) ** 2 * problem.counting).sum(axis=0)
    least = EXACT**2 * (problem.effort**2 * problem.counting).sum(axis=0) + TINY
    return (
        replace(again, problem=problem, gains=experiment.gains),
        float(problem.counts @ np.log(np.maximum(squares, least))),
    )


def refuse_loaded(model: Model, what: str) -> None:
    """Raise for a robot with terms that depend on efforts passed on, where these are not known."""
    if model.mechanism.loaded:
        joint = model.mechanism.joints[model.mechanism.loaded[0]].name
        raise InvalidInput(
            f"friction of '{joint}' depends on the effort it passes on, which is not linear: "
            f"{what} "
            "cannot be found with it; leave the term out of the robot file",
            joint=joint,
        )


def _linear(experiment: Experiment, values: FloatArray) -> Regression:
    """Return the problem J chi = y + s around values, (p,)."""
    model, problem, heads = experiment.model, experiment.problem, column_names(experiment.base)
    terms = [model.mechanism.terms.get(head.kind) for head in heads]
    J, shift = np.array(problem.regressor), np.zeros_like(problem.effort)
    for i in model.mechanism.loaded:
        row, joint = model.independent.index(i), model.mechanism.joints[i].name
        own = np.array(
            [
                term is not None
                and term.own_friction
                and any(member.owner == joint for member in model.resolve(head))
                for head, term in zip(heads, terms)
            ]
        )
        lossy = own & np.array([term is not None and bool(term.loaded) for term in terms])
        W = problem.regressor[:, row]
        passed, lost = W[:, ~own] @ values[~own], W[:, lossy] @ values[lossy]
        slope = np.divide(
            lost, passed, out=np.zeros_like(lost), where=np.abs(passed) > np.abs(lost)
        )
        J[:, row, ~own] += slope[:, None] * W[:, ~own]
        shift[:, row] = slope * passed
    again = None if problem.replicates is None else problem.replicates + shift
    return replace(problem, regressor=J, effort=problem.effort + shift, replicates=again)
