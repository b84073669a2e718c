"""Sufficient statistics of a regression by log, block and row.

Everything that fits, leaves out blocks, merges logs or predicts from a
linear model works on them, in memory that does not grow with the logs.
The statistic of block b and row j is a triangular factor R with R^T R =
[W y]^T [W y], or that Gram matrix itself: the factor keeps all digits,
the Gram matrix is cheap where hundreds of candidate columns are
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gough.core.arrays import FloatArray, IntArray, check_shape, check_shapes
from gough.core.errors import InvalidInput
from gough.core.names import Parameter, index_of, parameters as named
from gough.core.record import Record
from gough.fitting.whitening import inverse_root, padded_inverse_root

if TYPE_CHECKING:
    from gough.fitting.regression import Regression

# Added to the unit diagonal of a Gram matrix before Cholesky: columns
# that are combinations of others share their coefficients, and a
# millionth of an effort is taken as rounding.
GRAM_JITTER = 1e-12
# of the terms of a row: a smaller residual is rounding, not noise
ROUNDING_LEVEL = 1e-9
# fewest rows of a tall matrix that are reduced at once
FACTOR_CHUNK_ROWS = 128


class Residual(NamedTuple):
    """Size of the residual of parameter values by row, over the valid equations."""

    rms: FloatArray  # (r,) [row unit]
    # rms residual / rms effort; infinite where there is no effort, (r,)
    relative: FloatArray
    mean: FloatArray  # effort minus prediction, (r,) [row unit]
    samples: int
    n_valid: IntArray  # valid equations of each row, (r,)

    @classmethod
    def of(
        cls,
        *,
        residual_norm: FloatArray,
        effort_norm: FloatArray,
        residual_sum: FloatArray,
        samples: int,
        n_valid: IntArray,
    ) -> Residual:
        """Return the figures from norms and sums over the valid equations, (r,) each."""
        count = np.maximum(n_valid, 1)
        relative = np.full_like(residual_norm, np.inf)
        np.divide(residual_norm, effort_norm, out=relative, where=effort_norm > 0)
        return cls(
            rms=residual_norm / np.sqrt(count),
            relative=relative,
            mean=residual_sum / count,
            samples=samples,
            n_valid=n_valid,
        )


class JointFactor(NamedTuple):
    """Rows side by side, of the samples of one block where the same rows are valid.

    Gauss-Markov with correlated rows needs the products between rows,
    which factors of single rows do not have.
    """

    block: int
    valid_rows: IntArray  # (m,)
    samples: int
    # any matrix with the Gram matrix of [W y] of all rows, (k, r, p +
    # 1)
    stacked: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockStatistics(Record):
    """Sufficient statistics of a regression by log, block and row.

    Blocks are contiguous in time, or whole repetitions of one motion.
    Leaving blocks out gives cross-validation and jackknife without a
    further look at the samples.
    """

    # factor (k, p + 1) or Gram matrix (p + 1, p + 1) of [W y], (b, r,
    # k, p + 1)
    blocks: FloatArray
    form: Literal["factor", "gram"] = "factor"  # what `blocks` holds
    block_samples: IntArray  # samples of each block, (b,)
    block_valid: IntArray  # valid equations of each block and row, (b, r)
    recording: IntArray  # log of each block, (b,)
    rows: tuple[str, ...]
    row_units: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    # of [W_j y_j] over the samples, (r, p + 1); None once whitened
    sums: FloatArray | None
    # blocks are repetitions of one motion, so that only noise differs
    # between them
    repeats: bool
    # rows side by side; None if they were not kept
    joint: tuple[JointFactor, ...] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parameters", named(self.parameters, self.units))
        n_blocks = len(self.blocks)
        n_rows = len(self.rows)
        check_shapes(
            self,
            blocks=(n_blocks, n_rows, None, len(self.parameters) + 1),
            block_samples=(n_blocks,),
            block_valid=(n_blocks, n_rows),
            recording=(n_blocks,),
        )

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def covariance(self) -> None:
        """Covariance of the effort noise; not kept: whiten the samples first if it is known."""

    @property
    def samples(self) -> int:
        """Number of samples of all blocks."""
        return int(self.block_samples.sum())

    @property
    def n_valid(self) -> IntArray:
        """Number of valid equations of each row, (r,)."""
        return np.asarray(self.block_valid.sum(axis=0))

    @property
    def equations(self) -> IntArray:
        """Number of equations of each row that are not zero throughout, (r,)."""
        return np.where(self.factors.any(axis=(1, 2)), self.n_valid, 0)

    @cached_property
    def block_factors(self) -> FloatArray:
        """Factor of [W_j y_j] by block and row, (b, r, k, p + 1)."""
        if self.form == "factor":
            return self.blocks
        return factors_of_grams(self.blocks)

    @cached_property
    def grams(self) -> FloatArray:
        """Gram matrix of [W_j y_j] by block and row, (b, r, p + 1, p + 1)."""
        if self.form == "gram":
            return self.blocks
        return np.asarray(np.swapaxes(self.blocks, -1, -2) @ self.blocks)

    @cached_property
    def factors(self) -> FloatArray:
        """Factor of [W_j y_j] of each row over all blocks, (r, k, p + 1)."""
        if self.form == "gram":
            return factors_of_grams(self.blocks.sum(axis=0))
        width = self.blocks.shape[3]
        stacked_rows = np.swapaxes(self.blocks, 0, 1).reshape(len(self.rows), -1, width)
        return np.stack([triangular_factor(stacked) for stacked in stacked_rows])

    def merged_labels(self, count: int) -> IntArray:
        """Return a label for each block such that about `count` contiguous groups result, (b,).

        No group reaches over the end of a log.
        """
        labels = np.empty(len(self.recording), np.int64)
        first_label = 0
        for log in np.unique(self.recording):
            blocks = np.flatnonzero(self.recording == log)
            fraction = self.block_samples[blocks].sum() / max(self.samples, 1)
            groups = int(np.clip(round(count * fraction), 1, len(blocks)))
            labels[blocks] = first_label + np.arange(len(blocks)) * groups // len(blocks)
            first_label += groups
        return labels

    def select(self, parameters: Sequence[str]) -> BlockStatistics:
        """Keep some parameters, in the given order; the others are taken as zero."""
        columns = [index_of(self.parameters, name) for name in parameters]
        kept = np.array([*columns, len(self.parameters)])
        blocks = self.blocks[..., kept]
        if self.form == "gram":
            blocks = blocks[..., kept, :]
        joint = None
        if self.joint is not None:
            joint = tuple(one._replace(stacked=one.stacked[..., kept]) for one in self.joint)
        return replace(
            self,
            blocks=blocks,
            parameters=tuple(self.parameters[i] for i in columns),
            units=tuple(self.units[i] for i in columns),
            sums=None if self.sums is None else self.sums[:, kept],
            joint=joint,
        )

    def transform(
        self,
        matrix: FloatArray,
        parameters: Sequence[str],
        units: Sequence[str],
    ) -> BlockStatistics:
        """Return the statistics with [W y] @ matrix in the place of [W y].

        See `Regression.transform`.
        """
        blocks = self.blocks @ matrix
        if self.form == "gram":
            blocks = matrix.T @ blocks
        joint = None
        if self.joint is not None:
            joint = tuple(one._replace(stacked=one.stacked @ matrix) for one in self.joint)
        return replace(
            self,
            blocks=blocks,
            parameters=named(parameters, units),
            units=tuple(units),
            sums=None if self.sums is None else self.sums @ matrix,
            joint=joint,
        )

    def without(self, blocks: Iterable[int]) -> BlockStatistics:
        """Return the statistics of all blocks but some, without sums and rows side by side."""
        kept = np.setdiff1d(np.arange(len(self)), list(blocks))
        return replace(
            self,
            blocks=self.blocks[kept],
            block_samples=self.block_samples[kept],
            block_valid=self.block_valid[kept],
            recording=self.recording[kept],
            sums=None,
            joint=None,
        )

    def row(self, index: int) -> BlockStatistics:
        """Return the statistics of one row."""
        one = slice(index, index + 1)
        return replace(
            self,
            blocks=self.blocks[:, one],
            block_valid=self.block_valid[:, one],
            rows=self.rows[one],
            row_units=self.row_units[one],
            sums=None if self.sums is None else self.sums[one],
            joint=None,
        )

    def weighted(self, weights: FloatArray) -> BlockStatistics:
        """Return the statistics of all rows as one row, each with a weight, (r,)."""
        gram = np.einsum("r,brcd->bcd", weights, self.grams)
        return replace(
            self,
            blocks=gram[:, None],
            form="gram",
            block_valid=self.block_valid.sum(axis=1, keepdims=True),
            rows=("all rows",),
            row_units=("1",),
            sums=None,
            joint=None,
        )

    @cached_property
    def joint_rows(self) -> tuple[JointFactor, ...]:
        """Rows side by side over all blocks, one entry for each set of rows valid together."""
        if self.joint is None:
            raise InvalidInput(
                "a full covariance between rows needs the rows side by side; ask for the "
                "statistics with joint=True, or fit the regression itself"
            )
        by_rows: dict[bytes, list[JointFactor]] = {}
        for factor in self.joint:
            by_rows.setdefault(factor.valid_rows.tobytes(), []).append(factor)
        together = []
        for factors in by_rows.values():
            whole = JointFactor(
                block=0,
                valid_rows=factors[0].valid_rows,
                samples=sum(factor.samples for factor in factors),
                stacked=np.concatenate([factor.stacked for factor in factors]),
            )
            together.append(shortened_joint(whole))
        return tuple(together)

    def whitened(self, covariance: FloatArray) -> BlockStatistics:
        """Return the statistics of rows whose noise is independent and of variance 1.

        See `Regression.whitened`; the covariance is (r, r). [product of
        the row units]
        """
        r = len(self.rows)
        if covariance.ndim == 3:
            raise InvalidInput(
                "a covariance by sample needs the samples; whiten the regression "
                "(`Regression.whitened`) before its statistics are made, and fit with the identity "
                "as covariance"
            )
        check_shape(covariance, (r, r), "covariance of the rows")
        off_diagonal = covariance - np.diag(np.diag(covariance))
        if np.any(off_diagonal):
            blocks = self._whitened_jointly(covariance)
        else:
            scale = np.diag(inverse_root(covariance, self.rows))
            blocks = self.block_factors * scale[:, None, None]
        return replace(
            self,
            blocks=blocks,
            form="factor",
            joint=None,
            sums=None,
            row_units=("1",) * r,
        )

    def _whitened_jointly(self, covariance: FloatArray) -> FloatArray:
        """Return block factors of whitened rows from the rows side by side, (b, r, k, p + 1)."""
        roots = {}
        for factor in self.joint_rows:
            key = factor.valid_rows.tobytes()
            roots[key] = padded_inverse_root(covariance, factor.valid_rows, self.rows)
        empty = np.zeros((len(self.rows), 0, len(self.parameters) + 1))
        white: list[list[FloatArray]] = [[empty] for _ in range(len(self))]
        for factor in self.joint or ():
            root = roots[factor.valid_rows.tobytes()]
            white[factor.block].append(np.einsum("ij,kjc->ikc", root, factor.stacked))
        return padded([np.concatenate(factors, axis=1) for factors in white])

    def residual_statistics(self, values: FloatArray) -> Residual:
        """Return size and mean of the residual of values (p,) by row."""
        extended = np.append(-values, 1.0)
        if self.sums is None:
            residual_sum = np.full(len(self.rows), np.nan)
        else:
            residual_sum = self.sums @ extended
        return Residual.of(
            residual_norm=np.linalg.norm(self.factors @ extended, axis=1),
            effort_norm=np.linalg.norm(self.factors[:, :, -1], axis=1),
            residual_sum=residual_sum,
            samples=self.samples,
            n_valid=self.n_valid,
        )

    def squared_residuals(self, values: FloatArray) -> FloatArray:
        """Return the sum of squared residuals by block and row, (b, r).

        Args:
            values: Of the parameters, (p,), or other ones for each row,
                (r, p), or for each block and row, (b, r, p).
        """
        shape = (len(self), len(self.rows), 1)
        by_block = np.broadcast_to(values, (*shape[:2], len(self.parameters)))
        extended = np.concatenate([-by_block, np.ones(shape)], axis=2)
        products = np.einsum("brkc,brc->brk", self.blocks, extended)
        if self.form == "gram":
            squares = np.einsum("brk,brk->br", products, extended)
            return np.asarray(np.maximum(squares, 0.0))
        return np.asarray((products**2).sum(axis=2))

    def rounding(self, values: FloatArray) -> FloatArray:
        """Return the level of each row below which a residual of values is rounding, (r,).

        It is 1 for rows of zeros.
        """
        terms = self.factors * np.append(values, 1.0)
        largest = np.linalg.norm(terms, axis=1).max(axis=1)
        rms = largest / np.sqrt(np.maximum(self.n_valid, 1))
        return np.asarray(np.where(rms > 0, ROUNDING_LEVEL * rms, 1.0))

    def sampled(self) -> Regression | None:
        """Return the problem sample by sample: the samples are no longer there."""
        return None

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return the statistics themselves; `joint` demands the rows side by side."""
        if joint:
            _ = self.joint_rows
        return self


def triangular_factor(matrix: FloatArray) -> FloatArray:
    """Return the upper triangular factors R of matrices (..., k, c), R^T R = matrix^T matrix.

    Tall matrices are reduced in chunks that stay in cache, and the
    factors of the chunks again: R of stacked R's is R of all.
    """
    *matrices, length, width = matrix.shape
    chunk = max(FACTOR_CHUNK_ROWS, 4 * width)
    while length > 2 * chunk:
        count = length // chunk
        chunks = matrix[..., : count * chunk, :].reshape(*matrices, count, chunk, width)
        factors = np.asarray(np.linalg.qr(chunks, mode="r"))
        remainder = matrix[..., count * chunk :, :]
        matrix = np.concatenate([factors.reshape(*matrices, -1, width), remainder], axis=-2)
        length = matrix.shape[-2]
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def factors_of_grams(grams: FloatArray) -> FloatArray:
    """Return upper triangular R with R^T R = G up to rounding, (..., c, c) -> (..., c, c)."""
    scale = np.sqrt(np.maximum(np.diagonal(grams, axis1=-2, axis2=-1), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    unit = grams / (scale[..., :, None] * scale[..., None, :])
    width = grams.shape[-1]
    jitter = GRAM_JITTER
    while True:
        try:
            lower = np.linalg.cholesky(unit + jitter * np.eye(width))
            break
        except np.linalg.LinAlgError:
            jitter *= 10
    return np.asarray(np.swapaxes(lower, -1, -2) * scale[..., None, :])


def shortened_joint(factor: JointFactor) -> JointFactor:
    """Return rows side by side with a triangular factor where that is shorter."""
    k, r, c = factor.stacked.shape
    rows = factor.valid_rows
    width = len(rows) * c
    if k <= 2 * width:
        return factor
    short = np.zeros((width, r, c))
    triangle = triangular_factor(factor.stacked[:, rows].reshape(k, width))
    short[:, rows] = triangle.reshape(width, len(rows), c)
    return factor._replace(stacked=short)


def padded(factors: Sequence[FloatArray]) -> FloatArray:
    """Return factors (r, k, c) of different k as one array, zeros below the shorter ones."""
    r, _, c = factors[0].shape
    longest = max(factor.shape[1] for factor in factors)
    together = np.zeros((len(factors), r, longest, c))
    for target, factor in zip(together, factors):
        target[:, : factor.shape[1]] = factor
    return together


def check_same_columns(
    first: Regression | BlockStatistics, other: Regression | BlockStatistics
) -> None:
    """Raise `InvalidInput` unless rows, parameters and the units of both are the same."""
    compared = {
        "rows": "rows",
        "parameters": "parameters",
        "row_units": "units of the rows",
        "units": "units of the parameters",
    }
    for name, what in compared.items():
        one = getattr(first, name)
        two = getattr(other, name)
        if one == two:
            continue
        differing = sorted(set(one) ^ set(two))
        shown = ", ".join(differing[:4]) + (", ..." if len(differing) > 4 else "")
        raise InvalidInput(
            "recordings of different robots or parameter sets cannot be joined: the "
            f"{what} differ" + (f" ({shown})" if differing else "")
        )
