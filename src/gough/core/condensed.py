"""A linear problem reduced to factors, in memory that does not grow with the log.

R of stacked blocks is R of the stacked R's, so factors add up over blocks, logs and machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray, Value, check_finite, check_shape, check_shapes
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of
from gough.core.names import parameters as named

if TYPE_CHECKING:
    from gough.core.regression import Regression

PIECES = 80  # pieces kept at most: 40 to 80 of a long log, so that twenty stretches are nearly of one length
SHORTEST = 8  # samples of the shortest piece


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

    Raises:
        InvalidInput: Not symmetric positive definite; says which row or how far.
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

    Args:
        data: Columns of t samples and r rows, (t, r, c).
        covariance: Of the rows, (r, r) or (t, r, r). Where rows of a sample do not count, that of the others.
        mask: Which count, (t, r), or None.
        rows: Names, for messages.
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
    """The rows side by side, of samples in one piece where the same rows count.

    Args:
        piece: Which piece.
        present: The rows that count, (m,).
        samples: How many samples.
        data: Anything with the Gram matrix of [W y] of all rows, (k, r, p + 1); zeros for rows that do not count.
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
        counts: Samples of each row that count, (r,); all of them by default.
        sums: Sums of [W_j y_j] over the samples, (r, p + 1), or None.
        pieces: The factors of consecutive pieces, (u, r, k, p + 1), or None. Leaving some out shows what the estimate
            hangs on.
        lengths: Samples of each piece, (u,).
        recording: Recording of each piece, (u,).
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
    counts: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    sums: FloatArray | None = None
    pieces: FloatArray | None = None
    lengths: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    recording: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    repeats: bool = False
    joint: tuple[Joint, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.counts):
            object.__setattr__(self, "counts", np.full(len(self.rows), self.samples))
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
            self, factors=change(self.factors), parameters=named(parameters, units), units=tuple(units),
            sums=None if self.sums is None else change(self.sums),
            pieces=None if self.pieces is None else change(self.pieces),
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
                  data=_side_by_side(np.concatenate([part.data for part in same]), same[0].present))
            for same in found.values())

    def whitened(self, covariance: FloatArray) -> Condensed:
        """Return the problem with rows whose noise is independent and of variance 1; see `Regression.whitened`.

        Raises:
            InvalidInput: A covariance per sample, or a full one without the rows side by side.
        """
        r = len(self.rows)
        if covariance.ndim == 3:
            raise InvalidInput("a covariance per sample needs the samples; whiten the blocks before condensing them "
                               "(`Regression.whitened`) and fit with the identity as covariance")
        check_shape(covariance, (r, r), "covariance of the rows")
        if not np.any(covariance - np.diag(np.diag(covariance))):
            scale = np.diag(inverse_root(covariance, self.rows))[:, None, None]
            return replace(self, factors=self.factors * scale, joint=None, sums=None, row_units=("1",) * r,
                           pieces=None if self.pieces is None else self.pieces * scale)
        parts = self.joint if self.joint and self.pieces is not None else self.patterns
        pieces: dict[int, list[FloatArray]] = {}
        roots: dict[bytes, FloatArray] = {}
        for part in parts:
            key = part.present.tobytes()
            if key not in roots:
                roots[key] = np.zeros((r, r))
                place = np.ix_(part.present, part.present)
                roots[key][place] = inverse_root(covariance[place], tuple(self.rows[j] for j in part.present))
            pieces.setdefault(part.piece, []).append(np.einsum("ij,kjc->ikc", roots[key], part.data))
        every = _padded([np.concatenate(pieces.get(u, [np.zeros((r, 0, len(self.parameters) + 1))]), axis=1)
                         for u in range(max(pieces, default=0) + 1 if self.pieces is None else len(self.pieces))])
        return replace(self, factors=_total(every), joint=None, sums=None, row_units=("1",) * r,
                       pieces=None if self.pieces is None else every)

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


def _side_by_side(data: FloatArray, present: IntArray) -> FloatArray:
    """Return data (k, r, c) as a triangular factor of the rows that count, where that makes it shorter."""
    k, r, c = data.shape
    width = len(present) * c
    if k <= 2 * width:
        return data
    short = np.zeros((width, r, c))
    short[:, present] = triangle(data[:, present].reshape(k, width)).reshape(width, len(present), c)
    return short


def _padded(parts: Sequence[FloatArray]) -> FloatArray:
    """Return factors (r, k, c) of different k as one array, zeros below the shorter ones."""
    r, _, c = parts[0].shape
    every = np.zeros((len(parts), r, max(part.shape[1] for part in parts), c))
    for place, part in zip(every, parts):
        place[:, : part.shape[1]] = part
    return every


def _total(pieces: FloatArray) -> FloatArray:
    """Return the factors of all pieces together, (u, r, k, c) -> (r, c, c)."""
    return np.stack([triangle(pieces[:, j].reshape(-1, pieces.shape[3])) for j in range(pieces.shape[1])])


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
            self._coarsen()
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
        self.joint[key] = replace(part, data=_side_by_side(data, part.present),
                                  samples=part.samples + (0 if known is None else known.samples))

    def _coarsen(self) -> None:
        self.level += 1
        self._move(lambda place: (place[0], place[1] >> 1))

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
        assert other.pieces is not None
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
        pieces = _padded([self.rows[place] for place in places])
        number = {place: k for k, place in enumerate(places)}
        return Condensed(
            factors=_total(pieces), pieces=pieces, recording=np.array([p[0] for p in places]),
            lengths=np.array([self.lengths[place] for place in places]),
            rows=like.rows, row_units=like.row_units, parameters=like.parameters, units=like.units,
            joint=None if self.joint is None else tuple(replace(part, piece=number[key[0]])
                                                        for key, part in sorted(self.joint.items())), **facts)


@one_blas_thread
def condense(blocks: Iterable[Regression], *, joint: bool = False) -> Condensed:
    """Reduce a stream of regressions to triangular factors, in memory that does not grow with the stream.

    R of stacked blocks is R of the stacked R's, so the factors add up over blocks, logs and machines. Those of 40 to
    80 consecutive pieces are kept apart.

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

    Raises:
        InvalidInput: Other rows or parameters, or one without pieces or sums, or the rows side by side in one only.
    """
    check_alike(first, second)
    for part in (first, second):
        if part.pieces is None or part.sums is None or (part.joint is None) != (first.joint is None):
            raise InvalidInput("only problems as `condense` returns them can be merged, both with the rows side by "
                               "side or none; condense the logs again")
    kept = _Pieces(first.joint is not None)
    kept.join(first)
    kept.join(second)
    assert first.sums is not None
    assert second.sums is not None
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
