"""Load identification while the robot moves: S20's filter of four parameters, and one of all ten on any trajectory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.signal import lfilter

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import INERTIAL, LOAD, Parameter
from gough.core.regression import Regression
from gough.estimators.estimate import Estimate
from gough.estimators.load.kalman import Belief, ExtendedKalman, FilterHistory
from gough.estimators.load.load_model import CONTROLS, SOUGHT, STATE_UNITS, STATES, StewartLoad
from gough.estimators.load.recursive import (
    OBSERVED,
    Observability,
    ParameterBelief,
    RecursiveLeastSquares,
    prior_belief,
)

INCONSISTENT = 4.0  # mean normalised innovation squared per measurement above which a filter is not believed


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadResult:
    """What S20's filter found.

    Args:
        estimate: Of payload.z, Ixx, Iyy, Izz, with standard deviations that include what the filter cannot know itself.
        history: States and their own standard deviations after every sample.
        consistency: Mean normalised innovation squared per measurement; 1 if model and noise are right. [1]
        unobserved: Names of the parameters this motion does not give.
        shares: Parts of the standard deviation by cause, (4,) each; see `StewartLoadFilter`.
    """

    estimate: Estimate
    history: FilterHistory
    consistency: float
    unobserved: tuple[str, ...]
    shares: dict[str, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class StewartLoadFilter:
    """S20's extended Kalman filter of seven states, (24)-(36), with corrected equations; see `StewartLoad`.

    The start x0 = 0 with P0 = diag(1 1 1 1 10 500 500) is the paper's. From z = 0 +- 1 m the linearised filter
    sometimes runs away to a load so high that nothing turns; the innovations show it. Then it starts again with half
    the spread of z, and the most likely run counts.

    A filter knows only the noise it was told of. The standard deviations reported add what it cannot know:
    `noise`, its own, grown if the innovations are larger than stated; `start`, how far the start value still pulls,
    (s / s0)^2 / (1 - (s / s0)^2) |x - x0| (P0 puts a true Ixx of 25 kg m2 at eight sigmas); `model`, the neglected
    rotations: of the order of the largest tilt in each moment, its square in z, and what the dropped yaw coupling would
    change; `forces`, noise of the moments, which the filter multiplies with itself and so takes for inertia. A
    parameter whose total is more than half its prior standard deviation is called not observable.

    Args:
        start: x0, (7,).
        covariance: P0, (7, 7).
        process_noise: Q, added at every step, (7, 7).
        measurement_noise: R of the angular velocities, (3, 3). [rad2/s2]
        restarts: How often the spread of z may be halved.
    """

    start: FloatArray = field(default_factory=lambda: np.zeros(7))
    covariance: FloatArray = field(default_factory=lambda: np.diag([1.0, 1.0, 1.0, 1.0, 10.0, 500.0, 500.0]))
    process_noise: FloatArray = field(default_factory=lambda: np.diag([1e-8, 1e-8, 1e-8, 0.0, 0.0, 0.0, 0.0]))
    measurement_noise: FloatArray = field(default_factory=lambda: 1e-6 * np.eye(3))
    restarts: int = 4

    def __post_init__(self) -> None:
        for name, shape in (("start", (7,)), ("covariance", (7, 7)), ("process_noise", (7, 7)),
                            ("measurement_noise", (3, 3))):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            check_shape(getattr(self, name), shape, name)

    @property
    def kalman(self) -> ExtendedKalman:
        """The filter itself, for use sample by sample with `belief` and a `StewartLoad`."""
        return ExtendedKalman(process_noise=self.process_noise, measurement_noise=self.measurement_noise)

    def belief(self) -> Belief:
        """Return the belief before the first sample."""
        return Belief.of(self.start, self.covariance)

    def run(self, model: StewartLoad, controls: FloatArray, velocities: FloatArray, dt: float) -> LoadResult:
        """Filter a recording.

        Args:
            model: What is known of platform and load.
            controls: Forces and moments of the legs about the control point and the tilt angles, `CONTROLS`, (t, 7).
                [N, N m, rad]
            velocities: Measured angular velocities, (t, 3). [rad/s]
            dt: Time between samples. [s]

        Raises:
            NotConverged: No start gives innovations anywhere near the stated noise.
        """
        check_shape(np.asarray(controls), (len(velocities), len(CONTROLS)), "controls")
        history, belief = self._search(model, controls, velocities, dt)
        consistency = float(history.surprise.mean()) / 3
        if consistency > INCONSISTENT:
            raise NotConverged(
                f"innovations are {np.sqrt(consistency):.2g} times the stated noise from every start; check signs and "
                "units of forces and moments and the known mass, or state the noise that is there",
                consistency=consistency)
        prior = np.sqrt(np.diag(self.covariance))[3:]
        shares = self._shares(model, history, belief, controls, velocities, dt, consistency)
        total = np.sqrt(sum(share**2 for share in shares.values()))
        unobserved = tuple(name for name, s, s0 in zip(STATES[3:], total, prior) if s > OBSERVED * s0)
        return LoadResult(estimate=_report(history, velocities, total, shares, prior, unobserved), history=history,
                          consistency=consistency, unobserved=unobserved, shares=shares)

    def _shares(self, model: StewartLoad, history: FilterHistory, belief: Belief, controls: FloatArray,
                velocities: FloatArray, dt: float, consistency: float) -> dict[str, FloatArray]:
        state, own = history.belief.mean, history.belief.std[3:]
        left = np.minimum(own**2 / np.diag(self.covariance)[3:], 1 - 1e-9)
        inertias, tilt = model.inertias(state), float(np.abs(np.asarray(controls)[:, 5:]).max())
        neglected = np.append(tilt**2 * abs(state[3]), tilt * inertias)
        if not model.yaw_coupling:
            other = self.kalman.run(replace(model, yaw_coupling=True), belief, controls, velocities, dt)
            neglected = np.hypot(neglected, other.belief.mean[3:] - state[3:])
        # The filter forgets its angular velocities with the gain k, so it sees moments through a first-order low-pass.
        gain = history.belief.std[:3] ** 2 / np.diag(self.measurement_noise)
        moments = model.moments(state, controls)
        white = np.diff(moments, axis=0).var(axis=0) / 2 * gain / (2 - gain)  # signals are slow against the sampling
        seen = np.stack([lfilter([k], [1, k - 1], column) for k, column in zip(gain, moments.T)]).var(axis=1)
        ratio = np.divide(white, seen, out=np.ones(3), where=seen > 0)
        forces = inertias * np.minimum(ratio, 1.0)
        lean = history.belief.covariance[3, 4:] / own[1:] ** 2  # what an error of each inertia does to z
        return {"noise": own * np.sqrt(max(1.0, consistency)),
                "start": left / (1 - left) * np.abs(state - self.start)[3:],
                "model": neglected,
                "forces": np.append(np.linalg.norm(lean * forces), forces)}

    def _search(self, model: StewartLoad, controls: FloatArray, velocities: FloatArray, dt: float,
                ) -> tuple[FilterHistory, Belief]:
        """Return the most likely run and its start, narrowing the spread of z while the innovations look wrong."""
        expected = 3 + 6 * np.sqrt(6 / max(len(velocities), 1))  # six sigmas of a mean of chi-squares
        found: list[tuple[FilterHistory, Belief]] = []
        failure: NotConverged | None = None
        for halvings in range(self.restarts + 1):
            narrow = np.ones(7)
            narrow[3] = 0.5**halvings
            belief = Belief.of(self.start, self.covariance * np.outer(narrow, narrow))
            try:
                found.append((self.kalman.run(model, belief, controls, velocities, dt), belief))
            except NotConverged as error:
                failure = error
                continue
            if found[-1][0].surprise.mean() <= expected:
                break
        if not found:
            assert failure is not None
            raise failure
        return max(found, key=lambda run: run[0].log_likelihood)


def _report(history: FilterHistory, velocities: FloatArray, total: FloatArray, shares: dict[str, FloatArray],
            prior: FloatArray, unobserved: tuple[str, ...]) -> Estimate:
    correlation = history.belief.covariance[3:, 3:] / np.outer(history.belief.std[3:], history.belief.std[3:])
    notes = []
    for i, name in enumerate(STATES[3:]):
        if name in unobserved:
            notes.append(f"{name} is not observable on this motion: standard deviation {total[i]:.3g} "
                         f"{STATE_UNITS[3 + i]} against {prior[i]:.3g} before it")
        main = max(shares, key=lambda share: shares[share][i])
        if main != "noise":
            cause = {"start": "the start value, which still pulls", "model": "rotations the model neglects",
                     "forces": "noise of the moments"}[main]
            notes.append(f"the uncertainty of {name} comes mainly from {cause}")
    rms, size = np.sqrt((history.innovation**2).mean(axis=0)), np.sqrt((np.asarray(velocities) ** 2).mean(axis=0))
    return Estimate(
        parameters=SOUGHT, units=STATE_UNITS[3:], values=history.belief.mean[3:],
        covariance=correlation * np.outer(total, total), rows=STATES[:3], row_units=STATE_UNITS[:3], residual_rms=rms,
        residual_relative=np.divide(rms, size, out=np.full(3, np.inf), where=size > 0),
        residual_mean=history.innovation.mean(axis=0), samples=len(history), degrees_of_freedom=np.asarray(np.inf),
        condition_number=float(np.sqrt(np.linalg.cond(correlation))), method="extended Kalman filter of S20",
        uncertainty="filter", white_std=history.belief.std[3:], notes=tuple(notes))


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
                W, y = regression.regressor[k], regression.effort[k]
                grown[k] = self._inflate(ahead, W, y, nominal[k], None if sensitivity is None else sensitivity[k])
                ahead = recursive.update(ahead, W, y, grown[k])
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
