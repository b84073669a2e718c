"""Logs of virtual fleets in ordinary motion: pick and place, temperature, wear and a few faults.

Efforts are regressor times parameters along the motion, with the noise
of the sensors: no controller, no time steps, so months of logs take
seconds. At rest the Coulomb friction of a motor is any value that it
can have, another one at each rest. The equations of motion are those of
the estimator; what is tested is everything after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.motion import Motion
from gough.core.names import LOAD_PARAMETERS, Parameter
from gough.core.trajectory import Sampled
from gough.engine import Model
from gough.logs.recording import NO_CHANNELS, Channels, Recording
from gough.mechanism import TERMS
from gough.virtual.simulation import draw_correlated, measure_positions

FLEET_MOTIONS = 6  # different motions of a fleet; logs take turns
# of the way from home to the limits of the task coordinates
REACH_FRACTION = 0.6
MOVE_TIME = 0.5  # from one place to the next [s]
REST_TIME = 0.2  # at each place, while something is picked or placed [s]
CYCLE_TIME = MOVE_TIME + REST_TIME  # a rest and the move that follows [s]
INERTIA_SCATTER = 0.01  # standard deviation between robots, relative
FRICTION_SCATTER = 0.1  # standard deviation between robots, relative
# relative change of viscous friction with temperature [1/K]
VISCOUS_PER_KELVIN = -0.01
# relative change of Coulomb friction with temperature [1/K]
COULOMB_PER_KELVIN = -0.003
MEAN_TEMPERATURE = 20.0  # [degC]
TEMPERATURE_PERIOD = 7.0  # [d]
TEMPERATURE_AMPLITUDE = 5.0  # [K]


@dataclass(frozen=True, kw_only=True)
class FleetFaults:
    """Faults of a virtual fleet, by number of the robot."""

    # Joint and relative change of its Coulomb friction over the whole
    # time.
    drift: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Motor and factor of its recorded effort.
    gain: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Motor and offset of its recorded position. [m or rad]
    encoder: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Days on which it carries the first payload, which no log declares.
    payload: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class _FleetMotion(NamedTuple):
    """A motion of t samples and what its efforts are computed from."""

    time: FloatArray  # (t,) [s]
    position: FloatArray  # of the motors, (t, a) [m or rad]
    regressor: FloatArray  # of the standard parameters, (t, r, p)
    load_regressor: FloatArray  # of a payload, (t, r, 10)
    rest: BoolArray  # whether the robot is at rest, (t,)
    cycle: FloatArray  # number of the cycle of a rest and a move, (t,)


@dataclass(frozen=True, kw_only=True, eq=False)
class VirtualFleet:
    """Robots of one kind that pick and place, a log a day."""

    model: Model  # the robot without scatter
    days: int = 30  # drifts are over this time
    # that the virtual fleet has
    faults: FleetFaults = field(default_factory=FleetFaults)
    seconds: float = 5.0  # length of a log [s]
    rate: float = 400.0  # sampling rate [Hz]
    seed: int = 0  # of the random generator
    # standard deviation of the kind's parameters about those of the
    # robot file, relative
    kind_scatter: float = 0.0
    # mass of a product that is carried at the flange while the channel
    # `gripper` is 1, on every other move and the rest before it [kg];
    # None without one
    product: float | None = None

    @cached_property
    def _motions(self) -> list[_FleetMotion]:
        names = self.model.mechanism.standard.names
        motions = []
        for k in range(FLEET_MOTIONS):
            motion = self._motion(np.random.default_rng([self.seed, k]))
            motions.append(
                _FleetMotion(
                    time=motion.time,
                    position=motion.q[:, list(self.model.actuated)],
                    regressor=self.model.regressor(motion, names),
                    load_regressor=self.model.regressor(motion, LOAD_PARAMETERS),
                    rest=(motion.qd == 0).all(axis=1),
                    cycle=np.floor(motion.time / CYCLE_TIME),
                )
            )
        return motions

    @cached_property
    def _kind(self) -> FloatArray:
        """Standard parameters of the kind, (p,); friction and masses stay positive."""
        names = self.model.mechanism.standard.names
        deviation = np.random.default_rng([self.seed, 4]).standard_normal(len(names))
        return self.model.values(names) * np.exp(self.kind_scatter * deviation)

    def _motion(self, rng: np.random.Generator) -> Motion:
        """Return a motion through random places, with a rest at each."""
        mechanism = self.model.mechanism
        names = mechanism.task
        home = np.array([self.model.home[mechanism.coordinates.index(name)] for name in names])
        limits = []
        for name, center in zip(names, home):
            limits.append(mechanism.joint(name).limits.position or (center - 0.1, center + 0.1))
        low, high = np.array(limits).T
        n_cycles = int(self.seconds / CYCLE_TIME) + 1
        offset = rng.uniform(low - home, high - home, (n_cycles + 1, len(home)))
        places = np.repeat(home + REACH_FRACTION * offset, 2, axis=0)[:-1]
        starts = CYCLE_TIME * np.arange(n_cycles + 1)
        times = np.column_stack([starts, starts + REST_TIME]).ravel()[:-1]
        path = Sampled(
            coordinates=names,
            units=tuple(mechanism.joint(name).unit for name in names),
            time=times,
            position=places,
            velocity=np.zeros_like(places),
            acceleration=np.zeros_like(places),
        )
        time = np.arange(round(self.seconds * self.rate)) / self.rate
        return self.model.kinematics.motion(time, *path.at(time), "task")

    def _extra(self, gripper: FloatArray) -> Channels:
        """Return the channel of the gripper, if there is a product, (t, 1)."""
        if self.product is None:
            return NO_CHANNELS
        return Channels(names=("gripper",), units=("1",), values=gripper[:, None])

    def temperature(self, robot: int, day: int) -> float:
        """Return the temperature of a robot on a day. [degC]"""
        noise = np.random.default_rng([self.seed, 1, robot, day]).standard_normal()
        phase = 2 * np.pi * day / TEMPERATURE_PERIOD + robot
        return float(MEAN_TEMPERATURE + TEMPERATURE_AMPLITUDE * np.sin(phase) + noise)

    def truth(self, robot: int, day: int) -> FloatArray:
        """Return the standard parameters of a robot on a day, (p,)."""
        rng = np.random.default_rng([self.seed, 2, robot])
        names = self.model.mechanism.standard.names
        scatter = INERTIA_SCATTER * rng.standard_normal(len(names))
        values = self._kind * (1 + scatter)
        warming = self.temperature(robot, day) - MEAN_TEMPERATURE
        worn_joint, change = self.faults.drift.get(robot, ("none", 0.0))
        for k, name in enumerate(names):
            term = TERMS.get(name.kind)
            if term is None or not term.dissipative:
                continue
            per_kelvin = COULOMB_PER_KELVIN if term.coulomb else VISCOUS_PER_KELVIN
            values[k] *= 1 + FRICTION_SCATTER * rng.standard_normal()
            values[k] *= 1 + per_kelvin * warming
            if term.coulomb and name == Parameter.of(worn_joint, term.name):
                values[k] *= 1 + change * day / max(self.days - 1, 1)
        return values

    def _friction_at_rest(
        self, rng: np.random.Generator, motion: _FleetMotion, truth: FloatArray
    ) -> FloatArray:
        """Return the Coulomb friction of the motors at rest, constant during each, (t, a)."""
        names = self.model.mechanism.standard.names
        motors = self.model.mechanism.actuated
        coulomb = np.zeros(len(motors))
        for k, name in enumerate(names):
            term = TERMS.get(name.kind)
            if term is not None and term.coulomb and name.owner in motors:
                coulomb[motors.index(name.owner)] += truth[k]
        n_cycles = int(motion.cycle[-1]) + 1
        friction = coulomb * rng.uniform(-1, 1, (n_cycles, len(motors)))
        return np.where(motion.rest[:, None], friction[motion.cycle.astype(int)], 0.0)

    def record(self, robot: int, day: int) -> Recording:
        """Return the log of a robot on a day."""
        rng = np.random.default_rng([self.seed, 3, robot, day])
        mechanism = self.model.mechanism
        noise = mechanism.noise
        motors = mechanism.actuated
        motion = self._motions[(robot + day) % FLEET_MOTIONS]
        truth = self.truth(robot, day)
        effort = motion.regressor @ truth + self._friction_at_rest(rng, motion, truth)
        if day in self.faults.payload.get(robot, ()):
            payload = self.model.load(mechanism.payloads[0].name)
            effort = effort + motion.load_regressor @ payload
        gripper = motion.cycle % 2
        if self.product is not None:
            product = np.zeros(len(LOAD_PARAMETERS))
            product[0] = self.product
            effort = effort + gripper[:, None] * (motion.load_regressor @ product)
        covariance = noise.effort_covariance(effort.shape[1])
        effort = effort + draw_correlated(rng, covariance, len(effort))
        position = measure_positions(rng, motion.position, noise)
        if robot in self.faults.gain:
            motor, factor = self.faults.gain[robot]
            effort[:, motors.index(motor)] *= factor
        if robot in self.faults.encoder:
            motor, offset = self.faults.encoder[robot]
            position[:, motors.index(motor)] += offset
        return Recording(
            joints=motors,
            time=motion.time,
            effort=effort,
            position=position,
            source=f"robot {robot}, day {day}",
            extra=self._extra(gripper),
            position_units=tuple(mechanism.joint(name).unit for name in motors),
        )
