"""Score tests: is what a fit leaves unexplained a multiple of some column nobody fitted?

Let Q span the regressor and e be the residual. A column d that the model lacks would take the part of e along what
the regressor cannot mimic,

    d_free = d - Q Q^T d,    size = d_free . e / |d_free|^2,    share = (d_free . e)^2 / (|d_free|^2 |e|^2).

Residuals of real logs are autocorrelated and hold model error, so sigma is not that of white noise. The equations are
cut into contiguous stretches and everything is solved again without each of them (a jackknife, exact on the small
matrices kept here); where repetitions of the motion show the noise itself, sigma is at least what they say.
The same matrices predict each stretch from the others: what a column really buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray, IntArray, Value
from gough.core.errors import InvalidInput
from gough.core.statistics import f_tail

STRETCHES = 20  # contiguous pieces of the data left out in turn; tried on six real robots (design, section 7)
LEAST_SEEN = 1e-6  # |d_free|^2 / |d|^2 below which a column cannot be told from the regressor's
WHOLE = 1e-6  # a stretch that holds all but this share of a direction determines it alone
PROBABLE = 0.01  # chance of any false name among all columns tried


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreProblem(Value):
    """Equations divided by their noise, a regressor and columns that it may lack."""

    regressor: FloatArray  # (n, p)
    target: FloatArray  # effort, (n,)
    columns: FloatArray  # what may be missing, (n, k)
    stretch: IntArray  # which contiguous piece an equation belongs to, 0 ... g - 1, (n,)
    deviations: FloatArray | None = None  # as repetitions show them, (m, n): their squares add up to the noise variance

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.target)
        if self.regressor.shape[:1] != (n,) or self.columns.shape[:1] != (n,) or self.stretch.shape != (n,):
            raise InvalidInput(f"score tests of {n} equations got {len(self.regressor)} of the regressor, "
                               f"{len(self.columns)} of the columns and {len(self.stretch)} labels")
        if len(np.unique(self.stretch)) < 3:
            raise InvalidInput("score tests need at least three stretches of data", stretches=len(self.stretch))


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """Sizes of k columns fitted together."""

    size: FloatArray  # (k,) [per unit of the columns]
    covariance: FloatArray  # jackknife over stretches, at least what repetitions show, (k, k)
    probability: float  # chance of sizes this large if the columns are not missing
    share: float  # of the residual's power explained [1]
    gain: float  # fall of the error on stretches left out, 1 - after / before in power [1]
    inflation: float  # variance of the sizes by noise over that under white noise of the rows, at least 1

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (k,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def _chance(size: FloatArray, covariance: FloatArray, freedom: float) -> float:
    """Return the chance of sizes this large by noise alone: Hotelling's T^2 as F(k, freedom)."""
    k = len(size)
    if not np.isfinite(covariance).all():
        return 1.0
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    shape = covariance / np.outer(scale, scale)
    square = float(size / scale @ np.linalg.pinv(shape, rcond=1e-6, hermitian=True) @ (size / scale))
    return f_tail(square / k, k, max(freedom, 1.0))


class Scores:
    """Score tests of many columns against one fit, from matrices of the columns, stretch by stretch."""

    def __init__(self, problem: ScoreProblem) -> None:
        W, D, y = problem.regressor, problem.columns, problem.target
        length, lengths = np.linalg.norm(W, axis=0), np.maximum(np.linalg.norm(D, axis=0), 1e-300)
        unit = W / np.where(length > 0, length, 1.0)
        Q, both = _range(unit), np.column_stack([D, y])
        self._equations = len(y)
        self._lengths = np.where(length > 0, length, np.inf), lengths
        self._mimic = np.linalg.pinv(unit.T @ unit, rcond=1e-12, hermitian=True) @ (unit.T @ (D / lengths))
        free = both - Q @ (Q.T @ both)
        free -= Q @ (Q.T @ free)
        size = np.maximum((both**2).sum(axis=0), 1e-300)
        self.seen = (free**2).sum(axis=0)[:-1] / size[:-1]
        """Part of each column's power that the regressor cannot mimic, (k,)."""
        self._scale = np.sqrt(np.maximum((free**2).sum(axis=0), 1e-300))
        visible = self.seen > LEAST_SEEN
        free[:, :-1] = np.where(visible, free[:, :-1] / self._scale[:-1], 0.0)
        free[:, -1] /= self._scale[-1]
        labels = np.unique(problem.stretch, return_inverse=True)[1]
        self.stretches = int(labels.max()) + 1
        k, p = D.shape[1], Q.shape[1]
        self._within = np.empty((self.stretches, k + 1, k + 1))  # Z_b^T Z_b of the free columns and the residual
        self._mixed = np.empty((self.stretches, p, k + 1))  # Q_b^T Z_b
        self._spanned = np.empty((self.stretches, p, p))  # Q_b^T Q_b
        for b in range(self.stretches):
            Z, q = free[labels == b], Q[labels == b]
            self._within[b], self._mixed[b], self._spanned[b] = Z.T @ Z, q.T @ Z, q.T @ q
        self._target = max(float(np.linalg.norm(y)), 1e-300)
        self.repetitions = 0 if problem.deviations is None else len(problem.deviations)
        self._noise = None if problem.deviations is None else np.concatenate(  # column x deviation, (m g, k)
            [problem.deviations[:, labels == b] @ free[labels == b, :-1] for b in range(self.stretches)])

    @cached_property
    def _left_out(self) -> tuple[FloatArray, FloatArray]:
        """Z^T Z without each stretch, the regressor projected out again; the same of predicting it, (g, k + 1, k + 1).

        Without stretch b the regressor takes Q M_b^-1 Q_b^T Z_b, M_b = 1 - Q_b^T Q_b, so that in it
        Z_b + Q_b M_b^-1 Q_b^T Z_b is left.
        """
        total, eye = self._within.sum(axis=0), np.eye(self._spanned.shape[1])
        rest, unseen = np.empty_like(self._within), np.empty_like(self._within)
        for b, (G, C, inside) in enumerate(zip(self._spanned, self._mixed, self._within)):
            lifted = _solve_soft(eye - G, C)
            cross = C.T @ lifted
            rest[b] = total - inside - cross
            unseen[b] = inside + cross + cross.T + lifted.T @ G @ lifted
        return rest, unseen

    def fit(self, columns: Sequence[int], given: Sequence[int] = ()) -> Fitted:
        """Return sizes of some columns fitted together, with others given in the model."""
        use = [*columns, *given]
        total = self._within.sum(axis=0)
        sizes, base = self._solve(total, use), self._solve(total, list(given))
        each = self._solve(self._left_out[0], use)
        g, k = self.stretches, len(columns)
        spread = (g - 1) / g * np.einsum("gi,gj->ij", each - each.mean(axis=0), each - each.mean(axis=0))
        weight = np.stack([np.diag(W)[use] for W in self._within])
        share = weight / np.maximum(weight.sum(axis=0), 1e-300)
        pieces = np.clip(1 / np.maximum((share**2).sum(axis=0), 1e-300), 1.0, g)[:k].min()  # that really tell
        white = np.linalg.pinv(total[np.ix_(use, use)], rcond=1e-9, hermitian=True)
        spread = _shaped(spread, white)
        chance, noisy = _chance(sizes[:k], spread[:k, :k], pieces - 1), spread
        if self._noise is not None:
            known = white @ (self._noise[:, use].T @ self._noise[:, use]) @ white / self._scale[-1] ** 2
            known = noisy = _shaped(known, white)
            chance = _chance(sizes[:k], known[:k, :k], (self.repetitions - 1) * pieces)
            factor = np.sqrt(np.maximum(np.diag(known) / np.maximum(np.diag(spread), 1e-300), 1.0))
            spread = spread * np.outer(factor, factor)
        before, after = self._predicted(list(given)).sum(), self._predicted(use).sum()
        unit = self._scale[-1] / self._scale[:-1][use]
        power = total[-1, -1] - base @ total[list(given), -1]
        explained = power - (total[-1, -1] - sizes @ total[use, -1])
        return Fitted(size=(sizes * unit)[:k], covariance=(spread * np.outer(unit, unit))[:k, :k], probability=chance,
                      share=float(explained / max(power, 1e-300)), gain=float(1 - after / max(before, 1e-300)),
                      inflation=max(1.0, float(np.mean(np.diag(noisy)[:k] / np.maximum(np.diag(white)[:k], 1e-300))
                                               * self._scale[-1] ** 2)))

    def sigma(self, column: int, *, white: bool = False) -> float:
        """Return the standard deviation of a column's size by noise: 1 if white, else as repetitions or the fit say."""
        free = self._scale[column]
        if white:
            return float(1 / free)
        if self._noise is not None:
            return float(np.sqrt((self._noise[:, column] ** 2).sum()) / free)
        return float(self._scale[-1] / np.sqrt(max(self._equations - self._spanned.shape[1], 1)) / free)

    def mimicked(self, column: int) -> FloatArray:
        """Return how much of a column each parameter's own column makes up, (p,): coefficient times length. [1]"""
        return np.asarray(self._mimic[:, column])

    def taken_in(self, column: int) -> FloatArray:
        """Return by how much each parameter changes for a unit of a column that is not in the model, (p,)."""
        return np.asarray(self._mimic[:, column] * self._lengths[1][column] / self._lengths[0])

    def power(self, given: Sequence[int] = ()) -> float:
        """Return the squares of what the regressor and some columns leave of the whitened target."""
        total, use = self._within.sum(axis=0), list(given)
        return float((total[-1, -1] - self._solve(total, use) @ total[use, -1]) * self._scale[-1] ** 2)

    def left_out_error(self, given: Sequence[int] = ()) -> float:
        """Return the error of predicting each stretch from the others over the target, columns in the model. [1]"""
        return float(np.sqrt(self.left_out_squares(given).sum()) / self._target)

    def left_out_squares(self, given: Sequence[int] = ()) -> FloatArray:
        """Return the squares of predicting each stretch from the others, columns in the model, (g,)."""
        return np.asarray(self._predicted(list(given)) * self._scale[-1] ** 2)

    @staticmethod
    def _solve(S: FloatArray, use: list[int]) -> FloatArray:
        """Return the sizes of columns from Z^T Z (..., k + 1, k + 1) with the regressor projected out, (..., k)."""
        inside = np.linalg.pinv(S[..., use, :][..., use], rcond=1e-9, hermitian=True)
        return np.asarray(np.einsum("...ij,...j->...i", inside, S[..., use, -1]))

    def _predicted(self, use: list[int]) -> FloatArray:
        """Return the squared error on each stretch by a fit to the others, (g,)."""
        rest, unseen = self._left_out
        at, s = [*use, -1], np.append(-self._solve(rest, use), np.ones((len(rest), 1)), axis=1)
        return np.asarray(np.einsum("gi,gij,gj->g", s, unseen[:, at][:, :, at], s))


def _shaped(covariance: FloatArray, white: FloatArray) -> FloatArray:
    """Return a covariance with its own variances and white noise's correlations: twenty stretches give no more."""
    ratio = np.sqrt(np.maximum(np.diag(covariance), 0.0) / np.maximum(np.diag(white), 1e-300))
    return np.asarray(white * np.outer(ratio, ratio))


def _range(W: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the columns of W, dependent ones left out."""
    if not W.shape[1]:
        return np.zeros((len(W), 0))
    Q, R = np.linalg.qr(W)
    u, s, _ = np.linalg.svd(R)
    return np.asarray(Q @ u[:, s > 1e-10 * s[0]])


def _solve_soft(M: FloatArray, C: FloatArray) -> FloatArray:
    """Return M^-1 C for 0 <= M <= 1, leaving out directions that one stretch determines alone (M = 0)."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    inverse = np.where(values > WHOLE, 1 / np.maximum(values, WHOLE), 0.0)
    return np.asarray(vectors @ (inverse[:, None] * (vectors.T @ C)))


def cut_stretches(samples: Sequence[int], count: int = STRETCHES) -> list[IntArray]:
    """Return a stretch label for every sample of some logs, about `count` in all, none across a log's border."""
    total, first, labels = sum(samples), 0, []
    for n in samples:
        own = max(1, min(n, round(count * n / max(total, 1))))
        labels.append(first + np.arange(n) * own // max(n, 1))
        first += own
    return labels
