"""Estimators by name, and running those that were asked for.

An estimator is an object with `fit(problem) -> Estimate`; its attribute
`needs` says which problem it takes (see `gough.fitting.problem`).
`identify` builds a problem when the first estimator needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from gough.core.errors import GoughError, InvalidInput
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.gain_problem import GainProblem
from gough.fitting.least_squares import (
    GaussMarkov,
    LeastSquares,
    WeightedLeastSquares,
)
from gough.fitting.physical_consistency import Feasible, PhysicalEstimate
from gough.fitting.problem import (
    BodyProblem,
    Estimator,
    LinearProblem,
    PeriodicProblem,
    SimulationProblem,
    needed_problem,
)
from gough.fitting.robust import Robust
from gough.fitting.total_least_squares import TotalLeastSquares
from gough.identification.problems import (
    AveragedPeriodProblem,
    RobotBodyProblem,
)

ALL = "all"
AUTO_ESTIMATOR = "auto"
# Estimators that `auto` chooses from; the first unless another predicts
# better.
CHOSEN_FROM = ("gm", "wls", "robust", "ls")
PROBLEMS = (
    LinearProblem,
    GainProblem,
    PeriodicProblem,
    BodyProblem,
    SimulationProblem,
)


@dataclass(frozen=True)
class CutoffEstimator:
    """Maximum likelihood with the filter cut-off as a parameter; AH09 (24)."""

    needs: ClassVar[type] = PeriodicProblem  # problem that it solves

    def fit(self, problem: AveragedPeriodProblem) -> Estimate:
        """Return the estimate at the cut-off of largest likelihood."""
        return problem.cutoff.estimate


@dataclass(frozen=True)
class ErrorsInVariables:
    """Maximum likelihood of parameters and executed trajectory together."""

    needs: ClassVar[type] = PeriodicProblem  # problem that it solves

    def fit(self, problem: AveragedPeriodProblem) -> Estimate:
        """Return the estimate together with the executed trajectory."""
        return problem.full()


@dataclass(frozen=True)
class PhysicallyConsistent:
    """Physically consistent standard parameters that fit the data and are near the robot file's."""

    settings: Feasible = field(default_factory=Feasible)  # of the search

    needs: ClassVar[type] = BodyProblem  # problem that it solves

    def fit(self, problem: RobotBodyProblem) -> PhysicalEstimate:
        """Return standard parameters and the base estimate they give."""
        settings = replace(
            self.settings,
            boxes={**problem.boxes, **self.settings.boxes},
            members={**problem.members, **self.settings.members},
            total_mass=self.settings.total_mass or problem.total_mass,
        )
        if settings.nonnegative is None:
            terms = problem.model.mechanism.terms.items()
            names = tuple(name for name, term in terms if term.nonnegative)
            settings = replace(settings, nonnegative=names)
        return settings.fit(
            problem.regression,
            problem.start,
            model=problem.base,
            prior=problem.prior,
        )


ESTIMATORS: dict[str, Any] = {
    "ls": LeastSquares(),
    "wls": WeightedLeastSquares(),
    "gm": GaussMarkov(),
    "robust": Robust(),
    "tls": TotalLeastSquares(),
    "tls_paper": TotalLeastSquares(scaling="none"),
    "gain_ml": MaximumLikelihoodGains(),
    "ml": CutoffEstimator(),
    "full_ml": ErrorsInVariables(),
    "feasible": PhysicallyConsistent(),
}
SHOWN_BESIDE = {"ml": ("full_ml",), "tls": ("tls_paper", "gain_ml")}
PREFERRED = (
    "gain_ml",
    "tls",
    "gm",
    "wls",
    "ls",
    "robust",
)  # the result of `all`: first success


def register_estimator(name: str, estimator: Estimator) -> Estimator:
    """Give an estimator a name for `identify` and the command line; return the estimator."""
    if name in ESTIMATORS or name in (ALL, AUTO_ESTIMATOR):
        raise InvalidInput(
            f"there is already an estimator '{name}'; choose another name",
            name=name,
        )
    check_estimator(estimator)
    ESTIMATORS[name] = estimator
    return estimator


def check_estimator(estimator: object) -> None:
    """Raise `InvalidInput` unless an object is an estimator of a problem that `identify` has."""
    if not isinstance(estimator, Estimator):
        raise InvalidInput(f"{estimator!r} is no estimator: expected an object with fit(problem)")
    needs = needed_problem(estimator)
    if needs not in PROBLEMS:
        known_names = ", ".join(known.__name__ for known in PROBLEMS)
        raise InvalidInput(
            f"the estimator {type(estimator).__name__} needs {needs.__name__}, which identify does "
            f"not offer; expected one of {known_names}"
        )


def select_estimators(
    asked: str | Estimator,
    nominal_gains: Mapping[str, float],
    *,
    with_currents: bool,
) -> dict[str, Estimator]:
    """Return the estimators to run by name; the first is the one asked for.

    Args:
        asked: A name, `all` for those that the logs allow, `auto` for
            the first that is chosen from, or an estimator.
        nominal_gains: Drive gains of the robot file, for estimators of
            gains.
        with_currents: The logs hold currents and a known payload: `all`
            are those of drive gains.
    """
    if not isinstance(asked, str):
        check_estimator(asked)
        return {type(asked).__name__: asked}
    names = [asked, *SHOWN_BESIDE.get(asked, ())]
    if asked == AUTO_ESTIMATOR:
        names = [CHOSEN_FROM[0]]
    if asked == ALL:
        allowed = {GainProblem, BodyProblem}
        if not with_currents:
            allowed = {LinearProblem, PeriodicProblem, BodyProblem}
        names = [name for name in ESTIMATORS if needed_problem(ESTIMATORS[name]) in allowed]
    selected = {}
    for name in names:
        estimator = ESTIMATORS[name]
        if needed_problem(estimator) is GainProblem:
            estimator = replace(estimator, nominal=nominal_gains)
        selected[name] = estimator
    return selected


def selection_estimator(asked: str | Estimator, estimators: Mapping[str, Estimator]) -> Estimator:
    """Return the estimator that selects parameters and structures: quick, on the main problem."""
    first: Estimator = estimators.get("gain_ml") or next(iter(estimators.values()))
    needs = needed_problem(first)
    if needs is GainProblem or (asked != ALL and needs is LinearProblem):
        return first
    return GaussMarkov()


@dataclass(frozen=True)
class EstimatorRun:
    """Estimates of the base parameters by estimator, and the errors of those that failed."""

    # by name of the estimator
    estimates: dict[str, Estimate] = field(default_factory=dict)
    # standard parameters behind those that are physically consistent
    physical: dict[str, PhysicalEstimate] = field(default_factory=dict)
    # of those that failed
    errors: dict[str, GoughError] = field(default_factory=dict)

    def run(
        self,
        estimators: Mapping[str, Estimator],
        problems: Mapping[type, Callable[[], Any]],
    ) -> None:
        """Run the estimators whose problem is given; a failure does not stop the others.

        Args:
            estimators: By name.
            problems: By what estimators need; each is built once, when
                it is needed.
        """
        built: dict[type, Any] = {}
        for name, estimator in estimators.items():
            needs = needed_problem(estimator)
            if needs not in problems:
                continue
            try:
                if needs not in built:
                    built[needs] = problems[needs]()
                estimate = checked_fit(estimator, built[needs])
            except GoughError as error:
                self.errors[name] = error
                continue
            if isinstance(estimate, PhysicalEstimate):
                self.physical[name] = estimate
                estimate = estimate.estimate
            self.estimates[name] = estimate

    def failures(self) -> list[Notice]:
        """Return a notice for each estimator that failed."""
        notices = []
        for name, error in self.errors.items():
            text = f"was not possible: {error}"
            notices.append(Notice(rule="estimator", level="info", where=name, text=text))
        return notices

    def result_name(self, asked: str | Estimator) -> str:
        """Return the estimator whose estimate is the result.

        Raises the error of the one asked for, or if none of `all`
        succeeded.
        """
        if asked == ALL:
            names: tuple[str, ...] = PREFERRED
        else:
            names = (asked if isinstance(asked, str) else type(asked).__name__,)
        for name in names:
            if name in self.estimates:
                return name
        for name in names:
            if name in self.errors:
                raise self.errors[name]
        raise InvalidInput(
            f"no estimator of {', '.join(names)} ran: none of them takes a problem of these logs"
        )


def checked_fit(estimator: Estimator, problem: Any) -> Estimate | PhysicalEstimate:
    """Fit a problem; raise `InvalidInput` if the estimator does not return an estimate."""
    estimate = estimator.fit(problem)
    if isinstance(estimate, Estimate | PhysicalEstimate):
        return estimate
    raise InvalidInput(
        f"fit of the estimator {type(estimator).__name__} returned a {type(estimate).__name__}, "
        "expected a gough.Estimate"
    )


def feasible(
    model: Model,
    base: BaseParameters,
    problem: LinearProblem,
    estimate: Estimate,
) -> PhysicalEstimate:
    """Return physically consistent standard parameters of a linear problem and its estimate."""
    bodies = RobotBodyProblem(model=model, base=base, regression=problem, start=estimate)
    return PhysicallyConsistent().fit(bodies)


class PhysicalParameters(NamedTuple):
    """Physically consistent parameters by the names of the robot file."""

    bodies: dict[str, tuple[float, ...]]  # ten inertial parameters by body
    terms: dict[str, float]  # coefficients of the joint terms by name
    # fraction of the information on each parameter that is the data's
    determined: dict[str, float]


def physical_parameters(model: Model, physical: PhysicalEstimate) -> PhysicalParameters:
    """Return the physically consistent parameters by the names of the robot file.

    Bodies of tied legs each get the common values; a payload stays
    `payload.<name>`. A body whose parameters are tied in part only has
    no common values and is left out.
    """
    terms: dict[str, float] = {}
    determined: dict[str, float] = {}
    owners: dict[str, set[str]] = {}
    for name, coefficient in zip(physical.standard.names, physical.standard.values.tolist()):
        members = (name,) if name.payload is not None else model.resolve(name)
        for member in members:
            determined[member] = physical.determined[name]
            if name.inertial:
                owners.setdefault(member.owner, set()).add(name.owner)
            else:
                terms[member] = coefficient
    bodies = {}
    for body, sources in owners.items():
        if len(sources) == 1:
            bodies[body] = tuple(physical.bodies[min(sources)].tolist())
    return PhysicalParameters(bodies, terms, determined)
