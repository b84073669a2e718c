"""What usual mistakes do: how to undo those of a log on its track, and the columns of what a model may lack.

`undo_...` take a mistake of a given size out of a track. The others return, for a view and a place, the derivative of
the recorded efforts of the rows by the size of what is missing, (t, r) or (t, r, k), at the motion's samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.signal import lfilter

from gough.core.arrays import TINY, FloatArray
from gough.core.names import LOAD
from gough.engine.memory import joint_state as state_of
from gough.identification.diagnosis.evidence import View
from gough.identification.diagnosis.track import Track
from gough.mechanism.terms import TERMS, JointState

ALL = "all motors"
Columns = Callable[[View, str], FloatArray]
Undo = Callable[[Track, View, str, FloatArray], Track]


def at_motors(view: View, place: str, there: float) -> FloatArray:
    """Return a number for each motor, (a,): one at a place, zero elsewhere."""
    return np.array([there if place in (ALL, name) else 0.0 for name in view.model.mechanism.actuated])


def on_motors(change: Callable[[Track, FloatArray], Track]) -> Undo:
    """Return what undoes a mistake of so much at each motor, (a,)."""
    return lambda track, view, place, size: change(track, at_motors(view, place, float(size[0])))


# -- mistakes of a log ------------------------------------------------------------------------------------------------


def undo_effort_delay(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take efforts from later, by the delay. [s]"""
    chosen = at_motors(view, place, 1.0)
    return track.with_effort(lambda effort: np.where(chosen, track.shifted(effort, float(size[0])), effort))


undo_gain = on_motors(lambda track, at: track.with_effort(lambda effort: effort / (1 + at)))
undo_effort_offset = on_motors(lambda track, at: track.with_effort(lambda effort: effort - at))  # [N or N m]
undo_encoder_offset = on_motors(lambda track, at: replace(track, position=track.position - at))  # [m or rad]
undo_encoder_scale = on_motors(lambda track, at: track.scaled(1 / (1 + at)))
# The model is low-passed as the efforts were: to undo a low-pass would only raise noise. [s]
undo_effort_lag = on_motors(lambda track, at: replace(track, lag=track.lag + at))


def undo_clock(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Let the motion run 1 + size times as fast."""
    return track.clocked(1 + float(size[0]))


def undo_compliance(track: Track, view: View, place: str, size: FloatArray) -> Track:
    """Take the bending of the transmission, size times the effort, out of the motion. [m/N or rad/(N m)]"""
    bent = view.smooth(view.prediction * at_motors(view, place, size[0]))
    return replace(track, position=track.position - bent[0], velocity=track.velocity - bent[1],
                   acceleration=track.acceleration - bent[2])


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
    return view.effect(view.prediction * part[:, None] * at_motors(view, place, 1.0))


def joint_column(view: View, joint: str, values: FloatArray | float) -> FloatArray:
    """Return the effect on the rows of an effort at any joint, E_j^T values, (t, r)."""
    j = view.model.mechanism.coordinates.index(joint)
    return np.asarray(view.closure_map[:, j, :] * np.broadcast_to(values, (len(view.source.motion),))[:, None])


def joint_state(view: View, joint: str) -> JointState:
    """Return q, qd, qdd and the sign of the velocity of a joint, (t,) each."""
    mechanism = view.model.mechanism
    return state_of(mechanism, view.source.motion, mechanism.coordinates.index(joint), view.source.dead_band)


def of_state(value: Callable[[JointState], FloatArray]) -> Columns:
    """The column of an effort that is a function of a joint's state."""
    return lambda view, place: joint_column(view, place, value(joint_state(view, place)))


def term(name: str) -> Columns:
    """A joint term that the robot file lacks."""
    return of_state(lambda joint: TERMS[name].value(joint))


def stribeck(part: float) -> Columns:
    """Friction that is larger at low speed: sign(qd) exp(-|qd| / v), v a part of the top speed of the first log."""
    def columns(view: View, place: str) -> FloatArray:
        joint, first = (joint_state(v, place) for v in (view, view.evidence.views[0]))  # all logs have one v
        return joint_column(view, place, joint.sign * np.exp(
            -np.abs(joint.qd) / max(part * float(np.abs(first.qd).max()), TINY)))

    return columns


def loaded_friction(view: View, place: str) -> FloatArray:
    """Friction that grows with the load: sign(qd) |tau|."""
    motor = view.model.mechanism.actuated.index(place)
    return joint_column(view, place, joint_state(view, place).sign * np.abs(view.prediction[:, motor]))


def memory(lag: float) -> Columns:
    """Friction that builds up after a reversal: a lagged sign minus the sign. [s]"""
    def columns(view: View, place: str) -> FloatArray:
        sign = joint_state(view, place).sign
        keep = np.exp(-view.track.step / lag)
        run = np.concatenate([sign, sign]) if view.source.periodic else sign  # a period begins where it ends
        out = lfilter([1 - keep], [1, -keep], run, zi=[keep * sign[0]])[0][-len(sign):]
        return joint_column(view, place, out - sign)

    return columns


def ripple(view: View, place: str) -> FloatArray:
    """Sine and cosine of the position with the pitch that the residual holds most of."""
    phase = 2 * np.pi * wave_of(view, place)[0] * joint_state(view, place).q
    return np.stack([joint_column(view, place, np.sin(phase)), joint_column(view, place, np.cos(phase))], axis=2)


def wave_of(view: View, place: str) -> tuple[float, int]:
    """Return the ripple of the first log and how many were tried: all logs have one pitch."""
    return view.evidence.views[0].waves[place]
