"""Mistakes that are either there or not: signs, channels, units, reversed time. Each is undone, refitted, compared.

They are too large for a derivative: every one changes what the motors are taken to have done. A few hundred samples
decide. The best hypothesis leaves the smallest residual; where several leave the same (all efforts flipped only flips
all parameters), the one whose parameters are nearest to the robot file and possible at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from gough.core.arrays import FloatArray
from gough.engine import Model
from gough.identification.diagnosis.evidence import Evidence, corrected, thinned
from gough.identification.diagnosis.rows import fit_rows
from gough.identification.diagnosis.track import Track
from gough.identification.prior import UNITS, Prior, common_factor, file_scatter, prior_of, ratios, unit_of

CLOCKS = (2.0, 60.0, 1000.0)  # factors of time that are mixed up: half rates, minutes, milliseconds
BETTER = 0.8  # of the error before: a true hypothesis explains more than this
SAME = 1.02  # errors within 2 % are the same: the noise of three hundred samples
NEARER, NEARBY = 0.3, 0.2  # fall of the distance to the robot file that decides between such, or what is left of it
FARTHEST = 3.0  # a value of the wrong sign, or off by more than exp(3), is as far as any


HYPOTHESES: dict[str, str] = {
    "effort sign": "the sign of the effort is flipped", "position sign": "the sign of the position is flipped",
    "effort unit": "the effort is {factor:.6g} times too large",
    "position unit": "the position is {factor:.6g} times too large",
    "clock unit": "times are {factor:.6g} times too long", "reversed time": "time runs backwards",
    "swapped efforts": "the efforts are swapped", "swapped positions": "the positions are swapped",
    "swapped channels": "the channels are swapped", "gravity reversed": "gravity points the other way",
    "gravity along another axis": "gravity points along another axis"}
"""What each hypothesis says of its place."""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A mistake that is there or not.

    Args:
        name: Which, e.g. `effort sign`.
        place: Where.
        undo: The track without it.
        advice: What to change in which file.
        factor: What a channel has to be divided by, if it is a factor.
        sigma: Of the factor, where it was found and not taken from a list.
        moves: Positions or velocities change: the motion has to be found again.
    """

    name: str
    place: str
    undo: Callable[[Track], Track]
    advice: str
    factor: float | None = None
    sigma: float = 0.0
    moves: bool = False

    @property
    def text(self) -> str:
        """The hypothesis in words."""
        return f"{self.place}: {HYPOTHESES[self.name].format(factor=self.factor)}"


def _factor(which: list[int], factor: float, count: int) -> FloatArray:
    """Return 1 / factor at some motors, 1 at the others, (a,)."""
    return np.array([1 / factor if k in which else 1.0 for k in range(count)])


def _scaled_effort(which: list[int], factor: float) -> Callable[[Track], Track]:
    return lambda track: track.with_effort(lambda effort: effort * _factor(which, factor, effort.shape[1]))


def _scaled_position(which: list[int], factor: float) -> Callable[[Track], Track]:
    return lambda track: track.scaled(_factor(which, factor, track.position.shape[1]))


def _swapped(first: int, second: int, position: bool, effort: bool) -> Callable[[Track], Track]:
    def undo(track: Track) -> Track:
        order = list(range(track.effort.shape[1]))
        order[first], order[second] = second, first
        if position:
            track = replace(track, position=track.position[:, order], velocity=track.velocity[:, order],
                            acceleration=track.acceleration[:, order])
        return track.with_effort(lambda values: values[:, order]) if effort else track

    return undo


def hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield every hypothesis about a robot's logs."""
    motors = evidence.model.mechanism.actuated
    units = [evidence.model.mechanism.joint(name).unit for name in motors]
    everyone = list(range(len(motors)))
    groups = [([k], name) for k, name in enumerate(motors)]
    if len(motors) > 1:
        groups.append((everyone, "all motors"))
    for which, place in groups:
        yield Hypothesis(name="effort sign", place=place, undo=_scaled_effort(which, -1.0), factor=-1.0,
                         advice=f"put a minus before the effort of {place}: scale = -1 in the description")
        yield Hypothesis(name="position sign", place=place, undo=_scaled_position(which, -1.0), factor=-1.0, moves=True,
                         advice=f"put a minus before the position of {place}: scale = -1 in the description")
    for which, place in groups[:len(motors)]:
        for factor in (2.0, 0.5, *(f for value in UNITS.values() for f in (value, 1 / value))):
            yield Hypothesis(name="effort unit", place=place, undo=_scaled_effort(which, factor), factor=factor,
                             advice=f"divide the effort of {place} by {factor:.6g}: correct its unit, gear or gain")
    for unit in dict.fromkeys(units):  # only those of one unit can be scaled together
        which = [k for k, own in enumerate(units) if own == unit]
        place = "all motors" if len(which) == len(motors) else f"all motors in {unit}"
        for factor in ((1000.0, 0.001) if unit == "m" else (180 / np.pi, np.pi / 180, 2 * np.pi, 1 / (2 * np.pi))):
            for some, where in [(which, place), *(([k], motors[k]) for k in which)][:1 + len(which) * (len(which) > 1)]:
                yield Hypothesis(name="position unit", place=where, undo=_scaled_position(some, factor), factor=factor,
                                 moves=True, advice=f"divide the position of {where} by {factor:.6g}: correct its unit")
    for one, two in combinations(everyone, 2):
        pair = f"{motors[one]} and {motors[two]}"
        for position, effort, what in ((False, True, "efforts"), (True, False, "positions"), (True, True, "channels")):
            yield Hypothesis(name=f"swapped {what}", place=pair, undo=_swapped(one, two, position, effort),
                             moves=position, advice=f"exchange the {what} of {pair} in the description")
    yield Hypothesis(name="reversed time", place="clock", undo=partial(Track.clocked, factor=-1.0), moves=True,
                     advice="the samples run backwards; sort them by time")
    for factor in (f for c in CLOCKS for f in (c, 1 / c)):
        yield Hypothesis(name="clock unit", place="clock", undo=partial(Track.clocked, factor=factor), factor=factor,
                         moves=True, advice=f"multiply the times by {1 / factor:.6g}: correct their unit or the rate")
    g = np.array(evidence.model.mechanism.gravity)
    size = float(np.linalg.norm(g))
    for axis in np.concatenate([np.eye(3), -np.eye(3)]) if size > 0 else ():
        if float(axis @ g) > (1 - 1e-6) * size:
            continue
        reverse = float(axis @ g) < -(1 - 1e-6) * size
        turned = size * axis
        yield Hypothesis(name="gravity reversed" if reverse else "gravity along another axis", place="base",
                         undo=lambda track, turned=turned: replace(track, gravity=turned),  # type: ignore[misc]
                         advice=f"put gravity = [{', '.join(f'{x:.6g}' for x in turned)}] in the robot file")


def try_out(few: Evidence, hypothesis: Hypothesis | None = None) -> tuple[float, float] | None:
    """Undo a mistake on some samples and fit again: error and distance to the robot file; None if loops do not close.

    The error is the geometric mean over the rows of residual over effort.
    """
    if hypothesis is not None and hypothesis.moves:
        for view in few.views:
            if not within_limits(few.model, hypothesis.undo(view.track).position, view.track.position):
                return None
    fresh = few if hypothesis is None else corrected(few, lambda track, view: hypothesis.undo(track))
    if fresh is None:
        return None
    values, sigma, error = fit_rows(*fresh.stacked)
    return error, distance_to_file(values, sigma, prior_of(few.model, few.base))


def common_factor_of(evidence: Evidence) -> Hypothesis | None:
    """Return the factor that all efforts have to be divided by to give the robot file's values, if there is one."""
    values, sigma, _ = fit_rows(*evidence.stacked)
    found = ratios(evidence.base.names, values, sigma, prior_of(evidence.model, evidence.base))
    factor, every = common_factor(found), list(range(len(evidence.model.actuated)))
    if factor is None or abs(np.log(max(-factor, 1e-300))) < np.log(2):  # about -1 is a sign
        return None
    unit = unit_of(factor)
    spread = abs(factor) * file_scatter(found)[1] * 1.25 / np.sqrt(len(found.names))  # of a median
    return Hypothesis(name="effort unit", place="all motors", undo=_scaled_effort(every, factor), factor=factor,
                      sigma=spread, advice=f"divide all efforts by {factor:.6g}"
                      + (f", that is {unit}" if unit else "") + ": correct their unit, gear or gain")


def within_limits(model: Model, position: FloatArray, before: FloatArray | None = None) -> bool:
    """Tell whether motors (t, a) stay where the robot file lets them, a fifth of the range to spare, or did not before.

    Without limits a revolute joint may turn five times to either side.
    """
    for k, name in enumerate(model.mechanism.actuated):
        joint = model.mechanism.joint(name)
        low, high = joint.limits.position or ((-10 * np.pi, 10 * np.pi) if joint.unit == "rad" else (-np.inf, np.inf))
        spare = 0.2 * (high - low) if np.isfinite(high - low) else 0.0
        outside = [x is not None and bool(x[:, k].min() < low - spare or x[:, k].max() > high + spare)
                   for x in (position, before)]
        if outside[0] and not outside[1]:
            return False
    return True


def distance_to_file(values: FloatArray, sigma: FloatArray, prior: Prior) -> float:
    """Return how far values are from the robot file's and from what is possible: the mean of |ln ratio|, at most 3.

    Only values that the file gives and the data determine to a third of either count; values that no robot has count
    as 3 whatever the file says.
    """
    sure = sigma < np.maximum(np.abs(values), np.abs(prior.values)) / 3
    impossible = values + 3 * sigma < prior.lowest
    tested = sure & prior.given & (np.abs(prior.values) > 0.5 * prior.size)
    ratio = np.divide(values, prior.values, out=np.full(len(values), -1.0), where=tested & (prior.values != 0))
    far = np.where(ratio > 0, np.minimum(np.abs(np.log(np.maximum(ratio, 1e-300))), FARTHEST), FARTHEST)
    far = np.where(impossible, FARTHEST, far)
    counted = tested | impossible
    return float(far[counted].mean()) if counted.any() else 0.0


def best_hypothesis(evidence: Evidence) -> Hypothesis | None:
    """Return the hypothesis that explains the logs best; None if they are best as they are.

    One is taken that leaves less than 0.8 of the error; among those that leave the same (to 2 %), and if none leaves
    less among those that leave the same as now, the one nearest to the robot file. None may lead away from the file:
    a motion made small is fitted by values that no robot has.
    """
    few = thinned(evidence)
    now = try_out(few)
    assert now is not None
    common = common_factor_of(evidence)
    wanted = [*hypotheses(evidence), *([] if common is None else [common])]
    tried = [(h, *found) for h in wanted if (found := try_out(few, h)) is not None and found[1] <= SAME * now[1]]
    least = min([now[0], *(error for _, error, _ in tried)])
    if least < BETTER * now[0]:
        near = [(distance, h) for h, error, distance in tried if error < SAME * least]
    else:
        near = [(distance, h) for h, error, distance in tried if error < SAME * now[0]
                and distance < max(now[1] - (NEARER if h is not common else 0.0), NEARBY * now[1])]
    return min(near, key=lambda pair: pair[0], default=(0.0, None))[1]
