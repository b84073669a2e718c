"""Pieces of a log made ready for regression, and their regressions.

A log that fits in memory is one block. Each block is filtered with the samples on both sides that decide it, so the
result does not depend on where blocks begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.regression import LABELS, Regression
from gough.core.showing import ShortRepr
from gough.engine import Model
from gough.engine.loops import By
from gough.engine.memory import channels_of
from gough.logs.checks import check_even
from gough.logs.finding import Finding
from gough.logs.readers import RecordingSource
from gough.logs.recording import Recording
from gough.processing.averaging import PeriodAverage, average_periods, check_repeats
from gough.processing.decimation import decimated
from gough.processing.filters import differentiate, edge_samples, memory_samples
from gough.processing.frequency import fourier_fit, lowpass_periodic
from gough.processing.masks import counting_rows, smeared_samples
from gough.processing.ready import matched
from gough.processing.settings import HIGHEST, UNLIKE, Method, Processing, decimation_of

BLOCK = 4096  # samples of regressor held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Processed(ShortRepr):
    """A recording, or consecutive samples of it, made ready for regression.

    Args:
        motion: Motion of all coordinates, (t, n).
        effort: Motor efforts, or currents as recorded if `current`, (t, a).
        current: The efforts are currents (or volts) that still want a drive gain.
        sample: Which samples of the recording these are, (t,).
        mask: Which equations count, (t, r).
        group: Period of each sample, (t,); None where periods were averaged or there are none.
        covariance: Noise of one sample of `effort`, (a, a), or None if unknown.
        replicates: Effort of each period, (k, t, a), or None.
        dead_band: Of the velocity sign for each coordinate, (n,). [m/s or rad/s]
        method, cutoff, decimation, periods: What was done.
        payload: Name of the payload carried, or None.
        findings: What reading and processing found.
        quality: Figures by name: closure residual, mismatch of further sensors. [m or rad]
        source: Where the samples come from.
        average: The averaged period, or None.
    """

    motion: Motion
    effort: FloatArray
    current: bool
    sample: IntArray
    mask: BoolArray
    group: IntArray | None
    covariance: FloatArray | None
    replicates: FloatArray | None
    dead_band: FloatArray
    method: Method
    cutoff: float | None
    decimation: int
    periods: int
    payload: str | None
    findings: tuple[Finding, ...] = ()
    quality: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    average: PeriodAverage | None = None

    def __len__(self) -> int:
        return len(self.motion)

    def with_gains(self, gains: FloatArray) -> Processed:
        """Return the same with currents turned into efforts by drive gains, (a,)."""
        if not self.current:
            return self
        scaled = None if self.covariance is None else self.covariance * np.outer(gains, gains)
        return replace(self, effort=self.effort * gains, current=False, covariance=scaled,
                       replicates=None if self.replicates is None else self.replicates * gains)


def averaged(model: Model, recording: Recording, settings: Processing) -> Processed:
    """Average the periods; filter and differentiate the pose that forward kinematics gives."""
    rate = check_even(recording)
    average = average_periods(recording)
    check_repeats(average)
    by, q, pose = averaged_pose(model, average)
    method = settings.method_for(recording)
    time = average.time - average.time[0]
    if method == "implicit":
        frequency = settings.frequency or rate / len(pose)
        names = [model.mechanism.coordinates[i] for i in model.loops.partitions[by].independent]
        cutoff = settings.harmonics * frequency
        smooth = fourier_fit(pose, time, frequency, settings.harmonics, coordinates=names,
                             units=[model.mechanism.joint(name).unit for name in names]).at(time)
    else:
        assert settings.cutoff is not None
        cutoff = settings.cutoff
        smooth = lowpass_periodic(pose, rate, len(pose), cutoff)
    motion = model.kinematics.motion(average.time, *smooth, by, start=q)
    bands = settings.bands(motion.coordinates)
    channels = {name: values.reshape(average.count, -1).mean(axis=0)
                for name, values in channels_of(model.mechanism, recording.channels, recording.source).items()}
    motion, _ = model.with_memory(motion, bands, channels=channels, around=True, payload=recording.payload)
    left = (q - motion.q)[:, list(model.actuated)]
    reach = round((settings.window or 0.0) * rate)
    return Processed(
        motion=motion, effort=average.effort, current=recording.effort is None, sample=np.arange(len(motion)),
        mask=counting_rows(model, motion, settings, reach, around=True), group=None,
        covariance=average.effort_covariance / average.count, replicates=average.effort_periods,
        dead_band=bands,
        method=method, cutoff=cutoff, decimation=settings.decimation or 1, periods=average.count,
        payload=recording.payload, findings=recording.quality + average.findings, source=recording.source,
        quality=_quality(model, recording, motion, q) | {"position left out by the filter": float(left.std())},
        average=average)


def averaged_pose(model: Model, average: PeriodAverage) -> tuple[By, FloatArray, FloatArray]:
    """Return the coordinates a periodic motion is filtered in, all coordinates of the mean period and these, (N, m)."""
    by: By = "task" if "task" in model.loops.partitions else "actuated"
    q = model.kinematics.assemble(average.position, "actuated", time=average.time)
    return by, q, np.ascontiguousarray(q[:, list(model.loops.partitions[by].independent)])


def regression(model: Model, processed: Processed, parameters: BaseParameters | Sequence[str], *,
               decimate: bool = True) -> Regression:
    """Return the linear problem of a processed recording; with a payload its columns are those of the base.

    Columns named `payload.<name>.*` of payloads that this recording does not carry are zero (BG13 (29)).
    """
    if not decimate or processed.decimation == 1:
        return next(blocks_of(model, processed, parameters, len(processed)))
    blocks = blocks_of(model, processed, parameters, BLOCK)
    parts = list(decimated(blocks, processed.decimation, around=processed.average is not None))
    if not parts:
        raise InvalidRecording(f"{processed.source}: {len(processed)} samples are too few to decimate by "
                               f"{processed.decimation}; raise the cut-off or decimate less", source=processed.source)
    return _together(parts)


def in_file_efforts(model: Model, processed: Processed, gains: Mapping[str, float] | None = None) -> Processed:
    """Turn currents into efforts with given drive gains, else the robot file's, where all are known."""
    every = [(gains or {}).get(name, model.mechanism.joint(name).gain) for name in model.mechanism.actuated]
    known = [gain for gain in every if gain is not None]
    return processed if len(known) < len(every) else processed.with_gains(np.array(known))


def blocks_of(model: Model, processed: Processed, parameters: BaseParameters | Sequence[str],
            size: int) -> Iterator[Regression]:
    """Yield the regression of all samples in pieces."""
    if processed.current:
        raise InvalidRecording(f"{processed.source}: the log holds currents and the drive gains are not known; give "
                               "'gain' in the robot file, or identify the gains from a loaded and an unloaded log")
    for start in range(0, len(processed), size):
        part = slice(start, start + size)
        motion = processed.motion if size >= len(processed) else processed.motion.take(part)
        block = model.regression(motion, processed.effort[part], parameters, dead_band=processed.dead_band,
                                 covariance=processed.covariance)
        replicates = processed.replicates
        if replicates is not None:
            replicates = np.stack([model.collect(motion.q, period[part]) for period in replicates])
        yield replace(without_absent_payloads(block, processed.payload), replicates=replicates,
                      mask=processed.mask[part], sample=processed.sample[part],
                      group=None if processed.group is None else processed.group[part])


def _together(parts: Sequence[Regression]) -> Regression:
    """Return consecutive pieces of one problem as one, labels unchanged."""
    first = parts[0]
    if len(parts) == 1:
        return first
    each: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts])
                            for name in ("regressor", "effort", *LABELS) if getattr(first, name) is not None}
    if first.covariance is not None and first.covariance.ndim == 3:
        each["covariance"] = np.concatenate([part.covariance for part in parts])
    if first.replicates is not None:
        each["replicates"] = np.concatenate([part.replicates for part in parts], axis=1)
    return replace(first, **each)


def without_absent_payloads(problem: Regression, payload: str | None) -> Regression:
    """Return the problem with the columns of payloads that were not carried set to zero (BG13 (29))."""
    absent = [k for k, name in enumerate(problem.parameters)
              if name.payload is not None and name.payload != payload]
    if not absent:
        return problem
    regressor = problem.regressor.copy()
    regressor[:, :, absent] = 0.0
    return replace(problem, regressor=regressor)


def pieces(model: Model, source: Recording | RecordingSource, settings: Processing, size: int) -> Iterator[Processed]:
    """Yield the samples of a log, filtered in time, in consecutive pieces.

    Raises:
        InvalidRecording: The clock is not even; or too few samples to filter.
    """
    first = source if isinstance(source, Recording) else next(iter(source.blocks(size)))
    plan = _Plan.of(first, settings)
    total, start, carry = length(source), None, None
    for recording, low, inner in _windows(source, model, plan, size):
        check_even(recording, first=low)
        try:
            position, velocity, acceleration = differentiate(recording.position, plan.rate, plan.cutoff)
        except InvalidInput as error:
            raise InvalidRecording(f"{recording.source}: {error}", source=recording.source, **error.numbers) from error
        own = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
        wide = slice(max(0, inner.start - plan.far), inner.stop + plan.far)  # what windows reach to
        motion = model.kinematics.motion(recording.time[wide], position[wide][:, own], velocity[wide][:, own],
                                         acceleration[wide][:, own], start=start)
        part = slice(inner.start - wide.start, inner.stop - wide.start)
        mask = counting_rows(model, motion, settings, plan.reach)[part]
        motion, start = motion.take(part), motion.q[max(0, part.stop - plan.far)]
        bands = settings.bands(motion.coordinates)
        channels = channels_of(model.mechanism, recording.channels, recording.source)
        motion, carry = model.with_memory(motion, bands, carry=carry, payload=recording.payload,
                                          channels={name: values[inner] for name, values in channels.items()})
        effort = recording.effort if recording.effort is not None else recording.current
        assert effort is not None
        sample = np.arange(low + inner.start, low + inner.stop)
        period = recording.period_samples
        period = period if period and total >= 2 * period else None
        yield Processed(
            motion=motion, effort=effort[inner], current=recording.effort is None, sample=sample,
            mask=mask, covariance=None, replicates=None, dead_band=bands,
            group=None if period is None else sample // period,
            method=plan.method, cutoff=plan.cutoff, decimation=plan.decimation,
            periods=0 if period is None else total // period, payload=recording.payload, findings=recording.quality,
            source=recording.source, quality=_quality(model, recording.take(inner), motion, motion.q))


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Numbers of one log that is filtered in time.

    Masks look at `far` samples on both sides, a filtered sample is decided by `halo` of them.
    """

    method: Method
    rate: float
    cutoff: float | None
    decimation: int
    edge: int
    reach: int
    far: int
    halo: int

    @classmethod
    def of(cls, first: Recording, settings: Processing) -> _Plan:
        """Make the plan of a log from its first samples."""
        rate = check_even(first)
        method = settings.method_for(first)
        cutoff, decimation = settings.cutoff, settings.decimation or 1
        if method == "raw":
            cutoff = None
        elif settings.method in ("explicit", "implicit"):  # chosen for periodic logs, and this is none
            cutoff = min(UNLIKE * (cutoff or 0.0), HIGHEST * rate)
            decimation = decimation_of(cutoff, rate)
        reach = round((settings.window or 0.0) * rate)
        far = max(reach, 3 * smeared_samples(settings, rate)) + 1
        return cls(method=method, rate=rate, cutoff=cutoff, decimation=decimation, reach=reach, far=far,
                   edge=0 if cutoff is None else edge_samples(rate, cutoff), halo=memory_samples(rate, cutoff) + far)


def length(source: Recording | RecordingSource) -> int:
    """Return how many samples a log has."""
    return len(source) if isinstance(source, Recording) else source.samples


def _windows(source: Recording | RecordingSource, model: Model, plan: _Plan,
             size: int) -> Iterator[tuple[Recording, int, slice]]:
    """Yield pieces of a log with a halo on both sides: samples, number of the first one, and the inner part.

    At most two blocks are held. The inner parts follow each other and leave out what the filter spoils at the log's
    own ends: at most a tenth of it.
    """
    blocks = (matched(block, model) for block in source.blocks(size))
    held = next(blocks)
    first, begin = 0, -1  # number of the first sample held, and of the first not yet yielded
    for block in blocks:
        held = joined(held, block)
        known = first + len(held)
        if begin < 0 and known < 10 * plan.edge:
            continue
        begin = max(begin, plan.edge)
        stop = known - max(plan.halo, plan.edge)
        if stop <= begin + plan.halo:
            continue
        yield held, first, slice(begin - first, stop - first)
        begin = stop
        keep = max(first, begin - plan.halo)
        held, first = held.take(slice(keep - first, None)), keep
    known = first + len(held)
    edge = min(plan.edge, known // 10) if begin < 0 else plan.edge  # a log seen whole may be short
    begin = max(begin, edge)
    if known - edge > begin:
        yield held, first, slice(begin - first, known - edge - first)


def joined(first: Recording, second: Recording) -> Recording:
    """Return two consecutive pieces as one; only what the regression needs is kept."""
    both: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(second, name)])
                            for name in ("time", "position", "effort", "current") if getattr(first, name) is not None}
    if first.extra.names:
        both["extra"] = replace(second.extra, values=np.concatenate([first.extra.values, second.extra.values]))
    return replace(second, **both, velocity=None, reference=None, pose=None, passive=None, mocap=None)


def _quality(model: Model, recording: Recording, motion: Motion, q: FloatArray) -> dict[str, float]:
    """Return closure residual and, where there are more sensors than needed, their rms mismatch."""
    figures = {"closure residual": float(motion.closure_residual.max())}
    if len(q) != len(recording):
        return figures
    for label, channels in (("pose", recording.pose), ("passive", recording.passive), ("mocap", recording.mocap)):
        if channels is None:
            continue
        for k, name in enumerate(channels.names):
            if name in motion.coordinates:
                gap = channels.values[:, k] - q[:, motion.column(name)]
                figures[f"{label} {name}"] = float(np.sqrt(np.mean(gap**2)))
    if model.loops.redundant:
        for k, i in enumerate(model.actuated):
            gap = recording.position[:, k] - q[:, i]
            figures[f"motor {model.mechanism.coordinates[i]}"] = float(np.sqrt(np.mean(gap**2)))
    return figures
