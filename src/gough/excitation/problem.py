"""The design problem: variables to objective and constraints, with exact derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Fourier
from gough.engine.assembly import LOOP_TOLERANCE
from gough.engine.columns import column_names
from gough.engine.derivatives import (
    regressor_adjoint,
    response,
    smooth_regressor,
)
from gough.engine.kinematics import ELIMINATION_TOLERANCE
from gough.engine.limits import Limit
from gough.engine.loops import By
from gough.engine.model import Model
from gough.excitation.criteria import Criterion, criterion_gradient
from gough.excitation.linearisation import Linearisation, trajectory_derivatives
from gough.excitation.trajectory_form import TrajectoryForm
from gough.kernels.kernel import Kernel


class TrajectoryPoint(NamedTuple):
    """One trajectory evaluated on its grid: what belongs to it of a `DesignPoint`."""

    q: FloatArray  # configurations, (t, n)
    velocity: FloatArray  # of the trajectory coordinates, (t, m)
    acceleration: FloatArray  # of the trajectory coordinates, (t, m)
    constraints: FloatArray  # normalised to [-1, 1] inside the limits, (t, o)
    derivatives: FloatArray  # of the constraints by (q_P, v, a), (t, o, 3m)
    regressor: FloatArray  # whitened and weighted, (t, a, b)


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignPoint:
    """The problem evaluated at one set of variables at which the loops close."""

    variables: FloatArray  # (x,)
    trajectories: tuple[TrajectoryPoint, ...]  # at this point
    constraints: FloatArray  # of all trajectories, one after the other, (t, o)
    objective: float  # criterion, to be minimised
    # Derivatives of the objective by the whitened regressor of each
    # trajectory, (t, a, b).
    regressor_gradients: list[FloatArray]


class DesignProblem:
    """Variables, objective and constraints of a design.

    The variables are those of all trajectories, see `TrajectoryForm`.
    Coulomb friction has a smoothed sign, whose width is set by
    `set_friction_bands`.

    Args:
        forms: What is fixed about each trajectory.
        by: Coordinates of the trajectories.
        criterion: What to minimise; all but `d` by their logarithm.
        base: Parameters to be informed about.
        covariance: Covariance of the motor efforts, (a, a).
        centre: Configuration about which trajectories are built, (n,).

    Attributes:
        joints: Joints of the trajectory coordinates, (m,).
        origin: Centre of the trajectory coordinates, (m,).
        reach: Half the range of each trajectory coordinate, (m,), a
            radian or the robot's length without limits.
        friction_bands: Velocity band of the smoothed sign for each
            trajectory, (n,).
        evaluations: How often objective and constraints were evaluated.
    """

    def __init__(
        self,
        model: Model,
        forms: Sequence[TrajectoryForm],
        *,
        by: By,
        criterion: Criterion,
        base: BaseParameters,
        limits: tuple[Limit, ...],
        covariance: FloatArray,
        centre: FloatArray,
    ) -> None:
        self.model = model
        self.forms = tuple(forms)
        self.by = by
        self.criterion = criterion
        self.base = base
        self.limits = limits
        self.centre = centre
        self.evaluations = 0
        independent = model.loops.partitions[by].independent
        self.joints = [model.mechanism.joints[i] for i in independent]
        self.origin = centre[independent]
        self.reach = self._reach(model.loops.units[independent])
        self.friction_bands: list[FloatArray] = [np.full(len(centre), 0.1) for _ in self.forms]
        # The condition number AH09 (21) is that of the regressor
        # itself.
        self._covariance = np.eye(len(covariance)) if criterion == "cond" else covariance
        if len(covariance) == 1:
            self._covariance = self._covariance[0]  # kernels take a matrix of one row as a vector
        self._loads = [model.load(form.payload) for form in self.forms]
        names = column_names(base)
        self._column_weights = []
        for form in self.forms:  # a run informs about the robot and the payload it carries
            informed = np.array([name.payload in (None, form.payload) for name in names])
            self._column_weights.append(np.sqrt(form.weight) * informed)
        self._n_variables = [form.n_variables(len(self.origin)) for form in self.forms]
        self._response = response(model, tuple(limit.output for limit in limits), by)
        self._regressor = smooth_regressor(model, names, by)

    def _reach(self, default: FloatArray) -> FloatArray:
        """Return half the range of each trajectory coordinate, (m,)."""
        ranges = {limit.name: limit.half for limit in self.limits if limit.quantity == "position"}
        reach = [ranges.get(joint.name, unit) for joint, unit in zip(self.joints, default)]
        return np.array(reach)

    @cached_property
    def _adjoint(self) -> Kernel:
        return regressor_adjoint(self.model, column_names(self.base), self.by)

    @property
    def size(self) -> int:
        """Number of variables."""
        return sum(self._n_variables)

    def random_direction(self, rng: np.random.Generator) -> FloatArray:
        """Return standard normal coefficients; a free frequency keeps its start."""
        directions = []
        for form, count in zip(self.forms, self._n_variables):
            direction = rng.standard_normal(count)
            if form.free_frequency:
                direction[-1] = 0.0
            directions.append(direction)
        return np.concatenate(directions)

    def set_friction_bands(self, point: DesignPoint) -> None:
        """Set the width of the smoothed sign to a fifth of each joint's rms velocity.

        The sign then changes over a few grid samples, so that its slope
        is visible on the grid.

        Args:
            point: A typical motion.
        """
        for k, trajectory in enumerate(point.trajectories):
            qd, _ = self.model.kinematics.rates(
                trajectory.q,
                trajectory.velocity,
                trajectory.acceleration,
                self.by,
            )
            rms = np.sqrt((qd**2).mean(axis=0))
            self.friction_bands[k] = 0.2 * np.maximum(rms, 1e-3 * rms.max() + 1e-12)

    def _split(self, variables: FloatArray) -> list[FloatArray]:
        """Split the variables by trajectory."""
        return np.split(variables, np.cumsum(self._n_variables)[:-1])

    def trajectories(self, variables: FloatArray) -> tuple[Fourier, ...]:
        """Return the trajectories of a set of variables."""
        trajectories = []
        for form, coefficients in zip(self.forms, self._split(variables)):
            amplitudes, w = form.unpack(coefficients, self.reach)
            h = form.harmonics
            trajectory = Fourier(
                coordinates=tuple(joint.name for joint in self.joints),
                units=tuple(joint.unit for joint in self.joints),
                robot=self.model.mechanism.name,
                frequency=w / (2 * np.pi),
                offset=self.origin + amplitudes[0],
                mu=w * amplitudes[1 : 1 + h],
                nu=w * amplitudes[1 + h :],
            )
            trajectories.append(trajectory)
        return tuple(trajectories)

    def variables_of(self, trajectories: Sequence[Fourier]) -> FloatArray:
        """Return the variables of trajectories, (x,): the inverse of `trajectories`."""
        if len(trajectories) != len(self.forms):
            raise InvalidInput(
                f"{len(trajectories)} trajectories to start from, expected {len(self.forms)}"
            )
        variables = []
        for form, trajectory in zip(self.forms, trajectories):
            amplitudes = self._amplitudes(form, trajectory)
            variables.append(form.pack(trajectory, amplitudes / self.reach))
        return np.concatenate(variables)

    def _amplitudes(self, form: TrajectoryForm, trajectory: Fourier) -> FloatArray:
        """Return (offset - origin, mu / w, nu / w) of a trajectory with harmonics up to a form's.

        Shape (1 + 2h, m).
        """
        names = [joint.name for joint in self.joints]
        missing = form.harmonics - trajectory.harmonics
        if set(trajectory.coordinates) != set(names) or missing < 0:
            raise InvalidInput(
                f"the trajectory moves {', '.join(trajectory.coordinates)} with "
                f"{trajectory.harmonics} harmonics, expected {', '.join(names)} with at most "
                f"{form.harmonics}"
            )
        order = trajectory.columns(names)
        w = 2 * np.pi * trajectory.frequency
        padding = ((0, missing), (0, 0))
        mu = np.pad(trajectory.mu[:, order] / w, padding)
        nu = np.pad(trajectory.nu[:, order] / w, padding)
        return np.vstack([trajectory.offset[order] - self.origin, mu, nu])

    def evaluate(
        self, variables: FloatArray, near: DesignPoint | None = None
    ) -> DesignPoint | None:
        """Evaluate objective and constraints; None if the loops do not close or are singular.

        Args:
            near: A point with similar motions, from which Newton's
                method starts.
        """
        self.evaluations += 1
        trajectories = []
        for k, coefficients in enumerate(self._split(variables)):
            start = None if near is None else near.trajectories[k].q
            trajectory = self._evaluate_trajectory(k, coefficients, start)
            if trajectory is None:
                return None
            trajectories.append(trajectory)
        regressors = [trajectory.regressor for trajectory in trajectories]
        objective, gradients = self._objective(regressors)
        return DesignPoint(
            variables=variables,
            trajectories=tuple(trajectories),
            constraints=np.concatenate([trajectory.constraints for trajectory in trajectories]),
            objective=objective,
            regressor_gradients=gradients,
        )

    def _evaluate_trajectory(
        self, k: int, coefficients: FloatArray, start: FloatArray | None
    ) -> TrajectoryPoint | None:
        """Evaluate trajectory k; None if the loops do not close or are singular.

        Args:
            coefficients: Its variables, (x,).
            start: Configurations from which Newton's method starts, (t,
                n); the centre by default.
        """
        form = self.forms[k]
        amplitudes, w = form.unpack(coefficients, self.reach)
        position_basis, velocity_basis, acceleration_basis = form.basis
        position = position_basis @ amplitudes
        velocity = w * (velocity_basis @ amplitudes)
        acceleration = w**2 * (acceleration_basis @ amplitudes)
        if start is None:
            start = np.repeat(self.centre[None], len(position), axis=0)
        q, error = self.model.kinematics.close_nearby(start, self.by, self.origin + position)
        if not (error < LOOP_TOLERANCE).all():
            return None
        bands = self.friction_bands[k]
        standard = self.model.mechanism.standard.values
        outputs, derivatives, check = self._response(
            q, velocity, acceleration, bands, standard, self._loads[k]
        )
        constraints, slope = normalise(self.limits, outputs, self.model.loops.redundant)
        if not (check < ELIMINATION_TOLERANCE).all() or not np.isfinite(constraints).all():
            return None
        regressor, check = self._regressor(q, velocity, acceleration, bands, self._covariance)
        if not (check < ELIMINATION_TOLERANCE).all():
            return None
        return TrajectoryPoint(
            q=q,
            velocity=velocity,
            acceleration=acceleration,
            constraints=constraints,
            derivatives=derivatives * slope[:, :, None],
            regressor=regressor * self._column_weights[k],
        )

    def _objective(self, regressors: Sequence[FloatArray]) -> tuple[float, list[FloatArray]]:
        """Return the objective and its derivative by each regressor, (t, a, b)."""
        n_parameters = regressors[0].shape[2]
        stacked = np.concatenate([W.reshape(-1, n_parameters) for W in regressors])
        objective, gradient = criterion_gradient(self.criterion, stacked)
        if self.criterion != "d" and np.isfinite(objective):
            gradient = gradient / objective
            objective = float(np.log(objective))
        ends = np.cumsum([W.shape[0] * W.shape[1] for W in regressors])[:-1]
        gradients = []
        for W, W_gradient in zip(regressors, np.split(gradient, ends)):
            gradients.append(W_gradient.reshape(W.shape))
        return objective, gradients

    def gradient(self, point: DesignPoint) -> FloatArray:
        """Return the derivative of the objective by the variables, (x,)."""
        by_motion = []
        for k, trajectory in enumerate(point.trajectories):
            derivatives = self._adjoint(
                trajectory.q,
                trajectory.velocity,
                trajectory.acceleration,
                self.friction_bands[k],
                self._covariance,
                point.regressor_gradients[k] * self._column_weights[k],
            )
            by_motion.append(np.hstack(derivatives))
        return self.linearise(point).pull_back(by_motion)

    def linearise(self, point: DesignPoint) -> Linearisation:
        """Return the derivative of the constraints by the variables, as an operator."""
        derivatives = []
        variables = self._split(point.variables)
        for form, coefficients, trajectory in zip(self.forms, variables, point.trajectories):
            _, w = form.unpack(coefficients, self.reach)
            derivatives.append(
                trajectory_derivatives(
                    form,
                    w,
                    trajectory.velocity,
                    trajectory.acceleration,
                    trajectory.derivatives,
                )
            )
        return Linearisation(derivatives, self.reach)


def normalise(
    limits: Sequence[Limit], outputs: FloatArray, redundant: bool
) -> tuple[FloatArray, FloatArray]:
    """Map limited quantities to [-1, 1] inside their limits, and return the slope of that map.

    (output - centre) / half; of the regularity the logarithm, NaN
    beyond the singularity.

    Args:
        outputs: Of `derivatives.response`, (t, o).
        redundant: The robot has more motors than degrees of freedom.

    Returns:
        Normalised quantities and their derivatives by the outputs, (t,
            o) each.
    """
    quantities = np.array(outputs)
    slope = np.ones_like(outputs)
    # The determinant of a redundant robot is that of a product, E_act^T
    # E_act.
    power = 0.5 if redundant else 1.0
    for i, limit in enumerate(limits):
        if limit.quantity == "regularity":
            positive = np.where(outputs[:, i] > 0, outputs[:, i], np.nan)
            quantities[:, i] = power * np.log(positive)
            slope[:, i] = power / positive
    half = np.array([limit.half for limit in limits])
    centre = np.array([limit.centre for limit in limits])
    return (quantities - centre) / half, slope / half
