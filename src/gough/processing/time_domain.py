"""From a recording to motions: periods averaged, or pieces of any length filtered in time.

A log that fits in memory is one block. Each block is filtered with the samples on both sides that
decide it, so the result does not depend on where blocks begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.motion import Motion
from gough.core.notices import Notice
from gough.core.record import Record
from gough.engine import Model
from gough.engine.internal_states import select_channels
from gough.fitting.regression import Regression
from gough.logs.checks import check_even
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.averaging import (
    PeriodAverage,
    average_periods,
    averaged_pose,
    check_repeats,
    leading,
)
from gough.processing.filters import (
    differentiate,
    edge_samples,
    fourier_fit,
    lowpass_periodic,
    memory_samples,
)
from gough.processing.match_robot import matched, signal_of
from gough.processing.settings import HIGHEST, PERIODIC, Method, Processing, decimation_of
from gough.processing.valid_equations import counting_rows, smeared_samples

# times the highest harmonic of the pose: where a log without periods is low-passed beside periodic
# ones
UNLIKE = 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Processed(Record):
    """A recording, or consecutive samples of it, made ready for regression."""

    motion: Motion  # of all coordinates, (t, n)
    effort: FloatArray  # of the motors, or currents as recorded if `current`, (t, a)
    current: bool  # the efforts are currents (or volts) that still want a drive gain
    sample: IntArray  # which samples of the recording these are, (t,)
    mask: BoolArray  # which equations count, (t, r)
    dead_band: FloatArray  # of the velocity sign for each coordinate, (n,) [m/s or rad/s]
    method: Method
    cutoff: float | None  # [Hz]
    decimation: int
    periods: int
    payload: str | None
    # period of each sample, (t,); None where they were averaged or there are none
    group: IntArray | None = None
    covariance: FloatArray | None = None  # noise of one sample of `effort`, (a, a)
    replicates: FloatArray | None = None  # effort of each period, (k, t, a)
    notices: tuple[Notice, ...] = ()
    quality: Mapping[str, float] = field(
        default_factory=dict
    )  # closure residual, mismatch of sensors [m or rad]
    source: str = ""
    average: PeriodAverage | None = None

    def __len__(self) -> int:
        return len(self.motion)

    def with_gains(self, gains: FloatArray) -> Processed:
        """Return the same with currents turned into efforts by drive gains, (a,)."""
        if not self.current:
            return self
        scaled = None if self.covariance is None else self.covariance * np.outer(gains, gains)
        return replace(
            self,
            effort=self.effort * gains,
            current=False,
            covariance=scaled,
            replicates=None if self.replicates is None else self.replicates * gains,
        )


def nominal_gains(model: Model, given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the drive gains that are known by motor: given ones, else the robot file's."""
    each = {
        name: (given or {}).get(name, model.mechanism.joint(name).gain)
        for name in model.mechanism.actuated
    }
    return {name: float(value) for name, value in each.items() if value is not None}


def averaged(model: Model, recording: Recording, settings: Processing) -> Processed:
    """Average the periods; filter and differentiate the pose that forward kinematics gives."""
    rate, method = check_even(recording), settings.method_for(recording)
    average = average_periods(recording)
    check_repeats(average)
    by, q, pose = averaged_pose(model, average)
    if method == "implicit":
        frequency = settings.frequency or rate / len(pose)
        cutoff, time = settings.harmonics * frequency, average.time - average.time[0]
        names = model.loops.names(by)
        smooth = fourier_fit(
            pose,
            time,
            frequency,
            settings.harmonics,
            coordinates=names,
            units=[model.mechanism.joint(name).unit for name in names],
        ).at(time)
    else:
        assert settings.cutoff is not None
        cutoff = settings.cutoff
        smooth = lowpass_periodic(pose, rate, len(pose), cutoff)
    motion = model.kinematics.motion(average.time, *smooth, by, start=q)
    bands = settings.bands(motion.coordinates)
    channels = {
        name: values.reshape(average.count, -1).mean(axis=0)
        for name, values in select_channels(
            model.mechanism, recording.channels, recording.source
        ).items()
    }
    motion, _ = model.with_internal_states(
        motion, bands, channels=channels, periodic=True, payload=recording.payload
    )
    left = (q - motion.q)[:, list(model.actuated)]
    return Processed(
        motion=motion,
        effort=average.effort,
        current=recording.effort is None,
        sample=np.arange(len(motion)),
        mask=counting_rows(model, motion, settings, settings.reach(rate), around=True),
        dead_band=bands,
        covariance=average.effort_covariance / average.count,
        replicates=average.effort_periods,
        method=method,
        cutoff=cutoff,
        decimation=settings.decimation or 1,
        periods=average.count,
        payload=recording.payload,
        notices=recording.notices + average.notices,
        source=recording.source,
        quality={
            "closure residual": float(motion.closure_residual.max()),
            "position left out by the filter": float(left.std()),
        },
        average=average,
    )


def pieces(
    model: Model, source: Recording | RecordingSource, settings: Processing, size: int
) -> Iterator[Processed]:
    """Yield the samples of a log on an even clock, filtered in time, in consecutive pieces."""
    first = source if isinstance(source, Recording) else next(iter(source.blocks(size)))
    rate, method, total = check_even(first), settings.method_for(first), length(source)
    cutoff, decimation = settings.cutoff, settings.decimation or 1
    if method == "raw":
        cutoff = None
    elif settings.method in PERIODIC:  # chosen for periodic logs, and this is none
        cutoff = min(UNLIKE * (cutoff or 0.0), HIGHEST * rate)
        decimation = decimation_of(cutoff, rate)
    reach, own, start, filter_state = settings.reach(rate), leading(model), None, None
    far = (
        max(reach, 3 * smeared_samples(settings, rate)) + 1
    )  # samples on both sides that masks look at
    halo = memory_samples(rate, cutoff) + far  # samples on both sides that decide a filtered one
    edge = 0 if cutoff is None else edge_samples(rate, cutoff)
    period = (
        first.period_samples if first.period_samples and total >= 2 * first.period_samples else None
    )
    for recording, low, inner in _windows(
        (matched(block, model) for block in source.blocks(size)), edge, halo
    ):
        check_even(recording, first=low)
        try:
            position, velocity, acceleration = differentiate(recording.position, rate, cutoff)
        except InvalidInput as error:
            raise InvalidRecording(
                f"{recording.source}: {error}", source=recording.source, **error.numbers
            ) from error
        wide = slice(max(0, inner.start - far), inner.stop + far)
        motion = model.kinematics.motion(
            recording.time[wide],
            position[wide][:, own],
            velocity[wide][:, own],
            acceleration[wide][:, own],
            start=start,
        )
        part = slice(inner.start - wide.start, inner.stop - wide.start)
        mask = counting_rows(model, motion, settings, reach)[part]
        motion, start = motion.take(part), motion.q[max(0, part.stop - far)]
        bands = settings.bands(motion.coordinates)
        channels = select_channels(model.mechanism, recording.channels, recording.source)
        motion, filter_state = model.with_internal_states(
            motion,
            bands,
            filter_state=filter_state,
            payload=recording.payload,
            channels={name: values[inner] for name, values in channels.items()},
        )
        sample = np.arange(low + inner.start, low + inner.stop)
        yield Processed(
            motion=motion,
            effort=getattr(recording, signal_of(recording))[inner],
            current=recording.effort is None,
            sample=sample,
            mask=mask,
            dead_band=bands,
            group=None if period is None else sample // period,
            method=method,
            cutoff=cutoff,
            decimation=decimation,
            periods=0 if period is None else total // period,
            payload=recording.payload,
            notices=recording.notices,
            source=recording.source,
            quality=_mismatch(model, recording.take(inner), motion),
        )


def without_absent_payloads(problem: Regression, payload: str | None) -> Regression:
    """Return the problem with the columns of payloads that were not carried set to zero (BG13
    (29)).
    """
    absent = [k for k, name in enumerate(problem.parameters) if name.payload not in (None, payload)]
    if not absent:
        return problem
    regressor = problem.regressor.copy()
    regressor[:, :, absent] = 0.0
    return replace(problem, regressor=regressor)


def length(source: Recording | RecordingSource) -> int:
    """Return how many samples a log has."""
    return len(source) if isinstance(source, Recording) else source.samples


def _windows(
    blocks: Iterator[Recording], edge: int, halo: int
) -> Iterator[tuple[Recording, int, slice]]:
    """Yield pieces of a log with a halo on both sides: samples, number of the first one, and the
    inner part.

    At most two blocks are held. The inner parts follow each other and leave out what the filter
    spoils at the log's own ends: at most a tenth of it.
    """
    held = next(blocks)
    first, begin = 0, -1  # number of the first sample held, and of the first not yet yielded
    for block in blocks:
        held = joined(held, block)
        known = first + len(held)
        if begin < 0 and known < 10 * edge:
            continue
        begin, stop = max(begin, edge), known - max(halo, edge)
        if stop <= begin + halo:
            continue
        yield held, first, slice(begin - first, stop - first)
        begin, keep = stop, max(first, stop - halo)
        held, first = held.take(slice(keep - first, None)), keep
    known = first + len(held)
    edge = min(edge, known // 10) if begin < 0 else edge  # a log seen whole may be short
    begin = max(begin, edge)
    if known - edge > begin:
        yield held, first, slice(begin - first, known - edge - first)


def joined(first: Recording, second: Recording) -> Recording:
    """Return two consecutive pieces as one; only what the regression needs is kept."""
    both: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("time", "position", "effort", "current")
        if getattr(first, name) is not None
    }
    if first.extra.names:
        both["extra"] = replace(
            second.extra, values=np.concatenate([first.extra.values, second.extra.values])
        )
    return replace(
        second, **both, velocity=None, reference=None, pose=None, passive=None, mocap=None
    )


def _mismatch(model: Model, recording: Recording, motion: Motion) -> dict[str, float]:
    """Return closure residual and, where there are more sensors than needed, their rms mismatch."""
    seen: list[tuple[str, str, FloatArray]] = []
    for label in ("pose", "passive", "mocap"):
        channels = getattr(recording, label)
        seen += [] if channels is None else [(label, name, channels[name]) for name in channels]
    if model.loops.redundant:
        seen += [("motor", *item) for item in zip(recording.joints, recording.position.T)]
    return {"closure residual": float(motion.closure_residual.max())} | {
        f"{label} {name}": float(np.sqrt(np.mean((values - motion.q[:, motion.column(name)]) ** 2)))
        for label, name, values in seen
        if name in motion.coordinates
    }
