"""Least squares, with row weights, and with the full covariance of the rows (BG13 (24)-(28), AH09 (9)-(10))."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, NotConverged, NotIdentifiable
from gough.core.regression import Condensed, Regression
from gough.estimators.estimate import Estimate
from gough.estimators.linear.solve import Problem, Solution, condensed_form, residual_statistics, solve
from gough.estimators.uncertainty import Influence, Uncertainty, pooled_freedom, spread


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """Minimise |W chi - y|^2 over all rows alike; BG13 (24)-(27).

    Rows of different noise or unit deserve `WeightedLeastSquares`.

    Args:
        uncertainty: Where standard deviations come from: 'auto', 'white', 'period' or 'hac'; see `uncertainty.spread`.
    """

    uncertainty: Uncertainty = "auto"

    def fit(self, problem: Problem) -> Estimate:
        """Return the estimate of a regression or its condensed form."""
        condensed = condensed_form(problem)
        solution = solve(np.concatenate(condensed.factors), condensed.parameters)
        equations, p = condensed.samples * len(condensed.rows), len(condensed.parameters)
        variance = solution.residual_norm**2 / (equations - p)  # BG13 (26)
        rows = np.ones(len(condensed.rows))
        return _report(problem, condensed, solution, rows, method="least squares", mode=self.uncertainty,
                       white=variance * solution.root @ solution.root.T, noise=np.diag(rows * variance))


@dataclass(frozen=True, kw_only=True)
class WeightedLeastSquares:
    """Least squares with each row divided by its own noise, found from its residual; BG13 (28).

    sigma_j^2 = |W_j chi - y_j|^2 / (t - h_j) with h_j the share of row j in the fitted parameters (sum_j h_j = p): the
    weights are unbiased. Departure: BG13 weights once; here the weights are iterated until they agree
    with the solution they give.

    Args:
        iterations: Most passes.
        tolerance: Relative change of the weights that ends them; None runs all passes (1 pass is BG13's estimator).
        uncertainty: As in `LeastSquares`.
    """

    iterations: int = 100
    tolerance: float | None = 1e-9
    uncertainty: Uncertainty = "auto"

    def fit(self, problem: Problem) -> Estimate:
        """Return the estimate of a regression or its condensed form.

        Raises:
            NotConverged: The weights still change after `iterations` passes.
        """
        condensed = condensed_form(problem)
        sigma = np.ones(len(condensed.rows))
        for _ in _passes(self.iterations, self.tolerance):
            solution = solve(np.concatenate(condensed.factors / sigma[:, None, None]), condensed.parameters)
            before, sigma = sigma, row_noise(condensed, solution, sigma)
            if self.tolerance is not None and np.abs(np.log(sigma / before)).max() < self.tolerance:
                break
        else:
            _refuse_unless_fixed(self.iterations, self.tolerance)
        solution = solve(np.concatenate(condensed.factors / sigma[:, None, None]), condensed.parameters)
        white = solution.root @ solution.root.T
        shares = np.linalg.norm(condensed.factors[:, :, :-1] @ white, axis=1) ** 2 / sigma[:, None] ** 2
        freedom = pooled_freedom(shares, _row_freedom(condensed, solution, sigma))
        return _report(problem, condensed, solution, 1 / sigma, method="weighted least squares", freedom=freedom,
                       mode=self.uncertainty, white=white, noise=np.diag(sigma**2))


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussMarkov:
    """Least squares with the covariance between rows taken into account; AH09 (9)-(10).

    chi = (sum_s W_s^T Sigma_s^-1 W_s)^-1 sum_s W_s^T Sigma_s^-1 y_s, computed by whitening each sample and QR.

    Args:
        covariance: Of the rows' noise: (r, r), or (t, r, r) per sample, or 'estimated' from the residuals and iterated,
            or None for the problem's own covariance and, if it has none, 'estimated'. [product of the row units]
        iterations, tolerance: Of the estimated covariance, as in `WeightedLeastSquares`.
        uncertainty: As in `LeastSquares`.
    """

    covariance: FloatArray | Literal["estimated"] | None = None
    iterations: int = 200
    tolerance: float | None = 1e-9
    uncertainty: Uncertainty = "auto"

    def __post_init__(self) -> None:
        if self.covariance is not None and not isinstance(self.covariance, str):
            object.__setattr__(self, "covariance", frozen(self.covariance))
        elif self.covariance not in (None, "estimated"):
            raise InvalidInput(f"covariance is {self.covariance!r}, expected an array, 'estimated' or None")

    def fit(self, problem: Problem) -> Estimate:
        """Return the estimate of a regression, or of a problem condensed with `joint=True`.

        Raises:
            InvalidInput: The covariance is not positive definite, or does not fit the problem.
            NotConverged: The estimated covariance still changes after `iterations` passes.
        """
        covariance = self.covariance
        if covariance is None:
            covariance = problem.covariance if isinstance(problem, Regression) else None
        if covariance is None or isinstance(covariance, str):
            return self._fit_estimated(problem)
        white = None
        if covariance.ndim == 3:
            if not isinstance(problem, Regression):
                raise InvalidInput("a covariance per sample needs the samples; whiten the blocks before condensing "
                                   "them (`whiten`) and fit with the identity as covariance")
            white, condensed = whiten(problem, covariance), condensed_form(problem)
            stacked = np.concatenate(condensed_form(white).factors)
        else:
            check_shape(covariance, (len(problem.rows),) * 2, "covariance of the rows")
            condensed = condensed_form(problem, joint=not _diagonal(covariance))
            stacked = _whitened(condensed, inverse_root(covariance, condensed.rows))
        return self._report(problem, condensed, solve(stacked, condensed.parameters), covariance, freedom=np.inf,
                            white=white)

    def _fit_estimated(self, problem: Problem) -> Estimate:
        condensed = condensed_form(problem, joint=True)
        assert condensed.joint is not None
        r, p, t = len(condensed.rows), len(condensed.parameters), condensed.samples
        blocks = condensed.joint[:, : r * p].reshape(len(condensed.joint), r, p)
        noise = np.eye(r)
        for _ in _passes(self.iterations, self.tolerance):
            root = inverse_root(noise, condensed.rows)
            solution = solve(_whitened(condensed, root), condensed.parameters)
            left = blocks @ solution.values - condensed.joint[:, r * p :]  # same Gram matrix as the residuals
            floor = _floor(condensed, solution)
            spared = blocks @ solution.root  # share of row j: tr(W_j P sum_k W_k^T Sigma^-1_kj)
            share = np.einsum("kjq,kiq,ij->j", spared, spared, root.T @ root, optimize=True)
            pairs = _pairs(_redundancy(t - share, condensed.rows))
            before, noise = noise, left.T @ left / pairs
            noise = noise + np.diag(np.maximum(floor**2 - np.diag(noise), 0.0))
            size = np.sqrt(np.diag(noise))
            if self.tolerance is not None and np.abs((noise - before) / np.outer(size, size)).max() < self.tolerance:
                break
        else:
            _refuse_unless_fixed(self.iterations, self.tolerance)
        root = inverse_root(noise, condensed.rows)
        solution = solve(_whitened(condensed, root), condensed.parameters)
        # Satterthwaite: the variance of a parameter is tr(C noise) with noise a scatter matrix
        slopes = np.einsum("ij,kjq,qp->pki", root, blocks, solution.root @ solution.root.T, optimize=True)
        C = slopes.transpose(0, 2, 1) @ slopes
        freedom = np.trace(C, axis1=1, axis2=2) ** 2 / (C**2 / pairs).sum(axis=(1, 2))
        return self._report(problem, condensed, solution, noise, freedom=freedom,
                            notes=("covariance of the rows estimated from the residuals",))

    def _report(self, problem: Problem, condensed: Condensed, solution: Solution, noise: FloatArray, *,
                freedom: FloatArray | float, white: Regression | None = None, notes: tuple[str, ...] = ()) -> Estimate:
        """Report with scores of whitened samples, where rows no longer mix."""
        rows, scores = np.ones(len(condensed.rows)), problem
        if noise.ndim == 2 and _diagonal(noise):
            rows = 1 / np.sqrt(np.diag(noise))
        elif isinstance(problem, Regression):
            scores = whiten(problem, noise) if white is None else white
        else:  # the moments of groups are per row: they hold no scatter of mixed rows
            scores = replace(problem, group_moments=None)
        return _report(problem, condensed, solution, rows, method="Gauss-Markov", mode=self.uncertainty,
                       freedom=freedom, white=solution.root @ solution.root.T, notes=notes, scores=scores,
                       noise=noise if noise.ndim == 2 else noise.mean(axis=0))


def whiten(regression: Regression, covariance: FloatArray | None = None) -> Regression:
    """Return the problem with rows whose noise is independent and of variance 1: Sigma_s = C C^T, rows C^-1 [W y].

    Block by block and condensed, this is Gauss-Markov of a long log with a known covariance.

    Args:
        regression: The problem.
        covariance: (r, r) or (t, r, r); None takes the problem's own.

    Raises:
        InvalidInput: No covariance, or one that is not positive definite.
    """
    covariance = regression.covariance if covariance is None else covariance
    if covariance is None:
        raise InvalidInput("whitening needs the covariance of the rows; the regression has none")
    t, r = regression.effort.shape
    check_shape(covariance, (r, r) if covariance.ndim == 2 else (t, r, r), "covariance of the rows")
    root = inverse_root(covariance, regression.rows)
    replicates = regression.replicates
    return replace(
        regression, regressor=root @ regression.regressor, effort=(root @ regression.effort[:, :, None])[:, :, 0],
        row_units=("1",) * r, covariance=np.eye(r),
        replicates=None if replicates is None else (root @ replicates[:, :, :, None])[:, :, :, 0],
    )


def inverse_root(covariance: FloatArray, rows: tuple[str, ...]) -> FloatArray:
    """Return C^-1 with covariance = C C^T, (r, r) or (t, r, r).

    Raises:
        InvalidInput: Not symmetric positive definite; says which row or how far.
    """
    check_finite(covariance, "covariance of the rows")
    check_shape(covariance[..., 0, :], (None, len(rows)) if covariance.ndim == 3 else (len(rows),),
                "covariance of the rows")
    size = np.sqrt(np.abs(np.diagonal(covariance, axis1=-2, axis2=-1)))
    if not (np.diagonal(covariance, axis1=-2, axis2=-1) > 0).all():
        bad = rows[int(np.argwhere(np.diagonal(covariance, axis1=-2, axis2=-1) <= 0)[0][-1])]
        raise InvalidInput(f"noise variance of row '{bad}' is not positive; expected a positive definite covariance",
                           row=bad)
    unit = covariance / (size[..., :, None] * size[..., None, :])
    if not np.allclose(unit, np.swapaxes(unit, -1, -2), rtol=0, atol=1e-9):
        raise InvalidInput("covariance of the rows is not symmetric")
    least = np.linalg.eigvalsh(unit)[..., 0]
    if least.min(initial=1.0) <= 1e-13:
        raise InvalidInput("covariance of the rows is not positive definite: its correlation matrix has the "
                           f"eigenvalue {least.min():.3g}; expected all positive", eigenvalue=float(least.min()))
    return np.asarray(np.linalg.inv(np.linalg.cholesky(unit)) / size[..., None, :])


def row_noise(condensed: Condensed, solution: Solution, sigma: FloatArray) -> FloatArray:
    """Return the noise of each row left by a solution found with noise `sigma`, (r,); see `WeightedLeastSquares`."""
    left = np.linalg.norm(condensed.factors @ solution.extended, axis=1)
    free = _row_freedom(condensed, solution, sigma)
    return np.asarray(np.maximum(left / np.sqrt(free), _floor(condensed, solution)))


def _row_freedom(condensed: Condensed, solution: Solution, sigma: FloatArray) -> FloatArray:
    """Return t - h_j, h_j the share of row j in the fitted parameters, (r,)."""
    share = np.linalg.norm(condensed.factors[:, :, :-1] @ solution.root, axis=(1, 2)) ** 2 / sigma**2
    return _redundancy(condensed.samples - share, condensed.rows)


def _pairs(free: FloatArray) -> FloatArray:
    """Return the degrees of freedom of a covariance between two rows: sqrt(f_i f_j), (r, r)."""
    return np.sqrt(np.outer(free, free))


def _diagonal(covariance: FloatArray) -> bool:
    return not np.any(covariance - np.diag(np.diag(covariance)))


def _floor(condensed: Condensed, solution: Solution) -> FloatArray:
    """Return the rounding level of each row's effort: below it a residual is no measure of noise, (r,)."""
    terms = condensed.factors * np.append(solution.values, 1.0)
    size = np.linalg.norm(terms, axis=1).max(axis=1) / np.sqrt(condensed.samples)
    return np.asarray(np.where(size > 0, 1e-12 * size, 1.0))


def _redundancy(free: FloatArray, rows: tuple[str, ...]) -> FloatArray:
    if free.min() < 0.5:
        bad = rows[int(np.argmin(free))]
        raise NotIdentifiable(f"row '{bad}' is fitted exactly by parameters of its own, so its noise cannot be found; "
                              "record longer, leave out parameters, or use LeastSquares", row=bad)
    return free


def _passes(iterations: int, tolerance: float | None) -> range:
    if iterations < 1 or (tolerance is not None and not tolerance > 0):
        raise InvalidInput(f"iterations {iterations} and tolerance {tolerance} must be positive")
    return range(iterations)


def _refuse_unless_fixed(iterations: int, tolerance: float | None) -> None:
    if tolerance is not None:
        raise NotConverged(f"row weights still change after {iterations} passes (tolerance {tolerance:g}); "
                           "is one row explained by parameters of its own? allow more iterations or use LeastSquares",
                           iterations=iterations)


def _whitened(condensed: Condensed, root: FloatArray) -> FloatArray:
    """Return a factor of the whitened rows sum_j root_ij [W_j y_j], stacked over i."""
    r, p = len(condensed.rows), len(condensed.parameters)
    if condensed.joint is None:
        return np.concatenate(condensed.factors * np.diag(root)[:, None, None])
    blocks = condensed.joint[:, : r * p].reshape(len(condensed.joint), r, p)
    wide = np.concatenate([blocks, condensed.joint[:, r * p :, None]], axis=2)
    return np.asarray(np.einsum("ij,kjc->ikc", root, wide).reshape(-1, p + 1))


def _report(problem: Problem, condensed: Condensed, solution: Solution, rows: FloatArray, *, method: str,
            mode: Uncertainty, white: FloatArray, noise: FloatArray, freedom: FloatArray | float | None = None,
            notes: tuple[str, ...] = (), scores: Problem | None = None) -> Estimate:
    """Assemble the estimate; rows are the factors (r,) that whiten the rows of `scores` (default: the problem)."""
    r, p = len(condensed.rows), len(condensed.parameters)
    pick = np.concatenate([np.eye(p), np.zeros((1, p))])
    influence = Influence(problem=problem if scores is None else scores, jacobian=rows[:, None, None] * pick,
                          residual=rows[:, None] * solution.extended, root=solution.root)
    found = spread(influence, white=white, mode=mode,
                   white_freedom=float(condensed.samples * r - p) if freedom is None else freedom)
    rms, relative, mean = residual_statistics(problem, condensed, solution.values)
    return Estimate(
        parameters=condensed.parameters, units=condensed.units, values=solution.values, covariance=found.covariance,
        rows=condensed.rows, row_units=condensed.row_units, samples=condensed.samples,
        degrees_of_freedom=found.degrees_of_freedom, condition_number=solution.condition_number, method=method,
        uncertainty=found.kind, white_std=np.sqrt(np.diag(white)), noise_covariance=noise, notes=(*notes, *found.notes),
        residual_rms=rms, residual_relative=relative, residual_mean=mean,
    )
