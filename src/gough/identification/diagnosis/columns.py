"""What usual mistakes do to the efforts, and how to undo them on a log's track.

Each function of a view and a place returns the derivative of the recorded efforts of the rows by the size of the
mistake, (t, r) or (t, r, k), at the motion's samples; each `undo_...` takes a mistake of a given size out of a track.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.signal import lfilter

from gough.core.arrays import FloatArray
from gough.core.names import LOAD
from gough.identification.diagnosis.evidence import View
from gough.identification.diagnosis.track import Track
from gough.mechanism.terms import TERMS, JointState

ALL = "all motors"
Columns = Callable[[View, str], FloatArray]


def motors_at(view: View, place: str) -> list[int]:
    """Return the indices of the motors at a place."""
    motors = view.model.mechanism.actuated
    return list(range(len(motors))) if place == ALL else [motors.index(place)]


def only(view: View, place: str, values: FloatArray) -> FloatArray:
    """Return values (t, a) at the motors of a place, zero at the others."""
    chosen = np.zeros(values.shape)
    chosen[:, motors_at(view, place)] = values[:, motors_at(view, place)]
    return chosen


def effect(view: View, efforts: FloatArray) -> FloatArray:
    """Return the effect on the rows of efforts at the motors, (t, a) -> (t, r)."""
    return view.model.collect(view.source.motion.q, efforts)


# -- efforts ----------------------------------------------------------------------------------------------------------


def effort_delay(view: View, place: str) -> FloatArray:
    """The effort is recorded late: -d tau / dt."""
    return effect(view, only(view, place, -view.track.slope(view.prediction)))


def undo_effort_delay(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take efforts from later, by the delay. [s]"""
    motors = motors_at(view, place)

    def later(effort: FloatArray) -> FloatArray:
        changed = effort.copy()
        changed[:, motors] = track.shifted(effort[:, motors], float(size[0]))
        return changed

    return track.with_effort(later)


def undo_gain(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Divide efforts by 1 + size."""
    factor = np.ones(track.effort.shape[1])
    factor[motors_at(view, place)] += float(size[0])
    return track.with_effort(lambda effort: effort / factor)


def undo_effort_offset(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Subtract an offset from efforts. [N or N m]"""
    shift = np.zeros(track.effort.shape[1])
    shift[motors_at(view, place)] = float(size[0])
    return track.with_effort(lambda effort: effort - shift)


# -- positions and clock ----------------------------------------------------------------------------------------------


def encoder_offset(view: View, place: str) -> FloatArray:
    """The position is off: -d tau / dq."""
    none = np.zeros(view.track.position.shape)
    return view.moved(only(view, place, none - 1.0), none, none)


def undo_encoder_offset(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Subtract an offset from positions. [m or rad]"""
    shift = np.zeros(track.position.shape[1])
    shift[motors_at(view, place)] = float(size[0])
    return replace(track, position=track.position - shift)


def encoder_scale(view: View, place: str) -> FloatArray:
    """The position is too large by a factor: -(q d/dq + qd d/dqd + qdd d/dqdd) tau."""
    track = view.track
    return -view.moved(*(only(view, place, x) for x in (track.position, track.velocity, track.acceleration)))


def undo_encoder_scale(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Divide the motion by 1 + size."""
    factor = np.ones(track.position.shape[1])
    factor[motors_at(view, place)] += float(size[0])
    return replace(track, position=track.position / factor, velocity=track.velocity / factor,
                   acceleration=track.acceleration / factor)


def clock(view: View, place: str) -> FloatArray:
    """Times are too long: (qd d/dqd + 2 qdd d/dqdd) tau."""
    track = view.track
    return view.moved(np.zeros(track.position.shape), track.velocity, 2 * track.acceleration)


def undo_clock(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Let the motion run 1 + size times as fast."""
    factor = 1.0 + float(size[0])
    return replace(track, velocity=track.velocity * factor, acceleration=track.acceleration * factor**2)


def compliance(view: View, place: str) -> FloatArray:
    """The transmission gives way: -(tau d/dq + dtau/dt d/dqd + d2tau/dt2 d/dqdd) tau."""
    track, tau = view.track, view.prediction
    rate = track.slope(tau)
    return -view.moved(*(only(view, place, x) for x in (tau, rate, track.slope(rate))))


def undo_compliance(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take the bending of the transmission out of the motion. [m/N or rad/(N m)]"""
    tau = view.prediction
    rate = track.slope(tau)
    bent = [float(size[0]) * only(view, place, x) for x in (tau, rate, track.slope(rate))]
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


def axes(view: View) -> FloatArray:
    """Axes that stay the same while gravity is corrected: those of the robot file."""
    return tilt_axes(np.array(view.model.mechanism.gravity))


def tilt(view: View, place: str) -> FloatArray:
    """Gravity is turned about two level axes: (axis x g) . d tau / dg."""
    turned = np.cross(axes(view), view.track.gravity)  # d g / d angle about each axis
    return np.asarray(np.einsum("kc,tcr->trk", turned, view.gravity))


def undo_tilt(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Turn gravity. [rad, rad]"""
    return replace(track, gravity=rotated(track.gravity, size @ axes(view)))


def rotated(vector: FloatArray, turn: FloatArray) -> FloatArray:
    """Return a vector turned about an axis by an angle, both in `turn` = axis x angle; Rodrigues. [rad]"""
    angle = float(np.linalg.norm(turn))
    if angle == 0:
        return vector
    k = turn / angle
    return np.asarray(vector * np.cos(angle) + np.cross(k, vector) * np.sin(angle)
                      + k * (k @ vector) * (1 - np.cos(angle)))


# -- what the model lacks ---------------------------------------------------------------------------------------------


def load(view: View, place: str) -> FloatArray:
    """The ten columns of a load on the platform in one log."""
    if view.label != place:
        return np.zeros((len(view.source.motion), len(view.model.rows), len(LOAD)))
    return view.model.regressor(view.source.motion, LOAD, dead_band=view.source.dead_band)


def faded(view: View, place: str) -> FloatArray:
    """The effort of a motor growing along one log that is not averaged over periods, by the whole of its length."""
    if view.source.periodic:
        return np.zeros((len(view.source.motion), len(view.model.rows)))
    time = view.track.time
    part = (time - time.mean()) / max(float(time[-1] - time[0]), 1e-300)
    return effect(view, only(view, place, view.prediction * part[:, None]))


def joint_column(view: View, joint: str, values: FloatArray | float) -> FloatArray:
    """Return the effect on the rows of an effort at any joint, E_j^T values, (t, r)."""
    j = view.model.mechanism.coordinates.index(joint)
    return np.asarray(view.closure_map[:, j, :] * np.broadcast_to(values, (len(view.source.motion),))[:, None])


def joint_state(view: View, joint: str) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return q, qd, qdd and the sign of the velocity of a joint, (t,) each."""
    j, motion = view.model.mechanism.coordinates.index(joint), view.source.motion
    qd, band = motion.qd[:, j], float(view.source.dead_band[j])
    sign = np.clip(qd / band, -1.0, 1.0) if band > 0 else np.sign(qd)
    return motion.q[:, j], qd, motion.qdd[:, j], sign


def term(term: str) -> Columns:
    """A joint term that the robot file lacks."""
    def columns(view: View, place: str) -> FloatArray:
        return joint_column(view, place, TERMS[term].expression(JointState(*joint_state(view, place), np)))

    return columns


def uneven(view: View, place: str) -> FloatArray:
    """Viscous friction that differs by direction: |qd|."""
    return joint_column(view, place, np.abs(joint_state(view, place)[1]))


def stribeck(part: float) -> Columns:
    """Friction that is larger at low speed: sign(qd) exp(-|qd| / v), v a part of the top speed."""
    def columns(view: View, place: str) -> FloatArray:
        _, qd, _, sign = joint_state(view, place)
        return joint_column(view, place, sign * np.exp(-np.abs(qd) / max(part * float(np.abs(qd).max()), 1e-300)))

    return columns


def curved(view: View, place: str) -> FloatArray:
    """Friction that grows with the square of the speed: qd |qd|."""
    _, qd, _, _ = joint_state(view, place)
    return joint_column(view, place, qd * np.abs(qd))


def loaded_friction(view: View, place: str) -> FloatArray:
    """Friction that grows with the load: sign(qd) |tau|."""
    motor = view.model.mechanism.actuated.index(place)
    return joint_column(view, place, joint_state(view, place)[3] * np.abs(view.prediction[:, motor]))


def memory(lag: float) -> Columns:
    """Friction that builds up after a reversal: a lagged sign minus the sign. [s]"""
    def columns(view: View, place: str) -> FloatArray:
        sign = joint_state(view, place)[3]
        keep = np.exp(-view.track.step / lag)
        run = np.concatenate([sign, sign]) if view.source.periodic else sign  # a period begins where it ends
        out = lfilter([1 - keep], [1, -keep], run, zi=[keep * sign[0]])[0][-len(sign):]
        return joint_column(view, place, out - sign)

    return columns


# -- ripple: a pitch to be found --------------------------------------------------------------------------------------


def ripple(view: View, place: str) -> FloatArray:
    """Sine and cosine of the position with the pitch that the residual holds most of."""
    wave, _ = wave_of(view, place)
    phase = 2 * np.pi * wave * joint_state(view, place)[0]
    return np.stack([joint_column(view, place, np.sin(phase)), joint_column(view, place, np.cos(phase))], axis=2)


def wave_of(view: View, place: str) -> tuple[float, int]:
    """Return the ripple of the first log and how many were tried: all logs have one pitch."""
    return view.evidence.views[0].waves[place]
