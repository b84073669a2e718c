"""Model selection: essential parameters, model structures, weak directions, tied parameters.

Also the comparison of several estimates of the same parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.blas import one_blas_thread
from gough.core.display import combination_text
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.names import index_of, tied_name
from gough.core.notices import Notice
from gough.core.statistics import f_tail
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.problem import (
    Estimator,
    LinearProblem,
    Problem,
    tie_parameters,
)

TIE_TEST_LEVEL = 0.05  # significance level of the F-test
MAX_WEAK_DIRECTIONS = 5  # listed by `weak_directions`
# of a direction of unit length, from which a parameter is named
MIN_NAMED_COMPONENT = 0.3
# held-out errors within this ratio of the best are equal
HELD_OUT_TIE_RATIO = 1.01


@dataclass(frozen=True, kw_only=True, eq=False)
class EliminationStep:
    """One model of the elimination, with its estimate and held-out error."""

    # parameter removed before this step; None for the full model
    removed: str | None
    estimate: Estimate
    ratio: float  # largest over smallest relative standard error
    # relative error of each row on held-out data, (r,)
    held_out: FloatArray | None

    @property
    def held_out_error(self) -> float | None:
        """Root mean square over the rows of the relative held-out error."""
        if self.held_out is None:
            return None
        return float(np.sqrt(np.mean(self.held_out**2)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Elimination:
    """Steps from all base parameters to the essential ones; none if nothing was to be removed."""

    steps: tuple[EliminationStep, ...] = ()  # first the full model
    # bound of the largest over the smallest relative standard error
    ratio: float = np.inf
    reached: bool = True  # whether the last model is below the bound

    @property
    def estimate(self) -> Estimate:
        """The last model: the essential parameters as BG13 define them."""
        return self.steps[-1].estimate

    @property
    def removed(self) -> tuple[str, ...]:
        """Eliminated parameters, in that order."""
        return tuple(step.removed for step in self.steps if step.removed is not None)

    @property
    def stop(self) -> int:
        """Index of the smallest model with a held-out error within 1 % of the best.

        Without held-out data it is the last one.
        """
        errors = []
        for step in self.steps:
            if step.held_out_error is not None:
                errors.append(step.held_out_error)
        if not errors:
            return len(self.steps) - 1
        threshold = HELD_OUT_TIE_RATIO * min(errors)
        return max(i for i, error in enumerate(errors) if error <= threshold)

    def history(self) -> tuple[str, ...]:
        """Return one line for each step."""
        lines = []
        for k, step in enumerate(self.steps):
            what = "all base parameters"
            if step.removed is not None:
                what = f"without {step.removed}"
            line = f"{len(step.estimate):3d} parameters, {what}: ratio {step.ratio:.1f}"
            if step.held_out_error is not None:
                line += f", held-out error {100 * step.held_out_error:.2f} %"
                if k == self.stop:
                    line += "  <- kept: smallest model that predicts best"
            lines.append(line)
        return tuple(lines)

    def notices(self) -> list[Notice]:
        """Name parameters that left their interval when others were removed."""
        if not self.steps:
            return []
        full = self.steps[0].estimate
        reduced = self.steps[self.stop].estimate
        changed = []
        for name, estimate, std in zip(reduced.parameters, reduced.values, reduced.std):
            if abs(estimate - full[name]) > 1.96 * std:
                changed.append(name)
        if not changed:
            return []
        n_removed = len(full) - len(reduced)
        notice = Notice(
            rule="essential parameters",
            level="info",
            where=", ".join(changed),
            text=f"{len(changed)} of {len(reduced)} essential parameters changed by more than "
            f"their 95 % interval when {n_removed} others were removed; the model predicts, but "
            "standard errors hold only if the removed parameters are zero",
            advice="identify without `essential` to see them",
        )
        return [notice]


@one_blas_thread
def essential_parameters(
    problem: Problem,
    estimator: Estimator,
    ratio: float = 10.0,
    *,
    held_out: Problem | None = None,
) -> Elimination:
    """Remove parameters of large relative standard error until max / min < ratio (BG13).

    The parameter of largest relative standard error is removed, and the
    others are estimated again. Drive gains are never removed.

    Args:
        problem: With all parameters.
        estimator: Used at every step.
        ratio: Bound of the largest over the smallest relative standard
            error.
        held_out: Data whose prediction error is recorded at every step.
    """
    if not ratio > 1:
        raise InvalidInput(
            f"ratio is {ratio}, expected more than 1; BG13 advise 10 to 30",
            ratio=ratio,
        )
    steps: list[EliminationStep] = []
    removed: str | None = None
    names = list(problem.parameters)
    while True:
        estimate = estimator.fit(problem.select(names))
        relative_std = estimate.relative_noise_std
        prediction_error = None
        if held_out is not None:
            prediction_error = held_out_error(estimate, held_out)
        step = EliminationStep(
            removed=removed,
            estimate=estimate,
            ratio=float(relative_std.max() / relative_std.min()),
            held_out=prediction_error,
        )
        steps.append(step)
        reached = step.ratio < ratio
        removable = []
        for name, ratio_of_name in zip(estimate.parameters, relative_std):
            if not name.is_gain:
                removable.append((ratio_of_name, name))
        if reached or not removable or len(names) == 1:
            return Elimination(steps=tuple(steps), ratio=ratio, reached=reached)
        removed = max(removable)[1]
        names.remove(removed)


def held_out_error(estimate: Estimate, held_out: Problem) -> FloatArray:
    """Return rms prediction error / rms effort of each row on held-out data, (r,).

    For a `GainProblem` the gains of the estimate convert currents into
    efforts.
    """
    values_by_name = dict(zip(estimate.parameters, estimate.values))
    problem = held_out.select(estimate.parameters)
    for name in problem.parameters:
        if name not in values_by_name:
            raise InvalidInput(
                f"the estimate has no {name}; fix it in the held-out problem: held_out.fix(...)"
            )
    values = np.array([values_by_name[name] for name in problem.parameters])
    return problem.residual_statistics(values).relative


Structure = Sequence[str | Sequence[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class StructureResult:
    """Estimate of one structure of a comparison, or the reason why there is none."""

    name: str
    parameters: tuple[str, ...]
    estimate: Estimate | None  # None if the fit failed
    # relative error of each row on held-out data, (r,)
    held_out: FloatArray | None
    reason: str = ""  # why there is no estimate


def compare_structures(
    problem: LinearProblem,
    structures: Mapping[str, Structure],
    estimator: Estimator,
    *,
    held_out: LinearProblem | None = None,
) -> dict[str, StructureResult]:
    """Estimate each structure, to compare condition numbers (AH09 (11)) and held-out errors.

    A structure is a list of parameter names; a tuple of names inside it
    is tied to one parameter (`("leg1.fv", "leg2.fv")` becomes
    `leg*.fv`). A structure the data cannot determine is listed with the
    reason. AH09 prefers a small condition number.
    """
    results = {}
    for name, structure in structures.items():
        names, groups = _names_and_groups(structure)
        reduced = tie_parameters(problem.select(names), groups)
        estimate = None
        error = None
        reason = ""
        try:
            estimate = estimator.fit(reduced)
            if held_out is not None:
                error = held_out_error(estimate, tie_parameters(held_out.select(names), groups))
        except NotIdentifiable as exception:
            reason = str(exception)
        results[name] = StructureResult(
            name=name,
            parameters=reduced.parameters,
            estimate=estimate,
            held_out=error,
            reason=reason,
        )
    return results


def _names_and_groups(
    structure: Structure,
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return all parameters of a structure, and its tied ones by the name of their tie."""
    names: list[str] = []
    groups: dict[str, tuple[str, ...]] = {}
    for entry in structure:
        if isinstance(entry, str):
            names.append(entry)
            continue
        names.extend(entry)
        label = tied_name(entry)
        if label in groups:
            label = " = ".join(entry)
        groups[label] = tuple(entry)
    return names, groups


@dataclass(frozen=True, kw_only=True)
class WeakDirection:
    """A combination of parameters with little effect on the efforts."""

    relative: float  # singular value over the largest
    direction: str  # e.g. `0.71 a - 0.70 b`


def weak_directions(problem: Problem) -> tuple[WeakDirection, ...]:
    """Return the directions in parameter space with the least effect, the weakest first.

    Rows are divided by their rms effort and columns by their length, so
    that units do not matter. The problem may be rank-deficient.
    """
    statistics = problem.statistics()
    effort_norm = np.linalg.norm(statistics.factors[:, :, -1], axis=1)
    row_scale = np.where(effort_norm > 0, effort_norm, 1.0)
    stacked = np.concatenate(statistics.factors[:, :, :-1] / row_scale[:, None, None])
    column_norm = np.linalg.norm(stacked, axis=0)
    scaled = stacked / np.where(column_norm > 0, column_norm, 1.0)
    _, singular_values, vectors = np.linalg.svd(scaled)
    weakest_first = np.arange(len(singular_values))[::-1]
    directions = []
    for k in weakest_first[:MAX_WEAK_DIRECTIONS]:
        directions.append(
            WeakDirection(
                relative=float(singular_values[k] / singular_values[0]),
                direction=_direction_text(vectors[k], statistics.parameters),
            )
        )
    return tuple(directions)


def _direction_text(vector: FloatArray, parameters: Sequence[str]) -> str:
    """Return the large components of a direction of unit length, the largest first and positive."""
    order = np.argsort(-np.abs(vector))
    named = [i for i in order if abs(vector[i]) >= MIN_NAMED_COMPONENT]
    components = vector[named] * np.sign(vector[order[0]])
    return combination_text(components, [parameters[i] for i in named], ".2f")


@dataclass(frozen=True, kw_only=True)
class Symmetry:
    """F-test of parameters being equal, e.g. one kind of friction over all legs."""

    name: str
    f: float  # test statistic
    constraints: float  # number of equalities tested
    degrees_of_freedom: float  # of the denominator
    p: float  # probability of a larger f if the parameters are equal

    @property
    def differ(self) -> bool:
        """Whether equality is rejected."""
        return self.p < TIE_TEST_LEVEL


def tie_test(estimate: Estimate, groups: Sequence[Sequence[str]]) -> tuple[Symmetry, ...]:
    """Test whether the parameters of each group are equal, and last all groups together.

    With C the differences to the first member, T = (C chi)^T (C P
    C^T)^-1 (C chi), k constraints and d degrees of freedom of P: F = T
    / k under white noise (the usual F-test of tied against free), and
    Hotelling's F = T (d - k + 1) / (k d) where P is a scatter matrix.
    """
    if not groups or any(len(group) < 2 for group in groups):
        raise InvalidInput("a tie test needs groups of at least two parameters")
    identity = np.eye(len(estimate))
    tests = []
    constraints = []
    for group in groups:
        members = [index_of(estimate.parameters, name) for name in group]
        differences = identity[members[1:]] - identity[members[0]]
        tests.append(_f_test(tied_name(group), estimate, differences))
        constraints.append(differences)
    tests.append(_f_test("all together", estimate, np.concatenate(constraints)))
    return tuple(tests)


def _f_test(name: str, estimate: Estimate, constraints: FloatArray) -> Symmetry:
    """Test constraints @ values = 0, constraints (k, p)."""
    k = len(constraints)
    involved = np.any(constraints != 0, axis=0)
    freedom = float(estimate.degrees_of_freedom[involved].min())
    std = np.sqrt(np.diag(constraints @ estimate.covariance @ constraints.T))
    scaled = constraints / std[:, None]
    difference = constraints @ estimate.values / std
    correlation = scaled @ estimate.covariance @ scaled.T
    statistic = float(difference @ np.linalg.solve(correlation, difference))
    # With few degrees of freedom the correlations are those of white
    # noise.
    if estimate.uncertainty == "white" or freedom < 3 * len(estimate):
        f = statistic / k
    else:
        f = statistic * (freedom - k + 1) / (k * freedom)
        freedom = freedom - k + 1
    if not freedom >= 1:
        raise InvalidInput(
            f"{k} constraints but {freedom:.3g} degrees of freedom; test fewer at once or use more "
            "periods"
        )
    return Symmetry(
        name=name,
        f=f,
        constraints=float(k),
        degrees_of_freedom=freedom,
        p=f_tail(f, k, freedom),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Disagreement:
    """Two results for a parameter that contradict each other."""

    parameter: str
    first: str  # label of one result
    second: str  # label of the other
    # in joint standard errors; infinite if one of them is a box
    distance: float
    reason: str  # why two estimates disagree


def compare(results: Mapping[str, Estimate | Enclosure], sigmas: float = 3.0) -> list[Disagreement]:
    """Return which of several results, by label, contradict each other.

    Two estimates disagree when they differ by more than `sigmas` joint
    standard errors sqrt(s1^2 + s2^2); an estimate and a box when the
    value lies outside; two boxes when they do not overlap. Estimates
    from the same data are correlated, so the first test is lenient.
    """
    if not results or not sigmas > 0:
        raise InvalidInput("comparing needs at least one result and a positive number of sigmas")
    names: dict[str, None] = {}  # an ordered set
    for result in results.values():
        names.update(dict.fromkeys(result.parameters))
    disagreements = []
    for name in names:
        labels = [label for label, result in results.items() if name in result.parameters]
        for first, second in combinations(labels, 2):
            distance, reason = _distance(results[first], results[second], name)
            if distance > sigmas:
                disagreements.append(
                    Disagreement(
                        parameter=name,
                        first=first,
                        second=second,
                        distance=distance,
                        reason=reason,
                    )
                )
    return disagreements


def _distance(
    first: Estimate | Enclosure, second: Estimate | Enclosure, name: str
) -> tuple[float, str]:
    """Return the distance of two results in joint standard errors, and its description."""
    first_lower, first_upper, first_std = _bounds_and_std(first, name)
    second_lower, second_upper, second_std = _bounds_and_std(second, name)
    gap = max(first_lower - second_upper, second_lower - first_upper, 0.0)
    joint_std = np.hypot(first_std, second_std)  # infinite with a box
    if 0 < joint_std < np.inf:
        distance = float(gap / joint_std)
    elif gap > 0:
        distance = np.inf
    else:
        distance = 0.0
    if np.isinf(first_std) and np.isinf(second_std):
        return distance, f"the boxes are apart by {gap:.3g}"
    if np.isinf(joint_std):
        return distance, f"the value is outside the box by {gap:.3g}"
    return distance, f"{distance:.1f} joint standard deviations apart"


def _bounds_and_std(result: Estimate | Enclosure, name: str) -> tuple[float, float, float]:
    """Return lower and upper value, and the standard error, which is infinite for a box."""
    if isinstance(result, Enclosure):
        return (*result[name], np.inf)
    return (
        result[name],
        result[name],
        float(result.std[result.parameters.index(name)]),
    )
