"""What AH09 section 6 asks of PaLiDA, as functions: repeated trials, noise alone, prediction,
likelihood.

`palida_identification.py` prints their tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from palida_experiment import (
    HARMONICS,
    PERIODS,
    benchmark,
    excitation,
    parameters,
    run,
    trial,
    truth,
    tuned,
)
from scipy import stats

from gough import Model, Processing, Simulation, load_robot
from gough.core.arrays import FloatArray
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Fourier
from gough.excitation.design import information_factor
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import GaussMarkov, WeightedLeastSquares
from gough.fitting.likelihood import CutoffResult, LikelihoodResult
from gough.fitting.regression import Regression
from gough.identification import prepare
from gough.identification.likelihood import averaged_period, cutoff_likelihood, full_likelihood
from gough.processing.valid_equations import valid_equations


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """The virtual experiments.

    Args:
        model, base, true: Robot, AH09's 24 parameters and their true values.
        trajectories: `d` and `cond`.
        rounds: Runs of the D-optimal trajectory with better and better feed-forward; the last one
            counts.
        rival: Run of the condition-number trajectory.
        tour: Run of the benchmark circle.
    """

    model: Model
    base: BaseParameters
    true: FloatArray
    trajectories: dict[str, Fourier]
    rounds: list[Simulation]
    rival: Simulation
    tour: Simulation

    @property
    def main(self) -> Simulation:
        """The run everything is identified from."""
        return self.rounds[-1]


def experiments(speed: float = 0.5) -> Study:
    """Design both trajectories and run them, and the benchmark circle at a speed [m/s]."""
    model = Model(load_robot("palida"))
    base = parameters(model)
    best, rival = excitation(model, "d"), excitation(model, "cond")
    rounds, used = tuned(model, base, best)
    return Study(
        model=model,
        base=base,
        true=truth(model, base),
        trajectories={"d": best, "cond": rival},
        rounds=rounds,
        rival=run(model, rival, used[-1]),
        tour=run(model, benchmark(model, speed), used[-1]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Repetitions:
    """Estimates of repeated trials.

    Args:
        values: Gauss-Markov with the full covariance, (trials, 24).
        diagonal: With row weights only, (trials, 24).
        covered: Whether the 95 % intervals of `values` hold the truth, (trials, 24).
    """

    values: FloatArray
    diagonal: FloatArray
    covered: FloatArray

    @property
    def std(self) -> FloatArray:
        """Scatter of Gauss-Markov, (24,)."""
        return self.values.std(axis=0, ddof=1)


def repetitions(study: Study, simulation: Simulation, trials: int, seed: int = 1000) -> Repetitions:
    """Identify from trials that differ in the noise of positions and forces, processed alike."""
    chosen = prepare(study.model, [trial(simulation, seed)], study.base).processing
    found: dict[str, list[FloatArray]] = {"values": [], "diagonal": [], "covered": []}
    for k in range(trials):
        problem = prepare(
            study.model, [trial(simulation, seed + k)], study.base, processing=chosen
        ).problem
        full, diagonal = (
            GaussMarkov().fit(problem),
            WeightedLeastSquares(uncertainty="white").fit(problem),
        )
        low, high = full.interval(0.95).T
        for name, row in (
            ("values", full.values),
            ("diagonal", diagonal.values),
            ("covered", (low <= study.true) & (study.true <= high)),
        ):
            found[name].append(row)
    return Repetitions(**{name: np.array(rows, dtype=float) for name, rows in found.items()})


def geometric(ratio: FloatArray) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratio).mean()))


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseOnly:
    """Trials in which only the noise of the forces differs.

    Args:
        values: Gauss-Markov estimates, (trials, 24).
        bound: Cramer-Rao bound of the standard deviations, (24,).
        white: Whether 95 % intervals under white noise hold the truth, (trials, 24).
        period: The same for intervals from the scatter between periods, the library's default.
    """

    values: FloatArray
    bound: FloatArray
    white: FloatArray
    period: FloatArray

    @property
    def variance_ratio(self) -> FloatArray:
        """Empirical variance over the bound, (24,)."""
        return self.values.var(axis=0, ddof=1) / self.bound**2


def true_problem(study: Study, window: float, every: int = 1) -> Regression:
    """Return regressor and forces of the true motion, as the plant moved, where all rows count.

    The plant's accelerations are those under the forces that follow a sample, so these are taken
    and not their mean.
    """
    simulation = study.main
    motion = simulation.motion()
    problem = study.model.regression(
        motion, simulation.effort[0], study.base, dead_band=simulation.dead_band
    )
    bands = Processing(dead_band=dict(zip(motion.coordinates, simulation.dead_band.tolist())))
    counts = valid_equations(
        study.model, motion, bands, round(window / (motion.time[1] - motion.time[0]))
    )
    return problem.take(np.flatnonzero(counts.all(axis=1))[::every])


def noise_only(
    study: Study,
    problem: Regression,
    trials: int = 3000,
    periods: int = PERIODS,
    seed: int = 7,
    chunk: int = 100,
) -> NoiseOnly:
    """Redraw the noise of the forces and estimate by `GaussMarkov`, all trials of a chunk at once.

    The covariance is estimated in every trial from the scatter between periods, as for a recording.
    With G_ij = W_i^T W_j and the legs' inverse covariance A, the normal equations are sum_ij A_ij
    G_ij p = sum_ij A_ij W_i^T y_j.
    """
    t, r, p = problem.regressor.shape
    noise = study.model.mechanism.noise.effort_covariance(r)
    W = problem.regressor.reshape(t, r * p)
    G = (W.T @ W).reshape(r, p, r, p)
    clean = (W.T @ problem.effort).reshape(r, p, r)
    A = np.linalg.inv(noise)
    bound = np.sqrt(np.diag(np.linalg.inv(periods * np.einsum("ij,ipjq->pq", A, G))))
    rng, root = np.random.default_rng(seed), np.linalg.cholesky(noise)
    scale = np.sqrt(np.diag(G.reshape(r * p, r * p))).reshape(r, p).max(axis=0)  # for digits
    values, white, period = [], [], []
    for _ in range(0, trials, chunk):
        e = rng.standard_normal((t, chunk, periods, r)) @ root.T
        cross = (W.T @ e.reshape(t, -1)).reshape(r, p, chunk, periods, r)
        away = e - e.mean(axis=2, keepdims=True)
        spread = np.einsum("tcki,tckj->cij", away, away, optimize=True) / (t * (periods - 1))
        A = np.linalg.inv(spread)
        info = np.einsum("cij,ipjq->cpq", A, G / scale[:, None, None] / scale, optimize=True)
        right = (
            np.einsum("cij,ipckj->cpk", A, cross + clean[:, :, None, None], optimize=True)
            / scale[:, None]
        )
        solutions = np.linalg.solve(info, right) / scale[:, None]  # (chunk, p, periods)
        mean = solutions.mean(axis=2)
        std = np.sqrt(np.diagonal(np.linalg.inv(info), axis1=1, axis2=2) / periods) / scale
        scatter = solutions.std(axis=2, ddof=1) / np.sqrt(periods)
        away = np.abs(mean - study.true)
        values.append(mean)
        white.append(away <= stats.norm.ppf(0.975) * std)
        period.append(away <= stats.t.ppf(0.975, periods - 1) * scatter)
    return NoiseOnly(
        values=np.concatenate(values),
        bound=bound,
        white=np.concatenate(white),
        period=np.concatenate(period),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """How models from differently processed data predict the benchmark circle.

    Args:
        error: rms of measured minus predicted force by processing, over legs and trials. [N]
        model_error: rms of predicted minus true force. [N]
        curves: Prediction error of leg 1 in the first trial by processing, (t,). [N]
        time: (t,). [s]
    """

    error: dict[str, float]
    model_error: dict[str, float]
    curves: dict[str, FloatArray]
    time: FloatArray


METHODS = {
    "rough data": Processing(method="raw"),
    "time domain": Processing(method="time"),
    "frequency domain": Processing(method="explicit"),
}


def prediction(study: Study, trials: int = 5, turns: int = 20, seed: int = 3000) -> Prediction:
    """Identify with three ways of processing and predict the same circle, itself processed in one
    way for all.
    """
    model, base = study.model, study.base
    held_out = prepare(model, [trial(study.tour, seed - 1, turns)], base).problem
    assert held_out.time is not None
    squares = {name: np.zeros(2) for name in METHODS}
    curves: dict[str, FloatArray] = {}
    for k in range(trials):
        log = trial(study.main, seed + k)
        average = prepare(model, [log], base).processed[0].average
        assert average is not None
        for name, processing in METHODS.items():
            problem = prepare(model, [log], base, processing=processing).problem
            estimate = GaussMarkov(covariance=average.effort_covariance, uncertainty="white").fit(
                problem
            )
            left = held_out.effort - estimate.predict(held_out)
            wrong = held_out.regressor @ (estimate.values - study.true)
            squares[name] += np.array([(left**2).mean(), (wrong**2).mean()]) / trials
            curves.setdefault(name, left[:, 0])
    return Prediction(
        error={name: float(np.sqrt(s[0])) for name, s in squares.items()},
        model_error={name: float(np.sqrt(s[1])) for name, s in squares.items()},
        curves=curves,
        time=held_out.time,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Likelihoods:
    """One trial by Gauss-Markov, by likelihood over the cut-off, and with the trajectory free."""

    markov: Estimate
    cutoff: CutoffResult
    full: LikelihoodResult


def likelihoods(study: Study, seed: int = 1) -> Likelihoods:
    """Estimate one trial in three ways."""
    ready = prepare(study.model, [trial(study.main, seed)], study.base)
    period = averaged_period(study.model, ready.processed, study.base)
    return Likelihoods(
        markov=GaussMarkov().fit(ready.problem),
        cutoff=cutoff_likelihood(period),
        full=full_likelihood(period, harmonics=HARMONICS),
    )


def bins_kept(
    study: Study,
    simulation: Simulation,
    seeds: Sequence[int],
    highest: int = 15,
    periods: int = PERIODS,
) -> list[tuple[int, int]]:
    """Return how many harmonics likelihood keeps in each trial, with Akaike's criterion and as
    printed.
    """
    found: list[tuple[int, int]] = []
    chosen: Processing | None = None
    for seed in seeds:
        ready = prepare(
            study.model, [trial(simulation, seed, periods)], study.base, processing=chosen
        )
        chosen = ready.processing
        result = cutoff_likelihood(
            averaged_period(study.model, ready.processed, study.base), max_bins=highest
        )
        printed = int(np.argmin(result.printed)) + 1
        found.append((int(np.argmin(result.aic)) + 1, printed))
    return found


def micro_motion(study: Study, simulation: Simulation) -> float:
    """Return the rms of the legs' motion that the platform's first five harmonics do not explain.

    [m]
    """
    model = study.model
    task = list(model.loops.partitions["task"].independent)
    pose = np.fft.rfft(simulation.q[0][:, task], axis=0)
    pose[HARMONICS + 1 :] = 0.0
    smooth = np.fft.irfft(pose, len(simulation.time), axis=0)
    legs = model.kinematics.close_loops(smooth, "task", start=simulation.q[0, 0])[
        :, list(model.actuated)
    ]
    return float(np.sqrt(((simulation.position[0] - legs) ** 2).mean()))


def design_ratio(study: Study, best: Fourier, rival: Fourier) -> FloatArray:
    """Return standard deviations of one design over those of another by their Cramer-Rao bounds,
    (24,).
    """
    noise = study.model.mechanism.noise.effort_covariance(len(study.model.actuated))
    stds = []
    for trajectory in (best, rival):
        factor = information_factor(study.model, [trajectory], study.base, covariance=noise)
        stds.append(np.linalg.norm(np.linalg.inv(factor), axis=1))
    return stds[0] / stds[1]
