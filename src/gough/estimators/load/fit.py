"""The parameters of a load, from the effort that the robot would not need without it.

What data tell of a load, and what they leave open: noise is not information, nor is what was known before.

With [W y] the whitened equations, G = W^T W their information, N what noise of the positions alone would make of it
and D how large the parameters of a load can be, the directions v of

    (G - N) v = mu (N + D^-2) v

with mu + 1 below `OBSERVED` are hidden: noise fills them, or a load of any kind would look the same. Along the others,
V, the equations tell, without the part of noise in them, by which noisy columns attenuate,

    V^T (N + D^-2) x = diag(1 / mu) V^T (W^T y - n),    n = what noise makes of W^T y,

whatever the hidden part of x, since the directions are orthogonal in G - N. Of all x with that, the smallest in units
of D is taken; the rest of what was open before stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from gough.core.arrays import FloatArray, IntArray
from gough.core.condensed import whiten
from gough.core.regression import Regression
from gough.estimators.estimate import Spread
from gough.estimators.linear.solve import first_values
from gough.estimators.noise_information import OBSERVED
from gough.estimators.uncertainty import linear_influence, spread, useful_samples

PASSES = 4  # noise of the rows from the fit, and the fit from the noise: what is left then moves by less than 0.1 sigma
SINGULAR = 1e-8  # smallest eigenvalue of the correlation between rows below which it is not used


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What equations tell of p parameters.

    Args:
        values: The smallest that agree with the equations, (p,).
        along: V, the q directions that are seen, (p, q). [parameter unit]
        information: mu, on each of them, (q,).
        back: From what is seen along them to the parameters, (p, q). [parameter unit]
        hidden: Square root of the covariance of what stays open, (p, p). [parameter unit]
        directions: Changes of the parameters that the equations do not show, (k, p). [parameter unit]
        prior_std: D, (p,). [parameter unit]
        over_noise: V and mu of all directions, in units of D, (p, p) and (p,).
    """

    values: FloatArray
    along: FloatArray
    information: FloatArray
    back: FloatArray
    hidden: FloatArray
    directions: FloatArray
    prior_std: FloatArray
    over_noise: tuple[FloatArray, FloatArray]

    @property
    def root(self) -> FloatArray:
        """Square root of the covariance that white noise of the stated size gives, (p, q)."""
        return np.asarray(self.back / np.sqrt(self.information))

    @property
    def white(self) -> FloatArray:
        """Covariance if noise is white and of the stated size, (p, p)."""
        return np.asarray(self.root @ self.root.T + self.hidden @ self.hidden.T)

    def ratio(self, contrasts: FloatArray) -> FloatArray:
        """Return the information on combinations a x over that of noise alone and of what was known before, (k,).

        Whatever the others, a x is seen along c = (G + D^-2)^-1 a: 1 + c^T (G - N) c / c^T (N + D^-2) c, of which 1
        means nothing.

        Args:
            contrasts: a, (k, p).
        """
        V, known = self.over_noise
        c = (V.T @ (contrasts * self.prior_std).T) / (known[:, None] + 1)  # along V, where N + D^-2 is 1
        below = (c**2).sum(axis=0)
        return np.asarray(1 + np.divide(known @ c**2, below, out=np.zeros(len(below)), where=below > 0))


def seen(gram: FloatArray, noise: FloatArray, prior_std: FloatArray) -> Seen:
    """Return what equations tell.

    Args:
        gram: [W y]^T [W y] of the whitened equations, (p + 1, p + 1).
        noise: What noise of the positions alone makes of it, (p + 1, p + 1).
        prior_std: How large parameters can be, (p,): finite, so that "not observed" has a scale.
    """
    p = len(prior_std)
    scale = np.append(prior_std, 1.0)
    gram, noise = gram * np.outer(scale, scale), noise * np.outer(scale, scale)
    before = noise[:p, :p] + np.eye(p)
    lower, useful = cholesky(before, lower=True), gram - noise
    inner = solve_triangular(lower, solve_triangular(lower, useful[:p, :p], lower=True).T, lower=True)
    known, turned = np.linalg.eigh((inner + inner.T) / 2)
    V = solve_triangular(lower.T, turned)
    clear = known >= OBSERVED - 1
    along = V[:, clear]
    frame, triangle = np.linalg.qr(before @ along)
    back = solve_triangular(triangle, frame.T).T
    values = back @ ((along.T @ useful[:p, p]) / known[clear])
    scaled = prior_std[:, None]
    return Seen(values=values * prior_std, along=along * scaled, information=known[clear], back=back * scaled,
                hidden=(np.eye(p) - frame @ frame.T) * scaled, directions=_readable(V[:, ~clear].T) * prior_std,
                prior_std=prior_std, over_noise=(V, known))


def _readable(directions: FloatArray) -> FloatArray:
    """Return another basis of the same space in which each direction has a parameter of its own."""
    if not len(directions):
        return directions
    pivots = qr(directions, mode="r", pivoting=True)[1][:len(directions)]
    turned = np.linalg.solve(directions[:, pivots], directions)
    return np.where(np.abs(turned) < 0.02, 0.0, turned)


def in_words(names: tuple[str, ...], direction: FloatArray) -> str:
    """Return a direction as text, e.g. `Ixx - 0.98 Iyy`."""
    lead = direction[np.argmax(np.abs(direction) > 0)]
    text = ""
    for name, coefficient in zip(names, direction / lead):
        if coefficient:
            size = f"{abs(coefficient):.2g}"
            sign = (" - " if coefficient < 0 else " + ") if text else ""
            text += f"{sign}{'' if size == '1' else size + ' '}{name}"
    return text


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadProblem:
    """Equations of a load: effort beyond that of the unloaded robot = W x + noise, in the order of time.

    Args:
        regression: W and that effort, (t, r, p) and (t, r).
        noise: Mean over the samples of d_i d_j^T for rows i and j, d the change of [W y] when the noise of the
            positions is drawn again, (r, r, p + 1, p + 1).
        model_error: Efforts by which the model of the unloaded robot may be wrong: independent ways, each of one
            standard deviation, (t, r, k). [row unit]
    """

    regression: Regression
    noise: FloatArray
    model_error: FloatArray

    def take(self, samples: slice | IntArray) -> LoadProblem:
        """Return the problem of some samples."""
        return replace(self, regression=self.regression.take(samples), model_error=self.model_error[samples])

    def of_noise(self, covariance: FloatArray) -> FloatArray:
        """Return what noise of the positions adds to [W y]^T Sigma^-1 [W y] of one sample, (p + 1, p + 1)."""
        return np.asarray(np.tensordot(np.linalg.inv(covariance), self.noise))


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadFit:
    """Values and what they are known by.

    Args:
        seen: Values, and which directions the equations show.
        spread: Covariance of the values with hidden directions and errors of the model, (p, p).
        model_std: The part of the unloaded robot's model in the standard deviations, (p,).
        covariance: Noise of the rows, (r, r). [product of the row units]
        grams: [W y]^T [W y] of the whitened equations, and what noise makes of it, (2, p + 1, p + 1).
    """

    seen: Seen
    spread: Spread
    model_std: FloatArray
    covariance: FloatArray
    grams: FloatArray


def fit(problem: LoadProblem, prior_std: FloatArray, weight: FloatArray | None = None) -> LoadFit:
    """Find the values of a load.

    The error of the values is that of noise, by what the residuals show (`spread`), of hidden directions, as large as
    before, and of the unloaded robot's model E, which enters all samples alike: diag(1 / mu) V^T W^T Sigma^-1 E.

    Args:
        prior_std: How large parameters can be, (p,). [parameter unit]
        weight: Of each sample, (t,); all alike by default.
    """
    data = problem.regression
    weight = np.ones(len(data)) if weight is None else weight
    values = first_values(data)
    for _ in range(PASSES):
        covariance = _row_noise(data, values, weight)
        each = covariance if (weight == 1).all() else covariance / weight[:, None, None]
        white = data.whitened(each)
        rows = white.stacked().reshape(-1, len(values) + 1)
        grams = np.stack([rows.T @ rows, weight.sum() * problem.of_noise(covariance)])
        found = seen(grams[0], grams[1], prior_std)
        values = found.values
    error = whiten(problem.model_error, each, data.mask, data.rows)
    pull = np.tensordot(white.regressor @ found.along, error, axes=((0, 1), (0, 1)))
    shift = found.back @ (pull / found.information[:, None])
    noise = _noise_spread(white, found)
    return LoadFit(seen=found, covariance=covariance, grams=grams, model_std=np.sqrt((shift**2).sum(axis=1)),
                   spread=replace(noise, covariance=noise.covariance + shift @ shift.T + found.hidden @ found.hidden.T))


def _noise_spread(white: Regression, found: Seen) -> Spread:
    """Return the covariance that noise gives the values, (p, p): that along what is seen, carried back to these."""
    p, q = found.along.shape
    if not q:
        return Spread(covariance=np.zeros((p, p)), degrees_of_freedom=np.full(p, np.inf), kind="white", sources=())
    matrix = np.zeros((p + 1, q + 1))
    matrix[:p, :q], matrix[:p, q], matrix[p, q] = found.along, -found.values, 1.0  # what is left is the effort
    turned = white.transform(matrix, [f"direction{k}" for k in range(q)], ["1"] * q)
    influence = linear_influence(turned.condensed(), useful_samples(turned, "auto"), np.diag(found.information**-0.5))
    own = spread(influence, "auto", max(float(white.counts.sum()) - q, 1.0))
    part = found.back**2 * np.diag(own.covariance)
    few = part.sum(axis=1) / np.maximum((part / own.degrees_of_freedom).sum(axis=1), np.finfo(float).tiny)
    return replace(own, covariance=found.back @ own.covariance @ found.back.T, sources=(),
                   degrees_of_freedom=np.where(part.any(axis=1), np.maximum(few, 1.0), np.inf))


def _row_noise(data: Regression, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the covariance of the rows from what values leave, single rows where correlations are not sure, (r, r)."""
    left = data.left(values) * np.sqrt(weight)[:, None]
    there = (np.ones(left.shape) if data.mask is None else data.mask.astype(float)) * np.sqrt(weight)[:, None]
    counts = np.maximum(there.T @ there, np.finfo(float).tiny)
    free = max(1 - len(values) / max(float(np.trace(counts)), 1.0), 0.1)
    covariance = left.T @ left / counts / free
    size = np.sqrt(np.diag(covariance))
    least = 1e-9 * max(float(np.abs(data.effort).max(initial=0.0)), 1e-3)  # keeps exact data finite
    size = np.maximum(size, least)
    unit = covariance / np.outer(size, size)
    np.fill_diagonal(unit, 1.0)
    sure = np.diag(counts).min() >= 7 * len(size) and np.linalg.eigvalsh(unit)[0] > SINGULAR
    return np.asarray((unit if sure else np.eye(len(size))) * np.outer(size, size))
