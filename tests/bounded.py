"""Bounded-error problems whose truth is known, and their feasible sets by other means."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from gough.bounding.solve import BoundedProblem
from gough.core.arrays import frozen
from gough.fitting.regression import Regression


def regression(samples=60, parameters=4, rows=1, bound=0.5, seed=0, signs=1.0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((samples, rows, parameters))
    truth = rng.uniform(0.2, 1.8, parameters) * signs
    effort = W @ truth + rng.uniform(-bound, bound, (samples, rows))
    names = tuple(f"p{i}" for i in range(parameters))
    return Regression(
        regressor=W,
        effort=effort,
        rows=tuple(f"joint{j}" for j in range(rows)),
        row_units=("N m",) * rows,
        parameters=names,
        units=("kg",) * parameters,
    ), truth


def bounded_problem(regression, *, error_bound, prior=None):
    """State the bounded-error problem of a regression; the prior by name (others unbounded), or
    lower and upper.
    """
    p = len(regression.parameters)
    low, high = np.full(p, -np.inf), np.full(p, np.inf)
    if isinstance(prior, dict):
        for name, (lower, upper) in prior.items():
            low[regression.parameters.index(name)], high[regression.parameters.index(name)] = (
                lower,
                upper,
            )
    elif prior is not None:
        low[:], high[:] = prior
    exact = frozen(regression.regressor)
    return BoundedProblem(
        regressor_lower=exact,
        regressor_upper=exact,
        effort=regression.effort,
        error_bound=np.asarray(error_bound, dtype=float),
        prior_lower=low,
        prior_upper=high,
        rows=regression.rows,
        row_units=regression.row_units,
        parameters=regression.parameters,
        units=regression.units,
    )


def problem(prior=(0.0, 2.0), bound=0.5, **kwargs):
    reg, truth = regression(bound=bound, **kwargs)
    return bounded_problem(reg, error_bound=bound, prior=prior), truth


def with_unknown_signs(bounded, unknown):
    """Replace entries of which only the size is known by [-size, size]."""
    size = np.abs(bounded.regressor_lower)
    return replace(
        bounded,
        regressor_lower=np.where(unknown, -size, bounded.regressor_lower),
        regressor_upper=np.where(unknown, size, bounded.regressor_upper),
    )


def feasible_points(bounded, start, count, seed=0):
    """Hit and run from a feasible point, with many points on the boundary."""
    rng = np.random.default_rng(seed)
    W = bounded.equations.regressor.lower
    low = np.concatenate([bounded.equations.effort - bounded.equations.bound, bounded.prior_lower])
    high = np.concatenate([bounded.equations.effort + bounded.equations.bound, bounded.prior_upper])
    A = np.vstack([W, np.eye(W.shape[1])])
    x = np.tile(start, (500, 1))
    found = []
    while len(found) * len(x) < count:
        direction = rng.standard_normal(x.shape)
        speed, place = direction @ A.T, x @ A.T
        with np.errstate(divide="ignore"):
            ends = np.stack([(low - place) / speed, (high - place) / speed])
        first, last = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        where = rng.choice([0.0, 1.0, 0.5], len(x)) + rng.uniform(-0.5, 0.5, len(x))
        step = first + np.clip(where, 1e-9, 1 - 1e-9) * (last - first)
        x = x + step[:, None] * direction
        found.append(x)
    return np.concatenate(found)


def exact_hull(bounded):
    """Vertices of a two-dimensional feasible set in rational arithmetic: the box without any
    rounding.
    """
    eq = bounded.equations
    half = []
    for w, y, e in zip(eq.regressor.lower, eq.effort, eq.bound):
        a, b = Fraction(w[0]), Fraction(w[1])
        half += [(a, b, Fraction(y) - Fraction(e)), (-a, -b, -Fraction(y) - Fraction(e))]
    for j in range(2):
        unit = (Fraction(int(j == 0)), Fraction(int(j == 1)))
        half += [
            (*unit, Fraction(bounded.prior_lower[j])),
            (-unit[0], -unit[1], -Fraction(bounded.prior_upper[j])),
        ]
    vertices = []
    for (a, b, g), (c, d, h) in combinations(half, 2):
        det = a * d - b * c
        if det:
            x, y = (g * d - b * h) / det, (a * h - g * c) / det
            if all(p * x + q * y >= r for p, q, r in half):
                vertices.append((x, y))
    return [(min(v[j] for v in vertices), max(v[j] for v in vertices)) for j in range(2)]


def uncertain_problem(seed=0, samples=40, parameters=3, width=0.3, prior=(0.0, 2.0), signs=1.0):
    rng = np.random.default_rng(seed)
    reg, truth = regression(samples=samples, parameters=parameters, seed=seed, signs=signs)
    lower = reg.regressor - rng.uniform(0, width, reg.regressor.shape)
    upper = reg.regressor + rng.uniform(0, width, reg.regressor.shape)
    bounded = bounded_problem(reg, error_bound=0.5, prior=prior)
    return replace(bounded, regressor_lower=lower, regressor_upper=upper), truth


def literal(A_low, A_high, b_low, b_high, low, high, sweeps):
    """C_GS of P03 with whole matrices and no rounding, in Jacobi form."""
    low, high = low.copy(), high.copy()
    off_low, off_high = A_low.copy(), A_high.copy()
    np.fill_diagonal(off_low, 0.0)
    np.fill_diagonal(off_high, 0.0)
    for _ in range(sweeps):
        corners = [m * v for m in (off_low, off_high) for v in (low, high)]
        right_low = b_low - np.maximum.reduce(corners).sum(axis=1)
        right_high = b_high - np.minimum.reduce(corners).sum(axis=1)
        quotients = [
            r / d for r in (right_low, right_high) for d in (np.diag(A_low), np.diag(A_high))
        ]
        low = np.maximum(low, np.minimum.reduce(quotients))
        high = np.minimum(high, np.maximum.reduce(quotients))
    return low, high


def augmented(W):
    n, p = W.shape
    return np.block([[W, -np.eye(n)], [np.zeros((p, p)), W.T]])
