"""What estimators need of a problem, and what a problem needs of estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from gough.core.arrays import FloatArray, check_finite
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.names import Parameter, index_of
from gough.core.notices import Notice
from gough.fitting.block_statistics import BlockStatistics, Residual
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression


class Problem(Protocol):
    """Equations with unknown parameters: a `Regression`, its `BlockStatistics` form, or a
    `GainProblem`.
    """

    @property
    def rows(self) -> tuple[str, ...]: ...
    @property
    def row_units(self) -> tuple[str, ...]: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...

    def select(self, parameters: Sequence[str], /) -> Self:
        """Keep some parameters; the others are taken as zero."""

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return factors with the Gram matrix of the equations; `joint` keeps the rows side by
        side.
        """

    def sampled(self) -> Regression | None:
        """Return the equations sample by sample, or None where they were condensed away."""

    def residual_statistics(self, values: FloatArray, /) -> Residual:
        """Return what values (p,) leave unexplained."""


class LinearProblem(Problem, Protocol):
    """Equations linear in all parameters: a `Regression` or its `BlockStatistics` form."""

    @property
    def covariance(self) -> FloatArray | None: ...

    def transform(
        self, matrix: FloatArray, parameters: Sequence[str], units: Sequence[str], /
    ) -> Self:
        """Return the problem with [W y] @ matrix in the place of [W y]."""


@runtime_checkable
class Estimator(Protocol):
    """Settings that turn a problem into an estimate: a frozen dataclass of any origin.

    A class attribute `wants` may ask for another problem than a regression: 'gains' for a
    `GainProblem`, or what the rooms above offer.
    """

    def fit(self, problem: Any, /) -> Estimate:
        """Return the estimate."""


Linear = TypeVar("Linear", bound=LinearProblem)


def statistics_of(problem: Problem, *, joint: bool = False) -> BlockStatistics:
    """Return the factors of a problem and check that it holds more equations than parameters."""
    if not hasattr(problem, "statistics"):
        raise InvalidInput(
            f"an estimator takes a Regression or its block statistics, not {type(problem).__name__}"
        )
    result = problem.statistics(joint=joint)
    check_finite(result.factors, "block statistics")
    if not len(result.parameters):
        raise InvalidInput("there is no parameter to estimate; the problem has none left")
    equations = int(result.equations.sum())
    if equations <= len(result.parameters):
        raise NotIdentifiable(
            f"{equations} equations for {len(result.parameters)} parameters; "
            "expected more equations than parameters: record longer or leave out parameters",
            equations=equations,
            parameters=len(result.parameters),
        )
    return result


def samples_of(problem: Problem, why: str) -> Regression:
    """Return a problem sample by sample."""
    samples = problem.sampled()
    if samples is None:
        raise InvalidInput(f"{why}: fit the regression, not its block statistics")
    return samples


def dead_rows(statistics: BlockStatistics) -> tuple[Notice, ...]:
    """Return a notice that names joints without any valid or nonzero equation."""
    dead = [row for row, count in zip(statistics.rows, statistics.equations) if not count]
    if not dead:
        return ()
    notice = Notice(
        rule="joint without data",
        level="info",
        where=", ".join(dead),
        text="no equation is valid, or effort and regressor are zero throughout",
    )
    return (notice,)


def fix_parameters(problem: Linear, known: Mapping[str, float]) -> Linear:
    """Take some parameters as known: their effect moves to the effort, y - W_known chi_known."""
    for name in known:
        index_of(problem.parameters, name)
    p = len(problem.parameters)
    keep = [i for i, name in enumerate(problem.parameters) if name not in known]
    matrix = np.eye(p + 1)[:, [*keep, p]]
    matrix[:p, -1] = [-known.get(name, 0.0) for name in problem.parameters]
    return problem.transform(
        matrix, [problem.parameters[i] for i in keep], [problem.units[i] for i in keep]
    )


def tie_parameters(problem: Linear, groups: Mapping[str, Sequence[str]]) -> Linear:
    """Make the members of each group one parameter of the given name, e.g.

    {'leg*.fv': ('leg1.fv', 'leg2.fv')}.

    The tied parameter stands where its first member stood.
    """
    place: dict[str, str] = {}
    for label, members in groups.items():
        for name in members:
            if name in place:
                raise InvalidInput(f"cannot tie '{name}' twice", name=name)
            place[name] = label
        if len({problem.units[index_of(problem.parameters, name)] for name in members}) != 1:
            raise InvalidInput(
                f"parameters of different units cannot be tied as '{label}'", name=label
            )
    labels = [place.get(name, name) for name in problem.parameters]
    names = list(dict.fromkeys(labels))
    matrix = np.zeros((len(labels) + 1, len(names) + 1))
    matrix[np.arange(len(labels)), [names.index(label) for label in labels]] = 1.0
    matrix[-1, -1] = 1.0
    return problem.transform(matrix, names, [problem.units[labels.index(name)] for name in names])
