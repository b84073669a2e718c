"""Estimators by word, and the problem each of them wants.

An estimator is an object with `fit(problem) -> Estimate`. Its `wants` says which problem it is
given: a `regression` (the default), `gains` (currents of loaded and unloaded logs), a `period` (one
averaged period, errors of positions too) or `bodies` (a regression with the robot's bodies behind
it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters, ParameterTable
from gough.engine import Model
from gough.fitting import likelihood
from gough.fitting.estimate import Estimate
from gough.fitting.gain_likelihood import MaximumLikelihoodGains
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.physical_consistency import Feasible, PhysicalEstimate
from gough.fitting.problem import Estimator
from gough.fitting.regression import BlockStatistics, Regression
from gough.fitting.robust import Robust
from gough.fitting.solve import solve
from gough.fitting.total_least_squares import TotalLeastSquares
from gough.processing import ProcessedLog, regression
from gough.processing.likelihood_models import AveragedPeriod, CutoffFamily, TrajectoryFamily

ALL = "all"
# of the executed trajectory, for full maximum likelihood among `all`: about a minute
MOST_COEFFICIENTS = 120
HIGHEST = 40  # bins tried by default


def averaged_period(
    model: Model, processed: Sequence[ProcessedLog], base: BaseParameters
) -> AveragedPeriod:
    """Return the one periodic recording that maximum likelihood works on."""
    if len(processed) != 1:
        raise InvalidRecording(f"maximum likelihood takes one periodic log, got {len(processed)}")
    return AveragedPeriod(model=model, processed=processed[0], base=base)


def cutoff_likelihood(period: AveragedPeriod, *, highest: int = HIGHEST) -> likelihood.CutoffResult:
    """Choose the filter cut-off by likelihood, linear parameters profiled out; AH09 (24).

    Where positions do not scatter their errors vanish, nothing is left to choose, and (24) is
    Gauss-Markov on the motion as it was processed (AH09 section 5).
    """
    average, channels = period.average, period.pose.shape[1]
    seconds = len(average) / average.rate
    if period.scatters.any():
        highest = min(highest, (len(average) - 1) // 2)
        cutoffs, orders = likelihood.fourier_bins(seconds, highest, channels)
        family = CutoffFamily(period=period)
        return likelihood.CutoffLikelihood().fit(
            family, cutoffs, orders, family.fitted_terms(highest)
        )
    problem = regression(period.model, period.processed, period.base)
    estimate = GaussMarkov().fit(problem)
    bins = int((period.processed.cutoff or average.rate / 2) * seconds * (1 + 1e-9))
    cutoffs, orders = likelihood.fourier_bins(seconds, max(1, bins), channels)
    left = solve(problem.whitened().stacked(), problem.parameters).residual_norm
    notice = Notice(
        rule="position noise",
        level="info",
        text=f"positions of {average.count} periods do not scatter: without position noise "
        "maximum likelihood is Gauss-Markov",
    )
    return likelihood.CutoffResult(
        estimate=replace(estimate, notices=(notice, *estimate.notices)),
        cutoff=float(cutoffs[-1]),
        cutoffs=cutoffs[-1:],
        orders=orders[-1:],
        position_term=np.zeros(1),
        fitted_term=np.zeros(1),
        effort_term=np.array([left**2 / 2]),
        values=estimate.values[None],
    )


def full_likelihood(period: AveragedPeriod, *, harmonics: int) -> likelihood.LikelihoodResult:
    """Estimate parameters and executed trajectory, of so many harmonics, together: errors in
    variables.
    """
    family, average, model = (
        TrajectoryFamily(period=period, harmonics=harmonics),
        period.average,
        period.model,
    )
    known = None
    if not model.loops.redundant:
        cross = average.cross_covariance / average.count
        known = cross[:, [model.actuated.index(i) for i in model.independent]]
    return likelihood.FullLikelihood(tolerance=1e-6).fit(
        family, family.start(), cross_covariance=known, position_periods=average.position_periods
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PeriodProblem:
    """One averaged period; `brief` leaves out what takes long."""

    period: AveragedPeriod
    brief: bool = False

    @cached_property
    def cutoff(self) -> likelihood.CutoffResult:
        """The cut-off of largest likelihood, and the estimate there."""
        return cutoff_likelihood(self.period)

    def full(self) -> Estimate:
        """Return the estimate together with the executed trajectory, of the harmonics below that
        cut-off.
        """
        if not self.period.scatters.any():
            return self.cutoff.estimate
        harmonics = max(
            1, round(self.cutoff.cutoff * len(self.period.average) / self.period.average.rate)
        )
        if self.brief and 2 * harmonics * self.period.pose.shape[1] > MOST_COEFFICIENTS:
            raise InvalidInput(
                f"{harmonics} harmonics of the executed trajectory take long; ask for it with "
                "`estimator='ml'`"
            )
        return full_likelihood(self.period, harmonics=harmonics).estimate


class BodyProblem(NamedTuple):
    """A regression, an estimate of it, and the bodies the base parameters are made of."""

    model: Model
    base: BaseParameters
    regression: Regression | BlockStatistics
    start: Estimate


def feasible(
    model: Model,
    base: BaseParameters,
    problem: Regression | BlockStatistics,
    estimate: Estimate,
    settings: Feasible | None = None,
) -> PhysicalEstimate:
    """Return the physically possible standard parameters nearest to the robot file's that explain
    the data.
    """
    prior = ParameterTable(names=base.standard, values=model.values(base.standard))
    settings = settings or Feasible()
    if settings.nonnegative is None:
        terms = model.mechanism.terms.items()
        settings = replace(
            settings, nonnegative=tuple(name for name, term in terms if term.nonnegative)
        )
    return settings.fit(problem, estimate, model=base, prior=prior)


def physical_parameters(
    model: Model, found: PhysicalEstimate
) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    """Return ten inertial parameters by body, and the coefficients of the joint terms by name.

    Bodies of tied legs each get the common values; a payload stays `payload.<name>`. A body whose
    parameters are tied in part only has no common values and is left out: what was found consistent
    is not one body.
    """
    terms: dict[str, float] = {}
    owners: dict[str, set[str]] = {}
    for name, value in zip(found.standard.names, found.standard.values.tolist()):
        for member in (name,) if name.payload is not None else model.resolve(name):
            if name.inertial:
                owners.setdefault(member.owner, set()).add(name.owner)
            else:
                terms[member] = value
    return {
        body: tuple(found.bodies[min(those)].tolist())
        for body, those in owners.items()
        if len(those) == 1
    }, terms


class Method(NamedTuple):
    """An estimator that asks a problem of its kind for the answer."""

    wants: str
    fit: Callable[[Any], Any]


ESTIMATORS: dict[str, Any] = {
    "ls": LeastSquares(),
    "wls": WeightedLeastSquares(),
    "gm": GaussMarkov(),
    "robust": Robust(),
    "tls": TotalLeastSquares(),
    "tls_paper": TotalLeastSquares(scaling="none"),
    "gain_ml": MaximumLikelihoodGains(),
    "ml": Method("period", lambda problem: problem.cutoff.estimate),
    "full_ml": Method("period", PeriodProblem.full),
    "feasible": Method("bodies", lambda problem: feasible(*problem)),
}
BESIDE = {"ml": ("full_ml",), "tls": ("tls_paper", "gain_ml")}  # what is shown beside an estimator
PREFERRED = (
    "gain_ml",
    "tls",
    "gm",
    "wls",
    "ls",
    "robust",
)  # the result of `all`: the first that answers


def register_estimator(name: str, estimator: Estimator) -> Estimator:
    """Give an estimator a name, by which `identify` and the command line know it; return it."""
    if name in ESTIMATORS or name == ALL:
        raise InvalidInput(
            f"there is already an estimator '{name}'; choose another name", name=name
        )
    if not isinstance(estimator, Estimator):
        raise InvalidInput(f"{estimator!r} is no estimator: it has no fit(problem)", name=name)
    ESTIMATORS[name] = estimator
    return estimator


def wants(estimator: object) -> str:
    """Return the kind of problem an estimator is for."""
    return str(getattr(estimator, "wants", "regression"))


def wanted(
    asked: str | Estimator, nominal: Mapping[str, float], *, with_currents: bool
) -> dict[str, Any]:
    """Return the estimators to run, by name; the first is the one asked for.

    `all` are those the logs allow; with currents, those of drive gains. Nominal gains are what
    these fall back on.
    """
    if not isinstance(asked, str):
        return {type(asked).__name__: asked}
    kinds = ("gains", "bodies") if with_currents else ("regression", "period", "bodies")
    names = [asked, *BESIDE.get(asked, ())]
    if asked == ALL:
        names = [name for name, estimator in ESTIMATORS.items() if wants(estimator) in kinds]
    return {
        name: replace(ESTIMATORS[name], nominal=nominal)
        if wants(ESTIMATORS[name]) == "gains"
        else ESTIMATORS[name]
        for name in names
    }


def main_of(asked: str | Estimator, estimators: Mapping[str, Any]) -> Estimator:
    """Return the estimator that chooses parameters and structures: quick, and on the main
    problem.
    """
    first: Estimator = estimators.get("gain_ml") or next(iter(estimators.values()))
    quick = wants(first) == "gains" or (asked != ALL and wants(first) == "regression")
    return first if quick else GaussMarkov()


def run_all(
    estimators: Mapping[str, Any],
    problems: Mapping[str, Callable[[], Any]],
    found: dict[str, Any],
    failed: dict[str, GoughError],
) -> None:
    """Put down what the estimators whose problems are given find; one that fails takes no other
    with it.

    A problem is built once, when the first estimator wants it.
    """
    built: dict[str, Any] = {}
    for name, estimator in estimators.items():
        kind = wants(estimator)
        if kind in problems:
            try:
                if kind not in built:
                    built[kind] = problems[kind]()
                found[name] = estimator.fit(built[kind])
            except GoughError as error:
                failed[name] = error


def name_of(
    asked: str | Estimator, found: Mapping[str, Any], failed: Mapping[str, GoughError]
) -> str:
    """Return whose estimate is the result; raises the error of the one asked for, or if none of
    `all` answered.
    """
    names = (
        PREFERRED if asked == ALL else (asked if isinstance(asked, str) else type(asked).__name__,)
    )
    for name in names:
        if name in found:
            return name
    raise next(failed[name] for name in names if name in failed)
