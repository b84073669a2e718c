"""Values against what physics allows and the robot file says: rules of the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.display import join_names
from gough.core.names import Parameter
from gough.core.notices import Remark, Remarks
from gough.core.parameters import BaseParameters
from gough.core.statistics import f_tail, robust_scale, student_quantile, student_tail
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.verdict.rules import CHANCE

DOUBT = float(student_tail(3.0, np.inf))  # three sigmas
FAR = 3.0  # times the robot file's value: CAD masses and catalogue friction are hardly ever worse
SURE = 0.1  # relative standard deviation of a value that is well determined
# scatter of ln(value / robot file) about a common factor that still is one: a file wrong by a
# quarter
ALIKE = 0.25
LEAST = 1.05  # common factors below this are within what scales and gains are known to
ODD = 1.3  # a single value below this factor is within what a good robot file is known to
# robust standard deviations from what the other values show of the robot file's quality
SURPRISE = 6.0

# Factors that units differ by. Their inverses are tried too.
UNITS: dict[str, float] = {
    "1000 (milli or kilo)": 1000.0,
    "180/pi (degrees for radians)": 180 / np.pi,
    "2 pi (turns for radians)": 2 * np.pi,
    "60 (per minute for per second)": 60.0,
    "9.81 (kilopond for newton)": 9.80665,
    "100 (per cent)": 100.0,
    "1000000 (micro or mega)": 1e6,
}


class Prior(NamedTuple):
    """What the robot file says of base parameters, (b,) each."""

    values: FloatArray
    # sum of the absolute contributions: a small difference of large ones says little
    size: FloatArray
    given: BoolArray  # the file gives all that a value is made of
    # least value a physical robot near the file can have; -inf where nothing is known
    lowest: FloatArray


def cannot_be_negative(model: Model, standard: Parameter) -> bool:
    """Tell whether a standard parameter of a physical robot cannot be negative: masses, inertias,
    friction.
    """
    term = model.mechanism.terms.get(standard.kind)
    return (
        standard.kind in ("m", "Ixx", "Iyy", "Izz")
        if standard.inertial
        else term is not None and term.nonnegative
    )


def given_by_file(model: Model, standard: Parameter) -> bool:
    """Tell whether the robot file gives a value for a standard (or tied, or payload) parameter."""
    mechanism = model.mechanism
    if standard.payload is not None:
        return any(
            p.name == standard.payload and standard.kind in p.values for p in mechanism.payloads
        )
    given = {
        item.name: item.values
        for item in (mechanism.bodies if standard.inertial else mechanism.joints)
    }
    return all(member.kind in given.get(member.owner, {}) for member in model.resolve(standard))


def prior_of(model: Model, base: BaseParameters) -> Prior:
    """Return what the robot file says of base parameters.

    The least physical value of a base parameter sums, over the standard ones it holds, zero where
    coefficient times value cannot be negative, and twice the robot file's contribution where it
    can: a file may be wrong by a factor of two, not by its sign. What the file leaves out has no
    bound.
    """
    known = np.array([given_by_file(model, name) for name in base.standard])
    positive = np.array([cannot_be_negative(model, name) for name in base.standard])
    parts, there = base.matrix * model.values(base.standard), base.matrix != 0
    floor = np.where(
        (base.matrix > 0) & positive, 0.0, np.where(known, np.minimum(2 * parts, 0.0), -np.inf)
    )
    lowest = np.where(
        positive[list(base.independent)], np.where(there, floor, 0.0).sum(axis=1), -np.inf
    )
    return Prior(parts.sum(axis=1), np.abs(parts).sum(axis=1), (~there | known).all(axis=1), lowest)


def judge_physics(estimate: Estimate, base: BaseParameters, prior: Prior) -> Remarks:
    """Speak if a mass, an inertia or a friction is negative by more than three sigmas (all
    parameters together).
    """
    lowest = {name: low for name, low in zip(base.names, prior.lowest) if np.isfinite(low)}
    own = [k for k, name in enumerate(estimate.parameters) if name in lowest]
    reach = (
        -student_quantile(DOUBT / max(len(own), 1), estimate.degrees_of_freedom[own])
        * estimate.std[own]
    )
    bad = [
        k for k, far in zip(own, reach) if estimate.values[k] + far < lowest[estimate.parameters[k]]
    ]
    if not bad:
        return ()
    worst = min(bad, key=lambda k: estimate.values[k] / estimate.std[k])
    names = [name for name in base.names if name in {estimate.parameters[k] for k in bad}]
    value, std = float(estimate.values[worst]), float(estimate.std[worst])
    return (
        Remark(
            "physics",
            "wrong",
            f"{join_names(names)}: no robot has such values; {estimate.parameters[worst]} = "
            f"{value:.4g} +- {std:.2g} {estimate.units[worst]} cannot be negative. A sign, a unit "
            f"or a clock is "
            "wrong, or the motion says too little",
            {"count": float(len(bad)), "value": value, "std": std},
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Factors:
    """Well-determined values over those of the robot file, and how far ratios may be off by noise,
    as ln, (k,) each.
    """

    names: tuple[str, ...]
    ratio: FloatArray
    reach: FloatArray


def factors(estimate: Estimate, base: BaseParameters, prior: Prior) -> Factors:
    """Return the ratios of an estimate's values to the robot file's (see `ratios`)."""
    where = [
        estimate.parameters.index(name) if name in estimate.parameters else -1
        for name in base.names
    ]
    there = np.array(where) >= 0
    values, sigma = (np.where(there, x[where], np.nan) for x in (estimate.values, estimate.std))
    reach = -student_quantile(CHANCE / len(where), estimate.degrees_of_freedom[where])
    return ratios(base.names, values, sigma, prior, reach)


def ratios(
    names: Sequence[str],
    values: FloatArray,
    sigma: FloatArray,
    prior: Prior,
    reach: FloatArray | float = 4.0,
) -> Factors:
    """Return the ratios of values, NaN where not found, that data determine to 10 % and the robot
    file gives, (b,).

    Sums that cancel are left out. By noise a value may be off by `reach` sigmas.
    """
    with np.errstate(invalid="ignore"):
        # A difference of large contributions (a regrouped inertia) is not known better than these.
        good = (
            prior.given
            & (np.abs(prior.values) > 0.5 * prior.size)
            & (prior.values != 0)
            & (sigma < SURE * np.maximum(np.abs(values), np.abs(prior.values)))
        )
    far = np.broadcast_to(reach, values.shape)[good] * sigma[good]
    return Factors(
        names=tuple(name for name, use in zip(names, good) if use),
        ratio=values[good] / prior.values[good],
        reach=far / np.maximum(np.abs(values[good]), 1e-300),
    )


def file_scatter(found: Factors) -> tuple[float, float]:
    """Return the median of the ratios and the robust scatter of ln|ratio| about it; none (1, inf)
    of fewer than five.

    How good a robot file is shows in how well its values agree with the data as a whole.
    """
    middle = float(np.median(found.ratio)) if len(found.names) >= 5 else 0.0
    return (middle, float(robust_scale(_apart(found, middle)))) if middle else (1.0, np.inf)


def _apart(found: Factors, middle: float) -> FloatArray:
    """Return ln|ratio / middle|, (k,)."""
    return np.asarray(np.log(np.maximum(np.abs(found.ratio / middle), 1e-300)))


def common_factor(found: Factors) -> float | None:
    """Return the factor by which nearly all values differ from the robot file's, or None if they do
    not.

    They must agree on it to a quarter, three in four of them within twice that and of one sign; and
    it must stand out of the scatter of the file: |ln f| above five standard deviations of a median,
    1.25 scatter / sqrt(k), and 5 %.
    """
    middle, scatter = file_scatter(found)
    near = (np.abs(_apart(found, middle)) < 2 * ALIKE) & (np.sign(found.ratio) == np.sign(middle))
    if not scatter < ALIKE or near.sum() < 0.75 * len(near):
        return None
    least = max(float(np.log(LEAST)), 5 * 1.25 * scatter / np.sqrt(len(found.names)))
    return middle if middle < 0 or abs(np.log(middle)) > least else None


def exchanged_legs(found: Factors, prior: Mapping[str, float]) -> tuple[str, str] | None:
    """Return two legs whose values are each other's in the robot file, or None.

    A robot with equal legs is its own mirror image: only what the file says of each leg tells that
    their channels are exchanged. The squares of ln(value / robot file) have to fall by more than
    chance lets them, all pairs together.
    """
    ratio, names = dict(zip(found.names, found.ratio)), [Parameter(name) for name in found.names]
    known = float((found.reach**2).sum())  # what noise does to them
    pairs = list(combinations(dict.fromkeys(name.leg for name in names if name.leg is not None), 2))
    for one, two in pairs:
        own = [
            (a, b) for a in names for b in names if (a.leg, b.leg, a.local) == (one, two, b.local)
        ]
        far = np.array(
            [
                [ratio[a], ratio[b], ratio[a] * prior[a] / prior[b], ratio[b] * prior[b] / prior[a]]
                for a, b in own
            ]
        ).reshape(-1, 4)
        if len(far) and far.min() > 0:
            now, after = (float((np.log(x) ** 2).sum()) for x in (far[:, :2], far[:, 2:]))
            if f_tail(now / (after + known), 2 * len(far), 2 * len(far)) < CHANCE / len(pairs):
                return one, two
    return None


def unit_of(
    factor: float, extra: Mapping[str, float] | None = None, tolerance: float = 0.1
) -> str | None:
    """Return the unit mistake, or extra factor, that a factor or its inverse looks like, whatever
    its sign, or None.
    """
    known = {**UNITS, **(extra or {})}
    candidates = {**known, **{f"1 / {name}": 1 / value for name, value in known.items()}}
    apart = {
        name: abs(np.log(abs(factor) / value))
        for name, value in candidates.items()
        if abs(np.log(value)) > np.log(1 + tolerance)
    }
    nearest = min(apart, key=lambda name: apart[name])
    return nearest if apart[nearest] < np.log(1 + tolerance) else None


def judge_prior(
    estimate: Estimate, base: BaseParameters, prior: Prior, gains: Mapping[str, float] | None = None
) -> Remarks:
    """Speak if values are far from the robot file's, or all of them by one factor: then it is a
    unit, or a drive gain.

    Far is a factor of 3, or less where the other values show that the file is better: 6 times their
    robust scatter, at least 1.3. Values that the robot file leaves out are not tested.
    """
    found = factors(estimate, base, prior)
    middle = common_factor(found)
    if middle is not None:
        own = {
            f"{value:.4g} (the drive gain)": abs(value)
            for value in dict.fromkeys((gains or {}).values())
            if value
        }
        unit = "the sign of all efforts" if -2 < middle < -0.5 else unit_of(middle, own)
        sure = middle < 0 or unit is not None or abs(np.log(middle)) > np.log(FAR) / 2
        text = (
            f"that is {unit}"
            if unit
            else "are the gains, the gears or the unit of the efforts right?"
        )
        return (
            Remark(
                "prior",
                "wrong" if sure else "look",
                f"all {len(found.names)} well-determined values are "
                f"{middle:.4g} times the robot file's; {text}",
                {"factor": middle, "count": float(len(found.names))},
            ),
        )
    legs = exchanged_legs(found, dict(zip(base.names, prior.values.tolist())))
    if legs is not None:
        return (
            Remark(
                "prior",
                "look",
                f"the robot file gives {legs[0]} the values found for {legs[1]}, and the other "
                "way round: are their channels exchanged?",
            ),
        )
    allowed = min(np.log(FAR), max(SURPRISE * file_scatter(found)[1], np.log(ODD)))
    far = {
        name: float(r)
        for name, r, reach in zip(found.names, found.ratio, found.reach)
        if reach < 1 and (r <= 0 or abs(np.log(r)) > max(allowed, reach))
    }
    if not far:
        return ()
    worst = max(far, key=lambda name: np.inf if far[name] <= 0 else abs(np.log(far[name])))
    return (
        Remark(
            "prior",
            "look",
            f"{join_names(list(far))}: well determined, but {worst} is {far[worst]:.3g} times what "
            f"the robot file says, where the other {len(found.names) - len(far)} values agree "
            f"within "
            f"{np.exp(allowed):.2g}; is the file, a unit or a channel wrong, or was a load "
            f"carried?",
            {"ratio": far[worst], "count": float(len(far))},
        ),
    )
