"""What is common to the estimators of drive gains: the current a model asks for, and gains the data leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InconsistentData, InvalidInput, NotIdentifiable, nearest
from gough.core.names import parameters
from gough.estimators.estimate import Estimate
from gough.estimators.gains.gain_problem import GainProblem
from gough.estimators.linear.solve import solve
from gough.estimators.problem import factors_of

LOOSE = 0.5  # relative standard deviation beyond which a gain counts as not determined


def current_maps(problem: GainProblem, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return D_j and n_j of the currents' residuals: row j has residual A_j n_j and derivative A_j D_j.

    With A_j = [X_j y_j] of the reduced problem and n = [values; -1], the current of motor j misses the model by
    A_j n / g_j; its derivative by a parameter is A_j e_k / g_j and by its gain -A_j (n without the gain) / g_j^2, which
    is -(current of the model) / g_j: free of the noise of the currents.

    Returns:
        D (r, p + 1, p) and n / g (r, p + 1).
    """
    gains, p = problem.gain_values(values), len(values)
    n = np.append(values, -1.0)
    others = np.array([name not in problem.gains for name in problem.parameters], dtype=float)
    maps = np.zeros((len(gains), p + 1, p))
    maps[:, :p] = np.diag(others) / gains[:, None, None]
    for j, name in enumerate(problem.all_gains):
        if name in problem.gains:
            column = problem.parameters.index(name)
            maps[j, :, column] = -n / gains[j] ** 2
            maps[j, column, column] = 0.0
    return maps, n / gains[:, None]


def rough_solution(problem: GainProblem) -> FloatArray:
    """Return a consistent place to start from, (p,): gains by plain least squares, the others given these gains.

    Gains are biased towards zero here, as noisy currents are columns; gains of exactly zero are replaced by the
    largest.
    """
    gains = np.zeros(0)
    if problem.gains:
        whole = solve(factors_of(problem).factors, problem.parameters).values
        gains = np.array([whole[problem.parameters.index(name)] for name in problem.gains])
        top = np.abs(gains).max()
        gains = np.where(np.abs(gains) < 1e-6 * top, top, gains)
    given = problem.fix(dict(zip(problem.gains, gains)))
    others = solve(given.condensed().factors, given.parameters).values
    table = dict(zip(given.parameters, others)) | dict(zip(problem.gains, gains))
    return np.array([table[name] for name in problem.parameters])


def silent_gains(problem: GainProblem) -> list[str]:
    """Return the gains that could change together with other parameters without changing any current.

    They are the gain columns of the derivative of the model's currents that depend on the other columns. The model's
    currents carry no noise, so the dependence is exact where it exists, however noisy the data, and does not hinge on
    where the derivative is taken.

    Raises:
        NotIdentifiable: Other columns depend on each other too.
    """
    if problem.effort_map is not None:
        return []  # currents of such robots are not functions of the parameters; the standard deviations tell
    condensed = factors_of(problem)
    maps, _ = current_maps(problem, rough_solution(problem))
    slopes = condensed.factors @ maps
    size = np.linalg.norm(slopes, axis=(1, 2), keepdims=True)
    slopes = np.concatenate(slopes / np.where(size > 0, size, 1.0))
    try:
        solve(np.column_stack([slopes, np.zeros(len(slopes))]), problem.parameters)
    except NotIdentifiable as error:
        return open_gains(problem, error)
    return []


def open_gains(problem: GainProblem, error: NotIdentifiable) -> list[str]:
    """Return the gains a rank error names, or raise it if other parameters depend on each other too."""
    dependent = error.numbers.get("dependent")
    if not isinstance(dependent, list) or not dependent or not set(dependent) <= set(problem.gains):
        raise error
    return [str(name) for name in dependent]


def determine_gains(
    problem: GainProblem, nominal: Mapping[str, float], fit: Callable[[GainProblem], Estimate | Sequence[str]]
) -> Estimate:
    """Fit, and fix the gains the data leave open at their nominal values; never return a wild number.

    Args:
        problem: What to fit.
        nominal: Gain by motor name, used only where the data cannot tell.
        fit: Returns the estimate, or the gains that have no effect of their own.

    Raises:
        NotIdentifiable: A gain is open and has no nominal value; `gains` names them.
        InconsistentData: All gains come out negative.
    """
    if not isinstance(problem, GainProblem):
        raise InvalidInput(f"drive gains need a GainProblem, not {type(problem).__name__}")
    notes: list[str] = []
    for motor, gain in nominal.items():
        if motor not in problem.motors:
            raise InvalidInput(f"nominal gain of unknown motor '{motor}'{nearest(motor, problem.motors)}", name=motor)
        if not np.isfinite(gain) or gain == 0:
            raise InvalidInput(f"nominal gain of '{motor}' is {gain}, expected a number other than zero", name=motor)
    while True:
        estimate = fit(problem)
        if isinstance(estimate, Estimate):
            spread = dict(zip(estimate.parameters, estimate.relative_noise_std))
            worst = max((spread[name] for name in problem.gains), default=0.0)
            loose = {name: f"relative standard deviation {100 * spread[name]:.0f} %" for name in problem.gains
                     if spread[name] > LOOSE and (spread[name] == worst or name.owner not in nominal)}
            if not loose:
                break
        else:
            loose = {name: "its scale cannot be told from the parameters it moves" for name in parameters(estimate)}
        open_ = [name for name in loose if name.owner not in nominal]
        if open_:
            reasons = "; ".join(f"{name} ({loose[name]})" for name in open_)
            raise NotIdentifiable(f"these data cannot determine {reasons}; move so that the payload loads these motors "
                                  "(gravity or strong acceleration), take a heavier payload, or give their nominal "
                                  "gains", gains=open_)
        chosen = {name: float(nominal[name.owner]) for name in loose}
        notes += [f"{name} cannot be determined from these data ({loose[name]}): fixed at the nominal {value:g}; other "
                  "standard deviations do not contain its error" for name, value in chosen.items()]
        problem = problem.fix({str(name): value for name, value in chosen.items()})
    negative = [name for name in problem.gains if estimate[name] < 0]
    if negative and len(negative) == len(problem.gains):
        raise InconsistentData("all drive gains come out negative: loaded and unloaded recordings are swapped, or the "
                               "currents count against the joints; swap the recordings or the sign of the currents",
                               gains=negative)
    notes += [f"{name} is negative: the current of this motor counts against its joint" for name in negative]
    return replace(estimate, notes=(*notes, *estimate.notes))
