"""Problems that estimators solve, and the protocol of an estimator.

An estimator states the problem it needs as one of the protocols below,
in its class attribute `needs`; without it the problem is linear.

| protocol | what it offers |
|---|---|
| `LinearProblem` | effort = regressor @ parameters + noise |
| `GainProblem` (gain_problem.py) | currents with unknown drive gains, unloaded and loaded logs |
| `PeriodicProblem` | one averaged period, with the errors of its positions |
| `BodyProblem` | a linear problem with the bodies behind the base parameters |
| `SimulationProblem` | the robot and its logs, with a simulation of the closed loop |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from gough.core.arrays import FloatArray, check_finite
from gough.core.errors import InvalidInput, NotIdentifiable
from gough.core.names import Parameter, index_of
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters, ParameterTable
from gough.fitting.block_statistics import BlockStatistics, Residual
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression


@runtime_checkable
class Problem(Protocol):
    """Equations with unknown parameters: `Regression`, `BlockStatistics` or `GainProblem`."""

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the joint equations."""

    @property
    def row_units(self) -> tuple[str, ...]:
        """Units of the efforts."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Names of the unknown parameters."""

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""

    def select(self, parameters: Sequence[str], /) -> Self:
        """Keep some parameters; the others are taken as zero."""

    def statistics(self, *, joint: bool = False) -> BlockStatistics:
        """Return the sufficient statistics; `joint` also keeps the rows side by side."""

    def sampled(self) -> Regression | None:
        """Return the equations sample by sample, or None where only statistics are known."""

    def residual_statistics(self, values: FloatArray, /) -> Residual:
        """Return size and mean of the residual of values (p,) by row."""


@runtime_checkable
class LinearProblem(Problem, Protocol):
    """Equations linear in all parameters: a `Regression` or its `BlockStatistics`."""

    @property
    def covariance(self) -> FloatArray | None:
        """Covariance of the effort noise, if it is known."""

    def transform(
        self,
        matrix: FloatArray,
        parameters: Sequence[str],
        units: Sequence[str],
        /,
    ) -> Self:
        """Return the problem with [W y] @ matrix in the place of [W y]."""


@runtime_checkable
class PeriodicProblem(Protocol):
    """One averaged period of a repeated motion, with the errors of its positions."""

    @property
    def period(self) -> Any:
        """The averaged period, as `gough.processing.likelihood_models.AveragedPeriod`."""


@runtime_checkable
class BodyProblem(Protocol):
    """A linear problem with the bodies that its base parameters are made of."""

    @property
    def base(self) -> BaseParameters:
        """The base parameters in terms of standard ones."""

    @property
    def regression(self) -> LinearProblem:
        """The linear problem."""

    @property
    def start(self) -> Estimate:
        """An estimate of it."""

    @property
    def prior(self) -> ParameterTable:
        """Standard parameters of the robot file."""


@runtime_checkable
class SimulationProblem(Protocol):
    """The robot and its logs, with a simulation of the closed loop along each of them."""

    @property
    def regression(self) -> LinearProblem:
        """The linear problem of the logs, for start values."""

    @property
    def recordings(self) -> Sequence[Any]:
        """The logs, with the commanded motion where it was recorded."""

    def simulate(self, values: Mapping[str, float], /, **settings: Any) -> Sequence[Any]:
        """Return a simulation of each log with these base parameters."""


@runtime_checkable
class Estimator(Protocol):
    """Settings that turn a problem into an estimate: a frozen dataclass of any origin.

    Its class attribute `needs` is the protocol or type of the problem;
    `LinearProblem` without it.
    """

    def fit(self, problem: Any, /) -> Estimate:
        """Return the estimate."""


def needed_problem(estimator: object) -> type:
    """Return the protocol or type of the problem that an estimator needs."""
    needs = getattr(estimator, "needs", LinearProblem)
    if not isinstance(needs, type):
        raise InvalidInput(
            f"the estimator {type(estimator).__name__} needs {needs!r}, expected a problem type "
            "such as gough.fitting.problem.LinearProblem"
        )
    return needs


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
        matrix,
        [problem.parameters[i] for i in keep],
        [problem.units[i] for i in keep],
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
                f"parameters of different units cannot be tied as '{label}'",
                name=label,
            )
    labels = [place.get(name, name) for name in problem.parameters]
    names = list(dict.fromkeys(labels))
    matrix = np.zeros((len(labels) + 1, len(names) + 1))
    matrix[np.arange(len(labels)), [names.index(label) for label in labels]] = 1.0
    matrix[-1, -1] = 1.0
    return problem.transform(matrix, names, [problem.units[labels.index(name)] for name in names])
