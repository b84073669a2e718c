"""Rules that compare estimated values with physics and with the robot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.display import join_names
from gough.core.names import Parameter
from gough.core.notices import Level, Notice
from gough.core.parameters import BaseParameters
from gough.core.statistics import (
    f_tail,
    robust_scale,
    student_quantile,
    student_tail,
)
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.verdict.rules import FALSE_ALARM_CHANCE

THREE_SIGMA_CHANCE = float(student_tail(3.0, np.inf))  # of a Gaussian value three sigmas away
# Times the value of the robot file: CAD masses and catalogue friction are hardly ever worse.
FAR_FACTOR = 3.0
WELL_DETERMINED = 0.1  # relative standard error below which a value is well determined
# Scatter of ln(value / robot file) about a common factor: the file may be off by a quarter.
COMMON_FACTOR_SCATTER = 0.25
LEAST_COMMON_FACTOR = 1.05  # scales and gains are not known better
LEAST_ODD_FACTOR = 1.3  # the values of a good robot file are not known better
# Robust standard deviations, with the scatter of the other values of the robot file.
ODD_DEVIATIONS = 6.0
MIN_RATIOS = 5  # values, below which the quality of a robot file is not known

# Factors by which units differ. Their inverses are tried too.
UNIT_FACTORS: dict[str, float] = {
    "1000 (milli or kilo)": 1000.0,
    "180/pi (degrees for radians)": 180 / np.pi,
    "2 pi (turns for radians)": 2 * np.pi,
    "60 (per minute for per second)": 60.0,
    "9.81 (kilopond for newton)": 9.80665,
    "100 (per cent)": 100.0,
    "1000000 (micro or mega)": 1e6,
}


class Prior(NamedTuple):
    """Base parameters according to the robot file, (b,) each."""

    values: FloatArray
    # sum of the absolute contributions: a small difference of large ones is not well known
    size: FloatArray
    given: BoolArray  # the file gives all contributions to a value
    # least value of a physical robot near the file; -inf where it is not known
    lowest: FloatArray


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

    The least physical value of a base parameter sums, over the standard parameters in it,
    zero where coefficient times value cannot be negative, and twice the robot file's
    contribution where it can: a file may be wrong by a factor of two, not by its sign. What
    the file does not give has no bound.
    """
    known = np.array([given_by_file(model, name) for name in base.standard])
    positive = np.array([cannot_be_negative(model, name) for name in base.standard])
    contributions = base.matrix * model.values(base.standard)
    present = base.matrix != 0
    lower = np.where(known, np.minimum(2 * contributions, 0.0), -np.inf)
    lower = np.where((base.matrix > 0) & positive, 0.0, lower)
    lowest = np.where(present, lower, 0.0).sum(axis=1)
    return Prior(
        values=contributions.sum(axis=1),
        size=np.abs(contributions).sum(axis=1),
        given=(~present | known).all(axis=1),
        lowest=np.where(positive[list(base.independent)], lowest, -np.inf),
    )


def report_negative_values(estimate: Estimate, base: BaseParameters, prior: Prior) -> list[Notice]:
    """Report an error if a mass, an inertia or a friction is negative.

    By more than three standard errors, corrected for the number of parameters.
    """
    lowest = {name: low for name, low in zip(base.names, prior.lowest) if np.isfinite(low)}
    bounded = [k for k, name in enumerate(estimate.parameters) if name in lowest]
    chance = THREE_SIGMA_CHANCE / max(len(bounded), 1)
    quantile = -student_quantile(chance, estimate.degrees_of_freedom[bounded])
    negative = []
    for k, deviations in zip(bounded, quantile):
        highest = estimate.values[k] + deviations * estimate.std[k]
        if highest < lowest[estimate.parameters[k]]:
            negative.append(k)
    if not negative:
        return []
    worst = min(negative, key=lambda k: estimate.values[k] / estimate.std[k])
    negative_names = {estimate.parameters[k] for k in negative}
    worst_value = float(estimate.values[worst])
    std = float(estimate.std[worst])
    notice = Notice(
        rule="negative value",
        level="error",
        where=join_names([name for name in base.names if name in negative_names]),
        text=f"no robot has such values: {estimate.parameters[worst]} = {worst_value:.4g} +- "
        f"{std:.2g} {estimate.units[worst]} cannot be negative",
        advice="check signs, units and clock, and whether the motion excites these parameters",
        numbers={"count": len(negative), "value": worst_value, "std": std},
    )
    return [notice]


@dataclass(frozen=True, kw_only=True, eq=False)
class Factors:
    """Ratios of well-determined values to those of the robot file, (k,) each."""

    names: tuple[str, ...]  # of the parameters
    ratio: FloatArray  # estimate over the robot file's value
    reach: FloatArray  # error of ln(ratio) that noise explains


def factors(estimate: Estimate, base: BaseParameters, prior: Prior) -> Factors:
    """Return the ratios of an estimate's values to the robot file's (see `ratios`)."""
    values = np.full(len(base.names), np.nan)
    sigma = np.full(len(base.names), np.nan)
    freedom = np.full(len(base.names), np.inf)
    for k, name in enumerate(base.names):
        if name in estimate.parameters:
            column = estimate.parameters.index(name)
            values[k] = estimate.values[column]
            sigma[k] = estimate.std[column]
            freedom[k] = estimate.degrees_of_freedom[column]
    reach = -student_quantile(FALSE_ALARM_CHANCE / len(base.names), freedom)
    return ratios(base.names, values, sigma, prior, reach)


def ratios(
    names: Sequence[str],
    values: FloatArray,
    sigma: FloatArray,
    prior: Prior,
    reach: FloatArray | float = 4.0,
) -> Factors:
    """Return the ratios of values to those of the robot file.

    Only of values that the file gives and the data determine to 10 %. Sums that cancel are
    left
    out: a difference of large contributions (a regrouped inertia) is not known better than
    these.

    Args:
        names: Base parameters, (b,).
        values: NaN where not estimated, (b,).
        sigma: Their standard errors, (b,).
        prior: The values of the robot file.
        reach: Standard errors by which noise may change a value.
    """
    with np.errstate(invalid="ignore"):
        largest = np.maximum(np.abs(values), np.abs(prior.values))
        determined = sigma < WELL_DETERMINED * largest
        cancelling = np.abs(prior.values) <= 0.5 * prior.size
        comparable = prior.given & determined & ~cancelling & (prior.values != 0)
    error = np.broadcast_to(reach, values.shape)[comparable] * sigma[comparable]
    return Factors(
        names=tuple(name for name, use in zip(names, comparable) if use),
        ratio=values[comparable] / prior.values[comparable],
        reach=error / np.maximum(np.abs(values[comparable]), 1e-300),
    )


def file_scatter(compared: Factors) -> tuple[float, float]:
    """Return the median of the ratios and the robust scatter of ln|ratio| about it.

    How well all values of a robot file agree with the data shows how good the file is.
    Fewer than five values give (1, inf).
    """
    if len(compared.names) < MIN_RATIOS:
        return 1.0, np.inf
    median = float(np.median(compared.ratio))
    if median == 0:
        return 1.0, np.inf
    return median, float(robust_scale(_log_deviation(compared, median)))


def _log_deviation(compared: Factors, median: float) -> FloatArray:
    """Return ln|ratio / median|, (k,)."""
    return np.asarray(np.log(np.maximum(np.abs(compared.ratio / median), 1e-300)))


def common_factor(compared: Factors) -> float | None:
    """Return the factor by which nearly all values differ from the robot file's, or None.

    They must agree on it to a quarter, three in four of them within twice that and of one
    sign; and it must exceed the scatter of the file: |ln f| above five standard errors of a
    median, 1.25 scatter / sqrt(k), and 5 %.
    """
    median, scatter = file_scatter(compared)
    if not scatter < COMMON_FACTOR_SCATTER:
        return None
    near = np.abs(_log_deviation(compared, median)) < 2 * COMMON_FACTOR_SCATTER
    near &= np.sign(compared.ratio) == np.sign(median)
    if near.sum() < 0.75 * len(near):
        return None
    median_error = 1.25 * scatter / np.sqrt(len(compared.names))
    least = max(float(np.log(LEAST_COMMON_FACTOR)), 5 * median_error)
    return median if median < 0 or abs(np.log(median)) > least else None


def exchanged_legs(compared: Factors, prior: Mapping[str, float]) -> tuple[str, str] | None:
    """Return two legs whose values are each other's in the robot file, or None.

    A robot with equal legs is its own mirror image: exchanged channels show only in the
    differences between legs in the file. The squares of ln(value / robot file) have to fall
    by more than chance explains, with all pairs of legs tested together.
    """
    ratio = dict(zip(compared.names, compared.ratio))
    names = [Parameter(name) for name in compared.names]
    noise = float((compared.reach**2).sum())
    legs = dict.fromkeys(name.leg for name in names if name.leg is not None)
    pairs = list(combinations(legs, 2))
    for one, other in pairs:
        ratios_now = []
        ratios_exchanged = []
        for a, b in _matching(names, one, other):
            ratios_now += [ratio[a], ratio[b]]
            ratios_exchanged += [
                ratio[a] * prior[a] / prior[b],
                ratio[b] * prior[b] / prior[a],
            ]
        if not ratios_now or min(*ratios_now, *ratios_exchanged) <= 0:
            continue
        now = float((np.log(ratios_now) ** 2).sum())
        exchanged = float((np.log(ratios_exchanged) ** 2).sum())
        freedom = len(ratios_now)
        chance = f_tail(now / (exchanged + noise), freedom, freedom)
        if chance < FALSE_ALARM_CHANCE / len(pairs):
            return one, other
    return None


def _matching(
    names: Sequence[Parameter], one: str, other: str
) -> list[tuple[Parameter, Parameter]]:
    """Return the pairs of parameters that two legs have in common."""
    of_other = {name.local: name for name in names if name.leg == other}
    pairs = []
    for name in names:
        if name.leg == one and name.local in of_other:
            pairs.append((name, of_other[name.local]))
    return pairs


def unit_of(
    factor: float,
    extra: Mapping[str, float] | None = None,
    tolerance: float = 0.1,
) -> str | None:
    """Return the confusion of units that a factor looks like, or None.

    Args:
        factor: Of any sign.
        extra: More factors by name.
        tolerance: Relative.
    """
    known = {**UNIT_FACTORS, **(extra or {})}
    inverse = {f"1 / {name}": 1 / number for name, number in known.items()}
    nearest = None
    smallest = np.log(1 + tolerance)
    for name, number in {**known, **inverse}.items():
        distance = abs(np.log(abs(factor) / number))
        if abs(np.log(number)) > np.log(1 + tolerance) and distance < smallest:
            nearest = name
            smallest = distance
    return nearest


def warn_if_far_from_robot_file(
    estimate: Estimate,
    base: BaseParameters,
    prior: Prior,
    gains: Mapping[str, float] | None = None,
) -> list[Notice]:
    """Warn if values are far from the robot file's, or all of them by one factor.

    One factor for all is a unit, a sign or a drive gain. Far is a factor of 3, or less
    where the other values show that the file is better: 6 times their robust scatter, at
    least 1.3. Values that the robot file does not give are not compared.
    """
    compared = factors(estimate, base, prior)
    factor = common_factor(compared)
    if factor is not None:
        return [_common_factor_notice(factor, len(compared.names), gains or {})]
    legs = exchanged_legs(compared, dict(zip(base.names, prior.values.tolist())))
    if legs is not None:
        notice = Notice(
            rule="robot file",
            level="warning",
            where=f"{legs[0]} and {legs[1]}",
            text=f"the robot file gives {legs[0]} the values estimated for {legs[1]}, and vice "
            "versa",
            advice="check whether their channels are exchanged",
        )
        return [notice]
    return _odd_value_notices(compared)


def _common_factor_notice(factor: float, count: int, gains: Mapping[str, float]) -> Notice:
    """Return the notice on values that all differ from the robot file by one factor."""
    gain_factors = {f"{gain:.4g} (the drive gain)": abs(gain) for gain in gains.values() if gain}
    unit = "the sign of all efforts" if -2 < factor < -0.5 else unit_of(factor, gain_factors)
    certain = factor < 0 or unit is not None or abs(np.log(factor)) > np.log(FAR_FACTOR) / 2
    level: Level = "error" if certain else "warning"
    text = f"all {count} well-determined values are {factor:.4g} times the robot file's"
    return Notice(
        rule="robot file",
        level=level,
        text=f"{text}: that is {unit}" if unit else text,
        advice="check the gains, the gears and the unit of the efforts",
        numbers={"factor": factor, "count": count},
    )


def _odd_value_notices(compared: Factors) -> list[Notice]:
    """Return the notice on single values that are far from the robot file's."""
    scatter = file_scatter(compared)[1]
    allowed = min(
        np.log(FAR_FACTOR),
        max(ODD_DEVIATIONS * scatter, np.log(LEAST_ODD_FACTOR)),
    )
    distance = {}
    ratio = {}
    for name, number, reach in zip(compared.names, compared.ratio, compared.reach):
        log_ratio = abs(np.log(number)) if number > 0 else np.inf
        if reach < 1 and log_ratio > max(allowed, reach):
            distance[name] = log_ratio
            ratio[name] = float(number)
    if not ratio:
        return []
    worst = max(distance, key=lambda name: distance[name])
    others = len(compared.names) - len(ratio)
    notice = Notice(
        rule="robot file",
        level="warning",
        where=join_names(list(ratio)),
        text=f"well determined, but {worst} is {ratio[worst]:.3g} times the robot file's value, "
        f"where the other {others} values agree within a factor of {np.exp(allowed):.2g}",
        advice="check the file, units and channels, and whether a load was carried",
        numbers={"ratio": ratio[worst], "count": len(ratio)},
    )
    return [notice]
