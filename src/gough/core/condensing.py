"""Condensing: blocks of a regression to factors, in memory that does not grow with the log.

R of stacked blocks is R of the stacked R's, so factors add up over blocks, logs and machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.blas import one_blas_thread
from gough.core.condensed import Condensed, Joint, padded, patterns, side_by_side, total, triangle
from gough.core.errors import InvalidInput

if TYPE_CHECKING:
    from gough.core.regression import Regression

PIECES = 80  # pieces kept at most: 40 to 80 of a long log, so that twenty stretches are nearly of one length
SHORTEST = 8  # samples of the shortest piece

Place = tuple[int, int]  # recording, and which piece of it


class _Pieces:
    """A problem on its way through `condense`.

    The shortest pieces are single groups, or `SHORTEST` samples; piece n of a recording holds those numbered
    n 2^level to (n + 1) 2^level - 1. When there are more than `PIECES`, the level rises and neighbours are joined. So
    the pieces do not depend on the blocks the problem comes in.
    """

    def __init__(self, joint: bool) -> None:
        self.level = 0
        self.rows: dict[Place, FloatArray] = {}
        self.lengths: dict[Place, int] = {}
        self.joint: dict[tuple[Place, bytes], Joint] | None = {} if joint else None
        self._ends: dict[int, int] = {}  # samples or groups seen of each recording
        self._groups: dict[Place, int] = {}

    def add(self, block: Regression) -> None:
        """Take in the next samples."""
        recording = np.zeros(len(block), np.int64) if block.recording is None else block.recording
        number = self._numbers(block, recording)
        while True:
            places = set(zip(recording.tolist(), (number >> self.level).tolist())) | set(self.rows)
            if len(places) <= PIECES or len(places) == len({place[0] for place in places}):
                break
            self.level += 1
            self._move(lambda place: (place[0], place[1] >> 1))
        data, piece = block.stacked(), number >> self.level
        edges = np.flatnonzero((np.diff(piece) != 0) | (np.diff(recording) != 0)) + 1
        for part in np.split(np.arange(len(block)), edges):
            place = (int(recording[part[0]]), int(piece[part[0]]))
            self._put(place, data[part].transpose(1, 0, 2), len(part))
            if self.joint is not None:
                for present, where in patterns(None if block.mask is None else block.mask[part], data[part].shape[:2]):
                    self._put_joint(place, Joint(piece=0, present=present, samples=len(where),
                                                 data=data[part[where]]))

    def _numbers(self, block: Regression, recording: IntArray) -> IntArray:
        """Return the shortest piece each sample belongs to, counted within its recording, (t,)."""
        number = np.empty(len(block), np.int64)
        for label in np.unique(recording).tolist():
            own = np.flatnonzero(recording == label)
            start = self._ends.get(label, 0)
            if block.group is None:
                number[own] = (start + np.arange(len(own))) // SHORTEST
                self._ends[label] = start + len(own)
                continue
            for group in block.group[own].tolist():
                if (label, group) not in self._groups:
                    self._groups[label, group] = start
                    start += 1
            number[own] = [self._groups[label, group] for group in block.group[own].tolist()]
            self._ends[label] = start
        return number

    def _put(self, place: Place, data: FloatArray, samples: int) -> None:
        known = self.rows.get(place)
        data = data if known is None else np.concatenate([known, data], axis=1)
        shorter = data.shape[1] > 2 * data.shape[2]
        self.rows[place] = np.stack([triangle(row) for row in data]) if shorter else data
        self.lengths[place] = self.lengths.get(place, 0) + samples

    def _put_joint(self, place: Place, part: Joint) -> None:
        assert self.joint is not None
        key = (place, part.present.tobytes())
        known = self.joint.get(key)
        data = part.data if known is None else np.concatenate([known.data, part.data])
        self.joint[key] = replace(part, data=side_by_side(data, part.present),
                                  samples=part.samples + (0 if known is None else known.samples))

    def _move(self, to: Callable[[Place], Place]) -> None:
        """Give all pieces other places; those that share one are joined."""
        rows, lengths, joint = self.rows, self.lengths, self.joint
        self.rows, self.lengths, self.joint = {}, {}, None if joint is None else {}
        for place, data in rows.items():
            self._put(to(place), data, lengths[place])
        for (place, _), part in (joint or {}).items():
            self._put_joint(to(place), part)

    def join(self, other: Condensed) -> None:
        """Take in a condensed problem, as recordings of its own; neighbours are joined beyond `PIECES`.

        Where single recordings are more than that already, neighbouring ones become one.
        """
        start = max((place[0] for place in self.rows), default=-1) + 1
        places = [(start + int(label), k) for k, label in enumerate(other.recording)]
        for place, data, samples in zip(places, other.pieces, other.lengths.tolist()):
            self._put(place, data, samples)
        for part in other.joint or ():
            self._put_joint(places[part.piece], part)
        while len(self.rows) > PIECES:
            order = sorted(self.rows)
            first = {place[0]: k for k, place in reversed([*enumerate(order)])}
            whole = len(first) == len(order)
            to = {place: (k >> 1, 0) if whole else (place[0], (k - first[place[0]]) >> 1)
                  for k, place in enumerate(order)}
            self._move(to.__getitem__)

    def value(self, like: Regression | Condensed, **facts: Any) -> Condensed:
        """Return what was taken in, with the names of a problem."""
        places = sorted(self.rows)
        pieces = padded([self.rows[place] for place in places])
        number = {place: k for k, place in enumerate(places)}
        return Condensed(
            factors=total(pieces), pieces=pieces, recording=np.array([p[0] for p in places]),
            lengths=np.array([self.lengths[place] for place in places]),
            rows=like.rows, row_units=like.row_units, parameters=like.parameters, units=like.units,
            joint=None if self.joint is None else tuple(replace(part, piece=number[key[0]])
                                                        for key, part in sorted(self.joint.items())), **facts)


@one_blas_thread
def condense(blocks: Iterable[Regression], *, joint: bool = False) -> Condensed:
    """Reduce a stream of regressions to triangular factors, those of 40 to 80 consecutive pieces apart.

    Args:
        blocks: Pieces of one problem in the order of time: same rows and parameters.
        joint: Also keep the rows side by side (Gauss-Markov with a full covariance).
    """
    first: Regression | None = None
    kept = _Pieces(joint)
    samples, counts, sums, repeats = 0, np.zeros(0, np.int64), np.zeros(0), False
    for block in blocks:
        first = block if first is None else first
        check_alike(first, block)
        samples += len(block)
        counts = block.counts + (counts if len(counts) else 0)
        sums = block.stacked().sum(axis=0) + (sums if len(sums) else 0.0)
        repeats |= block.group is not None
        if len(block):
            kept.add(block)
    if first is None or not samples:
        raise InvalidInput("there is no block to condense; the recording is empty")
    return kept.value(first, samples=samples, counts=counts, sums=sums, repeats=repeats)


@one_blas_thread
def merge(first: Condensed, second: Condensed) -> Condensed:
    """Return two condensed problems as one: the recordings of the first, then those of the second.

    The bits of the result depend on both and on their order, on nothing else.
    """
    check_alike(first, second)
    if first.sums is None or second.sums is None or (first.joint is None) != (second.joint is None):
        raise InvalidInput("only problems as `condense` returns them can be merged, both with the rows side by side or "
                           "none; condense the logs again")
    kept = _Pieces(first.joint is not None)
    kept.join(first)
    kept.join(second)
    return kept.value(first, samples=first.samples + second.samples, counts=first.counts + second.counts,
                      sums=first.sums + second.sums, repeats=first.repeats or second.repeats)


def check_alike(first: Regression | Condensed, other: Regression | Condensed) -> None:
    """Raise `InvalidInput` unless rows, parameters and the units of both are the same."""
    for name, what in (("rows", "rows"), ("parameters", "parameters"), ("row_units", "units of the rows"),
                       ("units", "units of the parameters")):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            differ = sorted(set(one) ^ set(two))
            raise InvalidInput(f"recordings of different robots or parameter sets cannot be joined: the {what} differ"
                               + (f" ({', '.join(differ[:4])}{', ...' if len(differ) > 4 else ''})" if differ else ""))
