"""Positions, velocities and accelerations of all coordinates of a closed chain, many samples at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import casadi as ca
import numpy as np

from gough.core.arrays import FloatArray, IntArray
from gough.core.errors import SingularConfiguration
from gough.engine.loops import By, Loops, Partition, closure_expressions
from gough.engine.symbolic import body_transforms
from gough.kernels.kernel import compiled

CHECK = 1e-9  # elimination without pivoting is trusted below this relative residual
ITERATIONS = 12  # of Newton's method; it converges quadratically, so that more would not help
SINGULAR = 1e-9  # ratio of singular values of K_D taken as singular


class Chain:
    """The kinematics of an assembled mechanism with its loops closed, at one configuration or at many."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._size = len(loops.home)
        self._strides: dict[By, FloatArray] = {}

    def bent(self, change: FloatArray) -> FloatArray:
        """Return the largest change (..., n) of a coordinate that bends the loops. [rad or lengths of the robot]"""
        bending = self.loops.bending
        return np.asarray(np.abs(change[..., bending] / self.loops.units[bending]).max(axis=-1, initial=0.0))

    def strides(self, by: By) -> FloatArray:
        """Return what each independent coordinate moves by while the loops bend by one, at home, (m,). [m or rad]

        One: a radian, or the robot's length, of the coordinate in the loops that is fastest. So behind a gear a rotor
        makes many turns. Infinite for a coordinate that bends no loop.
        """
        if by not in self._strides:
            E = self.closure_map(self.loops.home[None], by)[0]
            fastest = np.array([self.bent(column) for column in E.T])
            self._strides[by] = np.divide(1.0, fastest, out=np.full(len(fastest), np.inf), where=fastest > 1e-9)
        return self._strides[by]

    @compiled
    def _closed(self, kind: Literal["step", "map", "rates"], by: By) -> ca.Function:
        """Return q -> Newton's step and the residual, q -> E and a check, or q, v, a -> qd, qdd and a check."""
        m = len(self.loops.partitions[by].independent)
        q, v, a = ca.SX.sym("q", self._size), ca.SX.sym("v", m), ca.SX.sym("a", m)
        closure = closure_expressions(self.loops, by, q)
        if kind == "step":
            return ca.Function("step", [q], [closure.newton_step(), ca.densify(closure.residual)])
        if kind == "map":
            return ca.Function("map", [q], [closure.closure_map, closure.check])
        return ca.Function("rates", [q, v, a], [*closure.rates(v, a), closure.check])

    @compiled
    def _jacobian(self) -> ca.Function:
        q, v = ca.SX.sym("q", self._size), ca.SX.sym("v", self._size)
        closure = closure_expressions(self.loops, "actuated", q)
        rate = ca.jtimes(closure.jacobian @ v, q, v)
        return ca.Function("jacobian", [q, v], [ca.densify(closure.jacobian), ca.densify(rate)])

    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return K, the derivative of the closures by all coordinates, (t, c, n). [m or rad / unit of q]"""
        return self._jacobian()(q, np.zeros_like(q))[0].reshape(len(q), len(self.loops.weights), self._size)

    @compiled
    def _poses(self) -> ca.Function:
        q = ca.SX.sym("q", self._size)
        poses = body_transforms(self.loops.mechanism, q)
        bodies = [poses[body.name] for body in self.loops.mechanism.bodies]
        return ca.Function("poses", [q], [
            ca.densify(ca.vertcat(*[ca.reshape(p.rotation.T, 1, 9) for p in bodies])),
            ca.densify(ca.vertcat(*[p.translation.T for p in bodies]))])

    def body_poses(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rotations (t, bodies, 3, 3) and origins (t, bodies, 3) of all bodies in the base frame."""
        rotation, origin = self._poses()(q)
        return rotation.reshape(len(q), len(self.loops.mechanism.bodies), 3, 3), origin

    def residual(self, q: FloatArray) -> FloatArray:
        """Return the largest closure error of each sample, (t,). [m or rad]"""
        if not self.loops.mechanism.closures:
            return np.zeros(len(q))
        return np.asarray(np.abs(self._closed("step", self.loops.dynamic)(q)[1]).max(axis=1))

    def close(self, q: FloatArray, by: By, positions: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Close the loops of all samples at once from a guess (t, n) that is already near; the independent ones stay.

        Returns coordinates (t, n), with other `positions` (t, m) of the independent ones if given, and the largest
        residual of each sample as a fraction of the robot (t,); samples that failed keep a large one.
        """
        q = np.array(q, dtype=float)
        if positions is not None:
            q[:, self.loops.partitions[by].independent] = positions
        if not self.loops.partitions[by].dependent:
            return q, np.zeros(len(q))
        kernel = self._closed("step", by)
        worst = np.full(len(q), np.inf)
        active = np.arange(len(q))
        for _ in range(ITERATIONS):
            step, phi = kernel(q[active])
            error = np.abs(phi * self.loops.weights).max(axis=1)
            size = self.bent(step)
            worst[active] = np.where(np.isfinite(error), error, np.inf)
            usable = np.isfinite(size) & (size < 2.0)  # a larger step has left the neighbourhood
            step[~usable] = 0.0
            q[active] += step
            # Quadratic convergence: once the residual is this small, the step just taken ends at rounding.
            done = (error < 1e-9) | ~usable
            active = active[~done]
            if active.size == 0:
                break
        error = np.abs(kernel(q)[1] * self.loops.weights).max(axis=1)
        return q, np.where(np.isfinite(error), error, np.inf)

    def closure_map(self, q: FloatArray, by: By | None = None) -> FloatArray:
        """Map independent velocities to those of all coordinates: E of qd = E qd_I, (t, n, m), BG13 (7).

        Departure: redundant but consistent closures are allowed.
        """
        by = self.loops.dynamic if by is None else by
        size = len(self.loops.partition_of(by).independent)
        E, check = self._closed("map", by)(q)
        E = E.reshape(len(q), self._size, size)
        bad = doubted(check)
        if bad.size:
            E[bad] = self._pivoted_map(q[bad], by, bad)
        return E

    def _pivoted_map(self, q: FloatArray, by: By, samples: np.ndarray) -> FloatArray:
        """Solve for E with pivoting, for samples where the fixed elimination order failed."""
        part = self.loops.partitions[by]
        K = self.loops.scaled(self.jacobian(q))
        E = np.zeros((len(q), self._size, len(part.independent)))
        E[:, part.independent, range(len(part.independent))] = 1.0
        for k, scaled in enumerate(K):
            if not np.isfinite(scaled).all():
                E[k] = np.nan  # that sample only
                continue
            values = np.linalg.svd(scaled[:, part.dependent], compute_uv=False)
            if not values[-1] > SINGULAR * values[0]:
                raise SingularConfiguration(
                    f"'{self.loops.mechanism.name}' is singular at sample {int(samples[k])}: the {by} coordinates do "
                    f"not determine the others (singular value ratio {values[-1] / values[0]:.1e}); keep the motion "
                    "away from this configuration", sample=int(samples[k]), time=float("nan"),
                    singular_value=float(values[-1] / values[0]))
            found = self._solve(scaled, -scaled[:, part.independent], part)
            E[k][part.dependent] = found / self.loops.units[part.independent]
        return E

    def rates(self, q: FloatArray, velocity: FloatArray, acceleration: FloatArray,
              by: By = "actuated") -> tuple[FloatArray, FloatArray]:
        """Return velocities and accelerations of all coordinates from those of the independent ones, each (t, n)."""
        self.loops.partition_of(by)
        qd, qdd, check = self._closed("rates", by)(q, velocity, acceleration)
        bad = doubted(check)
        if bad.size:
            _, qd[bad], qdd[bad] = self.pivoted_rates(q[bad], velocity[bad], acceleration[bad], by, bad)
        return qd, qdd

    def pivoted_rates(self, q: FloatArray, velocity: FloatArray, acceleration: FloatArray, by: By,
                      samples: np.ndarray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E and `rates` of samples, numbered for messages, where the fixed elimination order failed."""
        part = self.loops.partitions[by]
        E = self._pivoted_map(q, by, samples)
        qd, qdd = (np.einsum("tnm,tm->tn", E, x) for x in (velocity, acceleration))
        K, rate = self._jacobian()(q, qd)
        K = self.loops.scaled(K.reshape(len(q), len(self.loops.weights), self._size))
        for k in range(len(q)):
            if not np.isfinite(rate[k]).all():
                qdd[k] = np.nan
                continue
            drift = -rate[k].reshape(-1, 1) * self.loops.weights[:, None]
            qdd[k, part.dependent] += self._solve(K[k], drift, part)[:, 0]
        return E, qd, qdd

    def _solve(self, scaled: FloatArray, right: FloatArray, part: Partition) -> FloatArray:
        """Return the dependent coordinates (d, k) that scaled closures K_D q_D = right determine. [m or rad]"""
        found = np.linalg.lstsq(scaled[:, part.dependent], right, rcond=None)[0]
        return np.asarray(self.loops.units[part.dependent][:, None] * found)

    def margins(self, q: FloatArray) -> Margins:
        """Return the distance to Type-1 and Type-2 singularities of each sample."""
        result = {}
        for by in ("task", "actuated"):
            part = self.loops.partitions.get(by)
            result[by] = np.full(len(q), np.nan if part is None or part.dependent else 1.0)
            if part is not None and part.dependent:
                K = self.loops.scaled(self.jacobian(q))[:, :, part.dependent]
                good = np.isfinite(K).all(axis=(1, 2))
                values = np.linalg.svd(K[good], compute_uv=False)
                result[by][good] = values[:, -1] / values[:, 0]
        return Margins(type1=result["task"], type2=result["actuated"])


@dataclass(frozen=True, eq=False)
class Margins:
    """Distance to singularity: smallest over largest singular value of the scaled K_D; 0 is singular.

    Args:
        type1: With the task coordinates independent (platform locked, motors move), (t,); NaN if there are none.
        type2: With the actuated coordinates independent (motors locked, platform moves), (t,).
    """

    type1: FloatArray
    type2: FloatArray


def doubted(check: FloatArray) -> IntArray:
    """Return the samples whose elimination without pivoting is not to be trusted."""
    return np.flatnonzero(~(check.reshape(-1) < CHECK))
