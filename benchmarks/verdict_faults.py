"""Faults of `benchmarks/verdict.py`: what can be wrong with logs and robot files.

Each fault changes a draft of an experiment: the true robot of a log, its efforts before the
sensors, its samples after them, or the robot file. The names that are right are written down
with it. Nothing here is shared with the faults that the verdict knows.

Sizes have the sign and unit of "recorded minus true" or "recorded over true": a factor for
scales, m or rad for homing, s for delays, kg for payloads, rad for tilts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.signal import cont2discrete, lfilter
from verdict_plant import (
    Array,
    Plan,
    Plant,
    Sensors,
    Workspace,
    clean_recording,
    coulomb,
    measured,
    move,
    rotation_about,
)
from verdict_robots import flange_mass, without_terms

from gough.core.errors import GoughError
from gough.core.motion import Motion
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism.placement import Placement, Step
from gough.mechanism.types import Mechanism

LOGS = ("identification", "held-out")  # sources of the two logs
BOTH = (0, 1)
ALL_MOTORS = "all motors"
# Rules by which samples that are missing, repeated or late may be reported.
TIME_RULES = (
    "samples lost",
    "gap",
    "repeated",
    "late samples",
    "controller time",
    "jitter",
    "clock",
)


class NotApplicable(Exception):
    """The robot has nothing that could be wrong in this way."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """An experiment in which nothing is wrong."""

    robot: str
    model: Model  # of the robot file
    workspace: Workspace
    plant: Plant  # the true robot
    plans: tuple[Plan, Plan]
    sensors: Sensors  # the same in both logs
    seed: tuple[int, ...]  # of the noise

    @cached_property
    def motions(self) -> tuple[Motion, Motion]:
        """True motion of both logs."""
        return self.motion(0), self.motion(1)

    def motion(self, log: int, shift: Array | float = 0.0) -> Motion:
        """Return the motion of a log, at times that are shifted. [s]"""
        plan = self.plans[log]
        try:
            return move(self.model, self.workspace, plan.path, plan.time + shift)
        except GoughError as error:  # the workspace was tried at some points only
            raise NotApplicable(f"the motion is not possible: {error}") from error

    @cached_property
    def ideal(self) -> tuple[Recording, Recording]:
        """Both logs without noise."""
        first = clean_recording(self.plant, self.motions[0], self.plans[0], LOGS[0])
        second = clean_recording(self.plant, self.motions[1], self.plans[1], LOGS[1])
        return first, second

    @cached_property
    def recordings(self) -> tuple[Recording, Recording]:
        """Both logs with noise and nothing wrong."""
        return self.sense(self.ideal[0], 0), self.sense(self.ideal[1], 1)

    @cached_property
    def range(self) -> Array:
        """Range of the motors' positions in the identification log, (a,)."""
        return np.asarray(np.ptp(self.ideal[0].position, axis=0))

    def rms(self, log: int) -> Array:
        """Return the rms of the true efforts of a log, (a,)."""
        return np.asarray(np.sqrt((np.asarray(self.ideal[log].effort) ** 2).mean(axis=0)))

    def sense(self, clean: Recording, log: int) -> Recording:
        """Return a recording with the noise of a log, which is the same each time."""
        rng = np.random.default_rng([*self.seed, log])
        return measured(clean, self.sensors, rng, np.array([self.range, self.rms(0)]))

    @property
    def motors(self) -> tuple[str, ...]:
        """Names of the motors."""
        return self.model.mechanism.actuated


# What happens to the true efforts of a log, (t, a), before they are measured.
BeforeSensors = Callable[["Draft", int, Array], Array]
AfterSensors = Callable[[Recording], Recording]


@dataclass(kw_only=True, eq=False)
class Draft:
    """An experiment in which something is made wrong."""

    scene: Scene
    rng: np.random.Generator
    plants: list[Plant] = field(default_factory=list)  # of both logs
    mechanism: Mechanism | None = None  # the robot file, if it is changed
    before: list[tuple[tuple[int, ...], BeforeSensors]] = field(default_factory=list)
    after: list[tuple[tuple[int, ...], AfterSensors]] = field(default_factory=list)
    expected: list[tuple[str, str]] = field(default_factory=list)  # right rules and places
    accepted: list[str] = field(default_factory=list)  # rules that are not wrong either
    sizes: list[float] = field(default_factory=list)  # any of these is right; empty for none
    invisible: str = ""  # why these data cannot show it
    what: list[str] = field(default_factory=list)  # was done, in words
    effort_factor: Array = field(default_factory=lambda: np.ones(0))  # recorded over true, (a,)

    def __post_init__(self) -> None:
        self.plants = [self.scene.plant, self.scene.plant]
        self.effort_factor = np.ones(len(self.scene.motors))

    def name(self, rule: str, place: str, *sizes: float) -> None:
        """Note a right name and, for the first one, its size."""
        if not self.expected:
            self.sizes = list(sizes)
        self.expected.append((rule, place))

    def motor(self) -> int:
        """Draw a motor."""
        return int(self.rng.integers(len(self.scene.motors)))

    def two_motors(self) -> tuple[int, int]:
        """Draw two motors."""
        first, second = self.rng.choice(len(self.scene.motors), 2, replace=False)
        return int(first), int(second)

    @cached_property
    def model(self) -> Model:
        """Of the robot file as it is given to the estimator."""
        if self.mechanism is None:
            return self.scene.model
        return Model(self.mechanism)

    @property
    def robot_as_it_is(self) -> Plant:
        """The true robot without payload, with springs, friction and tilt that it really has."""
        plant = self.plants[1]
        return replace(self.scene.plant, extra=plant.extra, gravity=plant.gravity)

    def recording(self, log: int) -> Recording:
        """Return a log as it is given to the estimator."""
        scene = self.scene
        clean = scene.ideal[log]
        if self.plants[log] is not scene.plant:
            clean = clean_recording(
                self.plants[log], scene.motions[log], scene.plans[log], LOGS[log]
            )
        effort = np.array(clean.effort)
        for logs, change in self.before:
            if log in logs:
                effort = change(self, log, effort)
        noisy = scene.sense(replace(clean, effort=effort), log)
        for logs, alter in self.after:
            if log in logs:
                noisy = alter(noisy)
        return noisy


Apply = Callable[[Draft], None]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of one size."""

    label: str
    family: str  # listed, data, two or unlisted
    apply: Apply


# -- efforts after the sensors


def _with_effort(draft: Draft, change: Callable[[Array], Array]) -> None:
    def alter(log: Recording) -> Recording:
        return replace(log, effort=change(np.array(log.effort)))

    draft.after.append((BOTH, alter))


def _with_position(draft: Draft, change: Callable[[Array], Array], logs: tuple[int, ...]) -> None:
    def alter(log: Recording) -> Recording:
        return replace(log, position=change(np.array(log.position)))

    draft.after.append((logs, alter))


def effort_scale(factor: float) -> Apply:
    """One motor's efforts are recorded too large by a factor, or with the wrong sign."""

    def apply(draft: Draft) -> None:
        k = draft.motor()

        def change(effort: Array) -> Array:
            effort[:, k] *= factor
            return effort

        _with_effort(draft, change)
        draft.effort_factor[k] *= factor
        place = draft.scene.motors[k]
        if factor == -1:
            draft.name("effort sign", place)
        else:
            draft.name("effort scale", place, factor)
        draft.what.append(f"effort of {place} times {factor:g}")

    return apply


def all_efforts(factor: float) -> Apply:
    """All efforts are recorded too large by a factor, or with the wrong sign."""

    def apply(draft: Draft) -> None:
        _with_effort(draft, lambda effort: factor * effort)
        draft.effort_factor *= factor
        if factor == -1:
            draft.name("effort sign", ALL_MOTORS)
        else:
            draft.name("effort scale", ALL_MOTORS, factor)
            draft.invisible = "efforts and parameters scale together"
        draft.what.append(f"all efforts times {factor:g}")

    return apply


def effort_offset(fraction: float) -> Apply:
    """A constant is added to one motor's efforts, in parts of their rms."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        offset = fraction * draft.scene.rms(0)[k]

        def change(effort: Array) -> Array:
            effort[:, k] += offset
            return effort

        _with_effort(draft, change)
        place = draft.scene.motors[k]
        draft.name("effort offset", place, offset)
        draft.name("missing term", place)
        if "off" in draft.scene.model.mechanism.joint(place).terms:
            draft.invisible = "the offset of the joint takes all of it"
        draft.what.append(f"{offset:.4g} added to the effort of {place}")

    return apply


def swapped(kind: str) -> Apply:
    """Two motors' efforts, positions or both are exchanged."""

    def apply(draft: Draft) -> None:
        first, second = draft.two_motors()

        def change(values: Array) -> Array:
            values[:, [first, second]] = values[:, [second, first]]
            return values

        if kind in ("efforts", "channels"):
            _with_effort(draft, change)
        if kind in ("positions", "channels"):
            _with_position(draft, change, BOTH)
        names = draft.scene.motors
        draft.name(f"swapped {kind}", f"{names[first]} and {names[second]}")
        draft.name(f"swapped {kind}", f"{names[second]} and {names[first]}")
        draft.what.append(f"{kind} of {names[first]} and {names[second]} exchanged")

    return apply


# -- efforts before the sensors


def _shifted_effort(draft: Draft, log: int, shift: float) -> Array:
    motion = draft.scene.motion(log, shift)
    return draft.plants[log].efforts(motion)


def effort_delay(seconds: float, every: bool) -> Apply:
    """Efforts of one or all motors are recorded late."""

    def apply(draft: Draft) -> None:
        k = draft.motor()

        def change(draft: Draft, log: int, effort: Array) -> Array:
            late = _shifted_effort(draft, log, -seconds)
            if every:
                return late
            effort[:, k] = late[:, k]
            return effort

        draft.before.append((BOTH, change))
        place = ALL_MOTORS if every else draft.scene.motors[k]
        draft.name("effort delay", place, seconds)
        draft.accepted.append("effort lag")
        draft.what.append(f"efforts of {place} {1e3 * seconds:g} ms late")

    return apply


def effort_lag(cutoff: float) -> Apply:
    """All efforts pass a low-pass of first order. [Hz]"""

    def apply(draft: Draft) -> None:
        def change(draft: Draft, log: int, effort: Array) -> Array:
            # The drive filters faster than the log samples: straight lines between samples.
            step = float(np.diff(draft.scene.plans[log].time[:2])[0])
            analogue = (np.array([1.0]), np.array([1 / (2 * np.pi * cutoff), 1.0]))
            top, bottom, _ = cont2discrete(analogue, step, "foh")
            return filtered(draft, log, effort, np.ravel(top), np.ravel(bottom))

        draft.before.append((BOTH, change))
        draft.name("effort lag", ALL_MOTORS, 1 / (2 * np.pi * cutoff))
        draft.name("effort delay", ALL_MOTORS)
        draft.what.append(f"efforts low-passed at {cutoff:g} Hz")

    return apply


def filtered(draft: Draft, log: int, effort: Array, top: Array, bottom: Array) -> Array:
    """Return efforts behind a filter that has been running for a second."""
    time = draft.scene.plans[log].time
    step = float(time[1] - time[0])
    count = min(int(1 / step), len(time))
    earlier = _shifted_effort(draft, log, -count * step)[:count]
    long = np.concatenate([earlier, effort])
    gain = top.sum() / bottom.sum()
    passed = lfilter(top, bottom, long - long[0], axis=0) + gain * long[0]
    return np.asarray(passed[count:])


# -- positions


def position_scale(factor: float, every: bool) -> Apply:
    """Positions are recorded with the wrong sign, in another unit or with a wrong gear."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        joint = draft.scene.model.mechanism.joint(draft.scene.motors[k])
        used = factor
        if factor == 0:
            used = np.rad2deg(1.0) if joint.unit == "rad" else 1000.0

        def change(position: Array) -> Array:
            if every:
                return position * used
            position[:, k] *= used
            return position

        _with_position(draft, change, BOTH)
        place = ALL_MOTORS if every else joint.name
        if used == -1:
            draft.name("position sign", place)
        elif factor == 0:
            draft.name("position unit", place, used)
        else:
            draft.name("encoder scale", place, used, used - 1)
        draft.what.append(f"position of {place} times {used:g}")

    return apply


def homing(fraction: float) -> Apply:
    """One encoder is homed wrongly, in parts of its range."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        offset = float(draft.rng.choice([-1, 1]) * fraction * draft.scene.range[k])

        def change(position: Array) -> Array:
            position[:, k] += offset
            return position

        _with_position(draft, change, BOTH)
        place = draft.scene.motors[k]
        draft.name("encoder offset", place, offset)
        draft.what.append(f"{offset:.4g} added to the position of {place}")

    return apply


def lost_counts(fraction: float) -> Apply:
    """One encoder jumps once, in parts of its range."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        log = int(draft.rng.integers(2))
        jump = float(draft.rng.choice([-1, 1]) * fraction * draft.scene.range[k])
        place = draft.rng.uniform(0.3, 0.7)

        def change(position: Array) -> Array:
            position[int(place * len(position)) :, k] += jump
            return position

        _with_position(draft, change, (log,))
        motor = draft.scene.motors[k]
        draft.name("lost counts", motor, jump)
        draft.name("jump", motor)
        draft.what.append(f"{motor} jumps by {jump:.4g} at {place:.0%} of the {LOGS[log]} log")

    return apply


# -- time


def clock(factor: float) -> Apply:
    """Time stamps are stretched."""

    def apply(draft: Draft) -> None:
        draft.after.append((BOTH, lambda log: replace(log, time=log.time * factor)))
        if abs(factor - 1) < 0.3:
            draft.name("clock", "", factor, factor - 1)
        else:
            draft.name("clock unit", "", factor)
        draft.what.append(f"times stretched by {factor:g}")

    return apply


def reversed_time(draft: Draft) -> None:
    """Samples are stored from the last to the first."""

    def alter(log: Recording) -> Recording:
        effort = np.array(log.effort)[::-1]
        return replace(log, position=log.position[::-1], effort=effort)

    draft.after.append((BOTH, alter))
    draft.name("reversed time", "")
    draft.what.append("samples in reversed order")


def lost_samples(fraction: float, stamped: bool) -> Apply:
    """Samples are missing; the time stamps show it or are made up afterwards."""

    def apply(draft: Draft) -> None:
        rng = draft.rng

        def alter(log: Recording) -> Recording:
            keep = rng.random(len(log.time)) >= fraction
            keep[[0, -1]] = True
            fewer = log.take(np.flatnonzero(keep))
            if stamped:
                return fewer
            return replace(fewer, time=log.time[: len(fewer.time)])

        draft.after.append((BOTH, alter))
        for rule in TIME_RULES:
            draft.name(rule, "")
        shown = "with" if stamped else "without"
        draft.what.append(f"{fraction:.1%} of the samples lost, {shown} a trace in the times")

    return apply


def repeated_samples(fraction: float) -> Apply:
    """Rows hold those before them: the logger asked faster than the drive answered."""

    def apply(draft: Draft) -> None:
        rng = draft.rng

        def alter(log: Recording) -> Recording:
            fresh = rng.random(len(log.time)) >= fraction
            fresh[0] = True
            rows = np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))
            effort = np.array(log.effort)[rows]
            return replace(log, position=log.position[rows], effort=effort)

        draft.after.append((BOTH, alter))
        for rule in TIME_RULES:
            draft.name(rule, "")
        draft.what.append(f"{fraction:.1%} of the rows repeat the row before")

    return apply


def jitter(fraction: float) -> Apply:
    """Samples are taken late, in parts of a step, and stamped when they were taken."""

    def apply(draft: Draft) -> None:
        rng = draft.rng

        def alter(log: Recording) -> Recording:
            step = float(np.median(np.diff(log.time)))
            late = np.clip(rng.standard_normal(len(log.time)), -2.4, 2.4) * fraction * step
            late[0] = 0.0
            return replace(log, time=log.time + late)

        draft.after.append((BOTH, alter))
        for rule in TIME_RULES:
            draft.name(rule, "")
        draft.what.append(f"time stamps scatter by {fraction:.0%} of a step")

    return apply


# -- broken channels


def outliers(fraction: float) -> Apply:
    """Some efforts are ten rms off."""

    def apply(draft: Draft) -> None:
        rng = draft.rng

        def change(effort: Array) -> Array:
            hit = rng.random(effort.shape) < fraction
            return np.asarray(effort + hit * rng.choice([-10, 10], effort.shape) * effort.std())

        _with_effort(draft, change)
        draft.name("outliers", "")
        draft.what.append(f"{fraction:.1%} of the efforts are outliers")

    return apply


def clipped(multiple: float) -> Apply:
    """One motor's efforts are recorded up to some multiple of their rms only."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        top = multiple * draft.scene.rms(0)[k]

        def change(effort: Array) -> Array:
            effort[:, k] = np.clip(effort[:, k], -top, top)
            return effort

        _with_effort(draft, change)
        draft.name("saturation", draft.scene.motors[k])
        draft.what.append(f"effort of {draft.scene.motors[k]} clipped at {top:.4g}")

    return apply


def dead(draft: Draft) -> None:
    """One motor's efforts are zero."""
    k = draft.motor()

    def change(effort: Array) -> Array:
        effort[:, k] = 0.0
        return effort

    _with_effort(draft, change)
    draft.name("dead", draft.scene.motors[k])
    draft.what.append(f"no effort of {draft.scene.motors[k]}")


# -- gravity and payload


def _perpendicular(rng: np.random.Generator, vector: Array) -> Array:
    """Return a random unit vector at right angles to another."""
    unit = vector / np.linalg.norm(vector)
    other = rng.standard_normal(3)
    other = other - (other @ unit) * unit
    return np.asarray(other / np.linalg.norm(other))


def _for_all_plants(draft: Draft, **fields: object) -> None:
    for log in BOTH:
        draft.plants[log] = replace(draft.plants[log], **fields)  # type: ignore[arg-type]


def tilt(degrees: float) -> Apply:
    """The base stands inclined."""

    def apply(draft: Draft) -> None:
        gravity = draft.scene.plant.gravity
        axis = _perpendicular(draft.rng, gravity)
        angle = np.deg2rad(degrees)
        turned = rotation_about(axis, np.array([angle]))[0] @ gravity
        _for_all_plants(draft, gravity=turned)
        draft.name("tilt", "", angle, -angle)
        draft.what.append(f"gravity {np.round(turned, 3).tolist()} instead of {gravity.tolist()}")

    return apply


def other_gravity(draft: Draft) -> None:
    """The base is mounted with another axis up."""
    gravity = draft.scene.plant.gravity
    axis = int(np.argmax(np.abs(gravity)))
    turned = np.roll(gravity, 1 + int(draft.rng.integers(2)))
    turned = turned * draft.rng.choice([-1, 1])
    _for_all_plants(draft, gravity=turned)
    draft.name("gravity direction", "")
    draft.name("tilt", "")  # by 90 degrees: the same gravity, in other words
    draft.what.append(f"gravity {turned.tolist()}, not along axis {axis}")


def compensated(by_file: bool) -> Apply:
    """The controller has subtracted the weight, by a perfect model or that of the file."""

    def apply(draft: Draft) -> None:
        table = draft.scene.model.mechanism.standard
        filed = dict(zip(table.names, np.nan_to_num(table.values).tolist()))

        def change(draft: Draft, log: int, effort: Array) -> Array:
            motion = draft.scene.motions[log]
            zero = np.zeros_like(motion.q)
            still = replace(motion, qd=zero, qdd=zero)
            plant = draft.plants[log]
            values = filed if by_file else dict(plant.values)
            friction = ("fs", "fv", "off", "k", "ia")
            weights = {n: v for n, v in values.items() if n.rpartition(".")[2] not in friction}
            weight = replace(plant, values=weights, extra=None).efforts(still)
            return effort - weight

        draft.before.append((BOTH, change))
        draft.name("no gravity", "")
        draft.accepted.append("gravity direction")
        source = "the file's" if by_file else "a perfect"
        draft.what.append(f"weight subtracted by {source} model")

    return apply


def _loaded(draft: Draft, fraction: float) -> tuple[Plant, float]:
    """Return the true robot with a payload, in parts of the mass of its platform. [kg]"""
    plant = draft.scene.plant
    mechanism = draft.scene.model.mechanism
    mass = fraction * flange_mass(mechanism, plant.values)
    body = mechanism.flange
    values = dict(plant.values)
    inertia = 1e-3 * mass
    added = {"m": mass, "Ixx": inertia, "Iyy": inertia, "Izz": inertia}
    for name, amount in added.items():
        values[f"{body}.{name}"] = values.get(f"{body}.{name}", 0.0) + amount
    return replace(plant, values=values), mass


def payload(fraction: float, log: int) -> Apply:
    """A payload that no one has declared is carried in one log."""

    def apply(draft: Draft) -> None:
        loaded, mass = _loaded(draft, fraction)
        draft.plants[log] = loaded
        draft.name("payload", LOGS[log], mass)
        draft.what.append(f"{mass:.4g} kg carried in the {LOGS[log]} log")

    return apply


def payload_in_segment(fraction: float) -> Apply:
    """A payload is picked up and put down within a log."""

    def apply(draft: Draft) -> None:
        loaded, mass = _loaded(draft, fraction)
        log = int(draft.rng.integers(2))
        start = draft.rng.uniform(0.2, 0.5)
        stop = start + draft.rng.uniform(0.25, 0.45)

        def change(draft: Draft, log: int, effort: Array) -> Array:
            first = int(start * len(effort))
            last = int(stop * len(effort))
            carried = loaded.efforts(draft.scene.motions[log])
            effort[first:last] += (carried - draft.scene.ideal[log].effort)[first:last]
            return effort

        draft.before.append(((log,), change))
        draft.name("payload", LOGS[log], mass)
        draft.accepted.append("drift")
        span = f"{start:.0%} to {stop:.0%}"
        draft.what.append(f"{mass:.4g} kg carried from {span} of the {LOGS[log]} log")

    return apply


# -- friction


def friction_drift(fraction: float) -> Apply:
    """Friction of all joints grows along the identification log."""

    def apply(draft: Draft) -> None:
        def change(draft: Draft, log: int, effort: Array) -> Array:
            plant = draft.plants[log]
            names = ("fs", "fv")
            rubbing = {}
            for name, coefficient in plant.values.items():
                if name.rpartition(".")[2] in names:
                    rubbing[name] = coefficient
            only = replace(plant, values=rubbing, extra=None)
            ramp = np.linspace(0, fraction, len(effort))[:, None]
            return effort + ramp * only.efforts(draft.scene.motions[log])

        draft.before.append(((0,), change))
        draft.name("drift", "")  # the verdict gives the size of a joint's friction or effort
        draft.what.append(f"friction grows by {fraction:.0%} along the identification log")

    return apply


def missing_from_file(term: str) -> Apply:
    """The robot file lacks a term that one motor has."""

    def apply(draft: Draft) -> None:
        mechanism = draft.mechanism or draft.scene.model.mechanism
        having = [name for name in draft.scene.motors if term in mechanism.joint(name).terms]
        if not having:
            raise NotApplicable(f"no motor has the term {term}")
        place = str(draft.rng.choice(having))
        draft.mechanism = without_terms(mechanism, place, (term,))
        draft.name("missing term", place)
        if term == "off":
            draft.name("effort offset", place)
        draft.what.append(f"the file has no {term} of {place}")

    return apply


def extra_friction(kind: str, fraction: float) -> Apply:
    """One motor has a friction or a spring that the file lacks, in parts of its rms effort."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        place = draft.scene.motors[k]
        column = draft.scene.model.actuated[k]
        size = fraction * draft.scene.rms(0)[k]
        speed = float(np.abs(draft.scene.motions[0].qd[:, column]).max())
        middle = float(draft.scene.motions[0].q[:, column].mean())  # of the spring, in both logs

        def extra(motion: Motion) -> Array:
            total = np.zeros(motion.q.shape)
            u = motion.qd[:, column] / speed
            shapes = {
                "Stribeck": coulomb(u, 0.004) * np.exp(-np.abs(u) / 0.06),
                "cubic": u**3,
                "spring": (motion.q[:, column] - middle) / draft.scene.range[k] * 2,
                "hysteresis": _hysteresis(motion.q[:, column], 0.05 * draft.scene.range[k]),
            }
            total[:, column] = size * shapes[kind]
            return total

        _for_all_plants(draft, extra=extra)
        if kind == "spring":  # about another position is one about zero and an offset
            draft.accepted.append("effort offset")
        if kind == "hysteresis":
            draft.accepted.append("missing term")
        else:
            draft.name("missing term", place)
        draft.what.append(f"{kind} of {size:.4g} at {place}, which the file lacks")

    return apply


def _hysteresis(position: Array, distance: float) -> Array:
    """Return a Dahl friction of unit size that turns over within a distance."""
    state = np.zeros(len(position))
    for i, step in enumerate(np.diff(position)):
        keep = np.exp(-abs(step) / distance)
        state[i + 1] = keep * state[i] + (1 - keep) * np.sign(step)
    return state


# -- geometry of the robot file

TRANSLATIONS: tuple[Literal["Tx", "Ty", "Tz"], ...] = ("Tx", "Ty", "Tz")
ROTATIONS: tuple[Literal["Rx", "Ry", "Rz"], ...] = ("Rx", "Ry", "Rz")
IN_PLANE = ("Tx", "Ty", "Rz")
ASSEMBLY_REACH = (
    0.3  # largest change of a coordinate at the start that a wrong file makes [m or rad]
)


@dataclass(frozen=True, kw_only=True)
class WrongGeometry:
    """A robot file with one wrong point, length or axis."""

    mechanism: Mechanism
    what: str  # was changed


def geometry(kind: str, size: float) -> Apply:
    """The robot file has a point, a length or an axis wrong. [m or rad]"""

    def apply(draft: Draft) -> None:
        mechanism = draft.mechanism or draft.scene.model.mechanism
        if kind == "platform point":
            candidates = _wrong_closures(mechanism, size)
        else:
            candidates = _wrong_joints(mechanism, kind, size)
        for k in draft.rng.permutation(len(candidates)).tolist():
            if _assembles(draft.scene.model, candidates[k].mechanism):
                draft.mechanism = candidates[k].mechanism
                draft.name("geometry", "", size, -size)
                draft.what.append(f"{kind}: {candidates[k].what}")
                return
        raise NotApplicable(f"no wrong {kind} with which the robot assembles")

    return apply


def is_planar(mechanism: Mechanism) -> bool:
    """Tell whether a closed chain moves in the plane of x and y, which nothing may leave."""
    coordinates = {name.rpartition(".")[2] for name in mechanism.task}
    return bool(coordinates) and coordinates <= {"x", "y", "rz"}


def _assembles(model: Model, mechanism: Mechanism) -> bool:
    """Tell whether a robot with other geometry starts at about the same place."""
    try:
        home = Model(mechanism).home
    except GoughError:
        return False
    return bool(np.abs(np.asarray(home) - np.asarray(model.home)).max() < ASSEMBLY_REACH)


def _wrong_joints(mechanism: Mechanism, kind: str, size: float) -> list[WrongGeometry]:
    """Return the robot with each of its joints moved or turned on its parent."""
    wrong = []
    for i, joint in enumerate(mechanism.joints):
        at_base = joint.parent == "base"
        if joint.virtual or (kind == "base point" and not (at_base and mechanism.closures)):
            continue
        shift = joint.placement.translation
        if kind == "link length" and (at_base or np.linalg.norm(shift) < 0.02):
            continue
        axis = joint.placement.rotation @ joint.direction  # in the parent's frame
        for step in _steps(kind, size, axis, shift):
            if is_planar(mechanism) and step[0] not in IN_PLANE:
                continue
            placement = Placement((step, *joint.placement.steps))
            if kind == "axis":  # about the joint's own origin
                placement = _turned(joint.placement, step)
            joints = list(mechanism.joints)
            joints[i] = replace(joint, placement=placement)
            changed = replace(mechanism, joints=tuple(joints))
            wrong.append(WrongGeometry(mechanism=changed, what=f"{joint.name} by {step}"))
    return wrong


def _steps(kind: str, size: float, axis: Array, shift: Array) -> list[Step]:
    """Return the changes of a placement that are no change of the joint's own coordinate."""
    across = np.flatnonzero(np.abs(axis) < 0.5)
    if kind == "axis":
        return [(ROTATIONS[k], size) for k in across.tolist()]
    if kind == "base point":
        return [(TRANSLATIONS[k], size) for k in across.tolist()]
    return [(TRANSLATIONS[int(np.argmax(np.abs(shift)))], size)]


def _turned(placement: Placement, step: Step) -> Placement:
    """Return a placement turned about its own origin, along the axes of its parent."""
    there = []
    back = []
    for name, distance in zip(TRANSLATIONS, placement.translation.tolist()):
        there.append((name, distance))
        back.append((name, -distance))
    return Placement((*there, step, *back, *placement.steps))


def _wrong_closures(mechanism: Mechanism, size: float) -> list[WrongGeometry]:
    """Return the robot with the second end of each closure moved on its body."""
    wrong = []
    for i, closure in enumerate(mechanism.closures):
        if closure.b is None:
            continue
        for name in TRANSLATIONS:
            if is_planar(mechanism) and name not in IN_PLANE:
                continue
            placement = Placement(((name, size), *closure.b.placement.steps))
            closures = list(mechanism.closures)
            closures[i] = replace(closure, b=replace(closure.b, placement=placement))
            changed = replace(mechanism, closures=tuple(closures))
            wrong.append(
                WrongGeometry(mechanism=changed, what=f"{closure.name} by {name} {size:g}")
            )
    return wrong


# -- outside the list


def backlash(fraction: float) -> Apply:
    """The encoder of one motor is before a gear with play, in parts of its range."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        play = fraction * draft.scene.range[k]

        def alter(log: Recording) -> Recording:
            torque = np.array(log.effort)[:, k]
            position = np.array(log.position)
            position[:, k] += play / 2 * np.tanh(torque / (0.05 * torque.std()))
            return replace(log, position=position)

        draft.after.append((BOTH, alter))
        draft.accepted.append("compliance")
        draft.what.append(f"play of {play:.3g} at {draft.scene.motors[k]}")

    return apply


def compliance(fraction: float) -> Apply:
    """The transmission of one motor winds up, in parts of its range."""

    def apply(draft: Draft) -> None:
        k = draft.motor()
        scene = draft.scene
        give = fraction * scene.range[k] / np.abs(np.asarray(scene.ideal[0].effort)[:, k]).max()

        def wound(log: int) -> AfterSensors:
            def alter(recording: Recording) -> Recording:
                position = np.array(recording.position)
                position[:, k] += give * np.asarray(scene.ideal[log].effort)[:, k]
                return replace(recording, position=position)

            return alter

        for log in BOTH:
            draft.after.append(((log,), wound(log)))
        draft.name("compliance", scene.motors[k], give)
        draft.what.append(f"{scene.motors[k]} gives by {give:.3g} per unit of effort")

    return apply


def resonance(frequency: float) -> Apply:
    """Efforts pass a lightly damped transmission. [Hz]"""

    def apply(draft: Draft) -> None:
        k = draft.motor()

        def change(draft: Draft, log: int, effort: Array) -> Array:
            step = float(np.diff(draft.scene.plans[log].time[:2])[0])
            pole = np.exp(2 * np.pi * frequency * step * (-0.08 + 1j))
            bottom = np.array([1.0, -2 * pole.real, abs(pole) ** 2])
            passed = filtered(draft, log, effort, np.array([bottom.sum()]), bottom)
            effort[:, k] = passed[:, k]
            return effort

        draft.before.append((BOTH, change))
        draft.accepted += ["compliance", "effort delay", "effort lag"]
        draft.what.append(f"{draft.scene.motors[k]} resonates at {frequency:g} Hz")

    return apply


def curved_gain(fraction: float) -> Apply:
    """The sensor of one motor's effort is not linear: tau (1 + c |tau| / max)."""

    def apply(draft: Draft) -> None:
        k = draft.motor()

        def change(effort: Array) -> Array:
            relative = np.abs(effort[:, k]) / np.abs(effort[:, k]).max()
            effort[:, k] *= 1 + fraction * relative
            return effort

        _with_effort(draft, change)
        draft.name("effort curve", draft.scene.motors[k])  # of the largest effort of each log
        draft.what.append(f"gain of {draft.scene.motors[k]} curved by {fraction:.0%}")

    return apply


def wandering_gain(fraction: float) -> Apply:
    """One motor's gain changes slowly up and down."""

    def apply(draft: Draft) -> None:
        k = draft.motor()

        def alter(log: Recording) -> Recording:
            effort = np.array(log.effort)
            turns = 2 * np.pi * 1.7 * (log.time - log.time[0]) / (log.time[-1] - log.time[0])
            effort[:, k] *= 1 + fraction * np.sin(turns)
            return replace(log, effort=effort)

        draft.after.append((BOTH, alter))
        draft.accepted.append("drift")
        draft.what.append(f"gain of {draft.scene.motors[k]} wanders by {fraction:.0%}")

    return apply


def together(*faults: Apply) -> Apply:
    """Several faults at once."""

    def apply(draft: Draft) -> None:
        for fault in faults:
            fault(draft)
        draft.sizes = []

    return apply


# -- the list


def _listed() -> list[Fault]:
    faults: list[Fault] = []

    def add(label: str, apply: Apply) -> None:
        faults.append(Fault(label=label, family="listed", apply=apply))

    add("effort sign, one", effort_scale(-1))
    add("effort sign, all", all_efforts(-1))
    for factor in (1.1, 1.3, 2.0, 2.35, 9.81, 1000.0):
        add(f"effort x {factor:g}, one", effort_scale(factor))
    for factor in (1.2, 9.81):
        add(f"effort x {factor:g}, all", all_efforts(factor))
    for fraction in (0.05, 0.3):
        add(f"effort offset {fraction:.0%}", effort_offset(fraction))
    for delay in (2e-3, 5e-3, 10e-3):
        add(f"effort {1e3 * delay:g} ms late, all", effort_delay(delay, every=True))
        add(f"effort {1e3 * delay:g} ms late, one", effort_delay(delay, every=False))
    for cutoff in (10.0, 30.0):
        add(f"effort low-pass {cutoff:g} Hz", effort_lag(cutoff))
    add("position sign, one", position_scale(-1, every=False))
    add("position unit, one", position_scale(0, every=False))
    add("position unit, all", position_scale(0, every=True))
    for factor in (1.01, 1.03):
        add(f"encoder x {factor:g}, one", position_scale(factor, every=False))
    for fraction in (0.003, 0.01, 0.05):
        add(f"homing {fraction:.1%} of range", homing(fraction))
    for kind in ("efforts", "positions", "channels"):
        add(f"swapped {kind}", swapped(kind))
    for factor in (1.01, 1.05, 2.0, 1000.0):
        add(f"clock x {factor:g}", clock(factor))
    add("reversed time", reversed_time)
    for degrees in (1.0, 3.0, 10.0):
        add(f"tilt {degrees:g} deg", tilt(degrees))
    add("gravity along another axis", other_gravity)
    add("weight compensated, exact", compensated(by_file=False))
    add("weight compensated, by the file", compensated(by_file=True))
    for fraction in (0.05, 0.2, 0.5):
        add(f"payload {fraction:.0%}, identification", payload(fraction, 0))
    add("payload 30%, held-out", payload(0.3, 1))
    for fraction in (0.2, 0.5):
        add(f"payload {fraction:.0%}, segment", payload_in_segment(fraction))
    for fraction in (0.2, 0.5, 1.0):
        add(f"friction drift {fraction:.0%}", friction_drift(fraction))
    for term in ("fv", "fs"):
        add(f"file without {term}", missing_from_file(term))
    add("spring 10%", extra_friction("spring", 0.1))
    add("Stribeck 20%", extra_friction("Stribeck", 0.2))
    add("cubic friction 10%", extra_friction("cubic", 0.1))
    for size in (2e-3, 10e-3):
        add(f"base point {1e3 * size:g} mm", geometry("base point", size))
        add(f"platform point {1e3 * size:g} mm", geometry("platform point", size))
        add(f"link length {1e3 * size:g} mm", geometry("link length", size))
    for degrees in (0.5, 3.0):
        add(f"axis {degrees:g} deg", geometry("axis", float(np.deg2rad(degrees))))
    add("compliance 0.5% of range", compliance(0.005))
    return faults


def _others() -> list[Fault]:
    faults: list[Fault] = []

    def add(family: str, label: str, apply: Apply) -> None:
        faults.append(Fault(label=label, family=family, apply=apply))

    for fraction in (0.003, 0.03):
        add("data", f"lost counts {fraction:.1%} of range", lost_counts(fraction))
    add("data", "outliers 0.8%", outliers(0.008))
    add("data", "lost samples 2%, stamped", lost_samples(0.02, stamped=True))
    add("data", "lost samples 0.5%, unstamped", lost_samples(0.005, stamped=False))
    add("data", "repeated samples 5%", repeated_samples(0.05))
    add("data", "jitter 20%", jitter(0.2))
    add("data", "clipped effort", clipped(1.2))
    add("data", "dead effort", dead)
    sign = effort_scale(-1)
    add("two", "effort sign and delay 5 ms", together(sign, effort_delay(5e-3, every=True)))
    add("two", "effort x 1.5 and homing 2%", together(effort_scale(1.5), homing(0.02)))
    add("two", "payload 40% and effort x 1.5", together(payload(0.4, 0), effort_scale(1.5)))
    add("two", "swapped efforts and tilt 8 deg", together(swapped("efforts"), tilt(8.0)))
    add("unlisted", "backlash 0.3% of range", backlash(0.003))
    add("unlisted", "resonance 12 Hz", resonance(12.0))
    add("listed", "curved gain 30%", curved_gain(0.3))
    add("unlisted", "hysteresis 20%", extra_friction("hysteresis", 0.2))
    add("unlisted", "wandering gain 15%", wandering_gain(0.15))
    return faults


FAULTS: tuple[Fault, ...] = (*_listed(), *_others())
