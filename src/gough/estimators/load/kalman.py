"""Kalman filters for states, sample by sample: a frozen belief goes in, a frozen belief comes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dgeqrf

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, NotConverged


class Predictor(Protocol):
    """A discrete model of a system with its exact derivatives; implemented where the system is known."""

    def predict(self, state: FloatArray, control: FloatArray, dt: float) -> tuple[FloatArray, FloatArray]:
        """Return the state (n,) one step of `dt` [s] later and its derivative by the state, (n, n)."""
        ...

    def measure(self, state: FloatArray, control: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the measurement (m,) expected in a state and its derivative by the state, (m, n)."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """What is known of a state: a Gaussian.

    Args:
        mean: (n,).
        root: Square root of its covariance, root @ root.T, (n, n).
    """

    mean: FloatArray
    root: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", frozen(self.mean))
        object.__setattr__(self, "root", frozen(self.root))
        check_shape(self.root, (len(self.mean), len(self.mean)), "root of the covariance")

    @classmethod
    def of(cls, mean: FloatArray, covariance: FloatArray) -> Belief:
        """Return the belief with a mean (n,) and a covariance (n, n), which may be singular."""
        check_shape(np.asarray(covariance), (len(mean), len(mean)), "covariance of the state")
        return cls(mean=mean, root=_root(np.asarray(covariance, dtype=float), "covariance of the state"))

    @property
    def covariance(self) -> FloatArray:
        """Symmetric and positive semidefinite by construction, (n, n)."""
        return np.asarray(self.root @ self.root.T)

    @property
    def std(self) -> FloatArray:
        """Standard deviations, (n,)."""
        return np.asarray(np.linalg.norm(self.root, axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Innovation:
    """What a measurement said that the prediction did not.

    Args:
        value: Measured minus expected, (m,).
        covariance: Of this difference if model and noise are right, (m, m).
    """

    value: FloatArray
    covariance: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", frozen(self.value))
        object.__setattr__(self, "covariance", frozen(self.covariance))

    @property
    def surprise(self) -> float:
        """value^T covariance^-1 value: chi-square with m degrees of freedom if model and noise are right."""
        return float(self.value @ np.linalg.solve(self.covariance, self.value))


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterHistory:
    """A whole run of a filter.

    Args:
        time: (t,). [s]
        mean: State after each sample, (t, n).
        std: Its standard deviations, (t, n).
        innovation: (t, m).
        surprise: Normalised innovation squared of each sample, (t,): chi-square with m degrees of freedom if model and
            noise are right. [1]
        log_likelihood: Of all measurements, by which models or starts can be compared.
        belief: After the last sample.
    """

    time: FloatArray
    mean: FloatArray
    std: FloatArray
    innovation: FloatArray
    surprise: FloatArray
    log_likelihood: float
    belief: Belief

    def __post_init__(self) -> None:
        for name in ("time", "mean", "std", "innovation", "surprise"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtendedKalman:
    """The extended Kalman filter, S20 (32) and (36), with the covariance update in Joseph's form.

    x- = f(x, u),  P- = F P F^T + Q,  K = P- H^T (H P- H^T + R)^-1,  x = x- + K (z - h(x-)),
    P = (1 - K H) P- (1 - K H)^T + K R K^T.
    Departure: S20's P = (1 - K H) P- loses symmetry and sign to rounding; Joseph's form holds for any K. Here it is
    carried as square roots, S of [(1 - K H) S-, K R^1/2], so that no rounding can make a variance negative.

    Args:
        process_noise: Q, added at every step, (n, n).
        measurement_noise: R, (m, m).
    """

    process_noise: FloatArray
    measurement_noise: FloatArray

    def __post_init__(self) -> None:
        for name in ("process_noise", "measurement_noise"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        _ = self._noise_roots

    @cached_property
    def _noise_roots(self) -> tuple[FloatArray, FloatArray]:
        roots = _root(self.process_noise, "process noise"), _root(self.measurement_noise, "measurement noise")
        if np.linalg.matrix_rank(roots[1]) < len(roots[1]):
            raise InvalidInput("measurement noise must be positive definite; a perfect sensor needs a small variance")
        return roots

    def predict(self, predictor: Predictor, belief: Belief, control: FloatArray, dt: float) -> Belief:
        """Return the belief one step of `dt` [s] later, under the control that acted meanwhile."""
        mean, root = self._predict(predictor, belief.mean, belief.root, control, dt)
        return Belief(mean=mean, root=root)

    def update(self, predictor: Predictor, belief: Belief, control: FloatArray, measurement: FloatArray,
               ) -> tuple[Belief, Innovation]:
        """Return the belief after a measurement, and its innovation."""
        mean, root, value, spread = self._update(predictor, belief.mean, belief.root, control, measurement)
        return Belief(mean=mean, root=root), Innovation(value=value, covariance=spread)

    def run(self, predictor: Predictor, belief: Belief, controls: FloatArray, measurements: FloatArray, dt: float,
            ) -> FilterHistory:
        """Filter a recording: update with the first sample, then predict and update to the last.

        Args:
            predictor: The model.
            belief: Before the first sample.
            controls: (t, u); the control of a sample acts until the next one.
            measurements: (t, m).
            dt: Time between samples. [s]

        Raises:
            NotConverged: The filter diverged; carries sample and time.
        """
        controls, measurements = np.asarray(controls, dtype=float), np.asarray(measurements, dtype=float)
        t = len(measurements)
        check_shape(measurements, (t, len(self.measurement_noise)), "measurements")
        check_shape(controls, (t, None), "controls")
        check_finite(measurements, "measurements")
        check_finite(controls, "controls")
        if t == 0 or not dt > 0:
            raise InvalidInput(f"{t} samples at intervals of {dt} s; expected at least one sample and a positive step")
        n, m = len(belief.mean), measurements.shape[1]
        means, stds = np.empty((t, n)), np.empty((t, n))
        innovations, surprises = np.empty((t, m)), np.empty(t)
        mean, root, likelihood = belief.mean, belief.root, 0.0
        for k in range(t):
            if k:
                try:
                    mean, root = self._predict(predictor, mean, root, controls[k - 1], dt)
                except NotConverged as error:
                    raise NotConverged(f"sample {k} (t = {k * dt:.6g} s): {error}", sample=k, time=k * dt) from error
            mean, root, value, spread = self._update(predictor, mean, root, controls[k], measurements[k])
            means[k], stds[k] = mean, np.linalg.norm(root, axis=1)
            innovations[k], surprises[k] = value, value @ np.linalg.solve(spread, value)
            likelihood -= (surprises[k] + m * np.log(2 * np.pi) + np.linalg.slogdet(spread)[1]) / 2
        return FilterHistory(time=dt * np.arange(float(t)), mean=means, std=stds, innovation=innovations,
                             surprise=surprises, log_likelihood=float(likelihood), belief=Belief(mean=mean, root=root))

    def _predict(self, predictor: Predictor, mean: FloatArray, root: FloatArray, control: FloatArray, dt: float,
                 ) -> tuple[FloatArray, FloatArray]:
        ahead, F = predictor.predict(mean, control, dt)
        if not np.isfinite(ahead).all():
            raise NotConverged("the filter diverged: its state is no longer finite; raise the noise covariances or "
                               "start nearer")
        return ahead, _squeeze(F @ root, self._noise_roots[0])

    def _update(self, predictor: Predictor, mean: FloatArray, root: FloatArray, control: FloatArray,
                measurement: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        expected, H = predictor.measure(mean, control)
        value = measurement - expected
        seen = H @ root
        spread = seen @ seen.T + self.measurement_noise
        gain = root @ np.linalg.solve(spread, seen).T
        return mean + gain @ value, _squeeze(root - gain @ seen, gain @ self._noise_roots[1]), value, spread


def _squeeze(*parts: FloatArray) -> FloatArray:
    """Return the square S with S S^T = sum of part part^T: the QR of the parts side by side."""
    n = len(parts[0])
    return np.asarray(np.tril(dgeqrf(np.concatenate(parts, axis=1).T)[0][:n].T))


def _root(matrix: FloatArray, name: str) -> FloatArray:
    """Return S with S S^T = matrix, which may be singular."""
    check_shape(matrix, (len(matrix), len(matrix)), name)
    check_finite(matrix, name)
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0):
        raise InvalidInput(f"{name} is not symmetric")
    size, axes = np.linalg.eigh(matrix)
    if len(size) and size[0] < -1e-12 * abs(size[-1]):
        raise InvalidInput(f"{name} has the eigenvalue {size[0]:.3g}, expected none below zero", eigenvalue=size[0])
    return np.asarray(axes * np.sqrt(np.maximum(size, 0.0)))
