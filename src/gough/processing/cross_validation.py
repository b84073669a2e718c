"""Blocked cross-validation of a processing: fit outside a block of the logs, predict what was
recorded inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray
from gough.core.errors import InvalidRecording
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.engine.columns import column_names
from gough.engine.internal_states import select_channels
from gough.fitting.regression import Regression
from gough.logs.recording import Recording
from gough.processing.averaging import leading
from gough.processing.decimation import Decimator, decimation_taps, lowpass
from gough.processing.filters import differentiate, edge_samples
from gough.processing.match_robot import signal_of
from gough.processing.settings import HIGHEST, PERIODIC, Processing, decimation_of
from gough.processing.time_domain import averaged, nominal_gains, without_absent_payloads
from gough.processing.valid_equations import counting_rows, position_noise, velocity_noise

FOLDS = 5  # contiguous blocks that are predicted from the others
FINE = 8.0  # samples per 1 / cut-off: enough for the regressor of low-passed positions
JUDGED = 4000  # predicted samples that are enough to compare candidates
PASSES = 4  # of the rows' weights
RIDGE = 1e-11  # of unit columns: directions that a fold does not see stay at zero
EXACT = 1e-12  # of an effort's square: smaller errors are rounding
BLOCK = 2048  # samples of regressor held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Sheet:
    """One log at one cut-off, at every few samples."""

    motion: Motion  # of all coordinates, (t, n)
    fitted: (
        FloatArray  # efforts, low-passed so that nothing folds back between these samples, (t, a)
    )
    recorded: FloatArray  # efforts as recorded, (t, a)
    judged: BoolArray  # which samples are predicted, (t,)
    noise: FloatArray  # of the motors' velocities, (a,) [m/s or rad/s]
    rate: float  # at which the motion is sampled [Hz]
    span: tuple[float, float]  # first and last time of the log [s]
    payload: str | None
    decimation: int = 1  # between these samples
    guard: float = 0.0  # left out beside a block [s]
    around: bool = False  # a period that repeats

    def mask(self, model: Model, settings: Processing, window: float) -> BoolArray:
        """Return which equations count, (t, r)."""
        return counting_rows(
            model, self.motion, settings, round(window * self.rate), around=self.around
        )


class Trial:
    """An experiment on which processings are tried.

    Attributes:
        rate: Of the slowest log. [Hz]
        alone: Rows are fitted one by one, since the scales of their efforts are not known.
        stride: One of so many samples is predicted.
    """

    def __init__(
        self,
        model: Model,
        logs: Sequence[Recording],
        parameters: BaseParameters | Sequence[str],
        gains: Mapping[str, float] | None,
    ) -> None:
        self.model, self.parameters, self.logs = model, parameters, logs
        factors, motors = nominal_gains(model, gains), model.mechanism.actuated
        currents = [log.effort is None for log in logs]
        self.alone = any(currents) and len(factors) < len(motors)
        if self.alone and not all(currents):
            raise InvalidRecording(
                "some logs hold efforts, others currents whose drive gains are not known; give "
                "'gain' in the robot file"
            )
        scale = np.array([1.0 if self.alone else factors.get(name, 1.0) for name in motors])
        self._efforts: list[FloatArray] = [
            getattr(log, signal_of(log)) * (scale if current else 1.0)
            for log, current in zip(logs, currents)
        ]
        self.rate = min(log.rate for log in logs)
        self.stride = 2 ** int(np.log2(max(1, sum(len(log) for log in logs) // JUDGED)))
        # all coordinates at these samples, to start loops from
        self._near = [
            model.kinematics.close_loops(
                log.position[:: self.stride], "actuated", time=log.time[:: self.stride]
            )
            for log in logs
        ]
        self._noise = [position_noise(log.position) for log in logs]

    def sheets(self, settings: Processing) -> list[Sheet]:
        """Return every log at the cut-off of the settings."""
        make = self._periodic if settings.method in PERIODIC else self._timed
        return [make(k, settings) for k in range(len(self.logs))]

    def _periodic(self, k: int, settings: Processing) -> Sheet:
        log, effort = self.logs[k], self._efforts[k]
        done = averaged(self.model, log, replace(settings, dead_band=0.0, window=0.0, decimation=1))
        average, time = done.average, done.motion.time
        assert average is not None
        assert done.cutoff is not None
        mean = effort.reshape(average.count, -1, effort.shape[1]).mean(axis=0)
        variance = np.maximum(
            np.diag(average.position_covariance) / average.count, average.rounding_variance
        )
        return Sheet(
            motion=done.motion,
            fitted=mean,
            recorded=mean,
            judged=np.ones(len(done), bool),
            around=True,
            rate=log.rate,
            span=(float(time[0]), float(time[-1])),
            payload=log.payload,
            noise=velocity_noise(np.sqrt(variance), log.rate, min(done.cutoff, HIGHEST * log.rate)),
        )

    def _timed(self, k: int, settings: Processing) -> Sheet:
        model, log, effort, near = self.model, self.logs[k], self._efforts[k], self._near[k]
        rate, every, edge = log.rate, 1, 0
        cutoff = None if settings.method == "raw" else settings.cutoff
        if cutoff is not None:
            every = 2 ** int(np.log2(np.clip(rate / (FINE * cutoff), 1, self.stride)))
            edge = min(edge_samples(rate, cutoff), len(log) // 10)
        half = len(decimation_taps(every)) // 2
        first = -(-max(edge, half) // every) * every
        at = np.arange(first, len(log) - max(edge, half), every)
        position, velocity, acceleration = (
            x[at][:, leading(model)] for x in differentiate(log.position, rate, cutoff)
        )
        low = np.minimum(at // self.stride, len(near) - 1)
        high, part = np.minimum(low + 1, len(near) - 1), (at / self.stride - low)[:, None]
        motion = model.kinematics.motion(
            log.time[at],
            position,
            velocity,
            acceleration,
            start=(1 - part) * near[low] + part * near[high],
        )
        channels = select_channels(model.mechanism, log.channels, log.source)
        motion = model.with_internal_states(
            motion, 0.0, channels={name: x[at] for name, x in channels.items()}
        )[0]
        if settings.decimation is not None or cutoff is None:
            factor = max(1, (settings.decimation or 1) // every)
        else:
            factor = decimation_of(cutoff, rate / every)
        return Sheet(
            motion=motion,
            recorded=effort[at],
            judged=at % self.stride == 0,
            decimation=factor,
            fitted=effort[at] if every == 1 else lowpass(effort[first - half :], every)[: len(at)],
            guard=0.0 if cutoff is None else 1.0 / cutoff,
            rate=rate / every,
            payload=log.payload,
            span=(float(log.time[0]), float(log.time[-1])),
            noise=velocity_noise(self._noise[k], rate, min(cutoff or rate, HIGHEST * rate)),
        )

    def remembered(self, sheet: Sheet, settings: Processing) -> Motion:
        """Return the motion of a sheet with its past at the dead bands of the settings."""
        bands = settings.bands(self.model.mechanism.coordinates)
        return self.model.with_internal_states(
            sheet.motion, bands, periodic=sheet.around, payload=sheet.payload
        )[0]

    def equations(
        self, sheet: Sheet, motion: Motion, effort: FloatArray, settings: Processing
    ) -> Regression:
        """Return the equations of some samples of a sheet."""
        bands = settings.bands(self.model.mechanism.coordinates)
        return without_absent_payloads(
            self.model.regression(motion, effort, self.parameters, dead_band=bands), sheet.payload
        )


def prediction_errors(
    trial: Trial,
    sheets: Sequence[Sheet],
    masks: Sequence[Sequence[BoolArray]],
    settings: Processing,
    *,
    margin: float = 0.0,
) -> FloatArray:
    """Return relative errors of the rows, where each block is predicted from the others, (2,
    choices, r).

    First those of all samples, then those of what counts in every choice.

    Args:
        masks: For each log, several choices of the equations that count in a fit, (t, r) each,
            fewer from one to the next.
        margin: Left out at both ends of a log, so that candidates are judged on the same samples.
            [s]
    """
    rows, p, choices = len(trial.model.rows), len(column_names(trial.parameters)), len(masks[0])
    moments, counts = (
        np.zeros((choices, FOLDS, rows, p + 1, p + 1)),
        np.zeros((choices, FOLDS, rows)),
    )
    seen: list[tuple[FloatArray, FloatArray, IntArray, BoolArray]] = []
    for sheet, own in zip(sheets, masks):
        borders = np.linspace(sheet.span[0] + margin, sheet.span[1] - margin, FOLDS + 1)
        decimators = [Decimator(sheet.decimation) for _ in own]
        whole = trial.remembered(sheet, settings)
        for start in range(0, len(whole), BLOCK):
            part = slice(start, start + BLOCK)
            motion = whole.take(part)
            block = trial.equations(sheet, motion, sheet.fitted[part], settings)
            for c, (mask, decimator) in enumerate(zip(own, decimators)):
                made = decimator.push(replace(block, mask=mask[part]))
                if made is not None:
                    _add_outside(made, borders, sheet.guard, moments[c], counts[c])
            here = sheet.judged[part] & (motion.time >= borders[0]) & (motion.time <= borders[-1])
            fold = np.clip(
                np.searchsorted(borders, motion.time[here], side="right") - 1, 0, FOLDS - 1
            )
            recorded = trial.model.project_to_rows(motion.q, sheet.recorded[part])
            seen.append((block.regressor[here], recorded[here], fold, own[-1][part][here]))
    regressor, effort, fold, counted = (np.concatenate(x) for x in zip(*seen))
    values = np.array([_solved(moments[c], counts[c], alone=trial.alone) for c in range(choices)])
    size, wrong = np.full((2, 1, rows), TINY), np.zeros((2, choices, rows))
    for f in range(FOLDS):
        W, y, m = (x[fold == f] for x in (regressor, effort, counted))
        size[:, 0] += (y**2).sum(axis=0), (m * y**2).sum(axis=0)
        squares = (y - np.einsum("trp,crp->ctr", W, values[:, f])) ** 2
        wrong += squares.sum(axis=1), (m * squares).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(wrong / size, EXACT)))


def _add_outside(
    made: Regression, borders: FloatArray, guard: float, moments: FloatArray, counts: FloatArray
) -> None:
    """Add moments [W y]^T [W y] of what lies outside each block, (folds, r, p + 1, p + 1), and
    counts, (folds, r).

    What lies inside is taken from the whole: most samples are outside.
    """
    assert made.time is not None
    both, counting = np.ascontiguousarray(made.stacked().transpose(1, 0, 2)), made.valid
    whole, samples = both.transpose(0, 2, 1) @ both, counting.sum(axis=0)
    for f in range(FOLDS):
        inside = (made.time > borders[f] - guard) & (made.time < borders[f + 1] + guard)
        part = both[:, inside]
        moments[f] += whole - part.transpose(0, 2, 1) @ part
        counts[f] += samples - counting[inside].sum(axis=0)


def _solved(moments: FloatArray, counts: FloatArray, *, alone: bool) -> FloatArray:
    """Return the weighted least-squares values of each fold for each row, (folds, r, p).

    Rows weigh by the inverse of their mean squared residual, iterated; alone, every row has values
    of its own.
    """
    p = moments.shape[-1] - 1
    A, b, yy = moments[..., :p, :p], moments[..., :p, p], np.maximum(moments[..., p, p], TINY)
    if alone:
        return _ridged(A, b)
    weight = 1.0 / yy
    for _ in range(PASSES):
        x = _ridged(np.einsum("fr,frpq->fpq", weight, A), np.einsum("fr,frp->fp", weight, b))
        left = (
            yy
            - 2 * np.einsum("frp,fp->fr", b, x)
            + np.einsum("fp,frpq,fq->fr", x, A, x, optimize=True)
        )
        weight = np.maximum(counts, 1.0) / np.maximum(left, EXACT * yy)
    return np.repeat(x[:, None], moments.shape[1], axis=1)


def _ridged(A: FloatArray, b: FloatArray) -> FloatArray:
    """Solve A x = b with A made of unit columns and a small ridge; columns that are zero get
    zero.
    """
    scale = np.sqrt(np.maximum(np.diagonal(A, axis1=-2, axis2=-1), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    unit = A / (scale[..., :, None] * scale[..., None, :]) + RIDGE * np.eye(A.shape[-1])
    return np.asarray(np.linalg.solve(unit, (b / scale)[..., None])[..., 0] / scale)
