"""Score tests: is what a fit leaves unexplained a multiple of some column nobody fitted?

Let Q span the regressor and e be the residual. A column d that the model lacks would take
the part of e along what the regressor cannot mimic,

    d_free = d - Q Q^T d,    size = d_free . e / |d_free|^2,    share = (d_free . e)^2 /
    (|d_free|^2 |e|^2).

Residuals of real logs are autocorrelated and hold model error, so sigma is not that of
white noise. The equations are cut into contiguous stretches and everything is solved again
without each of them (a jackknife, exact on the small matrices kept here); where repetitions
of the motion show the noise itself, sigma is at least what they say. The same matrices
predict each stretch from the others: what a column really buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.record import Record
from gough.core.statistics import f_tail

# contiguous pieces of the data left out in turn; tried on six real robots (design, section 7)
STRETCHES = 20
LEAST_SEEN = 1e-6  # |d_free|^2 / |d|^2 below which a column cannot be told from the regressor's
WHOLE = 1e-6  # a stretch that holds all but this share of a direction determines it alone
PROBABLE = 0.01  # chance of any false name among all columns tried


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreProblem(Record):
    """Equations divided by their noise, a regressor and columns that it may lack."""

    regressor: FloatArray  # (n, p)
    target: FloatArray  # effort, (n,)
    columns: FloatArray  # what may be missing, (n, k)
    stretch: IntArray  # which contiguous piece an equation belongs to, 0 ... g - 1, (n,)
    # as repetitions show them, (m, n): their squares add up to the noise variance
    deviations: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.target)
        if (
            self.regressor.shape[:1] != (n,)
            or self.columns.shape[:1] != (n,)
            or self.stretch.shape != (n,)
        ):
            raise InvalidInput(
                f"score tests of {n} equations got {len(self.regressor)} of the regressor, "
                f"{len(self.columns)} of the columns and {len(self.stretch)} labels"
            )
        if len(np.unique(self.stretch)) < 3:
            raise InvalidInput(
                "score tests need at least three stretches of data",
                stretches=len(self.stretch),
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """Sizes of k columns fitted together."""

    size: FloatArray  # (k,) [per unit of the columns]
    covariance: FloatArray  # jackknife over stretches, at least what repetitions show, (k, k)
    probability: float  # chance of sizes this large if the columns are not missing
    share: float  # of the residual's power explained [1]
    gain: float  # fall of the error on stretches left out, 1 - after / before in power [1]
    inflation: (
        float  # variance of the sizes by noise over that under white noise of the rows, at least 1
    )

    @property
    def sigma(self) -> FloatArray:
        """Standard deviations, (k,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


class Scores:
    """Score tests of many columns against one fit, from matrices of the columns, stretch by
    stretch.
    """

    def __init__(self, problem: ScoreProblem) -> None:
        W, D, y = problem.regressor, problem.columns, problem.target
        length, lengths = (
            np.linalg.norm(W, axis=0),
            np.maximum(np.linalg.norm(D, axis=0), 1e-300),
        )
        unit = W / np.where(length > 0, length, 1.0)
        Q, every = _range(unit), np.column_stack([D, y])
        self._equations = len(y)
        self._lengths = np.where(length > 0, length, np.inf), lengths
        self._mimic = np.linalg.pinv(unit.T @ unit, rcond=1e-12, hermitian=True) @ (
            unit.T @ (D / lengths)
        )
        free = every - Q @ (Q.T @ every)
        free -= Q @ (Q.T @ free)
        power = (free**2).sum(axis=0)
        self.seen = power[:-1] / np.maximum((D**2).sum(axis=0), 1e-300)
        """Part of each column's power that the regressor cannot mimic, (k,)."""
        self._scale = np.sqrt(np.maximum(power, 1e-300))
        free = np.where(np.append(self.seen > LEAST_SEEN, True), free / self._scale, 0.0)
        labels = np.unique(problem.stretch, return_inverse=True)[1]
        self.stretches, self._rank = int(labels.max()) + 1, Q.shape[1]
        parts = [labels == b for b in range(self.stretches)]
        both = (
            np.column_stack([Q[part], free[part]]) for part in parts
        )  # Q and Z: free columns with the residual
        self._grams = np.stack([block.T @ block for block in both])  # of each stretch
        self._total = self._grams[:, self._rank :, self._rank :].sum(axis=0)  # Z^T Z
        self._target = max(float(np.linalg.norm(y)), 1e-300)
        self.repetitions = 0 if problem.deviations is None else len(problem.deviations)
        self._noise = (
            None
            if problem.deviations is None
            else np.concatenate(  # column x deviation, (m g, k)
                [problem.deviations[:, part] @ free[part, :-1] for part in parts]
            )
        )

    @cached_property
    def _left_out(self) -> tuple[FloatArray, FloatArray]:
        """Z^T Z without each stretch, the regressor projected out again; the same of predicting it,
        (g, k + 1, k + 1).

        Without stretch b the regressor takes Q M_b^-1 Q_b^T Z_b, M_b = 1 - Q_b^T Q_b, so
        that in it Z_b + Q_b M_b^-1 Q_b^T Z_b is left. Directions that one stretch
        determines alone (M = 0) are left out.
        """
        p = self._rank
        spanned, mixed, inside = (
            self._grams[:, :p, :p],
            self._grams[:, :p, p:],
            self._grams[:, p:, p:],
        )
        values, vectors = np.linalg.eigh(np.eye(p) - spanned)
        inverse = np.where(values > WHOLE, 1 / np.maximum(values, WHOLE), 0.0)
        lifted = vectors @ (inverse[:, :, None] * (vectors.transpose(0, 2, 1) @ mixed))
        cross = mixed.transpose(0, 2, 1) @ lifted
        unseen = (
            inside + cross + cross.transpose(0, 2, 1) + lifted.transpose(0, 2, 1) @ spanned @ lifted
        )
        return self._total - inside - cross, unseen

    def fit(self, columns: Sequence[int], given: Sequence[int] = ()) -> Fitted:
        """Return sizes of some columns fitted together, with others given in the model."""
        use, g, k = [*columns, *given], self.stretches, len(columns)
        sizes, each = _sizes(self._total, use), _sizes(self._left_out[0], use)
        spread = (
            (g - 1) / g * np.einsum("gi,gj->ij", each - each.mean(axis=0), each - each.mean(axis=0))
        )
        weight = np.diagonal(self._grams, axis1=1, axis2=2)[:, self._rank :][:, use]
        share = weight / np.maximum(weight.sum(axis=0), 1e-300)
        pieces = np.clip(1 / np.maximum((share**2).sum(axis=0), 1e-300), 1.0, g)[
            :k
        ].min()  # that really tell
        white = np.linalg.pinv(self._total[np.ix_(use, use)], rcond=1e-9, hermitian=True)
        spread = noisy = _shaped(spread, white)
        freedom = pieces - 1
        if self._noise is not None:
            known = (
                white @ (self._noise[:, use].T @ self._noise[:, use]) @ white / self._scale[-1] ** 2
            )
            noisy, freedom = (
                _shaped(known, white),
                (self.repetitions - 1) * pieces,
            )
            factor = np.sqrt(np.maximum(np.diag(noisy) / np.maximum(np.diag(spread), 1e-300), 1.0))
            spread = spread * np.outer(factor, factor)
        power, inflation = (
            self.power(given),
            np.diag(noisy)[:k] / np.maximum(np.diag(white)[:k], 1e-300),
        )
        before, after = (float(self.left_out_squares(some).sum()) for some in (given, use))
        unit = self._scale[-1] / self._scale[:-1][use]
        return Fitted(
            size=(sizes * unit)[:k],
            covariance=(spread * np.outer(unit, unit))[:k, :k],
            probability=_chance(sizes[:k], noisy[:k, :k], freedom),
            share=(power - self.power(use)) / max(power, 1e-300),
            gain=1 - after / max(before, 1e-300),
            inflation=max(1.0, float(np.mean(inflation) * self._scale[-1] ** 2)),
        )

    def sigma(self, column: int, *, white: bool = False) -> float:
        """Return the standard deviation of a column's size by noise: 1 if white, else as
        repetitions or the fit say.
        """
        free = self._scale[column]
        if white:
            return float(1 / free)
        if self._noise is not None:
            return float(np.sqrt((self._noise[:, column] ** 2).sum()) / free)
        return float(self._scale[-1] / np.sqrt(max(self._equations - self._rank, 1)) / free)

    def mimicked(self, column: int) -> FloatArray:
        """Return how much of a column each parameter's own column makes up, (p,): coefficient times
        length. [1]
        """
        return np.asarray(self._mimic[:, column])

    def taken_in(self, column: int) -> FloatArray:
        """Return by how much each parameter changes for a unit of a column that is not in the
        model, (p,).
        """
        return np.asarray(self._mimic[:, column] * self._lengths[1][column] / self._lengths[0])

    def power(self, given: Sequence[int] = ()) -> float:
        """Return the squares of what the regressor and some columns leave of the whitened
        target.
        """
        total, use = self._total, list(given)
        return float((total[-1, -1] - _sizes(total, use) @ total[use, -1]) * self._scale[-1] ** 2)

    def left_out_squares(self, given: Sequence[int] = ()) -> FloatArray:
        """Return the squares of predicting each stretch from the others, columns in the model,
        (g,).
        """
        (rest, unseen), use = self._left_out, list(given)
        at, s = (
            [*use, -1],
            np.append(-_sizes(rest, use), np.ones((len(rest), 1)), axis=1),
        )
        return np.asarray(
            np.einsum("gi,gij,gj->g", s, unseen[:, at][:, :, at], s) * self._scale[-1] ** 2
        )

    def left_out_error(self, given: Sequence[int] = ()) -> float:
        """Return the error of predicting each stretch from the others over the target, columns in
        the model. [1]
        """
        return float(np.sqrt(self.left_out_squares(given).sum()) / self._target)


def _sizes(S: FloatArray, use: list[int]) -> FloatArray:
    """Return the sizes of columns from Z^T Z (..., k + 1, k + 1) with the regressor projected out,
    (..., k).
    """
    inside = np.linalg.pinv(S[..., use, :][..., use], rcond=1e-9, hermitian=True)
    return np.asarray(np.einsum("...ij,...j->...i", inside, S[..., use, -1]))


def _shaped(covariance: FloatArray, white: FloatArray) -> FloatArray:
    """Return a covariance with its own variances and white noise's correlations: twenty stretches
    give no more.
    """
    ratio = np.sqrt(np.maximum(np.diag(covariance), 0.0) / np.maximum(np.diag(white), 1e-300))
    return np.asarray(white * np.outer(ratio, ratio))


def _chance(size: FloatArray, covariance: FloatArray, freedom: float) -> float:
    """Return the chance of sizes this large by noise alone: Hotelling's T^2 as F(k, freedom)."""
    k = len(size)
    if not np.isfinite(covariance).all():
        return 1.0
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    shape = covariance / np.outer(scale, scale)
    square = float(
        size / scale @ np.linalg.pinv(shape, rcond=1e-6, hermitian=True) @ (size / scale)
    )
    return f_tail(square / k, k, max(freedom, 1.0))


def _range(W: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the columns of W, dependent ones left out."""
    if not W.shape[1]:
        return np.zeros((len(W), 0))
    Q, R = np.linalg.qr(W)
    u, s, _ = np.linalg.svd(R)
    return np.asarray(Q @ u[:, s > 1e-10 * s[0]])


def cut_stretches(samples: Sequence[int], count: int = STRETCHES) -> list[IntArray]:
    """Return a stretch label for every sample of some logs, about `count` in all, none across a
    log's border.
    """
    total, first, labels = sum(samples), 0, []
    for n in samples:
        own = max(1, min(n, round(count * n / max(total, 1))))
        labels.append(first + np.arange(n) * own // max(n, 1))
        first += own
    return labels
