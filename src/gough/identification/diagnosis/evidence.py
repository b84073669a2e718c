"""What verdict and diagnosis look at: logs with their regressions, seen from the motors.

An `Evidence` is the identified model beside the data it came from. Its `View`s give, for one log, everything a usual
mistake could have changed: efforts and motion of the motors, the prediction and its exact derivatives through the
closed loops, gravity's part. Columns made at the motion's samples are filtered and thinned as the regression was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import GoughError
from gough.core.motion import Motion
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.core.regression import Regression
from gough.core.trajectory.base import PositionVelocityAcceleration
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import gravity_regressor, response
from gough.estimators.estimate import Estimate
from gough.estimators.selection.scores import ScoreProblem, cut_stretches
from gough.identification.diagnosis.rows import fit_rows
from gough.identification.diagnosis.track import Source, Track, source_of
from gough.processing import Processed, Processing
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """An identified model and the logs it came from.

    Args:
        model: The robot.
        base: Base parameters of the model that is judged (payload columns included).
        values: Their values, (b,).
        logs: What it was identified from.
        held_out: What it was not.
        known: Payload parameters that were known and taken out of the efforts, by name.
    """

    model: Model
    base: BaseParameters
    values: FloatArray
    logs: tuple[Source, ...]
    held_out: tuple[Source, ...] = ()
    known: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each log, held-out ones last; logs of one name are counted."""
        names = [source.name for source in (*self.logs, *self.held_out)]
        return tuple(name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})"
                     for k, name in enumerate(names))

    @cached_property
    def unseen(self) -> FloatArray:
        """Standard parameters that make no effort under the robot file's gravity, as the file gives them, (p,).

        Under another gravity they do (a first moment about a vertical axis in a tilted robot), and the data cannot
        say them: what the file says beyond its own base parameters.
        """
        file = self.model.mechanism.standard.values
        own = [name for name in self.base.names if name.payload is None]
        base = self.base.select(own)
        standard = dict(zip(self.model.mechanism.standard.names, file.tolist()))
        values = base.values(np.array([0.0 if name.payload is not None else
                                       float(np.mean([standard[m] for m in self.model.resolve(name)]))
                                       for name in base.standard]))
        return np.asarray(file - standard_from_base(self.model, base, values)[0])

    def falling(self, q: FloatArray, turned: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what a change of gravity (3,) adds to regressor (t, r, b), and by `unseen` to the efforts, (t, r)."""
        model, names = self.model, self.model.mechanism.standard.names
        columns = tuple(self.base.standard[i] for i in self.base.independent)
        shape = (len(q), 3, len(model.rows), -1)
        own = gravity_regressor(model, columns)(q)[0].reshape(shape)
        hidden = tuple(names[k] for k in np.flatnonzero(self.unseen) if names[k].inertial)
        rest = np.zeros(shape[:1] + shape[2:3])
        if hidden:
            values = np.array([self.unseen[names.index(name)] for name in hidden])
            rest = np.einsum("k,tkrp,p->tr", turned, gravity_regressor(model, hidden)(q)[0].reshape(shape), values)
        return np.einsum("k,tkrp->trp", turned, own), np.asarray(rest)

    @property
    def stacked(self) -> tuple[FloatArray, FloatArray]:
        """Regressor (t, r, b) and effort (t, r) of all logs of the identification, zero where they do not count."""
        parts = [counted(source.part.select(self.base.names)) for source in self.logs]
        return np.concatenate([W for W, _ in parts]), np.concatenate([y for _, y in parts])

    @cached_property
    def together(self) -> Evidence:
        """The same with held-out logs among the others: what differs between logs shows there."""
        return replace(self, logs=(*self.logs, *self.held_out), held_out=())

    @cached_property
    def views(self) -> tuple[View, ...]:
        """Each log seen through the model."""
        return tuple(View(evidence=self, source=source) for source in self.logs)

    @cached_property
    def held_out_views(self) -> tuple[View, ...]:
        """Each held-out log seen through the model."""
        return tuple(View(evidence=self, source=source) for source in self.held_out)


def evidence_of(model: Model, base: BaseParameters, estimate: Estimate | None, logs: Sequence[Source],
                held_out: Sequence[Source] = (), known: Mapping[str, float] | None = None) -> Evidence:
    """Return the evidence behind an estimate of base parameters; drive gains are taken as they are.

    Parameters that were eliminated stay in the model: what they explain is no mistake of the logs.

    Args:
        base: Base parameters of the experiment.
        estimate: Of these, or of some of them; None to fit them here, whatever the logs determine.
        logs: It was found from.
        held_out: It was not found from.
        known: Payload parameters that were known and taken out of the efforts, by name.
    """
    logs, held_out = ([guarded(model, log) for log in group] for group in (logs, held_out))
    names = [name for name in base.names if name in logs[0].part.parameters]
    if estimate is None:
        data = [counted(log.part.select(names)) for log in logs]
        found = fit_rows(np.concatenate([W for W, _ in data]), np.concatenate([y for _, y in data]))[0]
        own = dict(zip(names, found.tolist()))
    else:
        own = dict(zip(estimate.parameters, estimate.values.tolist()))
    return Evidence(model=model, base=base.select(names), values=np.array([own.get(name, 0.0) for name in names]),
                    logs=tuple(logs), held_out=tuple(held_out), known=dict(known or {}))


def guarded(model: Model, log: Source) -> Source:
    """Return a log without the equations about reversals: where friction jumps, no mistake is its derivative.

    An effort that is late jumps after the velocity did; left in, these few samples outweigh all others. Decimated logs
    are low-passed there, and a row is never left with less than half of what counted.
    """
    if log.decimation > 1 or len(log.part) != len(log.motion):
        return log
    before = log.part.counting
    mask = before & away_from_reversals(model, log)
    few = mask.sum(axis=0) < 0.5 * before.sum(axis=0)
    mask[:, few] = before[:, few]
    return replace(log, part=replace(log.part, mask=mask))


def away_from_reversals(model: Model, log: Source) -> BoolArray:
    """Tell which equations at the motion's samples are further than `GUARD` from any reversal they feel, (t, r)."""
    time = np.asarray(log.motion.time)
    reach = max(1, round(GUARD * (len(time) - 1) / float(time[-1] - time[0])))
    bands = Processing(dead_band=dict(zip(model.mechanism.coordinates, log.dead_band.tolist())))
    return counting_rows(model, log.motion, bands, reach, around=log.periodic)


def thinned(evidence: Evidence) -> Evidence:
    """Return some hundred samples of the logs, evenly spread, those away from reversals preferred, fitted again.

    Efforts are as recorded: low-passed ones do not belong to a single sample of the motion.
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


def sources(processed: Sequence[Processed], parts: Sequence[Regression]) -> tuple[Source, ...]:
    """Return logs with their regressions, long ones shortened."""
    return tuple(source_of(*pair).shortened(MOST_SAMPLES // len(parts)) for pair in zip(processed, parts))


def counted(part: Regression) -> tuple[FloatArray, FloatArray]:
    """Return regressor (t, r, p) and effort (t, r) with zeros where equations do not count."""
    if part.mask is None:
        return part.regressor, part.effort
    return part.regressor * part.mask[:, :, None], part.effort * part.mask


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """One log through the eyes of a model: prediction and derivatives at the motion's samples."""

    evidence: Evidence
    source: Source

    @property
    def model(self) -> Model:
        """The robot."""
        return self.evidence.model

    @property
    def label(self) -> str:
        """What the log is called among the others."""
        sources = (*self.evidence.logs, *self.evidence.held_out)
        return next(name for name, source in zip(self.evidence.labels, sources) if source is self.source)

    @cached_property
    def _parameters(self) -> tuple[FloatArray, FloatArray]:
        """Standard parameters (p,) and the load (10 l,) of this log."""
        evidence, payload = self.evidence, self.source.payload
        own = [k for k, name in enumerate(evidence.base.names)
               if name.payload is None or name.payload == payload]
        chi, load = standard_from_base(self.model, evidence.base.select([evidence.base.names[k] for k in own]),
                                       evidence.values[own])
        chi = chi + evidence.unseen
        for name, value in evidence.known.items():
            if payload is not None and Parameter(name).payload == payload:
                load = load + value * self.model.unit_load(Parameter(name))
        return chi, load

    @cached_property
    def track(self) -> Track:
        """What the motors did and what was recorded of it."""
        motion, columns = self.source.motion, list(self.model.actuated)
        return Track(time=motion.time, position=motion.q[:, columns], velocity=motion.qd[:, columns],
                     acceleration=motion.qdd[:, columns], effort=self.source.effort,
                     gravity=self._gravity, periodic=self.source.periodic,
                     lag=np.zeros(len(columns)) if self.source.lag is None else self.source.lag,
                     deviations=np.zeros((0, *self.source.effort.shape)) if self.source.deviations is None
                     else self.source.deviations)

    @property
    def _gravity(self) -> FloatArray:
        return np.array(self.model.mechanism.gravity) if self.source.gravity is None else self.source.gravity

    @property
    def _turned(self) -> FloatArray:
        """Gravity taken minus that of the robot file, (3,). [m/s2]"""
        return np.asarray(self._gravity - np.array(self.model.mechanism.gravity))

    @cached_property
    def band(self) -> FloatArray:
        """Dead bands with something left to differentiate, (n,). [m/s or rad/s]"""
        top = np.abs(self.source.motion.qd).max(axis=0)
        return np.asarray(np.maximum(self.source.dead_band, SLOWEST * np.where(top > 0, top, 1.0)))

    @cached_property
    def prediction(self) -> FloatArray:
        """Predicted efforts of the motors, (t, a). [N or N m]

        With more motors than degrees of freedom only their effect is determined: the recorded efforts, corrected by
        the smallest change that makes them obey the model.
        """
        chi, load = self._parameters
        motion = self.source.motion
        found = self.model.inverse_dynamics(motion, chi, load=load, dead_band=self.source.dead_band)
        if self._turned.any():
            found = found + self.model.distribute(motion.q, np.einsum("k,tkr->tr", self._turned, self.gravity))
        if not self.model.loops.redundant:
            return self.track.lagged(found)
        effect = self.model.collect(motion.q, self.source.effort)
        return np.asarray(self.source.effort + found - self.model.distribute(motion.q, effect))

    @cached_property
    def derivative(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Exact derivative of the rows' efforts by position, velocity, acceleration of the motors, (t, r, a) each.

        Under another gravity than the robot file's its part along the file's is exact, what is across is left out.
        So is friction that jumps: its derivative is nothing but the reversals of its joint, where no log is to be
        trusted, and passive joints reverse all the time.
        """
        model, motion = self.model, self.source.motion
        names, terms = model.mechanism.standard.names, model.mechanism.terms
        part = list(model.loops.partitions["actuated"].independent)
        chi, load = self._parameters
        chi = chi * [not (name.kind in terms and terms[name.kind].coulomb) for name in names]
        kernel = response(model, tuple(("row", row) for row in model.rows), "actuated")
        v, a = (np.ascontiguousarray(x[:, part]) for x in (motion.qd, motion.qdd))
        shape = (len(motion), len(model.rows), 3, len(part))
        found = kernel(motion.q, v, a, self.band, chi, load)[1].reshape(shape)
        down = np.array(model.mechanism.gravity)
        along = float(self._turned @ down / max(float(down @ down), 1e-300))
        if along:
            falls = np.array([name.inertial for name in names])
            rest = np.zeros_like(v)
            weight = kernel(motion.q, rest, rest, self.band, chi * falls, load)[1].reshape(shape)
            found[:, :, 0] += along * weight[:, :, 0]
        full = np.zeros((3, len(motion), len(model.rows), len(model.actuated)))
        full[..., [model.actuated.index(i) for i in part]] = found.transpose(2, 0, 1, 3)
        return full[0], full[1], full[2]

    @cached_property
    def gravity(self) -> FloatArray:
        """Derivative of the rows' efforts by the components of gravity, (t, 3, r). [N or N m, per m/s2]"""
        chi, load = self._parameters
        names = (*self.model.mechanism.standard.names, *self.model.load_columns)
        values = np.concatenate([chi, load])
        used = np.flatnonzero(values)
        if not used.size:
            return np.zeros((len(self.source.motion), 3, len(self.model.rows)))
        kernel = gravity_regressor(self.model, tuple(names[k] for k in used))
        shape = (len(self.source.motion), 3, len(self.model.rows), used.size)
        return np.asarray(kernel(self.source.motion.q)[0].reshape(shape) @ values[used])

    @cached_property
    def closure_map(self) -> FloatArray:
        """d qd / d qd of the rows, (t, n, r)."""
        return self.model.kinematics.closure_map(self.source.motion.q)

    @cached_property
    def waves(self) -> dict[str, tuple[float, int]]:
        """Spatial frequency that the residual of each motor holds most of [1/m or 1/rad], and how many were tried.

        A periodogram of the residual over the motor's position, four times as fine as its range resolves.
        """
        found = {}
        for k, name in enumerate(self.model.mechanism.actuated):
            stride = max(1, len(self.track.time) // WAVE_SAMPLES)
            q = self.track.position[::stride, k]
            residual = (self.track.effort - self.prediction)[::stride, k]
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
        """Return the effect on the rows of efforts at the motors, (t, a) -> (t, r)."""
        return self.model.collect(self.source.motion.q, efforts)

    def smooth(self, values: FloatArray) -> PositionVelocityAcceleration:
        """Return efforts (t, a) low-passed to what holds most of their power, with two derivatives by time.

        Beyond it predicted efforts are noise of the positions, which derivatives would raise above all else.
        """
        rate, n = 1 / self.track.step, len(values)
        power = np.cumsum((np.abs(np.fft.rfft(self.prediction, axis=0)[1:]) ** 2).sum(axis=1))
        top = (int(np.searchsorted(power, HEARD * power[-1])) + 1) * rate / n
        cutoff = min(top, np.inf if self.source.cutoff is None else self.source.cutoff, 0.4 * rate)
        return (lowpass_periodic(values, rate, n, cutoff) if self.source.periodic
                else differentiate(values, rate, cutoff))

    def moved(self, position: FloatArray, velocity: FloatArray, acceleration: FloatArray) -> FloatArray:
        """Return the change of the rows' efforts for small changes of the motors' motion, (t, a) each -> (t, r)."""
        by_q, by_v, by_a = self.derivative
        return self.track.lagged(
            np.einsum("tra,ta->tr", by_q, position) + np.einsum("tra,ta->tr", by_v, velocity)
            + np.einsum("tra,ta->tr", by_a, acceleration))

    def rebuilt(self, track: Track) -> View | None:
        """Return the log with another track, regressed and thinned as this one; None if the loops do not close."""
        model, source = self.model, self.source
        part = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
        columns = [np.ascontiguousarray(x[:, part]) for x in (track.position, track.velocity, track.acceleration)]
        motion = assembled(model, track.time, columns, source.motion.q)
        if motion is None:
            return None
        base = self.evidence.base
        whole = model.regression(motion, track.effort, base, dead_band=source.dead_band)
        turned = track.gravity - np.array(model.mechanism.gravity)
        if turned.any():
            more, rest = self.evidence.falling(motion.q, turned)
            whole = replace(whole, regressor=whole.regressor + more, effort=whole.effort - rest)
        whole = without_absent_payloads(whole, source.payload)
        effort = whole.effort - self._known_part(motion)  # what was taken out of the recorded efforts stays out
        whole = replace(whole, regressor=track.lagged(whole.regressor))
        noise = [model.collect(motion.q, d)[:, :, None] for d in track.deviations]
        moved = replace(source, motion=motion, effort=track.effort, gravity=track.gravity,
                        lag=track.lag, deviations=track.deviations if len(track.deviations) else None)
        p = len(base)
        both = moved.shaped(np.concatenate([whole.regressor, effort[:, :, None], *noise], axis=2))
        again = both[:, :, p + 1:].transpose(2, 0, 1) + both[:, :, p] if noise else None
        fresh = replace(source.part, regressor=both[:, :, :p], effort=both[:, :, p], parameters=base.names,
                        units=base.units, replicates=again)
        return View(evidence=self.evidence, source=replace(moved, part=fresh))

    def _known_part(self, motion: Motion) -> FloatArray:
        own = {name: value for name, value in self.evidence.known.items()
               if self.source.payload is not None and Parameter(name).payload == self.source.payload}
        if not own:
            return np.zeros((len(motion), len(self.model.rows)))
        return np.asarray(self.model.regressor(motion, tuple(own)) @ np.array(list(own.values())))


def assembled(model: Model, time: FloatArray, columns: Sequence[FloatArray], near: FloatArray) -> Motion | None:
    """Return the motion of all coordinates from that of the motors; None if the loops do not close.

    Args:
        columns: Position, velocity, acceleration of the independent motors, (t, m) each.
        near: Coordinates of the branch to stay on, (t, n); else that of the start pose is tried.
    """
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
    """Return all coordinates from motors (t, m) whose samples may be far apart: the way between them is followed.

    Args:
        position: Of the independent motors. [m or rad]
        near: Coordinates near each sample, (t, n); from the start pose on by default.

    Raises:
        GoughError: The loops do not close.
    """
    move = (np.abs(np.diff(position, axis=0)) / model.kinematics.strides("actuated")).max(axis=1, initial=0.0)
    at = np.concatenate([[0], np.cumsum(np.maximum(np.ceil(move / STEP), 1))]).astype(int)
    path, guess = (None if each is None else np.stack([np.interp(np.arange(at[-1] + 1), at, x) for x in each.T], axis=1)
                   for each in (position, near))
    assert path is not None
    return np.asarray(model.kinematics.assemble(path, "actuated", start=guess)[at])


def corrected(evidence: Evidence, *undo: Callable[[Track, View], Track], guard: bool = False) -> Evidence | None:
    """Return the evidence with mistakes taken out of all logs and the parameters fitted again.

    Args:
        undo: Each returns a log's track without a mistake.
        guard: Leave out what is about reversals of the corrected motion too: rows may have been exchanged.
    """
    groups: list[tuple[Source, ...]] = []
    for views in (evidence.views, evidence.held_out_views):
        sources = []
        for view in views:
            track = view.track
            for each in undo:
                track = each(track, view)
            now = view.rebuilt(track)
            if now is None:
                return None
            sources.append(guarded(evidence.model, now.source) if guard else now.source)
        groups.append(tuple(sources))
    fresh = replace(evidence, logs=groups[0], held_out=groups[1])
    return replace(fresh, values=fit_rows(*fresh.stacked)[0])


def score_problem(views: Sequence[View], columns: Sequence[FloatArray], noise: FloatArray) -> ScoreProblem:
    """Return the equations of some logs, those that do not count left out, with columns shaped alike.

    Args:
        columns: Of each log at its motion's samples, (t, r, k).
        noise: Standard deviation of each row, (r,). [row unit]
    """
    names = views[0].evidence.base.names
    W, D, y, labels, deviations = [], [], [], [], []
    for view, own, label in zip(views, columns, cut_stretches([len(view.source.part) for view in views])):
        part = view.source.part
        counts = part.counting
        W.append((part.select(names).regressor / noise[:, None])[counts])
        D.append((view.source.shaped(own) / noise[:, None])[counts])
        y.append((part.effort / noise)[counts])
        labels.append(np.broadcast_to(label[:, None], counts.shape)[counts])
        deviations.append((deviations_of(part) / noise)[:, counts])
    noisy = None
    if min(len(each) for each in deviations) > 1:
        noisy = block_diag(*deviations)
    return ScoreProblem(regressor=np.concatenate(W), columns=np.concatenate(D), target=np.concatenate(y),
                        stretch=np.concatenate(labels), deviations=noisy)


def deviations_of(part: Regression) -> FloatArray:
    """Return what differs between k repetitions, over sqrt(k (k - 1)): their squares add up to the mean's variance."""
    if part.replicates is None or len(part.replicates) < 2:
        return np.zeros((0, *part.effort.shape))
    k = len(part.replicates)
    return np.asarray((part.replicates - part.replicates.mean(axis=0)) / np.sqrt(k * (k - 1)))
