"""AH09 Figs. 2, 4, 5 and 6 and the bias of Table II over ten designs, with the sensors' noise in
the loop.

    python examples/palida_figures.py [--designs 10] [--first 0] [--trials 5] [--json]

One lucky trajectory proves little. Here every design starts from a seed of its own, the PID sees
measured positions (noise of the robot file, velocities by differences), so that errors of positions
and forces correlate, and each of the paper's conclusions is asked again:

Fig. 2  The Fourier fit with a fundamental 0.1 % off leaks; the explicit filter does not (errors of
the acceleration). Fig. 4  Models from frequency-filtered data predict a circle better than those
from time-filtered and rough data. With
        noise in the loop only if both sides of the equation are low-passed alike: the loop makes
        blue noise of the forces, time-domain processing low-passes forces and regressor in
        parallel, the paper's leaves forces alone.
Fig. 5  The D-optimal trajectory gives smaller standard deviations than that of smallest condition
number. Fig. 6  As feed-forward on the circle the identified model tracks better than the a-priori
one, and that than none. Table II  Gauss-Markov's 95 % intervals hold the truth although the loop
feeds noise back.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from measured_feedback import MeasuredFeedback
from palida_control import errors
from palida_experiment import (
    BANDWIDTH,
    HARMONICS,
    PERIODS,
    a_priori,
    benchmark,
    excitation,
    parameters,
    truth,
)
from palida_studies import METHODS, geometric
from spectra import compare_spectra

from gough import Model, Simulation, load_robot, record, simulate
from gough.core.arrays import FloatArray
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Fourier
from gough.engine import standard_from_base
from gough.fitting.least_squares import GaussMarkov
from gough.identification import prepare
from gough.mechanism.types import Noise
from gough.virtual import PID, RobotModel

SPEEDS = (0.35, 0.7)  # of the circle [m/s]
MISTUNED = 1.001  # fundamental frequency the Fourier fit is told, over the real one
SHOWN = {
    "Fig. 2": "mistuned Fourier fit / explicit filter, error of the acceleration",
    "Fig. 4 time": "time / frequency domain, error of the predicted forces",
    "Fig. 4 alike": "time / frequency domain, forces and regressor low-passed at the edge of the "
    "former",
    "Fig. 4 raw": "rough data / frequency domain",
    "Fig. 5": "condition number / D-optimal, standard deviations",
    "Fig. 6 model": "a-priori / identified model, mean square error of tracking",
    "Fig. 6 none": "no model / a-priori model, at the higher speed",
}


def loop_noise(model: Model, seed: int) -> MeasuredFeedback:
    """Return the position sensors as the controller sees them."""
    return MeasuredFeedback(
        noise=Noise(position=model.mechanism.noise.position), cutoff=500.0, seed=seed
    )


def run(model: Model, path: Fourier, values: FloatArray, trials: int, seed: int) -> Simulation:
    """Run trials side by side under PID with feed-forward, each with sensor noise of its own in the
    loop.
    """
    law = PID(bandwidth=BANDWIDTH, feedforward=RobotModel(model=model, values=values))
    return simulate(
        model,
        path,
        controller=law,
        periods=PERIODS,
        feedback=loop_noise(model, seed),
        values=np.tile(model.standard_values(), (trials, 1)),
    )


def estimates(
    model: Model, base: BaseParameters, done: Simulation, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Markov values and whether the 95 % intervals hold the truth, (trials, 24)
    each.
    """
    processing, values, inside, true = None, [], [], truth(model, base)
    for k in range(done.n_variants):
        ready = prepare(
            model, [record(done, seed=[seed, k], variant=k)], base, processing=processing
        )
        processing = ready.processing
        found = GaussMarkov().fit(ready.problem)
        low, high = found.interval(0.95).T
        values.append(found.values)
        inside.append((low <= true) & (true <= high))
    return np.array(values), np.array(inside)


def leakage(model: Model, done: Simulation, seed: int) -> float:
    """Fig. 2: error of the mistuned fit's acceleration over that of the explicit filter, rms over
    translations.
    """
    log, task = record(done, seed=[seed, 0]), list(model.loops.partitions["task"].independent)
    pose = model.kinematics.close_loops(log.position, time=log.time)[:, task[:3]]
    rate, count = 1000.0, done.period_samples or 0
    spectra = compare_spectra(pose, rate, count, MISTUNED * rate / count, HARMONICS)
    right = compare_spectra(done.q[0][:, task[:3]], rate, count, rate / count, HARMONICS).explicit[
        2
    ]
    wrong = [np.sqrt(((x[2] - right) ** 2).mean()) for x in (spectra.implicit, spectra.explicit)]
    return float(wrong[0] / wrong[1])


def prediction(model: Model, base: BaseParameters, done: Simulation, seed: int) -> dict[str, float]:
    """Fig. 4: rms error of the forces predicted on the circle, by processing. [N]"""
    path, log = benchmark(model, SPEEDS[0]), record(done, seed=[seed, 0])
    time = np.arange(0, 1 / path.frequency, 0.01)
    circle = model.regressor(model.kinematics.motion(time, *path.at(time), "task"), base)
    covariance = model.mechanism.noise.effort_covariance(len(model.actuated))
    ready = {
        name: prepare(model, [log], base, processing=processing)
        for name, processing in METHODS.items()
    }
    problems = {name: one.problem for name, one in ready.items()}
    mean, edge = ready["frequency domain"].processed[0], ready["time domain"].processing.cutoff
    regressor = model.regressor(mean.motion, base, dead_band=mean.dead_band)
    both = np.concatenate([regressor, mean.effort[:, :, None]], axis=2)
    waves = np.fft.rfft(both, axis=0)
    waves[np.fft.rfftfreq(len(both), 1e-3) > edge] = 0.0
    both = np.fft.irfft(waves, len(both), axis=0)
    problems["low-passed"] = replace(
        problems["frequency domain"],
        regressor=both[:, :, :-1],
        effort=both[:, :, -1],
        mask=None,
        replicates=None,
    )
    return {
        name: float(
            np.sqrt(
                (
                    (
                        circle
                        @ (
                            GaussMarkov(covariance=covariance, uncertainty="white").fit(one).values
                            - truth(model, base)
                        )
                    )
                    ** 2
                ).mean()
            )
        )
        for name, one in problems.items()
    }


def design_case(model: Model, seed: int, trials: int) -> dict[str, Any]:
    """Return what one pair of designs says about each figure."""
    base = parameters(model)
    best, rival = excitation(model, "d", seed), excitation(model, "cond", seed)
    first = run(model, best, a_priori(model, base), 1, 10 * seed)
    known = standard_from_base(model, base, estimates(model, base, first, seed)[0][0])[0]
    ours, theirs = (
        run(model, path, known, trials, 10 * seed + 1 + k) for k, path in enumerate((best, rival))
    )
    (values, inside), (others, _) = (estimates(model, base, done, seed) for done in (ours, theirs))
    guess = prediction(model, base, ours, seed)
    models = {
        "true": model.standard_values(),
        "a priori": a_priori(model, base),
        "identified": known,
    }
    tracking = errors(model, SPEEDS, models, feedback=loop_noise(model, 10 * seed + 3))
    return {
        "Fig. 2": leakage(model, ours, seed),
        "Fig. 4 time": guess["time domain"] / guess["frequency domain"],
        "Fig. 4 alike": guess["time domain"] / guess["low-passed"],
        "Fig. 4 raw": guess["rough data"] / guess["frequency domain"],
        "Fig. 5": geometric(others.std(axis=0, ddof=1) / values.std(axis=0, ddof=1)),
        "Fig. 6 model": min(
            a / b for a, b in zip(tracking["a-priori model"], tracking["identified model"])
        ),
        "Fig. 6 none": tracking["no model"][-1] / tracking["a-priori model"][-1],
        "coverage": float(inside.mean()),
        "bias": float(
            np.sqrt(
                np.mean(
                    trials
                    * (values.mean(axis=0) - truth(model, base)) ** 2
                    / values.var(axis=0, ddof=1)
                )
            )
        ),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many designs bear each conclusion out."""
    lines = [f"{len(rows)} designs, noise in the loop: ratio above 1 bears the paper out"]
    for name, text in SHOWN.items():
        ratios = np.array([row[name] for row in rows])
        lines.append(
            f"{name:13s}{(ratios > 1).sum():3d} of {len(rows)}   median {np.median(ratios):8.2f}, "
            f"least "
            f"{ratios.min():6.2f}   {text}"
        )
    lines.append(
        f"Table II     95 % intervals hold the truth in "
        f"{100 * np.mean([r['coverage'] for r in rows]):.1f} %; "
        f"mean errors over what chance explains {np.median([r['bias'] for r in rows]):.2f}"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("--designs", 10), ("--first", 0), ("--trials", 5)):
        parser.add_argument(name, type=int, default=usual)
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    model = Model(load_robot("palida"))
    rows = [
        design_case(model, seed, chosen.trials)
        for seed in range(chosen.first, chosen.first + chosen.designs)
    ]
    print(json.dumps(rows, indent=1) if chosen.json else summary(rows))


if __name__ == "__main__":
    main()
