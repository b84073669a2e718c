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
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.signal import lfilter

from gough.core.arrays import FloatArray
from gough.core.names import LOAD
from gough.identification.evidence import Evidence, Track, View
from gough.mechanism.terms import TERMS, JointState

ALL = "all motors"
STRIBECK = (0.02, 0.06, 0.2)  # speeds of the decay tried, as parts of a joint's top speed
MEMORY = (0.03, 0.1)  # times over which friction may build up after a reversal [s]; tried on six robots, design section 11

Columns = Callable[[View, str], FloatArray]
Undo = Callable[[Track, View, str, FloatArray], Track]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One usual mistake.

    Args:
        name: In two words, e.g. `effort delay`.
        says: A sentence with {place} and {size}.
        unit: Of its size, by the view and place: SI.
        places: Where it can sit: motors, joints, axes, logs.
        columns: View, place -> derivative of the recorded efforts by the size, (t, r) or (t, r, k).
        undo: Track, view, place, size -> the track without the mistake; None where the model lacks something instead.
        advice: Place, size, view -> what to change in which file.
        tried: How many shapes were searched to find the columns; the chance of a false name grows with it.
    """

    name: str
    says: str
    unit: Callable[[View, str], str]
    places: Callable[[Evidence], Sequence[str]]
    columns: Columns
    advice: Callable[[View, str, FloatArray], str]
    undo: Undo | None = None
    tried: Callable[[View, str], int] = lambda view, place: 1


def _motors(evidence: Evidence) -> tuple[str, ...]:
    return evidence.model.mechanism.actuated


def _motors_and_all(evidence: Evidence) -> tuple[str, ...]:
    motors = _motors(evidence)
    return (*motors, ALL) if len(motors) > 1 else motors


def _which(view: View, place: str) -> list[int]:
    motors = view.model.mechanism.actuated
    return list(range(len(motors))) if place == ALL else [motors.index(place)]


def _only(view: View, place: str, values: FloatArray) -> FloatArray:
    """Return values (t, a) at the motors of a place, zero at the others."""
    chosen = np.zeros(values.shape)
    chosen[:, _which(view, place)] = values[:, _which(view, place)]
    return chosen


def _effect(view: View, efforts: FloatArray) -> FloatArray:
    return view.model.collect(view.source.motion.q, efforts)


# -- efforts ----------------------------------------------------------------------------------------------------------


def _delay(view: View, place: str) -> FloatArray:
    return _effect(view, _only(view, place, -view.track.slope(view.prediction)))


def _undo_delay(track: Track, view: View, place: str, size: FloatArray) -> Track:
    motors = _which(view, place)

    def later(effort: FloatArray) -> FloatArray:
        changed = effort.copy()
        changed[:, motors] = track.shifted(effort[:, motors], float(size[0]))
        return changed

    return track.with_effort(later)


def _undo_gain(track: Track, view: View, place: str, size: FloatArray) -> Track:
    factor = np.ones(track.effort.shape[1])
    factor[_which(view, place)] += float(size[0])
    return track.with_effort(lambda effort: effort / factor)


def _undo_effort_offset(track: Track, view: View, place: str, size: FloatArray) -> Track:
    shift = np.zeros(track.effort.shape[1])
    shift[_which(view, place)] = float(size[0])
    return track.with_effort(lambda effort: effort - shift)


# -- positions and clock ----------------------------------------------------------------------------------------------


def _offset(view: View, place: str) -> FloatArray:
    none = np.zeros(view.track.position.shape)
    return view.moved(_only(view, place, none - 1.0), none, none)


def _undo_offset(track: Track, view: View, place: str, size: FloatArray) -> Track:
    shift = np.zeros(track.position.shape[1])
    shift[_which(view, place)] = float(size[0])
    return replace(track, position=track.position - shift)


def _scale(view: View, place: str) -> FloatArray:
    track = view.track
    return -view.moved(*(_only(view, place, x) for x in (track.position, track.velocity, track.acceleration)))


def _undo_scale(track: Track, view: View, place: str, size: FloatArray) -> Track:
    factor = np.ones(track.position.shape[1])
    factor[_which(view, place)] += float(size[0])
    return replace(track, position=track.position / factor, velocity=track.velocity / factor,
                   acceleration=track.acceleration / factor)


def _clock(view: View, place: str) -> FloatArray:
    track = view.track
    return view.moved(np.zeros(track.position.shape), track.velocity, 2 * track.acceleration)


def _undo_clock(track: Track, view: View, place: str, size: FloatArray) -> Track:
    factor = 1.0 + float(size[0])
    return replace(track, velocity=track.velocity * factor, acceleration=track.acceleration * factor**2)


def _compliance(view: View, place: str) -> FloatArray:
    track, tau = view.track, view.prediction
    rate = track.slope(tau)
    return -view.moved(*(_only(view, place, x) for x in (tau, rate, track.slope(rate))))


def _undo_compliance(track: Track, view: View, place: str, size: FloatArray) -> Track:
    tau = view.prediction
    rate = track.slope(tau)
    bent = [float(size[0]) * _only(view, place, x) for x in (tau, rate, track.slope(rate))]
    return replace(track, position=track.position - bent[0], velocity=track.velocity - bent[1],
                   acceleration=track.acceleration - bent[2])


# -- gravity ----------------------------------------------------------------------------------------------------------


def tilt_axes(gravity: FloatArray) -> FloatArray:
    """Return two level unit axes about which a base may be tilted, (2, 3)."""
    g = gravity / max(float(np.linalg.norm(gravity)), 1e-300)
    first = np.argsort(np.abs(g), kind="stable")[0]
    one = np.eye(3)[first] - g[first] * g
    one /= np.linalg.norm(one)
    return np.stack([one, np.cross(g, one)])


def _axes(view: View) -> FloatArray:
    """Axes that stay the same while gravity is corrected: those of the robot file."""
    return tilt_axes(np.array(view.model.mechanism.gravity))


def _tilt(view: View, place: str) -> FloatArray:
    turned = np.cross(_axes(view), view.track.gravity)  # d g / d angle about each axis
    return np.einsum("kc,tcr->trk", turned, view.gravity)


def _undo_tilt(track: Track, view: View, place: str, size: FloatArray) -> Track:
    return replace(track, gravity=rotated(track.gravity, size @ _axes(view)))


def rotated(vector: FloatArray, turn: FloatArray) -> FloatArray:
    """Return a vector turned about an axis by an angle, both in `turn` = axis x angle; Rodrigues. [rad]"""
    angle = float(np.linalg.norm(turn))
    if angle == 0:
        return vector
    k = turn / angle
    return np.asarray(vector * np.cos(angle) + np.cross(k, vector) * np.sin(angle)
                      + k * (k @ vector) * (1 - np.cos(angle)))


def _heavy(evidence: Evidence) -> tuple[str, ...]:
    return ("base",) if np.any(evidence.model.mechanism.gravity) else ()


# -- what the model lacks ---------------------------------------------------------------------------------------------


def _load_places(evidence: Evidence) -> tuple[str, ...]:
    """A load carried by all logs is part of the platform; one carried by some of them is seen."""
    return tuple(label for label, source in zip(evidence.labels, (*evidence.logs, *evidence.held_out))
                 if source.payload is None)


def _load(view: View, place: str) -> FloatArray:
    if view.label != place:
        return np.zeros((len(view.source.motion), len(view.model.rows), len(LOAD)))
    return view.model.regressor(view.source.motion, LOAD, dead_band=view.source.dead_band)


def _faded(view: View, place: str) -> FloatArray:
    """The effort of a motor growing along one log that is not averaged over periods, by the whole of its length."""
    if view.source.periodic:
        return np.zeros((len(view.source.motion), len(view.model.rows)))
    time = view.track.time
    part = (time - time.mean()) / max(float(time[-1] - time[0]), 1e-300)
    return _effect(view, _only(view, place, view.prediction * part[:, None]))


def joint_column(view: View, joint: str, values: FloatArray | float) -> FloatArray:
    """Return the effect on the rows of an effort at any joint, E_j^T values, (t, r)."""
    j = view.model.mechanism.coordinates.index(joint)
    return np.asarray(view.closure_map[:, j, :] * np.broadcast_to(values, (len(view.source.motion),))[:, None])


def _state(view: View, joint: str) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return q, qd, qdd and the sign of the velocity of a joint, (t,) each."""
    j, motion = view.model.mechanism.coordinates.index(joint), view.source.motion
    qd, band = motion.qd[:, j], float(view.source.dead_band[j])
    sign = np.clip(qd / band, -1.0, 1.0) if band > 0 else np.sign(qd)
    return motion.q[:, j], qd, motion.qdd[:, j], sign


def _joints(evidence: Evidence) -> tuple[str, ...]:
    return tuple(joint.name for joint in evidence.model.mechanism.joints if not joint.virtual)


def _lacking(term: str) -> Callable[[Evidence], tuple[str, ...]]:
    def places(evidence: Evidence) -> tuple[str, ...]:
        joints = evidence.model.mechanism.joints
        return tuple(joint.name for joint in joints if not joint.virtual and term not in joint.terms)

    return places


def _term(term: str) -> Columns:
    def columns(view: View, place: str) -> FloatArray:
        return joint_column(view, place, TERMS[term].expression(JointState(*_state(view, place), np)))

    return columns


def _uneven(view: View, place: str) -> FloatArray:
    return joint_column(view, place, np.abs(_state(view, place)[1]))


def _stribeck(part: float) -> Columns:
    def columns(view: View, place: str) -> FloatArray:
        _, qd, _, sign = _state(view, place)
        return joint_column(view, place, sign * np.exp(-np.abs(qd) / max(part * float(np.abs(qd).max()), 1e-300)))

    return columns


def _curved(view: View, place: str) -> FloatArray:
    _, qd, _, _ = _state(view, place)
    return joint_column(view, place, qd * np.abs(qd))


def _loaded_friction(view: View, place: str) -> FloatArray:
    motor = view.model.mechanism.actuated.index(place)
    return joint_column(view, place, _state(view, place)[3] * np.abs(view.prediction[:, motor]))


def _memory(lag: float) -> Columns:
    def columns(view: View, place: str) -> FloatArray:
        sign = _state(view, place)[3]
        keep = np.exp(-view.track.step / lag)
        run = np.concatenate([sign, sign]) if view.source.periodic else sign  # a period begins where it ends
        out = lfilter([1 - keep], [1, -keep], run, zi=[keep * sign[0]])[0][-len(sign):]
        return joint_column(view, place, out - sign)

    return columns


# -- ripple: a pitch to be found --------------------------------------------------------------------------------------


def _ripple(view: View, place: str) -> FloatArray:
    wave, _ = _wave(view, place)
    phase = 2 * np.pi * wave * _state(view, place)[0]
    return np.stack([joint_column(view, place, np.sin(phase)), joint_column(view, place, np.cos(phase))], axis=2)


def _wave(view: View, place: str) -> tuple[float, int]:
    """Return the ripple of the first log and how many were tried: all logs have one pitch."""
    return view.evidence.views[0].waves[place]


# -- the registry -----------------------------------------------------------------------------------------------------


def _unit_of_position(view: View, place: str) -> str:
    return view.model.mechanism.joint(view.model.mechanism.actuated[0] if place == ALL else place).unit


def _unit_of_effort(view: View, place: str) -> str:
    return view.model.mechanism.joint(view.model.mechanism.actuated[0] if place == ALL else place).effort_unit


def _term_unit(term: str) -> Callable[[View, str], str]:
    def unit(view: View, place: str) -> str:
        return TERMS[term].unit(view.model.mechanism.joint(place).kind)

    return unit


def _plain(unit: str) -> Callable[[View, str], str]:
    return lambda view, place: unit


def _signal(view: View, place: str) -> str:
    return "" if place == ALL else f" of {place}"


def _add_term(term: str) -> Callable[[View, str, FloatArray], str]:
    return lambda view, place, size: f'add "{term}" to the terms of {place} in the robot file'


def _lacks(what: str) -> Callable[[View, str, FloatArray], str]:
    return lambda view, place, size: f"the robot file has no term for {what} at {place}; add one, or take sigmas as low"


def _gravity_advice(view: View, place: str, size: FloatArray) -> str:
    turned = rotated(view.track.gravity, size @ _axes(view))
    return f"put gravity = [{', '.join(f'{g:.4g}' for g in turned)}] in the robot file, or level the base"


def _build() -> Iterator[Direction]:
    yield Direction(
        name="effort delay", says="{place}: effort lags position by {size}", unit=_plain("s"), places=_motors_and_all, columns=_delay, undo=_undo_delay,
        advice=lambda view, place, size: f'put delay = "{1e3 * size[0]:.3g} ms" in the [effort] table of the '
                                         f"description{'' if place == ALL else f', for {place} only'}")
    yield Direction(
        name="effort offset", says="{place}: effort is off by {size}", unit=_unit_of_effort, places=_motors, undo=_undo_effort_offset,
        columns=lambda view, place: view.on_motor(_which(view, place)[0], 1.0),
        advice=lambda view, place, size: f'zero the current sensor of {place}, or add "off" to its terms in the '
                                         "robot file")
    yield Direction(
        name="gain", says="{place}: effort is too large by {size}", unit=_plain("1"), places=_motors, undo=_undo_gain,
        columns=lambda view, place: _effect(view, _only(view, place, view.prediction)),
        advice=lambda view, place, size: f"divide the effort{_signal(view, place)} by {1 + size[0]:.4g}: correct its "
                                         "gain in the robot file or its scale in the description")
    yield Direction(
        name="encoder offset", says="{place}: position is off by {size}", unit=_unit_of_position, places=_motors, columns=_offset, undo=_undo_offset,
        advice=lambda view, place, size: f"home {place} again, or put offset = {-size[0]:.4g} "
                                         f"[{_unit_of_position(view, place)}] for its position in the description")
    yield Direction(
        name="encoder scale", says="{place}: position is too large by {size}", unit=_plain("1"), places=_motors_and_all, columns=_scale, undo=_undo_scale,
        advice=lambda view, place, size: f"put scale = {1 / (1 + size[0]):.6g} for the position{_signal(view, place)} in "
                                         "the description")
    yield Direction(
        name="clock", says="the clock runs too slow: times are too long by {size}", unit=_plain("1"), places=lambda evidence: ("clock",), columns=_clock, undo=_undo_clock,
        advice=lambda view, place, size: f"multiply the times by {1 / (1 + size[0]):.6g}: correct the unit or the rate "
                                         "in the description")
    yield Direction(name="tilt", says="the base is tilted by {size}", unit=_plain("rad"), places=_heavy, columns=_tilt, undo=_undo_tilt,
                    advice=_gravity_advice)
    yield Direction(
        name="compliance", says="{place}: the transmission gives way by {size}", undo=_undo_compliance, places=_motors, columns=_compliance,
        unit=lambda view, place: f"{_unit_of_position(view, place)}/({_unit_of_effort(view, place)})",
        advice=lambda view, place, size: f"the transmission of {place} gives way by that much; move slower, or measure "
                                         "behind it")
    yield Direction(
        name="unmentioned load", says="{place}: a load was carried, {size}", unit=_plain("kg"), places=_load_places, columns=_load,
        advice=lambda view, place, size: f'say in the description of {place} which payload was carried: payload = "..."')
    yield Direction(
        name="fading effort", says="{place}: effort grows along the log by {size}", unit=_plain("1"), places=_motors,
        columns=_faded, advice=lambda view, place, size: "friction or magnets warm up: record after a warm-up")
    yield Direction(name="viscous friction that differs by direction", says="{place}: there is viscous friction that differs by direction of {size}",
                        unit=_term_unit("fv"), places=_joints,
                    columns=_uneven, advice=_lacks("viscous friction that differs by direction"))
    for part in STRIBECK:
        yield Direction(name="Stribeck friction", says="{place}: there is Stribeck friction of {size}",
                        unit=_unit_of_joint_effort, places=_joints, columns=_stribeck(part),
                        advice=_lacks("Stribeck friction"))
    yield Direction(name="friction curved over speed", says="{place}: there is friction curved over speed of {size}",
                        unit=_curved_unit, places=_joints, columns=_curved,
                    advice=_lacks("friction that grows with the square of the speed"))
    yield Direction(name="friction that grows with load", says="{place}: there is friction that grows with load of {size}",
                        unit=_plain("1"), places=_motors, columns=_loaded_friction,
                    advice=_lacks("friction that grows with load"))
    for lag in MEMORY:
        yield Direction(name="friction with memory", says="{place}: there is friction with memory of {size}",
                        unit=_unit_of_joint_effort, places=_motors, columns=_memory(lag),
                        advice=_lacks("friction that builds up after a reversal"))
    yield Direction(name="ripple", says="{place}: there is ripple of {size}",
                        unit=_unit_of_joint_effort, places=_motors, columns=_ripple,
                    tried=lambda view, place: _wave(view, place)[1], advice=_ripple_advice)


def _unit_of_joint_effort(view: View, place: str) -> str:
    return view.model.mechanism.joint(place).effort_unit


def _curved_unit(view: View, place: str) -> str:
    return f"{_unit_of_joint_effort(view, place)} s2/{view.model.mechanism.joint(place).unit}2"


def _ripple_advice(view: View, place: str, size: FloatArray) -> str:
    wave, _ = _wave(view, place)
    unit = view.model.mechanism.joint(place).unit
    return (f"{place} has a ripple of period {1 / max(wave, 1e-300):.4g} {unit} (cogging, a gear's teeth); add a term "
            "for it, or take sigmas as low")


DIRECTIONS: dict[str, tuple[Direction, ...]] = {}


def register_direction(direction: Direction) -> Direction:
    """Make a usual mistake known to the diagnosis; several of one name are shapes of one mistake."""
    DIRECTIONS[direction.name] = (*DIRECTIONS.get(direction.name, ()), direction)
    return direction


for _entry in _build():
    register_direction(_entry)


@lru_cache
def _lacking_term(term: str) -> Direction:
    label = TERMS[term].label
    return Direction(name=f"missing {label}", says="{place}: there is " + label + " of {size}", unit=_term_unit(term),
                     places=_lacking(term), columns=_term(term), advice=_add_term(term))


def directions() -> Iterator[Direction]:
    """Yield all directions: the registered ones, then every joint term there is where a robot file lacks it."""
    for shapes in DIRECTIONS.values():
        yield from shapes
    yield from (_lacking_term(term) for term in TERMS)


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


