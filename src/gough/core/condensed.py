"""A linear problem reduced to factors: all that linear estimators need of a log, however long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray, Value, check_finite, check_shape, check_shapes
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named

if TYPE_CHECKING:
    from gough.core.regression import Regression


@dataclass(frozen=True, kw_only=True, eq=False)
class Residual:
    """What parameter values leave unexplained of the equations that count.

    Args:
        rms: Per row, (r,). [row unit]
        relative: rms residual / rms effort, (r,); infinite where there is no effort. [1]
        mean: Effort minus prediction, (r,). [row unit]
        samples: Samples behind it.
        counts: How many of them count in each row, (r,).
    """

    rms: FloatArray
    relative: FloatArray
    mean: FloatArray
    samples: int
    counts: IntArray

    @classmethod
    def of(cls, left: FloatArray, effort: FloatArray, sums: FloatArray, samples: int, counts: IntArray) -> Residual:
        """Return the statistics from the lengths of residual and effort and the sum of the residual, (r,) each."""
        many = np.maximum(counts, 1)
        relative = np.divide(left, effort, out=np.full_like(left, np.inf), where=effort > 0)
        return cls(rms=left / np.sqrt(many), relative=relative, mean=sums / many, samples=samples, counts=counts)


def patterns(mask: BoolArray | None, shape: tuple[int, int]) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows that count together and the samples where they do; samples without any are left out."""
    if mask is None or mask.all():
        yield np.arange(shape[1]), np.arange(shape[0])
        return
    kinds, which = np.unique(mask, axis=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        if kind.any():
            yield np.flatnonzero(kind), np.flatnonzero(which.reshape(-1) == k)


def inverse_root(covariance: FloatArray, rows: tuple[str, ...]) -> FloatArray:
    """Return C^-1 with covariance = C C^T, (r, r) or (t, r, r).

    C = diag(std) U sqrt(L) U^T with the correlation U L U^T: whitened rows belong to rows, in whatever order these are.
    """
    check_finite(covariance, "covariance of the rows")
    check_shape(covariance[..., 0, :], (None, len(rows)) if covariance.ndim == 3 else (len(rows),),
                "covariance of the rows")
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    if not (variance > 0).all():
        bad = rows[int(np.argwhere(variance <= 0)[0][-1])]
        raise InvalidInput(f"noise variance of row '{bad}' is not positive; expected a positive definite covariance",
                           row=bad)
    size = np.sqrt(variance)
    unit = covariance / (size[..., :, None] * size[..., None, :])
    if not np.allclose(unit, np.swapaxes(unit, -1, -2), rtol=0, atol=1e-9):
        raise InvalidInput("covariance of the rows is not symmetric")
    values, vectors = np.linalg.eigh(unit)
    least = values[..., 0]
    if least.min(initial=1.0) <= 1e-13:
        raise InvalidInput("covariance of the rows is not positive definite: its correlation matrix has the "
                           f"eigenvalue {least.min():.3g}; expected all positive", eigenvalue=float(least.min()))
    turned = vectors / np.sqrt(values)[..., None, :]
    return np.asarray(turned @ np.swapaxes(vectors, -1, -2) / size[..., None, :])


def whiten(data: FloatArray, covariance: FloatArray, mask: BoolArray | None, rows: tuple[str, ...]) -> FloatArray:
    """Return C_s^-1 data_s with covariance_s = C_s C_s^T, (t, r, c); zeros where an equation does not count.

    The covariance is (r, r) or (t, r, r); where rows of a sample do not count, that of the others is taken.
    """
    result = np.zeros_like(data)
    for present, where in patterns(mask, data.shape[:2]):
        own = covariance[np.ix_(where, present, present)] if covariance.ndim == 3 else (
            covariance[np.ix_(present, present)])
        place = np.ix_(where, present)
        result[place] = inverse_root(own, tuple(rows[j] for j in present)) @ data[place]
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint(Value):
    """The rows side by side, of samples in one piece where the same rows, `present` (m,), count.

    The data (k, r, p + 1) are anything with the Gram matrix of [W y] of all rows; zeros for rows that do not count.
    """

    piece: int
    present: IntArray
    samples: int
    data: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Condensed(Value):
    """A regression reduced to factors with the Gram matrix of its data: all that linear estimators need.

    Args:
        factors: Of [W_j y_j] for each row j, (r, k, p + 1).
        samples: Samples condensed.
        counts: Samples of each row that count, (r,).
        sums: Sums of [W_j y_j] over the samples, (r, p + 1), or None once whitened.
        pieces: The factors of consecutive pieces, (u, r, k, p + 1). Leaving some out shows what the estimate hangs on.
        lengths, recording: Samples and recording of each piece, (u,).
        repeats: The pieces are whole repetitions of one motion (periods), so what differs between them is noise.
        joint: The rows side by side, by piece and by which rows count, or None. Gauss-Markov with a full covariance
            needs them.
        rows, row_units, parameters, units: As in `Regression`.
    """

    factors: FloatArray
    samples: int
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    counts: IntArray
    sums: FloatArray | None
    pieces: FloatArray
    lengths: IntArray
    recording: IntArray
    repeats: bool
    joint: tuple[Joint, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", named(self.parameters, self.units))
        check_shapes(self, factors=(len(self.rows), None, len(self.parameters) + 1))

    @property
    def covariance(self) -> None:
        """Of the effort noise; not kept. Whiten the blocks before condensing them if it is known."""

    @property
    def equations(self) -> IntArray:
        """Equations of each row that say something: none of a row that is zero throughout, (r,)."""
        return np.where(self.factors.any(axis=(1, 2)), self.counts, 0)

    def stretches(self, count: int) -> IntArray:
        """Return a label for each piece such that there are about so many contiguous stretches, (u,)."""
        labels = np.empty(len(self.recording), np.int64)
        last = 0
        for recording in np.unique(self.recording):
            own = np.flatnonzero(self.recording == recording)
            share = round(count * self.lengths[own].sum() / max(self.samples, 1))
            parts = int(np.clip(share, 1, len(own)))
            labels[own] = last + np.arange(len(own)) * parts // len(own)
            last += parts
        return labels

    def select(self, parameters: Sequence[str]) -> Condensed:
        """Keep some parameters, in the given order; the others are taken as zero."""
        columns = [index_of(self.parameters, name) for name in parameters]
        keep = [*columns, len(self.parameters)]
        return self._mapped(lambda data: data[..., keep], parameters, [self.units[i] for i in columns])

    def transform(self, matrix: FloatArray, parameters: Sequence[str], units: Sequence[str]) -> Condensed:
        """Return the problem with [W y] @ matrix in the place of [W y]; see `Regression.transform`."""
        return self._mapped(lambda data: np.asarray(data @ matrix), parameters, units)

    def _mapped(self, change: Callable[[FloatArray], FloatArray], parameters: Sequence[str], units: Sequence[str],
                ) -> Condensed:
        return replace(
            self, factors=change(self.factors), pieces=change(self.pieces), parameters=named(parameters, units),
            units=tuple(units), sums=None if self.sums is None else change(self.sums),
            joint=None if self.joint is None else tuple(replace(j, data=change(j.data)) for j in self.joint))

    @cached_property
    def patterns(self) -> tuple[Joint, ...]:
        """The rows side by side, one factor for each set of rows that count together, over all pieces."""
        if self.joint is None:
            raise InvalidInput("a full covariance between rows needs the factor of all rows side by side; condense "
                               "with joint=True, or fit the regression itself")
        found: dict[bytes, list[Joint]] = {}
        for part in self.joint:
            found.setdefault(part.present.tobytes(), []).append(part)
        return tuple(
            Joint(piece=0, present=same[0].present, samples=sum(part.samples for part in same),
                  data=side_by_side(np.concatenate([part.data for part in same]), same[0].present))
            for same in found.values())

    def whitened(self, covariance: FloatArray) -> Condensed:
        """Return the problem with rows whose noise is independent and of variance 1; see `Regression.whitened`."""
        r = len(self.rows)
        if covariance.ndim == 3:
            raise InvalidInput("a covariance per sample needs the samples; whiten the blocks before condensing them "
                               "(`Regression.whitened`) and fit with the identity as covariance")
        check_shape(covariance, (r, r), "covariance of the rows")
        if not np.any(covariance - np.diag(np.diag(covariance))):
            scale = np.diag(inverse_root(covariance, self.rows))[:, None, None]
            return replace(self, factors=self.factors * scale, pieces=self.pieces * scale, joint=None, sums=None,
                           row_units=("1",) * r)
        pieces: dict[int, list[FloatArray]] = {}
        roots: dict[bytes, FloatArray] = {}
        for part in self.joint or self.patterns:
            key = part.present.tobytes()
            if key not in roots:
                roots[key] = np.zeros((r, r))
                place = np.ix_(part.present, part.present)
                roots[key][place] = inverse_root(covariance[place], tuple(self.rows[j] for j in part.present))
            pieces.setdefault(part.piece, []).append(np.einsum("ij,kjc->ikc", roots[key], part.data))
        every = padded([np.concatenate(pieces.get(u, [np.zeros((r, 0, len(self.parameters) + 1))]), axis=1)
                        for u in range(len(self.pieces))])
        return replace(self, factors=total(every), pieces=every, joint=None, sums=None, row_units=("1",) * r)

    def residual(self, values: FloatArray) -> Residual:
        """Return what values (p,) leave of the equations that count."""
        n = np.append(-values, 1.0)
        sums = np.full(len(self.rows), np.nan) if self.sums is None else self.sums @ n
        return Residual.of(np.linalg.norm(self.factors @ n, axis=1), np.linalg.norm(self.factors[:, :, -1], axis=1),
                           sums, self.samples, self.counts)

    def sampled(self) -> Regression | None:
        """Return the problem sample by sample: no longer there."""
        return None

    def condensed(self, *, joint: bool = False) -> Condensed:
        """Return the problem itself."""
        if joint:
            _ = self.patterns
        return self


def triangle(matrix: FloatArray) -> FloatArray:
    """Return the upper triangular factor of a matrix, of as many rows as columns at most.

    Tall matrices are reduced in pieces that stay in cache and the pieces' factors again: R of stacked R's is R of all.
    """
    width = matrix.shape[1]
    piece = max(128, 4 * width)
    while len(matrix) > 2 * piece:
        count = len(matrix) // piece
        factors = np.asarray(np.linalg.qr(matrix[: count * piece].reshape(count, piece, width), mode="r"))
        matrix = np.vstack([factors.reshape(-1, width), matrix[count * piece:]])
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def side_by_side(data: FloatArray, present: IntArray) -> FloatArray:
    """Return data (k, r, c) as a triangular factor of the rows that count, where that makes it shorter."""
    k, r, c = data.shape
    width = len(present) * c
    if k <= 2 * width:
        return data
    short = np.zeros((width, r, c))
    short[:, present] = triangle(data[:, present].reshape(k, width)).reshape(width, len(present), c)
    return short


def padded(parts: Sequence[FloatArray]) -> FloatArray:
    """Return factors (r, k, c) of different k as one array, zeros below the shorter ones."""
    r, _, c = parts[0].shape
    every = np.zeros((len(parts), r, max(part.shape[1] for part in parts), c))
    for place, part in zip(every, parts):
        place[:, : part.shape[1]] = part
    return every


def total(pieces: FloatArray) -> FloatArray:
    """Return the factors of all pieces together, (u, r, k, c) -> (r, c, c)."""
    return np.stack([triangle(pieces[:, j].reshape(-1, pieces.shape[3])) for j in range(pieces.shape[1])])
