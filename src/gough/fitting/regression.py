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
)
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.record import Record
from gough.fitting.block_statistics import Condensed, Residual, check_alike, condense, whiten

__all__ = ["Condensed", "Regression", "concatenate", "condense"]

LABELS = (
    "time",
    "group",
    "sample",
    "recording",
    "mask",
)  # what travels with the samples, where it is known


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression(Record):
    """Regressor and effort of t samples, r equation rows and p parameters.

    Rows are motors, or degrees of freedom for robots with more motors than these. The regressor
    stays three-dimensional until the line that solves. What is not known is None.

    Scatter between groups gives standard deviations that hold under coloured noise. The mean of the
    replicates is the effort; of recordings with fewer repetitions than others the mean itself fills
    the places. Equations that the mask leaves out (a motor that has just reversed, a joint that
    stands) stay here to be looked at, but no estimator uses them.
    """

    regressor: FloatArray
    effort: FloatArray  # (t, r) [N or N m]
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    # of the noise of the effort, (r, r) for all samples, or (t, r, r)
    covariance: FloatArray | None = None
    time: FloatArray | None = None  # (t,) [s]
    # which repetition of the same motion (a period) a sample belongs to, (t,)
    group: IntArray | None = None
    replicates: FloatArray | None = None  # effort of each repetition of the same motion, (k, t, r)
    # which of its recording each one comes from, after decimation the middle one, (t,)
    sample: IntArray | None = None
    recording: IntArray | None = None  # which of the experiment each sample belongs to, (t,)
    mask: BoolArray | None = None  # which equations count, (t, r); None if all do

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", named(self.parameters, self.units))
        if self.effort.ndim != 2:
            raise InvalidInput(f"effort has shape {self.effort.shape}, expected (samples, rows)")
        t, r = self.effort.shape
        each = self.covariance is not None and self.covariance.ndim == 3
        check_shapes(
            self,
            regressor=(t, r, len(self.parameters)),
            rows=(r,),
            row_units=(r,),
            time=(t,),
            group=(t,),
            covariance=(t, r, r) if each else (r, r),
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
    def counting(self) -> BoolArray:
        """Which equations count, (t, r): all without a mask."""
        return np.ones(self.effort.shape, bool) if self.mask is None else self.mask

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
        each = {
            name: getattr(self, name)[samples]
            for name in ("regressor", "effort", *LABELS)
            if getattr(self, name) is not None
        }
        return replace(
            self,
            **each,
            covariance=cov[samples] if cov is not None and cov.ndim == 3 else cov,
            replicates=None if self.replicates is None else self.replicates[:, samples],
        )

    def in_order(self) -> Regression:
        """Return the samples recording by recording, group by group, in the order of time."""
        clock = self.sample if self.time is None else self.time
        if clock is None:
            return self
        order = np.lexsort([key for key in (clock, self.group, self.recording) if key is not None])
        return self if (np.diff(order) == 1).all() else self.take(order)

    def stacked(self) -> FloatArray:
        """Return [W y] with equations that do not count as zeros, (t, r, p + 1)."""
        data = np.concatenate([self.regressor, self.effort[:, :, None]], axis=2)
        if self.mask is not None:
            data[~self.mask] = 0.0
        return data

    def left(self, values: FloatArray) -> FloatArray:
        """Return effort minus prediction, zero where an equation does not count, (t, r).

        [row unit]
        """
        left = self.effort - self.regressor @ values
        return left if self.mask is None else np.where(self.mask, left, 0.0)

    def select(self, parameters: Sequence[str]) -> Regression:
        """Keep some parameters, in the given order; the others are taken as zero."""
        columns = [index_of(self.parameters, name) for name in parameters]
        return replace(
            self,
            regressor=self.regressor[:, :, columns],
            units=tuple(self.units[i] for i in columns),
            parameters=tuple(self.parameters[i] for i in columns),
        )

    def transform(
        self, matrix: FloatArray, parameters: Sequence[str], units: Sequence[str]
    ) -> Regression:
        """Return the problem with [W y] @ matrix (p + 1, q + 1) in the place of [W y].

        Columns are added up, or moved to the effort, which is the last column; q parameters with
        these units are left.
        """
        shift, gain = self.regressor @ matrix[:-1, -1], matrix[-1, -1]
        return replace(
            self,
            regressor=self.regressor @ matrix[:-1, :-1] + self.effort[:, :, None] * matrix[-1, :-1],
            effort=gain * self.effort + shift,
            parameters=named(parameters, units),
            units=tuple(units),
            replicates=None if self.replicates is None else gain * self.replicates + shift,
        )

    def whitened(self, covariance: FloatArray | None = None) -> Regression:
        """Return the problem with rows whose noise is independent and of variance 1: Sigma_s = C
        C^T, rows C^-1 [W y].

        Where equations of a sample do not count, C is that of the covariance of those that do.
        Block by block and condensed, this is Gauss-Markov of a long log with a known covariance,
        (r, r) or (t, r, r); by default its own.
        """
        covariance = self.covariance if covariance is None else covariance
        if covariance is None:
            raise InvalidInput(
                "whitening needs the covariance of the rows; the regression has none"
            )
        t, r = self.effort.shape
        check_shape(
            covariance, (r, r) if covariance.ndim == 2 else (t, r, r), "covariance of the rows"
        )
        columns, p = [self.stacked()], len(self.parameters)
        if self.replicates is not None:
            columns.append(self.replicates.transpose(1, 2, 0))
        data = whiten(np.concatenate(columns, axis=2), covariance, self.mask, self.rows)
        return replace(
            self,
            regressor=data[:, :, :p],
            effort=data[:, :, p],
            row_units=("1",) * r,
            covariance=np.eye(r),
            replicates=None if self.replicates is None else data[:, :, p + 1 :].transpose(2, 0, 1),
        )

    def residual(self, values: FloatArray) -> Residual:
        """Return what values (p,) leave of the equations that count."""
        left, effort = self.left(values), self.left(np.zeros(len(values)))
        return Residual.of(
            np.linalg.norm(left, axis=0),
            np.linalg.norm(effort, axis=0),
            left.sum(axis=0),
            len(self),
            self.counts,
        )

    def sampled(self) -> Regression | None:
        """Return the problem sample by sample: itself."""
        return self

    def condensed(self, *, joint: bool = False) -> Condensed:
        """Return the triangular factors: all that linear estimators need."""
        return condense(replace(self, replicates=None).in_order().blocks(), joint=joint)


def concatenate(parts: Sequence[Regression]) -> Regression:
    """Join regressions of the same rows and parameters, e.g. several recordings.

    A covariance and repetitions are kept only where all parts have them. Where some parts have
    groups, each of the others is one.
    """
    if not parts:
        raise InvalidInput("nothing to join")
    first = parts[0]
    for part in parts[1:]:
        check_alike(first, part)
    known: dict[str, Any] = {"recording": _numbered([part.recording for part in parts], parts)}
    for name in ("regressor", "effort", "time", "sample"):
        own = [getattr(part, name) for part in parts]
        known[name] = None if any(values is None for values in own) else np.concatenate(own)
    if any(part.group is not None for part in parts):
        known["group"] = _numbered([part.group for part in parts], parts)
    if any(part.mask is not None for part in parts):
        known["mask"] = np.concatenate([part.counting for part in parts])
    repeats = [part.replicates for part in parts if part.replicates is not None]
    if len(repeats) == len(parts):
        most = max(len(own) for own in repeats)
        known["replicates"] = np.concatenate(
            [
                np.concatenate(
                    [own, np.broadcast_to(part.effort, (most - len(own), *part.effort.shape))]
                )
                for own, part in zip(repeats, parts)
            ],
            axis=1,
        )
    noise = [part.covariance for part in parts if part.covariance is not None]
    if len(noise) == len(parts):  # one for all where they agree, else one for each sample
        same = all(c.ndim == 2 and np.array_equal(c, noise[0]) for c in noise)
        known["covariance"] = (
            noise[0]
            if same
            else np.concatenate(
                [np.broadcast_to(c, (len(part), *c.shape[-2:])) for c, part in zip(noise, parts)]
            )
        )
    return Regression(
        rows=first.rows,
        row_units=first.row_units,
        parameters=first.parameters,
        units=first.units,
        **known,
    )


def _numbered(labels: Sequence[IntArray | None], parts: Sequence[Regression]) -> IntArray:
    """Return labels numbered from zero and different in each part, one for a part without labels,
    (t,).
    """
    found, offset = [], 0
    for own, part in zip(labels, parts):
        number = np.unique(np.zeros(len(part)) if own is None else own, return_inverse=True)[1]
        found.append(number + offset)
        offset += int(number.max(initial=-1)) + 1
    return np.concatenate(found)
