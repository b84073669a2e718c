"""The design problem as numbers: coefficients -> objective and constraints, with exact
derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Fourier, fourier_basis, rest_basis
from gough.engine.columns import column_names
from gough.engine.derivatives import regressor_adjoint, response, smooth_regressor
from gough.engine.kinematics import CHECK
from gough.engine.limits import Limit
from gough.engine.loops import CLOSED, By
from gough.engine.model import Model
from gough.excitation.criteria import Criterion, criterion_gradient
from gough.kernels.kernel import Kernel


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One trajectory of a design: what is fixed about it."""

    harmonics: int
    frequency: float  # fundamental, or where to start if it is free [Hz]
    payload: str | None
    weight: float  # controller samples that each grid sample stands for, over all periods
    samples: int  # grid points per period
    at_rest: bool  # zero velocity and acceleration at the start of each period
    free_frequency: bool

    @cached_property
    def shape(self) -> FloatArray:
        """Maps free coefficients to (offset, mu, nu): (1 + 2h, free)."""
        every = np.eye(self.harmonics)
        mu, nu = rest_basis(self.harmonics) if self.at_rest else (every, every)
        return np.asarray(block_diag(1.0, mu, nu))

    @cached_property
    def basis(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Position, velocity, acceleration by (offset, mu / w, nu / w) on the grid, each (t, 1 +
        2h).

        AH09 (12), (14), (15) with time in units of 1 / w.
        """
        phase = np.arange(self.samples) / self.samples
        return fourier_basis(2 * np.pi * phase, 1 / (2 * np.pi), self.harmonics)


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """The problem evaluated at one set of variables; only built where the loops close.

    Lists hold what belongs to each part. P are the trajectory coordinates, with velocities v and
    accelerations a.
    """

    variables: FloatArray
    q: list[FloatArray]  # configurations, (t, n)
    rates: list[tuple[FloatArray, FloatArray]]  # v, a, (t, m) each
    constraints: FloatArray  # normalised, samples of all parts one after the other, (t, o)
    derivatives: list[FloatArray]  # of the constraints by (q_P, v, a), (t, o, 3m)
    objective: float
    seeds: list[FloatArray]  # derivatives of the objective by the whitened regressors


class DesignProblem:
    """Variables, objective and constraints of a design.

    The variables of a part are the free Fourier coefficients of its coordinates, as amplitudes
    relative to half the range of the coordinate (coefficient-major), and ln(frequency / start) if
    that is free.

    Args:
        criterion: What to minimise; all but `d` by their logarithm.
        covariance: Covariance of the motor efforts, (a, a).
        centre: Configuration about which trajectories are built, (n,).

    Attributes:
        reach: Half the range of each trajectory coordinate, (m,), a radian or the robot's length
            without limits.
    """

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        *,
        by: By,
        criterion: Criterion,
        base: BaseParameters,
        limits: tuple[Limit, ...],
        covariance: FloatArray,
        centre: FloatArray,
    ) -> None:
        self.model, self.parts, self.by, self.criterion = model, tuple(parts), by, criterion
        self.base, self.limits, self.centre, names = base, limits, centre, column_names(base)
        self.bands: list[FloatArray] = [np.full(len(model.home), 0.1) for _ in self.parts]
        self.evaluations = 0
        independent = model.loops.partitions[by].independent
        self.joints, self.origin = (
            [model.mechanism.joints[i] for i in independent],
            centre[independent],
        )
        ranges = {limit.name: limit.half for limit in limits if limit.quantity == "position"}
        self.reach: FloatArray = np.array(
            [
                ranges.get(joint.name, usual)
                for joint, usual in zip(self.joints, model.loops.units[independent])
            ]
        )
        # AH09 (21) is about the regressor itself
        self._noise = np.eye(len(covariance)) if criterion == "cond" else covariance
        self._loads = [model.load(part.payload) for part in self.parts]
        # Columns a part informs about: the robot's and those of its own payload.
        self._scales = [
            np.sqrt(part.weight)
            * np.array([name.payload in (None, part.payload) for name in names])
            for part in self.parts
        ]
        self._sizes = [
            part.shape.shape[1] * len(self.origin) + part.free_frequency for part in self.parts
        ]
        self._response = response(model, tuple(limit.output for limit in limits), by)
        self._regressor = smooth_regressor(model, names, by)

    @cached_property
    def _adjoint(self) -> Kernel:
        return regressor_adjoint(self.model, column_names(self.base), self.by)

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def random_direction(self, rng: np.random.Generator) -> FloatArray:
        """Return random coefficients of size one; a free frequency stays at its start."""
        found = [rng.standard_normal(size) for size in self._sizes]
        for part, own in zip(self.parts, found):
            own[-1] *= not part.free_frequency
        return np.concatenate(found)

    def fix_bands(self, point: Point) -> None:
        """Set the width of the smoothed sign of each joint to a fifth of its rms velocity in a
        typical motion.

        The sign then changes over a few grid samples, which is what derivatives on the grid can
        see.
        """
        for k, (velocity, acceleration) in enumerate(point.rates):
            qd, _ = self.model.kinematics.rates(point.q[k], velocity, acceleration, self.by)
            rms = np.sqrt((qd**2).mean(axis=0))
            self.bands[k] = 0.2 * np.maximum(rms, 1e-3 * rms.max() + 1e-12)

    def by_part(self, variables: FloatArray) -> list[FloatArray]:
        return np.split(variables, np.cumsum(self._sizes)[:-1])

    def _unpack(self, part: Part, own: FloatArray) -> tuple[FloatArray, float]:
        """Return (offset - origin, mu / w, nu / w) (1 + 2h, m) and the pulsation w [rad/s] of a
        part.
        """
        free, stretch = (own[:-1], float(np.exp(own[-1]))) if part.free_frequency else (own, 1.0)
        amplitudes = part.shape @ free.reshape(part.shape.shape[1], -1) * self.reach
        return amplitudes, 2 * np.pi * part.frequency * stretch

    def trajectories(self, variables: FloatArray) -> tuple[Fourier, ...]:
        found = []
        for part, own in zip(self.parts, self.by_part(variables)):
            amplitudes, w = self._unpack(part, own)
            h = part.harmonics
            found.append(
                Fourier(
                    coordinates=tuple(j.name for j in self.joints),
                    units=tuple(j.unit for j in self.joints),
                    robot=self.model.mechanism.name,
                    frequency=w / (2 * np.pi),
                    offset=self.origin + amplitudes[0],
                    mu=w * amplitudes[1 : 1 + h],
                    nu=w * amplitudes[1 + h :],
                )
            )
        return tuple(found)

    def variables_of(self, trajectories: Sequence[Fourier]) -> FloatArray:
        """Return the variables that stand for trajectories, (x,): the inverse of `trajectories`."""
        names, found = [joint.name for joint in self.joints], []
        if len(trajectories) != len(self.parts):
            raise InvalidInput(
                f"{len(trajectories)} trajectories to start from, expected {len(self.parts)}"
            )
        for part, trajectory in zip(self.parts, trajectories):
            missing = part.harmonics - trajectory.harmonics
            if set(trajectory.coordinates) != set(names) or missing < 0:
                raise InvalidInput(
                    f"the trajectory moves {', '.join(trajectory.coordinates)} with "
                    f"{trajectory.harmonics} harmonics, expected {', '.join(names)} with at most "
                    f"{part.harmonics}"
                )
            order, w = trajectory.columns(names), 2 * np.pi * trajectory.frequency
            waves = [
                np.pad(c[:, order] / w, ((0, missing), (0, 0)))
                for c in (trajectory.mu, trajectory.nu)
            ]
            amplitudes = np.vstack([trajectory.offset[order] - self.origin, *waves])
            found.append(
                np.linalg.lstsq(part.shape, amplitudes / self.reach, rcond=None)[0].ravel()
            )
            if part.free_frequency:
                found.append(np.log([trajectory.frequency / part.frequency]))
        return np.concatenate(found)

    def evaluate(self, variables: FloatArray, near: Point | None = None) -> Point | None:
        """Evaluate objective and constraints; None where the loops do not close or the robot turns
        singular.
        """
        self.evaluations += 1
        q, rates, constraints, derivatives, blocks = [], [], [], [], []
        for k, (part, own) in enumerate(zip(self.parts, self.by_part(variables))):
            amplitudes, w = self._unpack(part, own)
            position, velocity, acceleration = (
                w**d * (basis @ amplitudes) for d, basis in enumerate(part.basis)
            )
            guess = (
                np.repeat(self.centre[None], len(position), axis=0) if near is None else near.q[k]
            )
            assembled, error = self.model.kinematics.close_nearby(
                guess, self.by, self.origin + position
            )
            if not (error < CLOSED).all():
                return None
            values, derivative, check = self._response(
                assembled,
                velocity,
                acceleration,
                self.bands[k],
                self.model.mechanism.standard.values,
                self._loads[k],
            )
            inside, slope = normalised(self.limits, values, self.model.loops.redundant)
            if not (check < CHECK).all() or not np.isfinite(inside).all():
                return None
            W, check = self._regressor(
                assembled, velocity, acceleration, self.bands[k], self._noise
            )
            if not (check < CHECK).all():
                return None
            q.append(assembled)
            rates.append((velocity, acceleration))
            constraints.append(inside)
            derivatives.append(derivative * slope[:, :, None])
            blocks.append(W * self._scales[k])
        stacked = np.concatenate([block.reshape(-1, block.shape[2]) for block in blocks])
        value, gradient = criterion_gradient(self.criterion, stacked)
        if self.criterion != "d" and np.isfinite(value):
            value, gradient = float(np.log(value)), gradient / value
        rows = np.cumsum([block.shape[0] * block.shape[1] for block in blocks])[:-1]
        seeds = [part.reshape(block.shape) for part, block in zip(np.split(gradient, rows), blocks)]
        return Point(
            variables=variables,
            q=q,
            rates=rates,
            constraints=np.concatenate(constraints),
            derivatives=derivatives,
            objective=value,
            seeds=seeds,
        )

    def gradient(self, point: Point) -> FloatArray:
        """Return the derivative of the objective by the variables, (x,)."""
        return self.linearise(point).pull_back(
            [
                np.hstack(self._adjoint(q, *rates, bands, self._noise, seed * scale))
                for q, rates, bands, seed, scale in zip(
                    point.q, point.rates, self.bands, point.seeds, self._scales
                )
            ]
        )

    def linearise(self, point: Point) -> Linearisation:
        """Return the derivative of the constraints by the variables, as an operator."""
        return Linearisation(self, point)


class Linearisation:
    """dc/dx at a point, never written out: each sample's constraints see the variables only through
    (q_P, v, a).

    Of each part it knows the derivatives of the constraints by (q_P, v, a), and of these by the
    amplitudes of a coordinate, (3t, 1 + 2h), and by ln w, (t, 3, m): the amplitudes stay, v grows
    with w, a with w^2.
    """

    def __init__(self, problem: DesignProblem, point: Point) -> None:
        self._problem, self._derivatives, self._spreads, self._faster = (
            problem,
            point.derivatives,
            [],
            [],
        )
        for part, own, (velocity, acceleration) in zip(
            problem.parts, problem.by_part(point.variables), point.rates
        ):
            w = problem._unpack(part, own)[1]
            spread = np.stack([w**d * basis for d, basis in enumerate(part.basis)], axis=1)
            self._spreads.append(spread.reshape(3 * part.samples, -1))
            self._faster.append(
                np.stack([np.zeros_like(velocity), velocity, 2 * acceleration], axis=1)
            )

    def times(self, step: FloatArray) -> FloatArray:
        """Return dc/dx step, (t, o)."""
        found = []
        for k, own in enumerate(self._problem.by_part(step)):
            amplitudes = self._problem._unpack(self._problem.parts[k], own)[0]
            change = (self._spreads[k] @ amplitudes).reshape(self._faster[k].shape)
            if self._problem.parts[k].free_frequency:
                change = change + own[-1] * self._faster[k]
            found.append((self._derivatives[k] @ change.reshape(len(change), -1, 1))[:, :, 0])
        return np.concatenate(found)

    def transposed(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T weights, (x,)."""
        return self.pull_back([(w[:, None] @ D)[:, 0] for D, w in self._weighted(weights)])

    def _weighted(self, weights: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        ends = np.cumsum([len(D) for D in self._derivatives])[:-1]
        yield from zip(self._derivatives, np.split(weights, ends))

    def pull_back(self, by_motion: Sequence[FloatArray]) -> FloatArray:
        """Turn derivatives by (q_P, v, a) of each part, (t, 3m), into a derivative by the
        variables, (x,).
        """
        found = []
        for part, spread, faster, change in zip(
            self._problem.parts, self._spreads, self._faster, by_motion
        ):
            free = spread.T @ change.reshape(len(spread), -1)
            found.append((part.shape.T @ free * self._problem.reach).ravel())
            if part.free_frequency:
                found.append(np.array([(change.reshape(faster.shape) * faster).sum()]))
        return np.concatenate(found)

    def normal(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T diag(weights) dc/dx, (x, x)."""
        blocks, reach = [], self._problem.reach
        m = len(reach)
        for part, spread, faster, (D, w) in zip(
            self._problem.parts, self._spreads, self._faster, self._weighted(weights)
        ):
            gram = D.transpose(0, 2, 1) @ (w[:, :, None] * D)  # by (q_P, v, a), (t, 3m, 3m)
            t, free = len(D), spread @ part.shape
            x = free.shape[1]
            half = free.reshape(t, 3, x).transpose(0, 2, 1) @ gram.reshape(
                t, 3, m * 3 * m
            )  # (t, x, m 3 m)
            columns = half.reshape(t, x, m, 3, m).transpose(0, 3, 1, 2, 4).reshape(3 * t, x * m * m)
            full = (free.T @ columns).reshape(
                x, x, m, m
            )  # second, first coefficient; first, second m
            block = (full * (reach[:, None] * reach)).transpose(1, 2, 0, 3).reshape(x * m, x * m)
            if part.free_frequency:
                flat = faster.reshape(t, 3 * m)
                pulled = (gram @ flat[:, :, None])[:, :, 0]
                edge = (free.T @ pulled.reshape(3 * t, m) * reach).ravel()
                block = np.block(
                    [[block, edge[:, None]], [edge[None], np.array([[(pulled * flat).sum()]])]]
                )
            blocks.append(block)
        return np.asarray(block_diag(*blocks))


def normalised(
    limits: Sequence[Limit], values: FloatArray, redundant: bool
) -> tuple[FloatArray, FloatArray]:
    """Map outputs of `derivatives.response` to [-1, 1] inside the limits, (t, o); also the
    derivative by the output.

    (values - centre) / half, the regularity by its logarithm, NaN beyond the singularity.
    """
    result, slope = np.array(values), np.ones_like(values)
    for i, limit in enumerate(limits):
        if limit.quantity == "regularity":
            power = (
                0.5 if redundant else 1.0
            )  # the determinant of a redundant robot is a squared one
            positive = np.where(values[:, i] > 0, values[:, i], np.nan)
            result[:, i] = power * np.log(positive)
            slope[:, i] = power / positive
    half = np.array([limit.half for limit in limits])
    return (result - [limit.centre for limit in limits]) / half, slope / half
