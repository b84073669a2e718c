"""The usual mistakes as directions: what each would do to the efforts, how to undo it, what to change in which file.

A direction is one entry of `DIRECTIONS`. Its columns are the derivative of the recorded effort by the size of the
mistake, at the motion's samples, from exact derivatives through the closed loops:

    effort delay d          tau(t - d)                -d tau / dt on the motor's row
    encoder offset o        q recorded = q + o        -d tau / dq_j
    encoder scale s         q recorded = (1 + s) q    -(q d/dq + qd d/dqd + qdd d/dqdd)_j tau
    clock c                 t recorded = (1 + c) t     (qd d/dqd + 2 qdd d/dqdd) tau, all motors
    effort offset, gain     tau + o, (1 + g) tau       1, tau on the motor's row
    tilt of the base        gravity turned by theta    (axis x g) . d tau / dg
    compliance c            q = q motor - c tau        -(tau d/dq + dtau/dt d/dqd + d2tau/dt2 d/dqdd)_j tau
    unmentioned load        a body on the platform     the payload's columns
    terms the file lacks    any joint term             E_j^T term(q, qd, qdd)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gough.core.arrays import FloatArray
from gough.identification.diagnosis import columns as column
from gough.identification.diagnosis.columns import ALL, Columns
from gough.identification.diagnosis.evidence import Evidence, View
from gough.identification.diagnosis.track import Track
from gough.mechanism.terms import TERMS

STRIBECK = (0.02, 0.06, 0.2)  # speeds of the decay tried, as parts of a joint's top speed
MEMORY = (0.03, 0.1)  # times over which friction builds up after a reversal [s]; tried on six robots, design 11

Places = Callable[[Evidence], Sequence[str]]
Undo = Callable[[Track, View, str, FloatArray], Track]
Unit = Callable[[View, str], str]
Advice = Callable[[View, str, FloatArray], str]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One usual mistake.

    Args:
        name: In two words, e.g. `effort delay`.
        says: A sentence with {place} and {size}.
        unit: Of its size, by the view and place: SI.
        places: Where it can sit: motors, joints, axes, logs.
        columns: View, place -> derivative of the recorded efforts by the size, (t, r) or (t, r, k).
        advice: View, place, size -> what to change in which file.
        undo: Track, view, place, size -> the track without the mistake; None where the model lacks something instead.
        tried: How many shapes were searched to find the columns; the chance of a false name grows with it.
    """

    name: str
    says: str
    unit: Unit
    places: Places
    columns: Columns
    advice: Advice
    undo: Undo | None = None
    tried: Callable[[View, str], int] = lambda view, place: 1


# -- places and units -------------------------------------------------------------------------------------------------


def _motors(evidence: Evidence) -> tuple[str, ...]:
    return evidence.model.mechanism.actuated


def _motors_and_all(evidence: Evidence) -> tuple[str, ...]:
    motors = _motors(evidence)
    return (*motors, ALL) if len(motors) > 1 else motors


def _joints(evidence: Evidence) -> tuple[str, ...]:
    return tuple(joint.name for joint in evidence.model.mechanism.joints if not joint.virtual)


def _base(evidence: Evidence) -> tuple[str, ...]:
    return ("base",) if np.any(evidence.model.mechanism.gravity) else ()


def _clock(evidence: Evidence) -> tuple[str, ...]:
    return ("clock",)


def _unloaded(evidence: Evidence) -> tuple[str, ...]:
    """A load carried by all logs is part of the platform; one carried by some of them is seen."""
    return tuple(label for label, source in zip(evidence.labels, (*evidence.logs, *evidence.held_out))
                 if source.payload is None)


def _lacking(term: str) -> Places:
    return lambda evidence: tuple(joint.name for joint in evidence.model.mechanism.joints
                                  if not joint.virtual and term not in joint.terms)


def _named(view: View, place: str) -> str:
    return view.model.mechanism.actuated[0] if place == ALL else place


def _position_unit(view: View, place: str) -> str:
    return view.model.mechanism.joint(_named(view, place)).unit


def _effort_unit(view: View, place: str) -> str:
    return view.model.mechanism.joint(_named(view, place)).effort_unit


def _compliance_unit(view: View, place: str) -> str:
    return f"{_position_unit(view, place)}/({_effort_unit(view, place)})"


def _viscous_unit(view: View, place: str) -> str:
    return f"{_effort_unit(view, place)} s/{_position_unit(view, place)}"


def _curved_unit(view: View, place: str) -> str:
    return f"{_effort_unit(view, place)} s2/{_position_unit(view, place)}2"


def _term_unit(term: str) -> Unit:
    return lambda view, place: TERMS[term].unit(view.model.mechanism.joint(place).kind)


def _is(unit: str) -> Unit:
    return lambda view, place: unit


# -- advice -----------------------------------------------------------------------------------------------------------


def _of(place: str) -> str:
    return "of all motors" if place == ALL else f"of {place}"


def _lacks(what: str) -> Advice:
    return lambda view, place, size: f"the robot file has no term for {what} at {place}; add one, or take sigmas as low"


def _delay_advice(view: View, place: str, size: FloatArray) -> str:
    where = "" if place == ALL else f", for {place} only"
    return f'put delay = "{1e3 * size[0]:.3g} ms" in the [effort] table of the description{where}'


def _offset_advice(view: View, place: str, size: FloatArray) -> str:
    return (f"home {place} again, or put offset = {-size[0]:.4g} [{_position_unit(view, place)}] for its position in "
            "the description")


def _tilt_advice(view: View, place: str, size: FloatArray) -> str:
    turned = column.rotated(view.track.gravity, size @ column.axes(view))
    return f"put gravity = [{', '.join(f'{g:.4g}' for g in turned)}] in the robot file, or level the base"


def _ripple_advice(view: View, place: str, size: FloatArray) -> str:
    pitch = 1 / max(column.wave_of(view, place)[0], 1e-300)
    return (f"{place} has a ripple of period {pitch:.4g} {_position_unit(view, place)} (cogging, a gear's teeth); add "
            "a term for it, or take sigmas as low")


# -- the registry -----------------------------------------------------------------------------------------------------


def _of_the_logs() -> Iterator[Direction]:
    """Mistakes in what was recorded; the more usual ones first."""
    yield Direction(name="effort delay", says="{place}: effort lags position by {size}", unit=_is("s"),
                    places=_motors_and_all, columns=column.effort_delay, undo=column.undo_effort_delay,
                    advice=_delay_advice)
    yield Direction(name="effort offset", says="{place}: effort is off by {size}", unit=_effort_unit, places=_motors,
                    columns=lambda view, place: view.on_motor(column.motors_at(view, place)[0], 1.0),
                    undo=column.undo_effort_offset,
                    advice=lambda view, place, size: f'zero the current sensor of {place}, or add "off" to its terms '
                                                     "in the robot file")
    yield Direction(name="gain", says="{place}: effort is too large by {size}", unit=_is("1"), places=_motors,
                    columns=lambda view, place: column.effect(view, column.only(view, place, view.prediction)),
                    undo=column.undo_gain,
                    advice=lambda view, place, size: f"divide the effort {_of(place)} by {1 + size[0]:.4g}: correct "
                                                     "its gain in the robot file or its scale in the description")
    yield Direction(name="encoder offset", says="{place}: position is off by {size}", unit=_position_unit,
                    places=_motors, columns=column.encoder_offset, undo=column.undo_encoder_offset,
                    advice=_offset_advice)
    yield Direction(name="encoder scale", says="{place}: position is too large by {size}", unit=_is("1"),
                    places=_motors_and_all, columns=column.encoder_scale, undo=column.undo_encoder_scale,
                    advice=lambda view, place, size: f"put scale = {1 / (1 + size[0]):.6g} for the position "
                                                     f"{_of(place)} in the description")
    yield Direction(name="clock", says="times are too long by {size}", unit=_is("1"), places=_clock,
                    columns=column.clock, undo=column.undo_clock,
                    advice=lambda view, place, size: f"multiply the times by {1 / (1 + size[0]):.6g}: correct their "
                                                     "unit or the rate in the description")
    yield Direction(name="tilt", says="the base is tilted by {size}", unit=_is("rad"), places=_base,
                    columns=column.tilt, undo=column.undo_tilt, advice=_tilt_advice)
    yield Direction(name="compliance", says="{place}: the transmission gives way by {size}", unit=_compliance_unit,
                    places=_motors, columns=column.compliance, undo=column.undo_compliance,
                    advice=lambda view, place, size: f"the transmission of {place} gives way by that much; move "
                                                     "slower, or measure behind it")
    yield Direction(name="unmentioned load", says="{place}: a load was carried, {size}", unit=_is("kg"),
                    places=_unloaded, columns=column.load,
                    advice=lambda view, place, size: f"say in the description of {place} which payload was carried: "
                                                     'payload = "..."')
    yield Direction(name="fading effort", says="{place}: effort grows along the log by {size}", unit=_is("1"),
                    places=_motors, columns=column.faded,
                    advice=lambda view, place, size: "friction or magnets warm up: record after a warm-up")


def _of_the_model() -> Iterator[Direction]:
    """What no robot file can say yet."""
    yield Direction(name="viscous friction that differs by direction", unit=_viscous_unit, places=_joints,
                    says="{place}: viscous friction differs by direction, by {size} either way", columns=column.uneven,
                    advice=_lacks("viscous friction that differs by direction"))
    for part in STRIBECK:
        yield Direction(name="Stribeck friction", says="{place}: friction is larger at low speed by {size}",
                        unit=_effort_unit, places=_joints, columns=column.stribeck(part),
                        advice=_lacks("Stribeck friction"))
    yield Direction(name="friction curved over speed",
                    says="{place}: friction grows with the square of the speed by {size}", unit=_curved_unit,
                    places=_joints, columns=column.curved,
                    advice=_lacks("friction that grows with the square of the speed"))
    yield Direction(name="friction that grows with load", says="{place}: friction grows with the load by {size} of it",
                    unit=_is("1"), places=_motors, columns=column.loaded_friction,
                    advice=_lacks("friction that grows with load"))
    for lag in MEMORY:
        yield Direction(name="friction with memory", unit=_effort_unit, places=_motors, columns=column.memory(lag),
                        says="{place}: friction builds up after a reversal, {size} of it",
                        advice=_lacks("friction that builds up after a reversal"))
    yield Direction(name="ripple", says="{place}: there is a ripple of {size}", unit=_effort_unit, places=_motors,
                    columns=column.ripple, tried=lambda view, place: column.wave_of(view, place)[1],
                    advice=_ripple_advice)


DIRECTIONS: dict[str, tuple[Direction, ...]] = {}


def register_direction(direction: Direction) -> Direction:
    """Make a usual mistake known to the diagnosis; several of one name are shapes of one mistake."""
    DIRECTIONS[direction.name] = (*DIRECTIONS.get(direction.name, ()), direction)
    return direction


for _entry in (*_of_the_logs(), *_of_the_model()):
    register_direction(_entry)


@lru_cache
def _missing(term: str) -> Direction:
    label = TERMS[term].label
    return Direction(name=f"missing {label}", says="{place}: there is " + label + " of {size}", unit=_term_unit(term),
                     places=_lacking(term), columns=column.term(term),
                     advice=lambda view, place, size: f'add "{term}" to the terms of {place} in the robot file')


def directions() -> Iterator[Direction]:
    """Yield all directions: the registered ones, then every joint term there is where a robot file lacks it."""
    for shapes in DIRECTIONS.values():
        yield from shapes
    yield from (_missing(term) for term in TERMS)


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """One direction at one place, with the columns it has in a stack of all.

    Args:
        direction: Which mistake.
        place: Where.
        columns: Which of the stacked columns are its own.
    """

    direction: Direction
    place: str
    columns: tuple[int, ...]

    @property
    def text(self) -> str:
        """What and where."""
        return f"{self.direction.name} of {self.place}"

    def same(self, other: Suspicion) -> bool:
        """Tell whether another stack holds the same suspicion."""
        return self.direction is other.direction and self.place == other.place


def stack_directions(evidence: Evidence, views: Sequence[View],
                     only: Sequence[Suspicion] | None = None) -> tuple[list[Suspicion], list[FloatArray]]:
    """Return every direction at every place, and all columns side by side for each log, (t, r, k).

    Args:
        evidence: The model and its logs.
        views: The logs wanted.
        only: Some suspicions of an earlier stack; all by default.
    """
    wanted = [(s.direction, s.place) for s in only] if only is not None else [
        (direction, place) for direction in directions() for place in direction.places(evidence)]
    suspicions: list[Suspicion] = []
    stacked: list[list[FloatArray]] = [[np.zeros((len(v.source.motion), len(v.model.rows), 0))] for v in views]
    first = 0
    for direction, place in wanted:
        own = [direction.columns(view, place) for view in views]
        own = [x[:, :, None] if x.ndim == 2 else x for x in own]
        width = own[0].shape[2]
        suspicions.append(Suspicion(direction=direction, place=place, columns=tuple(range(first, first + width))))
        first += width
        for log, x in zip(stacked, own):
            log.append(x)
    return suspicions, [np.concatenate(log, axis=2) for log in stacked]


def suspicions_of(evidence: Evidence, name: str) -> list[Suspicion]:
    """Return one kind of mistake at every place, without columns."""
    return [Suspicion(direction=direction, place=place, columns=())
            for direction in directions() if direction.name == name for place in direction.places(evidence)]


def describe(size: float, unit: str) -> tuple[float, str]:
    """Return a size in the unit a person would use: ms, mm, deg, per cent."""
    usual: dict[str, tuple[float, str]] = {"s": (1e3, "ms"), "m": (1e3, "mm"), "rad": (180 / np.pi, "deg"),
                                           "1": (100.0, "%")}
    factor, name = usual.get(unit, (1.0, unit))
    return size * factor, name
