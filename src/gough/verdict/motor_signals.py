"""Motion and effort of the motors of one log: what a fault of the recording changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.record import Record
from gough.core.signals import recursive_filter

# Shifts below this fraction of a sample are made with the derivative:
# where friction jumps, a Fourier series rings.
SMALL_SHIFT = 1e-2


@dataclass(frozen=True, kw_only=True, eq=False)
class MotorSignals(Record):
    """Motion and effort of the motors, (t, a) each, and the gravity of the model behind them."""

    time: FloatArray  # (t,) [s]
    position: FloatArray  # [m or rad]
    velocity: FloatArray  # [m/s or rad/s]
    acceleration: FloatArray  # [m/s2 or rad/s2]
    effort: FloatArray  # [N or N m]
    gravity: FloatArray  # (3,) [m/s2]
    lag: FloatArray  # time constant of a low-pass on each effort, (a,) [s]
    periodic: bool  # the samples are one whole period
    # effort of each repetition minus their mean, (k, t, a); none
    # without repetitions
    deviations: FloatArray

    def with_effort(self, change: Callable[[FloatArray], FloatArray]) -> MotorSignals:
        """Return the signals with an affine change of the efforts (t, a) and of their noise."""
        if not len(self.deviations):
            return replace(self, effort=change(self.effort))
        offset = change(np.zeros(self.effort.shape))
        deviations = np.zeros(self.deviations.shape)
        for k, deviation in enumerate(self.deviations):
            deviations[k] = change(deviation) - offset
        return replace(self, effort=change(self.effort), deviations=deviations)

    def with_motion(self, change: Callable[[FloatArray], FloatArray]) -> MotorSignals:
        """Return the signals with the same linear change of position and its derivatives."""
        return replace(
            self,
            position=change(self.position),
            velocity=change(self.velocity),
            acceleration=change(self.acceleration),
        )

    def faster(self, factor: float) -> MotorSignals:
        """Return the motion made so many times as fast; -1 runs backwards."""
        return replace(
            self,
            velocity=self.velocity * factor,
            acceleration=self.acceleration * factor**2,
        )

    def same_model_as(self, other: MotorSignals) -> bool:
        """Return whether at most the efforts differ, so that the regressor is the same."""
        names = ("time", "position", "velocity", "acceleration", "gravity", "lag")
        return all(getattr(self, name) is getattr(other, name) for name in names)

    @property
    def step(self) -> float:
        """Time between samples. [s]"""
        return float((self.time[-1] - self.time[0]) / (len(self.time) - 1))

    def rate_of_change(self, signal: FloatArray) -> FloatArray:
        """Return the derivative of a signal (t, a) by time, from the samples before and after."""
        if self.periodic:
            difference = np.roll(signal, -1, axis=0) - np.roll(signal, 1, axis=0)
            return np.asarray(difference / (2 * self.step))
        return np.asarray(np.gradient(signal, self.step, axis=0))

    def shifted(self, signal: FloatArray, by: float) -> FloatArray:
        """Return signal(t + by): by a Fourier series over a period, else by a spline. [s]"""
        if abs(by) < SMALL_SHIFT * self.step:
            return signal + by * self.rate_of_change(signal)
        if self.periodic:
            frequency = np.fft.rfftfreq(len(signal), self.step)
            turn = np.exp(2j * np.pi * frequency * by)
            spectrum = np.fft.rfft(signal, axis=0) * turn[:, None]
            return np.asarray(np.fft.irfft(spectrum, len(signal), axis=0))
        from scipy.interpolate import CubicSpline  # here: it takes long to import

        instants = np.clip(self.time + by, self.time[0], self.time[-1])
        return np.asarray(CubicSpline(self.time, signal)(instants))

    def low_passed(self, rows: FloatArray) -> FloatArray:
        """Return rows (t, a, ...) behind the low-pass 1 / (1 + lag s) of each motor.

        Exact for straight lines between the samples.
        """
        filtered = rows.copy()
        for j in np.flatnonzero(self.lag > 0):
            decay = np.exp(-self.step / self.lag[j])
            mean = (1 - decay) * self.lag[j] / self.step
            # a period is filtered twice, because it begins where it
            # ends
            run = np.concatenate([rows[:, j]] * (1 + self.periodic))
            low = recursive_filter(run, (1 - mean, mean - decay), (-decay,), mean * run[:1])
            filtered[:, j] = low[-len(rows) :]
        return filtered
