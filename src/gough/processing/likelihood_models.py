"""Motions and regressions of an averaged period that depend on how it was reconstructed, or on
which period is taken.

The families are what maximum likelihood varies; they fulfil the estimators' protocols without
knowing them. What differs between the periods is the noise of positions and efforts, seen through
the robot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from gough.core.arrays import TINY, BoolArray, FloatArray
from gough.core.errors import InvalidRecording
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.trajectory import PositionVelocityAcceleration, fourier_basis
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import response
from gough.engine.loops import By
from gough.fitting.regression import Regression
from gough.processing.averaging import (
    PeriodAverage,
    independent_motor_columns,
    pose_coordinates,
    pose_map,
    pose_of,
)
from gough.processing.filters import lowpass_periodic
from gough.processing.processed_log import ProcessedLog
from gough.processing.regressions import regression


def mean_pose_of(processed: ProcessedLog) -> FloatArray:
    """Return all coordinates of an averaged period, unfiltered, (N, n). [m or rad]"""
    assert processed.matched is not None
    return processed.matched.mean_pose


def period_motions(
    model: Model, processed: ProcessedLog, positions: FloatArray | None = None
) -> Iterator[Motion]:
    """Yield the motion of each period of a mean one, low-passed as that is, with the past of that.

    The positions of the motors in each period, (k, N, a), are those recorded by default.
    """
    average, cutoff = processed.average, processed.cutoff
    assert average is not None
    assert cutoff is not None
    q = mean_pose_of(processed)
    pose = pose_of(model, q)
    by = pose_coordinates(model)
    own, back = independent_motor_columns(model), pose_map(model, q, by)
    for k, position in enumerate(average.position_periods if positions is None else positions):
        moved = pose + np.einsum("tma,ta->tm", back, (position - average.position)[:, own])
        smooth = lowpass_periodic(moved, average.rate, len(pose), cutoff)
        time = average.recording.time[k * len(pose) : (k + 1) * len(pose)]
        motion = model.kinematics.motion(time, *smooth, by, start=processed.motion.q)
        yield replace(motion, extra_inputs=processed.motion.extra_inputs)


def with_position_noise(
    model: Model,
    processed: ProcessedLog,
    problem: Regression,
    base: BaseParameters | Sequence[str],
    values: FloatArray,
) -> Regression:
    """Return the regression of a mean period with repetitions that carry the noise of the positions
    too.

    The positions of a period would have given another regressor W_k. To first order the repetitions
    are, for values x as a first fit finds them,

        y_k - (W_k - W) x,    W_k from the pose of period k, low-passed as the mean one is,

    whose scatter holds the noise of efforts and positions and what feedback makes them share (AH09
    3.2). The covariance is theirs, over the equations that count in all rows. Where sensors round
    more than they differ, what rounding the motion does to W x widens the scatter.
    """
    average, replicates = processed.average, problem.replicates
    if (
        average is None
        or processed.cutoff is None
        or replicates is None
        or len(replicates[0]) != len(average)
    ):
        return problem
    x = np.where(
        problem.regressor.any(axis=(0, 1)), values, 0.0
    )  # payloads that were not carried have no columns
    seen = np.stack(
        [
            model.regressor(motion, base, dead_band=processed.dead_band) @ x
            for motion in period_motions(model, processed)
        ]
    )
    made = replicates - (seen - seen.mean(axis=0))
    covariance, count = problem.covariance, len(made)
    step = np.sqrt(12 * average.rounding_variance)
    if step.any():
        smooth = processed.motion.q[:, list(model.actuated)]
        error = np.where(
            step > 0, np.round(smooth / np.where(step > 0, step, 1.0)) * step - smooth, 0.0
        )
        motion = next(period_motions(model, processed, (average.position + error)[None]))
        more = (
            model.regressor(motion, base, dead_band=processed.dead_band) @ x - problem.regressor @ x
        )
        counts, away = problem.valid, made - made.mean(axis=0)
        own = (away**2 * counts).sum(axis=(0, 1)) / (count * (count - 1))
        made = made.mean(axis=0) + away * np.sqrt(
            1 + (more**2 * counts).sum(axis=0) / np.maximum(own, TINY)
        )
    if covariance is not None and covariance.ndim == 2:
        sure = problem.valid.all(axis=1)
        left = (made - made.mean(axis=0))[
            :, sure if sure.sum() > len(problem) // 10 else slice(None)
        ]
        left = left.reshape(-1, left.shape[2])
        covariance = left.T @ left / (len(left) * (count - 1))  # of the mean: 1 / (N Nm (Nm - 1))
    return replace(problem, replicates=made, covariance=covariance)


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragedPeriod:
    """The averaged period of a recording of efforts (not currents), seen through the robot."""

    model: Model
    processed: ProcessedLog
    base: BaseParameters

    def __post_init__(self) -> None:
        if self.processed.average is None or self.processed.current:
            raise InvalidRecording(
                f"{self.processed.source}: maximum likelihood needs a periodic log with at least "
                "two periods, and efforts or known drive gains"
            )

    @property
    def average(self) -> PeriodAverage:
        """The averaged period."""
        assert self.processed.average is not None
        return self.processed.average

    @property
    def position_covariance(self) -> FloatArray:
        """Covariance of the averaged positions' errors, (a, a). [m2 or rad2]"""
        return np.asarray(self.average.position_covariance / self.average.count)

    @property
    def scatters(self) -> BoolArray:
        """Which positions differ between periods by more than rounding, (a,)."""
        rounding = 1e-10 * np.ptp(self.average.position, axis=0)
        return np.asarray(np.sqrt(np.diag(self.position_covariance)) > rounding)

    @property
    def position_weight(self) -> FloatArray:
        """Inverse of the covariance of the averaged positions' errors, (a, a). [1/m2 or 1/rad2]"""
        covariance = self.position_covariance
        size = np.sqrt(np.diag(covariance))
        if not self.scatters.all() or np.linalg.cond(covariance / np.outer(size, size)) > 1e12:
            raise InvalidRecording(
                f"{self.processed.source}: of {self.average.count} periods only some positions "
                f"scatter, or some only "
                "together, so that their errors have no weight; use `gm`, or record more periods"
            )
        return np.asarray(np.linalg.inv(covariance))

    @property
    def by(self) -> By:
        """Coordinates the trajectory is described in."""
        return pose_coordinates(self.model)

    @cached_property
    def pose(self) -> FloatArray:
        """These coordinates from the averaged positions, unfiltered, (N, m). [m or rad]"""
        return pose_of(self.model, mean_pose_of(self.processed))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Family(ABC):
    """Regressions of the averaged period by parameters z of its motion."""

    period: AveragedPeriod

    @property
    def position_covariance(self) -> FloatArray:
        """Covariance of the averaged positions' errors, (a, a)."""
        return self.period.position_covariance

    @abstractmethod
    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the pose and its rates at z, (N, m) each."""

    @cached_property
    def _last(self) -> dict[bytes, Motion]:
        return {}

    def motion(self, z: FloatArray) -> Motion:
        """Return the motion at z, made anew unless it is the last one: estimators ask several
        things of each z.
        """
        period, key = self.period, np.asarray(z, dtype=float).tobytes()
        if key not in self._last:
            model, done = period.model, period.processed
            motion = model.kinematics.motion(
                period.average.time, *self.moved(z), period.by, start=done.motion.q
            )
            motion = replace(motion, extra_inputs=done.motion.extra_inputs)
            self._last.clear()
            self._last[key] = model.with_internal_states(
                motion, done.dead_band, periodic=True, payload=done.payload
            )[0]
        return self._last[key]

    def regression(self, z: FloatArray) -> Regression:
        """Return the regression at z, equations that do not count masked."""
        period = self.period
        return regression(
            period.model,
            replace(period.processed, motion=self.motion(z)),
            period.base,
            decimate=False,
        )

    def position_residual(self, z: FloatArray) -> FloatArray:
        """Return measured minus implied actuated positions, (N, a). [m or rad]"""
        return np.asarray(
            self.period.average.position - self.motion(z).q[:, list(self.period.model.actuated)]
        )


class CutoffFamily(_Family):
    """Regressions by the cut-off of the ideal low-pass, z = (f_c,); AH09 (24) with p_z = f_c."""

    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the low-passed pose."""
        pose = self.period.pose
        return lowpass_periodic(pose, self.period.average.rate, len(pose), float(z[0]))

    def fitted_terms(self, highest: int) -> FloatArray:
        """Return half the weighted squares of the positions' errors left by the best 1 ...

        `highest` harmonics, (h,).

        The motors measure E_act(q) dx, so a low-pass of the pose x is not the best fit of x = Phi Z
        to them, which Akaike's criterion is about: it would keep a harmonic too many in every fifth
        recording of a hexapod. Linear in Z about the measured pose; one Cholesky factor in
        ascending order serves all orders.
        """
        period, model = self.period, self.period.model
        count, phi = len(period.pose), np.ones((len(period.pose), 1 + 2 * highest))
        waves = fourier_basis(np.arange(count) / count, 1.0, highest)[1][
            :, 1:
        ]  # cosines, then sines
        phi[:, 1::2], phi[:, 2::2] = waves[:, :highest], waves[:, highest:]
        maps = model.kinematics.closure_map(period.processed.motion.q, period.by)[
            :, list(model.actuated)
        ]
        weight = (
            maps.transpose(0, 2, 1) @ period.position_weight @ maps
        )  # information of a sample on its pose
        x = period.pose - period.pose.mean(axis=0)
        m, k = x.shape[1], phi.shape[1]
        gram = np.empty((k, m, k, m))
        for i, j in product(range(m), range(m)):
            gram[:, i, :, j] = phi.T @ (weight[:, i, j, None] * phi)
        pull = (phi.T @ (weight @ x[:, :, None])[:, :, 0]).reshape(-1)
        root = np.linalg.cholesky(gram.reshape(k * m, k * m))
        gain = np.linalg.solve(root, pull)
        left = x - phi @ np.linalg.solve(root.T, gain).reshape(k, m)
        least = np.einsum("ti,tij,tj->", left, weight, left)
        drop = (
            (gain[m:] ** 2).reshape(highest, -1).sum(axis=1)
        )  # of the squares by each harmonic, given those below
        return np.asarray(least + np.append(np.cumsum(drop[:0:-1])[::-1], 0.0)) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryFamily(_Family):
    """Regressions by the Fourier coefficients of the executed trajectory, with exact derivatives
    through the loops.

    z holds, coefficient by coefficient and coordinate by coordinate, offset, then cosines and sines
    of `harmonics` harmonics of the recorded period: x(t) = Phi(t) Z, Z = z as (1 + 2 harmonics, m).
    """

    harmonics: int

    @cached_property
    def basis(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Phi and its first two derivatives by time, (N, 1 + 2 harmonics) each."""
        count, rate = len(self.period.average), self.period.average.rate
        _, waves, slope = fourier_basis(
            np.arange(count) / rate, rate / count, self.harmonics
        )  # [0, cos, sin], rates
        phi, w = np.array(waves), 2 * np.pi * rate / count * np.arange(1, self.harmonics + 1)
        phi[:, 0] = 1.0
        return phi, slope, -waves * np.concatenate([[0.0], w, w]) ** 2

    def start(self) -> FloatArray:
        """Return the coefficients fitted to the positions alone."""
        return np.asarray(
            np.linalg.lstsq(self.basis[0], self.period.pose, rcond=None)[0].reshape(-1)
        )

    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the series with these coefficients."""
        Z = np.asarray(z, dtype=float).reshape(self.basis[0].shape[1], -1)
        position, velocity, acceleration = (phi @ Z for phi in self.basis)
        return position, velocity, acceleration

    def position_jacobian(self, z: FloatArray) -> FloatArray:
        """Return the derivative of the actuated positions by z: E_act(q) Phi, (N, a, k)."""
        maps = self.period.model.kinematics.closure_map(self.motion(z).q, self.period.by)
        act = maps[:, list(self.period.model.actuated), :]
        return np.asarray(np.einsum("tam,tk->takm", act, self.basis[0]).reshape(*act.shape[:2], -1))

    def effort_jacobian(self, z: FloatArray, values: FloatArray) -> FloatArray:
        """Return the derivative of the rows' efforts by z for base parameter values, (N, r, k)."""
        period, motion = self.period, self.motion(z)
        model = period.model
        chi, load = standard_from_base(model, period.base, values)
        kernel = response(model, tuple(("row", row) for row in model.rows), period.by, smooth=False)
        rows = list(model.loops.partitions[period.by].independent)
        _, derivative, _ = kernel(
            motion.q,
            np.ascontiguousarray(motion.qd[:, rows]),
            np.ascontiguousarray(motion.qdd[:, rows]),
            period.processed.dead_band,
            chi,
            load,
        )
        derivative = derivative.reshape(len(motion), len(model.rows), 3, len(rows))
        total = sum(np.einsum("trm,tk->trkm", derivative[:, :, d], self.basis[d]) for d in range(3))
        return np.asarray(total).reshape(len(motion), len(model.rows), -1)
