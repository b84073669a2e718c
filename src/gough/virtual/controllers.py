"""Controllers of actuated joints: PID, with velocity or model feed-forward, and computed torque.

Settings are frozen; `start` returns the running loop with its integrators. All act on k trials at
once.
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
from gough.engine.stepping import closing_kernel, computed_torque_kernel, pid_kernel
from gough.kernels.kernel import Kernel

InverseModel = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""(q, qd, qdd) of all coordinates, each (t, n) -> motor efforts (t, a)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotModel(Record):
    """The inverse dynamics inside a controller, for any parameter set, physical or not."""

    model: Model
    values: FloatArray | None = None  # standard parameters, (p,); a priori by default
    load: FloatArray | None = None  # payload it knows of, (10 l,); none by default
    # where Coulomb compensation is interpolated; the controller's choice
    dead_band: float | FloatArray | None = None

    def __post_init__(self) -> None:
        standard = self.model.mechanism.standard.values
        object.__setattr__(self, "values", standard if self.values is None else self.values)
        object.__setattr__(self, "load", self.model.load() if self.load is None else self.load)
        super().__post_init__()
        check_shapes(self, values=standard.shape, load=(len(self.model.load_columns),))

    def __call__(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """Return motor efforts, (t, a). [N or N m]"""
        model, rows = self.model, list(self.model.independent)
        efforts = model.effort_kernel()(q, qd[:, rows], qdd[:, rows], *self._constants)[0]
        return model.min_norm_motor_effort(q, efforts)

    @cached_property
    def _constants(self) -> tuple[Any, ...]:
        return self.model._band(self.dead_band), self.values, self.load


@dataclass(frozen=True, kw_only=True, eq=False)
class ControlSetup:
    """What a controller is started with."""

    model: Model  # for kinematics and the nominal mass matrix
    reference: Motion  # to follow, lead-in included
    period: float  # of the controller [s]
    holding: (
        FloatArray  # efforts that hold the robot at the start, (k, a): the integrators start there
    )
    dead_band: FloatArray  # that of the simulated friction, (n,) [m/s or rad/s]
    load: FloatArray  # nominal payload of the first trial, (10 l,)

    @property
    def lanes(self) -> int | None:
        """Two robots are already faster in a vector than one after the other."""
        return 1 if len(self.holding) == 1 else None


Loop = Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray]
"""A running controller: (sample, position, velocity, free) -> efforts (k, a).

Position, velocity and free are (k, a). Integrators of motors that are not free (saturated) do not
change.
"""


class CompiledLaw(NamedTuple):
    """A law as a kernel of `engine.stepping`, with what it is run on."""

    kernel: Kernel  # (state, memory, reference, constants) -> (state, memory)
    memory: FloatArray  # at the start, without which motors are free, (k, s)
    reference: FloatArray  # of every sample, (t, r)
    constants: FloatArray  # without ratio and limits, (c,)


@runtime_checkable
class Controller(Protocol):
    """Settings of a controller."""

    @property
    def name(self) -> str: ...

    def start(self, setup: ControlSetup) -> Loop:
        """Return the running loop."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PID:
    """Decentralised PID on the actuated joints, optionally with feed-forward of velocity or of a
    model.

        tau = F + Kp e + Ki int e + Kd (w qd_ref - qd),   e = q_ref - q

    with w = 0 for the simple PID and w = 1 for BG13's "advanced PID with velocity feedforward"; F
    is zero, or the inverse dynamics along the reference (AH09, Fig. 6), averaged over the period
    for which they are held. From a
    bandwidth: Kp = 3 M w^2, Kd = 3 M w, Ki = M w^3 with the diagonal of the a-priori mass matrix at
    home, which puts all three poles of each axis at -w.

    Args:
        bandwidth: w. [rad/s] By default a tenth of the controller's rate, at most 100 rad/s (BG13).
        velocity_feedforward: Let the derivative act on the error.
        feedforward: Model of F, or None.
        kp, ki, kd: Explicit gains instead, each a scalar or (a,). [N/m or N m/rad, per s, times s]
    """

    bandwidth: float | None = None
    velocity_feedforward: bool = False
    feedforward: InverseModel | None = None
    kp: ArrayLike | None = None
    ki: ArrayLike | None = None
    kd: ArrayLike | None = None

    def __post_init__(self) -> None:
        given = [g is not None for g in (self.kp, self.ki, self.kd)]
        if any(given) and not all(given):
            raise InvalidInput("give all three gains kp, ki and kd, or a bandwidth")
        _bandwidth(self.bandwidth)

    @property
    def name(self) -> str:
        return (
            "feedforward"
            if self.feedforward is not None
            else "pid+"
            if self.velocity_feedforward
            else "pid"
        )

    def gains(self, model: Model, rate: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return kp, ki, kd, each (a,)."""
        if self.kp is not None and self.ki is not None and self.kd is not None:
            kp, ki, kd = (
                for_motors(gain, len(model.actuated), "gains kp, ki and kd")
                for gain in (self.kp, self.ki, self.kd)
            )
            return kp, ki, kd
        mass, w = nominal_mass(model), _bandwidth(self.bandwidth, rate)
        return 3 * mass * w**2, mass * w**3, 3 * mass * w

    def start(self, setup: ControlSetup) -> Loop:
        (kp, ki, kd), (reference, rate, feed), integral = self._prepared(setup)

        def command(
            k: int, position: FloatArray, velocity: FloatArray, free: FloatArray
        ) -> FloatArray:
            nonlocal integral
            error = reference[k] - position
            integral = integral + ki * error * free
            return np.asarray(feed[k] + kp * error + integral + kd * (rate[k] - velocity))

        return command

    def compiled(self, setup: ControlSetup) -> CompiledLaw | None:
        """Return the law as a kernel."""
        gains, reference, integral = self._prepared(setup)
        return CompiledLaw(
            pid_kernel(setup.model, lanes=setup.lanes),
            integral,
            np.hstack(reference),
            np.concatenate(gains),
        )

    def _prepared(
        self, setup: ControlSetup
    ) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...], FloatArray]:
        """Return [kp, ki T, kd], [position, velocity, efforts] of the reference, and the integral
        (k, a).
        """
        motors, motion = list(setup.model.actuated), setup.reference
        kp, ki, kd = self.gains(setup.model, 1 / setup.period)
        reference = np.ascontiguousarray(motion.q[:, motors])
        rate = motion.qd[:, motors] * (
            1.0 if self.velocity_feedforward or self.feedforward else 0.0
        )
        feed = np.zeros_like(reference)
        if self.feedforward is not None:
            given = _with_band(self.feedforward, setup.dead_band)(motion.q, motion.qd, motion.qdd)
            check_shape(given, reference.shape, "feed-forward efforts")
            feed = _held_mean(given)
        return (kp, ki * setup.period, kd), (reference, rate, feed), setup.holding - feed[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputedTorque:
    """Computed torque control: the model makes every axis a triple integrator chain with the same
    poles.

        tau = ID(q, qd_ref, qdd_ref + 3 w ed + 3 w^2 e + w^3 int e)

    with the configuration found from the measured motors on every sample. Velocity terms are those
    of the reference: the sign of a measured velocity near zero would chatter. qd_ref and qdd_ref
    are means over the period for which the effort will be held; the effort that the model lacks at
    the start (wrong gravity) is held throughout. Same poles as the PID of that bandwidth (BG13
    keeps 100 rad/s for the linear part of all its laws).

    Args:
        inverse: The model; the robot's a-priori parameters with the nominal payload by default.
        bandwidth: w. [rad/s] As for the PID.
    """

    name: ClassVar[str] = "ctc"
    inverse: InverseModel | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _bandwidth(self.bandwidth)

    def start(self, setup: ControlSetup) -> Loop:
        model, ref, period = setup.model, setup.reference, setup.period
        inverse, w, held = self._prepared(setup)
        closing = closing_kernel(model)
        speed, thrust = _held_mean(ref.qd), _held_mean(ref.qdd)
        motors, lead = list(model.actuated), list(model.loops.partitions["actuated"].independent)
        columns = [motors.index(i) for i in lead]
        q, qd = (np.repeat(x[:1], len(held), axis=0) for x in (ref.q, ref.qd))
        integral = np.zeros((len(q), len(lead)))

        def command(
            k: int, position: FloatArray, velocity: FloatArray, free: FloatArray
        ) -> FloatArray:
            nonlocal q, qd, integral
            error = ref.q[k, lead] - position[:, columns]
            rate = ref.qd[k, lead] - velocity[:, columns]
            integral = integral + period * error * free[:, columns]
            wanted = thrust[k, lead] + 3 * w * rate + 3 * w**2 * error + w**3 * integral
            guess = q + period * qd
            guess[:, motors] = position
            q, qd, qdd, _ = closing(guess, speed[k, lead], wanted)
            return inverse(q, qd, qdd) + held

        return command

    def compiled(self, setup: ControlSetup) -> CompiledLaw | None:
        """Return the law as a kernel; None with a model that is a function of one's own."""
        model, ref = setup.model, setup.reference
        inverse, w, held = self._prepared(setup)
        if not isinstance(inverse, RobotModel) or inverse.model is not model:
            return None
        motors = list(model.actuated)
        first = np.concatenate([ref.q[0], ref.qd[0], np.zeros(len(motors))])
        reference = np.hstack(
            [x[:, motors] for x in (ref.q, ref.qd, _held_mean(ref.qd), _held_mean(ref.qdd))]
        )
        return CompiledLaw(
            computed_torque_kernel(model, lanes=setup.lanes),
            np.column_stack([np.tile(first, (len(held), 1)), held]),
            reference,
            np.concatenate([[setup.period, w], *inverse._constants]),
        )

    def _prepared(self, setup: ControlSetup) -> tuple[InverseModel, float, FloatArray]:
        """Return model, bandwidth, and the effort that the model lacks at the start (wrong
        gravity), (k, a).
        """
        inverse = _with_band(
            self.inverse or RobotModel(model=setup.model, load=setup.load), setup.dead_band
        )
        q = np.repeat(setup.reference.q[:1], len(setup.holding), axis=0)
        lacking = setup.holding - inverse(q, np.zeros_like(q), np.zeros_like(q))
        return inverse, _bandwidth(self.bandwidth, 1 / setup.period), lacking


def _with_band(inverse: InverseModel, dead_band: FloatArray) -> InverseModel:
    """Give a model without a dead band this one."""
    if isinstance(inverse, RobotModel) and inverse.dead_band is None:
        return replace(inverse, dead_band=dead_band)
    return inverse


def _held_mean(values: FloatArray) -> FloatArray:
    """Return the mean of each sample and the next: feed-forward held over a period must not come
    late.
    """
    return np.concatenate([(values[1:] + values[:-1]) / 2, values[-1:]])


def nominal_mass(model: Model) -> FloatArray:
    """Return what each motor feels at home, (a,): the diagonal of the mass matrix. [kg or kg m2]

    Redundant robots: 1 / (E_act M^-1 E_act^T)_jj, the mass a single motor accelerates.
    """
    mass = model.mass_matrix(model.home[None])[0]
    if not model.loops.redundant:
        return np.asarray(np.diag(mass)[[model.independent.index(i) for i in model.actuated]])
    act = model.kinematics.closure_map(model.home[None])[0][list(model.actuated)]
    return np.asarray(1 / np.diag(act @ np.linalg.solve(mass, act.T)))


def for_motors(values: ArrayLike, motors: int, name: str) -> FloatArray:
    """Return one number for each motor, (a,)."""
    array = np.asarray(values, dtype=float)
    if array.shape not in ((), (1,), (motors,)) or not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} are {array.tolist()}, expected one finite number or one for each of {motors} "
            "motors"
        )
    return np.array(np.broadcast_to(array, (motors,)))


def _bandwidth(given: float | None, rate: float = 1.0) -> float:
    """Return the bandwidth: a tenth of the controller's rate [Hz] by default, at most 100 rad/s."""
    if given is not None and not (np.isfinite(given) and given > 0):
        raise InvalidInput(
            f"the bandwidth is {given} rad/s, expected a positive number", bandwidth=given
        )
    return min(100.0, 0.1 * rate) if given is None else given
