"""The outcome of a simulated experiment, and what sensors make of it; everything is seeded."""

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
from gough.logs.recording import NOTHING, Channels, Recording
from gough.mechanism.types import Noise


def draw_correlated(rng: np.random.Generator, covariance: ArrayLike, samples: int) -> FloatArray:
    """Return white noise (t, a) with a covariance between its columns."""
    covariance = np.asarray(covariance, dtype=float)
    check_shape(covariance, (len(covariance),) * 2, "noise covariance")
    values, vectors = np.linalg.eigh(covariance)
    if not np.allclose(covariance, covariance.T) or values.min(initial=0.0) < -1e-9 * max(
        values.max(initial=0.0), 1.0
    ):
        raise InvalidInput(
            "the noise covariance is not symmetric and positive semi-definite",
            smallest=float(values.min(initial=0.0)),
        )
    white = rng.standard_normal((samples, len(covariance)))
    return np.asarray(white @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)


def measure_positions(rng: np.random.Generator, position: FloatArray, noise: Noise) -> FloatArray:
    """Return positions with white noise, rounded to the encoder's steps."""
    if noise.position < 0 or (noise.resolution is not None and noise.resolution <= 0):
        raise InvalidInput(
            f"position noise {noise.position} and encoder step {noise.resolution}: expected at "
            f"least "
            "zero and above zero"
        )
    seen = position + noise.position * rng.standard_normal(position.shape)
    return (
        seen if noise.resolution is None else np.round(seen / noise.resolution) * noise.resolution
    )


Measure = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Feedback(Protocol):
    """Sensors in the loop: what the controller sees instead of the truth."""

    def start(self, position: FloatArray, velocity: FloatArray, period: float) -> Measure:
        """Return the running sensors: true position -> position and velocity as the controller sees
        them, (k, a).
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation(Record):
    """True motion and efforts of k trials that ran together, at the recorded samples.

    An effort held from one sample to the next acts half a period later than the sample it is
    stamped with; the mean of those before and after a sample, which a drive that averages measures,
    has no such delay.
    """

    model: Model
    plant: str
    controller: str
    time: FloatArray
    q: FloatArray  # all coordinates, loops closed, (k, t, n)
    velocity: FloatArray  # of the model's rows, (k, t, m)
    acceleration: FloatArray  # under the effort that follows
    effort: FloatArray  # that follows the sample, (k, t, a): the inverse dynamics of the motion
    mean_effort: FloatArray  # of those before and after it
    reference: FloatArray  # positions of the motors asked for, (t, a)
    dead_band: FloatArray  # of the friction simulated, (n,)
    gains: FloatArray | None  # true ones of the drives, (a,), if currents are recorded
    payloads: tuple[str | None, ...]  # of each trial
    period_samples: int | None
    saturated: FloatArray  # samples at which a motor was at its limit, (k, a)
    settings: Settings

    def __post_init__(self) -> None:
        super().__post_init__()
        t, a, n, m = (
            len(self.time),
            len(self.model.actuated),
            len(self.model.home),
            self.model.degrees_of_freedom,
        )
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
    def trials(self) -> int:
        return len(self.q)

    @property
    def seconds(self) -> float:
        """Simulated time that was recorded. [s]"""
        return float(len(self.time) * (self.time[1] - self.time[0])) if len(self.time) > 1 else 0.0

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
        return np.asarray(np.sqrt((self.tracking_error**2).mean(axis=1)))

    @property
    def tracking_max(self) -> FloatArray:
        return np.asarray(np.abs(self.tracking_error).max(axis=1))

    @cached_property
    def loop_error(self) -> FloatArray:
        """Largest closure error of each trial, (k,)."""
        return np.array([self.model.kinematics.residual(q).max() for q in self.q])

    def motion(self, trial: int = 0) -> Motion:
        """Return the true motion of all coordinates of a trial."""
        by, q = self.model.loops.dynamic, self.q[trial]
        qd, qdd = self.model.kinematics.rates(q, self.velocity[trial], self.acceleration[trial], by)
        return Motion(
            coordinates=self.model.mechanism.coordinates,
            time=self.time,
            q=q,
            qd=qd,
            qdd=qdd,
            closure_residual=self.model.kinematics.residual(q),
        )

    def to_dict(self, trial: int = 0) -> dict[str, Any]:
        """Return the figures of a trial by name: what `gough simulate --json` prints."""
        joints = self.model.mechanism.actuated
        return {
            "robot": self.model.mechanism.name,
            "plant": self.plant,
            "controller": self.controller,
            "payload": self.payloads[trial],
            "seconds": self.seconds,
            "samples": len(self.time),
            "tracking_rms": dict(zip(joints, self.tracking_rms[trial].tolist())),
            "tracking_max": dict(zip(joints, self.tracking_max[trial].tolist())),
            "loop_error": float(self.loop_error[trial]),
            "saturated_samples": int(self.saturated[trial].sum()),
        }

    def summary(self, trial: int = 0) -> str:
        facts = self.to_dict(trial)
        rows = [
            [
                name,
                f"{rms:.3e}",
                f"{facts['tracking_max'][name]:.3e}",
                self.model.mechanism.joint(name).unit,
            ]
            for name, rms in facts["tracking_rms"].items()
        ]
        noise = self.model.mechanism.noise
        exact = not (noise.position or noise.effort or noise.resolution)
        return "\n".join(
            [
                f"{facts['robot']}: {facts['seconds']:.2f} s on the {facts['plant']} plant under "
                f"{facts['controller']}",
                text_table(["motor", "tracking rms", "tracking max", "unit"], rows),
                f"loop error {facts['loop_error']:.1e} m or rad, saturated samples "
                f"{facts['saturated_samples']}",
                *(
                    [
                        "the robot file has no [noise]: logs of it are exact, and the same with "
                        "every seed"
                    ]
                    if exact
                    else []
                ),
            ]
        )


def record(
    simulation: Simulation,
    *,
    noise: Noise | None = None,
    seed: int | Sequence[int] = 0,
    trial: int = 0,
    covariance: ArrayLike | None = None,
    velocity_noise: float | None = None,
    average: bool = True,
) -> Recording:
    """Return what the robot's computer would have saved; another seed makes another noise.

    Robots with drive gains record currents, the others efforts. Same simulation and seed, same
    bytes.

    Args:
        noise: Of the sensors; the robot file's by default, `Noise()` for none.
        covariance: Of the effort noise instead of that of `noise`, (a, a).
        velocity_noise: Standard deviation of recorded velocities; None records none.
        average: Record the mean of the efforts before and after each sample, else the command that
            follows it.
    """
    if not 0 <= trial < simulation.trials:
        raise InvalidInput(
            f"there is no trial {trial}; the simulation has {simulation.trials}", trial=trial
        )
    model, joints = simulation.model, simulation.model.mechanism.actuated
    noise = model.mechanism.noise if noise is None else noise
    cov = (
        noise.effort_covariance(len(joints))
        if covariance is None
        else np.asarray(covariance, dtype=float)
    )
    check_shape(cov, (len(joints),) * 2, "covariance of effort noise")
    if velocity_noise is not None and not velocity_noise >= 0:
        raise InvalidInput(f"velocity noise is {velocity_noise}, expected at least zero")
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"the seed is {seed!r}, expected a whole number of at least zero"
        ) from error
    true = (simulation.mean_effort if average else simulation.effort)[trial]
    effort = true + draw_correlated(rng, cov, len(true))
    position = measure_positions(rng, simulation.position[trial], noise)
    velocity = None
    if velocity_noise is not None:
        actual = simulation.motion(trial).qd[:, list(model.actuated)]
        velocity = actual + velocity_noise * rng.standard_normal(actual.shape)
    gains, channels = simulation.gains, model.mechanism.channels
    return Recording(
        joints=joints,
        time=simulation.time,
        position=position,
        position_units=tuple(model.mechanism.joint(name).unit for name in joints),
        effort=effort if gains is None else None,
        current=None if gains is None else effort / gains,
        current_units=() if gains is None else ("1",) * len(joints),
        velocity=velocity,
        extra=NOTHING
        if not channels
        else Channels(
            names=tuple(channels),
            units=("1",) * len(channels),
            values=np.tile(list(channels.values()), (len(true), 1)),
        ),
        reference=simulation.reference,
        period_samples=simulation.period_samples,
        payload=simulation.payloads[trial],
        source=f"virtual {model.mechanism.name} ({simulation.plant} plant, "
        f"{simulation.controller})",
    )
