"""Controllers of actuated joints: PID, with velocity or model feed-forward, and computed torque.

Settings are frozen; `start` returns the running loop with its
integrators. All act on k variants of the robot at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape, check_shapes
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.record import Record
from gough.engine.model import Model
from gough.engine.stepping import (
    closing_kernel,
    computed_torque_kernel,
    pid_kernel,
)
from gough.kernels.kernel import Kernel

# (q, qd, qdd) of all coordinates, each (t, n) -> motor efforts (t, a).
InverseModel = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
MAX_BANDWIDTH = 100.0  # of a controller by default, that of BG13 [rad/s]
# bandwidth by default over the controller's rate [rad/s per Hz]
BANDWIDTH_PER_RATE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotModel(Record):
    """The inverse dynamics inside a controller, physically consistent or not."""

    model: Model  # the robot that the controller assumes
    # standard parameters, (p,); a priori by default
    values: FloatArray | None = None
    # compensated payload, (10 l,); none by default
    load: FloatArray | None = None
    # Band in which Coulomb compensation is linear; that of the
    # simulated friction by default.
    dead_band: float | FloatArray | None = None

    def __post_init__(self) -> None:
        standard = self.model.mechanism.standard.values
        object.__setattr__(self, "values", standard if self.values is None else self.values)
        object.__setattr__(self, "load", self.model.load() if self.load is None else self.load)
        super().__post_init__()
        check_shapes(self, values=standard.shape, load=(len(self.model.load_columns),))

    def __call__(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """Return motor efforts, (t, a). [N or N m]"""
        rows = list(self.model.independent)
        kernel = self.model.effort_kernel()
        efforts = kernel(q, qd[:, rows], qdd[:, rows], *self.kernel_constants)[0]
        return self.model.min_norm_motor_effort(q, efforts)

    @cached_property
    def kernel_constants(self) -> tuple[Any, ...]:
        """Dead band, parameters and payload as the kernels of the model want them."""
        return self.model._band(self.dead_band), self.values, self.load


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlSetup:
    """What a controller is started with."""

    model: Model  # for kinematics and the nominal mass matrix
    reference: Motion  # to follow, lead-in included
    period: float  # of the controller [s]
    # Efforts that hold the robot at the start, (k, a): the integrators
    # start there.
    holding: FloatArray
    # that of the simulated friction, (n,) [m/s or rad/s]
    dead_band: FloatArray
    load: FloatArray  # nominal payload of the first variant, (10 l,)

    @property
    def lanes(self) -> int | None:
        """Lanes of the kernels: vectors pay from two variants on."""
        return 1 if len(self.holding) == 1 else None


# A running controller: (sample, position, velocity, free) -> efforts
# (k, a). Position, velocity and free are (k, a). Integrators of motors
# that are not free (saturated) do not change.
Loop = Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray]


class CompiledLaw(NamedTuple):
    """A control law as a kernel of `engine.stepping`, with its inputs."""

    # (plant state, controller state, reference, constants) -> both
    # states
    kernel: Kernel
    # of the controller at the start, without the free motors, (k, s)
    state: FloatArray
    reference: FloatArray  # of every sample, (t, r)
    # without effort ratios and limits of the drives, (c,)
    constants: FloatArray


@runtime_checkable
class Controller(Protocol):
    """Settings of a controller."""

    @property
    def name(self) -> str:
        """The name in results."""

    def start(self, setup: ControlSetup) -> Loop:
        """Return the running loop."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PID:
    """Decentralised PID on the actuated joints, optionally with feed-forward.

        tau = F + Kp e + Ki int e + Kd (w qd_ref - qd),   e = q_ref - q

    with w = 0 for the simple PID and w = 1 for BG13's "advanced PID
    with velocity feedforward"; F is zero, or the inverse dynamics along
    the reference (AH09, Fig. 6), averaged over the period for which
    they are held. From a bandwidth: Kp = 3 M w^2, Kd = 3 M w, Ki = M
    w^3 with the diagonal of the a-priori mass matrix in the reference
    configuration, which puts all three poles of each axis at -w.

    Args:
        bandwidth: w. [rad/s] By default a tenth of the controller's
            rate, at most 100 rad/s (BG13).
        velocity_feedforward: Let the derivative act on the error.
        feedforward: Model of F, or None.
        kp: Explicit gain instead, a scalar or (a,). [N/m or N m/rad]
        ki: Explicit gain instead, a scalar or (a,). [N/(m s) or N
            m/(rad s)]
        kd: Explicit gain instead, a scalar or (a,). [N s/m or N m
            s/rad]
    """

    bandwidth: float | None = None
    velocity_feedforward: bool = False
    feedforward: InverseModel | None = None
    kp: ArrayLike | None = None
    ki: ArrayLike | None = None
    kd: ArrayLike | None = None

    def __post_init__(self) -> None:
        given = [gain is not None for gain in (self.kp, self.ki, self.kd)]
        if any(given) and not all(given):
            raise InvalidInput("give all three gains kp, ki and kd, or a bandwidth")
        _check_bandwidth(self.bandwidth)

    @property
    def name(self) -> str:
        """The name in results."""
        if self.feedforward is not None:
            return "feedforward"
        return "pid+" if self.velocity_feedforward else "pid"

    def gains(self, model: Model, rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return kp, ki, kd, each (a,).

        Args:
            rate: Of the controller. [Hz]
        """
        if self.kp is not None and self.ki is not None and self.kd is not None:
            motors = len(model.actuated)
            kp = for_motors(self.kp, motors, "gains kp, ki and kd")
            ki = for_motors(self.ki, motors, "gains kp, ki and kd")
            kd = for_motors(self.kd, motors, "gains kp, ki and kd")
            return kp, ki, kd
        mass = nominal_mass(model)
        w = _bandwidth(self.bandwidth, rate)
        return 3 * mass * w**2, mass * w**3, 3 * mass * w

    def start(self, setup: ControlSetup) -> Loop:
        """Return the running loop."""
        law = self._discretise(setup)
        integral = law.integral

        def command(
            k: int, position: FloatArray, velocity: FloatArray, free: FloatArray
        ) -> FloatArray:
            nonlocal integral
            error = law.position[k] - position
            error_rate = law.velocity[k] - velocity
            integral = integral + law.ki * error * free
            effort = law.feedforward[k] + law.kp * error + integral + law.kd * error_rate
            return np.asarray(effort)

        return command

    def compiled(self, setup: ControlSetup) -> CompiledLaw | None:
        """Return the law as a kernel."""
        law = self._discretise(setup)
        return CompiledLaw(
            kernel=pid_kernel(setup.model, lanes=setup.lanes),
            state=law.integral,
            reference=np.hstack([law.position, law.velocity, law.feedforward]),
            constants=np.concatenate([law.kp, law.ki, law.kd]),
        )

    def _discretise(self, setup: ControlSetup) -> _DiscretePID:
        """Return the law at the samples of the controller."""
        motors = list(setup.model.actuated)
        motion = setup.reference
        kp, ki, kd = self.gains(setup.model, 1 / setup.period)
        position = np.ascontiguousarray(motion.q[:, motors])
        velocity = np.zeros_like(position)
        if self.velocity_feedforward or self.feedforward:
            velocity = motion.qd[:, motors]
        feedforward = np.zeros_like(position)
        if self.feedforward is not None:
            inverse = _with_band(self.feedforward, setup.dead_band)
            efforts = inverse(motion.q, motion.qd, motion.qdd)
            check_shape(efforts, position.shape, "feed-forward efforts")
            feedforward = _held_mean(efforts)
        return _DiscretePID(
            kp=kp,
            ki=ki * setup.period,
            kd=kd,
            position=position,
            velocity=velocity,
            feedforward=feedforward,
            integral=setup.holding - feedforward[0],
        )


class _DiscretePID(NamedTuple):
    """Gains and reference of a PID at the samples of the controller."""

    kp: FloatArray  # (a,)
    ki: FloatArray  # times the period, (a,)
    kd: FloatArray  # (a,)
    position: FloatArray  # of the reference, (t, a)
    # of the reference, zero without velocity feed-forward, (t, a)
    velocity: FloatArray
    feedforward: FloatArray  # efforts, (t, a)
    integral: FloatArray  # at the start, (k, a)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputedTorque:
    """Computed torque control: with the model all axes are linear and have the same poles.

        tau = ID(q, qd_ref, qdd_ref + 3 w ed + 3 w^2 e + w^3 int e)

    with the configuration found from the measured motors on every
    sample. Velocity terms are those of the reference: the sign of a
    measured velocity near zero would chatter. qd_ref and qdd_ref are
    means over the period for which the effort will be held; the effort
    that the model lacks at the start (wrong gravity) is held
    throughout. Same poles as the PID of that bandwidth (BG13 keeps 100
    rad/s for the linear part of all its laws).

    Args:
        inverse: The model; the robot's a-priori parameters with the
            nominal payload by default.
        bandwidth: w. [rad/s] As for the PID.
    """

    name: ClassVar[str] = "ctc"
    inverse: InverseModel | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)

    def start(self, setup: ControlSetup) -> Loop:
        """Return the running loop."""
        model = setup.model
        reference = setup.reference
        period = setup.period
        inverse = self._inverse(setup)
        missing = self._missing_effort(inverse, setup)
        w = _bandwidth(self.bandwidth, 1 / period)
        closing = closing_kernel(model)
        mean_velocity = _held_mean(reference.qd)
        mean_acceleration = _held_mean(reference.qdd)
        motors = list(model.actuated)
        independent = list(model.loops.partitions["actuated"].independent)
        columns = [motors.index(i) for i in independent]
        q = np.repeat(reference.q[:1], len(missing), axis=0)
        qd = np.repeat(reference.qd[:1], len(missing), axis=0)
        integral = np.zeros((len(q), len(independent)))

        def command(
            k: int, position: FloatArray, velocity: FloatArray, free: FloatArray
        ) -> FloatArray:
            nonlocal q, qd, integral
            error = reference.q[k, independent] - position[:, columns]
            error_rate = reference.qd[k, independent] - velocity[:, columns]
            integral = integral + period * error * free[:, columns]
            acceleration = mean_acceleration[k, independent] + 3 * w * error_rate
            acceleration = acceleration + 3 * w**2 * error + w**3 * integral
            guess = q + period * qd
            guess[:, motors] = position
            q, qd, qdd, _ = closing(guess, mean_velocity[k, independent], acceleration)
            return inverse(q, qd, qdd) + missing

        return command

    def compiled(self, setup: ControlSetup) -> CompiledLaw | None:
        """Return the law as a kernel; None if the model is any other function."""
        model = setup.model
        motion = setup.reference
        inverse = self._inverse(setup)
        if not isinstance(inverse, RobotModel) or inverse.model is not model:
            return None
        missing = self._missing_effort(inverse, setup)
        w = _bandwidth(self.bandwidth, 1 / setup.period)
        motors = list(model.actuated)
        first = np.concatenate([motion.q[0], motion.qd[0], np.zeros(len(motors))])
        signals = (
            motion.q,
            motion.qd,
            _held_mean(motion.qd),
            _held_mean(motion.qdd),
        )
        return CompiledLaw(
            kernel=computed_torque_kernel(model, lanes=setup.lanes),
            state=np.column_stack([np.tile(first, (len(missing), 1)), missing]),
            reference=np.hstack([signal[:, motors] for signal in signals]),
            constants=np.concatenate([[setup.period, w], *inverse.kernel_constants]),
        )

    def _inverse(self, setup: ControlSetup) -> InverseModel:
        """Return the model of the law, the robot's own by default."""
        default = RobotModel(model=setup.model, load=setup.load)
        return _with_band(self.inverse or default, setup.dead_band)

    @staticmethod
    def _missing_effort(inverse: InverseModel, setup: ControlSetup) -> FloatArray:
        """Return the effort that the model lacks at the start (wrong gravity), (k, a)."""
        q = np.repeat(setup.reference.q[:1], len(setup.holding), axis=0)
        at_rest = np.zeros_like(q)
        return setup.holding - inverse(q, at_rest, at_rest)


def _with_band(inverse: InverseModel, dead_band: FloatArray) -> InverseModel:
    """Return a model with this dead band if it has none."""
    if isinstance(inverse, RobotModel) and inverse.dead_band is None:
        return replace(inverse, dead_band=dead_band)
    return inverse


def _held_mean(values: FloatArray) -> FloatArray:
    """Return the mean of each sample and the next, so that held feed-forward has no delay."""
    return np.concatenate([(values[1:] + values[:-1]) / 2, values[-1:]])


def nominal_mass(model: Model) -> FloatArray:
    """Return the mass that each motor accelerates in the reference configuration, (a,).

    The diagonal of the mass matrix. [kg or kg m2]

    Redundant robots: 1 / (E_act M^-1 E_act^T)_jj, the mass a single
    motor accelerates.
    """
    mass = model.mass_matrix(model.home[None])[0]
    motors = list(model.actuated)
    if not model.loops.redundant:
        order = [model.independent.index(i) for i in motors]
        return np.asarray(np.diag(mass)[order])
    E_act = model.kinematics.closure_map(model.home[None])[0][motors]
    return np.asarray(1 / np.diag(E_act @ np.linalg.solve(mass, E_act.T)))


def for_motors(values: ArrayLike, motors: int, name: str) -> FloatArray:
    """Return one number for each motor, (a,)."""
    array = np.asarray(values, dtype=float)
    if array.shape not in ((), (1,), (motors,)) or not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} are {array.tolist()}, expected one finite number or one for each of {motors} "
            "motors"
        )
    return np.array(np.broadcast_to(array, (motors,)))


def _check_bandwidth(bandwidth: float | None) -> None:
    """Raise if a bandwidth is given that is not positive."""
    if bandwidth is not None and not (np.isfinite(bandwidth) and bandwidth > 0):
        raise InvalidInput(
            f"the bandwidth is {bandwidth} rad/s, expected a positive number",
            bandwidth=bandwidth,
        )


def _bandwidth(given: float | None, rate: float) -> float:
    """Return the bandwidth; by default from the controller's rate [Hz]. [rad/s]"""
    if given is not None:
        return given
    return min(MAX_BANDWIDTH, BANDWIDTH_PER_RATE * rate)
