"""Time the engine on a hexapod: regressor, forward kinematics, start-up, inverse dynamics.

The regressor in actuated coordinates is compared with Pinocchio's tree regressor and NumPy. That
peer gets the closure Jacobian from our kernel for free, solves all closures in one batched NumPy
call, loops over samples only for Pinocchio's regressor, and projects in one batched product onto
the same base columns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import casadi
import numpy as np
import pinocchio as pin

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))
from pin_tree import tree

from gough.core.motion import Motion
from gough.core.names import INERTIAL, Parameter
from gough.engine import Model, base_parameters, random_motion
from gough.engine.columns import column_names
from gough.kernels.kernel import Kernel
from gough.mechanism import load_robot

Row = tuple[str, str, str, str]  # what was measured, Gough, peer, comment
AMPLITUDES = (0.04, 0.03, 0.04, 0.2, 0.15, 0.2)  # of the platform's coordinates [m, rad]
PULSATIONS = (2.0, 3.1, 1.7, 2.3, 2.9, 1.3)  # [rad/s]
START_UP = """
import time
start = time.perf_counter()
from gough.engine import Model, base_parameters
from gough.mechanism import load_robot
base_parameters(Model(load_robot("palida")), tie_legs=True)
print(time.perf_counter() - start)
"""


def shortest_time(run: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest time of several runs. [s]"""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def smooth_motion(model: Model, samples: int) -> Motion:
    """Return a motion in which each platform coordinate is a sine, sampled at 1 kHz."""
    t = np.arange(samples) * 1e-3
    pose = np.repeat(model.home[None, :6], samples, axis=0)
    velocity = np.zeros_like(pose)
    acceleration = np.zeros_like(pose)
    for k, (amplitude, w) in enumerate(zip(AMPLITUDES, PULSATIONS)):
        pose[:, k] += amplitude * np.sin(w * t)
        velocity[:, k] = amplitude * w * np.cos(w * t)
        acceleration[:, k] = -amplitude * w**2 * np.sin(w * t)
    return model.kinematics.motion(t, pose, velocity, acceleration, "task")


def closure_kernel(model: Model) -> Kernel:
    """Compile (q, qd) -> closure Jacobian K, its rate times velocity (dK/dt) qd."""
    q = casadi.SX.sym("q", len(model.mechanism.coordinates))
    qd = casadi.SX.sym("qd", q.shape[0])
    _, jacobian = model.loops.equations(q)
    jacobian_rate = casadi.jtimes(jacobian @ qd, q, qd)
    return Kernel(casadi.Function("closures", [q, qd], [jacobian, jacobian_rate]))


def pinocchio_regressor(model: Model, motion: Motion, names: tuple[Parameter, ...]):
    """Return a function that computes the same regressor with Pinocchio and NumPy.

    With K the closure Jacobian, D the dependent and I the independent coordinates:
    E_D = -K_D^-1 K_I,  qd = E qd_I,  qdd_D = (E qdd_I)_D - K_D^-1 (dK/dt) qd.
    """
    robot, joint_ids, order = tree(model.mechanism)
    assert list(order) == list(range(len(order)))
    data = robot.createData()
    columns = [10 * (joint_ids[name.owner] - 1) + INERTIAL.index(name.kind) for name in names]
    partition = model.loops.partitions["actuated"]
    dependent = list(partition.dependent)
    independent = list(partition.independent)
    closures = closure_kernel(model)
    velocity = motion.qd[:, independent]
    acceleration = motion.qdd[:, independent]

    def regressor() -> np.ndarray:
        n = motion.q.shape[1]
        K, _ = closures(motion.q, np.zeros_like(motion.q), threads=1)
        K = K.reshape(len(motion), -1, n)
        K_dependent = K[:, :, dependent]
        E = np.zeros((len(motion), n, len(independent)))
        E[:, independent, range(len(independent))] = 1.0
        E[:, dependent] = -np.linalg.solve(K_dependent, K[:, :, independent])
        qd = np.einsum("tnm,tm->tn", E, velocity)
        _, drift = closures(motion.q, qd, threads=1)
        qdd = np.einsum("tnm,tm->tn", E, acceleration)
        drift = drift.reshape(len(motion), -1, 1)
        qdd[:, dependent] -= np.linalg.solve(K_dependent, drift)[:, :, 0]
        W = np.empty((len(motion), n, len(columns)))
        for t in range(len(motion)):
            tree_regressor = pin.computeJointTorqueRegressor(
                robot, data, motion.q[t], qd[t], qdd[t]
            )
            W[t] = tree_regressor[:, columns]
        return np.matmul(E.transpose(0, 2, 1), W)

    return regressor


def time_regressor(model: Model, motion: Motion) -> Row:
    """Compare the time of a regressor sample with that of Pinocchio and NumPy."""
    rigid = [name for name in model.parameter_names() if name.inertial]
    names = column_names(base_parameters(model, parameters=rigid))
    kernel = model.regressor_kernel(names)
    independent = list(model.independent)
    velocity = np.ascontiguousarray(motion.qd[:, independent])
    acceleration = np.ascontiguousarray(motion.qdd[:, independent])
    dead_band = np.zeros(motion.q.shape[1])

    def gough_regressor() -> None:
        for start in range(0, len(motion), 1000):
            block = slice(start, start + 1000)
            kernel(motion.q[block], velocity[block], acceleration[block], dead_band, threads=1)

    peer_regressor = pinocchio_regressor(model, motion, names)
    error = np.abs(peer_regressor() - model.regressor(motion, names)).max()
    gough_time = shortest_time(gough_regressor) / len(motion)
    peer_time = shortest_time(peer_regressor, 2) / len(motion)
    return (
        f"6-UPS regressor, {len(names)} base columns, closure included, one thread",
        f"{gough_time * 1e6:.2f} us/sample",
        f"{peer_time * 1e6:.1f} us/sample (Pinocchio tree + NumPy)",
        f"{peer_time / gough_time:.0f} times; largest difference {error:.1e}",
    )


def time_forward_kinematics(model: Model, samples: int) -> Row:
    """Time the forward kinematics from motor positions and compare with the exact motion."""
    motion = smooth_motion(model, samples)
    legs = np.ascontiguousarray(motion.q[:, list(model.actuated)])
    seconds = shortest_time(lambda: model.kinematics.close_loops(legs, "actuated"), 2)
    error = np.abs(model.kinematics.close_loops(legs, "actuated") - motion.q).max()
    return (
        f"forward kinematics of {samples:,} PaLiDA samples",
        f"{seconds:.2f} s",
        "-",
        f"largest error {error:.1e}",
    )


def time_start_up() -> Row:
    """Time two processes from import to base parameters; the second finds compiled kernels."""
    times = []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"GOUGH_CACHE_DIR": cache}
        for _ in range(2):
            process = subprocess.run(
                [sys.executable, "-c", START_UP],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            )
            times.append(float(process.stdout))
    return (
        "PaLiDA from import to base parameters, first and second process",
        f"{times[0]:.1f} s, then {times[1]:.2f} s",
        "-",
        "object code cached on disk",
    )


def time_inverse_dynamics(model: Model, motion: Motion) -> Row:
    """Time a sample of the inverse dynamics."""
    seconds = shortest_time(lambda: model.inverse_dynamics(motion)) / len(motion)
    check = random_motion(model, 200, seed=9)
    return (
        "inverse dynamics of PaLiDA, all threads",
        f"{seconds * 1e6:.2f} us/sample",
        "-",
        f"closure residual {check.closure_residual.max():.0e}",
    )


def main(samples: int = 4000, kinematics_samples: int = 100_000) -> list[Row]:
    """Run all measurements of this file."""
    model = Model(load_robot("palida"))
    motion = smooth_motion(model, samples)
    return [
        time_regressor(model, motion),
        time_forward_kinematics(model, kinematics_samples),
        time_start_up(),
        time_inverse_dynamics(model, motion),
    ]


if __name__ == "__main__":
    sizes = (100, 100) if "--small" in sys.argv else ()
    for row in main(*sizes):
        print(" | ".join(row))
