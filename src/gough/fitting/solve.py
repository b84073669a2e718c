"""The step all linear estimators share: solve whitened rows by QR, and name what cannot be
solved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, FloatArray
from gough.core.errors import NotIdentifiable
from gough.fitting.regression import Regression

# smallest / largest singular value of the regressor with columns of unit length
RANK_TOLERANCE = 1e-10


class Solution(NamedTuple):
    """Solution of whitened rows [W y]."""

    values: FloatArray  # argmin |W values - y|, (p,)
    root: FloatArray  # square root of (W^T W)^-1: root @ root.T, (p, p)
    condition_number: float  # of W with columns of unit length
    residual_norm: float  # |W values - y|

    @property
    def extended(self) -> FloatArray:
        """[values; -1], (p + 1,): [W y] @ extended is the residual W values - y."""
        return np.append(self.values, -1.0)


def solve(stacked: FloatArray, parameters: tuple[str, ...]) -> Solution:
    """Solve min |W chi - y| by QR with columns scaled to unit length; BG13 (24).

    With W D^-1 = Q R and R = U S V^T:  chi = D^-1 V S^-1 U^T Q^T y,  (W^T W)^-1 = (D^-1 V
    S^-1)(D^-1 V S^-1)^T. `stacked` holds [W y] of all rows, or any factors with the same Gram
    matrix, (..., p + 1).
    """
    p = len(parameters)
    stacked = stacked.reshape(-1, p + 1)
    scale = np.linalg.norm(stacked[:, :p], axis=0)
    size = np.where(scale > 0, scale, 1.0)
    triangle = np.zeros((p + 1, p + 1))
    factor = np.linalg.qr(np.column_stack([stacked[:, :p] / size, stacked[:, p]]), mode="r")
    triangle[: len(factor)] = factor
    u, s, vt = np.linalg.svd(triangle[:p, :p])
    if p and (not scale.all() or s[-1] <= RANK_TOLERANCE * s[0]):
        raise not_identifiable(triangle[:p, :p], scale, parameters)
    root = (vt.T / s) / size[:, None]
    return Solution(
        root @ (u.T @ triangle[:p, p]),
        root,
        float(s[0] / s[-1]) if p else 1.0,
        float(abs(triangle[p, p])),
    )


def initial_values(problem: Regression) -> FloatArray:
    """Return values that explain a problem with rows of alike size, small where it does not tell,
    (p,).
    """
    data = problem.stacked()
    size = np.sqrt(np.mean(data[:, :, -1:] ** 2, axis=0)) + TINY
    rows = (data / size).reshape(-1, data.shape[2])
    scale = np.maximum(np.linalg.norm(rows[:, :-1], axis=0), TINY)
    return np.asarray(np.linalg.lstsq(rows[:, :-1] / scale, rows[:, -1], rcond=1e-9)[0] / scale)


def not_identifiable(
    columns: FloatArray, scale: FloatArray, parameters: tuple[str, ...]
) -> NotIdentifiable:
    """Return the error that says which parameters only act together, keeping the first ones as BG13
    (22) does.

    If column k equals sum_i c_i (column i), the data see chi_k only inside chi_i + c_i chi_k.
    Columns (k, p) are a factor of the regressor with unit length, `scale` (p,) their lengths
    before; zero where a parameter does not act.
    """
    kept: list[int] = []
    silent: list[str] = []
    combinations: dict[str, dict[str, float]] = {}
    threshold = (
        10 * np.sqrt(len(parameters)) * RANK_TOLERANCE * max(np.linalg.norm(columns, 2), 1.0)
    )
    for k, name in enumerate(parameters):
        if scale[k] == 0:
            silent.append(name)
            continue
        share = (
            np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0] if kept else np.zeros(0)
        )
        if kept and np.linalg.norm(columns[:, kept] @ share - columns[:, k]) <= threshold:
            combinations[name] = {
                parameters[i]: float(c * scale[k] / scale[i])
                for i, c in zip(kept, share)
                if abs(c) > 1e-6
            }
        else:
            kept.append(k)
    sentences = [f"'{name}' does not act on any row" for name in silent]
    for name, others in combinations.items():
        sums = ", ".join(
            f"{other} {'+' if c > 0 else '-'} " + f"{abs(c):.4g} {name}".removeprefix("1 ")
            for other, c in others.items()
        )
        sentences.append(f"'{name}' only acts together with others, as {sums}")
    if (
        not sentences
    ):  # dependent as a whole, no single column close enough to the span of those before it
        weakest = np.linalg.svd(columns)[2][-1]
        names = [parameters[i] for i in np.argsort(-np.abs(weakest))[:4]]
        sentences = [f"the columns of {', '.join(names)} and others are dependent"]
    dependent = [*silent, *combinations]
    shown = "; ".join(sentences[:6]) + (
        f"; and {len(sentences) - 6} more" if len(sentences) > 6 else ""
    )
    return NotIdentifiable(
        f"{len(dependent) or 'some'} of {len(parameters)} parameters cannot be determined: "
        f"{shown}. Leave out "
        f"{', '.join(dependent[:6]) or 'one of them'} (their effect moves into the others), tie "
        f"them, or add a motion "
        "that separates them",
        dependent=dependent,
        combinations=combinations,
    )
