"""From a matched log to the motion of all coordinates, its efforts and the valid equations.

One function filters, differentiates, closes the loops, computes
internal states and finds the valid equations of consecutive samples: of
a whole log, of every few samples of it, or of a block of a log that
does not fit in memory. A block is filtered with the samples on both
sides that influence it, so that results do not depend on where blocks
begin. Repeated motions are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.motion import Motion
from gough.core.notices import Notice
from gough.core.parameters import BaseParameters
from gough.core.record import Record
from gough.core.trajectory import PositionVelocityAcceleration
from gough.engine import Model
from gough.engine.internal_states import FilterState, select_channels
from gough.fitting.regression import Regression
from gough.logs.checks import check_even
from gough.logs.recording import Recording
from gough.processing.averaging import PeriodAverage, check_repeats
from gough.processing.filters import (
    decimated,
    decimation_taps,
    differentiate,
    edge_samples,
    fourier_fit,
    lowpass,
    lowpass_periodic,
    together,
)
from gough.processing.matching import MatchedLog
from gough.processing.settings import (
    MAX_CUTOFF_RATIO,
    PERIODIC,
    Method,
    Processing,
    decimation_of,
)
from gough.processing.valid_equations import valid_equations, velocity_noise

# Cut-off of a log without periods in an experiment of periodic logs, in
# units of the highest harmonic of their pose.
NON_PERIODIC_CUTOFF_RATIO = 5.0
REGRESSOR_SAMPLES = 4096  # samples of regressor held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class ProcessedLog(Record):
    """Motion of all coordinates with the efforts beside it, and which equations are valid."""

    model: Model  # the robot
    # of all coordinates, loops closed, with internal states of joint
    # terms, (t, n)
    motion: Motion
    # of the motors, or currents as recorded if `current`, (t, a)
    effort: FloatArray
    # the efforts are currents (or volts), to be multiplied by drive
    # gains
    current: bool
    sample: IntArray  # number of each sample in the recording, (t,)
    valid: BoolArray  # equations used in fits, (t, r)
    # of the velocity sign for each coordinate, (n,) [m/s or rad/s]
    dead_band: FloatArray
    settings: Processing  # with which the log was processed
    method: Method  # used for this log
    cutoff: float | None  # used for this log [Hz]
    decimation: int  # of the regression of these samples
    periods: int  # whole periods in the log; 0 without a period
    payload: str | None  # carried by the robot
    # period of each sample, (t,); None where periods were averaged or
    # there are none
    group: IntArray | None = None
    # of the noise of one sample of `effort`, (a, a)
    covariance: FloatArray | None = None
    # effort of each period of a periodic log, (k, t, a)
    repetitions: FloatArray | None = None
    notices: tuple[Notice, ...] = ()  # about the recording and its periods
    # largest closure residual, rms mismatch of additional sensors [m or
    # rad]
    quality: Mapping[str, float] = field(default_factory=dict)
    source: str = ""  # name of the log
    average: PeriodAverage | None = None  # of the periods of a periodic log
    # samples that were measured, (t,); None if all were
    measured: BoolArray | None = None
    # the log; None for a block of one that stays in its file
    matched: MatchedLog | None = None

    def __len__(self) -> int:
        return len(self.motion)

    @property
    def periodic(self) -> bool:
        """True if the samples are one averaged period."""
        return self.average is not None

    @property
    def moving(self) -> BoolArray:
        """True where the joint of a row moves faster than its dead band, (t, r)."""
        coordinates = self.model.mechanism.coordinates
        columns = [coordinates.index(row) for row in self.model.rows]
        speed = np.abs(self.motion.qd[:, columns])
        return np.asarray(speed > self.dead_band[columns])

    def at(self, settings: Processing) -> ProcessedLog:
        """Return the same log processed with other settings; Newton starts at the kept pose.

        Drive gains that were applied are not applied again.
        """
        return process_log(self.model, self.whole_log, settings)

    def perturbed(self, rng: np.random.Generator) -> ProcessedLog:
        """Return the same log with the noise of its positions added once more."""
        log = self.whole_log
        if self.periodic:
            log = log.settled
        return process_log(self.model, log.perturbed(rng), self.settings)

    @property
    def whole_log(self) -> MatchedLog:
        """The log that was processed; an error for a block of one that stays in its file."""
        if self.matched is None:
            raise InvalidInput(f"{self.source}: a block of a log cannot be processed again")
        return self.matched

    def with_gains(self, gains: FloatArray) -> ProcessedLog:
        """Return the same log with currents turned into efforts by drive gains, (a,).

        A log of efforts is returned as it is.
        """
        if not self.current:
            return self
        covariance = self.covariance
        if covariance is not None:
            covariance = covariance * np.outer(gains, gains)
        repetitions = self.repetitions
        if repetitions is not None:
            repetitions = repetitions * gains
        return replace(
            self,
            effort=self.effort * gains,
            current=False,
            covariance=covariance,
            repetitions=repetitions,
        )

    def with_bands(self, settings: Processing) -> ProcessedLog:
        """Return the same motion with internal states and valid equations for other dead bands.

        Dead bands, the window around velocity reversals and the joints
        at rest are those of the settings. Only samples of this motion
        are considered: a reversal before the first or after the last of
        them excludes nothing.
        """
        bands = settings.bands(self.motion.coordinates)
        motion, _ = self.model.with_internal_states(
            self.motion, bands, periodic=self.periodic, payload=self.payload
        )
        return replace(
            self,
            motion=motion,
            dead_band=bands,
            settings=settings,
            valid=self.valid_at(settings),
        )

    def valid_at(self, settings: Processing) -> BoolArray:
        """Return which equations of these samples are valid with other settings, (t, r)."""
        valid = valid_equations(self.model, self.motion, settings, periodic=self.periodic)
        if self.measured is None:
            return valid
        return valid & self.measured[:, None]

    @property
    def velocity_noise(self) -> FloatArray:
        """Standard deviation of the velocities of the motors, (a,). [m/s or rad/s]"""
        if self.average is not None:
            deviation = np.sqrt(self.average.mean_position_variance)
            rate = self.average.rate
        else:
            deviation = self.whole_log.position_noise
            rate = self.whole_log.recording.rate
        highest = MAX_CUTOFF_RATIO * rate
        cutoff = highest
        if self.cutoff is not None:
            cutoff = min(self.cutoff, highest)
        return velocity_noise(deviation, rate, cutoff)


class TimeFilter(NamedTuple):
    """How a log is filtered in time."""

    method: Method
    cutoff: float | None  # None: positions are not filtered [Hz]
    decimation: int  # of the regression
    rate: float  # of the samples [Hz]

    @classmethod
    def of(cls, settings: Processing, recording: Recording, every: int = 1) -> TimeFilter:
        """Return the filter of a log without periods, of which one in `every` samples is kept."""
        rate = check_even(recording)
        method = settings.method_for(recording)
        cutoff = settings.cutoff
        decimation = settings.decimation
        if method == "raw" or cutoff is None:
            return cls(method, None, max(1, (decimation or 1) // every), rate)
        if settings.method in PERIODIC:  # chosen for periodic logs, which this one is not
            cutoff = min(NON_PERIODIC_CUTOFF_RATIO * cutoff, MAX_CUTOFF_RATIO * rate)
            decimation = None
        if decimation is None:
            kept = decimation_of(cutoff, rate / every)
        else:
            kept = max(1, decimation // every)
        return cls(method, cutoff, kept, rate)

    @property
    def edge(self) -> int:
        """Samples at each end of a log that the filter spoils."""
        if self.cutoff is None:
            return 0
        return edge_samples(self.rate, self.cutoff)

    def differentiate(self, recording: Recording) -> PositionVelocityAcceleration:
        """Return filtered positions, velocities and accelerations of the motors, (t, a) each."""
        try:
            return differentiate(recording.position, self.rate, self.cutoff)
        except InvalidInput as error:
            raise InvalidRecording(
                f"{recording.source}: {error}",
                source=recording.source,
                **error.numbers,
            ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class LogBlock:
    """Consecutive samples of a log in memory, and which of them are kept."""

    recording: Recording  # in the robot's joint order
    kept: range  # samples of `recording` to keep; one in kept.step
    log_samples: int  # samples of the whole log
    first: int = 0  # number of the first sample of `recording` in the log
    matched: MatchedLog | None = None  # the log, if it is in memory


class ProcessedBlock(NamedTuple):
    """A processed block, and from where the next one continues."""

    log: ProcessedLog
    pose: FloatArray  # near the first pose that the next block needs, (n,)
    # internal state of joint terms after the last sample
    state: FilterState | None


def process_log(
    model: Model, log: MatchedLog, settings: Processing, *, every: int = 1
) -> ProcessedLog:
    """Process a log that fits in memory.

    Args:
        every: Keep one in so many samples of a log that is processed in
            time. Its efforts are low-passed so that nothing is aliased.
    """
    if settings.method_for(log.recording) in PERIODIC:
        return process_periods(model, log, settings)
    recording = log.recording
    time_filter = TimeFilter.of(settings, recording, every)
    half_window = len(decimation_taps(every)) // 2
    ends = max(min(time_filter.edge, len(recording) // 10), half_window)
    first = -(-ends // every) * every  # rounded up to a multiple
    kept = range(first, len(recording) - ends, every)
    if not kept:
        raise InvalidRecording(
            f"{log.source}: {len(recording)} samples are too few to filter",
            source=log.source,
        )
    block = LogBlock(
        recording=recording,
        kept=kept,
        log_samples=len(recording),
        matched=log,
    )
    return process_block(model, block, settings, time_filter).log


def validity_halo(settings: Processing, rate: float) -> int:
    """Return how many samples on both sides decide whether equations are valid."""
    return max(settings.excluded_samples(rate), 3 * settings.smeared_samples(rate)) + 1


def process_block(
    model: Model,
    block: LogBlock,
    settings: Processing,
    time_filter: TimeFilter,
    pose: FloatArray | None = None,
    state: FilterState | None = None,
) -> ProcessedBlock:
    """Filter, differentiate, close loops, compute internal states and find valid equations.

    Args:
        pose: Where Newton's method starts if the log has no poses of
            its own, (n,); the reference configuration by default.
        state: Internal state of joint terms after the last block.
    """
    recording = block.recording
    kept = block.kept
    rate = time_filter.rate / kept.step
    halo = validity_halo(settings, rate)
    before = min(halo, kept.start // kept.step)
    after = min(halo, (len(recording) - 1 - kept[-1]) // kept.step)
    samples_and_halo = np.arange(-before, len(kept) + after) * kept.step + kept.start
    inner = slice(before, before + len(kept))
    motion = _closed_motion(model, block, samples_and_halo, time_filter, pose)
    next_pose = motion.q[max(0, inner.stop - halo)]
    valid = valid_equations(model, motion, settings)[inner]
    motion = motion.take(inner)
    samples = samples_and_halo[inner]
    bands = settings.bands(motion.coordinates)
    channels = select_channels(model.mechanism, recording.channels, recording.source)
    motion, state = model.with_internal_states(
        motion,
        bands,
        filter_state=state,
        payload=recording.payload,
        channels={name: signal[samples] for name, signal in channels.items()},
    )
    measured = None
    if recording.measured is not None:
        measured = recording.measured[samples]
        valid = valid & measured[:, None]
    numbers = samples + block.first
    period = recording.period_samples
    n_periods = 0
    period_number = None
    if period is not None and block.log_samples >= 2 * period:
        n_periods = block.log_samples // period
        period_number = numbers // period
    log = ProcessedLog(
        model=model,
        motion=motion,
        effort=_thinned_effort(recording, kept),
        current=recording.effort is None,
        sample=numbers,
        valid=valid,
        measured=measured,
        dead_band=bands,
        settings=settings,
        method=time_filter.method,
        cutoff=time_filter.cutoff,
        decimation=time_filter.decimation,
        periods=n_periods,
        payload=recording.payload,
        group=period_number,
        notices=recording.notices,
        quality=_mismatch(model, recording, motion, _as_slice(kept)),
        source=recording.source,
        matched=block.matched,
    )
    return ProcessedBlock(log, next_pose, state)


def _closed_motion(
    model: Model,
    block: LogBlock,
    samples: IntArray,
    time_filter: TimeFilter,
    pose: FloatArray | None,
) -> Motion:
    """Return the motion of all coordinates at some samples of a block, loops closed."""
    recording = block.recording
    motors = model.kinematics.motor_columns
    position, velocity, acceleration = time_filter.differentiate(recording)
    start = pose
    if block.matched is not None:
        start = block.matched.pose_near(samples + block.first)
    return model.kinematics.motion(
        recording.time[samples],
        position[samples][:, motors],
        velocity[samples][:, motors],
        acceleration[samples][:, motors],
        start=start,
    )


def _as_slice(samples: range) -> slice:
    return slice(samples.start, samples.stop, samples.step)


def _thinned_effort(recording: Recording, kept: range) -> FloatArray:
    """Return efforts or currents of the kept samples, low-passed if samples between are left out.

    (t, a)
    """
    signal: FloatArray = getattr(recording, recording.motor_signal)
    if kept.step == 1:
        return signal[_as_slice(kept)]
    half_window = len(decimation_taps(kept.step)) // 2
    return lowpass(signal[kept.start - half_window :], kept.step)[: len(kept)]


def process_periods(model: Model, log: MatchedLog, settings: Processing) -> ProcessedLog:
    """Average the periods; filter and differentiate the pose that forward kinematics gives."""
    average = log.average
    assert average is not None
    check_repeats(average)
    recording = average.recording
    cutoff, motion = _periodic_motion(model, log, average, settings)
    bands = settings.bands(motion.coordinates)
    channels = {}
    if model.mechanism.channels:
        signals = select_channels(model.mechanism, recording.channels, recording.source)
        for name, signal in signals.items():
            by_period = signal.reshape(average.count, -1)
            channels[name] = np.asarray(by_period.mean(axis=0))
    motion, _ = model.with_internal_states(
        motion,
        bands,
        channels=channels,
        periodic=True,
        payload=recording.payload,
    )
    removed = (log.mean_pose - motion.q)[:, list(model.actuated)]
    return ProcessedLog(
        model=model,
        motion=motion,
        effort=average.effort,
        current=recording.effort is None,
        sample=np.arange(len(motion)),
        valid=valid_equations(model, motion, settings, periodic=True),
        dead_band=bands,
        settings=settings,
        method=settings.method_for(recording),
        cutoff=cutoff,
        decimation=settings.decimation or 1,
        periods=average.count,
        payload=recording.payload,
        covariance=average.mean_effort_covariance,
        repetitions=recording.periods(recording.motor_signal),
        notices=recording.notices + average.notices,
        quality={
            "closure residual": float(motion.closure_residual.max()),
            "position left out by the filter": float(removed.std()),
        },
        source=recording.source,
        average=average,
        matched=log,
    )


def _periodic_motion(
    model: Model, log: MatchedLog, average: PeriodAverage, settings: Processing
) -> tuple[float, Motion]:
    """Return the cut-off and the motion of the mean period, its pose filtered. [Hz]"""
    kinematics = model.kinematics
    pose = kinematics.pose_of(log.mean_pose)
    if settings.method_for(average.recording) == "implicit":
        cutoff, smooth = _fourier_pose(model, average, pose, settings)
    else:
        assert settings.cutoff is not None
        cutoff = settings.cutoff
        smooth = lowpass_periodic(pose, average.rate, len(pose), cutoff)
    motion = kinematics.motion(
        average.time,
        *smooth,
        kinematics.pose_coordinates,
        start=log.mean_pose,
    )
    return cutoff, motion


def _fourier_pose(
    model: Model, average: PeriodAverage, pose: FloatArray, settings: Processing
) -> tuple[float, PositionVelocityAcceleration]:
    """Return the highest frequency of the implicit Fourier fit, and the fitted pose. [Hz]"""
    frequency = settings.frequency or average.rate / len(pose)
    time = average.time - average.time[0]
    names = model.loops.names(model.kinematics.pose_coordinates)
    series = fourier_fit(
        pose,
        time,
        frequency,
        settings.harmonics,
        coordinates=names,
        units=[model.mechanism.joint(name).unit for name in names],
    )
    return settings.harmonics * frequency, series.at(time)


def _mismatch(
    model: Model, recording: Recording, motion: Motion, samples: slice
) -> dict[str, float]:
    """Return the closure residual and the rms mismatch of sensors beyond those needed.

    Args:
        samples: Those of the recording that the motion has.
    """
    mismatch = {"closure residual": float(motion.closure_residual.max())}
    for label, name, measured in _additional_sensors(model, recording):
        if name in motion.coordinates:
            difference = measured[samples] - motion.q[:, motion.column(name)]
            rms = np.sqrt(np.mean(difference**2))
            mismatch[f"{label} {name}"] = float(rms)
    return mismatch


def _additional_sensors(
    model: Model, recording: Recording
) -> Iterator[tuple[str, str, FloatArray]]:
    """Yield kind, coordinate and samples of measured coordinates that are not needed, (t,)."""
    for label in ("pose", "passive", "mocap"):
        channels = getattr(recording, label)
        for name in channels or ():
            yield label, name, channels[name]
    if model.loops.redundant:
        for name, measured in zip(recording.joints, recording.position.T):
            yield "motor", name, measured


def regression(
    model: Model,
    processed: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    *,
    decimate: bool = True,
) -> Regression:
    """Return the linear problem of a processed log.

    Columns named `payload.<name>.*` of payloads that this log does not
    carry are zero (BG13 (29)).
    """
    if not decimate or processed.decimation == 1:
        return next(blocks_of_regression(model, processed, parameters, len(processed)))
    blocks = blocks_of_regression(model, processed, parameters, REGRESSOR_SAMPLES)
    thinned = list(decimated(blocks, processed.decimation, periodic=processed.periodic))
    if not thinned:
        raise InvalidRecording(
            f"{processed.source}: {len(processed)} samples are too few to decimate by "
            f"{processed.decimation}; raise the cut-off or decimate less",
            source=processed.source,
        )
    return together(thinned)


def blocks_of_regression(
    model: Model,
    processed: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    length: int,
) -> Iterator[Regression]:
    """Yield the regression of all samples in consecutive blocks of at most `length`."""
    if processed.current:
        raise InvalidRecording(
            f"{processed.source}: the log holds currents and the drive gains are not known; give "
            "'gain' in the robot file, or identify the gains from a loaded and an unloaded log"
        )
    repetitions = processed.repetitions
    group = processed.group
    for start in range(0, len(processed), length):
        samples = slice(start, start + length)
        replicates = None
        if repetitions is not None:
            pose = processed.motion.q[samples]
            periods = []
            for period in repetitions:
                periods.append(model.project_to_rows(pose, period[samples]))
            replicates = np.stack(periods)
        group_of_samples = None
        if group is not None:
            group_of_samples = group[samples]
        yield replace(
            equations_of_samples(model, processed, parameters, samples, processed.effort),
            replicates=replicates,
            mask=processed.valid[samples],
            sample=processed.sample[samples],
            group=group_of_samples,
        )


def equations_of_samples(
    model: Model,
    log: ProcessedLog,
    parameters: BaseParameters | Sequence[str],
    samples: slice | IntArray | BoolArray,
    effort: FloatArray,
) -> Regression:
    """Return the equations of some samples of a log as they are, valid or not.

    Args:
        samples: Which ones.
        effort: Of all samples of the log, (t, a). [N or N m]
    """
    regression = model.regression(
        log.motion.take(samples),
        effort[samples],
        parameters,
        dead_band=log.dead_band,
        covariance=log.covariance,
    )
    return without_absent_payloads(regression, log.payload)


def without_absent_payloads(problem: Regression, payload: str | None) -> Regression:
    """Return the problem with zero columns for payloads that were not carried (BG13 (29))."""
    carried = (None, payload)
    absent = []
    for k, name in enumerate(problem.parameters):
        if name.payload not in carried:
            absent.append(k)
    if not absent:
        return problem
    regressor = problem.regressor.copy()
    regressor[:, :, absent] = 0.0
    return replace(problem, regressor=regressor)
