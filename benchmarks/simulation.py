"""Speed and accuracy of the virtual robot beside MuJoCo, both at steps of a millisecond: python
benchmarks/simulation.py [--small]

One core. Our robot runs under computed torque control at 1 kHz and has its friction; the peer is
bare `mj_step` of the same robot, without controller and friction. Both figures are without preparation,
and ours stands beside it with that. The largest closure error stands
beside each figure: a fast robot whose legs come off would be visible.

Errors are those of positions over 0.2 s under the same motor efforts, held for a millisecond each,
against steps of 1/64 ms of ours. Without friction both solve the same equations. With it MuJoCo has
its own dry friction (`frictionloss`), whose softness is part of its error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np

from gough.core.arrays import FloatArray
from gough.core.trajectory import Fourier
from gough.engine import Model
from gough.mechanism import load_robot
from gough.virtual import GoughPlant, PlantSettings, Simulation, simulate
from gough.virtual.mujoco_plant import build_mujoco

STEP = 1e-3  # of the controller and of both integrators [s]
FINE_STEPS = 64  # of the reference in a millisecond
COMPARED_SAMPLES = 200  # of the motions that are compared
REPEATED = 7  # pairs of runs behind the ratio, one after the other: both meet the same machine
SECONDS = 10  # simulated in each of them


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


class Speed(NamedTuple):
    """Simulated seconds per second of computing, and errors."""

    steps: float  # of the loop alone, without the preparation of a run
    whole: float  # of runs, reference motion and its checks included
    loop_error: float  # [m]
    tracking_rms: float  # [m]


def measure_ours(model: Model, tour: Fourier, variants: int, periods: int) -> Speed:
    """Return the speed for each of some robots that differ in their parameters.

    What a second takes without preparation is the difference between a long and a short run.
    """
    values = np.tile(model.standard_values(), (variants, 1))
    draws = 1 + 0.02 * np.random.default_rng(1).standard_normal(values.shape)
    seconds = []
    for count in (1, 1, periods + 1):  # the first one compiles
        start = time.process_time()
        simulation = simulate(
            model, tour, values=values * draws, lead_in=0, periods=count, rate=1 / STEP
        )
        seconds.append(time.process_time() - start)
    return Speed(
        steps=periods / (seconds[2] - seconds[1]),
        whole=simulation.seconds / seconds[2],
        loop_error=float(simulation.loop_error.max()),
        tracking_rms=float(simulation.tracking_rms.max()),
    )


def measure_mujoco(model: Model, seconds: float) -> tuple[float, float]:
    """Return simulated seconds per second of bare `mj_step` from home, holding efforts on, and the
    loop error.
    """
    robot = build_mujoco(model, model.standard_values(), model.load(), STEP)
    data = mujoco.MjData(robot)  # at rest in the reference configuration
    still = np.zeros((1, model.degrees_of_freedom))
    data.ctrl[:] = model.bias(model.home[None], still)[0]
    count = round(seconds / STEP)
    start = time.process_time()
    for _ in range(count):
        mujoco.mj_step(robot, data)
    spent = time.process_time() - start
    q = model.home[None].copy()
    q[0, coordinates_of(model, robot)] = data.qpos
    return count * STEP / spent, float(model.kinematics.residual(q)[0])


def coordinates_of(model: Model, robot: Any) -> list[int]:
    """Return the index of our coordinate of each joint of MuJoCo's."""
    names = [robot.joint(j).name for j in range(robot.njnt)]
    return [model.mechanism.coordinates.index(name) for name in names]


def move_ours(run: Simulation, values: FloatArray, substeps: int) -> FloatArray:
    """Return the positions under the efforts of a run, (t, n)."""
    model = run.model
    settings = PlantSettings(
        model=model,
        values=values[None],
        load=model.load()[None],
        dead_band=run.dead_band,
        period=STEP,
        substeps=substeps,
    )
    plant = GoughPlant(settings)
    state = plant.start(run.q[:, 0], run.motion().qd[:1])
    positions = []
    for effort in run.effort[0, :COMPARED_SAMPLES]:
        held = np.broadcast_to(effort, (2 * substeps + 1, 1, len(effort)))
        sample, state = plant.step(state, held)
        positions.append(sample.q[0])
    return np.array(positions)


def move_mujoco(run: Simulation, values: FloatArray) -> FloatArray:
    """Return the positions under the efforts of a run, (t, n)."""
    model = run.model
    robot = build_mujoco(model, values, model.load(), STEP)
    order = coordinates_of(model, robot)
    parameters = dict(zip(model.mechanism.standard.names, values.tolist()))
    for j, coordinate in enumerate(order):
        name = model.mechanism.coordinates[coordinate]
        robot.dof_frictionloss[j] = parameters.get(f"{name}.fs", 0.0)
        robot.dof_damping[j] = parameters.get(f"{name}.fv", 0.0)
    data = mujoco.MjData(robot)
    data.qpos[:] = run.q[0, 0, order]
    data.qvel[:] = run.motion().qd[0, order]
    positions = []
    for effort in run.effort[0, :COMPARED_SAMPLES]:
        position = run.q[0, 0].copy()
        position[order] = data.qpos
        positions.append(position)
        data.ctrl[:] = effort
        mujoco.mj_step(robot, data)
    return np.array(positions)


def compare_errors(model: Model, tour: Fourier, friction: bool) -> tuple[float, float]:
    """Return the errors of our positions and MuJoCo's at equal steps. [m or rad]"""
    kinds = [name.rpartition(".")[2] for name in model.mechanism.standard.names]
    is_friction = np.isin(kinds, ["fs", "fv"])
    values = np.where(is_friction & (not friction), 0.0, model.standard_values())
    run = simulate(model, tour, values=values, lead_in=0, periods=1, rate=1 / STEP)
    reference = move_ours(run, values, FINE_STEPS)
    ours = np.abs(move_ours(run, values, 1) - reference)
    theirs = np.abs(move_mujoco(run, values) - reference)
    return float(ours.max()), float(theirs.max())


def main(
    robots: Sequence[str] = ("palida", "orthoglide"),
    variants: Sequence[int] = (1, 8, 20, 64),
    repeated: int = REPEATED,
    seconds: int = SECONDS,
) -> None:
    """Print one line for each robot and number of variants, then ratio and errors."""
    print(
        f"{'robot':12s}{'robots':>8s}{'x real time':>13s}{'robots x':>10s}{'whole runs':>12s}"
        f"{'loop error':>13s}{'rms error':>12s}"
    )
    for name in robots:
        model = Model(load_robot(name))
        tour = excitation(model, 1.0, 0.7)
        for count in variants:
            ours = measure_ours(model, tour, count, seconds if count == 1 else 2)
            print(
                f"{name:12s}{count:8d}{ours.steps:13.2f}{ours.steps * count:10.1f}"
                f"{ours.whole:12.2f}{ours.loop_error:12.1e}m{ours.tracking_rms:11.1e}m"
            )
        speed, loop = measure_mujoco(model, float(seconds))
        print(f"{'  MuJoCo':12s}{1:8d}{speed:13.2f}{speed:10.1f}{'':12s}{loop:12.1e}m")
        ratios = []
        whole_ratios = []
        for _ in range(repeated):
            ours = measure_ours(model, tour, 1, seconds)
            theirs = measure_mujoco(model, float(seconds))[0]
            ratios.append(ours.steps / theirs)
            whole_ratios.append(ours.whole / theirs)
        print(
            f"  one robot over MuJoCo at the same step: {np.median(ratios):.2f}, median of "
            f"{repeated} taken in turns ({min(ratios):.2f} to {max(ratios):.2f}); "
            f"whole runs {np.median(whole_ratios):.2f}"
        )
        for friction, word in ((False, "without friction"), (True, "with friction")):
            own_error, peer_error = compare_errors(model, tour, friction)
            print(f"  error after 0.2 s {word}: ours {own_error:.1e}, MuJoCo {peer_error:.1e}")


if __name__ == "__main__":
    if "--small" in sys.argv:
        main(["five_bar"], [1, 2], 1, 1)
    else:
        main()
