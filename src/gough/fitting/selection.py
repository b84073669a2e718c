"""Choosing the model: which parameters the data carry, which friction, which legs are alike, which
answers disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.names import index_of, tied_name
from gough.core.statistics import f_tail
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.problem import Estimator, LinearProblem, Problem, tie_parameters

LEVEL = 0.05  # of the F-test
WEAKEST = 5  # directions listed
MENTIONED = 0.3  # share of a direction from which a parameter is named


@dataclass(frozen=True, kw_only=True, eq=False)
class EliminationStep:
    """One model on the way down: what was removed to get here, its estimate, and how it
    predicts.
    """

    removed: str | None  # before this step; None for the full model
    estimate: Estimate
    ratio: float  # largest over smallest relative standard deviation
    held_out: FloatArray | None  # relative error of each row on data not used, (r,)

    @property
    def held_out_error(self) -> float | None:
        """Root mean square over the rows of the relative held-out error."""
        return None if self.held_out is None else float(np.sqrt(np.mean(self.held_out**2)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Elimination:
    """The way from all base parameters to the essential ones."""

    steps: tuple[EliminationStep, ...]  # first the full model
    ratio: float  # what the ratio of relative standard deviations was to fall below
    reached: bool  # whether it did

    @property
    def estimate(self) -> Estimate:
        """The last model: the essential parameters as BG13 define them."""
        return self.steps[-1].estimate

    @property
    def removed(self) -> tuple[str, ...]:
        """What was eliminated, in that order."""
        return tuple(step.removed for step in self.steps if step.removed is not None)

    @property
    def stop(self) -> int:
        """Step to stop at: the smallest model whose held-out error is within 1 % of the best; the
        last without it.
        """
        errors = [step.held_out_error for step in self.steps]
        known = [error for error in errors if error is not None]
        return max(
            (i for i, error in enumerate(known) if error <= 1.01 * min(known)),
            default=len(errors) - 1,
        )


@one_blas_thread
def essential_parameters(
    problem: Problem, estimator: Estimator, ratio: float = 10.0, *, held_out: Problem | None = None
) -> Elimination:
    """Remove the parameter of largest relative standard deviation and estimate again, until max /
    min < ratio (BG13).

    Drive gains are never removed. The prediction error of data that were held out is recorded at
    every step.
    """
    if not ratio > 1:
        raise InvalidInput(
            f"ratio is {ratio}, expected more than 1; BG13 advise 10 to 30", ratio=ratio
        )
    steps: list[EliminationStep] = []
    removed: str | None = None
    names = list(problem.parameters)
    while True:
        estimate = estimator.fit(problem.select(names))
        spread = estimate.relative_noise_std
        steps.append(
            EliminationStep(
                removed=removed,
                estimate=estimate,
                ratio=float(spread.max() / spread.min()),
                held_out=None if held_out is None else held_out_error(estimate, held_out),
            )
        )
        reached = steps[-1].ratio < ratio
        free = [
            (relative, name)
            for name, relative in zip(estimate.parameters, spread)
            if not name.is_gain
        ]
        if reached or not free or len(names) == 1:
            return Elimination(steps=tuple(steps), ratio=ratio, reached=reached)
        removed = max(free)[1]
        names.remove(removed)


def held_out_error(estimate: Estimate, held_out: Problem) -> FloatArray:
    """Return rms of the prediction error over rms of the effort, per row, on data not used, (r,).

    For a `GainProblem` the estimate's own gains turn currents into efforts.
    """
    table = dict(zip(estimate.parameters, estimate.values))
    part = held_out.select(estimate.parameters)
    missing = [name for name in part.parameters if name not in table]
    if missing:
        raise InvalidInput(
            f"the estimate has no {missing[0]}; fix it in the held-out problem: held_out.fix(...)"
        )
    return part.residual_statistics(np.array([table[name] for name in part.parameters])).relative


Structure = Sequence[str | Sequence[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class StructureResult:
    """One structure of the comparison: its estimate, or why there is none; held-out error per row,
    (r,), or None.
    """

    name: str
    parameters: tuple[str, ...]
    estimate: Estimate | None
    held_out: FloatArray | None
    reason: str = ""


def compare_structures(
    problem: LinearProblem,
    structures: Mapping[str, Structure],
    estimator: Estimator,
    *,
    held_out: LinearProblem | None = None,
) -> dict[str, StructureResult]:
    """Estimate each structure and compare by the condition of the correlation matrix (AH09 (11))
    and held-out error.

    A structure is a list of parameter names; a tuple of names inside it is tied to one parameter
    (`("leg1.fv", "leg2.fv")` becomes `leg*.fv`). A structure the data cannot determine is listed
    with the reason. AH09 prefers a small condition number.
    """
    results = {}
    for name, structure in structures.items():
        groups: dict[str, tuple[str, ...]] = {}
        for item in structure:
            if not isinstance(item, str):
                label = tied_name(item)
                groups[" = ".join(item) if label in groups else label] = tuple(item)
        flat = [n for item in structure for n in ((item,) if isinstance(item, str) else item)]
        part = tie_parameters(problem.select(flat), groups)
        estimate, error, reason = None, None, ""
        try:
            estimate = estimator.fit(part)
            if held_out is not None:
                error = held_out_error(estimate, tie_parameters(held_out.select(flat), groups))
        except NotIdentifiable as why:
            reason = str(why)
        results[name] = StructureResult(
            name=name, parameters=part.parameters, estimate=estimate, held_out=error, reason=reason
        )
    return results


@dataclass(frozen=True, kw_only=True)
class WeakDirection:
    """A combination of parameters the data hardly see, with its singular value relative to the
    largest.
    """

    relative: float
    direction: str


def weak_directions(problem: Problem) -> tuple[WeakDirection, ...]:
    """Return the directions in parameter space that act least on the efforts, the weakest first; at
    rank loss too.

    Rows are divided by their rms effort and columns by their length, so the answer does not depend
    on units.
    """
    statistics = problem.statistics()
    effort = np.linalg.norm(statistics.factors[:, :, -1], axis=1)
    stacked = np.concatenate(
        statistics.factors[:, :, :-1] / np.where(effort > 0, effort, 1.0)[:, None, None]
    )
    scale = np.linalg.norm(stacked, axis=0)
    values, rows = np.linalg.svd(stacked / np.where(scale > 0, scale, 1.0))[1:]
    found = []
    for value, row in list(zip(values, rows))[: -WEAKEST - 1 : -1]:
        main = [i for i in np.argsort(-np.abs(row)) if abs(row[i]) >= MENTIONED]
        signs = np.sign(row) * np.sign(row[main[0]]) if main else row
        words = " ".join(
            f"{'+' if signs[i] > 0 else '-'} {abs(row[i]):.2f} {statistics.parameters[i]}"
            for i in main
        )
        found.append(
            WeakDirection(relative=float(value / values[0]), direction=words.removeprefix("+ "))
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Symmetry:
    """F-test of parameters being equal, e.g. one kind of friction over all legs."""

    name: str
    f: float
    constraints: float
    degrees_of_freedom: float
    p: float

    @property
    def differ(self) -> bool:
        """Equality is rejected."""
        return self.p < LEVEL


def tie_test(estimate: Estimate, groups: Sequence[Sequence[str]]) -> tuple[Symmetry, ...]:
    """Test whether the parameters of each group are equal, and last all groups together.

    With C the differences to the first member, T = (C chi)^T (C P C^T)^-1 (C chi), k constraints
    and d degrees of freedom behind P: F = T / k under white noise (the usual F-test of tied against
    free), and Hotelling's F = T (d - k + 1) / (k d) where P is a scatter matrix.
    """
    if not groups or any(len(group) < 2 for group in groups):
        raise InvalidInput("a tie test needs groups of at least two parameters")
    blocks = []
    for group in groups:
        first, *others = (index_of(estimate.parameters, name) for name in group)
        blocks.append(np.eye(len(estimate))[others] - np.eye(len(estimate))[first])
    return tuple(
        _f_test(name, estimate, rows)
        for name, rows in zip(
            (*map(tied_name, groups), "all together"), (*blocks, np.concatenate(blocks))
        )
    )


def _f_test(name: str, estimate: Estimate, rows: FloatArray) -> Symmetry:
    k, involved = len(rows), np.any(rows != 0, axis=0)
    d = float(estimate.degrees_of_freedom[involved].min())
    difference = rows @ estimate.values
    scale = np.sqrt(np.diag(rows @ estimate.covariance @ rows.T))
    unit = rows / scale[:, None]
    total = float(
        difference
        / scale
        @ np.linalg.solve(unit @ estimate.covariance @ unit.T, difference / scale)
    )
    if estimate.uncertainty == "white" or d < 3 * len(
        estimate
    ):  # then correlations are those of white noise
        f = total / k
    else:
        f, d = total * (d - k + 1) / (k * d), d - k + 1
    if not d >= 1:
        raise InvalidInput(
            f"{k} constraints but {d:.3g} degrees of freedom; test fewer at once or use more "
            f"periods"
        )
    return Symmetry(name=name, f=f, constraints=float(k), degrees_of_freedom=d, p=f_tail(f, k, d))


@dataclass(frozen=True, kw_only=True, eq=False)
class Disagreement:
    """Two answers that hardly can both be right; `distance` in joint standard deviations, infinite
    for boxes.
    """

    parameter: str
    first: str
    second: str
    distance: float
    reason: str


def compare(results: Mapping[str, Estimate | Enclosure], sigmas: float = 3.0) -> list[Disagreement]:
    """Return which of several answers, by label, contradict each other.

    Two estimates disagree when they differ by more than `sigmas` joint standard deviations
    sqrt(s1^2 + s2^2); an estimate and a box when the value lies outside; two boxes when they do not
    meet. Estimates from the same data are correlated, so the first test is lenient.
    """
    if not results or not sigmas > 0:
        raise InvalidInput("comparing needs at least one result and a positive number of sigmas")
    found = []
    for name in dict.fromkeys(name for result in results.values() for name in result.parameters):
        having = [
            (label, *_range(result, name))
            for label, result in results.items()
            if name in result.parameters
        ]
        for (first, a, b, std), (second, c, d, other) in combinations(having, 2):
            gap, joint = max(a - d, c - b, 0.0), np.hypot(std, other)  # infinite with a box
            distance = float(gap / joint) if 0 < joint < np.inf else np.inf if gap > 0 else 0.0
            reason = f"{distance:.1f} joint standard deviations apart"
            if np.isinf(joint):
                boxes = np.isinf(std) and np.isinf(other)
                reason = (
                    f"{'the boxes are apart' if boxes else 'the value is outside the box'} by "
                    f"{gap:.3g}"
                )
            if distance > sigmas:
                found.append(
                    Disagreement(
                        parameter=name, first=first, second=second, distance=distance, reason=reason
                    )
                )
    return found


def _range(result: Estimate | Enclosure, name: str) -> tuple[float, float, float]:
    """Return lower and upper value, and the standard deviation, infinite of a box."""
    if isinstance(result, Enclosure):
        return (*result[name], np.inf)
    return result[name], result[name], float(result.std[result.parameters.index(name)])
