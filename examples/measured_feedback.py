"""Sensors of one's own in the loop: any object with `start` can stand between the robot and its
controller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.mechanism.types import Noise
from gough.virtual.simulation import Measure, measure_positions


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredFeedback:
    """Measured instead of true positions and velocities in the loop.

    The velocity is the difference of measured positions through a first-order low-pass. Noise fed
    back makes position and effort errors correlate (AH09, section 3.2); every trial then has noise
    of its own and is a simulation of its own.

    Args:
        noise: Of the position sensors.
        cutoff: Of the velocity filter. [rad/s]
        seed: Of the random numbers.
    """

    noise: Noise
    cutoff: float = 1000.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.cutoff > 0:
            raise InvalidInput(
                f"the cut-off of the velocity filter is {self.cutoff} rad/s, expected above zero"
            )

    def start(self, position: FloatArray, velocity: FloatArray, period: float) -> Measure:
        """Return the running sensors; see `Feedback`."""
        rng = np.random.default_rng(self.seed)
        share = 1 - np.exp(-self.cutoff * period)
        last = measure_positions(rng, position - period * velocity, self.noise)
        rate = velocity

        def measure(position: FloatArray) -> tuple[FloatArray, FloatArray]:
            nonlocal last, rate
            seen = measure_positions(rng, position, self.noise)
            rate = rate + share * ((seen - last) / period - rate)
            last = seen
            return seen, rate

        return measure
