"""A linear problem reduced to factors: all that linear estimators need of a log, in memory that
does not grow with it.

R of stacked blocks is R of the stacked R's, so factors add up over blocks, logs and machines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gough.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    check_finite,
    check_shape,
    check_shapes,
)
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.record import Record

if TYPE_CHECKING:
    from gough.fitting.regression import Regression

# pieces kept at most: 40 to 80 of a long log, so that twenty stretches are nearly of one length
PIECES = 80
SHORTEST = 8  # samples of the shortest piece

NO_ROW = np.arange(0)

Place = tuple[int, int]  # recording, and which piece of it


class Residual(NamedTuple):
    """What parameter values leave unexplained of the equations that count, by row."""

    rms: FloatArray  # [row unit]
    relative: FloatArray  # rms residual / rms effort; infinite where there is no effort
    mean: FloatArray  # effort minus prediction [row unit]
    samples: int
    counts: IntArray  # samples of each row that count

    @classmethod
    def of(
        cls, left: FloatArray, effort: FloatArray, sums: FloatArray, samples: int, counts: IntArray
    ) -> Residual:
        """Return the statistics from the lengths of residual and effort and the sum of the
        residual, (r,) each.
        """
        many = np.maximum(counts, 1)
        relative = np.divide(left, effort, out=np.full_like(left, np.inf), where=effort > 0)
        return cls(
            rms=left / np.sqrt(many),
            relative=relative,
            mean=sums / many,
            samples=samples,
            counts=counts,
        )


def patterns(mask: BoolArray | None, shape: tuple[int, int]) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows that count together and the samples where they do; samples without any are
    left out.
    """
    if mask is None or mask.all():
        yield np.arange(shape[1]), np.arange(shape[0])
        return
    kinds, which = np.unique(mask, axis=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        if kind.any():
            yield np.flatnonzero(kind), np.flatnonzero(which.reshape(-1) == k)


def inverse_root(covariance: FloatArray, rows: tuple[str, ...]) -> FloatArray:
    """Return C^-1 with covariance = C C^T, (r, r) or (t, r, r).

    C = diag(std) U sqrt(L) U^T with the correlation U L U^T: whitened rows belong to rows, in
    whatever order these are.
    """
    what = "covariance of the rows"
    check_finite(covariance, what)
    check_shape(covariance[..., 0, :], (*covariance.shape[:-2], len(rows)), what)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    if not (variance > 0).all():
        bad = rows[int(np.argwhere(variance <= 0)[0][-1])]
        raise InvalidInput(
            f"noise variance of row '{bad}' is not positive; expected a positive definite "
            f"covariance",
            row=bad,
        )
    size = np.sqrt(variance)
    unit = covariance / (size[..., :, None] * size[..., None, :])
    if not np.allclose(unit, np.swapaxes(unit, -1, -2), rtol=0, atol=1e-9):
        raise InvalidInput(f"{what} is not symmetric")
    values, vectors = np.linalg.eigh(unit)
    least = float(values[..., 0].min(initial=1.0))
    if least <= 1e-13:
        raise InvalidInput(
            f"{what} is not positive definite: its correlation matrix has the eigenvalue "
            f"{least:.3g}; "
            "expected all positive",
            eigenvalue=least,
        )
    turned = vectors / np.sqrt(values)[..., None, :]
    return np.asarray(turned @ np.swapaxes(vectors, -1, -2) / size[..., None, :])


def _whitener(covariance: FloatArray, present: IntArray, rows: tuple[str, ...]) -> FloatArray:
    """Return C^-1 of the rows that are present, zeros for the others, (r, r) or (t, r, r)."""
    root = np.zeros_like(covariance)
    i, j = np.ix_(present, present)
    root[..., i, j] = inverse_root(covariance[..., i, j], tuple(rows[k] for k in present))
    return root


def whiten(
    data: FloatArray, covariance: FloatArray, mask: BoolArray | None, rows: tuple[str, ...]
) -> FloatArray:
    """Return C_s^-1 data_s with covariance_s = C_s C_s^T, (t, r, c); zeros where an equation does
    not count.

    The covariance is (r, r) or (t, r, r); where rows of a sample do not count, that of the others
    is taken.
    """
    result = np.zeros_like(data)
    for present, where in patterns(mask, data.shape[:2]):
        own = covariance[where] if covariance.ndim == 3 else covariance
        result[where] = _whitener(own, present, rows) @ data[where]
    return result


class Joint(NamedTuple):
    """The rows side by side, of samples in one piece where the same rows, `present` (m,), count.

    The data (k, r, p + 1) are anything with the Gram matrix of [W y] of all rows; zeros for rows
    that do not count. Where no row is named as present, the data are of each row for itself.
    """

    piece: int
    present: IntArray
    samples: int
    data: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Condensed(Record):
    """A regression reduced to factors with the Gram matrix of its data: all that linear estimators
    need.

    It is kept in consecutive pieces, too: leaving some out shows what the estimate hangs on.
    Gauss-Markov with a full covariance also needs the rows side by side, by piece and by which rows
    count (`joint`).
    """

    factors: FloatArray  # of [W_j y_j] for each row j, (r, k, p + 1)
    samples: int
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    counts: IntArray  # samples of each row that count, (r,)
    sums: FloatArray | None  # of [W_j y_j] over the samples, (r, p + 1); None once whitened
    pieces: FloatArray  # factors of each, (u, r, k, p + 1)
    lengths: IntArray  # samples of each piece, (u,)
    recording: IntArray  # of each piece, (u,)
    # pieces are whole repetitions of one motion (periods), so what differs between them is noise
    repeats: bool
    joint: tuple[Joint, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", named(self.parameters, self.units))
        check_shapes(self, factors=(len(self.rows), None, len(self.parameters) + 1))

    @property
    def covariance(self) -> None:
        """Of the effort noise; not kept. Whiten the blocks before condensing them if it is
        known.
        """

    @property
    def equations(self) -> IntArray:
        """Equations of each row that say something: none of a row that is zero throughout, (r,)."""
        return np.where(self.factors.any(axis=(1, 2)), self.counts, 0)

    def stretches(self, count: int) -> IntArray:
        """Return a label for each piece such that there are about so many contiguous stretches,
        (u,).
        """
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
        return self._mapped(
            lambda data: data[..., keep], parameters, [self.units[i] for i in columns]
        )

    def transform(
        self, matrix: FloatArray, parameters: Sequence[str], units: Sequence[str]
    ) -> Condensed:
        """Return the problem with [W y] @ matrix in the place of [W y]; see
        `Regression.transform`.
        """
        return self._mapped(lambda data: np.asarray(data @ matrix), parameters, units)

    def _mapped(
        self,
        change: Callable[[FloatArray], FloatArray],
        parameters: Sequence[str],
        units: Sequence[str],
    ) -> Condensed:
        return replace(
            self,
            factors=change(self.factors),
            pieces=change(self.pieces),
            parameters=named(parameters, units),
            units=tuple(units),
            sums=None if self.sums is None else change(self.sums),
            joint=None
            if self.joint is None
            else tuple(j._replace(data=change(j.data)) for j in self.joint),
        )

    @cached_property
    def patterns(self) -> tuple[Joint, ...]:
        """The rows side by side, one factor for each set of rows that count together, over all
        pieces.
        """
        if self.joint is None:
            raise InvalidInput(
                "a full covariance between rows needs the factor of all rows side by side; "
                "condense "
                "with joint=True, or fit the regression itself"
            )
        found: dict[bytes, list[Joint]] = {}
        for part in self.joint:
            found.setdefault(part.present.tobytes(), []).append(part)
        return tuple(
            _shortened(
                Joint(
                    piece=0,
                    present=same[0].present,
                    samples=sum(part.samples for part in same),
                    data=np.concatenate([part.data for part in same]),
                )
            )
            for same in found.values()
        )

    def whitened(self, covariance: FloatArray) -> Condensed:
        """Return the problem with rows whose noise is independent and of variance 1; see
        `Regression.whitened`.
        """
        r = len(self.rows)
        if covariance.ndim == 3:
            raise InvalidInput(
                "a covariance per sample needs the samples; whiten the blocks before condensing "
                "them "
                "(`Regression.whitened`) and fit with the identity as covariance"
            )
        check_shape(covariance, (r, r), "covariance of the rows")
        if not np.any(covariance - np.diag(np.diag(covariance))):
            scale = np.diag(inverse_root(covariance, self.rows))[:, None, None]
            factors, pieces = self.factors * scale, self.pieces * scale
        else:
            root = {
                part.present.tobytes(): _whitener(covariance, part.present, self.rows)
                for part in self.patterns
            }
            white = [[np.zeros((r, 0, len(self.parameters) + 1))] for _ in self.pieces]
            for part in self.joint or ():
                white[part.piece].append(
                    np.einsum("ij,kjc->ikc", root[part.present.tobytes()], part.data)
                )
            pieces = _padded([np.concatenate(parts, axis=1) for parts in white])
            factors = _total(pieces)
        return replace(
            self, factors=factors, pieces=pieces, joint=None, sums=None, row_units=("1",) * r
        )

    def residual(self, values: FloatArray) -> Residual:
        """Return what values (p,) leave of the equations that count."""
        n = np.append(-values, 1.0)
        sums = np.full(len(self.rows), np.nan) if self.sums is None else self.sums @ n
        return Residual.of(
            np.linalg.norm(self.factors @ n, axis=1),
            np.linalg.norm(self.factors[:, :, -1], axis=1),
            sums,
            self.samples,
            self.counts,
        )

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

    Tall matrices are reduced in pieces that stay in cache and the pieces' factors again: R of
    stacked R's is R of all.
    """
    width = matrix.shape[1]
    piece = max(128, 4 * width)
    while len(matrix) > 2 * piece:
        count = len(matrix) // piece
        factors = np.asarray(
            np.linalg.qr(matrix[: count * piece].reshape(count, piece, width), mode="r")
        )
        matrix = np.vstack([factors.reshape(-1, width), matrix[count * piece :]])
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _shortened(part: Joint) -> Joint:
    """Return data as triangular factors where that makes them shorter."""
    k, r, c = part.data.shape
    together = [part.present] if len(part.present) else [np.array([j]) for j in range(r)]
    width = len(together[0]) * c
    if k <= 2 * width:
        return part
    short = np.zeros((width, r, c))
    for own in together:
        short[:, own] = triangle(part.data[:, own].reshape(k, width)).reshape(width, len(own), c)
    return part._replace(data=short)


def _padded(parts: Sequence[FloatArray]) -> FloatArray:
    """Return factors (r, k, c) of different k as one array, zeros below the shorter ones."""
    r, _, c = parts[0].shape
    every = np.zeros((len(parts), r, max(part.shape[1] for part in parts), c))
    for place, part in zip(every, parts):
        place[:, : part.shape[1]] = part
    return every


def _total(pieces: FloatArray) -> FloatArray:
    """Return the factors of all pieces together, (u, r, k, c) -> (r, c, c)."""
    return np.stack(
        [triangle(pieces[:, j].reshape(-1, pieces.shape[3])) for j in range(pieces.shape[1])]
    )


class _Pieces:
    """A problem on its way through `condense`.

    The shortest pieces are single groups, or `SHORTEST` samples; piece n of a recording holds those
    numbered n 2^level to (n + 1) 2^level - 1. When there are more than `PIECES`, the level rises
    and neighbours are joined. So the pieces do not depend on the blocks the problem comes in.
    """

    def __init__(self, joint: bool) -> None:
        self.joint = joint
        self.level = 0
        self.parts: dict[Place, dict[bytes, Joint]] = {}  # by the rows that are present
        self._seen: dict[int, int] = {}  # samples of each recording
        self._groups: dict[int, dict[int, int]] = {}  # and its groups, numbered

    def add(self, block: Regression) -> None:
        """Take in the next samples."""
        recording = np.zeros(len(block), np.int64) if block.recording is None else block.recording
        number = self._numbers(block, recording)
        while True:
            places = set(zip(recording.tolist(), (number >> self.level).tolist())) | set(self.parts)
            if len(places) <= PIECES or _whole(places):
                break
            self.level += 1
            self._halve(whole=False)
        data, piece = block.stacked(), number >> self.level
        edges = np.flatnonzero((np.diff(piece) != 0) | (np.diff(recording) != 0)) + 1
        for part in np.split(np.arange(len(block)), edges):
            place = (int(recording[part[0]]), int(piece[part[0]]))
            self._put(place, Joint(0, NO_ROW, len(part), data[part]))
            if self.joint:
                for present, where in patterns(
                    None if block.mask is None else block.mask[part], data[part].shape[:2]
                ):
                    self._put(place, Joint(0, present, len(where), data[part[where]]))

    def _numbers(self, block: Regression, recording: IntArray) -> IntArray:
        """Return the shortest piece each sample belongs to, counted within its recording, (t,)."""
        number = np.empty(len(block), np.int64)
        for label in np.unique(recording).tolist():
            own = np.flatnonzero(recording == label)
            if block.group is None:
                start = self._seen.get(label, 0)
                number[own] = (start + np.arange(len(own))) // SHORTEST
                self._seen[label] = start + len(own)
            else:
                known = self._groups.setdefault(label, {})
                number[own] = [
                    known.setdefault(group, len(known)) for group in block.group[own].tolist()
                ]
        return number

    def _put(self, place: Place, part: Joint) -> None:
        """Add samples to a piece."""
        there, key = self.parts.setdefault(place, {}), part.present.tobytes()
        if key in there:
            part = part._replace(
                samples=there[key].samples + part.samples,
                data=np.concatenate([there[key].data, part.data]),
            )
        there[key] = _shortened(part)

    def _halve(self, whole: bool) -> None:
        """Join neighbouring pieces of each recording, or, where each is in one piece, neighbouring
        recordings.
        """
        old, self.parts = self.parts, {}
        for k, (place, parts) in enumerate(sorted(old.items())):
            for part in parts.values():
                self._put((k >> 1, 0) if whole else (place[0], place[1] >> 1), part)

    def join(self, other: Condensed) -> None:
        """Take in a condensed problem, as recordings of its own; neighbours are joined beyond
        `PIECES`.
        """
        start = max((place[0] for place in self.parts), default=-1) + 1
        places = [
            (start + int(label), int((other.recording[:k] == label).sum()))
            for k, label in enumerate(other.recording)
        ]
        for place, data, samples in zip(places, other.pieces, other.lengths.tolist()):
            self._put(place, Joint(0, NO_ROW, samples, data.transpose(1, 0, 2)))
        for part in other.joint or ():
            self._put(places[part.piece], part)
        while len(self.parts) > PIECES:
            self._halve(_whole(self.parts))

    def value(self, like: Regression | Condensed, **facts: Any) -> Condensed:
        """Return what was taken in, with the names of a problem."""
        places = sorted(self.parts)
        apart = [self.parts[place][b""] for place in places]
        pieces = _padded([part.data.transpose(1, 0, 2) for part in apart])
        joint = [
            part._replace(piece=k)
            for k, place in enumerate(places)
            for key, part in sorted(self.parts[place].items())
            if key
        ]
        return Condensed(
            factors=_total(pieces),
            pieces=pieces,
            recording=np.array([place[0] for place in places]),
            lengths=np.array([part.samples for part in apart]),
            samples=sum(part.samples for part in apart),
            rows=like.rows,
            row_units=like.row_units,
            parameters=like.parameters,
            units=like.units,
            joint=tuple(joint) if self.joint else None,
            **facts,
        )


def _whole(places: Collection[Place]) -> bool:
    """Tell whether every recording is in one piece."""
    return len(places) == len({recording for recording, _ in places})


@one_blas_thread
def condense(blocks: Iterable[Regression], *, joint: bool = False) -> Condensed:
    """Reduce a problem, in blocks in the order of time, to triangular factors of 40 to 80
    consecutive pieces.

    `joint` also keeps the rows side by side, for Gauss-Markov with a full covariance.
    """
    first: Regression | None = None
    kept = _Pieces(joint)
    counts, sums, repeats = np.zeros(1, np.int64), np.zeros(1), False
    for block in blocks:
        first = block if first is None else first
        check_alike(first, block)
        counts = counts + block.counts
        sums = sums + block.stacked().sum(axis=0)
        repeats |= block.group is not None
        if len(block):
            kept.add(block)
    if first is None or not kept.parts:
        raise InvalidInput("there is no block to condense; the recording is empty")
    return kept.value(first, counts=counts, sums=sums, repeats=repeats)


@one_blas_thread
def merge(first: Condensed, second: Condensed) -> Condensed:
    """Return two condensed problems as one: the recordings of the first, then those of the second.

    The bits of the result depend on both and on their order, on nothing else.
    """
    check_alike(first, second)
    if first.sums is None or second.sums is None or (first.joint is None) != (second.joint is None):
        raise InvalidInput(
            "only problems as `condense` returns them can be merged, both with the rows side by "
            "side or "
            "none; condense the logs again"
        )
    kept = _Pieces(first.joint is not None)
    kept.join(first)
    kept.join(second)
    return kept.value(
        first,
        counts=first.counts + second.counts,
        sums=first.sums + second.sums,
        repeats=first.repeats or second.repeats,
    )


def check_alike(first: Regression | Condensed, other: Regression | Condensed) -> None:
    """Raise `InvalidInput` unless rows, parameters and the units of both are the same."""
    for name, what in (
        ("rows", "rows"),
        ("parameters", "parameters"),
        ("row_units", "units of the rows"),
        ("units", "units of the parameters"),
    ):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            differ = sorted(set(one) ^ set(two))
            raise InvalidInput(
                f"recordings of different robots or parameter sets cannot be joined: the {what} "
                f"differ"
                + (
                    f" ({', '.join(differ[:4])}{', ...' if len(differ) > 4 else ''})"
                    if differ
                    else ""
                )
            )
