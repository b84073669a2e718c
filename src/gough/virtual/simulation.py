"""The result of a simulated experiment, and recordings of it with sensor noise; all seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape, check_shapes
from gough.core.display import text_table
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.options import Settings
from gough.core.record import Record
from gough.engine.model import Model
from gough.logs.recording import NO_CHANNELS, Channels, Recording
from gough.mechanism.types import Noise


def draw_correlated(rng: np.random.Generator, covariance: ArrayLike, samples: int) -> FloatArray:
    """Return white noise (t, a) with a covariance between its columns."""
    matrix = np.asarray(covariance, dtype=float)
    check_shape(matrix, (len(matrix),) * 2, "noise covariance")
    values, vectors = np.linalg.eigh(matrix)
    smallest = float(values.min(initial=0.0))
    scale = max(values.max(initial=0.0), 1.0)
    if not np.allclose(matrix, matrix.T) or smallest < -1e-9 * scale:
        raise InvalidInput(
            "the noise covariance is not symmetric and positive semi-definite",
            smallest=smallest,
        )
    white = rng.standard_normal((samples, len(matrix)))
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(white @ factor.T)


def measure_positions(rng: np.random.Generator, position: FloatArray, noise: Noise) -> FloatArray:
    """Return positions with white noise, rounded to the encoder's steps."""
    if noise.position < 0 or (noise.resolution is not None and noise.resolution <= 0):
        raise InvalidInput(
            f"position noise {noise.position} and encoder step {noise.resolution}: expected at "
            "least zero and above zero"
        )
    measured = position + noise.position * rng.standard_normal(position.shape)
    if noise.resolution is None:
        return measured
    return np.asarray(np.round(measured / noise.resolution) * noise.resolution)


# Running sensors: true position -> position and velocity as the
# controller sees them, (k, a) each.
Measure = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Feedback(Protocol):
    """Sensors in the loop: what the controller sees instead of the true motion."""

    def start(self, position: FloatArray, velocity: FloatArray, period: float) -> Measure:
        """Return the running sensors, started at a true position and velocity (k, a)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation(Record):
    """True motion and efforts of k variants of a robot, at the recorded samples.

    An effort that is held from one sample to the next acts half a
    period later than its time stamp. The mean of the efforts before and
    after a sample, which a drive that averages measures, has no such
    delay.
    """

    model: Model  # the robot
    plant: str  # its name
    controller: str  # its name
    time: FloatArray  # (t,) [s]
    q: FloatArray  # all coordinates, loops closed, (k, t, n)
    velocity: FloatArray  # of the independent coordinates, (k, t, m)
    # of the independent coordinates, under the effort that follows
    acceleration: FloatArray
    # that follows the sample, (k, t, a): the inverse dynamics of the
    # motion
    effort: FloatArray
    # mean of the efforts before and after the sample, (k, t, a)
    mean_effort: FloatArray
    reference: FloatArray  # commanded positions of the motors, (t, a)
    dead_band: FloatArray  # of the simulated friction, (n,) [m/s or rad/s]
    # true drive gains, (a,), if currents are recorded
    gains: FloatArray | None
    payloads: tuple[str | None, ...]  # of each variant
    period_samples: int | None  # samples of one period, if the motion repeats
    # number of samples at which a motor was at its limit, (k, a)
    saturated: FloatArray
    settings: Settings  # of the simulation

    def __post_init__(self) -> None:
        super().__post_init__()
        t = len(self.time)
        a = len(self.model.actuated)
        n = len(self.model.home)
        m = self.model.degrees_of_freedom
        check_shapes(
            self,
            q=(None, t, n),
            velocity=(None, t, m),
            acceleration=(None, t, m),
            effort=(None, t, a),
            mean_effort=(None, t, a),
            reference=(t, a),
        )

    @property
    def n_variants(self) -> int:
        """Number of variants, k."""
        return len(self.q)

    @property
    def seconds(self) -> float:
        """Simulated time that was recorded. [s]"""
        if len(self.time) < 2:
            return 0.0
        return float(len(self.time) * (self.time[1] - self.time[0]))

    @cached_property
    def position(self) -> FloatArray:
        """True positions of the motors, (k, t, a)."""
        return np.asarray(self.q[:, :, list(self.model.actuated)])

    @cached_property
    def tracking_error(self) -> FloatArray:
        """Reference minus true position, (k, t, a)."""
        return np.asarray(self.reference - self.position)

    @property
    def tracking_rms(self) -> FloatArray:
        """Root mean square of the tracking error, (k, a)."""
        return np.asarray(np.sqrt((self.tracking_error**2).mean(axis=1)))

    @property
    def tracking_max(self) -> FloatArray:
        """Largest tracking error, (k, a)."""
        return np.asarray(np.abs(self.tracking_error).max(axis=1))

    @cached_property
    def loop_error(self) -> FloatArray:
        """Largest closure error of each variant, (k,). [m or rad]"""
        return np.array([self.model.kinematics.residual(q).max() for q in self.q])

    def motion(self, variant: int = 0) -> Motion:
        """Return the true motion of all coordinates of a variant."""
        kinematics = self.model.kinematics
        q = self.q[variant]
        qd, qdd = kinematics.rates(
            q,
            self.velocity[variant],
            self.acceleration[variant],
            self.model.loops.dynamic,
        )
        return Motion(
            coordinates=self.model.mechanism.coordinates,
            time=self.time,
            q=q,
            qd=qd,
            qdd=qdd,
            closure_residual=kinematics.residual(q),
        )

    def to_dict(self, variant: int = 0) -> dict[str, Any]:
        """Return the figures of a variant by name: what `gough simulate --json` prints."""
        joints = self.model.mechanism.actuated
        return {
            "robot": self.model.mechanism.name,
            "plant": self.plant,
            "controller": self.controller,
            "payload": self.payloads[variant],
            "seconds": self.seconds,
            "samples": len(self.time),
            "tracking_rms": dict(zip(joints, self.tracking_rms[variant].tolist())),
            "tracking_max": dict(zip(joints, self.tracking_max[variant].tolist())),
            "loop_error": float(self.loop_error[variant]),
            "saturated_samples": int(self.saturated[variant].sum()),
        }

    def summary(self, variant: int = 0) -> str:
        """Return the figures of a variant as text."""
        figures = self.to_dict(variant)
        rows = []
        for name, rms in figures["tracking_rms"].items():
            largest = figures["tracking_max"][name]
            unit = self.model.mechanism.joint(name).unit
            rows.append([name, f"{rms:.3e}", f"{largest:.3e}", unit])
        lines = [
            f"{figures['robot']}: {figures['seconds']:.2f} s, plant {figures['plant']}, controller "
            f"{figures['controller']}",
            text_table(["motor", "tracking rms", "tracking max", "unit"], rows),
            f"loop error {figures['loop_error']:.1e} m or rad, saturated samples "
            f"{figures['saturated_samples']}",
        ]
        noise = self.model.mechanism.noise
        if not (noise.position or noise.effort or noise.resolution):
            lines.append(
                "the robot file has no [noise]: its logs are exact, and the same with every seed"
            )
        return "\n".join(lines)


def record(
    simulation: Simulation,
    *,
    noise: Noise | None = None,
    seed: int | Sequence[int] = 0,
    variant: int = 0,
    covariance: ArrayLike | None = None,
    velocity_noise: float | None = None,
    average: bool = True,
) -> Recording:
    """Return the log that the robot's controller would have saved, with sensor noise.

    Robots with drive gains record currents, the others efforts. The
    same simulation and seed give the same bytes.

    Args:
        noise: Of the sensors; the robot file's by default, `Noise()`
            for none.
        seed: Of the random generator.
        variant: Which of the simulated variants to record.
        covariance: Of the effort noise instead of that of `noise`, (a,
            a).
        velocity_noise: Standard deviation of recorded velocities; None
            records none.
        average: Record the mean of the efforts before and after each
            sample, else the command that follows it.
    """
    if not 0 <= variant < simulation.n_variants:
        raise InvalidInput(
            f"there is no variant {variant}; the simulation has {simulation.n_variants}",
            variant=variant,
        )
    model = simulation.model
    joints = model.mechanism.actuated
    if noise is None:
        noise = model.mechanism.noise
    if covariance is None:
        covariance = noise.effort_covariance(len(joints))
    covariance = np.asarray(covariance, dtype=float)
    check_shape(covariance, (len(joints),) * 2, "covariance of effort noise")
    if velocity_noise is not None and not velocity_noise >= 0:
        raise InvalidInput(f"velocity noise is {velocity_noise}, expected at least zero")
    rng = _generator(seed)
    true_effort = (simulation.mean_effort if average else simulation.effort)[variant]
    effort = true_effort + draw_correlated(rng, covariance, len(true_effort))
    position = measure_positions(rng, simulation.position[variant], noise)
    velocity = None
    if velocity_noise is not None:
        true_velocity = simulation.motion(variant).qd[:, list(model.actuated)]
        velocity = true_velocity + velocity_noise * rng.standard_normal(true_velocity.shape)
    gains = simulation.gains
    return Recording(
        joints=joints,
        time=simulation.time,
        position=position,
        position_units=tuple(model.mechanism.joint(name).unit for name in joints),
        effort=effort if gains is None else None,
        current=None if gains is None else effort / gains,
        current_units=() if gains is None else ("1",) * len(joints),
        velocity=velocity,
        extra=_channels(model, len(simulation.time)),
        reference=simulation.reference,
        period_samples=simulation.period_samples,
        payload=simulation.payloads[variant],
        source=f"virtual {model.mechanism.name} ({simulation.plant} plant, "
        f"{simulation.controller})",
    )


def _generator(seed: int | Sequence[int]) -> np.random.Generator:
    """Return the random generator of a seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"the seed is {seed!r}, expected a whole number of at least zero"
        ) from error


def _channels(model: Model, samples: int) -> Channels:
    """Return the recorded channels that joint terms depend on, constant over a log."""
    channels = model.mechanism.channels
    if not channels:
        return NO_CHANNELS
    return Channels(
        names=tuple(channels),
        units=("1",) * len(channels),
        values=np.tile(list(channels.values()), (samples, 1)),
    )
