"""Simulated seconds per second of computing under computed torque control at 1 kHz: python
benchmarks/simulation.py [--small]

One core. The peer is MuJoCo stepping the same robot with the same steps and no controller at all.
The largest closure error stands beside each figure: a fast robot whose legs come off would be
visible.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np

from gough.core.trajectory import Fourier
from gough.engine import Model
from gough.mechanism import load_robot
from gough.virtual import simulate
from gough.virtual.mujoco_plant import build_mujoco
from gough.virtual.plant import count_substeps, friction_rate

RATE = 1000.0  # [Hz]
REPEATED = 7  # pairs of runs behind the ratio, one after the other: both meet the same machine


def excitation(model: Model, period: float, reach: float) -> Fourier:
    """Return a fast periodic motion of the platform within a share of its range."""
    mechanism, names = model.mechanism, model.mechanism.task
    home = np.array([model.home[mechanism.coordinates.index(name)] for name in names])
    ranges = [mechanism.joint(name).limits.position or (-1.0, 1.0) for name in names]
    half = np.array([min(h - low, high - h) for h, (low, high) in zip(home, ranges)])
    mu = np.random.default_rng(0).uniform(-1, 1, (2, len(names)))
    mu *= reach * half * 2 * np.pi / period / np.abs(mu).sum(axis=0)
    return Fourier(
        coordinates=names,
        units=[mechanism.joint(name).unit for name in names],
        frequency=1 / period,
        offset=home,
        mu=mu,
        nu=np.zeros_like(mu),
    )


def measure_ours(
    model: Model, tour: Fourier, variants: int, periods: int
) -> tuple[float, float, float]:
    """Return simulated seconds per second for each robot, the loop error and the rms tracking
    error.
    """
    values = np.tile(model.standard_values(), (variants, 1))
    draws = 1 + 0.02 * np.random.default_rng(1).standard_normal(values.shape)
    simulate(model, tour, values=values * draws, lead_in=0, periods=1)  # compiles
    start = time.process_time()
    simulation = simulate(model, tour, values=values * draws, lead_in=0, periods=periods)
    spent = time.process_time() - start
    return (
        simulation.seconds / spent,
        float(simulation.loop_error.max()),
        float(simulation.tracking_rms.max()),
    )


def measure_mujoco(model: Model, step: float, seconds: float) -> tuple[float, float]:
    """Return simulated seconds per second of bare `mj_step` from home, holding efforts on, and the
    loop error.
    """
    robot = build_mujoco(model, model.mechanism.standard.values, np.zeros(10), step)
    data = mujoco.MjData(robot)  # at rest in the reference configuration
    still = np.zeros((1, model.degrees_of_freedom))
    data.ctrl[:] = model.bias(model.home[None], still)[0]
    count = round(seconds / step)
    worst = 0.0
    start = time.process_time()
    for _ in range(count):
        mujoco.mj_step(robot, data)
    spent = time.process_time() - start
    order = [model.mechanism.coordinates.index(robot.joint(j).name) for j in range(robot.njnt)]
    q = np.empty((1, len(model.home)))
    q[0, order] = data.qpos
    worst = float(model.kinematics.residual(q)[0])
    return count * step / spent, worst


def main(
    robots: Sequence[str] = ("palida", "orthoglide"),
    variants: Sequence[int] = (1, 8, 20, 64),
    repeated: int = REPEATED,
) -> None:
    """Print one line for each robot and number of variants, then the ratio to MuJoCo."""
    print(
        f"{'robot':12s}{'robots':>8s}{'steps/ms':>10s}{'x real time':>13s}{'robots x':>10s}{'loop error':>13s}"
        f"{'rms error':>12s}"
    )
    for name in robots:
        model = Model(load_robot(name))
        tour = excitation(model, 1.0, 0.7)
        run = simulate(model, tour, lead_in=0, periods=1)
        rate = friction_rate(
            model, model.standard_values()[None], np.zeros((1, 10)), run.dead_band, run.q[0, ::50]
        )
        substeps = count_substeps(rate, 1 / RATE)
        for count in variants:
            speed, loop, rms = measure_ours(model, tour, count, 2)
            print(
                f"{name:12s}{count:8d}{substeps:10d}{speed:13.2f}{speed * count:10.1f}{loop:12.1e}m{rms:11.1e}m"
            )
        for steps, word in ((substeps, "same"), (1, "one")):
            speed, loop = measure_mujoco(model, 1e-3 / steps, 1.0)
            print(
                f"  MuJoCo, {word + ' step':9s}{1:3d}{steps:8d}{speed:13.2f}{speed:10.1f}{loop:12.1e}m"
            )
        pairs = [
            (measure_ours(model, tour, 1, 2)[0], measure_mujoco(model, 1e-3 / substeps, 2.0)[0])
            for _ in range(repeated)
        ]
        ratios = [ours / theirs for ours, theirs in pairs]
        print(
            f"  one over MuJoCo with the same step: {np.median(ratios):.2f}, median of {repeated} "
            f"taken in turns "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    if "--small" in sys.argv:
        main(["five_bar"], [1, 2], 1)
    else:
        main()
