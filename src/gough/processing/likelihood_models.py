"""Motions and regressions of an averaged period that maximum likelihood varies.

They depend on how the motion was reconstructed (cut-off, Fourier
coefficients) or on which period is taken. The classes implement the
protocols of the estimators without importing them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.errors import InvalidRecording
from gough.core.motion import Motion
from gough.core.parameters import BaseParameters
from gough.core.trajectory import PositionVelocityAcceleration, fourier_basis
from gough.engine import Model, standard_from_base
from gough.engine.derivatives import response
from gough.engine.loops import By
from gough.fitting.regression import Regression
from gough.processing.averaging import PeriodAverage
from gough.processing.filters import lowpass_periodic
from gough.processing.processed_log import ProcessedLog, regression
from gough.processing.valid_equations import rows_with_coulomb

# Condition number of the correlation of positions from which it is
# taken as singular.
MAX_CORRELATION_CONDITION = 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragedPeriod:
    """The averaged period of a log of efforts, with the robot and its parameters."""

    model: Model  # the robot
    processed: ProcessedLog  # averaged, in efforts
    base: BaseParameters  # columns of the regressions

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
        deviation = np.sqrt(np.diag(self.position_covariance))
        return np.asarray(deviation > rounding)

    @property
    def position_weight(self) -> FloatArray:
        """Inverse of the covariance of the averaged positions' errors, (a, a). [1/m2 or 1/rad2]"""
        covariance = self.position_covariance
        deviation = np.sqrt(np.diag(covariance))
        if self.scatters.all():
            correlation = covariance / np.outer(deviation, deviation)
            singular = np.linalg.cond(correlation) > MAX_CORRELATION_CONDITION
        else:
            singular = True
        if singular:
            raise InvalidRecording(
                f"{self.processed.source}: of {self.average.count} periods only some positions "
                "scatter, or some only together, so that their errors have no weight; use `gm`, "
                "or record more periods"
            )
        return np.asarray(np.linalg.inv(covariance))

    @property
    def by(self) -> By:
        """Coordinates the trajectory is described in."""
        return self.model.kinematics.pose_coordinates

    @cached_property
    def pose(self) -> FloatArray:
        """These coordinates from the averaged positions, unfiltered, (N, m). [m or rad]"""
        mean_pose = self.processed.whole_log.mean_pose
        return self.model.kinematics.pose_of(mean_pose)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Family(ABC):
    """Regressions of the averaged period by parameters z of its motion."""

    period: AveragedPeriod

    @property
    def position_covariance(self) -> FloatArray:
        """Covariance of the averaged positions' errors, (a, a)."""
        return self.period.position_covariance

    @property
    def processed(self) -> ProcessedLog:
        """The averaged period as its regressions see it."""
        return self.period.processed

    @abstractmethod
    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the pose and its rates at z, (N, m) each."""

    @cached_property
    def _last(self) -> dict[bytes, Motion]:
        return {}

    def motion(self, z: FloatArray) -> Motion:
        """Return the motion at z; the last one is kept, since estimators use each z repeatedly."""
        key = np.asarray(z, dtype=float).tobytes()
        if key not in self._last:
            self._last.clear()
            self._last[key] = self._computed_motion(z)
        return self._last[key]

    def _computed_motion(self, z: FloatArray) -> Motion:
        period = self.period
        model = period.model
        processed = self.processed
        motion = model.kinematics.motion(
            period.average.time,
            *self.moved(z),
            period.by,
            start=processed.motion.q,
        )
        motion = replace(motion, extra_inputs=processed.motion.extra_inputs)
        with_states, _ = model.with_internal_states(
            motion,
            processed.dead_band,
            periodic=True,
            payload=processed.payload,
        )
        return with_states

    def regression(self, z: FloatArray) -> Regression:
        """Return the regression at z, with the mask of valid equations."""
        period = self.period
        processed = replace(self.processed, motion=self.motion(z))
        return regression(period.model, processed, period.base, decimate=False)

    def position_residual(self, z: FloatArray) -> FloatArray:
        """Return measured minus implied actuated positions, (N, a). [m or rad]"""
        implied = self.motion(z).q[:, list(self.period.model.actuated)]
        return np.asarray(self.period.average.position - implied)


class CutoffFamily(_Family):
    """Regressions by the cut-off of the ideal low-pass, z = (f_c,); AH09 (24) with p_z = f_c."""

    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the low-passed pose."""
        pose = self.period.pose
        rate = self.period.average.rate
        return lowpass_periodic(pose, rate, len(pose), float(z[0]))

    def fitted_terms(self, highest: int) -> FloatArray:
        """Return half the weighted squared position errors of the best 1 ... `highest` harmonics.

        The motors measure E_act(q) dx, so a low-pass of the pose x is
        not the best fit of x = Phi Z to them, which Akaike's criterion
        is about: it would keep a harmonic too many in every fifth
        recording of a hexapod. Linear in Z about the measured pose; one
        Cholesky factor in ascending order serves all orders. Returns
        (h,).
        """
        period = self.period
        model = period.model
        phi = _interleaved_basis(len(period.pose), highest)
        q = period.processed.motion.q
        closure_map = model.kinematics.closure_map(q, period.by)
        maps = closure_map[:, list(model.actuated)]
        # information of a sample on its pose, (N, m, m)
        weight = maps.transpose(0, 2, 1) @ period.position_weight @ maps
        x = period.pose - period.pose.mean(axis=0)
        m = x.shape[1]
        k = phi.shape[1]
        gram = np.empty((k, m, k, m))
        for i, j in product(range(m), range(m)):
            gram[:, i, :, j] = phi.T @ (weight[:, i, j, None] * phi)
        moment = (phi.T @ (weight @ x[:, :, None])[:, :, 0]).reshape(-1)
        root = np.linalg.cholesky(gram.reshape(k * m, k * m))
        gain = np.linalg.solve(root, moment)
        residual = x - phi @ np.linalg.solve(root.T, gain).reshape(k, m)
        least = np.einsum("ti,tij,tj->", residual, weight, residual)
        # decrease of the squares by each harmonic, given those below
        decrease = (gain[m:] ** 2).reshape(highest, -1).sum(axis=1)
        without_higher = np.append(np.cumsum(decrease[:0:-1])[::-1], 0.0)
        return np.asarray(least + without_higher) / 2


def _interleaved_basis(count: int, harmonics: int) -> FloatArray:
    """Return 1, then cosine and sine of each harmonic over one period, (count, 1 + 2 harmonics)."""
    time = np.arange(count) / count
    _, waves, _ = fourier_basis(time, 1.0, harmonics)  # [0, cos, sin]
    basis = np.ones((count, 1 + 2 * harmonics))
    basis[:, 1::2] = waves[:, 1 : harmonics + 1]
    basis[:, 2::2] = waves[:, harmonics + 1 :]
    return basis


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryFamily(_Family):
    """Regressions by the Fourier coefficients of the executed trajectory, with exact derivatives.

    z holds, coefficient by coefficient and coordinate by coordinate, offset, then cosines
    and sines of `harmonics` harmonics of the recorded period: x(t) = Phi(t) Z, Z = z as (1
    + 2 harmonics, m).
    """

    harmonics: int  # of the trajectory

    @cached_property
    def processed(self) -> ProcessedLog:
        """The averaged period, without dead bands that no valid equation is inside of.

        Valid equations are those whose velocities, as recorded,
        determine the sign of friction. While the trajectory varies,
        some of them pass the edge of a dead band, where friction has a
        kink: the likelihood would have local minima there, at which its
        gradient does not vanish. Without the band the sign of friction
        stays.
        """
        processed = self.period.processed
        acts_on_row = rows_with_coulomb(self.period.model)  # (n, r)
        valid = processed.valid[:, None, :]
        used = (valid & acts_on_row).any(axis=2)  # (N, n)
        outside = np.abs(processed.motion.qd) >= processed.dead_band
        known = (outside | ~used).all(axis=0)
        dead_band = np.where(known, 0.0, processed.dead_band)
        return replace(processed, dead_band=dead_band)

    @cached_property
    def basis(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Phi and its first two derivatives by time, (N, 1 + 2 harmonics) each."""
        average = self.period.average
        time = np.arange(len(average)) / average.rate
        frequency = average.rate / len(average)
        # [0, cos, sin] and their rates
        _, waves, slope = fourier_basis(time, frequency, self.harmonics)
        phi = np.array(waves)
        phi[:, 0] = 1.0
        w = 2 * np.pi * frequency * np.arange(1, self.harmonics + 1)
        rates = np.concatenate([[0.0], w, w])
        return phi, slope, -waves * rates**2

    def start(self) -> FloatArray:
        """Return the coefficients fitted to the positions alone."""
        coefficients = np.linalg.lstsq(self.basis[0], self.period.pose, rcond=None)[0]
        return np.asarray(coefficients.reshape(-1))

    def moved(self, z: FloatArray) -> PositionVelocityAcceleration:
        """Return the series with these coefficients."""
        phi, phi_d, phi_dd = self.basis
        Z = np.asarray(z, dtype=float).reshape(phi.shape[1], -1)
        return phi @ Z, phi_d @ Z, phi_dd @ Z

    def position_jacobian(self, z: FloatArray) -> FloatArray:
        """Return the derivative of the actuated positions by z: E_act(q) Phi, (N, a, k)."""
        model = self.period.model
        q = self.motion(z).q
        maps = model.kinematics.closure_map(q, self.period.by)
        act = maps[:, list(model.actuated), :]
        jacobian = np.einsum("tam,tk->takm", act, self.basis[0])
        return np.asarray(jacobian.reshape(*act.shape[:2], -1))

    def effort_jacobian(self, z: FloatArray, values: FloatArray) -> FloatArray:
        """Return the derivative of the rows' efforts by z for base parameter values, (N, r, k)."""
        period = self.period
        motion = self.motion(z)
        model = period.model
        chi, load = standard_from_base(model, period.base, values)
        kernel = response(
            model,
            tuple(("row", row) for row in model.rows),
            period.by,
            smooth=False,
        )
        rows = list(model.loops.partitions[period.by].independent)
        _, derivative, _ = kernel(
            motion.q,
            np.ascontiguousarray(motion.qd[:, rows]),
            np.ascontiguousarray(motion.qdd[:, rows]),
            self.processed.dead_band,
            chi,
            load,
        )
        n_samples = len(motion)
        n_rows = len(model.rows)
        derivative = derivative.reshape(n_samples, n_rows, 3, len(rows))
        n_coefficients = self.basis[0].shape[1]
        jacobian = np.zeros((n_samples, n_rows, n_coefficients, len(rows)))
        for order, basis in enumerate(self.basis):
            jacobian += np.einsum("trm,tk->trkm", derivative[:, :, order], basis)
        return jacobian.reshape(n_samples, n_rows, -1)
