"""S20's extended Kalman filter of a Stewart platform's load: seven states, no accelerations, with
corrected equations.

`ExtendedKalman` filters any `Predictor`; `StewartLoad` is S20's model of the rotations;
`StewartLoadFilter` runs it and says what the filter itself cannot know. All ten parameters on any
motion: `gough payload`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dgeqrf
from scipy.signal import lfilter

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, NotConverged
from gough.core.notices import Notice
from gough.fitting.estimate import Estimate, UncertaintyComponent

# a parameter counts as observed once its standard deviation fell below this share of the prior's
OBSERVED = 0.5
# mean normalised innovation squared per measurement above which a filter is not believed
INCONSISTENT = 4.0
STATES = (
    "rx.velocity",
    "ry.velocity",
    "rz.velocity",
    "payload.z",
    "payload.Ixx",
    "payload.Iyy",
    "payload.Izz",
)
STATE_UNITS = ("rad/s", "rad/s", "rad/s", "m", "kg m2", "kg m2", "kg m2")
CONTROLS = ("force.x", "force.y", "moment.x", "moment.y", "moment.z", "rx", "ry")


class Predictor(Protocol):
    """A discrete model of a system with its exact derivatives; implemented where the system is
    known.
    """

    def predict(
        self, state: FloatArray, control: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the state (n,) one step of `dt` [s] later and its derivative by the state, (n,
        n).
        """
        ...

    def measure(self, state: FloatArray, control: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the measurement (m,) expected in a state and its derivative by the state, (m,
        n).
        """
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
        return cls(
            mean=mean, root=_root(np.asarray(covariance, dtype=float), "covariance of the state")
        )

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
        """value^T covariance^-1 value: chi-square with m degrees of freedom if model and noise are
        right.
        """
        return float(self.value @ np.linalg.solve(self.covariance, self.value))


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterHistory:
    """A whole run of a filter.

    Args:
        time: (t,). [s]
        mean: State after each sample, (t, n).
        std: Its standard deviations, (t, n).
        innovation: (t, m).
        surprise: Normalised innovation squared of each sample, (t,): chi-square with m degrees of
            freedom if model and noise are right. [1]
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
    Departure: S20's P = (1 - K H) P- loses symmetry and sign to rounding; Joseph's form holds for
    any K. Here it is carried as square roots, S of [(1 - K H) S-, K R^1/2], so that no rounding can
    make a variance negative.

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
        roots = (
            _root(self.process_noise, "process noise"),
            _root(self.measurement_noise, "measurement noise"),
        )
        if np.linalg.matrix_rank(roots[1]) < len(roots[1]):
            raise InvalidInput(
                "measurement noise must be positive definite; a perfect sensor needs a small "
                "variance"
            )
        return roots

    def predict(
        self, predictor: Predictor, belief: Belief, control: FloatArray, dt: float
    ) -> Belief:
        """Return the belief one step of `dt` [s] later, under the control that acted meanwhile."""
        mean, root = self._predict(predictor, belief.mean, belief.root, control, dt)
        return Belief(mean=mean, root=root)

    def update(
        self,
        predictor: Predictor,
        belief: Belief,
        control: FloatArray,
        measurement: FloatArray,
    ) -> tuple[Belief, Innovation]:
        """Return the belief after a measurement, and its innovation."""
        mean, root, value, spread = self._update(
            predictor, belief.mean, belief.root, control, measurement
        )
        return Belief(mean=mean, root=root), Innovation(value=value, covariance=spread)

    def run(
        self,
        predictor: Predictor,
        belief: Belief,
        controls: FloatArray,
        measurements: FloatArray,
        dt: float,
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
        controls, measurements = (
            np.asarray(controls, dtype=float),
            np.asarray(measurements, dtype=float),
        )
        t = len(measurements)
        check_shape(measurements, (t, len(self.measurement_noise)), "measurements")
        check_shape(controls, (t, None), "controls")
        check_finite(measurements, "measurements")
        check_finite(controls, "controls")
        if t == 0 or not dt > 0:
            raise InvalidInput(
                f"{t} samples at intervals of {dt} s; expected at least one sample and a positive "
                f"step"
            )
        n, m = len(belief.mean), measurements.shape[1]
        means, stds = np.empty((t, n)), np.empty((t, n))
        innovations, surprises = np.empty((t, m)), np.empty(t)
        mean, root, likelihood = belief.mean, belief.root, 0.0
        for k in range(t):
            if k:
                try:
                    mean, root = self._predict(predictor, mean, root, controls[k - 1], dt)
                except NotConverged as error:
                    raise NotConverged(
                        f"sample {k} (t = {k * dt:.6g} s): {error}", sample=k, time=k * dt
                    ) from error
            mean, root, value, spread = self._update(
                predictor, mean, root, controls[k], measurements[k]
            )
            means[k], stds[k] = mean, np.linalg.norm(root, axis=1)
            innovations[k], surprises[k] = value, value @ np.linalg.solve(spread, value)
            likelihood -= (surprises[k] + m * np.log(2 * np.pi) + np.linalg.slogdet(spread)[1]) / 2
        return FilterHistory(
            time=dt * np.arange(float(t)),
            mean=means,
            std=stds,
            innovation=innovations,
            surprise=surprises,
            log_likelihood=float(likelihood),
            belief=Belief(mean=mean, root=root),
        )

    def _predict(
        self,
        predictor: Predictor,
        mean: FloatArray,
        root: FloatArray,
        control: FloatArray,
        dt: float,
    ) -> tuple[FloatArray, FloatArray]:
        ahead, F = predictor.predict(mean, control, dt)
        if not np.isfinite(ahead).all():
            raise NotConverged(
                "the filter diverged: its state is no longer finite; raise the noise covariances "
                "or "
                "start nearer"
            )
        return ahead, _squeeze(F @ root, self._noise_roots[0])

    def _update(
        self,
        predictor: Predictor,
        mean: FloatArray,
        root: FloatArray,
        control: FloatArray,
        measurement: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        expected, H = predictor.measure(mean, control)
        value = measurement - expected
        seen = H @ root
        spread = seen @ seen.T + self.measurement_noise
        gain = root @ np.linalg.solve(spread, seen).T
        return (
            mean + gain @ value,
            _squeeze(root - gain @ seen, gain @ self._noise_roots[1]),
            value,
            spread,
        )


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
        raise InvalidInput(
            f"{name} has the eigenvalue {size[0]:.3g}, expected none below zero", eigenvalue=size[0]
        )
    return np.asarray(axes * np.sqrt(np.maximum(size, 0.0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class StewartLoad:
    """Angular velocities and load parameters of S20 (24), driven by the legs' forces and moments; a
    `Predictor`.

    S20 (25) divided by m = m_l + m_p, with the load's gravity moment; small rotations, no
    centrifugal terms:

        N_x = moment.x + m_l z (fy / m + g rx),   wd_x = N_x / (Ipx + Ixx + m_l (1 - m_l / m) z^2)
        N_y = moment.y + m_l z (g ry - fx / m),   wd_y = N_y / (Ipy + Iyy + m_l (1 - m_l / m) z^2)
        N_z = moment.z,                           wd_z = N_z / (Ipz + Izz)

    The state is the three angular velocities [rad/s], the height z of the load's centre of mass
    above the control point [m] and its inertias Ixx, Iyy, Izz about that centre [kg m2]; the
    control is `CONTROLS` [N, N m, rad], moments about the control point. Departures: (26) swaps Ixx
    and Iyy, (34)-(35) carry misprints, and the gravity moment, which needs the unknown z, is
    missing in (10); derivatives here are those of the equations above. (22) drops the moment about
    z of a tilted load's inertia force, -m_l z (ry fy + rx fx) / m in N_z, which is of the size of
    Izz wd_z; `yaw_coupling` keeps it.

    Args:
        load_mass: m_l, known. [kg]
        platform_mass: m_p. [kg]
        platform_inertia: Ipx, Ipy, Ipz about the control point, (3,). [kg m2]
        gravity: g. [m/s2]
        yaw_coupling: Keep the moment about z that (22) drops.
    """

    load_mass: float
    platform_mass: float
    platform_inertia: FloatArray
    gravity: float = 9.81
    yaw_coupling: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "platform_inertia", frozen(self.platform_inertia))
        check_shape(self.platform_inertia, (3,), "inertia of the platform")
        check_finite(self.platform_inertia, "inertia of the platform")
        if not (
            self.load_mass > 0 and self.platform_mass > 0 and (self.platform_inertia > 0).all()
        ):
            raise InvalidInput(
                f"masses are {self.load_mass} kg (load) and {self.platform_mass} kg (platform), "
                f"inertias {self.platform_inertia.tolist()} kg m2; expected all positive"
            )

    def predict(
        self, state: FloatArray, control: FloatArray, dt: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the state one Euler step of `dt` [s] later, S20 (28), and its derivative by the
        state, (7, 7).

        Raises:
            NotConverged: An inertia went so far below zero that the platform with load has none
                left.
        """
        z, Ixx, Iyy, Izz = state[3:].tolist()
        fx, fy, Mx, My, Mz, rx, ry = control.tolist()
        Ipx, Ipy, Ipz = self.platform_inertia.tolist()
        ml, m, g = self.load_mass, self.load_mass + self.platform_mass, self.gravity
        arm = ml * (1 - ml / m) * z * z  # load and platform about their common centre of mass
        Dx, Dy, Dz = Ipx + Ixx + arm, Ipy + Iyy + arm, Ipz + Izz
        if not (Dx > 0 and Dy > 0 and Dz > 0):
            raise NotConverged(
                f"the filter's inertias are {Ixx:.3g}, {Iyy:.3g}, {Izz:.3g} kg m2, below minus "
                f"those of "
                "the platform; start nearer or with a smaller covariance"
            )
        # d N / dz
        Sx, Sy, Sz = ml * (fy / m + g * rx), ml * (g * ry - fx / m), 0.0
        if self.yaw_coupling:
            Sz = -ml * (ry * fy + rx * fx) / m
        Nx, Ny, Nz = Mx + Sx * z, My + Sy * z, Mz + Sz * z
        slope = 2 * ml * (1 - ml / m) * z  # d arm / dz
        ahead = state.copy()
        ahead[:3] += np.array([Nx / Dx, Ny / Dy, Nz / Dz]) * dt
        jacobian = np.eye(7)
        jacobian[:3, 3] = (
            np.array([(Sx - Nx * slope / Dx) / Dx, (Sy - Ny * slope / Dy) / Dy, Sz / Dz]) * dt
        )
        jacobian[0, 4], jacobian[1, 5], jacobian[2, 6] = (
            -dt * Nx / Dx**2,
            -dt * Ny / Dy**2,
            -dt * Nz / Dz**2,
        )
        return ahead, jacobian

    def measure(self, state: FloatArray, control: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the angular velocities, S20 (29), and H = [E_3 0], (3, 7)."""
        return state[:3], np.eye(3, 7)

    def moments(self, state: FloatArray, controls: FloatArray) -> FloatArray:
        """Return N_x, N_y, N_z that accelerate the rotations, (t, 3), for controls (t, 7). [N m]"""
        fx, fy, Mx, My, Mz, rx, ry = np.asarray(controls, dtype=float).T
        lever, m = self.load_mass * state[3], self.load_mass + self.platform_mass
        twist = lever * (ry * fy + rx * fx) / m if self.yaw_coupling else 0.0
        return np.stack(
            [
                Mx + lever * (fy / m + self.gravity * rx),
                My + lever * (self.gravity * ry - fx / m),
                Mz - twist,
            ],
            axis=1,
        )

    def inertias(self, state: FloatArray) -> FloatArray:
        """Return what the moments accelerate: the denominators of (25) divided by m, (3,).

        [kg m2]
        """
        arm = (
            self.load_mass
            * (1 - self.load_mass / (self.load_mass + self.platform_mass))
            * state[3] ** 2
        )
        return np.asarray(self.platform_inertia + state[4:] + np.array([arm, arm, 0.0]))


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadResult:
    """What S20's filter found.

    Args:
        estimate: Of payload.z, Ixx, Iyy, Izz, with standard deviations that include what the filter
            cannot know itself.
        history: States and their own standard deviations after every sample.
        consistency: Mean normalised innovation squared per measurement; 1 if model and noise are
            right. [1]
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
    """S20's extended Kalman filter of seven states, (24)-(36), with corrected equations; see
    `StewartLoad`.

    The start x0 = 0 with P0 = diag(1 1 1 1 10 500 500) is the paper's. From z = 0 +- 1 m the
    linearised filter sometimes runs away to a load so high that nothing turns; the innovations show
    it. Then it starts again with half the spread of z, and the most likely run counts.

    A filter knows only the noise it was told of. The standard deviations reported add what it
    cannot know: `noise`, its own, grown if the innovations are larger than stated; `start`, how far
    the start value still pulls, (s / s0)^2 / (1 - (s / s0)^2) |x - x0| (P0 puts a true Ixx of 25 kg
    m2 at eight sigmas); `model`, the neglected
    rotations: of the order of the largest tilt in each moment, its square in z, and what the
    dropped yaw coupling would change; `forces`, noise of the moments, which the filter multiplies
    with itself and so takes for inertia. A parameter whose total is more than half its prior
    standard deviation is called not observable.

    Args:
        start: x0, (7,).
        covariance: P0, (7, 7).
        process_noise: Q, added at every step, (7, 7).
        measurement_noise: R of the angular velocities, (3, 3). [rad2/s2]
        restarts: How often the spread of z may be halved.
    """

    start: FloatArray = field(default_factory=lambda: np.zeros(7))
    covariance: FloatArray = field(
        default_factory=lambda: np.diag([1.0, 1.0, 1.0, 1.0, 10.0, 500.0, 500.0])
    )
    process_noise: FloatArray = field(
        default_factory=lambda: np.diag([1e-8, 1e-8, 1e-8, 0.0, 0.0, 0.0, 0.0])
    )
    measurement_noise: FloatArray = field(default_factory=lambda: 1e-6 * np.eye(3))
    restarts: int = 4

    def __post_init__(self) -> None:
        for name, shape in (
            ("start", (7,)),
            ("covariance", (7, 7)),
            ("process_noise", (7, 7)),
            ("measurement_noise", (3, 3)),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            check_shape(getattr(self, name), shape, name)

    @property
    def kalman(self) -> ExtendedKalman:
        """The filter itself, for use sample by sample with `belief` and a `StewartLoad`."""
        return ExtendedKalman(
            process_noise=self.process_noise, measurement_noise=self.measurement_noise
        )

    def belief(self) -> Belief:
        """Return the belief before the first sample."""
        return Belief.of(self.start, self.covariance)

    def run(
        self, model: StewartLoad, controls: FloatArray, velocities: FloatArray, dt: float
    ) -> LoadResult:
        """Filter a recording.

        Args:
            model: What is known of platform and load.
            controls: Forces and moments of the legs about the control point and the tilt angles,
                `CONTROLS`, (t, 7). [N, N m, rad]
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
                f"innovations are {np.sqrt(consistency):.2g} times the stated noise from every "
                f"start; check signs and "
                "units of forces and moments and the known mass, or state the noise that is there",
                consistency=consistency,
            )
        prior = np.sqrt(np.diag(self.covariance))[3:]
        shares = self._shares(model, history, belief, controls, velocities, dt, consistency)
        total = np.sqrt(sum(share**2 for share in shares.values()))
        unobserved = tuple(
            name for name, s, s0 in zip(STATES[3:], total, prior) if s > OBSERVED * s0
        )
        return LoadResult(
            estimate=_report(history, velocities, total, shares, prior, unobserved),
            history=history,
            consistency=consistency,
            unobserved=unobserved,
            shares=shares,
        )

    def _shares(
        self,
        model: StewartLoad,
        history: FilterHistory,
        belief: Belief,
        controls: FloatArray,
        velocities: FloatArray,
        dt: float,
        consistency: float,
    ) -> dict[str, FloatArray]:
        state, own = history.belief.mean, history.belief.std[3:]
        left = np.minimum(own**2 / np.diag(self.covariance)[3:], 1 - 1e-9)
        inertias, tilt = model.inertias(state), float(np.abs(np.asarray(controls)[:, 5:]).max())
        neglected = np.append(tilt**2 * abs(state[3]), tilt * inertias)
        if not model.yaw_coupling:
            other = self.kalman.run(
                replace(model, yaw_coupling=True), belief, controls, velocities, dt
            )
            neglected = np.hypot(neglected, other.belief.mean[3:] - state[3:])
        # The filter forgets its angular velocities with the gain k, so it sees moments through a
        # first-order low-pass.
        gain = history.belief.std[:3] ** 2 / np.diag(self.measurement_noise)
        moments = model.moments(state, controls)
        white = (
            np.diff(moments, axis=0).var(axis=0) / 2 * gain / (2 - gain)
        )  # signals are slow against the sampling
        seen = np.stack(
            [lfilter([k], [1, k - 1], column) for k, column in zip(gain, moments.T)]
        ).var(axis=1)
        ratio = np.divide(white, seen, out=np.ones(3), where=seen > 0)
        forces = inertias * np.minimum(ratio, 1.0)
        lean = (
            history.belief.covariance[3, 4:] / own[1:] ** 2
        )  # what an error of each inertia does to z
        return {
            "noise": own * np.sqrt(max(1.0, consistency)),
            "start": left / (1 - left) * np.abs(state - self.start)[3:],
            "model": neglected,
            "forces": np.append(np.linalg.norm(lean * forces), forces),
        }

    def _search(
        self,
        model: StewartLoad,
        controls: FloatArray,
        velocities: FloatArray,
        dt: float,
    ) -> tuple[FilterHistory, Belief]:
        """Return the most likely run and its start, narrowing the spread of z while the innovations
        look wrong.
        """
        expected = 3 + 6 * np.sqrt(
            6 / max(len(velocities), 1)
        )  # six sigmas of a mean of chi-squares
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


def _report(
    history: FilterHistory,
    velocities: FloatArray,
    total: FloatArray,
    shares: dict[str, FloatArray],
    prior: FloatArray,
    unobserved: tuple[str, ...],
) -> Estimate:
    correlation = history.belief.covariance[3:, 3:] / np.outer(
        history.belief.std[3:], history.belief.std[3:]
    )
    notices = []
    for i, name in enumerate(STATES[3:]):
        if name in unobserved:
            text = (
                f"not observable on this motion: standard deviation {total[i]:.3g} "
                f"{STATE_UNITS[3 + i]} against {prior[i]:.3g} before it"
            )
            notices.append(Notice(rule="not observed", level="info", where=name, text=text))
        main = max(shares, key=lambda share: shares[share][i])
        if main != "noise":
            cause = {
                "start": "the start value, which still pulls",
                "model": "rotations the model neglects",
                "forces": "noise of the moments",
            }[main]
            text = f"the uncertainty comes mainly from {cause}"
            notices.append(Notice(rule="standard errors", level="info", where=name, text=text))
    rms, size = (
        np.sqrt((history.innovation**2).mean(axis=0)),
        np.sqrt((np.asarray(velocities) ** 2).mean(axis=0)),
    )
    return Estimate(
        parameters=STATES[3:],
        units=STATE_UNITS[3:],
        values=history.belief.mean[3:],
        covariance=correlation * np.outer(total, total),
        rows=STATES[:3],
        row_units=STATE_UNITS[:3],
        residual_rms=rms,
        residual_relative=np.divide(rms, size, out=np.full(3, np.inf), where=size > 0),
        residual_mean=history.innovation.mean(axis=0),
        samples=len(history),
        degrees_of_freedom=np.asarray(np.inf),
        condition_number=float(np.sqrt(np.linalg.cond(correlation))),
        method="extended Kalman filter of S20",
        uncertainty="filter",
        notices=tuple(notices),
        sources=(
            UncertaintyComponent(
                kind="white", std=history.belief.std[3:], degrees_of_freedom=np.asarray(np.inf)
            ),
        ),
    )
