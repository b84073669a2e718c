"""Physics and the robot file: values that no robot has, and agreement with the file.

Values that are impossible are evidence against the model. Agreement
with the robot file is another question: efforts and parameters scale
together, so data cannot tell a heavier robot from a wrong drive gain.
It is said beside the verdict, and changes its level only where the file
states its uncertainty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray
from gough.core.display import join_names
from gough.core.errors import GoughError
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.core.statistics import robust_scale, student_quantile, student_tail
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.fitting.noise_information import MIN_OBSERVED_RATIO
from gough.fitting.regression import Regression
from gough.identification.estimators import feasible
from gough.identification.problems import stated_uncertainty
from gough.verdict.acceptance import MATERIAL_EFFORT_CHANGE

# of a Gaussian value three sigmas away
THREE_SIGMA_CHANCE = float(student_tail(3.0, np.inf))
# relative standard error below which a value is compared with the file
WELL_DETERMINED = 0.1
MIN_RATIOS = 5  # values, below which nothing is said of a common factor
MIN_COMMON_FACTOR = 1.03  # common factors nearer to one are agreement
# chance below which values contradict the stated uncertainty of the
# file
FILE_ODDS = 1e-3


class Prior(NamedTuple):
    """Base parameters according to the robot file, (b,) each."""

    values: FloatArray
    # sum of the absolute contributions: a small difference of large
    # ones is not well known
    size: FloatArray
    given: BoolArray  # the file gives all contributions to a value
    # least value of a physical robot near the file; -inf where it is
    # not known
    lowest: FloatArray
    std: FloatArray  # stated uncertainty; NaN where the file states none


def cannot_be_negative(model: Model, standard: Parameter) -> bool:
    """Return True for standard parameters that are never negative: masses, inertias, friction."""
    if standard.inertial:
        return standard.kind in ("m", "Ixx", "Iyy", "Izz")
    term = model.mechanism.terms.get(standard.kind)
    return term is not None and term.nonnegative


def given_by_file(model: Model, standard: Parameter) -> bool:
    """Return True if the robot file gives a standard (or tied, or payload) parameter."""
    mechanism = model.mechanism
    if standard.payload is not None:
        for payload in mechanism.payloads:
            if payload.name == standard.payload and standard.kind in payload.values:
                return True
        return False
    owners = mechanism.bodies if standard.inertial else mechanism.joints
    given = {owner.name: owner.values for owner in owners}
    return all(member.kind in given.get(member.owner, {}) for member in model.resolve(standard))


def prior_of(model: Model, base: BaseParameters) -> Prior:
    """Return the base parameters according to the robot file.

    The least physical value of a base parameter sums, over the standard
    parameters in it, zero where coefficient times value cannot be
    negative, and twice the robot file's contribution where it can: a
    file may be wrong by a factor of two, not by its sign. What the file
    does not give has no bound.
    """
    known = np.array([given_by_file(model, name) for name in base.standard])
    positive = np.array([cannot_be_negative(model, name) for name in base.standard])
    relative = np.array([stated_uncertainty(model, name) for name in base.standard])
    contributions = base.matrix * model.values(base.standard)
    present = base.matrix != 0
    lower = np.where(known, np.minimum(2 * contributions, 0.0), -np.inf)
    lower = np.where((base.matrix > 0) & positive, 0.0, lower)
    lowest = np.where(present, lower, 0.0).sum(axis=1)
    variance = np.where(present, (contributions * relative) ** 2, 0.0).sum(axis=1)
    return Prior(
        values=contributions.sum(axis=1),
        size=np.abs(contributions).sum(axis=1),
        given=(~present | known).all(axis=1),
        lowest=np.where(positive[list(base.independent)], lowest, -np.inf),
        std=np.sqrt(variance),
    )


def negative_value_notices(
    estimate: Estimate,
    base: BaseParameters,
    prior: Prior,
    problem: Regression,
    model: Model | None = None,
) -> list[Notice]:
    """Report an error if a mass, an inertia or a friction is negative.

    By more than three standard errors, corrected for the number of
    parameters, and by so much that it matters to some effort.
    Combinations have a least value according to the robot file only,
    which may be far off. They are negative if no bodies can have such
    values. Parameters whose columns are mostly position noise are not
    determined, whatever their standard errors are, and not judged.

    Args:
        estimate: Of the base parameters.
        base: The base parameters.
        prior: The same according to the robot file.
        problem: Regression that was fitted.
        model: The robot, to look for bodies that have such values; the
            least values of the robot file decide without it.
    """
    lowest = {name: low for name, low in zip(base.names, prior.lowest) if np.isfinite(low)}
    bounded = [k for k, name in enumerate(estimate.parameters) if name in lowest]
    chance = THREE_SIGMA_CHANCE / max(len(bounded), 1)
    quantile = -student_quantile(chance, estimate.degrees_of_freedom[bounded])
    observed = np.ones(len(estimate), bool)
    if estimate.information is not None:
        observed = estimate.information >= MIN_OBSERVED_RATIO
    negative = []
    for k, deviations in zip(bounded, quantile):
        name = estimate.parameters[k]
        if not observed[k]:
            continue
        excess = lowest[name] - estimate.values[k]
        if excess > deviations * estimate.std[k] and effort_of(problem, name, excess):
            negative.append(k)
    if negative and model is not None:
        shift = _shift_to_possible_bodies(estimate, base, problem, model)
        limit = dict(zip(bounded, quantile * estimate.std[bounded]))
        negative = [k for k in negative if not abs(shift[k]) <= limit[k]]
    if not negative:
        return []
    worst = min(negative, key=lambda k: estimate.values[k] / estimate.std[k])
    negative_names = {estimate.parameters[k] for k in negative}
    worst_value = float(estimate.values[worst])
    std = float(estimate.std[worst])
    advice = "check signs, units and clock, and whether the motion excites these parameters"
    nonnegative = []
    for k in bounded:
        is_significant = estimate.std[k] < abs(estimate.values[k]) / 3
        if is_significant and lowest[estimate.parameters[k]] >= 0:
            nonnegative.append(k)
    least = lowest[estimate.parameters[worst]]
    reason = "cannot be negative"
    if least < 0:  # a difference, such as that of two inertias
        reason = (
            f"is below {least:.4g}, the least value if masses and friction are at most twice "
            "those of the robot file"
        )
    if len(nonnegative) > 1 and all(estimate.values[k] < 0 for k in nonnegative):
        advice = "all masses and frictions are negative: the sign of all efforts is flipped"
    notice = Notice(
        rule="negative value",
        level="error",
        where=join_names([name for name in base.names if name in negative_names]),
        text=f"no robot has such values: {estimate.parameters[worst]} = {worst_value:.4g} +- "
        f"{std:.2g} {estimate.units[worst]} {reason}",
        advice=advice,
        numbers={"count": len(negative), "value": worst_value, "std": std},
    )
    return [notice]


def _shift_to_possible_bodies(
    estimate: Estimate, base: BaseParameters, problem: Regression, model: Model
) -> FloatArray:
    """Return how far each value is from that of the nearest bodies that can exist, (p,).

    NaN if none were found.
    """
    try:
        possible = feasible(model, base, problem, estimate)
    except GoughError:
        return np.full(len(estimate.parameters), np.nan)
    return np.asarray(possible.estimate.values - estimate.values)


def effort_of(problem: Regression, name: Parameter, change: float) -> bool:
    """Return whether a change of a parameter matters to some row of a regression."""
    if name not in problem.parameters:
        return True
    column = problem.regressor[:, :, problem.parameters.index(name)]
    effort = np.sqrt((problem.effort**2).mean(axis=0))
    moved = abs(change) * np.sqrt((column**2).mean(axis=0))
    return bool((moved >= MATERIAL_EFFORT_CHANGE * np.maximum(effort, TINY)).any())


class FileRatios(NamedTuple):
    """Ratios of well-determined values to those of the robot file, (k,) each."""

    names: tuple[Parameter, ...]
    ratio: FloatArray  # estimate over the robot file's value
    relative_error: FloatArray  # standard error over the value
    # stated uncertainty of the file over its value; NaN if none
    stated: FloatArray


def file_ratios(estimate: Estimate, base: BaseParameters, prior: Prior) -> FileRatios:
    """Return the ratios of values to those of the robot file.

    Only of values that the file gives and the data determine to 10 %. A
    difference of large contributions (a regrouped inertia) is not known
    better than these and left out.
    """
    names = []
    ratio = []
    error = []
    stated = []
    for k, name in enumerate(base.names):
        if name not in estimate.parameters:
            continue
        column = estimate.parameters.index(name)
        value = estimate.values[column]
        std = estimate.std[column]
        cancels = abs(prior.values[k]) <= 0.5 * prior.size[k]
        determined = std < WELL_DETERMINED * max(abs(value), abs(prior.values[k]))
        if not prior.given[k] or cancels or not determined or prior.values[k] == 0:
            continue
        names.append(name)
        ratio.append(value / prior.values[k])
        error.append(std / max(abs(value), TINY))
        stated.append(prior.std[k] / abs(prior.values[k]))
    return FileRatios(tuple(names), np.array(ratio), np.array(error), np.array(stated))


def robot_file_notices(ratios: FileRatios) -> list[Notice]:
    """Say how the values compare with the robot file's.

    Information, unless they contradict an uncertainty that the file
    states.
    """
    contradictions = _contradictions(ratios)
    if contradictions:
        return contradictions
    positive = ratios.ratio > 0
    if positive.sum() < MIN_RATIOS:
        return []
    logs = np.log(ratios.ratio[positive])
    factor = float(np.exp(np.median(logs)))
    scatter = float(np.exp(robust_scale(logs - np.median(logs))))
    if abs(np.log(factor)) < np.log(MIN_COMMON_FACTOR):
        text = f"masses and friction agree with the robot file to a factor of {scatter:.2f}"
        advice = ""
    else:
        text = (
            f"masses and friction are {factor:.3g} times the robot file's values (single values "
            f"differ from that by a factor of {scatter:.2f}). Efforts and parameters scale "
            "together: these logs cannot tell a heavier robot from a wrong drive gain"
        )
        advice = (
            "check units, rated values, gear ratios and drive gains of the efforts; a log with a "
            "weighed payload, given as a loaded log, decides"
        )
    notice = Notice(
        rule="robot file",
        level="info",
        text=text,
        advice=advice,
        numbers={"factor": factor, "scatter": scatter, "count": int(positive.sum())},
    )
    return [notice]


def _contradictions(ratios: FileRatios) -> list[Notice]:
    """Warn about values that contradict the stated uncertainty of the file.

    The odds are corrected for the number of values.
    """
    stated = np.isfinite(ratios.stated) & (ratios.stated > 0)
    if not stated.any():
        return []
    spread = np.hypot(ratios.stated[stated], ratios.relative_error[stated] * ratios.ratio[stated])
    z = np.abs(ratios.ratio[stated] - 1) / np.maximum(spread, TINY)
    chance = 2 * student_tail(z, np.inf) * int(stated.sum())
    far = np.flatnonzero(chance < FILE_ODDS)
    if not len(far):
        return []
    names = [name for name, known in zip(ratios.names, stated) if known]
    worst = int(far[np.argmax(z[far])])
    ratio = float(ratios.ratio[stated][worst])
    notice = Notice(
        rule="robot file",
        level="warning",
        where=join_names([names[k] for k in far]),
        text=f"{names[worst]} is {ratio:.3g} times the robot file's value, which states an "
        f"uncertainty of {100 * ratios.stated[stated][worst]:.2g} %",
        advice="correct the file or its uncertainty; check gains, units and whether a payload was "
        "carried",
        numbers={"ratio": ratio, "count": len(far)},
    )
    return [notice]
