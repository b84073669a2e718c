"""Mistakes that are either there or not: signs, channels, units, reversed time.

Each is undone, refitted, compared.

They are too large for a derivative: every one changes what the motors are taken to have
done. A few hundred samples decide. The best hypothesis leaves the smallest residual; where
several leave the same (all efforts flipped only flips all parameters), the one whose
parameters are nearest to the robot file and possible at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import GoughError
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism.types import Mechanism
from gough.processing import on_motor_side
from gough.verdict.diagnosis.directions import ALL
from gough.verdict.diagnosis.evidence import (
    Evidence,
    corrected,
    fit_rows,
    followed,
    thinned,
)
from gough.verdict.diagnosis.track import Track
from gough.verdict.robot_file import (
    UNIT_FACTORS,
    Prior,
    common_factor,
    file_scatter,
    prior_of,
    ratios,
    unit_of,
)

CLOCKS = (
    2.0,
    60.0,
    1000.0,
)  # factors of time that are mixed up: half rates, minutes, milliseconds
BETTER = 0.8  # of the error before: a true hypothesis explains more than this
SAME = 1.02  # errors within 2 % are the same: the noise of three hundred samples
NEARER, NEARBY = (
    0.3,
    0.2,
)  # fall of the distance to the robot file that decides between such, or what is left of it
FARTHEST = 3.0  # a value of the wrong sign, or off by more than exp(3), is as far as any


HYPOTHESES: dict[str, str] = {
    "effort sign": "the sign of the effort is flipped",
    "position sign": "the sign of the position is flipped",
    "effort unit": "the effort is {factor:.6g} times too large",
    "position unit": "the position is {factor:.6g} times too large",
    "clock unit": "times are {factor:.6g} times too long",
    "reversed time": "time runs backwards",
    "swapped efforts": "the efforts are swapped",
    "swapped positions": "the positions are swapped",
    "swapped channels": "the channels are swapped",
    "gravity reversed": "gravity points the other way",
    "gravity along another axis": "gravity points along another axis",
}
"""What each hypothesis says of its place."""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A mistake that is there or not."""

    name: str
    place: str
    undo: Callable[[Track], Track]  # the track without it
    advice: str
    factor: float | None = None  # that a channel has to be divided by
    sigma: float = 0.0  # of the factor, where it was found and not taken from a list

    @property
    def text(self) -> str:
        """The hypothesis in words."""
        return f"{self.place}: {HYPOTHESES[self.name].format(factor=self.factor)}"


def _changed(
    track: Track,
    motion: bool,
    effort: bool,
    change: Callable[[FloatArray], FloatArray],
) -> Track:
    """Return the track with a linear change of all motors' motion, efforts, or both, (t, a)
    each.
    """
    track = track.with_motion(change) if motion else track
    return track.with_effort(change) if effort else track


def _divided(values: FloatArray, which: list[int], factor: float) -> FloatArray:
    """Return values (t, a) over a factor at some motors."""
    return values * [1 / factor if k in which else 1.0 for k in range(values.shape[1])]


def _scaled(
    name: str,
    place: str,
    which: list[int],
    factor: float,
    advice: str,
    sigma: float = 0.0,
) -> Hypothesis:
    motion = name.startswith("position")
    return Hypothesis(
        name=name,
        place=place,
        advice=advice,
        factor=factor,
        sigma=sigma,
        undo=partial(
            _changed,
            motion=motion,
            effort=not motion,
            change=partial(_divided, which=which, factor=factor),
        ),
    )


def hypotheses(mechanism: Mechanism) -> Iterator[Hypothesis]:
    """Yield every hypothesis about a robot's logs."""
    motors = mechanism.actuated
    single = {name: [k] for k, name in enumerate(motors)}
    every = single | ({ALL: list(range(len(motors)))} if len(motors) > 1 else {})
    for place, which in every.items():
        for what in ("effort", "position"):
            yield _scaled(
                f"{what} sign",
                place,
                which,
                -1.0,
                f"put a minus before the {what} of {place}: scale = -1 in the description",
            )
    for place, which in single.items():
        for factor in (
            2.0,
            0.5,
            *(f for value in UNIT_FACTORS.values() for f in (value, 1 / value)),
        ):
            yield _scaled(
                "effort unit",
                place,
                which,
                factor,
                f"divide the effort of {place} by {factor:.6g}: correct its unit, gear or gain",
            )
    for unit in dict.fromkeys(
        mechanism.joint(name).unit for name in motors
    ):  # only these are scaled together
        own = {name: k for name, k in single.items() if mechanism.joint(name).unit == unit}
        groups = {
            ALL if len(own) == len(motors) else f"{ALL} in {unit}": [k for (k,) in own.values()]
        }
        for factor in (
            (1000.0, 0.001)
            if unit == "m"
            else (180 / np.pi, np.pi / 180, 2 * np.pi, 1 / (2 * np.pi))
        ):
            for place, which in (groups | own if len(own) > 1 else groups).items():
                yield _scaled(
                    "position unit",
                    place,
                    which,
                    factor,
                    f"divide the position of {place} by {factor:.6g}: correct its unit",
                )
    for one, two in combinations(range(len(motors)), 2):
        pair, order = (
            f"{motors[one]} and {motors[two]}",
            list(range(len(motors))),
        )
        order[one], order[two] = two, one
        for motion, effort, what in (
            (False, True, "efforts"),
            (True, False, "positions"),
            (True, True, "channels"),
        ):
            yield Hypothesis(
                name=f"swapped {what}",
                place=pair,
                advice=f"exchange the {what} of {pair} in the description",
                undo=partial(
                    _changed,
                    motion=motion,
                    effort=effort,
                    change=partial(np.take, indices=order, axis=1),
                ),
            )
    yield Hypothesis(
        name="reversed time",
        place="clock",
        undo=partial(Track.clocked, factor=-1.0),
        advice="the samples run backwards; sort them by time",
    )
    for factor in (f for c in CLOCKS for f in (c, 1 / c)):
        yield Hypothesis(
            name="clock unit",
            place="clock",
            undo=partial(Track.clocked, factor=factor),
            factor=factor,
            advice=f"multiply the times by {1 / factor:.6g}: correct their unit or the rate",
        )
    g = np.array(mechanism.gravity)
    size = float(np.linalg.norm(g))
    for axis in np.concatenate([np.eye(3), -np.eye(3)]) if size > 0 else ():
        along = float(axis @ g) / size
        if along < 1 - 1e-6:
            yield Hypothesis(
                name="gravity reversed" if along < 1e-6 - 1 else "gravity along another axis",
                place="base",
                undo=partial(replace, gravity=size * axis),
                advice=f"put gravity = [{', '.join(f'{size * x:.6g}' for x in axis)}] in the robot "
                f"file",
            )


def try_out(few: Evidence, hypothesis: Hypothesis | None = None) -> tuple[float, float] | None:
    """Undo a mistake on some samples and fit again: error and distance to the robot file; None if
    loops do not close.

    The error is the geometric mean over the rows of residual over effort.
    """
    fresh: Evidence | None = few
    if hypothesis is not None:
        for view in few.views:
            if not within_limits(
                few.model,
                hypothesis.undo(view.track).position,
                view.track.position,
            ):
                return None
        fresh = corrected(few, lambda track, view: hypothesis.undo(track))
    if fresh is None:
        return None
    values, sigma, error = fit_rows(*fresh.stacked)
    return error, distance_to_file(values, sigma, prior_of(few.model, few.base))


def common_factor_of(evidence: Evidence) -> Hypothesis | None:
    """Return the factor that all efforts have to be divided by to give the robot file's values, if
    there is one.
    """
    values, sigma, _ = fit_rows(*evidence.stacked)
    found = ratios(
        evidence.base.names,
        values,
        sigma,
        prior_of(evidence.model, evidence.base),
    )
    factor, every = (
        common_factor(found),
        list(range(len(evidence.model.actuated))),
    )
    if factor is None or abs(np.log(max(-factor, 1e-300))) < np.log(2):  # about -1 is a sign
        return None
    unit = unit_of(factor)
    spread = abs(factor) * file_scatter(found)[1] * 1.25 / np.sqrt(len(found.names))  # of a median
    return _scaled(
        "effort unit",
        ALL,
        every,
        factor,
        f"divide all efforts by {factor:.6g}"
        + (f", that is {unit}" if unit else "")
        + ": correct their unit, gear or gain",
        spread,
    )


def within_limits(model: Model, position: FloatArray, before: FloatArray | None = None) -> bool:
    """Tell whether motors (t, a) stay where the robot file lets them, a fifth of the range to
    spare, or did not before.

    Without limits a revolute joint may turn five times to either side.
    """
    joints = [model.mechanism.joint(name) for name in model.mechanism.actuated]
    free = {"rad": (-10 * np.pi, 10 * np.pi), "m": (-np.inf, np.inf)}
    low, high = np.array([joint.limits.position or free[joint.unit] for joint in joints]).T
    spare = np.where(np.isfinite(high - low), 0.2 * (high - low), 0.0)

    def outside(x: FloatArray) -> BoolArray:
        return np.asarray((x.min(axis=0) < low - spare) | (x.max(axis=0) > high + spare))

    return not (outside(position) & (True if before is None else ~outside(before))).any()


def may_close(model: Model, logs: Sequence[Recording]) -> bool:
    """Tell whether the loops close at a few samples of each log, inside the limits of the
    motors.
    """
    for log in (on_motor_side(log, model.mechanism) for log in logs):
        if any(name not in log.joints for name in model.mechanism.actuated):
            return False
        order = [log.joints.index(name) for name in model.mechanism.actuated]
        few = log.position[np.linspace(0, len(log) - 1, 12).astype(int)][:, order]
        if not within_limits(model, few):
            return False
        try:
            followed(
                model,
                few[
                    :,
                    [
                        model.actuated.index(i)
                        for i in model.loops.partitions["actuated"].independent
                    ],
                ],
            )
        except GoughError:
            return False
    return True


def distance_to_file(values: FloatArray, sigma: FloatArray, prior: Prior) -> float:
    """Return how far values are from the robot file's and from what is possible: the mean of |ln
    ratio|, at most 3.

    Only values that the file gives and the data determine to a third of either count;
    values that no robot has count as 3 whatever the file says.
    """
    sure = sigma < np.maximum(np.abs(values), np.abs(prior.values)) / 3
    impossible = values + 3 * sigma < prior.lowest
    tested = sure & prior.given & (np.abs(prior.values) > 0.5 * prior.size)
    ratio = np.divide(
        values,
        prior.values,
        out=np.full(len(values), -1.0),
        where=tested & (prior.values != 0),
    )
    far = np.where(
        ratio > 0,
        np.minimum(np.abs(np.log(np.maximum(ratio, 1e-300))), FARTHEST),
        FARTHEST,
    )
    counted = tested | impossible
    return float(np.where(impossible, FARTHEST, far)[counted].mean()) if counted.any() else 0.0


def best_hypothesis(evidence: Evidence) -> Hypothesis | None:
    """Return the hypothesis that explains the logs best; None if they are best as they are.

    One is taken that leaves less than 0.8 of the error; among those that leave the same (to
    2 %), and if none leaves less among those that leave the same as now, the one nearest to
    the robot file. None may lead away from the file: a motion made small is fitted by
    values that no robot has.
    """
    few = thinned(evidence)
    now = try_out(few)
    assert now is not None
    common = common_factor_of(evidence)
    wanted = [
        *hypotheses(evidence.model.mechanism),
        *([] if common is None else [common]),
    ]
    tried = [
        (h, *found)
        for h in wanted
        if (found := try_out(few, h)) is not None and found[1] <= SAME * now[1]
    ]
    least = min([now[0], *(error for _, error, _ in tried)])
    if least < BETTER * now[0]:
        near = [(distance, h) for h, error, distance in tried if error < SAME * least]
    else:
        near = [
            (distance, h)
            for h, error, distance in tried
            if error < SAME * now[0]
            and distance < max(now[1] - (NEARER if h is not common else 0.0), NEARBY * now[1])
        ]
    return min(near, key=lambda pair: pair[0], default=(0.0, None))[1]
