"""The linear problem effort = regressor @ parameters + noise, and its sufficient statistics.

It is where mechanisms and estimators meet. Statistics are built from
blocks of samples: R of stacked blocks is R of the stacked R's, so
factors add up over blocks, logs and machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
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
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.record import Record
from gough.fitting.block_statistics import (
    BlockStatistics,
    JointFactor,
    Residual,
    check_same_columns,
    padded,
    shortened_joint,
    triangular_factor,
)
from gough.fitting.whitening import valid_row_sets, whiten

# arrays with one entry a sample
SAMPLE_LABELS = ("time", "group", "sample", "recording", "mask")
# Most blocks kept: 40 to 80 of a long log, so that twenty groups of
# them are nearly equally long
MAX_BLOCKS = 80
MIN_BLOCK_SAMPLES = 8  # samples of the shortest block

Place = tuple[int, int]  # number of the log, and of the block in it


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression(Record):
    """Regressor and effort of t samples, r joint equations (rows) and p parameters.

    Rows are motors, or degrees of freedom for robots with more motors
    than these. The regressor stays three-dimensional until the line
    that solves. What is not known is None.

    The scatter between groups gives standard errors that hold under
    coloured noise. The effort is the mean of the replicates; a
    recording with fewer repetitions than the others is filled up with
    its mean. Equations outside the mask (near a velocity reversal, a
    joint at rest) are kept for figures, but no estimator uses them.
    """

    regressor: FloatArray  # (t, r, p)
    effort: FloatArray  # (t, r) [N or N m]
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    # of the effort noise, (r, r), or (t, r, r) by sample
    covariance: FloatArray | None = None
    time: FloatArray | None = None  # (t,) [s]
    # repetition of the motion (period) of each sample, (t,)
    group: IntArray | None = None
    # effort of each repetition of the motion, (k, t, r)
    replicates: FloatArray | None = None
    # number of each sample in its recording; after decimation that of
    # the middle one, (t,)
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

    def with_columns(
        self, columns: FloatArray, parameters: Sequence[str], units: Sequence[str]
    ) -> Regression:
        """Return the problem with more parameters behind its own, columns (t, r, k)."""
        return replace(
            self,
            regressor=np.concatenate([self.regressor, columns], axis=2),
            parameters=(*self.parameters, *named(parameters, units)),
            units=(*self.units, *units),
        )

    def transform(
        self,
        matrix: FloatArray,
        parameters: Sequence[str],
        units: Sequence[str],
    ) -> Regression:
        """Return the problem with [W y] @ matrix (p + 1, q + 1) in the place of [W y].

        Columns are added up, or moved to the effort, which is the last
        column; the new problem has q parameters with these units.
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

        With Sigma = C C^T for each sample, its rows [W y] become C^-1
        [W y]. Where some equations of a sample are not valid, Sigma is
        the covariance of the valid ones. Block by block this is
        Gauss-Markov of a long log with a known covariance.

        Args:
            covariance: (r, r) or (t, r, r); the regression's own by
                default. [row unit squared]
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

    @cached_property
    def _statistics(self) -> dict[bool, BlockStatistics]:
        """Sufficient statistics that were asked for, without and with the rows side by side."""
        return {}

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return the sufficient statistics; `joint` also keeps the rows side by side."""
        if joint not in self._statistics:
            ordered = replace(self, replicates=None).in_order()
            self._statistics[joint] = block_statistics(ordered.blocks(), joint=joint)
        return self._statistics[joint]


def concatenate(regressions: Sequence[Regression]) -> Regression:
    """Join regressions of the same rows and parameters, e.g. of several logs.

    A covariance and replicates are kept only where all regressions have
    them. Where some have groups, each of the others becomes one group.
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


@dataclass
class _OpenBlock:
    """A block to which samples are still added."""

    # [W y], or any matrix with its Gram matrix row by row, (k, r, p +
    # 1)
    stacked: FloatArray
    samples: int
    n_valid: IntArray  # valid equations of each row, (r,)
    # by the rows that are valid
    joint: dict[bytes, JointFactor] = field(default_factory=dict)

    def add_joint(self, key: bytes, factor: JointFactor) -> None:
        """Append rows side by side to those of the same valid rows."""
        if key in self.joint:
            before = self.joint[key]
            factor = factor._replace(
                samples=before.samples + factor.samples,
                stacked=np.concatenate([before.stacked, factor.stacked]),
            )
        self.joint[key] = shortened_joint(factor)


class BlockBuilder:
    """Collects blocks of samples into at most `MAX_BLOCKS` contiguous blocks.

    The shortest blocks are single groups (repetitions), or
    `MIN_BLOCK_SAMPLES` samples; block n of a log holds those numbered n
    2^level to (n + 1) 2^level - 1. When there are more than
    `MAX_BLOCKS`, the level rises and neighbours are joined. So the
    result does not depend on the sizes in which the samples come.
    """

    def __init__(self, joint: bool) -> None:
        self.joint = joint
        self.level = 0
        self.open: dict[Place, _OpenBlock] = {}
        self._samples_seen: dict[int, int] = {}  # by log
        self._group_numbers: dict[int, dict[int, int]] = {}  # by log and label

    def add(self, block: Regression, stacked: FloatArray) -> None:
        """Add the next samples, and their [W y], (t, r, p + 1)."""
        if block.recording is None:
            log = np.zeros(len(block), np.int64)
        else:
            log = block.recording
        shortest = self._shortest_blocks(block, log)
        while True:
            number = shortest >> self.level
            changes = (np.diff(number) != 0) | (np.diff(log) != 0)
            borders = [0, *(np.flatnonzero(changes) + 1).tolist(), len(block)]
            starts = borders[:-1]
            places = set(zip(log[starts].tolist(), number[starts].tolist())) | set(self.open)
            n_logs = len({log for log, _ in places})
            if len(places) <= max(MAX_BLOCKS, n_logs):
                break
            self.level += 1
            self._halve(merge_logs=False)
        valid = block.valid
        for start, stop in pairwise(borders):
            place = (int(log[start]), int(number[start]))
            samples = slice(start, stop)
            new = _OpenBlock(stacked[samples], stop - start, valid[samples].sum(axis=0))
            if self.joint:
                mask = None if block.mask is None else block.mask[samples]
                for rows, where in valid_row_sets(mask, new.stacked.shape[:2]):
                    factor = JointFactor(0, rows, len(where), stacked[start + where])
                    new.add_joint(rows.tobytes(), factor)
            self._put(place, new)

    def _shortest_blocks(self, block: Regression, log: IntArray) -> IntArray:
        """Return the number of the shortest block of each sample within its log, (t,)."""
        number = np.empty(len(block), np.int64)
        for label in np.unique(log).tolist():
            samples = np.flatnonzero(log == label)
            if block.group is None:
                start = self._samples_seen.get(label, 0)
                number[samples] = (start + np.arange(len(samples))) // MIN_BLOCK_SAMPLES
                self._samples_seen[label] = start + len(samples)
            else:
                known = self._group_numbers.setdefault(label, {})
                for sample in samples:
                    number[sample] = known.setdefault(int(block.group[sample]), len(known))
        return number

    def _put(self, place: Place, new: _OpenBlock) -> None:
        """Add samples to a block; its rows become triangular factors where that is shorter."""
        block = self.open.setdefault(place, new)
        if block is not new:
            block.samples += new.samples
            block.n_valid = block.n_valid + new.n_valid
            block.stacked = np.concatenate([block.stacked, new.stacked])
            for key, factor in new.joint.items():
                block.add_joint(key, factor)
        k, _, c = block.stacked.shape
        if k > 2 * c:
            factors = triangular_factor(block.stacked.transpose(1, 0, 2))
            block.stacked = factors.transpose(1, 0, 2)
        elif block.stacked.base is not None:  # do not keep all samples it is part of
            block.stacked = block.stacked.copy()

    def _halve(self, *, merge_logs: bool) -> None:
        """Join neighbouring blocks of each log or, where each log is one block, pairs of logs."""
        before = self.open
        self.open = {}
        for k, (place, block) in enumerate(sorted(before.items())):
            if merge_logs:
                self._put((k >> 1, 0), block)
            else:
                self._put((place[0], place[1] >> 1), block)

    def join(self, other: BlockStatistics) -> None:
        """Add statistics as logs of their own; neighbours are joined beyond `MAX_BLOCKS`."""
        first_log = max((place[0] for place in self.open), default=-1) + 1
        places: list[Place] = []
        for k, label in enumerate(other.recording):
            number = int((other.recording[:k] == label).sum())
            places.append((first_log + int(label), number))
        for k, place in enumerate(places):
            stacked = other.block_factors[k].transpose(1, 0, 2)
            self._put(
                place,
                _OpenBlock(stacked, int(other.block_samples[k]), other.block_valid[k]),
            )
        for factor in other.joint or ():
            self.open[places[factor.block]].add_joint(factor.valid_rows.tobytes(), factor)
        while len(self.open) > MAX_BLOCKS:
            n_logs = len({log for log, _ in self.open})
            self._halve(merge_logs=len(self.open) == n_logs)

    def build(
        self,
        like: Regression | BlockStatistics,
        *,
        sums: FloatArray,
        repeats: bool,
    ) -> BlockStatistics:
        """Return the statistics with the names of a problem."""
        places = sorted(self.open)
        blocks = [self.open[place] for place in places]
        factors = []
        joint = []
        for k, block in enumerate(blocks):
            stacked = block.stacked.transpose(1, 0, 2)
            if stacked.shape[1] > stacked.shape[2]:
                stacked = triangular_factor(stacked)
            factors.append(stacked)
            for _, factor in sorted(block.joint.items()):
                joint.append(factor._replace(block=k))
        return BlockStatistics(
            blocks=without_copy(padded(factors)),
            block_samples=np.array([block.samples for block in blocks]),
            block_valid=np.array([block.n_valid for block in blocks]),
            recording=np.array([place[0] for place in places]),
            rows=like.rows,
            row_units=like.row_units,
            parameters=like.parameters,
            units=like.units,
            sums=sums,
            repeats=repeats,
            joint=tuple(joint) if self.joint else None,
        )


@one_blas_thread
def block_statistics(blocks: Iterable[Regression], *, joint: bool = False) -> BlockStatistics:
    """Reduce a regression, in blocks in the order of time, to 40 to 80 contiguous blocks.

    `joint` also keeps the rows side by side, for Gauss-Markov with a
    full covariance.
    """
    like: Regression | None = None  # names and units, without samples
    builder = BlockBuilder(joint)
    sums = np.zeros(1)
    repeats = False
    for block in blocks:
        if like is None:
            like = block.take(slice(0))
        check_same_columns(like, block)
        stacked = block.stacked()
        sums = sums + stacked.sum(axis=0)
        repeats |= block.group is not None
        if len(block):
            builder.add(block, stacked)
        del block, stacked  # not held while the next block is computed
    if like is None or not builder.open:
        raise InvalidInput("no samples to fit: the logs are empty, or all samples are excluded")
    return builder.build(like, sums=sums, repeats=repeats)


@one_blas_thread
def merge(first: BlockStatistics, second: BlockStatistics) -> BlockStatistics:
    """Return two statistics as one: the logs of the first, then those of the second.

    The bits of the result depend on both and on their order, on nothing
    else.
    """
    check_same_columns(first, second)
    different_joint = (first.joint is None) != (second.joint is None)
    if first.sums is None or second.sums is None or different_joint:
        raise InvalidInput(
            "only statistics as `block_statistics` returns them can be merged, both with the rows "
            "side by side or none; reduce the logs again"
        )
    builder = BlockBuilder(first.joint is not None)
    builder.join(first)
    builder.join(second)
    sums = first.sums + second.sums
    return builder.build(first, sums=sums, repeats=first.repeats or second.repeats)


class LabelledBlocks:
    """Gram matrices of a regression whose blocks are given sample by sample."""

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = n_blocks
        self._grams = np.zeros((n_blocks, 0, 0, 0))
        self._samples = np.zeros(n_blocks, np.int64)
        self._valid = np.zeros((n_blocks, 1), np.int64)
        self._like: Regression | None = None

    def add(self, regression: Regression, label: IntArray) -> None:
        """Add samples, in any order.

        Args:
            regression: With the same rows and parameters each time.
            label: Block of each sample, 0 to n_blocks - 1; -1 for
                samples left out, (t,).
        """
        stacked = regression.stacked()
        valid = regression.valid
        _, r, c = stacked.shape
        if self._like is None:
            self._grams = np.zeros((self.n_blocks, r, c, c))
            self._valid = np.zeros((self.n_blocks, r), np.int64)
        chosen = label >= 0
        if not chosen.all():
            stacked = stacked[chosen]
            valid = valid[chosen]
            label = label[chosen]
        by_row = np.ascontiguousarray(stacked.transpose(1, 0, 2))
        valid_by_row = np.ascontiguousarray(valid.T)
        borders = (np.flatnonzero(np.diff(label)) + 1).tolist()
        for start, stop in pairwise([0, *borders, len(label)]):
            if start == stop:
                continue
            block = int(label[start])
            rows = by_row[:, start:stop]
            self._grams[block] += rows.transpose(0, 2, 1) @ rows
            self._samples[block] += stop - start
            self._valid[block] += valid_by_row[:, start:stop].sum(axis=1)
        self._like = regression

    def build(self) -> BlockStatistics:
        """Return the statistics; blocks without samples are zero."""
        if self._like is None:
            raise InvalidInput("no samples to fit: the logs are empty, or all samples are excluded")
        return BlockStatistics(
            blocks=self._grams,
            form="gram",
            block_samples=self._samples,
            block_valid=self._valid,
            recording=np.zeros(self.n_blocks, np.int64),
            rows=self._like.rows,
            row_units=self._like.row_units,
            parameters=self._like.parameters,
            units=self._like.units,
            sums=None,
            repeats=False,
            joint=None,
        )


@one_blas_thread
def statistics_by_label(regression: Regression, label: IntArray, n_blocks: int) -> BlockStatistics:
    """Return Gram matrices of a regression with the blocks given sample by sample, (t,)."""
    blocks = LabelledBlocks(n_blocks)
    blocks.add(regression, label)
    return blocks.build()
