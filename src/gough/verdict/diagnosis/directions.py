"""The usual mistakes as directions: what each does to the efforts, how to undo it, what to change
in which file.

A direction is one entry of `DIRECTIONS`. A mistake of a log is given by how to undo it. Let
e be the recorded efforts, m the motion behind them, and u(s) take a mistake of size s out
of both; what is left, e_u(s) - prediction(m_u(s)), changes by minus the column

    column = D dm_u/ds - de_u/ds,    D = d prediction / d (q, qd, qdd, gravity), exact,
    through the closed loops.

What a model lacks (a load, a term) is given by its column itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import expm

from gough.core.arrays import TINY, FloatArray
from gough.core.names import LOAD_PARAMETERS
from gough.core.signals import first_order_filter
from gough.engine.internal_states import joint_state as state_of
from gough.identification.diagnosis import length, size_text
from gough.mechanism.terms import TERMS, JointState
from gough.verdict.diagnosis.evidence import Evidence, View
from gough.verdict.diagnosis.track import Track

ALL = "all motors"
STRIBECK = (
    0.02,
    0.06,
    0.2,
)  # speeds of the decay tried, as parts of a joint's top speed
MEMORY = (
    0.03,
    0.1,
)  # times over which friction builds up after a reversal [s]; tried on six robots, design 11
# samples: a shorter low-pass is called a delay, of which five are usual; they differ too little
SHORT = 5.5
STEP = 1e-6  # of a size, in differences of what `undo` does: smooth maps, exact to ten digits

Places = Callable[[Evidence], Sequence[str]]
Columns = Callable[[View, str], FloatArray]
Undo = Callable[[Track, View, str, FloatArray], Track]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One usual mistake.

    Either `undo` gives, for a track, view, place and size, the track without the mistake,
    or the model lacks something and `column` gives, for a view and place, the derivative of
    the recorded efforts by the size, (t, r) or (t, r, k).
    """

    name: str
    says: str  # with {place}, {size} and perhaps {axis}
    advice: str  # with {place}, {size} (SI), {factor} = 1 + size, {gravity}, {pitch}
    unit: (
        str | tuple[str, str]
    )  # with {position} and {effort} of the joint; a pair for joints in m and in rad
    places: Places  # where it can sit: motors, joints, axes, logs
    undo: Undo | None = None
    column: Columns | None = None
    sizes: int = 1  # how many numbers a size of `undo` has
    positive: bool = False  # no physical robot has a size below zero: such a one is no finding
    # a smaller size, in samples, cannot be told from other mistakes of the clock
    samples: float = 0.0
    tried: Callable[[View, str], int] = lambda view, place: 1  # shapes searched to find the columns

    def columns(self, view: View, place: str) -> FloatArray:
        """Return the derivative of the recorded efforts by the size, (t, r) or (t, r, k)."""
        if self.undo is None:
            assert self.column is not None
            return self.column(view, place)
        track = replace(
            view.track,
            effort=view.prediction,
            deviations=view.track.deviations[:0],
        )
        found = []
        for step in STEP * np.eye(self.sizes):
            ahead, back = (self.undo(track, view, place, s) for s in (step, -step))
            effort, gravity, lag, *motion = (
                (getattr(ahead, name) - getattr(back, name)) / (2 * STEP)
                for name in (
                    "effort",
                    "gravity",
                    "lag",
                    "position",
                    "velocity",
                    "acceleration",
                )
            )
            own = -view.effect(effort) + np.einsum("k,tkr->tr", gravity, view.gravity)
            if lag.any():  # d/dT of x / (1 + T s) is -s x / (1 + T s)^2
                own -= track.lagged(track.slope(view.prediction)) * lag
            if any(x.any() for x in motion):
                own = own + track.lagged(np.einsum("ktra,kta->tr", view.derivative, motion))
            found.append(own)
        return found[0] if self.sizes == 1 else np.stack(found, axis=2)

    def unit_at(self, view: View, place: str) -> str:
        mechanism = view.model.mechanism
        names = [joint.name for joint in mechanism.joints]
        joint = mechanism.joint(place if place in names else mechanism.actuated[0])
        unit = self.unit if isinstance(self.unit, str) else self.unit[joint.unit == "rad"]
        return unit.format(position=joint.unit, effort=joint.effort_unit)

    def advice_at(self, view: View, place: str, size: FloatArray) -> str:
        turned = (
            view.track.gravity
            if self.undo is None
            else self.undo(view.track, view, place, size).gravity
        )
        wave = wave_of(view, place)[0] if "{pitch" in self.advice else 1.0
        return self.advice.format(
            place=place,
            size=size[0],
            less=-size[0],
            factor=1 + size[0],
            inverse=1 / (1 + size[0]),
            ms=1e3 * size[0],
            unit=self.unit_at(view, place),
            pitch=1 / max(wave, 1e-300),
            gravity=", ".join(f"{g:.4g}" for g in turned),
        )


# -- how mistakes of a log are undone


def at_motors(view: View, place: str, there: float) -> FloatArray:
    """Return a number for each motor at a place, zero elsewhere, (a,)."""
    return np.array(
        [there if place in (ALL, name) else 0.0 for name in view.model.mechanism.actuated]
    )


def on_motors(change: Callable[[Track, FloatArray], Track]) -> Undo:
    """Undo a mistake of so much at each motor, (a,)."""
    return lambda track, view, place, size: change(track, at_motors(view, place, float(size[0])))


def undo_effort_delay(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take efforts from later, by the delay. [s]"""
    chosen = at_motors(view, place, 1.0)
    return track.with_effort(
        lambda effort: np.where(chosen, track.shifted(effort, float(size[0])), effort)
    )


def undo_compliance(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take the bending, size times effort, out of the motion. [m/N or rad/(N m)]"""
    bent = view.smooth(view.prediction * at_motors(view, place, size[0]))
    return replace(
        track,
        position=track.position - bent[0],
        velocity=track.velocity - bent[1],
        acceleration=track.acceleration - bent[2],
    )


def tilt_axes(gravity: FloatArray) -> FloatArray:
    """Return two level axes about which a base may be tilted, (2, 3)."""
    g = gravity / max(float(np.linalg.norm(gravity)), 1e-300)
    first = np.argsort(np.abs(g), kind="stable")[0]
    one = np.eye(3)[first] - g[first] * g
    one /= np.linalg.norm(one)
    return np.stack([one, np.cross(g, one)])


def undo_tilt(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Turn gravity. [rad, rad]"""
    return replace(
        track,
        gravity=rotated(
            track.gravity,
            size @ tilt_axes(np.array(view.model.mechanism.gravity)),
        ),
    )


def rotated(vector: FloatArray, turn: FloatArray) -> FloatArray:
    """Turn a vector by axis x angle. [rad]"""
    return np.asarray(expm(np.cross(np.eye(3), turn)) @ vector)


# -- what the model lacks


def load(view: View, place: str) -> FloatArray:
    """The ten columns of a load on the platform in one log."""
    if view.source.name != place:
        return np.zeros(
            (
                len(view.source.motion),
                len(view.model.rows),
                len(LOAD_PARAMETERS),
            )
        )
    return view.model.regressor(
        view.source.motion, LOAD_PARAMETERS, dead_band=view.source.dead_band
    )


def faded(view: View, place: str) -> FloatArray:
    """The effort of a motor growing along a log that is not averaged, by the whole of its
    length.
    """
    time = view.track.time
    part = (
        (time - time.mean()) / max(float(time[-1] - time[0]), 1e-300) * (not view.source.periodic)
    )
    return view.effect(view.prediction * part[:, None] * at_motors(view, place, 1.0))


def joint_state(view: View, joint: str) -> JointState:
    mechanism = view.model.mechanism
    return state_of(
        mechanism,
        view.source.motion,
        mechanism.coordinates.index(joint),
        view.source.dead_band,
    )


def at_joint(effort: Callable[[View, str, JointState], FloatArray]) -> Columns:
    """Return the effect on the rows of an effort, or of (t, k), at any joint: E_j^T effort."""

    def columns(view: View, place: str) -> FloatArray:
        E = view.closure_map[:, view.model.mechanism.coordinates.index(place)]
        values = np.asarray(effort(view, place, joint_state(view, place)))
        return E[:, :, None] * values[:, None] if values.ndim == 2 else E * values.reshape(-1, 1)

    return columns


def stribeck(part: float) -> Columns:
    """sign(qd) exp(-|qd| / v), v a part of the top speed of the first log."""

    def effort(view: View, place: str, joint: JointState) -> FloatArray:
        first = joint_state(view.evidence.views[0], place)  # all logs have one v
        return np.asarray(
            joint.sign * np.exp(-np.abs(joint.qd) / max(part * float(np.abs(first.qd).max()), TINY))
        )

    return at_joint(effort)


def memory(lag: float) -> Columns:
    """Friction that builds up after a reversal: a lagged sign minus the sign. [s]"""

    def effort(view: View, place: str, joint: JointState) -> FloatArray:
        keep = np.exp(-view.track.step / lag)
        run = np.concatenate(
            [joint.sign] * (1 + view.source.periodic)
        )  # a period begins where it ends
        low = first_order_filter(run, (1 - keep, 0.0), keep, keep * joint.sign[0])
        return np.asarray(low[-len(joint.sign) :] - joint.sign)

    return at_joint(effort)


def wave_of(view: View, place: str) -> tuple[float, int]:
    """Return the ripple of the first log, for all of them, and how many were tried."""
    return view.evidence.views[0].waves[place]


@at_joint
def ripple(view: View, place: str, joint: JointState) -> FloatArray:
    """Sine and cosine at the pitch that the residual holds most of."""
    phase = 2 * np.pi * wave_of(view, place)[0] * joint.q
    return np.stack([np.sin(phase), np.cos(phase)], axis=1)


@at_joint
def loaded_friction(view: View, place: str, joint: JointState) -> FloatArray:
    """Friction that grows with the load: sign(qd) |tau|."""
    return np.asarray(
        joint.sign * np.abs(view.prediction[:, view.model.mechanism.actuated.index(place)])
    )


# -- places


def _motors(evidence: Evidence) -> tuple[str, ...]:
    return evidence.model.mechanism.actuated


def _motors_and_all(evidence: Evidence) -> tuple[str, ...]:
    motors = _motors(evidence)
    return (*motors, ALL) if len(motors) > 1 else motors


def _joints(evidence: Evidence, without: str = "") -> tuple[str, ...]:
    return tuple(
        joint.name
        for joint in evidence.model.mechanism.joints
        if not joint.virtual and without not in joint.terms
    )


def _unloaded(evidence: Evidence) -> tuple[str, ...]:
    """A load carried by all logs is part of the platform; one carried by some of them is seen."""
    return tuple(source.name for source in evidence.together.logs if source.payload is None)


# -- the registry

DIRECTIONS: dict[str, tuple[Direction, ...]] = {}


def register_direction(direction: Direction) -> Direction:
    """Make a usual mistake known; several of one name are shapes of one mistake."""
    DIRECTIONS[direction.name] = (
        *DIRECTIONS.get(direction.name, ()),
        direction,
    )
    return direction


def _of_the_logs() -> Iterator[Direction]:
    """Mistakes in what was recorded; the more usual ones first."""
    yield Direction(
        name="effort delay",
        says="{place}: effort lags position by {size}",
        unit="s",
        places=_motors_and_all,
        undo=undo_effort_delay,
        advice='put delay = "{ms:.3g} ms" in the [effort] table of the description, for {place}',
    )
    yield Direction(
        name="effort lag",
        says="{place}: effort is low-passed with a time constant of {size}",
        unit="s",
        places=lambda evidence: () if evidence.model.loops.redundant else _motors_and_all(evidence),
        # The model is low-passed as the efforts were: to undo a low-pass would only raise noise.
        undo=on_motors(lambda track, at: replace(track, lag=track.lag + at)),
        positive=True,
        samples=SHORT,
        advice="take the filter out of the drive of {place}, or record what it does not filter",
    )
    yield Direction(
        name="effort offset",
        says="{place}: effort is off by {size}",
        unit="{effort}",
        places=_motors,
        undo=on_motors(lambda track, at: track.with_effort(lambda effort: effort - at)),
        advice='zero the current sensor of {place}, or add "off" to its terms in the robot file',
    )
    yield Direction(
        name="gain",
        says="{place}: effort is too large by {size}",
        unit="1",
        places=_motors,
        undo=on_motors(lambda track, at: track.with_effort(lambda effort: effort / (1 + at))),
        advice="divide the effort of {place} by {factor:.4g}: correct its gain in the robot file "
        "or its "
        "scale in the description",
    )
    yield Direction(
        name="encoder offset",
        says="{place}: position is off by {size}",
        unit="{position}",
        places=_motors,
        undo=on_motors(lambda track, at: replace(track, position=track.position - at)),
        advice="home {place} again, or put offset = {less:.4g} [{unit}] for its position in the "
        "description",
    )
    yield Direction(
        name="encoder scale",
        says="{place}: position is too large by {size}",
        unit="1",
        places=_motors_and_all,
        undo=on_motors(lambda track, at: track.with_motion(lambda motion: motion / (1 + at))),
        advice="put scale = {inverse:.6g} for the position of {place} in the description",
    )
    yield Direction(
        name="clock",
        says="times are too long by {size}",
        unit="1",
        places=lambda evidence: ("clock",),
        undo=lambda track, view, place, size: track.clocked(1 + float(size[0])),
        advice="multiply the times by {inverse:.6g}: correct their unit or the rate in the "
        "description",
    )
    yield Direction(
        name="tilt",
        says="the base is tilted by {size} about the axis [{axis}] of its frame",
        unit="rad",
        places=lambda evidence: ("base",) * any(evidence.model.mechanism.gravity),
        undo=undo_tilt,
        sizes=2,
        advice="put gravity = [{gravity}] in the robot file, or level the base",
    )
    yield Direction(
        name="compliance",
        says="{place}: the transmission gives way by {size}",
        unit="{position}/({effort})",
        places=_motors,
        undo=undo_compliance,
        positive=True,
        advice="the transmission of {place} gives way by that much; move slower, or measure behind "
        "it",
    )
    yield Direction(
        name="unmentioned load",
        says="{place}: a load was carried, {size}",
        unit="kg",
        places=_unloaded,
        column=load,
        advice='say in the description of {place} which payload was carried: payload = "..."',
    )
    yield Direction(
        name="fading effort",
        says="{place}: effort grows along the log by {size}",
        unit="1",
        places=_motors,
        column=faded,
        advice="friction or magnets warm up: record after a warm-up",
    )


def _lacks(what: str, *terms: str) -> str:
    names = " and ".join(f'"{term}"' for term in terms)
    return (
        f"add {names} for {what} to the terms of {{place}} in the robot file, or take sigmas as low"
    )


def _of_the_model() -> Iterator[Direction]:
    """What a robot file may lack, in shapes that need no constants."""
    uneven = "viscous friction that differs by direction"
    yield Direction(
        name=uneven,
        unit="{effort} s/{position}",
        places=_joints,
        advice=_lacks(uneven, "fv_plus", "fv_minus"),
        column=at_joint(lambda view, place, joint: np.abs(joint.qd)),
        says="{place}: viscous friction differs by direction, by {size} either way",
    )
    for part in STRIBECK:
        yield Direction(
            name="Stribeck friction",
            says="{place}: friction is larger at low speed by {size}",
            unit="{effort}",
            places=_joints,
            column=stribeck(part),
            positive=True,
            advice=_lacks("Stribeck friction", "stribeck"),
        )
    yield Direction(
        name="friction curved over speed",
        unit="{effort} s2/{position}2",
        places=_joints,
        says="{place}: friction grows with the square of the speed by {size}",
        advice=_lacks("friction that grows with the square of the speed", "fv_cubic"),
        column=at_joint(lambda view, place, joint: joint.qd * np.abs(joint.qd)),
    )
    yield Direction(
        name="friction that grows with load",
        says="{place}: friction grows with the load by {size} of it",
        unit="1",
        places=_motors,
        column=loaded_friction,
        positive=True,
        advice="no term of a robot file is friction that grows with load; take sigmas as low, or "
        "record "
        "with one load",
    )
    for lag in MEMORY:
        yield Direction(
            name="friction with memory",
            unit="{effort}",
            places=_motors,
            column=memory(lag),
            positive=True,
            says="{place}: friction builds up after a reversal, {size} of it",
            advice=_lacks("friction that builds up after a reversal", "fs_time"),
        )
    yield Direction(
        name="ripple",
        says="{place}: there is a ripple of {size}",
        unit="{effort}",
        places=_motors,
        column=ripple,
        tried=lambda view, place: wave_of(view, place)[1],
        advice="{place} has a ripple each {pitch:.4g} of its position (cogging, a gear's teeth); "
        "add "
        '"ripple" with that pitch to its terms in the robot file, or take sigmas as low',
    )


for _entry in (*_of_the_logs(), *_of_the_model()):
    register_direction(_entry)


@lru_cache
def _missing(term: str) -> Direction:
    label = TERMS[term].label
    return Direction(
        name=f"missing {label}",
        says="{place}: there is " + label + " of {size}",
        unit=TERMS[term].units,
        places=lambda evidence: _joints(evidence, term),
        positive=TERMS[term].nonnegative,
        column=at_joint(lambda view, place, joint: TERMS[term].value(joint)),
        advice=f'add "{term}" to the terms of {{place}} in the robot file',
    )


def directions() -> Iterator[Direction]:
    """Yield the registered directions, then every joint term where a robot file lacks it."""
    for shapes in DIRECTIONS.values():
        yield from shapes
    yield from (_missing(name) for name, term in TERMS.items() if term.fault_candidate)


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """One direction at one place, and which of the stacked columns are its own."""

    direction: Direction
    place: str
    columns: tuple[int, ...] = ()

    def same(self, other: Suspicion) -> bool:
        return self.direction is other.direction and self.place == other.place

    def undo(self, track: Track, view: View, size: FloatArray) -> Track:
        return (
            track
            if self.direction.undo is None
            else self.direction.undo(track, view, self.place, size)
        )


def words(suspicion: Suspicion, size: FloatArray, sigma: FloatArray, view: View) -> str:
    """Return a suspicion with its size in words."""
    direction, place = suspicion.direction, suspicion.place
    axes = tilt_axes(np.array(view.model.mechanism.gravity))
    turn = size @ axes / max(length(size), 1e-300) if len(size) == 2 else np.zeros(3)
    return direction.says.format(
        place=place,
        size=size_text(size, sigma, direction.unit_at(view, place)),
        axis=", ".join(f"{x:.2f}" for x in turn),
    )


def suspicions_of(evidence: Evidence, name: str = "") -> list[Suspicion]:
    """Return every mistake, or one kind, at every place."""
    return [
        Suspicion(direction=direction, place=place)
        for direction in directions()
        if name in ("", direction.name)
        for place in direction.places(evidence)
    ]


def stack_directions(
    evidence: Evidence,
    views: Sequence[View],
    only: Sequence[Suspicion] | None = None,
) -> tuple[list[Suspicion], list[FloatArray]]:
    """Return suspicions, all by default, and their columns side by side, (t, r, k) of each log."""
    suspicions: list[Suspicion] = []
    stacked: list[list[FloatArray]] = [
        [np.zeros((len(v.source.motion), len(v.model.rows), 0))] for v in views
    ]
    first = 0
    for each in suspicions_of(evidence) if only is None else only:
        for log, view in zip(stacked, views):
            own = each.direction.columns(view, each.place)
            log.append(own[:, :, None] if own.ndim == 2 else own)
        last = first + stacked[0][-1].shape[2]
        suspicions.append(replace(each, columns=tuple(range(first, last))))
        first = last
    return suspicions, [np.concatenate(log, axis=2) for log in stacked]
