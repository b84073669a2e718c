"""Virtual fleets in ordinary motion: pick and place, weather, wear, and a few things that are
wrong.

Efforts are regressor times parameters along the motion, with the noise of the sensors: no
controller, no time steps, so months of logs take seconds. The equations are those of the estimator;
what is tested is everything after them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.motion import Motion
from gough.core.names import LOAD_PARAMETERS, Parameter
from gough.core.trajectory import Sampled
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism import TERMS
from gough.virtual.simulation import draw_correlated, measure_positions

MOTIONS = 6  # different motions of a fleet; logs take turns
REACH = 0.6  # of the way from home to the limits of the task coordinates
MOVE = 0.5  # from one place to the next [s]
UNLIKE_BODY, UNLIKE_FRICTION = 0.01, 0.1  # scatter between robots, relative
WARMTH = {
    False: -0.01,
    True: -0.003,
}  # relative change of friction with temperature, viscous and dry [1/K]
MILD, WEEK, WARM = (
    20.0,
    7.0,
    5.0,
)  # mean temperature, period and amplitude of its cycle [degC, d, K]


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """What is wrong with a virtual fleet, by number of the robot."""

    # Joint and relative change of its dry friction over the whole time.
    drift: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Motor and factor of its recorded effort.
    gain: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Motor and offset of its recorded position. [m or rad]
    encoder: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    # Days on which it carries the first payload, which no log mentions.
    load: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class VirtualFleet:
    """Robots of one kind that pick and place, a log a day."""

    model: Model
    days: int = 30  # drifts are over this time
    wrong: Wrong = field(default_factory=Wrong)
    seconds: float = 5.0  # of a log
    rate: float = 400.0  # [Hz]
    seed: int = 0

    def __post_init__(self) -> None:
        motions = [self._motion(np.random.default_rng([self.seed, k])) for k in range(MOTIONS)]
        names = self.model.mechanism.standard.names
        object.__setattr__(
            self,
            "_motions",
            [
                (
                    m.time,
                    m.q[:, list(self.model.actuated)],
                    self.model.regressor(m, names),
                    self.model.regressor(m, LOAD_PARAMETERS),
                )
                for m in motions
            ],
        )

    def _motion(self, rng: np.random.Generator) -> Motion:
        """Return a random sequence of places, each reached from rest to rest."""
        names = self.model.mechanism.task
        home = np.array(
            [self.model.home[self.model.mechanism.coordinates.index(name)] for name in names]
        )
        room = np.array(
            [
                self.model.mechanism.joint(name).limits.position or (h - 0.1, h + 0.1)
                for name, h in zip(names, home)
            ]
        )
        shape = (int(self.seconds / MOVE) + 1, len(home))
        stops = home + REACH * rng.uniform(room[:, 0] - home, room[:, 1] - home, shape)
        path = Sampled(
            coordinates=names,
            units=tuple(self.model.mechanism.joint(name).unit for name in names),
            time=MOVE * np.arange(len(stops), dtype=np.float64),
            position=stops,
            velocity=np.zeros_like(stops),
            acceleration=np.zeros_like(stops),
        )
        time = np.arange(round(self.seconds * self.rate)) / self.rate
        return self.model.kinematics.motion(time, *path.at(time), "task")

    def temperature(self, robot: int, day: int) -> float:
        noise = np.random.default_rng([self.seed, 1, robot, day]).standard_normal()
        return float(MILD + WARM * np.sin(2 * np.pi * day / WEEK + robot) + noise)

    def truth(self, robot: int, day: int) -> FloatArray:
        rng = np.random.default_rng([self.seed, 2, robot])
        names = self.model.mechanism.standard.names
        values = self.model.values(names) * (1 + UNLIKE_BODY * rng.standard_normal(len(names)))
        joint, change = self.wrong.drift.get(robot, ("", 0.0))
        for k, name in enumerate(names):
            term = TERMS.get(name.kind)
            if term is not None and term.dissipative:
                values[k] *= 1 + UNLIKE_FRICTION * rng.standard_normal()
                values[k] *= 1 + WARMTH[bool(term.coulomb)] * (self.temperature(robot, day) - MILD)
                if term.coulomb and name == Parameter.of(joint or "none", term.name):
                    values[k] *= 1 + change * day / max(self.days - 1, 1)
        return values

    def record(self, robot: int, day: int) -> Recording:
        rng = np.random.default_rng([self.seed, 3, robot, day])
        mechanism, noise = self.model.mechanism, self.model.mechanism.noise
        time, position, regressor, load = self._motions[(robot + day) % MOTIONS]  # type: ignore[attr-defined]
        effort = regressor @ self.truth(robot, day)
        if day in self.wrong.load.get(robot, ()):
            effort = effort + load @ self.model.load(mechanism.payloads[0].name)
        motor, factor = self.wrong.gain.get(robot, (mechanism.actuated[0], 1.0))
        effort = effort + draw_correlated(
            rng, noise.effort_covariance(effort.shape[1]), len(effort)
        )
        effort[:, mechanism.actuated.index(motor)] *= factor
        motor, offset = self.wrong.encoder.get(robot, (mechanism.actuated[0], 0.0))
        position = measure_positions(rng, position, noise)
        position[:, mechanism.actuated.index(motor)] += offset
        return Recording(
            joints=mechanism.actuated,
            time=time,
            effort=effort,
            position=position,
            source=f"robot {robot}, day {day}",
            position_units=tuple(mechanism.joint(name).unit for name in mechanism.actuated),
        )
