"""The usual mistakes as directions: what each does to the efforts, how to undo it, what to change in which file.

A direction is one entry of `DIRECTIONS`. A mistake of a log is given by how to undo it. Let e be the recorded efforts,
m the motion behind them, and u(s) take a mistake of size s out of both; what is left, e_u(s) - prediction(m_u(s)),
changes by minus the column

    column = D dm_u/ds - de_u/ds,    D = d prediction / d (q, qd, qdd, gravity), exact, through the closed loops.

What a model lacks (a load, a term) is given by its column itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gough.core.arrays import FloatArray
from gough.identification.diagnosis import columns as column
from gough.identification.diagnosis.columns import ALL, Columns, Undo
from gough.identification.diagnosis.evidence import Evidence, View
from gough.mechanism.terms import TERMS

STRIBECK = (0.02, 0.06, 0.2)  # speeds of the decay tried, as parts of a joint's top speed
MEMORY = (0.03, 0.1)  # times over which friction builds up after a reversal [s]; tried on six robots, design 11
SHORT = 5.5  # samples: a shorter low-pass is called a delay, of which five are usual; they differ too little
STEP = 1e-6  # of a size, in differences of what `undo` does: smooth maps, exact to ten digits

Places = Callable[[Evidence], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One usual mistake.

    Args:
        name: In two words, e.g. `effort delay`.
        says: A sentence with {place}, {size} and perhaps {axis}.
        advice: What to change in which file, with {place}, {size} (SI), {factor} = 1 + size, {gravity}, {pitch}.
        unit: SI unit of its size, with {position} and {effort} of the joint; a pair for joints in m and in rad.
        places: Where it can sit: motors, joints, axes, logs.
        undo: Track, view, place, size -> the track without the mistake; None where the model lacks something instead.
        column: Then view, place -> derivative of the recorded efforts by the size, (t, r) or (t, r, k).
        sizes: How many numbers a size of `undo` has.
        positive: No physical robot has a size below zero: such a one is no finding.
        samples: Times between samples, below which its size cannot be told from other mistakes of the clock.
        tried: How many shapes were searched to find the columns; the chance of a false name grows with it.
    """

    name: str
    says: str
    advice: str
    unit: str | tuple[str, str]
    places: Places
    undo: Undo | None = None
    column: Columns | None = None
    sizes: int = 1
    positive: bool = False
    samples: float = 0.0
    tried: Callable[[View, str], int] = lambda view, place: 1

    def columns(self, view: View, place: str) -> FloatArray:
        """Return the derivative of the recorded efforts of the rows by the size at a place, (t, r) or (t, r, k)."""
        if self.undo is None:
            assert self.column is not None
            return self.column(view, place)
        track = replace(view.track, effort=view.prediction, deviations=view.track.deviations[:0])
        found = []
        for step in STEP * np.eye(self.sizes):
            ahead, back = (self.undo(track, view, place, s) for s in (step, -step))
            change = {name: (getattr(ahead, name) - getattr(back, name)) / (2 * STEP)
                      for name in ("position", "velocity", "acceleration", "gravity", "effort", "lag")}
            own = -view.effect(change["effort"]) + np.einsum("k,tkr->tr", change["gravity"], view.gravity)
            if change["lag"].any():  # d/dT of x / (1 + T s) is -s x / (1 + T s)^2
                own -= track.lagged(track.slope(view.prediction)) * change["lag"]
            if any(change[name].any() for name in ("position", "velocity", "acceleration")):
                own = own + view.moved(change["position"], change["velocity"], change["acceleration"])
            found.append(own)
        return found[0] if self.sizes == 1 else np.stack(found, axis=2)

    def unit_at(self, view: View, place: str) -> str:
        """Return the unit of its size at a place."""
        mechanism = view.model.mechanism
        names = [joint.name for joint in mechanism.joints]
        joint = mechanism.joint(place if place in names else mechanism.actuated[0])
        unit = self.unit if isinstance(self.unit, str) else self.unit[joint.unit == "rad"]
        return unit.format(position=joint.unit, effort=joint.effort_unit)

    def advice_at(self, view: View, place: str, size: FloatArray) -> str:
        """Return what to change."""
        turned = view.track.gravity if self.undo is None else self.undo(view.track, view, place, size).gravity
        wave = view.evidence.views[0].waves.get(place, (0.0, 1))[0] if "{pitch" in self.advice else 0.0
        return self.advice.format(
            place=place, size=size[0], less=-size[0], factor=1 + size[0], inverse=1 / (1 + size[0]), ms=1e3 * size[0],
            unit=self.unit_at(view, place), pitch=1 / max(wave, 1e-300),
            gravity=", ".join(f"{g:.4g}" for g in turned))


# -- places -----------------------------------------------------------------------------------------------------------


def _motors(evidence: Evidence) -> tuple[str, ...]:
    return evidence.model.mechanism.actuated


def _motors_and_all(evidence: Evidence) -> tuple[str, ...]:
    motors = _motors(evidence)
    return (*motors, ALL) if len(motors) > 1 else motors


def _rows_and_all(evidence: Evidence) -> tuple[str, ...]:
    return () if evidence.model.loops.redundant else _motors_and_all(evidence)


def _joints(evidence: Evidence) -> tuple[str, ...]:
    return tuple(joint.name for joint in evidence.model.mechanism.joints if not joint.virtual)


def _base(evidence: Evidence) -> tuple[str, ...]:
    return ("base",) if np.any(evidence.model.mechanism.gravity) else ()


def _unloaded(evidence: Evidence) -> tuple[str, ...]:
    """A load carried by all logs is part of the platform; one carried by some of them is seen."""
    return tuple(label for label, source in zip(evidence.labels, (*evidence.logs, *evidence.held_out))
                 if source.payload is None)


def _lacking(term: str) -> Places:
    return lambda evidence: tuple(joint.name for joint in evidence.model.mechanism.joints
                                  if not joint.virtual and term not in joint.terms)


# -- the registry -----------------------------------------------------------------------------------------------------


def _of_the_logs() -> Iterator[Direction]:
    """Mistakes in what was recorded; the more usual ones first."""
    yield Direction(name="effort delay", says="{place}: effort lags position by {size}", unit="s",
                    places=_motors_and_all, undo=column.undo_effort_delay,
                    advice='put delay = "{ms:.3g} ms" in the [effort] table of the description, for {place}')
    yield Direction(name="effort lag", says="{place}: effort is low-passed with a time constant of {size}", unit="s",
                    places=_rows_and_all, undo=column.undo_effort_lag, positive=True, samples=SHORT,
                    advice="take the filter out of the drive of {place}, or record what it does not filter")
    yield Direction(name="effort offset", says="{place}: effort is off by {size}", unit="{effort}", places=_motors,
                    undo=column.undo_effort_offset,
                    advice='zero the current sensor of {place}, or add "off" to its terms in the robot file')
    yield Direction(name="gain", says="{place}: effort is too large by {size}", unit="1", places=_motors,
                    undo=column.undo_gain, advice="divide the effort of {place} by {factor:.4g}: correct its gain in "
                                                  "the robot file or its scale in the description")
    yield Direction(name="encoder offset", says="{place}: position is off by {size}", unit="{position}",
                    places=_motors, undo=column.undo_encoder_offset,
                    advice="home {place} again, or put offset = {less:.4g} [{unit}] for its position in the "
                           "description")
    yield Direction(name="encoder scale", says="{place}: position is too large by {size}", unit="1",
                    places=_motors_and_all, undo=column.undo_encoder_scale,
                    advice="put scale = {inverse:.6g} for the position of {place} in the description")
    yield Direction(name="clock", says="times are too long by {size}", unit="1", places=lambda evidence: ("clock",),
                    undo=column.undo_clock, advice="multiply the times by {inverse:.6g}: correct their unit or the "
                                                   "rate in the description")
    yield Direction(name="tilt", says="the base is tilted by {size} about the axis [{axis}] of its frame", unit="rad",
                    places=_base, undo=column.undo_tilt, sizes=2,
                    advice="put gravity = [{gravity}] in the robot file, or level the base")
    yield Direction(name="compliance", says="{place}: the transmission gives way by {size}",
                    unit="{position}/({effort})", places=_motors, undo=column.undo_compliance, positive=True,
                    advice="the transmission of {place} gives way by that much; move slower, or measure behind it")
    yield Direction(name="unmentioned load", says="{place}: a load was carried, {size}", unit="kg", places=_unloaded,
                    column=column.load, advice="say in the description of {place} which payload was carried: "
                                               'payload = "..."')
    yield Direction(name="fading effort", says="{place}: effort grows along the log by {size}", unit="1",
                    places=_motors, column=column.faded,
                    advice="friction or magnets warm up: record after a warm-up")


def _lacks(what: str, *terms: str) -> str:
    if not terms:
        return f"no term of a robot file is {what}; take sigmas as low, or record with one load"
    names = " and ".join(f'"{term}"' for term in terms)
    return f"add {names} for {what} to the terms of {{place}} in the robot file, or take sigmas as low"


def _of_the_model() -> Iterator[Direction]:
    """What a robot file may lack, in shapes that need no constants."""
    uneven, curved = "viscous friction that differs by direction", "friction that grows with the square of the speed"
    yield Direction(name=uneven, unit="{effort} s/{position}", places=_joints,
                    advice=_lacks(uneven, "fv_plus", "fv_minus"),
                    says="{place}: viscous friction differs by direction, by {size} either way",
                    column=column.of_state(lambda joint: np.abs(joint.qd)))
    for part in STRIBECK:
        yield Direction(name="Stribeck friction", says="{place}: friction is larger at low speed by {size}",
                        unit="{effort}", places=_joints, column=column.stribeck(part), positive=True,
                        advice=_lacks("Stribeck friction", "stribeck"))
    yield Direction(name="friction curved over speed", unit="{effort} s2/{position}2", places=_joints,
                    says="{place}: friction grows with the square of the speed by {size}",
                    advice=_lacks(curved, "fv_cubic"),
                    column=column.of_state(lambda joint: joint.qd * np.abs(joint.qd)))
    yield Direction(name="friction that grows with load", says="{place}: friction grows with the load by {size} of it",
                    unit="1", places=_motors, column=column.loaded_friction, positive=True,
                    advice=_lacks("friction that grows with load"))
    for lag in MEMORY:
        yield Direction(name="friction with memory", unit="{effort}", places=_motors, column=column.memory(lag),
                        positive=True, says="{place}: friction builds up after a reversal, {size} of it",
                        advice=_lacks("friction that builds up after a reversal", "fs_time"))
    yield Direction(name="ripple", says="{place}: there is a ripple of {size}", unit="{effort}", places=_motors,
                    column=column.ripple, tried=lambda view, place: column.wave_of(view, place)[1],
                    advice="{place} has a ripple each {pitch:.4g} of its position (cogging, a gear's teeth); add "
                           '"ripple" with that pitch to its terms in the robot file, or take sigmas as low')


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
    return Direction(name=f"missing {label}", says="{place}: there is " + label + " of {size}", unit=TERMS[term].units,
                     places=_lacking(term), column=column.term(term), positive=TERMS[term].nonnegative,
                     advice=f'add "{term}" to the terms of {{place}} in the robot file')


def directions() -> Iterator[Direction]:
    """Yield all directions: the registered ones, then every joint term there is where a robot file lacks it."""
    for shapes in DIRECTIONS.values():
        yield from shapes
    yield from (_missing(name) for name, term in TERMS.items() if term.suspected)


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
    columns: tuple[int, ...] = ()

    def same(self, other: Suspicion) -> bool:
        """Tell whether another stack holds the same suspicion."""
        return self.direction is other.direction and self.place == other.place


def suspicions_of(evidence: Evidence, name: str = "") -> list[Suspicion]:
    """Return every mistake, or one kind of them, at every place, without columns."""
    return [Suspicion(direction=direction, place=place) for direction in directions()
            if name in ("", direction.name) for place in direction.places(evidence)]


def stack_directions(evidence: Evidence, views: Sequence[View],
                     only: Sequence[Suspicion] | None = None) -> tuple[list[Suspicion], list[FloatArray]]:
    """Return suspicions, and all columns side by side for each log, (t, r, k).

    Args:
        only: Some suspicions of an earlier stack; all by default.
    """
    suspicions: list[Suspicion] = []
    stacked: list[list[FloatArray]] = [[np.zeros((len(v.source.motion), len(v.model.rows), 0))] for v in views]
    first = 0
    for each in suspicions_of(evidence) if only is None else only:
        own = [each.direction.columns(view, each.place) for view in views]
        own = [x[:, :, None] if x.ndim == 2 else x for x in own]
        width = own[0].shape[2]
        suspicions.append(replace(each, columns=tuple(range(first, first + width))))
        first += width
        for log, x in zip(stacked, own):
            log.append(x)
    return suspicions, [np.concatenate(log, axis=2) for log in stacked]


def describe(size: float, unit: str) -> tuple[float, str]:
    """Return a size in the unit a person would use: ms, mm, deg, per cent."""
    usual: dict[str, tuple[float, str]] = {"s": (1e3, "ms"), "m": (1e3, "mm"), "rad": (180 / np.pi, "deg"),
                                           "1": (100.0, "%")}
    factor, name = usual.get(unit, (1.0, unit))
    return size * factor, name
