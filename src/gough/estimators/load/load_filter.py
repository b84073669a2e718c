"""Load identification while the robot moves: all ten inertial parameters, on any trajectory, sample by sample."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput
from gough.core.names import INERTIAL, LOAD, Parameter
from gough.core.regression import Regression
from gough.estimators.estimate import Estimate
from gough.estimators.load.recursive import Observability, ParameterBelief, RecursiveLeastSquares, prior_belief


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadHistory:
    """A run of the filter of all ten parameters.

    Args:
        values: After each sample, (t, 10).
        std: (t, 10).
        belief: After the last sample.
        estimate: The same with residuals and notes.
    """

    values: FloatArray
    std: FloatArray
    belief: ParameterBelief
    estimate: Estimate

    @property
    def observability(self) -> Observability:
        """Which parameters and combinations the motion has not shown."""
        return self.belief.observability()


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadFilter:
    """All ten inertial parameters of a load, sample by sample, on any trajectory.

    effort - effort of the unloaded robot = W chi + noise, with W the regressor of a body fixed to the platform: linear,
    so the Kalman filter is exact and equals batch least squares. The prior says how heavy and large a load may be; it
    gives "not observed so far" its scale.

    If accelerations are noisy, an error da changes the effort by (dW/da chi) da: the covariance of a sample grows by
    G A G^T, G = dW/da chi. This weighs samples rightly; it does not remove the attenuation of about
    (noise / signal)^2 of the accelerations, so differentiate periodic data in the frequency domain where you can.

    Args:
        mass: How heavy a load may be. [kg]
        reach: How far from the platform's origin it may extend. [m]
        acceleration_noise: A, covariance of the independent accelerations, (m, m), or None. [m2/s4 or rad2/s4]
        forgetting: As in `RecursiveLeastSquares`.
    """

    mass: float
    reach: float
    acceleration_noise: FloatArray | None = None
    forgetting: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite([self.mass, self.reach]).all() and self.mass > 0 and self.reach > 0):
            raise InvalidInput(f"a load of at most {self.mass} kg within {self.reach} m; expected positive numbers")
        if self.acceleration_noise is not None:
            noise = frozen(self.acceleration_noise)
            object.__setattr__(self, "acceleration_noise", noise)
            check_shape(noise, (len(noise), len(noise)), "acceleration noise")
            check_finite(noise, "acceleration noise")

    def start(self, parameters: tuple[str, ...] = LOAD) -> ParameterBelief:
        """Return the belief before the first sample: zero load within `mass` and `reach`.

        Args:
            parameters: Names ending in the inertial parameters a load has, all ten by default.
        """
        powers = [_power(name) for name in parameters]
        units = {0: "kg", 1: "kg m", 2: "kg m2"}
        return prior_belief(parameters=tuple(parameters), units=tuple(units[k] for k in powers),
                            std=self.mass * self.reach ** np.array(powers, dtype=float))

    def update(self, belief: ParameterBelief, regressor: FloatArray, effort: FloatArray, covariance: FloatArray,
               sensitivity: FloatArray | None = None) -> ParameterBelief:
        """Return the belief after one sample.

        Args:
            belief: Before it.
            regressor: Of the load's parameters, (r, 10).
            effort: Measured minus that of the unloaded robot, (r,). [N or N m]
            covariance: Of the effort noise, (r, r).
            sensitivity: Derivative of the regressor by the independent accelerations, (m, r, 10); needed if
                `acceleration_noise` is set.
        """
        recursive = RecursiveLeastSquares(forgetting=self.forgetting)
        if self.acceleration_noise is not None:
            covariance = self._inflate(belief, regressor, effort, covariance, sensitivity)
        return recursive.update(belief, regressor, effort, covariance)

    def run(self, regression: Regression, sensitivity: FloatArray | None = None) -> LoadHistory:
        """Filter a whole regression of the load's parameters, (t, r, 10); sensitivity (t, m, r, 10)."""
        belief = self.start(regression.parameters)
        noise = regression.covariance
        if self.acceleration_noise is not None:
            if noise is None:
                raise InvalidInput("a filter needs the covariance of the effort noise; the regression has none")
            t, r = regression.effort.shape
            grown, nominal = np.empty((t, r, r)), np.broadcast_to(noise, (t, r, r))
            ahead = belief
            recursive = RecursiveLeastSquares(forgetting=self.forgetting)
            for k in range(t):
                here = np.arange(r) if regression.mask is None else np.flatnonzero(regression.mask[k])
                W, y, own = regression.regressor[k][here], regression.effort[k][here], np.ix_(here, here)
                slopes = None if sensitivity is None else sensitivity[k][:, here]
                grown[k] = nominal[k]
                grown[k][own] = self._inflate(ahead, W, y, nominal[k][own], slopes)
                ahead = recursive.update(ahead, W, y, grown[k][own])
            regression = replace(regression, covariance=grown)
        history = RecursiveLeastSquares(forgetting=self.forgetting).run(belief, regression)
        if self.forgetting < 1 and regression.covariance is not None:  # a faded sample counts as a noisier one
            growth = self.forgetting ** -np.arange(len(regression) - 1.0, -1.0, -1.0)
            regression = replace(regression, covariance=regression.covariance * growth[:, None, None])
        return LoadHistory(values=history.values, std=history.std, belief=history.belief,
                           estimate=history.belief.estimate(regression, method="Kalman filter of the load"))

    def _inflate(self, belief: ParameterBelief, regressor: FloatArray, effort: FloatArray, covariance: FloatArray,
                 sensitivity: FloatArray | None) -> FloatArray:
        """Return the covariance with the errors of the accelerations, for the load this very sample suggests."""
        A = self.acceleration_noise
        assert A is not None
        if sensitivity is None:
            raise InvalidInput("acceleration noise needs the sensitivity of the regressor to the accelerations, "
                               "(accelerations, rows, parameters)")
        check_shape(sensitivity, (len(A), *regressor.shape), "sensitivity of the regressor to the accelerations")
        trial = RecursiveLeastSquares(forgetting=self.forgetting).update(belief, regressor, effort, covariance)
        G = (sensitivity @ trial.values).T
        return np.asarray(covariance + G @ A @ G.T)


def _power(name: str) -> int:
    """Return the power of length in an inertial parameter's unit: 0 mass, 1 first moment, 2 inertia."""
    parameter = Parameter(name)
    if not parameter.inertial:
        raise InvalidInput(f"'{name}' is no inertial parameter; expected a name ending in one of {', '.join(INERTIAL)}",
                           name=name)
    return (0, 1, 1, 1, 2, 2, 2, 2, 2, 2)[INERTIAL.index(parameter.kind)]
