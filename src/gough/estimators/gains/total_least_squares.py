"""Total least squares: errors in the columns as well, for drive gains and payload (BG13 (29)-(39))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.condensed import Condensed
from gough.core.errors import InvalidInput, NotConverged, NotIdentifiable
from gough.estimators.estimate import Estimate, Source, Spread, assemble
from gough.estimators.gains.current_model import determine_gains, rough_solution
from gough.estimators.gains.gain_problem import GainProblem
from gough.estimators.gains.maximum_likelihood import MaximumLikelihoodGains
from gough.estimators.problem import factors_of
from gough.estimators.uncertainty import ENOUGH_GROUPS, STRETCHES

# Standard deviations between two answers to the same data that are not one: errors in the currents only kept 28
# recordings of two arms within 0.6, equal errors everywhere went up to 5.
APART = 1.0
STEP = 1e-3  # change of a weight: its square is small, rounding of the solution over it too


@dataclass(frozen=True, kw_only=True)
class TotalLeastSquares:
    """Find the compatible system closest to [X y]; BG13 (33)-(36).

    The solution [chi; -1] is the right singular vector of the smallest singular value of the weighted [X y], scaled so
    that its last entry is -1. Rows are weighted by their residual.

    TLS is not invariant to the scale of columns: the scale states how large the errors of each column are thought to
    be. BG13 take the columns as they are, in SI units, although payload columns are exactly zero in unloaded samples
    and the regressor has other errors than the currents. Here one chooses:

    - 'noise' (default): only the columns of the gains have errors, of the size of the current noise, residual / gain,
      at the maximum likelihood of the currents. Generalised TLS: QR of the exact columns, then the smallest singular
      vector of what is left of the gain columns, each times its gain. Free of units; consistent where each row is a
      motor. Weights that follow the solution instead draw it into a single row on some arms. To first order it is the
      likelihood's estimate, so its standard deviations are those.
    - 'none': the paper. Good as long as gains are much larger numbers than the other parameters. Standard deviations
      follow from what a little more weight of each repetition (or, with fewer than five, of each stretch) does to the
      solution, unloaded and loaded apart: resampling them instead gives draws almost without payload, whose few wild
      solutions decide. (39) of the paper, which assumes independent equal errors in all entries, is `white_std`.

    Both say where they disagree with the maximum likelihood.

    Args:
        scaling: 'noise' or 'none'.
        nominal: Gains by motor, used only for those the data cannot determine.
    """

    wants: ClassVar[str] = "gains"
    scaling: Literal["noise", "none"] = "noise"
    nominal: Mapping[str, float] = field(default_factory=dict)

    def fit(self, problem: GainProblem) -> Estimate:
        """Return gains, base and payload parameters.

        Raises:
            NotIdentifiable: Dependent columns, or gains the data cannot determine and that have no nominal value.
            InconsistentData: All gains negative: recordings swapped.
            NotConverged: There is no maximum likelihood to take weights from.
        """
        if self.scaling not in ("noise", "none"):
            raise InvalidInput(f"scaling '{self.scaling}' is not known; choose noise or none")
        return determine_gains(problem, self.nominal, self._fit)

    def _fit(self, problem: GainProblem) -> Estimate | Sequence[str]:
        condensed = factors_of(problem)
        try:
            likely = MaximumLikelihoodGains().fit_or_name(problem)
        except NotConverged:
            if self.scaling == "noise":
                raise
            likely = None
        if not isinstance(likely, Estimate | None):
            return likely
        if likely is not None and self.scaling == "noise":
            solution = _solved(condensed, likely.values, [name in problem.gains for name in problem.parameters],
                               len(problem.fixed))
            spread = Spread(covariance=likely.covariance, degrees_of_freedom=likely.degrees_of_freedom,
                            kind=likely.uncertainty, sources=likely.sources)
        else:
            solution = _solved(condensed, rough_solution(problem))  # the paper's weights are those of least squares
            spread = _spread(condensed, solution)
        notes = () if likely is None else _disagreements(problem.gains, likely, solution.values)
        return assemble(
            problem, solution.values, spread, notes=notes,
            method=f"total least squares, scaling {self.scaling}",
            condition_number=float(np.linalg.cond(solution.factor[:, :-1])),
            noise_covariance=np.diag(problem.residual(solution.values).rms ** 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class NullVector:
    """Total least squares solution.

    Args:
        values: (p,).
        sigma: What each row was divided by, (r,).
        scale: Of the columns, (c,).
        noisy: Which columns have errors, (c,).
        factor: Triangular factor of the weighted, scaled [X y], (c, c).
    """

    values: FloatArray
    sigma: FloatArray
    scale: FloatArray
    noisy: BoolArray
    factor: FloatArray


def _solved(condensed: Condensed, start: FloatArray, gains: Sequence[bool] = (), fixed: int = 0) -> NullVector:
    """Return the solution with rows weighted by what some values leave of them.

    Args:
        condensed: The problem.
        start: These values, (p,).
        gains: Which parameters are gains: only their columns have errors, of the size of these gains. All if empty.
        fixed: Number of gains taken as known, whose currents are in the effort.
    """
    if not condensed.factors[:, :, -1].any():
        raise InvalidInput("the effort, or that of the known payload, is zero everywhere")
    sigma = _row_residual(condensed, start)
    stacked = np.concatenate(condensed.factors / sigma[:, None, None])
    scale, noisy = np.ones(len(start) + 1), np.ones(len(start) + 1, dtype=bool)
    if len(gains):
        length = np.linalg.norm(stacked, axis=0)
        last = 1 / np.sqrt(fixed) if fixed else 1 / length[-1]  # the effort then carries noise of these rows
        scale = np.append(np.where(gains, np.abs(start), 1 / length[:-1]), last)
        noisy = np.append(gains, fixed > 0)
    factor = np.asarray(np.linalg.qr(stacked * scale, mode="r"))
    vector = _smallest(factor, noisy)
    if abs(vector[-1]) < 1e-12 * np.abs(vector).max():
        raise NotIdentifiable("nothing sets the scale: the effort takes no part in the closest compatible system; is "
                              "the known payload visible in the recordings?")
    values = -vector[:-1] / vector[-1] * scale[:-1] / scale[-1]
    return NullVector(values=values, sigma=sigma, scale=scale, noisy=noisy, factor=factor)


def _spread(condensed: Condensed, solution: NullVector) -> Spread:
    """Return the covariance from the influence of each stretch, or the paper's where there are none."""
    free = float(condensed.equations.sum() - len(condensed.parameters) - 1)
    paper = _paper_covariance(solution, free)
    white = Source(kind="white", std=np.sqrt(np.diag(paper)), degrees_of_freedom=np.asarray(free))
    moments = _stretch_moments(condensed)
    if moments is None:
        note = "standard deviations by BG13 (39), which assumes independent errors: too few stretches to weigh"
        return Spread(covariance=paper, degrees_of_freedom=white.degrees_of_freedom, kind="white", sources=(white,),
                      notes=(note,))
    covariance, freedom = _jackknife(moments, solution)
    kind = "period" if condensed.repeats else "stretches"
    found = Source(kind=kind, std=np.sqrt(np.diag(covariance)), degrees_of_freedom=np.asarray(freedom),
                   count=len(moments))
    return Spread(covariance=covariance, degrees_of_freedom=found.degrees_of_freedom, kind=kind,
                  sources=(white, found), notes=(
                      f"standard deviations from what each of {len(moments)} stretches does to the solution",))


def _row_residual(condensed: Condensed, values: FloatArray) -> FloatArray:
    """Return the rms residual of each row, not below rounding, (r,)."""
    n = np.append(values, -1.0)
    many = np.sqrt(np.maximum(condensed.counts, 1))
    left = np.linalg.norm(condensed.factors @ n, axis=1) / many
    size = np.linalg.norm(condensed.factors * n, axis=1).max(axis=1) / many
    return np.asarray(np.maximum(left, np.where(size > 0, 1e-12 * size, 1.0)))


def _smallest(factor: FloatArray, noisy: BoolArray) -> FloatArray:
    """Return the vector of unit length on the noisy columns that the matrix shrinks most, (c,)."""
    if noisy.all():
        return np.asarray(np.linalg.svd(factor)[2][-1])
    exact = int((~noisy).sum())
    triangle = np.asarray(np.linalg.qr(np.hstack([factor[:, ~noisy], factor[:, noisy]]), mode="r"))
    vector = np.empty(len(noisy))
    vector[noisy] = np.linalg.svd(triangle[exact:, exact:])[2][-1]
    vector[~noisy] = -np.linalg.solve(triangle[:exact, :exact], triangle[:exact, exact:] @ vector[noisy])
    return vector


def _paper_covariance(solution: NullVector, free: float) -> FloatArray:
    """Return BG13 (39): sigma_W^2 (1 + |chi|^2) (W^hat^T W^hat)^-1 over the first c - 1 columns, (p, p).

    With n = [chi; -1] in scaled coordinates, sigma_W^2 (1 + |chi|^2) = |Wtot n|^2 / free by (38), and the closest
    compatible matrix is Wtot - Wtot n m^T / m^T m, m being n on the columns with errors (all of them in the paper).
    """
    n = np.append(solution.values, -1.0) / solution.scale
    residual, m = solution.factor @ n, np.where(solution.noisy, n, 0.0)
    compatible = solution.factor - np.outer(residual, m) / (m @ m)
    half = np.linalg.pinv(compatible[:, :-1]) * solution.scale[:-1, None]
    return np.asarray(half @ half.T * (residual @ residual / free))


def _stretch_moments(condensed: Condensed) -> FloatArray | None:
    """Return [X y]^T [X y] of stretches, (g, r, c, c): groups if there are enough, else stretches."""
    if condensed.pieces is None:
        return None
    moments = condensed.pieces.transpose(0, 1, 3, 2) @ condensed.pieces
    if not condensed.repeats:
        labels = condensed.stretches(STRETCHES)
        moments = np.stack([moments[labels == label].sum(axis=0) for label in np.unique(labels)])
    enough = len(moments) >= ENOUGH_GROUPS and min(len(part) for part in _strata(moments)) > 1
    return moments if enough else None


def _strata(moments: FloatArray) -> list[IntArray]:
    """Return the stretches without and with payload (zero and non-zero right-hand side), those that exist."""
    loaded = moments[:, :, -1, -1].sum(axis=1) > 0
    return [part for part in (np.flatnonzero(~loaded), np.flatnonzero(loaded)) if len(part)]


def _disagreements(gains: Sequence[str], likely: Estimate, values: FloatArray) -> tuple[str, ...]:
    """Say which gains differ from those of maximum likelihood by more than a standard deviation."""
    return tuple(f"{name} is {value:.4g} by total least squares and {likely[name]:.4g} by maximum likelihood, which "
                 "does not depend on how columns are scaled: trust the latter"
                 for name, value, std in zip(likely.parameters, values, likely.std)
                 if name in gains and abs(value - likely[name]) > APART * std)


def _jackknife(moments: FloatArray, solution: NullVector) -> tuple[FloatArray, float]:
    """Return the covariance from the influence of each stretch on the solution, and its degrees of freedom.

    Stretch k of the g of a stratum weighs 1 +- h; psi_k = (chi(1 + h) - chi(1 - h)) / 2h is its influence, and the
    covariance g / (g - 1) sum_k (psi_k - mean) (psi_k - mean)^T. Row weights and column scales stay those of the whole.
    """
    count = len(moments)
    weights = 1.0 + STEP * np.concatenate([np.eye(count), -np.eye(count)])
    whole = np.einsum("grcd,r->gcd", moments, 1 / solution.sigma**2) * np.outer(solution.scale, solution.scale)
    gram = np.tensordot(weights, whole, axes=1)  # (2 g, c, c)
    vector = np.linalg.eigh(gram)[1][:, :, 0]
    values = -vector[:, :-1] / vector[:, -1:] * solution.scale[:-1] / solution.scale[-1]
    influence, covariance, freedom = (values[:count] - values[count:]) / (2 * STEP), 0.0, 0
    for part in _strata(moments):
        own = influence[part] - influence[part].mean(axis=0)
        covariance = covariance + own.T @ own * len(part) / (len(part) - 1)
        freedom += len(part) - 1
    return np.atleast_2d(covariance), float(freedom)
