"""Build the sufficient statistics of a regression from blocks of samples, and merge them.

R of stacked blocks is R of the stacked R's, so factors add up over blocks, logs and
machines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gough.core.arrays import FloatArray, IntArray, without_copy
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.fitting.block_statistics import (
    BlockStatistics,
    JointFactor,
    check_same_columns,
    padded,
    shortened_joint,
    triangular_factor,
)
from gough.fitting.whitening import valid_row_sets

if TYPE_CHECKING:
    from gough.fitting.regression import Regression

# Most blocks kept: 40 to 80 of a long log, so that twenty groups of them are nearly equally long
MAX_BLOCKS = 80
MIN_BLOCK_SAMPLES = 8  # samples of the shortest block

Place = tuple[int, int]  # number of the log, and of the block in it


@dataclass
class _OpenBlock:
    """A block to which samples are still added."""

    stacked: FloatArray  # [W y], or any matrix with its Gram matrix row by row, (k, r, p + 1)
    samples: int
    n_valid: IntArray  # valid equations of each row, (r,)
    joint: dict[bytes, JointFactor] = field(default_factory=dict)  # by the rows that are valid

    def add(self, other: _OpenBlock) -> None:
        """Append the samples of another block."""
        self.samples += other.samples
        self.n_valid = self.n_valid + other.n_valid
        self.stacked = np.concatenate([self.stacked, other.stacked])
        for key, factor in other.joint.items():
            self.add_joint(key, factor)

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

    The shortest blocks are single groups (repetitions), or `MIN_BLOCK_SAMPLES` samples;
    block n of a log holds those numbered n 2^level to (n + 1) 2^level - 1. When there are
    more than `MAX_BLOCKS`, the level rises and neighbours are joined. So the result does
    not depend on the sizes in which the samples come.
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
        number = self._shortest_blocks(block, log)
        borders = _borders(log, number)
        first_of_each = [0, *borders]
        while True:
            numbers = number[first_of_each] >> self.level
            places = set(zip(log[first_of_each].tolist(), numbers.tolist())) | set(self.open)
            if len(places) <= MAX_BLOCKS or _one_block_each(places):
                break
            self.level += 1
            self._halve(merge_logs=False)
        valid = block.valid
        number = number >> self.level
        borders = _borders(log, number)
        for start, stop in zip([0, *borders], [*borders, len(block)]):
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
            block.add(new)
        k, _, c = block.stacked.shape
        if k > 2 * c:
            factors = triangular_factor(block.stacked.transpose(1, 0, 2))
            block.stacked = factors.transpose(1, 0, 2)
        elif block.stacked.base is not None:  # do not keep all samples it is part of
            block.stacked = block.stacked.copy()

    def _halve(self, merge_logs: bool) -> None:
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
            self._halve(_one_block_each(self.open))

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
        joint = []
        for k, block in enumerate(blocks):
            for _, factor in sorted(block.joint.items()):
                joint.append(factor._replace(block=k))
        return BlockStatistics(
            blocks=without_copy(padded([block.stacked.transpose(1, 0, 2) for block in blocks])),
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


def _borders(log: IntArray, number: IntArray) -> list[int]:
    """Return the samples at which the log or the number of the block changes."""
    changes = (np.diff(number) != 0) | (np.diff(log) != 0)
    return (np.flatnonzero(changes) + 1).tolist()


def _one_block_each(places: Collection[Place]) -> bool:
    """Return whether every log is one block."""
    return len(places) == len({log for log, _ in places})


@one_blas_thread
def block_statistics(blocks: Iterable[Regression], *, joint: bool = False) -> BlockStatistics:
    """Reduce a regression, in blocks in the order of time, to 40 to 80 contiguous blocks.

    `joint` also keeps the rows side by side, for Gauss-Markov with a full covariance.
    """
    first: Regression | None = None
    builder = BlockBuilder(joint)
    sums = np.zeros(1)
    repeats = False
    for block in blocks:
        first = block if first is None else first
        check_same_columns(first, block)
        stacked = block.stacked()
        sums = sums + stacked.sum(axis=0)
        repeats |= block.group is not None
        if len(block):
            builder.add(block, stacked)
    if first is None or not builder.open:
        raise InvalidInput("there is no block to reduce; the recording is empty")
    return builder.build(first, sums=sums, repeats=repeats)


@one_blas_thread
def merge(first: BlockStatistics, second: BlockStatistics) -> BlockStatistics:
    """Return two statistics as one: the logs of the first, then those of the second.

    The bits of the result depend on both and on their order, on nothing else.
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
            label: Block of each sample, 0 to n_blocks - 1; -1 for samples left out, (t,).
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
            raise InvalidInput("there is no block to reduce; the recording is empty")
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
