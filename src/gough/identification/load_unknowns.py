"""The inertial parameters of a load that are sought, and the load that a fit of them gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from gough.core.arrays import TINY, FloatArray
from gough.core.display import rounded
from gough.core.inertia import INERTIA_ENTRIES, parallel_axes
from gough.core.names import INERTIAL, LOAD_PARAMETERS
from gough.engine import Model
from gough.fitting.estimate import Estimate, UncertaintyComponent, build_estimate
from gough.fitting.load_fit import (
    LoadFit,
    LoadProblem,
    ObservedLoad,
    direction_text,
    fit_load,
    observe_load,
)
from gough.fitting.noise_information import MIN_OBSERVED_RATIO
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.fitting.regression import Regression

# A parameter is observed if its standard error is below this fraction
# of the largest it can be.
OBSERVED_LOAD_FRACTION = 0.5
# A load is physically inconsistent if it violates a condition by so
# many standard errors.
INCONSISTENT_SIGMAS = 2.0
# Iterations of the heaviest load and its unobserved mass: to 1e-3 if
# they contract by 4/5 each.
HEAVIEST_LOAD_ITERATIONS = 30
# of a combination, in units of what a load can have
NEGLIGIBLE_CONTRAST = 0.01
# standard errors added to the mass for the heaviest load
HEAVIEST_LOAD_SIGMAS = 3.0
# Without a weighed mass: so many times the load whose weight is the
# largest effort.
MAX_LOAD_RATIO = 10.0
# power of length in the units of a load's parameters
LENGTH_POWER = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])


class LoadCombination(NamedTuple):
    """A sum of parameters of a load that a motion determines, though not each of them."""

    text: str  # e.g. `m + 2.1 my`
    value: float  # [unit]
    std: float  # its standard error [unit]
    unit: str  # of the first parameter


@dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """A load's ten inertial parameters about the platform frame, over some time."""

    # unobserved parameters are 0 with the prior standard deviation
    estimate: Estimate
    # which parameters the motion determines, or were given, (10,)
    observed: tuple[bool, ...]
    # combinations that the motion does not determine, in words
    hidden: tuple[str, ...]
    # of several parameters that it determines
    combinations: tuple[LoadCombination, ...]
    physical: bool  # physically consistent within the standard errors

    def to_list(self) -> list[dict[str, Any]]:
        """Return the parameters in the documented JSON form."""
        estimate = self.estimate
        assert estimate.information is not None
        figures = {
            "value": estimate.values,
            "std": estimate.std,
            "model_std": estimate.sources[-1].std,
            "interval": estimate.interval(),
        }
        parameters = []
        for k, name in enumerate(estimate.parameters):
            parameter: dict[str, Any] = {
                "name": name.kind,
                "unit": estimate.units[k],
                "observed": self.observed[k],
                "information": float(estimate.information[k]),
            }
            for key, figure in figures.items():
                parameter[key] = figure[k].tolist() if self.observed[k] else None
            parameters.append(parameter)
        return parameters

    def __str__(self) -> str:
        if not self.observed[0]:
            return "m not observed"
        mass, std = rounded(float(self.estimate.values[0]), float(self.estimate.std[0]))
        return f"m {mass} +- {std} kg"


class LoadUnknowns(NamedTuple):
    """The unknowns of a load: its ten parameters are fixed + map @ unknowns."""

    fixed: FloatArray  # (10,)
    map: FloatArray  # (10, p)
    mass: float  # the largest it may have [kg]
    mass_known: bool  # that is its mass
    reach: float  # how far it may extend from the origin [m]

    @classmethod
    def of(
        cls,
        model: Model,
        data: Regression,
        *,
        mass: float | None,
        place: FloatArray | None,
        reach: float | None,
    ) -> LoadUnknowns:
        """Return the unknowns that remain if mass or centre of mass are known.

        Args:
            model: The robot.
            data: Equations of the load.
            mass: Of the load, if it is known. [kg]
            place: Of its centre of mass, if that is known, (3,). [m]
            reach: How far it may extend; the size of the robot by
                default. [m]
        """
        point_mass = np.eye(10)[0]  # a kilogram at the place
        first_free = 1
        if place is not None:
            inertia = parallel_axes(1.0, place)
            point_mass[1:4] = place
            point_mass[4:] = [inertia[i, j] for i, j in INERTIA_ENTRIES]
            first_free = 4
        free = np.eye(10)[:, first_free:]
        reach = reach or model.loops.length
        if mass is not None:
            return cls(point_mass * mass, free, mass, True, reach)
        gravity = float(np.linalg.norm(model.mechanism.gravity)) or 1.0
        largest_effort = float(np.abs(data.effort).sum(axis=1).max())
        heaviest = max(MAX_LOAD_RATIO * largest_effort / gravity, 1e-12)
        return cls(np.zeros(10), np.column_stack([point_mass, free]), heaviest, False, reach)

    def prior(self, mass: float) -> FloatArray:
        """Return the prior standard deviation of the unknowns of a load of some mass, (p,).

        That of the mass itself is the largest mass.
        """
        n_unknowns = self.map.shape[1]
        if self.mass_known:
            return np.asarray(mass * self.reach ** LENGTH_POWER[-n_unknowns:])
        others = mass * self.reach ** LENGTH_POWER[1 - n_unknowns :]
        return np.append(self.mass, others)

    def reduce(self, problem: LoadProblem) -> LoadProblem:
        """Return a problem of ten parameters as one of the unknowns."""
        p = self.map.shape[1]
        matrix = np.zeros((11, p + 1))
        matrix[:10, :p] = self.map
        matrix[:10, p] = -self.fixed
        matrix[10, p] = 1.0
        names = [LOAD_PARAMETERS[int(np.argmax(column != 0))] for column in self.map.T]
        units = [name.unit for name in names]
        return replace(
            problem,
            noise=matrix.T @ problem.noise @ matrix,
            regression=problem.regression.transform(matrix, names, units),
        )

    def fit(
        self, problem: LoadProblem, weight: FloatArray | None = None
    ) -> tuple[LoadFit, FloatArray]:
        """Return the fit of the unknowns and their prior standard deviation, (p,).

        The prior follows from the heaviest load: the estimated mass
        plus three standard errors and its unobserved mass, which
        follows from the prior. A few iterations find both.
        """
        reduced = self.reduce(problem)
        prior = self.prior(self.mass)
        first = fit_load(reduced, prior, weight)
        if self.mass_known:
            return first, prior
        hidden_variance = (first.observed.hidden_root[0] ** 2).sum()
        variance = float(first.uncertainty.covariance[0, 0] - hidden_variance)
        white_std = float(np.linalg.norm(first.observed.root[0]))
        inflation = np.sqrt(max(variance, 0.0)) / max(white_std, TINY)
        for _ in range(HEAVIEST_LOAD_ITERATIONS):
            observable = observe_load(first.grams[0], first.grams[1], prior)
            std = inflation * float(np.linalg.norm(observable.root[0]))
            hidden = float(np.linalg.norm(observable.hidden_root[0]))
            heaviest = abs(observable.values[0]) + HEAVIEST_LOAD_SIGMAS * std + hidden
            prior = self.prior(float(np.clip(heaviest, 1e-9 * self.mass, self.mass)))
        return fit_load(reduced, prior, weight), prior

    def load(self, problem: LoadProblem, fitted: LoadFit, prior: FloatArray) -> Load:
        """Return the load of a fit of the unknowns with a prior standard deviation, (p,)."""
        uncertainty = fitted.uncertainty
        values = self.fixed + self.map @ fitted.observed.values
        covariance = self.map @ uncertainty.covariance @ self.map.T
        variances = self.map**2 * np.diag(uncertainty.covariance)
        freedoms = np.where(variances > 0, uncertainty.degrees_of_freedom, np.inf)
        model_component = UncertaintyComponent(
            kind="model",
            std=np.sqrt(self.map**2 @ fitted.model_std**2),
            degrees_of_freedom=np.asarray(np.inf),
        )
        estimate = build_estimate(
            problem.regression,
            values,
            replace(
                uncertainty,
                covariance=covariance,
                degrees_of_freedom=np.min(freedoms, axis=1),
                sources=(model_component,),
            ),
            method="load beyond the unloaded robot",
            condition_number=float("nan"),
            noise_covariance=fitted.covariance,
        )
        prior_std = np.sqrt(self.map**2 @ prior**2)
        ratio = fitted.observed.signal_to_noise(self.map)
        precise = estimate.std <= OBSERVED_LOAD_FRACTION * prior_std
        observed = (prior_std == 0) | (precise & (ratio >= MIN_OBSERVED_RATIO))
        directions = fitted.observed.hidden_directions @ self.map.T
        return Load(
            estimate=replace(estimate, information=ratio),
            observed=tuple(observed.tolist()),
            hidden=tuple(direction_text(INERTIAL, direction) for direction in directions),
            combinations=tuple(
                _determined_combinations(estimate, directions, prior_std, self.map, fitted.observed)
            ),
            physical=_physically_consistent(values, covariance, self.reach),
        )


def _determined_combinations(
    estimate: Estimate,
    directions: FloatArray,
    prior_std: FloatArray,
    unknowns: FloatArray,
    observable: ObservedLoad,
) -> Iterator[LoadCombination]:
    """Yield the combinations of several parameters that do not change along hidden directions.

    With one parameter d for each hidden direction, which then reads x_d +
    sum_j B_dj x_j, the combinations x_j - sum_d B_dj x_d are the same for all
    loads that look alike.

    Args:
        estimate: The load.
        directions: Changes of the parameters that the motion does not
            show, (k, 10).
        prior_std: How large parameters can be, (10,).
        unknowns: Parameters by unknowns, (10, p).
        observable: What the equations determine of the unknowns.
    """
    count = len(directions)
    if not count:
        return
    scale = np.where(prior_std > 0, prior_std, 1.0)
    dependent = qr(directions / scale, mode="r", pivoting=True)[1][:count]
    B = np.linalg.solve(directions[:, dependent], directions)
    for j in range(len(INERTIAL)):
        if j in dependent or not prior_std[j]:
            continue
        contrast = np.zeros(len(INERTIAL))
        contrast[j] = 1.0
        contrast[dependent] = -B[:, j]
        prior = float(np.linalg.norm(contrast * prior_std))
        contrast[np.abs(contrast) * prior_std < NEGLIGIBLE_CONTRAST * prior] = 0.0
        if np.count_nonzero(contrast) < 2:
            continue
        std = float(np.sqrt(contrast @ estimate.covariance @ contrast))
        ratio = float(observable.signal_to_noise(contrast[None] @ unknowns)[0])
        if std > OBSERVED_LOAD_FRACTION * prior or ratio < MIN_OBSERVED_RATIO:
            continue
        first = int(np.argmax(contrast != 0))  # its coefficient is one in the text
        yield LoadCombination(
            text=direction_text(INERTIAL, contrast),
            value=float(contrast @ estimate.values / contrast[first]),
            std=std / abs(float(contrast[first])),
            unit=estimate.units[first],
        )


def _physically_consistent(values: FloatArray, covariance: FloatArray, reach: float) -> bool:
    """Return whether a body can have these parameters, within their standard errors.

    Along no eigenvector e of the pseudo-inertia J is e^T J e below zero
    by more than `INCONSISTENT_SIGMAS` standard errors.
    """
    scale = reach ** -LENGTH_POWER.astype(float)
    axes = np.linalg.eigh(pseudo_inertia(values * scale))[1].T
    # J is linear in the parameters
    slopes = np.einsum("ei,pij,ej->ep", axes, pseudo_inertia(np.eye(10)), axes) * scale
    std = np.sqrt(np.einsum("ep,pq,eq->e", slopes, covariance, slopes))
    return not bool((slopes @ values < -INCONSISTENT_SIGMAS * std).any())
