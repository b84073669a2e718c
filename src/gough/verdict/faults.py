"""The registry of faults: what each does to a log, how to undo it, what to change in which file.

A fault of the recording is given by `undo`: the motor signals without
it. Its effect on the efforts for small sizes s follows by
differentiation,

    column = D dm/ds - de/ds,    D = d effort / d (position, velocity, acceleration, gravity),

with the motion m and the effort e that undoing changes. What a model
lacks (a term, a payload, another geometry) is given by its columns
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.linalg import expm

from gough.core.arrays import TINY, FloatArray
from gough.core.names import LOAD_PARAMETERS
from gough.core.signals import recursive_filter
from gough.mechanism.terms import TERMS, JointState
from gough.verdict.evidence import Evidence
from gough.verdict.fitted_log import FittedLog
from gough.verdict.motor_signals import MotorSignals

ALL_MOTORS = "all motors"
ALL_JOINTS = "all joints"
BASE_PLACE = "base"
CLOCK_PLACE = "clock"
CLOCK_FAULT = "clock"
EFFORT_SCALE = "effort scale"
PAYLOAD_FAULT = "payload"
DIFFERENCE_STEP = 1e-6  # of sizes, for the derivative of `undo`
# Speeds of Stribeck friction that are tried, as fractions of a joint's
# top speed.
STRIBECK_SPEEDS = (0.02, 0.06, 0.2)
# Times over which friction builds up after a reversal that are tried.
# [s]
MEMORY_TIMES = (0.03, 0.1)
# A low-pass shorter than so many samples looks the same as a delay.
MIN_LAG_SAMPLES = 5.5
# A controller subtracts the weight, not a few per cent of it; the robot
# file may give twice of it.
LEAST_COMPENSATION = 0.4
MOST_COMPENSATION = 2.5
# of a scale that a derivative describes; beyond it is a unit
MAX_RELATIVE_SIZE = 0.5

Scope = Literal["all logs", "one log"]
Undo = Callable[[FittedLog, MotorSignals, str, FloatArray], MotorSignals]
Columns = Callable[[FittedLog, str], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that may be wrong with a log or a robot file."""

    name: str  # also the rule of its notice
    # motors, joints, logs it can sit at
    places: Callable[[Evidence], Sequence[str]]
    text: str  # with {place}, {size}, {axis}, {pitch}
    # with {place}, {size} (SI), {factor} = 1 + size, {gravity},
    # {pitch}, ...
    advice: str
    # of the size, with {position} and {effort} of the joint; or for
    # prismatic and revolute joints
    unit: str | tuple[str, str] = "1"
    undo: Undo | None = None  # the signals without a fault of some size
    # derivative of the recorded effort by the size, (t, r[, k])
    columns: Columns | None = None
    n_sizes: int = 1  # numbers in a size of `undo`
    scopes: tuple[Scope, ...] = ("all logs", "one log")  # where it is tried
    # first numbers of a size, one of which has to be determined
    n_decisive: int | None = None
    positive: bool = False  # no robot has a size below zero
    # smaller sizes, in samples, look the same as other faults
    min_samples: float = 0.0
    # larger ones are not described by a derivative
    max_size: float | None = None
    least_size: float = 0.0  # nobody makes a smaller fault of this kind
    # relative error of a size that is found to first order and not
    # refined
    first_order_error: float = 0.0
    # how the notice `not noticed` calls it, with its smallest noticed
    # size; empty if it does not
    unnoticed: str = ""
    in_robot_file: bool = False  # the model lacks something, the log is right
    # number of the only log it can be in, with beginning and end of the
    # part it is in [s]
    segment: tuple[int, float, float] | None = None
    # size that the signals themselves show; half to twice it
    near_size: float | None = None
    # how many shapes were searched for the columns, by evidence and
    # place
    searched: Callable[[Evidence, str], int] = field(default=lambda evidence, place: 1)

    def can_be_in(self, log: int) -> bool:
        """Return whether it can be in a log, by number."""
        return self.segment is None or self.segment[0] == log

    def sensitivity(self, log: FittedLog, place: str) -> FloatArray:
        """Return the derivative of the recorded effort by the size, (t, r, k)."""
        if self.columns is not None:
            columns = self.columns(log, place)
        else:
            columns = self._from_undo(log, place)
        return columns[:, :, None] if columns.ndim == 2 else columns

    def _from_undo(self, log: FittedLog, place: str) -> FloatArray:
        """Return the derivative that undoing small sizes gives, (t, r, k)."""
        assert self.undo is not None
        clean = replace(log.signals, effort=log.prediction, deviations=log.signals.deviations[:0])
        columns = []
        for step in DIFFERENCE_STEP * np.eye(self.n_sizes):
            ahead = self.undo(log, clean, place, step)
            behind = self.undo(log, clean, place, -step)
            columns.append(_effect(log, clean, ahead, behind))
        return np.stack(columns, axis=2)

    def unit_at(self, evidence: Evidence, place: str) -> str:
        """Return the unit of the size at a place."""
        mechanism = evidence.model.mechanism
        names = [joint.name for joint in mechanism.joints]
        joint = mechanism.joint(place if place in names else mechanism.actuated[0])
        unit = self.unit
        if isinstance(unit, tuple):
            unit = unit[0] if joint.unit == "m" else unit[1]
        return unit.format(position=joint.unit, effort=joint.effort_unit)

    @property
    def relative(self) -> bool:
        """Whether the size is a fraction."""
        return self.unit == "1"


def _effect(
    log: FittedLog, clean: MotorSignals, ahead: MotorSignals, behind: MotorSignals
) -> FloatArray:
    """Return the effect on the rows of the difference of two signals, over the step, (t, r)."""

    def slope(name: str) -> FloatArray | None:
        """Return the derivative of a signal; None if undoing the fault does not change it."""
        if getattr(ahead, name) is getattr(behind, name):
            return None
        difference = getattr(ahead, name) - getattr(behind, name)
        return np.asarray(difference / (2 * DIFFERENCE_STEP))

    column = np.zeros((len(clean.time), len(log.model.rows)))
    effort = slope("effort")
    if effort is not None:
        column -= log.in_rows(effort)
    gravity = slope("gravity")
    if gravity is not None:
        column += np.einsum("k,tkr->tr", gravity, log.gravity_derivative)
    lag = slope("lag")
    if lag is not None:  # d/dT of x / (1 + T s) is -s x / (1 + T s)^2
        column -= clean.low_passed(clean.rate_of_change(log.prediction)) * lag
    moved = np.zeros(column.T.shape)
    for k, name in enumerate(("position", "velocity", "acceleration")):
        motion = slope(name)
        if motion is not None:
            for motor in np.flatnonzero(motion.any(axis=0)):
                moved += log.motion_derivative[k, motor] * motion[:, motor]
    if moved.any():
        column += clean.low_passed(moved.T)
    return column


# -- places


def motors(evidence: Evidence) -> tuple[str, ...]:
    """Return the motors."""
    return evidence.model.mechanism.actuated


def motors_and_all(evidence: Evidence) -> tuple[str, ...]:
    """Return the motors, and all of them together."""
    names = motors(evidence)
    return (*names, ALL_MOTORS) if len(names) > 1 else names


def motors_unless_redundant(evidence: Evidence) -> tuple[str, ...]:
    """Return the motors, and all together, of robots whose rows are motors."""
    if evidence.model.loops.redundant:
        return ()
    return motors_and_all(evidence)


def motors_with_rows(evidence: Evidence) -> tuple[str, ...]:
    """Return the motors of robots whose rows are motors."""
    return () if evidence.model.loops.redundant else motors(evidence)


def joints(evidence: Evidence) -> tuple[str, ...]:
    """Return the joints that are no computed coordinates."""
    return tuple(joint.name for joint in evidence.model.mechanism.joints if not joint.virtual)


def falling_base(evidence: Evidence) -> tuple[str, ...]:
    """Return the base if there is gravity."""
    return (BASE_PLACE,) if any(evidence.model.mechanism.gravity) else ()


def unloaded_logs(evidence: Evidence) -> tuple[str, ...]:
    """Return the logs that name no payload, if there are others to compare them with.

    A payload carried in all logs is part of the platform.
    """
    if len(evidence.logs) < 2:
        return ()
    return tuple(log.name for log in evidence.logs if log.payload is None)


# -- how faults of a recording are undone


def at_motors(log: FittedLog, place: str, number: float) -> FloatArray:
    """Return a number for each motor at a place, zero elsewhere, (a,)."""
    numbers = np.zeros(len(log.model.actuated))
    for k, name in enumerate(log.model.mechanism.actuated):
        if place in (ALL_MOTORS, name):
            numbers[k] = number
    return numbers


def undo_delay(log: FittedLog, signals: MotorSignals, place: str, size: FloatArray) -> MotorSignals:
    """Take efforts from later, by the delay. [s]"""
    chosen = at_motors(log, place, 1.0)
    return signals.with_effort(
        lambda effort: np.where(chosen, signals.shifted(effort, float(size[0])), effort)
    )


def undo_lag(log: FittedLog, signals: MotorSignals, place: str, size: FloatArray) -> MotorSignals:
    """Low-pass the model as the efforts were: to undo a low-pass would only raise noise. [s]"""
    return replace(signals, lag=signals.lag + at_motors(log, place, float(size[0])))


def undo_effort_offset(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray
) -> MotorSignals:
    """Subtract a constant from efforts. [N or N m]"""
    offset = at_motors(log, place, float(size[0]))
    return signals.with_effort(lambda effort: effort - offset)


def undo_effort_scale(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray
) -> MotorSignals:
    """Divide efforts by 1 + size."""
    factor = 1 + at_motors(log, place, float(size[0]))
    return signals.with_effort(lambda effort: effort / factor)


def undo_encoder_offset(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray
) -> MotorSignals:
    """Subtract a constant from positions. [m or rad]"""
    offset = at_motors(log, place, float(size[0]))
    return replace(signals, position=signals.position - offset)


def undo_encoder_scale(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray
) -> MotorSignals:
    """Divide positions by 1 + size."""
    factor = 1 + at_motors(log, place, float(size[0]))
    return signals.with_motion(lambda motion: motion / factor)


def undo_clock(log: FittedLog, signals: MotorSignals, place: str, size: FloatArray) -> MotorSignals:
    """Make the motion 1 + size times as fast."""
    return signals.faster(1 + float(size[0]))


def undo_compliance(
    log: FittedLog, signals: MotorSignals, place: str, size: FloatArray
) -> MotorSignals:
    """Take the bending, size times effort, out of the motion. [m/N or rad/(N m)]"""
    compliance = at_motors(log, place, float(size[0]))
    effort, effort_rate, effort_acceleration = log.smooth_prediction
    return replace(
        signals,
        position=signals.position - effort * compliance,
        velocity=signals.velocity - effort_rate * compliance,
        acceleration=signals.acceleration - effort_acceleration * compliance,
    )


def tilt_axes(gravity: FloatArray) -> FloatArray:
    """Return two horizontal axes about which a base may be tilted, (2, 3)."""
    down = gravity / max(float(np.linalg.norm(gravity)), TINY)
    flattest = np.argsort(np.abs(down), kind="stable")[0]
    first = np.eye(3)[flattest] - down[flattest] * down
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(down, first)])


def rotated(vector: FloatArray, turn: FloatArray) -> FloatArray:
    """Turn a vector by axis times angle. [rad]"""
    return np.asarray(expm(np.cross(np.eye(3), turn)) @ vector)


def undo_tilt(log: FittedLog, signals: MotorSignals, place: str, size: FloatArray) -> MotorSignals:
    """Turn gravity. [rad, rad]"""
    turn = size @ tilt_axes(np.array(log.model.mechanism.gravity))
    return replace(signals, gravity=rotated(signals.gravity, turn))


# -- columns of what a model lacks


def payload_columns(log: FittedLog, place: str) -> FloatArray:
    """Return the ten columns of a payload, (t, r, 10)."""
    return log.model.regressor(log.motion, LOAD_PARAMETERS, dead_band=log.dead_band)


def compensated_weight(log: FittedLog, place: str) -> FloatArray:
    """Return minus the efforts that gravity causes according to the robot file, (t, r)."""
    mechanism = log.model.mechanism
    load = np.zeros(len(log.model.load_columns))
    weight = log.fitted.weight_by_gravity(
        log.motion.q, np.nan_to_num(mechanism.standard.values), load
    )
    return -np.asarray(np.einsum("k,tkr->tr", np.array(mechanism.gravity), weight))


def fraction_of_log(log: FittedLog) -> FloatArray:
    """Return the time from -1/2 to 1/2 over a log, (t,); zero for averaged periods."""
    time = np.asarray(log.signals.time)
    if log.periodic:
        return np.zeros(len(time))
    return np.asarray((time - time.mean()) / max(float(time[-1] - time[0]), TINY))


def drift_columns(log: FittedLog, place: str) -> FloatArray:
    """Return Coulomb and viscous friction of a joint growing along the log, (t, r, 4).

    The first two sizes are the growth from beginning to end, the others
    the difference of this log's mean friction from that of other logs.
    Averaged periods show no growth.
    """
    state = log.joint_state(place)
    fraction = fraction_of_log(log)
    shapes = np.stack([state.sign * fraction, state.qd * fraction, state.sign, state.qd], axis=1)
    return log.at_joint(place, shapes)


def common_drift(log: FittedLog, place: str) -> FloatArray:
    """Return the friction of all joints changing along the log, (t, r, 3).

    The first size is the growth from beginning to end, over the
    friction that was identified; then its curvature, and the difference
    of this log's mean friction from that of other logs.
    """
    model = log.model
    terms = model.mechanism.terms
    chi, _ = log.fitted.parameters(log.payload)
    names = model.mechanism.standard.names
    is_friction = [name.kind in terms and terms[name.kind].dissipative for name in names]
    load = np.zeros(len(model.load_columns))
    friction = model.inverse_dynamics(
        log.motion, chi * is_friction, load=load, dead_band=log.dead_band
    )
    fraction = fraction_of_log(log)
    shapes = np.stack([fraction, fraction**2, np.ones(len(fraction))], axis=1)
    return np.asarray(log.in_rows(friction)[:, :, None] * shapes[:, None, :])


def friction_of_a_log(log: FittedLog, place: str) -> FloatArray:
    """Return the friction of all joints according to the model, (t, r)."""
    return common_drift(log, place)[:, :, 2]


def curved_effort(log: FittedLog, place: str) -> FloatArray:
    """Return tau |tau| / max |tau| of a motor, (t, r): its gain grows with the effort."""
    motor = log.model.mechanism.actuated.index(place)
    shape = np.zeros(log.prediction.shape)
    effort = log.prediction[:, motor]
    shape[:, motor] = effort * np.abs(effort) / max(float(np.abs(effort).max()), TINY)
    return log.in_rows(shape)


def joint_shape(shape: Callable[[FittedLog, str, JointState], FloatArray]) -> Columns:
    """Return columns of an effort at a joint, (t,) or (t, k), as seen in the rows."""

    def columns(log: FittedLog, place: str) -> FloatArray:
        return log.at_joint(place, np.asarray(shape(log, place, log.joint_state(place))))

    return columns


def stribeck(evidence: Evidence, fraction: float) -> Columns:
    """Return sign(qd) exp(-|qd| / v), v a fraction of the top speed of the first log."""

    def shape(log: FittedLog, place: str, joint: JointState) -> FloatArray:
        top_speed = float(np.abs(evidence.logs[0].joint_state(place).qd).max())
        return np.asarray(joint.sign * np.exp(-np.abs(joint.qd) / max(fraction * top_speed, TINY)))

    return joint_shape(shape)


def memory(time: float) -> Columns:
    """Return friction that builds up after a reversal: a low-passed sign minus the sign. [s]"""

    def shape(log: FittedLog, place: str, joint: JointState) -> FloatArray:
        decay = np.exp(-log.signals.step / time)
        run = np.concatenate([joint.sign] * (1 + log.periodic))  # a period begins where it ends
        start = np.array([decay * joint.sign[0]])
        low = recursive_filter(run, (1 - decay,), (-decay,), start)
        return np.asarray(low[-len(joint.sign) :] - joint.sign)

    return joint_shape(shape)


def ripple(evidence: Evidence) -> Columns:
    """Return sine and cosine at the pitch that the residual of the first log has most of."""

    def shape(log: FittedLog, place: str, joint: JointState) -> FloatArray:
        frequency = evidence.logs[0].ripples[place].frequency
        phase = 2 * np.pi * frequency * np.asarray(joint.q)
        return np.stack([np.sin(phase), np.cos(phase)], axis=1)

    return joint_shape(shape)


def load_friction(log: FittedLog, place: str) -> FloatArray:
    """Return friction that grows with the load: sign(qd) |effort|, (t, r)."""
    motor = log.model.mechanism.actuated.index(place)
    joint = log.joint_state(place)
    return log.at_joint(place, np.asarray(joint.sign * np.abs(log.prediction[:, motor])))


# -- the registry

FAULTS: dict[str, Callable[[Evidence], Sequence[Fault]]] = {}
"""By name: the fault, or several shapes of one, for some evidence."""


def register_fault(fault: Fault) -> Fault:
    """Make a fault known: it is tried in every verdict."""
    FAULTS[fault.name] = lambda evidence: (fault,)
    return fault


register_fault(
    Fault(
        name="effort delay",
        places=motors_and_all,
        unit="s",
        undo=undo_delay,
        unnoticed="a delay of the efforts",
        text="the effort of {place} lags the position by {size}",
        advice='put delay = "{ms:.3g} ms" in the [effort] table of the description, for {place}',
    )
)
register_fault(
    Fault(
        name="effort lag",
        places=motors_unless_redundant,
        unit="s",
        undo=undo_lag,
        positive=True,
        min_samples=MIN_LAG_SAMPLES,
        text="the effort of {place} is low-passed with a time constant of {size}",
        advice="take the filter out of the drive of {place}, or record what it does not filter",
    )
)
register_fault(
    Fault(
        name="effort offset",
        places=motors,
        unit="{effort}",
        undo=undo_effort_offset,
        unnoticed="an offset of an effort",
        text="the effort of {place} is off by {size}",
        advice='zero the current sensor of {place}, or add "off" to its terms in the robot file',
    )
)
register_fault(
    Fault(
        name=EFFORT_SCALE,
        places=motors_with_rows,
        undo=undo_effort_scale,
        unnoticed="a wrong gain of one motor",
        text="the effort of {place} is scaled by {size}",
        advice="divide the effort of {place} by {factor:.4g}: correct its gain, gear or unit",
    )
)
register_fault(
    Fault(
        name="effort curve",
        places=motors_with_rows,
        columns=curved_effort,
        scopes=("all logs",),
        max_size=MAX_RELATIVE_SIZE,
        text="the effort of {place} is not proportional: its gain changes by {size} up to the "
        "largest effort",
        advice="calibrate the current sensor and the torque constant of {place} at several efforts",
    )
)
register_fault(
    Fault(
        name="encoder offset",
        places=motors,
        unit="{position}",
        undo=undo_encoder_offset,
        unnoticed="a homing error",
        text="the position of {place} is off by {size}",
        advice="home {place} again, or put offset = {less:.4g} [{unit}] for its position in the "
        "description",
    )
)
register_fault(
    Fault(
        name="encoder scale",
        places=motors_and_all,
        undo=undo_encoder_scale,
        text="the position of {place} is too large by {size}",
        advice="put scale = {inverse:.6g} for the position of {place} in the description",
    )
)
register_fault(
    Fault(
        name=CLOCK_FAULT,
        places=lambda evidence: (CLOCK_PLACE,),
        undo=undo_clock,
        unnoticed="an error of the clock",
        text="times are too long by {size}",
        advice="multiply the times by {inverse:.6g}: correct their unit or the rate in the "
        "description",
    )
)
register_fault(
    Fault(
        name="tilt",
        places=falling_base,
        unit="rad",
        undo=undo_tilt,
        n_sizes=2,
        unnoticed="a tilt of the base",
        text="the base is tilted by {size} about the axis [{axis}] of its frame",
        advice="put gravity = [{gravity}] in the robot file, or level the base",
    )
)
register_fault(
    Fault(
        name="compliance",
        places=motors,
        unit="{position}/({effort})",
        undo=undo_compliance,
        positive=True,
        in_robot_file=True,
        scopes=("all logs",),
        text="the transmission of {place} bends by {size}",
        advice="move slower, or measure the position of {place} behind its transmission",
    )
)
register_fault(
    Fault(
        name=PAYLOAD_FAULT,
        places=unloaded_logs,
        unit="kg",
        columns=payload_columns,
        scopes=("one log",),
        n_decisive=1,
        unnoticed="a payload in one log",
        text="a payload of {size} was carried that the description does not name",
        advice='name it in the description of {place}: payload = "..."',
    )
)
register_fault(
    Fault(
        name="no gravity",
        places=falling_base,
        columns=compensated_weight,
        positive=True,
        least_size=LEAST_COMPENSATION,
        max_size=MOST_COMPENSATION,
        unnoticed="a weight that a controller has subtracted",
        text="the recorded efforts lack {size} of the weight according to the robot file",
        advice="record the whole effort: the controller subtracts its gravity compensation",
    )
)
DRIFT_OF_A_JOINT = Fault(
    name="drift",
    places=joints,
    unit="{effort}",
    columns=drift_columns,
    scopes=("one log", "all logs"),
    n_decisive=2,
    text="friction of {place} changes along the log by {size}",
    advice="record after a warm-up, or cut the log into parts",
)
DRIFT_OF_ALL_JOINTS = replace(
    DRIFT_OF_A_JOINT,
    places=lambda evidence: (ALL_JOINTS,),
    unit="1",
    columns=common_drift,
    n_decisive=1,
)
FRICTION_OF_A_LOG = replace(
    DRIFT_OF_ALL_JOINTS,
    columns=friction_of_a_log,
    scopes=("one log",),
    text="friction of {place} differs from that in the other logs by {size}",
    advice="record all logs warm, or identify only from those in the same state",
)
FAULTS["drift"] = lambda evidence: (DRIFT_OF_A_JOINT, DRIFT_OF_ALL_JOINTS, FRICTION_OF_A_LOG)


def _missing(
    text: str, unit: str | tuple[str, str], advice: str, columns: Columns, positive: bool = False
) -> Fault:
    """Return a joint term that the robot file lacks."""
    return Fault(
        name="missing term",
        places=joints,
        unit=unit,
        columns=columns,
        positive=positive,
        in_robot_file=True,
        scopes=("all logs",),
        text=text,
        advice=advice,
    )


def add_term_advice(what: str, *terms: str) -> str:
    """Return the advice to add terms to the robot file."""
    names = " and ".join(f'"{term}"' for term in terms)
    return f"add {names} ({what}) to the terms of {{place}} in the robot file"


def _shapes_without_constants(evidence: Evidence) -> Iterator[Fault]:
    """Yield joint terms in shapes that need no constants."""
    what = "viscous friction that differs by direction"
    yield _missing(
        "viscous friction of {place} differs by direction, by {size} either way",
        "{effort} s/{position}",
        add_term_advice(what, "fv_plus", "fv_minus"),
        joint_shape(lambda log, place, joint: np.abs(joint.qd)),
    )
    for fraction in STRIBECK_SPEEDS:
        yield _missing(
            "friction of {place} is larger at low speed by {size}",
            "{effort}",
            add_term_advice("Stribeck friction", "stribeck"),
            stribeck(evidence, fraction),
            positive=True,
        )
    yield _missing(
        "friction of {place} grows with the square of the speed by {size}",
        "{effort} s2/{position}2",
        add_term_advice("friction that grows faster than the speed", "fv_cubic"),
        joint_shape(lambda log, place, joint: joint.qd * np.abs(joint.qd)),
        positive=True,
    )
    for time in MEMORY_TIMES:
        shape = _missing(
            "friction of {place} builds up after a reversal, {size} of it",
            "{effort}",
            add_term_advice("friction that builds up after a reversal", "fs_time"),
            memory(time),
            positive=True,
        )
        yield replace(shape, places=motors)
    shape = _missing(
        "friction of {place} grows with the load by {size} of it",
        "1",
        add_term_advice("friction that grows with the load", "fs_load"),
        load_friction,
        positive=True,
    )
    yield replace(shape, places=motors_with_rows)
    shape = _missing(
        "the effort of {place} ripples with its position by {size}",
        "{effort}",
        "add "
        + '"ripple" with the pitch {pitch:.4g} to the terms of {place} in the robot file '
        + "(cogging, teeth of a gear)",
        ripple(evidence),
    )
    yield replace(
        shape,
        places=motors,
        searched=lambda evidence, place: evidence.logs[0].ripples[place].tried,
    )


def _missing_registered_terms() -> Iterator[Fault]:
    """Yield every registered joint term, at the joints that lack it."""
    for name, term in TERMS.items():
        if not term.fault_candidate:
            continue

        def places(evidence: Evidence, name: str = name) -> tuple[str, ...]:
            joints = []
            for joint in evidence.model.mechanism.joints:
                if not joint.virtual and name not in joint.terms:
                    joints.append(joint.name)
            return tuple(joints)

        def shape(log: FittedLog, place: str, joint: JointState, name: str = name) -> FloatArray:
            return np.broadcast_to(
                np.asarray(TERMS[name].value(joint), dtype=float), (len(log.motion),)
            )

        fault = _missing(
            f"{{place}} has {term.label} of {{size}}",
            term.units,
            add_term_advice(term.label, name),
            joint_shape(shape),
            positive=term.nonnegative,
        )
        yield replace(fault, places=places)


FAULTS["missing term"] = lambda evidence: (
    *_missing_registered_terms(),
    *_shapes_without_constants(evidence),
)


def all_faults(evidence: Evidence) -> list[Fault]:
    """Return every registered fault for some evidence."""
    faults: list[Fault] = []
    for shapes in FAULTS.values():
        faults += shapes(evidence)
    return faults
