"""The design problem as numbers: coefficients -> objective and constraints, with exact derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """One trajectory of a design: what is fixed about it.

    Args:
        harmonics, samples: Of the Fourier series, and grid points per period.
        frequency: Fundamental, or where to start if it is free (`free_frequency`). [Hz]
        payload: Name of the payload carried, or None.
        weight: Controller samples that each grid sample stands for, over all periods.
        at_rest: Zero velocity and acceleration at the start of each period.
    """

    harmonics: int
    frequency: float
    payload: str | None
    weight: float
    samples: int
    at_rest: bool
    free_frequency: bool

    @cached_property
    def shape(self) -> FloatArray:
        """Maps free coefficients to (offset, mu, nu): (1 + 2h, free)."""
        every = np.eye(self.harmonics)
        mu, nu = rest_basis(self.harmonics) if self.at_rest else (every, every)
        return np.asarray(block_diag(1.0, mu, nu))

    def basis(self, phase: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return position, velocity, acceleration by (offset, mu / w, nu / w) at phases 0..1, each (t, 1 + 2h).

        AH09 (12), (14), (15) with time in units of 1 / w.
        """
        return fourier_basis(2 * np.pi * phase, 1 / (2 * np.pi), self.harmonics)


@dataclass(eq=False)
class Point:
    """The problem evaluated at one set of variables; only built where the loops close.

    Args:
        q, motions: Configurations, and positions, velocities, accelerations, of each part.
        constraints: Normalised, each part's (t, o) one after the other, flat.
        derivatives: Derivatives of the constraints by (q_P, v, a), each part (t, o, 3m).
        objective: To be minimised.
        seeds: Derivative of the objective by the whitened regressors.
    """

    variables: FloatArray
    q: list[FloatArray]
    motions: list[tuple[FloatArray, FloatArray, FloatArray]]
    constraints: FloatArray
    derivatives: list[FloatArray]
    objective: float
    seeds: list[FloatArray] = field(default_factory=list)


class Problem:
    """Variables, objective and constraints of a design.

    The variables of a part are the free Fourier coefficients of its coordinates, as amplitudes relative to half the
    range of the coordinate (coefficient-major), and ln(frequency / start) if that is free.

    Args:
        by: Coordinates they are given in.
        criterion: What to minimise; all but `d` by their logarithm.
        base: Parameters to be identified, of the experiment as a whole.
        covariance: Covariance of the motor efforts, (a, a).
        centre: Configuration about which trajectories are built, (n,).

    Attributes:
        reach: Half the range of each trajectory coordinate, (m,), a radian or the robot's length without limits.
    """

    def __init__(self, model: Model, parts: Sequence[Part], *, by: By, criterion: Criterion, base: BaseParameters,
                 limits: tuple[Limit, ...], covariance: FloatArray, centre: FloatArray) -> None:
        self.model, self.parts, self.by, self.criterion = model, tuple(parts), by, criterion
        self.base, self.limits, self.covariance, self.centre = base, limits, covariance, centre
        self.names = column_names(base)
        self.bands: list[FloatArray] = [np.full(len(model.home), 0.1) for _ in self.parts]
        self.evaluations = 0
        independent = model.loops.partitions[by].independent
        self.joints, self.origin = [model.mechanism.joints[i] for i in independent], centre[independent]
        ranges = {limit.name: limit.half for limit in limits if limit.quantity == "position"}
        self.reach: FloatArray = np.array([
            ranges.get(joint.name, usual) for joint, usual in zip(self.joints, model.loops.units[independent])])
        self._loads = [model.load(part.payload) for part in self.parts]
        # one for the columns a part informs about: the robot's and those of its own payload
        self._masks = [np.array([float(name.payload in (None, part.payload)) for name in self.names])
                       for part in self.parts]
        self._bases = [part.basis(np.arange(part.samples) / part.samples) for part in self.parts]
        self._sizes = [part.shape.shape[1] * len(self.origin) + part.free_frequency for part in self.parts]
        self._response = response(model, tuple(limit.output for limit in limits), by)
        self._regressor = smooth_regressor(model, self.names, by)

    @cached_property
    def _adjoint(self) -> Kernel:
        return regressor_adjoint(self.model, self.names, self.by)

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def random_direction(self, rng: np.random.Generator) -> FloatArray:
        """Return random coefficients of size one; a free frequency stays at its start."""
        found = []
        for part, size in zip(self.parts, self._sizes):
            own = rng.standard_normal(size)
            if part.free_frequency:
                own[-1] = 0.0
            found.append(own)
        return np.concatenate(found)

    def fix_bands(self, point: Point) -> None:
        """Set the width of the smoothed sign of each joint to a fifth of its rms velocity in a typical motion.

        The sign then changes over a few grid samples, which is what derivatives on the grid can see.
        """
        for k, (_, velocity, acceleration) in enumerate(point.motions):
            qd, _ = self.model.kinematics.rates(point.q[k], velocity, acceleration, self.by)
            rms = np.sqrt((qd**2).mean(axis=0))
            self.bands[k] = 0.2 * np.maximum(rms, 1e-3 * rms.max() + 1e-12)

    def split(self, variables: FloatArray) -> list[FloatArray]:
        return np.split(variables, np.cumsum(self._sizes)[:-1])

    def _unpack(self, part: Part, own: FloatArray) -> tuple[FloatArray, float]:
        """Return (offset - origin, mu / w, nu / w) (1 + 2h, m) and the pulsation w [rad/s] of a part."""
        stretch = float(np.exp(own[-1])) if part.free_frequency else 1.0
        return self._amplitudes(part, own), 2 * np.pi * part.frequency * stretch

    def _amplitudes(self, part: Part, own: FloatArray) -> FloatArray:
        free = own[:-1] if part.free_frequency else own
        return part.shape @ free.reshape(part.shape.shape[1], -1) * self.reach

    def trajectories(self, variables: FloatArray) -> tuple[Fourier, ...]:
        found = []
        for part, own in zip(self.parts, self.split(variables)):
            amplitudes, w = self._unpack(part, own)
            h = part.harmonics
            found.append(Fourier(
                coordinates=tuple(j.name for j in self.joints), units=tuple(j.unit for j in self.joints),
                robot=self.model.mechanism.name, frequency=w / (2 * np.pi), offset=self.origin + amplitudes[0],
                mu=w * amplitudes[1:1 + h], nu=w * amplitudes[1 + h:]))
        return tuple(found)

    def variables_of(self, trajectories: Sequence[Fourier]) -> FloatArray:
        """Return the variables that stand for trajectories, (x,): the inverse of `trajectories`."""
        names, found = [joint.name for joint in self.joints], []
        for part, trajectory in zip(self.parts, trajectories):
            if set(trajectory.coordinates) != set(names) or trajectory.harmonics > part.harmonics:
                raise InvalidInput(f"the trajectory moves {', '.join(trajectory.coordinates)} with "
                                   f"{trajectory.harmonics} harmonics, expected {', '.join(names)} with at most "
                                   f"{part.harmonics}")
            order = trajectory.columns(names)
            free = ((0, part.harmonics - trajectory.harmonics), (0, 0))
            w = 2 * np.pi * trajectory.frequency
            amplitudes = np.vstack([trajectory.offset[order] - self.origin, *(
                np.pad(c[:, order], free) / w for c in (trajectory.mu, trajectory.nu))])
            found.append(np.linalg.lstsq(part.shape, amplitudes / self.reach, rcond=None)[0].ravel())
            if part.free_frequency:
                found.append(np.log([trajectory.frequency / part.frequency]))
        if len(trajectories) != len(self.parts):
            raise InvalidInput(f"{len(trajectories)} trajectories to start from, expected {len(self.parts)}")
        return np.concatenate(found)

    def motion(self, k: int, own: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return position, velocity and acceleration of a part on its grid, each (t, m)."""
        amplitudes, w = self._unpack(self.parts[k], own)
        position, velocity, acceleration = self._bases[k]
        return self.origin + position @ amplitudes, w * (velocity @ amplitudes), w**2 * (acceleration @ amplitudes)

    def evaluate(self, variables: FloatArray, near: Point | None = None) -> Point | None:
        """Evaluate objective and constraints; None where the loops do not close or the robot turns singular."""
        self.evaluations += 1
        q: list[FloatArray] = []
        motions, constraints, derivatives, blocks = [], [], [], []
        for k, own in enumerate(self.split(variables)):
            position, velocity, acceleration = self.motion(k, own)
            guess = np.repeat(self.centre[None], len(position), axis=0) if near is None else near.q[k]
            assembled, error = self.model.kinematics.close(guess, self.by, position)
            if not (error < CLOSED).all():
                return None
            values, derivative, check = self._response(assembled, velocity, acceleration, self.bands[k],
                                                       self.model.mechanism.standard.values, self._loads[k])
            inside, slope = normalised(self.limits, values, self.model.loops.redundant)
            if not (check < CHECK).all() or not np.isfinite(inside).all():
                return None
            W, check = self._regressor(assembled, velocity, acceleration, self.bands[k], self._noise)
            if not (check < CHECK).all():
                return None
            q.append(assembled)
            motions.append((position, velocity, acceleration))
            constraints.append(inside.ravel())
            derivatives.append(derivative * slope[:, :, None])
            blocks.append(W * (np.sqrt(self.parts[k].weight) * self._masks[k]))
        stacked = np.concatenate([block.reshape(-1, block.shape[2]) for block in blocks])
        value, gradient = criterion_gradient(self.criterion, stacked)
        if self.criterion != "d" and np.isfinite(value):
            value, gradient = float(np.log(value)), gradient / value
        rows = np.cumsum([block.shape[0] * block.shape[1] for block in blocks])[:-1]
        seeds = [part.reshape(block.shape) for part, block in zip(np.split(gradient, rows), blocks)]
        return Point(variables=variables, q=q, motions=motions, constraints=np.concatenate(constraints),
                     derivatives=derivatives, objective=value, seeds=seeds)

    @cached_property
    def _noise(self) -> FloatArray:
        """The covariance used: AH09 (21) is about the regressor itself."""
        return np.eye(len(self.covariance)) if self.criterion == "cond" else self.covariance

    def gradient(self, point: Point) -> FloatArray:
        """Return the derivative of the objective by the variables, (x,)."""
        by_motion = []
        for k, (_, velocity, acceleration) in enumerate(point.motions):
            seed = point.seeds[k] * (np.sqrt(self.parts[k].weight) * self._masks[k])
            by_motion.append(np.hstack(self._adjoint(point.q[k], velocity, acceleration, self.bands[k], self._noise,
                                                     seed)))
        return self._pull_back(point, by_motion)

    def linearise(self, point: Point) -> Linearisation:
        """Return the derivative of the constraints by the variables, as an operator."""
        return Linearisation(self, point)

    def push_forward(self, point: Point, step: FloatArray) -> list[FloatArray]:
        """Return the change of (q_P, v, a) of each part, (t, 3m), for a step of the variables."""
        found = []
        for k, own in enumerate(self.split(step)):
            part = self.parts[k]
            change = (self._spread(k, point) @ self._amplitudes(part, own)).reshape(part.samples, 3, -1)
            if part.free_frequency:
                change = change + own[-1] * self._faster(k, point)
            found.append(change.reshape(part.samples, -1))
        return found

    def _pull_back(self, point: Point, by_motion: Sequence[FloatArray]) -> FloatArray:
        """Turn derivatives by (q_P, v, a) of each part, (t, 3m), into a derivative by the variables: the transpose."""
        found = []
        for k, change in enumerate(by_motion):
            part = self.parts[k]
            change = change.reshape(part.samples, 3, -1)
            free = self._spread(k, point).T @ change.reshape(3 * part.samples, -1)
            found.append((part.shape.T @ free * self.reach).ravel())
            if part.free_frequency:
                found.append(np.array([(change * self._faster(k, point)).sum()]))
        return np.concatenate(found)

    def _spread(self, k: int, point: Point) -> FloatArray:
        """Return the derivative of (q_P, v, a) by the amplitudes of a coordinate, (3t, 1 + 2h)."""
        w = self._unpack(self.parts[k], self.split(point.variables)[k])[1]
        position, velocity, acceleration = self._bases[k]
        return np.stack([position, w * velocity, w**2 * acceleration], axis=1).reshape(-1, position.shape[1])

    def _faster(self, k: int, point: Point) -> FloatArray:
        """Return the derivative of (q_P, v, a) by ln w, (t, 3, m): the amplitudes stay, v grows with w, a with w^2."""
        _, velocity, acceleration = point.motions[k]
        return np.stack([np.zeros_like(velocity), velocity, 2 * acceleration], axis=1)


class Linearisation:
    """dc/dx at a point, never written out: each sample's constraints see the variables only through (q_P, v, a)."""

    def __init__(self, problem: Problem, point: Point) -> None:
        self._problem, self._point = problem, point

    def times(self, step: FloatArray) -> FloatArray:
        """Return dc/dx step, (c,)."""
        moved = self._problem.push_forward(self._point, step)
        return np.concatenate([(D @ change[:, :, None]).ravel()
                               for D, change in zip(self._point.derivatives, moved)])

    def transposed(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T weights, (x,)."""
        return self._problem._pull_back(self._point, [
            (w[:, None, :] @ D)[:, 0] for D, w in zip(self._point.derivatives, self._by_part(weights))])

    def normal(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T diag(weights) dc/dx, (x, x)."""
        problem, point = self._problem, self._point
        blocks = []
        for k, (D, w) in enumerate(zip(point.derivatives, self._by_part(weights))):
            gram = D.transpose(0, 2, 1) @ (w[:, :, None] * D)  # by (q_P, v, a), (t, 3m, 3m)
            blocks.append(self._block(k, gram, problem.parts[k], problem._spread(k, point)))
        return np.asarray(block_diag(*blocks))

    def _block(self, k: int, gram: FloatArray, part: Part, spread: FloatArray) -> FloatArray:
        t, m = part.samples, len(self._problem.reach)
        free = (spread @ part.shape).reshape(t, 3, -1)
        x = free.shape[2]
        half = free.transpose(0, 2, 1) @ gram.reshape(t, 3, m * 3 * m)  # (t, x, m 3 m)
        half = half.reshape(t, x, m, 3, m)
        columns = half.transpose(0, 3, 1, 2, 4).reshape(3 * t, x * m * m)
        full = (free.reshape(3 * t, x).T @ columns).reshape(x, x, m, m)  # second, first coefficient; first, second m
        scaled = full * (self._problem.reach[:, None] * self._problem.reach)
        block = scaled.transpose(1, 2, 0, 3).reshape(x * m, x * m)
        if not part.free_frequency:
            return block
        faster = self._problem._faster(k, self._point).reshape(t, 3 * m)
        pulled = (gram @ faster[:, :, None])[:, :, 0]
        edge = (free.reshape(3 * t, x).T @ pulled.reshape(3 * t, m) * self._problem.reach).ravel()
        return np.block([[block, edge[:, None]], [edge[None], np.array([[(pulled * faster).sum()]])]])

    def _by_part(self, weights: FloatArray) -> list[FloatArray]:
        shapes = [D.shape[:2] for D in self._point.derivatives]
        cuts = np.cumsum([t * o for t, o in shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(weights, cuts), shapes)]


def normalised(limits: Sequence[Limit], values: FloatArray, redundant: bool) -> tuple[FloatArray, FloatArray]:
    """Map outputs of `derivatives.response` to [-1, 1] inside the limits, (t, o); also the derivative by the output.

    (values - centre) / half, the regularity by its logarithm, NaN beyond the singularity.
    """
    result, slope = np.array(values), np.ones_like(values)
    for i, limit in enumerate(limits):
        if limit.quantity == "regularity":
            power = 0.5 if redundant else 1.0  # the determinant of a redundant robot is a squared one
            positive = np.where(values[:, i] > 0, values[:, i], np.nan)
            result[:, i] = power * np.log(positive)
            slope[:, i] = power / positive
    half = np.array([limit.half for limit in limits])
    return (result - [limit.centre for limit in limits]) / half, slope / half
