"""One log as verdict and diagnosis see it: motion and effort of its motors, and the equations that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter

from gough.core.arrays import FloatArray, Value
from gough.core.errors import InvalidInput
from gough.core.motion import Motion
from gough.core.names import Parameter
from gough.core.regression import Regression
from gough.processing import Processed
from gough.processing.decimation import decimated


@dataclass(frozen=True, kw_only=True, eq=False)
class Track(Value):
    """Motion and effort of the motors at the samples of a motion, and the gravity they fell under.

    Args:
        time: (t,). [s]
        position, velocity, acceleration: Of the motors, (t, a).
        effort: Of the motors, (t, a). [N or N m]
        gravity: In the base frame, (3,). [m/s2]
        periodic: The samples are one whole period.
        deviations: Effort of each repetition minus their mean, (k, t, a); none without repetitions.
        lag: Time constant that each effort was low-passed with, (a,). [s]
    """

    time: FloatArray
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray
    gravity: FloatArray
    periodic: bool
    deviations: FloatArray
    lag: FloatArray

    def with_effort(self, change: Callable[[FloatArray], FloatArray]) -> Track:
        """Return the track with an affine change of the efforts (t, a), made to their noise too."""
        nothing = change(np.zeros(self.effort.shape))
        return replace(self, effort=change(self.effort),
                       deviations=np.array([change(d) - nothing for d in self.deviations]).reshape(
                           self.deviations.shape))

    def scaled(self, factor: FloatArray) -> Track:
        """Return the track with the motion of each motor times a factor, (a,)."""
        return replace(self, position=self.position * factor, velocity=self.velocity * factor,
                       acceleration=self.acceleration * factor)

    def clocked(self, factor: float) -> Track:
        """Return the track with the motion so many times as fast; -1 runs backwards."""
        return replace(self, velocity=self.velocity * factor, acceleration=self.acceleration * factor**2)

    @property
    def step(self) -> float:
        """Time between samples. [s]"""
        return float((self.time[-1] - self.time[0]) / (len(self.time) - 1))

    def slope(self, values: FloatArray) -> FloatArray:
        """Return the derivative by time of (t, ...) from the samples before and after."""
        if self.periodic:
            return np.asarray((np.roll(values, -1, axis=0) - np.roll(values, 1, axis=0)) / (2 * self.step))
        return np.asarray(np.gradient(values, self.step, axis=0))

    def shifted(self, values: FloatArray, by: float) -> FloatArray:
        """Return values(t + by), (t, a) -> (t, a): by the DFT over a period, else by a spline held at the ends. [s]

        Where friction jumps a DFT rings, so the derivative by a shift is that of neighbouring samples.
        """
        if abs(by) < 1e-2 * self.step:
            return values + by * self.slope(values)
        if self.periodic:
            spectrum = np.fft.rfft(values, axis=0)
            turn = np.exp(2j * np.pi * np.fft.rfftfreq(len(values), self.step) * by)
            return np.asarray(np.fft.irfft(spectrum * turn[:, None], len(values), axis=0))
        at = np.clip(self.time + by, self.time[0], self.time[-1])
        return np.asarray(CubicSpline(self.time, values)(at))

    def lagged(self, values: FloatArray) -> FloatArray:
        """Return values (t, r, ...) of the rows low-passed by 1 / (1 + lag s), exact for lines between samples."""
        found = values.copy()
        for j in np.flatnonzero(self.lag > 0):
            keep = np.exp(-self.step / self.lag[j])
            part = (1 - keep) * self.lag[j] / self.step
            run = np.concatenate([values[:, j]] * (1 + self.periodic))  # a period begins where it ends
            low = lfilter([1 - part, part - keep], [1, -keep], run, axis=0, zi=part * run[:1])[0]
            found[:, j] = low[-len(values):]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """One log as processed, and the equations that count.

    Args:
        motion: Motion of all coordinates, (t, n).
        effort: Of the motors, (t, a). [N or N m]
        dead_band: Of the velocity's sign, (n,). [m/s or rad/s]
        part: Its regression: same samples, or fewer after decimation, found again by their times.
        deviations: Effort of each repetition minus their mean, (k, t, a), or None without repetitions.
        decimation: One of so many samples was kept, regressor and effort low-passed in parallel.
        periodic: The samples are one averaged period.
        payload: Name of the payload carried, or None.
        gravity: That the robot is taken to have been under, (3,); the robot file's by default. [m/s2]
        lag: Time constant that each effort is taken to have been low-passed with, (a,); none by default. [s]
        cutoff: Of the low-pass that positions passed, None if they did not. [Hz]
        name: Where the samples come from.
    """

    motion: Motion
    effort: FloatArray
    dead_band: FloatArray
    part: Regression
    deviations: FloatArray | None = None
    decimation: int = 1
    periodic: bool = False
    payload: str | None = None
    gravity: FloatArray | None = None
    lag: FloatArray | None = None
    cutoff: float | None = None
    name: str = ""

    def shaped(self, columns: FloatArray) -> FloatArray:
        """Return columns (t, r, k) at the motion's samples as the regression has them, (s, r, k)."""
        part, names = self.part, tuple(Parameter(f"c{k}") for k in range(columns.shape[2]))
        whole = Regression(regressor=columns, effort=np.zeros(columns.shape[:2]), rows=part.rows,
                           row_units=part.row_units, parameters=names, units=("1",) * len(names), time=self.motion.time)
        pieces = [whole] if self.decimation == 1 else list(decimated([whole], self.decimation, around=self.periodic))
        time = np.concatenate([np.asarray(piece.time) for piece in pieces])
        kept = np.isin(time, np.asarray(part.time))
        if int(kept.sum()) != len(part):
            raise InvalidInput(f"{self.name}: {int(kept.sum())} of {len(part)} samples of the regression are found "
                               "again in the motion; are they of the same log?")
        return np.concatenate([piece.regressor for piece in pieces])[kept]

    def shortened(self, most: int) -> Source:
        """Return the log with neighbouring samples averaged to at most `most`; decimated logs are short enough.

        Efforts are means over blocks, motion and regressor those of the blocks' middles: what is slow stays, and white
        noise stays white. A block counts where all of its samples do.
        """
        size = -(-len(self.motion) // most) // 2 * 2 + 1  # odd: a block's mean then stands at its middle sample
        if size < 2 or self.decimation > 1:
            return self
        count = len(self.motion) // size
        part, middle = self.part, np.arange(count) * size + size // 2
        assert part.time is not None
        place = np.searchsorted(self.motion.time, part.time)
        whole = np.zeros((count * size, len(part.rows)), bool)
        inside = place < count * size
        whole[place[inside]] = True if part.mask is None else part.mask[inside]
        counts = np.asarray(whole.reshape(count, size, -1).all(axis=1))

        def blocks(values: FloatArray, axis: int = 0) -> FloatArray:
            """Return means over blocks of samples along an axis; samples the regression lacks are zero."""
            values = np.moveaxis(values, axis, 0)
            full = np.zeros((count * size, *values.shape[1:]))
            full[place[inside]] = values[inside]
            return np.moveaxis(full.reshape(count, size, *values.shape[1:]).mean(axis=1), 0, axis)

        middles = np.zeros((count, *part.regressor.shape[1:]))
        there = np.isin(middle, place)
        middles[there] = part.regressor[np.searchsorted(place, middle[there])]
        short = replace(part, regressor=middles, effort=blocks(part.effort), mask=counts,
                        time=self.motion.time[middle], group=None, sample=None, recording=None,
                        replicates=None if part.replicates is None else blocks(part.replicates, 1),
                        covariance=None if part.covariance is None or part.covariance.ndim == 3
                        else part.covariance / size)
        keep = slice(0, count * size)
        deviations = self.deviations
        if deviations is not None:
            deviations = deviations[:, keep].reshape(len(deviations), count, size, -1).mean(axis=2)
        return replace(self, motion=self.motion.take(middle), part=short, deviations=deviations,
                       effort=self.effort[keep].reshape(count, size, -1).mean(axis=1))


def source_of(processed: Processed, part: Regression) -> Source:
    """Return a log with its regression from what processing made of it."""
    each = processed.replicates
    return Source(motion=processed.motion, effort=processed.effort, dead_band=processed.dead_band, part=part,
                  deviations=None if each is None or len(each) < 2 else each - each.mean(axis=0),
                  decimation=processed.decimation, periodic=processed.average is not None, payload=processed.payload,
                  cutoff=processed.cutoff, name=processed.source)
