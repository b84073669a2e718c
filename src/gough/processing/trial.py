"""Blocked cross-validation of a processing: fit outside a block of the logs, predict what was recorded inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidRecording
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.engine import Model
from gough.engine.columns import column_names
from gough.engine.memory import channels_of
from gough.logs.recording import Recording
from gough.processing.decimation import Decimator, decimation_taps, lowpass
from gough.processing.filters import differentiate, edge_samples
from gough.processing.frequency import rounding_variance
from gough.processing.masks import counting_rows
from gough.processing.noise import position_noise, velocity_noise
from gough.processing.pieces import averaged, without_absent_payloads
from gough.processing.settings import HIGHEST, Processing, decimation_of

FOLDS = 5  # contiguous blocks that are predicted from the others
FINE = 8.0  # samples per 1 / cut-off: enough for the regressor of low-passed positions
JUDGED = 4000  # predicted samples that are enough to compare candidates
PASSES = 4  # of the rows' weights
RIDGE = 1e-11  # of unit columns: directions that a fold does not see stay at zero
EXACT = 1e-12  # of an effort's square: smaller errors are rounding
BLOCK = 2048  # samples of regressor held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Sheet:
    """One log at one cut-off, at every few samples.

    Args:
        motion: Of all coordinates, (t, n).
        fitted: Efforts of the motors, low-passed so that nothing folds back between these samples, (t, a).
        recorded: As recorded, (t, a).
        judged: Which samples are predicted, (t,).
        decimation: Between these samples.
        guard: Left out beside a block. [s]
        around: A period that repeats.
        noise: Of the motors' velocities, (a,). [m/s or rad/s]
        rate: At which the motion is sampled. [Hz]
        span: First and last time of the log. [s]
        payload: Carried.
    """

    motion: Motion
    fitted: FloatArray
    recorded: FloatArray
    judged: BoolArray
    decimation: int
    guard: float
    around: bool
    noise: FloatArray
    rate: float
    span: tuple[float, float]
    payload: str | None

    def mask(self, model: Model, settings: Processing, window: float) -> BoolArray:
        """Return which equations count, (t, r)."""
        return counting_rows(model, self.motion, settings, round(window * self.rate), around=self.around)

    def regression(self, trial: Trial, settings: Processing, margin: float) -> Regression:
        """Return the equations of the samples that are predicted, without a margin at both ends of the log. [s]"""
        model = trial.model
        bands = settings.bands(model.mechanism.coordinates)
        motion = model.with_memory(self.motion, bands, around=self.around, payload=self.payload)[0]
        here = self.judged & (motion.time >= self.span[0] + margin) & (motion.time <= self.span[1] - margin)
        return without_absent_payloads(
            model.regression(motion.take(here), self.recorded[here], trial.parameters, dead_band=bands), self.payload)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """An experiment on which processings are tried.

    Args:
        model: The robot.
        parameters: Its base parameters.
        logs: Recordings looked at.
        efforts: Of the motors in each, (t, a); currents where drive gains are not known.
        alone: Rows are fitted one by one, since the scales of their efforts are not known.
        stride: One of so many samples is predicted.
        near: All coordinates at these samples, to start loops from; (t / stride, n) for each log.
        noise: Of the motors' positions in each log, (a,). [m or rad]
    """

    model: Model
    parameters: BaseParameters | Sequence[str]
    logs: Sequence[Recording]
    efforts: Sequence[FloatArray]
    alone: bool
    stride: int
    near: Sequence[FloatArray]
    noise: Sequence[FloatArray]

    @classmethod
    def of(cls, model: Model, logs: Sequence[Recording], parameters: BaseParameters | Sequence[str],
           gains: Mapping[str, float] | None) -> Trial:
        """Get ready to try."""
        factors = [(gains or {}).get(name, model.mechanism.joint(name).gain) for name in model.mechanism.actuated]
        currents = [log.effort is None for log in logs]
        alone = any(currents) and None in factors
        if alone and not all(currents):
            raise InvalidRecording("some logs hold efforts, others currents whose drive gains are not known; give "
                                   "'gain' in the robot file")
        scale = np.array([1.0 if alone or factor is None else factor for factor in factors])
        efforts = []
        for log in logs:
            effort = log.effort if log.current is None or log.effort is not None else log.current * scale
            assert effort is not None
            efforts.append(effort)
        stride = 2 ** int(np.log2(max(1, sum(len(log) for log in logs) // JUDGED)))
        near = [model.kinematics.assemble(log.position[::stride], "actuated", time=log.time[::stride]) for log in logs]
        return cls(model=model, parameters=parameters, logs=logs, efforts=efforts, alone=alone, stride=stride,
                   near=near, noise=[position_noise(log.position) for log in logs])

    @property
    def rate(self) -> float:
        """Of the slowest log. [Hz]"""
        return min(log.rate for log in self.logs)

    @property
    def rubbing(self) -> tuple[str, ...]:
        """Motors whose friction jumps."""
        return tuple(joint.name for joint in self.model.mechanism.joints
                     if joint.actuated and self.model.mechanism.rubs(joint))

    def sheets(self, settings: Processing) -> list[Sheet]:
        """Return every log at the cut-off of the settings."""
        make = self._periodic if settings.method in ("explicit", "implicit") else self._timed
        return [make(k, settings) for k in range(len(self.logs))]

    def _periodic(self, k: int, settings: Processing) -> Sheet:
        log, effort = self.logs[k], self.efforts[k]
        done = averaged(self.model, log, replace(settings, dead_band=0.0, window=0.0, decimation=1))
        average, cutoff = done.average, done.cutoff
        assert average is not None
        assert cutoff is not None
        mean = effort.reshape(average.count, -1, effort.shape[1]).mean(axis=0)
        variance = np.maximum(np.diag(average.position_covariance) / average.count, rounding_variance(average))
        return Sheet(
            motion=done.motion,
            fitted=mean, recorded=mean, judged=np.ones(len(done), bool), decimation=1, guard=0.0, around=True,
            rate=log.rate, span=(float(done.motion.time[0]), float(done.motion.time[-1])), payload=log.payload,
            noise=velocity_noise(np.sqrt(variance), log.rate, min(cutoff, HIGHEST * log.rate)))

    def _timed(self, k: int, settings: Processing) -> Sheet:
        model, log, effort, near = self.model, self.logs[k], self.efforts[k], self.near[k]
        rate, every, edge = log.rate, 1, 0
        cutoff = None if settings.method == "raw" else settings.cutoff
        if cutoff is not None:
            every = 2 ** int(np.log2(np.clip(rate / (FINE * cutoff), 1, self.stride)))
            edge = min(edge_samples(rate, cutoff), len(log) // 10)
        half = (len(decimation_taps(every)) - 1) // 2
        first = -(-max(edge, half) // every) * every
        at = np.arange(first, len(log) - max(edge, half), every)
        position, speed, acceleration = differentiate(log.position, rate, cutoff)
        own = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
        low = np.minimum(at // self.stride, len(near) - 1)
        high, part = np.minimum(low + 1, len(near) - 1), (at / self.stride - low)[:, None]
        motion = model.kinematics.motion(log.time[at], position[at][:, own], speed[at][:, own],
                                         acceleration[at][:, own], start=(1 - part) * near[low] + part * near[high])
        channels = channels_of(model.mechanism, log.channels, log.source)
        motion = model.with_memory(motion, 0.0, channels={name: x[at] for name, x in channels.items()})[0]
        if settings.decimation is not None or cutoff is None:
            factor = max(1, (settings.decimation or 1) // every)
        else:
            factor = decimation_of(cutoff, rate / every)
        return Sheet(
            motion=motion, recorded=effort[at], judged=at % self.stride == 0, decimation=factor,
            fitted=effort[at] if every == 1 else lowpass(effort[first - half:], every)[:len(at)],
            guard=0.0 if cutoff is None else 1.0 / cutoff, around=False, rate=rate / every, payload=log.payload,
            span=(float(log.time[0]), float(log.time[-1])),
            noise=velocity_noise(self.noise[k], rate, min(cutoff or rate, HIGHEST * rate)))


def prediction_squares(trial: Trial, sheets: Sequence[Sheet], masks: Sequence[Sequence[BoolArray]],
                       settings: Processing, *, margin: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return the squared errors of predicting each block from the others, and the squares of what is predicted.

    Args:
        trial: The experiment.
        sheets: Its logs at one cut-off.
        masks: For each log, several choices of the equations that count in a fit, (t, r) each, fewer from one to the
            next.
        settings: Dead bands.
        margin: Left out at both ends of a log, so that candidates are judged on the same samples. [s]

    Returns:
        Squared errors of all samples and of those that count in every choice, (2, choices, folds, r), and their squared
        efforts, (2, folds, r).
    """
    model, rows = trial.model, len(trial.model.rows)
    bands = settings.bands(model.mechanism.coordinates)
    p = len(column_names(trial.parameters))
    moments, counts = np.zeros((len(masks[0]), FOLDS, rows, p + 1, p + 1)), np.zeros((len(masks[0]), FOLDS, rows))
    seen: list[tuple[FloatArray, FloatArray, IntArray, BoolArray]] = []
    for sheet, own in zip(sheets, masks):
        borders = np.linspace(sheet.span[0] + margin, sheet.span[1] - margin, FOLDS + 1)
        decimators = [Decimator(sheet.decimation) for _ in own]
        whole = model.with_memory(sheet.motion, bands, around=sheet.around, payload=sheet.payload)[0]
        for start in range(0, len(whole), BLOCK):
            part = slice(start, start + BLOCK)
            motion = whole.take(part)
            block = without_absent_payloads(
                model.regression(motion, sheet.fitted[part], trial.parameters, dead_band=bands), sheet.payload)
            for c, (mask, decimator) in enumerate(zip(own, decimators)):
                made = decimator.push(replace(block, mask=mask[part]))
                if made is not None:
                    more = _outside(made, borders, sheet.guard)
                    moments[c] += more[0]
                    counts[c] += more[1]
            here = sheet.judged[part] & (motion.time >= borders[0]) & (motion.time <= borders[-1])
            fold = np.clip(np.searchsorted(borders, motion.time[here], side="right") - 1, 0, FOLDS - 1)
            recorded = model.collect(motion.q, sheet.recorded[part])
            seen.append((block.regressor[here], recorded[here], fold, own[-1][part][here]))
    regressor, effort, fold, counted = (np.concatenate(x) for x in zip(*seen))
    size, wrong = np.zeros((2, FOLDS, rows)), np.zeros((2, len(moments), FOLDS, rows))
    values = [_solved(moments[c], counts[c], alone=trial.alone) for c in range(len(moments))]
    for f in range(FOLDS):
        W, y, m = (x[fold == f] for x in (regressor, effort, counted))
        size[:, f] = (y**2).sum(axis=0), (m * y**2).sum(axis=0)
        for c, x in enumerate(values):
            squares = (y - np.einsum("trp,rp->tr", W, x[f])) ** 2
            wrong[:, c, f] = squares.sum(axis=0), (m * squares).sum(axis=0)
    size += np.finfo(float).tiny
    return np.maximum(wrong, EXACT * size[:, None]), size


def _outside(made: Regression, borders: FloatArray, guard: float) -> tuple[FloatArray, FloatArray]:
    """Return moments [W y]^T [W y] of what lies outside each block, (folds, r, p + 1, p + 1), and counts, (folds, r).

    What lies inside is taken from the whole: most samples are outside.
    """
    assert made.mask is not None
    assert made.time is not None
    both = np.concatenate([made.regressor, made.effort[:, :, None]], axis=2) * made.mask[:, :, None]
    both = np.ascontiguousarray(both.transpose(1, 0, 2))
    whole = both.transpose(0, 2, 1) @ both
    moments, counts = np.repeat(whole[None], FOLDS, axis=0), np.repeat(made.mask.sum(axis=0)[None], FOLDS, axis=0)
    for f in range(FOLDS):
        inside = (made.time > borders[f] - guard) & (made.time < borders[f + 1] + guard)
        if inside.any():
            part = both[:, inside]
            moments[f] -= part.transpose(0, 2, 1) @ part
            counts[f] -= made.mask[inside].sum(axis=0)
    return moments, counts


def _solved(moments: FloatArray, counts: FloatArray, *, alone: bool) -> FloatArray:
    """Return the weighted least-squares values of each fold for each row, (folds, r, p).

    Rows weigh by the inverse of their mean squared residual, iterated; alone, every row has values of its own.
    """
    p = moments.shape[-1] - 1
    A, b, yy = moments[..., :p, :p], moments[..., :p, p], np.maximum(moments[..., p, p], np.finfo(float).tiny)
    if alone:
        return _ridged(A, b)
    weight = 1.0 / yy
    for _ in range(PASSES):
        x = _ridged(np.einsum("fr,frpq->fpq", weight, A), np.einsum("fr,frp->fp", weight, b))
        left = yy - 2 * np.einsum("frp,fp->fr", b, x) + np.einsum("fp,frpq,fq->fr", x, A, x, optimize=True)
        weight = np.maximum(counts, 1.0) / np.maximum(left, EXACT * yy)
    return np.repeat(x[:, None], moments.shape[1], axis=1)


def _ridged(A: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A x = b with A made of unit columns and a small ridge; columns that are zero get zero."""
    scale = np.sqrt(np.maximum(np.diagonal(A, axis1=-2, axis2=-1), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    unit = A / (scale[..., :, None] * scale[..., None, :]) + RIDGE * np.eye(A.shape[-1])
    return np.asarray(np.linalg.solve(unit, (b / scale)[..., None])[..., 0] / scale)
