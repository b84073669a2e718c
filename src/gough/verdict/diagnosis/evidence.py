"""What verdict and diagnosis look at: logs with their regressions, seen from the motors.

An `Evidence` is the identified model beside the data it came from. Its `View`s give, for
one log, everything a usual mistake could have changed: efforts and motion of the motors
(the `Track`), the prediction and its exact derivatives through the closed loops, gravity's
part. Columns made at the motion's samples are filtered and thinned as the regression was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import GoughError
from gough.core.motion import Motion
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.core.trajectory import PositionVelocityAcceleration
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import gravity_regressor, response
from gough.fitting.estimate import Estimate
from gough.fitting.regression import Regression
from gough.processing import Processing
from gough.processing.filters import differentiate, lowpass_periodic
from gough.processing.regressions import without_absent_payloads
from gough.processing.valid_equations import valid_equations
from gough.verdict.diagnosis.track import Source, Track

FEW_SAMPLES = 300  # of all logs together that hypotheses are compared on
GUARD = 0.02  # about a reversal: the delays that a derivative speaks of are shorter [s]
WAVE_SAMPLES = 3000  # of a log in the search for ripples
MOST_WAVES = 150  # ripples in the range of a joint that are searched for
FEWEST_WAVES = 1.5  # below this a ripple cannot be told from gravity
HEARD = 0.99  # of the effort's power: the band in which a transmission's bending is followed
# longest move of a motor between samples of a motion that is followed [rad or lengths of the robot]
STEP = 0.1
# of a joint's top speed: the least dead band in derivatives, where the true sign has none
SLOWEST = 1e-3


def fit_rows(W: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return values (p,), white sigmas and relative error of least squares with iterated row
    weights.

    The error is the geometric mean over the rows of rms residual over rms effort, (n / (n -
    p))^(1/2) times: units of rows do not matter, and one that is hard to predict does not
    drown the others.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """An identified model, the logs it came from, and `held_out` ones."""

    model: Model
    base: BaseParameters  # payload columns included
    values: FloatArray  # of these
    logs: tuple[Source, ...]
    held_out: tuple[Source, ...] = ()
    known: Mapping[str, float] = field(
        default_factory=dict
    )  # of payloads, taken out of the efforts

    @cached_property
    def unseen(self) -> FloatArray:
        """Standard parameters of the robot file that make no effort, (p,); under another gravity
        they do.
        """
        table = self.model.mechanism.standard
        base = self.base.select([name for name in self.base.names if name.payload is None])
        standard = dict(zip(table.names, table.values.tolist()))
        values = [
            0.0
            if name.payload is not None
            else float(np.mean([standard[m] for m in self.model.resolve(name)]))
            for name in base.standard
        ]
        return np.asarray(
            table.values - standard_from_base(self.model, base, base.values(np.array(values)))[0]
        )

    @property
    def stacked(self) -> tuple[FloatArray, FloatArray]:
        """Regressor and effort of all logs but held-out ones, zero where they do not count."""
        both = np.concatenate(
            [source.part.select(self.base.names).stacked() for source in self.logs]
        )
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


def evidence_of(
    model: Model,
    base: BaseParameters,
    estimate: Estimate | None,
    logs: Sequence[Source],
    held_out: Sequence[Source] = (),
    known: Mapping[str, float] | None = None,
) -> Evidence:
    """Return the evidence behind an estimate of base parameters, or fit them here.

    Parameters that were eliminated stay in the model: what they explain is no mistake of
    the logs.
    """
    called = [log.name for log in (*logs, *held_out)]
    every = [
        replace(
            guarded(model, log),
            name=log.name
            if called.count(log.name) == 1
            else f"{log.name} ({called[:k].count(log.name) + 1})",
        )
        for k, log in enumerate((*logs, *held_out))
    ]
    names = [name for name in base.names if name in logs[0].part.parameters]
    own = {} if estimate is None else dict(zip(estimate.parameters, estimate.values.tolist()))
    found = Evidence(
        model=model,
        base=base.select(names),
        values=np.array([own.get(name, 0.0) for name in names]),
        logs=tuple(every[: len(logs)]),
        held_out=tuple(every[len(logs) :]),
        known=dict(known or {}),
    )
    return found.refitted if estimate is None else found


def guarded(model: Model, log: Source) -> Source:
    """Leave out the equations about reversals: where friction jumps, no mistake is its derivative.

    An effort that is late jumps after the velocity did; left in, these few samples outweigh
    all others. Decimated logs are low-passed there, and a row keeps at least half of what
    counted.
    """
    if log.decimation > 1 or len(log.part) != len(log.motion):
        return log
    before = log.part.valid
    mask = before & away_from_reversals(model, log)
    few = mask.sum(axis=0) < 0.5 * before.sum(axis=0)
    mask[:, few] = before[:, few]
    return replace(log, part=replace(log.part, mask=mask))


def away_from_reversals(model: Model, log: Source) -> BoolArray:
    """Tell which equations are further than `GUARD` from any reversal they feel, (t, r)."""
    time = np.asarray(log.motion.time)
    reach = max(1, round(GUARD * (len(time) - 1) / float(time[-1] - time[0])))
    bands = Processing(dead_band=dict(zip(model.mechanism.coordinates, log.dead_band.tolist())))
    return valid_equations(model, log.motion, bands, reach, periodic=log.periodic)


def thinned(evidence: Evidence) -> Evidence:
    """Return some hundred samples, evenly spread, rather away from reversals, fitted again.

    Efforts are as recorded: low-passed ones do not belong to a single sample.
    """
    model, base, logs = evidence.model, evidence.base, []
    most = max(FEW_SAMPLES, 6 * len(base) // max(len(model.rows), 1))
    for log in evidence.logs:
        part, time, count = (
            log.part,
            np.asarray(log.motion.time),
            most // len(evidence.logs) + 1,
        )
        mask = away_from_reversals(model, log)
        if log.decimation == 1:
            mask = np.zeros_like(mask)
            mask[log.sample_numbers] = part.valid
        good = np.flatnonzero(mask.all(axis=1))
        good = good if len(good) >= count // 3 else np.arange(len(time))
        index = good[np.linspace(0, len(good) - 1, min(count, len(good))).astype(int)]
        blank = Regression(
            regressor=np.zeros((len(index), len(part.rows), len(base))),
            rows=part.rows,
            effort=np.zeros((len(index), len(part.rows))),
            row_units=part.row_units,
            parameters=base.names,
            units=base.units,
            time=time[index],
        )
        logs.append(
            replace(
                log,
                motion=log.motion.take(index),
                effort=log.effort[index],
                part=blank,
                samples=None,
                deviations=None,
                decimation=1,
            )
        )
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
        own = [
            k
            for k, name in enumerate(names)
            if name.payload is None or name.payload == self.source.payload
        ]
        chi, load = standard_from_base(
            self.model,
            evidence.base.select([names[k] for k in own]),
            evidence.values[own],
        )
        for name, value in self._known.items():
            load = load + value * self.model.unit_load(Parameter(name))
        return chi + evidence.unseen, load

    @property
    def _known(self) -> dict[str, float]:
        payload = self.source.payload
        return {
            name: value
            for name, value in self.evidence.known.items()
            if payload is not None and Parameter(name).payload == payload
        }

    @cached_property
    def track(self) -> Track:
        """What the motors did and what was recorded of it."""
        source, columns = self.source, list(self.model.actuated)
        none = np.zeros((0, *source.effort.shape))
        return Track(
            time=source.motion.time,
            position=source.motion.q[:, columns],
            velocity=source.motion.qd[:, columns],
            acceleration=source.motion.qdd[:, columns],
            effort=source.effort,
            periodic=source.periodic,
            gravity=np.array(self.model.mechanism.gravity)
            if source.gravity is None
            else source.gravity,
            lag=np.zeros(len(columns)) if source.lag is None else source.lag,
            deviations=none if source.deviations is None else source.deviations,
        )

    def turned(self, track: Track) -> FloatArray:
        """Return by how much gravity differs from the robot file's, (3,)."""
        return np.asarray(track.gravity - np.array(self.model.mechanism.gravity))

    @cached_property
    def prediction(self) -> FloatArray:
        """Predicted efforts of the motors, (t, a).

        With more motors than degrees of freedom: the recorded ones, changed as little as
        makes them obey the model.
        """
        chi, load = self._parameters
        model, q = self.model, self.source.motion.q
        found = model.inverse_dynamics(
            self.source.motion, chi, load=load, dead_band=self.source.dead_band
        )
        turned = self.turned(self.track)
        if turned.any():
            found = found + model.min_norm_motor_effort(
                q, np.einsum("k,tkr->tr", turned, self.gravity)
            )
        if not model.loops.redundant:
            return self.track.lagged(found)
        return np.asarray(
            self.source.effort
            + found
            - model.min_norm_motor_effort(q, self.effect(self.source.effort))
        )

    @cached_property
    def derivative(self) -> FloatArray:
        """Exact derivative of the rows' efforts by the motors' motion, (3, t, r, a).

        Left out are the part of another gravity across the robot file's, and friction that
        jumps: its derivative is nothing but reversals, where no log is to be trusted.
        """
        model, motion = self.model, self.source.motion
        names, terms = model.mechanism.standard.names, model.mechanism.terms
        part = list(model.loops.partitions["actuated"].independent)
        chi, load = self._parameters
        chi = chi * [not (name.kind in terms and terms[name.kind].coulomb) for name in names]
        top = np.abs(motion.qd).max(axis=0)
        band = np.maximum(
            self.source.dead_band, SLOWEST * np.where(top > 0, top, 1.0)
        )  # something to differentiate
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
        return np.asarray(
            self.evidence.falling(self.source.motion.q, [names[k] for k in used]) @ values[used]
        )

    @cached_property
    def closure_map(self) -> FloatArray:
        return self.model.kinematics.closure_map(self.source.motion.q)

    @cached_property
    def waves(self) -> dict[str, tuple[float, int]]:
        """Spatial frequency that each motor's residual holds most of [1/m or 1/rad], and how many
        were tried.

        A periodogram over the motor's position, four times as fine as its range resolves.
        """
        found = {}
        stride = max(1, len(self.track.time) // WAVE_SAMPLES)
        left = (self.track.effort - self.prediction)[::stride]
        for name, q, residual in zip(
            self.model.mechanism.actuated,
            self.track.position[::stride].T,
            left.T,
        ):
            reach, step = float(np.ptp(q)), float(np.median(np.abs(np.diff(q))))
            if reach <= 0:
                found[name] = (0.0, 1)
                continue
            highest = max(
                min(MOST_WAVES, 0.2 * reach / max(step, 1e-12 * reach)),
                2 * FEWEST_WAVES,
            )
            tried = np.arange(FEWEST_WAVES, highest, 0.25) / reach
            power = np.abs(np.exp(-2j * np.pi * np.outer(tried, q)) @ (residual - residual.mean()))
            found[name] = (float(tried[int(np.argmax(power))]), len(tried))
        return found

    def effect(self, efforts: FloatArray) -> FloatArray:
        """Return the effect on the rows of motor efforts, (t, a) -> (t, r)."""
        return self.model.project_to_rows(self.source.motion.q, efforts)

    def smooth(self, values: FloatArray) -> PositionVelocityAcceleration:
        """Low-pass efforts (t, a) to what holds most of their power, with two derivatives by time.

        Beyond it they are noise of the positions, which derivatives would raise above all.
        """
        rate, n = 1 / self.track.step, len(values)
        power = np.cumsum((np.abs(np.fft.rfft(self.prediction, axis=0)[1:]) ** 2).sum(axis=1))
        top = (int(np.searchsorted(power, HEARD * power[-1])) + 1) * rate / n
        cutoff = min(
            top,
            np.inf if self.source.cutoff is None else self.source.cutoff,
            0.4 * rate,
        )
        return (
            lowpass_periodic(values, rate, n, cutoff)
            if self.source.periodic
            else differentiate(values, rate, cutoff)
        )

    def rebuilt(self, track: Track) -> View | None:
        """Regress the log with another track; None if the loops do not close."""
        model, source, evidence = self.model, self.source, self.evidence
        part = [model.actuated.index(i) for i in model.loops.partitions["actuated"].independent]
        columns = [
            np.ascontiguousarray(x[:, part])
            for x in (track.position, track.velocity, track.acceleration)
        ]
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
            whole = replace(
                whole,
                regressor=whole.regressor + np.einsum("k,tkrp->trp", turned, more),
                effort=whole.effort
                - np.einsum("k,tkrp,p->tr", turned, rest, evidence.unseen[hidden]),
            )
        whole, effort = (
            without_absent_payloads(whole, source.payload),
            whole.effort,
        )
        if self._known:  # what was taken out of the recorded efforts stays out
            effort = effort - model.regressor(motion, tuple(self._known)) @ np.array(
                list(self._known.values())
            )
        noise = [model.project_to_rows(motion.q, d)[:, :, None] for d in track.deviations]
        moved = replace(
            source,
            motion=motion,
            effort=track.effort,
            gravity=track.gravity,
            lag=track.lag,
            deviations=track.deviations if len(track.deviations) else None,
        )
        both = moved.shaped(
            np.concatenate(
                [track.lagged(whole.regressor), effort[:, :, None], *noise],
                axis=2,
            )
        )
        again = both[:, :, p + 1 :].transpose(2, 0, 1) + both[:, :, p] if noise else None
        fresh = replace(
            source.part,
            regressor=both[:, :, :p],
            effort=both[:, :, p],
            parameters=base.names,
            units=base.units,
            replicates=again,
        )
        return View(evidence=evidence, source=replace(moved, part=fresh))


def assembled(
    model: Model,
    time: FloatArray,
    columns: Sequence[FloatArray],
    near: FloatArray,
) -> Motion | None:
    """Return the motion on the branch `near` (t, n), or on that of the start pose; None if no loop
    closes.
    """
    same = np.array_equal(
        columns[0],
        near[:, list(model.loops.partitions["actuated"].independent)],
    )
    for start in (near, None):
        try:
            q = near if same else followed(model, columns[0], start)
            qd, qdd = model.kinematics.rates(q, columns[1], columns[2], "actuated")
        except GoughError:
            continue
        return Motion(
            coordinates=model.mechanism.coordinates,
            time=time,
            q=q,
            qd=qd,
            qdd=qdd,
            closure_residual=model.kinematics.residual(q),
        )
    return None


def followed(model: Model, position: FloatArray, near: FloatArray | None = None) -> FloatArray:
    """Return all coordinates from motors (t, m) that may move far: the way between samples is
    followed.
    """
    move = (np.abs(np.diff(position, axis=0)) / model.kinematics.step_scale("actuated")).max(
        axis=1, initial=0.0
    )
    at = np.concatenate([[0], np.cumsum(np.maximum(np.ceil(move / STEP), 1))]).astype(int)

    def path(values: FloatArray) -> FloatArray:
        return np.stack([np.interp(np.arange(at[-1] + 1), at, x) for x in values.T], axis=1)

    return np.asarray(
        model.kinematics.close_loops(
            path(position),
            "actuated",
            start=None if near is None else path(near),
        )[at]
    )


def corrected(
    evidence: Evidence,
    *undo: Callable[[Track, View], Track],
    guard: bool = False,
) -> Evidence | None:
    """Take mistakes out of all logs and fit again; None if the loops do not close.

    With `guard` reversals of the corrected motion are left out too: rows may have been
    exchanged.
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
