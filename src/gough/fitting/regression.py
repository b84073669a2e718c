"""The linear problem where mechanisms and estimators meet: effort = regressor @ parameters +
noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shape,
    check_shapes,
    without_copy,
)
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.record import Record
from gough.fitting.block_builder import block_statistics
from gough.fitting.block_statistics import (
    BlockStatistics,
    Residual,
    check_same_columns,
)
from gough.fitting.whitening import whiten

__all__ = ["BlockStatistics", "Regression", "block_statistics", "concatenate"]

SAMPLE_LABELS = (
    "time",
    "group",
    "sample",
    "recording",
    "mask",
)  # arrays with one entry a sample


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression(Record):
    """Regressor and effort of t samples, r joint equations (rows) and p parameters.

    Rows are motors, or degrees of freedom for robots with more motors than these. The
    regressor stays three-dimensional until the line that solves. What is not known is None.

    The scatter between groups gives standard errors that hold under coloured noise. The
    effort is the mean of the replicates; a recording with fewer repetitions than the others
    is filled up with its mean. Equations outside the mask (near a velocity reversal, a
    joint at rest) are kept for figures, but no estimator uses them.
    """

    regressor: FloatArray  # (t, r, p)
    effort: FloatArray  # (t, r) [N or N m]
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    covariance: FloatArray | None = None  # of the effort noise, (r, r), or (t, r, r) by sample
    time: FloatArray | None = None  # (t,) [s]
    group: IntArray | None = None  # repetition of the motion (period) of each sample, (t,)
    replicates: FloatArray | None = None  # effort of each repetition of the motion, (k, t, r)
    # number of each sample in its recording; after decimation that of the middle one, (t,)
    sample: IntArray | None = None
    recording: IntArray | None = None  # number of the log of each sample, (t,)
    mask: BoolArray | None = None  # valid equations, (t, r); None if all are

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", named(self.parameters, self.units))
        if self.effort.ndim != 2:
            raise InvalidInput(f"effort has shape {self.effort.shape}, expected (samples, rows)")
        t, r = self.effort.shape
        by_sample = self.covariance is not None and self.covariance.ndim == 3
        check_shapes(
            self,
            regressor=(t, r, len(self.parameters)),
            rows=(r,),
            row_units=(r,),
            time=(t,),
            group=(t,),
            covariance=(t, r, r) if by_sample else (r, r),
            sample=(t,),
            recording=(t,),
            mask=(t, r),
            replicates=(None, t, r),
        )
        for name in ("regressor", "effort", "covariance", "time", "replicates"):
            if getattr(self, name) is not None:
                check_finite(getattr(self, name), name)

    def __len__(self) -> int:
        return len(self.effort)

    @property
    def valid(self) -> BoolArray:
        """Valid equations, (t, r): all without a mask."""
        if self.mask is None:
            return np.ones(self.effort.shape, bool)
        return self.mask

    @property
    def n_valid(self) -> IntArray:
        """Number of valid equations of each row, (r,)."""
        return np.asarray(self.valid.sum(axis=0))

    def blocks(self, size: int = 4096) -> Iterator[Regression]:
        """Yield the problem in consecutive blocks of at most `size` samples."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def take(self, samples: slice | IntArray) -> Regression:
        """Return the problem of some samples."""
        changed: dict[str, Any] = {}
        for name in ("regressor", "effort", *SAMPLE_LABELS):
            if getattr(self, name) is not None:
                changed[name] = getattr(self, name)[samples]
        if isinstance(samples, np.ndarray):  # a copy already
            changed["regressor"] = without_copy(changed["regressor"])
        if self.covariance is not None and self.covariance.ndim == 3:
            changed["covariance"] = self.covariance[samples]
        if self.replicates is not None:
            changed["replicates"] = self.replicates[:, samples]
        return replace(self, **changed)

    def in_order(self) -> Regression:
        """Return the samples recording by recording, group by group, in the order of time."""
        clock = self.sample if self.time is None else self.time
        if clock is None:
            return self
        keys = [key for key in (clock, self.group, self.recording) if key is not None]
        order = np.lexsort(keys)
        if (np.diff(order) == 1).all():
            return self
        return self.take(order)

    def stacked(self) -> FloatArray:
        """Return [W y], zero where an equation is not valid, (t, r, p + 1)."""
        stacked = np.concatenate([self.regressor, self.effort[:, :, None]], axis=2)
        if self.mask is not None:
            stacked[~self.mask] = 0.0
        return stacked

    def residual(self, values: FloatArray) -> FloatArray:
        """Return effort minus prediction, zero where an equation is not valid, (t, r).

        [row unit]
        """
        residual = self.effort - self.regressor @ values
        if self.mask is None:
            return residual
        return np.where(self.mask, residual, 0.0)

    def residual_statistics(self, values: FloatArray) -> Residual:
        """Return size and mean of the residual of values (p,) by row."""
        residual = self.residual(values)
        effort = self.residual(np.zeros(len(values)))
        return Residual.of(
            residual_norm=np.linalg.norm(residual, axis=0),
            effort_norm=np.linalg.norm(effort, axis=0),
            residual_sum=residual.sum(axis=0),
            samples=len(self),
            n_valid=self.n_valid,
        )

    def select(self, parameters: Sequence[str]) -> Regression:
        """Keep some parameters, in the given order; the others are taken as zero."""
        if tuple(parameters) == self.parameters:
            return self
        columns = [index_of(self.parameters, name) for name in parameters]
        return replace(
            self,
            regressor=self.regressor[:, :, columns],
            units=tuple(self.units[i] for i in columns),
            parameters=tuple(self.parameters[i] for i in columns),
        )

    def transform(
        self,
        matrix: FloatArray,
        parameters: Sequence[str],
        units: Sequence[str],
    ) -> Regression:
        """Return the problem with [W y] @ matrix (p + 1, q + 1) in the place of [W y].

        Columns are added up, or moved to the effort, which is the last column; the new
        problem has q parameters with these units.
        """
        shift = self.regressor @ matrix[:-1, -1]
        gain = matrix[-1, -1]
        columns_from_effort = self.effort[:, :, None] * matrix[-1, :-1]
        replicates = self.replicates
        if replicates is not None:
            replicates = gain * replicates + shift
        return replace(
            self,
            regressor=self.regressor @ matrix[:-1, :-1] + columns_from_effort,
            effort=gain * self.effort + shift,
            parameters=named(parameters, units),
            units=tuple(units),
            replicates=replicates,
        )

    def whitened(self, covariance: FloatArray | None = None) -> Regression:
        """Return the problem with rows whose noise is independent and of variance 1.

        With Sigma = C C^T for each sample, its rows [W y] become C^-1 [W y]. Where some
        equations of a sample are not valid, Sigma is the covariance of the valid ones.
        Block by block this is Gauss-Markov of a long log with a known covariance.

        Args:
            covariance: (r, r) or (t, r, r); the regression's own by default. [row unit
                squared]
        """
        covariance = self.covariance if covariance is None else covariance
        if covariance is None:
            raise InvalidInput(
                "whitening needs the covariance of the rows; the regression has none"
            )
        t, r = self.effort.shape
        p = len(self.parameters)
        shape = (r, r) if covariance.ndim == 2 else (t, r, r)
        check_shape(covariance, shape, "covariance of the rows")
        columns = [self.stacked()]
        if self.replicates is not None:
            columns.append(self.replicates.transpose(1, 2, 0))
        white = whiten(np.concatenate(columns, axis=2), covariance, self.mask, self.rows)
        replicates = None
        if self.replicates is not None:
            replicates = white[:, :, p + 1 :].transpose(2, 0, 1)
        return replace(
            self,
            regressor=white[:, :, :p],
            effort=white[:, :, p],
            row_units=("1",) * r,
            covariance=np.eye(r),
            replicates=replicates,
        )

    def sampled(self) -> Regression | None:
        """Return the problem sample by sample: itself."""
        return self

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return the sufficient statistics; `joint` also keeps the rows side by side."""
        ordered = replace(self, replicates=None).in_order()
        return block_statistics(ordered.blocks(), joint=joint)


def concatenate(regressions: Sequence[Regression]) -> Regression:
    """Join regressions of the same rows and parameters, e.g. of several logs.

    A covariance and replicates are kept only where all regressions have them. Where some
    have groups, each of the others becomes one group.
    """
    if not regressions:
        raise InvalidInput("there is no regression to join")
    first = regressions[0]
    if len(regressions) == 1:
        return first
    for regression in regressions[1:]:
        check_same_columns(first, regression)
    joined: dict[str, Any] = {
        "recording": _distinct_labels([one.recording for one in regressions], regressions)
    }
    for name in ("regressor", "effort", "time", "sample"):
        arrays = [getattr(one, name) for one in regressions]
        if all(array is not None for array in arrays):
            joined[name] = np.concatenate(arrays)
    if any(one.group is not None for one in regressions):
        joined["group"] = _distinct_labels([one.group for one in regressions], regressions)
    if any(one.mask is not None for one in regressions):
        joined["mask"] = np.concatenate([one.valid for one in regressions])
    joined["replicates"] = _joined_replicates(regressions)
    joined["covariance"] = _joined_covariance(regressions)
    return Regression(
        rows=first.rows,
        row_units=first.row_units,
        parameters=first.parameters,
        units=first.units,
        **joined,
    )


def _joined_replicates(regressions: Sequence[Regression]) -> FloatArray | None:
    """Return the replicates of all logs, filled up with the mean effort to the same number."""
    if any(one.replicates is None for one in regressions):
        return None
    most = max(len(one.replicates) for one in regressions if one.replicates is not None)
    filled = []
    for one in regressions:
        assert one.replicates is not None
        missing = most - len(one.replicates)
        mean = np.broadcast_to(one.effort, (missing, *one.effort.shape))
        filled.append(np.concatenate([one.replicates, mean]))
    return np.concatenate(filled, axis=1)


def _joined_covariance(regressions: Sequence[Regression]) -> FloatArray | None:
    """Return one covariance where all logs have the same, (r, r), else one by sample, (t, r, r)."""
    known = [one.covariance for one in regressions if one.covariance is not None]
    if len(known) < len(regressions):
        return None
    if all(one.ndim == 2 and np.array_equal(one, known[0]) for one in known):
        return known[0]
    by_sample = []
    for covariance, one in zip(known, regressions):
        by_sample.append(np.broadcast_to(covariance, (len(one), *covariance.shape[-2:])))
    return np.concatenate(by_sample)


def _distinct_labels(
    labels: Sequence[IntArray | None], regressions: Sequence[Regression]
) -> IntArray:
    """Return labels numbered from zero and distinct between logs, (t,); one for a log without."""
    numbered = []
    offset = 0
    for label, regression in zip(labels, regressions):
        if label is None:
            label = np.zeros(len(regression), np.int64)
        number = np.unique(label, return_inverse=True)[1]
        numbered.append(number + offset)
        offset += int(number.max(initial=-1)) + 1
    return np.concatenate(numbered)
