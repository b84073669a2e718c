"""Parameters of a payload from the effort beyond that of the unloaded robot, and its changes.

With [W y] the whitened equations, G = W^T W their information, N what
noise of the positions alone would make of it and D how large the
parameters of a load can be, the directions v of

    (G - N) v = mu (N + D^-2) v

whose signal-to-noise ratio mu + 1 is below `MIN_OBSERVED_RATIO` are
hidden: noise fills them, or a load of any kind would look the same.
Along the others, V, the equations give, without the attenuation by
noisy columns,

    V^T (N + D^-2) x = diag(1 / mu) V^T (W^T y - n),    n = what noise makes of W^T y,

whatever the hidden part of x, since the directions are orthogonal in G - N. Of
all x with that, the smallest in units of D is taken; the rest of what was open
before stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from gough.core.arrays import TINY, FloatArray, IntArray
from gough.core.display import combination_text
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

# Alternations of noise and fit; the values then change by less than 0.1
# standard errors
LOAD_FIT_ITERATIONS = 4
# entries of hidden directions, in units of D, that are not reported
NEGLIGIBLE_DIRECTION = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedLoad:
    """What the equations determine of p parameters of a load."""

    values: FloatArray  # the smallest that agree with the equations, (p,)
    # V, the q that are not hidden, (p, q) [parameter unit]
    observed_directions: FloatArray
    information: FloatArray  # mu of each of them, (q,)
    # from coordinates along the observed directions to the parameters,
    # (p, q) [parameter unit]
    to_parameters: FloatArray
    # square root of the covariance of what is not determined, (p, p)
    # [parameter unit]
    hidden_root: FloatArray
    # changes of the parameters that the equations do not show, (k, p)
    # [parameter unit]
    hidden_directions: FloatArray
    prior_std: FloatArray  # D, (p,) [parameter unit]
    all_directions: FloatArray  # V of all directions, in units of D, (p, p)
    all_information: FloatArray  # mu of all directions, (p,)

    @property
    def root(self) -> FloatArray:
        """Square root of the covariance that white noise of the stated size gives, (p, q)."""
        return np.asarray(self.to_parameters / np.sqrt(self.information))

    @property
    def white(self) -> FloatArray:
        """Covariance if noise is white and of the stated size, (p, p)."""
        return np.asarray(self.root @ self.root.T + self.hidden_root @ self.hidden_root.T)

    def signal_to_noise(self, contrasts: FloatArray) -> FloatArray:
        """Return the signal-to-noise ratio of combinations a x, a (k, p), (k,).

        Whatever the others are, a x is observed along c = (G + D^-2)^-1
        a with the ratio 1 + c^T (G - N) c / c^T (N + D^-2) c; 1 means
        that it is not observed.
        """
        mu = self.all_information
        scaled = contrasts * self.prior_std
        c = (self.all_directions.T @ scaled.T) / (mu[:, None] + 1)  # along V: N + D^-2 is 1
        noise = (c**2).sum(axis=0)
        signal = mu @ c**2
        ratio = np.divide(signal, noise, out=np.zeros(len(noise)), where=noise > 0)
        return np.asarray(1 + ratio)


def observe_load(gram: FloatArray, noise: FloatArray, prior_std: FloatArray) -> ObservedLoad:
    """Return what equations determine of a load.

    Args:
        gram, noise: [W y]^T [W y] of the whitened equations, and what
            noise of the positions alone makes of it, (p + 1, p + 1)
            each.
        prior_std: D, how large parameters can be, (p,): finite, so that
            "not observed" has a scale.
    """
    p = len(prior_std)
    scale = np.append(prior_std, 1.0)
    gram = gram * np.outer(scale, scale)  # parameters in units of D from here on
    noise = noise * np.outer(scale, scale)
    signal = gram - noise  # G - N, and W^T y - n beside it
    background = noise[:p, :p] + np.eye(p)  # N + D^-2
    lower = cholesky(background, lower=True)
    half = solve_triangular(lower, signal[:p, :p], lower=True)
    whitened = solve_triangular(lower, half.T, lower=True)
    mu, vectors = np.linalg.eigh((whitened + whitened.T) / 2)
    V = solve_triangular(lower.T, vectors)
    clear = mu >= MIN_OBSERVED_RATIO - 1
    observed = V[:, clear]
    hidden = V[:, ~clear].T
    basis, triangle = np.linalg.qr(background @ observed)
    to_parameters = solve_triangular(triangle, basis.T).T
    values = to_parameters @ ((observed.T @ signal[:p, p]) / mu[clear])
    if len(hidden):  # the same space, each direction with a parameter of its own
        _, pivots = qr(hidden, mode="r", pivoting=True)
        hidden = np.linalg.solve(hidden[:, pivots[: len(hidden)]], hidden)
    hidden = np.where(np.abs(hidden) < NEGLIGIBLE_DIRECTION, 0.0, hidden)
    unit = prior_std[:, None]
    return ObservedLoad(
        values=values * prior_std,
        observed_directions=observed * unit,
        information=mu[clear],
        to_parameters=to_parameters * unit,
        hidden_root=(np.eye(p) - basis @ basis.T) * unit,
        hidden_directions=hidden * prior_std,
        prior_std=prior_std,
        all_directions=V,
        all_information=mu,
    )


def direction_text(names: tuple[str, ...], direction: FloatArray) -> str:
    """Return a direction as text, e.g. `Ixx - 0.98 Iyy`."""
    first = direction[np.argmax(np.abs(direction) > 0)]
    return combination_text(direction / first, names, ".2g")


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadProblem:
    """Equations of a load in the order of time: additional effort = W x + noise.

    Args:
        regression: W and that effort, (t, r, p) and (t, r).
        noise: Mean over the samples of d_i d_j^T for rows i and j, d
            the change of [W y] when the noise of the positions is drawn
            again, (r, r, p + 1, p + 1).
        model_error: Efforts by which the model of the unloaded robot
            may be wrong: independent ways, each of one standard
            deviation, (t, r, k). [row unit]
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
    """The parameters of a load with their uncertainty."""

    observed: ObservedLoad  # what the equations determine
    # covariance of the values with hidden directions and errors of the
    # model, (p, p)
    uncertainty: EstimateCovariance
    # the part of the unloaded robot's model in the standard deviations,
    # (p,)
    model_std: FloatArray
    # noise of the rows, (r, r) [product of the row units]
    covariance: FloatArray
    # [W y]^T [W y] of the whitened equations, and what noise makes of
    # it, (2, p + 1, p + 1)
    grams: FloatArray


def fit_load(
    problem: LoadProblem,
    prior_std: FloatArray,
    weight: FloatArray | None = None,
) -> LoadFit:
    """Fit a load as large as `prior_std` (p,), with samples weighted by `weight` (t,).

    The error of the values is that of noise, by what the residuals show
    (`estimate_covariance`), of hidden directions, as large as before,
    and of the unloaded robot's model E, which enters all samples alike:
    diag(1 / mu) V^T W^T Sigma^-1 E.
    """
    regression = problem.regression
    if weight is None:
        weight = np.ones(len(regression))
    values = weighted_fit(regression.statistics()).values
    for _ in range(LOAD_FIT_ITERATIONS):
        covariance = _row_noise(regression, values, weight)
        by_sample = covariance
        if (weight != 1).any():
            by_sample = covariance / weight[:, None, None]
        white = regression.whitened(by_sample)
        rows = white.stacked().reshape(-1, len(values) + 1)
        grams = np.stack([rows.T @ rows, weight.sum() * problem.of_noise(covariance)])
        observed = observe_load(grams[0], grams[1], prior_std)
        values = observed.values
    error = whiten(problem.model_error, by_sample, regression.mask, regression.rows)
    slopes = white.regressor @ observed.observed_directions
    pull = np.tensordot(slopes, error, axes=((0, 1), (0, 1)))
    shift = observed.to_parameters @ (pull / observed.information[:, None])
    noise = _noise_covariance(white, observed)
    hidden = observed.hidden_root @ observed.hidden_root.T
    return LoadFit(
        observed=observed,
        covariance=covariance,
        grams=grams,
        model_std=np.sqrt((shift**2).sum(axis=1)),
        uncertainty=replace(noise, covariance=noise.covariance + shift @ shift.T + hidden),
    )


def _noise_covariance(white: Regression, observed: ObservedLoad) -> EstimateCovariance:
    """Return the covariance of the values due to noise along the observed directions, (p, p)."""
    p, q = observed.observed_directions.shape
    if not q:
        return EstimateCovariance(
            covariance=np.zeros((p, p)),
            degrees_of_freedom=np.full(p, np.inf),
            kind="white",
        )
    matrix = np.zeros((p + 1, q + 1))
    matrix[:p, :q] = observed.observed_directions
    matrix[:p, q] = -observed.values  # the effort becomes the residual
    matrix[p, q] = 1.0
    rotated = white.transform(matrix, [f"direction{k}" for k in range(q)], ["1"] * q)
    root = np.diag(observed.information**-0.5)
    influence = linear_influence(rotated.statistics(), useful_samples(rotated, "auto"), root)
    freedom = max(float(white.n_valid.sum()) - q, 1.0)
    directions = estimate_covariance(influence, "auto", freedom)
    variance = observed.to_parameters**2 * np.diag(directions.covariance)
    weighted = (variance / directions.degrees_of_freedom).sum(axis=1)
    pooled_freedom = np.maximum(variance.sum(axis=1) / np.maximum(weighted, TINY), 1.0)
    return replace(
        directions,
        covariance=observed.to_parameters @ directions.covariance @ observed.to_parameters.T,
        sources=(),
        degrees_of_freedom=np.where(variance.any(axis=1), pooled_freedom, np.inf),
    )


def _row_noise(regression: Regression, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the covariance of the rows from the residual, (r, r).

    Diagonal where the correlations are not well determined.
    """
    root_weight = np.sqrt(weight)[:, None]
    residual = regression.residual(values) * root_weight
    valid = regression.valid * root_weight
    n_valid = np.maximum(valid.T @ valid, TINY)
    free_fraction = max(1 - len(values) / max(float(np.trace(n_valid)), 1.0), 0.1)
    covariance = residual.T @ residual / n_valid / free_fraction
    largest_effort = float(np.abs(regression.effort).max(initial=0.0))
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
