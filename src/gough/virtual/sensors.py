"""What the controller's computer sees: quantised, noisy positions; noisy efforts or currents. Everything is seeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_shape
from gough.core.errors import InvalidInput
from gough.mechanism.types import Noise


def draw_correlated(rng: np.random.Generator, covariance: ArrayLike, samples: int) -> FloatArray:
    """Return white noise with a covariance between its columns, (t, a)."""
    covariance = np.asarray(covariance, dtype=float)
    check_shape(covariance, (len(covariance),) * 2, "noise covariance")
    values, vectors = np.linalg.eigh(covariance)
    if not np.allclose(covariance, covariance.T) or values.min(initial=0.0) < -1e-9 * max(values.max(initial=0.0), 1.0):
        raise InvalidInput("the noise covariance is not symmetric and positive semi-definite",
                           smallest=float(values.min(initial=0.0)))
    white = rng.standard_normal((samples, len(covariance)))
    return np.asarray(white @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)


def measure_positions(rng: np.random.Generator, position: FloatArray, noise: Noise) -> FloatArray:
    """Return positions with white noise, then rounded to the encoder's steps, same shape. [m or rad]"""
    if noise.position < 0 or (noise.resolution is not None and noise.resolution <= 0):
        raise InvalidInput(f"position noise {noise.position} and encoder step {noise.resolution}: expected at least "
                           "zero and above zero")
    seen = position + noise.position * rng.standard_normal(position.shape)
    return seen if noise.resolution is None else np.round(seen / noise.resolution) * noise.resolution


Measure = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Feedback(Protocol):
    """Sensors in the loop: what the controller sees instead of the truth."""

    def start(self, position: FloatArray, velocity: FloatArray, period: float) -> Measure:
        """Return the running sensors: true position -> position and velocity as the controller sees them, each (k, a).

        Args:
            position, velocity: At the start, (k, a).
            period: Of the controller. [s]
        """
