"""The derivative of all constraints of a design by its variables, as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from gough.core.arrays import FloatArray
from gough.excitation.trajectory_form import TrajectoryForm


class TrajectoryDerivatives(NamedTuple):
    """Derivatives of the constraints of one trajectory at its t grid samples.

    P are the m trajectory coordinates, v and a their velocities and
    accelerations.
    """

    form: TrajectoryForm
    by_motion: FloatArray  # of the o constraints by (q_P, v, a), (t, o, 3m)
    # Of (q_P, v, a) of a coordinate by its amplitudes, (3t, 1 + 2h).
    by_amplitudes: FloatArray
    # Of (q_P, v, a) by ln w, (t, 3, m): q_P is constant, v grows with
    # w, a with w^2.
    by_log_frequency: FloatArray


def trajectory_derivatives(
    form: TrajectoryForm,
    pulsation: float,
    velocity: FloatArray,
    acceleration: FloatArray,
    by_motion: FloatArray,
) -> TrajectoryDerivatives:
    """Return the derivatives at one point of the search.

    Args:
        pulsation: w. [rad/s]
        velocity: Of the trajectory coordinates, (t, m).
        acceleration: Of the trajectory coordinates, (t, m).
        by_motion: Derivative of the constraints by (q_P, v, a), (t, o,
            3m).
    """
    by_amplitudes = np.stack(form.motion_basis(pulsation), axis=1)
    by_log_frequency = np.stack([np.zeros_like(velocity), velocity, 2 * acceleration], axis=1)
    return TrajectoryDerivatives(
        form=form,
        by_motion=by_motion,
        by_amplitudes=by_amplitudes.reshape(3 * form.samples, -1),
        by_log_frequency=by_log_frequency,
    )


class Linearisation:
    """dc/dx at a point, never stored as a matrix.

    The constraints of a sample depend on the variables only through
    (q_P, v, a) of that sample.

    Args:
        trajectories: Derivatives of each trajectory of the design.
        reach: Half the range of each trajectory coordinate, (m,).
    """

    def __init__(self, trajectories: Sequence[TrajectoryDerivatives], reach: FloatArray) -> None:
        self._trajectories = tuple(trajectories)
        self._reach = reach
        n_variables = [trajectory.form.n_variables(len(reach)) for trajectory in self._trajectories]
        self._variable_ends = np.cumsum(n_variables)[:-1]
        n_samples = [trajectory.form.samples for trajectory in self._trajectories]
        self._sample_ends = np.cumsum(n_samples)[:-1]

    def times(self, step: FloatArray) -> FloatArray:
        """Return dc/dx step, (t, o)."""
        changes = []
        steps = np.split(step, self._variable_ends)
        for trajectory, trajectory_step in zip(self._trajectories, steps):
            amplitudes, _ = trajectory.form.unpack(trajectory_step, self._reach)
            motion_change = trajectory.by_amplitudes @ amplitudes
            motion_change = motion_change.reshape(trajectory.by_log_frequency.shape)
            if trajectory.form.free_frequency:
                motion_change = motion_change + trajectory_step[-1] * trajectory.by_log_frequency
            columns = motion_change.reshape(len(motion_change), -1, 1)
            changes.append((trajectory.by_motion @ columns)[:, :, 0])
        return np.concatenate(changes)

    def transposed(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T weights, (x,)."""
        by_motion = []
        for trajectory, trajectory_weights in zip(self._trajectories, self._split_samples(weights)):
            by_motion.append((trajectory_weights[:, None] @ trajectory.by_motion)[:, 0])
        return self.pull_back(by_motion)

    def pull_back(self, by_motion: Sequence[FloatArray]) -> FloatArray:
        """Turn derivatives by the motion into a derivative by the variables, (x,).

        Args:
            by_motion: Derivative of a number by (q_P, v, a), (t, 3m)
                for each trajectory.
        """
        gradients = []
        for trajectory, derivative in zip(self._trajectories, by_motion):
            form = trajectory.form
            by_amplitudes = trajectory.by_amplitudes.T @ derivative.reshape(
                len(trajectory.by_amplitudes), -1
            )
            gradients.append((form.coefficient_map.T @ by_amplitudes * self._reach).ravel())
            if form.free_frequency:
                rates = trajectory.by_log_frequency
                gradients.append(np.array([(derivative.reshape(rates.shape) * rates).sum()]))
        return np.concatenate(gradients)

    def normal(self, weights: FloatArray) -> FloatArray:
        """Return (dc/dx)^T diag(weights) dc/dx, (x, x)."""
        blocks = []
        for trajectory, trajectory_weights in zip(self._trajectories, self._split_samples(weights)):
            blocks.append(self._normal_block(trajectory, trajectory_weights))
        return np.asarray(block_diag(*blocks))

    def _split_samples(self, weights: FloatArray) -> list[FloatArray]:
        """Split an array over the samples of all trajectories, (t, ...), by trajectory."""
        return np.split(weights, self._sample_ends)

    def _normal_block(self, trajectory: TrajectoryDerivatives, weights: FloatArray) -> FloatArray:
        """Return the diagonal block of one trajectory of `normal`.

        With the Gram matrix G of a sample by (q_P, v, a) and the basis
        B of its coefficients, the block is sum_t B_t^T G_t B_t for each
        pair of the m coordinates.
        """
        t = len(trajectory.by_motion)
        m = len(self._reach)
        D = trajectory.by_motion
        gram = D.transpose(0, 2, 1) @ (weights[:, :, None] * D)  # (t, 3m, 3m)
        basis = trajectory.by_amplitudes @ trajectory.form.coefficient_map  # (3t, x)
        x = basis.shape[1]
        # B^T G: (t, x, m 3 m), then ordered so that its first axis is
        # that of the basis.
        half = basis.reshape(t, 3, x).transpose(0, 2, 1) @ gram.reshape(t, 3, m * 3 * m)
        half = half.reshape(t, x, m, 3, m).transpose(0, 3, 1, 2, 4)
        # Second coefficient, first coefficient, first coordinate,
        # second coordinate.
        full = (basis.T @ half.reshape(3 * t, x * m * m)).reshape(x, x, m, m)
        full = full * (self._reach[:, None] * self._reach)
        block = full.transpose(1, 2, 0, 3).reshape(x * m, x * m)
        if not trajectory.form.free_frequency:
            return np.asarray(block)
        rates = trajectory.by_log_frequency.reshape(t, 3 * m)
        weighted_rates = (gram @ rates[:, :, None])[:, :, 0]
        edge = (basis.T @ weighted_rates.reshape(3 * t, m) * self._reach).ravel()
        corner = np.array([[(weighted_rates * rates).sum()]])
        return np.block([[block, edge[:, None]], [edge[None], corner]])
