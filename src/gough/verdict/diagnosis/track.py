"""One log as verdict and diagnosis see it: motion and effort of its motors, and the equations that
count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.record import Record
from gough.core.signals import first_order_filter
from gough.fitting.regression import Regression
from gough.processing import ProcessedLog
from gough.processing.decimation import decimation_taps, lowpass

# of all logs together in score tests: seconds for a hexapod with two hundred directions
MOST_SAMPLES = 8000


@dataclass(frozen=True, kw_only=True, eq=False)
class Track(Record):
    """Motion and effort of the motors, (t, a) each, and the gravity they fell under."""

    time: FloatArray
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray
    gravity: FloatArray
    periodic: bool  # the samples are one whole period
    # effort of each repetition minus their mean, (k, t, a); none without repetitions
    deviations: FloatArray
    lag: FloatArray  # time constant that each effort was low-passed with, (a,) [s]

    def with_effort(self, change: Callable[[FloatArray], FloatArray]) -> Track:
        """Change the efforts (t, a), affinely, and their noise with them."""
        nothing = change(np.zeros(self.effort.shape))
        noise = np.array([change(d) - nothing for d in self.deviations]).reshape(
            self.deviations.shape
        )
        return replace(self, effort=change(self.effort), deviations=noise)

    def with_motion(self, change: Callable[[FloatArray], FloatArray]) -> Track:
        """Change position, velocity and acceleration alike, linearly."""
        return replace(
            self,
            position=change(self.position),
            velocity=change(self.velocity),
            acceleration=change(self.acceleration),
        )

    def clocked(self, factor: float) -> Track:
        """Make the motion so many times as fast; -1 runs backwards."""
        return replace(
            self,
            velocity=self.velocity * factor,
            acceleration=self.acceleration * factor**2,
        )

    @property
    def step(self) -> float:
        """Time between samples. [s]"""
        return float((self.time[-1] - self.time[0]) / (len(self.time) - 1))

    def slope(self, values: FloatArray) -> FloatArray:
        """Return the derivative by time from the samples before and after."""
        if self.periodic:
            return np.asarray(
                (np.roll(values, -1, axis=0) - np.roll(values, 1, axis=0)) / (2 * self.step)
            )
        return np.asarray(np.gradient(values, self.step, axis=0))

    def shifted(self, values: FloatArray, by: float) -> FloatArray:
        """Return values(t + by): by the DFT over a period, else by a spline held at the ends. [s]

        Where friction jumps a DFT rings: small shifts are by the slope.
        """
        if abs(by) < 1e-2 * self.step:
            return values + by * self.slope(values)
        if self.periodic:
            turn = np.exp(2j * np.pi * np.fft.rfftfreq(len(values), self.step) * by)
            return np.asarray(
                np.fft.irfft(
                    np.fft.rfft(values, axis=0) * turn[:, None],
                    len(values),
                    axis=0,
                )
            )
        from scipy.interpolate import (
            CubicSpline,
        )  # here: it takes long to import

        return np.asarray(
            CubicSpline(self.time, values)(np.clip(self.time + by, self.time[0], self.time[-1]))
        )

    def lagged(self, values: FloatArray) -> FloatArray:
        """Low-pass the rows (t, r, ...) by 1 / (1 + lag s), exact for lines between samples."""
        found = values.copy()
        for j in np.flatnonzero(self.lag > 0):
            keep = np.exp(-self.step / self.lag[j])
            part = (1 - keep) * self.lag[j] / self.step
            run = np.concatenate(
                [values[:, j]] * (1 + self.periodic)
            )  # a period begins where it ends
            low = first_order_filter(run, (1 - part, part - keep), keep, part * run[0])
            found[:, j] = low[-len(values) :]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """One log as processed, and the equations that count."""

    motion: Motion  # of all coordinates
    effort: FloatArray  # of the motors, (t, a)
    dead_band: FloatArray  # of the velocity's sign, (n,)
    part: Regression  # of the same samples, or of fewer after decimation
    # number in `motion` of each sample of `part`, the middle one after decimation; None for all
    samples: IntArray | None = None
    deviations: FloatArray | None = None  # as of a track
    decimation: int = 1
    periodic: bool = False
    payload: str | None = None
    gravity: FloatArray | None = None  # instead of the robot file's
    lag: FloatArray | None = None  # as of a track
    cutoff: float | None = None  # of the low-pass that positions passed [Hz]
    name: str = ""

    @property
    def sample_numbers(self) -> IntArray:
        """Number in `motion` of each sample of `part`, (t,)."""
        return np.arange(len(self.part)) if self.samples is None else self.samples

    def shaped(self, columns: FloatArray) -> FloatArray:
        """Filter and thin columns (t, r, k) of the motion's samples as the regression was."""
        half = len(decimation_taps(self.decimation)) // 2
        if self.periodic and half:  # windows reach around the ends
            columns = np.concatenate([columns[-half:], columns, columns[:half]])
        columns = lowpass(columns, self.decimation)
        first = 0 if self.periodic else half
        middle = first + self.decimation * np.arange(len(columns))
        kept = np.isin(middle, self.sample_numbers)
        if int(kept.sum()) != len(self.part):
            raise InvalidInput(
                f"{self.name}: {int(kept.sum())} of {len(self.part)} samples of the regression are "
                "found again in the motion; are they of the same log?"
            )
        return columns[kept]

    def shortened(self, most: int) -> Source:
        """Average neighbouring samples to at most `most`; decimated logs are short enough.

        Efforts are means over blocks, motion and regressor those of their middles: what is
        slow stays, and white noise stays white. A block counts where all of its samples do.
        """
        size = (
            -(-len(self.motion) // most) // 2 * 2 + 1
        )  # odd: a block's mean then stands at its middle sample
        if size < 2 or self.decimation > 1:
            return self
        count, part = len(self.motion) // size, self.part
        middle, place = np.arange(count) * size + size // 2, self.sample_numbers
        inside = place < count * size

        def means(values: FloatArray) -> FloatArray:
            return np.asarray(
                values[: count * size].reshape(count, size, *values.shape[1:]).mean(axis=1)
            )

        def spread(values: FloatArray | BoolArray) -> FloatArray:
            """Return values at all samples, zero where the regression has none."""
            full = np.zeros((count * size, *values.shape[1:]))
            full[place[inside]] = values[inside]
            return full

        cov, each, noise = part.covariance, part.replicates, self.deviations
        short = replace(
            part,
            regressor=spread(part.regressor)[middle],
            effort=means(spread(part.effort)),
            mask=means(spread(part.valid)) == 1,
            time=self.motion.time[middle],
            group=None,
            sample=None,
            recording=None,
            covariance=None if cov is None or cov.ndim == 3 else cov / size,
            replicates=None if each is None else np.array([means(spread(x)) for x in each]),
        )
        return replace(
            self,
            motion=self.motion.take(middle),
            part=short,
            samples=None,
            effort=means(self.effort),
            deviations=None if noise is None else np.array([means(x) for x in noise]),
        )


def sources(processed: Sequence[ProcessedLog], parts: Sequence[Regression]) -> tuple[Source, ...]:
    """Return logs with their regressions, long ones shortened."""
    found = []
    for log, part in zip(processed, parts):
        each = log.repetitions
        source = Source(
            motion=log.motion,
            effort=log.effort,
            dead_band=log.dead_band,
            part=part,
            samples=None if part.sample is None else part.sample - log.sample[0],
            deviations=None if each is None or len(each) < 2 else each - each.mean(axis=0),
            decimation=log.decimation,
            periodic=log.periodic,
            payload=log.payload,
            cutoff=log.cutoff,
            name=log.source,
        )
        found.append(source.shortened(MOST_SAMPLES // len(parts)))
    return tuple(found)
