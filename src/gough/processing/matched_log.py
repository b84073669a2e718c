"""A log matched to its robot: everything about it that does not depend on the settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import (
    InvalidInput,
    InvalidRecording,
    LoopNotClosed,
    SingularConfiguration,
)
from gough.core.record import Record
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.logs.checks import inspected
from gough.logs.clocks import with_true_instants
from gough.logs.jumps import Jump, find_jumps, jump_notices
from gough.logs.outliers import without_outliers
from gough.logs.recording import Recording
from gough.processing.averaging import PeriodAverage, average_periods, pose_cutoff
from gough.processing.matching import (
    check_constant_signals,
    in_robot_order,
    on_even_clock,
    settled_periods,
    with_beyond_limits,
)
from gough.processing.settings import Repeats
from gough.processing.valid_equations import position_noise

POSE_SAMPLES = 20000  # poses of at most twice so many samples of a log are kept


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedLog(Record):
    """A recording in the robot's joint order and on an even clock, with the poses it passes.

    The loops are closed once from the recorded positions; whatever processes the log with
    one setting or another starts Newton's method at these poses. A block of a log, or the
    same log with slightly different positions, starts at the poses of that log, its
    `origin`.
    """

    recorded: Recording  # the whole log as it was read
    recording: Recording  # joints in the robot's order, even clock
    kinematics: ClosedChain  # of the robot
    origin: MatchedLog | None = None  # the log whose poses are near those of this one
    first: int = 0  # number of the first sample in `origin`
    jumps: tuple[Jump, ...] = ()  # steps of single positions in the whole log

    def __len__(self) -> int:
        return len(self.recording)

    @property
    def source(self) -> str:
        """Name of the log, for messages."""
        return self.recording.source

    @property
    def payload(self) -> str | None:
        """Payload that the robot carries in this log."""
        return self.recording.payload

    @property
    def rate(self) -> float:
        """Sampling rate. [Hz]"""
        return self.recording.rate

    @cached_property
    def position_noise(self) -> FloatArray:
        """Standard deviation of the noise of recorded positions, (a,). [m or rad]"""
        return position_noise(self.recording.position)

    @cached_property
    def average(self) -> PeriodAverage | None:
        """Mean of the settled periods; None without two whole periods."""
        if self.recording.period_count < 2:
            return None
        return average_periods(settled_periods(self.recording))

    @cached_property
    def mean_pose(self) -> FloatArray:
        """All coordinates of the mean period, from its unfiltered positions, (N, n). [m or rad]"""
        average = self.average
        assert average is not None
        start = None
        if self.origin is not None and self.origin.average is not None:
            start = self.origin.mean_pose
        return self.kinematics.close_loops(
            average.position, "actuated", start=start, time=average.time
        )

    @cached_property
    def pose_cutoff(self) -> float:
        """Highest harmonic of the pose of a periodic log that Akaike's criterion keeps. [Hz]"""
        average = self.average
        assert average is not None
        motors = self.kinematics.motor_columns
        to_pose = self.kinematics.pose_map(self.mean_pose)
        deviation = (average.recording.periods("position") - average.position)[:, :, motors]
        scatter = np.einsum("tma,pta->ptm", to_pose, deviation, optimize=True)
        variance = average.rounding_variance[motors]
        rounding = np.einsum("tma,a->m", to_pose**2, variance) / len(to_pose)
        pose = self.kinematics.pose_of(self.mean_pose)
        try:
            return pose_cutoff(pose, scatter, average.rate, rounding)
        except InvalidInput as error:
            raise InvalidRecording(f"{self.source}: {error}", source=self.source) from error

    @cached_property
    def _stride(self) -> int:
        """One of so many samples has its pose kept."""
        return max(1, len(self) // POSE_SAMPLES)

    @cached_property
    def _poses(self) -> FloatArray | None:
        """All coordinates at every `_stride`-th sample, (k, n); None if they cannot be found.

        A single wrong sample may have no pose although the filtered positions have one.
        """
        kept = slice(0, len(self), self._stride)
        position = self.recording.position[kept]
        try:
            return self.kinematics.close_loops(position, "actuated", time=self.recording.time[kept])
        except (LoopNotClosed, SingularConfiguration):
            return None

    def pose_near(self, samples: IntArray) -> FloatArray | None:
        """Return poses near those of some samples, interpolated, (t, n); None if there are none."""
        if self.origin is not None:
            return self.origin.pose_near(samples + self.first)
        poses = self._poses
        if poses is None:
            return None
        if self._stride == 1:
            return poses[samples]
        below = np.minimum(samples // self._stride, len(poses) - 1)
        above = np.minimum(below + 1, len(poses) - 1)
        fraction = (samples / self._stride - below)[:, None]
        return np.asarray((1 - fraction) * poses[below] + fraction * poses[above])

    def block(self, samples: slice) -> MatchedLog:
        """Return consecutive samples as a log of their own."""
        return replace(
            self,
            recording=self.recording.take(samples),
            origin=self,
            first=samples.start,
        )

    def without_period(self) -> MatchedLog:
        """Return the log as one that does not repeat."""
        if self.recording.period_samples is None:
            return self
        return replace(self, recording=replace(self.recording, period_samples=None))

    @cached_property
    def settled(self) -> MatchedLog:
        """The settled whole periods as a log of their own; without periods the whole log."""
        average = self.average
        if average is None or average.recording is self.recording:
            return self
        first = int(np.searchsorted(self.recording.time, average.time[0]))
        return replace(self, recording=average.recording, origin=self, first=first)

    def perturbed(self, rng: np.random.Generator) -> MatchedLog:
        """Return the log with white noise added to its positions, as large as what they have.

        Of repeated motions that is the scatter between periods if this is less: third
        differences of positions that still settle, or move in steps, are no noise.
        """
        deviation = self.position_noise
        average = self.average
        if average is not None:
            scatter = np.sqrt(np.diag(average.position_covariance))
            deviation = np.minimum(deviation, scatter)
        position = self.recording.position
        noisy = position + deviation * rng.standard_normal(position.shape)
        return replace(
            self,
            recording=replace(self.recording, position=noisy),
            origin=self,
            first=0,
        )


def match_robot(
    model: Model, log: Recording | MatchedLog, repeats: Repeats = "declared"
) -> MatchedLog:
    """Match a recording to the robot; a log that is matched already is returned as it is.

    Recordings made from arrays are inspected here, as files are when they are read. Time
    comes before outliers: repeated rows are left out, host stamps and late samples
    corrected. Outliers are interpolated and count as not measured. Notices of the recording
    state what was changed.

    Args:
        repeats: `found` also uses a period that the positions show but the log does not
            declare.

    Raises:
        InvalidRecording: Not a log of this robot, or not on a clock that can be made even.
    """
    if isinstance(log, MatchedLog):
        return log
    recording = inspected(in_robot_order(log, model))
    check_constant_signals(recording)
    recording = with_true_instants(recording)
    recording = without_outliers(recording)
    recording = with_beyond_limits(recording, model.mechanism)
    jumps = find_jumps(recording)
    if jumps:
        recording = replace(recording, notices=(*recording.notices, *jump_notices(jumps)))
    return MatchedLog(
        recorded=log,
        recording=on_even_clock(recording, repeats),
        kinematics=model.kinematics,
        jumps=jumps,
    )
