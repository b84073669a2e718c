"""Simulated robots and their drives: one step is one period of the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shapes
from gough.core.errors import InvalidInput
from gough.core.record import Record
from gough.engine.model import Model
from gough.engine.stepping import runge_kutta_kernel

# Friction rate times integrator step; the classical Runge-Kutta method
# is stable below 2.78.
FRICTION_STEP_LIMIT = 1.2
MAX_INTEGRATOR_STEP = 1e-3  # resolves motion and closures [s]
# dead band in which Coulomb friction does not change [m/s or rad/s]
ENDLESS_BAND = 1e12
MIN_INTEGRATOR_STEP = 2e-5  # a smaller one is refused as too expensive [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantSettings(Record):
    """What a plant is built from; k variants of a robot advance together."""

    model: Model  # the robot
    values: FloatArray  # standard parameters of each variant, (k, p)
    load: FloatArray  # payload of each variant, (k, 10 l), see `Model.load`
    # Half-width of the band in which Coulomb friction grows linearly,
    # (n,). [m/s or rad/s]
    dead_band: FloatArray
    period: float  # of the controller [s]
    substeps: int  # integrator steps in a period

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("values", "load", "dead_band"):
            check_finite(getattr(self, name), name)
        mechanism = self.model.mechanism
        check_shapes(
            self,
            values=(None, len(mechanism.standard)),
            load=(len(self.values), len(self.model.load_columns)),
            dead_band=(len(mechanism.joints),),
        )

    @property
    def n_variants(self) -> int:
        """Number of variants, k."""
        return len(self.values)

    @property
    def constants(self) -> FloatArray:
        """[step, dead band, values, load] of each variant, (k, c), or (c,) if all are equal."""
        shared = np.concatenate([[self.period / self.substeps], self.dead_band])
        repeated = np.tile(shared, (self.n_variants, 1))
        rows = np.column_stack([repeated, self.values, self.load])
        all_equal = (rows == rows[0]).all()
        return np.asarray(rows[0] if all_equal else rows)


class Sample(NamedTuple):
    """The robot at a controller sample, under the efforts that follow it."""

    q: FloatArray  # all coordinates with the loops closed, (k, n)
    velocity: FloatArray  # of the independent coordinates, (k, m)
    acceleration: FloatArray  # of the independent coordinates, (k, m)
    # Error of the closures over the period that follows, (k,): rounding
    # unless near a singularity.
    check: FloatArray


class Plant(Protocol):
    """A robot to simulate. Only the plant itself reads its state."""

    def start(self, q: FloatArray, qd: FloatArray) -> Any:
        """Return the state at a configuration (k, n) with closed loops and a velocity (k, n)."""

    def read(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, each (k, a)."""

    def step(self, state: Any, effort: FloatArray) -> tuple[Sample, Any]:
        """Return the sample at the start of a controller period and the state at its end.

        Args:
            effort: Motor efforts at 2 substeps + 1 evenly spaced times
                of the period, both ends included, (g, k, a).
        """


class Actuator(Protocol):
    """Settings of a drive."""

    def start(self, effort: FloatArray) -> FloatArray:
        """Return the state in which the drive holds an effort (k, a)."""

    def drive(
        self,
        state: FloatArray,
        command: FloatArray,
        period: float,
        moments: int,
    ) -> tuple[FloatArray, FloatArray]:
        """Return efforts at evenly spaced times of a period, (g, k, a), and the next state."""


@dataclass(frozen=True, kw_only=True)
class IdealDrive:
    """A current loop much faster than the controller: it holds the command for the period."""

    def start(self, effort: FloatArray) -> FloatArray:
        """Return the state, which is empty."""
        return np.empty(0)

    def drive(
        self,
        state: FloatArray,
        command: FloatArray,
        period: float,
        moments: int,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the command at all times of the period, (g, k, a)."""
        return np.broadcast_to(command, (moments, *command.shape)), state


PlantFactory = Callable[[PlantSettings], Plant]


class GoughPlant:
    """Our own closed-chain equations, integrated by the classical Runge-Kutta method.

    The integrated coordinates are the independent ones. Loops are
    closed by a Newton step at every evaluation, so they do not drift.
    Coulomb friction is fs sign(qd) with the sign linear inside the dead
    band: a robot "at rest" creeps at most at the band, and samples of
    the motion obey the inverse dynamics with that dead band exactly.
    Over a step signs are held at means that depend on its end
    (`engine.coulomb`): the step need not resolve the band.

    The state is [q, v, w], (k, n + m + x), with the internal states w
    of joint terms.
    """

    implicit_friction = True  # the step need not resolve the dead band

    def __init__(self, settings: PlantSettings) -> None:
        self._model = settings.model
        self._substeps = settings.substeps
        self._constants = settings.constants
        self._kernel = runge_kutta_kernel(settings.model)
        self._n = len(settings.model.home)
        self._m = settings.model.degrees_of_freedom

    def start(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        """Return the state at a configuration and a velocity; internal states are zero."""
        internal = np.zeros((len(q), len(self._model.mechanism.internal_states)))
        return np.column_stack([q, qd[:, list(self._model.independent)], internal])

    def read(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity of the motors, each (k, a)."""
        model = self._model
        motors = list(model.actuated)
        position = state[:, motors]
        velocity = state[:, self._n : self._n + self._m]
        if not model.loops.redundant:
            return position, velocity[:, [model.independent.index(i) for i in motors]]
        E = model.kinematics.closure_map(np.ascontiguousarray(state[:, : self._n]))
        return position, np.einsum("kam,km->ka", E[:, motors], velocity)

    def step(self, state: FloatArray, effort: FloatArray) -> tuple[Sample, FloatArray]:
        """Integrate over one controller period."""
        n = self._n
        m = self._m
        velocity = state[:, n : n + m]
        outputs = []
        for i in range(self._substeps):
            tau = np.ascontiguousarray(effort[2 * i : 2 * i + 3].transpose(1, 2, 0))  # (k, a, 3)
            output = self._kernel(state, tau, self._constants)[0]
            outputs.append(output)
            state = output[:, n + m : -1]
        first = outputs[0]
        check = np.max([output[:, -1] for output in outputs], axis=0)
        return Sample(first[:, :n], velocity, first[:, n : n + m], check), state


def friction_rate(
    model: Model,
    values: FloatArray,
    load: FloatArray,
    dead_band: FloatArray,
    q: FloatArray,
    coulomb: bool = True,
) -> float:
    """Return the fastest rate of friction inside its dead band. [1/s]

    It is max eig(M^-1 D), D = E^T diag(fs / band + fv) E, over all
    variants and configurations.

    Args:
        values: Standard parameters of each variant, (k, p).
        load: Payload of each variant, (k, 10 l).
        dead_band: (n,). [m/s or rad/s]
        q: Configurations, (s, n).
        coulomb: Take Coulomb friction into account, fs / band.
    """
    velocity_step = 1e-3 * float(dead_band.min())
    if not coulomb:
        dead_band = np.full_like(dead_band, ENDLESS_BAND)
    m = model.degrees_of_freedom
    poses = np.tile(q, (m, 1))
    velocities = np.repeat(velocity_step * np.eye(m), len(q), axis=0)
    fastest = 0.0
    variants = {(tuple(v), tuple(w)): (v, w) for v, w in zip(values, load)}
    for parameters, payload in variants.values():
        mass = model.mass_matrix(q, parameters, load=payload)
        if np.linalg.matrix_rank(mass[0]) < m:
            raise InvalidInput(
                f"'{model.mechanism.name}' moves no mass in some direction, so that no "
                "acceleration answers a force there; give bodies masses, or motors a rotor inertia "
                "(ia)"
            )
        ahead = model.bias(poses, velocities, parameters, load=payload, dead_band=dead_band)
        back = model.bias(poses, -velocities, parameters, load=payload, dead_band=dead_band)
        slope = (ahead - back) / (2 * velocity_step)
        damping = np.moveaxis(slope.reshape(m, len(q), m), 0, -1)
        rates = np.linalg.eigvals(np.linalg.solve(mass, damping))
        fastest = max(fastest, float(np.abs(rates).max()))
    return fastest


def count_substeps(rate: float, period: float, fewest: int = 2) -> int:
    """Return how many integrator steps a controller period needs.

    Args:
        rate: Of the friction that the integrator treats explicitly.
            [1/s]
        period: Of the controller. [s]
        fewest: Least number of steps.
    """
    for_motion = int(np.ceil(period / MAX_INTEGRATOR_STEP - 1e-9))
    for_friction = int(np.ceil(rate * period / FRICTION_STEP_LIMIT))
    count = max(fewest, for_motion, for_friction)
    if count > max(2.0, period / MIN_INTEGRATOR_STEP):
        raise InvalidInput(
            f"the dead band of friction is too narrow: its rate of {rate:.3g} 1/s needs {count} "
            f"integrator steps in a controller period of {period:g} s; widen dead_band",
            rate=rate,
        )
    return count
