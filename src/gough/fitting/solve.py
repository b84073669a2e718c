"""The step that all linear estimators share: solve whitened equations by QR."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import combination_text
from gough.core.errors import NotIdentifiable

# smallest / largest singular value of the regressor with unit columns
RANK_TOLERANCE = 1e-10
# of a dependent column: smaller ones are not printed
NEGLIGIBLE_COEFFICIENT = 1e-6
MAX_SENTENCES = 6  # dependent parameters that a message explains


class Solution(NamedTuple):
    """Solution of whitened equations [W y]."""

    values: FloatArray  # argmin |W values - y|, (p,)
    root: FloatArray  # square root of (W^T W)^-1: root @ root.T, (p, p)
    condition_number: float  # of W with columns of unit length
    residual_norm: float  # |W values - y|

    @property
    def extended(self) -> FloatArray:
        """[values; -1], (p + 1,): [W y] @ extended is the residual W values - y."""
        return np.append(self.values, -1.0)


def solve(stacked: FloatArray, parameters: tuple[str, ...], *, deficient: bool = False) -> Solution:
    """Solve min |W chi - y| by QR with columns scaled to unit length; BG13 (24).

    With W D^-1 = Q R and R = U S V^T:

        chi = D^-1 V S^-1 U^T Q^T y,    (W^T W)^-1 = (D^-1 V S^-1) (D^-1 V S^-1)^T.

    Args:
        stacked: [W y] of all rows, or any factors with the same Gram
            matrix, (..., p + 1).
        parameters: Names of the columns, for the message.
        deficient: Accept equations that do not determine all
            parameters; what they do not determine stays zero.

    Raises:
        NotIdentifiable: Columns are dependent, unless `deficient`.
    """
    p = len(parameters)
    stacked = stacked.reshape(-1, p + 1)
    column_norm = np.linalg.norm(stacked[:, :p], axis=0)
    scale = np.where(column_norm > 0, column_norm, 1.0)
    triangle = np.zeros((p + 1, p + 1))
    factor = np.linalg.qr(np.column_stack([stacked[:, :p] / scale, stacked[:, p]]), mode="r")
    triangle[: len(factor)] = factor
    u, singular, vt = np.linalg.svd(triangle[:p, :p])
    threshold = RANK_TOLERANCE * singular[0] if p else 0.0
    full_rank = not p or (column_norm.all() and singular[-1] > threshold)
    if not full_rank and not deficient:
        raise not_identifiable(triangle[:p, :p], column_norm, parameters)
    inverse = np.zeros(p)
    np.divide(1.0, singular, out=inverse, where=singular > threshold)
    root = (vt.T * inverse) / scale[:, None]
    projection = u.T @ triangle[:p, p]
    unexplained = np.linalg.norm(projection[inverse == 0])
    condition = float(singular[0] / singular[-1]) if p and full_rank else (np.inf if p else 1.0)
    return Solution(
        values=root @ projection,
        root=root,
        condition_number=condition,
        residual_norm=float(np.hypot(triangle[p, p], unexplained)),
    )


def not_identifiable(
    columns: FloatArray, column_norm: FloatArray, parameters: tuple[str, ...]
) -> NotIdentifiable:
    """Return the error that names parameters which only act together.

    The first parameters are kept, as in BG13 (22): if column k equals
    sum_i c_i (column i), the data determine only the sums chi_i + c_i
    chi_k.

    Args:
        columns: A factor of the regressor with columns of unit length,
            (k, p).
        column_norm: Their lengths before; zero where a parameter has no
            effect, (p,).
        parameters: Names of the columns.
    """
    kept: list[int] = []
    without_effect: list[str] = []
    combinations: dict[str, dict[str, float]] = {}
    largest = max(np.linalg.norm(columns, 2), 1.0)
    threshold = 10 * np.sqrt(len(parameters)) * RANK_TOLERANCE * largest
    for k, name in enumerate(parameters):
        if column_norm[k] == 0:
            without_effect.append(name)
            continue
        if not kept:
            kept.append(k)
            continue
        coefficients = np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0]
        distance = np.linalg.norm(columns[:, kept] @ coefficients - columns[:, k])
        if distance > threshold:
            kept.append(k)
            continue
        combinations[name] = {}
        for i, coefficient in zip(kept, coefficients):
            if abs(coefficient) > NEGLIGIBLE_COEFFICIENT:
                ratio = column_norm[k] / column_norm[i]
                combinations[name][parameters[i]] = float(coefficient * ratio)
    sentences = [f"'{name}' has no effect on any joint equation" for name in without_effect]
    for name, others in combinations.items():
        sums = []
        for other, coefficient in others.items():
            sums.append(combination_text((1.0, coefficient), (other, name)))
        sentences.append(f"'{name}' only acts together with others, as {', '.join(sums)}")
    if not sentences:  # dependent as a whole, no single column close enough to those before it
        weakest = np.linalg.svd(columns)[2][-1]
        names = [parameters[i] for i in np.argsort(-np.abs(weakest))[:4]]
        sentences = [f"the columns of {', '.join(names)} and others are dependent"]
    dependent = [*without_effect, *combinations]
    shown = "; ".join(sentences[:MAX_SENTENCES])
    if len(sentences) > MAX_SENTENCES:
        shown += f"; and {len(sentences) - MAX_SENTENCES} more"
    return NotIdentifiable(
        f"{len(dependent) or 'some'} of {len(parameters)} parameters cannot be determined: {shown}."
        f" Leave out {', '.join(dependent[:MAX_SENTENCES]) or 'one of them'} (their effect moves "
        "into the others), tie them, or add a motion that separates them",
        dependent=dependent,
        combinations=combinations,
    )


def null_space(rows: FloatArray, tolerance: float) -> FloatArray:
    """Return an orthonormal basis of the vectors that all rows (k, n) map to zero, (n, m).

    Args:
        rows: The rows, (k, n).
        tolerance: Singular values below this fraction of the largest
            are taken as zero.
    """
    _, singular_values, directions = np.linalg.svd(rows)
    largest = singular_values.max(initial=0.0)
    rank = int((singular_values > tolerance * largest).sum())
    return np.asarray(directions[rank:].T)
