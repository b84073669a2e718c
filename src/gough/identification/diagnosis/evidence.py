"""What verdict and diagnosis look at: logs with their regressions, seen from the motors.

An `Evidence` is the identified model beside the data it came from. Its `View`s give, for one log, everything a usual
mistake could have changed: efforts and motion of the motors (the `Track`), the prediction and its exact derivatives
through the closed loops, gravity's part. Columns made at the motion's samples are filtered and thinned as the
regression was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import block_diag
from scipy.signal import lfilter

from gough.core.arrays import BoolArray, FloatArray, Value
from gough.core.errors import GoughError, InvalidInput
from gough.core.motion import Motion
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.core.trajectory import PositionVelocityAcceleration
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import gravity_regressor, response
from gough.estimators.estimate import Estimate
from gough.estimators.selection.scores import ScoreProblem, cut_stretches
from gough.processing import Processed, Processing
from gough.processing.decimation import decimation_taps, lowpass
from gough.processing.filters import differentiate, lowpass_periodic
from gough.processing.masks import counting_rows
from gough.processing.pieces import without_absent_payloads

MOST_SAMPLES = 8000  # of all logs together in score tests: seconds for a hexapod with two hundred directions
FEW_SAMPLES = 300  # of all logs together that hypotheses are compared on
GUARD = 0.02  # about a reversal: the delays that a derivative speaks of are shorter [s]
WAVE_SAMPLES = 3000  # of a log in the search for ripples
MOST_WAVES = 150  # ripples in the range of a joint that are searched for
FEWEST_WAVES = 1.5  # below this a ripple cannot be told from gravity
HEARD = 0.99  # of the effort's power: the band in which a transmission's bending is followed
STEP = 0.1  # longest move of a motor between samples of a motion that is followed [rad or lengths of the robot]
SLOWEST = 1e-3  # of a joint's top speed: the least dead band in derivatives, where the true sign has none


def fit_rows(W: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return values (p,), white sigmas and relative error of least squares with iterated row weights.

    The error is the geometric mean over the rows of rms residual over rms effort, (n / (n - p))^(1/2) times: units of
    rows do not matter, and one that is hard to predict does not drown the others.
    """
    s, r, p = W.shape
    size = np.sqrt((y**2).mean(axis=0))
    size = np.where(size > 0, size, 1.0)  # a dead row has no size of its own
    length = np.maximum(np.linalg.norm((W / size[:, None]).reshape(-1, p), axis=0), 1e-300)
    weight, stacked = size, (W / size[:, None]).reshape(-1, p) / length
    for _ in range(4):
        values = np.linalg.lstsq(stacked, (y / weight).ravel(), rcond=1e-9)[0] / length
        rms = np.sqrt(((y - W @ values) ** 2).mean(axis=0) * s * r / max(s * r - p, 1))
        weight = np.maximum(rms, 1e-6 * size)
        stacked = (W / weight[:, None]).reshape(-1, p) / length
    spread = np.linalg.pinv(stacked.T @ stacked, rcond=1e-12, hermitian=True)
    error = float(np.exp(np.mean(np.log(np.maximum(rms / size, 1e-12)))))
    return values, np.sqrt(np.maximum(np.diag(spread), 0.0)) / length, error


# -- one log ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Track(Value):
    """Motion and effort of the motors, (t, a) each, and the gravity they fell under."""

    time: FloatArray
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray
    gravity: FloatArray
    periodic: bool  # the samples are one whole period
    deviations: FloatArray  # effort of each repetition minus their mean, (k, t, a); none without repetitions
    lag: FloatArray  # time constant that each effort was low-passed with, (a,) [s]

    def with_effort(self, change: Callable[[FloatArray], FloatArray]) -> Track:
        """Change the efforts (t, a), affinely, and their noise with them."""
        nothing = change(np.zeros(self.effort.shape))
        noise = np.array([change(d) - nothing for d in self.deviations]).reshape(self.deviations.shape)
        return replace(self, effort=change(self.effort), deviations=noise)

    def with_motion(self, change: Callable[[FloatArray], FloatArray]) -> Track:
        """Change position, velocity and acceleration alike, linearly."""
        return replace(self, position=change(self.position), velocity=change(self.velocity),
                       acceleration=change(self.acceleration))

    def clocked(self, factor: float) -> Track:
        """Make the motion so many times as fast; -1 runs backwards."""
        return replace(self, velocity=self.velocity * factor, acceleration=self.acceleration * factor**2)

    @property
    def step(self) -> float:
        """Time between samples. [s]"""
        return float((self.time[-1] - self.time[0]) / (len(self.time) - 1))

    def slope(self, values: FloatArray) -> FloatArray:
        """Return the derivative by time from the samples before and after."""
        if self.periodic:
            return np.asarray((np.roll(values, -1, axis=0) - np.roll(values, 1, axis=0)) / (2 * self.step))
        return np.asarray(np.gradient(values, self.step, axis=0))

    def shifted(self, values: FloatArray, by: float) -> FloatArray:
        """Return values(t + by): by the DFT over a period, else by a spline held at the ends. [s]

        Where friction jumps a DFT rings: small shifts are by the slope.
        """
        if abs(by) < 1e-2 * self.step:
            return values + by * self.slope(values)
        if self.periodic:
            turn = np.exp(2j * np.pi * np.fft.rfftfreq(len(values), self.step) * by)
            return np.asarray(np.fft.irfft(np.fft.rfft(values, axis=0) * turn[:, None], len(values), axis=0))
        return np.asarray(CubicSpline(self.time, values)(np.clip(self.time + by, self.time[0], self.time[-1])))

    def lagged(self, values: FloatArray) -> FloatArray:
        """Low-pass the rows (t, r, ...) by 1 / (1 + lag s), exact for lines between samples."""
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
    """One log as processed, and the equations that count."""

    motion: Motion  # of all coordinates
    effort: FloatArray  # of the motors, (t, a)
    dead_band: FloatArray  # of the velocity's sign, (n,)
    part: Regression  # same samples, or fewer after decimation, found again by their times
    deviations: FloatArray | None = None  # as of a track
    decimation: int = 1
    periodic: bool = False
    payload: str | None = None
    gravity: FloatArray | None = None  # instead of the robot file's
    lag: FloatArray | None = None  # as of a track
    cutoff: float | None = None  # of the low-pass that positions passed [Hz]
    name: str = ""

    def shaped(self, columns: FloatArray) -> FloatArray:
        """Filter and thin columns (t, r, k) of the motion's samples as the regression was."""
        time, half = self.motion.time, len(decimation_taps(self.decimation)) // 2
        if self.periodic and half:  # windows reach around the ends
            columns = np.concatenate([columns[-half:], columns, columns[:half]])
        columns = lowpass(columns, self.decimation)
        time = time[0 if self.periodic else half::self.decimation][:len(columns)]
        kept = np.isin(time, np.asarray(self.part.time))
        if int(kept.sum()) != len(self.part):
            raise InvalidInput(f"{self.name}: {int(kept.sum())} of {len(self.part)} samples of the regression are "
                               "found again in the motion; are they of the same log?")
        return columns[kept]

    def shortened(self, most: int) -> Source:
        """Average neighbouring samples to at most `most`; decimated logs are short enough.

        Efforts are means over blocks, motion and regressor those of their middles: what is slow stays, and white noise
        stays white. A block counts where all of its samples do.
        """
        size = -(-len(self.motion) // most) // 2 * 2 + 1  # odd: a block's mean then stands at its middle sample
        if size < 2 or self.decimation > 1:
            return self
        count, part = len(self.motion) // size, self.part
        middle, place = np.arange(count) * size + size // 2, np.searchsorted(self.motion.time, np.asarray(part.time))
        inside = place < count * size

        def means(values: FloatArray) -> FloatArray:
            return np.asarray(values[:count * size].reshape(count, size, *values.shape[1:]).mean(axis=1))

        def spread(values: FloatArray | BoolArray) -> FloatArray:
            """Return values at all samples, zero where the regression has none."""
            full = np.zeros((count * size, *values.shape[1:]))
            full[place[inside]] = values[inside]
            return full

        cov, each, noise = part.covariance, part.replicates, self.deviations
        short = replace(part, regressor=spread(part.regressor)[middle], effort=means(spread(part.effort)),
                        mask=means(spread(part.counting)) == 1, time=self.motion.time[middle], group=None, sample=None,
                        recording=None, covariance=None if cov is None or cov.ndim == 3 else cov / size,
                        replicates=None if each is None else np.array([means(spread(x)) for x in each]))
        return replace(self, motion=self.motion.take(middle), part=short, effort=means(self.effort),
                       deviations=None if noise is None else np.array([means(x) for x in noise]))


def sources(processed: Sequence[Processed], parts: Sequence[Regression]) -> tuple[Source, ...]:
    """Return logs with their regressions, long ones shortened."""
    found = []
    for log, part in zip(processed, parts):
        each = log.replicates
        source = Source(motion=log.motion, effort=log.effort, dead_band=log.dead_band, part=part,
                        deviations=None if each is None or len(each) < 2 else each - each.mean(axis=0),
                        decimation=log.decimation, periodic=log.average is not None, payload=log.payload,
                        cutoff=log.cutoff, name=log.source)
        found.append(source.shortened(MOST_SAMPLES // len(parts)))
    return tuple(found)


# -- all logs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """An identified model, the logs it came from, and `held_out` ones."""

    model: Model
    base: BaseParameters  # payload columns included
    values: FloatArray  # of these
    logs: tuple[Source, ...]
    held_out: tuple[Source, ...] = ()
    known: Mapping[str, float] = field(default_factory=dict)  # of payloads, taken out of the efforts

    @cached_property
    def unseen(self) -> FloatArray:
        """Standard parameters of the robot file that make no effort, (p,); under another gravity they do."""
        table = self.model.mechanism.standard
        base = self.base.select([name for name in self.base.names if name.payload is None])
        standard = dict(zip(table.names, table.values.tolist()))
        values = [0.0 if name.payload is not None else float(np.mean([standard[m] for m in self.model.resolve(name)]))
                  for name in base.standard]
        return np.asarray(table.values - standard_from_base(self.model, base, base.values(np.array(values)))[0])

    @property
    def stacked(self) -> tuple[FloatArray, FloatArray]:
        """Regressor and effort of all logs but held-out ones, zero where they do not count."""
        both = np.concatenate([source.part.select(self.base.names).stacked() for source in self.logs])
        return both[:, :, :-1], both[:, :, -1]

    @property
    def refitted(self) -> Evidence:
        return replace(self, values=fit_rows(*self.stacked)[0])

    @cached_property
    def together(self) -> Evidence:
        """What differs between logs shows with held-out ones among the others."""
        return replace(self, logs=(*self.logs, *self.held_out), held_out=())

    @cached_property
    def views(self) -> tuple[View, ...]:
        return tuple(View(evidence=self, source=source) for source in self.logs)

    @cached_property
    def held_out_views(self) -> tuple[View, ...]:
        return tuple(View(evidence=self, source=source) for source in self.held_out)

    def falling(self, q: FloatArray, names: Sequence[Parameter]) -> FloatArray:
        """Return the derivative of the regressor by gravity, (t, 3, r, p)."""
        shape = (len(q), 3, len(self.model.rows), len(names))
        if not names:
            return np.zeros(shape)
        return np.asarray(gravity_regressor(self.model, tuple(names))(q)[0].reshape(shape))


def evidence_of(model: Model, base: BaseParameters, estimate: Estimate | None, logs: Sequence[Source],
                held_out: Sequence[Source] = (), known: Mapping[str, float] | None = None) -> Evidence:
    """Return the evidence behind an estimate of base parameters, or fit them here.

    Parameters that were eliminated stay in the model: what they explain is no mistake of the logs.
    """
    called = [log.name for log in (*logs, *held_out)]
    every = [replace(guarded(model, log), name=log.name if called.count(log.name) == 1 else
                     f"{log.name} ({called[:k].count(log.name) + 1})") for k, log in enumerate((*logs, *held_out))]
    names = [name for name in base.names if name in logs[0].part.parameters]
    own = {} if estimate is None else dict(zip(estimate.parameters, estimate.values.tolist()))
    found = Evidence(model=model, base=base.select(names), values=np.array([own.get(name, 0.0) for name in names]),
                     logs=tuple(every[:len(logs)]), held_out=tuple(every[len(logs):]), known=dict(known or {}))
    return found.refitted if estimate is None else found


def guarded(model: Model, log: Source) -> Source:
    """Leave out the equations about reversals: where friction jumps, no mistake is its derivative.

    An effort that is late jumps after the velocity did; left in, these few samples outweigh all others. Decimated logs
    are low-passed there, and a row keeps at least half of what counted.
    """
    if log.decimation > 1 or len(log.part) != len(log.motion):
        return log
    before = log.part.counting
    mask = before & away_from_reversals(model, log)
    few = mask.sum(axis=0) < 0.5 * before.sum(axis=0)
    mask[:, few] = before[:, few]
    return replace(log, part=replace(log.part, mask=mask))


def away_from_reversals(model: Model, log: Source) -> BoolArray:
    """Tell which equations are further than `GUARD` from any reversal they feel, (t, r)."""
    time = np.asarray(log.motion.time)
    reach = max(1, round(GUARD * (len(time) - 1) / float(time[-1] - time[0])))
    bands = Processing(dead_band=dict(zip(model.mechanism.coordinates, log.dead_band.tolist())))
    return counting_rows(model, log.motion, bands, reach, around=log.periodic)


def thinned(evidence: Evidence) -> Evidence:
    """Return some hundred samples, evenly spread, rather away from reversals, fitted again.

    Efforts are as recorded: low-passed ones do not belong to a single sample.
    """
    model, base, logs = evidence.model, evidence.base, []
    most = max(FEW_SAMPLES, 6 * len(base) // max(len(model.rows), 1))
    for log in evidence.logs:
        part, time, count = log.part, np.asarray(log.motion.time), most // len(evidence.logs) + 1
        mask = away_from_reversals(model, log)
        if log.decimation == 1:
            mask = np.zeros_like(mask)
            mask[np.searchsorted(time, np.asarray(part.time))] = part.counting
        good = np.flatnonzero(mask.all(axis=1))
        good = good if len(good) >= count // 3 else np.arange(len(time))
        index = good[np.linspace(0, len(good) - 1, min(count, len(good))).astype(int)]
        blank = Regression(regressor=np.zeros((len(index), len(part.rows), len(base))), rows=part.rows,
                           effort=np.zeros((len(index), len(part.rows))), row_units=part.row_units,
                           parameters=base.names, units=base.units, time=time[index])
        logs.append(replace(log, motion=log.motion.take(index), effort=log.effort[index], part=blank, deviations=None,
                            decimation=1))
    few = corrected(replace(evidence, logs=tuple(logs), held_out=()))
    assert few is not None
    return few


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """One log through the eyes of a model."""

    evidence: Evidence
    source: Source

    @property
    def model(self) -> Model:
        return self.evidence.model

    @cached_property
    def _parameters(self) -> tuple[FloatArray, FloatArray]:
        """Standard parameters (p,) and the load (10 l,) of this log."""
        evidence, names = self.evidence, self.evidence.base.names
        own = [k for k, name in enumerate(names) if name.payload is None or name.payload == self.source.payload]
        chi, load = standard_from_base(self.model, evidence.base.select([names[k] for k in own]), evidence.values[own])
        for name, value in self._known.items():
            load = load + value * self.model.unit_load(Parameter(name))
        return chi + evidence.unseen, load

    @property
    def _known(self) -> dict[str, float]:
        payload = self.source.payload
        return {name: value for name, value in self.evidence.known.items()
                if payload is not None and Parameter(name).payload == payload}

    @cached_property
    def track(self) -> Track:
        """What the motors did and what was recorded of it."""
        source, columns = self.source, list(self.model.actuated)
        none = np.zeros((0, *source.effort.shape))
        return Track(time=source.motion.time, position=source.motion.q[:, columns],
                     velocity=source.motion.qd[:, columns], acceleration=source.motion.qdd[:, columns],
                     effort=source.effort, periodic=source.periodic,
                     gravity=np.array(self.model.mechanism.gravity) if source.gravity is None else source.gravity,
                     lag=np.zeros(len(columns)) if source.lag is None else source.lag,
                     deviations=none if source.deviations is None else source.deviations)

    def turned(self, track: Track) -> FloatArray:
        """Return by how much gravity differs from the robot file's, (3,)."""
        return np.asarray(track.gravity - np.array(self.model.mechanism.gravity))

    @cached_property
    def prediction(self) -> FloatArray:
        """Predicted efforts of the motors, (t, a).

        With more motors than degrees of freedom: the recorded ones, changed as little as makes them obey the model.
        """
        chi, load = self._parameters
        model, q = self.model, self.source.motion.q
        found = model.inverse_dynamics(self.source.motion, chi, load=load, dead_band=self.source.dead_band)
        turned = self.turned(self.track)
        if turned.any():
            found = found + model.distribute(q, np.einsum("k,tkr->tr", turned, self.gravity))
        if not model.loops.redundant:
            return self.track.lagged(found)
        return np.asarray(self.source.effort + found - model.distribute(q, self.effect(self.source.effort)))

    @cached_property
    def derivative(self) -> FloatArray:
        """Exact derivative of the rows' efforts by the motors' motion, (3, t, r, a).

        Left out are the part of another gravity across the robot file's, and friction that jumps: its derivative is
        nothing but reversals, where no log is to be trusted.
        """
        model, motion = self.model, self.source.motion
        names, terms = model.mechanism.standard.names, model.mechanism.terms
        part = list(model.loops.partitions["actuated"].independent)
        chi, load = self._parameters
        chi = chi * [not (name.kind in terms and terms[name.kind].coulomb) for name in names]
        top = np.abs(motion.qd).max(axis=0)
        band = np.maximum(self.source.dead_band, SLOWEST * np.where(top > 0, top, 1.0))  # something to differentiate
        kernel = response(model, tuple(("row", row) for row in model.rows), "actuated")
        v, a = (np.ascontiguousarray(x[:, part]) for x in (motion.qd, motion.qdd))
        shape = (len(motion), len(model.rows), 3, len(part))
        found = kernel(motion.q, v, a, band, chi, load)[1].reshape(shape)
        down = np.array(model.mechanism.gravity)
        along = float(self.turned(self.track) @ down / max(float(down @ down), 1e-300))
        if along:
            falls = np.array([name.inertial for name in names])
            rest = np.zeros_like(v)
            weight = kernel(motion.q, rest, rest, band, chi * falls, load)[1].reshape(shape)
            found[:, :, 0] += along * weight[:, :, 0]
        full = np.zeros((3, len(motion), len(model.rows), len(model.actuated)))
        full[..., [model.actuated.index(i) for i in part]] = found.transpose(2, 0, 1, 3)
        return full

    @cached_property
    def gravity(self) -> FloatArray:
        """Derivative of the rows' efforts by gravity, (t, 3, r)."""
        values = np.concatenate(self._parameters)
        names = (*self.model.mechanism.standard.names, *self.model.load_columns)
        used = np.flatnonzero(values)
        return np.asarray(self.evidence.falling(self.source.motion.q, [names[k] for k in used]) @ values[used])

    @cached_property
    def closure_map(self) -> FloatArray:
        return self.model.kinematics.closure_map(self.source.motion.q)

    @cached_property
    def waves(self) -> dict[str, tuple[float, int]]:
        """Spatial frequency that each motor's residual holds most of [1/m or 1/rad], and how many were tried.

        A periodogram over the motor's position, four times as fine as its range resolves.
        """
        found = {}
        stride = max(1, len(self.track.time) // WAVE_SAMPLES)
        left = (self.track.effort - self.prediction)[::stride]
        for name, q, residual in zip(self.model.mechanism.actuated, self.track.position[::stride].T, left.T):
            reach, step = float(np.ptp(q)), float(np.median(np.abs(np.diff(q))))
            if reach <= 0:
                found[name] = (0.0, 1)
                continue
            highest = max(min(MOST_WAVES, 0.2 * reach / max(step, 1e-12 * reach)), 2 * FEWEST_WAVES)
            tried = np.arange(FEWEST_WAVES, highest, 0.25) / reach
            power = np.abs(np.exp(-2j * np.pi * np.outer(tried, q)) @ (residual - residual.mean()))
            found[name] = (float(tried[int(np.argmax(power))]), len(tried))
        return found

    def effect(self, efforts: FloatArray) -> FloatArray:
        """Return the effect on the rows of motor efforts, (t, a) -> (t, r)."""
        return self.model.collect(self.source.motion.q, efforts)

    def smooth(self, values: FloatArray) -> PositionVelocityAcceleration:
        """Low-pass efforts (t, a) to what holds most of their power, with two derivatives by time.

        Beyond it they are noise of the positions, which derivatives would raise above all.
        """
        rate, n = 1 / self.track.step, len(values)
        power = np.cumsum((np.abs(np.fft.rfft(self.prediction, axis=0)[1:]) ** 2).sum(axis=1))
        top = (int(np.searchsorted(power, HEARD * power[-1])) + 1) * rate / n
        cutoff = min(top, np.inf if self.source.cutoff is None else self.source.cutoff, 0.4 * rate)
        return (lowpass_periodic(values, rate, n, cutoff) if self.source.periodic
                else differentiate(values, rate, cutoff))

    def rebuilt(self, track: Track) -> View | None:
        """Regress the log with another track; None if the loops do not close."""
        model, source, evidence = self.model, self.source, self.evidence
        part = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
        columns = [np.ascontiguousarray(x[:, part]) for x in (track.position, track.velocity, track.acceleration)]
        motion = assembled(model, track.time, columns, source.motion.q)
        if motion is None:
            return None
        base, p = evidence.base, len(evidence.base)
        whole = model.regression(motion, track.effort, base, dead_band=source.dead_band)
        turned = self.turned(track)
        if turned.any():
            more = evidence.falling(motion.q, [base.standard[i] for i in base.independent])
            names = model.mechanism.standard.names
            hidden = [k for k in np.flatnonzero(evidence.unseen) if names[k].inertial]
            rest = evidence.falling(motion.q, [names[k] for k in hidden])
            whole = replace(whole, regressor=whole.regressor + np.einsum("k,tkrp->trp", turned, more),
                            effort=whole.effort - np.einsum("k,tkrp,p->tr", turned, rest, evidence.unseen[hidden]))
        whole, effort = without_absent_payloads(whole, source.payload), whole.effort
        if self._known:  # what was taken out of the recorded efforts stays out
            effort = effort - model.regressor(motion, tuple(self._known)) @ np.array(list(self._known.values()))
        noise = [model.collect(motion.q, d)[:, :, None] for d in track.deviations]
        moved = replace(source, motion=motion, effort=track.effort, gravity=track.gravity,
                        lag=track.lag, deviations=track.deviations if len(track.deviations) else None)
        both = moved.shaped(np.concatenate([track.lagged(whole.regressor), effort[:, :, None], *noise], axis=2))
        again = both[:, :, p + 1:].transpose(2, 0, 1) + both[:, :, p] if noise else None
        fresh = replace(source.part, regressor=both[:, :, :p], effort=both[:, :, p], parameters=base.names,
                        units=base.units, replicates=again)
        return View(evidence=evidence, source=replace(moved, part=fresh))


def assembled(model: Model, time: FloatArray, columns: Sequence[FloatArray], near: FloatArray) -> Motion | None:
    """Return the motion on the branch `near` (t, n), or on that of the start pose; None if no loop closes."""
    same = np.array_equal(columns[0], near[:, list(model.loops.partitions["actuated"].independent)])
    for start in (near, None):
        try:
            q = near if same else followed(model, columns[0], start)
            qd, qdd = model.kinematics.rates(q, columns[1], columns[2], "actuated")
        except GoughError:
            continue
        return Motion(coordinates=model.mechanism.coordinates, time=time, q=q, qd=qd, qdd=qdd,
                      closure_residual=model.kinematics.residual(q))
    return None


def followed(model: Model, position: FloatArray, near: FloatArray | None = None) -> FloatArray:
    """Return all coordinates from motors (t, m) that may move far: the way between samples is followed."""
    move = (np.abs(np.diff(position, axis=0)) / model.kinematics.strides("actuated")).max(axis=1, initial=0.0)
    at = np.concatenate([[0], np.cumsum(np.maximum(np.ceil(move / STEP), 1))]).astype(int)

    def path(values: FloatArray) -> FloatArray:
        return np.stack([np.interp(np.arange(at[-1] + 1), at, x) for x in values.T], axis=1)

    return np.asarray(model.kinematics.assemble(path(position), "actuated",
                                                start=None if near is None else path(near))[at])


def corrected(evidence: Evidence, *undo: Callable[[Track, View], Track], guard: bool = False) -> Evidence | None:
    """Take mistakes out of all logs and fit again; None if the loops do not close.

    With `guard` reversals of the corrected motion are left out too: rows may have been exchanged.
    """
    found = []
    for view in (*evidence.views, *evidence.held_out_views):
        track = view.track
        for each in undo:
            track = each(track, view)
        now = view.rebuilt(track)
        if now is None:
            return None
        found.append(guarded(evidence.model, now.source) if guard else now.source)
    count = len(evidence.logs)
    return replace(evidence, logs=tuple(found[:count]), held_out=tuple(found[count:])).refitted


def score_problem(views: Sequence[View], columns: Sequence[FloatArray], noise: FloatArray) -> ScoreProblem:
    """Return the equations that count, over the rows' noise (r,), with columns of each log (t, r, k)."""
    names = views[0].evidence.base.names
    rows, deviations = [], []
    for view, own, label in zip(views, columns, cut_stretches([len(view.source.part) for view in views])):
        part = view.source.part
        counts = part.counting
        rows.append((
            (part.select(names).regressor / noise[:, None])[counts],
            (view.source.shaped(own) / noise[:, None])[counts],
            (part.effort / noise)[counts],
            np.broadcast_to(label[:, None], counts.shape)[counts]))
        deviations.append((deviations_of(part) / noise)[:, counts])
    known = min(len(each) for each in deviations) > 1
    regressor, shaped, target, stretch = (np.concatenate(each) for each in zip(*rows))
    return ScoreProblem(regressor=regressor, columns=shaped, target=target, stretch=stretch,
                        deviations=block_diag(*deviations) if known else None)


def deviations_of(part: Regression) -> FloatArray:
    """Return deviations of k repetitions over sqrt(k (k - 1)): their squares are the mean's variance."""
    if part.replicates is None or len(part.replicates) < 2:
        return np.zeros((0, *part.effort.shape))
    k = len(part.replicates)
    return np.asarray((part.replicates - part.replicates.mean(axis=0)) / np.sqrt(k * (k - 1)))
