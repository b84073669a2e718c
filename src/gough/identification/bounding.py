"""Guaranteed boxes for the parameters of a robot, from logs and an error bound (P03)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, nearest
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.estimators.bounds.solve import BoundedProblem, ExactBox, GaussSeidel
from gough.estimators.estimate import Enclosure
from gough.identification.experiment import in_efforts
from gough.logs.recording import Recording
from gough.processing import Processed, Processing, process, regression
from gough.processing.reversals import away_from_reversals, rubbing

MOST_EQUATIONS = 20000  # equations used: every k-th sample beyond that
SMEAR = 0.3  # half width of a jump after the low-pass, times its cut-off


@one_blas_thread
def bounds(model: Model, recordings: Sequence[Recording], *, error_bound: float,
           method: Literal["gauss-seidel", "exact"] = "exact", outliers: int = 0,
           prior: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None, tie_legs: bool = False,
           processing: Processing | None = None, gains: Mapping[str, float] | None = None,
           threshold: float | None = None, window: float | None = None) -> Enclosure:
    """Return a box that contains every parameter vector the data allow.

    Args:
        model: The robot.
        recordings: Logs of it.
        error_bound: Largest error of model and measurement together on any effort. [N or N m]
        method: `gauss-seidel` (P03, preconditioned) or `exact` (smallest box, certified).
        outliers: Remove up to so many equations that no parameters explain (`exact`).
        prior: Bounds known beforehand: one interval for all, or by parameter; by default what `default_prior` says.
        tie_legs: Take what the robot file ties as equal across legs.
        processing: How to process.
        gains: Drive gains for logs with currents.
        threshold: Velocity below which the sign of Coulomb friction counts as [-1, 1], for all motors; by default
            1 % of each joint's top speed, at least its dead band. [m/s or rad/s]
        window: Half width of what is left out about velocity reversals, where friction makes accelerations jump and
            the low-pass smears them; by default `SMEAR` over its cut-off, 0 keeps all. [s]
    """
    if not (np.isfinite(error_bound) and error_bound > 0):
        raise InvalidInput(f"the error bound is {error_bound}; expected a positive effort, e.g. 10 % of the motors' "
                           "range", error_bound=error_bound)
    if method not in ("gauss-seidel", "exact"):
        raise InvalidInput(f"no method '{method}'{nearest(method, ('gauss-seidel', 'exact'))}", method=method)
    if threshold is not None and not threshold >= 0:
        raise InvalidInput(f"the threshold is {threshold}, expected a speed of at least zero", threshold=threshold)
    if not recordings:
        raise InvalidInput("there is no recording to bound parameters with")
    base = base_parameters(model, tie_legs=tie_legs,
                           payloads=tuple(dict.fromkeys(r.payload for r in recordings if r.payload is not None)))
    problem = bounded_problem(model, recordings, base, error_bound=error_bound, prior=prior, processing=processing,
                              gains=gains, threshold=threshold, window=window)
    return (GaussSeidel() if method == "gauss-seidel" else ExactBox(outliers=outliers)).fit(problem)


def bounded_problem(model: Model, recordings: Sequence[Recording], base: BaseParameters, *, error_bound: float,
                    prior: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
                    processing: Processing | None = None, gains: Mapping[str, float] | None = None,
                    threshold: float | None = None, window: float | None = None) -> BoundedProblem:
    """State the bounded-error problem of some logs.

    Efforts of a periodic log are averaged over its periods, as the motion is: errors within the bound stay within it.
    Those of other logs count sample by sample. Neither are filtered or decimated, which could carry the error of one
    sample into others. Where more motors than degrees of freedom share a row, row m can be off by
    error_bound sum_a |E_am|, E the closure map of the motors.
    """
    done, _ = in_efforts(model, [process(model, recording, processing) for recording in recordings], gains)
    lower, upper, effort, reach = [], [], [], []
    for processed in done:
        part = regression(model, processed, base, decimate=False)
        keep = _sure_samples(model, processed, window)
        total = len(keep) * len(part.rows) * len(recordings)
        keep = keep[::max(1, int(np.ceil(total / MOST_EQUATIONS)))]
        low, high = _interval_regressor(model, processed, base, part.regressor, threshold)
        lower.append(low[keep])
        upper.append(high[keep])
        effort.append(part.effort[keep])
        reach.append(error_bound * _levers(model, processed.motion.q[keep]))
    given = default_prior(model, base) if prior is None else _named(prior, base)
    return BoundedProblem(
        regressor_lower=np.concatenate(lower), regressor_upper=np.concatenate(upper), effort=np.concatenate(effort),
        error_bound=np.concatenate(reach), prior_lower=np.array([given[n][0] for n in base.names]),
        prior_upper=np.array([given[n][1] for n in base.names]), parameters=base.names, units=base.units,
        rows=model.rows, row_units=model.row_units)


def _levers(model: Model, q: FloatArray) -> FloatArray:
    """Return the error of each row when every motor is off by one, at worst, (t, r)."""
    if not model.loops.redundant:
        return np.ones((len(q), len(model.rows)))
    return np.asarray(np.abs(model.kinematics.closure_map(q)[:, list(model.actuated)]).sum(axis=1))


def _sure_samples(model: Model, processed: Processed, window: float | None) -> IntArray:
    """Return the samples away from reversals; all where a robot does nothing but reverse."""
    if window is None:
        window = 0.0 if processed.cutoff is None else SMEAR / processed.cutoff
    if window < 0:
        raise InvalidInput(f"the window about reversals is {window} s; it must not be negative", window=window)
    motion = processed.motion
    keep = np.flatnonzero(away_from_reversals(model, motion, motion.time, window))
    return np.asarray(keep if keep.size else np.arange(len(motion)), dtype=np.int64)


def _named(prior: tuple[float, float] | Mapping[str, tuple[float, float]],
           base: BaseParameters) -> dict[str, tuple[float, float]]:
    if not isinstance(prior, Mapping):
        return {name: (float(prior[0]), float(prior[1])) for name in base.names}
    unknown = [name for name in prior if name not in base.names]
    if unknown:
        raise InvalidInput(f"prior for '{unknown[0]}', which is no base parameter{nearest(unknown[0], base.names)}")
    return {name: prior.get(name, (-np.inf, np.inf)) for name in base.names}


def default_prior(model: Model, base: BaseParameters) -> dict[str, tuple[float, float]]:
    """Return generous bounds: within ten times the size of the robot file's values of a kind, masses and friction >= 0.

    A regrouped parameter may be negative, so it is bounded on both sides. Its size is that of its terms, which may
    cancel: the difference of two rotor inertias is not known to be zero because a file gives them the same value.
    """
    values = np.abs(base.matrix) @ np.abs(model.values(base.standard))
    kinds: dict[str, float] = {}
    for name, value in zip(base.names, values):
        kinds[name.kind] = max(kinds.get(name.kind, 0.0), abs(float(value)))
    bounds: dict[str, tuple[float, float]] = {}
    for name, row in zip(base.names, base.matrix):
        size = 10.0 * (kinds[name.kind] or 1.0)
        term = model.mechanism.terms.get(name.kind)
        positive = name.kind == "m" or (term is not None and term.nonnegative)
        summed = (row >= 0).all()
        bounds[name] = (0.0 if positive and summed else -size, size)
    return bounds


def _interval_regressor(model: Model, processed: Processed, base: BaseParameters, regressor: FloatArray,
                        threshold: float | None) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper regressor: Coulomb columns of slow joints with any sign in [-1, 1]."""
    motion = processed.motion
    lower, upper = regressor.copy(), regressor.copy()
    speed = np.abs(motion.qd)
    slow = np.maximum(processed.dead_band, 0.01 * speed.max(axis=0))
    if threshold is not None:
        slow[list(rubbing(model))] = threshold
    for k, i in enumerate(base.independent):
        column = base.standard[i]
        term = model.mechanism.terms.get(column.kind)
        if term is None or not term.coulomb:
            continue
        members = model.resolve(column)
        plain = model.regressor(motion, members)  # sign without dead band: its size is the lever of the friction
        low, high = np.zeros(regressor.shape[:2]), np.zeros(regressor.shape[:2])
        maps = model.kinematics.closure_map(motion.q)
        for j, member in enumerate(members):
            joint = motion.column(member.owner)
            unsure = (speed[:, joint] < slow[joint])[:, None]
            lever = term.coulomb * np.abs(maps[:, joint, :])
            low += np.where(unsure, -lever, plain[:, :, j])
            high += np.where(unsure, lever, plain[:, :, j])
        lower[:, :, k], upper[:, :, k] = low, high
    return lower, upper
