"""Boxes from positions known to a step of the encoder: how often the truth is outside, and what
they cost in width.

    python benchmarks/uncertain_positions.py [h4] [palida] [--logs 1000] [--first 0] [--exact 20]
    [--small]

Fifty motions of four harmonics, sampled 100 times a period; encoders with steps and random zeros;
efforts off by less than a bound. Efforts of the H4 come from its closed form, those of the PaLiDA
from Pinocchio (tests/enclosed_logs.py). Each log: verified forward kinematics of the whole period,
enclosed velocities and accelerations, interval regressor of some samples, preconditioned
Gauss-Seidel. The first logs also get the exact box, with and without exact kinematics.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from gough import Model, load_robot
from gough.bounding.prior import default_prior
from gough.bounding.solve import BoundedProblem, ExactBox, GaussSeidel
from gough.bounding.uncertain_regressor import harmonic_motion
from gough.core.arrays import frozen
from gough.core.intervals import Interval
from gough.engine import base_parameters
from gough.engine.columns import column_names
from gough.engine.enclosure import closed_box, regressor_box

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))
from enclosed_logs import COUNT, FREQUENCY, HARMONICS, RATE, TIME, h4_truth, pinocchio_truth
from tests_support import fourier

EVERY, MOTIONS, BATCH = 4, 50, 50  # of the truth's samples; of the truths; logs enclosed together
CASES = {
    "h4": (2 * np.pi / 20000, 0.3, 12),
    "palida": (1e-5, 4.0, 12),
}  # step, effort error, samples of a log used


def study(name: str, logs: range, exact: int) -> None:
    """Print how many logs miss the truth, and the widths beside exact kinematics."""
    step, error, used = CASES[name]
    model = Model(load_robot(name))
    base = base_parameters(model, tie_legs=True)
    truth = base.values(model.values(base.standard))
    make = h4_truth if name == "h4" else pinocchio_truth
    own, count = list(model.loops.partitions["task"].independent), COUNT // EVERY
    truths = {
        k: tuple(x[::EVERY] for x in make(k, model)) for k in sorted({k % MOTIONS for k in logs})
    }
    prior = [default_prior(model, base)[n] for n in base.names]
    start, outside, missed, narrowed, ratios = perf_counter(), 0, 0, [], []
    for first in range(logs.start, logs.stop, BATCH):
        seeds = range(first, min(first + BATCH, logs.stop))
        rngs = [np.random.default_rng([seed, 7]) for seed in seeds]
        zero = [rng.uniform(0, step, len(model.actuated)) for rng in rngs]
        seen = np.concatenate(
            [step * np.round((truths[s % MOTIONS][0] + z) / step) - z for s, z in zip(seeds, zero)]
        )
        near = model.kinematics.close_loops(seen)
        closed = closed_box(model, "actuated", Interval.around(seen, step / 2), near)[:, own]
        each = [
            harmonic_motion(closed[k * count : (k + 1) * count], RATE / EVERY, HARMONICS)
            for k in range(len(seeds))
        ]
        keep = [np.sort(rng.choice(count, used, replace=False)) for rng in rngs]
        chosen = tuple(
            Interval(
                *(
                    np.concatenate([getattr(m[d], side)[k] for m, k in zip(each, keep)])
                    for side in ("lower", "upper")
                )
            )
            for d in range(3)
        )
        places = np.concatenate([i * count + k for i, k in enumerate(keep)])
        W = regressor_box(
            model, column_names(base), "task", chosen, near[places], np.zeros(len(model.home))
        )
        for i, (seed, rng) in enumerate(zip(seeds, rngs)):
            part, right = slice(i * used, (i + 1) * used), truths[seed % MOTIONS][1][keep[i]]
            effort = right + rng.uniform(-error, error, right.shape)
            low, high = W.lower[part], W.upper[part]
            ends = np.stack([low * truth, high * truth])
            gap = np.maximum(
                ends.min(axis=0).sum(axis=-1) - effort, effort - ends.max(axis=0).sum(axis=-1)
            )
            outside += int((gap > error).any())
            problem = BoundedProblem(
                regressor_lower=low,
                regressor_upper=high,
                effort=effort,
                error_bound=np.array(error),
                prior_lower=np.array([p[0] for p in prior]),
                prior_upper=np.array([p[1] for p in prior]),
                rows=model.rows,
                row_units=model.row_units,
                parameters=base.names,
                units=base.units,
            )
            box = GaussSeidel().fit(problem)
            missed += not box.contains(truth)
            if seed < exact:
                path = fourier(model, 0.5, FREQUENCY, seed=seed % MOTIONS, harmonics=HARMONICS)
                motion = model.kinematics.motion(TIME, *path.at(TIME), "task").take(EVERY * keep[i])
                known = frozen(model.regressor(motion, base))
                boxes = [
                    ExactBox().fit(p)
                    for p in (
                        problem,
                        replace(problem, regressor_lower=known, regressor_upper=known),
                    )
                ]
                missed += not all(b.contains(truth) for b in boxes)
                ratios.append(boxes[0].width / boxes[1].width)
                narrowed.append(
                    np.median(boxes[0].width / (problem.prior_upper - problem.prior_lower))
                )
    print(
        f"{name}: {len(logs)} logs of {used} samples, steps of {step:.3g} m or rad, efforts within "
        f"{error} N or N m, "
        f"{perf_counter() - start:.0f} s"
    )
    print(f"  truth infeasible in {outside}, outside the box in {missed}")
    if ratios:
        print(
            f"  exact box over that of exact kinematics: median {np.median(ratios):.3f}, worst "
            f"parameter "
            f"{np.max(ratios):.2f}; over the prior {np.median(narrowed):.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("robots", nargs="*", default=list(CASES))
    for option, usual in (("--logs", 1000), ("--first", 0), ("--exact", 20)):
        parser.add_argument(option, type=int, default=usual)
    parser.add_argument("--small", action="store_true", help="two logs of the H4")
    given = parser.parse_args()
    if given.small:
        given.robots = ["h4"]
        given.logs = 2
        given.exact = 1
    for robot in given.robots:
        study(robot, range(given.first, given.first + given.logs), given.exact)
