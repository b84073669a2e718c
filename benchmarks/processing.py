"""Choosing a processing beside doing it once, on a minute and a long log; a million samples
streamed and in memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gough.engine import Model, base_parameters
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.regression import block_statistics
from gough.logs.recording import Recording
from gough.mechanism import load_robot
from gough.processing import choose_processing, log_statistics, process, regression

RATE = 1000.0
CASES = (("five_bar", 60.0), ("serial6", 60.0), ("palida", 60.0), ("palida", 1000.0))


def wandering(model: Model, seconds: float, seed: int = 0) -> Recording:
    """A log of a motion that does not repeat, ten waves up to 1 Hz in each coordinate, with the
    robot file's noise.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    motors = list(model.actuated)
    by = "task" if "task" in model.loops.partitions else "actuated"
    driven = list(model.loops.partitions[by].independent)
    reach = np.array(
        [0.03 if model.mechanism.joints[i].kind == "prismatic" else 0.15 for i in driven]
    )
    f, phase = rng.uniform(0.05, 1.0, (10, len(reach))), rng.uniform(0, 6, (10, len(reach)))
    w = 2 * np.pi * f
    position, velocity, acceleration = (np.zeros((len(t), len(reach))) for _ in range(3))
    for k in range(10):
        angle = t[:, None] * w[k] + phase[k]
        position += reach / 3 * np.sin(angle)
        velocity += reach / 3 * w[k] * np.cos(angle)
        acceleration -= reach / 3 * w[k] ** 2 * np.sin(angle)
    motion = model.kinematics.motion(t, model.home[driven] + position, velocity, acceleration, by)
    noise = model.mechanism.noise
    effort = model.inverse_dynamics(motion) + (noise.effort or 1.0) * rng.standard_normal(
        (len(t), len(motors))
    )
    seen = motion.q[:, motors] + (noise.position or 1e-5) * rng.standard_normal(
        (len(t), len(motors))
    )
    return Recording(
        joints=model.mechanism.actuated,
        time=t,
        position=seen,
        effort=effort,
        source=f"{seconds:g} s",
        position_units=tuple(model.mechanism.joints[i].unit for i in motors),
    )


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest of three times, and what came out."""
    times, made = [], None
    for _ in range(3):
        started = time.perf_counter()
        made = work()
        times.append(time.perf_counter() - started)
    return min(times), made


def main(
    cases: Sequence[tuple[str, float]] = CASES, long: float = 1000.0
) -> list[tuple[str, str, str, str]]:
    """Return rows: what, choosing, processing once, remark."""
    rows = []
    for name, length in cases:
        model = Model(load_robot(name))
        base, log = base_parameters(model), wandering(model, length)
        choice = choose_processing(model, [log], base)  # kernels loaded
        chosen = choice.processing
        choosing, _ = seconds_of(lambda m=model, x=log, b=base: choose_processing(m, [x], b))
        doing, _ = seconds_of(lambda m=model, x=log, b=base, c=chosen: log_statistics(m, [x], b, c))
        rows.append(
            (
                f"{name}, {length:g} s at 1 kHz, {len(base.names)} parameters",
                f"{choosing:.2f} s",
                f"{doing:.2f} s",
                f"ratio {choosing / doing:.1f}; {len(choice.cutoffs)} cut-offs and "
                f"{len(choice.windows)} windows tried, {chosen.cutoff:.3g} Hz, decimation "
                f"{chosen.decimation}",
            )
        )
    model = Model(load_robot("five_bar"))
    base, log = base_parameters(model), wandering(model, long)
    chosen = choose_processing(model, [log], base).processing
    streamed = WeightedLeastSquares().fit(log_statistics(model, [log], base, chosen))
    memory = WeightedLeastSquares().fit(
        block_statistics([regression(model, process(model, log, chosen), base)])
    )
    apart = np.abs(streamed.values - memory.values) / memory.std
    rows.append(
        (
            f"five_bar, {len(log):,} samples streamed and in memory",
            f"values within {apart.max():.1e} sigma",
            f"sigmas within {np.abs(streamed.std / memory.std - 1).max():.1e}",
            "-",
        )
    )
    return rows


if __name__ == "__main__":
    sizes = ([("five_bar", 5.0)], 20.0) if "--small" in sys.argv else ()
    for row in main(*sizes):
        print(" | ".join(row), flush=True)
