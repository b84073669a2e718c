"""Parameters that are fixed or bounded by name: the estimate under these constraints.

Let x be the estimate and S its covariance. With A x = v of the fixed parameters

    x' = x + K (v - A x),   S' = S - K A S,   K = S A^T (A S A^T)^-1,

which is least squares under equality constraints where S is that of generalised least squares
(Seber and Lee, Linear Regression Analysis, 3.8). Bounds give the nearest point to x' in the metric
of S' inside of them; those that are reached then act as equalities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression

Bounds = Mapping[str, tuple[float, float]]
COMBINATION_ROUNDING = 1e-8  # of the row that expresses a parameter by base parameters
REACHED_RATIO = 1e-9  # of the standard error, within which a bound is reached


def constrained(
    estimate: Estimate,
    problem: Regression,
    base: BaseParameters,
    fixed: Mapping[str, float],
    bounds: Bounds,
) -> Estimate:
    """Return an estimate with parameters fixed and bounded; fixed ones have no standard error.

    Args:
        estimate: Without constraints.
        problem: Its equations, for the residual.
        base: Its base parameters.
        fixed: Values by name of a base parameter, or of a standard one that acts on its own.
        bounds: Lowest and highest value by such a name.

    Raises:
        InvalidInput: There is no such parameter, it acts only together with others, or what is
            asked for contradicts itself.
    """
    twice = [name for name in fixed if name in bounds]
    if twice:
        raise InvalidInput(f"'{twice[0]}' is both fixed and bounded; give one of the two")
    names = list(fixed)
    rows = _rows(names, estimate, base)
    values, covariance = _conditioned(
        estimate.values, estimate.covariance, rows, np.array([fixed[name] for name in names]), names
    )
    reached: list[str] = []
    if bounds:
        values, covariance, reached = _bounded(estimate, base, values, covariance, bounds)
    residual = problem.select(estimate.parameters).residual_statistics(values)
    std = np.sqrt(np.diag(covariance))
    ratio = np.divide(std, estimate.std, out=np.ones(len(std)), where=estimate.std > 0)
    sources = [replace(source, std=source.std * ratio) for source in estimate.sources]
    return replace(
        estimate,
        values=values,
        covariance=covariance,
        sources=tuple(sources),
        residual_rms=residual.rms,
        residual_relative=residual.relative,
        residual_mean=residual.mean,
        notices=(*estimate.notices, *_notices(estimate, values, names, reached)),
    )


def _rows(names: Sequence[str], estimate: Estimate, base: BaseParameters) -> FloatArray:
    """Return each named parameter as a combination of the estimated ones, (k, p)."""
    rows = np.zeros((len(names), len(estimate)))
    estimated = [str(name) for name in estimate.parameters]
    kept = base.select([name for name in base.names if name in estimated])
    columns = [estimated.index(name) for name in kept.names]
    for k, name in enumerate(names):
        if name in estimated:
            rows[k, estimated.index(name)] = 1.0
            continue
        if name not in kept.standard:
            known = [*estimated, *kept.standard]
            raise InvalidInput(f"there is no parameter '{name}'{nearest(name, known)}", name=name)
        wanted = np.zeros(len(kept.standard))
        wanted[kept.standard.index(name)] = 1.0
        weights = np.linalg.lstsq(kept.matrix.T, wanted, rcond=None)[0]
        if np.abs(weights @ kept.matrix - wanted).max() > COMBINATION_ROUNDING:
            raise _acts_together(name, kept)
        rows[k, columns] = weights
    return rows


def _acts_together(name: str, base: BaseParameters) -> InvalidInput:
    """Return the error about a parameter that no motion determines on its own."""
    column = base.matrix[:, base.standard.index(name)]
    formulas = base.regrouping()
    inside = [f"{base.names[i]} = {formulas[base.names[i]]}" for i in np.flatnonzero(column)]
    where = f": {inside[0]}" if inside else ""
    return InvalidInput(
        f"'{name}' acts on the efforts only together with other parameters, so that fixing or "
        f"bounding it alone changes no prediction{where}; name the combination instead",
        name=name,
    )


def _conditioned(
    values: FloatArray,
    covariance: FloatArray,
    rows: FloatArray,
    wanted: FloatArray,
    names: Sequence[str],
) -> tuple[FloatArray, FloatArray]:
    """Return values and covariance given that some combinations have known values."""
    if not len(rows):
        return values, covariance
    spread = rows @ covariance @ rows.T
    scale = np.sqrt(np.diag(spread))
    normalised = spread / np.outer(scale, scale)
    if not np.all(scale > 0) or np.linalg.matrix_rank(normalised) < len(rows):
        raise InvalidInput(
            f"{', '.join(names)} depend on each other: fixing some of them fixes the others; leave "
            "one out"
        )
    gain = np.linalg.solve(spread, rows @ covariance).T
    changed = values + gain @ (wanted - rows @ values)
    reduced = covariance - gain @ rows @ covariance
    reduced = (reduced + reduced.T) / 2
    known = np.abs(rows).sum(axis=0) > 0
    alone = known & (np.diag(reduced) < COMBINATION_ROUNDING * np.diag(covariance))
    reduced[alone, :] = 0.0  # but for rounding they are
    reduced[:, alone] = 0.0
    return changed, reduced


def _bounded(
    estimate: Estimate,
    base: BaseParameters,
    values: FloatArray,
    covariance: FloatArray,
    bounds: Bounds,
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Return values and covariance inside of bounds, and the names of bounds that are reached."""
    from scipy.optimize import lsq_linear  # here, because it takes long to import

    names = list(bounds)
    low, high = np.array([bounds[name] for name in names], dtype=float).T
    for name, lower, upper in zip(names, low, high):
        if not lower < upper:
            raise InvalidInput(
                f"the bounds of '{name}' are {lower:g} and {upper:g}, expected a "
                "lower one below a higher one"
            )
    rows = _rows(names, estimate, base)
    centre = rows @ values
    spread = rows @ covariance @ rows.T
    scale = np.sqrt(np.diag(spread))
    if not np.all(scale > 0):
        raise InvalidInput(f"some of {', '.join(names)} are fixed by others that are fixed")
    whitening = np.linalg.inv(np.linalg.cholesky(spread / np.outer(scale, scale))) / scale
    point = lsq_linear(whitening, whitening @ centre, (low, high)).x
    at_low = point - low < REACHED_RATIO * scale
    at_high = high - point < REACHED_RATIO * scale
    at_bound = at_low | at_high
    target = np.where(at_low, low, high)[at_bound]
    reached = [name for name, is_reached in zip(names, at_bound) if is_reached]
    values, covariance = _conditioned(values, covariance, rows[at_bound], target, reached)
    return values, covariance, reached


def _notices(
    estimate: Estimate, values: FloatArray, fixed: Sequence[str], reached: Sequence[str]
) -> list[Notice]:
    """Say what was fixed, what ended at a bound, and how far the others moved."""
    notices = []
    change = np.abs(values - estimate.values)
    moved = np.divide(change, estimate.std, out=np.zeros(len(change)), where=estimate.std > 0)
    largest = int(np.argmax(moved))
    far = (
        f"; the estimate changes by at most {moved[largest]:.2g} standard errors "
        f"({estimate.parameters[largest]})"
    )
    if fixed:
        text = f"fixed at stated values{far}"
        notices.append(Notice(rule="fixed", level="info", where=", ".join(fixed), text=text))
    if reached:
        text = f"ended at a stated bound{far}"
        notices.append(Notice(rule="bounds", level="info", where=", ".join(reached), text=text))
    return notices
