"""The linear problem where mechanisms and estimators meet: effort = regressor @ parameters + noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray, check_finite, check_shape, frozen
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, nearest
from gough.core.names import Parameter
from gough.core.names import parameters as named

LABELS = ("time", "group", "sample", "recording", "mask")  # what travels with the samples, where it is known


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """Regressor and effort of t samples, r equation rows and p parameters.

    Rows are motors, or degrees of freedom for robots with more motors than these. The regressor stays
    three-dimensional until the line that solves.

    Args:
        regressor: Derivative of effort by parameters, (t, r, p).
        effort: Measured effort, (t, r). [N or N m]
        rows: Names of the equation rows, (r,).
        row_units: Units of the rows, (r,).
        parameters: Names, (p,).
        units: Units of the parameters, (p,).
        covariance: Effort noise: (r, r) the same for all samples, or (t, r, r), or None if unknown.
        time: Sample times, (t,), or None. [s]
        group: Which independent stretch (period, recording) a sample belongs to, (t,), or None. Scatter between
            groups gives standard deviations that hold under coloured noise.
        replicates: Effort of each repetition of the same motion, (k, t, r), or None; their mean is `effort`.
        sample: Which sample of its recording each one comes from, (t,), or None. After decimation the middle one.
        recording: Which recording of the experiment each sample belongs to, (t,), or None.
        mask: Which equations count, (t, r), or None if all do. The others (a motor that has just reversed, a joint
            that stands) stay here to be looked at, but no estimator uses them.
    """

    regressor: FloatArray
    effort: FloatArray
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    covariance: FloatArray | None = None
    time: FloatArray | None = None
    group: IntArray | None = None
    replicates: FloatArray | None = None
    sample: IntArray | None = None
    recording: IntArray | None = None
    mask: BoolArray | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("rows", "row_units", "units"):
            put(self, name, tuple(getattr(self, name)))
        put(self, "parameters", named(self.parameters, self.units))
        put(self, "regressor", frozen(self.regressor))
        put(self, "effort", frozen(self.effort))
        if self.effort.ndim != 2:
            raise InvalidInput(f"effort has shape {self.effort.shape}, expected (samples, rows)")
        t, r = self.effort.shape
        p = len(self.parameters)
        check_shape(self.regressor, (t, r, p), "regressor")
        for name, count in (("rows", r), ("row_units", r)):
            if len(getattr(self, name)) != count:
                raise InvalidInput(f"{name} has {len(getattr(self, name))} entries, expected {count}")
        for name in ("covariance", "time", "replicates"):
            if getattr(self, name) is not None:
                put(self, name, frozen(getattr(self, name)))
        if self.covariance is not None:
            check_shape(self.covariance, (r, r) if self.covariance.ndim == 2 else (t, r, r), "effort covariance")
        if self.time is not None:
            check_shape(self.time, (t,), "time")
        for name in ("group", "sample", "recording"):
            if getattr(self, name) is not None:
                put(self, name, frozen(getattr(self, name), np.int64))
                check_shape(getattr(self, name), (t,), name)
        if self.mask is not None:
            put(self, "mask", frozen(self.mask, np.bool_))
            check_shape(self.mask, (t, r), "mask")
        if self.replicates is not None:
            check_shape(self.replicates, (None, t, r), "replicates")
        for name in ("regressor", "effort", "covariance", "time", "replicates"):
            if getattr(self, name) is not None:
                check_finite(getattr(self, name), name)

    def __len__(self) -> int:
        return len(self.effort)

    @property
    def counts(self) -> IntArray:
        """How many samples of each row count, (r,)."""
        return np.full(len(self.rows), len(self)) if self.mask is None else self.mask.sum(axis=0)

    def blocks(self, size: int = 4096) -> Iterator[Regression]:
        """Yield the problem in consecutive pieces of at most `size` samples."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def take(self, samples: slice | IntArray) -> Regression:
        """Return the problem of some samples."""
        cov = self.covariance
        each = {name: getattr(self, name)[samples] for name in ("regressor", "effort", *LABELS)
                if getattr(self, name) is not None}
        return replace(
            self, **each, covariance=cov[samples] if cov is not None and cov.ndim == 3 else cov,
            replicates=None if self.replicates is None else self.replicates[:, samples])

    def select(self, parameters: Sequence[str]) -> Regression:
        """Keep some parameters, in the given order; the others are taken as zero."""
        columns = []
        for name in parameters:
            if name not in self.parameters:
                raise InvalidInput(f"no parameter '{name}'{nearest(name, self.parameters)}", name=name)
            columns.append(self.parameters.index(name))
        return replace(self, regressor=self.regressor[:, :, columns],
                       parameters=tuple(self.parameters[i] for i in columns),
                       units=tuple(self.units[i] for i in columns))

    def condense(self) -> Condensed:
        """Return the triangular factors of each row: all that linear estimators with row weights need."""
        return condense(self.blocks())


@dataclass(frozen=True, kw_only=True, eq=False)
class Condensed:
    """Triangular factors of a regression: sufficient for least squares, row weights, total least squares, pruning.

    Args:
        factors: R of [W_j y_j] for each row j, (r, p + 1, p + 1).
        joint: R of the rows side by side [W_1 ... W_r y_1 ... y_r], (r (p + 1), r (p + 1)), or None.
            Gauss-Markov with an estimated full covariance needs it.
        samples: Samples condensed.
        counts: Samples of each row that count, (r,); all of them by default.
        group_moments: W_j^T W_j and W_j^T y_j of each group, (g, r, p + 1, p + 1) as [W y]^T [W y], or None.
        rows, row_units, parameters, units: As in `Regression`.
    """

    factors: FloatArray
    samples: int
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    joint: FloatArray | None = None
    group_moments: FloatArray | None = None
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "parameters", named(self.parameters, self.units))
        put(self, "factors", frozen(self.factors))
        counts = self.counts if len(self.counts) else np.full(len(self.rows), self.samples)
        put(self, "counts", frozen(counts, np.int64))
        check_shape(self.factors, (len(self.rows), len(self.parameters) + 1, len(self.parameters) + 1), "factors")
        for name in ("joint", "group_moments"):
            if getattr(self, name) is not None:
                put(self, name, frozen(getattr(self, name)))

    def select(self, parameters: Sequence[str]) -> Condensed:
        """Keep some parameters; the others are taken as zero."""
        columns = []
        for name in parameters:
            if name not in self.parameters:
                raise InvalidInput(f"no parameter '{name}'{nearest(name, self.parameters)}", name=name)
            columns.append(self.parameters.index(name))
        p, r, keep = len(self.parameters), len(self.rows), [*columns, len(self.parameters)]
        factors = np.stack([_triangle(factor[:, keep]) for factor in self.factors])
        joint = None
        if self.joint is not None:
            wide = [j * p + c for j in range(r) for c in columns] + list(range(r * p, r * p + r))
            joint = _triangle(self.joint[:, wide])
        moments = None if self.group_moments is None else self.group_moments[:, :, keep][:, :, :, keep]
        return replace(self, factors=factors, joint=joint, group_moments=moments,
                       parameters=tuple(self.parameters[i] for i in columns),
                       units=tuple(self.units[i] for i in columns))


def _triangle(matrix: FloatArray) -> FloatArray:
    """Return the square upper triangular factor of a tall matrix, padded with zero rows if it is short.

    Tall matrices are reduced in pieces that stay in cache and the pieces' factors again: R of stacked R's is R of all.
    """
    width = matrix.shape[1]
    piece = max(128, 4 * width)
    while len(matrix) > 2 * piece:
        count = len(matrix) // piece
        factors = np.asarray(np.linalg.qr(matrix[: count * piece].reshape(count, piece, width), mode="r"))
        matrix = np.vstack([factors.reshape(-1, width), matrix[count * piece:]])
    if matrix.shape[0] < width:
        matrix = np.vstack([matrix, np.zeros((width - matrix.shape[0], width))])
    return np.asarray(np.linalg.qr(matrix, mode="r"))


@one_blas_thread
def condense(blocks: Iterable[Regression], *, joint: bool = False) -> Condensed:
    """Reduce a stream of regressions to triangular factors, in memory that does not grow with the stream.

    R of stacked blocks is R of the stacked R's, so the factors add up over blocks, logs and machines.

    Args:
        blocks: Pieces of one problem: same rows and parameters.
        joint: Also keep the side-by-side factor (Gauss-Markov with an estimated full covariance).

    Raises:
        InvalidInput: No block, or blocks of different problems.
    """
    first: Regression | None = None
    factors: FloatArray | None = None
    wide: FloatArray | None = None
    moments: dict[int, FloatArray] = {}
    samples, counts = 0, np.zeros(0, np.int64)
    for block in blocks:
        first = block if first is None else first
        _check_alike(first, block)
        t, r, p = block.regressor.shape
        samples += t
        counts = block.counts + (counts if len(counts) else 0)
        stacked = np.concatenate([block.regressor, block.effort[:, :, None]], axis=2)  # (t, r, p + 1)
        if block.mask is not None:
            stacked *= block.mask[:, :, None]
        per_row = np.ascontiguousarray(stacked.transpose(1, 0, 2))
        factors = np.stack([
            _triangle(per_row[j] if factors is None else np.vstack([factors[j], per_row[j]])) for j in range(r)
        ])
        if joint:
            flat = np.concatenate([stacked[:, :, :p].reshape(t, r * p), stacked[:, :, p]], axis=1)
            wide = _triangle(flat if wide is None else np.vstack([wide, flat]))
        if block.group is not None:
            for label in np.unique(block.group):
                part = per_row[:, block.group == label]
                moments[int(label)] = moments.get(int(label), 0.0) + part.transpose(0, 2, 1) @ part
    if first is None or factors is None:
        raise InvalidInput("there is no block to condense; the recording is empty")
    return Condensed(
        factors=factors, samples=samples, rows=first.rows, row_units=first.row_units, parameters=first.parameters,
        units=first.units, joint=wide, counts=counts,
        group_moments=np.stack([moments[k] for k in sorted(moments)]) if moments else None,
    )


def _check_alike(first: Regression, other: Regression) -> None:
    """Raise `InvalidInput` unless rows, parameters and the units of both are the same."""
    for name, what in (("rows", "rows"), ("parameters", "parameters"), ("row_units", "units of the rows"),
                       ("units", "units of the parameters")):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            differ = sorted(set(one) ^ set(two))
            raise InvalidInput(f"recordings of different robots or parameter sets cannot be joined: the {what} differ"
                               + (f" ({', '.join(differ[:4])}{', ...' if len(differ) > 4 else ''})" if differ else ""))


def concatenate(parts: Sequence[Regression]) -> Regression:
    """Join regressions of the same rows and parameters, e.g. several recordings, each a group of its own.

    A covariance is kept only where all parts have one.
    """
    if not parts:
        raise InvalidInput("nothing to join")
    first = parts[0]
    for part in parts[1:]:
        _check_alike(first, part)
    groups, offset = [], 0
    for part in parts:
        labels = np.zeros(len(part), np.int64) if part.group is None else np.unique(part.group, return_inverse=True)[1]
        groups.append(labels + offset)
        offset += int(labels.max(initial=-1)) + 1
    covariances = [part.covariance for part in parts]
    covariance = None
    if all(c is not None for c in covariances):
        covariance = np.concatenate([
            np.broadcast_to(c, (len(part), *c.shape[-2:])) for c, part in zip(covariances, parts) if c is not None
        ])
        head = covariances[0]
        if head is not None and all(c is not None and c.ndim == 2 and np.array_equal(c, head) for c in covariances):
            covariance = head
    known: dict[str, Any] = {"group": np.concatenate(groups)}
    for name in ("time", "sample"):
        own = [getattr(part, name) for part in parts]
        known[name] = None if any(values is None for values in own) else np.concatenate(own)
    known["recording"] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if any(part.mask is not None for part in parts):
        known["mask"] = np.concatenate([np.ones(part.effort.shape, bool) if part.mask is None else part.mask
                                         for part in parts])
    return Regression(
        regressor=np.concatenate([part.regressor for part in parts]),
        effort=np.concatenate([part.effort for part in parts]),
        rows=first.rows, row_units=first.row_units, parameters=first.parameters, units=first.units,
        covariance=covariance, **known,
    )
