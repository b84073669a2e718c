"""Full maximum likelihood on PaLiDA under small and large position noise, beside Gauss-Markov and
the bound.

    python examples/palida_likelihood.py [--seeds 20] [--noise 30 300 1000] [--json]

AH09 calls maximum likelihood with the trajectory free inhibited for lack of gradients. Here the
virtual robot's D-optimal run is recorded with position noise of 30, 300 and 1000 um a leg and both
estimators identify the 24 parameters. Errors are over the errors-in-variables bound: no unbiased
estimator can do better than 1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from palida_experiment import HARMONICS, excitation, parameters, trial, truth, tuned

from gough import Model, Processing, Simulation, load_robot
from gough.core.errors import GoughError
from gough.fitting.least_squares import GaussMarkov
from gough.identification import prepare
from gough.identification.likelihood import averaged_period, full_likelihood


def compared(model: Model, run: Simulation, size: float, seeds: int) -> dict[str, Any]:
    """Return how often full likelihood converges, and rms errors of both over the bound."""
    base = parameters(model)
    true, cutoff = truth(model, base), HARMONICS * 1000 / len(run.time)
    noisy = replace(run.model.mechanism.noise, position=size)
    off: dict[str, list[np.ndarray]] = {"full": [], "markov": [], "expected": []}
    steps, failed = [], []
    for seed in range(seeds):
        log = trial(run, seed, noise=noisy)
        ready = prepare(model, [log], base, processing=Processing(cutoff=cutoff))
        try:
            found = full_likelihood(
                averaged_period(model, ready.processed, base), harmonics=HARMONICS
            )
        except GoughError as error:
            failed.append(str(error))
            continue
        steps.append(found.iterations)
        off["full"].append((found.estimate.values - true) / found.bound)
        off["markov"].append(
            (GaussMarkov(uncertainty="white").fit(ready.problem).values - true) / found.bound
        )
        off["expected"].append(found.std_on_fitted_trajectory / found.bound)
    rms = {
        name: float(np.sqrt(np.mean(np.square(rows)))) if rows else np.nan
        for name, rows in off.items()
    }
    return {
        "noise": size,
        "converged": len(steps),
        "of": seeds,
        "steps": max(steps, default=0),
        "failed": failed,
        **rms,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="recordings at each noise")
    parser.add_argument(
        "--noise", type=float, nargs="+", default=[30, 300, 1000], help="of the positions [um]"
    )
    parser.add_argument("--json", action="store_true", help="print numbers for machines")
    chosen = parser.parse_args(arguments)
    model = Model(load_robot("palida"))
    runs, _ = tuned(model, parameters(model), excitation(model, "d"))
    rows = [compared(model, runs[-1], 1e-6 * size, chosen.seeds) for size in chosen.noise]
    if chosen.json:
        print(json.dumps(rows, indent=1))
        return
    print("rms error over the errors-in-variables bound, 24 parameters")
    print("noise [um]   converged  most steps   full ML  Gauss-Markov  foreseen")
    for row in rows:
        print(
            f"{1e6 * row['noise']:10.0f}{row['converged']:6d} of "
            f"{row['of']:2d}{row['steps']:12d}{row['full']:10.2f}"
            f"{row['markov']:14.2f}{row['expected']:10.2f}"
        )
        for text in row["failed"]:
            print(f"  {text}")


if __name__ == "__main__":
    main()
