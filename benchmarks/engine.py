"""The regressor of a hexapod in actuated coordinates, beside Pinocchio's tree regressor with NumPy
around it.

The peer gets the closure Jacobian from our kernel for free, solves all closures in one batched
NumPy call, loops over samples only for Pinocchio's regressor, and projects in one batched product
onto the same base columns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pinocchio as pin

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))
from pin_tree import tree

from gough.core.motion import Motion
from gough.core.names import INERTIAL, Parameter
from gough.engine import Model, base_parameters, random_motion
from gough.engine.columns import column_names
from gough.mechanism import load_robot


def best(run, repeats: int = 5) -> float:
    """Return the shortest time of several runs. [s]"""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def smooth_motion(model: Model, samples: int) -> Motion:
    t = np.arange(samples) * 1e-3
    pose = np.repeat(model.home[None, :6], samples, axis=0)
    speed, acceleration = np.zeros_like(pose), np.zeros_like(pose)
    for k, (size, rate) in enumerate(
        zip((0.04, 0.03, 0.04, 0.2, 0.15, 0.2), (2.0, 3.1, 1.7, 2.3, 2.9, 1.3))
    ):
        pose[:, k] += size * np.sin(rate * t)
        speed[:, k] = size * rate * np.cos(rate * t)
        acceleration[:, k] = -size * rate**2 * np.sin(rate * t)
    return model.kinematics.motion(t, pose, speed, acceleration, "task")


def peer(model: Model, motion: Motion, names: tuple[Parameter, ...]):
    """Return a function that computes the same regressor with Pinocchio and NumPy."""
    robot, ids, order = tree(model.mechanism)
    data = robot.createData()
    bodies = [10 * (ids[name.owner] - 1) + INERTIAL.index(name.kind) for name in names]
    part = model.loops.partitions["actuated"]
    D, free = list(part.dependent), list(part.independent)
    kernel = model.kinematics._jacobian()
    v, a = motion.qd[:, free], motion.qdd[:, free]

    def run() -> np.ndarray:
        n = len(motion.q[0])
        K, _ = kernel(motion.q, np.zeros_like(motion.q), threads=1)
        E = np.zeros((len(motion), n, len(free)))
        E[:, free, range(len(free))] = 1.0
        E[:, D] = -np.linalg.solve(K[:, :, D], K[:, :, free])
        qd = np.einsum("tnm,tm->tn", E, v)
        _, rate = kernel(motion.q, qd, threads=1)
        qdd = np.einsum("tnm,tm->tn", E, a)
        qdd[:, D] -= np.linalg.solve(K[:, :, D], rate[:, :, None])[:, :, 0]
        W = np.empty((len(motion), n, len(bodies)))
        for t in range(len(motion)):
            W[t] = pin.computeJointTorqueRegressor(robot, data, motion.q[t], qd[t], qdd[t])[
                :, bodies
            ]
        return np.matmul(E.transpose(0, 2, 1), W)

    assert list(order) == list(range(len(order)))
    return run


def main() -> list[tuple[str, str, str, str]]:
    """Return rows: what, Gough, peer, remark."""
    rows = []
    model = Model(load_robot("palida"))
    rigid = [n for n in model.parameter_names() if n.inertial]
    base = base_parameters(model, parameters=rigid)
    names = column_names(base)
    motion = smooth_motion(model, 4000)
    v, a = (np.ascontiguousarray(x[:, list(model.independent)]) for x in (motion.qd, motion.qdd))
    kernel, band = model.regressor_kernel(names), np.zeros(24)

    def ours() -> None:
        for s in range(0, len(motion), 1000):
            kernel(motion.q[s : s + 1000], v[s : s + 1000], a[s : s + 1000], band, threads=1)

    theirs = peer(model, motion, names)
    error = np.abs(theirs() - model.regressor(motion, names)).max()
    t_ours, t_peer = best(ours) / len(motion), best(theirs, 2) / len(motion)
    rows.append(
        (
            f"6-UPS regressor, {len(names)} base columns, closure included, one thread",
            f"{t_ours * 1e6:.2f} us/sample",
            f"{t_peer * 1e6:.1f} us/sample (Pinocchio tree + NumPy)",
            f"{t_peer / t_ours:.0f} times; largest difference {error:.1e}",
        )
    )
    long = smooth_motion(model, 100_000)
    legs = np.ascontiguousarray(long.q[:, list(model.actuated)])
    seconds = best(lambda: model.kinematics.close_loops(legs, "actuated"), 2)
    back = model.kinematics.close_loops(legs, "actuated")
    rows.append(
        (
            "forward kinematics of 100,000 PaLiDA samples",
            f"{seconds:.2f} s",
            "-",
            f"largest error {np.abs(back - long.q).max():.1e}",
        )
    )
    script = (
        "import time; s = time.perf_counter()\n"
        "from gough.engine import Model, base_parameters\nfrom gough.mechanism import load_robot\n"
        "m = Model(load_robot('palida')); base_parameters(m, tie_legs=True)\n"
        "print(time.perf_counter() - s)"
    )
    with tempfile.TemporaryDirectory() as cache:
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", script],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={"GOUGH_CACHE_DIR": cache, "PATH": ""},
                ).stdout
            )
            for _ in range(2)
        ]
    rows.append(
        (
            "PaLiDA from import to base parameters, first and second process",
            f"{times[0]:.1f} s, then {times[1]:.2f} s",
            "-",
            "object code cached on disk",
        )
    )
    sample = random_motion(model, 200, seed=9)
    seconds = best(lambda: model.inverse_dynamics(motion)) / len(motion)
    rows.append(
        (
            "inverse dynamics of PaLiDA, all threads",
            f"{seconds * 1e6:.2f} us/sample",
            "-",
            f"closure residual {sample.closure_residual.max():.0e}",
        )
    )
    return rows


if __name__ == "__main__":
    for row in main():
        print(" | ".join(row))
