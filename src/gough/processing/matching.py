"""Match a log to its robot: everything about it that does not depend on the settings.

The recording is brought into the robot's form: joint order, motor side,
even clock, whole periods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import (
    InvalidInput,
    InvalidRecording,
    LoopNotClosed,
    SingularConfiguration,
    nearest,
)
from gough.core.record import Record
from gough.core.units import dimension_of
from gough.engine import Model
from gough.engine.kinematics import ClosedChain
from gough.logs.checks import BEYOND_LIMIT_RATIO, inspected, is_even, most_unusual_step
from gough.logs.clocks import with_true_instants
from gough.logs.messages import log_notice
from gough.logs.outliers import Jump, find_jumps, jump_notices, without_outliers
from gough.logs.periods import (
    estimate_period,
    repetition,
    resample_evenly,
    resample_to_period,
)
from gough.logs.recording import JOINT_KINDS, Recording
from gough.mechanism import Mechanism
from gough.mechanism.types import Transmission
from gough.processing.averaging import PeriodAverage, average_periods, pose_cutoff
from gough.processing.settings import Repeats
from gough.processing.valid_equations import position_noise

# of the notice on a motion that repeats although no period is stated
PERIOD_RULE = "period"
# Mean square of an early period's first tenth over the usual one from
# which the motion is still settling: by chance 1 in 1000 if a tenth of
# a period holds ten independent errors.
TRANSIENT_RATIO = 3.0
# Differences between periods below this fraction of a signal's standard
# deviation are ignored.
TRANSIENT_FLOOR = 1e-4
# poses of at most twice so many samples of a log are kept
POSE_SAMPLES = 20000


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedLog(Record):
    """A recording in the robot's joint order and on an even clock, with the poses it passes.

    The loops are closed once from the recorded positions; whatever
    processes the log with one setting or another starts Newton's method
    at these poses. A block of a log, or the same log with slightly
    different positions, starts at the poses of that log, its `origin`.
    """

    recorded: Recording  # the whole log as it was read
    recording: Recording  # joints in the robot's order, even clock
    kinematics: ClosedChain  # of the robot
    # the log whose poses are near those of this one
    origin: MatchedLog | None = None
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
        positions = average.recording.periods("position")
        deviation = (positions - average.position)[:, :, motors]
        scatter = np.einsum("tma,pta->ptm", to_pose, deviation, optimize=True)
        variance = average.rounding_variance[motors]
        rounding_by_sample = np.einsum("tma,a->m", to_pose**2, variance)
        rounding = rounding_by_sample / len(to_pose)
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

        A single wrong sample may have no pose although the filtered
        positions have one.
        """
        kept = slice(0, len(self), self._stride)
        position = self.recording.position[kept]
        time = self.recording.time[kept]
        try:
            return self.kinematics.close_loops(position, "actuated", time=time)
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
        before = (1 - fraction) * poses[below]
        after = fraction * poses[above]
        return np.asarray(before + after)

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
        recording = replace(self.recording, period_samples=None)
        return replace(self, recording=recording)

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

        Of repeated motions that is the scatter between periods if this
        is less: third differences of positions that still settle, or
        move in steps, are no noise.
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

    Recordings made from arrays are inspected here, as files are when
    they are read. Time comes before outliers: repeated rows are left
    out, host stamps and late samples corrected. Outliers are
    interpolated and count as not measured. Notices of the recording
    state what was changed.

    Args:
        repeats: `found` also uses a period that the positions show but
            the log does not declare.

    Raises:
        InvalidRecording: Not a log of this robot, or not on a clock
            that can be made even.
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
        recording = recording.with_notices(jump_notices(jumps))
    return MatchedLog(
        recorded=log,
        recording=on_even_clock(recording, repeats),
        kinematics=model.kinematics,
        jumps=jumps,
    )


def on_motor_side(recording: Recording, mechanism: Mechanism) -> Recording:
    """Return the recording with joint columns of transmissions converted to their motors.

    With q_joints = B q_motors, positions are B^-1 q_joints and efforts
    are B^T times those of the joints, unless the transmission states
    that they are the motors' already.
    """
    for gear in mechanism.transmissions:
        if set(gear.joints) <= set(recording.joints):
            recording = _through_transmission(recording, mechanism, gear)
    return recording


def _through_transmission(
    recording: Recording, mechanism: Mechanism, gear: Transmission
) -> Recording:
    """Return the recording with the columns of one transmission converted to its motors."""
    columns = [recording.joints.index(name) for name in gear.joints]
    matrices: dict[str, NDArray[Any]] = {}
    if gear.positions == "joints":
        inverse = np.linalg.inv(gear.matrix).T
        matrices = {
            "position": inverse,
            "velocity": inverse,
            "reference": inverse,
        }
    if gear.efforts == "joints":
        matrices["effort"] = gear.matrix
    changed: dict[str, Any] = {}
    for kind, matrix in matrices.items():
        signal = getattr(recording, kind)
        if signal is not None:
            converted = np.array(signal)
            converted[:, columns] = signal[:, columns] @ matrix
            changed[kind] = converted
    names = list(recording.joints)
    units = list(recording.position_units)
    for column, motor in zip(columns, gear.motors):
        joint_unit = mechanism.joint(names[column]).unit
        if gear.positions == "joints" and units[column] == joint_unit:
            units[column] = mechanism.joint(motor).unit
        names[column] = motor
    return replace(recording, joints=tuple(names), position_units=tuple(units), **changed)


def in_robot_order(recording: Recording, model: Model) -> Recording:
    """Return the recording with its joints in the robot's order.

    Raises:
        InvalidRecording: Joints or units are not those of the robot, or
            there is neither effort nor current.
    """
    mechanism = model.mechanism
    if mechanism.transmissions:
        recording = on_motor_side(recording, mechanism)
    _check_joints(recording, mechanism)
    if recording.payload is not None:
        mechanism.payload(recording.payload)
    _ = recording.motor_signal  # raises if there is none
    motors = mechanism.actuated
    if recording.joints == motors:
        return recording
    order = [recording.joints.index(name) for name in motors]
    changed: dict[str, Any] = {}
    for kind in JOINT_KINDS:
        signal = getattr(recording, kind)
        if signal is not None:
            changed[kind] = signal[:, order]
    units = recording.position_units
    changed["position_units"] = tuple(units[k] for k in order)
    if recording.current_units:
        units = recording.current_units
        changed["current_units"] = tuple(units[k] for k in order)
    return replace(recording, joints=motors, **changed)


def _check_joints(recording: Recording, mechanism: Mechanism) -> None:
    """Raise `InvalidRecording` unless the columns are the motors of the robot, in their units."""
    source = recording.source
    motors = mechanism.actuated
    for name in motors:
        if name not in recording.joints:
            raise InvalidRecording(
                f"{source}: no column for the actuated joint '{name}' of '{mechanism.name}'"
                f"{nearest(name, recording.joints)}; the log is of another robot, or its columns "
                "have to be renamed",
                source=source,
                joint=name,
            )
    for name, unit in zip(recording.joints, recording.position_units):
        if name not in motors:
            raise InvalidRecording(
                f"{source}: column '{name}' is no actuated joint of '{mechanism.name}'"
                f"{nearest(name, motors)}",
                source=source,
                joint=name,
            )
        expected = mechanism.joint(name).unit
        if unit != expected:
            raise InvalidRecording(
                f"{source}: the position of '{name}' has a unit of {dimension_of(unit)}, expected "
                f"{dimension_of(expected)}; correct the unit of its column",
                source=source,
                joint=name,
            )


def known_gains(model: Model, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the drive gains that are known, by motor: the given one, else the robot file's."""
    stated = {**model.mechanism.drive_gains, **(given or {})}
    gains = {}
    for name in model.mechanism.actuated:
        if name in stated:
            gains[name] = float(stated[name])
    return gains


def drive_gains(model: Model, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the drive gain of every motor: the given one, else that of the robot file.

    Raises:
        InvalidInput: A gain is not positive, or given for a joint that
            is no motor.
        InvalidRecording: The gain of a motor is not known.
    """
    motors = model.mechanism.actuated
    gain_by_motor = known_gains(model, given)
    for name in given or {}:
        if name not in motors:
            raise InvalidInput(f"drive gain for '{name}', which is no motor{nearest(name, motors)}")
    for name in motors:
        if name not in gain_by_motor:
            raise InvalidRecording(
                f"the log holds currents but the drive gain of '{name}' is not known; give 'gain' "
                "in the robot file, or identify the gains from an unloaded log and one with a "
                "weighed payload, or with `find_gains` and another log in efforts; if the column "
                "is a fraction of the rated torque (% or ‰), rename its table in the description "
                "to [effort] and add its rated torque and gear ratio"
            )
        if not gain_by_motor[name] > 0:
            raise InvalidInput(
                f"the drive gain of '{name}' is {gain_by_motor[name]}, expected a positive number"
            )
    return gain_by_motor


def on_even_clock(recording: Recording, repeats: Repeats = "declared") -> Recording:
    """Return the recording on an even clock, with the period of a repeated motion.

    Args:
        repeats: `found` also uses a period that the positions show but
            the log does not declare.
    """
    if len(recording) < 2 or not is_even(recording.time):
        recording = _resampled(recording)
    if recording.period_samples is not None:
        return recording
    seconds = repetition(recording)
    if seconds is None:
        return recording
    if repeats == "found":
        period = estimate_period(recording, seconds)
        return resample_to_period(recording, period)
    notice = log_notice(
        PERIOD_RULE,
        recording.source,
        f"the motion repeats every {seconds:.4g} s although no period is stated",
        f'write period = "{seconds:.4g} s" into the description of the log, or use '
        "`repeats='found'`: periods are then averaged, and noise is separated from motion",
        seconds=seconds,
    )
    return recording.with_notices([notice])


def _resampled(recording: Recording) -> Recording:
    """Return the recording on an even clock, with a notice of how uneven it was."""
    resampled = resample_evenly(recording)
    sample, deviation = most_unusual_step(recording.time)
    n_filled = 0
    if resampled.measured is not None:
        n_filled = int((~resampled.measured).sum())
    notice = log_notice(
        "resampled",
        resampled.source,
        f"put on an even clock of {resampled.rate:.6g} Hz; the step after sample "
        f"{sample} was {deviation:.1%} off the usual one, and "
        f"{n_filled} samples without a measurement nearby are excluded",
        rate=resampled.rate,
        filled=n_filled,
    )
    return resampled.with_notices([notice])


def settled_periods(recording: Recording) -> Recording:
    """Return the whole periods of a recording without those in which the motion still settles.

    Notices of the returned recording state what was left out.
    """
    period = recording.period_samples
    assert period is not None
    whole = recording.take(slice(0, recording.period_count * period))
    n_incomplete = len(recording) - len(whole)
    n_transient = unsettled_periods(whole)
    n_averaged = whole.period_count - n_transient
    notices = []
    if n_incomplete:
        notice = log_notice(
            "incomplete",
            recording.source,
            f"the last period stops after {n_incomplete} of {period} samples and was left out; "
            f"{n_averaged} whole ones are averaged",
            samples=n_incomplete,
            period=period,
        )
        notices.append(notice)
    if n_transient:
        notice = log_notice(
            "transient",
            recording.source,
            f"the motion still settles in the first {n_transient} of {whole.period_count} "
            f"periods, left out; {n_averaged} are averaged",
            periods=n_transient,
        )
        notices.append(notice)
    if not notices:
        return recording
    kept = recording.take(slice(n_transient * period, len(whole)))
    return kept.with_notices(notices)


def with_beyond_limits(recording: Recording, mechanism: Mechanism) -> Recording:
    """Return the recording with a warning on efforts that their motors cannot have."""
    if recording.effort is None:
        return recording
    notices = []
    for name, effort in zip(mechanism.actuated, recording.effort.T):
        joint = mechanism.joint(name)
        limit = joint.limits.effort
        largest = float(np.abs(effort).max())
        if limit is not None and largest > BEYOND_LIMIT_RATIO * limit:
            unit = joint.effort_unit
            notice = log_notice(
                "beyond limit",
                f"{name}.effort",
                f"reaches {largest:.4g} {unit}, {largest / limit:.1f} times the limit of "
                f"{limit:.4g} {unit} in the robot file",
                "check unit, rated value and gear ratio of the log, or the limit",
                level="warning",
                largest=largest,
                limit=limit,
            )
            notices.append(notice)
    if not notices:
        return recording
    return recording.with_notices(notices)


def check_constant_signals(recording: Recording) -> None:
    """Raise `InvalidRecording` if an effort or current never changes: it holds no information."""
    kind = recording.motor_signal
    joints = recording.joints
    signal = getattr(recording, kind)
    if not len(signal):
        return
    constant = np.flatnonzero(np.ptp(signal, axis=0) == 0).tolist()
    if constant:
        channels = ", ".join(f"{joints[k]}.{kind}" for k in constant)
        raise InvalidRecording(
            f"{recording.source}: dead: all {len(signal)} samples of {channels} are "
            f"{signal[0, constant[0]]:.6g}; is the channel connected? Record it, or name the right "
            "column in the description",
            source=recording.source,
            joint=joints[constant[0]],
        )


def unsettled_periods(recording: Recording) -> int:
    """Return how many of the first periods belong to a motion that still settles.

    A period is unsettled if in its first tenth a channel differs from
    the mean of the later periods with a mean square over
    `TRANSIENT_RATIO` times the largest of: the median of its tenths,
    the scatter of the later periods, and `TRANSIENT_FLOOR` of the
    signal. At least two periods remain.

    Args:
        recording: Whole periods only.
    """
    signals = []
    for kind in ("position", "effort", "current"):
        if getattr(recording, kind) is not None:
            signals.append(recording.periods(kind))
    periods = np.concatenate(signals, axis=2)
    for first in range(len(periods) - 2):
        if _is_settled(periods[first], periods[first + 1 :]):
            return first
    return max(len(periods) - 2, 0)


def _is_settled(period: NDArray[Any], later: NDArray[Any]) -> bool:
    """Return whether the first tenth of a period (N, c) agrees with later ones, (k, N, c)."""
    tenth = max(1, len(period) // 10)
    mean = later.mean(axis=0)
    floor = (TRANSIENT_FLOOR * later.std(axis=(0, 1))) ** 2
    square = (period - mean) ** 2 * len(later) / (len(later) + 1)
    means_of_tenths = []
    for start in range(0, len(square), tenth):
        means_of_tenths.append(square[start : start + tenth].mean(axis=0))
    tenths = np.array(means_of_tenths)
    scatter = ((later - mean) ** 2).sum(axis=0) / (len(later) - 1)
    alternatives: Sequence[FloatArray] = (
        np.median(tenths, axis=0),
        scatter.mean(axis=0),
        scatter[:tenth].mean(axis=0),
        floor,
    )
    usual = np.max(alternatives, axis=0)
    return bool((tenths[0] <= TRANSIENT_RATIO * usual).all())
