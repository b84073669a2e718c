"""Logs beside the model that was fitted to them, and how faults change what the model predicts.

A fault of the recording changes position, velocity, acceleration or
effort of the motors; a fault of the robot file changes gravity,
geometry or the terms of joints. A `FittedLog` has the exact derivatives
of the efforts by all of these, through the closed loops, and can be
built anew from changed motor signals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len

from gough.core.arrays import TINY, BoolArray, FloatArray, IntArray, frozen
from gough.core.errors import GoughError, InvalidInput
from gough.core.motion import Motion
from gough.core.trajectory import PositionVelocityAcceleration
from gough.engine import Model
from gough.engine.derivatives import response
from gough.engine.internal_states import joint_state
from gough.fitting.regression import Regression
from gough.logs.outliers import Jump
from gough.mechanism.terms import JointState
from gough.processing.filters import (
    decimated_noise,
    decimation_taps,
    differentiate,
    lowpass,
    lowpass_periodic,
    masked_lowpass,
    zero_phase,
)
from gough.processing.processed_log import without_absent_payloads
from gough.verdict.close_path import close_along_path
from gough.verdict.fitted_model import FittedModel
from gough.verdict.motor_signals import MotorSignals
from gough.verdict.noise import least_white_noise
from gough.verdict.ripple import Ripple, strongest_ripple

# fraction of the effort's power inside the band of the motion
MOTION_BAND_POWER = 0.99
# Cut-off at which an explanation has to predict better as well, over
# that of the log.
NOISE_CHECK_CUTOFF = 0.5
# Smallest dead band in derivatives, as a fraction of a joint's top
# speed.
MIN_DERIVATIVE_BAND = 1e-3


def _along_gravity(change: FloatArray, derivative: FloatArray) -> FloatArray:
    """Return the effect of a change of gravity (3,) by a derivative (t, 3, ...)."""
    n_samples = len(derivative)
    effect = change @ derivative.reshape(n_samples, 3, -1)
    return np.asarray(effect.reshape(n_samples, *derivative.shape[2:]))


class _Equations(NamedTuple):
    """What the equations of a log are apart from the recorded efforts."""

    motion: Motion  # of all coordinates, loops closed
    regressor: FloatArray  # at the samples of the regression, (n, r, p)
    # of measured payloads, and of parameters that only another gravity
    # shows, (t, r)
    known_effort: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLog:
    """One processed log, its regression and the model fitted to it."""

    fitted: FittedModel
    name: str
    held_out: bool  # the model was not fitted to it
    motion: Motion  # of all coordinates
    effort: FloatArray  # of the motors, (t, a)
    dead_band: FloatArray  # of the sign of velocities, (n,)
    regression: Regression  # of the same samples, or of fewer after decimation
    # number in `motion` of each sample of the regression, the middle
    # one after decimation
    samples: IntArray | None = None
    # effort of each repetition minus their mean, (k, t, a)
    deviations: FloatArray | None = None
    decimation: int = 1  # of the regression
    # equations of the samples of `motion` that decimation averages, (t,
    # r); None for all
    averaged_equations: BoolArray | None = None
    periodic: bool = False  # the samples are one averaged period
    # with which the motion repeats, periods not averaged [s]
    period: float | None = None
    payload: str | None = None  # that the robot carries
    gravity: FloatArray | None = None  # instead of the robot file's [m/s2]
    lag: FloatArray | None = None  # of efforts, (a,) [s]
    cutoff: float | None = None  # of the low-pass on positions [Hz]
    # steps of single positions that the recording shows
    jumps: tuple[Jump, ...] = ()

    @property
    def model(self) -> Model:
        """The robot."""
        return self.fitted.model

    @property
    def sample_numbers(self) -> IntArray:
        """Number in `motion` of each sample of the regression, (t,)."""
        return np.arange(len(self.regression)) if self.samples is None else self.samples

    @cached_property
    def signals(self) -> MotorSignals:
        """What the motors did and what was recorded of it."""
        motors = list(self.model.actuated)
        deviations = self.deviations
        if deviations is None:
            deviations = np.zeros((0, *self.effort.shape))
        gravity = self.gravity
        if gravity is None:
            gravity = np.array(self.model.mechanism.gravity)
        return MotorSignals(
            time=self.motion.time,
            position=self.motion.q[:, motors],
            velocity=self.motion.qd[:, motors],
            acceleration=self.motion.qdd[:, motors],
            effort=self.effort,
            periodic=self.periodic,
            gravity=gravity,
            lag=np.zeros(len(motors)) if self.lag is None else self.lag,
            deviations=deviations,
        )

    def gravity_change(self, signals: MotorSignals) -> FloatArray:
        """Return gravity of some signals minus that of the robot file, (3,)."""
        return np.asarray(signals.gravity - np.array(self.model.mechanism.gravity))

    @cached_property
    def prediction(self) -> FloatArray:
        """Predicted efforts of the motors, (t, a).

        With more motors than degrees of freedom: the recorded ones,
        changed as little as makes them obey the model.
        """
        chi, load = self.fitted.parameters(self.payload)
        model = self.model
        q = self.motion.q
        effort = model.inverse_dynamics(self.motion, chi, load=load, dead_band=self.dead_band)
        change = self.gravity_change(self.signals)
        if change.any():
            rows = np.einsum("k,tkr->tr", change, self.gravity_derivative)
            effort = effort + model.min_norm_motor_effort(q, rows)
        if not model.loops.redundant:
            return self.signals.low_passed(effort)
        recorded = model.min_norm_motor_effort(q, self.in_rows(self.effort))
        return np.asarray(self.effort + effort - recorded)

    @cached_property
    def correlation_time(self) -> float:
        """Correlation time of the gain of an explanation on the log. [s]

        Gains are squares of efforts, whose autocorrelation is that of
        the efforts squared. The lag at which it falls below 1 / e for
        every row of the predicted efforts.
        """
        predicted = self.in_rows(self.prediction)
        below = autocorrelation(predicted - predicted.mean(axis=0)) ** 2 < np.exp(-1)
        return _first_lag(below) * self.signals.step

    @cached_property
    def residual_correlation_time(self) -> float:
        """Correlation time of the residual. [s]

        What chance adds to the gain of an explanation are products of
        the residual with the effect of the fault, which are correlated
        no longer than the residual is: the lag at which its
        autocorrelation falls below 1 / e for every row.
        """
        regression = self.regression.select(self.fitted.base.names)
        residual = regression.effort - regression.regressor @ self.fitted.values
        below = autocorrelation(np.where(regression.valid, residual, 0.0)) < np.exp(-1)
        step = self.signals.step * len(self.motion) / max(len(regression), 1)
        return _first_lag(below) * step

    @cached_property
    def least_decimated_noise(self) -> FloatArray | None:
        """Least noise power of the rows of a decimated log, (r,); None if it is not known.

        It is what decimation leaves of white noise that is as dense as
        the residual before decimation, above the band of the motion.
        """
        if self.decimation == 1 or self.periodic:
            return None
        predicted = self.in_rows(self.prediction)
        white = least_white_noise(self.in_rows(self.effort) - predicted, predicted)
        if white is None:
            return None
        mask = self.averaged_equations
        if mask is None:
            mask = np.ones(predicted.shape, bool)
        kept = decimated_noise(mask, self.decimation)
        return np.asarray(white * kept.mean(axis=0))

    @cached_property
    def motion_derivative(self) -> FloatArray:
        """Derivative of the rows' efforts by position, velocity, acceleration of each motor.

        (3, a, r, t). Friction that jumps is left out: its derivative is
        nothing but reversals.
        """
        model = self.model
        motion = self.motion
        names = model.mechanism.standard.names
        terms = model.mechanism.terms
        independent = list(model.loops.partitions["actuated"].independent)
        chi, load = self.fitted.parameters(self.payload)
        smooth = [not (name.kind in terms and terms[name.kind].coulomb) for name in names]
        top_speed = np.abs(motion.qd).max(axis=0)
        top_speed = np.where(top_speed > 0, top_speed, 1.0)
        band = np.maximum(self.dead_band, MIN_DERIVATIVE_BAND * top_speed)
        kernel = response(model, tuple(("row", row) for row in model.rows), "actuated")
        v = np.ascontiguousarray(motion.qd[:, independent])
        a = np.ascontiguousarray(motion.qdd[:, independent])
        shape = (len(motion), len(model.rows), 3, len(independent))
        by_motion = kernel(motion.q, v, a, band, chi * smooth, load)[1].reshape(shape)
        down = np.array(model.mechanism.gravity)
        along = float(self.gravity_change(self.signals) @ down / max(float(down @ down), TINY))
        if along:
            inertial = np.array([name.inertial for name in names])
            rest = np.zeros_like(v)
            weight = kernel(motion.q, rest, rest, band, chi * inertial, load)[1].reshape(shape)
            by_motion[:, :, 0] += along * weight[:, :, 0]
        derivative = np.zeros((3, len(model.actuated), len(model.rows), len(motion)))
        motors = [model.actuated.index(i) for i in independent]
        derivative[:, motors] = by_motion.transpose(2, 3, 1, 0)
        return derivative

    @cached_property
    def gravity_derivative(self) -> FloatArray:
        """Derivative of the rows' efforts by gravity, (t, 3, r)."""
        return self.fitted.weight_by_gravity(self.motion.q, *self.fitted.parameters(self.payload))

    @cached_property
    def row_maps(self) -> FloatArray:
        """Velocity of every coordinate by the velocity of each row's coordinate, (n, r, t)."""
        closure_map = self.model.kinematics.closure_map(self.motion.q)
        return np.ascontiguousarray(closure_map.transpose(1, 2, 0))

    def in_rows(self, effort: FloatArray) -> FloatArray:
        """Return the effect of motor efforts on the rows, (t, a) -> (t, r)."""
        return self.model.project_to_rows(self.motion.q, effort)

    def at_joint(self, joint: str, effort: FloatArray) -> FloatArray:
        """Return the effect on the rows of an effort at any joint, (t,) or (t, k).

        The samples of each row are neighbours in memory: products of
        them are then fast.
        """
        row_map = self.row_maps[self.model.mechanism.coordinates.index(joint)]
        if effort.ndim == 2:
            return np.asarray((row_map[:, None] * effort.T).transpose(2, 0, 1))
        return np.asarray((row_map * effort).T)

    def joint_state(self, joint: str) -> JointState:
        """Return what the terms of a joint depend on."""
        mechanism = self.model.mechanism
        number = mechanism.coordinates.index(joint)
        return joint_state(mechanism, self.motion, number, self.dead_band)

    @cached_property
    def ripples(self) -> dict[str, Ripple]:
        """The strongest ripple of the residual over the position, by motor."""
        residual = self.effort - self.prediction
        position = self.signals.position
        ripples = {}
        for k, name in enumerate(self.model.mechanism.actuated):
            ripples[name] = strongest_ripple(residual[:, k], position[:, k])
        return ripples

    @cached_property
    def smooth_prediction(self) -> PositionVelocityAcceleration:
        """Predicted efforts in the band of the motion, with two derivatives by time, (t, a)."""
        effort = self.prediction
        rate = 1 / self.signals.step
        n = len(effort)
        power = np.abs(np.fft.rfft(effort, axis=0)[1:]) ** 2
        cumulative = np.cumsum(power.sum(axis=1))
        band = int(np.searchsorted(cumulative, MOTION_BAND_POWER * cumulative[-1])) + 1
        cutoff = min(band * rate / n, self.cutoff or np.inf, 0.4 * rate)
        if self.periodic:
            return lowpass_periodic(effort, rate, n, cutoff)
        return differentiate(effort, rate, cutoff)

    def resampled(self, columns: FloatArray) -> FloatArray:
        """Filter and thin columns (t, r, k) at the samples of the motion as the regression was."""
        if self.decimation == 1:
            return columns[self.sample_numbers]
        half = len(decimation_taps(self.decimation)) // 2
        mask = self.averaged_equations
        if self.periodic and half:  # windows reach around the ends
            columns = np.concatenate([columns[-half:], columns, columns[:half]])
            if mask is not None:
                mask = np.concatenate([mask[-half:], mask, mask[:half]])
        if mask is None or mask.all():
            columns = lowpass(columns, self.decimation)
        else:
            columns, _ = masked_lowpass(columns, mask, self.decimation)
        first = 0 if self.periodic else half
        middle = first + self.decimation * np.arange(len(columns))
        kept = np.isin(middle, self.sample_numbers)
        if int(kept.sum()) != len(self.regression):
            raise InvalidInput(
                f"{self.name}: {int(kept.sum())} of {len(self.regression)} samples of the "
                "regression are in the motion; are they of the same log?"
            )
        return columns[kept]

    def with_signals(self, signals: MotorSignals) -> FittedLog | None:
        """Return the log with other motor signals, loops closed; None if they do not close."""
        if signals.same_model_as(self.signals):
            equations = self._equations
        else:
            equations = self._equations_of(signals)
        if equations is None:
            return None
        motion = equations.motion
        base = self.fitted.base
        effort = self.model.project_to_rows(motion.q, signals.effort) - equations.known_effort
        changed = replace(
            self,
            motion=motion,
            effort=signals.effort,
            gravity=signals.gravity,
            lag=signals.lag,
            deviations=signals.deviations if len(signals.deviations) else None,
        )
        columns = [effort[:, :, None]]
        for deviation in signals.deviations:
            columns.append(self.model.project_to_rows(motion.q, deviation)[:, :, None])
        efforts = changed.resampled(np.concatenate(columns, axis=2))
        replicates = None
        if len(signals.deviations):
            replicates = efforts[:, :, 1:].transpose(2, 0, 1) + efforts[:, :, 0]
        regression = replace(
            self.regression,
            regressor=equations.regressor,
            effort=efforts[:, :, 0],
            parameters=base.names,
            units=base.units,
            replicates=replicates,
        )
        return replace(changed, regression=regression)

    @cached_property
    def _equations(self) -> _Equations | None:
        """The model along the motion as it is."""
        return self._equations_of(self.signals)

    def _equations_of(self, signals: MotorSignals) -> _Equations | None:
        """Return the model along the motion of some signals; None if loops do not close."""
        motion = self._closed_motion(signals)
        if motion is None:
            return None
        model = self.model
        no_effort = np.zeros(signals.effort.shape)
        whole = model.regression(motion, no_effort, self.fitted.base, dead_band=self.dead_band)
        whole = self._with_gravity(whole, motion, signals)
        whole = without_absent_payloads(whole, self.payload)
        known_effort = -whole.effort
        known = self.fitted.known_of(self.payload)
        if known:
            payload_columns = model.regressor(motion, tuple(known))
            known_effort = known_effort + payload_columns @ np.array(list(known.values()))
        return _Equations(
            motion=motion,
            regressor=frozen(self.resampled(signals.low_passed(whole.regressor))),
            known_effort=known_effort,
        )

    def _with_gravity(
        self, regression: Regression, motion: Motion, signals: MotorSignals
    ) -> Regression:
        """Return a regression under the gravity of some signals."""
        change = self.gravity_change(signals)
        if not change.any():
            return regression
        if motion.q is self.motion.q:
            by_gravity, hidden_by_gravity = self._gravity_effects
        else:
            by_gravity, hidden_by_gravity = self._gravity_effects_at(motion.q)
        return replace(
            regression,
            regressor=regression.regressor + _along_gravity(change, by_gravity),
            effort=regression.effort - _along_gravity(change, hidden_by_gravity),
        )

    @cached_property
    def _gravity_effects(self) -> tuple[FloatArray, FloatArray]:
        """Effects of gravity at the positions of the log; see `_gravity_effects_at`."""
        return self._gravity_effects_at(self.motion.q)

    def _gravity_effects_at(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of regressor and effort by gravity, (t, 3, r, p) and (t, 3, r).

        The effort is that of parameters which only another gravity
        shows.
        """
        fitted = self.fitted
        base = fitted.base
        names = self.model.mechanism.standard.names
        by_gravity = fitted.gravity_columns(q, [base.standard[i] for i in base.independent])
        hidden = [k for k in np.flatnonzero(fitted.without_effect) if names[k].inertial]
        columns = fitted.gravity_columns(q, [names[k] for k in hidden])
        return by_gravity, np.asarray(columns @ fitted.without_effect[hidden])

    def _closed_motion(self, signals: MotorSignals) -> Motion | None:
        """Return the motion of all coordinates; None if the loops do not close.

        The branch is that of the motion as it was, or that of the
        reference configuration.
        """
        model = self.model
        independent = list(model.loops.partitions["actuated"].independent)
        columns = [model.actuated.index(i) for i in independent]
        position = np.ascontiguousarray(signals.position[:, columns])
        velocity = np.ascontiguousarray(signals.velocity[:, columns])
        acceleration = np.ascontiguousarray(signals.acceleration[:, columns])
        before = self.motion.q
        for start in (before, None):
            try:
                q = before
                if not np.array_equal(position, before[:, independent]):
                    q = close_along_path(model, position, start)
                qd, qdd = model.kinematics.rates(q, velocity, acceleration, "actuated")
            except GoughError:
                continue
            return Motion(
                coordinates=model.mechanism.coordinates,
                time=signals.time,
                q=q,
                qd=qd,
                qdd=qdd,
                closure_residual=model.kinematics.residual(q),
            )
        return None

    def with_less_position_noise(self) -> FittedLog | None:
        """Return the log with its motion low-passed at half the cut-off, loops closed.

        The power of noise in an acceleration grows with the fifth power
        of the cut-off. None without a cut-off, of averaged periods, of
        which only harmonics of the motion were kept, and if loops do
        not close.
        """
        rate = 1 / self.signals.step
        if self.cutoff is None or self.periodic:
            return None
        cutoff = NOISE_CHECK_CUTOFF * min(self.cutoff, 0.5 * rate)
        return self.with_signals(
            self.signals.with_motion(lambda motion: zero_phase(motion, rate, cutoff))
        )


def autocorrelation(signal: FloatArray) -> FloatArray:
    """Return the autocorrelation of signals (t, r) up to half their length, (t / 2, r)."""
    n = len(signal)
    padded = next_fast_len(2 * n, real=True)
    spectrum = np.abs(np.fft.rfft(signal, padded, axis=0)) ** 2
    correlation = np.fft.irfft(spectrum, padded, axis=0)[: max(n // 2, 2)]
    return np.asarray(correlation / np.maximum(correlation[:1], TINY))


def _first_lag(below: BoolArray) -> int:
    """Return the first lag at which all rows (t, r) are below a limit once, at least one."""
    lags = np.where(below.any(axis=0), below.argmax(axis=0), len(below))
    return max(int(lags.max()), 1)
