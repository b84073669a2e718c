"""The virtual world of `benchmarks/verdict.py`: a plant, motions and sensors of its own.

The estimator's dynamics are not used here. Efforts come from a Newton-Euler recursion over the
tree in world coordinates, written for this benchmark, and are projected onto the motors with
the closure map. Coulomb friction is smoothed by tanh and holds a part of its value at rest,
neither of which the robot file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gough.core.errors import GoughError
from gough.core.motion import Motion
from gough.core.parameters import INERTIAL
from gough.engine import Model
from gough.engine.limits import collect_limits, measure
from gough.engine.loops import By
from gough.logs.recording import Recording
from gough.mechanism.types import Joint, Mechanism

Array = NDArray[np.float64]
# position, velocity and acceleration of the independent coordinates at times, (t, m) each
Path = Callable[[Array], tuple[Array, Array, Array]]
# extra effort of all coordinates, (t, n), added to the joint terms
ExtraEffort = Callable[[Motion], Array]

MOST_SAMPLES = 8000  # of a log
RATES = (1000.0, 500.0, 250.0, 200.0, 125.0, 100.0)  # of sampling [Hz]
LIMIT_FRACTION = 0.9  # of velocity, acceleration and effort limits that a motion uses
SLOWEST_PACE = 3.0  # times that a motion takes longer than the limits ask for
PACE_MOVES = 20  # of pick and place, from which its pace is found
HELD_FRICTION = 0.5  # part of Coulomb friction that stays at rest, in the last direction


# -- dynamics


def rotation_about(axis: Array, angle: Array) -> Array:
    """Return rotations by angles (t,) about a fixed unit axis, (t, 3, 3), by Rodrigues."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine = np.sin(angle)[:, None, None]
    versine = (1 - np.cos(angle))[:, None, None]
    return np.asarray(np.eye(3) + sine * cross + versine * (cross @ cross))


@dataclass(kw_only=True)
class BodyMotion:
    """A body along a motion, in world coordinates."""

    rotation: Array  # (t, 3, 3)
    origin: Array  # (t, 3) [m]
    spin: Array  # angular velocity, (t, 3) [rad/s]
    spin_rate: Array  # (t, 3) [rad/s2]
    acceleration: Array  # of the origin, less gravity, (t, 3) [m/s2]
    axis: Array  # of the joint that carries it, (t, 3)
    force: Array = field(default_factory=lambda: np.zeros(0))  # that moves it, (t, 3) [N]
    moment: Array = field(default_factory=lambda: np.zeros(0))  # about its origin, (t, 3) [N m]


def _at_rest(samples: int, gravity: Array) -> BodyMotion:
    """Return the base, which accelerates upwards instead of having weight."""
    zero = np.zeros((samples, 3))
    return BodyMotion(
        rotation=np.tile(np.eye(3), (samples, 1, 1)),
        origin=zero,
        spin=zero,
        spin_rate=zero,
        acceleration=np.tile(-gravity, (samples, 1)),
        axis=zero,
    )


def _carried(parent: BodyMotion, joint: Joint, q: Array, qd: Array, qdd: Array) -> BodyMotion:
    """Return the motion of the body that a joint carries."""
    frame = parent.rotation @ joint.placement.rotation
    origin = parent.origin + parent.rotation @ joint.placement.translation
    axis = frame @ joint.direction
    spin = parent.spin
    spin_rate = parent.spin_rate
    relative = np.zeros_like(origin)
    if joint.kind == "revolute":
        rotation = frame @ rotation_about(joint.direction, q)
        spin = spin + axis * qd[:, None]
        spin_rate = spin_rate + axis * qdd[:, None] + np.cross(parent.spin, axis) * qd[:, None]
    else:
        rotation = frame
        origin = origin + axis * q[:, None]
        coriolis = 2 * np.cross(parent.spin, axis) * qd[:, None]
        relative = axis * qdd[:, None] + coriolis
    lever = origin - parent.origin
    centripetal = np.cross(parent.spin, np.cross(parent.spin, lever))
    acceleration = parent.acceleration + np.cross(parent.spin_rate, lever) + centripetal + relative
    return BodyMotion(
        rotation=rotation,
        origin=origin,
        spin=spin,
        spin_rate=spin_rate,
        acceleration=acceleration,
        axis=axis,
    )


def _load_body(body: BodyMotion, parameters: Array) -> None:
    """Set the force and the moment that move a body with ten inertial parameters."""
    mass = parameters[0]
    xx, xy, yy, xz, yz, zz = parameters[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    turned = np.swapaxes(body.rotation, 1, 2)
    first_moment = body.rotation @ parameters[1:4]
    local_spin = np.einsum("tij,tj->ti", turned, body.spin)
    local_rate = np.einsum("tij,tj->ti", turned, body.spin_rate)
    local = local_rate @ inertia + np.cross(local_spin, local_spin @ inertia)
    body.force = (
        mass * body.acceleration
        + np.cross(body.spin_rate, first_moment)
        + np.cross(body.spin, np.cross(body.spin, first_moment))
    )
    body.moment = np.cross(first_moment, body.acceleration)
    body.moment = body.moment + np.einsum("tij,tj->ti", body.rotation, local)


def tree_efforts(
    mechanism: Mechanism, values: Mapping[str, float], motion: Motion, gravity: Array
) -> Array:
    """Return the efforts of all joints of the open tree, (t, n), by Newton and Euler."""
    bodies = {"base": _at_rest(len(motion.time), gravity)}
    for i, joint in enumerate(mechanism.joints):
        parent = bodies[joint.parent]
        body = _carried(parent, joint, motion.q[:, i], motion.qd[:, i], motion.qdd[:, i])
        _load_body(body, inertial_parameters(values, joint.child))
        bodies[joint.child] = body
    efforts = np.zeros(motion.q.shape)
    for i in reversed(range(len(mechanism.joints))):
        joint = mechanism.joints[i]
        body = bodies[joint.child]
        driving = body.moment if joint.kind == "revolute" else body.force
        efforts[:, i] = (body.axis * driving).sum(axis=1)
        if joint.parent != "base":
            parent = bodies[joint.parent]
            parent.force = parent.force + body.force
            lever = body.origin - parent.origin
            parent.moment = parent.moment + body.moment + np.cross(lever, body.force)
    return efforts


def inertial_parameters(values: Mapping[str, float], body: str) -> Array:
    """Return the ten inertial parameters of a body."""
    return np.array([values.get(f"{body}.{name}", 0.0) for name in INERTIAL])


def joint_terms(
    mechanism: Mechanism, values: Mapping[str, float], motion: Motion, band: float
) -> Array:
    """Return the efforts of friction, springs, offsets and rotor inertias, (t, n).

    Args:
        band: Speed over which Coulomb friction changes its sign, in parts of the largest.
    """
    efforts = np.zeros(motion.q.shape)
    for i, joint in enumerate(mechanism.joints):
        shapes = {
            "ia": motion.qdd[:, i],
            "fv": motion.qd[:, i],
            "off": np.ones(len(motion.time)),
            "k": motion.q[:, i],
        }
        for term in joint.terms:
            coefficient = values.get(f"{joint.name}.{term}", 0.0)
            if term == "fs":
                shape = coulomb(motion.qd[:, i], band)
            elif term in shapes:
                shape = shapes[term]
            else:
                raise ValueError(f"the plant has no joint term '{term}'")
            efforts[:, i] += coefficient * shape
    return efforts


def coulomb(velocity: Array, band: float) -> Array:
    """Return friction of unit size: tanh of the speed, and a held part at rest."""
    top = float(np.abs(velocity).max())
    if top == 0.0:
        return np.zeros_like(velocity)
    smooth = np.tanh(velocity / (band * top))
    moving = np.abs(velocity) > band * top
    last = np.maximum.accumulate(np.where(moving, np.arange(len(velocity)), 0))
    direction = np.sign(velocity[last])
    return np.asarray(smooth + HELD_FRICTION * direction * (1 - smooth**2))


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A true robot: its geometry is that of a model, its values are not."""

    model: Model  # geometry only
    values: Mapping[str, float]  # true standard parameters by name
    gravity: Array  # true free fall in the base frame, (3,) [m/s2]
    band: float = 0.004  # of Coulomb friction, see `joint_terms`
    extra: ExtraEffort | None = None  # that no robot file says

    def efforts(self, motion: Motion) -> Array:
        """Return the true motor efforts along a motion, (t, a)."""
        mechanism = self.model.mechanism
        total = tree_efforts(mechanism, self.values, motion, self.gravity)
        total = total + joint_terms(mechanism, self.values, motion, self.band)
        if self.extra is not None:
            total = total + self.extra(motion)
        return self.to_motors(motion, total)

    def to_motors(self, motion: Motion, efforts: Array) -> Array:
        """Return the motor efforts, (t, a), that balance efforts of all coordinates, (t, n)."""
        closure_map = self.model.kinematics.closure_map(motion.q, "actuated")
        return np.asarray(np.einsum("tnm,tn->tm", closure_map, efforts))


# -- motions


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A box of independent coordinates in which a robot may move."""

    by: By
    centre: Array  # (m,)
    half: Array  # (m,)


def find_workspace(model: Model) -> Workspace:
    """Return a box inside all position limits in which the loops close away from singularities."""
    mechanism = model.mechanism
    by: By = "task" if mechanism.task else "actuated"
    independent = list(model.loops.partitions[by].independent)
    home = np.asarray(model.home)[independent]
    half = np.zeros(len(independent))
    centre = home.copy()
    for k, i in enumerate(independent):
        limits = mechanism.joints[i].limits.position
        if limits is None:
            raise ValueError(f"'{mechanism.joints[i].name}' needs position limits")
        centre[k] = sum(limits) / 2
        half[k] = (limits[1] - limits[0]) / 2
    limits_of_pose = []
    for limit in collect_limits(model):
        if limit.quantity in ("position", "regularity"):
            limits_of_pose.append(limit)
    rng = np.random.default_rng(0)
    directions = rng.uniform(-1, 1, (80, len(half)))
    fraction = 0.95
    while fraction > 0.05:
        # Towards the home pose the smaller the box is: limits may be far beyond the reach.
        middle = home + (centre - home) * fraction
        if _box_is_possible(model, by, middle, half * fraction, directions, limits_of_pose):
            return Workspace(by=by, centre=middle, half=0.95 * fraction * half)
        fraction *= 0.85
    raise ValueError(f"no workspace of '{mechanism.name}'")


def _box_is_possible(
    model: Model, by: By, centre: Array, half: Array, directions: Array, limits: list[object]
) -> bool:
    points = centre + half * directions
    zero = np.zeros_like(points)
    try:
        motion = model.kinematics.motion(np.arange(len(points)) * 1.0, points, zero, zero, by)
    except GoughError:
        return False
    relative = np.abs(measure(model, limits, motion))  # type: ignore[arg-type]
    return bool(np.isfinite(relative).all() and (relative <= 1).all())


def multisine(rng: np.random.Generator, space: Workspace, frequencies: Array) -> Path:
    """Return a random sum of sines that fills the box."""
    count = len(space.half)
    cosine = rng.standard_normal((len(frequencies), count))
    sine = rng.standard_normal((len(frequencies), count))
    rates = 2 * np.pi * frequencies
    # Displacements fall with frequency, velocities do not.
    cosine /= frequencies[:, None] / frequencies[0]
    sine /= frequencies[:, None] / frequencies[0]
    grid = np.linspace(0, 1 / frequencies[0], 400)
    angle = grid[:, None] * rates
    shape = np.cos(angle) @ cosine + np.sin(angle) @ sine
    low = shape.min(axis=0)
    high = shape.max(axis=0)
    scale = 1.8 * space.half / (high - low)
    offset = space.centre - scale * (low + high) / 2

    def path(time: Array) -> tuple[Array, Array, Array]:
        angle = time[:, None] * rates
        c = np.cos(angle)
        s = np.sin(angle)
        position = offset + scale * (c @ cosine + s @ sine)
        velocity = scale * ((c * rates) @ sine - (s * rates) @ cosine)
        acceleration = -scale * ((c * rates**2) @ cosine + (s * rates**2) @ sine)
        return position, velocity, acceleration

    return path


def pick_and_place(
    rng: np.random.Generator, space: Workspace, duration: float, pace: float
) -> Path:
    """Return moves from rest to rest between random points, with rests.

    Args:
        pace: Mean time of a move. [s]
    """
    moves = int(2 * duration / pace) + 3
    points = space.centre + space.half * rng.uniform(-1, 1, (moves + 1, len(space.half)))
    lengths = pace * rng.uniform(0.7, 1.3, moves)
    rests = pace * rng.uniform(0.05, 0.7, moves)
    starts = np.concatenate([[0.0], np.cumsum(lengths + rests)[:-1]]) + 0.3 * pace

    def path(time: Array) -> tuple[Array, Array, Array]:
        move = np.clip(np.searchsorted(starts, time, side="right") - 1, 0, moves - 1)
        length = lengths[move]
        u = np.clip((time - starts[move]) / length, 0.0, 1.0)[:, None]
        length = length[:, None]
        step = points[move + 1] - points[move]
        position = points[move] + step * (10 * u**3 - 15 * u**4 + 6 * u**5)
        velocity = step * (30 * u**2 - 60 * u**3 + 30 * u**4) / length
        acceleration = step * (60 * u - 180 * u**2 + 120 * u**3) / length**2
        return position, velocity, acceleration

    return path


def slowed(path: Path, factor: float) -> Path:
    """Return a path at a slower pace."""

    def slow(time: Array) -> tuple[Array, Array, Array]:
        position, velocity, acceleration = path(time / factor)
        return position, velocity / factor, acceleration / factor**2

    return slow


def move(model: Model, space: Workspace, path: Path, time: Array) -> Motion:
    """Return the motion of all coordinates along a path."""
    return model.kinematics.motion(time, *path(time), space.by)


def slowing_needed(model: Model, space: Workspace, path: Path, duration: float) -> float:
    """Return how often longer a path must take to just keep speed and acceleration limits."""
    limits = []
    for limit in collect_limits(model):
        if limit.quantity in ("velocity", "acceleration"):
            limits.append(limit)
    motion = move(model, space, path, np.linspace(0.0, duration, 400))
    largest = np.abs(measure(model, limits, motion)).max(axis=0) / LIMIT_FRACTION
    factor = 0.0
    for limit, ratio in zip(limits, largest):
        power = 1.0 if limit.quantity == "velocity" else 0.5
        factor = max(factor, float(ratio) ** power)
    return factor


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A motion and how long and how often it is sampled."""

    kind: str  # "periods", "multisine" or "pick and place"
    path: Path
    time: Array  # (t,) [s]
    period_samples: int | None


def draw_plan(
    model: Model,
    space: Workspace,
    rng: np.random.Generator,
    kind: str,
    duration: float,
    rate: float,
) -> Plan:
    """Draw a motion of a kind and about a duration; a period that is longer is kept whole.

    The pace is between the limits of the robot and a third of them.

    Args:
        rate: Of sampling. [Hz]
    """
    slack = float(rng.uniform(1.0, SLOWEST_PACE))
    if kind == "pick and place":
        rough = pick_and_place(rng, space, PACE_MOVES * 1.5, 1.0)
        slow = slack * slowing_needed(model, space, rough, PACE_MOVES * 1.5)
        path = slowed(pick_and_place(rng, space, duration / slow, 1.0), slow)
        time = np.arange(int(duration * rate)) / rate
        return Plan(kind=kind, path=path, time=time, period_samples=None)
    harmonics = int(rng.integers(3, 6))
    frequencies = np.arange(1.0, harmonics + 1)
    if kind == "multisine":
        frequencies = frequencies * (1 + 0.08 * rng.uniform(0, 1, harmonics))
    path = multisine(rng, space, frequencies)
    period = slack * slowing_needed(model, space, path, 1.0)
    if kind == "multisine":
        time = np.arange(int(duration * rate)) / rate
        return Plan(kind=kind, path=slowed(path, period), time=time, period_samples=None)
    periods = max(2, round(duration / period))
    samples = max(round(period * rate), 50)
    time = np.arange(periods * samples) / rate
    return Plan(kind=kind, path=slowed(path, samples / rate), time=time, period_samples=samples)


def draw_rate(rng: np.random.Generator, duration: float) -> float:
    """Draw a sampling rate at which a log is not too long. [Hz]"""
    possible = [rate for rate in RATES if rate * duration <= MOST_SAMPLES]
    return float(rng.choice(possible[:3] or RATES[-1:]))


# -- sensors


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """Noise of the logs, in parts of the range of a position and of the rms of an effort."""

    kind: str  # "white", "coloured" or "quantised"
    position: float
    effort: float


def draw_sensors(rng: np.random.Generator, kind: str) -> Sensors:
    """Draw the noise of the logs of a robot."""
    position = float(10 ** rng.uniform(-5.5, -4.3))
    effort = float(10 ** rng.uniform(-2.5, -1.5))
    return Sensors(kind=kind, position=position, effort=effort)


def measured(
    clean: Recording, sensors: Sensors, rng: np.random.Generator, scale: Array
) -> Recording:
    """Return a recording with noise.

    Args:
        scale: Range of each position, then rms of each effort, (2, a).
    """
    effort = np.asarray(clean.effort)
    position_noise = sensors.position * scale[0]
    effort_noise = sensors.effort * scale[1]
    position = clean.position + position_noise * rng.standard_normal(effort.shape)
    white = rng.standard_normal(effort.shape)
    if sensors.kind == "quantised":
        # The robot does not repeat a motion to an encoder step: periods are rounded differently.
        step = np.sqrt(12) * position_noise
        position = np.round(position / step) * step
        step = np.sqrt(12) * effort_noise
        effort = np.round((effort + 0.3 * effort_noise * white) / step) * step
    elif sensors.kind == "coloured":
        effort = effort + effort_noise * autoregressive(white, 0.9)
    else:
        effort = effort + effort_noise * white
    return replace(clean, position=position, effort=effort)


def autoregressive(white: Array, correlation: float) -> Array:
    """Return noise of unit variance that is correlated from sample to sample."""
    from scipy.signal import lfilter

    start = white[:1] * correlation
    fresh = np.sqrt(1 - correlation**2) * white
    return np.asarray(lfilter([1.0], [1.0, -correlation], fresh, axis=0, zi=start)[0])


def clean_recording(plant: Plant, motion: Motion, plan: Plan, source: str) -> Recording:
    """Return what ideal sensors record."""
    mechanism = plant.model.mechanism
    units = tuple(mechanism.joint(name).unit for name in mechanism.actuated)
    return Recording(
        joints=mechanism.actuated,
        time=plan.time,
        position=motion.q[:, list(plant.model.actuated)],
        position_units=units,
        effort=plant.efforts(motion),
        period_samples=plan.period_samples,
        source=source,
    )
