"""Are standard errors right? Simulation-based calibration of every estimator.

    python benchmarks/calibration.py [linear] [nonlinear] [--robots R ...] [--trials N] [--json] [--small]

`linear`: a processed log of every bundled robot, once periodic and once in one pass; the noise of
its efforts is drawn again in each trial, and all linear estimators fit it with their defaults.
`nonlinear`: drive gains, and trajectory and parameters together (full maximum likelihood), from
recordings drawn again.

If the stated distribution of an estimate is right, the probability integral transform of
(estimate - truth) / standard error by Student's t is uniform, and the normalised estimation error
squared over the number of parameters, e^T P^-1 e / p, is distributed by F: P is estimated, with the
degrees of freedom that the estimate states. Both are tested (Kolmogorov and Smirnov; the sum over
trials), and the probabilities of all tests together are corrected by Holm. Quantiles and tests are
SciPy's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from gough import Model, Processing, Recording, base_parameters, identify, load_robot
from gough.core.arrays import FloatArray
from gough.core.display import text_table
from gough.core.errors import GoughError
from gough.core.motion import Motion
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import GaussMarkov, LeastSquares, WeightedLeastSquares
from gough.fitting.regression import Regression
from gough.fitting.robust import Robust
from gough.identification import prepare
from gough.identification.likelihood import averaged_period, full_likelihood
from gough.mechanism import bundled_robots

ROBOTS = tuple(name for name, _ in bundled_robots())
LIKELIHOOD_ROBOTS = ("five_bar", "h4")
GAIN_ROBOTS = {"orthoglide": "calibration", "serial6": "weight"}  # with their payload
TRIALS = 200
NONLINEAR_TRIALS = 50
RATE = 100.0  # of the logs [Hz]
SAMPLES = 200  # of a period
PERIODS = 6
HARMONICS = 5
CUTOFF = 12.0  # above all harmonics [Hz]
POSITION_NOISE = 1e-5  # of the motors [m or rad]
ROUNDING = 1e-12  # least variance of a combination of parameters, over the largest
SIGNIFICANCE = 0.01  # of the whole table, after Holm's correction
LINEAR = {
    "ls": LeastSquares(),
    "wls": WeightedLeastSquares(),
    "gm": GaussMarkov(),
    "robust": Robust(),
}


class SquaredError(NamedTuple):
    """Normalised estimation error squared e^T P^-1 e, and its distribution as stated."""

    total: float
    combinations: int  # of the parameters, whose errors it adds up
    mean: float
    variance: float


@dataclass(frozen=True)
class Errors:
    """Errors of an estimator in many trials of one robot."""

    robot: str
    estimator: str
    log: str  # where the standard errors come from
    transform: FloatArray  # probability integral transforms, (trials, p)
    squared: tuple[SquaredError, ...]  # of each trial, or empty
    held: float  # fraction of 95 % intervals that contain the truth
    failed: int = 0  # trials without a result

    @property
    def uniform(self) -> FloatArray:
        """Probability of transforms as uneven as these, for each parameter, (p,)."""
        columns = self.transform.T
        return np.array([stats.kstest(column, "uniform").pvalue for column in columns])

    @property
    def nees(self) -> float | None:
        """Mean normalised estimation error squared by combination; None if there is none."""
        if not self.squared:
            return None
        total = sum(error.total for error in self.squared)
        return total / sum(error.combinations for error in self.squared)

    @property
    def stated_nees(self) -> float | None:
        """What the estimates state of it: a little more than 1, as P is estimated."""
        if not self.squared:
            return None
        total = sum(error.mean for error in self.squared)
        return total / sum(error.combinations for error in self.squared)

    @property
    def consistent(self) -> float:
        """Probability of squared errors as far from those stated; 1 if there are none.

        Their sum over the trials is taken as a gamma variable of the stated mean and variance; it
        is chi-squared if P is known.
        """
        if not self.squared:
            return 1.0
        mean = sum(error.mean for error in self.squared)
        scale = sum(error.variance for error in self.squared) / mean
        stated = stats.gamma(mean / scale, scale=scale)
        total = sum(error.total for error in self.squared)
        return min(1.0, 2 * min(float(stated.sf(total)), float(stated.cdf(total))))


def errors_of(
    robot: str,
    estimator: str,
    log: str,
    estimates: Sequence[Estimate],
    truth: FloatArray,
    *,
    squared: bool,
    excess: float | None = None,
    failed: int = 0,
) -> Errors:
    """Return what became of some estimates of the same truth.

    Args:
        robot, estimator, log: As in `Errors`.
        estimates: One of each trial.
        truth: True values, (p,).
        squared: Whether the squared errors have a stated distribution.
        excess: As in `squared_error`.
        failed: Trials without a result.
    """
    transform = []
    normalised = []
    held = []
    for estimate in estimates:
        z = (estimate.values - truth) / estimate.std
        transform.append(stats.t.cdf(z, estimate.degrees_of_freedom))
        low, high = estimate.interval(0.95).T
        held.append((low <= truth) & (truth <= high))
        if squared:
            normalised.append(squared_error(estimate, truth, excess))
    return Errors(
        robot=robot,
        estimator=estimator,
        log=log,
        transform=np.array(transform),
        squared=tuple(normalised),
        held=float(np.mean(held)),
        failed=failed,
    )


def squared_error(
    estimate: Estimate, truth: FloatArray, excess: float | None = None
) -> SquaredError:
    """Return e^T P^-1 e with its stated distribution.

    Combinations whose variance is rounding beside that of others are left out. Of c combinations
    the error is c F(c, f) with the degrees of freedom f of P that give the mean 1 + excess.

    Args:
        estimate: Of one trial.
        truth: True values, (p,).
        excess: Mean of e^T P^-1 e / p minus 1; that of the parameters' own t^2, 2 / (f_i - 2), by
            default.
    """
    z = (estimate.values - truth) / estimate.std
    correlation = estimate.covariance / np.outer(estimate.std, estimate.std)
    variance, vectors = np.linalg.eigh(correlation)
    known = variance > ROUNDING * variance[-1]
    components = vectors[:, known].T @ z
    count = int(known.sum())
    if excess is None:
        excess = float(np.mean(2 / (estimate.degrees_of_freedom - 2)))
    freedom = 2 + 2 / excess
    mean, spread = stats.f.stats(count, freedom)
    return SquaredError(
        total=float((components**2 / variance[known]).sum()),
        combinations=count,
        mean=count * float(mean),
        variance=count**2 * float(spread),
    )


def correlated_excess(problem: Regression, covariance: FloatArray) -> float:
    """Return the mean of e^T P^-1 e / p minus 1 where the covariance between rows is estimated.

    With the whitened equations U of row i in an orthonormal basis and K_ij = U_i^T U_j, an error
    eps of the whitened covariance, of variance (1 + d_ij) / f_ij, changes P by the relative amount
    M = sum_ij eps_ij K_ij, and the mean exceeds 1 by

        E tr(M^2) / p = sum_ij (tr(K_ij K_ij) + tr(K_ij K_ji)) / (f_ij p)

    (Kenward and Roger 1997, A_2). Rows that all see parameters of their own through the same
    regressor give (r + 1) / f, as Hotelling's T^2 does.

    Args:
        problem: The equations.
        covariance: Of the rows, (r, r).
    """
    t, r, p = problem.regressor.shape
    white = problem.whitened(covariance).regressor.reshape(-1, p)
    basis = np.linalg.qr(white)[0].reshape(t, r, p)
    by_row = basis.transpose(1, 0, 2)
    share = (by_row**2).sum(axis=(1, 2))  # of each row in the parameters
    valid = problem.valid.astype(float)
    together = valid.T @ valid
    fraction = 1 - share / np.diag(together)
    freedom = together * np.sqrt(np.outer(fraction, fraction))
    total = 0.0
    for i in range(r):
        for j in range(r):
            product = by_row[i].T @ by_row[j]
            total += (product * (product + product.T)).sum() / freedom[i, j]
    return total / p


def wandering(model: Model, seed: int = 0) -> Motion:
    """Return one period of a random Fourier series about the reference configuration."""
    by = model.kinematics.pose_coordinates
    rows = list(model.loops.partitions[by].independent)
    rng = np.random.default_rng(seed)
    time = np.arange(SAMPLES) / RATE
    frequency = 2 * np.pi * RATE / SAMPLES
    position = np.zeros((3, SAMPLES, len(rows)))
    position[0] = model.home[rows]
    for k in range(1, HARMONICS + 1):
        w = k * frequency
        phase = rng.uniform(0, 2 * np.pi, len(rows))
        amplitude = rng.uniform(0.5, 1.0, len(rows)) * _reach(model, rows) / k
        angle = w * time[:, None] + phase
        position[0] += amplitude * (np.sin(angle) - np.sin(phase))
        position[1] += amplitude * w * np.cos(angle)
        position[2] -= amplitude * w**2 * np.sin(angle)
    return model.kinematics.motion(time, *position, by)


def _reach(model: Model, rows: Sequence[int]) -> FloatArray:
    """Return the amplitude of the first harmonic: a few per cent of a metre, or of a radian."""
    reach = []
    for i in rows:
        limits = model.mechanism.joints[i].limits.position
        span = limits[1] - limits[0] if limits else 0.4
        reach.append(min(0.06 * span, 0.3))
    return np.array(reach)


@dataclass(frozen=True)
class Processed:
    """A processed log whose effort noise can be drawn again."""

    model: Model
    base: BaseParameters
    truth: FloatArray  # base parameters, (p,)
    problem: Regression  # of one averaged period
    noise: FloatArray  # covariance of the motors' noise, (a, a)
    q: FloatArray  # coordinates of the samples, (t, n)

    def drawn(self, rng: np.random.Generator, *, periodic: bool) -> Regression:
        """Return the problem with new noise: averaged over periods, or of one pass."""
        count = PERIODS if periodic else 1
        t = len(self.problem)
        root = np.linalg.cholesky(self.noise)
        drawn = rng.standard_normal((count, t, len(root))) @ root.T
        rows = [self.model.project_to_rows(self.q, sample) for sample in drawn]
        efforts = self.problem.regressor @ self.truth + np.array(rows)
        if not periodic:
            return replace(self.problem, effort=efforts[0], replicates=None, covariance=None)
        mean = efforts.mean(axis=0)
        deviation = (efforts - mean)[:, self.problem.valid.all(axis=1)]
        flat = deviation.reshape(-1, deviation.shape[2])
        covariance = flat.T @ flat / (len(flat) * (count - 1))
        return replace(self.problem, effort=mean, replicates=efforts, covariance=covariance)


def processed(name: str) -> Processed:
    """Return the processed log of a robot along a wandering motion, recorded several times."""
    model = Model(load_robot(name))
    base = base_parameters(model)
    truth = base.values(model.values(base.standard))
    motion = wandering(model)
    effort = motor_efforts(model, motion, base, truth)
    motors = len(model.actuated)
    spread = effort_noise(effort) * np.linspace(1.0, 2.0, motors)
    correlation = np.full((motors, motors), 0.3) + 0.7 * np.eye(motors)
    log = noisy_log(model, motion, effort, np.random.default_rng(1))
    ready = prepare(model, [log], base, processing=Processing(cutoff=CUTOFF))
    return Processed(
        model=model,
        base=base,
        truth=truth,
        problem=ready.problem,
        noise=np.outer(spread, spread) * correlation,
        q=ready.processed[0].motion.q,
    )


def linear(robots: Sequence[str] = ROBOTS, trials: int = TRIALS) -> Iterator[Errors]:
    """Yield the errors of the linear estimators, with noise drawn again on processed logs.

    All state standard errors for white noise; Gauss-Markov also those of its defaults, by the
    scatter of repetitions or the autocorrelation of the residuals.
    """
    for name in robots:
        source = processed(name)
        for estimator, method in LINEAR.items():
            case = source
            if estimator != "gm":
                case = _suited(source, equal=estimator == "ls")
            white = replace(method, uncertainty="white")
            yield _drawn_errors(name, estimator, case, white, trials, log="white")
        for log in ("periodic", "one pass"):
            yield _drawn_errors(name, "gm", source, GaussMarkov(), trials, log=log)


def _drawn_errors(
    robot: str, estimator: str, source: Processed, method: Any, trials: int, *, log: str
) -> Errors:
    estimates = []
    for trial in range(trials):
        rng = np.random.default_rng([trial, len(log)])
        estimates.append(method.fit(source.drawn(rng, periodic=log == "periodic")))
    # A covariance from few repetitions or from autocorrelation has fewer degrees of freedom than
    # parameters: e^T P^-1 e then has no distribution, Student's t of each parameter has.
    squared = log == "white"
    excess = None
    if squared and isinstance(method, GaussMarkov):
        excess = correlated_excess(source.problem, estimates[0].noise_covariance)
    return errors_of(robot, estimator, log, estimates, source.truth, squared=squared, excess=excess)


def _suited(source: Processed, *, equal: bool) -> Processed:
    """Return a log with uncorrelated noise, as weights by row assume; equal for plain squares."""
    variance = np.diag(source.noise)
    if equal:
        variance = np.full_like(variance, variance.mean())
    return replace(source, noise=np.diag(variance))


def nonlinear(trials: int = NONLINEAR_TRIALS) -> Iterator[Errors]:
    """Yield the errors of full maximum likelihood and of drive gains, two robots each."""
    for name in LIKELIHOOD_ROBOTS:
        yield likelihood_errors(name, trials)
    for name, payload in GAIN_ROBOTS.items():
        yield gain_errors(name, payload, trials)


def likelihood_errors(name: str, trials: int) -> Errors:
    """Return the errors of full maximum likelihood with noise on positions and efforts."""
    model = Model(load_robot(name))
    base = base_parameters(model)
    truth = base.values(model.values(base.standard))
    motion = wandering(model)
    effort = motor_efforts(model, motion, base, truth)
    estimates = []
    failed = 0
    for trial in range(trials):
        log = noisy_log(model, motion, effort, np.random.default_rng([trial, 7]))
        ready = prepare(model, [log], base, processing=Processing(cutoff=CUTOFF))
        try:
            period = averaged_period(model, ready.processed, base)
            estimates.append(full_likelihood(period, harmonics=HARMONICS).estimate)
        except GoughError:
            failed += 1
    return errors_of(name, "full_ml", "periodic", estimates, truth, squared=False, failed=failed)


def gain_errors(name: str, payload: str, trials: int) -> Errors:
    """Return the errors of drive gains from an unloaded log and one with a known payload."""
    model = Model(load_robot(name))
    base = base_parameters(model, payloads=(payload,))
    truth = base.values(model.values(base.standard))
    gains = np.array([float(model.mechanism.joints[i].gain or 1.0) for i in model.actuated])
    names = [Parameter.gain(motor) for motor in model.mechanism.actuated]
    motions = [wandering(model, seed) for seed in (0, 1)]
    unloaded = np.array([parameter.payload is None for parameter in base.names])
    efforts = [
        motor_efforts(model, motions[0], base, truth * unloaded),
        motor_efforts(model, motions[1], base, truth),
    ]
    estimates = []
    for trial in range(trials):
        rng = np.random.default_rng([trial, 8])
        empty, full = (
            noisy_log(model, motion, effort, rng, gains=gains)
            for motion, effort in zip(motions, efforts)
        )
        result = identify(
            model,
            [empty],
            loaded=[full],
            payload=payload,
            estimator="gain_ml",
            cutoff=CUTOFF,
        )
        estimates.append(result.estimate.select(names))
    return errors_of(name, "gain_ml", "periodic", estimates, gains, squared=False)


def motor_efforts(
    model: Model, motion: Motion, base: BaseParameters, values: FloatArray
) -> FloatArray:
    """Return the least efforts of the motors that balance a motion, (t, a)."""
    row_effort = model.regressor(motion, base) @ values
    closure_map = model.kinematics.closure_map(motion.q)[:, list(model.actuated)]
    inverse = np.linalg.pinv(closure_map.transpose(0, 2, 1))
    return np.asarray(np.einsum("tar,tr->ta", inverse, row_effort))


def noisy_log(
    model: Model,
    motion: Motion,
    effort: FloatArray,
    rng: np.random.Generator,
    *,
    gains: FloatArray | None = None,
) -> Recording:
    """Return several periods with noise on positions and efforts; as currents with gains."""
    motors = list(model.actuated)
    joints = [model.mechanism.joints[i] for i in motors]
    position = np.tile(motion.q[:, motors], (PERIODS, 1))
    force = np.tile(effort, (PERIODS, 1))
    position = position + POSITION_NOISE * rng.standard_normal(position.shape)
    force = force + effort_noise(effort) * rng.standard_normal(force.shape)
    units: dict[str, Any] = {"position": [joint.unit for joint in joints]}
    signals: dict[str, Any] = {"effort": force}
    if gains is None:
        units["effort"] = [joint.effort_unit for joint in joints]
    else:
        units["current"] = "A"
        signals = {"current": force / gains}
    return Recording.from_arrays(
        [joint.name for joint in joints],
        position=position,
        rate=RATE,
        units=units,
        period_samples=SAMPLES,
        **signals,
    )


def effort_noise(effort: FloatArray) -> float:
    """Return the standard deviation of the effort noise: a fiftieth of the mean effort."""
    return max(float(np.abs(effort).mean()) / 50, 1e-3)


def judged(rows: Sequence[Errors]) -> list[dict[str, Any]]:
    """Return the table with probabilities corrected by Holm over all tests of all rows."""
    raw = np.concatenate([np.append(row.uniform, row.consistent) for row in rows])
    order = np.argsort(raw)
    stepped = np.maximum.accumulate((len(raw) - np.arange(len(raw))) * raw[order])
    corrected = np.empty(len(raw))
    corrected[order] = np.minimum(stepped, 1.0)
    table = []
    first = 0
    for row in rows:
        trials, parameters = row.transform.shape
        own = corrected[first : first + parameters + 1]
        first += parameters + 1
        table.append(
            {
                "robot": row.robot,
                "estimator": row.estimator,
                "standard_errors": row.log,
                "parameters": parameters,
                "trials": trials,
                "failed": row.failed,
                "hold": row.held,
                "uniform": float(own[:-1].min()),
                "nees": row.nees,
                "stated_nees": row.stated_nees,
                "consistent": float(own[-1]),
                "calibrated": bool(own.min() > SIGNIFICANCE),
            }
        )
    return table


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Print the table and return it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["linear", "nonlinear"])
    parser.add_argument("--robots", nargs="+", default=ROBOTS, help="of the linear part")
    parser.add_argument("--trials", type=int, help="200 and 50 by default")
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    parser.add_argument("--small", action="store_true", help="one robot, three trials")
    chosen = parser.parse_args(arguments)
    if chosen.small:
        chosen.parts = ["linear"]
        chosen.robots = ["five_bar"]
        chosen.trials = 3
    rows: list[Errors] = []
    if "linear" in chosen.parts:
        rows += linear(chosen.robots, chosen.trials or TRIALS)
    if "nonlinear" in chosen.parts:
        rows += nonlinear(chosen.trials or NONLINEAR_TRIALS)
    table = judged(rows)
    if chosen.json:
        print(json.dumps(table, indent=1))
    else:
        cells = [[_cell(entry) for entry in row.values()] for row in table]
        print(text_table(list(table[0]), cells))
    return table


def _cell(entry: Any) -> str:
    if isinstance(entry, float):
        return f"{entry:.3g}"
    return "-" if entry is None else str(entry)


if __name__ == "__main__":
    main()
