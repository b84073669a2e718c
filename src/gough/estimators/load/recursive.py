"""Constant parameters sample by sample, and which of them the data so far cannot tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import qr
from scipy.linalg.lapack import dgeqrf, dpotrf, dtrtri, dtrtrs

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput
from gough.core.names import Parameter
from gough.core.names import parameters as named
from gough.core.regression import Regression
from gough.estimators.estimate import Estimate, Source, assemble
from gough.estimators.uncertainty import Uncertainty, linear_influence, spread, useful_samples

OBSERVED = 0.5  # a direction counts as observed once its standard deviation fell below this share of the prior's


@dataclass(frozen=True, kw_only=True, eq=False)
class Observability:
    """What the data so far add to the prior.

    Args:
        parameters: Names, (p,).
        ratio: Posterior over prior standard deviation of each parameter, (p,), from 1 (nothing) towards 0. [1]
        unobserved: Names of the parameters whose ratio is above the threshold.
        directions: Changes of the parameters that the effort does not show, (k, p). [parameter units]
        threshold: What separated observed from unobserved.
    """

    parameters: tuple[str, ...]
    ratio: FloatArray
    unobserved: tuple[str, ...]
    directions: FloatArray
    threshold: float

    def texts(self) -> tuple[str, ...]:
        """Return the unseen directions in words, e.g. `payload.Ixx - 0.98 payload.Iyy`."""
        return tuple(_combination(self.parameters, direction) for direction in self.directions)


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterBelief:
    """What is known of constant parameters: a prior and the data absorbed so far, as a square root of information.

    Args:
        parameters: Names, (p,).
        units: Their units, (p,).
        prior_std: How far from the prior mean values may be, (p,): wide but finite, so that "unobserved" has a scale.
        factor: Upper triangular R of [A b], where |A x - b|^2 is minus twice the log posterior, (p + 1, p + 1).
        samples: Samples absorbed.
    """

    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    prior_std: FloatArray
    factor: FloatArray
    samples: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior_std", frozen(self.prior_std))
        object.__setattr__(self, "factor", frozen(self.factor))

    @cached_property
    def values(self) -> FloatArray:
        """Most probable values, (p,)."""
        return frozen(_solve(self.factor))

    @cached_property
    def covariance(self) -> FloatArray:
        """Of the values under the stated noise, (p, p)."""
        root = dtrtri(self.factor[:-1, :-1])[0]
        return frozen(root @ root.T)

    @cached_property
    def std(self) -> FloatArray:
        """Standard deviations, (p,)."""
        return frozen(_std(self.factor))

    @property
    def misfit(self) -> float:
        """Weighted sum of squares left by data and prior: chi-square with as many degrees of freedom as rows."""
        return float(self.factor[-1, -1] ** 2)

    def observability(self, threshold: float = OBSERVED) -> Observability:
        """Compare posterior with prior: which parameters and which combinations the data have not shown.

        With D = diag(prior std), the singular values of R D are the ratios of prior to posterior standard deviation
        along its right singular vectors; where they stay below 1 / threshold the data say little.
        """
        if not 0 < threshold < 1:
            raise InvalidInput(f"threshold is {threshold}, expected between 0 and 1", threshold=threshold)
        ratio = self.std / self.prior_std
        _, gain, axes = np.linalg.svd(self.factor[:-1, :-1] * self.prior_std)
        hidden = axes[gain < 1 / threshold]
        if len(hidden):
            # Any basis of the hidden space will do: give each direction a parameter of its own, so that it reads well.
            pivots = qr(hidden, mode="r", pivoting=True)[1][:len(hidden)]
            hidden = np.linalg.solve(hidden[:, pivots], hidden)
            hidden[np.abs(hidden) < 0.02] = 0.0
        return Observability(
            parameters=self.parameters, ratio=frozen(ratio), directions=frozen(hidden * self.prior_std),
            unobserved=tuple(n for n, r in zip(self.parameters, ratio) if r > threshold), threshold=threshold)

    def estimate(self, regression: Regression, method: str = "recursive least squares",
                 uncertainty: Uncertainty = "auto") -> Estimate:
        """Return the belief as an `Estimate`, with the residuals it leaves on the data it came from.

        With P the covariance under the stated noise, H the information of the data and x0 the prior mean, the error is
        P (sum of the noise's influences) + P (P^-1 - H) (x0 - truth). The covariance of the first part comes from the
        residuals, as in `LeastSquares`: a filter believes each sample to be independent, which filtered logs are not.
        Under 'white' it grows with the residuals where these exceed the stated noise. Parameters the data did not show
        keep the prior's value and standard deviation, and are named in the notes.

        Args:
            regression: The data absorbed; if old ones fade, with covariances that grow accordingly.
            method: For the report.
            uncertainty: As in `LeastSquares`.
        """
        _check_problem(self, regression)
        white = regression.whitened()
        left, condensed = white.left(self.values), white.condensed()
        equations = int(condensed.counts.sum())
        excess = max(1.0, float((left**2).sum()) / max(equations - len(self.parameters), 1))
        columns = condensed.factors[:, :, :-1].reshape(-1, len(self.parameters))
        length = np.linalg.norm(columns, axis=0)
        seen = self.observability()
        notes = [f"{name} is not observable on this motion: standard deviation {100 * ratio:.0f} % of the prior's"
                 for name, ratio in zip(self.parameters, seen.ratio) if name in seen.unobserved]
        notes += [f"not told apart: {text}" for text in seen.texts() if " + " in text or " - " in text]
        if excess > 2:
            notes.append(f"residuals are {np.sqrt(excess):.2g} times the stated noise; standard deviations grew too")
        root = dtrtri(self.factor[:-1, :-1])[0]
        half = columns @ self.covariance
        noise = half.T @ half  # P H P
        influence = linear_influence(condensed, useful_samples(white, uncertainty), root, self.values)
        found = spread(influence, white=excess * noise, white_freedom=np.inf, mode=uncertainty)
        covariance = found.covariance + self.covariance - noise
        # Residuals say nothing about what only the prior holds: its standard deviation is the most that is claimed.
        shrink = np.minimum(self.prior_std / np.sqrt(np.diag(covariance)), 1.0)
        own = Source(kind="white", std=self.std, degrees_of_freedom=np.asarray(np.inf))
        found = replace(found, covariance=covariance * np.outer(shrink, shrink), sources=(own, *found.sources[1:]))
        return assemble(regression, self.values, found, method=method, noise_covariance=_mean_covariance(regression),
                        condition_number=float(np.linalg.cond(columns / length)) if length.all() else float("inf"),
                        notes=notes)


def prior_belief(*, parameters: tuple[str, ...], units: tuple[str, ...], std: ArrayLike,
                 mean: ArrayLike | None = None) -> ParameterBelief:
    """Return the belief before any data.

    Args:
        parameters: Names, (p,).
        units: Their units, (p,).
        std: How far from the mean the values may be, (p,): finite, positive.
        mean: (p,), zero by default.
    """
    p, names = len(parameters), named(parameters, units)
    spread = np.array(np.broadcast_to(np.asarray(std, dtype=float), (p,)))
    center = np.zeros(p) if mean is None else np.asarray(mean, dtype=float)
    check_shape(center, (p,), "prior mean")
    check_finite(center, "prior mean")
    if not p:
        raise InvalidInput("there are no parameters to know anything of")
    if not (np.isfinite(spread) & (spread > 0)).all():
        bad = parameters[int(np.argmin(np.isfinite(spread) & (spread > 0)))]
        raise InvalidInput(f"prior standard deviation of '{bad}' must be positive and finite; "
                           "if nothing is known give the widest value that makes sense", name=bad)
    factor = np.zeros((p + 1, p + 1))
    factor[:p, :p] = np.diag(1 / spread)
    factor[:p, p] = center / spread
    return ParameterBelief(parameters=names, units=tuple(units), prior_std=spread, factor=factor)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecursiveHistory:
    """Values and standard deviations after each sample, (t, p), and the belief after the last."""

    values: FloatArray
    std: FloatArray
    belief: ParameterBelief

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))
        object.__setattr__(self, "std", frozen(self.std))


@dataclass(frozen=True, kw_only=True)
class RecursiveLeastSquares:
    """The Kalman filter of constant parameters, effort = regressor @ parameters + noise, as a root of information.

    A sample's whitened rows are put under the triangular factor and rotated into it (a QR update), so the result equals
    batch Gauss-Markov with the prior as extra rows, whatever the order and however ill-conditioned.

    Args:
        forgetting: Weight a sample keeps when the next arrives; below 1 old data and prior fade and values may drift.
    """

    forgetting: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.forgetting <= 1:
            raise InvalidInput(f"forgetting factor is {self.forgetting}, expected above 0 and at most 1")

    def update(self, belief: ParameterBelief, regressor: FloatArray, effort: FloatArray, covariance: FloatArray,
               ) -> ParameterBelief:
        """Return the belief after one sample.

        Args:
            belief: Before it.
            regressor: (r, p).
            effort: (r,). [N or N m]
            covariance: Of the effort noise, (r, r).
        """
        rows = np.concatenate([regressor, effort[:, None]], axis=1)
        if rows.shape[1] != len(belief.factor):
            raise InvalidInput(f"regressor has {rows.shape[1] - 1} columns, expected {len(belief.parameters)}")
        if not np.isfinite(rows).all():
            raise InvalidInput(f"sample {belief.samples} is not finite; leave it out", sample=belief.samples)
        factor = _absorb(belief.factor, _whiten_rows(rows, covariance), self.forgetting)
        return replace(belief, factor=factor, samples=belief.samples + 1)

    def run(self, belief: ParameterBelief, regression: Regression) -> RecursiveHistory:
        """Absorb a whole regression sample by sample, with the values after each."""
        _check_problem(belief, regression)
        assert regression.covariance is not None  # checked above
        t, p, r = len(regression), len(belief.parameters), len(regression.rows)
        rows, noise = regression.stacked(), np.broadcast_to(regression.covariance, (t, r, r))
        values, std = np.empty((t, p)), np.empty((t, p))
        factor = belief.factor
        for k in range(t):
            here = np.arange(r) if regression.mask is None else np.flatnonzero(regression.mask[k])
            factor = _absorb(factor, _whiten_rows(rows[k][here], noise[k][np.ix_(here, here)]), self.forgetting)
            values[k], std[k] = _solve(factor), _std(factor)
        return RecursiveHistory(values=values, std=std,
                                belief=replace(belief, factor=factor, samples=belief.samples + t))


def _absorb(factor: FloatArray, rows: FloatArray, forgetting: float = 1.0) -> FloatArray:
    """Return the triangular factor of old factor and new whitened rows."""
    if forgetting < 1:
        factor = factor * np.sqrt(forgetting)
    width = factor.shape[1]
    reduced = dgeqrf(np.concatenate([factor, rows]))[0][:width]
    return np.asarray(reduced * _upper(width))


@lru_cache
def _upper(width: int) -> FloatArray:
    return np.triu(np.ones((width, width)))


def _solve(factor: FloatArray) -> FloatArray:
    return np.asarray(dtrtrs(factor[:-1, :-1], factor[:-1, -1])[0])


def _std(factor: FloatArray) -> FloatArray:
    root = dtrtri(factor[:-1, :-1])[0]
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", root, root)))


def _whiten_rows(rows: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return L^-1 rows with covariance = L L^T."""
    if not len(rows):
        return rows
    lower, info = dpotrf(covariance, lower=1)
    if info != 0:
        raise InvalidInput("covariance of the effort noise is not positive definite")
    return np.asarray(dtrtrs(lower, rows, lower=1)[0])


def _mean_covariance(regression: Regression) -> FloatArray | None:
    noise = regression.covariance
    return noise.mean(axis=0) if noise is not None and noise.ndim == 3 else noise


def _check_problem(belief: ParameterBelief, regression: Regression) -> None:
    if regression.parameters != belief.parameters:
        raise InvalidInput(f"the regression has the parameters {', '.join(regression.parameters)}, the filter "
                           f"{', '.join(belief.parameters)}; select the same in the same order")
    if regression.covariance is None:
        raise InvalidInput("a filter needs the covariance of the effort noise; the regression has none")


def _combination(names: tuple[str, ...], direction: FloatArray) -> str:
    lead = direction[np.argmax(np.abs(direction) > 0)]
    text = ""
    for name, coefficient in zip(names, direction / lead):
        if coefficient:
            size = f"{abs(coefficient):.2g}"
            sign = (" - " if coefficient < 0 else " + ") if text else ""
            text += f"{sign}{'' if size == '1' else size + ' '}{name}"
    return text
