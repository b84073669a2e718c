"""Parameters of a payload from the effort beyond that of the unloaded robot, and its changes.

With [W y] the whitened equations, G = W^T W their information, N what noise of the
positions alone would make of it and D how large the parameters of a load can be, the
directions v of

    (G - N) v = mu (N + D^-2) v

with mu + 1 below `MIN_OBSERVED_RATIO` are hidden: noise fills them, or a load of any kind
would look the same. Along the others, V, the equations give, without the attenuation by
noisy columns,

    V^T (N + D^-2) x = diag(1 / mu) V^T (W^T y - n),    n = what noise makes of W^T y,

whatever the hidden part of x, since the directions are orthogonal in G - N. Of all x with
that, the smallest in units of D is taken; the rest of what was open before stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.fitting.cross_validation import weighted_fit
from gough.fitting.estimate import EstimateCovariance
from gough.fitting.noise_information import MIN_OBSERVED_RATIO
from gough.fitting.regression import Regression
from gough.fitting.row_noise import (
    MIN_FREEDOM_PER_ROW,
    MIN_ROW_CORRELATION_EIGENVALUE,
)
from gough.fitting.uncertainty import (
    estimate_covariance,
    linear_influence,
    useful_samples,
)
from gough.fitting.whitening import whiten

# Alternations of noise and fit; the values then change by less than 0.1 standard errors
LOAD_FIT_ITERATIONS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What equations tell of p parameters."""

    values: FloatArray  # the smallest that agree with the equations, (p,)
    along: FloatArray  # V, the q directions that are seen, (p, q) [parameter unit]
    information: FloatArray  # mu, on each of them, (q,)
    back: FloatArray  # from what is seen along them to the parameters, (p, q) [parameter unit]
    hidden: FloatArray  # square root of the covariance of what stays open, (p, p) [parameter unit]
    # changes of the parameters that the equations do not show, (k, p) [parameter unit]
    directions: FloatArray
    prior_std: FloatArray  # D, (p,) [parameter unit]
    over_noise: tuple[
        FloatArray, FloatArray
    ]  # V and mu of all directions, in units of D, (p, p) and (p,)

    @property
    def root(self) -> FloatArray:
        """Square root of the covariance that white noise of the stated size gives, (p, q)."""
        return np.asarray(self.back / np.sqrt(self.information))

    @property
    def white(self) -> FloatArray:
        """Covariance if noise is white and of the stated size, (p, p)."""
        return np.asarray(self.root @ self.root.T + self.hidden @ self.hidden.T)

    def ratio(self, contrasts: FloatArray) -> FloatArray:
        """Return the signal-to-noise ratio of combinations a x, a (k, p), (k,).

        Whatever the others, a x is seen along c = (G + D^-2)^-1 a: 1 + c^T (G - N) c / c^T
        (N + D^-2) c, of which 1 means nothing.
        """
        V, known = self.over_noise
        c = (V.T @ (contrasts * self.prior_std).T) / (
            known[:, None] + 1
        )  # along V, where N + D^-2 is 1
        below = (c**2).sum(axis=0)
        return np.asarray(
            1 + np.divide(known @ c**2, below, out=np.zeros(len(below)), where=below > 0)
        )


def seen(gram: FloatArray, noise: FloatArray, prior_std: FloatArray) -> Seen:
    """Return what equations tell.

    Args:
        gram, noise: [W y]^T [W y] of the whitened equations, and what noise of the
            positions alone makes of it, (p + 1, p + 1) each.
        prior_std: How large parameters can be, (p,): finite, so that "not observed" has a
            scale.
    """
    p = len(prior_std)
    scale = np.append(prior_std, 1.0)
    gram, noise = gram * np.outer(scale, scale), noise * np.outer(scale, scale)
    before = noise[:p, :p] + np.eye(p)
    lower, useful = cholesky(before, lower=True), gram - noise
    inner = solve_triangular(
        lower, solve_triangular(lower, useful[:p, :p], lower=True).T, lower=True
    )
    known, turned = np.linalg.eigh((inner + inner.T) / 2)
    V = solve_triangular(lower.T, turned)
    clear = known >= MIN_OBSERVED_RATIO - 1
    along, hidden = V[:, clear], V[:, ~clear].T
    frame, triangle = np.linalg.qr(before @ along)
    back = solve_triangular(triangle, frame.T).T
    values = back @ ((along.T @ useful[:p, p]) / known[clear])
    if len(
        hidden
    ):  # another basis of the same space, in which each direction has a parameter of its own
        hidden = np.linalg.solve(
            hidden[:, qr(hidden, mode="r", pivoting=True)[1][: len(hidden)]],
            hidden,
        )
    unit = prior_std[:, None]
    return Seen(
        values=values * prior_std,
        along=along * unit,
        information=known[clear],
        back=back * unit,
        hidden=(np.eye(p) - frame @ frame.T) * unit,
        prior_std=prior_std,
        over_noise=(V, known),
        directions=np.where(np.abs(hidden) < 0.02, 0.0, hidden) * prior_std,
    )


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
    """Equations of a load in the order of time: additional effort = W x + noise.

    Args:
        regression: W and that effort, (t, r, p) and (t, r).
        noise: Mean over the samples of d_i d_j^T for rows i and j, d the change of [W y]
            when the noise of the positions is drawn again, (r, r, p + 1, p + 1).
        model_error: Efforts by which the model of the unloaded robot may be wrong:
            independent ways, each of one standard deviation, (t, r, k). [row unit]
    """

    regression: Regression
    noise: FloatArray
    model_error: FloatArray

    def take(self, samples: slice | IntArray) -> LoadProblem:
        """Return the problem of some samples."""
        return replace(
            self,
            regression=self.regression.take(samples),
            model_error=self.model_error[samples],
        )

    def of_noise(self, covariance: FloatArray) -> FloatArray:
        """Return the contribution of position noise to [W y]^T Sigma^-1 [W y] of one sample."""
        return np.asarray(np.tensordot(np.linalg.inv(covariance), self.noise))


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadFit:
    """Values and what they are known by."""

    seen: Seen  # what the equations determine
    # covariance of the values with hidden directions and errors of the model, (p, p)
    uncertainty: EstimateCovariance
    model_std: FloatArray  # the part of the unloaded robot's model in the standard deviations, (p,)
    covariance: FloatArray  # noise of the rows, (r, r) [product of the row units]
    # [W y]^T [W y] of the whitened equations, and what noise makes of it, (2, p + 1, p + 1)
    grams: FloatArray


def fit(
    problem: LoadProblem,
    prior_std: FloatArray,
    weight: FloatArray | None = None,
) -> LoadFit:
    """Fit a load as large as `prior_std` (p,), with samples weighted by `weight` (t,).

    The error of the values is that of noise, by what the residuals show
    (`estimate_covariance`), of hidden directions, as large as before, and of the unloaded
    robot's model E, which enters all samples alike: diag(1 / mu) V^T W^T Sigma^-1 E.
    """
    data = problem.regression
    weight = np.ones(len(data)) if weight is None else weight
    values = weighted_fit(data.statistics()).values
    for _ in range(LOAD_FIT_ITERATIONS):
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
    noise = _noise_covariance(white, found)
    return LoadFit(
        seen=found,
        covariance=covariance,
        grams=grams,
        model_std=np.sqrt((shift**2).sum(axis=1)),
        uncertainty=replace(
            noise,
            covariance=noise.covariance + shift @ shift.T + found.hidden @ found.hidden.T,
        ),
    )


def _noise_covariance(white: Regression, found: Seen) -> EstimateCovariance:
    """Return the covariance of the values due to noise along the observed directions, (p, p)."""
    p, q = found.along.shape
    if not q:
        return EstimateCovariance(
            covariance=np.zeros((p, p)),
            degrees_of_freedom=np.full(p, np.inf),
            kind="white",
        )
    matrix = np.zeros((p + 1, q + 1))
    matrix[:p, :q] = found.along
    matrix[:p, q] = -found.values  # the effort becomes the residual
    matrix[p, q] = 1.0
    rotated = white.transform(matrix, [f"direction{k}" for k in range(q)], ["1"] * q)
    root = np.diag(found.information**-0.5)
    influence = linear_influence(rotated.statistics(), useful_samples(rotated, "auto"), root)
    freedom = max(float(white.n_valid.sum()) - q, 1.0)
    directions = estimate_covariance(influence, "auto", freedom)
    variance = found.back**2 * np.diag(directions.covariance)
    weighted = (variance / directions.degrees_of_freedom).sum(axis=1)
    pooled_freedom = np.maximum(variance.sum(axis=1) / np.maximum(weighted, TINY), 1.0)
    return replace(
        directions,
        covariance=found.back @ directions.covariance @ found.back.T,
        sources=(),
        degrees_of_freedom=np.where(variance.any(axis=1), pooled_freedom, np.inf),
    )


def _row_noise(data: Regression, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the covariance of the rows from the residual, (r, r).

    Diagonal where the correlations are not well determined.
    """
    root_weight = np.sqrt(weight)[:, None]
    residual = data.residual(values) * root_weight
    valid = data.valid * root_weight
    n_valid = np.maximum(valid.T @ valid, TINY)
    free_fraction = max(1 - len(values) / max(float(np.trace(n_valid)), 1.0), 0.1)
    covariance = residual.T @ residual / n_valid / free_fraction
    largest_effort = float(np.abs(data.effort).max(initial=0.0))
    rounding = 1e-9 * max(largest_effort, 1e-3)  # keeps exact data finite
    std = np.maximum(np.sqrt(np.diag(covariance)), rounding)
    correlation = covariance / np.outer(std, std)
    np.fill_diagonal(correlation, 1.0)
    enough_samples = np.diag(n_valid).min() >= MIN_FREEDOM_PER_ROW * len(std)
    if not enough_samples or not (
        np.linalg.eigvalsh(correlation)[0] > MIN_ROW_CORRELATION_EIGENVALUE
    ):
        correlation = np.eye(len(std))
    return np.asarray(correlation * np.outer(std, std))
