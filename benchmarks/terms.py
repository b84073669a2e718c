"""Joint terms by expression, constants that are not linear: python benchmarks/terms.py [--seeds 30] [--small]

1. The regressor with terms by expression against the same terms written by hand as CasADi
expressions, per sample.
2. Coverage of 95 % intervals of constants and of their terms' coefficients, on five_bar and palida
with Stribeck
   friction and ripple, and the cost of the search beside the linear fit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import casadi as ca
import numpy as np

from gough.engine import Model, base_parameters, random_motion
from gough.engine.columns import column_names
from gough.engine.symbolic import TreeEfforts
from gough.fitting.least_squares import GaussMarkov
from gough.identification import prepare
from gough.identification.constants import fit_constants, with_constants
from gough.mechanism import load_robot, parse_robot, robot_text
from gough.virtual import record, simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tests_support import fourier

HAND: dict[str, Callable[[TreeEfforts, int], ca.SX | float]] = {
    "ia": lambda tree, i: tree.qdd[i],
    "fv": lambda tree, i: tree.qd[i],
    "fs": lambda tree, i: tree.sign[i],
    "off": lambda tree, i: 1.0,
    "k": lambda tree, i: tree.q[i],
}
# Robot, words of its motors' terms and values, amplitudes, true constants and where they are
# sought.
ROBOTS = {
    "five_bar": ('terms = ["ia", "fv", "fs"]', 'fs = "$fs" }', 0.5, 0.2, "rad/s", 0.3, "rad", 0.12),
    "palida": ('terms = ["fv", "fs"]', 'fs = "$fs" }', 8.0, 4.0, "m/s", 0.05, "m", 0.02),
}


class Handwritten(TreeEfforts):
    """Terms as they were written before they were expressions."""

    def _term(self, i: int, name: str) -> ca.SX | float:
        return HAND[name](self, i)


def speed(
    samples: int = 20000, repeats: int = 40, robots: Sequence[str] = ("five_bar", "palida", "upv")
) -> list[str]:
    lines = []
    for name in robots:
        models, values = [Model(load_robot(name)) for _ in range(2)], []
        base, motion = base_parameters(models[0]), random_motion(models[0], 2000)
        motion = motion.take(np.resize(np.arange(len(motion)), samples))
        for tree, model in zip((Handwritten, TreeEfforts), models):
            with mock.patch(
                "gough.engine.model.TreeEfforts", tree
            ):  # kernels are built at the first call
                values.append(model.regressor(motion, base))
        times: list[list[float]] = [[], []]
        for _ in range(repeats):
            for model, own in zip(models, times):
                began = time.perf_counter()
                model.regressor(motion, base)
                own.append(time.perf_counter() - began)
        old, new = (1e6 * np.median(own) / samples for own in times)
        ratio, apart = (
            np.median(np.array(times[1]) / np.array(times[0])),
            np.abs(values[0] - values[1]).max(),
        )
        count = [model.regressor_kernel(column_names(base)).operations for model in models]
        lines.append(
            f"{name:10s} by hand {old:6.3f} us, {count[0]} operations; by expression {new:6.3f} "
            f"us, "
            f"{count[1]}; median ratio {ratio:.3f}, largest difference {apart:.1e}"
        )
    return lines


def robot(name: str, *, free: bool) -> Model:
    words, head, stribeck, ripple, speed_unit, true_speed, unit, pitch = ROBOTS[name]
    text = robot_text(name)[0]
    assert words in text
    text = text.replace(words, words.replace("]", ', "stribeck", "ripple"]'))
    extra = f"stribeck = {stribeck}, ripple_sin = {ripple}, ripple_cos = {ripple / 2}"
    text = text.replace(head, f'fs = "$fs", {extra} }}')
    if free:
        constants = [
            f'{{ start = "{2 * true_speed} {speed_unit}", low = "{true_speed / 10} {speed_unit}", '
            f'high = "{10 * true_speed} {speed_unit}" }}',
            f'{{ start = "{1.3 * pitch} {unit}", low = "{0.6 * pitch} {unit}", '
            f'high = "{1.6 * pitch} {unit}" }}',
        ]
    else:
        constants = [f'"{true_speed} {speed_unit}"', f'"{pitch} {unit}"']
    return Model(
        parse_robot(
            text
            + f"""
[[term]]
name = "stribeck"
constants = {{ speed = {constants[0]} }}

[[term]]
name = "ripple"
constants = {{ pitch = {constants[1]} }}
""",
            f"{name}.toml",
        )
    )


def coverage(name: str, seeds: int, first: int) -> str:
    true, model = robot(name, free=False), robot(name, free=True)
    truth = {key: constant.value for key, constant in true.mechanism.constants.items()}
    simulation = simulate(true, fourier(true, 0.4, 0.5, harmonics=5), periods=4)
    base, inside, linear, search = base_parameters(model), [], 0.0, 0.0
    for seed in range(first, first + seeds):
        log = record(simulation, seed=[7, seed])
        start = prepare(model, [log], base)
        began = time.perf_counter()
        values = fit_constants(start)
        search += time.perf_counter() - began
        again = Model(model.mechanism.with_constants(values))
        experiment = prepare(again, [log], base, processing=start.processing)
        began = time.perf_counter()
        plain = GaussMarkov().fit(experiment.problem)
        linear += time.perf_counter() - began
        made, found = with_constants(
            experiment, experiment.problem, {"gm": GaussMarkov()}, {"gm": plain}, values
        )
        freedom = float(np.median(plain.degrees_of_freedom))
        reach = 1.96 + 2.4 / max(freedom, 1.0)
        inside += [abs(found.values[key] - truth[key]) < reach * found.std[key] for key in truth]
        names = [n for n in plain.parameters if n.kind in ("stribeck", "ripple_sin", "ripple_cos")]
        bounds = made["gm"].select(names).interval()
        inside += [
            low <= true.mechanism.standard[n] <= high for n, (low, high) in zip(names, bounds)
        ]
    return (
        f"{name:10s} {100 * np.mean(inside):.1f} % of {len(inside)} intervals hold the truth "
        f"({seeds} seeds); "
        f"search {1e3 * search / seeds:.0f} ms beside {1e3 * linear / seeds:.0f} ms of the linear "
        f"fit"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument(
        "--first", type=int, default=0, help="seed to begin with, to share the work"
    )
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS))
    parser.add_argument("--small", action="store_true", help="one seed of the five-bar")
    asked = parser.parse_args()
    if asked.small:
        asked.seeds = 1
        asked.robots = ["five_bar"]
    if not asked.first:
        lines = speed(500, 2, ["five_bar"]) if asked.small else speed()
        print(*lines, sep="\n", flush=True)
    for each in asked.robots:
        print(coverage(each, asked.seeds, asked.first), flush=True)
