"""The step all linear estimators share: solve whitened rows by QR, and name what cannot be solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray, check_finite
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.names import parameters as named
from gough.core.regression import Condensed, Regression, condense

Problem = Regression | Condensed
RANK_TOLERANCE = 1e-10  # smallest / largest singular value of the regressor with columns of unit length


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Solution of whitened rows [W y].

    Args:
        values: argmin |W values - y|, (p,).
        root: Square root of (W^T W)^-1: root @ root.T, (p, p).
        condition_number: Of W with columns of unit length.
        residual_norm: |W values - y|.
    """

    values: FloatArray
    root: FloatArray
    condition_number: float
    residual_norm: float

    @property
    def extended(self) -> FloatArray:
        """[values; -1], (p + 1,): [W y] @ extended is the residual W values - y."""
        return np.append(self.values, -1.0)


def solve(stacked: FloatArray, parameters: tuple[str, ...]) -> Solution:
    """Solve min |W chi - y| by QR with columns scaled to unit length; BG13 (24).

    With W D^-1 = Q R and R = U S V^T:  chi = D^-1 V S^-1 U^T Q^T y,  (W^T W)^-1 = (D^-1 V S^-1)(D^-1 V S^-1)^T.

    Args:
        stacked: [W y] of all rows, or any factor with the same Gram matrix, (k, p + 1).
        parameters: Names, (p,).

    Raises:
        NotIdentifiable: Columns are zero or dependent; names them, `dependent` and `combinations` carry the numbers.
    """
    p = len(parameters)
    scale = np.linalg.norm(stacked[:, :p], axis=0)
    size = np.where(scale > 0, scale, 1.0)
    triangle = np.zeros((p + 1, p + 1))
    factor = np.linalg.qr(np.column_stack([stacked[:, :p] / size, stacked[:, p]]), mode="r")
    triangle[: len(factor)] = factor
    u, s, vt = np.linalg.svd(triangle[:p, :p])
    if p and (not scale.all() or s[-1] <= RANK_TOLERANCE * s[0]):
        raise not_identifiable(triangle[:p, :p], scale, parameters)
    root = (vt.T / s) / size[:, None]
    return Solution(values=root @ (u.T @ triangle[:p, p]), root=root,
                    condition_number=float(s[0] / s[-1]) if p else 1.0, residual_norm=float(abs(triangle[p, p])))


def not_identifiable(columns: FloatArray, scale: FloatArray, parameters: tuple[str, ...]) -> NotIdentifiable:
    """Return the error that says which parameters only act together, keeping the first ones as BG13 (22) does.

    If column k equals sum_i c_i (column i), the data see chi_k only inside chi_i + c_i chi_k.

    Args:
        columns: Factor of the regressor with columns of unit length, (k, p).
        scale: Their lengths before, (p,); zero where a parameter does not act at all.
        parameters: Names, (p,).
    """
    kept: list[int] = []
    silent: list[str] = []
    combinations: dict[str, dict[str, float]] = {}
    threshold = 10 * np.sqrt(len(parameters)) * RANK_TOLERANCE * max(np.linalg.norm(columns, 2), 1.0)
    for k, name in enumerate(parameters):
        if scale[k] == 0:
            silent.append(name)
            continue
        share = np.linalg.lstsq(columns[:, kept], columns[:, k], rcond=None)[0] if kept else np.zeros(0)
        if kept and np.linalg.norm(columns[:, kept] @ share - columns[:, k]) <= threshold:
            combinations[name] = {parameters[i]: float(c * scale[k] / scale[i])
                                  for i, c in zip(kept, share) if abs(c) > 1e-6}
        else:
            kept.append(k)
    sentences = [f"'{name}' does not act on any row" for name in silent]
    for name, others in combinations.items():
        sums = ", ".join(f"{other} {'+' if c > 0 else '-'} {_factor(abs(c))}{name}" for other, c in others.items())
        sentences.append(f"'{name}' only acts together with others, as {sums}")
    if not sentences:  # dependent as a whole, no single column close enough to the span of those before it
        weakest = np.linalg.svd(columns)[2][-1]
        names = [parameters[i] for i in np.argsort(-np.abs(weakest))[:4]]
        sentences = [f"the columns of {', '.join(names)} and others are dependent"]
    dependent = [*silent, *combinations]
    shown = "; ".join(sentences[:6]) + (f"; and {len(sentences) - 6} more" if len(sentences) > 6 else "")
    return NotIdentifiable(
        f"{len(dependent) or 'some'} of {len(parameters)} parameters cannot be determined: {shown}. Leave out "
        f"{', '.join(dependent[:6]) or 'one of them'} (their effect moves into the others), tie them, or add a motion "
        "that separates them", dependent=dependent, combinations=combinations)


def _factor(value: float) -> str:
    text = f"{value:.4g}"
    return "" if text == "1" else text + " "


def condensed_form(problem: Problem, *, joint: bool = False) -> Condensed:
    """Return the triangular factors of a problem and check that it holds more equations than parameters.

    Raises:
        InvalidInput: Not a problem, empty, or condensed without the `joint` factor asked for.
        NotIdentifiable: Fewer equations than parameters.
    """
    if isinstance(problem, Condensed):
        if joint and problem.joint is None:
            raise InvalidInput("a full covariance between rows needs the factor of all rows side by side; condense "
                               "with joint=True, or fit the regression itself")
        result = problem
    elif isinstance(problem, Regression):
        result = condense(replace(problem, group=None, replicates=None).blocks(), joint=joint)
    else:
        raise InvalidInput(f"an estimator takes a Regression or its condensed form, not {type(problem).__name__}")
    check_finite(result.factors, "condensed problem")
    equations = result.samples * len(result.rows)
    if equations <= len(result.parameters):
        raise NotIdentifiable(f"{equations} equations for {len(result.parameters)} parameters; "
                              "expected more equations than parameters: record longer or leave out parameters",
                              equations=equations, parameters=len(result.parameters))
    return result


def transform(problem: Problem, matrix: FloatArray, parameters: Sequence[str], units: Sequence[str]) -> Problem:
    """Return the problem with [W y] @ matrix in the place of [W y]: columns left out, added up or moved to the effort.

    Args:
        problem: With p parameters.
        matrix: (p + 1, q + 1), its last column the new effort.
        parameters, units: Of the q new columns.
    """
    p, r = len(problem.parameters), len(problem.rows)
    names, new_units = named(parameters, units), tuple(units)
    if isinstance(problem, Regression):
        shift, gain = problem.regressor @ matrix[:p, -1], matrix[p, -1]
        return replace(
            problem, regressor=problem.regressor @ matrix[:p, :-1] + problem.effort[:, :, None] * matrix[p, :-1],
            effort=gain * problem.effort + shift, parameters=names, units=new_units,
            replicates=None if problem.replicates is None else gain * problem.replicates + shift)
    factors = np.stack([np.linalg.qr(factor @ matrix, mode="r") for factor in problem.factors])
    moments, joint = problem.group_moments, problem.joint
    if joint is not None:
        wide = np.concatenate([joint[:, : r * p].reshape(-1, r, p), joint[:, r * p :, None]], axis=2) @ matrix
        flat = np.concatenate([wide[:, :, :-1].reshape(len(wide), -1), wide[:, :, -1]], axis=1)
        joint = np.asarray(np.linalg.qr(flat, mode="r"))
    return replace(problem, factors=factors, parameters=names, units=new_units, joint=joint,
                   group_moments=None if moments is None else matrix.T @ moments @ matrix)


def fix_parameters(problem: Problem, known: Mapping[str, float]) -> Problem:
    """Take some parameters as known: their effect moves to the effort, y - W_known chi_known."""
    for name in known:
        if name not in problem.parameters:
            raise InvalidInput(f"cannot fix '{name}': the problem has no such parameter", name=name)
    p = len(problem.parameters)
    keep = [i for i, name in enumerate(problem.parameters) if name not in known]
    matrix = np.eye(p + 1)[:, [*keep, p]]
    matrix[:p, -1] = [-known.get(name, 0.0) for name in problem.parameters]
    return transform(problem, matrix, [problem.parameters[i] for i in keep], [problem.units[i] for i in keep])


def tie_parameters(problem: Problem, groups: Mapping[str, Sequence[str]]) -> Problem:
    """Make the members of each group one parameter of the given name, e.g. {'leg*.fv': ('leg1.fv', 'leg2.fv')}.

    The tied parameter stands where its first member stood.
    """
    place: dict[str, str] = {}
    for label, members in groups.items():
        for name in members:
            if name not in problem.parameters:
                raise InvalidInput(f"cannot tie '{name}': the problem has no such parameter", name=name)
            if name in place:
                raise InvalidInput(f"cannot tie '{name}' twice", name=name)
            place[name] = label
        if len({problem.units[problem.parameters.index(name)] for name in members}) != 1:
            raise InvalidInput(f"parameters of different units cannot be tied as '{label}'", name=label)
    labels = [place.get(name, name) for name in problem.parameters]
    names = list(dict.fromkeys(labels))
    matrix = np.zeros((len(labels) + 1, len(names) + 1))
    for i, label in enumerate(labels):
        matrix[i, names.index(label)] = 1.0
    matrix[-1, -1] = 1.0
    return transform(problem, matrix, names, [problem.units[labels.index(name)] for name in names])


def residual_statistics(
    problem: Problem, condensed: Condensed, values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return rms, rms residual / rms effort, and mean of the residual per row, (r,); no mean without samples."""
    left = condensed.factors @ np.append(values, -1.0)
    rms = np.linalg.norm(left, axis=1) / np.sqrt(condensed.samples)
    effort = np.linalg.norm(condensed.factors[:, :, -1], axis=1) / np.sqrt(condensed.samples)
    mean = None
    if isinstance(problem, Regression):
        mean = (problem.effort - problem.regressor @ values).mean(axis=0)
    relative = np.divide(rms, effort, out=np.full_like(rms, np.inf), where=effort > 0)
    return rms, relative, mean
